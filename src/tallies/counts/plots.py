"""Plots of a PLN: latent positions, biplot, correlation circle, expected against observed, bound, coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.errors import DataError
from tallies.html.draw import axes


def positions(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of the samples on the first two axes, loadings of the columns, and the share of variance of the axes.

    For rank=None these are principal components of the latent means, covariate effects taken out.
    """
    if model.rank is not None:
        scores, loadings = model.latent_mean_ * np.sqrt((model.components_**2).sum(axis=0)), model.components_
    else:
        R = model.latent_mean_ - model.design_ @ model.coefficients_
        U, size, Vt = np.linalg.svd(R - R.mean(axis=0), full_matrices=False)
        scores, loadings = U * size, Vt.T * size / np.sqrt(len(R))
    if scores.shape[1] < 2:
        raise DataError("a plane needs two latent dimensions, but the model has one; fit with rank=2 or more")
    variance = (loadings**2).sum(axis=0)
    return scores[:, :2], loadings[:, :2], variance / variance.sum()


def plot_latent(model: Any, colours: Any = None, ax: Any = None) -> Any:
    """Samples on the first two latent axes; `colours` is one value or category a sample.

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, data.truth["covariates"])
    >>> ax = plot_latent(model, colours=data.truth["covariates"]["altitude"])
    >>> ax.get_title()
    'latent positions'
    """
    ax = axes(ax)
    scores, _, share = positions(model)
    if colours is None or np.issubdtype(np.asarray(colours).dtype, np.number):
        dots = ax.scatter(*scores.T, c=colours, s=18, linewidth=0)
        if colours is not None:
            ax.figure.colorbar(dots, ax=ax)
    else:
        colours = np.asarray(colours).astype(str)
        for name in np.unique(colours):
            ax.scatter(*scores[colours == name].T, s=18, linewidth=0, label=name)
        ax.legend(frameon=False)
    ax.set(xlabel=f"axis 1 ({share[0]:.0%})", ylabel=f"axis 2 ({share[1]:.0%})", title="latent positions")
    return ax


def plot_correlation_circle(model: Any, columns: Any = None, ax: Any = None) -> Any:
    """Correlations of the columns' latent values with the first two axes; `columns` limits them (default: the 12 longest).

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, data.truth["covariates"])
    >>> ax = plot_correlation_circle(model, columns=data.X.columns[:2])
    >>> [text.get_text() for text in ax.texts if text.get_text()] == list(data.X.columns[:2])
    True
    """
    ax = axes(ax)
    _, loadings, share = positions(model)
    size = np.sqrt(model.covariance_.diagonal()) if model.rank is not None else np.sqrt((_all_loadings(model) ** 2).sum(axis=1))
    arrows = loadings / np.maximum(size, 1e-300)[:, None]
    chosen = _chosen(model, columns, arrows)
    angle = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(angle), np.sin(angle), color="0.7", linewidth=1)
    _arrows(ax, arrows, chosen, model)
    ax.set(aspect="equal", xlabel=f"axis 1 ({share[0]:.0%})", ylabel=f"axis 2 ({share[1]:.0%})", title="correlation circle")
    return ax


def plot_biplot(model: Any, columns: Any = None, colours: Any = None, ax: Any = None) -> Any:
    """Samples and columns in one plane; arrows are scaled to the spread of the samples.

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, data.truth["covariates"])
    >>> ax = plot_biplot(model, colours=data.y)
    >>> ax.get_title()
    'biplot'
    """
    ax = plot_latent(model, colours, ax)
    scores, loadings, _ = positions(model)
    chosen = _chosen(model, columns, loadings)
    scale = np.abs(scores).max() / np.maximum(np.abs(loadings[chosen]).max(), 1e-300) * 0.8
    _arrows(ax, loadings * scale, chosen, model)
    ax.set_title("biplot")
    return ax


def plot_expected(model: Any, counts: Any = None, ax: Any = None) -> Any:
    """Expected against observed counts of the fit, both as log(1 + count).

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, data.truth["covariates"])
    >>> ax = plot_expected(model)
    >>> ax.get_xlabel()
    'observed, log(1 + count)'
    """
    ax = axes(ax)
    if counts is None and not hasattr(model, "_data"):
        raise DataError("a loaded model no longer has its counts; pass counts=")
    Y = model._data[0].Y if counts is None else np.asarray(counts, dtype=float)
    A = model._rates()
    x, y = np.log1p(Y).ravel(), np.log1p(A).ravel()
    ax.scatter(x, y, s=6, alpha=0.4, linewidth=0)
    top = max(x.max(), y.max())
    ax.plot([0, top], [0, top], color="0.3", linewidth=1)
    ax.set(xlabel="observed, log(1 + count)", ylabel="expected, log(1 + count)", title="expected against observed")
    return ax


def plot_history(model: Any, ax: Any = None) -> Any:
    """The objective after every step.

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, data.truth["covariates"])
    >>> ax = plot_history(model)
    >>> ax.get_ylabel()
    'bound'
    """
    ax = axes(ax)
    ax.plot(np.arange(1, len(model.history_) + 1), model.history_)
    ax.set(xlabel="step", ylabel="bound" if model.elbo_ is not None else "log likelihood", title="convergence")
    return ax


def plot_coefficients(model: Any, covariate: Any = None, confidence: float = 0.95, ax: Any = None) -> Any:
    """A forest of the coefficients of one covariate (default: the last) with their confidence intervals.

    >>> from tallies import PLN
    >>> from tallies.datasets import species
    >>> data = species(60, 5)
    >>> model = PLN().fit(data.X, data.truth["covariates"])
    >>> ax = plot_coefficients(model, "forest")
    >>> ax.get_xlabel()
    'coefficient of forest, 95% interval'
    """
    ax = axes(ax)
    covariate = model.covariate_names_[-1] if covariate is None else covariate
    table = model.coefficient_table(confidence=confidence).loc[covariate].sort_values("estimate")
    place = np.arange(len(table))
    ax.hlines(place, table["lower"], table["upper"], color="0.6", linewidth=1.5)
    ax.plot(table["estimate"], place, "o", markersize=4)
    ax.axvline(0, color="0.3", linewidth=1)
    ax.set_yticks(place, table.index, fontsize=8)
    ax.set(xlabel=f"coefficient of {covariate}, {confidence:.0%} interval", title="coefficients")
    return ax


def _all_loadings(model: Any) -> np.ndarray:
    R = model.latent_mean_ - model.design_ @ model.coefficients_
    return (R - R.mean(axis=0)).T / np.sqrt(len(R))


def _chosen(model: Any, columns: Any, arrows: np.ndarray) -> np.ndarray:
    if columns is None:
        return np.argsort(-(arrows**2).sum(axis=1))[:12]
    names = list(model._columns())
    return np.array([names.index(c) if c in names else int(c) for c in columns])


def _arrows(ax: Any, arrows: np.ndarray, chosen: np.ndarray, model: Any) -> None:
    names = model._columns()
    for j in chosen:
        ax.annotate("", arrows[j], (0, 0), arrowprops={"arrowstyle": "->", "color": "0.2"})
        ax.text(*(arrows[j] * 1.06), str(names[j]), fontsize=8, ha="center", va="center")
