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

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, Self, Unpack

import numpy as np
import pandas as pd

from tallies.backends import carry_out, thread_count
from tallies.categories import base, lazily
from tallies.categories.answers import Scorer, by_rows, energies, log_conditional, redrawn, two_steps
from tallies.categories.base import Categorical, Choice
from tallies.categories.choose import NETWORK_TOL, Ground, Path, arrange, ridge_path
from tallies.categories.door import Categories, check_fields, code_columns, learn_codes, read_codes
from tallies.categories.kernels import fem as kernels
from tallies.categories.model import Conditional, Rows, cut
from tallies.categories.network import alike, large, panels, slabs
from tallies.categories.network.alike import sequence_weights
from tallies.categories.network.by_pair import ridges_by_pair
from tallies.categories.network.panels import Outputs
from tallies.categories.products import starts_of
from tallies.categories.scores import Columns, coupling_scores, graph_of, top_pairs
from tallies.categories.terms import Layout, Terms, check_degree, terms_of, zero_sum
from tallies.data.columns import values_of
from tallies.data.kinds import from_file
from tallies.data.lazy import is_lazy, open_table
from tallies.data.table import check_weights
from tallies.engine import Plan, Stage
from tallies.errors import DataError, DataWarning, at_least
from tallies.estimator import Inputs, Run, RunOptions, option, part, seed_of
from tallies.evaluation.score import Scored, mean_score
from tallies.forms import Form
from tallies.maths import Array

Kind = Literal["frobenius", "direct_information"]


class Table(NamedTuple):
    """What the door lets in."""

    codes: np.ndarray  # (l, n)
    weight: Array  # (l,)
    categories: Categories
    degrees: tuple[int, ...]
    inputs: Inputs


class Fitted(NamedTuple):
    run: Run
    inputs: Inputs
    categories: Categories
    n_rows: base.Count
    effective_rows: Annotated[float, Form(low=0)]
    frequencies: list[Annotated[np.ndarray, Form("...", "f", 0, 1 + 1e-9, nan=True)]]  # (n, m_j)  NaN: its rows have no weight
    choice: Choice
    path: dict[str, list[float]]
    W: base.Weights  # (p, M)

    def check(self) -> None:
        """A frequency for each state, and a weight for each feature and state."""
        if [len(f) for f in self.frequencies] != self.categories.sizes.tolist():
            raise ValueError("there should be a frequency for each state of each column")
        base.check_fit(self, int(self.categories.sizes.sum()))


