"""The one model of GDA and naive Bayes: P(y) and P(x|y) from tallies, and Bayes' rule in log space.

    y_i ~ Categorical(pi)                     class of row i
    x_i | y_i = k ~ a law for each block      gaussian (alone or together), categorical and bernoulli, poisson, multinomial

    1.  log p(x, y=k) = log pi_k + sum over blocks of log p(block | k)
    2.  p(y=k | x)    = exp(log p(x, k) - log p(x)),   log p(x) = logsumexp_k log p(x, k)
    3.  pi_k = n_k / n,  n_k = sum_i r_ik,  r_ik = w_i [y_i = k];  the laws' own estimates are in `families.py` and `correlated.py`

Naive Bayes has columns that are independent given the class: a missing cell drops out of (1), its column is summed out, exactly.
GDA has gaussian columns alone: with a covariance they are one law, and gaps are filled in by EM; without ("diagonal") it is naive
Bayes. Rows without a label enter with r_ik = w_i p(y=k | x_i), their posterior (2), once for each class: the E-step of EM. A state
first met after the fit counts as one seen zero times. Sums of squares are taken about class means, surveyed at first: raw sums
lose 11 digits at an offset of 1e6.
References: Hand and Yu 2001; McCallum and Nigam 1998; Nigam, McCallum, Thrun, Mitchell 2000 (missing labels).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from tallies.bayes.correlated import Correlated
from tallies.bayes.door import Table
from tallies.bayes.families import LOG_FACTORIALS, LOG_ONE, Categorical, Gaussian, Multinomial, Place, Poisson, Shape, centres
from tallies.bayes.kernels import columns, moments
from tallies.bayes.kernels import rows as kernels
from tallies.data.table import refuse_infinite, table_rows
from tallies.engine import Model, State, add
from tallies.errors import DataError
from tallies.forms import Form
from tallies.maths import Array, dot0, linear, log0


class Shard(NamedTuple):
    table: Table  # n rows
    y: np.ndarray  # (n,)  class code, -1 where the label is missing
    weight: np.ndarray  # (n,)


class Survey(NamedTuple):
    n: Array  # (K,)  n_k of the labelled rows
    unlabelled: int  # rows without a label
    cells: Array | None  # (K, d)  weight of the observed cells of gaussian columns in each class
    s: Array | None  # (K, d)  their sums
    gaps: int  # gaussian cells that are missing
    infinite: int  # gaussian cells that are infinite


class Tally(NamedTuple):
    objective: float  # log likelihood of the rows where EM runs, else 0
    n: Array  # (K,)  n_k
    sums: tuple[Any, ...]  # one a block, as its law takes them; None where there are no such columns


class Laws(NamedTuple):
    """The laws of all columns, one a block, in the order of `door.Table`; None where there are no such columns."""

    gaussian: Gaussian | Correlated | None = None
    categorical: Categorical | None = None
    poisson: Poisson | None = None
    multinomial: Multinomial | None = None

    def widths(self) -> list[int | None]:
        """Columns of each block."""
        g, c, p, m = self
        parts = (g and g.mean, c and c.log_unseen.T, p and p.rate, m and m.counts)  # (K, columns) each
        return [None if part is None else part.shape[1] for part in parts]


class Params(NamedTuple):
    n: Annotated[Array, Form("K", "f", 0)]  # n_k
    log_prior: Annotated[Array, Form("K", "f", high=LOG_ONE)]  # log pi_k
    laws: Laws
    complete: bool  # nothing is hidden: one sweep gives the maximum
    ready: bool  # False before the first update, when only rough means are known

    @np.errstate(invalid="ignore", over="ignore")  # infinities are looked for by the laws, and refused in words
    def scores(self, table: Table, start: Array | float, relative: bool = False) -> Array:
        """start_k + log p(x | k), eq. 1; if `relative`, up to a term for the row."""
        J = np.empty((table_rows(table), len(self.n)))
        J[:] = start
        blocks: tuple[Any, ...] = table
        for law, block in zip(self.laws, blocks, strict=True):
            if law is not None:
                law.add_scores(block, J, relative)
        return J

    def log_joint(self, table: Table, relative: bool = False) -> Array:
        """log p(x, k) of every row and class (eq. 1); if `relative`, up to a term for the row."""
        return self.scores(table, self.log_prior, relative)

    def plane(self) -> tuple[Array, Array] | None:
        """Coefficients and offsets of scores that are linear in the features: with one covariance the classes differ by K products
        with x, and no more need be computed for labels. None where they are not."""
        law = self.laws.gaussian
        return linear(law.mean, law.root, self.log_prior) if isinstance(law, Correlated) and len(law.root.W) == 1 else None

    def log_likelihood(self) -> float:
        """That of the rows behind complete params, from their sums alone."""
        return dot0(self.n, self.log_prior) + sum(law.log_likelihood() for law in self.laws if law is not None)

    def tally_behind(self, place: Place, centre: Array | None) -> Tally:
        """The total behind complete params, about another centre, its classes and states put to their places."""
        return Tally(0.0, place.put(self.n), tuple(law and law.tally_behind(place, centre) for law in self.laws))


@dataclass(frozen=True, kw_only=True)
class ClassModel(Model):
    """Verbs of GDA and naive Bayes."""

    K: int  # classes
    priors: tuple[float, ...] | None = None  # (K,)  class probabilities; None: as in the data
    tol: float | None = None  # EM stops when the objective changes by less, relatively
    covariance: Literal["shared", "class", "diagonal"] = "diagonal"  # of the gaussian columns
    shrinkage: float | Literal["auto"] | None = None  # of their covariances
    smoothing: float = 1.0  # rows of pseudo-counts of every state
    starts: tuple[int, ...] = (0,)  # where the states of each coded column begin among all states

    monotone: ClassVar[bool] = True

    @property
    def _shape(self) -> Shape:
        return Shape(self.covariance == "class", self.shrinkage)

    @property
    def _gaussian(self) -> type[Gaussian] | type[Correlated]:
        return Gaussian if self.covariance == "diagonal" else Correlated

    def survey(self, shard: Shard) -> Survey:
        X, y, weight = shard.table.gaussian, shard.y, shard.weight
        n, unlabelled = class_weights(y, weight, self.K), int(np.sum(y < 0))
        if X is None:
            return Survey(n, unlabelled, None, None, 0, 0)
        return Survey(n, unlabelled, *moments.class_sums(X, y, weight, self.K))

    def init(self, survey: Survey, rng: np.random.Generator) -> Params:
        n, unlabelled, cells, s, gaps, infinite = survey
        refuse_infinite(infinite)
        if self.priors is not None and (lost := np.flatnonzero((np.array(self.priors) == 0) & (n > 0))).size:
            raise DataError(
                f"priors are 0 for the classes at the places {lost[:5].tolist()}, of which there are rows; drop these, or give "
                "the classes a probability"
            )
        law = None if cells is None or s is None else self._gaussian.start(cells, centres(cells, s), self._shape)
        complete = not unlabelled and not (gaps and isinstance(law, Correlated))
        return Params(n, np.full(self.K, -np.log(self.K)), Laws(law), complete, ready=False)

    def sweep(self, shard: Shard, latents: None, params: Params, rng: np.random.Generator) -> tuple[Tally, None]:
        self._need(shard.table, params)
        J = params.log_joint(shard.table) if params.ready and not params.complete else None
        total = add([self.tally(shard.table, y, weight, params) for y, weight in e_step(shard, J)])
        # one pass: `log_likelihood` has the value from the sums; and before the first update there is no model to have one
        value = 0.0 if params.complete else np.nan if J is None else observed_log_likelihood(shard, J)
        return total._replace(objective=value), None

    def _need(self, table: Table, params: Params) -> None:
        """Kernels trust params to be of these classes and columns; those of a checkpoint may be of others."""
        widths = [None if block is None else block.shape[1] for block in table]
        if len(params.n) != self.K or any(a not in (None, b) for a, b in zip(params.laws.widths(), widths, strict=True)):
            raise ValueError("the fit to go on from has other classes or columns than the data")

    def tally(self, table: Table, y: np.ndarray, weight: Array, params: Params) -> Tally:
        """The tally of rows with these class codes and weights; those with a code below 0 are passed over."""
        (X, C, counts, M), law = table, params.laws.gaussian
        sums = (
            None if X is None or law is None else law.tally(X, y, weight, params.complete),
            None if C is None else columns.categorical_tally(C, y, weight, np.array(self.starts), self.K),
            None if counts is None else Poisson.tally(counts, y, weight, self.K),
            None if M is None else columns.multinomial_tally(*M[:3], y, weight, M.width, self.K, LOG_FACTORIALS),
        )
        return Tally(0.0, class_weights(y, weight, self.K), sums)

    def update(self, params: Params, tally: Tally, rng: np.random.Generator) -> Params:
        law = params.laws.gaussian
        return self.estimate(tally, None if law is None else law.mean, params.complete)

    def estimate(self, tally: Tally, centre: Array | None, complete: bool) -> Params:
        """Params from a total of sums about a centre."""
        n, (X, C, counts, M) = tally.n, tally.sums
        laws = Laws(
            None if X is None or centre is None else self._gaussian.of(X, centre, n, self._shape, complete),
            None if C is None else Categorical.of(C, np.array(self.starts), self.smoothing),
            None if counts is None else Poisson.of(counts, self.smoothing),
            None if M is None else Multinomial.of(M, n.sum(), self.smoothing),
        )
        log_prior = log0(n / n.sum() if self.priors is None else np.array(self.priors))  # eq. 3
        return Params(n, log_prior, laws, complete, ready=True)

    def objective(self, tally: Tally, before: Params, after: Params) -> float:
        """log likelihood, and where EM runs the log prior that smoothing stands for: EM climbs their sum."""
        if after.complete:
            return after.log_likelihood()
        return tally.objective + sum(law.penalty(self.smoothing) for law in before.laws[1:] if law is not None)

    def done(self, state: State) -> bool:
        return (state.params.complete and state.params.ready) or super().done(state)

    def merge(self, parts: Sequence[tuple[Params, Place]]) -> Params:
        """Params of several fits together: their tallies about one centre, added."""
        found = [(place.put(law.n), place.put(law.mean)) for params, place in parts if (law := params.laws.gaussian) is not None]
        centre = centres(add([n for n, _ in found]), add([n * mean for n, mean in found])) if found else None
        return self.estimate(add([params.tally_behind(place, centre) for params, place in parts]), centre, complete=True)


def e_step(shard: Shard, J: Array | None) -> Iterator[tuple[np.ndarray, Array]]:
    """Class codes and weights of the labelled rows, then of the others once for each class, by their posterior (eq. 2).

    Without J, that is before the first update, there is no posterior: EM starts from the labelled rows alone.
    """
    yield shard.y, shard.weight
    hidden = shard.y < 0
    if J is not None and hidden.any():
        r = np.empty_like(J)
        kernels.log_posterior(J, r)
        np.exp(r, out=r)
        r *= (shard.weight * hidden)[:, None]
        for k in range(r.shape[1]):
            yield np.where(hidden, k, -1).astype(shard.y.dtype), np.ascontiguousarray(r[:, k])


def observed_log_likelihood(shard: Shard, J: Array) -> float:
    """log p of what is observed of each row, weighted and added."""
    total = np.empty(len(J))
    kernels.evidence(J, total)
    values = np.where(shard.y < 0, total, J[np.arange(len(J)), shard.y])
    with np.errstate(invalid="ignore"):  # a row without weight may be impossible: 0 times infinity is left out
        return float(np.sum(shard.weight * values, where=shard.weight > 0))


def class_weights(y: np.ndarray, weight: Array, K: int) -> Array:
    """(K,) total weight of the rows of each class: n_k of eq. 3."""
    return np.bincount(y + 1, weights=weight, minlength=K + 1)[1:].astype(float)  # those without a class come first
