"""PLN-PCA: gradients, maxima, starts, rotation."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln

import tallies
from tallies import backends
from tallies.counts import axes as pln_axes
from tallies.counts import rank as pln_rank
from tallies.counts import rows as pln_rows
from tallies.counts.answers import rates
from tallies.counts.estimator import PLN
from tallies.counts.records import Shard, Sums
from tallies.engine import Runner, Stage


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
    shard = Shard(Y, O, X, v, False, 0, 7, float(v @ gammaln(Y + 1).sum(1)))
    plan = pln_rank.Rank(2)
    params = plan.init(plan.survey(shard), rng)
    z = plan.settle(shard, params, rng)
    W, x = rng.normal(size=(5, 4)) * 0.5, rng.normal(size=(7, 4)) * 0.5

    def value(W, x):
        np.copyto(z.x_trial, x)
        return pln_rows.evaluate(shard, z, W, False, False)[0]

    direct = sum(v[i] * bound(Y[[i]], O[[i]], X[[i]], W[:, :2].T, W[:, 2:], x[[i], :2], np.exp(x[[i], 2:])) for i in range(7))
    assert value(W, x) == pytest.approx(-direct, rel=1e-12)
    np.copyto(z.x_trial, x)
    _, g_W, H = pln_rows.evaluate(shard, z, W, True, False)
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
    assert np.linalg.norm(model.covariance_ - C @ C.T) < 0.2 * np.linalg.norm(C @ C.T)
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
    two, many = (PLN(rank=4, n_starts=k, random_state=0).fit(Y, offsets=O).elbo_ for k in (2, 6))
    assert many >= two - 1e-12 * abs(two)
    assert PLN(rank=4, random_state=3).fit(Y, offsets=O).elbo_ == PLN(rank=4, random_state=3).fit(Y, offsets=O).elbo_


def run(stage):
    """What a stage kept, run by itself."""

    def plan():
        kept = yield stage
        return kept.value

    return Runner(backends.place).run(plan())


def test_the_starts_find_what_many_random_ones_find():
    """Noise that the rank cannot hold makes many maxima."""
    rng = np.random.default_rng(3)
    Y = rng.poisson(
        np.exp(rng.normal(1, 1, 25) + rng.normal(size=(60, 6)) @ rng.normal(0, 0.7, (6, 25)) + rng.normal(0, 0.5, (60, 25)))
    )
    model = PLN(rank=3, random_state=0).fit(Y)
    ends, sources = [], PLN()._prepare(Y).sources
    for _ in range(8):
        W = np.hstack([np.log(Y.mean(axis=0))[:, None], rng.normal(0, 0.5, (25, 3))])
        start = pln_rank.begin(Sums(60.0, np.full((1, 1), 60.0)), W)
        stage = Stage("", pln_rank.Rank(3, tol=5e-8), sources, lambda end: -end.params.search.F, 5000, start)
        ends.append(run(stage))
    assert min(ends) < max(ends) - 10  # there are maxima to be caught in
    assert model.elbo_ >= max(ends) - 1e-5 * abs(model.elbo_)


@pytest.mark.parametrize("sweeps", [1, 2, 10, 33, 40, 60, 75, 110, 150])
def test_a_fit_stopped_anywhere_is_one_of_its_rank(sweeps):
    Y, O, _ = simulate(60, 8, q=3)
    with pytest.warns(Warning, match="max_iter"):
        model = PLN(rank=2, random_state=0, max_iter=sweeps).fit(Y, offsets=O)
    assert model.components_.shape == (8, 2)
    assert model.latent_mean_.shape == (60, 2)
    assert np.isfinite(model.elbo_)
    assert model.score(Y, offsets=O) * len(Y) >= model.elbo_ - 1e-6 * abs(model.elbo_)
    assert np.diff(model.history_).min(initial=0.0) >= -1e-12 * abs(model.elbo_)


def axes(n=30, p=6, q=3, d=2, seed=0):
    """Rows, columns, curvatures, a turn and its shift, all at random."""
    rng = np.random.default_rng(seed)
    M, X, v, W = rng.normal(size=(n, q)), rng.normal(size=(n, d)), rng.uniform(0.5, 2, n), rng.normal(size=(p, d + q))
    A = np.exp(rng.normal(1, 1, (n, p)))
    P = np.einsum("ij,jk,jl->ikl", A, W[:, d:], W[:, d:])
    return M, X, v, W, P, rng.normal(0, 0.2, (q, q)), rng.normal(0, 0.2, (d, q)), rng


def test_a_turn_leaves_rates_and_products_as_they_are():
    M, X, _, W, P, E, a, rng = axes()
    n, q, d = 30, 3, 2
    T, psi = np.eye(q) + E, rng.normal(size=(n, q))
    x = pln_axes.turn_rows(np.hstack([M, psi]), P, X, T, a)
    turned = pln_axes.turn_columns(W, T, a)
    np.testing.assert_allclose(np.hstack([X, x[:, :q]]) @ turned.T, np.hstack([X, M]) @ W.T, atol=1e-12)
    s, y = rng.normal(size=(2, *W.shape))
    assert np.vdot(pln_axes.turn_columns(s, T, a), pln_axes.turn_slopes(y, T, a)) == pytest.approx(np.vdot(s, y))
    D = np.einsum("jkl,jml->jkm", *2 * [rng.normal(size=(6, d + q, d + q))])
    moved = np.matmul(pln_axes.turn_blocks(D, T, a), pln_axes.turn_slopes(y, T, a)[..., None])[..., 0]
    np.testing.assert_allclose(moved, pln_axes.turn_columns(np.matmul(D, y[..., None])[..., 0], T, a), atol=1e-10)
    np.testing.assert_array_equal(pln_axes.turn_rows(np.hstack([M, psi]), P, X, np.eye(q), 0 * a)[:, q:], psi)


def test_a_turn_is_a_newton_step():
    """From near the best axes it ends much nearer: the gradient is then next to nothing."""
    M, X, v, W, P, E, *_ = axes(400)
    q = 3

    def value(T):
        back = np.linalg.inv(T)
        inner = 1 + np.einsum("kl,ilm,km->ik", back, P, back)
        return 0.5 * (v @ ((M @ T) ** 2).sum(axis=1) + v @ np.log(inner).sum(axis=1))

    best = minimize(lambda t: value(t.reshape(q, q)), np.eye(q).ravel(), tol=1e-12).x.reshape(q, q)
    for size in (0.02, 0.01):
        T = best @ (np.eye(q) + size * E / np.abs(E).max())
        there = M @ T, np.linalg.inv(T) @ P @ np.linalg.inv(T).T
        rows = pln_axes.turning(there[0], np.zeros_like(M), there[1], X, v)
        h, gradient = 1e-6, rows.G - rows.c
        for k, l in np.ndindex(q, q):
            e = np.zeros((q, q))
            e[k, l] = h
            slope = (value(T @ (np.eye(q) + e)) - value(T @ (np.eye(q) - e))) / (2 * h)
            assert gradient[k, l] == pytest.approx(slope, rel=1e-4, abs=1e-3)
        step, _ = pln_axes.newton(rows, W, np.zeros_like(W), X.T @ X, v.sum())
        assert value(T @ (np.eye(q) + step)) - value(best) < 0.05 * (value(T) - value(best))


def test_an_axis_is_given_up_at_the_least_cost():
    M, _, v, _, P, *_, rng = axes()
    D = np.linalg.inv(P + np.eye(3)) / v[:, None, None]
    u = rng.normal(size=3)
    moved = M - np.einsum("ikl,l->ik", D, u) * ((M @ u) / np.einsum("k,ikl,l->i", u, D, u))[:, None]
    np.testing.assert_allclose(moved @ u, 0, atol=1e-12)  # on the plane
    lost = 0.5 * np.einsum("ik,ikl,il->", moved - M, np.linalg.inv(D), moved - M)
    assert pln_axes.weigh(M, D, u).cost == pytest.approx(lost)
    np.testing.assert_allclose(pln_axes.drop(M, D, u)[0] @ pln_axes.without(u).T, moved, atol=1e-12)
    looks, rows = [], pln_axes.weigh(M, D, None)
    for _ in range(pln_rank.WEIGHINGS):
        rows = pln_axes.weigh(M, D, pln_axes.weakest(rows))
        looks.append(rows.cost)
    tried = [pln_axes.weigh(M, D, u).cost for u in rng.normal(size=(2000, 3))]
    assert min(looks) < np.quantile(tried, 0.02)


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
    with pytest.raises(ValueError, match="a whole number of at least 1, got 1"):
        PLN.over_ranks([1, 1.5], Y)
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
    step = pln_rows.within(-pln_rows.blockwise(L @ L.transpose(0, 2, 1), g))
    assert np.abs(step).max() <= pln_rows.REACH * (1 + 1e-12)
    assert ((step * g).sum(axis=1) < 0).all()
    assert ((np.clip(-pln_rows.blockwise(L @ L.transpose(0, 2, 1), g), -1.5, 1.5) * g).sum(axis=1) > 0).any()


def test_missing_cells_have_no_say():
    Y, O, _ = simulate()
    gaps = np.random.default_rng(0).random(Y.shape) < 0.1
    a = PLN(rank=2, random_state=0).fit(np.where(gaps, np.nan, Y), offsets=O)
    assert a.converged_
    b = PLN(rank=2, random_state=0).fit(np.where(gaps, np.nan, Y + 50 * gaps), offsets=O)
    assert a.elbo_ == b.elbo_


def test_entropy_and_rates_are_those_of_the_bound():
    """q_i is a product on the axes of the solver, and no longer one on those of C: what the bound is made of must add up to it."""
    Y, O, _ = simulate(60, 8, q=3)
    model = PLN(rank=3).fit(Y, offsets=O)
    M = model.latent_mean_
    L, A = O + model.coefficients_ + M @ model.components_.T, rates(model.fitted_)
    poisson = (Y * L - A - gammaln(Y + 1)).sum()
    prior = -0.5 * ((M**2 + model.latent_variance_).sum() + M.size * np.log(2 * np.pi))
    assert model.entropy_ == pytest.approx(model.elbo_ - poisson - prior, rel=1e-9)
    assert model.icl_ == pytest.approx(model.bic_ + 2 * model.entropy_)
    np.testing.assert_allclose(model.predict(Y, offsets=O), A, rtol=1e-2)


@pytest.mark.filterwarnings("ignore:PLN stopped")
def test_rows_are_placed_in_few_sweeps_whatever_the_tolerance_of_the_fit(monkeypatch):
    Y, O, _ = simulate(40, 8)
    model, sweeps, sweep = PLN(rank=2, tol=0.0, max_iter=60).fit(Y, offsets=O), [], pln_rank.Rank.sweep
    monkeypatch.setattr(pln_rank.Rank, "sweep", lambda *given: sweeps.append(1) or sweep(*given))
    model.transform(Y, offsets=O)
    assert 0 < len(sweeps) < 500
