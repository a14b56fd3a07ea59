"""Mixtures of counts that stay in their files: the bits of the table in memory; the start; what is kept and written; memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import tallies
from count_files import GENES, cells, counts, hold_nothing, n, table, write
from running import left_in
from tallies import PLNMixture
from tallies.counts import lazily
from tallies.counts.mixture import start
from tallies.errors import DataError, FileError

pytestmark = pytest.mark.filterwarnings(
    "ignore:PLNMixture stopped", "ignore:columns such as", "ignore:X does not have valid", "ignore:clusters .* hold hardly",
    "ignore:the largest number", "ignore:.* components were left",
)  # fmt: skip

KINDS = {
    "diagonal": {"n_components": [1, 2], "n_starts": 2},
    "full": {"n_components": 2, "covariance": "full"},
}
GIVEN = {
    "plain": {},
    "beside": {"covariates": ["depth", "plot"], "sample_weight": "weight", "offsets": "logsum"},
    "offsets": {"offsets": np.linspace(-0.5, 0.5, n)},
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    hold_nothing(monkeypatch, PLNMixture)


def clustered():
    """Two clusters of samples."""
    frame, many = table(), np.random.default_rng(7).poisson(6.0, size=(n, 2))
    frame.loc[::2, ["gene1", "gene3"]] += many[::2]
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("counts") / "parts", clustered())


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return write(tmp_path_factory.mktemp("counts") / "bare", clustered().drop(columns=["depth", "plot", "weight"]))


def mixture(kind="diagonal"):
    return PLNMixture(max_iter=60, **KINDS[kind])


def in_memory(kind, given):
    frame, told = clustered(), dict(GIVEN[given])
    if given != "beside":
        return mixture(kind).fit(frame[GENES], **told)
    weight = frame["weight"].to_numpy()
    text, beside = "~ 1 + `depth` + `plot`", frame[told["covariates"]]
    return mixture(kind).fit_formula(text, frame[GENES], beside, offsets="logsum", sample_weight=weight)


def same(a, b):
    for name in ("probabilities_", "shares_", "coefficients_", "covariances_", "means_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(a.fitted_.run.history, b.fitted_.run.history)
    assert a.marks_.equals(b.marks_) and a.tried_.equals(b.tried_)
    assert (a.loglik_, a.icl_, a.n_parameters_) == (b.loglik_, b.icl_, b.n_parameters_)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("kind", KINDS)
def test_a_mixture_from_files_has_the_bits_of_one_in_memory(tmp_path, folder, bare, kind, given):
    """Also where shards and latents go beyond memory, and for rows without weight; of the files that it made nothing is left."""
    there = in_memory(kind, given)
    for workers, memory in ((1, None), (2, 1)):
        with tallies.backend("threads", workers=workers, memory=memory, scratch=tmp_path / "scratch"):
            here = mixture(kind).fit(folder if given == "beside" else bare, **GIVEN[given])
        same(here, there)
        assert here.feature_names_in_.tolist() == GENES and here.fitted_.data.Y is None and here.fitted_.latent_mean is None
        assert here.summary().splitlines()[1:] == there.summary().splitlines()[1:]
        del here
    assert not left_in(tmp_path / "scratch")


def test_a_small_folder_is_held_and_stays_sparse(bare, monkeypatch):
    monkeypatch.setattr(lazily, "HELD", 1 << 20)
    here, there = mixture().fit(bare), in_memory("diagonal", "plain")
    same(here, there)
    assert sp.issparse(here.fitted_.data.Y)
    np.testing.assert_array_equal(here.latent_mean_, there.latent_mean_)


def test_cells_that_are_read_where_they_are(tmp_path):
    path = cells(tmp_path / "cells.h5ad")
    here, there = mixture().fit(path), mixture().fit(counts())
    np.testing.assert_array_equal(here.probabilities_, there.probabilities_)
    assert here.fitted_.data.Y is None
    anndata = pytest.importorskip("anndata")
    data = here.to_anndata(anndata.read_h5ad(path))
    assert data.obsm["clusters_probabilities"].shape == (n, here.n_components_) and "X_clusters" not in data.obsm


def test_groups_to_begin_with_are_those_of_a_part_of_the_samples(monkeypatch, bare):
    """Drawn by place: the same from files and in memory, on any number of threads."""
    monkeypatch.setattr(start, "FEWEST", 60)
    monkeypatch.setattr(start, "AT_ONCE", 1)
    looked, grouping = [], start.groupings
    monkeypatch.setattr("tallies.counts.mixture.plan.groupings", lambda R, *more: looked.append(R) or grouping(R, *more))
    there = in_memory("diagonal", "plain")
    for workers in (1, 2):
        with tallies.backend("threads", workers=workers, memory=1):
            same(mixture().fit(bare), there)
    sizes = {len(R) for R in looked}
    assert len(sizes) == 1 and 30 < sizes.pop() < 100
    assert np.abs(np.corrcoef(there.labels_, np.arange(n) % 2)[0, 1]) > 0.8


def test_rows_go_to_the_nearest_centre_of_each_grouping():
    from tallies.counts.full import FullLatents
    from tallies.counts.records import Shard

    M, none = np.array([[0.0, 0.0], [1.0, 3.0], [4.0, 4.0]]), np.zeros(0)
    shard = Shard(M, M, np.ones((3, 1)), np.ones(3), True, 0, 3, 0.0)
    latents = FullLatents(M, M, M + 10.0, *[none] * 8, None)
    centres = np.array([[0.0, 0.0], [3.0, 3.0], [4.0, 4.0], [9.0, 9.0], [0.0, 1.0], [0.0, 0.0]])  # about B = 1
    found = start.Nearest().rows(shard, latents, start.Centres(False, np.ones((1, 2)), centres, np.array([2, 3, 1])))
    assert found.tolist() == [[0, 2, 0], [0, 2, 0], [1, 0, 0]]
    found = start.Nearest().rows(shard, latents, start.Centres(True, np.ones((1, 2)), centres, np.array([2, 3, 1])))
    assert found.tolist() == [[1, 1, 0], [1, 1, 0], [1, 1, 0]]


def test_a_mixture_on_a_cluster_has_the_same_bits(tmp_path, folder, cluster):
    there = mixture().fit(folder, **GIVEN["beside"])
    with tallies.backend(cluster, scratch=tmp_path):
        same(mixture().fit(folder, **GIVEN["beside"]), there)


@pytest.mark.parametrize("stage", ["one component", "groups of all samples", "2 components, start", "2 components"])
def test_a_mixture_from_files_can_be_resumed(tmp_path, folder, stage):
    path, given = tmp_path / "state", GIVEN["beside"]
    there = mixture().fit(folder, **given)
    least = 0 if stage == "groups of all samples" else 3
    mixture().fit(folder, **given, checkpoint=path, callback=lambda now, s: now.name.startswith(stage) and len(s.objective) > least)
    same(mixture().fit(folder, **given, resume=path), there)
    others = write(tmp_path / "others", table(seed=1))
    with pytest.raises(FileError, match="other data"):
        mixture().fit(others, **given, resume=path)


def read(folder):
    return pd.concat([pd.read_parquet(part) for part in sorted(folder.iterdir())], ignore_index=True)


def test_what_is_kept_of_a_mixture_from_files(tmp_path, folder):
    model, there, frame = mixture("full").fit(folder, **GIVEN["beside"]), in_memory("full", "beside"), clustered()
    model.save(tmp_path / "model.tallies")
    again = tallies.load(tmp_path / "model.tallies")
    same(again, there)
    some, beside = frame[GENES].iloc[:9], {"covariates": frame[["depth", "plot"]].iloc[:9]}
    for ask in ("predict_proba", "transform", "log_prob"):
        np.testing.assert_array_equal(getattr(again, ask)(some, **beside), getattr(there, ask)(some, **beside))
    np.testing.assert_array_equal(again.sample(5, random_state=1)[0], there.sample(5, random_state=1)[0])
    for name in ("latent_mean_", "latent_variance_"):
        with pytest.raises(AttributeError, match=r"transform\(counts\) gives those of some rows"):
            getattr(again, name)
    page = again.report(tmp_path / "page.html").read_text()
    assert "How sure are the assignments?" in page and "How far apart the clusters are" not in page
    assert "How far apart the clusters are" in there.report(tmp_path / "other.html").read_text()


def test_clusters_of_a_folder_are_written(tmp_path, bare, run):
    model, frame = mixture().fit(bare), clustered()
    found = read(model.predict(bare, out=tmp_path / "out"))
    assert found.columns.tolist() == ["sample", "cluster", "p(1)", "p(2)"]
    assert found["cluster"].tolist() == (model.predict(frame[GENES]) + 1).tolist()
    np.testing.assert_allclose(found.iloc[:, 2:], model.predict_proba(frame[GENES]), rtol=1e-5, atol=1e-8)
    told = run("fit", "pln-mixture", str(bare), "--components", "2", "--out", str(tmp_path / "run"), "--sweeps", "60")
    assert told[0] == 0, told
    told = run("predict", str(tmp_path / "run"), str(bare), "--out", str(tmp_path / "more"))
    assert told[0] == 0 and set(read(tmp_path / "more")["cluster"]) == {1, 2}, told


def test_offsets_that_compare_all_samples_are_refused(bare):
    with pytest.raises(DataError, match="offsets must be one number a row"):
        PLNMixture().fit(bare, offsets="css")
