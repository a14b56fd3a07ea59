"""Gaussian discriminant analysis: the story and the equations are in `correlated.py` and `model.py`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

from tallies.bayes.answers import Fitted
from tallies.bayes.classifier import Classifier
from tallies.bayes.correlated import Correlated
from tallies.bayes.door import Layout, Table
from tallies.bayes.families import Gaussian, Shape
from tallies.bayes.model import Laws, Params
from tallies.bayes.scatter import Scatter
from tallies.data.table import dense
from tallies.errors import DataWarning, one_of
from tallies.estimator import option, part
from tallies.maths import Array, Whitening

# of one core: eigenvectors of a matrix took 2.6e-10 d^3 seconds at 2,000, 4,000 and 6,000 columns, sums of products 2.8e-11 n d^2
# at 500 and 1,000, with those of squares for shrinkage="auto" 1.0e-10
SECONDS_CUBED, SECONDS_SQUARED, SECONDS_FOURTH = 3e-10, 3e-11, 7e-11
LONG = 60.0  # seconds of work that are worth a word before


@dataclass(eq=False, repr=False, kw_only=True)
class GDA(Classifier):
    """Gaussian discriminant analysis: classes are Gaussians with a shared, an own, or a diagonal covariance.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GDA().fit(X, y)
    >>> round(model.score(X, y), 2)
    0.98
    >>> X[0, 0] = float("nan")          # a missing cell is summed out
    >>> model.predict(X[:1]).tolist()
    [0]
    """

    covariance: Literal["shared", "class", "diagonal"] = option("shared", "Which covariance.")
    shrinkage: float | Literal["auto"] | None = option(None, "auto, or a number from 0 to 1.")  # "auto": Ledoit-Wolf by class

    guesses = {
        "theta_": "means_",
        **dict.fromkeys(("var_", "sigma_", "covariances_"), "covariance_"),
        **dict.fromkeys(("coef_", "intercept_"), "`means_` and `covariance_` make its boundaries; `log_joint(X)` are its scores"),
    }
    records = (Params, Laws, Gaussian, Correlated, Shape, Scatter, Whitening, Layout, Fitted)

    def _read(self, X: Any, known: Layout | None = None, families: Any = None) -> tuple[Table, Layout]:
        self._families()
        X = dense(self, X, known is None)
        return Table(gaussian=X), known or Layout(["gaussian"] * X.shape[1], [None] * X.shape[1])

    def _families(self) -> str:
        one_of("covariance", self.covariance, "shared", "class", "diagonal")
        amount = self.shrinkage
        if not (amount is None or amount == "auto" or (isinstance(amount, int | float) and 0 <= amount <= 1)):
            raise ValueError(f'shrinkage must be None, "auto" or a number from 0 to 1, got {amount!r}')
        return "gaussian"

    def _foresee(self, n: int, K: int, d: int) -> None:
        """A covariance takes about n d^2 steps, and its root d^3 that cannot be interrupted; those of classes have one in the
        directions of the pooled one, of which there are n at most."""
        if self.covariance == "diagonal":
            return
        own = K if self.covariance == "class" else 0
        sums = SECONDS_SQUARED + SECONDS_FOURTH * (self.shrinkage == "auto")
        seconds = SECONDS_CUBED * (d**3 + own * min(n, d) ** 3) + sums * n * d**2
        if seconds > LONG:
            warnings.warn(
                f"GDA(covariance={self.covariance!r}) of {d:,} columns needs matrices of {d:,} x {d:,} "
                f"({8e-9 * d**2 * max(own, 1):,.2g} GB, a few times over) and may take {seconds / 60:,.0f} minutes; GDA(covariance="
                '"diagonal") takes a moment, and so does leaving out columns that tell little. With fewer rows than columns, '
                'covariances of all of them need shrinkage="auto" besides',
                DataWarning,
                stacklevel=4,
            )

    means_ = part("params.laws.gaussian.mean", "(K, d) mean of each class.")

    @property
    def covariance_(self) -> Array:
        """(d, d) if shared, (K, d, d) if of each class, (K, d) variances if diagonal."""
        law = self.fitted_.params.laws.gaussian
        full = getattr(law, "covariance", None)
        return law.variance if full is None else full[0] if len(full) == 1 else full

    def _root(self) -> Whitening | None:
        return getattr(self.fitted_.params.laws.gaussian, "root", None)

    def _caveats(self) -> list[str]:
        root = self._root()
        few = [] if root is None or len(root.W) == 1 else self.classes_[root.floored & (self.params_.n > 0)].tolist()
        text = (
            f"the rows of the classes {few[:5]} span fewer directions than the others, so their smallest variances were "
            'raised to 1e-9 of the pooled ones; shrinkage="auto" or covariance="shared" is safer'
        )
        return [*super()._caveats(), *([text] if few else [])]

    def _facts(self) -> list[str]:
        d, root = self.n_features_in_, self._root()
        rank = "" if root is None or root.rank == d else f", which span {root.rank} directions (the others have no variance)"
        return [*super()._facts(), f"{d} column{'s' * (d != 1)}{rank}"]
