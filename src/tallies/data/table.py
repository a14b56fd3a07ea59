"""Tables at the door: arrays and data frames in, blocks of columns with equal rows out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import narwhals as nw
import numpy as np

from tallies.data.kinds import from_file
from tallies.errors import DataError

MOST = 1e50  # largest weight, and one over the smallest: products of two weights and their sums stay in the range of floats
LARGEST = 1e60  # numbers beyond count as infinite: fourth powers of smaller ones, times weights, are in the range of floats
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


def column_names(X: Any) -> list[str] | None:
    """The names of the columns of a data frame; None where there are none, or not all of them are texts."""
    names = _names(X)
    return names if names and all(isinstance(name, str) for name in names) else None


def _names(X: Any) -> list[Any]:
    names = getattr(X, "column_names", getattr(X, "columns", None))  # pyarrow calls the data themselves `columns`
    return [] if names is None or callable(names) else list(names)


def in_fitted_order(estimator: Any, X: Any) -> Any:
    """A data frame with the columns that the estimator was fitted on, in their order: they are matched by name. Anything else stays
    as it is, for scikit-learn to compare."""
    known, names = getattr(estimator, "feature_names_in_", None), column_names(X)
    if known is None or names is None or names == known.tolist() or set(names) != set(known):
        return X
    frame = nw.from_native(X, pass_through=True)
    return frame.select(known.tolist()).to_native() if isinstance(frame, nw.DataFrame | nw.LazyFrame) else X


def check_names(X: Any) -> None:
    """Refuse a data frame with two columns of one name, of which neither can be asked for; and a dict, or a list of them, whose
    columns nobody has laid out."""
    given = X[0] if isinstance(X, list) and X else X
    if isinstance(given, Mapping) and not hasattr(given, "tocsr"):  # which a sparse matrix of keys has
        lot = "a dict" if given is X else "a list of dicts"
        raise DataError(f"expected a table (a data frame, an array, a path), got {lot}; pass pandas.DataFrame of it")
    twice = [name for name, count in Counter(_names(X)).items() if count > 1]
    if twice:
        raise DataError(f"column names must differ, but {twice[:5]} occur more than once; rename or drop them")


def refuse_dates(X: Any) -> None:
    """Refuse an array of dates, which numpy would take as numbers."""
    kind = getattr(X, "dtype", None)
    if getattr(kind, "kind", "") in ("m", "M"):
        raise DataError(f"expected numbers, got dates ({kind}); turn them into numbers, such as days since the first")


def of_dates(error: Exception) -> bool:
    """Whether a library has met a date where numbers are expected; it names the type of the date, or quotes a text that is none.

    >>> of_dates(TypeError("float() argument must be a number, not 'Timestamp'")), of_dates(ValueError("no float: 'candidate'"))
    (True, False)
    """
    told = str(error)
    return re.search(r"(?i:datetime|timedelta)|Timestamp|'Period'|'date'", told) is not None and "could not convert" not in told


def check_weights(sample_weight: Any, n: int) -> np.ndarray:
    """The weights of n rows as floats: 1 each where none are given.

    >>> check_weights(None, 2), check_weights([0, 3], 2)
    (array([1., 1.]), array([0., 3.]))
    """
    if sample_weight is None:
        return np.ones(n)
    from sklearn.utils.validation import _check_sample_weight

    try:
        weight = _check_sample_weight(sample_weight, np.empty((n, 1)), dtype=np.float64)
    except ValueError as error:
        raise DataError(f"sample_weight must be {n} finite numbers from 0 on, one a row: {error}") from error
    if (weight < 0).any():
        raise DataError(f"sample_weight must not be negative, got {weight.min()}; leave rows out with a weight of 0")
    if weight.max(initial=0.0) > MOST or weight.min(initial=MOST, where=weight > 0) < 1 / MOST:
        raise DataError(f"sample_weight must be 0, or from {1 / MOST:g} to {MOST:g}; multiply all weights by one number")
    if not weight.any():
        raise DataError("sample_weight is zero for every row, so there is nothing to fit; give some row a positive weight")
    return weight


def checked(estimator: Any, X: Any, reset: bool, **rules: Any) -> Any:
    """X after scikit-learn's checks by these rules; unless `reset`, it must have the columns that the estimator was fitted on,
    in any order where they have names.

    Nothing is set on the estimator: what it was fitted on is in its record, see `estimator.Inputs`.
    """
    from sklearn.utils.validation import check_array, validate_data

    from tallies.data.cells import is_cells

    if is_cells(X):
        name = type(estimator).__name__
        raise DataError(
            f"{name} takes a table here, but X is an AnnData, or a file of one; pass columns of it: X[:, GENES].to_df()"
        )
    check_names(X)
    refuse_dates(X)
    kinds = getattr(X, "dtypes", ())
    if any(getattr(kind, "kind", "") == "c" for kind in (kinds if np.iterable(kinds) else ())):  # of arrays scikit-learn tells
        raise DataError("Complex data not supported: some columns hold complex numbers; take their real parts, or leave them out")
    with np.errstate(over="ignore", invalid="ignore"):  # a sum may overflow while it looks for infinities
        if reset:
            return check_array(X, estimator=estimator, input_name="X", **rules)
        return validate_data(estimator, in_fitted_order(estimator, X), reset=False, **rules)


def dense(estimator: Any, X: Any, reset: bool) -> np.ndarray:
    """X as a float array (float32 and float64 as they are), NaN for missing; names are compared unless `reset`.

    Infinities are left to the caller, who meets them anyway in its first pass.
    """
    X = X if reset else from_file(X, model=estimator)[0]
    try:
        return checked(estimator, X, reset, dtype=[np.float64, np.float32], ensure_all_finite=False, ensure_min_features=1)
    except (TypeError, ValueError) as error:
        if of_dates(error):
            raise DataError(
                f"{type(estimator).__name__} expects numbers in every column, but some hold dates ({error}); turn them into numbers"
            ) from error
        if "could not convert" in str(error):
            raise DataError(
                f"{type(estimator).__name__} expects numbers in every column, but {error}; "
                "encode or drop such columns, or use NaiveBayes, which takes categories as they are"
            ) from error
        raise


def refuse_infinite(count: int) -> None:
    """The error for infinities and numbers beyond `LARGEST`, which have no density."""
    if count:
        raise DataError(
            f"X contains infinity in {count} cells, or numbers beyond {LARGEST:g}; expected finite numbers with finite "
            "squares, or NaN for missing: scale, replace or drop them"
        )
