"""Watchers of a run: progress, checkpoints, Ctrl-C. Each sees the states go by and changes none."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from tallies import forms, phases, storage
from tallies.aside import Call, aside
from tallies.engine import Kept, Record, Stage, State
from tallies.errors import FileError, refuse_folder
from tallies.forms import Form
from tallies.phases import phase
from tallies.sums import Half


@contextmanager
def progress(show: bool | None, name: str) -> Iterator[Callable[[Stage, State], None]]:
    """A tqdm bar on stderr with the name of the stage: shown in terminals and notebooks, silent elsewhere unless `show=True`."""
    if show is False or (show is None and not (sys.stderr.isatty() or "ipykernel" in sys.modules)):
        yield lambda stage, state: None
        return
    from tqdm.auto import tqdm

    shown: set[str] = set()
    first = ExitStack()  # until the bar has something to draw
    first.enter_context(phase(f"{name}, first sweep"))
    # short fits need no bar: it appears after half a second, at once when asked for
    bar = tqdm(desc=name, unit="sweep", delay=0 if show else 0.5, file=sys.stderr)

    def draw(stage: Stage, state: State) -> None:
        if not shown:
            first.close()
            whole.enter_context(phases.bar(lambda text: bar.set_postfix_str(text)))
        new = stage.name not in shown  # stages side by side take turns, and need not be drawn at each
        shown.add(stage.name)
        with suppress(OSError):  # a terminal that is gone stops no fit
            bar.total = stage.most
            bar.set_description_str(f"{name}, {stage.name}" if stage.name else name, refresh=new)
            known = not math.isnan(state.objective[-1])
            bar.set_postfix_str(f"objective {state.objective[-1]:.8g}" if known else "", refresh=False)
            bar.n = len(state.objective) - 1
            bar.update(1)

    with ExitStack() as whole, first:
        try:
            yield draw
        finally:
            with suppress(OSError):
                bar.close()


EVERY, SECONDS = 25, 60.0  # a checkpoint comes after so many sweeps or seconds, whichever is first ...
PAUSE = 2.0  # ... but with so many seconds between two at least: quick sweeps would otherwise wait for the disk all the time


class Checkpoint:
    """Writes how far a fit has come, atomically, every now and then.

    `path` holds the states of the stages that run; each stage that ended is a file of its own beside it, written once.
    """

    def __init__(self, path: str | Path, owner: str, about: dict[str, Any], record: Callable[[], Record]):
        self.path, self.owner, self.record = Path(path), owner, record
        refuse_folder(path, "checkpoint")
        self.about = {"fit": uuid.uuid4().hex, **about}  # so that files of an earlier fit are never taken for ones of this
        self.ended, self.sweeps, self.clock = 0, 0, time.monotonic()
        self.begun: Call | None = None

    def __call__(self, last: bool) -> None:
        """After a sweep: write where it is time to, and after the last one of a fit that is cut."""
        self.sweeps += 1
        passed = time.monotonic() - self.clock
        if last:
            self.begin()
        elif passed > SECONDS or (self.sweeps >= EVERY and passed >= PAUSE):
            self.write()

    def write(self) -> None:
        """Write all that is new."""
        self._write(self.record())

    def begin(self) -> None:
        """The same in a thread of its own, for a fit that was cut: a large state is written while the model is made. See `end`."""
        self.begun = Call(partial(self._write, self.record()))

    def end(self) -> None:
        """Wait for what was begun."""
        if self.begun is not None:
            self.begun.result()

    def _write(self, record: Record) -> None:
        if not record.states:
            return
        for k in range(self.ended, len(record.ended)):
            storage.write(_beside(self.path, k), "stage", self.owner, {"fit": self.about["fit"], "kept": record.ended[k]})
        tree = {**self.about, "ended": len(record.ended), "states": record.states}
        storage.write(self.path, "checkpoint", self.owner, tree)
        self.ended, self.sweeps, self.clock = len(record.ended), 0, time.monotonic()


def _beside(path: Path, k: int) -> Path:
    """Where the end of the k-th stage is kept."""
    return path.with_name(f"{path.name}.{k + 1}")


def read_checkpoint(path: str | Path, owner: str, about: dict[str, Any], records: list[type]) -> tuple[Record, int]:
    """How far the fit at `path` had come, and its seed, after checking that they belong to this model and these data.

    Notes in `about` which fit it is: one that goes on writes files that fit together with those already there, cut when it may be.
    """

    def types(found: str) -> list[type]:
        if found != owner:
            raise FileError(f"the checkpoint {path} is of a {found}, but this is a {owner}; resume with the model that wrote it")
        return [*records, State, Half, Kept]

    tree = storage.read(path, "checkpoint", types)
    check(path, tree, ended=Annotated[int, Form(kind="i", low=0)], states=tuple[State | None, ...], seed=int, fit=str)
    for key, what in (("model", "hyperparameters"), ("data", "data")):
        if tree.get(key) != about[key]:
            raise FileError(
                f"the checkpoint {path} was written with other {what}: it has {tree.get(key)}, this fit has {about[key]}; "
                "resume with the same model and data, or start a new fit"
            )
    ended = []
    for k in range(tree["ended"]):
        part = storage.read(_beside(Path(path), k), "stage", types)
        check(_beside(Path(path), k), part, fit=str, kept=Kept)
        if part["fit"] != tree["fit"]:
            raise FileError(f"{_beside(Path(path), k)} belongs to another fit than {path}; keep the files of a checkpoint together")
        ended.append(part["kept"])
    about["fit"] = tree["fit"]
    return Record(tuple(ended), tree["states"]), tree["seed"]


def check(path: str | Path, tree: dict[str, Any], **hints: Any) -> None:
    """Refuse a checkpoint that does not hold, or give, what it must."""
    try:
        for name, hint in hints.items():
            forms.check(tree.get(name), hint, {}, name)
    except ValueError as error:
        raise FileError(f"the checkpoint {path} is damaged ({error}); start a new fit") from error


class Ear:
    """Hears Ctrl-C, where it `hears` any; called, it tells whether there was one."""

    def __init__(self, hears: bool):
        self.hears, self.asked, self.broken = hears, False, False

    def __call__(self) -> bool:
        return self.asked

    def ask(self, number: int, frame: Any) -> None:
        """The handler of the signal: the first one asks, the second one breaks."""
        if self.asked:
            self.broken = True
            raise KeyboardInterrupt
        self.asked = True
        if not phases.ANSWERS.heard:
            with suppress(OSError):  # the terminal may be gone
                print("\n" + STOPPING, file=sys.stderr)

    def aside(self, call: Callable[[], Any], patience: float | None) -> Any:
        """See `tallies.aside`: where Ctrl-C is heard."""
        return aside(call, self, patience) if self.hears else call()


STOPPING = "Stopping after this sweep, or without it where it takes long (Ctrl-C again: at once)."


@contextmanager
def interruptible() -> Iterator[Ear]:
    """Inside the block, Ctrl-C asks to stop after the running sweep instead of breaking it; a second one breaks it.

    Yields what tells whether to stop; of blocks inside one another the same. Outside the main thread, or where the program has a
    handler of its own, nothing changes.
    """
    current: Any = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if isinstance(outer := getattr(current, "__self__", None), Ear):
        yield outer
        return
    ear = Ear(hears=current is signal.default_int_handler)
    if not ear.hears:
        yield ear
        return
    with phases.answering(STOPPING):
        signal.signal(signal.SIGINT, ear.ask)
        try:
            yield ear
        finally:
            signal.signal(signal.SIGINT, current)
