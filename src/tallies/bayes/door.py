"""Columns of mixed kinds at the door: which family each belongs to, and how its values are coded.

family        auto, from the dtype                     stored as
gaussian      floats; whole numbers if any is below 0  float, NaN missing
bernoulli     booleans                                 code of False, True; -1 missing
categorical   strings, categories, other objects       code of the state; -1 missing, past the last state: unseen
poisson       whole numbers from 0 on                  number, NaN missing
multinomial   a sparse matrix                          CSR, all its columns together
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
import scipy.sparse as sp

from tallies.bayes.kernels import columns as kernels
from tallies.data.columns import read_columns, states_of
from tallies.data.table import Sparse, sparse
from tallies.errors import DataError, one_of
from tallies.forms import Form

Family = Literal["gaussian", "categorical", "bernoulli", "poisson", "multinomial"]
FAMILIES: tuple[Family, ...] = get_args(Family)
CODED = ("categorical", "bernoulli")
BLOCKS = {"gaussian": 0, "categorical": 1, "bernoulli": 1, "poisson": 2, "multinomial": 3}  # of `Table`


class Table(NamedTuple):
    gaussian: np.ndarray | None = None  # (n, .)  float, NaN missing
    codes: np.ndarray | None = None  # (n, .)  codes of the categorical and bernoulli columns
    poisson: np.ndarray | None = None  # (n, .)  counts, NaN missing
    counts: Sparse | None = None  # (n, .)  CSR

    def column(self, family: str, at: int) -> np.ndarray:
        """The values or codes at one position of the block of a family."""
        return np.asarray(self[BLOCKS[family]])[:, at]


class Layout(NamedTuple):
    """Which columns belong to which family, and the states of those that are coded."""

    families: list[Family]  # (d,)
    states: list[Annotated[np.ndarray, Form("...", "fibUO")] | None]  # (d,)  the states of a coded column, else None

    def check(self) -> None:
        """Coded columns have states, no two alike, and the others have none."""
        if [family in CODED for family in self.families] != [states is not None for states in self.states]:
            raise ValueError("the columns that have states are not those that are coded")
        if not all(states is None or distinct(states) for states in self.states):
            raise ValueError("a state stands twice")

    def of(self, *families: str) -> list[int]:
        """Positions of the columns of these families."""
        return [j for j, family in enumerate(self.families) if family in families]

    def places(self) -> list[tuple[int, int]]:
        """Of each column: its block of `Table`, and its position there."""
        taken = [count() for _ in Table._fields]
        return [(BLOCKS[family], next(taken[BLOCKS[family]])) for family in self.families]

    def starts(self) -> np.ndarray:
        """Where the states of each coded column begin among all states, and where the last ones end."""
        return np.cumsum([0, *[len(states) for states in self.states if states is not None]])

    def union(self, other: Layout) -> Layout:
        """The layout of two tables together: the states of both."""
        for j, (mine, theirs) in enumerate(zip(self.families, other.families, strict=True)):
            if mine != theirs:
                raise DataError(f"merge expects the same families, but column {j} is {mine} here and {theirs} there; name it")
        pairs = zip(self.states, other.states, strict=True)
        return Layout(self.families, [None if a is None or b is None else _union(a, b) for a, b in pairs])

    def states_in(self, whole: Layout) -> np.ndarray:
        """Where the states of all coded columns are among those of a union."""
        pairs = [(a, b) for a, b in zip(self.states, whole.states, strict=True) if a is not None and b is not None]
        found = [np.searchsorted(b, a) + first for (a, b), first in zip(pairs, whole.starts(), strict=False)]
        return np.concatenate([np.empty(0, dtype=np.int64), *found])


def distinct(values: np.ndarray) -> bool:
    """Whether no two labels or states are alike."""
    return len(set(values.tolist())) == len(values)


def families_from_text(text: str) -> Any:
    """The option `families` as it is written on a command line: a word, or column=family pairs.

    >>> families_from_text("auto"), families_from_text("eggs=poisson, size=gaussian")
    ('auto', {'eggs': 'poisson', 'size': 'gaussian'})
    """
    if "=" not in text:
        return text
    pairs = [pair.split("=", 1) for pair in text.split(",")]
    if any(len(pair) < 2 for pair in pairs):
        raise DataError(f"families must be auto, one family, or column=family with commas between; got {text!r}")
    return {column.strip(): family.strip() for column, family in pairs}


def read_table(estimator: Any, X: Any, families: Any, known: Layout | None) -> tuple[Table, Layout]:
    """Validate X and cut it into one block a family. With a `known` layout columns are coded as they were in the fit.

    A column without any observed value has no states; whether that is an error is for the caller to say.
    """
    X, named, values = read_columns(estimator, X, known is None, order="C", accept_sparse="csr")
    if isinstance(families, list) and len(families) != X.shape[1]:
        raise DataError(f"families lists {len(families)} of them, but X has {X.shape[1]} columns; give one for each")
    if sp.issparse(X):
        return _sparse(X, families, known)
    names: list[Any] = named or list(range(len(values)))
    numbers = isinstance(X, np.ndarray) and X.dtype.kind in "fiub"
    if known is None:
        chosen = choose(names, values, families)
        states = _whole_states(X) if numbers and set(chosen) == {"categorical"} and X.dtype.kind in "iu" else None
        known = Layout(chosen, states or [states_of(v, f) if f in CODED else None for v, f in zip(values, chosen, strict=True)])
    table = as_it_is(X, known) if numbers else None
    return table or blocks(values, names, known), known


def choose(names: list[Any], values: list[np.ndarray], families: Any) -> list[Any]:
    """The family of each column: as given, else from its dtype."""
    if not isinstance(families, dict | list):
        one_of("families", families, "auto", *FAMILIES, more="a dict of them")
    given, usual = (families, "auto") if isinstance(families, dict) else ({}, families)
    wrong = [key for key in given if key not in names and not (isinstance(key, int) and 0 <= key < len(names))]
    if wrong:
        raise DataError(f"families names columns {wrong} that X does not have; its columns are {names[:20]}")
    asked = families if isinstance(families, list) else [given.get(name, given.get(j, usual)) for j, name in enumerate(names)]
    chosen = [_by_dtype(column) if family == "auto" else family for family, column in zip(asked, values, strict=True)]
    for name, family in zip(names, chosen, strict=True):
        one_of(f"the family of column {name!r}", family, *FAMILIES)
    return chosen


def _by_dtype(column: np.ndarray) -> str:
    named = {"f": "gaussian", "b": "bernoulli", "O": "categorical"}.get(column.dtype.kind)
    return named or ("poisson" if column.min() >= 0 else "gaussian")


def _union(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The states of two codings of one column together, in order."""
    try:
        return np.unique(np.concatenate([a, b]))
    except TypeError:
        raise DataError(
            f"the states {a[:3].tolist()} and {b[:3].tolist()} cannot be put in one order; use one type for a column"
        ) from None


