"""The pages of models of categories."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from tallies import FEM, FEMNetwork
from tallies.categories import views as weights
from tallies.categories.demo import EXHIBITS
from tallies.datasets import TIC_TAC_TOE_LINES, tic_tac_toe
from tallies.html import build

EVIL = '<script>alert("x")</script>'


def data_of(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])


def titles(page) -> list[str]:
    return [c["title"] for c in data_of(page.html())["charts"]]


def both(n=200, seed=0):
    """The class is whether two variables agree; a third is noise."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n, 3)), columns=["left", "right", "noise"]).astype(str)
    return X, np.where(X["left"] == X["right"], "same", "other")


@pytest.fixture(scope="module")
def fitted():
    X, y = both()
    return FEM(degree=2, ridge=0.1).fit(X, y), X, y


def test_page_shows_the_interaction(fitted):
    model, X, y = fitted
    new, truth = both(seed=1)
    page = build(model, new, truth, held_out=True, rows=(X, y))
    assert page.lead.startswith("Of 3 combinations of two variables one stands out, left & right: left=")
    assert "right for 100%" in page.lead
    first, single = data_of(page.html())["charts"][:2]
    assert first["title"] == "Combinations of two variables that matter most"
    said = re.fullmatch(r"(same|other) ← left=(.) & right=(.)", first["labels"][0])
    assert said, first["labels"]
    assert (said[2] == said[3]) == (said[1] == "same")
    weight = model.effect(left=said[2], right=said[3])[said[1]]
    bars = first["series"][0]
    assert bars["values"][0] == pytest.approx(weight, rel=1e-4)
    assert bars["values"] == sorted(bars["values"], reverse=True)
    assert bars["low"][0] < bars["values"][0] < bars["high"][0]
    assert single["title"] == "What single variables say of same"
    assert {"Which variables act together", "What each class was called"} <= set(titles(page))


def test_weights_of_a_term_are_those_of_the_model(fitted):
    model, *_ = fitted
    grid = next(c for c in data_of(build(model).html())["charts"] if c.get("by") == "term")["views"][0]
    assert grid["title"] == "Weights of left & right"
    assert grid["values"][0][0] == pytest.approx(model.effect(left="0", right="0")["same"], rel=1e-4)
    assert grid["values"][0][1] == pytest.approx(model.effect(left="0", right="1")["same"], rel=1e-4)


def test_three_classes_and_degree_one():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({EVIL: rng.integers(0, 3, 90).astype(str), "名前": rng.integers(0, 2, 90).astype(str)})
    y = np.array([EVIL, "b", "c"])[X[EVIL].astype(int)]
    page = build(FEM(degree=1, ridge=0.1).fit(X, y), X, y, held_out=False)
    html = page.html()
    assert EVIL not in html
    assert any("fitted to" in text for text in page.warnings)
    assert "What single variables say of" in html


def test_network_finds_the_pair():
    X, _ = both(400)
    X["right"] = np.where(np.random.default_rng(0).random(400) < 0.1, X["right"], X["left"])
    page = build(FEMNetwork().fit(X), X, held_out=False)
    assert page.lead.startswith("Going together most: left with right")
    assert re.search(r"In the first, left=(.) with right=\1 is more frequent", page.lead)
    assert {"Which variables are coupled", "Strongest couplings", "All couplings"} <= set(titles(page))
    assert "conditional" in page.html()


def test_steps_in_time_have_arrows():
    rng = np.random.default_rng(0)
    Z = rng.integers(0, 2, (300, 3))
    Z[1:, 1] = Z[:-1, 0]
    page = build(FEMNetwork(lag=1).fit(pd.DataFrame(Z, columns=["a", "b", "c"])))
    assert page.lead.startswith("Acting most on what follows: a on b")


def test_a_network_keeps_the_strongest_of_many():
    S = np.random.default_rng(0).random((100, 100))
    chart = weights.network("n", [f"v{i}" for i in range(100)], S, "")
    assert len(chart["px"]) == weights.NODES
    assert len(chart["links"]) == weights.LINKS
    assert weights.network("n", ["a", "b"], np.ones((2, 2)), "") is None


