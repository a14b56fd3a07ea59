"""How FEM climbs: one evaluation a sweep, the next trial point in the update.

The objective of output o, concave in its columns of W (p, M):
    1.  f_o(W) = sum_i w_io (h[y_io] - log sum exp_o h) - ridge/2 |W_o|^2,    h = x_i W
    2.  gradient = counted - expected - ridge W,     counted = sum_i x_i y_i',  expected = sum_i w_i x_i p(. | x_i)'
    3.  at W = 0 the Hessian is -(G/m + ridge), G = sum_i w_i x_i x_i': the metric in which L-BFGS starts
The iteration of the seed is W <- W + (counted - expected) G^+, a fixed-Hessian ascent (Boehning and Lindsay 1988).
References: Nocedal and Wright, Numerical Optimization, ch. 7; Boehning and Lindsay 1988.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, solve

from tallies import lbfgs
from tallies.categories.basis import Basis, inverse
from tallies.categories.terms import rescaled
from tallies.forms import Form
from tallies.maths import Array

MEMORY = 8  # pairs of steps and gradient changes: more gave no fewer sweeps
RANK_CUT = 1e-11  # eigenvalues of G below this share of the largest are rounding: counts are exact, sums good to 1e-13
TRUST = 0.02  # with a diagonal metric the slope tells some 50 times less than is left to gain
SLACK = 1e-13  # rounding of an objective relative to its size: a step that loses less is no loss
START_SHARE = 1e-4  # near a perfect fit the objective tends to 0, and is measured against this share of its start


# metrics: approximate inverse Hessians, each in the form that it is applied in


Square = Annotated[np.ndarray, Form("p p", "f")]
Places = Annotated[np.ndarray, Form("...", "i", 0, below="p")]  # of features


class Diagonal(NamedTuple):
    """Inverse diagonal of (3). It ignores that a row has many features, each of which would take the whole first step."""

    inverse: Annotated[np.ndarray, Form("p", "f", 0)]
    length: Annotated[float, Form(low=0, high=1)]  # of the first step: one over the features of a row


class Full(NamedTuple):
    """All of (3)."""

    L: Square  # Cholesky factor


class Reduced(NamedTuple):
    """All of (3), in a basis of the features."""

    L: Annotated[np.ndarray, Form("r r", "f")]  # Cholesky factor
    basis: Basis


class Exclusive(NamedTuple):
    """All of (3), for outputs that each leave out the features that contain them."""

    inverse: Square
    own: list[Places]  # (n_out,)  features that each output must not use


class Pseudo(NamedTuple):
    """(G + ridge)^+ of the seed's iteration, for every output, without its own features."""

    kept: list[Places]  # (n_out,)  features of each
    inverse: list[Annotated[np.ndarray, Form("... ...", "f")]]  # of outputs with the same features one and the same


class ByState(NamedTuple):
    """A metric for each state of an output, of which there may be several alike (folds).

    Weights that are the same for all states change no probability, so nothing but the ridge bends the objective along them: steps
    keep out of there.
    """

    L: Annotated[np.ndarray, Form("m r r", "f")]  # as in Full, or in Reduced where there is a basis
    basis: Basis | None


Plain = Diagonal | Full | Reduced | Exclusive | Pseudo | ByState


class Stretched(NamedTuple):
    """Another metric, stretched on both sides where terms have ridges of their own."""

    inner: Plain
    offset: Annotated[np.ndarray, Form("T+1", "i", ends="p")]  # of the terms
    factors: Annotated[np.ndarray, Form("T o", "f", 0)]


Metric = Plain | Stretched


def apply(metric: Metric, v: Array, starts: np.ndarray) -> Array:
    """The metric's inverse times v (p, M)."""
    match metric:
        case Stretched(inner, offset, factors):
            z = apply(inner, rescaled(v, offset, starts, factors, 1.0), starts)
            z = rescaled(z, offset, starts, factors, 1.0)
        case Diagonal(inverse):
            z = inverse[:, None] * v
        case Full(L):
            z = cho_solve((L, True), v, check_finite=False)
        case Reduced(L, basis):
            z = basis.T.T @ (basis.P @ cho_solve((L, True), basis.P @ (basis.T @ v), check_finite=False))
        case Exclusive(B, own):  # inverse without rows and columns F, from the whole one: B - B_F B_FF^-1 B_F'
            z = B @ v
            for o, F in enumerate(own):
                a, b = starts[o], starts[o + 1]
                z[:, a:b] -= B[:, F] @ solve(B[np.ix_(F, F)], z[F, a:b], assume_a="pos", check_finite=False)
                z[F, a:b] = 0.0
        case ByState(Ls, basis):
            m, v, z = len(Ls), zero_mean(v, len(Ls)), np.empty_like(v)
            for k, L in enumerate(Ls):
                z[:, k::m] = apply(Full(L) if basis is None else Reduced(L, basis), v[:, k::m], starts)
            z = zero_mean(z, m)
        case Pseudo(kept, inverses):
            z = np.zeros_like(v)
            for o, (F, inverse) in enumerate(zip(kept, inverses, strict=True)):
                a, b = starts[o], starts[o + 1]
                z[F, a:b] = inverse @ v[F, a:b]
    return z


