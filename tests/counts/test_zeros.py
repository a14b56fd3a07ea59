"""Zero-inflated PLN: exact small cases, a PLN where nothing is inflated, calibrated probabilities, what is refused, the page."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from scipy.special import entr, expit, gammaln

import tallies
from tallies import PLN
from tallies.counts import command, inflated
from tallies.counts import page as counts_page
from tallies.counts.door import Rows
from tallies.counts.plan import project
from tallies.html import Page


def drawn(seed: int, n: int = 300, p: int = 4, mean: float = 2.0, most: float = 0.5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, which zeros are structural, and the shares of these."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(p, p)) / np.sqrt(p)
    Z = rng.multivariate_normal(rng.normal(mean, 0.4, p), 0.4 * L @ L.T + 0.2 * np.eye(p), n)
    pi = rng.uniform(0.1, most, p)
    W = rng.random((n, p)) < pi
    return np.where(W, 0, rng.poisson(np.exp(Z))), W, pi


@pytest.fixture(scope="module")
def found() -> tuple[PLN, np.ndarray, np.ndarray, np.ndarray]:
    Y, W, pi = drawn(0)
    return PLN(zero_inflation="column").fit(Y), Y, W, pi


def best(y: np.ndarray, mean: np.ndarray, Sigma: np.ndarray, pi: np.ndarray) -> float:
    """The bound of one row over all q of eq. 1 of `inflated`, its variances where W = 1 too, by brute force."""
    Omega, p, zero = np.linalg.inv(Sigma), len(y), y == 0

    def minus(x: np.ndarray) -> float:
        m, c, s2, v1, t = x[:p], x[p : 2 * p], np.exp(x[2 * p : 3 * p]), np.exp(x[3 * p : 4 * p]), x[4 * p :]
        rho = np.where(zero, expit(t), 0.0)
        D = (1 - rho) * m + rho * c - mean
        V = (1 - rho) * s2 + rho * v1 + rho * (1 - rho) * (m - c) ** 2
        J = ((1 - rho) * (y * m - np.exp(m + s2 / 2) - gammaln(y + 1))).sum()
        J += (rho * np.log(pi) + (1 - rho) * np.log1p(-pi) + entr(rho) + entr(1 - rho)).sum()
        J += 0.5 * ((1 - rho) * np.log(s2) + rho * np.log(v1) + 1).sum()
        return -(J - 0.5 * (np.linalg.slogdet(Sigma)[1] + D @ Omega @ D + V @ Omega.diagonal()))

    starts = [np.concatenate([np.log(y + 0.5), mean, np.full(2 * p, -1.0), np.full(p, t)]) for t in (-2.0, 2.0)]
    return -min(optimize.minimize(minus, x, method="BFGS", options={"gtol": 1e-8, "maxiter": 2000}).fun for x in starts)


def test_one_column_against_quadrature() -> None:
    """There q is exact but for the shape of a Gaussian: a zero is structural, or the bound of a PLN at 0."""
    rng = np.random.default_rng(1)
    Y = np.where(rng.random(300) < 0.3, 0, rng.poisson(np.exp(rng.normal(1.5, 0.6, 300))))[:, None]
    model, new = PLN(zero_inflation="column").fit(Y), np.array([[0], [1], [9]])
    pi, mean, sd = model.inflation_[0], model.coefficients_[0, 0], np.sqrt(model.covariance_[0, 0])
    alone = PLN(covariance=model.covariance_).fit(Y)
    alone.fitted_ = alone.fitted_._replace(model=alone.fitted_.model._replace(B=model.coefficients_))
    plain = np.log1p(-pi) + alone.log_prob(new)
    want = np.where(new[:, 0] == 0, np.logaddexp(np.log(pi), plain), plain)
    np.testing.assert_allclose(model.log_prob(new), want, atol=1e-7)
    z, w = np.polynomial.hermite_e.hermegauss(120)
    none = stats.poisson.pmf(new, np.exp(mean + sd * z)) @ w / np.sqrt(2 * np.pi)
    exact = np.log(pi * (new[:, 0] == 0) + (1 - pi) * none)
    assert (model.log_prob(new) <= exact + 1e-9).all()
    assert (exact - model.log_prob(new) < 0.05).all()
    zero = model.zero_probability_[Y == 0]
    np.testing.assert_allclose(zero, pi / np.exp(exact[0]), atol=0.02)
    assert (model.zero_probability_[Y > 0] == 0).all()


@pytest.mark.parametrize("row", [[0, 5], [0, 0], [3, 1], [0, 14, 0]])
def test_a_row_against_brute_force(row: list[int]) -> None:
    p = len(row)
    Y, _, _ = drawn(2, p=p)
    model = PLN(zero_inflation="column").fit(Y)
    want = best(np.array(row, float), model.coefficients_[0], model.covariance_, model.inflation_)
    assert model.log_prob([row])[0] == pytest.approx(want, abs=2e-6)


@pytest.mark.parametrize("row", [[0, 5], [0, 0]])
def test_a_row_whose_zeros_have_covariates_against_brute_force(row: list[int]) -> None:
    Y, _, _ = drawn(2, p=2)
    data = pd.DataFrame({"depth": np.linspace(-1, 1, len(Y))})
    model = PLN(zero_inflation="~ depth").fit_formula("~ 1", Y, data)
    pi = expit([1.0, 0.4] @ model.inflation_coefficients_.to_numpy())
    want = best(np.array(row, float), model.coefficients_[0], model.covariance_, pi)
    assert model.log_prob([row], covariates=pd.DataFrame({"depth": [0.4]}))[0] == pytest.approx(want, abs=2e-6)


def test_without_a_zero_it_is_a_pln() -> None:
    rng = np.random.default_rng(3)
    Y, X = 1 + rng.poisson(np.exp(rng.normal(2.0, 0.7, (150, 3)))), np.column_stack([np.ones(150), np.linspace(-1, 1, 150)])
    weight = 1.0 + (np.arange(150) % 4 == 0)
    for kind in ("full", "diagonal", "spherical"):
        model, plain = (
            PLN(covariance=kind, zero_inflation=by).fit(Y, covariates=X, sample_weight=weight) for by in ("column", None)
        )
        assert model.elbo_ == pytest.approx(plain.elbo_, rel=1e-7)
        np.testing.assert_allclose(model.coefficients_, plain.coefficients_, atol=1e-4)
        np.testing.assert_allclose(model.covariance_, plain.covariance_, atol=1e-4)
        np.testing.assert_allclose(model.latent_mean_, plain.latent_mean_, atol=1e-3)
        assert model.zero_probability_.max() == 0
        assert model.inflation_.max() < 1e-8
        assert any("do not ask for zero inflation" in text for text in model._caveats())


def test_the_bound_never_falls_and_is_flat_at_its_end() -> None:
    Y, _, _ = drawn(4, n=150, p=3)
    model = PLN(zero_inflation="column", tol=1e-14).fit(Y)
    assert np.diff(model.history_).min() >= -1e-11 * abs(model.elbo_)
    np.testing.assert_allclose(model.inflation_, model.zero_probability_.mean(axis=0), atol=1e-5)
    rows, learned = Rows(Y.astype(float), np.zeros(Y.shape), np.ones((150, 1)), np.ones(150)), model.fitted_.model

    def value(B: Any = 0.0, pi: Any = 0.0) -> float:
        moved = learned._replace(B=learned.B + B, pi=np.clip(learned.pi + pi, 1e-9, 1.0))
        place = project(moved, rows, None, close=True)
        assert place.bound is not None
        return float(place.bound.sum())

    h, middle = 1e-3, value()
    assert middle == pytest.approx(model.elbo_, abs=1e-4)
    for j, unit in enumerate(np.eye(3)):
        for name, bend in (("B", unit[None]), ("pi", unit)):
            low, high = value(**{name: -h * bend}), value(**{name: h * bend})
            slope, curvature = (high - low) / (2 * h), (high - 2 * middle + low) / h**2
            assert curvature < 0, (j, name)
            assert abs(slope / curvature) < 1e-3, (j, name)  # no further away from the top


@pytest.mark.parametrize("by", ["column", "global", "row", "~ depth"])
def test_leaps_save_sweeps_and_change_no_end(by: str, monkeypatch: Any) -> None:
    """Whoever's zeros are inflated alike."""
    Y, _, _ = drawn(4, n=150, p=3)
    table = pd.DataFrame({"depth": np.linspace(-1, 1, 150)})
    leaping = PLN(zero_inflation=by, tol=1e-13).fit_formula("~ depth", Y, table)
    monkeypatch.setattr(inflated, "KEPT", 1 << 30)
    walking = PLN(zero_inflation=by, tol=1e-13).fit_formula("~ depth", Y, table)
    assert leaping.elbo_ == pytest.approx(walking.elbo_, rel=1e-8)
    assert leaping.elbo_ >= walking.elbo_ - 1e-5
    np.testing.assert_allclose(leaping.covariance_, walking.covariance_, atol=5e-3)
    assert leaping.n_iter_ < (1.0 if by == "row" else 0.7) * walking.n_iter_  # shares of rows do not leap
    assert np.diff(leaping.history_).min() >= -1e-11 * abs(leaping.elbo_)


