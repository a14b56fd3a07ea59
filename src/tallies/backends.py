"""Where sweeps run: threads of this process, or a Dask cluster. A backend knows no model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np

from tallies.errors import MissingExtra


class Threads:
    """Shards in this process, one task a thread; kernels release the GIL, BLAS keeps to one thread a task.

    One-thread BLAS is for the bits as much as for speed: a threaded product may sum in another order.
    """

    def __init__(self, shards: Sequence[Any], workers: int = 1):
        self.shards, self.latents, self.workers = list(shards), [None] * len(shards), workers
        self.pool = _pool(workers) if workers > 1 and len(shards) > 1 else None

    def run(self, task: Callable[..., tuple[Any, Any]], *broadcast: Any) -> list[Any]:
        def call(i: int) -> tuple[Any, Any]:
            return task(i, self.shards[i], self.latents[i], *broadcast)

        with one_blas_thread():
            pairs = list((self.pool.map if self.pool else map)(call, range(len(self.shards))))
        self.latents = [latents for _, latents in pairs]
        return [result for result, _ in pairs]

    def collect(self) -> list[Any]:
        return self.latents


class Dask:
    """Shards on a Dask cluster: they are sent once and stay with their latents; only tallies come home."""

    def __init__(self, shards: Sequence[Any], client: Any):
        self.client, self.latents = client, [None] * len(shards)
        # round robin over the workers, so that every one has its part of each sweep
        sent = [(client.scatter(shard, hash=False, workers=[w]), w) for shard, w in zip(shards, _cycle(client), strict=False)]
        self.shards = [client.submit(_aligned, shard, workers=[w], pure=False) for shard, w in sent]

    def run(self, task: Callable[..., tuple[Any, Any]], *broadcast: Any) -> list[Any]:
        sent = self.client.scatter(list(broadcast), broadcast=True, hash=False)
        pairs = [
            self.client.submit(_one_blas_thread, task, i, shard, latents, *sent, pure=False)
            for i, (shard, latents) in enumerate(zip(self.shards, self.latents, strict=True))
        ]
        self.latents = [self.client.submit(_second, pair, pure=False) for pair in pairs]
        return self.client.gather([self.client.submit(_first, pair, pure=False) for pair in pairs])

    def collect(self) -> list[Any]:
        return self.client.gather(self.latents)


def _cycle(client: Any) -> Iterator[str]:
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    while True:
        yield from workers


def _one_blas_thread(task: Callable[..., tuple[Any, Any]], *arguments: Any) -> tuple[Any, Any]:
    with one_blas_thread():
        return task(*map(_aligned, arguments))


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


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _second(pair: tuple[Any, Any]) -> Any:
    return pair[1]


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="tallies")


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
    if isinstance(where, str) and where != "threads" and "://" not in where:
        raise ValueError(
            f'backend must be "threads", a scheduler address such as "tcp://host:8786", or a Dask client; got {where!r}'
        )
    opened = _connect(where) if isinstance(where, str) and where != "threads" else None
    token = _chosen.set((where if opened is None else opened, workers))
    try:
        yield
    finally:
        _chosen.reset(token)
        if opened is not None:
            opened.close()


def _connect(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtra("distributed", "dask", "A Dask cluster") from error
    return Client(address)


def place(shards: Sequence[Any]) -> Threads | Dask:
    """Hand the shards to the backend chosen by the surrounding `with tallies.backend(...)`."""
    where, _ = _chosen.get()
    return Threads(shards, thread_count()) if where == "threads" else Dask(shards, where)


def over_rows(task: Callable[[slice], None], n: int, block: int) -> None:
    """Call `task` on consecutive slices of n rows, on the threads of this process; it writes its result where it belongs."""
    slices = [slice(a, min(a + block, n)) for a in range(0, n, block)]
    workers = thread_count()
    with one_blas_thread():
        if workers > 1 and len(slices) > 1:

            def part(first: int) -> None:
                # one task a thread with every workers-th slice: the queue costs more than a slice of a narrow table
                for rows in slices[first::workers]:
                    task(rows)

            list(_pool(workers).map(part, range(workers)))
        else:
            for rows in slices:
                task(rows)
