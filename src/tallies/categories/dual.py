"""FEM in its kernel form: predictions and named weights from dual weights, for any degree (eq. 4 and 5 of `fem`)."""

from __future__ import annotations

from math import comb

import numpy as np

from tallies.categories.kernels import fem as kernels
from tallies.categories.terms import Layout, Terms, alike, feature_total, features, symmetric, terms_of
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


def dual_weights(rows: np.ndarray, a: Array, layout: Layout) -> tuple[Terms, Array]:
    """The terms of the layout, and W of eq. 4."""
    total, K = feature_total(np.array(layout.sizes), layout.degrees), max(layout.degrees)
    if total * a.shape[1] * 8 > LARGEST:
        raise DataError(
            f"degree {K} of {len(layout.sizes)} variables has {total:,.0f} weights for each class: too many to list; "
            "ask for one with effect(...)"
        )
    terms = terms_of(layout)
    W = np.zeros((terms.p, a.shape[1]))
    kernels.scatter(features(terms, rows), a, W)
    return terms, W


def dual_zero_sum(rows: np.ndarray, a: Array, sizes: np.ndarray, degrees: tuple[int, ...]) -> tuple[Array, Terms, Array]:
    """b, terms and V of eq. 5, all groups of variables up to the highest degree."""
    K, M = max(degrees), a.shape[1]
    a = a - a.mean(axis=1, keepdims=True)
    terms, V = dual_weights(rows, a, Layout.of(sizes, range(1, K + 1)))
    degree, ends = terms.degree(), terms.offset
    scale = common_factors(terms.variables, degree, sizes, degrees)
    for shape, members in alike(terms):
        at = ends[members][:, None] + np.arange(int(np.prod(shape)))
        part = V[at].reshape(len(members), *shape, M)
        for axis in range(1, len(shape) + 1):
            part = part - part.mean(axis=axis, keepdims=True)
        V[at] = part.reshape(len(members), -1, M) * scale[members][:, None, None]
    b = a.sum(axis=0) * sum(symmetric(1.0 / sizes, K)[k] for k in degrees)
    return b, terms, V


def dual_effect(
    rows: np.ndarray, a: Array, sizes: np.ndarray, degrees: tuple[int, ...], group: tuple[int, ...], states: tuple[int, ...]
) -> Array:
    """(M,)  V_A at one combination of states, eq. 5, from the rows alone."""
    if len(group) > max(degrees):
        return np.zeros(a.shape[1])
    agree = np.ones(len(rows))
    for j, state in zip(group, states, strict=True):
        agree *= np.where(rows[:, j] < 0, 0.0, (rows[:, j] == state) - 1.0 / sizes[j])
    scale = common_factors(np.array([group]), np.array([len(group)]), sizes, degrees)[0]
    return scale * (agree @ (a - a.mean(axis=1, keepdims=True)))


def common_factors(variables: np.ndarray, degree: np.ndarray, sizes: np.ndarray, degrees: tuple[int, ...]) -> Array:
    """c_A of eq. 5: variables are taken out of the symmetric polynomials one at a time."""
    K = max(degrees)
    e = np.tile(symmetric(1.0 / sizes, K), (len(variables), 1))
    for q in range(variables.shape[1]):
        inside = variables[:, q] >= 0
        value = 1.0 / sizes[variables[inside, q]]
        less = e[inside].copy()
        for k in range(1, K + 1):
            less[:, k] = e[inside][:, k] - value * less[:, k - 1]
        e[inside] = less
    return np.array([sum(e[t, k - degree[t]] for k in degrees if k >= degree[t]) for t in range(len(degree))])
