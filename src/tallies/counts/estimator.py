"""Poisson log-normal models: counts of many species (genes, words) in many samples, correlated through a Gaussian layer.

    Z_i = B'x_i + C W_i,   W_i ~ N(0, I_q)             latent log abundances of sample i;  Sigma = C C'
    Y_ij | Z_ij ~ Poisson(exp(o_ij + Z_ij))            counts; o are known offsets (sampling effort)

rank=None is the PLN model: q = p, and Sigma is full, diagonal, spherical or given. rank=q < p is PLN-PCA. Two ways of fitting:

    1.  variational   maximise  J = sum_i E_q[log p(Y_i, Z_i)] - E_q[log q_i],   q_i = N(M_i, diag S2_i),   J <= log p(Y)
    2.  importance    stochastic gradients of log p(Y) itself, each an average over weighted draws of W_i

The solvers are `full` (1, q = p), `rank` (1, q < p; its rows in `rows`, its axes in `axes`) and `importance` (2); `evidence`
estimates log p(Y) by importance sampling; `plan` has the stages, `door` the way in, `answers` what is asked of a fit. A missing
count drops out of log p(Y) exactly; of J it takes a little, since q_i gives its latent a variance of its own.

References: Aitchison and Ho 1989; Chiquet, Mariadassou and Robin 2018, 2021; Batardiere, Chiquet and Kwon 2024.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, Unpack

import numpy as np
import pandas as pd
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from tallies.counts import answers, bridges, door, fitted, plan, stream, zeros_plan
from tallies.counts.alignment import as_design, as_offsets, in_order, one_a_row
from tallies.counts.attributes import Attributes
from tallies.counts.door import Prepared, Rows, everything, from_files, new_design, new_rows, new_zeros, read_formula
from tallies.counts.evidence import Evidence
from tallies.counts.importance import Importance
from tallies.counts.separation import beyond_of
from tallies.counts.tables import Counts, as_counts, plain, row_names
from tallies.counts.written import places, write_answers
from tallies.data.table import check_weights
from tallies.engine import Plan
from tallies.errors import DataError, DataWarning, at_least, one_of
from tallies.estimator import Estimator, Inputs, RunOptions, option, seed_of
from tallies.evaluation.score import Scored, mean_score
from tallies.streams import fit_batches


class FromCounts(Estimator):
    """The doors of every Poisson log-normal model of counts: its settings and its plan are those of the subclass."""

    intercept: bool
    random_state: Any
    # the last is the tag by which scikit-learn's checks make whole numbers, which counts are
    takes: ClassVar[tuple[str, ...]] = ("sparse", "allow_nan", "positive_only", "categorical")

    def _settings(self) -> plan.Settings:
        """The hyperparameters, or a sentence about those that no data can make sense of."""
        raise NotImplementedError

    # fitting

    def fit(
        self,
        counts: Any,
        y: Any = None,
        *,
        covariates: Any = None,
        offsets: Any = None,
        sample_weight: Any = None,
        **run: Unpack[RunOptions],
    ) -> Self:
        """Fit to counts (n, p), with NaN where a count is missing; labels y, which pipelines pass, are not used.

        `covariates` (n, d) is the design as it is, None an intercept; `offsets` is None, "logsum", "tss", "css", "rle", "gmpr",
        "tmm", "wrench", or logarithms of the sampling effort, (n,) or (n, p). Data frames and series are matched by the names of
        their rows, offsets also by those of their columns.

        Each may be a path, see `read_counts` and `read_table`: all columns of a file of covariates are used, with an intercept,
        and words as categories. Names of columns of the file of counts may stand for covariates and weights. Sparse counts stay
        so where offsets are one number a row, and no zeros are structural. An iterator gives batches, each for `partial_fit`.
        """
        if isinstance(counts, Iterator):
            return fit_batches(self, counts, dict(run), covariates, offsets, sample_weight)
        return self._fit(self._prepare(counts, y, covariates, offsets, sample_weight), **run)

    def fit_formula(
        self,
        text: str,
        counts: Any,
        data: Any,
        y: Any = None,
        *,
        offsets: Any = None,
        sample_weight: Any = None,
        **run: Unpack[RunOptions],
    ) -> Self:
        """Fit with covariates from a formula (formulaic's, as in R) over the columns of `data`, such as "~ 1 + tree"."""
        made = read_formula(text, data)
        return self._fit(self._prepare(counts, y, made[0], offsets, sample_weight, made[1], data), **run)

    @classmethod
    def from_formula(
        cls, text: str, counts: Any, data: Any, y: Any = None, *, offsets: Any = None, sample_weight: Any = None, **options: Any
    ) -> Self:
        """A model with these options, fitted by `fit_formula`."""
        return cls(**options).fit_formula(text, counts, data, y, offsets=offsets, sample_weight=sample_weight)

    def _prepare(
        self,
        counts: Any,
        y: Any = None,
        covariates: Any = None,
        offsets: Any = None,
        sample_weight: Any = None,
        read: fitted.Formula | None = None,
        data: Any = None,
    ) -> Prepared:
        keeps = self._keeps_sparse(settings := self._settings())
        counts, beside, offsets, sample_weight = from_files(counts, covariates, offsets, sample_weight, keeps)
        if beside is not covariates:
            covariates, read = read_formula(everything(beside), beside)
        table = as_counts(counts, keeps and one_a_row(offsets))
        (n, p), added = table.Y.shape, self.intercept and read is None
        v = check_weights(sample_weight, n)
        X, names, classes = self._beside(y, v, *as_design(covariates, n, table.rows, added))
        rows = Rows(table.Y, as_offsets(offsets, table), X, v)
        door.check_rows(rows, names, table.columns, settings.rank)
        door.check_given(settings.Sigma, p)
        W = w = M = None
        if getattr(self, "warm_start", False) and self.__sklearn_is_fitted__():
            W, w, M = door.warm(self.fitted_, rows, settings.rank, settings.sampling is not None)
        rule, design = offsets if isinstance(offsets, str) else None, fitted.Design(X, names, added, read)
        sources, sampled = door.cut(rows.take(rows.v > 0), self.shard_rows, M), settings.sampling is not None
        beyond = beyond_of(rows, sources, settings.rank, sampled, classes)
        asked, about = settings.inflation == "formula", beside if data is None else data
        zeros = door.inflating(str(getattr(self, "zero_inflation", None)), about, n, table.rows) if asked else None
        return Prepared(rows, sources, Inputs(p, table.columns), design, rule, W, w, table.rows, classes, zeros, beyond)

    def _keeps_sparse(self, settings: plan.Settings) -> bool:
        """Whether sparse counts stay so, in memory or in their files: its plan asks for no whole table."""
        return settings.inflation is None

    def _beside(
        self, y: Any, v: np.ndarray, X: np.ndarray, names: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, fitted.Classes | None]:
        """The design with what the labels add to it: nothing, for pipelines pass labels to all."""
        door.check_labels(y)
        return X, names, None

    def _plan(self, data: Any, seed: int) -> Plan:
        settings = self._settings()
        if isinstance(data, stream.Added):
            return stream.fit(settings, data, seed, self.shard_rows)
        return (plan if settings.inflation is None else zeros_plan).fit(settings, data, seed, self.shard_rows)

    def _table(self, counts: Any) -> Counts:
        """Counts whose columns are those of the fit: matched by name where both have names."""
        names = self.fitted_.inputs.names
        counts = plain(counts)
        table = as_counts(counts)
        if names is not None and table.columns is not None:
            return in_order(table, list(names))
        try:
            validate_data(self, counts, reset=False, skip_check_array=True)
        except ValueError as error:
            k = table.Y.shape[1]
            raise DataError(f"{error}\n(counts of {k} columns: pass those of the fit, in its order)") from error
        return table

    def _rows(self, counts: Any, covariates: Any, offsets: Any) -> Rows:
        counts, covariates, offsets, _ = from_files(counts, covariates, offsets)
        return new_rows(self.fitted_, self._table(counts), covariates, offsets)


class Counted(FromCounts, Attributes):
    """What every Poisson log-normal model of one population can do."""

    def fit_transform(self, counts: Any, y: Any = None, **options: Any) -> np.ndarray:
        """Fit, and give the latent positions of the samples; options as in `fit`."""
        return self.fit(counts, y, **options).latent_mean_

    def _at_limit(self) -> str:
        if self.fitted_.likelihood.bound:
            return super()._at_limit()
        return "the likelihood had no plateau before max_epochs or max_iter; raise them, or the learning rate"

    # new samples

    def transform(self, counts: Any, *, covariates: Any = None, offsets: Any = None, out: Any = None) -> Any:
        """Latent positions of new samples: means of Z (n, p), or scores on the components (n, q) where rank=q.

        Here and in all that follows, columns of data frames are matched to those of the fit by name, and covariates and offsets
        are needed where the fit had any; only the counts of the fit itself bring theirs along. With `out`, counts in files are read
        in pieces, and positions written to that folder as Parquet, with ids; covariates are then columns of the same table.

        >>> model = PLN().fit([[1, 20], [2, 30], [0, 5], [9, 90], [4, 44]])
        >>> model.transform([[3, 33]]).shape
        (1, 2)
        """
        if out is not None:
            return write_answers(self, counts, covariates, offsets, out, places)
        rows = self._rows(counts, covariates, offsets)
        return plan.project(self.fitted_.model, rows, self.shard_rows).M

    def predict(self, counts: Any = None, *, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """Expected counts (n, p).

        Without counts: of new samples with these covariates and offsets, exp(o + B'x + Sigma_jj/2). With counts: of the same
        samples, given their counts; where a count is NaN, given the others of its row, so this is also the conditional
        prediction of some species from the rest (`offsets` must then be given for all cells, as an array, if the fit used any).
        """
        counts, covariates, offsets, _ = from_files(counts, covariates, offsets)
        if counts is not None:
            return self._expected(self._table(counts), covariates, offsets)
        if covariates is None and offsets is None:
            raise DataError("predict needs counts, covariates or offsets to know for how many samples; pass one of them")
        first = offsets if covariates is None else covariates
        X, names = new_design(self.fitted_.design, covariates, len(first)), row_names(first)
        return answers.expected(self.fitted_, X, offsets, names, new_zeros(self.fitted_, covariates, len(first)))

    def _expected(self, table: Counts, covariates: Any, offsets: Any) -> np.ndarray:
        """Of samples, given their counts."""
        rows = new_rows(self.fitted_, table, covariates, offsets)
        return answers.expected_given(self.fitted_, table, rows, offsets, self.shard_rows)

    def predict_conditional(
        self, counts: Any, given: Iterable[Any], *, covariates: Any = None, offsets: Any = None
    ) -> pd.DataFrame:
        """Expected counts of all columns but those `given` (names or places), from the counts of those.

        >>> import numpy as np
        >>> Y = np.random.default_rng(0).poisson(np.exp(np.random.default_rng(1).normal(2, 1, size=(80, 1)) + [0.0, 0.5]))
        >>> PLN().fit(Y).predict_conditional(Y[:3], given=[0]).shape
        (3, 1)
        """
        counts, covariates, offsets, _ = from_files(counts, covariates, offsets)
        table, hidden = answers.hide(self.fitted_, self._table(counts), given)
        out = self._expected(table, covariates, offsets)[:, hidden]
        return pd.DataFrame(out, columns=self._columns()[hidden].tolist(), index=table.rows)

    def log_prob(self, counts: Any, *, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """The bound on the log likelihood of every row (n,); of a model by importance sampling, the estimate."""
        model, rows = self.fitted_.model, self._rows(counts, covariates, offsets)
        if model.method == "importance":
            return plan.estimate(model, rows, self.shard_rows).rows
        bound = plan.project(model, rows, self.shard_rows, close=True).bound
        assert bound is not None  # the variational placing has one
        return bound

    def score(self, counts: Any, y: Any = None, *, covariates: Any = None, offsets: Any = None) -> float:
        """Mean of `log_prob` over the rows."""
        return float(self.log_prob(counts, covariates=covariates, offsets=offsets).mean())

    def evidence(
        self,
        counts: Any,
        *,
        covariates: Any = None,
        offsets: Any = None,
        n_draws: int = 1000,
        proposal: str = "auto",
        random_state: Any = 0,
    ) -> Evidence:
        """log p(Y_i) of every row by importance sampling, with standard errors and effective shares of the draws."""
        if self.fitted_.model.inflation is not None:
            raise DataError("importance sampling knows no structural zeros; use log_prob, whose bound does, or zero_inflation=None")
        rows = self._rows(counts, covariates, offsets)
        return plan.estimate(self.fitted_.model, rows, self.shard_rows, n_draws, proposal, seed_of(random_state))

    def _evaluate(
        self, counts: Any, covariates: Any = None, offsets: Any = None, *, method: str | None = None, **options: Any
    ) -> Scored:
        """The bound, or an importance sampling estimate of the log likelihood with the standard error of the estimate, per row."""
        method = method or self.fitted_.model.method
        if method == "variational":
            if self.fitted_.model.method == "importance":
                raise DataError('a model fitted by importance sampling has no bound; evaluate it with method="importance"')
            return mean_score(self.log_prob(counts, covariates=covariates, offsets=offsets), "bound", "nats/row")
        one_of("method", method, "variational", "importance")
        found = self.evidence(counts, covariates=covariates, offsets=offsets, **options)
        n = len(found.rows)
        if told := answers.poor(found.ess):
            warnings.warn(told, DataWarning, stacklevel=3)
        return Scored(found.value / n, "estimate", found.stderr / n, "nats/row", found.rows, np.ones(n))

    def sample(self, n: int, *, covariates: Any = None, offsets: Any = None, random_state: Any = None) -> np.ndarray:
        """Draw counts (n, p) from the fitted model; without covariates and offsets, those of rows of the fit drawn at random.

        >>> PLN().fit([[1, 20], [2, 30], [0, 5], [9, 90], [4, 44]]).sample(3, random_state=0).shape
        (3, 2)
        """
        at_least(1, n=n)
        _, covariates, offsets, _ = from_files(None, covariates, offsets)
        X = None if covariates is None else new_design(self.fitted_.design, covariates, n)
        T, rng = new_zeros(self.fitted_, covariates, n), np.random.default_rng(seed_of(random_state))
        return answers.draw(self.fitted_, n, X, offsets, row_names(covariates), rng, T)

    def to_anndata(self, data: Any, key: str = "pln") -> Any:
        """Write the fit into an AnnData of its rows and columns (by name, where it had names): obsm["X_<key>"], uns["<key>"],
        varm["<key>_components"] and varm["<key>_coefficients"]. X is neither copied nor laid out in full."""
        return bridges.into_anndata(self.fitted_, data, key, repr(self))

    def to_arviz(
        self, counts: Any, *, covariates: Any = None, offsets: Any = None, n_draws: int = 500, random_state: Any = 0
    ) -> Any:
        """Draws for ArviZ of the latents of samples (scores where rank=q) given their counts and the fitted model: by importance
        sampling, however the model was fitted, and picked by weight, so that all count alike. Log weights, and the effective share
        of the draws of each row, are in sample_stats. Needs `pip install "tallies[arviz]"`."""
        counts, covariates, offsets, _ = from_files(counts, covariates, offsets)
        return bridges.draws(self.fitted_, self._table(counts), covariates, offsets, n_draws, seed_of(random_state))


@dataclass(eq=False, repr=False, kw_only=True)
class PLN(Counted):
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

    rank: int | None = option(None, "Components of PLN-PCA; default: a full covariance.")  # q; None: no constraint on the rank
    method: Literal["variational", "importance"] | Importance = option(
        "variational", "How to fit: variational or importance."
    )  # or Importance(...)
    covariance: Literal["full", "diagonal", "spherical"] | np.ndarray = option(
        "full", "Which covariance: full, diagonal or spherical."
    )  # or a matrix (p, p) to keep; of rank=None
    zero_inflation: Literal["global", "column", "row"] | str | None = option(
        None, 'More zeros than Poisson counts have, alike for all: global, column or row; or by covariates: a formula, "~ site".'
    )
    random_state: Any = 0  # further starts of PLN-PCA, draws of importance sampling
    intercept: bool = False  # add a column of ones to the covariates; without covariates there always is one
    max_iter: int = 20_000  # most sweeps over the data, or batches of importance sampling
    tol: float = 1e-9  # variational: stop when five steps gain less than this part of the bound (see docs); PCA: ten, 50 times it
    n_starts: int = 3  # PLN-PCA: starts tried, since the bound has several maxima; two are fixed, any more are drawn
    warm_start: bool = False  # a second fit goes on from where the first one stopped

    records: ClassVar[tuple[type, ...]] = (*fitted.RECORDS, *plan.RECORDS, *zeros_plan.RECORDS)
    next_steps: ClassVar[tuple[str, ...]] = ("model.coefficient_table()", "model.correlation_", 'model.report("page.html", counts)')

    @available_if(stream.can)
    def partial_fit(
        self, counts: Any, y: Any = None, *, covariates: Any = None, offsets: Any = None, sample_weight: Any = None, **run: Any
    ) -> Self:
        """Add rows that come once, without those before: these count by what they have left, see `counts.stream`; rank=None. Rows
        that are then known, such as those of `latent_mean_`, are the last batch."""
        return stream.partial_fit(self, counts, y, covariates, offsets, sample_weight, run)

    @classmethod
    def over_ranks(
        cls,
        ranks: Iterable[int],
        counts: Any,
        *,
        covariates: Any = None,
        offsets: Any = None,
        sample_weight: Any = None,
        **options: Any,
    ) -> pd.DataFrame:
        """Fit PLN-PCA for several ranks as one run; one row each with the model and its criteria, best BIC first.

        Options are those of `PLN` and of its `fit`. Ctrl-C leaves the ranks done so far.

        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> Y = rng.poisson(np.exp(rng.normal(1, 1, size=(60, 1)) * [1.0, -1.0, 0.5, 1.0] + 1))
        >>> PLN.over_ranks([1, 2], Y).index.tolist()
        [1, 2]
        """
        from tallies.counts.ranks import OverRanks

        run = {k: options.pop(k) for k in RunOptions.__annotations__ if k in options}
        path = OverRanks(ranks=tuple(q if q % 1 else int(q) for q in ranks), model=cls(**options))
        return path.fit(counts, covariates=covariates, offsets=offsets, sample_weight=sample_weight, **run).table_

    def _settings(self) -> plan.Settings:
        sampling: Any = Importance() if self.method == "importance" else self.method
        if isinstance(sampling, Importance):
            sampling.check()
        else:
            one_of("method", sampling, "variational", "importance", more="an Importance(...)")
            sampling = None
        kind: fitted.Kind = self.covariance if isinstance(self.covariance, str) else "given"
        if isinstance(self.covariance, str):
            one_of("covariance", kind, "full", "diagonal", "spherical", more="a matrix")
        if kind != "full" and (self.rank is not None or sampling is not None):
            raise ValueError('covariance must be "full" where rank is given or method="importance": it is C C\' there')
        by = zeros_plan.checked(self.zero_inflation, self.rank is not None, sampling is not None)
        at_least(1, none=True, rank=self.rank)
        at_least(1, n_starts=self.n_starts, max_iter=self.max_iter)
        Sigma = np.asarray(self.covariance, dtype=np.float64) if kind == "given" else None
        return plan.Settings(self.rank, kind, Sigma, sampling, self.n_starts, self.max_iter, self.tol, by)
