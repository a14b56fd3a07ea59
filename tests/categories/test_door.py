"""Categories at the door of FEM, and input that is bad."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import KFold

import tallies
from tallies import FEM, FEMNetwork
from tallies.categories import choose as fem_choose
from tallies.categories.door import code_columns, learn, read_codes
from tallies.data.fasta import read_fasta
from tallies.errors import DataError, DataWarning


def frame():
    return pd.DataFrame(
        {
            "colour": pd.Categorical(["red", "blue", "red", None, "blue", "red"] * 5),
            "legs": [2, 4, 4, 2, 2, 4] * 5,
            "wings": [True, False, False, True, True, False] * 5,
            "size": np.linspace(0, 1, 30),
        }
    )


Y = ["a", "b", "b", "a", "a", "b"] * 5


def test_kinds_of_columns_keep_their_names():
    model = FEM(ridge=1.0, bins={"size": 3}).fit(frame(), Y)
    assert model.categories_.labels[:3] == [["blue", "red", "missing"], ["2", "4"], ["False", "True"]]
    assert [name.split("=")[0] for name in model.weights_.index[-3:]] == ["size"] * 3
    assert "legs=2" in model.weights_.index
    assert np.bincount(read_codes(model, frame(), model.categories_)[:, 3]).tolist() == [10, 10, 10]


def test_polars_and_arrays_give_the_same():
    X = frame()[["legs", "wings"]]
    a = FEM(ridge=1.0).fit(X, Y).predict_proba(X)
    b = FEM(ridge=1.0).fit(pl.from_pandas(X), Y).predict_proba(pl.from_pandas(X))
    c = FEM(ridge=1.0).fit(X.to_numpy().astype(str), Y).predict_proba(X.to_numpy().astype(str))
    np.testing.assert_allclose(a, b)
    np.testing.assert_allclose(a, c)


def test_missing_is_a_state_or_nothing():
    X = np.array([["a"], ["b"], [None]] * 20, dtype=object)
    y = [0, 1, 1] * 20
    assert FEM(ridge=0.1).fit(X, y).predict_proba([[None]])[0, 1] > 0.9
    np.testing.assert_allclose(FEM(ridge=0.1, missing="ignore").fit(X, y).predict_proba([[None]]), 0.5)
    X[2::3] = "b"  # no missing value when fitted: it then contributes nothing
    model = FEM(ridge=0.1).fit(X, y)
    np.testing.assert_allclose(model.predict_proba([[None]]), model.predict_proba([["never seen"]]))


def test_an_unseen_state_is_the_mean_of_the_known_ones_in_scores():
    X = [["a", "x"], ["b", "z"], ["a", "z"], ["b", "x"]] * 10
    model = FEM(degree=2, ridge=0.5).fit(X, [0, 1, 1, 1] * 10)

    def score(row):
        return np.subtract(*model.predict_log_proba([row])[0])

    assert score(["?", "x"]) == pytest.approx((score(["a", "x"]) + score(["b", "x"])) / 2)


@pytest.mark.parametrize(
    ("model", "X", "y", "says"),
    [
        (FEM(), [["a"], ["b"]], [1, 1], "one class"),
        (FEM(), [["a", None], ["b", None]], [0, 1], "no observed value"),
        (FEM(degree=3), [["a", "b"], ["b", "c"]], [0, 1], "lower degree to 2"),
        (FEM(degree=0), [["a", "b"], ["b", "c"]], [0, 1], "degree must be"),
        (FEM(degree="two"), [["a", "b"], ["b", "c"]], [0, 1], "degree must be"),
        (FEM(degree=1.5), [["a", "b"], ["b", "c"]], [0, 1], "degree must be"),
        (FEM(ridge=-1), [["a"], ["b"]], [0, 1], "ridge must be"),
        (FEM(ridge=0.0, solver="kernel"), [["a"], ["b"]], [0, 1], "needs a ridge"),
        (FEM(solver="newton"), [["a"], ["b"]], [0, 1], "solver must be"),
        (FEM(screen=0), [["a"], ["b"]], [0, 1], "screen must be"),
        (FEM(missing="drop"), [["a"], ["b"]], [0, 1], "missing must be"),
        (FEM(bins=1), [["a"], ["b"]], [0, 1], "bins must be"),
        (FEM(bins={"x9": 3}), [["a"], ["b"]], [0, 1], "does not have"),
        (FEM(), [[np.inf], [1.0]], [0, 1], "infinity"),
        (FEM(), [["a"], ["b"]], [0, np.nan], "missing labels"),
        (FEM(), [["a"], ["b"]], [0], "inconsistent"),
        (FEM(cv=1), [["a"], ["b"]], [0, 1], "cv must be"),
        (FEM(cv=KFold(2)), [["a"], ["b"]], [0, 1], "as list"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(model, X, y, says):
    with pytest.raises(ValueError, match=says):
        model.fit(np.array(X, dtype=object) if isinstance(X[0][0], str) else np.array(X), y)


@pytest.mark.parametrize(
    ("model", "X", "says"),
    [
        (FEMNetwork(), [["a"], ["b"], ["a"]], "at least two variables"),
        (FEMNetwork(degree=2), [["a", "b"], ["b", "b"], ["b", "a"]], "lower degree to 1"),
        (FEMNetwork(lag=2), [["a", "b"]] * 3, "lag must be"),
        (FEMNetwork(reweight=0.0), [["a", "b"]] * 3, "reweight must be"),
        (FEMNetwork(), [["a", "b"]], "at least 2 rows"),
        (FEMNetwork(ridge="strong"), [["a", "b"]] * 3, "ridge must be"),
        (FEMNetwork(solver="kernel"), [["a", "b"]] * 3, 'solver must be "auto", "fem" or "lbfgs"'),
    ],
)
def test_bad_networks_are_refused(model, X, says):
    with pytest.raises(ValueError, match=says):
        model.fit(X)


def test_columns_that_teach_nothing_are_named():
    X = pd.DataFrame({"id": [f"n{i}" for i in range(60)], "one": "same", "good": [0, 1] * 30})
    with pytest.warns(DataWarning) as caught:
        model = FEM(ridge=1.0).fit(X, [0, 1] * 30)
    text = " ".join(str(w.message) for w in caught)
    assert "'one'" in text
    assert "'id' (60)" in text
    assert np.isfinite(model.predict_proba(X)).all()
    assert not model.weights_.loc["one=same"].any()


def test_more_states_than_rows_and_missing_cells():
    X = np.array([[f"s{i}", None if i % 3 else "a"] for i in range(12)], dtype=object)
    model = FEM(ridge=1.0).fit(X, [0, 1] * 6)  # 12 names and a gap: more states than rows
    assert len(model.weights_) == 1 + 12 + 2
    assert np.isfinite(model.predict_proba([["never", np.nan]])).all()
    with pytest.warns(DataWarning, match="one state"):
        network = FEMNetwork(ridge=1.0).fit([["a", "x", "u"], ["b", "x", "v"]] * 5)
    assert not network.scores(apc=False)[1].any()
    with pytest.raises(DataError, match="no observed value"):
        FEMNetwork().fit([["a", None], ["b", None], ["a", None]])


def test_a_hundred_thousand_strings():
    X = pd.DataFrame({"name": [f"n{i}" for i in range(100_000)], "good": [0, 1] * 50_000})
    with pytest.warns(DataWarning, match="nearly every"):
        model = FEM(ridge=1.0, tol=1e-5).fit(X, [0, 1] * 50_000)
    assert model.score(X, [0, 1] * 50_000) == 1.0
    twice = X.assign(other=X["name"] + "'")  # refused before any table of 10^10 cells is made
    with pytest.raises(DataError, match="bin or drop columns with many states"):
        FEM(degree=2, screen=3, ridge=1.0).fit(twice, [0, 1] * 50_000)
    with pytest.raises(DataError, match=r"GiB.*keep the strongest pairs"):
        FEM(degree=2, ridge=1.0).fit(twice, [0, 1] * 50_000)
    with pytest.raises(DataError, match=r"GiB.*leave out variables"):
        FEMNetwork(ridge=1.0).fit(X)


def test_a_network_beyond_memory_is_refused_before_its_features_are_made():
    X = np.random.default_rng(0).integers(0, 3, (100, 500))
    with pytest.raises(DataError, match=r"560,253,750 features.* GiB.*lower degree, leave out variables"):
        FEMNetwork(degree=3, ridge=1.0).fit(X)  # 21 million groups: listing them would take minutes


@pytest.mark.parametrize("missing", ["state", "ignore"])
def test_nan_in_numbers(missing):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (200, 3)).astype(float)
    y = X[:, 0] == 1
    X[rng.random(X.shape) < 0.1] = np.nan
    model = FEM(degree=2, ridge=1.0, missing=missing).fit(X, y)
    assert model.categories_.labels[0] == ["0", "1", "2", "missing"][: 4 if missing == "state" else 3]
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert ((P[:, 1] > 0.5) == y)[~np.isnan(X[:, 0])].all()
    network = FEMNetwork(ridge=1.0, missing=missing).fit(X)
    assert np.isfinite(network.energy(X)).all()
    binned = FEM(ridge=1.0, missing=missing, bins=2).fit(X, y)
    assert np.isfinite(binned.predict_proba(X)).all()


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["a", "b", "c"]), pl.String])
def test_polars_categories(kind):
    values = ["a", "b", None, "c"] * 10
    X = pl.DataFrame({"v": pl.Series(values, dtype=kind), "t": pl.Series([True, None, False, True] * 10)})
    model = FEM(ridge=1.0).fit(X, [0, 1, 1, 0] * 10)
    assert model.categories_.labels == [["a", "b", "c", "missing"], ["False", "True", "missing"]]
    assert model.score(X, [0, 1, 1, 0] * 10) == 1.0


def test_features_beyond_memory_use_the_kernel_or_say_so(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 4, (200, 40)), rng.integers(0, 2, 200)
    model = FEM(degree=4, ridge=10.0).fit(X, y)  # 24 million features
    assert model.solver_ == "kernel"
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.effect(x0=1, x5=2, x7=0, x9=3)).all()
    monkeypatch.setattr(fem_choose, "BUDGET", 1 << 18)
    with pytest.raises(DataError, match="GiB"):
        FEM(degree=4, ridge=10.0).fit(X, y)
    with pytest.raises(DataError, match="GiB"):
        FEM(degree=4, ridge=10.0, solver="lbfgs").fit(X, y)


def test_fasta(tmp_path):
    path = tmp_path / "a.fasta"
    path.write_text("".join(f">s{i} words\n{'ACGT'[i % 4]}C-\n{'GT'[i % 2]}\n" for i in range(40)))
    table = read_fasta(path)
    assert table.shape == (40, 4)
    assert table.loc["s1"].tolist() == ["C", "C", "-", "T"]
    with pytest.warns(DataWarning, match="one state"):
        model = FEMNetwork(ridge=1.0, reweight=0.8).fit(table)
    assert model.top_couplings(1)[["a", "b"]].values.tolist() == [["1", "4"]]
    path.write_text(">a\nACG\n>b\nAC\n")
    with pytest.raises(DataError, match="one length"):
        read_fasta(path)
    path.write_text("ACG\n")
    with pytest.raises(DataError, match="before any header"):
        read_fasta(path)
    with pytest.raises(FileNotFoundError):
        read_fasta(tmp_path / "none.fasta")


def test_perfect_fit_without_ridge_stays_finite():
    X, y = [["a"], ["b"]] * 10, [0, 1] * 10
    for degree in (1, "auto"):
        model = FEM(degree=degree, ridge=0.0, max_iter=5000).fit(X, y)
        assert np.isfinite(model.fitted_.W).all()
        assert model.score(X, y) == 1.0
        assert np.isfinite(model.standard_errors(X, y, n_boot=3)).all(axis=None)


def test_command_line_functions(tmp_path):
    from tallies.cli.configs import merged
    from tallies.registry import furniture

    data = frame().assign(y=Y)
    path = tmp_path / "t.csv"
    data.to_csv(path, index=False)
    options = {"data": str(path), "target": "y", "columns": ["colour", "legs", "wings"], "weights": None}
    model = FEM(degree=2, ridge=1.0)
    furniture(model, "command").fit(model, options, progress=False)
    assert furniture(model, "command").predict(model, options, str(path))["prediction"].tolist() == Y
    assert furniture(model, "command").score(model, options, str(path))[0]["accuracy"] == 1.0
    with pytest.raises(DataError, match="fem-network"):
        furniture(model, "command").sample(model, options, 3, 0)
    assert "legs" in model.summary()
    network = FEMNetwork(ridge=1.0)
    options = {"data": str(path), "columns": ["legs", "wings", "y"], "weights": None}
    furniture(network, "command").fit(network, options, progress=False)
    assert "energy" in furniture(network, "command").predict(network, options, str(path))
    assert furniture(network, "command").score(network, options, str(path))[0]["kind"] == "conditional"
    assert len(furniture(network, "command").sample(network, options, 7, 0)) == 7
    found = merged("fem", {"degree": "1,3", "ridge": "0.5"}, {}, None)
    assert (found["degree"], found["ridge"]) == ([1, 3], 0.5)
    for key in ("degree", "ridge"):
        with pytest.raises(DataError, match=f"--{key}"):
            merged("fem", {key: "x"}, {}, None)
    assert tallies.evaluate(model, data[["colour", "legs", "wings"]], Y).kind == "conditional"


def test_a_number_on_an_edge_is_in_the_interval_that_ends_there():
    x = np.array([1.0, 2.0, 3.0])
    known = learn(["x"], [x], "state", {"x": 2})
    assert known.labels == [["<=2", ">2"]]
    assert code_columns([x], known)[:, 0].tolist() == [0, 0, 1]


def test_cut_points_are_written_in_as_many_digits_as_tell_them_apart():
    x = 1.7e9 + np.arange(200.0)
    labels = FEM(bins=4, ridge=1.0).fit(pd.DataFrame({"time": x}), x > x.mean()).categories_.labels[0]
    assert labels == ["<=1700000050", "1700000050..1700000100", "1700000100..1700000149", ">1700000149"]


def test_states_that_are_written_alike_have_labels_of_their_own():
    X = pd.DataFrame({"a": pd.Series([1, "1", "missing", None] * 10, dtype=object)})
    model = FEM(ridge=1.0).fit(X, ["u", "v", "w", "x"] * 10)
    assert model.categories_.labels == [["1", "'1'", "missing", "(missing)"]]
    assert model.weights_.index.is_unique
    for state, class_ in ((1, "u"), ("1", "v"), ("'1'", "v"), ("missing", "w"), ("(missing)", "x")):
        assert model.effect(a=state).idxmax() == class_


@pytest.mark.parametrize(
    "X", [pd.DataFrame({"a": [1.0, np.inf]}), np.array([[1], [np.inf]], dtype=object)], ids=["frame", "objects"]
)
def test_an_infinite_category_is_refused_in_words(X):
    with pytest.raises(DataError, match="infinity in 1 cells"):
        FEM(ridge=1.0).fit(X, [0, 1])
    model = FEM(ridge=1.0).fit(X.iloc[[0, 0]] if hasattr(X, "iloc") else X[[0, 0]], [0, 1])
    with pytest.raises(DataError, match="infinity in 1 cells"):
        model.predict(X)


@pytest.mark.parametrize("test", [[-1, 0], [-30, 0], [0, 1, 2]])
def test_a_split_that_holds_out_strange_rows_is_refused(test):
    with pytest.raises(DataError, match=r"cv holds out row|in several test sets"):
        FEM(cv=[([0], test), ([0], range(1, 20))]).fit([["a"], ["b"]] * 10, [0, 1] * 10)
