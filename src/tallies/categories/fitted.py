"""What the door of FEM lets in, and what a fit of it gives."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tallies.categories import base
from tallies.categories.base import Choice
from tallies.categories.door import Categories, unique_rows
from tallies.categories.lazily import Whole
from tallies.categories.model import Rows
from tallies.estimator import Inputs, Run
from tallies.forms import Form
from tallies.maths import Array


class Table(NamedTuple):
    """What the door lets in."""

    codes: np.ndarray  # (l, n)
    labels: np.ndarray  # (l,)  codes of the classes
    weight: Array  # (l,)
    categories: Categories
    classes: np.ndarray  # (M,)
    inputs: Inputs
    whole: Whole | None = None  # of a table beyond memory, of which the others are a sample

    def distinct(self, number: np.ndarray | None) -> tuple[Rows, Array]:
        """The distinct rows with the weight of each class in them, and (u, k M) the part of it that each of k folds holds out."""
        used, M = self.weight > 0, len(self.classes)
        folds = [] if number is None else [self.weight * (number == k) for k in range(number[used].max() + 1)]
        both = distinct(self.codes[used], self.labels[used], M, [weight[used] for weight in (self.weight, *folds)])
        Y, held = (np.ascontiguousarray(part) for part in np.split(both.Y, [M], axis=1))
        return rows_of(both.codes, Y, M), held


def distinct(codes: np.ndarray, labels: np.ndarray, M: int, weights: list[Array]) -> Rows:
    """The distinct rows, with the weight of each class in them, by each of several weights of all rows, side by side."""
    first, twin = unique_rows(codes)
    Y: Array = np.hstack([np.bincount(twin * M + labels, weight, len(first) * M).reshape(-1, M) for weight in weights])
    return rows_of(np.ascontiguousarray(codes[first]), Y, M)


def rows_of(codes: np.ndarray, Y: Array, M: int) -> Rows:
    """Rows of outputs of M classes each."""
    return Rows(codes, Y, np.add.reduceat(Y, range(0, Y.shape[1], M), axis=1))


class Left(NamedTuple):
    """What is left of rows that came in batches, which adds: their log likelihood is about b'W - W'H W / 2, W row by row."""

    weight: Annotated[float, Form(low=0)]  # of the rows
    b: Annotated[np.ndarray, Form("k")]
    H: Annotated[np.ndarray, Form("k k")]


class Stream(NamedTuple):
    """Rows that came in batches."""

    seen: Annotated[float, Form(low=0)]  # weight of all
    left: Left  # of which the earlier ones are faded


class Fitted(NamedTuple):
    run: Run
    inputs: Inputs
    categories: Categories
    classes: Annotated[np.ndarray, Form("M", "fibUSOMm")]
    n_rows: base.Count
    choice: Choice
    path: dict[str, list[float]]
    W: base.Weights  # (p, M); kernel: dual weights (u, M)
    rows: Annotated[np.ndarray, Form("u n", "i", -1)] | None  # kernel: codes of the distinct rows, else None
    stream: Stream | None = None  # where rows came in batches

    def check(self) -> None:
        """Two classes at least, and a weight for each feature and class."""
        if len(self.classes) < 2:
            raise ValueError(f"there should be two classes at least, and are {len(self.classes)}")
        base.check_fit(self, len(self.classes), self.rows)
        if self.stream is not None and len(self.stream.left.b) != self.W.size:
            raise ValueError(f"what is left of {len(self.stream.left.b)} weights does not go with {self.W.size}")
