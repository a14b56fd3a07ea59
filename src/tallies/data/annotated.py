"""Fits into an AnnData: beside its matrix, which is neither read nor copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tallies.errors import DataError

AXES = ("rows", "obs_names"), ("columns", "var_names")


def annotate(data: Any, rows: Mapping[str, Any], columns: Mapping[str, Any], key: str, about: Mapping[str, Any]) -> Any:
    """Put tables of rows into obsm, of columns into varm, and words and numbers about the fit into uns[key]; None is left out."""
    for place, tables in ((data.obsm, rows), (data.varm, columns)):
        for name, table in tables.items():
            if table is not None:
                place[name] = np.asarray(table)
    data.uns[key] = {name: value for name, value in about.items() if value is not None}
    return data


def check(data: Any, n: int | None, p: int, samples: np.ndarray | None, names: np.ndarray | None) -> None:
    """Refuse an AnnData whose rows (n of them, None: any) or columns are not those of the fit, in order; names are compared where
    the fit had any."""
    if not (hasattr(data, "obsm") and hasattr(data, "varm") and hasattr(data, "uns")):
        raise DataError(f"expected an AnnData to write into, got {type(data).__name__}; pass the one that was fitted")
    for (what, attribute), size, known in zip(AXES, (n, p), (samples, names), strict=True):
        found = np.asarray(getattr(data, attribute), dtype=object)
        if size is not None and len(found) != size:
            raise DataError(f"the fit has {size:,} {what}, but the AnnData has {len(found):,}; pass the one that was fitted")
        if known is None or size is None:
            continue
        wrong = np.flatnonzero(found.astype(str) != np.asarray(known).astype(str))
        if len(wrong):
            i, sort = int(wrong[0]), set(map(str, found)) == set(map(str, known))
            advice = f"they are the same in another order: sort it by {attribute}" if sort else "pass the one that was fitted"
            raise DataError(
                f"the {what} of the AnnData are not those of the fit: {attribute}[{i}] is {found[i]!r}, and was {known[i]!r} there"
                f"; {advice}"
            )
