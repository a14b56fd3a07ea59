"""Rows of counts that come once: a batch alone, the same batch again, the maximum given what was left; loss, resume, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import tallies
from tallies import PLN
from tallies.counts import stream
from tallies.counts.records import Moments
from tallies.engine import add
from tallies.errors import DataError
from tallies.sums import faded

p = 5


def table(n, seed=0):
    """Counts with a covariate, drawn from the model."""
    rng = np.random.default_rng(seed)
    A = np.random.default_rng(1).normal(size=(p, 2))
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    B = np.array([[1.0, 0.5, 2.0, 0.0, 1.5], [0.5, -0.5, 0.2, 0.0, 0.3]])
    Z = X @ B + rng.multivariate_normal(np.zeros(p), A @ A.T / 2 + 0.3 * np.eye(p), size=n)
    return rng.poisson(np.exp(Z)), X


def same(a, b, atol):
    np.testing.assert_allclose(a.coefficients_, b.coefficients_, atol=atol)
    np.testing.assert_allclose(a.covariance_, b.covariance_, atol=atol)


def test_moments_add_and_give_those_about_any_coefficients():
    rng = np.random.default_rng(0)
    M, S2, X, v, B = (rng.random(shape) for shape in ((30, p), (30, p), (30, 2), 30, (2, p)))
    whole = Moments.of(M, S2, X, v)
    for found, made in zip(add([Moments.of(M[a], S2[a], X[a], v[a]) for a in (slice(12), slice(12, 30))]), whole, strict=True):
        np.testing.assert_allclose(found, made, rtol=1e-12)
    R = M - X @ B
    P, G = whole.about(B)
    np.testing.assert_allclose(P, X.T @ (v[:, None] * R), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(G, R.T @ (v[:, None] * R) + np.diag(v @ S2), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(faded(whole, 0.25).MvM, whole.MvM / 4)


@pytest.mark.parametrize("kind", ["full", "diagonal", "spherical", np.eye(p) * 0.7])
def test_a_batch_that_remembers_nothing_is_a_fit_of_its_own(kind, monkeypatch):
    """With rho = 1 nothing of what was before is left."""
    monkeypatch.setattr(stream, "REMEMBERED", 0.0)
    (Y, X), (other, its) = table(300), table(200, 7)
    found = PLN(covariance=kind, tol=1e-12).fit(other, covariates=its).partial_fit(Y, covariates=X)
    alone = PLN(covariance=kind, tol=1e-12).fit(Y, covariates=X)
    same(found, alone, 1e-4)
    np.testing.assert_allclose(found.loglik_, alone.loglik_, rtol=1e-8)


@pytest.mark.parametrize("kind", ["full", "diagonal", "spherical"])
@pytest.mark.parametrize("share", [0.1, 1.0, 3.0])
def test_the_same_batch_again_changes_nothing(kind, share, monkeypatch):
    """However much is remembered: moments are means times a weight, and only their scale is another."""
    monkeypatch.setattr(stream, "REMEMBERED", share)
    Y, X = table(300)
    once = PLN(covariance=kind, tol=1e-12).fit(Y, covariates=X)
    twice = PLN(covariance=kind, tol=1e-12).fit(Y, covariates=X).partial_fit(Y, covariates=X)
    same(once, twice, 1e-4)
    np.testing.assert_allclose(once.loglik_, twice.loglik_, rtol=1e-8)


@pytest.mark.parametrize("shard_rows", [None, 40])
def test_a_batch_ends_at_the_maximum_given_what_was_left(shard_rows, monkeypatch):
    """B and Sigma follow from the moments of all rows, and the rows are where these place them."""
    monkeypatch.setattr(PLN, "shard_rows", shard_rows)
    (first, X1), (Y, X) = table(200), table(150, 3)
    model = PLN(tol=1e-12).fit(first, covariates=X1)
    left = faded(Moments.of(model.latent_mean_, model.latent_variance_, X1, np.ones(200)), stream.REMEMBERED)
    model.partial_fit(Y, covariates=X)
    moments = add([left, Moments.of(model.latent_mean_, model.latent_variance_, X, np.ones(150))])
    np.testing.assert_allclose(model.coefficients_, np.linalg.solve(moments.XvX, moments.XvM), rtol=1e-8)
    np.testing.assert_allclose(model.covariance_, moments.about(model.coefficients_)[1] / moments.weight, rtol=1e-8)
    np.testing.assert_allclose(model.transform(Y, covariates=X), model.latent_mean_, atol=1e-4)
    np.testing.assert_allclose(model.log_prob(Y, covariates=X).sum(), model.loglik_, rtol=1e-8)
    assert model.fitted_.data.stream.seen == 350
    assert model.fitted_.data.stream.moments.weight == pytest.approx(200 * stream.REMEMBERED + 150)


def test_one_pass_loses_little_against_a_fit_to_all_rows():
    (Y, X), (held, its) = table(1500), table(1000, 9)
    whole, model = PLN().fit(Y, covariates=X), PLN()
    for part in np.array_split(np.arange(1500), 30):
        model.partial_fit(Y[part], covariates=X[part])
    first = PLN().fit(Y[:50], covariates=X[:50])
    best, got, begun = (one.score(held, covariates=its) for one in (whole, model, first))
    assert best - got < 0.01 < 0.1 < best - begun


def test_batches_of_fewer_rows_than_columns_and_of_weights():
    Y, X = table(300)
    model = PLN().fit(Y[:200], covariates=X[:200])
    for a in range(200, 230, 3):
        model.partial_fit(Y[a : a + 3], covariates=X[a : a + 3])
    assert np.linalg.eigvalsh(model.covariance_)[0] > 0
    assert model.latent_mean_.shape == (3, p)
    doubled, weighed = (PLN(tol=1e-12).fit(Y[:200], covariates=X[:200]) for _ in range(2))
    doubled.partial_fit(np.vstack([Y[200:]] * 2), covariates=np.vstack([X[200:]] * 2))
    weighed.partial_fit(Y[200:], covariates=X[200:], sample_weight=np.full(100, 2.0))
    same(doubled, weighed, 1e-4)


def test_a_stream_is_stored_and_resumed(tmp_path):
    (first, X1), (Y, X) = table(200), table(150, 3)

    def begun():
        return PLN(tol=1e-10).fit(first, covariates=X1)

    whole = begun().partial_fit(Y, covariates=X)
    calls = iter(range(1000))
    begun().partial_fit(Y, covariates=X, checkpoint=tmp_path / "c", callback=lambda *_: next(calls) == 8)
    again = begun().partial_fit(Y, covariates=X, resume=tmp_path / "c")
    np.testing.assert_array_equal(again.covariance_, whole.covariance_)
    whole.save(tmp_path / "model.tallies")
    read = tallies.load(tmp_path / "model.tallies").partial_fit(first, covariates=X1)
    np.testing.assert_array_equal(read.covariance_, whole.partial_fit(first, covariates=X1).covariance_)


def test_what_is_refused():
    Y, X = table(60)
    for options in ({"rank": 2}, {"method": "importance"}, {"zero_inflation": "global"}):
        assert not hasattr(PLN(**options), "partial_fit")  # as scikit-learn's checks ask
        with pytest.raises(AttributeError, match="partial_fit") as told:
            PLN(**options).partial_fit(Y)
        assert "rows can be added to a PLN with rank=None" in str(told.value.__cause__)
    model = PLN().fit(Y, covariates=X)
    with pytest.raises(ValueError, match="same kind of covariance"):
        model.set_params(covariance="diagonal").partial_fit(Y, covariates=X)
    with pytest.raises(DataError):
        PLN().fit(Y).partial_fit(Y[:, :3])
