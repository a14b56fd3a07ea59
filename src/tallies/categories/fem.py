"""FEM: how combinations of categories shape an output.

    x_i = (x_i1 .. x_in)                       a row of categories, x_ij one of m_j states
    sigma^k                                    products of one-hot indicators of k different variables (`fem_terms`)
    y_i | x_i ~ Categorical(softmax(h(x_i)))   1.  h(x) = sum_k W_k sigma^k(x)

    2.  maximise  sum_i w_i log p(y_i | x_i) - ridge/2 |W|^2
    3.  seed's iteration: W <- W + (Sigma_y - P) Sigma_x^+, a fixed-Hessian ascent of (2) with ridge 0
    4.  kernel: W = sum_i sigma(x_i) a_i',  h(x) = sum_i K(x, x_i) a_i,  K = sum_k C(matches, k): rows that agree in a number of
        variables share that many choose k products, so no feature is ever listed
    5.  W is read in zero-sum gauge, h = b + sum_A V_A; in the kernel form V_A = c_A sum_i a_i prod_{j in A}([x_j = x_ij] - 1/m_j),
        c_A = sum_k e_{k-|A|}(1/m_j, j not in A), e the elementary symmetric polynomials

Equal rows are fitted once with their weights. A state first met after the fit contributes nothing in (5).
References: Hoang, Song, Periwal, Jo 2019 (free energy minimisation); Boehning and Lindsay 1988; Keerthi et al. 2005 (dual).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tallies import engine
from tallies.backends import over_rows
from tallies.categories.choose import Path, Rows, degree_path, fold_numbers, ridge_path, set_up
from tallies.categories.door import Categories, read_categories, unique_rows
from tallies.categories.dual import dual_effect, dual_scores, dual_zero_sum
from tallies.categories.kernels import fem as kernels
from tallies.categories.model import Conditional, Params, Shard, Survey, Tally, check_fields, check_weight, redrawn
from tallies.categories.screen import grow, screen_pairs
from tallies.categories.solvers import Metric, Search
from tallies.categories.terms import Terms, check_degree, features, groups_of, make_terms, zero_sum
from tallies.categories.words import asked_degrees, effects_table, find_states, series, strongest
from tallies.data.labels import encode_labels, label_codes
from tallies.errors import DataError
from tallies.evaluation.score import Score, mean_score
from tallies.maths import Array

if TYPE_CHECKING:
    import pandas as pd

BLOCK = 2048  # rows predicted at a time
RIDGE = 1.0  # where there are too few rows for folds


@dataclass(eq=False, repr=False)
class FEM(ClassifierMixin, Conditional):
    """Classifier on tables of categories: calibrated probabilities, and a named weight for every combination of states.

    >>> import tallies
    >>> X, y = [["a", "x"], ["a", "z"], ["b", "x"], ["b", "z"]] * 5, ["no", "yes", "yes", "no"] * 5      # exclusive or
    >>> model = tallies.FEM(degree=2, ridge=0.1).fit(X, y)
    >>> model.score(X, y)
    1.0
    >>> model.interactions(top=1)[["term", "degree"]].values.tolist()
    [['x0 & x1', 2]]
    """

    degree: Any = 1  # K: products of 1 to K variables | a set of such numbers | "auto": by cross-validation
    ridge: float | Literal["auto"] = "auto"  # of eq. 2; "auto": by cross-validation along a path
    solver: Literal["auto", "fem", "lbfgs", "kernel"] = "auto"  # "auto": the cheapest; the choice is in solver_
    screen: int | None = None  # keep so many pairs, the strongest of all (and triples grown from them); None: keep all
    missing: Literal["state", "ignore"] = "state"  # a missing cell: a state of its own | nothing
    bins: Any = None  # numbers are cut into so many quantile intervals; {column: bins} for some columns
    cv: Any = 5  # folds for the "auto"s, or a list of (train, test) rows
    max_degree: int = 5  # the highest that degree="auto" tries
    max_iter: int = 2000  # sweeps
    tol: float = 1e-8  # stop when the objective has no more to gain than this share of it
    random_state: Any = 0  # which rows are in which fold

    # the verbs are those of Conditional (fem_base): survey counts, sweep expects, update compares

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        progress: bool | None = None,
        checkpoint: str | File | None = None,
        resume: str | File | None = None,
        callback: Callable[..., Any] | None = None,
    ) -> Self:
        """Fit to rows X of categories with labels y."""
        self._run(self._shards(X, y, sample_weight), progress=progress, checkpoint=checkpoint, resume=resume, callback=callback)
        self._close()
        return self

    def _shards(self, X: Any, y: Any, sample_weight: Any = None) -> list[Shard]:
        """Read the data and decide what is left to decide: degree, ridge, solver."""
        rows = self._read(X, y, sample_weight)
        terms, self.path_ = self._choose(rows)
        starts = np.array([0, len(self.classes_)])
        self._setup, ids = set_up(self, rows, self.degree_, terms, starts, self.ridge_, self.solver)
        self.solver_ = self._setup.solver
        self.rows_ = rows.codes if self.solver_ == "kernel" else None
        return self._cut(ids, rows.Y, rows.Y.sum(axis=1, keepdims=True))

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        """The door: codes, classes, weights and folds of the distinct rows."""
        if y is None:
            raise ValueError("FEM requires y to be passed, but the target y is None; give one label a row")
        _check(self)
        codes, self.categories_ = read_categories(self, X, None, missing=self.missing, bins=self.bins)
        self.n_rows_ = l = len(codes)
        self.classes_, labels = encode_labels(y, l, missing=False)
        M = len(self.classes_)
        if M < 2:
            raise DataError(
                f"y must hold at least two classes, but all rows are of one class, {self.classes_.tolist()[0]!r}: "
                "there is nothing to tell apart"
            )
        weight = check_weight(sample_weight, l)
        chosen = self.ridge == "auto" or self.degree == "auto"
        number = fold_numbers(labels, self.cv, self._seed() % 2**32) if chosen else None
        used = weight > 0
        if not used.all():
            codes, labels, weight = codes[used], labels[used], weight[used]
            number = None if number is None else number[used]
        first, twin = unique_rows(codes)
        cell = twin * M + labels
        Y: Any = np.bincount(cell, weight, len(first) * M).reshape(-1, M)
        folds = None
        if number is not None:
            shape, out = (number.max() + 1, len(first), M), number >= 0
            folds = np.bincount((number * len(first) * M + cell)[out], weight[out], int(np.prod(shape))).reshape(shape)
        return Rows(np.ascontiguousarray(codes[first]), Y, folds)

    def _choose(self, rows: Rows) -> tuple[Terms | None, dict[str, list[float]]]:
        """Degree, pairs and ridge: as given, else by cross-validation. Returns the screened terms, and the path."""
        n, ridge = rows.codes.shape[1], None if self.ridge == "auto" else float(self.ridge)
        paths: dict[int, Path] = {}
        terms = None
        if self.degree == "auto" and rows.folds is not None and self.screen is None:
            self.degree_, paths = degree_path(self, rows, self.solver, ridge, self.max_degree)
        else:
            self.degree_ = check_degree(min(2, n) if self.degree == "auto" else self.degree, n)
        self.pairs_ = None
        if self.screen is not None and max(self.degree_) > 1:
            pairs = screen_pairs(rows.codes, rows.Y, self.categories_.sizes, self.screen, RIDGE if ridge is None else ridge)
            self.pairs_ = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            terms = make_terms(self.categories_.sizes, grow(n, pairs, self.degree_))
        K = max(self.degree_)
        if not paths and ridge is None and rows.folds is not None:
            paths = {K: ridge_path(self, rows, self.degree_, terms, self.solver)}
        self.ridge_ = paths[K].ridge if K in paths else RIDGE if ridge is None else ridge
        tried = [(float(k), *pair) for k, path in paths.items() for pair in path.tried]
        return terms, {name: [row[c] for row in tried] for c, name in enumerate(("degree", "ridge", "log_loss"))}

    # use

    def _terms(self) -> Terms:
        n = len(self.categories_.names)
        groups = (
            groups_of(n, self.degree_) if self.pairs_ is None else grow(n, [(int(a), int(b)) for a, b in self.pairs_], self.degree_)
        )
        return make_terms(self.categories_.sizes, groups)

    def _scores(self, X: Any) -> Array:
        """h of eq. 1, up to a number for each row."""
        check_is_fitted(self)
        codes, _ = read_categories(self, X, self.categories_)
        W, H, train = self.params_.W, np.empty((len(codes), len(self.classes_))), self.rows_
        if train is not None:
            share = 1.0 / self.categories_.sizes if self.missing == "state" else np.zeros(codes.shape[1])
            over_rows(lambda rows: dual_scores(codes[rows], train, W, self.degree_, share, H[rows]), len(codes), 64)
            return H
        b, terms = np.zeros(len(self.classes_)), self._terms()
        if self.missing == "state" and (codes < 0).any():  # unseen states contribute nothing where weights sum to zero
            b, terms, W = self._zero_sum()

        def fill(rows: slice) -> None:
            kernels.gather(features(terms, codes[rows]), W, H[rows])
            H[rows] += b

        over_rows(fill, len(codes), BLOCK)
        return H

    def predict_proba(self, X: Any) -> Array:
        """p(y | x), columns as in classes_."""
        H = self._scores(X)
        kernels.softmax_rows(H, np.ones((len(H), 1)), np.array([0, H.shape[1]]), np.zeros(1))
        return H

    def predict_log_proba(self, X: Any) -> Array:
        """log p(y | x), columns as in classes_."""
        H = self._scores(X)
        return H - np.logaddexp.reduce(H, axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        best = self._scores(X).argmax(axis=1)
        return self.classes_[best]

    def sample(self, X: Any, random_state: Any = None) -> np.ndarray:
        """An output drawn for each row of X; FEM says nothing about how X itself comes about.

        >>> import tallies
        >>> model = tallies.FEM(ridge=1.0).fit([["a"], ["b"]] * 20, ["no", "yes"] * 20)
        >>> model.sample([["a"]] * 3, random_state=0).tolist()
        ['no', 'no', 'no']
        """
        P = self.predict_proba(X).cumsum(axis=1)
        u = check_random_state(random_state).random_sample((len(P), 1)) * P[:, -1:]
        return self.classes_[np.minimum((u >= P).sum(axis=1), P.shape[1] - 1)]

    def _evaluate(self, X: Any, y: Any) -> Score:
        """Mean log p(y | x)."""
        L = self.predict_log_proba(X)
        return mean_score(L[np.arange(len(L)), label_codes(y, len(L), self.classes_)], "conditional", "nats/row")

    # reading the model

    def _zero_sum(self) -> tuple[Array, Terms, Array]:
        """b, terms and V of eq. 5."""
        check_is_fitted(self)
        if self.rows_ is not None:
            return dual_zero_sum(self.rows_, self.params_.W, self.categories_.sizes, self.degree_)
        return zero_sum(self._terms(), self.params_.W, np.array([0, len(self.classes_)]))

    @property
    def weights_(self) -> pd.DataFrame:
        """Every weight by name, in zero-sum gauge: one row a combination of states, one column a class; the first row is the bias.

        >>> import tallies
        >>> tallies.FEM(ridge=1.0).fit([["a"], ["b"]] * 20, ["no", "yes"] * 20).weights_.round(2)
                  no   yes
        (bias)  0.00  0.00
        x0=a    1.32 -1.32
        x0=b   -1.32  1.32
        """
        return effects_table(*self._zero_sum(), self.categories_, [str(c) for c in self.classes_])

    def interactions(self, top: int = 20, degree: Any = None) -> pd.DataFrame:
        """The strongest terms of two and more variables, or of the given degree (1: effects of single variables).

        Strength is the size of all weights of a term in zero-sum gauge (Frobenius norm); its largest single weight is named.
        """
        outputs = [str(c) for c in self.classes_]
        return strongest(*self._zero_sum(), self.categories_, outputs, top, asked_degrees(degree, max(self.degree_)))

    def effect(self, **states: Any) -> pd.Series:
        """The weights of one combination of states, in zero-sum gauge: what it adds to all its parts. For any degree and solver.

        >>> import tallies
        >>> X, y = [["a", "x"], ["a", "z"], ["b", "x"], ["b", "z"]] * 5, ["no", "yes", "yes", "no"] * 5
        >>> tallies.FEM(degree=2, ridge=0.1).fit(X, y).effect(x0="a", x1="x").round(1).to_dict()
        {'no': 1.7, 'yes': -1.7}
        """
        check_is_fitted(self)
        group, at = find_states(self.categories_, states)
        if self.rows_ is not None:
            values = dual_effect(self.rows_, self.params_.W, self.categories_.sizes, self.degree_, group, at)
        else:
            _, terms, V = self._zero_sum()
            found = [t for t, other in enumerate(terms.all()) if other == group]
            values = (
                V[terms.offset[found[0]] + np.ravel_multi_index(at, terms.shape(found[0]))]
                if found
                else np.zeros(len(self.classes_))
            )
        return series(values, [str(c) for c in self.classes_])

    def standard_errors(self, X: Any, y: Any, n_boot: int = 50, random_state: Any = 0, sample_weight: Any = None) -> pd.DataFrame:
        """Bootstrap standard errors of `weights_`: the same model on rows drawn with replacement, all draws fitted at once.

        >>> import tallies
        >>> X, y = [["a"], ["a"], ["b"], ["b"]] * 20, ["no", "no", "no", "yes"] * 20
        >>> tallies.FEM(ridge=1.0).fit(X, y).standard_errors(X, y).shape
        (3, 2)
        """
        check_is_fitted(self)
        codes, _ = read_categories(self, X, self.categories_)
        M, weight = len(self.classes_), check_weight(sample_weight, len(codes))
        labels = label_codes(y, len(codes), self.classes_)
        first, twin = unique_rows(codes)
        Y = np.stack(
            [np.bincount(twin * M + labels, weight * times, len(first) * M) for times in redrawn(len(codes), n_boot, random_state)]
        )
        Y = np.ascontiguousarray(Y.reshape(n_boot, len(first), M).transpose(1, 0, 2).reshape(len(first), n_boot * M)).astype(float)
        starts = np.arange(0, (n_boot + 1) * M, M)
        job = type(self)(**self.get_params(deep=False))
        job.categories_ = self.categories_
        rows = Rows(np.ascontiguousarray(codes[first]), np.asarray(Y, dtype=float), None)
        terms = self._terms() if self.pairs_ is not None else None
        job._setup, ids = set_up(
            job, rows, self.degree_, terms, starts, self.ridge_, "auto" if self.solver_ == "fem" else self.solver_
        )
        backend = self._place(job._cut(ids, Y, np.add.reduceat(Y, starts[:-1], axis=1)))
        W = job._solve(job.init(engine.survey(job, backend), np.random.default_rng(0)), backend, self.max_iter).W
        draws = []
        for a in starts[:-1]:
            part = np.ascontiguousarray(W[:, a : a + M])
            if job._setup.solver == "kernel":
                draws.append(dual_zero_sum(rows.codes, part, self.categories_.sizes, self.degree_))
            else:
                draws.append(zero_sum(self._terms(), part, np.array([0, M])))
        spread = [np.std([draw[i] for draw in draws], axis=0, ddof=1) for i in (0, 2)]
        return effects_table(spread[0], draws[0][1], spread[1], self.categories_, [str(c) for c in self.classes_])

    def _facts(self) -> list[str]:
        size = f"{self.n_rows_:,} rows, {len(self.categories_.names)} variables, {len(self.classes_)} classes"
        return [size, f"degrees {', '.join(map(str, self.degree_))}; ridge {self.ridge_:.3g}; solver {self.solver_}"]

    def _learned(self) -> list[tuple[str, str]]:
        if self.rows_ is not None and len(self.degree_) > 2:  # the kernel of high degrees has too many weights to write down
            return []
        top = self.interactions(5, range(1, 99))
        return [(what, f"{weight:+.2f}") for what, weight in zip(top["strongest"], top["weight"], strict=True)]


def _check(model: FEM) -> None:
    check_fields(model.ridge, model.solver, ("auto", "fem", "lbfgs", "kernel"))
    if model.screen is not None and (not isinstance(model.screen, int | np.integer) or model.screen < 1):
        raise ValueError(f"screen must be None or the number of pairs to keep, got {model.screen!r}")
    if model.solver == "kernel" and model.screen is not None:
        raise ValueError('the kernel has all pairs in it, so screen does not go with solver="kernel"; leave one of them out')
    if model.solver == "kernel" and model.ridge == 0:
        raise ValueError(
            'solver="kernel" needs a ridge above 0: without one its weights are not unique; set ridge="auto", or use "lbfgs"'
        )


__all__ = ["FEM", "Categories", "Metric", "Params", "Search", "Survey", "Tally"]
