"""The objectives of some outputs of a network, and L-BFGS of every one by itself: eq. 1 to 3 of `panels`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies import lbfgs
from tallies.categories.kernels import panels as kernels
from tallies.categories.products import starts_of
from tallies.maths import Array

PAD = 32  # columns are padded to a multiple of this: loops over them have no rest
# where features tell the same in turn, the slope in a metric of single sites tells that much less than is left to gain
TRUST = 1e-3
WINDOW = 4  # steps of which the gains are added, to see how those fall
FREE = 0.01  # ridge of a bias in terms of the common one where pairs have their own, as in `model`
SLOWEST = 0.95  # share of the gain before that the latest may seem to have: one that had more says nothing of those to come
FLAT = 1e-6  # least ridge of the metric, in terms of its mean diagonal: without one it is singular


class Problem:
    """The objectives of some outputs, with their metric: eq. 1, 2 and 4 in padded columns."""

    def __init__(self, model: Any, table: Any, outputs: np.ndarray, pair_ridges: Array | None):
        m, self.first, self.table = np.array(model.sizes), model.first, table
        self.sizes, self.outputs, self.starts = m, outputs, starts_of(tuple(m[outputs].tolist()))
        self.columns, self.exclude = int(self.starts[-1]), model.exclude
        self.width, self.now = -(-self.columns // PAD) * PAD, np.ascontiguousarray(table.now[outputs])
        self.mean_ridge = model.ridge if pair_ridges is None else FREE * model.ridge
        R = np.full((len(m), len(outputs)), model.ridge) if pair_ridges is None else pair_ridges[:, outputs]
        self.ridge = self.padded(self.wide(R), 1.0)

    def wide(self, values: np.ndarray) -> np.ndarray:
        """(..., n_out) -> (..., columns)."""
        return np.repeat(values, np.diff(self.starts), axis=-1)

    def padded(self, values: np.ndarray, fill: float = 0.0) -> np.ndarray:
        """(..., columns) -> (..., width), rows contiguous: some columns of an array may come the other way round."""
        out = np.full((*values.shape[:-1], self.width), fill, values.dtype)
        out[..., : self.columns] = values
        return out

    def each(self, values: np.ndarray, dtype: Any) -> np.ndarray:
        """(n_out,) -> (width,)."""
        return self.padded(self.wide(values)).astype(dtype)

    def _exclude(self, V: Array) -> Array:
        if self.exclude:
            for k, o in enumerate(self.outputs):
                V[self.first[o] : self.first[o + 1], self.starts[k] : self.starts[k + 1]] = 0.0
        return V

    def at(self, W: Array) -> tuple[Array, Array]:
        """Objective of each output, and gradient."""
        G, value, (past, _, weight, _) = np.zeros_like(W), np.zeros(len(self.outputs)), self.table[:4]
        kernels.evaluate(past, self.now, weight, self.first, self.starts, W, G, value)
        penalty = kernels.pull(W, self.first, self.sizes, self.ridge, self.mean_ridge, G)
        return value - np.add.reduceat(penalty[: self.columns], self.starts[:-1]), self._exclude(G)

    def measure(self, W: Array) -> None:
        """Make the metric at W."""
        past, _, weight = self.table[:3]
        self.D = np.zeros_like(W)
        kernels.bend(past, self.now, weight, self.first, self.starts, W, self.D)
        self.total = np.maximum(self.D[: self.first[1]].sum(axis=0, dtype=np.float64), 1e-300)  # every row has a state, or none
        self.D[self.first[1:] - 1] = 0.0
        self.bent = np.maximum(self.ridge, FLAT * self.total)

    def solve(self, V: Array) -> Array:
        """A^-1 V of eq. 3, less its mean over the states of each output, where the optimum has none.

        Along that mean the likelihood is flat, and eq. 3, which has states apart, is not: steps into it were what took longest
        to mend.
        """
        Z = np.empty_like(V)
        kernels.solve(self.D, self.total, self.first, self.sizes, self.bent, V, Z)
        kernels.centre(Z, self.starts)
        return self._exclude(Z)

    def dots(self, A: Array, B: Array) -> Array:
        """Inner products, output by output."""
        return np.add.reduceat(kernels.dots(A, B)[: self.columns], self.starts[:-1])


def climb(problem: Problem, W: Array, steps: int, floor: float) -> tuple[Array, Array, Array, Array]:
    """Some steps of L-BFGS of every output by itself: W, what the objectives were and are, and which are at their end.

    An output rests where its next step promises next to nothing, TRUST times a share `floor` of its objective. It is at its end
    where the next step promises no more than that share, and the gains of its last steps fall so fast that all that are to come
    would not bring more.
    """
    x, eps = problem.padded(W), float(np.finfo(W.dtype).eps)
    problem.measure(x)
    value, g = problem.at(x)
    values, enough = [value], TRUST * floor
    took, stuck, ended = np.zeros((3, len(value)), dtype=bool)
    d = z = problem.solve(g)
    slope, step = problem.dots(g, z), np.ones(len(value))
    S: list[Array] = []  # changes of x, and of D times the gradient of -f
    Z: list[Array] = []
    sy, yDy = np.zeros((2, steps, steps, len(value)))
    for t in range(steps):
        done = stuck | ended | (0.5 * slope <= enough * np.abs(value))
        if done.all():
            break
        x1 = x + problem.each(np.where(done, 0.0, step), W.dtype) * d
        value1, g1 = problem.at(x1)
        good = ~done & (value1 >= value + 1e-4 * step * slope - eps * np.abs(value))
        took |= good
        shorter = lbfgs.backtrack(step, -slope, value - value1)
        stuck |= ~done & ~good & (shorter * slope <= eps * np.abs(value))
        stays = problem.each(~good, bool)
        if not good.all():
            x1[:, stays], g1[:, stays] = x[:, stays], g[:, stays]
        z1, y = problem.solve(g1), g - g1
        S.append(x1 - x)
        Z.append(z - z1)
        sy[: t + 1, t] = [problem.dots(s, y) for s in S]
        yDy[: t + 1, t] = yDy[t, : t + 1] = [problem.dots(u, y) for u in Z]
        x, g, z, value = x1, g1, z1, np.where(good, value1, value)
        d1 = _direction(problem, g, z, S, Z, sy[: t + 1, : t + 1], yDy[: t + 1, : t + 1])
        d = d1 if good.all() else np.where(stays, d, d1)
        slope, step = np.where(good, problem.dots(g, d), slope), np.where(good, 1.0, shorter)
        values.append(value)
        ended |= good & (np.maximum(0.5 * slope, _to_come(values)) <= floor * np.abs(value))
    rests = stuck | (0.5 * slope <= enough * np.abs(value))
    before = np.where(took | rests, values[0], -np.inf)  # whoever still looks for a step is not done
    return x[:, : problem.columns], before, value, ended


def _to_come(values: list[Array]) -> Array:
    """What more steps would gain, by the gains of the last and of the windows before; infinite before there are two."""
    if len(values) <= 2 * WINDOW:
        return np.full(len(values[0]), np.inf)
    middle = values[-1 - WINDOW]
    return yet_to_gain(middle - values[-1 - 2 * WINDOW], values[-1] - middle)


def yet_to_gain(before: Array, latest: Array) -> Array:
    """What is still to be gained, if all gains to come are as much less than those before as the latest were: a geometric series.

    >>> yet_to_gain(np.array([8.0, np.nan]), np.array([2.0, 3.0])).round(3).tolist()      # 2/4 + 2/16 + ...
    [0.667, 3.0]
    """
    share = np.divide(latest, before, out=np.full_like(latest, 0.5), where=np.isfinite(before) & (before > 0))
    share = np.clip(share, 0.0, SLOWEST)
    return latest * share / (1 - share)


def _direction(problem: Problem, g: Array, z: Array, S: list[Array], Z: list[Array], sy: Array, yDy: Array) -> Array:
    sg, yDg = (-np.array([problem.dots(v, g) for v in vectors]) for vectors in (S, Z))
    gamma, of_y, of_s = lbfgs.direction(lbfgs.Dots(sy, sg, yDy, yDg), range(len(S)), (0.0, np.inf))
    d = problem.each(gamma, z.dtype) * z
    for vectors, shares in ((S, of_s), (Z, of_y)):
        for v, share in zip(vectors, shares, strict=True):
            d -= problem.each(share, z.dtype) * v
    return d