def zero_mean(v: Array, m: int) -> Array:
    """v (p, k m) less its mean over the m states of each of the k outputs."""
    by_output = v.reshape(len(v), -1, m)
    return (by_output - by_output.mean(axis=2, keepdims=True)).reshape(v.shape)


def diagonal_metric(counts: Array, ridge: float, states: float, active: int) -> Diagonal:
    """From the weight of the rows that have each feature, of which a row has `active`."""
    floor = 1e-8 * max(counts.max(initial=0.0), 1e-300)
    return Diagonal(1.0 / np.maximum(counts / states + ridge, floor), 1.0 / max(active, 1))


def factor(G: Array, ridge: float, states: float, floor: float, P: Array | None = None) -> Array:
    """The Cholesky factor of (3), with P that of eq. 2 of `basis`. Without a ridge G is singular, and its null space, where no
    gradient points, gets `floor` times the mean diagonal."""
    A = G / states
    if P is None:
        A[np.diag_indices_from(A)] += max(ridge, floor * float(np.trace(A)) / max(len(A), 1))
    else:
        A += max(ridge, floor * float(np.trace(A) / np.trace(P))) * P
    return cho_factor(A, lower=True, overwrite_a=True, check_finite=False)[0]


def exclusive_metric(L: Array, own: list[np.ndarray]) -> Exclusive:
    """From the Cholesky factor of (3)."""
    return Exclusive(inverse(L), own)


def pseudo_metric(G: Array, ridge: float, own: list[np.ndarray] | None, n_out: int) -> Pseudo:
    """(G + ridge)^+; with `own`, one for every output, without its own features."""

    def pinv(A: Array) -> Array:
        values, vectors = eigh(A + ridge * np.eye(len(A)), check_finite=False)
        kept = values > RANK_CUT * max(values[-1], 0.0)
        return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T

    if own is None:
        return Pseudo([np.arange(len(G))] * n_out, [pinv(G)] * n_out)
    rest = [np.setdiff1d(np.arange(len(G)), F) for F in own]
    return Pseudo(rest, [pinv(G[np.ix_(kept, kept)]) for kept in rest])


# the search; without a ridge its numbers may grow until they are NaN


Vector = Annotated[np.ndarray, Form("p M", "f", nan=True)]
Numbers = Annotated[np.ndarray, Form("o", "f", nan=True)]  # one an output
Products = Annotated[np.ndarray, Form("h h o", "f", nan=True)]


class Point(NamedTuple):
    x: Vector  # W
    g: Vector | None  # gradient there; None before the first sweep
    Dg: Vector | None  # inverse of the metric times g
    value: Numbers  # objective there


class Line(NamedTuple):
    d: Vector  # direction
    slope: Numbers  # gradient along d
    step: Numbers  # length of the trial step


class Pair(NamedTuple):
    """What a step changed: x and D g."""

    s: Vector
    Dy: Vector


class Pairs(NamedTuple):
    latest: tuple[Pair, ...]  # (h,)  latest last
    sy: Products  # <s, y>; 0: this output took no step
    yDy: Products


class Search(NamedTuple):
    """Where L-BFGS stands."""

    point: Point  # the best so far
    line: Line  # along which it tries the next
    pairs: Pairs
    start: Numbers  # objective at the first point
    done: Annotated[np.ndarray, Form("o", "b")]


