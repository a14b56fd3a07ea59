"""Plots of topics draw what the model says."""

import numpy as np
import pandas as pd
import pytest

from tallies import LDA
from tallies.errors import DataError
from tallies.html.order import plane_of
from tallies.topics.views import distances

matplotlib = pytest.importorskip("matplotlib", reason="needs tallies[plots]")
matplotlib.use("Agg")

from tallies.topics import answers, plots  # noqa: E402


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    laws = [0.5, 0.4, 0.1, 0, 0, 0], [0, 0, 0, 0.1, 0.3, 0.6], [0, 0.3, 0.4, 0.3, 0, 0]
    X = np.vstack([rng.multinomial(40, p, n) for p, n in zip(laws, (20, 25, 15), strict=True)])
    words = pd.DataFrame(X, columns=["plum", "pear", "fig", "tin", "zinc", "iron"])
    return LDA(n_topics=3, n_chains=2, max_iter=60, burn_in=30, random_state=0).fit(words)


def widths(ax) -> list[float]:
    return [bar.get_width() for bar in ax.patches]


def labels(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def test_words(model):
    k = next(k for k, (word, *_) in enumerate(model.top_words(1)) if word == "iron")
    ax = plots.plot_words(model, k, 2)
    assert labels(ax.yaxis) == ["iron", "zinc"]
    assert ax.patches[0].get_width() == pytest.approx(model.topics_[k].max())
    for topic in range(3):
        ax = plots.plot_words(model, topic, 6)
        np.testing.assert_allclose(widths(ax), np.sort(model.topics_[topic])[::-1])
        assert labels(ax.yaxis)[:3] == list(model.top_words(3)[topic])  # the others are equally improbable
    with pytest.raises(ValueError, match="from 0 to 2"):
        plots.plot_words(model, 3)


def test_sizes(model):
    ax = plots.plot_sizes(model)
    sizes = widths(ax)
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == pytest.approx(1)
    names = model.topic_names_
    assert sorted(labels(ax.yaxis)) == sorted(names)
    for name, size in zip(labels(ax.yaxis), sizes, strict=True):  # near to the mean share over documents, all of one length
        assert size == pytest.approx(model.document_topics_[:, names.index(name)].mean(), abs=0.05)


def test_map(model):
    ax = plots.plot_map(model)
    assert len(ax.texts) == 3
    order = [int(text.get_text().split(":")[0]) for text in ax.texts]
    place = np.asarray(ax.collections[0].get_offsets())
    np.testing.assert_allclose(place, plane_of(distances(model.topics_[order])))
    assert [text.get_position() for text in ax.texts] == [tuple(p) for p in place]
    sizes = ax.collections[0].get_sizes()
    np.testing.assert_allclose(sizes / sizes[0], np.array(widths(plots.plot_sizes(model))) / widths(plots.plot_sizes(model))[0])
    with pytest.raises(DataError, match="two topics"):
        plots.plot_map(LDA(n_topics=1, max_iter=5, burn_in=2, random_state=0).fit(np.eye(3, dtype=int)))


def test_correlations(model):
    ax = plots.plot_correlations(model)
    np.testing.assert_allclose(ax.images[0].get_array(), model.topic_correlations())
    assert labels(ax.xaxis) == labels(ax.yaxis) == answers.topic_names(model.fitted_, 2)


def test_trace(model):
    ax = plots.plot_trace(model)
    assert len(ax.lines) == 2
    for line, history in zip(ax.lines, model.histories_, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), history)
        np.testing.assert_array_equal(line.get_xdata(), np.arange(model.n_iter_ - len(history), model.n_iter_) + 1)
    assert ax.lines[0].get_xdata()[-1] == model.n_iter_
    assert "R-hat" in ax.get_title()
    kept = ax.patches[0]
    assert (kept.get_x(), kept.get_x() + kept.get_width()) == (model.burn_in, model.n_iter_)


def test_groups(model):
    groups = np.repeat(["a", "b", "c"], [20, 25, 15])
    ax = plots.plot_groups(model, groups, topics=[0, 1, 2])
    image = ax.images[0].get_array()
    for j, name in enumerate("abc"):
        np.testing.assert_allclose(image[:, j], model.document_topics_[groups == name].mean(axis=0))
    assert labels(ax.xaxis) == ["a", "b", "c"]
    assert labels(ax.yaxis) == model.topic_names_
    years = np.repeat([1999, 2000, 2001], [20, 25, 15])
    (line,) = plots.plot_groups(model, years, topics=[1]).lines
    np.testing.assert_array_equal(line.get_xdata(), [1999, 2000, 2001])
    np.testing.assert_allclose(line.get_ydata(), [model.document_topics_[years == year, 1].mean() for year in (1999, 2000, 2001)])
    with pytest.raises(DataError, match="one value a document, 60"):
        plots.plot_groups(model, ["a"])
    ax = plots.plot_groups(model, np.where(groups == "a", None, groups), topics=[0])  # of some documents the group is not known
    assert labels(ax.xaxis) == ["b", "c"]
