"""Who may import whom: the floor no family, a family never another, kernels only kernels. And importing is quick."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import tallies
from tallies import backends, registry

ROOT = Path(tallies.__file__).parent
ROOMS = set(registry.FAMILIES)

# what a file of the floor may import of the floor; a folder counts as one
FLOOR = {
    "_version": set(),
    "errors": set(),
    "phases": set(),
    "guesses": {"errors"},
    "maths": {"forms"},
    "lbfgs": {"forms"},
    "kernels": {"kernels"},
    "sums": set(),
    "mapped": {"disk"},
    "aside": {"sums"},
    "rules": set(),
    "resumed": {"sums"},
    "engine": {"aside", "resumed", "rules", "sums"},
    "registry": set(),
    "sources": {"errors"},
    "disk": {"errors"},
    "forms": set(),
    "storage": {"disk", "errors", "forms", "_version"},
    "blas": set(),
    "answering": {"backends", "data", "disk", "errors"},
    "backends": {"aside", "blas", "cluster", "engine", "mapped", "phases", "remote", "sources", "sums"},
    "cluster": {"_version", "engine", "errors", "mapped", "remote", "sums", "workers"},
    "workers": {"blas", "mapped", "remote", "sums"},
    "remote": {"errors", "mapped"},
    "watch": {"aside", "storage", "engine", "errors", "forms", "phases", "sums"},
    "data": {"_version", "data", "disk", "errors", "forms", "mapped", "storage", "maths", "phases"},
    "evaluation": {"evaluation", "data", "errors", "maths", "backends", "phases"},
    "estimator": {
        "engine",
        "backends",
        "data",
        "forms",
        "guesses",
        "sources",
        "storage",
        "watch",
        "errors",
        "registry",
        "html",
    },  # html: when asked for a page
    "streams": {"errors"},
    "html": {"html", "_version", "data", "disk", "errors", "evaluation", "maths", "registry", "storage", "phases"},
    "runs": {"_version", "disk", "errors", "estimator"},
    "datasets": {"data", "errors"},
    "cli": {
        "cli",
        "_version",
        "aside",
        "answering",
        "backends",
        "data",
        "demo",
        "errors",
        "estimator",
        "evaluation",
        "mapped",
        "registry",
        "runs",
        "storage",
        "phases",
        "watch",
    },
    "demo": {"html", "registry", "phases"},
    "__init__": {"_version", "registry"},
    "__main__": {"cli", "phases"},
}
# what a room may import of the floor: any file of it, but for these
SURFACE = {"page": {"html"}, "plots": {"html"}, "views": {"html"}, "command": {"cli"}, "demo": {"datasets", "demo"}}
BASE = {
    "answering",
    "backends",
    "data",
    "engine",
    "errors",
    "estimator",
    "evaluation",
    "forms",
    "lbfgs",
    "mapped",
    "maths",
    "sources",
    "kernels",
    "phases",
    "streams",
    "sums",
}


def imports(path: Path) -> set[tuple[str, ...]]:
    """Modules of Tallies that a file imports, as their parts; what only the type checker sees is passed over."""
    tree = ast.parse(path.read_text())
    seen = [
        node
        for top in tree.body
        if not (isinstance(top, ast.If) and "TYPE_CHECKING" in ast.unparse(top.test))
        for node in ast.walk(top)
    ]
    found = set()
    for node in seen:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tallies":
            rest = tuple(node.module.split(".")[1:])
            found |= {rest} if rest else {(alias.name,) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {tuple(name.name.split(".")[1:]) for name in node.names if name.name.startswith("tallies.")}
    return found


FILES = sorted(ROOT.rglob("*.py"))


def may_import(path: Path) -> set[str]:
    """The first parts of modules that a file may import; "." is its own room."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] not in ROOMS:
        return FLOOR[parts[0]]
    if "kernels" in parts:
        return {"kernels", "./kernels", "forms"}  # forms: records that files may hold
    words = parts[-1].split("_")
    return {"."} | BASE | set().union(*(SURFACE.get(word, set()) for word in words))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_stay_in_their_rooms(path):
    room = path.relative_to(ROOT).parts[0]
    found = set()
    for parts in imports(path):
        if parts[0] == room and room in ROOMS:
            found.add("./kernels" if parts[1:2] == ("kernels",) and "kernels" in path.parts else ".")
        else:
            found.add(parts[0])
    assert found <= may_import(path), found - may_import(path)


def test_the_table_covers_the_tree():
    assert {path.name.removesuffix(".py") for path in ROOT.iterdir()} <= set(FLOOR) | ROOMS | {"py.typed", "__pycache__"}


