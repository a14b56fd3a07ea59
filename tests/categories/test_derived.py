"""What is derived from FEM and its networks: losses, errors, scores, gauges; each against its definition."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import tallies
from tallies import FEM, FEMNetwork
from tallies.backends import Threads, carry_out
from tallies.categories import choose
from tallies.categories.answers import Scorer, energies
from tallies.categories.dual import Survey
from tallies.categories.model import Conditional, Rows
from tallies.categories.network.alike import sequence_weights
from tallies.categories.network.by_pair import pair_ridges
from tallies.categories.scores import coupling_scores, top_pairs
from tallies.categories.screen import pair_scores
from tallies.categories.terms import Layout, grow, terms_of
from tallies.engine import Runner
from tallies.errors import DataWarning

RNG = np.random.default_rng(0)


def chain(l=200, n=4, seed=0):
    """Rows of states 0 to 2, each variable often like the one before."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (l, n))
    for j in range(1, n):
        X[:, j] = np.where(rng.random(l) < 0.5, X[:, j - 1], X[:, j])
    return X


# what is chosen


@pytest.mark.parametrize("lag", [0, 1])
def test_the_ridge_of_a_network_is_judged_by_the_rows_held_out(lag):
    X = chain()
    model = FEMNetwork(lag=lag, random_state=0).fit(X)
    block = np.arange(len(X) - lag) * 20 // (len(X) - lag) if lag else np.random.default_rng(0).permutation(len(X))
    out = block % 5 == 4
    assert 0.15 < out.mean() < 0.25
    for ridge, loss in list(zip(model.path_["ridge"], model.path_["log_loss"], strict=True))[:4]:
        if lag:
            pairs = np.hstack([X[:-1], X[1:]])
            told = []
            for j in range(X.shape[1]):  # each variable is a FEM of its own on the row before
                one = FEM(ridge=ridge).fit(pairs[~out][:, :4], pairs[~out][:, 4 + j])
                told.append(one.predict_log_proba(pairs[out][:, :4])[np.arange(out.sum()), pairs[out][:, 4 + j]])
            expected = -np.mean(told)
        else:
            expected = -FEMNetwork(ridge=ridge).fit(X[~out]).log_conditional(X[out]).mean()
        assert loss == pytest.approx(expected, rel=2e-3)


def test_the_loss_of_a_ridge_is_that_of_rows_and_their_weight():
    X = chain(150, 3)
    y = (X[:, 0] + (RNG.random(150) < 0.2)) % 3
    weight = RNG.integers(1, 5, 150).astype(float)
    folds = [(np.flatnonzero(np.arange(150) % 3 != k), np.flatnonzero(np.arange(150) % 3 == k)) for k in range(3)]
    model = FEM(cv=folds).fit(X, y, sample_weight=weight)
    for ridge, loss in list(zip(model.path_["ridge"], model.path_["log_loss"], strict=True))[:3]:
        told = 0.0
        for train, test in folds:
            one = FEM(ridge=ridge).fit(X[train], y[train], sample_weight=weight[train])
            told += weight[test] @ one.predict_log_proba(X[test])[np.arange(len(test)), y[test]]
        assert loss == pytest.approx(-told / weight.sum(), rel=1e-3)


def test_folds_have_the_classes_in_equal_parts():
    y = np.repeat([0, 1, 2], [50, 20, 7])
    folds = choose.fold_numbers(y, 5, seed=0)
    for k in range(3):
        counts = np.bincount(folds[y == k], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_three_way_parity_needs_and_gets_degree_three():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (400, 4))
    model = FEM(degree="auto").fit(X, X[:, 0] ^ X[:, 1] ^ X[:, 2])
    assert model.degree_ == (1, 2, 3)
    noise = FEM(degree="auto").fit(X, rng.integers(0, 2, 400))
    assert noise.degree_ == (1,)


def test_of_equal_losses_the_strongest_ridge_is_best():
    assert choose.best_ridge({10.0: 0.5, 1.0: 0.5, 0.1: 0.7}) == 10.0


