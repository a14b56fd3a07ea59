# mypy: disable-error-code="no-untyped-def"
"""The loops of a step of the PLN fits that need no exp or log, compiled. Symbols as in `full`; the NumPy twins are in `plain`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from tallies.kernels.blocks import BYTES, I64, Variable, rowwise

_options: Any = {"nogil": True, "cache": True, "error_model": "numpy"}
FLUSH = 8  # rows whose dot products are added in the precision of the rows


@rowwise
def direct(block, i, d, scale, of_y, of_s, slots, g, D, S, Y, reach, X, shift, c, last, v, slope):
    """A row of `aim`."""
    to = Variable(block, scale * g(i))
    with block.each(slots.size(0)) as a:
        k = slots.one(a.index)
        to.set(to() + of_y.one(k) * Y(k, i))
    to.set(to() * D(i))
    with block.each(slots.size(0)) as a:
        k = slots.one(a.index)
        to.set(to() + of_s.one(k) * S(k, i))
    end = Variable(block, (0.0 - to()).least(reach).most(0.0 - reach))
    with block.each(shift.size(0)) as x:
        end.set(end() - v * X.one(i, x.index) * D(i) * shift(x.index))
    with block.each(last.size(0)) as x:
        end.set(end() - v * c(i) * D(i) * last(x.index))
    d.put(end(), i)
    slope.add(end() * g(i))


@njit(**_options)
def direct_rows(d, scale, of_y, of_s, slots, g, D, S, Y, reach, X, shift, c, last, root, slope):
    """`direct` for every row."""
    for i in range(len(d)):
        direct(i, d, scale, of_y, of_s, slots, g, D, S, Y, reach, X, shift, c, last, root[i] * root[i], slope)


def aim(scale, of_y, of_s, slots, g, D, S, Y, reach, X, c, shift, root, d):
    """Write d = -(D (scale g + sum of_y Y) + sum of_s S), clipped entry by entry to `reach`, - v D [X c] shift; return g'd.

    Where c has no rows it has no part in it.
    """
    slope = np.zeros(d.shape[1])
    last = shift[-1:] if len(c) else shift[:0]
    direct_rows(d, scale, of_y, of_s, slots, g, D, S, Y, reach, X, shift[:-1], c, last, root, slope)
    return float(slope.sum())


@rowwise
def bent(block, i, M, S2, w, X, B, c):
    """A row of `bend`."""
    s = S2(i) * (1.0 - S2(i) * w()).most(0.0)  # S2^2 A
    rest = Variable(block, M(i))
    with block.each(B.size(0)) as x:
        rest.set(rest() - X.one(i, x.index) * B(x.index))
    c.put(2.0 * rest() - s / (1.0 + 0.5 * s), i)


@njit(**_options)
def bend(M, S2, w, X, B, c):
    """Write the c of `guess`, 2 (M - X B) - u A, with the A of S2 (w + A) = 1."""
    for i in range(len(M)):
        bent(i, M, S2, w, X, B, c)


@rowwise
def follow(block, i, M, length, d, X, B, root, M_trial, R):
    """A row of `move`."""
    new = M(i) + length * d(i)
    rest = Variable(block, new)
    with block.each(B.size(0)) as c:
        rest.set(rest() - X.one(i, c.index) * B(c.index))
    M_trial.put(new, i)
    R.put(root * rest(), i)


@njit(**_options)
def move(M, length, d, X, B, root, M_trial, R):
    """Write M_trial = M + length d and its residuals R = root (M_trial - X B), root the square roots of the row weights."""
    for i in range(len(M)):
        follow(i, M, length, d, X, B, root[i], M_trial, R)


@rowwise
def slope(
    block, i, A, pull, X, shift, v, inverse, counts, S2, gap, omega, M_trial, M, slot, slots, g, D, S, Y, c, keep, T, dots, ZDy
):
    """A row of `slopes`; `dots`: s'y, s'g and y'D g of every slot, then y'D y of every two, a sum per column of a block."""
    a, s2, b = A(i), S2(i) * S2(i), block.builder
    u = s2 / (1.0 + 0.5 * s2 * a)
    T.add(v * u)
    h = 0.5 * u * a
    pulled = Variable(block, inverse * pull(i))
    with block.each(shift.size(0)) as x:
        pulled.set(pulled() - X.one(i, x.index) * shift(x.index))
    new = v * (pulled() + a - counts(i) + gap() * h)
    curve = a * (1.0 - h)
    scale = 1.0 / (v * (curve + omega()))
    is_new = b.icmp_signed(">=", slot, slot.type(0))
    latest = b.select(is_new, slot, slot.type(0))
    with block.where(is_new):
        S.put((M_trial(i) - M(i)) * keep(), slot, i)
        Y.put((new - g(i)) * keep(), slot, i)
    A.put(curve * v * scale, i)
    D.put(scale, i)
    g.put(new, i)
    follows = b.icmp_signed(">", c.size(0), I64(0))

    def project(y, k):
        """[X c]'v y into place k of ZDy."""
        with block.each(X.size(1)) as x:
            ZDy.add(v * X.one(i, x.index) * y, k, x.index)
        with block.where(follows):
            ZDy.add(v * c(i) * y, k, X.size(1))

    with block.each(slots.size(0)) as first:
        k = slots.one(first.index)
        s, y = S(k, i), scale * Y(k, i)
        dots.add(s * Y(latest, i), 0, k, column=0)
        dots.add(s * new, 1, k, column=0)
        dots.add(y * new, 2, k, column=0)
        with block.each(slots.size(0), first.index) as second:
            l = slots.one(second.index)
            dots.add(y * Y(l, i), b.add(k, k.type(3)), l, column=0)
        project(y, k)
    project(scale * new, S.size(0))
    with block.where(follows):
        project(scale * (v * c(i)), b.add(S.size(0), I64(1)))


