"""Whatever is asked of a model in Python may be asked of a file, as a fit may be of one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tallies
from tallies import FEM, GDA, AuthorConcept, NaiveBayes


@pytest.fixture
def table(tmp_path):
    rng, y = np.random.default_rng(0), np.arange(60) % 2
    frame = pd.DataFrame({"id": [f"r{i}" for i in range(60)], "a": rng.normal(size=60) + 2 * y, "b": rng.normal(size=60)})
    frame["wet"], frame["colour"], frame["w"] = rng.random(60) < 0.5, rng.choice(["red", "blue"], 60), rng.random(60)
    frame["y"] = np.array(["p", "q"])[y]
    frame.to_csv(tmp_path / "t.csv", index=False)
    return frame, tmp_path / "t.csv"


def test_a_model_of_numbers_leaves_categories_of_a_file_out_and_says_so(table):
    frame, path = table
    model = GDA().fit(path, "y", sample_weight="w")
    assert model.feature_names_in_.tolist() == ["a", "b", "wet"]
    use = dict(zip(model.columns_["column"], model.columns_["use"], strict=True))
    assert use["colour"] == "left out: GDA takes numbers; NaiveBayes takes categories, too"
    np.testing.assert_array_equal(model.predict(path), model.predict(frame[["a", "b", "wet"]]))
    with pytest.raises(tallies.errors.DataError, match="expects numbers in every column"):
        GDA().fit(frame[["a", "colour"]], frame["y"])  # a table that was chosen column by column is taken at its word


def test_the_command_leaves_them_out_too(table, monkeypatch, run):
    monkeypatch.chdir(table[1].parent)
    code, _, told = run("fit", "gda", "t.csv", "-t", "y", "-o", "RUN")
    assert code == 0
    assert "colour" in told
    assert "GDA takes numbers" in told
    assert run("predict", "RUN", "t.csv")[0] == 0
    assert run("fit", "gda", "t.csv", "-t", "y", "-o", "RUN2", "--keep", "colour")[0] == 2


@pytest.mark.parametrize("model", [GDA(), NaiveBayes(), FEM(ridge=1.0, bins=3)], ids=lambda model: type(model).__name__)
def test_files_are_scored_evaluated_compared_and_reported_like_tables(table, model, tmp_path):
    frame, path = table
    model.fit(str(path), "y")
    X = frame[model.feature_names_in_]
    assert model.score(path, "y") == model.score(X, frame["y"])
    assert model.score(path, "y", sample_weight="w") == pytest.approx(model.score(X, frame["y"], sample_weight=frame["w"]))
    assert tallies.evaluate(model, path, "y") == tallies.evaluate(model, X, frame["y"])
    assert len(tallies.compare({"one": model, "two": model}, path, "y")) == 2
    np.testing.assert_array_equal(model.predict_proba(str(path)), model.predict_proba(X))
    assert "How good is it?" in model.report(tmp_path / "page.html", path, "y").read_text(encoding="utf-8")
    with pytest.raises(tallies.errors.DataError, match="the column 'z', which"):
        model.score(path, "z")


def test_rows_of_files_are_added(table):
    frame, path = table
    added = GDA().partial_fit(path, "y").partial_fit(path, "y")
    used = ["a", "b", "wet", "w"]
    whole = GDA().fit(pd.concat([frame, frame])[used], pd.concat([frame["y"]] * 2))
    np.testing.assert_allclose(added.predict_proba(path), whole.predict_proba(frame[used]))


def test_papers_and_concepts_may_be_files(tmp_path):
    words = "the red fox jumps. a blue whale swims.", "a fox ran. it was red.", "no whale there. blue sea."
    papers = pd.DataFrame({"text": words * 4, "authors": [["Ann"], ["Ann", "Bob"], ["Cid"]] * 4})
    papers.to_json(tmp_path / "papers.jsonl", orient="records", lines=True)
    pd.DataFrame({"id": ["G1", "G2"], "name": ["fox", "whale"]}).to_csv(tmp_path / "concepts.csv", index=False)
    corpus = tallies.Corpus.read(tmp_path / "papers.jsonl", sentences=True)
    theirs = AuthorConcept().fit(corpus, tallies.Ontology.read(tmp_path / "concepts.csv"))
    ours = AuthorConcept().fit(tmp_path / "papers.jsonl", str(tmp_path / "concepts.csv"))
    for path in (tmp_path / "papers.jsonl", str(tmp_path / "papers.jsonl")):
        np.testing.assert_array_equal(ours.rank(path)[0], theirs.rank(corpus)[0])
        assert ours.score(path) == theirs.score(corpus)
    assert ours.report(tmp_path / "page.html", tmp_path / "papers.jsonl").exists()
    with pytest.raises(tallies.errors.DataError, match="one string, which names no file"):
        ours.rank("a red fox " * 500)
