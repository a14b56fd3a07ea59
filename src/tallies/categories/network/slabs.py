"""What a network of single-precision weights says, some outputs at a time: nothing of the size of all weights is made.

With terms of one variable the zero-sum gauge of W needs two means: over the states of the output, and of the input.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tallies.backends import over_rows
from tallies.categories.kernels import panels as kernels
from tallies.categories.network.climb import PAD
from tallies.categories.network.panels import WIDTH, states_of
from tallies.categories.products import starts_of
from tallies.maths import Array

Parts = Callable[[Array, Array], tuple[Array, Array]]  # of W and its means over states: the weights, and those of a missing cell


def coupling_columns(W: Array, starts: np.ndarray, mutual: bool, j: int) -> Array:
    """(M, m_j)  the columns of variable j in `couplings_`: eq. 3 of `network.estimator`."""
    own = slice(starts[j], starts[j + 1])
    V = _centred(W[:, own].astype(np.float64), starts)
    return (V + _centred(W[own].T.astype(np.float64), starts)) / 2 if mutual else V


def _centred(V: Array, starts: np.ndarray) -> Array:
    m = np.diff(starts)
    V -= V.mean(axis=1, keepdims=True)
    V -= np.repeat(np.add.reduceat(V, starts[:-1], axis=0) / m[:, None], m, axis=0)
    return V


def log_conditional(W: Array, sizes: tuple[int, ...], past: np.ndarray, now: np.ndarray, gauge: bool) -> Array:
    """(l, n)  log p of every cell. `gauge`: a missing or unseen input has the mean of its states, else nothing."""
    return _cells(W, sizes, past, now, lambda V, mean: (V, mean if gauge else np.zeros_like(mean)), True)


def energies(W: Array, sizes: tuple[int, ...], past: np.ndarray, now: np.ndarray, halved: bool) -> Array:
    """(l,)  less the scores of all cells in zero-sum gauge, the couplings halved where each is met twice."""
    share = 0.5 if halved else 1.0
    m = np.array(sizes)

    def parts(V: Array, mean: Array) -> tuple[Array, Array]:
        bias = mean.sum(axis=0) / len(m)  # every row has one state, or none, of every variable: each brings its part
        return share * (V - np.repeat(mean, m, axis=0)) + bias, np.broadcast_to(bias, mean.shape)

    return -_cells(W, sizes, past, now, parts, False).sum(axis=1)


def _cells(W: Array, sizes: tuple[int, ...], past: np.ndarray, now: np.ndarray, parts: Parts, normal: bool) -> Array:
    """(l, n)  of each cell the score of its state, or its log p (`normal`), under weights that `parts` makes of W and its means."""
    m, starts, first = np.array(sizes), starts_of(sizes), starts_of(tuple(k + 1 for k in sizes))
    codes, states, out = *states_of(past, now, sizes), np.empty(now.shape)
    present = np.delete(np.arange(int(first[-1])), first[1:] - 1)

    def task(outputs: slice) -> None:
        own = slice(starts[outputs.start], starts[outputs.stop])
        columns = own.stop - own.start
        V, local = W[:, own].astype(np.float64), starts[outputs.start : outputs.stop + 1] - own.start
        V -= np.repeat(np.add.reduceat(V, local[:-1], axis=1) / np.diff(local), np.diff(local), axis=1)
        mean = np.add.reduceat(V, starts[:-1], axis=0) / m[:, None]
        padded = np.zeros((int(first[-1]), -(-columns // PAD) * PAD), W.dtype)
        padded[present, :columns], padded[first[1:] - 1, :columns] = parts(V, mean)
        found = np.empty((len(now), len(local) - 1))
        kernels.chosen(codes, np.ascontiguousarray(states[outputs]), first, local, padded, normal, found)
        out[:, outputs] = found

    over_rows(task, len(sizes), max(1, WIDTH // max(sizes)))
    return out
