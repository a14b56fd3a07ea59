"""Structural zeros by covariates: exact small cases, a share a column where there are none, what is asked and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import tallies
from tallies import PLN


def drawn(seed: int = 0, n: int = 300, p: int = 3) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
    """Counts, a table of covariates, and which zeros are structural: more of them at site b."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"site": np.array(["a", "b"])[rng.integers(0, 2, n)], "depth": rng.normal(size=n)})
    Z = rng.multivariate_normal(np.full(p, 2.0), 0.3 * np.eye(p) + 0.2, n) + 0.3 * data[["depth"]].to_numpy()
    hidden = rng.random((n, p)) < np.where(data[["site"]] == "b", 0.5, 0.1)
    return np.where(hidden, 0, rng.poisson(np.exp(Z))), data, hidden


@pytest.fixture(scope="module")
def found() -> tuple[PLN, np.ndarray, pd.DataFrame, np.ndarray]:
    Y, data, hidden = drawn()
    return PLN(zero_inflation="~ site").fit_formula("~ 1 + depth", Y, data), Y, data, hidden


def test_one_column_against_quadrature() -> None:
    """There q is exact but for the shape of a Gaussian."""
    Y, data, _ = drawn(1, p=1)
    model, new = PLN(zero_inflation="~ depth").fit_formula("~ 1", Y, data), pd.DataFrame({"depth": [-1.0, 0.5, 2.0]})
    G, mean, sd = model.inflation_coefficients_.to_numpy(), model.coefficients_[0, 0], np.sqrt(model.covariance_[0, 0])
    pi, counts = expit(G[0, 0] + G[1, 0] * new["depth"].to_numpy()), np.array([0, 3, 0])
    z, w = np.polynomial.hermite_e.hermegauss(120)
    none = stats.poisson.pmf(counts[:, None], np.exp(mean + sd * z)) @ w / np.sqrt(2 * np.pi)
    exact = np.log(pi * (counts == 0) + (1 - pi) * none)
    gap = exact - model.log_prob(counts[:, None], covariates=new)
    assert gap.min() > -1e-9
    assert gap.max() < 0.05


def test_a_constant_is_a_share_of_each_column() -> None:
    Y, _, _ = drawn(2)
    by, column = PLN(zero_inflation="~ 1", tol=1e-12).fit(Y), PLN(zero_inflation="column", tol=1e-12).fit(Y)
    assert by.elbo_ == pytest.approx(column.elbo_, rel=1e-9)
    np.testing.assert_allclose(by.inflation_, np.tile(column.inflation_, (300, 1)), atol=1e-4)
    assert by.n_parameters_ == column.n_parameters_


def test_without_a_zero_it_is_a_pln() -> None:
    Y, data, _ = drawn(3, n=100)
    with pytest.warns(tallies.errors.DataWarning, match="do not ask for zero inflation"):
        model = PLN(zero_inflation="~ site").fit_formula("~ 1 + depth", Y + 1, data)
    plain = PLN().fit_formula("~ 1 + depth", Y + 1, data)
    assert model.elbo_ == pytest.approx(plain.elbo_, rel=1e-6)
    np.testing.assert_allclose(model.coefficients_, plain.coefficients_, atol=1e-4)
    assert model.zero_probability_.max() == 0


def test_a_site_has_the_share_of_its_zeros(found: Any) -> None:
    """The maximum of eq. 6: residuals are orthogonal to the covariates; the bound never falls on the way."""
    model, Y, data, hidden = found
    for site in ("a", "b"):
        rows = (data["site"] == site).to_numpy()
        np.testing.assert_allclose(model.inflation_[rows].mean(axis=0), model.zero_probability_[rows].mean(axis=0), atol=1e-3)
        np.testing.assert_allclose(model.inflation_[rows].mean(axis=0), hidden[rows].mean(axis=0), atol=0.04)
    assert np.diff(model.history_).min() >= -1e-11 * abs(model.elbo_)
    assert model.n_parameters_ == 2 * 3 + 6 + 2 * 3
    assert model.bic_ < PLN(zero_inflation="column").fit_formula("~ 1 + depth", Y, data).bic_


def test_weights_count_rows() -> None:
    Y, data, _ = drawn(4, n=80)
    v = np.arange(80) % 3
    twice = np.repeat(np.arange(80), v)
    options = {"zero_inflation": "~ depth", "tol": 1e-12}
    weighted, repeated = PLN(**options), PLN(**options)
    weighted.fit_formula("~ 1", Y, data, sample_weight=v)
    repeated.fit_formula("~ 1", Y[twice], data.iloc[twice].reset_index(drop=True))
    assert weighted.elbo_ == pytest.approx(repeated.elbo_, rel=1e-8)
    np.testing.assert_allclose(weighted.inflation_coefficients_, repeated.inflation_coefficients_, atol=1e-3)
    assert weighted.zero_probability_.shape == (80, 3)  # rows without weight are placed


def test_new_samples_bring_the_covariates_of_zeros(found: Any, tmp_path: Path) -> None:
    model, Y, data, _ = found
    np.testing.assert_allclose(model.transform(Y[:5], covariates=data[:5]), model.latent_mean_[:5], atol=1e-3)
    mean = np.exp(model.design_[:4] @ model.coefficients_ + 0.5 * model.covariance_.diagonal())
    np.testing.assert_allclose(model.predict(covariates=data[:4]), (1 - model.inflation_[:4]) * mean)
    at = pd.DataFrame({"site": ["b"] * 4000, "depth": 0.0})
    share = (model.sample(4000, covariates=at, random_state=0) == 0).mean(axis=0)
    assert (share > model.inflation_[(data["site"] == "b").to_numpy()].mean(axis=0) - 0.03).all()
    gap = Y[:4].astype(float)
    gap[:, 0] = np.nan
    assert (model.predict(gap, covariates=data[:4])[:, 0] > 0).all()
    model.save(tmp_path / "zeros.tallies")
    again = tallies.load(tmp_path / "zeros.tallies")
    assert again.inflation_coefficients_.equals(model.inflation_coefficients_)
    assert list(again.inflation_coefficients_.index) == ["Intercept", "site[T.b]"]
    with pytest.raises(ValueError, match="pass the table of its variables"):
        model.transform(Y[:5] + 1)


def test_what_makes_no_sense_is_told(found: Any) -> None:
    _, Y, data, _ = found
    with pytest.raises(ValueError, match="zero_inflation='~ site' asks for a table of covariates, but there is none; pass"):
        PLN(zero_inflation="~ site").fit(Y)
    for nothing in (None, np.ones((300, 1))):
        with pytest.raises(ValueError, match=f"a formula needs the table of its variables: .*, got {type(nothing).__name__}"):
            PLN().fit_formula("~ 1", Y, nothing)
    with pytest.raises(ValueError, match="needs names"):
        PLN(zero_inflation="~ site").fit(Y, covariates=np.ones((300, 1)))
    with pytest.raises(ValueError, match="there is no 'tree'"):
        PLN(zero_inflation="~ tree").fit_formula("~ 1", Y, data)
    with pytest.raises(ValueError, match="collinear"):
        PLN(zero_inflation="~ depth + I(2 * depth)").fit_formula("~ 1", Y, data)
    with pytest.raises(ValueError, match='a formula such as "~ site"'):
        PLN(zero_inflation="formula").fit(Y)
