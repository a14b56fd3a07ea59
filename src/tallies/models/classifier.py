"""What GDA and naive Bayes have in common: P(y) and P(x|y) from tallies, predictions by Bayes' rule in log space.

    y -> x                     choose a class, then the features given the class
    1.  log p(x, y=k) = log pi_k + log p(x | k)
    2.  p(y=k | x)    = exp(log p(x, k) - log p(x)),   log p(x) = logsumexp_k log p(x, k)

Rows without a label enter with their posterior (2) as weights, once for each class: the E-step of EM.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from tallies.backends import over_rows
from tallies.data.labels import encode_labels, label_codes
from tallies.errors import DataError
from tallies.estimator import Estimator
from tallies.evaluation.score import Score, mean_score
from tallies.kernels import rows as kernels
from tallies.maths import Array, log0

BLOCK = 4096  # rows whose scores are held at a time: they stay in the cache, and no (n, K) matrix is built to predict labels


class Classifier(ClassifierMixin, Estimator):
    """A generative classifier: subclasses give the door `_table`, the verbs, and `_log_joint`."""

    # the subclass's part

    def _table(self, X: Any, reset: bool) -> Any:
        """Validate X and return a named tuple of blocks with equal rows; `reset` learns names and states from it."""
        raise NotImplementedError

    def _log_joint(self, table: Any, params: Any) -> Array:
        """log p(x, k) of every row and class, missing cells summed out (eq. 1)."""
        raise NotImplementedError

    def _combine(self, other: Any) -> Any:
        """Params of this model and another, fitted on other rows, together."""
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
        shards = self._shards(X, y, sample_weight, None)
        if len(self.classes_) < 2:
            raise DataError(f"y must hold at least two classes, got one class: {self.classes_[0]!r}; a classifier has nothing to tell apart")
        self._run(shards, progress=progress, checkpoint=checkpoint, resume=resume, callback=callback)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the fit: exactly the model that all rows at once would give. `classes` may name those still to come."""
        batch = clone(self)
        known = getattr(self, "classes_", None)
        if known is not None:
            self._prepare(batch)
        batch._run(batch._shards(X, y, sample_weight, known if classes is None else classes))
        if known is not None:
            return self.merge(batch)
        vars(self).update(vars(batch))
        return self

    def merge(self, other: Self) -> Self:
        """Add another model of the same kind, fitted on other rows: exactly the model that all rows at once would give.

        >>> import tallies
        >>> X, y = [[0.0], [1.0], [5.0], [6.0], [0.5], [7.0]], [0, 0, 1, 1, 0, 1]
        >>> one = tallies.GDA().fit(X[:4], y[:4]).merge(tallies.GDA().fit(X[3:], y[3:]))
        >>> two = tallies.GDA().fit(X + [X[3]], y + [y[3]])
        >>> bool(abs(one.predict_proba(X) - two.predict_proba(X)).max() < 1e-12)
        True
        """
        check_is_fitted(self)
        if type(other) is not type(self):
            raise TypeError(f"merge expects another {type(self).__name__}, got {type(other).__name__}")
        check_is_fitted(other)
        for attribute in ("n_features_in_", "feature_names_in_"):
            mine, theirs = getattr(self, attribute, None), getattr(other, attribute, None)
            if not np.array_equal(mine, theirs):
                raise DataError(f"merge expects models of the same columns; {attribute} is {mine} here and {theirs} there")
        if self._identity() != other._identity():
            raise DataError(f"merge expects equal hyperparameters, got {self._identity()} and {other._identity()}")
        if not (self.params_.complete and other.params_.complete):
            raise DataError("only fits in one pass merge exactly: one of these filled in missing labels or values by EM; fit the rows together")
        params = self._combine(other)
        self.params_ = params
        self.history_ = np.array([self.objective(None, params, params)])
        return self

    def _prepare(self, batch: Any) -> None:
        """Give a batch for `partial_fit` what the first batch has decided."""

    def _shards(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> list[Any]:
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None; give one label a row"
            )
        table = self._table(X, reset=True)
        n = table[-1].shape[0]
        semi = bool(getattr(self, "semi_supervised", False))
        if classes is None:
            self.classes_, codes = encode_labels(y, n, missing=semi)
        else:
            self.classes_ = np.unique(np.asarray(classes))
            codes = label_codes(y, n, self.classes_)
        weight = np.ones(n) if sample_weight is None else _check_sample_weight(sample_weight, np.empty((n, 1)), dtype=np.float64)
        if (weight < 0).any():
            raise DataError(f"sample_weight must not be negative, got {weight.min()}; leave rows out with a weight of 0")
        if not weight.any():
            raise DataError("sample_weight is zero for every row, so there is nothing to fit; give some row a positive weight")
        nbytes = sum(_nbytes(block) for block in table)
        return [
            self._shard(type(table)(*(None if b is None else b[cut] for b in table)), codes[cut], weight[cut])
            for cut in self._cuts(n, nbytes)
        ]

    def _shard(self, table: Any, y: np.ndarray, weight: np.ndarray) -> Any:
        raise NotImplementedError

    # priors

    def _log_prior(self, n: Array) -> Array:
        priors = getattr(self, "priors", None)
        if priors is None:
            return log0(n / n.sum())
        priors = np.asarray(priors, dtype=float)
        if priors.shape != n.shape or (priors < 0).any() or not np.isclose(priors.sum(), 1.0):
            raise DataError(f"priors must be {len(n)} probabilities that sum to 1, one for each of {self.classes_.tolist()}; got {priors.tolist()}")
        return log0(priors)

    # use

    def _over(self, X: Any, out: np.ndarray, reduce: Callable[[Array, np.ndarray], None]) -> np.ndarray:
        """Fill `out` block by block with what `reduce` makes of the log joint."""
        check_is_fitted(self)
        table = self._table(X, reset=False)
        n = table[-1].shape[0]
        out = np.empty((n, *out.shape[1:]), dtype=out.dtype)

        def block(rows: slice) -> None:
            J = self._log_joint(type(table)(*(None if b is None else b[rows] for b in table)), self.params_)
            reduce(J, out[rows])

        over_rows(block, n, BLOCK)
        return out

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        return self.classes_[self._over(X, np.empty(0, dtype=np.intp), kernels.best)]

    def predict_log_proba(self, X: Any) -> Array:
        """log p(y=k | x), eq. 2; columns as in classes_."""
        check_is_fitted(self)
        return self._over(X, np.empty((0, len(self.classes_))), kernels.log_posterior)

    def predict_proba(self, X: Any) -> Array:
        """p(y=k | x), eq. 2; columns as in classes_."""
        check_is_fitted(self)
        return self._over(X, np.empty((0, len(self.classes_))), kernels.posterior)

    def log_prob(self, X: Any) -> Array:
        """log p(x) of each row: low values mark rows unlike anything the model was fitted on."""
        return self._over(X, np.empty(0), kernels.evidence)

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
        share = np.exp(self.params_.log_prior)
        return ["classes: " + ", ".join(f"{c} ({p:.1%})" for c, p in zip(self.classes_.tolist(), share, strict=True))]


def _nbytes(block: Any) -> int:
    if block is None:
        return 0
    return block.nbytes if isinstance(block, np.ndarray) else block.data.nbytes + block.indices.nbytes + block.indptr.nbytes
