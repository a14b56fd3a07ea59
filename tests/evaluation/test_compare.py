"""Models compared on the same rows: the error of a difference is that of the paired rows."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import tallies
from tallies import GDA, LDA, PLN
from tallies.errors import DataError
from tallies.evaluation.score import Scored, difference


def test_differences_and_errors_are_those_of_paired_rows():
    rng, y = np.random.default_rng(0), np.arange(50) % 2
    near, far, test = (rng.normal(*law, size=(n, 1)) for law, n in (((0, 1), 50), ((0.5, 2), 50), ((0, 1), 200)))
    values = {}
    for name, X in (("far", far), ("near", near)):  # half a Gaussian for each class, with one variance
        means = [X[y == k].mean() for k in (0, 1)]
        spread = np.sqrt(np.mean((X[:, 0] - np.array(means)[y]) ** 2))
        values[name] = np.log(np.mean([norm.pdf(test[:, 0], mean, spread) for mean in means], axis=0))
    apart = values["far"] - values["near"]
    table = tallies.compare({"far": GDA().fit(far, y), "near": GDA().fit(near, y)}, test)
    assert table.index.tolist() == ["near", "far"]
    assert table.loc["near", ["difference", "difference_stderr"]].tolist() == [0.0, 0.0]
    assert table["value"].tolist() == pytest.approx([values["near"].mean(), values["far"].mean()])
    assert table.loc["far", "difference"] == pytest.approx(apart.mean())
    assert table.loc["far", "difference_stderr"] == pytest.approx(apart.std(ddof=1) / np.sqrt(200))


def scored(rows, sizes=None, kind="exact"):
    rows = np.array(rows, dtype=float)
    sizes = np.ones(len(rows)) if sizes is None else np.array(sizes, dtype=float)
    return Scored(float(rows.sum() / sizes.sum()), kind, None, "nats/row", rows, sizes)


def test_rows_of_unequal_size_and_impossible_ones():
    assert difference(scored([2.0, 4.0], [1, 3]), scored([1.0, 5.0], [1, 3])) == (0.0, pytest.approx(np.sqrt((1 + 1) * 2) / 4))
    assert difference(scored([-np.inf, 1.0]), scored([-np.inf, 0.0])) == (0.5, pytest.approx(0.5))
    assert difference(scored([-np.inf, 1.0]), scored([0.0, 0.0])) == (-np.inf, None)
    assert difference(scored([1.0, 2.0]), scored([1.0, 2.0, 3.0]))[1] is None  # not the same rows
    assert difference(scored([1.0]), scored([0.0])) == (1.0, None)


def test_topics_are_compared_by_documents():
    rng = np.random.default_rng(1)
    X = rng.poisson(np.repeat([[4.0, 0.3], [0.3, 4.0]], 20, axis=0) @ np.eye(2).repeat(5, axis=1))
    models = {K: LDA(n_topics=K, max_iter=30, burn_in=20).fit(X) for K in (1, 2)}
    table = tallies.compare(models, X)
    assert table.index[0] == 2
    assert table.loc[1, "difference"] == pytest.approx(table.loc[1, "value"] - table.loc[2, "value"])
    assert 0 < table.loc[1, "difference_stderr"] < -table.loc[1, "difference"]


def test_estimates_have_the_error_of_rows_and_not_of_draws_alone():
    rng = np.random.default_rng(2)
    Y = rng.poisson(np.exp(rng.normal(1, 1, size=(60, 3))))
    models = {"full": PLN().fit(Y), "diagonal": PLN(covariance="diagonal").fit(Y)}
    table = tallies.compare(models, Y, method="importance")
    rows = [models[name].evidence(Y).rows for name in table.index]
    assert table["difference_stderr"].iloc[1] == pytest.approx((rows[1] - rows[0]).std(ddof=1) / np.sqrt(60))


def test_other_columns_are_warned_of():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"])
    y = np.arange(30) % 2

    class Narrow(GDA):  # reads its own columns of a table
        def _evaluate(self, X, y=None):
            return super()._evaluate(X[["a"]], y)

    with pytest.warns(UserWarning, match="likelihoods of different columns"):
        tallies.compare({"both": GDA().fit(X, y), "a": Narrow().fit(X[["a"]], y)}, X)


def test_rows_come_with_the_score_and_not_by_a_side_door():
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.arange(30) % 2

    class Kept(GDA):  # what it was worth was found before
        def _evaluate(self, X, y=None):
            return kept

    model = Kept().fit(X, y)
    kept = GDA._evaluate(model, X)
    np.testing.assert_array_equal(kept.rows, model.log_prob(X))
    other = GDA(covariance="class").fit(X, y)
    table = tallies.compare({"kept": model, "other": other}, X)
    apart = model.log_prob(X) - other.log_prob(X)
    assert table["difference_stderr"].max() == pytest.approx(apart.std(ddof=1) / np.sqrt(30))


def test_the_command_puts_the_best_first_with_the_paired_error(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.repeat(["p", "q"], 40)
    X = rng.normal(size=(80, 2)) * np.where(y == "p", 1.0, 3.0)[:, None]
    pd.DataFrame(X, columns=["a", "b"]).assign(kind=y).to_csv("n.csv", index=False)
    for name in ("shared", "class"):
        assert run("fit", "gda", "n.csv", "-t", "kind", "-o", name.upper(), "--covariance", name)[0] == 0
    code, out, _ = run("compare", "SHARED", "CLASS", "--data", "n.csv", "--json")
    assert code == 0
    table = json.loads(out)
    assert list(table) == ["CLASS", "SHARED"]
    joint = {name: tallies.load(f"{name}/model.tallies").log_joint(pd.DataFrame(X, columns=["a", "b"])) for name in table}
    own = {name: values[np.arange(80), (y == "q").astype(int)] for name, values in joint.items()}
    apart = own["SHARED"] - own["CLASS"]
    assert table["SHARED"]["difference"] == pytest.approx(apart.mean())
    assert table["SHARED"]["difference_stderr"] == pytest.approx(apart.std(ddof=1) / np.sqrt(80))


def test_nothing_to_compare_is_told():
    with pytest.raises(DataError, match="fitted models by their names"):
        tallies.compare({}, [[1.0]])
