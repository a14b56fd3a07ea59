"""What GDA and naive Bayes have in common: P(y) and P(x|y) from tallies, predictions by Bayes' rule in log space.

    y -> x                     choose a class, then the features given the class
    1.  log p(x, y=k) = log pi_k + log p(x | k)
    2.  p(y=k | x)    = exp(log p(x, k) - log p(x)),   log p(x) = logsumexp_k log p(x, k)

Rows without a label enter with their posterior (2) as weights, once for each class: the E-step of EM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import entr
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from tallies.backends import over_rows
from tallies.bayes.kernels import rows as kernels
from tallies.bayes.marginals import columns_of, information
from tallies.data.labels import encode_labels, label_codes
from tallies.data.table import table_bytes, table_rows, take_rows
from tallies.errors import DataError
from tallies.estimator import Estimator
from tallies.evaluation.score import Score, mean_score
from tallies.maths import Array, log0

LISTED = 20  # classes that a summary names
BLOCK = 16384  # rows whose scores are held at a time: they stay in the cache, and no (n, K) matrix is built to predict labels


class Shard(NamedTuple):
    table: Any  # named tuple of blocks with n rows each, as the model's door makes it
    y: np.ndarray  # (n,)  class code, -1 where the label is missing
    weight: np.ndarray  # (n,)


class Classifier(ClassifierMixin, Estimator):
    """A generative classifier: subclasses give the door `_table`, the verbs, and the methods under "the subclass's part"."""

    next_steps = ("model.predict(X)", "model.log_prob(X)", 'model.report("page.html", X, y)')

    priors: Any
    semi_supervised: bool
    classes_: np.ndarray  # (K,)  the labels, sorted
    params_: Any

    # the subclass's part

    def _table(self, X: Any, reset: bool) -> Any:
        """Validate X and return a named tuple of blocks with equal rows; `reset` learns names and states from it."""
        raise NotImplementedError

    def _log_joint(self, table: Any, params: Any, relative: bool = False) -> Array:
        """log p(x, k) of every row and class, missing cells summed out (eq. 1); if `relative`, up to a term for the row."""
        raise NotImplementedError

    def _combine(self, other: Self, classes: np.ndarray, mine: np.ndarray, theirs: np.ndarray) -> Any:
        """Params of this model and `other` together; class k of either is at mine[k] or theirs[k] among `classes`."""
        raise NotImplementedError

    def _draw(self, codes: np.ndarray, rng: np.random.RandomState) -> Any:
        """One row of features for each class code."""
        raise NotImplementedError

    # fitting

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        resume: str | Path | None = None,
        callback: Callable[..., Any] | None = None,
    ) -> Self:
        """Fit to rows X with labels y; NaN in X is missing, and so is a label when `semi_supervised=True`.

        One pass suffices unless something is hidden; then EM runs, with `progress`, `checkpoint`, `resume` and `callback`.
        """
        shards = self._shards(X, y, sample_weight)
        if len(self.classes_) < 2:
            only = self.classes_.tolist()[0]
            raise DataError(f"y must hold at least two classes, but all rows are of one class, {only!r}: nothing to tell apart")
        self._run(shards, progress=progress, checkpoint=checkpoint, resume=resume, callback=callback)
        empty = self._unobserved()
        if empty:
            names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[empty].tolist()
            raise DataError(f"columns {names[:5]} have no observed value; drop them")
        return self

    def _unobserved(self) -> list[int]:
        """Columns without a single value: an error in a fit, not in a batch of `partial_fit`."""
        return []

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the fit: exactly the model that all rows at once would give. `classes` may name those still to come.

        >>> import tallies
        >>> model = tallies.GDA().partial_fit([[0.0], [1.0]], [0, 0], classes=[0, 1]).partial_fit([[5.0], [6.0]], [1, 1])
        >>> model.predict([[0.2], [5.1]]).tolist()
        [0, 1]
        """
        batch = clone(self)
        known = getattr(self, "classes_", None)
        if known is not None:
            validate_data(self, X, reset=False, skip_check_array=True)
            self._brief(batch)
        batch._run(batch._shards(X, y, sample_weight, known if classes is None else classes))
        if known is not None:
            return self.merge(batch)
        self.__dict__.update(vars(batch))
        return self

    def _brief(self, batch: Self) -> None:
        """Tell a later batch what the first one has decided."""

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
        check_is_fitted(self)
        check_is_fitted(other)
        for attribute in ("n_features_in_", "feature_names_in_"):
            ours, theirs = (np.asarray(getattr(model, attribute, None)) for model in (self, other))
            if not np.array_equal(ours, theirs):
                raise DataError(f"merge expects models of the same columns; {attribute} is {ours} here and {theirs} there")
        if self._identity() != other._identity():
            raise DataError(f"merge expects equal hyperparameters, got {self._identity()} and {other._identity()}")
        if not (self.params_.complete and other.params_.complete):
            raise DataError(
                "only fits in one pass merge exactly, but one of these filled in missing values by EM; fit the rows together"
            )
        classes = np.unique(np.concatenate([self.classes_, other.classes_]))
        mine, their = (np.searchsorted(classes, model.classes_) for model in (self, other))
        params = self._combine(other, classes, np.asarray(mine), np.asarray(their))
        self.params_, self.classes_ = params, classes
        self.history_ = np.array([self.objective(None, params, params)])
        return self

    def _shards(self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None) -> list[Shard]:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None; give one label a row")
        table = self._table(X, reset=True)
        n = table_rows(table)
        if classes is None:
            self.classes_, codes = encode_labels(y, n, missing=self.semi_supervised)
        else:
            self.classes_ = np.unique(np.asarray(classes))
            codes = label_codes(y, n, self.classes_)
        weight = np.ones(n) if sample_weight is None else _check_sample_weight(sample_weight, np.empty((n, 1)), dtype=np.float64)
        if (weight < 0).any():
            raise DataError(f"sample_weight must not be negative, got {weight.min()}; leave rows out with a weight of 0")
        if not weight.any():
            raise DataError("sample_weight is zero for every row, so there is nothing to fit; give some row a positive weight")
        return [Shard(take_rows(table, cut), codes[cut], weight[cut]) for cut in self._cuts(n, table_bytes(table))]

    def done(self, params: Any) -> bool:
        return params.complete and params.ready

    def _e_step(self, shard: Shard, params: Any) -> Iterator[tuple[np.ndarray, Array]]:
        """Class codes and weights of the labelled rows, then of the others once for each class, by their posterior (eq. 2).

        Before the first update there is no posterior: EM starts from the labelled rows alone.
        """
        yield shard.y, shard.weight
        hidden = shard.y < 0
        if params.ready and hidden.any():
            J = self._log_joint(shard.table, params)
            r = np.empty_like(J)
            kernels.posterior(J, r)
            r *= (shard.weight * hidden)[:, None]
            for k in range(r.shape[1]):
                yield np.where(hidden, k, -1).astype(shard.y.dtype), np.ascontiguousarray(r[:, k])

    def _log_likelihood(self, shard: Shard, params: Any) -> float:
        """log p of what is observed of each row, weighted and added; NaN before the first update, when there is no model yet."""
        if params.complete:
            return 0.0  # one pass: `objective` has the value from the tallies
        if not params.ready:
            return np.nan
        J = self._log_joint(shard.table, params)
        total = np.empty(len(J))
        kernels.evidence(J, total)
        values = np.where(shard.y < 0, total, J[np.arange(len(J)), shard.y])
        return float(np.sum(shard.weight * values, where=shard.weight > 0))

    def _log_prior(self, n: Array) -> Array:
        if self.priors is None:
            return log0(n / n.sum())
        priors = np.asarray(self.priors, dtype=float)
        if priors.shape != n.shape or (priors < 0).any() or not np.isclose(priors.sum(), 1.0):
            names = self.classes_.tolist()
            raise DataError(f"priors must be {len(n)} probabilities that sum to 1, for the classes {names}; got {priors.tolist()}")
        return log0(priors)

    # use

    def _over(self, X: Any, make: Callable[[int], np.ndarray], fill: Callable[[Any, np.ndarray], None]) -> np.ndarray:
        """An array of n rows, filled block by block by fill(table, out)."""
        check_is_fitted(self)
        table = self._table(X, reset=False)
        out = make(table_rows(table))
        over_rows(lambda rows: fill(take_rows(table, rows), out[rows]), len(out), BLOCK)
        return out

    def _matrix(self, n: int) -> np.ndarray:
        return np.empty((n, len(self.classes_)))

    def _labeller(self) -> Callable[[Any, np.ndarray], None]:
        """A function (table, out) that writes the code of the most probable class of each row."""
        return lambda table, out: kernels.best(self._log_joint(table, self.params_, relative=True), out)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        check_is_fitted(self)
        write_codes = self._labeller()

        def label(table: Any, out: np.ndarray) -> None:
            codes = np.empty(len(out), dtype=np.intp)
            write_codes(table, codes)
            np.take(self.classes_, codes, out=out, mode="clip")  # codes are in range: "clip" spares the check

        return self._over(X, lambda n: np.empty(n, dtype=self.classes_.dtype), label)

    def predict_log_proba(self, X: Any) -> Array:
        """log p(y=k | x), eq. 2; columns as in classes_."""
        return self._over(
            X, self._matrix, lambda table, out: kernels.log_posterior(self._log_joint(table, self.params_, True), out)
        )

    def predict_proba(self, X: Any) -> Array:
        """p(y=k | x), eq. 2; columns as in classes_."""
        return self._over(X, self._matrix, lambda table, out: kernels.posterior(self._log_joint(table, self.params_, True), out))

    def log_prob(self, X: Any) -> Array:
        """log p(x) of each row: low values mark rows unlike anything the model was fitted on."""
        return self._over(X, np.empty, lambda table, out: kernels.evidence(self._log_joint(table, self.params_), out))

    def _evaluate(self, X: Any, y: Any = None) -> Score:
        """Mean log p(x), or with labels mean log p(x, y)."""
        values = self.log_prob(X)
        if y is not None:
            codes = label_codes(y, len(values), self.classes_)
            values = values + self.predict_log_proba(X)[np.arange(len(values)), codes]
        return mean_score(values, "exact", "nats/row")

    def sample(self, n: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, np.ndarray]:
        """n new rows from the model, with their classes: drawn, or as given by `y` (one label, or n of them).

        >>> import tallies
        >>> model = tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"])
        >>> X, y = model.sample(3, y="b", random_state=0)
        >>> X.shape, y.tolist()
        ((3, 1), ['b', 'b', 'b'])
        """
        check_is_fitted(self)
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        rng = check_random_state(random_state)
        if y is None:
            pi = np.exp(self.params_.log_prior)
            codes = rng.choice(len(pi), size=n, p=pi / pi.sum())
        else:
            codes = label_codes(np.full(n, y) if np.ndim(y) == 0 else y, n, self.classes_)
        return self._draw(codes, rng), self.classes_[codes]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _facts(self) -> list[str]:
        share, rows = np.exp(self.params_.log_prior), float(self.params_.n.sum())
        common = np.sort(np.argsort(-share, kind="stable")[:LISTED])
        more = f" and {len(share) - LISTED} more" if len(share) > LISTED else ""
        names = self.classes_.tolist()
        return [f"{rows:,.6g} rows", "classes: " + ", ".join(f"{names[k]} ({share[k]:.1%})" for k in common) + more]

    def _learned(self) -> list[tuple[str, str]]:
        share = np.exp(self.params_.log_prior)
        columns = columns_of(self)
        bits = np.array([information(column, share) for column in columns])
        need = float(entr(share).sum()) / np.log(2)
        best = [j for j in np.argsort(-bits, kind="stable")[:5] if bits[j] > 1e-6]
        return [(columns[j].name, f"tells {bits[j]:.2g} of the {need:.2g} bits needed to know the class") for j in best]


def class_weights(y: np.ndarray, weight: Array, K: int) -> Array:
    """(K,) total weight of the rows of each class."""
    return np.bincount(y[y >= 0], weights=weight[y >= 0], minlength=K).astype(float)


def spread(array: Array, places: np.ndarray, K: int) -> Array:
    """The entries of old classes at their places among K; a class that was not there has zeros."""
    out = np.zeros((K, *array.shape[1:]))
    out[places] = array
    return out
