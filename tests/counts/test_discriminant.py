"""PLNDiscriminant: exact small cases, the fit as a PLN, what new samples are told, bad input, the page and the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from scipy.special import gammaln
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_score

import tallies
from tallies import PLN, PLNDiscriminant
from tallies.counts.discriminant import answers as asked
from tallies.html import build


def labelled(seed: int, n: int = 240, p: int = 8, K: int = 3, apart: float = 0.7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, classes and a covariate."""
    rng = np.random.default_rng(seed)
    L, mu = rng.normal(size=(p, p)) / np.sqrt(p), rng.normal(1.0, 0.7, p) + apart * rng.normal(size=(K, p))
    codes, x = rng.integers(0, K, n), rng.normal(size=n)
    Z = mu[codes] + 0.5 * x[:, None] * rng.normal(size=p) + rng.multivariate_normal(np.zeros(p), 0.5 * L @ L.T + 0.3 * np.eye(p), n)
    return rng.poisson(np.exp(Z)), np.array(["fen", "moor", "wood"])[codes], x


@pytest.fixture(scope="module")
def found() -> tuple[PLNDiscriminant, np.ndarray, np.ndarray]:
    Y, y, _ = labelled(0)
    return PLNDiscriminant().fit(Y, y), Y, y


def bound(y: float, mean: float, variance: float) -> float:
    """Of log p(y) at one column, by brute force."""

    def minus(z: np.ndarray) -> float:
        m, s2 = z[0], np.exp(z[1])
        fit = y * m - np.exp(m + s2 / 2) - gammaln(y + 1)
        return -(fit - 0.5 * ((m - mean) ** 2 / variance + s2 / variance - 1 + np.log(variance) - z[1]))

    return -optimize.minimize(
        minus, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 4000}
    ).fun


def test_one_column_against_brute_force_and_quadrature() -> None:
    rng = np.random.default_rng(1)
    codes = np.arange(80) % 2
    model = PLNDiscriminant().fit(rng.poisson(np.exp(rng.normal(1.0 + codes, 0.8)))[:, None], codes)
    n, N, sigma2 = 40, 80, model.covariance_[0, 0] * 80 / 78 * (1 + 1 / 40)
    new = np.array([[0], [3], [17]])
    given = model.log_prob_given(new)
    z, w = np.polynomial.hermite_e.hermegauss(120)
    for i, count in enumerate(new[:, 0]):
        for k, mean in enumerate(model.means_[:, 0]):
            assert given[i, k] == pytest.approx(bound(count, mean, sigma2), abs=1e-8)
            exact = np.log(w @ stats.poisson.pmf(count, np.exp(mean + np.sqrt(sigma2) * z)) / np.sqrt(2 * np.pi))
            assert exact - 0.05 < given[i, k] <= exact
    joint = given + np.log(n / N)
    np.testing.assert_allclose(model.predict_proba(new), np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True), rtol=1e-10)
    np.testing.assert_allclose(model.log_prob(new), np.log(np.exp(joint).sum(axis=1)), rtol=1e-10)


def test_the_fit_is_that_of_a_pln_with_classes_for_covariates() -> None:
    Y, y, x = labelled(2)
    model, plain = PLNDiscriminant().fit(Y, y, covariates=x[:, None]), np.column_stack([x, pd.get_dummies(y).to_numpy(float)])
    other = PLN().fit(Y, covariates=plain)
    assert model.elbo_ == pytest.approx(other.elbo_, rel=1e-9)
    np.testing.assert_allclose(model.coefficients_, other.coefficients_, atol=1e-4)
    assert model.covariate_names_.tolist() == ["x0", "class fen", "class moor", "class wood"]
    ones = PLNDiscriminant().fit(Y, y, covariates=np.column_stack([np.ones(len(x)), x]))  # which leaves the first class out
    assert ones.covariate_names_.tolist() == ["x0", "x1", "class moor", "class wood"]
    for ask in ("predict_log_proba", "transform"):
        one, two = (
            getattr(model, ask)(Y, covariates=x[:, None]),
            getattr(ones, ask)(Y, covariates=np.column_stack([np.ones(len(x)), x])),
        )
        np.testing.assert_allclose(one, two, atol=2e-3)
    np.testing.assert_allclose(model.means_, ones.means_, atol=1e-4)


def test_a_species_never_seen_in_a_class_counts_for_half(found: Any) -> None:
    Y, y, _ = labelled(3)
    Y[y == "moor", 0] = 0
    offsets = np.linspace(-0.5, 0.5, len(y))
    model = PLNDiscriminant().fit(Y, y, offsets=offsets)
    effort = np.exp(offsets[y == "moor"] + 0.5 * model.covariance_[0, 0]).sum()
    assert effort * np.exp(model.means_[1, 0]) == pytest.approx(0.5, rel=1e-9)
    assert model.coefficients_[:, 0].min() < -3  # which has no end
    assert "never seen in a group" in model.summary()
    new = np.zeros((1, Y.shape[1]))
    new[0, 0] = 1
    assert np.isfinite(model.predict_log_proba(new, offsets=[0.0])).all()


