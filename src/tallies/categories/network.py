"""FEM of all variables at once: each from the others, or all from the step before.

    lag 0   x_ij | x_i without j ~ Categorical(softmax(h_j))     1.  h_j(x) = sum over A not containing j of W_jA[x_A]
    lag 1   x_j(t+1) | x(t)      ~ Categorical(softmax(h_j))     2.  h_j(x) = sum over all A of W_jA[x_A]

    3.  couplings, zero-sum gauge:  J_jk[s, r] = (V_jk[s, r] + V_kj[r, s]) / 2      lag 0; lag 1 has a direction, and no mean
    4.  Frobenius score |J_jk|, less the mean of its row times that of its column over that of all (APC)
    5.  direct information: sum_sr P log(P / f f'), P = exp(J_jk + u + v) with the margins f of the data
    6.  lag 0: E(x) = - sum_j (b_j[x_j] + sum_A V_jA[x_j, x_A] / (|A| + 1)):  a group of k variables is met k times

Each output is a multinomial regression of its own; all share their features, so one sweep serves all (pseudo-likelihood).
In (1) every feature that contains j, of whatever degree, is left out of output j: W there is zero and stays so.
References: Besag 1975; Ekeberg, Lövkvist, Lan, Weigt, Aurell 2013; Morcos et al. 2011; Dunn, Wahl, Gloor 2008; Roudi, Hertz 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tallies import engine
from tallies.backends import over_rows
from tallies.categories.choose import PATH_SWEEPS, PATH_TOL, best_ridge, descend, gathered, multiplied, plan, ridges_by_pair
from tallies.categories.door import Categories, read_categories
from tallies.categories.kernels import fem as kernels
from tallies.categories.model import Conditional, Params, Setup, Shard, Survey, Tally, check_fields, check_weight, redrawn
from tallies.categories.scores import coupling_scores, sequence_weights, top_pairs
from tallies.categories.solvers import Metric, Search
from tallies.categories.terms import Terms, check_degree, features, groups_of, make_terms, zero_sum
from tallies.categories.words import asked_degrees, effects_table, strongest
from tallies.errors import DataError
from tallies.evaluation.score import Score, mean_score
from tallies.maths import Array

if TYPE_CHECKING:
    import pandas as pd


@dataclass(eq=False, repr=False)
class FEMNetwork(Conditional):
    """The coupling network of a table of categories, or of a time series of them.

    >>> import numpy as np, tallies
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.integers(0, 2, (2, 500))
    >>> X = np.column_stack([a, np.where(rng.random(500) < 0.9, a, 1 - a), b])      # the second follows the first
    >>> model = tallies.FEMNetwork(ridge=1.0).fit(X)
    >>> model.top_couplings(1)[["a", "b"]].values.tolist()
    [['x0', 'x1']]
    """

    degree: Any = 1  # K: each output from products of 1 to K other variables | a set of such numbers
    ridge: float | Literal["auto"] = "auto"  # |W|^2 ridge/2 is taken off; "auto": by held-out rows, by pair if they say so
    lag: Literal[0, 1] = 0  # 0: each variable from the others in the row | 1: from the row before
    solver: Literal["auto", "fem", "lbfgs"] = "auto"  # "fem": the seed's iteration
    reweight: float | None = None  # rows with this share of equal cells count as one (alignments: 0.8); None: rows count alike
    missing: Literal["state", "ignore"] = "state"  # a missing cell: a state of its own | nothing
    bins: Any = None  # as in FEM
    max_iter: int = 2000  # sweeps
    tol: float = 1e-8  # stop when no output has more to gain than this share of its objective
    random_state: Any = 0  # which rows are held out to choose the ridge

    next_steps = ("model.top_couplings()", "model.simulate(100)", 'model.report("page.html", X)')

    # the verbs are those of Conditional (fem_base): survey counts, sweep expects, update compares

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        progress: bool | None = None,
        checkpoint: str | File | None = None,
        resume: str | File | None = None,
        callback: Callable[..., Any] | None = None,
    ) -> Self:
        """Fit to a table X (lag 0), or to a series X whose rows follow one another (lag 1)."""
        self._run(self._shards(X, sample_weight), progress=progress, checkpoint=checkpoint, resume=resume, callback=callback)
        self._close()
        return self

    def _shards(self, X: Any, sample_weight: Any = None) -> list[Shard]:
        """Read the data and decide what is left to decide: solver, ridge."""
        _check(self)
        codes, self.categories_ = read_categories(self, X, None, missing=self.missing, bins=self.bins)
        self.n_rows_, n = codes.shape
        if n < 2 and not self.lag:
            raise DataError(
                f"a network needs at least two variables, but X has {n} feature(s); add columns, or use lag=1 for one series"
            )
        if len(codes) < 2 + self.lag:
            raise DataError(f"a network needs at least {2 + self.lag} rows, but X has {len(codes)} sample(s)")
        self.degree_ = check_degree(self.degree, n if self.lag else n - 1)
        weight = check_weight(sample_weight, len(codes))
        if self.reweight is not None:
            weight = weight * sequence_weights(codes, self.reweight)
        shards = self._arrange(codes, weight)
        self.frequencies_ = [
            np.bincount(c[c >= 0], weight[c >= 0], m) / weight[c >= 0].sum()
            for c, m in zip(codes.T, self.categories_.sizes, strict=True)
        ]
        self.effective_rows_ = float(weight.sum())
        return shards

    def _arrange(self, codes: np.ndarray, weight: Array, pairs: Array | None = None) -> list[Shard]:
        """Solver and ridge for these rows, and their shards; `pairs` are ridges by pair that go with a given ridge."""
        past, now, weight = (codes[:-1], codes[1:], weight[1:]) if self.lag else (codes, codes, weight)
        setup, ids = self._plan(past)
        Y, W = np.ascontiguousarray(now), self._weights(now, weight)
        if self.ridge == "auto":
            self.ridge_, self.pair_ridges_, self.path_ = self._choose(setup, ids, Y, W)
        else:
            self.ridge_, self.pair_ridges_, self.path_ = float(self.ridge), pairs, {"ridge": [], "log_loss": []}
        self._setup = setup._replace(ridge=self.ridge_, own_ridge=self.pair_ridges_)
        self.solver_ = setup.solver
        return self._cut(ids, Y, W)

    def _terms(self) -> Terms:
        sizes = self.categories_.sizes
        return make_terms(sizes, groups_of(len(sizes), self.degree_))

    def _starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.categories_.sizes)])

    @staticmethod
    def _weights(states: np.ndarray, weight: Array) -> Array:
        """Rows whose output is missing do not count for it."""
        if (states >= 0).all():
            return np.ascontiguousarray(weight[:, None])
        return weight[:, None] * (states >= 0)

    def _plan(self, past: np.ndarray) -> tuple[Setup, np.ndarray]:
        """The setup and the active features; what does not fit in memory is refused before any of it is made."""
        starts = self._starts()
        chosen = plan(len(past), self.categories_.sizes, self.degree_, int(starts[-1]), None, self.solver, kernel=False)
        terms, own, metric = self._terms(), None, chosen.metric
        ids = features(terms, past)
        if not self.lag:
            owner = [np.flatnonzero((terms.variables == j).any(axis=1)) for j in range(len(terms.sizes))]
            own = [np.concatenate([np.arange(terms.offset[t], terms.offset[t + 1]) for t in which]) for which in owner]
            if metric == "gram":  # one inverse serves all outputs while what each leaves out is small
                metric = "exclusive" if max(self.degree_) == 1 else "diagonal"
        return multiplied(Setup(chosen.solver, metric, terms, starts, 1.0, None, own, self.tol), ids), ids

    def _choose(
        self, setup: Setup, ids: np.ndarray, Y: np.ndarray, weight: Array
    ) -> tuple[float, Array | None, dict[str, list[float]]]:
        """The ridge of best held-out pseudo-likelihood, on a path with warm starts on four fifths of the rows; then by pair."""
        l = len(ids)
        block = np.arange(l) * 20 // l if self.lag else np.random.default_rng(self._seed() % 2**32).permutation(l)
        out = block % 5 == 4  # a series is held out in stretches: neighbours are alike
        if setup.solver != "lbfgs":
            setup = setup._replace(solver="lbfgs", metric="diagonal")
        self._setup = setup
        backend = self._place(self._cut(ids[~out], Y[~out], weight[~out]))
        surveyed = engine.survey(self, backend)
        held, W = np.broadcast_to(weight[out], (int(out.sum()), Y.shape[1])), np.zeros_like(surveyed.counted)
        losses: dict[float, float] = {}

        def told(ridge: float, pairs: Array | None = None) -> Array:
            nonlocal W
            self._setup = setup._replace(ridge=ridge, own_ridge=pairs, tol=PATH_TOL)
            W = self._solve(self._begin(surveyed, W, None), backend, PATH_SWEEPS).W
            return np.sum(held * self._log_conditional(ids[out], Y[out], W), axis=1)

        def attempt(ridge: float) -> None:
            if ridge not in losses:
                losses[ridge] = float(-told(ridge).sum() / held.sum())

        descend(attempt, losses)
        tried, ridge, pairs, starts = sorted(losses.items(), reverse=True), best_ridge(losses), None, self._starts()
        if self.degree_ == (1,) and self.solver != "fem":  # the seed's matrix knows one ridge
            rows, couplings = float(surveyed.weight.max()), lambda: zero_sum(self._terms(), W, starts)[2]
            pairs = ridges_by_pair(lambda pairs: (told(ridge, pairs), couplings()), starts, ridge, rows, not self.lag)
        return ridge, pairs, {"ridge": [a for a, _ in tried], "log_loss": [b for _, b in tried]}

    def _log_conditional(self, ids: np.ndarray, Y: np.ndarray, W: Array) -> Array:
        """(l, n)  log p of each output in each row; 0 where it is missing."""
        starts, out = self._starts(), np.zeros(Y.shape)

        def fill(rows: slice) -> None:
            H = gathered(ids[rows], W)
            kernels.softmax_rows(H, np.ones((len(H), 1)), starts, np.zeros(len(starts) - 1))
            chosen = np.take_along_axis(H, starts[:-1] + np.maximum(Y[rows], 0), axis=1)
            out[rows] = np.where(Y[rows] >= 0, np.log(chosen), 0.0)

        over_rows(fill, len(ids), 1024)
        return out

    # use

    def _read(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return read_categories(self, X, self.categories_)[0]

    def log_conditional(self, X: Any) -> Array:
        """(l, n)  log p of every cell given the rest of its row (lag 0), or (l - 1, n) given the row before (lag 1)."""
        codes = self._read(X)
        past, now = (codes[:-1], codes[1:]) if self.lag else (codes, codes)
        if self.missing == "ignore":  # the fit had no feature for a missing cell, in its own gauge
            return self._log_conditional(features(self._terms(), past), np.ascontiguousarray(now), self.params_.W)
        b, terms, V = self._zero_sum()
        # the bias as one more feature that every row has; unseen states contribute nothing where weights sum to zero
        ids = np.column_stack([features(terms, past), np.full(len(past), terms.p, dtype=np.int32)])
        return self._log_conditional(ids, np.ascontiguousarray(now), np.vstack([V, b]))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log p of a row: the sum of its conditionals (pseudo-likelihood)."""
        return float(self.log_conditional(X).sum(axis=1).mean())

    def _evaluate(self, X: Any) -> Score:
        return mean_score(self.log_conditional(X).sum(axis=1), "conditional", "nats/row")

    def energy(self, X: Any) -> Array:
        """Energy of each row, eq. 6 (lag 0), or of each step from a row to the next: -sum_j h_j[x_j(t+1)] (lag 1)."""
        codes = self._read(X)
        b, terms, V = self._zero_sum()
        past, now = (codes[:-1], codes[1:]) if self.lag else (codes, codes)
        starts = self._starts()
        if not self.lag:
            V = V / (np.repeat(terms.degree(), np.diff(terms.offset)) + 1)[:, None]
        out = np.empty(len(past))

        def fill(rows: slice) -> None:
            H = gathered(features(terms, past[rows]), V) + b
            chosen = np.take_along_axis(H, starts[:-1] + np.maximum(now[rows], 0), axis=1)
            out[rows] = -np.where(now[rows] >= 0, chosen, 0.0).sum(axis=1)

        over_rows(fill, len(past), 1024)
        return out

    def simulate(self, n_steps: int, start: Any = None, random_state: Any = None) -> Any:
        """States that follow one another: a synchronous time series (lag 1), or Gibbs sweeps (lag 0).

        `start` is a row of states, or a dict of them by name; None: each variable by its frequency.
        """
        check_is_fitted(self)
        if n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {n_steps}")
        rng = check_random_state(random_state)
        if start is None:
            state = np.array([rng.choice(len(f), p=f / f.sum()) for f in self.frequencies_], dtype=np.int32)
        else:
            state = self._start(start)
        terms, out = self._terms(), np.empty((n_steps, len(state)), dtype=np.int32)
        M = self.params_.W.shape[1]
        uniform = rng.random_sample((n_steps, len(state)))
        kernels.advance(
            state,
            self.params_.W,
            np.zeros(M),
            terms.variables,
            terms.strides,
            terms.offset,
            self._starts(),
            uniform,
            bool(self.lag),
            out,
        )
        return self._decode(out)

    def _start(self, start: Any) -> np.ndarray:
        names = self.categories_.names
        given = [start[name] for name in names if name in start] if isinstance(start, Mapping) else list(start)
        if len(given) != len(names):
            raise DataError(f"start must give one state to each of {len(names)} variables, got {len(given)}; they are {names[:20]}")
        row: Any = [given]
        if hasattr(self, "feature_names_in_"):
            from pandas import DataFrame

            row = DataFrame(row, columns=self.feature_names_in_)
        codes = self._read(row)[0]
        if (codes < 0).any():
            j = int(np.flatnonzero(codes < 0)[0])
            raise DataError(
                f"start has the state {given[j]!r} for {self.categories_.names[j]!r}, which the fit has not seen; "
                f"known: {self.categories_.labels[j][:20]}"
            )
        return codes

    def sample(self, n: int = 1, random_state: Any = None, burn_in: int = 200, thin: int = 10) -> Any:
        """n rows: every `thin`-th state of `simulate`, after `burn_in` of them."""
        rows = self.simulate(burn_in + n * thin, random_state=random_state)
        return (rows.iloc if hasattr(rows, "iloc") else rows)[burn_in + thin - 1 :: thin][:n]

    def _decode(self, codes: np.ndarray) -> Any:
        """Codes -> states; binned columns as the names of their intervals."""
        c: Categories = self.categories_
        columns = []
        for j in range(codes.shape[1]):
            whole = c.edges[j] is None and c.gap[j] < 0
            columns.append((c.states[j] if whole else np.array(c.labels[j], dtype=object))[codes[:, j]])
        if hasattr(self, "feature_names_in_"):
            from pandas import DataFrame

            return DataFrame(dict(zip(self.feature_names_in_, columns, strict=True)))
        kinds = {column.dtype.kind for column in columns}
        return np.column_stack(columns if len(kinds) == 1 else [column.astype(object) for column in columns])

    # reading the model

    def _zero_sum(self) -> tuple[Array, Terms, Array]:
        check_is_fitted(self)
        return zero_sum(self._terms(), self.params_.W, self._starts())

    @property
    def couplings_(self) -> Array:
        """(M, M)  pairwise couplings in zero-sum gauge, blocks by variable; symmetric at lag 0 (eq. 3), row -> column at lag 1."""
        _, terms, V = self._zero_sum()
        pairs = V[: int(self._starts()[-1])] if 1 in terms.degree() else np.zeros((V.shape[1], V.shape[1]))
        return pairs.copy() if self.lag else (pairs + pairs.T) / 2

    @property
    def weights_(self) -> pd.DataFrame:
        """Every weight by name, in zero-sum gauge: one row a combination of states, one column a state of an output."""
        return effects_table(*self._zero_sum(), self.categories_, self._outputs())

    def _outputs(self) -> list[str]:
        return [
            f"{name}={state}"
            for name, labels in zip(self.categories_.names, self.categories_.labels, strict=True)
            for state in labels
        ]

    def scores(self, kind: Literal["frobenius", "direct_information"] = "frobenius", apc: bool = True) -> Array:
        """(n, n)  how strongly each pair is coupled (eq. 4, 5); rows act on columns at lag 1."""
        return coupling_scores(self.couplings_, self._starts(), self.frequencies_, kind, apc, bool(self.lag))

    def top_couplings(
        self, top: int = 20, kind: Literal["frobenius", "direct_information"] = "frobenius", apc: bool = True
    ) -> pd.DataFrame:
        """The most strongly coupled pairs by name, with their largest single coupling."""
        return top_pairs(self.scores(kind, apc), self.couplings_, self._starts(), self.categories_, top, bool(self.lag))

    def interactions(self, top: int = 20, degree: Any = None) -> pd.DataFrame:
        """The strongest terms over all outputs, as in FEM."""
        return strongest(*self._zero_sum(), self.categories_, self._outputs(), top, asked_degrees(degree, max(self.degree_)))

    def standard_errors(self, X: Any, sample_weight: Any = None, n_boot: int = 50, random_state: Any = 0) -> Array:
        """(M, M)  bootstrap standard errors of `couplings_`: the same model on rows (lag 1: steps) drawn with replacement.

        >>> import numpy as np, tallies
        >>> X = np.random.default_rng(0).integers(0, 2, (400, 3))
        >>> model = tallies.FEMNetwork(ridge=1.0).fit(X)
        >>> bool(abs(model.standard_errors(X)[0, 2] - 1 / 400**0.5) < 0.02)      # of two fair coins: 1 / sqrt(rows)
        True
        """
        codes = self._read(X)
        weight = check_weight(sample_weight, len(codes))
        if self.reweight is not None:
            weight = weight * sequence_weights(codes, self.reweight)
        job = clone(self).set_params(ridge=self.ridge_, solver="auto")
        job.categories_, job.degree_ = self.categories_, self.degree_
        draws = []
        for times in redrawn(len(codes), n_boot, random_state):
            backend = self._place(job._arrange(codes, weight * times, self.pair_ridges_))
            params = job.init(engine.survey(job, backend), np.random.default_rng(0))
            job.params_ = job._solve(params, backend, self.max_iter)
            draws.append(job.couplings_)
        return np.std(draws, axis=0, ddof=1)

    def _facts(self) -> list[str]:
        degrees, size = ", ".join(map(str, self.degree_)), f"{self.n_rows_:,} rows, {len(self.categories_.names)} variables"
        ridge = f"{self.ridge_:.3g}" if self.pair_ridges_ is None else "by pair"
        return [size, f"degrees {degrees}; ridge {ridge}; lag {self.lag}; solver {self.solver_}"]

    def _learned(self) -> list[tuple[str, str]]:
        if len(self.categories_.names) < 2:
            return []
        arrow = "->" if self.lag else "-"
        pairs = self.top_couplings(5).query("score > 0")  # the others are below the background
        found = [(f"{row.a} {arrow} {row.b}", f"coupling of strength {row.score:.2f}") for row in pairs.itertuples()]
        if max(self.degree_) > 1:
            top = self.interactions(5)
            found += [(what, f"{weight:+.2f}") for what, weight in zip(top["strongest"], top["weight"], strict=True)]
        return found

    def _measure(self) -> str:
        return "penalised log pseudo-likelihood"


def _check(model: FEMNetwork) -> None:
    check_fields(model.ridge, model.solver, ("auto", "fem", "lbfgs"))
    if model.lag not in (0, 1):
        raise ValueError(f"lag must be 0 (each variable from the others) or 1 (from the row before), got {model.lag!r}")
    if model.reweight is not None and not 0 < model.reweight <= 1:
        raise ValueError(f"reweight must be None or a share of equal cells above 0 and up to 1, got {model.reweight!r}")


__all__ = ["FEMNetwork", "Metric", "Params", "Search", "Survey", "Tally"]
