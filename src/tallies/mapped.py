"""Records whose arrays are in files: what is too large for memory is mapped from disk while it is needed, and let go after.

A record is a tree of tuples, arrays and sparse matrices, such as shards and latents. Stored, it is the same tree with a `Leaf` in
the place of each large array, which is an .npy file; what is small stays where it is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import Lock
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np
import scipy.sparse as sp

from tallies.disk import own, remove_left

SCRATCH: ContextVar[str | None] = ContextVar("tallies_scratch", default=None)  # folder of files that do not last
OUTLIVED: ContextVar[bool] = ContextVar("tallies_outlived", default=False)  # whether others map them who may live longer: a cluster
PREFIX = "tallies-"  # how the names of such folders begin
SMALL = 4096  # bytes of an array that is not worth a file: one page
HEADERS = Lock()  # to hold while a file of NumPy's is opened: Python 3.11 may fail where two threads parse what stands at its head


def map_array(path: str, mode: Any = "c") -> np.ndarray:
    """The array of an .npy file, mapped; as a plain array, since kernels are compiled for those. What is written into it is
    forgotten."""
    with HEADERS:
        return np.asarray(np.load(path, mmap_mode=mode))


class Leaf(NamedTuple):
    """An array in an .npy file."""

    path: str
    owner: Any = None  # what the file lasts as long as, where it is not for ever

    def load(self, mode: Any) -> np.ndarray:
        """The array, mapped."""
        return map_array(self.path, mode)


def scratch_folder(parent: str | None, ours: bool = True) -> TemporaryDirectory:
    """A new folder that does not last. One that is `ours` alone is removed by the next process here if this one is killed."""
    if parent is not None:
        os.makedirs(parent, exist_ok=True)
    _tidy(os.path.abspath(parent or gettempdir()))
    folder = TemporaryDirectory(prefix=PREFIX, dir=parent)
    handle = own(folder.name) if ours else None
    if handle is not None:
        finalize(folder, os.close, handle)
    return folder


@cache
def _tidy(parent: str) -> None:
    """Remove what dead processes left, once in a process."""
    remove_left(parent, PREFIX)


class Scratch:
    """A folder of files that go when nobody has them any more; it is made when the first is."""

    def __init__(self, parent: str | None = None):
        self.parent, self.numbers, self.lock = parent, count(), Lock()

    @cached_property
    def folder(self) -> TemporaryDirectory:
        return scratch_folder(self.parent, ours=not OUTLIVED.get())

    def leaf(self, suffix: str = ".npy") -> Leaf:
        """A new file."""
        with self.lock:
            path = os.path.join(self.folder.name, f"{next(self.numbers)}{suffix}")
        return Leaf(path, _Passing(path, self))


class _Passing:
    """Removes a file with its own end; the folder lasts till then."""

    def __init__(self, path: str, scratch: Scratch):
        self.path, self.scratch = path, scratch

    def __del__(self) -> None:
        with suppress(OSError, TypeError, AttributeError):  # the last two: at the end of the process
            os.unlink(self.path)


class Home:
    """A folder of files, and what it lasts as long as. Where it is says nothing of what is in it, and so `repr` does not tell."""

    def __init__(self, path: str, owner: Any = None):
        self.path, self.owner = path, owner

    def __repr__(self) -> str:
        return "Home"

    def __reduce__(self) -> tuple[Any, ...]:
        return Home, (self.path,)


class Csr(NamedTuple):
    """A sparse matrix by its parts."""

    shape: tuple[int, ...]
    data: Any
    indices: Any
    indptr: Any


def over_leaves(change: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with `change` made of everything in it that is neither a tuple nor a sparse matrix."""
    if sp.issparse(tree):
        m = tree if tree.format == "csr" else tree.tocsr()
        return Csr(m.shape, change(m.data), change(m.indices), change(m.indptr))
    if isinstance(tree, tuple) and not isinstance(tree, Leaf):
        items = [over_leaves(change, item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    return change(tree)


def nbytes(tree: Any) -> int:
    """Bytes of the arrays in a tree.

    >>> nbytes((np.zeros(3), (np.ones(2, dtype=np.int32), "word")))
    32
    """
    if isinstance(tree, np.ndarray):
        return tree.nbytes
    if isinstance(tree, tuple):  # a file is none: it takes no memory
        return 0 if isinstance(tree, Leaf) else sum(map(nbytes, tree))
    return nbytes(over_leaves(lambda part: part, tree)) if sp.issparse(tree) else 0


def store(tree: Any, new: Callable[[], Leaf], known: Mapping[int, Leaf] | None = None) -> Any:
    """The tree with its large arrays in files: a `new` one for each, but for those whose id is `known` as being in one."""

    def put(array: Any) -> Any:
        if not isinstance(array, np.ndarray) or array.nbytes < SMALL or array.dtype.hasobject:
            return array
        if known is not None and id(array) in known:
            return known[id(array)]
        leaf = new()
        np.save(leaf.path, array)
        return leaf

    return over_leaves(put, tree)


def fetch(stored: Any, mode: Any = "c", known: dict[int, Leaf] | None = None) -> Any:
    """The tree again, its arrays mapped: "c" to read (what is written there is forgotten), "r+" to write to the files.

    Which array is in which file is noted in `known`, by id.
    """
    if isinstance(stored, Csr):
        data, indices, indptr = (fetch(part, mode, known) for part in stored[1:])
        return sp.csr_array((data, indices, indptr), shape=stored.shape)
    if isinstance(stored, Leaf):
        array = stored.load(mode)
        if known is not None:
            known[id(array)] = stored
        return array
    if isinstance(stored, tuple):
        items = [fetch(item, mode, known) for item in stored]
        return type(stored)(*items) if hasattr(stored, "_fields") else tuple(items)
    return stored


UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def bytes_of(text: int | str) -> int:
    """A size in bytes from a number, or a text with a unit.

    >>> bytes_of("4GB"), bytes_of("1.5 GiB"), bytes_of(1000)
    (4000000000, 1610612736, 1000)
    """
    words = str(text).strip().lower().removesuffix("b")
    number = words.rstrip("kmgti ")
    try:
        found = float(number) * UNITS[words[len(number) :].strip()]
    except (ValueError, KeyError):
        found = math.nan
    if not 0 < found < math.inf:
        raise ValueError(f'memory must be a size such as "4GB", "512MB" or a number of bytes, got {text!r}')
    return int(found)


def free_memory() -> int:
    """Bytes that this process may still take: what the system has left, and what its container allows."""
    found = [1 << 62]
    try:
        about = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        found.append(1024 * int(about["MemAvailable"].split()[0]))
    except (OSError, KeyError, ValueError):  # no Linux
        found.append(_physical() // 2)
    for limit, used in CONTAINERS:
        try:
            found.append(int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):  # there is none, or "max"
            continue
    return max(min(found), 1 << 20)


CONTAINERS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 4 << 30
