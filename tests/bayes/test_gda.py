"""GDA against scikit-learn, scipy's densities, and a direct maximisation of its likelihood."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

from tallies import GDA
from tallies.errors import DataError, DataWarning


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, 900)
    return rng.normal(size=(900, 5)) @ rng.normal(size=(5, 5)) + rng.normal(size=(4, 5))[y], y


@pytest.mark.parametrize("shrinkage", [None, "auto", 0.3])
def test_shared_equals_scikit_learn(data, shrinkage):
    X, y = data
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(X, y)
    ours = GDA(shrinkage=shrinkage).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_class_equals_scikit_learn(data):
    X, y = data
    theirs = QuadraticDiscriminantAnalysis(store_covariance=True).fit(X, y)
    ours = GDA(covariance="class").fit(X, y)
    n = np.bincount(y)[:, None, None]
    # releases before 1.9 divide by n - 1; take theirs to maximum likelihood where they do
    unbiased = np.allclose(np.array(theirs.covariance_) * (n - 1) / n, ours.covariance_, rtol=1e-12)
    factor = [(m - 1) / m if unbiased else 1.0 for m in np.bincount(y)]
    theirs.scalings_ = [s * f for s, f in zip(theirs.scalings_, factor, strict=True)]
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)


def test_diagonal_equals_gaussian_naive_bayes(data):
    X, y = data
    weight = np.random.default_rng(0).random(len(y)) + 0.5
    theirs, ours = GaussianNB().fit(X, y), GDA(covariance="diagonal").fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
    theirs, ours = GaussianNB(var_smoothing=0).fit(X, y, weight), GDA(covariance="diagonal").fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)  # ours keeps the floor of 1e-9


@pytest.mark.parametrize("covariance", ["shared", "class", "diagonal"])
def test_joint_equals_scipy_density(data, covariance):
    X, y = data
    model = GDA(covariance=covariance).fit(X, y)
    Sigma = model.covariance_
    full = [Sigma if covariance == "shared" else np.diag(Sigma[k]) if covariance == "diagonal" else Sigma[k] for k in range(4)]
    joint = np.stack([multivariate_normal(m, S).logpdf(X) for m, S in zip(model.means_, full, strict=True)], axis=1)
    joint += np.log(np.bincount(y) / len(y))
    np.testing.assert_allclose(model.log_prob(X), np.logaddexp.reduce(joint, axis=1), rtol=1e-10)
    np.testing.assert_allclose(model.history_[-1], joint[np.arange(len(y)), y].sum(), rtol=1e-10)


@pytest.mark.parametrize("covariance", ["shared", "class", "diagonal"])
def test_missing_cells_are_summed_out(data, covariance):
    X, y = data
    model = GDA(covariance=covariance).fit(X, y)
    Sigma = model.covariance_
    gappy = X[:50].copy()
    gappy[np.random.default_rng(0).random(gappy.shape) < 0.4] = np.nan
    gappy[0] = np.nan  # nothing observed: the prior is all there is
    for i, row in enumerate(gappy):
        o = np.flatnonzero(~np.isnan(row))
        joint = np.log(np.bincount(y) / len(y))
        for k in range(4):
            S = Sigma if covariance == "shared" else np.diag(Sigma[k]) if covariance == "diagonal" else Sigma[k]
            if len(o):
                joint[k] += multivariate_normal(model.means_[k, o], S[np.ix_(o, o)]).logpdf(row[o])
        total = np.logaddexp.reduce(joint)
        np.testing.assert_allclose(model.log_prob(gappy[i : i + 1]), total, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(model.predict_log_proba(gappy[i : i + 1])[0], joint - total, rtol=1e-8, atol=1e-10)
        assert model.predict(gappy[i : i + 1])[0] == joint.argmax()


def test_gaps_give_the_maximum_of_the_observed_likelihood():
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1], 30)
    X = rng.multivariate_normal([0, 0], [[1.0, 0.7], [0.7, 2.0]], 60) + np.array([[0.0, 0.0], [2.0, -1.0]])[y]
    X[rng.random(X.shape) < 0.25] = np.nan
    model = GDA(tol=1e-14, max_iter=5000).fit(X, y)

    def minus_log_likelihood(t: np.ndarray) -> float:
        L = np.array([[np.exp(t[4]), 0.0], [t[5], np.exp(t[6])]])
        value = 0.0
        for row, k in zip(X, y, strict=True):
            o = np.flatnonzero(~np.isnan(row))
            if len(o):
                value -= multivariate_normal(t[2 * k : 2 * k + 2][o], (L @ L.T)[np.ix_(o, o)]).logpdf(row[o])
        return value

    best = minimize(minus_log_likelihood, np.zeros(7), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(model.means_.ravel(), best.x[:4], atol=1e-4)
    # the labels have their own part, n log(1/2) here
    np.testing.assert_allclose(model.history_[-1], -best.fun + 60 * np.log(0.5), rtol=1e-7)


def test_missing_labels_reach_a_stationary_point():
    rng = np.random.default_rng(1)
    y = np.repeat([0.0, 1.0], 100)
    X = rng.normal(size=(200, 1)) + 1.5 * y[:, None]
    y[rng.random(200) < 0.6] = np.nan
    model = GDA(semi_supervised=True, tol=1e-15, max_iter=5000).fit(X, y)

    def log_likelihood(shift: float) -> float:
        mean = model.means_.ravel() + np.array([shift, 0.0])
        joint = np.stack([multivariate_normal(m, model.covariance_).logpdf(X.ravel()) for m in mean], 1) + model.params_.log_prior
        return np.where(np.isnan(y), np.logaddexp.reduce(joint, axis=1), joint[np.arange(200), np.nan_to_num(y).astype(int)]).sum()

    assert log_likelihood(0.0) == pytest.approx(model.history_[-1], rel=1e-10)
    slope = (log_likelihood(1e-4) - log_likelihood(-1e-4)) / 2e-4
    assert abs(slope) < 1e-4
    assert model.history_[-1] > log_likelihood(0.05)
    assert model.history_[-1] > log_likelihood(-0.05)


def test_unlabelled_rows_help():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 500)
    X = rng.normal(size=(1000, 2)) + 3.0 * y[:, None]
    few = np.where(np.arange(1000) % 250 < 2, y, -1)
    model = GDA(semi_supervised=True).fit(X, few)
    assert model.converged_
    assert model.score(X, y) > 0.97
    with pytest.raises(DataError, match="semi_supervised=True"):
        GDA().fit(X, np.where(few < 0, np.nan, few.astype(float)))


def test_offset_loses_no_digits(data):
    X, y = data
    X = np.round(X, 3)
    here, far = GDA().fit(X, y), GDA().fit(X + 2.0**20, y)  # a power of two: the data themselves are shifted exactly or nearly so
    np.testing.assert_allclose(far.covariance_, here.covariance_, atol=1e-9)
    np.testing.assert_allclose(far.predict_proba(X + 2.0**20), here.predict_proba(X), atol=1e-7)


def test_rank_deficient_covariance_uses_its_support(data):
    X, y = data
    wide = np.hstack([X, X[:, :2] @ [[1.0], [-2.0]], np.full((len(X), 1), 7.0)])
    plain, model = GDA().fit(X, y), GDA().fit(wide, y)
    assert model.params_.laws.gaussian.root.rank == 5
    np.testing.assert_allclose(model.predict_proba(wide), plain.predict_proba(X), atol=1e-7)
    assert np.isfinite(model.log_prob(wide)).all()
    assert "span 5 directions" in model.summary()


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 40)), np.arange(12) % 2
    X[y == 1] += 1.0
    for shrinkage in (None, "auto", 0.5):
        model = GDA(shrinkage=shrinkage).fit(X, y)
        assert np.isfinite(model.predict_proba(X)).all()
        assert np.isfinite(model.log_prob(X)).all()
        assert model.score(X, y) >= 0.75  # the pseudo-inverse sees 10 of 40 directions


def test_class_that_spans_less_gets_a_floor_and_a_warning():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.repeat([0, 1], 30)
    X[y == 1, 2] = 0.5  # constant in one class: informative, not to be ignored
    with pytest.warns(DataWarning, match=r"classes \[1\] span fewer directions"):
        model = GDA(covariance="class").fit(X, y)
    assert np.isfinite(model.log_prob(X)).all()
    assert (model.predict(X) == y).all()


def test_class_with_one_row():
    X, y = [[0.0, 1.0], [1.0, 0.0], [0.5, 0.4], [5.0, 5.0]], [0, 0, 0, 1]
    assert GDA().fit(X, y).predict([[4.0, 4.0]]).tolist() == [1]
    with pytest.warns(DataWarning):
        assert np.isfinite(GDA(covariance="class").fit(X, y).predict_proba(X)).all()
    assert np.isfinite(GDA(covariance="diagonal").fit(X, y).predict_proba(X)).all()


def test_priors(data):
    X, y = data
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    ours = GDA(priors=[0.1, 0.2, 0.3, 0.4]).fit(X, y)
    shift = np.log([0.1, 0.2, 0.3, 0.4]) - np.log(np.bincount(y) / len(y))
    expected = theirs.decision_function(X) + shift  # their log probabilities end at -707
    np.testing.assert_allclose(
        ours.predict_log_proba(X), expected - np.logaddexp.reduce(expected, axis=1, keepdims=True), atol=1e-9
    )
    with pytest.raises(DataError, match="sum to 1"):
        GDA(priors=[0.5, 0.2, 0.3, 0.4]).fit(X, y)


@pytest.mark.parametrize(
    "model",
    [GDA(), GDA(covariance="class"), GDA(covariance="diagonal"), GDA(shrinkage="auto"), GDA(covariance="class", shrinkage="auto")],
)
def test_batches_and_merges_equal_one_fit(data, model):
    X, y = data
    order = np.argsort(y, kind="stable")  # the first batch lacks most classes
    X, y = X[order], y[order]
    whole = model.fit(X, y)
    expected, history = whole.predict_proba(X), whole.history_[-1]
    batches = type(model)(**model.get_params())
    for a in range(0, 900, 250):
        batches.partial_fit(X[a : a + 250], y[a : a + 250], classes=range(4))
    halves = type(model)(**model.get_params()).fit(X[::2], y[::2]).merge(type(model)(**model.get_params()).fit(X[1::2], y[1::2]))
    for other in (batches, halves):
        np.testing.assert_allclose(other.predict_proba(X), expected, atol=1e-11)
        np.testing.assert_allclose(other.history_[-1], history, rtol=1e-12)


def test_merge_unites_classes(data):
    X, y = data
    low, high = GDA().fit(X[y < 2], y[y < 2]), GDA().fit(X[y >= 1], y[y >= 1])
    merged = low.merge(high)
    both = np.concatenate([np.flatnonzero(y < 2), np.flatnonzero(y >= 1)])
    np.testing.assert_allclose(merged.predict_proba(X), GDA().fit(X[both], y[both]).predict_proba(X), atol=1e-12)
    with pytest.raises(DataError, match="hyperparameters"):
        merged.merge(GDA(covariance="class").fit(X, y))
    with pytest.raises(TypeError, match="expects another GDA"):
        merged.merge("model")


def test_sampling_is_seeded_and_obeys_y(data):
    X, y = data
    model = GDA(covariance="class").fit(X, np.array(["a", "b", "c", "d"])[y])
    A, labels = model.sample(50, random_state=4)
    B, _ = model.sample(50, random_state=4)
    np.testing.assert_array_equal(A, B)
    assert set(labels) <= set("abcd")
    assert model.sample(3, y=["a", "c", "a"])[1].tolist() == ["a", "c", "a"]
    with pytest.raises(DataError, match="not among the classes"):
        model.sample(1, y="z")


def test_names_are_kept_and_checked(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = GDA().fit(frame, y)
    assert model.feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "z"}))
    with pytest.raises(DataError, match=r"\['a'\] occur more than once"):
        GDA().fit(frame.rename(columns={"b": "a"}), y)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("covariance", ["shared", "class"])
def test_a_fit_that_takes_long_is_told_before_it_begins(covariance):
    X, y = np.random.default_rng(0).normal(size=(60, 20_000)), np.arange(60) % 2
    begun = time.process_time()
    with pytest.raises(DataWarning, match=r'20,000 columns.*minutes.*"diagonal"'):
        GDA(covariance=covariance).fit(X, y)
    model = GDA(covariance="diagonal").fit(X, y)  # what it is told to do, without a word
    assert model.predict(X).shape == (60,)
    assert time.process_time() - begun < 20
    GDA(covariance=covariance, shrinkage=0.5).fit(X[:, :300], y)  # and a moment needs no warning


@pytest.mark.parametrize(("n", "K", "d", "warns"), [(60, 2, 3000, False), (60, 2, 6000, True), (10**7, 2, 500, True)])
def test_the_warning_is_by_work(n, K, d, warns):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        GDA()._foresee(n, K, d)
    assert bool(found) == warns


@pytest.mark.parametrize(
    ("settings", "n", "minutes"),
    [({}, 60, 5), ({"covariance": "class"}, 60, 5), ({"covariance": "class"}, 20_000, 16), ({"shrinkage": "auto"}, 60_000, 15)],
    ids=str,
)
def test_how_long_a_fit_takes(settings, n, minutes):
    """10,000 columns by what one core took for 2,000 to 6,000 of them: 2.6e-10 d^3 s a root, 2.8e-11 or 1e-10 n d^2 s the sums."""
    with pytest.warns(DataWarning, match=rf"may take {minutes} minutes"):
        GDA(**settings)._foresee(n, 2, 10_000)


def test_impossible_rows_without_weight_change_nothing():
    X = np.array([[1.0, -1.0], [1.0, np.nan], [1.0, 0.5], [2.0, 0.1], [5.0, 0.2], [2.0, np.nan]])
    weight = np.array([1.0, 0, 0, 0, 0, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = GDA(semi_supervised=True, max_iter=5).fit(X, [0, 1, 0, 1, 0, 1], sample_weight=weight)
    assert np.isfinite(model.history_).all()
