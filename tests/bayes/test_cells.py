"""GDA and naive Bayes of cells: an AnnData, an .h5ad file or a .zarr folder, held or left in the file; labels from its obs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import tallies
from tallies import FEM, GDA, LDA, NaiveBayes
from tallies.bayes import cells as door
from tallies.data import cells
from tallies.errors import DataError

anndata = pytest.importorskip("anndata", reason="needs tallies[anndata]")
pytestmark = pytest.mark.filterwarnings("ignore:Writing zarr", "ignore:X does not have valid")
n, p = 120, 9
GENES = [f"g{j}" for j in range(p)]


def made(form=sp.csr_matrix, dtype=np.float32):
    rng = np.random.default_rng(0)
    Y = rng.poisson(np.where(np.arange(p)[None] % 3 == np.arange(n)[:, None] % 3, 2.0, 0.4)).astype(dtype)
    obs = pd.DataFrame({"kind": pd.Categorical(np.array(["a", "b", "c"])[np.arange(n) % 3]), "weight": rng.random(n)})
    return anndata.AnnData(form(Y), obs=obs.set_index(pd.Index([f"c{i}" for i in range(n)])), var=pd.DataFrame(index=GENES))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Shards and pieces of some rows."""
    for module in (cells, door):
        monkeypatch.setattr(module, "AT_A_TIME", 300)
    for model in (GDA, NaiveBayes):
        monkeypatch.setattr(model, "shard_rows", 50)


@pytest.fixture
def large(monkeypatch):
    """Nothing is held."""
    for name in ("HELD", "LARGE"):
        monkeypatch.setattr(cells, name, 0)


def write(data, tmp_path, suffix):
    path = tmp_path / f"cells.{suffix}"
    if suffix == "zarr":
        pytest.importorskip("zarr", reason="needs zarr")
    getattr(data, f"write_{suffix}")(path)
    return path


def same(found, alone):
    for law, known in zip(found.params_.laws, alone.params_.laws, strict=True):
        assert (law is None) == (known is None)
        for part, its in zip(law or (), known or (), strict=True):
            if isinstance(part, np.ndarray):
                assert part.tobytes() == its.tobytes()
    assert found.feature_names_in_.tolist() == GENES


