"""PLN-PCA: gradients, maxima, starts, rotation."""

import numpy as np
import pytest
from scipy.special import gammaln

import tallies
from tallies.models import pln_full, pln_rank
from tallies.models.pln import PLN


def simulate(n=150, p=12, q=2, seed=0):
    rng = np.random.default_rng(seed)
    C, b, O = rng.normal(size=(p, q)) * 0.7, rng.normal(1, 0.5, p), rng.normal(0, 0.2, (n, 1)) * np.ones(p)
    return rng.poisson(np.exp(O + b + rng.normal(size=(n, q)) @ C.T)).astype(float), O, C


def bound(Y, O, X, B, C, M, S2):
    L = O + X @ B + M @ C.T
    poisson = (Y * L - np.exp(L + 0.5 * S2 @ (C * C).T) - gammaln(Y + 1)).sum()
    return poisson - 0.5 * (M**2 + S2 - np.log(S2) - 1).sum()


def test_value_and_gradient_are_those_of_the_bound():
    rng = np.random.default_rng(0)
    Y, O, _ = simulate(7, 5)
    X, v = np.hstack([np.ones((7, 1)), rng.normal(size=(7, 1))]), rng.uniform(0.5, 2, 7)
    shard = pln_full.Shard(Y, O, X, v, False, 0, 7, float(v @ gammaln(Y + 1).sum(1)))
    plan = pln_rank.Rank(2)
    params = plan.init(plan.survey(shard), rng)
    z = plan.settle(shard, params, rng)
    W, x = rng.normal(size=(5, 4)) * 0.5, rng.normal(size=(7, 4)) * 0.5

    def value(W, x):
        np.copyto(z.x_trial, x)
        return plan._evaluate(shard, z, params._replace(W_trial=W, refresh=False))[0]

    direct = sum(v[i] * bound(Y[[i]], O[[i]], X[[i]], W[:, :2].T, W[:, 2:], x[[i], :2], np.exp(x[[i], 2:])) for i in range(7))
    assert value(W, x) == pytest.approx(-direct, rel=1e-12)
    np.copyto(z.x_trial, x)
    _, g_W, H = plan._evaluate(shard, z, params._replace(W_trial=W, refresh=True))
    g, h = z.g_trial.copy(), 1e-5
    for place in np.ndindex(W.shape):
        e = np.zeros_like(W)
        e[place] = h
        assert g_W[place] == pytest.approx((value(W + e, x) - value(W - e, x)) / (2 * h), rel=1e-5, abs=1e-6)
    for place in [(0, 0), (3, 1), (2, 2), (6, 3)]:
        e = np.zeros_like(x)
        e[place] = h
        assert g[place] == pytest.approx((value(W, x + e) - value(W, x - e)) / (2 * h), rel=1e-5, abs=1e-6)
    assert (np.linalg.eigvalsh(H) > 0).all()


def test_fit_is_a_maximum_and_its_number_is_the_bound():
    Y, O, C = simulate()
    model = PLN(rank=2, random_state=0, tol=1e-10).fit(Y, offsets=O)
    assert model.converged_
    assert np.diff(model.history_).min() >= -1e-12 * abs(model.elbo_)  # a step may lose what rounding loses
    assert model.score(Y, offsets=O) * len(Y) == pytest.approx(model.elbo_, rel=1e-8)
    # recovery, up to the rotation
    np.testing.assert_allclose(model.covariance_, C @ C.T, atol=0.5)
    assert np.corrcoef(model.covariance_.ravel(), (C @ C.T).ravel())[0, 1] > 0.97


def test_rotation_is_fixed():
    Y, O, _ = simulate(q=3)
    model = PLN(rank=3, random_state=0).fit(Y, offsets=O)
    gram = model.components_.T @ model.components_
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-8 * gram[0, 0])
    assert (np.diff(np.diag(gram)) < 0).all()
    assert (model.components_[np.abs(model.components_).argmax(0), range(3)] > 0).all()
    assert model.explained_variance_ratio_.sum() == pytest.approx(1)
    np.testing.assert_allclose(model.transform(Y, offsets=O), model.latent_mean_, atol=1e-3)


