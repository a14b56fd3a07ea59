"""What FEM and FEMNetwork have in common as estimators: what was chosen, what is told of the columns, weights by name."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from tallies.categories import dual, solvers
from tallies.categories.answers import Scorer
from tallies.categories.choose import Path, Tried, final, sources_of
from tallies.categories.door import Categories, column_caveats
from tallies.categories.model import Params, Rows, Solver
from tallies.categories.terms import Layout, Terms, feature_total, grow, terms_of
from tallies.categories.words import effects_table, strongest
from tallies.engine import Kept, Stage
from tallies.errors import DataError
from tallies.estimator import Estimator, Run, part
from tallies.forms import Form
from tallies.maths import Array

MOST_PARTS = 16  # log2 of the subsets of a term for each of its features: columns of one state would give any number of them
LARGEST = np.finfo(np.float64).max
Count = Annotated[int, Form(kind="i", low=1)]  # of rows
Weights = Annotated[np.ndarray, Form("q M", "f", -LARGEST, LARGEST)]


class Choice(NamedTuple):
    """What a fit has chosen, or was given."""

    degree: tuple[Annotated[int, Form(kind="i", low=1)], ...]
    ridge: Annotated[float, Form(low=0, high=LARGEST)]
    solver: Solver
    pairs: Annotated[np.ndarray, Form("s 2", "i", 0)] | None = None  # that screening kept, strongest first; None: no screening
    pair_ridges: Annotated[np.ndarray, Form("n n", "f", 0)] | None = None  # of each input for each output; None: `ridge` for all

    def check(self) -> None:
        """Degrees rise, and a pair has two variables, the first of them first."""
        if not self.degree or list(self.degree) != sorted(set(self.degree)):
            raise ValueError(f"degrees should rise, and are {self.degree}")
        if self.pairs is not None and not (self.pairs[:, 0] < self.pairs[:, 1]).all():
            raise ValueError("pairs should be of two variables, the first of them first")


RECORDS = (Choice, Categories, Params, dual.Climb, Tried, *solvers.RECORDS)


def check_fit(fitted: Any, outputs: int, rows: np.ndarray | None = None) -> None:
    """Raise ValueError where a fitted record has other weights than its columns, degrees and pairs ask for; `rows`: kernel."""
    sizes, (degrees, _, solver, pairs, ridges), W = fitted.categories.sizes, fitted.choice, fitted.W
    n, K = len(sizes), max(degrees)
    named = {fitted.inputs.n, n if ridges is None else len(ridges), n if rows is None else rows.shape[1]}
    if named != {n} or n < K or (pairs is not None and pairs.max(initial=0) >= n):
        raise ValueError(f"{n} columns have categories, but inputs, degrees, pairs or rows are of others")
    p = feature_total(sizes, degrees)
    if pairs is not None:
        groups = grow(n, pairs.tolist(), degrees, most=len(W) + len(pairs))
        p, K = sum(prod(sizes[v].item() for v in group) for group in groups), max(map(len, groups), default=1)
    if MOST_PARTS + np.log2(max(p, 1)) < K:
        raise ValueError(f"a term of degree {K} has more parts than can be told from {p:.0f} features")
    if W.shape != (p if rows is None else len(rows), outputs) or (rows is None) == (solver == "kernel"):
        raise ValueError(f"W should be of {p:.0f} features (kernel: of the rows) and {outputs} states, and has the shape {W.shape}")
    if rows is not None and (rows >= sizes).any():
        raise ValueError("rows should hold states of the columns")


def common(kept: Kept, seed: int, data: Any, choice: Choice, paths: dict[int, Path]) -> dict[str, Any]:
    """What both fitted records have of a fit: its end, the table at the door, what was chosen and tried (strongest ridge first)."""
    W, rows = kept.value, [(float(k), *tried) for k, path in paths.items() for tried in sorted(path.losses.items(), reverse=True)]
    if not np.isfinite(W).all():
        why = "without a ridge a perfect fit has none; set a small ridge, such as 1e-3"
        raise DataError(f"the weights grew beyond all bounds: {why}")
    path = {name: [row[c] for row in rows] for c, name in enumerate(("degree", "ridge", "log_loss"))}
    table = {"inputs": data.inputs, "categories": data.categories, "n_rows": len(data.codes)}
    return {"run": Run.of(kept, seed), **table, "choice": choice, "path": path, "W": W}


class Categorical(Estimator):
    """Base of FEM and FEMNetwork; their fitted records have `categories`, `choice`, `path`, `n_rows` and `W`."""

    run_fields: ClassVar[frozenset[str]] = frozenset({"max_iter", "tol"})
    takes: ClassVar[tuple[str, ...]] = ("allow_nan", "string", "categorical")
    guesses: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("alpha", "C", "penalty", "l2", "reg", "shrinkage"), "ridge"),
        **dict.fromkeys(("order", "max_order", "interactions"), "degree"),
        **dict.fromkeys(("coef_", "components_", "feature_log_prob_"), "weights_"),
        "intercept_": "it is the row (bias) of `weights_`",
        "feature_importances_": "`interactions()` has the strongest terms first",
    }
    max_iter: int
    tol: float

    categories_: Categories = part("categories", "Names, states and labels of the columns.")
    n_rows_: int = part("n_rows", "Rows of the fit.")
    degree_: tuple[int, ...] = part("choice.degree", "The degrees of its terms.")
    ridge_: float = part("choice.ridge", "The ridge, as given or chosen.")
    solver_: str = part("choice.solver", 'How it was fitted: "fem", "lbfgs" or "kernel".')
    path_: dict[str, list[float]] = part(
        "path", "What was tried on the way to the ridge, and its held-out log loss (nats a row; network: a cell)."
    )

    def _layout(self) -> Layout:
        return Layout.of(self.categories_.sizes, self.degree_, self.fitted_.choice.pairs)

    def _final(self, model: Any, rows: Rows, ridge: float, W: Any = None, pair_ridges: Any = None) -> Stage:
        """The fit to all rows, with what was chosen."""
        model = replace(model, ridge=ridge, tol=self.tol)
        return final(model, sources_of(model, rows, self.shard_rows), self.max_iter, W, pair_ridges)

    def _zero_sum(self) -> tuple[Array, Terms, Array]:
        """Bias, terms and weights in zero-sum gauge."""
        raise NotImplementedError

    def _scorer(self, zero_sum: bool) -> Scorer:
        """The weights as fitted; or in zero-sum gauge, where states that the fit has not seen contribute nothing."""
        W = self.fitted_.W
        return Scorer(*self._zero_sum()) if zero_sum else Scorer(np.zeros(W.shape[1]), terms_of(self._layout()), W)

    def _outputs(self) -> list[str]:
        """Names of the output states, the columns of W."""
        raise NotImplementedError

    @property
    def weights_(self) -> pd.DataFrame:
        """Every weight by name, in zero-sum gauge: one row a combination of states (the first is the bias), one column an output.

        >>> import tallies
        >>> tallies.FEM(ridge=1.0).fit([["a"], ["b"]] * 20, ["no", "yes"] * 20).weights_.round(2)
                  no   yes
        (bias)  0.00  0.00
        x0=a    1.32 -1.32
        x0=b   -1.32  1.32
        """
        return effects_table(*self._zero_sum(), self.categories_, self._outputs())

    def interactions(self, top: int = 20, degree: Any = None) -> pd.DataFrame:
        """The strongest terms of two and more variables, or of the given degree (1: effects of single variables).

        Strength is the size of all weights of a term in zero-sum gauge (Frobenius norm); its largest single weight is named.
        """
        highest = max(self.degree_)
        degrees = range(min(2, highest), highest + 1) if degree is None else np.atleast_1d(degree)
        return strongest(*self._zero_sum(), self.categories_, self._outputs(), top, degrees)

    def _caveats(self) -> list[str]:
        return column_caveats(self.categories_, self.n_rows_)

    def _measure(self) -> str:
        return "penalised log likelihood"
