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
