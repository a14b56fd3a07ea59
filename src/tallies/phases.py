"""What is going on, in one line of the terminal; and Ctrl-C answered in words at once, whatever the main thread is at.

Both are told by threads of their own, for the main thread may be in a compiler or a long product of matrices. Only the standard
library is imported: the command says that it is starting before anything heavy is loaded.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

DELAY = 0.4  # seconds of silence that nobody minds
TICK = 0.1
GRACE = 2.0  # seconds in which a second Ctrl-C may end the process in good order
PATIENCE = 3.0  # seconds in which the first may, where nothing is lost with what runs


class Phase:
    """One that runs."""

    def __init__(self, what: str):
        self.what, self.began = what, time.monotonic()


class Display:
    """The line of the terminal on stderr that says what is going on."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.running: list[Phase] = []  # the innermost last
        self.silent_since = self.silent_for = 0.0  # when it was silent from, and how long before the first phase it already was
        self.visible = self.hushed = False
        self.teller: threading.Thread | None = None
        self.bar: Callable[[str], None] | None = None  # of a fit, which has the line while it is drawn
        self.under_bar = 0  # phases that ran before it

    def begin(self, what: str) -> Phase:
        with self.lock:
            if not self.running and not self.visible:
                self.silent_since, self.silent_for = time.monotonic() - self.silent_for, 0.0
            phase = Phase(what)
            self.running.append(phase)
            if self.teller is None:
                self.teller = threading.Thread(target=self.tell, daemon=True)
                self.teller.start()
            return phase

    def end(self, phase: Phase) -> None:
        with self.lock:
            self.running.remove(phase)
            if self.bar is not None:
                self.bar("")
            elif not self.running:
                self.clear()

    def tell(self) -> None:
        """Until nothing runs any more, say what does."""
        while True:
            time.sleep(TICK)
            hear_compilers()
            with self.lock:
                if not self.running:
                    self.teller = None
                    return
                if not self.hushed and time.monotonic() - self.silent_since >= DELAY:
                    with suppress(OSError, ValueError):  # a terminal that is gone
                        self.draw()

    def draw(self) -> None:
        phase = self.running[-1]
        passed = int(time.monotonic() - phase.began)
        text = phase.what + (f" ... {passed} s" if passed else " ...")
        if self.bar is not None:
            if len(self.running) > self.under_bar:
                self.bar(text)
            return
        print("\r" + text[: shutil.get_terminal_size().columns - 1] + "\x1b[K", end="", file=sys.stderr, flush=True)
        self.visible = True

    def clear(self) -> None:
        """Make the line free for other words."""
        with self.lock, suppress(OSError, ValueError):
            if self.visible:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self.visible = False
            self.silent_since = time.monotonic()


DISPLAY = Display()
clear = DISPLAY.clear


def hush() -> None:
    """Say nothing from now on."""
    DISPLAY.clear()
    DISPLAY.hushed = True


@contextmanager
def phase(what: str, show: bool | None = None) -> Iterator[None]:
    """Inside the block a terminal says `what`, after a moment; files and pipes are told nothing. `show=False`: say nothing.

    >>> with phase("reading counts.csv"):
    ...     pass
    """
    if show is False or DISPLAY.hushed or not sys.stderr.isatty():
        yield
        return
    begun = DISPLAY.begin(what)
    try:
        yield
    finally:
        DISPLAY.end(begun)


@contextmanager
def bar(tell: Callable[[str], None]) -> Iterator[None]:
    """Inside the block the line is that of a progress bar, which is told of phases that begin meanwhile."""
    DISPLAY.clear()
    DISPLAY.bar, DISPLAY.under_bar = tell, len(DISPLAY.running)
    try:
        yield
    finally:
        DISPLAY.bar = None


heard = False  # whether compilers are listened to


