"""Rows of PLN-PCA: where they begin, and the value, slope and curvature of the bound at a point. Symbols as in `rank`.

The curvature of a row's scores M_i is P_i + I, and that of a column of W is H_j:

    P_i = C'diag(A_i) C,        H_j = Z'diag(v A_j) Z + diag [0, A_j'v S2]                                            (eq. 1)
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, NamedTuple

import numpy as np

from tallies import lbfgs
from tallies.counts.kernels.plain import TOP
from tallies.counts.records import Shard, blocks
from tallies.forms import Form

MEMORY = 4  # pairs kept by L-BFGS
REACH = 1.5  # longest move of any entry in one step
BLOCK = 1 << 16  # entries worked on at once: products of few columns want long blocks


Row = Annotated[np.ndarray, Form("n 2*q")]
Blocks = Annotated[np.ndarray, Form("n q q")]
Pairs = Annotated[np.ndarray, Form("m n 2*q")]


class RankLatents(NamedTuple):
    """What the rows keep; a row's variables are [M, psi]."""

    x: Row  # current point
    x_trial: Row
    g: Row  # gradient at the current point
    g_trial: Row
    P: Blocks  # C'diag(A_i)C, at the last refresh or turn
    D: Blocks  # of eq. 2 for M
    D_psi: Annotated[np.ndarray, Form("n q", low=0)]  # their diagonal for psi
    d: Row  # direction
    S: Pairs
    Y: Pairs
    DY: Pairs  # D times them
    best: Annotated[np.ndarray, Form("n ...")]  # point of the best start, which may have an axis more or less


def room(n: int, q: int, best: np.ndarray) -> RankLatents:
    """Room for the rows of a start."""
    x, x_trial, g, g_trial, d = (np.zeros((n, 2 * q)) for _ in range(5))
    S, Y, DY = (np.zeros((MEMORY, n, 2 * q)) for _ in range(3))
    P, D = (np.zeros((n, q, q)) for _ in range(2))
    return RankLatents(x, x_trial, g, g_trial, P, D, np.zeros((n, q)), d, S, Y, DY, best)


