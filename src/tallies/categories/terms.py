"""The features of FEM: products of one-hot indicators of k different variables, and the gauge in which they are read.

    1.  sigma^A = prod over j in A of sigma_j          a term A of k variables: prod_j m_j features, one active in each row
    2.  h(x) = sum_A W_A[x_A]
    3.  h(x) = b + sum_A V_A[x_A],   sum over s_j of V_A[s] = 0 for every j in A          zero-sum gauge

(3) is the decomposition of h into main effects and interactions under equal weights of all states: V_A is what A adds to all
its subsets. It exists for every W and is unique, and p(y|x) is the same in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations
from math import inf
from typing import Any, NamedTuple

import numpy as np

from tallies.categories.kernels import fem as kernels
from tallies.categories.products import SMALL, add_product
from tallies.errors import DataError
from tallies.maths import Array


class Terms(NamedTuple):
    variables: np.ndarray  # (T, K)  variables of each term, -1 after the last
    strides: np.ndarray  # (T, K)  places between neighbouring states of a variable within the term's block
    offset: np.ndarray  # (T + 1,)  first feature of each term; the last entry is p
    sizes: np.ndarray  # (n,)  m_j

    @property
    def p(self) -> int:
        return int(self.offset[-1])

    def of(self, t: int) -> tuple[int, ...]:
        """Variables of term t."""
        return tuple(int(v) for v in self.variables[t] if v >= 0)

    def shape(self, t: int) -> tuple[int, ...]:
        """Numbers of states of the variables of term t."""
        return tuple(int(self.sizes[v]) for v in self.of(t))

    def all(self) -> list[tuple[int, ...]]:
        return [self.of(t) for t in range(len(self.variables))]

    def degree(self) -> np.ndarray:
        """(T,)  how many variables each term has."""
        return (self.variables >= 0).sum(axis=1)


def make_terms(sizes: np.ndarray, groups: Iterable[tuple[int, ...]]) -> Terms:
    """Terms of the given groups of variables, in the order given; within a block the last variable runs fastest.

    >>> make_terms(np.array([3, 2]), [(0,), (1,), (0, 1)]).offset.tolist()
    [0, 3, 5, 11]
    """
    groups, sizes = list(groups), np.asarray(sizes, dtype=np.int64)
    degree = np.array([len(group) for group in groups], dtype=np.int64)
    inside = np.arange(degree.max(initial=1)) < degree[:, None]
    variables = np.full(inside.shape, -1, dtype=np.int32)
    variables[inside] = [v for group in groups for v in group]
    m = np.where(inside, sizes[variables], 1)
    from_ = np.cumprod(m[:, ::-1], axis=1)[:, ::-1]  # product of the sizes from a variable on; its stride: of those after it
    return Terms(variables, from_ // m, np.concatenate([[0], np.cumsum(from_[:, 0])]), sizes)


class Layout(NamedTuple):
    """Which features there are, in few numbers: the tables of terms are made from it wherever they are needed."""

    sizes: tuple[int, ...]  # (n,)  m_j
    degrees: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...] | None = None  # those that screening kept, None: all

    @classmethod
    def of(cls, sizes: Iterable[int], degrees: Iterable[int], pairs: Any = None) -> Layout:
        """The layout of these numbers, whatever they come in."""
        kept = None if pairs is None else tuple((int(a), int(b)) for a, b in pairs)
        return cls(tuple(int(m) for m in sizes), tuple(int(k) for k in degrees), kept)


@lru_cache(maxsize=4)
def terms_of(layout: Layout) -> Terms:
    """The terms of a layout: all of its degrees, or those that its pairs are part of."""
    n = len(layout.sizes)
    groups = groups_of(n, layout.degrees) if layout.pairs is None else grow(n, layout.pairs, layout.degrees)
    return make_terms(np.array(layout.sizes, dtype=np.int64), groups)


def grow(n: int, pairs: Iterable[tuple[int, int]], degrees: tuple[int, ...], most: float = inf) -> list[tuple[int, ...]]:
    """The groups to fit when these pairs are kept: of three or more variables, those whose pairs are all kept but one at most.

    Where a degree has more than `most` of them, it raises ValueError.
    """
    kept = {tuple(sorted(pair)) for pair in pairs}
    groups: list[tuple[int, ...]] = [(j,) for j in range(n)] if 1 in degrees else []
    level = sorted(kept)
    for k in range(2, max(degrees) + 1):
        if k > 2:
            wider = {tuple(sorted({*group, *pair})) for group in level for pair in kept if len({*group, *pair}) == k}
            level = sorted(g for g in wider if sum(p in kept for p in combinations(g, 2)) >= k * (k - 1) // 2 - 1)
            if len(level) > most:
                raise ValueError(f"there are {len(level):,} groups of {k} variables, more than {most:,}")
        if k in degrees:
            groups += level
    return groups


@lru_cache(maxsize=2)
def own_features(layout: Layout) -> list[np.ndarray]:
    """For each variable, all features that contain it."""
    terms = terms_of(layout)
    width = np.diff(terms.offset)
    return [np.flatnonzero(np.repeat((terms.variables == j).any(axis=1), width)) for j in range(len(layout.sizes))]


def groups_of(n: int, degrees: Iterable[int]) -> list[tuple[int, ...]]:
    """All groups of the given numbers of variables, by degree."""
    return [group for k in sorted(degrees) if k > 0 for group in combinations(range(n), k)]


def check_degree(degree: Any, n: int) -> tuple[int, ...]:
    """The set of degrees that `degree` asks for: 1 to K for a number K, or the set itself."""
    given = [degree] if isinstance(degree, int | np.integer) and not isinstance(degree, bool) else degree
    try:
        degrees = sorted({int(k) for k in given})
        whole = all(k == int(k) for k in given)
    except (TypeError, ValueError):
        degrees, whole = [], False
    if not degrees or degrees[0] < 1 or not whole:
        raise ValueError(f'degree must be a whole number from 1 on, a set of them, or "auto"; got {degree!r}')
    if degrees[-1] > n:
        raise DataError(
            f"degree {degrees[-1]} needs {degrees[-1]} different variables, but there are {n}; lower degree to {n} or less"
        )
    return tuple(range(1, degrees[-1] + 1)) if isinstance(degree, int | np.integer) else tuple(degrees)


def feature_total(sizes: np.ndarray, degrees: Iterable[int]) -> float:
    """p = sum_k e_k(m_1..m_n), counted without enumerating."""
    return float(sum(symmetric(np.asarray(sizes, dtype=float), max(degrees))[k] for k in degrees))


def symmetric(values: Array, degree: int) -> Array:
    """e_0 .. e_degree: the elementary symmetric polynomials of the values; of rows of values, for each column."""
    e = np.zeros((degree + 1, *values.shape[1:]))
    e[0] = 1.0
    for value in values:
        e[1:] += value * e[:-1].copy()
    return e


def features(terms: Terms, codes: np.ndarray) -> np.ndarray:
    """(l, T)  the feature that each term has in each row, -1 for none."""
    kind = np.int32 if terms.p < 2**31 else np.int64
    if len(codes) * terms.variables.size <= SMALL:
        inside = terms.variables >= 0
        states = np.where(inside, codes[:, terms.variables], 0)
        return np.where((states < 0).any(axis=2), -1, terms.offset[:-1] + (states * terms.strides).sum(axis=2)).astype(kind)
    out = np.empty((len(codes), len(terms.variables)), dtype=kind)
    kernels.active_ids(codes, terms.variables, terms.strides, terms.offset, out)
    return out


def alike(terms: Terms) -> list[tuple[tuple[int, ...], list[int]]]:
    """Terms of one shape together: the shape and their numbers."""
    shapes: dict[tuple[int, ...], list[int]] = {}
    for t in range(len(terms.variables)):
        shapes.setdefault(terms.shape(t), []).append(t)
    return list(shapes.items())


def closure(groups: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The groups and all their subsets, by degree."""
    found = {part for group in groups for k in range(1, len(group) + 1) for part in combinations(group, k)}
    return sorted(found, key=lambda group: (len(group), group))


