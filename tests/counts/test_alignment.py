"""What stands beside counts: offsets that are logarithms, rows and columns by name, covariates that are the samples' own."""

import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tallies
from tallies.counts.alignment import in_order
from tallies.counts.estimator import PLN
from tallies.counts.tables import Counts
from tallies.errors import DataError, DataWarning


def made(n=40, p=5, seed=0, mean=1.0):
    """Counts by effort, a covariate, and the logarithms of the effort, all by the names of the samples."""
    rng = np.random.default_rng(seed)
    samples, species = [f"s{i}" for i in range(n)], [f"sp{j}" for j in range(p)]
    effort, height = pd.Series(rng.uniform(0, 3, n), samples, name="effort"), pd.DataFrame({"height": rng.normal(size=n)}, samples)
    Z = mean + effort.to_numpy()[:, None] + height.to_numpy() * rng.normal(0, 0.5, p) + 0.3 * rng.normal(size=(n, p))
    return pd.DataFrame(rng.poisson(np.exp(Z)), samples, species), height, effort


@pytest.fixture(scope="module")
def fitted():
    Y, X, O = made()
    return PLN(intercept=True).fit(Y, covariates=X, offsets=O)


# offsets are logarithms


@pytest.mark.parametrize("mean", [-1.5, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("of", ["row sums", "ten times", "rarefied", "halves", "cells"])
def test_raw_totals_are_refused_with_the_remedy(mean, of):
    Y, _, _ = made(mean=mean)
    total = Y.sum(axis=1).to_numpy()
    offsets = {
        "row sums": total,
        "ten times": 10 * total,
        "rarefied": np.full(len(Y), max(200, total.max())),
        "halves": 5 * total + 0.5,
        "cells": np.repeat(total[:, None], Y.shape[1], axis=1),
    }[of]
    with pytest.raises(DataError, match=r'take the log of the sampling effort, or let offsets="logsum"'):
        PLN().fit(Y, offsets=offsets)


@pytest.mark.parametrize("seed", range(20))
def test_logarithms_are_never_taken_for_totals(seed):
    rng = np.random.default_rng(seed)
    Y, _, _ = made(int(rng.integers(3, 60)), int(rng.integers(1, 9)), seed, mean=rng.uniform(-2, 5))
    Y = Y.to_numpy() + (rng.random(Y.shape) < 0.1)
    Y[:, Y.sum(axis=0) == 0] = 1
    depth = Y.sum(axis=1) * rng.choice([1, 10, 1000]) + rng.integers(1, 50, len(Y))  # of a table of which this is a part
    efforts = [np.log(depth), np.log(np.maximum(Y.sum(axis=1), 1)), np.log(rng.choice([1, 2, 5, 100], len(Y)))]
    whole = rng.integers(0, 3, len(Y))  # e, e^2: whole by chance, or made up
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for offsets in (*efforts, np.log(rng.uniform(1e-3, 1e3, Y.shape)), np.full(len(Y), 2.0)):
            assert PLN(max_iter=2, tol=1.0).fit(Y, offsets=offsets).offsets_ is not None
        made_up = rng.poisson(np.exp(1.0 + whole[:, None] + rng.normal(size=Y.shape))) + 1
        PLN(max_iter=2, tol=1.0).fit(made_up, offsets=whole)


def test_raw_totals_of_new_samples_are_refused_too(fitted):
    Y, X, _ = made(seed=1)
    with pytest.raises(DataError, match="take the log"):
        fitted.score(Y, covariates=X, offsets=Y.sum(axis=1))


# by name


@pytest.mark.parametrize("form", ["series", "column", "cells"])
def test_offsets_are_matched_by_the_names_of_their_rows(form):
    Y, X, O = made()
    right = PLN(intercept=True).fit(Y, covariates=X, offsets=O.to_numpy())
    assert right.covariance_.diagonal().mean() < 0.3
    if form != "series":
        O = O.to_frame() if form == "column" else pd.DataFrame({c: O + 0.1 * j for j, c in enumerate(Y.columns)})
    if form == "cells":
        right = PLN(intercept=True).fit(Y, covariates=X, offsets=O.to_numpy())
        O = O.iloc[:, ::-1]  # the names of its columns count as well
    turned = PLN(intercept=True).fit(Y, covariates=X, offsets=O.iloc[::-1])
    assert turned.elbo_ == right.elbo_
    few = Y.iloc[5:9]
    asked = [right.transform(few, covariates=X, offsets=o) for o in (O.loc[few.index], O)]
    np.testing.assert_array_equal(*asked)
    expected = [right.predict(covariates=X.iloc[5:9], offsets=o) for o in (O.loc[few.index], O)]
    np.testing.assert_array_equal(*expected)
    drawn = [right.sample(4, covariates=X.iloc[5:9], offsets=o, random_state=0) for o in (O.loc[few.index], O)]
    np.testing.assert_array_equal(*drawn)


def test_offsets_of_other_names_are_told():
    Y, _, O = made()
    with pytest.raises(DataError, match=r"offsets have no row for samples \['s0'\]"):
        PLN().fit(Y, offsets=O.iloc[1:])
    with pytest.raises(DataError, match="several rows for samples"):
        PLN().fit(Y, offsets=pd.concat([O, O.iloc[:1]]))
    cells = pd.DataFrame(dict.fromkeys(Y.columns, O))
    with pytest.raises(DataError, match=r"offsets lack the columns \['sp1'\].*did you mean 'spl1'"):
        PLN().fit(Y, offsets=cells.rename(columns={"sp1": "spl1"}))
    with pytest.warns(DataWarning, match="left out"):
        PLN(max_iter=2, tol=1.0).fit(Y, offsets=cells.assign(more=1.0))
    plain = Y.reset_index(drop=True)  # numbers from 0 on: what has none of these names goes by position
    numbered = O.set_axis(range(len(O)))
    right = PLN(max_iter=5).fit(plain, offsets=O.to_numpy())
    for offsets in (O, numbered, numbered.iloc[::-1], numbered.sample(frac=1, random_state=0)):
        assert PLN(max_iter=5).fit(plain, offsets=offsets).elbo_ == right.elbo_


def test_columns_of_counts_are_matched_by_name(fitted):
    Y, X, O = made(seed=1)
    turned = Y.iloc[:, ::-1]
    for ask in ("transform", "predict", "log_prob", "score"):
        ask = getattr(fitted, ask)
        np.testing.assert_array_equal(ask(turned, covariates=X, offsets=O), ask(Y, covariates=X, offsets=O))
    asked = [fitted.predict_conditional(counts, ["sp1", "sp4"], covariates=X, offsets=O) for counts in (Y, turned)]
    pd.testing.assert_frame_equal(*asked)
    asked = [tallies.evaluate(fitted, counts, X, O).value for counts in (Y, turned)]
    assert asked[0] == asked[1]
    asked = [fitted.evidence(counts, covariates=X, offsets=O, n_draws=10).value for counts in (Y, turned)]
    assert asked[0] == asked[1]
    with pytest.raises(DataError, match=r"counts lack the columns \['sp2'\].*did you mean 'spx2'"):
        fitted.score(Y.rename(columns={"sp2": "spx2"}), covariates=X, offsets=O)
    with pytest.raises(DataError, match=r"columns \['more'\].*the fit did not have"):
        fitted.score(Y.assign(more=1), covariates=X, offsets=O)
    years = pd.DataFrame(Y.to_numpy(), columns=range(2000, 2005))  # names that are no texts
    model = PLN(max_iter=5).fit(years)
    np.testing.assert_array_equal(model.transform(years[years.columns[::-1]]), model.transform(years))


def test_columns_of_covariates_are_matched_by_name():
    Y, X, O = made()
    X = X.assign(depth=np.random.default_rng(1).normal(size=len(X)))
    model = PLN(intercept=True).fit(Y, covariates=X, offsets=O)
    new, _, effort = made(seed=1)
    right = model.transform(new, covariates=X, offsets=effort)
    np.testing.assert_array_equal(model.transform(new, covariates=X[["depth", "height"]], offsets=effort), right)
    with pytest.warns(DataWarning, match=r"columns \['site'\] of covariates .* left out"):
        np.testing.assert_array_equal(model.transform(new, covariates=X.assign(site="east"), offsets=effort), right)
    with pytest.raises(DataError, match=r"covariates lack the columns \['height'\].*did you mean 'hieght'"):
        model.transform(new, covariates=X.rename(columns={"height": "hieght"}), offsets=effort)


# covariates and offsets of new samples


@pytest.mark.parametrize("intercept", [False, True])
def test_a_model_without_covariates_takes_none(intercept):
    Y = np.random.default_rng(0).poisson(3.0, (20, 3))
    model = PLN(intercept=intercept, max_iter=50).fit(Y)
    with pytest.raises(DataError, match="fitted without covariates"):
        model.transform(Y[:2], covariates=[[5.0], [3.0]])
    if not intercept:
        np.testing.assert_array_equal(model.transform(Y[:2], covariates=np.ones((2, 1))), model.transform(Y[:2]))


def test_new_samples_need_covariates_and_offsets_of_their_own(fitted):
    Y, X, O = made(seed=1)
    for ask in (fitted.transform, fitted.predict, fitted.log_prob, fitted.score, fitted.evidence, fitted._evaluate):
        with pytest.raises(DataError, match=r"fitted with covariates.*pass them"):
            ask(Y, offsets=O)
        with pytest.raises(DataError, match="fitted with offsets; pass those of the new rows"):
            ask(Y, covariates=X)
    with pytest.raises(DataError, match="pass them"):
        tallies.compare({"one": fitted, "other": fitted}, Y, offsets=O)
    with pytest.raises(DataError, match="pass them"):
        fitted.report("page.html", Y, None, O)


def test_the_counts_of_the_fit_need_neither(fitted, tmp_path):
    Y, X, O = made()
    for ask in (fitted.transform, fitted.predict, fitted.log_prob, fitted.score):
        np.testing.assert_array_equal(ask(Y), ask(Y, covariates=X, offsets=O))
    np.testing.assert_array_equal(fitted.score(Y.iloc[:, ::-1]), fitted.score(Y))
    assert fitted.report(tmp_path / "page.html", Y).is_file()
    gaps = Y.astype(float).mask(Y == 3)
    model = PLN(intercept=True).fit(gaps, covariates=X, offsets=O)
    np.testing.assert_allclose(model.predict(gaps), model.predict(gaps, covariates=X, offsets=O))
    with pytest.raises(DataError, match="pass them"):
        model.predict(Y)  # the gaps filled in: not what was fitted


# names


def test_fitted_tables_have_a_named_form(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    for model in (fitted, tallies.load(tmp_path / "model")):
        R, B = model.named("correlation"), model.named("coefficients")
        assert R.loc["sp1", "sp3"] == fitted.correlation_[1, 3]
        assert B.loc["height", "sp2"] == fitted.coefficients_[1, 2]
        assert model.named("latent_mean").loc["s7", "sp4"] == fitted.latent_mean_[7, 4]
        np.testing.assert_array_equal(model.named("precision"), fitted.precision_)
    ranked = PLN(rank=2, max_iter=20).fit(made()[0].to_numpy())  # without names they are numbered
    assert ranked.named("components").index.tolist() == ["y0", "y1", "y2", "y3", "y4"]
    assert ranked.named("latent_mean").columns.tolist() == ["pln0", "pln1"]
    with pytest.raises(ValueError, match="did you mean 'correlation'"):
        fitted.named("corelation")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("~ 1 + heigt", "there is no 'heigt'; did you mean 'height'"),
        ("~ 1 + log(hieght)", "there is no 'hieght'; did you mean 'height'"),
        ("~ C(Site)", "there is no 'Site'; did you mean 'site'"),
        ("~ `soil typ`", "there is no 'soil typ'; did you mean 'soil type'"),
        ("~ 1 + scael(height)", "there is no 'scael'; did you mean 'scale'"),
    ],
)
def test_a_misspelt_column_of_a_formula_is_told_with_the_nearest(text, told):
    Y, X, _ = made()
    data = X.assign(site=["east", "west"] * 20, **{"soil type": 1.0})
    with pytest.raises(DataError, match=told):
        PLN.from_formula(text, Y, data)


def test_formulas_need_no_extra():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert any(line.startswith("formulaic") for line in project["dependencies"])


def test_gaps_go_with_their_columns():
    table = Counts(np.array([[1.0, 2.0, 0.0]]), np.array([[False, False, True]]), None, np.array(["a", "b", "c"], dtype=object))
    found = in_order(table, ["c", "a", "b"])
    assert found.Y.tolist() == [[0.0, 1.0, 2.0]]
    assert found.missing.tolist() == [[True, False, False]]
