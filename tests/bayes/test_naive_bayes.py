"""Naive Bayes against scikit-learn, scipy's distributions, and posteriors computed by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

from tallies import NaiveBayes
from tallies.bayes.door import check_multinomial
from tallies.errors import ConvergenceWarning, DataError

RNG = np.random.default_rng(11)
Y = RNG.integers(0, 3, 600)
TABLES = {
    "gaussian": (GaussianNB(), RNG.normal(size=(600, 4)) + 0.4 * Y[:, None]),
    "categorical": (CategoricalNB(), (RNG.integers(0, 4, (600, 5)) + Y[:, None] * (RNG.random((600, 5)) < 0.3)) % 5),
    "bernoulli": (BernoulliNB(), RNG.random((600, 6)) < 0.2 + 0.2 * Y[:, None]),
    "multinomial": (MultinomialNB(), RNG.poisson(1 + Y[:, None], (600, 7))),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", TABLES)
def test_equals_scikit_learn(family, weighted):
    theirs, X = TABLES[family]
    weight = RNG.random(600) + 0.5 if weighted else None
    if weighted and family == "gaussian":
        theirs = GaussianNB(var_smoothing=0)  # its floor ignores weights
    theirs.fit(X, Y, weight)
    ours = NaiveBayes(families=family).fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-7 if weighted else 1e-12)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_sparse_equals_dense():
    _, X = TABLES["multinomial"]
    dense, sparse = NaiveBayes(families="multinomial").fit(X, Y), NaiveBayes().fit(sp.csr_array(X), Y)
    np.testing.assert_array_equal(sparse.predict_proba(sp.csc_array(X)), dense.predict_proba(X))
    np.testing.assert_allclose(sparse.log_prob(sp.coo_array(X)), dense.log_prob(X), rtol=1e-13)


def test_joint_by_hand():
    """Every family in one small table: log p(x, y) from scipy's distributions with the estimates of the story."""
    X = pd.DataFrame(
        {
            "size": [1.0, 2.0, 4.0, 5.5, np.nan],
            "colour": ["red", "blue", "red", None, "red"],
            "eggs": [0, 1, 4, 6, 5],
            "wings": [True, False, True, True, False],
        }
    )
    y = np.array([0, 0, 1, 1, 1])
    model = NaiveBayes(smoothing=0.5).fit(X, y)
    floor = 1e-9 * np.var([1.0, 2.0, 4.0, 5.5])
    mean, variance = [1.5, 4.75], np.array([0.25, 0.5625]) + floor
    red, colours = np.array([1.5, 2.5]), np.array([2 + 1.0, 2 + 1.0])
    rate = np.array([(1 + 0.5 * 3.2) / 2.5, (15 + 0.5 * 3.2) / 3.5])
    wings = np.array([1.5 / 3, 2.5 / 4])
    for k in range(2):
        expected = np.log([0.4, 0.6][k])
        expected += stats.norm(mean[k], np.sqrt(variance[k])).logpdf(3.0) + np.log(red[k] / colours[k])
        expected += stats.poisson(rate[k]).logpmf(3) + np.log(wings[k])
        row = pd.DataFrame({"size": [3.0], "colour": ["red"], "eggs": [3], "wings": [True]})
        found = model.log_prob(row)[0] + model.predict_log_proba(row)[0, k]
        assert found == pytest.approx(expected, rel=1e-12)
    # what is missing drops out, column by column
    row = pd.DataFrame({"size": [np.nan], "colour": [None], "eggs": [3], "wings": [None]})
    expected = np.log([0.4, 0.6]) + stats.poisson(rate).logpmf(3)
    np.testing.assert_allclose(model.log_prob(row), np.logaddexp.reduce(expected), rtol=1e-12)


def test_multinomial_density_is_scipys():
    _, X = TABLES["multinomial"]
    model = NaiveBayes(families="multinomial").fit(X, Y)
    counts = np.stack([X[k == Y].sum(axis=0) for k in range(3)]) + 1.0
    p = counts / counts.sum(axis=1, keepdims=True)
    joint = np.stack([stats.multinomial(X.sum(axis=1), p[k]).logpmf(X) for k in range(3)], axis=1) + np.log(np.bincount(Y) / 600)
    np.testing.assert_allclose(model.log_prob(X), np.logaddexp.reduce(joint, axis=1), rtol=1e-11)
    np.testing.assert_allclose(model.history_[-1], joint[np.arange(600), Y].sum(), rtol=1e-11)


@pytest.mark.parametrize("family", [*TABLES, "poisson"])
def test_history_is_the_log_likelihood(family):
    X = TABLES["multinomial"][1] if family == "poisson" else TABLES[family][1]
    model = NaiveBayes(families=family).fit(X, Y)
    joint = model.log_prob(X) + model.predict_log_proba(X)[np.arange(600), Y]
    np.testing.assert_allclose(model.history_[-1], joint.sum(), rtol=1e-11)


