"""Plots of topics: their words, sizes, map, correlations, groups, and the traces of the chains."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.errors import DataError
from tallies.html import charts
from tallies.html.draw import draw
from tallies.topics import answers, views


def plot_words(model: Any, topic: int, n: int = 15, ax: Any = None) -> Any:
    """The n most probable words of a topic.

    >>> from tallies import LDA
    >>> model = LDA(n_topics=2, max_iter=40, burn_in=20).fit([[3, 2, 0, 0], [0, 0, 4, 2]] * 10)
    >>> ax = plot_words(model, 0)
    >>> ax.get_xlabel()
    'probability of the word in the topic'
    """
    if not 0 <= topic < model.n_topics:
        raise ValueError(f"topic must be a number from 0 to {model.n_topics - 1}, got {topic!r}")
    t = views.learned(model)
    k = int(np.flatnonzero(t.order == topic)[0])
    top = np.argsort(-t.phi[k], kind="stable")[:n]
    title, unit = f"topic {t.names[k]}, {t.share[k]:.1%} of all words", "probability of the word in the topic"
    return draw(charts.bar(title, unit, t.words[top], t.phi[k, top]), ax)


def plot_sizes(model: Any, ax: Any = None) -> Any:
    """Share of all words that belong to each topic, the largest first.

    >>> from tallies import LDA
    >>> model = LDA(n_topics=2, max_iter=40, burn_in=20).fit([[3, 2, 0, 0], [0, 0, 4, 2]] * 10)
    >>> ax = plot_sizes(model)
    >>> len(ax.patches), ax.get_xlabel()
    (2, 'share of all words')
    """
    t = views.learned(model)
    return draw(charts.bar("Sizes of the topics", "share of all words", t.names, t.share), ax)


def plot_map(model: Any, ax: Any = None) -> Any:
    """Topics in a plane: near where their words are alike (Hellinger distance, scaled to a plane); area is share of words.

    >>> from tallies import LDA
    >>> model = LDA(n_topics=2, max_iter=40, burn_in=20).fit([[3, 2, 0, 0], [0, 0, 4, 2]] * 10)
    >>> ax = plot_map(model)
    >>> len(ax.texts), ax.get_title()
    (2, 'Map of the topics')
    """
    if model.n_topics < 2:
        raise DataError("a map needs two topics, but the model has one; fit with n_topics=2 or more")
    t = views.learned(model)
    chart = views.map_of(t, views.distances(t.phi))
    few = 4 if len(t.names) <= 12 else 2  # words of a name for which there is room, the number among them
    return draw(chart | {"words": [" ".join(name.split()[:few]) for name in t.names]}, ax)


def plot_correlations(model: Any, ax: Any = None) -> Any:
    """Correlations of the topics' shares over the fitted documents: red where two share documents, blue where not.

    >>> from tallies import LDA
    >>> model = LDA(n_topics=2, max_iter=40, burn_in=20).fit([[3, 2, 0, 0], [0, 0, 4, 2]] * 10)
    >>> ax = plot_correlations(model)
    >>> ax.images[0].get_array().shape
    (2, 2)
    """
    return draw(views.matrix(model.topic_correlations(), answers.topic_names(model.fitted_, 2)), ax)


def plot_trace(model: Any, ax: Any = None) -> Any:
    """Log p(words, topics) after each sweep, a line for each chain; samples are kept where the ground is grey.

    >>> from tallies import LDA
    >>> model = LDA(n_topics=2, max_iter=40, burn_in=20).fit([[3, 2, 0, 0], [0, 0, 4, 2]] * 10)
    >>> ax = plot_trace(model)
    >>> len(ax.lines[0].get_xdata())
    40
    """
    agree = f"; R-hat {model.diagnostics()['r_hat']:.3f}" if len(model.histories_) > 1 else ""
    return draw(views.chains(model) | {"title": ("settled" if model.converged_ else "still rising") + agree}, ax)


def plot_groups(model: Any, groups: Any, X: Any = None, topics: Any = None, ax: Any = None) -> Any:
    """Mean share of topics in each group of documents (a year, an author, a journal): of the fit, or of X.

    `groups` has one value a document, None where it is not known; numbers and dates are drawn as curves over them, names as a
    matrix. `topics` chooses some (default: the eight whose shares differ most between groups).

    >>> from tallies import LDA
    >>> model = LDA(n_topics=2, max_iter=40, burn_in=20).fit([[3, 2, 0, 0], [0, 0, 4, 2]] * 10)
    >>> ax = plot_groups(model, ["fruit", "metal"] * 10)
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['fruit', 'metal']
    """
    from pandas import factorize

    theta = model.document_topics_ if X is None else np.asarray(model.transform(X))
    groups = np.asarray(groups)
    if groups.shape != (len(theta),):
        raise DataError(f"groups must have one value a document, {len(theta)}, but its shape is {groups.shape}")
    of, values = factorize(groups, sort=True)  # a document without a group has the number -1
    n, mean, _ = views.group_means(theta, of, len(values))
    chosen = np.argsort(-np.ptp(mean, axis=0), kind="stable")[:8] if topics is None else np.asarray(topics)
    names = [model.topic_names_[k] for k in chosen]
    if values.dtype.kind in "iufM":
        series = [{"name": name, "x": values, "y": mean[:, k], "marks": True} for k, name in zip(chosen, names, strict=True)]
        y = charts.axis("mean share of the documents' words", zero=True)
        return draw(charts.lines("Topics over time", charts.axis(""), y, series, [], []), ax)
    return draw(views.shares(mean[:, chosen].T, names, values.astype(str).tolist(), n, "group"), ax)
