"""FEM's weights by name: tables of effects, and the strongest of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2

from tallies.categories.door import Categories, label
from tallies.categories.terms import Terms, features
from tallies.errors import DataError, at_least
from tallies.maths import Array

AND = " & "
BIAS = "(bias)"


def feature_names(terms: Terms, categories: Categories) -> list[str]:
    """ "odor=n & ring=p" for every feature, in order."""
    names = [[f"{name}={state}" for state in labels] for name, labels in zip(categories.names, categories.labels, strict=True)]
    return [AND.join(states) for group in terms.all() for states in product(*(names[v] for v in group))]


def effects_table(b: Array, terms: Terms, V: Array, categories: Categories, outputs: list[str]) -> pd.DataFrame:
    """One row a feature, one column an output state; the first row is the bias."""
    return pd.DataFrame(np.vstack([b, V]), index=[BIAS, *feature_names(terms, categories)], columns=outputs)


def strengths(terms: Terms, V: Array) -> Array:
    """(T,)  Frobenius norm of the weights of each term."""
    return np.sqrt(np.add.reduceat(np.square(V).sum(axis=1), terms.offset[:-1]))


def strongest(b: Array, terms: Terms, V: Array, categories: Categories, outputs: list[str], top: int, degrees: Any) -> pd.DataFrame:
    """The terms of largest norm among these degrees, with the largest weight of each spelled out."""
    at_least(0, top=top)
    size, rows, names = strengths(terms, V), [], categories.names
    for t in strongest_terms(terms, size, degrees)[:top]:
        f, k = loudest(V, terms, t)
        where, name = combination(terms, t, f, categories), AND.join(names[v] for v in terms.of(t))
        rows.append((name, len(terms.of(t)), float(size[t]), f"{where} -> {outputs[k]}", float(V[f, k])))
    return pd.DataFrame(rows, columns=["term", "degree", "strength", "strongest", "weight"])


def strongest_terms(terms: Terms, size: Array, degrees: Any) -> list[int]:
    """The terms of these degrees, strongest first."""
    order = np.argsort(-size, kind="stable")
    return order[np.isin(terms.degree()[order], list(degrees))].tolist()


def loudest(V: Array, terms: Terms, t: int, k: int | None = None) -> tuple[int, int]:
    """The feature of a term, and the output, of largest weight; given k, of this output."""
    first, block = int(terms.offset[t]), V[terms.offset[t] : terms.offset[t + 1]]
    if k is not None:
        return first + int(np.abs(block[:, k]).argmax()), k
    size = np.abs(block) * (1 + 1e-9 * (block > 0))  # of two alike, the one that speaks for something
    f, k = map(int, np.unravel_index(int(size.argmax()), block.shape))
    if block.shape[1] == 2:  # both classes have this weight, with opposite signs: told for the one that it speaks for
        k = int(block[f].argmax())
    return first + f, k


def combination(terms: Terms, t: int, f: int, categories: Categories) -> str:
    """Feature f, of term t, in words."""
    states = np.unravel_index(f - int(terms.offset[t]), terms.shape(t))
    return AND.join(f"{categories.names[v]}={categories.labels[v][int(s)]}" for v, s in zip(terms.of(t), states, strict=True))


def no_chance(size: Array, free: Array, g: Array, ridge: Any, used: float) -> np.ndarray:
    """Whether terms, or pairs, of these sizes (norms of weights) are more than noise: none of them is by chance in 99 of 100 fits.

    Where a term is nothing, each of its `free` weights has the variance g / (g + ridge)^2 at W = 0, with -Hessian g + ridge
    (eq. 3 of `solvers`; all states alike), times what the other weights add that the same rows had to tell: seen on noise,
    1 / (1 - used)^3, with `used` effective weights a row up to 0.3 (Sur and Candes 2019 tell why); beyond, what most terms show.
    """
    chi = np.square(size * (g + ridge)) / g
    usual = np.median(chi / chi2.median(np.maximum(free, 1)))
    return chi2.sf(chi / (1 / (1 - used) ** 3 if used < 0.3 else max(usual, 1.0)), np.maximum(free, 1)) * len(size) < 0.01


def explained(codes: np.ndarray, H: Array, b: Array, terms: Terms, V: Array, categories: Categories) -> pd.DataFrame:
    """Parts of the log odds of the class called against the next, row by row, the largest first; H are the scores of the rows."""
    called, against = np.argsort(-H, axis=1, kind="stable")[:, :2].T
    ids, at = features(terms, codes), np.arange(len(codes))
    part = np.where(ids >= 0, V[ids, called[:, None]] - V[ids, against[:, None]], 0.0)
    bias, total = b[called] - b[against], H[at, called] - H[at, against]
    gaps = total - bias - part.sum(axis=1)
    gaps[np.abs(gaps) < 1e-9 * (1 + np.abs(total))] = 0.0  # rounding
    values = np.column_stack([bias, gaps, part])
    told = np.column_stack([np.ones_like(at, bool), gaps != 0, ids >= 0])
    names = np.array([BIAS, "(gaps)", *feature_names(terms, categories), ""], dtype=object)
    what = np.column_stack([np.zeros_like(at), np.ones_like(at), np.where(ids >= 0, ids + 2, -1)])
    order = np.argsort(-np.abs(values), axis=1, kind="stable")
    values, told, what = (np.take_along_axis(table, order, axis=1) for table in (values, told, what))
    row = np.nonzero(told)[0]
    return pd.DataFrame(
        {
            "row": row,
            "predicted": called[row],
            "against": against[row],
            "feature": names[what[told]],
            "contribution": values[told],
        }
    )


def find_states(categories: Categories, states: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Positions of the variables named, in order, and the codes of their states."""
    found = {}
    for name, state in states.items():
        if name not in categories.names:
            raise DataError(f"there is no variable {name!r}; the model has {categories.names[:20]}")
        j = categories.names.index(name)
        labels, same = categories.labels[j], [(type(known), known) for known in categories.states[j].tolist()]
        if (type(state), state) in same and categories.edges[j] is None:  # of 1 and "1" the one that is meant
            found[j] = same.index((type(state), state))
        elif label(state) in labels:
            found[j] = labels.index(label(state))
        else:
            raise DataError(f"{name!r} has no state {state!r}; its states are {labels[:20]}")
    if not found:
        raise ValueError("name at least one variable with its state, as in effect(odor='n')")
    group = tuple(sorted(found))
    return group, tuple(found[j] for j in group)
