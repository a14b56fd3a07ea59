"""What stands beside counts in an AnnData, in memory or in a file, may be named: covariates, weights and labels."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from tallies import PLN, PLNDiscriminant, load
from tallies.errors import DataError

anndata = pytest.importorskip("anndata")
N = 60


@pytest.fixture(scope="module", params=[sp.csr_matrix, np.asarray], ids=["sparse", "laid out"])
def cells(request):
    rng = np.random.default_rng(0)
    batch, depth = rng.choice(["a", "b"], N), rng.normal(size=N)
    mean = 1 + np.outer(batch == "b", [1, -1, 0.5]) + np.outer(depth, [0.3, 0, 0])
    Y = rng.poisson(np.exp(mean + rng.normal(0, 0.5, (N, 3))))
    obs = pd.DataFrame({"batch": pd.Categorical(batch), "depth": depth, "twice": 2.0}, index=[f"c{i}" for i in range(N)])
    return anndata.AnnData(request.param(Y.astype(float)), obs=obs)


@pytest.fixture
def file(cells, tmp_path):
    cells.write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad"


def test_covariates_are_columns_of_obs(cells, file):
    dense = np.asarray(cells.X.todense() if sp.issparse(cells.X) else cells.X)
    want = PLN.from_formula("~ 1 + batch + depth", dense, cells.obs.reset_index(drop=True))
    backed = anndata.read_h5ad(file, backed="r")
    for X in (cells, str(file), backed):
        model = PLN().fit(X, covariates=["batch", "depth"])
        assert model.covariate_names_.tolist() == ["Intercept", "batch[T.b]", "depth"]
        np.testing.assert_allclose(model.coefficients_, want.coefficients_, rtol=1e-10)
        np.testing.assert_allclose(model.transform(X, covariates=["batch", "depth"]), model.latent_mean_, atol=1e-5)
    backed.file.close()
    for X in (cells, str(file)):
        weighted = PLN().fit(X, covariates="depth", sample_weight="twice")
        assert weighted.elbo_ == pytest.approx(2 * PLN().fit(X, covariates="depth").elbo_, rel=1e-6)


def test_rows_of_one_name_keep_their_own_covariates(cells):
    same = cells.copy()
    same.obs_names = ["c"] * N
    found = PLN().fit(same, covariates="depth").coefficients_
    np.testing.assert_array_equal(found, PLN().fit(cells, covariates="depth").coefficients_)


def test_labels_are_a_column_of_obs(cells, file):
    want = PLNDiscriminant().fit(cells, cells.obs["batch"].to_numpy()).predict(cells)
    for X in (cells, str(file)):
        assert (PLNDiscriminant().fit(X, "batch").predict(X) == want).all()


@pytest.mark.parametrize(("named", "told"), [("bach", "did you mean 'batch'"), (["batch", "size"], "'size'"), ("no.csv", "obs")])
def test_a_name_that_is_not_there_is_told(cells, file, named, told):
    for X in (cells, str(file)):
        with pytest.raises(DataError, match=told):
            PLN().fit(X, covariates=named)


@pytest.mark.parametrize("words", [["--covariates", "batch,depth"], ["--formula", "~ 1 + batch + depth"]])
def test_on_the_command_line(cells, file, run, tmp_path, words):
    out = str(tmp_path / "RUN")
    assert run("fit", "pln", str(file), *words, "--out", out)[0] == 0
    model = load(tmp_path / "RUN" / "model.tallies")
    want = PLN().fit(cells, covariates=["batch", "depth"])
    np.testing.assert_allclose(model.coefficients_, want.coefficients_, rtol=1e-10)
    half = cells[: N // 2].copy()
    half.write_h5ad(tmp_path / "half.h5ad")
    code, told, _ = run("predict", out, str(tmp_path / "half.h5ad"), "--json")  # with the same columns of its obs
    assert code == 0
    places = pd.DataFrame(json.loads(told)).iloc[:, 1:].to_numpy()
    np.testing.assert_allclose(places, want.latent_mean_[: N // 2], atol=1e-4)


@pytest.mark.parametrize("covariates", [[], ["--covariates", "depth"]], ids=["alone", "beside a covariate"])
def test_a_target_on_the_command_line_is_a_column_of_obs(cells, file, run, tmp_path, covariates):
    out, words = str(tmp_path / "RUN"), ["-t", "batch", *covariates, "--holdout", "0.2"]
    code, _, err = run("fit", "pln-discriminant", str(file), *words, "--out", out, "-q")
    assert code == 0, err
    assert load(tmp_path / "RUN" / "model.tallies").classes_.tolist() == ["a", "b"]
    judged = json.loads(run("info", out, "--json")[1])["held_out"]["scores"]
    assert (judged["rows"], judged["accuracy"] > 0.5) == (12, True)
    assert json.loads(run("score", out, str(file), "--json")[1])["rows"] == N
    unlabelled = cells.copy()
    del unlabelled.obs["batch"]
    unlabelled.write_h5ad(tmp_path / "new.h5ad")
    told = json.loads(run("predict", out, str(tmp_path / "new.h5ad"), *covariates, "--json")[1])
    assert {row["prediction"] for row in told} == {"a", "b"}
    code, _, err = run("fit", "pln-discriminant", str(file), "-t", "bach", "--out", str(tmp_path / "NO"))
    assert (code, "did you mean 'batch'" in err) == (2, True)
