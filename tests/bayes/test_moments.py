"""Class-wise sums against plain NumPy."""

import numpy as np
import pytest

from tallies.bayes.kernels import moments
from tallies.bayes.scatter import Scatter, move


@pytest.fixture(params=[np.float64, np.float32])
def data(request):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(57, 5)) + 3).astype(request.param)
    return X, rng.integers(-1, 3, 57).astype(np.int32), rng.random(57) * (rng.random(57) < 0.9)


def mask(y, w, k):
    return (y == k) & (w > 0)


def test_class_sums(data):
    X, y, w = data
    n, s, gaps, infinite = moments.class_sums(X, y, w, 3)
    assert (gaps, infinite) == (0, 0)
    for k in range(3):
        np.testing.assert_allclose(n[k], w[y == k].sum())
        np.testing.assert_allclose(s[k], (w[y == k, None] * X[y == k]).sum(axis=0), rtol=1e-6)


def test_class_sums_of_observed_cells(data):
    X, y, w = data
    X = X.copy()
    X[::3, 1], X[4, 0] = np.nan, np.inf
    n, s, gaps, infinite = moments.class_sums(X, y, w, 3)
    assert (gaps, infinite) == (19, 1)
    for k in range(3):
        m = mask(y, w, k)
        np.testing.assert_allclose(n[k], (w[m, None] * ~np.isnan(X[m])).sum(axis=0))
        np.testing.assert_allclose(s[k], np.nansum(w[m, None] * X[m], axis=0), rtol=1e-6)


def test_class_squares(data):
    X, y, w = data
    X = X.copy()
    X[::4, 3] = np.nan
    centre = np.arange(15.0).reshape(3, 5)
    n, s, ss = moments.class_squares(X, y, w, centre)
    for k in range(3):
        m = mask(y, w, k)
        Z = X[m] - centre[k]
        np.testing.assert_allclose(n[k], (w[m, None] * ~np.isnan(Z)).sum(axis=0))
        np.testing.assert_allclose(s[k], np.nansum(w[m, None] * Z, axis=0))
        np.testing.assert_allclose(ss[k], np.nansum(w[m, None] * Z**2, axis=0))


def test_centred_rows(data):
    X, y, w = data
    rows, centre = np.flatnonzero((y >= 0) & (w > 0)), np.arange(15.0).reshape(3, 5)
    Z, s = np.empty((len(rows), 5)), np.zeros((3, 5))
    moments.centred_rows(X, rows, y, w, centre, Z, s)
    np.testing.assert_allclose(Z, np.sqrt(w[rows, None]) * (X[rows] - centre[y[rows]]))
    np.testing.assert_allclose(s, [(w[mask(y, w, k), None] * (X[mask(y, w, k)] - centre[k])).sum(axis=0) for k in range(3)])


def sums_of(Z, w):
    parts = w @ Z, (Z * w[:, None]).T @ Z, (Z**2 * w[:, None]).T @ Z, (Z**2 * w[:, None]).T @ Z**2
    return Scatter(*(part[None] for part in parts))  # of one class


def test_move_is_multiplying_out():
    rng = np.random.default_rng(0)
    Z, w, delta = rng.normal(size=(20, 4)), rng.random(20), rng.normal(size=4)
    n = np.array([w.sum()])
    for found, expected in zip(move(n, sums_of(Z, w), delta[None]), sums_of(Z + delta, w), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    short = move(n, sums_of(Z, w)._replace(A=None, B=None), delta[None])
    assert short.A is None
    np.testing.assert_allclose(short.S, sums_of(Z + delta, w).S)
