"""The graphical lasso: a sparse inverse of a covariance S, with a penalty of its own for every pair.

    minimise   f(Theta) = -log|Theta| + tr(S Theta) + sum_{j != k} L_jk |Theta_jk|     over positive definite Theta     (eq. 1)

L_jk = inf forbids a pair, L_jk = 0 leaves it free; the diagonal has no penalty. Columns that no chain of |S_jk| > L_jk joins have a
Theta_jk of 0, so each connected component is a problem of its own, exactly (Mazumder and Hastie 2012). Within one, Newton steps:
with W = Theta^-1 and G = S - W, the direction D minimises

    tr(G D) + tr(W D W D) / 2 + sum L |Theta + D|      over the entries that are not 0, or for which |G_jk| > L_jk       (eq. 2)

by coordinate descent, and a line search keeps Theta positive definite (QUIC: Hsieh, Sustik, Dhillon and Ravikumar 2014). Where
descent is slow, for columns are strongly correlated and the penalty is weak, Newton steps are short as well: then each row of Theta
in turn is given its best values, which are those of a lasso with p numbers (Mazumder and Agarwal 2011). Any symmetric V with
V_jj = S_jj and |V - S| <= L gives log|V| + p <= f(Theta): V = S + clip(W - S, -L, L) certifies how far f is from its minimum (the
duality gap).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse import csgraph, csr_array

from tallies.counts.kernels import lasso as kernels

STEPS = 200  # most Newton steps of a component
ROUNDING = 1e-14  # of the terms of f: near its minimum a Newton step is right where f cannot tell
CLOSE = 0.03  # share of its first move at which coordinate descent ends: what is left is left to the next step
FEW = 200  # columns up to which products of whole matrices cost no more than a few sweeps
TURNS = 3, 8  # sweeps of few columns, and of more, after which the minimum among places that keep their sign is looked for
SLOW = 0.7, 0.9  # if they are slow: the last one moved more than this share of the one before
MOST, NEAR = 20, 0.1  # conjugate gradients end after so many, or where the slope is this share of the first
FIRST, LAST = 4, 32  # sweeps over pairs, and over rows: twice as many in the next step where pairs do not settle
SHORTER = 1.0, 0.3, 0.1, 0.03  # of the way to that minimum
INNER = 2  # sweeps of coordinate descent within a row
ROUGH, AHEAD = 1e-4, 3  # gaps a column that take no Newton step from a good start, and how often rows have their turns before one
BLIND = 3  # Newton steps that are taken where f tells nothing any more
WIDE, SQUARE = 1500, 32  # columns from which on W and U leave the cache, and sweeps go over squares of so many rows and columns
SINGLE = 64  # columns of a component from which on sweeps are in single precision: directions, not where they lead, are rounded


class Solution(NamedTuple):
    """A sparse precision, and how good it is."""

    Theta: np.ndarray  # (p, p)
    W: np.ndarray  # its inverse                                    (p, p)
    logdet: float  # log|Theta|
    penalty: float  # sum L |Theta|, of both triangles
    value: float  # f, eq. 1
    gap: float  # by which f is at most above its minimum
    steps: int  # Newton steps, of all components


def components(S: np.ndarray, L: np.ndarray) -> np.ndarray:
    """The component of each column (p,): no entry between two of them can differ from 0.

    >>> components(np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.1], [0.1, 0.1, 1.0]]), np.full((3, 3), 0.2)).tolist()
    [0, 0, 1]
    """
    return csgraph.connected_components(csr_array(np.abs(S) > L), directed=False)[1]


def solve(S: np.ndarray, L: np.ndarray, start: np.ndarray | None = None, tol: float = 1e-9, most: int = STEPS) -> Solution:
    """The graphical lasso of S (p, p) with penalties L (p, p), from a positive definite `start`, to a gap of `tol` a column.

    >>> S = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.1], [0.1, 0.1, 1.0]])
    >>> found = solve(S, np.full((3, 3), 0.2))
    >>> found.W.round(4).tolist()
    [[1.0, 0.3, 0.0], [0.3, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    p = len(S)
    label = components(S, L)
    alone = np.bincount(label)[label] == 1
    Theta, W = np.zeros((p, p)), np.zeros((p, p))
    own = S.diagonal()[alone]
    Theta[alone, alone], W[alone, alone] = 1.0 / own, own
    logdet, penalty, value, gap, steps = -float(np.log(own).sum()), 0.0, float(np.log(own).sum() + len(own)), 0.0, 0
    for c in np.unique(label[~alone]):
        at = np.flatnonzero(label == c)
        block = np.ix_(at, at)
        part = _component(
            np.ascontiguousarray(S[block]),
            np.ascontiguousarray(L[block]),
            None if start is None else start[block],
            tol * len(at),
            most,
        )
        Theta[block], W[block] = part.Theta, part.W
        logdet, penalty, value, gap = logdet + part.logdet, penalty + part.penalty, value + part.value, gap + part.gap
        steps += part.steps
    return Solution(Theta, W, logdet, penalty, value, gap, steps)


def path(S: np.ndarray, L: np.ndarray, penalties: Any, tol: float = 1e-9) -> Iterator[Solution]:
    """Solutions for each of falling penalties times the weights L, each from the one before.

    >>> S = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> [float(found.W[0, 1].round(4)) for found in path(S, np.ones((2, 2)), [0.6, 0.4, 0.1])]
    [0.0, 0.1, 0.4]
    """
    last = None
    for penalty in penalties:
        last = solve(S, scaled(L, penalty), None if last is None else last.Theta, tol)
        yield last


def scaled(L: np.ndarray, penalty: float) -> np.ndarray:
    """Penalties of the pairs: what is forbidden stays so without any."""
    return np.where(np.isinf(L), np.inf, penalty * np.where(np.isinf(L), 0.0, L))


class _Point(NamedTuple):
    """A positive definite Theta, and f there."""

    Theta: np.ndarray  # (p, p)
    root: np.ndarray  # its lower Cholesky root                     (p, p)
    logdet: float
    penalty: float
    value: float


def _at(S: np.ndarray, L: np.ndarray, Theta: np.ndarray) -> _Point | None:
    root = _root(Theta)
    if root is None:
        return None
    logdet, penalty = float(2 * np.log(root.diagonal()).sum()), _size(Theta, L)
    return _Point(Theta, root, logdet, penalty, float(-logdet + np.vdot(S, Theta) + penalty))


def _component(S: np.ndarray, L: np.ndarray, start: np.ndarray | None, tol: float, most: int) -> Solution:
    """The solution of one connected component."""
    p, at = len(S), _begin(S, L, start)
    exact = p < SINGLE
    D, U = np.zeros((p, p)), np.zeros((p, p), dtype=np.float64 if exact else np.float32)
    W, gap, sweeps, turns, blind, t = _inverse(at.root), np.inf, FIRST, FIRST, 0, 0
    for t in range(most + 1):
        gap = max(_gap(S, L, W, at.value), 0.0) + _rounding(S, at.Theta)
        if gap <= tol or t == most or blind == BLIND:
            break
        if t < AHEAD and start is not None and p <= FEW and tol > p * ROUGH:
            by_rows = _by_rows(S, L, at, W, FIRST)
            if by_rows is not None:
                at, W = by_rows, _inverse(by_rows.root)
                continue
        G = S - W
        D[:], U[:] = 0.0, 0.0
        settled = _descend(at.Theta, W.astype(U.dtype, copy=False), G, L, sweeps, CLOSE, D, U)
        fall = float(np.vdot(G, D)) + _size(at.Theta + D, L) - at.penalty
        found = _step(S, L, at, D, fall)
        if found is None and not exact:  # rounding may be why
            exact, U = True, np.zeros((p, p))
            continue
        if found is None:  # no step lowers f any more
            break
        at, W = found, _inverse(found.root)
        by_rows = None
        if not settled and p <= WIDE and (p <= FEW or sweeps >= LAST):
            by_rows, turns = _by_rows(S, L, at, W, turns), min(2 * turns, LAST)
        if by_rows is not None:
            at, W = by_rows, _inverse(by_rows.root)
        elif not settled:
            sweeps *= 2
        blind += -fall < 1e-2 * ROUNDING * p  # the step was shorter than any that f could tell from none; the gap may
    return Solution(at.Theta, W, at.logdet, at.penalty, at.value, gap, t)


def _begin(S: np.ndarray, L: np.ndarray, start: np.ndarray | None) -> _Point:
    """Where to begin: the start without forbidden pairs if it is positive definite, else a diagonal."""
    if start is not None:
        Theta = np.where(np.isinf(L), 0.0, start)
        np.fill_diagonal(Theta, start.diagonal())
        found = _at(S, L, Theta)
        if found is not None:
            return found
    diagonal = _at(S, L, np.diag(1.0 / S.diagonal()))
    assert diagonal is not None  # variances are above 0
    return diagonal


def _by_rows(S: np.ndarray, L: np.ndarray, at: _Point, W: np.ndarray, turns: int) -> _Point | None:
    """After so many turns of the rows, each given its best values in turn; None where rounding of W leaves that no lower."""
    Theta, W = at.Theta.copy(), W.copy()
    for _ in range(turns):
        kernels.rows(Theta, W, S, L, INNER, CLOSE)
    found = _at(S, L, Theta)
    return None if found is None or not found.value < at.value else found


def _descend(Theta: Any, W: Any, G: Any, L: Any, sweeps: int, close: float, D: np.ndarray, U: np.ndarray) -> bool:
    """Write into D (0 at first) the minimum of eq. 2 over the free places, and U = D W; whether it was found in so many sweeps.

    Free are the places that are not 0, or would not stay so. Descent ends where the largest move of a sweep, in the metric of
    eq. 2, is the share `close` of that of the largest sweep. Where columns are strongly correlated sweeps alone take small steps
    for long: then every few of them it leaps to the minimum among places whose sign stays.
    """
    free = (np.abs(G) > L) | (Theta != 0)
    np.fill_diagonal(free, True)
    at = np.nonzero(np.triu(free))
    p, first, far = len(G), 0.0, 0.0
    ptr, room = np.searchsorted(at[0], np.arange(p + 1)), np.empty((SQUARE, p) if p >= WIDE else p, U.dtype)
    sweep = kernels.sweep_squares if p >= WIDE else kernels.sweep
    turns, slow = TURNS[p > FEW], SLOW[p > FEW]
    for t in range(sweeps):
        before, far = far, sweep(Theta, W, G, L, ptr, at[1], D, U, room)
        first = max(first, far)
        if far <= close * first:
            return True
        if t % turns == turns - 1 and far > slow * before:
            _leap(Theta, W, G, L, at, _face(Theta, W, G, L, D, U)[at], D, U)
    return False


def _face(Theta: Any, W: Any, G: Any, L: Any, D: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Near the minimum of eq. 2 among the entries that are not 0 if none changed its sign: by conjugate gradients, from D.

    Of all entries the Hessian, D -> W D W, has the inverse D -> Theta D Theta, which leads the way among some, too.
    """
    to, kind = Theta + D, W.dtype
    np.fill_diagonal(to, 1.0)
    there = to != 0
    sign = np.sign(to)
    np.fill_diagonal(sign, 0.0)
    slope = np.where(there, G + W @ U, 0.0)
    slope[there] += L[there] * sign[there]
    here, inverse, r = there.astype(kind), Theta.astype(kind, copy=False), (-slope).astype(kind)
    x, along = np.zeros_like(r), here * (inverse @ (r @ inverse))
    size = first = float(np.vdot(r, along))
    for _ in range(MOST):
        bent = W @ (along @ W)
        bent *= here
        curve = float(np.vdot(along, bent))
        if not curve > 0:
            break
        x += kind.type(size / curve) * along
        r -= kind.type(size / curve) * bent
        z = inverse @ (r @ inverse)
        z *= here
        before, size = size, float(np.vdot(r, z))
        if size <= NEAR * NEAR * first:
            break
        along *= kind.type(size / before)
        along += z
    return D + x


def _value(Theta: Any, G: Any, L: Any, at: Any, D: np.ndarray, U: np.ndarray) -> float:
    """Eq. 2."""
    size = (L[at] * np.abs(Theta[at] + D[at]))[at[0] != at[1]]
    return float(np.vdot(G, D) + 0.5 * np.vdot(U, U.T) + 2.0 * size.sum())


def _leap(Theta: Any, W: Any, G: Any, L: Any, at: Any, d: np.ndarray, D: np.ndarray, U: np.ndarray) -> bool:
    """Go toward the entries d of the free places, those with a penalty not through 0, as far as it lowers eq. 2; whether it did."""
    corner, here, value = (at[0] != at[1]) & (L[at] > 0), D[at], _value(Theta, G, L, at, D, U)
    for length in SHORTER:
        to = here + length * (d - here)
        through = corner & ((Theta[at] + to) * (Theta[at] + here) <= 0)
        near = np.zeros_like(D)
        near[at] = near[at[::-1]] = np.where(through, -Theta[at], to)
        along = near.astype(W.dtype, copy=False) @ W
        if _value(Theta, G, L, at, near, along) < value:
            D[:], U[:] = near, along
            return True
    return False


def _step(S: np.ndarray, L: np.ndarray, at: _Point, D: np.ndarray, fall: float) -> _Point | None:
    """The longest of the steps 1, 1/2, 1/4, ... along D after which f is low enough (Armijo)."""
    length, rounding = 1.0, _rounding(S, at.Theta)
    while length > 1e-10 and fall < rounding:
        found = _at(S, L, at.Theta + length * D)
        if found is not None and found.value <= at.value + 1e-3 * length * min(fall, 0.0) + rounding:
            return found
        length *= 0.5
    return None


def _rounding(S: np.ndarray, Theta: np.ndarray) -> float:
    """How much of f may be rounding."""
    return ROUNDING * (float(np.abs(S * Theta).sum()) + len(S))


def _size(Theta: np.ndarray, L: np.ndarray) -> float:
    """sum L |Theta| of all pairs that are not 0, for those that are may be forbidden."""
    there = np.flatnonzero(Theta)
    sizes = np.abs(Theta.ravel()[there]) * L.ravel()[there]
    return float(sizes[there // len(Theta) != there % len(Theta)].sum())


def _root(matrix: np.ndarray) -> np.ndarray | None:
    """Lower Cholesky root; None where there is none."""
    root, bad = linalg.lapack.dpotrf(matrix.T, lower=0, clean=1)
    return None if bad or not np.isfinite(root[-1, -1]) else root.T


def _inverse(root: np.ndarray) -> np.ndarray:
    """The inverse of the matrix of which `root` is the Cholesky root."""
    half, _ = linalg.lapack.dpotri(root.T, lower=0)
    return np.ascontiguousarray(np.triu(half) + np.triu(half, 1).T)


def _gap(S: np.ndarray, L: np.ndarray, W: np.ndarray, value: float) -> float:
    """The duality gap; inf where the nearest feasible V is not positive definite."""
    V = S + np.clip(W - S, -L, L)
    np.fill_diagonal(V, S.diagonal())
    root = _root(V)
    return np.inf if root is None else value - float(2 * np.log(root.diagonal()).sum()) - len(S)
