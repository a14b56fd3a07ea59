"""Rows of PLN-PCA: where they begin, and the value, slope and curvature of the bound at a point. Symbols as in `rank`.

The curvature of a row's scores M_i is P_i + I, and that of a column of W is H_j:

    P_i = C'diag(A_i) C,        H_j = Z'diag(v A_j) Z + diag [0, A_j'v S2]                                            (eq. 1)
"""

from __future__ import annotations

import numpy as np

from tallies.counts.kernels.plain import TOP, blocks
from tallies.counts.records import RankLatents, Shard

BLOCK = 1 << 16  # entries worked on at once: products of few columns want long blocks


def evaluate(shard: Shard, z: RankLatents, W: np.ndarray, renew: bool, curved: bool) -> tuple[float, np.ndarray, np.ndarray | None]:
    """F at z.x_trial and W with its gradient, that of the rows into z.g_trial.

    `curved` asks for the P of eq. 1 (into z.P), `renew` also for the blocks: those of the rows inverted (into z.D), of columns not.
    """
    d = shard.X.shape[1]
    q = W.shape[1] - d
    C = np.ascontiguousarray(W[:, d:])
    CC, g_W, F = C * C, np.zeros_like(W), shard.constant
    H = np.zeros((len(W), W.shape[1] * (W.shape[1] + 1) // 2)) if renew else None
    squares = _squares(C) if curved or renew else None
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
        if squares is not None:
            z.P[b] = _symmetric(A @ squares, q)
        if H is not None:
            z.D[b] = inverse(z.P[b], 1.0) / v[:, :, None]
            z.D_psi[b] = 1.0 / (v * (0.5 * S2 * (ACC + 1.0)))
        if not shard.even:
            A *= v
        AS += A.T @ S2
        if H is not None:
            H += A.T @ _squares(ZZ)
        A -= v * shard.Y[b]
        g_W += A.T @ ZZ
        z.g_trial[b, :q] = A @ C + v * M
        z.g_trial[b, q:] = 0.5 * v * (S2 * (ACC + 1.0) - 1.0)
    g_W[:, d:] += AS * C
    if H is not None:
        H = _symmetric(H, W.shape[1])
        k = np.arange(d, W.shape[1])
        H[:, k, k] += AS
    return float(F), g_W, H


def crude(shard: Shard, mean: np.ndarray) -> np.ndarray:
    """Logarithms of the rates, from the counts and the mean rates alone."""
    return mean + np.log((shard.Y + 1) / (np.exp(np.minimum(shard.O + mean, TOP)) + 1))


def place(shard: Shard, W: np.ndarray, mean: np.ndarray | None) -> np.ndarray:
    """First scores of the rows for a given W: least squares of the crude logarithms, about what W expects without a mean."""
    d = shard.X.shape[1]
    C, expected = W[:, d:], shard.X @ W[:, :d].T
    return (crude(shard, expected if mean is None else mean) - expected) @ C @ np.linalg.inv(C.T @ C + np.eye(C.shape[1]))


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


def _squares(rows: np.ndarray) -> np.ndarray:
    """Products of all pairs of entries of every row, each pair once."""
    k, l = np.triu_indices(rows.shape[1])
    return rows[:, k] * rows[:, l]


def _symmetric(pairs: np.ndarray, q: int) -> np.ndarray:
    """Symmetric matrices (n, q, q) from their pairs (n, q (q + 1) / 2)."""
    out, (k, l) = np.empty((len(pairs), q, q)), np.triu_indices(q)
    out[:, k, l] = out[:, l, k] = pairs
    return out
