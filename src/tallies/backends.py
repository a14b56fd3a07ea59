"""Where sweeps run: threads of this process, or a Dask cluster. A backend knows no model."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache, cached_property, partial
from threading import Event, Lock
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tallies.aside import LEFT
from tallies.blas import one_blas_thread
from tallies.cluster import Dask, connect
from tallies.engine import Backend, Dropped, Runner, Source, Stage
from tallies.mapped import OUTLIVED, SCRATCH, Leaf, Scratch, bytes_of, fetch, free_memory, nbytes, store
from tallies.phases import phase
from tallies.remote import folder, is_url, system
from tallies.sources import Held
from tallies.sums import Half, Sum


class Spilled(NamedTuple):
    """Latents that live in mapped files."""

    stored: Any  # see `mapped`


class Threads:
    """Shards in this process, one task a thread; kernels release the GIL, BLAS keeps to one thread a task.

    One-thread BLAS is for the bits as much as for speed: a threaded product may sum in another order.

    Shards are kept while they fit into `memory` with those in work beside them; the others are loaded again for every sweep, one
    ahead of those in work. Latents that do not fit are in mapped files.
    """

    copies = False  # a sweep may write into the latents

    def __init__(
        self,
        sources: Sequence[Source],
        workers: int = 1,
        shared: Source | None = None,
        memory: int | None = None,
        scratch: str | None = None,
    ):
        self.sources, self.workers, self.scratch = sources, workers, Scratch(scratch)
        self.common, self.limit = () if shared is None else (shared.load(),), memory
        self.kept: dict[int, Any] = {}
        self.stored: dict[int, Any] = {}  # shards that cost more to make than to write, in mapped files
        self.used = self.largest = 0  # bytes of shards that are kept, and of the largest one
        self.lock = Lock()
        self.stop: Callable[[], bool] | None = None

    @cached_property
    def memory(self) -> int:
        """Bytes that shards and latents may take."""
        return free_memory() // 2 if self.limit is None else self.limit

    def run(self, task: Callable[..., tuple[Any, Any]], latents: list[Any], *broadcast: Any) -> tuple[list[Any], list[Any]]:
        pairs = list(self._pairs(task, latents, broadcast))
        return [result for result, _ in pairs], [after for _, after in pairs]

    def total(
        self, task: Callable[..., tuple[Any, Any]], latents: list[Any], *broadcast: Any, half: Half | None = None
    ) -> tuple[Any, list[Any]]:
        tally, first = Sum(half), 0 if half is None else half.done
        after = latents[:first]
        try:
            for result, its in self._pairs(task, latents, broadcast, first):
                tally.put(result)
                after.append(its)
        except Dropped:
            raise Dropped(tally.half(), after + latents[len(after) :]) from None
        return tally.value(), after

    def collect(self, latents: list[Any]) -> list[Any]:
        return [fetch(its.stored) if isinstance(its, Spilled) else its for its in latents]

    def _pairs(
        self, task: Callable[..., tuple[Any, Any]], latents: list[Any], broadcast: tuple, first: int = 0
    ) -> Iterator[tuple[Any, Any]]:
        """What the task gives for every shard from the first one on, in order; no more results wait than a few for each thread."""
        stop, spent, begun = self.stop, 0, first - 1  # the last shard that was begun

        def call(i: int, ahead: Future | None) -> tuple[Any, Any]:
            nonlocal begun
            with self.lock:  # none is left out before one that was begun
                if i > begun and stop is not None and stop():
                    raise Dropped
                begun = max(begun, i)
            # what the reader has not begun with is not waited for
            shard = self._load(i) if ahead is None or ahead.cancel() else ahead.result()
            before: Any = latents[i]
            known: dict[int, Leaf] = {}
            if not isinstance(before, Spilled):
                return task(i, shard, before, *broadcast)
            opened = fetch(before.stored, "r+", known)
            result, after = task(i, shard, opened, *broadcast)
            return result, Spilled(store(after, self.scratch.leaf, known))  # what was written in place is in its file already

        with one_blas_thread():
            for result, after in self._in_order(call, first):
                if after is not None and not isinstance(after, Spilled):
                    size = nbytes(after)
                    spent += size
                    # beside the latents and shards that are kept there must be room for those in work
                    if self.used + spent + (self.workers + 1) * (self.largest + size) > self.memory:
                        spent -= size
                        after = Spilled(store(after, self.scratch.leaf))
                yield result, after

    def _in_order(self, call: Callable[[int, Future | None], Any], first: int) -> Iterator[Any]:
        """call(i, the shard that is being read ahead) for all shards from the first one on, results in order."""
        n = len(self.sources)
        reader = _pool(1, "tallies-reader") if len(self.kept) < n and not all(isinstance(s, Held) for s in self.sources) else None
        pool = _pool(self.workers) if min(n, self.workers) > 1 else None
        # a shard in work for each thread, and one read ahead; of those in memory some more, so that no thread waits for a task
        most = int(reader is not None) if pool is None else self.workers if reader is not None else 2 * self.workers
        window: deque[tuple[Future | None, Future | Callable[[], Any]]] = deque()
        try:
            for i in range(first, n):
                ahead = reader.submit(self._load, i) if reader is not None and i not in self.kept else None
                window.append((ahead, pool.submit(call, i, ahead) if pool is not None else partial(call, i, ahead)))
                if len(window) > most:
                    yield _result(window.popleft()[1])
            while window:
                yield _result(window.popleft()[1])
        finally:  # where a task failed, or was dropped, those that wait are not begun
            for waiting in (future for pair in window for future in pair):
                if isinstance(waiting, Future):
                    waiting.cancel()

    def _load(self, i: int) -> Any:
        """A shard, which is kept from now on if there is room."""
        if i in self.kept:
            return self.kept[i]
        if i in self.stored:
            return fetch(self.stored[i])
        shard = self.sources[i].load(*self.common)
        held = isinstance(self.sources[i], Held) and not self.common  # in memory in any case
        size = 0 if held else nbytes(shard)
        with self.lock:
            self.largest = max(self.largest, size)
            if held or self.used + size + (self.workers + 1) * self.largest <= self.memory:
                self.kept[i] = shard
                self.used += size
        if i not in self.kept and getattr(self.sources[i], "costly", False):
            self.stored[i] = store(shard, self.scratch.leaf)
        return shard


def _result(work: Future | Callable[[], Any]) -> Any:
    return work.result() if isinstance(work, Future) else work()


def _pool(workers: int, name: str = "tallies") -> ThreadPoolExecutor:
    """Threads that are kept; others where a call was left behind, which may hold those for long."""
    return _threads(workers, name, len(LEFT))


@cache
def _threads(workers: int, name: str, left: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix=name)


def _all_of(call: Callable[[int], Any], n: int, workers: int) -> list[Any]:
    """call(i) for i below n, on so many threads; results in order."""
    with one_blas_thread():
        return list((_pool(workers).map if min(n, workers) > 1 else map)(call, range(n)))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not survive a fork: a kept pool would wait for ever


class Chosen(NamedTuple):
    """What `backend` was told."""

    where: Any = "threads"  # or a Dask client
    workers: int | None = None
    memory: int | None = None
    scratch: str | None = None  # a folder, or of a cluster a URL


_chosen: ContextVar[Chosen] = ContextVar("tallies_backend", default=Chosen())  # noqa: B039  it never changes


def thread_count() -> int:
    """How many threads a sweep may use: as set by `backend`, else the cores this process may run on."""
    workers = _chosen.get().workers
    if workers is not None:
        return workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def backend(
    where: str | Any = "threads",
    workers: int | None = None,
    memory: int | str | None = None,
    scratch: str | os.PathLike | None = None,
) -> Iterator[None]:
    """Choose where the fits inside the `with` block run. No result depends on the choice.

    `where` is "threads" (with `workers`, default: all cores), the address of a Dask scheduler, or a Dask client. `memory`, such as
    "4GB", is what threads may spend on data that come from files, and on what is kept for each row; the rest is read again in every
    sweep. Default: half of what is free. `scratch` is a folder for files that last as long as a fit; of a cluster one that all its
    machines see, or the URL of one that fsspec knows, such as "s3://bucket/scratch".

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
    size, folder_or_url = None if memory is None else bytes_of(memory), _place_of(scratch, where)
    with nullcontext(where) if address is None else connect(address) as place_of_work:
        token = _chosen.set(Chosen(place_of_work, workers, size, folder_or_url))
        mapped = SCRATCH.set(None if is_url(folder_or_url) else folder_or_url)  # files that are mapped are in folders
        outlived = OUTLIVED.set(where != "threads")
        try:
            yield
        finally:
            _chosen.reset(token)
            SCRATCH.reset(mapped)
            OUTLIVED.reset(outlived)


