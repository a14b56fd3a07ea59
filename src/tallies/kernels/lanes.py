# mypy: disable-error-code="no-untyped-def,import-untyped,attr-defined"
"""Sixteen numbers at a time, threads that meet, memory asked for early: what a compiler does not find by itself in a loop.

Everything is plain LLVM (no instruction of one machine), so it compiles everywhere: sixteen lanes become one AVX-512 register,
two AVX2 registers or four NEON registers. Where numba is told to compile nothing, the twins of the same names take over.
Callers keep arrays padded to a multiple of `LANES`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from tallies.kernels import twins
from tallies.kernels.twins import LANES

# only AVX-512 gathers sixteen numbers in less time than it takes to load them
GATHERS = bool(get_host_cpu_features().get("avx512f"))
I1, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 16, 32, 64))


class LaneAddresses(ir.instructions.Instruction):
    """base + index in every lane (llvmlite itself writes only the scalar form of getelementptr)."""

    def __init__(self, parent: Any, base: Any, index: Any, element: Any) -> None:
        super().__init__(parent, ir.VectorType(base.type, LANES), "getelementptr", [base, index], name="lanes")
        self.element = element

    def descr(self, buf: list[str]) -> None:
        """Write the instruction as text."""
        base, index = self.operands
        buf.append(f"getelementptr {self.element}, {base.type} {base.get_reference()}, {index.type} {index.get_reference()}\n")


class Lanes:
    """Vector code for one call of an intrinsic: loads, gathers, spreads and sums of sixteen numbers."""

    def __init__(self, context: Any, builder: Any, signature: Any) -> None:
        self.context, self.builder, self.types, self.returns = context, builder, signature.args, signature.return_type

    def address(self, number: int, array: Any, *at: Any) -> Any:
        """Where array[at] is, for the argument of that number; without a place, where it begins."""
        found = cgutils.create_struct_proxy(self.types[number])(self.context, self.builder, array)
        return cgutils.get_item_pointer(self.context, self.builder, self.types[number], found, at) if at else found.data

    def element(self, number: int) -> Any:
        """LLVM type of the elements of an array argument."""
        return self.context.get_data_type(self.types[number].dtype)

    def load(self, number: int, array: Any, at: Any) -> Any:
        """array[at:at+16]"""
        vector = ir.VectorType(self.element(number), LANES)
        pointer = self.builder.bitcast(self.address(number, array, at), vector.as_pointer())
        return self.builder.load(pointer, align=self.types[number].dtype.bitwidth // 8, typ=vector)

    def store(self, value: Any, number: int, array: Any, at: Any) -> None:
        """array[at:at+16] = value"""
        pointer = self.builder.bitcast(self.address(number, array, at), value.type.as_pointer())
        self.builder.store(value, pointer, align=self.types[number].dtype.bitwidth // 8)

    def gather(self, number: int, array: Any, index: Any) -> Any:
        """array[index]"""
        base, element = self.address(number, array), self.element(number)
        lanes = LaneAddresses(self.builder.block, base, index, element)
        self.builder._insert(lanes)
        vector, mask = ir.VectorType(element, LANES), ir.VectorType(I1, LANES)
        name = {"float": "f32", "double": "f64"}[str(element)]
        takes = ir.FunctionType(vector, [lanes.type, I32, mask, vector])
        function = cgutils.get_or_insert_function(self.builder.module, takes, f"llvm.masked.gather.v{LANES}{name}.v{LANES}p0")
        align, every = I32(self.types[number].dtype.bitwidth // 8), ir.Constant(mask, [1] * LANES)
        return self.builder.call(function, [lanes, align, every, ir.Constant(vector, ir.Undefined)])

    def fetch(self, number: int, array: Any, packed: Any, at: Any, mask: Any) -> Any:
        """array[packed[at:at+16] & mask], one by one: lanes are not taken apart again to find their addresses."""
        builder, entry, element = self.builder, self.element(0), self.element(number)
        entries = builder.bitcast(self.address(0, packed, at), entry.as_pointer())
        numbers = builder.bitcast(self.address(number, array), element.as_pointer())
        found = ir.Constant(ir.VectorType(element, LANES), ir.Undefined)
        for lane in range(LANES):
            place = builder.and_(builder.load(builder.gep(entries, [I64(lane)], source_etype=entry), typ=entry), mask)
            place = builder.zext(place, I64) if entry.width < 64 else place
            there = builder.gep(numbers, [place], source_etype=element)
            found = builder.insert_element(found, builder.load(there, typ=element), I32(lane))
        return found

    def spread(self, value: Any) -> Any:
        """One number in every lane."""
        vector = ir.VectorType(value.type, LANES)
        first = self.builder.insert_element(ir.Constant(vector, ir.Undefined), value, I32(0))
        return self.builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))

    def cumulate(self, value: Any) -> Any:
        """Running sums over the lanes: within fours first (cheap shuffles), then fours, eights ... by the total before them."""
        zero = ir.Constant(value.type, [0.0] * LANES)
        for span in (1, 2, 4, 8):
            source = []
            for i in range(LANES):
                # span < 4: the lane `span` places before, in the same four; else: the last of the group before, every second group
                near, far = i - span if i % 4 >= span else None, i // span * span - 1 if i // span % 2 else None
                before = near if span < 4 else far
                source.append(i if before is None else LANES + before)  # lanes of (zero, value)
            shifted = self.builder.shuffle_vector(zero, value, ir.Constant(ir.VectorType(I32, LANES), source))
            value = self.builder.fadd(value, shifted)
        return value

    def bits(self, flags: Any) -> Any:
        """The sixteen flags as the bits of an integer."""
        return self.builder.zext(self.builder.bitcast(flags, I16), I64)


def _weigh(lanes: Lanes, packed: Any, at: Any, mask: Any, shift: Any, f: Any, own: Any, f_own: Any) -> Any:
    """Running sums of n * f[k] over sixteen entries n << shift | k, and which of them is the own topic.

    The own topic is evaluated as if its token were taken out: n - 1 instead of n and f_own instead of f[own].
    """
    builder = lanes.builder
    entry = lanes.load(0, packed, at)
    topic = builder.and_(entry, lanes.spread(mask))
    mine = builder.icmp_signed("==", topic, lanes.spread(own))
    count = builder.add(builder.lshr(entry, lanes.spread(shift)), builder.sext(mine, entry.type))
    found = lanes.gather(4, f, topic) if GATHERS else lanes.fetch(4, f, packed, at, mask)
    weight = builder.select(mine, lanes.spread(f_own), found)
    return lanes.cumulate(builder.fmul(builder.sitofp(count, weight.type), weight)), mine


def emits(typed: Any, twin: Any = None) -> Any:
    """Make an intrinsic of a function that writes its code, given `Lanes` and the arguments; `typed` gives the types of a call."""

    def make(write: Any) -> Any:
        if config.DISABLE_JIT:
            return twin or getattr(twins, write.__name__)

        def typing(context: Any, *arguments: Any) -> Any:
            return typed(*arguments), lambda context, builder, sig, args: write(Lanes(context, builder, sig), *args)

        typing.__name__, typing.__doc__ = write.__name__, write.__doc__
        typing.__wrapped__ = write  # where numba finds how many arguments there are
        return intrinsic(typing)

    return make


def _entries(packed: Any, f: Any, *more: Any) -> tuple[Any, ...]:
    """Types of packed, at, mask, shift, f, own, f_own, and of what follows."""
    return (packed, types.intp, packed.dtype, packed.dtype, f, packed.dtype, f.dtype, *more)


@emits(lambda packed, at, mask, shift, f, own, f_own, sums, j, carry: f.dtype(*_entries(packed, f, sums, types.intp, f.dtype)))
def accumulate(lanes, packed, at, mask, shift, f, own, f_own, sums, j, carry):
    """sums[j:j+16] = carry + running sums of the weights of packed[at:at+16], see `_weigh`; returns the last of them."""
    total = lanes.builder.fadd(_weigh(lanes, packed, at, mask, shift, f, own, f_own)[0], lanes.spread(carry))
    lanes.store(total, 7, sums, j)
    return lanes.builder.extract_element(total, I32(LANES - 1))


def _drawing(n_chunks: int) -> Any:
    """The intrinsic that draws from lists of at most 16 n_chunks entries, see `draw_16`."""

    def typed(packed, at, mask, shift, f, own, f_own, u, u_rest):
        return types.Tuple([f.dtype, f.dtype, types.intp, types.intp])(*_entries(packed, f, f.dtype, f.dtype))

    @emits(typed, twins.drawing(n_chunks))
    def draw(lanes, packed, at, mask, shift, f, own, f_own, u, u_rest):
        builder, parts, bits, total = lanes.builder, [], I64(0), None
        last = ir.Constant(ir.VectorType(I32, LANES), [LANES - 1] * LANES)
        for c in range(n_chunks):
            sums, mine = _weigh(lanes, packed, builder.add(at, I64(c * LANES)), mask, shift, f, own, f_own)
            sums = sums if total is None else builder.fadd(sums, total)
            total = builder.shuffle_vector(sums, sums, last)
            parts.append(sums)
            bits = builder.or_(bits, builder.shl(lanes.bits(mine), I64(c * LANES)))
        scaled = builder.fmul(total, lanes.spread(u), flags=("contract",))
        target = builder.fadd(scaled, lanes.spread(u_rest), flags=("contract",))
        below = I64(0)
        for sums in parts:
            below = builder.add(below, builder.ctpop(lanes.bits(builder.fcmp_ordered("<=", sums, target))))
        scalars = [builder.extract_element(total, I32(0)), builder.extract_element(target, I32(0)), below, bits]
        return lanes.context.make_tuple(builder, lanes.returns, scalars)

    return draw


# One draw from a list of at most 16, 32 or 48 entries without leaving the registers: (packed, at, mask, shift, f, own, f_own, u,
# u_rest) -> the total t of the weights (see `_weigh`), the target u t + u_rest, how many running sums are <= target, and the bits
# that say where the own topic is.
draw_16, draw_32, draw_48 = _drawing(1), _drawing(2), _drawing(3)


@emits(lambda sums, j, bound: types.intp(sums, types.intp, sums.dtype))
def count_below(lanes, sums, j, bound):
    """How many of sums[j:j+16] are <= bound."""
    flags = lanes.builder.fcmp_ordered("<=", lanes.load(0, sums, j), lanes.spread(bound))
    return lanes.builder.ctpop(lanes.bits(flags))


@emits(lambda packed, at, mask, own: types.intp(packed, types.intp, packed.dtype, packed.dtype))
def find_topic(lanes, packed, at, mask, own):
    """Bits that say which of packed[at:at+16] belong to topic `own`."""
    topic = lanes.builder.and_(lanes.load(0, packed, at), lanes.spread(mask))
    return lanes.bits(lanes.builder.icmp_signed("==", topic, lanes.spread(own)))


@emits(lambda bits: types.intp(types.intp))
def lowest_bit(lanes, bits):
    """Place of the lowest bit that is set."""
    return lanes.builder.cttz(bits, I1(1))


@emits(lambda array, at, step: types.int64(array, types.intp, types.int64))
def atomic_add(lanes, array, at, step):
    """Add to array[at] so that no other thread comes between; returns the value before."""
    return lanes.builder.atomic_rmw("add", lanes.address(0, array, at), step, "seq_cst")


@emits(lambda array, at: types.int64(array, types.intp))
def atomic_load(lanes, array, at):
    """Read array[at] as other threads left it."""
    return lanes.builder.load_atomic(lanes.address(0, array, at), "seq_cst", 8, typ=I64)


@emits(lambda array, place: types.void(array, types.UniTuple(types.intp, array.ndim)))
def prefetch(lanes, array, place):
    """Ask for the cache line of array[place] (a tuple) without waiting for it; the place must be inside the array."""
    builder = lanes.builder
    address = builder.bitcast(lanes.address(0, array, *cgutils.unpack_tuple(builder, place)), ir.IntType(8).as_pointer())
    takes = ir.FunctionType(ir.VoidType(), [address.type, I32, I32, I32])
    function = cgutils.get_or_insert_function(builder.module, takes, "llvm.prefetch.p0")
    builder.call(function, [address, I32(0), I32(3), I32(1)])  # to read, to keep in every cache, data
    return lanes.context.get_dummy_value()
