"""Plots of FEM and FEMNetwork: weights, couplings, the course of a fit. Each draws on `ax`, or on new axes, and returns them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.html.draw import axes
from tallies.maths import Array


def plot_weights(model: Any, degree: int = 1, ax: Any = None) -> Any:
    """Heat map of W_k in zero-sum gauge: one row an output state, one column a combination of k states.

    Lines part the blocks of different variables, as in the formula of h: block (i, A) is what the variables A say of output i.

    >>> import numpy as np
    >>> from tallies import FEM
    >>> X = np.random.default_rng(0).integers(0, 2, (100, 3))
    >>> model = FEM(degree=2, ridge=0.1).fit(X, X[:, 0] ^ X[:, 1])
    >>> ax = plot_weights(model, degree=2)
    >>> ax.images[0].get_array().shape, ax.get_title()
    ((2, 12), 'weights of degree 2, zero-sum gauge')
    """
    _, terms, V = model._zero_sum()
    which = np.flatnonzero(terms.degree() == degree)
    if not len(which):
        raise ValueError(f"the model has no terms of degree {degree}; it has {sorted(set(terms.degree().tolist()))}")
    names = model.weights_
    first, last = int(terms.offset[which[0]]), int(terms.offset[which[-1] + 1])
    block = V[first:last].T
    ax = axes(ax, max(5.0, 0.16 * block.shape[1]), max(2.5, 0.3 * block.shape[0]))
    limit = float(np.abs(block).max()) or 1.0
    image = ax.imshow(block, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    ax.set_yticks(range(block.shape[0]), list(names.columns), fontsize=7)
    if block.shape[1] <= 80:
        ax.set_xticks(range(block.shape[1]), list(names.index[first + 1 : last + 1]), rotation=90, fontsize=6)
    for t in which[1:]:
        ax.axvline(terms.offset[t] - first - 0.5, color="0.3", linewidth=0.5)
    ax.set_title(f"weights of degree {degree}, zero-sum gauge")
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    return ax


def plot_couplings(model: Any, ax: Any = None) -> Any:
    """Heat map of all pairwise couplings of a network, blocks by variable.

    >>> import numpy as np
    >>> from tallies import FEMNetwork
    >>> X = np.random.default_rng(0).integers(0, 2, (100, 3))
    >>> X[:, 2] = X[:, 0]
    >>> model = FEMNetwork(ridge=0.1).fit(X)
    >>> ax = plot_couplings(model)
    >>> ax.images[0].get_array().shape
    (6, 6)
    """
    J, starts = model.couplings_, model._starts()
    ax = axes(ax, 6.0, 5.0)
    limit = float(np.abs(J).max()) or 1.0
    image = ax.imshow(J, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    if len(starts) <= 40:
        ax.set_xticks((starts[:-1] + starts[1:] - 1) / 2, model.categories_.names, rotation=90, fontsize=7)
        ax.set_yticks((starts[:-1] + starts[1:] - 1) / 2, model.categories_.names, fontsize=7)
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    ax.set_title("couplings, row to column" if model.lag else "couplings")
    return ax


def plot_network(model: Any, top: int = 30, kind: str = "frobenius", ax: Any = None) -> Any:
    """The strongest couplings as lines between variables on a circle; wider is stronger.

    >>> import numpy as np
    >>> from tallies import FEMNetwork
    >>> X = np.random.default_rng(0).integers(0, 2, (100, 3))
    >>> X[:, 2] = X[:, 0]
    >>> model = FEMNetwork(ridge=0.1).fit(X)
    >>> ax = plot_network(model, top=1)
    >>> [text.get_text() for text in ax.texts if text.get_text()] == list(model.categories_.names)
    True
    """
    table, names = model.top_couplings(top, kind), model.categories_.names
    ax = axes(ax, 5.5, 5.5)
    angle = 2 * np.pi * np.arange(len(names)) / len(names)
    place = {name: (np.cos(a), np.sin(a)) for name, a in zip(names, angle, strict=True)}
    strongest = float(table["score"].max()) or 1.0
    for row in table.itertuples():
        if row.score <= 0 or row.a == row.b:
            continue
        (x0, y0), (x1, y1) = place[row.a], place[row.b]
        colour = "#b2182b" if row.coupling > 0 else "#2166ac"
        share = row.score / strongest
        ax.annotate(
            "",
            (x1, y1),
            (x0, y0),
            arrowprops={
                "arrowstyle": "->" if model.lag else "-",
                "color": colour,
                "linewidth": 0.3 + 3 * share,
                "alpha": 0.3 + 0.7 * share,
            },
        )
    for name, a in zip(names, angle, strict=True):
        turn = np.degrees(a) if np.cos(a) >= 0 else np.degrees(a) + 180
        ax.text(
            1.05 * np.cos(a),
            1.05 * np.sin(a),
            name,
            rotation=turn,
            rotation_mode="anchor",
            fontsize=7,
            va="center",
            ha="left" if np.cos(a) >= 0 else "right",
        )
    ax.scatter(np.cos(angle), np.sin(angle), s=12, color="0.2", zorder=3)
    ax.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal")
    ax.set_axis_off()
    return ax


def plot_history(model: Any, ax: Any = None) -> Any:
    """Penalised log likelihood after each sweep.

    >>> import numpy as np
    >>> from tallies import FEM
    >>> X = np.random.default_rng(0).integers(0, 2, (100, 3))
    >>> model = FEM(degree=2, ridge=0.1).fit(X, X[:, 0] ^ X[:, 1])
    >>> ax = plot_history(model)
    >>> len(ax.lines[0].get_xdata()) == model.n_iter_
    True
    """
    ax = axes(ax)
    ax.plot(np.arange(1, len(model.history_) + 1), model.history_, marker=".", color="0.2")
    ax.set(xlabel="sweep", ylabel="penalised log likelihood")
    return ax


def plot_recovery(truth: Array, inferred: Array, ax: Any = None) -> Any:
    """Inferred couplings against true ones, both in zero-sum gauge, with their correlation and root mean square error.

    >>> ax = plot_recovery([[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.9], [0.9, 0.0]])
    >>> ax.get_title()
    'correlation 1.000, RMSE 0.071'
    """
    truth, inferred = np.ravel(truth), np.ravel(inferred)
    if truth.shape != inferred.shape:
        raise ValueError(f"truth and inferred must have the same number of couplings, got {len(truth)} and {len(inferred)}")
    ax = axes(ax, 4.5, 4.5)
    ends = np.array([min(truth.min(), inferred.min()), max(truth.max(), inferred.max())])
    ax.plot(ends, ends, color="0.7", linewidth=1)
    ax.scatter(truth, inferred, s=3, alpha=0.5, color="0.2", rasterized=True)
    error, correlation = np.sqrt(np.mean((truth - inferred) ** 2)), np.corrcoef(truth, inferred)[0, 1]
    ax.set(xlabel="true", ylabel="inferred", title=f"correlation {correlation:.3f}, RMSE {error:.3f}")
    return ax
