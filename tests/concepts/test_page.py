"""The page of an author-concept model."""

import json
import re

import numpy as np
import pytest

from tallies import AuthorConcept, Corpus, Ontology
from tallies.concepts.page import marked
from tallies.errors import DataError
from tallies.html import build

EVIL = '<script>alert("x")</script>'
CONCEPTS = Ontology(
    ["r", "x", "y", "z"],
    ["process", "cell death", "gene expression", EVIL],
    synonyms=[[], ["apoptosis"], [], []],
    parents=[[], ["r"], ["r"], ["r"]],
)
TEXT = [
    ("d1", "Apoptosis of cells was seen."),
    ("d1", "The gene is expressed."),
    ("d1", f"Nothing but {EVIL}."),
    ("d2", "Cell death follows."),
    ("d2", "It rained."),
]


@pytest.fixture(scope="module")
def fitted():
    corpus = Corpus.from_pairs(TEXT, [("d1", "Ann"), ("d2", "Bob"), ("d2", EVIL)])
    return AuthorConcept().fit(corpus, CONCEPTS), corpus


def data_of(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])


def test_sentences_show_their_evidence(fitted):
    model, corpus = fitted
    html = build(model, corpus).html()
    assert re.search(r'<mark class="for\d" title="log odds \+[\d.]+">Cell</mark>', html)
    assert re.search(r'<mark class="for\d" title="log odds \+[\d.]+">gene</mark>', html)
    assert re.search(r'<mark class="against" title="log odds -[\d.]+">expressed</mark>', html)  # another form than the name has
    assert EVIL not in html
    assert "cell death" in html


def test_marks_are_the_log_odds_of_the_model(fitted):
    model, _ = fitted
    evidence = model.explain("Cell death follows.", "x")
    runs = marked("Cell death follows.", list(zip(evidence["what"], evidence["log_odds"], strict=True)))
    odds = dict(zip(evidence["what"], evidence["log_odds"], strict=True))
    assert [run[2] for run in runs if run[1]] == [f"log odds {odds['cell']:+.2f}", f"log odds {odds['death']:+.2f}"]
    assert "".join(run[0] for run in runs) == "Cell death follows."


def test_tree_rolls_up(fitted):
    model, _ = fitted
    html = build(model).html()
    total = model.roll_up(np.asarray(model.responsibilities_.sum(axis=0)).ravel()[:4])
    assert f"process</button> <b>{total[0]:.1f}".rstrip("0").rstrip(".") in html or f"process <b>{total[0]:.1f}" in html
    assert html.count("<li><span>") == 3  # three concepts that were met, below the root


def test_profiles_of_authors_and_concepts(fitted):
    model, corpus = fitted
    charts = data_of(build(model, corpus).html())["charts"]
    titles = {view["title"] for chart in charts for view in [chart, *chart.get("views", [])]}
    assert {"What Ann writes about", "What speaks for cell death", "Who writes of what"} <= titles
    profile = next(v for c in charts for v in c.get("views", []) if v["title"] == "What Ann writes about")
    assert profile["labels"][0] == model.author_profile("Ann")["name"].iloc[0]


def test_other_corpora_and_words(fitted):
    model, _ = fitted
    new = Corpus.from_texts(["Death of a cell. Genes are expressed."], sentences=True)
    assert "Death" in build(model, new).html()
    with pytest.raises(DataError, match="has no sentences"):
        build(model, Corpus.from_texts(["Death of a cell."]))
    bags = AuthorConcept(words="multinomial").fit(Corpus.from_pairs(TEXT, [("d1", "Ann")]), CONCEPTS)
    assert "1 author" in build(bags).lead
