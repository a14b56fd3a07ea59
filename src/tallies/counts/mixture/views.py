"""The pictures of a mixture of PLNs: criteria of the numbers tried, how sure assignments are, clusters beside something known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tallies.counts.mixture.answers import names
from tallies.html import charts

LEVELS = np.array([0.5, 0.8, 0.9, 0.99])  # of the probability of the likeliest cluster
KINDS = 30  # categories that clusters are set beside


def tried(model: Any) -> charts.Chart | None:
    """Criteria of the numbers of components."""
    table = model.tried_.sort_index()
    if len(table) < 2:
        return None
    x = table.index.to_numpy(float)
    series = [
        {"name": name.upper(), "key": k, "x": x, "y": table[name].to_numpy(), "marks": True}
        for k, name in enumerate(("icl", "bic"))
    ]
    best = ", ".join(f"{s['name']} at {x[np.argmin(s['y'])]:g}" for s in series)
    axes = charts.axis("clusters", whole=True), charts.axis("criterion (smaller is better)")
    rows = np.column_stack([x, table[["loglik", "icl", "bic"]]]).tolist()
    heads = ["clusters", "log likelihood", "ICL", "BIC"]
    return charts.lines("How many clusters?", *axes, series, heads, rows, caption=f"Smallest: {best}.", show=True)


def sureness(model: Any) -> charts.Chart:
    """Samples by the probability of their likeliest cluster."""
    group = np.searchsorted(LEVELS, model.probabilities_.max(axis=1), side="right")
    count = np.bincount(group, minlength=len(LEVELS) + 1)[::-1]
    labels = ["99% or more", "90% to 99%", "80% to 90%", "50% to 80%", "below 50%"]
    caption = "Were the model true, of 100 samples whose cluster has a probability of 90% about 90 would be in it."
    return charts.bar("Probability of the likeliest cluster", "samples", labels, count, caption=caption)


def beside(model: Any, colour: Any) -> charts.Chart | None:
    """The first column of a table beside the clusters: how many samples of each kind are in each."""
    if colour is None:
        return None
    table = colour if isinstance(colour, Mapping) else {str(c): colour[c] for c in colour.columns}
    what, values = next(iter(table.items()))
    kinds, codes = np.unique([str(value) for value in values], return_inverse=True)
    if len(codes) != len(model.labels_) or len(kinds) > KINDS:
        return None
    counts = np.zeros((len(kinds), len(model.shares_)), dtype=int)
    np.add.at(counts, (codes, model.labels_), 1)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    texts = [[f"{n:,}" if n else "" for n in row] for row in counts]
    tips = [
        [f"{kind}, {name}\n{n:,} samples" for name, n in zip(names(model.fitted_), row, strict=True)]
        for kind, row in zip(kinds, counts, strict=True)
    ]
    look = {"domain": [0, 1], "unit": f"share of the {what}", "caption": "Samples of each kind in each cluster."}
    return charts.heat(
        f"Clusters beside {what}", "cluster", str(what), names(model.fitted_), kinds.tolist(), share, texts, tips, **look
    )
