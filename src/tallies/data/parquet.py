"""Tables of other formats as Parquet, by way of DuckDB; and its databases, which go to disk before they take much memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np

from tallies.data import dialect
from tallies.data.files import KINDS, TOLD, contents, reading
from tallies.data.written import GAPS
from tallies.errors import DataError, need_file
from tallies.mapped import SCRATCH, Scratch

DATABASE = 256 << 20  # bytes
SUFFIXES = (".parquet", ".pq")


def connect() -> Any:
    """A database that goes to disk before it takes more memory than `DATABASE`."""
    base = dialect.connect()
    base.execute(f"SET memory_limit = '{DATABASE}B'")
    base.execute("SET disable_parquet_prefetching = true")  # which takes twice the memory, and no less time, of files that are here
    base.execute(f"SET temp_directory = {dialect.quoted(os.path.join(SCRATCH.get() or gettempdir(), 'tallies-duckdb'))}")
    return base


@contextmanager
def database() -> Iterator[Any]:
    """Such a database inside the block."""
    with closing(connect()) as base:
        yield base


def listed(paths: Sequence[Any]) -> str:
    """Texts in SQL."""
    return "[" + ", ".join(dialect.quoted(str(path)) for path in paths) + "]"


def column(name: str) -> str:
    """The name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def types_of(base: Any, source: str) -> dict[str, str]:
    """The columns of a table, and their types as DuckDB names them."""
    return {row[0]: row[1] for row in base.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}


def files_of(path: Path) -> list[str]:
    """The tables in a folder and those below it, in order; all of one format."""
    if not path.is_dir():
        return [str(need_file(path, "a table, or a folder of them").absolute())]
    found: dict[str, list[str]] = {}
    for file in sorted(path.absolute().rglob("*")):
        hidden = any(part.startswith((".", "_")) for part in file.relative_to(path.absolute()).parts)
        kind = KINDS.get(Path(file.name.lower().removesuffix(".gz")).suffix)
        if kind is not None and file.is_file() and not hidden:
            found.setdefault(kind, []).append(str(file))
    if len(found) != 1:
        there = " and ".join(sorted(found)) or "none"
        told = f"expected tables of one format in the folder {str(path)!r} (Parquet, csv or json lines), but there are {there}"
        raise DataError(f"{told}; put the others elsewhere")
    return next(iter(found.values()))


def written(X: Any, paths: list[str], home: Scratch) -> list[str]:
    """A lazy frame, a dataset, or files of another format, as Parquet: where it is, or written to a folder that does not last."""
    folder, library = Path(home.folder.name), type(X).__module__.partition(".")[0]
    if library == "polars":
        X.sink_parquet(folder / "table.parquet")
        return [str(folder / "table.parquet")]
    if library == "pyarrow":
        return _dataset(X, folder)
    if library == "dask":
        return _collection(X, folder)
    types, found = common_types(paths), [str(folder / f"{k:06d}.parquet") for k in range(len(paths))]
    for path, file in zip(paths, found, strict=True):
        as_parquet(path, file, types)
    return found


def _dataset(X: Any, folder: Path) -> list[str]:
    """A dataset of pyarrow: its own files where they hold just its rows (it may be filtered), else written."""
    import pyarrow.dataset

    files = [os.path.abspath(path) for path in getattr(X, "files", [])]
    if files and all(path.endswith(SUFFIXES) and os.path.isfile(path) for path in files):
        with database() as base:
            rows = base.execute(f"SELECT sum(num_rows) FROM parquet_file_metadata({listed(files)})").fetchone()[0]
        if rows == X.count_rows():
            return files
    pyarrow.dataset.write_dataset(X, folder / "table", format="parquet")
    return files_of(folder / "table")


def _collection(X: Any, folder: Path) -> list[str]:
    """A data frame, array or bag of Dask, written by its workers, who must see the folder: data that are there do not come here."""
    import dask

    X = X.rechunk({1: -1}) if getattr(X, "ndim", 1) == 2 and hasattr(X, "rechunk") else X  # whole rows
    parts = list(np.ravel(X.to_delayed()))
    paths = [str(folder / f"{k:06d}.parquet") for k in range(len(parts))]
    rows = dask.compute(*(dask.delayed(_write_part)(part, path) for part, path in zip(parts, paths, strict=True)))
    blind = [path for path, n in zip(paths, rows, strict=True) if n and not os.path.isfile(path)]
    if blind:
        told = f"the workers of Dask have written {blind[0]!r}, but here it is not"
        raise DataError(f"{told}; name a folder that all machines see with tallies.backend(..., scratch=FOLDER)")
    return [path for path, n in zip(paths, rows, strict=True) if n]


def _write_part(part: Any, path: str) -> int:
    """A partition as Parquet: a frame, rows of an array, or items of a bag, which are records or texts. Its rows."""
    import pandas as pd

    if isinstance(part, np.ndarray):
        frame = pd.DataFrame(part if part.ndim > 1 else part[:, None]).rename(columns="x{}".format)
    elif isinstance(part, pd.DataFrame):
        frame = part.rename(columns=str)
    else:
        items = list(part)
        frame = pd.DataFrame(items if items and isinstance(items[0], dict) else {"text": items})
    if len(frame):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with closing(dialect.connect()) as base:
            base.register("part", frame)
            base.execute(f"COPY part TO {dialect.quoted(path)} (FORMAT parquet)")
    return len(frame)


def common_types(paths: Sequence[Any]) -> dict[str, str]:
    """The types of the columns of tables of text or json lines, all their rows considered; numbers in one and texts in another are
    texts."""
    with reading(paths[0] if len(paths) == 1 else Path(paths[0]).parent, "a table"), database() as base:
        return types_of(base, _source(paths))


def as_parquet(path: Any, file: Any, types: dict[str, str]) -> int:
    """Write a table of text or json lines as Parquet, with these types; its rows."""
    with reading(path, "a table"), database() as base:
        cells = [
            f"CAST({column(name)} AS {types[name]}) AS {column(name)}" if types[name] != type else column(name)
            for name, type in types_of(base, _source([path])).items()
        ]
        made = base.execute(
            f"COPY (SELECT {', '.join(cells)} FROM {_source([path])}) TO {dialect.quoted(str(file))} (FORMAT parquet)"
        )
        return int(made.fetchone()[0])


def _source(paths: Sequence[Any]) -> str:
    """Tables of text or json lines in SQL."""
    kind, about = contents(Path(paths[0])).kind, TOLD.get()
    if kind == "jsonl":
        return f"read_json({listed(paths)}, format = 'newline_delimited', sample_size = -1, union_by_name = true)"
    if kind != "text":
        raise DataError(f"{str(paths[0])!r} is a table of the kind {kind}, which is read whole; write it as Parquet or csv")
    told = {
        "delim": about.sep and dialect.quoted(dialect.SEPARATORS.get(about.sep, about.sep)),
        "decimal_separator": about.decimal and dialect.quoted(about.decimal),
        "encoding": about.encoding and dialect.quoted(about.encoding),
        "header": None if about.header is None else str(about.header).lower(),
    }
    more = "".join(f", {name} = {value}" for name, value in told.items() if value is not None)
    gaps = listed(sorted({"", *GAPS} - {"-"}))
    return f"read_csv({listed(paths)}, sample_size = -1, union_by_name = true, nullstr = {gaps}{more})"