def laid(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize(
    ("suffix", "form"),
    [("h5ad", sp.csr_matrix), ("h5ad", sp.csc_matrix), ("zarr", sp.csr_matrix), ("h5ad", np.asarray), ("zarr", np.asarray)],
)
def test_the_bits_are_those_of_the_matrix_in_memory(tmp_path, suffix, form, held, request):
    data = made(form)
    y, weight, X = data.obs["kind"], data.obs["weight"], data.X
    path = write(data, tmp_path, suffix)
    if not held:
        request.getfixturevalue("large")
    for model, plain in ((GDA(), laid(X)), (NaiveBayes(), sp.csr_array(X) if sp.issparse(X) else X)):
        alone = model.fit(plain, y, sample_weight=weight)
        for given in (path, anndata.read_h5ad(path, backed="r") if suffix == "h5ad" else data):
            same(type(model)().fit(given, "kind", sample_weight="weight"), alone)


@pytest.mark.parametrize("model", [GDA(), NaiveBayes()])
@pytest.mark.parametrize("form", [sp.csr_matrix, np.asarray])
def test_answers_are_those_of_the_matrix_and_columns_are_matched_by_name(tmp_path, model, form):
    data = made(form)
    path, plain = (
        write(data, tmp_path, "h5ad"),
        data.X if form is not np.asarray and isinstance(model, NaiveBayes) else laid(data.X),
    )
    model.fit(data, "kind")
    shares = model.predict_proba(plain)
    np.testing.assert_array_equal(model.predict_proba(path), shares)
    np.testing.assert_array_equal(model.predict_proba(data[:, ::-1]), shares)
    np.testing.assert_array_equal(model.predict(data), model.predict(plain))
    assert model.score(path, "kind") == model.score(plain, data.obs["kind"])
    with pytest.raises(DataError, match="lacks the columns \\['g8'\\]"):
        model.predict(data[:, :8])
    with pytest.raises(DataError, match="the model was fitted with 9"):
        type(model)().fit(plain, data.obs["kind"]).predict(data[:, :8])


@pytest.mark.parametrize("model", [GDA(), NaiveBayes()])
def test_answers_beyond_memory_are_written(tmp_path, model, large):
    path = write(made(), tmp_path, "h5ad")
    model.fit(path, "kind")
    out = pd.concat(map(pd.read_parquet, sorted(model.predict(path, out=tmp_path / "out").iterdir())), ignore_index=True)
    assert len(list((tmp_path / "out").iterdir())) > 1
    shares = model.predict_proba(made())
    assert out["id"].tolist() == [f"c{i}" for i in range(n)]
    np.testing.assert_array_equal(out[["p(a)", "p(b)", "p(c)"]], shares)
    assert out["prediction"].tolist() == model.predict(made()).tolist()
    with pytest.raises(DataError, match="out=FOLDER"):
        model.predict_proba(path)
    with pytest.raises(DataError, match="out=FOLDER"):
        model.predict(path)


def test_families_of_whole_numbers_are_those_of_a_table(tmp_path, large):
    data = made(np.asarray, np.int32)
    data.X[70, 4] = -1
    path = write(data, tmp_path, "h5ad")
    found, alone = NaiveBayes().fit(path, "kind"), NaiveBayes().fit(data.X, data.obs["kind"])
    assert list(found.families_.values()) == list(alone.families_.values()) == ["poisson"] * 4 + ["gaussian"] + ["poisson"] * 4
    same(found, alone)
    with pytest.raises(DataError, match="'g2' shall be categorical; pass a table"):
        NaiveBayes(families={"g2": "categorical"}).fit(path, "kind")


def test_sparse_rows_of_other_families_are_laid_out(tmp_path, large):
    data = made()
    path = write(data, tmp_path, "h5ad")
    same(NaiveBayes(families="poisson").fit(path, "kind"), NaiveBayes(families="poisson").fit(laid(data.X), data.obs["kind"]))


def test_rows_that_come_as_cells_add(tmp_path):
    data, alone = made(), NaiveBayes().fit(made(), "kind")
    stream = NaiveBayes()
    for a in range(0, n, 40):
        stream = stream.partial_fit(data[a : a + 40], "kind")
    np.testing.assert_allclose(stream.params_.laws.multinomial.counts, alone.params_.laws.multinomial.counts)
    assert stream.feature_names_in_.tolist() == GENES


def test_what_is_no_such_matrix_is_told(tmp_path, large):
    path = write(made(), tmp_path, "h5ad")
    with pytest.raises(DataError, match=r"column 'sort' of obs, which is not there; .*kind"):
        GDA().fit(path, "sort")
    with pytest.raises(DataError, match="FEM takes a table here, but X is an AnnData"):
        FEM().fit(path, "kind")
    for suffix in ("h5ad", "zarr"):
        (tmp_path / suffix).mkdir()
        with pytest.raises(DataError, match="FEM takes a table here"):
            FEM().fit(write(made(), tmp_path / suffix, suffix), "kind")
    data = made()
    data.X.data[0] = -2.0
    (tmp_path / "wrong").mkdir()
    with pytest.raises(DataError, match="some are negative"):
        NaiveBayes().fit(write(data, tmp_path / "wrong", "h5ad"), "kind")


def test_cells_are_fitted_on_the_command_line(tmp_path, run, large, monkeypatch):
    path = write(made(), tmp_path, "h5ad")
    assert run("fit", "naive-bayes", str(path), "--target", "kind", "--out", str(tmp_path / "RUN"))[0] == 0
    code, _, told = run("predict", str(tmp_path / "RUN"), str(path), "--out", str(tmp_path / "answers"))
    assert code == 0 and len(list((tmp_path / "answers").iterdir())) > 1, told
    for option in ("--drop", "g1"), ("--holdout", "0.2"):
        assert run("fit", "gda", str(path), "--target", "kind", *option, "--out", str(tmp_path / "NONE"))[0] == 2
    monkeypatch.setattr(cells, "HELD", 1 << 20)
    assert run("predict", str(tmp_path / "RUN"), str(path), "--out", str(tmp_path / "answers.csv"))[0] == 0
    assert pd.read_csv(tmp_path / "answers.csv")["id"].tolist() == [f"c{i}" for i in range(n)]
    code, out, told = run("score", str(tmp_path / "RUN"), str(path))
    assert code == 0 and "accuracy" in out + told


def test_a_cluster_has_the_same_bits(tmp_path, large, cluster):
    path = write(made(), tmp_path, "h5ad")
    for model in (GDA(), NaiveBayes()):
        here = type(model)().fit(path, "kind")
        with tallies.backend(cluster, scratch=tmp_path):
            same(model.fit(path, "kind"), here)
            answers = pd.concat(map(pd.read_parquet, sorted(model.predict(path, out=tmp_path / repr(model)).iterdir())))
        assert answers["prediction"].tolist() == here.predict(made()).tolist()


CHILD = """
import resource, sys
import anndata, numpy as np, pandas as pd, scipy.sparse as sp, tallies
from tallies.data import cells

cells.HELD = cells.LARGE = 0
peak = []
with tallies.backend("threads", workers=1, memory="8MB"):
    for n in (4000, 40000):
        X = sp.random_array((n, 400), density=0.02, format="csr", dtype=np.float32, rng=0)
        path = f"{sys.argv[1]}/{n}.h5ad"
        obs = pd.DataFrame({"kind": np.arange(n) % 2}, index=[str(i) for i in range(n)])
        anndata.AnnData(X, obs=obs).write_h5ad(path)
        del X
        for model in (tallies.GDA(covariance="diagonal"), tallies.NaiveBayes()):
            model.fit(path, "kind")
        peak.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(peak[1] - peak[0])
"""


def test_rows_are_never_laid_out_as_a_whole(tmp_path):
    """40,000 x 400 numbers laid out are 64 MB in single precision."""
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[-1]) < 48


def test_lda_takes_the_same_file(tmp_path):
    """What families share of reading it, they read alike."""
    path = write(made(), tmp_path, "h5ad")
    assert LDA(n_topics=2, max_iter=6, burn_in=3).fit(path).vocabulary_.tolist() == GENES
