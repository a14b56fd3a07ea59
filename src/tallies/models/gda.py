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
References: Hastie, Tibshirani, Friedman, The Elements of Statistical Learning, ch. 4.3; Ledoit and Wolf 2004; Little and Rubin 2002.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from tallies.data.table import dense, refuse_infinite
from tallies.engine import add
from tallies.errors import DataError
from tallies.kernels import moments as kernels
from tallies.kernels import rows
from tallies.maths import LOG_2PI, Array, Moments, Whitening, dot0, ledoit_wolf, linear, log_density, patterns, recentre, regression, whiten
from tallies.models.classifier import Classifier, Shard, class_weights, spread
from tallies.models.families import Gaussian, GaussianParams, GaussianTally

ROWS = 2048  # rows centred at a time before their products are added: under 1 MB at 50 columns, so they stay in the cache


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
    n: Array  # (K,)       n_k
    s: Array | None  # (K, d)     sum r z, with z = x - c_k about the current mean c_k
    S: Array | None  # (G, d, d)  sum r z z', for all classes (G = 1) or each (G = K)
    B: Array | None  # (K, d, d)  sum r z^2 z', and ...
    A: Array | None  # (K, d, d)  ... sum r z^2 (z^2)', for shrinkage="auto"
    cells: GaussianTally | None  # diagonal: the same, column by column


