"""What `lanes` does, in plain Python: where nothing is compiled (NUMBA_DISABLE_JIT=1), and for tests to compare with. Slow."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

LANES = 16
_alone = threading.Lock()


def cumulate(value: Any) -> Any:
    """Running sums in the order of `Lanes.cumulate`: within fours, then fours and eights by the total before them."""
    i = np.arange(LANES)
    for span in (1, 2, 4, 8):
        before = np.where(i % 4 >= span, i - span, -1) if span < 4 else np.where(i // span % 2, i // span * span - 1, -1)
        value = value + np.where(before >= 0, value[before], value.dtype.type(0))
    return value


def weigh(packed: Any, at: Any, mask: Any, shift: Any, f: Any, own: Any, f_own: Any) -> tuple[Any, Any]:
    """Running sums of n * f[k] over sixteen entries n << shift | k, the own topic without its token; which is the own topic."""
    entry = packed[at : at + LANES]
    topic = entry & mask
    mine = topic == own
    return cumulate(((entry >> shift) - mine).astype(f.dtype) * np.where(mine, f_own, f[topic])), mine


def bits_of(flags: Any) -> Any:
    return np.int64(sum(1 << int(i) for i in np.flatnonzero(flags)))


def accumulate(packed: Any, at: Any, mask: Any, shift: Any, f: Any, own: Any, f_own: Any, sums: Any, j: Any, carry: Any) -> Any:
    sums[j : j + LANES] = weigh(packed, at, mask, shift, f, own, f_own)[0] + carry
    return sums[j + LANES - 1]


def drawing(n_chunks: int) -> Any:
    def draw(packed: Any, at: Any, mask: Any, shift: Any, f: Any, own: Any, f_own: Any, u: Any, u_rest: Any) -> tuple[Any, ...]:
        parts, flags, total = [], [], f.dtype.type(0)
        for c in range(n_chunks):
            sums, mine = weigh(packed, at + c * LANES, mask, shift, f, own, f_own)
            parts.append(sums + total)
            flags.append(mine)
            total = parts[-1][-1]
        target = total * u + u_rest
        return total, target, int((np.concatenate(parts) <= target).sum()), bits_of(np.concatenate(flags))

    return draw


def count_below(sums: Any, j: Any, bound: Any) -> int:
    return int((sums[j : j + LANES] <= bound).sum())


def find_topic(packed: Any, at: Any, mask: Any, own: Any) -> Any:
    return bits_of((packed[at : at + LANES] & mask) == own)


def lowest_bit(bits: Any) -> int:
    return (int(bits) & -int(bits)).bit_length() - 1


def atomic_add(array: Any, at: Any, step: Any) -> Any:
    with _alone:
        before = array[at]
        array[at] += step
        return before


def atomic_load(array: Any, at: Any) -> Any:
    return array[at]


def prefetch(array: Any, place: Any) -> None:
    pass


def pause(_: Any) -> None:
    """Let other threads have their turn."""
    time.sleep(0)
