"""Tables of text and json lines beyond memory, as Parquet: a file for each file, and one type for each column of them all.

DuckDB's rules for dialects and types hold. Its sniffer always finds a table, though, if need be of one column, or without the first
lines; where that is not what is in the file, a sentence says so. Files in other encodings are copied as UTF-8 first.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from tallies.data.dialect import SEPARATORS, are_titles, copy_as_utf8, quoted
from tallies.data.files import TOLD, contents, reading
from tallies.data.parquet import column, database, listed, memory_for, types_of
from tallies.data.written import GAPS
from tallies.errors import DataError
from tallies.mapped import SCRATCH, scratch_folder


class Lines(NamedTuple):
    """A file, as it can be read."""

    given: Path
    path: str  # in UTF-8; "" where nothing is in it
    columns: dict[str, str]  # their types in this file
    named: bool = True  # whether its first row has the names
    quoted: bool = True  # whether quotes are marks, and no letters


class Tables(NamedTuple):
    """Files of one table."""

    kind: str  # "text" or "jsonl"
    files: list[Lines]
    types: dict[str, str]  # of all files
    words: list[str]  # columns of words that DuckDB takes for truths: yes and no, t and f
    decimal: str | None  # mark of numbers, where it is no point

    def write(self, k: int, file: Any) -> int:
        """Write a file as Parquet; its rows."""
        lines = self.files[k]
        with reading(lines.given, "a table"), database(memory_for(len(self.types))) as base:
            if not lines.path:
                cells = ", ".join(f"CAST(NULL AS {type}) AS {column(name)}" for name, type in self.types.items())
                base.execute(f"COPY (SELECT {cells} LIMIT 0) TO {quoted(str(file))} (FORMAT parquet)")
                return 0
            known = {name.lower(): type for name, type in self.types.items()}  # DuckDB tells names apart by more than capitals
            some = [(name, type) for name, type in lines.columns.items() if name.lower() in known]
            cells = ", ".join(_cell(name, type, known[name.lower()]) for name, type in some)
            words = [name for name in lines.columns if name in self.words]
            source = _source(self.kind, [lines.path], self.decimal, words)
            rows = base.execute(f"COPY (SELECT {cells} FROM {source}) TO {quoted(str(file))} (FORMAT parquet)").fetchone()[0]
            if not lines.quoted:
                _refuse_open_quotes(base, file)
            return int(rows)


@contextmanager
def tables_of(paths: Sequence[Any]) -> Iterator[Tables]:
    """What is known of tables of text or json lines, all their rows considered. Numbers in one and texts in another are texts."""
    home = Path(paths[0]) if len(paths) == 1 else Path(paths[0]).parent
    with scratch_folder(SCRATCH.get()) as folder:
        with reading(home, "a table"):
            found = _surveyed(home, [Path(path) for path in paths], Path(folder))
        yield found


def _surveyed(home: Path, paths: list[Path], folder: Path) -> Tables:
    kinds = {contents(path).kind: path for path in paths}
    for other in kinds.keys() - {"text", "jsonl"}:
        told = "rename it" if other == "parquet" else "that is read whole: write it as Parquet or csv"
        raise DataError(f"expected text or json lines, but {str(kinds[other])!r} holds a table of the kind {other}; {told}")
    if len(kinds) > 1:
        raise DataError(f"expected files of one format, but there are {' and '.join(map(repr, map(str, kinds.values())))}")
    kind, utf8 = next(iter(kinds)), []
    for k, path in enumerate(paths):
        with reading(path, "a table"):
            # beside folders of the same names, for they may be columns, as year=2020
            home_of_copy = folder.joinpath(f"{k:06d}", *(part for part in path.parts[:-1] if "=" in part))
            utf8.append(_in_utf8(path, home_of_copy / "table.txt"))
    filled = [path for path in utf8 if path]
    if not filled:
        raise DataError(f"{str(home)!r} is empty; expected columns with names, and rows")
    with database(memory_for(max(map(_width, filled)))) as base:
        decimal = TOLD.get().decimal or (_decimal(base, filled[0]) if kind == "text" else None)
        look = partial(_look_at_text, base, decimal) if kind == "text" else partial(_look_at_json, base)
        files = []
        for path, file in zip(paths, utf8, strict=True):
            with reading(path, "a table"), _long_lines():
                files.append(look(path, file) if file else Lines(path, "", {}))
        types = types_of(base, _source(kind, filled, decimal))
        types = {name: "VARCHAR" if type == "JSON" else type for name, type in types.items()}  # of several types
        words = _words(base, types, filled, decimal) if kind == "text" else []
    for lines in files:
        if lines.path and not lines.named and len(types) > len(lines.columns):
            told = "has no row of names above its columns, as others have; add it, or say that none has (--no-header)"
            raise DataError(f"{str(lines.given)!r} {told}")
    return Tables(kind, files, types | dict.fromkeys(words, "VARCHAR"), words, decimal)


def _width(file: str) -> int:
    """At most how many columns there are, by the first line."""
    with contents(Path(file)).opened() as source:
        first = source.readline()
    return 1 + max(map(first.count, (b",", b";", b"\t", b"|")))


@contextmanager
def _long_lines() -> Iterator[None]:
    """A sentence where a line is longer than DuckDB takes, which holds 16 such lines."""
    try:
        yield
    except Exception as error:
        if "maximum line size" in str(error).lower():
            raise DataError("it has a line of more than 2 MB; write such texts as json lines or Parquet") from error
        raise


def _in_utf8(path: Path, copy: Path) -> str:
    """The file itself, or a copy of it in UTF-8; "" where nothing is in it."""
    found, about = contents(path), TOLD.get()
    with found.opened() as source:
        if not source.read(1 << 16).strip():
            return ""
    if about.encoding is None and found.packed == (path.suffix.lower() == ".gz") and _is_utf8(found.opened):
        return str(path)
    copy.parent.mkdir(parents=True)
    copy_as_utf8(found.opened, about, copy)
    return str(copy)


def _is_utf8(opened: Callable[[], IO[bytes]]) -> bool:
    """Whether a file is a text in UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened() as source:
        try:
            for block in iter(partial(source.read, 1 << 20), b""):
                if b"\0" in block:
                    return False
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _look_at_json(base: Any, path: Path, file: str) -> Lines:
    return Lines(path, file, types_of(base, _source("jsonl", [file])))


