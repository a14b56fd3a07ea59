"""Files of a cluster that are in no folder: wherever fsspec writes, such as s3://bucket/folder."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import Lock
from typing import Any

from tallies.errors import ClusterError, TalliesError, make_folder, need
from tallies.mapped import Leaf


def is_url(path: Any) -> bool:
    """Whether a path is one that fsspec opens, and not a folder.

    >>> is_url("s3://bucket/scratch"), is_url("/tmp/scratch"), is_url(None)
    (True, False, False)
    """
    return isinstance(path, str) and "://" in path


def folder(path: str) -> str:
    """A folder for files that do not last, made where there is none; absolute, since workers may be elsewhere."""
    return os.path.abspath(make_folder(path))


def system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path there."""
    fsspec = need("fsspec", "remote", f"scratch={url!r}")
    try:
        return fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:  # there is no such system, or what it needs is not installed
        told = f"scratch={url!r} cannot be opened: {error}"
        raise ClusterError(f"{told}; install what fsspec needs for it, or name a folder") from error


class Remote:
    """A folder of such files, which go when nobody has them any more."""

    def __init__(self, url: str):
        self.url, self.numbers, self.lock = f"{url.rstrip('/')}/tallies-{uuid.uuid4().hex[:12]}", count(), Lock()
        with told(url):
            fs, path = system(self.url)
            fs.makedirs(path, exist_ok=True)
            fs.pipe_file(f"{path}/seen", b"")  # by this workers see whether they see it

    def leaf(self, suffix: str = ".npy") -> Leaf:
        """A new file."""
        with self.lock:
            url = f"{self.url}/{next(self.numbers)}{suffix}"
        return Leaf(url, _Passing(url, self))

    def __del__(self) -> None:
        with suppress(Exception):  # at the end of the process anything may be gone
            fs, path = system(self.url)
            fs.rm(path, recursive=True)


class _Passing:
    """Removes a file with its own end; the folder lasts till then."""

    def __init__(self, url: str, home: Remote):
        self.url, self.home = url, home

    def __del__(self) -> None:
        with suppress(Exception):
            fs, path = system(self.url)
            fs.rm_file(path)


@contextmanager
def told(url: str) -> Iterator[None]:
    """What may befall such files, in a sentence."""
    try:
        yield
    except TalliesError:
        raise
    except Exception as error:  # each system has errors of its own
        why = f"{type(error).__name__}: {error}"[:300]
        raise ClusterError(f"scratch={url!r} cannot be written to ({why}); check its name and your rights there") from error


def write(packed: bytes, url: str) -> None:
    """Write so that a reader never sees half a file; one that is there already has the same bits."""
    with told(url):
        fs, path = system(url)
        part = f"{path}.{uuid.uuid4().hex[:8]}.part"
        fs.pipe_file(part, packed)
        fs.invalidate_cache()
        if fs.exists(path):
            fs.rm_file(part)
        else:
            fs.mv(part, path)


def read(url: str) -> bytes:
    """All of a file."""
    fs, path = system(url)
    return bytes(fs.cat_file(path))


def seen(url: str) -> bool:
    """Whether this process sees the folder of a `Remote`."""
    fs, path = system(url)
    return bool(fs.exists(f"{path}/seen"))
