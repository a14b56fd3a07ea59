"""Plots of classifiers draw what the model says."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm, poisson
from sklearn.metrics import confusion_matrix

from tallies import GDA, NaiveBayes
from tallies.bayes import plane_views
from tallies.bayes.odd_views import own_rows
from tallies.data.labels import label_codes
from tallies.datasets import birds, load
from tallies.errors import DataError
from tallies.html.judged import Judged

matplotlib = pytest.importorskip("matplotlib", reason="needs tallies[plots]")
matplotlib.use("Agg")

from tallies.bayes import plots  # noqa: E402


@pytest.fixture(scope="module")
def iris():
    return load("iris")


KINDS = pytest.mark.parametrize("kind", ["shared", "class", "diagonal"])


@KINDS
def test_confusion(kind, iris):
    model = GDA(covariance=kind).fit(iris.X, iris.y)
    ax = plots.plot_confusion(model, iris.X, iris.y)
    assert f"{model.score(iris.X, iris.y):.1%}" in ax.get_title()
    np.testing.assert_allclose(ax.images[0].get_array().sum(axis=1), 1)
    expected = confusion_matrix(iris.y, model.predict(iris.X), normalize="true")
    np.testing.assert_allclose(ax.images[0].get_array(), expected)
    assert [text.get_text() for text in ax.texts] == [f"{v:.0%}" for v in expected.ravel() if v > 0]
    assert [label.get_text() for label in ax.get_xticklabels()] == model.classes_.tolist()


@KINDS
def test_calibration(kind, iris):
    model = GDA(covariance=kind).fit(iris.X, iris.y)
    for label in (None, "setosa", "virginica"):
        ax = plots.plot_calibration(model, iris.X, iris.y, label)
        assert "mean gap" in ax.get_title()
        proba = model.predict_proba(iris.X)
        k = None if label is None else model.classes_.tolist().index(label)
        stated = proba.max(axis=1) if k is None else proba[:, k]
        came = model.predict(iris.X) == iris.y if k is None else iris.y == label
        tenth = np.minimum((stated * 10).astype(int), 9)
        means = [(stated[tenth == t].mean(), came[tenth == t].mean()) for t in np.unique(tenth)]
        np.testing.assert_allclose(ax.lines[1].get_xydata(), means)
        for (_, y), segment in zip(means, ax.collections[0].get_segments(), strict=True):
            assert 0 <= segment[0, 1] <= y <= segment[1, 1] <= 1


def test_calibration_counts_what_came_true():
    class Sure:
        classes_ = np.array(["a", "b"])

        def predict_proba(self, X):
            return np.tile([0.75, 0.25], (len(X), 1))

    ax = plots.plot_calibration(Sure(), np.zeros((4, 1)), ["a", "a", "a", "b"])
    assert ax.lines[1].get_xdata().tolist() == [0.75]
    assert ax.lines[1].get_ydata().tolist() == [0.75]


@KINDS
def test_densities_of_numbers(kind, iris):
    model = GDA(covariance=kind).fit(iris.X, iris.y)
    ax = plots.plot_densities(model, "petal length (cm)", iris.X, iris.y)
    x, p = ax.lines[0].get_data()
    assert np.trapezoid(p, x) == pytest.approx(1, abs=1e-3)
    cov = model.covariance_
    for k in range(3):
        sd = np.sqrt({"shared": lambda: cov[2, 2], "class": lambda: cov[k, 2, 2], "diagonal": lambda: cov[k, 2]}[kind]())  # noqa: B023
        x, p = ax.lines[k].get_data()
        np.testing.assert_allclose(p, norm.pdf(x, model.means_[k, 2], sd))
        mine = iris.X["petal length (cm)"][iris.y == model.classes_[k]]
        x, height = ax.lines[3 + k].get_data()  # what was seen, dashed
        assert (x[0], x[-1]) == (mine.min(), mine.max())
        assert np.sum(np.diff(x) * height[:-1]) == pytest.approx(1)
    with pytest.raises(DataError, match="no column 'nose'"):
        plots.plot_densities(model, "nose")


def test_densities_of_mixed_columns():
    data = birds(300)
    model = NaiveBayes(families={"eggs": "poisson"}).fit(data.X, data.y)
    ax = plots.plot_densities(model, "colour")
    assert len(ax.containers) == len(model.classes_)
    for bars in ax.containers:
        assert sum(bar.get_width() for bar in bars) == pytest.approx(1)
    states = [label.get_text() for label in ax.get_yticklabels()]
    assert sorted(states) == sorted(data.X["colour"].dropna().unique())
    seen = data.X["colour"][data.y == model.classes_[0]].value_counts(normalize=True)
    for state, bar in zip(states, ax.containers[0], strict=True):
        assert bar.get_width() == pytest.approx(seen.get(state, 0), abs=0.05)  # but for smoothing
    ax = plots.plot_densities(model, "eggs")
    assert ax.lines[0].get_ydata().sum() == pytest.approx(1, abs=0.01)
    for k, line in enumerate(ax.lines):
        x, p = line.get_data()
        np.testing.assert_allclose(p, poisson.pmf(x, data.X["eggs"][data.y == model.classes_[k]].mean()), atol=0.01)
    assert plots.plot_densities(model, "wing", data.X, data.y).get_xlabel() == "wing"
    words = NaiveBayes().fit(sp.csr_array([[2, 0], [0, 3], [1, 0], [0, 1]]), ["a", "b", "a", "b"])
    widths = [[bar.get_width() for bar in plots.plot_densities(words, j).patches] for j in range(2)]
    assert len(widths[0]) == 2
    np.testing.assert_allclose(np.sum(widths, axis=0), 1)  # over the words of a class


@KINDS
def test_ellipses(kind, iris):
    model = GDA(covariance=kind).fit(iris.X, iris.y)
    ax = plots.plot_ellipses(model, ["sepal length (cm)", 2], iris.X, iris.y)
    x, y = ax.lines[1].get_data()
    assert (x.max() + x.min()) / 2 == pytest.approx(model.means_[1, 0], abs=0.01)
    cov = model.covariance_
    variance = {"shared": lambda: cov[2, 2], "class": lambda: cov[1, 2, 2], "diagonal": lambda: cov[1, 2]}[kind]()
    assert (y.max() - y.min()) / 2 == pytest.approx(np.sqrt(4.605 * variance), rel=1e-3)
    for k, name in enumerate(model.classes_):
        mine = iris.X[iris.y == name].to_numpy()[:, [0, 2]]
        np.testing.assert_array_equal(ax.collections[k].get_offsets(), mine)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == model.classes_.tolist()
    with pytest.raises(ValueError, match="two names or numbers"):
        plots.plot_ellipses(model, ["sepal length (cm)"])


def inside(chart):
    """Share of the rows drawn that lie within the curve drawn for their class."""
    rows, edges = np.column_stack([chart["px"], chart["py"]]), chart["outlines"]
    curves = [matplotlib.path.Path(np.column_stack([edge["x"], edge["y"]])) for edge in edges]
    return np.mean([curves[k].contains_point(row) for row, k in zip(rows, chart["group"], strict=True)])


def map_of(model, X, y, monkeypatch):
    monkeypatch.setattr(plane_views, "MOST", 10**6)  # draw all rows
    judged = Judged(
        [str(c) for c in model.classes_], model.predict_proba(X), model.log_prob(X), label_codes(y, len(X), model.classes_)
    )
    return plane_views.chart(model, judged.classes, judged, np.asarray(X))


@KINDS
def test_an_ellipse_holds_what_is_said_of_rows_that_the_model_makes(kind, iris, monkeypatch):
    model = GDA(covariance=kind).fit(iris.X, iris.y)
    X, y = model.sample(20_000, random_state=0)
    chart = map_of(model, X, y, monkeypatch)
    assert "holds 90% of the rows that the model expects of its class; " in chart["caption"]
    assert inside(chart) == pytest.approx(0.9, abs=5 * 0.3 / np.sqrt(20_000))


def test_an_ellipse_does_not_claim_rows_that_lie_outside(monkeypatch):
    """Columns that repeat each other are no news to naive Bayes: it expects the classes to be far narrower than they are."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3000)
    X = rng.normal(size=(3000, 1)) + 2 * y[:, None] + 0.3 * rng.normal(size=(3000, 10))
    model = NaiveBayes().fit(X, y)
    chart = map_of(model, X, y, monkeypatch)
    assert inside(chart) < 0.6
    assert f"; {inside(chart):.0%} of the rows drawn lie within the ellipse of their class." in chart["caption"]
    ax = plots.plot_ellipses(model, [0, 1], X, y)
    edges = [matplotlib.path.Path(line.get_xydata()) for line in ax.lines]
    share = np.mean([edges[k].contains_point(row) for k, row in zip(y, X[:, :2], strict=True)])
    assert abs(float(ax.get_title().partition("%")[0]) / 100 - share) < 0.006
    assert "expects" in plots.plot_ellipses(model, [0, 1]).get_title()


