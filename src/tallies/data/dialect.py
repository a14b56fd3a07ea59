"""Texts as tables, in whatever dialect they come: DuckDB's sniffer finds separator and quotes, and its reader reads.

What the sniffer does not do is done around it. The file is decoded first; charset-normalizer guesses where it is not UTF-8. Lines
that are no rows are left out: titles above the table, and the header once more. See `written` for types.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tallies.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

ENGLISH = r"[+-]?((\d{1,3}(,\d{3})+|\d+)(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
# encodings that tables are written in; among all that there are, a degree sign may be a Welsh letter
USUAL = "utf_16_le utf_16_be cp1252 cp1250 cp1251 cp1253 cp1254 cp1255 cp1256 cp1257 iso8859_2 iso8859_5 iso8859_7 koi8_r"
USUAL += " mac_roman cp850 cp866 shift_jis euc_jp gb18030 big5 euc_kr"
SMALL = 1 << 20  # bytes of a file for whose rows no database of its own is opened
TOP = 100  # rows among which the header is looked for


class Told(NamedTuple):
    """What the caller knows of a file; None: to be found out."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    header: bool | None = None


class Dialect(NamedTuple):
    """How the cells of a text are parted, as DuckDB names it."""

    delim: str
    quote: str
    escape: str
    skip: int  # lines above the table
    width: int  # columns
    loose: bool  # lines may be short, and quotes strange


class Raw(NamedTuple):
    """What was found of a text whose rows are in the table `raw` of a database."""

    names: list[str]  # of its columns c0, c1, ...; "" where they have none
    dialect: Dialect
    header: bool
    notes: list[str]  # what was left out


def connect() -> Any:
    """A database in memory that loads nothing from a network, and says nothing."""
    import duckdb

    return _quiet(duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}))


def _quiet(base: Any) -> Any:
    """Without DuckDB's own progress. In a notebook without ipywidgets there is none, and DuckDB fails where it is told so."""
    if base.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(True,)]:
        base.execute("SET enable_progress_bar = false")
    return base


_bases: dict[int, Any] = {}  # by process; that of a parent is never let go: to end one takes its threads


def connect_for(file: Path) -> Any:
    """A database for the rows of a file. Of a small one it is kept, since to open one takes a third of the time of reading; TEMP
    tables are of this way in, and go with it. What a large one took would not go back to the system.
    """
    if file.stat().st_size > SMALL:
        return connect()
    here = os.getpid()
    return _quiet((_bases.get(here) or _bases.setdefault(here, connect())).cursor())


def as_frame(base: Any, sql: str) -> pd.DataFrame:
    """What a query finds, with the types that pandas has without its extensions: NaN where a cell is empty."""
    import numpy as np

    frame = base.execute(sql).df()
    for name in frame:
        kind = frame[name].dtype
        if kind.kind == "O" and isinstance(kind, np.dtype):
            gap = frame[name].isna()
            frame[name] = frame[name].mask(gap, np.nan) if gap.any() else frame[name]
        elif not isinstance(kind, np.dtype) and kind.kind in "biu":  # with gaps
            frame[name] = frame[name].to_numpy(dtype=object if kind.kind == "b" else np.float64, na_value=np.nan)
    return frame


def quoted(value: str) -> str:
    """A text in SQL."""
    return "'" + value.replace("'", "''") + "'"


# decoding


def guess_encoding(body: bytes) -> str:
    """The encoding of bytes that are not UTF-8.

    >>> guess_encoding("Größe;Straße;Länge\\n".encode("cp1252")), guess_encoding("Größe".encode("utf-16"))
    ('cp1252', 'utf-16')
    """
    from charset_normalizer import from_bytes

    for mark, name in ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if body.startswith(mark):
            return name
    strange = b"\n".join([line for line in body.split(b"\n") if not line.isascii() or b"\0" in line][:2000])
    if sum(byte > 127 for byte in strange) < 20 and b"\0" not in strange:  # too few to tell languages apart: as browsers do
        return "cp1252" if _can(strange, "cp1252") else "latin-1"
    found = from_bytes(strange, cp_isolation=USUAL.split()).best() or from_bytes(strange).best()
    if found is None:
        raise DataError("its encoding cannot be guessed; say it with encoding= (--encoding)")
    return "cp1252" if "cp1252" in found.could_be_from_charset else found.encoding  # of those that give the same text


def _can(body: bytes, encoding: str) -> bool:
    try:
        return bool(body.decode(encoding))
    except UnicodeDecodeError:
        return False


