"""PLNMixture: exact small cases, one component as a PLN, clusters found, the choice of their number, bad input, the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from scipy.special import gammaln, logsumexp

import tallies
from tallies import PLN, PLNMixture
from tallies.counts.door import Rows, cut
from tallies.counts.mixture import answers as asked
from tallies.counts.mixture import model as mixed
from tallies.counts.mixture.plan import free_numbers, groupings
from tallies.counts.records import Spread
from tallies.engine import stream


def drawn(seed: int, n: int = 200, p: int = 6, K: int = 3, apart: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Counts and their true clusters."""
    rng = np.random.default_rng(seed)
    mu, c = rng.normal(1.0, 0.5, p) + apart * rng.normal(size=(K, p)), rng.integers(0, K, n)
    return rng.poisson(np.exp(rng.normal(mu[c], 0.5))), c


def agreement(a: np.ndarray, b: np.ndarray) -> float:
    """Share of the samples that two groupings place alike, whatever they call the groups."""
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)
    return table[optimize.linear_sum_assignment(-table)].sum() / len(a)


@pytest.fixture(scope="module")
def found() -> tuple[PLNMixture, np.ndarray, np.ndarray]:
    Y, c = drawn(0, apart=1.5)
    return PLNMixture(n_components=[1, 2, 3, 4], n_starts=3).fit(Y), Y, c


def bound(y: np.ndarray, mean: np.ndarray, Sigma: np.ndarray) -> float:
    """Of log p(y), over the means and log variances of q, in which it is concave: by Newton's method."""
    Omega, p, constant = np.linalg.inv(Sigma), len(y), gammaln(y + 1).sum() + 0.5 * np.linalg.slogdet(Sigma)[1]

    def minus(z: np.ndarray) -> float:
        m, s2, R = z[:p], np.exp(z[p:]), z[:p] - mean
        return np.exp(m + s2 / 2).sum() - y @ m + 0.5 * (R @ Omega @ R + s2 @ Omega.diagonal() - p - z[p:].sum()) + constant

    z = np.concatenate([np.log(y + 1), np.full(p, -1.0)])
    for _ in range(100):
        s2, value = np.exp(z[p:]), minus(z)
        rate = np.exp(z[:p] + s2 / 2)
        gradient = np.concatenate([rate - y + Omega @ (z[:p] - mean), 0.5 * s2 * (rate + Omega.diagonal()) - 0.5])
        cross, own = np.diag(0.5 * s2 * rate), np.diag(0.5 * s2 * (rate + Omega.diagonal()) + 0.25 * s2**2 * rate)
        step = np.linalg.solve(np.block([[np.diag(rate) + Omega, cross], [cross, own]]), gradient)
        if gradient @ step < 1e-13:  # twice what is left to gain
            return -value
        length = 1.0
        while not minus(z - length * step) <= value - 1e-4 * length * (gradient @ step) + 1e-13 * abs(value):
            length /= 2
        z = z - length * step
    raise AssertionError("no end within 100 steps")


def test_two_rows_against_enumeration() -> None:
    """All four assignments of two rows, each of whose bounds is found by brute force, give the bound and the probabilities."""
    Y, _ = drawn(1, n=80, p=2, K=2, apart=1.5)
    model = PLNMixture(n_components=2, covariance="full").fit(Y)
    two = np.array([[1, 4], [6, 2]])
    each = np.array([[bound(y, m[0], S) for m, S in zip(model.coefficients_, model.covariances_, strict=True)] for y in two])
    whole = {(a, b): each[0, a] + each[1, b] + np.log(model.shares_[[a, b]]).sum() for a in (0, 1) for b in (0, 1)}
    total = logsumexp(list(whole.values()))
    assert model.log_prob(two).sum() == pytest.approx(total, abs=1e-7)
    first = sum(np.exp(value - total) for (a, _), value in whole.items() if a == 0)
    assert model.predict_proba(two)[0, 0] == pytest.approx(first, abs=1e-7)


