"""Charts of pages drawn with matplotlib (extra: plots): a description from `charts` in, axes out.

What `assets/charts.js` draws in a page is drawn here from the same dictionary, in the same colours, shapes and order; what only a
page can do (tooltips, selecting) is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import norm, poisson

from tallies.errors import need
from tallies.html.charts import Chart

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#b4528c", "#b87d00", "#6b5fb5", "#8c4a1f", "#4d4d4d"]  # as in page.css
COLOURS += ["#7a8a00", "#a3122a", "#d61fb0", "#24502a"]
SIGN = ["#0555a0", "#78afdc", "#ffffff", "#f0966e", "#b22814"]  # as in charts.js: white at zero
DASHES = ["-", (0, (7, 4)), (0, (2, 3)), (0, (9, 3, 2, 3))]
LABELS = 80  # names beside a matrix that can still be read
LAW_POINTS = 241  # at which a density is drawn
SOFT = "0.4"


def draw(chart: Chart, ax: Any = None, item: int | None = None) -> Any:
    """Draw a chart on `ax`, or on new axes of a size that suits it, and return them.

    Of a chart that follows a selector, the view of `item` is drawn; of None, what a page shows while nothing is selected.

    >>> from tallies.html import charts
    >>> ax = draw(charts.bar("Fruit", "kg", ["plum", "pear"], [3.0, 1.5]))
    >>> [float(bar.get_width()) for bar in ax.patches], ax.get_xlabel()
    ([3.0, 1.5], 'kg')
    """
    if "views" in chart:
        chart = chart["none"] if item is None else chart["views"][item]
    chart = _ranked(chart) if "slide" in chart else chart
    paint, size = _KINDS[chart["kind"]]
    if ax is None:
        pyplot = need("matplotlib.pyplot", "plots", "A plot", "matplotlib")
        ax = pyplot.subplots(figsize=size(chart), layout="constrained")[1]
    paint(chart, ax)
    ax.set_title(chart["title"])
    for name, axis in ((name, chart[name]) for name in "xy" if name in chart):
        scale = {f"{name}scale": "log"} if axis.get("log") else {}
        ends = axis.get("domain") or ((0, None) if axis.get("zero") else None)  # None: matplotlib's, which leave room
        ax.set(**scale, **{f"{name}label": axis["title"]}, **({f"{name}lim": ends} if ends else {}))
    if chart.get("bare"):
        ax.set_axis_off()
        ax.margins(0.25)
    if chart.get("equal"):
        ax.set_aspect("equal")
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False, fontsize=8)
    return ax


def _colour(k: int) -> str:
    return COLOURS[k % len(COLOURS)]


def _marker(k: int) -> str:
    return "os^D"[(k + k // len(COLOURS)) % 4]


def _dash(k: int) -> Any:
    return DASHES[k // len(COLOURS) % 4]


def _ranked(chart: Chart) -> Chart:
    """Words by relevance, where the slider of the page stands at first."""
    inside, every = np.asarray(chart["inside"]), np.asarray(chart["all"])
    best = np.argsort((1 - chart["slide"]["value"]) * np.log(every) - np.log(inside), kind="stable")[: chart["most"]]
    behind = {"name": chart["behindName"], "values": every[best]}
    series = [{"name": "", "values": inside[best]}]
    return chart | {"labels": [chart["words"][i] for i in best], "series": series, "behind": behind}


def _lines(chart: Chart, ax: Any) -> None:
    if chart.get("diagonal"):
        ax.plot(*[chart["x"]["domain"]] * 2, color=SOFT, linestyle="--", linewidth=1)
    if "band" in chart:
        ax.axvspan(*chart["band"], color="0.5", alpha=0.12, linewidth=0)
    if "mark" in chart:
        ax.axvline(chart["mark"], color=COLOURS[1], linewidth=1)
    for i, s in enumerate(chart["series"]):
        s = _law(s, chart["x"]["domain"]) if "law" in s else s
        x, y, k = np.asarray(s["x"]), np.asarray(s["y"], dtype=float), s.get("colour", s.get("key", i))
        style: dict[str, Any] = {
            "color": _colour(k),
            "linestyle": "--" if s.get("dash") else _dash(k),
            "linewidth": 1.5,
        }
        style |= {"label": s.get("name") or None, "drawstyle": "steps-post" if s.get("step") else "default"}
        style |= {"marker": _marker(k), "markersize": 4} if s.get("marks") else {}
        ax.errorbar(x, y, _errors(s, y), **style)
        if s.get("fill"):
            ax.fill_between(x, y, step="post" if s.get("step") else None, color=_colour(k), alpha=0.12, linewidth=0)


def _errors(series: dict[str, Any], middle: np.ndarray) -> Any:
    """How far its ends are from the middle, where it has any; rounding can put one on the wrong side."""
    return np.maximum([middle - series["low"], series["high"] - middle], 0) if "low" in series else None


def _law(series: dict[str, Any], domain: list[float]) -> dict[str, Any]:
    """A series given by its law: the points at which it is drawn."""
    (low, high), (weight, *p) = domain, series["p"]
    if series["law"] == "normal":
        x = np.linspace(low, high, LAW_POINTS)
        return series | {"x": x, "y": weight * norm.pdf(x, *p), "fill": True}
    x = np.arange(np.ceil(low), high + 1e-9, max(1, np.ceil((high - low) / 160)))
    return series | {"x": x, "y": weight * poisson.pmf(x, *p), "marks": len(x) < 40}


def _bars(chart: Chart, ax: Any) -> None:
    at, many, behind = np.arange(len(chart["labels"])), len(chart["series"]), chart.get("behind")
    if behind:
        ax.barh(at, behind["values"], color="0.8", label=behind["name"])
    for g, s in enumerate(chart["series"]):
        values, thick = np.asarray(s["values"], dtype=float), 0.8 / many
        signed = many == 1 and "key" not in s and (values < 0).any()  # red for, blue against
        colour = [COLOURS[int(v > 0)] for v in values] if signed else _colour(s.get("key", s.get("colour", g)))
        place, height = at + (g - (many - 1) / 2) * thick, thick * (0.6 if behind else 1)
        style = {"ecolor": "0.1", "capsize": 3, "label": s.get("name") or None}
        drawn = ax.barh(place, values, height, color=colour, xerr=_errors(s, values), **style)
        if thick >= 0.4:  # room for a number at each
            ax.bar_label(drawn, [f"{value:.3g}" for value in values], padding=3, fontsize=7)
    ax.axvline(0, color="0.3", linewidth=1)
    ax.margins(x=0.12)  # room for the numbers
    ax.set_yticks(at, [str(label) for label in chart["labels"]], fontsize=8)
    ax.invert_yaxis()  # from the top down, as a ranking is read


def _heat(chart: Chart, ax: Any) -> None:
    values = np.asarray(chart["values"], dtype=float)
    low, high = chart.get("domain") or (np.nanmin(values), np.nanmax(values))
    colours: Any = "Blues" if chart.get("flip") else "cividis"
    if chart.get("scale") == "sign":
        high = max(abs(low), abs(high))
        low, colours = -high, need("matplotlib.colors", "plots", "A plot").LinearSegmentedColormap.from_list("sign", SIGN)
    aspect = "equal" if values.shape[0] == values.shape[1] else "auto"
    image = ax.imshow(values, cmap=colours, vmin=low, vmax=high, aspect=aspect, interpolation="nearest")
    for names, ticks, turn in ((chart["across"], ax.set_xticks, 90), (chart["down"], ax.set_yticks, 0)):
        names = [str(name) for name in names] if len(names) <= LABELS else []
        ticks(range(len(names)), names, rotation=turn, fontsize=8)
    ax.set_facecolor("0.9")  # seen where a cell is left out, such as on a diagonal
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label=chart.get("unit", ""))
    for (i, j), share in np.ndenumerate(image.norm(values)):
        if "texts" in chart and chart["texts"][i][j]:
            light = abs(share - 0.5) > 0.3 if chart.get("scale") == "sign" else (share > 0.5) == (colours == "Blues")
            ax.text(j, i, chart["texts"][i][j], ha="center", va="center", color="white" if light else "black", fontsize=8)


def _points(chart: Chart, ax: Any) -> None:
    x, y, group = (np.asarray(chart[name]) for name in ("px", "py", "group"))
    called = {part["key"]: part["name"] for part in chart.get("legend", ())}
    for o in chart.get("outlines", ()):
        edge = [np.append(o[axis], o[axis][0]) for axis in "xy"]
        ax.plot(*edge, color=_colour(o["key"]), linestyle=_dash(o["key"]), label=called.pop(o["key"], None))
        ax.fill(*edge, color=_colour(o["key"]), alpha=0.08)
    for link in chart.get("links", ()):
        a, b = ((x[link[end]], y[link[end]]) for end in "ab")
        style = {"color": _colour(link.get("colour", 0)), "linewidth": 0.3 + 3 * link["w"], "alpha": 0.3 + 0.7 * link["w"]}
        ax.annotate("", b, a, arrowprops={"arrowstyle": "->" if chart.get("directed") else "-", **style})
    if "values" in chart:
        dots = ax.scatter(x, y, c=np.asarray(chart["values"], dtype=float), cmap="cividis", s=18, linewidth=0)
        ax.figure.colorbar(dots, ax=ax, label=chart.get("amount", ""))
    elif "sizes" in chart:
        ax.scatter(x, y, s=1500 * np.asarray(chart["sizes"]), color=COLOURS[0], alpha=0.3, edgecolor=COLOURS[0])
        ax.margins(0.15)
    else:
        size = 18 if len(x) <= 800 else 6
        for k in np.unique(group).tolist():
            mine = group == k
            ax.scatter(x[mine], y[mine], s=size, color=_colour(k), alpha=0.75, marker=_marker(k), linewidth=0, label=called.get(k))
    if chart.get("rings") is not None:
        ringed = np.asarray(chart["rings"], dtype=bool)
        ax.scatter(x[ringed], y[ringed], s=70, facecolor="none", edgecolor="0.2", linewidth=1)
    if chart.get("diagonal"):
        ends = np.array([max(x.min(), y.min()), min(x.max(), y.max())])
        ax.plot(ends, ends, color=SOFT, linestyle="--", linewidth=1)
    for o in chart.get("arrows", ()):
        ax.annotate("", (o["x"], o["y"]), (0, 0), arrowprops={"arrowstyle": "->", "color": "0.2"})
        ax.update_datalim([(1.1 * o["x"], 1.1 * o["y"])])
    out = 1 if "sizes" in chart else 1.12  # words stand on circles, but outside of small points around the middle
    words = [(out * a, out * b, word) for a, b, word in zip(x, y, chart.get("words", ()), strict=False)]
    words += [(1.06 * o["x"], 1.06 * o["y"], o["text"]) for o in chart.get("arrows", ())]
    for a, b, word in [*words, *((name["x"], name["y"], name["text"]) for name in chart.get("names", ()))]:
        ax.text(a, b, word, ha="center", va="center", fontsize=8)


_KINDS: dict[str, tuple[Callable[[Chart, Any], None], Callable[[Chart], tuple[float, float]]]] = {  # how, and how large
    "lines": (_lines, lambda chart: (6.0, 4.0) if not chart.get("diagonal") else (4.8, 4.8)),
    "bars": (_bars, lambda chart: (6.0, 0.28 * len(chart["labels"]) * max(1.0, 0.5 * len(chart["series"])) + 1.2)),
    "heat": (_heat, lambda chart: (0.3 * min(len(chart["across"]), 80) + 4.5, 0.3 * min(len(chart["down"]), 80) + 2.5)),
    "points": (_points, lambda chart: (6.0, 5.0) if not chart.get("bare") else (6.0, 6.0)),
}
