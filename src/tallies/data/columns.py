"""Columns of a table as they are: their values, and the states of those that hold categories."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp

from tallies.data.kinds import from_file
from tallies.data.table import check_names, checked, in_fitted_order, refuse_infinite
from tallies.errors import DataError

DATES = (date, time, timedelta, np.datetime64, np.timedelta64)  # a date with a time is a date, too


def read_columns(estimator: Any, X: Any, reset: bool, **rules: Any) -> tuple[Any, list[Any] | None, list[np.ndarray]]:
    """X, the names of its columns (None where it is no data frame), and their values (none of a sparse matrix, where the rules
    allow one). Unless `reset`, the columns must be those that the estimator was fitted on, and are put in their order by name."""
    X = X if reset else from_file(X, model=estimator)[0]
    check_names(X)
    X = X if reset else in_fitted_order(estimator, X)
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        X = checked(estimator, X, reset, dtype=None, ensure_all_finite=False, ensure_min_features=1, **rules)
        return X, None, [] if sp.issparse(X) else [values_of(column) for column in X.T]
    if not reset:
        from sklearn.utils.validation import validate_data

        validate_data(estimator, X, reset=False, skip_check_array=True)
    if 0 in frame.shape:
        raise DataError(f"X must have rows and columns, but it has {frame.shape[0]} sample(s) and {frame.shape[1]} feature(s)")
    return X, list(frame.columns), [values_of(column) for column in frame.iter_columns()]


def values_of(column: Any) -> np.ndarray:
    """A column as numbers or booleans where it holds nothing else, else as objects; NaN or None where missing."""
    if isinstance(column, nw.Series):
        dtype = column.dtype
        period = str(getattr(column.to_native(), "dtype", "")).startswith("period")  # of pandas, which narwhals does not know
        if dtype.is_temporal() or dtype.is_nested() or period:
            what, held = "lists" if dtype.is_nested() else "dates", "Period" if period else dtype
            raise DataError(f"column {column.name!r} holds {held}, which has no family; turn {what} into numbers or categories")
        if dtype.is_numeric():
            whole = dtype.is_integer() and column.null_count() == 0
            return column.to_numpy() if whole else column.cast(nw.Float64).to_numpy()
        if dtype == nw.Boolean and column.null_count() == 0:
            return column.to_numpy().astype(bool)
        values = np.fromiter(column.to_list(), dtype=object, count=len(column))
        if dtype != nw.Object:  # strings and categories stay what they are, even where they look like numbers
            return values
        column = values
    if column.dtype.kind in "fiub":
        return column
    if column.dtype.kind in "mM":
        raise DataError(f"a column holds {column.dtype}, which has no family; turn dates into numbers or categories")
    from pandas import Period, isna

    values = column.astype(object)
    present = values[~isna(values)]
    kinds = {type(value) for value in present}
    if kinds and all(issubclass(kind, float | int | np.floating | np.integer | Decimal) and kind is not bool for kind in kinds):
        return np.where(isna(values), np.nan, values).astype(float)
    for value in present:
        if isinstance(value, (*DATES, Period)):
            raise DataError(f"a column holds {value!r}, a date, which has no family; turn dates into numbers or categories")
        if not isinstance(value, str | bytes | bool | np.bool_ | float | int | np.number | tuple):
            # scikit-learn's words for a cell that is neither
            raise TypeError(f"argument must be a string or a number, not {type(value).__name__!r}: {value!r}")
    return values


def absent_in(values: np.ndarray) -> np.ndarray:
    """True where a value is missing: those that are objects are asked by pandas, which takes 60 MB of a worker."""
    if values.dtype.kind in "fiub":
        return np.isnan(values)
    from pandas import isna

    return isna(values)


def states_of(values: np.ndarray, family: str) -> np.ndarray:
    """The states of a coded column, in order, missing left out."""
    if family == "bernoulli":
        return np.array([False, True])
    if values.dtype.kind == "f":
        refuse_infinite(int(np.isinf(values).sum()))
    from pandas import factorize

    try:
        _, states = factorize(values)
    except TypeError as error:  # such as lists, which have no hash
        raise DataError(f"a column holds values that are no categories ({error}); turn them into numbers or texts") from error
    try:
        return np.sort(np.asarray(states))
    except (TypeError, ValueError):  # states of several types (or tuples beside numbers) have no order: they stay as first met
        return np.asarray(states, dtype=object)
