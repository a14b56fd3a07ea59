"""What the command line does for topics."""

from __future__ import annotations

import json
import warnings
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

import tallies
from tallies.registry import furniture
from tallies.topics import command as topics
from tallies.topics.estimator import LDA

pytestmark = pytest.mark.filterwarnings("ignore::tallies.errors.ConvergenceWarning")
TEXTS = ["cat dog mouse cat", "stocks bonds shares", "dog mouse dog", "bonds stocks bonds shares"] * 8


def test_texts_are_fitted_scored_and_predicted(tmp_path):
    path = tmp_path / "docs.jsonl"
    path.write_text("\n".join(json.dumps({"id": f"d{i}", "text": t}) for i, t in enumerate(TEXTS)))
    options = {"data": str(path), "text": "text", "min_df": 2, "max_df": 0.9, "stem": False}
    model = LDA(n_topics=2, alpha=0.1, max_iter=60, burn_in=30, random_state=1)
    assert furniture(model, "command") is topics
    topics.fit(model, options)
    table = topics.predict(model, options, str(path))
    assert table.columns.tolist() == ["id", "topic", "topic_0", "topic_1"]
    assert table["id"][3] == "d3"
    np.testing.assert_allclose(table[["topic_0", "topic_1"]].sum(axis=1), 1.0)
    found, _ = topics.score(model, options, str(path))
    assert found["perplexity"] == pytest.approx(np.exp(-found["log_likelihood"]))
    drawn = topics.sample(model, options, 5, seed=0)
    assert len(drawn) == 5
    assert set(" ".join(drawn["text"]).split()) <= set(" ".join(TEXTS).split())
    assert len(topics.report_data(model, options, str(path))) == 1


def test_the_language_of_the_fit_is_that_of_new_texts(tmp_path):
    """It is seen in the texts of the fit and said in the summary; a new text may be too short to show it."""
    path, new = tmp_path / "docs.jsonl", tmp_path / "new.jsonl"
    texts = ["Der Hund und die Katze sind im Haus", "Die Aktie ist nicht mit der Börse gefallen", "Ein Hund ist keine Katze"] * 5
    path.write_text("\n".join(json.dumps({"text": t}) for t in texts))
    new.write_text(json.dumps({"text": "Hund und Katze"}))
    options = {"data": str(path), "text": "text", "stop_words": "auto", "min_df": 1, "max_df": 1.0}
    model = topics.fit(LDA(n_topics=2, max_iter=60, burn_in=30, random_state=1), options)
    assert "texts in german, without its stop words" in model.summary()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(topics.predict(model, options, str(new))) == 1
    kept = topics.fit(LDA(n_topics=2, max_iter=6, burn_in=3, random_state=1), options | {"stop_words": "none"})
    assert "und" in kept.vocabulary_


def test_emoji_are_words_where_the_line_says_so(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.jsonl").write_text("\n".join(json.dumps({"text": f"{word} iron zinc 👍🏽"}) for word in ("tin", "lead") * 4))
    for name, more in (("PLAIN", []), ("EMOJI", ["--emoji"])):
        assert run("fit", "lda", "docs.jsonl", "-k", "2", "--sweeps", "6", "-o", name, "-q", *more)[0] == 0
        assert ("👍🏽" in tallies.load(f"{name}/model.tallies").vocabulary_) == bool(more)


def test_the_demo_settles():
    """The first page that a new user sees has nothing to warn of."""
    from tallies.html import build
    from tallies.topics import demo

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, data, options = demo.EXHIBITS[0].make()
    assert model.converged_
    assert build(model, *data, **options).warnings == []
    themes = [line.split("|")[1].split() for line in (files("tallies.data") / "letters.txt").read_text().splitlines()[1:]]
    found = {next(i for i, nouns in enumerate(themes) if name.split()[1] in nouns) for name in model.topic_names_}
    assert len(found) == len(themes) == 8


def test_a_table_of_counts_is_taken_too(tmp_path):
    path = tmp_path / "counts.csv"
    pd.DataFrame({"a": [3, 0, 2, 0], "b": [2, 0, 3, 0], "c": [0, 4, 0, 2]}).to_csv(path, index=False)
    options = {"data": str(path), "counts": True}
    model = topics.fit(LDA(n_topics=2, alpha=0.1, max_iter=60, burn_in=30, random_state=1), options)
    assert topics.predict(model, options, str(path))["topic"].nunique() == 2
