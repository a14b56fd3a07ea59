"""FEM: exact small cases, other implementations, gauge, kernel, recovery, tic-tac-toe."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

import tallies
from tallies import FEM
from tallies.backends import one_blas_thread, place
from tallies.categories import model as fem_model
from tallies.categories import products, solvers
from tallies.categories.basis import make_basis
from tallies.categories.choose import Ground, Tried, arrange, degree_path, final, fold_numbers, sources_of
from tallies.categories.dual import Dual, Whole, best_length, newton
from tallies.categories.model import Conditional, Rows, cut
from tallies.categories.row_products import Full
from tallies.categories.screen import pair_scores
from tallies.categories.terms import Layout, closure, features, groups_of, grow, make_terms, zero_sum
from tallies.datasets import TIC_TAC_TOE_LINES, tic_tac_toe
from tallies.engine import Kept, Runner
from tallies.errors import DataError, FileError


def table(l=300, sizes=(3, 2, 4), classes=3, seed=0, degree=2, scale=1.0):
    """Rows of random states and an output drawn from a random model of the given degree."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, m, l) for m in sizes])
    terms = make_terms(np.array(sizes), groups_of(len(sizes), range(1, degree + 1)))
    H = scale * rng.normal(size=(terms.p, classes))[features(terms, codes)].sum(axis=1)
    return codes, (H + rng.gumbel(size=H.shape)).argmax(axis=1), rng


def only_stage(model, codes, y):
    """The one stage of a fit without a search."""
    return next(model._plan(model._prepare(codes, y), 0))


def distinct(model, codes, y):
    """Distinct rows and folds, as the plan makes them."""
    table = model._prepare(codes, y)
    rows, held = table.distinct(fold_numbers(table.labels, model.cv, 0))
    return rows, np.array(np.split(held, model.cv, axis=1))


def one_hot(codes, degree=1):
    sizes = codes.max(axis=0) + 1
    terms = make_terms(sizes, groups_of(len(sizes), range(1, degree + 1)))
    X = np.zeros((len(codes), terms.p))
    np.put_along_axis(X, features(terms, codes), 1.0, axis=1)
    return X


@pytest.mark.parametrize("degree", [1, 2])
def test_fem_solver_is_the_seeds_iteration(degree):
    codes, y, _ = table()
    X, Y = one_hot(codes, degree), np.eye(3)[y]
    inverse, W = np.linalg.pinv(X.T), np.zeros((3, X.shape[1]))
    model = FEM(degree=degree, ridge=0.0, solver="fem", max_iter=12, tol=0.0)
    with pytest.warns(tallies.errors.ConvergenceWarning):
        model.fit(codes, y)
    for _ in range(13):  # the first step needs no sweep, as P is known at W = 0
        P = np.exp(W @ X.T)
        W = W + (Y.T - P / P.sum(axis=0)) @ inverse
    np.testing.assert_allclose(model.fitted_.W.T, W, atol=1e-10)


def test_fixed_point_is_the_maximum_likelihood_estimate():
    codes, y, _ = table(l=2000)
    seed = FEM(degree=1, ridge=0.0, solver="fem", tol=1e-14).fit(codes, y)
    quick = FEM(degree=1, ridge=0.0, solver="lbfgs", tol=1e-14).fit(codes, y)
    other = LogisticRegression(C=1e10, fit_intercept=False, tol=1e-10, max_iter=10000).fit(one_hot(codes), y)
    P = seed.predict_proba(codes)
    R = one_hot(codes).T @ (np.eye(3)[y] - P)  # (Sigma_y - P) Sigma_x' = 0
    assert np.abs(R).max() < 1e-3
    np.testing.assert_allclose(quick.predict_proba(codes), P, atol=1e-6)
    np.testing.assert_allclose(other.predict_proba(one_hot(codes)), P, atol=1e-5)
    assert quick.n_iter_ < seed.n_iter_
    assert np.diff(seed.history_).min() > -1e-9


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("solver", ["fem", "lbfgs", "kernel"])
def test_ridge_agrees_with_scikit_learn(solver, classes):
    codes, y, _ = table(l=400, classes=classes)
    model = FEM(degree=2, ridge=2.0, solver=solver, tol=1e-13).fit(codes, y)
    # two classes: scikit-learn penalises the difference of our two columns, W = (-w/2, w/2)
    other = LogisticRegression(C=(1 if classes > 2 else 2) / 2.0, fit_intercept=False, tol=1e-9, max_iter=10000).fit(
        one_hot(codes, 2), y
    )
    np.testing.assert_allclose(model.predict_proba(codes), other.predict_proba(one_hot(codes, 2)), atol=1e-5)
    assert model.solver_ == solver


