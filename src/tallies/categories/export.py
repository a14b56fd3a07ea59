"""The scoring of a FEM as plain data: how columns are coded, and a table of weights for every term."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.categories.answers import Scorer, listed, readable
from tallies.categories.fitted import Fitted
from tallies.categories.terms import Layout, terms_of, zero_sum
from tallies.data.scoring import numbers, values
from tallies.errors import DataError
from tallies.maths import Array


def columns(fitted: Fitted) -> list[dict[str, Any]]:
    """Of each column its name (None where the table had none), its states or the cut points between them, and the code of a gap."""
    names = [None] * fitted.inputs.n if fitted.inputs.names is None else fitted.inputs.names.tolist()
    found = []
    for name, (told, _, states, edges, gap) in zip(names, zip(*fitted.categories, strict=True), strict=True):
        kind = {"kind": "categorical", "states": values(states, f"the states of the column {told!r}")}
        how = kind if edges is None else {"kind": "binned", "edges": numbers(edges)}
        found.append({"name": name, **how, "gap": None if gap < 0 else gap})
    return found


def scorer(layout: Layout, W: Array, rows: np.ndarray | None, gauge: bool) -> Scorer:
    """Weights that score any row, also one with gaps, where a term without a state adds nothing: `gauge` for that in the mean over
    states, else as fitted; from dual weights where there are rows."""
    if not readable(layout, rows):
        raise DataError(
            f"degree {max(layout.degrees)} of {len(layout.sizes)} variables has too many weights to write down; lower degree, or "
            "keep the strongest pairs with screen"
        )
    W, terms = listed(W, layout, rows), terms_of(layout)
    return Scorer(*zero_sum(terms, W, np.array([0, W.shape[1]]))) if gauge else Scorer(np.zeros(W.shape[1]), terms, W)


def weights(scorer: Scorer) -> dict[str, Any]:
    """The bias, and for each term its columns and the weights of its combinations of states, the last column's running fastest."""
    terms = scorer.terms
    blocks = (scorer.W[first:end] for first, end in zip(terms.offset[:-1], terms.offset[1:], strict=True))
    listed = [{"columns": list(group), "weights": numbers(block)} for group, block in zip(terms.all(), blocks, strict=True)]
    return {"bias": numbers(scorer.bias), "terms": listed}
