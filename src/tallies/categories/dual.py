"""FEM in its rows: the kernel form, which needs no feature and climbs by Newton's method.

Every optimum is W = sum_i x_i a_i', and rows that agree in a number of variables share so many choose k products of degree k:
    1.  h = K a,   K_ij = sum_k C(matches of i and j, k)
    2.  f(a) = sum_i (y_i'h_i - w_i log sum exp h_i) - ridge/2 a'Ka,   gradient K g with g = y - w p - ridge a
    3.  Newton's step: (V K + ridge) z = g,   V_i = w_i (diag p_i - p_i p_i')
Both sides of (3) stand for products with K, in whose inner product, <u, v> = u'Kv, the matrix is symmetric: conjugate gradients
solve it, given the inverse for one number v_i in place of each V_i (of two classes that is V itself, and one step of them):
    4.  (v K + ridge)^-1 g, which `row_products` has: of K itself, or of its factor where effects are fewer than rows
So a fit that is nearly perfect, where a metric made at W = 0 is of no use, takes a few steps, and they are cheap: rows that are
told nearly for certain have no curvature to speak of, and stay out of the matrix to factor.
References: Keerthi et al. 2005; Rasmussen and Williams 2006, ch. 3; Nocedal and Wright, Numerical Optimization, ch. 7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tallies import lbfgs
from tallies.categories.model import Rows, Solver
from tallies.categories.products import starts_of
from tallies.categories.row_products import Factored, Full, row_products
from tallies.categories.solvers import SLACK, scale, spread
from tallies.categories.terms import Layout
from tallies.engine import Model, State
from tallies.forms import Form
from tallies.maths import Array

FAINTEST = 1e-5  # ridge: what is left of the gradient is divided by it, and rounding with it
INNER = 12  # conjugate gradient steps of one step of Newton's, at most
NEARLY = 0.1  # share of the slope that may be left at the end of a step
FARTHEST = 64.0  # steps of Newton's in one
MOSTLY = 0.99  # share of the weights that rows of the fit have where it starts at the end of one to the same rows
FORCING = 0.01  # share of the squared residual at which they end, at most: a fit that is to be more exact has less


class Shard(NamedTuple):
    K: Full | Factored
    Y: Array  # (l, M)  weighted counts of each output state
    weight: Array  # (l, n_out)
    judged: Array | None  # (l, M)  held-out counts to judge by


class Whole(NamedTuple):
    """A source: all rows, each of which is tied to every other."""

    model: Dual
    rows: Rows
    judges: Rows | None  # the same rows, with what of them is held out

    def load(self, *shared: Any) -> Shard:
        """The rows with K of eq. 1."""
        judged = None if self.judges is None else self.judges.Y
        return Shard(row_products(self.rows.codes, self.model.layout), self.rows.Y, self.rows.weight, judged)


class Survey(NamedTuple):
    shape: Array  # (l, M)


class Tally(NamedTuple):
    value: Array  # (n_out,)  objective at the trial point
    good: Array  # (n_out,)  whether the trial is good enough to be taken
    H: Array  # (l, M)  scores there
    Z: Array  # (l, M)  Newton's step from there, where it is
    KZ: Array  # (l, M)
    slope: Array  # (n_out,)  gradient along it
    length: Array  # (n_out,)  of Z that is best


Numbers = Annotated[np.ndarray, Form("o", "f", nan=True)]
Flags = Annotated[np.ndarray, Form("o", "b")]
Vector = Annotated[np.ndarray, Form("l M", "f", nan=True)]


class Climb(NamedTuple):
    """Params: where Newton's method stands."""

    W: Vector  # a, the best so far
    H: Vector  # scores there, K a; before the first sweep 0
    Z: Vector  # Newton's step from there
    KZ: Vector
    value: Numbers  # objective there
    slope: Numbers  # gradient along Z
    step: Numbers  # length of Z that the next sweep tries
    start: Numbers  # objective at the first point
    last: Flags  # the step to try is the last: what it gains is small, and what is left then next to nothing
    done: Flags


