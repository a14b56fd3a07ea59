"""Rows unlike anything that a classifier was fitted on, and which of their values make them so."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.bayes.law_views import oddness, told
from tallies.bayes.marginals import Column
from tallies.data.table import Sparse
from tallies.maths import Array

ODD = 0.01  # a value with a smaller tail probability than this is called odd
DRAWS = 2000  # rows drawn from the model to compare log p(x) with


def own_rows(model: Any) -> Array | None:
    """log p(x) of rows that the model itself would make; None for counts of words, whose totals it does not know."""
    if "multinomial" in getattr(getattr(model, "layout_", None), "families", []):
        return None
    X = model.sample(DRAWS, random_state=0)[0]
    if hasattr(model, "feature_names_in_") and not hasattr(X, "columns"):
        from pandas import DataFrame

        X = DataFrame(X, columns=model.feature_names_in_)
    return model.log_prob(X)


def odd_values(columns: list[Column], table: Any, row: int, k: int, most: int = 3) -> str:
    """The values of a row that are least usual in class k, in words."""
    found: list[tuple[float, str]] = []
    code = np.array([k])
    words: dict[int, float] = {}
    counts: Sparse | None = getattr(table, "counts", None)
    if counts is not None:
        a, b = counts.indptr[row], counts.indptr[row + 1]
        words = dict(zip(counts.indices[a:b].tolist(), counts.data[a:b].tolist(), strict=True))
    total = float(sum(words.values()))
    for column in columns:
        if column.family == "multinomial":
            if column.place not in words:  # thousands of absent words, none of which is odd by itself
                continue
            value = words[column.place]
        else:
            value = float(_block(table, column.family)[row, column.place])
            if np.isnan(value) or (column.p is not None and value < 0):
                continue
        tail = float(oddness(column, np.array([value]), code, np.array([total]) if column.family == "multinomial" else None)[0])
        if tail < ODD:
            found.append((tail, told(column, value, k, total)))
    found.sort()
    return "; ".join(text for _, text in found[:most]) or "no single value is odd: their combination is"


def _block(table: Any, family: str) -> np.ndarray:
    """The block of a model's table that holds columns of this family."""
    if hasattr(table, "X"):
        return table.X
    return {"gaussian": table.gaussian, "categorical": table.codes, "bernoulli": table.codes, "poisson": table.poisson}[family]


def values_of(table: Any, column: Column) -> Array | None:
    """The values of a numeric column, NaN where missing; None for words."""
    return None if column.family == "multinomial" else np.asarray(_block(table, column.family)[:, column.place], dtype=float)


def complete_rows(table: Any) -> np.ndarray:
    """Rows without a missing value: only their log p(x) compare with one another."""
    blocks = [b for b in table if b is not None and not isinstance(b, Sparse)]
    n = next(b.shape[0] for b in table if b is not None)
    keep = np.ones(n, dtype=bool)
    for block in blocks:
        keep &= ~np.isnan(block).any(axis=1) if block.dtype.kind == "f" else (block >= 0).all(axis=1)
    return np.flatnonzero(keep)
