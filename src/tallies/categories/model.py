"""What FEM and FEMNetwork share: the verbs of a conditional model of categories, p(output | active features).

Whatever the solver, a sweep counts what the model expects at the trial point, and the update compares it with what was
counted (`fem_solvers`, eq. 2). Shards are pieces of the rows; the kernel form ties every row to every other and has one shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from tallies import engine
from tallies.backends import _blas, place
from tallies.categories import solvers
from tallies.categories.basis import Basis, narrow, widen
from tallies.categories.door import Categories, column_caveats
from tallies.categories.kernels import fem as kernels
from tallies.categories.solvers import Metric, Search
from tallies.categories.terms import Terms, rescaled
from tallies.engine import State
from tallies.errors import DataError
from tallies.estimator import Estimator
from tallies.maths import Array

SHARD_WORK = 1 << 22  # sums a sweep makes in one shard: a few milliseconds, many times what scheduling it costs
ROWS = 512  # rows whose psi is held at a time
FREE = 0.01  # ridge of a bias in terms of the common one: it may be spread over the terms in many ways, and one is to be best
MAX_SHARDS = 16  # every shard brings home a tally of the size of W


def _one_thread(verb: Callable[..., Any]) -> Callable[..., Any]:
    """BLAS keeps to one thread in the solver's algebra too: a threaded product may sum in another order."""

    @wraps(verb)
    def limited(*arguments: Any) -> Any:
        with _blas().limit(limits=1, user_api="blas"):
            return verb(*arguments)

    return limited


class Setup(NamedTuple):
    """What the door has decided; the verbs read it."""

    solver: str  # "fem" | "lbfgs" | "kernel"
    metric: str  # which Metric, see fem_solvers
    terms: Terms | None  # None: kernel
    starts: np.ndarray  # (n_out + 1,)  first column of each output
    ridge: float
    table: Any  # (n + 1,)  kernel as a function of the matches, else None
    own: Any  # features that each output must not use, else None
    tol: float
    basis: Basis | None = None  # of the metric "reduced", and of sweeps that multiply matrices
    own_ridge: Any = None  # (T, n_out)  of each term for each output, biases aside; None: `ridge` for all
    multiply: bool = False  # sweeps multiply matrices, eq. 3 and 4 of fem_basis, instead of picking the features of each row


class Shard(NamedTuple):
    ids: np.ndarray  # (l, T)  active features; places in psi where matrices are multiplied; kernel: (l, n) codes
    Y: np.ndarray  # (l, M)  weighted counts of each output state, or (l, n_out) states
    weight: np.ndarray  # (l, n_out), or (l, 1) where it is the same for all outputs


class Survey(NamedTuple):
    counted: Array  # (p, M)  sum_i x_i y_i'; kernel: Y itself
    counts: Array  # (p, n_out) or (p, 1)  weight of the rows that have a feature; kernel: of each row
    gram: Array | None  # (p, p)  sum_i w_i x_i x_i'; kernel: K (l, l)
    weight: Array  # (n_out,)


class Tally(NamedTuple):
    lse: Array  # (n_out,)  sum_i w_i log sum exp h_i
    expected: Array  # (p, M)  sum_i w_i x_i p_i'; over psi: (r, M - n_out); kernel: w p (l, M)


class Params(NamedTuple):
    W: Array  # (p, M)  weights, the best so far; kernel: dual weights a (l, M), W = sum_i x_i a_i'
    value: Array  # (n_out,)  penalised log likelihood there
    trial: Any  # where the next sweep evaluates: W, B of fem_basis or K a; this and what follows is None once the fit is over
    counted: Any  # (p, M)  as surveyed
    metric: Metric | None
    search: Search | None
    finished: bool


