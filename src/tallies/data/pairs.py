"""Pairs at the door: (concept, word), (document, author) and the like, from lists or two-column tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tallies.errors import DataError


def grouped(table: Any, what: str, empty: bool = False) -> dict[str, list[str]]:
    """Texts on the right of each text on the left, in the order of a list of pairs or a two-column table (pandas, polars, pyarrow);
    `empty`: those on the right may be ''.

    >>> grouped([("a", "x"), ("b", "y"), ("a", "z")], "(letter, word)")
    {'a': ['x', 'z'], 'b': ['y']}
    """
    if hasattr(table, "columns") or hasattr(table, "column_names"):
        import narwhals as nw

        from tallies.data.table import check_names

        check_names(table)
        frame = nw.from_native(table, eager_only=True)
        if len(frame.columns) != 2:
            raise DataError(f"expected a table of two columns {what}, got the columns {frame.columns}")
        table = frame.rows()
    if not isinstance(table, Iterable):
        raise DataError(f"expected pairs {what}, got {table!r}; give a list of pairs or a table of two columns")
    found: dict[str, list[str]] = {}
    for i, pair in enumerate(table):
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise DataError(f"expected pairs {what}, but item {i} is {pair!r}")
        left, right = text_of(pair[0]), text_of(pair[1])
        if not left or not (right or empty):
            raise DataError(f"expected pairs {what} without gaps, but item {i} is {pair!r}; drop or fill it")
        found.setdefault(left, []).append(right)
    return found


def text_of(value: Any) -> str:
    """A value as text; "" where it is missing."""
    return "" if value is None or value != value else str(value).strip()
