"""Large networks: the outputs of a pseudo-likelihood, some at a time.

With terms of one variable each output of a network is a regression of its own, that needs all rows but no other output. So the
shards are not rows but panels: some outputs side by side, each with the whole table (`Stage.shared`). A sweep takes every
panel some steps of L-BFGS further, and all that it keeps of one is its W: the memory of the search lives and ends with the
sweep of a panel, and no tally is as large as W.

    1.  f_o(W) = sum_i w_io log p(y_io | x_i) - 1/2 sum_j (R_jo |W_jo - mean|^2 + r |mean|^2)       mean over the states of site j
    2.  gradient = sum_i w_i x_i (y_i - p_i)' - pull                                               R_jo = r = ridge: |W|^2 ridge/2
    3.  the metric in which L-BFGS starts, made anew at the W of every sweep, for the columns of state s:
        A_s = blocks + D D'/L + R,    blocks_j = diag(D_j) - D_j D_j'/L
        D_f = sum_i w_i x_if p_is (1 - p_is),    L = sum_i w_i p_is (1 - p_is)
        It is the Hessian within a state, if the sites of the rows so weighted were independent. Steps are zero-sum over the states
        of an output, as the optimum is.

Gains of successive sweeps, and of windows of steps within one, fall by a factor, so the last two tell what is left to gain
(`yet_to_gain`). An output is done when that is at most `tol` of |f_o|, or what single precision rounds off, 1.2e-7 of it. For
any direction u, |u'(W - W*)| <= sqrt(2 (f* - f)) sqrt(u'A^-1 u), A the Hessian: with 0.02 nats left no coupling, and no sum of
couplings, is further from its optimum than a fifth of its standard error.
References: Nocedal and Wright, Numerical Optimization, ch. 7; Ekeberg, Hartonen, Aurell 2014 (asymmetric pseudo-likelihood).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tallies.categories.kernels import panels as kernels
from tallies.categories.model import Rows, Solver
from tallies.categories.network.climb import Problem, climb, yet_to_gain
from tallies.categories.products import starts_of
from tallies.engine import Model, State
from tallies.forms import Form
from tallies.maths import Array

WIDTH = 128  # columns of a panel: codes are read once for many, and six outputs of 21 states leave next to nothing for padding
EPS = float(np.finfo(np.float32).eps)  # 1.2e-7
STEPS, FIRST = 16, 2  # of L-BFGS in a sweep, and in the first, which Ctrl-C must wait for


class Table(NamedTuple):
    """What all panels share: a source that is here already. A missing input has the state m_j, a missing output -1."""

    past: np.ndarray  # (n, l)  states of the inputs
    now: np.ndarray  # (n, l)  states of the outputs
    weight: Array  # (l,)
    counts: Array  # (q,)  n_f: weight of the rows with each feature, a missing cell being one
    judges: Table | None = None  # held-out rows

    def load(self) -> Table:
        """Itself."""
        return self

    def shares(self, o: int, m: int) -> Array:
        """pi of an output; no state has less than half a row."""
        known = self.now[o] >= 0
        n = np.bincount(self.now[o][known], self.weight[known], m) + 0.5 * self.weight.mean()
        return n / n.sum()


def table_of(rows: Rows, sizes: tuple[int, ...], judges: Table | None = None) -> Table:
    """From rows of codes, -1 for none."""
    past, now = states_of(rows.codes, rows.Y, sizes)
    weight = np.ascontiguousarray(rows.weight.max(axis=1))
    counts = np.concatenate([np.bincount(x, weight, size + 1) for x, size in zip(past, sizes, strict=True)])
    return Table(past, now, weight, counts, judges)


def states_of(past: np.ndarray, now: np.ndarray, sizes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(n, l)  of rows of codes, -1 for none, the states of inputs and outputs as in `Table`."""
    m = np.array(sizes, dtype=np.int32)
    past = np.ascontiguousarray(np.where(past < 0, m, past).T, dtype=np.uint8 if m.max() < 255 else np.int32)
    return past, np.ascontiguousarray(now.T, dtype=np.int16 if m.max() < 2**15 else np.int32)


class Shard(NamedTuple):
    table: Table
    outputs: np.ndarray  # of the panel


class Panel(NamedTuple):
    """A source: some outputs."""

    outputs: tuple[int, ...]

    def load(self, table: Table) -> Shard:
        """With the table that all share."""
        return Shard(table, np.array(self.outputs))


class Found(NamedTuple):
    """Latents: what a panel has found."""

    W: Annotated[np.ndarray, Form("q c", "f", nan=True)]  # behind the states of each site a row of zeros, for missing cells
    value: Annotated[np.ndarray, Form("o", "f", nan=True)]  # objective of each output
    gain: Annotated[np.ndarray, Form("o", "f", nan=True)]  # of each in the last sweep; NaN before the first
    done: Annotated[np.ndarray, Form("o", "b")]


class Tally(NamedTuple):
    objective: float
    left: int  # outputs that are not done


