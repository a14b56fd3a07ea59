"""Counts in files that are held nowhere, for the tests of what is fitted to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from tallies.counts import lazily
from tallies.data import cells as in_files
from tallies.data import lazy

n, p = 150, 6
GENES = [f"gene{j}" for j in range(p)]


def counts(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    Y = rng.poisson(np.exp(rng.normal(-1.0, 0.7, size=(n, 1)) * [1.0, -0.5, 0.8, 0.3, 1.0, 0.2] + rng.normal(0.0, 0.5, (n, p))))
    Y[:, 0] += 1  # no row is empty
    return Y


def table(seed: int = 0) -> pd.DataFrame:
    """Counts with names of rows, covariates and weights, some of which are 0."""
    frame = pd.DataFrame(counts(seed), columns=GENES)
    frame.insert(0, "sample", [f"s{i}" for i in range(n)])
    frame = frame.assign(depth=np.arange(n) % 4, plot=np.repeat(["a", "b"], n // 2), weight=np.arange(n) % 3 / 2.0)
    frame.loc[(frame["plot"] == "b") & (frame["weight"] > 0), "gene5"] = 0  # never seen there
    return frame


def write(folder: Path, frame: pd.DataFrame, kind: str = "parquet") -> Path:
    folder.mkdir()
    for k in range(3):
        part = frame.iloc[50 * k : 50 * k + 50]
        if kind == "parquet":
            part.to_parquet(folder / f"{k}.parquet", row_group_size=17, index=False)
        else:
            part.to_csv(folder / f"{k}.csv", index=False)
    return folder


def cells(path: Path, form: Any = sp.csr_matrix, seed: int = 0) -> Path:
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(form(counts(seed).astype(np.float32)))
    data.var_names, data.obs_names = GENES, [f"s{i}" for i in range(n)]
    if path.suffix == ".zarr":
        pytest.importorskip("zarr")
        data.write_zarr(path)
    else:
        data.write_h5ad(path)
    return path


def hold_nothing(monkeypatch: Any, *models: Any) -> None:
    """Nothing is held; pieces of some twenty rows, and shards that begin in one and end in another."""
    for module, name in ((lazily, "HELD"), (in_files, "HELD"), (in_files, "LARGE")):
        monkeypatch.setattr(module, name, 0)
    monkeypatch.setattr(lazily, "AT_A_TIME", 70)
    monkeypatch.setattr(lazy, "PIECE", 20 * 8 * 9)
    for model in models:
        monkeypatch.setattr(model, "shard_rows", 40)
