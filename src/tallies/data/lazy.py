"""Tables beyond memory: a folder of files, a large file, a lazy frame. Only pieces of them are ever read.

Parquet files stay where they are; a piece is some of the rows of one, whole row groups at a time. Anything else (csv, tsv, json
lines, plain or .gz; a lazy frame of polars, a dataset of pyarrow, a collection of Dask) is written once as Parquet to a scratch
folder. What a fit must know of all rows, such as the states of a column, DuckDB finds in passes of its own, which spill to disk
where they must.
"""

from __future__ import annotations

import os
import threading
import uuid
import zlib
from collections.abc import Collection, Mapping, Sequence
from functools import partial, reduce
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallies.data import dialect, prepared
from tallies.data.files import reading
from tallies.data.kinds import DATE, FEW, NAMES_OF_IDS, USABLE, WHY, Columns, Kind
from tallies.data.lines import tables_of
from tallies.data.parquet import (
    SUFFIXES,
    collection,
    column,
    connect,
    database,
    dataset,
    files_of,
    is_nested,
    listed,
    memory_for,
    rows_of,
    types_of,
)
from tallies.data.table import check_weights
from tallies.data.written import GAPS
from tallies.errors import DataError, nearest
from tallies.mapped import SCRATCH, Home, Scratch

if TYPE_CHECKING:
    import pandas as pd

LARGE = 1 << 30  # bytes of a file that is not read whole
PIECE = 16 << 20  # bytes of the numbers and texts of a piece, as they are in memory
SPLIT = 4  # a row group is cut where it is so many pieces: to read a part of it costs nearly as much as the whole
OWN = 0.9  # share of rows that differ, by DuckDB's estimate (good to 5%), from which on each is said to have its own value
MOST = 1 << 20  # states of a column
CODED = 10_000  # states that are spelled out in SQL
LAZY = {("polars", "LazyFrame"), ("pyarrow", "FileSystemDataset"), ("pyarrow", "InMemoryDataset")}
LAZY |= {("dask", "DataFrame"), ("dask", "Array"), ("dask", "Bag")}
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT")
DATES = ("DATE", "TIME", "TIMESTAMP", "INTERVAL")


class Piece(NamedTuple):
    """Some rows of a Parquet file."""

    home: Home  # folder of the file
    file: str
    first: int
    stop: int
    stamp: tuple[int, int]  # bytes of the file, and when it was written, or what is in it: a fit is resumed on the same data alone
    row: str = "*"  # columns in SQL, as `parquet.rows_of` tells of them

    @property
    def path(self) -> str:
        return os.path.join(self.home.path, self.file)

    def columns(self, cells: str) -> dict[str, np.ndarray]:
        """Columns, as `Lazy.cells` tells of them: numbers, booleans or objects, with NaN or None where a cell is empty."""
        rows = f"file_row_number >= {self.first} AND file_row_number < {self.stop}"
        source = f"(SELECT {self.row} FROM read_parquet({dialect.quoted(self.path)}, file_row_number = true))"
        with reading(self.path, "Parquet"):
            found = _reader(memory_for(cells.count(" AS "))).execute(f"SELECT {cells} FROM {source} WHERE {rows}").fetchnumpy()
            return {name: _plain(values) for name, values in found.items()}

    def frame(self, cells: str) -> pd.DataFrame:
        """The same as a data frame."""
        import pandas as pd

        return pd.DataFrame(self.columns(cells))


# by process and thread: where it spills, and the database; those of a parent are never let go, for to end one takes its threads
_readers: dict[tuple[int, int], tuple[str, Any]] = {}


def _reader(memory: int) -> Any:
    """The database by which a thread reads its pieces, which are many: to open one takes as long as to read a piece."""
    key, place = (os.getpid(), threading.get_ident()), SCRATCH.get() or gettempdir()
    if key not in _readers or _readers[key][0] != place:
        base = connect(os.path.join(place, f"tallies-duckdb-{uuid.uuid4().hex}"))
        base.execute("SET threads = 1")
        _readers[key] = place, base
    return _readers[key][1].execute(f"SET memory_limit = '{memory}B'")


def _plain(values: Any) -> np.ndarray:
    """A column without a mask."""
    if isinstance(values, np.ma.MaskedArray):
        plain = values.data.astype(np.float64 if values.dtype.kind in "fiu" else object)
        plain[np.ma.getmaskarray(values)] = np.nan if values.dtype.kind in "fiu" else None
        return plain
    return values


class Fact(NamedTuple):
    """What is known of a column."""

    type: str  # as DuckDB has it
    kind: Kind
    known: int  # cells with a value
    levels: int  # different ones, about
    low: Any
    high: Any
    gaps: int
    cell: str  # the column in SQL

    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return isinstance(self.low, int | float) and not isinstance(self.low, bool)


