"""Where shards come from: data that are here already, cut by their size alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

SHARD_BYTES = 16 << 20  # a shard of this size is many times the cost of scheduling it


class Held(NamedTuple):
    """A source whose shard is in memory already."""

    shard: Any

    def load(self, *shared: Any) -> Any:
        """The shard; with something shared, the shard that its `join` makes of both."""
        return self.shard.join(*shared) if shared else self.shard


def cuts(rows: int, nbytes: int, shard_rows: int | None = None) -> Iterator[slice]:
    """Where data are cut into shards: decided by their size alone, so that no worker count changes a result.

    >>> list(cuts(5, 100)), list(cuts(5, 100, shard_rows=3))
    ([slice(0, 5, None)], [slice(0, 3, None), slice(3, 5, None)])
    """
    parts = min(max(1, nbytes // SHARD_BYTES), max(rows, 1))
    size = shard_rows or -(-rows // parts)
    return (slice(a, min(a + size, rows)) for a in range(0, rows, size))


def held(make: Callable[[slice], Any], rows: int, nbytes: int, shard_rows: int | None = None) -> list[Held]:
    """Sources of data in memory: make(rows) gives the shard of those rows."""
    return [Held(make(cut)) for cut in cuts(rows, nbytes, shard_rows)]