def test_unseen_state_is_one_counted_zero_times():
    X = pd.DataFrame({"c": ["x", "x", "y", "y", "y"]})
    model = NaiveBayes().fit(X, [0, 0, 0, 1, 1])
    joint = np.log([0.6, 0.4]) + np.log([1 / (3 + 2), 1 / (2 + 2)])
    found = model.predict_log_proba(pd.DataFrame({"c": ["never met"]}))[0]
    np.testing.assert_allclose(found, joint - np.logaddexp.reduce(joint), rtol=1e-12)
    # without smoothing it has no probability at all and is passed over as if missing
    bare = NaiveBayes(smoothing=0).fit(X, [0, 0, 0, 1, 1])
    np.testing.assert_allclose(bare.predict_proba(pd.DataFrame({"c": ["never met"]}))[0], [0.6, 0.4])


def test_whole_numbers_far_apart_are_states_too():
    X = np.array([[1, 10**9], [1, 5], [7, 5], [7, 10**9]])
    model = NaiveBayes(families="categorical").fit(X, [0, 0, 1, 1])
    assert model.predict(np.array([[7, 5], [1, 5], [-3, 5]])).tolist()[:2] == [1, 0]
    np.testing.assert_allclose(model.predict_proba([[-3, 6]])[0], [0.5, 0.5])


def test_families_by_dtype_are_alike_in_pandas_polars_and_pyarrow():
    frame = pd.DataFrame(
        {
            "float": [0.5, None, 2.5, 3.0],
            "count": [0, 1, 5, 7],
            "signed": [-1, 0, 1, 2],
            "flag": [True, False, True, True],
            "text": ["a", "b", None, "b"],
        }
    )
    y = [0, 0, 1, 1]
    expected = {"float": "gaussian", "count": "poisson", "signed": "gaussian", "flag": "bernoulli", "text": "categorical"}
    tables = [frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)]
    fits = [NaiveBayes().fit(table, y) for table in tables]
    for model, table in zip(fits, tables, strict=True):
        assert model.families_ == expected
        np.testing.assert_array_equal(model.predict_proba(table), fits[0].predict_proba(frame))
    categories = frame.assign(count=frame["count"].astype("category"))
    assert NaiveBayes().fit(categories, y).families_["count"] == "categorical"
    assert NaiveBayes(families={"count": "categorical"}).fit(frame, y).families_ == {**expected, "count": "categorical"}


def test_batches_and_merges_unite_states_and_classes():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"c": rng.choice(list("abcdef"), 300), "x": rng.normal(size=300), "n": rng.poisson(3, 300)})
    frame.loc[rng.random(300) < 0.1, "c"] = None
    y = rng.integers(0, 3, 300)
    frame = frame.iloc[np.argsort(frame["c"].fillna("z"))].reset_index(drop=True)  # later batches bring new states
    whole = NaiveBayes().fit(frame, y)
    parts = NaiveBayes()
    for a in range(0, 300, 75):
        parts.partial_fit(frame[a : a + 75], y[a : a + 75], classes=[0, 1, 2])
    np.testing.assert_allclose(parts.predict_proba(frame), whole.predict_proba(frame), atol=1e-12)
    left, right = y < 2, y > 0
    other = frame.assign(c="new")
    merged = NaiveBayes().fit(frame[left], y[left]).merge(NaiveBayes().fit(other[right], y[right]))
    expected = NaiveBayes().fit(pd.concat([frame[left], other[right]]), np.concatenate([y[left], y[right]]))
    assert merged.classes_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(merged.predict_proba(other), expected.predict_proba(other), atol=1e-12)


def test_unlabelled_rows_are_used_and_partial_fit_refuses_them():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 400)
    X = rng.poisson(1 + 4 * y[:, None], (800, 3))
    few = np.where(np.arange(800) % 200 == 0, y, -1)
    model = NaiveBayes(semi_supervised=True).fit(X, few)
    assert model.converged_
    assert model.score(X, y) > 0.95
    with pytest.raises(DataError, match="EM"):
        model.merge(NaiveBayes(semi_supervised=True).fit(X, y))


