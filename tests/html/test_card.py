"""Models in a notebook: short, true, escaped, and beside scikit-learn's own machinery."""

import warnings
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from contract import CASES
from tallies import FEM, GDA, LDA, PLN, AuthorConcept, NaiveBayes
from tallies.datasets import species, tic_tac_toe
from tallies.estimator import Estimator, Run
from tallies.html import build

EVIL = '<script>alert("x")</script>'


class Parts(HTMLParser):
    """Text, and whether every element that was opened is closed."""

    def __init__(self, html: str):
        super().__init__()
        self.text, self.open, self.tags = "", [], set()
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def look(model) -> str:
    html = model._repr_html_()
    parts = Parts(html)
    assert not parts.open
    assert parts.tags <= {"div", "b", "span", "code", "table", "tr", "th", "td"}
    assert "http" not in html
    assert len(html) < 12_000
    return parts.text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_model_has_a_card(case):
    model = case.make()
    text = look(model)
    assert "Not fitted yet. Next: model.fit(" in text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(**case.data(np.random.default_rng(0), 120))
    text = look(model)
    assert "Not fitted" not in text
    assert text.startswith(type(model).__name__)
    assert "sweep" in text or "one pass" in text
    assert ("before it had settled" in text) is not model.converged_
    assert all(f"{what}{found}" in text for what, found in model._learned())
    assert all(step in text for step in model.next_steps)
    assert look(clone(model)).count("Not fitted yet") == 1


def test_what_was_learned_is_named():
    made = species(80, 6)
    model = PLN().fit(made.X, covariates=made.truth["covariates"])
    R = np.triu(np.abs(model.correlation_), 1)
    a, b = (made.X.columns[i] for i in np.unravel_index(R.argmax(), R.shape))
    assert model._learned()[0][0] == f"{a} & {b}"
    assert "largest effect of forest" in look(model)
    boards, won = tic_tac_toe()
    assert "middle_centre=" in look(FEM(degree=1, ridge=1.0).fit(boards, won))
    X = np.array([[5, 4, 0, 0], [0, 0, 4, 5]] * 20)
    topics = LDA(n_topics=2, max_iter=60, burn_in=30, random_state=0).fit(pd.DataFrame(X, columns=["plum", "pear", "zinc", "iron"]))
    assert "plum pear" in look(topics)
    rows = pd.DataFrame({"useless": [0.0, 1.0, 0.0, 1.0], "telling": [0.0, 0.1, 5.0, 5.1]})
    name, found = GDA(covariance="diagonal").fit(rows, [0, 0, 1, 1])._learned()[0]
    assert (name, found) == ("telling", "tells 100% of what it takes to know the class")


def test_data_are_shown_and_not_run():
    rows = pd.DataFrame({EVIL: [0.0, 1.0, 5.0, 6.0]})
    model = NaiveBayes().fit(rows, [EVIL, EVIL, "b", "b"])
    assert EVIL in look(model)
    assert EVIL not in model._repr_html_()


def test_long_texts_are_cut():
    text = look(GDA().fit(pd.DataFrame({"x" * 5000: [0.0, 1.0, 5.0, 6.0]}), [0, 0, 1, 1]))
    assert len(text) < 1500


def test_many_classes_are_not_all_named():
    y = np.repeat(np.arange(300), 2)
    text = look(GDA().fit(np.random.default_rng(0).normal(size=(600, 2)) + y[:, None], y))
    assert "and 280 more" in text


def test_scikit_learn_decides_whether_it_is_shown():
    model = GDA()
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == "GDA()"
    assert bundle["text/html"] == model._repr_html_()
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert set(model._repr_mimebundle_()) == {"text/plain"}
    assert "sk-estimator" in make_pipeline(StandardScaler(), AuthorConcept())._repr_html_()  # a pipeline keeps its diagram


class Draws(NamedTuple):
    """Settings of a method, as an estimator may take them."""

    n: int = 100
    seed: int = 0


@dataclass(eq=False, repr=False, kw_only=True)
class Walk(Estimator):
    """A walk that says how it ended."""

    method: Draws | str = "plain"
    random_state: int = 0

    def fit(self, X, y=None):
        return self


class Walked(NamedTuple):
    run: Run


@pytest.mark.parametrize(
    ("stopped", "why"), [("interrupted", "it was interrupted"), ("callback", "a callback ended it"), ("limit", "raise max_iter")]
)
def test_any_estimator_is_shown_by_what_all_have(stopped, why):
    model = Walk(method=Draws(n=500))
    assert "Draws(n=500, seed=0)" in look(model)
    model.fitted_ = Walked(Run(np.array([-3.0, -2.0, -1.5]), 3, False, stopped, 7))
    text = look(model)
    assert f"The fit stopped after 3 sweeps before it had settled: {why}." in text
    assert "Stopped after 3 sweeps; log likelihood -1.5 nats." in text
    page = build(model)
    assert page.warnings == [f"The fit stopped after 3 sweeps before it had settled: {why}."]
    shown = Parts(page.sections[1].html()).text
    assert "Option methodDraws(n=500)" in shown  # what is as usual is left out
    assert "Seed7" in shown
    chart = page._charts[0]
    assert chart["columns"] == ["sweep", "objective"]
    assert chart["rows"] == [[1, -3.0], [2, -2.0], [3, -1.5]]
