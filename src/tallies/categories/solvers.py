"""How FEM climbs: one evaluation a sweep, the next trial point in the update.

The objective of output o, concave in its columns of W (p, M):
    1.  f_o(W) = sum_i w_io (h[y_io] - log sum exp_o h) - ridge/2 |W_o|^2,    h = x_i W
    2.  gradient = counted - expected - ridge W,     counted = sum_i x_i y_i',  expected = sum_i w_i x_i p(. | x_i)'
    3.  at W = 0 the Hessian is -(G/m + ridge), G = sum_i w_i x_i x_i': the metric in which L-BFGS starts
With W = sum_i x_i a_i' (every optimum has that form), all of it happens in the rows: h = K a with K = x x', and a metric
(K/m + ridge) in place of (3) gives the same steps without any feature ("kernel"). Inner products are then <u, v> = u'Kv,
so that a vector is kept beside its image under K; images of steps follow from K z = m (v - ridge z), z the solution.
The iteration of the seed is W <- W + (counted - expected) G^+, a fixed-Hessian ascent (Boehning and Lindsay 1988).
References: Nocedal and Wright, Numerical Optimization, ch. 7; Boehning and Lindsay 1988.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, solve, solve_triangular
from scipy.linalg.lapack import dpotri

from tallies.categories.terms import rescaled
from tallies.maths import Array

MEMORY = 8  # pairs of steps and gradient changes: more gave no fewer sweeps
RANK_CUT = 1e-11  # eigenvalues of G below this share of the largest are rounding: counts are exact, sums good to 1e-13
TRUST = 0.02  # with a diagonal metric the slope tells some 50 times less than is left to gain
SLACK = 1e-13  # rounding of an objective relative to its size: a step that loses less is no loss
START_SHARE = 1e-4  # near a perfect fit the objective tends to 0, and is measured against this share of its start


class Metric(NamedTuple):
    """An approximate inverse Hessian, in the form that its kind is applied in."""

    kind: str  # "diagonal" | "gram" | "reduced" (in a basis) | "exclusive" (outputs without their own features) | "kernel" | "pinv"
    matrix: (
        Any  # (q,) inverse diagonal | (q, q) Cholesky factor, inverse or pseudo-inverse; a list of them for outputs of their own
    )
    ridge: float
    states: float  # m of eq. 3
    stretch: Any = None  # offset of the terms and (T, n_out) by which to stretch both sides where they have ridges of their own


class Search(NamedTuple):
    """Where L-BFGS stands; vectors are (q, M), images theirs under K (None where K is the identity), numbers one an output."""

    x: Array  # best point so far: W, or a in the kernel form
    image: Any  # K a
    g: Any  # gradient there; None before the first sweep
    value: Array  # (n_out,)  objective there
    start: Array  # (n_out,)  objective at the first point
    d: Array  # direction, and its image
    d_image: Any
    slope: Array  # (n_out,)  gradient along d
    step: Array  # (n_out,)  length of the trial step
    S: Array  # (h, q, M)  steps taken, latest last; S_image, Y: their images, falls of the gradient
    S_image: Any
    Y: Array
    rho: Array  # (h, n_out)  1 / <s, y>; 0: this output took no step
    done: np.ndarray  # (n_out,)  bool


def spread(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """One number an output -> one number a column."""
    return np.repeat(values, np.diff(starts))


def dots(A: Array, B: Array, starts: np.ndarray) -> Array:
    """Inner products of two (q, M) arrays, output by output."""
    return np.add.reduceat(np.einsum("qm,qm->m", A, B), starts[:-1])


def begin(x: Array, starts: np.ndarray, image: Any = None) -> Search:
    """A search that stands at x and has seen nothing yet."""
    n_out = len(starts) - 1
    zero, none = np.zeros(n_out), np.zeros((0, *x.shape))
    return Search(
        x=x, image=image, g=None, value=np.full(n_out, -np.inf), start=zero, d=np.zeros_like(x),
        d_image=None if image is None else np.zeros_like(x), slope=zero, step=np.ones(n_out),
        S=none, S_image=None if image is None else none, Y=none, rho=np.zeros((0, n_out)), done=np.zeros(n_out, dtype=bool),
    )  # fmt: skip


def trial(search: Search, starts: np.ndarray) -> tuple[Array, Any]:
    """The point that the next sweep evaluates, and its image."""
    step = spread(search.step, starts)
    image = None if search.image is None else search.image + step * search.d_image
    return search.x + step * search.d, image


def advance(search: Search, value: Array, g: Array, metric: Metric, starts: np.ndarray, tol: float, own: Any = None) -> Search:
    """Accept or shorten the trial step of every output, given objective and gradient there; choose the next."""
    x, image = trial(search, starts)
    first = search.g is None
    good = value >= search.value + 1e-4 * search.step * search.slope - SLACK * np.abs(value)
    good |= first
    taken = spread(good, starts)
    if first:
        S, S_image, Y, rho = search.S, search.S_image, search.Y, search.rho
        search = search._replace(g=g, value=value, start=value)
    else:
        # a refused step is halved, or cut to where the parabola through both values has its top
        bend = value - search.value - search.step * search.slope
        top = np.divide(-0.5 * search.step * search.slope, bend, out=np.full(len(value), 0.5), where=bend < 0)
        step = search.step * np.clip(top, 0.1, 0.5)
        s = np.where(taken, x - search.x, 0.0)
        y = np.where(taken, search.g - g, 0.0)
        s_image = s if search.image is None else np.where(taken, image - search.image, 0.0)
        fall = dots(s_image, y, starts)
        usable = good & (fall > 1e-300) & ~search.done
        keep = slice(1, None) if len(search.S) == MEMORY else slice(None)
        S, Y = np.concatenate([search.S[keep], s[None]]), np.concatenate([search.Y[keep], y[None]])
        S_image = None if search.image is None else np.concatenate([search.S_image[keep], s_image[None]])
        rho = np.concatenate([search.rho[keep], np.where(usable, 1 / np.where(usable, fall, 1.0), 0.0)[None]])
        if not good.any():
            S, S_image, Y, rho = search.S, search.S_image, search.Y, search.rho
        # a step too short to change anything: the objective is flat to rounding
        stuck = ~good & (step * search.slope <= SLACK * np.abs(search.value))
        search = search._replace(
            x=np.where(taken, x, search.x), g=np.where(taken, g, search.g), value=np.where(good, value, search.value),
            image=None if search.image is None else np.where(taken, image, search.image), done=search.done | stuck,
        )  # fmt: skip
        if not good.any():
            return search._replace(step=np.where(search.done, 0.0, step))
    d, d_image = _direction(search.g, S, S_image, Y, rho, metric, starts, own)
    slope = dots(search.g if search.image is None else d_image, d if search.image is None else search.g, starts)
    # slope/2 is what a quadratic of this curvature still has to gain
    trust = TRUST if metric.kind == "diagonal" else 1.0
    done = search.done | (0.5 * slope <= tol * trust * scale(search.value, search.start))
    length = metric_length(metric) if first else 1.0
    fresh = np.where(good, length, search.step if first else step)
    moves = spread(good & ~done, starts)
    holds = spread(~good & ~done, starts)
    d = np.where(moves, d, np.where(holds, search.d, 0.0))
    if d_image is not None:
        d_image = np.where(moves, d_image, np.where(holds, search.d_image, 0.0))
    return search._replace(
        d=d,
        d_image=d_image,
        slope=np.where(good, slope, search.slope),
        step=np.where(done, 0.0, fresh),
        S=S,
        S_image=S_image,
        Y=Y,
        rho=rho,
        done=done,
    )


def scale(value: Array, start: Array) -> Array:
    """What an objective's gains are measured against."""
    return np.maximum(np.abs(value), START_SHARE * np.abs(start))


