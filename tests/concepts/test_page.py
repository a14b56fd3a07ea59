"""The page of an author-concept model."""

import json
import re

import numpy as np
import pytest

from tallies import AuthorConcept, Corpus, Ontology
from tallies.concepts.answers import expected, written
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


@pytest.fixture(scope="module")
def people():
    """Three authors who write of three things, and of one that all write of."""
    concepts = Ontology(["c", "g", "b", "w"], ["cell death", "gene expression", "brain", "water"])
    own = {"ann_x": "Cell death was seen.", "iBob": "The gene expression rose.", "Cy": "The brain is large."}
    said, wrote = [], []
    for name, text in own.items():
        for i in range(6):
            said += [(f"{name} {i}", text), (f"{name} {i}", "It is water.")]
            wrote.append((f"{name} {i}", name))
    corpus = Corpus.from_pairs(said, wrote)
    return AuthorConcept().fit(corpus, concepts), corpus


def test_the_first_screen_says_who_writes_of_what(people):
    model, corpus = people
    page = build(model, corpus, data_name="papers")
    assert page.title == "Who writes of what in papers"
    assert page.lead.startswith("Most is written of water (in 18 sentences)")
    assert sorted(text.partition(":")[0] for text in page.findings) == [
        "Cy writes of brain",
        "ann_x writes of cell death",  # a name is never capitalised
        "iBob writes of gene expression",
    ]
    html = page.html()
    first = html[: html.index('<section id="sentences"')]
    assert "Objective" not in first
    assert "likelihood" not in first
    assert first.count("<figure") == 1  # one picture
    grid = next(c for c in data_of(html)["charts"] if c["title"] == "Who writes of what")["none"]
    for author, concept in (("ann_x", "cell death"), ("iBob", "gene expression"), ("Cy", "brain")):
        row = grid["values"][grid["down"].index(author)]
        assert row[grid["across"].index(concept)] == pytest.approx(0.5, abs=0.05)
        assert row[grid["across"].index("water")] == pytest.approx(0.5, abs=0.05)
    assert grid["across"][0] == "water"  # the commonest first
    assert html.index('id="statisticians"') > html.index('id="concepts"')


def test_expected_sentences_of_authors_add_up(people):
    model, _ = people
    found = written(model.fitted_)
    np.testing.assert_allclose(found.sum(axis=0), expected(model.fitted_), rtol=1e-5)  # all documents have authors
    both = Corpus.from_pairs([("d", "cell death"), ("e", "cell death")], [("d", "Ann"), ("d", "Bob"), ("e", "Bob")])
    for options in ({}, {"document_backoff": 2.0}, {"preset": "seed"}):
        other = AuthorConcept(**options).fit(both, Ontology(["x", "y"], ["cell death", "death of cells"]))
        shares = written(other.fitted_).sum(axis=1)
        assert shares[1] == pytest.approx(3 * shares[0], rel=0.01)  # one sentence, and half of one, of which Ann has a half


def test_tags_of_a_sentence_are_sorted_by_the_number_that_they_show():
    concepts = Ontology(["a", "b", "c"], ["cell", "cell death", "gene"])
    texts = [("d", "Cell death of a gene."), ("d", "A gene in a cell."), ("e", "Death of the cell and gene.")]
    model = AuthorConcept().fit(Corpus.from_pairs(texts * 3), concepts)
    html = build(model, Corpus.from_pairs(texts * 3)).html()
    several = 0
    for tags in re.findall(r'<div class="tags">(.*?)</div>', html):
        shown = [int(p) for p in re.findall(r"(\d+)%", tags)]
        assert shown == sorted(shown, reverse=True)
        several += len(shown) > 1
    assert several


@pytest.mark.parametrize("authors", [[], [("d", "only one")], [("d", "x" * 120), ("e", "名前 😀")]])
def test_pages_of_few_and_odd_authors(authors):
    corpus = Corpus.from_pairs([("d", "cell death"), ("e", "It rained."), ("e", "cell death")], authors)
    page = build(AuthorConcept().fit(corpus, Ontology(["x"], ["cell death"])), corpus)
    assert page.findings == []  # who writes of the one concept is no finding
    assert "cell death" in page.html()
    nothing = build(AuthorConcept().fit(["cell", "death"], Ontology(["x"], ["cell death of a strange and rare kind"])))
    assert "speak of a concept" in nothing.lead


def test_a_single_author_is_shown_without_a_choice(tmp_path):
    corpus = Corpus.from_pairs([("d", "a red fox ran"), ("d", "the fox slept")], [("d", "Ann")])
    model = AuthorConcept().fit(corpus, Ontology(["G"], ["fox"]))
    page = model.report(tmp_path / "page.html", corpus).read_text(encoding="utf-8")
    assert '<td class="first" data-head="author">Ann' in page
    assert 'data-rows-of="author"' not in page  # rows of what is chosen alone, and there is nothing to choose


def test_another_corpus_of_as_many_sentences_shows_its_own(fitted):
    model, _ = fitted
    other = Corpus.from_pairs([*((f"e{i}", "It rained again.") for i in range(4)), ("e4", "Cell death follows the storm.")], [])
    assert "follows the storm" in build(model, other).html()
