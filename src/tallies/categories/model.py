"""What FEM and FEMNetwork share: a conditional model of categories, p(output | active features).

    x_i                                          features of a row: products of one-hot codes (`terms`)
    y_io | x_i ~ Categorical(softmax(h_o(x_i)))  1.  h(x) = x W, one block of columns an output

Whatever the solver, a sweep counts what the model expects at the trial point, and the update compares it with what was
counted (`solvers`, eq. 2). Shards are pieces of the rows; the kernel form ties every row to every other and has one shard.
A shard may have rows to judge by: what of the data a fit must not see, so that a search can choose among fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import comb
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from tallies.categories import solvers
from tallies.categories.basis import Basis, basis_of, narrow, widen
from tallies.categories.kernels import fem as kernels
from tallies.categories.solvers import Metric, Search
from tallies.categories.terms import Layout, Terms, features, own_features, rescaled, terms_of
from tallies.engine import Model, State
from tallies.forms import Form
from tallies.maths import Array, pointer

SHARD_WORK = 1 << 22  # sums a sweep makes in one shard: a few milliseconds, many times what scheduling it costs
ROWS = 512  # rows whose psi is held at a time
CACHED = 8192  # scores held at a time where features are picked: 64 KB, so that they stay in the cache
FREE = 0.01  # ridge of a bias in terms of the common one: it may be spread over the terms in many ways, and one is to be best
MAX_SHARDS = 16  # every shard brings home a tally of the size of W
Solver = Literal["fem", "lbfgs", "kernel"]
SOLVERS: dict[str, Solver] = {"pinv": "fem", "kernel": "kernel"}  # by metric; of all others "lbfgs"


class Rows(NamedTuple):
    """Rows of a table of codes, with what is known of their outputs."""

    codes: Any  # (l, n)  states of the inputs, -1: none; None of judges: those of the rows of the fit
    Y: np.ndarray  # (l, M)  weighted counts of each output state, or (l, n_out) states
    weight: np.ndarray  # (l, n_out), or (l, 1) where it is the same for all outputs

    def part(self, cut: slice | np.ndarray) -> Rows:
        """Some of the rows."""
        return Rows(None if self.codes is None else self.codes[cut], self.Y[cut], self.weight[cut])


class Shard(NamedTuple):
    ids: np.ndarray  # (l, T)  active features; places in psi where matrices are multiplied; kernel: (l, n) codes
    Y: np.ndarray  # as in Rows
    weight: np.ndarray
    judges: Shard | None = None  # held-out rows, their ids always features; kernel: it judges by the rows of the fit


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
        return Shard(ids, Y, weight, judges)


class Survey(NamedTuple):
    counted: Array  # (p, M)  sum_i x_i y_i'; kernel: Y itself
    counts: Array  # (p, n_out) or (p, 1)  weight of the rows that have a feature; kernel: of each row
    gram: Array | None  # (p, p)  sum_i w_i x_i x_i', (r, r) in a basis; kernel: K (l, l)
    weight: Array  # (n_out,) or (1,)


class Tally(NamedTuple):
    lse: Array  # (n_out,)  sum_i w_i log sum exp h_i
    expected: Array  # (p, M)  sum_i w_i x_i p_i'; over psi: (r, M - n_out); kernel: w p (l, M)


class Trial(NamedTuple):
    trial: Array  # as in Params


class Params(NamedTuple):
    # where the next sweep evaluates: W; B of `basis`, eq. 3, where matrices are multiplied; kernel: K a
    trial: Annotated[np.ndarray, Form("... ...", "f", nan=True)]
    search: Search  # its best point is W (p, M); kernel: dual weights a (l, M), W = sum_i x_i a_i'
    counted: Annotated[np.ndarray, Form("p M", "f")]  # as surveyed
    metric: Metric
    # ridge of each term for each output, biases aside; None: the common one for all
    pair_ridges: Annotated[np.ndarray, Form("T o", "f", 0)] | None


@dataclass(frozen=True)
class Conditional(Model):
    """The multinomial regressions of several outputs on the same features."""

    layout: Layout  # the features
    outputs: tuple[int, ...]  # (n_out,)  how many states each output has
    metric: str  # "diagonal" | "gram" | "reduced" (in a basis) | "pinv" (the seed's) | "kernel"
    ridge: float = 1.0
    tol: float = 1e-8  # done when the objective has no more to gain than this share of it
    exclude: bool = False  # outputs are the inputs, and no output may use a feature that contains it
    multiply: bool = False  # sweeps multiply matrices, eq. 3 and 4 of `basis`, instead of picking the features of each row

    @property
    def solver(self) -> Solver:
        """ "fem", "lbfgs" or "kernel"."""
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
        """Active features of these rows; kernel: the codes themselves."""
        return codes if self.solver == "kernel" else features(self.terms, codes)

    def surveys_like(self, other: Model) -> bool:
        return isinstance(other, Conditional) and replace(other, ridge=self.ridge, tol=self.tol) == self

    # verbs

    def survey(self, shard: Shard) -> Survey:
        if self.solver == "kernel":
            n, degrees = shard.ids.shape[1], self.layout.degrees
            states = features(terms_of(self.layout._replace(degrees=(1,))), shard.ids)
            X = one_hot(states, sum(self.layout.sizes), np.float32)
            matched = (X @ X.T).astype(np.int32)  # in how many variables each row agrees with each; counts are exact
            # rows that agree in a number of variables share so many choose k features of degree k
            table = np.array([float(sum(comb(agree, k) for k in degrees)) for agree in range(n + 1)])
            return Survey(shard.Y, shard.weight, table[matched], shard.weight.sum(axis=0))
        full, reduced, columns = self.metric != "diagonal", self.metric == "reduced", int(self._columns[-1])
        r = len(self.basis.R) if self.multiply else self.terms.p
        counted, counts = np.zeros((r, columns)), np.zeros((r, shard.weight.shape[1]))
        gram = np.zeros(self.basis.R.shape if reduced else (r, r)) if full else None
        for part, X in self._blocks(shard):
            weight = shard.weight[part]
            Y, row = self._counts(shard.Y[part], weight), weight.max(axis=1)
            add_product(X, np.delete(Y, self.starts[1:] - 1, axis=1) if self.multiply else Y, counted)
            add_product(X, weight, counts)
            if gram is not None and self.multiply:
                add_product(X, X * row[:, None], gram)
            elif gram is not None:
                kernels.gram(np.insert(self.basis.kept[X], 0, 0, axis=1) if reduced else X, row, gram)  # of psi, with the constant
        if gram is not None and not self.multiply:
            gram += np.tril(gram, -1).T
        if self.multiply:
            counts = self.basis.T.T @ counts
            counted = widen(self.basis, counted, counts, self.starts)
        if gram is not None and (self.multiply or reduced):  # from psi to what the metric takes: an orthonormal basis, or features
            _, T, R = self.basis
            gram = R.T @ gram @ R if reduced else T.T @ (T.T @ gram).T
        return Survey(counted, counts, gram, shard.weight.sum(axis=0))

    @property
    def _columns(self) -> np.ndarray:
        """(n_out + 1,)  first column of each output in a sweep: where matrices are multiplied last states have none."""
        return self.starts - np.arange(len(self.starts)) if self.multiply else self.starts

    def _blocks(self, shard: Shard) -> Iterator[tuple[slice, np.ndarray]]:
        """Some rows at a time, with their features, or psi where matrices are multiplied: a constant, and ones at its places."""
        size = ROWS if self.multiply else max(16, CACHED // sum(self.outputs))
        for a in range(0, len(shard.ids), size):
            part = slice(a, a + size)
            X = shard.ids[part]
            if self.multiply:
                X = one_hot(X, len(self.basis.R))
                X[:, 0] = 1.0
            yield part, X

    def _counts(self, Y: np.ndarray, weight: Array) -> Array:
        """(l, M)  weighted counts of each output's states, where rows have the states themselves."""
        if Y.dtype.kind == "f":
            return Y
        states = np.where(Y >= 0, Y + self.starts[:-1], -1)
        return one_hot(states, sum(self.outputs)) * weight.max(axis=1, keepdims=True)

    def first(self, survey: Survey, W: Array | None = None, pair_ridges: Array | None = None) -> Params:
        """The start of a fit at W, such as the end of another; None: at 0, where every state is as likely as any other."""
        counted, cold = survey.counted, W is None or W.shape != survey.counted.shape
        x = np.zeros((1, *counted.shape)) if W is None or cold else np.asarray(W, dtype=np.float64)[None]
        if self.exclude:
            counted = counted.copy()
            self._exclude(counted)
        if self.solver == "kernel" and survey.gram is not None:
            x = np.concatenate([x, survey.gram @ x])
        search = solvers.begin(x, self.starts)
        params = Params(self._evaluated(search), search, counted, self._make_metric(survey, pair_ridges), pair_ridges)
        if not cold:
            return params
        m = np.array(self.outputs)  # the first step needs no sweep
        lse = np.broadcast_to(survey.weight, m.shape) * np.log(m)
        columns = survey.counts if survey.counts.shape[1] == 1 else np.repeat(survey.counts, m, axis=1)
        return self._climb(params, lse, columns / np.repeat(m, m))

    def _make_metric(self, survey: Survey, pair_ridges: Array | None) -> Metric:
        m, G = float(np.median(self.outputs)), survey.gram
        own = own_features(self.layout) if self.exclude else None
        made: Metric
        if self.metric == "diagonal" or G is None:
            made = solvers.diagonal_metric(survey.counts.max(axis=1), self.ridge, m, len(self.terms.variables))
        elif self.metric == "pinv":
            made = solvers.pseudo_metric(G, self.ridge, own, len(self.outputs))
        elif self.metric == "kernel":
            made = solvers.Dual(solvers.factor(G, self.ridge, m, 0.0), self.ridge, m)
        elif self.metric == "reduced":
            made = solvers.Reduced(solvers.factor(G, self.ridge, m, 1e-9), self.basis)
        else:
            L = solvers.factor(G, self.ridge, m, 1e-6)
            made = solvers.Full(L) if own is None else solvers.exclusive_metric(L, own)
        if pair_ridges is None:
            return made
        g = survey.weight / np.outer(self.layout.sizes, self.outputs)  # of G/m where all states are as frequent
        return solvers.Stretched(made, self.terms.offset, np.sqrt((g + self.ridge) / (g + pair_ridges)))

    def _evaluated(self, search: Search) -> Array:
        """The trial point in the form that a sweep wants."""
        x = solvers.trial(search, self.starts)[-1]
        return narrow(self.basis, x, self.starts) if self.multiply else x

    def _exclude(self, table: Array) -> None:
        """Zero the entries of every output with features that contain it."""
        for o, F in enumerate(own_features(self.layout)):
            table[F, self.starts[o] : self.starts[o + 1]] = 0.0

    def outgoing(self, params: Params) -> Trial:
        return Trial(params.trial)  # metric and memory of the search are many times as large

    def sweep(self, shard: Shard, latents: None, params: Params | Trial, rng: np.random.Generator) -> tuple[Tally, None]:
        lse = np.zeros(len(self.outputs))
        self._need(params.trial, shard, self.multiply)
        if self.solver == "kernel":
            P = params.trial.copy()
            kernels.softmax_rows(P, shard.weight, self.starts, lse)
            return Tally(lse, P), None
        G = np.zeros_like(params.trial)
        for part, X in self._blocks(shard):
            H = product(X, params.trial)
            kernels.softmax_rows(H, shard.weight[part], self._columns, lse, float(self.multiply))
            add_product(X, H, G)
        return Tally(lse, G), None

    def _need(self, point: np.ndarray, shard: Shard, narrow: bool = False) -> None:
        """A kernel trusts the shape of a point, `narrow` in a basis, which a checkpoint may have brought."""
        rows = len(self.basis.R) if narrow else len(shard.ids) if self.solver == "kernel" else self.terms.p
        need = rows, int((self._columns if narrow else self.starts)[-1])
        if point.shape != need:
            raise ValueError(f"a point of the fit should have the shape {need}, and has {point.shape}")

    def update(self, params: Params, tally: Tally, rng: np.random.Generator) -> Params:
        lse, expected = tally
        if self.multiply:
            # every row has one state of each output: what was counted says how many rows have a feature
            counts = np.add.reduceat(params.counted, self.starts[:-1], axis=1)
            last = solvers.trial(params.search, self.starts)[0][:, self.starts[1:] - 1]  # the score that was taken off all states
            lse, expected = lse + np.einsum("po,po->o", counts, last), widen(self.basis, expected, counts, self.starts)
        return self._climb(params, lse, expected)

    def _climb(self, params: Params, lse: Array, expected: Array) -> Params:
        """Objective and gradient at the trial point; the solver says where to go from there."""
        at = solvers.trial(params.search, self.starts)
        x, image = at[0], at[-1]
        pull = self.ridge * x  # gradient of the penalty
        if params.pair_ridges is not None:  # means over the states of a term, the bias, are nearly free
            pull = rescaled(x, self.terms.offset, self.starts, params.pair_ridges, FREE * self.ridge)
        value = solvers.dots(params.counted - 0.5 * pull, image, self.starts) - lse  # eq. 1
        g = params.counted - expected - pull  # eq. 2
        if self.exclude:
            self._exclude(g)
        climb = solvers.fixed_step if self.solver == "fem" else solvers.advance
        search = climb(params.search, value, g, params.metric, self.starts, self.tol)
        return params._replace(trial=self._evaluated(search), search=search)

    def objective(self, tally: Tally, before: Params, after: Params) -> float:
        """Penalised log likelihood of the best point: a refused trial repeats it."""
        return float(after.search.point.value.sum())

    def done(self, state: State) -> bool:
        return bool(state.params.search.done.all())  # a refused step changes nothing, and is not the end

    def rows(self, shard: Shard, latents: None, params: Params) -> Array:
        """(l',)  weighted log likelihood of every row to judge by."""
        assert shard.judges is not None
        at, (ids, Y, weight, _) = params.search.point.x[-1], shard.judges
        self._need(at, shard)
        H = at.copy() if self.solver == "kernel" else product(ids, at)
        if Y.dtype.kind == "f":
            return np.einsum("im,im->i", Y, np.log(softmax(H, self.starts)))
        return np.sum(weight * log_chosen(H, Y, self.starts), axis=1)


