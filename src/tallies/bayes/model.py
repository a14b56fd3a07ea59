"""What the models of GDA and naive Bayes have in common: P(y) and P(x|y) from tallies, and Bayes' rule in log space.

    y -> x                     choose a class, then the features given the class
    1.  log p(x, y=k) = log pi_k + log p(x | k)
    2.  p(y=k | x)    = exp(log p(x, k) - log p(x)),   log p(x) = logsumexp_k log p(x, k)
    3.  pi_k = n_k / n,  n_k = sum_i r_ik,  r_ik = w_i [y_i = k]

Rows without a label enter with r_ik = w_i p(y=k | x_i), their posterior (2), once for each class: the E-step of EM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from tallies.bayes.door import Table
from tallies.bayes.families import Place, centres
from tallies.bayes.kernels import moments
from tallies.bayes.kernels import rows as kernels
from tallies.engine import Model, State, add
from tallies.maths import Array, log0

if TYPE_CHECKING:
    from tallies.bayes import gda_model, naive_bayes_model

    # both have n, log_prior, `complete` (nothing is hidden: one sweep gives the maximum), `ready` (False before the first update),
    # `laws` of single columns, and `scores`, `plane` and `draw`, see there
    ClassParams = gda_model.Params | naive_bayes_model.ColumnParams


class Shard(NamedTuple):
    table: Table  # n rows
    y: np.ndarray  # (n,)  class code, -1 where the label is missing
    weight: np.ndarray  # (n,)


class Survey(NamedTuple):
    n: Array  # (K,)  n_k of the labelled rows
    cells: Array | None  # (K, d)  weight of the observed cells of gaussian columns in each class
    s: Array | None  # (K, d)  their sums
    gaps: int  # gaussian cells that are missing
    unlabelled: int  # rows without a label
    infinite: int  # gaussian cells that are infinite


def log_joint(params: ClassParams, table: Table, relative: bool = False) -> Array:
    """log p(x, k) of every row and class (eq. 1); if `relative`, up to a term for the row."""
    return params.scores(table, params.log_prior, relative)


@dataclass(frozen=True, kw_only=True)
class ClassModel(Model, ABC):
    """Settings that both models have, and what follows from eq. 1 to 3 alone."""

    K: int  # classes
    priors: tuple[float, ...] | None = None  # (K,)  class probabilities; None: as in the data
    tol: float | None = None  # EM stops when the objective changes by less, relatively

    monotone: ClassVar[bool] = True

    @abstractmethod
    def tally(self, table: Table, y: np.ndarray, weight: Array, params: Any) -> Any:
        """The tally of rows with these class codes and weights; those with a code below 0 are passed over."""

    @abstractmethod
    def estimate(self, tally: Any, centre: Any, complete: bool) -> Any:
        """Params from a total of sums about a centre."""

    @abstractmethod
    def tally_behind(self, params: Any, place: Place, centre: Any) -> Any:
        """The total behind complete params, about another centre, its classes and states put to their places."""

    @abstractmethod
    def log_likelihood(self, params: Any) -> float:
        """That of the rows behind complete params, from their sums alone."""

    def survey(self, shard: Shard) -> Survey:
        X, y, weight = shard.table.gaussian, shard.y, shard.weight
        unlabelled = int(np.sum(y < 0))
        if X is None:
            return Survey(class_weights(y, weight, self.K), None, None, 0, unlabelled, 0)
        n, s = moments.class_sums(X, y, weight, self.K)
        if np.isfinite(s).all() and not unlabelled and weight.all():
            return Survey(n, np.repeat(n[:, None], X.shape[1], axis=1), s, 0, 0, 0)
        cells, s, infinite = moments.class_sums_observed(X, y, weight, self.K)
        return Survey(n, cells, s, int(np.isnan(X).sum()), unlabelled, infinite)

    def sweep(self, shard: Shard, latents: None, params: Any, rng: np.random.Generator) -> tuple[Any, None]:
        J = log_joint(params, shard.table) if params.ready and not params.complete else None
        total = add([self.tally(shard.table, y, weight, params) for y, weight in e_step(shard, J)])
        # one pass: `log_likelihood` has the value from the sums; and before the first update there is no model to have one
        value = 0.0 if params.complete else np.nan if J is None else observed_log_likelihood(shard, J)
        return total._replace(objective=value), None

    def objective(self, tally: Any, before: Any, after: Any) -> float:
        return self.log_likelihood(after) if after.complete else tally.objective

    def done(self, state: State) -> bool:
        return (state.params.complete and state.params.ready) or super().done(state)

    def log_prior(self, n: Array) -> Array:
        return log0(n / n.sum() if self.priors is None else np.array(self.priors))  # eq. 3

    def merge(self, parts: Sequence[tuple[ClassParams, Place]]) -> Any:
        """Params of several fits together: their tallies about one centre, added."""
        found = [(place.put(law.n), place.put(law.mean)) for params, place in parts if (law := params.laws.gaussian) is not None]
        centre = centres(add([n for n, _ in found]), add([n * mean for n, mean in found])) if found else None
        return self.estimate(add([self.tally_behind(params, place, centre) for params, place in parts]), centre, complete=True)


def e_step(shard: Shard, J: Array | None) -> Iterator[tuple[np.ndarray, Array]]:
    """Class codes and weights of the labelled rows, then of the others once for each class, by their posterior (eq. 2).

    Without J, that is before the first update, there is no posterior: EM starts from the labelled rows alone.
    """
    yield shard.y, shard.weight
    hidden = shard.y < 0
    if J is not None and hidden.any():
        r = np.empty_like(J)
        kernels.posterior(J, r)
        r *= (shard.weight * hidden)[:, None]
        for k in range(r.shape[1]):
            yield np.where(hidden, k, -1).astype(shard.y.dtype), np.ascontiguousarray(r[:, k])


def observed_log_likelihood(shard: Shard, J: Array) -> float:
    """log p of what is observed of each row, weighted and added."""
    total = np.empty(len(J))
    kernels.evidence(J, total)
    values = np.where(shard.y < 0, total, J[np.arange(len(J)), shard.y])
    return float(np.sum(shard.weight * values, where=shard.weight > 0))


def class_weights(y: np.ndarray, weight: Array, K: int) -> Array:
    """(K,) total weight of the rows of each class: n_k of eq. 3."""
    return np.bincount(y[y >= 0], weights=weight[y >= 0], minlength=K).astype(float)
