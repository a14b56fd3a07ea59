"""FEM: how combinations of categories shape an output.

    x_i = (x_i1 .. x_in)                       a row of categories, x_ij one of m_j states
    sigma^k                                    products of one-hot indicators of k different variables (`terms`)
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

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path as FilePath
from typing import Any, Literal, Self, Unpack

import numpy as np
import pandas as pd
from sklearn.utils.metaestimators import available_if

from tallies.answering import goes_out, predictions, write_answers
from tallies.backends import carry_out
from tallies.categories import base, export, stream
from tallies.categories import screen as screening
from tallies.categories.answers import by_rows, dual_effect, dual_scores, listed, readable, redrawn, scores
from tallies.categories.base import Categorical, Choice
from tallies.categories.choose import (
    NEWTON_TOL,
    PATH_TOL,
    RIDGE,
    Ground,
    Path,
    arrange,
    degree_path,
    fold_numbers,
    ridge_path,
    sources_of,
)
from tallies.categories.door import check_fields, learn_codes, read_codes
from tallies.categories.dual import FAINTEST
from tallies.categories.fitted import Fitted, Table, distinct, rows_of
from tallies.categories.lazily import survey
from tallies.categories.model import Rows
from tallies.categories.products import softmax
from tallies.categories.scores import strongest_pairs
from tallies.categories.terms import Layout, Terms, check_degree, terms_of, zero_sum
from tallies.categories.words import effects_table, explained, feature_names, find_states
from tallies.data import scoring
from tallies.data.judged import FileClassifier
from tallies.data.kinds import from_file
from tallies.data.labels import encode_labels, label_codes
from tallies.data.lazy import Lazy, is_lazy, open_table
from tallies.data.table import check_weights
from tallies.engine import Plan
from tallies.errors import at_least
from tallies.estimator import Inputs, RunOptions, option, part, seed_of
from tallies.evaluation.score import Scored, mean_score
from tallies.maths import Array
from tallies.streams import fit_batches


@dataclass(eq=False, repr=False, kw_only=True)
class FEM(FileClassifier, Categorical):
    """Classifier on tables of categories: calibrated probabilities, and a named weight for every combination of states.

    >>> import tallies
    >>> X, y = [["a", "x"], ["a", "z"], ["b", "x"], ["b", "z"]] * 5, ["no", "yes", "yes", "no"] * 5      # exclusive or
    >>> model = tallies.FEM(degree=2, ridge=0.1).fit(X, y)
    >>> model.score(X, y)
    1.0
    >>> model.interactions(top=1)[["term", "degree"]].values.tolist()
    [['x0 & x1', 2]]
    """

    # 1 to K variables | a set of such numbers | by cross-validation
    degree: int | Collection[int] | Literal["auto"] = option(
        1, "Products of 1 to so many variables; several, such as 1,3, for these alone; or auto."
    )
    # of eq. 2; "auto" tries those of a path
    ridge: float | Literal["auto"] = option("auto", "Strength of the ridge penalty: auto (cross-validation), or a number.")
    solver: Literal["auto", "fem", "lbfgs", "kernel"] = option("auto", "How to fit.")  # "auto": the cheapest, see solver_
    screen: int | None = option(None, "Keep so many pairs, the strongest of all.")  # and triples grown from them; None: all
    missing: Literal["state", "ignore"] = option("state", "An empty cell is a state of its own, or nothing.")
    bins: Any = option(None, "Cut numbers into so many quantile intervals.")  # {column: bins} for some columns
    cv: Any = "auto"  # folds for the "auto"s: ten up to 1,000 rows, else five | a number | a list of (train, test) rows
    max_degree: int = 5  # the highest that degree="auto" tries
    max_iter: int = 2000  # sweeps
    tol: float = 1e-8  # stop when the objective has no more to gain than this share of it
    random_state: Any = 0  # which rows are in which fold

    records = (Fitted, *base.RECORDS, *screening.RECORDS, *stream.RECORDS)
    next_steps = ("model.interactions()", "model.predict_proba(X)", 'model.report("page.html", X, y)')

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, **run: Unpack[RunOptions]) -> Self:
        """Fit to rows X of categories with labels y; X may be a file (see `read_table`), of whose columns y names one.

        Of a folder of files or a lazy frame only pieces are ever read: the weights are those of all rows, while ridge, degree and
        pairs, where they are searched for, are chosen on a sample. An iterator gives batches (X, y), each for `partial_fit`.
        """
        if isinstance(X, Iterator):
            return fit_batches(self, X, dict(run), y, sample_weight)
        if is_lazy(X):
            table = open_table(X)  # may have made files, which last as long as it
            return self._fit(self._survey(table, y, sample_weight), **run)
        X, y, sample_weight = from_file(X, y, sample_weight, model=self, fitted=False)
        return self._fit(self._prepare(X, y, sample_weight), **run)

    @available_if(stream.can)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, *, sample_weight: Any = None, **run: Unpack[RunOptions]) -> Self:
        """Add rows that come once, without those before, of which a parabola is left: see `categories.stream`.

        Columns and their states, ridge, degree and pairs are those of the first batch, and so are the classes, unless they are
        given. A state that it did not have contributes nothing. After `fit`, which keeps nothing of its rows, it begins anew.

        >>> import tallies
        >>> X, y = [["a", "x"], ["a", "z"], ["b", "x"], ["b", "z"]] * 5, ["no", "no", "yes", "no"] * 5
        >>> model = tallies.FEM(ridge=1.0)
        >>> for part in (slice(0, 8), slice(8, 20)):
        ...     model = model.partial_fit(X[part], y[part], classes=["no", "yes"])
        >>> model.n_rows_, model.predict([["b", "x"], ["a", "x"]]).tolist()
        (20, ['yes', 'no'])
        """
        return stream.partial_fit(self, X, y, classes, sample_weight, dict(run))

    def _prepare(self, X: Any, y: Any, sample_weight: Any = None, classes: np.ndarray | None = None) -> Table:
        _check(self)
        codes, categories, inputs = learn_codes(self, X, self.missing, self.bins)
        if classes is None:
            classes, labels = encode_labels(y, len(codes), missing=False)
        else:
            labels = label_codes(y, len(codes), classes)
        return Table(codes, labels, check_weights(sample_weight, len(codes)), categories, classes, inputs)

    def _survey(self, table: Lazy, y: Any, sample_weight: Any) -> Table:
        """The door for a table beyond memory."""
        _check(self)
        if self.solver == "kernel":
            raise ValueError('solver="kernel" ties every row to every other, so a table beyond memory has none; use "lbfgs"')
        whole, (codes, labels, weight), columns = survey(table, y, sample_weight, self.missing, self.bins)
        names = whole.known.categories.names
        inputs = Inputs(len(names), np.array(names, dtype=object), columns)
        return Table(codes, labels[:, 0], weight[:, 0], whole.known.categories, whole.known.classes, inputs, whole)

    def _plan(self, data: Table | stream.Added, seed: int) -> Plan:
        """Degree, pairs and ridge, as given, else by cross-validation; then the fit to all rows."""
        if isinstance(data, stream.Added):
            return (yield from stream.plan(self, data, seed))
        n, M, sizes = data.codes.shape[1], len(data.classes), data.categories.sizes
        given = None if self.ridge == "auto" else float(self.ridge)
        search = given is None or self.degree == "auto"
        number = fold_numbers(data.labels, self.cv, seed % 2**32) if search else None
        rows, held = data.distinct(number)
        paths: dict[int, Path] = {}
        ridge, pairs, W, told_to_stop = RIDGE if given is None else given, None, None, False

        def ground(degrees: tuple[int, ...]) -> Ground:
            return _folded(rows, held, Layout.of(sizes, degrees, pairs), _quick(self.solver, given), self.shard_rows)

        if self.degree == "auto" and number is not None and self.screen is None:
            best, paths = yield from degree_path(ground, min(n, self.max_degree), given)
            degrees = tuple(range(1, best + 1))
        else:
            degrees = check_degree(min(2, n) if self.degree == "auto" else self.degree, n)
        if self.screen is not None and max(degrees) > 1:
            kept = yield from screening.pair_scores(rows, tuple(sizes.tolist()), ridge, self.shard_rows)
            pairs, told_to_stop = strongest_pairs(kept.value.scores, self.screen), kept.cut
        K = max(degrees)
        if not paths and given is None and number is not None and not told_to_stop:
            paths = {K: (yield from ridge_path(ground(degrees)))}
        solver = self.solver if self.solver == "fem" else _quick(self.solver, ridge)
        if K in paths:
            ridge = paths[K].ridge if given is None else given
            W = paths[K].W  # where one sweep is left, and for Newton's method, which is the quicker the nearer
            if any(path.cut for path in paths.values()):
                told_to_stop, solver = True, solver if solver == "fem" else paths[K].solver
        codes: Any = rows.codes
        if data.whole is not None:
            codes, solver = data.whole, "fem" if solver == "fem" else "lbfgs"
            data = data._replace(codes=codes)
        model = arrange(codes, Layout.of(sizes, degrees, pairs), (M,), solver)
        near = told_to_stop or (model.solver == "kernel" and K in paths and paths[K].solver == "kernel")
        if data.whole is None:
            kept = yield self._final(model, rows, ridge, W if near else None)
        else:
            kept = yield data.whole.final(replace(model, ridge=ridge, tol=self.tol), self.max_iter, W if near else None)
        known = base.common(kept, seed, data, Choice(degrees, ridge, model.solver, pairs), paths)
        return Fitted(classes=data.classes, rows=rows.codes if model.solver == "kernel" else None, **known)

    # use

    classes_ = part("classes", "The classes, sorted.")
    rows_ = part("rows", "The codes of the distinct rows of the fit where it is in the kernel form, else None.")
    pairs_ = part("choice.pairs", "The pairs that screening kept, strongest first; None without screening.")

    def _scores(self, X: Any) -> Array:
        """h of eq. 1, up to a number for each row."""
        return self._scores_of(read_codes(self, X, self.categories_))

    def _scores_of(self, codes: np.ndarray) -> Array:
        fitted, M, state = self.fitted_, len(self.classes_), self.missing == "state"
        if fitted.rows is not None:
            share = 1.0 / fitted.categories.sizes if state else np.zeros(codes.shape[1])
            return by_rows(dual_scores, codes, M, 64, fitted.rows, fitted.W, self.degree_, share)
        return by_rows(scores, codes, M, 2048, self._scorer(state and bool((codes < 0).any())))

    def decision_function(self, X: Any) -> Array:
        """h of eq. 1 for each class; of two classes, by how much that of the second exceeds that of the first.

        >>> import tallies
        >>> model = tallies.FEM(ridge=1.0).fit([["a"], ["b"]] * 20, ["no", "yes"] * 20)
        >>> model.decision_function([["a"], ["b"]]).round(2).tolist()
        [-2.65, 2.65]
        """
        H = self._scores(X)
        return H[:, 1] - H[:, 0] if H.shape[1] == 2 else H

    def predict_proba(self, X: Any) -> Array:
        """p(y | x), columns as in classes_."""
        return softmax(self._scores(X), np.array([0, len(self.classes_)]))

    def predict_log_proba(self, X: Any) -> Array:
        """log p(y | x), columns as in classes_."""
        H = self._scores(X)
        return H - np.logaddexp.reduce(H, axis=1, keepdims=True)

    def predict(self, X: Any, *, out: str | PathLike | None = None) -> Any:
        """The most probable class of each row; of a table beyond memory written to a folder `out` of Parquet files, with ids and
        probabilities."""
        if goes_out(X, out):
            return write_answers(self, X, out, predictions)
        return self.classes_[self._scores(X).argmax(axis=1)]

    def sample_y(self, X: Any, *, random_state: Any = None) -> np.ndarray:
        """An output drawn for each row of X; FEM says nothing about how X itself comes about.

        >>> import tallies
        >>> model = tallies.FEM(ridge=1.0).fit([["a"], ["b"]] * 20, ["no", "yes"] * 20)
        >>> model.sample_y([["a"]] * 3, random_state=0).tolist()
        ['no', 'no', 'no']
        """
        P = self.predict_proba(X).cumsum(axis=1)
        u = np.random.default_rng(seed_of(random_state)).random((len(P), 1)) * P[:, -1:]
        return self.classes_[np.minimum((u >= P).sum(axis=1), P.shape[1] - 1)]

    def export(self, path: str | FilePath) -> FilePath:
        """Write how rows are scored to a .json file, from which any language gives the same probabilities: see "Score elsewhere"
        in the documentation. `save` keeps a whole model.

        >>> import tallies, tempfile, json
        >>> model = tallies.FEM(ridge=1.0).fit([["a"], ["b"]] * 20, ["no", "yes"] * 20)
        >>> json.loads(model.export(tempfile.mkdtemp() + "/scoring.json").read_text())["columns"]
        [{'name': None, 'kind': 'categorical', 'states': ['a', 'b'], 'gap': None}]
        """
        scorer = export.scorer(self._layout(), self.fitted_.W, self.rows_, self.missing == "state")
        return scoring.write(path, "FEM", self.classes_, export.columns(self.fitted_), **export.weights(scorer))

    def _evaluate(self, X: Any, y: Any) -> Scored:
        """Mean log p(y | x)."""
        X, y, _ = from_file(X, y, model=self)
        L = self.predict_log_proba(X)
        return mean_score(L[np.arange(len(L)), label_codes(y, len(L), self.classes_)], "conditional", "nats/row")

    # reading the model

    def _outputs(self) -> list[str]:
        return [str(c) for c in self.classes_]

    def _zero_sum(self) -> tuple[Array, Terms, Array]:
        """b, terms and V of eq. 5."""
        return _gauged(self._layout(), self.fitted_.W, self.fitted_.rows)

    def weights_by_degree(self) -> dict[int, pd.DataFrame]:
        """W_k of eq. 1 for every degree k, by name and as fitted, in no gauge: h(x) is the sum of the weights of x's combinations.

        >>> import tallies
        >>> X, y = [["a", "x"], ["a", "z"], ["b", "x"], ["b", "z"]] * 5, ["no", "yes", "yes", "no"] * 5
        >>> W = tallies.FEM(degree=2, ridge=0.1).fit(X, y).weights_by_degree()
        >>> {k: table.shape for k, table in W.items()}, W[2].loc["x0=a & x1=x"].round(1).to_dict()
        ({1: (4, 2), 2: (4, 2)}, {'no': 1.7, 'yes': -1.7})
        """
        layout, terms = self._layout(), terms_of(self._layout())
        W = listed(self.fitted_.W, layout, self.rows_)
        table = pd.DataFrame(W, index=feature_names(terms, self.categories_), columns=self._outputs())
        degree = np.repeat(terms.degree(), np.diff(terms.offset))
        return {k: table[degree == k] for k in self.degree_}

    def effect(self, **states: Any) -> pd.Series:
        """The weights of one combination of states, in zero-sum gauge: what it adds to all its parts. For any degree and solver.

        >>> import tallies
        >>> X, y = [["a", "x"], ["a", "z"], ["b", "x"], ["b", "z"]] * 5, ["no", "yes", "yes", "no"] * 5
        >>> tallies.FEM(degree=2, ridge=0.1).fit(X, y).effect(x0="a", x1="x").round(1).to_dict()
        {'no': 1.7, 'yes': -1.7}
        """
        fitted, found = self.fitted_, np.zeros(len(self.classes_))
        group, at = find_states(fitted.categories, states)
        if fitted.rows is not None:
            found = dual_effect(fitted.rows, fitted.W, fitted.categories.sizes, self.degree_, group, at)
        else:
            _, terms, V = self._zero_sum()
            if group in terms.all():
                t = terms.all().index(group)
                found = V[terms.offset[t] + np.ravel_multi_index(at, terms.shape(t))]
        return pd.Series(found, index=self._outputs())

    def explain(self, X: Any) -> pd.DataFrame:
        """Why each row is called what it is: its log odds against the next most probable class, part by part, the largest first.

        The parts of a row add up to log p(called | x) - log p(against | x): the bias, a part for each term of the row in zero-sum
        gauge, and with missing="ignore" one for what its gaps leave out.

        >>> import tallies
        >>> X, y = [["a", "x"], ["a", "z"], ["b", "x"], ["b", "z"]] * 5, ["no", "yes", "yes", "no"] * 5
        >>> model = tallies.FEM(degree=2, ridge=0.1).fit(X, y)
        >>> model.explain([["a", "z"]]).head(1).round(1).values.tolist()
        [[0, 'yes', 'no', 'x0=a & x1=z', 3.4]]
        """
        codes = read_codes(self, X, self.categories_)
        parts = explained(codes, self._scores_of(codes), *self._zero_sum(), self.categories_)
        parts["row"] = np.asarray(X.index if isinstance(X, pd.DataFrame) else np.arange(len(codes)))[parts["row"]]
        return parts.assign(**{end: self.classes_[parts[end]] for end in ("predicted", "against")})

    def standard_errors(
        self, X: Any, y: Any, *, n_boot: int = 50, sample_weight: Any = None, random_state: Any = 0
    ) -> pd.DataFrame:
        """Bootstrap standard errors of `weights_`: the same model on rows drawn with replacement, all draws fitted at once.

        >>> import tallies
        >>> X, y = [["a"], ["a"], ["b"], ["b"]] * 20, ["no", "no", "no", "yes"] * 20
        >>> tallies.FEM(ridge=1.0).fit(X, y).standard_errors(X, y).shape
        (3, 2)
        """
        codes, M, layout = read_codes(self, X, self.categories_), len(self.classes_), self._layout()
        labels, weight = label_codes(y, len(codes), self.classes_), check_weights(sample_weight, len(codes))
        rows = distinct(codes, labels, M, [weight * times for times in redrawn(len(codes), n_boot, random_state)])
        model = arrange(rows.codes, layout, (M,) * n_boot, _quick(self.solver_, self.ridge_))
        W = carry_out(self._final(model, rows, self.ridge_), told=f"standard errors, {n_boot} fits to redrawn rows")
        parts, train = np.hsplit(W, n_boot), rows.codes if model.solver == "kernel" else None
        b, terms, V = zip(*(_gauged(layout, np.ascontiguousarray(w), train) for w in parts), strict=True)
        return effects_table(np.std(b, axis=0, ddof=1), terms[0], np.std(V, axis=0, ddof=1), self.categories_, self._outputs())

    def _facts(self) -> list[str]:
        size = f"{self.n_rows_:,} rows, {len(self.categories_.names)} variables, {len(self.classes_)} classes"
        return [size, f"degrees {', '.join(map(str, self.degree_))}; ridge {self.ridge_:.3g}; solver {self.solver_}"]

    def _learned(self) -> list[tuple[str, str]]:
        if not readable(self._layout(), self.rows_):
            return []
        top = self.interactions(5, range(1, 99))
        return [(what, f"{weight:+.2f}") for what, weight in zip(top["strongest"], top["weight"], strict=True)]


def _quick(solver: str, ridge: float | None) -> str:
    """The solver for "auto", and in place of the seed's iteration where only its end matters; the kernel form needs a ridge."""
    return solver if solver not in ("auto", "fem") else "lbfgs" if ridge is not None and ridge < FAINTEST else "auto"


