"""Tables in files, of any usual format, as pandas data frames; and what all readers of files share."""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import re
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tallies.data import dialect
from tallies.data.dialect import Told
from tallies.data.written import GAPS, MARKS, read_text
from tallies.errors import DataError, MissingExtra, TalliesError, need, need_file

if TYPE_CHECKING:
    import pandas as pd

TEXT = (".csv", ".tsv", ".tab", ".txt", ".data", ".dat")
KINDS = dict.fromkeys(TEXT, "text") | {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
KINDS |= {".feather": "feather", ".xlsx": "xlsx"}
MAGIC = {b"PAR1": "parquet", b"ARROW1": "feather", b"PK\3\4": "xlsx"}  # how files of these kinds begin
SPACED = (".txt", ".data", ".dat")  # tables whose columns may be parted by spaces
CELLS = 1 << 31  # more than these a table in memory is not meant to have: 16 GB of numbers


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """An error of ours from the block names the file."""
    try:
        yield
    except MissingExtra:
        raise
    except TalliesError as error:
        if Path(path).name in str(error):
            raise
        raise type(error)(f"{str(path)!r}: {error}") from error


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Whatever goes wrong in the block is an error of ours that names the file: parsers, decompressors and codecs each have
    exceptions of their own.

    >>> with reading("a.csv", "csv"):
    ...     [].pop()
    Traceback (most recent call last):
    ...
    tallies.errors.DataError: 'a.csv' cannot be read as csv: pop from empty list; is it complete, and of the format its name says?
    """
    with naming(path):
        try:
            yield
        except TalliesError:
            raise
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise DataError(f"expected UTF-8, but line {line} of {str(path)!r} is not; convert it, as with iconv") from error
        except Exception as error:
            if type(error).__name__ == "InterruptException" or str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
                raise KeyboardInterrupt from error
            told = " ".join(str(error).split("\nLINE ")[0].split())[:300] or type(error).__name__  # without the SQL of DuckDB
            more = "is it complete, and of the format its name says?"
            if isinstance(error, MemoryError):
                more = f"it asks for more memory than there is: {more} If so, cut it into parts"
            raise DataError(f"{str(path)!r} cannot be read as {what}: {told}; {more}") from error


def open_bytes(path: str | Path) -> Any:
    """A file, looked through .gz."""
    return gzip.open(path, "rb") if Path(path).suffix.lower() == ".gz" else open(path, "rb")


def refuse_nul(path: str | Path) -> None:
    """Refuse a text file with a NUL byte: readers of text end there without a word, or die."""
    line = 1
    with open_bytes(path) as file:
        while block := file.read(1 << 20):
            at = block.find(b"\0")
            line += block.count(b"\n", 0, at if at >= 0 else len(block))
            if at >= 0:
                raise DataError(
                    f"line {line} of {str(path)!r} holds a NUL byte, so it is no text, or damaged, or UTF-16; fetch it again, "
                    "or convert it, as with iconv -t utf-8"
                )


def kind_of(path: str | Path) -> str:
    """The format of a table file by its suffix; .gz and .zip are looked through.

    >>> kind_of("counts.tsv.gz"), kind_of("sheet.XLSX")
    ('text', 'xlsx')
    """
    name = Path(path).name.lower().removesuffix(".gz").removesuffix(".zip")
    kind = KINDS.get(Path(name).suffix)
    if kind is None:
        raise DataError(
            f"expected a table as one of {', '.join(KINDS)} (also .gz, .zip), got {str(path)!r}; convert it, or rename it"
        )
    return kind


class Contents(NamedTuple):
    """What is in a file, looked through gz and zip."""

    kind: str  # of `KINDS`
    opened: Callable[[], IO[bytes]]
    packed: bool
    suffix: str


def contents(path: Path) -> Contents:
    """What a table file holds: what its first bytes say, else what its name says."""
    name, packed = path.name.lower().removesuffix(".gz").removesuffix(".zip"), True
    opened: Callable[[], Any] = partial(open, path, "rb")
    with opened() as file:
        first = file.read(8)
    if first.startswith(b"\x1f\x8b") or path.suffix.lower() == ".gz":
        opened = partial(gzip.open, path, "rb")
    elif first.startswith(b"PK\3\4"):
        members = zipfile.ZipFile(path).namelist()
        if "xl/workbook.xml" in members:
            return Contents("xlsx", opened, False, ".xlsx")
        tables = [m for m in members if Path(m).suffix.lower() in KINDS and not Path(m).name.startswith(".")]
        if len(tables) != 1:
            raise DataError(
                f"expected one table in the archive {str(path)!r}, but there are {tables or 'none'}; unpack the one you want"
            )
        name, opened = tables[0].lower(), partial(zipfile.Path(path, tables[0]).open, "rb")
    else:
        packed = False
    with opened() as file:
        first = file.read(8)
    magic = next((kind for mark, kind in MAGIC.items() if first.startswith(mark)), None)
    return Contents(magic or kind_of(name), opened, packed, Path(name).suffix)


FOUND_OUT = Told()
TOLD: ContextVar[Told] = ContextVar("told", default=FOUND_OUT)


@contextmanager
def told(**about: Any) -> Iterator[None]:
    """Inside the block files are read as it says: `sep`, `decimal`, `encoding`, `header`; what is None is found out.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "sizes.csv")
    >>> _ = open(path, "w").write("size\\n1,234\\n5,678\\n")
    >>> with told(sep=";", decimal=","):
    ...     read_table(path)["size"].tolist()
    [1.234, 5.678]
    """
    token = TOLD.set(Told(**about))
    try:
        yield
    finally:
        TOLD.reset(token)


def read_table(
    path: str | Path,
    *,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
) -> pd.DataFrame:
    """Read a table as a pandas data frame: text in any dialect (.csv, .tsv, .tab, .txt, .data, .dat), .xlsx (the first table),
    .parquet, .feather or json lines; plain, .gz or .zip.

    Separator, decimal mark, encoding and header are found out unless they are told. Words for gaps ("NA", "n/a", "k.A.", "-", "?")
    are NaN; titles above the table, a row of units and repeated headers are left out. What was forgiven is in
    `frame.attrs["read"]`, and logged. Dates stay texts, and so do numbers with zeros in front.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "trees.csv")
    >>> _ = open(path, "w", encoding="cp1252").write("Baum;Höhe\\nEiche;12,5\\nUlme;k.A.\\n")
    >>> frame = read_table(path)
    >>> frame.to_dict("list")
    {'Baum': ['Eiche', 'Ulme'], 'Höhe': [12.5, nan]}
    >>> frame.attrs["read"]
    "separator ';', decimal comma, cp1252"
    """
    from tallies.data.table import check_names

    given = Told(sep, decimal, encoding, header)
    about = TOLD.get()._replace(**{name: value for name, value in given._asdict().items() if value is not None})
    if about.decimal not in (None, ".", ","):
        raise DataError(f"decimal (--decimal) must be a point or a comma, got {about.decimal!r}")
    path = need_file(path, "a table")
    with reading(path, "a table"):
        found = contents(path)
        frame, notes = _READERS[found.kind](path, found, about)
        if not len(frame.columns):
            raise DataError(f"{str(path)!r} is empty; expected columns with names, and rows")
        check_names(frame)
    frame.attrs["read"] = ", ".join(notes)
    if notes:
        logging.getLogger("tallies").info("%s read with %s", path.name, frame.attrs["read"])
    return frame


def _read_text(path: Path, found: Contents, about: Told) -> tuple[pd.DataFrame, list[str]]:
    with dialect.as_utf8(found.opened, about) as (file, encoding):
        if not file.stat().st_size:
            raise DataError(f"{str(path)!r} is empty; expected a header row and data")
        frame, sep, notes = read_text(file, about, spaces=found.suffix in SPACED)
    usual = "\t" if found.suffix in (".tsv", ".tab") else ","
    name = {"\t": "tab", " ": "space"}.get(sep, repr(sep))
    parts = [] if sep == usual or len(frame.columns) < 2 else [f"separator {name}"]
    marks = [note for note in notes if note in MARKS]
    encodings = [] if encoding == "utf-8" else [encoding]
    return frame, [*parts, *marks, *encodings, *(note for note in notes if note not in marks)]


def _read_sheet(path: Path, found: Contents, about: Told) -> tuple[pd.DataFrame, list[str]]:
    """The first sheet of a workbook that holds a table, by way of text: its cells may be of any type, above each other."""
    from python_calamine import load_workbook

    book = load_workbook(io.BytesIO(found.opened().read()))
    sheets = {name: _sheet_rows(book.get_sheet_by_name(name)) for name in book.sheet_names}
    filled = {name: rows for name, rows in sheets.items() if rows}
    if not filled:
        raise DataError(f"{str(path)!r} is empty; expected a sheet with a header row and data")
    first = next(
        (name for name, rows in filled.items() if sum(len([c for c in row if c != ""]) > 1 for row in rows) > 1), next(iter(filled))
    )
    text = io.StringIO()
    csv.writer(text).writerows([[_cell(value) for value in row] for row in filled[first]])
    body = text.getvalue().encode()
    as_text = found._replace(kind="text", opened=lambda: io.BytesIO(body), suffix=".csv")
    frame, notes = _read_text(path, as_text, about._replace(sep=",", decimal=".", encoding="utf-8"))
    which = "the first" if first == next(iter(filled)) else repr(first)
    return frame, [*([f"{which} of the sheets {', '.join(map(repr, filled))}"] if len(filled) > 1 else []), *notes]


def _sheet_rows(sheet: Any) -> list[list[Any]]:
    """The cells of a sheet; one that was merged over several rows stands in each of them, unless beside a cell that was merged over
    several columns: these are a header of two lines."""
    rows, (top, left), merged = sheet.to_python(), sheet.start or (0, 0), sheet.merged_cell_ranges or ()
    header = {begin for (begin, first), (_, last) in merged if last > first}
    for (begin, column), (end, _) in merged:
        for row in range(begin + 1, end + 1) if begin not in header else ():
            rows[row - top][column - left] = rows[begin - top][column - left]
    return rows


def _cell(value: Any) -> str:
    """A cell of a sheet as text; whole numbers, which Excel keeps as floats, without a fraction."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).removesuffix(" 00:00:00")


