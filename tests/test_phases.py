"""What a terminal is told while something takes long, and how Ctrl-C is answered: seen through a pseudo-terminal."""

import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from running import Terminal, busy

pytest.importorskip("pty")

# a call that neither lets the main thread hear signals nor holds the lock of the interpreter
LONG = "__import__('hashlib').pbkdf2_hmac('sha256', b'a', b'b', {})"


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
    assert terminal.until("reading counts.csv ...") < 1.5 * busy()  # half a second, and what a busy machine adds
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
    assert terminal.until(words) < 2.0 * busy()  # one second, and what a busy machine adds
    assert terminal.child.poll() is None
    if "hard" in around:
        terminal.child.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert terminal.end() == 130
        assert time.monotonic() - begun < 6 * busy()
    else:
        terminal.child.kill()
        terminal.end()


def test_what_hears_nothing_is_ended_by_the_first_ctrl_c_with_what_there_is_to_tidy(tmp_path):
    code = f"""
import pathlib
from tallies import phases
phases.PATIENCE = 1.0
with phases.answering("Stopping", wait=0.5, hard=True), phases.tidying(pathlib.Path({str(tmp_path / "left")!r}).touch):
    print("go", flush=True)
    {LONG.format(slow(60))}
"""
    terminal = Terminal(code)
    terminal.until("go")
    time.sleep(1.0)  # until it is in its long call
    terminal.child.send_signal(signal.SIGINT)
    begun = time.monotonic()
    assert terminal.end() == 130
    assert time.monotonic() - begun < 30  # one second, and what a busy machine adds; the call takes a minute
    assert "Stopped." in terminal.text
    assert (tmp_path / "left").exists()


COMMAND = """
from tallies import phases
phases.DELAY, phases.TICK = 0.0, 0.005
from tallies.cli.main import main
main()
"""


# several in one process, which takes seconds to begin
COMMANDS = """
import sys
from tallies import phases
phases.DELAY, phases.TICK = 0.0, 0.005
from tallies.cli.main import main
for words in sys.argv[1:]:
    sys.argv[1:] = words.split()
    main()
    print("ended", flush=True)
"""


def test_every_phase_of_a_command_has_its_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6))
    pd.DataFrame(X, columns=list("abcdef")).assign(kind=np.where(X[:, 0] > 0, "p", "q")).to_csv("n.csv", index=False)
    told = {
        "fit gda n.csv --target kind --out RUN": ["starting ...", "reading n.csv ...", "GDA:"],
        "score RUN n.csv": ["scoring by n.csv ..."],
        "report RUN n.csv": ["reading n.csv ...", "writing report.html ..."],
        "score RUN n.csv --quiet": [],
    }
    terminal = Terminal(COMMANDS, *told)
    assert terminal.end() == 0, terminal.text
    said = terminal.text.split("ended")
    assert len(said) == len(told) + 1
    for phases, text in zip(told.values(), said, strict=False):
        for phase in phases:
            assert phase in text
    assert "..." not in said[3]


def test_ctrl_c_while_reading_is_answered_and_ends_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(200_000, 8))
    pd.DataFrame(X, columns=list("abcdefgh")).assign(kind="p").to_csv("n.csv", index=False)
    terminal = Terminal(COMMAND, "fit", "gda", "n.csv", "--target", "kind", "--out", "RUN")
    terminal.until("reading n.csv ...")
    terminal.child.send_signal(signal.SIGINT)
    begun = time.monotonic()
    assert terminal.end() == 130
    assert time.monotonic() - begun < 8 * busy()
    assert "Stopped" in terminal.text
    assert [path.name for path in tmp_path.iterdir()] == ["n.csv"]


def test_ctrl_c_while_starting_is_answered():
    terminal = Terminal(COMMAND, "score", "RUN", "n.csv")
    terminal.until("starting ...")
    terminal.child.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert "Stopped." in terminal.text


ERRORS = {
    "standard errors, 20000 fits to redrawn rows": """
import numpy as np, tallies
X = np.random.default_rng(0).integers(0, 3, (60, 4)).astype(str)
tallies.FEM(ridge=1.0).fit(X, X[:, 0]).standard_errors(X, X[:, 0], n_boot=20_000)
""",
    "standard errors of coefficients": """
import numpy as np, tallies, warnings
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
model = tallies.PLN(covariance="diagonal", max_iter=3).fit(rng.poisson(3.0, (5000, 60)), covariates=rng.normal(size=(5000, 3)))
while True:
    model.coefficient_covariance()
""",
}


@pytest.mark.parametrize("told", ERRORS)
def test_errors_by_bootstrap_and_sandwich_are_told_and_stopped(told):
    terminal = Terminal(ERRORS[told])
    terminal.until(told)
    terminal.child.send_signal(signal.SIGINT)
    begun = time.monotonic()
    assert terminal.end() == -signal.SIGINT
    assert time.monotonic() - begun < 8 * busy()
    assert "KeyboardInterrupt" in terminal.text
