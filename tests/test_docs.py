"""The documentation: a picture for every plot function, mathematics that a browser reads by itself, a modern theme."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from tallies.registry import FAMILIES

DOCS = Path(__file__).parents[1] / "docs"


def plots():
    for room in FAMILIES:
        module = import_module(f"tallies.{room}.plots")
        for name, function in vars(module).items():
            if name.startswith("plot_") and function.__module__ == module.__name__:
                yield room, name


@pytest.mark.parametrize(("room", "name"), list(plots()))
def test_every_plot_function_has_a_picture(room, name):
    picture = DOCS / "images" / "plots" / f"{room}-{name}.png"
    assert picture.is_file(), "draw it with: python docs/pictures.py"
    assert 2_000 < picture.stat().st_size < 60_000


def test_equations_become_mathml():
    """Every displayed equation can be converted, so that the site needs no script from elsewhere for it."""
    convert = pytest.importorskip("latex2mathml.converter").convert
    found = [part for path in DOCS.rglob("*.md") for part in path.read_text(encoding="utf-8").split("$$")[1::2]]
    assert len(found) > 20
    for equation in found:
        assert convert(equation, display="block").startswith("<math")


def test_the_site_has_a_modern_theme_and_the_pages_of_the_demo_in_it():
    conf = (DOCS / "conf.py").read_text(encoding="utf-8")
    assert 'html_theme = "furo"' in conf
    assert "<iframe" in conf  # each page of the demo, made when the site is built
    assert ":file: gallery.html" in (DOCS / "gallery.md").read_text(encoding="utf-8")
    assert "tutorials/csv_to_report" in (DOCS / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "claim",
    [
        r"every model works in cross.?validation",  # AuthorConcept does not
        r"with their misspellings",
        r"1,600 descriptions",  # there are more
        r"make demo\W[\s\S]{0,80}in a few seconds",  # it installs first
        r"\| z \|(?!.*new documents).*assignments\(X\)",  # those of the fit are elsewhere
    ],
)
def test_claims_that_were_found_wrong_stay_away(claim):
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md"), *(DOCS.parent / "src").rglob("*.py")]
    assert [str(page) for page in pages if re.search(claim, page.read_text(encoding="utf-8"), re.I)] == []