def _read_parquet(path: Path, found: Contents, about: Told) -> tuple[pd.DataFrame, list[str]]:
    with database(path, found) as (base, source):
        frame = dialect.as_frame(base, f"SELECT * FROM {source}")
        about_it = source.replace("read_parquet", "parquet_kv_metadata")
        kept = base.execute(f"SELECT decode(value) FROM {about_it} WHERE decode(key) = 'pandas'").fetchall()
        index = [name for row in kept for name in json.loads(row[0]).get("index_columns", []) if isinstance(name, str)]
    if index:
        frame = frame.set_index(index).rename_axis([None if name.startswith("__index_level_") else name for name in index])
    return _without_gaps(frame), []


@contextmanager
def database(path: Path, found: Contents) -> Iterator[tuple[Any, str]]:
    """A database, and the name of a Parquet file in its SQL; what is packed, or has a name that is a pattern, is copied first."""
    from tallies.mapped import SCRATCH, scratch_folder

    with closing(dialect.connect()) as base, ExitStack() as copied:
        if found.packed or re.search(r"[*?\[]", str(path)):
            copy = Path(copied.enter_context(scratch_folder(SCRATCH.get()))) / "table.parquet"
            with found.opened() as source, open(copy, "wb") as target:
                shutil.copyfileobj(source, target)
            path = copy
        yield base, f"read_parquet({dialect.quoted(str(path))})"


