"""The loops over counts of the PLN fits, compiled. Symbols as in `full`; the NumPy twins are in `plain`.

The compiler turns no call of exp or log into vector code, so both are written out in additions and products on a row at a time:
exp(x) = 2^k exp(r) with |r| < 0.35 and a polynomial in r; log(x) = e log 2 + log(m), a series in (m - 1)/(m + 1).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

TOP = 60.0  # largest exponent, as in `plain`
BOTTOM = -700.0  # exp(-700) = 1e-304 is the last that is not a subnormal number
LOG2_E = 1.4426950408889634
LN2_HI = 0.6931471803691238  # ln 2 in two parts, so that k ln 2 is exact
LN2_LO = 1.9082149292705877e-10
ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the lowest bits
ONE_BITS = np.int64(0x3FF0000000000000)
FRACTION = np.int64(0x000FFFFFFFFFFFFF)
HALF_ROOT = np.int64(0x0006A09E667F3BCD)  # fraction bits of sqrt 2

E3, E4, E5, E6, E7, E8, E9, E10, E11, E12 = (1.0 / math.factorial(k) for k in range(3, 13))
L3, L5, L7, L9, L11, L13, L15, L17, L19 = (1.0 / k for k in range(3, 20, 2))

_options: Any = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract"}}


@njit(**_options)
def row_exp(x, power, bits, out):
    """out = exp(x) for x in [BOTTOM, TOP], to one unit in the last place; `bits` is `power` seen as integers."""
    for j in range(len(x)):
        power[j] = x[j] * LOG2_E + ROUND
    for j in range(len(x)):
        k = power[j] - ROUND
        r = (x[j] - k * LN2_HI) - k * LN2_LO
        y = ((E12 * r + E11) * r + E10) * r + E9
        y = (((y * r + E8) * r + E7) * r + E6) * r + E5
        y = (((y * r + E4) * r + E3) * r + 0.5) * r + 1.0
        out[j] = y * r + 1.0
    for j in range(len(x)):
        bits[j] = (bits[j] << 52) + ONE_BITS
    for j in range(len(x)):
        out[j] *= power[j]


@njit(**_options)
def row_log(x, power, bits, out):
    """out = log(x) for positive normal x; `bits` is `power` seen as integers."""
    n = len(x)
    for j in range(n):
        power[j] = x[j]
    for j in range(n):
        # up: 1 where the fraction is beyond sqrt 2, so that m ends in [sqrt(1/2), sqrt(2))
        up = ((bits[j] & FRACTION) + (np.int64(0x0010000000000000) - HALF_ROOT)) >> 52
        e = (bits[j] >> 52) + up
        bits[j] = (bits[j] & FRACTION) | (ONE_BITS - (up << 52))
        out[j] = e
    for j in range(n):
        f = (power[j] - 1.0) / (power[j] + 1.0)
        z = f * f
        y = ((L19 * z + L17) * z + L15) * z + L13
        y = ((((y * z + L11) * z + L9) * z + L7) * z + L5) * z + L3
        y = y * z + 1.0
        e = out[j] - 1023.0
        out[j] = e * LN2_HI + (2.0 * f * y + e * LN2_LO)


@njit(**_options)
def trial(M, O, Y, v, w, S2, A, close):
    """Solve S2 (w + A) = 1 in place, fill A = exp(O + M + S2/2); sum v [Y(O + M) - A + log(S2)/2] and sum_i v_i S2_ij.

    A pass takes exp(S2/2) as linear and solves the quadratic equation that is left; a move below `close` ends it, with a relative
    error of close^2/8.
    """
    n, p = M.shape
    base, x, power, a, s, move = np.empty(p), np.empty(p), np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    bits = power.view(np.int64)
    fit, total = np.zeros(p), np.zeros(p)
    for i in range(n):
        for j in range(p):
            base[j] = O[i, j] + M[i, j]
            s[j] = S2[i, j]
        far = 1
        for _ in range(12):
            for j in range(p):
                x[j] = max(min(base[j] + 0.5 * s[j], TOP), BOTTOM)
            row_exp(x, power, bits, a)
            for j in range(p):
                c = w[j] + a[j] * (1.0 - 0.5 * s[j])
                x[j] = 2.0 / (c + np.sqrt(c * c + 2.0 * a[j]))
            for j in range(p):
                move[j] = x[j] - s[j]
            for j in range(p):
                s[j] = x[j]
            far = 0
            for j in range(p):
                far += abs(move[j]) >= close
            if far == 0:
                break
        if far == 0:
            for j in range(p):  # exp(move/2); the next term is below 1e-10 for close = 0.01
                h = 0.5 * move[j]
                a[j] *= 1.0 + h * (1.0 + h * (0.5 + h * (1.0 / 6.0)))
        else:
            for j in range(p):
                x[j] = max(min(base[j] + 0.5 * s[j], TOP), BOTTOM)
            row_exp(x, power, bits, a)
        row_log(s, power, bits, x)
        vi = v[i]
        for j in range(p):
            fit[j] += vi * (Y[i, j] * base[j] - a[j] + 0.5 * x[j])
        for j in range(p):
            total[j] += vi * s[j]
        for j in range(p):
            A[i, j] = a[j]
        for j in range(p):
            S2[i, j] = s[j]
    return fit.sum(), total
