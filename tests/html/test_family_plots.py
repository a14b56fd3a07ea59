"""Plots of topics, classifiers and concepts draw what they say, and return axes."""

import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from tallies import GDA, LDA, AuthorConcept, NaiveBayes
from tallies.datasets import birds, docstrings, load, ontology
from tallies.errors import DataError, MissingExtra

matplotlib = pytest.importorskip("matplotlib", reason="needs tallies[plots]")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

from tallies.bayes import plots as classifiers  # noqa: E402
from tallies.concepts import plots as author_concept  # noqa: E402
from tallies.topics import plots as lda  # noqa: E402


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def topics():
    rng = np.random.default_rng(0)
    X = np.vstack(
        [rng.multinomial(40, p, 20) for p in ([0.5, 0.4, 0.1, 0, 0, 0], [0, 0, 0, 0.1, 0.3, 0.6], [0, 0.3, 0.4, 0.3, 0, 0])]
    )
    words = pd.DataFrame(X, columns=["plum", "pear", "fig", "tin", "zinc", "iron"])
    return LDA(3, n_chains=2, max_iter=60, burn_in=30, random_state=0).fit(words)


def test_topics(topics):
    k = next(k for k, (word, *_) in enumerate(topics.top_words(1)) if word == "iron")
    ax = lda.plot_words(topics, k, 2)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["iron", "zinc"]
    assert ax.patches[0].get_width() == pytest.approx(topics.topics_[k].max())
    sizes = [bar.get_width() for bar in lda.plot_sizes(topics).patches]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == pytest.approx(1)
    assert len(lda.plot_map(topics).texts) == 3
    np.testing.assert_allclose(lda.plot_correlations(topics).images[0].get_array(), topics.topic_correlations())
    trace = lda.plot_trace(topics)
    assert len(trace.lines) == 2
    assert trace.lines[0].get_xdata()[-1] == topics.n_iter_
    assert "R-hat" in trace.get_title()
    groups = np.repeat(["a", "b", "c"], 20)
    image = lda.plot_groups(topics, groups, topics=[0, 1, 2]).images[0].get_array()
    np.testing.assert_allclose(image[:, 0], topics.document_topics_[:20].mean(axis=0))
    assert len(lda.plot_groups(topics, np.repeat([1999, 2000, 2001], 20), topics=[1]).lines) == 1
    with pytest.raises(DataError, match="one value a document, 60"):
        lda.plot_groups(topics, ["a"])
    with pytest.raises(ValueError, match="from 0 to 2"):
        lda.plot_words(topics, 3)
    with pytest.raises(DataError, match="two topics"):
        lda.plot_map(LDA(1, max_iter=5, burn_in=2, random_state=0).fit(np.eye(3, dtype=int)))


@pytest.mark.parametrize("kind", ["shared", "class", "diagonal"])
def test_classifiers_of_numbers(kind):
    iris = load("iris")
    model = GDA(kind).fit(iris.X, iris.y)
    ax = classifiers.plot_confusion(model, iris.X, iris.y)
    assert f"{model.score(iris.X, iris.y):.1%}" in ax.get_title()
    np.testing.assert_allclose(ax.images[0].get_array().sum(axis=1), 1)
    for label in (None, "setosa"):
        assert "mean gap" in classifiers.plot_calibration(model, iris.X, iris.y, label).get_title()
    ax = classifiers.plot_densities(model, "petal length (cm)", iris.X, iris.y)
    x, p = ax.lines[0].get_data()
    assert np.trapezoid(p, x) == pytest.approx(1, abs=1e-3)
    ax = classifiers.plot_ellipses(model, ["sepal length (cm)", 2], iris.X, iris.y)
    x, y = ax.lines[1].get_data()
    assert (x.max() + x.min()) / 2 == pytest.approx(model.means_[1, 0], abs=0.01)
    cov = model.covariance_
    variance = {"shared": lambda: cov[2, 2], "class": lambda: cov[1, 2, 2], "diagonal": lambda: cov[1, 2]}[kind]()
    assert (y.max() - y.min()) / 2 == pytest.approx(np.sqrt(4.605 * variance), rel=1e-3)
    assert "of its own" in classifiers.plot_surprise(model, iris.X).get_title()
    with pytest.raises(DataError, match="no column 'nose'"):
        classifiers.plot_densities(model, "nose")
    with pytest.raises(ValueError, match="two names or numbers"):
        classifiers.plot_ellipses(model, ["sepal length (cm)"])


def test_calibration_counts_what_came_true():
    class Sure:
        classes_ = np.array(["a", "b"])

        def predict_proba(self, X):
            return np.tile([0.75, 0.25], (len(X), 1))

    ax = classifiers.plot_calibration(Sure(), np.zeros((4, 1)), ["a", "a", "a", "b"])
    assert ax.lines[1].get_xdata().tolist() == [0.75]
    assert ax.lines[1].get_ydata().tolist() == [0.75]


def test_classifiers_of_mixed_columns():
    data = birds(300)
    model = NaiveBayes(families={"eggs": "poisson"}).fit(data.X, data.y)
    ax = classifiers.plot_densities(model, "colour")
    assert sum(bar.get_height() for bar in ax.containers[0]) == pytest.approx(1)
    assert classifiers.plot_densities(model, "eggs").lines[0].get_ydata().sum() == pytest.approx(1, abs=0.01)
    assert classifiers.plot_densities(model, "wing", data.X, data.y).get_xlabel() == "wing"
    with pytest.raises(DataError, match="all gaussian"):
        classifiers.plot_ellipses(model, ["wing", "eggs"])
    words = NaiveBayes().fit(sp.csr_array([[2, 0], [0, 3], [1, 0], [0, 1]]), ["a", "b", "a", "b"])
    assert len(classifiers.plot_densities(words, 0).patches) == 2
    assert classifiers.plot_surprise(words, sp.csr_array([[2, 0], [0, 3]])).get_title() == ""


def test_concepts():
    corpus = docstrings(["numpy.linalg", "numpy.fft"]).corpus(sentences=True)
    model = AuthorConcept().fit(corpus, ontology())
    ax = author_concept.plot_author(model, "numpy.fft", 5)
    assert ax.get_yticklabels()[0].get_text() == model.author_profile("numpy.fft", 1)["name"][0]
    sentence = "Compute the singular value decomposition of a matrix."
    best = model.annotate([sentence], k=1)["id"][0]
    ax = author_concept.plot_evidence(model, sentence, best)
    assert [bar.get_width() for bar in ax.patches] == model.explain(sentence, best)["log_odds"].tolist()
    ax = author_concept.plot_roll_up(model, n=6)
    widths = [bar.get_width() for bar in ax.containers[0]]
    assert widths == sorted(widths, reverse=True)
    assert ax.get_yticklabels()[0].get_text() == "numerical computing"
    inside = author_concept.plot_roll_up(model, below=model.concept_ids_[1])
    assert "linear algebra" not in [t.get_text() for t in inside.get_yticklabels()]
    with pytest.raises(DataError, match="nothing is below"):
        author_concept.plot_roll_up(model, below=best)


def test_without_matplotlib_the_extra_is_named(topics, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'tallies\[plots\]'"):
        lda.plot_sizes(topics)