def _look_at_text(base: Any, decimal: str | None, path: Path, file: str) -> Lines:
    """A text as DuckDB's sniffer finds it; a sentence where that is not what is in the file."""
    about = "Delimiter, Quote, SkipRows, HasHeader, Columns"
    found = base.execute(f"SELECT {about} FROM sniff_csv({quoted(file)}, {_options(decimal)})").fetchone()
    delim, quote, skip, header, columns = found
    quote = "" if quote == "(empty)" else quote
    with io.TextIOWrapper(contents(Path(file)).opened(), encoding="utf-8-sig", newline="") as source:
        *above, first = islice(source, skip + 1)
    cells = partial(csv.reader, delimiter=delim[:1] or ",", quotechar=quote or None)
    filled = [len([cell for cell in row if cell.strip()]) for row in cells(line for line in above if not line.startswith("#"))]
    parted = [
        sep for sep in ",;\t|" if len(columns) == 1 and not TOLD.get().sep and len(next(csv.reader([first], delimiter=sep))) > 1
    ]
    if parted or not are_titles(filled, len(columns)):
        _refuse_ragged(file, parted[0] if parted else delim[:1])
    names = [name.strip().lower() for name in next(cells([first]))] if header else []
    twice = [name for name, n in Counter(names).items() if name and n > 1]
    if twice:
        raise DataError(
            f"column names must differ, not by capitals alone, but {twice[:5]} occur more than once; rename or drop them"
        )
    types = {c["name"]: c["type"] for c in columns}
    types |= {part.split("=")[0]: "" for part in path.parts[:-1] if "=" in part}  # which the sniffer leaves out
    return Lines(path, file, types, header or TOLD.get().header is False, quote != "")