@pytest.mark.parametrize(
    ("families", "X", "message"),
    [
        ("gaussian", pd.DataFrame({"a": ["x", "y", "z"]}), "'a' is gaussian and expects numbers, got 'x'"),
        ("poisson", np.array([[1], [-2], [3]]), "got -2"),
        ("poisson", np.array([[1.0], [0.5], [3.0]]), "got 0.5"),
        ("multinomial", np.array([[1.0], [-1.0], [3.0]]), "negative"),
        ("multinomial", np.array([[1.0], [np.nan], [3.0]]), "missing"),
        ("bernoulli", np.array([[0], [1], [2]]), "True/False or 1/0, got"),
        ("gausian", np.ones((3, 1)), "'gaussian'?"),
        ({"b": "poisson"}, pd.DataFrame({"a": [1.0, 2.0, 3.0]}), "does not have"),
        ("auto", pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 3)}), "turn dates into numbers"),
        ("auto", pl.DataFrame({"a": [[1], [2, 3], None]}), "turn lists into numbers"),
        ("auto", pd.DataFrame({"a": [None, None, None]}), "no observed value"),
        ("gaussian", np.array([[np.nan], [np.nan], [np.nan]]), "no observed value"),
        ("gaussian", np.array([[1.0], [np.inf], [2.0]]), "infinity"),
        ("categorical", sp.csr_array(np.ones((3, 1))), "sparse matrix"),
    ],
)
def test_bad_columns_are_refused_in_words(families, X, message):
    with pytest.raises(ValueError, match=message):
        NaiveBayes(families=families).fit(X, [0, 1, 0])


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "i4"])
def test_counts_of_words_are_looked_at_whatever_their_type(dtype):
    good = np.array([0, 1, 2, 3e30 if dtype[-2] == "f" else 9], dtype)
    for value in good:
        check_multinomial(np.append(good, value))
    if dtype[-2] == "f":
        check_multinomial(-np.zeros(3, dtype))
        check_multinomial(np.zeros(0, dtype))
    for value in [-1, -3e30, -5e-324, np.inf, -np.inf, np.nan] if dtype == "f8" else [-1]:
        with pytest.raises(DataError, match="some are"):
            check_multinomial(np.append(good, value).astype(dtype))


@pytest.mark.parametrize("X", [np.ones((4, 2)), sp.csr_array(np.ones((4, 2)))], ids=["dense", "sparse"])
def test_a_list_of_families_has_one_for_each_column(X):
    with pytest.raises(DataError, match="2 columns"):
        NaiveBayes(families=["gaussian"]).fit(X, [0, 1, 0, 1])


def test_a_checkpoint_of_categories_belongs_to_every_cell(tmp_path):
    """Two cells of a column exchanged within a class change no count of any class: they are other rows all the same."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.choice(["x", "y", "z"], 60) for name in "pqr"})
    y = np.array(["a", "b", None], dtype=object)[np.arange(60) % 3]
    with pytest.warns(ConvergenceWarning):
        NaiveBayes(semi_supervised=True, max_iter=2, tol=0.0).fit(X, y, checkpoint=tmp_path / "c")
    with pytest.warns(ConvergenceWarning):
        NaiveBayes(semi_supervised=True, max_iter=3, tol=0.0).fit(X, y, resume=tmp_path / "c")
    mine = np.flatnonzero(y == "a")
    i, j = next((i, j) for i in mine for j in mine if X.loc[i, "p"] != X.loc[j, "p"])
    other = X.copy()
    other.loc[[i, j], "p"] = X.loc[[j, i], "p"].to_numpy()
    with pytest.raises(ValueError, match="data"):
        NaiveBayes(semi_supervised=True, max_iter=3, tol=0.0).fit(other, y, resume=tmp_path / "c")


def test_labels_at_the_end_of_whole_numbers_and_states_without_order():
    X, y = np.array([[0.0], [1.0], [5.0], [6.0]]), np.array([2**64 - 1, 2**64 - 1, 2**64 - 2, 2**64 - 2], dtype=np.uint64)
    assert NaiveBayes().fit(X, y).predict(X).tolist() == y.tolist()
    odd = pd.DataFrame({"v": np.array([np.float64(3), None, np.float64(2), np.float64(3)], dtype=object)})
    odd.at[1, "v"] = (1, 2)
    assert NaiveBayes().fit(odd, [0, 1, 1, 0]).predict(odd).tolist() == [0, 1, 1, 0]


def test_a_wide_column_does_not_widen_the_others():
    """With a floor of 1e-9 of the largest variance, 1e11, the narrow column had a variance of 100 in place of 1."""
    rng, y = np.random.default_rng(0), np.repeat([0, 1], 200)
    narrow = rng.normal(size=400) + 6.0 * y
    alone = NaiveBayes().fit(narrow[:, None], y)
    beside = NaiveBayes().fit(np.column_stack([narrow, rng.normal(scale=3e5, size=400), np.full(400, 0.1)]), y)
    np.testing.assert_allclose(beside.tables_[0], alone.tables_[0], rtol=1e-12)
    assert beside.score(np.column_stack([narrow, np.zeros(400), np.full(400, 0.3)]), y) > 0.99  # nor does a constant one speak
