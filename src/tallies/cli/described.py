"""What a file holds, and which models could be fitted to it: the answer of `tallies describe`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tallies.registry import SUITS, WORDS, estimator

if TYPE_CHECKING:
    import pandas as pd

    from tallies.data.kinds import Columns

FIRST = 1000  # rows of a large matrix of cells that are looked at


class Held(NamedTuple):
    """What a file holds."""

    rows: int
    read: str  # how it was read, where that is unusual, or what it is where it is no table
    columns: Columns  # of a table; of cells those of obs; else none
    sorts: dict[str, str]  # what it can be taken as, see `registry.SUITS` -> options that this needs

    def models(self, path: Path) -> list[dict[str, str]]:
        """The models that take it, each with the command that fits it."""
        found = []
        for word, name in WORDS.items():
            suits = SUITS.get(name, {})
            sort = next((sort for sort in suits if sort in self.sorts), None)
            if sort is not None:
                data = f"FILE --ontology {shlex.quote(str(path))}" if sort == "ontology" else shlex.quote(str(path))
                words = ["tallies fit", word, data, self.sorts[sort], suits[sort], "--out RUN"]
                found.append({"model": word, "command": " ".join(filter(None, words))})
        return found


def held(path: Path) -> Held:
    """What is in a file or a folder."""
    from tallies.data.bags import in_files
    from tallies.data.cells import cells_of
    from tallies.data.fasta import is_alignment, read_fasta
    from tallies.data.files import read_table
    from tallies.data.kinds import Columns, describe
    from tallies.data.lazy import is_lazy, open_table
    from tallies.data.ontology import Ontology

    none = Columns([], [], [], [], [])
    if is_alignment(path):
        sites = read_fasta(path)
        return Held(len(sites), f"an alignment of {sites.shape[1]:,} sites", none, {"alignment": ""})
    if cells_of(path) is not None:
        return _cells(path)
    if path.name.lower().endswith((".obo", ".obo.gz")):
        return Held(len(Ontology.read(path)), "concepts of an ontology", none, {"ontology": ""})
    if path.suffix.lower() in (".mtx", ".biom") or path.name.lower().endswith(".mtx.gz"):
        counts = estimator("read_counts")(path)
        return Held(
            len(counts), f"a matrix of {counts.shape[1]:,} columns", none, {"counts": ""} if _whole(counts.to_numpy()) else {}
        )
    if path.is_dir() and not in_files(path):
        return Held(
            sum(name.name.endswith((".txt", ".txt.gz")) for name in path.rglob("*")), "a folder of texts", none, {"texts": ""}
        )
    if is_lazy(path):
        whole = open_table(path)
        columns = whole.columns({})
        return Held(whole.rows, "", columns, _sorts(whole.rows, columns))
    frame = read_table(path)
    columns = describe(frame)
    return Held(len(frame), frame.attrs["read"], columns, _sorts(len(frame), columns, frame))


def _sorts(rows: int, columns: Columns, frame: pd.DataFrame | None = None) -> dict[str, str]:
    """What a table can be taken as."""
    used = columns.of()
    numbers = [name for name in used if columns.kind(name) == "number"]
    levels = dict(zip(columns.names, columns.levels, strict=True))
    targets = [name for name in used if 2 <= levels[name] <= max(2, rows // 2)]  # of which a class may have several rows
    texts = [name for name in columns.names if columns.kind(name) == "text" or (name == "text" and columns.kind(name) != "number")]
    several = len(used) > 1
    found = {
        "classes": several and bool(targets),
        "numbers": bool(targets) and bool(set(numbers) - set(targets[:1])),
        "categories": several,
        "counts": several and frame is not None and len(numbers) == len(used) and _whole(frame[used].to_numpy(dtype=float)),
    }
    sorts = dict.fromkeys((sort for sort, is_one in found.items() if is_one), "")
    return sorts | ({"texts": f"--text {shlex.quote(texts[0])}"} if texts else {})


def _cells(path: Path) -> Held:
    """Of an .h5ad file or a .zarr folder: its matrix, and what stands beside its rows."""
    from tallies.data.cells import held_in, matrix_of, table_beside
    from tallies.data.kinds import describe

    obs, large = describe(table_beside(path)), matrix_of(path)
    matrix, names = held_in(path) if large is None else (large.cells.read(0, FIRST), large.columns)
    rows = matrix.shape[0] if large is None else len(large.rows)
    values = matrix.data if hasattr(matrix, "indices") else matrix
    beside, whole = bool(obs.of()), _whole(values)
    found = {"cells": beside, "counted": beside and whole, "counts": whole, "words": whole}
    sorts = dict.fromkeys((sort for sort, is_one in found.items() if is_one), "")
    return Held(rows, f"cells of {len(names):,} columns; beside them, in obs:", obs, sorts)


def _whole(values: Any) -> bool:
    """Whether these are whole numbers from 0 on, or gaps."""
    import numpy as np

    known = np.asarray(values)[~np.isnan(values)]
    return bool((known >= 0).all() and (known % 1 == 0).all())
