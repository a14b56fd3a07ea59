"""Matrices of cells in files: the X of an .h5ad file or a .zarr folder, read some rows at a time; sparse rows stay sparse."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.data.files import reading
from tallies.errors import DataError, need, need_file
from tallies.mapped import Home

HELD = 256 << 20  # bytes of counts that are not 0, and their places, up to which a sparse matrix is held
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
        """Some of the rows."""
        with opened(self.path) as file:
            X = file["X"]
            if not is_group(X):
                return sp.csr_array(np.asarray(X[first:stop]))
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

    def spans(self, size: int) -> list[tuple[int, int]]:
        """The rows in pieces of about so many numbers."""
        ptr, n = self.ptr, len(self.rows)
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
        else:
            n, p = X.shape
            if n * p * X.dtype.itemsize <= full:
                return None
            ptr = np.arange(n + 1) * p
        rows, columns = (names_in(file[what]) for what in ("obs", "var"))
    if len(rows) != n or len(columns) != p or len(ptr) != n + 1 or (np.diff(ptr) < 0).any() or not n:
        raise DataError(f"{str(path)!r} is damaged: its names are of {len(rows)} x {len(columns)} counts, its matrix of {n} x {p}")
    about, home = os.stat(path), os.path.abspath(path)
    cells = Cells(Home(os.path.dirname(home)), os.path.basename(home), p, (about.st_size, about.st_mtime_ns))
    return Matrix(cells, ptr, rows, columns)


def names_in(group: Any) -> np.ndarray:
    """Names of rows, or of columns."""
    from anndata.io import read_elem

    found = read_elem(group[str(group.attrs["_index"])])
    return np.asarray([name if isinstance(name, str) else str(name) for name in found], dtype=object)


def cells_of(counts: Any) -> Path | None:
    """The .h5ad file or .zarr folder that counts are, or that an AnnData reads them from; None where there is none."""
    if is_backed(counts):
        return Path(counts.filename)
    known = isinstance(counts, str | Path) and Path(counts).suffix.lower() in (".h5ad", ".zarr")
    return Path(counts) if known and Path(counts).exists() else None


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
