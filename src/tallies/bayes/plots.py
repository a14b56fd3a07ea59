"""Plots of GDA and NaiveBayes: what was confused, whether probabilities can be believed, densities, ellipses, strange rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm, poisson

from tallies.bayes.marginals import columns_of, domain, names_of
from tallies.bayes.odd_views import own_rows
from tallies.bayes.plane_views import ELLIPSE, gaussians
from tallies.data.labels import label_codes
from tallies.errors import DataError
from tallies.html.common import wilson
from tallies.html.draw import axes
from tallies.maths import Array

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b5fb5", "#4d4d4d"]  # Okabe-Ito
BINS = 10  # of the calibration curve


def plot_confusion(model: Any, X: Any, y: Any, ax: Any = None) -> Any:
    """Shares of each true class that were called each class; a row adds to 100%. Any classifier with `predict`.

    >>> from tallies import GDA
    >>> from tallies.datasets import load
    >>> iris = load("iris")
    >>> ax = plot_confusion(GDA().fit(iris.X, iris.y), iris.X, iris.y)
    >>> ax.get_xlabel(), ax.texts[0].get_text()
    ('called', '100%')
    """
    names, true = [str(c) for c in model.classes_], label_codes(y, len(X), model.classes_)
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, (true, label_codes(model.predict(X), len(X), model.classes_)), 1)
    rate = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = 0.5 * len(names) + 2.5
    ax = axes(ax, side + 0.5, side)
    ax.imshow(rate, cmap="Blues", vmin=0, vmax=1)
    for i, j in np.argwhere(counts > 0):
        ax.text(j, i, f"{rate[i, j]:.0%}", ha="center", va="center", color="white" if rate[i, j] > 0.5 else "black", fontsize=9)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    right = float(np.trace(counts) / counts.sum())
    ax.set(xlabel="called", ylabel="true class", title=f"right for {right:.1%} of {int(counts.sum()):,} rows")
    return ax


def plot_calibration(model: Any, X: Any, y: Any, label: Any = None, ax: Any = None) -> Any:
    """Stated probability against how often it came true, with 95% intervals: of the class called, or of one class, `label`.

    >>> from tallies import GDA
    >>> from tallies.datasets import load
    >>> iris = load("iris")
    >>> model = GDA().fit(iris.X, iris.y)
    >>> ax = plot_calibration(model, iris.X, iris.y, label="setosa")
    >>> ax.get_xlabel()
    'stated probability of setosa'
    """
    proba, true = model.predict_proba(X), label_codes(y, len(X), model.classes_)
    if label is None:
        stated, came = proba.max(axis=1), proba.argmax(axis=1) == true
    else:
        k = int(label_codes([label], 1, model.classes_)[0])
        stated, came = proba[:, k], true == k
    group = np.minimum((stated * BINS).astype(int), BINS - 1)
    of = np.unique(group, return_inverse=True)[1]
    n, x = np.bincount(of), np.bincount(of, stated) / np.bincount(of)
    right = np.bincount(of, came)
    low, high = wilson(right, n)
    share = right / n
    ax = axes(ax, 4.8, 4.8)
    ax.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1)
    ax.errorbar(x, share, np.maximum([share - low, high - share], 0), marker="o", color=COLOURS[0], linewidth=1.5)
    gap = float(np.sum(n * np.abs(share - x)) / n.sum())
    what = "the class called" if label is None else str(label)
    ax.set(xlabel=f"stated probability of {what}", ylabel="share of rows where it was true", title=f"mean gap {gap:.1%}")
    return ax


def plot_densities(model: Any, column: Any, X: Any = None, y: Any = None, ax: Any = None) -> Any:
    """The law of one column in each class; with rows and their classes, dashed histograms of what was seen beside it.

    >>> from tallies import NaiveBayes
    >>> from tallies.datasets import birds
    >>> data = birds(200)
    >>> model = NaiveBayes().fit(data.X, data.y)
    >>> ax = plot_densities(model, "wing", data.X, data.y)
    >>> ax.get_ylabel()
    'density given the class (per unit of wing)'
    """
    place = _column(model, column)
    law = columns_of(model)[place]
    classes = [str(c) for c in model.classes_]
    ax = axes(ax, 6.0, 4.0)
    if law.p is not None:
        wide = 0.8 / len(classes)
        for k, name in enumerate(classes):
            ax.bar(np.arange(len(law.states)) + wide * (k - (len(classes) - 1) / 2), law.p[k], wide, color=_colour(k), label=name)
        ax.set_xticks(range(len(law.states)), law.states, rotation=45, ha="right")
    elif law.family == "multinomial":
        ax.bar(range(len(classes)), law.centre, color=[_colour(k) for k in range(len(classes))])
        ax.set_xticks(range(len(classes)), classes, rotation=45, ha="right")
    else:
        low, high = domain(law)
        count = law.family == "poisson"
        x = np.arange(int(high) + 1) if count else np.linspace(low, high, 400)
        for k, name in enumerate(classes):
            p = poisson.pmf(x, law.centre[k]) if count else norm.pdf(x, law.centre[k], max(law.spread[k], 1e-3 * (high - low)))
            ax.plot(x, p, color=_colour(k), label=name, marker="." if count else None)
            if not count:
                ax.fill_between(x, p, color=_colour(k), alpha=0.12, linewidth=0)
        if X is not None and y is not None and not count:
            seen = np.asarray(X[law.name] if hasattr(X, "columns") else np.asarray(X)[:, place], dtype=float)
            true = label_codes(y, len(seen), model.classes_)
            for k in range(len(classes)):
                mine = seen[(true == k) & np.isfinite(seen)]
                if len(mine) > 1:
                    ax.hist(mine, bins="auto", density=True, histtype="step", linestyle="--", color=_colour(k))
    if law.family != "multinomial":
        ax.legend(frameon=False)
    smooth = law.family == "gaussian"
    ax.set(xlabel=law.name, ylabel=f"density given the class (per unit of {law.name})" if smooth else "probability given the class")
    return ax


def plot_ellipses(model: Any, columns: Any, X: Any = None, y: Any = None, ax: Any = None) -> Any:
    """Two columns: an ellipse that holds 90% of each class, and the rows with their classes where they are given.

    >>> from tallies import GDA
    >>> from tallies.datasets import load
    >>> iris = load("iris")
    >>> model = GDA().fit(iris.X, iris.y)
    >>> ax = plot_ellipses(model, iris.X.columns[:2], iris.X, iris.y)
    >>> len(ax.lines)
    3
    """
    found = gaussians(model)
    if found is None:
        raise DataError("ellipses need a model whose columns are all gaussian; plot_densities draws any column")
    if np.ndim(columns) != 1 or len(columns) != 2:
        raise ValueError(f"columns must be two names or numbers, got {columns!r}")
    mean, covariance = found
    i, j = (_column(model, c) for c in columns)
    names, ax = names_of(model), axes(ax, 6.0, 5.0)
    if X is not None and y is not None:
        rows, true = np.asarray(X, dtype=float), label_codes(y, len(X), model.classes_)
    turn = np.linspace(0, 2 * np.pi, 200)
    for k, name in enumerate(model.classes_):
        both = np.diag(covariance[k][[i, j]]) if covariance.ndim == 2 else covariance[k][np.ix_([i, j], [i, j])]
        values, vectors = np.linalg.eigh(both)
        edge = (
            mean[k, [i, j]] + np.sqrt(ELLIPSE) * np.column_stack([np.cos(turn), np.sin(turn)]) * np.sqrt(values.clip(0)) @ vectors.T
        )
        ax.plot(*edge.T, color=_colour(k), label=str(name))
        ax.fill(*edge.T, color=_colour(k), alpha=0.08)
        if X is not None and y is not None:
            ax.scatter(rows[true == k, i], rows[true == k, j], s=12, color=_colour(k), marker="os^D"[k % 4], linewidth=0)
    ax.legend(frameon=False)
    ax.set(xlabel=names[i], ylabel=names[j], title="an ellipse holds 90% of its class")
    return ax


def plot_surprise(model: Any, X: Any, ax: Any = None) -> Any:
    """log p(x) of rows, beside that of rows the model would make: far to the left are anomalies, or a class that is missing.

    Rows with gaps have fewer values, hence other scores: draw them apart.

    >>> from tallies import GDA
    >>> from tallies.datasets import load
    >>> iris = load("iris")
    >>> model = GDA().fit(iris.X, iris.y)
    >>> ax = plot_surprise(model, iris.X)
    >>> ax.get_ylabel()
    'share of rows'
    """
    values, own = model.log_prob(X), own_rows(model)
    ax = axes(ax, 6.0, 4.0)
    edges: Array = np.histogram_bin_edges(np.concatenate([values, *([] if own is None else [own])]), bins=40)
    ax.hist(values, edges, weights=np.full(len(values), 1 / len(values)), color=COLOURS[0], alpha=0.5, label="rows given")
    title = ""
    if own is not None:
        share = np.full(len(own), 1 / len(own))
        ax.hist(own, edges, weights=share, histtype="step", color="0.2", linestyle="--", label="rows the model would make")
        rare = np.quantile(own, 0.01)
        ax.axvline(rare, color="#d55e00", linewidth=1)
        title = f"{float(np.mean(values < rare)):.1%} are stranger than 99 in 100 of its own"
    ax.legend(frameon=False)
    ax.set(xlabel="log p(x), nats (further left: stranger)", ylabel="share of rows", title=title)
    return ax


def _column(model: Any, column: Any) -> int:
    names = names_of(model)
    if column in names:
        return names.index(column)
    if isinstance(column, int | np.integer) and 0 <= column < len(names):
        return int(column)
    raise DataError(f"there is no column {column!r}; the model has {', '.join(names[:10])}{' ...' * (len(names) > 10)}")


def _colour(k: int) -> str:
    return COLOURS[k % len(COLOURS)]
