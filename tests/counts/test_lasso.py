"""The graphical lasso: its conditions of optimality, its certificate, and what is forbidden or free."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tallies.counts.kernels import lasso as kernels
from tallies.counts.network import lasso
from tallies.maths import limit


def correlations(p: int, n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.5 * np.eye(p, k=1) + rng.normal(size=(p, p)) * (rng.random((p, p)) < 1 / p))
    return np.corrcoef(X.T)


def violation(S: np.ndarray, L: np.ndarray, Theta: np.ndarray) -> float:
    """How far from the conditions: W_jj = S_jj, W - S = L sign(Theta) where it is not 0, and |W - S| <= L where it is."""
    G = np.linalg.inv(Theta) - S
    there, off = Theta != 0, ~np.eye(len(S), dtype=bool)
    on = np.abs(G - np.where(np.isinf(L), 0.0, L) * np.sign(Theta))[there & off]
    below = (np.abs(G) - L)[~there]
    return max(np.abs(np.diag(G)).max(), on.max(initial=0.0), below.max(initial=0.0))


@pytest.mark.parametrize("share", [0.02, 0.2, 0.6])
def test_the_conditions_of_optimality_hold(share: float) -> None:
    S = correlations(40, 120)
    L = np.full(S.shape, np.quantile(np.abs(S), 1 - share))
    found = lasso.solve(S, L, tol=1e-14)
    assert violation(S, L, found.Theta) < 1e-6
    np.testing.assert_allclose(found.W @ found.Theta, np.eye(40), atol=1e-10)
    assert (found.Theta == 0).any() and (found.Theta == found.Theta.T).all()


def test_two_columns_have_a_closed_form() -> None:
    S, L = np.array([[2.0, 0.9], [0.9, 3.0]]), np.full((2, 2), 0.4)
    np.testing.assert_allclose(lasso.solve(S, L, tol=1e-14).Theta, np.linalg.inv([[2.0, 0.5], [0.5, 3.0]]), rtol=1e-6)
    assert lasso.solve(S, L + 0.6).Theta[0, 1] == 0.0


def test_without_a_penalty_it_is_the_inverse() -> None:
    S = correlations(15, 60)
    np.testing.assert_allclose(lasso.solve(S, np.zeros_like(S), tol=1e-14).Theta, np.linalg.inv(S), rtol=1e-6, atol=1e-6)


def test_forbidden_pairs_are_zero_and_free_ones_are_matched() -> None:
    S, rng = correlations(20, 80), np.random.default_rng(1)
    kind = np.triu(rng.integers(0, 3, S.shape), 1)
    L = np.choose(kind + kind.T, [0.2, np.inf, 0.0])
    assert lasso.solve(S, L, tol=1e-10).gap < 20e-10
    found = lasso.solve(S, L, tol=1e-14)
    off = ~np.eye(20, dtype=bool)
    assert (found.Theta[np.isinf(L)] == 0).all()
    np.testing.assert_allclose(found.W[(L == 0) & off], S[(L == 0) & off], atol=1e-6)
    assert violation(S, L, found.Theta) < 1e-6
    assert np.isfinite(found.value)


def test_screening_changes_nothing() -> None:
    """Components apart, and all columns as one problem: the same solution."""
    S = np.kron(np.eye(3), correlations(8, 40)) + 0.01 * (1 - np.kron(np.eye(3), np.ones((8, 8))))
    L = np.full(S.shape, 0.05)
    assert len(set(lasso.components(S, L).tolist())) >= 3
    whole = lasso._component(S, L, None, 1e-12, 100)
    found = lasso.solve(S, L, tol=1e-13)
    np.testing.assert_allclose(found.Theta, whole.Theta, atol=1e-6)
    assert abs(found.value - whole.value) < 1e-10


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_the_gap_is_a_certificate(most: int) -> None:
    """However early it is stopped, the value is above the least one by no more than the gap, and by what it says to be."""
    S = correlations(30, 60)
    L = np.full(S.shape, 0.15)
    least, found = lasso.solve(S, L, tol=1e-14), lasso.solve(S, L, most=most)
    off = ~np.eye(30, dtype=bool)
    assert -1e-12 < found.value - least.value <= found.gap
    value = -np.linalg.slogdet(found.Theta)[1] + np.vdot(S, found.Theta) + (L * np.abs(found.Theta))[off].sum()
    np.testing.assert_allclose(found.value, value, rtol=1e-12)
    np.testing.assert_allclose(found.penalty, (L * np.abs(found.Theta))[off].sum(), rtol=1e-12)


def test_it_settles_where_samples_are_fewer_than_columns() -> None:
    S = correlations(60, 20)
    found = lasso.solve(S, np.full(S.shape, 0.02), tol=1e-9)
    assert found.gap < 1e-9 * 60
    assert violation(S, np.full(S.shape, 0.02), found.Theta) < 1e-4


def test_a_path_is_what_cold_starts_give_in_fewer_steps() -> None:
    S, penalties = correlations(40, 120), np.geomspace(0.5, 0.05, 8)
    warm = list(lasso.path(S, np.ones_like(S), penalties, tol=1e-12))
    cold = [lasso.solve(S, np.full(S.shape, penalty), tol=1e-12) for penalty in penalties]
    for a, b in zip(warm, cold, strict=True):
        np.testing.assert_allclose(a.Theta, b.Theta, atol=1e-5)
    assert sum(found.steps for found in warm[-4:]) < sum(found.steps for found in cold[-4:])


def test_it_agrees_with_scikit_learn() -> None:
    from sklearn.covariance import graphical_lasso

    S = correlations(12, 400)
    theirs = graphical_lasso(S, 0.1, tol=1e-10, enet_tol=1e-10, max_iter=500)[1]
    np.testing.assert_allclose(lasso.solve(S, np.full(S.shape, 0.1), tol=1e-14).Theta, theirs, atol=1e-6)


def test_directions_in_single_precision_lead_to_the_same_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide components sweep in it: steps are judged, and certified, in double precision all the same."""
    S, seen = correlations(40, 60), []
    L, sweep = np.full(S.shape, 0.15), kernels.sweep
    monkeypatch.setattr(kernels, "sweep", lambda Theta, W, *rest: (seen.append(W.dtype), sweep(Theta, W, *rest))[1])
    ends = []
    for from_on in (10, 1000):
        monkeypatch.setattr(lasso, "SINGLE", from_on)
        ends.append(lasso.solve(S, L, tol=1e-12))
    assert set(seen) == {np.dtype(np.float32), np.dtype(np.float64)}
    assert max(end.gap for end in ends) <= 40e-12
    np.testing.assert_allclose(ends[0].Theta, ends[1].Theta, atol=1e-6)


