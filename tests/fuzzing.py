"""Odd but plausible data and settings for every estimator: `python tests/fuzzing.py --cases 10000`, and a sample in `test_fuzz.py`.

A case fits one estimator to one odd table with odd settings, and asks everything of what was fitted. It may be refused in words of
ours or of scikit-learn's validation. It may not end in another error, a warning of NumPy, or NaN or infinity without a warning of
ours, nor take longer than 20 seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import faulthandler
import linecache
import os
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
import sklearn
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import tallies
from tallies.errors import ConvergenceWarning, DataWarning, TalliesError

SECONDS = 20
HOME, CHECKS = (str(Path(module.__file__).parent) + os.sep for module in (tallies, sklearn))


class Case(NamedTuple):
    model: str
    options: dict[str, Any]
    fit: dict[str, Any]  # arguments of `fit`; a partial is called for its value
    new: dict[str, Any]  # of what is asked afterwards
    more: dict[str, Any]  # settings of the questions


# columns: n values each

WORDS = ["a", "b", "", " ", "é", "日本", "a b", "nan", "1", "NA"]
MIXED = [1, "a", None, 2.5, True, np.nan, "1", (1, 2), b"x", np.float64(3.0), 0]


def some(*values: Any) -> Callable[[np.random.Generator, int], list[Any]]:
    """Values drawn from these."""
    return lambda rng, n: [values[i] for i in rng.integers(len(values), size=n)]


COLUMNS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "whole": lambda rng, n: rng.integers(0, 4, n),
    "counts": lambda rng, n: rng.poisson(3.0, n),
    "text": some("a", "b", "c"),
    "yes or no": lambda rng, n: rng.random(n) < 0.5,
    "float counts": lambda rng, n: rng.poisson(2.0, n).astype(float),
    "gaps": lambda rng, n: np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
    "count gaps": lambda rng, n: np.where(rng.random(n) < 0.3, np.nan, rng.poisson(3.0, n)),
    "category": lambda rng, n: pd.Categorical(some("x", "y", None)(rng, n), categories=["y", "x", "never"]),
    # from here on odd
    "constant": lambda rng, n: np.full(n, 3.5),
    "zero": lambda rng, n: np.zeros(n, dtype=int),
    "one": lambda rng, n: np.ones(n),
    "nearly constant": lambda rng, n: 1.0 + 1e-15 * rng.integers(0, 3, n),
    "far": lambda rng, n: 1e15 + rng.normal(size=n),
    "negative": lambda rng, n: rng.integers(-3, 3, n),
    "fractions": lambda rng, n: rng.random(n).round(2),
    "many": lambda rng, n: rng.integers(0, 10**6, n),
    "very many": lambda rng, n: rng.integers(0, 2**62, n),
    "large": lambda rng, n: rng.normal(size=n) * 1e150,
    "huge": lambda rng, n: rng.normal(size=n) * 1e300,
    "largest": lambda rng, n: rng.choice([1.7e308, -1.7e308, 0.0], n),
    "small": lambda rng, n: rng.normal(size=n) * 1e-150,
    "tiny": lambda rng, n: rng.normal(size=n) * 1e-300,
    "smallest": lambda rng, n: rng.choice([5e-324, 0.0, -5e-324], n),
    "wide": lambda rng, n: 10.0 ** rng.integers(-300, 300, n),
    "huge counts": lambda rng, n: rng.choice([0.0, 1.0, 1e18, 1e300], n),
    "infinite": some(1.0, np.inf, -np.inf, 2.0),
    "nothing": lambda rng, n: np.full(n, np.nan),
    "none": lambda rng, n: [None] * n,
    "words": some(*WORDS),
    "word gaps": some("a", "b", None, np.nan),
    "true or gap": some(True, False, None),
    "mixed": some(*MIXED),
    "number texts": some("1", "2.5", "-3"),
    "dates": lambda rng, n: pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 9, n), "D"),
    "days": some(datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)),
    "lists": some([1], [2, 3]),
    "complex": some(1 + 2j, 3.0),
    "nullable": lambda rng, n: pd.array(some(1, 2, None)(rng, n), dtype="Int64"),
    "nullable yes or no": lambda rng, n: pd.array(some(True, False, None)(rng, n), dtype="boolean"),
    "intervals": lambda rng, n: pd.cut(rng.random(n), [-1, 0.5, 2]) if n else pd.Categorical([]),
    "big numbers": some(2**70, -(2**65), 0),
}
GOOD = list(COLUMNS)[: list(COLUMNS).index("constant")]
NAMES = ["a", "b", "ü", "日本", "", " ", "a", "x0", "x & y", "a=b", "x" * 300, "\n"]

# tables of columns


def as_array(columns: list[Any], n: int, dtype: Any = None) -> Any:
    """One array; of objects where no dtype holds all columns."""
    if not columns:
        return np.empty((n, 0))
    if all(isinstance(column, np.ndarray) and column.dtype.kind in "fiub" for column in columns):
        out = np.column_stack(columns)
    else:
        out = np.empty((n, len(columns)), dtype=object)
        for j, column in enumerate(columns):
            out[:, j] = pd.Series(list(column), dtype=object).to_numpy()
    try:
        return out if dtype is None else out.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        return out


def as_frame(columns: list[Any], n: int, names: list[Any]) -> pd.DataFrame:
    frame = pd.DataFrame({j: pd.Series(column) for j, column in enumerate(columns)}, index=range(n))
    frame.columns = pd.Index(names, dtype=object)
    return frame


def as_polars(columns: list[Any], n: int, names: list[Any]) -> Any:
    try:
        return pl.from_pandas(as_frame(columns, n, names))
    except Exception:  # polars has no such columns
        return as_frame(columns, n, names)


def as_sparse(columns: list[Any], n: int, kind: str) -> Any:
    dense = as_array(columns, n)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return getattr(sp, kind)(dense.astype(float) if dense.dtype.kind not in "fiu" else dense)
        except (TypeError, ValueError, OverflowError):
            return getattr(sp, kind)(np.eye(n, len(columns)))


PLAIN = [f"v{j}" for j in range(20)]
TABLES: dict[str, Callable[[list[Any], int, list[Any]], Any]] = {
    "array": lambda columns, n, names: as_array(columns, n),
    "frame": lambda columns, n, names: as_frame(columns, n, PLAIN[: len(columns)]),
    "lists": lambda columns, n, names: as_array(columns, n).tolist(),
    "odd names": as_frame,
    "polars": lambda columns, n, names: as_polars(columns, n, PLAIN[: len(columns)]),
    "row names": lambda columns, n, names: as_frame(columns, n, PLAIN[: len(columns)]).set_axis([f"r{i // 2}" for i in range(n)]),
    "numbered": lambda columns, n, names: as_frame(columns, n, list(range(len(columns)))),
    "csr": lambda columns, n, names: as_sparse(columns, n, "csr_array"),
    "csc": lambda columns, n, names: as_sparse(columns, n, "csc_matrix"),
    "coo": lambda columns, n, names: as_sparse(columns, n, "coo_array"),
    "single": lambda columns, n, names: as_array(columns, n, np.float32),
    "half": lambda columns, n, names: as_array(columns, n, np.float16),
    "objects": lambda columns, n, names: as_array(columns, n, object),
    "fortran": lambda columns, n, names: np.asfortranarray(as_array(columns, n)),
    "backwards": lambda columns, n, names: as_array(columns, n)[::-1, ::-1],
    "flat": lambda columns, n, names: as_array(columns, n).ravel(),
    "cube": lambda columns, n, names: as_array(columns, n)[None],
    "texts": lambda columns, n, names: as_array(columns, n).astype(str),
    "masked": lambda columns, n, names: np.ma.masked_array(as_array(columns, n)),
    "series": lambda columns, n, names: pd.Series(columns[0] if columns else [], dtype=object),
    "records": lambda columns, n, names: as_frame(columns, n, PLAIN[: len(columns)]).to_dict("records"),
    "dict": lambda columns, n, names: dict(zip(PLAIN, columns, strict=False)),
    "list of texts": lambda columns, n, names: ["cats and dogs", "", "dogs"][:n],
    "none": lambda columns, n, names: None,
    "number": lambda columns, n, names: 3.0,
    "text": lambda columns, n, names: "table.csv",
}
USUAL = ["array", "frame", "array", "frame", "lists", "odd names", "polars", "csr"]


@st.composite
def usually(draw: Any, usual: list[Any], odd: list[Any], most: int = 3) -> Any:
    """One of the usual values `most` times in `most` + 1, else an odd one."""
    return draw(st.sampled_from(usual if draw(st.integers(0, most)) < most else odd))


class Shape(NamedTuple):
    """How a table is made, so that another like it can be."""

    table: str
    kinds: list[str]
    names: list[Any]

    def make(self, n: int, number: int) -> Any:
        rng = np.random.default_rng(number)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return TABLES[self.table]([COLUMNS[kind](rng, n) for kind in self.kinds], n, self.names)


@st.composite
def shapes(draw: Any, good: list[str], tables: list[str] = USUAL) -> Shape:
    d = draw(usually([1, 2, 3, 4], [0, 1, 8]))
    whole = draw(st.integers(0, 2))  # all columns good, some odd, all of one kind
    kind = usually(good, list(COLUMNS), 9 if whole else 1)
    kinds = [draw(kind)] * d if whole == 2 else [draw(kind) for _ in range(d)]
    names = [draw(st.sampled_from([*NAMES, *range(3), None, (1, 2), 2.5])) for _ in range(d)]
    if draw(st.booleans()):
        names = [f"{name}{j}" for j, name in enumerate(names)]
    return Shape(draw(usually(tables, list(TABLES), 6)), kinds, names)


rows = usually([2, 3, 5, 8, 13, 30], [0, 1, 2, 60])
seeds = st.integers(0, 2**32 - 1)


@st.composite
def another(draw: Any, shape: Shape) -> Any:
    """New rows: like those of the fit, or with a change."""
    if draw(st.integers(0, 3)) == 0 and shape.kinds:
        j = draw(st.integers(0, len(shape.kinds) - 1))
        kinds = [*shape.kinds[:j], draw(st.sampled_from(list(COLUMNS))), *shape.kinds[j + 1 :]]
        shape = shape._replace(kinds=kinds)
    if draw(st.integers(0, 9)) == 0:
        shape = shape._replace(table=draw(st.sampled_from(list(TABLES))))
    return shape.make(draw(usually([1, 3, 6], [0, 1])), draw(seeds))


# labels and weights of n rows

LABELS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "whole": lambda rng, n: rng.permutation(np.arange(n) % 2),
    "three": lambda rng, n: rng.permutation(np.arange(n) % 3),
    "words": lambda rng, n: np.array(["no", "yes"])[np.arange(n) % 2],
    "list": lambda rng, n: ["é" if i % 2 else "日本" for i in range(n)],
    "yes or no": lambda rng, n: np.arange(n) % 2 == 0,
    "series": lambda rng, n: pd.Series(np.arange(n) % 2, index=range(5, n + 5)),
    # from here on odd
    "floats": lambda rng, n: (np.arange(n) % 2).astype(float),
    "gaps": lambda rng, n: np.where(np.arange(n) % 3 == 2, np.nan, np.arange(n) % 2),
    "none": lambda rng, n: np.array([[None, "a", "b"][i % 3] for i in range(n)], dtype=object),
    "minus one": lambda rng, n: np.arange(n) % 3 - 1,
    "unsigned": lambda rng, n: (np.arange(n) % 2).astype(np.uint8),
    "big": lambda rng, n: np.array([2**63 - 1, -(2**63)])[np.arange(n) % 2],
    "bigger": lambda rng, n: np.array([2**64 - 1, 0], dtype=np.uint64)[np.arange(n) % 2],
    "beyond": lambda rng, n: [2**70 if i % 2 else 0 for i in range(n)],
    "one class": lambda rng, n: np.zeros(n, dtype=int),
    "all apart": lambda rng, n: np.arange(n),
    "continuous": lambda rng, n: rng.normal(size=n),
    "infinite": some(np.inf, 1.0),
    "mixed": some(1, "a"),
    "mixed objects": lambda rng, n: np.array(some(1, "a", None, True)(rng, n), dtype=object),
    "dates": lambda rng, n: np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")[np.arange(n) % 2],
    "days": some(datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)),
    "category": lambda rng, n: pd.Series(pd.Categorical(["u" if i % 2 else "v" for i in range(n)], categories=["v", "u", "w"])),
    "nullable": lambda rng, n: pd.Series(some(0, 1, None)(rng, n), dtype="Int64"),
    "polars": lambda rng, n: pl.Series("y", [["a", "b"][i % 2] for i in range(n)]),
    "column": lambda rng, n: (np.arange(n) % 2)[:, None],
    "table": lambda rng, n: np.eye(n),
    "bytes": lambda rng, n: np.array([b"a", b"b"])[np.arange(n) % 2],
    "tuples": some((1, 2), (3, 4)),
    "ragged": some([1], [2, 3]),
    "complex": lambda rng, n: np.arange(n) % 2 + 1j,
    "long": lambda rng, n: np.arange(n + 1) % 2,
    "empty": lambda rng, n: [],
    "nothing": lambda rng, n: None,
    "word": lambda rng, n: "target",
    "number": lambda rng, n: 1,
}
WEIGHTS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "none": lambda rng, n: None,
    "ones": lambda rng, n: np.ones(n),
    "some": lambda rng, n: rng.random(n) + 0.1,
    # from here on odd
    "zeros among them": lambda rng, n: rng.integers(0, 2, n),
    "one row": lambda rng, n: np.arange(n) == 0,
    "all zero": lambda rng, n: np.zeros(n),
    "negative": lambda rng, n: rng.normal(size=n),
    "gaps": lambda rng, n: np.where(np.arange(n) == 0, np.nan, 1.0),
    "infinite": lambda rng, n: np.where(np.arange(n) == 0, np.inf, 1.0),
    "huge": lambda rng, n: np.full(n, 1e300),
    "largest": lambda rng, n: np.full(n, 1.7e308),
    "large": lambda rng, n: rng.random(n) * 1e12,
    "tiny": lambda rng, n: np.full(n, 1e-300),
    "smallest": lambda rng, n: np.full(n, 5e-324),
    "far apart": lambda rng, n: 10.0 ** rng.integers(-200, 200, n),
    "texts": lambda rng, n: ["1"] * n,
    "objects": lambda rng, n: np.array([None] * n, dtype=object),
    "list": lambda rng, n: [1] * n,
    "series": lambda rng, n: pd.Series(np.ones(n), index=range(3, n + 3)),
    "long": lambda rng, n: np.ones(n + 1),
    "column": lambda rng, n: np.ones((n, 1)),
    "number": lambda rng, n: 2.0,
    "single": lambda rng, n: np.ones(n, dtype=np.float32),
}


@st.composite
def beside(draw: Any, kinds: dict[str, Any], usual: int, n: int, most: int = 3) -> Any:
    """Labels or weights of n rows."""
    kind = draw(usually(list(kinds)[:usual], list(kinds), most))
    return kinds[kind](np.random.default_rng(draw(seeds)), n)


# settings: plausible and implausible values

ODD = [
    None,
    0,
    -1,
    1,
    2,
    0.5,
    -0.5,
    np.nan,
    np.inf,
    -np.inf,
    1e300,
    1e-300,
    True,
    False,
    "",
    "auto",
    "yes",
    [],
    (),
    {},
    [1],
    2**31,
    "1",
]
SMALL_ODD = [value for value in ODD if not (isinstance(value, int | float) and value > 1000)]  # where more is more work
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "GDA": {
        "covariance": ["shared", "class", "diagonal"],
        "shrinkage": [None, "auto", 0.0, 0.5, 1.0, 1e-300, np.float64(0.3)],
        "priors": [None, None, [0.5, 0.5], [0.2, 0.3, 0.5], [1.0, 0.0], np.array([0.5, 0.5]), (0.9, 0.1)],
        "semi_supervised": [False, True],
        "max_iter": [30, 1, 2],
        "tol": [1e-8, 1e-3, 0.0],
    },
    "NaiveBayes": {
        "families": [
            *("auto", "auto", "gaussian", "categorical", "bernoulli", "poisson", "multinomial"),
            *({"v0": "categorical"}, {0: "gaussian"}, {"none": "poisson"}, ["gaussian"], "gausian"),
        ],
        "smoothing": [1.0, 0.0, 0.5, 1e-10, 100.0, 1e-300, 1e300, 3],
        "priors": [None, None, [0.5, 0.5], [0.2, 0.3, 0.5], [1.0, 0.0]],
        "semi_supervised": [False, True],
        "max_iter": [30, 1, 2],
        "tol": [1e-8, 1e-3, 0.0],
    },
    "LDA": {
        "n_topics": [2, 3, 1, 7],
        "alpha": ["auto", 0.1, 1.0, [0.1, 0.2], 1e-10, 1e10, 1e-300, 1e300],
        "beta": [0.01, "auto", 1.0, 1e-10, 1e10, 1e-300, 1e300],
        "max_iter": [6, 1, 2, 12],
        "burn_in": [3, 0, 1, 100],
        "thin": [1, 2, 100],
        "n_chains": [1, 2],
        "start": ["growing", "random"],
        "plateau": [False, True],
        "word_prior": [
            None,
            {0: ["v0"]},
            {0: {"v0": 3}},
            {5: ["v0"]},
            {"a": ["b"]},
            {0: {0: 2}},
            {0: "v0"},
            [[1, 0], [0, 1]],
            {0: {"v0": -1}},
        ],
        "shards": [1, 2, 50],
        "random_state": [0, 1, 2**63],
    },
    "PLN": {
        "rank": [None, None, 1, 2, 50],
        "method": [
            "variational",
            "variational",
            tallies.Importance(accuracy=0.2, max_epochs=2, n_plateau=1, n_trigger=1),
            tallies.Importance(accuracy=0.5, max_epochs=1, batch_size=1, optimizer="rmsprop", good_init=False),
            tallies.Importance(accuracy=np.nan),
            tallies.Importance(learning_rate=1e300, max_epochs=2, accuracy=0.5),
        ],
        "covariance": [
            "full",
            "diagonal",
            "spherical",
            np.eye(2),
            np.eye(3),
            [[1.0, 0.5], [0.5, 1.0]],
            np.zeros((2, 2)),
            np.full((2, 2), np.nan),
        ],
        "intercept": [False, True],
        "max_iter": [60, 1, 2],
        "tol": [1e-6, 1e-11, 0.0, 1.0],
        "n_starts": [2, 1, 3],
        "warm_start": [False, True],
        "random_state": [0, 1],
    },
    "FEM": {
        "degree": [1, 2, "auto", (1, 2), [2], {1}, 3, 9],
        "ridge": [1.0, "auto", 0.0, 0.1, 1e-10, 1e10, 1e-300, 1e300],
        "solver": ["auto", "fem", "lbfgs", "kernel"],
        "screen": [None, None, 1, 2, 100],
        "missing": ["state", "ignore"],
        "bins": [None, None, 2, 3, {"v0": 2}, {"none": 2}],
        "cv": [5, 2, 3, [([0, 1], [2])], 100],
        "max_degree": [2, 1, 5],
        "max_iter": [60, 1, 2],
        "tol": [1e-8, 1e-2, 0.0],
        "random_state": [0, 1],
    },
    "FEMNetwork": {
        "degree": [1, 2, (1, 2), [2], 9],
        "ridge": [1.0, "auto", 0.0, 0.1, 1e-10, 1e10, 1e-300, 1e300],
        "lag": [0, 1],
        "solver": ["auto", "fem", "lbfgs"],
        "reweight": [None, 0.8, 1.0, 1e-10],
        "missing": ["state", "ignore"],
        "bins": [None, None, 2, 3, {"v0": 2}],
        "max_iter": [60, 1, 2],
        "tol": [1e-8, 1e-2, 0.0],
        "random_state": [0, 1],
    },
    "AuthorConcept": {
        "words": [
            *(None, "mention", "multinomial", "mentions"),
            tallies.Multinomial(anchor=1.0),
            tallies.Multinomial(anchor=0.0, held_out=0.3),
            tallies.Multinomial(smoothing=1e-300, background=False),
            tallies.Multinomial(smoothing=1e300),
            tallies.Multinomial(anchor=1.0, word_sparsity=0.5, overlap=0.5),
            tallies.Multinomial(definition_weight=1.0, single=False, leave_one_out=False, anchor=5.0),
            tallies.Mention(stem=1e-300, prefix=1e300),
            tallies.Mention(missing=-1e300, pair=np.inf),
            tallies.Mention(context=0.0, several=False, usage=0.0),
            tallies.Mention(synonym=np.nan),
        ],
        "assign": [None, "soft", "hard"],
        "credit": [None, "split", "whole"],
        "preset": [None, None, "seed"],
        "temperature": [1.0, 0.5, 1e-10, 1e10, 1e300, 1e-300],
        "gamma": [None, 0.0, 1.0, 1e-300, 1e300],
        "strength": [None, [1.0, 2.0], [1e-300, 1e300, 1.0]],
        "author_backoff": ["auto", None, 0.0, 1.0, 1e300],
        "document_backoff": [None, 0.0, 1.0, 1e300],
        "null": [None, True, False],
        "ontology_smoothing": [None, 0.0, 0.5, 1.0],
        "author_sparsity": [0.0, 0.5, 1e300],
        "stop": [None, "likelihood", "assignments"],
        "keep": [None, 1, 2, 1000],
        "max_iter": [5, 1, 2],
        "tol": [5e-3, None, 0.0],
        "random_state": [0, 1],
    },
}
WORK = {"max_iter", "n_topics", "n_chains", "n_starts", "rank", "max_degree", "degree", "bins", "shards", "keep", "cv"}
QUICK = {name: options["max_iter"][0] for name, options in OPTIONS.items()}


@st.composite
def options_of(draw: Any, name: str) -> dict[str, Any]:
    """A few settings that differ from the defaults, seldom implausible ones; the quick ones always."""
    known = OPTIONS[name]
    chosen = draw(st.lists(st.sampled_from(sorted(known)), max_size=4, unique=True))
    odd = draw(st.integers(0, 3)) == 0
    found: dict[str, Any] = {"max_iter": QUICK[name]}
    found |= {"LDA": {"burn_in": 3, "n_topics": 2}, "PLN": {"tol": 1e-6}}.get(name, {})
    for option in chosen:
        values = known[option]
        found[option] = draw(usually(values, SMALL_ODD if option in WORK else ODD, 4) if odd else st.sampled_from(values))
    return found


MORE = {
    "n": usually([3, 1], [0, -1, 2.5, None, "3", True, np.int64(2)], 5),
    "k": usually([2, 5], [0, -1, 100, None], 8),
    "random_state": usually([0, None], [1, -1, "x", np.nan, 2**70], 8),
}
mores = st.fixed_dictionaries(MORE)

# a case of each estimator


@st.composite
def classifier_cases(draw: Any, name: str, good: list[str]) -> Case:
    shape, n = draw(shapes(good)), draw(rows)
    fit = {"X": shape.make(n, draw(seeds)), "y": draw(beside(LABELS, 6, n))}
    weight = draw(beside(WEIGHTS, 3, n, 2))
    fit |= {} if weight is None else {"sample_weight": weight}
    return Case(name, draw(options_of(name)), fit, {"X": draw(another(shape))}, draw(mores))


@st.composite
def network_cases(draw: Any) -> Case:
    shape, n = draw(shapes(["whole", "text", "yes or no", "category", "words", "word gaps"])), draw(rows)
    weight = draw(beside(WEIGHTS, 3, n, 2))
    fit = {"X": shape.make(n, draw(seeds))} | ({} if weight is None else {"sample_weight": weight})
    return Case("FEMNetwork", draw(options_of("FEMNetwork")), fit, {"X": draw(another(shape))}, draw(mores))


SENTENCES = [
    *(
        "Cell death was seen.",
        "Genes are expressed in cells",
        "apoptosis",
        "The death of a gene",
        "death death death",
        "",
        "the of and",
    ),
    *("日本 語", "é É e", "x", "1 2 3", "\0", "a\nb\tc", "cell " * 50, "gene-expression/cell", "!!!", "unrelated words entirely"),
]
TEXT_OPTIONS = [
    {},
    {"stop_words": None},
    {"min_df": 2},
    {"min_df": 0.5},
    {"stem": True},
    {"bigrams": True},
    {"vocabulary": ["cell", "gene"]},
]
TEXT_OPTIONS += [{"min_df": -1}, {"max_df": "x"}, {"stem": "klingon"}, {"vocabulary": []}, {"vocabulary": ["cell", "cell"]}]
texts = st.lists(st.sampled_from(SENTENCES), max_size=8)
odd_texts = st.one_of(
    texts, texts, texts, st.lists(st.sampled_from([None, 1, np.nan, "cell", b"cell", ["cell"]]), max_size=4), st.just("cell")
)


@st.composite
def lda_cases(draw: Any) -> Case:
    if draw(st.integers(0, 3)) == 0:
        first, other = draw(odd_texts), draw(odd_texts)
        how = partial(tallies.Corpus.from_texts, first, **draw(st.sampled_from(TEXT_OPTIONS)))
        fit, new = {"X": how}, {"X": partial(tallies.Corpus.from_texts, other)}
    else:
        shape = draw(shapes(["counts", "whole", "float counts", "zero", "one", "yes or no"], [*USUAL, "csc"]))
        fit, new = {"X": shape.make(draw(rows), draw(seeds))}, {"X": draw(another(shape))}
    more = draw(mores) | {"length": draw(usually([None, 5], [0, -1, 2.5, "x"], 5))}
    return Case("LDA", draw(options_of("LDA")), fit, new, more)


OFFSETS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "none": lambda rng, n: None,
    "logsum": lambda rng, n: "logsum",
    "some": lambda rng, n: rng.normal(size=n),
    # from here on odd
    **{rule: partial(lambda rule, rng, n: rule, rule) for rule in ("tss", "css", "rle", "gmpr", "tmm", "wrench", "none such", "")},
    "table": lambda rng, n: rng.normal(size=(n, 2)),
    "list": lambda rng, n: [0] * n,
    "large": lambda rng, n: np.full(n, 50.0),
    "huge": lambda rng, n: np.full(n, 1e4),
    "largest": lambda rng, n: np.full(n, 1e300),
    "far below": lambda rng, n: np.full(n, -1e4),
    "lowest": lambda rng, n: np.full(n, -1e300),
    "infinite": lambda rng, n: np.full(n, -np.inf),
    "gaps": lambda rng, n: np.full(n, np.nan),
    "texts": lambda rng, n: ["a"] * n,
    "series": lambda rng, n: pd.Series(np.zeros(n)),
    "frame": lambda rng, n: pd.DataFrame({"o": np.zeros(n)}),
    "long": lambda rng, n: np.zeros(n + 1),
    "number": lambda rng, n: 1.0,
}
COVARIATES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "none": lambda rng, n: None,
    "ones": lambda rng, n: np.ones((n, 1)),
    "one": lambda rng, n: rng.normal(size=(n, 1)),
    # from here on odd
    "flat": lambda rng, n: rng.normal(size=n),
    "groups": lambda rng, n: np.eye(2)[np.arange(n) % 2],
    "frame": lambda rng, n: pd.DataFrame({"depth": rng.normal(size=n), "side": np.arange(n) % 2}),
    "named rows": lambda rng, n: pd.DataFrame({"depth": rng.normal(size=n)}, index=[f"r{i}" for i in range(n)]),
    "text": lambda rng, n: pd.DataFrame({"side": ["a"] * n}),
    "series": lambda rng, n: pd.Series(rng.normal(size=n), name="depth"),
    "polars": lambda rng, n: pl.DataFrame({"depth": rng.normal(size=n)}),
    "constant twice": lambda rng, n: np.ones((n, 2)),
    "zero": lambda rng, n: np.zeros((n, 1)),
    "none at all": lambda rng, n: np.empty((n, 0)),
    "many": lambda rng, n: rng.normal(size=(n, n + 1)),
    "large": lambda rng, n: rng.normal(size=(n, 1)) * 1e6,
    "huge": lambda rng, n: rng.normal(size=(n, 1)) * 1e300,
    "tiny": lambda rng, n: rng.normal(size=(n, 1)) * 1e-300,
    "gaps": lambda rng, n: np.full((n, 1), np.nan),
    "objects": lambda rng, n: np.array([["a"]] * n, dtype=object),
    "long": lambda rng, n: np.ones((n + 1, 1)),
    "word": lambda rng, n: "depth",
    "lists": lambda rng, n: [[1.0, float(i % 2)] for i in range(n)],
    "sparse": lambda rng, n: sp.csr_array(np.ones((n, 1))),
}


@st.composite
def pln_cases(draw: Any) -> Case:
    good = ["counts", "whole", "float counts", "count gaps", "counts", "counts"]
    shape, n, m = draw(shapes(good, [*USUAL, "row names"])), draw(rows), draw(usually([1, 3, 6], [0, 1]))
    covariates, offsets = (
        draw(usually(["none", "ones", "one"], list(COVARIATES), 2)),
        draw(usually(["none", "logsum"], list(OFFSETS), 2)),
    )
    rng = np.random.default_rng(draw(seeds))
    parts: list[dict[str, Any]] = []
    for size in (n, m):
        found = {"covariates": COVARIATES[covariates](rng, size), "offsets": OFFSETS[offsets](rng, size)}
        parts.append(
            {"counts": shape.make(size, draw(seeds))} | {name: value for name, value in found.items() if value is not None}
        )
    weight = draw(beside(WEIGHTS, 1, n, 3))
    fit = parts[0] | ({} if weight is None else {"sample_weight": weight})
    new = parts[1] | ({"counts": draw(another(shape))} if draw(st.integers(0, 5)) == 0 else {})
    return Case("PLN", draw(options_of("PLN")), fit, new, draw(mores))


NAMED = ["cell death", "gene expression", "apoptosis", "", "cell", "the", "日本", "x y z", "death"]
IDS = ["g0", "g1", "é", "GO:1"]


@st.composite
def ontologies(draw: Any) -> Any:
    n = draw(usually([1, 2, 3], [0, 4]))
    lists = st.lists(st.sampled_from(NAMED), max_size=2)
    ids = IDS[:n] if draw(st.integers(0, 9)) else ["g0"] * n
    return partial(
        tallies.Ontology,
        ids,
        [draw(st.sampled_from(NAMED)) for _ in ids],
        definitions=[draw(st.sampled_from(SENTENCES)) for _ in ids],
        synonyms=[draw(lists) for _ in ids],
        parents=[draw(st.lists(usually(ids or ["g0"], ["none such"], 20), max_size=2)) for _ in ids],
    )


def pairs(sentences: list[Any], authors: list[Any], options: dict[str, Any]) -> Any:
    """A corpus of two documents."""
    return tallies.Corpus.from_pairs([(f"d{i % 2}", text) for i, text in enumerate(sentences)], authors, **options)


@st.composite
def concept_cases(draw: Any) -> Case:
    names = [("d0", "Ann"), ("d1", "Bob"), ("d0", ""), ("d0", None), ("d0", "Ann"), ("d1", "é"), ("d7", "Eve")]
    some_texts = draw(texts) + draw(st.sampled_from([[], ["Cell death was seen.", "Genes are expressed in cells"]]))
    how = draw(usually(["pairs", "pairs", "list"], ["odd", "no sentences", "cut"], 4))
    options = draw(usually([{}], TEXT_OPTIONS, 4))
    made = {
        "pairs": partial(pairs, some_texts, draw(st.lists(usually(names[:2], names, 5), max_size=3)), options),
        "list": some_texts,
        "odd": draw(odd_texts),
        "no sentences": partial(tallies.Corpus.from_texts, some_texts),
        "cut": partial(tallies.Corpus.from_texts, some_texts, sentences=True),
    }
    label = usually([None, "g0", "g1", [], ["g0", "g1"]], ["none such", 3, np.nan, ("g0",), [None], [3], b"g0"], 9)
    fit = {"corpus": made[how], "concepts": draw(ontologies())}
    if draw(st.integers(0, 2)) == 0:
        fit["labels"] = [draw(label) for _ in range(len(some_texts) + (draw(st.integers(0, 9)) == 0))]
    new = {
        "sentences": draw(usually([some_texts], [draw(odd_texts)], 2)),
        "authors": draw(usually([None, ["Ann"]], ["Ann", [], [["Bob"]], [None], 3], 2)),
    }
    return Case("AuthorConcept", draw(options_of("AuthorConcept")), fit, new, draw(mores))


CASES: dict[str, st.SearchStrategy[Case]] = {
    "GDA": classifier_cases("GDA", ["normal", "whole", "counts", "gaps", "float counts", "normal"]),
    "NaiveBayes": classifier_cases("NaiveBayes", GOOD),
    "LDA": lda_cases(),
    "PLN": pln_cases(),
    "FEM": classifier_cases("FEM", ["whole", "text", "yes or no", "category", "words", "word gaps", "normal"]),
    "FEMNetwork": network_cases(),
    "AuthorConcept": concept_cases(),
}

# what is asked of a fitted model: name -> answer

Asks = dict[str, Callable[[], Any]]


def ask_table(model: Any, case: Case, names: str) -> Asks:
    """Answers about rows, of those of the fit and of new ones."""
    asks: Asks = {}
    for which, data in (("", case.fit), ("new ", case.new)):
        for name in names.split():
            asks[which + name] = partial(getattr(model, name), data["X"])
    return asks


def ask_classifier(model: Any, case: Case) -> Asks:
    X, y, more = case.fit["X"], case.fit["y"], case.more
    asks = ask_table(model, case, "predict predict_proba predict_log_proba log_joint log_prob_given log_prob")
    label = model.classes_[0]
    return asks | {
        "score": lambda: model.score(X, y),
        "log score": lambda: tallies.evaluate(model, X, y),
        "sample": lambda: model.sample(more["n"], random_state=more["random_state"]),
        "sample of a class": lambda: model.sample(2, y=label, random_state=0),
        "samples are rows": lambda: model.predict_proba(model.sample(2, random_state=0)[0]),
        "partial_fit": lambda: again(model).partial_fit(X, y).predict_proba(X),
        "partial_fit of new rows": lambda: again(model).partial_fit(X, y).partial_fit(X, y).predict_proba(X),
        "merge": lambda: again(model).fit(**case.fit).merge(model).predict_proba(X),
        "attributes": lambda: [model.priors_, *([model.means_, model.covariance_] if case.model == "GDA" else [model.tables_])],
    }


def ask_lda(model: Any, case: Case) -> Asks:
    X, new, more = case.fit["X"], case.new["X"], case.more
    return ask_table(model, case, "transform score perplexity assignments") | {
        "gibbs": lambda: model.transform(new, method="gibbs", random_state=more["random_state"]),
        "left to right": lambda: tallies.evaluate(model, X, method="left_to_right"),
        "similar": lambda: model.similar(new, more["k"]),
        "coherence": lambda: [model.coherence(X, measure, 3) for measure in ("umass", "npmi", "c_v")],
        "sample": lambda: model.sample(more["n"], length=more["length"], random_state=more["random_state"]),
        "top_words": lambda: model.top_words(more["k"]),
        "tables": lambda: [model.topic_table(), model.topic_correlations(), model.topics_, model.document_topics_, model.alpha_],
        "partial_fit": lambda: again(model, fitted=True).partial_fit(new).transform(new),
    }


def ask_pln(model: Any, case: Case) -> Asks:
    more, asks = case.more, {}
    old = {name: value for name, value in case.fit.items() if name != "sample_weight"}
    for which, data in (("", old), ("new ", case.new)):
        for name in ("transform", "predict", "log_prob", "score"):
            (_, counts), *rest = data.items()
            asks[which + name] = partial(getattr(model, name), counts, **dict(rest))
    beside = {name: value for name, value in case.new.items() if name != "counts"}
    return asks | {
        "predict without counts": lambda: model.predict(**beside),
        "predict_conditional": lambda: model.predict_conditional(case.new["counts"], [0], **beside),
        "evidence": lambda: model.evidence(**old, n_draws=20),
        "sample": lambda: model.sample(more["n"], random_state=more["random_state"]),
        "sample beside": lambda: model.sample(3, **beside, random_state=0),
        "coefficients": lambda: [model.coefficients_, model.covariance_, model.correlation_, model.latent_mean_],
        "fit again": lambda: again(model, fitted=True).fit(**case.fit).coefficients_,
    }


def ask_undetermined(model: Any, case: Case) -> Asks:
    """Standard errors, which may have no value: they are NaN then."""
    return {"coefficient_table": model.coefficient_table, "coefficient_covariance": model.coefficient_covariance}


def ask_fem(model: Any, case: Case) -> Asks:
    X, y, more = case.fit["X"], case.fit["y"], case.more
    return ask_table(model, case, "predict predict_proba predict_log_proba decision_function") | {
        "score": lambda: model.score(X, y),
        "log score": lambda: tallies.evaluate(model, X, y),
        "sample_y": lambda: model.sample_y(case.new["X"], random_state=more["random_state"]),
        "weights": lambda: [model.weights_, model.interactions(more["k"]), *model.weights_by_degree().values()],
        "standard_errors": lambda: model.standard_errors(X, y, n_boot=3),
    }


def ask_network(model: Any, case: Case) -> Asks:
    X, more = case.fit["X"], case.more
    return ask_table(model, case, "log_conditional score energy") | {
        "simulate": lambda: model.simulate(more["n"], random_state=more["random_state"]),
        "sample": lambda: model.sample(2, burn_in=3, thin=2, random_state=0),
        "samples are rows": lambda: model.energy(model.sample(3, burn_in=3, thin=2, random_state=0)),
        "couplings": lambda: [model.couplings_, model.scores(), model.scores("direct_information"), model.scores(apc=False)],
        "top_couplings": lambda: model.top_couplings(more["k"]),
        "standard_errors": lambda: model.standard_errors(X, n_boot=3),
    }


def ask_concepts(model: Any, case: Case) -> Asks:
    sentences, authors, more, first = case.new["sentences"], case.new["authors"], case.more, model.concept_ids_[0]
    return {
        "rank": lambda: model.rank(sentences, authors, more["k"]),
        "annotate": lambda: model.annotate(sentences, authors),
        "explained log odds": lambda: model.explain("cell death", first, authors),
        "profiles": lambda: [model.concept_profile(first), model.document_profile(model.document_ids_[0])],
        "author_profile": lambda: [model.author_profile(name) for name in model.authors_],
        "log_prob": lambda: model.log_prob(sentences, authors),
        "log_prob_given": lambda: model.log_prob_given(sentences),
        "score": lambda: [model.score(sentences), model.score(case.fit["corpus"])],
        "sample": lambda: model.sample(more["n"], length=4, random_state=more["random_state"]),
        "document_log_likelihood": lambda: model.document_log_likelihood(case.fit["corpus"]),
        "tables": lambda: [model.concept_words_, model.author_concepts_, model.document_concepts_, model.responsibilities_],
        "roll_up": lambda: model.roll_up(model.document_concepts_),
    }


ASKS = {"LDA": ask_lda, "PLN": ask_pln, "FEM": ask_fem, "FEMNetwork": ask_network, "AuthorConcept": ask_concepts}
SAME = {"LDA": "transform", "PLN": "transform", "FEMNetwork": "log_conditional", "AuthorConcept": "log_prob"}  # else predict_proba


def again(model: Any, fitted: bool = False) -> Any:
    """Another estimator with the same settings, and where asked the same fit."""
    other = type(model)(**model.get_params(deep=False))
    if fitted:
        other.fitted_ = model.fitted_
    return other


def stored(model: Any) -> Any:
    """A model written and read."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.tallies"))
        return tallies.load(Path(folder, "model.tallies"))


