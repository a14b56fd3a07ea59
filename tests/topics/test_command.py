"""What the command line does for topics."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

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
    found = topics.score(model, options, str(path))
    assert found["perplexity"] == pytest.approx(np.exp(-found["log_likelihood"]))
    drawn = topics.sample(model, options, 5, seed=0)
    assert len(drawn) == 5
    assert set(" ".join(drawn["text"]).split()) <= set(" ".join(TEXTS).split())
    assert len(topics.report_data(model, options, str(path))) == 1


def test_a_table_of_counts_is_taken_too(tmp_path):
    path = tmp_path / "counts.csv"
    pd.DataFrame({"a": [3, 0, 2, 0], "b": [2, 0, 3, 0], "c": [0, 4, 0, 2]}).to_csv(path, index=False)
    options = {"data": str(path), "counts": True}
    model = topics.fit(LDA(n_topics=2, alpha=0.1, max_iter=60, burn_in=30, random_state=1), options)
    assert topics.predict(model, options, str(path))["topic"].nunique() == 2