def _folded(rows: Rows, held: Array, layout: Layout, solver: str, shard_rows: int | None) -> Ground:
    """All folds at once, as outputs: each is fitted to what it does not hold out, `held` (u, k M); kernel: one more to all rows."""
    M, k = rows.Y.shape[1], held.shape[1] // rows.Y.shape[1]
    model = arrange(rows.codes, layout, (M,) * k, solver)
    whole = model.solver == "kernel"
    model, held = replace(model, outputs=(M,) * (k + whole)), np.hstack([held, np.zeros((len(held), M * whole))])
    seen = rows_of(rows.codes, np.tile(rows.Y, len(model.outputs)) - held, M)
    sources = sources_of(model, seen, shard_rows, seen._replace(codes=None, Y=held))
    return Ground(model, sources, float(held.sum()), folds=k, whole=whole, tol=NEWTON_TOL if whole else PATH_TOL)


def _gauged(layout: Layout, W: Array, rows: Any) -> tuple[Array, Terms, Array]:
    """b, terms and V of eq. 5; `rows` in the kernel form."""
    W = listed(W, layout, rows)
    return zero_sum(terms_of(layout), W, np.array([0, W.shape[1]]))


def _check(model: FEM) -> None:
    check_fields(model.ridge, model.tol, model.solver, "auto", "fem", "lbfgs", "kernel")
    at_least(1, none=True, screen=model.screen)
    if model.solver == "kernel" and model.screen is not None:
        raise ValueError('the kernel has all pairs in it, so screen does not go with solver="kernel"; leave one of them out')
    if model.solver == "kernel" and model.ridge != "auto" and model.ridge < FAINTEST:
        raise ValueError(
            f'solver="kernel" needs a ridge of at least {FAINTEST:g}, for without one its weights are not unique, and got '
            f'{model.ridge:g}; set ridge="auto", or use "lbfgs"'
        )
