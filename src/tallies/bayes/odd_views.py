"""Rows unlike anything that a classifier was fitted on, and which of their values make them so."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.bayes.door import Table
from tallies.bayes.law_views import oddness, told
from tallies.bayes.marginals import Column
from tallies.data.table import table_rows
from tallies.maths import Array

ODD = 0.01  # a value with a smaller tail probability than this is called odd
DRAWS = 2000  # rows drawn from the model to compare log p(x) with


def own_rows(model: Any) -> Array | None:
    """log p(x) of rows that the model itself would make; None for counts of words, whose totals it does not know."""
    if "multinomial" in model.layout_.families:
        return None
    return model.log_prob(model.sample(DRAWS, random_state=0)[0])


def odd_values(columns: list[Column], table: Table, row: int, k: int, most: int = 3) -> str:
    """The values of a row that are least usual in class k, in words."""
    found: list[tuple[float, str]] = []
    words: dict[int, float] = {}
    if table.counts is not None:
        one = table.counts.rows(slice(row, row + 1))
        words = dict(zip(one.indices.tolist(), one.data.tolist(), strict=True))
    for column in columns:
        word = column.family == "multinomial"
        # thousands of words are absent, and none of them is odd by itself
        value = words.get(column.place, np.nan) if word else float(table.column(column.family, column.place)[row])
        if np.isnan(value) or (column.p is not None and value < 0):
            continue
        total = float(sum(words.values())) if word else 1.0
        tail = oddness(column, value, k, total)
        if tail < ODD:
            found.append((tail, told(column, value, k, total)))
    return "; ".join(text for _, text in sorted(found)[:most]) or "no single value is odd: their combination is"


def complete_rows(table: Table) -> np.ndarray:
    """Rows without a missing value: only their log p(x) compare with one another."""
    keep = np.ones(table_rows(table), dtype=bool)
    for block in (b for b in table[:3] if b is not None):
        keep &= ~np.isnan(block).any(axis=1) if block.dtype.kind == "f" else (block >= 0).all(axis=1)
    return np.flatnonzero(keep)
