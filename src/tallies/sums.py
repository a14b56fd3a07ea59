"""Tallies added up: leaf by leaf, in one order for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add as plus
from typing import Any, NamedTuple


def add(parts: Sequence[Any]) -> Any:
    """Sum tallies leaf by leaf, in the order given, so that no number of workers changes a bit.

    Leaves are numbers, arrays or scipy sparse matrices; nested tuples are added field by field, None stays None.

    >>> from typing import NamedTuple
    >>> class Tally(NamedTuple):
    ...     n: int
    ...     total: float
    >>> add([Tally(1, 0.5), Tally(2, 0.25)])
    Tally(n=3, total=0.75)
    """
    first = parts[0]
    if first is None:
        return None
    if isinstance(first, tuple):
        sums = [add(leaf) for leaf in zip(*parts, strict=True)]
        return type(first)(*sums) if hasattr(first, "_fields") else tuple(sums)
    return reduce(plus, parts)


def alike(one: Any, other: Any) -> bool:
    """Whether two tallies are of one form, so that adding them makes sense.

    >>> import numpy as np
    >>> alike((np.zeros(3), 1.0), (np.ones(3), 2.0)), alike((np.zeros(3), 1.0), (np.ones((3, 3)), 2.0))
    (True, False)
    """
    if isinstance(one, tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(alike, one, other))
    if hasattr(one, "dtype"):
        about = (getattr(other, "shape", None), getattr(other, "dtype", None))
        return (one.shape, one.dtype) == about and isinstance(other, type(one))
    return isinstance(other, type(one)) or (isinstance(one, int | float) and isinstance(other, int | float))


def faded(tally: Any, share: float) -> Any:
    """A share of a tally, leaf by leaf: what is left of it in t <- (1 - rho) t + rho s t_batch, in units of rho s.

    >>> faded((4.0, None), 0.25)
    (1.0, None)
    """
    if isinstance(tally, tuple):
        leaves = [faded(leaf, share) for leaf in tally]
        return type(tally)(*leaves) if hasattr(tally, "_fields") else tuple(leaves)
    return None if tally is None else share * tally


GROUP = 8  # tallies that are added one after another; then the sums of so many, and so on


class Half(NamedTuple):
    """A sweep that was left between two shards, or before its update: what the first ones have added. Their latents are of this
    sweep already."""

    levels: tuple[tuple[int, Any], ...] = ()  # see `Sum`
    whole: tuple[int, Any] | None = None  # in place of them, of all shards: how many there are, and their sum

    @property
    def done(self) -> int:
        """How many shards."""
        return self.whole[0] if self.whole else sum(n * GROUP**level for level, (n, _) in enumerate(self.levels))

    def check(self) -> None:
        """No more at a level than it holds, and not so many levels that nothing could have as many shards."""
        if len(self.levels) > 20 or not all(0 <= n < GROUP for n, _ in self.levels) or (self.levels and self.whole):
            raise ValueError(f"there are {[n for n, _ in self.levels]} sums, of which each level has fewer than {GROUP}")


class Sum:
    """Adds up tallies as they come, in shard order and in one tree for all backends, so that no number of workers changes a bit.

    A cluster adds the parts of the tree where they are; here no more than one sum for each level of it is held. It goes on from
    `half` of a sweep, whose tallies must be such as those that follow: a checkpoint may have brought them.
    """

    def __init__(self, half: Half | None = None) -> None:
        known = () if half is None else half.levels if half.whole is None else ((1, half.whole[1]),)
        self.levels: list[tuple[int, Any]] = [*known]  # how many were added, and their sum
        self.given = [part for n, part in self.levels if n]

    def half(self) -> Half | None:
        """All so far; None: nothing."""
        half = Half(tuple(self.levels))
        return half if half.done else None

    def put(self, part: Any, level: int = 0) -> None:
        """Add one more."""
        if not all(alike(part, known) for known in self.given):
            raise ValueError("the checkpoint is damaged: sums of a sweep that was cut are not of these data; start a new fit")
        self.given = []
        n, before = self.levels[level] if level < len(self.levels) else (0, None)
        self.levels[level : level + 1] = [(n + 1, add([before, part]) if n else part)]
        if n + 1 == GROUP:
            whole, self.levels[level] = self.levels[level][1], (0, None)
            self.put(whole, level + 1)

    def value(self) -> Any:
        """The sum of all."""
        rest: list[Any] = []
        for n, part in self.levels:
            rest = [add([part, *rest]) if rest else part] if n else rest
        return rest[0]


def total(parts: Iterable[Any]) -> Any:
    """The sum of tallies in that tree."""
    whole = Sum()
    for part in parts:
        whole.put(part)
    return whole.value()
