"""Tables at the door: arrays and data frames in, blocks of columns with equal rows out."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.utils.validation import validate_data

from tallies.errors import DataError

Table = TypeVar("Table", bound=tuple)  # a named tuple of blocks: arrays, Sparse, or None for an empty block


class Sparse(NamedTuple):
    """The arrays of a CSR matrix: a shard of it is a view (scipy copies when it slices rows)."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.indptr) - 1, self.width

    def rows(self, rows: slice) -> Sparse:
        first, last = self.indptr[rows.start], self.indptr[rows.stop]
        return Sparse(self.data[first:last], self.indices[first:last], self.indptr[rows.start : rows.stop + 1] - first, self.width)


def sparse(matrix: Any) -> Sparse:
    """The arrays of any scipy matrix, as CSR."""
    csr = matrix if matrix.format == "csr" else matrix.tocsr()
    return Sparse(csr.data, csr.indices, csr.indptr, csr.shape[1])


def take_rows(table: Table, rows: slice) -> Table:
    """The given rows of every block, without copying."""
    cut = (None if b is None else b.rows(rows) if isinstance(b, Sparse) else b[rows] for b in table)
    return type(table)(*cut)  # type: ignore[arg-type]


def table_rows(table: tuple) -> int:
    """Rows of a table."""
    return next(block.shape[0] for block in table if block is not None)


def table_bytes(table: tuple) -> int:
    """Bytes that a table holds."""
    arrays = (part for block in table if block is not None for part in (block[:3] if isinstance(block, Sparse) else (block,)))
    return sum(array.nbytes for array in arrays)


def check_names(X: Any) -> None:
    """Refuse a data frame with two columns of one name: neither can be asked for."""
    names = getattr(X, "columns", None)
    if names is None or callable(names):
        names = getattr(X, "column_names", None)  # pyarrow
    if names is None or not all(isinstance(name, str) for name in names):
        return
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"column names must differ, but {twice[:5]} occur more than once; rename or drop them")


def dense(model: Any, X: Any, reset: bool) -> np.ndarray:
    """X as a float array (float32 and float64 as they are), NaN for missing; names kept on the model when `reset`.

    Infinities are left to the caller, who meets them anyway in its first pass.
    """
    check_names(X)
    try:
        return validate_data(model, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False, ensure_min_features=1)
    except ValueError as error:
        if "could not convert" in str(error):
            raise DataError(
                f"{type(model).__name__} expects numbers in every column, but {error}; "
                "encode or drop such columns, or use NaiveBayes, which takes categories as they are"
            ) from error
        raise


def refuse_infinite(count: int) -> None:
    """The error for infinities, which have no density."""
    if count:
        raise DataError(f"X contains infinity in {count} cells; expected finite numbers, or NaN for missing: replace or drop them")
