"""Single columns of a classifier: their law in each class, and what each alone tells about the class."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import entr, ndtr, pdtr, rel_entr

from tallies.bayes.answers import Fitted
from tallies.maths import Array

GRID = 401  # points of the grid on which the information of a gaussian column is integrated: good to 1e-4 bits
LOG_2 = math.log(2)
TINY = 1e-100
ROOM = 1 << 20  # numbers in a block of such grids
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
        spread = np.sqrt(np.maximum(rest[0] if rest else centre, 0.0)) if family != "multinomial" else none
        out.append(Column(name, family, centre, spread, [], None, at))
    return out


def telling(fitted: Fitted) -> tuple[list[Column], Array]:
    """The columns, and the bits that each alone tells about the class; those of numbers many at a time."""
    columns, prior = columns_of(fitted), np.exp(fitted.params.log_prior)
    bits, numbers = np.zeros(len(columns)), fitted.layout.of("gaussian")
    most = max(1, ROOM // (len(prior) * GRID))
    for some in (numbers[first : first + most] for first in range(0, len(numbers), most)):
        bits[some] = _bits(_normal_mass(*(np.array([columns[j][place] for j in some]) for place in (2, 3))), prior)
    for j in set(range(len(columns))).difference(numbers):
        bits[j] = information(columns[j], prior)
    return columns, bits


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
    return float(_bits(mass(column)[None], prior)[0])


def _bits(p: Array, prior: Array) -> Array:
    """(m,) the mutual information of the class and of m columns with masses p (m, K, points)."""
    # what is next to impossible tells nothing, and in products with it 0 would stand beside what is not quite 0
    possible = prior > TINY
    p, prior = np.where(p > TINY, p, 0.0)[:, possible], prior[possible]
    told = rel_entr(p, np.tensordot(p, prior, axes=(1, 0))[:, None]).sum(axis=2) @ prior
    return np.maximum(told, 0.0) / LOG_2


def mass(column: Column) -> Array:
    """(K, points) probabilities of the column's values, or of the cells of a grid; of a word its own alone."""
    if column.p is not None:
        return column.p
    if column.family == "multinomial":
        return column.centre[:, None]
    if column.family == "poisson":
        top = column.centre.max() + 10 * np.sqrt(column.centre.max()) + 10
        edges = np.unique(np.linspace(0, top, min(int(top) + 1, VALUES)).astype(int))
        return np.diff(pdtr(edges[None], column.centre[:, None]), axis=1, prepend=0.0)
    return _normal_mass(column.centre[None], column.spread[None])[0]


def _normal_mass(centre: Array, spread: Array) -> Array:
    """(m, K, points) masses of the cells of a grid, of m columns with means and standard deviations (m, K)."""
    low, high = (centre - 4 * spread).min(axis=1), (centre + 4 * spread).max(axis=1)
    width = np.where(high - low > 1e-300, high - low, 1.0)
    sd = np.maximum(spread, width[:, None] * 1e-6)
    if centre.shape[1] > 20:  # so many classes leave no room for a grid around each: one grid, an eighth of the narrowest wide
        edges = np.linspace(low, low + width, int(np.clip(8 * (width / sd.min(axis=1)).max(), GRID, 10 * GRID)), axis=1)
    else:  # cells of unequal width: fine where any class is narrow, so that a spike beside a broad class is not stepped over
        near = centre[:, :, None] + sd[:, :, None] * np.linspace(-5, 5, 81)
        edges = np.sort(np.hstack([np.linspace(low, low + width, GRID, axis=1), near.reshape(len(near), -1)]), axis=1)
    return np.diff(ndtr((edges[:, None] - centre[:, :, None]) / sd[:, :, None]), axis=2)


def domain(column: Column) -> tuple[float, float]:
    """Where the densities are: four standard deviations around each mean; some width even for a constant."""
    low, high = float((column.centre - 4 * column.spread).min()), float((column.centre + 4 * column.spread).max())
    if column.family == "poisson":
        return 0.0, max(float(np.ceil(high)), 5.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def rounded(value: float, step: float) -> float:
    """A number with the digits that two digits of a difference `step` leave it.

    >>> rounded(1998.3456, 0.41), rounded(562.7, 837.0), rounded(3.0, 0.0)
    (1998.35, 560.0, 3.0)
    """
    return round(float(value), 1 - math.floor(math.log10(max(float(step), 1e-300))))