def test_a_leap_that_lowers_the_bound_is_taken_back(monkeypatch: Any) -> None:
    """All are made to: the fit is that of sweeps alone, and a fit that is cut in a leap has the state before it."""
    Y, _, _ = drawn(4, n=150, p=3)
    monkeypatch.setattr(inflated, "limit", lambda seen: seen[-1] + 0.5)
    astray = PLN(zero_inflation="column", tol=1e-13).fit(Y)
    monkeypatch.setattr(inflated, "KEPT", 1 << 30)
    walking = PLN(zero_inflation="column", tol=1e-13).fit(Y)
    assert astray.n_iter_ > 1.1 * walking.n_iter_  # the leaps
    assert np.diff(astray.history_).min() >= -1e-11 * abs(astray.elbo_)
    assert astray.elbo_ == pytest.approx(walking.elbo_, rel=1e-9)
    np.testing.assert_allclose(astray.covariance_, walking.covariance_, atol=1e-4)
    cut = [6, 7]  # after the sixth sweep params leap; the seventh has found that it is no good
    monkeypatch.setattr(inflated, "KEPT", 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        halted = [
            PLN(zero_inflation="column").fit(
                Y, callback=lambda stage, state, n=n: stage.name == "zero inflation" and len(state.objective) == n
            )
            for n in cut
        ]
    np.testing.assert_allclose(halted[0].elbo_, halted[1].elbo_, rtol=1e-12)
    np.testing.assert_allclose(halted[0].coefficients_, halted[1].coefficients_, rtol=1e-12)
    assert halted[0].elbo_ > halted[0].history_[-1] - 1e-9


def test_probabilities_are_calibrated_when_the_model_is_true() -> None:
    stated, true, errors = [], [], []
    for seed in range(6):
        Y, W, pi = drawn(10 + seed, n=400, p=5, mean=1.5)
        model = PLN(zero_inflation="column").fit(Y)
        errors.append(np.abs(model.inflation_ - pi))
        stated.append(model.zero_probability_[Y == 0])
        true.append(W[Y == 0])
    p, t = np.concatenate(stated), np.concatenate(true)
    assert np.mean(errors) < 0.03
    for low, high in ((0.0, 0.5), (0.5, 0.8), (0.8, 0.9), (0.9, 0.97), (0.97, 1.01)):
        some = (p >= low) & (p < high)
        if some.sum() > 50:  # shares of columns are estimates, too: they move the probabilities of many zeros together
            assert abs(p[some].mean() - t[some].mean()) < 0.05 + 4 * np.sqrt(0.25 / some.sum()), (low, high)
    assert np.mean((p - t) ** 2) < np.mean((t.mean() - t) ** 2)  # better than one probability for all zeros


def test_shares_of_all_and_of_rows() -> None:
    rng = np.random.default_rng(5)
    Z, rows = rng.normal(2.5, 0.4, (200, 12)), rng.uniform(0.0, 0.7, 200)
    for by, pi in (("global", np.full((1, 1), 0.3)), ("row", rows[:, None])):
        Y = np.where(rng.random((200, 12)) < pi, 0, rng.poisson(np.exp(Z)))
        model = PLN(zero_inflation=by, covariance="diagonal").fit(Y)
        assert model.inflation_.shape == ((1,) if by == "global" else (200,))
        assert np.abs(model.inflation_ - pi.ravel()).mean() < (0.03 if by == "global" else 0.12)
        assert model.n_parameters_ == 24 + (1 if by == "global" else 200)
        counts = model.sample(4000, random_state=0)
        assert (counts == 0).mean() == pytest.approx((Y == 0).mean(), abs=0.03)


def test_expected_counts_and_samples(found: Any) -> None:
    model, Y, _, pi = found
    np.testing.assert_allclose(model.inflation_, pi, atol=0.12)
    np.testing.assert_allclose(model.predict(offsets=np.zeros(1))[0], Y.mean(axis=0), rtol=0.15)
    given = model.predict(Y)
    assert (given[Y == 0] < 1.5).all()
    counts = model.sample(5000, random_state=1)
    hidden = counts[:3000].astype(float)
    hidden[:, 0] = np.nan  # what is expected of it given the others is in the mean what is expected of it
    np.testing.assert_allclose(model.predict(hidden)[:, 0].mean(), model.predict(offsets=np.zeros(1))[0, 0], rtol=0.02)
    np.testing.assert_allclose((counts == 0).mean(axis=0), (Y == 0).mean(axis=0), atol=0.05)
    np.testing.assert_allclose(model.transform(Y), model.latent_mean_, atol=2e-3)
    assert model.log_prob(Y).sum() == pytest.approx(model.elbo_, rel=1e-6)
    assert tallies.evaluate(model, Y).kind == "bound"
    assert not any("do not ask" in text for text in model._caveats())
    assert model.elbo_ - model.fitted_.zeros.plain > 50


def test_rows_without_weight_are_placed(found: Any) -> None:
    _, Y, _, _ = found
    weight = np.ones(len(Y))
    weight[:30] = 0
    model, alone = PLN(zero_inflation="column").fit(Y, sample_weight=weight), PLN(zero_inflation="column").fit(Y[30:])
    assert model.elbo_ == pytest.approx(alone.elbo_, rel=1e-7)
    np.testing.assert_allclose(model.zero_probability_[30:], alone.zero_probability_, atol=1e-3)
    assert (model.zero_probability_[:30][Y[:30] == 0] > 0).all()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"zero_inflation": "species"}, "zero_inflation"),
        ({"zero_inflation": "row", "rank": 2}, "with a rank"),
        ({"zero_inflation": "column", "method": "importance"}, "variational"),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PLN(**settings).fit(drawn(0)[0])


