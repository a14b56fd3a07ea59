"""The variational fit of a PLN whose covariance is full, diagonal, spherical or given: the five verbs.

With q_i = N(M_i, diag S2_i), row weights v_i, N = sum v_i, R = M - X B and A = exp(O + M + S2/2), the bound is

    J = sum_i v_i [Y(O + M) - A - log Y! + (log S2 + 1)/2] - (N log|Sigma| + tr Omega (R'vR + diag sum v S2)) / 2     (eq. 1)

B = (X'vX)^-1 X'vM and Sigma = (R'vR + diag sum v S2) / N are its maximum given the rows, so they are profiled out. S2 is
eliminated through p scalars w_j, of which S2_ij is the root of

    S2_ij (w_j + A_ij) = 1                                                                                            (eq. 2)

(at the optimum w_j = Omega_jj). What is left, F(M, log w) = -J, is smooth and unconstrained; with u = S2^2 / (1 + S2^2 A/2)
    dF/dM = v (R Omega + A - Y + (w - Omega_jj) u A / 2),       dF/dlog w = w (w - Omega_jj) sum_i v u / 2            (eq. 3)

F is minimised by L-BFGS, whose first guess of the inverse Hessian is that of `guess`. A rare species may have no end: its variance
goes to 0, or its effects to infinity, and there a step ends where the curvature is another. Then the pair that the step makes
forgets that column (`calm`), which goes on by the guess alone: one such column would make the steps of all others short.

M and the pairs stay with their shard (`tallies.lbfgs`), so an iteration takes two sweeps: one tries a step and adds up R'vR, one
takes the gradient and adds up the dot products. A trial that does not lower F is tried again, shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tallies import lbfgs
from tallies.counts.guess import REACH_W, guess, rare
from tallies.counts.inverses import Precision, invert, invert_wide, times
from tallies.counts.kernels import plain
from tallies.counts.records import Coefficients, PerColumn, Place, Shard, Spread, Sums, log_factorial
from tallies.counts.rows import crude, squares, symmetric
from tallies.engine import Model, State
from tallies.forms import Form

MEMORY = 5  # pairs kept by L-BFGS
START, TRIAL, GRADIENT = 0, 1, 2  # what the next sweep does
REACH_M = 3.0  # longest step of one mean: beyond e^3 the exponential is not a parabola
CALM, FAR = 0.3, 1.0  # moves of a rare column, and of any, beyond which a pair forgets it: rates are others by a factor e
PATIENCE = 2  # shorter steps tried before the pairs are forgotten: where they mislead, a step without them gains more
ENDLESS = 5e5  # nats of which `tol` is a part, at least, where a column is rare: its gains may have no end
SMALL = 10_000  # counts below which NumPy ends before a compiler would have begun

Rows = Annotated[np.ndarray, Form("n p")]
Positive = Annotated[np.ndarray, Form("n p", low=0)]
Tried = Annotated[np.ndarray, Form("n p", low=0, nan=True)]  # a step that is too long may end anywhere
Pairs = Annotated[np.ndarray, Form("m n p")]


class Point(NamedTuple):
    """Model parameters at a point."""

    B: Coefficients
    Omega: Annotated[np.ndarray, Form("p p")] | Annotated[np.ndarray, Form("p")] | Annotated[np.ndarray, Form("0")]  # precision, or
    # its diagonal; none at the start, and where there is a pull
    omega: PerColumn  # diagonal of the precision
    logdet: float  # log|Sigma|
    shift: Coefficients | Annotated[np.ndarray, Form("0 p")]  # (move of B) Omega: the rows kept R about the B before
    calm: PerColumn  # 1, or 0 where the step went so far that the pair it makes says nothing of the column
    reach: PerColumn  # longest step of a column along the covariates, in root mean square over the rows
    rare: bool  # whether M follows the variance of some columns, see `guess`
    pull: Rows | None = None  # R Omega, where p > n: there is no Omega then


class FullParams(NamedTuple):
    """The small global state of `full`."""

    phase: Annotated[int, Form(kind="i", low=0, high=2)]  # START, TRIAL or GRADIENT
    sums: Sums
    point: Point
    w: PerColumn | None  # of eq. 2, at the current point; None: not yet known
    w_trial: PerColumn  # and at the point to try
    search: lbfgs.Search
    pairs: lbfgs.Pairs  # those of log w
    sy: Annotated[np.ndarray, Form("m m")]  # s_k'y_l over all, where y_l is not older than s_k
    along: Annotated[np.ndarray, Form("... p")]  # of the direction: what `guess` adds to D (d + 2, p); (0, p): nothing
    alone: Annotated[np.ndarray, Form("... p")]  # the same of the gradient without the pairs
    single: bool  # the rows are in single precision
    rough: bool  # steps still gain so much that S2 need not be exact


class FullLatents(NamedTuple):
    """What the rows keep: the current point, the trial point, and the L-BFGS pairs."""

    M: Rows  # variational means
    S2: Positive  # variational variances
    M_trial: Rows
    S2_trial: Tried
    A: Tried  # exp(O + M + S2/2) at the trial point
    g: Rows  # gradient at the current point
    D: Positive  # preconditioner at the current point
    d: Rows  # direction
    R: Rows  # sqrt(v) (M - X B) at the trial point, or the c of `guess`
    S: Pairs  # moves of M
    Y: Pairs  # moves of the gradient
    single: tuple[Positive, Rows] | None  # counts and offsets, as long as the fit is in single precision

    def double(self) -> FullLatents:
        """The same point in double precision."""
        point = {k: getattr(self, k).astype(np.float64) for k in ("M", "S2", "M_trial", "S2_trial", "A", "g", "R")}
        return self._replace(**point, single=None)


class Trial(NamedTuple):
    """Sums at a trial point."""

    fit: float  # sum v [Y(O+M) - A + log(S2)/2 - log Y!]
    slope: float  # g'd over the rows
    P: Annotated[np.ndarray, Form("d p", nan=True)]  # X'vR about the current B
    # R'vR, or its diagonal, or where Omega is given that of R'vR Omega
    G: Annotated[np.ndarray, Form("p p", nan=True)] | Annotated[np.ndarray, Form("p", nan=True)] | None
    R: Annotated[np.ndarray, Form("n p", nan=True)] | None  # sqrt(v) R itself, where p > n
    s2: Annotated[np.ndarray, Form("p", nan=True)]  # sum v S2


class Slopes(NamedTuple):
    """Sums at a gradient."""

    T: Annotated[np.ndarray, Form("p", nan=True)]  # sum v u
    sy: Annotated[np.ndarray, Form("m", nan=True)]  # s_k'y of the new pair
    sg: Annotated[np.ndarray, Form("m", nan=True)]  # s_k'g
    yDy: Annotated[np.ndarray, Form("m m", nan=True)]  # y_k'D y_l
    yDg: Annotated[np.ndarray, Form("m", nan=True)]  # y_k'D g
    ZDy: Annotated[np.ndarray, Form("m+2 d+1 p", nan=True)]  # [X c]'v D y_k, the last two of g and v c
    XtX: Annotated[np.ndarray, Form("p d d", nan=True)]  # X'v t X of every column, t of eq. 5


RECORDS = (Point, FullParams, FullLatents, Trial, Slopes)  # what a checkpoint may hold


@dataclass(frozen=True)
class Covariance(Model):
    """The verbs. A stage that goes on from a former fit, or places rows, begins with the params of `begin`."""

    kind: str = "full"  # "full", "diagonal", "spherical" or "given"
    Sigma: np.ndarray | None = None  # the matrix that the user gave, of kind "given"
    placing: bool = False  # B and Sigma, those of the first params, stay: only the rows are fitted
    single: bool = False  # begin in single precision
    added: bool = False  # there were rows before these, whose moments are in the first params
    tol: float = 1e-9  # stop when five steps together gain less than this part of the bound, or of ENDLESS
    sums: bool = False  # of the rows no more is wanted than their `Spread`, where they are placed than their bounds

    monotone: ClassVar[bool] = True
    draws: ClassVar[bool] = False
    gaps: ClassVar[bool] = True  # no value where single precision ends, until double precision has one

    def survey(self, shard: Shard) -> Sums:
        return shard.sums(self._wide(shard))

    def init(self, survey: Sums, rng: np.random.Generator) -> FullParams:
        assert survey.n_j is not None
        return begin(survey, np.zeros((len(survey.XvX), len(survey.n_j))), self.Sigma, single=self.single)

    def settle(self, shard: Shard, params: FullParams, rng: np.random.Generator) -> FullLatents:
        # single precision where there is much of it; the pairs stay so, since directions need few digits
        kind = np.float32 if self.single else np.float64
        single = (shard.Y.astype(kind), np.maximum(shard.O, -200.0).astype(kind)) if self.single else None
        M, mean, (counts, O) = shard.M, params.sums.mean, single or (shard.Y, shard.O)
        if M is None and mean is not None:
            M = crude(counts, O, mean.astype(kind))
        M = (shard.X @ params.point.B if M is None else M).astype(kind)
        A, g, D, d, R = (np.zeros(M.shape, dtype=kind) for _ in range(5))
        S, Y = (np.zeros((MEMORY, *M.shape), dtype=kind) for _ in range(2))
        first = np.full_like(M, 0.1)
        return FullLatents(M, first, M.copy(), first.copy(), A, g, D, d, R, S, Y, single)

    def sweep(
        self, shard: Shard, latents: FullLatents, params: FullParams, rng: np.random.Generator
    ) -> tuple[Trial | Slopes, FullLatents]:
        d = shard.X.shape[1]
        other = latents.S.shape != (len(params.sy), *shard.Y.shape) or params.point.B.shape != (d, shard.Y.shape[1])
        if other or len(params.along) not in (0, d + 2):
            raise ValueError("a checkpoint of other rows: compiled loops would run beyond them")
        if params.phase == GRADIENT:
            return self._gradient(shard, latents, params)
        search = params.search
        z = latents if params.single or latents.single is None else latents.double()
        steps, Y, O = _loops(shard, z)
        fresh = params.phase == TRIAL and search.fresh
        toward, along = search.toward if fresh else None, params.along[:-1].astype(z.g.dtype)
        point = z.M, z.S2, params.w_trial if params.w is None else params.w, params.point.B.astype(z.M.dtype), shard.v
        beyond = z.M_trial, z.R, O, Y, params.w_trial, z.S2_trial, z.A, 1e-2 if params.rough else 1e-4
        pairs = z.g, z.D, z.S, z.Y, REACH_M, shard.X, z.R if params.point.rare else z.R[:0], along, z.d
        slope, fit, s2 = steps.attempt(toward, lbfgs.slots(search.order), *pairs, *point, search.step, *beyond)
        P = (shard.rooted(shard.X).T.astype(z.R.dtype) @ z.R).astype(np.float64)
        G = R = None
        if params.phase == START or self.kind in ("diagonal", "spherical"):
            G = np.einsum("ij,ij->j", z.R, z.R)
        elif self._wide(shard):
            R = shard.among(z.R)
        elif self.kind == "given":  # known before the rows are, it is multiplied once: the gradient finds R Omega in place of R
            pull = times(z.R, params.point.Omega)
            G = np.einsum("ij,ij->j", z.R, pull)
            z.R[...] = pull
        else:
            G = z.R.T @ z.R
        return Trial(fit - shard.constant, slope, P, G, R, s2), z

    def apart(self, z: FullLatents, params: FullParams) -> FullLatents:
        if params.phase != GRADIENT:  # what a trial writes it does not read before
            return z
        return z._replace(g=z.g.copy(), R=z.R.copy() if params.point.rare else z.R)

    def _gradient(self, shard: Shard, z: FullLatents, params: FullParams) -> tuple[Slopes, FullLatents]:
        """Take the trial point as current; its gradient, its preconditioner, the new pair and the dot products."""
        steps, Y, _ = _loops(shard, z)
        Omega, slot = params.point.Omega, params.search.slot
        if params.point.pull is not None:
            pull = params.point.pull[shard.start : shard.start + len(shard.Y)]
        elif self.kind == "given":
            pull = z.R.copy()  # R is room for the c of `guess`
        else:
            pull = z.R * Omega if Omega.ndim == 1 else z.R @ Omega
        if pull.shape != z.A.shape:
            raise ValueError("a checkpoint whose gradients belong to other rows")
        pull, slots = pull.astype(z.A.dtype, copy=False), lbfgs.slots(params.search.order, slot)
        point, moved, c = params.point, (z.M_trial, z.M), z.R if params.point.rare else z.R[:0]
        ends = point.B.astype(z.M.dtype), c, point.calm.astype(z.A.dtype)
        rest = z.S2_trial, params.w, point.omega, moved, slot, slots, z.g, z.D, z.S, z.Y, *ends
        share = z.S2  # nobody reads it any more
        found = steps.slopes(pull, shard.X, point.shift, np.sqrt(shard.v), z.A, Y, *rest, share)
        XtX = symmetric(share.T @ squares(shard.rooted(shard.X)).astype(share.dtype), shard.X.shape[1])
        return Slopes._make((*found, XtX)), z._replace(M=z.M_trial, S2=z.S2_trial, M_trial=z.M, S2_trial=z.A, A=share)

    def update(self, params: FullParams, tally: Trial | Slopes, rng: np.random.Generator) -> FullParams:
        if isinstance(tally, Slopes):
            return self._turn(params, tally)
        if params.sums.base is not None:  # eq. 1 of all rows, of which the earlier ones stay where they are
            P, G = params.sums.base.about(params.point.B)
            assert tally.G is not None  # a model to which rows are added is never wide
            G = np.einsum("jk,jk->j", G, params.point.Omega) if self.kind == "given" else G
            tally = tally._replace(P=tally.P + P, G=tally.G + (G.diagonal() if tally.G.ndim < G.ndim else G))
        return self._start(params, tally) if params.phase == START else self._judge(params, tally)

    def _start(self, params: FullParams, tally: Trial) -> FullParams:
        """Regression and variances of the first means: a diagonal model to begin with."""
        move = self._regress(params, tally)
        point = params.point._replace(B=params.point.B + move)
        if self.kind == "given":
            return params._replace(phase=TRIAL, point=point, w=params.w_trial)
        spread = (tally.G - np.einsum("dj,dj->j", tally.P, move) + tally.s2) / params.sums.weight
        omega = 1.0 / (spread + 0.1)  # crude logarithms of small counts vary too little
        w = omega if params.w is None else params.w
        return params._replace(phase=TRIAL, point=point._replace(omega=omega), w=w, w_trial=w)

    def _judge(self, params: FullParams, tally: Trial) -> FullParams:
        """Accept the trial point if F fell enough, else shorten the step, then forget the pairs, then stop."""
        slope = float(params.pairs.g @ params.pairs.d) + tally.slope if params.search.fresh else params.search.slope
        search = params.search._replace(slope=slope, fresh=False)
        point, F = self._maximise(params, tally)
        if point is not None and (not np.isfinite(search.F) or lbfgs.falls(search.F, F, search.step, slope)):
            moved, gain = len(search.path) > 0, search.F - F
            rough = params.rough and (not moved or gain > 1e-5 * abs(F))
            if params.single and moved and gain < 1e-6 * abs(F):  # the same step again, in double precision
                return params._replace(single=False, rough=rough, search=search._replace(F=np.inf, path=()))
            search = lbfgs.accept(search, F, 5)._replace(slot=lbfgs.free(search) if search.step else -1)
            if len(search.path) == 6 and search.path[0] - F < self.tol * max(abs(F), ENDLESS if point.rare else 0.0):
                search = search._replace(ended="met")
            return params._replace(phase=GRADIENT, point=point, w=params.w_trial, search=search, rough=rough)
        assert params.w is not None  # known since the start
        if params.single and (slope >= 0 or search.tries >= 2):
            search = search._replace(F=np.inf, path=(), step=0.0)
            return params._replace(single=False, w_trial=params.w, search=search)
        point = params.point._replace(reach=np.ones_like(params.w))
        return self._try(params._replace(point=point), lbfgs.retreat(search, F, PATIENCE))

    def _turn(self, params: FullParams, tally: Slopes) -> FullParams:
        """The gradient of log w, its pair, and the next direction."""
        w, T, search, pairs = params.w, tally.T, params.search, params.pairs
        assert w is not None  # known since the start
        g = np.zeros_like(w) if self.kind == "given" else 0.5 * w * (w - params.point.omega) * T  # eq. 3
        sy = params.sy.copy()
        if search.slot >= 0:
            calm = params.point.calm
            pairs = pairs.remember(search.slot, calm * search.step * pairs.d, calm * (g - pairs.g))
            sy[:, search.slot] = tally.sy + pairs.S @ pairs.Y[search.slot]
        pairs, point, N, XvX = pairs._replace(g=g), params.point, params.sums.weight, params.sums.XvX
        table = lbfgs.Dots(sy, tally.sg + pairs.S @ g, tally.yDy, tally.yDg)
        if self.placing:  # nothing follows the rows
            return self._try(params._replace(pairs=pairs, sy=sy), lbfgs.aim(lbfgs.admit(search, table), table))
        share = {"spherical": N * len(w), "given": np.inf}.get(self.kind, N)  # of how many rows Omega_jj is made
        found = guess(tally.ZDy, np.vstack([pairs.Y, g]), tally.XtX, XvX, T, w, share)
        table = table._replace(yDy=table.yDy + found.table[:-1, :-1], yDg=table.yDg + found.table[:-1, -1])
        search = lbfgs.aim(lbfgs.admit(search, table), table)
        mixes = np.zeros((2, len(sy) + 1))  # the direction, the gradient alone
        mixes[0, :-1], mixes[:, -1] = search.toward.of_y, (search.toward.scale_g, 1.0)
        along, alone = found.along(mixes, point.reach, point.omega, XvX / N)
        return self._try(params._replace(pairs=pairs, sy=sy, alone=alone), search, along)

    def _try(self, params: FullParams, search: lbfgs.Search, along: np.ndarray | None = None) -> FullParams:
        """Let the next sweep try the step of the search; of a new direction the part of log w is found first."""
        pairs = params.pairs
        if search.fresh:
            params = params._replace(along=params.alone if along is None else along)
        if search.fresh and self.kind != "given":
            d = -(params.along[-1] + search.toward.of_s @ pairs.S)
            pairs = pairs._replace(d=np.clip(d, -REACH_W, REACH_W))
        return params._replace(phase=TRIAL, search=search, pairs=pairs, w_trial=params.w * np.exp(search.step * pairs.d))

    def _maximise(self, params: FullParams, tally: Trial) -> tuple[Point | None, float]:
        """B, Sigma and F of eq. 1 at the trial point; None where the covariance is not finite or not positive."""
        N, p, old, G = params.sums.weight, len(tally.s2), params.point, tally.G
        if not np.isfinite(tally.fit):
            return None, np.inf
        move, misfit, pull = self._regress(params, tally), 0.0, None
        inverse: Any
        if tally.R is not None:
            inverse = invert_wide(tally.R - (params.sums.rootX @ move).astype(tally.R.dtype), tally.s2, N)
        elif self.kind in ("diagonal", "spherical"):
            spread = (G - np.einsum("dj,dj->j", tally.P, move) + tally.s2) / N
            if self.kind == "spherical":
                spread = np.full(p, spread.mean())
            inverse = 1.0 / spread, np.log(spread).sum(), 1.0 / spread
        elif self.kind == "given":
            assert G is not None  # a given precision is never wide
            inverse = old.Omega, old.logdet, old.omega
            misfit = G.sum() - np.vdot(tally.P @ old.Omega, move) + old.omega @ tally.s2 - N * p
        else:
            Sigma = G - tally.P.T @ move
            Sigma[np.diag_indices(p)] += tally.s2
            Sigma /= N
            inverse = invert(Sigma)
        if inverse is None:
            return None, np.inf
        Omega, logdet, omega = inverse
        if params.single:  # the rows use it so
            Omega = Omega.astype(np.float32, copy=False)
        if tally.R is not None:  # R Omega, about the new B already
            Omega, pull, shift = np.zeros(0), Omega, np.zeros((0, p))
        else:
            shift = move * Omega if Omega.ndim == 1 else move @ Omega
        F = float(-tally.fit + 0.5 * (N * logdet + misfit))
        point = Point(old.B + move, Omega, omega, float(logdet), shift, *self._paces(params, tally, move), pull)
        return (point, F) if np.isfinite(F) else (None, np.inf)

    def _regress(self, params: FullParams, tally: Trial) -> np.ndarray:
        """How B moves: the regression of the residuals, nothing where B is fixed."""
        return np.zeros_like(tally.P) if self.placing else np.linalg.solve(params.sums.XvX, tally.P)

    def _paces(self, params: FullParams, tally: Trial, move: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """`calm`, `reach` and `rare` after a step: a separated effect has far to go, and longer steps bring it there sooner."""
        reach = params.point.reach
        if self.placing:
            return np.ones_like(reach), reach, False
        far = np.sqrt((move * (params.sums.XvX @ move)).sum(axis=0) / params.sums.weight)
        few = rare(params.w_trial, tally.s2, params.sums.weight)
        stays = (far < CALM) & (np.abs(params.search.step * params.pairs.d) < CALM)
        calm = (stays | ~few) & (far < FAR)
        return calm.astype(np.float64), np.where(far > 0.5 * reach, 2 * reach, np.maximum(0.5 * reach, 1.0)), bool(few.any())

    def _wide(self, shard: Shard) -> bool:
        return self.kind == "full" and shard.rows < shard.Y.shape[1] and not self.added

    def objective(self, tally: Trial | Slopes, before: FullParams, after: FullParams) -> float:
        return -after.search.F if np.isfinite(after.search.F) else np.nan  # no value yet

    def done(self, state: State) -> bool:
        return bool(state.params.search.ended)

    def ahead(self, params: FullParams) -> FullParams:
        return params._replace(phase=TRIAL) if params.phase == GRADIENT else params  # the trial point is the current one already

    def rows(self, shard: Shard, latents: FullLatents, params: FullParams) -> Place | Spread:
        z, now = latents, params.phase != GRADIENT
        M, S2 = (np.asarray(a, dtype=np.float64) for a in ((z.M, z.S2) if now else (z.M_trial, z.S2_trial)))
        if self.sums and not self.placing:
            return Spread.of(M, S2, shard.X, shard.v, params.point.B)
        if not self.placing:
            return Place(M, S2)
        L, R, Omega = shard.O + M, M - shard.X @ params.point.B, params.point.Omega
        prior = params.point.logdet + ((R @ Omega) * R).sum(axis=1) + S2 @ params.point.omega - (np.log(S2) + 1).sum(axis=1)
        fit = (shard.Y * L - np.exp(L + 0.5 * S2) - log_factorial(shard.Y)).sum(axis=1)
        some = slice(0, 0 if self.sums else None)
        return Place(M[:, some], S2[:, some], fit - 0.5 * prior)  # eq. 1, row by row


def begin(
    sums: Sums, B: np.ndarray, Sigma: np.ndarray | Precision | None = None, w: np.ndarray | None = None, single: bool = False
) -> FullParams:
    """Params to begin with: Sigma, or its inverse, where it is given, w of a former fit where there was one."""
    p = B.shape[1]
    none = Precision(np.zeros(0), 0.0, np.ones(p))
    Omega, logdet, omega = none if Sigma is None else Sigma if isinstance(Sigma, Precision) else invert(Sigma)
    nothing, ones = np.zeros((0, p)), np.ones(p)
    point, w_trial = Point(B, Omega, omega, float(logdet), nothing, ones, ones, rare=False), np.array(omega) if w is None else w
    search, pairs, sy = lbfgs.begin(MEMORY), lbfgs.no_pairs(np.zeros(p), np.zeros(p), MEMORY), np.zeros((MEMORY, MEMORY))
    return FullParams(START, sums, point, w, w_trial, search, pairs, sy, nothing, nothing, single, rough=True)


def _loops(shard: Shard, z: FullLatents) -> tuple[Any, np.ndarray, np.ndarray]:
    """The loops to use, with counts and offsets in their precision: compiled ones for large shards, NumPy for small ones."""
    if z.single is None and shard.Y.size < SMALL:
        return plain, shard.Y, shard.O
    from tallies.counts.kernels import steps

    return steps, *((shard.Y, shard.O) if z.single is None else z.single)
