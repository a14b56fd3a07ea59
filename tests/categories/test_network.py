"""FEMNetwork: exclusion, recovery of couplings, scores, energies, simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

import tallies
from tallies import FEM, FEMNetwork, engine
from tallies.backends import carry_out
from tallies.categories import choose as fem_choose
from tallies.categories.door import read_codes
from tallies.categories.kernels import fem as kernels
from tallies.categories.network.alike import sequence_weights
from tallies.categories.network.by_pair import pair_ridges
from tallies.categories.terms import groups_of, make_terms, terms_of, zero_sum
from tallies.errors import DataError


def walk(W, n, m, l, rng, together):
    """l states in a row under couplings W; all variables move together, or one after the other. And W in zero-sum gauge."""
    terms, starts = make_terms(np.full(n, m), groups_of(n, [1])), np.arange(0, n * m + 1, m)
    out = np.empty((l, n), dtype=np.int32)
    tables = terms.variables, terms.strides, terms.offset, starts
    kernels.advance(np.zeros(n, np.int32), W, *tables, rng.random((l, n)), together, out)
    return out, zero_sum(terms, W, starts)[2]


def kinetic(n, m, l, seed=0):
    """A series from random couplings, and the couplings in zero-sum gauge."""
    rng = np.random.default_rng(seed)
    return walk(rng.normal(0, 1 / np.sqrt(n), (n * m, n * m)), n, m, l, rng, together=True)


def potts(n, m, l, seed=0, scale=0.5, density=1.0, even=False):
    """Equilibrium states of symmetric random couplings, by Gibbs sampling, and the couplings in zero-sum gauge.

    A share `density` of the pairs is coupled; `even`: couplings are made zero-sum, and so prefer no state.
    """
    rng = np.random.default_rng(seed)
    W = rng.normal(0, scale, (n * m, n * m))
    W = (W + W.T) / 2
    coupled = np.triu(rng.random((n, n)) < density, 1)
    W *= np.kron(coupled | coupled.T, np.ones((m, m)))
    if even:
        W = zero_sum(make_terms(np.full(n, m), groups_of(n, [1])), W, np.arange(0, n * m + 1, m))[2]
    out, couplings = walk(W, n, m, 20 * l, rng, together=False)
    return out[19::20], couplings


def off(n, m):
    """Where the couplings of different variables stand."""
    return ~np.kron(np.eye(n, dtype=bool), np.ones((m, m), dtype=bool))


def correlation(found, truth):
    return np.corrcoef(found.ravel(), truth.ravel())[0, 1]


def test_each_output_is_a_fem_of_its_own():
    # weights are good to the root of what the objective is: tol=1e-13 leaves up to 1.3e-6 in a log probability, 1e-15 1e-7
    X, _ = kinetic(5, 3, 400)
    network = FEMNetwork(ridge=1.0, tol=1e-15).fit(X)
    series = FEMNetwork(ridge=1.0, lag=1, tol=1e-15).fit(X)
    for j in range(5):
        others = [k for k in range(5) if k != j]
        alone = FEM(ridge=1.0, tol=1e-15).fit(X[:, others], X[:, j])
        log_p = alone.predict_log_proba(X[:, others])[np.arange(400), X[:, j]]
        np.testing.assert_allclose(network.log_conditional(X)[:, j], log_p, atol=1e-6)
        alone = FEM(ridge=1.0, tol=1e-15).fit(X[:-1], X[1:, j])
        np.testing.assert_allclose(
            series.log_conditional(X)[:, j], alone.predict_log_proba(X[:-1])[np.arange(399), X[1:, j]], atol=1e-6
        )


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize(("n", "m", "degree"), [(16, 2, 1), (8, 2, 2), (6, 3, 1)])
def test_products_of_matrices_and_picking_agree(monkeypatch, n, m, degree, lag):
    X, _ = kinetic(n, m, 700)
    rng = np.random.default_rng(0)
    weight, found, W = rng.random(700), [], None
    for narrow in (fem_choose.NARROW, 10**9):
        monkeypatch.setattr(fem_choose, "NARROW", narrow)
        model = FEMNetwork(degree=degree, ridge=1.0, lag=lag)
        stage = next(model._plan(model._prepare(X, sample_weight=weight), 0))
        model, shards = stage.model, [source.load() for source in stage.sources]
        assert model.multiply == (narrow < 10**9)
        surveyed = engine.add([model.survey(shard) for shard in shards])
        W = rng.normal(size=surveyed.counted.shape) if W is None else W
        if not lag:
            model._exclude(W)
        params = model.first(surveyed, W)
        tally = engine.add([model.sweep(shard, None, params, rng)[0] for shard in shards])
        found.append((surveyed, model.update(params, tally, rng).search.point))
    (first, a), (second, b) = found
    for one, other in [*zip(first, second, strict=True), (a.value, b.value), (a.g, b.g)]:
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("degree", [1, 2])
def test_independent_variables_do_not_leak(degree):
    X = np.random.default_rng(0).integers(0, 2, (4000, 6))
    model = FEMNetwork(degree=degree, ridge=1.0).fit(X)
    terms, starts = terms_of(model._layout()), model._starts()
    for t, group in enumerate(terms.all()):
        for j in group:
            assert not model.fitted_.W[terms.offset[t] : terms.offset[t + 1], starts[j] : starts[j + 1]].any()
    # accuracy of chance: half, with room for 15 or 5 parameters fitted to noise and 5 standard errors
    assert np.exp(model.log_conditional(X)).mean() < 0.51
    # a quarter of the log odds ratio of two fair coins has standard error 1/sqrt l
    assert np.abs(model.couplings_).max() < 5 / np.sqrt(4000)


def test_the_seeds_iteration_excludes_the_own_block_too():
    X, _ = potts(5, 3, 1500)
    seed = FEMNetwork(ridge=0.0, solver="fem", tol=1e-13).fit(X)
    quick = FEMNetwork(ridge=0.0, solver="lbfgs", tol=1e-13).fit(X)
    np.testing.assert_allclose(seed.couplings_, quick.couplings_, atol=1e-5)
    assert np.abs(seed.couplings_).max() > 0.3  # the original's default found none


def test_kinetic_couplings_return():
    X, truth = kinetic(20, 5, 10_000)
    model = FEMNetwork(ridge=1.0, lag=1).fit(X)
    rmse = np.sqrt(np.mean((model.couplings_ - truth) ** 2))
    assert np.corrcoef(model.couplings_.ravel(), truth.ravel())[0, 1] > 0.95
    assert rmse < 0.06


def test_equilibrium_couplings_return():
    # of 30 draws at this setting the correlation was .954 to .964, its mean .9588; of the unpenalised fit .952 to .962, .9572
    found = []
    for seed in range(4):
        X, truth = potts(20, 4, 5_000, seed, scale=np.sqrt(2 / 20), even=True)  # half of W + W': a standard deviation of 1/sqrt n
        model = FEMNetwork().fit(X)
        found.append(correlation(model.couplings_[off(20, 4)], truth[off(20, 4)]))
        assert found[-1] > 0.95
    assert np.mean(found) > 0.956
    scores = model.scores()
    assert np.allclose(scores, scores.T)
    assert not np.diag(scores).any()


@pytest.mark.long
def test_equilibrium_couplings_that_prefer_states_return():
    # couplings that are not zero-sum act as fields too: some states are rare, and their couplings hard to tell.
    # Of 15 draws the correlation was .923 to .956, its mean .946
    found, where = [], off(20, 4)
    for seed in range(4):
        X, truth = potts(20, 4, 5_000, seed, scale=0.4)
        found.append(correlation(FEMNetwork().fit(X).couplings_[where], truth[where]))
        assert found[-1] > correlation(FEMNetwork(ridge=0.0).fit(X).couplings_[where], truth[where])
    assert np.mean(found) > 0.94


@pytest.mark.parametrize("seed", range(3))
def test_where_few_pairs_are_coupled_each_has_its_ridge(seed):
    X, truth = potts(12, 3, 1_500, seed, scale=0.8, density=0.15)
    model = FEMNetwork().fit(X)
    common = FEMNetwork(ridge=model.ridge_).fit(X)
    assert common.pair_ridges_ is None
    np.testing.assert_array_equal(model.pair_ridges_, model.pair_ridges_.T)
    coupled = np.abs(truth).reshape(12, 3, 12, 3).max(axis=(1, 3)) > 0
    pairs = ~np.eye(12, dtype=bool)
    assert model.pair_ridges_[coupled].mean() < model.ridge_ < model.pair_ridges_[pairs & ~coupled].mean()
    found, before = (correlation(fitted.couplings_[off(12, 3)], truth[off(12, 3)]) for fitted in (model, common))
    assert found > max(0.94, before + 0.02)  # of 25 draws .948 to .987, and .83 to .94 with the common ridge
    assert "ridge by pair" in model.summary()


def test_where_few_variables_act_on_the_next_step_each_pair_has_its_ridge():
    rng = np.random.default_rng(0)
    W = rng.normal(0, 0.7, (36, 36)) * np.kron(rng.random((12, 12)) < 0.1, np.ones((3, 3)))
    X, truth = walk(W, 12, 3, 2_000, rng, together=True)
    model = FEMNetwork(lag=1).fit(X)
    common = FEMNetwork(ridge=model.ridge_, lag=1).fit(X)
    found, before = (correlation(fitted.couplings_, truth) for fitted in (model, common))
    assert found > max(0.96, before + 0.02)  # of 25 draws .964 to .994, and .89 to .96 with the common ridge
    assert FEMNetwork(lag=1, solver="fem").fit(X).pair_ridges_ is None


@pytest.mark.parametrize("seed", range(4))
def test_where_all_pairs_are_coupled_nothing_is_lost(seed):
    X, truth = potts(12, 3, 800, seed, scale=0.5, even=True)
    model = FEMNetwork().fit(X)
    common = FEMNetwork(ridge=model.ridge_).fit(X)
    found, before = (correlation(fitted.couplings_[off(12, 3)], truth[off(12, 3)]) for fitted in (model, common))
    assert found > before - 0.01  # in 24 of 25 draws they had one ridge


def test_ridges_by_pair_are_the_pull_of_their_prior():
    rng = np.random.default_rng(0)
    V, starts, step = rng.normal(size=(5, 5)), np.array([0, 2, 5]), 1e-6
    told = 60 / np.outer([2, 3], [2, 3])

    def sizes(V, mutual):
        return fem_choose.coupling_sizes(V, starts, mutual)

    def log_prior(V):
        blocks = [[V[a:b, c:d] for c, d in ((0, 2), (2, 5))] for a, b in ((0, 2), (2, 5))]
        free = np.outer([1, 2], [1, 2]) * told / (told + 3.0)
        return -sum((1 + free[j, k]) / 2 * np.log(1 / (10 * 3.0) + (blocks[j][k] ** 2).sum()) for j in (0, 1) for k in (0, 1))

    ridges = np.repeat(np.repeat(pair_ridges(sizes(V, mutual=False), (2, 3), 3.0, 60.0), [2, 3], axis=0), [2, 3], axis=1)
    for i, j in product(range(5), repeat=2):
        move = np.zeros((5, 5))
        move[i, j] = step
        assert (log_prior(V + move) - log_prior(V - move)) / (2 * step) == pytest.approx(-ridges[i, j] * V[i, j], rel=1e-6)
    both = pair_ridges(sizes(V, mutual=True), (2, 3), 3.0, 60.0)
    np.testing.assert_allclose(both, both.T)


def test_a_fit_with_ridges_by_pair_is_at_the_maximum(tmp_path):
    X, _ = potts(6, 3, 600, scale=1.0, density=0.2)
    model = FEMNetwork(tol=1e-14).fit(X)
    W, n, m = model.fitted_.W, 6, 3

    def value(W):
        H = W[X + m * np.arange(n)].sum(axis=1).reshape(-1, n, m)
        told = np.take_along_axis(H, X[:, :, None], axis=2)[:, :, 0] - np.logaddexp.reduce(H, axis=2)
        blocks = W.reshape(n, m, n, m)
        mean = blocks.mean(axis=1, keepdims=True)
        pull = model.pair_ridges_ * ((blocks - mean) ** 2).sum(axis=(1, 3)) + 0.01 * model.ridge_ * m * (mean**2).sum(axis=(1, 3))
        return told.sum() - 0.5 * pull.sum()

    assert model.history_[-1] == pytest.approx(value(W), rel=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(20):
        move = 1e-4 * rng.normal(size=W.shape) * off(n, m)
        up, down = value(W + move), value(W - move)
        assert max(up, down) < value(W)
        assert abs(up - down) < 0.02 * (2 * value(W) - up - down)  # the slope is gone beside the curvature
    model.save(tmp_path / "model")
    again = tallies.load(tmp_path / "model")
    np.testing.assert_array_equal(again.pair_ridges_, model.pair_ridges_)
    few = model.standard_errors(X, n_boot=10)
    assert few[off(n, m)].mean() < FEMNetwork(ridge=model.ridge_).fit(X).standard_errors(X, n_boot=10)[off(n, m)].mean()


def test_scores_rank_true_pairs_first():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (1500, 8))
    for a, b in ((0, 1), (2, 5)):
        X[:, b] = np.where(rng.random(1500) < 0.5, X[:, a], X[:, b])
    model = FEMNetwork(ridge=1.0).fit(X)
    for kind in ("frobenius", "direct_information"):
        top = model.top_couplings(2, kind)
        assert {tuple(pair) for pair in top[["a", "b"]].values.tolist()} == {("x0", "x1"), ("x2", "x5")}
    plain, corrected = model.scores(apc=False), model.scores()
    off = ~np.eye(8, dtype=bool)
    mean = plain.sum(axis=1) / 7
    np.testing.assert_allclose(corrected[off], (plain - np.outer(mean, mean) / plain[off].mean())[off], atol=1e-12)
    # direct information of a pair alone is the mutual information of a two-site model
    assert model.scores("direct_information", apc=False)[0, 1] > 0.1


def test_energy_gives_the_boltzmann_distribution_back():
    X, truth = potts(4, 3, 20_000, seed=2)
    model = FEMNetwork(ridge=0.1).fit(X)
    states = np.array(list(product(range(3), repeat=4)))
    p = np.exp(-model.energy(states))
    p /= p.sum()
    share = np.array([(state == X).all(axis=1).mean() for state in states])
    assert np.abs(p - share).max() < 0.01
    J = truth
    E = np.array([-sum(J[3 * j + s[j], 3 * k + s[k]] for j in range(4) for k in range(j + 1, 4)) for s in states])
    q = np.exp(-E)
    assert np.abs(p - q / q.sum()).max() < 0.02


def test_simulation_is_seeded_and_lawful():
    X, _ = kinetic(4, 3, 4000)
    model = FEMNetwork(ridge=1.0, lag=1).fit(X)
    a, b = model.simulate(500, random_state=3), model.simulate(500, random_state=3)
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, model.simulate(500, random_state=4))
    again = FEMNetwork(ridge=1.0, lag=1).fit(model.simulate(40_000, random_state=0))
    assert np.corrcoef(again.couplings_.ravel(), model.couplings_.ravel())[0, 1] > 0.98
    network = FEMNetwork(ridge=1.0).fit(X)
    rows = network.sample(300, random_state=0, thin=2)
    assert rows.shape == (300, 4)
    assert network.energy(rows).shape == (300,)
    with pytest.raises(tallies.errors.DataError, match="has not seen"):
        model.simulate(5, start=[9, 9, 9, 9])


def test_simulation_starts_from_a_row_or_from_names():
    table = pd.DataFrame(kinetic(3, 3, 300)[0], columns=["a", "b", "c"])
    model = FEMNetwork(ridge=1.0, lag=1).fit(table)
    first = model.simulate(20, start=[2, 0, 1], random_state=0)
    assert first.equals(model.simulate(20, start={"c": 1, "b": 0, "a": 2}, random_state=0))
    for start in ([2, 0], {"a": 2, "b": 0}, {"a": 2, "b": 0, "d": 1}):
        with pytest.raises(tallies.errors.DataError, match="each of 3 variables, got 2"):
            model.simulate(5, start=start)


@pytest.mark.parametrize(("lag", "degree"), [(0, 1), (0, 2), (1, 1)])
def test_the_likelihood_of_rows_with_ignored_gaps_is_the_one_that_was_fitted(lag, degree):
    X, _ = kinetic(4, 3, 300)
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = FEMNetwork(degree=degree, ridge=1.0, lag=lag, missing="ignore").fit(X)
    value = model.log_conditional(X).sum() - 0.5 * (model.fitted_.W**2).sum()
    assert value == pytest.approx(model.history_[-1], rel=1e-10)


@pytest.mark.parametrize("lag", [0, pytest.param(1, marks=pytest.mark.long)])
def test_bootstrap_errors_are_the_spread_over_data_sets(lag):
    spread = [FEMNetwork(ridge=1.0, lag=lag).fit(kinetic_from(1, seed)).couplings_ for seed in range(100)]
    X = kinetic_from(1, 100)
    model = FEMNetwork(ridge=1.0, lag=lag).fit(X)
    errors = model.standard_errors(X, n_boot=100)
    assert errors.shape == model.couplings_.shape
    truth = np.std(spread, axis=0, ddof=1)
    # a spread of 100 draws is known to 7%, and errors of one data set differ from those of the next: their mean is compared
    assert errors.mean() == pytest.approx(truth.mean(), rel=0.15)
    assert np.corrcoef(errors.ravel(), truth.ravel())[0, 1] > (0.5 if lag else 0.9)  # at lag 0 own blocks are zero in both
    few = model.standard_errors(X, n_boot=5)
    np.testing.assert_array_equal(few, model.standard_errors(X, n_boot=5))
    doubled = model.standard_errors(X, sample_weight=np.full(len(X), 2.0), n_boot=5)  # weights are not draws
    np.testing.assert_allclose(doubled, few, rtol=0.05, atol=1e-3)
    with pytest.raises(ValueError, match="n_boot"):
        model.standard_errors(X, n_boot=1)


def kinetic_from(world, seed):
    """1,000 steps of one world of three unlike variables, different with every seed."""
    W = np.random.default_rng(world).normal(0, 0.5, (9, 9))
    terms, starts = make_terms(np.array([2, 3, 4]), groups_of(3, [1])), np.array([0, 2, 5, 9])
    out = np.empty((1000, 3), dtype=np.int32)
    uniform = np.random.default_rng((world, seed)).random((1000, 3))
    kernels.advance(np.zeros(3, np.int32), W, terms.variables, terms.strides, terms.offset, starts, uniform, True, out)
    return out


def test_two_variables_have_a_score_and_a_summary_names_groups():
    X = np.random.default_rng(0).integers(0, 2, (400, 3))
    X[:, 2] = X[:, 0] ^ X[:, 1]
    pair = FEMNetwork(ridge=1.0).fit(np.column_stack([X[:, 0], X[:, 0]]))
    np.testing.assert_array_equal(pair.scores(), pair.scores(apc=False))
    assert "x0 - x1" in pair.summary()
    assert "x0=0 & x1=0 -> x2=0" in FEMNetwork(degree=2, ridge=1.0).fit(X).summary()


def test_reweighting_counts_copies_once():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (60, 20))
    many = np.vstack([X, np.repeat(X[:1], 30, axis=0)])
    weight = carry_out(next(sequence_weights(many.astype(np.int32), 0.8)))
    assert weight.sum() == pytest.approx(60)
    model = FEMNetwork(ridge=1.0, reweight=0.8).fit(many)
    plain = FEMNetwork(ridge=1.0).fit(X)
    assert model.effective_rows_ == pytest.approx(60)
    np.testing.assert_allclose(model.couplings_, plain.couplings_, atol=1e-5)


def test_ridge_is_chosen_by_held_out_rows():
    X, _ = potts(6, 3, 300)
    model = FEMNetwork().fit(X)
    assert model.ridge_ == model.path_["ridge"][int(np.argmin(model.path_["log_loss"]))]
    fresh, _ = potts(6, 3, 300)
    assert model.score(fresh) > FEMNetwork(ridge=0.0).fit(X).score(fresh) - 0.5


def test_a_search_for_ridges_by_pair_that_is_cut_short_keeps_the_rounds_that_paid():
    X, _ = potts(12, 3, 1_500, 0, scale=0.8, density=0.15)
    names: list[str] = []
    whole = FEMNetwork().fit(X, callback=lambda stage, state: names.append(stage.name))
    assert "ridges by pair, round 2" in names
    cut = names.index("ridges by pair, round 2")
    calls = iter(range(10**6))
    part = FEMNetwork().fit(X, callback=lambda stage, state: next(calls) == cut)
    assert part.stopped_ == "callback"
    assert part.pair_ridges_ is not None
    assert part.ridge_ == whole.ridge_
    assert correlation(part.couplings_, whole.couplings_) > 0.95


def test_rows_are_judged_on_the_cluster_with_the_same_bits(cluster):
    X, _ = kinetic(4, 3, 300)
    for lag in (0, 1):
        model = FEMNetwork(ridge=1.0, lag=lag).fit(X)
        with tallies.backend(cluster):
            there = model.log_conditional(X), model.energy(X), model.standard_errors(X, n_boot=2)
        here = model.log_conditional(X), model.energy(X), model.standard_errors(X, n_boot=2)
        for one, other in zip(here, there, strict=True):
            np.testing.assert_array_equal(one, other)


def test_too_few_rows_to_choose_the_ridge():
    with pytest.raises(DataError, match="ridge=1"):
        FEMNetwork().fit([["a", "x"], ["b", "y"], ["a", "y"]])


def test_a_share_that_is_no_number():
    with pytest.raises(ValueError, match="reweight must be"):
        FEMNetwork(reweight=[0.8]).fit([["a", "x"], ["b", "y"], ["a", "y"]])


def test_a_start_is_read_by_name():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.choice(["x", "y"], 200), "b": rng.choice(["u", "v", "w"], 200)})
    model = FEMNetwork(ridge=1.0).fit(X)
    row = pd.Series({"b": "w", "a": "y"})
    for start in (row, row.to_dict(), ["y", "w"], pd.Series(["y", "w"])):
        pd.testing.assert_frame_equal(model.simulate(5, start=start), model.simulate(5, start=["y", "w"]))
    assert model._start(row).tolist() == [1, 2]


def test_one_row_is_no_series():
    model = FEMNetwork(lag=1, ridge=1.0).fit([["a", "x"], ["b", "y"]] * 5)
    with pytest.raises(DataError, match="one row alone"):
        model.score([["a", "x"]])


@pytest.mark.parametrize("wrong", [{"n": -1}, {"n": 0}, {"thin": 0}, {"burn_in": -1}])
def test_a_sample_of_what_cannot_be_drawn(wrong):
    model = FEMNetwork(ridge=1.0).fit(np.random.default_rng(0).integers(0, 2, (30, 2)))
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        model.sample(**{"n": 3} | wrong)
    with pytest.raises(ValueError, match="top must be"):
        model.top_couplings(-1)
    with pytest.raises(ValueError, match="top must be"):
        model.interactions(-1)


def test_rows_with_gaps_are_drawn_as_they_came():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 2, 300).astype(float)
    texts = np.where(numbers == 1, "yes", "no").astype(object)
    numbers[::7], texts[1::7] = np.nan, None
    X = pd.DataFrame({"a": numbers, "b": texts, "c": rng.integers(0, 2, 300)})
    model = FEMNetwork(ridge=1.0).fit(X)
    drawn = model.sample(200, thin=2, random_state=0)
    assert drawn["a"].dtype == float and drawn.isna().any().tolist() == [True, True, False]
    assert (read_codes(model, drawn, model.categories_) >= 0).all()  # each is a state that the model knows


def test_a_variable_whose_rows_have_no_weight_starts_anywhere():
    X = np.random.default_rng(0).integers(0, 2, (40, 3)).astype(float)
    X[:20, 0] = np.nan
    model = FEMNetwork(ridge=1.0, missing="ignore").fit(X, sample_weight=np.repeat([1.0, 0.0], 20))
    assert np.isnan(model.frequencies_[0]).all()
    assert np.isin(model.simulate(20), [0, 1]).all()
