"""Pictures of single columns of a classifier, and how odd a value is."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm, poisson

from tallies.bayes.marginals import Column, domain
from tallies.html import charts
from tallies.html.page import show
from tallies.maths import Array


def picture(
    column: Column, classes: list[str], shown: np.ndarray, rows: tuple[Array, np.ndarray] | None, note: str = "", most: int = 20
) -> charts.Chart:
    """The law of the column in each class, of at most `most` states; beside it, dashed, the values of `rows`, (values, class
    codes), where there are some."""
    more = {"select": "class", "legend": [{"name": classes[k], "key": int(k)} for k in shown]}
    title = f"{column.name}, by class"
    if column.p is not None:
        order = np.argsort(-column.p.mean(axis=0), kind="stable")[:most]
        left = f" The {most} most common of {len(column.states)} values." if len(column.states) > most else ""
        series = [{"name": classes[k], "key": int(k), "values": column.p[k, order]} for k in shown]
        x = charts.axis("probability given the class", [0, float(column.p[np.ix_(shown, order)].max())])
        caption = f"How often each value occurs in each class.{left}{note}"
        return charts.bars(title, x, [column.states[s] for s in order], series, caption=caption, **more)
    if column.family == "multinomial":
        values = {"name": "", "values": column.centre[shown]}
        x = charts.axis("probability that a word drawn from the class is this one")
        keys, caption = [int(k) for k in shown], f"Share of all counts.{note}"
        return charts.bars(title, x, [classes[k] for k in shown], [values], keys=keys, caption=caption, select="class")
    count = column.family == "poisson"
    low, high = domain(column)
    sd = np.maximum(column.spread, (high - low) * 1e-3)  # a spike is drawn a thousandth wide, else it would not be seen
    law = {"law": "poisson" if count else "normal"}
    given = [[1, m] if count else [1, m, s] for m, s in zip(column.centre, sd, strict=True)]
    series = [{"name": classes[k], "key": int(k), **law, "p": given[k]} for k in shown]
    if rows is not None and not count:
        series += _observed(rows, shown, low, high)
    y = charts.axis("probability given the class" if count else f"density given the class (per unit of {column.name})", zero=True)
    table = [[classes[k], column.centre[k], *([] if count else [column.spread[k]])] for k in shown]
    caption = "Expected counts, Poisson in each class." if count else "A Gaussian in each class."
    caption += " Dashed: the rows given to this report." * (rows is not None and not count)
    heads = ["class", "mean count"] if count else ["class", "mean", "standard deviation"]
    return charts.lines(title, charts.axis(column.name, [low, high]), y, series, heads, table, caption=caption + note, **more)


def _observed(rows: tuple[Array, np.ndarray], shown: np.ndarray, low: float, high: float) -> list[dict[str, Any]]:
    """Histograms of the values in each class, as densities."""
    values, codes = rows
    out = []
    for k in shown:
        mine = values[(codes == k) & np.isfinite(values)]
        if len(mine) < 10 or mine.min() == mine.max():  # too few to say anything by their shape, or a spike, which has none
            continue
        height, edges = np.histogram(mine, bins=int(np.clip(np.sqrt(len(mine)), 5, 16)))
        share = height / (len(mine) * (edges[1] - edges[0]))
        # closed at both ends, and cut where the picture ends
        x, y = np.concatenate([[edges[0]], edges]), np.concatenate([[0.0], share, [0.0]])
        out.append({"key": int(k), "x": np.clip(x, low, high), "y": y, "step": True, "dash": True})
    return out


def oddness(column: Column, value: float, k: int, total: float = 1.0) -> float:
    """Probability, in class k, of a value at least as odd; of a word, in a row of so many."""
    centre = column.centre[k] * total
    if column.p is not None:
        p = column.p[k]
        return float(np.where(p <= (p[int(value)] if value < len(p) else 0.0), p, 0.0).sum())
    if column.family == "gaussian":
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = 2 * norm.sf(np.abs(value - centre) / column.spread[k])
    else:
        tail = 2 * min(poisson.cdf(value, centre), poisson.sf(value - 1, centre))
    return 1.0 if np.isnan(tail) else min(float(tail), 1.0)


def told(column: Column, value: float, k: int, total: float = 1.0) -> str:
    """A value beside what is usual in class k, in words."""
    if column.p is not None:
        if not 0 <= value < len(column.states):
            return f"{column.name}: a value never met in the fit"
        return f"{column.name} is {column.states[int(value)]} (in {column.p[k, int(value)]:.1%} of this class)"
    spread = f" ± {show(float(column.spread[k]))}" if column.family == "gaussian" else ""
    return f"{column.name} is {show(float(value))} (usual {show(float(column.centre[k] * total))}{spread})"
