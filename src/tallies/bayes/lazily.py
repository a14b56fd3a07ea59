"""Tables beyond memory at the door of the classifiers: families, states and classes by survey, shards from pieces of files."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tallies.bayes.door import CODED, Layout, blocks, choose
from tallies.bayes.model import Shard
from tallies.data.columns import states_of, values_of
from tallies.data.labels import encode_labels, label_codes
from tallies.data.lazy import Lazy, Piece
from tallies.errors import DataError


class Known(NamedTuple):
    """What all pieces are read by."""

    cells: str  # the columns in SQL: features, target, weights
    names: list[str]  # of the features
    coded: list[str]  # columns that come as codes
    layout: Layout
    classes: np.ndarray
    semi_supervised: bool
    weighted: bool


class Rows(NamedTuple):
    """A source: some rows of a file."""

    piece: Piece
    costly: bool = False  # to make, for how often it is asked for: then it is written to disk where it is not kept

    def load(self, known: Known) -> Shard:
        """The rows, coded."""
        d, read = len(known.names), self.piece.columns(known.cells)
        names, columns = list(read), [v if n in known.coded else values_of(v) for n, v in read.items()]
        y, n = columns[d], len(columns[0])
        if names[d] not in known.coded:
            y = label_codes(y, n, known.classes, known.semi_supervised)
        weight = columns[d + 1].astype(np.float64) if known.weighted else np.ones(n)
        done = {j for j, name in enumerate(known.names) if name in known.coded}
        return Shard(blocks(columns[:d], known.names, known.layout, done), y, weight)


def survey(model: Any, table: Lazy, y: Any, sample_weight: Any, families: Any) -> tuple[list[Rows], Known, Any]:
    """Sources of a table, what they are read by, and what became of its columns."""
    columns, semi_supervised = table.columns(table.roles(y, sample_weight), model), model.semi_supervised
    names, target = columns.of(), table.facts[y]
    if target.gaps and not semi_supervised:
        raise DataError(f"y has {target.gaps:,} missing labels; drop these rows, or set semi_supervised=True where there is")
    labels = table.distinct(y)
    classes, _ = encode_labels(labels, len(labels), missing=semi_supervised)
    chosen = choose(names, [table.like(name) for name in names], families)
    coded = [
        states_of(table.distinct(name), family) if family in CODED else None for name, family in zip(names, chosen, strict=True)
    ]
    states = dict(zip([*names, y], [*coded, classes], strict=True))
    codes = {name: (its, -1) for name, its in states.items() if its is not None and table.codable(name, its)}
    cells = table.cells([*names, y, *([] if sample_weight is None else [sample_weight])], codes)
    known = Known(cells, names, list(codes), Layout(chosen, coded), classes, semi_supervised, sample_weight is not None)
    # EM sweeps many times: where labels are hidden, or cells of a law of several columns
    hidden = bool(target.gaps) or (families == "gaussian" and any(table.facts[name].gaps for name in names))
    return [Rows(piece, hidden) for piece in table.pieces], known, columns
