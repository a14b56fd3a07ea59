"""Every command for every model: JSON for machines, a run repeated from its file, the same bits on any number of threads."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from jsonschema import Draft202012Validator

import tallies
from families import FAMILIES, write_files
from tallies.cli import configs
from tallies.cli.main import app

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)


SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "commands.schema.json").read_text())


def only_json(text: str, command: str):
    """JSON and nothing else, without the NaN that Python adds to it, as the schema of the command says."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    found = json.loads(text, parse_constant=refuse)
    Draft202012Validator({"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/{command}"}).validate(found)
    return found


@pytest.mark.parametrize("model", FAMILIES)
def test_a_run_is_repeated_from_its_file(files, run, model):
    data, words = FAMILIES[model]
    code, out, err = run("fit", model, data, *words, "--out", "RUN", "--seed", "7")
    assert code == 0, err
    assert "Wrote RUN. Next: tallies info RUN" in err
    written = tomllib.loads(Path("RUN/run.toml").read_text())
    assert (written["model"], written["data"], written["seed"]) == (model, data, 7)
    assert written["version"] == tallies.__version__
    fitted = tallies.load("RUN/model.tallies")
    plain = {field.name: field.default for field in dataclasses.fields(fitted)}
    absent = {k for k, v in fitted.get_params(deep=False).items() if k not in written and k != "random_state"}
    assert all(getattr(fitted, k) is None and plain[k] is None for k in absent)  # what is not written is None by default

    for repeat in (["fit"], ["fit", model]):
        code, out, err = run(*repeat, "--config", "RUN/run.toml", "--out", "AGAIN", "--threads", "1", "--json", "--force")
        assert code == 0, err
        assert only_json(out, "fit")["run"] == "AGAIN"
        assert Path("AGAIN/model.tallies").read_bytes() == Path("RUN/model.tallies").read_bytes()
    again = tomllib.loads(Path("AGAIN/run.toml").read_text())
    assert again.pop("threads") == 1
    assert again == written


@pytest.mark.parametrize("model", FAMILIES)
def test_every_command_says_json_and_nothing_else(files, run, model):
    data, words = FAMILIES[model]
    out = run("fit", model, data, *words, "--out", "RUN", "--json", "--threads", "2")[1]
    assert only_json(out, "fit")["model"] == configs.WORDS[model]
    assert run("fit", model, data, *words, "--out", "OTHER", "--quiet", "--threads", "1")[1:] == ("", "")
    assert only_json(run("info", "RUN", "--json")[1], "info")["options"]["model"] == model
    several = ["predict", "RUN", data], ["score", "RUN", data], ["sample", "RUN", "-n", "3", "--seed", "1"]
    for command in (*several, ["compare", "RUN", "OTHER", "--data", data], ["report", "RUN"], ["report", "RUN", data]):
        code, out, err = run(*command, "--json", "--threads", "1")
        if (model, command[0]) == ("fem", "sample"):
            assert (code, out) == (2, "")
            continue
        assert code == 0, err
        assert err == ""
        found = only_json(out, command[0])
        assert found
        if command[0] in ("predict", "score", "sample"):
            assert only_json(run(*command, "--json", "--threads", "2")[1], command[0]) == found
            assert run(*command, "--quiet")[2] == ""
    assert only_json(run("predict", "RUN", data, "--out", "p.csv", "--json")[1], "predict")["wrote"] == "p.csv"
    assert "Next:" in run("predict", "RUN", data, "--out", "p.csv")[2]
    assert only_json(run("resume", "RUN", "--json", "--sweeps", "40")[1], "resume")["run"] == "RUN"


def test_commands_without_a_model_say_json_as_their_schema_has_it(files, run):
    told = only_json(run("describe", "flowers.csv", "--json")[1], "describe")
    assert told["rows"] == len(pd.read_csv("flowers.csv"))
    assert only_json(run("prepare", "flowers.csv", "--out", "ready", "--json")[1], "prepare")["out"] == "ready"
    assert only_json(run("cluster", "--json")[1], "cluster")["workers"] >= 1
    fitted = only_json(run("fit", "naive-bayes", "flowers.csv", "-t", "species", "-o", "R", "--holdout", "0.3", "--json")[1], "fit")
    assert set(fitted["held_out"]["scores"]) >= {"accuracy", "log_loss"}
    assert only_json(run("resume", "R", "--json")[1], "resume")["resumed"] is False
    assert set(SCHEMA["$defs"]) - {"judged", "likelihood", "table"} == {info.name for info in app.registered_commands} | {"fit"}


def test_the_line_wins_over_the_file(files, run):
    Path("my.toml").write_text(
        'model = "lda"\ndata = "texts.jsonl"\ntopics = 3\nsweeps = 9\nburn-in = 5\nstem = true\nid = "name"\n'
    )
    assert run("fit", "--config", "my.toml", "-o", "A")[0] == 0
    assert run("fit", "--config=my.toml", "-o", "B", "-k", "2", "--no-stem", "--sweeps", "12", "--set", "start=random")[0] == 0
    a, b = (tomllib.loads(Path(f"{name}/run.toml").read_text()) for name in "AB")
    assert (a["n_topics"], a["max_iter"], a["burn_in"], a["stem"], a["id"]) == (3, 9, 5, True, "name")
    assert (b["n_topics"], b["max_iter"], b["burn_in"], b["stem"], b["start"]) == (2, 12, 8, False, "random")


def test_options_have_the_defaults_of_the_models():
    for name, cls in configs.WORDS.items():
        fields = {field.name: field.default for field in dataclasses.fields(configs.class_of(name))}
        line = {option.name: option for option in configs.line_options(name)}
        assert len({flag for option in line.values() for flag in option.flags}) == sum(len(o.flags) for o in line.values())
        for key in fields.keys() & line.keys() - {"max_iter"}:  # --sweeps: the model's own
            assert line[key].default == fields[key], (cls, key)
            shown = line[key].parameter().default
            assert shown is fields[key] or configs.read(shown, line[key]) == fields[key], (cls, key)


def test_topics_over_time_and_groups(files, run):
    assert run("fit", "lda", "texts.jsonl", "-k", "2", "--sweeps", "30", "-o", "RUN")[0] == 0
    assert run("report", "RUN", "--group", "date")[0] == 0
    assert "Topics by period" in Path("RUN/report.html").read_text()
    frame = pd.read_json("texts.jsonl", lines=True)
    for number, dates in enumerate((frame["date"], [f"{year}-05-01" for year in frame["date"][:-1]] + [""])):
        frame.assign(date=dates).to_csv("texts.csv", index=False)  # numbers, dates and gaps are texts in csv
        assert run("report", "RUN", "texts.csv", "--group", "date", "-o", f"{number}.html")[0] == 0
        assert "Topics by period" in Path(f"{number}.html").read_text()
    assert run("report", "RUN", "texts.jsonl", "--group", "side", "-o", "page.html")[0] == 0
    assert "Topics by group" in Path("page.html").read_text()
    assert "Topics by" not in run("report", "RUN", "-o", "plain.html")[1] + Path("plain.html").read_text()


def test_samples_coloured_by_a_covariate(files, run):
    assert run("fit", "pln", "counts.csv", "--covariates", "sites.csv", "--formula", "~ 1 + depth", "-o", "RUN")[0] == 0
    assert run("report", "RUN", "--group", "site")[0] == 0
    page = Path("RUN/report.html").read_text()
    assert "east" in page
    assert "Where the samples lie, by site</h3>" in page  # it opens so
