"""The model of naive Bayes: given the class, columns are independent, each with a family of its own.

    y_i ~ Categorical(pi)                              class of row i
    x_ij | y_i = k ~ family_j(params of k and j)       gaussian, categorical, bernoulli, poisson; multinomial for a block of counts

    1.  log p(x, k) = log pi_k + sum over observed j of log p(x_j | k)
    2.  pi_k = n_k / n,  n_k = sum_i r_ik,  r_ik = w_i [y_i = k];  the families' own estimates are in `families.py`

A missing cell drops out of (1): its column is summed out, exactly. A missing label has r_ik = w_i p(y=k | x_i), by EM. A state
first met after the fit counts as one seen zero times. Squares are taken about surveyed class means, as in GDA.
References: Hand and Yu 2001; McCallum and Nigam 1998; Nigam, McCallum, Thrun, Mitchell 2000 (missing labels).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tallies.bayes import families
from tallies.bayes.door import Table
from tallies.bayes.families import Laws, Place, centres
from tallies.bayes.kernels import columns, moments
from tallies.bayes.model import ClassModel, Survey, class_weights
from tallies.data.table import refuse_infinite, table_rows
from tallies.maths import Array, dot0


class ColumnTally(NamedTuple):
    objective: float  # log likelihood of the rows where EM runs, else 0
    n: Array  # (K,)  n_k
    sums: tuple[Any, ...]  # one block a family, as its law takes them; None where there are no such columns


class ColumnParams(NamedTuple):
    n: Array  # (K,)  n_k
    log_prior: Array  # (K,)  log pi_k
    centre: Array | None  # (K, .)  surveyed means of the gaussian columns
    laws: Laws  # of the columns, one block a family
    complete: bool  # no label is hidden: one sweep gives the maximum
    ready: bool  # False before the first update

    @np.errstate(invalid="ignore")  # infinities are looked for below, and refused in words
    def scores(self, table: Table, start: Array | float, relative: bool = False) -> Array:
        """start_k + log p(x | k), eq. 1; if `relative`, up to a term for the row."""
        J = np.empty((table_rows(table), len(self.n)))
        J[:] = start
        blocks: tuple[Any, ...] = table
        for law, block in zip(self.laws, blocks, strict=True):
            if law is not None:
                law.add_scores(block, J, relative)
        if table.gaussian is not None and not np.isfinite(J.sum()):
            refuse_infinite(int(np.isinf(table.gaussian).sum()))
        return J

    def plane(self) -> None:
        """Scores are not linear in the features."""

    def draw(self, codes: np.ndarray, rng: np.random.Generator) -> list[Any]:
        """One row for each class code, as blocks; coded columns as codes."""
        return [None if law is None else law.draw(codes, rng) for law in self.laws]


@dataclass(frozen=True, kw_only=True)
class NaiveBayesModel(ClassModel):
    """Verbs of naive Bayes."""

    smoothing: float = 1.0  # rows of pseudo-counts of every state
    starts: tuple[int, ...] = (0,)  # where the states of each coded column begin among all states

    def init(self, survey: Survey, rng: np.random.Generator) -> ColumnParams:
        refuse_infinite(survey.infinite)
        centre = None if survey.cells is None or survey.s is None else centres(survey.cells, survey.s)
        prior = np.full(self.K, -np.log(self.K))
        return ColumnParams(survey.n, prior, centre, Laws(), complete=survey.unlabelled == 0, ready=False)

    def tally(self, table: Table, y: np.ndarray, weight: Array, params: ColumnParams) -> ColumnTally:
        X, C, counts, M = table
        sums = (
            None if X is None else moments.class_squares(X, y, weight, params.centre),
            None if C is None else columns.categorical_tally(C, y, weight, np.array(self.starts), self.K),
            None if counts is None else families.poisson_tally(counts, y, weight, self.K),
            None if M is None else families.multinomial_tally(M, y, weight, self.K),
        )
        return ColumnTally(0.0, class_weights(y, weight, self.K), sums)

    def tally_behind(self, params: ColumnParams, place: Place, centre: Any) -> ColumnTally:
        sums = tuple(None if law is None else law.tally(place, centre) for law in params.laws)
        return ColumnTally(0.0, place.put(params.n), sums)

    def update(self, params: ColumnParams, tally: ColumnTally, rng: np.random.Generator) -> ColumnParams:
        return self.estimate(tally, params.centre, params.complete)

    def estimate(self, tally: ColumnTally, centre: Any, complete: bool) -> ColumnParams:
        """The laws of all columns, from sums about a centre."""
        n, (gaussian, counts, poisson, multinomial) = tally.n, tally.sums
        laws = Laws(
            gaussian=None if gaussian is None else families.Gaussian.of(gaussian, centre),
            categorical=None if counts is None else families.Categorical.of(counts, np.array(self.starts), self.smoothing),
            poisson=None if poisson is None else families.Poisson.of(poisson, self.smoothing),
            multinomial=None if multinomial is None else families.Multinomial.of(multinomial, n.sum(), self.smoothing),
        )
        return ColumnParams(n, self.log_prior(n), centre, laws, complete, ready=True)

    def objective(self, tally: ColumnTally, before: ColumnParams, after: ColumnParams) -> float:
        """log likelihood, and where EM runs the log prior that smoothing stands for: EM climbs their sum."""
        penalty = 0.0 if after.complete else sum(law.penalty(self.smoothing) for law in before.laws if law is not None)
        return super().objective(tally, before, after) + penalty

    def log_likelihood(self, params: ColumnParams) -> float:
        return dot0(params.n, params.log_prior) + sum(law.log_likelihood() for law in params.laws if law is not None)
