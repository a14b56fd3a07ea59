"""Small pieces of mathematics that more than one model uses, and that numpy and scipy do not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from tallies.forms import Form

Array = np.ndarray[Any, np.dtype[np.float64]]  # not NDArray, which is no type any more in NumPy 2.5: forms look at it

LOG_2PI = float(np.log(2 * np.pi))
RANK_TOL = 1e-10  # eigenvalues of a correlation matrix below this are rounding: sums over 1e6 rows are good to 1e-13
SAME = 1e-13  # a column that varies by less, relative to its size, is constant: the rest is rounding of its values
FLOOR = 1e-9  # smallest variance, relative to the pooled one, that a class may have (scikit-learn's var_smoothing)


class Whitening(NamedTuple):
    """Square roots of the inverses of G covariance matrices on their common support."""

    W: Annotated[Array, Form("G d d", "f")]  # Sigma_g^-1 = W_g W_g'; columns off the support are 0
    log_det: Annotated[Array, Form("G", "f")]  # log determinant on the support
    rank: Annotated[int, Form(kind="i", low=0, below="d+1")]  # dimension of the support
    # whether a class spans less than the support, so that its smallest variances were raised
    floored: Annotated[np.ndarray, Form("G", "b")]


def whiten(covariances: Array, pooled: Array, size: Array | float = 0.0) -> Whitening:
    """Whiten K covariance matrices on the support of the pooled one; `size` is how large the values of each column are.

    Directions without variance in any class carry no density and are left out (pseudo-inverse and pseudo-determinant).
    A class that lacks variance where others have some gets the variance FLOOR there, relative to the pooled one, so that
    all K densities are taken over the same space and can be compared. Columns are scaled first: units do not matter.

    >>> w = whiten(np.array([[[4.0, 0.0], [0.0, 0.0]]]), np.array([[4.0, 0.0], [0.0, 0.0]]))
    >>> w.rank, float(w.log_det[0]), (w.W[0] @ w.W[0].T).tolist()
    (1, 1.3862943611198906, [[0.25, 0.0], [0.0, 0.0]])
    """
    K, d = covariances.shape[:2]
    scale = np.sqrt(np.maximum(np.diag(pooled), 0.0))
    # a spread whose square nearly leaves the range of floats is none, too
    inverse = np.divide(1.0, scale, out=np.zeros(d), where=scale > np.maximum(SAME * size, 1e-100))
    values, vectors = np.linalg.eigh(pooled * np.outer(inverse, inverse))
    V = vectors[:, values > RANK_TOL]
    rank = V.shape[1]
    W, log_det, floored = np.zeros((K, d, d)), np.zeros(K), np.zeros(K, dtype=bool)
    used = inverse > 0
    if rank == used.sum():
        stretch = 2 * np.log(scale[used]).sum()
    else:
        stretch = 2 * np.log(np.maximum(np.linalg.svd(V * scale[:, None], compute_uv=False), 1e-300)).sum()
    for k in range(K):
        if np.array_equal(covariances[k], pooled):  # as where all classes share one
            spread, turned = values[values > RANK_TOL], V
        else:
            spread, turn = np.linalg.eigh(V.T @ (covariances[k] * np.outer(inverse, inverse)) @ V)
            turned = V @ turn
        floored[k] = (spread < FLOOR).any()
        spread = np.maximum(spread, FLOOR)
        W[k, :, :rank] = inverse[:, None] * turned / np.sqrt(spread)
        log_det[k] = np.log(spread).sum() + stretch
    return Whitening(W, log_det, rank, floored)


def ledoit_wolf(n: float, covariance: Array, quartic: Array, size: Array | float = 0.0) -> Array:
    """The Ledoit-Wolf estimate, in units of each column's standard deviation, from moments about the mean.

    `quartic` is sum_i (x_j - mean_j)^2 (x_k - mean_k)^2, the only statistic it needs beyond the covariance. As in
    scikit-learn's LinearDiscriminantAnalysis(shrinkage="auto"), columns are standardised first and scaled back.
    """
    d = len(covariance)
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.where(scale > SAME * size, scale, 1.0)  # a constant column stays as it is
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


def log_density(X: np.ndarray, mean: Array, root: Whitening, relative: bool) -> Array:
    """log N(x | mean_k, Sigma_k), (n, K), for one Sigma or K of them; if `relative`, one Sigma up to a term for the row."""
    W, log_det, rank, _ = root
    constant = -0.5 * (rank * LOG_2PI + log_det)
    if len(W) > 1 or len(mean) == 1:
        return np.stack([c - 0.5 * np.square((X - m) @ w).sum(axis=1) for m, w, c in zip(mean, W, constant, strict=True)], axis=1)
    if relative:
        coef, offset = linear(mean, root, 0.0)
        return X @ coef.T + offset
    centre = mean.mean(axis=0)  # squares of distances from a point amidst the classes: no digits are lost to a common offset
    nu = (mean - centre) @ W[0]
    Y = (X - centre) @ W[0]
    return Y @ nu.T - 0.5 * np.square(nu).sum(axis=1) - 0.5 * np.square(Y).sum(axis=1)[:, None] + constant


def linear(mean: Array, root: Whitening, log_prior: Array | float) -> tuple[Array, Array]:
    """coef (K, d) and offset (K,) such that, with one Sigma, log p(x, k) is coef_k'x + offset_k up to a term for the row.

    Taken about the centre of the means; the product with x itself loses no more than the rounding of x.
    """
    centre = mean.mean(axis=0)
    nu = (mean - centre) @ root.W[0]
    coef = nu @ root.W[0].T
    return coef, log_prior - 0.5 * np.square(nu).sum(axis=1) - coef @ centre


def patterns(X: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Which cells are NaN, and the rows where just these are: one pair for each pattern of gaps in X."""
    if not len(X):
        return
    found, group = np.unique(np.isnan(X), axis=0, return_inverse=True)
    order = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group, minlength=len(found)))
    yield from zip(found, np.split(order, ends[:-1]), strict=True)


