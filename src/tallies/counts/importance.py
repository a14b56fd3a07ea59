"""The fit of a PLN by importance sampling: stochastic gradients of the log likelihood itself, not of a bound.

For the rows of one batch, with V_1 ... V_k drawn from N(mode, (C'diag(exp eta) C + I)^-1) and self-normalised weights w,

    d log p(Y_i) / dB = x_i (Y_i - E_w[exp eta])',      d log p(Y_i) / dC = E_w[(Y_i - exp eta) V']                      (eq. 1)

The batches are fixed and taken in turn, one a sweep. SAGA replaces the gradient g of a batch by g - g_old + mean of all g_old,
where g_old is what the batch said last time (its rows keep it); Adagrad or RMSprop scales the step. Rprop takes all rows at once
and steps by the signs of the gradient alone: a step grows while its sign stays and halves where it turns (Riedmiller and Braun
1993). From a good start the first epoch only looks: the first steps of all three are as long for a small gradient as for a large
one, and would leave it.
The answer is the mean of the last iterates, after C has been turned to the latest one, since C and C Q are the same model for any
rotation Q; or the start, where that is more likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np

from tallies.counts.evidence import gaussians, weigh
from tallies.counts.records import Shard, log_factorial
from tallies.engine import Model, State
from tallies.errors import at_least, one_of
from tallies.forms import Form

AVERAGED = 100  # iterates in the answer
RATES = {"adagrad": (0.03, 0.1), "rmsprop": (0.01, 0.01), "rprop": (0.01, 0.1)}  # learning rates from a good and a crude start
LONGEST, SHORTEST = 1.0, 1e-6  # steps of Rprop


Whole = Annotated[int, Form(kind="i", low=0)]
Loadings = Annotated[np.ndarray, Form("p k")]


class Importance(NamedTuple):
    """Importance sampling as the method of a `PLN`: `PLN(method=Importance(accuracy=0.01))`; "importance" has the defaults.

    >>> Importance(max_epochs=50).max_epochs
    50
    """

    accuracy: float = 0.005  # 1 / draws a row
    batch_size: int = 40  # rows of a gradient; Rprop takes all
    optimizer: Literal["adagrad", "rmsprop", "rprop"] = "adagrad"
    learning_rate: float | None = None  # None: 0.03 for Adagrad (0.1 from a crude start), 0.01 for RMSprop and Rprop (0.1)
    variance_reduction: bool = True  # SAGA
    n_plateau: int = 15  # stop after so many epochs without a gain ...
    n_trigger: int = 5  # ... counted once the best epoch is this many epochs old
    max_epochs: int = 500  # most epochs
    good_init: bool = True  # start from the variational fit

    def check(self) -> None:
        """Refuse values that no data can make sense of."""
        at_least(1, batch_size=self.batch_size, n_plateau=self.n_plateau, n_trigger=self.n_trigger, max_epochs=self.max_epochs)
        one_of("optimizer", self.optimizer, *RATES)
        rate = self.learning_rate
        if rate is not None and not (isinstance(rate, int | float | np.number) and 0 < rate <= 1):
            raise ValueError(f"learning_rate must be None or in (0, 1], got {rate!r}: it is a step on the scale of logarithms")
        if not 0 < self.accuracy <= 0.5:
            raise ValueError(f"accuracy must be in (0, 0.5], got {self.accuracy!r}: it is one over the number of draws")


class Epochs(NamedTuple):
    """Log likelihoods of whole epochs, noisy numbers, and whether they still rise."""

    part: float = 0.0  # of the batches of this epoch
    last: float = np.nan  # of the last epoch
    best: float = -np.inf
    since: Whole = 0  # epochs since then
    flat: Whole = 0  # epochs on the plateau


class SamplingParams(NamedTuple):
    """The small global state. W = [B', C]."""

    W: Loadings  # current point                                    (p, d + q)
    seed: Whole  # of the draws
    step: Whole  # sweeps done
    scale: Annotated[np.ndarray, Form("p k", low=0)]  # Adagrad: sum, RMSprop: mean of squares; Rprop: length of each step
    before: Loadings  # gradient of the last step
    known: Loadings  # sum of the gradients that the rows keep
    recent: Annotated[np.ndarray, Form(f"{AVERAGED} p k")]  # last iterates, a ring
    sizes: Annotated[np.ndarray, Form("b", "i", 1)]  # rows of each batch
    epochs: Epochs

    @property
    def batch(self) -> int:
        """Of the next sweep."""
        return self.step % len(self.sizes)


class SamplingLatents(NamedTuple):
    """What the rows keep."""

    batch: Annotated[np.ndarray, Form("n", "i", 0, below="b")]  # of each row
    mode: Annotated[np.ndarray, Form("n q")]  # of V, to start the next Newton steps
    old: Annotated[np.ndarray, Form("b p k")]  # gradient of each batch when last visited


class SamplingTally(NamedTuple):
    """Sums over the rows of the batch in a shard."""

    loglik: float
    new: Loadings  # gradient                                       (p, d + q)
    old: Loadings  # gradient of the same rows, last time           (p, d + q)
    rows: int


@dataclass(frozen=True)
class Sampling(Model):
    """The verbs; a stage begins with the params of `begin`."""

    options: Importance
    q: int
    good: bool  # whether the start is: then the first epoch collects gradients and does not move
    gaps = True  # one value an epoch

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
            return SamplingTally(0.0, zero, zero, 0), z
        d = params.W.shape[1] - self.q
        C, X, Y, v = params.W[:, d:], shard.X[rows], shard.Y[rows], shard.v[rows]
        base = shard.O[rows] + X @ params.W[:, :d].T
        at = gaussians(Y, base, C, z.mode[rows], laplace=True, tol=1e-4)
        z.mode[rows] = at.m
        n_draws = max(2, round(1 / self.options.accuracy))
        draws = np.stack([_draws(params, shard.start + int(i)).normal(size=(n_draws, self.q)) for i in rows])
        V, log_w, rates = weigh(Y, base, C, at, draws)
        top = log_w.max(axis=1, keepdims=True)
        w = np.exp(log_w - top)
        loglik = v @ (top[:, 0] + np.log(w.mean(axis=1)) - log_factorial(Y).sum(axis=1))
        w *= (v / w.sum(axis=1))[:, None]
        rates *= w[:, :, None]
        new = np.empty_like(params.W)
        new[:, :d] = (v[:, None] * Y - rates.sum(axis=1)).T @ X  # eq. 1
        new[:, d:] = np.einsum("ij,ik->jk", Y, np.einsum("is,isk->ik", w, V)) - np.tensordot(rates, V, axes=([0, 1], [0, 1]))
        old = z.old[params.batch].copy()
        z.old[params.batch] = new
        return SamplingTally(float(loglik), new, old, len(rows)), z

    def update(self, params: SamplingParams, tally: SamplingTally, rng: np.random.Generator) -> SamplingParams:
        rows, first, options = int(params.sizes.sum()), params.step < len(params.sizes), self.options
        g = tally.new / tally.rows
        if options.variance_reduction and not first:
            g = g - tally.old / tally.rows + params.known / rows
        rate = options.learning_rate or RATES[options.optimizer][0 if self.good else 1]
        scale, move = self._step(params, g, rate)
        W = params.W if first and self.good else params.W + move
        recent = params.recent.copy()
        recent[params.step % AVERAGED] = W
        known, epochs = params.known + tally.new - tally.old, params.epochs
        epochs = epochs._replace(part=epochs.part + tally.loglik)
        params = params._replace(W=W, scale=scale, known=known, recent=recent, step=params.step + 1, epochs=epochs, before=g)
        if params.batch:
            return params
        # the end of an epoch: has the log likelihood, a noisy number, stopped rising?
        value = epochs.part
        since = 0 if value > epochs.best else epochs.since + 1
        flat = epochs.flat + 1 if since >= options.n_trigger else 0
        return params._replace(epochs=Epochs(last=value, best=max(value, epochs.best), since=since, flat=flat))

    def _step(self, params: SamplingParams, g: np.ndarray, rate: float) -> tuple[np.ndarray, np.ndarray]:
        """The scale of the optimizer after the gradient g, and the step it takes."""
        if self.options.optimizer == "rprop":
            turn = g * params.before
            grown = np.clip(params.scale * np.where(turn < 0, 0.5, 1.2), SHORTEST, LONGEST)
            scale = np.where(turn == 0, np.maximum(params.scale, SHORTEST), grown) if params.step else np.full_like(g, rate)
            return scale, np.sign(g) * scale
        adagrad = self.options.optimizer == "adagrad"
        scale = params.scale + g * g if adagrad else 0.99 * params.scale + 0.01 * g * g
        return scale, rate * g / (np.sqrt(scale) + 1e-8)

    def objective(self, tally: SamplingTally, before: SamplingParams, after: SamplingParams) -> float:
        return after.epochs.last if after.batch == 0 else np.nan  # one value an epoch

    def done(self, state: State) -> bool:
        return state.params.epochs.flat >= self.options.n_plateau

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


def begin(W: np.ndarray, rows: int, batch_size: int, seed: int) -> SamplingParams:
    """Params to begin with at W."""
    n_batches = max(1, round(rows / batch_size))
    zero, sizes = np.zeros_like(W), np.bincount(_batches(rows, n_batches), minlength=n_batches)
    return SamplingParams(W, seed, 0, zero, zero, zero, recent=np.repeat(W[None], AVERAGED, axis=0), sizes=sizes, epochs=Epochs())


def _draws(params: SamplingParams, row: int) -> np.random.Generator:
    """Random numbers of a row, fixed by its place among all rows and the step, not by its shard."""
    key = np.array([params.seed, params.step], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, row, 0, 0], dtype=np.uint64)))


def _batches(rows: int, n_batches: int) -> np.ndarray:
    """The batch of every row: a fixed shuffle, so that neither shards nor sorted data matter."""
    out = np.empty(rows, dtype=np.int64)
    out[np.random.Generator(np.random.Philox(20)).permutation(rows)] = np.arange(rows) % n_batches
    return out
