"""Places for things that have only distances: a plane that keeps them, an order that puts like beside like."""

from __future__ import annotations

import numpy as np

from tallies.maths import Array


def plane_of(distance: Array) -> Array:
    """Points (n, 2) whose distances come near the given ones: classical scaling (Torgerson 1952).

    The first axis shows most; signs are fixed, so that the same distances give the same picture.

    >>> plane_of(np.array([[0.0, 3.0], [3.0, 0.0]])).round(6).tolist()
    [[1.5, 0.0], [-1.5, 0.0]]
    """
    n = len(distance)
    B = -0.5 * distance**2
    B = B - B.mean(axis=0) - B.mean(axis=1)[:, None] + B.mean()
    values, vectors = np.linalg.eigh((B + B.T) / 2)
    best = np.argsort(-values)[:2]
    Z = np.zeros((n, 2))
    Z[:, : len(best)] = vectors[:, best] * np.sqrt(np.maximum(values[best], 0.0))
    largest = np.abs(Z).argmax(axis=0)
    return Z * np.where(Z[largest, [0, 1]] < 0, -1.0, 1.0) + 0.0


def alike(R: Array) -> tuple[np.ndarray, Array]:
    """An order in which neighbours correlate, from correlations (n, n), and the tree behind it (average linkage; n > 1).

    >>> R = np.array([[1, 0, 0.9], [0, 1, 0.1], [0.9, 0.1, 1]])
    >>> alike(R)[0].tolist()
    [1, 2, 0]
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    D = 1 - np.nan_to_num(R)
    D = np.maximum((D + D.T) / 2, 0)
    np.fill_diagonal(D, 0)
    tree = linkage(squareform(D, checks=False), "average", optimal_ordering=len(R) <= 300)  # its time grows with the cube
    return leaves_list(tree), tree