def test_gradient_by_finite_differences():
    codes, y, rng = table(l=60)
    model = FEM(degree=2, ridge=0.7, solver="lbfgs")
    stage = only_stage(model, codes, y)
    model, (shard,) = stage.model, [source.load() for source in stage.sources]
    params = model.first(model.survey(shard))
    W = rng.normal(size=params.W.shape)

    def objective(W):
        search = solvers.begin(W, model.starts)
        tally, _ = model.sweep(shard, None, params._replace(trial=W), rng)
        return model.update(params._replace(search=search), tally, rng).search.point

    at = objective(W)
    for f, k in [(0, 0), (5, 1), (11, 2), (20, 0)]:
        step = np.zeros_like(W)
        step[f, k] = 1e-5
        slope = (objective(W + step).value - objective(W - step).value).sum() / 2e-5
        assert at.g[f, k] == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("degree", [1, 2, 3, (1, 3), (2,)])
def test_kernel_equals_explicit_features(degree):
    codes, y, _ = table(l=300, sizes=(3, 2, 4, 2))
    explicit = FEM(degree=degree, ridge=0.5, solver="lbfgs", tol=1e-14).fit(codes, y)
    kernel = FEM(degree=degree, ridge=0.5, solver="kernel", tol=1e-14).fit(codes, y)
    np.testing.assert_allclose(kernel.predict_proba(codes), explicit.predict_proba(codes), atol=1e-6)
    pd.testing.assert_frame_equal(kernel.weights_, explicit.weights_, atol=1e-4)
    unseen = codes[:50].copy()
    unseen[::2, 0], unseen[::3, 2] = 99, 99
    np.testing.assert_allclose(kernel.predict_proba(unseen), explicit.predict_proba(unseen), atol=1e-6)
    effect = kernel.effect(x0=1, x2=3)
    np.testing.assert_allclose(effect, explicit.effect(x0=1, x2=3), atol=1e-4)


def test_zero_sum_gauge_changes_no_score_and_sums_to_zero():
    rng = np.random.default_rng(0)
    sizes = np.array([3, 2, 4])
    terms = make_terms(sizes, groups_of(3, [2, 3]))
    W = rng.normal(size=(terms.p, 3))
    b, closed, V = zero_sum(terms, W, np.array([0, 3]))
    codes = np.array(np.meshgrid(*map(range, sizes), indexing="ij")).reshape(3, -1).T
    H, G = W[features(terms, codes)].sum(axis=1), b + V[features(closed, codes)].sum(axis=1)
    np.testing.assert_allclose(H - H.mean(axis=1, keepdims=True), G, atol=1e-12)
    for t in range(len(closed.variables)):
        block = V[closed.offset[t] : closed.offset[t + 1]].reshape(*closed.shape(t), 3)
        for axis in range(block.ndim):
            assert np.abs(block.sum(axis=axis)).max() < 1e-12
    assert closure([(0, 1), (1, 2)]) == [(0,), (1,), (2,), (0, 1), (1, 2)]


def test_tic_tac_toe_finds_the_eight_lines():
    boards, won = tic_tac_toe()
    assert len(boards) == 958
    model = FEM(degree=3, ridge=0.1).fit(boards, won)
    assert model.score(boards, won) == 1.0
    top = model.interactions(8)
    assert set(top["degree"]) == {3}
    cells = list(boards.columns)
    found = {tuple(sorted(cells.index(c) for c in term.split(" & "))) for term in top["term"]}
    assert found == set(TIC_TAC_TOE_LINES)
    effect = model.effect(top_left="x", top_centre="x", top_right="x")
    assert effect["x wins"] > 0.5


def test_equal_rows_are_fitted_once_with_their_weight():
    codes, y, _ = table(l=500, sizes=(2, 2, 3))
    model = FEM(degree=2, ridge=1.0, tol=1e-13, solver="lbfgs")
    assert sum(len(source.load().ids) for source in only_stage(model, codes, y).sources) == 12
    weight = 1.0 + (np.arange(500) % 3 == 0)
    a = FEM(degree=2, ridge=1.0, tol=1e-13).fit(codes, y, sample_weight=weight)
    twice = np.repeat(np.arange(500), weight.astype(int))
    b = FEM(degree=2, ridge=1.0, tol=1e-13).fit(codes[twice], y[twice])
    np.testing.assert_allclose(a.fitted_.W, b.fitted_.W, atol=1e-9)