def _encode(values: np.ndarray, states: np.ndarray | None, family: str, name: Any) -> np.ndarray:
    """Code of each value, -1 where missing, the number of states where unseen; of a column without states its numbers."""
    if states is None:
        return _numbers(values, family, name)
    if family == "bernoulli" and values.dtype.kind == "b":
        return values.astype(np.int32)
    from pandas import Index, isna

    absent = isna(values)
    if family == "bernoulli":
        odd = values[~absent & ~np.isin(values, [0, 1])]
        if len(odd):
            raise DataError(f"column {name!r} is bernoulli and expects True/False or 1/0, got {odd[0]!r}; use categorical")
    codes = Index(states.astype(object)).get_indexer(Index(values.astype(object)))
    return np.where(absent, -1, np.where(codes < 0, len(states), codes)).astype(np.int32)


def _numbers(values: np.ndarray, family: str, name: Any) -> np.ndarray:
    if values.dtype.kind == "O":
        text = next((v for v in values if v is not None and v == v), None)
        if text is not None:
            raise DataError(
                f"column {name!r} is {family} and expects numbers, got {text!r}; make it categorical, or mend the value"
            )
        values = np.full(len(values), np.nan)  # nothing but gaps
    if family == "gaussian":
        return values.astype(np.float64, copy=False)
    return check_counts(values, f"poisson column {name!r}") if family == "poisson" else values


