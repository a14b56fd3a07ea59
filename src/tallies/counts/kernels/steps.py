"""The loops of a step of the PLN fits that need no exp or log, compiled; for both precisions. Symbols as in `full`.

A loop that stores to several arrays is not turned into vector code, since the compiler would have to prove too many pairs of arrays
apart. So every loop here stores to one, on a row at a time. The NumPy twins are in `plain`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_options: Any = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract"}}


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def dot(x, y):
    """Sum of products of two rows, in any order: of all loops here only this one may change it."""
    total = x.dtype.type(0.0)
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@njit(**_options)
def aim(scale, of_y, of_s, slots, g, D, S, Y, reach, X, c, shift, root, d):
    """Write d = -(D (scale g + sum of_y Y) + sum of_s S), clipped entry by entry to `reach`, - v D [X c] shift; return g'd."""
    n, p = d.shape
    kind = d.dtype.type
    row, near, far, slope = np.empty(p, d.dtype), kind(-reach), kind(reach), 0.0
    for i in range(n):
        x = kind(-scale)
        for j in range(p):
            row[j] = x * g[i, j]
        for k in slots:
            x = kind(-of_y[k])
            for j in range(p):
                row[j] += x * Y[k, i, j]
        for j in range(p):
            row[j] *= D[i, j]
        for k in slots:
            x = kind(-of_s[k])
            for j in range(p):
                row[j] += x * S[k, i, j]
        for j in range(p):
            d[i, j] = max(min(row[j], far), near)
        if len(shift):
            v, last = kind(-root[i] * root[i]), len(shift) - 1
            for j in range(p):
                row[j] = v * c[i, j] * shift[last, j]
            for k in range(last):
                x = kind(X[i, k]) * v
                for j in range(p):
                    row[j] += x * shift[k, j]
            for j in range(p):
                d[i, j] += row[j] * D[i, j]
        for j in range(p):
            row[j] = g[i, j]
        slope += dot(row, d[i])
    return slope


@njit(**_options)
def bend(M, S2, w, X, B, c):
    """Write the c of `guess`, 2 (M - X B) - u A, with the A of S2 (w + A) = 1."""
    n, p = M.shape
    kind = M.dtype.type
    zero, half, one, two, wide = kind(0.0), kind(0.5), kind(1.0), kind(2.0), w.astype(M.dtype)
    row = np.empty(p, M.dtype)
    for i in range(n):
        for j in range(p):
            row[j] = S2[i, j] * max(one - S2[i, j] * wide[j], zero)  # S2^2 A
        for j in range(p):
            row[j] /= one + half * row[j]
        for j in range(p):
            c[i, j] = two * M[i, j] - row[j]
        for k in range(len(B)):
            x = two * kind(X[i, k])
            for j in range(p):
                c[i, j] -= x * B[k, j]


@njit(**_options)
def move(M, length, d, X, B, root, M_trial, R):
    """Write M_trial = M + length d and its residuals R = root (M_trial - X B), root the square roots of the row weights."""
    n, p = M.shape
    kind = M.dtype.type
    step = kind(length)
    for i in range(n):
        for j in range(p):
            M_trial[i, j] = M[i, j] + step * d[i, j]
        for j in range(p):
            R[i, j] = M_trial[i, j]
        for k in range(len(B)):
            x = kind(X[i, k])
            for j in range(p):
                R[i, j] -= x * B[k, j]
        if root[i] != 1.0:
            r = kind(root[i])
            for j in range(p):
                R[i, j] *= r


@njit(**_options)
def project(y, X, c, v, D, scaled, out):
    """Add X'v D y and, last, c'v D y of a row to `out`."""
    for j in range(len(y)):
        scaled[j] = D[j] * y[j] * v
    for k in range(len(X)):
        x = X[k]
        for j in range(len(y)):
            out[k, j] += x * scaled[j]
    for j in range(len(y)):
        out[len(X), j] += c[j] * scaled[j]


@njit(**_options)
def slopes(pull, X, shift, root, A, counts, S2, w, omega, moved, slot, slots, g, D, S, Y, c, keep):
    """Gradient g and preconditioner D of the free energy at (M, log w), where (pull - root X shift) / root = R Omega.

    With slot >= 0, S[slot] becomes the difference of `moved`, (M_trial, M), and Y[slot] that of the gradients. A becomes the t of
    `guess`, the share of the counts in the curvature; c is that of `bend`. Returns
    sum_i v_i u_ij and, of the pairs in `slots`, s_k'y_slot, s_k'g, y_k'D y_l, y_k'D g and [X c]'v D y_k, the last two those of g
    and v c.
    """
    n, p = A.shape
    m, d, kind = len(S), X.shape[1], A.dtype.type
    half, one = kind(0.5), kind(1.0)
    T, sy, sg, yDy, yDg = np.zeros(p), np.zeros(m), np.zeros(m), np.zeros((m, m)), np.zeros(m)
    XDy = np.zeros((m + 2, d + 1, p))
    u, h, new = np.empty(p, A.dtype), np.empty(p, A.dtype), np.empty(p, A.dtype)
    om, gap = omega.astype(A.dtype), (w - omega).astype(A.dtype)
    near, scaled = np.empty(p, D.dtype), np.empty(p, D.dtype)
    shift = shift.astype(A.dtype)
    M_trial, M = moved
    for i in range(n):
        v, r = kind(root[i] * root[i]), kind(1.0 / root[i])
        for j in range(p):
            u[j] = S2[i, j] * S2[i, j] / (one + half * S2[i, j] * S2[i, j] * A[i, j])
        for j in range(p):
            T[j] += v * u[j]
        for j in range(p):
            h[j] = half * u[j] * A[i, j]
        for j in range(p):
            new[j] = r * pull[i, j]
        for k in range(len(shift)):
            x = kind(X[i, k])
            for j in range(p):
                new[j] -= x * shift[k, j]
        for j in range(p):
            new[j] = v * (new[j] + A[i, j] - counts[i, j] + gap[j] * h[j])
        for j in range(p):
            D[i, j] = one / (v * (A[i, j] * (one - h[j]) + om[j]))
        for j in range(p):
            A[i, j] *= (one - h[j]) * v * D[i, j]
        if slot >= 0:
            for j in range(p):
                S[slot, i, j] = (M_trial[i, j] - M[i, j]) * keep[j]
            for j in range(p):
                Y[slot, i, j] = (new[j] - g[i, j]) * keep[j]
        for j in range(p):
            g[i, j] = new[j]
        for j in range(p):
            near[j] = new[j]
        for a in range(len(slots)):
            k = slots[a]
            for j in range(p):
                scaled[j] = D[i, j] * Y[k, i, j]
            sy[k] += dot(S[k, i], Y[slot, i])
            sg[k] += dot(S[k, i], near)
            yDg[k] += dot(scaled, near)
            for b in range(a, len(slots)):
                yDy[k, slots[b]] += dot(scaled, Y[slots[b], i])
            project(Y[k, i], X[i], c[i], v, D[i], scaled, XDy[k])
        project(near, X[i], c[i], v, D[i], scaled, XDy[m])
        for j in range(p):
            near[j] = v * c[i, j]
        project(near, X[i], c[i], v, D[i], scaled, XDy[m + 1])
    for k in range(m):
        for l in range(k):
            total = yDy[k, l] + yDy[l, k]  # each pair of slots was added at one of the two places
            yDy[k, l] = total
            yDy[l, k] = total
    return T, sy, sg, yDy, yDg, XDy