def test_correlations_are_shrunk_and_the_spread_is_that_of_a_prediction(found: Any) -> None:
    model, Y, y = found
    N, d, n = len(Y), 3, np.array([(y == c).sum() for c in model.classes_])
    R = model.correlation_[np.triu_indices(Y.shape[1], 1)]
    part = np.sum((1 - R**2) ** 2) / (N - 1) / np.sum(R**2)
    assert 0 < part < 1
    shrunk = model.covariance_ * np.where(np.eye(Y.shape[1]), 1, 1 - part)
    for k, learned in enumerate(asked.models(model.fitted_, "auto")):
        np.testing.assert_allclose(learned.Sigma, shrunk * N / (N - d) * (1 + 1 / n[k]), rtol=1e-12)
    assert asked.models(model.fitted_, None)[0].Sigma[0, 1] / asked.models(model.fitted_, 0.25)[0].Sigma[0, 1] == pytest.approx(
        4 / 3
    )


def test_axes_have_unit_spread_and_tell_classes_apart(found: Any) -> None:
    model, Y, y = found
    V, Sigma = model.axes_, asked.shrunk(model.fitted_, "auto")
    np.testing.assert_allclose(V.T @ Sigma @ V, np.eye(2), atol=1e-10)
    centres = model.means_ @ V
    weight = np.array([(y == c).mean() for c in model.classes_])
    about = centres - weight @ centres
    cross = about.T @ (weight[:, None] * about)
    assert cross[0, 0] > cross[1, 1] > 0
    assert abs(cross[0, 1]) < 1e-10
    Z = model.transform(Y)
    assert Z.shape == (len(Y), 2)
    means = np.array([Z[y == c].mean(axis=0) for c in model.classes_])
    assert (means / about > 0.75).all() and (means / about < 1.0).all()  # positions of samples are drawn to the middle
    assert model.get_feature_names_out().tolist() == ["plndiscriminant0", "plndiscriminant1"]


def test_it_is_a_classifier(found: Any) -> None:
    model, Y, y = found
    assert model.score(Y, y) == (model.predict(Y) == y).mean() > 0.8
    assert cross_val_score(PLNDiscriminant(), Y, y, cv=3).mean() > 0.75
    assert tallies.evaluate(model, Y, y).kind == "bound"
    counts, drawn = model.sample(4000, random_state=0)
    assert model.score(counts, drawn) > 0.75
    np.testing.assert_allclose([(drawn == c).mean() for c in model.classes_], model.priors_, atol=0.04)
    only, same = model.sample(5, y="wood", random_state=0)
    assert only.shape == (5, 8)
    assert set(same) == {"wood"}
    marks = model.marks_
    assert marks.columns.tolist() == ["class", "species", "mean", "factor", "z"]
    first = marks[marks["class"] == "wood"].iloc[0]
    assert abs(first["z"]) == marks[marks["class"] == "wood"]["z"].abs().max()
    j, share = model._columns().tolist().index(first["species"]), model.priors_.to_numpy()
    assert np.log(first["factor"]) == pytest.approx(model.means_[2, j] - share @ model.means_[:, j])


@pytest.mark.parametrize(
    ("seed", "n", "p"),
    [pytest.param(0, 300, 30, marks=pytest.mark.long), (1, 100, 30), pytest.param(2, 100, 60, marks=pytest.mark.long)],
)
def test_log_loss_is_not_above_that_of_logistic_regression_on_log_counts(seed: int, n: int, p: int) -> None:
    Y, y, _ = labelled(seed, n, p, apart=0.4)
    ours, theirs = np.zeros((n, 3)), np.zeros((n, 3))
    for train, test in StratifiedKFold(4, shuffle=True, random_state=0).split(Y, y):
        ours[test] = PLNDiscriminant().fit(Y[train], y[train]).predict_proba(Y[test])
        logistic = LogisticRegression(max_iter=5000).fit(np.log1p(Y[train]), y[train])
        theirs[test] = logistic.predict_proba(np.log1p(Y[test]))
    assert log_loss(y, ours) <= log_loss(y, theirs)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"y": None}, "requires y"),
        ({"y": ["a"] * 240}, "one class"),
        ({"y": [None, *"ab" * 119, "a"]}, "missing labels"),
        ({"y": list("ab" * 100)}, "inconsistent numbers"),
        ({"y": [f"class {i}" for i in range(240)]}, "more rows than covariates"),
        ({"sample_weight": np.r_[np.ones(120), np.zeros(120)], "y": ["a", "b"] * 60 + ["c"] * 120}, "no row with a weight"),
        ({"covariates": np.repeat([[1.0], [0.0]], 120, axis=0), "y": ["a"] * 120 + ["b"] * 120}, "class"),
    ],
)
def test_bad_input_is_told(change: dict[str, Any], says: str) -> None:
    Y, y, _ = labelled(4)
    with pytest.raises(ValueError, match=says):
        PLNDiscriminant().fit(**{"counts": Y, "y": y, **change})
    with pytest.raises(ValueError, match="shrinkage"):
        PLNDiscriminant(shrinkage=2.0).fit(Y, y)
    with pytest.raises(ValueError, match="no counts"):
        PLNDiscriminant().fit(np.column_stack([Y, np.zeros(240)]), y)


