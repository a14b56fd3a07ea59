"""FEM's weights by name: tables of effects, and the strongest of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from tallies.categories.door import Categories, label
from tallies.categories.terms import Terms
from tallies.errors import DataError
from tallies.maths import Array

AND = " & "


def feature_names(terms: Terms, categories: Categories) -> list[str]:
    """ "odor=n & ring=p" for every feature, in order."""
    names = [[f"{name}={state}" for state in labels] for name, labels in zip(categories.names, categories.labels, strict=True)]
    return [AND.join(states) for group in terms.all() for states in product(*(names[v] for v in group))]


def effects_table(b: Array, terms: Terms, V: Array, categories: Categories, outputs: list[str]) -> pd.DataFrame:
    """One row a feature, one column an output state; the first row is the bias."""
    return pd.DataFrame(np.vstack([b, V]), index=["(bias)", *feature_names(terms, categories)], columns=outputs)


def strengths(terms: Terms, V: Array) -> Array:
    """(T,)  Frobenius norm of the weights of each term."""
    return np.sqrt(np.add.reduceat(np.square(V).sum(axis=1), terms.offset[:-1]))


def strongest(b: Array, terms: Terms, V: Array, categories: Categories, outputs: list[str], top: int, degrees: Any) -> pd.DataFrame:
    """The terms of largest norm among these degrees, with the largest weight of each spelled out."""
    size, rows = strengths(terms, V), []
    order = np.argsort(-size, kind="stable")
    for t in order[np.isin(terms.degree()[order], list(degrees))][:top]:
        group, block = terms.of(int(t)), V[terms.offset[t] : terms.offset[t + 1]]
        f, k = np.unravel_index(int(np.argmax(np.abs(block))), block.shape)
        if block.shape[1] == 2:  # both classes have this weight, with opposite signs: told for the one that it speaks for
            k = block[f].argmax()
        states = np.unravel_index(int(f), terms.shape(int(t)))
        where = AND.join(f"{categories.names[v]}={categories.labels[v][int(s)]}" for v, s in zip(group, states, strict=True))
        name = AND.join(categories.names[v] for v in group)
        rows.append((name, len(group), float(size[t]), f"{where} -> {outputs[k]}", float(block[f, k])))
    return pd.DataFrame(rows, columns=["term", "degree", "strength", "strongest", "weight"])


def find_states(categories: Categories, states: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Positions of the variables named, in order, and the codes of their states."""
    found = {}
    for name, state in states.items():
        if name not in categories.names:
            raise DataError(f"there is no variable {name!r}; the model has {categories.names[:20]}")
        j = categories.names.index(name)
        if label(state) not in categories.labels[j]:
            raise DataError(f"{name!r} has no state {state!r}; its states are {categories.labels[j][:20]}")
        found[j] = categories.labels[j].index(label(state))
    if not found:
        raise ValueError("name at least one variable with its state, as in effect(odor='n')")
    group = tuple(sorted(found))
    return group, tuple(found[j] for j in group)