def test_rows_are_drawn_by_the_names_of_their_columns(iris):
    model, turned = GDA().fit(iris.X, iris.y), iris.X[iris.X.columns[::-1]]
    for X in (turned, pytest.importorskip("polars").DataFrame({name: turned[name].to_numpy() for name in turned})):
        ax = plots.plot_ellipses(model, [0, 2], X, iris.y)
        mine = iris.X[iris.y == "virginica"].to_numpy()[:, [0, 2]]
        np.testing.assert_array_equal(ax.collections[2].get_offsets(), mine)
        seen = plots.plot_densities(model, "sepal length (cm)", X, iris.y).lines[5].get_xdata()
        assert (seen[0], seen[-1]) == (mine[:, 0].min(), mine[:, 0].max())


def test_ellipses_want_gaussians():
    data = birds(300)
    model = NaiveBayes(families={"eggs": "poisson"}).fit(data.X, data.y)
    with pytest.raises(DataError, match="all gaussian"):
        plots.plot_ellipses(model, ["wing", "eggs"])


@KINDS
def test_surprise(kind, iris):
    model = GDA(covariance=kind).fit(iris.X, iris.y)
    ax = plots.plot_surprise(model, iris.X)
    assert "of its own" in ax.get_title()
    values, own = model.log_prob(iris.X), own_rows(model)
    rare, given, made = ax.lines
    assert rare.get_xdata()[0] == pytest.approx(np.quantile(own, 0.01))
    assert ax.get_title().startswith(f"{np.mean(values < np.quantile(own, 0.01)):.1%} ")
    for line, rows in ((given, values), (made, own)):
        x, share = line.get_data()
        np.testing.assert_allclose(share[1:-1], np.histogram(rows, x[1:])[0] / len(rows))


