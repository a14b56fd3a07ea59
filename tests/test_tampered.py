"""Saved models and states of fits that somebody changed: a sample of `tests/tampering.py`, which `make fuzz` runs whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

MODELS, STATES = ["naive-bayes", "lda", "fem"], ["lda", "pln"]
# both in one process, which takes seconds to begin
CODE = f"""
import json, tampering
print(json.dumps([tampering.campaign(25, 0, {MODELS}, False), tampering.campaign(25, 0, {STATES}, True)]))
"""


def test_changed_files_are_refused_or_answer():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment)
    models, states = json.loads(done.stdout)
    assert [list(models), list(states)] == [MODELS, STATES]
    for model, counts in (*models.items(), *states.items()):
        assert not counts["failures"], (model, counts["failures"])
        assert counts["refused"] > counts["used"] > 0
