"""Count tables at the door: files, arrays and data frames in, validated arrays with their names out."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.utils import check_array

from tallies.counts.offsets import OFFSETS
from tallies.data.files import CELLS, KINDS, open_bytes, read_table, reading, refuse_nul
from tallies.data.table import LARGEST, check_names, refuse_dates
from tallies.errors import DataError, DataWarning, need, need_file

HIDDEN = -1e4  # offset of a missing count: exp(-1e4) is zero, so the cell drops out of the likelihood

PATIENCE = 60  # seconds in which a process of its own must have listed what is in an .h5ad file
LISTING = """
import h5py, sys
def read(name, item):
    dict(item.attrs)
    if isinstance(item, h5py.Dataset):
        item.chunks and item.id.get_num_chunks()
        item.dtype.kind == "O" and item[()]
with h5py.File(sys.argv[1], "r") as file:
    dict(file.attrs)
    file.visititems(read)
"""
MOST_OFFSET = 300.0  # exp(300) is the most effort that leaves room for rates


class Counts(NamedTuple):
    """Counts with the names of their rows and columns."""

    Y: np.ndarray  # float, 0 where missing                         (n, p)
    missing: np.ndarray | None  # where                             (n, p)
    rows: np.ndarray | None  # names, None where there are none     (n,)
    columns: np.ndarray | None  #                                   (p,)

    @property
    def values(self) -> np.ndarray:
        """Counts, NaN where missing (n, p)."""
        return self.Y if self.missing is None else np.where(self.missing, np.nan, self.Y)


def read_counts(path: str | Path, *, transpose: bool = False) -> pd.DataFrame:
    """Read a count table: any that `read_table` reads, .mtx, .h5ad or .biom. Rows are samples; `transpose` turns it.

    A first column that is not numeric names the rows. Beside `counts.mtx`, files `counts.rows.txt` and `counts.columns.txt`
    (one name a line) are used where they exist. BIOM stores samples as columns and is turned.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "counts.csv")
    >>> _ = open(path, "w").write("sample,oak,elm\\na,3,0\\nb,1,7\\n")
    >>> read_counts(path)
       oak  elm
    a    3    0
    b    1    7
    """
    path = need_file(path, "a count table")
    suffixes = [s.lower() for s in path.suffixes]
    kind = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in (".gz", ".zip") else (suffixes or [""])[-1]
    if kind not in (*KINDS, ".zip", ".mtx", ".h5ad", ".biom"):
        raise DataError(
            f"expected a .csv, .tsv, .xlsx, .parquet, .mtx, .h5ad or .biom file, got {path.name!r}; convert it to one of these"
        )
    with reading(path, kind):
        if kind in KINDS or kind == ".zip":
            table = named_rows(read_table(path))
        elif kind == ".mtx":
            table = _read_mtx(path)
        elif kind == ".h5ad":
            anndata = need("anndata", "anndata", "Reading .h5ad")
            _probe(path)
            table = _from_anndata(anndata.read_h5ad(path))
        else:
            stored = need("biom", "biom", "Reading .biom", package="biom-format").load_table(str(path))
            table = pd.DataFrame(_laid_out(stored.matrix_data).T, index=stored.ids("sample"), columns=stored.ids("observation"))
        check_names(table)
    return table.T if transpose else table


def plain(counts: Any) -> Any:
    """Counts as they are; those of an AnnData as a data frame."""
    return _from_anndata(counts) if type(counts).__module__.split(".")[0] == "anndata" else counts


def as_counts(counts: Any) -> Counts:
    """Validate counts given as an array, sparse matrix, data frame, AnnData or list of lists."""
    counts, rows, columns = plain(counts), None, None
    check_names(counts)
    refuse_dates(counts)
    if hasattr(counts, "columns") or type(counts).__module__.startswith("pyarrow"):
        if isinstance(counts, pd.DataFrame) and not isinstance(counts.index, pd.RangeIndex):
            rows = np.asarray(counts.index.astype(str), dtype=object)
        frame = nw.from_native(counts, eager_only=True)
        columns = np.asarray([str(c) for c in frame.columns], dtype=object)
        counts = _numbers(frame, "counts must be numbers, but columns {} are not; drop them, or use the first as row names")
    try:  # data frames come column by column; the loops go along rows
        with np.errstate(over="ignore", invalid="ignore"):  # a sum may overflow while it looks for infinities
            Y = check_array(
                counts, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite="allow-nan", input_name="counts"
            )
    except ValueError as error:
        raise DataError(f"counts must be a table with rows and columns of finite numbers: {error}") from error
    Y = Y.toarray() if sp.issparse(Y) else Y
    missing = np.isnan(Y)
    if (Y < 0).any():
        raise DataError(
            f"Negative values in data: counts must not be negative, got {np.nanmin(Y):g}; are these counts, and not log ratios?"
        )
    with np.errstate(invalid="ignore"):
        broken = (np.floor(Y) != Y) & ~missing
    if broken.any():
        i, j = np.argwhere(broken)[0]
        raise DataError(
            f"counts must be whole numbers, got {Y[i, j]:g} in row {i}, column {j}; pass raw counts, and sampling effort as offsets"
        )
    return Counts(np.where(missing, 0.0, Y), missing, rows, columns) if missing.any() else Counts(Y, None, rows, columns)


def as_offsets(offsets: Any, counts: Counts) -> np.ndarray:
    """Offsets (n, p) on the log scale from None, a name, or an array (n,), (n, 1) or (n, p); -1e4 where a count is missing."""
    n, p = counts.Y.shape
    if offsets is None:
        O = np.zeros((n, p))
    elif isinstance(offsets, str):
        if offsets not in OFFSETS:
            raise DataError(f"offsets must be None, an array, or one of {', '.join(sorted(OFFSETS))}; got {offsets!r}")
        O = np.repeat(OFFSETS[offsets](counts.values)[:, None], p, axis=1)
    else:
        check_names(offsets)
        frame = nw.from_native(offsets, eager_only=True, allow_series=True, pass_through=True)
        O = as_numbers(frame.to_numpy() if isinstance(frame, nw.DataFrame | nw.Series) else offsets, "offsets")
        if O.shape not in ((n,), (n, 1), (n, p)):
            raise DataError(f"offsets must have shape ({n},), ({n}, 1) or ({n}, {p}) like the counts, got {O.shape}")
        O = np.array(np.broadcast_to(O.reshape(n, -1), (n, p)), order="C")
    known = slice(None) if counts.missing is None else ~counts.missing
    if not np.isfinite(O[known]).all():
        raise DataError(
            "offsets must be finite logarithms; an offset of -inf is an effort of 0: make that count missing (NaN), or drop the row"
        )
    if (O[known] > MOST_OFFSET).any() or (O[known] < HIDDEN).any():
        raise DataError(f"offsets are logarithms, from {HIDDEN:g} to {MOST_OFFSET:g}, got {np.abs(O[known]).max():g}; take the log")
    if counts.missing is not None:
        O[counts.missing] = HIDDEN
    return O


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
            covariates = _matched(covariates, rows)
        frame = nw.from_native(covariates, eager_only=True, allow_series=True)
        if isinstance(frame, nw.Series):
            frame = frame.to_frame()
        names = [str(c) for c in frame.columns]
        covariates = _numbers(frame, "covariates {} are not numbers; use PLN.from_formula, which encodes categories")
    X = as_numbers(covariates, "covariates")
    X = X[:, None] if X.ndim == 1 else X
    if X.ndim != 2 or len(X) != n:
        raise DataError(f"covariates must have one row a sample: expected {n} rows, got shape {X.shape}")
    if not (np.abs(X) <= LARGEST).all():
        raise DataError(
            f"covariates must be finite, at most {LARGEST:g}, and complete; fill in or drop rows with missing covariates"
        )
    names = names if names is not None else [f"x{k}" for k in range(X.shape[1])]
    if intercept:
        X, names = np.hstack([np.ones((n, 1)), X]), ["intercept", *names]
    return X, np.array(names, dtype=object)


def as_numbers(values: Any, what: str) -> np.ndarray:
    """An array of numbers, from whatever is one."""
    refuse_dates(values)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be numbers, one row a sample, but {error}; encode or drop what is none") from error


def _numbers(frame: Any, error: str) -> np.ndarray:
    """The values of a frame of numbers; the error names columns that are none."""
    text = [c for c, t in frame.schema.items() if not (t.is_numeric() or t == nw.Boolean)]
    if text:
        raise DataError(error.format(text[:5]))
    return frame.to_numpy()


def independent(X: np.ndarray, names: np.ndarray) -> None:
    """Refuse a design whose columns depend on each other: its coefficients have no values."""
    scale = np.linalg.norm(X, axis=0)
    if not scale.all() or np.linalg.matrix_rank(X / np.maximum(scale, 1e-300)) < X.shape[1]:
        raise DataError(
            f"covariates {list(names)} are collinear: {X.shape[1]} columns of rank {np.linalg.matrix_rank(X)} in "
            f"{len(X)} rows; drop some"
        )


def _matched(covariates: pd.DataFrame, rows: np.ndarray | None) -> pd.DataFrame:
    """Covariates in the order of the counts' rows, where both have names."""
    if rows is None or isinstance(covariates.index, pd.RangeIndex):
        return covariates
    index = covariates.index.astype(str)
    absent = [name for name in rows if name not in set(index)]
    if absent:
        raise DataError(f"covariates have no row for samples {absent[:5]}; their index must name the rows of the counts")
    if not index.is_unique:
        raise DataError(f"covariates have several rows for samples {index[index.duplicated()][:5].tolist()}; keep one each")
    if list(index) != list(rows):
        if set(index) != set(rows):
            warnings.warn(f"{len(index) - len(rows)} rows of covariates have no counts and are left out", DataWarning, stacklevel=4)
        covariates = covariates.set_axis(index).loc[list(rows)]
    return covariates


