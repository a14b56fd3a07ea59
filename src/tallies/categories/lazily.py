"""Tables of categories beyond memory: states from the survey, shards from pieces of files; what is searched for, on a sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tallies.categories.choose import final
from tallies.categories.door import Categories, code_columns, learn
from tallies.categories.model import Conditional, Cut, Rows, Shard
from tallies.data.columns import values_of
from tallies.data.kinds import Columns
from tallies.data.labels import encode_labels, label_codes
from tallies.data.lazy import Lazy, Piece
from tallies.engine import Stage
from tallies.errors import DataError
from tallies.sources import Held

SAMPLE, FROM = 100_000, 32  # rows on which ridge, degree and pairs are chosen, and pieces from which they are taken


class Known(NamedTuple):
    """What all pieces are read by."""

    cells: str  # the columns in SQL: inputs, target, weights
    coded: list[str]  # columns that come as codes
    categories: Categories
    classes: np.ndarray
    weighted: bool

    def rows(self, piece: Piece) -> Rows:
        """The rows of a piece, coded."""
        read = piece.columns(self.cells)
        (*inputs, y), n = [v if name in self.coded else values_of(v) for name, v in read.items()], len(self.categories.names)
        weight = y.astype(np.float64) if self.weighted else np.ones(len(y))
        y = inputs.pop() if self.weighted else y
        done = {j for j, name in enumerate(self.categories.names) if name in self.coded}
        labels = y if list(read)[n] in self.coded else label_codes(y, len(y), self.classes)
        return Rows(code_columns(inputs, self.categories, done), labels[:, None], weight[:, None])


class Coded(NamedTuple):
    """A source: some rows of a file."""

    model: Conditional
    piece: Piece
    costly: bool = True  # to make: it is written to disk where it is not kept

    def load(self, known: Known) -> Shard:
        """The features of the rows."""
        return Cut(self.model, known.rows(self.piece), None).load()


class Whole(NamedTuple):
    """All rows of a table beyond memory, in the place of their codes where only their number and their gaps are asked for."""

    pieces: list[Piece]
    known: Known
    n: int
    gaps: bool  # whether some cells have no state

    def __len__(self) -> int:
        return self.n

    def min(self, initial: int = 0) -> int:
        """The smallest code."""
        return min(initial, -1 if self.gaps else 0)

    def final(self, model: Conditional, most: int, W: Any) -> Stage:
        """The fit to all rows."""
        sources: Any = [Coded(model, piece) for piece in self.pieces]
        return final(model, sources, most, W)._replace(shared=Held(self.known))


def survey(table: Lazy, y: Any, sample_weight: Any, missing: str, bins: Any) -> tuple[Whole, Rows, Columns]:
    """A table by its pieces, some of its rows, and what became of its columns."""
    _refuse_bins(bins)
    columns = table.columns(table.roles(y, sample_weight))
    names, labels = columns.of(), table.distinct(y)
    if table.facts[y].gaps:
        raise DataError(f"y has {table.facts[y].gaps:,} missing labels; drop these rows")
    gaps = [table.facts[name].gaps > 0 for name in names]
    categories, classes = _learned(table, names, missing), encode_labels(labels, len(labels), missing=False)[0]
    states = dict(zip([*names, y], [*zip(categories.states, categories.gap, strict=True), (classes, -1)], strict=True))
    codes = {name: its for name, its in states.items() if table.codable(name, its[0])}
    cells = table.cells([*names, y, *([] if sample_weight is None else [sample_weight])], codes)
    known = Known(cells, list(codes), categories, classes, sample_weight is not None)
    some = table.pieces[:: -(-len(table.pieces) // FROM)]
    parts = []
    for piece in some:
        rows = known.rows(piece)
        parts.append(rows.part(np.linspace(0, len(rows.codes) - 1, min(len(rows.codes), SAMPLE // len(some))).astype(np.int64)))
    sample = Rows(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    return Whole(table.pieces, known, table.rows, missing == "ignore" and any(gaps)), sample, columns


def whole(table: Lazy, sample_weight: Any, missing: str, bins: Any) -> tuple[np.ndarray, np.ndarray, Categories, Columns]:
    """The codes of all rows, which take four bytes a cell, in the order of the files, and their weights; the states of the columns,
    and what became of those."""
    _refuse_bins(bins)
    columns = table.columns({} if sample_weight is None else table.weight(sample_weight))
    names = columns.of()
    categories = _learned(table, names, missing)
    states = zip(names, zip(categories.states, categories.gap, strict=True), strict=True)
    codes: dict[str, Any] = {name: its for name, its in states if table.codable(name, its[0])}
    cells = table.cells([*names, *([] if sample_weight is None else [sample_weight])], codes)
    done, found, weights = {j for j, name in enumerate(names) if name in codes}, [], []
    for piece in table.pieces:
        read = piece.columns(cells)
        weights.append(np.ones(len(read[names[0]])) if sample_weight is None else read[sample_weight].astype(np.float64))
        found.append(code_columns([read[name] if name in codes else values_of(read[name]) for name in names], categories, done))
    return np.concatenate(found), np.concatenate(weights), categories, columns


def _refuse_bins(bins: Any) -> None:
    if bins is not None:
        raise DataError("bins need all values of a column at once; cut numbers into intervals where the files are made")


def _learned(table: Lazy, names: list[str], missing: str) -> Categories:
    """The states of columns."""
    values = [_with_gap(table.distinct(name)) if table.facts[name].gaps else table.distinct(name) for name in names]
    return learn(names, values, missing, {})


def _with_gap(values: np.ndarray) -> np.ndarray:
    """The values, and one that is missing."""
    numbers = values.dtype.kind in "fiu"
    return np.array([*values, np.nan if numbers else None], dtype=float if numbers else object)