def _decode(source: IO[bytes], target: Path, encoding: str) -> None:
    """Copy a text as UTF-8; a NUL is refused: readers of text end there without a word, or die."""
    line = 1
    with io.TextIOWrapper(source, encoding=encoding, newline="") as reader, target.open("w", encoding="utf-8", newline="") as out:
        while block := reader.read(1 << 20):
            at = block.find("\0")
            line += block.count("\n", 0, at if at >= 0 else len(block))
            if at >= 0:
                raise DataError(f"line {line} of the file holds a NUL byte, so it is no text, or damaged; fetch it again")
            out.write(block)


@contextmanager
def as_utf8(opened: Callable[[], IO[bytes]], told: Told) -> Iterator[tuple[Path, str]]:
    """A text as a file in UTF-8, and the encoding that it had."""
    from tallies.mapped import SCRATCH, scratch_folder  # lazily, as all that needs numpy here

    with scratch_folder(SCRATCH.get()) as folder:
        target = Path(folder) / "table.txt"
        yield target, copy_as_utf8(opened, told, target)


def copy_as_utf8(opened: Callable[[], IO[bytes]], told: Told, target: Path) -> str:
    """Copy a text as UTF-8; the encoding that it had."""
    encoding = told.encoding or "utf-8-sig"
    try:
        _decode(opened(), target, encoding)
    except LookupError as error:
        raise DataError(f"there is no encoding {encoding!r}; give one such as utf-8, cp1252 or utf-16") from error
    except UnicodeError as error:
        if told.encoding:
            raise DataError(f"it is not in the encoding that was told ({error}); leave it to be guessed") from error
        with opened() as source:
            encoding = guess_encoding(source.read(1 << 24))
        _decode(opened(), target, encoding)
    return encoding.removesuffix("-sig")


# the dialect


def find_dialect(base: Any, file: Path, told: Told, spaces: bool) -> Dialect:
    """Separator, quotes, and lines above the table; `spaces`: they may part the cells."""
    sep = None if told.sep is None else SEPARATORS.get(told.sep, told.sep)
    found = _sniff(base, file, sep, loose=False)
    if found is not None and sep is None and found.skip > _lines(file) // 2:  # it took the last lines for the table: a footnote
        others = [other for other in (_sniff(base, file, mark, loose=True) for mark in ",;\t|") if other is not None]
        found = min([*others, found], key=lambda one: (one.width == 1, len(_line(file, one)) != one.width, one.skip, -one.width))
    if found is None or found.width == 1 or not _only_titles(file, found):
        loose = _sniff(base, file, sep, loose=True)
        if found is None or found.width > 1 or (loose is not None and len(_line(file, loose)) == loose.width):
            found = loose
    if found is None:
        raise DataError("its separator cannot be found out; say it with sep= (--sep)")
    if found.width == 1 and sep is None and spaces:
        whole = Path(shutil.copy(file, file.with_name("whole.txt")))
        with whole.open(encoding="utf-8") as source, file.open("w", encoding="utf-8") as out:
            out.writelines(re.sub(r"[ \t]+", " ", line.strip()) + "\n" for line in source)
        parted = _sniff(base, file, " ", loose=False)
        if parted is not None and parted.width > 1 and _only_titles(file, parted):
            return parted
        shutil.copy(whole, file)
    return found


def _sniff(base: Any, file: Path, sep: str | None, loose: bool) -> Dialect | None:
    import duckdb

    told = "" if sep is None else f", delim={quoted(sep)}"
    told += ", strict_mode=false, null_padding=true" if loose else ""
    row: tuple[Any, ...] = ()
    for sample in ("", ", sample_size=-1") if _has_quotes(file) else ("",):  # they may come late
        try:
            row = base.execute(
                "SELECT Delimiter, Quote, Escape, SkipRows, len(Columns) FROM "
                f"sniff_csv({quoted(str(file))}, all_varchar=true, comment=''{sample}{told}, max_line_size={_longest(file)})"
            ).fetchone()
        except duckdb.Error:
            return None
        if row[1] != "(empty)":
            break
    delim, quote, escape = ("" if mark == "(empty)" else mark for mark in row[:3])
    return Dialect(delim, quote, escape, skip=row[3], width=row[4], loose=loose)


def _drop_comments(file: Path) -> int:
    """Take the lines that begin with # out of a file, and say how many; but not the last of those at the top where it parts into as
    many cells as the line below it: it is the header, as biologists write it."""
    whole = list(io.StringIO(file.read_bytes().decode(), newline=""))  # lines as of csv: other marks end none
    first = next((i for i, line in enumerate(whole) if not line.startswith("#")), 0)
    header = first and any(whole[first - 1].count(sep) == whole[first].count(sep) > 0 for sep in "\t,;|")
    kept = [line for i, line in enumerate(whole) if not line.startswith("#") or (header and i == first - 1)]
    if 0 < len(kept) < len(whole):
        file.write_text("".join(kept), encoding="utf-8", newline="")
    return len(whole) - len(kept) if kept else 0


