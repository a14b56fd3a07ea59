"""Counts of a PLN that stay in their files: the bits of the table in memory; what is read, kept, resumed and refused; memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import tallies
from count_files import GENES, cells, counts, hold_nothing, n, p, table, write
from running import left_in
from tallies import PLN, Importance
from tallies.counts import coefficients, lazily
from tallies.counts.door import Sparse
from tallies.counts.filed import Cells, Encoded, Filed, Spans
from tallies.errors import DataError, FileError

pytestmark = pytest.mark.filterwarnings(
    "ignore:(PLN|PLNDiscriminant|PLNMixture|OverRanks) stopped",
    "ignore:the likelihood had no plateau",
    "ignore:columns such as",
    "ignore:X does not have valid",
)

KINDS = {
    "rank": {"rank": 2},
    "full": {},
    "diagonal": {"covariance": "diagonal"},
    "given": {"covariance": np.eye(p)},
    "sampled": {"rank": 1, "method": Importance(max_epochs=2)},
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    hold_nothing(monkeypatch, PLN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("counts") / "parts", table())


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Counts and names alone."""
    return write(tmp_path_factory.mktemp("counts") / "bare", table().drop(columns=["depth", "plot", "weight"]))


def same(a, b):
    """Latents of a full covariance stay where the counts are."""
    np.testing.assert_array_equal(a.coefficients_, b.coefficients_)
    np.testing.assert_array_equal(a.covariance_, b.covariance_)
    np.testing.assert_array_equal(a.history_, b.history_)
    assert (a.loglik_, a.n_parameters_) == (b.loglik_, b.n_parameters_)
    np.testing.assert_allclose([a.icl_, a.r2_], [b.icl_, b.r2_], rtol=1e-13)
    if a.rank is not None:
        np.testing.assert_array_equal(a.latent_mean_, b.latent_mean_)
        np.testing.assert_array_equal(a.latent_variance_, b.latent_variance_)


def in_memory(options, **given):
    """The fit to the same table, held."""
    frame = table()
    data = {"covariates": None, "offsets": given.get("offsets"), "sample_weight": None}
    model, Y = PLN(max_iter=40, **options), frame[GENES]
    if "sample_weight" in given:
        data["sample_weight"] = frame["weight"].to_numpy()
    if "covariates" in given:
        del data["covariates"]
        return model.fit_formula("~ 1 + `depth` + `plot`", Y, frame[["depth", "plot"]], **data)
    return model.fit(Y, **data)


