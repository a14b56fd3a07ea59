"""Poisson log-normal models: counts of many species (genes, words) in many samples, correlated through a Gaussian layer.

    Z_i = B'x_i + C W_i,   W_i ~ N(0, I_q)             latent log abundances of sample i;  Sigma = C C'
    Y_ij | Z_ij ~ Poisson(exp(o_ij + Z_ij))            counts; o are known offsets (sampling effort)

rank=None is the PLN model: q = p, and Sigma is full, diagonal, spherical or given. rank=q < p is PLN-PCA. Two ways of fitting:

    1.  variational   maximise  J = sum_i E_q[log p(Y_i, Z_i)] - E_q[log q_i],   q_i = N(M_i, diag S2_i),   J <= log p(Y)
    2.  importance    stochastic gradients of log p(Y) itself, each an average over weighted draws of W_i

The solvers are `pln_full` (1, q = p), `pln_rank` (1, q < p; its rows in `pln_rows`, its axes in `pln_axes`) and `pln_importance`
(2); `pln_evidence` estimates log p(Y) by importance sampling; `pln_doors` and `pln_answers` are the ways in and out. A missing
count drops out exactly.

References: Aitchison and Ho 1989; Chiquet, Mariadassou and Robin 2018, 2021; Batardiere, Chiquet and Kwon 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tallies.counts.answers import Answers
from tallies.counts.door import Doors, Rows, those, weights
from tallies.counts.importance import SamplingLatents, SamplingParams
from tallies.counts.rank import RankLatents, RankParams
from tallies.counts.records import FullLatents, FullParams, Shard
from tallies.counts.tables import as_counts, as_design, as_offsets
from tallies.engine import State
from tallies.estimator import Estimator
from tallies.lbfgs import Direction

RECORDS = (
    Direction,
    FullLatents,
    FullParams,
    SamplingLatents,
    SamplingParams,
    RankLatents,
    RankParams,
)  # what a file of a PLN may hold


@dataclass(eq=False, repr=False)
class PLN(Answers, Doors, Estimator):
    """A Poisson log-normal model of a table of counts.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.multivariate_normal([1.0, 2.0, 0.0], [[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 0.5]], size=300)
    >>> model = PLN().fit(rng.poisson(np.exp(Z)))
    >>> bool(np.abs(model.coefficients_ - [1.0, 2.0, 0.0]).max() < 0.2)
    True
    >>> bool(model.correlation_[0, 1] > 0.6), model.converged_
    (True, True)
    """

    rank: int | None = None  # q of PLN-PCA; None: no constraint on the rank
    method: str = "variational"  # or "importance"
    covariance: Any = "full"  # "full", "diagonal", "spherical", or a matrix (p, p) to keep; of rank=None
    random_state: Any = None  # starts of PLN-PCA, draws of importance sampling
    intercept: bool = False  # add a column of ones to the covariates; without covariates there always is one
    max_iter: int = 20_000  # most sweeps over the data, or batches of importance sampling
    tol: float = 1e-11  # variational: stop when five steps gain less than this part of the bound; PCA: ten steps, 5,000 times it
    n_starts: int = 3  # PLN-PCA: starts tried, since the bound has several maxima; two are fixed, any more are drawn
    warm_start: bool = False  # a second fit goes on from where the first one stopped
    accuracy: float = 0.005  # importance: 1 / draws a row
    batch_size: int = 40  # importance: rows of a gradient
    optimizer: str = "adagrad"  # importance: or "rmsprop"
    learning_rate: float | None = None  # importance: None is 0.03 for Adagrad (0.1 from a crude start), 0.01 for RMSprop
    variance_reduction: bool = True  # importance: SAGA
    n_plateau: int = 15  # importance: stop after so many epochs without a gain ...
    n_trigger: int = 5  # ... counted once the best epoch is this many epochs old
    max_epochs: int = 500  # importance: most epochs
    good_init: bool = True  # importance: start from the variational fit
    next_steps = ("model.coefficient_table()", "model.correlation_", 'model.report("page.html", counts)')

    @property
    def monotone(self) -> bool:  # type: ignore[override]
        """Whether the objective can never fall: the bound cannot, the estimates of importance sampling are noisy."""
        return self.method == "variational"

    def fit(
        self,
        counts: Any,
        covariates: Any = None,
        offsets: Any = None,
        sample_weight: Any = None,
        *,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        resume: str | Path | None = None,
        callback: Any = None,
    ) -> Self:
        """Fit to counts (n, p), with NaN where a count is missing.

        `covariates` (n, d) is the design as it is, None an intercept; `offsets` is None, "logsum", "tss", "css", "rle", "gmpr",
        "tmm", "wrench", or logarithms of the sampling effort as an array. Data frames are matched by the names of their rows.
        """
        shards = self._shards(counts, covariates, offsets, sample_weight)
        state = self._run(shards, progress=progress, checkpoint=checkpoint, resume=resume, callback=callback)
        self._keep(state)
        return self

    def _shards(self, counts: Any, covariates: Any = None, offsets: Any = None, sample_weight: Any = None) -> list[Shard]:
        """Through the door: validate, choose the solver, cut."""
        self._check()
        table = as_counts(counts)
        X, names = as_design(covariates, len(table.Y), table.rows, self.intercept)
        rows = Rows(table.Y, table.missing, as_offsets(offsets, table), X)
        v = weights(sample_weight, len(X))
        self._check_rows(rows, v, names, table.columns)
        before = self if self.warm_start and hasattr(self, "latent_mean_") and len(self.latent_mean_) == len(X) else None
        warm = before._stacked() if before is not None and self.method == "variational" else None
        self._name(table.columns, names, offsets)
        live = v > 0  # rows of weight 0 are placed afterwards, by the model that the others gave
        part = those(rows, live)
        self._plan: Any = self._choose(part, v[live], before)
        self._data = rows, v
        return self._cut(part, v[live], None if warm is None else warm[live])

    # the five verbs are those of the solver that `fit` chose

    def survey(self, shard: Shard) -> Any:
        return self._plan.survey(shard)

    def init(self, survey: Any, rng: np.random.Generator) -> Any:
        return self._plan.init(survey, rng)

    def settle(self, shard: Shard, params: Any, rng: np.random.Generator) -> Any:
        return self._plan.settle(shard, params, rng)

    def sweep(self, shard: Shard, latents: Any, params: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        return self._plan.sweep(shard, latents, params, rng)

    def update(self, params: Any, tally: Any, rng: np.random.Generator) -> Any:
        return self._plan.update(params, tally, rng)

    def objective(self, tally: Any, before: Any, after: Any) -> float:
        return self._plan.objective(tally, before, after)

    def done(self, params: Any) -> bool:
        return self._plan.done(params)

    def _converged(self, state: State) -> bool:
        return self.done(state.params)  # an iteration takes several sweeps: the change in one of them says nothing

    @classmethod
    def _records(cls) -> list[type]:
        return list(RECORDS)

    # what a user asks

    def transform(self, counts: Any, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """Latent positions of new samples: means of Z (n, p), or scores on the components (n, q) where rank=q.

        >>> model = PLN().fit([[1, 20], [2, 30], [0, 5], [9, 90], [4, 44]])
        >>> model.transform([[3, 33]]).shape
        (1, 2)
        """
        return self._project(self._rows(counts, covariates, offsets))[0]

    def fit_transform(self, counts: Any, covariates: Any = None, offsets: Any = None, **options: Any) -> np.ndarray:
        """Fit, and give the latent positions of the samples."""
        return self.fit(counts, covariates, offsets, **options).latent_mean_

    def sample(self, n: int, random_state: Any = None, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """Draw counts (n, p) from the fitted model; without covariates and offsets, those of rows of the fit drawn at random.

        >>> PLN().fit([[1, 20], [2, 30], [0, 5], [9, 90], [4, 44]]).sample(3, random_state=0).shape
        (3, 2)
        """
        check_is_fitted(self)
        rng = np.random.default_rng(random_state)
        chosen = rng.integers(len(self.design_), size=n)
        X = self.design_[chosen] if covariates is None else self._design(covariates, n, None)
        O = (
            self._training_offsets(chosen)
            if offsets is None
            else np.broadcast_to(np.asarray(offsets, dtype=float).reshape(n, -1), (n, self.n_features_in_))
        )
        C = self.components_
        Z = X @ self.coefficients_ + rng.normal(size=(n, C.shape[1])) @ C.T
        return rng.poisson(np.exp(np.minimum(O + Z, 40.0)))  # numpy's Poisson ends at 2^63
