"""Matrices of cells at the door of the classifiers: an AnnData, an .h5ad file or a .zarr folder, whose obs has the labels.

Sparse rows stay sparse for the multinomial of naive Bayes; other laws have each shard laid out while it is worked on. What is more
than is held stays in its file. Rows are cut where those of the same matrix in memory are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from pandas import DataFrame, Index

from tallies.answering import called
from tallies.bayes import answers
from tallies.bayes.answers import Fitted
from tallies.bayes.door import CODED, Layout, Table, as_it_is, blocks, check_multinomial, choose
from tallies.bayes.model import Shard
from tallies.data.cells import AT_A_TIME, Cells, beside, held_in, matrix_of
from tallies.data.columns import states_of
from tallies.data.labels import encode_labels
from tallies.data.table import Sparse, check_names, check_weights, sparse, table_bytes
from tallies.errors import DataError
from tallies.estimator import Inputs
from tallies.sources import cuts


class Rows(NamedTuple):
    """A source: some rows of a matrix."""

    X: Any  # these rows, an array or `Sparse`; or `Cells`, where they stay in a file
    first: int
    stop: int
    y: np.ndarray
    weight: np.ndarray
    costly: bool = False  # to make

    def load(self, layout: Layout) -> Shard:
        """The rows as the laws take them."""
        return Shard(table_of(block(self.X, self.first, self.stop), layout), self.y, self.weight)


class Labelled(NamedTuple):
    """What the door lets in."""

    sources: list[Rows]
    names: np.ndarray  # of the columns
    classes: np.ndarray
    layout: Layout


def block(X: Any, first: int, stop: int) -> Any:
    """Some rows of a matrix, sparse or as an array."""
    if isinstance(X, Cells):
        found = X.block(first, stop)
        return sparse(found) if sp.issparse(found) else found
    return X.rows(slice(first, stop)) if isinstance(X, Sparse) else X[first:stop]


def pieces(rows: Any, n: int, d: int) -> Iterator[Any]:
    """All of it in blocks that may be laid out."""
    step = max(1, AT_A_TIME // d)
    return (block(rows, a, min(a + step, n)) for a in range(0, n, step))


def laid_out(X: Any) -> np.ndarray:
    """Such rows in full."""
    return np.asarray(csr_of(X).toarray()) if isinstance(X, Sparse) else X


def csr_of(X: Sparse) -> sp.csr_array:
    """Sparse rows as SciPy has them."""
    return sp.csr_array(X[:3], shape=X.shape)


def table_of(X: Any, layout: Layout) -> Table:
    """Such rows as the laws of their columns take them."""
    if isinstance(X, Sparse) and set(layout.families) == {"multinomial"}:
        check_multinomial(X.data)
        return Table(counts=X)
    X = laid_out(X)
    return as_it_is(X, layout) or blocks(list(X.T), list(range(X.shape[1])), layout)


def survey(model: Any, X: Any, y: Any, sample_weight: Any, families: Any) -> Labelled:
    """Sources of a matrix; labels and weights are given, or named as columns of its obs."""
    whole = matrix_of(X)
    rows: Any
    rows, names = held(X) if whole is None else (whole.cells, whole.columns)
    check_names(DataFrame(columns=names))
    n = rows.shape[0] if whole is None else len(whole.rows)
    classes, y = encode_labels(beside(X, y, "target"), n, missing=model.semi_supervised)
    weight = check_weights(beside(X, sample_weight, "weights"), n)
    layout = layout_of(rows, n, names.tolist(), families)
    stays = layout.families[0] == "multinomial" and isinstance(block(rows, 0, 1), Sparse)
    stored = table_bytes((rows,)) if whole is None else whole.nbytes
    nbytes = stored if stays else n * table_bytes(table_of(block(rows, 0, 1), layout))
    sources = []
    for cut in cuts(n, nbytes, model.shard_rows):
        a, b = cut.start, cut.stop
        part, first = (rows, a) if whole is not None else (block(rows, a, b), 0)
        sources.append(Rows(part, first, first + b - a, y[cut], weight[cut]))
    return Labelled(sources, names, classes, layout)


def layout_of(rows: Any, n: int, names: list[str], families: Any) -> Layout:
    """The families of the columns: multinomial where rows are sparse and nothing else is asked for, else as of a table."""
    first, d = block(rows, 0, 1), len(names)
    if isinstance(first, Sparse) and families == "auto":
        return Layout(["multinomial"] * d, [None] * d)
    like = laid_out(first)
    if like.dtype.kind in "iu" and families != "gaussian":  # numbers that are never below 0 count something
        like = np.min([laid_out(X).min(axis=0, keepdims=True) for X in pieces(rows, n, d)], axis=0)
    chosen = choose(names, list(like.T), families)
    if "categorical" in chosen:
        name = names[chosen.index("categorical")]
        raise DataError(f"the columns of an AnnData are numbers, but {name!r} shall be categorical; pass a table: X.to_df()")
    return Layout(chosen, [states_of(like, family) if family in CODED else None for family in chosen])


def held(X: Any) -> tuple[Any, np.ndarray]:
    """A matrix in memory, and the names of its columns."""
    matrix, names = held_in(X)
    return sparse(matrix) if sp.issparse(matrix) else matrix, names


def in_order(X: Any, known: Inputs | None) -> tuple[Any, np.ndarray]:
    """A matrix in memory, with the columns of a fit by name, or those that it has."""
    rows, names = held(X)
    if known is None:
        return rows, names
    if known.names is None and len(names) != known.n:
        raise DataError(f"X has {len(names):,} columns, but the model was fitted with {known.n:,}; pass the same columns")
    if known.names is None or np.array_equal(names, known.names):
        return rows, names
    order = Index(names).get_indexer(Index(known.names))
    if (order < 0).any():
        raise DataError(f"X lacks the columns {known.names[order < 0][:10].tolist()} that the model was fitted on; add them")
    return (sparse(csr_of(rows)[:, order]) if isinstance(rows, Sparse) else rows[:, order]), known.names


def batch(X: Any, families: Any, known: Inputs | None) -> tuple[Table, Layout, Inputs]:
    """Some rows in memory, to be added to a fit."""
    rows, names = in_order(X, known)
    layout = layout_of(rows, rows.shape[0], names.tolist(), families)
    return table_of(rows, layout), layout, Inputs(len(names), names)


def tables(fitted: Fitted, X: Any) -> Iterator[Table]:
    """New rows, held, piece by piece where they are laid out."""
    if matrix_of(X) is not None:
        raise DataError("these cells are more than is held in memory; predict(X, out=FOLDER) writes the answers to files")
    rows, _ = in_order(X, fitted.inputs)
    if fitted.layout.families[0] == "multinomial":
        return iter([table_of(rows, fitted.layout)])
    return (table_of(part, fitted.layout) for part in pieces(rows, rows.shape[0], fitted.inputs.n))


def predictions(model: Any, rows: tuple[np.ndarray, Any]) -> DataFrame:
    """Names of cells, the class of each, and the probability of each class."""
    names, X = rows
    fitted: Fitted = model.fitted_
    table = table_of(sparse(X), fitted.layout)
    shares = answers.over_table(answers.posterior, table, len(fitted.classes), np.float64, fitted.params, False)
    found = called(model, shares)
    found.insert(0, "id", names)
    return found
