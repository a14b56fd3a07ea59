"""The laws of single columns given the class: what a tally of each is, and what follows from it.

    gaussian      x_j | k ~ N(mu_kj, v_kj)         v = ss / n + FLOOR * variance of the column over all classes
    categorical   x_j | k ~ Categorical(p_kj)      p = (count + a) / (n + a * states);   bernoulli: the states False, True
    poisson       x_j | k ~ Poisson(rate_kj)       rate = (sum + a * overall mean) / (n + a): a rows of the overall mean
    multinomial   x | k   ~ Multinomial(p_k)       p = (count + a) / (total + a * columns), given the row's total

a is `smoothing`. A law is made `of` a total of tallies. Every law can `add_scores` of log p(x|k), and give the `odds` of row i by
column, log p(x_ij | a_i) - log p(x_ij | b_i), with what belongs to no column. It has the `log_likelihood` of the rows that were
tallied and, if smoothed, the `penalty` (log prior that smoothing stands for), can `draw` rows, say what it found of one `column`,
and give the `tally_behind` it back, about a centre where it has one, for a merge. Gaussian columns with correlations are in
`correlated.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from tallies.bayes.kernels import columns as kernels
from tallies.bayes.kernels import moments
from tallies.data.table import Sparse, refuse_infinite
from tallies.forms import Form
from tallies.maths import FLOOR, Array, dot0, log0

LOG_FACTORIALS = gammaln(np.arange(1024) + 1.0)
EPS = np.finfo(float).eps
LOG_ONE = 1e-4  # the logarithm of a probability is no larger, also where priors add to one but for rounding

Cells = Annotated[Array, Form("K d", "f")]
Positive = Annotated[Array, Form("K d", "f", 0)]


class Place(NamedTuple):
    """Where the classes and states of one fit are among those of several."""

    classes: np.ndarray  # (k,)
    n_classes: int
    states: np.ndarray  # (t,)
    n_states: int

    def put(self, array: Array) -> Array:
        """The entries of each class (first axis) at their new place; a class that was not there has zeros."""
        out = np.zeros((self.n_classes, *array.shape[1:]))
        out[self.classes] = array
        return out


def centres(n: Array, s: Array) -> Array:
    """(K, d) means from weights and sums of observed cells; a class without any has the mean of the column."""
    column = n.sum(axis=0)
    return np.where(n > 0, s / np.where(n > 0, n, 1.0), s.sum(axis=0) / np.where(column > 0, column, 1.0))


def difference(p: Array, q: Array) -> Array:
    """p - q of logarithms; what is impossible by both speaks for neither."""
    with np.errstate(invalid="ignore"):
        return np.where(p == q, 0.0, p - q)


def too_large(X: np.ndarray) -> int:
    """How many numbers are infinite, or nearly."""
    return int((np.abs(X) > np.float64(moments.LARGEST)).sum())


class Shape(NamedTuple):
    """Which covariance Gaussian columns have."""

    each: bool  # whether every class has one of its own
    # towards tr(Sigma)/d I; "auto": Ledoit-Wolf for each class, which needs fourth moments
    shrinkage: Annotated[float, Form(kind="fi", low=0, high=1)] | Literal["auto"] | None

    @property
    def sums_of_each(self) -> bool:
        """Whether the scatter of each class is needed, not only that of all."""
        return self.each or self.shrinkage == "auto"


class Gaussian(NamedTuple):
    """Columns that are Gaussian given the class; NaN is missing. Its tally: n, sum w (x - c) and sum w (x - c)^2, each (K, d)."""

    n: Positive  # weight of observed cells
    mean: Cells
    ss: Positive  # sum w (x - mean)^2
    variance: Positive

    @classmethod
    def start(cls, cells: Array, mean: Array, shape: Shape) -> Gaussian:
        """Rough means alone."""
        return cls(cells, mean, np.zeros_like(mean), np.zeros_like(mean))

    @classmethod
    def of(cls, tally: Any, centre: Array, weights: Array, shape: Shape, complete: bool) -> Gaussian:
        """Shrinkage is of the variances of a class towards their mean; "auto" shrinks correlations only, and there are none."""
        n, s, squares = tally
        shift = np.divide(s, n, out=np.zeros_like(n), where=n > 0)
        mean, ss = centre + shift, np.maximum(squares - n * shift**2, 0.0)
        total = np.maximum(n.sum(axis=0), 1e-300)
        middle = (n * mean).sum(axis=0) / total
        overall = (ss + n * (mean - middle) ** 2).sum(axis=0) / total  # variance of each column over all classes
        seen = n > 0  # a class without values in a column has that column's own mean and variance
        variance = np.divide(ss, n, out=np.broadcast_to(overall, n.shape).copy(), where=seen)
        # a constant column (but for rounding, or squares that nearly leave the range of floats) has no scale of its own: that of
        # the widest one will do, or any, and all classes are then alike
        constant = overall <= np.maximum((8 * EPS * middle) ** 2, 1e-200)
        widest = overall.max(where=~constant, initial=0.0) or 1.0
        variance = variance + FLOOR * np.where(constant, widest, overall)
        if isinstance(shape.shrinkage, int | float):
            variance = (1 - shape.shrinkage) * variance + shape.shrinkage * variance.mean(axis=1, keepdims=True)
        return cls(n, np.where(seen, mean, middle), ss, variance)

    def tally(self, X: np.ndarray, y: np.ndarray, weight: Array, complete: bool) -> tuple[Array, Array, Array]:
        return moments.class_squares(X, y, weight, self.mean)

    def add_scores(self, X: np.ndarray, out: Array, relative: bool) -> None:
        half = 0.5 / self.variance
        kernels.gaussian_scores(X, self.mean, half, 0.5 * np.log(half / np.pi), out)
        if not np.isfinite(out.sum()):
            refuse_infinite(too_large(X))

    def odds(self, X: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[Array, float]:
        p, q = (-0.5 * (np.log(self.variance[k]) + (X - self.mean[k]) ** 2 / self.variance[k]) for k in (a, b))
        return np.nan_to_num(p - q), 0.0

    def log_likelihood(self) -> float:
        return float(-0.5 * np.sum(self.n * np.log(2 * np.pi * self.variance) + self.ss / self.variance))

    def draw(self, codes: np.ndarray, rng: np.random.Generator) -> Array:
        return rng.normal(self.mean[codes], np.sqrt(self.variance[codes]))

    def column(self, at: int) -> dict[str, Array]:
        return {"mean": self.mean[:, at], "variance": self.variance[:, at]}

    def tally_behind(self, place: Place, centre: Any) -> tuple[Array, Array, Array]:
        n = place.put(self.n)
        gap = place.put(self.mean) - centre
        return n, n * gap, place.put(self.ss) + n * gap**2


class Categorical(NamedTuple):
    """Columns of states, coded from 0; -1 is missing, a code past the last state is unseen. Its tally is `counts`."""

    counts: Annotated[Array, Form("T K", "f", 0)]  # weight of each state; those of column j are the rows start_j to start_{j+1}
    start: Annotated[np.ndarray, Form("d+1", "i", ends="T")]
    log_p: Annotated[Array, Form("T K", "f", high=LOG_ONE)]
    # of a state first met after the fit: as one counted zero times, or missing if smoothing is 0
    log_unseen: Annotated[Array, Form("d K", "f")]

    @classmethod
    def of(cls, counts: Array, start: np.ndarray, smoothing: float) -> Categorical:
        states = np.diff(start)
        column = np.repeat(np.arange(len(states)), states)
        # a last row of zeros, where a column without states may begin; what is found there for one is of its neighbour
        sums = np.add.reduceat(np.vstack([counts, np.zeros(counts.shape[1])]), start[:-1], axis=0)
        total = np.where(states[:, None] > 0, sums, 0.0) + smoothing * states[:, None]  # (d, K)
        empty = total <= 0  # a class without rows, not smoothed: all states alike
        total = np.where(empty, np.maximum(states, 1)[:, None], total)
        log_p = log0(np.where(empty[column], 1.0, counts + smoothing)) - np.log(total)[column]
        log_unseen = np.log(smoothing) - np.log(total) if smoothing > 0 else np.zeros_like(total)
        return cls(counts, start, log_p, log_unseen)

    def add_scores(self, C: np.ndarray, out: Array, relative: bool) -> None:
        kernels.categorical_scores(C, self.log_p, self.log_unseen, self.start, out)

    def odds(self, C: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[Array, float]:
        states, known = np.diff(self.start), np.minimum(self.start[:-1] + C, len(self.log_p) - 1)
        told = [np.where(states > C, self.log_p[known, k[:, None]], self.log_unseen[:, k].T) for k in (a, b)]
        return np.where(C < 0, 0.0, difference(*told)), 0.0

    def log_likelihood(self) -> float:
        return dot0(self.counts, self.log_p)

    def penalty(self, smoothing: float) -> float:
        return smoothing * float(self.log_p.sum()) if smoothing > 0 else 0.0

    def draw(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        u = rng.random((len(codes), len(self.start) - 1))
        out = np.empty(u.shape, dtype=np.int32)
        for j in range(u.shape[1]):
            above = np.cumsum(self.column(j), axis=1)[codes]  # (n, states)
            out[:, j] = np.minimum((u[:, j, None] * above[:, -1:] > above).sum(axis=1), above.shape[1] - 1)
        return out

    def column(self, at: int) -> Array:
        """(K, states) probability of each state."""
        return np.exp(self.log_p[self.start[at] : self.start[at + 1]]).T

    def tally_behind(self, place: Place, centre: Any) -> Array:
        counts = np.zeros((place.n_states, place.n_classes))
        counts[np.ix_(place.states, place.classes)] = self.counts
        return counts


class Poisson(NamedTuple):
    """Columns of counts; NaN is missing. Its tally: n, s and base."""

    n: Positive  # weight of observed cells
    s: Positive  # sum w x
    base: Annotated[float, Form()]  # sum w log x!
    rate: Positive

    @staticmethod
    def tally(X: np.ndarray, y: np.ndarray, weight: Array, K: int) -> tuple[Array, Array, float]:
        n, s, _, _ = moments.class_sums(X, y, weight, K)
        return n, s, kernels.log_factorials(X, np.where(y >= 0, weight, 0.0), LOG_FACTORIALS)

    @classmethod
    def of(cls, tally: tuple[Array, Array, float], smoothing: float) -> Poisson:
        n, s, _ = tally
        mean = s.sum(axis=0) / np.maximum(n.sum(axis=0), 1e-300)
        total = n + smoothing
        return cls(*tally, np.divide(s + smoothing * mean, total, out=np.tile(mean, (len(n), 1)), where=total > 0))

    def add_scores(self, X: np.ndarray, out: Array, relative: bool) -> None:
        kernels.poisson_scores(X, log0(self.rate), self.rate, LOG_FACTORIALS, out)

    def odds(self, X: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[Array, float]:
        return np.where(np.isnan(X), 0.0, difference(*(xlogy(X, self.rate[k]) - self.rate[k] for k in (a, b)))), 0.0

    def log_likelihood(self) -> float:
        return float(np.sum(xlogy(self.s, self.rate) - self.n * self.rate) - self.base)

    def penalty(self, smoothing: float) -> float:
        mean = self.s.sum(axis=0) / np.maximum(self.n.sum(axis=0), 1e-300)
        return smoothing * float(np.sum(xlogy(mean, self.rate) - self.rate))

    def draw(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.poisson(self.rate[codes])

    def column(self, at: int) -> dict[str, Array]:
        return {"rate": self.rate[:, at]}

    def tally_behind(self, place: Place, centre: Any) -> tuple[Array, Array, float]:
        return place.put(self.n), place.put(self.s), self.base


class Multinomial(NamedTuple):
    """A block of counts, CSR, taken as draws of one distribution a class given the row's total. Its tally: counts and base."""

    counts: Annotated[Array, Form("K V", "f", 0)]
    base: Annotated[float, Form()]  # sum w log(total! / prod x!)
    log_p: Annotated[Array, Form("V K", "f", high=LOG_ONE)]
    length: Annotated[float, Form(low=0)]  # mean total of a row, for `draw`

    @classmethod
    def of(cls, tally: tuple[Array, float], rows: float, smoothing: float) -> Multinomial:
        counts, V = tally[0], tally[0].shape[1]
        total = counts.sum(axis=1, keepdims=True) + smoothing * V
        empty = total <= 0  # a class without rows, not smoothed: all words alike
        log_p = log0(np.where(empty, 1.0, counts + smoothing)) - np.log(np.where(empty, V, total))
        return cls(*tally, np.ascontiguousarray(log_p.T), float(counts.sum() / rows))

    def add_scores(self, M: Sparse, out: Array, relative: bool) -> None:
        kernels.multinomial_scores(M.data, M.indices, M.indptr, self.log_p, out)
        if not relative:
            kernels.multinomial_coefficients(M.data, M.indptr, LOG_FACTORIALS, out)

    def odds(self, M: Sparse, a: np.ndarray, b: np.ndarray) -> tuple[Array, float]:
        """Of each count that is not 0, in the order of the matrix."""
        row = np.repeat(np.arange(len(a)), np.diff(M.indptr))
        p, q = (np.where(M.data > 0, self.log_p[M.indices, k[row]], 0.0) for k in (a, b))
        return M.data * difference(p, q), 0.0

    def log_likelihood(self) -> float:
        return dot0(self.counts, self.log_p.T) + self.base

    def penalty(self, smoothing: float) -> float:
        return smoothing * float(self.log_p.sum()) if smoothing > 0 else 0.0

    def draw(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        theta = np.exp(self.log_p.T)
        theta /= theta.sum(axis=1, keepdims=True)
        return rng.multinomial(rng.poisson(self.length, len(codes)), theta[codes])

    def column(self, at: int) -> dict[str, Array]:
        return {"probability": np.exp(self.log_p[at])}

    def tally_behind(self, place: Place, centre: Any) -> tuple[Array, float]:
        return place.put(self.counts), self.base