def metric_length(metric: Metric) -> float:
    """Length of the first step: a diagonal ignores that a row has many features, each of which would take the whole step."""
    return metric.states if metric.kind == "diagonal" else 1.0


def _direction(
    g: Array, S: Array, S_image: Any, Y: Array, rho: Array, metric: Metric, starts: np.ndarray, own: Any
) -> tuple[Array, Any]:
    """The two loops of L-BFGS, every output by itself, and the image of the result."""
    q = g.copy()
    images = S if S_image is None else S_image
    used = [i for i in range(len(S)) if rho[i].any()]
    alpha = {}
    for i in reversed(used):
        alpha[i] = rho[i] * dots(images[i], q, starts)
        q -= spread(alpha[i], starts) * Y[i]
    scaled = bool(used) and metric.kind != "kernel"  # in the null space of K, which no product sees, a scale would add up
    if scaled and metric.kind in ("gram", "reduced") and metric.stretch is None:
        # two solutions for the price of one: the factor is read once
        both = apply(metric, np.hstack([q, Y[used[-1]]]), starts)[0]
        z, w, z_image = np.ascontiguousarray(both[:, : q.shape[1]]), both[:, q.shape[1] :], None
    else:
        z, z_image = apply(metric, q, starts, own)
        w = apply(metric, Y[used[-1]], starts, own)[0] if scaled else q
    if scaled:  # the latest step tells the true scale of the curvature
        last = rho[used[-1]]
        bent = dots(w, Y[used[-1]], starts)
        known = (last > 0) & (bent > 0)
        z = z * spread(np.divide(1.0, last * bent, out=np.ones(len(bent)), where=known), starts)
    for i in used:
        beta = rho[i] * dots(Y[i], z if z_image is None else z_image, starts)
        change = spread(alpha[i] - beta, starts)
        z += change * S[i]
        if z_image is not None:
            z_image += change * images[i]
    return z, z_image


