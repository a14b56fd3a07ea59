"""The loops over counts of the PLN fits, compiled, for both precisions. Symbols as in `full`; the NumPy twin is in `plain`.

The compiler turns no call of exp or log into vector code, so both are written out in additions and products on a row at a time:
exp(x) = 2^k exp(r) with |r| < 0.35 and a polynomial in r; log(x) = e log 2 + log(m), a series in (m - 1)/(m + 1). Constants come
with the precision, since the compiler would turn every product with a double constant into a double; sums are always in double.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tallies.counts.kernels.plain import TOP


class Precision(NamedTuple):
    """Constants of a floating type."""

    exp: Any  # 1/k! from the highest power on, to 1/1! and 1/0!
    log: Any  # 1/k of odd k, from the highest on to 1/1
    high: Any  # ln 2 in two parts, so that k ln 2 is exact
    low: Any
    rate: Any  # 1 / ln 2
    round: Any  # 1.5 * 2^bits: adding it leaves the nearest integer in the lowest bits
    bias: Any  # of the exponent
    bottom: Any  # exp of it is the last that is not a subnormal number
    whole: Any  # an array of integers as wide


def _precision(kind: Any, terms: int, odd: int, high: float, low: float, bias: int, bottom: float, whole: Any) -> Precision:
    exp, log = tuple(kind(1 / math.factorial(k)) for k in range(terms, -1, -1)), tuple(kind(1 / k) for k in range(odd, 0, -2))
    numbers = (high, low, 1 / math.log(2), 1.5 * 2.0 ** np.finfo(kind).nmant, bias, bottom)
    return Precision._make([exp, log, *map(kind, numbers), np.zeros(0, whole)])


DOUBLE = _precision(np.float64, 12, 19, 0.6931471803691238, 1.9082149292705877e-10, 1023, -700.0, np.int64)  # exp(-700) = 1e-304
SINGLE = _precision(np.float32, 7, 9, 0.693359375, -2.12194440e-4, 127, -85.0, np.int32)  # exp(-85) = 1e-37
# bits of the fraction, of 1.0, and from the fraction of sqrt 2 to the next power; the compiler must know them to stay in few bits
BITS_8, BITS_4 = (52, 0x3FF0000000000000, 0x0010000000000000 - 0x0006A09E667F3BCD), (23, 0x3F800000, 0x00800000 - 0x003504F3)

_options: Any = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract"}}


@njit(**_options)
def row_exp(x, power, bits, c, out):
    """out = exp(x) for x in [bottom, top], to a unit in the last place; `bits` is `power` seen as integers."""
    shift, one, _ = BITS_8 if np.finfo(x.dtype).bits == 64 else BITS_4
    for j in range(len(x)):
        power[j] = x[j] * c.rate + c.round
    for j in range(len(x)):
        k = power[j] - c.round
        r = (x[j] - k * c.high) - k * c.low
        y = c.exp[0]
        for term in c.exp[1:]:
            y = y * r + term
        out[j] = y
    for j in range(len(x)):
        bits[j] = (bits[j] << shift) + one
    for j in range(len(x)):
        out[j] *= power[j]


@njit(**_options)
def row_log(x, power, bits, c, out):
    """out = log(x) for positive normal x; `bits` is `power` seen as integers."""
    shift, one, gap = BITS_8 if np.finfo(x.dtype).bits == 64 else BITS_4
    fraction, unit, two = (1 << shift) - 1, c.log[-1], c.log[-1] + c.log[-1]
    for j in range(len(x)):
        power[j] = x[j]
    for j in range(len(x)):
        # up: 1 where the fraction is beyond sqrt 2, so that m ends in [sqrt(1/2), sqrt(2))
        up = ((bits[j] & fraction) + gap) >> shift
        e = x.dtype.type((bits[j] >> shift) + up)
        bits[j] = (bits[j] & fraction) | (one - (up << shift))
        out[j] = e - c.bias
    for j in range(len(x)):
        f = (power[j] - unit) / (power[j] + unit)
        z = f * f
        y = c.log[0]
        for term in c.log[1:]:
            y = y * z + term
        out[j] = out[j] * c.high + (two * f * y + out[j] * c.low)


@njit(**_options)
def trial(c, M, O, Y, v, w, S2, A, close):
    """Solve S2 (w + A) = 1 in place, fill A = exp(O + M + S2/2); sum v [Y(O + M) - A + log(S2)/2] and sum_i v_i S2_ij.

    A pass takes exp(S2/2) as linear and solves the quadratic equation that is left; a move below `close` ends it, with a relative
    error of close^2/8. `c` are the constants of the precision.
    """
    n, p = M.shape
    kind = M.dtype.type
    base, x, power, a = np.empty(p, M.dtype), np.empty(p, M.dtype), np.empty(p, M.dtype), np.empty(p, M.dtype)
    s, move, wide = np.empty(p, M.dtype), np.empty(p, M.dtype), w.astype(M.dtype)
    whole, bits = c.whole.dtype.type, power.view(c.whole.dtype)
    near, top, half, one, two, sixth = kind(close), kind(TOP), kind(0.5), kind(1.0), kind(2.0), kind(1.0 / 6.0)
    fit, total = np.zeros(p), np.zeros(p)
    for i in range(n):
        for j in range(p):
            base[j] = O[i, j] + M[i, j]
            s[j] = S2[i, j]
        far = whole(1)
        for _ in range(12):
            for j in range(p):
                x[j] = max(min(base[j] + half * s[j], top), c.bottom)
            row_exp(x, power, bits, c, a)
            for j in range(p):
                b = wide[j] + a[j] * (one - half * s[j])
                x[j] = two / (b + np.sqrt(b * b + two * a[j]))
            for j in range(p):
                move[j] = x[j] - s[j]
            for j in range(p):
                s[j] = x[j]
            far = whole(0)
            for j in range(p):
                far += whole(abs(move[j]) >= near)
            if far == 0:
                break
        if far == 0:
            for j in range(p):  # exp(move/2); the next term is below 1e-10 for close = 0.01
                h = half * move[j]
                a[j] *= one + h * (one + h * (half + h * sixth))
        else:
            for j in range(p):
                x[j] = max(min(base[j] + half * s[j], top), c.bottom)
            row_exp(x, power, bits, c, a)
        row_log(s, power, bits, c, x)
        vi = kind(v[i])
        for j in range(p):
            x[j] = vi * (Y[i, j] * base[j] - a[j] + half * x[j])
        for j in range(p):
            fit[j] += x[j]
        for j in range(p):
            total[j] += vi * s[j]
        for j in range(p):
            A[i, j] = a[j]
        for j in range(p):
            S2[i, j] = s[j]
    return fit.sum(), total
