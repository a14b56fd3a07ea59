"""A basis of the space that FEM's features span. Every one-hot block sums to one, so that p features have rank r well below p:

    1.  [x_j = last] = 1 - sum over other s of [x_j = s]:   x = T' psi,   psi the r products without any last state, and 1
    2.  T T' = R R',  Q = R^-1 T has orthonormal rows:   (X'X/m + ridge)^-1 v = Q' (R' Psi'Psi R / m + ridge)^-1 Q v  in the span
Gradients lie in the span, so the metric of L-BFGS costs r^3 instead of p^3 (36 binary variables, degree 2: 667 against 2,592).
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky

from tallies.maths import Array
from tallies.models.fem_terms import Terms, closure


class Basis(NamedTuple):
    kept: np.ndarray  # (p,)  place of a feature in psi, -1: it holds a last state
    T: Any  # (r, p)  eq. 1, CSR
    R: Array  # (r, r)  lower triangle of eq. 2


def make_basis(terms: Terms) -> Basis | None:
    """The basis of these terms; None where they lack a group whose supergroup they have, as (1) then leaves their span."""
    groups = terms.all()
    if set(groups) != set(closure(groups)):
        return None
    less = terms.sizes - 1
    widths = np.array([int(np.prod(less[list(group)])) for group in groups])
    first = 1 + np.concatenate([[0], np.cumsum(widths)])
    place = {group: t for t, group in enumerate(groups)}
    shapes: dict[tuple[int, ...], list[int]] = {}
    for t in range(len(groups)):
        shapes.setdefault(terms.shape(t), []).append(t)
    kept = np.full(terms.p, -1, dtype=np.int64)
    rows, columns, values = [], [], []
    for shape, members in shapes.items():
        k = len(shape)
        states = np.indices(shape).reshape(k, -1)  # of every feature of the block
        block = terms.offset[members][:, None] + np.arange(states.shape[1])
        for size in range(k + 1):
            for chosen in combinations(range(k), size):
                target = np.array([first[place[tuple(groups[t][q] for q in chosen)]] if chosen else 0 for t in members])
                inner = tuple(shape[q] - 1 for q in chosen)
                local = np.indices(inner).reshape(size, int(np.prod(inner)))
                for f in range(states.shape[1]):
                    s = states[:, f]
                    last = s == np.array(shape) - 1
                    if not all(last[q] for q in range(k) if q not in chosen):
                        continue  # a variable leaves the group only through its last state
                    agree = np.ones(local.shape[1], dtype=bool)
                    for at, q in enumerate(chosen):
                        agree &= last[q] | (local[at] == s[q])
                    psi = np.flatnonzero(agree)
                    sign = (-1.0) ** int(sum(last[q] for q in chosen))
                    rows.append((target[:, None] + psi).ravel())
                    columns.append(np.repeat(block[:, f], len(psi)))
                    values.append(np.full(len(members) * len(psi), sign))
                    if size == k and not last.any():
                        kept[block[:, f]] = target + psi[0]
    T = sp.csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(int(first[-1]), terms.p))
    return Basis(kept, T, cholesky((T @ T.T).toarray(), lower=True, check_finite=False))
