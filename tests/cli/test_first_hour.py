"""The first hour on the command line: messy files to pages, columns told of, rows held out, ids carried along."""

from __future__ import annotations

import json
import signal
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tallies
from messy import write
from tallies.bayes import command as bayes_command
from tallies.cli.holdout import parts
from tallies.data import files as files_module

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return {path.name: messy for path, messy in write(tmp_path)}


@pytest.mark.parametrize("name", ["trailing.csv", "park.xlsx", "windows.csv.gz", "r.txt", "trees.parquet", "dialect3.txt.gz"])
def test_a_messy_file_to_a_page(files, run, name):
    messy = files[name]
    code, out, err = run("fit", "naive-bayes", name, "-t", messy.target, "-o", "RUN", "--holdout", "0.3")
    assert code == 0, err
    assert all(words in err for words in messy.told)
    table = [line.split() for line in err.splitlines() if line.strip().startswith(tuple(messy.kinds))]
    assert {row[0] for row in table} >= {column.split()[0] for column in messy.kinds}
    assert "held out of the fit: rows" in out
    code, _, err = run("report", "RUN")
    assert code == 0, err
    assert "30% of the rows, held out of the fit" in Path("RUN/report.html").read_text()
    assert "it had not seen" in Path("RUN/report.html").read_text()
    if name == "trailing.csv":  # its own file, by name: the rows that were held out, too
        assert run("report", "RUN", name, "--force")[0] == 0
        assert "it had not seen" in Path("RUN/report.html").read_text()


