"""FEM in its kernel form: predictions and named weights from dual weights, for any degree (eq. 4 and 5 of `fem`)."""

from __future__ import annotations

from math import comb

import numpy as np

from tallies.categories.kernels import fem as kernels
from tallies.categories.terms import Layout, feature_total, features, symmetric, terms_of
from tallies.errors import DataError
from tallies.maths import Array

LARGEST = 1 << 30  # bytes of named weights that are made at once


def dual_scores(codes: np.ndarray, rows: np.ndarray, a: Array, degrees: tuple[int, ...], share: Array) -> Array:
    """(l, M)  h = sum_i K(x, x_i) a_i. A cell without a known state agrees with every row by `share`, the mean over states."""
    n, K, out = codes.shape[1], max(degrees), np.empty((len(codes), a.shape[1]))
    choose = np.array([[float(comb(agree, k)) for agree in range(n + 1)] for k in range(K + 1)])
    table = np.tile(sum(choose[k] for k in degrees), (len(codes), 1))
    for i in np.flatnonzero((codes < 0).any(axis=1)):
        e = symmetric(share[codes[i] < 0], K)
        table[i] = sum(e[r] * choose[k - r] for k in degrees for r in range(k + 1))
    kernels.kernel_rows(codes, rows, table, a, out)
    return out


def listed(W: Array, layout: Layout, rows: np.ndarray | None) -> Array:
    """(p, M)  W; from dual weights of these rows by eq. 4, where there are rows."""
    if rows is None:
        return W
    total, K = feature_total(np.array(layout.sizes), layout.degrees), max(layout.degrees)
    if total * W.shape[1] * 8 > LARGEST:
        raise DataError(
            f"degree {K} of {len(layout.sizes)} variables has {total:,.0f} weights for each class: too many to list; "
            "ask for one with effect(...)"
        )
    terms = terms_of(layout)
    out = np.zeros((terms.p, W.shape[1]))
    kernels.scatter(features(terms, rows), W, out)
    return out


def dual_effect(
    rows: np.ndarray, a: Array, sizes: np.ndarray, degrees: tuple[int, ...], group: tuple[int, ...], states: tuple[int, ...]
) -> Array:
    """(M,)  V_A at one combination of states, eq. 5, from the rows alone. Of a row, cells without a state take no part."""
    known, k = rows >= 0, len(group)
    agree = np.prod(known[:, group] * ((rows[:, group] == states) - 1.0 / sizes[list(group)]), axis=1)
    e = symmetric(np.delete(known / sizes, group, axis=1).T, max(degrees))
    scale = sum((e[K - k] for K in degrees if k <= K), np.zeros(len(rows)))
    return (scale * agree) @ (a - a.mean(axis=1, keepdims=True))
