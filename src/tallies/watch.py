"""Consumers of `engine.steps`: progress, checkpoints, stopping, Ctrl-C. Each sees the states go by and changes none."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tallies import storage
from tallies.engine import State
from tallies.errors import FileError


class Progress:
    """A tqdm bar on stderr: shown in terminals and notebooks, silent elsewhere unless `show=True`."""

    def __init__(self, show: bool | None, total: int | None, name: str):
        self.bar: Any = None
        if show is False or (show is None and not (sys.stderr.isatty() or "ipykernel" in sys.modules)):
            return
        from tqdm.auto import tqdm

        # short fits need no bar: it appears after half a second, at once when asked for
        self.bar = tqdm(total=total, desc=name, unit="sweep", delay=0 if show else 0.5, file=sys.stderr)

    def __call__(self, state: State) -> None:
        if self.bar is not None:
            self.bar.set_postfix_str(f"objective {state.objective[-1]:.8g}", refresh=False)
            self.bar.update(len(state.objective) - self.bar.n)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


PAUSE = 2.0  # seconds between two checkpoints at least: quick sweeps would otherwise wait for the disk all the time


class Checkpoint:
    """Write the state to `path`, atomically, every `every` iterations or `seconds` seconds, whichever comes first."""

    def __init__(
        self,
        path: str | Path,
        owner: str,
        about: dict[str, Any],
        collect: Callable[[], list[Any]],
        every: int = 25,
        seconds: float = 60.0,
    ):
        self.path, self.owner, self.about, self.collect, self.every, self.seconds = (
            Path(path),
            owner,
            about,
            collect,
            every,
            seconds,
        )
        if self.path.is_dir():
            raise IsADirectoryError(f"checkpoint must be a file to write, but {str(self.path)!r} is a folder; add a file name")
        self.written, self.clock = -1, time.monotonic()

    def __call__(self, state: State) -> None:
        passed, sweeps = time.monotonic() - self.clock, len(state.objective) - max(self.written, 0)
        if passed > self.seconds or (sweeps >= self.every and passed >= PAUSE):
            self.write(state)

    def write(self, state: State) -> None:
        if self.written == len(state.objective):
            return
        tree = {**self.about, "state": State(state.params, self.collect(), state.objective)}
        storage.write(self.path, "checkpoint", self.owner, tree)
        self.written, self.clock = len(state.objective), time.monotonic()


def read_checkpoint(path: str | Path, owner: str, about: dict[str, Any], records: list[type]) -> tuple[State, int]:
    """The state and seed stored at `path`, after checking that they belong to this model and these data."""

    def types(found: str) -> list[type]:
        if found != owner:
            raise FileError(f"the checkpoint {path} is of a {found}, but this is a {owner}; resume with the model that wrote it")
        return [*records, State]

    tree = storage.read(path, "checkpoint", types)
    for key, what in (("model", "hyperparameters"), ("data", "data")):
        if tree.get(key) != about[key]:
            raise FileError(
                f"the checkpoint {path} was written with other {what}: it has {tree.get(key)}, this fit has {about[key]}; "
                "resume with the same model and data, or start a new fit"
            )
    return tree["state"], tree["seed"]


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside the block, Ctrl-C asks to stop after the running sweep instead of breaking it; a second one breaks it.

    Yields a function that tells whether to stop. Outside the main thread, or where the program has a handler of its own,
    nothing changes.
    """
    current = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if current is not signal.default_int_handler:
        yield lambda: False
        return
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        print("\nStopping after this sweep (Ctrl-C again: at once).", file=sys.stderr)

    signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, current)
