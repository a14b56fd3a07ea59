"""Counts in files that are more than fits into memory laid out: read piece by piece, and held as a sparse matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from tallies.counts.fitted import smallest
from tallies.counts.tables import Named
from tallies.data.lazy import open_table
from tallies.errors import DataError


def read_pieces(X: Any, beside: list[str]) -> tuple[Named, pd.DataFrame]:
    """The counts of a folder of tables, a large file or a lazy frame, and some of its columns beside them; see `lazy.is_lazy`.

    A first column of texts names the rows, and others that tell them apart are left out; all the rest must be counts.
    """
    table = open_table(X)
    for name in beside:
        table.need(name, "covariates or weights")
    first = next(iter(table.facts))
    names = [first] if table.facts[first].type == "VARCHAR" and first not in beside else []
    species = [name for name, fact in table.facts.items() if name not in (*names, *beside) and fact.kind != "id"]
    texts = [name for name in species if table.facts[name].kind not in ("number", "constant", "empty")]
    if texts or not species:
        raise DataError(f"counts must be numbers, but columns {texts[:5]} of {table.name!r} are not; drop them")
    cells, parts, others = table.cells([*species, *names, *beside]), [], []
    for piece in table.pieces:
        columns = piece.columns(cells)
        values = np.column_stack([columns.pop(name) for name in species])
        part = sp.csr_array(values.astype(np.float64))
        parts.append(smallest(part) if _whole(part.data) else part)
        others.append(pd.DataFrame(columns))
    rest = pd.concat(others, ignore_index=True)
    rows = None if not names else rest.pop(first).astype(str).to_numpy(dtype=object)
    rest = rest if rows is None else rest.set_axis(rows)
    return Named(sp.vstack(parts, format="csr"), rows, np.array(species, dtype=object)), rest


def _whole(values: np.ndarray) -> bool:
    """Whether these can be counts; what others are is told where all are looked at."""
    return bool(len(values) and np.isfinite(values).all() and (values >= 0).all() and (np.floor(values) == values).all())
