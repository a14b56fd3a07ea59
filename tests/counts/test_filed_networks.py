"""Networks of counts that stay in their files: the bits of the table in memory; what is kept, resumed and refused; memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import tallies
from count_files import GENES, cells, counts, hold_nothing, n, p, table, write
from running import left_in
from tallies import PLNNetwork
from tallies.counts import lazily
from tallies.counts.filed import Filed
from tallies.errors import DataError, FileError

pytestmark = pytest.mark.filterwarnings(
    "ignore:PLNNetwork stopped",
    "ignore:columns such as",
    "ignore:the smallest penalty",
    "ignore:stability chose",
    "ignore:E?BIC chose",
)

KINDS = {
    "stability": {"n_subsamples": 4},
    "bic": {"select": "bic", "n_penalties": 4},
    "raw": {"scale": "raw", "penalty": 0.2, "select": None},
    "joint": {"joint": True, "penalty": 0.2, "select": None},
    "joint stability": {"joint": True, "n_penalties": 3, "n_subsamples": 3},
}
GIVEN = {
    "plain": {},
    "beside": {"covariates": ["depth", "plot"], "sample_weight": "weight", "offsets": "logsum"},
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    hold_nothing(monkeypatch, PLNNetwork)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("counts") / "parts", table())


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Counts and names alone."""
    return write(tmp_path_factory.mktemp("counts") / "bare", table().drop(columns=["depth", "plot", "weight"]))


def network(kind):
    return PLNNetwork(max_iter=60, **KINDS[kind])


def in_memory(kind, given):
    """The fit to the same table, held."""
    frame = table()
    if given == "plain":
        return network(kind).fit(frame[GENES])
    beside = frame[["depth", "plot"]]
    weight = frame["weight"].to_numpy()
    return network(kind).fit_formula("~ 1 + `depth` + `plot`", frame[GENES], beside, offsets="logsum", sample_weight=weight)