def test_more_starts_are_no_worse_and_seeds_repeat():
    Y, O, _ = simulate(40, 15, q=3, seed=5)
    one, many = (PLN(rank=4, n_starts=k, random_state=0).fit(Y, offsets=O).elbo_ for k in (1, 6))
    assert many >= one - 1e-5 * abs(one)
    assert PLN(rank=4, random_state=3).fit(Y, offsets=O).elbo_ == PLN(rank=4, random_state=3).fit(Y, offsets=O).elbo_


def test_shards_do_not_change_the_answer():
    Y, O, _ = simulate()
    fits = []
    for size in (None, 17):
        model = PLN(rank=2, random_state=0, tol=1e-12)
        model.shard_rows = size
        fits.append(model.fit(Y, offsets=O))
    assert fits[0].elbo_ == pytest.approx(fits[1].elbo_, rel=1e-8)
    np.testing.assert_allclose(fits[0].covariance_, fits[1].covariance_, atol=1e-4)


def test_rank_is_chosen_by_bic():
    Y, O, _ = simulate(400, 12, q=2)
    table = PLN.over_ranks([1, 2, 3, 4], Y, offsets=O, random_state=0)
    assert table.index[0] == 2
    assert table["loglik"].loc[[1, 2, 3, 4]].is_monotonic_increasing
    best = tallies.compare(dict(table["model"].items()), Y, offsets=O)
    assert set(best["kind"]) == {"bound"}


def test_warm_start_and_resume(tmp_path):
    Y, O, _ = simulate(60, 6)
    model = PLN(rank=2, n_starts=4, random_state=0, warm_start=True).fit(Y, offsets=O)
    value, sweeps = model.elbo_, model.n_iter_
    model.fit(Y, offsets=O)
    assert model.elbo_ >= value - 1e-6 * abs(value)
    assert model.n_iter_ < sweeps
    with pytest.warns(Warning, match="max_iter"):
        PLN(rank=2, n_starts=4, random_state=0, max_iter=70).fit(Y, offsets=O, checkpoint=tmp_path / "c")
    assert PLN(rank=2, n_starts=4, random_state=0).fit(Y, offsets=O, resume=tmp_path / "c").elbo_ == value


def test_a_shortened_step_still_leads_downhill():
    """Blocks are not diagonal: clipping their directions entry by entry would turn some of them uphill."""
    rng = np.random.default_rng(0)
    L = rng.normal(size=(2000, 5, 5)) * np.exp(rng.normal(0, 2, (2000, 5, 1)))
    g = rng.normal(size=(2000, 5))
    step = pln_rank._within(-pln_rank._blocks(L @ L.transpose(0, 2, 1), g))
    assert np.abs(step).max() <= pln_rank.REACH * (1 + 1e-12)
    assert ((step * g).sum(axis=1) < 0).all()
    assert ((np.clip(-pln_rank._blocks(L @ L.transpose(0, 2, 1), g), -1.5, 1.5) * g).sum(axis=1) > 0).any()


def test_missing_cells_have_no_say():
    Y, O, _ = simulate()
    gaps = np.random.default_rng(0).random(Y.shape) < 0.1
    a = PLN(rank=2, random_state=0).fit(np.where(gaps, np.nan, Y), offsets=O)
    assert a.converged_
    b = PLN(rank=2, random_state=0).fit(np.where(gaps, np.nan, Y + 50 * gaps), offsets=O)
    assert a.elbo_ == b.elbo_


def test_standard_errors_of_a_rank_model():
    Y, O, _ = simulate(200, 4, q=1)
    table = PLN(rank=1, random_state=0).fit(Y, offsets=O).coefficient_table()
    assert (table["std_error"] > 0).all()
    assert (table["std_error"] < 1).all()
