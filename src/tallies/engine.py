"""The one loop by which every model is fitted: sweep over the shards, add the tallies, update. Knows no model.

model     hyperparameters and the verbs below
params    the small global state, sent everywhere
shard     a piece of the data; where it is cut belongs to the data, never to the number of workers
latents   what the rows of a shard keep between sweeps; they stay beside the shard and never travel
tally     sums over a shard; two tallies add leaf by leaf
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import add as plus
from typing import Any, NamedTuple, Protocol

import numpy as np


class Model(Protocol):
    """What a model says about itself. All verbs are pure: they change neither self, nor the shard, nor the params."""

    def survey(self, shard: Any) -> Any: ...  # tally of the raw data that `init` needs, one pass
    def init(self, survey: Any, rng: np.random.Generator) -> Any: ...  # params, from the added surveys
    def settle(self, shard: Any, params: Any, rng: np.random.Generator) -> Any: ...  # first latents of a shard
    def sweep(self, shard: Any, latents: Any, params: Any, rng: np.random.Generator) -> tuple[Any, Any]: ...  # tally, latents
    def update(self, params: Any, tally: Any, rng: np.random.Generator) -> Any: ...  # params, from the total
    def objective(self, tally: Any, before: Any, after: Any) -> float: ...  # of one iteration, for the history
    def done(self, params: Any) -> bool: ...  # True when another sweep would change nothing


class Backend(Protocol):
    """Holds the shards with their latents and brings a task to each of them."""

    latents: list[Any]

    def run(self, task: Callable[..., tuple[Any, Any]], *broadcast: Any) -> list[Any]:
        """Call task(i, shard, latents, *broadcast) -> (result, latents) for every shard; results in shard order."""
        ...

    def collect(self) -> list[Any]:
        """The latents of all shards, brought home for a checkpoint or at the end of a fit."""
        ...


class State(NamedTuple):
    """All that is needed to go on: writing it is a checkpoint, passing it back resumes."""

    params: Any
    latents: list[Any]  # one entry a shard; on a cluster they are handles until collected
    objective: tuple[float, ...]  # one value an iteration


def add(parts: Sequence[Any]) -> Any:
    """Sum tallies leaf by leaf, in the order given, so that no number of workers changes a bit.

    Leaves are numbers, arrays or scipy sparse matrices; nested tuples are added field by field, None stays None.

    >>> class Tally(NamedTuple):
    ...     n: int
    ...     total: float
    >>> add([Tally(1, 0.5), Tally(2, 0.25)])
    Tally(n=3, total=0.75)
    """
    first = parts[0]
    if first is None:
        return None
    if isinstance(first, tuple):
        return type(first)(*(add(leaf) for leaf in zip(*parts, strict=True)))
    return reduce(plus, parts)


def stream(seed: int, iteration: int, place: int) -> np.random.Generator:
    """Random numbers fixed by where they are used (place 0: the update, place i+1: shard i), never by who computes them."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, iteration, place])))


def _survey(i: int, shard: Any, latents: Any, model: Model) -> tuple[Any, Any]:
    return model.survey(shard), None


def _settle(i: int, shard: Any, latents: Any, model: Model, params: Any, seed: int) -> tuple[Any, Any]:
    return None, model.settle(shard, params, stream(seed, 0, i + 1))


def _sweep(i: int, shard: Any, latents: Any, model: Model, params: Any, seed: int, t: int) -> tuple[Any, Any]:
    return model.sweep(shard, latents, params, stream(seed, t, i + 1))


def survey(model: Model, backend: Backend) -> Any:
    """The added surveys of all shards: what `init` needs, and a fingerprint of the data."""
    return add(backend.run(_survey, model))


def steps(model: Model, backend: Backend, *, seed: int = 0, surveyed: Any = None, state: State | None = None) -> Iterator[State]:
    """Yield the state after every iteration, without end; when to stop is the caller's business.

    `state` resumes a fit from where it stood; `surveyed` saves the survey pass where the caller has made it.
    """
    if state is None:
        params = model.init(survey(model, backend) if surveyed is None else surveyed, stream(seed, 0, 0))
        backend.run(_settle, model, params, seed)
        state = State(params, backend.latents, ())
    else:
        backend.latents = state.latents
    while True:
        t = len(state.objective) + 1
        total = add(backend.run(_sweep, model, state.params, seed, t))
        params = model.update(state.params, total, stream(seed, t, 0))
        objective = float(model.objective(total, state.params, params))
        state = State(params, backend.latents, (*state.objective, objective))
        yield state


def settled(objective: Sequence[float], tol: float | None) -> bool:
    """True when the last change of the objective is within `tol` of its size.

    >>> settled([-120.0, -100.0], tol=1e-3), settled([-100.001, -100.0], tol=1e-3)
    (False, True)
    """
    if tol is None or len(objective) < 2:
        return False
    old, new = objective[-2:]
    # a non-finite value never counts as settled: it is either the start or a fault
    return math.isfinite(new - old) and abs(new - old) <= tol * max(abs(new), 1e-300)


BATCHES = 5  # parts of a window, whose means say how much a mean of neighbours that resemble each other may vary


def plateau(objective: Sequence[float], window: int, z: float = 2.0) -> bool:
    """True when a noisy objective has stopped rising: the last `window` values are no higher than those before them,
    within `z` standard errors of the difference of the two means (by batch means, since neighbours are alike).

    >>> plateau([1.0, 2.0, 3.0, 4.0], window=2), plateau([1.0, 4.0, 4.1, 3.9, 4.0], window=2)
    (False, True)
    """
    if len(objective) < 2 * window:
        return False
    late, early = np.asarray(objective[-window:]), np.asarray(objective[-2 * window : -window])
    n = min(BATCHES, window)
    spread = sum(np.var([part.mean() for part in np.array_split(half, n)], ddof=1) for half in (late, early)) if n > 1 else 0.0
    return bool(late.mean() - early.mean() <= z * math.sqrt(spread / n))
