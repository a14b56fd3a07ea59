"""Discriminant analysis of counts: which class a sample belongs to, told by a Poisson log-normal model with a mean for each class.

    class_i ~ pi,   Z_i | class k ~ N(B'x_i + mu_k, Sigma),   Y_ij | Z_ij ~ Poisson(exp(o_ij + Z_ij))

It is fitted as a PLN whose covariates are those given and the classes. `answers` says how new samples are told apart.
References: Chiquet, Mariadassou and Robin 2021 (PLN-LDA); Schaefer and Strimmer 2005.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, Unpack

import numpy as np
import pandas as pd
from scipy.special import log_softmax, logsumexp
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin
from sklearn.metrics import accuracy_score

from tallies.counts import answers, fitted, plan, written
from tallies.counts.attributes import Attributes
from tallies.counts.discriminant import answers as asked
from tallies.counts.door import Prepared, Rows, everything, from_files, from_pieces, new_design, new_rows, taken
from tallies.counts.estimator import FromCounts
from tallies.counts.tables import row_names
from tallies.counts.written import write_answers
from tallies.data.cells import beside, is_cells
from tallies.data.labels import encode_labels, label_codes
from tallies.data.lazy import is_lazy
from tallies.engine import Plan
from tallies.errors import DataError, at_least
from tallies.estimator import RunOptions, option, part, seed_of
from tallies.evaluation.score import Scored, mean_score


@dataclass(eq=False, repr=False, kw_only=True)
class PLNDiscriminant(ClassifierMixin, FromCounts, Attributes):
    """A classifier of samples by their counts: a Poisson log-normal model with a mean for each class.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["moor", "wood"])[rng.integers(0, 2, 200)]
    >>> Y = rng.poisson(np.exp(rng.normal([[1.0, 0.0, 1.0]] + 1.5 * (y == "wood")[:, None] * [1.0, 1.0, -1.0], 0.7)))
    >>> model = PLNDiscriminant().fit(Y[:150], y[:150])
    >>> bool(model.score(Y[150:], y[150:]) > 0.8), model.predict([[20, 9, 0]]).tolist()
    (True, ['wood'])
    >>> model.transform(Y[150:]).shape                        # axes that tell the classes apart
    (50, 1)
    """

    # lambda of the latent correlations, for telling new samples apart
    shrinkage: float | Literal["auto"] | None = option("auto", "Shrink correlations for new samples: auto, a share, or none.")
    random_state: Any = 0  # nothing is drawn in a fit
    intercept: bool = False  # add a column of ones to the covariates; the classes then differ from the first one
    max_iter: int = 20_000  # most sweeps over the data
    tol: float = 1e-9  # stop when five steps gain less than this part of the bound

    records: ClassVar[tuple[type, ...]] = (*fitted.RECORDS, *plan.RECORDS)
    next_steps: ClassVar[tuple[str, ...]] = ("model.predict_proba(counts)", "model.marks_", 'model.report("page.html", counts, y)')

    def _settings(self) -> plan.Settings:
        at_least(1, max_iter=self.max_iter)
        part = self.shrinkage
        if part is not None and part != "auto" and not (isinstance(part, int | float) and 0 <= part <= 1):
            raise ValueError(f'shrinkage must be "auto", None or a share between 0 and 1, got {part!r}')
        return plan.Settings(None, "full", None, None, 1, self.max_iter, self.tol)

    def fit(
        self,
        counts: Any,
        y: Any = None,
        *,
        covariates: Any = None,
        offsets: Any = None,
        sample_weight: Any = None,
        **run: Unpack[RunOptions],
    ) -> Self:
        """Fit to counts (n, p) of samples with labels y, or the name of a column of their file, folder or obs; all else as in
        `PLN.fit`.

        Covariates are what else moves the counts: their effects are the same in all classes.
        """
        if is_cells(counts):
            y = beside(counts, y, "labels")
        beside_them = covariates
        if isinstance(y, str) and is_lazy(counts):
            counts, covariates, sample_weight, y = from_pieces(counts, covariates, sample_weight, y)
        elif isinstance(y, str) and isinstance(counts, str | Path):
            path = counts
            counts, covariates, offsets, sample_weight = from_files(counts, covariates, offsets, sample_weight, label=y)
            counts, y = taken(counts, y, path)
        if covariates is not beside_them:
            text, given = everything(covariates), {"offsets": offsets, "sample_weight": sample_weight}
            return self.fit_formula(text, counts, covariates, y, **given, **run)
        return super().fit(counts, y, covariates=covariates, offsets=offsets, sample_weight=sample_weight, **run)

    def fit_transform(self, counts: Any, y: Any = None, **options: Any) -> np.ndarray:
        """Fit, and give the samples on the axes that tell the classes apart; options as in `fit`."""
        return self.fit(counts, y, **options).transform(counts)

    def _beside(
        self, y: Any, v: np.ndarray, X: np.ndarray, names: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, fitted.Classes | None]:
        """The design with a column for each class, but one where the covariates have an intercept."""
        classes, codes = encode_labels(y, len(X), missing=False)
        lost = np.flatnonzero(np.bincount(codes, v, len(classes)) == 0)
        if len(lost):
            told = f"classes such as {classes[lost[:5]].tolist()} have no row with a weight above 0"
            raise DataError(f"{told}; drop their rows, or give them weights")
        full = np.eye(len(classes))[codes]
        ones = np.linalg.lstsq(X, np.ones(len(X)), rcond=None)[0] if X.size else np.zeros(0)
        inside = bool(np.abs(X @ ones - 1).max(initial=0.0) < 1e-8) if X.size else False
        found = fitted.Classes(classes, codes, len(classes) - inside)
        called = np.array([f"class {name}" for name in classes.tolist()], dtype=object)[int(inside) :]
        return np.hstack([X, full[:, int(inside) :]]), np.append(names, called), found

    def _plan(self, data: Prepared, seed: int) -> Plan:
        found = yield from plan.fit(self._settings(), data, seed, self.shard_rows)
        return found._replace(classes=data.classes)

    # what was learned

    classes_ = part("classes.names", "(K,) the labels, sorted.")
    means_ = part(asked.means)
    marks_ = part(asked.marked)
    _n_features_out = part(lambda fitted: min(len(fitted.classes.names) - 1, fitted.inputs.n), "Columns of what `transform` gives.")
    get_feature_names_out = ClassNamePrefixFeaturesOutMixin.get_feature_names_out

    @property
    def priors_(self) -> pd.Series:
        """The share of each class among the samples of the fit."""
        shares = np.exp(asked.log_priors(self.fitted_))
        return pd.Series(shares, index=pd.Index(self.classes_, name="class"), name="probability")

    @property
    def axes_(self) -> np.ndarray:
        """Fisher's axes (p, q), the first telling most: within a class the latent values along them have variance 1."""
        return asked.axes(self.fitted_, self.shrinkage).V

    # new samples

    def _rows(self, counts: Any, covariates: Any, offsets: Any) -> Rows:
        counts, covariates, offsets, _ = from_files(counts, covariates, offsets)
        return new_rows(asked.plain(self.fitted_), self._table(counts), covariates, offsets)

    def _told(self, counts: Any, covariates: Any, offsets: Any) -> asked.Told:
        return asked.told(self.fitted_, self._rows(counts, covariates, offsets), self.shrinkage, self.shard_rows)

    def log_prob_given(self, counts: Any, *, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """Bounds on log P(counts | class) of each sample and class (n, K)."""
        return self._told(counts, covariates, offsets).given

    def log_joint(self, counts: Any, *, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """Bounds on log P(counts, class) of each sample and class (n, K)."""
        return self.log_prob_given(counts, covariates=covariates, offsets=offsets) + asked.log_priors(self.fitted_)

    def log_prob(self, counts: Any, *, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """A bound on log P(counts) of each sample (n,): low values mark samples unlike all classes."""
        return logsumexp(self.log_joint(counts, covariates=covariates, offsets=offsets), axis=1)

    def predict_log_proba(self, counts: Any, *, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """log P(class | counts) (n, K); columns as in classes_."""
        return log_softmax(self.log_joint(counts, covariates=covariates, offsets=offsets), axis=1)

    def predict_proba(self, counts: Any, *, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """P(class | counts) (n, K); columns as in classes_."""
        return np.exp(self.predict_log_proba(counts, covariates=covariates, offsets=offsets))

    def predict(self, counts: Any, *, covariates: Any = None, offsets: Any = None, out: Any = None) -> Any:
        """The most probable class of each sample; covariates and offsets are needed where the fit had any. With `out`, counts in
        files are read in pieces, and classes with their probabilities written to that folder as Parquet, as by `PLN.transform`."""
        if out is not None:
            return write_answers(self, counts, covariates, offsets, out, written.classes)
        return self.classes_[self.log_joint(counts, covariates=covariates, offsets=offsets).argmax(axis=1)]

    def score(self, counts: Any, y: Any, sample_weight: Any = None, *, covariates: Any = None, offsets: Any = None) -> float:
        """Accuracy on samples of classes y."""
        return float(accuracy_score(y, self.predict(counts, covariates=covariates, offsets=offsets), sample_weight=sample_weight))

    def transform(self, counts: Any, *, covariates: Any = None, offsets: Any = None) -> np.ndarray:
        """Samples on the axes that tell the classes apart (n, q), of their latent means over all classes, covariates taken out."""
        found, axes = self._told(counts, covariates, offsets), asked.axes(self.fitted_, self.shrinkage)
        share = np.exp(log_softmax(found.given + asked.log_priors(self.fitted_), axis=1))
        return (np.einsum("nk,knj->nj", share, found.M) - axes.centre) @ axes.V

    def sample(
        self, n: int, *, y: Any = None, covariates: Any = None, offsets: Any = None, random_state: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw counts (n, p) and their classes: drawn, or as given by `y` (one label, or n of them); all else as in `PLN.sample`.

        >>> model = PLNDiscriminant().fit([[1, 20], [2, 30], [0, 5], [9, 90], [4, 44], [8, 2]], list("ababab"))
        >>> counts, y = model.sample(3, y="b", random_state=0)
        >>> counts.shape, y.tolist()
        ((3, 2), ['b', 'b', 'b'])
        """
        at_least(1, n=n)
        found, rng = self.fitted_, np.random.default_rng(seed_of(random_state))
        if y is None:
            codes = rng.choice(len(self.classes_), size=n, p=np.exp(asked.log_priors(found)))
        else:
            codes = label_codes(np.full(n, y) if np.ndim(y) == 0 else y, n, self.classes_)
        _, covariates, offsets, _ = from_files(None, covariates, offsets)
        own = asked.plain(found)
        drawn = own.design.X[rng.integers(len(own.design.X), size=n)]
        X = drawn if covariates is None else new_design(own.design, covariates, n)
        X = np.hstack([X, asked.classes_of(found).coding[codes]])
        return answers.draw(found, n, X, offsets, row_names(covariates), rng), self.classes_[codes]

    def _evaluate(self, counts: Any, y: Any = None, covariates: Any = None, offsets: Any = None) -> Scored:
        """Bounds on the mean of log p(counts), or with labels of log p(counts, class)."""
        J = self.log_joint(counts, covariates=covariates, offsets=offsets)
        found = logsumexp(J, axis=1) if y is None else J[np.arange(len(J)), label_codes(y, len(J), self.classes_)]
        return mean_score(found, "bound", "nats/row")

    def _facts(self) -> list[str]:
        return [*super()._facts(), *asked.facts(self.fitted_, self.shrinkage)]

    def _learned(self) -> list[tuple[str, str]]:
        table = self.marks_.groupby("class", sort=False).head(3).groupby("class", sort=False)
        return [
            (str(name), ", ".join(f"{s} x{f:.3g}" for s, f in zip(g["species"], g["factor"], strict=True))) for name, g in table
        ]
