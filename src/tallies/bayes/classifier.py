"""The face that GDA and naive Bayes have in common: fitting, adding rows, merging, and what users ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, Unpack

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from tallies.answering import goes_out, predictions, write_answers, write_cells
from tallies.bayes import answers, cells, export
from tallies.bayes.answers import Fitted
from tallies.bayes.door import Layout, Table
from tallies.bayes.families import Place
from tallies.bayes.lazily import survey
from tallies.bayes.marginals import bits_needed, telling
from tallies.bayes.model import ClassModel, Shard
from tallies.bayes.reasons import Reasons, explained, two_best
from tallies.data import scoring
from tallies.data.cells import is_cells, matrix_of
from tallies.data.columns import read_columns
from tallies.data.judged import FileClassifier
from tallies.data.kinds import from_file
from tallies.data.labels import encode_labels, label_codes
from tallies.data.lazy import Lazy, is_lazy, open_table
from tallies.data.table import check_weights, in_fitted_order, table_bytes, table_rows, take_rows
from tallies.engine import Plan, Source, Stage
from tallies.errors import DataError, at_least
from tallies.estimator import Estimator, Inputs, Run, RunOptions, option, part, seed_of
from tallies.evaluation.score import Scored, mean_score
from tallies.maths import Array
from tallies.sources import Held, held
from tallies.streams import fit_batches

if TYPE_CHECKING:
    import pandas as pd

ALONE = 5  # classes of one row each from which on this is told; fewer may be a first batch
LISTED = 20  # classes that a summary names


class Data(NamedTuple):
    """What the door lets in."""

    sources: Sequence[Source]  # of `Shard`
    inputs: Inputs
    classes: np.ndarray  # (K,)  the labels, sorted
    layout: Layout  # families and states of the columns
    batch: bool  # part of the rows: a column without a value is no error
    shared: Held | None = None  # by which rows of files are read


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(FileClassifier, Estimator, ABC):
    """A generative classifier: subclasses give the door `_read`, and options that the model has by the same names."""

    takes: ClassVar[tuple[str, ...]] = ("allow_nan",)
    guesses: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("class_prior", "class_weight", "fit_prior"), "priors"),
        **dict.fromkeys(("class_prior_", "class_log_prior_", "prior_"), "priors_"),
        "reg_param": "shrinkage",
        "var_smoothing": "shrinkage",
    }
    next_steps: ClassVar[tuple[str, ...]] = ("model.predict(X)", "model.log_prob(X)", 'model.report("page.html", X, y)')

    # as in the data where there are none
    priors: Sequence[float] | None = option(None, "Class probabilities, comma separated, in the order of the sorted classes.")
    semi_supervised: bool = option(False, "Use rows whose target is empty, by EM.")  # a missing label is NaN, None or -1
    max_iter: int = 500  # sweeps of EM, where anything is hidden
    tol: float = 1e-8  # EM stops when the objective changes by less, relatively

    @abstractmethod
    def _read(self, X: Any, known: Layout | None = None, families: Any = None) -> tuple[Table, Layout]:
        """Validate X and cut it into blocks, by a known layout where rows are new; else with these families if given."""

    @abstractmethod
    def _families(self) -> Any:
        """The settings checked, and the families that columns shall have."""

    def _foresee(self, n: int, K: int, d: int) -> None:
        """Warn of a fit to n rows of K classes and d columns that will take long, before it begins."""

    # fitting

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, **run: Unpack[RunOptions]) -> Self:
        """Fit to rows X with labels y; NaN in X is missing, and so is a label when `semi_supervised=True`. X may be a file (see
        `read_table`), a folder of files or a lazy frame, of which only pieces are ever read; then y and `sample_weight` name
        columns of it, and what became of the others is in `columns_`. Of an AnnData, an .h5ad file or a .zarr folder they may
        name columns of obs; rows that are sparse stay so, or are laid out some at a time. An iterator gives batches (X, y), each
        for `partial_fit`.

        One pass suffices unless something is hidden; then EM runs, with `progress`, `checkpoint`, `resume` and `callback`.
        """
        if isinstance(X, Iterator):
            return fit_batches(self, X, dict(run), y, sample_weight)
        if is_lazy(X):
            table = open_table(X)  # may have made files, which last as long as it
            return self._fit(self._survey(table, y, sample_weight), **run)
        if is_cells(X):
            return self._fit(self._of_cells(X, y, sample_weight), **run)
        X, y, sample_weight = from_file(X, y, sample_weight, model=self, fitted=False)
        return self._fit(self._prepare(X, y, sample_weight=sample_weight), **run)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, *, sample_weight: Any = None, **run: Unpack[RunOptions]) -> Self:
        """Add rows to the fit: exactly the model that all rows at once would give. `classes` may name those still to come.

        >>> import tallies
        >>> model = tallies.GDA().partial_fit([[0.0], [1.0]], [0, 0], classes=[0, 1]).partial_fit([[5.0], [6.0]], [1, 1])
        >>> model.predict([[0.2], [5.1]]).tolist()
        [0, 1]
        """
        earlier: Fitted | None = self.fitted_ if self.__sklearn_is_fitted__() else None
        X, y, sample_weight = from_file(X, y, sample_weight, model=self, fitted=earlier is not None)
        families = None
        if earlier is not None:
            if not is_cells(X):
                X = in_fitted_order(self, X)
                validate_data(self, X, reset=False, skip_check_array=True)
            classes, families = earlier.classes if classes is None else classes, earlier.layout.families
        data = self._prepare(X, y, sample_weight=sample_weight, classes=classes, families=families, batch=True)
        batch = clone(self)._fit(data, **run).fitted_
        self.fitted_ = batch if earlier is None else self._merged(earlier, batch)
        return self

    def merge(self, other: Self) -> Self:
        """Add another model of the same kind, fitted on other rows: exactly the model that all rows at once would give.

        >>> import tallies
        >>> X, y = [[0.0], [1.0], [5.0], [6.0], [0.5], [7.0]], [0, 0, 1, 1, 0, 1]
        >>> one = tallies.GDA().fit(X[:4], y[:4]).merge(tallies.GDA().fit(X[2:], y[2:]))
        >>> two = tallies.GDA().fit(X[:4] + X[2:], y[:4] + y[2:])
        >>> bool(abs(one.predict_proba(X) - two.predict_proba(X)).max() < 1e-12)
        True
        """
        if type(other) is not type(self):
            raise TypeError(f"merge expects another {type(self).__name__}, got {type(other).__name__}")
        ours, theirs = self.fitted_.inputs, other.fitted_.inputs
        if ours.n != theirs.n or not np.array_equal(np.asarray(ours.names), np.asarray(theirs.names)):
            raise DataError(f"merge expects models of the same columns; they are {ours} here and {theirs} there")
        if self._identity() != other._identity():
            raise DataError(f"merge expects equal hyperparameters, got {self._identity()} and {other._identity()}")
        self.fitted_ = self._merged(self.fitted_, other.fitted_)
        return self

    def _merged(self, *parts: Fitted) -> Fitted:
        """The fit to the rows of all parts: their tallies, recentred and added."""
        first, second = parts
        if not all(part.params.complete for part in parts):
            raise DataError(
                "only fits in one pass merge exactly, but one of these filled in missing values by EM; fit the rows together"
            )
        classes = np.unique(np.concatenate([part.classes for part in parts]))
        layout = first.layout.union(second.layout)
        model, states = self._model(classes, layout), int(layout.starts()[-1])
        places = [Place(np.searchsorted(classes, p.classes), len(classes), p.layout.states_in(layout), states) for p in parts]
        params = model.merge([(part.params, place) for part, place in zip(parts, places, strict=True)])
        run = first.run._replace(history=np.array([params.log_likelihood()]))
        return first._replace(run=run, classes=classes, layout=layout, params=params)

    def _prepare(
        self, X: Any, y: Any, *, sample_weight: Any = None, classes: Any = None, families: Any = None, batch: bool = False
    ) -> Data:
        if is_cells(X):
            known = self.fitted_.inputs if families is not None else None
            table, layout, inputs = cells.batch(X, families or self._families(), known)
        else:
            table, layout = self._read(X, families=families)
            inputs = Inputs.of(X, len(layout.families), table=True)
        n = table_rows(table)
        if classes is None:
            classes, codes = encode_labels(y, n, missing=self.semi_supervised, least=1 if batch else 2)
        else:
            classes = np.unique(np.asarray(classes))
            codes = label_codes(y, n, classes, self.semi_supervised)
        self._foresee(n, len(classes), len(layout.families))
        weight = check_weights(sample_weight, n)
        sources = held(lambda cut: Shard(take_rows(table, cut), codes[cut], weight[cut]), n, table_bytes(table), self.shard_rows)
        return Data(sources, inputs, classes, layout, batch)

    def _survey(self, table: Lazy, y: Any, sample_weight: Any) -> Data:
        """The door for a table beyond memory."""
        sources, known, columns = survey(self, table, y, sample_weight, self._families())
        self._foresee(table.rows, len(known.classes), len(known.names))
        inputs = Inputs(len(known.names), np.array(known.names, dtype=object), columns)
        return Data(sources, inputs, known.classes, known.layout, batch=False, shared=Held(known))

    def _of_cells(self, X: Any, y: Any, sample_weight: Any) -> Data:
        """The door for a matrix of cells, which may stay in its file."""
        sources, names, classes, layout = cells.survey(self, X, y, sample_weight, self._families())
        self._foresee(sum(len(source.y) for source in sources), len(classes), len(names))
        return Data(sources, Inputs(len(names), names), classes, layout, batch=False, shared=Held(layout))

    def _plan(self, data: Data, seed: int) -> Plan:
        model = self._model(data.classes, data.layout)
        kept = yield Stage("", model, data.sources, lambda end: end.params, self.max_iter, shared=data.shared)
        fitted = Fitted(Run.of(kept, seed), data.inputs, data.classes, data.layout, kept.value)
        empty = [] if data.batch else answers.unobserved(fitted)
        if empty:
            raise DataError(f"columns {empty[:5]} have no observed value; drop them")
        return fitted

    def _model(self, classes: np.ndarray, layout: Layout) -> ClassModel:
        """The model with this estimator's settings."""
        settings = {field.name: getattr(self, field.name) for field in fields(ClassModel) if hasattr(self, field.name)}
        settings |= {"K": len(classes), "starts": tuple(layout.starts().tolist())}
        if self.priors is None:
            return ClassModel(**settings)
        wanted = f"priors must be {len(classes)} probabilities that sum to 1, for the classes {classes.tolist()}"
        try:
            priors = np.asarray(self.priors, dtype=float)
        except (TypeError, ValueError):
            raise DataError(f"{wanted}; got {self.priors!r}") from None
        if priors.shape != classes.shape or (priors < 0).any() or not np.isclose(priors.sum(), 1.0):
            raise DataError(f"{wanted}; got {priors.tolist()}")
        return ClassModel(**settings | {"priors": tuple(priors.tolist())})

    # what users ask

    classes_ = part("classes", "(K,) the labels, sorted.")
    layout_ = part("layout", "The family of each column, and the states of those that hold categories.")
    params_ = part("params", "The parameters as the model has them.")

    @property
    def priors_(self) -> pd.Series:
        """P(y): the probability of each class before looking at a row.

        >>> import tallies
        >>> tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "a"]).priors_.to_dict()
        {'a': 0.75, 'b': 0.25}
        """
        from pandas import Index, Series

        return Series(np.exp(self.params_.log_prior), index=Index(self.classes_, name="class"), name="probability")

    def _table(self, X: Any) -> Table:
        """New rows, coded as in the fit."""
        return self._read(X, self.fitted_.layout)[0]

    def _over(self, X: Any, task: Callable[..., None], columns: int | None, dtype: Any, *given: Any) -> Array:
        """(n,) or (n, columns) answers of a task; cells are laid out some at a time."""
        tables = cells.tables(self.fitted_, X) if is_cells(X) else [self._table(X)]
        found = [answers.over_table(task, table, columns, dtype, self.fitted_.params, *given) for table in tables]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _matrix(self, task: Callable[..., None], X: Any, *given: Any) -> Array:
        """(n, K) answers of a task."""
        return self._over(X, task, len(self.classes_), np.float64, *given)

    def predict(self, X: Any, *, out: str | Path | None = None) -> Any:
        """The most probable class of each row; of a table or cells beyond memory written to a folder `out` of Parquet files, with
        ids and probabilities."""
        matrix = matrix_of(X, small=out is not None)
        if matrix is not None:
            few = matrix if "multinomial" in self.layout_.families else matrix.laid_out()
            return write_cells(self, few, self.fitted_.names(), out, cells.predictions)
        if goes_out(X, out):
            return write_answers(self, X, out, predictions)
        classes, params = self.fitted_.classes, self.fitted_.params
        return self._over(X, answers.labels, None, classes.dtype, classes, params.plane())

    def predict_log_proba(self, X: Any) -> Array:
        """log P(y=k | x); columns as in classes_."""
        return self._matrix(answers.posterior, X, True)

    def predict_proba(self, X: Any) -> Array:
        """P(y=k | x); columns as in classes_."""
        return self._matrix(answers.posterior, X, False)

    def log_joint(self, X: Any) -> Array:
        """log P(x, y=k) of each row and class."""
        return self._matrix(answers.scores, X, self.fitted_.params.log_prior)

    def log_prob_given(self, X: Any) -> Array:
        """log P(x | y=k) of each row and class: the prior has no part in it.

        >>> import tallies
        >>> model = tallies.GDA().fit([[-1.0], [1.0], [4.0], [6.0]], ["a", "a", "b", "b"])
        >>> model.log_prob_given([[0.0], [5.0]]).round(3).tolist()   # standard normals around 0 and 5
        [[-0.919, -13.419], [-13.419, -0.919]]
        """
        return self._matrix(answers.scores, X, 0.0)

    def log_prob(self, X: Any) -> Array:
        """log P(x) of each row: low values mark rows unlike anything the model was fitted on."""
        return self._over(X, answers.evidence, None, np.float64)

    def explain(self, X: Any) -> pd.DataFrame:
        """Why each row was called so: what each of its values adds to the log odds of the class called against the runner-up.

        One line a row and column, the largest contribution of a row first; those of a row add up to the difference of
        log P(class | x). The feature "(prior)" is what the frequencies of classes say, "(spread)" what covariances of each class
        say of any row; a missing value says nothing, and of counts in a sparse matrix only those that are not 0 are listed. What a
        class holds for impossible is infinite.

        >>> import tallies
        >>> model = tallies.NaiveBayes(smoothing=0).fit([["red"], ["red"], ["blue"], ["red"]], ["a", "a", "b", "b"])
        >>> model.explain([["red"]]).round(2).to_dict("records")[0]
        {'row': 0, 'predicted': 'a', 'against': 'b', 'feature': 0, 'value': 'red', 'contribution': 0.69}
        """
        fitted: Fitted = self.fitted_
        if len(fitted.classes) < 2:
            raise DataError("explain compares the class called with another, but the model knows one class alone; fit more of them")
        values = read_columns(self, X, False, order="C", accept_sparse="csr")[2]
        table = self._table(X)
        a, b = two_best(fitted.params.log_joint(table))
        rows = X.index if hasattr(X, "iloc") else np.arange(len(a))
        return explained(fitted, Reasons.of(fitted, table, a, b), values, rows, a, b)

    def export(self, path: str | Path) -> Path:
        """Write how rows are scored to a .json file, from which any language gives the same probabilities: see "Score elsewhere"
        in the documentation. `save` keeps a whole model.

        >>> import tallies, tempfile, json
        >>> model = tallies.NaiveBayes().fit([["red"], ["red"], ["blue"], ["red"]], ["a", "a", "b", "b"])
        >>> json.loads(model.export(tempfile.mkdtemp() + "/scoring.json").read_text())["columns"][0]["states"]
        ['blue', 'red']
        """
        fitted: Fitted = self.fitted_
        return scoring.write(path, type(self).__name__, fitted.classes, export.columns(fitted), **export.together(fitted))

    def _evaluate(self, X: Any, y: Any = None) -> Scored:
        """Mean log p(x), or with labels mean log p(x, y)."""
        X, y, _ = from_file(X, y, model=self)
        if y is None:
            return mean_score(self.log_prob(X), "exact", "nats/row")
        J = self.log_joint(X)
        return mean_score(J[np.arange(len(J)), label_codes(y, len(J), self.classes_)], "exact", "nats/row")

    def sample(self, n: int = 1, *, y: Any = None, random_state: Any = None) -> tuple[Any, np.ndarray]:
        """n new rows from the model, with their classes: drawn, or as given by `y` (one label, or n of them).

        >>> import tallies
        >>> model = tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"])
        >>> X, y = model.sample(3, y="b", random_state=0)
        >>> X.shape, y.tolist()
        ((3, 1), ['b', 'b', 'b'])
        """
        fitted: Fitted = self.fitted_
        at_least(1, n=n)
        rng = np.random.default_rng(seed_of(random_state))
        if y is None:
            pi = np.exp(fitted.params.log_prior)
            codes = rng.choice(len(pi), size=n, p=pi / pi.sum())
        else:
            codes = label_codes(np.full(n, y) if np.ndim(y) == 0 else y, n, fitted.classes)
        return answers.draw(fitted, codes, rng), fitted.classes[codes]

    def _caveats(self) -> list[str]:
        n = self.params_.n
        alone = bool((n > 0).sum() >= ALONE and n.max() <= 1)
        return [
            f"each of the {len(n):,} classes has one row, so nothing says how rows of a class differ; is y a name of rows?"
        ] * alone

    def _facts(self) -> list[str]:
        share, rows = np.exp(self.params_.log_prior), float(self.params_.n.sum())
        common = np.sort(np.argsort(-share, kind="stable")[:LISTED])
        more = f" and {len(share) - LISTED} more" if len(share) > LISTED else ""
        names = self.classes_.tolist()
        return [f"{rows:,.6g} rows", "classes: " + ", ".join(f"{names[k]} ({share[k]:.1%})" for k in common) + more]

    def _learned(self) -> list[tuple[str, str]]:
        columns, bits = telling(self.fitted_)
        share = bits / max(bits_needed(np.exp(self.params_.log_prior)), 1e-300)
        best = [j for j in np.argsort(-share, kind="stable")[:5] if share[j] > 1e-6]
        # one word of thousands tells little
        parts = [f"{share[j]:.0%}" if share[j] > 0.01 else f"{100 * share[j]:.2g}%" for j in best]
        return [(columns[j].name, f"tells {part} of what it takes to know the class") for j, part in zip(best, parts, strict=True)]
