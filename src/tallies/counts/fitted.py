"""What a fit of a PLN gives, in one record, and other forms of it."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.counts.records import Coefficients, Latent, Moments, PerColumn, Variance
from tallies.counts.tables import HIDDEN
from tallies.errors import DataError
from tallies.estimator import Inputs, Run
from tallies.forms import Form

Method = Literal["variational", "importance"]
Kind = Literal["full", "diagonal", "spherical", "given", "network"]  # of a covariance
Inflation = Literal["global", "column", "row", "formula"]
Value = str | bool | int | float | None
Numbers = Annotated[np.ndarray, Form("...", "fi")] | Annotated[np.ndarray, Form("... ...", "fi")]


class Formula(NamedTuple):
    """How covariates are made of the columns of a table."""

    text: str  # such as "~ 1 + tree"
    levels: dict[str, list[Value]]  # categories of its columns that are not numbers
    state: dict[str, dict[str, Value | list[Value] | dict[int, float] | Numbers]]  # what its transforms, such as scale(), learned


class Design(NamedTuple):
    """The covariates of the fit."""

    X: Annotated[np.ndarray, Form("n d")]
    names: Annotated[np.ndarray, Form("d", "OU")]
    intercept: bool  # whether a column of ones was added to those given
    formula: Formula | None

    @property
    def text(self) -> str | None:
        """Of the formula."""
        return None if self.formula is None else self.formula.text


class Stream(NamedTuple):
    """What is left of rows that came in batches."""

    seen: Annotated[float, Form(low=0)]  # weight of all
    moments: Moments  # of which the earlier ones are faded


class Beyond(NamedTuple):
    """What is kept of counts that were more than is held."""

    total: PerColumn  # their sums
    apart: Annotated[np.ndarray, Form("d p", "b")]  # coefficients that have no finite estimate
    seen: Annotated[np.ndarray, Form("... p", low=0)]  # sums of v Y, of each class of a discriminant, of others in one row
    entropy: float | None = None  # of the latents, where these are not kept either


class Training(NamedTuple):
    """The other data of the fit: errors of coefficients, reports and samples need them."""

    # counts in the smallest type that holds them, 0 where missing; sparse where they were; None: they stayed in files
    Y: Annotated[np.ndarray, Form("n p", "if", 0)] | Annotated[sp.csr_array, Form("n p", "if", 0)] | None
    O: Annotated[np.ndarray, Form("n p")] | Annotated[np.ndarray, Form("n 1")]  # offsets, -1e4 where missing; (n, 1): all alike
    v: Annotated[np.ndarray, Form("n", low=0)]  # row weights
    rule: str | None  # by which the offsets were made
    samples: Annotated[np.ndarray, Form("n", "OU")] | None = None  # names of the rows, where they had any
    stream: Stream | None = None  # where rows were added: those above are the last batch
    beyond: Beyond | None = None  # in place of Y

    @property
    def counts(self) -> np.ndarray:
        """The counts in full."""
        if self.Y is None:
            raise DataError(
                "this needs the counts of the fit, which were more than is held in memory and stayed in files; pass a part of them "
                "where counts can be passed, or fit to a part of the rows"
            )
        return np.asarray(self.Y.toarray() if isinstance(self.Y, sp.csr_array) else self.Y)

    @property
    def values(self) -> np.ndarray:
        """Counts in full, NaN where missing (n, p)."""
        return np.where(self.O > HIDDEN, self.counts, np.nan)

    @property
    def total(self) -> np.ndarray:
        """Sums of the columns (p,)."""
        if self.beyond is not None:
            return self.beyond.total
        return np.asarray(self.counts.sum(axis=0) if self.Y is None else self.Y.sum(axis=0))

    @property
    def seen(self) -> np.ndarray:
        """The same of rows times their weights (p,)."""
        return self.v @ self.Y if self.beyond is None else self.beyond.seen.sum(axis=0)


class Learned(NamedTuple):
    """The model: Z = B'x + C W."""

    rank: Annotated[int, Form(kind="i", low=1)] | None  # q of PLN-PCA
    method: Method
    kind: Kind  # of the covariance
    B: Coefficients
    Sigma: Annotated[np.ndarray, Form("p p")] | None  # where rank is None
    C: Annotated[np.ndarray, Form("p q")] | None  # where there is a rank: orthogonal columns, longest first, largest entry positive
    rotation: Annotated[np.ndarray, Form("q q")] | None  # of the axes of the solver, on which the bound depends, to those of C
    inflation: Inflation | None = None  # whose zeros are inflated alike
    pi: PerColumn | None = None  # probabilities that a count is 0 whatever Z is; of rows and of covariates their mean
    G: Annotated[np.ndarray, Form("e p")] | None = None  # of logit pi, by covariates

    def check(self) -> None:
        """Refuse what is neither a covariance nor axes, of which there are as many as the rank says."""
        axes = [part is None for part in (self.C, self.rotation)]
        if axes != [self.rank is None] * 2 or (self.Sigma is None) == (self.rank is None):
            raise ValueError(f"Sigma, C and rotation do not go with the rank {self.rank}")
        if self.C is not None and self.C.shape[1] != self.rank:
            raise ValueError(f"C of shape {self.C.shape} should have {self.rank} columns")
        if (self.inflation == "formula") != (self.G is not None) or (self.inflation is None) != (self.pi is None):
            raise ValueError(f"pi and G do not go with zeros that are inflated by {self.inflation}")

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

    @property
    def own(self) -> np.ndarray:
        """C (p, q) of a PLN-PCA on the axes of the solver, on which the latents of a row are independent given its counts."""
        return self.W[:, len(self.B) :]

    def turned(self, M: np.ndarray) -> np.ndarray:
        """Means on the axes of C, from those on the axes of the solver."""
        return M if self.rotation is None else M @ self.rotation


