"""Sweeps on a Dask cluster. What a lost worker held is made again by Dask, with the same bits: there is no recovery code here.

It works because everything that a task needs can be made again: shards are loaded from their sources by whichever worker has the
task, random numbers are fixed by place, and params travel in the task, or are read from a file of the scratch folder. Latents are
results of tasks; every few sweeps they are written to the scratch folder, so that no more than those sweeps are ever repeated.
"""

from __future__ import annotations

import os
import time
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import count, islice
from pickle import loads
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from tallies import remote
from tallies._version import __version__
from tallies.blas import aligned, one_blas_thread
from tallies.engine import Dropped, Source
from tallies.errors import ClusterError, DataWarning, need
from tallies.mapped import Scratch, free_memory, nbytes
from tallies.remote import Remote
from tallies.sums import GROUP, Half, Sum, add

TRAVELS = 1 << 20  # bytes that travel in the tasks themselves
EVERY = 10  # sweeps after which latents are written: what a lost worker may cost
LARGE = 64 << 20  # bytes that should not go through a scheduler
ANSWERS = 5  # seconds for a scheduler to answer
WAIT = 30  # seconds for a worker to come
LOOK = 0.2  # seconds between two looks at whether Ctrl-C was pressed while a sweep is out
STUCK = 3.0  # seconds between two looks at whether tasks wait for workers that will not come back
FULL = 0.6  # of a worker's memory, from which on it keeps no more shards: at 0.7 Dask writes to disk what it holds


class InFile(NamedTuple):
    """Something packed that all workers can read."""

    path: str


class There(NamedTuple):
    """Something on the cluster, such as the latents of a shard."""

    value: Any  # as a task is given it: bytes, `InFile` or a future
    age: int = 0  # sweeps since it was last written
    needs: tuple[Any, ...] = ()  # owners of the files from which it is made
    # where it is, for tasks that take it apart: of a busy worker they would go to others, and all of it with them
    where: Mapping[str, Any] = MappingProxyType({})


