"""Counts that stay in files: pieces that are read where they are worked on, and the table that they make.

Sparse rows stay sparse: a piece gives some of them as a CSR matrix, which is laid out while a shard of them is swept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.backends import each
from tallies.data.cells import Cells, csr_of
from tallies.mapped import Home, map_array
from tallies.maths import pointer


class Encoded(NamedTuple):
    """Rows of a table, written once to the scratch folder as a sparse matrix."""

    home: Home
    number: int
    width: int
    check: int = 0  # sum of what is in them: a fit is resumed on the same data alone

    def read(self, first: int, stop: int) -> sp.csr_array:
        """Some of the rows, mapped."""
        ptr = self._get("ptr")[first : stop + 1]
        inside = slice(int(ptr[0]), int(ptr[-1]))
        return csr_of(self._get("data")[inside], self._get("indices")[inside], ptr, self.width)

    def write(self, Y: sp.csr_array) -> None:
        """Write the rows."""
        for name, array in (("data", Y.data), ("indices", Y.indices.astype(np.int32)), ("ptr", Y.indptr.astype(np.int64))):
            np.save(self._path(name), array)

    def there(self) -> bool:
        """Whether this process sees the files."""
        return os.path.isfile(self._path("ptr"))

    def _get(self, name: str) -> np.ndarray:
        return map_array(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self.home.path, f"{self.number:06d}-{name}.npy")


class Span(NamedTuple):
    """Some neighbouring rows of a piece."""

    piece: Encoded | Cells
    first: int
    stop: int


class Spans(NamedTuple):
    """The rows of a shard, as a sparse matrix would be."""

    parts: tuple[Span, ...]
    some: np.ndarray | None  # places of those that are meant, where not all are

    def tocsr(self) -> sp.csr_array:
        """The rows, sparse."""
        found = [span.piece.read(span.first, span.stop) for span in self.parts]
        rows = found[0] if len(found) == 1 else sp.vstack(found, format="csr")
        return rows if self.some is None else rows[self.some]

    def toarray(self) -> np.ndarray:
        """The rows in full."""
        return np.asarray(self.tocsr().toarray())


class Seen(NamedTuple):
    """A source of the columns in which rows have counts."""

    rows: Spans

    def load(self) -> np.ndarray:
        """How many of the rows have one (p,)."""
        found = self.rows.tocsr()
        return np.bincount(found.indices[found.data > 0], minlength=found.shape[1])


class Picked(NamedTuple):
    """A source of some rows of a shard."""

    rows: Spans
    places: np.ndarray  # of these, rising

    def load(self) -> sp.csr_array:
        """The rows, sparse."""
        return self.rows.tocsr()[self.places]


def picked(sources: Sequence[Any], places: np.ndarray) -> sp.csr_array:
    """Rows at these places, rising, of all that sources of counts in files have: read shard by shard, and held."""
    ends = pointer([len(source.v) for source in sources])
    cuts = np.searchsorted(places, ends)
    parts = [places[a:b] - first for a, b, first in zip(cuts[:-1], cuts[1:], ends[:-1], strict=True)]
    wanted = [Picked(source.Y, part) for source, part in zip(sources, parts, strict=True) if len(part)]
    return sp.csr_array(sp.vstack(each(_same, wanted), format="csr"))


class Filed(NamedTuple):
    """A table of counts in files, with what must be known of all of it."""

    pieces: tuple[Encoded | Cells, ...]
    sizes: tuple[int, ...]  # rows of each
    size: np.ndarray  # sums of the rows                              (n,)
    total: np.ndarray  # sums of the columns, of all rows             (p,)
    top: np.ndarray  # largest counts of these                        (p,)
    some: np.ndarray | None = None  # places of the rows that are meant, rising; None: all

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.size), len(self.total)

    def sum(self, axis: int) -> np.ndarray:
        """Sums of the rows, as those of a matrix."""
        assert axis == 1
        return self.size

    def take(self, mask: np.ndarray) -> Filed:
        """Those rows."""
        places = np.arange(len(self.size)) if self.some is None else self.some
        return self._replace(size=self.size[mask], some=places[mask])

    def part(self, rows: slice) -> Spans:
        """Neighbouring rows, which may be of several pieces."""
        a, b = rows.start, rows.stop
        some = None if self.some is None else self.some[a:b]
        if some is not None:
            a, b = int(some[0]), int(some[-1]) + 1
        ends = pointer(self.sizes)
        first, last = np.searchsorted(ends, [a, b - 1], side="right") - 1
        spans = [
            Span(self.pieces[k], max(a - int(ends[k]), 0), min(b, int(ends[k + 1])) - int(ends[k])) for k in range(first, last + 1)
        ]
        whole = some is None or len(some) == b - a
        return Spans(tuple(spans), None if whole or some is None else some - a)

    def seen(self, live: np.ndarray) -> np.ndarray:
        """Something of each column that is 0 where none of the live rows has a count (p,)."""
        if live.all():
            return self.total
        rows = self.take(live)
        sizes = [slice(a, min(a + 65_536, len(rows.size))) for a in range(0, len(rows.size), 65_536)]
        return np.sum(each(_same, [Seen(rows.part(b)) for b in sizes]), axis=0)


def _same(found: Any) -> Any:
    return found


def compact(Y: Any) -> bool:
    """Whether counts are a sparse matrix, or in files: offsets are one number a row then."""
    return sp.issparse(Y) or isinstance(Y, Filed)


def smallest(Y: Any) -> Any:
    """Counts in the smallest type that holds them.

    >>> smallest(np.array([[0.0, 300.0]])).dtype
    dtype('uint16')
    """
    top = Y.max()
    return Y.astype(np.min_scalar_type(int(top))) if top < 2**63 else Y
