"""Rows of features times weights, and what follows of the scores: the few products that all of FEM is made of."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tallies.categories.kernels import fem as kernels
from tallies.maths import Array, pointer

SMALL = 1 << 20  # numbers up to which NumPy does, and the first fit waits for no compiler; both ways give the same bits
FEW = 1 << 17  # scores up to which NumPy makes probabilities of them; beyond, loops of ten times its speed pay for the wait


@lru_cache(maxsize=8)
def starts_of(outputs: tuple[int, ...]) -> np.ndarray:
    """(n_out + 1,)  first column of each output."""
    return pointer(outputs)


def one_hot(ids: np.ndarray, width: int, dtype: Any = np.float64) -> np.ndarray:
    """(l, width)  1 at the places that each row has, else 0."""
    if len(ids) * width > SMALL:
        out = np.empty((len(ids), width), dtype)
        kernels.one_hot(ids, out)
        return out
    out = np.zeros((len(ids), width + 1), dtype)  # the last column is that of none: -1 of the next row
    out.ravel()[(ids + np.arange(len(ids))[:, None] * (width + 1)).ravel()] = 1.0
    return np.ascontiguousarray(out[:, :-1])


def product(X: np.ndarray, W: Array, once: bool = True) -> Array:
    """(l, M)  X W of rows of numbers (l, p), or of the features that each row has (l, T); `once`: it may not pay to compile."""
    if X.dtype.kind == "f":
        return X @ W
    if once and X.size * W.shape[1] <= SMALL:
        return np.where((X >= 0)[:, :, None], W[X], 0.0).sum(axis=1)
    H = np.empty((len(X), W.shape[1]))
    kernels.gather(X, W, H)
    return H


def add_product(X: np.ndarray, H: Array, out: Array, once: bool = True) -> None:
    """out += X' H, of rows X as in `product`."""
    if X.dtype.kind == "f":
        out += X.T @ H
    elif once and X.size * out.shape[1] <= SMALL:
        i, c = np.nonzero(X >= 0)
        np.add.at(out, X[i, c], H[i])
    else:
        kernels.scatter(X, H, out)


def softmax_counts(H: Array, weight: Array, starts: np.ndarray, lse: Array, last: float, room: kernels.Room | None = None) -> None:
    """What `kernels.softmax_rows` does; without `room` for it, without a compiler."""
    if room is not None:
        return kernels.softmax_rows(H, weight, starts, lse, last, room)
    width = np.diff(starts)
    top = np.maximum.reduceat(H, starts[:-1], axis=1)
    if last:
        top = np.maximum(top, 0.0)
    E = np.exp(H - np.repeat(top, width, axis=1))
    total = np.add.reduceat(E, starts[:-1], axis=1) + (np.exp(-top) if last else 0.0)
    lse += (weight * (top + np.log(total))).sum(axis=0)
    np.multiply(E, np.repeat(weight / total, width, axis=1), out=H)


def softmax(H: Array, starts: np.ndarray) -> Array:
    """(l, M)  p of each output's states under scores H, which are overwritten."""
    softmax_counts(H, np.ones((len(H), 1)), starts, np.zeros(len(starts) - 1), 0.0)
    return H


def log_chosen(H: Array, states: np.ndarray, starts: np.ndarray) -> Array:
    """(l, n_out)  log p of each output's state under scores H, which are overwritten; 0 where it is missing."""
    chosen = np.take_along_axis(softmax(H, starts), starts[:-1] + np.maximum(states, 0), axis=1)
    return np.where(states >= 0, np.log(chosen), 0.0)
