"""Rows unlike anything that a classifier was fitted on, and which of their values make them so."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm, poisson

from tallies.bayes.door import Table
from tallies.bayes.marginals import Column
from tallies.data.table import table_rows
from tallies.html.page import show
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
    counts = table.counts and table.counts.rows(slice(row, row + 1))
    words = dict(zip(counts.indices.tolist(), counts.data.tolist(), strict=True)) if counts else {}
    for column in columns:
        word = column.family == "multinomial"
        # thousands of words are absent, and none of them is odd by itself
        value = words.get(column.place, np.nan) if word else float(table.column(column.family, column.place)[row])
        if np.isnan(value) or (column.p is not None and value < 0):
            continue
        tail, told = _coded(column, int(value), k) if column.p is not None else _number(column, value, k, sum(words.values()))
        if tail < ODD:
            found.append((tail, f"{column.name}{told}"))
    return "; ".join(text for _, text in sorted(found)[:most]) or "no single value is odd: their combination is"


def _coded(column: Column, state: int, k: int) -> tuple[float, str]:
    """Probability, in class k, of a state at least as odd; and the state beside what is usual, in words."""
    if column.p is None or state >= len(column.states):
        return 0.0, ": a value never met in the fit"
    p = column.p[k]
    return float(p[p <= p[state]].sum()), f" is {column.states[state]} (in {p[state]:.1%} of this class)"


def _number(column: Column, value: float, k: int, words: float) -> tuple[float, str]:
    """The same of a number, or of a word in a row of so many `words`."""
    centre = float(column.centre[k]) * (words if column.family == "multinomial" else 1.0)
    if column.family == "gaussian":
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = 2 * norm.sf(np.abs(value - centre) / column.spread[k])
        usual = f"{show(centre)} ± {show(float(column.spread[k]))}"
    else:
        tail, usual = 2 * min(poisson.cdf(value, centre), poisson.sf(value - 1, centre)), show(centre)
    return 1.0 if np.isnan(tail) else float(tail), f" is {show(value)} (usual {usual})"


def complete_rows(table: Table) -> np.ndarray:
    """Rows without a missing value: only their log p(x) compare with one another."""
    keep = np.ones(table_rows(table), dtype=bool)
    for block in (b for b in table[:3] if b is not None):
        keep &= ~np.isnan(block).any(axis=1) if block.dtype.kind == "f" else (block >= 0).all(axis=1)
    return np.flatnonzero(keep)