def test_describe(run):
    code, out, err = run("describe", "gaps.csv", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["read"] == "separator ';', decimal comma"
    assert found["columns"][1] == {"column": "Höhe", "kind": "number", "gaps": 2, "levels": 16, "use": "used"}
    code, out, err = run("describe", "full.csv")
    assert "left out: every row has its own" in out
    assert "tallies fit naive-bayes full.csv --target COLUMN" in err


def test_dialects_may_be_told(run):
    Path("odd.csv").write_bytes("sort:size\nä:1,234\nb:5,678\n".encode("cp1252") * 6)
    told = ["--sep", ":", "--decimal", ",", "--encoding", "cp1252"]
    words = ["fit", "naive-bayes", "odd.csv", "-t", "sort", *told, "-o", "RUN", "-q"]
    assert run(*words)[0] == 0
    assert tomllib.loads(Path("RUN/run.toml").read_text())["sep"] == ":"
    assert tallies.load("RUN/model.tallies").classes_.tolist() == ["b", "ä"]
    assert run("score", "RUN", "odd.csv", "--json")[0] == 0  # as the fit was told
    Path("other.csv").write_text("sort~size\nä~1.234\nb~5.678\n", encoding="utf-8")  # another file, in another dialect
    code, out, err = run("score", "RUN", "other.csv", "--sep", "~", "--json")
    assert code == 0, err
    assert json.loads(out)["accuracy"] == 1.0
    code, _, err = run("describe", "trees.parquet", "--sep", ";")
    assert (code, "--sep is about tables of text" in err) == (2, True)


def test_columns_may_be_told(run):
    words = ["fit", "naive-bayes", "full.csv", "-t", "sort", "-q"]
    assert run(*words, "-o", "A", "--drop", "bark", "--keep", "day", "--kinds", "nr=category")[0] == 0
    model = tallies.load("A/model.tallies")
    assert model.feature_names_in_.tolist() == ["nr", "height", "leaves", "day"]
    assert model.families_["nr"] == "categorical"
    assert run("predict", "A", "full.csv", "-q", "-o", "p.csv")[0] == 0
    assert run(*words, "-o", "B", "--columns", "leaves,nr")[0] == 0
    assert tallies.load("B/model.tallies").feature_names_in_.tolist() == ["leaves", "nr"]
    for more, told in (
        (["--drop", "brak"], "did you mean 'bark'"),
        (["--keep", "sort"], "--target"),
        (["--kinds", "bark"], "column=number"),
        (["--kinds", "bark=colour"], "number or category"),
        (["--drop", "height,leaves,bark"], "no column is left"),
    ):
        code, _, err = run(*words, "-o", "C", *more)
        assert (code, told in err) == (2, True), err


def test_predictions_carry_the_ids(run):
    assert run("fit", "naive-bayes", "full.csv", "-t", "sort", "-o", "RUN", "-q")[0] == 0
    assert run("predict", "RUN", "full.csv", "-o", "p.csv", "-q")[0] == 0
    found = tallies.read_table("p.csv")
    assert found.columns[:3].tolist() == ["code", "nr", "prediction"]
    assert found["code"].tolist() == tallies.read_table("full.csv")["code"].tolist()
    assert run("fit", "fem-network", "full.csv", "-o", "NET", "-q")[0] == 0
    assert run("predict", "NET", "full.csv", "-o", "n.csv", "-q")[0] == 0
    assert tallies.read_table("n.csv").columns[0] == "code"


def test_rows_held_out_are_not_fitted(run):
    rng = np.random.default_rng(0)
    pd.DataFrame({"y": ["a", "b"] * 50, "x": rng.normal(size=100).round(6)}).to_csv("noise.csv", index=False)
    assert run("fit", "gda", "noise.csv", "-t", "y", "-o", "RUN", "--holdout", "0.2", "-q")[0] == 0
    held = parts(100, {"holdout": 0.2, "seed": 0}, labels=["a", "b"] * 50) == 1
    assert held.sum() == 20
    frame = pd.read_csv("noise.csv")
    assert held[frame["y"] == "a"].sum() == 10  # evenly over the classes
    model = tallies.load("RUN/model.tallies")
    by_hand = tallies.GDA().fit(frame.loc[~held, ["x"]], frame["y"][~held])
    np.testing.assert_array_equal(model.means_, by_hand.means_)
    told = json.loads(run("info", "RUN", "--json")[1])["held_out"]
    assert told["scores"]["accuracy"] == by_hand.score(frame.loc[held, ["x"]], frame["y"][held])
    assert "20% of the rows, held out" in run("info", "RUN")[1]


def test_a_table_is_read_once_by_a_command_and_told_of_once(run, monkeypatch):
    reads, read = [], files_module.contents
    monkeypatch.setattr(files_module, "contents", lambda path: reads.append(path.name) or read(path))
    for name, words in (
        ("semicolons.csv", ["fit", "naive-bayes", "semicolons.csv", "-t", "Art", "-o", "A", "--holdout", "0.3"]),
        ("semicolons.csv", ["report", "A"]),
        ("semicolons.csv", ["fit", "fem", "semicolons.csv", "-t", "Art", "-o", "B", "--cv", "2"]),
        ("full.csv", ["fit", "fem-network", "full.csv", "-o", "C", "--holdout", "0.3"]),
    ):
        code, _, err = run(*words)
        assert (code, reads) == (0, [name]), err
        assert err.count(f"{name} read with") == (name == "semicolons.csv")
        reads.clear()


def test_cross_validation(run):
    assert run("fit", "naive-bayes", "semicolons.csv", "-t", "Art", "-o", "RUN", "--cv", "3", "-q")[0] == 0
    told = json.loads(run("info", "RUN", "--json")[1])["held_out"]
    assert told["how"].startswith("by 3-fold cross-validation")
    assert 0 <= told["scores"]["accuracy"]["mean"] <= 1
    assert tallies.load("RUN/model.tallies").params_.n.sum() == 18  # all rows
    assert run("report", "RUN", "-q")[0] == 0
    assert "3-fold cross-validation" in Path("RUN/report.html").read_text()
    for words, message in (
        ("--cv 3 --holdout 0.2", "choose one"),
        ("--holdout 1.5", "between 0 and 1"),
        ("--holdout 0.01", "too few"),
    ):
        code, _, err = run("fit", "naive-bayes", "semicolons.csv", "-t", "Art", "-o", "X", *words.split())
        assert (code, message in err) == (2, True), err
    code, _, err = run("fit", "naive-bayes", "full.csv", "-t", "sort", "-o", "R1000", "--cv", "1000")
    assert (code, "rows into more folds than there are" in err) == (2, True)


def test_ctrl_c_in_a_fold_leaves_the_model_and_no_score(run, monkeypatch):
    """A fold that was cut short used to be scored like the others, and the next one to begin."""
    fits, fit = [], bayes_command.fit

    def pressed(model, options, **how):
        fits.append(model)
        if len(fits) == 3:
            signal.raise_signal(signal.SIGINT)
        return fit(model, options, **how)

    monkeypatch.setattr(bayes_command, "fit", pressed)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run in the background
    try:
        code, _, err = run("fit", "naive-bayes", "semicolons.csv", "-t", "Art", "-o", "RUN", "--cv", "3", "-q")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, len(fits)) == (130, 3)  # the model itself, and two folds
    assert "how good it is on unseen rows was not found out" in err
    assert json.loads(run("info", "RUN", "--json")[1])["held_out"] is None


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("lda", ["texts.jsonl", "-k", "2", "--sweeps", "9"]),
        ("pln", ["counts.csv", "--covariates", "sites.csv"]),
        ("fem", ["flowers.csv", "-t", "species", "--columns", "colour"]),
        ("fem-network", ["flowers.csv", "--columns", "colour,species"]),
        ("author-concept", ["papers.csv", "--ontology", "concepts.obo"]),
    ],
)
@pytest.mark.parametrize("how", [["--holdout", "0.3"], ["--cv", "2"]])
def test_every_model_can_hold_rows_out(tmp_path, run, model, words, how):
    from families import write_files

    write_files(tmp_path)
    code, _, err = run("fit", model, *words, "-o", "RUN", *how, "-q")
    assert code == 0, err
    assert json.loads(run("info", "RUN", "--json")[1])["held_out"]["scores"]
    assert run("report", "RUN", "-q")[0] == 0


def test_a_series_holds_out_its_end(tmp_path, run):
    from families import write_files

    write_files(tmp_path)
    code, _, err = run("fit", "fem-network", "flowers.csv", "--columns", "colour", "--lag", "1", "--cv", "3", "-o", "RUN")
    assert (code, "which takes the last ones" in err) == (2, True)
    assert parts(10, {"holdout": 0.2, "seed": 0}, in_order=True).tolist() == [0] * 8 + [1, 1]