class Course(NamedTuple):
    pair_ridges: Annotated[np.ndarray, Form("n n", "f", 0)] | None  # R of eq. 1; None: the common ridge for all
    left: Annotated[int, Form(kind="i", low=-1)] = -1  # outputs that are not done; -1 before the first sweep


class Judged(NamedTuple):
    """What held-out rows say of a panel."""

    told: Array  # (l',)  weighted log likelihood of each row
    sizes: Array  # (n, o)  squared size of the zero-sum couplings of each site and output


@dataclass(frozen=True)
class Outputs(Model):
    """The regressions of all outputs, panel by panel."""

    sizes: tuple[int, ...]  # (n,)  m_j
    exclude: bool  # no output may use itself (lag 0)
    ridge: float = 1.0
    tol: float = 1e-8  # an output is done when it has no more to gain than this share of its objective, or than EPS
    leaves_latents: ClassVar[bool] = True
    solver: ClassVar[Solver] = "lbfgs"

    @property
    def outputs(self) -> tuple[int, ...]:
        """How many states each output has."""
        return self.sizes

    @property
    def first(self) -> np.ndarray:
        """(n + 1,)  first row of each site in the W of a panel."""
        return starts_of(tuple(m + 1 for m in self.sizes))

    def panels(self, outputs: Sequence[int]) -> list[Panel]:
        """Outputs side by side, of about WIDTH columns."""
        found, width = [[outputs[0]]], self.sizes[outputs[0]]
        for o in outputs[1:]:
            width += self.sizes[o]
            if width > WIDTH:
                found.append([])
                width = self.sizes[o]
            found[-1].append(o)
        return [Panel(tuple(panel)) for panel in found]

    def starts(self, shard: Shard) -> np.ndarray:
        """First column of each output of a panel."""
        return starts_of(tuple(self.sizes[o] for o in shard.outputs))

    # verbs

    def settle(self, shard: Shard, params: Course, rng: np.random.Generator) -> Found:
        """Each output by its frequencies: log pi as a bias, that the sites share as the penalty has it cheapest."""
        m, starts, n_out = np.array(self.sizes), self.starts(shard), len(shard.outputs)
        W = np.zeros((int(self.first[-1]), int(starts[-1])), np.float32)
        for k, o in enumerate(shard.outputs):
            part = 1.0 / m
            part[o] *= not self.exclude
            rows = np.repeat(part / part.sum(), m + 1)
            rows[self.first[1:] - 1] = 0.0
            bias = np.log(shard.table.shares(o, self.sizes[o]))
            W[:, starts[k] : starts[k + 1]] = np.outer(rows, bias - bias.mean())
        return Found(W, np.full(n_out, -np.inf), np.full(n_out, np.nan), np.zeros(n_out, dtype=bool))

    def sweep(self, shard: Shard, latents: Found, params: Course, rng: np.random.Generator) -> tuple[Tally, Found]:
        W, value, gain, done = (field.copy() for field in latents)
        if params.left < 0:  # what was done with another ridge is not with this
            gain[:], done[:] = np.nan, False
        if not done.all():
            some, columns = ~done, np.repeat(~done, np.diff(self.starts(shard)))
            problem = Problem(self, shard.table, shard.outputs[some], params.pair_ridges)
            steps, floor = STEPS if np.isfinite(value).all() else FIRST, max(self.tol, EPS)
            W[:, columns], before, value[some], ended = climb(problem, W[:, columns], steps, floor)
            rise = value[some] - before
            left, gain[some] = yet_to_gain(gain[some], rise), rise
            done[some] = ended | (left <= floor * np.abs(value[some]))
        return Tally(float(value.sum()), int((~done).sum())), Found(W, value, gain, done)

    def update(self, params: Course, tally: Tally, rng: np.random.Generator) -> Course:
        return params._replace(left=tally.left)

    def done(self, state: State) -> bool:
        return state.params.left == 0

    def rows(self, shard: Shard, latents: Found, params: Course) -> Any:
        """(q, c)  W of the panel."""
        return latents.W

    def recount(self, shard: Shard, latents: Found, params: Course) -> None:
        need = int(self.first[-1]), int(self.starts(shard)[-1])
        if latents.W.shape != need or len(latents.done) != len(shard.outputs):
            raise ValueError(f"the weights of a panel should have the shape {need}, and have {latents.W.shape}")


class Judging(Outputs):
    """The same, on some of the rows; the others judge."""

    def rows(self, shard: Shard, latents: Found, params: Course) -> Judged:
        """How the held-out rows like the panel, and how large its couplings are."""
        table, starts = shard.table.judges, self.starts(shard)
        assert table is not None
        log_p = np.empty((table.past.shape[1], len(shard.outputs)))
        kernels.chosen(table.past, np.ascontiguousarray(table.now[shard.outputs]), self.first, starts, latents.W, True, log_p)
        sizes = np.empty((len(self.sizes), len(shard.outputs)))
        kernels.sizes(latents.W, self.first, np.array(self.sizes), starts, sizes)
        return Judged(table.weight * log_p.sum(axis=1), sizes)


RECORDS = (Found, Course)  # of checkpoints
