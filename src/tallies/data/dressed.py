"""Numbers that do not come bare: with their unit, a currency, the marks and signs of other countries, or words for gaps among them.

12,5 m      one unit for all cells of a column, which is left out and told; also 45 %, R$ 1.234,50 and $3
1 234,5     marks for thousands that are spaces or apostrophes, narrow and typographic ones too
(12.50)     a negative number, as in accounts; and the sign that is no hyphen
unknown     a gap, where the rest of the column is numbers
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tallies.data.dialect import quoted

MONEY, SPACE, APART = "$€£¥₹₽₩₺₫₪฿", "\u00a0\u202f\u2009 ", "[\u00a0\u202f\u2009 '’]"  # what parts thousands
# paren, sign, currency before, sign, number, unit after. A letter right behind a number, as in 12A, makes a code of it
DRESSED = (
    rf"[{SPACE}]*(\(?)([+−-]?)([A-Z]{{0,3}}[{MONEY}])?[{SPACE}]*([+−-]?)"
    rf"([1-9]\d{{0,2}}(?:{APART}\d{{3}})+(?:[.,]\d+)?|[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?)"
    rf"((?:[{SPACE}]+[^\d\s(]\S{{0,11}}|[^\dA-Za-z\s.,:;/()'’_+−-]\S{{0,11}}|[A-Za-z]{{2}}\S{{0,10}})?)\)?[{SPACE}]*"
)
PARTS = ("open", "sign", "before", "minus", "number", "after")
# what people write for a gap among numbers; beside other words each may be a category
_UNKNOWN = """unknown, missing, not available, not measured, not determined, no data, nd, n.d., unbekannt, keine angabe,
keine daten, fehlt, inconnu, manquant, non renseigné, nc, desconocido, sin dato, sin datos, desconhecido, sem dados,
sconosciuto, mancante, onbekend, okänd, ukjent, ukendt, brak, brak danych, неизвестно, нет данных, 不明, 未知"""
UNKNOWN = frozenset(word.strip() for word in _UNKNOWN.split(","))


def undress(
    base: Any, table: str, columns: Sequence[int], names: Sequence[str], are_numbers: Callable[[str, Sequence[int]], list[int]]
) -> tuple[str, list[int], list[str]]:
    """The table in which columns of dressed numbers hold bare ones; which columns these are; and what is to be told.

    `columns` are those that hold words so far; `are_numbers` says which columns of a table hold numbers in some way of writing.
    """
    top = base.execute(f"SELECT * FROM {table} LIMIT 40").fetchall()
    mostly = [i for i in columns if _mostly_numbers([row[i] for row in top if row[i] is not None])]
    if not mostly:
        return table, [], []
    parted = ", ".join(f"{_without_gaps(i)} AS k{i}, {_extracted(i)} AS p{i}" for i in mostly)  # once: patterns are slow
    base.execute(f"CREATE TEMP TABLE parts AS SELECT *, {parted} FROM {table}")
    table, bare = "parts", {i: _bare(i) for i in mostly}
    fit = [i for i in mostly if _one_dress(base, table, i)]
    if fit:
        base.execute(f"CREATE TEMP TABLE tried AS SELECT * REPLACE ({', '.join(bare[i] for i in fit)}) FROM {table}")
    found = are_numbers("tried", fit) if fit else []
    notes = [_told(base, table, i, names[i]) for i in mostly if i not in found]
    if found:
        units = [(names[i], _unit(base, table, i)) for i in found]
        told = ", ".join(f"{name} ({unit})" for name, unit in units if unit)
        words = [names[i] for i in found if _count(base, table, f"k{i} IS NULL AND c{i} IS NOT NULL")]
        notes += (
            ["marks for thousands"]
            if any(_count(base, table, f"regexp_matches(p{i}.number, {quoted(APART)})") for i in found)
            else []
        )
        notes += ["numbers in parentheses are negative"] if any(_count(base, table, f"p{i}.open = '('") for i in found) else []
        notes += [f"units left out: {told}"] if told else []
        notes += [f"words for gaps among the numbers of {', '.join(map(repr, words))}"] if words else []
        base.execute(f"CREATE TEMP TABLE bare AS SELECT * REPLACE ({', '.join(bare[i] for i in found)}) FROM {table}")
    return ("bare" if found else table), found, [note for note in notes if note]


def _without_gaps(i: int) -> str:
    """A cell, NULL where it holds a word for a gap; the column k of the table `parts`."""
    return f"CASE WHEN lower(c{i}) IN ({', '.join(map(quoted, sorted(UNKNOWN)))}) THEN NULL ELSE c{i} END"


def _extracted(i: int) -> str:
    """The parts of a cell; the column p of the table `parts`."""
    return f"regexp_extract({_without_gaps(i)}, {quoted('^' + DRESSED + '$')}, [{', '.join(map(quoted, PARTS))}])"


def _bare(i: int) -> str:
    """SQL of a column without its dress."""
    part = f"p{i}"
    negative = f"{part}.open = '(' OR {part}.sign IN ('-', '−') OR {part}.minus IN ('-', '−')"
    number = f"regexp_replace({part}.number, {quoted(APART)}, '', 'g')"
    return f"CASE WHEN k{i} IS NULL THEN NULL WHEN {negative} THEN '-' || {number} ELSE {number} END AS c{i}"


def _mostly_numbers(top: Sequence[str]) -> bool:
    """Whether half of the first cells are numbers, dressed or not."""
    return 2 * sum(re.fullmatch(DRESSED, cell) is not None for cell in top) >= max(len(top), 1)


def _one_dress(base: Any, table: str, i: int) -> bool:
    """Whether all cells are numbers with the same dress, not all of them in parentheses."""
    part = f"p{i}"
    dresses, numbers, opened, known = base.execute(
        f"SELECT count(DISTINCT {part}.before || '|' || trim({part}.after, {quoted(SPACE)})), "
        f"count(*) FILTER ({part}.number <> ''), count(*) FILTER ({part}.open = '('), count(*) "
        f"FROM {table} WHERE k{i} IS NOT NULL"
    ).fetchone()
    return bool(dresses == 1 and numbers == known > opened)


def _unit(base: Any, table: str, i: int) -> str:
    part = f"p{i}"
    row = base.execute(f"SELECT {part}.before, {part}.after FROM {table} WHERE k{i} IS NOT NULL LIMIT 1").fetchone()
    return "".join(row).strip(SPACE)


def _told(base: Any, table: str, i: int, name: str) -> str:
    """What keeps a column that is mostly numbers from being one; nothing of codes, dates and the like."""
    other = f"c{i} IS NOT NULL AND try_cast(replace(c{i}, ',', '.') AS DOUBLE) IS NULL"
    cells, filled, one = base.execute(
        f"SELECT count(*) FILTER ({other}), count(c{i}), min(c{i}) FILTER ({other}) FROM {table}"
    ).fetchone()
    return f"{name!r} stays words: {one!r} is no number" if 0 < 2 * cells < filled else ""


def _count(base: Any, table: str, test: str) -> int:
    return int(base.execute(f"SELECT count(*) FROM {table} WHERE {test}").fetchone()[0])
