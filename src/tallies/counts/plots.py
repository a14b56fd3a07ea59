"""Plots of a PLN: latent positions, biplot, correlation circle, correlations, groups, expected against observed, residuals, bound,
coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.counts import answers, views
from tallies.counts.page import expected_of
from tallies.errors import DataError, nearest
from tallies.html import charts
from tallies.html.common import trace
from tallies.html.draw import draw
from tallies.maths import Array


def positions(model: Any) -> tuple[Array, Array, Array]:
    """Scores of the samples on the first two axes, loadings of the columns, and the share of variance of the axes: those of the
    report, of the plane of most latent variance, covariate effects taken out."""
    if model.components_.shape[1] < 2:
        raise DataError("a plane needs two latent dimensions, but the model has one; fit with rank=2 or more")
    found = answers.positions(model.fitted_)
    return found.samples, found.loadings, found.share


def plot_latent(model: Any, colours: Any = None, ax: Any = None) -> Any:
    """Samples on the first two latent axes; `colours` is one value or category a sample.

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, covariates=data.truth["covariates"])
    >>> ax = plot_latent(model, colours=data.truth["covariates"]["altitude"])
    >>> ax.get_title()
    'Where the samples lie'
    """
    return draw(_map(model, None, colours) | {"arrows": []}, ax)


def plot_correlation_circle(model: Any, columns: Any = None, ax: Any = None) -> Any:
    """Correlations of the columns' latent values with the first two axes; `columns` limits them (default: the 12 longest).

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, covariates=data.truth["covariates"])
    >>> ax = plot_correlation_circle(model, columns=data.X.columns[:2])
    >>> [text.get_text() for text in ax.texts if text.get_text()] == list(data.X.columns[:2])
    True
    """
    _, loadings, share = positions(model)
    arrows = loadings / np.sqrt(np.maximum(model.covariance_.diagonal(), 1e-300))[:, None]
    names, turn = model._columns(), np.linspace(0, 2 * np.pi, 200)
    chosen = views.strongest(arrows) if columns is None else _places(model, columns)
    more = {
        "arrows": [{"x": arrows[j, 0], "y": arrows[j, 1], "text": str(names[j])} for j in chosen],
        "outlines": [{"key": 7, "x": np.cos(turn), "y": np.sin(turn)}],
    }
    x, y = (charts.axis(f"axis {k + 1} ({share[k]:.0%})") for k in range(2))
    return draw(charts.points("correlation circle", x, y, [], [], None, equal=True, **more), ax)


def plot_biplot(model: Any, columns: Any = None, colours: Any = None, ax: Any = None) -> Any:
    """Samples and columns in one plane; arrows are scaled to the spread of the samples.

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, covariates=data.truth["covariates"])
    >>> ax = plot_biplot(model, colours=data.y)
    >>> ax.get_title()
    'Where the samples lie'
    """
    return draw(_map(model, columns, colours), ax)


def plot_expected(model: Any, counts: Any = None, ax: Any = None) -> Any:
    """Observed counts, by default those of the fit, against what was expected of them, both on a log scale; 0 is drawn at 0.5.

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, covariates=data.truth["covariates"])
    >>> ax = plot_expected(model)
    >>> ax.get_xlabel()
    'expected count (log scale)'
    """
    Y, rate, _ = expected_of(model, counts, None, None)
    return draw(views.expected(Y, rate, _names(model), most=Y.size), ax)


def plot_residuals(model: Any, ax: Any = None) -> Any:
    """Residuals of the counts of the fit against what is expected of them: standard normal where the model is true.

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, covariates=data.truth["covariates"])
    >>> ax = plot_residuals(model)
    >>> ax.get_ylabel()
    'residual (standard normal)'
    """
    called = [str(i) for i in range(len(model.design_))]
    return draw(views.residuals(answers.residuals(model.fitted_), _names(model), called), ax)


def plot_correlations(model: Any, ax: Any = None) -> Any:
    """Latent correlations of the columns, like beside like; of more than 200, means of groups.

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> ax = plot_correlations(PLN().fit(data.X, covariates=data.truth["covariates"]))
    >>> ax.get_title()
    'Which species go together'
    """
    return draw(_charted(views.correlations(_correlation(model), _names(model)), "two columns"), ax)


def plot_groups(model: Any, ax: Any = None) -> Any:
    """Groups of columns that go together (mean correlations above 0.5), and how they go with each other.

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(100, 12)
    >>> ax = plot_groups(PLN().fit(data.X, covariates=data.truth["covariates"]))
    >>> ax.get_title()
    'How the groups go with each other'
    """
    R = _correlation(model)
    found = views.groups(R, np.ones(len(R), dtype=bool))
    return draw(_charted(views.clusters(R, _names(model), found), "two groups of columns that go together"), ax)


def _correlation(model: Any) -> Array:
    return np.nan_to_num(model.correlation_)


def _charted(chart: charts.Chart | None, needed: str) -> charts.Chart:
    if chart is None:
        raise DataError(f"there is nothing to draw: this plot needs {needed}")
    return chart


def plot_history(model: Any, ax: Any = None) -> Any:
    """The objective after every step.

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, covariates=data.truth["covariates"])
    >>> ax = plot_history(model)
    >>> ax.get_ylabel()
    'bound on the log likelihood (nats)'
    """
    return draw(trace(model), ax)


def plot_coefficients(model: Any, covariate: Any = None, confidence: float = 0.95, ax: Any = None) -> Any:
    """A forest of the coefficients of one covariate (default: the last) with their confidence intervals; separated ones, which have
    none, are left out.

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, covariates=data.truth["covariates"])
    >>> ax = plot_coefficients(model, "forest")
    >>> ax.get_xlabel()
    'coefficient of forest, 95% interval'
    """
    known = [str(name) for name in model.covariate_names_]
    covariate = known[-1] if covariate is None else covariate
    if covariate not in known:
        raise DataError(f"there is no covariate {covariate!r}; {nearest(str(covariate), known)}")
    table = model.coefficient_table(confidence=confidence).loc[[covariate]]
    estimate, *ends = (table[what].to_numpy()[None] for what in ("estimate", "lower", "upper"))
    apart = table["separated"].to_numpy()[None]
    chart = views.forest(estimate, np.stack(ends), apart, [str(covariate)], _names(model), most=len(table))
    return draw(chart | {"x": charts.axis(f"coefficient of {covariate}, {confidence:.0%} interval")}, ax)


def _names(model: Any) -> list[str]:
    return [str(name) for name in model._columns()]


def _places(model: Any, columns: Any) -> np.ndarray:
    return np.array([answers.place(model.fitted_, column) for column in columns], dtype=int)


def _map(model: Any, columns: Any, colours: Any) -> charts.Chart:
    """The map of the report, coloured by `colours`, with the arrows of `columns`."""
    Z, _, _ = positions(model)
    shades = {} if colours is None else {"": colours}
    chart = views.latent_map(model, _names(model), shades, None, None if columns is None else _places(model, columns), len(Z))
    return chart["views"][0] | {"title": chart["title"]} if "views" in chart else chart
