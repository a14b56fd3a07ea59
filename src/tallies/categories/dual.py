"""FEM in its rows: the kernel form, which needs no feature and climbs by Newton's method.

Every optimum is W = sum_i x_i a_i', and rows that agree in a number of variables share so many choose k products of degree k:
    1.  h = K a,   K_ij = sum_k C(matches of i and j, k)
    2.  f(a) = sum_i (y_i'h_i - w_i log sum exp h_i) - ridge/2 a'Ka,   gradient K g with g = y - w p - ridge a
    3.  Newton's step: (V K + ridge) z = g,   V_i = w_i (diag p_i - p_i p_i')
Both sides of (3) stand for products with K, in whose inner product, <u, v> = u'Kv, the matrix is symmetric: conjugate gradients
solve it, given the inverse for one number v_i in place of each V_i (of two classes that is V itself, and one step of them):
    4.  z = s (s K s + ridge)^-1 (g / s) with s = sqrt(v),   K z = (g - ridge z) / v
Rows that are told nearly for certain have no curvature to speak of, v_i K_ii below ridge: for them (3) is z_i = g_i / ridge, and
the matrix to factor is that of the others alone. So a fit that is nearly perfect, where a metric made at W = 0 is of no use,
takes a few steps, and they are cheap.
References: Keerthi et al. 2005; Rasmussen and Williams 2006, ch. 3; Nocedal and Wright, Numerical Optimization, ch. 7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq

from tallies import lbfgs
from tallies.categories.model import Rows, Solver
from tallies.categories.products import starts_of
from tallies.categories.solvers import SLACK, scale, spread
from tallies.categories.terms import Layout
from tallies.engine import Model, State
from tallies.forms import Form
from tallies.maths import Array

INNER = 12  # conjugate gradient steps of one step of Newton's, at most
SINGLE = 1e-6  # of the trace of a matrix: the least eigenvalue that single precision tells from 0
NEARLY = 0.1  # share of the slope that may be left at the end of a step
FARTHEST = 64.0  # steps of Newton's in one
FORCING = 0.01  # share of the squared residual at which they end, at most: a fit that is to be more exact has less


class Shard(NamedTuple):
    K: Array  # (l, l)
    single: np.ndarray  # K in single precision
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
        layout, codes = self.model.layout, self.rows.codes
        matched = np.zeros((len(codes), len(codes)), np.float32)  # whole numbers below 2^24: exact
        first = starts_of(layout.sizes)
        for part in np.array_split(np.arange(codes.shape[1]), 1 + first[-1] // WIDE):
            states = (codes[:, part, None] == np.arange(max(layout.sizes))).reshape(len(codes), -1)
            X = states[:, states.any(axis=0)].astype(np.float32)
            matched += X @ X.T
        table = np.array([float(sum(comb(agree, k) for k in layout.degrees)) for agree in range(codes.shape[1] + 1)])
        judged = None if self.judges is None else self.judges.Y
        K = table[matched.astype(np.int32)]
        return Shard(K, K.astype(np.float32), self.rows.Y, self.rows.weight, judged)


WIDE = 2048  # one-hot columns at a time


class Survey(NamedTuple):
    shape: Array  # (l, M)


class Tally(NamedTuple):
    value: Array  # (n_out,)  objective at the trial point
    good: Array  # (n_out,)  whether the trial is good enough to be taken
    Z: Array  # (l, M)  Newton's step from there, where it is
    slope: Array  # (n_out,)  gradient along it
    length: Array  # (n_out,)  of Z that is best


Numbers = Annotated[np.ndarray, Form("o", "f", nan=True)]
Flags = Annotated[np.ndarray, Form("o", "b")]
Vector = Annotated[np.ndarray, Form("l M", "f", nan=True)]


class Climb(NamedTuple):
    """Params: where Newton's method stands."""

    W: Vector  # a, the best so far
    Z: Vector  # Newton's step from there
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
    solver: ClassVar[Solver] = "kernel"

    @property
    def starts(self) -> np.ndarray:
        """(n_out + 1,)  first column of each output."""
        return starts_of(self.outputs)

    def surveys_like(self, other: Model) -> bool:
        return isinstance(other, Dual) and replace(other, ridge=self.ridge, tol=self.tol) == self

    def survey(self, shard: Shard) -> Survey:
        return Survey(np.array(shard.Y.shape))

    def first(self, survey: Survey, W: Array | None = None, pair_ridges: None = None) -> Climb:
        """The start of a fit at dual weights, such as the end of another; None: at 0."""
        shape, zero = tuple(survey.shape.tolist()), np.zeros(len(self.outputs))
        a = np.zeros(shape) if W is None or W.shape != shape else np.asarray(W, dtype=np.float64)
        no = np.zeros(len(zero), dtype=bool)
        return Climb(a, np.zeros(shape), zero - np.inf, zero, zero, zero, no, no)

    def _blocks(self, H: Array) -> Array:
        """(l, n_out, m) of (l, M)."""
        return H.reshape(len(H), len(self.outputs), -1)

    def _trial(self, params: Climb) -> Array:
        return params.W + spread(params.step, self.starts) * params.Z

    def sweep(self, shard: Shard, latents: None, params: Climb, rng: np.random.Generator) -> tuple[Tally, None]:
        K, single, Y, weight, _ = shard
        if params.W.shape != Y.shape or params.Z.shape != Y.shape:  # a checkpoint may have brought them
            raise ValueError(f"a point of the fit should have the shape {Y.shape}, and has {params.W.shape}")
        a = self._trial(params)
        H = K @ a
        P, lse = softmax(self._blocks(H))
        inside = self._blocks((Y - 0.5 * self.ridge * a) * H).sum(axis=(0, 2))
        value = inside - np.einsum("io,io->o", weight, lse)  # eq. 2
        good = np.isinf(params.value) | lbfgs.falls(-params.value, -value, params.step, -params.slope)
        g = self._blocks(Y - self.ridge * a) - weight[:, :, None] * P
        Z, slope, length = np.zeros_like(g), np.zeros(len(value)), np.ones(len(value))
        for o in np.flatnonzero(good & ~params.last & ~params.done):
            z, Kz = newton(K, single, g[:, o], P[:, o], weight[:, o], self.ridge, min(FORCING, self.tol))
            Z[:, o], slope[o] = z, _dot(g[:, o], Kz)
            length[o] = best_length(self._blocks(H)[:, o], Kz, g[:, o], P[:, o], weight[:, o], self.ridge * _dot(z, Kz))
        return Tally(value, good, Z.reshape(a.shape), slope, length), None

    def update(self, params: Climb, tally: Tally, rng: np.random.Generator) -> Climb:
        value, good, Z, slope, length = tally
        good = good & ~params.done
        shorter = lbfgs.backtrack(params.step, -params.slope, params.value - value)
        # a step too short to change anything: the objective is flat to rounding
        done = params.done | params.last | (~good & (shorter * params.slope <= SLACK * np.abs(params.value)))
        taken = spread(good, self.starts)
        a, Z = np.where(taken, self._trial(params), params.W), np.where(taken, Z, params.Z)
        value, slope = np.where(good, value, params.value), np.where(good, slope, params.slope)
        start = np.where(params.start == 0, value, params.start)
        last = good & ~done & (0.5 * slope <= self.tol * scale(value, start))
        return Climb(a, Z, value, slope, np.where(done, 0.0, np.where(good, length, shorter)), start, last, done)

    def objective(self, tally: Tally, before: Climb, after: Climb) -> float:
        """Penalised log likelihood of the best point."""
        return float(after.value.sum())

    def done(self, state: State) -> bool:
        return bool(state.params.done.all())

    def rows(self, shard: Shard, latents: None, params: Climb) -> Array:
        """(l,)  weighted log likelihood of what every row holds out."""
        assert shard.judged is not None
        H = self._blocks(shard.K @ params.W)
        return (self._blocks(shard.judged) * (H - softmax(H)[1][:, :, None])).sum(axis=(1, 2))