def _read_feather(path: Path, found: Contents, about: Told) -> tuple[pd.DataFrame, list[str]]:
    import pandas as pd

    need("pyarrow", "feather", "Reading feather")
    return _without_gaps(pd.read_feather(io.BytesIO(found.opened().read()))), []


def _read_lines(path: Path, found: Contents, about: Told) -> tuple[pd.DataFrame, list[str]]:
    import pandas as pd

    return _without_gaps(pd.DataFrame(list(json_lines(path, found.opened(), flat=True)))), []


_READERS: dict[str, Callable[[Path, Contents, Told], tuple[pd.DataFrame, list[str]]]] = {
    "text": _read_text,
    "xlsx": _read_sheet,
    "parquet": _read_parquet,
    "feather": _read_feather,
    "jsonl": _read_lines,
}


def _without_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of another format than text, without the words for gaps; lists and records in it are refused."""
    import numpy as np

    _check_cells(frame)
    texts = frame.dtypes.index[[dtype.kind == "O" for dtype in frame.dtypes]]  # categories, and texts of any kind, too
    for name in texts if frame.columns.is_unique else ():
        column = frame[name]
        gap = column.isin(GAPS - {"-"} if (column == "+").any() else GAPS)
        if gap.any():
            frame[name] = column.astype(object).where(~gap & column.notna(), np.nan)
    return frame


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a table, one at a time, for readers of texts: cells of text as they are, lists too, None where empty."""
    found, about = contents(path), TOLD.get()
    if found.kind == "jsonl":
        yield from json_lines(path, found.opened())
    elif found.kind == "text":
        with dialect.as_utf8(found.opened, about) as (file, _), closing(dialect.connect_for(file)) as base:
            names = dialect.load(base, file, about).names if file.stat().st_size else []
            twice = [name for name in names if name and names.count(name) > 1]
            if twice:
                raise DataError(f"column names must differ, but {twice[:5]} occur more than once; rename or drop them")
            yield from _rows(_fetched(base.execute("SELECT * FROM raw")) if names else (), names)
    elif found.kind == "parquet":
        with database(path, found) as (base, source):
            found_rows = base.execute(f"SELECT * FROM {source}")
            yield from _rows(_fetched(found_rows), [column[0] for column in found_rows.description])
    else:
        frame = read_table(path).rename(columns=str)
        yield from _rows(frame.astype(object).where(frame.notna(), None).itertuples(index=False), list(frame.columns))


