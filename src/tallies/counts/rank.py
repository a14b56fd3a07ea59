"""The variational fit of PLN-PCA, a PLN whose covariance is C C' of rank q: the five verbs.

With q_i = N(M_i, diag S2_i) over the q scores of a row, Z = [X, M], W = [B', C] and A = exp(O + Z W' + S2 (C*C)'/2), the bound is

    J = sum_i v_i { sum_j [Y(O + Z W') - A - log Y!] - sum_k [M^2 + S2 - log S2 - 1] / 2 }                            (eq. 1)

and F = -J is minimised over W, M and psi = log S2 together, by L-BFGS with the blocks

    column j of W:  (Z'diag(v A_j) Z + diag(.01 + [0, A_j'v S2]))^-1,     row i of M:  (C'diag(A_i) C + I)^-1 / v_i   (eq. 2)

as first guess of the inverse Hessian, taken afresh now and then. M, psi and their pairs stay with the shard, W is global: one
sweep an iteration. Every few steps the axes are turned (`axes`): along turns J hardly changes, and L-BFGS alone would take
hundreds of steps there. The bound has local maxima. The first start is the principal components of crude logarithms; the second
has one axis more, and gives up the one that costs least. Both are run a while, and the better one to the end. Any further start
lends the best so far an axis, takes one back, and is left as soon as it is not likely to end higher.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tallies import lbfgs
from tallies.counts import axes, rows
from tallies.counts.kernels.plain import TOP
from tallies.counts.records import Place, Shard, Sums, log_factorial
from tallies.counts.rows import MEMORY, RankLatents
from tallies.engine import Model, State
from tallies.forms import Form

RIDGE = 0.01  # of a column of W whose counts say nothing yet
REFRESH = (1, 2, 4)  # steps after which the blocks are taken afresh; then every ten
TURN_EVERY = 5  # steps between turns
WEIGHINGS = 6  # looks for the axis to give up
LENT = 0.1  # size of the random loadings of an axis that is lent
HOPE = 0.5  # a start is left when it is behind the best by more than this part of the gain of its last ten steps
SURVEY, BEGIN, STEP, TURN, WEIGH = range(5)  # what the next sweep does
PLACED, DROPPED, LENDING, KEPT = range(4)  # where the rows of a start come from: W, an axis less, an axis more, the best start


Square = Annotated[np.ndarray, Form("q q")]
Loadings = Annotated[np.ndarray, Form("p k")]
Start = Annotated[np.ndarray, Form("p ...")]
Axis = Annotated[np.ndarray, Form("r")]


class Turn(NamedTuple):
    """A Newton step of the axes, and how far it is tried."""

    E: Square  # of the axes
    shift: Annotated[np.ndarray, Form("d q")]  # of the origin
    step: float  # part of it
    again: Square  # the turn being tried over the one before


class Starts(NamedTuple):
    """The starts of a PLN-PCA."""

    first: Start  # W of the first start, with an axis to spare where there is one   (p, d + q + 1)
    best: Start  # W of the best start so far                       (p, d + q)
    F: float = np.inf  # its value
    met: bool = False  # it has met the stopping rule
    number: Annotated[int, Form(kind="i", low=0)] = 0  # which start is running
    source: Annotated[int, Form(kind="i", low=0, high=3)] = 0  # where its rows come from
    final: bool = False  # it goes on to the end
    keep: bool = False  # the start that just ended is the best so far


class Spare(NamedTuple):
    """The search for the axis to give up."""

    u: Axis | None = None  # direction being weighed, or given up   (q + 1,)
    cheapest: Axis | None = None  # cheapest so far
    cost: float = np.inf  # of giving it up
    weighings: int = 0


class RankParams(NamedTuple):
    """The small global state of `rank`."""

    phase: Annotated[int, Form(kind="i", low=0, high=4)]  # SURVEY, BEGIN, STEP, TURN or WEIGH
    sums: Sums
    W: Loadings  # [B', C] at the current point                     (p, d + q)
    W_trial: Loadings  # and at the point to try
    search: lbfgs.Search
    pairs: lbfgs.Pairs  # those of W
    starts: Starts
    spare: Spare = Spare()
    turn: Turn | None = None
    taken: int = 0  # steps accepted since the start
    accepted: bool = False  # the last trial point is now the current point
    refresh: bool = True  # the next sweep takes the blocks afresh


class RankTally(NamedTuple):
    """Sums over a shard: of a point (F to turning), of the survey (P, G), or of a direction to give up."""

    F: float = 0.0  # free energy
    slope: float = 0.0  # g'd over the rows
    g_W: Annotated[np.ndarray, Form("p k", nan=True)] | None = None  # its gradient, k = d + q
    H: Annotated[np.ndarray, Form("p k k", nan=True)] | None = None  # Z'diag(v A_j) Z + diag [0, A_j'v S2]
    table: lbfgs.Dots | None = None
    turning: axes.Turning | None = None
    P: Annotated[np.ndarray, Form("d p", nan=True)] | None = None  # X'vM
    G: Annotated[np.ndarray, Form("p p", nan=True)] | None = None  # M'vM
    weighing: axes.Weighing | None = None


RECORDS = (
    Turn,
    Starts,
    Spare,
    RankParams,
    RankLatents,
    RankTally,
    lbfgs.Dots,
    axes.Turning,
    axes.Weighing,
)  # what a checkpoint may hold


@dataclass(frozen=True)
class Rank(Model):
    """The verbs. A stage that goes on from a former fit, or places rows, begins with the params of `begin`."""

    q: int
    n_starts: int = 3
    trial_steps: int = 20  # steps before the first two starts are compared
    spare_steps: int = 30  # steps before a spare axis is given up
    tol: float = 5e-8  # stop when ten steps together gain less than this part of the bound
    placing: bool = False  # W, that of the first params, stays: only the rows are fitted

    monotone: ClassVar[bool] = True

    def survey(self, shard: Shard) -> Sums:
        return shard.sums()

    def init(self, survey: Sums, rng: np.random.Generator) -> RankParams:
        assert survey.n_j is not None
        blank = np.zeros((len(survey.n_j), len(survey.XvX) + self.q))
        return begin(survey, blank)._replace(phase=SURVEY)

    def settle(self, shard: Shard, params: RankParams, rng: np.random.Generator) -> RankLatents:
        return rows.room(len(shard.Y), self.q, np.zeros((len(shard.Y), 2 * self.q)))

    def sweep(self, shard: Shard, z: RankLatents, params: RankParams, rng: np.random.Generator) -> tuple[RankTally, RankLatents]:
        search = params.search
        if params.phase == SURVEY:
            assert params.sums.mean is not None  # of `init`
            R = shard.rooted(rows.crude(shard.Y, shard.O, params.sums.mean))
            return RankTally(P=shard.rooted(shard.X).T @ R, G=R.T @ R), z
        if params.accepted:
            z = z._replace(x=z.x_trial, x_trial=z.x, g=z.g_trial, g_trial=z.g)
        if params.phase == WEIGH:
            return RankTally(weighing=axes.weigh(z.x[:, : z.D.shape[1]], z.D, params.spare.u)), z
        slope = 0.0
        if params.phase == BEGIN:
            z = _enter(shard, z, params)
        elif params.turn is not None:
            self._turn_rows(shard, z, params.turn)
        else:
            if search.fresh:
                slope = rows.aim(z, search.toward)
            np.add(z.x, search.step * z.d, out=z.x_trial)
        turns = self._turns(params)
        F, g_W, H = self._evaluate(shard, z, params.W_trial, params.refresh, turns)
        if params.phase == STEP and search.step:
            z.S[search.slot] = z.x_trial - z.x
            z.Y[search.slot] = z.g_trial - z.g
        if params.phase != TURN:
            new = slice(None) if params.refresh else slice(search.slot, search.slot + 1)
            z.DY[new] = rows.apply(z, z.Y[new])
        turning = None
        if turns:
            q = z.P.shape[1]
            turning = axes.turning(z.x_trial[:, :q], z.g_trial[:, :q], z.P, shard.X, shard.v)
        return RankTally(F, slope, g_W, H, lbfgs.dots(z.S, z.Y, z.DY, z.g_trial), turning), z

    def _evaluate(
        self, shard: Shard, z: RankLatents, W: np.ndarray, renew: bool, curved: bool
    ) -> tuple[float, np.ndarray, np.ndarray | None]:
        return rows.evaluate(shard, z, W, renew, curved)

    def _turns(self, params: RankParams) -> bool:
        """Whether the axes are turned after the step being tried."""
        return params.phase == STEP and not self.placing and (params.taken + 1) % TURN_EVERY == 0

    @staticmethod
    def _turn_rows(shard: Shard, z: RankLatents, turn: Turn) -> None:
        """Turn the rows, and their blocks and pairs on from the turn before."""
        q, again = len(turn.again), turn.again
        np.copyto(z.x_trial, axes.turn_rows(z.x, z.P, shard.X, *axes.turn(turn.E, turn.shift, turn.step)))
        np.matmul(again.T @ z.D, again, out=z.D)
        for pairs, by in ((z.S, again), (z.DY, again), (z.Y, np.linalg.inv(again).T)):
            pairs[..., :q] = pairs[..., :q] @ by

    def update(self, params: RankParams, tally: RankTally, rng: np.random.Generator) -> RankParams:
        if params.phase == SURVEY:
            return self._begin(params, tally)
        if tally.weighing is not None:
            return self._weigh(params._replace(accepted=False), tally.weighing)
        search, pairs = params.search, params.pairs
        slope = tally.slope + np.vdot(pairs.g, pairs.d) if search.fresh else search.slope
        search = search._replace(slope=slope, fresh=False)
        params = params._replace(search=search, starts=params.starts._replace(keep=False), accepted=False)
        turn = params.turn
        if turn is not None and turn.step and not tally.F <= search.F:
            return _turn(params, turn, 0.25 * turn.step if search.tries < 2 else 0.0)  # 0 goes back to where it was
        if params.phase != STEP or lbfgs.falls(search.F, tally.F, search.step, slope):
            return self._accept(params, tally, rng)
        search = lbfgs.retreat(search, tally.F)
        if search.ended:
            return self._end(params, rng, met=search.ended == "met")
        return self._try(params, search)

    def _begin(self, params: RankParams, tally: RankTally) -> RankParams:
        """The first start: principal components of the crude residuals; the second will have one more."""
        assert tally.P is not None  # of the survey
        B = np.linalg.solve(params.sums.XvX, tally.P)
        values, vectors = np.linalg.eigh((tally.G - tally.P.T @ B) / params.sums.weight)
        C = (vectors * np.sqrt(np.maximum(values, 1e-8)))[:, ::-1]
        first = np.hstack([B.T, C[:, : self.q + 1]])
        only = self.n_starts == 1 or len(C) == self.q
        starts = params.starts._replace(first=first, source=PLACED, final=only)
        return _restart(params, first[:, : B.shape[0] + self.q], starts)

    def _accept(self, params: RankParams, tally: RankTally, rng: np.random.Generator) -> RankParams:
        """Take the trial point, renew the blocks where due, and choose the next direction, a turn, or the next start."""
        assert tally.table is not None
        assert tally.g_W is not None
        turn, stepped, turns, starts = params.turn, params.phase == STEP, self._turns(params), params.starts
        g = np.zeros_like(tally.g_W) if self.placing else tally.g_W
        search, pairs = params.search, self._columns(params, g, tally.H)
        own = lbfgs.dots(pairs.S, pairs.Y, pairs.DY, g)
        table = lbfgs.Dots(*(x + y for x, y in zip(tally.table, own, strict=True)))
        if stepped:
            search = lbfgs.admit(search, table)
        if turn is not None:  # a turn is no step of its own
            search = search._replace(path=search.path[:-1])
        search = lbfgs.accept(search, tally.F, 10)
        search = search._replace(slot=lbfgs.free(search))
        taken = params.taken + stepped
        refresh = taken in REFRESH or (taken + 1) % 10 == 0
        params = params._replace(phase=STEP, W=params.W_trial, search=search, pairs=pairs, turn=None, taken=taken)
        params = params._replace(accepted=True, refresh=refresh)
        gain = search.path[0] - tally.F if len(search.path) == 11 else np.inf
        spare, better = self._spare(params), starts.F - tally.F
        if not spare and starts.number and better > 0:
            starts = starts._replace(final=True)
            params = params._replace(starts=starts)
        if starts.final:
            over = gain < self.tol * abs(tally.F) or (starts.source == KEPT and starts.met)
        elif spare or starts.number < 2:
            over = taken > (self.spare_steps if spare else self.trial_steps)
        else:
            over = not gain > max(-better / HOPE, self.tol * abs(tally.F))
        if over:
            return self._end(params, rng, met=starts.final)
        if turns:
            assert tally.turning is not None
            E, a = axes.newton(tally.turning, params.W, g, params.sums.XvX, params.sums.weight)
            still = params._replace(search=search._replace(tries=-1), refresh=False)
            return _turn(still, Turn(E, a, 0.0, np.eye(len(E))), 1.0)
        return self._try(params, lbfgs.aim(search, table))

    @staticmethod
    def _columns(params: RankParams, g: np.ndarray, H: np.ndarray | None) -> lbfgs.Pairs:
        """Gradient, blocks and pairs of W at the trial point; H is what the blocks are made of, where they are taken afresh."""
        pairs, search, turn = params.pairs, params.search, params.turn
        if turn is not None:
            T, a = axes.turn(turn.E, turn.shift, turn.step)
            S, DY = (axes.turn_columns(x, T, a) for x in (pairs.S, pairs.DY))
            pairs = pairs._replace(S=S, DY=DY, Y=axes.turn_slopes(pairs.Y, T, a), D=axes.turn_blocks(pairs.D, T, a))
        if H is not None:
            pairs = pairs._replace(D=rows.inverse(H, RIDGE))
        if params.phase == STEP:
            pairs = pairs.remember(search.slot, search.step * pairs.d, g - pairs.g)
        if H is not None or params.phase == STEP:
            pairs = pairs._replace(DY=rows.blockwise(pairs.D, pairs.Y))
        return pairs._replace(g=g)

    def _weigh(self, params: RankParams, found: axes.Weighing) -> RankParams:
        """Look for the axis to give up, and after WEIGHINGS looks give up the cheapest seen."""
        spare = params.spare
        if found.cost < spare.cost:
            spare = spare._replace(cost=found.cost, cheapest=spare.u)
        if spare.weighings < WEIGHINGS:
            return params._replace(spare=spare._replace(u=axes.weakest(found), weighings=spare.weighings + 1))
        d, u = len(params.sums.XvX), spare.cheapest
        assert u is not None  # the first look has a cost
        W = np.hstack([params.W[:, :d], params.W[:, d:] @ axes.without(u)])
        starts = params.starts._replace(source=DROPPED, final=False)
        return _restart(params._replace(spare=Spare(u=u)), W, starts)

    def _end(self, params: RankParams, rng: np.random.Generator, met: bool) -> RankParams:
        """Close a start: give up its spare axis, go to the next one, back to the best of them, or stop."""
        d, starts, F = len(params.sums.XvX), params.starts, params.search.F
        if self._spare(params):
            return params._replace(phase=WEIGH, spare=Spare())
        number = starts.number + 1
        last = number >= self.n_starts or starts.first.shape[1] == d + self.q
        if starts.final and last:
            return params._replace(search=params.search._replace(ended="met" if met else "stuck"))
        if starts.F > F:
            starts = starts._replace(keep=True, best=params.W, F=F, met=met and starts.final)
        if number == 1:
            return _restart(params, starts.first, starts._replace(number=1, source=PLACED, final=False))
        if last or not starts.final:
            return _restart(params, starts.best, starts._replace(source=KEPT, final=True))
        lent = rng.normal(0.0, LENT, (len(starts.best), 1))
        return _restart(params, np.hstack([starts.best, lent]), starts._replace(number=number, source=LENDING, final=False))

    def _spare(self, params: RankParams) -> bool:
        return params.W.shape[1] > len(params.sums.XvX) + self.q

    def _try(self, params: RankParams, search: lbfgs.Search) -> RankParams:
        """Let the next sweep try the step of the search; of a new direction the part of W is found first."""
        pairs = params.pairs
        if search.fresh and not self.placing:
            pairs = pairs._replace(d=rows.within(lbfgs.along(search.toward, rows.blockwise(pairs.D, pairs.g), pairs.S, pairs.DY)))
        return params._replace(search=search, pairs=pairs, W_trial=params.W + search.step * pairs.d)

    def objective(self, tally: RankTally, before: RankParams, after: RankParams) -> float:
        F, best = after.search.F, after.starts.F
        value = best if self._spare(after) else min(F, best)  # a spare axis makes it another model
        return -value if np.isfinite(value) else np.nan

    def done(self, state: State) -> bool:
        return bool(state.params.search.ended)

    def ahead(self, params: RankParams) -> RankParams:
        return params._replace(accepted=False, starts=params.starts._replace(keep=False))  # a sweep begins with both

    def rows(self, shard: Shard, latents: RankLatents, params: RankParams) -> Place:
        W, d = self.answer(params)[0], shard.X.shape[1]
        x = latents.x_trial if params.accepted else latents.x
        if self._standing(params) == "best" and not params.starts.keep:
            x = latents.best
        M, psi = x[:, : self.q], x[:, self.q :]
        if self._standing(params) == "begun":
            M = rows.place(shard, W, params.sums.mean)
            psi = rows.spread(shard, W, M)
        S2 = np.exp(psi)
        L, C = shard.O + np.hstack([shard.X, M]) @ W.T, W[:, d:]
        fit = (shard.Y * L - np.exp(np.minimum(L + 0.5 * S2 @ (C * C).T, TOP)) - log_factorial(shard.Y)).sum(axis=1)
        return Place(M, S2, fit - 0.5 * (M * M + S2 - psi - 1).sum(axis=1))  # eq. 1, row by row

    def _standing(self, params: RankParams) -> str:
        """What the answer is: the current point, that of the best start where it is higher, or what the first start begins with."""
        if not self._spare(params) and np.isfinite(params.search.F) and params.starts.F >= params.search.F:
            return "current"
        return "best" if np.isfinite(params.starts.F) else "begun"

    def answer(self, params: RankParams) -> tuple[np.ndarray, float]:
        """[B', C] of rank q and its value, wherever the fit was stopped; infinite where there is no value yet."""
        best = self._standing(params) == "best"
        return (params.starts.best, params.starts.F) if best else (params.W, params.search.F)


def begin(sums: Sums, W: np.ndarray, starts: Starts | None = None) -> RankParams:
    """Params to begin with at W; by default it is known, and the only start."""
    search, pairs = lbfgs.begin(MEMORY)._replace(slot=0), lbfgs.no_pairs(W, np.zeros((*W.shape, W.shape[1])), MEMORY)
    only = Starts(first=W, best=W, source=PLACED, final=True)
    return RankParams(BEGIN, sums, W, W, search, pairs, starts=only if starts is None else starts)


def _restart(params: RankParams, W: np.ndarray, starts: Starts) -> RankParams:
    """Let the next sweep begin a start at W: of the search before only what concerns the starts is kept."""
    return begin(params.sums, W, starts)._replace(spare=Spare(u=params.spare.u), accepted=params.accepted)


def _turn(params: RankParams, turn: Turn, step: float) -> RankParams:
    """Let the next sweep try the turn at this length; the pairs of the rows have been turned at the length before."""
    T, a = axes.turn(turn.E, turn.shift, step)
    again = np.linalg.solve(axes.turn(turn.E, turn.shift, turn.step)[0], T)
    search = params.search._replace(tries=params.search.tries + 1)
    W = axes.turn_columns(params.W, T, a)
    return params._replace(phase=TURN, search=search, turn=turn._replace(step=step, again=again), W_trial=W)


def _enter(shard: Shard, z: RankLatents, params: RankParams) -> RankLatents:
    """Room for the rows of a start, and where they begin."""
    W, d, source = params.W_trial, shard.X.shape[1], params.starts.source
    q, best = W.shape[1] - d, z.x if params.starts.keep else z.best
    if source == KEPT:
        M = best[:, :q]
    elif source == LENDING:
        M = np.pad(best[:, : q - 1], ((0, 0), (0, 1)))
    elif source == DROPPED:  # far from u'm = 0 the move may overshoot
        assert params.spare.u is not None
        M = rows.likeliest(shard, W, *axes.drop(z.x[:, : q + 1], z.D, params.spare.u))
    else:
        M = shard.M if shard.M is not None else rows.place(shard, W, params.sums.mean)
    psi = best[:, q:] if source == KEPT else rows.spread(shard, W, M)
    z = rows.room(len(M), q, best)
    np.concatenate([M, psi], axis=1, out=z.x_trial)
    return z
