"""Plots of GDA and NaiveBayes: what was confused, whether probabilities can be believed, densities, ellipses, strange rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.bayes.law_views import picture
from tallies.bayes.marginals import columns_of
from tallies.bayes.odd_views import own_rows
from tallies.bayes.plane_views import ellipses, gaussians, outlines
from tallies.data.labels import label_codes
from tallies.errors import DataError
from tallies.html import charts
from tallies.html.common import listing
from tallies.html.draw import draw
from tallies.html.judged import confusion, reliability, surprise


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
    called = label_codes(model.predict(X), len(X), model.classes_)
    title = f"right for {np.mean(true == called):.1%} of {len(true):,} rows"
    return draw(confusion(names, true, called, most=len(names)) | {"title": title}, ax)


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
        chart = reliability(proba.max(axis=1), proba.argmax(axis=1) == true, "the class called")
    else:
        k = int(label_codes([label], 1, model.classes_)[0])
        chart = reliability(proba[:, k], true == k, str(label), k)
    x, share, _, _, n = np.transpose(chart["rows"])
    return draw(chart | {"title": f"mean gap {n @ np.abs(share - x) / n.sum():.1%}"}, ax)


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
    place, rows = _column(model, column), None
    law, classes = columns_of(model.fitted_)[place], [str(c) for c in model.classes_]
    if X is not None and y is not None and law.family == "gaussian":
        seen = np.asarray(X[law.name] if hasattr(X, "columns") else np.asarray(X)[:, place], dtype=float)
        rows = seen, label_codes(y, len(seen), model.classes_)
    return draw(picture(law, classes, np.arange(len(classes)), rows, most=len(law.states)), ax)


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
    names, both = model.fitted_.inputs.named("column ").tolist(), [_column(model, c) for c in columns]
    plane = np.zeros((len(names), 2))
    plane[both, [0, 1]] = 1.0
    rows, true = np.empty((0, 2)), np.empty(0, dtype=int)
    if X is not None and y is not None:
        rows, true = np.asarray(X, dtype=float)[:, both], label_codes(y, len(X), model.classes_)
    x, y = (charts.axis(names[j]) for j in both)
    more = outlines(ellipses(*found, plane, 200), [str(c) for c in model.classes_])
    return draw(charts.points("an ellipse holds 90% of its class", x, y, rows[:, 0], rows[:, 1], true, **more), ax)


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
    chart, below = surprise(model.log_prob(X), own_rows(model))
    title = "" if below is None else f"{below:.1%} are stranger than 99 in 100 of its own"
    return draw(chart | {"title": title}, ax)


def _column(model: Any, column: Any) -> int:
    names = model.fitted_.inputs.named("column ").tolist()
    if column in names:
        return names.index(column)
    if isinstance(column, int | np.integer) and 0 <= column < len(names):
        return int(column)
    raise DataError(f"there is no column {column!r}; the model has {listing(names, 10)}")