def test_one_column_against_quadrature() -> None:
    rng = np.random.default_rng(2)
    Y = rng.poisson(np.exp(np.r_[rng.normal(0.5, 0.4, 60), rng.normal(3.0, 0.4, 60)]))[:, None]
    model, new = PLNMixture(n_components=2).fit(Y), np.array([[0], [5], [9], [30]])
    z, w = np.polynomial.hermite_e.hermegauss(120)
    parts = [
        share * (stats.poisson.pmf(new, np.exp(mean[0, 0] + np.sqrt(S[0, 0]) * z)) @ w) / np.sqrt(2 * np.pi)
        for share, mean, S in zip(model.shares_, model.coefficients_, model.covariances_, strict=True)
    ]
    exact = np.log(np.sum(parts, axis=0))
    assert (model.log_prob(new) <= exact + 1e-9).all()
    assert (exact - model.log_prob(new) < 0.03).all()  # what mean field loses at one column
    np.testing.assert_allclose(model.predict_proba(new)[:, 0], parts[0] / np.sum(parts, axis=0), atol=0.01)


def test_the_bound_of_the_fit_is_that_of_its_parameters(found: Any) -> None:
    _, Y, _ = found
    model = PLNMixture(n_components=3, n_starts=1, tol=1e-9).fit(Y)  # to where the places of rows hardly move
    each = [[bound(y, m[0], S) for m, S in zip(model.coefficients_, model.covariances_, strict=True)] for y in Y[:10]]
    J = np.array(each) + np.log(model.shares_)
    tau = np.exp(J - logsumexp(J, axis=1, keepdims=True))
    np.testing.assert_allclose(model.probabilities_[:10], tau, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(Y), model.probabilities_, atol=1e-4)
    assert model.log_prob(Y).sum() == pytest.approx(model.elbo_, rel=1e-6)
    assert model.log_prob(Y).sum() >= model.elbo_ - 1e-6  # which is at the places that the fit ended with


@pytest.mark.parametrize("kind", ["full", "diagonal", "spherical"])
def test_one_component_is_a_pln(kind: str) -> None:
    Y, _ = drawn(3)
    weight = 1.0 + (np.arange(len(Y)) % 3 == 0)
    X = np.column_stack([np.ones(len(Y)), np.linspace(-1, 1, len(Y))])
    model = PLNMixture(n_components=1, covariance=kind, tol=1e-10).fit(Y, covariates=X, sample_weight=weight)
    alone = PLN(covariance=kind).fit(Y, covariates=X, sample_weight=weight)
    assert model.elbo_ == pytest.approx(alone.elbo_, rel=1e-8)
    assert (model.n_parameters_, model.entropy_) == (alone.n_parameters_, 0)
    assert model.bic_ == pytest.approx(alone.bic_, rel=1e-8)
    np.testing.assert_allclose(model.coefficients_[0], alone.coefficients_, atol=1e-3)
    np.testing.assert_allclose(model.covariances_[0], alone.covariance_, atol=2e-3)
    np.testing.assert_allclose(model.latent_mean_, alone.latent_mean_, atol=5e-3)


def test_the_steps_are_up_the_bound_and_end_where_moments_agree(found: Any) -> None:
    """At the end shares, means and covariances are those that maximise the bound given the rows."""
    Y, _ = drawn(4, apart=0.5)
    model = PLNMixture(n_components=2, covariance="full", tol=1e-12).fit(Y)
    assert np.diff(model.history_).min() >= -1e-9 * abs(model.elbo_)
    np.testing.assert_allclose(model.shares_, model.probabilities_.mean(axis=0), atol=1e-5)
    rows = Rows(Y.astype(float), np.zeros(Y.shape), np.ones((len(Y), 1)), np.ones(len(Y)))
    for k, learned in enumerate(model.fitted_.models):
        from tallies.counts.plan import project

        place = project(learned, rows, None, close=True)
        none = np.zeros_like(learned.B)
        B, Sigma = Spread.of(place.M, place.S2, rows.X, model.probabilities_[:, k], none).maximum(none)
        np.testing.assert_allclose(B, learned.B, atol=2e-3)
        np.testing.assert_allclose(Sigma, learned.Sigma, atol=2e-3)


