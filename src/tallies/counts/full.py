"""The variational fit of a PLN whose covariance is full, diagonal, spherical or given: the five verbs and their tables.

With q_i = N(M_i, diag S2_i), row weights v_i, N = sum v_i, R = M - X B and A = exp(O + M + S2/2), the bound is

    J = sum_i v_i [Y(O + M) - A - log Y! + (log S2 + 1)/2] - (N log|Sigma| + tr Omega (R'vR + diag sum v S2)) / 2     (eq. 1)

B = (X'vX)^-1 X'vM and Sigma = (R'vR + diag sum v S2) / N are its maximum given the rows, so they are profiled out. S2 is
eliminated through p scalars w_j, of which S2_ij is the root of

    S2_ij (w_j + A_ij) = 1                                                                                            (eq. 2)

(at the optimum w_j = Omega_jj). What is left, F(M, log w) = -J, is smooth and unconstrained; with u = S2^2 / (1 + S2^2 A/2)

    dF/dM = v (R Omega + A - Y + (w - Omega_jj) u A / 2),       dF/dlog w = w (w - Omega_jj) sum_i v u / 2            (eq. 3)

F is minimised by preconditioned L-BFGS. M and the pairs stay with their shard (`models.lbfgs`), so an iteration takes two sweeps:
one tries a step and adds up R'vR, one takes the gradient and adds up the dot products. A trial that does not lower F
is tried again, shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from tallies import lbfgs
from tallies.counts.kernels import plain as pln_plain
from tallies.counts.records import FullLatents, FullParams, FullTally, Shard, Survey

MEMORY = 5  # pairs kept by L-BFGS
START, TRIAL, GRADIENT = 0, 1, 2  # what the next sweep does
REACH_M, REACH_W = 3.0, 1.0  # longest step of one mean and of one log w: beyond e^3 the exponential is not a parabola
SMALL = 10_000  # counts below which NumPy ends before a compiler would have begun


@dataclass(frozen=True)
class Covariance:
    """The verbs. `kind` is "full", "diagonal", "spherical" or "given"; with `B` given too, only the rows are fitted."""

    kind: str = "full"
    Sigma: np.ndarray | None = None  # of kind "given"
    B: np.ndarray | None = None  # fixed coefficients: the projection of new rows
    w: np.ndarray | None = None  # of a former fit, to go on from
    single: bool = False  # begin in single precision
    tol: float = 1e-11  # stop when five steps together gain less than this part of the bound

    def survey(self, shard: Shard) -> Survey:
        vX = shard.v[:, None] * shard.X
        return Survey(
            shard.v.sum(),
            shard.v @ shard.Y,
            shard.v @ np.exp(shard.O),
            shard.X.T @ vX,
            _in_place(shard, _root(shard, shard.X)) if self._wide(shard) else None,
        )

    def init(self, survey: Survey, rng: np.random.Generator) -> FullParams:
        p, d = len(survey.n_j), len(survey.XvX)
        mean = np.log(np.maximum(survey.n_j, 0.5) / np.maximum(survey.e_j, 1e-300))
        B = self.B if self.B is not None else np.zeros((d, p))
        Omega, logdet, omega = (np.zeros(0), 0.0, np.ones(p)) if self.Sigma is None else _invert(self.Sigma)
        w = self.w if self.w is not None else np.array(omega)
        nothing = np.zeros(p)
        pairs = np.zeros((MEMORY, p))
        here = lbfgs.Direction(0.0, np.zeros(MEMORY), np.zeros(MEMORY))
        return FullParams(
            START,
            B,
            Omega,
            np.zeros((0, p)),
            omega,
            float(logdet),
            w,
            w,
            np.inf,
            (),
            0.0,
            0.0,
            False,
            self.single,
            True,
            here,
            nothing,
            mean,
            pairs,
            pairs,
            np.zeros((MEMORY, MEMORY)),
            (),
            -1,
            nothing,
            0,
            False,
            False,
            survey.XvX,
            float(survey.weight),
            survey.rootX,
        )

    def settle(self, shard: Shard, params: FullParams, rng: np.random.Generator) -> FullLatents:
        if shard.M is not None:
            M = np.array(shard.M)
        elif self.B is not None:
            M = shard.X @ self.B
        else:
            mean = params.g_w  # the log of the mean rate travels in an unused place
            M = mean + np.log((shard.Y + 1) / (np.exp(np.minimum(shard.O + mean, 60.0)) + 1))
        # single precision where there is much of it; the pairs stay so, since directions need few digits
        kind = np.float32 if self.single else np.float64
        M = M.astype(kind)
        rest = [np.zeros(M.shape, dtype=kind) for _ in range(5)]
        pairs = [np.zeros((MEMORY, *M.shape), dtype=kind) for _ in range(2)]
        copies = [shard.Y.astype(kind), np.maximum(shard.O, -200.0).astype(kind)] if self.single else [None, None]
        return FullLatents(M, np.full_like(M, 0.1), M.copy(), np.full_like(M, 0.1), *rest, *pairs, *copies)

    def sweep(
        self, shard: Shard, latents: FullLatents, params: FullParams, rng: np.random.Generator
    ) -> tuple[FullTally, FullLatents]:
        if params.phase == GRADIENT:
            return self._gradient(shard, latents, params)
        z = latents if params.single or latents.counts is None else _double(latents)
        steps, trial, Y, O = _loops(shard, z)
        slope = 0.0
        if params.phase == TRIAL and params.fresh:
            slope = steps.aim(*params.toward, _slots(params.order), z.g, z.D, z.S, z.Y, REACH_M, z.d)
        root = np.sqrt(shard.v)
        steps.move(z.M, params.step, z.d, shard.X, params.B.astype(z.M.dtype), root, z.M_trial, z.R)
        np.copyto(z.S2_trial, z.S2)
        fit, s2 = trial(z.M_trial, O, Y, shard.v, params.w_trial, z.S2_trial, z.A, 1e-2 if params.rough else 1e-4)
        P = _root(shard, shard.X).T.astype(z.R.dtype) @ z.R
        if params.phase == START or self.kind in ("diagonal", "spherical"):
            G = np.einsum("ij,ij->j", z.R, z.R)
        else:
            G = _in_place(shard, z.R) if self._wide(shard) else z.R.T @ z.R
        return FullTally(fit - shard.constant, slope, P.astype(np.float64), G, s2, *5 * [None]), z

    def _gradient(self, shard: Shard, z: FullLatents, params: FullParams) -> tuple[FullTally, FullLatents]:
        """Take the trial point as current; its gradient, its preconditioner, the new pair and the dot products."""
        steps, _, Y, _ = _loops(shard, z)
        if params.Omega.shape[0] == shard.rows and self._wide(shard):
            pull = params.Omega[shard.start : shard.start + len(shard.Y)]
        else:
            pull = z.R * params.Omega if params.Omega.ndim == 1 else z.R @ params.Omega
        pull, slots = pull.astype(z.A.dtype, copy=False), _slots(params.order, params.slot)
        rest = z.S2_trial, params.w, params.omega, (z.M_trial, z.M), params.slot, slots, z.g, z.D, z.S, z.Y
        sums = steps.slopes(pull, shard.X, params.shift, np.sqrt(shard.v), z.A, Y, *rest)
        return FullTally(0.0, 0.0, None, None, None, *sums), z._replace(M=z.M_trial, S2=z.S2_trial, M_trial=z.M, S2_trial=z.S2)

    def update(self, params: FullParams, tally: FullTally, rng: np.random.Generator) -> FullParams:
        if params.phase == GRADIENT:
            return self._aim(params, tally)
        return self._begin(params, tally) if params.phase == START else self._judge(params, tally)

    def _begin(self, params: FullParams, tally: FullTally) -> FullParams:
        """Regression and variances of the first means: a diagonal model to begin with."""
        move = self._regress(params, tally)
        params = params._replace(phase=TRIAL, B=params.B + move)
        if self.Sigma is not None:
            return params
        spread = (tally.G - np.einsum("dj,dj->j", tally.P, move) + tally.s2) / params.weight
        omega = 1.0 / (spread + 0.1)  # crude logarithms of small counts vary too little
        w = omega if self.w is None else self.w
        return params._replace(omega=omega, w=w, w_trial=w)

    def _judge(self, params: FullParams, tally: FullTally) -> FullParams:
        """Accept the trial point if F fell enough, else shorten the step, then forget the pairs, then stop."""
        slope = params.g_w @ params.d_w + tally.slope if params.fresh else params.slope
        params = params._replace(slope=slope, fresh=False)
        model = self._maximise(params, tally)
        first = not np.isfinite(params.F)
        noise = 1e-13 * abs(params.F) if not first else 0.0  # rounding of the sums
        if model is not None and (first or (slope < 0 and params.F + 1e-4 * params.step * slope + noise >= model.F)):
            path = (*params.path[-5:], model.F)
            met = len(path) == 6 and path[0] - path[-1] < self.tol * abs(path[-1])
            params = params._replace(rough=params.rough and (len(path) == 1 or path[-2] - path[-1] > 1e-5 * abs(path[-1])))
            if params.single and len(path) > 1 and path[-2] - path[-1] < 1e-6 * abs(path[-1]):
                return params._replace(single=False, F=np.inf, path=())  # the same step again, in double precision
            return params._replace(
                phase=GRADIENT,
                B=model.B,
                Omega=model.Omega,
                shift=model.shift,
                omega=model.omega,
                F=model.F,
                path=path,
                met=met,
                w=params.w_trial,
                slot=_free(params.order) if params.step else -1,
                tries=0,
            )
        if params.single and (slope >= 0 or params.tries >= 2):
            return params._replace(single=False, F=np.inf, path=(), step=0.0, w_trial=params.w)
        if slope >= 0 or params.tries >= 8:
            if params.order:
                return self._direct(params._replace(order=(), tries=0), None)
            if slope >= 0 or params.tries >= 30:  # no descent along -Dg: the end that rounding allows
                return params._replace(met=abs(slope) < 1e-6 * abs(params.F), stuck=True)
        step = lbfgs.backtrack(params.step, slope, np.inf if model is None else model.F - params.F)
        return params._replace(step=step, w_trial=params.w * np.exp(step * params.d_w), tries=params.tries + 1)

    def _aim(self, params: FullParams, tally: FullTally) -> FullParams:
        """The gradient of log w, its pair, and the next direction."""
        w, omega, T = params.w, params.omega, tally.T
        given = self.Sigma is not None
        g_w = np.zeros_like(w) if given else 0.5 * w * (w - omega) * T  # eq. 3
        D_w = 2.0 / (w * w * T * np.maximum(1 - w * w * T / params.weight, 0.05))
        S_w, Y_w, sy, order, slot = params.S_w, params.Y_w, params.sy, params.order, params.slot
        if slot >= 0:
            S_w, Y_w, sy = S_w.copy(), Y_w.copy(), sy.copy()
            S_w[slot], Y_w[slot] = params.step * params.d_w, g_w - params.g_w
            sy[:, slot] = tally.sy + S_w @ Y_w[slot]
            order = tuple(k for k in order if k != slot)
        _, sg, yDy, yDg = lbfgs.dots(S_w, Y_w, g_w, D_w)
        table = lbfgs.Dots(sy, tally.sg + sg, tally.yDy + yDy, tally.yDg + yDg)
        if slot >= 0 and sy[slot, slot] > 1e-8 * table.yDy[slot, slot]:  # a pair without curvature says nothing
            order = (*order, slot)
        return self._direct(params._replace(g_w=g_w, D_w=D_w, S_w=S_w, Y_w=Y_w, sy=sy, order=order), table)

    def _direct(self, params: FullParams, table: lbfgs.Dots | None) -> FullParams:
        toward = lbfgs.direction(table, list(params.order)) if table else lbfgs.Direction(1.0, *np.zeros((2, MEMORY)))
        d_w = -(params.D_w * (toward.scale_g * params.g_w + toward.of_y @ params.Y_w) + toward.of_s @ params.S_w)
        d_w = np.clip(d_w, -REACH_W, REACH_W)
        if self.Sigma is not None:
            d_w = np.zeros_like(d_w)
        return params._replace(phase=TRIAL, fresh=True, step=1.0, toward=toward, d_w=d_w, w_trial=params.w * np.exp(d_w), tries=0)

    def _maximise(self, params: FullParams, tally: FullTally) -> Any:
        """B, Sigma and F of eq. 1 at the trial point; None where the covariance is not finite or not positive."""
        N, p = params.weight, len(tally.s2)
        if not np.isfinite(tally.fit):
            return None
        move = self._regress(params, tally)
        B, G, misfit = params.B + move, tally.G, 0.0
        if self.kind in ("diagonal", "spherical"):
            spread = (G - np.einsum("dj,dj->j", tally.P, move) + tally.s2) / N
            if self.kind == "spherical":
                spread = np.full(p, spread.mean())
            inverse = 1.0 / spread, np.log(spread).sum(), 1.0 / spread
        elif self.kind == "given":
            inverse = params.Omega, params.logdet, params.omega
            misfit = np.sum(params.Omega * (G - tally.P.T @ move)) + params.omega @ tally.s2 - N * p
        elif params.rootX is not None:
            inverse = _invert_wide(G - (params.rootX @ move).astype(G.dtype), tally.s2, N)
        else:
            Sigma = G - tally.P.T @ move
            Sigma[np.diag_indices(p)] += tally.s2
            Sigma /= N
            inverse = _invert(Sigma)
        if inverse is None:
            return None
        Omega, logdet, omega = inverse
        wide = params.rootX is not None  # Omega is R Omega about the new B already
        shift = np.zeros((0, p)) if wide else move * Omega if Omega.ndim == 1 else move @ Omega
        if params.single:  # the rows use it so
            Omega = Omega.astype(np.float32, copy=False)
        F = -tally.fit + 0.5 * (N * logdet + misfit)
        return Point(B, Omega, shift, omega, float(F)) if np.isfinite(F) else None

    def _regress(self, params: FullParams, tally: FullTally) -> np.ndarray:
        """How B moves: the regression of the residuals, nothing where B is fixed."""
        return np.zeros_like(tally.P) if self.B is not None else np.linalg.solve(params.XvX, tally.P)

    def _wide(self, shard: Shard) -> bool:
        return self.kind == "full" and shard.rows < shard.Y.shape[1]

    def objective(self, tally: FullTally, before: FullParams, after: FullParams) -> float:
        return -after.F if np.isfinite(after.F) else np.nan  # no value yet

    def done(self, params: FullParams) -> bool:
        return params.met or params.stuck


class Point(NamedTuple):
    """Model parameters at a trial point."""

    B: np.ndarray
    Omega: np.ndarray
    shift: np.ndarray
    omega: np.ndarray
    F: float


def _root(shard: Shard, rows: np.ndarray) -> np.ndarray:
    """Rows times the square root of their weights."""
    return rows if shard.v is None or shard.even else np.sqrt(shard.v)[:, None] * rows


def _in_place(shard: Shard, rows: np.ndarray) -> np.ndarray:
    """The rows of a shard among zeros for all others, so that adding shards puts them together."""
    out = np.zeros((shard.rows, rows.shape[1]), dtype=rows.dtype)
    out[shard.start : shard.start + len(rows)] = rows
    return out


def _loops(shard: Shard, z: FullLatents) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    """The loops to use, with counts and offsets in their precision: compiled ones for large shards, NumPy for small ones."""
    if z.counts is None and shard.Y.size < SMALL:
        return pln_plain, pln_plain.trial, shard.Y, shard.O
    from tallies.counts.kernels import double as pln
    from tallies.counts.kernels import single as pln_single
    from tallies.counts.kernels import steps as pln_steps

    if z.counts is None:
        return pln_steps, pln.trial, shard.Y, shard.O
    assert z.offsets is not None  # it comes with the counts
    return pln_steps, pln_single.trial, z.counts, z.offsets


def _slots(order: tuple[int, ...], new: int = -1) -> np.ndarray:
    """The slots in use, the one of a new pair among them."""
    return np.array(sorted({*order, new} - {-1}), dtype=np.int64)


def _double(z: FullLatents) -> FullLatents:
    """The same point in double precision."""
    point = {k: getattr(z, k).astype(np.float64) for k in ("M", "S2", "M_trial", "S2_trial", "A", "g", "R")}
    return z._replace(**point, counts=None, offsets=None)


def _free(order: tuple[int, ...]) -> int:
    """A slot not in use, else that of the oldest pair."""
    unused = [k for k in range(MEMORY) if k not in order]
    return unused[0] if unused else order[0]


def _invert(Sigma: np.ndarray) -> Any:
    """Inverse, log determinant and diagonal of the inverse; None where Sigma is not positive definite."""
    factor, bad = linalg.lapack.dpotrf(Sigma.T, lower=0, clean=1)  # transposed: as LAPACK stores it, without a copy
    if bad or not np.isfinite(factor[0, 0]):
        return None
    logdet = 2 * np.log(factor.diagonal()).sum()
    half, bad = linalg.lapack.dpotri(factor, lower=0, overwrite_c=1)
    omega = half.diagonal().copy()
    Omega = half + half.T
    Omega[np.diag_indices(len(omega))] = omega
    return Omega, logdet, omega


def _invert_wide(R: np.ndarray, E: np.ndarray, N: float) -> Any:
    """R Omega, log|Sigma| and the diagonal of Omega for Sigma = (R'R + diag E)/N, through an n by n matrix."""
    Z = R / np.sqrt(E).astype(R.dtype)
    K = (Z @ Z.T).astype(np.float64)
    K[np.diag_indices(len(K))] += 1.0
    inverse = _invert(K)
    if inverse is None:
        return None
    KZ = inverse[0].astype(Z.dtype) @ Z
    omega = N / E * np.maximum(1.0 - np.einsum("ij,ij->j", Z, KZ), 1e-12)
    KZ *= (N / np.sqrt(E)).astype(Z.dtype)
    return KZ, inverse[1] + np.log(E).sum() - len(E) * np.log(N), omega
