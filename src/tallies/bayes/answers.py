"""What a fitted classifier answers, as functions of its record: of rows, on the chosen backend; and of the fit itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.backends import backend, each, on_cluster, over_rows
from tallies.bayes.door import BLOCKS, Layout, Table, distinct
from tallies.bayes.kernels import rows as kernels
from tallies.bayes.model import Params
from tallies.data.table import table_bytes, table_rows, take_rows
from tallies.estimator import Inputs, Run
from tallies.forms import Form
from tallies.maths import Array
from tallies.sources import held

if TYPE_CHECKING:
    import pandas as pd

BLOCK = 16384  # rows whose scores are held at a time: they stay in the cache, and no (n, K) matrix is built to predict labels


class Fitted(NamedTuple):
    """All that a fit of GDA or naive Bayes gives."""

    run: Run
    inputs: Inputs
    classes: Annotated[np.ndarray, Form("K", "fibUSMO")]  # the labels, sorted
    layout: Layout  # families and states of the columns
    params: Params

    def check(self) -> None:
        """Classes must differ, and the laws be of the columns of the layout and of their states."""
        if not distinct(self.classes):
            raise ValueError("a class stands twice")
        found, laws = Counter(BLOCKS[family] for family in self.layout.families), self.params.laws
        if self.inputs.n != found.total() or laws.widths() != [found.get(block) for block in range(len(laws))]:
            raise ValueError("the columns of the laws are not those of the layout")
        if laws.categorical is not None and not np.array_equal(laws.categorical.start, self.layout.starts()):
            raise ValueError("the states of the laws are not those of the layout")

    def names(self) -> list[Any]:
        """Column names, or their positions where the table had none."""
        return list(range(self.inputs.n)) if self.inputs.names is None else self.inputs.names.tolist()

    def columns(self) -> Iterator[tuple[Any, str, Any, int, Any]]:
        """Of each column: name, family, states, position in its block, and its law: parameters by name, or p of the states."""
        laws: tuple[Any, ...] = self.params.laws
        for name, family, states, (block, at) in zip(self.names(), *self.layout, self.layout.places(), strict=True):
            yield name, family, states, at, laws[block].column(at)


# of rows: each task writes the answer for a table to `out`


def labels(table: Table, out: np.ndarray, params: Params, classes: np.ndarray, plane: tuple[Array, Array] | None) -> None:
    """The most probable class."""
    if plane is None or table.gaussian is None:
        codes = params.log_joint(table, relative=True).argmax(axis=1)
    else:
        codes = np.empty(len(out), dtype=np.intp)
        kernels.linear_best(table.gaussian, *plane, codes)
        odd = np.flatnonzero(codes < 0)  # rows with gaps
        if len(odd):
            codes[odd] = params.log_joint(Table(gaussian=table.gaussian[odd]), relative=True).argmax(axis=1)
    np.take(classes, codes, out=out, mode="clip")  # codes are in range: "clip" spares the check


def posterior(table: Table, out: Array, params: Params, log: bool) -> None:
    """p(k | x), or its log."""
    kernels.log_posterior(params.log_joint(table, relative=True), out)
    if not log:
        np.exp(out, out=out)


def evidence(table: Table, out: Array, params: Params) -> None:
    """log p(x)."""
    kernels.evidence(params.log_joint(table), out)


def scores(table: Table, out: Array, params: Params, start: Array | float) -> None:
    """start_k + log p(x | k)."""
    out[:] = params.scores(table, start)


def over_table(task: Callable[..., None], table: Table, width: int | None, dtype: Any, *given: Any) -> np.ndarray:
    """(n,) or (n, width) answers of task(table, out, *given), block by block on the chosen backend; `task` is of a module."""
    n = table_rows(table)
    if on_cluster():
        # cut between blocks, so that products of matrices are of the same rows, and have the same bits, as in threads
        cut = held(lambda c: take_rows(table, slice(c.start * BLOCK, min(c.stop * BLOCK, n))), -(-n // BLOCK), table_bytes(table))
        return np.concatenate(each(_part, cut, task, width, dtype, *given))
    out = np.empty(n if width is None else (n, width), dtype)
    over_rows(lambda rows: task(take_rows(table, rows), out[rows], *given), n, BLOCK)
    return out


def _part(table: Table, task: Callable[..., None], *given: Any) -> np.ndarray:
    with backend("threads", workers=1):  # a cluster has its workers already
        return over_table(task, table, *given)


# of the fit


def unobserved(fitted: Fitted) -> list[Any]:
    """Names of the columns without a single value."""
    layout, laws = fitted.layout, fitted.params.laws
    coded = laws.categorical is not None  # 50,000 columns of words are not looked at one by one
    empty = [j for j, states in enumerate(layout.states) if states is not None and not len(states)] if coded else []
    for family, law in (("gaussian", laws.gaussian), ("poisson", laws.poisson)):
        if law is not None:
            empty += [j for j, n in zip(layout.of(family), law.n.sum(axis=0), strict=True) if n == 0]
    return [fitted.names()[j] for j in empty]


def tables(fitted: Fitted) -> dict[Any, pd.DataFrame]:
    """P(x_j | y) by column: classes in rows, and states or the parameters of the family in columns."""
    from pandas import DataFrame, Index

    rows = Index(fitted.classes, name="class")
    return {name: DataFrame(law, index=rows, columns=states) for name, _, states, _, law in fitted.columns()}


def draw(fitted: Fitted, codes: np.ndarray, rng: np.random.Generator) -> Any:
    """One row of features for each class code: a frame where the columns have names, CSR for counts, else an array."""
    layout = fitted.layout
    blocks: list[Any] = [None if law is None else law.draw(codes, rng) for law in fitted.params.laws]
    values = [blocks[block][:, at] for block, at in layout.places()]
    columns = [drawn if states is None else states[drawn] for drawn, states in zip(values, layout.states, strict=True)]
    if fitted.inputs.names is not None:
        from pandas import DataFrame

        return DataFrame(dict(zip(fitted.inputs.names, columns, strict=True)))
    if set(layout.families) == {"multinomial"}:
        return sp.csr_array(np.column_stack(columns))
    texts = any(column.dtype.kind in "OU" for column in columns)
    return np.column_stack([column.astype(object) if texts else column for column in columns])