def rescaled(x: Array, offset: np.ndarray, starts: np.ndarray, factors: Array, mean_factor: float) -> Array:
    """x (p, M), the zero-sum part of every term for every output times its factor (T, n_out), the means times another.

    >>> rescaled(np.array([[1.0], [3.0]]), np.array([0, 2]), np.array([0, 1]), np.array([[10.0]]), 1.0).ravel().tolist()
    [-8.0, 12.0]
    """
    width = np.diff(offset)
    mean = np.repeat(np.add.reduceat(x, offset[:-1], axis=0) / width[:, None], width, axis=0)
    return np.repeat(np.repeat(factors, width, axis=0), np.diff(starts), axis=1) * (x - mean) + mean_factor * mean


def zero_sum(terms: Terms, W: Array, starts: np.ndarray) -> tuple[Array, Terms, Array]:
    """b (M,), the terms of the closure, and V (p', M) of eq. 3; each output's states sum to zero as well.

    >>> terms = make_terms(np.array([2]), [(0,)])
    >>> b, _, V = zero_sum(terms, np.array([[1.0, 0.0], [4.0, 1.0]]), np.array([0, 2]))
    >>> b.tolist(), V.tolist()
    ([1.0, -1.0], [[-0.5, 0.5], [0.5, -0.5]])
    """
    M = W.shape[1]
    widths = np.diff(starts)
    W = W - np.repeat(np.add.reduceat(W, starts[:-1], axis=1) / widths, widths, axis=1)
    groups = terms.all()
    out = make_terms(terms.sizes, closure(groups))
    place = {group: t for t, group in enumerate(out.all())}
    V, b = np.zeros((out.p, M)), np.zeros(M)
    for shape, members in alike(terms):
        rows = terms.offset[members][:, None] + np.arange(int(np.prod(shape)))
        table = W[rows].reshape(len(members), *shape, M)
        for k in range(len(shape) + 1):
            for kept in combinations(range(len(shape)), k):
                part = table.mean(axis=tuple(q + 1 for q in range(len(shape)) if q not in kept))
                for axis in range(1, k + 1):
                    part = part - part.mean(axis=axis, keepdims=True)
                if k == 0:
                    b += part.sum(axis=0)
                    continue
                first = out.offset[[place[tuple(groups[t][q] for q in kept)] for t in members]]
                part = part.reshape(len(members), -1, M)
                at = first[:, None] + np.arange(part.shape[1])
                add_product(at.reshape(-1, 1), part.reshape(-1, M), V)
    return b, out, V
