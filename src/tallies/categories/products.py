"""Rows of features times weights, and what follows of the scores: the few products that all of FEM is made of."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tallies.categories.kernels import fem as kernels
from tallies.maths import Array, pointer


@lru_cache(maxsize=8)
def starts_of(outputs: tuple[int, ...]) -> np.ndarray:
    """(n_out + 1,)  first column of each output."""
    return pointer(outputs)


def one_hot(ids: np.ndarray, width: int, dtype: Any = np.float64) -> np.ndarray:
    """(l, width)  1 at the places that each row has, else 0."""
    out = np.empty((len(ids), width), dtype)
    kernels.one_hot(ids, out)
    return out


def product(X: np.ndarray, W: Array) -> Array:
    """(l, M)  X W of rows of numbers (l, p), or of the features that each row has (l, T)."""
    if X.dtype.kind == "f":
        return X @ W
    H = np.empty((len(X), W.shape[1]))
    kernels.gather(X, W, H)
    return H


def add_product(X: np.ndarray, H: Array, out: Array) -> None:
    """out += X' H, of rows X as in `product`."""
    if X.dtype.kind == "f":
        out += X.T @ H
    else:
        kernels.scatter(X, H, out)


def softmax(H: Array, starts: np.ndarray) -> Array:
    """(l, M)  p of each output's states under scores H, which are overwritten."""
    kernels.softmax_rows(H, np.ones((len(H), 1)), starts, np.zeros(len(starts) - 1))
    return H


def log_chosen(H: Array, states: np.ndarray, starts: np.ndarray) -> Array:
    """(l, n_out)  log p of each output's state under scores H, which are overwritten; 0 where it is missing."""
    chosen = np.take_along_axis(softmax(H, starts), starts[:-1] + np.maximum(states, 0), axis=1)
    return np.where(states >= 0, np.log(chosen), 0.0)
