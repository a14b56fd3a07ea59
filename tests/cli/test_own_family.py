"""A family that is only in the registry has a command with all that the others have: options of every kind, configs, resume."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pytest

import tallies
from running import AT_LEAST_1
from tallies import registry, watch
from tallies.cli import tables
from tallies.cli.configs import line_options
from tallies.cli.fit import fit, fit_app
from tallies.cli.options import Option
from tallies.cli.options import command as add
from tallies.engine import Model, Stage
from tallies.estimator import Estimator, Run, option
from tallies.sources import held

pytestmark = pytest.mark.filterwarnings("ignore")


class Shard(NamedTuple):
    X: np.ndarray


class Sums(NamedTuple):
    objective: float
    n: int
    total: np.ndarray


class Params(NamedTuple):
    mean: np.ndarray


class Fitted(NamedTuple):
    run: Run
    params: Params


class Pull(NamedTuple):
    """A hyperparameter that is an object."""

    to: float = 0.0
    by: float = 0.0


@dataclass(frozen=True)
class Halving(Model):
    step: float
    tol: float | None

    def survey(self, shard):
        return Sums(0.0, len(shard.X), shard.X.sum(axis=0))

    def init(self, survey, rng):
        return Params(rng.normal(size=survey.total.shape))

    def sweep(self, shard, latents, params, rng):
        error = shard.X - params.mean
        return Sums(-float((error**2).sum()), len(shard.X), error.sum(axis=0)), None

    def update(self, params, tally, rng):
        return Params(params.mean + self.step * tally.total / tally.n + 1e-9 * rng.normal())


@dataclass(eq=False, repr=False, kw_only=True)
class Creep(Estimator):
    """Goes half of the way to the mean; its first stage goes there in small steps."""

    n_parts: int = option(2, "Number of parts.", flag="parts,k")
    step: float = option(0.5, "Share of the way.")
    size: float | Literal["auto"] | None = option(None, "auto, or a number.")
    shares: Sequence[float] | None = option(None, "Numbers with commas between.")
    degree: int | Sequence[int] | Literal["auto"] = option(1, "One, several, or auto.")
    families: Any = option("auto", "One, or column=family.")
    way: Literal["near", "far"] | Pull = option("near", "Which way.")
    lag: Literal[0, 1] = option(0, "How many rows before.")
    loud: bool = option(False, "Whether to be loud.")
    code: Any = option(None, "A word by its letters.", parse=list)
    backoff: float | None = 2.0
    max_iter: int = 30
    tol: float | None = None
    random_state: Any = 0

    records = (Params, Fitted, Pull)
    fixed_length = True

    def fit(self, X, y=None, *, sample_weight=None, **run):
        X = np.asarray(X, dtype=float)
        return self._fit(held(lambda cut: Shard(X[cut]), len(X), X.nbytes, 10), **run)

    def _plan(self, data, seed):
        first = yield Stage("small steps", Halving(0.01, None), data, lambda end: end.params, 3)
        kept = yield Stage("", Halving(self.step, self.tol), data, lambda end: end.params, self.max_iter, start=first.value)
        return Fitted(Run.of(kept, seed), kept.value)


@pytest.fixture
def family(monkeypatch, tmp_path):
    """The family "creeping", with a file for it."""
    room, home, command = (ModuleType(f"tallies.creeping{end}") for end in ("", ".estimator", ".command"))
    monkeypatch.setattr(Creep, "__module__", home.__name__)
    home.__dict__.update({key: value for key, value in globals().items() if not key.startswith("__")})  # also for its annotations
    several = Option("several", "Rows of each.", 3, int, least=1)
    command.__dict__.update(
        OPTIONS=(tables.data("Numbers."), tables.COLUMNS, Option("ends", "Where it ends.", needed=True)),
        PREDICT=(several,),
        fit=lambda model, options, **run: model.fit(tables.chosen(pd.read_csv(options["data"]), options)[0], **run),
        predict=lambda model, options, path: pd.DataFrame([model.fitted_.params.mean] * options.get("several", 3)),
        settle=lambda options, told: {"ends": options["ends"] + "!"} if "ends" in told else {},
    )
    entry = registry.Entry("Creep", "estimator", "Creep to the mean.")
    for module in (room, home, command):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(registry.ENTRIES, "Creep", ("creeping", entry))
    monkeypatch.setitem(registry.WORDS, "creep", "Creep")
    add(fit_app, partial(line_options, "creep"), "creep", entry.help)(fit)
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)) + 5, columns=["a", "b"]).to_csv("n.csv", index=False)
    yield
    fit_app.registered_commands.pop()


LINE = ["fit", "creep", "n.csv", "--ends", "here", "-o"]


def test_a_fit_that_loses_its_numbers_fails_and_writes_nothing(family, run):
    code, out, err = run(*LINE, "RUN", "--step", "1e160")
    assert code == 1
    assert "Error: the objective of the fit was nan after sweep" in err
    assert "resume" not in err
    assert out == ""
    assert [path.name for path in Path().iterdir()] == ["n.csv"]


def test_help_lists_it_and_its_options(family, run):
    assert "Creep to the mean." in run("fit", "--help")[1]
    text = run("fit", "creep", "--help")[1]
    for words in (
        "--parts",
        "-k",
        "--size",
        "--lag",
        "--no-loud",
        "near|far",
        "Where it ends. Needed.",
        "default: 0.5",
        "--sweeps",
    ):
        assert words in text
    assert "--backoff" not in text
    assert "Rows of each (creep)." in " ".join(run("predict", "--help")[1].replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("-k 3", "n_parts", 3),
        ("--parts 4", "n_parts", 4),
        ("--step 1", "step", 1.0),
        ("--size auto", "size", "auto"),
        ("--size 2", "size", 2.0),
        ("--size .5", "size", 0.5),
        ("--shares 0.2,.8", "shares", [0.2, 0.8]),
        ("--shares 1", "shares", [1.0]),
        ("--degree 1,3", "degree", [1, 3]),
        ("--degree 2", "degree", 2),
        ("--degree auto", "degree", "auto"),
        ("--families normal", "families", "normal"),
        ("--families a=normal,b=3", "families", {"a": "normal", "b": 3}),
        ("--way far", "way", "far"),
        ("--set way={to=2.0}", "way", Pull(2.0)),
        ("--lag 1", "lag", 1),
        ("--loud", "loud", True),
        ("--no-loud", "loud", False),
        ("--code abc", "code", ["a", "b", "c"]),
        ("--set backoff=none", "backoff", None),
        ("--set backoff=3", "backoff", 3.0),
        ("--set tol=1e-6", "tol", 1e-6),
        ("--set n_parts=7", "n_parts", 7),
        ("--set families=[1,2]", "families", [1, 2]),
        ("--seed 4", "random_state", 4),
    ],
)
def test_what_the_line_says_reaches_the_model_and_comes_back_from_the_file(family, run, words, name, value):
    code, _, err = run(*LINE, "RUN", *words.split(), "--sweeps", "4")
    assert code == 0, err
    model = tallies.load("RUN/model.tallies")
    assert getattr(model, name) == value
    assert type(getattr(model, name)) is type(value)
    assert run("fit", "--config", "RUN/run.toml", "-o", "AGAIN")[0] == 0
    assert Path("RUN/model.tallies").read_bytes() == Path("AGAIN/model.tallies").read_bytes()
    written, again = (tomllib.loads(Path(name, "run.toml").read_text()) for name in ("RUN", "AGAIN"))
    assert written["ends"] == "here!"
    assert written == again


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--size much", "--size: expected a number or auto, got 'much'"),
        ("--shares a,b", "--shares: expected a number, or several with commas, got"),
        ("--degree two", "--degree: expected a whole number"),
        ("--degree 1.5", "--degree: expected a whole number"),
        ("--lag 2", "--lag: expected 0 or 1, got '2'"),
        ("--parts many", "not a valid int" if AT_LEAST_1.startswith("is") else "integer"),
        ("--way up", "near"),
        ("--set bakoff=1", "did you mean 'backoff'"),
        ("--set backoff=much", "--backoff: expected a number"),
        ("--sweeps 0", AT_LEAST_1),
        ("--columns c", "--columns names the column 'c'"),
    ],
)
def test_what_it_cannot_mean_is_said(family, run, words, message):
    code, out, err = run(*LINE, "RUN", *words.split())
    assert (code, out) == (2, "")
    assert message in err
    assert sorted(os.listdir()) == ["n.csv"]


def test_needs_and_options_of_others(family, run):
    assert "needs --ends" in run("fit", "creep", "n.csv", "-o", "RUN")[2]
    assert "needs DATA" in run("fit", "creep", "-o", "RUN", "--ends", "x")[2]
    assert run(*LINE, "RUN")[0] == 0
    assert run("predict", "RUN", "n.csv", "--several", "0")[0] == 2
    assert len(run("predict", "RUN", "n.csv")[1].splitlines()) == 4
    assert len(run("predict", "RUN", "n.csv", "--several", "5")[1].splitlines()) == 6
    other = next(word for word in registry.WORDS if word != "creep")
    text = Path("RUN/run.toml").read_text().replace('"creep"', f'"{other}"')
    Path("RUN/run.toml").write_text(text)
    code, _, err = run("predict", "RUN", "n.csv", "--several", "5")
    assert code == 2
    assert f"--several is for creep, but 'RUN' is a fit of {other}; leave it out" in err


def test_resume_takes_every_file_of_a_checkpoint(family, run, monkeypatch):
    monkeypatch.setattr(watch, "PAUSE", 0.0)
    assert run(*LINE, "PART", "--sweeps", "4", "--seed", "3")[0] == 0
    assert sorted(os.listdir("PART")) == ["checkpoint", "checkpoint.1", "model.tallies", "run.toml"]
    code, _, err = run("resume", "PART")
    assert code == 2
    assert "tallies resume PART --sweeps 8" in err
    assert run("resume", "PART", "--sweeps", "9", "--threads", "1")[0] == 0
    assert run(*LINE, "WHOLE", "--sweeps", "9", "--seed", "3")[0] == 0
    assert Path("PART/model.tallies").read_bytes() == Path("WHOLE/model.tallies").read_bytes()
    assert run(*LINE, "SETTLED", "--set", "tol=0.5", "-q")[1:] == ("", "")
    assert sorted(os.listdir("SETTLED")) == ["model.tallies", "run.toml"]
    assert "nothing is left to do" in run("resume", "SETTLED")[1]
    assert json.loads(run("resume", "SETTLED", "--json")[1])["resumed"] is False


def test_a_fit_killed_between_two_files_of_a_checkpoint_goes_on(family, run, monkeypatch):
    assert run(*LINE, "PART", "--sweeps", "4")[0] == 0
    Path("PART/model.tallies").unlink()
    Path("PART").rename("PART.unfinished")
    write = watch.storage.write

    def cut(path, kind, owner, tree):
        if kind == "checkpoint":
            raise OSError("no power")
        write(path, kind, owner, tree)

    with monkeypatch.context() as patch:
        patch.setattr(watch.storage, "write", cut)
        code, _, err = run("resume", "PART", "--sweeps", "9")
    assert code == 1
    assert "go on with: tallies resume PART" in err
    assert run("resume", "PART", "--sweeps", "9")[0] == 0
    assert run(*LINE, "WHOLE", "--sweeps", "9")[0] == 0
    assert Path("PART/model.tallies").read_bytes() == Path("WHOLE/model.tallies").read_bytes()


def test_a_run_of_the_first_format_is_refused(family, run):
    import zipfile

    assert run(*LINE, "RUN")[0] == 0
    with zipfile.ZipFile("RUN/model.tallies") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries["tree.json"] = json.dumps({**json.loads(entries["tree.json"]), "format": 1, "tallies": "0.1.0"}).encode()
    with zipfile.ZipFile("RUN/model.tallies", "w") as archive:
        for name, body in entries.items():
            archive.writestr(name, body)
    for command in (["info", "RUN"], ["report", "RUN"], ["predict", "RUN", "n.csv"], ["resume", "RUN"]):
        code, out, err = run(*command)
        assert (code, out) == (2, "")
        assert "written by Tallies 0.1.0, whose files have another shape; refit with this version" in err
