"""How good a model is on given data, with the kind of number it is.

Scores of different kinds do not compare: an exact log likelihood, a lower bound, an estimate with an error, and the
conditional likelihood of a target are four different things, and `compare` warns when they are mixed.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tallies.errors import DataError
from tallies.phases import phase

if TYPE_CHECKING:
    import pandas as pd


Kind = Literal["exact", "bound", "estimate", "conditional"]


class Score(NamedTuple):
    """A held-out score; larger values are better."""

    value: float
    kind: Kind
    stderr: float | None  # of the mean over rows, or of the estimate; None where there is none
    unit: str  # such as "nats/row"


class Scored(NamedTuple):
    """A score with what it was made of: what a model's `_evaluate` gives."""

    value: float
    kind: Kind
    stderr: float | None
    unit: str
    rows: np.ndarray  # (n,) log likelihood of each row
    sizes: np.ndarray  # (n,) units in each row: 1, or its tokens

    @property
    def score(self) -> Score:
        """The score alone."""
        return Score(*self[:4])


def mean_score(values: Any, kind: Kind, unit: str) -> Scored:
    """The mean of per-row log likelihoods with its standard error."""
    values = np.asarray(values, dtype=float)
    mean = float(values.mean())
    stderr = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 and np.isfinite(mean) else None
    return Scored(mean, kind, stderr, unit, values, np.ones(len(values)))


def evaluate(model: Any, X: Any, *data: Any, **options: Any) -> Score:
    """The model's held-out log likelihood of the data, per unit of data.

    >>> import tallies
    >>> model = tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
    >>> tallies.evaluate(model, [[0.5], [5.5]])
    Score(value=-0.918..., kind='exact', stderr=0.0, unit='nats/row')
    """
    with phase(f"scoring by {type(model).__name__}"):
        return model._evaluate(X, *data, **options).score


def compare(models: Mapping[str, Any], X: Any, *data: Any, **options: Any) -> pd.DataFrame:
    """One row a model, best score first; `difference` is that to the best, with the standard error of the paired rows.

    Rows that are hard for one model are hard for the other: the error of the difference is often far smaller than that of either
    score, and says whether one model is better than the other.

    >>> import tallies
    >>> X, y = [[0.0], [1.0], [5.0], [9.0]], [0, 0, 1, 1]
    >>> table = tallies.compare({"shared": tallies.GDA().fit(X, y), "class": tallies.GDA(covariance="class").fit(X, y)}, X)
    >>> table.index.tolist(), table.columns.tolist()
    (['class', 'shared'], ['value', 'kind', 'stderr', 'unit', 'difference', 'difference_stderr'])
    """
    import pandas as pd

    if not models:
        raise DataError("compare needs fitted models by their names, but got none")
    found: dict[str, Scored] = {}
    for name, model in models.items():
        with phase(f"scoring by {type(model).__name__}"):
            found[name] = model._evaluate(X, *data, **options)
    warn_if_unlike(models.values(), *({getattr(scored, what) for scored in found.values()} for what in ("kind", "unit")))
    order = ranked(found)
    table = pd.DataFrame.from_dict({name: found[name].score for name in order}, orient="index", columns=list(Score._fields))
    pairs = np.array([difference(found[name], found[order[0]]) for name in order], dtype=float)  # no error: NaN
    return table.assign(difference=pairs[:, 0], difference_stderr=pairs[:, 1])


def ranked(found: Mapping[str, Scored]) -> list[str]:
    """Their names, best score first; what is no number comes last."""
    return sorted(found, key=lambda name: -np.nan_to_num(found[name].value, nan=-np.inf))


def difference(scored: Scored, best: Scored) -> tuple[float, float | None]:
    """By how much a score is larger than another one, and the standard error of that over the rows, which are the same for both;
    None where they are not.

    >>> difference(*(mean_score(rows, "exact", "nats/row") for rows in ([1.0, 2.0, 6.0], [0.0, 2.0, 5.0])))
    (0.666..., 0.333...)
    """
    rows, sizes = scored.rows, scored.sizes
    if len(rows) != len(best.rows) or not len(rows) or not np.array_equal(sizes, best.sizes):
        return scored.value - best.value, None
    with np.errstate(invalid="ignore"):
        apart = np.where(rows == best.rows, 0.0, rows - best.rows)  # impossible for both: no difference
    n, total = len(rows), sizes.sum()
    mean = float(apart.sum() / total)
    if n < 2 or not np.isfinite(mean):
        return mean, None
    return mean, float(np.sqrt(np.sum((apart - mean * sizes) ** 2) * n / (n - 1)) / total)


def warn_if_unlike(models: Iterable[Any], kinds: set[str], units: Collection[str] = ()) -> None:
    """Warn where scores to be compared are not the same quantity: of more than one kind or unit, or of other columns."""
    for what, found in (("kind", kinds), ("unit", units)):
        if len(found) > 1:
            told = f"comparing scores of different {what}: {', '.join(sorted(found))}; they are not the same quantity"
            warnings.warn(told, stacklevel=3)
    columns = {tuple(getattr(model, "feature_names_in_", ())) or getattr(model, "n_features_in_", None) for model in models}
    if len(columns) > 1 and len(kinds) < 2 and kinds != {"conditional"}:  # those of a target may come from any columns
        warnings.warn("comparing likelihoods of different columns: they are not the same quantity", stacklevel=3)
