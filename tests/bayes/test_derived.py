"""What is derived from tallies of classes: log likelihoods, priors, merges, information; each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.special import gammaln

from tallies import GDA, NaiveBayes
from tallies.bayes.door import Table
from tallies.bayes.families import Categorical, Gaussian, Multinomial, Poisson, Shape
from tallies.bayes.marginals import Column, bits_needed, information
from tallies.bayes.scatter import Scatter, expected_products, move, products

RNG = np.random.default_rng(0)
N = 60
Y = np.arange(N) % 3
COUNTS = RNG.poisson(1.0 + 2.0 * Y[:, None], (N, 4)).astype(float)
WEIGHT = RNG.integers(1, 4, N).astype(float)


@pytest.mark.parametrize("family", ["poisson", "multinomial", "categorical", "gaussian"])
def test_a_merge_has_the_log_likelihood_of_all_rows(family):
    X = sp.csr_array(COUNTS) if family == "multinomial" else COUNTS
    half = [slice(0, 25), slice(25, N)]

    def fit(part):
        return NaiveBayes(families=family).fit(X[part], Y[part], sample_weight=WEIGHT[part])

    merged, whole = fit(half[0]).merge(fit(half[1])), fit(slice(0, N))
    assert merged.history_[-1] == pytest.approx(whole.history_[-1], rel=1e-12)
    np.testing.assert_allclose(merged.log_prob(X), whole.log_prob(X), rtol=1e-10)
    # and that is the weighted sum over rows of log p(x, y)
    J = whole.log_joint(X)
    assert whole.history_[-1] == pytest.approx(WEIGHT @ J[np.arange(N), Y], rel=1e-10)


def test_gda_merges_at_any_centre():
    X = RNG.normal(size=(N, 3)) @ RNG.normal(size=(3, 3)) + Y[:, None] + 5.0
    for options in ({}, {"covariance": "class"}, {"shrinkage": "auto"}, {"covariance": "diagonal"}, {"shrinkage": 0.3}):
        parts = [GDA(**options).fit(X[a:b], Y[a:b], sample_weight=WEIGHT[a:b]) for a, b in ((0, 25), (25, N))]
        whole = GDA(**options).fit(X, Y, sample_weight=WEIGHT)
        merged = parts[0].merge(parts[1])
        np.testing.assert_allclose(merged.covariance_, whole.covariance_, rtol=1e-9)
        assert merged.history_[-1] == pytest.approx(whole.history_[-1], rel=1e-11)
        J = whole.log_joint(X)
        assert whole.history_[-1] == pytest.approx(WEIGHT @ J[np.arange(N), Y], rel=1e-9)


def test_smoothing_is_a_prior_that_the_estimate_maximises():
    """What EM climbs, log likelihood and log prior, is at its maximum where the smoothed estimates are."""
    n, s = np.array([[5.0, 2.0], [1.0, 8.0]]), np.array([[4.0, 9.0], [0.0, 3.0]])
    law = Poisson.of((n, s, 0.0), smoothing=1.5)

    def value(rate):
        # the overall mean is data, and stays
        mean = s.sum(axis=0) / n.sum(axis=0)
        return float(np.sum(s * np.log(rate) - n * rate) + 1.5 * np.sum(mean * np.log(rate) - rate))

    assert law.log_likelihood() + law.penalty(1.5) == pytest.approx(value(law.rate), rel=1e-12)
    for step in 1e-4 * np.eye(4).reshape(4, 2, 2):
        assert value(law.rate + step) < value(law.rate) > value(law.rate - step)
    counts = np.array([[3.0, 1.0], [0.0, 4.0], [2.0, 2.0]])  # states of one column x classes
    law = Categorical.of(counts, np.array([0, 3]), smoothing=0.7)
    p = (counts + 0.7) / (counts + 0.7).sum(axis=0)
    assert law.log_likelihood() + law.penalty(0.7) == pytest.approx(np.sum((counts + 0.7) * np.log(p)), rel=1e-12)
    law = Multinomial.of((counts.T, 1.25), 10.0, smoothing=0.7)
    assert law.log_likelihood() + law.penalty(0.7) == pytest.approx(np.sum((counts + 0.7) * np.log(p)) + 1.25, rel=1e-12)


@pytest.mark.parametrize("family", ["poisson", "multinomial", "categorical"])
def test_em_climbs_log_likelihood_and_prior(family):
    """With labels hidden, the value of the last sweep is that of what it began with, by hand."""
    labels = np.where(np.arange(N) % 4 == 1, -1, Y)
    X = sp.csr_array(COUNTS) if family == "multinomial" else COUNTS
    seen = []
    options = {"families": family, "semi_supervised": True, "smoothing": 0.8, "max_iter": 6, "tol": 1e-15}
    model = NaiveBayes(**options)
    model.fit(X, labels, sample_weight=WEIGHT, callback=lambda stage, state: seen.append(state.params))
    assert np.diff(model.history_[~np.isnan(model.history_)]).min() >= 0
    before, classes = seen[-2], np.unique(Y)
    table = model._table(X)
    J = before.log_joint(table)
    code = np.where(labels < 0, 0, labels)
    rows = np.where(labels < 0, np.logaddexp.reduce(J, axis=1), J[np.arange(N), code])
    law = next(law for law in before.laws if law is not None)
    if family == "poisson":
        mean = law.s.sum(axis=0) / law.n.sum(axis=0)
        prior = np.sum(mean * np.log(law.rate) - law.rate)
    else:
        prior = law.log_p.sum()
    assert len(classes) == 3
    assert model.history_[-1] == pytest.approx(WEIGHT @ rows + 0.8 * prior, rel=1e-11)


def test_rows_without_a_label_count_with_their_weight():
    labels = np.where(np.arange(N) % 4 == 1, -1, Y)
    options = {"families": "poisson", "semi_supervised": True, "tol": 1e-13}
    k = np.repeat(np.arange(N), WEIGHT.astype(int))
    weighted = NaiveBayes(**options).fit(COUNTS, labels, sample_weight=WEIGHT)
    repeated = NaiveBayes(**options).fit(COUNTS[k], labels[k])
    np.testing.assert_allclose(weighted.log_prob(COUNTS), repeated.log_prob(COUNTS), rtol=1e-8)
    assert weighted.history_[-1] == pytest.approx(repeated.history_[-1], rel=1e-10)


def test_a_step_of_em_has_means_and_variances_about_the_new_means():
    """The sums of a sweep are about the means before it; the variances that follow are about those after it."""
    X = RNG.normal(size=(N, 2)) + 3.0 * Y[:, None]
    labels, seen = np.where(np.arange(N) % 4 == 1, -1, Y), []
    keep = lambda stage, state: seen.append(state.params)  # noqa: E731
    NaiveBayes(families="gaussian", semi_supervised=True, max_iter=3, tol=1e-15).fit(X, labels, sample_weight=WEIGHT, callback=keep)
    before, after = seen[-2:]
    J = before.log_joint(Table(gaussian=X))
    r = np.exp(J - np.logaddexp.reduce(J, axis=1, keepdims=True))
    known = labels >= 0
    r[known] = np.eye(3)[labels[known]]
    r *= WEIGHT[:, None]
    law = after.laws.gaussian
    for k in range(3):
        mean = np.average(X, axis=0, weights=r[:, k])
        np.testing.assert_allclose(law.mean[k], mean, rtol=1e-10)
        np.testing.assert_allclose(law.variance[k], np.average((X - mean) ** 2, axis=0, weights=r[:, k]), rtol=1e-6)
    assert np.abs(before.laws.gaussian.mean - law.mean).max() > 1e-3


def test_priors_are_shares_and_are_not_smoothed():
    assert NaiveBayes().fit(COUNTS[:5], [0, 0, 0, 0, 1]).priors_.tolist() == pytest.approx([0.8, 0.2], rel=1e-15)


def test_a_class_without_values_in_a_column_has_the_spread_of_the_column():
    X = np.array([[0.0, 1.0], [2.0, np.nan], [10.0, np.nan], [14.0, np.nan], [4.0, 5.0]])
    y = np.array([0, 0, 1, 1, 0])
    law = NaiveBayes(families="gaussian").fit(X, y).fitted_.params.laws.gaussian
    assert law.mean[1, 1] == pytest.approx(3.0)
    assert law.variance[1, 1] == pytest.approx(4.0, rel=1e-7)
    assert law.variance[0, 0] == pytest.approx(np.var([0, 2, 4]), rel=1e-7)
    # a class that lacks a column altogether, while others differ in their means
    law = Gaussian.of(
        (np.array([[2.0], [2.0], [0.0]]), np.array([[2.0], [22.0], [0.0]]), np.array([[4.0], [244.0], [0.0]])),
        np.zeros((3, 1)),
        np.ones(3),
        Shape(False, None),
        True,
    )
    assert law.variance[2, 0] == pytest.approx(np.var([0, 2, 10, 12]), rel=1e-6)


def test_expected_products_have_the_variance_that_gaps_leave():
    rng = np.random.default_rng(1)
    sigma, centre = np.array([[[1.0, 0.6], [0.6, 2.0]]]), np.array([[0.5, -1.0]])
    X = np.array([[1.0, np.nan], [0.3, 0.4], [2.0, np.nan]])
    weight, y = np.array([2.0, 1.0, 0.5]), np.zeros(3, dtype=np.int64)
    found = expected_products(X, y, weight, centre, sigma, False)
    S = np.zeros((2, 2))
    for row, w in zip(X, weight, strict=True):
        z = row - centre[0]
        if np.isnan(z[1]):
            z = np.array([z[0], 0.6 * z[0]])
            S += w * np.diag([0.0, 2.0 - 0.36])
        S += w * np.outer(z, z)
    np.testing.assert_allclose(found.S[0], S, rtol=1e-12)
    # sums move to other centres as if they had been taken there, for one scatter and for one a class, with fourth moments
    X, y = rng.normal(size=(30, 3)) + 2.0, np.arange(30) % 2
    weight, a, b = rng.random(30) + 0.1, rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    n = np.bincount(y, weights=weight)
    for G, fourth in ((1, False), (2, True)):
        moved = move(n, products(X, y, weight, a, G, fourth), a - b)
        for one, other in zip(moved, products(X, y, weight, b, G, fourth), strict=True):
            if other is not None:
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    assert isinstance(moved, Scatter)


def test_ledoit_wolf_is_pooled_with_the_weights_of_classes():
    from sklearn.covariance import ledoit_wolf

    X = RNG.normal(size=(N, 3)) @ np.diag([1.0, 2.0, 0.5]) + Y[:, None]
    y = np.where(np.arange(N) < 45, 0, 1)  # classes of unequal size
    found = GDA(shrinkage="auto").fit(X, y).covariance_
    expected = np.zeros((3, 3))
    for k, share in ((0, 0.75), (1, 0.25)):
        mine = X[y == k]
        scale = mine.std(axis=0)
        expected += share * ledoit_wolf((mine - mine.mean(axis=0)) / scale)[0] * np.outer(scale, scale)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_bits_are_of_unequal_classes():
    prior = np.array([0.7, 0.2, 0.1])
    assert bits_needed(prior) == pytest.approx(stats.entropy(prior, base=2), rel=1e-12)
    rates = np.array([3.0, 8.0, 20.0])
    column = Column("x", "poisson", rates, np.sqrt(rates), [], None, 0)
    k = np.arange(200)
    p = np.exp(k * np.log(rates[:, None]) - rates[:, None] - gammaln(k + 1))
    mixed = prior @ p
    expected = float(np.sum(prior[:, None] * p * np.log2(np.where(p > 0, p / mixed, 1.0))))
    assert information(column, prior) == pytest.approx(expected, rel=1e-6)


def test_weighted_rows_are_repeated_rows_in_every_family():
    k = np.repeat(np.arange(N), WEIGHT.astype(int))
    for family in ("poisson", "multinomial", "categorical", "gaussian"):
        X = sp.csr_array(COUNTS) if family == "multinomial" else COUNTS
        a = NaiveBayes(families=family).fit(X, Y, sample_weight=WEIGHT)
        b = NaiveBayes(families=family).fit(X[k], Y[k])
        assert a.history_[-1] == pytest.approx(b.history_[-1], rel=1e-11)
        np.testing.assert_allclose(a.log_joint(X), b.log_joint(X), rtol=1e-9)


def test_samples_have_the_spread_of_their_class():
    X = np.concatenate([RNG.normal(0, 3.0, (300, 1)), RNG.normal(5, 0.2, (300, 1))])
    drawn, y = NaiveBayes(families="gaussian").fit(X, np.repeat([0, 1], 300)).sample(20_000, random_state=0)
    assert [drawn[y == k].std() for k in (0, 1)] == pytest.approx([X[:300].std(), X[300:].std()], rel=0.05)