@pytest.mark.parametrize("wide", [1, 1000])
def test_the_loop_minimises_its_quadratic_model(wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the conditions of eq. 2 in NumPy; over squares of 4, whose last one is smaller, and row by row."""
    monkeypatch.setattr(lasso, "WIDE", wide)
    monkeypatch.setattr(lasso, "SQUARE", 4)
    S = correlations(10, 40)
    L, Theta = np.full(S.shape, 0.1), np.eye(10)
    W = np.linalg.inv(Theta + 0.1 * np.eye(10, k=1) + 0.1 * np.eye(10, k=-1))
    G, D, U = S - W, np.zeros_like(S), np.zeros_like(S)
    assert lasso._descend(Theta, W, G, L, 10_000, 1e-13, D, U)
    slope, to = G + W @ D @ W, Theta + D
    np.testing.assert_allclose(U, D @ W, atol=1e-12)
    off = ~np.eye(10, dtype=bool)
    assert np.abs(np.diag(slope)).max() < 1e-9
    assert np.abs(slope + L * np.sign(to))[(to != 0) & off].max() < 1e-9
    free = (np.abs(G) > L) & off
    assert (np.abs(slope) <= L + 1e-9)[free & (to == 0)].all()


def test_a_move_of_one_place_is_to_its_minimum() -> None:
    """One free place at a time, whose minimum of eq. 2 a single sweep finds: with another curvature it would not."""
    S = correlations(6, 40)
    L, Theta, W = np.full(S.shape, 0.05), np.eye(6), np.linalg.inv(np.eye(6) + 0.3 * S)
    G, moved = S - W, 0
    for i, j in zip(*np.triu_indices(6), strict=True):
        D, U = np.zeros_like(S), np.zeros_like(S)
        far = kernels.sweep(Theta, W, G, L, (np.arange(7) > i).astype(int), np.array([j]), D, U, np.empty(6))
        slope, to, penalty = (G + W @ D @ W)[i, j], (Theta + D)[i, j], L[i, j] * (i != j)
        assert abs(slope + penalty * np.sign(to)) < 1e-14 if to else abs(slope) <= penalty
        np.testing.assert_allclose(U, D @ W, atol=1e-15)
        # in the metric of eq. 2: the root of tr(W E W E) / 2 for a move of both triangles, of tr(W E W E) on the diagonal
        assert far == pytest.approx(np.sqrt(np.trace(W @ D @ W @ D) / (1 + (i != j))))
        moved += i != j and to != 0
    assert moved > 5


def test_a_sweep_over_squares_visits_each_place_once_with_the_slope_of_that_moment() -> None:
    """Against the same visits one at a time in NumPy, where the slope is found anew for each."""
    S = correlations(7, 40)
    L, Theta, W = np.full(S.shape, 0.05), np.eye(7), np.linalg.inv(np.eye(7) + 0.3 * S)
    np.fill_diagonal(L, 0.0)
    G, at, D, U, slow = S - W, np.nonzero(np.triu(np.ones((7, 7)))), *np.zeros((3, 7, 7))
    kernels.sweep_squares(Theta, W, G, L, np.searchsorted(at[0], np.arange(8)), at[1], D, U, np.empty((3, 7)))
    for i, j in sorted(zip(*at, strict=True), key=lambda place: (place[0] // 3, place[1] // 3, *place)):
        curve = W[i, j] ** 2 + (i != j) * W[i, i] * W[j, j]
        here = (Theta + slow)[i, j]
        to = here - (G + W @ slow @ W)[i, j] / curve
        slow[i, j] = slow[j, i] = slow[i, j] + np.sign(to) * max(abs(to) - L[i, j] / curve, 0.0) - here
    np.testing.assert_allclose(D, slow, atol=1e-14)
    np.testing.assert_allclose(U, D @ W, atol=1e-14)


def test_among_places_whose_sign_stays_the_minimum_solves_linear_equations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eq. 2 without its corners, spelled out entry by entry; one pair is forbidden, one has gone to 0 on the way."""
    S = correlations(6, 40)
    L, Theta = np.full(S.shape, 0.05), lasso.solve(S, np.full(S.shape, 0.12)).Theta
    L[0, 1] = L[1, 0] = np.inf
    Theta[0, 1] = Theta[1, 0] = 0.0
    W, D = np.linalg.inv(Theta), 0.01 * np.eye(6)
    j, k = next((j, k) for j, k in zip(*np.triu_indices(6, 1), strict=True) if Theta[j, k])
    D[j, k] = D[k, j] = -Theta[j, k]
    monkeypatch.setattr(lasso, "MOST", 200)
    monkeypatch.setattr(lasso, "NEAR", 1e-12)
    G = S - W
    found = lasso._face(Theta, W, G, L, D, D @ W)
    at = [(a, b) for a, b in zip(*np.triu_indices(6), strict=True) if a == b or (Theta + D)[a, b]]
    units = [np.array([[float({a, b} == {r, c}) for c in range(6)] for r in range(6)]) for a, b in at]
    H = np.array([[np.trace(W @ one @ W @ other) for other in units] for one in units])
    size, stays = [2 * L[a, b] * np.sign(Theta[a, b]) if a != b else 0.0 for a, b in at], np.where(Theta + D, 0.0, D)
    d = np.linalg.solve(H, [-np.vdot(G + W @ stays @ W, unit) - more for unit, more in zip(units, size, strict=True)])
    np.testing.assert_allclose(found, stays + sum(x * unit for x, unit in zip(d, units, strict=True)), atol=1e-9)


def test_strongly_correlated_columns_take_few_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """All alike, and all joined: sweeps and where they seem to lead took 1,761 of them, and 26,025 of twice as many columns."""
    S, count, sweep = np.eye(60) + 0.5, [], kernels.sweep
    monkeypatch.setattr(kernels, "sweep", lambda *a: (count.append(1), sweep(*a))[1])
    found = lasso.solve(S, np.full(S.shape, 0.1), tol=1e-9)
    assert found.gap <= 60e-9
    assert len(count) < 100


@pytest.mark.parametrize(("p", "n", "penalty"), [(40, 45, 1e-3), (40, 60, 1e-4), (100, 120, 1e-3)])
def test_hardly_any_penalty_takes_few_sweeps(p: int, n: int, penalty: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """While leaps were refused where one entry went through 0, more than 5,000 were needed, or a hundred thousand."""
    S, count, sweep = correlations(p, n), [], kernels.sweep
    monkeypatch.setattr(kernels, "sweep", lambda *a: (count.append(1), sweep(*a))[1])
    found = lasso.solve(S, np.full(S.shape, penalty), tol=1e-9)
    assert found.gap <= p * 1e-9
    assert len(count) < 1000


def factors(p: int, n: int) -> np.ndarray:
    """The covariance of columns that follow five factors, on scales from 0.5 to 2.7."""
    rng = np.random.default_rng(p)
    Z = rng.normal(size=(n, 5)) @ rng.normal(size=(5, p)) + 0.5 * rng.normal(size=(n, p))
    scale = np.exp(np.linspace(-0.7, 1.0, p))
    return np.cov(Z.T) * np.outer(scale, scale) + 0.05 * np.eye(p)


@pytest.mark.parametrize(("p", "penalty"), [(60, 0.3), (60, 0.1), (220, 1.0)])
def test_columns_that_follow_few_factors_take_few_sweeps(p: int, penalty: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newton steps are short there, and sweeps slow: by pairs alone it took 2,112, 6,240 and 3,549 of them."""
    S, count, sweep = factors(p, p + 10), [], kernels.sweep
    monkeypatch.setattr(kernels, "sweep", lambda *a: (count.append(1), sweep(*a))[1])
    found = lasso.solve(S, np.full(S.shape, penalty), tol=1e-6)
    assert found.gap <= p * 1e-6
    assert len(count) < 500


def test_rows_are_given_their_best_values_one_after_the_other() -> None:
    """Against each row's own minimum in NumPy, V by inverting what is left without the row; a pair is forbidden, one is free."""
    S = factors(7, 30)
    L, Theta = np.full(S.shape, 0.2), np.diag(1 / S.diagonal())
    L[0, 1] = L[1, 0] = np.inf
    L[2, 5] = L[5, 2] = 0.0
    slow, W = Theta.copy(), np.linalg.inv(Theta)
    for turn in range(3):
        kernels.rows(Theta, W, S, L, 10_000, 1e-15)
        for j in range(7):
            rest = np.arange(7) != j
            V, s, x = np.linalg.inv(slow[np.ix_(rest, rest)]), S[j, rest], slow[j, rest].copy()
            for sweep, k in product(range(2000), range(6)):
                if sweep == 0 or x[k]:  # others stay where they are until the next turn
                    curve = S[j, j] * V[k, k]
                    to = x[k] - (S[j, j] * V[k] @ x + s[k]) / curve
                    x[k] = np.sign(to) * max(abs(to) - L[j, rest][k] / curve, 0.0)
            slow[j, rest] = slow[rest, j] = x
            slow[j, j] = 1 / S[j, j] + x @ V @ x
        np.testing.assert_allclose(Theta, slow, atol=1e-10, err_msg=f"turn {turn}")
        np.testing.assert_allclose(W @ Theta, np.eye(7), atol=1e-10)
    assert Theta[0, 1] == 0 and (Theta[np.triu_indices(7, 1)] == 0).sum() > 1


def test_a_leap_goes_where_sweeps_lead_and_never_up() -> None:
    """Eq. 2 by its definition; the limit of a linear iteration from a few of its iterates; and a leap that would not be lower."""
    rng, p = np.random.default_rng(0), 4
    W, G, L = (0.5 * (a + a.T) for a in rng.normal(size=(3, p, p)))
    W, L, Theta = W @ W, np.abs(L), np.eye(p)
    D, at = 0.1 * (G + np.eye(p)), np.triu_indices(p)
    U, off = D @ W, ~np.eye(p, dtype=bool)
    wanted = np.vdot(G, D) + 0.5 * np.trace(W @ D @ W @ D) + (L * np.abs(Theta + D))[off].sum()
    assert lasso._value(Theta, G, L, at, D, U) == pytest.approx(wanted)
    rates, end = np.resize([0.3, 0.6, 0.9], 8), rng.normal(size=8)
    seen = end + rates ** np.arange(9)[:, None]  # converges to the end, slowly in one direction
    assert np.abs(limit(seen) - end).max() < 1e-3 < np.abs(seen[-1] - end).max()
    # two moves at right angles, of lengths 1 and 2, count as 4 to 1: a mean of where they ended, not of where they began
    np.testing.assert_allclose(limit(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]])), [1.0, 0.4], rtol=1e-9)
    before = D.copy()
    assert not lasso._leap(Theta, W, G, L, at, 10 * D[at], D, U)
    np.testing.assert_array_equal(D, before)
    assert lasso._leap(Theta, W, G, 100 * L, at, np.where(at[0] == at[1], 0.0, -1e-3), D, U)
    assert (D == 0)[off & (before > 0)].all() and (before > 0)[off].any()  # to their corner, and no further
    np.testing.assert_allclose(D[off & (before < 0)], -1e-3)
    np.testing.assert_allclose(U, D @ W)
    assert np.array_equal(D, D.T)
