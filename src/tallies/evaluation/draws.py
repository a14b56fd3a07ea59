"""Draws as ArviZ has them: groups of named arrays, for its summaries, plots and diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallies.errors import need

Group = Mapping[str, tuple[tuple[str, ...], Any]]  # of each variable its dimensions and its values


def inference_data(coords: Mapping[str, Any], **groups: Group) -> Any:
    """An `arviz.InferenceData`, or from ArviZ 1 on the tree of xarray in its place; `coords` are names along dimensions."""
    arviz = need("arviz", "arviz", "to_arviz")
    xarray = need("xarray", "arviz", "to_arviz")
    sets = {}
    for name, variables in groups.items():
        used = {dimension for dimensions, _ in variables.values() for dimension in dimensions}
        mine = {dimension: values for dimension, values in coords.items() if dimension in used}
        sets[name] = xarray.Dataset(variables, mine, {"inference_library": "tallies"})
    tree = int(arviz.__version__.partition(".")[0]) >= 1
    return xarray.DataTree.from_dict(sets) if tree else arviz.InferenceData(**sets)
