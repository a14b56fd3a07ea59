"""Rows that were let in, and the sources that make shards of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.counts.filed import Filed, Spans, picked, smallest
from tallies.counts.records import Shard, log_factorial
from tallies.sources import Held


class Rows(NamedTuple):
    """Validated rows."""

    Y: Any  # counts, 0 where missing: an array, a CSR matrix, or in files   (n, p)
    O: np.ndarray  # offsets, -1e4 where missing; of a matrix one a row   (n, p) | (n, 1)
    X: np.ndarray  # design                                         (n, d)
    v: np.ndarray  # weights                                        (n,)

    def take(self, some: np.ndarray) -> Rows:
        """Those rows, by a mask."""
        if some.all():
            return self
        Y, *others = self
        return Rows(Y.take(some) if isinstance(Y, Filed) else Y[some], *(part[some] for part in others))


def held(rows: Rows, sources: Sequence[Any], places: np.ndarray) -> Rows:
    """Rows at these places, rising; those that stay in files are read by the sources of the rows."""
    Y, *others = rows
    return Rows(picked(sources, places) if isinstance(Y, Filed) else Y[places], *(part[places] for part in others))


class Sparse(NamedTuple):
    """A source: rows of a CSR matrix, or of files, which are laid out in full while they are worked on."""

    Y: sp.csr_array | Spans
    O: np.ndarray  # offsets, one a row                             (n, 1)
    X: np.ndarray
    v: np.ndarray
    even: bool
    start: int
    rows: int
    M: np.ndarray | None
    groups: np.ndarray | None  # these seven as in `Shard`

    def load(self) -> Shard:
        """The rows in full."""
        Y = self.Y.toarray().astype(np.float64, copy=False)
        return whole(Rows(Y, np.repeat(self.O, Y.shape[1], axis=1), self.X, self.v), *self[4:])


class Laid(Held):
    """A source: rows in memory. They travel in the smallest type that holds the counts, and with one offset a row where they are
    alike: a tenth of their bytes."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        shard: Shard = self.shard
        alike = bool((shard.O[:, :1] == shard.O).all())
        return _laid, (shard._replace(Y=smallest(shard.Y), O=shard.O[:, :1].copy() if alike else shard.O),)


def _laid(shard: Shard) -> Laid:
    """It again, from what has travelled."""
    Y = shard.Y.astype(np.float64)
    return Laid(shard._replace(Y=Y, O=np.repeat(shard.O, Y.shape[1], axis=1) if shard.O.shape != Y.shape else shard.O))


def whole(rows: Rows, even: bool, start: int, n: int, M: np.ndarray | None, groups: np.ndarray | None) -> Shard:
    """The shard of some rows; the rest as in `Shard`."""
    constant = float(rows.v @ log_factorial(rows.Y).sum(axis=1))
    return Shard(*rows, even=even, start=start, rows=n, constant=constant, M=M, groups=groups)
