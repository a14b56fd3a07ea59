"""Where sweeps run: threads of this process, or a Dask cluster. A backend knows no model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from copy import deepcopy
from functools import cache
from itertools import cycle
from operator import itemgetter
from pickle import loads
from typing import Any

import numpy as np

from tallies.engine import Dropped, Runner, Source, Stage
from tallies.errors import need

TRAVELS = 1 << 20  # bytes that travel in the tasks themselves


class Threads:
    """Shards in this process, one task a thread; kernels release the GIL, BLAS keeps to one thread a task.

    One-thread BLAS is for the bits as much as for speed: a threaded product may sum in another order.
    """

    def __init__(self, sources: Sequence[Source], workers: int = 1, shared: Source | None = None):
        common = () if shared is None else (shared.load(),)
        self.shards = [source.load(*common) for source in sources]
        self.workers = workers
        self.stop: Callable[[], bool] | None = None

    def run(self, task: Callable[..., tuple[Any, Any]], latents: list[Any], *broadcast: Any) -> tuple[list[Any], list[Any]]:
        stop = self.stop

        def call(i: int) -> tuple[Any, Any]:
            if stop is not None and stop():
                raise Dropped
            return task(i, self.shards[i], latents[i], *broadcast)

        pairs = _all_of(call, len(self.shards), self.workers)
        return [result for result, _ in pairs], [after for _, after in pairs]

    def collect(self, latents: list[Any]) -> list[Any]:
        return latents


class Dask:
    """Shards on a Dask cluster: they are made once and stay with their latents; only tallies come home."""

    stop: Callable[[], bool] | None = None  # never asked: a sweep that was sent out is carried to its end

    def __init__(self, sources: Sequence[Source], client: Any, shared: Source | None = None):
        self.client = client
        common = [] if shared is None else [client.submit(_load, client.scatter(shared, broadcast=True, hash=False), pure=False)]
        # round robin over the workers, so that every one has its part of each sweep
        workers: Any = cycle([[w] for w in sorted(client.nthreads())] or [None])  # None: there is none yet, and Dask waits for one
        sent = [(client.scatter(source, hash=False, workers=w), w) for source, w in zip(sources, workers, strict=False)]
        self.shards = [client.submit(_load, source, *common, workers=w, pure=False) for source, w in sent]

    def run(self, task: Callable[..., tuple[Any, Any]], latents: list[Any], *broadcast: Any) -> tuple[list[Any], list[Any]]:
        from distributed.protocol.pickle import dumps  # also of classes that a notebook defines

        # packed once: small ones travel in the tasks, which costs no message of its own; large ones go to each worker once
        packed: Any = dumps(broadcast)
        if len(packed) > TRAVELS:
            packed = self.client.scatter(packed, broadcast=True, hash=False)
        n = len(self.shards)
        pairs = self.client.map(_carry_out, [task] * n, range(n), self.shards, latents, [packed] * n, pure=False)
        results, after = (self.client.map(itemgetter(i), pairs, pure=False) for i in (0, 1))
        return self.client.gather(results), after

    def collect(self, latents: list[Any]) -> list[Any]:
        return self.client.gather(latents)


def _load(source: Source, *shared: Any) -> Any:
    return _aligned(source.load(*shared))


def _carry_out(task: Callable[..., tuple[Any, Any]], i: int, shard: Any, latents: Any, packed: bytes) -> tuple[Any, Any]:
    with one_blas_thread():
        # a sweep may write into its latents, and a cluster may run a task twice: it is handed a copy
        return task(i, shard, deepcopy(latents), *_aligned(loads(packed)))


def _aligned(value: Any) -> Any:
    """The arrays of nested tuples at addresses that fit their items.

    Off the wire they may begin anywhere; then NumPy multiplies matrices without BLAS, which rounds otherwise.
    """
    if isinstance(value, np.ndarray):
        return value if value.flags.aligned else value.copy(order="K")
    if isinstance(value, tuple):
        items = [_aligned(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="tallies")


def _all_of(call: Callable[[int], Any], n: int, workers: int) -> list[Any]:
    """call(i) for i below n, on so many threads; results in order."""
    with one_blas_thread():
        return list((_pool(workers).map if min(n, workers) > 1 else map)(call, range(n)))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork: a kept pool would wait for ever


def one_blas_thread() -> Any:
    """Inside the block every product of matrices keeps to one thread: the same bits everywhere, and none in the way of ours."""
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> Any:
    """Looking the BLAS libraries up takes a millisecond, setting their limit microseconds: look once."""
    import scipy.linalg  # noqa: F401  so that its BLAS is among the libraries found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_chosen: ContextVar[tuple[str | Any, int | None]] = ContextVar("tallies_backend", default=("threads", None))


def thread_count() -> int:
    """How many threads a sweep may use: as set by `backend`, else the cores this process may run on."""
    workers = _chosen.get()[1]
    if workers is not None:
        return workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def backend(where: str | Any = "threads", workers: int | None = None) -> Iterator[None]:
    """Choose where the fits inside the `with` block run. No result depends on the choice.

    `where` is "threads" (with `workers`, default: all cores), the address of a Dask scheduler, or a Dask client.

    >>> import tallies
    >>> with tallies.backend("threads", workers=2):
    ...     model = tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"])
    >>> model.predict([[5.2]]).tolist()
    ['b']
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}; leave it out to use all cores")
    address = where if isinstance(where, str) and where != "threads" else None
    if address is not None and "://" not in address:
        raise ValueError(
            f'backend must be "threads", a scheduler address such as "tcp://host:8786", or a Dask client; got {where!r}'
        )
    opened = nullcontext(where) if address is None else need("distributed", "dask", "A Dask cluster").Client(address)
    with opened as place_of_work:
        token = _chosen.set((place_of_work, workers))
        try:
            yield
        finally:
            _chosen.reset(token)


def place(sources: Sequence[Source], shared: Source | None = None) -> Threads | Dask:
    """Hand the sources to the backend chosen by the surrounding `with tallies.backend(...)`."""
    where, _ = _chosen.get()
    return Threads(sources, thread_count(), shared) if where == "threads" else Dask(sources, where, shared)


def each(task: Callable[..., Any], sources: Sequence[Source], *broadcast: Any) -> list[Any]:
    """task(shard, *broadcast) for every source, on the chosen backend; results in order. `task` is a function of a module."""
    return place(sources).run(_alone, [None] * len(sources), task, *broadcast)[0]


def _alone(i: int, shard: Any, latents: Any, task: Callable[..., Any], *broadcast: Any) -> tuple[Any, Any]:
    return task(shard, *broadcast), None


def carry_out(stage: Stage, seed: int = 0) -> Any:
    """What is kept of a stage by itself, on the chosen backend."""
    with one_blas_thread():
        return Runner(place, seed=seed).carry_out([stage])[0].value


def on_cluster() -> bool:
    """Whether the chosen backend is a cluster: work on rows that are here then goes there by `each`."""
    return _chosen.get()[0] != "threads"


def over_rows(task: Callable[[slice], None], n: int, block: int) -> None:
    """Call `task` on consecutive slices of n rows, on the threads of this process; it writes its result where it belongs."""
    slices = [slice(a, min(a + block, n)) for a in range(0, n, block)]
    workers = thread_count()

    def part(first: int) -> None:
        # one task a thread with every workers-th slice: the queue costs more than a slice of a narrow table
        for rows in slices[first::workers]:
            task(rows)

    _all_of(part, min(workers, len(slices)), workers)