# what must hold


def refused(error: BaseException) -> bool:
    """Whether an error is one of ours, or of scikit-learn's validation: raised on purpose, in words."""
    if isinstance(error, TalliesError):
        return len(str(error)) > 20
    if not isinstance(error, ValueError | TypeError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    if any(frame.filename.startswith(os.path.join(CHECKS, "utils")) for frame in frames):
        return True
    ours = last.filename.startswith(HOME)
    return ours and linecache.getline(last.filename, last.lineno or 0).lstrip().startswith("raise") and len(str(error)) > 20


def numbers(value: Any) -> Iterator[np.ndarray]:
    """All numbers of an answer, as arrays of floats."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, pd.DataFrame):
        value = [value[column] for column in value] if value.columns.is_unique else [value.to_numpy()]
    if sp.issparse(value):
        value = value.data
    if isinstance(value, list | tuple):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, float | np.ndarray | np.number | pd.Series):
        array = np.asarray(value)
        if array.dtype.kind in "fc":
            yield array


def wrong_numbers(name: str, value: Any) -> str:
    """What numbers of an answer are none; a log probability may be -inf: of what a model holds for impossible."""
    for array in numbers(value):
        if np.isnan(array).any():
            return "NaN"
        bad = np.isinf(array) if "log" not in name else np.isposinf(array)
        if bad.any():
            return "infinity"
    return ""


def same(one: Any, two: Any) -> bool:
    """Whether two answers have the same bits."""
    ours, theirs = list(numbers(one)), list(numbers(two))
    return len(ours) == len(theirs) and all(map(partial(np.array_equal, equal_nan=True), ours, theirs))


def told_of(warned: list[Any]) -> bool:
    """Whether a warning of ours is among them."""
    return any(issubclass(w.category, DataWarning | ConvergenceWarning) for w in warned)


@contextlib.contextmanager
def watched() -> Iterator[list[Any]]:
    """Warnings of users are kept, all others are errors."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("error")
        warnings.simplefilter("always", UserWarning)
        yield found


def where(error: BaseException) -> str:
    """An error with the last line of ours that it came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(HOME)]
    place = f"{frames[-1].filename.removeprefix(HOME)}:{frames[-1].lineno}" if frames else "outside"
    return f"{type(error).__name__} at {place}: {str(error)[:150]}"


def answer(what: str, call: Callable[[], Any], found: list[str]) -> tuple[Any, list[Any]]:
    """What a call gives, and its warnings; what is wrong with it is added to what was found."""
    with watched() as warned:
        try:
            return call(), warned
        except Exception as error:
            if not refused(error):
                found.append(f"{what}: {where(error)}")
    return None, warned


def faults(case: Case) -> list[str]:
    """All that is wrong with a case, in words; nothing where all is well."""
    for _ in range(2):  # what is slow may have been compiling, once
        found: list[str] = []
        start = time.monotonic()
        ask_all(case, found)
        if time.monotonic() - start <= SECONDS:
            return found
    return [*found, f"longer than {SECONDS} s"]


def ask_all(case: Case, found: list[str]) -> None:
    """Fit, and ask everything."""

    def made(data: dict[str, Any]) -> dict[str, Any] | None:
        made_all = lambda: {name: value() if isinstance(value, partial) else value for name, value in data.items()}  # noqa: E731
        return answer("data", made_all, found)[0]

    fit, new = made(case.fit), made(case.new)
    if fit is None:
        return
    if new is None:
        new = {"sentences": ["cell"], "authors": None} if case.model == "AuthorConcept" else {name: fit[name] for name in case.new}
    case = case._replace(fit=fit, new=new)
    model, warned = answer("fit", lambda: getattr(tallies, case.model)(**case.options).fit(**fit), found)
    if model is None:
        return
    asks = ASKS.get(case.model, ask_classifier)(model, case)
    told = told_of(warned)
    for name, ask in asks.items():
        value, more = answer(name, ask, found)
        wrong = wrong_numbers(name, value)
        if wrong and not told and not told_of(more):
            found.append(f"{name}: {wrong} without a word")
    if case.model == "PLN":
        for name, ask in ask_undetermined(model, case).items():
            answer(name, ask, found)
    text, _ = answer("summary", model.summary, found)
    if text is not None and not told and "nan" in text.replace(",", " ").split():
        found.append("summary: NaN in its text")
    twin, _ = answer("save and load", lambda: stored(model), found)
    if twin is not None:
        name = SAME.get(case.model, "predict_proba")
        first, *rest = new.items()
        one, two = (answer("loaded", partial(getattr(m, name), first[1], **dict(rest)), found)[0] for m in (model, twin))
        if not same(one, two):
            found.append("a loaded model answers otherwise")


def profile(cases: int) -> settings:
    """How hypothesis draws: the same cases every time, as many as asked, and none again to make it smaller."""
    checks = list(HealthCheck)
    return settings(
        max_examples=cases, phases=[Phase.generate], deadline=None, derandomize=True, database=None, suppress_health_check=checks
    )


class Found:
    """What came of the cases of an estimator."""

    def __init__(self, show: bool):
        self.n, self.slowest, self.show = 0, 0.0, show
        self.counted: Counter[str] = Counter()
        self.first: dict[str, tuple[str, Case]] = {}

    def run(self, case: Case) -> None:
        """One case more."""
        if self.show:
            print(self.n, case, file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(20 * SECONDS, exit=True)  # where it hangs
        self.n, start = self.n + 1, time.monotonic()
        for fault in faults(case):
            kind = re.search(r"\w+ at [\w./]+:\d+", fault)
            name = kind[0] if kind else fault
            self.counted[name] += 1
            self.first.setdefault(name, (fault, case))
        faulthandler.cancel_dump_traceback_later()
        self.slowest = max(self.slowest, time.monotonic() - start)

    def run_all(self, strategy: st.SearchStrategy[Case], cases: int, number: int) -> None:
        """As many cases, from this seed on."""

        @seed(number)
        @profile(cases)
        @given(strategy)
        def run(case: Case) -> None:
            self.run(case)

        run()


def campaign(cases: int, number: int, models: list[str], show: bool) -> int:
    """Many cases of some estimators; prints every kind of fault once, with the first case of it, and gives how many kinds."""
    kinds = 0
    for name in models:
        start, found = time.monotonic(), Found(show)
        found.run_all(CASES[name], -(-cases // len(models)), number)
        took = f"{time.monotonic() - start:.0f} s, slowest {found.slowest:.1f} s"
        print(f"{name}: {found.n} cases, {len(found.counted)} kinds of faults, {took}", flush=True)
        for kind, times in found.counted.most_common():
            told, case = found.first[kind]
            print(f"  {times} x {kind}\n{told}\n{case}".replace("\n", "\n      "), flush=True)
        kinds += len(found.counted)
    return kinds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000, help="of all estimators together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--show", action="store_true", help="print every case before it is run")
    given_options = parser.parse_args()
    faulthandler.enable()
    sys.exit(campaign(given_options.cases, given_options.seed, given_options.models, given_options.show) > 0)