def named_rows(table: pd.DataFrame, keep: bool = False) -> pd.DataFrame:
    """Take a first column of text as row names; one to `keep`, since it may also be data, only where its texts are distinct."""
    first = table.columns[0]
    names = table[first].is_unique if keep else len(table.columns) > 1
    if names and not pd.api.types.is_numeric_dtype(table[first]):
        table = table.set_index(first, drop=not keep)
        table.index.name = None
    return table


def _read_mtx(path: Path) -> pd.DataFrame:
    from scipy.io import mmread

    refuse_nul(path)
    with open_bytes(path) as file:
        body = file.read()
    odd = re.search(rb"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]", body)  # at a control byte the reader below dies
    if odd:
        line = body.count(b"\n", 0, odd.start()) + 1
        raise DataError(f"line {line} of {str(path)!r} holds the control byte {odd[0]!r}; expected text: fetch it again")
    matrix = mmread(io.BytesIO(body + b"\n"))
    stem = path.name.split(".mtx")[0]
    names = []
    for what, size in zip(("rows", "columns"), matrix.shape, strict=True):
        beside = path.with_name(f"{stem}.{what}.txt")
        with reading(beside, "text"):
            found = [line for line in beside.read_text("utf-8").split("\n") if line] if beside.is_file() else None
        if found is not None and len(found) != size:
            raise DataError(f"{beside} names {len(found)} {what}, but {path.name} has {size}")
        names.append(found)
    return pd.DataFrame(_laid_out(matrix), index=names[0], columns=names[1])


def _laid_out(matrix: Any) -> np.ndarray:
    """A matrix in full, unless it has more cells than a table may have."""
    if np.prod([float(size) for size in matrix.shape]) > CELLS:
        raise DataError(f"a table of {' x '.join(f'{size:,}' for size in matrix.shape)} cells is too large; select rows or columns")
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def _probe(path: Path) -> None:
    """Refuse a file at whose names and texts the HDF5 library loops for ever or dies: another process reads them first."""
    try:
        ended = subprocess.run([sys.executable, "-c", LISTING, path], capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise DataError(
            f"what {str(path)!r} holds could not be listed in {PATIENCE} s, so it is damaged; fetch it again"
        ) from error
    if ended.returncode:
        told = ended.stderr.strip().splitlines()[-1:] or [f"its reader died of signal {-ended.returncode}"]
        raise DataError(f"{str(path)!r} cannot be read as .h5ad: {told[0][:300]}; it is damaged: fetch it again")


def _from_anndata(data: Any) -> pd.DataFrame:
    if data.X is None:
        raise DataError("expected counts as X of an AnnData, but it has no X; put them there")
    return pd.DataFrame(_laid_out(data.X), index=data.obs_names, columns=data.var_names)