GIVEN = {
    "plain": {},
    "beside": {"covariates": ["depth", "plot"], "sample_weight": "weight", "offsets": "logsum"},
    "offsets": {"offsets": np.linspace(-0.5, 0.5, n)},
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_from_files_has_the_bits_of_one_in_memory(tmp_path, folder, bare, kind, given):
    """Also where shards and latents go beyond memory; of the files that it made nothing is left."""
    there = in_memory(KINDS[kind], **GIVEN[given])
    for workers, memory in ((1, None), (2, 1)):
        with tallies.backend("threads", workers=workers, memory=memory, scratch=tmp_path / "scratch"):
            here = PLN(max_iter=40, **KINDS[kind]).fit(folder if given == "beside" else bare, **GIVEN[given])
        same(here, there)
        assert here.feature_names_in_.tolist() == GENES
        assert here.fitted_.data.samples.tolist() == table()["sample"].tolist()
        assert here.fitted_.data.Y is None
        np.testing.assert_array_equal(here.fitted_.data.total, there.fitted_.data.total)
        np.testing.assert_array_equal(coefficients.separated(here.fitted_), coefficients.separated(there.fitted_))
        assert coefficients.separated(here.fitted_).any() == (given == "beside")
        assert here.summary().splitlines()[1:] == there.summary().splitlines()[1:]
        del here
    assert not left_in(tmp_path / "scratch")


def test_a_folder_of_csv_and_several_ranks(tmp_path):
    folder = write(tmp_path / "parts", table().drop(columns=["depth", "plot", "weight"]), "csv")
    there = PLN.over_ranks([1, 2], table()[GENES], max_iter=30)
    here = PLN.over_ranks([1, 2], folder, max_iter=30)
    for q in (1, 2):
        same(here["model"][q], there["model"][q])


@pytest.mark.filterwarnings("ignore:Writing zarr v2")
@pytest.mark.parametrize("suffix", [".h5ad", ".zarr"])
@pytest.mark.parametrize("form", [sp.csr_matrix, np.asarray])
def test_rows_of_cells_are_read_where_they_are(tmp_path, suffix, form):
    path = cells(tmp_path / f"cells{suffix}", form)
    data = PLN(rank=2)._prepare(path, offsets="logsum")
    assert isinstance(data.rows.Y, Filed) and data.rows.Y.shape == (n, p)
    assert all(isinstance(span.piece, Cells) for source in data.sources for span in source.Y.parts)
    for options in ({"rank": 2}, {}):
        there = PLN(max_iter=30, **options).fit(counts(), offsets="logsum")
        here = PLN(max_iter=30, **options).fit(path, offsets="logsum")
        same(here, there)
        assert here.feature_names_in_.tolist() == GENES
        assert here.fitted_.data.samples.tolist()[:2] == ["s0", "s1"]


def test_an_anndata_that_leaves_its_matrix_in_a_file(tmp_path):
    anndata = pytest.importorskip("anndata")
    path, there = cells(tmp_path / "cells.h5ad"), PLN(rank=2, max_iter=30).fit(counts())
    same(here := PLN(rank=2, max_iter=30).fit(anndata.read_h5ad(path, backed="r")), there)
    assert here.fitted_.data.Y is None
    some = PLN(rank=1, max_iter=30).fit(anndata.read_h5ad(path, backed="r")[:60])  # part of it is read
    assert some.fitted_.data.Y.shape == (60, p)
    columns = cells(tmp_path / "columns.h5ad", sp.csc_matrix)  # rows would have to be looked for everywhere
    same(held := PLN(rank=2, max_iter=30).fit(columns), there)
    assert sp.issparse(held.fitted_.data.Y)


def test_nothing_holds_all_counts(folder):
    data = PLN(rank=2)._prepare(folder, covariates=["depth", "plot"], offsets="logsum", sample_weight="weight")
    assert all(isinstance(source, Sparse) and isinstance(source.Y, Spans) for source in data.sources)
    pieces = {span.piece for source in data.sources for span in source.Y.parts}
    assert len(pieces) > 5 and all(isinstance(piece, Encoded) for piece in pieces)
    assert any(len(source.Y.parts) > 1 for source in data.sources)
    live = table()["weight"].to_numpy() > 0
    found = np.vstack([source.load().Y for source in data.sources])
    np.testing.assert_array_equal(found, table()[GENES].to_numpy()[live])
    assert data.sources[0].Y.parts[0].piece.read(0, 3).dtype == np.uint8
    np.testing.assert_array_equal(data.rows.Y.seen(live) > 0, (found > 0).any(axis=0))


def test_small_tables_are_held(bare, monkeypatch):
    monkeypatch.setattr(lazily, "HELD", 1 << 20)
    here = PLN(max_iter=40).fit(bare)
    assert sp.issparse(here.fitted_.data.Y) and here.latent_mean_.shape == (n, p)


def test_a_cluster_has_the_same_bits_and_is_sent_paths(tmp_path, folder, cluster):
    from distributed.protocol.pickle import dumps

    given = {"covariates": ["depth", "plot"], "sample_weight": "weight", "offsets": "logsum"}
    for kind in ("rank", "full"):
        there = PLN(max_iter=30, **KINDS[kind]).fit(folder, **given)
        with tallies.backend(cluster, scratch=tmp_path):
            same(PLN(max_iter=30, **KINDS[kind]).fit(folder, **given), there)
    for source in PLN()._prepare(folder, **{k: v for k, v in given.items() if k != "offsets"}).sources:
        assert len(dumps(source.Y)) < 3000


@pytest.mark.parametrize("kind", ["rank", "full"])
def test_a_fit_from_files_can_be_resumed(tmp_path, folder, kind):
    """Though the counts are written anew, in another place."""
    path, given = tmp_path / "state", {"covariates": ["depth", "plot"], "sample_weight": "weight", "offsets": "logsum"}
    there = PLN(max_iter=30, **KINDS[kind]).fit(folder, **given)
    PLN(max_iter=30, **KINDS[kind]).fit(folder, **given, checkpoint=path, callback=lambda stage, state: len(state.objective) > 10)
    same(PLN(max_iter=30, **KINDS[kind]).fit(folder, **given, resume=path), there)
    others = write(tmp_path / "others", table(seed=1))
    with pytest.raises(FileError, match="other data"):
        PLN(max_iter=30, **KINDS[kind]).fit(others, **given, resume=path)


@pytest.mark.filterwarnings("ignore:Writing zarr v2")
def test_a_fit_from_cells_can_be_resumed(tmp_path):
    path, state = cells(tmp_path / "cells.h5ad"), tmp_path / "state"
    there = PLN(rank=2, max_iter=30).fit(path)
    PLN(rank=2, max_iter=11).fit(path, checkpoint=state)
    same(PLN(rank=2, max_iter=30).fit(path, resume=state), there)
    with pytest.raises(FileError, match="other data"):
        PLN(rank=2).fit(cells(tmp_path / "others.h5ad", seed=1), resume=state)


@pytest.mark.parametrize("kind", ["rank", "full"])
def test_what_is_kept_of_it(tmp_path, folder, kind):
    given = {"covariates": ["depth", "plot"], "sample_weight": "weight", "offsets": "logsum"}
    model = PLN(max_iter=40, **KINDS[kind]).fit(folder, **given)
    model.save(tmp_path / "model.tallies")
    again, frame = tallies.load(tmp_path / "model.tallies"), table()
    same(again, model)
    there = in_memory(KINDS[kind], **given)
    some, beside = frame[GENES].iloc[:9], {"covariates": frame[["depth", "plot"]].iloc[:9]}
    np.testing.assert_array_equal(again.transform(some, **beside), there.transform(some, **beside))
    np.testing.assert_array_equal(again.log_prob(some, **beside), there.log_prob(some, **beside))
    np.testing.assert_array_equal(again.sample(5, random_state=1), there.sample(5, random_state=1))
    for ask in (again.coefficient_table, again.coefficient_covariance):
        with pytest.raises(DataError, match="the counts of the fit, which were more than is held in memory"):
            ask()
    page = again.report(tmp_path / "page.html").read_text()
    assert "stayed in files" in page and ("Where the samples lie" in page) == (kind == "rank")
    assert "stayed in files" in again.report(tmp_path / "page.html", some, *beside.values()).read_text()
    if kind == "full":
        for name in ("latent_mean_", "latent_variance_"):
            with pytest.raises(AttributeError, match=r"transform\(counts\) gives those of some rows"):
                getattr(again, name)


def test_rows_are_added_to_a_fit_from_files(bare):
    """As to the same fit in memory: its moments follow from what it has learned."""
    more = np.random.default_rng(5).poisson(2.0, size=(60, p))
    there = PLN(tol=1e-12).fit(table()[GENES]).partial_fit(more)
    here = PLN(tol=1e-12).fit(bare).partial_fit(more)
    np.testing.assert_allclose(here.covariance_, there.covariance_, atol=1e-6)
    np.testing.assert_allclose(here.coefficients_, there.coefficients_, atol=1e-6)
    diagonal = PLN(covariance="diagonal").fit(bare)
    with pytest.raises(DataError, match="where its covariance is full"):
        diagonal.partial_fit(more)


def changed(folder, row, value):
    frame = table().astype(dict.fromkeys(GENES, float))
    frame.loc[row, "gene3"] = value
    return write(folder, frame.drop(columns=["depth", "plot", "weight"]))


def test_what_is_refused(tmp_path, bare):
    with pytest.raises(DataError, match=r'so offsets must be one number a row: None, "logsum", "tss", or an array \(n,\)'):
        PLN(rank=1).fit(bare, offsets="css")
    with pytest.raises(DataError, match="importance sampling without a rank brings home"):
        PLN(method="importance").fit(bare)
    with pytest.raises(DataError, match=r"got 0.5 in row 77, column 3; pass raw counts"):
        PLN(rank=1).fit(changed(tmp_path / "half", 77, 0.5))
    with pytest.raises(DataError, match="must not be negative, got -2"):
        PLN(rank=1).fit(changed(tmp_path / "negative", 77, -2.0))
    with pytest.raises(DataError, match="1 counts are missing in a table that is too large for memory"):
        PLN(rank=1).fit(changed(tmp_path / "gap", 77, np.nan))
    with pytest.raises(DataError, match="look like the effort itself"):
        PLN(rank=1).fit(bare, offsets=2.0 * np.arange(n))
    empty = table()
    empty.loc[empty["weight"] > 0, "gene4"] = 0  # counts of rows without weight alone
    with pytest.raises(DataError, match=r"columns such as \['gene4'\] \(1 in all\) have no counts"):
        PLN(rank=1).fit(write(tmp_path / "empty", empty), sample_weight="weight", covariates=["depth", "plot"])


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_groups_take_a_folder_and_structural_zeros_one_that_fits_into_memory(tmp_path, kind, monkeypatch):
    frame = table().drop(columns="weight")
    folder, few = write(tmp_path / "parts", frame.drop(columns=["depth"]), kind), {"max_iter": 5}
    labels = tallies.PLNDiscriminant(**few).fit(folder, "plot")
    alone = tallies.PLNDiscriminant(**few).fit(frame[GENES], frame["plot"])
    np.testing.assert_array_equal(labels.means_, alone.means_)
    whole = write(tmp_path / "whole", frame, kind)
    mixed = tallies.PLNMixture(n_components=2, n_starts=1, **few).fit(whole, covariates=["depth", "plot"])
    assert len(mixed.labels_) == n and mixed.covariate_names_.tolist() == ["Intercept", "depth", "plot[T.b]"]
    monkeypatch.setattr(lazily, "free_memory", lambda: 1000)
    with pytest.raises(
        DataError, match=r"150 x 9 cells, 0.0 GB laid out, .* this is done in memory; pass some of the rows, or fit"
    ):
        PLN(zero_inflation="column").fit(whole)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_mixtures_take_a_folder_of_cells(tmp_path, form):
    anndata = pytest.importorskip("anndata", reason="needs tallies[anndata]")
    pytest.importorskip("zarr", reason="needs zarr")
    anndata.AnnData(form(counts().astype(np.float32)), var=pd.DataFrame(index=GENES)).write_zarr(tmp_path / "cells.zarr")
    found = tallies.PLNMixture(n_components=1, max_iter=5).fit(tmp_path / "cells.zarr")
    np.testing.assert_array_equal(found.means_, tallies.PLNMixture(n_components=1, max_iter=5).fit(counts()).means_)