def spread(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(..., n_out) -> (..., M): one number an output to one a column."""
    return np.repeat(values, np.diff(starts), axis=-1)


def dots(A: Array, B: Array, starts: np.ndarray) -> Array:
    """Inner products of two (q, M) arrays, output by output."""
    return np.add.reduceat(np.einsum("qm,qm->m", A, B), starts[:-1])


def begin(x: Array, starts: np.ndarray) -> Search:
    """A search that stands at x and has seen nothing yet."""
    n_out = len(starts) - 1
    zero, none = np.zeros(n_out), np.zeros((0, 0, n_out))
    point, line = Point(x, None, None, np.full(n_out, -np.inf)), Line(np.zeros_like(x), zero, np.ones(n_out))
    return Search(point, line, pairs=Pairs((), none, none), start=zero, done=np.zeros(n_out, dtype=bool))


def again(search: Search, starts: np.ndarray) -> Search:
    """A search that stands where this one does, without memory: it will have another metric."""
    fresh = begin(search.point.x, starts)
    return fresh._replace(point=fresh.point._replace(value=search.point.value), start=search.start)


def trial(search: Search, starts: np.ndarray) -> Array:
    """The point that the next sweep evaluates."""
    return search.point.x + spread(search.line.step, starts) * search.line.d


def advance(search: Search, value: Array, g: Array, metric: Metric, starts: np.ndarray, tol: float) -> Search:
    """Accept or shorten the trial step of every output, given objective and gradient there; choose the next."""
    old, line, first = search.point, search.line, search.point.g is None
    if first:
        good, shorter, done = np.ones(len(value), dtype=bool), line.step, search.done
    else:
        good = lbfgs.falls(-old.value, -value, line.step, -line.slope)
        shorter = lbfgs.backtrack(line.step, -line.slope, old.value - value)
        # a step too short to change anything: the objective is flat to rounding
        done = search.done | (~good & (shorter * line.slope <= SLACK * np.abs(old.value)))
        if not good.any():
            return search._replace(line=line._replace(step=np.where(done, 0.0, shorter)), done=done)
    point: Any = Point(trial(search, starts), g, apply(metric, g, starts), value)
    pairs, start = search.pairs, search.start
    if first:
        start = np.where(start == 0, value, start)
    else:
        if not good.all():
            taken = spread(good, starts)
            point = Point._make(np.where(taken if b.ndim > 1 else good, b, a) for a, b in zip(old, point, strict=True))
        pairs = _remember(pairs, old, point, good & ~search.done, starts)
    d = _direction(point, pairs, starts)
    slope = dots(point.g, d, starts)
    # slope/2 is what a quadratic of this curvature still has to gain
    rough = metric.inner if isinstance(metric, Stretched) else metric
    trust = TRUST if isinstance(rough, Diagonal) else 1.0
    done = done | (0.5 * slope <= tol * trust * scale(point.value, start))
    length = rough.length if first and isinstance(rough, Diagonal) else 1.0
    step = np.where(done, 0.0, np.where(good, length, shorter))
    if done.any() or not good.all():
        moves, holds = spread(good & ~done, starts), spread(~good & ~done, starts)
        d = np.where(moves, d, np.where(holds, line.d, 0.0))
    return Search(point, Line(d, np.where(good, slope, line.slope), step), pairs, start, done)


def _remember(pairs: Pairs, old: Any, new: Any, good: np.ndarray, starts: np.ndarray) -> Pairs:
    """The pairs with the latest step, of the outputs that took one; the oldest is forgotten."""
    latest = (*pairs.latest, Pair(s=new.x - old.x, Dy=new.Dg - old.Dg))[-MEMORY:]
    sy, yDy = (np.pad(table, ((0, 1), (0, 1), (0, 0)))[-MEMORY:, -MEMORY:] for table in pairs[1:])
    sy[:, -1], yDy[:, -1] = (good * of_latest for of_latest in _products(latest, new.g - old.g, starts))
    yDy[-1] = yDy[:, -1]
    return Pairs(latest, sy, yDy)


def _products(pairs: tuple[Pair, ...], v: Array, starts: np.ndarray) -> tuple[Array, Array]:
    """(h, n_out)  <s, -v> and <-Dy, -v> of every pair: those of -f, which L-BFGS lowers."""
    of_s, of_y = ([dots(pair[i], v, starts) for pair in pairs] for i in (0, 1))
    return -np.reshape(of_s, (-1, len(starts) - 1)), np.reshape(of_y, (-1, len(starts) - 1))


def _direction(point: Point, pairs: Pairs, starts: np.ndarray) -> Array:
    """The direction of L-BFGS, every output by itself."""
    assert point.g is not None
    sg, yDg = _products(pairs.latest, point.g, starts)
    gamma, of_y, of_s = lbfgs.direction(lbfgs.Dots(pairs.sy, sg, pairs.yDy, yDg), range(len(sg)), (0.0, np.inf))
    d = spread(gamma, starts) * np.ascontiguousarray(point.Dg)  # a factor solves by columns, but sweeps read rows
    for pair, a, b in zip(pairs.latest, spread(of_s, starts), spread(of_y, starts), strict=True):
        d += b * pair.Dy - a * pair.s
    return d


def fixed_step(search: Search, value: Array, g: Array, metric: Metric, starts: np.ndarray, tol: float) -> Search:
    """The step of the seed's iteration, always taken whole."""
    step = apply(metric, g, starts)
    start = value if search.point.g is None else search.start
    done = np.all(0.5 * dots(g, step, starts) <= tol * scale(value, start))
    point = search.point._replace(x=search.point.x + step, g=g, value=value)
    return search._replace(point=point, start=start, done=np.full(len(value), done))


def scale(value: Array, start: Array) -> Array:
    """What an objective's gains are measured against."""
    return np.maximum(np.abs(value), START_SHARE * np.abs(start))


METRICS = (Diagonal, Full, Reduced, Exclusive, Pseudo, ByState, Stretched, Basis)
RECORDS = (Search, Point, Line, Pairs, Pair, *METRICS)  # of checkpoints
