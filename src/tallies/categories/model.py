"""What FEM and FEMNetwork share: a conditional model of categories, p(output | active features).

    x_i                                          features of a row: products of one-hot codes (`terms`)
    y_io | x_i ~ Categorical(softmax(h_o(x_i)))  1.  h(x) = x W, one block of columns an output

Whatever the solver, a sweep counts what the model expects at the trial point, and the update compares it with what was
counted (`solvers`, eq. 2). Shards are pieces of the rows; the kernel form, which ties every row to every other, is `dual`.
A shard may have rows to judge by: what of the data a fit must not see, so that a search can choose among fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from tallies.categories import solvers
from tallies.categories.basis import Basis, basis_of, narrow, widen
from tallies.categories.kernels import fem as kernels
from tallies.categories.products import FEW, add_product, log_chosen, one_hot, product, softmax, softmax_counts, starts_of
from tallies.categories.solvers import Metric, Search
from tallies.categories.terms import Layout, Terms, features, own_features, rescaled, terms_of
from tallies.engine import Model, State
from tallies.forms import Form
from tallies.maths import Array

SHARD_WORK = 1 << 22  # sums a sweep makes in one shard: a few milliseconds, many times what scheduling it costs
ROWS = 512  # rows whose psi is held at a time
CACHED = 32768  # scores held at a time where features are picked: 256 KB, so that they stay in the cache
FREE = 0.01  # ridge of a bias in terms of the common one: it may be spread over the terms in many ways, and one is to be best
FLAT = 1e-6  # least curvature of a row, as a share of that at W = 0: a search that goes on finds more
AGED = 20  # sweeps after which a metric is made anew, where the search is by then
MAX_SHARDS = 16  # every shard brings home a tally of the size of W
Solver = Literal["fem", "lbfgs", "kernel"]
SOLVERS: dict[str, Solver] = {"pinv": "fem", "kernel": "kernel"}  # by way; of all others "lbfgs"


class Rows(NamedTuple):
    """Rows of a table of codes, with what is known of their outputs."""

    codes: Any  # (l, n)  states of the inputs, -1: none; None of judges: those of the rows of the fit
    Y: np.ndarray  # (l, M)  weighted counts of each output state, or (l, n_out) states
    weight: np.ndarray  # (l, n_out), or (l, 1) where it is the same for all outputs

    def part(self, cut: slice | np.ndarray) -> Rows:
        """Some of the rows."""
        return Rows(None if self.codes is None else self.codes[cut], self.Y[cut], self.weight[cut])


class Shard(NamedTuple):
    ids: np.ndarray  # (l, T)  active features; places in psi where matrices are multiplied; few: the matrix itself, `matrix`
    Y: np.ndarray  # as in Rows
    weight: np.ndarray
    judges: Shard | None = None  # held-out rows, their ids always features


class Cut(NamedTuple):
    """A source: rows, from which the features are made where they are needed."""

    model: Conditional
    rows: Rows
    judges: Rows | None  # rows to judge by

    def load(self, *shared: Any) -> Shard:
        """The features of the rows, in the form that the model's sweeps take."""
        model, (codes, Y, weight), judges = self.model, self.rows, None
        ids = model.ids(codes)
        if self.judges is not None:
            known = ids if self.judges.codes is None else model.ids(self.judges.codes)
            judges = Shard(known, self.judges.Y, self.judges.weight)
        if model.multiply:
            ids = np.maximum(model.basis.kept, 0)[ids]  # a last state writes the constant once more: no branch
        if model.dense:
            ids = model.matrix(ids, np.int8)
        return Shard(ids, Y, weight, judges)


class Survey(NamedTuple):
    counted: Array  # (p, M)  sum_i x_i y_i'
    counts: Array  # (p, n_out) or (p, 1)  weight of the rows that have a feature
    gram: Array | None  # (p, p)  sum_i w_i x_i x_i', (r, r) in a basis
    weight: Array  # (n_out,) or (1,)


