"""Inner products of rows over all products of degree k of their variables, for the kernel form of FEM (`dual`).

    1.  K_ij = sum over k of C(matches of i and j, k)
    2.  [s = t] = 1/m + c_s'c_t,  c_s the m - 1 coordinates of state s in an orthonormal basis of the contrasts of m states, so that
        K = F F',  with a column of F for every product of contrasts of a group of variables A, times the root of c_A of `fem`:
        the sum over the groups of k variables that contain A, of the product of 1/m over the others of the group
F has r columns: one constant, all main effects and interactions. Where r is well below the number of rows, everything is done
with F: a product takes r instead of l numbers of a row, and a matrix to be inverted has r columns instead of l.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tallies.categories.kernels.fem import thin_product
from tallies.categories.terms import Layout, feature_total
from tallies.maths import Array

SLENDER = 3  # times as many rows as columns F has: it is in double precision, and K leaves out rows that are nearly certain
AT_ONCE = 128  # rows of K that are made
COMPILED = 1000  # rows from which products with few columns are a loop of ours: of fewer it saves less than the compiler takes
EXACT = 1 << 24  # whole numbers up to which single precision has
WIDE = 2048  # one-hot columns at a time
SINGLE, DOUBLE = 1e-6, 1e-14  # of the trace of a matrix: the least eigenvalue that each precision tells from 0
BESIDE = 3e-5  # of K_ii: under a weaker ridge rows beside A weigh too much for single precision


# of gradients g (l, o, m) of some outputs, those that are on: (v K + ridge)^-1 g, for v (l, o) the curvature of each row
Inverse = Callable[[Array, np.ndarray], Array]


class Full(NamedTuple):
    """K itself."""

    K: np.ndarray  # (l, l)  in single precision where that is exact

    @property
    def diagonal(self) -> np.ndarray:
        return self.K.diagonal()

    def times(self, a: Array) -> Array:
        """K a of (l, o, m), in double precision."""
        return _thin(self.K, a.reshape(len(a), -1)).reshape(a.shape)

    def among(self, A: np.ndarray, dtype: Any) -> np.ndarray:
        """K of some rows."""
        return self.K.take(A, axis=0).take(A, axis=1).astype(dtype, copy=False)  # in a third of the time of np.ix_

    def inverse(self, v: Array, ridge: float) -> Inverse:
        """Of each output."""
        return _inverse_by_rows(self, v, ridge)


class Factored(NamedTuple):
    """K by eq. 2."""

    F: Array  # (r, l)  of eq. 2, transposed

    @property
    def diagonal(self) -> np.ndarray:
        """The same for all rows: each agrees with itself in every variable."""
        return np.full(self.F.shape[1], self.F[:, 0] @ self.F[:, 0])

    def times(self, a: Array) -> Array:
        """K a of (l, o, m)."""
        return self._spread(_thin(self.F, a.reshape(len(a), -1))).reshape(a.shape)

    def among(self, A: np.ndarray, dtype: Any) -> np.ndarray:
        """K of some rows."""
        some = self.F.take(A, axis=1).astype(dtype, copy=False)
        return some.T @ some

    def _spread(self, u: Array) -> Array:
        """F u of (r, q)."""
        return (u.T @ self.F).T

    def inverse(self, v: Array, ridge: float) -> Inverse:
        """Of each output (g - v F u) / ridge with (F'v F + ridge) u = F'g, in double precision; rows that are told nearly for
        certain have no v. Where those that have it are fewer than the columns of F, they make the smaller matrix."""
        v = np.where(v * self.diagonal[:, None] > ridge, v, 0.0)
        if np.count_nonzero(v, axis=0).max() < len(self.F):
            return _inverse_by_rows(self, v, ridge)
        factors = [self._part(v_o, ridge) for v_o in v.T]

        def solve(g: Array, on: np.ndarray) -> Array:
            u = _thin(self.F, g.reshape(len(g), -1)).reshape(len(self.F), *g.shape[1:])
            for o in np.flatnonzero(on):
                u[:, o] = cho_solve(factors[o], u[:, o], check_finite=False)
            return (g - v[:, :, None] * self._spread(u.reshape(len(u), -1)).reshape(g.shape)) / ridge

        return solve

    def _part(self, v: Array, ridge: float) -> tuple[np.ndarray, bool]:
        """The factor of F'v F + ridge, of one output."""
        A = np.flatnonzero(v)
        root = self.F.take(A, axis=1)
        root *= np.sqrt(v[A])
        inner = root @ root.T
        inner[np.diag_indices_from(inner)] += max(ridge, DOUBLE * np.trace(inner))
        return cho_factor(inner.T, lower=True, overwrite_a=True, check_finite=False)


def _inverse_by_rows(K: Full | Factored, v: Array, ridge: float) -> Inverse:
    """Of each output s (s K s + ridge)^-1 (g / s) with s = sqrt(v).

    Rows that are told nearly for certain have no curvature to speak of, v_i K_ii below ridge: for them it is g_i / ridge, and
    the matrix to factor is that of the others alone, A.
    """
    parts = [_part_by_rows(K, v_o, ridge) for v_o in v.T]

    def solve(g: Array, on: np.ndarray) -> Array:
        z = g / ridge
        for (A, _), z_o in zip(parts, z.swapaxes(0, 1), strict=True):
            z_o[A] = 0.0
        beside = K.times(z) if z.any() else z  # at W = 0 nothing is left beside A
        for o in np.flatnonzero(on):
            A, inner = parts[o]
            z[A, o] = inner(g[A, o] - v[A, o, None] * beside[A, o])
        return z

    return solve


def _part_by_rows(K: Full | Factored, v: Array, ridge: float) -> tuple[np.ndarray, Callable[[Array], Array]]:
    """A and the inverse there, of one output."""
    diagonal = K.diagonal
    curved = v * diagonal
    A = np.flatnonzero(curved > ridge)
    least = max(SINGLE * curved[A].sum(), BESIDE * diagonal.max())
    dtype: Any = np.float32 if least <= ridge else np.float64
    s = np.sqrt(v[A])[:, None].astype(dtype)
    inner: Any = K.among(A, dtype)
    inner *= s
    inner *= s.T
    inner[np.diag_indices_from(inner)] += max(ridge, DOUBLE * curved[A].sum())
    L = cho_factor(inner.T, lower=True, overwrite_a=True, check_finite=False)  # columns contiguous: no copy
    return A, lambda g: s * cho_solve(L, (g / s).astype(dtype), check_finite=False)


def _thin(A: np.ndarray, B: Array) -> Array:
    """A B in double precision, for B of a few columns, (l, q)."""
    if len(B) < COMPILED or len(A) < 4:
        return A.astype(np.float64, copy=False) @ B
    q = B.shape[1]
    turned = np.zeros((q + q % 2, len(B)))
    turned[:q] = B.T
    thin_product(A, turned, out := np.empty((len(A), len(turned))))
    return out[:, :q]


def rank_of(layout: Layout) -> float:
    """r, the columns of F."""
    return feature_total(np.array(layout.sizes) - 1, tuple(range(max(layout.degrees) + 1)))


def factors(l: int, layout: Layout) -> bool:
    """Whether F of l rows is cheaper than K."""
    return SLENDER * rank_of(layout) < l


def row_products(codes: np.ndarray, layout: Layout) -> Full | Factored:
    """K of these rows, by the way that takes less; a variable without a state, coded -1, agrees with none."""
    if codes.min(initial=0) >= 0 and factors(len(codes), layout):
        return Factored(_factor(codes, layout))
    l = len(codes)
    table = np.array([float(sum(math.comb(agree, k) for k in layout.degrees)) for agree in range(codes.shape[1] + 1)])
    K = np.zeros((l, l), np.float32 if table.max() < EXACT else np.float64)  # fresh memory is dear: no other of this size
    some = [slice(a, a + AT_ONCE) for a in range(0, l, AT_ONCE)]
    for part in np.array_split(np.arange(codes.shape[1]), 1 + sum(layout.sizes) // WIDE):
        states = (codes[:, part, None] == np.arange(max(layout.sizes))).reshape(l, -1)
        X = states[:, states.any(axis=0)].astype(np.float32)
        for rows in some:
            K[rows] += X[rows] @ X.T
    table = table.astype(K.dtype)
    for rows in some:
        np.take(table, K[rows].astype(np.intp), out=K[rows], mode="clip")  # which looks at no bounds first
    return Full(K)


def _factor(codes: np.ndarray, layout: Layout) -> Array:
    """(r, l)  F of eq. 2, transposed."""
    n, sizes, l = len(layout.sizes), layout.sizes, len(codes)
    contrasts = [_contrasts(m).T[:, codes[:, j]] for j, m in enumerate(sizes)]
    F = np.ones((int(rank_of(layout)), l))
    blocks: dict[tuple[int, ...], Array] = {(): F[:1]}
    end = 1
    for size in range(1, max(layout.degrees) + 1):
        for group in combinations(range(n), size):
            *others, last = group
            before = blocks[tuple(others)]
            begin, end = end, end + len(before) * (sizes[last] - 1)
            blocks[group] = F[begin:end]
            np.multiply(before[:, None], contrasts[last], out=blocks[group].reshape(len(before), sizes[last] - 1, l))
    shares: dict[tuple[int, ...], float] = {}  # of groups of the same sizes
    for group, block in blocks.items():
        shape = tuple(sorted(sizes[j] for j in group))
        if shape not in shares:
            outside = 1.0 / np.delete(sizes, group)
            shares[shape] = feature_total(outside, [k - len(group) for k in layout.degrees if k >= len(group)])
        block *= shares[shape] ** 0.5
    return F


def _contrasts(m: int) -> Array:
    """(m, m - 1)  orthonormal columns, each of which sums to 0."""
    return np.linalg.qr(np.column_stack([np.ones(m), np.eye(m)[:, : m - 1]]))[0][:, 1:]
