"""Whether a state that a checkpoint has brought belongs to the data: compiled loops would trust it."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np

from tallies.sums import Half, alike

if TYPE_CHECKING:
    from tallies.engine import Backend, Model, Stage, State


def _recount(i: int, shard: Any, latents: Any, model: Model, params: Any) -> tuple[Any, Any]:
    return model.recount(shard, latents, params), latents


def _form(i: int, shard: Any, latents: Any, model: Model, params: Any) -> tuple[Any, Any]:
    """A tally of the first shard, which none is added to, and which leaves the latents alone."""
    return None if i else model.sweep(shard, deepcopy(latents), params, np.random.default_rng(0))[0], latents


def verify(stage: Stage, backend: Backend, state: State) -> None:
    """Raise ValueError where it does not."""
    model, shards, half = stage.model, len(stage.sources), state.half or Half()
    if len(state.latents) != shards:
        raise ValueError(f"the checkpoint has the state of {len(state.latents)} shards, but there are {shards}")
    if state.half is not None and not 0 < half.done < shards + (half.whole is not None):
        raise ValueError(f"the checkpoint is damaged: {half.done} of {shards} shards are done; start a new fit")
    verbs = (state.params, model.update), *((part, model.settle) for part in state.latents)
    for value, verb in verbs:
        record = get_type_hints(verb).get("return")  # what it says that it gives
        if isinstance(record, type) and record is not Any and not isinstance(value, record):
            raise ValueError(f"the checkpoint is damaged: expected {record.__name__}, got {type(value).__name__}; start a new fit")
    model.agree(state, backend.total(_recount, state.latents, model, state.params)[0], stage.start)
    if half.whole is not None:
        (tally, *_), _ = backend.run(_form, state.latents, model, model.outgoing(state.params))
        if not alike(tally, half.whole[1]):
            raise ValueError("the checkpoint is damaged: the sums of its last sweep are not of these data; start a new fit")