class Likelihood(NamedTuple):
    """The log likelihood of the fit."""

    value: float
    bound: bool  # a lower bound; else an estimate with the two that follow
    stderr: Annotated[float, Form(low=0)] | None = None
    ess: Annotated[np.ndarray, Form("n", low=0)] | None = None  # effective shares of the draws
    lost: Annotated[float, Form(low=0)] | None = None  # by how much importance sampling ended below its start, which was kept then

    @property
    def fell(self) -> bool:
        """Whether it ended lower by more than a nat, which is little for the log likelihood of a whole table."""
        return self.lost is not None and self.lost > 1.0

    @property
    def elbo(self) -> float | None:
        """The value, where it is a bound."""
        return self.value if self.bound else None


class Path(NamedTuple):
    """The penalties that were tried, from the largest on."""

    penalty: Annotated[np.ndarray, Form("L", low=0)]
    edges: Annotated[np.ndarray, Form("L", "i", 0)]  # how many there are
    loglik: Annotated[np.ndarray, Form("L")] | None  # the bound, where it was asked for
    instability: Annotated[np.ndarray, Form("L", low=0, high=0.5)] | None  # mean variance of whether a pair is chosen, twice it


class Graph(NamedTuple):
    """A sparse precision, and how it was chosen."""

    Omega: Annotated[np.ndarray, Form("p p")]
    penalty: Annotated[float, Form(low=0)]
    rule: Literal["stability", "bic", "ebic"] | None  # None: the penalty was given
    joint: bool  # precision and rows were fitted together
    path: Path
    pairs: Annotated[np.ndarray, Form("m 2", "i", 0, below="p")]  # chosen in some subsample, or in all rows
    probability: Annotated[np.ndarray, Form("m", low=0, high=1)] | None  # shares of the subsamples in which they were
    subsamples: Annotated[int, Form(kind="i", low=0)]
    gap: Annotated[float, Form(low=0)] = 0.0  # duality gap of the lasso, a column
    gamma: Annotated[float, Form(low=0)] = 0.5  # of EBIC
    limit: Annotated[float, Form(low=0, high=0.5)] | None = None  # of instability, where that was what chose
    support: Annotated[np.ndarray, Form("p p", low=0, high=1)] | None = None  # how early and how often pairs were chosen


