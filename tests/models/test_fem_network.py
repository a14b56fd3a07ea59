"""FEMNetwork: exclusion, recovery of couplings, scores, energies, simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

import tallies
from tallies import FEM, FEMNetwork, engine
from tallies.backends import place
from tallies.kernels import fem as kernels
from tallies.models import fem_choose
from tallies.models.fem_scores import sequence_weights
from tallies.models.fem_terms import groups_of, make_terms, zero_sum


def walk(W, n, m, l, rng, together):
    """l states in a row under couplings W; all variables move together, or one after the other. And W in zero-sum gauge."""
    terms, starts = make_terms(np.full(n, m), groups_of(n, [1])), np.arange(0, n * m + 1, m)
    out, fields = np.empty((l, n), dtype=np.int32), np.zeros(n * m)
    tables = terms.variables, terms.strides, terms.offset, starts
    kernels.advance(np.zeros(n, np.int32), W, fields, *tables, rng.random((l, n)), together, out)
    return out, zero_sum(terms, W, starts)[2]


def kinetic(n, m, l, seed=0):
    """A series from random couplings, and the couplings in zero-sum gauge."""
    rng = np.random.default_rng(seed)
    return walk(rng.normal(0, 1 / np.sqrt(n), (n * m, n * m)), n, m, l, rng, together=True)


def potts(n, m, l, seed=0, scale=0.5):
    """Equilibrium states of symmetric random couplings, by Gibbs sampling, and the couplings in zero-sum gauge."""
    rng = np.random.default_rng(seed)
    W = rng.normal(0, scale, (n * m, n * m))
    W = (W + W.T) / 2
    W[np.kron(np.eye(n, dtype=bool), np.ones((m, m), dtype=bool))] = 0.0
    out, couplings = walk(W, n, m, 20 * l, rng, together=False)
    return out[19::20], couplings


def test_each_output_is_a_fem_of_its_own():
    X, _ = kinetic(5, 3, 400)
    network = FEMNetwork(ridge=1.0, tol=1e-13).fit(X)
    series = FEMNetwork(ridge=1.0, lag=1, tol=1e-13).fit(X)
    for j in range(5):
        others = [k for k in range(5) if k != j]
        alone = FEM(ridge=1.0, tol=1e-13).fit(X[:, others], X[:, j])
        log_p = alone.predict_log_proba(X[:, others])[np.arange(400), X[:, j]]
        np.testing.assert_allclose(network.log_conditional(X)[:, j], log_p, atol=1e-6)
        alone = FEM(ridge=1.0, tol=1e-13).fit(X[:-1], X[1:, j])
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
        model = FEMNetwork(degree, ridge=1.0, lag=lag)
        backend = place(model._shards(X, weight))
        assert model._setup.multiply == (narrow < 10**9)
        surveyed = engine.survey(model, backend)
        W = rng.normal(size=surveyed.counted.shape) if W is None else W
        if not lag:
            model._exclude(W)
        params = model._begin(surveyed, W, None)
        tally = engine.add([model.sweep(shard, None, params, rng)[0] for shard in backend.shards])
        found.append((surveyed, model.update(params, tally, rng).search))
    (first, a), (second, b) = found
    for one, other in [*zip(first, second, strict=True), (a.value, b.value), (a.g, b.g)]:
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("degree", [1, 2])
def test_independent_variables_do_not_leak(degree):
    X = np.random.default_rng(0).integers(0, 2, (4000, 6))
    model = FEMNetwork(degree, ridge=1.0).fit(X)
    terms, starts = model._terms(), model._starts()
    for t, group in enumerate(terms.all()):
        for j in group:
            assert not model.params_.W[terms.offset[t] : terms.offset[t + 1], starts[j] : starts[j + 1]].any()
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
    # over draws of couplings of this size, with longer runs between states too, the correlation is .94 to .96
    X, truth = potts(20, 4, 5_000, scale=0.4)
    model = FEMNetwork(ridge=10.0).fit(X)
    off = ~np.kron(np.eye(20, dtype=bool), np.ones((4, 4), dtype=bool))
    assert np.corrcoef(model.couplings_[off], truth[off])[0, 1] > 0.94
    scores = model.scores()
    assert np.allclose(scores, scores.T)
    assert not np.diag(scores).any()


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
    model = FEMNetwork(degree, ridge=1.0, lag=lag, missing="ignore").fit(X)
    value = model.log_conditional(X).sum() - 0.5 * (model.params_.W**2).sum()
    assert value == pytest.approx(model.history_[-1], rel=1e-10)


@pytest.mark.parametrize("lag", [0, 1])
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
    np.testing.assert_array_equal(errors, model.standard_errors(X, n_boot=100))
    doubled = model.standard_errors(X, sample_weight=np.full(len(X), 2.0), n_boot=5)  # weights are not draws
    np.testing.assert_allclose(doubled, model.standard_errors(X, n_boot=5), rtol=0.05, atol=1e-3)
    with pytest.raises(ValueError, match="n_boot"):
        model.standard_errors(X, n_boot=1)


def kinetic_from(world, seed):
    """1,000 steps of one world of three unlike variables, different with every seed."""
    W = np.random.default_rng(world).normal(0, 0.5, (9, 9))
    terms, starts = make_terms(np.array([2, 3, 4]), groups_of(3, [1])), np.array([0, 2, 5, 9])
    out = np.empty((1000, 3), dtype=np.int32)
    uniform = np.random.default_rng((world, seed)).random((1000, 3))
    kernels.advance(np.zeros(3, np.int32), W, np.zeros(9), terms.variables, terms.strides, terms.offset, starts, uniform, True, out)
    return out


def test_two_variables_have_a_score_and_a_summary_names_groups():
    X = np.random.default_rng(0).integers(0, 2, (400, 3))
    X[:, 2] = X[:, 0] ^ X[:, 1]
    pair = FEMNetwork(ridge=1.0).fit(np.column_stack([X[:, 0], X[:, 0]]))
    np.testing.assert_array_equal(pair.scores(), pair.scores(apc=False))
    assert "x0 - x1" in pair.summary()
    assert "x0=0 & x1=0 -> x2=0" in FEMNetwork(2, ridge=1.0).fit(X).summary()


def test_reweighting_counts_copies_once():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (60, 20))
    many = np.vstack([X, np.repeat(X[:1], 30, axis=0)])
    weight = sequence_weights(many.astype(np.int32), 0.8)
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