class Params(NamedTuple):
    n: Array  # (K,)       n_k
    log_prior: Array  # (K,)       log pi_k
    mean: Array  # (K, d)     mu_k, eq. 1
    S: Array | None  # (G, d, d)  eq. 2
    B: Array | None  # as in Tally, about the means: what `merge` needs to go on
    A: Array | None
    covariance: Array | None  # (G, d, d)  eq. 3, shrunk
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
        if not column.all():
            raise DataError(f"columns {np.flatnonzero(column == 0)[:5].tolist()} have no observed value; drop them")
        # a class without observed values in a column starts from the mean of that column
        mean = np.where(n > 0, s / np.where(n > 0, n, 1.0), s.sum(axis=0) / column)
        K, d = mean.shape
        diagonal = self.covariance == "diagonal"
        hidden = survey.unlabelled > 0 or (survey.gaps > 0 and not diagonal)
        if hidden and self.shrinkage == "auto":
            raise DataError('shrinkage="auto" needs complete rows with labels, but some are missing; give a number, such as shrinkage=0.1')
        # no covariance yet: the first E-step then puts class means where cells are missing
        covariance = None if diagonal else np.zeros((self._groups(K), d, d))
        return Params(n.max(axis=1), np.full(K, -np.log(K)), mean, None, None, None, covariance, None, None, not hidden, ready=False)

    def sweep(self, shard: Shard, latents: None, params: Params, rng: np.random.Generator) -> tuple[Tally, None]:
        X = shard.table.X
        tally = self._scatter if params.complete and self.covariance != "diagonal" else self._expected_scatter
        if self.covariance == "diagonal":
            tally = self._cells
        total: Tally = add([tally(X, y, weight, params) for y, weight in self._e_step(shard, params)])
        return total._replace(objective=self._log_likelihood(shard, params)), None

    def update(self, params: Params, tally: Tally, rng: np.random.Generator) -> Params:
        if tally.cells is not None:
            return self._diagonal(tally.n, Gaussian.centred(tally.cells, params.mean), params.complete)
        n, s, S = tally.n, tally.s, tally.S
        assert s is not None and S is not None
        delta = -np.divide(s, n[:, None], out=np.zeros_like(s), where=n[:, None] > 0)
        if len(S) == 1 < len(n):
            return self._estimate(n, params.mean - delta, S - (s.T * (1 / np.where(n > 0, n, 1.0))) @ s, None, None, params.complete)
        moved = [recentre(Moments(n[k], s[k], S[k], *_pair(tally, k)), delta[k]) for k in range(len(n))]
        return self._estimate(n, params.mean - delta, *_stack(moved), params.complete)

    def objective(self, tally: Tally | None, before: Params, after: Params) -> float:
        if tally is not None and not after.complete:
            return tally.objective
        labels = dot0(after.n, after.log_prior)
        if after.cells is not None:
            return labels + Gaussian.log_likelihood(after.cells)
        assert after.S is not None and after.root is not None
        W, log_det, rank, _ = after.root
        n = after.n if len(after.S) == len(W) > 1 else np.array([after.n.sum()])
        S = after.S if len(after.S) == len(W) else after.S.sum(axis=0, keepdims=True)
        return labels - 0.5 * float(np.sum(n * (rank * LOG_2PI + log_det)) + np.sum(W * (S @ W)))

    def _groups(self, K: int) -> int:
        return K if self.covariance == "class" or self.shrinkage == "auto" else 1

    def _cells(self, X: np.ndarray, y: np.ndarray, weight: Array, params: Params) -> Tally:
        return Tally(0.0, class_weights(y, weight, len(params.n)), None, None, None, None, Gaussian.tally(X, y, weight, params.mean))

    def _scatter(self, X: np.ndarray, y: np.ndarray, weight: Array, params: Params) -> Tally:
        """Products of complete rows, about the class means of the survey, a cache-full at a time."""
        K, d = params.mean.shape
        G, auto = self._groups(K), self.shrinkage == "auto"
        s, S, Z = np.zeros((K, d)), np.zeros((G, d, d)), np.empty((min(ROWS, len(X)), d))
        B, A = (np.zeros((K, d, d)), np.zeros((K, d, d))) if auto else (None, None)
        order = np.flatnonzero((weight > 0) & (y >= 0))
        if G > 1:
            order = order[np.argsort(y[order], kind="stable")]
        ends = np.searchsorted(y[order], np.arange(K + 1)) if G > 1 else np.array([0, len(order)])
        for g in range(G):
            for a in range(ends[g], ends[g + 1], ROWS):
                block = order[a : min(a + ROWS, ends[g + 1])]
                z = Z[: len(block)]
                kernels.centred_rows(X, block, y, weight, params.mean, z, s)
                S[g] += z.T @ z
                if A is not None and B is not None:
                    w, z2 = weight[block, None], z * z
                    B[g] += z2.T @ (z / np.sqrt(w))
                    A[g] += z2.T @ (z2 / w)
        return Tally(0.0, class_weights(y, weight, K), s, S, B, A, None)

    def _expected_scatter(self, X: np.ndarray, y: np.ndarray, weight: Array, params: Params) -> Tally:
        """The same of rows with gaps, by their expectations given what is observed (eq. 5)."""
        K, d = params.mean.shape
        assert params.covariance is not None
        G = len(params.covariance)
        s, S = np.zeros((K, d)), np.zeros((G, d, d))
        used = np.flatnonzero((weight > 0) & (y >= 0))
        for gaps, members in patterns(X[used]):
            members = used[members]
            for g in range(G):
                i = members if G == 1 else members[y[members] == g]
                if not len(i):
                    continue
                z, w = X[i] - params.mean[y[i]], weight[i]
                if gaps.any():
                    slope, spread = regression(params.covariance[g], gaps)
                    z[:, gaps] = z[:, ~gaps] @ slope.T
                    S[g][np.ix_(gaps, gaps)] += w.sum() * spread
                S[g] += (z * w[:, None]).T @ z
                np.add.at(s, y[i], z * w[:, None])
        return Tally(0.0, class_weights(y, weight, K), s, S, None, None, None)

    def _diagonal(self, n: Array, cells: GaussianParams, complete: bool) -> Params:
        if isinstance(self.shrinkage, int | float):  # "auto" shrinks correlations only, and there are none
            v = cells.variance
            cells = cells._replace(variance=(1 - self.shrinkage) * v + self.shrinkage * v.mean(axis=1, keepdims=True))
        return Params(n, self._log_prior(n), cells.mean, None, None, None, None, None, cells, complete, ready=True)

    def _estimate(self, n: Array, mean: Array, S: Array, B: Array | None, A: Array | None, complete: bool) -> Params:
        """Covariances (eq. 3), shrunk, with their roots, from moments about the means."""
        d, total = mean.shape[1], n.sum()
        pooled = S.sum(axis=0) / total
        if len(S) == 1:
            covariance = pooled[None]
        elif A is not None:
            covariance = np.array([ledoit_wolf(n[k], S[k] / n[k], A[k]) if n[k] > 0 else pooled for k in range(len(n))])
        else:
            covariance = np.array([S[k] / n[k] if n[k] > 0 else pooled for k in range(len(n))])
        if self.covariance == "shared" and len(covariance) > 1:
            covariance = np.tensordot(n / total, covariance, axes=1)[None]
        if isinstance(self.shrinkage, int | float):
            trace = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / d
            covariance = (1 - self.shrinkage) * covariance + self.shrinkage * trace * np.eye(d)
            pooled = covariance.mean(axis=0)
        root = whiten(covariance, covariance[0] if len(covariance) == 1 else pooled)
        return Params(n, self._log_prior(n), mean, S, B, A, covariance, root, None, complete, ready=True)

    # what users ask

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
                root = whiten(params.covariance[:, o[:, None], o], pooled[o[:, None], o])
                J[members] += log_density(X[np.ix_(members, o)], params.mean[:, o], root, relative=False)
        return J

    def _draw(self, codes: np.ndarray, rng: np.random.RandomState) -> Array:
        params: Params = self.params_
        if params.cells is not None:
            return Gaussian.draw(params.cells, codes, rng)
        assert params.covariance is not None
        out = params.mean[codes]
        for k in np.unique(codes):
            mine = codes == k
            Sigma = params.covariance[k if len(params.covariance) > 1 else 0]
            out[mine] += rng.multivariate_normal(np.zeros(len(Sigma)), Sigma, mine.sum(), check_valid="ignore")
        return out

    def _combine(self, other: Self, classes: np.ndarray, mine: np.ndarray, theirs: np.ndarray) -> Params:
        a: Params = _spread(self.params_, mine, len(classes))
        b: Params = _spread(other.params_, theirs, len(classes))
        n = a.n + b.n
        if a.cells is not None and b.cells is not None:
            return self._diagonal(n, Gaussian.merge(a.cells, b.cells), True)
        assert a.S is not None and b.S is not None
        share = np.divide(b.n, n, out=np.zeros_like(n), where=n > 0)[:, None]
        gap = b.mean - a.mean
        mean = a.mean + share * gap
        if len(a.S) == 1 < len(n):
            return self._estimate(n, mean, a.S + b.S + (gap * a.n[:, None] * share).T @ gap, None, None, True)
        zero = np.zeros(mean.shape[1])
        moved = [
            add([recentre(Moments(p.n[k], zero, p.S[k], *_pair(p, k)), p.mean[k] - mean[k]) for p in (a, b)])  # type: ignore[index]
            for k in range(len(n))
        ]
        return self._estimate(n, mean, *_stack(moved), True)

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
        return [*super()._facts(), f"{d} columns{rank}"]

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


def _pair(sums: Tally | Params, k: int) -> tuple[Array | None, Array | None]:
    """Third and fourth moments of class k, where there are any."""
    return (None, None) if sums.B is None or sums.A is None else (sums.B[k], sums.A[k])


def _stack(moments: list[Moments]) -> tuple[Array, Array | None, Array | None]:
    S = np.array([m.S for m in moments])
    if moments[0].A is None:
        return S, None, None
    return S, np.array([m.B for m in moments]), np.array([m.A for m in moments])


def _spread(params: Params, places: np.ndarray, K: int) -> Params:
    """What `merge` needs of the params, with class k at places[k] of K."""

    def place(leaf: Any) -> Any:
        return None if leaf is None else spread(leaf, places, K)

    one = params.S is not None and len(params.S) == 1 < K  # one scatter for all classes has no place to change
    cells = params.cells and GaussianParams(*map(place, params.cells))
    S = params.S if one else place(params.S)
    return params._replace(n=place(params.n), mean=place(params.mean), S=S, B=place(params.B), A=place(params.A), cells=cells)