def apply(metric: Metric, v: Array, starts: np.ndarray, own: Any = None) -> tuple[Array, Any]:
    """The metric's inverse times v, and the image of the result in the kernel form."""
    if metric.stretch is not None:
        offset, factors = metric.stretch
        z, _ = apply(metric._replace(stretch=None), rescaled(v, offset, starts, factors, 1.0), starts, own)
        return rescaled(z, offset, starts, factors, 1.0), None
    if metric.kind == "diagonal":
        return metric.matrix[:, None] * v, None
    if metric.kind == "gram":
        return cho_solve((metric.matrix, True), v, check_finite=False), None
    if metric.kind == "reduced":
        L, R, T = metric.matrix
        z = cho_solve((L, True), solve_triangular(R, T @ v, lower=True, check_finite=False), check_finite=False)
        return T.T @ solve_triangular(R, z, lower=True, trans=1, check_finite=False), None
    if metric.kind == "kernel":
        z = cho_solve((metric.matrix, True), v, check_finite=False)
        return z, metric.states * (v - metric.ridge * z)
    if metric.kind == "exclusive":  # inverse without rows and columns F, from the whole one: B - B_F B_FF^-1 B_F'
        B = metric.matrix
        z = B @ v
        for o, F in enumerate(own):
            a, b = starts[o], starts[o + 1]
            z[:, a:b] -= B[:, F] @ solve(B[np.ix_(F, F)], z[F, a:b], assume_a="pos", check_finite=False)
            z[F, a:b] = 0.0
        return z, None
    if isinstance(metric.matrix, list):  # a pseudo-inverse for every output
        z = np.zeros_like(v)
        for o, (kept, P) in enumerate(metric.matrix):
            a, b = starts[o], starts[o + 1]
            z[kept, a:b] = P @ v[kept, a:b]
        return z, None
    return metric.matrix @ v, None


def diagonal_metric(counts: Array, ridge: float, states: float, active: int) -> Metric:
    """Inverse diagonal of (3); `states` then holds the length of the first step, one over the features of a row."""
    return Metric(
        "diagonal",
        1.0 / np.maximum(counts / states + ridge, 1e-8 * max(counts.max(initial=0.0), 1e-300)),
        ridge,
        1.0 / max(active, 1),
    )


def full_metric(G: Array, ridge: float, states: float, kind: str, basis: Any = None) -> Metric:
    """The Cholesky factor of (3), or its inverse for "exclusive"; G is a Gram matrix, of features or (kind "kernel") of rows.

    Without a ridge G is singular, and its null space, where no gradient points, gets a millionth of the mean diagonal.
    """
    A = G / states
    floor = 0.0 if kind == "kernel" else (1e-9 if kind == "reduced" else 1e-6) * float(np.trace(A)) / max(len(A), 1)
    A[np.diag_indices_from(A)] += max(ridge, floor)
    L, _ = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
    if kind == "exclusive":
        B, _ = dpotri(L, lower=1)
        L = np.tril(B) + np.tril(B, -1).T
    if kind == "reduced":
        return Metric(kind, (L, basis.R, basis.T), ridge, states)
    return Metric(kind, L, ridge, states)


def pinv_metric(G: Array, ridge: float, own: Any = None) -> Metric:
    """(G + ridge)^+ of the seed's iteration; with `own`, one for every output, without its own features."""

    def pinv(A: Array) -> Array:
        values, vectors = eigh(A + ridge * np.eye(len(A)), check_finite=False)
        kept = values > RANK_CUT * max(values[-1], 0.0)
        return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T

    if own is None:
        return Metric("pinv", pinv(G), ridge, 1.0)
    rest = [np.setdiff1d(np.arange(len(G)), F) for F in own]
    return Metric("pinv", [(kept, pinv(G[np.ix_(kept, kept)])) for kept in rest], ridge, 1.0)
