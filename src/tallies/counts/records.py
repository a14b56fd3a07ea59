"""Records that all PLN solvers share: shards, what is to be known of them all, and where their rows ended."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.special import gammaln

from tallies.forms import Form

# n rows, p columns of counts, d covariates, q latent dimensions
Latent = Annotated[np.ndarray, Form("n q")]
Variance = Annotated[np.ndarray, Form("n q", low=0)]
PerColumn = Annotated[np.ndarray, Form("p", low=0)]
Coefficients = Annotated[np.ndarray, Form("d p")]

SMALL = gammaln(np.arange(1.0, 1025.0))  # log 0!, log 1! and so on: a place in memory costs a tenth of the function


def log_factorial(Y: np.ndarray) -> np.ndarray:
    """log Y!

    >>> log_factorial(np.array([0.0, 3.0])).round(4)
    array([0.    , 1.7918])
    """
    large = len(SMALL) <= Y
    out = SMALL[np.where(large, 0.0, Y).astype(np.intp)]
    out[large] = gammaln(Y[large] + 1)
    return out


def blocks(n: int, p: int, size: int) -> list[slice]:
    """Cut n rows of p entries into pieces of about `size` entries."""
    rows = max(1, size // max(p, 1))
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]


class Moments(NamedTuple):
    """What the maximum of the bound given the rows, B and Sigma, is made of; those of several batches add."""

    weight: Annotated[float, Form(low=0)]  # N
    XvX: Annotated[np.ndarray, Form("d d")]  # X'vX
    XvM: Coefficients  # X'vM
    MvM: Annotated[np.ndarray, Form("p p")]  # M'vM + diag sum v S2

    @classmethod
    def of(cls, M: np.ndarray, S2: np.ndarray, X: np.ndarray, v: np.ndarray) -> Moments:
        """Those of some rows."""
        vX, MvM = v[:, None] * X, np.zeros((M.shape[1], M.shape[1]))
        for b in blocks(len(M), M.shape[1], 1 << 20):
            MvM += M[b].T @ (v[b, None] * M[b])
        MvM[np.diag_indices(len(MvM))] += v @ S2
        return cls(float(v.sum()), vX.T @ X, vX.T @ M, MvM)

    def about(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """X'vR and R'vR + diag sum v S2, with R = M - X B."""
        P = self.XvM - self.XvX @ B
        S = self.MvM - self.XvM.T @ B - B.T @ P
        return P, 0.5 * (S + S.T)


class Spread(NamedTuple):
    """What the maximum of the bound given the rows is made of, about B: those of shards add, and lose no digits to the mean."""

    weight: Annotated[float, Form(low=0)]  # N
    XvX: Annotated[np.ndarray, Form("d d")]  # X'vX
    P: Coefficients  # X'vR, with R = M - X B
    G: Annotated[np.ndarray, Form("p p")]  # R'vR, its lower triangle
    s2: PerColumn  # sum of v S2
    entropy: float  # of q

    @classmethod
    def of(cls, M: np.ndarray, S2: np.ndarray, X: np.ndarray, v: np.ndarray, B: np.ndarray) -> Spread:
        """That of some rows."""
        vX, p = v[:, None] * X, M.shape[1]
        P, G, entropy = np.zeros((X.shape[1], p)), np.zeros((p, p), order="F"), 0.0
        for b in blocks(len(M), p, 1 << 20):  # R is as large as the data: never all of it at once
            R = M[b] - X[b] @ B
            P += vX[b].T @ R
            R *= np.sqrt(v[b, None])
            G = dsyrk(1.0, R.T, beta=1.0, c=G, lower=True, overwrite_c=True)  # half of the work of a product, added in its place
            entropy += float(0.5 * v[b] @ (np.log(2 * np.pi * S2[b]) + 1).sum(axis=1))
        return cls(float(v.sum()), vX.T @ X, P, G, v @ S2, entropy)

    def maximum(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """B and Sigma there."""
        move = np.linalg.solve(self.XvX, self.P)
        Sigma = np.tril(self.G - self.P.T @ move) / self.weight
        Sigma += np.tril(Sigma, -1).T
        Sigma[np.diag_indices(len(Sigma))] += self.s2 / self.weight
        return B + move, Sigma


class Sums(NamedTuple):
    """What the solvers need to know of the data; without the last two the rows have a place already."""

    weight: Annotated[float, Form(low=0)]  # N
    XvX: Annotated[np.ndarray, Form("d d")]  # X'vX
    rootX: Annotated[np.ndarray, Form("n d")] | None = None  # sqrt(v) X, where p > n
    n_j: PerColumn | None = None  # sum of v Y
    e_j: PerColumn | None = None  # sum of v exp(O)
    base: Moments | None = None  # of rows that were there before and stay where they are; the first two are with them

    @property
    def mean(self) -> np.ndarray | None:
        """Logarithms of the mean rates (p,)."""
        if self.n_j is None or self.e_j is None:
            return None
        return np.log(np.maximum(self.n_j, 0.5) / np.maximum(self.e_j, 1e-300))


class Shard(NamedTuple):
    """Some rows of the data."""

    Y: np.ndarray  # counts, 0 where missing                        (n, p)
    O: np.ndarray  # offsets, -1e4 where the count is missing       (n, p)
    X: np.ndarray  # design                                         (n, d)
    v: np.ndarray  # row weights                                    (n,)
    even: bool  # all weights are 1
    start: int  # place of the first row among all rows
    rows: int  # number of rows of all shards
    constant: float  # sum of v log Y!
    M: np.ndarray | None = None  # means of a former fit, to go on from   (n, p) | (n, q)
    groups: np.ndarray | None = None  # of the rows, by several groupings, in which a mixture may begin   (n, s)

    def rooted(self, rows: np.ndarray) -> np.ndarray:
        """Rows times the square roots of their weights."""
        return rows if self.even else np.sqrt(self.v)[:, None] * rows

    def among(self, rows: np.ndarray) -> np.ndarray:
        """Rows of this shard among zeros for all others, so that adding shards puts them together."""
        out = np.zeros((self.rows, rows.shape[1]), dtype=rows.dtype)
        out[self.start : self.start + len(rows)] = rows
        return out

    def sums(self, wide: bool = False) -> Sums:
        """Those that the variational solvers begin with."""
        X = self.rooted(self.X)
        return Sums(float(self.v.sum()), X.T @ X, self.among(X) if wide else None, self.v @ self.Y, self.v @ np.exp(self.O))


class Place(NamedTuple):
    """Where the rows of a shard ended."""

    M: Latent  # variational means
    S2: Variance  # variational variances
    bound: Annotated[np.ndarray, Form("n")] | None = None  # of every row, where asked for
