"""Plots of FEM and FEMNetwork: weights, couplings, the course of a fit. Each draws on `ax`, or on new axes, and returns them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.categories.learned_views import Learned
from tallies.categories.views import effect, explanation, path, ring
from tallies.errors import nearest
from tallies.html import charts
from tallies.html.common import trace
from tallies.html.draw import LABELS, draw
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
    names, first, last = model.weights_, int(terms.offset[which[0]]), int(terms.offset[which[-1] + 1])
    title, across = f"weights of degree {degree}, zero-sum gauge", list(names.index[first + 1 : last + 1])
    ax = draw(_signed(title, "combination", "output", across, list(names.columns), V[first:last].T), ax)
    for t in which[1:]:
        ax.axvline(terms.offset[t] - first - 0.5, color="0.3", linewidth=0.5)
    return ax


def plot_combinations(model: Any, degree: int | None = None, ax: Any = None) -> Any:
    """The strongest combinations of so many variables, or of most, with the states and the class of which each says most.

    >>> import numpy as np
    >>> from tallies import FEM
    >>> X = np.random.default_rng(0).integers(0, 2, (100, 3))
    >>> model = FEM(degree=2, ridge=0.1).fit(X, X[:, 0] ^ X[:, 1])
    >>> ax = plot_combinations(model)
    >>> ax.get_yticklabels()[0].get_text()
    '0 ← x0=0 & x1=0'
    """
    learned = Learned(model)
    if degree is not None and degree not in learned.degrees:
        raise ValueError(f"the model has no terms of degree {degree}; it has {learned.degrees[::-1]}")
    return draw(learned.combinations(degree or learned.degrees[0]), ax)


def plot_effect(model: Any, variable: str, output: Any = None, ax: Any = None) -> Any:
    """What each state of a variable says of a class (the last), on average and together with the variables that it acts with most.

    >>> import numpy as np
    >>> from tallies import FEM
    >>> X = np.random.default_rng(0).integers(0, 2, (100, 3))
    >>> model = FEM(degree=2, ridge=0.1).fit(X, X[:, 0] ^ X[:, 1])
    >>> ax = plot_effect(model, "x0")
    >>> [label.get_text() for label in ax.get_yticklabels()][:3]
    ['on average', 'x1=0', 'x1=1']
    """
    learned = Learned(model)
    output = learned.classes[-1] if output is None else output
    for what, name, known in (("variable", variable, learned.names), ("class", str(output), learned.classes)):
        if name not in known:
            raise ValueError(f"there is no {what} {name!r}; {nearest(name, known)}")
    k = learned.classes.index(str(output))
    return draw(effect(learned.categories, learned.terms, learned.V[:, k], learned.names.index(variable), learned.classes[k]), ax)


def plot_explanation(model: Any, row: Any, ax: Any = None) -> Any:
    """Why one row, a table of one, is called what it is: the parts of its log odds against the next most probable class.

    >>> import numpy as np
    >>> from tallies import FEM
    >>> X = np.random.default_rng(0).integers(0, 2, (100, 3))
    >>> model = FEM(degree=2, ridge=0.1).fit(X, X[:, 0] ^ X[:, 1])
    >>> ax = plot_explanation(model, X[:1])
    >>> ax.get_yticklabels()[0].get_text(), ax.get_xlabel()
    ('x0=1 & x1=1', 'log odds of 0 against 1')
    """
    parts = model.explain(row)
    if parts["row"].nunique() != 1:
        raise ValueError(f"expected a table of one row, got {parts['row'].nunique()}; give one, such as X[:1]")
    called, against = (str(parts[end][0]) for end in ("predicted", "against"))
    return draw(
        explanation(parts["feature"].tolist(), parts["contribution"].to_numpy(), f"Why it is called {called}", called, against), ax
    )


def plot_path(model: Any, ax: Any = None) -> Any:
    """Held-out log loss of every ridge, and degree, that the fit has tried.

    >>> import numpy as np
    >>> from tallies import FEM
    >>> X = np.random.default_rng(0).integers(0, 2, (100, 3))
    >>> model = FEM(degree=2).fit(X, X[:, 0] ^ X[:, 1])
    >>> len(plot_path(model).lines[-1].get_xdata()) == len(model.path_["ridge"])
    True
    """
    if not model.path_["ridge"]:
        raise ValueError('the ridge was given, so that none was tried; fit with ridge="auto"')
    return draw(path(model.path_, model.ridge_, "cell" if hasattr(model, "lag") else "row"), ax)


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
    names, starts = model.categories_.names, model._starts()
    states, title = model._outputs(), "couplings, row to column" if model.lag else "couplings"
    ax = draw(_signed(title, "", "", states, states, model.couplings_), ax)
    if len(states) > LABELS >= len(names):  # too many states to name, but not too many variables
        for ticks, turn in ((ax.set_xticks, 90), (ax.set_yticks, 0)):
            ticks((starts[:-1] + starts[1:] - 1) / 2, names, rotation=turn, fontsize=7)
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
    table, names = model.top_couplings(top, kind), list(model.categories_.names)
    a, b = ([names.index(name) for name in table[end]] for end in "ab")
    S, coupling = np.zeros((2, len(names), len(names)))
    S[a, b], coupling[a, b] = table["score"], table["coupling"]
    chart = ring("", names, S, "", bool(model.lag), (top, len(names), 0.0))
    red = [int(coupling[link["a"], link["b"]] > 0) for link in chart["links"]]
    return draw(chart | {"links": [link | {"colour": k} for link, k in zip(chart["links"], red, strict=True)]}, ax)


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
    return draw(trace(model), ax)


def plot_recovery(truth: Array, inferred: Array, ax: Any = None) -> Any:
    """Inferred couplings against true ones, both in zero-sum gauge, with their correlation and root mean square error.

    >>> ax = plot_recovery([[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.9], [0.9, 0.0]])
    >>> ax.get_title()
    'correlation 1.000, RMSE 0.071'
    """
    truth, inferred = np.ravel(truth), np.ravel(inferred)
    if truth.shape != inferred.shape:
        raise ValueError(f"truth and inferred must have the same number of couplings, got {len(truth)} and {len(inferred)}")
    error, correlation = np.sqrt(np.mean((truth - inferred) ** 2)), np.corrcoef(truth, inferred)[0, 1]
    title, x, y = f"correlation {correlation:.3f}, RMSE {error:.3f}", charts.axis("true"), charts.axis("inferred")
    return draw(charts.points(title, x, y, truth, inferred, None, diagonal=True), ax)


def _signed(title: str, x: str, y: str, across: list[str], down: list[str], values: Array) -> charts.Chart:
    reach = float(np.abs(values).max()) or 1.0
    return charts.heat(title, x, y, across, down, values, scale="sign", domain=[-reach, reach], unit="weight")
