"""Kills, a full disk, two writers, signals and closed pipes: a RUN is the old one or the new one, whole."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from families import FAMILIES, write_files
from running import until_checkpoint
from tallies import disk, runs
from tallies.runs import unfinished

pytestmark = pytest.mark.filterwarnings("ignore")
LONG = ["fit", "lda", "texts.jsonl", "-k", "3", "--sweeps", "200000", "--burn-in", "20", "--chains", "1", "-o", "RUN"]
SHORT = ["fit", "naive-bayes", "flowers.csv", "-t", "species", "-o", "RUN"]
HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)


def test_killed_or_out_of_space_at_any_file_operation():
    """A sample of `make kill`, which goes through all models: two kills of each of seven cases, and one full disk of each of six;
    both in one process, which takes seconds to begin."""
    code = (
        "import json, killing; print(json.dumps([killing.campaign(14, 1, False, ['lda']), killing.campaign(6, 1, True, ['gda'])]))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    found = json.loads(done.stdout)
    assert [part["points"] for part in found] == [14, 6]
    assert [part["failures"] for part in found] == [[], []]


def test_a_second_writer_is_refused(run, start):
    child = start(*LONG)
    until_checkpoint(child)
    try:
        for words in (["resume", "RUN"], [*LONG, "--force"], LONG):
            code, _, err = run(*words)
            assert code == 2
            assert f"process {child.pid} on" in err
            assert "at this moment" in err
        assert (unfinished("RUN") / "checkpoint").exists()
    finally:
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=240)
    assert child.returncode == 130, err
    assert run("info", "RUN")[0] == 0


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_other_signals_stop_like_ctrl_c(run, name, start):
    child = start(*LONG)
    until_checkpoint(child)
    child.send_signal(getattr(signal, name))
    _, err = child.communicate(timeout=240)
    assert child.returncode == 130, err
    assert "Go on with: tallies resume RUN" in err
    assert json.loads(run("info", "RUN", "--json")[1])["stopped"] == "interrupted"


def test_ctrl_c_twice_stops_at_once_and_keeps_the_state(run, start):
    child = start(*LONG)
    until_checkpoint(child)
    for _ in range(2):
        child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Traceback" not in err
    assert "tallies resume RUN" in err


def test_leftovers_of_dead_processes_are_cleaned(run):
    assert run(*SHORT)[0] == 0
    shutil.copytree("RUN", ".RUN.unfinished.dead")
    Path(".RUN.unfinished.dead/owner").write_text("process 1 on nowhere")
    shutil.copytree("RUN", "RUN.unfinished")  # a RUN that was replaced just before the kill
    Path(".out.csv.dead.part").write_text("half")
    Path("RUN/owner").write_text("process 1 on nowhere")
    assert run("predict", "RUN", "flowers.csv", "-o", "out.csv")[0] == 0
    assert [p.name for p in Path().iterdir() if p.name.startswith(".") or "unfinished" in p.name] == []
    assert sorted(os.listdir("RUN")) == ["model.tallies", "run.toml"]


def test_a_whole_fit_that_lacks_only_its_place_takes_it(run):
    assert run(*SHORT)[0] == 0
    os.rename("RUN", "RUN.unfinished")
    Path("RUN.unfinished/owner").write_text("process 1 on nowhere")
    assert run("info", "RUN")[0] == 0
    assert not unfinished("RUN").exists()


def test_resume_of_a_fit_that_lacks_only_its_place(run):
    """A fit at its limit, killed between its model and the last rename: there is nothing to go on with, and no error."""
    short = ["fit", "lda", "texts.jsonl", "-k", "3", "--sweeps", "4", "--burn-in", "1", "--chains", "1", "-o", "RUN"]
    assert run(*short)[0] == 0
    os.rename("RUN", "RUN.unfinished")
    Path("RUN.unfinished/owner").write_text("process 1 on nowhere")
    code, out, err = run("resume", "RUN")
    assert code == 0, err
    assert "RUN had ended after 4 sweeps: nothing is left to do." in out + err
    assert run("resume", "RUN")[0] == 2  # as before: more sweeps must be asked for


def test_without_a_swap_of_the_system_a_run_is_replaced_too(run, monkeypatch):
    monkeypatch.setattr(disk, "_swap", lambda a, b: False)
    assert run(*SHORT)[0] == 0
    shutil.copytree("RUN", ".RUN.unfinished.killed/old")  # what a kill leaves of a RUN that is being removed
    old = Path("RUN/model.tallies").read_bytes()
    assert run(*SHORT, "--force", "--set", "smoothing=3")[0] == 0
    assert Path("RUN/model.tallies").read_bytes() != old
    assert sorted(p.name for p in Path().iterdir() if "RUN" in p.name) == ["RUN"]


def test_two_fits_that_begin_at_once(tmp_path):
    with runs.writing("RUN", {"model": "gda"}) as place:
        assert place.is_dir()
        with pytest.raises(ValueError, match="at this moment"), runs.writing("RUN", {"model": "gda"}):
            pass
        assert (place / "run.toml").is_file()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_folder_that_may_only_be_read(run):
    assert run(*SHORT)[0] == 0
    Path("RUN").chmod(0o500)
    try:
        code, _, err = run("report", "RUN")
        assert code == 1
        assert "Permission denied" in err
        assert run("info", "RUN")[0] == 0
    finally:
        Path("RUN").chmod(0o700)


def test_a_closed_pipe_ends_quietly(run, start):
    assert run(*SHORT)[0] == 0
    child = start("sample", "RUN", "-n", "50000")  # some megabytes; a pipe holds 64 kB
    child.stdout.readline()
    child.stdout.close()
    assert child.wait(240) == 1
    assert child.stderr.read() == ""


def test_a_missing_parent_is_made(run):
    assert run(*SHORT[:-1], "a/b/RUN")[0] == 0
    assert run("predict", "a/b/RUN", "flowers.csv", "-o", "c/d/out.csv")[0] == 0
    assert Path("c/d/out.csv").is_file()


@pytest.mark.parametrize("model", ["lda", "fem", "pln"])
def test_options_given_are_used(run, model):
    """Both ways of telling a number of sweeps, and the one that is not told must not win over them."""
    data, words = FAMILIES[model]
    told = {"lda": ["--set", "burn_in=20"], "fem": ["--set", "tol=1e-3"], "pln": ["--set", "tol=1e-3"]}[model]
    assert run("fit", model, data, *words, *told, "--sweeps", "40", "-o", "RUN")[0] == 0
    text = Path("RUN/run.toml").read_text()
    assert told[1].replace("=", " = ").replace("1e-3", "0.001") in text
    assert "max_iter = 40" in text


def test_no_command_writes_over_the_data(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    body = "size,eggs,kind\n" + "".join(f"{i % 7}.5,{i % 4},{'ab'[i % 2]}\n" for i in range(20))
    for name in ("t.csv", "new.csv"):
        Path(name).write_text(body)
    assert run("fit", "naive-bayes", "t.csv", "-t", "kind", "-o", "RUN", "-q")[0] == 0
    Path("link.csv").symlink_to("new.csv")
    for line in (
        ["predict", "RUN", "new.csv", "--out", "./new.csv"],
        ["predict", "RUN", "new.csv", "--out", "t.csv"],
        ["predict", "RUN", "link.csv", "--out", "new.csv"],
        ["sample", "RUN", "-n", "3", "--out", "t.csv"],
        ["report", "RUN", "new.csv", "--out", "new.csv"],
        ["export", "RUN", "--out", "t.csv"],
    ):
        code, _, err = run(*line)
        assert (code, "would be lost; choose another name" in err) == (2, True), (line, err)
    assert run("prepare", "new.csv", "--out", "new.csv")[0] == 2
    assert Path("t.csv").read_text() == Path("new.csv").read_text() == body
    assert run("predict", "RUN", "new.csv", "--out", "p.csv")[0] == run("predict", "RUN", "new.csv", "--out", "p.csv")[0] == 0
