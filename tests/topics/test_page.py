"""The page of a topic model: what it says of good and of odd fits."""

import json
import re
import warnings

import numpy as np
import pytest

from tallies import LDA, Corpus
from tallies.errors import DataError
from tallies.html import build
from tallies.html.order import alike, plane_of
from tallies.topics.page import settled_after
from tallies.topics.views import PERIODS, by_group, distances

EVIL = '<script>alert("x")</script>'
FRUIT = ["apple pear plum apple grape", "pear plum pear cherry apple", "plum cherry grape apple pear"]
METAL = ["iron zinc copper iron tin", "zinc tin copper lead iron", "lead iron zinc copper tin"]
TEXTS = (FRUIT + METAL) * 8


def fit(texts=TEXTS, n_topics=2, **options):
    corpus = Corpus.from_texts(texts, ids=[f"text {i}" for i in range(len(texts))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return corpus, LDA(n_topics=n_topics, **{"max_iter": 60, "burn_in": 30, "random_state": 0} | options).fit(corpus)


def data_of(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])


def test_classical_scaling_keeps_distances_of_a_plane():
    Z = np.random.default_rng(0).normal(size=(7, 2))
    D = np.linalg.norm(Z[:, None] - Z[None], axis=2)
    found = plane_of(D)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found[None], axis=2), D, atol=1e-10)
    assert plane_of(np.zeros((1, 1))).tolist() == [[0.0, 0.0]]


def test_like_things_are_neighbours():
    R = np.kron(np.array([[1.0, -0.5], [-0.5, 1.0]]), np.full((3, 3), 0.9)) + 0.1 * np.eye(6)
    mixed = np.array([0, 3, 1, 4, 2, 5])
    order = mixed[alike(R[np.ix_(mixed, mixed)])[0]]
    assert sorted(order[:3].tolist()) in ([0, 1, 2], [3, 4, 5])


def test_hellinger_distance():
    assert distances(np.array([[0.5, 0.5], [0.5, 0.5]])).max() < 1e-7


def test_page_says_what_was_found():
    corpus, model = fit()
    page = build(model, corpus, texts=TEXTS, held_out=True, group=(["fruit"] * 3 + ["metal"] * 3) * 8)
    assert page.lead.startswith("2 topics in 48 documents. The largest are ")
    assert all(name in page.lead for name in page.picks[0]["items"])
    assert "In 100% of the documents one topic has more than half of the words." in page.findings
    assert any(" is written of most in group fruit (" in text for text in page.findings)
    assert page.findings[-1].startswith("On unseen documents it predicts words as well as choosing among ")
    html = page.html()
    assert "estimate by document completion" in html
    assert "Topics by group" in html
    assert 'class="m0"' in html  # words marked by their topic
    assert html.index("What the documents are about") < html.index("For statisticians</h2>") < html.index("Perplexity")
    views = next(c for c in data_of(html)["charts"] if c.get("none", {}).get("title") == "Words that tell topics apart")["views"]
    first = {view["words"][int(np.argmax(view["inside"]))] for view in views}
    assert len(first & {"apple", "pear", "plum"}) == 1
    assert len(first & {"iron", "zinc", "copper"}) == 1
    assert all(set(view["words"]) <= set(corpus.vocabulary) for view in views)
    assert "text 0, 5 words" in html


def test_texts_are_documents_of_a_report():
    texts = TEXTS[:12]
    model = LDA(n_topics=2, max_iter=60, burn_in=30, random_state=0).fit(texts)
    assert '<mark class="m0"' in build(model, texts).html()


def test_topics_have_one_colour_all_over_the_page():
    subjects = ("apple pear plum", "iron zinc tin", "rain snow wind", "oboe flute drum")
    texts = [" ".join(words.split() * 3) for words in subjects] * 10
    corpus, model = fit(texts, n_topics=4)
    charts = data_of(build(model, corpus, texts=texts, group=np.arange(40) % 5).html())["charts"]
    bars, words, time, plane = charts[:4]
    assert bars["keyed"]
    assert bars["keys"] == plane["group"] == plane["keys"] == [0, 1, 2, 3]
    assert [view["colour"] for view in words["views"]] == [0, 1, 2, 3]
    assert words["none"]["keyed"]
    assert sorted(s["key"] for s in time["none"]["series"]) == [0, 1, 2, 3]
    assert all(s["name"] == bars["labels"][s["key"]] for s in time["none"]["series"])
    assert [view["series"][0]["colour"] for view in time["views"]] == [0, 1, 2, 3]
    assert words["none"]["series"][0]["values"] == sorted(words["none"]["series"][0]["values"], reverse=True)
    assert time["none"]["series"][0]["x"] == [0, 1, 2, 3, 4]


def test_equal_names_are_told_apart():
    corpus, model = fit(n_topics=40)
    names = build(model, corpus).picks[0]["items"]
    assert len(set(names)) == 40


