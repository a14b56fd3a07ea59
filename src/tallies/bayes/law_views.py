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
        if len(mine) < 10:  # too few to say anything by their shape
            continue
        if mine.min() == mine.max():  # a spike has no shape to compare
            continue
        height, edges = np.histogram(mine, bins=int(np.clip(np.sqrt(len(mine)), 5, 16)))
        share = height / (len(mine) * (edges[1] - edges[0]))
        # closed at both ends, and cut where the picture ends
        x, y = np.concatenate([[edges[0]], edges]), np.concatenate([[0.0], share, [0.0]])
        out.append({"key": int(k), "x": np.clip(x, low, high), "y": y, "step": True, "dash": True})
    return out


def oddness(column: Column, values: Array, codes: np.ndarray, total: Array | None = None) -> Array:
    """Probability, under its class, of a value at least as odd as each one; 1 where it is missing."""
    centre = column.centre[codes]
    if column.p is not None:
        at = values.astype(int)
        known = (at >= 0) & (at < len(column.states))
        p = np.where(known, column.p[codes, np.where(known, at, 0)], 0.0)
        tail = np.where(column.p[codes] <= p[:, None], column.p[codes], 0.0).sum(axis=1)
        return np.where(at < 0, 1.0, tail)
    if column.family == "gaussian":
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = 2 * norm.sf(np.abs(values - centre) / column.spread[codes])
    else:
        rate = centre * total if total is not None else centre
        tail = 2 * np.minimum(poisson.cdf(values, rate), poisson.sf(values - 1, rate))
    return np.where(np.isnan(tail), 1.0, np.minimum(tail, 1.0))


def told(column: Column, value: float, k: int, total: float = 1.0) -> str:
    """A value beside what is usual in class k, in words."""
    if column.p is not None:
        if not 0 <= value < len(column.states):
            return f"{column.name}: a value never met in the fit"
        share = column.p[k, int(value)]
        return f"{column.name} is {column.states[int(value)]} (in {share:.1%} of this class)"
    usual = column.centre[k] * (total if column.family == "multinomial" else 1.0)
    spread = f" ± {show(float(column.spread[k]))}" if column.family == "gaussian" else ""
    return f"{column.name} is {show(float(value))} (usual {show(float(usual))}{spread})"
