"""The small pieces of mathematics against plain definitions."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf as sklearn_ledoit_wolf
from sklearn.preprocessing import StandardScaler

from tallies import maths

RNG = np.random.default_rng(0)


def test_whiten_full_rank():
    A = RNG.normal(size=(3, 4, 4))
    S = A @ A.transpose(0, 2, 1)
    root = maths.whiten(S, S.mean(axis=0))
    assert root.rank == 4
    assert not root.floored.any()
    for k in range(3):
        np.testing.assert_allclose(root.W[k] @ root.W[k].T, np.linalg.inv(S[k]), rtol=1e-8)
        assert root.log_det[k] == pytest.approx(np.linalg.slogdet(S[k])[1])


def test_whiten_does_not_care_for_units():
    A = RNG.normal(size=(3, 3))
    S, units = A @ A.T, np.array([1e-9, 1.0, 1e9])
    scaled = S * np.outer(units, units)
    root = maths.whiten(scaled[None], scaled)
    assert root.rank == 3
    z = RNG.normal(size=3)
    assert np.square((z * units) @ root.W[0]).sum() == pytest.approx(z @ np.linalg.solve(S, z))


def test_whiten_on_the_support():
    B = RNG.normal(size=(5, 2))
    S = B @ B.T  # rank 2
    root = maths.whiten(S[None], S)
    assert root.rank == 2
    x = B @ RNG.normal(size=2)
    assert np.square(x @ root.W[0]).sum() == pytest.approx(x @ np.linalg.pinv(S) @ x)
    assert root.log_det[0] == pytest.approx(np.log(np.linalg.eigvalsh(S)[-2:]).sum())


def test_ledoit_wolf_is_scikit_learns():
    X = RNG.normal(size=(30, 6)) @ RNG.normal(size=(6, 6)) + 5
    Z = X - X.mean(axis=0)
    scaler = StandardScaler().fit(X)
    expected = sklearn_ledoit_wolf(scaler.transform(X))[0] * np.outer(scaler.scale_, scaler.scale_)
    np.testing.assert_allclose(maths.ledoit_wolf(30.0, Z.T @ Z / 30, (Z**2).T @ Z**2), expected, rtol=1e-10)


def test_log_density_and_linear():
    A = RNG.normal(size=(3, 3))
    S, mean, X = A @ A.T, RNG.normal(size=(4, 3)), RNG.normal(size=(10, 3))
    root = maths.whiten(S[None], S)
    expected = np.stack([multivariate_normal(m, S).logpdf(X) for m in mean], axis=1)
    np.testing.assert_allclose(maths.log_density(X, mean, root, relative=False), expected, rtol=1e-9)
    relative = maths.log_density(X, mean, root, relative=True)
    np.testing.assert_allclose(relative - relative[:, :1], expected - expected[:, :1], rtol=1e-8, atol=1e-8)


def test_patterns_and_regression():
    X = np.array([[1.0, np.nan], [np.nan, 2.0], [3.0, np.nan], [1.0, 1.0]])
    found = {tuple(gaps.tolist()): rows.tolist() for gaps, rows in maths.patterns(X)}
    assert found == {(False, False): [3], (False, True): [0, 2], (True, False): [1]}
    S = np.array([[2.0, 0.6], [0.6, 1.0]])
    slope, spread = maths.regression(S, np.array([False, True]), np.ones(2))
    np.testing.assert_allclose((slope[0, 0], spread[0, 0]), (0.3, 1 - 0.18))


def test_dot0():
    assert maths.dot0(np.array([0.0, 2.0]), np.array([-np.inf, -1.5])) == -3.0
    assert maths.log0(np.array([0.0]))[0] == -np.inf


def test_iterates_that_have_arrived_lead_where_they_are() -> None:
    np.testing.assert_array_equal(maths.limit(np.ones((3, 2))), [1.0, 1.0])
