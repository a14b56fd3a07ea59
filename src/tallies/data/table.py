"""Tables at the door: arrays and data frames in, blocks of columns with equal rows out."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from tallies.errors import DataError

Table = TypeVar("Table", bound=tuple)  # a named tuple of blocks: arrays, CSR matrices, or None for an empty block


def take_rows(table: Table, rows: slice) -> Table:
    """The given rows of every block, without copying."""
    return type(table)(*(None if block is None else _rows(block, rows) for block in table))  # type: ignore[arg-type]


def _rows(block: Any, rows: slice) -> Any:
    if not sp.issparse(block):
        return block[rows]
    # scipy copies when it slices rows; a CSR block is cut by moving the ends
    first, last = block.indptr[rows.start], block.indptr[rows.stop]
    parts = block.data[first:last], block.indices[first:last], block.indptr[rows.start : rows.stop + 1] - first
    return sp.csr_array(parts, shape=(rows.stop - rows.start, block.shape[1]), copy=False)


def table_rows(table: tuple) -> int:
    """Rows of a table."""
    return next(block.shape[0] for block in table if block is not None)


def table_bytes(table: tuple) -> int:
    """Bytes that a table holds."""
    parts = (p for b in table if b is not None for p in ((b.data, b.indices, b.indptr) if sp.issparse(b) else (b,)))
    return sum(part.nbytes for part in parts)


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
