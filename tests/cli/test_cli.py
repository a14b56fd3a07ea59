"""The command line as a user meets it: commands in a row, JSON for machines, exit codes, nothing half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
from sklearn.datasets import load_iris

import tallies
from tallies.data.files import kind_of, read_table
from tallies.data.output import write_frame
from tallies.errors import DataError


@pytest.fixture
def iris(tmp_path, monkeypatch) -> Any:
    monkeypatch.chdir(tmp_path)
    bunch = load_iris(as_frame=True)
    frame = bunch.frame.rename(columns=lambda name: name.replace(" (cm)", "").replace(" ", "_"))
    frame["species"] = bunch.target_names[frame.pop("target")]
    frame.loc[3, "petal_width"] = np.nan
    frame.to_csv("iris.csv", index=False)
    return frame


@pytest.mark.parametrize("model", ["gda", "naive-bayes"])
def test_from_file_to_predictions(iris, run, model):
    code, out, err = run("fit", model, "iris.csv", "--target", "species", "--out", "RUN")
    assert code == 0
    assert "settled after" in out
    assert "Wrote RUN. Next: tallies info RUN" in err
    assert sorted(os.listdir("RUN")) == ["model.tallies", "run.toml"]
    options = tomllib.loads(Path("RUN/run.toml").read_text())
    assert options["model"] == model
    assert options["data"] == "iris.csv"
    assert options["version"] == tallies.__version__

    code, out, _ = run("score", "RUN", "iris.csv", "--json")
    score = json.loads(out)
    assert code == 0
    p = tallies.load("RUN/model.tallies").predict_proba(iris.drop(columns="species"))
    codes = np.unique(iris["species"], return_inverse=True)[1]
    assert score["accuracy"] == pytest.approx(np.mean(p.argmax(axis=1) == codes))
    assert score["brier"] == pytest.approx(np.mean(((p - np.eye(3)[codes]) ** 2).sum(axis=1)))
    assert score["log_loss"] == pytest.approx(-np.mean(np.log(p[np.arange(150), codes])))
    assert np.sum(score["confusion"]) == 150
    assert "confusion" in run("score", "RUN", "iris.csv")[1]

    code, out, _ = run("predict", "RUN", "iris.csv")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "prediction,p(setosa),p(versicolor),p(virginica),log_prob"
    assert len(lines) == 151
    assert run("predict", "RUN", "iris.csv", "--out", "p.parquet")[0] == 0
    assert (read_table("p.parquet")["prediction"] == iris["species"]).mean() > 0.95
    assert len(json.loads(run("predict", "RUN", "iris.csv", "--json")[1])) == 150

    assert run("sample", "RUN", "-n", "7", "--seed", "1", "--out", "s.csv")[0] == 0
    drawn = read_table("s.csv")
    assert drawn.columns.tolist() == iris.columns.tolist()
    assert len(drawn) == 7
    assert run("sample", "RUN", "-n", "7", "--seed", "1")[1] == Path("s.csv").read_text()

    assert "settled after" in run("info", "RUN")[1]
    assert run("fit", "gda", "iris.csv", "-t", "species", "-o", "OTHER", "--covariance", "class")[0] == 0
    _, out, err = run("compare", "RUN", "OTHER", "--data", "iris.csv", "--json")
    table = json.loads(out)
    assert "different columns" not in err
    iris.drop(columns=iris.columns[0]).to_csv("narrow.csv", index=False)
    assert run("fit", "gda", "narrow.csv", "-t", "species", "-o", "NARROW")[0] == 0
    assert "likelihoods of different columns" in run("compare", "RUN", "NARROW", "--data", "iris.csv")[2]
    assert table["RUN"]["accuracy"] == score["accuracy"]
    assert table["OTHER"]["model"] == "GDA"
    code, out, err = run("report", "RUN", "iris.csv")
    assert (code, out) == (0, "")
    assert "Wrote RUN/report.html. Next:" in err
    assert "Content-Security-Policy" in Path("RUN/report.html").read_text()
    about = json.loads(run("info", "RUN", "--json")[1])
    assert about["converged"]
    assert about["options"]["target"] == "species"


def test_options_reach_the_model(iris, run):
    given = ["--covariance", "class", "--shrinkage", "0.2", "--priors", "0.2,0.3,0.5", "--columns", "petal_length,petal_width"]
    code, out, _ = run("fit", "gda", "iris.csv", "-t", "species", "-o", "RUN", *given, "--json", "--threads", "1")
    assert code == 0
    assert json.loads(out)["model"] == "GDA"
    model = tallies.load("RUN/model.tallies")
    assert (model.covariance, model.shrinkage, model.priors) == ("class", 0.2, [0.2, 0.3, 0.5])
    assert model.feature_names_in_.tolist() == ["petal_length", "petal_width"]
    code, _, _ = run("fit", "naive-bayes", "iris.csv", "-t", "species", "-o", "NB", "--families", "petal_width=categorical", "-q")
    assert code == 0
    assert tallies.load("NB/model.tallies").families_["petal_width"] == "categorical"
    assert tomllib.loads(Path("NB/run.toml").read_text())["families"] == {"petal_width": "categorical"}


def test_weights_and_missing_labels(iris, run):
    iris["w"] = 1.0
    iris.loc[::3, "species"] = None
    iris.to_csv("some.csv", index=False)
    assert run("fit", "gda", "some.csv", "-t", "species", "-o", "RUN", "--weights", "w", "--semi-supervised")[0] == 0
    model = tallies.load("RUN/model.tallies")
    assert model.n_iter_ > 1
    assert "w" not in model.feature_names_in_
    code, _, err = run("fit", "gda", "some.csv", "-t", "species", "-o", "RUN2")
    assert code == 2
    assert "semi_supervised" in err


def test_a_run_is_never_overwritten_by_accident(iris, run):
    fit = ["fit", "gda", "iris.csv", "-t", "species", "-o", "RUN"]
    assert run(*fit)[0] == 0
    code, _, err = run(*fit)
    assert code == 2
    assert "--force" in err
    assert run(*fit, "--covariance", "class", "--force")[0] == 0
    assert tallies.load("RUN/model.tallies").covariance == "class"
    os.mkdir("precious")
    with open("precious/file", "w") as file:
        file.write("x")
    assert run(*fit[:-1], "precious", "--force")[0] == 2
    assert os.listdir("precious") == ["file"]


def test_tables_in_files(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "é"]})
    for name in ("t.csv", "t.tsv", "t.csv.gz", "t.jsonl", "t.parquet"):
        write_frame(frame, tmp_path / name)
        pd.testing.assert_frame_equal(read_table(tmp_path / name), frame)
    assert kind_of("x.TSV.gz") == "text"
    with pytest.raises(DataError, match="expected a table"):
        kind_of("x.gz")


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["resume", "--help"]])
def test_help_imports_nothing_heavy(words):
    code = "import sys; from tallies.cli.main import app; app(sys.argv[1:], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert not {"numpy", "pandas", "sklearn", "numba", "scipy"} & set(done.stdout.split())


def test_help_is_quick():
    def used() -> float:
        """Seconds of the processor by ended children, whatever else the machine does."""
        return sum(os.times()[2:4])

    before = used()
    done = subprocess.run([sys.executable, "-m", "tallies", "--help"], capture_output=True, text=True, check=True)
    assert "fit" in done.stdout
    assert used() - before < 1.0  # 0.2 s; with numpy and the rest it would be more
    assert subprocess.run(
        [sys.executable, "-m", "tallies", "--version"], capture_output=True, text=True, check=True
    ).stdout.split() == [
        "tallies",
        tallies.__version__,
    ]


def test_the_shell_completes_models_runs_and_options(iris, run):
    assert run("fit", "gda", "iris.csv", "-t", "species", "-o", "RUN")[0] == 0

    def complete(line: str) -> list[str]:
        words = line.split(" ")
        asked = {"_TALLIES_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        command = [sys.executable, "-m", "tallies"]
        return subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True).stdout.split()

    assert complete("tallies fit f") == ["fem", "fem-network"]
    assert complete("tallies info ") == ["RUN"]
    assert complete("tallies fit lda --to") == ["--topics"]


def test_the_reference_page_names_every_command_and_option():
    page = Path(__file__).parents[2].joinpath("docs", "commands.md").read_text()

    def missing(command: Any, path: str) -> list[str]:
        found = [] if f"`{path}" in page or f"`{path.split()[-1]}`" in page else [path]
        for option in command.params:
            longest = max(option.opts, key=len)
            if longest.startswith("--") and longest not in ("--help",) and f"{longest}`" not in page and f"`{longest} " not in page:
                found.append(f"{path} {longest}")
        for name in getattr(command, "commands", {}):
            child = command.resolve_command(typer.Context(command), [name])[1]  # options are known when a command is asked for
            found += missing(child, f"{path} {name}")
        return found

    from tallies.cli.main import app

    assert missing(typer.main.get_command(app), "tallies") == []


def test_a_report_without_data_does_not_replace_one_with_them(iris, run):
    assert run("fit", "gda", "iris.csv", "-t", "species", "-o", "RUN")[0] == 0
    assert run("report", "RUN", "iris.csv")[0] == 0
    before = Path("RUN/report.html").read_text()
    code, _, err = run("report", "RUN")
    assert code == 2
    assert "made with data" in err
    assert Path("RUN/report.html").read_text() == before
    assert run("report", "RUN", "--force")[0] == 0
    assert Path("RUN/report.html").read_text() != before


def test_the_recipe_of_a_cluster_is_python(run):
    code, out, _ = run("cluster", "--threads", "3")
    assert code == 0
    compile(out, "recipe", "exec")
    assert "LocalCluster(n_workers=3" in out
    assert "tallies.backend(client" in out
