"""Counts of cells in an .h5ad file or a .zarr folder as bags of words: cells are documents, and the columns their words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tallies.data import bags
from tallies.data.cells import matrix_of
from tallies.data.table import check_names
from tallies.errors import DataError
from tallies.mapped import SCRATCH, Home, Scratch
from tallies.phases import phase


def open_cells(X: Any, shards: int | None = None, **words: Any) -> bags.Bags:
    """The corpus of such a matrix, dealt out to shards in a folder that does not last."""
    home = Scratch(SCRATCH.get())
    folder = count(X, Path(home.folder.name) / "bags", shards, **words)
    return bags.open_shards(Home(str(folder), home))


@phase("dealing cells out to shards")
def count(X: Any, out: Path, shards: int | None = None, **words: Any) -> Path:
    """Write the counts as shards of shuffled cells, as `bags.count` does with texts."""
    import pandas as pd

    matrix = matrix_of(X)
    assert matrix is not None  # or they are not in files
    if words.get("min_df") not in (None, 1) or words.get("max_df") not in (None, 1.0):
        raise DataError("min_df and max_df choose among the words of texts; of cells all columns are used: select them in the file")
    check_names(pd.DataFrame(columns=matrix.columns))
    half, V, maps = out / bags.HALF, len(matrix.columns), []
    half.mkdir(parents=True)
    frequency = np.zeros(V, dtype=np.int64)
    np.save(half / "same.npy", np.arange(V, dtype=np.int32))
    for k, (first, stop) in enumerate(matrix.spans()):
        Y = _whole(matrix.cells.read(first, stop))
        frequency += np.asarray(Y.sum(axis=0)).ravel()
        np.savez(
            half / f"{k:06d}.npz", indptr=Y.indptr, indices=Y.indices, data=Y.data.astype(np.int32), names=np.empty(0, np.uint8)
        )
        maps.append(half / "same.npy")
    of = {"cells": [matrix.cells.file, *matrix.cells.stamp], "shards": shards}
    return bags.write_shards(out, maps, len(matrix.rows), shards, bags.Chosen(matrix.columns, frequency, None), of)


def _whole(Y: sp.csr_array) -> sp.csr_array:
    """Counts as whole numbers without zeros, or a sentence on what they are."""
    odd = Y.data[~(Y.data % 1 == 0)]
    if len(odd):
        raise DataError(f"expected whole counts, but X has values such as {odd[0]:g}; pass raw counts, not normalised ones")
    if Y.nnz and Y.data.min() < 0:
        raise DataError(f"expected counts, but X has {Y.data.min():g}; no word occurs less than never")
    if Y.nnz and Y.data.max() >= 1 << 31:
        raise DataError(f"expected counts of words, each a token, but X has {Y.data.max():g}; scale the counts down")
    Y = sp.csr_array((Y.data.astype(np.int64), Y.indices, Y.indptr), shape=Y.shape)
    Y.sum_duplicates()
    Y.eliminate_zeros()
    return Y