def _has_quotes(file: Path) -> bool:
    with file.open("rb") as source:
        return any(b'"' in block or b"'" in block for block in iter(partial(source.read, 1 << 20), b""))


def _lines(file: Path) -> int:
    with file.open("rb") as source:
        return sum(block.count(b"\n") for block in iter(partial(source.read, 1 << 20), b""))


def _longest(file: Path) -> int:
    """Bytes that a line may have: DuckDB takes memory for them, and allows 2 MB by itself."""
    return min(max(1 << 21, file.stat().st_size + 1), 1 << 26)


def _above(file: Path, dialect: Dialect) -> list[list[str]]:
    """The cells of the lines that the sniffer passes over, without comments."""
    with file.open(encoding="utf-8", newline="") as source:
        top = list(islice(source, dialect.skip))
    return list(csv.reader((line for line in top if not line.startswith(("#", "%", "//"))), delimiter=dialect.delim))


def _line(file: Path, dialect: Dialect) -> list[str]:
    """The cells of the first line that the sniffer does not pass over."""
    with file.open(encoding="utf-8", newline="") as source:
        return next(csv.reader(islice(source, dialect.skip, None), delimiter=dialect.delim, quotechar=dialect.quote or None), [])


def _short_header(file: Path, dialect: Dialect) -> list[str]:
    """The names of the columns, where they lack one for the names of the rows, as R writes tables, and were passed over."""
    last = _above(file, dialect)[-1:] if dialect.delim in " \t" else []
    return last[0] if last and len(last[0]) == dialect.width - 1 else []


def _only_titles(file: Path, dialect: Dialect) -> bool:
    """Whether the lines that the sniffer passes over have few cells: they are no rows of a ragged table."""
    filled = [len([cell for cell in row if cell.strip()]) for row in _above(file, dialect)]
    return are_titles(filled[:-1] if _short_header(file, dialect) else filled, dialect.width)


def are_titles(filled: Sequence[int], width: int) -> bool:
    """Whether lines with so many cells are titles above a table: at most half as wide, and but one of them of several cells."""
    return all(2 * cells <= width for cells in filled) and sum(cells > 1 for cells in filled) <= 1


# rows


def load(base: Any, file: Path, told: Told, spaces: bool = False) -> Raw:
    """Put the rows below the header into the table `raw`: all cells are texts, and empty ones NULL."""
    dialect, comments = find_dialect(base, file, told, spaces), 0
    if dialect.width == 1 and (comments := _drop_comments(file)):
        dialect = find_dialect(base, file, told, spaces)
    cells = [f"c{i}" for i in range(dialect.width)]
    marks = "".join(f"{name}={quoted(getattr(dialect, name))}, " for name in ("delim", "quote", "escape"))
    # threads that fill up short lines refuse line breaks in cells
    marks += "strict_mode=false, null_padding=true, parallel=false, " if dialect.loose else ""
    columns = ", ".join(f"'{cell}': 'VARCHAR'" for cell in cells)
    source = (
        f"read_csv({quoted(str(file))}, auto_detect=false, header=false, {marks}skip={dialect.skip}, "
        f"max_line_size={_longest(file)}, columns={{{columns}}})"
    )
    top = _run(base, f"SELECT * FROM {source} LIMIT {TOP}").fetchall()
    filled = [sum(cell is not None for cell in row) for row in top]
    above = next((i for i, cells in enumerate(filled) if 2 * cells > dialect.width), 0)
    above = above if are_titles(filled[:above], dialect.width) else 0
    short, first = _short_header(file, dialect), [cell or "" for cell in (top[above] if top else ())]
    _run(base, f"CREATE TEMP TABLE raw AS SELECT * FROM {source}" + (f" OFFSET {above}" if above else ""))  # OFFSET is slow
    blank = [f"trim(concat({', '.join(some)})) = ''" for some in (cells, cells[1:]) if some]  # one call: a condition for
    comment = "".join(f" OR (starts_with(c0, '#') AND {rest})" for rest in blank[1:])  # every cell takes the square of their number
    base.execute(f"DELETE FROM raw WHERE {blank[0]}{comment}")
    if not first or not first[0].startswith("#"):
        comments += base.execute(f"DELETE FROM raw WHERE {len(cells) > 1} AND starts_with(c0, '# ')").fetchone()[0]
    _refuse_open_quotes(base, cells if not dialect.quote and _has_quotes(file) else (), dialect.skip + above)
    lines = above + dialect.skip - bool(short)
    notes = [f"{lines} line{'s' * (lines != 1)} above the table left out"] if lines else []
    if comments:
        notes.append(f"{comments} line{'s' * (comments != 1)} of comments left out")
    if dialect.loose and dialect.width > 1:
        notes.append("short lines filled up with gaps")
    if short:
        return Raw(["row", *short], dialect, True, notes)
    if not (_is_header(base, first) if told.header is None else told.header):
        names = [f"column{i + 1}" for i in range(dialect.width)]
        return Raw(names, dialect, False, [*notes, "no header found: columns are named column1, column2, ..."])
    same = (
        _equal([f"coalesce({cell}, '')" for cell, _ in zip(cells, first, strict=False)], map(quoted, first)) if first else "false"
    )
    again = base.execute(f"DELETE FROM raw WHERE {same}").fetchone()[0] - 1
    if again > 0:
        notes.append("the header, which came once more, left out" if again == 1 else f"the header, {again} times more, left out")
    names = [name.strip() for name in first]
    _refuse_ragged(base, names, dialect.skip + above)
    return Raw(names, dialect, True, notes)