@lru_cache(maxsize=8)
def starts_of(outputs: tuple[int, ...]) -> np.ndarray:
    """(n_out + 1,)  first column of each output."""
    return pointer(outputs)


def one_hot(ids: np.ndarray, width: int, dtype: Any = np.float64) -> np.ndarray:
    """(l, width)  1 at the places that each row has, else 0."""
    out = np.empty((len(ids), width), dtype)
    kernels.one_hot(ids, out)
    return out


def product(X: np.ndarray, W: Array) -> Array:
    """(l, M)  X W of rows of numbers (l, p), or of the features that each row has (l, T)."""
    if X.dtype.kind == "f":
        return X @ W
    H = np.empty((len(X), W.shape[1]))
    kernels.gather(X, W, H)
    return H


def add_product(X: np.ndarray, H: Array, out: Array) -> None:
    """out += X' H, of rows X as in `product`."""
    if X.dtype.kind == "f":
        out += X.T @ H
    else:
        kernels.scatter(X, H, out)


def softmax(H: Array, starts: np.ndarray) -> Array:
    """(l, M)  p of each output's states under scores H, which are overwritten."""
    kernels.softmax_rows(H, np.ones((len(H), 1)), starts, np.zeros(len(starts) - 1))
    return H


def log_chosen(H: Array, states: np.ndarray, starts: np.ndarray) -> Array:
    """(l, n_out)  log p of each output's state under scores H, which are overwritten; 0 where it is missing."""
    chosen = np.take_along_axis(softmax(H, starts), starts[:-1] + np.maximum(states, 0), axis=1)
    return np.where(states >= 0, np.log(chosen), 0.0)


def cut(model: Conditional, rows: Rows, shard_rows: int | None = None, judges: Rows | None = None) -> list[Cut]:
    """Sources of equal work; where they are cut follows from the data alone. `judges` are cut into as many parts."""
    l, M = len(rows.codes), sum(model.outputs)
    if model.solver == "kernel":
        return [Cut(model, rows, judges)]
    r = len(model.basis.R) if model.multiply or model.metric == "reduced" else 0
    # eight sums of a product cost one; and exp
    work = l * M * (r // 8 + 8) if model.multiply else l * len(model.terms.variables) * M
    parts = int(np.clip(work // SHARD_WORK, 1, min(MAX_SHARDS, l)))
    if model.metric != "diagonal":  # tallies of the survey have p^2 entries
        parts = min(parts, max(1, (1 << 26) // (r if model.metric == "reduced" else model.terms.p) ** 2))
    size, found = shard_rows or -(-l // parts), []
    for a in range(0, l, size):
        b = min(a + size, l)
        other = None if judges is None else judges.part(slice(a * len(judges.Y) // l, b * len(judges.Y) // l))
        found.append(Cut(model, rows.part(slice(a, b)), other))
    return found
