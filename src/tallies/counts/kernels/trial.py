# mypy: disable-error-code="no-untyped-def"
"""The row of a trial that needs exp and log, as compiled code. Symbols as in `full`; the NumPy twin is in `plain`."""

from __future__ import annotations

from tallies.counts.kernels.plain import TOP
from tallies.kernels.blocks import Variable, rowwise

PASSES = 12
BOTTOM = {"float": -85.0, "double": -700.0}  # exp of it is about the last that is not a subnormal number


@rowwise
def solve(block, i, M, O, Y, v, w, before, S2, A, near, fit, total):
    """A row of `plain.trial`, from the variances `before`; the relative error of A is near^2/8.

    A pass takes exp(S2/2) as linear and solves the quadratic equation that is left; moves below `near` end it.
    """
    base = O(i) + M(i)
    s, a = Variable(block, before(i)), Variable(block, base)
    with block.each(PASSES + 1) as turn:
        a.set((base + 0.5 * s()).least(TOP).most(BOTTOM[str(block.kind)]).exp())
        with block.where(block.builder.icmp_signed("==", turn.index, turn.index.type(PASSES))):
            turn.do_break()
        b = w() + a() * (1.0 - 0.5 * s())
        new = 2.0 / (b + (b * b + 2.0 * a()).call("sqrt"))
        move = new - s()
        s.set(new)
        with block.where(block.builder.not_(block.any_beyond(move, near))):
            h = 0.5 * move  # exp(h); the next term is below 1e-10 for moves of 0.01
            a.set(a() * (1.0 + h * (1.0 + h * (0.5 + h * (1.0 / 6.0)))))
            turn.do_break()
    S2.put(s(), i)
    A.put(a(), i)
    fit.add(v * (Y(i) * base - a() + 0.5 * s().log()))
    total.add(v * s())