def test_a_higher_degree_needs_evidence_of_all_rows():
    """A gain of 0.01 nats a row is nothing in 50 rows and a nat in 100: EVIDENCE is of the whole."""
    paths = {1: choose.Path("lbfgs", {1.0: 0.6}), 2: choose.Path("lbfgs", {1.0: 0.59})}

    def best(unseen):
        ground = choose.Ground(Conditional(Layout.of((2, 2), (1,)), (2,), "diagonal"), [], unseen)
        found = choose.degree_path(lambda degrees: ground._replace(folds=max(degrees)), 2, None)
        try:
            next(found)
        except StopIteration as end:
            return end.value[0]

    original = choose.ridge_path

    def told(ground, *asked):
        return paths[ground.folds]
        yield

    choose.ridge_path = told
    try:
        assert best(50.0) == 1
        assert best(200.0) == 2
    finally:
        choose.ridge_path = original


def test_ridges_by_pair_by_hand():
    sizes, m, ridge, rows = np.array([[0.0, 2.0], [0.5, 0.0]]), (2, 3), 0.4, 60.0
    told = 60.0 / 6
    free = 1 * 2 * told / (told + 0.4)
    assert pair_ridges(sizes, m, ridge, rows)[0, 1] == pytest.approx((1 + free) / (1 / (10.0 * 0.4) + 2.0))
    V, starts = np.arange(25.0).reshape(5, 5), np.array([0, 2, 5])
    ab, ba = np.sum(V[:2, 2:] ** 2), np.sum(V[2:, :2] ** 2)
    assert choose.coupling_sizes(V, starts, True)[0, 1] == pytest.approx((ab + ba) / 2)
    assert choose.coupling_sizes(V, starts, False)[0, 1] == pytest.approx(ab)


# errors


def test_standard_errors_know_the_weights():
    """All weights and the ridge times 100 change no estimate, and no error of one."""
    X = chain(120, 2)
    y = (X[:, 0] > X[:, 1]).astype(int)
    hundred = np.full(120, 100.0)
    one, other = FEM(ridge=1.0).fit(X, y), FEM(ridge=100.0).fit(X, y, sample_weight=hundred)
    a = one.standard_errors(X, y, n_boot=8)
    b = other.standard_errors(X, y, n_boot=8, sample_weight=hundred)
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    for lag in (0, 1):
        one, other = FEMNetwork(ridge=1.0, lag=lag).fit(X), FEMNetwork(ridge=100.0, lag=lag).fit(X, sample_weight=hundred)
        a = one.standard_errors(X, n_boot=6)
        np.testing.assert_allclose(a, other.standard_errors(X, n_boot=6, sample_weight=hundred), rtol=1e-3, atol=1e-5)
    a = FEM(ridge=1.0).fit(X, y).standard_errors(X, y, n_boot=8)
    draws = [FEM(ridge=1.0).fit(X, y, sample_weight=times).weights_.to_numpy() for times in _redrawn(120, 8)]
    np.testing.assert_allclose(np.std(draws, axis=0, ddof=1), a, rtol=1e-2, atol=1e-4)


def _redrawn(l, n_boot):
    rng = np.random.default_rng(0)
    return [rng.multinomial(l, np.full(l, 1 / l)).astype(float) for _ in range(n_boot)]


def test_steps_of_a_series_have_the_weight_of_their_end():
    """A weight of 0 leaves out the step that ends in its row, and not the one that begins there."""
    X, weight = chain(60, 2), np.ones(60)
    weight[30] = 0.0
    model = FEMNetwork(ridge=1.0, lag=1).fit(X, sample_weight=weight)
    keep = np.arange(59) != 29
    for j in range(2):
        one = FEM(ridge=1.0).fit(X[:-1][keep], X[1:][keep][:, j])
        p = one.predict_log_proba(X[:-1])
        np.testing.assert_allclose(model.log_conditional(X)[:, j], p[np.arange(59), X[1:, j]], atol=1e-3)


# scores


def test_rows_are_alike_from_a_share_on_and_not_below():
    codes = np.array([[0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1]], dtype=np.int32)
    found = [carry_out(next(sequence_weights(codes, share))).tolist() for share in (0.8, 0.75)]
    assert found == [[1.0, 1.0, 1.0], [0.5, 0.5, 1.0]]  # three of four is less than 0.8
    X = np.repeat(chain(20, 3), 2, axis=0)
    weight = RNG.random(40) + 0.5
    model = FEMNetwork(ridge=1.0, reweight=1.0).fit(X, sample_weight=weight)
    same = np.array([(row == X).all(axis=1).sum() for row in X])
    assert model.effective_rows_ == pytest.approx(np.sum(weight / same), rel=1e-12)
    counts = np.bincount(X[:, 0], weights=weight / same, minlength=3)
    np.testing.assert_allclose(model.frequencies_[0], counts / counts.sum(), rtol=1e-12)


