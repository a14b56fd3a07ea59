"""Lines at the edges of a table that are no rows of it: rulings below the header, footnotes and totals at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

LAST = 20  # lines at the end among which footnotes are looked for
ENOUGH = 5  # rows from which on a sum is no accident


def trim(base: Any, cells: Sequence[str]) -> list[str]:
    """Delete a ruling (---+---) below the header of the table `raw`, and footnotes at its end; what was done.

    A footnote has its first cell alone, with a space in it, where no other cell of that column has one."""
    if len(cells) < 2:
        return []
    whole = f"concat_ws('', {', '.join(cells)})"
    top = "(SELECT min(rowid) FROM raw)"
    ruled = base.execute(
        f"DELETE FROM raw WHERE rowid = {top} AND regexp_full_match({whole}, '[-=+:| ]+') AND contains({whole}, '---')"
    ).fetchone()[0]
    alone = " AND ".join(["contains(trim(c0), ' ')", *(f"coalesce(trim({cell}), '') = ''" for cell in cells[1:])])
    rows = base.execute(f"SELECT rowid, {alone} FROM raw ORDER BY rowid DESC LIMIT {LAST}").fetchall()
    below = next((n for n, (_, alike) in enumerate(rows) if not alike), 0)
    if (
        below
        and not base.execute(f"SELECT count(*) FROM raw WHERE rowid < {rows[below - 1][0]} AND contains(trim(c0), ' ')").fetchone()[
            0
        ]
    ):
        base.execute(f"DELETE FROM raw WHERE rowid >= {rows[below - 1][0]}")
    else:
        below = 0
    notes = ["a ruling left out"] if ruled else []
    return [*notes, *([f"{below} line{'s' * (below > 1)} below the table left out"] if below else [])]


def without_totals(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """A table without its last row where that holds sums or means of all columns above it: sums of several, or of one where the row
    has a gap, or a word, that its column has nowhere else.

    >>> import pandas as pd
    >>> plots = pd.DataFrame({"site": list("ababab") + ["all"], "n": [1, 2, 3, 4, 5, 6, 21]})
    >>> without_totals(plots)[0].shape, without_totals(plots[:6])[0].shape
    ((6, 2), (6, 2))
    """
    import numpy as np

    body = frame.iloc[:-1]
    if len(body) < ENOUGH or not frame.columns.is_unique:
        return frame, []
    last, kinds = frame.iloc[-1], [kind.kind for kind in frame.dtypes]
    absent = [bool(gap) for gap in last.isna()]
    sums = 0
    for i in (i for i, kind in enumerate(kinds) if kind in "if" and not absent[i]):
        column = body.iloc[:, i].dropna().to_numpy(float)
        near = [
            abs(last.iloc[i] - total) <= 1e-6 * np.abs(column).sum() for total in (column.sum(), column.sum() / max(len(column), 1))
        ]
        if np.count_nonzero(column) < ENOUGH or not any(near):
            return frame, []
        sums += near[0]
    words = [(body.iloc[:, i], last.iloc[i]) for i, kind in enumerate(kinds) if kind not in "iufb" and not absent[i]]
    new = any(column.nunique() < len(body) and not column.isin([word]).any() for column, word in words)
    gap = any(body.iloc[:, i].notna().all() for i, missing in enumerate(absent) if missing)
    if not sums or not (sums > 1 or new or gap):
        return frame, []
    whole = [body.iloc[:, i] for i, kind in enumerate(kinds) if kind == "f" and absent[i]]  # fractions only for the gap in that row
    body = body.astype({column.name: np.int64 for column in whole if _whole(column)})
    return body, ["a last row of totals left out"]


def _whole(column: pd.Series) -> bool:
    return bool(column.notna().all() and (column % 1 == 0).all() and column.abs().max() < 2**53)
