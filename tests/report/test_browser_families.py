"""The pages of topics, counts, categories and concepts in a real browser: they open clean, and answer."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import browsing
from tallies import LDA, Corpus
from tallies.report import write

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
        "return a.left < -1 || a.right > innerWidth + 1; }).map(t => t.textContent)"
    )
    assert wide == []


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
