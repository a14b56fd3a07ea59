"""Sizes of samples, as offsets on the log scale: how much of every count is due to how much was sampled.

All take counts (n, p), NaN where missing, and give log sizes (n,). A model with offset o and one with o + c differ in the
intercept only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import special, stats

from tallies.counts.filed import compact
from tallies.errors import DataError
from tallies.maths import log0


def logsum(Y: np.ndarray) -> np.ndarray:
    """Log of the row sums (total sum scaling).

    >>> logsum(np.array([[1.0, 2.0], [3.0, np.nan]])).round(3)
    array([1.099, 1.099])
    """
    total = Y.sum(axis=1) if compact(Y) else np.nansum(Y, axis=1)
    _refuse(total <= 0, "have no counts, so they have no size", "drop these rows, or pass offsets of your own")
    return np.log(total)


def css(Y: np.ndarray) -> np.ndarray:
    """Cumulative sum scaling (Paulson et al. 2013): the sum of the counts up to the quantile where samples begin to differ.

    The quantile is the first at which the median deviation of the samples' quantiles from their median rises by a tenth or more,
    but at least one half; sizes are relative to their median.
    """
    positive = np.where(Y > 0, Y, np.nan)
    _refuse((Y > 0).sum(axis=1) < 2, "have fewer than two positive counts, so they have no quantiles", 'use offsets="logsum"')
    p = Y.shape[1]
    quantiles = np.nanquantile(positive, np.linspace(0, 1, p), axis=1).T  # (n, p)
    deviation = np.median(np.abs(quantiles - np.median(quantiles, axis=0)), axis=0)
    jumps = np.flatnonzero(np.diff(deviation) >= 0.1 * deviation[:-1])
    place = max(int(jumps[0]), -(-p // 2) - 1) if len(jumps) else p - 1
    size = np.where(positive <= quantiles[:, [place]], positive, 0.0).sum(axis=1, where=~np.isnan(positive))
    return np.log(size / np.median(size))


def rle(Y: np.ndarray) -> np.ndarray:
    """Relative log expression (Anders and Huber 2010): the median ratio to the geometric mean of every column.

    Columns with a zero have no geometric mean and drop out; where that leaves none, positive counts alone are used.
    """
    logs = log0(Y)
    known = np.isfinite(logs)
    shared = known.all(axis=0)
    if shared.any():
        ratios = logs[:, shared] - logs[:, shared].mean(axis=0)
        return np.median(ratios, axis=1)
    logsum(Y)  # refuses empty rows
    means = np.where(known, logs, 0.0).sum(axis=0) / np.maximum((~np.isnan(Y)).sum(axis=0), 1)  # zeros count in the root
    return np.nanmedian(np.where(known, logs - means, np.nan), axis=1)


def gmpr(Y: np.ndarray) -> np.ndarray:
    """Geometric mean of pairwise ratios (Chen et al. 2018): of the median ratios to every other sample, over shared columns."""
    n = len(Y)
    if n < 2:
        raise DataError('offsets="gmpr" compares samples, but there is one row; use offsets="logsum"')
    logs = np.log(np.where(Y > 0, Y, np.nan))
    size = np.empty(n)
    for i in range(n):
        ratios = logs[i] - logs  # NaN unless both are positive
        some = np.isfinite(ratios).any(axis=1)
        some[i] = False
        size[i] = np.log(np.nanmedian(np.exp(ratios[some]), axis=1)).mean() if some.any() else np.nan
    _refuse(np.isnan(size), "share no column with another sample", 'drop these rows, or use offsets="logsum"')
    return size


def tmm(Y: np.ndarray) -> np.ndarray:
    """Row sums times trimmed means of log ratios (Robinson and Oshlack 2010).

    The reference is the sample whose upper quartile of proportions is closest to the mean one; the 30% most extreme log ratios and
    the 5% most extreme intensities on either side are left out, and the rest are weighted by their precision.
    """
    depth = np.exp(logsum(Y))
    share = Y / depth[:, None]
    upper = np.nanquantile(share, 0.75, axis=1)
    reference = int(np.argmin(np.abs(upper - upper.mean())))
    factors = np.zeros(len(Y))
    for i in range(len(Y)):
        both = (Y[i] > 0) & (Y[reference] > 0)
        if not both.any():
            continue
        ratio = np.log2(share[i, both] / share[reference, both])
        level = 0.5 * np.log2(share[i, both] * share[reference, both])
        spread = 1 / Y[i, both] - 1 / depth[i] + 1 / Y[reference, both] - 1 / depth[reference]
        k = both.sum()
        keep = _inside(ratio, np.floor(k * 0.3)) & _inside(level, np.floor(k * 0.05))
        if keep.any() and np.abs(ratio).max() > 1e-6:
            factors[i] = np.average(ratio[keep], weights=1 / np.maximum(spread[keep], 1e-12)) * np.log(2)
    return np.log(depth) + factors - factors.mean()


def wrench(Y: np.ndarray) -> np.ndarray:
    """Row sums times compositional factors of a hurdle log-normal model (after Kumar et al. 2018, without sample groups).

    The factor of sample i is the mean over columns of r_ij / pi_ij, weighted by pi_ij / (exp(s_j^2) - pi_ij): r is the proportion
    relative to the mean sample, pi the chance that a count is positive (logistic in the log depth, column by column), s_j^2 the
    variance of log r.
    """
    log_depth = logsum(Y)
    present = Y > 0
    share = np.where(np.isnan(Y), 0.0, Y) / np.exp(log_depth)[:, None]
    ratio = share / np.maximum(share.mean(axis=0), 1e-300)
    chance = _chances(present.astype(float), log_depth - log_depth.mean())
    logs = np.where(present, np.log(np.where(present, ratio, 1.0)), np.nan)
    logs = logs - np.nanmean(logs, axis=1, keepdims=True)
    variance = pd.DataFrame(logs).var().fillna(np.inf).to_numpy()  # of a column that is present once or never: none
    weight = chance / np.maximum(np.exp(np.minimum(variance, 50.0)) - chance, 1e-6)
    factor = (weight * ratio / chance).sum(axis=1) / weight.sum(axis=1)
    logs_factor = np.log(np.maximum(factor, 1e-12))
    return log_depth + logs_factor - logs_factor.mean()


OFFSETS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{rule.__name__: rule for rule in (logsum, css, rle, gmpr, tmm, wrench)},
    "tss": logsum,
}


def _inside(values: np.ndarray, cut: float) -> np.ndarray:
    """Which values are not among the `cut` lowest or highest."""
    ranks = stats.rankdata(values)
    return (ranks >= cut + 1) & (ranks <= len(values) - cut)


def _chances(present: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Logistic regression of every column on x, with half a count of each kind so that no coefficient runs away."""
    n = len(x)
    rate = (present.sum(axis=0) + 0.5) / (n + 1)
    a, b = np.log(rate / (1 - rate)), np.zeros(present.shape[1])
    for _ in range(25):
        pi = special.expit(a + x[:, None] * b)
        v = pi * (1 - pi)
        # a ridge of 1 on the slope: depth alone rarely moves the log odds by more than its own logarithm
        haa, hab, hbb = v.sum(axis=0) + 1e-3, x @ v, (x * x) @ v + 1.0
        ga, gb = (present - pi).sum(axis=0), x @ (present - pi) - b
        det = haa * hbb - hab * hab
        a = np.clip(a + np.clip((hbb * ga - hab * gb) / det, -2, 2), -20, 20)
        b = np.clip(b + np.clip((haa * gb - hab * ga) / det, -2, 2), -20, 20)
    return np.clip(special.expit(a + x[:, None] * b), 1e-3, 1.0)


def _refuse(bad: np.ndarray, why: str, remedy: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        raise DataError(f"rows {rows[:5].tolist()}{' ...' if len(rows) > 5 else ''} {why}; {remedy}")