class Dask:
    """Tasks on a Dask cluster; sums come home, latents stay there."""

    stop: Callable[[], bool] | None = None  # asked while a sweep is out
    copies = True

    def __init__(self, sources: Sequence[Source], client: Any, shared: Source | None = None, scratch: str | None = None):
        self.client, self.name, self.numbers = client, uuid.uuid4().hex[:8], count()
        check(client)
        self.scratch = _common_scratch(client, scratch)
        self.sources = [self.put(source) for source in sources]
        self.shared = self.put(shared)

    def put(self, value: Any) -> There:
        """A value where tasks find it: in them if it is small, else where any worker can have it at any time."""
        from distributed.protocol.pickle import dumps  # also of classes that a notebook defines

        packed = dumps(value)
        if len(packed) <= TRAVELS:
            return There(packed)
        if self.scratch is not None:
            file = self.scratch.leaf(".pickle")
            _write(packed, file.path)
            return There(InFile(file.path), needs=(file.owner,))
        if len(packed) > LARGE:
            warnings.warn(
                f"{len(packed) / 1e6:,.0f} MB go through the scheduler, since its workers share no folder with this process; "
                "name one that they do with tallies.backend(..., scratch=FOLDER)",
                DataWarning,
                stacklevel=2,
            )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            return There(self.client.submit(_same, packed, key=self._key("data")))

    def _key(self, what: str) -> str:
        """The name of a task, as dashboards show it, and what tells it from others."""
        return f"tallies-{what}-{self.name}-{next(self.numbers)}"

    def run(self, task: Callable[..., tuple[Any, Any]], latents: list[Any], *broadcast: Any) -> tuple[list[Any], list[Any]]:
        with in_words():
            parts, after = self._pairs(task, latents, broadcast)
            found = self._wait(parts)
            return [result for result, _ in found], self._after(after, sum(has for _, has in found))

    def total(
        self, task: Callable[..., tuple[Any, Any]], latents: list[Any], *broadcast: Any, half: Half | None = None
    ) -> tuple[Any, list[Any]]:
        with in_words():
            first = 0 if half is None else half.done
            parts, after = self._pairs(task, latents, broadcast, first)
            if half is not None:  # of a checkpoint that was cut within a sweep: the rest of the tree is added here
                tally = Sum(half)
                for result, _ in self._wait(parts, after):
                    tally.put(result)
                return tally.value(), [*latents[:first], *self._after(after, 1)]
            while len(parts) > 1:  # the tree of `Sum`, each part of it added by a worker that has some of it
                groups = [parts[a : a + GROUP] for a in range(0, len(parts), GROUP)]
                parts = [self.client.submit(add, group, key=self._key("add")) if len(group) > 1 else group[0] for group in groups]
            ((result, has),) = self._wait(parts, after)
            return result, self._after(after, has)

    def _wait(self, parts: list[Any], pairs: Sequence[There] = ()) -> list[Any]:
        """What comes of these tasks; where Ctrl-C comes first, the pairs they are made of that have not begun are called off."""
        futures, began, looked = [part for part in parts if hasattr(part, "key")], time.monotonic(), 0.0
        while not all(future.done() for future in futures):  # no waiting with a limit: its errors would hold all that is here
            if pairs and self.stop is not None and self.stop():
                self.client.cancel([its.value for its in pairs])
                raise Dropped
            so_far = time.monotonic() - began
            if so_far - looked > STUCK:
                self.client.run_on_scheduler(_let_go, name=self.name)
                looked = so_far
            time.sleep(min(0.001 + so_far / 50, LOOK))
        return self.client.gather(parts)

    def collect(self, latents: list[Any]) -> list[Any]:
        with in_words():
            there = self._wait([its.value if isinstance(its, There) else its for its in latents])
            return [_opened(its) for its in there]

    def _pairs(
        self, task: Callable[..., tuple[Any, Any]], latents: list[Any], broadcast: tuple, begin: int = 0
    ) -> tuple[list[Any], list[There]]:
        """Futures of (result, whether there are latents), and of the pairs from which latents can be taken."""
        submit, params, what = self.client.submit, self.put(broadcast), task.__name__.strip("_")
        workers = sorted(self.client.nthreads()) or [None]  # None: there is none at the moment, and Dask waits for one
        n, first, after = len(self.sources), [], []
        for i, (source, its) in islice(enumerate(zip(self.sources, latents, strict=True)), begin, None):
            # neighbours on one worker, where their shards stay loaded and their sums are added; on any other if it is gone
            place = workers[i * len(workers) // n]
            where = {} if place is None else {"workers": [place], "allow_other_workers": True}
            before = its if isinstance(its, There) else self.put(its)
            given = task, i, (self.name, i), source.value, self.shared.value, before.value, params.value
            pair = submit(_carry_out, *given, key=self._key(what), **where)
            first.append(submit(_result, pair, key=self._key("result"), **where))
            after.append(There(pair, before.age + 1, (*before.needs, *params.needs), where))
        return first, after

    def _after(self, pairs: list[There], has: int) -> list[Any]:
        """The latents after a sweep, written where it is time to; None where there are none."""
        if not has:
            return [None] * len(pairs)
        latents = [
            its._replace(value=self.client.submit(_latents, its.value, key=self._key("latents"), **its.where)) for its in pairs
        ]
        if max(its.age for its in latents) < EVERY:
            return latents
        if self.scratch is None:
            return [self.put(its) for its in self._wait([its.value for its in latents])]
        files = [self.scratch.leaf(".pickle") for _ in latents]
        written = zip(latents, files, strict=True)
        self._wait([self.client.submit(_store, z.value, file.path, key=self._key("store"), **z.where) for z, file in written])
        return [There(InFile(file.path), needs=(file.owner,)) for file in files]


# on the workers


class Loaded:
    """Shards that a worker has loaded, while they fit into its memory, see `_room`: those used longest ago go first."""

    def __init__(self) -> None:
        self.shards: OrderedDict[Any, tuple[int, Any]] = OrderedDict()
        self.lock = Lock()

    def get(self, key: tuple[str, Any], load: Callable[[], Any]) -> Any:
        """The shard of this key."""
        with self.lock:
            for old in [old for old in self.shards if old[0] != key[0]]:  # of fits that are over, or of another client
                del self.shards[old]
            if key in self.shards:
                self.shards.move_to_end(key)
                return self.shards[key][1]
        shard = load()
        with self.lock:
            self.shards[key] = nbytes(shard), shard
            held = sum(size for size, _ in self.shards.values())
            room = _room(held)
            while len(self.shards) > 1 and held > room:
                held -= self.shards.popitem(last=False)[1][0]
        return shard


LOADED = Loaded()


def _room(held: int) -> int:
    """Bytes that a worker may spend on shards, of which it holds so many: half of its memory, and no more than is left of it."""
    from distributed import get_worker

    worker = get_worker()
    limit = worker.memory_manager.memory_limit
    if not limit:
        return free_memory() // 2
    others = worker.monitor.get_process_memory() - held  # libraries, and what is in work
    return min(limit // 2, int(FULL * limit) - others)


def _carry_out(task: Any, i: int, key: Any, source: Any, shared: Any, latents: Any, params: Any) -> tuple[Any, Any]:
    def load() -> Any:
        common = LOADED.get((key[0], "shared"), lambda: _shared(shared))
        return aligned(_opened(source).load(*common))

    with one_blas_thread():
        shard = LOADED.get(key, load)
        # a sweep may write into its latents, and a cluster may run a task twice: it is handed a copy
        latents = deepcopy(latents) if latents is _opened(latents) else aligned(_opened(latents))
        return task(i, shard, latents, *aligned(_opened(params)))


def _shared(shared: Any) -> tuple[Any, ...]:
    source = _opened(shared)
    return () if source is None else (aligned(source.load()),)


def _opened(value: Any) -> Any:
    """What was packed; anything else as it is."""
    if isinstance(value, InFile):
        if remote.is_url(value.path):
            return loads(remote.read(value.path))
        with open(value.path, "rb") as file:
            return loads(file.read())
    return loads(value) if isinstance(value, bytes) else value


def _same(value: Any) -> Any:
    return value


def _result(pair: tuple[Any, Any]) -> tuple[Any, int]:
    return pair[0], int(pair[1] is not None)


def _latents(pair: tuple[Any, Any]) -> Any:
    return pair[1]


def _write(packed: bytes, path: str) -> None:
    """Write so that a reader never sees half a file, whoever else writes it at the same time."""
    if remote.is_url(path):
        return remote.write(packed, path)
    part = f"{path}.{uuid.uuid4().hex[:8]}.part"
    with open(part, "wb") as file:
        file.write(packed)
    os.replace(part, path)


def _store(latents: Any, path: str) -> None:
    from distributed.protocol.pickle import dumps

    _write(dumps(latents), path)


# on the scheduler


def _let_go(name: str, dask_scheduler: Any = None) -> None:
    """Let tasks run anywhere that wait for workers which are gone. Dask does so while there is another worker, but where all die at
    once it looks no further, also when new ones come."""
    here = set(dask_scheduler.workers)
    stuck = [task for task in dask_scheduler.unrunnable if name in str(task.key) and task.worker_restrictions and here]
    stuck = [task for task in stuck if not here & task.worker_restrictions]
    for task in stuck:
        task.worker_restrictions = None
    if stuck:
        dask_scheduler.transitions({task.key: "processing" for task in stuck}, stimulus_id=f"tallies-let-go-{name}")


# before anything is sent


ABOUT = "(__import__('tallies._version')._version.__version__, __import__('numpy').__version__)"
_checked: WeakSet[Any] = WeakSet()


def connect(address: str) -> Any:
    """A client of the scheduler at an address."""
    distributed = need("distributed", "dask", "A Dask cluster")
    try:
        return distributed.Client(address, timeout=ANSWERS)
    except (OSError, TimeoutError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address!r} ({error}); start one with `dask scheduler`, and workers with "
            f"`dask worker {address}`, or check the address"
        ) from error


def check(client: Any) -> None:
    """Refuse a cluster without workers, or whose workers have no Tallies, or another version of it."""
    if client in _checked:
        return
    with in_words():
        try:
            client.wait_for_workers(1, timeout=WAIT)
        except TimeoutError as error:
            told = f"the Dask scheduler {client.scheduler.address!r} has no worker, and none came within {WAIT} seconds"
            raise ClusterError(f"{told}; start some with `dask worker {client.scheduler.address}`") from error
        found = client.run(eval, ABOUT, on_error="return")
    here = (__version__, np.__version__)
    for worker, about in found.items():
        if isinstance(about, OSError):  # it died meanwhile
            continue
        if isinstance(about, BaseException):
            raise ClusterError(f"the Dask worker {worker} cannot use Tallies ({about}); install tallies {here[0]} where it runs")
        if about[0] != here[0]:
            raise ClusterError(f"the Dask worker {worker} has tallies {about[0]}, but here is {here[0]}; install the same version")
        if about[1] != here[1]:
            told = f"the Dask worker {worker} has NumPy {about[1]}, but here is {here[1]}: last bits may differ; install the same"
            warnings.warn(told, DataWarning, stacklevel=2)
    _checked.add(client)


def _common_scratch(client: Any, parent: str | None) -> Scratch | Remote | None:
    """A folder that this process and all workers see; None where none was named, and they are elsewhere."""
    if remote.is_url(parent):
        return _remote_scratch(client, str(parent))
    scratch = Scratch(parent and os.path.abspath(parent))
    with in_words():
        seen = client.run(os.path.isdir, scratch.folder.name, on_error="return")
    blind = [worker for worker, found in seen.items() if found is False]  # an error: it died meanwhile
    if blind and parent is not None:
        raise ClusterError(
            f"the Dask worker {blind[0]} does not see the folder scratch={parent!r}; name one that is mounted on all machines"
        )
    return None if blind else scratch


def _remote_scratch(client: Any, url: str) -> Remote:
    """The same by a URL."""
    scratch = Remote(url)
    with in_words():
        found = client.run(remote.seen, scratch.url, on_error="return")
    for worker, sees in found.items():
        if sees is not True and not isinstance(sees, OSError):  # OSError: it died meanwhile
            why = "it does not see the files of this process" if sees is False else str(sees)
            raise ClusterError(f"the Dask worker {worker} cannot use scratch={url!r}: {why}; name one that all machines see")
    return scratch


@contextmanager
def in_words() -> Iterator[None]:
    """What may befall a cluster, told in a sentence; errors of the tasks themselves pass."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"several Dask workers died in turn at the same task ({error}), likely for want of memory; give them more, or cut the "
            "data into smaller pieces. What was written to a checkpoint can be resumed"
        ) from error
    except (CommClosedError, CancelledError) as error:
        raise ClusterError(
            f"the connection to the Dask scheduler was lost ({type(error).__name__}: {error}); start it again, and go on from the "
            "last checkpoint with fit(..., resume=PATH), or `tallies resume RUN`"
        ) from error
