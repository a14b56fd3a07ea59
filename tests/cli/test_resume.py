"""Ctrl-C, kill, and going on: the RUN is whole or absent, and a resumed fit has the bits of one that was never interrupted."""

from __future__ import annotations

import json
import os
import signal
import tomllib
from pathlib import Path

import pytest

import tallies
from families import FAMILIES, write_files
from running import until_checkpoint
from tallies import watch
from tallies.runs import unfinished

pytestmark = pytest.mark.filterwarnings("ignore")
LONG = ["fit", "lda", "texts.jsonl", "-k", "3", "--sweeps", "200000", "--burn-in", "20", "--chains", "1", "-o", "RUN"]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)


def same(a: str, b: str) -> bool:
    return Path(a, "model.tallies").read_bytes() == Path(b, "model.tallies").read_bytes()


@pytest.mark.parametrize("model", ["lda", "pln", "fem", "fem-network", "author-concept", "gda"])
def test_more_sweeps_are_as_if_they_had_been_asked_for_at_once(run, model):
    data, words = FAMILIES[model]
    words = [*words, "--sweeps", "2", "--seed", "3"]
    words += {
        "lda": ["--burn-in", "1", "--chains", "2"],
        "gda": ["--set", "tol=1e-14"],
        "author-concept": ["--set", "tol=1e-9"],
    }.get(model, [])
    assert run("fit", model, data, *words, "-o", "PART")[0] == 0
    assert sorted(os.listdir("PART"))[0] == "checkpoint"
    code, _, err = run("resume", "PART")
    assert code == 2
    assert "tallies resume PART --sweeps 4" in err
    assert run("resume", "PART", "--sweeps", "9", "--threads", "1")[0] == 0
    assert run("fit", model, data, *words, "--sweeps", "9", *(["--burn-in", "1"] if model == "lda" else []), "-o", "WHOLE")[0] == 0
    assert tallies.load("PART/model.tallies").n_iter_ > 2
    assert same("PART", "WHOLE")
    told = tomllib.loads(Path("PART/run.toml").read_text())
    assert told.pop("threads") == 1
    assert told == tomllib.loads(Path("WHOLE/run.toml").read_text())
    assert not unfinished("PART").exists()


def test_a_settled_run_needs_no_more(run):
    assert run("fit", "naive-bayes", "flowers.csv", "-t", "species", "-o", "RUN")[0] == 0
    assert sorted(os.listdir("RUN")) == ["model.tallies", "run.toml"]
    code, out, _ = run("resume", "RUN")
    assert code == 0
    assert "nothing is left to do" in out
    assert json.loads(run("resume", "RUN", "--json")[1])["resumed"] is False


def test_ctrl_c_leaves_a_run_that_can_go_on(run, start):
    child = start(*LONG)
    until_checkpoint(child)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=240)
    assert child.returncode == 130
    assert "Stopping after this sweep" in err
    assert "Go on with: tallies resume RUN" in err
    assert "Traceback" not in err
    assert not unfinished("RUN").exists()
    done = json.loads(run("info", "RUN", "--json")[1])
    assert done["stopped"] == "interrupted"
    assert run("predict", "RUN", "texts.jsonl")[0] == 0
    total = str(done["n_iter"] + 7)
    assert run("resume", "RUN", "--sweeps", total)[0] == 0
    words = [total if word == "200000" else word for word in LONG]
    assert run(*words[:-1], "WHOLE")[0] == 0
    assert same("RUN", "WHOLE")


def test_a_killed_fit_goes_on_from_its_checkpoint(run, start):
    child = start(*LONG)
    until_checkpoint(child)
    child.kill()
    child.communicate(timeout=60)
    assert not Path("RUN").exists()
    code, _, err = run("info", "RUN")
    assert code == 2
    assert "go on with: tallies resume RUN" in err
    code, _, err = run(*LONG)
    assert code == 2
    assert "tallies resume RUN" in err
    done = len(_sweeps())
    assert run("resume", "RUN", "--sweeps", str(done + 5))[0] == 0
    assert not unfinished("RUN").exists()
    words = [str(done + 5) if word == "200000" else word for word in LONG]
    assert run(*words[:-1], "WHOLE")[0] == 0
    assert same("RUN", "WHOLE")


def _sweeps() -> tuple[float, ...]:
    from tallies import engine, storage
    from tallies.topics.estimator import LDA

    path = unfinished("RUN") / "checkpoint"
    return storage.read(path, "checkpoint", lambda owner: [*LDA._records(), engine.State])["states"][0].objective


def test_a_fit_that_fails_leaves_the_old_run_as_it_was(run, monkeypatch):
    monkeypatch.setattr(watch, "PAUSE", 0.0)
    assert run("fit", "lda", "texts.jsonl", "-k", "2", "--sweeps", "9", "-o", "RUN")[0] == 0
    before = Path("RUN/model.tallies").read_bytes()
    Path("texts.jsonl").rename("moved.jsonl")
    assert run("resume", "RUN", "--sweeps", "20")[0] == 2
    assert run("fit", "lda", "texts.jsonl", "-o", "RUN", "--force")[0] == 2
    assert Path("RUN/model.tallies").read_bytes() == before
    assert not unfinished("RUN").exists()
    assert sorted(p.name for p in Path().iterdir() if p.name.startswith(".")) == []
