"""The plan of a large network: its ridge by held-out rows, then all outputs, panel by panel (`panels`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tallies.categories.choose import NETWORK_TOL, PATH_SWEEPS, Ground, Tried
from tallies.categories.model import Rows
from tallies.categories.network.climb import PAD
from tallies.categories.network.panels import STEPS, WIDTH, Course, Judging, Outputs, table_of
from tallies.categories.products import starts_of
from tallies.categories.terms import Layout
from tallies.engine import End, Kept, Stage
from tallies.errors import DataError
from tallies.maths import Array

MANY = 512  # states of all variables from which panels may be faster than products of all outputs at once
WIDEST = 3000  # states up to which those stay within their limit of memory
LIMIT = 16 << 30  # bytes that a fit may hold
JUDGED = 200  # outputs that choose the ridge: of more, so many drawn at random


def suits(layout: Layout, solver: str, l: int, threads: int) -> bool:
    """Whether a network is fitted panel by panel: where that picks fewer numbers than products of matrices would multiply."""
    n, M = len(layout.sizes), sum(layout.sizes)
    if solver == "fem" or layout.degrees != (1,) or M < MANY:
        return False
    if (held := memory(layout.sizes, l, threads)) > LIMIT:
        raise DataError(
            f"a network of {n} variables with {M:,} states would need {held / 2**30:,.1f} GiB (limit {LIMIT / 2**30:.0f}); "
            "leave out variables, or bin those with many states"
        )
    return M > WIDEST or (M - n) ** 2 > 2 * n * M


def memory(sizes: tuple[int, ...], l: int, threads: int) -> float:
    """Bytes that a fit holds: W before and after a sweep, the codes, and the search of one panel on each thread.

    >>> round(memory((21,) * 1000, 10_000, 2) / 2**30, 1)
    4.4
    """
    n, M = len(sizes), sum(sizes)
    width = -(-max(WIDTH, max(sizes)) // PAD) * PAD
    return 8.0 * (M + n) * M + 8.0 * l * n + threads * 4.0 * (M + n) * width * (2 * STEPS + 10)


def final(model: Outputs, rows: Rows, most: int, pair_ridges: Array | None) -> Stage:
    """The fit to all rows, which keeps W (p, M)."""
    panels, starts, p = model.panels(range(len(model.sizes))), starts_of(model.sizes), sum(model.sizes)

    def keep(end: End) -> np.ndarray:
        W, present = np.empty((p, p), np.float32), np.delete(np.arange(int(model.first[-1])), model.first[1:] - 1)
        for panel, part in zip(panels, end.rows, strict=True):
            W[:, starts[panel.outputs[0]] : starts[panel.outputs[-1] + 1]] = part[present]
        return W

    return Stage("", model, panels, keep, most, start=Course(pair_ridges), rows=True, shared=table_of(rows, model.sizes))


def ground(model: Outputs, seen: Rows, unseen: Rows, seed: int) -> Ground:
    """On what ridges are tried: all outputs, or some of many; these know too little of the couplings to give pairs their own."""
    n = len(model.sizes)
    some = np.arange(n) if n <= JUDGED else np.sort(np.random.default_rng(seed % 2**32).permutation(n)[:JUDGED])
    table = table_of(seen, model.sizes, table_of(unseen, model.sizes))
    judging = Judging(model.sizes, model.exclude)
    weight = float(np.broadcast_to(unseen.weight, unseen.Y.shape)[:, some].sum())
    panels = judging.panels(some.tolist())

    def stage(name: str, ridge: float, before: Kept | None, best: float, pair_ridges: Array | None) -> Stage:
        tried = replace(judging, ridge=ridge, tol=NETWORK_TOL)
        latents = None if before is None else before.latents
        return Stage(name, tried, panels, keep, PATH_SWEEPS, Course(pair_ridges), latents, rows=True, shared=table)

    def keep(end: End) -> Tried:
        told, sizes = sum(panel.told for panel in end.rows), np.hstack([panel.sizes for panel in end.rows])
        mutual = (sizes + sizes.T) / 2 if model.exclude and n <= JUDGED else sizes
        return Tried(told, None, mutual if n <= JUDGED else None)

    made: Any = model
    return Ground(made, [], weight, by_pair=n <= JUDGED, tol=NETWORK_TOL, stage=stage)