def same(a, b):
    for name in ("precision_", "coefficients_", "covariance_", "history_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.penalty_, a.loglik_, a.n_parameters_, a.ebic_) == (b.penalty_, b.loglik_, b.n_parameters_, b.ebic_)
    assert a.path_.equals(b.path_) and a.edges_.equals(b.edges_)
    np.testing.assert_allclose([a.icl_, a.r2_], [b.icl_, b.r2_], rtol=1e-13)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("kind", KINDS)
def test_a_network_from_files_has_the_bits_of_one_in_memory(tmp_path, folder, bare, kind, given):
    """Subsamples, too; where shards and latents go beyond memory; of the files that it made nothing is left."""
    there = in_memory(kind, given)
    for workers, memory in ((1, None), (2, 1)):
        with tallies.backend("threads", workers=workers, memory=memory, scratch=tmp_path / "scratch"):
            here = network(kind).fit(folder if given == "beside" else bare, **GIVEN[given])
        same(here, there)
        assert here.feature_names_in_.tolist() == GENES and here.fitted_.data.Y is None and here.fitted_.latent_mean is None
        assert here.summary().splitlines()[1:] == there.summary().splitlines()[1:]
        del here
    assert not left_in(tmp_path / "scratch")


@pytest.mark.parametrize("form", [sp.csr_matrix, np.asarray])
def test_a_network_of_cells_that_are_read_where_they_are(tmp_path, form):
    path = cells(tmp_path / "cells.h5ad", form)
    assert isinstance(PLNNetwork()._prepare(path).rows.Y, Filed)
    here, there = (network("stability").fit(Y, offsets="logsum") for Y in (path, counts()))
    np.testing.assert_array_equal(here.precision_, there.precision_)
    np.testing.assert_array_equal(here.selection_probability_, there.selection_probability_)
    assert here.fitted_.data.samples.tolist()[:2] == ["s0", "s1"]


def test_a_small_folder_is_held_and_stays_sparse(bare, monkeypatch):
    monkeypatch.setattr(lazily, "HELD", 1 << 20)
    here = network("raw").fit(bare)
    assert sp.issparse(here.fitted_.data.Y) and here.latent_mean_.shape == (n, p)
    there = in_memory("raw", "plain")
    np.testing.assert_array_equal(here.latent_mean_, there.latent_mean_)
    same(here, there)


def test_a_network_on_a_cluster_has_the_same_bits(tmp_path, folder, cluster):
    for kind in ("stability", "joint"):
        there = network(kind).fit(folder, **GIVEN["beside"])
        with tallies.backend(cluster, scratch=tmp_path):
            same(network(kind).fit(folder, **GIVEN["beside"]), there)


@pytest.mark.parametrize("stage", ["all correlations", "subsample 3 of 4", "fit with penalty"])
def test_a_network_from_files_can_be_resumed(tmp_path, folder, stage):
    """Though the counts are written anew, in another place."""
    path, given = tmp_path / "state", GIVEN["beside"]

    def there_already(now, state):
        return now.name.startswith(stage) and len(state.objective) > 3

    there = network("stability").fit(folder, **given)
    network("stability").fit(folder, **given, checkpoint=path, callback=there_already)
    same(network("stability").fit(folder, **given, resume=path), there)
    others = write(tmp_path / "others", table(seed=1))
    with pytest.raises(FileError, match="other data"):
        network("stability").fit(others, **given, resume=path)


@pytest.mark.parametrize("kind", ["stability", "joint"])
def test_what_is_kept_of_a_network_from_files(tmp_path, folder, kind):
    model, there = network(kind).fit(folder, **GIVEN["beside"]), in_memory(kind, "beside")
    model.save(tmp_path / "model.tallies")
    again, frame = tallies.load(tmp_path / "model.tallies"), table()
    same(again, there)
    some, beside = frame[GENES].iloc[:9], {"covariates": frame[["depth", "plot"]].iloc[:9]}
    np.testing.assert_array_equal(again.transform(some, **beside), there.transform(some, **beside))
    np.testing.assert_array_equal(again.log_prob(some, **beside), there.log_prob(some, **beside))
    needs = (
        again.edge_table,
        lambda: again.difference(again),
        lambda: again.export("x.csv", confidence=0.9),
        again.coefficient_table,
    )
    for ask in needs:
        with pytest.raises(DataError, match="the counts of the fit, which were more than is held in memory"):
            ask()
    with pytest.raises(AttributeError, match=r"transform\(counts\) gives those of some rows"):
        _ = again.latent_mean_
    assert "stayed in files" in again.report(tmp_path / "page.html").read_text()
    assert "stayed in files" in again.report(tmp_path / "page.html", some, *beside.values()).read_text()
    pytest.importorskip("networkx")
    assert dict(again.to_networkx().nodes(data="total")) == pytest.approx(dict(there.to_networkx().nodes(data="total")))


def test_places_under_a_network_are_written(tmp_path, bare, run):
    model, home = network("raw").fit(bare), tmp_path / "run"
    found = pd.concat(pd.read_parquet(part) for part in sorted(model.transform(bare, out=tmp_path / "places").iterdir()))
    np.testing.assert_allclose(found[GENES].to_numpy(), model.transform(table()[GENES]), rtol=1e-6, atol=1e-8)
    told = run("fit", "pln-network", str(bare), "--penalty", "0.2", "--subsamples", "2", "--out", str(home), "--sweeps", "20")
    assert told[0] == 0, told
    told = run("predict", str(home), str(bare), "--out", str(tmp_path / "out"))
    assert told[0] == 0 and len(list((tmp_path / "out").iterdir())) > 3, told


def test_offsets_that_compare_all_samples_are_refused(bare):
    with pytest.raises(DataError, match=r'so offsets must be one number a row: None, "logsum", "tss", or an array \(n,\)'):
        PLNNetwork().fit(bare, offsets="rle")
