"""Imports go one way: kernels <- models <- surface; the engine and its backends know no model. And importing is quick."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tallies

ROOT = Path(tallies.__file__).parent

# what the modules of a layer may import from Tallies; everything else is a wrong turn
ALLOWED = {
    "errors": set(),
    "kernels": {"kernels"},
    "engine": set(),
    "backends": {"errors"},
    "storage": {"errors", "_version"},
    "watch": {"storage", "engine", "errors"},
    "maths": set(),
    "data": {"data", "errors", "kernels", "storage", "maths"},
    "estimator": {"engine", "backends", "storage", "watch", "errors", "models.MODELS", "report"},  # report: when asked for one
    "evaluation": {"evaluation", "data", "errors", "maths", "kernels", "backends"},
    "models": {"models", "kernels", "data", "maths", "estimator", "evaluation", "engine", "backends", "errors"},
}


def imports(path: Path) -> set[str]:
    """Modules of Tallies that a file imports, as 'layer' (or 'models.MODELS' for the table of names)."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tallies":
            rest = node.module.split(".")[1:]
            for alias in node.names:
                if rest == ["models"] and alias.name == "MODELS":
                    found.add("models.MODELS")
                else:
                    found.add((rest or [alias.name])[0])
        elif isinstance(node, ast.Import):
            found |= {name.name.split(".")[1] for name in node.names if name.name.startswith("tallies.")}
    return found


FILES = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0].removesuffix(".py") in ALLOWED]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert imports(path) <= ALLOWED[layer]


def test_the_table_covers_the_tree():
    surface = {
        "__init__",
        "__main__",
        "_version",
        "cli",
        "cli_fit",
        "cli_words",
        "configs",
        "runs",
        "commands",
        "report",
        "demo",
        "datasets",
        "plots",
        "py.typed",
        "__pycache__",
    }
    assert {path.name.removesuffix(".py") for path in ROOT.iterdir()} <= set(ALLOWED) | surface


def test_kernels_import_nothing_else():
    for path in (ROOT / "kernels").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
                assert {str(name).split(".")[0] for name in names} <= {
                    "numpy",
                    "numba",
                    "llvmlite",
                    "math",
                    "sys",
                    "tallies",
                    "__future__",
                    "typing",
                }


def test_importing_tallies_is_light():
    code = (
        "import sys, tallies, tallies.cli; print(any(m in sys.modules for m in ('numpy', 'sklearn', 'numba', 'pandas', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_every_public_name_has_a_docstring():
    for name in tallies.__all__:
        value = getattr(tallies, name)
        if name != "__version__":
            assert value.__doc__, name
            for method in vars(value) if isinstance(value, type) else []:
                if not method.startswith("_") and callable(getattr(value, method)) and method not in VERBS:
                    assert getattr(value, method).__doc__, f"{name}.{method}"
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = tallies.Nonsense
    assert set(tallies.__all__) <= set(dir(tallies))


VERBS = {"survey", "init", "settle", "sweep", "update", "objective", "done"}  # explained once, in engine.Model
