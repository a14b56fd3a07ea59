"""The loops of `kernels.pln` in NumPy: used where the data are too small to be worth a compiler's wait. Same names, same results.

Symbols as in `models.pln`: M means, S2 variances, A = exp(O + M + S2/2), v row weights, w_j the scalars that stand for S2.
"""

from __future__ import annotations

import numpy as np

TOP = 60.0  # largest exponent: exp(60) = 1e26 is far beyond any count, and squares do not overflow
BLOCK = 1 << 14  # entries worked on at once: four arrays of 128 kB stay in the second-level cache


def blocks(n: int, p: int) -> list[slice]:
    """Cut n rows of p entries into pieces of about BLOCK entries."""
    rows = max(1, BLOCK // max(p, 1))
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]


def trial(M, O, Y, v, w, S2, A, close):
    """Solve S2 (w + A) = 1 in place, fill A = exp(O + M + S2/2); sum v [Y(O + M) - A + log(S2)/2] and sum_i v_i S2_ij."""
    fit = 0.0
    for b in blocks(*M.shape):
        base, s = O[b] + M[b], S2[b]
        for _ in range(12):
            a = np.exp(np.minimum(base + 0.5 * s, TOP))
            c = w + a * (1.0 - 0.5 * s)
            new = 2.0 / (c + np.sqrt(c * c + 2.0 * a))
            move = new - s
            s = new
            if max(move.max(), -move.min()) < close:
                break
        S2[b] = s
        A[b] = a = np.exp(np.minimum(base + 0.5 * s, TOP))
        fit += v[b] @ (Y[b] * base - a + 0.5 * np.log(s)).sum(axis=1)
    return float(fit), v @ S2


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
