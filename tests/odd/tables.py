"""Odd tables, labels and weights."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from hypothesis import strategies as st

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
    "texts": lambda columns, n, names: as_array(columns, n, str),
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
