"""The documentation: a picture for every plot function, mathematics that a browser reads by itself, a modern theme."""

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
