"""The documentation: a picture for every plot function, mathematics that a browser reads by itself, a modern theme."""

import ast
import importlib.util
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


def load(name):
    """A script of the documentation."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", sorted((DOCS / "tutorials").glob("*.md")), ids=lambda page: page.stem)
def test_a_notebook_has_all_of_a_tutorial(page):
    made = load("notebooks").notebook(page)
    pytest.importorskip("nbformat").validate(made)
    code = "\n".join(cell["source"] for cell in made["cells"] if cell["cell_type"] == "code")
    lines = [line[4:] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith((">>> ", "... "))]
    assert [line for line in code.splitlines() if line] == [line for line in lines if line]
    prose = "".join(cell["source"] for cell in made["cells"] if cell["cell_type"] == "markdown")
    assert "../images" not in prose and ">>>" not in prose and prose.startswith("# ")


@pytest.mark.parametrize(
    "name",
    [
        "csv_to_report",
        *(
            pytest.param(n, marks=pytest.mark.long)
            for n in ("author_concept", "classifiers", "fem", "groups", "lda", "network", "pln")
        ),
    ],
)
def test_a_notebook_runs_from_top_to_bottom(name, tmp_path, monkeypatch):
    """Cell by cell, as a kernel would; that its outputs are those of the page is what doctest says of the page."""
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "__main__"}
    for cell in load("notebooks").notebook(DOCS / "tutorials" / f"{name}.md")["cells"]:
        if cell["cell_type"] == "code":
            exec(compile(ast.parse(cell["source"]), cell["id"], "exec"), scope)
    assert len(scope) > 3