def evaluate(shard: Shard, z: RankLatents, W: np.ndarray, renew: bool, curved: bool) -> tuple[float, np.ndarray, np.ndarray | None]:
    """F at z.x_trial and W with its gradient, that of the rows into z.g_trial.

    `curved` asks for the P of eq. 1 (into z.P), `renew` also for the blocks: those of the rows inverted (into z.D), of columns not.
    """
    d = shard.X.shape[1]
    q = W.shape[1] - d
    C = np.ascontiguousarray(W[:, d:])
    CC, g_W, F = C * C, np.zeros_like(W), shard.constant
    H = np.zeros((len(W), W.shape[1] * (W.shape[1] + 1) // 2)) if renew else None
    squared = squares(C) if curved or renew else None
    AS = np.zeros_like(C)
    for b in blocks(len(shard.Y), len(W), BLOCK):
        M, psi, v = z.x_trial[b, :q], z.x_trial[b, q:], shard.v[b, None]
        S2, ZZ = np.exp(np.clip(psi, -TOP, TOP)), np.hstack([shard.X[b], M])
        L = ZZ @ W.T
        L += shard.O[b]
        A = S2 @ CC.T
        A *= 0.5
        A += L
        np.exp(np.minimum(A, TOP, out=A), out=A)
        L *= shard.Y[b]
        L -= A
        F -= shard.v[b] @ L.sum(axis=1)
        F += 0.5 * float(shard.v[b] @ (M * M + S2 - psi - 1.0).sum(axis=1))
        ACC = A @ CC
        if squared is not None:
            z.P[b] = symmetric(A @ squared, q)
        if H is not None:
            z.D[b] = inverse(z.P[b], 1.0) / v[:, :, None]
            z.D_psi[b] = 1.0 / (v * (0.5 * S2 * (ACC + 1.0)))
        if not shard.even:
            A *= v
        AS += A.T @ S2
        if H is not None:
            H += A.T @ squares(ZZ)
        A -= v * shard.Y[b]
        g_W += A.T @ ZZ
        z.g_trial[b, :q] = A @ C + v * M
        z.g_trial[b, q:] = 0.5 * v * (S2 * (ACC + 1.0) - 1.0)
    g_W[:, d:] += AS * C
    if H is not None:
        H = symmetric(H, W.shape[1])
        k = np.arange(d, W.shape[1])
        H[:, k, k] += AS
    return float(F), g_W, H


def aim(z: RankLatents, toward: lbfgs.Direction) -> float:
    """Write the direction into z.d, no entry longer than REACH, and return its slope."""
    np.copyto(z.d, lbfgs.along(toward, apply(z, z.g[None])[0], z.S, z.DY))
    q = z.D.shape[1]
    z.d[:, :q] = within(z.d[:, :q])
    np.clip(z.d[:, q:], -REACH, REACH, out=z.d[:, q:])
    return float(np.vdot(z.g, z.d))


def apply(z: RankLatents, rows: np.ndarray) -> np.ndarray:
    """The blocks of eq. 2 times every row [M, psi] of a stack."""
    q = z.D.shape[1]
    out = np.empty_like(rows)
    out[..., :q] = np.matmul(z.D, rows[..., :q].transpose(1, 2, 0)).transpose(2, 0, 1)
    out[..., q:] = z.D_psi * rows[..., q:]
    return out


def blockwise(D: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """A block of eq. 2 times its row, for all rows."""
    return np.matmul(D, rows[..., None])[..., 0]


def within(d: np.ndarray) -> np.ndarray:
    """Shorten rows that move an entry by more than REACH; whole rows, so that a block of eq. 2 still leads downhill."""
    return d * np.minimum(1.0, REACH / np.maximum(np.abs(d).max(axis=1, keepdims=True), 1e-300))


def crude(Y: np.ndarray, O: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Logarithms of the rates, from counts, offsets and the mean rates alone."""
    return mean + np.log((Y + 1) / (np.exp(np.minimum(O + mean, TOP)) + 1))


def place(shard: Shard, W: np.ndarray, mean: np.ndarray | None) -> np.ndarray:
    """First scores of the rows for a given W: least squares of the crude logarithms, about what W expects without a mean."""
    d = shard.X.shape[1]
    C, expected = W[:, d:], shard.X @ W[:, :d].T
    return (
        (crude(shard.Y, shard.O, expected if mean is None else mean) - expected) @ C @ np.linalg.inv(C.T @ C + np.eye(C.shape[1]))
    )


def spread(shard: Shard, W: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Logarithms of the variances that go with scores M, at the rates of these means."""
    A = np.exp(np.minimum(shard.O + np.hstack([shard.X, M]) @ W.T, TOP))
    return -np.log1p(A @ (W[:, shard.X.shape[1] :] ** 2))


def likeliest(shard: Shard, W: np.ndarray, *scores: np.ndarray) -> np.ndarray:
    """Of several scores, and none, those under which each row is likeliest."""
    scores = (np.zeros_like(scores[0]), *scores)
    values = []
    for M in scores:
        L = np.minimum(shard.O + np.hstack([shard.X, M]) @ W.T, TOP)
        values.append((np.exp(L) - shard.Y * L).sum(axis=1) + 0.5 * (M * M).sum(axis=1))
    return np.choose(np.argmin(values, axis=0)[:, None], scores)


def inverse(blocks: np.ndarray, ridge: float) -> np.ndarray:
    """Of symmetric blocks; rates of e^60, which a wild step may try, must not make them singular."""
    ridges = ridge + 1e-12 * np.einsum("ikk->i", blocks)
    return np.linalg.inv(blocks + ridges[:, None, None] * np.eye(blocks.shape[1]))


def squares(rows: np.ndarray) -> np.ndarray:
    """Products of all pairs of entries of every row, each pair once."""
    k, l = _upper(rows.shape[1])
    return rows[:, k] * rows[:, l]


def symmetric(pairs: np.ndarray, q: int) -> np.ndarray:
    """Symmetric matrices (n, q, q) from their pairs (n, q (q + 1) / 2)."""
    out, (k, l) = np.empty((len(pairs), q, q)), _upper(q)
    out[:, k, l] = out[:, l, k] = pairs
    return out


@cache
def _upper(q: int) -> tuple[np.ndarray, ...]:
    """Which pairs those are; making the list anew takes longer than a small table does."""
    return np.triu_indices(q)
