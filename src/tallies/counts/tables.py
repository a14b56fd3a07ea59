"""Count tables at the door: files, arrays and data frames in, validated arrays with their names out."""

from __future__ import annotations

import io
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.utils import check_array

from tallies.counts.filed import Filed
from tallies.data.cells import held_in, is_anndata, read_anndata
from tallies.data.files import CELLS, KINDS, open_bytes, read_table, reading, refuse_nul
from tallies.data.table import check_names, refuse_dates
from tallies.errors import DataError, need, need_file

LARGEST_COUNT = 2.0**53  # beyond, neighbours are no longer told apart
HIDDEN = -1e4  # offset of a missing count: exp(-1e4) is zero, so the cell drops out of the likelihood


class Counts(NamedTuple):
    """Counts with the names of their rows and columns."""

    Y: Any  # float, 0 where missing; an array or, with none missing, a CSR matrix or in files   (n, p)
    missing: np.ndarray | None  # where                             (n, p)
    rows: np.ndarray | None  # names, None where there are none     (n,)
    columns: np.ndarray | None  #                                   (p,)

    @property
    def values(self) -> np.ndarray:
        """Counts, NaN where missing (n, p)."""
        return self.Y if self.missing is None else np.where(self.missing, np.nan, self.Y)


class Named(NamedTuple):
    """A matrix of counts with names, as an AnnData has them."""

    X: Any  # sparse, or in files                                    (n, p)
    obs_names: np.ndarray | None  #                                 (n,)
    var_names: np.ndarray  #                                        (p,)


