"""Sums of products of rows about class means: what GDA tallies, and how such sums move to other means.

    z = x - c_k for a row of class k, about a centre c_k of its class
    s_k = sum w z,   S_g = sum w z z',   B_k = sum w z^2 z',   A_k = sum w z^2 (z^2)'

S is over all rows (G = 1) or over those of each class (G = K). B and A are third and fourth moments, kept for Ledoit-Wolf only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tallies.bayes.kernels import moments as kernels
from tallies.maths import Array, patterns, regression

ROWS = 2048  # rows centred at a time before their products are added: under 1 MB at 50 columns, so they stay in the cache


class Scatter(NamedTuple):
    s: Array  # (K, d)
    S: Array  # (G, d, d)
    B: Array | None  # (K, d, d)
    A: Array | None  # (K, d, d)


def size_of(mean: Array) -> Array:
    """How large the values of each column are, to tell variance from rounding."""
    return np.abs(mean).max(axis=0)


def _empty(K: int, d: int, G: int, fourth: bool) -> Scatter:
    B, A = (np.zeros((K, d, d)), np.zeros((K, d, d))) if fourth else (None, None)
    return Scatter(np.zeros((K, d)), np.zeros((G, d, d)), B, A)


def products(X: np.ndarray, y: np.ndarray, weight: Array, centre: Array, G: int, fourth: bool) -> Scatter:
    """Sums of complete rows, a cache-full at a time."""
    K, d = centre.shape
    out, Z = _empty(K, d, G, fourth), np.empty((min(ROWS, len(X)), d))
    order = np.flatnonzero((weight > 0) & (y >= 0))
    if G > 1:
        order = order[np.argsort(y[order], kind="stable")]
    ends = np.searchsorted(y[order], np.arange(K + 1)) if G > 1 else np.array([0, len(order)])
    for g in range(G):
        for a in range(ends[g], ends[g + 1], ROWS):
            rows = order[a : min(a + ROWS, ends[g + 1])]
            z = Z[: len(rows)]
            kernels.centred_rows(X, rows, y, weight, centre, z, out.s)  # z comes times sqrt(w)
            out.S[g] += z.T @ z
            if out.B is not None and out.A is not None:
                w, z2 = weight[rows, None], z * z
                out.B[g] += z2.T @ (z / np.sqrt(w))
                out.A[g] += z2.T @ (z2 / w)
    return out


def expected_products(
    X: np.ndarray, y: np.ndarray, weight: Array, centre: Array, G: int, fourth: bool, covariance: Callable[[int], Array]
) -> Scatter:
    """The same of rows with gaps, by their expectations given what is observed; B and A are those of the expected rows."""
    K, d = centre.shape
    out, size = _empty(K, d, G, fourth), size_of(centre)
    used = np.flatnonzero((weight > 0) & (y >= 0))
    for gaps, members in patterns(X[used]):
        rows = used[members]
        for g in range(G):
            i = rows if G == 1 else rows[y[rows] == g]
            if not len(i):
                continue
            z, w = X[i] - centre[y[i]], weight[i, None]
            if gaps.any():
                slope, spread = regression(covariance(g), gaps, size)
                z[:, gaps] = z[:, ~gaps] @ slope.T
                out.S[g][np.ix_(gaps, gaps)] += w.sum() * spread
            out.S[g] += (z * w).T @ z
            np.add.at(out.s, y[i], z * w)
            if out.B is not None and out.A is not None:
                out.B[g] += (z * z * w).T @ z
                out.A[g] += (z * z * w).T @ (z * z)
    return out


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
