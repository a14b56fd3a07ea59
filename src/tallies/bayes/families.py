"""The distributions of single columns given the class: what a tally of each is, and what follows from it.

    gaussian      x_j | k ~ N(mu_kj, v_kj)         v = ss / n + FLOOR * largest variance of a column (as scikit-learn)
    categorical   x_j | k ~ Categorical(p_kj)      p = (count + a) / (n + a * states);   bernoulli: the states False, True
    poisson       x_j | k ~ Poisson(rate_kj)       rate = (sum + a * overall mean) / (n + a): a rows of the overall mean
    multinomial   x | k   ~ Multinomial(p_k)       p = (count + a) / (total + a * columns), given the row's total

a is `smoothing`. Every family has: `tally` of rows, `estimate` from the total, `add_scores` of log p(x|k), `log_likelihood` of
the rows that were tallied, `penalty` (log prior that smoothing stands for), `draw`, and `merge` of two estimates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from tallies.bayes.kernels import columns as bayes
from tallies.bayes.kernels import moments
from tallies.data.table import Sparse
from tallies.maths import FLOOR, Array, dot0, log0

LOG_FACTORIALS = gammaln(np.arange(1024) + 1.0)


class GaussianTally(NamedTuple):
    n: Array  # (K, d)  weight of observed cells
    s: Array  # (K, d)  sum w (x - c)
    ss: Array  # (K, d)  sum w (x - c)^2


class GaussianParams(NamedTuple):
    n: Array  # (K, d)  weight of observed cells
    mean: Array  # (K, d)
    ss: Array  # (K, d)  sum w (x - mean)^2
    variance: Array  # (K, d)


class Gaussian:
    """Columns that are Gaussian given the class; NaN is missing."""

    @staticmethod
    def tally(X: np.ndarray, y: np.ndarray, weight: Array, centre: Array) -> GaussianTally:
        return GaussianTally(*moments.class_squares(X, y, weight, centre))

    @staticmethod
    def centred(tally: GaussianTally, centre: Array) -> GaussianParams:
        """Estimate from sums about a centre."""
        n = tally.n
        shift = np.divide(tally.s, n, out=np.zeros_like(n), where=n > 0)
        return Gaussian.estimate(n, centre + shift, np.maximum(tally.ss - n * shift**2, 0.0))

    @staticmethod
    def estimate(n: Array, mean: Array, ss: Array) -> GaussianParams:
        total = np.maximum(n.sum(axis=0), 1e-300)
        centre = (n * mean).sum(axis=0) / total
        overall = (ss + n * (mean - centre) ** 2).sum(axis=0) / total  # variance of each column over all classes
        seen = n > 0  # a class without values in a column has that column's own mean and variance
        variance = np.divide(ss, n, out=np.broadcast_to(overall, n.shape).copy(), where=seen)
        # a table of constants has no scale at all: any positive floor will do, and all classes are then alike
        floor = FLOOR * (overall.max() if overall.size and overall.max() > 0 else 1.0)
        return GaussianParams(n, np.where(seen, mean, centre), ss, variance + floor)

    @staticmethod
    def add_scores(X: np.ndarray, params: GaussianParams, out: Array, relative: bool) -> None:
        half = 0.5 / params.variance
        bayes.gaussian_scores(X, params.mean, half, 0.5 * np.log(half / np.pi), out)

    @staticmethod
    def log_likelihood(p: GaussianParams) -> float:
        return float(-0.5 * np.sum(p.n * np.log(2 * np.pi * p.variance) + p.ss / p.variance))

    @staticmethod
    def penalty(p: GaussianParams, smoothing: float) -> float:
        return 0.0

    @staticmethod
    def draw(p: GaussianParams, codes: np.ndarray, rng: np.random.RandomState) -> Array:
        return p.mean[codes] + np.sqrt(p.variance[codes]) * rng.standard_normal((len(codes), p.mean.shape[1]))

    @staticmethod
    def merge(a: GaussianParams, b: GaussianParams) -> GaussianParams:
        n = a.n + b.n
        share = np.divide(b.n, n, out=np.zeros_like(n), where=n > 0)
        gap = b.mean - a.mean
        return Gaussian.estimate(n, a.mean + share * gap, a.ss + b.ss + a.n * share * gap**2)


class CategoricalParams(NamedTuple):
    counts: Array  # (T, K)  weight of each state; the states of column j are the rows start_j to start_{j+1}
    start: np.ndarray  # (d+1,)
    log_p: Array  # (T, K)
    log_unseen: Array  # (d, K)  of a state first met after the fit: as one counted zero times, or missing if smoothing is 0


class Categorical:
    """Columns of states, coded from 0; -1 is missing, a code past the last state is unseen."""

    @staticmethod
    def tally(C: np.ndarray, y: np.ndarray, weight: Array, start: np.ndarray, K: int) -> Array:
        return bayes.categorical_tally(C, y, weight, start, K)

    @staticmethod
    def estimate(counts: Array, start: np.ndarray, smoothing: float) -> CategoricalParams:
        states = np.diff(start)
        column = np.repeat(np.arange(len(states)), states)
        total = np.repeat(smoothing * states[:, None], counts.shape[1], axis=1)  # (d, K)
        np.add.at(total, column, counts)
        empty = total <= 0  # a class without rows, not smoothed: all states alike
        total = np.where(empty, np.maximum(states, 1)[:, None], total)
        log_p = log0(np.where(empty[column], 1.0, counts + smoothing)) - np.log(total)[column]
        log_unseen = log0(np.full_like(total, smoothing)) - np.log(total) if smoothing > 0 else np.zeros_like(total)
        return CategoricalParams(counts, start, log_p, log_unseen)

    @staticmethod
    def add_scores(C: np.ndarray, p: CategoricalParams, out: Array, relative: bool) -> None:
        bayes.categorical_scores(C, p.log_p, p.log_unseen, p.start, out)

    @staticmethod
    def log_likelihood(p: CategoricalParams) -> float:
        return dot0(p.counts, p.log_p)

    @staticmethod
    def penalty(p: CategoricalParams, smoothing: float) -> float:
        return smoothing * float(p.log_p.sum()) if smoothing > 0 else 0.0

    @staticmethod
    def draw(p: CategoricalParams, codes: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        u = rng.random_sample((len(codes), len(p.start) - 1))
        out = np.empty(u.shape, dtype=np.int32)
        for j, (a, b) in enumerate(zip(p.start, p.start[1:], strict=False)):
            above = np.cumsum(np.exp(p.log_p[a:b]), axis=0).T[codes]  # (n, states)
            out[:, j] = np.minimum((u[:, j, None] * above[:, -1:] > above).sum(axis=1), b - a - 1)
        return out

    @staticmethod
    def merge(a: CategoricalParams, b: CategoricalParams, smoothing: float) -> CategoricalParams:
        return Categorical.estimate(a.counts + b.counts, a.start, smoothing)


class PoissonTally(NamedTuple):
    n: Array  # (K, d)  weight of observed cells
    s: Array  # (K, d)  sum w x
    base: float  # sum w log x!


class PoissonParams(NamedTuple):
    n: Array  # (K, d)
    s: Array  # (K, d)
    base: float
    rate: Array  # (K, d)


class Poisson:
    """Columns of counts; NaN is missing."""

    @staticmethod
    def tally(X: np.ndarray, y: np.ndarray, weight: Array, K: int) -> PoissonTally:
        n, s, _ = moments.class_sums_observed(X, y, weight, K)
        return PoissonTally(n, s, bayes.log_factorials(X, np.where(y >= 0, weight, 0.0), LOG_FACTORIALS))

    @staticmethod
    def estimate(n: Array, s: Array, base: float, smoothing: float) -> PoissonParams:
        mean = s.sum(axis=0) / np.maximum(n.sum(axis=0), 1e-300)
        with np.errstate(invalid="ignore"):
            rate = (s + smoothing * mean) / (n + smoothing)
        return PoissonParams(n, s, base, np.where(n + smoothing > 0, rate, mean))

    @staticmethod
    def add_scores(X: np.ndarray, p: PoissonParams, out: Array, relative: bool) -> None:
        bayes.poisson_scores(X, log0(p.rate), p.rate, LOG_FACTORIALS, out)

    @staticmethod
    def log_likelihood(p: PoissonParams) -> float:
        return float(np.sum(xlogy(p.s, p.rate) - p.n * p.rate) - p.base)

    @staticmethod
    def penalty(p: PoissonParams, smoothing: float) -> float:
        mean = p.s.sum(axis=0) / np.maximum(p.n.sum(axis=0), 1e-300)
        return smoothing * float(np.sum(xlogy(mean, p.rate) - p.rate))

    @staticmethod
    def draw(p: PoissonParams, codes: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        return rng.poisson(p.rate[codes])

    @staticmethod
    def merge(a: PoissonParams, b: PoissonParams, smoothing: float) -> PoissonParams:
        return Poisson.estimate(a.n + b.n, a.s + b.s, a.base + b.base, smoothing)


class MultinomialTally(NamedTuple):
    counts: Array  # (K, V)
    base: float  # sum w log(total! / prod x!)


class MultinomialParams(NamedTuple):
    counts: Array  # (K, V)
    base: float
    log_p: Array  # (V, K)
    length: float  # mean total of a row, for `draw`


class Multinomial:
    """A block of counts, CSR, taken as draws of one distribution a class given the row's total."""

    @staticmethod
    def tally(M: Sparse, y: np.ndarray, weight: Array, K: int) -> MultinomialTally:
        return MultinomialTally(*bayes.multinomial_tally(M.data, M.indices, M.indptr, y, weight, M.width, K, LOG_FACTORIALS))

    @staticmethod
    def estimate(counts: Array, base: float, rows: float, smoothing: float) -> MultinomialParams:
        total = counts.sum(axis=1) + smoothing * counts.shape[1]
        empty = (total <= 0)[:, None]
        total = np.where(total > 0, total, counts.shape[1])
        log_p = log0(np.where(empty, 1.0, counts + smoothing)) - np.log(total)[:, None]
        return MultinomialParams(counts, base, np.ascontiguousarray(log_p.T), float(counts.sum() / rows))

    @staticmethod
    def add_scores(M: Sparse, p: MultinomialParams, out: Array, relative: bool) -> None:
        bayes.multinomial_scores(M.data, M.indices, M.indptr, p.log_p, out)
        if not relative:
            bayes.multinomial_coefficients(M.data, M.indptr, LOG_FACTORIALS, out)

    @staticmethod
    def log_likelihood(p: MultinomialParams) -> float:
        return dot0(p.counts, p.log_p.T) + p.base

    @staticmethod
    def penalty(p: MultinomialParams, smoothing: float) -> float:
        return smoothing * float(p.log_p.sum()) if smoothing > 0 else 0.0

    @staticmethod
    def draw(p: MultinomialParams, codes: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        theta = np.exp(p.log_p.T)
        theta /= theta.sum(axis=1, keepdims=True)
        lengths = rng.poisson(p.length, len(codes))
        return np.array([rng.multinomial(m, theta[k]) for m, k in zip(lengths, codes, strict=True)])
