"""Files and folders that appear whole or not at all, whatever kills the process or cuts the power."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from tallies.errors import refuse_folder

try:
    import fcntl
except ImportError:  # Windows: there nothing is locked
    fcntl = None  # type: ignore[assignment]

OWNER = "owner"  # file in a folder that tells whose it is, and is locked for as long as that process lives


def this_process() -> str:
    """This process and its machine, as a file `OWNER` tells of them."""
    return f"process {os.getpid()} on {platform.node()}"


def sync(path: str | Path) -> None:
    """Wait until a file, or what a folder lists, is on the disk."""
    with suppress(PermissionError):  # Windows opens no folders
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def lock(handle: int) -> bool:
    """Whether this process has the open file for itself from now on, until it closes it or dies."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)  # others come from file systems without locks
    return True


def own(folder: str) -> int | None:
    """Mark a folder that does not last as this process's, until it dies or closes the file handle that this gives; None where there
    are no locks. The mark is written only when the lock is held: a folder without one is never taken for what is left."""
    if fcntl is None:
        return None
    handle = os.open(os.path.join(folder, OWNER), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(handle, this_process().encode())
    except OSError:  # a file system without locks
        os.close(handle)
        return None
    return handle


def remove_left(parent: str, prefix: str) -> None:
    """Remove the folders in `parent` that dead processes left."""
    for folder in Path(parent).glob(f"{escape(prefix)}*"):
        if is_left(folder):
            shutil.rmtree(folder, ignore_errors=True)


def is_left(folder: Path) -> bool:
    """Whether `own` has marked a folder for a process that is dead: of this machine, for locks of others may not be seen here."""
    owner = folder / OWNER
    with suppress(OSError, ValueError):
        here = owner.is_file() and owner.read_text(encoding="utf-8").partition(" on ")[2] == platform.node()
        return here and abandoned(owner)
    return False


def abandoned(path: Path) -> bool:
    """Whether a file that its writer locks is there, and has no writer any more."""
    with suppress(OSError), open(path, "rb") as file:
        return lock(file.fileno())
    return False


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` and move it there only if the block succeeds: a reader never sees half a file."""
    path = Path(path)
    refuse_folder(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{escape(path.name)}.*.part"):  # of processes that were killed
        if abandoned(left):
            left.unlink(missing_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)  # the user's usual permissions
    try:
        lock(handle)
        yield part
        sync(part)
        part.replace(path)
        sync(path.parent)
    finally:
        os.close(handle)
        part.unlink(missing_ok=True)


def exchange(new: Path, old: Path, trash: str) -> None:
    """Put the folder `new` in the place of `old` and remove what was there, by one rename where the system has one that swaps."""
    if _swap(new, old):
        sync(old.parent)
        remove(new, trash)
    else:
        remove(old, trash)
        new.rename(old)
        sync(old.parent)


def remove(folder: Path, trash: str) -> None:
    """Remove a folder, which is gone from its place at once: what a kill leaves of it has a name that begins with `trash`."""
    if folder.exists():
        aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=trash))
        folder.rename(aside / "old")
        shutil.rmtree(aside, ignore_errors=True)


def _swap(a: Path, b: Path) -> bool:
    """Exchange two folders in one step; False where system or file system cannot."""
    here, flag = -100, 2  # AT_FDCWD; RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS are both 2
    names = os.fsencode(a), os.fsencode(b)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            return libc.renamex_np(*names, flag) == 0
        return libc.renameat2(here, names[0], here, names[1], flag) == 0
    except (OSError, AttributeError, TypeError):
        return False