def test_background_of_pairs_by_hand():
    """APC: the mean of a row times that of a column over that of all pairs, the diagonal being none."""
    J, starts = np.zeros((6, 6)), np.array([0, 2, 4, 6])
    for (j, k), v in {(0, 1): 3.0, (0, 2): 1.0, (1, 2): 2.0}.items():
        J[2 * j : 2 * j + 2, 2 * k : 2 * k + 2] = J[2 * k : 2 * k + 2, 2 * j : 2 * j + 2] = v / 2 * np.array([[1, -1], [-1, 1]])
    columns = lambda k: J[:, starts[k] : starts[k + 1]]  # noqa: E731
    plain = coupling_scores(columns, starts, [], "frobenius", False, False)
    np.testing.assert_allclose(plain, [[0, 3, 1], [3, 0, 2], [1, 2, 0]])
    mean, rows = 2.0, [2.0, 2.5, 1.5]
    found = coupling_scores(columns, starts, [], "frobenius", True, False)
    for j, k in ((0, 1), (0, 2), (1, 2)):
        assert found[j, k] == pytest.approx(plain[j, k] - rows[j] * rows[k] / mean)
    directed = coupling_scores(columns, starts, [], "frobenius", True, True)
    assert directed[0, 1] == pytest.approx(3.0 - (4 / 3) * (5 / 3) / (12 / 9))


def test_the_strongest_coupling_may_be_negative():
    model = FEMNetwork(ridge=1.0).fit(np.column_stack([x := RNG.integers(0, 2, 200), 1 - x]))
    S, J = model.scores(apc=False), model.couplings_
    shifted = J.copy()
    shifted[0, 2] = shifted[2, 0] = -9.0
    starts = np.array([0, 2, 4])
    found = top_pairs(S, lambda k: shifted[:, starts[k] : starts[k + 1]], starts, model.categories_, 1, False)
    assert found["coupling"].tolist() == [-9.0]


def test_couplings_are_the_mean_of_both_directions():
    X = chain(80, 3)
    model = FEMNetwork(ridge=5.0).fit(X)
    b, terms, V = model._zero_sum()
    pairs = V[:9]
    assert np.abs(pairs - pairs.T).max() > 1e-3
    np.testing.assert_allclose(model.couplings_, (pairs + pairs.T) / 2, rtol=1e-12)
    assert len(b) == 9
    assert terms.p == 9


def test_energy_of_a_row_with_gaps_has_no_part_of_them():
    X = chain(80, 3).astype(object)
    X[RNG.random(X.shape) < 0.1] = None
    model = FEMNetwork(ridge=1.0, missing="ignore").fit(X)
    rows = model._read(X)
    b, terms, V = model._zero_sum()
    found = energies(rows, Scorer(b, terms, V), model._starts())[:, 0]
    starts = model._starts()
    for i in (0, 5, 11):
        total = 0.0
        for j in range(3):
            if rows[i, j] >= 0:
                at = starts[j] + rows[i, j]
                total -= b[at] + sum(V[starts[k] + rows[i, k], at] for k in range(3) if rows[i, k] >= 0)
        assert found[i] == pytest.approx(total, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_scores_of_pairs_without_effect_are_standard(classes):
    """Mean 0 and variance 1 where no pair matters, whatever the number of classes."""
    rng = np.random.default_rng(classes)
    l, n, m = 3000, 16, 3
    X, y = rng.integers(0, m, (l, n)).astype(np.int32), rng.integers(0, classes, l)
    rows = Rows(X, np.eye(classes)[y], np.ones((l, 1)))

    def plan():
        return (yield from pair_scores(rows, (m,) * n))

    kept = Runner(lambda sources, shared: Threads(sources, 1)).run(plan())
    scores = kept.value.scores[np.triu_indices(n, 1)]
    assert abs(scores.mean()) < 5 / np.sqrt(len(scores))
    assert 0.55 < scores.var() < 1.7  # of 120 pairs, at 5 standard errors


def test_triples_grow_from_two_of_their_pairs():
    assert grow(4, [(0, 1), (1, 2)], (1, 2, 3)) == [(0,), (1,), (2,), (3,), (0, 1), (1, 2), (0, 1, 2)]


# forms of one model


def test_effects_of_the_kernel_are_those_of_named_weights():
    X = chain(90, 4)
    y = (X[:, 0] == X[:, 1]).astype(int) + (X[:, 2] == 2)
    for degree in (2, 3):
        named = FEM(degree=degree, ridge=1.0, solver="lbfgs", tol=1e-12).fit(X, y)
        kernel = FEM(degree=degree, ridge=1.0, solver="kernel", tol=1e-12).fit(X, y)
        for states in ({"x0": 1}, {"x0": 1, "x1": 1}, {"x1": 0, "x3": 2}):
            np.testing.assert_allclose(kernel.effect(**states), named.effect(**states), atol=2e-4)
        new = X[:5].astype(object)
        new[:, 1] = 7  # a state that the fit has not seen
        np.testing.assert_allclose(kernel.predict_proba(new), named.predict_proba(new), atol=1e-4)


def test_decision_of_two_classes_is_the_log_odds_of_the_second():
    X = chain(60, 2)
    model = FEM(ridge=1.0).fit(X, X[:, 0] > 0)
    p = model.predict_proba(X)
    np.testing.assert_allclose(model.decision_function(X), np.log(p[:, 1] / p[:, 0]), rtol=1e-9)


def test_drawn_classes_have_their_probabilities():
    X = chain(200, 2)
    model = FEM(ridge=1.0).fit(X, X[:, 0])
    p = model.predict_proba(X[:1])[0]
    drawn = model.sample_y(np.repeat(X[:1], 20_000, axis=0), random_state=0)
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 20_000, p, atol=0.02)