def test_generic_code_names_no_family():
    """The floor speaks of families only through the registry: not in comparisons, keys, defaults nor calls."""
    names = set(registry.ENTRIES) | set(registry.WORDS) | {name.lower() for name in registry.ENTRIES}
    generic = [path for room in ("cli", "html", "evaluation") for path in (ROOT / room).glob("*.py")]
    for path in [*generic, ROOT / "demo.py", ROOT / "runs.py", ROOT / "estimator.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant):
                assert node.value not in names, f"{path.name}:{node.lineno} names {node.value!r}"


def test_kernels_import_nothing_else():
    for path in ROOT.glob("**/kernels/*.py"):
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
                    *(("threading", "time") if path.name == "twins.py" else ()),  # plain Python, where nothing is compiled
                }


def test_no_field_is_of_a_type_that_cannot_be_asked_for():
    """NDArray is an alias that `isinstance` refuses from NumPy 2.5 on: no model could be loaded there."""
    assert not [path.name for path in FILES if "numpy.typing" in path.read_text(encoding="utf-8")]


def test_data_to_try_are_at_hand():
    code = "import sys, tallies; assert 'tallies.datasets' not in sys.modules; print(len(tallies.datasets.load('iris')[0]))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "150\n"


def test_importing_tallies_is_light():
    heavy = ("numpy", "sklearn", "numba", "pandas", "scipy")
    code = f"import sys, tallies, tallies.cli.main; print(any(m in sys.modules for m in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


class Sent(backends.Threads):
    """What workers are sent: the first task of each kind, with its source and latents."""

    seen: ClassVar[dict[tuple[Any, ...], bytes]] = {}

    def _pairs(self, task, latents, broadcast, first=0):
        kind = task.__name__, type(broadcast[0]), getattr(self.sources[0], "piece", None)
        if kind not in self.seen:
            self.seen[kind] = pickle.dumps((self.sources[0], self.common, task, self.collect(latents[:1])[0], broadcast))
        return super()._pairs(task, latents, broadcast, first)


CARRIED_OUT = """
import pickle, sys
from tallies import workers
for packed in pickle.load(open(sys.argv[1], "rb")):
    source, common, task, latents, broadcast = pickle.loads(packed)
    task(0, source.load(*common), latents, *broadcast)
print(sorted({"sklearn", "pandas", "scipy.stats", "scipy.optimize"} & set(sys.modules)))
"""


FITS = {
    "gda": lambda tables, Y: [tallies.GDA().fit(table, "kind") for table in tables],
    "naive Bayes": lambda tables, Y: [tallies.NaiveBayes().fit(table, "kind") for table in tables],
    "fem": lambda tables, Y: [tallies.FEM(degree=2, ridge=1.0).fit(table, "kind") for table in tables],
    "fem, searched": lambda tables, Y: tallies.FEM(degree="auto", max_degree=2, cv=2, solver="lbfgs").fit(tables[0], "kind"),
    "pln": lambda tables, Y: tallies.PLN().fit(Y),
    "pln of a rank": lambda tables, Y: tallies.PLN(rank=1).fit(Y),
    "lda": lambda tables, Y: tallies.LDA(n_topics=2, max_iter=3, burn_in=1).fit(Y),
}


@pytest.mark.parametrize("name", FITS)
def test_what_workers_carry_out_needs_neither_scikit_learn_nor_pandas(name, tmp_path, monkeypatch):
    """They take 110 MB, with what they bring of SciPy, of a worker that may have 512."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    table = pd.DataFrame({"text": np.array(["p", "q", "r"])[y], "whole": y + rng.integers(0, 2, 300)})
    table.loc[rng.random(300) < 0.1, "text"] = None
    table["wings"] = rng.random(300) < 0.4
    table["number"] = np.where(rng.random(300) < 0.1, np.nan, rng.integers(0, 3, 300) / 2)
    for folder, kind in (("named", np.array(["a", "b", "c"])[y]), ("numbered", y)):
        (tmp_path / folder).mkdir()
        table.assign(kind=kind).to_parquet(tmp_path / folder / "0.parquet")
    monkeypatch.setattr(backends, "Threads", Sent)
    monkeypatch.setattr(Sent, "seen", {})
    FITS[name]([tmp_path / "named", tmp_path / "numbered"], rng.poisson(np.exp(rng.normal(1.0, 0.5, (80, 4)))))
    assert len(Sent.seen) > 1
    (tmp_path / "sent").write_bytes(pickle.dumps(list(Sent.seen.values())))
    done = subprocess.run([sys.executable, "-c", CARRIED_OUT, str(tmp_path / "sent")], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


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


def test_no_record_has_more_than_a_dozen_fields():
    for node in (node for path in FILES for node in ast.walk(ast.parse(path.read_text()))):
        if isinstance(node, ast.ClassDef) and any("NamedTuple" in ast.unparse(base) for base in node.bases):
            fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
            assert len(fields) <= 12, f"{node.name} has {len(fields)} fields; make two or three records of it"