class Classes(NamedTuple):
    """The classes of the rows of a discriminant: its design has columns for them after those of the covariates."""

    names: Annotated[np.ndarray, Form("K", "OUifb")]  # sorted
    codes: Annotated[np.ndarray, Form("n", "i", 0, below="K")]  # of the rows
    columns: Annotated[int, Form(kind="i", low=1)]  # K of the design, or K - 1 where the covariates have an intercept

    @property
    def coding(self) -> np.ndarray:
        """The entries of a class in these columns (K, columns)."""
        K = len(self.names)
        return np.eye(K)[:, K - self.columns :]


class Inflating(NamedTuple):
    """The covariates of structural zeros."""

    T: Annotated[np.ndarray, Form("n e")]
    names: Annotated[np.ndarray, Form("e", "OU")]
    formula: Formula

    @property
    def design(self) -> Design:
        """As those of the means."""
        return Design(self.T, self.names, False, self.formula)


class Zeros(NamedTuple):
    """The zeros of a zero-inflated model."""

    rho: Annotated[np.ndarray, Form("n p", low=0, high=1)]  # probabilities that they are structural; 0 where a count is not 0
    pi: Annotated[np.ndarray, Form("n", low=0, high=1)]  # means of these, of the rows
    rate: Annotated[np.ndarray, Form("n p", low=0)]  # expected counts given the counts
    plain: float  # bound without inflation
    by: Inflating | None = None  # covariates that say which


class Fitted(NamedTuple):
    """All that a fit gives."""

    run: Run
    inputs: Inputs
    model: Learned
    latent_mean: Latent | None  # of Z, or of the scores; None where those of Z were more than is held
    S2: Variance | None  # variances of these, of the scores on the axes of the solver
    likelihood: Likelihood
    design: Design
    data: Training
    w: PerColumn | None = None  # where a further fit goes on from
    graph: Graph | None = None  # of a network
    classes: Classes | None = None  # of a discriminant
    zeros: Zeros | None = None  # where they are inflated

    def check(self) -> None:
        """Refuse parts of different models, whose columns are not the same."""
        (d, p), n, rank, beyond = self.model.B.shape, len(self.data.v), self.model.rank, self.data.beyond
        shape = (n, p) if self.data.Y is None else self.data.Y.shape
        q = p if self.latent_mean is None else self.latent_mean.shape[1]
        found = self.inputs.n, shape, self.design.X.shape, q
        if (self.data.Y is None) != (beyond is not None) or (self.latent_mean is None) != (self.S2 is None):
            raise ValueError("counts, or what is kept of them, or their latents are missing")
        if (self.latent_mean is None) != (beyond is not None and beyond.entropy is not None):
            raise ValueError("there should be either latents or their entropy")
        K = 1 if self.classes is None else len(self.classes.names)
        if beyond is not None and len(beyond.seen) != K:
            raise ValueError(f"sums of {len(beyond.seen)} classes do not go with {K}")
        if self.classes is not None and (len(self.classes.codes) != n or self.classes.columns > d):
            raise ValueError(f"classes of {len(self.classes.codes)} rows do not go with {n} rows and B of shape {(d, p)}")
        if found != (p, (n, p), (n, d), p if rank is None else rank):
            raise ValueError(f"columns, counts, design and latents {found} do not go with B of shape {(d, p)} and the rank {rank}")

    @property
    def known_latents(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the latents."""
        if self.latent_mean is None or self.S2 is None:
            raise AttributeError(
                "the latents of all rows, a number for each count, were more than is held in memory; transform(counts) gives those "
                "of some rows, and a fit with a rank keeps the scores of all"
            )
        return self.latent_mean, self.S2

    @property
    def latent_variance(self) -> np.ndarray:
        """Variances of the latents on the axes of C."""
        S2 = self.known_latents[1]
        return S2 if self.model.rotation is None else S2 @ self.model.rotation**2

    @property
    def columns(self) -> np.ndarray:
        """Names of the columns of counts."""
        return self.inputs.named("y")


RECORDS = (Formula, Design, Beyond, Training, Learned, Likelihood, Path, Graph, Classes, Inflating, Zeros, Moments, Stream, Fitted)


def orient(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """C with orthogonal columns, longest first, largest entry positive; and the rotation that makes it so."""
    U, size, Vt = np.linalg.svd(C, full_matrices=False)
    sign = np.sign(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])])
    return U * size * sign, Vt.T * sign