def test_surprise_of_words_has_nothing_beside_it():
    words = NaiveBayes().fit(sp.csr_array([[2, 0], [0, 3], [1, 0], [0, 1]]), ["a", "b", "a", "b"])
    ax = plots.plot_surprise(words, sp.csr_array([[2, 0], [0, 3]]))
    assert ax.get_title() == ""
    assert len(ax.lines) == 1


def test_an_explanation_draws_what_explain_says(iris):
    model = GDA().fit(iris.X, iris.y)
    ax, table = plots.plot_explanation(model, iris.X, row=70), model.explain(iris.X.iloc[[70]])
    table = table[table["contribution"] != 0]
    assert ax.get_title() == f"Why {table['predicted'].iloc[0]}, and not {table['against'].iloc[0]}?"
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], table["contribution"], rtol=1e-6)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[: len(table)] == [f"{f} = {v:g}" for f, v in zip(table["feature"], table["value"], strict=True)]
    with pytest.raises(DataError, match="from 0 to 149"):
        plots.plot_explanation(model, iris.X, row=150)


def test_what_is_impossible_is_drawn_as_a_long_bar():
    X = [["x", "p"], ["x", "q"], ["y", "p"], ["y", "p"]]
    ax = plots.plot_explanation(NaiveBayes(smoothing=0).fit(X, ["a", "a", "b", "b"]), [["x", "p"]])
    assert max(bar.get_width() for bar in ax.patches) == 30
