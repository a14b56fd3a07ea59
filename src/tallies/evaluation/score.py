"""How good a model is on given data, with the kind of number it is.

Scores of different kinds do not compare: an exact log likelihood, a lower bound, an estimate with an error, and the
conditional likelihood of a target are four different things, and `compare` warns when they are mixed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tallies.phases import phase

if TYPE_CHECKING:
    import pandas as pd


class Score(NamedTuple):
    """A held-out score; larger values are better."""

    value: float
    kind: Literal["exact", "bound", "estimate", "conditional"]
    stderr: float | None  # of the mean over rows, or of the estimate; None where there is none
    unit: str  # such as "nats/row"


def mean_score(values: Any, kind: Literal["exact", "bound", "estimate", "conditional"], unit: str) -> Score:
    """The mean of per-row log likelihoods with its standard error."""
    values = np.asarray(values, dtype=float)
    mean = float(values.mean())
    stderr = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 and np.isfinite(mean) else None
    return Score(mean, kind, stderr, unit)


def evaluate(model: Any, X: Any, *data: Any, **options: Any) -> Score:
    """The model's held-out log likelihood of the data, per unit of data.

    >>> import tallies
    >>> model = tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
    >>> tallies.evaluate(model, [[0.5], [5.5]])
    Score(value=-0.918..., kind='exact', stderr=0.0, unit='nats/row')
    """
    with phase(f"scoring by {type(model).__name__}"):
        return model._evaluate(X, *data, **options)


def compare(models: Mapping[str, Any], X: Any, *data: Any, **options: Any) -> pd.DataFrame:
    """One row a model, best score first.

    >>> import tallies
    >>> X, y = [[0.0], [1.0], [5.0], [9.0]], [0, 0, 1, 1]
    >>> table = tallies.compare({"shared": tallies.GDA().fit(X, y), "class": tallies.GDA(covariance="class").fit(X, y)}, X)
    >>> table.index.tolist()
    ['class', 'shared']
    """
    import pandas as pd

    scores = {name: evaluate(model, X, *data, **options) for name, model in models.items()}
    for what in ("kind", "unit"):
        warn_if_mixed(what, {getattr(score, what) for score in scores.values()})
    table = pd.DataFrame.from_dict(scores, orient="index", columns=list(Score._fields))
    return table.sort_values("value", ascending=False)


def warn_if_mixed(what: str, found: set[str]) -> None:
    """Warn where scores to be compared have more than one kind or unit."""
    if len(found) > 1:
        told = f"comparing scores of different {what}: {', '.join(sorted(found))}; they are not the same quantity"
        warnings.warn(told, stacklevel=3)
