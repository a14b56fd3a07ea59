"""A call in a thread of its own, while the main thread hears Ctrl-C: what does not come to its end in time is left behind.

A product of matrices, a factorisation or a compiled loop hears no signal. A thread that was left behind ends when it next looks
(`stopping`, or between two shards); what it still makes is thrown away.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

from tallies.sums import Half

TICK = 0.1  # seconds between two looks at whether Ctrl-C was pressed
LEFT: list[threading.Thread] = []  # those left behind


class Late(Exception):
    """The call had not come to its end in time."""


class Dropped(Exception):
    """A sweep was not carried to its end: Ctrl-C came between two shards, or two pieces of one."""

    def __init__(self, half: Half | None = None, latents: list[Any] | None = None):
        super().__init__(half, latents)
        self.half, self.latents = half, latents  # what was swept, where it cannot be dropped: it has changed the latents


STOP: ContextVar[Callable[[], bool]] = ContextVar("tallies_stop")  # asked between the pieces of a sweep that may be left


def stopping() -> bool:
    """Whether the running sweep should raise `Dropped`."""
    return STOP.get(lambda: False)()


class Call:
    """One that runs."""

    def __init__(self, call: Callable[[], Any]):
        self.value: Any = None
        self.error: BaseException | None = None
        self.done, self.context = threading.Event(), copy_context()
        self.thread = threading.Thread(target=self.work, args=(call,), name="tallies-aside", daemon=True)
        self.thread.start()

    def work(self, call: Callable[[], Any]) -> None:
        try:
            self.value = self.context.run(call)
        except BaseException as error:
            self.error = error
        self.done.set()

    def result(self) -> Any:
        """What the call gave, when it is done; its error is raised here."""
        self.done.wait()
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its frames hold this one and the call: what a fit held would stay until the collector comes by
        return self.value


def aside(call: Callable[[], Any], pressed: Callable[[], bool], patience: float | None) -> Any:
    """What the call gives. So many seconds after Ctrl-C it is left behind, and `Late` raised; None: it is waited for.

    >>> aside(lambda: 1 + 1, lambda: True, 5.0)
    2
    """
    work, since = Call(call), None
    try:
        while not work.done.wait(TICK):
            if patience is not None and pressed():
                since = time.monotonic() if since is None else since
                if time.monotonic() - since >= patience:
                    raise Late
    except BaseException:  # a second Ctrl-C is raised here, too
        LEFT.append(work.thread)
        raise
    return work.result()


def left_behind() -> bool:
    """Whether something that was left behind still runs."""
    return any(thread.is_alive() for thread in LEFT)
