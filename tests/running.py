"""Commands in processes of their own, to be stopped and killed."""

from __future__ import annotations

import subprocess
import sys
import time

from tallies.runs import unfinished


def start(*words: str) -> subprocess.Popen:
    code = "import sys; from tallies import watch; watch.PAUSE = 0.0; from tallies.cli.main import main; main()"
    return subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until_checkpoint(child: subprocess.Popen) -> None:
    """Wait until the fit has written a checkpoint."""
    end = time.monotonic() + 240  # compiling on a busy machine
    while not (unfinished("RUN") / "checkpoint").exists():
        assert child.poll() is None, child.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)