def test_row_bounds_add_to_the_bound_of_the_search() -> None:
    """Slopes of a component are those of its bound: finite differences of the sum over weighted rows."""
    Y, _ = drawn(5, n=30, p=3)
    rows = Rows(Y.astype(float), np.zeros(Y.shape), np.ones((30, 1)), np.ones(30))
    M, centres = np.log(Y + 1.0), np.array([[0.0, 0.0, 0.0], [2.0, 1.0, 1.0]])
    groups = ((M[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    (source,) = cut(rows, None, M, groups[:, None])
    shard, model = source.load(), mixed.Mixed("full")
    params = mixed.begin(model.survey(shard), 2)
    latents = model.settle(shard, params, stream(0, 0, 0, 1))
    assert latents.tau.sum() == 30
    while params.phase != mixed.ASSIGN:
        tally, latents = model.sweep(shard, latents, params, stream(0, 0, 1, 1))
        params = model.update(params, tally, stream(0, 0, 1, 0))
    for k, part in enumerate(params.parts):
        z = mixed.current(latents.parts[k], part)
        weight = np.maximum(latents.tau[:, k], mixed.FLOOR)
        own = -weight @ (mixed.row_bounds(shard, z.M, z.S2, part.point) + gammaln(Y + 1).sum(axis=1))
        assert own == pytest.approx(part.search.F, rel=1e-6)  # constants of the counts are no part of it


def test_the_number_is_chosen(found: Any) -> None:
    model, _, c = found
    assert model.n_components_ == 3
    assert agreement(model.labels_, c) > 0.97
    table = model.tried_
    assert table.index.tolist() == [1, 2, 3, 4]
    assert table["chosen"].tolist() == [False, False, True, False]
    assert table.loc[3, "icl"] == pytest.approx(model.icl_) == table["icl"].min()
    assert table.loc[3, "bic"] == pytest.approx(-2 * model.elbo_ + free_numbers(3, "diagonal", 1, 6) * np.log(200))
    assert model.icl_ - model.bic_ == pytest.approx(
        -2 * np.sum(model.probabilities_ * np.log(np.maximum(model.probabilities_, 1e-300)))
    )
    one, _ = drawn(6, K=1)
    # more components than there are take long to settle, and gain little
    alone = PLNMixture(n_components="auto", n_starts=1, max_iter=60).fit(one)
    assert alone.n_components_ == 1
    assert alone.tried_["icl"].iloc[1:].min() > alone.icl_ + 100  # far more than further sweeps would change


@pytest.mark.parametrize(("unsure", "says"), [(0, "0 samples are"), (1, "1 sample is"), (2, "2 samples are")])
def test_samples_in_no_cluster_are_counted_in_words(found: Any, unsure: int, says: str) -> None:
    fitted = found[0].fitted_
    tau = np.repeat([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], [unsure, len(fitted.tau) - unsure], axis=0)
    assert f"; {says} in no cluster" in asked.facts(fitted._replace(tau=tau), "diagonal")[-1]


def test_clusters_of_new_samples_and_back(found: Any) -> None:
    model, Y, _ = found
    counts, labels = model.sample(3000, random_state=0)
    assert agreement(model.predict(counts), labels) > 0.97
    np.testing.assert_allclose(np.bincount(labels) / 3000, model.shares_, atol=0.05)
    stated = model.predict_proba(counts).max(axis=1)
    assert abs(stated.mean() - (model.predict(counts) == labels).mean()) < 0.01  # the model is true here
    assert model.transform(Y).shape == Y.shape
    np.testing.assert_allclose(model.transform(Y), model.latent_mean_, atol=1e-2)
    again = PLNMixture(n_components=3).fit(counts)
    order = [int(np.argmin(((again.means_ - mean) ** 2).sum(axis=1))) for mean in model.means_]
    common = model.means_ > 0  # of rare species the bound knows less
    np.testing.assert_allclose(again.means_[order][common], model.means_[common], atol=0.15)
    assert tallies.evaluate(model, Y).kind == "bound"


def test_rows_without_weight_are_clustered_too(found: Any) -> None:
    _, Y, c = found
    weight = np.ones(len(Y))
    weight[:20] = 0
    model, alone = PLNMixture(n_components=3).fit(Y, sample_weight=weight), PLNMixture(n_components=3).fit(Y[20:])
    assert model.elbo_ == pytest.approx(alone.elbo_, rel=1e-9)
    assert agreement(model.labels_, c) > 0.97
    np.testing.assert_allclose(model.probabilities_[:20], alone.predict_proba(Y[:20]), atol=1e-6)
    hidden = Y.astype(float)
    hidden[::7, 2] = np.nan
    assert agreement(PLNMixture(n_components=3).fit(hidden).labels_, c) > 0.95


def test_a_component_left_without_samples_is_given_up(monkeypatch: Any) -> None:
    Y, _ = drawn(7, n=60, K=2)
    monkeypatch.setattr("tallies.counts.mixture.plan.groupings", lambda R, v, K, n_starts, seed: [np.vstack([R[:2], R[:1] + 99.0])])
    with pytest.warns(tallies.errors.DataWarning, match="1 of 3 components were left without samples"):
        model = PLNMixture(n_components=3).fit(Y)
    assert model.n_components_ == 2
    assert model.probabilities_.shape == (60, 2)
    assert np.isfinite(model.elbo_)
    np.testing.assert_allclose(model.shares_.sum(), 1.0)


def test_starts_end_no_lower_than_the_true_centres(monkeypatch: Any) -> None:
    """On a small table of overlapping clusters, of which ICL takes two: not for want of a start."""
    Y, c = drawn(0, n=70, apart=0.8)
    model = PLNMixture(n_components=[2, 3], n_starts=2, tol=1e-7).fit(Y)
    assert model.n_components_ == 2
    centres = lambda R, v, K, n_starts, seed: [np.stack([R[c == k].mean(axis=0) for k in range(3)])]  # noqa: E731
    monkeypatch.setattr("tallies.counts.mixture.plan.groupings", centres)
    true = PLNMixture(n_components=3, tol=1e-7).fit(Y)
    assert model.tried_["loglik"].iloc[1] > true.elbo_ - 0.1
    assert model.tried_["icl"].iloc[0] < true.icl_


def test_samples_that_are_alike_need_fewer_clusters_and_no_other_library_speaks() -> None:
    """k-means leaves groups empty there, thirty times a start: what is told is that components were given up."""
    with pytest.warns(tallies.errors.DataWarning, match="1 of 3 components were left without samples") as told:
        model = PLNMixture(n_components=3).fit(np.tile([[3, 0, 7], [1, 9, 2]], (20, 1)))
    assert model.n_components_ == 2
    assert {w.category for w in told} == {tallies.errors.DataWarning}


def test_groupings_do_not_depend_on_the_order_of_rows() -> None:
    R = np.random.default_rng(0).normal(size=(50, 3)) + 4 * (np.arange(50) % 2)[:, None]
    one, two = (groupings(R[order], np.ones(50), 2, 3, 0) for order in (np.arange(50), np.random.default_rng(1).permutation(50)))
    assert len(one) == len(two) == 1  # all seeds find the same two groups
    np.testing.assert_allclose(one[0], two[0])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"n_components": 0}, "from 1 on"),
        ({"n_components": 1.5}, "from 1 on"),
        ({"n_components": "many"}, "n_components"),
        ({"n_components": None}, "from 1 on"),
        ({"n_components": [2, "3"]}, "from 1 on"),
        ({"n_components": [[1, 2]]}, "from 1 on"),
        ({"n_components": 40}, "fit fewer components"),
        ({"covariance": "shared"}, "covariance"),
        ({"select": "aic"}, "select"),
        ({"n_starts": 0}, "n_starts"),
    ],
)
def test_bad_settings_are_told(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PLNMixture(**settings).fit(drawn(0, n=60)[0])


def test_bad_data_are_told() -> None:
    Y, _ = drawn(0, n=60)
    with pytest.raises(ValueError, match="no counts"):
        PLNMixture().fit(np.column_stack([Y, np.zeros(60)]))
    with pytest.raises(ValueError, match="more rows than covariates"):
        PLNMixture(n_components=1).fit(Y[:5], covariates=np.random.default_rng(0).normal(size=(5, 6)))
    model = PLNMixture(n_components=2).fit(np.column_stack([Y, np.full(60, 3)]))  # a constant column
    assert np.isfinite(model.elbo_)
    assert any("vary less than Poisson" in text for text in model._caveats())
    with pytest.raises(ValueError, match="offsets"):
        PLNMixture(n_components=1).fit(Y, offsets=np.ones(60)).predict(Y[:2] + 1)


def test_the_page_leads_with_clusters(tmp_path: Path, found: Any) -> None:
    model, Y, c = found
    model.report(tmp_path / "page.html", Y, colour=pd.DataFrame({"true": c}))
    text = (tmp_path / "page.html").read_text()
    assert "fall into 3 clusters" in text
    assert "cluster 1 has" in text
    for title in ("What marks each cluster", "How far apart the clusters are", "How many clusters?", "Clusters beside true"):
        assert title in text
    PLNMixture(n_components=1).fit(Y).report(tmp_path / "one.html")
    assert "nothing speaks for more" in (tmp_path / "one.html").read_text()
