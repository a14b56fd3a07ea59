"""The pages of models of categories."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from tallies import FEM, FEMNetwork
from tallies.categories import views as weights
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
    assert "The strongest term is left & right." in page.lead
    assert "right for 100%" in page.lead
    charts = data_of(page.html())["charts"]
    first = charts[0]
    assert first["title"] == "Combinations that speak for same"
    assert {first["labels"][0], first["labels"][1]} == {"left=0 & right=0", "left=1 & right=1"}
    assert first["series"][0]["values"][0] > 0 > first["series"][0]["values"][-1]
    assert first["series"][0]["low"][0] < first["series"][0]["values"][0] < first["series"][0]["high"][0]
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
    assert "States that speak" in html


def test_network_finds_the_pair():
    X, _ = both(400)
    X["right"] = np.where(np.random.default_rng(0).random(400) < 0.1, X["right"], X["left"])
    page = build(FEMNetwork().fit(X), X, held_out=False)
    assert "The strongest coupling is left – right." in page.lead
    assert {"Which variables are coupled", "Strongest couplings", "All couplings"} <= set(titles(page))
    assert "conditional" in page.html()


def test_steps_in_time_have_arrows():
    rng = np.random.default_rng(0)
    Z = rng.integers(0, 2, (300, 3))
    Z[1:, 1] = Z[:-1, 0]
    page = build(FEMNetwork(lag=1).fit(pd.DataFrame(Z, columns=["a", "b", "c"])))
    assert "The strongest coupling is a → b." in page.lead


def test_a_network_keeps_the_strongest_of_many():
    S = np.random.default_rng(0).random((100, 100))
    chart = weights.network("n", [f"v{i}" for i in range(100)], S, "")
    assert len(chart["px"]) == weights.NODES
    assert len(chart["links"]) == weights.LINKS
    assert weights.network("n", ["a", "b"], np.ones((2, 2)), "") is None
