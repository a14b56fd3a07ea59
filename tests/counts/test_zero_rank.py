"""Structural zeros of a PLN-PCA: a row against brute force and quadrature, a PLN-PCA where nothing is inflated, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import entr, expit, gammaln

import tallies
from tallies import PLN
from tallies.counts.answers import needless


def drawn(seed: int = 0, n: int = 200, p: int = 5, q: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Counts, and which zeros are structural."""
    rng = np.random.default_rng(seed)
    hidden = rng.random((n, p)) < rng.uniform(0.1, 0.5, p)
    return np.where(hidden, 0, rng.poisson(np.exp(2 + rng.normal(size=(n, q)) @ rng.normal(0, 0.6, (q, p))))), hidden


@pytest.fixture(scope="module")
def found() -> tuple[PLN, np.ndarray, np.ndarray]:
    Y, hidden = drawn(q=2)
    return PLN(rank=2, zero_inflation="column").fit(Y), Y, hidden


def test_two_columns_against_brute_force_and_quadrature() -> None:
    Y, _ = drawn(1, p=2)
    model, new = PLN(rank=1, zero_inflation="column").fit(Y), np.array([[0, 5], [0, 0], [3, 1]])
    pi, mean, c = model.inflation_, model.coefficients_[0], model.components_[:, 0]
    z, w = np.polynomial.hermite_e.hermegauss(120)
    for y, said in zip(new, model.log_prob(new), strict=True):
        none = stats.poisson.pmf(y, np.exp(mean + z[:, None] * c))
        exact = np.log((pi * (y == 0) + (1 - pi) * none).prod(axis=1) @ w / np.sqrt(2 * np.pi))
        assert -1e-9 < exact - said < 0.15

        def minus(x: np.ndarray, y: np.ndarray = y) -> float:
            m, s2, rho = x[0], np.exp(x[1]), np.where(y == 0, expit(x[2:]), 0.0)
            L = mean + c * m
            J = ((1 - rho) * (y * L - np.exp(L + 0.5 * c * c * s2) - gammaln(y + 1))).sum()
            J += (rho * np.log(pi) + (1 - rho) * np.log1p(-pi) + entr(rho) + entr(1 - rho)).sum()
            return -(J - 0.5 * (m * m + s2 - x[1] - 1))

        starts = [np.array([m, -1.0, t, t]) for m in (-1.0, 1.0) for t in (-2.0, 2.0)]
        best = max(-optimize.minimize(minus, x, method="BFGS", options={"gtol": 1e-9}).fun for x in starts)
        assert said == pytest.approx(best, abs=1e-5)


def test_the_fit_is_where_its_shares_are_those_of_its_zeros(found: Any) -> None:
    model, Y, hidden = found
    assert model.converged_
    np.testing.assert_allclose(model.inflation_, model.zero_probability_.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(model.inflation_, hidden.mean(axis=0), atol=0.03)
    assert model.log_prob(Y).sum() == pytest.approx(model.elbo_, abs=1e-3)
    np.testing.assert_allclose(model.transform(Y), model.latent_mean_, atol=1e-3)
    assert np.diff(model.history_).min() >= -1e-11 * abs(model.elbo_)
    said = model.zero_probability_[Y == 0]
    assert np.mean((said - hidden[Y == 0]) ** 2) < 0.9 * hidden[Y == 0].var()
    assert model.n_parameters_ == PLN(rank=2).fit(Y).n_parameters_ + 5
    assert "PLN-PCA of rank 2" in model.algorithm_


def test_without_a_zero_it_is_a_pln_pca() -> None:
    Y, _ = drawn(2, n=100)
    with pytest.warns(tallies.errors.DataWarning, match="do not ask for zero inflation"):
        model = PLN(rank=1, zero_inflation="column").fit(Y + 1)
    plain = PLN(rank=1).fit(Y + 1)
    assert model.elbo_ == pytest.approx(plain.elbo_, rel=1e-7)
    np.testing.assert_allclose(model.coefficients_, plain.coefficients_, atol=1e-3)


@pytest.mark.parametrize(
    ("gain", "said"), [(2.5, "raises the bound by 2.5, less than"), (-2.5, "the bound ends 2.5 lower with it")]
)
def test_a_bound_that_falls_is_not_said_to_rise(found: Any, gain: float, said: str) -> None:
    """Of rank models it may: with structural zeros they may end at another maximum."""
    fitted = found[0].fitted_
    text = needless(fitted._replace(zeros=fitted.zeros._replace(plain=fitted.likelihood.value - gain)))
    assert said in text
    assert "-2.5" not in text


def test_one_share_for_all_weights_and_gaps(found: Any) -> None:
    _, Y, hidden = found
    v = 1 + np.arange(200) // 100 % 2
    v[150:] = 0
    options = {"rank": 2, "zero_inflation": "global", "n_starts": 1}
    repeated, weighted = PLN(**options).fit(Y[np.repeat(np.arange(200), v)]), PLN(**options).fit(Y, sample_weight=v)
    assert weighted.elbo_ == pytest.approx(repeated.elbo_, rel=1e-6)
    np.testing.assert_allclose(weighted.inflation_, repeated.inflation_, atol=1e-4)
    assert weighted.inflation_ == pytest.approx(hidden[:150].mean(), abs=0.05)
    assert weighted.zero_probability_.shape == (200, 5)
    gaps = Y.astype(float)
    gaps[::5, 1] = np.nan
    model = PLN(**options).fit(gaps)
    assert (model.zero_probability_[::5, 1] == 0).all()
    assert (model.predict(gaps)[::5, 1] > 0).all()


@pytest.mark.parametrize("by", ["row", "~ site"])
def test_what_a_rank_does_not_have_is_refused(found: Any, by: str) -> None:
    with pytest.raises(ValueError, match='with a rank zero_inflation must be "global" or "column"'):
        PLN(rank=2, zero_inflation=by).fit(found[1])
