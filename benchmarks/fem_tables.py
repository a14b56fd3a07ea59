"""Made tables of categories whose labels are nearly certain: by sums of planted tables, by rules, or by hidden numbers."""

from __future__ import annotations

import numpy as np


def species(l, sizes, kinds, blur, rng):
    """Rows of so many kinds, each with a state of its own in every column, and any other with probability `blur`."""
    typical, other = (np.column_stack([rng.integers(0, m, count) for m in sizes]) for count in (kinds, l))
    X = typical[rng.integers(0, kinds, l)]
    return np.where(rng.random(X.shape) < blur, other, X)


def ruled(X, lengths, rng, least, most):
    """Labels by a list of rules, each a combination of states of so many columns: the first that a row fulfils says its class."""
    y, undecided = np.zeros(len(X), dtype=int), np.ones(len(X), dtype=bool)
    for number, k in enumerate(lengths):
        for _ in range(1000):
            at = rng.choice(X.shape[1], k, replace=False)
            hit = undecided & (X[:, at] == X[rng.integers(len(X)), at]).all(axis=1)
            if least < hit.mean() < most:
                break
        y[hit] = (number + 1) % 2
        undecided &= ~hit
    return y


def planted(X, counts, l, rng):
    """Labels by the sign of a sum of tables of one, two and three columns, so many of each, and of all rows the l that it tells best."""
    h = np.zeros(len(X))
    for k, count in enumerate(counts, 1):
        for _ in range(count):
            at = rng.choice(X.shape[1], k, replace=False)
            h += rng.normal(size=X.max(axis=0)[at] + 1)[tuple(X[:, at].T)] / k
    h -= np.median(h)
    kept = np.sort(np.argsort(-np.abs(h))[:l])
    return X[kept], (h[kept] > 0).astype(int)


def binary(l, rng, rules=False):
    X = species(l if rules else 5 * l // 4, [2] * 36, 10, 0.3, rng)
    return (X, ruled(X, [1, 2, 2, 3, 2, 3, 3, 2, 3], rng, 0.02, 0.25)) if rules else planted(X, (8, 4, 2), l, rng)


def categories(l, rng, rules=False):
    X = species(l if rules else 3 * l, rng.integers(2, 13, 22), 25, 0.2, rng)
    return (X, ruled(X, [1, 1, 1, 2, 1, 2, 3], rng, 0.03, 0.3)) if rules else planted(X, (5, 1), l, rng)


def wide(l, rng):
    """96 columns of ten states: six hidden numbers seen through noise, a product of two of which counts as well."""
    Z = rng.normal(size=(l, 6))
    X = Z @ rng.normal(size=(6, 96)) / 2 + rng.normal(size=(l, 96))
    X = np.column_stack([np.searchsorted(np.quantile(x, np.arange(1, 10) / 10), x) for x in X.T])
    return X, (Z @ rng.normal(size=6) + 0.7 * Z[:, 0] * Z[:, 1] + 0.3 * rng.normal(size=l) > 0).astype(int)