def test_what_it_cannot_answer_is_told(found: Any) -> None:
    model, Y, *_ = found
    with pytest.raises(ValueError, match="structural zeros"):
        model.evidence(Y)
    with pytest.raises(ValueError, match="no standard errors"):
        model.coefficient_table()
    plain = PLN().fit(Y)
    assert plain.zero_probability_ is None
    assert plain.inflation_ is None


def test_the_command_scores_by_the_bound(tmp_path: Path, found: Any) -> None:
    model, Y, *_ = found
    pd.DataFrame(Y).add_prefix("s").to_csv(tmp_path / "counts.csv", index=False)
    scores, judged = command.score(model, {}, str(tmp_path / "counts.csv"))
    assert list(scores) == ["variational"]
    assert judged.value == pytest.approx(model.score(Y))


def test_the_page_says_which_zeros(tmp_path: Path, found: Any) -> None:
    model, Y, *_ = found
    model.report(tmp_path / "page.html", Y)
    text = (tmp_path / "page.html").read_text()
    assert "structural" in text
    assert "Which zeros are structural?" in text
    assert "zero-inflated" in model.summary()


def test_a_page_names_no_species_for_zeros_it_does_not_have() -> None:
    rho = np.zeros((50, 4))
    rho[:10, 2], rho[:, 3] = 0.95, 1e-9
    fitted = SimpleNamespace(zeros=1, data=SimpleNamespace(values=np.zeros((50, 4))))
    model = SimpleNamespace(fitted_=fitted, zero_probability_=rho)
    (told,) = counts_page._structural(model, list("abcd"))
    assert told == "Of 200 zeros about 10 are structural, 10 of them with a probability above 90%; most of c (19% of its counts)."
    section = Page("t", "").section("zeros", "Zeros")
    counts_page._zeros(section, model, list("abcd"))
    assert not any("e−0" in str(part) or "e-0" in str(part) for part in section.parts)