def regression(covariance: Array, gaps: np.ndarray, size: Array) -> tuple[Array, Array]:
    """Slope of the missing cells on the observed ones, and their covariance given them (pseudo-inverse where singular)."""
    m, o = np.flatnonzero(gaps), np.flatnonzero(~gaps)
    inner = covariance[o[:, None], o]
    W = whiten(inner[None], inner, size[o]).W[0]
    slope = covariance[m[:, None], o] @ W @ W.T
    return slope, covariance[m[:, None], m] - slope @ covariance[o[:, None], m]


def dot0(n: Array, log_p: Array) -> float:
    """sum n log p, where what never happened counts for nothing, even if it was impossible: 0 log 0 = 0."""
    return float(np.sum(n * np.where(n > 0, log_p, 0.0)))


def pointer(sizes: Any) -> np.ndarray:
    """Where pieces of these sizes begin, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def ragged(rows: Sequence[Sequence[Any]], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows of unequal length as (pointer, values).

    >>> ragged([[4, 5], [], [6]], np.int32)
    (array([0, 2, 2, 3]), array([4, 5, 6], dtype=int32))
    """
    return pointer([len(row) for row in rows]), np.array([v for row in rows for v in row], dtype=dtype)


def limit(seen: Array) -> Array:
    """Where iterates (k, m) lead: their mean with the weights by which their moves add up to most nearly 0 (Anderson 1965).

    >>> limit(3.0 + np.array([[1.0, 1.0], [0.5, 0.9], [0.25, 0.81], [0.125, 0.729]])).round(3).tolist()
    [3.0, 3.0]
    """
    moves = np.diff(seen, axis=0)
    A = moves @ moves.T
    if not np.trace(A) > 0:
        return np.asarray(seen[-1])  # they have arrived
    weights = np.linalg.solve(A + 1e-10 * np.trace(A) * np.eye(len(A)), np.ones(len(A)))
    return np.asarray(weights @ seen[1:] / weights.sum())


def told_apart(values: Array, digits: int) -> list[str]:
    """Different numbers in so many digits, or in as many as tell them apart.

    >>> told_apart(np.array([0.5, 2 / 3]), 4), told_apart(np.array([1700000100.0, 1700000200.0]), 4)
    (['0.5', '0.6667'], ['1700000100', '1700000200'])
    """
    whole = len(str(int(np.abs(values).max())))  # digits from which on none is written as a power of ten
    enough = (digits, *range(min(max(digits + 1, whole), 17), 18))
    return next(found for k in enough if len(set(found := [f"{value:.{k}g}" for value in values])) == len(values))