def _refuse_ragged(file: str, sep: str) -> None:
    """Tell of the first line that has not as many cells as the first."""
    with io.TextIOWrapper(contents(Path(file)).opened(), encoding="utf-8-sig", newline="") as source:
        rows = csv.reader(source, delimiter=sep)
        width = len(next(rows))
        for row in rows:
            if row and len(row) != width:
                told = f"line {rows.line_num} has {len(row)} cells, but the first {width}"
                raise DataError(f"{told}; is it complete? If so, put quotes around texts with {sep!r} in them")
    raise DataError("its columns cannot be told apart; say what parts them with sep= (--sep)")


def _decimal(base: Any, file: str) -> str | None:
    """The mark with which more columns of a text are numbers, where commas do not part its cells; None: a point."""

    def numbers(mark: str | None) -> tuple[str, int]:
        told = _options(mark, sample=20_480)
        delim, columns = base.execute(f"SELECT Delimiter, Columns FROM sniff_csv({quoted(file)}, {told})").fetchone()
        return delim, sum(c["type"] == "DOUBLE" for c in columns)

    delim, points = numbers(None)
    return "," if delim != "," and numbers(",") > (delim, points) else None


def _words(base: Any, types: dict[str, str], files: list[str], decimal: str | None) -> list[str]:
    """The columns that DuckDB takes for truths, but which hold other words than true and false."""
    some = [name for name, type in types.items() if type == "BOOLEAN"]
    asked = ", ".join(f"bool_and(lower({column(name)}) IN ('true', 'false'))" for name in some)
    found = base.execute(f"SELECT {asked} FROM {_source('text', files, decimal, some)}").fetchone() if some else ()
    return [name for name, truths in zip(some, found, strict=True) if not truths]


def _cell(name: str, type: str, wanted: str) -> str:
    """A column in SQL, of the type that it has in all files."""
    if type == "JSON":
        return f"{column(name)} ->> '$' AS {column(name)}"
    return column(name) if type == wanted else f"CAST({column(name)} AS {wanted}) AS {column(name)}"


def _refuse_open_quotes(base: Any, file: Any) -> None:
    """Refuse a text where quotes open a cell, but do not close, so that the sniffer took them for letters: it was cut short."""
    source = f"read_parquet({quoted(str(file))}, file_row_number = true)"
    texts = [name for name, type in types_of(base, source).items() if type == "VARCHAR"]
    opened = " OR ".join(f"starts_with({column(name)}, '\"')" for name in texts)
    row = base.execute(f"SELECT min(file_row_number) FROM {source} WHERE {opened}").fetchone()[0] if texts else None
    if row is not None:
        raise DataError(f"the quotes that open in row {row + 1} do not close; is it complete?")


def _source(kind: str, paths: Sequence[str], decimal: str | None = None, words: Sequence[str] = ()) -> str:
    """Tables of text or json lines in SQL; columns of `words` as texts."""
    if kind == "jsonl":
        return f"read_json({listed(paths)}, format = 'newline_delimited', sample_size = -1, union_by_name = true)"
    types = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in words)
    return f"read_csv({listed(paths)}, union_by_name = true, {_options(decimal)}{f', types = {{{types}}}' * bool(words)})"


def _options(decimal: str | None, sample: int = -1) -> str:
    """What DuckDB is told of a text."""
    about = TOLD.get()
    told = {
        "delim": about.sep and quoted(SEPARATORS.get(about.sep, about.sep)),
        "decimal_separator": decimal and quoted(decimal),
        "header": None if about.header is None else str(about.header).lower(),
        "nullstr": listed(sorted({"", *GAPS} - {"-"})),
        "sample_size": sample,
    }
    return ", ".join(f"{name} = {value}" for name, value in told.items() if value is not None)