def test_auto_finds_the_degree_of_exclusive_or():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (400, 5))
    y = X[:, 0] ^ X[:, 1]
    model = FEM(degree="auto").fit(X, y)
    assert max(model.degree_) == 2
    assert model.score(X, y) == 1.0
    assert model.interactions(1)["term"][0] == "x0 & x1"
    assert model.solver_ in ("lbfgs", "kernel")
    assert set(model.path_["degree"]) >= {1.0, 2.0, 3.0}


def test_auto_ridge_is_the_best_of_separate_fits():
    codes, y, _ = table(l=250, sizes=(3, 3, 3, 2), classes=2)
    model = FEM(degree=2, ridge="auto", cv=4, tol=1e-10).fit(codes, y)
    tried = dict(zip(model.path_["ridge"], model.path_["log_loss"], strict=True))
    rows, folds = distinct(FEM(degree=2, ridge="auto", cv=4), codes, y)
    losses = {}
    for ridge in (model.ridge_, model.ridge_ * 10, model.ridge_ / 10):
        total = 0.0
        for held in folds:
            i, k = np.nonzero(rows.Y - held)
            fold = FEM(degree=2, ridge=ridge, tol=1e-10).fit(rows.codes[i], k, sample_weight=(rows.Y - held)[i, k])
            total -= np.sum(held * fold.predict_log_proba(rows.codes))
        losses[ridge] = total / rows.Y.sum()
    assert min(losses, key=losses.get) == model.ridge_
    assert tried[model.ridge_] == pytest.approx(losses[model.ridge_], rel=5e-3)  # a path stops at fewer digits


def test_screening_finds_a_planted_pair_among_many():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (1500, 120))
    y = ((X[:, 17] == 0) ^ (X[:, 88] == 0) ^ (rng.random(1500) < 0.1)).astype(int)
    model = FEM(degree=2, ridge=1.0, screen=5).fit(X, y)
    assert model.pairs_[0].tolist() == [17, 88]
    assert model.score(X, y) > 0.8
    assert grow(5, [(0, 1), (1, 2), (3, 4)], (1, 2, 3))[5:] == [(0, 1), (1, 2), (3, 4), (0, 1, 2)]


def test_pair_scores_are_score_tests():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, (3000, 25)).astype(np.int32)
    Y = np.eye(2)[rng.integers(0, 2, 3000)]
    rows = Rows(codes, Y, np.ones((3000, 1)))
    scores = Runner(place).run(pair_scores(rows, (2,) * 25)).value.scores[np.triu_indices(25, 1)]
    # without any effect (chi - 1)/sqrt 2 has mean 0 and variance 1; 300 pairs: both within 5 standard errors
    assert abs(scores.mean()) < 5 / np.sqrt(300)
    assert abs(scores.var() - 1) < 5 * np.sqrt(14 / 300)


def test_standard_errors_cover():
    codes, y, _ = table(l=4000, sizes=(2, 3), classes=2, degree=1)
    model = FEM(degree=1, ridge=1e-3).fit(codes, y)
    errors = model.standard_errors(codes, y, n_boot=60)
    assert errors.shape == model.weights_.shape
    # Wald's errors, from the inverse Hessian in the zero-sum parametrisation of two classes
    free = np.column_stack([np.ones(4000), 1 - 2 * codes[:, 0], codes[:, 1] == 0, codes[:, 1] == 1]).astype(float)
    free[codes[:, 1] == 2, 2:] = -1
    p = model.predict_proba(codes)[:, 1]
    wald = np.sqrt(np.diag(np.linalg.inv((free.T * (p * (1 - p))) @ free))) / 2  # half: +w and -w
    many = model.standard_errors(codes, y, n_boot=600)  # an error of 3% of its own
    np.testing.assert_allclose(many.iloc[[0, 1, 3, 4], 0], wald, rtol=0.12)
    # a row of weight 2 counts twice in a draw, and is drawn once: twice the counts under twice the ridge is the same fit
    heavy = FEM(degree=1, ridge=2e-3).fit(codes, y, sample_weight=np.full(4000, 2.0))
    again = heavy.standard_errors(codes, y, n_boot=60, sample_weight=np.full(4000, 2.0))
    np.testing.assert_allclose(again, errors, rtol=1e-3)
    with pytest.raises(ValueError, match="n_boot"):
        model.standard_errors(codes, y, n_boot=1)


def test_samples_follow_the_probabilities():
    codes, y, _ = table(l=200)
    model = FEM(degree=1, ridge=1.0).fit(codes, y)
    drawn = model.sample_y(np.repeat(codes[:1], 20000, axis=0), random_state=0)
    p = model.predict_proba(codes[:1])[0]
    share = np.bincount(drawn, minlength=3) / 20000
    assert np.abs((share - p) / np.sqrt(p * (1 - p) / 20000)).max() < 5.5


