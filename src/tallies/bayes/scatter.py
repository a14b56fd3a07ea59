"""Sums of products of rows about class means: what GDA tallies, and how such sums move to other means.

    z = x - c_k for a row of class k, about a centre c_k of its class
    s_k = sum w z,   S_g = sum w z z',   B_k = sum w z^2 z',   A_k = sum w z^2 (z^2)'

S is over all rows (G = 1) or over those of each class (G = K). B and A are third and fourth moments, kept for Ledoit-Wolf only.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tallies.bayes.kernels import moments as kernels
from tallies.forms import Form
from tallies.maths import Array, patterns, regression

ROWS = 2048  # rows centred at a time before their products are added: under 1 MB at 50 columns, so they stay in the cache


class Scatter(NamedTuple):
    s: Annotated[Array, Form("K d", "f")]
    S: Annotated[Array, Form("sums d d", "f")]  # (G, d, d)
    B: Annotated[Array, Form("K d d", "f")] | None
    A: Annotated[Array, Form("K d d", "f")] | None


def size_of(mean: Array) -> Array:
    """How large the values of each column are, to tell variance from rounding."""
    return np.abs(mean).max(axis=0)


def products(X: np.ndarray, y: np.ndarray, weight: Array, centre: Array, G: int, fourth: bool) -> Scatter:
    """Sums of complete rows, a cache-full at a time."""
    K, d = centre.shape
    B, A = (np.zeros((K, d, d)), np.zeros((K, d, d))) if fourth else (None, None)
    out, Z = Scatter(np.zeros((K, d)), np.zeros((G, d, d)), B, A), np.empty((min(ROWS, len(X)), d))
    used = np.flatnonzero((weight > 0) & (y >= 0))
    for g in range(G):
        mine = used if G == 1 else used[y[used] == g]
        for a in range(0, len(mine), ROWS):
            rows = mine[a : a + ROWS]
            z = Z[: len(rows)]
            kernels.centred_rows(X, rows, y, weight, centre, z, out.s)  # z comes times sqrt(w)
            out.S[g] += z.T @ z
            if B is not None and A is not None:
                w, z2 = weight[rows, None], z * z
                B[g] += z2.T @ (z / np.sqrt(w))
                A[g] += z2.T @ (z2 / w)
    return out


def expected_products(X: np.ndarray, y: np.ndarray, weight: Array, centre: Array, sigma: Array, fourth: bool) -> Scatter:
    """The same of rows with gaps, filled in by their expectations, under covariances sigma (G, d, d), given what is observed; S has
    also what these leave open."""
    (G, d, _), size = sigma.shape, size_of(centre)
    filled, left = X.astype(np.float64), np.zeros((G, d, d))
    used = np.flatnonzero((weight > 0) & (y >= 0) & np.isnan(X).any(axis=1))
    for gaps, members in patterns(X[used]):
        for g in range(G):
            i = used[members] if G == 1 else used[members][y[used[members]] == g]
            if len(i):
                slope, spread = regression(sigma[g], gaps, size)
                z = X[i] - centre[y[i]]
                filled[np.ix_(i, gaps)] = centre[y[i]][:, gaps] + z[:, ~gaps] @ slope.T
                left[g][np.ix_(gaps, gaps)] += weight[i].sum() * spread
    found = products(filled, y, weight, centre, G, fourth)
    return found._replace(S=found.S + left)


def move(n: Array, sums: Scatter, delta: Array) -> Scatter:
    """The same sums of z + delta_k: about centres moved by -delta_k."""
    s, S, B, A = sums
    moved = s + n[:, None] * delta
    if len(S) < len(n):
        cross = s.T @ delta
        return Scatter(moved, S + cross + cross.T + (delta * n[:, None]).T @ delta, None, None)
    # powers of a sum, multiplied out
    both = _outer(delta, delta)
    S_new = S + _outer(s, delta) + _outer(delta, s) + n[:, None, None] * both
    if B is None or A is None:
        return Scatter(moved, S_new, None, None)
    d2, mixed = delta**2, np.diagonal(S, axis1=1, axis2=2) + 2 * (delta * s)
    B_new = B + _outer(mixed + n[:, None] * d2, delta) + 2 * delta[:, :, None] * S + _outer(d2, s)
    cross = 2 * B * delta[:, None] + _outer(mixed, d2)
    A_new = A + cross + cross.transpose(0, 2, 1) + 4 * both * S + n[:, None, None] * _outer(d2, d2)
    return Scatter(moved, S_new, B_new, A_new)


def _outer(a: Array, b: Array) -> Array:
    """(K, d, d) outer products, class by class."""
    return a[:, :, None] * b[:, None]
