"""Stopping rules: when another sweep would change nothing, and when the numbers of a stage are none any more."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def settled(objective: Sequence[float], tol: float | None) -> bool:
    """True when the last change of the objective is within `tol` of its size.

    >>> settled([-120.0, -100.0], tol=1e-3), settled([-100.001, -100.0], tol=1e-3)
    (False, True)
    """
    if tol is None or len(objective) < 2:
        return False
    old, new = objective[-2:]
    # a non-finite value never counts as settled: it is either the start or a fault
    return math.isfinite(new - old) and abs(new - old) <= tol * max(abs(new), 1e-300)


BATCHES = 5  # parts of a window, whose means say how much a mean of neighbours that resemble each other may vary


def plateau(objective: Sequence[float], window: int, z: float = 2.0) -> bool:
    """True when a noisy objective has stopped rising: the last `window` values are no higher than those before them,
    within `z` standard errors of the difference of the two means (by batch means, since neighbours are alike).

    >>> plateau([1.0, 2.0, 3.0, 4.0], window=2), plateau([1.0, 4.0, 4.1, 3.9, 4.0], window=2)
    (False, True)
    """
    if len(objective) < 2 * window:
        return False
    late, early = np.asarray(objective[-window:]), np.asarray(objective[-2 * window : -window])
    n = min(BATCHES, window)
    spread = sum(np.var([part.mean() for part in np.array_split(half, n)], ddof=1) for half in (late, early)) if n > 1 else 0.0
    return bool(late.mean() - early.mean() <= z * math.sqrt(spread / n))


def check_end(name: str, objective: Sequence[float], stopped: str) -> None:
    """Refuse the end of a stage without a finite objective; there may be none yet where it was told to stop."""
    known = [value for value in objective if not math.isnan(value)]
    if (known and math.isinf(known[-1])) or (stopped == "converged" and not known):
        raise lost(name, objective)


def lost(name: str, objective: Sequence[float]) -> FloatingPointError:
    """What to say of a stage whose numbers are none any more."""
    finite = [f" (it was {value:.6g} after sweep {t})" for t, value in enumerate(objective, 1) if math.isfinite(value)]
    told = f"the stage {name!r}" if name else "the fit"
    return FloatingPointError(f"the objective of {told} was {objective[-1]} after sweep {len(objective)}{(finite or [''])[-1]}")
