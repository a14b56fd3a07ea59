# mypy: disable-error-code="no-untyped-def,import-untyped"
"""A row of an array, some columns at a time: what is written once with operators becomes vector code and the code of the rest.

A loop over several arrays takes a compiler seconds: it has to prove them apart, and writes it out five times. Here the function
says itself which columns it takes at once (64 bytes of them), so it compiles in a fraction of the time, and what lies between input
and output stays in registers. Products and sums may be contracted to one rounding, as with fastmath={"contract"}.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

BYTES = 64  # of a block: 16 numbers in single precision, 8 in double
I64 = ir.IntType(64)
# terms of exp, last odd term of log, ln 2 in two parts, so that k ln 2 is exact; bits of the fraction, of 1.0, of the one of sqrt 2
CONSTANTS = {
    "double": (12, 19, 0.6931471803691238, 1.9082149292705877e-10, 52, 0x3FF0000000000000, 0x0006A09E667F3BCD),
    "float": (7, 9, 0.693359375, -2.12194440e-4, 23, 0x3F800000, 0x003504F3),
}


class Numbers:
    """One number in every column of a block."""

    def __init__(self, block: Block, value: Any):
        self.block, self.value = block, value

    def _with(self, name: str, other: Any, swap: bool = False) -> Numbers:
        pair = self.value, self.block.number(other).value
        return Numbers(self.block, getattr(self.block.builder, name)(*(pair[::-1] if swap else pair), flags=("contract",)))

    def __add__(self, other):
        return self._with("fadd", other)

    def __sub__(self, other):
        return self._with("fsub", other)

    def __rsub__(self, other):
        return self._with("fsub", other, swap=True)

    def __mul__(self, other):
        return self._with("fmul", other)

    def __truediv__(self, other):
        return self._with("fdiv", other)

    def __rtruediv__(self, other):
        return self._with("fdiv", other, swap=True)

    __radd__, __rmul__ = __add__, __mul__

    def least(self, other: Any, which: str = "<") -> Numbers:
        """The smaller of two."""
        other = self.block.number(other)
        smaller = self.block.builder.fcmp_ordered(which, self.value, other.value)
        return Numbers(self.block, self.block.builder.select(smaller, self.value, other.value))

    def most(self, other: Any) -> Numbers:
        """The larger of two."""
        return self.least(other, ">")

    def call(self, name: str) -> Numbers:
        """A function that every machine has: sqrt, fabs."""
        block = self.block
        suffix = {"float": "f32", "double": "f64"}[str(block.kind)]
        full = f"llvm.{name}.{suffix if block.width == 1 else f'v{block.width}{suffix}'}"
        takes = ir.FunctionType(self.value.type, [self.value.type])
        return Numbers(block, block.builder.call(cgutils.get_or_insert_function(block.builder.module, takes, full), [self.value]))

    def bits(self) -> Any:
        """The same bits, as integers as wide."""
        return self.block.builder.bitcast(self.value, self.block.spread_type(self.block.whole))

    def exp(self) -> Numbers:
        """exp(x) = 2^k exp(r) with |r| < 0.35 and a polynomial in r, to a unit in the last place; no subnormal numbers."""
        block, b = self.block, self.block.builder
        terms, _, high, low, shift, one, _ = CONSTANTS[str(block.kind)]
        magic = 1.5 * 2.0**shift  # adding it leaves the nearest integer in the lowest bits
        power = self * (1 / math.log(2)) + magic
        k = power - magic
        r = (self - k * high) - k * low
        y = block.number(1 / math.factorial(terms))
        for n in range(terms - 1, -1, -1):
            y = y * r + 1 / math.factorial(n)
        return y * block.of_bits(b.add(b.shl(power.bits(), block.integer(shift)), block.integer(one)))

    def log(self) -> Numbers:
        """log(x) = e log 2 + log(m), a series in (m - 1)/(m + 1) for m in [sqrt(1/2), sqrt(2)); x must be positive and normal."""
        block, b = self.block, self.block.builder
        _, odd, high, low, shift, one, root = CONSTANTS[str(block.kind)]
        at, bits = block.integer(shift), self.bits()
        fraction = b.and_(bits, block.integer((1 << shift) - 1))
        up = b.lshr(b.add(fraction, block.integer((1 << shift) - root)), at)  # 1 where the fraction is beyond sqrt 2
        e = Numbers(block, b.sitofp(b.add(b.lshr(bits, at), up), self.value.type)) - (one >> shift)
        m = block.of_bits(b.or_(fraction, b.sub(block.integer(one), b.shl(up, at))))
        f = (m - 1.0) / (m + 1.0)
        z, y = f * f, block.number(1 / odd)
        for n in range(odd - 2, 0, -2):
            y = y * z + 1 / n
        return e * high + (2.0 * f * y + e * low)


class Variable:
    """Numbers that change inside a loop."""

    def __init__(self, block: Block, value: Numbers):
        self.block, self.place = block, cgutils.alloca_once(block.builder, value.value.type)
        self.set(value)

    def set(self, value: Numbers) -> None:
        self.block.builder.store(value.value, self.place)

    def __call__(self) -> Numbers:
        return Numbers(self.block, self.block.builder.load(self.place))


class Array:
    """An array argument. Calls give its numbers in the columns of the block, for given leading indices."""

    def __init__(self, block: Block, type: Any, value: Any):
        self.block, self.type = block, type
        self.found = cgutils.create_struct_proxy(type)(block.context, block.builder, value)
        self.element = block.context.get_data_type(type.dtype)

    def _pointer(self, at: tuple[Any, ...], wide: bool) -> Any:
        block, b = self.block, self.block.builder
        places = [I64(k) if isinstance(k, int) else k for k in at]
        pointer = cgutils.get_item_pointer(block.context, b, self.type, self.found, places, wraparound=False)
        return b.bitcast(pointer, block.spread_type(self.element).as_pointer()) if wide else pointer

    def _load(self, pointer: Any) -> Any:
        return self.block.builder.load(pointer, align=self.type.dtype.bitwidth // 8)

    def _store(self, value: Any, pointer: Any) -> None:
        self.block.builder.store(value, pointer, align=self.type.dtype.bitwidth // 8)

    def __call__(self, *at: Any) -> Numbers:
        found = self._load(self._pointer((*at, self.block.column), wide=True))
        return Numbers(self.block, self.block.cast(found, self.element, self.block.kind))

    def put(self, value: Numbers, *at: Any) -> None:
        """Write, in the precision of the array."""
        self._store(self.block.cast(value.value, self.block.kind, self.element), self._pointer((*at, self.block.column), wide=True))

    def add(self, value: Numbers, *at: Any, column: Any = None) -> None:
        """Add, in the precision of the array; with a column, always there."""
        there = self._pointer((*at, self.block.column if column is None else column), wide=True)
        new = self.block.cast(value.value, self.block.kind, self.element)
        self._store(self.block.builder.fadd(self._load(there), new), there)

    def one(self, *at: Any) -> Any:
        """A single element: an integer, or the number in all columns."""
        value = self._load(self._pointer(at, wide=False))
        return value if isinstance(self.type.dtype, types.Integer) else self.block.spread(value)

    def size(self, axis: int) -> Any:
        return cgutils.unpack_tuple(self.block.builder, self.found.shape)[axis]


class Block:
    """Some columns of a row, from `column` on: where code is written for them."""

    def __init__(self, context: Any, builder: Any, kind: Any, width: int, column: Any):
        self.context, self.builder, self.kind, self.width, self.column = context, builder, kind, width, column
        self.whole = ir.IntType(32 if str(kind) == "float" else 64)

    def spread_type(self, element: Any) -> Any:
        return element if self.width == 1 else ir.VectorType(element, self.width)

    def integer(self, value: int) -> Any:
        return ir.Constant(self.spread_type(self.whole), value if self.width == 1 else [value] * self.width)

    def cast(self, value: Any, before: Any, after: Any) -> Any:
        """From one precision to another."""
        if before == after:
            return value
        change = self.builder.fpext if str(after) == "double" else self.builder.fptrunc
        return change(value, self.spread_type(after) if isinstance(value.type, ir.VectorType) else after)

    def of_bits(self, value: Any) -> Numbers:
        return Numbers(self, self.builder.bitcast(value, self.spread_type(self.kind)))

    def number(self, value: Any) -> Numbers:
        if isinstance(value, Variable):
            return value()
        if isinstance(value, Numbers):
            return value
        return Numbers(self, ir.Constant(self.spread_type(self.kind), value if self.width == 1 else [float(value)] * self.width))

    def spread(self, value: Any) -> Numbers:
        """One number in every column."""
        value = self.cast(value, value.type, self.kind)
        if self.width > 1:
            vector, lanes = ir.VectorType(self.kind, self.width), ir.VectorType(ir.IntType(32), self.width)
            first = self.builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
            value = self.builder.shuffle_vector(first, first, ir.Constant(lanes, [0] * self.width))
        return Numbers(self, value)

    def each(self, count: Any, start: Any = None) -> Any:
        """A loop of the compiled code, see `numba.core.cgutils.for_range`."""
        return cgutils.for_range(self.builder, I64(count) if isinstance(count, int) else count, start)

    def any_beyond(self, value: Numbers, bound: Numbers) -> Any:
        """Whether the size of any is at least the bound."""
        flags = self.builder.fcmp_ordered(">=", value.call("fabs").value, bound.value)
        if self.width == 1:
            return flags
        bits = ir.IntType(self.width)
        return self.builder.icmp_unsigned("!=", self.builder.bitcast(flags, bits), bits(0))

    def where(self, is_so: Any) -> Any:
        """A branch of the compiled code."""
        return self.builder.if_then(is_so)


def _write(write: Any, context: Any, builder: Any, kinds: Any, values: Any, width: int, column: Any) -> None:
    """The code of one block."""
    first = next(type for type in kinds if isinstance(type, types.Array))
    block = Block(context, builder, context.get_data_type(first.dtype), width, column)

    def argument(type: Any, value: Any) -> Any:
        if isinstance(type, types.Array):
            return Array(block, type, value)
        return block.spread(value) if isinstance(type, types.Float) else value

    write(block, *map(argument, kinds, values))


def rowwise(write: Any) -> Any:
    """Make an intrinsic of a function that writes the code of a block: it runs over all blocks of a row, then column by column.

    The first array gives the precision and, along its last axis, the number of columns.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = signature.args
        place = next(n for n, type in enumerate(kinds) if isinstance(type, types.Array))
        shape = cgutils.create_struct_proxy(kinds[place])(context, builder, values[place]).shape
        columns = cgutils.unpack_tuple(builder, shape)[-1]
        width = I64(BYTES * 8 // kinds[place].dtype.bitwidth)
        blocks = builder.udiv(columns, width)
        with cgutils.for_range(builder, blocks) as loop:
            _write(write, context, builder, kinds, values, width.constant, builder.mul(loop.index, width))
        with cgutils.for_range(builder, columns, builder.mul(blocks, width)) as loop:
            _write(write, context, builder, kinds, values, 1, loop.index)
        return context.get_dummy_value()

    def typing(context: Any, *arguments: Any) -> Any:
        kinds = [types.intp if isinstance(type, types.Integer) else type for type in arguments]
        if any(isinstance(type, types.Array) and type.layout != "C" for type in kinds):
            raise TypingError(f"{write.__name__} reads neighbours at once: all its arrays must be C-contiguous, got {kinds}")
        return types.void(*kinds), code

    typing.__name__, typing.__doc__ = write.__name__, write.__doc__
    typing.__wrapped__ = write  # type: ignore[attr-defined]  # where numba finds how many arguments there are
    return intrinsic(typing)