@njit(**_options)
def slope_rows(
    pull, X, shift, root, A, counts, S2, gap, omega, M_trial, M, slot, slots, g, D, S, Y, c, keep, T, dots, ZDy, part, whole
):
    """`slope` for every row; `part` is `dots` seen as one axis, emptied into `whole` from time to time."""
    for i in range(len(A)):
        v, inverse = root[i] * root[i], 1.0 / root[i]
        slope(i, A, pull, X, shift, v, inverse, counts, S2, gap, omega, M_trial, M, slot, slots, g, D, S, Y, c, keep, T, dots, ZDy)
        if i % FLUSH == FLUSH - 1 or i == len(A) - 1:
            for k in range(len(part)):
                whole[k] += part[k]
                part[k] = 0


def slopes(pull, X, shift, root, A, counts, S2, w, omega, moved, slot, slots, g, D, S, Y, c, keep):
    """Gradient g and preconditioner D of the free energy at (M, log w), where (pull - root X shift) / root = R Omega.

    With slot >= 0, S[slot] becomes the difference of `moved`, (M_trial, M), and Y[slot] that of the gradients, both times `keep`. A
    becomes the t of `guess`, the share of the counts in the curvature; c is that of `bend`, or has no rows. Returns sum_i v_i u_ij
    and, of the pairs in `slots`, s_k'y_slot, s_k'g, y_k'D y_l, y_k'D g and [X c]'v D y_k, the last two those of g and v c.
    """
    m, p, kind = len(S), A.shape[1], A.dtype
    T, ZDy = np.zeros(p), np.zeros((m + 2, X.shape[1] + 1, p))
    dots = np.zeros((m + 3, m, BYTES // kind.itemsize), dtype=kind)
    whole = np.zeros(dots.size)
    vectors = shift.astype(kind), root, A, counts, S2, (w - omega).astype(kind), omega.astype(kind)
    slope_rows(pull, X, *vectors, *moved, slot, slots, g, D, S, Y, c, keep, T, dots, ZDy, dots.ravel(), whole)
    sums = whole.reshape(dots.shape).sum(axis=2)
    yDy = sums[3:]
    return T, sums[0], sums[1], yDy + np.triu(yDy, 1).T, sums[2], ZDy