@dataclass(frozen=True)
class Dual(Model):
    """Multinomial regressions of several outputs, all with as many states, on all products of the layout's degrees."""

    layout: Layout
    outputs: tuple[int, ...]  # (n_out,)  how many states each has
    ridge: float = 1.0
    tol: float = 1e-8  # done when the objective had no more to gain than this share of it before the last step
    fitted: tuple[int, int] | None = None  # outputs from the first on, up to the second; the others rest. None: all
    solver: ClassVar[Solver] = "kernel"

    @property
    def starts(self) -> np.ndarray:
        """(n_out + 1,)  first column of each output."""
        return starts_of(self.outputs)

    def surveys_like(self, other: Model) -> bool:
        return isinstance(other, Dual) and replace(other, ridge=self.ridge, tol=self.tol, fitted=self.fitted) == self

    def survey(self, shard: Shard) -> Survey:
        return Survey(np.array(shard.Y.shape))

    def first(self, survey: Survey, W: Array | None = None, pair_ridges: None = None) -> Climb:
        """The start of a fit at dual weights, such as the end of another; None: at 0."""
        shape, zero = tuple(survey.shape.tolist()), np.zeros(len(self.outputs))
        a = np.zeros(shape) if W is None or W.shape != shape else np.asarray(W, dtype=np.float64)
        rest = np.ones(len(zero), dtype=bool)
        rest[slice(*self.fitted or (None,))] = False
        none = np.zeros(shape)
        return Climb(a, none, none, none, np.where(rest, 0.0, -np.inf), zero, zero, zero, np.zeros_like(rest), rest)

    def _blocks(self, H: Array) -> Array:
        """(l, n_out, m) of (l, M)."""
        return H.reshape(len(H), len(self.outputs), -1)

    def _trial(self, params: Climb) -> tuple[Array, Array]:
        """a and K a."""
        step = spread(params.step, self.starts)
        return params.W + step * params.Z, params.H + step * params.KZ

    def sweep(self, shard: Shard, latents: None, params: Climb, rng: np.random.Generator) -> tuple[Tally, None]:
        K, Y, weight, _ = shard
        if any(part.shape != Y.shape for part in params[:4]):  # a checkpoint may have brought them
            raise ValueError(f"a point of the fit should have the shape {Y.shape}, and has {params.W.shape}")
        on = np.flatnonzero(~params.done)
        a, H, Y = (self._blocks(part)[:, on] for part in (*self._trial(params), Y))
        weight, fresh = weight[:, on], np.isinf(params.value)
        if fresh.any() and a.any():
            H = K.times(a)
        scores = np.zeros_like(self._blocks(params.H))
        scores[:, on] = H
        P, lse = softmax(H)
        value = params.value.copy()
        value[on] = ((Y - 0.5 * self.ridge * a) * H).sum(axis=(0, 2)) - np.einsum("io,io->o", weight, lse)  # eq. 2
        good = fresh | lbfgs.falls(-params.value, -value, params.step, -params.slope)
        goes = (good & ~params.last)[on]
        Z, KZ, slope, length = np.zeros_like(scores), np.zeros_like(scores), np.zeros(len(value)), np.ones(len(value))
        if goes.any():
            on, a, H, P, Y, weight = on[goes], *(part[:, goes] for part in (a, H, P, Y, weight))
            g = Y - self.ridge * a - weight[:, :, None] * P
            along, known = np.abs(_dots(g, H)) > self.tol * np.abs(value[on]), np.abs(a[weight > 0]).sum()
            if fresh.any() and along.all() and known > MOSTLY * np.abs(a).sum():
                # at the end of another ridge, not of other rows: first as far along a itself as pays, which needs no factor
                sign = np.sign(_dots(g, H))[:, None]
                z, Kz = sign * a, sign * H
            else:
                z, Kz = newton(K, g, P, weight, self.ridge, min(FORCING, self.tol**0.5))
            Z[:, on], KZ[:, on], slope[on], bend = z, Kz, _dots(g, Kz), self.ridge * _dots(z, Kz)
            length[on] = [best_length(H[:, k], Kz[:, k], g[:, k], P[:, k], weight[:, k], bend[k]) for k in range(len(on))]
        scores, Z, KZ = (part.reshape(params.Z.shape) for part in (scores, Z, KZ))
        return Tally(value, good, scores, Z, KZ, slope, length), None

    def update(self, params: Climb, tally: Tally, rng: np.random.Generator) -> Climb:
        value, good, H, Z, KZ, slope, length = tally
        good = good & ~params.done
        shorter = lbfgs.backtrack(params.step, -params.slope, params.value - value)
        # a step too short to change anything: the objective is flat to rounding
        done = params.done | params.last | (~good & (shorter * params.slope <= SLACK * np.abs(params.value)))
        taken = spread(good, self.starts)
        found, before = (self._trial(params)[0], H, Z, KZ), (params.W, params.H, params.Z, params.KZ)
        a, H, Z, KZ = (np.where(taken, new, old) for new, old in zip(found, before, strict=True))
        value, slope = np.where(good, value, params.value), np.where(good, slope, params.slope)
        start = np.where(params.start == 0, value, params.start)
        last = good & ~done & (0.5 * slope <= self.tol * scale(value, start)) & np.isfinite(params.value)
        return Climb(a, H, Z, KZ, value, slope, np.where(done, 0.0, np.where(good, length, shorter)), start, last, done)

    def objective(self, tally: Tally, before: Climb, after: Climb) -> float:
        """Penalised log likelihood of the best point."""
        return float(after.value.sum())

    def done(self, state: State) -> bool:
        return bool(state.params.done.all())

    def rows(self, shard: Shard, latents: None, params: Climb) -> Array:
        """(l,)  weighted log likelihood of what every row holds out."""
        assert shard.judged is not None
        a = self._blocks(params.W) * (shard.weight > 0)[:, :, None]  # 0 at the optimum: what is held out tells nothing
        H = shard.K.times(a)
        return (self._blocks(shard.judged) * (H - softmax(H)[1][:, :, None])).sum(axis=(1, 2))


