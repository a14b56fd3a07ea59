"""Plots of fitted models (extra: matplotlib). Every function draws on an axes and returns it."""

from __future__ import annotations

from typing import Any

from tallies.errors import MissingExtra


def axes(ax: Any, width: float = 6.0, height: float = 5.0) -> Any:
    """The axes given, or new ones."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtra("matplotlib", "plots", "A plot") from error
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def bars(ax: Any, names: Any, values: Any, label: str, title: str, errors: Any = None) -> Any:
    """Horizontal bars from the top down, as a ranking is read; where some are negative, red speaks for and blue against."""
    place, signed = range(len(names)), any(v < 0 for v in values)
    colours = ["#d55e00" if v > 0 else "#0072b2" for v in values] if signed else "#0072b2"
    ax.barh(place, values, color=colours, xerr=errors, ecolor="0.4")
    ax.set_yticks(place, [str(name) for name in names], fontsize=8)
    ax.invert_yaxis()
    ax.axvline(0, color="0.3", linewidth=1)
    ax.set(xlabel=label, title=title)
    return ax
