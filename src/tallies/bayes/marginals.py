"""Single columns of a classifier: their law in each class, and what each alone tells about the class."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import entr, rel_entr
from scipy.stats import norm, poisson

from tallies.bayes.answers import Fitted
from tallies.maths import Array

GRID = 401  # points of the grid on which the information of a gaussian column is integrated: good to 1e-4 bits
LOG_2 = math.log(2)
VALUES = 400  # counts up to the largest rate + 10 sd, at most so many points


class Column(NamedTuple):
    """One column, and its law given each of K classes."""

    name: str
    family: str  # gaussian | categorical | bernoulli | poisson | multinomial
    centre: Array  # (K,)  mean, rate, or probability of a word
    spread: Array  # (K,)  standard deviation; 0 where the law has none
    states: list[str]  # of a coded column
    p: Array | None  # (K, states)
    place: int  # position in the block of its family


def columns_of(fitted: Fitted) -> list[Column]:
    """The columns of a GDA or naive Bayes, in the order of the table."""
    none, out = np.zeros(len(fitted.classes)), []
    for name, (_, family, states, at, law) in zip(fitted.inputs.named("column "), fitted.columns(), strict=True):
        if states is not None:
            out.append(Column(name, family, none, none, [str(state) for state in states], law, at))
            continue
        centre, *rest = law.values()
        spread = np.sqrt(rest[0] if rest else centre) if family != "multinomial" else none
        out.append(Column(name, family, centre, spread, [], None, at))
    return out


def telling(fitted: Fitted) -> tuple[list[Column], Array]:
    """The columns, and the bits that each alone tells about the class."""
    columns, prior = columns_of(fitted), np.exp(fitted.params.log_prior)
    return columns, np.array([information(column, prior) for column in columns])


def bits_needed(prior: Array) -> float:
    """Bits that it takes to know the class for certain.

    >>> bits_needed(np.array([0.25, 0.25, 0.5, 0.0]))
    1.5
    """
    return float(entr(prior).sum()) / LOG_2


def information(column: Column, prior: Array) -> float:
    """Bits that the column alone tells about the class: the mutual information of the two under the model.

    Of a word in a block of counts: its share of what one more word tells.

    >>> even = np.array([0.5, 0.5])
    >>> sure = Column("x", "bernoulli", np.zeros(2), np.zeros(2), ["no", "yes"], np.eye(2), 0)
    >>> information(sure, even), round(information(Column("x", "gaussian", np.array([0.0, 0.0]), np.ones(2), [], None, 0), even), 6)
    (1.0, 0.0)
    """
    p = mass(column) if column.family != "multinomial" else column.centre[:, None]
    return max(0.0, float(prior @ rel_entr(p, np.broadcast_to(prior @ p, p.shape)).sum(axis=1)) / LOG_2)


def mass(column: Column) -> Array:
    """(K, points) probabilities of the column's values, or of the cells of a grid."""
    if column.p is not None:
        return column.p
    if column.family == "poisson":
        top = column.centre.max() + 10 * np.sqrt(column.centre.max()) + 10
        edges = np.unique(np.linspace(-1, top, min(int(top) + 2, VALUES)).astype(int))
        return np.diff(poisson.cdf(edges[None], column.centre[:, None]), axis=1)
    low, high = domain(column)
    sd = np.maximum(column.spread, (high - low) * 1e-6)[:, None]
    if len(sd) > 20:  # so many classes leave no room for a grid around each: one grid, an eighth of the narrowest wide
        edges = np.linspace(low, high, int(np.clip(8 * (high - low) / sd.min(), GRID, 10 * GRID)))
    else:  # cells of unequal width: fine where any class is narrow, so that a spike beside a broad class is not stepped over
        near = column.centre[:, None] + sd * np.linspace(-5, 5, 81)
        edges = np.union1d(np.linspace(low, high, GRID), near)
    return np.diff(norm.cdf((edges[None] - column.centre[:, None]) / sd), axis=1)


def domain(column: Column) -> tuple[float, float]:
    """Where the densities are: four standard deviations around each mean; some width even for a constant."""
    low, high = float((column.centre - 4 * column.spread).min()), float((column.centre + 4 * column.spread).max())
    if column.family == "poisson":
        return 0.0, max(float(np.ceil(high)), 5.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)
