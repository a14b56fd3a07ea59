"""Which pairs of variables matter, of all there are: a score test of every pair after the main effects.

    1.  r_i = y_i - p(. | x_i)                       residuals of the fit of degree 1
    2.  T_ab = sum_i w_i r_i [x_ij = a, x_ik = b],   N_ab = sum_i w_i [x_ij = a, x_ik = b]
    3.  score_jk = (chi - f) / sqrt(2 f),            chi = sum_abc T_abc^2 / (N_ab v_c),  v_c = mean of p_c (1 - p_c),
        f = (m_j - 1)(m_k - 1)(M - 1)                degrees of freedom: pairs with many states are not favoured
T and N of all pairs are products of one-hot matrices: each sweep makes those of two blocks of variables.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from tallies.categories import choose
from tallies.categories.model import Conditional, Rows, Shard, cut
from tallies.categories.products import one_hot, product, softmax, starts_of
from tallies.categories.solvers import TRUST
from tallies.categories.terms import Layout
from tallies.engine import Kept, Model, Stage, State
from tallies.errors import DataError
from tallies.forms import Form

BLOCK = 512  # one-hot columns of a block: products of this size run at the full speed of the matrix unit
LEFT = 0.02  # nats that all main effects together may still gain: chi of a single pair is uncertain by fifty times as much
SWEEPS = 200  # of the main effects


Spread = Annotated[np.ndarray, Form("c", "f")]
Total = Annotated[float, Form(low=0)]


class Residuals(NamedTuple):
    """What the rows of a shard keep while pairs are scored."""

    R: Annotated[np.ndarray, Form("l c", "f")]  # r of eq. 1, float32; of two classes that of the first
    weight: Annotated[np.ndarray, Form("l", "f", 0)]  # float32
    spread: Spread  # sum of w p (1 - p) over the shard
    total: Total  # sum of w


class Products(NamedTuple):
    """The tables of eq. 2 of two blocks of variables."""

    N: Annotated[np.ndarray, Form("a b", "f", 0)]
    T: Annotated[np.ndarray, Form("c a b", "f")]
    spread: Spread
    total: Total


class Scores(NamedTuple):
    """Params: how far the scoring has come."""

    W: Annotated[np.ndarray, Form("p M", "f")]  # main effects
    at: Annotated[int, Form(kind="i", low=0)]  # number of the next two blocks
    scores: Annotated[np.ndarray, Form("n n", "f", nan=True)]  # of the pairs scored so far, above the diagonal


@dataclass(frozen=True)
class Screening(Model):
    """Scores two blocks of variables a sweep."""

    sizes: tuple[int, ...]  # (n,)  m_j
    classes: int  # M
    leaves_latents = True

    @property
    def start(self) -> np.ndarray:
        """(n + 1,)  first one-hot column of each variable."""
        return starts_of(self.sizes)

    def tasks(self) -> list[tuple[int, int, int, int]]:
        """Pairs of blocks, each a range of variables: a to b, and c to d."""
        n, start, blocks, first = len(self.sizes), self.start, [], 0
        for j in range(1, n + 1):
            if j == n or start[j + 1] - start[first] > BLOCK:
                blocks.append((first, j))
                first = j
        return [(*A, *B) for i, A in enumerate(blocks) for B in blocks[i:]]

    def _task(self, at: int) -> tuple[int, int, int, int]:
        return self.tasks()[at % len(self.tasks())]  # beyond the last it is done: the first again

    def settle(self, shard: Shard, params: Scores, rng: np.random.Generator) -> Residuals:
        if params.W.shape != (self.start[-1], self.classes):  # the main effects may come from a checkpoint
            raise ValueError(f"main effects should have the shape {(int(self.start[-1]), self.classes)}, and have {params.W.shape}")
        P = softmax(product(shard.ids, params.W), np.array([0, self.classes]))
        weight, c = shard.weight[:, 0], self.classes if self.classes > 2 else 1
        R, spread = shard.Y - weight[:, None] * P, weight @ (P * (1 - P))
        return Residuals(R[:, :c].astype(np.float32), weight.astype(np.float32), spread[:c], float(weight.sum()))

    def sweep(self, shard: Shard, latents: Residuals, params: Scores, rng: np.random.Generator) -> tuple[Products, Residuals]:
        a, b, c, d = self._task(params.at)
        left, right = self._one_hot(shard.ids, a, b), self._one_hot(shard.ids, c, d)
        tables = [(left * w[:, None]).T @ right for w in (latents.weight, *latents.R.T)]
        N, *T = (table.astype(np.float64) for table in tables)
        return Products(N, np.array(T), latents.spread, latents.total), latents

    def _one_hot(self, ids: np.ndarray, a: int, b: int) -> np.ndarray:
        """(l, width) float32: counts are exact, and residual sums need no more than to rank."""
        places = ids[:, a:b] - np.int32(self.start[a])  # of a missing cell the number is below 0, and has no place
        return one_hot(places, self.start[b] - self.start[a], np.float32)

    def update(self, params: Scores, tally: Products, rng: np.random.Generator) -> Scores:
        a, b, c, d = self._task(params.at)
        M, start, m = self.classes, self.start, np.array(self.sizes)
        chi = sum(T**2 / v for T, v in zip(tally.T, tally.spread / tally.total, strict=True))
        chi = np.divide(chi, tally.N, out=np.zeros_like(tally.N), where=tally.N > 0)
        chi *= (M - 1) / M if M > 2 else 1.0  # the residuals of all classes sum to zero: one of M is not free
        table = np.add.reduceat(np.add.reduceat(chi, start[a:b] - start[a], axis=0), start[c:d] - start[c], axis=1)
        free = np.maximum(np.outer(m[a:b] - 1, m[c:d] - 1) * (M - 1), 1)
        scores = params.scores.copy()
        scores[a:b, c:d] = (table - free) / np.sqrt(2.0 * free)
        return Scores(params.W, params.at + 1, np.triu(scores, 1))

    def objective(self, tally: Products, before: Scores, after: Scores) -> float:
        """The largest score so far."""
        return float(after.scores.max())

    def done(self, state: State) -> bool:
        return state.params.at >= len(self.tasks())


def pair_scores(
    rows: Rows, sizes: tuple[int, ...], ridge: float = 1.0, shard_rows: int | None = None
) -> Generator[Stage, Kept, Kept]:
    """Two stages, of which the second keeps the scores of all pairs."""
    l, M, wide = len(rows.codes), rows.Y.shape[1], sum(sizes)
    held = 4.0 * l * wide + 24.0 * max(BLOCK, max(sizes)) ** 2
    if held > choose.BUDGET:
        raise DataError(
            f"screening {len(sizes)} variables with {wide:,} states would need {held / 2**30:,.1f} GiB for {l:,} "
            f"distinct rows (limit {choose.BUDGET / 2**30:.0f}); bin or drop columns with many states"
        )
    # at W = 0 the objective is -sum w log M; LEFT nats of it are what this tol leaves to gain
    tol = LEFT / (TRUST * float(rows.Y.sum()) * np.log(M))
    model = Conditional(Layout.of(sizes, [1]), (M,), "diagonal", max(ridge, 1e-3), tol)
    sources, screening = cut(model, rows, shard_rows), Screening(sizes, M)
    main = yield choose.final(model, sources, SWEEPS, name="main effects")
    start = Scores(main.value, 0, np.zeros((len(sizes), len(sizes))))
    return (yield Stage("pairs", screening, sources, lambda end: end.params, len(screening.tasks()), start=start))


RECORDS = (Residuals, Products, Scores)