def _run(base: Any, sql: str) -> Any:
    """Carry out a query; of a line that does not fit, DuckDB tells the number."""
    import duckdb

    try:
        return base.execute(sql)
    except duckdb.InvalidInputException as error:
        told = str(error)
        line, found = re.search(r"on Line: (\d+)", told), re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", told)
        if line is None:
            raise
        if found is None:
            lines = [row for row in told.split("\n")[1:] if not row.startswith("Original Line")]
            raise DataError(f"line {line[1]} of the file cannot be read: {' '.join(lines)[:200]}") from error
        raise DataError(
            f"line {line[1]} of the file cannot be read: it has {found[2]} cells, but the header has {found[1]}; put quotes around "
            "texts with the separator in them"
        ) from error


def _is_header(base: Any, first: Sequence[str]) -> bool:
    """Whether the first row names the columns. Numbers among names are whole and rise, as 0, 1, 2 and years do. Where most of its
    cells come again in their columns, in rows that are not the whole row again, the row is data."""
    numbers = [int(cell) if cell.isdecimal() else -1 for cell in first if re.fullmatch(ENGLISH, cell)]
    if numbers and not (numbers[0] >= 0 and all(a < b for a, b in pairwise(numbers))):
        return False
    names = [(f"c{i}", quoted(cell)) for i, cell in enumerate(first) if cell and not re.fullmatch(ENGLISH, cell)]
    if not names:
        return True
    whole = _equal([f"coalesce({column}, {cell})" for column, cell in names], [cell for _, cell in names])
    base.execute(f"CREATE TEMP TABLE others AS SELECT rowid AS row FROM raw WHERE NOT ({whole})")
    again = 0
    for start in range(0, len(names), 100):  # DuckDB takes the square of their number to plan them
        asked = ", ".join(f"bool_or({column} = {cell})" for column, cell in names[start : start + 100])
        found = base.execute(f"SELECT {asked} FROM raw WHERE rowid IN (SELECT row FROM others)").fetchone()
        again += sum(map(bool, found))
    return 2 * again <= len(names)


def _equal(cells: Iterable[str], others: Iterable[str]) -> str:
    """A condition: all cells equal the others. As lists, since that of every cell takes the square of their number to plan."""
    return f"[{', '.join(cells)}] = [{', '.join(others)}]"


def _refuse_open_quotes(base: Any, cells: Sequence[str], above: int) -> None:
    """Refuse a text where quotes open a cell, but do not close, so that the sniffer took them for letters: it was cut short."""
    opened = " OR ".join(f"starts_with({cell}, '\"')" for cell in cells)
    row = base.execute(f"SELECT min(rowid) FROM raw WHERE {opened}").fetchone()[0] if cells else None
    if row is not None:
        raise DataError(
            f"it cannot be read: the quotes that open in line {row + 1 + above} of the file do not close; is it complete?"
        )


def _refuse_ragged(base: Any, names: Sequence[str], above: int) -> None:
    """Refuse a table where a few lines have more cells than the header: they are texts with a separator in them."""
    for i, name in enumerate(names):
        if not name and i:
            filled, rows, first = base.execute(
                f"SELECT count(c{i}), count(*), min(rowid) FILTER (c{i} IS NOT NULL) FROM raw"
            ).fetchone()
            if filled and (2 * filled <= rows or rows == 1):
                raise DataError(
                    f"line {first + 1 + above} of the file cannot be read: it has more cells than the {i} columns of the header; "
                    "put quotes around texts with the separator in them"
                )
