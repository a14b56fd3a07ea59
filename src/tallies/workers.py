"""What a worker of a Dask cluster does: it loads shards, keeps them while there is room, and carries out tasks on them."""

from __future__ import annotations

import ctypes
import os
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pickle import loads
from threading import Lock
from typing import Any, NamedTuple

from tallies import mapped, remote
from tallies.blas import aligned, one_blas_thread
from tallies.mapped import Leaf, free_memory, nbytes
from tallies.sums import add

FULL = 0.6  # of a worker's memory, from which on it keeps no more shards: at 0.7 Dask writes to disk what it holds
AMPLE = 2 << 30  # bytes of a worker for which those below are little
MMAP, TRIM = (-3, 32 << 20), (-1, 64 << 20)  # options of `mallopt`, and the most that the C library sets them to by itself


class InFile(NamedTuple):
    """Something packed that all workers can read."""

    path: str


class InFolder(NamedTuple):
    """Results whose arrays are in files."""

    stored: Any  # see `mapped`


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

    limit = _limit()
    if not limit:
        return free_memory() // 2
    others = get_worker().monitor.get_process_memory() - held  # libraries, and what is in work
    return min(limit // 2, int(FULL * limit) - others)


def _limit() -> int | None:
    """Bytes that this worker may use, if there is a limit."""
    from distributed import get_worker

    return get_worker().memory_manager.memory_limit


@cache
def _keep_pages() -> None:
    """Let the C library keep some of what arrays leave behind, as it does where nobody tells it otherwise. Dask's nannies have
    every array above 128 kB mapped anew and handed back: its pages then cost several times what a sweep does with them."""
    with suppress(OSError, AttributeError, TypeError):  # another system, another C library
        set_option = ctypes.CDLL(None).mallopt
        for option in (MMAP, TRIM):
            set_option(*option)


def carry_out(
    task: Callable[..., tuple[Any, Any]],
    name: str,
    shards: Sequence[tuple[int, Any]],
    shared: Any,
    latents: Sequence[tuple[Any, int | None]],
    params: Any,
    together: int,
) -> tuple[list[tuple[Any, int]], list[Any]]:
    """A task on neighbouring shards, given by number and source: its results, so many of them added to one, with the bytes of the
    latents beside each, and these latents."""
    if (_limit() or AMPLE) >= AMPLE:
        _keep_pages()
    results: list[tuple[Any, int]] = []
    after = []

    def load(i: int, source: Any) -> Any:
        common = LOADED.get((name, "shared"), lambda: _shared(shared))
        return LOADED.get((name, i), lambda: aligned(opened(source).load(*common)))

    with one_blas_thread():
        given = aligned(opened(params))
        for k, ((i, source), (before, at)) in enumerate(zip(shards, latents, strict=True)):
            result, its = task(i, load(i, source), aligned(latents_at(before, at)), *given)
            found = result, 0 if its is None else max(nbytes(its), 1)
            results[len(results) - bool(k % together) :] = [add([results[-1], found]) if k % together else found]
            after.append(its)
    return results, after


def _shared(shared: Any) -> tuple[Any, ...]:
    source = opened(shared)
    return () if source is None else (aligned(source.load()),)


def opened(value: Any) -> Any:
    """What was packed; anything else as it is."""
    if isinstance(value, InFile):
        if remote.is_url(value.path):
            return loads(remote.read(value.path))
        with open(value.path, "rb") as file:
            return loads(file.read())
    return loads(value) if isinstance(value, bytes) else value


def same(value: Any) -> Any:
    return value


def results_of(pair: tuple[Any, Any], folder: str | None, most: int) -> Any:
    """The results of a pair. Where they take more than `most` bytes, their arrays go by files of a folder: by the scheduler they
    would go twice."""
    results = pair[0]
    if folder is None or nbytes(tuple(results)) <= most:
        return results
    return InFolder(mapped.store(tuple(results), lambda: Leaf(os.path.join(folder, f"{uuid.uuid4().hex}.npy"))))


def fetched(results: Any) -> Any:
    """Such results where they are wanted; the files go with their names, as soon as they are mapped."""
    if not isinstance(results, InFolder):
        return results
    known: dict[int, Leaf] = {}
    found = mapped.fetch(results.stored, known=known)
    for leaf in known.values():
        with suppress(OSError):  # a system that keeps files that are mapped: they go with the folder
            os.unlink(leaf.path)
    return found


def latents_of(pair: Any) -> Any:
    """The latents of a pair; they may have been taken out of it already."""
    return pair[1] if isinstance(pair, tuple) else pair


def latents_at(there: Any, at: int | None) -> Any:
    """Those of one shard, which by themselves are packed."""
    return opened(there) if at is None else latents_of(there)[at]


def added(parts: Sequence[list[Any]]) -> list[Any]:
    """The sum of all in some lists, which is the only item of its own."""
    return [add(list(chain.from_iterable(parts)))]


def write(packed: bytes, path: str) -> None:
    """Write so that a reader never sees half a file, whoever else writes it at the same time."""
    if remote.is_url(path):
        return remote.write(packed, path)
    part = f"{path}.{uuid.uuid4().hex[:8]}.part"
    with open(part, "wb") as file:
        file.write(packed)
    os.replace(part, path)


def store(pair: Any, paths: Sequence[str]) -> None:
    """Latents of a pair in files, one for each shard."""
    from distributed.protocol.pickle import dumps

    for its, path in zip(latents_of(pair), paths, strict=True):
        write(dumps(its), path)
