"""Wrongs that tests must notice: all of them apply, and a sample is noticed; `make mutants` tries the whole list."""

import subprocess
import sys
from pathlib import Path

import pytest

from mutants import ROOMS, mutants

HERE = Path(__file__).parent


def test_every_wrong_applies_once_and_every_room_has_some():
    found = mutants(list(ROOMS))  # exits where the text of one is not found exactly once
    rooms = [m.room for m in found]
    assert len(found) >= 120
    assert min(rooms.count(room) for room in ROOMS) >= 15
    assert len({(m.wrong.file, m.wrong.old, m.wrong.new) for m in found}) == len(found)


@pytest.mark.skipif(sys.platform == "win32", reason="wrongs are tried in forks")
def test_a_sample_is_noticed():
    done = subprocess.run([sys.executable, HERE / "mutants.py", "--sample", "4"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 wrongs: 4 noticed" in done.stdout
