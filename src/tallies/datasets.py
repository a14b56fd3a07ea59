"""Small data sets that need no download: those bundled with scikit-learn, and some made here, whose truth is known.

>>> from tallies.datasets import load
>>> birds = load("birds")
>>> birds.X.shape, sorted(set(birds.y.tolist()))
((1200, 6), ['finch', 'heron', 'owl', 'swift'])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallies.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

TIC_TAC_TOE_LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))  # the eight lines


class Dataset(NamedTuple):
    """A table, the class of each row, and what they are."""

    X: Any  # data frame, (n, d)
    y: np.ndarray  # (n,)  names of classes
    name: str
    about: str  # one sentence
    truth: dict[str, Any] | None = None  # what the rows were made from, where it is known


def load(name: str) -> Dataset:
    """One of the sets of `names()`."""
    if name not in names():
        raise DataError(f"there is no data set {name!r}; the sets are {', '.join(names())}")
    return _MADE[name]() if name in _MADE else _bundled(name)


def names() -> list[str]:
    """The sets that `load` knows.

    >>> names()
    ['birds', 'breast-cancer', 'digits', 'iris', 'species', 'wine']
    """
    return sorted([*_MADE, *_BUNDLED])


def halves(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to judge by, two to one, with the same share of every class.

    >>> fit, judge = halves(np.arange(12) % 2)
    >>> len(fit), len(judge)
    (8, 4)
    """
    from sklearn.model_selection import train_test_split

    fit, judge = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=0, stratify=y)
    return np.sort(fit), np.sort(judge)


def birds(n: int = 1200, gaps: float = 0.08, random_state: int = 0) -> Dataset:
    """Birds made up from a known truth, in columns of four kinds, with a share `gaps` of the cells missing.

    Given the kind of bird the columns are independent, so naive Bayes is the true model. `truth["posterior"]` is the
    probability of each class for each row under the truth: what no classifier can beat on average.

    >>> made = birds(500, random_state=1)
    >>> made.X.dtypes.astype(str).tolist()[:2], round(float(made.X["wing"].isna().mean()), 1)
    (['float64', 'float64'], 0.1)
    """
    from pandas import DataFrame
    from scipy.special import softmax
    from scipy.stats import norm, poisson

    given = {
        "classes": ["finch", "heron", "owl", "swift"],
        "share": [0.40, 0.15, 0.20, 0.25],
        "wing": [8.0, 44.0, 26.0, 17.0],  # cm
        "log mass": [3.1, 7.3, 5.9, 3.8],  # log gram
        "eggs": [4.6, 3.8, 3.0, 2.2],
        "colour": [[0.05, 0.45, 0.10, 0.40], [0.05, 0.10, 0.80, 0.05], [0.05, 0.75, 0.19, 0.01], [0.60, 0.35, 0.04, 0.01]],
        "nest": [[0.10, 0.15, 0.75], [0.01, 0.01, 0.98], [0.20, 0.55, 0.25], [0.80, 0.15, 0.05]],
        "migrates": [0.30, 0.60, 0.05, 0.97],
    }
    truth = {name: np.array(values) for name, values in given.items()}
    spread = {"wing": np.array([1.5, 7.0, 6.0, 4.5]), "log mass": np.array([0.5, 0.5, 0.7, 0.5])}
    states = {"colour": np.array(["black", "brown", "grey", "yellow"]), "nest": np.array(["building", "cavity", "tree"])}

    rng = np.random.default_rng(random_state)
    k = rng.choice(4, n, p=truth["share"])
    codes = {name: (truth[name].cumsum(axis=1)[k] < rng.random(n)[:, None]).sum(axis=1) for name in states}
    numbers = {name: rng.normal(truth[name][k], sd[k]) for name, sd in spread.items()}
    eggs, moves = rng.poisson(truth["eggs"][k]), rng.random(n) < truth["migrates"][k]
    hidden = rng.random((n, 6)) < gaps
    hidden[:, 5] = False  # a column of booleans stays one, and shows that kind
    log_p = [
        *(norm.logpdf(numbers[name][:, None], truth[name], sd) for name, sd in spread.items()),
        poisson.logpmf(eggs[:, None], truth["eggs"]),
        *(np.log(truth[name].T[code]) for name, code in codes.items()),
        np.log(np.where(moves[:, None], truth["migrates"], 1 - truth["migrates"])),
    ]
    truth["posterior"] = softmax(np.log(truth["share"]) + np.where(hidden.T[:, :, None], 0.0, log_p).sum(axis=0), axis=1)
    words = {name: states[name][code].astype(object) for name, code in codes.items()}
    X = DataFrame(numbers | {"eggs": eggs.astype(float)} | words | {"migrates": moves})
    for j, name in enumerate(X.columns[:5]):
        X.loc[hidden[:, j], name] = None
    about = f"{n:,} birds made up from a known truth: numbers, counts, categories and gaps in one table"
    return Dataset(X, truth["classes"][k], "birds", about, truth)