def softmax(H: Array) -> tuple[Array, Array]:
    """(l, o, m) and (l, o)  p under scores H, and log sum exp."""
    top = H.max(axis=2, keepdims=True)
    P = np.exp(H - top)
    total = P.sum(axis=2, keepdims=True)
    P /= total
    return P, (top + np.log(total))[:, :, 0]


def newton(K: Array, single: np.ndarray, g: Array, P: Array, weight: Array, ridge: float, forcing: float) -> tuple[Array, Array]:
    """(l, m)  z, the solution of eq. 3 for one output, and K z."""
    m = P.shape[1]
    v = weight * (1.0 - np.square(P).sum(axis=1)) / (m - 1)
    two = m == 2  # columns are one another's opposite, and V is v
    r: Any = g[:, 1:] if two else g
    solve, enough = _inverse(K, single, v, ridge), forcing * _dot(r, r)
    x, Kx = np.zeros_like(r), np.zeros_like(r)
    d, Kd = solve(r)
    rz = _dot(r, Kd)
    none = np.finfo(float).eps * len(K) * K.max() / ridge  # r'K r / ridge, a share of r'r: what is left moves no row, K r = 0
    for _ in range(INNER):
        if rz <= none * _dot(r, r):
            break
        q = (v[:, None] * Kd if two else weight[:, None] * P * (Kd - (P * Kd).sum(axis=1, keepdims=True))) + ridge * d
        length = rz / _dot(q, Kd)
        x, Kx, r = x + length * d, Kx + length * Kd, r - length * q
        if _dot(r, r) <= enough:
            break
        z, Kz = solve(r)
        rz, before = _dot(r, Kz), rz
        d, Kd = z + rz / before * d, Kz + rz / before * Kd
    return (np.hstack([-x, x]), np.hstack([-Kx, Kx])) if two else (x, Kx)