def _fetched(query: Any) -> Iterator[tuple[Any, ...]]:
    while rows := query.fetchmany(1000):
        yield from rows


def _rows(rows: Iterable[tuple[Any, ...]], names: list[str]) -> Iterator[dict[str, Any]]:
    yield from (dict(zip(names, row, strict=True)) for row in rows)


def json_lines(path: Path, source: IO[bytes], flat: bool = False) -> Iterator[dict[str, Any]]:
    """The objects of a file of json lines; `flat`: they are rows of a table, which hold no lists and no objects."""
    with io.TextIOWrapper(source, encoding="utf-8-sig", errors="replace", newline="") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                here = f"line {number} of {str(path)!r}"
                try:
                    record = json.loads(line, object_pairs_hook=_fields)
                except (ValueError, RecursionError) as error:
                    raise DataError(f"{here} is not JSON ({error}); expected one object a line") from error
                if not isinstance(record, dict):
                    raise DataError(f"{here} is a {type(record).__name__}; expected an object with fields")
                nested = [key for key, value in record.items() if isinstance(value, list | dict)] if flat else []
                if nested:
                    raise DataError(f"{here} has a list or an object as {nested[0]!r}; expected a number or a text a cell")
                yield record


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"of the fields {[key for key, _ in pairs][:20]} two have one name")
    return found


def _check_cells(frame: pd.DataFrame) -> None:
    """Refuse lists and records in the cells of a table, which parquet may hold."""
    from pandas.api.types import infer_dtype

    for name, column in frame.items():
        if column.dtype == object and infer_dtype(column, skipna=True) == "mixed":
            for row, value in enumerate(column, 1):
                if hasattr(value, "__len__") and not isinstance(value, str | bytes):
                    kind = {"ndarray": "list"}.get(type(value).__name__, type(value).__name__)
                    raise DataError(f"column {name!r} holds a {kind} in row {row}; expected a number or a text: drop the column")
