"""Scores of coupled pairs: Frobenius norm and direct information, each less what a row and a column have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pandas as pd

from tallies.categories.door import Categories
from tallies.categories.kernels import fem as kernels
from tallies.errors import at_least, need, one_of
from tallies.maths import Array

Columns = Callable[[int], Array]  # (M, m_k)  couplings with variable k


def coupling_scores(columns: Columns, starts: np.ndarray, frequencies: list[Array], kind: str, apc: bool, directed: bool) -> Array:
    """(n, n)  eq. 4 and 5 of `network.estimator`."""
    one_of("kind", kind, "frobenius", "direct_information")
    n = len(starts) - 1
    S = np.zeros((n, n))
    for k in range(n):
        J = columns(k)
        if kind == "frobenius":
            S[:, k] = np.sqrt(np.add.reduceat(np.square(J).sum(axis=1), starts[:-1]))
            continue
        for j in range(n if directed else k):
            block = np.ascontiguousarray(J[starts[j] : starts[j + 1]])
            S[j, k] = kernels.direct_information(block, frequencies[j], frequencies[k], 1e-10, 1000)
    if kind != "frobenius" and not directed:
        S = S + S.T
    if apc and n > 2:  # one pair alone is its own background
        parts = n if directed else n - 1  # the diagonal is no pair at lag 0
        from_, to = S.sum(axis=1, keepdims=True) / parts, S.sum(axis=0, keepdims=True) / parts
        mean = S.sum() / (n * parts)
        S = S - from_ * to / mean if mean > 0 else S
        if not directed:
            np.fill_diagonal(S, 0.0)
    return S


def strongest_pairs(S: Array, top: int, directed: bool = False) -> np.ndarray:
    """(top, 2)  the pairs of largest score, strongest first: those above the diagonal, or all where they have a direction."""
    pairs = np.argwhere(np.ones_like(S) if directed else np.triu(np.ones_like(S), 1))
    return pairs[np.argsort(-S[*pairs.T], kind="stable")[:top]]


def top_pairs(S: Array, columns: Columns, starts: np.ndarray, categories: Categories, top: int, directed: bool) -> pd.DataFrame:
    """Pairs of largest score, with the coupling of largest size in each."""
    at_least(0, top=top)
    rows = []
    for j, k in strongest_pairs(S, top, directed).tolist():
        block = columns(k)[starts[j] : starts[j + 1]]
        s, r = np.unravel_index(int(np.argmax(np.abs(block))), block.shape)
        names = (categories.names[j], categories.names[k])
        a, b = (f"{name}={categories.labels[v][int(q)]}" for name, v, q in zip(names, (j, k), (s, r), strict=True))
        rows.append((*names, float(S[j, k]), f"{a} {'->' if directed else '&'} {b}", float(block[s, r])))
    return pd.DataFrame(rows, columns=["a", "b", "score", "strongest", "coupling"])


def graph_of(pairs: pd.DataFrame, names: Collection[Any], directed: bool) -> Any:
    """A graph of these pairs, those of score above 0; with arrows at lag 1."""
    networkx = need("networkx", "graphs", "to_networkx")
    graph = networkx.DiGraph() if directed else networkx.Graph()
    graph.add_nodes_from(map(str, names))
    for pair in pairs.query("score > 0").itertuples():
        graph.add_edge(
            str(pair.a), str(pair.b), weight=pair.score, score=pair.score, strongest=pair.strongest, coupling=pair.coupling
        )
    return graph
