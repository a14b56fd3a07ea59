"""A basis of the space that FEM's features span. Every one-hot block sums to one, so that p features have rank r well below p:

    1.  [x_j = last] = 1 - sum over other s of [x_j = s]:   x = T' psi,   psi the r products without any last state, and 1
    2.  P = (T T')^-1:   (X'X/m + ridge)^-1 v = T' P (Psi'Psi / m + ridge P)^-1 P T v  in the span
    3.  p(y | x) knows scores up to a number for each output: the last state's may be 0.  x' W -> psi' B,   B = T (W - W_last)
        (log sum exp then lacks x' W_last)
    4.  sum_i x_i p_i' = T' sum_i psi_i p_i',  and for the last state  sum_i w_i x_i  less the others

Gradients lie in the span, so the metric of L-BFGS costs r^3 instead of p^3 (36 binary variables, degree 2: 667 against 2,592).
A sweep that multiplies matrices has r rows and M - n_out columns instead of p and M: a quarter of the work where states are two.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotri

from tallies.backends import one_blas_thread
from tallies.categories.terms import Layout, Terms, alike, closure, terms_of
from tallies.forms import Form
from tallies.maths import Array


class Basis(NamedTuple):
    kept: Annotated[np.ndarray, Form("p", "i", -1, below="r")]  # place of a feature in psi, -1: it holds a last state
    T: Annotated[sp.csr_array, Form("r p", "f")]  # eq. 1
    P: Annotated[np.ndarray, Form("r r", "f")]  # of eq. 2


def make_basis(terms: Terms) -> Basis | None:
    """The basis of these terms; None where they lack a group whose supergroup they have, as (1) then leaves their span."""
    groups = terms.all()
    if set(groups) != set(closure(groups)):
        return None
    first = 1 + np.concatenate([[0], np.cumsum(widths(terms))])
    place = {group: t for t, group in enumerate(groups)}
    kept = np.full(terms.p, -1, dtype=np.int32)
    rows, columns, values = [], [], []
    for shape, members in alike(terms):
        whole: Any = np.ones((1, 1))
        for m in shape:
            whole = np.kron(whole, _corner(m))  # products of one-hot codes: products of (1)
        part = np.indices(shape).reshape(len(shape), -1)  # of each row of it: 0, a variable left out, else 1 + a state
        for inside in product([False, True], repeat=len(shape)):
            chosen = np.flatnonzero(inside)
            at = np.flatnonzero(np.equal((part > 0).T, inside).all(axis=1))
            target = np.array([first[place[tuple(groups[t][q] for q in chosen)]] if len(chosen) else 0 for t in members])
            row, column = np.nonzero(whole[at])  # rows of a subgroup come in the order of its own block
            rows.append((target[:, None] + row).ravel())
            columns.append((terms.offset[members][:, None] + column).ravel())
            values.append(np.tile(whole[at][row, column], len(members)))
            if all(inside):
                plain = np.ravel_multi_index(tuple(part[:, at] - 1), shape)
                kept[terms.offset[members][:, None] + plain] = target[:, None] + np.arange(len(at))
    T = sp.csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(int(first[-1]), terms.p))
    return Basis(kept, T, inverse(cholesky((T @ T.T).toarray(), lower=True, check_finite=False)))


def inverse(L: Array) -> Array:
    """(L L')^-1."""
    lower, _ = dpotri(L, lower=1)
    return np.tril(lower) + np.tril(lower, -1).T


@lru_cache(maxsize=2)
def basis_of(layout: Layout) -> Basis | None:
    """The basis of a layout, made once where it is used by every sweep; on one thread, for its bits."""
    with one_blas_thread():
        return make_basis(terms_of(layout))


def widths(terms: Terms) -> np.ndarray:
    """(T,)  how many elements of psi each term has: its features without any last state."""
    return np.where(terms.variables >= 0, terms.sizes[terms.variables] - 1, 1).prod(axis=1)


def _corner(m: int) -> Array:
    """(m, m)  one variable of (1): rows are the constant and the states but the last, columns the states."""
    t = np.eye(m, k=-1)
    t[0, -1] = 1.0
    t[1:, -1] = -1.0
    return t


def narrow(basis: Basis, W: Array, starts: np.ndarray) -> Array:
    """(r, M - n_out)  B of eq. 3."""
    last = starts[1:] - 1
    return basis.T @ np.delete(W - np.repeat(W[:, last], np.diff(starts), axis=1), last, axis=1)


def widen(basis: Basis, G: Array, counts: Array, starts: np.ndarray) -> Array:
    """(p, M)  sums of eq. 4 from those over psi; `counts` (p, n_out) or (p, 1) is sum_i w_i x_i of each output."""
    out = np.zeros((basis.T.shape[1], int(starts[-1])))
    last = starts[1:] - 1
    out[:, np.delete(np.arange(out.shape[1]), last)] = basis.T.T @ G
    out[:, last] = counts - np.add.reduceat(out, starts[:-1], axis=1)
    return out
