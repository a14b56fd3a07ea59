"""Why a row was called so: what each of its values says for the class called, against the runner-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallies.bayes.answers import Fitted
from tallies.bayes.door import Table
from tallies.data.table import Sparse, table_rows
from tallies.maths import Array

if TYPE_CHECKING:
    import pandas as pd

BESIDES = ["(spread)", "(prior)"]  # what speaks for a class besides the columns: columns -2 and -1


class Reasons(NamedTuple):
    """What the cells of a table add to the log odds of the class called against the runner-up, row by row, the largest first."""

    row: np.ndarray  # (m,)
    column: np.ndarray  # (m,)  -1: the prior; -2: what covariances of each class say of any row
    value: Array  # (m,)  as in the table: a number, the code of a state, NaN for no value
    contribution: Array  # (m,)  those of a row add up to its log odds

    @classmethod
    def of(cls, fitted: Fitted, table: Table, a: np.ndarray, b: np.ndarray) -> Reasons:
        """Of every cell (of counts, of those that are not 0), for classes a against b of each row."""
        rows, params = np.arange(table_rows(table)), fitted.params
        none, blocks = np.full(len(rows), np.nan), np.array([block for block, _ in fitted.layout.places()])
        parts: list[Any] = [(rows, np.full(len(rows), -1), none, params.log_prior[a] - params.log_prior[b])]
        laws: tuple[Any, ...] = params.laws
        for place, (law, block) in enumerate(zip(laws, table, strict=True)):
            if law is None or block is None:
                continue
            cells, rest = law.odds(block, a, b)
            if isinstance(block, Sparse):
                i, at, value = np.repeat(rows, np.diff(block.indptr)), block.indices, block.data
            else:
                (i, at), value = np.indices(cells.shape).reshape(2, -1), block.ravel()
            parts.append((i, np.flatnonzero(blocks == place)[at], value, cells.ravel()))
            if np.any(rest):
                parts.append((rows, np.full(len(rows), -2), none, rest))
        found = cls(*(np.concatenate(values) for values in zip(*parts, strict=True)))
        order = np.lexsort((-np.abs(found.contribution), found.row))
        return cls(*(values[order] for values in found))


def two_best(J: Array) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the class called and of the runner-up of each row, from log p(x, k).

    >>> two_best(np.log([[0.2, 0.7, 0.1]]))
    (array([1]), array([0]))
    """
    called = J.argmax(axis=1)
    rest = np.where(np.arange(J.shape[1]) == called[:, None], -np.inf, J)
    impossible = np.isneginf(rest).all(axis=1)  # all the others: any of them will do
    return called, np.where(impossible, (called + 1) % J.shape[1], rest.argmax(axis=1))


def explained(fitted: Fitted, found: Reasons, values: list[np.ndarray], rows: Any, a: np.ndarray, b: np.ndarray) -> pd.DataFrame:
    """Reasons as a table, with the names of rows, and with `values` of the columns as they came where the table is not sparse."""
    from pandas import DataFrame

    i, j = found.row, found.column
    value = found.value.astype(object)
    value[j < 0] = None
    if values:
        cells = np.array([column.astype(object) for column in values])
        value[j >= 0] = cells[j[j >= 0], i[j >= 0]]
    names = np.array([*fitted.names(), *BESIDES], dtype=object)
    told = {"row": np.asarray(rows)[i], "predicted": fitted.classes[a][i], "against": fitted.classes[b][i]}
    return DataFrame(told | {"feature": names[j], "value": value, "contribution": found.contribution})
