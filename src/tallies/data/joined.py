"""A table beyond memory and a second one with the same keys: labels, weights, covariates or authors that are kept elsewhere."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from tallies.data import dialect, prepared
from tallies.data.files import read_table, reading
from tallies.data.lazy import Lazy, files_in, is_lazy, open_files
from tallies.data.parquet import column, database, listed, memory_for, types_of
from tallies.disk import atomic
from tallies.errors import DataError, DataWarning, make_folder, nearest
from tallies.mapped import SCRATCH, Scratch
from tallies.phases import phase


def join_tables(X: Any, other: Any, on: str, *, out: str | os.PathLike | None = None) -> Lazy:
    """The rows of X, in their order, with the columns of another table that has the same keys in the column `on`.

    Both may be files, folders of files, data frames, lazy frames, datasets or collections of Dask. The result is read in pieces, by
    all that takes a folder: it is written once as Parquet, a file for each of X, to the folder `out`, or to one that lasts while it
    is used. A row whose key the other table lacks has gaps there.

    >>> import pandas as pd, tallies
    >>> sizes = pd.DataFrame({"leaf": ["a", "b", "c", "d"], "size": [0.0, 1.0, 5.0, 6.0]})
    >>> kinds = pd.DataFrame({"leaf": ["d", "c", "b", "a"], "kind": ["elm", "elm", "oak", "oak"]})
    >>> model = tallies.GDA().fit(tallies.join_tables(sizes, kinds, on="leaf"), y="kind")
    >>> model.predict(pd.DataFrame({"size": [0.4]})).tolist()
    ['oak']
    """
    with phase("joining two tables"):
        (name, ours, mine), (second, theirs, its) = _files(X), _files(other)
        home = Scratch(SCRATCH.get()) if out is None else None
        folder = Path(home.folder.name) if home is not None else _free(Path(str(out)), [*ours, *theirs])
        with reading(name, "a table"), database() as base:
            left, right = (f"read_parquet({listed(paths)}, union_by_name = true)" for paths in (ours, theirs))
            types = [types_of(base, source) for source in (left, right)]
            base.execute(f"SET memory_limit = '{memory_for(sum(map(len, types)))}B'")
            added = _check(base, on, (name, second), types, right)
            key = column(on)
            same = f"l.{key} = r.{key}" if types[0][on] == types[1][on] else f"l.{key}::VARCHAR = r.{key}::VARCHAR"
            rest, lost, made = ", ".join(f"r.{column(c)}" for c in added), 0, []
            for k, path in enumerate(ours):  # file by file, so that no more than one is sorted at a time
                made.append(str(folder / f"{k:06d}.parquet"))
                rows = f"(SELECT * FROM read_parquet({dialect.quoted(path)}, file_row_number = true))"
                told = f"SELECT l.* EXCLUDE (file_row_number), {rest} FROM {rows} l LEFT JOIN {right} r ON {same}"
                with atomic(Path(made[-1])) as part:
                    base.execute(f"COPY ({told} ORDER BY l.file_row_number) TO {dialect.quoted(str(part))} (FORMAT parquet)")
                lacks = f"SELECT count(*) FROM {rows} l ANTI JOIN {right} r ON {same}"
                lost += base.execute(lacks).fetchone()[0]
        del mine, its  # files that were made on the way
    found = open_files(f"{name} and {second}", made, home)
    if lost == found.rows:
        raise DataError(f"no row of {name!r} has a key of {second!r} in the column {on!r}; are they written in the same way?")
    if lost:
        told = (
            f"{lost:,} of {found.rows:,} rows of {name!r} have no row in {second!r} with the same {on!r}: gaps are in its columns"
        )
        warnings.warn(told, DataWarning, stacklevel=2)
    if home is None:
        prepared.write(folder, [prepared.entry(folder, Path(path).name) for path in made])
    return found


def _free(out: Path, paths: list[str]) -> Path:
    """The folder, made where it is not there, without what an earlier run has written; anything else there stays."""
    prepared.check_free(out)
    if any(Path(path).is_relative_to(out.absolute()) for path in paths):
        raise DataError(f"{str(out)!r} has one of the tables itself; choose another folder to write")
    make_folder(out)
    for known in prepared.manifest(out).get("files", []):
        (out / Path(known["file"]).name).unlink(missing_ok=True)
    prepared.write(out, [], whole=False)
    return out.absolute()


def _files(X: Any) -> tuple[str, list[str], Any]:
    """The name of a table, its Parquet files, and the folder of those that were made here."""
    if is_lazy(X):
        return files_in(X)
    name = str(X) if isinstance(X, str | Path) else f"a {type(X).__name__}"
    frame, home = read_table(X) if isinstance(X, str | Path) else X, Scratch(SCRATCH.get())
    path = os.path.join(home.folder.name, "table.parquet")
    with database() as base:
        base.register("given", frame)
        base.execute(f"COPY given TO {dialect.quoted(path)} (FORMAT parquet)")
    return name, [path], home


def _check(base: Any, on: str, names: tuple[str, str], types: list[dict[str, str]], right: str) -> list[str]:
    """The columns that the second table adds; a sentence where the tables cannot be joined."""
    for name, known in zip(names, types, strict=True):
        if on not in known:
            raise DataError(f"the key should be in the column {on!r}, which {name!r} lacks; {nearest(on, known)}")
    added = [c for c in types[1] if c != on]
    both = [c for c in added if c in types[0]]
    if both or not added:
        told = f"columns {both[:5]} are in both tables" if both else f"{names[1]!r} has no column besides the key"
        raise DataError(f"{told}; rename or drop them in one" if both else told)
    key = column(on)
    twice = base.execute(f"SELECT {key} FROM {right} WHERE {key} IS NOT NULL GROUP BY 1 HAVING count(*) > 1 LIMIT 1").fetchone()
    if twice:
        raise DataError(f"the key {twice[0]!r} is in more than one row of {names[1]!r}; keep one of them")
    return added