def test_refused_steps_do_not_end_the_fit():
    codes, y, _ = table(l=80, scale=6.0)
    model = FEM(degree=2, ridge=1e-4, solver="lbfgs", tol=1e-10, max_iter=3000).fit(codes, y)
    assert np.diff(model.history_).min() >= -1e-9
    assert model.converged_
    assert log_loss(y, FEM(degree=2, ridge=1e-4, tol=1e-10).fit(codes, y).predict_proba(codes)) < 0.2


def test_a_saved_kernel_predicts_the_same(tmp_path):
    codes, y, _ = table(l=100)
    model = FEM(degree=3, ridge=1.0, solver="kernel").fit(codes, y)
    model.save(tmp_path / "m.tallies")
    again = tallies.load(tmp_path / "m.tallies")
    np.testing.assert_array_equal(again.predict_proba(codes), model.predict_proba(codes))
    assert again.summary() == model.summary()


def test_the_basis_spans_the_features_and_gives_the_same_metric():
    sizes = np.array([3, 2, 4, 1])
    terms = make_terms(sizes, groups_of(4, [1, 2, 3]))
    basis = make_basis(terms)
    codes = np.indices(tuple(sizes)).reshape(4, -1).T.astype(np.int32)
    X = np.zeros((len(codes), terms.p))
    np.put_along_axis(X, features(terms, codes).astype(np.int64), 1.0, axis=1)
    psi = np.zeros((len(codes), len(basis.P)))
    psi[:, 0], kept = 1.0, basis.kept >= 0
    psi[:, basis.kept[kept]] = X[:, kept]
    np.testing.assert_array_equal(psi @ basis.T, X)
    assert np.linalg.matrix_rank(X) == len(basis.P)
    v = X.T @ np.random.default_rng(0).normal(size=(len(X), 2))
    metric = solvers.Reduced(solvers.factor(psi.T @ psi, 0.3, 2.0, 1e-9, basis.P), basis)
    want = np.linalg.solve(X.T @ X / 2 + 0.3 * np.eye(terms.p), v)
    np.testing.assert_allclose(solvers.apply(metric, v, None), want, atol=1e-12)
    assert make_basis(make_terms(sizes, [(0, 1)])) is None


def test_evidence_for_a_degree_does_not_rest_on_the_choice_of_its_ridge():
    """Degree 2 gains 1.2 nats at its best ridge, and 0.4 at a stronger one that is as good: not enough."""
    losses = {1: {10.0: 50.0, 1.0: 48.0}, 2: {1.0: 47.6, 0.1: 46.8}, 3: {10.0: 60.0, 1.0: 61.0}}

    def told(stage):
        K, ridge = int(stage.name.split()[1][0]), float(stage.name.split()[-1])
        return Kept(Tried(np.array([-losses[K].get(ridge, 100.0)]), None, None), "converged", ())

    def ground(degrees):
        return Ground(Conditional(Layout.of(np.array([2, 2, 2]), degrees, None), (2,), "gram"), [], unseen=1.0)

    plan = degree_path(ground, 3, None)
    stage = next(plan)
    while True:
        try:
            stage = plan.send(told(stage))
        except StopIteration as end:
            best, found = end.value
            break
    assert found[2].loss == 46.8 and found[2].strongest == 1.0
    assert best == 1


def test_the_degree_is_searched_without_a_ridge_too():
    codes = np.indices((3, 3, 2)).reshape(3, -1).T.repeat(12, axis=0)
    y = (codes[:, 0] == codes[:, 1]) ^ (np.arange(len(codes)) % 6 == 0)  # never certain: weights stay finite
    model = FEM(degree="auto", ridge=0.0).fit(codes, y)
    assert max(model.degree_) == 2 and set(model.path_["ridge"]) == {0.0}


