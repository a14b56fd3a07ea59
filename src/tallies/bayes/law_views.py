"""Pictures of single columns of a classifier."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.bayes.marginals import Column, domain
from tallies.html import charts
from tallies.maths import Array

CURVES = {  # of each family: its law as charts know it, what is drawn upwards, what to say, and heads of the table behind
    "gaussian": ("normal", "density given the class (per unit of {})", "A Gaussian in each class.", ["mean", "standard deviation"]),
    "poisson": ("poisson", "probability given the class", "Expected counts, Poisson in each class.", ["mean count"]),
}


def picture(
    column: Column, classes: list[str], shown: np.ndarray, rows: tuple[Array, np.ndarray] | None, most: int = 20
) -> charts.Chart:
    """The law of the column in each class, of at most `most` states; beside it, dashed, the values of `rows`, (values, class
    codes), where there are some."""
    note = f" The {len(shown)} most frequent of {len(classes)} classes." if len(shown) < len(classes) else ""
    title, legend = f"{column.name}, by class", [{"name": classes[k], "key": int(k)} for k in shown]
    if column.p is not None:
        order = np.argsort(-column.p.mean(axis=0), kind="stable")[:most]
        left = f" The {most} most common of {len(column.states)} values." if len(column.states) > most else ""
        p, states = column.p[np.ix_(shown, order)], [column.states[s] for s in order]
        series = [{**key, "values": values} for key, values in zip(legend, p, strict=True)]
        x = charts.axis("probability given the class", [0, float(p.max())])
        caption = f"How often each value occurs in each class.{left}{note}"
        return charts.bars(title, x, states, series, caption=caption, select="class", legend=legend)
    if column.family == "multinomial":
        series = [{**key, "values": [column.centre[key["key"]]]} for key in legend]
        x = charts.axis("probability that a word drawn from the class is this one", zero=True)
        return charts.bars(title, x, [column.name], series, caption=f"Share of all counts.{note}", select="class", legend=legend)
    law, upwards, caption, heads = CURVES[column.family]
    low, high = domain(column)
    sd = np.maximum(column.spread, (high - low) * 1e-3)  # a spike is drawn a thousandth wide, else it would not be seen
    given = len(heads) + 1  # a Poisson has no standard deviation of its own
    series = [{**key, "law": law, "p": [1, column.centre[k], sd[k]][:given]} for k, key in zip(shown, legend, strict=True)]
    if rows is not None:
        series += _observed(rows, shown, low, high)
        caption += " Dashed: the rows given to this report."
    x, y = charts.axis(column.name, [low, high]), charts.axis(upwards.format(column.name), zero=True)
    table = [[classes[k], column.centre[k], column.spread[k]][:given] for k in shown]
    return charts.lines(title, x, y, series, ["class", *heads], table, caption=caption + note, select="class", legend=legend)


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
