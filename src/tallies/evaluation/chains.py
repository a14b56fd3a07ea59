"""Do several chains tell the same story? Split R-hat, effective sample size, and matching of topics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment


def r_hat(chains: Sequence[np.ndarray] | np.ndarray) -> float:
    """Split R-hat (Gelman et al.): each chain is cut in halves, and the spread between halves compared with that within.

    >>> rng = np.random.default_rng(0)
    >>> together, apart = rng.normal(size=(3, 500)), rng.normal(size=(3, 500)) + [[0], [5], [9]]
    >>> r_hat(together) < 1.02, r_hat(apart) > 2
    (True, True)
    """
    n = min(len(c) for c in chains) // 2
    if n < 2:
        return float("nan")
    halves = np.array([part for c in chains for part in (c[-2 * n : -n], c[-n:])], dtype=float)
    within = halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    return float(np.sqrt((n - 1) / n + between / within)) if within > 0 else float("nan")


def effective_size(chains: Sequence[np.ndarray]) -> float:
    """Effective number of independent draws, by Geyer's initial monotone sequence of the pooled autocorrelations."""
    n, m = min(len(c) for c in chains), len(chains)
    if n < 4:
        return float("nan")
    draws = np.array([c[-n:] for c in chains], dtype=float)
    centred = draws - draws.mean(axis=1, keepdims=True)
    covariance = np.mean([np.correlate(c, c, "full")[n - 1 :] for c in centred], axis=0) / n  # at each lag
    within = covariance[0] * n / (n - 1)
    total = within * (n - 1) / n + (draws.mean(axis=1).var(ddof=1) if m > 1 else 0.0)
    if total <= 0:
        return float("nan")
    rho = 1 - (within - covariance) / total
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: negative[0]] if len(negative) else pairs)
    return float(m * n / max(2 * pairs.sum() - 1, 1 / np.log10(max(m * n, 10))))


def match(reference: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which topic of `other` (K, V) belongs to each of `reference`, one to one, and how alike they are (cosine).

    >>> phi = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    >>> match(phi, phi[::-1])[0].tolist()
    [1, 0]
    """
    a, b = (p / np.linalg.norm(p, axis=1, keepdims=True) for p in (reference, other))
    likeness = a @ b.T
    rows, columns = linear_sum_assignment(-likeness)
    return columns, likeness[rows, columns]