def _place_of(scratch: str | os.PathLike | None, where: Any) -> str | None:
    """Where files go that last as long as a fit: a folder, also by its URL, or a URL of a cluster."""
    found = None if scratch is None else os.fspath(scratch)
    if found is not None and found.startswith("file://"):
        found = url2pathname(urlsplit(found).path)
    if is_url(found) and where == "threads":
        raise ValueError(f"threads map their files, so scratch must be a folder, got {found!r}; a Dask cluster takes a URL")
    if is_url(found):
        system(str(found))  # or a sentence, now
    return found if found is None or is_url(found) else folder(found)


def place(sources: Sequence[Source], shared: Source | None = None) -> Backend:
    """Hand the sources to the backend chosen by the surrounding `with tallies.backend(...)`."""
    where, _, memory, scratch = _chosen.get()
    if where == "threads":
        return Threads(sources, thread_count(), shared, memory, SCRATCH.get())
    return Dask(sources, where, shared, scratch)


def each(task: Callable[..., Any], sources: Sequence[Source], *broadcast: Any) -> list[Any]:
    """task(shard, *broadcast) for every source, on the chosen backend; results in order. `task` is a function of a module."""
    return place(sources).run(_alone, [None] * len(sources), task, *broadcast)[0]


def _alone(i: int, shard: Any, latents: Any, task: Callable[..., Any], *broadcast: Any) -> tuple[Any, Any]:
    return task(shard, *broadcast), None


def carry_out(stage: Stage, seed: int = 0, told: str | None = None) -> Any:
    """What is kept of a stage by itself, on the chosen backend; `told`: what a terminal is told meanwhile."""
    with one_blas_thread(), phase(told or "", show=None if told else False):
        return Runner(place, seed=seed).carry_out([stage])[0].value


def on_cluster() -> bool:
    """Whether the chosen backend is a cluster: work on rows that are here then goes there by `each`."""
    return _chosen.get().where != "threads"


def over_rows(task: Callable[[slice], None], n: int, block: int) -> None:
    """Call `task` on consecutive slices of n rows, on the threads of this process; it writes its result where it belongs."""
    slices = [slice(a, min(a + block, n)) for a in range(0, n, block)]
    workers, stopped = thread_count(), Event()

    def part(first: int) -> None:
        # one task a thread with every workers-th slice: the queue costs more than a slice of a narrow table
        for rows in slices[first::workers]:
            if stopped.is_set():
                return
            task(rows)

    try:
        _all_of(part, min(workers, len(slices)), workers)
    except BaseException:  # Ctrl-C, too: the end of the process would wait for all the rest
        stopped.set()
        raise