@pytest.mark.parametrize("multiply", [False, True])
@pytest.mark.parametrize(("degrees", "metric"), [((1,), "reduced"), ((1, 2), "reduced"), ((1, 2), "gram")])
def test_steps_of_metrics_by_state_are_those_of_the_hessian_of_each(degrees, metric, multiply):
    """Zero-sum gradients, each state's through the inverse of its own part of the Hessian, made zero-sum again."""
    rng, sizes, m = np.random.default_rng(0), np.array([3, 2, 4]), 3
    terms = make_terms(sizes, groups_of(3, degrees))
    codes = np.indices(tuple(sizes)).reshape(3, -1).T.astype(np.int32)
    model = Conditional(Layout.of(sizes, degrees, None), (m,), metric, ridge=0.2, by_state=True, multiply=multiply)
    shard = cut(model, Rows(codes, rng.integers(0, m, (len(codes), 1)), np.ones((len(codes), 1))))[0].load()
    params = model.first(model.survey(shard), rng.normal(size=(terms.p, m)))
    tally, _ = model.sweep(shard, None, model.outgoing(params), rng)
    made = model.update(params, tally, rng).metric
    X = np.zeros((len(codes), terms.p))
    np.put_along_axis(X, features(terms, codes).astype(np.int64), 1.0, axis=1)
    H = X @ params.search.point.x
    P = np.exp(H - np.logaddexp.reduce(H, axis=1, keepdims=True))
    v = X.T @ rng.normal(size=(len(X), m))
    zero_sum_v = v - v.mean(axis=1, keepdims=True)
    each = [np.linalg.solve((X.T * (p * (1 - p))) @ X + 0.2 * np.eye(terms.p), g) for p, g in zip(P.T, zero_sum_v.T, strict=True)]
    want = np.transpose(each) - np.mean(each, axis=0)[:, None]
    np.testing.assert_allclose(solvers.apply(made, v, model.starts), want, atol=1e-9)


def test_a_class_of_one_row_is_never_held_out():
    codes, y, _ = table(l=100, classes=2)
    y[0] = 2
    model = FEM(degree=1, cv=4).fit(codes, y)
    assert len(model.path_["ridge"]) > 2
    _, folds = distinct(FEM(degree=1, cv=4), codes, y)
    assert folds.sum() == 99
    assert folds[:, :, 2].sum() == 0


@pytest.mark.parametrize("solver", ["lbfgs", "kernel"])
@pytest.mark.parametrize("classes", [2, 3])
def test_raw_weights_by_degree_add_up_to_the_scores(solver, classes):
    codes, y, _ = table(l=200, classes=classes)
    model = FEM(degree=2, ridge=1.0, solver=solver).fit(codes, y)
    W = model.weights_by_degree()
    assert list(W) == [1, 2]
    rows = [[f"x{j}={s}" for j, s in enumerate(row)] for row in codes[:20]]
    H = [W[1].loc[r].sum() + W[2].loc[[f"{r[a]} & {r[b]}" for a in range(3) for b in range(a + 1, 3)]].sum() for r in rows]
    H = np.array(H)
    want = H[:, 1] - H[:, 0] if classes == 2 else H
    np.testing.assert_allclose(model.decision_function(codes[:20]), want, atol=1e-9)
    log_p = model.predict_log_proba(codes[:20])
    np.testing.assert_allclose(log_p - log_p[:, :1], H - H[:, :1], atol=1e-9)


def test_a_search_that_is_cut_short_ends_with_the_best_that_is_complete():
    codes, y, _ = table(l=400, sizes=(3, 3, 3, 2), classes=2)
    names: list[str] = []
    whole = FEM(degree="auto", max_degree=2).fit(codes, y, callback=lambda stage, state: names.append(stage.name))
    assert names[0] == "degree 1, ridge 100"
    tried = [name for name in dict.fromkeys(names) if name.startswith("degree 2") and "all rows" not in name]
    assert len(tried) >= 3
    cut, calls = names.index(tried[1]), iter(range(10**6))
    part = FEM(degree="auto", max_degree=2).fit(codes, y, callback=lambda stage, state: next(calls) == cut)
    assert part.stopped_ == "callback"
    assert max(part.degree_) == 1  # of degree 2 not all was tried
    assert part.path_["degree"].count(2.0) == 1
    settled = FEM(degree=1, ridge=part.ridge_).fit(codes, y)
    assert np.abs(part.predict_proba(codes) - settled.predict_proba(codes)).max() < 0.02  # it goes on from the folds' weights
    assert set(whole.path_["degree"]) == {1.0, 2.0}
    calls = iter(range(10**6))
    first = FEM(degree=1).fit(codes, y, callback=lambda stage, state: next(calls) == 0)
    assert first.ridge_ == 1.0  # none is complete: as where there are no folds
    assert np.isfinite(first.predict_proba(codes)).all()


def test_rows_are_scored_on_the_cluster_with_the_same_bits(cluster):
    codes, y, _ = table(l=300)
    codes[5, 0] = 7
    for model in (FEM(degree=2, ridge=1.0), FEM(degree=2, ridge=1.0, solver="kernel")):
        model.fit(codes[10:], y[10:])
        with tallies.backend(cluster):
            there = model.predict_proba(codes)
        np.testing.assert_array_equal(there, model.predict_proba(codes))