class Tally(NamedTuple):
    lse: Array  # (n_out,)  sum_i w_i log sum exp h_i
    expected: Array  # (p, M)  sum_i w_i x_i p_i'; over psi: (r, M - n_out)
    # (s, p, p) or (s, r, r)  sum_i v_is x_i x_i' at the trial point, v of `_curvature`, sums of `_add_gram`; where it is asked for
    grams: Array | None = None


class Trial(NamedTuple):
    trial: Array  # as in Params
    age: int


class Params(NamedTuple):
    # where the next sweep evaluates: W; B of `basis`, eq. 3, where matrices are multiplied
    trial: Annotated[np.ndarray, Form("... ...", "f", nan=True)]
    search: Search
    counted: Annotated[np.ndarray, Form("p M", "f")]  # as surveyed
    metric: Metric
    # ridge of each term for each output, biases aside; None: the common one for all
    pair_ridges: Annotated[np.ndarray, Form("T o", "f", 0)] | None
    age: Annotated[int, Form(kind="i", low=-1)] = 0  # sweeps with this metric; -1: the next sweep tells of another

    @property
    def W(self) -> Array:
        """(p, M)  the best so far."""
        return self.search.point.x


@dataclass(frozen=True)
class Conditional(Model):
    """The multinomial regressions of several outputs on the same features."""

    layout: Layout  # the features
    outputs: tuple[int, ...]  # (n_out,)  how many states each output has
    metric: str  # "diagonal" | "gram" | "reduced" (in a basis) | "pinv" (the seed's)
    ridge: float = 1.0
    tol: float = 1e-8  # done when the objective has no more to gain than this share of it
    exclude: bool = False  # outputs are the inputs, and no output may use a feature that contains it
    dense: bool = False  # few rows and features: they are matrices, and no loop is compiled
    multiply: bool = False  # sweeps multiply matrices, eq. 3 and 4 of `basis`, instead of picking the features of each row
    by_state: bool = False  # outputs are folds of one, each of whose states may have a metric of its own

    @property
    def solver(self) -> Solver:
        """ "fem" or "lbfgs"."""
        return SOLVERS.get(self.metric, "lbfgs")

    @property
    def starts(self) -> np.ndarray:
        """(n_out + 1,)  first column of each output."""
        return starts_of(self.outputs)

    @property
    def terms(self) -> Terms:
        """The features by term."""
        return terms_of(self.layout)

    @property
    def basis(self) -> Basis:
        """A basis of the features, where the model needs one."""
        basis = basis_of(self.layout)
        assert basis is not None
        return basis

    def ids(self, codes: np.ndarray) -> np.ndarray:
        """Active features of these rows."""
        return features(self.terms, codes)

    def surveys_like(self, other: Model) -> bool:
        return isinstance(other, Conditional) and replace(other, ridge=self.ridge, tol=self.tol) == self

    # verbs

    def survey(self, shard: Shard) -> Survey:
        r, gram = len(self.basis.P) if self.multiply else self.terms.p, None if self.metric == "diagonal" else self._no_gram()
        counted, counts = np.zeros((r, int(self._columns[-1]))), np.zeros((r, shard.weight.shape[1]))
        for part, X in self._blocks(shard):
            Y, weight = shard.Y[part], shard.weight[part]
            if X.dtype.kind != "f" and Y.dtype.kind != "f":
                kernels.scatter_states(X, Y, weight.max(axis=1), self.starts, counted)
            else:
                add_product(X, self._counts(Y, weight), counted, once=False)
            add_product(X, weight, counts, once=False)
            if gram is not None:
                self._add_gram(X, weight.max(axis=1), gram)
        if self.multiply:
            counts = self.basis.T.T @ counts
            counted = widen(self.basis, counted, counts, self.starts)
        return Survey(counted, counts, None if gram is None else self._whole(gram), shard.weight.sum(axis=0))

    def _no_gram(self) -> Array:
        r = len(self.basis.P) if self.multiply or self.metric == "reduced" else self.terms.p
        return np.zeros((r, r))

    def _add_gram(self, X: np.ndarray, row: Array, gram: Array) -> None:
        """gram += sum_i row_i x_i x_i' over features, or psi; without products its lower triangle alone."""
        if self.multiply:
            add_product(X, X * row[:, None], gram)
        elif self.dense:
            if self.metric == "reduced":
                at = np.flatnonzero(self.basis.kept >= 0)
                psi = np.ones((len(X), len(gram)))
                psi[:, self.basis.kept[at]] = X[:, at]
                X = psi
            gram += np.tril((X.T * row) @ X)
        else:  # of psi, with the constant
            kernels.gram(np.insert(self.basis.kept[X], 0, 0, axis=1) if self.metric == "reduced" else X, row, gram)

    def _add_grams(self, X: np.ndarray, P: Array, weight: Array, grams: list[Array]) -> None:
        """The least curvature of all rows, once, then what states add to it: near the end of a search few rows have more."""
        least = FLAT * weight.mean(axis=1) / self.outputs[0]
        self._add_gram(X, least, grams[0])
        for v, gram in zip(self._curvature(P, weight).T, grams[1:], strict=True):
            at = np.flatnonzero(v > least)
            self._add_gram(X[at], v[at] - least[at], gram)

    def _whole(self, gram: Array) -> Array:
        """What the metric takes: sums over psi, or over features."""
        gram = gram if self.multiply else gram + np.tril(gram, -1).T
        if not self.multiply or self.metric == "reduced":
            return gram
        return self.basis.T.T @ (self.basis.T.T @ gram).T

    @property
    def _columns(self) -> np.ndarray:
        """(n_out + 1,)  first column of each output in a sweep: where matrices are multiplied last states have none."""
        return self.starts - np.arange(len(self.starts)) if self.multiply else self.starts

    def _blocks(self, shard: Shard) -> Iterator[tuple[slice, np.ndarray]]:
        """Some rows at a time, with their features, or psi where matrices are multiplied: a constant, and ones at its places."""
        size = ROWS if self.multiply or self.dense else max(16, CACHED // sum(self.outputs))
        for a in range(0, len(shard.ids), size):
            part = slice(a, a + size)
            X = shard.ids[part]
            if self.dense:
                X = X.astype(np.float64)  # sooner made in the cache than read from memory
            yield part, self.matrix(X) if self.multiply and not self.dense else X

    def matrix(self, ids: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """(l, p) features of rows as a matrix; psi where matrices are multiplied."""
        X = one_hot(ids, len(self.basis.P) if self.multiply else self.terms.p, dtype)
        if self.multiply:
            X[:, 0] = 1
        return X

    def _counts(self, Y: np.ndarray, weight: Array) -> Array:
        """(l, M)  weighted counts of each output's states; where matrices are multiplied last states have none."""
        if Y.dtype.kind == "f":
            return np.delete(Y, self.starts[1:] - 1, axis=1) if self.multiply else Y
        width = np.diff(self._columns)
        state = np.arange(self._columns[-1]) - np.repeat(self._columns[:-1], width)  # that each column stands for
        return (np.repeat(Y, width, axis=1) == state) * weight.max(axis=1, keepdims=True)

    def first(self, survey: Survey, W: Array | None = None, pair_ridges: Array | None = None) -> Params:
        """The start of a fit at W, such as the end of another; None: at 0, where every state is as likely as any other."""
        counted, cold = survey.counted, W is None or W.shape != survey.counted.shape
        x = np.zeros(counted.shape) if W is None or cold else np.asarray(W, dtype=np.float64)
        if self.by_state:
            x = solvers.zero_mean(x, self.outputs[0])  # as the optimum is, and steps are
        if self.exclude:
            counted = counted.copy()
            self._exclude(counted)
        search = solvers.begin(x, self.starts)
        params = Params(self._evaluated(search), search, counted, self._make_metric(survey, pair_ridges), pair_ridges)
        if not cold:  # the metric of W = 0 is of little use there
            return params._replace(age=-1 if self._renews else 0)
        m = np.array(self.outputs)  # the first step needs no sweep
        lse = np.broadcast_to(survey.weight, m.shape) * np.log(m)
        columns = survey.counts if survey.counts.shape[1] == 1 else np.repeat(survey.counts, m, axis=1)
        return self._climb(params, lse, columns / np.repeat(m, m))

    def _curvature(self, P: Array, weight: Array) -> Array:
        """(l, s)  of the log likelihood of rows, mean over outputs: of each state, w p (1 - p); s = 1: of all, w/m where they are
        as likely as each other, next to 0 where one is sure.

        P are the probabilities of states times the weights of the rows; where matrices are multiplied last states have none.
        """
        m, n_out = self.outputs[0], len(self.outputs)
        P = P.reshape(len(P), n_out, -1)
        if self.multiply:
            P = np.concatenate([P, weight[:, :, None] - P.sum(axis=2, keepdims=True)], axis=2)
        square = np.divide(P * P, weight[:, :, None], out=np.zeros_like(P), where=weight[:, :, None] > 0)
        v = (P - square).sum(axis=1) / n_out
        return v if self.by_state else v.sum(axis=1, keepdims=True) / (m - 1)

    def _make_metric(self, survey: Survey, pair_ridges: Array | None) -> Metric:
        m, G = float(np.median(self.outputs)), survey.gram
        own = own_features(self.layout) if self.exclude else None
        made: solvers.Plain
        if self.metric == "diagonal" or G is None:
            made = solvers.diagonal_metric(survey.counts.max(axis=1), self.ridge, m, len(self.terms.variables))
        elif self.metric == "pinv":
            made = solvers.pseudo_metric(G, self.ridge, own, len(self.outputs))
        elif own is not None:
            made = solvers.exclusive_metric(solvers.factor(G, self.ridge, m, 1e-6), own)
        else:
            made = self._full(G, m)
        if pair_ridges is None:
            return made
        g = survey.weight / np.outer(self.layout.sizes, self.outputs)  # of G/m where all states are as frequent
        return solvers.Stretched(made, self.terms.offset, np.sqrt((g + self.ridge) / (g + pair_ridges)))

    def _full(self, G: Array, m: float) -> solvers.Full | solvers.Reduced:
        """G/m + ridge."""
        if self.metric == "reduced":
            return solvers.Reduced(solvers.factor(G, self.ridge, m, 1e-9, self.basis.P), self.basis)
        return solvers.Full(solvers.factor(G, self.ridge, m, 1e-6))

    def _renewed(self, grams: Array) -> solvers.Plain:
        """The metric of the curvature that a sweep has told."""
        made = [self._full(self._whole(gram), 1.0) for gram in grams]
        basis = self.basis if self.metric == "reduced" else None
        return solvers.ByState(np.array([metric.L for metric in made]), basis) if self.by_state else made[0]

    def _evaluated(self, search: Search) -> Array:
        """The trial point in the form that a sweep wants."""
        x = solvers.trial(search, self.starts)
        return narrow(self.basis, x, self.starts) if self.multiply else x

    def _exclude(self, table: Array) -> None:
        """Zero the entries of every output with features that contain it."""
        for o, F in enumerate(own_features(self.layout)):
            table[F, self.starts[o] : self.starts[o + 1]] = 0.0

    def outgoing(self, params: Params) -> Trial:
        return Trial(params.trial, params.age)  # metric and memory of the search are many times as large

    def sweep(self, shard: Shard, latents: None, params: Params | Trial, rng: np.random.Generator) -> tuple[Tally, None]:
        lse = np.zeros(len(self.outputs))
        self._need(params.trial, self.multiply)
        metrics = 0 if params.age >= 0 else 1 + (self.outputs[0] if self.by_state else 1)
        G, grams = np.zeros_like(params.trial), [self._no_gram() for _ in range(metrics)]
        few = self.dense and len(shard.ids) * G.shape[1] <= FEW
        room = None if few else kernels.room_for(len(lse), G.shape[1])
        for part, X in self._blocks(shard):
            H = product(X, params.trial, once=False)
            softmax_counts(H, shard.weight[part], self._columns, lse, float(self.multiply), room)
            add_product(X, H, G, once=False)
            if grams:
                self._add_grams(X, H, shard.weight[part], grams)
        return Tally(lse, G, np.array(grams[1:]) + grams[0] if grams else None), None

    def _need(self, point: np.ndarray, narrow: bool = False) -> None:
        """A kernel trusts the shape of a point, `narrow` in a basis, which a checkpoint may have brought."""
        need = len(self.basis.P) if narrow else self.terms.p, int((self._columns if narrow else self.starts)[-1])
        if point.shape != need:
            raise ValueError(f"a point of the fit should have the shape {need}, and has {point.shape}")

    def update(self, params: Params, tally: Tally, rng: np.random.Generator) -> Params:
        lse, expected, grams = tally
        if grams is not None:
            params = params._replace(metric=self._renewed(grams))
        if self.multiply:
            # every row has one state of each output: what was counted says how many rows have a feature
            counts = np.add.reduceat(params.counted, self.starts[:-1], axis=1)
            last = solvers.trial(params.search, self.starts)[:, self.starts[1:] - 1]  # the score that was taken off all states
            lse, expected = lse + np.einsum("po,po->o", counts, last), widen(self.basis, expected, counts, self.starts)
        return self._climb(params, lse, expected)

    def _climb(self, params: Params, lse: Array, expected: Array) -> Params:
        """Objective and gradient at the trial point; the solver says where to go from there."""
        x = solvers.trial(params.search, self.starts)
        pull = self.ridge * x  # gradient of the penalty
        if params.pair_ridges is not None:  # means over the states of a term, the bias, are nearly free
            pull = rescaled(x, self.terms.offset, self.starts, params.pair_ridges, FREE * self.ridge)
        value = solvers.dots(params.counted - 0.5 * pull, x, self.starts) - lse  # eq. 1
        g = params.counted - expected - pull  # eq. 2
        if self.exclude:
            self._exclude(g)
        climb = solvers.fixed_step if self.solver == "fem" else solvers.advance
        search, age = climb(params.search, value, g, params.metric, self.starts, self.tol), params.age + 1
        if age >= AGED and self._renews and not search.done.all():
            search, age = solvers.again(search, self.starts), -1
        return params._replace(trial=self._evaluated(search), search=search, age=age)

    @property
    def _renews(self) -> bool:
        """Whether one metric serves all outputs, whatever they expect, so that a sweep can tell of another."""
        alike = len(set(self.outputs)) == 1 < self.outputs[0] and not self.exclude
        return alike and self.metric in ("gram", "reduced")

    def objective(self, tally: Tally, before: Params, after: Params) -> float:
        """Penalised log likelihood of the best point: a refused trial repeats it."""
        return float(after.search.point.value.sum())

    def done(self, state: State) -> bool:
        return bool(state.params.search.done.all())  # a refused step changes nothing, and is not the end

    def rows(self, shard: Shard, latents: None, params: Params) -> Array:
        """(l',)  weighted log likelihood of every row to judge by."""
        assert shard.judges is not None
        at, (ids, Y, weight, _) = params.W, shard.judges
        self._need(at)
        H = product(ids, at)
        if Y.dtype.kind == "f":
            return np.einsum("im,im->i", Y, np.log(softmax(H, self.starts)))
        return np.sum(weight * log_chosen(H, Y, self.starts), axis=1)


def cut(model: Conditional, rows: Rows, shard_rows: int | None = None, judges: Rows | None = None) -> list[Cut]:
    """Sources of equal work; where they are cut follows from the data alone. `judges` are cut into as many parts."""
    l, M = len(rows.codes), sum(model.outputs)
    r = len(model.basis.P) if model.multiply or model.metric == "reduced" else 0
    work = l * M * (r // 8 + 8 if model.multiply else len(model.terms.variables))  # eight sums of a product cost one; and exp
    parts = int(np.clip(work // SHARD_WORK, 1, min(MAX_SHARDS, l)))
    if model.metric != "diagonal":  # tallies of the survey have p^2 entries, those that tell of a metric that many for every state
        square = (r if model.metric == "reduced" else model.terms.p) ** 2
        parts = min(parts, max(1, (1 << 26) // (square * (model.outputs[0] if model.by_state else 1))))
    size, found = shard_rows or -(-l // parts), []
    for a in range(0, l, size):
        b = min(a + size, l)
        other = None if judges is None else judges.part(slice(a * len(judges.Y) // l, b * len(judges.Y) // l))
        found.append(Cut(model, rows.part(slice(a, b)), other))
    return found
