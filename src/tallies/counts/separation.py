"""Coefficients of counts that have no finite estimate; see `coefficients` for what that means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, optimize

from tallies.backends import each
from tallies.counts.filed import Filed
from tallies.counts.fitted import Beyond, Classes
from tallies.errors import DataError
from tallies.sums import total


def separated(X: np.ndarray, seen: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which (d, p), from the design of rows, where these have counts (n, p), and where counts are known."""
    X = X / np.abs(X).max(axis=0)
    out = np.zeros((X.shape[1], seen.shape[1]), dtype=bool)
    for j in _loose(_squares(X, seen)):
        out[:, j] = _unbounded(np.unique(X[seen[:, j]], axis=0), np.unique(X[known[:, j] & ~seen[:, j]], axis=0))
    return out


def _squares(X: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """(p, d, d) sums of x x' over the rows in which each column has counts."""
    d = X.shape[1]
    return (seen.T.astype(float) @ (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)).reshape(-1, d, d)


def _loose(G: np.ndarray) -> np.ndarray:
    """Columns of whose coefficients rows with counts do not determine all."""
    return np.flatnonzero(np.linalg.eigvalsh(G)[:, 0] < 1e-9 * np.maximum(np.einsum("jdd->j", G), 1.0))


class Squares(NamedTuple):
    """What `_squares` gives of a shard."""

    G: np.ndarray


def separated_in(sources: Sequence[Any], X: np.ndarray, p: int) -> np.ndarray:
    """The same of sources of counts, of which none is missing; X is the design of all their rows."""
    d = X.shape[1]
    out = np.zeros((d, p), dtype=bool)
    if d == 1:  # all columns have counts, and so an estimate
        return out
    scale = np.abs(X).max(axis=0)
    loose = _loose(total(each(_squares_of, sources, scale)).G)
    found = each(_designs, sources, scale, loose) if len(loose) else []
    for k, j in enumerate(loose):
        out[:, j] = _unbounded(*(np.unique(np.vstack([part[k][has] for part in found]), axis=0) for has in (0, 1)))
    return out


def _squares_of(shard: Any, scale: np.ndarray) -> Squares:
    return Squares(_squares(shard.X / scale, shard.Y > 0))


def _designs(shard: Any, scale: np.ndarray, loose: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The different designs of rows that have counts, and of those that have none, for each of these columns."""
    X, seen = shard.X / scale, shard.Y[:, loose] > 0
    return [(np.unique(X[has], axis=0), np.unique(X[~has], axis=0)) for has in seen.T]


class Seen(NamedTuple):
    """Sums of v Y."""

    n: np.ndarray  # of each class                                  (K, p)


def _seen_in(shard: Any, K: int, columns: int) -> Seen:
    """Those of a shard, whose design ends with so many columns for its K classes; see `fitted.Classes`."""
    member = shard.X[:, shard.X.shape[1] - columns :]
    if columns < K:
        member = np.hstack([1 - member.sum(axis=1, keepdims=True), member])
    return Seen((shard.v[:, None] * member).T @ shard.Y)


def _unbounded(seen: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which coefficients (d,) grow without end, from the designs of rows with counts and of rows without."""
    d, m = seen.shape[1], len(others)
    free = linalg.null_space(seen)  # directions that leave the rows with counts as they are
    if not free.shape[1] or not m:
        return np.zeros(d, dtype=bool)
    # as many of the other rows as can be: maximise sum u, others free t <= -u, 0 <= u <= 1
    k = free.shape[1]
    limits = [(None, None)] * k + [(0, 1)] * m
    cost, below = np.concatenate([np.zeros(k), -np.ones(m)]), np.hstack([others @ free, np.eye(m)])
    found = optimize.linprog(cost, below, np.zeros(m), bounds=limits)
    left = np.vstack([seen, others[found.x[k:] < 0.5] if found.success else others])
    return np.abs(linalg.null_space(left)).max(axis=1, initial=0.0) > 1e-8


def beyond_of(rows: Any, sources: Sequence[Any], rank: int | None, sampled: bool, classes: Classes | None) -> Beyond | None:
    """What is to be known of counts that stay in files; None of others."""
    if not isinstance(rows.Y, Filed):
        return None
    if sampled and rank is None:
        told = "importance sampling without a rank brings home a number for each count, and these are more than is held in memory"
        raise DataError(f'{told}; set a rank, or method="variational"')
    apart = separated_in(sources, rows.X[rows.v > 0], rows.Y.shape[1])
    K, columns = (1, 0) if classes is None else (len(classes.names), classes.columns)
    alike = K == 1 and bool((rows.v == 1).all())
    return Beyond(rows.Y.total, apart, rows.Y.total[None] if alike else total(each(_seen_in, sources, K, columns)).n)
