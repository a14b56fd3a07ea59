"""Commands in processes of their own, to be stopped and killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from packaging.version import Version

from tallies.runs import unfinished

# what is said of a number below the least: Typer has words of its own from 0.29 on
AT_LEAST_1 = "greater than or equal to 1" if Version(version("typer")) >= Version("0.29") else "is not in the range x>=1"


def busy() -> float:
    """How many times as long as alone this machine takes at the moment."""
    wall, own = time.monotonic(), time.thread_time()
    sum(range(3_000_000))
    return max(1.0, (time.monotonic() - wall) / (time.thread_time() - own))


def left_in(scratch: Path) -> list[Path]:
    """What is left of the files of a fit, when the threads that had its last results have let go of it."""
    end = time.monotonic() + 5
    while (left := list(scratch.iterdir())) and time.monotonic() < end:
        time.sleep(0.01)
    return left


def usual_signals() -> None:
    """A test may itself run under nohup or in the background of a shell, where signals that a child is to be sent are ignored."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)


def begin(*words: str, **more: Any) -> subprocess.Popen:
    """Python in a process of its own, with signals as in a terminal."""
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *words], stdout=pipe, stderr=pipe, text=True, preexec_fn=usual_signals, **more)


def command(*words: str) -> subprocess.Popen:
    """The command, which writes a checkpoint after every 25 sweeps, however quick they are."""
    return begin("-c", "from tallies import watch; watch.PAUSE = 0.0; from tallies.cli.main import main; main()", *words)


def until_checkpoint(child: subprocess.Popen) -> None:
    """Wait until the fit has written a checkpoint."""
    end = time.monotonic() + 240  # compiling on a busy machine
    while not (unfinished("RUN") / "checkpoint").exists():
        assert child.poll() is None, child.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)


class Terminal:
    """A process whose stderr is a terminal."""

    def __init__(self, code: str, *words: str):
        import pty  # not on Windows
        import termios

        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 80))  # without a size, no bar is drawn
        env = os.environ | {"COLUMNS": "80"}
        ends: dict[str, Any] = {"stdout": slave, "stderr": slave, "stdin": slave}
        self.child = subprocess.Popen([sys.executable, "-c", code, *words], **ends, env=env, preexec_fn=usual_signals)
        os.close(slave)
        self.text = ""

    def until(self, words: str, seconds: float = 120.0) -> float:
        """Wait for words; how long it took."""
        begun = time.monotonic()
        while words not in self.text:
            left = begun + seconds - time.monotonic()
            assert left > 0, f"{words!r} did not come: {self.text!r}"
            if select.select([self.master], [], [], left)[0]:
                try:
                    self.text += os.read(self.master, 4096).decode()
                except OSError:  # the process is gone
                    assert words in self.text, self.text
        return time.monotonic() - begun

    def end(self, seconds: float = 120.0) -> int:
        """What it has said, and its exit code."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if select.select([self.master], [], [], 0.1)[0]:
                    self.text += os.read(self.master, 4096).decode()
            except OSError:
                break
        code = self.child.wait(max(end - time.monotonic(), 0.1))
        os.close(self.master)
        return code