@dataclass(eq=False, repr=False, kw_only=True)
class FEMNetwork(Categorical):
    """The coupling network of a table of categories, or of a time series of them.

    >>> import numpy as np, tallies
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.integers(0, 2, (2, 500))
    >>> X = np.column_stack([a, np.where(rng.random(500) < 0.9, a, 1 - a), b])      # the second follows the first
    >>> model = tallies.FEMNetwork(ridge=1.0).fit(X)
    >>> model.top_couplings(1)[["a", "b"]].values.tolist()
    [['x0', 'x1']]
    """

    # each output from products of 1 to K other variables | a set of such numbers
    degree: int | Collection[int] = option(1, "Products of 1 to so many variables; several, such as 1,3, for these alone.")
    # |W|^2 ridge/2 is taken off; "auto": by pair if the rows say so
    ridge: float | Literal["auto"] = option("auto", "Strength of the ridge penalty: auto (held-out rows), or a number.")
    lag: Literal[0, 1] = option(0, "0: each variable from the others; 1: from the row before.")
    solver: Literal["auto", "fem", "lbfgs"] = "auto"  # "fem": the seed's iteration
    reweight: float | None = option(None, "Rows with this share of equal cells count as one (alignments: 0.8).")  # None: all alike
    missing: Literal["state", "ignore"] = option("state", "An empty cell is a state of its own, or nothing.")
    bins: Any = option(None, "Cut numbers into so many quantile intervals.")  # as in FEM
    max_iter: int = 2000  # sweeps
    tol: float = 1e-8  # stop when no output has more to gain than this share of its objective
    random_state: Any = 0  # which rows are held out to choose the ridge

    records = (Fitted, *base.RECORDS, *panels.RECORDS, *alike.RECORDS)
    next_steps = ("model.top_couplings()", "model.simulate(100)", 'model.report("page.html", X)')

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, **run: Unpack[RunOptions]) -> Self:
        """Fit to a table X (lag 0), or to a series X whose rows follow one another (lag 1); X may be a file, see `read_table`, or a
        folder of files or a lazy frame, of which only the codes are ever in memory; then `sample_weight` names a column."""
        if is_lazy(X):
            _check(self)
            codes, weight, categories, columns = lazily.whole(open_table(X), sample_weight, self.missing, self.bins)
            inputs = Inputs(codes.shape[1], np.array(categories.names, dtype=object), columns)
            return self._fit(self._table(codes, weight, categories, inputs), **run)
        X, y, sample_weight = from_file(X, y, sample_weight, model=self, fitted=False)
        return self._fit(self._prepare(X, y, sample_weight), **run)

    def _prepare(self, X: Any, y: Any = None, sample_weight: Any = None) -> Table:
        _check(self)
        codes, categories, inputs = learn_codes(self, X, self.missing, self.bins)
        return self._table(codes, check_weights(sample_weight, len(codes)), categories, inputs)

    def _table(self, codes: np.ndarray, weight: Array, categories: Categories, inputs: Inputs) -> Table:
        """What the door lets in, if it is enough for a network."""
        n = codes.shape[1]
        if n < 2 and not self.lag:
            remedy = "add columns, or use lag=1 for one series"
            raise DataError(f"a network needs at least two variables, but X has {n} feature(s); {remedy}")
        if len(codes) < 2 + self.lag:
            raise DataError(f"a network needs at least {2 + self.lag} rows, but X has {len(codes)} sample(s)")
        degrees = check_degree(self.degree, n if self.lag else n - 1)
        return Table(codes, weight, categories, degrees, inputs)

    def _plan(self, data: Table, seed: int) -> Plan:
        """What each row counts; the ridge, and that of each pair, as given, else by held-out rows; then the fit to all rows."""
        codes, weight, c = data.codes, data.weight, data.categories
        if self.reweight is not None:
            weight = weight * (yield from sequence_weights(codes, self.reweight))
        rows = _steps(codes, weight, self.lag)
        layout = Layout.of(c.sizes, data.degrees)
        model = self._arrange(rows, layout, self.solver)
        path, pairs, ridge = Path("", {}), None, self.ridge
        if ridge == "auto":
            ground, worth = _held_out(model, rows, self.lag, seed, self.shard_rows)
            path = yield from ridge_path(ground)
            if ground.by_pair and not path.cut:
                pairs, path = yield from ridges_by_pair(ground, path, worth)
            ridge = path.ridge
        W = path.W if path.cut else None  # one sweep is left: from the weights of the best
        kept = yield self._final(model, rows, float(ridge), W, pairs)
        choice = Choice(data.degrees, float(ridge), model.solver, pair_ridges=pairs)
        known = base.common(kept, seed, data, choice, {max(data.degrees): path})
        count = [np.bincount(x[x >= 0], weight[x >= 0], m) for x, m in zip(codes.T, c.sizes, strict=True)]
        return Fitted(effective_rows=float(weight.sum()), frequencies=[n / (n.sum() or np.nan) for n in count], **known)

    def _arrange(self, rows: Rows, layout: Layout, solver: str) -> Conditional | Outputs:
        """The model of all outputs at once, or of a large network panel by panel."""
        if large.suits(layout, solver, len(rows.codes), thread_count()):
            return Outputs(layout.sizes, exclude=not self.lag)
        return arrange(rows.codes, layout, layout.sizes, solver, self.lag)

    def _final(self, model: Any, rows: Rows, ridge: float, W: Any = None, pair_ridges: Any = None) -> Stage:
        if isinstance(model, Conditional):
            return super()._final(model, rows, ridge, W, pair_ridges)
        return large.final(replace(model, ridge=ridge, tol=self.tol), rows, self.max_iter, pair_ridges)

    # use

    frequencies_ = part("frequencies", "How often each variable has each of its states.")
    effective_rows_ = part("effective_rows", "The sum of the weights of all rows.")
    pair_ridges_ = part("choice.pair_ridges", "(n, n)  the ridge of each input for each output; None where one holds for all.")

    def _starts(self) -> np.ndarray:
        return starts_of(self._layout().sizes)

    def _read(self, X: Any) -> np.ndarray:
        """Codes of the rows (lag 0), or of each row and the next, side by side (lag 1)."""
        codes = read_codes(self, X, self.categories_)
        if self.lag and len(codes) < 2:
            raise DataError("lag=1 looks at a row and the next one, but X has one row alone; pass a series of two or more")
        return np.hstack([codes[:-1], codes[1:]]) if self.lag else codes

    def log_conditional(self, X: Any) -> Array:
        """(l, n)  log p of every cell given the rest of its row (lag 0), or (l - 1, n) given the row before (lag 1)."""
        rows, starts = self._read(X), self._starts()
        if self._by_slabs:
            past, now = two_steps(rows, len(starts) - 1)
            return slabs.log_conditional(self.fitted_.W, self._layout().sizes, past, now, self.missing == "state")
        scorer = self._scorer(self.missing == "state")  # else the fit had no feature for a missing cell, in its own gauge
        return by_rows(log_conditional, rows, len(starts) - 1, 1024, scorer, starts)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log p of a row: the sum of its conditionals (pseudo-likelihood)."""
        return self._evaluate(X).value

    def _evaluate(self, X: Any) -> Scored:
        log_p = self.log_conditional(X)
        if unknown := int((self._read(X)[:, -log_p.shape[1] :] < 0).sum()):
            warnings.warn(f"{unknown:,} of {log_p.size:,} cells have no state of the fit: each adds 0, as if sure", DataWarning, 3)
        return mean_score(log_p.sum(axis=1), "conditional", "nats/row")

    def energy(self, X: Any) -> Array:
        """Energy of each row, eq. 6 (lag 0), or of each step from a row to the next: -sum_j h_j[x_j(t+1)] (lag 1)."""
        rows = self._read(X)
        if self._by_slabs:
            sizes = self._layout().sizes
            return slabs.energies(self.fitted_.W, sizes, *two_steps(rows, len(sizes)), halved=not self.lag)
        b, terms, V = self._zero_sum()
        if not self.lag:
            V = V / (np.repeat(terms.degree(), np.diff(terms.offset)) + 1)[:, None]
        return by_rows(energies, rows, 1, 1024, Scorer(b, terms, V), self._starts())[:, 0]

    def simulate(self, n_steps: int, *, start: Any = None, random_state: Any = 0) -> Any:
        """States that follow one another: a synchronous time series (lag 1), or Gibbs sweeps (lag 0).

        `start` is a row of states, or a dict of them by name; None: each variable by its frequency.
        """
        fitted, starts = self.fitted_, self._starts()
        at_least(1, n_steps=n_steps)
        rng = np.random.default_rng(seed_of(random_state))
        if start is None:
            known = [f if f.sum() > 0 else np.ones(len(f)) for f in fitted.frequencies]  # NaN: no row with a state has weight
            state = np.array([rng.choice(len(f), p=f / f.sum()) for f in known], dtype=np.int32)
        else:
            state = self._start(start)
        out, uniform = np.empty((n_steps, len(state)), dtype=np.int32), rng.random((n_steps, len(state)))
        variables, strides, offset, _ = terms_of(self._layout())
        kernels.advance(state, fitted.W, variables, strides, offset, starts, uniform, bool(self.lag), out)
        return self._decode(out)

    def _start(self, start: Any) -> np.ndarray:
        names = self.categories_.names
        named = isinstance(start, Mapping | pd.Series) and any(name in start for name in names)
        given = [start[name] for name in names if name in start] if named else list(start)
        if len(given) != len(names):
            raise DataError(f"start must give one state to each of {len(names)} variables, got {len(given)}; they are {names[:20]}")
        (codes,) = code_columns([values_of(np.array([state], dtype=object)) for state in given], self.categories_)
        if (codes < 0).any():
            j = int(np.flatnonzero(codes < 0)[0])
            known = self.categories_.labels[j][:20]
            raise DataError(f"start has the state {given[j]!r} for {names[j]!r}, which the fit has not seen; known: {known}")
        return codes

    def sample(self, n: int = 1, *, burn_in: int = 200, thin: int = 10, random_state: Any = None) -> Any:
        """n rows: every `thin`-th state of `simulate`, after `burn_in` of them."""
        at_least(1, n=n, thin=thin)
        at_least(0, burn_in=burn_in)
        rows = self.simulate(burn_in + n * thin, random_state=random_state)
        return (rows.iloc if hasattr(rows, "iloc") else rows)[burn_in + thin - 1 :: thin][:n]

    def _decode(self, codes: np.ndarray) -> Any:
        """Codes -> states; binned columns as the names of their intervals."""
        columns = []
        for x, (_, labels, states, edges, gap) in zip(codes.T, zip(*self.categories_, strict=True), strict=True):
            if edges is not None:
                states = np.array(labels, dtype=object)
            elif gap >= 0:  # a value that is missing, as it was in the table
                states = np.append(states, np.nan) if states.dtype.kind in "fiu" else np.array([*states, None], dtype=object)
            columns.append(states[x])
        if self.fitted_.inputs.names is not None:
            return pd.DataFrame(dict(zip(self.feature_names_in_, columns, strict=True)))
        kinds = {column.dtype.kind for column in columns}
        return np.column_stack(columns if len(kinds) == 1 else [column.astype(object) for column in columns])

    # reading the model

    def _zero_sum(self) -> tuple[Array, Terms, Array]:
        return zero_sum(terms_of(self._layout()), self.fitted_.W, self._starts())

    def _outputs(self) -> list[str]:
        c = self.categories_
        return [f"{name}={state}" for name, labels in zip(c.names, c.labels, strict=True) for state in labels]

    @property
    def couplings_(self) -> Array:
        """(M, M)  pairwise couplings in zero-sum gauge, blocks by variable; symmetric at lag 0 (eq. 3), row -> column at lag 1."""
        return _couplings(self._layout(), self.fitted_.W, self.lag)

    @property
    def _by_slabs(self) -> bool:
        """Whether W is so large that it was fitted, and is read, some outputs at a time."""
        return self.fitted_.W.dtype == np.float32 and self.degree_ == (1,)

    def _columns(self) -> Columns:
        """The couplings of every variable with a given one."""
        starts = self._starts()
        if self._by_slabs:
            return partial(slabs.coupling_columns, self.fitted_.W, starts, not self.lag)
        J = self.couplings_
        return lambda j: J[:, starts[j] : starts[j + 1]]

    def scores(self, kind: Kind = "frobenius", apc: bool = True) -> Array:
        """(n, n)  how strongly each pair is coupled (eq. 4, 5); rows act on columns at lag 1."""
        return coupling_scores(self._columns(), self._starts(), self.frequencies_, kind, apc, bool(self.lag))

    def top_couplings(self, top: int = 20, kind: Kind = "frobenius", apc: bool = True) -> pd.DataFrame:
        """The most strongly coupled pairs by name, with their largest single coupling."""
        return top_pairs(self.scores(kind, apc), self._columns(), self._starts(), self.categories_, top, bool(self.lag))

    def to_networkx(self, *, top: int = 100, kind: Kind = "frobenius", apc: bool = True) -> Any:
        """All variables and the most strongly coupled pairs, of score above 0, as a graph of networkx (`tallies[graphs]`)."""
        return graph_of(self.top_couplings(top, kind, apc), self.categories_.names, bool(self.lag))

    def standard_errors(self, X: Any, *, n_boot: int = 50, sample_weight: Any = None, random_state: Any = 0) -> Array:
        """(M, M)  bootstrap standard errors of `couplings_`: the same model on rows (lag 1: steps) drawn with replacement.

        >>> import numpy as np, tallies
        >>> X = np.random.default_rng(0).integers(0, 2, (400, 3))
        >>> model = tallies.FEMNetwork(ridge=1.0).fit(X)
        >>> bool(abs(model.standard_errors(X)[0, 2] - 1 / 400**0.5) < 0.02)      # of two fair coins: 1 / sqrt(rows)
        True
        """
        codes, layout = read_codes(self, X, self.categories_), self._layout()
        weight = check_weights(sample_weight, len(codes))
        if self.reweight is not None:
            weight = weight * carry_out(next(sequence_weights(codes, self.reweight)))
        mean, square = np.zeros((2, sum(layout.sizes), sum(layout.sizes)))
        for number, times in enumerate(redrawn(len(codes), n_boot, random_state), 1):
            rows = _steps(codes, weight * times, self.lag)
            model = self._arrange(rows, layout, "auto")
            told = f"standard errors, fit {number} of {n_boot} to redrawn rows"
            W = carry_out(self._final(model, rows, self.ridge_, None, self.pair_ridges_), told=told)
            off = _couplings(layout, W, self.lag) - mean
            mean += off / number
            square += off**2 * ((number - 1) / number)  # about the mean so far (Welford 1962)
        return np.sqrt(square / (n_boot - 1))

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


def _steps(codes: np.ndarray, weight: Array, lag: int) -> Rows:
    """Inputs, outputs and their weights. Rows whose output is missing do not count for it."""
    past, now, weight = (codes[:-1], codes[1:], weight[1:]) if lag else (codes, codes, weight)
    known = now >= 0
    return Rows(past, np.ascontiguousarray(now), np.ascontiguousarray(weight[:, None]) if known.all() else weight[:, None] * known)


def _held_out(model: Conditional | Outputs, rows: Rows, lag: int, seed: int, shard_rows: int | None) -> tuple[Ground, float]:
    """A fifth of the rows to judge by, the others to fit, and the weight of these."""
    l = len(rows.codes)
    block = np.arange(l) * 20 // l if lag else np.random.default_rng(seed % 2**32).permutation(l)
    out = block % 5 == 4  # a series is held out in stretches: neighbours are alike
    seen, unseen = rows.part(~out), rows.part(out)
    weight = np.broadcast_to(unseen.weight, unseen.Y.shape).sum()
    if not weight:
        raise DataError(f'ridge="auto" judges by a fifth of the rows, but of {l} none is left; set a number, such as ridge=1')
    worth = float(seen.weight.sum(axis=0).max())
    if isinstance(model, Outputs):
        return large.ground(model, seen, unseen, seed), worth
    by_pair = model.layout.degrees == (1,) and model.solver != "fem"  # the seed's matrix knows one ridge
    if model.solver != "lbfgs":
        model = replace(model, metric="diagonal")
    ground = Ground(model, cut(model, seen, shard_rows, unseen), float(weight), by_pair=by_pair, tol=NETWORK_TOL)
    return ground, worth


def _couplings(layout: Layout, W: Array, lag: int) -> Array:
    """(M, M)  eq. 3."""
    starts = starts_of(layout.sizes)
    if W.dtype == np.float32 and layout.degrees == (1,):
        J = np.empty_like(W)
        for j in range(len(layout.sizes)):
            J[:, starts[j] : starts[j + 1]] = slabs.coupling_columns(W, starts, not lag, j)
        return J
    _, terms, V = zero_sum(terms_of(layout), W, starts)
    pairs = V[: int(starts[-1])] if 1 in terms.degree() else np.zeros((V.shape[1], V.shape[1]))
    return pairs.copy() if lag else (pairs + pairs.T) / 2


def _check(model: FEMNetwork) -> None:
    check_fields(model.ridge, model.tol, model.solver, "auto", "fem", "lbfgs")
    if model.lag not in (0, 1):
        raise ValueError(f"lag must be 0 (each variable from the others) or 1 (from the row before), got {model.lag!r}")
    share = model.reweight
    if share is not None and not (isinstance(share, int | float | np.number) and 0 < share <= 1):
        raise ValueError(f"reweight must be None or a share of equal cells above 0 and up to 1, got {model.reweight!r}")