def test_states_of_an_output_sum_to_zero():
    X = chain(60, 3)
    model = FEM(ridge=1.0, solver="kernel").fit(X, X[:, 0])
    W = model.weights_.to_numpy()
    np.testing.assert_allclose(W.sum(axis=1), 0.0, atol=1e-12)
    other = model.fitted_._replace(W=model.fitted_.W + RNG.normal(size=(len(model.fitted_.W), 1)))
    model.fitted_ = other  # a number added to all classes of a row says nothing
    np.testing.assert_allclose(model.weights_.to_numpy(), W, atol=1e-9)
    assert terms_of(model._layout()).p == 9


def test_history_ends_at_the_penalised_log_likelihood():
    X = chain(100, 3)
    y = X[:, 1]
    for solver in ("lbfgs", "kernel", "fem"):
        model = FEM(ridge=0.7 if solver != "fem" else 0.0, solver=solver, max_iter=400).fit(X[:, ::2], y)
        W = np.vstack([table.to_numpy() for table in model.weights_by_degree().values()])
        told = model.predict_log_proba(X[:, ::2])[np.arange(100), y].sum() - 0.5 * model.ridge_ * np.sum(W**2)
        assert model.history_[-1] == pytest.approx(told, rel=1e-6)


def test_a_degree_starts_where_the_one_below_pulls_its_rows(monkeypatch):
    rng = np.random.default_rng(5)
    X = np.array(list(np.ndindex(2, 2, 2, 2, 2, 2, 2)))[rng.permutation(128)[:90]]  # no row twice
    y = X[:, :3].sum(axis=1) % 2
    of_all, asked = choose.of_all, []
    monkeypatch.setattr(choose, "of_all", lambda *given: asked.append((*given[2:], stage := of_all(*given))) or stage)
    FEM(degree="auto", solver="kernel").fit(X, y)
    (at, nothing, _), (ridge, pulls, stage), *_ = asked
    assert nothing is None
    weights = stage.start(Survey(np.array([90, 2 * len(stage.model.outputs)]))).W
    np.testing.assert_allclose(weights[:, -2:], pulls / ridge, rtol=1e-12)
    assert not weights[:, :-2].any()
    below = FEM(degree=2, ridge=at, solver="kernel").fit(X, y).predict_proba(X)
    want = np.eye(2)[y] - below  # ridge a, at the optimum
    np.testing.assert_allclose(np.sort(pulls, axis=0), np.sort(want, axis=0), atol=1e-3)


def test_cells_that_a_network_knows_no_state_of_are_told_of():
    X = pd.DataFrame({name: list("abba" * 10) for name in "uvw"})
    model = FEMNetwork(ridge=1.0).fit(X)
    strange = X.head(4).assign(v=["a", "z", None, "b"])
    with pytest.warns(DataWarning, match="2 of 12 cells have no state of the fit"):
        score = model.score(strange)
    assert score == pytest.approx(model.log_conditional(strange).sum() / 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        assert tallies.evaluate(model, X).value == model.score(X)
