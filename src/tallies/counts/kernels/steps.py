# mypy: disable-error-code="no-untyped-def"
"""The loops of a step of the PLN fits, compiled; sums are in double. Symbols as in `full`; the NumPy twins are in `plain`.

What a sweep does to a row it does at once, while the row is near: these loops wait for memory, not for arithmetic.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tallies.counts.kernels.trial import solve
from tallies.kernels import JIT
from tallies.kernels.blocks import BYTES, I64, Variable, rowwise

FLUSH, SELDOM = 8, 256  # rows whose dot products, and whose sums of each column, are added in the precision of the rows


@rowwise
def direct(block, i, d, scale, of_y, of_s, slots, g, D, S, Y, reach, X, shift, c, last, v, slope):
    """A row of `plain.aim`."""
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


@rowwise
def bent(block, i, M, S2, w, X, B, c):
    """A row of `plain.bend`."""
    s = S2(i) * (1.0 - S2(i) * w()).most(0.0)  # S2^2 A
    rest = Variable(block, M(i))
    with block.each(B.size(0)) as x:
        rest.set(rest() - X.one(i, x.index) * B(x.index))
    c.put(2.0 * rest() - s / (1.0 + 0.5 * s), i)


@njit(**JIT)
def bent_rows(M, S2, w, X, B, c):
    """`bent` for every row: by itself, since most tables have no c, and then nobody waits for its compiler."""
    for i in range(len(M)):
        bent(i, M, S2, w, X, B, c)


@rowwise
def follow(block, i, M, length, d, X, B, root, M_trial, R):
    """A row of `plain.move`."""
    new = M(i) + length * d(i)
    rest = Variable(block, new)
    with block.each(B.size(0)) as c:
        rest.set(rest() - X.one(i, c.index) * B(c.index))
    M_trial.put(new, i)
    R.put(root * rest(), i)


@njit(**JIT)
def attempt_rows(
    fresh, d, scale, of_y, of_s, slots, g, D, S, Y, reach, X, along, c, last, M, S2, B, v, length,
    M_trial, R, O, counts, w_trial, S2_trial, A, close, slope, fit, total
):  # fmt: skip
    """`attempt` for every row; `last` is what belongs to c, or has no rows."""
    for i in range(len(M)):
        if fresh:
            direct(i, d, scale, of_y, of_s, slots, g, D, S, Y, reach, X, along, c, last, v[i], slope)
        follow(i, M, length, d, X, B, math.sqrt(v[i]), M_trial, R)
        solve(i, M_trial, O, counts, v[i], w_trial, S2, S2_trial, A, close, fit, total)


def attempt(
    toward, slots, g, D, S, Y, reach, X, c, along, d, M, S2, w, B, v, length, M_trial, R, O, counts, w_trial, S2_trial, A, close
):
    """A step from (M, S2) into M_trial, S2_trial, A and R; returns g'd, the fit and sum_i v_i S2_ij, see `plain.attempt`."""
    p = M.shape[1]
    slope, fit, total = np.zeros((3, p))
    scale, of_y, of_s = (0.0, np.zeros(0), np.zeros(0)) if toward is None else toward
    last = along[-1:] if len(c) else along[:0]
    if toward is not None and len(last):
        bent_rows(M, S2, w, X, B, c)
    attempt_rows(
        toward is not None, d, float(scale), of_y, of_s, slots, g, D, S, Y, reach, X, along[:-1], c, last, M, S2, B, v,
        float(length), M_trial, R, O, counts, w_trial.astype(M.dtype), S2_trial, A, close, slope, fit, total
    )  # fmt: skip
    return float(slope.sum()), float(fit.sum()), total


@rowwise
def slope(
    block, i, A, pull, X, shift, v, inverse, counts, S2, gap, omega, M_trial, M, slot, slots, g, D, S, Y, c, keep, share, T, dots,
    ZDy
):  # fmt: skip
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
    share.put(curve * v * scale, i)
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


@njit(nogil=True, inline="always")
def empty(part, whole):
    """Add to a sum in double precision, and begin again."""
    for k in range(len(part)):
        whole[k] += part[k]
        part[k] = 0


@njit(**JIT)
def slope_rows(
    pull, X, shift, root, A, counts, S2, gap, omega, M_trial, M, slot, slots, g, D, S, Y, c, keep, share, T, dots, ZDy, of_dots,
    of_columns
):  # fmt: skip
    """`slope` for every row; `dots` and `ZDy` are emptied into their sums in double precision from time to time."""
    for i in range(len(A)):
        v, inverse = root[i] * root[i], 1.0 / root[i]
        slope(
            i, A, pull, X, shift, v, inverse, counts, S2, gap, omega, M_trial, M, slot, slots, g, D, S, Y, c, keep, share, T, dots,
            ZDy
        )  # fmt: skip
        if i % FLUSH == FLUSH - 1 or i == len(A) - 1:
            empty(dots.ravel(), of_dots)
        if i % SELDOM == SELDOM - 1 or i == len(A) - 1:
            empty(ZDy.ravel(), of_columns)


def slopes(pull, X, shift, root, A, counts, S2, w, omega, moved, slot, slots, g, D, S, Y, B, c, keep, share):
    """Gradient g and preconditioner D of the free energy at (M, log w), where (pull - root X shift) / root = R Omega.

    With slot >= 0, S[slot] becomes the difference of `moved`, (M_trial, M), and Y[slot] that of the gradients, both times `keep`;
    `share` becomes the t of `guess`, that of the counts in the curvature; c, where it has rows, becomes that of `guess`. Returns
    sum_i v_i u_ij and, of the pairs in `slots`, s_k'y_slot, s_k'g, y_k'D y_l, y_k'D g and [X c]'v D y_k, the last two those of g
    and v c.
    """
    m, p, kind = len(S), A.shape[1], A.dtype
    T, ZDy = np.zeros(p), np.zeros((m + 2, X.shape[1] + 1, p), dtype=kind)
    dots = np.zeros((m + 3, m, BYTES // kind.itemsize), dtype=kind)
    of_dots, of_columns = np.zeros(dots.size), np.zeros(ZDy.size)
    vectors = shift.astype(kind), root, A, counts, S2, (w - omega).astype(kind), omega.astype(kind)
    if len(c):
        bent_rows(moved[0], S2, w, X, B, c)
    slope_rows(pull, X, *vectors, *moved, slot, slots, g, D, S, Y, c, keep, share, T, dots, ZDy, of_dots, of_columns)
    sums = of_dots.reshape(dots.shape).sum(axis=2)
    yDy = sums[3:]
    return T, sums[0], sums[1], yDy + np.triu(yDy, 1).T, sums[2], of_columns.reshape(ZDy.shape)
