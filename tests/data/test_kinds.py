"""What columns are, and what becomes of them: in all messy files, and in a model's `columns_`."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import tallies
from messier import messier_files
from messy import messy_files
from tallies.data import kinds
from tallies.data.kinds import chosen, describe
from tallies.data.labels import encode_labels
from tallies.errors import DataError

FILES = {messy.name: messy for messy in [*messy_files(), *messier_files()]}


@pytest.mark.parametrize("name", FILES)
def test_the_kinds_of_a_messy_file(tmp_path, name):
    messy = FILES[name]
    (tmp_path / name).write_bytes(messy.body)
    columns = describe(tallies.read_table(tmp_path / name), roles={messy.target: "target"})
    assert dict(zip(columns.names, columns.kinds, strict=True)) == messy.kinds
    assert sum(columns.gaps) == messy.gaps
    usable = [name for name, kind in messy.kinds.items() if kind in ("number", "category") and name != messy.target]
    assert columns.of() == usable
    assert columns.of("target") == [messy.target]


def test_kinds_that_are_easily_mistaken():
    rng = np.random.default_rng(0)
    n = 40
    frame = pd.DataFrame(
        {
            "population": rng.permutation(n) * 1000 + 17,  # whole and distinct, but a quantity
            "patient_id": rng.permutation(n) + 500,
            "row": np.arange(n) + 1,
            "ticked": ["x"] + [None] * (n - 1),  # one value, and gaps that mean no
            "done": [True, False] * (n // 2),
            "half": [f"v{i % 20}" for i in range(n)],
            "version": [f"{i}.1.2" for i in range(n)],
            "when": [f"{1 + i % 28}/3/2020 10:{i}" for i in range(10, n + 10)],
        }
    )
    found = describe(frame)
    wanted = ["number", "id", "id", "category", "category", "category", "id", "date"]
    assert dict(zip(found.names, found.kinds, strict=True)) == dict(zip(frame, wanted, strict=True))


@pytest.mark.parametrize("days", [pd.period_range("2020-01", periods=12, freq="M"), pd.to_timedelta(range(12), "D")])
def test_periods_and_durations_are_dates(days):
    found = describe(pd.DataFrame({"size": np.arange(12.0) % 5, "when": days.repeat(2)[:12]}))
    assert found.kinds == ["number", "date"]
    assert found.of() == ["size"]


def test_what_is_told_wins():
    frame = pd.DataFrame({"zip": [10115.0, None, 10117.0], "day": ["2020-01-01"] * 2 + ["2020-01-02"], "size": [1.0, 2.0, 3.0]})
    told = describe(frame, drop=["size"], keep=["day"], kinds={"zip": "category"})
    assert told.of() == ["zip", "day"]
    assert told.uses[2] == "left out: as told"
    from tallies.data.kinds import chosen

    assert chosen(frame, told)["zip"].tolist()[::2] == ["10115", "10117"]
    for wrong, words in (
        ({"drop": ["siz"]}, "did you mean 'size'"),
        ({"kinds": {"size": "date"}}, "number or category"),
        ({"drop": ["day"], "keep": ["day"]}, "choose one"),
    ):
        with pytest.raises(DataError, match=words):
            describe(frame, **wrong)
    with pytest.raises(DataError, match=r"to hold numbers, but has 'x'"):
        chosen(pd.DataFrame({"a": ["1", "x"]}), describe(pd.DataFrame({"a": ["1", "x"]}), kinds={"a": "number"}))


@pytest.mark.parametrize("name", ["GDA", "NaiveBayes", "FEM", "FEMNetwork"])
def test_a_model_remembers_its_columns(tmp_path, name):
    path = tmp_path / "full.csv"
    messy = FILES["full.csv"]
    frame = pd.DataFrame({"size": [1.0, 2.0, None, 4.0] * 5, "n": [1, 2, 2, 1] * 5})
    y = ["a", "b"] * 10
    model = getattr(tallies, name)().fit(frame, y)
    assert model.columns_.to_dict("list") == {
        "column": ["size", "n"],
        "kind": ["number", "number"],
        "gaps": [5, 0],
        "levels": [3, 2],
        "use": ["used", "used"],
    }
    with pytest.raises(AttributeError, match="was not fitted on a data frame"):
        _ = getattr(tallies, name)().fit(frame.fillna(0).to_numpy(), y).columns_
    path.write_bytes(messy.body if name != "GDA" else messy.body.replace(b"rough", b"1").replace(b"smooth", b"2"))
    model = getattr(tallies, name)().fit(path, messy.target if name != "FEMNetwork" else None)
    table = model.columns_.set_index("column")
    assert table.loc["day", "use"].startswith("left out: a date")
    assert table.loc["sort", "use"] == ("target" if name != "FEMNetwork" else "used")
    model.save(tmp_path / "m.tallies")
    again = tallies.load(tmp_path / "m.tallies")
    pd.testing.assert_frame_equal(again.columns_, model.columns_)
    if name != "FEMNetwork":
        assert (again.predict(path) == tallies.read_table(path)["sort"]).mean() > 0.9


def test_a_file_read_otherwise_is_still_understood(tmp_path):
    """Codes that were words in the fit, since one of them was, and are all digits in another file."""
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("y,plot\n" + "a,1\nb,2\nb,x\n" * 6)
    new.write_text("plot\n1\n2\n")
    assert tallies.NaiveBayes().fit(old, "y").predict(new).tolist() == ["a", "b"]


def test_advice_on_extras_fits_the_install(monkeypatch):
    from tallies import errors

    if not (errors.Path(errors.__file__).parents[2] / "pyproject.toml").is_file():
        pytest.skip("tallies is not imported from its tree")
    assert "pip install -e '" in str(errors.MissingExtra("p", "plots", "Drawing"))
    monkeypatch.setattr(errors, "__file__", "/usr/lib/python3/site-packages/tallies/errors.py")
    assert str(errors.MissingExtra("p", "plots", "Drawing")).endswith("pip install 'tallies[plots]'")


def test_the_values_of_measured_numbers_are_not_counted_in_many_rows(monkeypatch):
    monkeypatch.setattr(kinds, "MANY", 50)
    rng = np.random.default_rng(0)
    size, step = pd.Series(rng.normal(size=60)), pd.Series(np.arange(60.0) + 1.0)
    size[3] = None
    assert kinds.kind_of_column("size", size) == ("number", 1, 0)
    assert kinds.kind_of_column("size", size[:40]) == ("number", 1, 39)
    assert kinds.kind_of_column("half", pd.Series(np.full(60, 0.5))) == ("constant", 0, 1)  # these three are what they were
    assert kinds.kind_of_column("plot", step) == ("id", 0, 60)
    assert kinds.kind_of_column("eggs", step % 7) == ("number", 0, 7)


def test_classes_that_are_texts_are_sorted_and_coded():
    y = np.array(["oak", "elm", None, "ash", "elm"] * 9, dtype=object)
    classes, codes = encode_labels(y, len(y), missing=True)
    known = y[codes >= 0].astype(str)
    np.testing.assert_array_equal(classes, np.unique(known))
    np.testing.assert_array_equal(classes[codes[codes >= 0]], known)
    assert (codes < 0).sum() == 9
    assert classes.dtype == object


def test_what_is_known_of_all_columns_is_not_copied_for_each():
    frame = pd.DataFrame({f"x{i}": [0.5, 1.5] for i in range(20)})
    found = chosen(frame, describe(frame))
    assert found["x3"].attrs["columns"] is found.attrs["columns"]


@pytest.mark.parametrize("gap", [np.nan, None, pd.NA])
def test_a_gap_in_a_list_of_words_is_no_class(gap):
    classes, codes = encode_labels([gap, "b", "a", "b"], 4, missing=True)
    assert (classes.tolist(), codes.tolist()) == (["a", "b"], [-1, 1, 0, 1])
    with pytest.raises(DataError, match="1 missing labels"):
        tallies.NaiveBayes().fit([[1.0], [2.0], [3.0], [4.0]], [gap, "b", "a", "b"])
    with pytest.raises(DataError, match="labels must be of one type"):
        encode_labels([1, "b", "a"], 3, missing=False)


def test_decimals_are_numbers():
    frame = pd.DataFrame({"price": [Decimal("1.5"), None, Decimal("2.5"), Decimal("7.5")]})
    plain = tallies.GDA().fit(frame.astype(float), list("abab"))
    np.testing.assert_array_equal(tallies.GDA().fit(frame, list("abab")).means_, plain.means_)