def test_a_constant_column_is_fitted_and_named() -> None:
    Y, y, _ = labelled(4)
    with pytest.warns(tallies.errors.DataWarning, match=r"\['y8'\] \(1 of 9\) vary less"):
        model = PLNDiscriminant().fit(np.column_stack([Y[:, :8], np.full(240, 3)]), y)
    assert np.isfinite(model.predict_proba(np.column_stack([Y[:, :8], np.full(240, 3)]))).all()


def test_new_samples_need_what_the_fit_had() -> None:
    Y, y, x = labelled(5)
    model = PLNDiscriminant().fit(Y, y, covariates=x[:, None], offsets=0.1 * x)
    with pytest.raises(ValueError, match="covariates"):
        model.predict(Y[:3] + 1)
    with pytest.raises(ValueError, match="offsets"):
        model.predict(Y[:3] + 1, covariates=x[:3, None])
    hidden = Y[:3].astype(float)
    hidden[0, 1] = np.nan
    assert np.isfinite(model.predict_proba(hidden, covariates=x[:3, None], offsets=0.1 * x[:3])).all()


def test_a_column_of_the_file_may_be_the_class(tmp_path: Path, found: Any) -> None:
    model, Y, y = found
    pd.DataFrame(Y).add_prefix("s").assign(kind=y).to_csv(tmp_path / "counts.csv", index=False)
    again = PLNDiscriminant().fit(tmp_path / "counts.csv", "kind")
    np.testing.assert_allclose(again.means_, model.means_)


def test_the_first_column_of_the_file_may_be_the_class(tmp_path: Path, found: Any) -> None:
    model, Y, y = found
    path, table = tmp_path / "counts.csv", pd.DataFrame(Y).add_prefix("s")
    table.insert(0, "kind", y)
    table.to_csv(path, index=False)
    again = PLNDiscriminant().fit(path, y="kind")
    np.testing.assert_array_equal(again.means_, model.means_)
    np.testing.assert_array_equal(again.predict(path), model.predict(Y))
    beside = PLNDiscriminant().fit(table.drop(columns="kind"), (Y[:, 0] > 3).astype(int), covariates=(y == "wood") * 1.0)
    table["high"] = (Y[:, 0] > 3).astype(int)
    table["kind"] = np.where(y == "wood", "wood", "else")
    table.to_csv(path, index=False)
    named = PLNDiscriminant().fit(path, y="high", covariates="kind")
    assert named.elbo_ == pytest.approx(beside.elbo_, rel=1e-2)
    assert list(named.covariate_names_[:2]) == ["Intercept", "kind[T.wood]"]


def test_the_page_leads_with_what_marks_the_classes(tmp_path: Path, found: Any) -> None:
    model, Y, y = found
    model.report(tmp_path / "page.html", Y, y, held_out=False)
    text = (tmp_path / "page.html").read_text()
    best = model.marks_[model.marks_["class"] == "wood"].iloc[0]["species"]
    assert "wood has" in text
    assert best in text
    for title in (
        "What marks each class",
        "How far apart the classes are",
        "Means of the classes",
        "Can its probabilities be believed?",
    ):
        assert title in text
    model.report(tmp_path / "alone.html")
    assert "cannot say how good" in (tmp_path / "alone.html").read_text()
    two = PLNDiscriminant().fit(Y, y == "wood")
    two.report(tmp_path / "two.html", Y)
    assert "no meaning" in (tmp_path / "two.html").read_text()


def test_a_species_whose_effects_are_not_finite_marks_no_class() -> None:
    """Seen once in each class, at the highest value of a covariate, its means are anything."""
    rng = np.random.default_rng(0)
    x, y = np.linspace(-1, 1, 40), np.arange(40) % 2
    Y = rng.poisson(np.exp(1.5 + np.outer(y, [0.0, 0.6, -0.6]) + rng.normal(0, 0.3, (40, 3))))
    counts = pd.DataFrame(Y, columns=["a", "b", "c"]).assign(rare=np.where(np.arange(40) >= 38, 3, 0))
    model = PLNDiscriminant().fit(counts, y, covariates=pd.DataFrame({"x": x}))
    page = build(model)
    assert not any("rare" in text for text in page.findings)
    assert any(text.startswith("rare: seen so rarely") for text in page.warnings)
    assert any("b (x" in text for text in page.findings)
