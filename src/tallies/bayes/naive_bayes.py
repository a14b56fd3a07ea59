"""Naive Bayes: given the class, columns are independent, each with a family of its own.

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
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from tallies.bayes.classifier import Classifier, Shard, class_weights, spread
from tallies.bayes.door import CODED, Layout, Table, read_table, union
from tallies.bayes.families import (
    Categorical,
    CategoricalParams,
    Gaussian,
    GaussianParams,
    GaussianTally,
    Multinomial,
    MultinomialParams,
    MultinomialTally,
    Poisson,
    PoissonParams,
    PoissonTally,
)
from tallies.bayes.kernels import moments as kernels
from tallies.data.table import refuse_infinite, table_rows
from tallies.engine import add
from tallies.errors import DataError
from tallies.maths import Array, dot0


class Survey(NamedTuple):
    n: Array  # (K,)   class weights
    cells: Array | None  # (K, .)  weight of the observed cells of gaussian columns
    s: Array | None  # (K, .)  their sums
    unlabelled: int  # rows without a label
    infinite: int  # gaussian cells that are infinite


class Tally(NamedTuple):
    objective: float  # log likelihood of the rows where EM runs, else 0
    n: Array  # (K,)  n_k
    gaussian: GaussianTally | None
    categorical: Array | None  # (states, K)
    poisson: PoissonTally | None
    multinomial: MultinomialTally | None


class Params(NamedTuple):
    n: Array  # (K,)  n_k
    log_prior: Array  # (K,)  log pi_k
    centre: Any  # (K, .)  surveyed means of the gaussian columns, or None
    gaussian: GaussianParams | None
    categorical: CategoricalParams | None
    poisson: PoissonParams | None
    multinomial: MultinomialParams | None
    complete: bool  # no label is hidden: one sweep gives the maximum
    ready: bool  # False before the first update


@dataclass(eq=False, repr=False)
class NaiveBayes(Classifier):
    """Naive Bayes for tables of numbers, counts and categories together.

    >>> import pandas as pd
    >>> X = pd.DataFrame({"size": [1.0, 1.2, 3.1, None], "colour": ["red", "red", "blue", "blue"], "eggs": [2, 1, 7, 9]})
    >>> model = NaiveBayes().fit(X, ["a", "a", "b", "b"])
    >>> model.families_
    {'size': 'gaussian', 'colour': 'categorical', 'eggs': 'poisson'}
    >>> model.predict(pd.DataFrame({"size": [None], "colour": ["green"], "eggs": [8]})).tolist()
    ['b']
    """

    families: Any = "auto"  # "auto": by dtype | one family for all columns | {column: family}, the others by dtype
    smoothing: float = 1.0  # rows of pseudo-counts of every state, see `families.py`
    priors: Any = None  # (K,) class probabilities; None: as in the data
    semi_supervised: bool = False  # rows with a missing label (NaN, None, -1) are used, by EM
    max_iter: int = 500  # sweeps of EM, where labels are hidden
    tol: float = 1e-8  # EM stops when the objective changes by less, relatively

    monotone: ClassVar[bool] = True

    def _table(self, X: Any, reset: bool) -> Table:
        if not self.smoothing >= 0:
            raise ValueError(f"smoothing must be a number from 0 on, got {self.smoothing!r}")
        families = getattr(self, "_given", self.families)  # a later batch keeps the families of the first
        table, layout = read_table(self, X, families, None if reset else self.layout_)
        if reset:
            self.layout_: Layout = layout
        return table

    def _brief(self, batch: Self) -> None:
        batch._given = self.layout_.families

    # verbs

    def survey(self, shard: Shard) -> Survey:
        X, K = shard.table.gaussian, len(self.classes_)
        n, unlabelled = class_weights(shard.y, shard.weight, K), int(np.sum(shard.y < 0))
        if X is None:
            return Survey(n, None, None, unlabelled, 0)
        weights, s = kernels.class_sums(X, shard.y, shard.weight, K)
        if np.isfinite(s).all() and not unlabelled and shard.weight.all():
            return Survey(n, np.repeat(weights[:, None], X.shape[1], axis=1), s, 0, 0)
        cells, s, infinite = kernels.class_sums_observed(X, shard.y, shard.weight, K)
        return Survey(n, cells, s, unlabelled, infinite)

    def init(self, survey: Survey, rng: np.random.Generator) -> Params:
        refuse_infinite(survey.infinite)
        centre = None
        if survey.cells is not None and survey.s is not None:
            cells, s, column = survey.cells, survey.s, survey.cells.sum(axis=0)
            centre = np.where(cells > 0, s / np.where(cells > 0, cells, 1.0), s.sum(axis=0) / np.where(column > 0, column, 1.0))
        prior = np.full(len(survey.n), -np.log(len(survey.n)))
        return Params(survey.n, prior, centre, None, None, None, None, survey.unlabelled == 0, ready=False)

    def sweep(self, shard: Shard, latents: None, params: Params, rng: np.random.Generator) -> tuple[Tally, None]:
        total: Tally = add([self._tally(shard.table, y, weight, params) for y, weight in self._e_step(shard, params)])
        return total._replace(objective=self._log_likelihood(shard, params)), None

    def _tally(self, t: Table, y: np.ndarray, weight: Array, params: Params) -> Tally:
        K = len(params.n)
        return Tally(
            0.0,
            class_weights(y, weight, K),
            None if t.gaussian is None else Gaussian.tally(t.gaussian, y, weight, params.centre),
            None if t.codes is None else Categorical.tally(t.codes, y, weight, self._start(), K),
            None if t.poisson is None else Poisson.tally(t.poisson, y, weight, K),
            None if t.counts is None else Multinomial.tally(t.counts, y, weight, K),
        )

    def update(self, params: Params, tally: Tally, rng: np.random.Generator) -> Params:
        n, a = tally.n, self.smoothing
        return Params(
            n,
            self._log_prior(n),
            params.centre,
            None if tally.gaussian is None else Gaussian.centred(tally.gaussian, params.centre),
            None if tally.categorical is None else Categorical.estimate(tally.categorical, self._start(), a),
            None if tally.poisson is None else Poisson.estimate(*tally.poisson, a),
            None if tally.multinomial is None else Multinomial.estimate(*tally.multinomial, n.sum(), a),
            params.complete,
            ready=True,
        )

    def objective(self, tally: Tally | None, before: Params, after: Params) -> float:
        """log likelihood, and where EM runs the log prior that smoothing stands for: EM climbs their sum."""
        if tally is not None and not after.complete:
            return tally.objective + sum(family.penalty(p, self.smoothing) for family, p in _present(before))
        labels = dot0(after.n, after.log_prior)
        return labels + sum(family.log_likelihood(p) for family, p in _present(after))

    def _start(self) -> np.ndarray:
        """Where the states of each coded column begin among all states."""
        sizes = [len(self.layout_.states[j]) for j in self.layout_.of(*CODED)]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def _unobserved(self) -> list[int]:
        coded = [] if self.params_.categorical is None else self.layout_.of(*CODED)
        empty = [j for j in coded if not len(self.layout_.states[j])]
        for family, p in (("gaussian", self.params_.gaussian), ("poisson", self.params_.poisson)):
            if p is not None:
                empty += [j for j, n in zip(self.layout_.of(family), p.n.sum(axis=0), strict=True) if n == 0]
        return empty

    # what users ask

    @property
    def families_(self) -> dict[Any, str]:
        """The family of each column."""
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        return dict(zip(names, self.layout_.families, strict=True))

    @np.errstate(invalid="ignore")  # infinities are looked for below, and refused in words
    def _log_joint(self, table: Table, params: Params, relative: bool = False) -> Array:
        J = np.tile(params.log_prior, (table_rows(table), 1))
        blocks = {Gaussian: table.gaussian, Categorical: table.codes, Poisson: table.poisson, Multinomial: table.counts}
        for family, p in _present(params):
            family.add_scores(blocks[family], p, J, relative)
        if table.gaussian is not None and not np.isfinite(J.sum()):
            refuse_infinite(int(np.isinf(table.gaussian).sum()))
        return J

    def _combine(self, other: Self, classes: np.ndarray, mine: np.ndarray, theirs: np.ndarray) -> Params:
        if self.layout_.families != other.layout_.families:
            raise DataError(f"merge expects the same families; here {self.families_}, there {other.families_}")
        pairs = zip(self.layout_.states, other.layout_.states, strict=True)
        states = [None if a is None else union(a, b) for a, b in pairs]
        sums = add([m._sums(places, len(classes), states) for m, places in ((self, mine), (other, theirs))])
        self.layout_ = self.layout_._replace(states=states)
        merged = self.update(self.params_, sums._replace(gaussian=None), np.random.default_rng(0))
        if self.params_.gaussian is None:
            return merged
        a, b = (
            GaussianParams(*(spread(part, places, len(classes)) for part in m.params_.gaussian))
            for m, places in ((self, mine), (other, theirs))
        )
        return merged._replace(gaussian=Gaussian.merge(a, b))

    def _sums(self, places: np.ndarray, K: int, states: list[Any]) -> Tally:
        """The tally behind the params, with class k at places[k] of K and the states of each column among `states`."""
        p: Params = self.params_
        c, q, m = p.categorical, p.poisson, p.multinomial
        counts = None
        if c is not None:
            coded = self.layout_.of(*CODED)
            rows = [np.searchsorted(states[j], self.layout_.states[j]) for j in coded]
            ends = np.concatenate([[0], np.cumsum([len(states[j]) for j in coded])])
            counts = np.zeros((ends[-1], K))
            counts[np.ix_(np.concatenate([r + a for r, a in zip(rows, ends[:-1], strict=True)]), places)] = c.counts
        return Tally(
            0.0,
            spread(p.n, places, K),
            None,
            counts,
            None if q is None else PoissonTally(spread(q.n, places, K), spread(q.s, places, K), q.base),
            None if m is None else MultinomialTally(spread(m.counts, places, K), m.base),
        )

    def _draw(self, codes: np.ndarray, rng: np.random.RandomState) -> Any:
        layout: Layout = self.layout_
        columns: dict[int, np.ndarray] = {}
        blocks = {Gaussian: ["gaussian"], Categorical: list(CODED), Poisson: ["poisson"], Multinomial: ["multinomial"]}
        for family, p in _present(self.params_):
            drawn = family.draw(p, codes, rng)
            for at, j in enumerate(layout.of(*blocks[family])):
                columns[j] = layout.states[j][drawn[:, at]] if layout.states[j] is not None else drawn[:, at]
        ordered = [columns[j] for j in range(len(layout.families))]
        if hasattr(self, "feature_names_in_"):
            from pandas import DataFrame

            return DataFrame(dict(zip(self.feature_names_in_, ordered, strict=True)))
        if set(layout.families) == {"multinomial"}:
            return sp.csr_array(np.column_stack(ordered))
        return np.column_stack([c.astype(object) if any(v.dtype.kind in "OU" for v in ordered) else c for c in ordered])

    def _facts(self) -> list[str]:
        count = {f: len(self.layout_.of(f)) for f in dict.fromkeys(self.layout_.families)}
        return [*super()._facts(), "columns: " + ", ".join(f"{number} {family}" for family, number in count.items())]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.families in ("auto", "multinomial")
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _present(params: Params) -> list[tuple[Any, Any]]:
    """The families that have columns, with their params."""
    pairs = (
        (Gaussian, params.gaussian),
        (Categorical, params.categorical),
        (Poisson, params.poisson),
        (Multinomial, params.multinomial),
    )
    return [(family, p) for family, p in pairs if p is not None]
