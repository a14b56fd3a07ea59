"""What a terminal is told while something takes long, and how Ctrl-C is answered: seen through a pseudo-terminal."""

import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest

from running import usual_signals

pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")

# a call that neither lets the main thread hear signals nor holds the lock of the interpreter
LONG = "__import__('hashlib').pbkdf2_hmac('sha256', b'a', b'b', {})"


class Terminal:
    """A process whose stderr is a terminal."""

    def __init__(self, code: str, *words: str):
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


def slow(seconds: float) -> int:
    """Rounds of `LONG` that take about so long on this machine, whatever else it does."""
    begun = time.monotonic()
    exec(LONG.format(200_000))
    return int(200_000 * seconds / (time.monotonic() - begun))


def test_the_command_says_that_it_starts_before_it_loads_anything():
    code = """
import sys
from tallies import __main__, phases
begin = phases.DISPLAY.begin
phases.DISPLAY.begin = lambda what: print(what, "typer" in sys.modules, flush=True) or begin(what)
sys.argv = ["tallies", "info", "no such run"]
__main__.main()
"""
    terminal = Terminal(code)
    terminal.until("starting False")
    assert terminal.end() == 2


def test_a_phase_is_told_within_half_a_second_and_gone_afterwards():
    code = f"""
from tallies.phases import phase
print("go", flush=True)
with phase("reading counts.csv"):
    {LONG.format(slow(4))}
print("done", flush=True)
"""
    terminal = Terminal(code)
    terminal.until("go")
    assert terminal.until("reading counts.csv ...") < 1.5  # half a second, and what a busy machine adds
    assert "done" not in terminal.text
    terminal.until("reading counts.csv ... 1 s")
    assert terminal.end() == 0
    assert terminal.text.endswith("\r\x1b[Kdone\r\n")


def test_short_phases_files_and_quiet_ones_say_nothing(capsys):
    code = """
import time
from tallies.phases import hush, phase
with phase("short"):
    pass
with phase("quiet", show=False):
    time.sleep(1)
hush()
with phase("hushed"):
    time.sleep(1)
print("done")
"""
    terminal = Terminal(code)
    assert terminal.end() == 0
    assert terminal.text == "done\r\n"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr == ""


def test_compiling_is_told_and_what_went_on_before_it_comes_back():
    code = """
import time
from tallies import phases
phases.DELAY, phases.TICK = 0.0, 0.005
from numba import njit
with phases.phase("fitting"):
    time.sleep(0.3)
    njit(lambda x: x + 1)(1.0)
    time.sleep(0.3)
"""
    terminal = Terminal(code)
    assert terminal.end() == 0
    before, _, after = terminal.text.partition("compiling, once on this machine ...")
    assert "fitting ..." in before
    assert "fitting ..." in after


@pytest.mark.parametrize(
    ("around", "words"),
    [
        ("phases.answering('Stopping, when what runs now lets go', wait=0.5, hard=True)", "lets go"),
        ("watch.interruptible()", "Stopping after this sweep"),
    ],
)
def test_ctrl_c_is_answered_within_a_second_where_nothing_can_be_cut(around, words):
    code = f"""
from tallies import phases, watch
with {around}:
    print("go", flush=True)
    {LONG.format(slow(20))}
"""
    terminal = Terminal(code)
    terminal.until("go")
    time.sleep(1.0)  # until it is in its long call
    terminal.child.send_signal(signal.SIGINT)
    assert terminal.until(words) < 2.0  # one second, and what a busy machine adds
    assert terminal.child.poll() is None
    if "hard" in around:
        terminal.child.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert terminal.end() == 130
        assert time.monotonic() - begun < 6
    else:
        terminal.child.kill()
        terminal.end()


COMMAND = """
from tallies import phases
phases.DELAY, phases.TICK = 0.0, 0.005
from tallies.cli.main import main
main()
"""


def test_every_phase_of_a_command_has_its_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6))
    pd.DataFrame(X, columns=list("abcdef")).assign(kind=np.where(X[:, 0] > 0, "p", "q")).to_csv("n.csv", index=False)
    told = {
        ("fit", "gda", "n.csv", "--target", "kind", "--out", "RUN"): ["starting ...", "reading n.csv ...", "GDA:"],
        ("score", "RUN", "n.csv"): ["scoring by n.csv ..."],
        ("report", "RUN", "n.csv"): ["reading n.csv ...", "writing report.html ..."],
    }
    for words, phases in told.items():
        terminal = Terminal(COMMAND, *words)
        assert terminal.end() == 0, terminal.text
        for phase in phases:
            assert phase in terminal.text
    terminal = Terminal(COMMAND, "score", "RUN", "n.csv", "--quiet")
    assert terminal.end() == 0
    assert "..." not in terminal.text


def test_ctrl_c_while_reading_is_answered_and_ends_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(200_000, 8))
    pd.DataFrame(X, columns=list("abcdefgh")).assign(kind="p").to_csv("n.csv", index=False)
    terminal = Terminal(COMMAND, "fit", "gda", "n.csv", "--target", "kind", "--out", "RUN")
    terminal.until("reading n.csv ...")
    terminal.child.send_signal(signal.SIGINT)
    begun = time.monotonic()
    assert terminal.end() == 130
    assert time.monotonic() - begun < 8
    assert "Stopped" in terminal.text
    assert [path.name for path in tmp_path.iterdir()] == ["n.csv"]


def test_ctrl_c_while_starting_is_answered():
    terminal = Terminal(COMMAND, "score", "RUN", "n.csv")
    terminal.until("starting ...")
    terminal.child.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert "Stopped." in terminal.text