def check_counts(values: np.ndarray, where: str) -> np.ndarray:
    """Refuse what is no count; NaN passes as missing."""
    odd = kernels.not_counts(values.ravel() if values.dtype.kind != "b" else values.ravel().astype(np.uint8))
    if odd == odd:
        raise DataError(f"{where} expects counts (whole numbers from 0 on), got {odd:g}; round them, or use the gaussian family")
    return values


def check_multinomial(values: np.ndarray) -> None:
    """Refuse what is no multinomial count. Fractions (tf-idf and the like) pass as counts, with gamma functions for factorials."""
    if values.dtype.kind == "f" and values.dtype.itemsize <= 8:  # as bits, what is negative or not finite lies above the others
        bits = np.dtype(values.dtype.str.replace("f", "u"))
        if values.view(bits).max(initial=0) < np.array(np.inf, values.dtype).view(bits):  # one pass
            return
    low = values.min(initial=0)
    if low < 0 or not np.isfinite(values.sum()):
        what = "negative" if low < 0 else "missing (NaN) or infinite"
        raise DataError(
            f"multinomial columns expect counts from 0 on, but some are {what}; a row is taken given its total, so none can be "
            "summed out: mend them, or use the poisson family"
        )


def blocks(values: list[np.ndarray], names: list[Any], layout: Layout, coded: Collection[int] = ()) -> Table:
    """One block a family, in C order, from columns; some are `coded` already."""

    def encoded(j: int) -> np.ndarray:
        return values[j] if j in coded else _encode(values[j], layout.states[j], layout.families[j], names[j])

    def stack(*families: str) -> np.ndarray | None:
        parts = [encoded(j) for j in layout.of(*families)]
        return np.column_stack(parts) if parts else None

    counts = stack("multinomial")
    if counts is not None:
        check_multinomial(counts.ravel())
    return Table(stack("gaussian"), stack(*CODED), stack("poisson"), None if counts is None else sparse(sp.csr_array(counts)))


def as_it_is(X: np.ndarray, layout: Layout) -> Table | None:
    """An array of numbers whose columns are all of one family as a table, without a copy where its values can stand as they are."""
    families, kind = set(layout.families), X.dtype.kind
    if families == {"gaussian"}:
        return Table(gaussian=X.astype(np.float64) if kind != "f" or X.dtype.itemsize == 2 else X)
    if families == {"poisson"}:
        return Table(poisson=check_counts(X, "a poisson column"))
    # where the states are 0, 1, 2, ... a value is its own code, and any above is unseen
    counted = (np.array_equal(states, np.arange(len(states))) for states in layout.states if states is not None)
    if families == {"categorical"} and kind in "iu" and X.min() >= 0 and all(counted):
        return Table(codes=X)
    return None


def _whole_states(X: np.ndarray) -> list[Any] | None:
    """The states of columns of whole numbers by marking those that occur: no sort. None where the range is too wide."""
    low, high = kernels.state_range(X)
    start = np.concatenate([[0], np.cumsum(high - low + 1)])
    if (high - low > 1 << 20).any() or start[-1] > 1 << 24:
        return None
    seen = np.zeros(start[-1], dtype=np.bool_)
    kernels.mark_states(X, low, start, seen)
    return [np.flatnonzero(seen[a:b]).astype(np.int64) + lo for a, b, lo in zip(start[:-1], start[1:], low, strict=True)]


def _sparse(X: Any, families: Any, known: Layout | None) -> tuple[Table, Layout]:
    d = X.shape[1]
    if known is None:
        chosen: list[Any] = families if isinstance(families, list) else ["multinomial" if families == "auto" else families] * d
        known = Layout(chosen, [None] * d)
    if known.families.count("multinomial") < d:
        others = next(family for family in known.families if family != "multinomial")
        raise DataError(f"a sparse matrix is taken as multinomial counts, but the family is {others!r}; pass a dense table for it")
    check_multinomial(X.data)
    return Table(counts=sparse(X)), known