def test_weights_of_both_forms_agree_where_cells_are_missing():
    rng = np.random.default_rng(3)
    X = rng.choice(["a", "b", "c"], (150, 4)).astype(object)
    y = X[:, 0] == X[:, 1]
    X[rng.random(X.shape) < 0.1] = None
    dual, primal = (FEM(degree=2, ridge=1.0, solver=s, missing="ignore", tol=1e-13).fit(X, y) for s in ("kernel", "lbfgs"))
    np.testing.assert_allclose(dual.weights_, primal.weights_, atol=1e-6)
    for states in ({"x0": "a"}, {"x0": "a", "x1": "b"}):
        np.testing.assert_allclose(dual.effect(**states), primal.effect(**states), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"solver": "kernel"}, {"missing": "ignore"}], ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_an_explanation_adds_up_to_the_log_odds(options, classes):
    codes, y, _ = table(l=200, classes=classes)
    X = pd.DataFrame(codes, columns=[f"v{j}" for j in range(codes.shape[1])], index=[f"r{i}" for i in range(200)]).astype(object)
    X.iloc[3, 1] = X.iloc[9, 2] = None
    model = FEM(degree=2, ridge=1.0, **options).fit(X, y)
    new = X[:20].copy()
    new.iloc[5, 0] = 99  # never seen: it has no part
    parts, P = model.explain(new), np.sort(model.predict_log_proba(new), axis=1)
    rows = parts.groupby("row", sort=False)
    np.testing.assert_allclose(rows["contribution"].sum(), P[:, -1] - P[:, -2], atol=1e-10)
    np.testing.assert_array_equal(rows["predicted"].first(), model.predict(new))
    assert list(rows.groups) == new.index.tolist()
    assert all(np.diff(np.abs(mine["contribution"])).max() <= 1e-12 for _, mine in rows)
    mine = parts[parts["row"] == "r0"].set_index("feature")["contribution"]
    effect, (called, against) = model.effect(v0=new.iloc[0, 0], v1=new.iloc[0, 1]), parts.iloc[0, 1:3].astype(str)
    assert mine[f"v0={new.iloc[0, 0]} & v1={new.iloc[0, 1]}"] == pytest.approx(effect[called] - effect[against])
    assert not parts[parts["row"] == "r5"]["feature"].str.contains("v0=").any()
    assert ("(gaps)" in set(parts["feature"])) == (options == {"missing": "ignore"})


def test_a_checkpoint_belongs_to_names_and_categories(tmp_path):
    """The same codes under other names are other data."""
    X = pd.DataFrame({"colour": ["red", "blue"] * 20, "size": ["small", "small", "large", "large"] * 10})
    y = ["yes", "no", "no", "yes"] * 10
    model = FEM(degree=2, ridge=0.1)
    model.fit(X, y, checkpoint=tmp_path / "c", callback=lambda *_: True)
    for other in (X.rename(columns={"size": "width"}), X.replace("red", "ruby"), X.astype(str).replace("small", "Small")):
        with pytest.raises(FileError, match="other data"):
            FEM(degree=2, ridge=0.1).fit(other, y, resume=tmp_path / "c")
    with pytest.raises(FileError, match="other data"):
        FEM(degree=2, ridge=0.1).fit(X, np.char.replace(y, "yes", "ja"), resume=tmp_path / "c")
    assert FEM(degree=2, ridge=0.1).fit(X, y, resume=tmp_path / "c").converged_


def test_folds_of_other_rows_are_refused():
    with pytest.raises(DataError, match="holds out row 9, but there are 6"):
        FEM(cv=[([0, 1, 2], [3, 4, 9])]).fit([["a"], ["b"]] * 3, [0, 1] * 3)


def test_columns_of_what_has_no_hash_are_refused():
    """Such as records, as which polars holds intervals of pandas."""
    values = pl.DataFrame({"b": [{"left": 0.0, "right": 0.5}, {"left": 0.5, "right": 1.0}] * 3})
    with pytest.raises(DataError, match=r"no categories|turn lists into numbers"):
        FEM(ridge=1.0).fit(values, [0, 1] * 3)