class Texts(NamedTuple):
    """Texts with their names and authors, in the order of `Corpus.from_texts`."""

    texts: list[str]
    authors: list[str]
    ids: list[str]
    about: str  # one sentence

    def take(self, mine: np.ndarray) -> Texts:
        """Those of the texts for which `mine` is True."""
        texts, authors, ids = ([part[i] for i in np.flatnonzero(mine)] for part in self[:3])
        return Texts(texts, authors, ids, self.about)

    def corpus(self, **options: Any) -> Any:
        """A `Corpus` of them; the options are those of `Corpus.from_texts`."""
        from tallies.data.corpus import Corpus

        return Corpus.from_texts(self.texts, authors=self.authors, ids=self.ids, **options)


def docstrings(modules: Sequence[str] = ()) -> Texts:
    """What the functions and classes of the installed NumPy, SciPy and scikit-learn say of themselves, without their examples.

    The subpackage is the author. What they say depends on the versions installed.

    >>> texts = docstrings(["numpy.linalg"])
    >>> texts.authors[0], "numpy.linalg.svd" in texts.ids
    ('numpy.linalg', True)
    """
    import inspect
    from importlib import import_module

    found: dict[str, tuple[str, str]] = {}
    for module in modules or [f"{package}.{part}" for package, parts in _SUBPACKAGES.items() for part in parts.split()]:
        home = import_module(module)
        for name in sorted(n for n in dir(home) if not n.startswith("_")):
            thing = getattr(home, name, None)
            text = inspect.getdoc(thing) if callable(thing) else None
            if not text or not (getattr(thing, "__module__", None) or module).startswith(module.split(".")[0]):
                continue
            text = re.split(r"\n(?:Examples|References|Attributes)\n-{3}", text)[0]
            text = re.sub(r"^(\s*[-=]{3,}|\s*\.\. .*|>>>.*)$", "", text, flags=re.M)
            if len(text) > 200:
                found.setdefault(text, (module, f"{module}.{name}"))
    about = f"{len(found):,} descriptions of functions and classes in NumPy, SciPy and scikit-learn"
    return Texts(list(found), [a for a, _ in found.values()], [i for _, i in found.values()], about)


_SUBPACKAGES = {
    "numpy": "linalg fft random polynomial",
    "scipy": "cluster fft integrate interpolate linalg ndimage optimize signal sparse spatial special stats",
    "sklearn": "cluster decomposition ensemble linear_model metrics model_selection neighbors preprocessing svm tree",
}