class Lazy(NamedTuple):
    """A table in files."""

    name: str
    pieces: list[Piece]
    facts: dict[str, Fact]  # of each column
    rows: int
    home: Any = None  # folder of files that were made of others, while someone has this
    drop: Collection[str] = ()  # columns that are left out,
    keep: Collection[str] = ()  # or used, whatever they are

    def need(self, name: Any, role: str) -> Fact:
        """What is known of a column that a role names."""
        if not isinstance(name, str):
            told = f"with a table that is not in memory, {role} must be the name of one of its columns"
            raise DataError(f"{told}, got {type(name).__name__}; it has {', '.join(list(self.facts)[:20])}")
        if name not in self.facts:
            raise DataError(f"the {role} should be in the column {name!r}, which {self.name!r} lacks; {nearest(name, self.facts)}")
        return self.facts[name]

    def roles(self, y: Any, sample_weight: Any = None) -> dict[str, str]:
        """The columns that are no features."""
        self.need(y, "target")
        return {y: "target"} | ({} if sample_weight is None else self.weight(sample_weight))

    def weight(self, sample_weight: Any) -> dict[str, str]:
        """The column of the weights."""
        weight = self.need(sample_weight, "weights")
        if weight.gaps or not weight.is_number():
            raise DataError(f"the weights in the column {sample_weight!r} must be numbers without gaps; fill or drop the others")
        check_weights(np.array([weight.low, weight.high], dtype=float), 2)
        return {sample_weight: "weights"}

    def columns(self, roles: Mapping[str, str], model: Any = None) -> Columns:
        """What each column is, and what becomes of it in a fit of `model`; as `kinds.describe` tells of a table in memory."""
        found, words = [], model is None or "categorical" in model.takes
        for name, fact in self.facts.items():
            wanted = fact.kind in USABLE or name in self.keep
            use = "left out: as told" if name in self.drop else "used" if wanted else f"left out: {WHY[fact.kind]}"
            if (
                use == "used"
                and fact.kind == "category"
                and name not in self.keep
                and not (words or (fact.type == "BOOLEAN" and not fact.gaps))
            ):
                use = f"left out: {type(model).__name__} takes numbers; NaiveBayes takes categories, too"
            found.append((name, fact.kind, fact.gaps, min(fact.levels, fact.known), roles.get(name, use)))
        columns = Columns(*map(list, zip(*found, strict=True)))
        if not columns.of():
            told = "; ".join(f"{name} {use}" for name, use in zip(columns.names, columns.uses, strict=True))
            raise DataError(f"no column of {self.name!r} is left to fit: {told}")
        return columns

    def cells(self, names: Sequence[str], codes: Mapping[str, tuple[Sequence[Any], int]] | None = None) -> str:
        """Columns in SQL: words for gaps in a text are none. `codes` are states of those columns that come as whole numbers (see
        `codable`), which are places among the states, and another number for a gap."""
        found = []
        for name in names:
            cell = self.facts[name].cell
            if codes is not None and name in codes:
                states, gap = codes[name]
                text = f"TRY_CAST(CAST({column(name)} AS VARCHAR) AS ENUM({listed(states)[1:-1]}))"  # words for gaps are no states
                cell = f"CAST(coalesce(enum_code({text}), {gap}) AS INTEGER)"
            found.append(f"{cell} AS {column(name)}")
        return ", ".join(found)

    def codable(self, name: str, states: Any) -> bool:
        """Whether DuckDB can code the states of a column: texts, and not too many."""
        return self.facts[name].type == "VARCHAR" and states is not None and 0 < len(states) <= CODED

    def distinct(self, name: str) -> np.ndarray:
        """The different values of a column, sorted; gaps left out."""
        if self.facts[name].levels > 2 * MOST:
            raise DataError(f"the column {name!r} has about {self.facts[name].levels:,} states, more than {MOST:,}; leave it out")
        with database() as base:
            files = sorted({piece.path for piece in self.pieces})
            sql = f"SELECT {self.facts[name].cell} AS v FROM read_parquet({listed(files)}, union_by_name = true)"
            return base.execute(f"SELECT DISTINCT v FROM ({sql}) WHERE v IS NOT NULL ORDER BY v").fetchnumpy()["v"]

    def like(self, name: str) -> np.ndarray:
        """A few values with the type that the whole column has in memory."""
        fact = self.facts[name]
        if fact.low is None:
            return np.array([np.nan])
        kind = float if fact.gaps and fact.type in INTEGERS else None
        if fact.type == "BOOLEAN":
            return np.array([fact.low, fact.high], dtype=object if fact.gaps else bool)
        return np.array([fact.low, fact.high], dtype=object if isinstance(fact.low, str) else kind)


