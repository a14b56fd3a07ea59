"""What a fitted FEM or FEMNetwork says of rows: functions of typed records, on the chosen backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import comb
from typing import Any, NamedTuple

import numpy as np

from tallies.backends import each, on_cluster
from tallies.categories.kernels import fem as kernels
from tallies.categories.products import add_product, log_chosen, product
from tallies.categories.terms import Layout, Terms, feature_total, features, symmetric, terms_of
from tallies.errors import DataError, at_least
from tallies.estimator import seed_of
from tallies.maths import Array
from tallies.sources import held

READABLE = 200_000  # features of a kernel of high degree, which are not made but to be read
LARGEST = 1 << 30  # bytes of named weights that are made at once


class Scorer(NamedTuple):
    """What the scores of new rows are made of."""

    bias: Array  # (M,)
    terms: Terms
    W: Array  # (p, M)


def scores(codes: np.ndarray, scorer: Scorer) -> Array:
    """(l, M)  h of each row."""
    return product(features(scorer.terms, codes), scorer.W) + scorer.bias


def log_conditional(rows: np.ndarray, scorer: Scorer, starts: np.ndarray) -> Array:
    """(l, n)  log p of every cell given the rest of its row, or, where a row is two steps beside each other, the step before."""
    past, now = two_steps(rows, len(starts) - 1)
    return log_chosen(scores(past, scorer), now, starts)


def energies(rows: np.ndarray, scorer: Scorer, starts: np.ndarray) -> Array:
    """(l, 1)  less the scores of all cells, given likewise."""
    past, now = two_steps(rows, len(starts) - 1)
    chosen = np.take_along_axis(scores(past, scorer), starts[:-1] + np.maximum(now, 0), axis=1)
    return -np.where(now >= 0, chosen, 0.0).sum(axis=1, keepdims=True)


def two_steps(rows: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """What cells are told from, and the cells: the rows and themselves, or the two steps that stand side by side."""
    if rows.shape[1] == n:
        return rows, rows
    return np.ascontiguousarray(rows[:, :n]), rows[:, n:]


def by_rows(task: Callable[..., Array], table: np.ndarray, width: int, block: int, *what: Any) -> Array:
    """(l, width)  task(rows of the table, *what), some rows at a time, on the chosen backend; the cuts change no bit."""
    sources = held(lambda cut: table[cut], len(table), 8 * width * len(table), None if on_cluster() else block)
    return np.concatenate([np.empty((0, width)), *each(task, sources, *what)])


def redrawn(l: int, n_boot: int, random_state: Any) -> Iterator[np.ndarray]:
    """How often each of l rows comes in each of n_boot draws with replacement."""
    at_least(2, n_boot=n_boot)  # for a spread
    rng = np.random.default_rng(seed_of(random_state))
    return (rng.multinomial(l, np.full(l, 1 / l)) for _ in range(n_boot))


# the kernel form: predictions and named weights from dual weights, for any degree (eq. 4 and 5 of `fem`)


def dual_scores(codes: np.ndarray, rows: np.ndarray, a: Array, degrees: tuple[int, ...], share: Array) -> Array:
    """(l, M)  h = sum_i K(x, x_i) a_i. A cell without a known state agrees with every row by `share`, the mean over states."""
    n, K, out = codes.shape[1], max(degrees), np.empty((len(codes), a.shape[1]))
    choose = np.array([[float(comb(agree, k)) for agree in range(n + 1)] for k in range(K + 1)])
    table = np.tile(sum(choose[k] for k in degrees), (len(codes), 1))
    for i in np.flatnonzero((codes < 0).any(axis=1)):
        e = symmetric(share[codes[i] < 0], K)
        table[i] = sum(e[r] * choose[k - r] for k in degrees for r in range(k + 1))
    kernels.kernel_rows(np.where(codes < 0, np.int32(-2), codes), rows, table, a, out)  # no row has the state -2
    return out


def readable(layout: Layout, rows: np.ndarray | None) -> bool:
    """Whether the weights are few enough to be written down; a kernel of high degree may stand for any number of them."""
    return rows is None or len(layout.degrees) < 3 or feature_total(np.array(layout.sizes), layout.degrees) <= READABLE


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
    add_product(features(terms, rows), W, out)
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
