"""What is derived of mixtures, discriminants and structural zeros: small numbers against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import linalg

from tallies import PLN, PLNDiscriminant, PLNMixture
from tallies.counts.discriminant import answers as discriminant
from tallies.counts.door import Rows
from tallies.counts.groups import Groups, apart, fisher
from tallies.counts.mixture import answers as mixture
from tallies.counts.plan import project


@pytest.fixture(scope="module")
def mixed() -> Any:
    """Two clusters of unlike size and spread, with a covariate and weights; some rows have none."""
    rng = np.random.default_rng(0)
    c, x, v = rng.random(90) < 0.35, rng.normal(1.0, 1.0, 90), rng.uniform(0.5, 2.0, 90)
    Z = (
        np.where(c[:, None], [2.5, 0.5, 1.0], [0.5, 2.0, 1.2])
        + 0.3 * x[:, None]
        + rng.normal(size=(90, 3)) * np.where(c, 0.8, 0.3)[:, None]
    )
    v[::6] = 0
    Y, X = rng.poisson(np.exp(Z)), np.column_stack([np.ones(90), x])
    return PLNMixture(n_components=2, n_starts=1, tol=1e-11).fit(Y, covariates=X, sample_weight=v), Y, X, v


def test_weights_are_in_shares_entropy_and_means_of_a_mixture(mixed: Any) -> None:
    model, _, X, v = mixed
    tau = model.probabilities_
    assert ((tau > 1e-3) & (tau < 1 - 1e-3)).any()  # some rows are in doubt
    np.testing.assert_allclose(model.shares_, v @ tau / v.sum(), atol=1e-5)
    assert model.shares_[0] > model.shares_[1]
    assert model.entropy_ == pytest.approx(-float(v @ np.sum(tau * np.log(np.maximum(tau, 1e-300)), axis=1)), rel=1e-9)
    assert model.icl_ == pytest.approx(model.bic_ + 2 * model.entropy_, rel=1e-12)
    np.testing.assert_allclose(model.means_, (v @ X / v.sum()) @ model.coefficients_, rtol=1e-12)


def test_rows_of_a_mixture_have_the_moments_of_their_places(mixed: Any) -> None:
    """Mean and variance of Z over the components, by the law of total variance; of rows without weight, too."""
    model, Y, X, v = mixed
    rows, tau = Rows(Y.astype(float), np.zeros(Y.shape), X, np.ones(len(Y))), model.probabilities_.T[:, :, None]
    places = [project(learned, rows, None, close=True) for learned in model.fitted_.models]
    M, S2 = (np.stack([getattr(place, k) for place in places]) for k in ("M", "S2"))
    mean = (tau * M).sum(axis=0)
    variance = (tau * (S2 + (M - mean) ** 2)).sum(axis=0)
    np.testing.assert_allclose(model.latent_mean_, mean, atol=2e-3)
    np.testing.assert_allclose(model.fitted_.latent_variance, variance, rtol=0.01)
    assert (variance / (tau * S2).sum(axis=0))[v > 0].max() > 1.2  # which lie apart
    assert (variance / (tau * S2).sum(axis=0))[v == 0].max() > 1.05


def test_samples_of_a_mixture_have_the_spread_of_their_component(mixed: Any) -> None:
    model, _, X, _ = mixed
    codes = np.repeat([0, 1], 20_000)
    counts = mixture.draw(model.fitted_, codes, np.tile(X[:1], (40_000, 1)), np.full((40_000, 3), 15.0), np.random.default_rng(0))
    for k in (0, 1):  # so much effort that the counts are their rates
        Z = np.log(counts[codes == k]) - 15.0
        np.testing.assert_allclose(Z.mean(axis=0), X[0] @ model.coefficients_[k], atol=0.03)
        np.testing.assert_allclose(np.cov(Z.T), model.covariances_[k], atol=0.03)
    assert np.abs(model.covariances_[0] - model.covariances_[1]).max() > 0.2


def test_clusters_are_seen_without_their_covariates_and_by_their_shares(mixed: Any) -> None:
    model, _, X, v = mixed
    groups = mixture.groups(model.fitted_)
    np.testing.assert_allclose(groups.Sigma, np.tensordot(model.shares_, model.covariances_, 1), rtol=1e-12)
    effects = (X - v @ X / v.sum()) @ model.coefficients_  # (K, n, p)
    np.testing.assert_allclose(groups.Z, model.latent_mean_ - np.einsum("nk,knj->nj", model.probabilities_, effects), atol=1e-12)
    more, z = apart(groups)
    np.testing.assert_allclose(more, model.means_ - model.shares_ @ model.means_, atol=1e-12)
    np.testing.assert_allclose(z, more / np.sqrt(groups.Sigma.diagonal()), rtol=1e-6)


def test_axes_are_those_of_the_weighted_means() -> None:
    rng = np.random.default_rng(1)
    means, weight, A = rng.normal(size=(3, 4)), np.array([5.0, 1.0, 2.0]), rng.normal(size=(4, 4))
    Sigma = A @ A.T + np.eye(4)
    found = fisher(means, weight, Sigma)
    about = means - weight @ means / 8
    between = about.T @ (weight[:, None] / 8 * about)
    values = linalg.eigvals(np.linalg.solve(Sigma, between)).real
    values = np.sort(values)[::-1][:2]
    np.testing.assert_allclose(found.V.T @ between @ found.V, np.diag(values), atol=1e-12)
    np.testing.assert_allclose(found.share, values / values.sum(), rtol=1e-9)
    np.testing.assert_allclose(found.centre, weight @ means / 8, rtol=1e-14)
    alike = Groups("class", [0, 1, 2], list("abcd"), means, weight, Sigma, np.zeros(0), np.zeros((0, 4)), [])
    np.testing.assert_allclose(apart(alike)[1], about / np.sqrt(Sigma.diagonal()), rtol=1e-9)


def test_weights_are_in_the_classes_and_covariates_not_in_the_positions() -> None:
    rng = np.random.default_rng(2)
    y, x, v = np.arange(60) % 3 == 0, rng.normal(2.0, 1.0, 60), rng.uniform(0.5, 2.0, 60)
    Y = rng.poisson(np.exp(1 + y[:, None] * [1.0, -1.0] + 0.5 * x[:, None] + rng.normal(0, 0.4, (60, 2))))
    model = PLNDiscriminant().fit(Y, y, covariates=x[:, None], sample_weight=v)
    share = np.array([v[~y].sum(), v[y].sum()]) / v.sum()
    np.testing.assert_allclose(model.priors_, share, rtol=1e-12)
    np.testing.assert_allclose(np.exp(discriminant.log_priors(model.fitted_)), share, rtol=1e-12)
    found = discriminant.told(model.fitted_, Rows(Y.astype(float), np.zeros(Y.shape), x[:, None], np.ones(60)), None, None)
    wide = [learned.Sigma for learned in discriminant.models(model.fitted_, None)]
    np.testing.assert_allclose(wide[1], model.covariance_ * v.sum() / (v.sum() - 3) * (1 + 1 / v[y].sum()), rtol=1e-12)
    for k, mu in enumerate(model.means_ - v @ x / v.sum() * model.coefficients_[:1]):
        # positions under a class lie about its mean, and not along x
        assert abs(np.corrcoef(found.M[k][y == bool(k)][:, 0], x[y == bool(k)])[0, 1]) < 0.4
        np.testing.assert_allclose(found.M[k][y == bool(k)].mean(axis=0), mu, atol=0.15)


def test_expected_counts_of_one_column_know_which_zeros_are_structural() -> None:
    """At one column the mean and variance of Z behind a zero tell those of its two parts, and so the rate."""
    rng = np.random.default_rng(3)
    Y = np.where(rng.random(200) < 0.4, 0.0, rng.poisson(np.exp(rng.normal(0.7, 0.6, 200))))[:, None]
    model = PLN(zero_inflation="column", tol=1e-13).fit(Y)
    mean, Sigma, rho = model.coefficients_[0, 0], model.covariance_[0, 0], model.zero_probability_[:, 0]
    M = (model.latent_mean_[:, 0] - rho * mean) / (1 - rho)
    S2 = (model.latent_variance_[:, 0] - rho * Sigma - rho * (1 - rho) * (M - mean) ** 2) / (1 - rho)
    assert 0.2 < rho[Y[:, 0] == 0].min() < 0.9
    np.testing.assert_allclose(model.predict(Y)[:, 0], (1 - rho) * np.exp(M + S2 / 2), rtol=1e-3)


@pytest.mark.parametrize("by", ["column", "row", "global"])
def test_a_cell_that_is_missing_is_no_zero_that_might_be(by: str) -> None:
    rng = np.random.default_rng(4)
    Y = np.where(rng.random((120, 5)) < 0.3, 0.0, rng.poisson(np.exp(rng.normal(2.0, 0.5, (120, 5)))))
    Y[:40, 1] = np.nan
    model = PLN(zero_inflation=by, covariance="diagonal", tol=1e-12).fit(Y)
    there, rho = ~np.isnan(Y), model.zero_probability_
    over = {"column": 0, "row": 1, "global": None}[by]
    share = np.where(there, rho, 0.0).sum(axis=over) / there.sum(axis=over)
    np.testing.assert_allclose(model.inflation_, np.clip(share, 1e-9, 1).reshape(np.shape(model.inflation_)), atol=1e-4)
