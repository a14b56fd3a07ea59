"""Pairs at the door: (concept, word), (document, author) and the like, from lists or two-column tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tallies.errors import DataError


def pairs(table: Any, what: str, empty: bool = False) -> Iterator[tuple[str, str]]:
    """Pairs of texts from a list of pairs or a two-column table (pandas, polars, pyarrow); `empty`: the second may be ''."""
    if hasattr(table, "columns") or hasattr(table, "column_names"):
        import narwhals as nw

        frame = nw.from_native(table, eager_only=True)
        if len(frame.columns) != 2:
            raise DataError(f"expected a table of two columns {what}, got the columns {frame.columns}")
        table = frame.rows()
    for i, pair in enumerate(table):
        if isinstance(pair, str) or len(pair) != 2:
            raise DataError(f"expected pairs {what}, but item {i} is {pair!r}")
        left, right = text_of(pair[0]), text_of(pair[1])
        if not left or not (right or empty):
            raise DataError(f"expected pairs {what} without gaps, but item {i} is {pair!r}; drop or fill it")
        yield left, right


def text_of(value: Any) -> str:
    """A value as text; "" where it is missing."""
    return "" if value is None or value != value else str(value).strip()
