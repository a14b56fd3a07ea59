"""Rows of categories that come once, batch by batch: a batch is fitted given what the earlier ones have left.

The log likelihood of rows is kept as a parabola about the weights with which they were fitted, whose tallies add:

    1.  L(W) ~ b'W - W'H W / 2,      H = sum_i w_i (x_i x_i') (x) (diag p_i - p_i p_i'),      b = gradient + H W   at these weights

so that a batch is fitted by Newton's method, which needs H in any case, to

    2.  sum_i w_i log p(y_i | x_i) + b'W - W'H W / 2 - ridge/2 |W|^2,      t <- faded t + t_batch,   t = (weight, b, H)

With nothing left it is a fit to the batch alone. Where effects are strong, early parabolas were made at weights that knew less.
Opper (1998), A Bayesian approach to on-line learning.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import clone

from tallies.categories.door import read_codes
from tallies.categories.fitted import Fitted, Left, Stream, Table
from tallies.categories.model import ROWS, Cut, Shard
from tallies.categories.products import one_hot, softmax
from tallies.categories.terms import Layout, features, terms_of
from tallies.data.kinds import from_file
from tallies.data.labels import encode_labels, label_codes
from tallies.data.table import check_weights
from tallies.engine import End, Model, Stage, State
from tallies.errors import DataError, DataWarning
from tallies.estimator import Run
from tallies.forms import Form
from tallies.maths import Array
from tallies.sums import add, faded

REMEMBERED = 1.0  # weight of earlier rows that counts beside a new batch, as a share of all; a half, a quarter lose more
MOST = 3000  # weights, features times classes: H has the square of them, 72 MB
ENOUGH = 1e-4  # share of what a step promises that it must gain
FLOOR = 1e-9  # of the mean curvature: what no row tells of stays where it is without a ridge
SHORT = 1e-10  # step from which on rounding decides

Weights = Annotated[np.ndarray, Form("p M")]


class BatchTally(NamedTuple):
    """Sums over rows at the trial point."""

    value: float  # log likelihood
    own: Left  # with the gradient in the place of b


class BatchTrial(NamedTuple):
    trial: Array


class BatchParams(NamedTuple):
    """Where Newton's method stands."""

    W: Weights  # the best so far
    trial: Weights  # where the next sweep evaluates
    left: Left  # of earlier rows
    own: Left | None = None  # of the batch, at W
    value: float = -np.inf  # eq. 2 at W
    d: Weights | None = None  # direction
    slope: float = 0.0  # along it
    step: float = 1.0
    done: bool = False


class Ended(NamedTuple):
    """What is kept of a batch."""

    W: Weights
    own: Left | None


RECORDS = (Left, Stream, BatchTally, BatchParams, Ended)


@dataclass(frozen=True)
class Batch(Model):
    """The verbs; a stage begins with params."""

    layout: Layout  # the features
    M: int  # classes
    ridge: float
    tol: float  # done when eq. 2 has no more to gain than this share of it

    monotone: ClassVar[bool] = True
    draws: ClassVar[bool] = False
    multiply: ClassVar[bool] = False  # these two: shards of `Cut` are features as they are
    dense: ClassVar[bool] = False

    def ids(self, codes: np.ndarray) -> np.ndarray:
        """Active features of these rows."""
        return features(terms_of(self.layout), codes)

    def outgoing(self, params: BatchParams) -> BatchTrial:
        return BatchTrial(params.trial)  # the rest is as large as H

    def sweep(
        self, shard: Shard, latents: None, params: BatchParams | BatchTrial, rng: np.random.Generator
    ) -> tuple[BatchTally, None]:
        W, M = params.trial, self.M
        p, starts, value = len(W), np.array([0, M]), 0.0
        g, H = np.zeros((p, M)), np.zeros((p, M, p, M))
        for a in range(0, len(shard.ids), ROWS):
            X = one_hot(shard.ids[a : a + ROWS], p)
            Y, w = shard.Y[a : a + ROWS], shard.weight[a : a + ROWS]
            P = softmax(X @ W, starts)
            value += float(np.sum(Y * np.log(np.maximum(P, 1e-300))))
            g += X.T @ (Y - w * P)
            for m in range(M):
                for k in range(m + 1):
                    H[:, m, :, k] += (X * (w[:, 0] * P[:, m] * ((m == k) - P[:, k]))[:, None]).T @ X
        for m in range(M):
            for k in range(m):
                H[:, k, :, m] = H[:, m, :, k].T
        return BatchTally(value, Left(float(shard.weight.sum()), g.ravel(), H.reshape(p * M, p * M))), None

    def update(self, params: BatchParams, tally: BatchTally, rng: np.random.Generator) -> BatchParams:
        w, left, own = params.trial.ravel(), params.left, tally.own
        pull = left.H @ w
        value = tally.value + float(left.b @ w - 0.5 * w @ pull - 0.5 * self.ridge * w @ w)
        if params.d is not None and not value >= params.value + ENOUGH * params.step * params.slope:
            step = 0.5 * params.step
            if step < SHORT:
                return params._replace(done=True)
            return params._replace(step=step, trial=params.W + step * params.d)
        g, A = own.b + left.b - pull - self.ridge * w, left.H + own.H
        A[np.diag_indices_from(A)] += max(self.ridge, FLOOR * float(np.trace(A)) / len(A), 1e-300)
        d = cho_solve(cho_factor(A, lower=True, overwrite_a=True), g)
        slope, own = float(g @ d), own._replace(b=own.b + own.H @ w)  # eq. 1
        ended = 0.5 * slope <= self.tol * abs(value)
        d = d.reshape(params.W.shape)
        return BatchParams(params.trial, params.trial + d, left, own, value, d, slope, 1.0, ended)

    def objective(self, tally: BatchTally, before: BatchParams, after: BatchParams) -> float:
        return after.value

    def done(self, state: State) -> bool:
        return bool(state.params.done)


