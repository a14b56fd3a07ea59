"""Scores of coupled pairs: Frobenius norm and direct information, each less what a row and a column have in common.

And how much each of many alike rows counts.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tallies.categories.answers import by_rows, neighbours
from tallies.categories.door import Categories
from tallies.categories.kernels import fem as kernels
from tallies.errors import one_of
from tallies.maths import Array


def coupling_scores(J: Array, starts: np.ndarray, frequencies: list[Array], kind: str, apc: bool, directed: bool) -> Array:
    """(n, n)  eq. 4 and 5 of `network`."""
    one_of("kind", kind, "frobenius", "direct_information")
    n = len(starts) - 1
    if kind == "frobenius":
        S = np.sqrt(np.add.reduceat(np.add.reduceat(np.square(J), starts[:-1], axis=0), starts[:-1], axis=1))
    else:
        S = np.zeros((n, n))
        for j in range(n):
            for k in range(n) if directed else range(j + 1, n):
                block = np.ascontiguousarray(J[starts[j] : starts[j + 1], starts[k] : starts[k + 1]])
                S[j, k] = kernels.direct_information(block, frequencies[j], frequencies[k], 1e-10, 1000)
        S = S if directed else S + S.T
    if apc and n > 2:  # one pair alone is its own background
        parts = n if directed else n - 1  # the diagonal is no pair at lag 0
        rows, columns = S.sum(axis=1, keepdims=True) / parts, S.sum(axis=0, keepdims=True) / parts
        mean = S.sum() / (n * parts)
        S = S - rows * columns / mean if mean > 0 else S
        if not directed:
            np.fill_diagonal(S, 0.0)
    return S


def strongest_pairs(S: Array, top: int, directed: bool = False) -> np.ndarray:
    """(top, 2)  the pairs of largest score, strongest first: those above the diagonal, or all where they have a direction."""
    pairs = np.argwhere(np.ones_like(S) if directed else np.triu(np.ones_like(S), 1))
    return pairs[np.argsort(-S[*pairs.T], kind="stable")[:top]]


def top_pairs(S: Array, J: Array, starts: np.ndarray, categories: Categories, top: int, directed: bool) -> pd.DataFrame:
    """Pairs of largest score, with the coupling of largest size in each."""
    rows = []
    for j, k in strongest_pairs(S, top, directed).tolist():
        block = J[starts[j] : starts[j + 1], starts[k] : starts[k + 1]]
        s, r = np.unravel_index(int(np.argmax(np.abs(block))), block.shape)
        names = (categories.names[j], categories.names[k])
        a, b = (f"{name}={categories.labels[v][int(q)]}" for name, v, q in zip(names, (j, k), (s, r), strict=True))
        rows.append((*names, float(S[j, k]), f"{a} {'->' if directed else '&'} {b}", float(block[s, r])))
    return pd.DataFrame(rows, columns=["a", "b", "score", "strongest", "coupling"])


def sequence_weights(codes: np.ndarray, identity: float) -> Array:
    """(l,)  one over the number of rows that agree with a row in at least this share of the variables, itself included.

    >>> sequence_weights(np.array([[0, 1], [0, 1], [1, 0]], dtype=np.int32), 0.8).tolist()
    [0.5, 0.5, 1.0]
    """
    least = int(np.ceil(identity * codes.shape[1] - 1e-9))
    return 1.0 / by_rows(neighbours, codes, 1, 64, codes, least)[:, 0]