def best_length(H: Array, Kz: Array, g: Array, P: Array, weight: Array, bend: float) -> float:
    """How far to go along a step: 1 where Newton's parabola holds, and more where all rows grow surer together.

    The slope of eq. 2 after t steps is g'Kz - w'(p_t - p)'Kz - t ridge z'Kz, with p_t at the scores H + t Kz.
    """
    first = _dot(g, Kz)

    def slope(t: float) -> float:
        P_t = softmax((H + t * Kz)[:, None])[0][:, 0]
        return first - _dot(weight[:, None] * (P_t - P), Kz) - t * bend

    far = 1.0
    if abs(slope(far)) <= NEARLY * first:
        return far
    while far < FARTHEST and slope(far) > 0:
        far *= 2
    return brentq(slope, 0.0, far, rtol=NEARLY) if slope(far) < 0 else far


def _dot(A: Array, B: Array) -> float:
    return float(np.einsum("im,im->", A, B))


def _inverse(K: Array, single: np.ndarray, v: Array, ridge: float) -> Any:
    """Eq. 4 as a function of g, which gives z and K z; in single precision, under a larger ridge where that needs one."""
    curved = v * K.diagonal()
    A = np.flatnonzero(curved > ridge)
    s = np.sqrt(v[A])[:, None].astype(np.float32)
    inner = single[A].take(A, axis=1)
    inner *= s
    inner *= s.T
    inner[np.diag_indices_from(inner)] += max(ridge, SINGLE * curved[A].sum())
    L = cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)

    def solve(g: Array) -> tuple[Array, Array]:
        z = g / ridge
        z[A] = 0.0
        rest = g[A] - v[A, None] * (K @ z)[A] if z.any() else g[A]  # at W = 0 nothing is left beside A
        z[A] = s * cho_solve(L, (rest / s).astype(np.float32), check_finite=False)
        return z, K @ z

    return solve
