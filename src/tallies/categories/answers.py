"""What a fitted FEM or FEMNetwork says of rows: functions of typed records, on the chosen backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tallies.backends import each, on_cluster
from tallies.categories.kernels import fem as kernels
from tallies.categories.model import log_chosen, product
from tallies.categories.terms import Terms, features
from tallies.errors import at_least
from tallies.estimator import seed_of
from tallies.maths import Array
from tallies.sources import held


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
    past, now = _steps(rows, len(starts) - 1)
    return log_chosen(scores(past, scorer), now, starts)


def energies(rows: np.ndarray, scorer: Scorer, starts: np.ndarray) -> Array:
    """(l, 1)  less the scores of all cells, given likewise."""
    past, now = _steps(rows, len(starts) - 1)
    chosen = np.take_along_axis(scores(past, scorer), starts[:-1] + np.maximum(now, 0), axis=1)
    return -np.where(now >= 0, chosen, 0.0).sum(axis=1, keepdims=True)


def _steps(rows: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    if rows.shape[1] == n:
        return rows, rows
    return np.ascontiguousarray(rows[:, :n]), rows[:, n:]


def neighbours(rows: np.ndarray, codes: np.ndarray, least: int) -> Array:
    """(l, 1)  for each of the rows of these numbers, how many of all agree with it in at least `least` variables."""
    out = np.empty(len(rows))
    kernels.neighbours(codes, rows, least, out)
    return out[:, None]


def by_rows(task: Callable[..., Array], table: np.ndarray, width: int, block: int, *what: Any) -> Array:
    """(l, width)  task(rows of the table, *what), some rows at a time, on the chosen backend; the cuts change no bit."""
    sources = held(lambda cut: table[cut], len(table), 8 * width * len(table), None if on_cluster() else block)
    return np.concatenate([np.empty((0, width)), *each(task, sources, *what)])


def redrawn(l: int, n_boot: int, random_state: Any) -> Iterator[np.ndarray]:
    """How often each of l rows comes in each of n_boot draws with replacement."""
    at_least(2, n_boot=n_boot)  # for a spread
    rng = np.random.default_rng(seed_of(random_state))
    return (rng.multinomial(l, np.full(l, 1 / l)) for _ in range(n_boot))