def read_counts(path: str | Path, *, transpose: bool = False) -> pd.DataFrame:
    """Read a count table: any that `read_table` reads, .mtx, .h5ad, .zarr or .biom. Rows are samples; `transpose` turns it.

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
    table = read_beside(path, ())
    return table.T if transpose else table


def read_beside(path: str | Path, asked: Collection[Any]) -> pd.DataFrame:
    """The table of `read_counts`, in which columns that are asked for by name stand beside the counts: none of them names rows."""
    path = Path(path) if Path(path).suffix.lower() == ".zarr" else need_file(path, "a count table")
    suffixes = [s.lower() for s in path.suffixes]
    kind = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in (".gz", ".zip") else (suffixes or [""])[-1]
    if kind not in (*KINDS, ".zip", ".mtx", ".h5ad", ".zarr", ".biom"):
        raise DataError(
            f"expected a .csv, .tsv, .xlsx, .parquet, .mtx, .h5ad or .biom file, got {path.name!r}; convert it to one of these"
        )
    with reading(path, kind):
        if kind in KINDS or kind == ".zip":
            table = named_rows(read_table(path), asked=asked)
        elif kind == ".mtx":
            table = _read_mtx(path)
        elif kind in (".h5ad", ".zarr"):
            table = _from_anndata(read_anndata(path))
        else:
            stored = need("biom", "biom", "Reading .biom", package="biom-format").load_table(str(path))
            table = pd.DataFrame(_laid_out(stored.matrix_data).T, index=stored.ids("sample"), columns=stored.ids("observation"))
        check_names(table)
    return table


def plain(counts: Any) -> Any:
    """Counts as they are; those of an AnnData as a data frame."""
    return _from_anndata(counts) if is_anndata(counts) else counts


def as_counts(counts: Any, sparse: bool = False) -> Counts:
    """Validate counts given as an array, sparse matrix, data frame, AnnData or list of lists. `sparse`: those that are stay so,
    unless some are missing."""
    rows, columns = None, None
    if isinstance(counts, Named):
        counts, rows, columns = counts
    if isinstance(counts, Filed):
        if not sparse:
            raise DataError(
                'these counts are more than is held in memory, so offsets must be one number a row: None, "logsum", "tss", or an '
                "array (n,); the other rules compare all samples with each other, and an array (n, p) is as large as the table"
            )
        return Counts(counts, None, rows, columns)
    elif sparse and is_anndata(counts) and not isinstance(counts.X, np.ndarray | None):
        rows, columns = (np.asarray(names.astype(str), dtype=object) for names in (counts.obs_names, counts.var_names))
        check_names(pd.DataFrame(columns=columns))
        counts = counts.X.to_memory() if hasattr(counts.X, "to_memory") else counts.X
    counts = plain(counts)
    check_names(counts)
    refuse_dates(counts)
    if hasattr(counts, "columns") or type(counts).__module__.startswith("pyarrow"):
        rows, frame = row_names(counts), nw.from_native(counts, eager_only=True)
        if list(frame.columns) != list(range(len(frame.columns))):
            columns = np.asarray([str(c) for c in frame.columns], dtype=object)
        counts = frame_numbers(frame, "counts must be numbers, but columns {} are not; drop them, or use the first as row names")
    try:  # data frames come column by column; the loops go along rows
        with np.errstate(over="ignore", invalid="ignore"):  # a sum may overflow while it looks for infinities
            Y = check_array(
                counts, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite="allow-nan", input_name="counts"
            )
    except ValueError as error:
        raise DataError(f"counts must be a table with rows and columns of finite numbers: {error}") from error
    if sp.issparse(Y) and not (sparse and np.isfinite(Y.data).all()):
        Y = Y.toarray()
    values = Y.data if sp.issparse(Y) else Y
    missing = np.isnan(values)
    if (values < 0).any():
        refuse_negative(np.nanmin(values))
    with np.errstate(invalid="ignore"):
        broken = (np.floor(values) != values) & ~missing
    if broken.any():
        where = np.argwhere(broken)[0]
        i, j = where if len(where) == 2 else (np.searchsorted(Y.indptr, where[0], side="right") - 1, Y.indices[where[0]])
        refuse_broken(i, j, Y[i, j])
    refuse_large(values.max(initial=0.0))
    if sp.issparse(Y):
        return Counts(sp.csr_array(Y), None, rows, columns)
    Y = np.where(missing, 0.0, Y) if missing.any() else Y
    return Counts(Y, missing if missing.any() else None, rows, columns)


def refuse_negative(low: float) -> None:
    """Refuse counts of which the smallest is below 0."""
    if low < 0:
        raise DataError(f"Negative values in data: counts must not be negative, got {low:g}; are these counts and not log ratios?")


def refuse_broken(i: int, j: int, value: float) -> None:
    """Refuse a count that is no whole number."""
    raise DataError(
        f"counts must be whole numbers, got {value:g} in row {i}, column {j}; pass raw counts, and sampling effort as offsets"
    )


def refuse_large(top: float) -> None:
    """Refuse counts of which the largest is not told from its neighbours."""
    if top > LARGEST_COUNT:
        raise DataError(f"counts must be at most {LARGEST_COUNT:g}, got {top:g}; is that column a count?")


def frame_numbers(frame: Any, error: str) -> np.ndarray:
    """The values of a frame of numbers; the error names columns that are none."""
    text = [c for c, t in frame.schema.items() if not (t.is_numeric() or t == nw.Boolean)]
    if text:
        raise DataError(error.format(text[:5]))
    return frame.to_numpy()


def row_names(table: Any) -> np.ndarray | None:
    """Names of the rows of a pandas table (n,); None where they are only numbered from 0 on."""
    index = getattr(table, "index", None)
    if not isinstance(index, pd.Index) or index.equals(pd.RangeIndex(len(index))):
        return None
    return np.asarray(index.astype(str), dtype=object)


def named_rows(table: pd.DataFrame, keep: bool = False, asked: Collection[Any] = ()) -> pd.DataFrame:
    """Take a first column of text as row names; one to `keep`, since it may also be data, only where its texts are distinct. One
    that is asked for by name is no row name."""
    first = table.columns[0]
    names = table[first].is_unique if keep else len(table.columns) > 1 and first not in asked
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
    matrix = mmread(io.BytesIO(body + b"\n"), spmatrix=False)
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


def _from_anndata(data: Any) -> pd.DataFrame:
    if data.X is None:
        raise DataError("expected counts as X of an AnnData, but it has no X; put them there")
    return pd.DataFrame(_laid_out(held_in(data)[0]), index=data.obs_names, columns=data.var_names)
