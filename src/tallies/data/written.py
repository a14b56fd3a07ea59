"""Types of the columns of a text: found by counting, in SQL, how many cells of a column are written in each way.

1,234.5     English, with or without marks for thousands
1.234,5     with a decimal comma; which of the two "1,234" is, the other columns say, else the separator
007         a code, where whole numbers have zeros in front: it stays text, and so do dates
NA          a gap, one of several words for it
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tallies.data.dialect import ENGLISH, Told, as_frame, connect, load, quoted

if TYPE_CHECKING:
    import pandas as pd

# texts that stand for an empty cell: those of pandas, and what people write; "-" is none in a column that has "+"
_GAPS = "NA N/A n/a N.A. n.a. <NA> #N/A #NA NaN -NaN nan -nan NULL null None 1.#IND 1.#QNAN k.A. k.a. K.A. - -- ? ."
GAPS = frozenset(_GAPS.split())
COMMA = r"[+-]?(([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d*)?|,\d+)([eE][+-]?\d+)?"
UNDO = {  # SQL that makes a number of a cell written in that way
    "plain": "CELL",
    "english": "replace(CELL, ',', '')",
    "comma": "replace(replace(CELL, '.', ''), ',', '.')",
}
APOSTROPHE, ESCAPED = "'", r"^'+[=+\-@\t\r]"  # how a text begins that was escaped for spreadsheets, see `output`
MARKS = ("decimal comma", "marks for thousands")


class Written(NamedTuple):
    """How many cells of a column are written in each way."""

    filled: int
    plain: int  # numbers as Python writes them
    truths: int  # true and false
    with_point: int
    with_comma: int
    whole: int = 0  # digits
    codes: int = 0  # digits with zeros in front
    english: int = 0
    comma: int = 0


def ways_of(base: Any, table: str, columns: Sequence[int], thorough: bool = False) -> list[Written]:
    """How the cells of these columns are written; unless `thorough`, a comma is not looked for where all numbers are plain."""

    def counts(some: Sequence[int], *tests: str) -> list[tuple[int, ...]]:
        asked = (f"count(*) FILTER ({test.replace('CELL', f'c{columns[at]}')})" for at in some for test in tests)
        found = base.execute(f"SELECT {', '.join(asked)} FROM {table}").fetchone() if some else ()
        return [found[at : at + len(tests)] for at in range(0, len(found), len(tests))]

    def like(pattern: str, way: str) -> str:
        return f"regexp_full_match(CELL, {quoted(pattern)}) AND try_cast({UNDO[way]} AS DOUBLE) IS NOT NULL"

    number = "try_cast(CELL AS DOUBLE) IS NOT NULL AND NOT contains(CELL, '_')"
    usual = ("CELL IS NOT NULL", number, "lower(CELL) IN ('true', 'false')", "contains(CELL, '.')", "contains(CELL, ',')")
    found = [Written(*row) for row in counts(range(len(columns)), *usual)]
    marked = [at for at, ways in enumerate(found) if ways.with_point or ways.with_comma]
    bare = [at for at, ways in enumerate(found) if ways.plain == ways.filled > 0 and at not in marked]
    digits = ("regexp_full_match(CELL, '[+-]?\\d{1,18}')", "regexp_full_match(CELL, '0\\d+')")
    for at, (whole, codes) in zip(bare, counts(bare, *digits), strict=True):
        found[at] = found[at]._replace(whole=whole, codes=codes)
    if not thorough and all(found[at].plain == found[at].filled for at in marked):  # the usual case; what follows is slow
        return [ways._replace(english=ways.plain) for ways in found]
    tests = (like(ENGLISH, "english"), like(COMMA, "comma"))
    for at, (english, comma) in zip(marked, counts(marked, *tests), strict=True):
        found[at] = found[at]._replace(english=english, comma=comma)
    return found


def decimal_of(columns: Sequence[Written], sep: str) -> str:
    """The decimal mark of a table: that which alone some column can be read with, else the one that goes with the separator.

    >>> price, size = Written(9, 0, 0, 0, 9, english=9, comma=9), Written(9, 9, 0, 9, 0, english=9)
    >>> decimal_of([price], ","), decimal_of([price], ";"), decimal_of([price, size], ";")  # "1,234"; beside "12.5"
    ('.', ',', '.')
    """
    comma = any(ways.filled == ways.comma > ways.english for ways in columns)
    point = any(ways.filled == ways.english > ways.comma for ways in columns if ways.with_point)
    either = any(ways.filled == ways.comma and ways.with_comma for ways in columns)
    return "," if (comma and not point) or (either and comma == point and sep == ";") else "."


def typed(column: int, ways: Written, order: Sequence[str]) -> tuple[str, str]:
    """SQL of a column with its type, and the way in which its numbers are written; "" where it holds none."""
    cell = f"c{column}"
    if not ways.filled:
        return "CAST(NULL AS DOUBLE)", ""
    if ways.filled == ways.truths:
        return f"CAST({cell} AS BOOLEAN)", ""
    if ways.filled == ways.whole and not ways.codes:
        return f"CAST({cell} AS BIGINT)", "plain"
    way = next((way for way in order if getattr(ways, way) == ways.filled), "")
    if not way or ways.filled == ways.whole:  # these are codes
        escaped = f"starts_with({cell}, {quoted(APOSTROPHE)}) AND regexp_matches({cell}, {quoted(ESCAPED)})"
        return f"CASE WHEN {escaped} THEN {cell}[2:] ELSE {cell} END", ""
    fractions = {"plain": 1, "english": ways.with_point, "comma": ways.with_comma}[way]
    return f"CAST({UNDO[way].replace('CELL', cell)} AS {'DOUBLE' if fractions else 'BIGINT'})", way


def read_text(file: Path, told: Told, spaces: bool = False) -> tuple[pd.DataFrame, str, list[str]]:
    """A table of text with its types, its separator, and what was forgiven."""
    with closing(connect()) as base:
        raw = load(base, file, told, spaces)
        columns, notes = range(len(raw.names)), list(raw.notes)
        _clean(base, columns)
        ways = ways_of(base, "clean", columns, thorough=told.decimal is not None)
        if raw.header and _has_units(base, ways):
            base.execute("DELETE FROM clean WHERE rowid = 0")
            notes.append("a row of units left out")
            ways = ways_of(base, "clean", columns, thorough=told.decimal is not None)
        decimal = told.decimal or decimal_of(ways, raw.dialect.delim)
        order = ["comma", "plain", "english"] if decimal == "," else ["plain", "english", "comma"]
        order = [way for way in order if told.decimal is None or (way == "comma") == (decimal == ",")]
        used = [i for i in columns if raw.names[i] or ways[i].filled]  # separators at the ends of lines make columns of nothing
        chosen = [typed(i, ways[i], order) for i in used]
        frame = as_frame(base, f"SELECT {', '.join(sql for sql, _ in chosen) or 'NULL'} FROM clean")
    names = [raw.names[i] or ("row" if i == 0 else f"column{i + 1}") for i in used]
    frame.columns = [name[1:] if re.match(ESCAPED, name) else name for name in names]
    numbers = [(way, ways[i]) for i, (_, way) in zip(used, chosen, strict=True)]
    seen = any(way == "comma" and column.with_comma for way, column in numbers)
    thousands = any(way == "english" or (way == "comma" and column.with_point) for way, column in numbers)
    return frame, raw.dialect.delim, [mark for mark, met in zip(MARKS, (seen, thousands), strict=True) if met] + notes


def _clean(base: Any, columns: Sequence[int]) -> None:
    """Make the table `clean` of `raw`: without spaces around the cells, and with NULL for words for gaps."""
    asked = ", ".join(f"count(c{i}) = count(try_cast(c{i} AS DOUBLE)), bool_or(c{i} = '+')" for i in columns)
    found = base.execute(f"SELECT {asked} FROM raw").fetchone()
    cells = []
    for i, numbers, signs in zip(columns, found[::2], found[1::2], strict=True):
        gaps = ", ".join(map(quoted, sorted(GAPS - {"-"} if signs else GAPS)))
        words = f"CASE WHEN trim(c{i}) IN ('', {gaps}) THEN NULL ELSE trim(c{i}) END"
        cells.append(f"{f'trim(c{i})' if numbers else words} AS c{i}")
    base.execute(f"CREATE TEMP TABLE clean AS SELECT {', '.join(cells)} FROM raw")


def _has_units(base: Any, ways: Sequence[Written]) -> bool:
    """Whether the first row alone, of "cm" and "kg", keeps columns from being numbers, and has none itself."""
    first, *rest = base.execute("SELECT * FROM clean WHERE rowid <= 20 ORDER BY rowid").fetchall() or [[None] * len(ways)]

    def numbers(column: Written) -> bool:
        return 0 < column.filled == max(column.plain, column.english, column.comma)

    def may_turn(i: int) -> bool:
        below = [row[i] for row in rest if row[i] is not None]
        return bool(below) and all(re.fullmatch(f"{ENGLISH}|{COMMA}", cell) for cell in below)

    texts = [i for i, column in enumerate(ways) if not numbers(column) and first[i] is not None and may_turn(i)]
    if not texts or any(first[i] is not None for i, column in enumerate(ways) if numbers(column)):
        return False
    return any(map(numbers, ways_of(base, "(SELECT * FROM clean WHERE rowid > 0)", texts)))