@pytest.mark.parametrize(("degree", "solver"), [(1, "auto"), (2, "lbfgs"), (2, "kernel")])
def test_losses_along_the_path_are_those_of_their_ridges(degree, solver):
    """Boards are told nearly for certain, where a search that starts from its neighbour gains little at first."""
    boards, won = (table[::2] for table in tic_tac_toe())
    model = FEM(degree=degree, solver=solver, cv=5).fit(boards, won)
    codes = np.column_stack([np.unique(boards[name], return_inverse=True)[1] for name in boards])
    X, y = one_hot(codes, degree), np.unique(won, return_inverse=True)[1]
    folds = fold_numbers(y, 5, 0)
    assert len(model.path_["ridge"]) >= 7
    for ridge, loss in zip(model.path_["ridge"], model.path_["log_loss"], strict=True):
        other = LogisticRegression(C=2 / ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-7, max_iter=1000)
        with one_blas_thread():
            told = [log_loss(y[folds == k], other.fit(X[folds != k], y[folds != k]).predict_proba(X[folds == k])) for k in range(5)]
        assert loss == pytest.approx(np.average(told, weights=np.bincount(folds)), abs=1e-3), ridge


def test_a_metric_made_anew_ends_at_the_same_point(monkeypatch):
    """Where a fit is nearly perfect the curvature is not that at W = 0, and with it far fewer sweeps do."""
    boards, won = tic_tac_toe()
    renewed = FEM(degree=2, ridge=1e-3, solver="lbfgs").fit(boards, won)
    monkeypatch.setattr(fem_model, "AGED", 10**9)
    kept = FEM(degree=2, ridge=1e-3, solver="lbfgs").fit(boards, won)
    assert renewed.n_iter_ < 0.5 * kept.n_iter_
    assert renewed.history_[-1] == pytest.approx(kept.history_[-1], rel=1e-3)
    assert np.diff(renewed.history_).min() >= 0
    np.testing.assert_allclose(renewed.predict_proba(boards), kept.predict_proba(boards), atol=1e-3)


def test_few_boards_are_told_by_pairs():
    """With five folds degree 1 was chosen, as four fifths of so few rows are too few for pairs; the loss was 0.053."""
    boards, won = tic_tac_toe()
    train, test = list(StratifiedKFold(3, shuffle=True, random_state=1).split(boards, won))[2]
    model = FEM(degree="auto", max_degree=2).fit(boards.iloc[train], won[train])
    assert max(model.degree_) == 2
    assert log_loss(won[test], model.predict_proba(boards.iloc[test])) < 0.02


def test_newtons_method_takes_few_steps_near_a_perfect_fit():
    boards, won = tic_tac_toe()
    for degree, classes in ((2, won), (3, np.where(boards["top_left"] == "x", "corner", won))):
        model = FEM(degree=degree, ridge=1e-2, solver="kernel", tol=1e-10).fit(boards, classes)
        assert model.converged_
        assert model.n_iter_ <= 12  # 8 and 10; 13 and 16 where every step has the length 1
        assert np.diff(model.history_).min() >= 0


def test_a_step_of_newtons_method_goes_as_far_as_pays():
    rng, ridge = np.random.default_rng(0), 0.1
    for separable in (True, False):
        X, weight = rng.integers(0, 2, (60, 8)), rng.integers(1, 4, 60).astype(float)
        K = np.array([[float(np.sum(a == b)) for b in X] for a in X])
        says = X[:, 0] if separable else rng.integers(0, 2, 60)
        Y = weight[:, None] * np.eye(2)[says]
        P = np.full((60, 2), 0.5)
        g = Y - weight[:, None] * P  # at a = 0
        z, Kz = (part[:, 0] for part in newton(Full(K), g[:, None], P[:, None], weight[:, None], ridge, 1e-8))
        np.testing.assert_allclose(Kz, K @ z, atol=1e-9)
        best = best_length(np.zeros((60, 2)), Kz, g, P, weight, ridge * np.sum(z * Kz))

        def value(t, z=z, Kz=Kz, Y=Y, weight=weight):
            return np.sum(t * Y * Kz) - weight @ np.logaddexp.reduce(t * Kz, axis=1) - ridge / 2 * t * t * np.sum(z * Kz)

        lengths = np.linspace(0.0, 20.0, 2001)
        values = np.array([value(t) for t in lengths])
        assert value(best) >= value(1.0)
        assert value(best) - value(0) >= 0.95 * (values.max() - value(0))  # a tenth of the slope may be left
        assert (best > 2) == separable


