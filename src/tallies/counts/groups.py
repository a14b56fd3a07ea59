"""Groups of samples, classes or clusters: what marks them, and the axes that tell them apart."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import linalg

from tallies.counts.coefficients import times


class Groups(NamedTuple):
    """Groups of samples, and where these lie."""

    what: str  # "class" or "cluster"
    names: list[Any]
    species: list[str]
    means: np.ndarray  # of Z                                       (K, p)
    weight: np.ndarray  # of the samples of each                    (K,)
    Sigma: np.ndarray  # covariance within a group                  (p, p)
    codes: np.ndarray  # groups of the samples                      (n,)
    Z: np.ndarray | None  # positions of the samples, covariates taken out; None where they are in files   (n, p)
    samples: list[str]


class Axes(NamedTuple):
    """Directions of the latent space along which groups differ most beside their spread."""

    V: np.ndarray  # within a group Z'V has unit variances          (p, q)
    centre: np.ndarray  # mean of the means                         (p,)
    share: np.ndarray  # of what differs between groups             (q,)


def fisher(means: np.ndarray, weight: np.ndarray, Sigma: np.ndarray) -> Axes:
    """Fisher's axes of the means (K, p) of groups of these weights.

    >>> found = fisher(np.array([[0.0, 1.0], [0.0, -1.0]]), np.ones(2), np.diag([1.0, 4.0]))
    >>> found.V.tolist(), found.share.tolist()
    ([[0.0], [0.5]], [1.0])
    """
    centre = weight @ means / weight.sum()
    p, q = len(Sigma), min(len(means) - 1, len(Sigma))
    between = (means - centre).T @ ((weight / weight.sum())[:, None] * (means - centre))
    values, V = linalg.eigh(between, Sigma, subset_by_index=[p - q, p - 1])
    values, V = np.maximum(values[::-1], 0.0), V[:, ::-1]
    sign = np.sign(V[np.abs(V).argmax(axis=0), np.arange(q)])
    return Axes(V * sign + 0.0, centre, values / max(float(values.sum()), 1e-300))


def apart(groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """By how much the mean of Z in a group is above that over all of them (K, p), and that beside the spread within a group."""
    found = groups.means - groups.weight @ groups.means / groups.weight.sum()
    return found, found / np.sqrt(groups.Sigma.diagonal() + 1e-12)


def marks(groups: Groups) -> pd.DataFrame:
    """One row a group and species: the mean of its logarithm there (`mean`), the factor by which it is more or less abundant than
    over all groups (`factor`), and that beside its spread within a group (`z`), of each group the farthest first."""
    (K, p), (more, z) = groups.means.shape, (part.ravel() for part in apart(groups))
    columns = {groups.what: np.repeat(np.asarray(groups.names), p), "species": np.tile(np.array(groups.species, dtype=object), K)}
    table = pd.DataFrame({**columns, "mean": groups.means.ravel(), "factor": np.exp(more), "z": z})
    return table.iloc[np.lexsort((-np.abs(z), np.repeat(np.arange(K), p)))].reset_index(drop=True)


def sentence(groups: Groups, k: int, most: int = 3) -> str:
    """The species that mark a group."""
    (more, z), parts = (part[k] for part in apart(groups)), []
    for sign, word in ((1, "more"), (-1, "less")):
        best = [j for j in np.argsort(-sign * z, kind="stable")[:most] if sign * more[j] > 0.1]  # a tenth more or less is nothing
        parts += [f"{word} of " + ", ".join(f"{groups.species[j]} ({times(more[j])})" for j in best)] * bool(best)
    return f"{groups.names[k]} has {'; '.join(parts)}." if parts else f"{groups.names[k]} is marked by no species."
