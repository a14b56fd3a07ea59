"""Tables of categories at the door: any column in, codes of its states out, names kept.

column                                   states
strings, categories, booleans, numbers   its distinct values, in order
numbers, with bins=k                     k quantile intervals (fewer where values tie)
missing (None, NaN, NA)                  missing="state": a state of its own, named "missing"; missing="ignore": code -1
first met after the fit                  code -1: it contributes nothing
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from tallies.data.columns import absent_in, read_columns, states_of
from tallies.data.table import refuse_infinite
from tallies.errors import DataError, one_of
from tallies.forms import Form
from tallies.maths import told_apart

if TYPE_CHECKING:  # workers of a cluster code pieces of files, and need nothing of estimators
    from tallies.estimator import Inputs

MISSING = "missing"
States = Annotated[np.ndarray, Form("...", "fibO")]
Edges = Annotated[np.ndarray, Form("...", "f")]


class Categories(NamedTuple):
    """What the fit has learned of each column: enough to code a new table the same way."""

    names: list[str]  # (n,)  names of the columns
    labels: list[list[str]]  # (n, m_j)  names of the states
    states: list[States]  # (n,)  the states themselves; without the one for missing values
    edges: list[Edges | None]  # (n,)  cut points of a binned column, else None
    gap: list[Annotated[int, Form(kind="i", low=-1)]]  # (n,)  code of a missing value, -1: none

    @property
    def sizes(self) -> np.ndarray:
        """(n,)  m_j, how many states each column has."""
        return np.array([len(labels) for labels in self.labels], dtype=np.int64)

    def check(self) -> None:
        """Every code that a column can get has a label."""
        from pandas import Index

        for name, labels, states, edges, gap in zip(*self, strict=True):
            m = len(states)
            whole = m > 0 and gap in (-1, m) and len(labels) == m + (gap == m) and (edges is None or len(edges) == m - 1)
            if not whole or not Index(states.astype(object)).is_unique:
                raise ValueError(f"labels, states and cut points of the column {name!r} do not belong together")


def label(state: Any) -> str:
    """How a state is written: whole numbers without a point.

    >>> label(2.0), label(True), label("red")
    ('2', 'True', 'red')
    """
    if isinstance(state, float | np.floating) and float(state).is_integer():
        return str(int(state))
    return state.decode(errors="replace") if isinstance(state, bytes) else str(state)


def learn_codes(model: Any, X: Any, missing: str, bins: Any) -> tuple[np.ndarray, Categories, Inputs]:
    """The codes of X, (l, n) int32, the categories they refer to, which are learned here, and the columns of X."""
    from tallies.estimator import Inputs

    names, columns = _columns(model, X, reset=True)
    one_of("missing", missing, "state", "ignore")
    known = learn(names, columns, missing, _check_bins(bins, names))
    return code_columns(columns, known), known, Inputs.of(X, len(names), table=True)


def read_codes(model: Any, X: Any, known: Categories) -> np.ndarray:
    """The codes of X, among the categories that a fit has learned."""
    return code_columns(_columns(model, X, reset=False)[1], known)


def code_columns(columns: list[np.ndarray], known: Categories, done: Collection[int] = ()) -> np.ndarray:
    """(l, n) int32  the codes of these columns; some are `done` already."""
    codes = [values if j in done else _code(values, j, known).astype(np.int32) for j, values in enumerate(columns)]
    return np.column_stack(codes)


def _columns(model: Any, X: Any, reset: bool) -> tuple[list[str], list[np.ndarray]]:
    """Names and values of the columns, which unless `reset` must be those that the model was fitted on."""
    X, names, columns = read_columns(model, X, reset)  # a sparse matrix is refused: a table has a state in every cell
    refuse_infinite(sum(int(np.isinf(column).sum()) for column in columns if column.dtype.kind == "f"))
    return [f"x{j}" if names is None else str(names[j]) for j in range(len(columns))], columns


def _check_bins(bins: Any, names: list[str]) -> dict[str, int]:
    if bins is None:
        return {}
    chosen = bins if isinstance(bins, dict) else dict.fromkeys(names, bins)
    wrong = [name for name in chosen if name not in names]
    if wrong:
        raise DataError(f"bins names columns {wrong} that X does not have; its columns are {names[:20]}")
    for name, k in chosen.items():
        if not isinstance(k, int | np.integer) or k < 2:
            raise ValueError(f"bins must be a whole number from 2 on, or a dict of column: number; got {k!r} for {name!r}")
    return chosen


def learn(names: list[str], columns: list[np.ndarray], missing: str, bins: dict[str, int]) -> Categories:
    """The categories of columns, of which distinct values suffice where none is binned."""
    learned = []
    for name, values in zip(names, columns, strict=True):
        absent = absent_in(values)
        if absent.all():
            raise DataError(f"column {name!r} has no observed value; drop it")
        edges, numeric = None, values.dtype.kind in "fiu"
        if name in bins and numeric:
            if bins[name] > (~absent).sum():
                few = f"the {(~absent).sum()} observed values of column {name!r}"
                raise DataError(f"bins={bins[name]} is more than {few}; ask for fewer intervals")
            edges = np.unique(np.quantile(values[~absent].astype(float), np.linspace(0, 1, bins[name] + 1)[1:-1]))
            states = np.arange(len(edges) + 1)
            ends = ["", *told_apart(edges, 4), ""]
            labels = [f"{a}..{b}" if a and b else f"<={b}" if b else f">{a}" for a, b in pairwise(ends)]
        elif name in bins and len(bins) < len(names):
            raise DataError(
                f"bins={bins[name]} is set for column {name!r}, which holds {values[~absent][0]!r}; only numbers can be binned"
            )
        else:
            states = states_of(values, "categorical")
            labels = _labels(states.tolist())
        own = missing == "state" and absent.any()
        gap = MISSING if MISSING not in labels else f"({MISSING})"
        learned.append((name, [*labels, gap] if own else labels, states, edges, len(labels) if own else -1))
    return Categories(*map(list, zip(*learned, strict=True)))


def _labels(states: list[Any]) -> list[str]:
    """A label for each state; where two are written alike, such as 1 and "1", texts are in quotes."""
    labels = [label(state) for state in states]
    alike = {name for name, times in Counter(labels).items() if times > 1}
    return [
        repr(state) if name in alike and isinstance(state, str | bytes) else name
        for name, state in zip(labels, states, strict=True)
    ]


def _code(values: np.ndarray, j: int, known: Categories) -> np.ndarray:
    """Code of each value of column j."""
    states, edges = known.states[j], known.edges[j]
    absent = absent_in(values)
    if edges is not None:
        if values.dtype.kind not in "fiub":
            raise DataError(f"column {known.names[j]!r} was binned as numbers, but now holds {values[~absent][0]!r}; give numbers")
        return np.where(absent, known.gap[j], np.searchsorted(edges, values, side="left"))
    kinds = values.dtype.kind, states.dtype.kind
    if set(kinds) <= set("fiu") or kinds == ("b", "b"):
        where = np.minimum(np.searchsorted(states, values), len(states) - 1)
        codes = np.where(states[where] == values, where, -1)
    else:
        from pandas import Index

        codes = Index(states.astype(object)).get_indexer(Index(values.astype(object)))
    return np.where(absent, known.gap[j], codes)


def unique_rows(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First positions of the distinct rows, and for each row the number of its twin among them.

    >>> unique_rows(np.array([[1, 0], [0, 0], [1, 0]]))
    (array([1, 0]), array([1, 0, 1]))
    """
    span = [int(top) + 2 for top in codes.max(axis=0)]
    if prod(span) < 1 << 62:  # rows as numbers in mixed radix: a sort of whole numbers
        key: np.ndarray = np.zeros(len(codes), dtype=np.int64)
        for j, size in enumerate(span):
            key = key * size + codes[:, j] + 1
    else:
        key = np.ascontiguousarray(codes).view(np.dtype((np.void, codes.dtype.itemsize * codes.shape[1]))).ravel()
    _, first, twin = np.unique(key, return_index=True, return_inverse=True)
    return first, twin.ravel()


def column_caveats(categories: Categories, rows: int) -> list[str]:
    """Columns that can teach nothing: with one state, or with a state for nearly every row."""
    named = list(zip(categories.names, categories.sizes.tolist(), strict=True))
    single = [name for name, size in named if size == 1]
    crowded = [f"{name!r} ({size:,})" for name, size in named if size > max(20, rows / 2)]
    found = []
    if single:
        found.append(f"columns {single[:5]} have one state only, which says nothing; their weights are zero")
    if crowded:
        found.append(
            f"columns {', '.join(crowded[:5])} have a state for nearly every one of {rows:,} rows, so new rows hold unseen ones; "
            "cut numbers into intervals with bins=5, or drop what is a name"
        )
    return found


def check_fields(ridge: Any, tol: Any, solver: str, *solvers: str) -> None:
    """Refuse a ridge, tolerance or solver that none of the models knows."""
    if tol is None:
        raise ValueError("tol must be a number from 0 on, got None")
    if not (ridge == "auto" or (isinstance(ridge, int | float | np.number) and 0 <= ridge < np.inf)):
        raise ValueError(f'ridge must be "auto" or a number from 0 on, got {ridge!r}')
    one_of("solver", solver, *solvers)
