"""The sequential proposal of `evidence`: draw u_j given u_1 ... u_{j-1} from a piecewise linear density on a grid."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tallies.kernels import JIT

POINTS = 41
REACH = 6.0  # the grid covers +-6 standard deviations of the Gaussian that the factor tilts


@njit(**JIT)
def draw(y, rate, a, b, L, uniforms):
    """Log weights of one row: y counts, rate = exp(o + E Z), a and b as in eq. 2, L (p, p), uniforms (draws, p)."""
    n, p = uniforms.shape
    gap = 2.0 * REACH / (POINTS - 1)
    grid, grown = np.empty(POINTS), np.empty((p, POINTS))
    for g in range(POINTS):
        grid[g] = -REACH + g * gap
        for j in range(p):
            grown[j, g] = math.exp(L[j, j] * grid[g])
    u, f, total = np.empty(p), np.empty(POINTS), np.empty(POINTS)
    out = np.empty(n)
    for s in range(n):
        log_w = 0.0
        for j in range(p):
            c = 0.0
            for k in range(j):
                c += L[j, k] * u[k]
            l, r = L[j, j], rate[j] * math.exp(c)
            top = -np.inf
            for g in range(POINTS):
                d = c + l * grid[g]
                f[g] = -0.5 * grid[g] * grid[g] + (y[j] - b[j]) * d - r * grown[j, g] + 0.5 * a[j] * d * d
                top = max(top, f[g])
            total[0] = 0.0
            for g in range(POINTS):
                f[g] = math.exp(f[g] - top)
                if g > 0:
                    total[g] = total[g - 1] + 0.5 * gap * (f[g] + f[g - 1])
            aim = uniforms[s, j] * total[POINTS - 1]
            g = 1
            while g < POINTS - 1 and total[g] < aim:
                g += 1
            rest = aim - total[g - 1]
            low, slope = f[g - 1], (f[g] - f[g - 1]) / gap
            # root of low t + slope t^2/2 = rest in [0, gap], in the form that does not cancel
            t = 2.0 * rest / max(low + math.sqrt(max(low * low + 2.0 * slope * rest, 0.0)), 1e-300)
            t = min(max(t, 0.0), gap)
            u[j] = grid[g - 1] + t
            height = max((low + slope * t) / total[POINTS - 1], 1e-300)
            d = c + l * u[j]
            log_w += -0.5 * u[j] * u[j] + (y[j] - b[j]) * d - r * math.exp(l * u[j]) + 0.5 * a[j] * d * d
            log_w -= math.log(height) + 0.9189385332046727  # log sqrt(2 pi)
        out[s] = log_w
    return out
