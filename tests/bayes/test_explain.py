"""Why a row was called so: contributions add up to the log odds, and are those of a computation by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal, norm, poisson

from tallies import GDA, NaiveBayes
from tallies.datasets import birds, load
from tallies.errors import DataError

COLUMNS = ["row", "predicted", "against", "feature", "value", "contribution"]


def gaps(X, share=0.2):
    return X.mask(np.random.default_rng(1).random(X.shape) < share)


def words():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    return sp.csr_array(rng.poisson(np.where(np.arange(8) % 3 == y[:, None], 2.0, 0.3))), y


IRIS, BIRDS = load("iris"), birds(200)
COUNTED = BIRDS.X.assign(n=np.arange(200) % 7, m=np.arange(200) % 5)
CASES = {
    "shared": (GDA(), IRIS.X, IRIS.y),
    "class": (GDA(covariance="class"), IRIS.X, IRIS.y),
    "diagonal": (GDA(covariance="diagonal", priors=[0.2, 0.2, 0.6]), IRIS.X, IRIS.y),
    "shrunk": (GDA(shrinkage="auto"), IRIS.X.astype(np.float32).to_numpy(), IRIS.y),
    "shared, gaps": (GDA(), gaps(IRIS.X), IRIS.y),
    "class, gaps": (GDA(covariance="class"), gaps(IRIS.X), IRIS.y),
    "no variance in one direction": (GDA(), np.column_stack([IRIS.X, IRIS.X.iloc[:, 0] * 2, np.ones(150)]), IRIS.y),
    "mixed": (NaiveBayes(families={"eggs": "poisson"}), BIRDS.X, BIRDS.y),
    "mixed with words": (NaiveBayes(families={"n": "multinomial", "m": "multinomial"}), COUNTED, BIRDS.y),
    "words": (NaiveBayes(), *words()),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_contributions_add_up_to_the_log_odds(case):
    model, X, y = case
    model.fit(X, y)
    table = model.explain(X)
    assert list(table.columns) == COLUMNS
    n, J = X.shape[0], model.log_joint(X)
    code = {name: k for k, name in enumerate(model.classes_)}
    each = table.groupby("row", sort=False)
    assert len(each) == n
    assert each["predicted"].first().tolist() == model.predict(X).tolist()
    a, b = (each[which].first().map(code).to_numpy() for which in ("predicted", "against"))
    second = np.where(np.arange(len(code)) == a[:, None], -np.inf, J).argmax(axis=1)
    assert b.tolist() == second.tolist()
    odds = J[np.arange(n), a] - J[np.arange(n), b]
    np.testing.assert_allclose(each["contribution"].sum(), odds, rtol=1e-9, atol=1e-9)
    falls = each["contribution"].apply(lambda c: np.diff(np.abs(c)).max(initial=-1.0))
    assert (falls <= 0).all()  # the largest first


def test_gaussian_columns_by_hand():
    X, y = np.array([[0.0, 1.0], [2.0, 3.0], [5.0, 1.0], [7.0, 2.0], [6.0, 4.0]]), ["a", "a", "b", "b", "b"]
    model = GDA(covariance="diagonal").fit(X, y)
    found = model.explain([[1.0, 5.0]]).set_index("feature")["contribution"]
    sd = np.sqrt(model.covariance_)
    for j, x in enumerate((1.0, 5.0)):
        p, q = (norm(model.means_[k, j], sd[k, j]).logpdf(x) for k in (0, 1))
        assert found[j] == pytest.approx(p - q)
    assert found["(prior)"] == pytest.approx(np.log(2 / 3))


def test_linear_scores_are_coefficients_times_values_about_the_middle():
    model = GDA().fit(IRIS.X, IRIS.y)
    row = IRIS.X.iloc[[70]]
    found = model.explain(row)
    a, b = (model.classes_.tolist().index(found[which][0]) for which in ("predicted", "against"))
    w = np.linalg.solve(model.covariance_, model.means_[a] - model.means_[b])
    expected = w * (row.to_numpy()[0] - (model.means_[a] + model.means_[b]) / 2)
    by_name = found.set_index("feature")["contribution"]
    np.testing.assert_allclose([by_name[name] for name in IRIS.X], expected, rtol=1e-6)
    assert "(spread)" not in by_name
    assert by_name["(prior)"] == pytest.approx(0.0, abs=1e-12)


def test_what_belongs_to_no_column_is_said_in_the_middle_of_the_means():
    """Between two means each column is even; what is left is what the covariances say of any row."""
    model = GDA(covariance="class").fit(IRIS.X.to_numpy()[50:], IRIS.y[50:])
    middle = model.means_.mean(axis=0)
    found = model.explain([middle]).set_index("feature")["contribution"]
    assert np.abs(found[[0, 1, 2, 3]]).max() < 1e-12
    p = [multivariate_normal(m, c).logpdf(middle) for m, c in zip(model.means_, model.covariance_, strict=True)]
    assert found["(spread)"] == pytest.approx(max(p) - min(p))


def test_states_and_counts_by_hand():
    X = pd.DataFrame({"colour": ["red", "red", "blue", "red"], "eggs": [1, 2, 5, 6]}, index=list("pqrs"))
    model = NaiveBayes().fit(X, ["a", "a", "b", "b"])
    table, rate = model.tables_["colour"], model.tables_["eggs"]["rate"]
    new = pd.DataFrame({"eggs": [2, 0], "colour": ["red", "green"]}, index=["u", "v"])  # columns in another order
    found = model.explain(new)
    assert found["row"].unique().tolist() == ["u", "v"]
    one = found[found["row"] == "u"].set_index("feature")
    assert one.loc["colour", "value"] == "red"
    assert one.loc["eggs", "value"] == 2
    assert one.loc["(prior)", "value"] is None
    assert one.loc["colour", "contribution"] == pytest.approx(np.log(table.loc["a", "red"] / table.loc["b", "red"]))
    assert one.loc["eggs", "contribution"] == pytest.approx(poisson(rate["a"]).logpmf(2) - poisson(rate["b"]).logpmf(2))
    other = found[found["row"] == "v"].set_index("feature")
    assert other.loc["colour", "value"] == "green"  # never met in the fit, and as rare in both classes
    assert other.loc["colour", "contribution"] == pytest.approx(0.0)


def test_words_that_are_not_there_are_not_listed():
    model = NaiveBayes().fit(sp.csr_array([[2, 0, 1], [0, 3, 1]]), ["a", "b"])
    found = model.explain(sp.csr_array([[0, 2, 0]])).set_index("feature")
    assert sorted(map(str, found.index)) == ["(prior)", "1"]
    log_p = np.log([model.tables_[1]["probability"][k] for k in "ba"])
    assert found.loc[1, "contribution"] == pytest.approx(2 * (log_p[0] - log_p[1]))
    assert found.loc[1, "value"] == 2


def test_gaps_say_nothing():
    model = GDA().fit(IRIS.X, IRIS.y)
    row = IRIS.X.iloc[[60]].copy()
    row.iloc[0, [0, 3]] = np.nan
    found = model.explain(row).set_index("feature")
    assert (found.loc[IRIS.X.columns[[0, 3]], "contribution"] == 0).all()
    assert (found.loc[IRIS.X.columns[[1, 2]], "contribution"] != 0).all()


def test_what_is_impossible_is_infinite_and_never_nan():
    X = pd.DataFrame({"c": ["x", "x", "y", "y"], "d": ["p", "q", "p", "p"]})
    model = NaiveBayes(smoothing=0).fit(X, ["a", "a", "b", "b"])
    found = model.explain(pd.DataFrame({"c": ["x", "y"], "d": ["q", "q"]}))
    assert not found["contribution"].isna().any()
    assert np.isposinf(found.loc[(found["row"] == 0) & (found["feature"] == "c"), "contribution"]).all()


def test_one_class_has_nothing_to_be_told_from():
    model = GDA().partial_fit([[0.0], [1.0]], [0, 0])
    with pytest.raises(DataError, match="one class alone"):
        model.explain([[0.5]])
