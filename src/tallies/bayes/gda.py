"""Gaussian discriminant analysis: a Gaussian for every class.

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
variance carry no density: they are left out of (4), and d is then the rank (see `maths.whiten`).
References: Hastie, Tibshirani, Friedman 2009, ch. 4.3; Ledoit and Wolf 2004 (shrinkage); Little and Rubin 2002 (missing values).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from tallies.bayes.classifier import Classifier, Shard, class_weights, spread
from tallies.bayes.families import Gaussian, GaussianParams, GaussianTally
from tallies.bayes.kernels import moments as kernels
from tallies.bayes.kernels import rows
from tallies.bayes.scatter import Scatter, expected_products, move, products
from tallies.data.table import dense, refuse_infinite
from tallies.engine import add
from tallies.errors import DataError
from tallies.maths import FLOOR, LOG_2PI, Array, Whitening, dot0, ledoit_wolf, linear, log_density, patterns, whiten


class Table(NamedTuple):
    X: np.ndarray  # (n, d)  float, NaN where missing


class Survey(NamedTuple):
    n: Array  # (K, d)  weight of the observed cells of each class
    s: Array  # (K, d)  their sums
    gaps: int  # missing cells
    unlabelled: int  # rows without a label
    infinite: int  # cells that are infinite


class Tally(NamedTuple):
    objective: float  # log likelihood of the rows where EM runs, else 0
    n: Array  # (K,)  n_k
    sums: Scatter | None  # about the current means: eq. 1 and 2
    cells: GaussianTally | None  # diagonal: the same, column by column


class Params(NamedTuple):
    n: Array  # (K,)  n_k
    log_prior: Array  # (K,)  log pi_k
    mean: Array  # (K, d)  mu_k, eq. 1
    sums: Scatter | None  # about the means: S of eq. 2 for all classes or each, what `merge` needs to go on
    covariance: Array | None  # (1 or K, d, d)  eq. 3, shrunk
    root: Whitening | None  # W, log|Sigma| and the rank of the covariances
    cells: GaussianParams | None  # diagonal: means and variances
    complete: bool  # nothing is hidden: one sweep gives the maximum
    ready: bool  # False before the first update, when only rough means are known


@dataclass(eq=False, repr=False)
class GDA(Classifier):
    """Gaussian discriminant analysis: classes are Gaussians with a shared, an own, or a diagonal covariance.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GDA().fit(X, y)
    >>> round(model.score(X, y), 2)
    0.98
    >>> X[0, 0] = float("nan")          # a missing cell is summed out
    >>> model.predict(X[:1]).tolist()
    [0]
    """

    covariance: Literal["shared", "class", "diagonal"] = "shared"  # which Sigma, see the story above
    shrinkage: float | Literal["auto"] | None = None  # towards tr(Sigma)/d I; "auto": Ledoit-Wolf for each class
    priors: Any = None  # (K,) class probabilities; None: as in the data
    semi_supervised: bool = False  # rows with a missing label (NaN, None, -1) are used, by EM
    max_iter: int = 500  # sweeps of EM, where anything is hidden
    tol: float = 1e-8  # EM stops when the log likelihood changes by less, relatively

    monotone: ClassVar[bool] = True

    def _table(self, X: Any, reset: bool) -> Table:
        if self.covariance not in ("shared", "class", "diagonal"):
            raise ValueError(f'covariance must be "shared", "class" or "diagonal", got {self.covariance!r}')
        amount = self.shrinkage
        if not (amount is None or amount == "auto" or (isinstance(amount, int | float) and 0 <= amount <= 1)):
            raise ValueError(f'shrinkage must be None, "auto" or a number from 0 to 1, got {amount!r}')
        return Table(dense(self, X, reset))

    # verbs

    def survey(self, shard: Shard) -> Survey:
        X, K, unlabelled = shard.table.X, len(self.classes_), int(np.sum(shard.y < 0))
        n, s = kernels.class_sums(X, shard.y, shard.weight, K)
        if np.isfinite(s).all() and not unlabelled and shard.weight.all():
            return Survey(np.repeat(n[:, None], X.shape[1], axis=1), s, 0, 0, 0)
        cells, s, infinite = kernels.class_sums_observed(X, shard.y, shard.weight, K)
        return Survey(cells, s, int(np.isnan(X).sum()), unlabelled, infinite)

    def init(self, survey: Survey, rng: np.random.Generator) -> Params:
        refuse_infinite(survey.infinite)
        n, s, column = survey.n, survey.s, survey.n.sum(axis=0)
        # a class without observed values in a column starts from the mean of that column
        mean = np.where(n > 0, s / np.where(n > 0, n, 1.0), s.sum(axis=0) / np.where(column > 0, column, 1.0))
        K, d = mean.shape
        diagonal = self.covariance == "diagonal"
        if not diagonal and not column.all():
            raise DataError(f"columns {np.flatnonzero(column == 0)[:5].tolist()} have no observed value; drop them")
        hidden = survey.unlabelled > 0 or (survey.gaps > 0 and not diagonal)
        # no covariance yet: the first E-step then puts class means where cells are missing
        covariance = None if diagonal else np.zeros((1, d, d))
        return Params(n.max(axis=1), np.full(K, -np.log(K)), mean, None, covariance, None, None, not hidden, ready=False)

    def sweep(self, shard: Shard, latents: None, params: Params, rng: np.random.Generator) -> tuple[Tally, None]:
        total: Tally = add([self._tally(shard.table.X, y, weight, params) for y, weight in self._e_step(shard, params)])
        return total._replace(objective=self._log_likelihood(shard, params)), None

    def _tally(self, X: np.ndarray, y: np.ndarray, weight: Array, params: Params) -> Tally:
        n, mean = class_weights(y, weight, len(params.n)), params.mean
        if self.covariance == "diagonal":
            return Tally(0.0, n, None, Gaussian.tally(X, y, weight, mean))
        fourth = self.shrinkage == "auto"
        G = len(n) if fourth or self.covariance == "class" else 1
        if params.complete:
            return Tally(0.0, n, products(X, y, weight, mean, G, fourth), None)
        sigma = partial(self._sigma, params)
        return Tally(0.0, n, expected_products(X, y, weight, mean, G, fourth, sigma, _size(mean)), None)

    def update(self, params: Params, tally: Tally, rng: np.random.Generator) -> Params:
        n = tally.n
        if tally.cells is not None:
            return self._diagonal(n, Gaussian.centred(tally.cells, params.mean), params.complete)
        assert tally.sums is not None
        delta = np.divide(tally.sums.s, n[:, None], out=np.zeros_like(params.mean), where=n[:, None] > 0)
        return self._estimate(n, params.mean + delta, move(n, tally.sums, -delta), params.complete)

    def objective(self, tally: Tally | None, before: Params, after: Params) -> float:
        if tally is not None and not after.complete:
            return tally.objective
        labels = dot0(after.n, after.log_prior)
        if after.cells is not None:
            return labels + Gaussian.log_likelihood(after.cells)
        assert after.sums is not None and after.root is not None
        W, log_det, rank, _ = after.root
        S, n = after.sums.S, after.n
        if len(W) == 1:
            S, n = S.sum(axis=0, keepdims=True), n.sum(keepdims=True)
        return labels - 0.5 * float(np.sum(n * (rank * LOG_2PI + log_det)) + np.sum(W * (S @ W)))

    def _sigma(self, params: Params, k: int) -> Array:
        """The covariance of class k."""
        assert params.covariance is not None
        return params.covariance[k if len(params.covariance) > 1 else 0]

    def _diagonal(self, n: Array, cells: GaussianParams, complete: bool) -> Params:
        if isinstance(self.shrinkage, int | float):  # "auto" shrinks correlations only, and there are none
            v = cells.variance
            cells = cells._replace(variance=(1 - self.shrinkage) * v + self.shrinkage * v.mean(axis=1, keepdims=True))
        return Params(n, self._log_prior(n), cells.mean, None, None, None, cells, complete, ready=True)

    def _estimate(self, n: Array, mean: Array, sums: Scatter, complete: bool) -> Params:
        """Covariances (eq. 3), shrunk, with their roots, from sums about the means."""
        d, total, S, A, size = mean.shape[1], n.sum(), sums.S, sums.A, _size(mean)
        pooled = S.sum(axis=0) / total
        covariance = pooled[None]
        if len(S) > 1:
            of = [
                pooled if n[k] == 0 else S[k] / n[k] if A is None else ledoit_wolf(n[k], S[k] / n[k], A[k], size)
                for k in range(len(n))
            ]
            covariance = np.array(of)
        if self.covariance == "shared" and len(covariance) > 1:
            covariance = np.tensordot(n / total, covariance, axes=1)[None]
        if isinstance(self.shrinkage, int | float):
            trace = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / d
            covariance = (1 - self.shrinkage) * covariance + self.shrinkage * trace * np.eye(d)
            pooled = covariance.mean(axis=0)
        if not complete:
            # where cells are missing a likelihood can grow without bound towards a singular covariance: EM keeps off it
            between = np.average((mean - np.average(mean, axis=0, weights=n)) ** 2, axis=0, weights=n)
            ridge = FLOOR * np.diag(np.diag(pooled) + between)
            covariance, pooled = covariance + ridge, pooled + ridge
        root = whiten(covariance, covariance[0] if len(covariance) == 1 else pooled, size)
        return Params(n, self._log_prior(n), mean, sums, covariance, root, None, complete, ready=True)

    def _unobserved(self) -> list[int]:
        cells = self.params_.cells
        return [] if cells is None else np.flatnonzero(cells.n.sum(axis=0) == 0).tolist()

    # what users ask

    @np.errstate(invalid="ignore")  # infinities are looked for below, and refused in words
    def _log_joint(self, table: Table, params: Params, relative: bool = False) -> Array:
        X = table.X
        J = np.empty((len(X), len(params.n)))
        J[:] = params.log_prior
        if params.cells is not None:
            Gaussian.add_scores(X, params.cells, J, relative)
        else:
            assert params.root is not None
            J += log_density(X, params.mean, params.root, relative)
        if not np.isfinite(J.sum()):  # looked into only when something is odd: complete rows pay one sum
            refuse_infinite(int(np.isinf(X).sum()))
            gaps = np.flatnonzero(np.isnan(X).any(axis=1))
            if len(gaps) and params.cells is None:
                J[gaps] = self._log_joint_gaps(X[gaps], params)
        return J

    def _labeller(self) -> Callable[[Table, np.ndarray], None]:
        params: Params = self.params_
        general = super()._labeller()
        if params.root is None or len(params.root.W) > 1:
            return general
        # one covariance: the classes differ by K products with x, and no more need be computed
        coef, offset = linear(params.mean, params.root, params.log_prior)

        def label(table: Table, out: np.ndarray) -> None:
            rows.linear_best(table.X, coef, offset, out)
            odd = np.flatnonzero(out < 0)  # rows with gaps
            if len(odd):
                some = np.empty(len(odd), dtype=out.dtype)
                general(Table(table.X[odd]), some)
                out[odd] = some

        return label

    def _log_joint_gaps(self, X: np.ndarray, params: Params) -> Array:
        """As `_log_joint`, by the marginal density of the observed cells."""
        assert params.covariance is not None
        J = np.tile(params.log_prior, (len(X), 1))
        weights = params.n if len(params.covariance) > 1 else np.ones(1)
        pooled = np.tensordot(weights / weights.sum(), params.covariance, axes=1)
        for gaps, members in patterns(X):
            o = np.flatnonzero(~gaps)
            if len(o):
                root = whiten(params.covariance[:, o[:, None], o], pooled[o[:, None], o], _size(params.mean)[o])
                J[members] += log_density(X[np.ix_(members, o)], params.mean[:, o], root, relative=False)
        return J

    def _draw(self, codes: np.ndarray, rng: np.random.RandomState) -> Array:
        params: Params = self.params_
        if params.cells is not None:
            return Gaussian.draw(params.cells, codes, rng)
        out = params.mean[codes]
        for k in np.unique(codes):
            mine = codes == k
            out[mine] += rng.multivariate_normal(np.zeros(out.shape[1]), self._sigma(params, k), mine.sum(), check_valid="ignore")
        return out

    def _combine(self, other: Self, classes: np.ndarray, mine: np.ndarray, theirs: np.ndarray) -> Params:
        a: Params = _spread(self.params_, mine, len(classes))
        b: Params = _spread(other.params_, theirs, len(classes))
        n = a.n + b.n
        if a.cells is not None and b.cells is not None:
            return self._diagonal(n, Gaussian.merge(a.cells, b.cells), True)
        assert a.sums is not None and b.sums is not None
        share = np.divide(b.n, n, out=np.zeros_like(n), where=n > 0)[:, None]
        mean = a.mean + share * (b.mean - a.mean)
        sums = add([move(p.n, p.sums, p.mean - mean) for p in (a, b) if p.sums is not None])
        return self._estimate(n, mean, sums, True)

    def _caveats(self) -> list[str]:
        root = self.params_.root
        if root is None or self.covariance != "class" or not (root.floored & (self.params_.n > 0)).any():
            return []
        names = self.classes_[root.floored & (self.params_.n > 0)].tolist()
        return [
            f"the rows of the classes {names[:5]} span fewer directions than the others, so their smallest variances were "
            'raised to 1e-9 of the pooled ones; shrinkage="auto" or covariance="shared" is safer'
        ]

    def _facts(self) -> list[str]:
        d, root = self.n_features_in_, self.params_.root
        rank = "" if root is None or root.rank == d else f", which span {root.rank} directions (the others have no variance)"
        return [*super()._facts(), f"{d} column{'s' * (d != 1)}{rank}"]

    @property
    def means_(self) -> Array:
        """(K, d) mean of each class."""
        return self.params_.mean

    @property
    def covariance_(self) -> Array:
        """(d, d) if shared, (K, d, d) if of each class, (K, d) variances if diagonal."""
        if self.params_.cells is not None:
            return self.params_.cells.variance
        return self.params_.covariance[0] if self.covariance == "shared" else self.params_.covariance


def _size(mean: Array) -> Array:
    """How large the values of each column are, to tell variance from rounding."""
    return np.abs(mean).max(axis=0)


def _spread(params: Params, places: np.ndarray, K: int) -> Params:
    """What `merge` needs of the params, with class k at places[k] of K."""

    def place(leaf: Any) -> Any:
        return None if leaf is None else spread(leaf, places, K)

    cells = params.cells and GaussianParams(*map(place, params.cells))
    sums = params.sums
    if sums is not None:  # one scatter for all classes has no place to change
        sums = Scatter(place(sums.s), sums.S if len(sums.S) == 1 else place(sums.S), place(sums.B), place(sums.A))
    return params._replace(n=place(params.n), mean=place(params.mean), sums=sums, cells=cells)
