"""Posteriors and errors on simulated data: samples of the studies of `make calibrate`."""

import subprocess
import sys
from pathlib import Path

import pytest

from calibration import study

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("name", "sets"), [("lda", 80), ("classes", 100), ("latents", 150), ("coefficients", 12), ("edges", 5), ("probabilities", 8)]
)
def test_what_is_said_is_what_comes_true(name, sets):
    found = study(name, sets, seed=1)
    assert found.good, found


@pytest.mark.skipif(sys.platform == "win32", reason="wrongs are tried in forks")
def test_a_broken_sampler_is_caught():
    """A sampler that does not take out the own token, in a copy of the package, against the study of posteriors alone."""
    words = [
        "--room",
        "topics",
        "--only",
        "own token not taken out of its document",
        "--by",
        "test_calibration.py::test_what_is_said_is_what_comes_true[lda-80]",
    ]
    done = subprocess.run([sys.executable, HERE / "mutants.py", *words], capture_output=True, text=True)
    assert "1 wrongs: 1 noticed" in done.stdout, done.stdout + done.stderr
    assert "test_what_is_said_is_what_comes_true[lda-80]" in done.stdout
