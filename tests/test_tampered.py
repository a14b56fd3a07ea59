"""Saved models and states of fits that somebody changed: a sample of `tests/tampering.py`, which `make fuzz` runs whole."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("models", "what"), [(["naive-bayes", "lda", "fem"], []), (["lda", "pln"], ["--checkpoints"])])
def test_changed_files_are_refused_or_answer(models, what):
    words = ["--files", "30", "--models", *models, *what]
    done = subprocess.run([sys.executable, Path(__file__).parent / "tampering.py", *words], capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert set(found) == set(models)
    for model, counts in found.items():
        assert not counts["failures"], (model, counts["failures"])
        assert counts["refused"] > counts["used"] > 0
