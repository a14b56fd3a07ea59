"""The loops of `kernels.pln` in NumPy: used where the data are too small to be worth a compiler's wait. Same names, same results.

Symbols as in `models.pln`: M means, S2 variances, A = exp(O + M + S2/2), v row weights, w_j the scalars that stand for S2.
"""

from __future__ import annotations

import numpy as np

TOP = 60.0  # largest exponent: exp(60) = 1e26 is far beyond any count, and squares do not overflow
CLOSE = 1e-4  # a Newton move below this leaves an error of its square, 1e-8 of the variance, and the bound is flat there
BLOCK = 1 << 14  # entries worked on at once: four arrays of 128 kB stay in the second-level cache


def blocks(n: int, p: int) -> list[slice]:
    """Cut n rows of p entries into pieces of about BLOCK entries."""
    rows = max(1, BLOCK // max(p, 1))
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]


def variances(M, O, w, S2, A):
    """Solve S2 (w + exp(O + M + S2/2)) = 1 in place by Newton's method from the S2 given, and fill A to match."""
    for b in blocks(*M.shape):
        base = np.minimum(O[b] + M[b], TOP)
        s = S2[b]
        for _ in range(12):
            a = np.exp(np.minimum(base + 0.5 * s, TOP))
            rate = w + a
            new = np.clip(s - (s * rate - 1.0) / (rate + 0.5 * s * a), 0.2 * s, 1.0 / w)
            move = new - s
            s = new
            if np.abs(move).max() < CLOSE:
                break
        S2[b] = s
        A[b] = a * np.exp(0.5 * move)


def fitness(M, O, Y, v, S2, A):
    """sum_i v_i sum_j Y(O + M) - A + log(S2)/2 and sum_i v_i S2_ij."""
    total = 0.0
    for b in blocks(*M.shape):
        total += v[b] @ (Y[b] * (O[b] + M[b]) - A[b] + 0.5 * np.log(S2[b])).sum(axis=1)
    return float(total), v @ S2


def slopes(pull, A, Y, v, S2, w, omega, g, D):
    """Gradient g and preconditioner D of the free energy at (M, log w), with pull = R Omega; returns sum_i v_i u_ij."""
    T = np.zeros(A.shape[1])
    for b in blocks(*A.shape):
        a, s = A[b], S2[b]
        u = s * s / (1.0 + 0.5 * s * s * a)
        ua = 0.5 * u * a
        g[b] = v[b, None] * (pull[b] + a - Y[b] + (w - omega) * ua)
        D[b] = 1.0 / (v[b, None] * (a * (1.0 - ua) + omega))
        T += v[b] @ u
    return T