def softmax(H: Array, axis: int = 2) -> tuple[Array, Array]:
    """(l, o, m) and (l, o)  p under scores H, whose states are along an axis, and log sum exp."""
    P = H - (top := H.max(axis=axis, keepdims=True))
    np.exp(P, out=P)
    total = P.sum(axis=axis, keepdims=True)
    P /= total
    return P, (top + np.log(total)).squeeze(axis)


def newton(K: Full | Factored, g: Array, P: Array, weight: Array, ridge: float, forcing: float) -> tuple[Array, Array]:
    """(l, o, m)  z, the solution of eq. 3 for some outputs, and K z: products with K are those of all of them at once."""
    v = weight * (1.0 - np.square(P).sum(axis=2)) / (P.shape[2] - 1)
    inverse = K.inverse(v, ridge)  # eq. 4

    def solve(r: Array) -> tuple[Array, Array]:
        z = inverse(r[:, :, 1:], on)
        return _all_states(z), _all_states(K.times(z))

    r, whole, on = g, _dots(g, g), np.ones(v.shape[1], dtype=bool)
    x, Kx = np.zeros_like(r), np.zeros_like(r)
    d, Kd = solve(r)
    rz = _dots(r, Kd)
    none = np.finfo(float).eps * len(g) ** 0.5 * K.diagonal.max() / ridge  # a share of r'r: what is left moves no row
    for _ in range(INNER):
        on &= rz > none * _dots(r, r)
        q = weight[:, :, None] * P * (Kd - (P * Kd).sum(axis=2, keepdims=True)) + ridge * d
        length = _over(rz, _dots(q, Kd), on)
        x, Kx, r = x + length * d, Kx + length * Kd, r - length * q
        on &= _dots(r, r) > forcing * whole
        if not on.any():
            break
        z, Kz = solve(r)
        rz, before = _dots(r, Kz), rz
        more = _over(rz, before, on)
        d, Kd = z + more * d, Kz + more * Kd
    return x, Kx


def _all_states(a: Array) -> Array:
    """(l, o, m) of all states but the first: rows, and products with K, sum to 0 over the states."""
    return np.concatenate([-a.sum(axis=2, keepdims=True), a], axis=2)


def _over(a: Array, b: Array, on: np.ndarray) -> Array:
    """(o, 1)  a / b; 0 of outputs that rest."""
    return np.divide(a, b, out=np.zeros_like(a), where=on)[:, None]


def best_length(H: Array, Kz: Array, g: Array, P: Array, weight: Array, bend: float) -> float:
    """How far to go along a step: 1 where Newton's parabola holds, and more where all rows grow surer together.

    The slope of eq. 2 after t steps is g'Kz - w'(p_t - p)'Kz - t ridge z'Kz, with p_t at the scores H + t Kz.
    """
    from scipy.optimize import brentq  # which takes 20 MB of a worker

    first = _dot(g, Kz)
    H, Kz, P = (np.ascontiguousarray(part.T) for part in (H, Kz, P))  # (m, l): sums of a few states along rows of memory
    pulled = weight * Kz

    def slope(t: float) -> float:
        return first - _dot(softmax(H + t * Kz, axis=0)[0] - P, pulled) - t * bend

    far = 1.0
    if abs(slope(far)) <= NEARLY * first:
        return far
    while far < FARTHEST and slope(far) > 0:
        far *= 2
    return brentq(slope, 0.0, far, rtol=NEARLY) if slope(far) < 0 else far


def _dot(A: Array, B: Array) -> float:
    return float(np.einsum("im,im->", A, B))


def _dots(A: Array, B: Array) -> Array:
    return np.einsum("iom,iom->o", A, B)
