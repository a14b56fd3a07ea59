"""Every wrong use, in one table: one paragraph that says what to do, exit code 2, no traceback, nothing left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from families import write_files
from running import AT_LEAST_1

TABLE = [
    # commands, models, options
    ("", "Usage"),
    ("fitt", "Did you mean 'fit'"),
    ("reprot RUN", "Did you mean 'report'"),
    ("fit gdaa", "Did you mean 'gda'"),
    ("fit ldaa --config no.toml", "Did you mean 'lda'"),
    ("fit gda flowers.csv -t species -o R --covariances class", "--covariance"),
    ("fit gda flowers.csv -t species -o R --covariance classs", "class"),
    ("fit lda texts.jsonl -o R --topics many", "integer"),
    ("fit lda texts.jsonl -o R --sweeps 0", AT_LEAST_1),
    ("info", "Missing argument 'RUN'"),
    ("fit gda", "needs DATA"),
    ("fit gda flowers.csv -t species", "needs --out"),
    ("fit gda flowers.csv -o R", "needs --target"),
    ("fit author-concept papers.csv -o R", "needs --ontology"),
    ("fit gda flowers.csv -t species -o R --set tool=1", "did you mean 'tol'"),
    ("fit gda flowers.csv -t species -o R --set tol", "NAME=VALUE"),
    ("fit gda flowers.csv -t species -o R --threads 0", AT_LEAST_1),
    ("compare RUN --data flowers.csv", "two or more"),
    # config files
    ("fit --config no.toml", "no file 'no.toml'"),
    ("fit --config broken.toml", "TOML"),
    ("fit --config nameless.toml", "which model"),
    ("fit --config typo.toml", "did you mean 'naive-bayes'"),
    ("fit gda --config RUN/run.toml -o R --set x=1", "sets 'x'"),
    ("fit lda --config RUN/run.toml -o R", "tallies fit gda"),
    ("fit --config keys.toml -o R", "did you mean 'covariance'"),
    # files
    ("fit gda none.csv -t species -o R", "no file 'none.csv'"),
    ("fit gda flower.csv -t species -o R", "did you mean 'flowers.csv'"),
    ("fit gda stories -t species -o R", "files of texts are for lda"),
    ("fit gda flowers.csv -t length -o R", "numbers such as 0.05,"),
    ("fit gda . -t species -o R", "expected tables of one format in the folder"),
    ("fit gda folder.csv -t species -o R", "but there are none"),
    ("fit gda flowers.xlsx -t species -o R", "cannot be read as a table"),
    ("fit gda flowers.docx -t species -o R", "expected a table"),
    ("fit gda empty.csv -t species -o R", "empty"),
    ("fit gda header.csv -t b -o R", "no rows"),
    ("fit gda twice.csv -t b -o R", "more than once"),
    ("fit gda ragged.csv -t b -o R", "cannot be read"),
    ("fit gda broken.csv.gz -t b -o R", "cannot be read"),
    ("fit gda words.csv -t b -o R", "GDA takes numbers"),
    ("fit lda none.jsonl -o R", "there is nothing"),
    ("fit lda empty.csv -o R", "at least one text"),
    ("fit lda words.csv -o R", "no field 'text'"),
    ("fit lda texts.jsonl -o R --text texts", "did you mean 'text'"),
    ("fit lda texts.jsonl -o R --id nam", "did you mean 'name'"),
    ("fit lda words.jsonl -o R", "not JSON"),
    ("fit lda broken.csv.gz -o R", "cannot be read"),
    ("fit lda flowers.xlsx -o R", "cannot be read"),
    ("fit pln none.csv -o R", "nothing"),
    ("fit pln empty.csv -o R", "empty"),
    ("fit pln words.csv -o R", "must be numbers"),
    ("fit pln counts.csv -o R --offsets logsumm", "did you mean 'logsum'"),
    ("fit pln counts.csv -o R --covariates none.csv", "no file 'none.csv'"),
    ("fit pln counts.csv -o R --formula ~1", "needs --covariates"),
    ("fit fem none.csv -t y -o R", "no file"),
    ("fit fem flowers.csv -t species -o R --degree two", "--degree"),
    ("fit fem-network empty.csv -o R", "empty"),
    ("fit fem-network flowers.csv -o R --columns colou", "did you mean 'colour'"),
    ("fit author-concept papers.csv --ontology none.obo -o R", "none.obo"),
    ("fit author-concept papers.csv --ontology flowers.xlsx -o R", "flowers.xlsx"),
    ("fit author-concept papers.csv --ontology concepts.obo --authors author -o R", "did you mean 'authors'"),
    # columns and values
    ("fit gda flowers.csv -t specie -o R", "did you mean 'species'"),
    ("fit gda flowers.csv -t Species -o R", "did you mean 'species'"),
    ("fit gda flowers.csv -t zzz -o R", "there are length"),
    ("fit gda flowers.csv -t species -o R --columns lenght", "did you mean 'length'"),
    ("fit gda flowers.csv -t species -o R --weights lengt", "did you mean 'length'"),
    ("fit gda flowers.csv -t species -o R --shrinkage much", "expected a number"),
    ("fit gda flowers.csv -t species -o R --shrinkage 7", "from 0 to 1"),
    ("fit gda flowers.csv -t species -o R --priors a,b", "expected a number"),
    ("fit naive-bayes flowers.csv -t species -o R --families colour=gausian", "gaussian"),
    # folds, which the end of a fit needs
    ("fit gda flowers.csv -t species -o R --cv 1000", "rows into more folds than there are"),
    ("fit lda texts.jsonl -o R --cv 1000", "rows into more folds than there are"),
    ("fit pln counts.csv --covariates sites.csv -o R --cv 1000", "rows into more folds than there are"),
    ("fit pln-discriminant counts.csv --covariates sites.csv -t site -o R --cv 1000", "rows into more folds than there are"),
    ("fit fem-network flowers.csv --columns colour,species -o R --cv 1000", "rows into more folds than there are"),
    ("fit author-concept papers.csv --ontology concepts.obo -o R --cv 1000", "rows into more folds than there are"),
    ("fit gda parts -t kin -o R", "--target names the column 'kin', which the table does not have; did you mean 'kind'"),
    ("fit gda parts -t kind --drop siz -o R", "--drop names the column 'siz', which the table does not have; did you mean 'size'"),
    # RUNs
    ("fit gda flowers.csv -t species -o RUN", "--force"),
    ("fit gda flowers.csv -t species -o flowers.csv/R", "'flowers.csv/R' cannot be made in 'flowers.csv'"),
    ("fit gda flowers.csv -t species -o precious --force", "not a RUN folder"),
    ("info nowhere", "does not exist"),
    ("info .", "no run.toml"),
    ("info flowers.csv", "is a file"),
    ("info HURT", "damaged"),
    ("resume nowhere", "does not exist"),
    ("predict RUN words.csv", "lacks the columns"),
    ("predict RUN header.csv", "no rows"),
    ("predict RUN none.csv", "no file"),
    ("predict RUN flowers.csv --out p.xlsx", "expected a table"),
    ("predict RUN flowers.csv --covariates sites.csv", "is for pln"),
    ("score RUN other.csv", "not among the classes"),
    ("score RUN unlabelled.csv", "--target names the column 'species'"),
    ("report RUN --group species", "--group is for lda and pln"),
    ("report TEXTS --group datte", "did you mean 'date'"),
    ("report RUN --out precious", "must be a file to write, but 'precious' is a folder"),
    ("predict RUN flowers.csv --out folder.csv", "must be a file to write, but 'folder.csv' is a folder"),
    ("sample RUN -n 0", AT_LEAST_1),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the files, two RUNs, and things that are wrong."""
    from typer.testing import CliRunner

    from tallies.cli.main import app

    folder = tmp_path_factory.mktemp("wrong")
    write_files(folder)
    before = os.getcwd()
    os.chdir(folder)
    for words in ("gda flowers.csv -t species --columns length,width -o RUN", "lda texts.jsonl -k 2 --sweeps 9 -o TEXTS"):
        assert CliRunner().invoke(app, ["fit", *words.split()]).exit_code == 0
    os.chdir(before)
    flowers = (folder / "flowers.csv").read_text()
    bodies = {
        "empty.csv": "",
        "header.csv": "a,b\n",
        "twice.csv": "a,a,b\n1,2,x\n",
        "ragged.csv": "a,b\n1,x\n1,2,3,4\n",
        "broken.csv.gz": "not gzip",
        "words.csv": "a,b\nred,x\nblue,y\n",
        "words.jsonl": "words\n",
        "flowers.xlsx": "x",
        "flowers.docx": "x",
        "other.csv": flowers.replace("rose", "tulip"),
        "unlabelled.csv": flowers.replace("species", "kind"),
        "broken.toml": "model = \n",
        "nameless.toml": 'data = "flowers.csv"\n',
        "typo.toml": 'model = "naive-bays"\n',
        "keys.toml": 'model = "gda"\ndata = "flowers.csv"\ntarget = "species"\ncovarience = "class"\n',
        "precious/file": "x",
        "parts/one.csv": "size,kind\n1,a\n2,b\n",
        "stories/one.txt": "Once upon a time.",
        "folder.csv/file": "x",
        "HURT/run.toml": 'model = "gda"\n',
        "HURT/model.tallies": "nonsense",
    }
    for name, body in bodies.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(body)
    return folder


@pytest.mark.parametrize(("line", "message"), TABLE, ids=[line or "nothing" for line, _ in TABLE])
def test_wrong_use_says_what_to_do_and_leaves_nothing(place, run, monkeypatch, line, message):
    monkeypatch.chdir(place)
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    code, out, err = run(*line.split())
    assert code == 2, err
    assert message in out + err
    assert "Traceback" not in err
    if line:
        assert out == ""
        assert err.startswith("Error: ")
        assert len(err.splitlines()) == 1
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before


def test_a_place_inside_a_file_is_told_of_in_words(place, run, monkeypatch):
    monkeypatch.chdir(place)
    code, _, err = run("predict", "RUN", "flowers.csv", "--out", "flowers.csv/p.csv")
    assert (code, err) == (1, "Error: 'flowers.csv': File exists; see to this place, or choose another\n")
