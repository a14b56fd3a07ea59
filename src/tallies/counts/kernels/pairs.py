# mypy: disable-error-code="no-untyped-def"
"""The loop over pairs of columns of `tallies.counts.network.pairs`, compiled. Symbols as there."""

from __future__ import annotations

import numpy as np
from numba import njit

from tallies.kernels import JIT

MOST = 20  # steps of a correlation
REACH = 0.5  # longest of them, in artanh r
FAR = 1.47  # largest artanh r: 0.9, beyond which the grid of two cells is too coarse
STILL = 1e-4  # step that ends the search


@njit(**JIT, fastmath={"contract", "reassoc", "nsz"})
def scores(r, u, h, f, s, w, g, e, t, out):
    """Scores of every row of two columns: of r, and those of the logarithmic rate and the scale of each, eq. 3.

    u (n, K) nodes of the first column, h (n,) their distance, f (n, K) weights, s (n, 2, K) its own scores there;
    the rest of the other column.
    """
    n, K = u.shape
    m, left = K // 2, 1.0 - r * r
    b, c = r / left, 0.5 * r * r / left
    first, second, alone, other = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    for i in range(n):
        # exp(b u w) about the middle nodes: with a and k steps from there it is a power of exp(b h g)
        for a in range(K):
            alone[a] = f[i, a] * np.exp(b * u[i, a] * w[i, m] - c * u[i, a] * u[i, a])
            other[a] = e[i, a] * np.exp(b * u[i, m] * (w[i, a] - w[i, m]) - c * w[i, a] * w[i, a])
            second[a] = 0.0
        total = both = 0.0
        for a in range(K):
            rise = b * h[i] * g[i] * (a - m)
            power, factor = np.exp(-m * rise), np.exp(rise)
            here = mean = 0.0
            for k in range(K):
                x = power * other[k]
                here += x
                mean += x * w[i, k]
                second[k] += x * alone[a]
                power *= factor
            first[a] = here * alone[a]
            total += first[a]
            both += mean * alone[a] * u[i, a]
        squares = 0.0
        out[i] = 0.0
        for a in range(K):
            squares += first[a] * u[i, a] * u[i, a] + second[a] * w[i, a] * w[i, a]
            for l in range(2):
                out[i, 1 + l] += first[a] * s[i, l, a] / total
                out[i, 3 + l] += second[a] * t[i, l, a] / total
        out[i, 0] = r / left + ((1.0 + r * r) * both - r * squares) / (total * left * left)


@njit(**JIT)
def correlate(u, h, f, s, X, v, psi, R, out):
    """Correlations of all pairs (p, p), from those in R, and the influence of every row on them (pairs, n), eq. 2 and 4.

    u, h, f, s as above, of every column; psi (p, n, d + 1) is the influence of the rows on the parameters of a column.
    """
    p, n, _ = u.shape
    d = X.shape[1]
    found, mixed = np.empty((n, 5)), np.empty(2 * (d + 1))
    pair = 0
    for j in range(p):
        for k in range(j + 1, p):
            z, r, curve = np.arctanh(R[j, k]), R[j, k], 0.0
            for _ in range(MOST):
                r = np.tanh(z)
                scores(r, u[j], h[j], f[j], s[j], u[k], h[k], f[k], s[k], found)
                slope = curve = 0.0
                for i in range(n):
                    slope += v[i] * found[i, 0]
                    curve += v[i] * found[i, 0] * found[i, 0]
                step = slope / max(curve * (1.0 - r * r), 1e-12)
                if abs(step) < STILL:
                    break
                z = min(max(z + min(max(step, -REACH), REACH), -FAR), FAR)
            R[j, k] = R[k, j] = r
            mixed[:] = 0.0
            for i in range(n):
                weight = v[i] * found[i, 0]
                for l in range(d):
                    mixed[l] += weight * found[i, 1] * X[i, l]
                    mixed[d + 1 + l] += weight * found[i, 3] * X[i, l]
                mixed[d] += weight * found[i, 2]
                mixed[2 * d + 1] += weight * found[i, 4]
            for i in range(n):
                moved = v[i] * found[i, 0]
                for l in range(d + 1):
                    moved -= mixed[l] * psi[j, i, l] + mixed[d + 1 + l] * psi[k, i, l]
                out[pair, i] = moved / max(curve, 1e-12)
            pair += 1
