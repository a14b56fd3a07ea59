"""Commands in processes of their own, to be stopped and killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from tallies.runs import unfinished


def usual_signals() -> None:
    """A test may itself run under nohup or in the background of a shell, where signals that a child is to be sent are ignored."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)


def begin(*words: str) -> subprocess.Popen:
    """Python in a process of its own, with signals as in a terminal."""
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *words], stdout=pipe, stderr=pipe, text=True, preexec_fn=usual_signals)


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
