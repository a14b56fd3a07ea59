"""Sparse counts of a PLN stay sparse: the bits of the full table, pieces of which alone are ever laid out."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import tallies
from tallies import PLN, Importance, PLNDiscriminant, PLNMixture, PLNNetwork
from tallies.counts.alignment import one_a_row
from tallies.counts.door import Sparse
from tallies.data import lazy
from tallies.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore:PLN stopped", "ignore:the likelihood had no plateau")

RNG = np.random.default_rng(0)
Y = RNG.poisson(np.exp(RNG.normal(-1.0, 0.7, size=(120, 1)) * [1.0, -0.5, 0.8, 0.3, 1.0, 0.2] + RNG.normal(0.0, 0.5, (120, 6))))
Y[:, 0] += 1  # no row is empty
X = RNG.normal(size=(120, 1))
FITS = [{"rank": 2}, {}, {"covariance": "diagonal"}, {"rank": 1, "method": Importance(max_epochs=2)}]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(PLN, "shard_rows", 40)


def same(a, b):
    np.testing.assert_array_equal(a.coefficients_, b.coefficients_)
    np.testing.assert_array_equal(a.covariance_, b.covariance_)
    np.testing.assert_array_equal(a.latent_mean_, b.latent_mean_)
    np.testing.assert_array_equal(a.history_, b.history_)


@pytest.mark.parametrize("options", FITS)
@pytest.mark.parametrize("offsets", [None, "logsum", np.linspace(-0.5, 0.5, 120)])
def test_sparse_counts_give_the_bits_of_the_table(options, offsets, tmp_path):
    given = {"covariates": X, "offsets": offsets}
    weight = np.ones(120)
    weight[::7] = 0.0
    with tallies.backend("threads", workers=1):
        there = PLN(intercept=True, max_iter=40, **options).fit(Y, **given, sample_weight=weight)
    for workers, memory in ((1, None), (2, 1)):
        with tallies.backend("threads", workers=workers, memory=memory, scratch=tmp_path):
            found = PLN(intercept=True, max_iter=40, **options).fit(sp.csr_array(Y), **given, sample_weight=weight)
        same(found, there)
    assert sp.issparse(found.fitted_.data.Y)
    assert found.fitted_.data.O.shape == (120, 1)
    np.testing.assert_array_equal(
        found.transform(Y, covariates=X, offsets=offsets), there.transform(Y, covariates=X, offsets=offsets)
    )


def test_a_cluster_has_the_same_bits(cluster):
    with tallies.backend(cluster):
        same(PLN(rank=2, max_iter=30).fit(sp.csr_array(Y)), PLN(rank=2, max_iter=30).fit(Y))


def test_no_whole_table_is_held():
    data = PLN(rank=2)._prepare(sp.csr_matrix(Y), offsets="logsum")
    assert all(isinstance(source, Sparse) and sp.issparse(source.Y) and source.O.shape == (40, 1) for source in data.sources)
    assert data.sources[0].Y.dtype == np.uint8
    shard = data.sources[1].load()
    np.testing.assert_array_equal(shard.Y, Y[40:80])
    np.testing.assert_array_equal(shard.O, np.repeat(np.log(Y[40:80].sum(axis=1))[:, None], 6, axis=1))


def test_offsets_that_are_one_number_a_row():
    O = np.zeros((120, 6))
    assert [one_a_row(o) for o in (None, "tss", O[:, 0], O[:, :1], "css", O)] == [True] * 4 + [False] * 2
    same(PLN(rank=1, max_iter=10).fit(sp.csr_array(Y), offsets=O + X), PLN(rank=1, max_iter=10).fit(Y, offsets=O + X))  # laid out
    with pytest.raises(DataError, match="look like the effort itself"):
        PLN(rank=1).fit(sp.csr_array(Y), offsets=2.0 * np.arange(120))


def test_wrong_counts_are_told_by_their_place():
    wrong = sp.csr_array(Y.astype(float))
    i = int(wrong.indptr[3])
    wrong.data[i] = 0.5
    with pytest.raises(DataError, match=rf"got 0.5 in row 3, column {wrong.indices[i]};"):
        PLN(rank=1).fit(wrong)
    wrong.data[i] = -2
    with pytest.raises(DataError, match="must not be negative, got -2"):
        PLN(rank=1).fit(wrong)
    wrong.data[i] = np.nan  # a missing count
    full = Y.astype(float)
    full[3, wrong.indices[i]] = np.nan
    same(PLN(rank=1, max_iter=10).fit(wrong), PLN(rank=1, max_iter=10).fit(full))


def test_an_anndata_stays_sparse(tmp_path):
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(sp.csr_matrix(Y.astype(np.float32)))
    data.var_names = [f"gene{j}" for j in range(6)]
    data.write_h5ad(tmp_path / "cells.h5ad")
    there = PLN(rank=2, max_iter=30).fit(Y)
    for given in (data, tmp_path / "cells.h5ad", anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")):
        model = PLN(rank=2, max_iter=30).fit(given)
        assert sp.issparse(model.fitted_.data.Y)
        assert model.feature_names_in_.tolist() == list(data.var_names)
        same(model, there)
    if importlib.util.find_spec("zarr"):
        data.write_zarr(tmp_path / "cells.zarr")
        same(PLN(rank=2, max_iter=30).fit(tmp_path / "cells.zarr"), there)
    path = tmp_path / "model.tallies"
    model.save(path)
    again = tallies.load(path)
    same(again, model)
    np.testing.assert_array_equal(again.fitted_.data.counts, Y)
    np.testing.assert_array_equal(again.transform(data), there.transform(Y))
    assert len(again.coefficient_table()) == len(there.coefficient_table())


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_folder_of_counts(tmp_path, kind, monkeypatch, run):
    """Names of rows, covariates and weights are columns of it."""
    monkeypatch.setattr(lazy, "PIECE", 30 * 8 * 9)
    frame = pd.DataFrame(Y, columns=[f"gene{j}" for j in range(6)])
    frame.insert(0, "sample", [f"s{i}" for i in range(120)])
    frame = frame.assign(depth=np.arange(120) % 4, weight=np.repeat([1, 2], 60))
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(3):
        part = frame.iloc[40 * k : 40 * k + 40]
        part.to_parquet(folder / f"{k}.parquet") if kind == "parquet" else part.to_csv(folder / f"{k}.csv", index=False)
    frame.to_csv(tmp_path / "whole.csv", index=False)
    options = {"covariates": ["depth"], "sample_weight": "weight", "offsets": "logsum"}
    there = PLN(rank=2, max_iter=30).fit(tmp_path / "whole.csv", **options)
    found = PLN(rank=2, max_iter=30).fit(folder, **options)
    same(found, there)
    assert found.feature_names_in_.tolist() == [f"gene{j}" for j in range(6)]
    assert found.fitted_.data.samples.tolist() == frame["sample"].tolist()
    assert sp.issparse(found.fitted_.data.Y)
    code, _, err = run("fit", "pln", str(folder), "--rank", "2", "--offsets", "logsum", "--out", str(tmp_path / "run"))
    assert code == 0, err
    assert sp.issparse(tallies.load(tmp_path / "run" / "model.tallies").fitted_.data.Y)
    with pytest.raises(DataError, match="'weigth', which"):
        PLN(rank=2).fit(folder, sample_weight="weigth")


CHILD = """
import resource, numpy as np, scipy.sparse as sp, tallies
rng = np.random.default_rng(0)
Y = sp.csr_array((np.ones(120_000), rng.integers(500, size=120_000), np.arange(0, 120_001, 10)), shape=(12_000, 500))
fit = lambda Y: tallies.PLN(rank=1, n_starts=1, max_iter=4).fit(Y, offsets="logsum", progress=False)
with tallies.backend("threads", workers=1, memory="16MB"):
    fit(Y[:2000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fit(Y)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs the figures of a POSIX system")
def test_peak_memory_does_not_follow_the_table():
    """A table of 48 MB, and offsets of as much, of which 1 MB are not zero."""
    told = subprocess.run([sys.executable, "-W", "ignore", "-c", CHILD], capture_output=True, text=True, check=True, timeout=100)
    assert float(told.stdout) < 40


@pytest.mark.parametrize("offsets", [None, "logsum"])
@pytest.mark.parametrize(
    "model", [PLNMixture(n_components=2), PLNMixture(n_components=2, covariance="diagonal"), PLNDiscriminant()], ids=str
)
def test_groups_of_sparse_counts_have_the_bits_of_the_table_and_pages(model, offsets, tmp_path):
    groups = np.arange(120) % 2
    Y_of = RNG.poisson(np.exp(0.5 * RNG.normal(size=(120, 4)) + 1.5 * np.outer(groups, [1, 0, 1, 0]) + [0, 0, 0, 2]))
    Y_of[:, 3] += 1  # no row is empty
    there, found = (clone(model).fit(counts, groups, offsets=offsets) for counts in (Y_of, sp.csr_array(Y_of)))
    assert sp.issparse(found.fitted_.data.Y) and found.fitted_.data.O.shape == (120, 1)
    for counts in (Y_of, sp.csr_array(Y_of)):
        np.testing.assert_array_equal(found.predict_proba(counts, offsets=offsets), there.predict_proba(Y_of, offsets=offsets))
    assert found.report(tmp_path / "alone.html").exists()
    assert found.report(tmp_path / "with.html", sp.csr_array(Y_of)).exists()


@pytest.mark.parametrize(
    "model", [PLNNetwork(penalty=0.2, select=None), PLNMixture(n_components=2)], ids=lambda m: type(m).__name__
)
def test_what_is_fitted_in_memory_reads_sparse_files_as_they_are(model, tmp_path):
    anndata = pytest.importorskip("anndata")
    path = tmp_path / "cells.h5ad"
    anndata.AnnData(sp.csr_matrix(Y.astype(np.float32))).write_h5ad(path)
    found, there = (clone(model).fit(counts) for counts in (path, Y))
    assert sp.issparse(found.fitted_.data.Y)
    np.testing.assert_array_equal(found.coefficients_, there.coefficients_)
