"""The loops of `double` in single precision, for the first steps of a fit: half the memory, twice the speed.

Written apart because the compiler would turn every product with a double constant into a double. Sums are kept in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

TOP, BOTTOM = np.float32(60.0), np.float32(-85.0)  # exp(-85) = 1e-37 is the last that is not subnormal
LOG2_E = np.float32(1.4426950408889634)
LN2_HI, LN2_LO = np.float32(0.693359375), np.float32(-2.12194440e-4)  # ln 2 in two parts, so that k ln 2 is exact
LN2 = np.float32(0.6931471805599453)
ROUND = np.float32(12582912.0)  # 1.5 * 2^23: adding it leaves the nearest integer in the lowest bits
ONE_BITS = np.int32(0x3F800000)
FRACTION = np.int32(0x007FFFFF)
ROOT_GAP = np.int32(0x00800000 - 0x003504F3)  # from the fraction bits of sqrt 2 to the next power
HALF, ONE, TWO = np.float32(0.5), np.float32(1.0), np.float32(2.0)
E2, E3, E4, E5, E6, E7 = (np.float32(1.0 / k) for k in (2, 6, 24, 120, 720, 5040))
L3, L5, L7, L9 = (np.float32(1.0 / k) for k in (3, 5, 7, 9))
BIAS = np.float32(127.0)

_options: Any = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract"}}


@njit(**_options)
def row_exp(x, power, bits, out):
    """out = exp(x) for x in [BOTTOM, TOP]; `bits` is `power` seen as integers."""
    for j in range(len(x)):
        power[j] = x[j] * LOG2_E + ROUND
    for j in range(len(x)):
        k = power[j] - ROUND
        r = (x[j] - k * LN2_HI) - k * LN2_LO
        out[j] = ((((((E7 * r + E6) * r + E5) * r + E4) * r + E3) * r + E2) * r + ONE) * r + ONE
    for j in range(len(x)):
        bits[j] = (bits[j] << np.int32(23)) + ONE_BITS
    for j in range(len(x)):
        out[j] *= power[j]


@njit(**_options)
def row_log(x, power, bits, out):
    """out = log(x) for positive normal x; `bits` is `power` seen as integers."""
    for j in range(len(x)):
        power[j] = x[j]
    for j in range(len(x)):
        up = ((bits[j] & FRACTION) + ROOT_GAP) >> np.int32(23)
        e = np.float32((bits[j] >> np.int32(23)) + up) - BIAS
        bits[j] = (bits[j] & FRACTION) | (ONE_BITS - (up << np.int32(23)))
        out[j] = e
    for j in range(len(x)):
        f = (power[j] - ONE) / (power[j] + ONE)
        z = f * f
        y = (((L9 * z + L7) * z + L5) * z + L3) * z + ONE
        out[j] = out[j] * LN2 + TWO * f * y


@njit(**_options)
def trial(M, O, Y, v, w, S2, A, close):
    """As `double.trial`."""
    n, p = M.shape
    base, x, power, a = np.empty(p, np.float32), np.empty(p, np.float32), np.empty(p, np.float32), np.empty(p, np.float32)
    s, move, w32 = np.empty(p, np.float32), np.empty(p, np.float32), w.astype(np.float32)
    bits = power.view(np.int32)
    near = np.float32(close)
    fit, total = np.zeros(p), np.zeros(p)
    for i in range(n):
        for j in range(p):
            base[j] = O[i, j] + M[i, j]
            s[j] = S2[i, j]
        for _ in range(6):
            for j in range(p):
                x[j] = max(min(base[j] + HALF * s[j], TOP), BOTTOM)
            row_exp(x, power, bits, a)
            for j in range(p):
                c = w32[j] + a[j] * (ONE - HALF * s[j])
                x[j] = TWO / (c + np.sqrt(c * c + TWO * a[j]))
            for j in range(p):
                move[j] = x[j] - s[j]
            for j in range(p):
                s[j] = x[j]
            far = np.int32(0)
            for j in range(p):
                far += np.int32(abs(move[j]) >= near)
            if far == 0:
                break
        row_log(s, power, bits, x)
        vi = np.float32(v[i])
        for j in range(p):
            h = HALF * move[j]
            a[j] *= ONE + h * (ONE + h * (HALF + h * E3))  # exp(move/2), to 1e-9 for a move of 0.01
        for j in range(p):
            x[j] = vi * (Y[i, j] * base[j] - a[j] + HALF * x[j])
        for j in range(p):
            fit[j] += x[j]
        for j in range(p):
            total[j] += vi * s[j]
        for j in range(p):
            A[i, j] = a[j]
        for j in range(p):
            S2[i, j] = s[j]
    return fit.sum(), total
