"""Networks of counts: which columns depend on which, given all others and the covariates.

    Z_i ~ N(B'x_i, Omega^-1),   Y_ij | Z_ij ~ Poisson(exp(o_ij + Z_ij)),   many Omega_jk = 0

Columns j and k are joined where Omega_jk is not 0: then Z_j and Z_k depend on each other given all other Z. Their partial
correlation is -Omega_jk / sqrt(Omega_jj Omega_kk). Two ways of estimating Omega, with a penalty rho:

    1.  in two steps   Sigma of a PLN; then the graphical lasso of its correlations
    2.  jointly        the bound of a PLN, less (N/2) rho sum_{j != k} |Theta_jk|, Theta the precision of the correlations

`lasso` has the graphical lasso, `penalised` the joint fit, `plan` the stages and how rho is chosen.
References: Chiquet, Mariadassou and Robin 2019; Liu, Roeder and Wasserman 2010; Friedman, Hastie and Tibshirani 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from tallies.counts import fitted, plan
from tallies.counts.door import Prepared, read_covariates
from tallies.counts.estimator import Counted
from tallies.counts.network import answers as network_answers
from tallies.counts.network import intervals
from tallies.counts.network import plan as network_plan
from tallies.counts.network.plan import Choice
from tallies.engine import Plan
from tallies.errors import DataError, at_least, one_of
from tallies.estimator import option, part


@dataclass(eq=False, repr=False, kw_only=True)
class PLNNetwork(Counted):
    """The network of a table of counts: which columns depend on which, given all others.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(400, 4))
    >>> Z[:, 1] += Z[:, 0]                                    # the second follows the first
    >>> model = PLNNetwork(n_subsamples=10).fit(rng.poisson(np.exp(1 + Z)))
    >>> model.edges_[["a", "b", "sign", "probability"]].values.tolist()
    [['y0', 'y1', '+', 1.0]]
    """

    # rho, or several of which one is chosen; on the scale of correlations between 0 and 1
    penalty: float | Sequence[float] | Literal["auto"] = option("auto", "Strength of the penalty: auto (a path), or numbers.")
    select: Literal["stability", "bic", "ebic"] | None = option(
        "stability", "How to choose it: stability (of subsamples), bic or ebic."
    )  # None: of one penalty, without subsamples
    joint: bool = option(False, "Fit rows and precision together, by the penalised bound; default: one after the other.")
    scale: Literal["correlation", "raw"] = option(
        "correlation", "Penalise the precision of correlations, or the raw one as others do."
    )
    # (p, p) factors of the penalty of each pair, by place, or a frame or its file by name: inf forbids it, 0 leaves it free
    weights: str | Any = option(
        None, "Table of the factors of each pair's penalty, a row and a column a species: inf forbids an edge, 0 leaves it free."
    )
    n_penalties: int = option(20, "Penalties on the path.")
    min_ratio: float = 0.1  # the last penalty of the path beside the first, which leaves no edge
    n_subsamples: int = option(50, "Subsamples of the rows by which stability is judged.", flag="subsamples")
    instability: float = 0.05  # StARS: largest mean variance, twice it, of whether a pair is chosen
    gamma: float = 0.5  # of EBIC: how much a large number of columns counts against edges
    random_state: Any = 0  # which rows are in the subsamples
    intercept: bool = False  # add a column of ones to the covariates; without covariates there always is one
    max_iter: int = 20_000  # most sweeps of each stage
    tol: float = 1e-9  # stop when five steps gain less than this part of the bound

    records: ClassVar[tuple[type, ...]] = (*fitted.RECORDS, *plan.RECORDS, *network_plan.RECORDS)
    next_steps: ClassVar[tuple[str, ...]] = ("model.edges_", 'model.neighbours("oak")', 'model.report("page.html", counts)')

    def _settings(self) -> plan.Settings:
        at_least(1, max_iter=self.max_iter)
        return plan.Settings(None, "network", None, None, 1, self.max_iter, self.tol)

    def _choice(self, columns: np.ndarray) -> Choice:
        """The hyperparameters of the search, or a sentence about those that make no sense."""
        if self.select is not None:
            one_of("select", self.select, "stability", "bic", "ebic", more="None")
        one_of("scale", self.scale, "correlation", "raw")
        at_least(2, n_penalties=self.n_penalties, n_subsamples=self.n_subsamples)
        for name, low, high in (("min_ratio", 0.0, 1.0), ("instability", 0.0, 0.5)):
            if not low < getattr(self, name) < high:
                raise ValueError(f"{name} must lie between {low:g} and {high:g}, got {getattr(self, name)!r}")
        if not self.gamma >= 0:
            raise ValueError(f"gamma must be a number from 0 on, got {self.gamma!r}")
        penalties = None if isinstance(self.penalty, str) and self.penalty == "auto" else _penalties(self.penalty)
        if self.select is None and (penalties is None or len(penalties) > 1):
            raise ValueError('select=None needs one penalty, such as penalty=0.2; to choose it, select="stability"')
        return Choice(
            penalties,
            self.n_penalties,
            self.min_ratio,
            self.select,
            bool(self.joint),
            self.scale == "raw",
            pair_weights(self.weights, columns),
            self.n_subsamples,
            self.instability,
            self.gamma,
        )

    def _prepare(self, *data: Any, **more: Any) -> Prepared:
        prepared = super()._prepare(*data, **more)
        if prepared.inputs.n < 2:
            raise DataError("a network needs at least two columns of counts, but there is 1 feature(s); add columns, or use PLN")
        self._choice(prepared.inputs.named("y"))
        return prepared

    def _plan(self, data: Prepared, seed: int) -> Plan:
        return network_plan.fit(self._settings(), self._choice(data.inputs.named("y")), data, seed, self.shard_rows)

    # what was learned

    precision_ = part("graph.Omega", "Omega (p, p): 0 where two columns are not joined.")
    penalty_ = part("graph.penalty", "The penalty that was chosen.")
    partial_correlation_ = part(network_answers.partial_correlations)
    selection_probability_ = part(network_answers.probabilities)
    path_ = part(network_answers.path)
    edges_ = part(network_answers.edges)
    ebic_ = part(network_answers.ebic_of)

    def edge_table(self, *, confidence: float = 0.95, every: bool = False) -> pd.DataFrame:
        """`edges_` (of `every` pair, if asked) with partial correlations that no penalty shrinks: estimate, lower, upper, p_value.

        They come from the exact likelihood of two columns at a time, so `partial_correlation` need not lie in the interval. NaN
        where a column varies no more than Poisson counts do or is seen in fewer than 10 samples, or where correlations are above
        0.9 or contradict each other.

        >>> import numpy as np
        >>> Z = np.random.default_rng(0).normal(size=(300, 3)) @ [[1, 0.7, 0], [0, 1, 0], [0, 0, 1]]
        >>> model = PLNNetwork(penalty=0.2, select=None).fit(np.random.default_rng(1).poisson(np.exp(1 + Z)))
        >>> model.edge_table()[["a", "b", "estimate", "lower", "upper"]].round(1).values.tolist()
        [['y0', 'y1', 0.6, 0.5, 0.7]]
        """
        return intervals.table(self.fitted_, confidence, every)

    def difference(self, other: PLNNetwork, *, confidence: float = 0.95) -> pd.DataFrame:
        """How the partial correlations differ from those of a network of the same columns in other samples, the surest first.

        Partial correlations are those of `edge_table`: `first` of this network, `second` of the other one, their difference with
        an interval, its p-value, and `q_value`, the rate of false discoveries among all pairs with one that is as small.

        >>> import numpy as np
        >>> rng, join = np.random.default_rng(0), np.array([[1, 0.7, 0], [0, 1, 0], [0, 0, 1]])
        >>> one, other = (rng.poisson(np.exp(1 + rng.normal(size=(300, 3)) @ A)) for A in (join, np.eye(3)))
        >>> given = PLNNetwork(penalty=0.2, select=None)
        >>> from sklearn.base import clone
        >>> found = clone(given).fit(one).difference(clone(given).fit(other))
        >>> found[found["q_value"] < 0.05][["a", "b"]].values.tolist()
        [['y0', 'y1']]
        """
        if not isinstance(other, PLNNetwork):
            raise DataError(f"a {type(other).__name__} is no network of counts; compare with another PLNNetwork")
        return intervals.difference(self.fitted_, other.fitted_, confidence)

    def neighbours(self, column: Any) -> pd.DataFrame:
        """The columns joined to one, by name or place: rows of `edges_` with the other one's name, the strongest first.

        >>> import numpy as np
        >>> Z = np.random.default_rng(0).normal(size=(300, 3)) @ [[1, 0.7, 0], [0, 1, 0], [0, 0, 1]]
        >>> model = PLNNetwork(penalty=0.2, select=None).fit(np.random.default_rng(1).poisson(np.exp(1 + Z)))
        >>> model.neighbours("y1")["neighbour"].tolist()
        ['y0']
        """
        return network_answers.neighbours(self.fitted_, column)

    def to_networkx(self, *, probability: float = 0.0) -> Any:
        """The network as a graph of networkx, of edges chosen with at least this probability; columns without any are in it, too.

        Edges have the attributes of `edges_`; networkx is installed with `pip install "tallies[graphs]"`.
        """
        return network_answers.to_networkx(self.fitted_, probability)

    def communities(self, *, probability: float = 0.0, resolution: float = 1.0) -> list[list[str]]:
        """Groups of columns with many edges inside, the largest first: by modularity, as networkx does."""
        return network_answers.communities(self.fitted_, probability, resolution)

    def export(
        self,
        path: str | FilePath,
        *,
        probability: float = 0.0,
        confidence: float | None = None,
        against: PLNNetwork | None = None,
    ) -> FilePath:
        """Write the edges to a .csv or .tsv file, or the graph to .graphml (Cytoscape, Gephi, igraph).

        With a `confidence` such as 0.95 edges have the intervals of `edge_table`. `against` another network the table is that of
        `difference`.

        >>> import tempfile, os
        >>> model = PLNNetwork(penalty=0.2, select=None).fit([[1, 20, 3], [2, 30, 1], [0, 5, 2], [9, 90, 0], [4, 44, 1]])
        >>> model.export(os.path.join(tempfile.mkdtemp(), "edges.csv")).name
        'edges.csv'
        """
        if against is not None:
            differ = self.difference(against, confidence=confidence or 0.95)
            return network_answers.export_difference(differ, path, probability)
        table = None if confidence is None else intervals.table(self.fitted_, confidence, every=False)
        return network_answers.export(self.fitted_, path, probability, table)

    def _facts(self) -> list[str]:
        return [*super()._facts(), network_answers.how(self.fitted_)]

    def _learned(self) -> list[tuple[str, str]]:
        return network_answers.strongest(self.fitted_)

    def _caveats(self) -> list[str]:
        return [*super()._caveats(), *network_answers.caveats(self.fitted_, self.instability)]


def _penalties(given: Any) -> np.ndarray:
    """Penalties that the user gave, falling."""
    try:
        found = np.unique(np.atleast_1d(np.asarray(given, dtype=float)).ravel())[::-1]
    except (TypeError, ValueError):
        found = np.zeros(0)
    if not len(found) or not np.isfinite(found).all() or found[-1] < 0:
        raise ValueError(f'penalty must be "auto", a number from 0 on, or several, got {given!r}')
    return np.ascontiguousarray(found)


def pair_weights(given: Any, columns: np.ndarray) -> np.ndarray | None:
    """Factors of the penalty (p, p), in the order of the columns; a frame, or that of a file, is matched by its names.

    >>> pair_weights([[0, 2], [2, 0]], np.array(["oak", "elm"])).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    if given is None:
        return None
    p, given = len(columns), read_covariates(given) if isinstance(given, str | FilePath) else given
    if hasattr(given, "loc"):
        known, names = {str(c) for c in given.index} & {str(c) for c in given.columns}, [str(c) for c in columns]
        lost = [c for c in names if c not in known]
        if lost:
            raise DataError(f"weights have no row and column for {lost[:5]}; give one to each column of the counts")
        given = given.set_axis(map(str, given.index)).set_axis(map(str, given.columns), axis=1).loc[names, names]
    weights = np.array(given, dtype=np.float64)
    if weights.shape != (p, p):
        raise DataError(f"weights must have a row and a column for each of {p} columns of counts, got shape {weights.shape}")
    np.fill_diagonal(weights, 0.0)
    if not (weights >= 0).all() or not np.array_equal(weights, weights.T):
        raise DataError("weights must be symmetric numbers from 0 on: 0 leaves a pair free, inf forbids it, 1 is the usual penalty")
    return weights
