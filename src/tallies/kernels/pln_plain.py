"""The loops of `kernels.pln` in NumPy: used where the data are too small to be worth a compiler's wait. Same names, same results.

Symbols as in `models.pln`: M means, S2 variances, A = exp(O + M + S2/2), v row weights, w_j the scalars that stand for S2.
"""

from __future__ import annotations

import numpy as np

TOP = 60.0  # largest exponent: exp(60) = 1e26 is far beyond any count, and squares do not overflow
BLOCK = 1 << 14  # entries worked on at once: four arrays of 128 kB stay in the second-level cache


def blocks(n: int, p: int, size: int = BLOCK) -> list[slice]:
    """Cut n rows of p entries into pieces of about `size` entries."""
    rows = max(1, size // max(p, 1))
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]


def trial(M, O, Y, v, w, S2, A, close):
    """Solve S2 (w + A) = 1 in place, fill A = exp(O + M + S2/2); sum v [Y(O + M) - A + log(S2)/2] and sum_i v_i S2_ij."""
    fit = 0.0
    for b in blocks(*M.shape):
        s, base = S2[b], O[b] + M[b]
        c, root = np.empty_like(base), np.empty_like(base)
        a = A[b]
        for k in range(13):
            np.multiply(s, 0.5, out=a)
            np.minimum(np.add(a, base, out=a), TOP, out=a)
            np.exp(a, out=a)
            if k == 12:
                break
            np.multiply(s, -0.5, out=c)
            c += 1.0
            c *= a
            c += w
            np.multiply(c, c, out=root)
            root += a
            root += a
            c += np.sqrt(root, out=root)
            np.divide(2.0, c, out=c)  # the new S2
            np.subtract(c, s, out=root)
            s[...] = c
            if max(root.max(), -root.min()) < close:
                root *= 0.5
                a *= np.exp(root, out=root)
                break
        np.log(s, out=root)
        root *= 0.5
        root -= a
        base *= Y[b]
        root += base
        fit += v[b] @ root.sum(axis=1)
    return float(fit), v @ S2


def slopes(pull, A, Y, v, S2, w, omega, g, D):
    """Gradient g and preconditioner D of the free energy at (M, log w), with pull = R Omega; returns sum_i v_i u_ij."""
    T = np.zeros(A.shape[1])
    for b in blocks(*A.shape):
        a, s, out = A[b], S2[b], g[b]
        s2 = s * s
        u = s2 * a
        u *= 0.5
        u += 1.0
        np.divide(s2, u, out=u)
        T += v[b] @ u
        u *= a
        u *= 0.5
        np.multiply(u, w - omega, out=out)
        out += a
        out -= Y[b]
        out += pull[b]
        out *= v[b, None]
        np.subtract(1.0, u, out=u)
        u *= a
        u += omega
        u *= v[b, None]
        np.divide(1.0, u, out=D[b], casting="same_kind")
    return T
