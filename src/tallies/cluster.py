"""Sweeps on a Dask cluster. What a lost worker held is made again by Dask, with the same bits: there is no recovery code here.

It works because everything that a task needs can be made again: shards are loaded from their sources by whichever worker has the
task, random numbers are fixed by place, and params travel in the task, or are read from a file of the scratch folder. Latents are
results of tasks; every some ten sweeps they are written to the scratch folder, so that no more than those sweeps are ever repeated.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from itertools import chain, count, groupby
from operator import itemgetter
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple
from weakref import WeakSet, ref

import numpy as np

from tallies import remote
from tallies._version import __version__
from tallies.engine import Dropped, Source
from tallies.errors import ClusterError, DataWarning, need
from tallies.mapped import Scratch, nbytes
from tallies.remote import Remote
from tallies.sums import GROUP, Half, Sum, add
from tallies.workers import InFile, added, carry_out, fetched, latents_at, latents_of, results_of, same, store, write

TRAVELS = 1 << 20  # bytes that travel in the tasks themselves
EVERY = 10  # fewest sweeps after which latents are written: what a lost worker may cost
WORTH = 20  # times as long as it takes to write them is what these sweeps take at least: a twentieth is little,
LINEAGE = 256 << 20  # unless their params, which the scheduler or files hold till then, take more bytes
WRITES = 2e8  # bytes that a worker writes in a second, where it has not been seen
LARGE = 64 << 20  # bytes that should not go through a scheduler
ANSWERS = 5  # seconds for a scheduler to answer
WAIT = 30  # seconds for a worker to come
LOOK = 0.2  # seconds between two looks at whether Ctrl-C was pressed while a sweep is out
STUCK = 3.0  # seconds between two looks at whether tasks wait for workers that will not come back
PAUSED = 20.0  # seconds for which all workers may have paused, with nothing in work
TOGETHER = 2 * GROUP  # shards that may be one task,
FEW = 4  # and where nobody knows what they will keep
PIECES = 16  # a worker has room for so many of what such a task leaves
USUAL = 4 << 30  # bytes of a worker that has no limit


class There(NamedTuple):
    """Something on the cluster, such as the latents of a shard."""

    value: Any  # as a task is given it: bytes, `InFile` or a future
    at: int | None = None  # of which shard of the future's
    bytes: int = 0  # that it takes, where it is known
    age: int = 0  # sweeps since it was last written
    needs: tuple[Any, ...] = ()  # owners of the files from which it is made
    past: tuple[Any, ...] = ()  # references to the futures of latents before, whose arrays it may share


class Pair(NamedTuple):
    """Results and latents of neighbouring shards, on the cluster."""

    value: Any  # a future
    shards: range
    age: int  # as in `There`
    needs: tuple[Any, ...]
    past: tuple[Any, ...]
    sent: int  # bytes of params that went out with it
    place: str | None  # where tasks take it apart: of a busy worker they would go to others, and all of it with them


class Dask:
    """Tasks on a Dask cluster; sums come home, latents stay there."""

    stop: Callable[[], bool] | None = None  # asked while a sweep is out
    copies = True

    def __init__(self, sources: Sequence[Source], client: Any, shared: Source | None = None, scratch: str | None = None):
        self.client, self.name, self.numbers = client, uuid.uuid4().hex[:8], count()
        check(client)
        self.scratch = _common_scratch(client, scratch)
        self.written, self.writes = time.monotonic(), 0.0  # when latents were last written, and how many bytes a second
        self.piece = client.run_on_scheduler(_least_memory) // PIECES
        self.sources = [self.put(source, TRAVELS // TOGETHER) for source in sources]  # each goes out with every sweep
        self.shared = self.put(shared)

    def put(self, value: Any, most: int | None = None) -> There:
        """A value where tasks find it: in them if it is small, else where any worker can have it at any time."""
        from distributed.protocol.pickle import dumps  # also of classes that a notebook defines

        packed = dumps(value)
        if len(packed) <= (TRAVELS if most is None else most):
            return There(packed, bytes=len(packed) if value is not None else 0)
        if self.scratch is not None:
            file = self.scratch.leaf(".pickle")
            write(packed, file.path)
            return There(InFile(file.path), bytes=len(packed), needs=(file.owner,))
        if len(packed) > LARGE:
            warnings.warn(
                f"{len(packed) / 1e6:,.0f} MB go through the scheduler, since its workers share no folder with this process; "
                "name one that they do with tallies.backend(..., scratch=FOLDER)",
                DataWarning,
                stacklevel=2,
            )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            return There(self.client.submit(same, packed, key=self._key("data")), bytes=len(packed))

    def _key(self, what: str) -> str:
        """The name of a task, as dashboards show it, and what tells it from others."""
        return f"tallies-{what}-{self.name}-{next(self.numbers)}"

    def _map(
        self, call: Callable[..., Any], given: Sequence[tuple[Any, ...]], what: str, places: Sequence[str | None]
    ) -> list[Any]:
        """Futures of a call for each of these arguments, on these workers, or on any other if they are gone: all of one worker by
        one message, since each costs the scheduler and this process some milliseconds."""
        futures: list[Any] = []
        for place, some in groupby(zip(places, given, strict=True), key=itemgetter(0)):
            arguments = [its for _, its in some]
            where = {} if place is None else {"workers": [place], "allow_other_workers": True}
            futures += self.client.map(call, *zip(*arguments, strict=True), key=[self._key(what) for _ in arguments], **where)
        return futures

    def run(self, task: Callable[..., tuple[Any, Any]], latents: list[Any], *broadcast: Any) -> tuple[list[Any], list[Any]]:
        with in_words():
            parts, after = self._pairs(task, latents, broadcast)
            found = list(chain.from_iterable(fetched(part) for part in self._wait(parts)))
            return [result for result, _ in found], self._after(after, sum(size for _, size in found))

    def total(
        self, task: Callable[..., tuple[Any, Any]], latents: list[Any], *broadcast: Any, half: Half | None = None
    ) -> tuple[Any, list[Any]]:
        with in_words():
            if half is not None:  # of a checkpoint that was cut within a sweep: the rest of the tree is added here
                tally = Sum(half)
                parts, after = self._pairs(task, latents, broadcast, half.done)
                for result, _ in chain.from_iterable(self._wait(parts, after)):
                    tally.put(result)
                return tally.value(), [*latents[: half.done], *self._after(after, 1)]
            parts, after = self._pairs(task, latents, broadcast, adding=True)
            size = len(after[0].shards)  # of shards in a part, of which GROUP are one sum already
            per = GROUP // (size if size < GROUP else size // GROUP)
            while len(parts) > 1:  # the tree of `Sum`, each part of it added by a worker that has some of it
                groups = [parts[a : a + per] for a in range(0, len(parts), per)]
                parts = [self.client.submit(added, group, key=self._key("add")) if len(group) > 1 else group[0] for group in groups]
                per = GROUP
            (last,) = self._wait(parts, after)
            result, kept = add(last)
            return result, self._after(after, kept, nbytes(result) * len(after))

    def _wait(self, parts: list[Any], pairs: Sequence[Pair] = ()) -> list[Any]:
        """What comes of these tasks; where Ctrl-C comes first, the pairs they are made of that have not begun are called off."""
        futures, began, looked, awake = [part for part in parts if hasattr(part, "key")], time.monotonic(), 0.0, 0.0
        while not all(future.done() for future in futures):  # no waiting with a limit: its errors would hold all that is here
            if pairs and self.stop is not None and self.stop():
                self.client.cancel([pair.value for pair in pairs])
                raise Dropped
            so_far = time.monotonic() - began
            if so_far - looked > STUCK:
                self.client.run_on_scheduler(_let_go, name=self.name)
                looked = so_far
                full = self.client.run_on_scheduler(_all_paused)
                awake = awake if full else so_far
                if so_far - awake > PAUSED:
                    raise ClusterError(
                        f"all Dask workers have paused, and nothing is in work: their memory, {full / 1e6:,.0f} MB at least, "
                        "is full. Give them more (libraries alone take 150 to 300 MB), or cut the data into smaller pieces; what "
                        "was written to a checkpoint can be resumed"
                    )
            time.sleep(min(0.001 + so_far / 50, LOOK))
        home = asyncio.run_coroutine_threadsafe(self.client.gather(parts, asynchronous=True), self.client.loop.asyncio_loop)
        while not wait([home], STUCK).done:  # what was done is made again where its workers die before it is here
            self.client.run_on_scheduler(_let_go, name=self.name)
        return home.result()

    def collect(self, latents: list[Any]) -> list[Any]:
        with in_words():
            there = [its if isinstance(its, There) else There(its) for its in latents]
            found = self._wait([its.value for its in there])
            return [latents_at(value, its.at) for its, value in zip(there, found, strict=True)]

    def _pairs(
        self, task: Callable[..., tuple[Any, Any]], latents: list[Any], broadcast: tuple, begin: int = 0, adding: bool = False
    ) -> tuple[list[Any], list[Pair]]:
        """Futures of results with the bytes of what their shards keep, and of the pairs from which latents can be taken."""
        params, what = self.put(broadcast), task.__name__.strip("_")
        threads = self.client.nthreads()
        workers = sorted(threads) or [None]  # None: there is none at the moment, and Dask waits for one
        before = [its if isinstance(its, There) else self.put(its) for its in latents]
        _release(its for one in before for its in one.past)
        n, size = len(before), self._size(before, sum(threads.values()), adding)
        groups = [range(a, min(a + size, n)) for a in range(begin, n, size)]
        # neighbours on one worker, where their shards stay loaded and their sums are added
        places = [workers[shards.start * len(workers) // n] for shards in groups]
        given = []
        for shards in groups:
            sources, kept = [(i, self.sources[i].value) for i in shards], [before[i][:2] for i in shards]
            together = GROUP if adding and size >= GROUP else 1
            given.append((task, self.name, sources, self.shared.value, kept, params.value, together))
        pairs, after = self._map(carry_out, given, what, places), list[Pair]()
        for pair, shards, place in zip(pairs, groups, places, strict=True):
            needs = {id(its): its for i in shards for its in (*before[i].needs, *params.needs)}
            sent = params.bytes if isinstance(params.value, bytes) or not after else 0  # in each task, or once
            past = tuple(ref(its) for its in {before[i].value for i in shards} if hasattr(its, "key"))
            after.append(Pair(pair, shards, max(before[i].age for i in shards) + 1, tuple(needs.values()), past, sent, place))
        home = None if adding or not isinstance(self.scratch, Scratch) else self.scratch.folder.name
        return self._map(results_of, [(pair, home, TRAVELS) for pair in pairs], "result", places), after

    def _size(self, latents: Sequence[There], threads: int, adding: bool) -> int:
        """How many neighbouring shards are one task, a power of two. A task costs some milliseconds, however little it does; what
        it makes is held, moved, or written to disk by Dask as one piece, which is to be a small part of a worker."""
        kept = max(its.bytes for its in latents)
        room = self.piece // kept if kept else FEW if adding else 1  # they keep nothing, or it is not known
        # two tasks a thread at least, so that none is long alone at the end
        most = min(TOGETHER, len(latents) // (2 * max(threads, 1)), room)
        return 1 << max(most.bit_length() - 1, 0)

    def _due(self, age: int, kept: int, sent: int) -> bool:
        """Whether it is time to write latents of this age and so many bytes, whose sweeps were sent so much."""
        speed = self.writes or WRITES * max(len(self.client.nthreads()), 1)
        return age >= EVERY and (age * sent > LINEAGE or time.monotonic() - self.written > WORTH * kept / speed)

    def _after(self, pairs: list[Pair], kept: int, beside: float = np.inf) -> list[Any]:
        """The latents after a sweep, which take so many bytes, written where it is time to; None where there are none. `beside`:
        bytes of the results in all pairs, at most; little beside their latents, these are not taken apart."""
        n = sum(len(pair.shards) for pair in pairs)
        if not kept:
            return [None] * n
        places = [pair.place for pair in pairs]
        if beside > kept / WORTH:
            taken = self._map(latents_of, [(pair.value,) for pair in pairs], "latents", places)
            pairs = [pair._replace(value=its) for pair, its in zip(pairs, taken, strict=True)]
        if not self._due(max(z.age for z in pairs), kept, sum(z.sent for z in pairs)):
            return [There(z.value, at, kept // n or 1, z.age, z.needs, z.past) for z in pairs for at in range(len(z.shards))]
        if self.scratch is None:
            found = chain.from_iterable(map(latents_of, self._wait([z.value for z in pairs])))
            return [self.put(its) for its in found]
        files = [[self.scratch.leaf(".pickle") for _ in z.shards] for z in pairs]
        written = [(z.value, [file.path for file in its]) for z, its in zip(pairs, files, strict=True)]
        began = time.monotonic()
        self._wait(self._map(store, written, "store", places))
        self.written = time.monotonic()
        self.writes = kept / max(self.written - began, 1e-3)
        return [There(InFile(file.path), bytes=kept // n or 1, needs=(file.owner,)) for file in chain.from_iterable(files)]


def _release(references: Iterable[Any]) -> None:
    """Let these futures go, whoever holds them, such as a callback that keeps states. A sweep writes into arrays that the latents
    before share with those before them, from which Dask would make a lost sweep again, with other bits."""
    for its in references:
        future = its()
        if future is not None:
            future.release()


# on the scheduler


def _least_memory(dask_scheduler: Any = None) -> int:
    """That of its smallest worker, in bytes; without a limit or a worker, a usual one."""
    return min((worker.memory_limit or USUAL for worker in dask_scheduler.workers.values()), default=USUAL)


def _all_paused(dask_scheduler: Any = None) -> int:
    """Bytes of the smallest worker where all of them wait for memory and none of them works, else 0."""
    workers = dask_scheduler.workers.values()
    idle = [w.status.name == "paused" and not w.metrics.get("task_counts", {}).get("executing") for w in workers]
    return _least_memory(dask_scheduler) if idle and all(idle) else 0


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
    distributed, found = need("distributed", "dask", "A Dask cluster"), SimpleQueue[Any]()

    def ask() -> None:
        try:
            found.put(distributed.Client(address, timeout=ANSWERS))
        except Exception as error:
            found.put(error)

    Thread(target=ask, daemon=True).start()  # Dask waits for ever for what is there, but is no scheduler
    try:
        client = found.get(timeout=2 * ANSWERS)
        if isinstance(client, Exception):
            raise client
        return client
    except Empty as error:
        told = "something is there that is no scheduler, perhaps its dashboard, or does not answer"
        raise ClusterError(f"no Dask scheduler answers at {address!r}: {told}; check the address and its port") from error
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
