"""The pages of topics, counts, categories and concepts in a real browser: they open clean, and answer."""

from __future__ import annotations

import warnings
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest

import browsing
from tallies import FEM, LDA, PLN, AuthorConcept, Corpus, FEMNetwork, Ontology
from tallies.html import write

By, Keys = browsing.By, browsing.Keys
EVIL = "<script>window.hacked = 1</script>"


def opens_clean(browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width, dark=dark)
    assert browser.run("document.documentElement.dataset.ready") == "yes"
    console, asked = browser.logs()
    assert console == []
    assert [url for url in asked if not url.startswith((page.as_uri(), "about:", "data:"))] == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("window.hacked") is None
    wide = browser.run(
        "[...document.querySelectorAll('figure svg[role=img] text')].filter(t => { const a = t.getBoundingClientRect();"
        "return !t.closest('.wider') && (a.left < -1 || a.right > innerWidth + 1); }).map(t => t.textContent)"
    )
    assert wide == []
    cut = browser.run(  # what a saved picture would lack
        "[...document.querySelectorAll('figure svg[role=img]')].flatMap(g => { const b = g.getBoundingClientRect();"
        "return [...g.querySelectorAll('text')].filter(t => { const a = t.getBoundingClientRect(); return a.width &&"
        "(a.left < b.left - 1 || a.right > b.right + 1); }).map(t => t.textContent); })"
    )
    assert cut == []
    narrow = "[...document.querySelectorAll('div.box')].filter(b => b.scrollWidth > b.clientWidth + 1).map(b => b.textContent)"
    assert browser.run(narrow) == []  # tables have all of their columns in view
    legends = browser.run("[...document.querySelectorAll('.legend text')].map(t => t.getBoundingClientRect().right)")
    assert max(legends, default=0) <= width  # also where a heat map is wider than the page


SCREENS = pytest.mark.parametrize(("width", "dark"), [(390, False), (1440, True)], ids=["phone", "desk-dark"])


