"""Plots of PLN draw what the model says."""

import numpy as np
import pandas as pd
import pytest

from tallies import PLN
from tallies.counts import answers, views
from tallies.errors import DataError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from tallies.counts import plots  # noqa: E402

SLOPE = pd.DataFrame({"slope": np.linspace(-1, 1, 40)})


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    Y = rng.poisson(np.exp(rng.normal(1, 1, (40, 2)) @ rng.normal(size=(2, 5)) * 0.5 + 1))
    return pd.DataFrame(Y, columns=["ant", "bee", "fly", "gnat", "moth"])


@pytest.fixture(scope="module", params=[None, 2])
def model(counts, request):
    return PLN(rank=request.param, random_state=0).fit(counts, covariates=SLOPE)


def arrows(ax) -> dict[str, np.ndarray]:
    """The ends of the arrows by the word that stands at each."""
    ends, words = ([text for text in ax.texts if bool(text.get_text()) is told] for told in (False, True))
    return {word.get_text(): np.array(arrow.xy) for arrow, word in zip(ends, words, strict=True)}


def test_latent(model):
    Z, _, share = plots.positions(model)
    chart = views.latent_map(model, [str(c) for c in model._columns()], {}, None)
    np.testing.assert_array_equal(Z, np.column_stack([chart["px"], chart["py"]]))  # report and plot draw one map
    ax = plots.plot_latent(model)
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), Z)
    assert f"{share[0]:.0%}" in ax.get_xlabel()
    assert not ax.texts
    altitude = np.linspace(0, 1, 40)
    dots = plots.plot_latent(model, colours=altitude).collections[0]
    np.testing.assert_array_equal(dots.get_offsets(), Z)
    np.testing.assert_array_equal(dots.get_array(), altitude)
    kinds = np.array(["a", "b"])[np.arange(40) % 2]
    ax = plots.plot_latent(model, colours=kinds)
    for dots, kind in zip(ax.collections, "ab", strict=True):
        np.testing.assert_array_equal(dots.get_offsets(), Z[kinds == kind])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]


def test_scores_and_loadings_give_the_latent_values(model):
    """Of rank two the plane holds all that the latent values have beside the covariates."""
    Z, loadings, share = plots.positions(model)
    np.testing.assert_allclose(loadings.T @ loadings, np.diag((loadings**2).sum(axis=0)), atol=1e-8)
    size = (model.components_**2).sum(axis=0)
    np.testing.assert_allclose(share, (size / size.sum())[:2])
    if model.rank == 2:
        np.testing.assert_allclose(loadings @ loadings.T, model.covariance_)
        np.testing.assert_allclose(Z, model.latent_mean_ * np.sqrt(size))


def test_biplot(model, counts):
    ax = plots.plot_biplot(model)
    Z, loadings, _ = plots.positions(model)
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), Z)
    found = arrows(ax)
    assert sorted(found) == sorted(counts.columns)
    assert max(np.abs(end).max() for end in found.values()) == pytest.approx(0.9 * np.abs(Z).max())
    unit = loadings / np.linalg.norm(loadings, axis=0)
    for name, end in found.items():  # one scale for all
        np.testing.assert_allclose(end / np.abs(Z).max(), 0.9 * unit[counts.columns.get_loc(name)] / np.abs(unit).max())
    assert list(arrows(plots.plot_biplot(model, columns=["fly", 0]))) == ["fly", "ant"]


def test_correlation_circle(model, counts):
    ax = plots.plot_correlation_circle(model, columns=["bee", 3])
    x, y = ax.lines[0].get_data()
    np.testing.assert_allclose(np.hypot(x, y), 1)
    correlation = plots.positions(model)[1] / np.sqrt(model.covariance_.diagonal())[:, None]
    found = arrows(ax)
    assert list(found) == ["bee", "gnat"]
    np.testing.assert_allclose(found["bee"], correlation[1])
    np.testing.assert_allclose(found["gnat"], correlation[3])
    assert (np.hypot(*correlation.T) < 1 + 1e-9).all()


def test_expected(model, counts):
    ax = plots.plot_expected(model, counts)
    expected, observed = np.asarray(ax.collections[0].get_offsets()).T
    Y = counts.to_numpy()
    np.testing.assert_array_equal(observed, np.maximum(Y, 0.5).ravel())
    rate = model.predict(counts, covariates=SLOPE)  # places the same counts anew
    np.testing.assert_allclose(expected, np.asarray(rate).ravel(), rtol=0.02)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_residuals(model):
    found = answers.residuals(model.fitted_)
    x, y = np.asarray(plots.plot_residuals(model).collections[0].get_offsets()).T
    np.testing.assert_array_equal(y, found.value)
    np.testing.assert_allclose(x, np.maximum(found.expected, 1e-3))


def test_correlations_and_groups():
    rng = np.random.default_rng(0)
    Y = rng.poisson(np.exp(1.5 + rng.normal(size=(80, 2)) @ np.kron(np.eye(2), np.ones((1, 3)))))
    made = PLN().fit(pd.DataFrame(Y, columns=list("abcdef")))
    shown = plots.plot_correlations(made).images[0].get_array()
    assert np.ma.getmaskarray(shown).diagonal().all()
    ax = plots.plot_groups(made)
    assert len(ax.get_yticklabels()) == 2
    with pytest.raises(DataError, match="two groups"):
        plots.plot_groups(PLN().fit(Y[:, :2]))


def test_history(model):
    (line,) = plots.plot_history(model).lines
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([np.arange(len(model.history_)) + 1, model.history_]))


def test_coefficients(model, counts):
    table = model.coefficient_table().loc["slope"].sort_values("estimate", ascending=False)
    ax = plots.plot_coefficients(model, "slope")
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], table["estimate"])
    assert [label.get_text() for label in ax.get_yticklabels()] == table.index.tolist()
    ends = [segment[:, 0] for segment in ax.collections[0].get_segments()]
    np.testing.assert_allclose(ends, table[["lower", "upper"]])
    narrow = plots.plot_coefficients(model, "slope", confidence=0.5)
    assert narrow.get_xlabel() == "coefficient of slope, 50% interval"
    for segment, end in zip(narrow.collections[0].get_segments(), ends, strict=True):
        assert end[0] < segment[0, 0] < segment[1, 0] < end[1]


def test_one_dimension_has_no_plane():
    Y = np.random.default_rng(0).poisson(3.0, (20, 4))
    with pytest.raises(DataError, match="two latent dimensions"):
        plots.plot_latent(PLN(rank=1, random_state=0).fit(Y))


def test_what_is_not_there_is_told(model):
    with pytest.raises(DataError, match="did you mean 'bee'"):
        plots.plot_correlation_circle(model, columns=["be"])
    with pytest.raises(DataError, match="there is no column 7"):
        plots.plot_biplot(model, columns=[7])
    with pytest.raises(DataError, match="did you mean 'slope'"):
        plots.plot_coefficients(model, "slop")


def test_hidden_counts_and_those_of_other_samples(counts):
    hidden = counts.astype(float)
    hidden.iloc[3, 1] = np.nan
    made = PLN().fit(hidden)
    assert len(plots.plot_expected(made).collections[0].get_offsets()) == counts.size - 1
    other = counts.iloc[:7] + 1
    expected, observed = np.asarray(plots.plot_expected(made, other).collections[0].get_offsets()).T
    np.testing.assert_array_equal(observed, other.to_numpy().ravel())
    np.testing.assert_allclose(expected, made.predict(other).ravel())