def test_what_is_told_of_topics_bears_their_names():
    corpus, model = fit(n_topics=40)
    page = build(model, corpus)
    (few,) = [text for text in page.warnings if "hardly used" in text]
    assert any(f"({name}" in few for name in page.picks[0]["items"])


def test_relevance_has_the_candidates_of_both_ends():
    """The best words for lambda 0, 0.6 and 1 are among those that the page holds."""
    corpus, model = fit(n_topics=3)
    page = build(model, corpus)
    view = data_of(page.html())["charts"][1]["views"][0]
    n_k, k = model.chains_[0].n_k, int(np.argmax(model.chains_[0].n_k))
    n_w = np.asarray(model.chains_[0].n_wk.sum(axis=1)).ravel()
    inside = model.topics_[k] * n_k[k]
    for weight in (0.0, 0.6, 1.0):
        score = np.where(inside > 0.5, np.log(inside) - (1 - weight) * np.log(n_w), -np.inf)
        assert model.vocabulary_[int(score.argmax())] in view["words"]


@pytest.mark.parametrize("n_topics", [1, 40])
def test_few_and_many_topics(n_topics):
    corpus, model = fit(n_topics=n_topics)
    html = build(model, corpus, texts=TEXTS).html()
    assert ("hardly used" in html) == (n_topics == 40)
    assert f"{n_topics} topic" in html
    build(model).html()  # without documents


def test_texts_are_shown_not_run():
    texts = [f"{EVIL} apple pear iron", "名前 عرض 😀 apple iron pear"] * 10
    corpus, model = fit(texts)
    html = build(model, corpus, texts=texts, names=[EVIL] * 20, title=EVIL).html()
    assert EVIL not in html
    assert "&lt;script&gt;" in html


def test_chains_and_short_runs_are_told():
    corpus, model = fit(n_chains=2, max_iter=40, burn_in=20)
    assert "R-hat" in build(model, corpus).html()
    corpus, model = fit(max_iter=3, burn_in=2)
    page = build(model, corpus)
    assert any("one sweep" in text for text in page.warnings)


def test_sentences_of_a_corpus_are_its_texts():
    corpus = Corpus.from_texts(TEXTS, sentences=True)
    model = LDA(n_topics=2, max_iter=50, burn_in=20, random_state=0).fit(corpus)
    assert 'title="topic ' in build(model, corpus).html()


def test_groups_by_time_have_gaps_and_must_fit():
    corpus, model = fit()
    years = np.repeat(np.arange(2000, 2008), 6).astype(float)
    years[0] = np.nan
    html = build(model, corpus, group=years).html()
    assert "Topics by period" in html
    dates = np.array([f"20{i:02d}-03-01" for i in range(48)], dtype="datetime64[D]")
    assert "2000 to " in build(model, corpus, group=dates).html()
    with pytest.raises(DataError, match="3 entries, but there are 48 documents"):
        build(model, corpus, group=[1, 2, 3])
    with pytest.raises(DataError, match="1 texts, but 48 documents"):
        build(model, corpus, texts=["one"])


def test_settled():
    assert settled_after(np.zeros(3), 3) is None
    assert settled_after(np.append(np.linspace(-9, 0, 10), np.zeros(30)), 60) == 30


def test_a_page_of_a_hundred_topics_is_small():
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.05, 1.0, size=(100, 3000))[rng.integers(0, 100, 2000)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LDA(n_topics=100, max_iter=5, burn_in=3, random_state=0).fit(X)
    assert len(build(model, X, group=np.arange(2000) % 30).html()) < 5e6


def test_the_command_line_shows_texts(tmp_path):
    from tallies.topics import command as topics

    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(json.dumps({"id": i, "text": text}) for i, text in enumerate(TEXTS)))
    model = topics.fit(LDA(n_topics=2, max_iter=50, burn_in=20, random_state=0), {"data": str(path)})
    html = build(model, *topics.report_data(model, {}, str(path))).html()
    assert '<mark class="m0"' in html


def test_documents_of_equal_lengths_are_those_of_the_fit_only_if_their_words_are():
    X = np.array([[2, 1, 1, 0, 0, 0], [0, 0, 0, 2, 1, 1]] * 10)
    model = LDA(n_topics=2, max_iter=30, burn_in=20).fit(X)
    for documents, ours in ((X, "yes"), (X[::-1].copy(), "not said")):
        told = re.search(r"Were these in the fit\?</th><td[^>]*>([^<]*)<", build(model, documents).html())
        assert told is not None and told[1] == ours


def test_periods_have_names_of_their_own():
    days = 20200100 + np.arange(1, 31)
    groups = by_group(np.full((30, 2), 0.5), days)
    assert len({float(name.split(" to ")[0]) for name in groups.names}) == len(groups.names) == PERIODS
    assert groups.names[0].startswith("20200101 to 2020010")
    assert by_group(np.full((3, 2), 0.5), days[:3]).names == ["20200101", "20200102", "20200103"]
