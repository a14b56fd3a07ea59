"""Scratch folders: what a killed process left goes with the next one, and nothing else does."""

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from running import begin
from tallies import disk
from tallies.mapped import Scratch

HOLDS = """
import sys
from tallies.mapped import OUTLIVED, Scratch
OUTLIVED.set(sys.argv[2] == "cluster")
scratch = Scratch(sys.argv[1])
leaf = scratch.leaf()
open(leaf.path, "wb").write(b"much")
print(scratch.folder.name, flush=True)
sys.stdin.read()
"""
MAKES = "import sys; from tallies.mapped import Scratch; print(Scratch(sys.argv[1]).folder.name)"


def holder(place: Path, where: str = "threads") -> tuple[subprocess.Popen, Path]:
    """A process that has a file in scratch, and its folder."""
    child = begin("-c", HOLDS, str(place), where, stdin=subprocess.PIPE)
    return child, Path(child.stdout.readline().strip())


def kill(child: subprocess.Popen) -> None:
    child.send_signal(signal.SIGKILL)
    child.wait()


def next_run(place: Path) -> None:
    subprocess.run([sys.executable, "-c", MAKES, str(place)], check=True)


@pytest.mark.skipif(disk.fcntl is None, reason="files are not locked here")
def test_what_a_killed_process_left_goes_with_the_next_that_of_a_living_one_stays(tmp_path):
    (dead, left), (alive, kept) = holder(tmp_path), holder(tmp_path)
    try:
        kill(dead)
        assert left.is_dir()
        next_run(tmp_path)
        assert sorted(tmp_path.iterdir()) == [kept]
        assert (kept / "0.npy").read_bytes() == b"much"
    finally:
        alive.communicate()
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(disk.fcntl is None, reason="files are not locked here")
def test_what_is_not_surely_the_rest_of_a_dead_process_of_this_machine_stays(tmp_path):
    cluster, shared = holder(tmp_path, "cluster")  # its workers may map the files still
    kill(cluster)
    elsewhere, unmarked, linked = tmp_path / "tallies-elsewhere", tmp_path / "tallies-unmarked", tmp_path / "tallies-linked"
    theirs = tmp_path / "theirs"
    for folder in (elsewhere, unmarked, theirs):
        folder.mkdir()
        (folder / "0.npy").write_bytes(b"much")
    (elsewhere / disk.OWNER).write_text(f"process 1 on not-{platform.node()}")
    (unmarked / disk.OWNER).write_text("")
    (theirs / disk.OWNER).write_text(disk.this_process())
    linked.symlink_to(theirs, target_is_directory=True)
    os.mkfifo(tmp_path / "tallies-pipe")
    next_run(tmp_path)
    for folder in (shared, elsewhere, unmarked, theirs):
        assert (folder / "0.npy").read_bytes() == b"much"


@pytest.mark.skipif(disk.fcntl is None, reason="files are not locked here")
def test_where_files_cannot_be_locked_folders_have_no_mark(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(38, "no locks")

    monkeypatch.setattr(disk.fcntl, "flock", fail)
    folder = Path(Scratch(str(tmp_path)).folder.name)
    assert not folder.exists()  # it went with its `Scratch`
    scratch = Scratch(str(tmp_path))
    assert (Path(scratch.folder.name) / disk.OWNER).read_bytes() == b""
    disk.remove_left(str(tmp_path), "tallies-")
    assert Path(scratch.folder.name).is_dir()


def test_a_scratch_folder_closes_what_it_opened(tmp_path):
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(5):
        assert Scratch(str(tmp_path)).leaf().path
    assert not any(tmp_path.iterdir())
    assert not before or len(os.listdir("/proc/self/fd")) == before
