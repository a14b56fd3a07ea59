"""Where a mixture begins: one PLN of all samples, the groupings of some of them, and the group of each sample in each grouping.

Nothing but the groups comes home of the rows, and the means of those that are grouped: all of them, or `AT_ONCE` numbers drawn by
lot, which is enough to see where clusters lie.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2

from tallies.counts.door import Rows
from tallies.counts.full import GRADIENT, Covariance, FullLatents, FullParams
from tallies.counts.records import Coefficients, Shard
from tallies.engine import End, Kept, Model, Stage
from tallies.forms import Form

DISTINCT = 0.02  # least share of rows by which two groupings differ
AT_ONCE = 1 << 24  # means that are grouped: 128 MB
FEWEST = 1000  # rows, however wide


class Found(NamedTuple):
    """Some rows of a shard."""

    M: Annotated[np.ndarray, Form("n p")]  # means of Z
    at: Annotated[np.ndarray, Form("n", "i", 0)]  # their places among all


class Grouped(NamedTuple):
    """The end of the one PLN."""

    B: Coefficients
    M: Annotated[np.ndarray, Form("n p")]  # of some rows
    at: Annotated[np.ndarray, Form("n", "i", 0)]


class Centres(NamedTuple):
    """What says to which group a row belongs."""

    trial: bool  # whether the trial point of the latents is their current one
    B: Coefficients
    centres: Annotated[np.ndarray, Form("m p")]  # of all groupings, one after another: means of Z less B'x
    number: Annotated[np.ndarray, Form("s", "i", 1)]  # of the centres of each


class Weight(NamedTuple):
    """Sum over a shard."""

    objective: float  # of the rows: there is nothing to maximise


class Assigned(NamedTuple):
    """The group of each row, in each grouping."""

    groups: Annotated[np.ndarray, Form("n s", "i", 0)]


RECORDS = (Found, Grouped, Centres, Assigned)


@dataclass(frozen=True)
class Located(Covariance):
    """The one PLN, of which the means of some rows are wanted."""

    share: float = 1.0  # of the rows

    def rows(self, shard: Shard, latents: FullLatents, params: FullParams) -> Any:
        M = places_of(latents, params.phase == GRADIENT)
        drawn = np.flatnonzero(np.random.default_rng(shard.start).random(len(M)) < self.share)  # the same on any worker
        return Found(M[drawn], shard.start + drawn)


@dataclass(frozen=True)
class Nearest(Model):
    """The groups of the rows of the one PLN: those of the nearest centres."""

    draws: ClassVar[bool] = False
    leaves_latents: ClassVar[bool] = True

    def sweep(self, shard: Shard, latents: FullLatents, params: Centres, rng: np.random.Generator) -> tuple[Weight, FullLatents]:
        return Weight(float(shard.v.sum())), latents

    def update(self, params: Centres, tally: Weight, rng: np.random.Generator) -> Centres:
        return params

    def rows(self, shard: Shard, latents: FullLatents, params: Centres) -> np.ndarray:
        R = places_of(latents, params.trial) - shard.X @ params.B
        far = np.stack([((R - centre) ** 2).sum(axis=1) for centre in params.centres], axis=1)
        several = np.split(far, np.cumsum(params.number)[:-1], axis=1)
        return np.stack([some.argmin(axis=1) for some in several], axis=1).astype(np.min_scalar_type(int(params.number.max())))


def places_of(latents: FullLatents, trial: bool) -> np.ndarray:
    """Means of the rows at the point that the search has accepted."""
    return np.asarray(latents.M_trial if trial else latents.M, dtype=np.float64)


def share_of(rows: Rows) -> float:
    """How many of the rows are grouped."""
    n, p = rows.Y.shape
    return min(1.0, max(AT_ONCE // p, FEWEST) / n)


def grouped(end: End) -> Grouped:
    """What is kept of the one PLN."""
    return Grouped(end.params.point.B, *(np.concatenate([getattr(part, k) for part in end.rows]) for k in Found._fields))


def assigned(end: End) -> Assigned:
    """What is kept of the groups."""
    return Assigned(np.concatenate(end.rows))


def groups(found: Grouped, several: list[np.ndarray], sources: list[Any], kept: Kept) -> Generator[Stage, Kept, np.ndarray]:
    """The group of each row (n, s), by centres of several groupings, from where the one PLN has left the rows."""
    number = np.array([len(centres) for centres in several])
    begun = kept.params and Centres(kept.params.phase == GRADIENT, found.B, np.vstack(several), number)
    last = yield Stage("groups of all samples", Nearest(), sources, assigned, 1, begun, kept.latents, rows=True)
    return np.asarray(last.value.groups)


def groupings(R: np.ndarray, v: np.ndarray, K: int, n_starts: int, seed: int) -> list[np.ndarray]:
    """Centres (K, p) of rows by k-means from several seeds, those that differ; rows in any order give the same."""
    if K == 1:
        return [(v @ R / v.sum())[None]]
    order = np.lexsort(R.T[:3])  # so that the order of the rows has no part in what is drawn
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for s in range(n_starts):
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):
            warnings.filterwarnings("ignore", "One of the clusters is empty")  # such a grouping is passed over
            centres, label = kmeans2(R[order], K, iter=30, minit="++", rng=np.random.default_rng([seed, K, s]))
        share = np.bincount(label, minlength=K)
        if (share == 0).any():
            continue
        if all(_moved(label, other) > DISTINCT for _, other in found):
            found.append((centres[np.argsort(-share, kind="stable")], label))
    return [centres for centres, _ in found] or [R[order[np.linspace(0, len(R) - 1, K).astype(int)]]]


def _moved(a: np.ndarray, b: np.ndarray) -> float:
    """Share of the rows that two groupings of the same number of groups place differently."""
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)
    return 1 - table[linear_sum_assignment(-table)].sum() / len(a)
