"""Charts as plain dictionaries: what `assets/charts.js` draws in a page and `draw.py` on axes, with the table behind each.

Every chart has `title`, `caption`, `columns` and `rows` (its numbers, for csv and screen readers). `select="class"` binds the keys
of its series, points or rows to a selector of the page: choosing one dims the others. `follow` makes one chart of many, one view
for each item of a selector. Axis titles carry their units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Chart = dict[str, Any]
Axis = dict[str, Any]
Series = list[dict[str, Any]]
Texts = Sequence[str]
Rows = Sequence[Any]


def axis(
    title: str,
    domain: Sequence[float] | None = None,
    log: bool = False,
    zero: bool = False,
    whole: bool = False,
    plain: bool = False,
) -> Axis:
    """An axis: its title with unit, its ends (None: from the data), a log scale (said in the title), whether it starts at 0,
    whether only whole numbers mean something, and whether they are written as they are, as years are: 2024, not 2,024."""
    out: Axis = {"title": title + " (log scale)" * log}
    if domain is not None:
        out["domain"] = [float(v) for v in domain]
    looks = (("log", log), ("zero", zero), ("whole", whole), ("plain", plain))
    return out | {name: True for name, wanted in looks if wanted}


def lines(title: str, x: Axis, y: Axis, series: Series, columns: Texts, rows: Rows, **more: Any) -> Chart:
    """Curves: each series has name, x and y, or a `law` ("normal", "poisson") and parameters `p`; optionally key, low, high.

    `band` is a stretch of x with grey ground, `mark` a line at one x, `diagonal` one where both axes are equal.
    """
    return {"kind": "lines", "title": title, "x": x, "y": y, "series": series, "columns": columns, "rows": rows, **more}


def bars(title: str, x: Axis, labels: Texts, series: Series, **more: Any) -> Chart:
    """Horizontal bars, one group a label: each series has name and values, optionally low and high; `keys` says which item of
    `select` a label is, keyed=True gives each the colour of its item, `behind` (name, values) are wider bars behind them."""
    columns = ["", *(s.get("name") or x["title"] for s in series)]
    rows = [[label, *(s["values"][i] for s in series)] for i, label in enumerate(labels)]
    return {"kind": "bars", "title": title, "x": x, "labels": labels, "series": series, "columns": columns, "rows": rows, **more}


def bar(title: str, unit: str, labels: Iterable[Any], values: Any, domain: Any = None, look: Any = (), **more: Any) -> Chart:
    """`bars` of one series, in a unit; `look`: its low and high, or its colour."""
    series = {"name": "", "values": np.asarray(values), **dict(look)}
    return bars(title, axis(unit, domain), [str(label) for label in labels], [series], **more)


def heat(
    title: str, x: str, y: str, across: Texts, down: Texts, values: Any, texts: Any = None, tips: Any = None, **more: Any
) -> Chart:
    """A matrix of coloured cells; scale="sign" is white at 0. Without texts its numbers are the table.

    What each thing has to do with itself is left out where things are set against themselves (x and y are the same) without texts.
    """
    if texts is None and x == y and list(across) == list(down):
        values = np.where(np.eye(len(down), dtype=bool), np.nan, np.asarray(values, dtype=float))
    chart = {"kind": "heat", "title": title, "x": {"title": x}, "y": {"title": y}, "across": across, "down": down, "values": values}
    chart |= {"columns": [f"{y} / {x}", *across]}
    if texts is not None:
        chart |= {"texts": texts, "tips": tips, "rows": [[name, *row] for name, row in zip(down, texts, strict=True)]}
    return {**chart, **more}


def points(
    title: str, x: Axis, y: Axis, px: Any, py: Any, group: Any = None, tips: Any = (), heads: Any = (), rows: Any = (), **more: Any
) -> Chart:
    """A map of points with shapes and colours by group, if any; `outlines` are closed curves, `names` words in the plane.

    `sizes` (0 to 1) makes circles of that area, `values` colours by an amount, `keys` are the items of `select`, `words` stand at
    the points, `arrows` leave the origin, `links` join points a and b with width w; bare=True draws no axes.
    """
    group = [0] * len(px) if group is None else group
    chart = {"kind": "points", "title": title, "x": x, "y": y, "px": px, "py": py, "group": group, "tips": tips}
    return {**chart, "columns": heads, "rows": rows, **more}


def follow(by: str, views: list[Chart], none: Chart | None = None) -> Chart:
    """One chart that shows the view of the item selected, and `none` (or the first view) where nothing is."""
    first = none or views[0]
    return {"by": by, "none": first, "views": views, "title": first["title"], **({"wide": True} if first.get("wide") else {})}
