"""The law of Gaussian columns that are correlated given the class: discriminant analysis with covariances.

    x_i | y_i = k ~ N(mu_k, Sigma_k)

    1.  mu_k    = sum_i r_ik x_i / n_k,           n_k = sum_i r_ik,  r_ik = w_i [y_i = k]
    2.  S_k     = sum_i r_ik (x_i - mu_k)(x_i - mu_k)'
    3.  Sigma_k = S_k / n_k,  or sum_k S_k / n    maximum likelihood
    4.  log p(x | k) = -(d log 2 pi + log|Sigma_k| + |W_k'(x - mu_k)|^2) / 2,     Sigma_k^-1 = W_k W_k'

Hidden values are summed out by EM: a missing label has r_ik = w_i p(y=k | x_i); missing cells m of a row with cells o
observed are replaced, in (1) and (2), by their expectations under the current parameters:
    5.  E x_m = mu_m + Sigma_mo Sigma_oo^-1 (x_o - mu_o),   cov x_m = Sigma_mm - Sigma_mo Sigma_oo^-1 Sigma_om

Directions without any variance carry no density: they are left out of (4), and d is then the rank (see `maths.whiten`).
References: Hastie, Tibshirani, Friedman 2009, ch. 4.3; Ledoit and Wolf 2004 (shrinkage); Little and Rubin 2002 (missing values).
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from tallies.bayes.families import Place, Shape, too_large
from tallies.bayes.scatter import Scatter, expected_products, move, products, size_of
from tallies.data.table import refuse_infinite
from tallies.errors import DataError
from tallies.forms import Form
from tallies.maths import FLOOR, LOG_2PI, Array, Whitening, ledoit_wolf, log_density, patterns, whiten


class Correlated(NamedTuple):
    """Columns that are Gaussian together given the class; NaN is missing. Its tally: sums about the means, eq. 1 and 2."""

    n: Annotated[Array, Form("K d", "f", 0)]  # n_k, in every column
    mean: Annotated[Array, Form("K d", "f")]  # mu_k, eq. 1
    covariance: Annotated[Array, Form("G d d", "f")]  # (1 or K, d, d)  eq. 3, shrunk
    root: Whitening  # W, log|Sigma| and the rank of the covariances
    sums: Scatter | None  # about the means: S of eq. 2 for all classes or each; where complete, for the likelihood and a merge
    shape: Shape

    def check(self) -> None:
        """Covariances and sums must be of all classes or of each, as the shape says."""
        K, wanted = len(self.mean), (self.shape.each, self.shape.sums_of_each)
        for name, found, each in zip(("covariances", "sums"), (self.covariance, self.sums and self.sums.S), wanted, strict=True):
            if found is not None and len(found) != (K if each else 1):
                raise ValueError(f"there should be {K if each else 1} {name}, and are {len(found)}")

    @classmethod
    def start(cls, cells: Array, mean: Array, shape: Shape) -> Correlated:
        """Rough means alone: without variance the first E-step puts class means where cells are missing."""
        empty = np.flatnonzero(cells.sum(axis=0) == 0)
        if len(empty):
            raise DataError(f"columns {empty[:5].tolist()} have no observed value; drop them")
        none = np.zeros((1, mean.shape[1], mean.shape[1]))
        return cls(cells, mean, none, Whitening(none, np.zeros(1), 0, np.zeros(1, dtype=bool)), None, shape)

    @classmethod
    def of(cls, tally: Scatter, centre: Array, n: Array, shape: Shape, complete: bool) -> Correlated:
        """Means (eq. 1) and covariances (eq. 3), shrunk, with their roots, from sums about a centre."""
        delta = np.divide(tally.s, n[:, None], out=np.zeros_like(centre), where=n[:, None] > 0)
        mean, sums = centre + delta, move(n, tally, -delta)
        covariance, pooled = _covariance(n, mean, sums, shape)
        if not complete:
            # where cells are missing a likelihood can grow without bound towards a singular covariance: EM keeps off it
            between = np.average((mean - np.average(mean, axis=0, weights=n)) ** 2, axis=0, weights=n)
            ridge = FLOOR * np.diag(np.diag(pooled) + between)
            covariance, pooled = covariance + ridge, pooled + ridge
        root = whiten(covariance, covariance[0] if len(covariance) == 1 else pooled, size_of(mean))
        return cls(np.tile(n[:, None], mean.shape[1]), mean, covariance, root, sums if complete else None, shape)

    @property
    def variance(self) -> Array:
        """(K, d) of the columns one by one."""
        return np.broadcast_to(np.diagonal(self.covariance, axis1=1, axis2=2), self.mean.shape)

    def sigma(self, k: int) -> Array:
        """The covariance of class k."""
        return self.covariance[k if len(self.covariance) > 1 else 0]

    def tally(self, X: np.ndarray, y: np.ndarray, weight: Array, complete: bool) -> Scatter:
        G, fourth = len(self.mean) if self.shape.sums_of_each else 1, self.shape.shrinkage == "auto"
        if complete:
            return products(X, y, weight, self.mean, G, fourth)
        return expected_products(X, y, weight, self.mean, np.broadcast_to(self.covariance, (G, *self.covariance.shape[1:])), fourth)

    def tally_behind(self, place: Place, centre: Any) -> Scatter:
        assert self.sums is not None
        s, S, *higher = self.sums
        # one scatter for all classes has no place to change
        own = place.put(S) if self.shape.sums_of_each else S
        sums = Scatter(place.put(s), own, *(None if part is None else place.put(part) for part in higher))
        return move(place.put(self.n[:, 0]), sums, place.put(self.mean) - centre)

    def add_scores(self, X: np.ndarray, out: Array, relative: bool) -> None:
        density = log_density(X, self.mean, self.root, relative)
        if not np.isfinite(density.sum()):  # looked into only when something is odd: complete rows pay one sum
            refuse_infinite(too_large(X))
            gaps = np.flatnonzero(np.isnan(X).any(axis=1))
            density[gaps] = self._log_density_of_observed(X[gaps])
        out += density

    def _log_density_of_observed(self, X: np.ndarray) -> Array:
        """log p of the observed cells of rows with gaps, (n, K): their marginal density."""
        out = np.zeros((len(X), len(self.mean)))
        weights = self.n[:, 0] if len(self.covariance) > 1 else np.ones(1)
        pooled, size = np.tensordot(weights / weights.sum(), self.covariance, axes=1), size_of(self.mean)
        for gaps, members in patterns(X):
            o = np.flatnonzero(~gaps)
            if len(o):
                root = whiten(self.covariance[:, o[:, None], o], pooled[o[:, None], o], size[o])
                out[members] = log_density(X[np.ix_(members, o)], self.mean[:, o], root, relative=False)
        return out

    def log_likelihood(self) -> float:
        assert self.sums is not None
        W, log_det, rank, _ = self.root
        S, n = self.sums.S, self.n[:, 0]
        if len(W) == 1:
            S, n = S.sum(axis=0, keepdims=True), n.sum(keepdims=True)
        return -0.5 * float(np.sum(n * (rank * LOG_2PI + log_det)) + np.sum(W * (S @ W)))

    def draw(self, codes: np.ndarray, rng: np.random.Generator) -> Array:
        out = self.mean[codes]
        for k in np.unique(codes):
            mine = codes == k
            out[mine] += rng.multivariate_normal(np.zeros(out.shape[1]), self.sigma(k), mine.sum(), check_valid="ignore")
        return out

    def column(self, at: int) -> dict[str, Array]:
        return {"mean": self.mean[:, at], "variance": self.variance[:, at]}


def _covariance(n: Array, mean: Array, sums: Scatter, shape: Shape) -> tuple[Array, Array]:
    """(1 or K, d, d) covariances (eq. 3), shrunk, from sums about the means; and the pooled one."""
    S, A, d = sums.S, sums.A, mean.shape[1]
    pooled = S.sum(axis=0) / n.sum()
    covariance = pooled[None]
    if len(S) > 1:
        own = [pooled if m == 0 else s / m for m, s in zip(n, S, strict=True)]
        if A is not None:
            own = [c if m == 0 else ledoit_wolf(m, c, a, size_of(mean)) for m, c, a in zip(n, own, A, strict=True)]
        covariance = np.array(own) if shape.each else np.tensordot(n / n.sum(), np.array(own), axes=1)[None]
    if isinstance(shape.shrinkage, int | float):
        trace = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / d
        covariance = (1 - shape.shrinkage) * covariance + shape.shrinkage * trace * np.eye(d)
        pooled = covariance.mean(axis=0)
    return covariance, pooled
