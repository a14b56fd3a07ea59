"""Covariates and offsets beside counts: matched to their rows and columns by name where both have names, and validated."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import scipy.sparse as sp

from tallies.counts.filed import Filed, compact
from tallies.counts.offsets import OFFSETS
from tallies.counts.tables import HIDDEN, Counts, frame_numbers, row_names
from tallies.data.table import LARGEST, check_names, refuse_dates
from tallies.errors import DataError, DataWarning, nearest

MOST_OFFSET = 300.0  # exp(300) is the most effort, and exp(-300) the least, that leaves room for rates
BEYOND = 25.0  # nats by which offsets may vary more than the logarithms of the counts do: efforts that differ by a factor of e^25


# by name


def in_order(table: Counts, names: Sequence[str]) -> Counts:
    """Counts whose columns are those of the fit, in its order."""
    known = list(table.columns if table.columns is not None else names)
    if known == list(names):
        return table
    _absent("counts lack the columns", names, known, "pass all columns of the fit")
    extra = [name for name in known if name not in set(names)]
    if extra:
        told = f"counts have columns {extra[:5]} ({len(extra)} in all) that the fit did not have"
        raise DataError(f"{told}; drop them: those of the fit are in feature_names_in_")
    at = [known.index(name) for name in names]
    missing = None if table.missing is None else table.missing[:, at]
    return Counts(np.ascontiguousarray(table.Y[:, at]), missing, table.rows, np.array(names, dtype=object))


def rows_in_order(table: pd.DataFrame, rows: np.ndarray | None, n: int, what: str) -> pd.DataFrame:
    """A table in the order of the rows of the counts, where both have names; numbers from 0 on are names beside the like."""
    index = row_names(table)
    if index is None and rows is None:
        return table
    names, found = (np.arange(k).astype(str) if known is None else known for known, k in ((rows, n), (index, len(table))))
    if (index is None or rows is None) and set(found) != set(names):
        return table  # only one of them has names
    _absent(f"{what} have no row for samples", names, found, "their index must name the rows of the counts")
    again = pd.Index(found)
    if not again.is_unique:
        raise DataError(f"{what} have several rows for samples {again[again.duplicated()][:5].tolist()}; keep one each")
    left = len(found) - len(set(names))
    if left:
        warnings.warn(f"{left} rows of {what} have no counts and are left out", DataWarning, stacklevel=4)
    return table.set_axis(again).loc[list(names)]


def columns_in_order(frame: nw.DataFrame, names: Iterable[str], what: str, remedy: str) -> nw.DataFrame:
    """The columns of a frame that have these names, in their order."""
    known = {str(c): c for c in frame.columns}
    _absent(f"{what} lack the columns", names, known, remedy)
    left = [c for c in known if c not in set(names)]
    if left:
        warnings.warn(f"columns {left[:5]} of {what} ({len(left)} in all) are left out", DataWarning, stacklevel=4)
    return frame.select([known[name] for name in names])


def _absent(told: str, names: Iterable[str], known: Iterable[str], remedy: str) -> None:
    there = set(known)
    absent = [str(name) for name in names if name not in there]
    if absent:
        near = nearest(absent[0], sorted(map(str, there)))
        raise DataError(f"{told} {absent[:5]}{' ...' * (len(absent) > 5)}; {remedy}: {near}")


# offsets


def as_offsets(offsets: Any, counts: Counts) -> np.ndarray:
    """Offsets (n, p) on the log scale, -1e4 where a count is missing, from None, a rule, or logarithms: an array (n,), (n, 1) or
    (n, p), or a frame or series, which is matched by the names of its rows and columns. Beside sparse counts they are (n, 1)."""
    n, p = (counts.Y.shape[0], 1) if compact(counts.Y) else counts.Y.shape
    if offsets is None:
        O = np.zeros((n, p))
    elif isinstance(offsets, str):
        if offsets not in OFFSETS:
            raise DataError(f"offsets must be None, an array, or one of {', '.join(sorted(OFFSETS))}; got {offsets!r}")
        O = np.repeat(OFFSETS[offsets](counts.values)[:, None], p, axis=1)
    else:
        O = given_offsets(offsets, n, p, counts.rows, None if p == 1 else counts.columns, counts.missing)
        _refuse_efforts(O, counts)
    if counts.missing is not None:
        O[counts.missing] = HIDDEN
    return O


def one_a_row(offsets: Any) -> bool:
    """Whether offsets are one number a row, which sparse counts need."""
    if offsets is None or isinstance(offsets, str):
        return offsets in (None, "logsum", "tss")
    return np.ndim(offsets) == 1 or np.shape(offsets)[1:] == (1,)


def given_offsets(
    offsets: Any, n: int, p: int, rows: np.ndarray | None, columns: np.ndarray | None, missing: np.ndarray | None = None
) -> np.ndarray:
    """Logarithms (n, p) that a user gave; where a count is missing they may be anything."""
    check_names(offsets)
    if isinstance(offsets, pd.Series | pd.DataFrame):
        offsets = rows_in_order(pd.DataFrame(offsets), rows, n, "offsets")
    frame = nw.from_native(offsets, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        names = [str(c) for c in frame.columns]
        if len(names) > 1 and columns is not None and names != [str(j) for j in range(p)]:
            remedy = "name them as those of the counts, or pass one column for all, or an array"
            frame = columns_in_order(frame, columns, "offsets", remedy)
        offsets = frame_numbers(frame, "offsets {} are not numbers; drop them, or use the first as row names")
    elif isinstance(frame, nw.Series):
        offsets = frame.to_numpy()
    O = as_numbers(offsets, "offsets")
    if O.shape not in ((n,), (n, 1), (n, p)):
        raise DataError(f"offsets must have shape ({n},), ({n}, 1) or ({n}, {p}) like the counts, got {O.shape}")
    if not len(O):
        raise DataError("offsets are empty: there is no sample to speak of; pass one a sample")
    O = np.array(np.broadcast_to(O.reshape(n, -1), (n, p)), order="C")
    known = O if missing is None else O[~missing]
    if not np.isfinite(known).all():
        raise DataError(
            "offsets must be finite logarithms; an offset of -inf is an effort of 0: make that count missing (NaN), or drop the row"
        )
    if (np.abs(known) > MOST_OFFSET).any():
        worst = known.flat[np.abs(known).argmax()]
        raise DataError(f"offsets are logarithms, from {-MOST_OFFSET:g} to {MOST_OFFSET:g}, got {worst:g}; {TAKE_LOG}")
    return O


TAKE_LOG = 'take the log of the sampling effort, or let offsets="logsum" take that of the row sums'


def _refuse_efforts(O: np.ndarray, counts: Counts) -> None:
    """Refuse offsets that are efforts, such as row sums, and not their logarithms.

    Efforts that differ by a factor of exp(range of O) would show in the counts. Logarithms of totals are hardly ever whole; where
    they all are, they may vary by a nat more than the logarithms of the row sums, else by BEYOND nats more than those of a column.
    """
    known = O > HIDDEN if counts.missing is None else (O > HIDDEN) & ~counts.missing
    if not known.any():
        return
    among: Any = known if not known.all() else True  # True: a mask would slow every sum
    low, high = O.min(axis=0, initial=np.inf, where=among), O.max(axis=0, initial=-np.inf, where=among)
    total = counts.Y.sum(axis=1) if compact(counts.Y) else counts.Y.sum(axis=1, where=among)
    top: Any = counts.Y.top if isinstance(counts.Y, Filed) else counts.Y.max(axis=0)
    top = top.toarray() if sp.issparse(top) else top
    effort, many = O.sum(axis=1, where=among), known.sum(axis=1)
    total, effort = total[many > 0], effort[many > 0] / many[many > 0]
    steep = np.ptp(effort) > np.ptp(np.log1p(total)) + 1 or effort.min() > np.log1p(total.max()) + BEYOND
    wide = (high - low > np.log1p(top) + BEYOND).any()
    whole = (steep or wide) and bool((O[known] >= 0).all() and (O[known] == np.floor(O[known])).all())
    if (whole and steep) or wide:
        kind = "whole numbers" if whole else "numbers"
        raise DataError(
            f"offsets are logarithms of the sampling effort, but these are {kind} from {low.min():g} to {high.max():g} beside row "
            f"sums from {total.min():g} to {total.max():g}: they look like the effort itself; {TAKE_LOG}"
        )


# covariates


def as_design(covariates: Any, n: int, rows: np.ndarray | None, intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """The design matrix (n, d) and its column names; None is a column of ones."""
    if covariates is None:
        return np.ones((n, 1)), np.array(["intercept"], dtype=object)
    names = None
    check_names(covariates)
    if hasattr(covariates, "columns") or hasattr(covariates, "name"):
        covariates = covariates.to_frame() if isinstance(covariates, pd.Series) else covariates
        if isinstance(covariates, pd.DataFrame):
            check_names(covariates)
            covariates = rows_in_order(covariates, rows, n, "covariates")
        frame = nw.from_native(covariates, eager_only=True, allow_series=True)
        if isinstance(frame, nw.Series):
            frame = frame.to_frame()
        names = [str(c) for c in frame.columns]
        covariates = frame_numbers(frame, "covariates {} are not numbers; use PLN.from_formula, which encodes categories")
    X = as_numbers(covariates, "covariates")
    X = X[:, None] if X.ndim == 1 else X
    if X.ndim != 2 or len(X) != n:
        got = len(X) if X.ndim == 2 else f"shape {X.shape}"
        raise DataError(f"covariates must have one row a sample: expected {n} rows, got {got}; give one to each sample")
    if not (np.abs(X) <= LARGEST).all():
        raise DataError(
            f"covariates must be finite, at most {LARGEST:g}, and complete; fill in or drop rows with missing covariates"
        )
    names = names if names is not None else [f"x{k}" for k in range(X.shape[1])]
    if intercept:
        X, names = np.hstack([np.ones((n, 1)), X]), ["intercept", *names]
    if not names:
        raise DataError("covariates have no columns; pass None for an intercept alone")
    return X, np.array(names, dtype=object)


def as_numbers(values: Any, what: str) -> np.ndarray:
    """An array of numbers, from whatever is one."""
    refuse_dates(values)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be numbers, one row a sample, but {error}; encode or drop what is none") from error


def independent(X: np.ndarray, names: np.ndarray) -> None:
    """Refuse a design whose columns depend on each other: its coefficients have no values."""
    scale = np.linalg.norm(X, axis=0)
    if not scale.all() or np.linalg.matrix_rank(X / np.maximum(scale, 1e-300)) < X.shape[1]:
        raise DataError(
            f"covariates {list(names)} are collinear: {X.shape[1]} columns of rank {np.linalg.matrix_rank(X)} in "
            f"{len(X)} rows; drop some"
        )