def is_lazy(X: Any) -> bool:
    """Whether X is a table that is not to be read whole: a folder, a large file, a lazy frame, a dataset, a collection of Dask.

    >>> is_lazy("iris.csv"), is_lazy([[1.0]])
    (False, False)
    """
    if isinstance(X, Lazy):
        return True
    if isinstance(X, str | os.PathLike):
        table = Path(X).suffix.lower() not in (".h5ad", ".zarr", ".mtx")
        return table and (os.path.isdir(X) or (os.path.isfile(X) and os.path.getsize(X) > LARGE))
    return _module(X) in LAZY


def _module(X: Any) -> tuple[str, str]:
    return type(X).__module__.partition(".")[0], type(X).__name__


def open_table(X: Any) -> Lazy:
    """The table, with what is known of its columns; see `is_lazy`."""
    if isinstance(X, Lazy):
        return X
    return open_files(*files_in(X))


def open_files(name: str, paths: list[str], home: Any) -> Lazy:
    """The table of some Parquet files; `home` is the folder of those that were made of others."""
    with reading(name, "a table"):
        return _surveyed(name, paths, home)


def files_in(X: Any) -> tuple[str, list[str], Any]:
    """The name of a table, its Parquet files, and the folder of those that were made of others; see `is_lazy`."""
    if isinstance(X, Lazy):
        return X.name, list(dict.fromkeys(piece.path for piece in X.pieces)), X.home
    name, paths = type(X).__name__, []
    if isinstance(X, str | os.PathLike):
        if prepared.kind_of(Path(X)) == "texts":
            raise DataError(f"{str(X)!r} has the words of texts, counted, which LDA takes; expected a table")
        prepared.check(Path(X))
        name, paths = str(X), files_of(Path(X))
    if paths and all(path.lower().endswith(SUFFIXES) for path in paths):
        return name, paths, None
    home = Scratch(SCRATCH.get())
    with reading(name, "a table"):
        return name, _written(X, paths, Path(home.folder.name)), home


def _written(X: Any, paths: list[str], folder: Path) -> list[str]:
    """A lazy frame, a dataset, or files of another format, as Parquet: where it is, or written to a folder that does not last."""
    library = _module(X)[0]
    if library == "polars":
        X.sink_parquet(folder / "table.parquet")
        return [str(folder / "table.parquet")]
    if library == "pyarrow":
        return dataset(X, folder)
    if library == "dask":
        return collection(X, folder)
    found = [str(folder / f"{k:06d}.parquet") for k in range(len(paths))]
    with tables_of(paths) as tables:
        for k, file in enumerate(found):
            tables.write(k, file)
    return found


def _cell(name: str, type: str, dash: bool = True) -> str:
    """The values of a column in SQL: words for gaps in a text are none, a number of many digits is a float."""
    cell = column(name)
    if type == "VARCHAR" or type.startswith("ENUM"):
        cell = f"CAST({cell} AS VARCHAR)"  # in some of the files it may be something else
        return f"CASE WHEN {cell} IN ({listed(sorted(GAPS if dash else GAPS - {'-'}))[1:-1]}) THEN NULL ELSE {cell} END"
    return f"CAST({cell} AS DOUBLE)" if type.startswith("DECIMAL") or type == "HUGEINT" else cell