class Added(NamedTuple):
    """What the door let in: a batch, and the fit to those before it."""

    table: Table
    before: Fitted | None


def can(model: Any) -> bool:
    """Whether rows can be added to a model with these settings; scikit-learn asks, and shows what is raised."""
    if model.solver == "kernel":
        raise AttributeError('rows can be added to weights of features, and solver="kernel" has none; use "auto" or "lbfgs"')
    return True


def prepare(model: Any, X: Any, y: Any, classes: Any, sample_weight: Any) -> Added:
    """The door for a batch, whose columns, states and classes are those of the first."""
    if model.__sklearn_is_fitted__() and model.fitted_.stream is None:
        told = "fit keeps nothing of its rows that others could be added to, so partial_fit begins anew with these"
        warnings.warn(f"{told}; call partial_fit for all of them", DataWarning, stacklevel=4)
    if not model.__sklearn_is_fitted__() or model.fitted_.stream is None:
        X, y, sample_weight = from_file(X, y, sample_weight, model=model, fitted=False)
        known = None if classes is None else encode_labels(np.asarray(classes), len(classes), missing=False)[0]
        return Added(model._prepare(X, y, sample_weight, known), None)
    before: Fitted = model.fitted_
    if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), before.classes):
        raise ValueError(f"classes are those of the first call, {before.classes.tolist()}, got {list(classes)}; leave them out")
    X, y, sample_weight = from_file(X, y, sample_weight, model=model)
    codes = read_codes(model, X, before.categories)
    labels, weight = label_codes(y, len(codes), before.classes), check_weights(sample_weight, len(codes))
    return Added(Table(codes, labels, weight, before.categories, before.classes, before.inputs), before)


def plan(model: Any, data: Added, seed: int) -> Generator[Any, Any, Fitted]:
    """The stages of a batch: the first is fitted as any table is, by a solver that has features."""
    fitted, table = data.before, data.table
    rows, M = table.distinct(None)[0], len(table.classes)
    if fitted is None:
        first = clone(model).set_params(solver="fem" if model.solver == "fem" else "lbfgs")
        first.shard_rows = model.shard_rows
        fitted = yield from first._plan(table, seed)
        _refuse(fitted.W)
        kept = yield _stage(model, fitted, rows, M, _nothing(fitted.W), 1)
        return fitted._replace(stream=Stream(kept.value.own.weight, kept.value.own))
    assert fitted.stream is not None
    left = fitted.stream.left
    base: Left = faded(left, min(1.0, REMEMBERED * fitted.stream.seen / left.weight))
    kept = yield _stage(model, fitted, rows, M, base, model.max_iter)
    W, own = kept.value
    stream = Stream(fitted.stream.seen + own.weight, add([base, own]))
    run, n = Run.of(kept, seed), fitted.n_rows + len(table.codes)
    return fitted._replace(run=run, W=W, n_rows=n, stream=stream)


def _refuse(W: Array) -> None:
    if W.size > MOST:
        raise DataError(
            f"{W.shape[0]:,} features of {W.shape[1]} classes have {W.size:,} weights, and what partial_fit keeps of rows has the "
            f"square of them (limit {MOST:,}); lower degree, or keep rows in files and fit these"
        )


def _nothing(W: Array) -> Left:
    return Left(0.0, np.zeros(W.size), np.zeros((W.size, W.size)))


def _stage(model: Any, fitted: Fitted, rows: Any, M: int, left: Left, most: int) -> Stage:
    layout = Layout.of(fitted.categories.sizes, fitted.choice.degree, fitted.choice.pairs)
    batch = Batch(layout, M, fitted.choice.ridge, model.tol)
    size = model.shard_rows or max(ROWS, -(-len(rows.codes) // 16))
    sources = [Cut(batch, rows.part(slice(a, a + size)), None) for a in range(0, len(rows.codes), size)]  # type: ignore[arg-type]
    name = "what is left" if most == 1 else ""
    return Stage(name, batch, sources, _ended, most, start=BatchParams(fitted.W, fitted.W, left))


def _ended(end: End) -> Ended:
    return Ended(end.params.W, end.params.own)


def partial_fit(model: Any, X: Any, y: Any, classes: Any, sample_weight: Any, run: dict[str, Any]) -> Any:
    """Add a batch to a FEM."""
    return model._fit(prepare(model, X, y, classes, sample_weight), **run)