@pytest.mark.parametrize("m", [2, 3])
def test_newtons_steps_of_several_outputs_at_once_are_those_of_each_alone(m):
    rng, l, ridge = np.random.default_rng(m), 40, 0.3
    X = rng.integers(0, 3, (l, 5))
    rows = Full((X[:, None] == X[None]).sum(axis=2).astype(np.float32))
    P, weight = rng.dirichlet(np.ones(m), (l, 3)), rng.integers(0, 3, (l, 3)).astype(float)
    P[: l // 2, 1] = np.eye(m)[0] * (1 - 1e-9) + 1e-9 / m  # rows that are told nearly for certain, of one output
    Y = weight[:, :, None] * np.eye(m)[rng.integers(0, m, (l, 3))]
    g = Y - weight[:, :, None] * P
    (z, Kz), K = newton(rows, g, P, weight, ridge, 1e-12), rows.K
    for o in range(3):
        V = weight[:, o, None, None] * (P[:, o, :, None] * np.eye(m) - P[:, o, :, None] * P[:, o, None, :])
        left = np.einsum("iab,ib->ia", V, K @ z[:, o]) + ridge * z[:, o] - g[:, o]  # eq. 3
        np.testing.assert_allclose(K @ left, 0, atol=1e-4 * np.abs(K @ g[:, o]).max())
        np.testing.assert_allclose(Kz[:, o], K @ z[:, o], atol=1e-8)


def test_the_kernel_is_exact_whatever_its_size():
    rng = np.random.default_rng(0)
    for n, degrees, dtype in ((20, (1, 2, 3), np.float32), (60, (1, 2, 3, 4, 5, 6), np.float64)):
        codes = rng.integers(0, 2, (5, n)).astype(np.int32)
        model = Dual(Layout.of(np.full(n, 2), degrees), (2,))
        K = Whole(model, Rows(codes, np.ones((5, 2)), np.ones((5, 1))), None).load().K.K
        agree = (codes[:, None] == codes[None]).sum(axis=2)
        assert K.dtype == dtype
        assert K.astype(np.float64).tolist() == [
            [float(sum(math.comb(a, k) for k in degrees)) for a in row] for row in agree.tolist()
        ]


def test_folds_that_start_at_the_fit_to_all_rows_tell_what_they_would_from_nothing():
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, (300, 8))
    y = (X[:, 0] == X[:, 1]) ^ (rng.random(300) < 0.05)
    number = np.arange(300) % 5
    folds = [(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(5)]
    names: list[str] = []
    model = FEM(degree="auto", max_degree=2, solver="kernel", cv=folds).fit(
        X, y, callback=lambda stage, state: names.append(stage.name)
    )
    assert any("all rows" in name for name in names)
    tried = [(ridge, loss) for degree, ridge, loss in zip(*model.path_.values(), strict=True) if degree == 2]
    for ridge, loss in tried:
        told = []
        for seen, held in folds:
            fold = FEM(degree=2, ridge=ridge, solver="kernel", tol=1e-10).fit(X[seen], y[seen])
            told += fold.predict_log_proba(X[held])[np.arange(len(held)), y[held].astype(int)].tolist()
        assert loss == pytest.approx(-np.mean(told), abs=2e-3 * max(-np.mean(told), 0.1))


def test_a_fit_at_the_end_of_another_ridge_gets_a_metric_of_its_own():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (600, 12))
    y = (X[:, :5].sum(axis=1) > 2).astype(int)  # certain: the metric of W = 0 is of no use
    rows = Rows(X.astype(np.int32), np.eye(2)[y], np.ones((600, 1)))
    model = replace(arrange(rows.codes, Layout.of(np.full(12, 2), (1,)), (2,), "lbfgs"), tol=1e-7)

    def plan():
        strong, weak = (replace(model, ridge=ridge) for ridge in (1e-2, 1e-3))
        sources = sources_of(model, rows, None)
        kept = yield final(strong, sources, 500)
        cold = yield final(weak, sources, 500)
        warm = yield final(weak, sources, 500, kept.value)
        return cold.objective, warm.objective

    cold, warm = Runner(place).run(plan())
    assert warm[-1] == pytest.approx(cold[-1], rel=1e-4)
    assert len(warm) < len(cold) / 2


def test_sweeps_of_many_rows_are_compiled_though_some_rows_at_a_time_are_few(monkeypatch):
    codes, y, _ = table(l=3000, sizes=(6,) * 7)
    stage = only_stage(FEM(degree=2, ridge=1.0, solver="lbfgs"), codes, y)
    model, calls = stage.model, []
    assert not model.dense and not model.multiply
    shard = stage.sources[0].load()
    params = model.first(model.survey(shard))
    scatter = products.kernels.scatter
    monkeypatch.setattr(products.kernels, "scatter", lambda X, H, out: calls.append(len(X)) or scatter(X, H, out))
    model.sweep(shard, None, params, np.random.default_rng(0))
    assert sum(calls) == len(shard.ids)  # NumPy's way takes ten times as long
    assert max(calls) * shard.ids.shape[1] * sum(model.outputs) <= products.SMALL
