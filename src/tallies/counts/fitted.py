"""What a fit of a PLN gives, in one record, and other forms of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tallies.estimator import Inputs, Run


class Formula(NamedTuple):
    """How covariates are made of the columns of a table."""

    text: str  # such as "~ 1 + tree"
    levels: dict[str, list[Any]]  # categories of its columns that are not numbers
    state: dict[str, Any]  # what transforms such as scale() learned of the fit


class Design(NamedTuple):
    """The covariates of the fit."""

    X: np.ndarray  #                                                (n, d)
    names: np.ndarray  #                                            (d,)
    intercept: bool  # whether a column of ones was added to those given
    formula: Formula | None

    @property
    def text(self) -> str | None:
        """Of the formula."""
        return None if self.formula is None else self.formula.text


class Training(NamedTuple):
    """The other data of the fit: errors of coefficients, reports and samples need them."""

    Y: np.ndarray  # counts in the smallest type that holds them, 0 where missing   (n, p)
    O: np.ndarray  # offsets, -1e4 where missing; one column where all are alike    (n, p) | (n, 1)
    v: np.ndarray  # row weights                                    (n,)
    rule: str | None  # by which the offsets were made


class Learned(NamedTuple):
    """The model: Z = B'x + C W."""

    rank: int | None  # q of PLN-PCA
    method: str  # "variational" or "importance"
    kind: str  # of the covariance: "full", "diagonal", "spherical" or "given"
    B: np.ndarray  #                                                (d, p)
    Sigma: np.ndarray | None  # where rank is None                  (p, p)
    C: np.ndarray | None  # where there is a rank: orthogonal columns, longest first, largest entry positive   (p, q)
    rotation: np.ndarray | None  # of the axes of the solver, on which the bound depends, to those of C   (q, q)
    tol: float  # of the fit

    @property
    def covariance(self) -> np.ndarray:
        """Sigma (p, p)."""
        if self.Sigma is not None:
            return self.Sigma
        assert self.C is not None
        return self.C @ self.C.T

    @property
    def components(self) -> np.ndarray:
        """C (p, q): for rank=None the principal axes of Sigma, longest first."""
        if self.C is not None:
            return self.C
        values, vectors = np.linalg.eigh(self.covariance)
        vectors = vectors[:, ::-1] * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))])[::-1]
        return vectors * np.sqrt(np.maximum(values[::-1], 0.0))

    @property
    def W(self) -> np.ndarray:
        """[B', C] (p, d + q), of a PLN-PCA on the axes of the solver."""
        if self.Sigma is not None:
            return np.hstack([self.B.T, np.linalg.cholesky(self.Sigma)])
        assert self.C is not None
        assert self.rotation is not None
        return np.hstack([self.B.T, self.C @ self.rotation.T])

    def turned(self, M: np.ndarray, S2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances on the axes of C, from those on the axes of the solver."""
        return (M, S2) if self.rotation is None else (M @ self.rotation, S2 @ self.rotation**2)


class Likelihood(NamedTuple):
    """The log likelihood of the fit."""

    value: float
    bound: bool  # a lower bound; else an estimate with the two that follow
    stderr: float | None = None
    ess: np.ndarray | None = None  # effective shares of the draws  (n,)

    @property
    def elbo(self) -> float | None:
        """The value, where it is a bound."""
        return self.value if self.bound else None


class Fitted(NamedTuple):
    """All that a fit gives."""

    run: Run
    inputs: Inputs
    model: Learned
    latent_mean: np.ndarray  #                                      (n, p) | (n, q)
    latent_variance: np.ndarray  #                                  (n, p) | (n, q)
    likelihood: Likelihood
    design: Design
    data: Training
    w: np.ndarray | None = None  # where a further fit goes on from (p,)

    @property
    def columns(self) -> np.ndarray:
        """Names of the columns of counts."""
        return self.inputs.named("y")


RECORDS = (Formula, Design, Training, Learned, Likelihood, Fitted)


def orient(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """C with orthogonal columns, longest first, largest entry positive; and the rotation that makes it so."""
    U, size, Vt = np.linalg.svd(C, full_matrices=False)
    sign = np.sign(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])])
    return U * size * sign, Vt.T * sign


def smallest(Y: np.ndarray) -> np.ndarray:
    """Counts in the smallest type that holds them.

    >>> smallest(np.array([[0.0, 300.0]])).dtype
    dtype('uint16')
    """
    top = Y.max()
    return Y.astype(np.min_scalar_type(int(top))) if top < 2**63 else Y
