"""Rows unlike anything that a classifier was fitted on, and which of their values make them so."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, pdtr, pdtrc

from tallies.bayes.door import Table
from tallies.bayes.marginals import Column, rounded
from tallies.data.table import table_rows
from tallies.html.page import show
from tallies.maths import Array

ODD = 0.01  # a value with a smaller tail probability than this is called odd
DRAWS, CELLS = 2000, 1e7  # rows drawn from the model to compare log p(x) with, and their cells where columns are many


def own_rows(model: Any) -> Array | None:
    """log p(x) of rows that the model itself would make; None for counts of words, whose totals it does not know."""
    if "multinomial" in model.layout_.families:
        return None
    n = int(np.clip(CELLS / model.n_features_in_, 500, DRAWS))
    return model.log_prob(model.sample(n, random_state=0)[0])


def odd_values(columns: list[Column], table: Table, row: int, k: int, most: int = 3) -> str:
    """The values of a row that are least usual in class k, in words."""
    found: list[tuple[float, Column, float, float]] = []
    counts = table.counts and table.counts.rows(slice(row, row + 1))
    words = dict(zip(counts.indices.tolist(), counts.data.tolist(), strict=True)) if counts else {}
    total = sum(words.values())
    for column in columns:
        word = column.family == "multinomial"
        # thousands of words are absent, and none of them is odd by itself
        value = words.get(column.place, np.nan) if word else float(table.column(column.family, column.place)[row])
        if np.isnan(value) or (column.p is not None and value < 0):
            continue
        usual = float(column.centre[k]) * (total if word else 1.0)
        tail = _tail(column, value, usual, k)
        if tail < ODD:
            found.append((tail, column, value, usual))
    least = sorted(found, key=lambda one: one[0])[:most]
    return (
        "; ".join(_said(column, value, usual, k) for _, column, value, usual in least)
        or "no single value is odd: their combination is"
    )


def _tail(column: Column, value: float, usual: float, k: int) -> float:
    """Probability, in class k, of a value at least as odd."""
    if column.p is not None:
        p = column.p[k]
        return float(p[p <= p[int(value)]].sum()) if value < len(p) else 0.0
    if column.family != "gaussian":
        return 2 * float(min(pdtr(value, usual), pdtrc(value - 1, usual) if value > 0 else 1.0))
    spread = float(column.spread[k])
    return 2 * float(ndtr(-abs(value - usual) / spread)) if spread > 0 else float(value == usual)


def _said(column: Column, value: float, usual: float, k: int) -> str:
    """The value beside what is usual."""
    if column.p is not None:
        if value >= len(column.states):
            return f"{column.name}: a value never met in the fit"
        return f"{column.name} is {column.states[int(value)]} (in {column.p[k][int(value)]:.1%} of this class)"
    numbers = (usual, float(column.spread[k])) if column.family == "gaussian" else (usual,)
    return f"{column.name} is {show(value)} (usual {' ± '.join(show(rounded(x, column.spread[k] or x)) for x in numbers)})"


def complete_rows(table: Table) -> np.ndarray:
    """Rows without a missing value: only their log p(x) compare with one another."""
    keep = np.ones(table_rows(table), dtype=bool)
    for block in (b for b in table[:3] if b is not None):
        keep &= ~np.isnan(block).any(axis=1) if block.dtype.kind == "f" else (block >= 0).all(axis=1)
    return np.flatnonzero(keep)