@pytest.fixture(scope="module")
def topics(tmp_path_factory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("topics")
    subjects = [
        "apple pear plum cherry grape",
        "iron zinc copper tin lead",
        "rain snow wind storm cloud",
        "violin oboe flute drum horn",
    ]
    texts = [f"{EVIL} {subject} {' '.join(subject.split()[i % 4 :])} the {i}" for i in range(12) for subject in subjects]
    corpus = Corpus.from_texts(texts)
    pages = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for K in (1, 4, 60):
            model = LDA(n_topics=K, max_iter=60, burn_in=30, random_state=0).fit(corpus)
            pages[str(K)] = write(model, home / f"{K}.html", corpus, texts=texts, group=["fruit", EVIL, "sky", "音楽"] * 12)
    return pages


@SCREENS
@pytest.mark.parametrize("name", ["1", "4", "60"])
def test_topic_pages_open_clean(browser, topics, name, width, dark):
    opens_clean(browser, topics[name], width, dark)


def test_a_legend_of_a_heat_map_is_read_on_a_phone(browser, topics):
    """Its numbers do not run into each other, and all colours of topics have their names."""
    browser.open(topics["4"], 390)
    apart = (
        "[...document.querySelectorAll('figure svg[role=img] g.legend')].map(g => [...g.querySelectorAll('text.tick')]"
        ".map(t => t.getBoundingClientRect()).sort((a, b) => a.left - b.left))"
        ".map(all => Math.min(...all.slice(1).map((b, i) => Math.abs(b.top - all[i].top) > 4 ? 99 : b.left - all[i].right)))"
    )
    assert min(browser.run(apart)) >= 2
    hidden = "[...document.querySelectorAll('.chips')].map(c => c.scrollHeight - c.clientHeight)"
    assert max(browser.run(hidden)) <= 0


def test_a_topic_is_chosen_on_the_map(browser, topics):
    browser.open(topics["4"])
    figure = browser.figure("Map of the topics")
    drawing = figure.find_element(By.CSS_SELECTOR, "svg[role=img]")
    drawing.send_keys(Keys.ARROW_RIGHT, Keys.ENTER)
    assert browser.hash().startswith("#topic=")
    words = browser.figure("Words of topic ")
    assert len(words.find_elements(By.CSS_SELECTOR, "rect.behind")) > 3
    assert browser.figure("Topic ")  # its share by group
    shown = [li for li in browser.all(".passages li") if li.is_displayed()]
    assert shown
    assert all("0" in li.get_attribute("data-keys").split() for li in shown)


def test_relevance_slider_reorders_words_and_is_in_the_address(browser, topics):
    browser.open(topics["4"])
    first = browser.run("[...document.querySelectorAll('#pick-topic option')][1].textContent")
    browser.open(topics["4"], hash=f"#topic={first}&lambda=0")
    slider = browser.one("#slide-lambda")
    assert slider.get_attribute("value") == "0"
    assert "special to the topic" in browser.one(".slide output").text
    slider.send_keys(Keys.END)
    assert browser.hash().endswith("lambda=1")
    assert "frequent in the topic" in browser.one(".slide output").text
    browser.one("body").send_keys(Keys.ESCAPE)
    assert browser.hash() == ""


def test_documents_are_searched_and_lead_to_topics(browser, topics):
    browser.open(topics["4"])
    box = browser.one(".passages input")
    box.send_keys("violin")
    shown = [li for li in browser.all(".passages li") if li.is_displayed()]
    assert shown
    assert all("violin" in li.text for li in shown)
    tag = shown[0].find_element(By.CSS_SELECTOR, ".tags button")
    tag.send_keys(Keys.ENTER)  # a click would race with smooth scrolling
    assert browser.hash().startswith("#topic=")
    assert tag.get_attribute("aria-pressed") == "true"


@pytest.fixture(scope="module")
def others(tmp_path_factory) -> dict[str, Path]:
    """Small pages of the other families, with names that bite."""
    home, rng = tmp_path_factory.mktemp("others"), np.random.default_rng(0)
    species = [EVIL, "名前 😀", "a name of one hundred and twenty letters " * 3, *(f"species {j}" for j in range(60))]
    C = rng.normal(0, 0.7, (63, 2))
    Y = pd.DataFrame(rng.poisson(np.exp(1 + rng.normal(size=(40, 2)) @ C.T)), columns=species)
    height = pd.DataFrame({"intercept": 1.0, "height": rng.normal(size=40), EVIL: rng.normal(size=40)})
    X = pd.DataFrame(rng.integers(0, 3, (150, 4)), columns=[EVIL, "b", "عرض", "d"]).astype(str)
    y = np.where(X["b"] == X["d"], "same", "other")
    concepts = Ontology(["r", "x", "y"], ["process", "cell death", EVIL], parents=[[], ["r"], ["r"]])
    text = [
        ("d1", "Dead cells follow cell death."),
        ("d1", f"It was {EVIL}."),
        ("d2", "Death of cells."),
        ("d2", "A process runs."),
    ]
    corpus = Corpus.from_pairs(text, [("d1", "Ann"), ("d2", EVIL)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "pln": write(PLN(rank=2).fit(Y, covariates=height), home / "pln.html", Y, height),
            "fem": write(FEM(degree=2, ridge=0.1).fit(X, y), home / "fem.html", X, y),
            "three": write(FEM(degree=2, ridge=0.1).fit(X, X["b"]), home / "three.html", X, X["b"]),
            "network": write(FEMNetwork(ridge=0.1).fit(X), home / "network.html", X),
            "concepts": write(AuthorConcept().fit(corpus, concepts), home / "concepts.html", corpus),
        }


@SCREENS
@pytest.mark.parametrize("name", ["pln", "fem", "three", "network", "concepts"])
def test_pages_of_other_families_open_clean(browser, others, name, width, dark):
    opens_clean(browser, others[name], width, dark)


def test_the_map_of_samples_is_coloured_by_a_covariate(browser, others):
    browser.open(others["pln"], hash="#colour=height")
    figure = browser.figure("Where the samples lie, by height")
    assert len(figure.find_elements(By.CSS_SELECTOR, "circle.amount")) == 40
    assert figure.find_elements(By.CSS_SELECTOR, "path.arrow")
    assert browser.figure("Which species go together").find_elements(By.CSS_SELECTOR, "image")  # many cells are one picture


def test_a_species_shows_its_partners(browser, others):
    browser.open(others["pln"])
    browser.one("#pick-species").send_keys("species 7", Keys.ENTER)
    assert browser.figure("What goes with species 7")


def test_a_term_shows_its_weights(browser, others):
    browser.open(others["fem"])
    drawing = browser.figure("Strongest terms").find_element(By.CSS_SELECTOR, "svg[role=img]")
    drawing.send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    assert browser.hash() == "#term=b & d"
    assert len(browser.figure("Weights of b & d").find_elements(By.CSS_SELECTOR, "svg[role=img] rect")) >= 9
    assert browser.figure("Which variables act together").find_elements(By.CSS_SELECTOR, "path.link")


def test_class_variable_and_row_hold_at_once(browser, others):
    browser.open(others["three"], hash="#class=2&variable=d")
    assert browser.figure("What d says of 2")
    assert browser.figure("What single variables say of 2")
    assert browser.figure("Combinations of two variables that matter most for 2")
    name = browser.one("#pick-row-list option:nth-child(2)").get_attribute("value")
    browser.open(others["three"], hash=f"#class=2&row={quote(name)}")
    assert browser.figure(f"Why {name.split(':')[0]} was called")
    assert browser.logs()[0] == []


def test_a_pair_shows_its_couplings(browser, others):
    browser.open(others["network"])
    drawing = browser.figure("Strongest couplings").find_element(By.CSS_SELECTOR, "svg[role=img]")
    drawing.send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    assert browser.hash().startswith("#pair=")


def test_sentences_are_searched_and_the_tree_selects(browser, others):
    browser.open(others["concepts"])
    browser.one(".passages input").send_keys("follow death")
    shown = [li for li in browser.all(".passages li") if li.is_displayed()]
    assert len(shown) == 1
    assert shown[0].find_elements(By.CSS_SELECTOR, "mark")
    node = next(b for b in browser.all(".tree button") if b.text == "cell death")
    node.send_keys(Keys.ENTER)
    assert browser.hash() == "#concept=cell death"
    assert node.get_attribute("aria-pressed") == "true"


def test_a_search_that_finds_nothing_says_so(browser, others):
    browser.open(others["concepts"])
    box, told = browser.one(".passages input"), browser.one(".passages .soft")
    box.send_keys("zebra")
    assert told.text == "nothing found for “zebra”"
    box.send_keys(Keys.ESCAPE)
    assert "shown" in told.text
