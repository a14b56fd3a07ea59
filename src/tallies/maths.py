"""Small pieces of mathematics that more than one model uses, and that numpy and scipy do not have."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RANK_TOL = 1e-10  # eigenvalues of a correlation matrix below this are rounding: sums over 1e6 rows are good to 1e-13
FLOOR = 1e-9  # smallest variance, relative to the pooled one, that a class may have (scikit-learn's var_smoothing)


class Whitening(NamedTuple):
    """Square roots of the inverses of K covariance matrices on their common support."""

    W: Array  # (K, d, d)  Sigma_k^-1 = W_k W_k'; columns off the support are 0
    log_det: Array  # (K,)  log determinant on the support
    rank: int  # dimension of the support
    floored: NDArray[np.bool_]  # (K,)  whether a class spans less than the support, so that its smallest variances were raised


def whiten(covariances: Array, pooled: Array) -> Whitening:
    """Whiten K covariance matrices on the support of the pooled one.

    Directions without variance in any class carry no density and are left out (pseudo-inverse and pseudo-determinant).
    A class that lacks variance where others have some gets the variance FLOOR there, relative to the pooled one, so that
    all K densities are taken over the same space and can be compared. Columns are scaled first: units do not matter.

    >>> w = whiten(np.array([[[4.0, 0.0], [0.0, 0.0]]]), np.array([[4.0, 0.0], [0.0, 0.0]]))
    >>> w.rank, float(w.log_det[0]), (w.W[0] @ w.W[0].T).tolist()
    (1, 1.3862943611198906, [[0.25, 0.0], [0.0, 0.0]])
    """
    K, d = covariances.shape[:2]
    scale = np.sqrt(np.maximum(np.diag(pooled), 0.0))
    inverse = np.divide(1.0, scale, out=np.zeros(d), where=scale > 0)
    values, vectors = np.linalg.eigh(pooled * np.outer(inverse, inverse))
    V = vectors[:, values > RANK_TOL * max(values[-1], 0.0)] if d else vectors
    rank = V.shape[1]
    W, log_det, floored = np.zeros((K, d, d)), np.zeros(K), np.zeros(K, dtype=bool)
    if rank == 0:
        return Whitening(W, log_det, rank, floored)
    stretch = np.linalg.slogdet(V.T @ (V * scale[:, None] ** 2))[1]
    for k in range(K):
        spread, turn = np.linalg.eigh(V.T @ (covariances[k] * np.outer(inverse, inverse)) @ V)
        floored[k] = spread[0] < FLOOR
        spread = np.maximum(spread, FLOOR)
        W[k, :, :rank] = inverse[:, None] * (V @ turn) / np.sqrt(spread)
        log_det[k] = np.log(spread).sum() + stretch
    return Whitening(W, log_det, rank, floored)


def ledoit_wolf(n: float, covariance: Array, quartic: Array) -> Array:
    """The Ledoit-Wolf estimate, in units of each column's standard deviation, from moments about the mean.

    `quartic` is sum_i (x_j - mean_j)^2 (x_k - mean_k)^2, the only statistic it needs beyond the covariance. As in
    scikit-learn's LinearDiscriminantAnalysis(shrinkage="auto"), columns are standardised first and scaled back.
    """
    d = len(covariance)
    scale = np.sqrt(np.diag(covariance))
    scale = np.where(scale > 0, scale, 1.0)
    both = np.outer(scale, scale)
    R = covariance / both
    mu = np.trace(R) / d
    delta = (np.sum(R**2) - d * mu**2) / d
    beta = min((np.sum(quartic / both**2) / n - np.sum(R**2)) / (d * n), delta)
    amount = beta / delta if beta > 0 and d > 1 else 0.0
    return ((1 - amount) * R + amount * mu * np.eye(d)) * both


def log0(p: Array) -> Array:
    """log p, with log 0 = -inf and no warning: a class or state without weight is impossible, not an accident."""
    with np.errstate(divide="ignore"):
        return np.log(p)
