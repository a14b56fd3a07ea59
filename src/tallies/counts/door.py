"""The ways into and out of the PLN solvers: validation, cutting into shards, naming what was fitted, placing new rows."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln
from sklearn.utils.validation import check_is_fitted

from tallies import engine
from tallies.backends import Threads, thread_count
from tallies.counts.evidence import Evidence, evidence, gaussians
from tallies.counts.full import GRADIENT, Covariance
from tallies.counts.importance import Importance, SamplingParams
from tallies.counts.kernels.plain import blocks
from tallies.counts.rank import Rank, RankParams
from tallies.counts.records import FullParams, Shard
from tallies.counts.tables import HIDDEN, as_counts, as_design, as_offsets, independent
from tallies.engine import State
from tallies.errors import ConvergenceWarning, DataError, DataWarning

SINGLE = 10_000  # counts from which a fit begins in single precision: those whose loops are compiled
SHARD = 1 << 17  # least counts of a shard: 1 MB an array, a few milliseconds a sweep
FINAL_DRAWS = 1000  # of the log likelihood after a fit by importance sampling
POOR = 0.1  # effective share of the draws below which an estimate is not to be trusted
PLACING = 5000  # most sweeps to place rows under a fitted model


class Rows(NamedTuple):
    """Validated rows."""

    Y: np.ndarray  # counts, 0 where missing                        (n, p)
    missing: np.ndarray | None  #                                   (n, p)
    O: np.ndarray  # offsets, -1e4 where missing                    (n, p)
    X: np.ndarray  # design                                         (n, d)


def weights(sample_weight: Any, n: int) -> np.ndarray:
    """Row weights (n,), ones by default."""
    if sample_weight is None:
        return np.ones(n)
    v = np.asarray(sample_weight, dtype=np.float64)
    if v.shape != (n,) or not np.isfinite(v).all() or (v < 0).any() or not v.any():
        raise DataError(f"sample_weight must be {n} numbers, none negative and not all zero; got shape {v.shape}")
    return v


def log_factorial(Y: np.ndarray) -> np.ndarray:
    """log Y!, looked up for counts below 1,024.

    >>> log_factorial(np.array([0.0, 3.0])).round(4)
    array([0.    , 1.7918])
    """
    small = np.minimum(Y, 1023).astype(np.int64)
    out = gammaln(np.arange(1024) + 1.0)[small]
    large = Y > 1023
    if large.any():
        out[large] = gammaln(Y[large] + 1)
    return out


def moments(M: np.ndarray, S2: np.ndarray, X: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """B and Sigma at the maximum of the bound, given the rows."""
    vX = v[:, None] * X
    B = np.linalg.solve(vX.T @ X, vX.T @ M)
    Sigma = np.zeros((M.shape[1], M.shape[1]))
    for b in blocks(len(M), M.shape[1], 1 << 20):  # R is as large as the data: never all of it at once
        R = M[b] - X[b] @ B
        Sigma += R.T @ (v[b, None] * R)
    Sigma[np.diag_indices(len(Sigma))] += v @ S2
    return B, 0.5 * (Sigma + Sigma.T) / v.sum()


class Doors:
    """What `PLN` does around its solvers."""

    def _check(self: Any) -> None:
        """Hyperparameters that no data can make sense of."""
        if self.method not in ("variational", "importance"):
            raise ValueError(f'method must be "variational" or "importance", got {self.method!r}')
        if isinstance(self.covariance, str) and self.covariance not in ("full", "diagonal", "spherical"):
            raise ValueError(f'covariance must be "full", "diagonal", "spherical" or a matrix, got {self.covariance!r}')
        plain = isinstance(self.covariance, str) and self.covariance == "full"
        if not plain and (self.rank is not None or self.method == "importance"):
            raise ValueError('covariance must be "full" where rank is given or method="importance": it is C C\' there')
        for name in ("rank", "n_starts", "max_iter", "batch_size", "n_plateau", "n_trigger", "max_epochs"):
            value = getattr(self, name)
            if not (isinstance(value, int | np.integer) and value > 0) and (name != "rank" or value is not None):
                raise ValueError(f"{name} must be {'None or ' * (name == 'rank')}a positive whole number, got {value!r}")
        if self.optimizer not in ("adagrad", "rmsprop"):
            raise ValueError(f'optimizer must be "adagrad" or "rmsprop", got {self.optimizer!r}')
        if not 0 < self.accuracy <= 0.5:
            raise ValueError(f"accuracy must be in (0, 0.5], got {self.accuracy!r}: it is one over the number of draws")

    def _check_rows(self: Any, rows: Rows, v: np.ndarray, names: np.ndarray, columns: np.ndarray | None) -> None:
        """Data that no fit can make sense of."""
        n, p = rows.Y.shape
        d = rows.X.shape[1]
        if (v > 0).sum() <= d:
            raise DataError(f"expected more rows than covariates, got {(v > 0).sum()} rows for {d}; add rows or drop covariates")
        independent(rows.X[v > 0], names)
        empty = np.flatnonzero(v @ rows.Y == 0)
        if len(empty):
            shown = empty[:5].tolist() if columns is None else list(columns[empty[:5]])
            raise DataError(
                f"columns such as {shown} ({len(empty)} in all) have no counts: their mean has no finite estimate; drop them"
            )
        if self.rank is not None and self.rank > min(n, p):
            raise DataError(f"rank must be at most min(n, p) = {min(n, p)}, got {self.rank}; lower it, or use rank=None")
        if not isinstance(self.covariance, str):
            Sigma = np.asarray(self.covariance, dtype=np.float64)
            if Sigma.shape != (p, p) or not np.allclose(Sigma, Sigma.T) or np.linalg.eigvalsh(Sigma)[0] <= 0:
                raise DataError(
                    f"a given covariance must be symmetric and positive definite with shape ({p}, {p}), got shape {Sigma.shape}"
                )

    def _name(self: Any, columns: np.ndarray | None, names: np.ndarray, offsets: Any) -> None:
        for stale in ("formula_", "levels_", "feature_names_in_"):
            if hasattr(self, stale):
                delattr(self, stale)
        if columns is not None:
            self.feature_names_in_ = columns
        self.covariate_names_ = names
        self.offsets_rule_ = offsets if isinstance(offsets, str) else None
        kind = self.covariance if isinstance(self.covariance, str) else "given"
        self.algorithm_ = f"variational PLN-PCA of rank {self.rank}" if self.rank else f"variational PLN with {kind} covariance"
        if self.method == "importance":
            self.algorithm_ = f"importance sampling, {f'rank {self.rank}' if self.rank else 'full rank'}"

    def _choose(self: Any, rows: Rows, v: np.ndarray, before: Any) -> Covariance | Rank | Importance:
        """The solver; for importance sampling with its start."""
        plan: Any
        if self.rank is not None:
            warm = before._own() if before is not None and isinstance(before.params_, RankParams) else None
            plan = Rank(self.rank, self.n_starts, tol=5000 * self.tol, warm=warm)
        else:
            given = None if isinstance(self.covariance, str) else np.asarray(self.covariance, dtype=np.float64)
            w = before.params_.w if before is not None and isinstance(before.params_, FullParams) and given is None else None
            single = rows.Y.size > SINGLE
            plan = Covariance("given" if given is not None else self.covariance, given, w=w, single=single, tol=self.tol)
        if self.method == "variational":
            return plan
        good = self.good_init or before is not None
        rate = self.learning_rate or {"adagrad": 0.03 if good else 0.1, "rmsprop": 0.01}[self.optimizer]
        start = self._weights_now() if before is not None else self._start(rows, v, plan)
        return Importance(
            self.rank or rows.Y.shape[1],
            start,
            max(2, round(1 / self.accuracy)),
            self.batch_size,
            self.optimizer,
            rate,
            self.variance_reduction,
            self.n_plateau,
            self.n_trigger,
            self.max_epochs,
            look=good,
        )

    def _start(self: Any, rows: Rows, v: np.ndarray, plan: Any) -> np.ndarray:
        """[B', C] to begin importance sampling from: the variational fit, or the crude start of that fit."""
        state = solve(plan, self._cut(rows, v), self.max_iter if self.good_init else 6, self._seed())
        if isinstance(plan, Rank):
            return plan.answer(state.params)[0]
        B, Sigma = moments(*current(state), rows.X, v)
        return np.hstack([B.T, np.linalg.cholesky(Sigma)])

    def _weights_now(self: Any) -> np.ndarray:
        """[B', C] of a fitted model."""
        return np.hstack([self.coefficients_.T, self.components_])

    def _cut(self: Any, rows: Rows, v: np.ndarray, warm: np.ndarray | None = None) -> list[Shard]:
        """Cut by the size of the data alone; a table wider than long stays whole, since its solver works on all rows at once."""
        n, p = rows.Y.shape
        parts = 1 << min(6, max(0, (n * p // SHARD).bit_length() - 1))  # a power of two shares evenly among threads
        size = self.shard_rows or (n if n <= p else max(p, -(-n // parts)))
        even = bool((v == 1).all())
        shards = []
        for i in range(0, n, size):
            b = slice(i, min(i + size, n))
            constant = float(v[b] @ log_factorial(rows.Y[b]).sum(axis=1))
            X = np.ascontiguousarray(rows.X[b])
            shards.append(
                Shard(rows.Y[b], rows.O[b], X, v[b], even, i, n, constant, None if warm is None else np.ascontiguousarray(warm[b]))
            )
        return shards

    def _keep(self: Any, state: State) -> None:
        """Name what was fitted."""
        params, (rows, v) = state.params, self._data
        live = v > 0
        self.n_features_in_, self.design_, self.weights_ = rows.Y.shape[1], rows.X, v
        even = rows.missing is None and (rows.O[:, :1] == rows.O).all()
        self.offsets_ = rows.O[:, :1].copy() if even else rows.O
        self.history_ = self.history_[np.diff(self.history_, prepend=np.nan) != 0]  # one value a step; NaN differs from all
        self.rotation_ = None
        if isinstance(params, FullParams):
            M, S2 = current(state)
            self.coefficients_, self.covariance_ = moments(M, S2, rows.X[live], v[live])
            if not isinstance(self.covariance, str):
                self.covariance_ = np.array(self.covariance, dtype=np.float64)
            elif self.covariance != "full":
                spread = self.covariance_.diagonal()
                self.covariance_ = np.diag(spread if self.covariance == "diagonal" else np.full(len(spread), spread.mean()))
            self.latent_mean_, self.latent_variance_ = M, S2
        elif isinstance(params, RankParams):
            W, whole = self._plan.answer(params)
            self._take(W)
            if not whole:
                state = self._rest(those(rows, live), v[live])
            self.latent_mean_, self.latent_variance_ = self._turn(*current(state))
        else:
            found = self._better(rows, v, self._plan.start, self._plan.answer(params))
        if isinstance(params, SamplingParams) or not live.all():
            self.latent_mean_, self.latent_variance_ = self._project(rows)
        self.converged_ = self.converged_ and bool(params.met)
        self.loglik_stderr_ = self.ess_ = None
        if isinstance(params, SamplingParams):
            self.history_ = self.history_ - float(v @ gammaln(rows.Y + 1).sum(axis=1))
            self.elbo_, self.loglik_ = None, float(v @ found.rows)
            self.loglik_stderr_, self.ess_ = float(np.sqrt(v**2 @ found.rows_stderr**2)), found.ess
        else:
            self.elbo_ = self.loglik_ = -float(state.params.F)
        self._remark()

    def _take(self: Any, W: np.ndarray) -> None:
        """The fitted attributes of [B', C]."""
        d = W.shape[1] - self._plan.q
        self.coefficients_ = W[:, :d].T.copy()
        self._orient(W[:, d:])

    def _better(self: Any, rows: Rows, v: np.ndarray, start: np.ndarray, end: np.ndarray) -> Evidence:
        """Take the end of importance sampling, or its start where that is more likely with the same draws; the evidence of it.

        From a start that is nearly the best, the noise of the gradients may cost more than the steps gain.
        """
        found = []
        for W in (start, end):
            self._take(W)
            found.append(self._evidence(rows, FINAL_DRAWS, self.seed_))
        if v @ found[0].rows <= v @ found[1].rows:
            return found[1]
        self._take(start)
        return found[0]

    def _remark(self: Any) -> None:
        """Warn of what the user should know of this fit."""
        if self.rank is None and self.method == "variational" and isinstance(self.covariance, str):
            flat = np.flatnonzero(self.covariance_.diagonal() < 1e-4)
            if len(flat):
                warnings.warn(
                    f"columns such as {self._columns()[flat[:3]].tolist()} ({len(flat)} of {self.n_features_in_}) vary less than "
                    f"Poisson counts do: their latent variance "
                    "is 0 within 1e-4, and their correlations mean nothing",
                    DataWarning,
                    stacklevel=4,
                )
        if self.method == "importance" and not self.converged_:
            text = "the likelihood had no plateau before max_epochs or max_iter; raise them, or the learning rate"
            warnings.warn(text, ConvergenceWarning, stacklevel=4)
        if self.ess_ is not None and self.ess_.min() < POOR:
            warnings.warn(poor(self.ess_), DataWarning, stacklevel=4)

    def _columns(self: Any) -> np.ndarray:
        names = getattr(self, "feature_names_in_", None)
        return names if names is not None else np.array([f"y{j}" for j in range(self.n_features_in_)], dtype=object)

    # the rotation of PLN-PCA: orthogonal columns, longest first, largest entry positive

    def _orient(self: Any, C: np.ndarray) -> None:
        U, size, Vt = np.linalg.svd(C, full_matrices=False)
        sign = np.sign(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])])
        self.rotation_ = Vt.T * sign
        if self.rank is None:  # importance sampling at full rank
            self.covariance_ = C @ C.T
        else:
            self.components_ = U * size * sign

    def _turn(self: Any, M: np.ndarray, S2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return M @ self.rotation_, S2 @ self.rotation_**2

    def _stacked(self: Any) -> np.ndarray:
        """The latent means of a former fit, on the axes of its solver."""
        return self.latent_mean_ if self.rank is None else self.latent_mean_ @ self.rotation_.T

    def _own(self: Any) -> np.ndarray:
        """[B', C] in the rotation of the solver: the bound depends on it, the model does not."""
        return np.hstack([self.coefficients_.T, self.components_ @ self.rotation_.T])

    def _rest(self: Any, rows: Rows, v: np.ndarray) -> State:
        """Fit the rows alone, under the [B', C] of a PLN-PCA."""
        return solve(Rank(self.rank, W=self._own(), tol=5000 * self.tol), self._cut(rows, v), PLACING, 0)

    # new rows

    def _rows(self: Any, counts: Any, covariates: Any, offsets: Any) -> Rows:
        """Validate new rows against the fitted model."""
        check_is_fitted(self)
        table = as_counts(counts)
        if table.Y.shape[1] != self.n_features_in_:
            raise DataError(
                f"counts have {table.Y.shape[1]} columns, but the model was fitted with {self.n_features_in_}; pass "
                f"the same columns"
            )
        mine = getattr(self, "feature_names_in_", None)
        if mine is not None and table.columns is not None and list(mine) != list(table.columns):
            raise DataError(
                f"counts have columns {list(table.columns[:5])}, the model was fitted with {list(mine[:5])}; pass the "
                f"same in the same order"
            )
        if offsets is None and self.offsets_rule_ is not None:
            if self.offsets_rule_ not in ("logsum", "tss"):
                raise DataError(
                    f'offsets="{self.offsets_rule_}" compare the samples of one table with each other; pass offsets '
                    f"for the new ones"
                )
            offsets = self.offsets_rule_
        return Rows(table.Y, table.missing, as_offsets(offsets, table), self._design(covariates, len(table.Y), table.rows))

    def _design(self: Any, covariates: Any, n: int, names: np.ndarray | None) -> np.ndarray:
        if hasattr(self, "formula_"):
            if covariates is None:
                raise DataError(f"the model was fitted with {self.formula_!r}; pass the table of its variables as covariates")
            covariates = self._matrix(covariates)
        if covariates is None and list(self.covariate_names_) != ["intercept"]:
            raise DataError(f"the model was fitted with covariates {list(self.covariate_names_)}; pass them for the new rows")
        X, _ = as_design(covariates, n, names, self.intercept and not hasattr(self, "formula_"))
        if X.shape[1] != len(self.coefficients_):
            raise DataError(f"covariates have {X.shape[1]} columns, but the model was fitted with {len(self.coefficients_)}")
        return X

    def _training_offsets(self: Any, rows: np.ndarray) -> np.ndarray:
        """Offsets of rows of the fit; a hidden cell gets the mean of its column, since only its count was unknown."""
        O = np.array(np.broadcast_to(self.offsets_[rows], (len(rows), self.n_features_in_)))
        hidden = O <= HIDDEN
        if hidden.any():
            seen = np.where(self.offsets_ > HIDDEN, self.offsets_, np.nan)
            O[hidden] = np.broadcast_to(np.nan_to_num(np.nanmean(seen, axis=0)), O.shape)[hidden]
        return O

    def _project(self: Any, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Latent means and variances of rows under the fitted model."""
        if self.method == "importance":
            return self._gaussian_positions(rows)
        v = np.ones(len(rows.X))
        if self.rank is not None:
            return self._turn(*current(self._rest(rows, v)))
        plan = Covariance("given", self.covariance_, self.coefficients_, tol=self.tol)
        return current(solve(plan, self._cut(rows, v), PLACING, 0))

    def _gaussian_positions(self: Any, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        C = self.components_
        at = gaussians(rows.Y, rows.O + rows.X @ self.coefficients_, C)
        if self.rank is not None:
            return at.m, np.einsum("ikk->ik", at.P).copy()
        return rows.X @ self.coefficients_ + at.m @ C.T, np.einsum("jk,ikl,jl->ij", C, at.P, C, optimize=True)

    def _evidence(self: Any, rows: Rows, n_draws: int, seed: int, proposal: str = "auto") -> Any:
        C = self.components_ if self.rank is not None else np.linalg.cholesky(self.covariance_)
        return evidence(rows.Y, rows.O + rows.X @ self.coefficients_, C, n_draws, engine.stream(seed, 0, 7), proposal)


def those(rows: Rows, live: np.ndarray) -> Rows:
    """Rows that have a weight."""
    if live.all():
        return rows
    return Rows(rows.Y[live], None if rows.missing is None else rows.missing[live], rows.O[live], rows.X[live])


def poor(ess: np.ndarray) -> str:
    bad = np.flatnonzero(ess < POOR)
    return (
        f"importance sampling is unreliable for {len(bad)} rows, such as {bad[:5].tolist()}: fewer than {POOR:.0%} of "
        f"their draws count "
        f"(lowest {ess.min():.1%}); take more draws, or rely on the bound"
    )


def solve(plan: Any, shards: list[Shard], max_iter: int, seed: int) -> State:
    """Run a solver to its end, outside of the bookkeeping of a fit."""
    for state in engine.steps(plan, Threads(shards, thread_count()), seed=seed):
        if plan.done(state.params) or len(state.objective) >= max_iter:
            return state
    raise AssertionError  # steps has no end


def current(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of all rows at the current point of a variational solver."""
    params, latents = state.params, state.latents
    if isinstance(params, FullParams):
        names = ("M_trial", "S2_trial") if params.phase == GRADIENT else ("M", "S2")
        return np.vstack([getattr(z, names[0]) for z in latents]), np.vstack([getattr(z, names[1]) for z in latents])
    x = np.vstack([z.x_trial if params.accepted else z.x for z in latents])
    q = x.shape[1] // 2
    return x[:, :q], np.exp(x[:, q:])
