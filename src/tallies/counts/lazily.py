"""Counts in files at the door: looked at once, piece by piece, on the chosen backend.

Tables are written once to the scratch folder as sparse matrices, from which shards are mapped; those of an .h5ad file or a .zarr
folder that are sparse by rows are read where they are. Where counts that are not 0 take no more than `HELD` bytes, they are held.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp

from tallies.answering import AT_ONCE
from tallies.backends import each
from tallies.counts.filed import Encoded, Filed, smallest
from tallies.counts.tables import LARGEST_COUNT, Named, named_rows, refuse_broken, refuse_large, refuse_negative
from tallies.data.cells import HELD, Cells, matrix_of
from tallies.data.lazy import Piece, open_table
from tallies.data.table import check_names
from tallies.errors import DataError
from tallies.mapped import SCRATCH, Home, Scratch, free_memory
from tallies.maths import pointer
from tallies.phases import phase
from tallies.sources import Held

AT_A_TIME = 1 << 21  # such counts of an .h5ad file or a .zarr folder that are looked at together


class Look(NamedTuple):
    """What is known of some rows of counts."""

    size: np.ndarray  # sums of the rows                              (n,)
    total: np.ndarray  # sums of the columns                          (p,)
    top: np.ndarray  # largest counts of these                        (p,)
    low: float  # smallest of all
    gaps: int  # that are missing
    broken: tuple[int, int, float] | None  # the first that is no whole number: row, column, value
    nbytes: int  # of the sparse matrix
    check: int = 0  # sum of what is in it
    beside: pd.DataFrame | None = None  # other columns of these rows

    @classmethod
    def at(cls, Y: sp.csr_array) -> Look:
        """At some rows."""
        values = Y.data.astype(np.float64, copy=False)
        missing = np.isnan(values)
        with np.errstate(invalid="ignore"):
            wrong = np.flatnonzero((np.floor(values) != values) & ~missing)
        broken = None
        if len(wrong):
            at = int(wrong[0])
            broken = int(np.searchsorted(Y.indptr, at, side="right")) - 1, int(Y.indices[at]), float(values[at])
        clear = sp.csr_array((np.where(missing, 0.0, values), Y.indices, Y.indptr), shape=Y.shape)
        top = clear.max(axis=0).toarray().ravel()
        low = float(np.min(values, where=~missing, initial=0.0))
        nbytes = Y.data.nbytes + 4 * len(Y.indices) + 8 * len(Y.indptr)
        return cls(clear.sum(axis=1), clear.sum(axis=0), top, low, int(missing.sum()), broken, nbytes)


# tables


def read_pieces(X: Any, beside: Mapping[str, str]) -> tuple[Named, pd.DataFrame]:
    """The counts of a folder of tables, a large file or a lazy frame, and some of its columns beside them, each with what it is;
    see `lazy.is_lazy`.

    A first column of texts names the rows, and others that tell them apart are left out; all the rest must be counts.
    """
    table = open_table(X)
    for name, role in beside.items():
        table.need(name, role)
    first = next(iter(table.facts))
    names = [first] if table.facts[first].type == "VARCHAR" and first not in beside else []
    species = [name for name, fact in table.facts.items() if name not in (*names, *beside) and fact.kind != "id"]
    texts = [name for name in species if not (table.facts[name].kind == "empty" or table.facts[name].is_number())]
    if texts or not species:
        raise DataError(f"counts must be numbers, but columns {texts[:5]} of {table.name!r} are not; drop them")
    scratch = Scratch(SCRATCH.get())
    home = Home(scratch.folder.name, scratch)
    pieces = [Encoded(home, k, len(species)) for k in range(len(table.pieces))]
    work = list(zip(table.pieces, pieces, strict=True))
    with phase("looking at the counts"):
        looks = _each(_encode, work, table.cells([*species, *names, *beside]), species)
    if not pieces[0].there():
        raise DataError(
            "the workers have read the counts, but what they wrote is not here; name a folder that all machines see with "
            "tallies.backend(..., scratch=FOLDER)"
        )
    rest = pd.concat([look.beside for look in looks], ignore_index=True)
    rows = None if not names else rest.pop(first).astype(str).to_numpy(dtype=object)
    rest = rest if rows is None else rest.set_axis(rows)
    columns = np.array(species, dtype=object)
    if sum(look.nbytes for look in looks) <= HELD:
        parts = [piece.read(0, len(look.size)) for piece, look in zip(pieces, looks, strict=True)]
        return Named(sp.vstack(parts, format="csr"), rows, columns), rest
    known = [piece._replace(check=look.check) for piece, look in zip(pieces, looks, strict=True)]
    return Named(filed(known, [len(look.size) for look in looks], looks), rows, columns), rest


def read_whole(X: Any, asked: Collection[str]) -> pd.DataFrame:
    """Such a table as a data frame, for what needs all counts in memory, with the columns asked for by name; or a sentence where
    they do not fit."""
    table = open_table(X)
    size, free = 8 * table.rows * len(table.facts), free_memory()
    if size > free // 2:
        told = f"{table.name!r} has {table.rows:,} x {len(table.facts):,} cells, {size / 1e9:,.1f} GB laid out"
        raise DataError(
            f"{told}, more than half of the {free / 1e9:,.1f} GB that are free, and this is done in memory; pass some of the rows, "
            "or fit without structural zeros; answers that go to files, out=FOLDER, are given piece by piece"
        )
    first = next(iter(table.facts))
    kept = {first, *asked} if table.facts[first].type == "VARCHAR" else {*asked}
    names = [name for name, fact in table.facts.items() if fact.kind != "id" or name in kept]
    cells = table.cells(names)
    return named_rows(pd.concat([piece.frame(cells) for piece in table.pieces], ignore_index=True), asked=asked)


def _each(task: Any, work: Sequence[Any], *more: Any) -> list[Look]:
    """What comes of each piece of work; some at a time, for there may be many."""
    some = [[Held(its) for its in work[a : a + AT_ONCE]] for a in range(0, len(work), AT_ONCE)]
    return [look for held in some for look in each(task, held, *more)]


def _encode(work: tuple[Piece, Encoded], cells: str, species: list[str]) -> Look:
    """Write the counts of a piece of a table."""
    piece, out = work
    columns = piece.columns(cells)
    Y = sp.csr_array(np.column_stack([columns.pop(name) for name in species]).astype(np.float64))
    look = Look.at(Y)
    if look.broken is None and not look.gaps and look.low >= 0 and look.top.max(initial=0.0) <= LARGEST_COUNT and Y.nnz:
        Y = smallest(Y)
    out.write(Y)
    check = 0
    for part in (Y.data, Y.indices.astype(np.int32), Y.indptr.astype(np.int64)):
        check = zlib.crc32(part, check)
    return look._replace(nbytes=Y.data.nbytes + 4 * Y.nnz + 8 * len(Y.indptr), check=check, beside=pd.DataFrame(columns))


# matrices of cells


def read_cells(path: Path) -> Named | None:
    """The counts of an .h5ad file or a .zarr folder that are more than is held; None: they are to be read whole."""
    found = matrix_of(path)
    if found is None:
        return None
    spans = [(found.cells, a, b) for a, b in found.spans(AT_A_TIME)]
    with phase("looking at the counts"):
        looks = _each(_look, spans)
    check_names(pd.DataFrame(columns=found.columns))
    return Named(filed([found.cells], [len(found.rows)], looks), found.rows, found.columns)


def _look(work: tuple[Cells, int, int]) -> Look:
    cells, first, stop = work
    return Look.at(cells.read(first, stop))


# both


def filed(pieces: Sequence[Encoded | Cells], sizes: Sequence[int], looks: Sequence[Look]) -> Filed:
    """The table that pieces make, or a sentence on what is wrong with it."""
    gaps = sum(look.gaps for look in looks)
    if gaps:
        raise DataError(
            f"{gaps:,} counts are missing in a table that is too large for memory, where none may be; fill them with 0, drop their "
            "rows, or read part of the table"
        )
    refuse_negative(min(look.low for look in looks))
    for first, look in zip(pointer([len(look.size) for look in looks]), looks, strict=False):
        if look.broken is not None:
            refuse_broken(look.broken[0] + int(first), *look.broken[1:])
    top = np.max([look.top for look in looks], axis=0)
    refuse_large(float(top.max(initial=0.0)))
    size, total = np.concatenate([look.size for look in looks]), np.sum([look.total for look in looks], axis=0)
    return Filed(tuple(pieces), tuple(sizes), size, total, top)
