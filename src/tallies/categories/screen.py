"""Which pairs of variables matter, of all there are: a score test of every pair after the main effects.

    1.  r_i = y_i - p(. | x_i)                       residuals of the fit of degree 1
    2.  T_ab = sum_i w_i r_i [x_ij = a, x_ik = b],   N_ab = sum_i w_i [x_ij = a, x_ik = b]
    3.  score_jk = (chi - f) / sqrt(2 f),            chi = sum_abc T_abc^2 / (N_ab v_c),  v_c = mean of p_c (1 - p_c),
        f = (m_j - 1)(m_k - 1)(M - 1)                degrees of freedom: pairs with many states are not favoured
T and N of all pairs are products of one-hot matrices, made a block of variables at a time.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from tallies import engine
from tallies.backends import over_rows
from tallies.categories import choose as fem_choose
from tallies.categories.kernels import fem as kernels
from tallies.categories.model import Conditional, Setup
from tallies.categories.solvers import TRUST
from tallies.categories.terms import features, groups_of, make_terms
from tallies.errors import DataError
from tallies.maths import Array

BLOCK = (
    512  # one-hot columns of a block: products of this size run at the full speed of the matrix unit, and threads share them evenly
)
LEFT = 0.02  # nats that all main effects together may still gain: chi of a single pair is uncertain by fifty times as much


def screen_pairs(codes: np.ndarray, Y: Array, sizes: np.ndarray, top: int, ridge: float) -> list[tuple[int, int]]:
    """The `top` pairs of largest score (eq. 3), strongest first."""
    scores = pair_scores(codes, Y, sizes, ridge)
    j, k = np.triu_indices(len(sizes), 1)
    if len(j) < 1:
        raise DataError("screening needs at least two variables; leave screen out")
    order = np.argsort(-scores[j, k], kind="stable")[:top]
    return [(int(j[t]), int(k[t])) for t in order]


def pair_scores(codes: np.ndarray, Y: Array, sizes: np.ndarray, ridge: float = 1.0) -> Array:
    """(n, n)  score of every pair, above the diagonal."""
    n, M = len(sizes), Y.shape[1]
    held = 4.0 * len(codes) * int(sizes.sum()) + 24.0 * max(BLOCK, int(sizes.max())) ** 2
    if held > fem_choose.BUDGET:
        raise DataError(
            f"screening {n} variables with {int(sizes.sum()):,} states would need {held / 2**30:,.1f} GiB for {len(codes):,} "
            f"distinct rows (limit {fem_choose.BUDGET / 2**30:.0f}); bin or drop columns with many states"
        )
    weight = Y.sum(axis=1)
    P = _main_effects(codes, Y, sizes, ridge)
    R = (Y - weight[:, None] * P)[:, : M if M > 2 else 1]
    v = np.average(P * (1 - P), axis=0, weights=weight)[: R.shape[1]]
    start = np.concatenate([[0], np.cumsum(sizes)])
    blocks, first = [], 0
    for j in range(1, n + 1):
        if j == n or start[j + 1] - start[first] > BLOCK:
            blocks.append((first, j))
            first = j
    one_hot = [_one_hot(codes[:, a:b], sizes[a:b]) for a, b in blocks]
    scores = np.zeros((n, n))
    tasks = [(A, B) for A in range(len(blocks)) for B in range(A, len(blocks))]

    def task(rows: slice) -> None:
        for A, B in tasks[rows]:
            (a, b), (c, d) = blocks[A], blocks[B]
            N = (one_hot[A] * weight.astype(np.float32)[:, None]).T @ one_hot[B]
            chi = np.zeros(N.shape)
            for k in range(R.shape[1]):
                T = (one_hot[A] * R[:, k].astype(np.float32)[:, None]).T @ one_hot[B]
                chi += np.square(T, dtype=np.float64) / v[k]
            chi = np.divide(chi, N, out=np.zeros_like(chi), where=N > 0)
            chi *= (M - 1) / M if M > 2 else 1.0  # the residuals of all classes sum to zero: one of M is not free
            table = np.add.reduceat(np.add.reduceat(chi, start[a:b] - start[a], axis=0), start[c:d] - start[c], axis=1)
            free = np.maximum(np.outer(sizes[a:b] - 1, sizes[c:d] - 1) * (M - 1), 1)
            scores[a:b, c:d] = (table - free) / np.sqrt(2.0 * free)

    over_rows(task, len(tasks), 1)
    return np.triu(scores, 1)


def _one_hot(codes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(l, sum m) float32: counts are exact, and residual sums need no more than to rank."""
    start = np.concatenate([[0], np.cumsum(sizes)])
    out = np.zeros((len(codes), start[-1]), dtype=np.float32)
    row = np.arange(len(codes))
    for j in range(codes.shape[1]):
        seen = codes[:, j] >= 0
        out[row[seen], start[j] + codes[seen, j]] = 1.0
    return out


def _main_effects(codes: np.ndarray, Y: Array, sizes: np.ndarray, ridge: float) -> Array:
    """p(y | x) of the fit of degree 1."""
    terms, M = make_terms(sizes, groups_of(len(sizes), [1])), Y.shape[1]
    starts = np.array([0, M])
    job = Conditional()
    # at W = 0 the objective is -sum w log M; LEFT nats of it are what this tol leaves to gain
    tol = LEFT / (TRUST * float(Y.sum()) * np.log(M))
    job._setup = Setup("lbfgs", "diagonal", terms, starts, max(ridge, 1e-3), None, None, tol)
    ids = features(terms, codes)
    backend = job._place(job._cut(ids, Y, Y.sum(axis=1, keepdims=True)))
    W = job._solve(job.init(engine.survey(job, backend), np.random.default_rng(0)), backend, 200).W
    H = np.empty((len(codes), M))
    kernels.gather(ids, W, H)
    kernels.softmax_rows(H, np.ones((len(H), 1)), starts, np.zeros(1))
    return H


def grow(n: int, pairs: list[tuple[int, int]], degrees: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The groups to fit when these pairs are kept: of three or more variables, those whose pairs are all kept but one at most."""
    kept = {tuple(sorted(pair)) for pair in pairs}
    groups: list[tuple[int, ...]] = [(j,) for j in range(n)] if 1 in degrees else []
    level = sorted(kept)
    for k in range(2, max(degrees) + 1):
        if k > 2:
            wider = {tuple(sorted({*group, *pair})) for group in level for pair in kept if len({*group, *pair}) == k}
            level = sorted(g for g in wider if sum(p in kept for p in combinations(g, 2)) >= k * (k - 1) // 2 - 1)
        if k in degrees:
            groups += level
    return groups