def letters(n: int = 1200, random_state: int = 0) -> Texts:
    """Letters to a newspaper, made up from the words of eight themes; each theme has its season. The month is the author.

    >>> texts = letters(3)
    >>> texts.texts[1].split("!")[0], texts.authors
    ('Please give us back the warm recipe and the butter', ['11', '8', '7'])
    """
    from importlib.resources import files

    rng = np.random.default_rng(random_state)
    lines = (files("tallies.data") / "letters.txt").read_text(encoding="utf-8").splitlines()
    (_, *frames), *themes = ([part.strip() for part in line.split("|")] for line in lines)
    words = [dict(zip(("noun", "verb", "adjective"), map(str.split, theme[1:]), strict=True)) for theme in themes]
    months, peaks = rng.integers(1, 13, n), 12 * np.arange(len(themes)) / len(themes)

    def write(frame: str, theme: dict[str, list[str]]) -> str:
        drawn = {}  # words in random order, the first of a list mostly first
        for kind, some in theme.items():
            late = np.log(3 + np.arange(len(some))) - rng.gumbel(size=len(some))
            drawn[kind] = iter([some[v] for v in np.argsort(late)])
        return re.sub(r"{(\w+)}", lambda slot: next(drawn[slot[1]]), frame)

    texts = []
    for month in months:
        mixture = rng.dirichlet(0.3 * (1.2 + np.cos(2 * np.pi * (month - peaks) / 12)))  # most of a theme at its peak
        k = rng.choice(len(themes), rng.integers(4, 10), p=mixture)
        texts.append(" ".join(write(frame, words[i]) for frame, i in zip(rng.choice(frames, len(k)), k, strict=True)))
    about = f"{n:,} letters to a newspaper, made up from the words of {len(themes)} themes"
    return Texts(texts, [str(month) for month in months], [f"letter {i + 1}" for i in range(n)], about)


def ontology() -> Any:
    """A small `Ontology` of numerical computing, to read `docstrings` with.

    >>> concepts = ontology()
    >>> len(concepts), concepts.names[1], concepts.parents[1] == [concepts.ids[0]]
    (67, 'linear algebra', True)
    """
    from importlib.resources import as_file, files

    from tallies.data.ontology import Ontology

    with as_file(files("tallies.data") / "numerical_computing.obo") as path:
        return Ontology.read(path)


def species(n: int = 200, p: int = 30, random_state: int = 0) -> Dataset:
    """Counts of made-up species at made-up sites, from a Poisson log-normal model; X has counts, y is the kind of site.

    Three hidden gradients make species go together. `truth` has "covariates", "coefficients" and "covariance".

    >>> made = species(20, 5)
    >>> made.X.shape, sorted(set(made.y.tolist()))
    ((20, 5), ['forest', 'meadow'])
    """
    from pandas import DataFrame

    rng = np.random.default_rng(random_state)
    forest, altitude = rng.random(n) < 0.5, rng.normal(size=n)
    design = DataFrame({"intercept": np.ones(n), "altitude": altitude, "forest": forest.astype(float)})
    B = np.vstack([rng.normal(1.2, 0.8, p), rng.normal(0, 0.5, p), rng.normal(0, 0.6, p)])
    C = rng.normal(0, 0.6, (p, 3))
    Sigma = C @ C.T + 0.1 * np.eye(p)
    Z = design.to_numpy() @ B + rng.normal(size=(n, 3)) @ C.T + np.sqrt(0.1) * rng.normal(size=(n, p))
    first, second = ("red", "blue", "dusky", "marsh", "stone", "pale"), ("moth", "beetle", "spider", "bee", "snail")
    kinds = [f"{a} {b}" for b in second for a in first]
    names = [kinds[j % 30] + f" {j // 30 + 1}" * (j >= 30) for j in range(p)]
    X = DataFrame(rng.poisson(np.exp(Z)), columns=names)
    about = f"{n:,} made-up sites with counts of {p} made-up species, from a known truth"
    truth = {"covariates": design, "coefficients": B, "covariance": Sigma}
    return Dataset(X, np.where(forest, "forest", "meadow"), "species", about, truth)


