"""The model of Gaussian discriminant analysis: a Gaussian for every class.

    y_i ~ Categorical(pi)                         class of row i
    x_i | y_i = k ~ N(mu_k, Sigma_k)              "shared": one Sigma; "class": one each; "diagonal": one each, no correlations

    1.  mu_k    = sum_i r_ik x_i / n_k,           n_k = sum_i r_ik,  r_ik = w_i [y_i = k]
    2.  S_k     = sum_i r_ik (x_i - mu_k)(x_i - mu_k)'
    3.  Sigma_k = S_k / n_k,  or sum_k S_k / n    maximum likelihood
    4.  log p(x, k) = log pi_k - (d log 2 pi + log|Sigma_k| + |W_k'(x - mu_k)|^2) / 2,     Sigma_k^-1 = W_k W_k'

Hidden values are summed out by EM: a missing label has r_ik = w_i p(y=k | x_i); missing cells m of a row with cells o
observed are replaced, in (1) and (2), by their expectations under the current parameters:
    5.  E x_m = mu_m + Sigma_mo Sigma_oo^-1 (x_o - mu_o),   cov x_m = Sigma_mm - Sigma_mo Sigma_oo^-1 Sigma_om

Sums of squares are taken about surveyed class means: raw sums lose 11 digits at an offset of 1e6. Directions without any
variance carry no density: they are left out of (4), and d is then the rank (see `maths.whiten`). Without correlations columns are
independent given the class: "diagonal" is naive Bayes of gaussian columns, with its params and tallies.
References: Hastie, Tibshirani, Friedman 2009, ch. 4.3; Ledoit and Wolf 2004 (shrinkage); Little and Rubin 2002 (missing values).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from tallies.bayes.door import Table
from tallies.bayes.families import Gaussian, Laws, Place, centres
from tallies.bayes.model import ClassModel, Survey, class_weights
from tallies.bayes.naive_bayes_model import ColumnParams, ColumnTally, NaiveBayesModel
from tallies.bayes.scatter import Scatter, expected_products, move, products, size_of
from tallies.data.table import refuse_infinite
from tallies.errors import DataError
from tallies.maths import FLOOR, LOG_2PI, Array, Whitening, dot0, ledoit_wolf, linear, log_density, patterns, whiten


class Tally(NamedTuple):
    objective: float  # log likelihood of the rows where EM runs, else 0
    n: Array  # (K,)  n_k
    sums: Scatter  # about the current means: eq. 1 and 2


class Params(NamedTuple):
    n: Array  # (K,)  n_k
    log_prior: Array  # (K,)  log pi_k
    mean: Array  # (K, d)  mu_k, eq. 1
    covariance: Array  # (1 or K, d, d)  eq. 3, shrunk
    root: Whitening  # W, log|Sigma| and the rank of the covariances
    sums: Scatter | None  # about the means: S of eq. 2 for all classes or each; where complete, for the likelihood and a merge
    complete: bool  # nothing is hidden: one sweep gives the maximum
    ready: bool  # False before the first update, when only rough means are known

    @property
    def laws(self) -> Laws:
        """The columns one by one."""
        variance = np.broadcast_to(np.diagonal(self.covariance, axis1=1, axis2=2), self.mean.shape)
        n = np.broadcast_to(self.n[:, None], self.mean.shape)
        return Laws(Gaussian(n, self.mean, n * variance, variance))

    def sigma(self, k: int) -> Array:
        """The covariance of class k."""
        return self.covariance[k if len(self.covariance) > 1 else 0]

    @np.errstate(invalid="ignore")  # infinities are looked for below, and refused in words
    def scores(self, table: Table, start: Array | float, relative: bool = False) -> Array:
        """start_k + log p(x | k), eq. 4; if `relative`, up to a term for the row."""
        X = table.gaussian
        assert X is not None
        J = start + log_density(X, self.mean, self.root, relative)
        if not np.isfinite(J.sum()):  # looked into only when something is odd: complete rows pay one sum
            refuse_infinite(int(np.isinf(X).sum()))
            gaps = np.flatnonzero(np.isnan(X).any(axis=1))
            if len(gaps):
                J[gaps] = start + self._log_density_of_observed(X[gaps])
        return J

    def _log_density_of_observed(self, X: np.ndarray) -> Array:
        """log p of the observed cells of rows with gaps, (n, K): their marginal density."""
        out = np.zeros((len(X), len(self.n)))
        weights = self.n if len(self.covariance) > 1 else np.ones(1)
        pooled, size = np.tensordot(weights / weights.sum(), self.covariance, axes=1), size_of(self.mean)
        for gaps, members in patterns(X):
            o = np.flatnonzero(~gaps)
            if len(o):
                root = whiten(self.covariance[:, o[:, None], o], pooled[o[:, None], o], size[o])
                out[members] = log_density(X[np.ix_(members, o)], self.mean[:, o], root, relative=False)
        return out

    def plane(self) -> tuple[Array, Array] | None:
        """With one covariance the classes differ by K products with x, and no more need be computed for labels."""
        return linear(self.mean, self.root, self.log_prior) if len(self.root.W) == 1 else None

    def draw(self, codes: np.ndarray, rng: np.random.Generator) -> list[Any]:
        """One row for each class code."""
        out = self.mean[codes]
        for k in np.unique(codes):
            mine = codes == k
            out[mine] += rng.multivariate_normal(np.zeros(out.shape[1]), self.sigma(k), mine.sum(), check_valid="ignore")
        return [out]


@dataclass(frozen=True, kw_only=True)
class GDAModel(ClassModel):
    """Verbs of Gaussian discriminant analysis with correlations."""

    each: bool = False  # whether every class has a covariance of its own
    shrinkage: float | Literal["auto"] | None = None  # towards tr(Sigma)/d I; "auto": Ledoit-Wolf for each class

    @property
    def _sums_of_each(self) -> bool:
        return self.each or self.shrinkage == "auto"

    def init(self, survey: Survey, rng: np.random.Generator) -> Params:
        refuse_infinite(survey.infinite)
        assert survey.cells is not None and survey.s is not None
        empty = np.flatnonzero(survey.cells.sum(axis=0) == 0)
        if len(empty):
            raise DataError(f"columns {empty[:5].tolist()} have no observed value; drop them")
        mean = centres(survey.cells, survey.s)
        none = np.zeros((1, mean.shape[1], mean.shape[1]))
        root = Whitening(none, np.zeros(1), 0, np.zeros(1, dtype=bool))
        prior, complete = np.full(self.K, -np.log(self.K)), not survey.unlabelled and not survey.gaps
        # without variance the first E-step puts class means where cells are missing
        return Params(survey.n, prior, mean, none, root, None, complete, ready=False)

    def tally(self, table: Table, y: np.ndarray, weight: Array, params: Params) -> Tally:
        X, n, mean = table.gaussian, class_weights(y, weight, self.K), params.mean
        assert X is not None
        fourth, G = self.shrinkage == "auto", self.K if self._sums_of_each else 1
        if params.complete:
            return Tally(0.0, n, products(X, y, weight, mean, G, fourth))
        return Tally(0.0, n, expected_products(X, y, weight, mean, G, fourth, params.sigma))

    def tally_behind(self, params: Params, place: Place, centre: Array) -> Tally:
        assert params.sums is not None
        s, S, *higher = params.sums
        n, B, A = place.put(params.n), *(None if part is None else place.put(part) for part in higher)
        # one scatter for all classes has no place to change
        sums = Scatter(place.put(s), place.put(S) if self._sums_of_each else S, B, A)
        return Tally(0.0, n, move(n, sums, place.put(params.mean) - centre))

    def update(self, params: Params, tally: Tally, rng: np.random.Generator) -> Params:
        return self.estimate(tally, params.mean, params.complete)

    def estimate(self, tally: Tally, centre: Array, complete: bool) -> Params:
        """Means (eq. 1) and covariances (eq. 3), shrunk, with their roots, from sums about a centre."""
        n = tally.n
        delta = np.divide(tally.sums.s, n[:, None], out=np.zeros_like(centre), where=n[:, None] > 0)
        mean, sums = centre + delta, move(n, tally.sums, -delta)
        covariance, pooled = self._covariance(n, mean, sums)
        if not complete:
            # where cells are missing a likelihood can grow without bound towards a singular covariance: EM keeps off it
            between = np.average((mean - np.average(mean, axis=0, weights=n)) ** 2, axis=0, weights=n)
            ridge = FLOOR * np.diag(np.diag(pooled) + between)
            covariance, pooled = covariance + ridge, pooled + ridge
        root = whiten(covariance, covariance[0] if len(covariance) == 1 else pooled, size_of(mean))
        return Params(n, self.log_prior(n), mean, covariance, root, sums if complete else None, complete, ready=True)

    def _covariance(self, n: Array, mean: Array, sums: Scatter) -> tuple[Array, Array]:
        """(1 or K, d, d) covariances (eq. 3), shrunk, from sums about the means; and the pooled one."""
        S, A, d = sums.S, sums.A, mean.shape[1]
        pooled = S.sum(axis=0) / n.sum()
        covariance = pooled[None]
        if len(S) > 1:
            own = [pooled if m == 0 else s / m for m, s in zip(n, S, strict=True)]
            if A is not None:
                own = [c if m == 0 else ledoit_wolf(m, c, a, size_of(mean)) for m, c, a in zip(n, own, A, strict=True)]
            covariance = np.array(own) if self.each else np.tensordot(n / n.sum(), np.array(own), axes=1)[None]
        if isinstance(self.shrinkage, int | float):
            trace = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / d
            covariance = (1 - self.shrinkage) * covariance + self.shrinkage * trace * np.eye(d)
            pooled = covariance.mean(axis=0)
        return covariance, pooled

    def log_likelihood(self, params: Params) -> float:
        assert params.sums is not None
        W, log_det, rank, _ = params.root
        S, n = params.sums.S, params.n
        if len(W) == 1:
            S, n = S.sum(axis=0, keepdims=True), n.sum(keepdims=True)
        fit = np.sum(n * (rank * LOG_2PI + log_det)) + np.sum(W * (S @ W))
        return dot0(params.n, params.log_prior) - 0.5 * float(fit)


@dataclass(frozen=True, kw_only=True)
class DiagonalModel(NaiveBayesModel):
    """Verbs of Gaussian discriminant analysis without correlations; "auto" shrinks correlations only, and there are none."""

    shrinkage: float | Literal["auto"] | None = None  # of the variances of a class towards their mean

    def estimate(self, tally: ColumnTally, centre: Array | None, complete: bool) -> ColumnParams:
        params = super().estimate(tally, centre, complete)
        law = params.laws.gaussian
        if law is None or not isinstance(self.shrinkage, int | float):
            return params
        v = (1 - self.shrinkage) * law.variance + self.shrinkage * law.variance.mean(axis=1, keepdims=True)
        return params._replace(laws=Laws(law._replace(variance=v)))
