"""Rows held out, folds and their scores, each against its definition."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tallies import NaiveBayes, load
from tallies.cli import holdout, tables


def test_shares_are_rounded_and_seeds_differ():
    assert [int(holdout.parts(n, {"holdout": 0.3, "seed": 0}).sum()) for n in (9, 10, 11, 15)] == [3, 3, 3, 5]
    one, other = (holdout.parts(50, {"holdout": 0.3, "seed": seed}) for seed in (0, 1))
    assert (one != other).any()


def test_of_a_series_the_last_rows_are_held_out():
    assert holdout.parts(10, {"holdout": 0.3, "seed": 0}, in_order=True).tolist() == [0] * 7 + [1] * 3
    assert holdout.parts(10, {"holdout": 0.01, "seed": 0}, in_order=True).tolist() == [0] * 9 + [1]


def test_classes_are_spread_over_folds():
    labels = np.repeat(["a", "b"], [9, 6])
    part = holdout.parts(15, {"folds": 3, "seed": 0}, labels)
    for k in range(3):
        assert np.unique(labels[part == k], return_counts=True)[1].tolist() == [3, 2]


@pytest.mark.parametrize("how", [{"holdout": 0.25}, {"folds": 4}])
def test_judged_by_the_rows_that_a_fit_has_not_seen(how):
    """A model that keeps the rows it saw, and is scored by those it is asked of."""
    options, asked = {"seed": 0, "data": "", **how}, []

    def fit(model, options, **run):
        return SimpleNamespace(saw=options["rows"](20).tolist())

    def score(model, options, path, seed):
        rows = options["rows"](20).tolist()
        asked.append((model.saw, rows))
        return {"rows": len(rows), "mean": float(np.mean(rows)), "stderr": 9.0, "all": {"x": 1.0}}, None

    family = SimpleNamespace(fit=fit, score=score)
    part = holdout.parts(20, options)
    whole = SimpleNamespace(saw=np.flatnonzero(part == 0).tolist())
    found = holdout.judge(whole, options, family, lambda: None)
    for saw, rows in asked:
        assert sorted(saw + rows) == list(range(20))
    if "folds" in how:
        means = [np.mean(rows) for _, rows in asked]
        assert len(asked) == 4
        assert found["scores"]["mean"]["mean"] == pytest.approx(np.mean(means))
        assert found["scores"]["mean"]["stderr"] == pytest.approx(np.std(means, ddof=1) / 2)
        assert sorted(found["scores"]) == ["all x", "mean", "rows"]  # an error is no score
    else:
        assert found["scores"]["mean"] == np.mean(np.flatnonzero(part == 1))


def test_weights_are_those_of_the_rows_that_are_fitted(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=30).round(3), "y": ["a", "b"] * 15, "w": rng.integers(1, 9, 30)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    keep = np.arange(30)[::-1][:20]
    options = {"data": str(tmp_path / "t.csv"), "target": "y", "weights": "w", "rows": lambda n: keep}
    found = tables.fit(NaiveBayes(), options)
    some = frame.iloc[keep]
    wanted = NaiveBayes().fit(some[["x"]], some["y"], sample_weight=some["w"])
    np.testing.assert_array_equal(found.predict_proba(frame[["x"]]), wanted.predict_proba(frame[["x"]]))
    told, scored = tables.score(found, options, options["data"])
    assert told["log_likelihood"] == scored.value == pytest.approx(wanted._evaluate(some[["x"]], some["y"]).value)


def test_runs_are_compared_by_their_best_score_and_the_best_comes_first(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Y = pd.DataFrame(rng.poisson(np.exp(rng.normal(size=(40, 1)) * [1.0, 1.1, 1.2])), columns=["a", "b", "c"])
    Y.to_csv("y.csv", index=False)
    for name, more in (("far", ["--covariance", "diagonal"]), ("near", [])):
        assert run("fit", "pln", "y.csv", "-o", name, *more, "-q")[0] == 0
    code, out, _ = run("compare", "far", "near", "--data", "y.csv", "--json")
    table = json.loads(out)
    assert (code, list(table)) == (0, ["near", "far"])
    far, near = (load(f"{name}/model.tallies")._evaluate(Y, method="importance") for name in ("far", "near"))
    assert (table["far"]["kind"], table["far"]["value"]) == ("estimate", pytest.approx(far.value))  # not the bound
    assert table["far"]["difference"] == pytest.approx((far.rows - near.rows).mean())
    assert table["far"]["difference"] < 0 == table["near"]["difference"]


def test_a_page_of_a_holdout_is_of_the_rows_held_out(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=50)
    pd.DataFrame({"x": x, "y": np.where(x > 0, "up", "down")}).to_csv("t.csv", index=False)
    assert run("fit", "gda", "t.csv", "-t", "y", "-o", "RUN", "--holdout", "0.2", "-q")[0] == 0
    assert run("report", "RUN", "-q")[0] == 0
    assert "On 10 rows it had not seen" in (tmp_path / "RUN" / "report.html").read_text("utf-8")