class Conditional(Estimator):
    """Base of FEM and FEMNetwork; `_setup` is the door's doing."""

    _setup: Setup
    categories_: Categories
    n_rows_: int
    run_fields: ClassVar[frozenset[str]] = frozenset({"max_iter", "tol"})
    next_steps = ("model.interactions()", "model.predict_proba(X)", 'model.report("page.html", X, y)')

    def _measure(self) -> str:
        return "penalised log likelihood"

    # verbs

    def survey(self, shard: Shard) -> Survey:
        s = self._setup
        if s.solver == "kernel":
            matched = np.empty((len(shard.ids), len(shard.ids)), dtype=np.int32)
            kernels.matches(shard.ids, shard.ids, matched)
            return Survey(shard.Y, shard.weight, s.table[matched], shard.weight.sum(axis=0))
        if s.multiply:
            return self._survey_psi(shard)
        assert s.terms is not None
        p, M = s.terms.p, int(s.starts[-1])
        counted, counts, gram = np.zeros((p, M)), np.zeros((p, shard.weight.shape[1])), None
        row = np.ascontiguousarray(shard.weight.max(axis=1))
        if shard.Y.dtype.kind == "f":
            kernels.scatter(shard.ids, shard.Y, counted)
        else:
            kernels.scatter_states(shard.ids, shard.Y, row, s.starts, counted)
        kernels.feature_counts(shard.ids, shard.weight, counts)
        if s.metric == "reduced":
            assert s.basis is not None
            half = np.zeros(s.basis.R.shape)
            kernels.gram_kept(shard.ids, s.basis.kept, row, half)
            gram = _in_metric(half + np.tril(half, -1).T, s)
        elif s.metric != "diagonal":
            half = np.zeros((p, p))
            kernels.gram(shard.ids, row, half)
            gram = half + np.tril(half, -1).T
        return Survey(counted, counts, gram, shard.weight.sum(axis=0))

    def _survey_psi(self, shard: Shard) -> Survey:
        """The same sums as products of matrices, over psi."""
        s = self._setup
        assert s.basis is not None
        r, m = len(s.basis.R), np.diff(s.starts)
        last = s.starts[1:] - 1
        counted, counts, gram = np.zeros((r, int(s.starts[-1]) - len(m))), np.zeros((r, shard.weight.shape[1])), np.zeros((r, r))
        for part, X in _psi(shard.ids, r):
            if shard.Y.dtype.kind == "f":
                Z, weight = np.delete(shard.Y[part], last, axis=1), shard.weight[part]
            else:
                states, weight = shard.Y[part], shard.weight[part]
                Z = np.empty((len(states), counted.shape[1]))
                kernels.one_hot(np.where((states >= 0) & (states < m - 1), states + _first(s.starts)[:-1], -1), Z)
                Z *= weight.max(axis=1, keepdims=True)
            counted += X.T @ Z
            counts += X.T @ weight
            if s.metric != "diagonal":
                gram += X.T @ (X * weight.max(axis=1, keepdims=True))
        counts = s.basis.T.T @ counts
        return Survey(
            widen(s.basis, counted, counts, s.starts),
            counts,
            None if s.metric == "diagonal" else _in_metric(gram, s),
            shard.weight.sum(axis=0),
        )

    @_one_thread
    def init(self, survey: Survey, rng: np.random.Generator) -> Params:
        """At W = 0 every state is as likely as any other: the first step needs no sweep."""
        s = self._setup
        params = self._begin(survey, np.zeros_like(survey.counted), None)
        m = np.diff(s.starts)
        lse = np.broadcast_to(survey.weight, m.shape) * np.log(m)
        columns = survey.counts if survey.counts.shape[1] == 1 else np.repeat(survey.counts, m, axis=1)
        return self._climb(params, lse, columns / np.repeat(m, m))

    @_one_thread
    def _begin(self, survey: Survey, W: Array, image: Any) -> Params:
        """A fit that starts at W: `init`, and the next ridge of a path."""
        s = self._setup
        m = float(np.median(np.diff(s.starts)))
        counted = survey.counted
        if s.metric == "diagonal":
            assert s.terms is not None
            metric = solvers.diagonal_metric(survey.counts.max(axis=1), s.ridge, m, len(s.terms.variables))
        else:
            assert survey.gram is not None
            make = solvers.pinv_metric(survey.gram, s.ridge, s.own) if s.metric == "pinv" else None
            metric = make or solvers.full_metric(survey.gram, s.ridge, m, s.metric, s.basis)
        if s.own_ridge is not None:
            assert s.terms is not None
            g = survey.weight / np.outer(s.terms.sizes, np.diff(s.starts))  # of G/m where all states are as frequent
            metric = metric._replace(stretch=(s.terms.offset, np.sqrt((g + s.ridge) / (g + s.own_ridge))))
        if s.own is not None:
            counted = counted.copy()
            self._exclude(counted)
        if s.solver == "kernel" and image is None:
            image = np.zeros_like(W)
        search = solvers.begin(W, s.starts, image)
        return Params(W, search.value, self._evaluated(W, image), counted, metric, search, False)

    def _evaluated(self, W: Array, image: Any) -> Array:
        """The form in which a sweep wants its point."""
        s = self._setup
        if s.multiply:
            assert s.basis is not None
            return narrow(s.basis, W, s.starts)
        return W if image is None else image

    def _exclude(self, table: Array) -> None:
        """Zero the entries of every output with features that contain it."""
        s = self._setup
        for o, F in enumerate(s.own):
            table[F, s.starts[o] : s.starts[o + 1]] = 0.0

    def sweep(self, shard: Shard, latents: None, params: Params, rng: np.random.Generator) -> tuple[Tally, None]:
        s = self._setup
        lse = np.zeros(len(s.starts) - 1)
        if s.solver == "kernel":
            P = params.trial.copy()
            kernels.softmax_rows(P, shard.weight, s.starts, lse)
            return Tally(lse, P), None
        G = np.zeros_like(params.trial)
        if s.multiply:
            first = _first(s.starts)
            for part, X in _psi(shard.ids, len(G)):
                H = X @ params.trial
                kernels.softmax_corner(H, shard.weight[part], first, lse)
                G += X.T @ H
        else:
            kernels.expected(shard.ids, shard.weight, params.trial, s.starts, G, lse)
        return Tally(lse, G), None

    @_one_thread
    def update(self, params: Params, tally: Tally, rng: np.random.Generator) -> Params:
        s, (lse, expected) = self._setup, tally
        if s.multiply:
            assert s.basis is not None and params.search is not None
            # every row has one state of each output: what was counted says how many rows have a feature
            counts = np.add.reduceat(params.counted, s.starts[:-1], axis=1)
            last = solvers.trial(params.search, s.starts)[0][:, s.starts[1:] - 1]  # the score that was taken off all states
            lse, expected = lse + np.einsum("po,po->o", counts, last), widen(s.basis, expected, counts, s.starts)
        return self._climb(params, lse, expected)

    def _climb(self, params: Params, lse: Array, expected: Array) -> Params:
        """Objective and gradient at the trial point; the solver says where to go from there."""
        s, search = self._setup, params.search
        assert search is not None and params.metric is not None
        x, h = solvers.trial(search, s.starts)
        pull = self._pull(x)
        value = solvers.dots(params.counted - 0.5 * pull, x if h is None else h, s.starts) - lse  # eq. 1
        g = params.counted - expected - pull  # eq. 2
        if s.own is not None:
            self._exclude(g)
        if s.solver == "fem":
            step, _ = solvers.apply(params.metric, g, s.starts)
            start = value if search.g is None else search.start
            done = bool(np.all(0.5 * solvers.dots(g, step, s.starts) <= s.tol * solvers.scale(value, start)))
            search = search._replace(x=x + step, g=g, value=value, start=start)
        else:
            search = solvers.advance(search, value, g, params.metric, s.starts, s.tol, s.own)
            done = bool(search.done.all())
        point, image = solvers.trial(search, s.starts)
        return params._replace(W=search.x, value=search.value, trial=self._evaluated(point, image), search=search, finished=done)

    def _pull(self, x: Array) -> Array:
        """Gradient of the penalty. Where terms have ridges of their own, means over their states, the bias, are nearly free."""
        s = self._setup
        if s.own_ridge is None:
            return s.ridge * x
        assert s.terms is not None
        return rescaled(x, s.terms.offset, s.starts, s.own_ridge, FREE * s.ridge)

    def objective(self, tally: Tally, before: Params, after: Params) -> float:
        """Penalised log likelihood of the best point: a refused trial repeats it."""
        return float(after.value.sum())

    def done(self, params: Params) -> bool:
        return params.finished

    def _converged(self, state: State) -> bool:
        return self.done(state.params)  # a refused step changes nothing, and is not the end

    # fitting

    def _cut(self, ids: np.ndarray, Y: np.ndarray, weight: np.ndarray) -> list[Shard]:
        """Shards of equal work; where they are cut follows from the data alone."""
        s, l, M = self._setup, len(ids), int(self._setup.starts[-1])
        if s.solver == "kernel":
            return [Shard(ids, Y, weight)]
        work = l * ids.shape[1] * M
        if s.multiply:
            assert s.basis is not None
            ids = np.maximum(s.basis.kept, 0)[ids]  # a last state writes the constant once more: no branch
            work = l * M * (len(s.basis.R) // 8 + 8)  # eight sums of a product cost one; and exp
        parts = int(np.clip(work // SHARD_WORK, 1, min(MAX_SHARDS, l)))
        if s.terms is not None and s.metric != "diagonal":  # tallies of the survey have p^2 entries
            parts = min(parts, max(1, (1 << 26) // (len(s.basis.R) if s.basis and s.metric == "reduced" else s.terms.p) ** 2))
        size = self.shard_rows or -(-l // parts)
        return [Shard(ids[a : a + size], Y[a : a + size], weight[a : a + size]) for a in range(0, l, size)]

    def _solve(self, params: Params, backend: Any, limit: int) -> Params:
        """Iterate from `params` to the end, without watchers: a step of a path."""
        steps = engine.steps(self, backend, state=State(params, backend.latents, ()))
        for _ in range(limit):
            params = next(steps).params
            if self.done(params):
                break
        return params

    def _close(self) -> None:
        """Keep of the params what predictions need, and check that the fit went well."""
        if not np.isfinite(self.params_.W).all():
            raise DataError(
                "the weights grew beyond all bounds: without a ridge a perfect fit has none; set a small ridge, such as 1e-3"
            )
        self.params_ = self.params_._replace(trial=None, counted=None, metric=None, search=None)

    @staticmethod
    def _place(shards: list[Shard]) -> Any:
        return place(shards)

    def _caveats(self) -> list[str]:
        return column_caveats(self.categories_, self.n_rows_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _in_metric(gram: Array, s: Setup) -> Array:
    """From the Gram matrix of psi to the one that the metric takes: of the orthonormal basis, or of the features."""
    assert s.basis is not None
    T, R = s.basis.T, s.basis.R
    return R.T @ gram @ R if s.metric == "reduced" else T.T @ (T.T @ gram).T


def _first(starts: np.ndarray) -> np.ndarray:
    """First column of each output where last states have none."""
    return starts - np.arange(len(starts))


def _psi(places: np.ndarray, r: int) -> Iterator[tuple[slice, Array]]:
    """Rows of psi, some at a time: a constant, and ones at the places of the row's features."""
    for a in range(0, len(places), ROWS):
        part = slice(a, min(a + ROWS, len(places)))
        X = np.empty((part.stop - a, r))
        kernels.one_hot(places[part], X)
        X[:, 0] = 1.0
        yield part, X


def check_fields(ridge: Any, solver: str, solvers: tuple[str, ...]) -> None:
    """Refuse a ridge or solver that none of the models knows."""
    if not (ridge == "auto" or (isinstance(ridge, int | float | np.number) and 0 <= ridge < np.inf)):
        raise ValueError(f'ridge must be "auto" or a number from 0 on, got {ridge!r}')
    if solver not in solvers:
        *others, last = (f'"{name}"' for name in solvers)
        raise ValueError(f"solver must be {', '.join(others)} or {last}, got {solver!r}")


def redrawn(l: int, n_boot: int, random_state: Any) -> Iterator[np.ndarray]:
    """How often each of l rows comes in each of n_boot draws with replacement."""
    if n_boot < 2:
        raise ValueError(f"n_boot must be at least 2, for a spread, got {n_boot}")
    rng = check_random_state(random_state)
    return (rng.multinomial(l, np.full(l, 1 / l)) for _ in range(n_boot))


def check_weight(sample_weight: Any, l: int) -> Array:
    """(l,)  row weights, ones where none are given."""
    weight = np.ones(l) if sample_weight is None else _check_sample_weight(sample_weight, np.empty((l, 1)), dtype=np.float64)
    if (weight < 0).any():
        raise DataError(f"sample_weight must not be negative, got {weight.min()}; leave rows out with a weight of 0")
    if not weight.any():
        raise DataError("sample_weight is zero for every row, so there is nothing to fit; give some row a positive weight")
    return weight
