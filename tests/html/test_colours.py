"""One colour system: what colours, legends, numbers and tables of any page look like in a browser."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import tallies
from tallies.html import charts
from tallies.html.draw import COLOURS
from tallies.html.page import Page

rng = np.random.default_rng(0)
MANY = [f"species {i:03}" for i in range(114)]
ROWS, UNIT = ["versicolor", "virginica"], "share of the true class"
TOPICS = [
    [1, 0.125, "river, lake, water, fish, boat, shore, wave", 1234],
    [2, 0.5, "court, law, judge", 99],
    [3, 0.025, "gene, cell", 5000],
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = Page("Colours", "All kinds.")
    names = list("abcde")
    R = np.corrcoef(rng.normal(size=(5, 20)))
    some = out.section("some", "Some")
    some.charts(
        charts.heat("signed", "thing", "thing", names, names, R, scale="sign", domain=[-0.5, 1.0], unit="correlation"),
        charts.heat("amounts", "x", "y", names, ROWS, rng.random((2, 5)), [["1"] * 5] * 2, [["t"] * 5] * 2, flip=True, unit=UNIT),
    )
    bars = [{"name": "", "values": [0.9, -0.8, 0.2], "low": [0.7, -1.1, -0.1], "high": [1.2, -0.5, 0.4]}]
    some.charts(charts.bars("whiskers", charts.axis("effect"), ["up", "down", "little"], bars))
    behind = {"name": "all", "values": [10.0, 9.0]}
    some.charts(charts.bars("behind", charts.axis("tokens"), ["w1", "w2"], [{"name": "", "values": [2.0, 1.0]}], behind=behind))
    ten = [{"name": f"class {k}", "key": k, "x": [0, 1], "y": [k, k]} for k in range(12)]
    some.charts(charts.lines("classes", charts.axis("x"), charts.axis("y"), ten, ["x"], [[0]], show=True))
    narrow = charts.axis("expected count, from covariates and effort alone", log=True)
    some.charts(charts.points("narrow", narrow, charts.axis("y"), [3.9, 4.1, 4.8], [0, 1, 2]))
    some.charts(
        charts.bars(
            "titled", charts.axis("weight (log odds beside the mean of all classes)"), ["up", "down", "a rather long name"], bars
        )
    )
    some.charts(charts.heat("large", "species", "species", MANY, MANY, np.corrcoef(rng.normal(size=(114, 9))), scale="sign"))
    out.section("table", "Table").table(["topic", "share", "words", "documents"], TOPICS, first=2)
    return out.write(tmp_path_factory.mktemp("colours") / "page.html")


def rgb(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:3]))


def test_every_heat_map_has_a_legend_and_signs_are_white_at_zero(browser, page):
    browser.open(page)
    for title in ("signed", "amounts", "large"):
        assert browser.figure(title).find_elements("css selector", ".legend")
    ticks = [t.text for t in browser.figure("signed").find_elements("css selector", ".legend text")]
    assert ticks == ["−1", "0", "1", "correlation"]  # both signs alike, though the numbers begin at -0.5
    fills = [rgb(r.get_attribute("fill")) for r in browser.figure("signed").find_elements("css selector", ".legend rect[fill]")]
    middle = fills[len(fills) // 2]
    assert min(middle) > 240
    assert fills[0][2] > fills[0][0]  # blue below zero
    assert fills[-1][0] > fills[-1][2]  # red above


def test_a_legend_says_its_unit_on_a_phone(browser, page):
    browser.open(page, width=390)
    assert browser.figure("amounts").find_elements("css selector", ".legend text")[-1].text == UNIT


def test_titles_of_axes_stay_within_the_figure_and_logarithms_have_numbers(browser, page):
    browser.open(page, width=390)
    for title in ("titled", "narrow"):
        figure = browser.figure(title)
        edge = figure.find_element("css selector", "svg").rect
        for text in figure.find_elements("css selector", "text.axis"):
            assert edge["x"] - 1 <= text.rect["x"]
            assert text.rect["x"] + text.rect["width"] <= edge["x"] + edge["width"] + 1
    ticks = [t.text for t in browser.figure("narrow").find_elements("css selector", "text.tick")]
    assert {"4", "5"} <= set(ticks)  # within one power of ten


def test_what_a_thing_has_to_do_with_itself_is_left_out(browser, page):
    browser.open(page)
    assert len(browser.figure("signed").find_elements("css selector", "rect.none")) == 5
    assert not browser.figure("amounts").find_elements("css selector", "rect.none")


@pytest.mark.parametrize("dark", [False, True])
def test_twelve_classes_are_twelve_colours(browser, page, dark):
    browser.open(page, dark=dark)
    lines = browser.figure("classes").find_elements("css selector", "path.line")
    found = [rgb(line.value_of_css_property("stroke")) for line in lines[:12]]
    assert len(set(found)) == 12
    assert min(np.abs(np.subtract(a, b)).sum() for a, b in combinations(found, 2)) >= 50
    if not dark:
        assert ["#{:02x}{:02x}{:02x}".format(*colour) for colour in found] == COLOURS  # as matplotlib draws them


def test_numbers_stand_at_the_ends_of_their_own_bars_and_whiskers_can_be_seen(browser, page):
    browser.open(page)
    figure = browser.figure("whiskers")
    bars = figure.find_elements("css selector", "rect.s0, rect.s1")
    numbers = {t.text: t for t in figure.find_elements("css selector", "text.tick.over")}
    whiskers = figure.find_elements("css selector", "path.whisker:not(.under)")
    assert len(whiskers) == 3
    assert float(whiskers[0].value_of_css_property("stroke-width").rstrip("px")) >= 1.5
    assert rgb(whiskers[0].value_of_css_property("stroke")) != rgb(bars[0].value_of_css_property("fill"))
    up, down = numbers["0.9"], numbers["−0.8"]
    assert 0 < up.rect["x"] - (whiskers[0].rect["x"] + whiskers[0].rect["width"]) < 12
    assert 0 < whiskers[1].rect["x"] - (down.rect["x"] + down.rect["width"]) < 12
    figure = browser.figure("behind")
    (bar, *_), (number, *_) = (figure.find_elements("css selector", css) for css in ("rect.s0", "text.tick.over"))
    assert 0 < number.rect["x"] - (bar.rect["x"] + bar.rect["width"]) < 12  # and not at the end of the wider bar behind it


def test_heat_maps_use_the_width_and_114_names_can_be_read(browser, page):
    browser.open(page)
    figure = browser.figure("large")
    image = figure.find_element("css selector", "svg image")
    assert image.rect["width"] > 0.85 * figure.rect["width"]
    assert "species 042" not in figure.find_element("tag name", "svg").text
    button = next(b for b in figure.find_elements("css selector", ".tools button") if "zoom" in b.text)
    browser.driver.execute_script("arguments[0].click()", button)
    texts = [t for t in figure.find_elements("css selector", "svg text") if not t.get_attribute("transform")]
    names = [t for t in texts if t.text.startswith("species 0")]
    down = sorted(t.rect["y"] for t in names)
    assert len(down) >= 100
    assert np.diff(down).min() >= 12  # no two names overlap
    assert figure.find_elements("css selector", ".zoomed")
    assert not [b for b in browser.figure("signed").find_elements("css selector", ".tools button") if "zoom" in b.text]


def test_tables_sort_on_click(browser, page):
    browser.open(page)
    table = browser.one("#table table")
    head = {th.text.split()[0]: th for th in table.find_elements("css selector", "thead th")}

    def click(node):
        browser.driver.execute_script("arguments[0].click()", node)

    def column(j):
        return [row.find_elements("tag name", "td")[j].text for row in table.find_elements("css selector", "tbody tr")]

    click(head["documents"])
    assert column(3) == ["5,000", "1,234", "99"]
    assert head["documents"].get_attribute("aria-sort") == "descending"
    click(head["documents"])
    assert column(3) == ["99", "1,234", "5,000"]
    click(head["words"])
    assert column(2)[0].startswith("court")
    assert head["documents"].get_attribute("aria-sort") == "none"


def test_on_a_phone_the_column_that_matters_comes_first(browser, page):
    browser.open(page, width=390)
    words, topic, share = (browser.one(f"#table tbody tr:first-child td:nth-child({j})").rect for j in (3, 1, 2))
    assert words["x"] + words["width"] <= 390
    assert words["y"] < topic["y"] == share["y"]
    assert browser.run("document.documentElement.scrollWidth") <= 390


def test_captions_hold_in_both_themes():
    """On paper the strong cells are dark, on a dark ground bright: no caption says which."""
    for name in ("bayes", "topics", "counts", "categories", "concepts", "html"):
        for file in Path(tallies.__file__).parent.joinpath(name).glob("*.py"):
            assert not re.search(r"(?i)\b(dark|bright|light|pal)er\b", file.read_text(encoding="utf-8")), file
