"""Kernels of naive Bayes and of rows of log probabilities against plain NumPy and scipy."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.special import gammaln, logsumexp

from tallies.bayes.kernels import columns as bayes
from tallies.bayes.kernels import rows

RNG = np.random.default_rng(0)
TABLE = gammaln(np.arange(10) + 1.0)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("gaps", [False, True])
def test_gaussian_scores(n, gaps):
    X, mean, sd = RNG.normal(size=(n, 4)), RNG.normal(size=(3, 4)), RNG.random((3, 4)) + 0.5
    if gaps:
        X[RNG.random(X.shape) < 0.3] = np.nan
    out = np.ones((n, 3))
    half = 0.5 / sd**2
    bayes.gaussian_scores(X, mean, half, 0.5 * np.log(half / np.pi), out)
    compiled = np.ones((n, 3))
    bayes.add_gaussian(X, mean, half, 0.5 * np.log(half / np.pi), compiled)
    np.testing.assert_array_equal(out, compiled)  # the same bits: how many rows are asked of at once changes nothing
    expected = np.stack([np.nansum(stats.norm(mean[k], sd[k]).logpdf(X), axis=1) for k in range(3)], axis=1)
    np.testing.assert_allclose(out, 1 + expected, rtol=1e-12)


def test_categorical():
    start = np.array([0, 2, 5])
    C = np.array([[0, 2], [1, 0], [-1, 1], [1, -1], [0, 9]])
    y, w = np.array([0, 1, 1, -1, 0], dtype=np.int32), np.array([1.0, 2.0, 0.5, 1.0, 0.0])
    counts = bayes.categorical_tally(C[:4], y[:4], w[:4], start, 2)
    np.testing.assert_array_equal(counts, [[1, 0], [0, 2], [0, 2], [0, 0.5], [1, 0]])
    log_p, unseen, out = RNG.normal(size=(5, 2)), RNG.normal(size=(2, 2)), np.zeros((5, 2))
    bayes.categorical_scores(C, log_p, unseen, start, out)
    np.testing.assert_allclose(out[0], log_p[0] + log_p[4])
    np.testing.assert_allclose(out[2], log_p[3])
    np.testing.assert_allclose(out[3], log_p[1])
    np.testing.assert_allclose(out[4], log_p[0] + unseen[1])


def test_states_are_marked():
    C = np.array([[-2, 7], [3, 9], [3, 7]])
    low, high = bayes.state_range(C)
    assert (low.tolist(), high.tolist()) == ([-2, 7], [3, 9])
    seen = np.zeros(9, dtype=np.bool_)
    bayes.mark_states(C, low, np.array([0, 6, 9]), seen)
    assert np.flatnonzero(seen).tolist() == [0, 5, 6, 8]


def test_poisson():
    X = np.array([[0.0, 3.0], [12.0, np.nan]])
    rate, out = np.array([[0.5, 2.0], [0.0, 4.0]]), np.zeros((2, 2))
    with np.errstate(divide="ignore"):
        bayes.poisson_scores(X, np.log(rate), rate, TABLE, out)
    np.testing.assert_allclose(out[:, 0], [stats.poisson([0.5, 2.0]).logpmf([0, 3]).sum(), stats.poisson(0.5).logpmf(12)])
    assert out[0, 1] == pytest.approx(stats.poisson(4.0).logpmf(3))  # a rate of 0 allows a count of 0 ...
    assert out[1, 1] == -np.inf  # ... and nothing else
    assert bayes.log_factorials(X, np.array([2.0, 1.0]), TABLE) == pytest.approx(2 * gammaln(4) + gammaln(13))


@pytest.mark.parametrize("K", [1, 2, 5, 7])
def test_multinomial(K):
    M = sp.csr_array(RNG.poisson(0.8, (20, 6)).astype(float))
    M.data[0] = 40.0  # past the table of factorials
    y, w = RNG.integers(-1, K, 20).astype(np.int32), RNG.random(20)
    counts, base = bayes.multinomial_tally(M.data, M.indices, M.indptr, y, w, 6, K, TABLE)
    np.testing.assert_allclose(counts, [(w[y == k, None] * M.toarray()[y == k]).sum(axis=0) for k in range(K)])
    log_p, out = np.log(RNG.dirichlet(np.ones(6), K)), np.zeros((20, K))
    bayes.multinomial_scores(M.data, M.indices, M.indptr, np.ascontiguousarray(log_p.T), out)
    np.testing.assert_allclose(out, M.toarray() @ log_p.T)
    bayes.multinomial_coefficients(M.data, M.indptr, TABLE, out)
    total = M.toarray().sum(axis=1).astype(int)
    expected = np.stack([stats.multinomial(total, np.exp(p)).logpmf(M.toarray().astype(int)) for p in log_p], axis=1)
    np.testing.assert_allclose(out, expected, rtol=1e-11)
    labelled = np.where(y >= 0, w, 0.0)
    assert base == pytest.approx(labelled @ (gammaln(total + 1.0) - gammaln(M.toarray() + 1.0).sum(axis=1)))


def test_not_counts():
    assert np.isnan(bayes.not_counts(np.array([0.0, 3.0, np.nan])))
    assert [bayes.not_counts(np.array([1.0, x])) for x in (-1.0, 0.5, np.inf)] == [-1.0, 0.5, np.inf]
    assert np.isnan(bayes.not_counts(np.array([1, 2])))


def test_rows():
    J = RNG.normal(size=(50, 5)) * 300
    J[3, 2], J[4] = -np.inf, -np.inf
    total, share = np.empty(50), np.empty((50, 5))
    rows.evidence(J, total)
    rows.log_posterior(J, share)
    share = np.exp(share)
    ok = np.arange(50) != 4
    np.testing.assert_allclose(total[ok], logsumexp(J[ok], axis=1), rtol=1e-14)
    np.testing.assert_allclose(share[ok], np.exp(J[ok] - logsumexp(J[ok], axis=1, keepdims=True)), rtol=1e-12, atol=1e-300)
    assert total[4] == -np.inf
    np.testing.assert_allclose(share[4], 0.2)


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("K", [1, 2, 5])
def test_linear_best(n, K):
    X, coef, offset = RNG.normal(size=(n, 9)), RNG.normal(size=(K, 9)), RNG.normal(size=K)
    found = np.empty(n, dtype=np.intp)
    rows.linear_best(X, coef, offset, found)
    np.testing.assert_array_equal(found, (X @ coef.T + offset).argmax(axis=1))
    for odd in (np.nan, np.inf, -np.inf):
        X[0, 3] = odd
        rows.linear_best(X, coef, offset, found)
        if np.isnan(odd) or K > 1:
            assert found[0] == -1
