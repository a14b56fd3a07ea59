"""Discriminants of counts that stay in their files: the bits of the table in memory; what is kept, written and refused; memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import tallies
from count_files import GENES, cells, counts, hold_nothing, n, p, table, write
from running import left_in
from tallies import PLNDiscriminant
from tallies.counts import lazily
from tallies.errors import DataError, FileError

pytestmark = pytest.mark.filterwarnings("ignore:PLNDiscriminant stopped", "ignore:columns such as", "ignore:X does not have valid")

GIVEN = {
    "plain": {},
    "beside": {"covariates": ["depth", "plot"], "sample_weight": "weight", "offsets": "logsum"},
    "offsets": {"offsets": np.linspace(-0.5, 0.5, n)},
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    hold_nothing(monkeypatch, PLNDiscriminant)


def kinds():
    """Three classes; the last column of counts is never seen in one of them."""
    frame = table()
    frame["kind"] = np.array(["moor", "wood", "fen"])[np.arange(n) // 5 % 3]
    frame.loc[frame["kind"] == "fen", "gene4"] = 0
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("counts") / "parts", kinds())


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return write(tmp_path_factory.mktemp("counts") / "bare", kinds().drop(columns=["depth", "plot", "weight"]))


def fitted(counts, y, **given):
    return PLNDiscriminant(max_iter=40).fit(counts, y, **given)


def in_memory(given):
    frame = kinds()
    Y, y, told = frame[GENES], frame["kind"].to_numpy(), dict(GIVEN[given])
    if given != "beside":
        return fitted(Y, y, **told)
    beside, weight = frame[told["covariates"]], frame["weight"].to_numpy()
    model = PLNDiscriminant(max_iter=40)
    return model.fit_formula("~ 1 + `depth` + `plot`", Y, beside, y, offsets="logsum", sample_weight=weight)


def same(a, b):
    for name in ("coefficients_", "covariance_", "history_", "means_", "axes_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.classes_.tolist() == b.classes_.tolist() and a.marks_.equals(b.marks_) and a.priors_.equals(b.priors_)
    assert (a.loglik_, a.n_parameters_) == (b.loglik_, b.n_parameters_)
    np.testing.assert_allclose([a.icl_, a.r2_], [b.icl_, b.r2_], rtol=1e-13)


@pytest.mark.parametrize("given", GIVEN)
def test_a_discriminant_from_files_has_the_bits_of_one_in_memory(tmp_path, folder, bare, given):
    """Also where shards and latents go beyond memory; of the files that it made nothing is left."""
    there = in_memory(given)
    for workers, memory in ((1, None), (2, 1)):
        with tallies.backend("threads", workers=workers, memory=memory, scratch=tmp_path / "scratch"):
            here = fitted(folder if given == "beside" else bare, "kind", **GIVEN[given])
        same(here, there)
        assert here.feature_names_in_.tolist() == GENES and here.fitted_.data.Y is None and here.fitted_.latent_mean is None
        assert here.summary().splitlines()[1:] == there.summary().splitlines()[1:]
        del here
    assert not left_in(tmp_path / "scratch")


def test_labels_may_be_given_and_a_small_folder_stays_sparse(tmp_path, bare, monkeypatch):
    frame = kinds()
    alone = write(tmp_path / "alone", frame[["sample", *GENES]])
    same(fitted(alone, frame["kind"].to_numpy()), in_memory("plain"))
    monkeypatch.setattr(lazily, "HELD", 1 << 20)
    here = fitted(bare, "kind")
    same(here, in_memory("plain"))
    assert sp.issparse(here.fitted_.data.Y) and here.latent_mean_.shape == (n, p)


def test_words_beside_the_counts_of_a_file_are_categories(tmp_path):
    """Where labels are a column of it, too."""
    kinds().drop(columns="weight").to_csv(tmp_path / "counts.csv", index=False)
    here = PLNDiscriminant(max_iter=40).fit(tmp_path / "counts.csv", "kind", covariates=["depth", "plot"], offsets="logsum")
    assert here.covariate_names_.tolist() == ["Intercept", "depth", "plot[T.b]", "class moor", "class wood"]


def test_a_discriminant_of_cells_that_are_read_where_they_are(tmp_path):
    path, y = cells(tmp_path / "cells.h5ad"), np.arange(n) // 5 % 3
    here, there = fitted(path, y), fitted(counts(), y)
    np.testing.assert_array_equal(here.means_, there.means_)
    np.testing.assert_array_equal(here.covariance_, there.covariance_)
    assert here.fitted_.data.Y is None


def test_a_discriminant_on_a_cluster_has_the_same_bits(tmp_path, folder, cluster):
    there = fitted(folder, "kind", **GIVEN["beside"])
    with tallies.backend(cluster, scratch=tmp_path):
        same(fitted(folder, "kind", **GIVEN["beside"]), there)


def test_a_discriminant_from_files_can_be_resumed(tmp_path, folder):
    path, given = tmp_path / "state", GIVEN["beside"]
    there = fitted(folder, "kind", **given)
    PLNDiscriminant(max_iter=11).fit(folder, "kind", **given, checkpoint=path)
    same(fitted(folder, "kind", **given, resume=path), there)
    others = write(tmp_path / "others", kinds().assign(gene1=counts(1)[:, 1]))
    with pytest.raises(FileError, match="other data"):
        fitted(others, "kind", **given, resume=path)


def test_what_is_kept_of_a_discriminant_from_files(tmp_path, folder):
    model, there, frame = fitted(folder, "kind", **GIVEN["beside"]), in_memory("beside"), kinds()
    model.save(tmp_path / "model.tallies")
    again = tallies.load(tmp_path / "model.tallies")
    same(again, there)
    some, beside = frame[GENES].iloc[:9], {"covariates": frame[["depth", "plot"]].iloc[:9]}
    for ask in ("predict_proba", "transform", "log_prob"):
        np.testing.assert_array_equal(getattr(again, ask)(some, **beside), getattr(there, ask)(some, **beside))
    np.testing.assert_array_equal(again.sample(5, random_state=1)[0], there.sample(5, random_state=1)[0])
    with pytest.raises(DataError, match="the counts of the fit, which were more than is held in memory"):
        again.coefficient_table()
    with pytest.raises(AttributeError, match=r"transform\(counts\) gives those of some rows"):
        _ = again.latent_mean_
    page = again.report(tmp_path / "page.html").read_text()
    assert "What marks each class" in page and "How far apart the classes are" not in page
    assert "How far apart the classes are" in there.report(tmp_path / "other.html").read_text()
    assert "No labelled samples" in page
    judged = again.report(tmp_path / "page.html", some, frame["kind"].iloc[:9], *beside.values()).read_text()
    assert "No labelled samples" not in judged


def read(folder):
    return pd.concat([pd.read_parquet(part) for part in sorted(folder.iterdir())], ignore_index=True)


def test_classes_of_a_folder_are_written(tmp_path, bare):
    """With the ids of the samples; covariates are columns of the same table."""
    frame = kinds()
    beside = write(tmp_path / "beside", frame.drop(columns="weight"))
    for there, given in ((beside, {"covariates": ["depth", "plot"]}), (bare, {})):
        model = PLNDiscriminant(max_iter=40).fit(there, "kind", **given)
        found = read(model.predict(there, out=tmp_path / f"out{len(given)}", **given))
        told = {"covariates": frame[["depth", "plot"]]} if given else {}
        assert found.columns.tolist() == ["sample", "prediction", "p(fen)", "p(moor)", "p(wood)"]
        assert found["sample"].tolist() == frame["sample"].tolist()
        assert found["prediction"].tolist() == model.predict(frame[GENES], **told).tolist()
        np.testing.assert_allclose(found.iloc[:, 2:], model.predict_proba(frame[GENES], **told), rtol=1e-5, atol=1e-8)


def test_the_commands_of_a_folder(tmp_path, folder, bare, run):
    def told(*words):
        found = run(*map(str, words))
        assert found[0] == 0, found

    frame, few = kinds(), ("--sweeps", "40")
    told("fit", "pln-discriminant", bare, "--target", "kind", "--out", tmp_path / "run", *few)
    same(tallies.load(tmp_path / "run" / "model.tallies"), in_memory("plain"))
    told("predict", tmp_path / "run", bare, "--out", tmp_path / "out")
    assert set(read(tmp_path / "out")["prediction"]) <= {"fen", "moor", "wood"}
    more = write(tmp_path / "more", frame.drop(columns="weight"))
    told("fit", "pln-discriminant", more, "--target", "kind", "--covariates", "depth,plot", "--out", tmp_path / "beside", *few)
    model = tallies.load(tmp_path / "beside" / "model.tallies")
    assert model.covariate_names_.tolist() == ["Intercept", "depth", "plot[T.b]", "class moor", "class wood"]
    told("predict", tmp_path / "beside", more, "--out", tmp_path / "more-out")
    found, beside = read(tmp_path / "more-out"), frame[["depth", "plot"]]
    assert found["prediction"].tolist() == model.predict(frame[GENES], covariates=beside).tolist()
    frame[["sample", "kind", "depth"]].iloc[::-1].to_csv(tmp_path / "about.csv", index=False)
    alone = write(tmp_path / "alone", frame[["sample", *GENES]])
    told(
        "fit",
        "pln-discriminant",
        alone,
        "--target",
        "kind",
        "--covariates",
        tmp_path / "about.csv",
        "--out",
        tmp_path / "apart",
        *few,
    )
    apart = tallies.load(tmp_path / "apart" / "model.tallies")
    np.testing.assert_array_equal(apart.priors_, model.priors_)
    assert apart.covariate_names_.tolist() == ["Intercept", "depth", "class moor", "class wood"]


def test_what_is_refused_of_a_folder(folder, bare, run, tmp_path):
    with pytest.raises(DataError, match=r"the labels should be in the column 'kid', which .* lacks; .*kind"):
        PLNDiscriminant().fit(bare, "kid")
    assert run("fit", "pln-discriminant", str(bare), "--target", "kid", "--out", str(tmp_path / "run"))[0] == 2
    with pytest.raises(DataError, match=r"columns \['kind'\] of .* are not; drop them"):
        PLNDiscriminant().fit(bare, np.zeros(n))
    with pytest.raises(DataError, match="offsets must be one number a row"):
        PLNDiscriminant().fit(bare, "kind", offsets="tmm")
    frame = kinds().assign(kind=lambda t: t["kind"].where(t["kind"] != "fen"))
    with pytest.raises(DataError, match="missing"):
        PLNDiscriminant().fit(write(tmp_path / "gaps", frame[["sample", "kind", *GENES]]), "kind")
