"""The same numbers without a compiler; `determinism.py` compares machines, versions and settings."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from determinism import fits, gaps

HERE = Path(__file__).parent
SOME = ["lda", "gda shared", "gda class with gaps", "naive bayes words", "fem", "pln", "author-concept mentions"]


def test_nothing_compiled_gives_the_same_numbers(tmp_path):
    words = [sys.executable, HERE / "determinism.py", "--rows", "20", "--out", tmp_path / "off.npz", "--only", *SOME]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    worst = gaps(fits(20, 1, SOME), dict(np.load(tmp_path / "off.npz", allow_pickle=False)))
    assert sorted(worst) == sorted(SOME)
    assert worst["lda"] == 0  # draws, of which one other bit would change all that follow
    assert max(worst.values()) < 1e-9, worst


def test_differences_are_seen():
    one = {"a/0": np.array([1.0, np.nan]), "a/1": np.array(["x"]), "b/0": np.array([2.0, 4.0]), "c/0": np.zeros(2)}
    assert gaps(one, one) == {"a": 0, "b": 0, "c": 0}
    assert gaps(one, one | {"a/1": np.array(["y"])})["a"] == np.inf
    assert gaps(one, one | {"b/0": np.array([2.0, 4.4])})["b"] == pytest.approx(0.1)
    assert gaps(one, one | {"c/0": np.zeros(3)})["c"] == np.inf
    assert gaps(one, {"a/0": one["a/0"], "a/1": one["a/1"]}) == {"a": 0, "b": np.inf, "c": np.inf}
