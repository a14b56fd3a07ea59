"""The fit of a PLN by importance sampling: stochastic gradients of the log likelihood itself, not of a bound. The five verbs.

For the rows of one batch, with V_1 ... V_k drawn from N(mode, (C'diag(exp eta) C + I)^-1) and self-normalised weights w,

    d log p(Y_i) / dB = x_i (Y_i - E_w[exp eta])',      d log p(Y_i) / dC = E_w[(Y_i - exp eta) V']                      (eq. 1)

The batches are fixed and taken in turn, one a sweep. SAGA replaces the gradient g of a batch by g - g_old + mean of all g_old,
where g_old is what the batch said last time (its rows keep it); Adagrad or RMSprop scales the step. From a good start the first
epoch only looks: the first steps of either are as long for a small gradient as for a large one, and would leave it.
The answer is the mean of the last iterates, after C has been turned to the latest one, since C and C Q are the same model for any
rotation Q; or the start, where that is more likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tallies.counts.evidence import gaussians, weigh
from tallies.counts.records import Shard

AVERAGED = 100  # iterates in the answer


class SamplingSurvey(NamedTuple):
    """What the start needs to know of the data."""

    rows: int
    n_j: np.ndarray  # sums of the counts                           (p,)


class SamplingParams(NamedTuple):
    """The small global state. W = [B', C]."""

    W: np.ndarray  # current point                                  (p, d + q)
    batch: int  # batch of the next sweep
    step: int  # sweeps done
    scale: np.ndarray  # Adagrad: sum, RMSprop: mean of squares     (p, d + q)
    known: np.ndarray  # sum of the gradients that the rows keep    (p, d + q)
    recent: np.ndarray  # last iterates, a ring                     (100, p, d + q)
    part: float  # log likelihood of the batches of this epoch
    sizes: np.ndarray  # rows, summed weights are not needed        (n_batches,)
    best: float  # highest log likelihood of an epoch
    since: int  # epochs since then
    flat: int  # epochs on the plateau
    epoch: float  # log likelihood of the last epoch
    ess: float  # mean effective share in this epoch's batches
    met: bool


class SamplingLatents(NamedTuple):
    """What the rows keep."""

    batch: np.ndarray  # batch of each row                          (n,)
    mode: np.ndarray  # of V, to start the next Newton steps        (n, q)
    old: np.ndarray  # gradient of each batch when last visited     (n_batches, p, d + q)


class SamplingTally(NamedTuple):
    """Sums over the rows of the batch in a shard."""

    loglik: float
    new: np.ndarray  # gradient                                     (p, d + q)
    old: np.ndarray  # gradient of the same rows, last time         (p, d + q)
    rows: int
    ess: float


@dataclass(frozen=True)
class Importance:
    """The verbs. `start` is [B', C] of the variational fit (`good_init`) or a crude one."""

    q: int
    start: np.ndarray
    n_draws: int
    batch_size: int
    optimizer: str
    learning_rate: float
    saga: bool
    n_plateau: int
    n_trigger: int
    max_epochs: int
    look: bool = False  # whether the start is good: then the first epoch collects gradients and does not move

    def survey(self, shard: Shard) -> SamplingSurvey:
        return SamplingSurvey(len(shard.Y), shard.v @ shard.Y)

    def init(self, survey: SamplingSurvey, rng: np.random.Generator) -> SamplingParams:
        n_batches = max(1, round(survey.rows / self.batch_size))
        sizes = np.bincount(_batches(survey.rows, n_batches), minlength=n_batches)
        W = self.start
        zero = np.zeros_like(W)
        return SamplingParams(
            W, 0, 0, zero, zero, np.repeat(W[None], AVERAGED, axis=0), 0.0, sizes, -np.inf, 0, 0, np.nan, 0.0, False
        )

    def settle(self, shard: Shard, params: SamplingParams, rng: np.random.Generator) -> SamplingLatents:
        n_batches = len(params.sizes)
        batch = _batches(shard.rows, n_batches)[shard.start : shard.start + len(shard.Y)]
        return SamplingLatents(batch, np.zeros((len(shard.Y), self.q)), np.zeros((n_batches, *params.W.shape)))

    def sweep(
        self, shard: Shard, z: SamplingLatents, params: SamplingParams, rng: np.random.Generator
    ) -> tuple[SamplingTally, SamplingLatents]:
        rows = np.flatnonzero(z.batch == params.batch)
        if not len(rows):
            zero = np.zeros_like(params.W)
            return SamplingTally(0.0, zero, zero, 0, 0.0), z
        d = params.W.shape[1] - self.q
        C, X, Y, v = params.W[:, d:], shard.X[rows], shard.Y[rows], shard.v[rows]
        base = shard.O[rows] + X @ params.W[:, :d].T
        at = gaussians(Y, base, C, z.mode[rows], laplace=True, tol=1e-4)
        z.mode[rows] = at.m
        # the draws of a row are fixed by its place and the step, not by its shard
        draws = np.stack(
            [
                np.random.Generator(np.random.Philox(key=params.step, counter=shard.start + i)).normal(size=(self.n_draws, self.q))
                for i in rows
            ]
        )
        V, log_w, rates = weigh(Y, base, C, at, draws)
        top = log_w.max(axis=1, keepdims=True)
        w = np.exp(log_w - top)
        mean = w.mean(axis=1)
        loglik = v @ (top[:, 0] + np.log(mean))
        ess = (mean**2 / (w * w).mean(axis=1)).sum()
        w *= (v / w.sum(axis=1))[:, None]
        rates *= w[:, :, None]
        new = np.empty_like(params.W)
        new[:, :d] = (v[:, None] * Y - rates.sum(axis=1)).T @ X  # eq. 1
        new[:, d:] = np.einsum("ij,ik->jk", Y, np.einsum("is,isk->ik", w, V)) - np.tensordot(rates, V, axes=([0, 1], [0, 1]))
        old = z.old[params.batch].copy()
        z.old[params.batch] = new
        return SamplingTally(float(loglik), new, old, len(rows), float(ess)), z

    def update(self, params: SamplingParams, tally: SamplingTally, rng: np.random.Generator) -> SamplingParams:
        n_batches, rows, first = len(params.sizes), int(params.sizes.sum()), params.step < len(params.sizes)
        g = tally.new / tally.rows
        if self.saga and not first:
            g = g - tally.old / tally.rows + params.known / rows
        known = params.known + tally.new - tally.old
        scale = params.scale + g * g if self.optimizer == "adagrad" else 0.99 * params.scale + 0.01 * g * g
        W = params.W if first and self.look else params.W + self.learning_rate * g / (np.sqrt(scale) + 1e-8)
        recent = params.recent.copy()
        recent[params.step % AVERAGED] = W
        params = params._replace(
            W=W,
            scale=scale,
            known=known,
            recent=recent,
            step=params.step + 1,
            batch=(params.batch + 1) % n_batches,
            part=params.part + tally.loglik,
            ess=params.ess + tally.ess,
        )
        if params.batch:
            return params
        # the end of an epoch: has the log likelihood, a noisy number, stopped rising?
        value = params.part
        better = value > params.best
        since = 0 if better else params.since + 1
        flat = params.flat + 1 if since >= self.n_trigger else 0
        return params._replace(
            part=0.0,
            ess=0.0,
            epoch=value,
            best=max(value, params.best),
            since=since,
            flat=flat,
            met=flat >= self.n_plateau,
        )

    def objective(self, tally: SamplingTally, before: SamplingParams, after: SamplingParams) -> float:
        return after.epoch if after.batch == 0 else np.nan  # one value an epoch; the constant log Y! is added at the end

    def done(self, params: SamplingParams) -> bool:
        return params.met or params.step >= self.max_epochs * len(params.sizes)

    def answer(self, params: SamplingParams) -> np.ndarray:
        """The mean of the last iterates, every C turned to the latest one (orthogonal Procrustes)."""
        d = params.W.shape[1] - self.q
        # of a short run the later half only: its first iterates are still on their way
        kept = params.recent[[(params.step - 1 - k) % AVERAGED for k in range(min(params.step // 2, AVERAGED))]]
        if not len(kept):
            return params.W
        C = params.W[:, d:]
        mean = kept.mean(axis=0)
        turned = np.zeros_like(C)
        for W in kept:
            U, _, Vt = np.linalg.svd(W[:, d:].T @ C)
            turned += W[:, d:] @ (U @ Vt)
        mean[:, d:] = turned / len(kept)
        return mean


def _batches(rows: int, n_batches: int) -> np.ndarray:
    """The batch of every row: a fixed shuffle, so that neither shards nor sorted data matter."""
    out = np.empty(rows, dtype=np.int64)
    out[np.random.Generator(np.random.Philox(20)).permutation(rows)] = np.arange(rows) % n_batches
    return out
