"""LDA of cells: an .h5ad file, a .zarr folder or an AnnData that leaves its matrix there; held, or dealt out to shards."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import tallies
from tallies import LDA
from tallies.data import cells as in_files
from tallies.errors import DataError

anndata = pytest.importorskip("anndata", reason="needs tallies[anndata]")
pytestmark = pytest.mark.filterwarnings("ignore:Writing zarr", "ignore:the log likelihood of LDA")
QUICK = {"n_topics": 3, "max_iter": 24, "burn_in": 18, "thin": 2}
n, p = 90, 12


def cells(form=sp.csr_matrix):
    rng = np.random.default_rng(0)
    Y = rng.poisson(np.where(np.arange(p)[None] // 4 == rng.integers(0, 3, (n, 1)), 3.0, 0.3))
    Y[5] = 0
    names = {"obs": pd.DataFrame(index=[f"c{i}" for i in range(n)]), "var": pd.DataFrame(index=[f"g{j}" for j in range(p)])}
    return anndata.AnnData(form(Y.astype(np.float32)), **names)


def write(tmp_path, suffix, form=sp.csr_matrix):
    path = tmp_path / f"cells.{suffix}"
    if suffix == "zarr":
        pytest.importorskip("zarr", reason="needs zarr")
    getattr(cells(form), f"write_{suffix}")(path)
    return path


def large(monkeypatch):
    """Nothing is held, and some twenty cells are read at a time."""
    for name, size in (("HELD", 0), ("LARGE", 0), ("AT_A_TIME", 100)):
        monkeypatch.setattr(in_files, name, size)


@pytest.mark.parametrize(("suffix", "form"), [("h5ad", sp.csr_matrix), ("h5ad", sp.csc_matrix), ("zarr", np.asarray)])
def test_cells_in_a_file_that_is_held_are_those_of_the_anndata(tmp_path, suffix, form):
    path, alone = write(tmp_path, suffix, form), LDA(**QUICK).fit(cells())
    found = LDA(**QUICK).fit(path)
    np.testing.assert_array_equal(found.document_topics_, alone.document_topics_)
    assert found.vocabulary_.tolist() == alone.vocabulary_.tolist()
    np.testing.assert_array_equal(found.transform(path), alone.transform(cells()))
    if suffix == "h5ad":
        backed = LDA(**QUICK).fit(anndata.read_h5ad(path, backed="r"))
        np.testing.assert_array_equal(backed.topics_, alone.topics_)


@pytest.mark.parametrize(("suffix", "form"), [("h5ad", sp.csr_matrix), ("h5ad", np.asarray), ("zarr", sp.csr_matrix)])
def test_cells_beyond_memory_have_the_bits_of_shards_in_memory(tmp_path, monkeypatch, suffix, form):
    path, alone = write(tmp_path, suffix, form), LDA(shards=3, **QUICK).fit(cells())
    large(monkeypatch)
    found = LDA(shards=3, **QUICK).fit(path)
    np.testing.assert_array_equal(found.topics_, alone.topics_)
    np.testing.assert_array_equal(found.history_, alone.history_)
    out = pd.concat(map(pd.read_parquet, sorted(found.transform(path, out=tmp_path / "topics").iterdir())), ignore_index=True)
    assert out["id"].tolist() == [f"c{i}" for i in range(n)]
    np.testing.assert_allclose(out[[f"topic_{k}" for k in range(3)]], alone.transform(cells()), rtol=1e-6)


def test_cells_are_fitted_on_the_command_line(tmp_path, run, monkeypatch):
    path = write(tmp_path, "h5ad")
    few = ["--topics", "3", "--sweeps", "10", "-q"]
    assert run("fit", "lda", str(path), *few, "--out", str(tmp_path / "RUN"))[0] == 0
    code, _, told = run("predict", str(tmp_path / "RUN"), str(path), "--out", str(tmp_path / "topics.csv"))
    assert code == 0, told
    assert pd.read_csv(tmp_path / "topics.csv")["id"].tolist() == [f"c{i}" for i in range(n)]
    large(monkeypatch)
    assert run("fit", "lda", str(path), *few, "--out", str(tmp_path / "LARGE"))[0] == 0
    assert run("predict", str(tmp_path / "LARGE"), str(path), "--out", str(tmp_path / "topics"))[0] == 0
    assert len(list((tmp_path / "topics").iterdir())) > 1
    code, _, told = run("fit", "lda", str(path), *few, "--min-df", "5", "--out", str(tmp_path / "FEWER"))
    assert code == 2 and "of cells all columns are used" in told


def test_what_is_no_count_is_told(tmp_path, monkeypatch):
    large(monkeypatch)
    for wrong, told in ((0.5, "values such as 0.5; pass raw counts"), (-2.0, "X has -2"), (3e9, "X has 3e\\+09"), (np.nan, "nan")):
        data = cells(np.asarray)
        data.X[40, 3] = wrong
        data.write_h5ad(tmp_path / "wrong.h5ad")
        with pytest.raises(DataError, match=told):
            LDA(**QUICK).fit(tmp_path / "wrong.h5ad")
    model, path = LDA(**QUICK).fit(cells()[:, ::-1]), write(tmp_path, "h5ad")
    with pytest.raises(DataError, match="are not those of the fit in its order"):
        model.transform(path, out=tmp_path / "topics")


def test_a_cluster_has_the_same_bits(tmp_path, monkeypatch, cluster):
    path = write(tmp_path, "h5ad")
    large(monkeypatch)
    here = LDA(shards=3, **QUICK).fit(path)
    with tallies.backend(cluster, scratch=tmp_path):
        there = LDA(shards=3, **QUICK).fit(path)
    assert there.topics_.tobytes() == here.topics_.tobytes()