def classes_of_three(n=300, seed=0):
    """Three classes: c where p and q agree, else by p."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n, 3)).astype(str), columns=["p_one", "q_two", "noise"])
    return X, np.where(X["p_one"] == X["q_two"], "iris", np.where(X["p_one"] == "0", "rose", "lily"))


def followed(page, by):
    """Charts that show what is chosen, also within what another selector shows."""
    found = []

    def look(chart):
        if chart.get("by") == by:
            found.append(chart)
        for view in chart.get("views", []):
            look(view)

    for chart in data_of(page.html())["charts"]:
        look(chart)
    return found


def test_tic_tac_toe_leads_with_its_eight_lines():
    model, rows, told = EXHIBITS[0].make()
    page = build(model, *rows, **told)
    boards, _ = tic_tac_toe()
    lines = {" & ".join(f"{boards.columns[c]}=x" for c in line) for line in TIC_TAC_TOE_LINES}
    first = data_of(page.html())["charts"][0]
    assert {label.removeprefix("x wins ← ") for label in first["labels"][:8]} == lines
    assert page.lead.startswith("Of 84 combinations of three variables 8 stand out: ")
    assert page.face["labels"] == first["labels"]
    named = page.lead.removeprefix("Of 84 combinations of three variables 8 stand out: ").split(" and 5 others")[0].split(", ")
    assert named == [
        label.removeprefix("x wins ← ").replace("=x", "") for label in first["labels"][:3]
    ]  # in the order of the chart


def test_criteria_are_for_statisticians(fitted):
    model, X, y = fitted
    page = build(model, X, y, held_out=False)
    assert [what for what, *_ in page.numbers] == ["Right", "Without looking"]
    assert not re.search("log loss|Brier|likelihood|nats", page.lead)
    keys = [section.key for section in page.sections]
    assert keys.index("criteria") > max(keys.index("learned"), keys.index("rows"), keys.index("quality"))
    text = "".join(next(section for section in page.sections if section.key == "criteria").parts)
    assert "Brier score" in text
    assert "share of squared weights" in text


def test_a_class_that_is_chosen_holds_in_every_chart():
    X, y = classes_of_three()
    model = FEM(degree=2, ridge=0.1).fit(X, y)
    page = build(model, X, y, held_out=False)
    chosen = followed(page, "class")
    assert len(chosen) >= 4  # combinations, states, effects, calibration
    for chart in chosen:
        assert len(chart["views"]) == 3
        for name, view in zip(model.classes_, chart["views"], strict=True):
            assert name in (view["views"][0] if "views" in view else view)["title"]
    opened = {title.rpartition(" of ")[2] for title in (chart["title"] for chart in chosen) if title.startswith("What ")}
    assert len(opened) == 1  # of one class, before any is chosen
    grids = followed(page, "term")[0]["views"]
    assert all(grid["down"] == model.classes_.tolist() and grid["select"] == "class" for grid in grids)
    html = page.html()
    for name in (*X.columns, *model.classes_):  # names stay as they are, at the start of a sentence too
        assert name.capitalize() not in html


def test_what_a_variable_says_with_others_is_the_sum_of_its_weights():
    X, y = classes_of_three()
    model = FEM(degree=2, ridge=0.1).fit(X, y)
    k = model.classes_.tolist().index("lily")
    effect = followed(build(model), "variable")[k]["views"][0]
    assert effect["title"] == "What p_one says of lily"
    assert effect["down"][0] == "on average"
    alone = [model.effect(p_one=s)["lily"] for s in "01"]
    assert effect["values"][0] == pytest.approx(alone, rel=1e-4)
    at = effect["down"].index("q_two=1")
    both = [alone[int(s)] + model.effect(p_one=s, q_two="1")["lily"] for s in "01"]
    assert effect["values"][at] == pytest.approx(both, rel=1e-4)


def test_rows_are_explained_wrong_ones_first():
    X, y = classes_of_three()
    model = FEM(degree=2, ridge=0.1).fit(X, y)
    new, truth = classes_of_three(60, seed=1)
    truth[7] = "rose" if truth[7] != "rose" else "lily"
    page = build(model, new, truth)
    first = followed(page, "row")[0]["views"][0]
    parts = model.explain(new[7:8])
    assert first["title"].startswith(f"Why row 7 was called {parts['predicted'][0]} (")
    assert first["title"].endswith(f"though it is {truth[7]}")
    assert sum(first["series"][0]["values"]) == pytest.approx(parts["contribution"].sum(), rel=1e-4)
    assert first["series"][0]["values"] == sorted(first["series"][0]["values"], reverse=True)


@pytest.mark.filterwarnings("ignore::tallies.errors.DataWarning")
@pytest.mark.parametrize("ridge", [1e-6, 1.0])
def test_certain_outcomes_are_told_in_finite_numbers(ridge):
    """A class that follows from a column for certain, beside a column with one state."""
    X = pd.DataFrame({"colour": ["red", "blue"] * 60, "shape": ["round"] * 120})
    y = np.where(X["colour"] == "red", "yes", "no")
    for model, rows in (
        (FEM(ridge=ridge).fit(X, y), (X, y)),
        (FEMNetwork(ridge=ridge).fit(X.assign(other=y)), (X.assign(other=y),)),
    ):
        page = build(model, *rows)
        for text in (model.summary(), page.lead, re.sub(r"<script.*?</script>|<style.*?</style>", "", page.html(), flags=re.S)):
            assert not re.search(r"\b(inf|nan|Infinity)\b", text)


def test_only_couplings_above_the_background_are_listed():
    X, _ = both(400)
    X["right"] = X["left"]
    model = FEMNetwork(ridge=1.0).fit(X)
    top = next(c for c in data_of(build(model).html())["charts"] if c["title"] == "Strongest couplings")
    assert top["labels"] == ["left – right"]
    assert (model.scores() < 0).any()


def test_noise_is_no_finding():
    """Of ten tables of noise the leads claim next to nothing, and of ten with something in them they say it."""
    wrong = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.integers(0, 3, (500, 5)), columns=list("abcde")).astype(str)
        y = rng.choice(["yes", "no"], 500)
        lead = build(FEM(degree=2, ridge=0.1).fit(X, y)).lead
        wrong += "none stands out from the noise of 500 rows." not in lead
        wrong += "No single variable stands out from the others." not in lead
        wrong += "No coupling stands out from the noise of 500 rows." not in build(FEMNetwork(ridge=0.1).fit(X)).lead
        y = np.where((X["a"] == X["b"]) & (rng.random(500) < 0.7), "yes", y)
        assert " stand" in build(FEM(degree=2, ridge=0.1).fit(X, y)).lead.split("a & b")[0]
        X["b"] = np.where(rng.random(500) < 0.4, X["a"], X["b"])
        assert build(FEMNetwork(ridge=0.1).fit(X)).lead.startswith("Going together most: a with b")
    assert wrong <= 2  # of thirty, each wrong by chance once in a hundred


def test_what_others_tell_of_a_variable_with_gaps_is_of_its_values():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (300, 3)).astype(float)
    X[:, 1] = X[:, 0]
    X[:200, 0] = np.nan
    model = FEMNetwork(ridge=1.0, missing="ignore").fit(X)
    page = build(model, X)
    chart = next(c for c in data_of(page.html())["charts"] if c["title"] == "What the others tell of each variable")
    log_p, known = model.log_conditional(X), ~np.isnan(X)
    expected = [log_p[k, j].mean() + np.log(1 / model.frequencies_[j]) @ model.frequencies_[j] for j, k in enumerate(known.T)]
    told = dict(chart["rows"])
    np.testing.assert_allclose([told[name] for name in ("x0", "x1", "x2")], expected, atol=1e-3)
    assert f"has probability {np.exp(log_p[known].mean()):.2f} (geometric mean)" in page.html()
