"""Plots of topics: their words, sizes, map, correlations, groups, and the traces of the chains."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.errors import DataError
from tallies.html.draw import axes, bars
from tallies.topics.views import distances, plane_of


def topic_names(model: Any, words: int = 3) -> list[str]:
    """ "4: matrix eigenvalue norm" for every topic."""
    return [f"{k}: {' '.join(top)}" for k, top in enumerate(model.top_words(words))]


def plot_words(model: Any, topic: int, n: int = 15, ax: Any = None) -> Any:
    """The n most probable words of a topic.

    >>> from tallies import LDA
    >>> model = LDA(2, max_iter=40, burn_in=20, random_state=0).fit([[3, 2, 0, 0], [0, 0, 4, 2]] * 10)
    >>> ax = plot_words(model, 0)
    >>> ax.get_xlabel()
    'probability of the word in the topic'
    """
    if not 0 <= topic < model.n_topics:
        raise ValueError(f"topic must be a number from 0 to {model.n_topics - 1}, got {topic!r}")
    top = model._top(n)[topic]
    phi = model.topics_[topic, top]
    title = f"topic {topic}, {_shares(model)[topic]:.1%} of all words"
    return bars(axes(ax, 5.0, 0.28 * len(top) + 1.2), model.vocabulary_[top], phi, "probability of the word in the topic", title)


def plot_sizes(model: Any, ax: Any = None) -> Any:
    """Share of all words that belong to each topic, the largest first.

    >>> from tallies import LDA
    >>> model = LDA(2, max_iter=40, burn_in=20, random_state=0).fit([[3, 2, 0, 0], [0, 0, 4, 2]] * 10)
    >>> ax = plot_sizes(model)
    >>> len(ax.patches), ax.get_xlabel()
    (2, 'share of all words')
    """
    share, names = _shares(model), topic_names(model)
    order = np.argsort(-share, kind="stable")
    ax = axes(ax, 6.0, 0.26 * len(order) + 1.2)
    return bars(ax, [names[k] for k in order], share[order], "share of all words", "sizes of the topics")


def plot_map(model: Any, ax: Any = None) -> Any:
    """Topics in a plane: near where their words are alike (Hellinger distance, scaled to a plane); area is share of words.

    >>> from tallies import LDA
    >>> model = LDA(2, max_iter=40, burn_in=20, random_state=0).fit([[3, 2, 0, 0], [0, 0, 4, 2]] * 10)
    >>> ax = plot_map(model)
    >>> len(ax.texts), ax.get_title()
    (2, 'map of the topics')
    """
    if model.n_topics < 2:
        raise DataError("a map needs two topics, but the model has one; fit with n_topics=2 or more")
    place, share = plane_of(distances(model.topics_)), _shares(model)
    ax = axes(ax)
    ax.scatter(*place.T, s=1500 * share / share.max(), color="#0072b2", alpha=0.3, edgecolor="#0072b2")
    for k, name in enumerate(topic_names(model, 1)):
        ax.annotate(name, place[k], ha="center", va="center", fontsize=8)
    ax.set(xlabel="distance between word distributions, first direction", ylabel="second direction", title="map of the topics")
    ax.margins(0.15)
    return ax


def plot_correlations(model: Any, ax: Any = None) -> Any:
    """Correlations of the topics' shares over the fitted documents: red where two share documents, blue where not.

    >>> from tallies import LDA
    >>> model = LDA(2, max_iter=40, burn_in=20, random_state=0).fit([[3, 2, 0, 0], [0, 0, 4, 2]] * 10)
    >>> ax = plot_correlations(model)
    >>> ax.images[0].get_array().shape
    (2, 2)
    """
    R, names = model.topic_correlations(), topic_names(model, 2)
    side = max(4.0, 0.25 * len(R) + 1.5)
    ax = axes(ax, side + 1.0, side)
    reach = max(float(np.abs(R - np.diag(np.diag(R))).max()), 1e-9)
    image = ax.imshow(R, cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest")
    ax.set_xticks(range(len(R)), names, rotation=90, fontsize=7)
    ax.set_yticks(range(len(R)), names, fontsize=7)
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label="correlation of shares over documents")
    ax.set_title("which topics share documents")
    return ax


def plot_trace(model: Any, ax: Any = None) -> Any:
    """Log p(words, topics) after each sweep, a line for each chain; samples are kept where the ground is grey.

    >>> from tallies import LDA
    >>> model = LDA(2, max_iter=40, burn_in=20, random_state=0).fit([[3, 2, 0, 0], [0, 0, 4, 2]] * 10)
    >>> ax = plot_trace(model)
    >>> len(ax.lines[0].get_xdata())
    40
    """
    ax = axes(ax, 6.0, 3.5)
    for chain, history in enumerate(model.histories_):
        sweeps = np.arange(model.n_iter_ - len(history), model.n_iter_) + 1
        ax.plot(sweeps, history, linewidth=1, label=f"chain {chain + 1}")
    if model.n_iter_ > model.burn_in:
        ax.axvspan(model.burn_in, model.n_iter_, color="0.5", alpha=0.12, linewidth=0)
    title = "settled" if model.converged_ else "still rising"
    if len(model.histories_) > 1:
        ax.legend(frameon=False)
        title += f"; R-hat {model.diagnostics()['r_hat']:.3f}"
    ax.set(xlabel="sweep", ylabel="log p(words, topics), nats", title=title)
    return ax


def plot_groups(model: Any, groups: Any, X: Any = None, topics: Any = None, ax: Any = None) -> Any:
    """Mean share of topics in each group of documents (a year, an author, a journal): of the fit, or of X.

    `groups` has one value a document; numbers and dates are drawn as curves over them, names as a matrix. `topics` chooses some
    (default: the eight whose shares differ most between groups).

    >>> from tallies import LDA
    >>> model = LDA(2, max_iter=40, burn_in=20, random_state=0).fit([[3, 2, 0, 0], [0, 0, 4, 2]] * 10)
    >>> ax = plot_groups(model, ["fruit", "metal"] * 10)
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['fruit', 'metal']
    """
    theta = model.document_topics_ if X is None else model.transform(X)
    groups = np.asarray(groups)
    if groups.shape != (len(theta),):
        raise DataError(f"groups must have one value a document, {len(theta)}, but its shape is {groups.shape}")
    values, of = np.unique(groups, return_inverse=True)
    mean = np.array([theta[of == g].mean(axis=0) for g in range(len(values))])  # (groups, K)
    chosen = np.argsort(-np.ptp(mean, axis=0), kind="stable")[:8] if topics is None else np.asarray(topics)
    names = [topic_names(model)[k] for k in chosen]
    if groups.dtype.kind in "iufM":
        ax = axes(ax, 7.0, 4.0)
        for k, name in zip(chosen, names, strict=True):
            ax.plot(values, mean[:, k], marker=".", label=name)
        ax.legend(frameon=False, fontsize=8)
        ax.set(ylabel="mean share of the documents' words", title="topics over time", ylim=(0, None))
        return ax
    ax = axes(ax, 0.3 * len(values) + 4.5, 0.3 * len(chosen) + 2.5)
    image = ax.imshow(mean[:, chosen].T, cmap="Blues", vmin=0, aspect="auto", interpolation="nearest")
    ax.set_xticks(range(len(values)), values.astype(str), rotation=90, fontsize=8)
    ax.set_yticks(range(len(chosen)), names, fontsize=8)
    ax.figure.colorbar(image, ax=ax, label="mean share of words")
    ax.set_title("topics by group")
    return ax


def _shares(model: Any) -> np.ndarray:
    return model.params_.n_k / max(model.params_.n_k.sum(), 1)