def species_web(n: int = 300, p: int = 30, random_state: int = 0) -> Dataset:
    """Counts of made-up species that depend on few others each; X has counts, y is the kind of site.

    Three guilds are trees inside, and few species depend on one of another guild. `truth` has "covariates", "precision" and
    "edges", the names of the pairs that are joined.

    >>> made = species_web(20, 6)
    >>> made.X.shape, len(made.truth["edges"])
    ((20, 6), 5)
    """
    from pandas import DataFrame

    rng = np.random.default_rng(random_state)
    guild, pairs = np.arange(p) * 3 // p, []
    for j in range(1, p):
        near = np.flatnonzero(guild[:j] == guild[j])
        pairs.append((int(rng.choice(near if len(near) else np.arange(j))), j))
    Omega = np.eye(p)
    for a, b in pairs:
        Omega[a, b] = Omega[b, a] = rng.choice([-1.0, 1.0], p=[0.7, 0.3]) * 0.45  # most of them rise and fall together
    Omega += np.eye(p) * max(0.0, 0.2 - np.linalg.eigvalsh(Omega)[0])
    made = species(n, p, random_state)
    assert made.truth is not None
    design = made.truth["covariates"]
    Z = design.to_numpy() @ made.truth["coefficients"] + rng.multivariate_normal(
        np.zeros(p), np.linalg.inv(Omega), n, method="cholesky"
    )
    X = DataFrame(rng.poisson(np.exp(Z)), columns=made.X.columns)
    edges = [(X.columns[a], X.columns[b]) for a, b in pairs]
    about = f"{n:,} made-up sites with counts of {p} made-up species, from a known network of {len(edges)} edges"
    return Dataset(X, made.y, "species web", about, {"covariates": design, "precision": Omega, "edges": edges})


def tic_tac_toe() -> tuple[pd.DataFrame, pd.Series]:
    """The 958 boards with which a game of tic-tac-toe can end, x moving first, and whether x has won.

    Cells are named by row (top, middle, bottom) and column (left, centre, right); "b" is a blank.

    >>> boards, won = tic_tac_toe()
    >>> boards.shape, int(won.eq("x wins").sum())
    ((958, 9), 626)
    """
    import pandas as pd

    ends: dict[tuple[str, ...], str] = {}
    for board in product("box", repeat=9):
        x, o = (any(all(board[cell] == player for cell in line) for line in TIC_TAC_TOE_LINES) for player in "xo")
        ahead = board.count("x") - board.count("o")  # 1 after a move of x, 0 after one of o
        if (ahead == 1 and not o and (x or "b" not in board)) or (ahead == 0 and o and not x):
            ends[board] = "x wins" if x else "x does not"
    cells = [f"{row}_{column}" for row in ("top", "middle", "bottom") for column in ("left", "centre", "right")]
    return pd.DataFrame(list(ends), columns=cells), pd.Series(list(ends.values()), name="outcome")


def _bundled(name: str) -> Dataset:
    from sklearn import datasets

    raw = getattr(datasets, "load_" + name.replace("-", "_"))(as_frame=True)
    X = raw.data.astype(int) if name == "digits" else raw.data  # pixels are counts
    return Dataset(X, np.array([str(c) for c in raw.target_names])[raw.target], name, _BUNDLED[name])


_MADE: dict[str, Callable[[], Dataset]] = {"birds": birds, "species": species}
_BUNDLED = {  # with scikit-learn, and what they are
    "iris": "150 iris flowers of three species, measured by Anderson, published by Fisher in 1936",
    "wine": "178 Italian wines of three cultivars by thirteen chemical measurements",
    "breast-cancer": "569 tumours by thirty measurements of their cell nuclei",
    "digits": "1,797 handwritten digits on a grid of 8 x 8 pixels",
}

__all__ = ["Dataset", "Texts", "birds", "docstrings", "halves", "letters", "load", "names", "ontology", "species", "tic_tac_toe"]
