"""Effects that have no finite estimate, and effects as factors."""

import warnings

import numpy as np
import pandas as pd
import pytest

from tallies import PLN
from tallies.counts import views
from tallies.counts.coefficients import separated
from tallies.errors import DataError

GROUPS = np.arange(90) % 3


@pytest.fixture(scope="module")
def counts():
    """Ash is never seen in group 1, elm never in group 0, yew once, the others everywhere."""
    rng = np.random.default_rng(0)
    names = ["ash", "elm", "yew", "fir", "oak", "fig"]
    Y = pd.DataFrame(rng.poisson(np.exp(1.5 + 0.5 * rng.normal(size=(90, 6)) + 0.8 * (GROUPS == 2)[:, None])), columns=names)
    Y.loc[GROUPS == 1, "ash"] = 0
    Y.loc[GROUPS == 0, "elm"] = 0
    Y["yew"] = 3 * (np.arange(90) == 5)
    return Y


@pytest.fixture(scope="module")
def sites():
    slope = np.random.default_rng(1).normal(size=90)
    return pd.DataFrame({"one": 1.0, "g1": GROUPS == 1, "g2": GROUPS == 2, "slope": slope}).astype(float)


@pytest.fixture(scope="module", params=[None, 2])
def model(request, counts, sites):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PLN(rank=request.param, random_state=0).fit(counts, covariates=sites)


def test_separated_effects_are_marked(model, counts):
    table = model.coefficient_table()
    apart = table["separated"].unstack("column")[list(counts.columns)]
    assert apart.loc["g1"].tolist() == [True, True, True, False, False, False]  # elm: against a group where it is not
    assert apart.loc["g2"].tolist() == [False, True, True, False, False, False]
    assert apart.loc["one"].tolist() == [False, True, True, False, False, False]
    assert not apart.loc["slope"][["ash", "elm", "fir", "oak", "fig"]].any()
    known = table[~table["separated"]]
    assert np.isfinite(known.to_numpy(dtype=float)).all()
    assert table.loc[table["separated"], ["std_error", "lower", "upper", "p_value", "factor", "factor_upper"]].isna().all(axis=None)


def test_separation_is_that_of_the_likelihood():
    """Against an exhaustive look at directions: one that no count opposes, and some zero favours."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(40):
        n = 12
        X = np.column_stack([np.ones(n), rng.integers(0, 2, n), rng.integers(-1, 2, n)]).astype(float)
        Y = rng.poisson(0.5, (n, 3))
        Y[0] += Y.sum(axis=0) == 0
        if np.linalg.matrix_rank(X) < 3:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PLN(covariance="diagonal", max_iter=2).fit(Y, covariates=X)
        angles = np.stack(np.meshgrid(*[np.arange(-4, 5)] * 3), axis=-1).reshape(-1, 3)
        for j, apart in enumerate(separated(model.fitted_).T):
            at = angles @ X.T
            rises = (at[:, Y[:, j] > 0] == 0).all(axis=1) & (at <= 0).all(axis=1) & (at < 0).any(axis=1)
            found.append(rises.any())
            assert apart.any() == rises.any()
            assert apart[np.abs(angles[rises]).max(axis=0, initial=0) > 0].all()
    assert 10 < sum(found) < len(found) - 10  # both kinds were met


def test_headlines_and_shares_leave_them_out(model, counts, sites):
    assert not any("ash" in what and "g1" in name for name, what in model._learned())
    assert all(abs(float(what.split()[0])) < 5 for name, what in model._learned() if "effect" in name)
    others = [c for c in counts.columns if c not in ("ash", "elm", "yew")]
    mean = model.design_ @ model.coefficients_[:, [counts.columns.get_loc(c) for c in others]]
    spread = model.covariance_.diagonal()[[counts.columns.get_loc(c) for c in others]].sum()
    assert model.r2_ == pytest.approx(mean.var(axis=0).sum() / (mean.var(axis=0).sum() + spread))
    assert model.r2_ < 0.7
    from tallies.html import build

    page = build(model)
    chart = next(c for c in page._charts if "views" in c and c["by"] == "covariate")
    drawn = chart["views"][0]  # of g1
    assert set(drawn["labels"]) == {"fir", "oak", "fig"}
    assert np.abs(drawn["series"][0]["values"]).max() < 5
    assert "never seen in one of the groups, and not drawn: ash, elm, yew" in drawn["caption"]


def test_effects_are_factors_too(model):
    table = model.coefficient_table(confidence=0.9)
    known = table[~table["separated"]]
    np.testing.assert_allclose(known["factor"], np.exp(known["estimate"]))
    np.testing.assert_allclose(known[["factor_lower", "factor_upper"]], np.exp(known[["lower", "upper"]]))
    assert "3 of 6 columns (ash, elm, yew) are never seen in a group" in model.summary()
    assert any("(x" in what for name, what in model._learned() if "effect" in name)
    chart = views.forest(*(np.ones((1, 2)), None, np.zeros((1, 2), dtype=bool)), ["a"], ["b", "c"])
    assert chart["columns"] == ["species", "effect", "factor"]
    assert chart["rows"][0][2] == pytest.approx(np.e)


def test_a_flat_bound_and_no_samples_are_told_in_words():
    counts = np.array([[3.0, 3.0, 4.0], [np.nan, np.nan, 3.0], [1.0, np.nan, np.nan]])
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    model = PLN(rank=2, max_iter=1, tol=1e-6, n_starts=2).fit(counts, covariates=X, offsets="logsum")
    with pytest.raises(DataError, match="no standard errors"):
        model.coefficient_table()
    plain = PLN(max_iter=5).fit([[3, 4], [2, 2], [1, 2]], offsets=[0, 0, 0])
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1, got 95"):
        plain.coefficient_table(confidence=95)
    with pytest.raises(DataError, match="no sample to speak of"):
        plain.predict(covariates=np.ones((0, 1)), offsets=[])
