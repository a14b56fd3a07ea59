"""`tallies describe`: every file that a fit takes is told of, with commands that fit it."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

from tallies.registry import SUITS, WORDS

rng = np.random.default_rng(0)
N = 40
KIND = rng.choice(["a", "b"], N)
COUNTS = pd.DataFrame(
    rng.poisson(np.where(KIND == "a", 9.0, 4.0)[:, None] * rng.gamma(3, 1, (N, 4))), columns=["oak", "elm", "ash", "fir"]
)
TEXTS = ["the cat sat with a dog today", "stocks fell and the bonds rose today", "dogs chase a cat in the garden"]


def table(path):
    pd.DataFrame({"size": rng.normal(size=N).round(3), "kind": KIND, "eggs": rng.poisson(3, N)}).to_csv(path, index=False)


def words(path):
    pd.DataFrame({"shape": rng.choice(["round", "long"], N), "kind": KIND}).to_csv(path, index=False)


def counts(path):
    COUNTS.to_csv(path, index=False)


def texts(path):
    lines = [json.dumps({"id": i, "my text": f"{TEXTS[i % 3]} number{i}"}) for i in range(N)]
    path.write_text("\n".join(lines))


def folder(path):
    path.mkdir()
    for i, text in enumerate(TEXTS):
        (path / f"{i}.txt").write_text(text)


def alignment(path):
    path.write_text("".join(f">s{i}\n{''.join(rng.choice(list('ACGT'), 5))}\n" for i in range(N)))


def concepts(path):
    path.write_text("format-version: 1.2\n\n" + "".join(f"[Term]\nid: A:{i}\nname: term {i}\n\n" for i in range(N)))


def matrix(path):
    scipy.io.mmwrite(path, sp.csr_array(COUNTS.to_numpy()))


def cells(path):
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(
        sp.csr_array(COUNTS.to_numpy(dtype=float)),
        obs=pd.DataFrame({"kind": pd.Categorical(KIND)}, index=[f"c{i}" for i in range(N)]),
    ).write_h5ad(path)


TABLES = {"fem", "fem-network", "naive-bayes"}
PLNS = {"pln", "pln-network", "pln-mixture", "pln-discriminant"}


@pytest.mark.parametrize(
    ("make", "name", "models"),
    [
        (table, "a table.csv", TABLES | {"gda"}),
        (words, "t.csv", TABLES),
        (counts, "t.csv", {"fem-network"} | PLNS),
        (texts, "t.jsonl", {"lda", "author-concept"}),
        (folder, "texts", {"lda", "author-concept"}),
        (alignment, "t.fasta", {"fem-network"}),
        (matrix, "t.mtx", PLNS),
        (concepts, "t.obo", {"author-concept"}),
        (cells, "t.h5ad", PLNS | {"lda", "gda", "naive-bayes"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_file_is_told_of_with_commands_that_fit_it(tmp_path, monkeypatch, run, make, name, models):
    monkeypatch.chdir(tmp_path)
    make(Path(name))
    code, out, err = run("describe", name, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["rows"] == (3 if make is folder else N)
    assert {model["model"] for model in found["models"]} == models
    for model in found["models"]:
        if "FILE" not in model["command"]:
            target = "eggs" if make is table and model["model"] == "gda" else "kind"
            line = shlex.split(model["command"].replace("COLUMN", target).replace("RUN", f"RUN-{model['model']}"))
            assert run(*line[1:], *(["--sweeps", "3"] if "lda" in line else []), "-q")[0] == 0, line
    code, out, err = run("describe", name)
    assert code == 0 and all(model["command"] in err for model in found["models"])


def test_what_no_model_takes_is_told(tmp_path, run):
    (tmp_path / "one.csv").write_text("a\n1.5\n2.5\n3.5\n")
    assert "no model takes it as it is" in run("describe", str(tmp_path / "one.csv"))[2]


def test_every_model_takes_something():
    assert set(SUITS) == set(WORDS.values()) and all(SUITS.values())