def _surveyed(name: str, paths: list[str], home: Any) -> Lazy:
    """What is known of all columns, and where to cut."""
    with database() as base:
        source = f"read_parquet({listed(paths)}, union_by_name = true)"
        types = {c: t for c, t in types_of(base, source).items() if not c.startswith("__index_level_")}  # which pandas adds
        if not types:
            raise DataError(f"{name!r} has no columns")
        base.execute(f"SET memory_limit = '{memory_for(len(types))}B'")
        texts = [c for c, type in types.items() if type == "VARCHAR"]
        signs = [(c, f"bool_or({column(c)} = '+')") for c in texts]
        plus = _sums(base, source, {c: column(c) for c in texts}, signs) if texts else []
        dashed = {c for c, found in zip(texts, plus, strict=True) if found}  # "-" is no gap beside "+"
        cells = {c: _cell(c, type, c not in dashed) for c, type in types.items()}
        sums = _sums(base, source, cells, [(c, _asked(column(c), type)) for c, type in types.items()])
        rows = base.execute(f"SELECT count(*) FROM {source}").fetchone()[0]
        facts = {c: _fact(c, type, rows, sums[6 * i : 6 * i + 6], cells[c]) for i, (c, type) in enumerate(types.items())}
        groups = "SELECT file_name, row_group_id, min(row_group_num_rows) FROM parquet_metadata"
        about = base.execute(f"{groups}({listed(paths)}) GROUP BY ALL ORDER BY file_name, row_group_id").fetchall()
        alike = rows_of(base, paths, types)
    if not rows:
        stories = any(Path(name).glob("*.txt"))
        hint = "files of texts are for lda and author-concept" if stories else "there is nothing to work on"
        raise DataError(f"{name!r} has columns but no rows; {hint}")
    width = sum(8 if fact.type != "VARCHAR" else 64 for fact in facts.values())
    return Lazy(name, cut_rows(about, max(1, PIECE // width), home, alike), facts, rows, home)


def _sums(base: Any, source: str, cells: Mapping[str, str], asked: Sequence[tuple[str, str]]) -> list[Any]:
    """Sums over columns, given by name and in SQL: of fewer at a time where those of all do not fit into DuckDB's memory. It holds
    the texts of a row group for each column, and reads columns whose `cells` stand in a query, asked for or not."""
    import duckdb

    told = ", ".join(f"{cells[c]} AS {column(c)}" for c, _ in asked)
    try:
        found = base.execute(f"SELECT {', '.join(sums for _, sums in asked)} FROM (SELECT {told} FROM {source})").fetchone()
        return list(found)
    except duckdb.OutOfMemoryException:
        if len(asked) == 1:
            raise
    half = len(asked) // 2
    return _sums(base, source, cells, asked[:half]) + _sums(base, source, cells, asked[half:])


def _asked(cell: str, type: str) -> str:
    """Six sums of a column: values, different ones, smallest and largest, words of each, and whether all are dates."""
    words = f"avg(1 + strlen({cell}) - strlen(replace({cell}, ' ', '')))" if type == "VARCHAR" else "0"
    dates = f"bool_and(regexp_full_match({cell}, {dialect.quoted(DATE.pattern)}))" if type == "VARCHAR" else "false"
    ends = ("NULL", "NULL") if is_nested(type) else (f"min({cell})", f"max({cell})")
    many = "0" if is_nested(type) else f"approx_count_distinct({cell})"
    return f"count({cell}), {many}, {', '.join(ends)}, {words}, {dates}"


def _fact(name: str, type: str, rows: int, told: Sequence[Any], cell: str) -> Fact:
    """The kind of a column by the rules of `kinds.kind_of_column`, on counts that are estimates."""
    known, levels, low, high, words, dates = told
    own = levels > OWN * known and known > FEW
    kind: Kind = "category"
    if not known:
        kind = "empty"
    elif low is not None and low == high and known == rows > 1:
        kind = "constant"
    elif type.startswith(DATES) or dates:
        kind = "date"
    elif is_nested(type):
        kind = "text"
    elif type in INTEGERS:
        counted = high - low == known - 1 and low in (0, 1)
        kind = "id" if own and (counted or NAMES_OF_IDS.fullmatch(name)) else "number"
    elif type == "VARCHAR" and levels > max(FEW, known / 2) and words >= 4:
        kind = "text"
    elif type in ("VARCHAR", "UUID") and own:
        kind = "id"
    elif type not in ("VARCHAR", "BOOLEAN", "UUID") and not type.startswith("ENUM"):
        kind = "number"
    return Fact(type, kind, known, levels, low, high, rows - known, cell)


def cut_rows(
    groups: list[tuple[str, int, int]], size: int, home: Any = None, alike: Mapping[str, str] | None = None
) -> list[Piece]:
    """Pieces of about `size` rows: row groups together, or parts of one that is many times as large.

    Files in `home` were made of others, and would be made anew: they are known by what is in them. `alike`: see `parquet.rows_of`.
    """
    pieces: list[Piece] = []
    for path, of_file in groupby(groups, itemgetter(0)):
        about, ends, at = os.stat(path), [0], 0
        stamp = about.st_size, about.st_mtime_ns if home is None else _check_sum(path)
        for _, _, n in of_file:
            if at > ends[-1] and at + n - ends[-1] > size:  # this one begins another piece
                ends.append(at)
            parts = n // (SPLIT * size)
            ends += [at + n * k // (parts + 1) for k in range(1, parts + 1)]
            at += n
        ends.append(at)
        folder, file = os.path.split(path)
        row = "*" if alike is None else alike[path]
        pieces += [Piece(Home(folder, home), file, a, b, stamp, row) for a, b in pairwise(ends) if a < b]
    return pieces


def _check_sum(path: str) -> int:
    with open(path, "rb") as source:
        return reduce(lambda check, block: zlib.crc32(block, check), iter(partial(source.read, 1 << 20), b""), 0)
