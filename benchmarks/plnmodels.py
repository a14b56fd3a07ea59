"""Fits of pyPLNmodels as they go: its bound after so many CPU seconds, and how soon a curve is near where another ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Curve = list[tuple[float, float]]  # CPU seconds, bound
NEAR = 1e-4  # bounds within this share of another count as equal


@contextmanager
def watched() -> Iterator[Curve]:
    """The curve of a fit in here, by pyPLNmodels' own measure; it begins now."""
    from pyPLNmodels.utils import _criterion

    curve: Curve = []
    monitor, start = _criterion._ElboCriterionMonitor, time.process_time()
    before = monitor.update_criterion

    def update(self: Any, elbo: Any) -> Any:
        curve.append((time.process_time() - start, float(elbo)))
        return before(self, elbo)

    monitor.update_criterion = update
    try:
        yield curve
    finally:
        monitor.update_criterion = before


def reach(curve: Curve, target: float) -> float:
    return next((t for t, e in curve if e >= target), float("nan"))


def near(curve: Curve, end: float | None = None) -> float:
    """Seconds until the curve is near this bound, or near its own last one."""
    end = curve[-1][1] if end is None else end
    return reach(curve, end - NEAR * abs(end))
