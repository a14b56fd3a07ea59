"""Parquet by way of DuckDB, whose databases go to disk before they take much memory; and what other libraries write as such."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from tallies.data import dialect
from tallies.data.files import KINDS
from tallies.errors import DataError, DataWarning, need_file
from tallies.mapped import SCRATCH, scratch_folder

DATABASE = 256 << 20  # bytes
COLUMN = 192 << 10  # bytes that it sets aside for a column, most of which it never touches
SUFFIXES = (".parquet", ".pq")


def memory_for(columns: int) -> int:
    """Bytes that a database must be allowed for a table of so many columns."""
    return max(DATABASE, COLUMN * columns)


def connect(spill: str, memory: int = DATABASE) -> Any:
    """A database that goes to disk before it takes more than so many bytes: to a folder that no other one uses."""
    base = dialect.connect()
    base.execute(f"SET memory_limit = '{memory}B'")
    base.execute("SET disable_parquet_prefetching = true")  # which takes twice the memory, and no less time, of files that are here
    base.execute(f"SET temp_directory = {dialect.quoted(spill)}")
    return base


@contextmanager
def database(memory: int = DATABASE) -> Iterator[Any]:
    """Such a database inside the block."""
    with scratch_folder(SCRATCH.get()) as folder, closing(connect(folder, memory)) as base:
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


def is_nested(type: str) -> bool:
    """Whether a type of DuckDB's is no number and no text, but lists, records or bytes.

    >>> is_nested("VARCHAR[]"), is_nested("VARCHAR")
    (True, False)
    """
    return type.endswith("]") or type.startswith(("STRUCT", "MAP", "BLOB"))


def rows_of(base: Any, paths: Sequence[str], types: dict[str, str]) -> dict[str, str]:
    """For each file, its rows in SQL with the columns and types of the whole table: files may lack some, or have them of others."""
    about = "file_name, name, duckdb_type, coalesce(num_children, 0) AS children"
    found: dict[str, str] = {}
    lacking: dict[str, None] = {}
    for path, (_, *nodes) in groupby(
        base.execute(f"SELECT {about} FROM parquet_schema({listed(paths)})").fetchall(), itemgetter(0)
    ):
        here, below = {}, 0
        for _, name, type, children in nodes:  # a column, and what is nested in it
            if not below:
                if name.lower() in here or name == "file_row_number":
                    told = "is kept for the numbers of rows" if name == "file_row_number" else "is there twice, but for capitals"
                    raise DataError(f"{path!r}: the column name {name!r} {told}; rename or drop it")
                here[name.lower()] = type
            below += children - bool(below)
        inner = {part.split("=")[0].lower() for part in Path(path).parts if "=" in part}  # columns that are folders, as year=2020
        other = {name: type for name, type in types.items() if here.get(name.lower()) != type and name.lower() not in inner}
        cast = [f"CAST({column(name)} AS {type}) AS {column(name)}" for name, type in other.items() if name.lower() in here]
        gaps = {name: f"CAST(NULL AS {type}) AS {column(name)}" for name, type in other.items() if name.lower() not in here}
        found[path] = "*" + (f" REPLACE ({', '.join(cast)})" if cast else "") + "".join(f", {sql}" for sql in gaps.values())
        lacking |= dict.fromkeys(gaps)
    if lacking:
        told = f"columns {list(lacking)[:5]} are not in all of the {len(paths)} files of the table: gaps stand where they lack"
        warnings.warn(told, DataWarning, stacklevel=2)
    return found


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


def dataset(X: Any, folder: Path) -> list[str]:
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


def collection(X: Any, folder: Path) -> list[str]:
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
