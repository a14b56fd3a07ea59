"""Types of the columns of a text: found by counting, in SQL, how many cells of a column are written in each way.

1,234.5     English, with or without marks for thousands
1.234,5     with a decimal comma; which of the two "1,234" is, the other columns say, else the separator
007         a code, where whole numbers have zeros in front or more than 18 digits: it stays text, and so do dates
NA          a gap, one of several words for it
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tallies.data.dialect import ENGLISH, Told, as_frame, connect_for, load, quoted
from tallies.data.dressed import DRESSED, undress
from tallies.data.edges import trim, without_totals

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
POINT, NUMBER = "contains(CELL, '.')", "try_cast(CELL AS DOUBLE) IS NOT NULL AND NOT contains(CELL, '_')"
CODE = r" *(0\d+|[+-]?\d{19,}) *"
DIGITS = r"(?i)\d|inf|nan"  # one of these is in whatever is a number
APOSTROPHE, ESCAPED = "'", r"^'+[=+\-@\t\r]"  # how a text begins that was escaped for spreadsheets, see `output`
WIDE, AT_ONCE = 300, 1_000  # columns from which they are counted under each other, and so many at once: Ctrl-C is heard between
MARKS = ("decimal comma", "marks for thousands")


class Written(NamedTuple):
    """How many cells of a column are written in each way."""

    filled: int
    plain: int = 0  # numbers as Python writes them
    truths: int = 0  # true and false
    with_point: int = 0  # of what may be numbers; True where there are some
    with_comma: int = 0
    whole: int = 0  # digits
    codes: int = 0  # digits with zeros in front, or more than 18 of them
    english: int = 0
    comma: int = 0


def ways_of(base: Any, table: str, columns: Sequence[int], thorough: bool = False, plain: Collection[int] = ()) -> list[Written]:
    """How the cells of these columns are written; unless `thorough`, a comma is not looked for where all numbers are plain; those
    of the columns `plain` are known to be. Tests of millions of cells are slow, so the first rows say which ones a column needs."""

    def look(some: Sequence[int], **tests: str) -> None:
        for i, row in _counts(base, table, some, *tests.values()).items():
            found[i] = found[i]._replace(**dict(zip(tests, row, strict=True)))

    def like(pattern: str, way: str) -> str:
        return f"regexp_full_match(CELL, {quoted(f' *({pattern}) *')}) AND try_cast({UNDO[way]} AS DOUBLE) IS NOT NULL"

    top, filled = _top(base, table), _counts(base, table, columns)
    found = {i: Written(n, plain=n if i in plain else 0) for i, (n,) in filled.items()}
    numbers = {i for i in columns if i in plain or _may_be_numbers(top, i)}
    look([i for i in columns if i not in numbers], truths="lower(CELL) IN ('true', 'false')")
    look([i for i in columns if i in numbers and i not in plain], plain=NUMBER, with_point=POINT, with_comma="contains(CELL, ',')")
    pointed = {i for i in plain if any("." in (row[i] or "") for row in top)}
    found |= {i: found[i]._replace(with_point=True) for i in pointed}
    look([i for i in columns if i in plain and i not in pointed], with_point=POINT)
    marked = {i: None for i, ways in found.items() if ways.with_point or ways.with_comma}
    bare = [i for i, ways in found.items() if ways.plain == ways.filled > 0 and i not in marked]
    look(bare, whole="regexp_full_match(CELL, ' *[+-]?\\d+ *')", codes=f"regexp_full_match(CELL, {quoted(CODE)})")
    if not thorough and all(found[i].plain == found[i].filled for i in marked):  # the usual case; what follows is slow
        return [ways._replace(english=ways.plain) for ways in found.values()]
    look(list(marked), english=like(ENGLISH, "english"), comma=like(COMMA, "comma"))
    return list(found.values())


def _counts(base: Any, table: str, columns: Sequence[int], *tests: str) -> dict[int, tuple[int, ...]]:
    """How many cells of each column pass each test; without one, how many are filled."""
    counts, width = [f"count(*) FILTER ({test})" for test in tests] or ["count(CELL)"], max(len(tests), 1)
    if len(columns) > WIDE:
        return _long_counts(base, table, columns, counts)
    asked = ", ".join(count.replace("CELL", f"c{i}") for i in columns for count in counts)
    found = base.execute(f"SELECT {asked} FROM {table}").fetchone() if columns else ()
    return {i: found[at : at + width] for i, at in zip(columns, range(0, len(found), width), strict=True)}


def _long_counts(base: Any, table: str, columns: Sequence[int], counts: Sequence[str]) -> dict[int, tuple[int, ...]]:
    """`_counts` of many columns, their cells under each other: to plan them, DuckDB takes the square of the number of sums."""
    found = dict.fromkeys(columns, (0,) * len(counts))
    for start in range(0, len(columns), AT_ONCE):
        some = columns[start : start + AT_ONCE]
        cells = f"SELECT unnest([{', '.join(f'c{i}' for i in some)}]) AS CELL, unnest({list(some)}) AS i FROM {table}"
        rows = base.execute(f"SELECT i, {', '.join(counts)} FROM ({cells}) GROUP BY i").fetchall()
        found |= {i: tuple(row) for i, *row in rows}
    return found


def _top(base: Any, table: str) -> list[tuple[str | None, ...]]:
    """The first rows of a table."""
    return base.execute(f"SELECT * FROM {table} LIMIT 20").fetchall()


def _may_be_numbers(top: Sequence[Sequence[str | None]], i: int) -> bool:
    """Whether a column may hold numbers for all that its first rows say."""
    return all(cell is None or cell.strip() in GAPS or re.search(DIGITS, cell) for row in top for cell in row[i : i + 1])


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
    if way and ways.filled == ways.whole:  # these are codes
        return f"trim({cell})", ""
    if not way:
        escaped = f"starts_with({cell}, {quoted(APOSTROPHE)}) AND regexp_matches({cell}, {quoted(ESCAPED)})"
        return f"CASE WHEN {escaped} THEN {cell}[2:] ELSE {cell} END", ""
    fractions = {"plain": 1, "english": ways.with_point, "comma": ways.with_comma}[way]
    return f"CAST({UNDO[way].replace('CELL', cell)} AS {'DOUBLE' if fractions else 'BIGINT'})", way


def read_text(file: Path, told: Told, spaces: bool = False) -> tuple[pd.DataFrame, str, list[str]]:
    """A table of text with its types, its separator, and what was forgiven."""
    with closing(connect_for(file)) as base:
        raw = load(base, file, told, spaces)
        columns, given = range(len(raw.names)), list(raw.names)
        notes = raw.notes + trim(base, [f"c{i}" for i in columns])
        table, plain = _clean(base, columns)
        ways = ways_of(base, table, columns, told.decimal is not None, plain)
        if raw.header and _has_units(base, table, ways):
            given, note = _named_below(given, base.execute(f"SELECT * FROM {table} LIMIT 1").fetchone())
            base.execute(f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})")
            notes.append(note)
            ways = ways_of(base, table, columns, told.decimal is not None)
        table, ways, dressed = _undressed(base, table, given, ways, told.decimal is not None)
        notes += dressed
        decimal = told.decimal or decimal_of(ways, raw.dialect.delim)
        order = ["comma", "plain", "english"] if decimal == "," else ["plain", "english", "comma"]
        order = [way for way in order if told.decimal is None or (way == "comma") == (decimal == ",")]
        used = [i for i in columns if given[i] or ways[i].filled]  # separators at the ends of lines make columns of nothing
        chosen = [typed(i, ways[i], order) for i in used]
        frame = as_frame(base, f"SELECT {', '.join(sql for sql, _ in chosen) or 'NULL'} FROM {table}")
    names = [given[i] or ("row" if i == 0 else f"column{i + 1}") for i in used]
    frame.columns = [name[1:] if re.match(ESCAPED, name) else name for name in names]
    frame, totals = without_totals(frame)
    notes += totals
    numbers = [(way, ways[i]) for i, (_, way) in zip(used, chosen, strict=True)]
    seen = any(way == "comma" and column.with_comma for way, column in numbers)
    thousands = MARKS[1] in notes or any(way == "english" or (way == "comma" and column.with_point) for way, column in numbers)
    return (
        frame,
        raw.dialect.delim,
        [mark for mark, met in zip(MARKS, (seen, thousands), strict=True) if met] + [note for note in notes if note not in MARKS],
    )


def _numbers(ways: Written) -> bool:
    return 0 < ways.filled == max(ways.plain, ways.english, ways.comma)


def _undressed(
    base: Any, table: str, names: Sequence[str], ways: Sequence[Written], thorough: bool
) -> tuple[str, list[Written], list[str]]:
    """The table, and how it is written, with columns of dressed numbers as bare ones; and what is told of them."""

    def are_numbers(other: str, some: Sequence[int]) -> list[int]:
        return [i for i, way in zip(some, ways_of(base, other, some, thorough=True), strict=True) if _numbers(way)]

    words = [i for i, way in enumerate(ways) if way.filled and not _numbers(way) and way.truths < way.filled]
    table, found, notes = undress(base, table, words, names, are_numbers)
    return table, (ways_of(base, table, range(len(ways)), thorough) if found else list(ways)), notes


def _named_below(names: Sequence[str], below: Sequence[str | None]) -> tuple[list[str], str]:
    """The names of columns below whose header is a row of words, and what that was: units, unless a column without a name has a
    word there, which is then its name, in a header of two lines whose upper names hold for the columns right of them, too."""
    if not any(word and not name for name, word in zip(names, below, strict=True)):
        return list(names), "a row of units left out"
    new, upper = [], ""
    for name, word in zip(names, below, strict=True):
        upper = name or upper
        new.append(f"{upper} {word}".strip() if word else name)
    return new, "a header of two lines"


def _clean(base: Any, columns: Sequence[int]) -> tuple[str, set[int]]:
    """A table with NULL for words for gaps, and no spaces around texts: `raw`, or where it has such cells, `clean`; and the columns
    that hold nothing but plain numbers, which stay as they are."""
    top, filled = _top(base, "raw"), _counts(base, "raw", columns)
    may_be = [i for i in columns if _may_be_numbers(top, i)]
    plain = {i for i, (n,) in _counts(base, "raw", may_be, NUMBER).items() if n == filled[i][0]}
    texts = [i for i in columns if i not in plain]
    cells = []
    for i, (signs, odd) in _counts(
        base, "raw", texts, "CELL = '+'", f"CELL IN {_sql(GAPS)} OR CELL LIKE ' %' OR CELL LIKE '% '"
    ).items():
        gaps = _sql(GAPS - {"-"} if signs else GAPS)
        cells += [f"CASE WHEN trim(c{i}) IN {gaps} THEN NULL ELSE trim(c{i}) END AS c{i}"] if odd else []
    if cells:
        base.execute(f"CREATE TEMP TABLE clean AS SELECT * REPLACE ({', '.join(cells)}) FROM raw")
    return ("clean" if cells else "raw"), plain


def _sql(words: Iterable[str]) -> str:
    """A set of texts in SQL, with the empty one."""
    return f"({', '.join(map(quoted, ['', *sorted(words)]))})"


def _has_units(base: Any, table: str, ways: Sequence[Written]) -> bool:
    """Whether the first row alone, of "cm" and "kg", keeps columns from being numbers, and has none itself."""
    first, *rest = base.execute(f"SELECT * FROM {table} LIMIT 21").fetchall() or [[None] * len(ways)]

    def may_turn(i: int) -> bool:
        below = [row[i] for row in rest if row[i] is not None]
        return bool(below) and all(re.fullmatch(f"{ENGLISH}|{COMMA}", cell) for cell in below)

    def is_unit(cell: str | None) -> bool:
        return cell is not None and not re.fullmatch(DRESSED, cell)

    texts = [i for i, column in enumerate(ways) if not _numbers(column) and is_unit(first[i]) and may_turn(i)]
    if not texts or any(first[i] is not None for i, column in enumerate(ways) if _numbers(column)):
        return False
    return any(map(_numbers, ways_of(base, f"(SELECT * FROM {table} OFFSET 1)", texts)))