def hear_compilers() -> None:
    """From when Numba is loaded, a phase for everything that it compiles: what is in its cache it does not compile."""
    global heard
    event: Any = sys.modules.get("numba.core.event")
    if heard or event is None or not hasattr(event, "register"):
        return
    heard = True
    compiling: list[Phase | None] = []

    class Ear(event.Listener):
        def on_start(self, event: Any) -> None:
            shown = bool(DISPLAY.running) and not DISPLAY.hushed
            compiling.append(DISPLAY.begin("compiling, once on this machine") if shown else None)

        def on_end(self, event: Any) -> None:
            done = compiling.pop()
            if done is not None:
                DISPLAY.end(done)

    event.register("numba:compile", Ear())


class Words:
    """What to say to Ctrl-C inside a block, how long to wait for the main thread to say it, and whether it ends the process."""

    def __init__(self, told: str, wait: float, hard: bool):
        self.told, self.wait, self.hard = told, wait, hard


class Answers:
    """Those to Ctrl-C: the words of the innermost block."""

    def __init__(self) -> None:
        self.words: list[Words] = []
        self.tidy: list[Callable[[], object]] = []  # what to do before the process is ended, the innermost last
        self.pressed, self.heard = 0, False

    def listen(self, ear: socket.socket, hard: bool) -> None:
        """Answer every Ctrl-C until the other end is closed; where it is `hard`, the second one ends the process."""
        with ear:
            while signals := ear.recv(16):
                for _ in range(signals.count(signal.SIGINT)):
                    self.pressed += 1
                    block = self.words[-1] if self.words else Words("", 0.0, False)
                    if hard and self.pressed > 1:
                        time.sleep(GRACE)
                        end_process()
                    if block.hard:  # nothing is lost with what runs
                        threading.Thread(target=self.end, args=(block,), daemon=True).start()
                    time.sleep(block.wait)
                    if self.words and block.told:
                        clear()
                        with suppress(OSError, ValueError):
                            print("\n" + block.told, file=sys.stderr, flush=True)

    def end(self, block: Words) -> None:
        """End the process, where the main thread has not left the block in time."""
        time.sleep(PATIENCE)
        if block in self.words:
            clear()
            with suppress(OSError, ValueError):
                print("Stopped.", file=sys.stderr, flush=True)
            end_process()


def end_process(code: int = 130) -> None:
    """End it whatever its threads are at, after what there is to tidy."""

    def tidy() -> None:
        for leave in reversed(ANSWERS.tidy):
            leave()
        atexit._run_exitfuncs()  # folders for the time of a fit, and the like

    work = threading.Thread(target=tidy, daemon=True)
    work.start()
    work.join(GRACE)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


@contextmanager
def tidying(leave: Callable[[], object]) -> Iterator[None]:
    """Inside the block, what to do before the process is ended from outside of the main thread."""
    ANSWERS.tidy.append(leave)
    try:
        yield
    finally:
        ANSWERS.tidy.remove(leave)


ANSWERS = Answers()


@contextmanager
def answering(told: str, wait: float = 0.0, hard: bool = False) -> Iterator[bool]:
    """Inside the block Ctrl-C is answered by `told` after `wait` seconds, unless the block has ended by then.

    Yields whether that is so: only in the main thread, and where nobody else listens to signals. `hard`: it ends the process within
    `PATIENCE` where the main thread hears nothing, and a second Ctrl-C does within `GRACE`, also inside blocks inside it.
    """
    words = Words(told, wait, hard)
    ANSWERS.words.append(words)
    try:
        if ANSWERS.heard or threading.current_thread() is not threading.main_thread():
            yield ANSWERS.heard
            return
        mouth, ear = socket.socketpair()
        mouth.setblocking(False)
        before = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        ANSWERS.pressed, ANSWERS.heard = 0, before == -1
        try:
            if not ANSWERS.heard:  # somebody's loop, such as a notebook's, listens
                signal.set_wakeup_fd(before)
            threading.Thread(target=ANSWERS.listen, args=(ear, hard), daemon=True).start()
            yield ANSWERS.heard
        finally:
            if ANSWERS.heard:
                signal.set_wakeup_fd(-1)
            ANSWERS.heard = False
            mouth.close()
    finally:
        ANSWERS.words.remove(words)
