"""The page of topics in a real browser: names by words, renamed by the reader, and one search over all."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import browsing
from tallies import LDA
from tallies.html import write

By, Keys = browsing.By, browsing.Keys
SUBJECTS = [
    "apple pear plum cherry grape",
    "iron zinc copper tin lead",
    "rain snow wind storm cloud",
    "violin oboe flute drum horn",
]
TEXTS = [f"{subject} {' '.join(subject.split()[i % 4 :])} data" for i in range(12) for subject in SUBJECTS]


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[int, Path]:
    home, found = tmp_path_factory.mktemp("topics"), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for K in (1, 4, 30):
            model = LDA(n_topics=K, max_iter=60, burn_in=30, random_state=0).fit(TEXTS)
            found[K] = write(model, home / f"{K}.html", TEXTS, group=[2000 + i // 4 for i in range(48)])
    return found


def names(browser) -> list[str]:
    return browser.run("[...document.querySelectorAll('#pick-topic option')].slice(1).map(o => o.textContent)")


def search(browser, typed: str) -> list[str]:
    box = browser.one("#find")
    box.clear()
    box.send_keys(typed)
    return [item.text for item in browser.all(".found li")]


def test_the_first_screen_names_the_topics_with_bars(browser, pages):
    browser.open(pages[4])
    figure = browser.figure("What the documents are about")
    assert figure.rect["y"] < 900
    labels = {text.text for text in figure.find_elements(By.CSS_SELECTOR, "text")}
    assert set(names(browser)) <= labels
    colours = {bar.get_attribute("class") for bar in figure.find_elements(By.CSS_SELECTOR, "rect")}
    assert {"s0", "s1", "s2", "s3"} <= colours
    assert all("data" not in name for name in names(browser))  # in every topic, so it names none


def test_a_topic_is_renamed_all_over_the_page_and_in_its_link(browser, pages):
    browser.open(pages[4])
    first = names(browser)[0]
    assert not browser.one(".rename").is_displayed()
    browser.run(f"(location.hash = '#topic=' + encodeURIComponent({first!r}))")
    box = browser.one(".rename")
    assert box.get_attribute("value") == first
    box.send_keys(Keys.CONTROL + "a")
    box.send_keys("My own <b>name</b>", Keys.TAB)
    assert names(browser)[0] == "My own <b>name</b>"
    browser.one("body").send_keys(Keys.ESCAPE)
    assert "topic.0=My own <b>name</b>" in browser.hash()
    for width in (1440, 390):
        browser.open(pages[4], width, hash=browser.run("location.hash"))
        body = browser.run("document.body.innerText")
        assert first not in body
        assert "My own <b>name</b>" in browser.one(".lead").text + browser.one("#learned table").text
        assert "My own <b>name</b>" in browser.figure("Map of the topics").text + browser.figure("What the").text
    assert browser.all("svg b, main b") == []
    browser.open(pages[4])
    assert names(browser)[0] == first  # without the link, the names of the file


def test_one_search_finds_topics_words_and_documents(browser, pages):
    browser.open(pages[4])
    found = search(browser, "violin")
    kinds = {text.split()[0] for text in found}
    assert {"word", "document"} <= kinds
    browser.one("#find").send_keys(Keys.ENTER)
    assert browser.hash().startswith("#topic=")
    music = next(name for name in names(browser) if set(name.split(" · ")) <= set(SUBJECTS[3].split()))
    assert music in browser.hash()
    found = search(browser, music.split(" · ")[0])
    assert found[0].startswith("topic ")
    search(browser, "iron")
    next(item for item in browser.all(".found button") if item.text.startswith("document")).click()
    shown = [li.text for li in browser.all(".passages li") if li.is_displayed()]
    assert shown
    assert all("iron" in text for text in shown)


@pytest.mark.parametrize("K", [1, 4, 30])
def test_a_search_that_finds_nothing_says_so_and_keeps_the_selection(browser, pages, K):
    browser.open(pages[K])
    browser.one("body").send_keys(Keys.ARROW_RIGHT)
    before = browser.hash()
    assert search(browser, "zebra") == ["Nothing found for “zebra”; what is selected stays."]
    browser.one("#find").send_keys(Keys.ENTER)
    assert browser.hash() == before
    if K == 30:  # so many that the selector is a search, too
        box = browser.one("#pick-topic")
        box.send_keys(Keys.CONTROL + "a")
        box.send_keys("zebra", Keys.ENTER)
        assert browser.hash() == before
        assert "nothing found" in browser.run("document.getElementById('pick-topic').validationMessage")


def test_a_phone_shows_the_words_of_the_topics(browser, pages):
    browser.open(pages[4], 390)
    table = browser.one("#learned table")
    words = table.find_elements(By.CSS_SELECTOR, "tbody tr:first-child td")[1]
    assert words.rect["x"] + words.rect["width"] <= 390
    assert len(words.text.split()) >= 5


@pytest.mark.parametrize("width", [390, 1440])
def test_names_on_the_map_hide_no_other(browser, pages, width):
    browser.open(pages[30], width)
    figure = browser.figure("Map of the topics")
    boxes = [
        (t.rect["x"], t.rect["y"], t.rect["width"], t.rect["height"]) for t in figure.find_elements(By.CSS_SELECTOR, "text.halo")
    ]
    assert len(boxes) >= 3
    for i, (x, y, w, h) in enumerate(boxes):
        for u, v, a, b in boxes[:i]:
            assert not (x + 1 < u + a and u + 1 < x + w and abs(y - v) < min(h, b) - 4)


def test_years_are_written_as_years(browser, pages):
    browser.open(pages[4])
    told = [text.text for text in browser.figure("Topics by period").find_elements(By.CSS_SELECTOR, "text.tick")]
    assert "2004" in told
    assert not any("," in text for text in told)
