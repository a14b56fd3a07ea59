"""Precisions of PLN, from the covariance itself or, where there are more columns than rows, through the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse import csr_array

from tallies.engine import Dropped, stopping

SPARSE = 0.03  # share of entries that are not 0 below which a product leaves out those that are


class Precision(NamedTuple):
    """The inverse of a covariance."""

    Omega: np.ndarray  # (p, p)
    logdet: float  # of the covariance
    omega: np.ndarray  # diagonal of Omega                              (p,)


def times(R: np.ndarray, Omega: np.ndarray) -> np.ndarray:
    """R Omega, for an Omega that may be sparse: zeros are left out where they are many.

    >>> times(np.array([[1.0, 2.0]]), np.diag([3.0, 4.0]))
    array([[3., 8.]])
    """
    return R @ (csr_array(Omega) if np.count_nonzero(Omega) <= SPARSE * Omega.size else Omega)


def invert(Sigma: np.ndarray) -> Any:
    """Inverse, log determinant and diagonal of the inverse; None where Sigma is not positive definite."""
    factor, bad = linalg.lapack.dpotrf(Sigma.T, lower=0, clean=1)  # transposed: as LAPACK stores it, without a copy
    if bad or not np.isfinite(factor[0, 0]):
        return None
    logdet = 2 * np.log(factor.diagonal()).sum()
    _listen()
    half, bad = linalg.lapack.dpotri(factor, lower=0, overwrite_c=1)
    omega = half.diagonal().copy()
    Omega = half + half.T
    Omega[np.diag_indices(len(omega))] = omega
    return Omega, logdet, omega


def invert_wide(R: np.ndarray, E: np.ndarray, N: float) -> Any:
    """R Omega, log|Sigma| and the diagonal of Omega for Sigma = (R'R + diag E)/N, through an n by n matrix."""
    Z = R / np.sqrt(E).astype(R.dtype)
    K = (Z @ Z.T).astype(np.float64)
    K[np.diag_indices(len(K))] += 1.0
    _listen()
    inverse = invert(K)
    if inverse is None:
        return None
    _listen()
    KZ = inverse[0].astype(Z.dtype) @ Z
    omega = N / E * np.maximum(1.0 - np.einsum("ij,ij->j", Z, KZ), 1e-12)
    KZ *= (N / np.sqrt(E)).astype(Z.dtype)
    return KZ, inverse[1] + np.log(E).sum() - len(E) * np.log(N), omega


def _listen() -> None:
    """Of thousands of columns each part takes a second: after Ctrl-C the next one is not begun."""
    if stopping():
        raise Dropped
