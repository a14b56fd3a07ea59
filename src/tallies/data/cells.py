"""Matrices of cells in files: the X of an .h5ad file or a .zarr folder, read some rows at a time; sparse rows stay sparse."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.data.files import reading
from tallies.data.lazy import LARGE
from tallies.errors import DataError, nearest, need, need_file
from tallies.mapped import Home

if TYPE_CHECKING:
    import pandas as pd

HELD = 256 << 20  # bytes of counts that are not 0, and their places, up to which a sparse matrix is held
AT_A_TIME = 1 << 22  # such counts that are read together
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


class Cells(NamedTuple):
    """The matrix X of an .h5ad file or a .zarr folder, sparse by rows or laid out."""

    home: Home  # folder of the file
    file: str
    width: int
    stamp: tuple[int, int]  # bytes of the file, and when it was written

    @property
    def path(self) -> str:
        return os.path.join(self.home.path, self.file)

    def read(self, first: int, stop: int) -> sp.csr_array:
        """Some of the rows, sparse."""
        return sp.csr_array(self.block(first, stop))

    def block(self, first: int, stop: int) -> Any:
        """Some of the rows, sparse or laid out as they are in the file."""
        with opened(self.path) as file:
            X = file["X"]
            if not is_group(X):
                return np.asarray(X[first:stop])
            ptr = np.asarray(X["indptr"][first : stop + 1]).astype(np.int64)
            inside = slice(int(ptr[0]), int(ptr[-1]))
            rows = csr_of(np.asarray(X["data"][inside]), np.asarray(X["indices"][inside]), ptr, self.width)
            rows.check_format(full_check=True)  # loops would trust what is in the file
            return rows


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """The groups of an .h5ad file or a .zarr folder."""
    with reading(path, os.path.splitext(path)[1]):
        if path.lower().endswith(".zarr"):
            yield need("zarr", "anndata", "Reading .zarr", package="zarr").open_group(path, mode="r")
        else:
            with need("h5py", "anndata", "Reading .h5ad", package="h5py").File(path, "r") as file:
                yield file


def is_group(X: Any) -> bool:
    """Whether a matrix is stored by the parts of a sparse one."""
    return hasattr(X, "keys")


def csr_of(data: np.ndarray, indices: np.ndarray, ptr: np.ndarray, width: int) -> sp.csr_array:
    """Some rows of a larger matrix, by its parts."""
    return sp.csr_array((data, indices, ptr - ptr[0]), shape=(len(ptr) - 1, width))


class Matrix(NamedTuple):
    """A matrix of cells, and what must be known of all of it to read parts."""

    cells: Cells
    ptr: np.ndarray  # where the numbers of each row begin           (n+1,)
    rows: np.ndarray  # their names                                  (n,)
    columns: np.ndarray  #                                           (p,)
    nbytes: int  # of its numbers, and of their places

    def laid_out(self) -> Matrix:
        """The same for who lays its rows out: all cells count as numbers that are stored."""
        return self._replace(ptr=np.arange(len(self.ptr)) * len(self.columns))

    def spans(self, size: int | None = None) -> list[tuple[int, int]]:
        """The rows in pieces of about so many numbers."""
        ptr, n, size = self.ptr, len(self.rows), size or AT_A_TIME
        ends = np.unique([0, *np.searchsorted(ptr[:-1], np.arange(size, ptr[-1], size)), n])
        return [(int(a), int(b)) for a, b in pairwise(ends)]


def matrix_in(path: Path, sparse: int, full: int) -> Matrix | None:
    """The matrix of an .h5ad file or a .zarr folder, if it takes more than so many bytes, sparse by rows or laid out; None where it
    is to be read whole."""
    need("anndata", "anndata", "Reading .h5ad")
    if path.suffix.lower() == ".h5ad":
        probe(path)
    with opened(str(path)) as file:
        X = file.get("X")
        kind = None if X is None else str(dict(X.attrs).get("encoding-type", ""))
        if X is None or kind not in ("csr_matrix", "array", ""):
            return None
        if is_group(X):
            n, p = (int(size) for size in X.attrs["shape"])
            if int(X["data"].shape[0]) * (X["data"].dtype.itemsize + 4) <= sparse:
                return None
            ptr = np.asarray(X["indptr"][:]).astype(np.int64)
            nbytes = sum(int(X[part].shape[0]) * X[part].dtype.itemsize for part in ("data", "indices", "indptr"))
        else:
            n, p = X.shape
            nbytes = n * p * X.dtype.itemsize
            if nbytes <= full:
                return None
            ptr = np.arange(n + 1) * p
        rows, columns = (names_in(file[what]) for what in ("obs", "var"))
    if len(rows) != n or len(columns) != p or len(ptr) != n + 1 or (np.diff(ptr) < 0).any() or not n:
        raise DataError(f"{str(path)!r} is damaged: its names are of {len(rows)} x {len(columns)} counts, its matrix of {n} x {p}")
    about, home = os.stat(path), os.path.abspath(path)
    cells = Cells(Home(os.path.dirname(home)), os.path.basename(home), p, (about.st_size, about.st_mtime_ns))
    return Matrix(cells, ptr, rows, columns, nbytes)


def matrix_of(X: Any, small: bool = False) -> Matrix | None:
    """The matrix of a path, or of an AnnData that leaves it in a file; None where it is small, unless asked for, and read whole."""
    path = cells_of(X)
    return None if path is None else matrix_in(path, 0 if small else HELD, 0 if small else LARGE)


def held_in(X: Any) -> tuple[Any, np.ndarray]:
    """The matrix of an AnnData, or of such a file, in memory: CSR or an array, and the names of its columns."""
    data = X if is_anndata(X) else read_anndata(Path(X))
    if data.X is None:
        raise DataError("expected numbers as X of an AnnData, but it has no X; put them there")
    matrix = data.X.to_memory() if hasattr(data.X, "to_memory") else data.X
    names = np.asarray(data.var_names.astype(str), dtype=object)
    return sp.csr_array(matrix) if sp.issparse(matrix) else np.asarray(matrix), names


def beside(X: Any, column: Any, role: str) -> Any:
    """What a role names of the rows of an AnnData, or of such a file: a column of its obs; anything but a name as it is."""
    if not isinstance(column, str):
        return column
    if is_anndata(X):
        obs, names = X.obs, list(X.obs)
    else:
        names = _columns_of_obs(str(X))
        with opened(str(X)) as file:
            obs = {column: _element(file["obs"][column])} if column in names else {}
    if column not in names:
        raise DataError(f"the {role} should be in the column {column!r} of obs, which is not there; {nearest(column, names)}")
    return np.asarray(obs[column])


def table_beside(X: Any, columns: list[str] | None = None) -> pd.DataFrame:
    """Columns of the obs of an AnnData, or of such a file, under the names of its rows; None: all of them."""
    import pandas as pd

    if columns is None:
        columns = list(X.obs) if is_anndata(X) else _columns_of_obs(str(X))
    rows = pd.Index(X.obs_names if is_anndata(X) else names_of_rows(str(X)))
    found = {name: beside(X, name, "covariates") for name in columns}
    return pd.DataFrame(found, index=rows if rows.is_unique else None)  # names that are not unique say nothing of an order


def _columns_of_obs(path: str) -> list[str]:
    with opened(path) as file:
        return [str(name) for name in file["obs"].attrs["column-order"]]


def names_in(group: Any) -> np.ndarray:
    """Names of rows, or of columns."""
    found = _element(group[str(group.attrs["_index"])])
    return np.asarray([name if isinstance(name, str) else str(name) for name in found], dtype=object)


def names_of_rows(path: str) -> np.ndarray:
    """Names of the rows of a file."""
    with opened(path) as file:
        return names_in(file["obs"])


def _element(stored: Any) -> Any:
    from anndata.io import read_elem

    return read_elem(stored)


def cells_of(counts: Any) -> Path | None:
    """The .h5ad file or .zarr folder that counts are, or that an AnnData reads them from; None where there is none."""
    if is_backed(counts):
        return Path(counts.filename)
    known = isinstance(counts, str | Path) and Path(counts).suffix.lower() in (".h5ad", ".zarr")
    return Path(counts) if known and Path(counts).exists() else None


def is_cells(X: Any) -> bool:
    """Whether X is an AnnData, an .h5ad file or a .zarr folder."""
    return is_anndata(X) or cells_of(X) is not None


def is_anndata(counts: Any) -> bool:
    """Whether this is an AnnData."""
    return type(counts).__module__.split(".")[0] == "anndata"


def is_backed(counts: Any) -> bool:
    """Whether these are all rows and columns of an AnnData that leaves its matrix in a file."""
    return is_anndata(counts) and bool(counts.isbacked) and not counts.is_view


def read_anndata(path: Path) -> Any:
    """An .h5ad file, or a folder of zarr."""
    anndata = need("anndata", "anndata", "Reading .h5ad")
    if path.suffix.lower() == ".zarr":
        with reading(path, ".zarr"):
            return anndata.read_zarr(path)
    with reading(need_file(path, "a count table"), ".h5ad"):
        probe(path)
        return anndata.read_h5ad(path)


def probe(path: Path) -> None:
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
