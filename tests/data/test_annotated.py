"""Fits written into an AnnData: beside its matrix, which stays what it is, and only where names agree."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from tallies import LDA, PLN, PLNMixture, PLNNetwork
from tallies.errors import DataError

anndata = pytest.importorskip("anndata")

COUNTS = np.random.default_rng(0).poisson(np.exp(np.random.default_rng(1).normal(1.0, 1.0, size=(40, 1)) + np.zeros(6)))
GENES = [f"gene{j}" for j in range(6)]


def cells(counts=COUNTS):
    names = pd.DataFrame(index=[f"cell{i}" for i in range(len(counts))]), pd.DataFrame(index=GENES[: counts.shape[1]])
    return anndata.AnnData(sp.csr_matrix(counts.astype(np.float32)), *names)


@pytest.fixture(scope="module")
def pln():
    return PLN(rank=2, tol=1e-5).fit(cells(), offsets="logsum")


@pytest.fixture(scope="module")
def lda():
    return LDA(n_topics=3, max_iter=30, burn_in=20).fit(cells())


def test_a_pln_beside_a_matrix_that_stays_as_it_is(pln, tmp_path):
    data = cells()
    X, kept = data.X, data.X.copy()
    assert pln.to_anndata(data, key="fit") is data
    assert data.X is X
    assert (kept != X).nnz == 0
    np.testing.assert_array_equal(data.obsm["X_fit"], pln.latent_mean_)
    np.testing.assert_array_equal(data.obsm["fit_variance"], pln.latent_variance_)
    np.testing.assert_array_equal(data.varm["fit_components"], pln.components_)
    np.testing.assert_array_equal(data.varm["fit_coefficients"], pln.coefficients_.T)
    about = data.uns["fit"]
    assert (about["loglik"], about["bic"], about["icl"]) == (pln.loglik_, pln.bic_, pln.icl_)
    assert about["model"].startswith("PLN(")
    assert about["offsets"] == "logsum"
    data.write_h5ad(tmp_path / "cells.h5ad")  # all of it is what such a file can hold
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(again.varm["fit_components"], pln.components_)
    assert again.uns["fit"]["model"] == about["model"]


def test_what_stays_in_its_file_is_not_read(pln, tmp_path):
    cells().write_h5ad(tmp_path / "cells.h5ad")
    data = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    assert pln.to_anndata(data).isbacked
    np.testing.assert_array_equal(data.obsm["X_pln"], pln.latent_mean_)


def test_a_network_has_positions_of_all_columns():
    data, model = cells(), PLNNetwork(penalty=0.2).fit(COUNTS)
    assert model.to_anndata(data).obsm["X_pln"].shape == (40, 6)


@pytest.fixture(scope="module")
def mixture():
    return PLNMixture(n_components=2, tol=1e-5).fit(cells(), offsets="logsum")


def test_clusters_beside_a_matrix_that_stays_as_it_is(mixture, tmp_path):
    data = cells()
    X, kept = data.X, data.X.copy()
    assert mixture.to_anndata(data, key="kind") is data
    assert data.X is X
    assert (kept != X).nnz == 0
    assert data.obs["kind"].tolist() == [f"cluster {k + 1}" for k in mixture.labels_]
    np.testing.assert_array_equal(data.obsm["kind_probabilities"], mixture.probabilities_)
    np.testing.assert_array_equal(data.obsm["X_kind"], mixture.latent_mean_)
    np.testing.assert_array_equal(data.obsm["kind_variance"], mixture.latent_variance_)
    np.testing.assert_array_equal(data.varm["kind_means"], mixture.means_.T)
    about = data.uns["kind"]
    assert (about["loglik"], about["bic"], about["icl"]) == (mixture.loglik_, mixture.bic_, mixture.icl_)
    assert (about["offsets"], about["covariates"]) == ("logsum", ["intercept"])
    np.testing.assert_array_equal(about["shares"], mixture.shares_)
    data.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert again.obs["kind"].tolist() == data.obs["kind"].tolist()
    assert again.uns["kind"]["model"].startswith("PLNMixture(")


def test_an_lda_beside_a_matrix_that_stays_as_it_is(lda, tmp_path):
    data = cells()
    X = data.X
    assert lda.to_anndata(data) is data
    assert data.X is X
    np.testing.assert_array_equal(data.obsm["X_lda"], lda.document_topics_)
    np.testing.assert_array_equal(data.varm["lda_topics"], lda.topics_.T)
    assert data.uns["lda"]["topics"] == lda.topic_names_
    assert data.uns["lda"]["log_joint"] == lda.history_[-1]
    data.write_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(anndata.read_h5ad(tmp_path / "cells.h5ad").uns["lda"]["alpha"], lda.alpha_)


def test_other_rows_and_columns_are_refused_in_words(pln, mixture, lda):
    data = cells()
    for model in (pln, mixture, lda):
        with pytest.raises(DataError, match=r"the fit has 6 columns, but the AnnData has 5; pass the one that was fitted"):
            model.to_anndata(cells(COUNTS[:, :5]))
        with pytest.raises(DataError, match=r"the fit has 40 rows, but the AnnData has 9"):
            model.to_anndata(cells(COUNTS[:9]))
        with pytest.raises(
            DataError, match=r"var_names\[0\] is 'gene5', and was 'gene0' there; .* another order: sort it by var_names"
        ):
            model.to_anndata(data[:, ::-1])
        renamed = cells()
        renamed.var_names = [*GENES[:5], "other"]
        with pytest.raises(DataError, match=r"var_names\[5\] is 'other', and was 'gene5' there; pass the one that was fitted"):
            model.to_anndata(renamed)
        with pytest.raises(DataError, match="expected an AnnData to write into, got DataFrame"):
            model.to_anndata(pd.DataFrame(COUNTS))
    with pytest.raises(DataError, match=r"obs_names\[0\] is 'cell39', and was 'cell0' there; .* sort it by obs_names"):
        pln.to_anndata(data[::-1])
    assert not data.obsm
    assert not len(data.obs.columns)
    assert not data.uns


def test_sparse_counts_of_a_full_covariance_stay_sparse():
    model = PLN(max_iter=200, tol=1e-4).fit(data := cells())
    assert sp.issparse(model.fitted_.data.Y)
    assert sp.issparse(model.to_anndata(data).X)
    np.testing.assert_allclose(model.covariance_, PLN(max_iter=200, tol=1e-4).fit(COUNTS).covariance_, rtol=1e-9)


def test_a_fit_without_names_is_matched_by_its_size():
    data = cells()
    PLN(rank=1, tol=1e-5).fit(COUNTS).to_anndata(data)
    assert data.obsm["X_pln"].shape == (40, 1)
