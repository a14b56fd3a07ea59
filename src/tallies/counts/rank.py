"""The variational fit of PLN-PCA, a PLN whose covariance is C C' of rank q: the five verbs and their tables.

With q_i = N(M_i, diag S2_i) over the q scores of a row, Z = [X, M], W = [B', C] and A = exp(O + Z W' + S2 (C*C)'/2), the bound is

    J = sum_i v_i { sum_j [Y(O + Z W') - A - log Y!] - sum_k [M^2 + S2 - log S2 - 1] / 2 }                            (eq. 1)

and F = -J is minimised over W, M and psi = log S2 together, by L-BFGS with the blocks

    column j of W:  (Z'diag(v A_j) Z + diag(.01 + [0, A_j'v S2]))^-1,     row i of M:  (C'diag(A_i) C + I)^-1 / v_i   (eq. 2)

as first guess of the inverse Hessian, taken afresh now and then. M, psi and their pairs stay with the shard, W is global: one
sweep an iteration. Every few steps the axes are turned (`pln_axes`): along turns J hardly changes, and L-BFGS alone would take
hundreds of steps there. The bound has local maxima. The first start is the principal components of crude logarithms; the second
has one axis more, and gives up the one that costs least. Both are run a while, and the better one to the end. Any further start
lends the best so far an axis, takes one back, and is left as soon as it is not likely to end higher.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallies import lbfgs
from tallies.counts import axes as pln_axes
from tallies.counts import rows as pln_rows
from tallies.counts.full import _root
from tallies.counts.records import RankLatents, RankParams, RankTally, Shard, Survey

MEMORY = 4  # pairs kept by L-BFGS
REACH = 1.5  # longest move of any entry in one step
RIDGE = 0.01  # of a column of W whose counts say nothing yet
REFRESH = (1, 2, 4)  # steps after which the blocks are taken afresh; then every ten
TURN_EVERY = 5  # steps between turns
WEIGHINGS = 6  # looks for the axis to give up
LENT = 0.1  # size of the random loadings of an axis that is lent
HOPE = 0.5  # a start is left when it is behind the best by more than this part of the gain of its last ten steps
SURVEY, BEGIN, STEP, TURN, WEIGH = range(5)  # what the next sweep does
PLACED, DROPPED, LENDING, KEPT = range(4)  # where the rows of a start come from: W, an axis less, an axis more, the best start


@dataclass(frozen=True)
class Rank:
    """The verbs. With `W` given only the rows are fitted; with `warm` the fit goes on from there."""

    q: int
    n_starts: int = 3
    trial_steps: int = 20  # steps before the first two starts are compared
    spare_steps: int = 30  # steps before a spare axis is given up
    tol: float = 5e-8  # stop when ten steps together gain less than this part of the bound
    W: np.ndarray | None = None  # fixed [B', C]: the projection of new rows
    warm: np.ndarray | None = None  # [B', C] of a former fit

    def survey(self, shard: Shard) -> Survey:
        X = _root(shard, shard.X)
        return Survey(shard.v.sum(), shard.v @ shard.Y, shard.v @ np.exp(shard.O), X.T @ X, None)

    def init(self, survey: Survey, rng: np.random.Generator) -> RankParams:
        p, d = len(survey.n_j), len(survey.XvX)
        mean = np.log(np.maximum(survey.n_j, 0.5) / np.maximum(survey.e_j, 1e-300))
        given = self.W if self.W is not None else self.warm
        first = np.zeros((p, d + self.q)) if given is None else given
        toward = lbfgs.Direction(0.0, *np.zeros((2, MEMORY)))
        params = RankParams(mean, survey.XvX, float(survey.weight), toward, first=first, best=first)
        begun = self._restart(params, first, PLACED, final=given is not None)
        return begun if given is not None else begun._replace(phase=SURVEY)

    def settle(self, shard: Shard, params: RankParams, rng: np.random.Generator) -> RankLatents:
        return self._room(len(shard.Y), self.q, np.zeros((len(shard.Y), 2 * self.q)))

    def _room(self, n: int, q: int, best: np.ndarray) -> RankLatents:
        x, x_trial, g, g_trial, d = (np.zeros((n, 2 * q)) for _ in range(5))
        S, Y, DY = (np.zeros((MEMORY, n, 2 * q)) for _ in range(3))
        P, D = (np.zeros((n, q, q)) for _ in range(2))
        return RankLatents(x, x_trial, g, g_trial, P, D, np.zeros((n, q)), d, S, Y, DY, best)

    def sweep(self, shard: Shard, z: RankLatents, params: RankParams, rng: np.random.Generator) -> tuple[RankTally, RankLatents]:
        if params.phase == SURVEY:
            R = _root(shard, pln_rows.crude(shard, params.mean))
            return RankTally(0.0, 0.0, P=_root(shard, shard.X).T @ R, G=R.T @ R), z
        if params.accepted:
            z = z._replace(x=z.x_trial, x_trial=z.x, g=z.g_trial, g_trial=z.g)
        if params.phase == WEIGH:
            return RankTally(0.0, 0.0, weighing=pln_axes.weigh(z.x[:, : z.D.shape[1]], z.D, params.u)), z
        slope = 0.0
        if params.phase == BEGIN:
            z = self._enter(shard, z, params)
        elif params.phase == TURN:
            q, again = len(params.again), params.again
            np.copyto(z.x_trial, pln_axes.turn_rows(z.x, z.P, shard.X, *pln_axes.turn(params.E, params.shift, params.step)))
            np.matmul(again.T @ z.D, again, out=z.D)
            for pairs, by in ((z.S, again), (z.DY, again), (z.Y, np.linalg.inv(again).T)):
                pairs[..., :q] = pairs[..., :q] @ by
        else:
            if params.fresh:
                slope = self._aim(z, params.toward)
            np.add(z.x, params.step * z.d, out=z.x_trial)
        F, g_W, H = pln_rows.evaluate(shard, z, params.W_trial, params.refresh, self._turns(params))
        if params.phase == STEP and params.step:
            z.S[params.slot] = z.x_trial - z.x
            z.Y[params.slot] = z.g_trial - z.g
        if params.phase != TURN:
            new = slice(None) if params.refresh else slice(params.slot, params.slot + 1)
            z.DY[new] = _apply(z, z.Y[new])
        m, flat = MEMORY, z.g_trial.ravel()
        S, Y, DY = z.S.reshape(m, -1), z.Y.reshape(m, -1), z.DY.reshape(m, -1)
        table = lbfgs.Dots(S @ Y.T, S @ flat, DY @ Y.T, DY @ flat)
        turning = None
        if self._turns(params):
            q = z.P.shape[1]
            turning = pln_axes.turning(z.x_trial[:, :q], z.g_trial[:, :q], z.P, shard.X, shard.v)
        return RankTally(F, slope, g_W, H, table, turning), z

    def _turns(self, params: RankParams) -> bool:
        """Whether the axes are turned after the step being tried."""
        return params.phase == STEP and self.W is None and (params.taken + 1) % TURN_EVERY == 0

    def _enter(self, shard: Shard, z: RankLatents, params: RankParams) -> RankLatents:
        """Room for the rows of a start, and where they begin."""
        W, d = params.W_trial, shard.X.shape[1]
        q, best = W.shape[1] - d, z.x if params.keep else z.best
        if params.source == KEPT:
            M = best[:, :q]
        elif params.source == LENDING:
            M = np.pad(best[:, : q - 1], ((0, 0), (0, 1)))
        elif params.source == DROPPED:  # far from u'm = 0 the move may overshoot
            M = pln_rows.likeliest(shard, W, *pln_axes.drop(z.x[:, : q + 1], z.D, params.u))
        else:
            M = shard.M if shard.M is not None else pln_rows.place(shard, W, params.mean)
        psi = best[:, q:] if params.source == KEPT else pln_rows.spread(shard, W, M)
        z = self._room(len(M), q, best)
        np.concatenate([M, psi], axis=1, out=z.x_trial)
        return z

    def _aim(self, z: RankLatents, toward: lbfgs.Direction) -> float:
        """Write the direction into z.d, no entry longer than REACH, and return its slope."""
        # D (scale g + sum of_y Y) + sum of_s S, with D Y at hand
        np.negative(_apply(z, (toward.scale_g * z.g)[None])[0] + _mix(toward.of_y, z.DY) + _mix(toward.of_s, z.S), out=z.d)
        q = z.D.shape[1]
        z.d[:, :q] = _within(z.d[:, :q])
        np.clip(z.d[:, q:], -REACH, REACH, out=z.d[:, q:])
        return float(np.vdot(z.g, z.d))

    def update(self, params: RankParams, tally: RankTally, rng: np.random.Generator) -> RankParams:
        if params.phase == SURVEY:
            return self._begin(params, tally)
        if params.phase == WEIGH:
            return self._weigh(params._replace(accepted=False), tally)
        slope = tally.slope + np.vdot(params.g_W, params.d_W) if params.fresh else params.slope
        params = params._replace(slope=slope, fresh=False, keep=False, accepted=False)
        if params.phase == TURN and params.step and not tally.F <= params.F:
            return self._turn(params, 0.25 * params.step if params.tries < 2 else 0.0)  # 0 goes back to where it was
        noise = 1e-13 * abs(params.F) if params.phase == STEP else 0.0  # rounding of the sums
        down = slope < 0 and np.isfinite(tally.F) and params.F + 1e-4 * params.step * slope + noise >= tally.F
        if params.phase != STEP or down:
            return self._accept(params, tally, rng)
        if slope >= 0 or params.tries >= 8:
            if params.order:
                return self._direct(params._replace(order=()), None)
            if slope >= 0 or params.tries >= 30:
                return self._end(params, rng, met=abs(slope) < 1e-6 * abs(params.F))
        step = lbfgs.backtrack(params.step, slope, tally.F - params.F)
        return params._replace(step=step, W_trial=params.W + step * params.d_W, tries=params.tries + 1)

    def _begin(self, params: RankParams, tally: RankTally) -> RankParams:
        """The first start: principal components of the crude residuals; the second will have one more."""
        B = np.linalg.solve(params.XvX, tally.P)
        values, vectors = np.linalg.eigh((tally.G - tally.P.T @ B) / params.weight)
        C = (vectors * np.sqrt(np.maximum(values, 1e-8)))[:, ::-1]
        first = np.hstack([B.T, C[:, : self.q + 1]])
        only = self.n_starts == 1 or len(C) == self.q
        return self._restart(params._replace(first=first), first[:, : B.shape[0] + self.q], PLACED, final=only)

    def _restart(self, params: RankParams, W: np.ndarray, source: int, final: bool = False) -> RankParams:
        """Let the next sweep begin a start at W: of the search only what concerns the starts is kept."""
        zero, pairs = np.zeros_like(W), np.zeros((MEMORY, *W.shape))
        blank = RankParams(params.mean, params.XvX, params.weight, params.toward, BEGIN, W, W)
        blank = blank._replace(d_W=zero, g_W=zero, D_W=np.zeros((*W.shape, W.shape[1])), S_W=pairs, Y_W=pairs, DY_W=pairs)
        blank = blank._replace(first=params.first, best=params.best, F_best=params.F_best, met_best=params.met_best, u=params.u)
        return blank._replace(start=params.start, source=source, final=final, keep=params.keep, accepted=params.accepted)

    def _accept(self, params: RankParams, tally: RankTally, rng: np.random.Generator) -> RankParams:
        """Take the trial point, renew the blocks where due, and choose the next direction, a turn, or the next start."""
        g_W, D_W, S_W, Y_W, DY_W, order = tally.g_W, params.D_W, params.S_W, params.Y_W, params.DY_W, params.order
        if self.W is not None:
            g_W = np.zeros_like(g_W)
        if tally.H is not None:
            D_W = pln_rows.inverse(tally.H, RIDGE)
        slot, stepped, turned = params.slot, params.phase == STEP, params.phase == TURN
        if turned:
            T, a = pln_axes.turn(params.E, params.shift, params.step)
            S_W, DY_W = (pln_axes.turn_columns(x, T, a) for x in (S_W, DY_W))
            Y_W, D_W = pln_axes.turn_slopes(Y_W, T, a), pln_axes.turn_blocks(D_W, T, a)
        if stepped:
            S_W, Y_W, DY_W = S_W.copy(), Y_W.copy(), DY_W.copy()
            S_W[slot], Y_W[slot] = params.step * params.d_W, g_W - params.g_W
            DY_W[slot] = _blocks(D_W, Y_W[slot])
            order = tuple(k for k in order if k != slot)
        if tally.H is not None:
            DY_W = np.stack([_blocks(D_W, y) for y in Y_W])
        m, g = MEMORY, g_W.ravel()
        S, Y, DY = S_W.reshape(m, -1), Y_W.reshape(m, -1), DY_W.reshape(m, -1)
        table = lbfgs.Dots(*(x + y for x, y in zip(tally.table, (S @ Y.T, S @ g, DY @ Y.T, DY @ g), strict=True)))
        if stepped and table.sy[slot, slot] > 1e-8 * table.yDy[slot, slot]:
            order = (*order, slot)
        taken = params.taken + stepped
        turns = self._turns(params)
        params = params._replace(
            phase=STEP,
            W=params.W_trial,
            F=tally.F,
            path=(*(params.path[:-1] if turned else params.path[-10:]), tally.F),
            accepted=True,
            g_W=g_W,
            D_W=D_W,
            S_W=S_W,
            Y_W=Y_W,
            DY_W=DY_W,
            order=order,
            slot=_free(order),
            taken=taken,
            refresh=taken in REFRESH or (taken + 1) % 10 == 0,
        )
        gain = params.path[0] - tally.F if len(params.path) == 11 else np.inf
        spare, better = self._spare(params), params.F_best - tally.F
        if not spare and params.start and better > 0:
            params = params._replace(final=True)
        if params.final:
            over = gain < self.tol * abs(tally.F) or (params.source == KEPT and params.met_best)
        elif spare or params.start < 2:
            over = taken > (self.spare_steps if spare else self.trial_steps)
        else:
            over = not gain > max(-better / HOPE, self.tol * abs(tally.F))
        if over:
            return self._end(params, rng, met=params.final)
        if turns:
            E, a = pln_axes.newton(tally.turning, params.W, g_W, params.XvX, params.weight)
            return self._turn(params._replace(E=E, shift=a, step=0.0, refresh=False, tries=-1), 1.0)
        return self._direct(params, table)

    def _turn(self, params: RankParams, step: float) -> RankParams:
        """Let the next sweep try the turn at this length; the pairs of the rows have been turned at the length before."""
        T, a = pln_axes.turn(params.E, params.shift, step)
        again = np.linalg.solve(pln_axes.turn(params.E, params.shift, params.step)[0], T)
        W = pln_axes.turn_columns(params.W, T, a)
        return params._replace(phase=TURN, step=step, again=again, W_trial=W, tries=params.tries + 1)

    def _weigh(self, params: RankParams, tally: RankTally) -> RankParams:
        """Look for the axis to give up, and after WEIGHINGS looks give up the cheapest seen."""
        if tally.weighing.cost < params.cost:
            params = params._replace(cost=tally.weighing.cost, cheapest=params.u)
        if params.weighings < WEIGHINGS:
            return params._replace(u=pln_axes.weakest(tally.weighing), weighings=params.weighings + 1)
        d, u = len(params.XvX), params.cheapest
        W = np.hstack([params.W[:, :d], params.W[:, d:] @ pln_axes.without(u)])
        return self._restart(params._replace(u=u), W, DROPPED)

    def _end(self, params: RankParams, rng: np.random.Generator, met: bool) -> RankParams:
        """Close a start: give up its spare axis, go to the next one, back to the best of them, or stop."""
        d, start = len(params.XvX), params.start + 1
        if self._spare(params):
            return params._replace(phase=WEIGH, u=None, cheapest=None, cost=np.inf, weighings=0)
        last = start >= self.n_starts or params.first.shape[1] == d + self.q
        if params.final and last:
            return params._replace(met=met, stuck=not met)
        if params.F_best > params.F:
            params = params._replace(keep=True, best=params.W, F_best=params.F, met_best=met and params.final)
        if start == 1:
            return self._restart(params._replace(start=1), params.first, PLACED)
        if last or not params.final:
            return self._restart(params, params.best, KEPT, final=True)
        lent = rng.normal(0.0, LENT, (len(params.best), 1))
        return self._restart(params._replace(start=start), np.hstack([params.best, lent]), LENDING)

    def _spare(self, params: RankParams) -> bool:
        return params.W.shape[1] > len(params.XvX) + self.q

    def _direct(self, params: RankParams, table: lbfgs.Dots | None) -> RankParams:
        toward = lbfgs.direction(table, list(params.order)) if table else lbfgs.Direction(1.0, *np.zeros((2, MEMORY)))
        d_W = -(_blocks(params.D_W, toward.scale_g * params.g_W) + _mix(toward.of_y, params.DY_W) + _mix(toward.of_s, params.S_W))
        d_W = np.zeros_like(d_W) if self.W is not None else _within(d_W)
        return params._replace(fresh=True, step=1.0, toward=toward, d_W=d_W, W_trial=params.W + d_W, tries=0)

    def objective(self, tally: RankTally, before: RankParams, after: RankParams) -> float:
        value = after.F_best if self._spare(after) else min(after.F, after.F_best)  # a spare axis makes it another model
        return -value if np.isfinite(value) else np.nan

    def done(self, params: RankParams) -> bool:
        return params.met or params.stuck

    def answer(self, params: RankParams) -> tuple[np.ndarray, bool]:
        """[B', C] of rank q, and whether the rows are at their best for it: not so where the fit was stopped among its starts."""
        d = len(params.XvX)
        if not self._spare(params) and np.isfinite(params.F) and params.F_best >= params.F:
            return params.W, True
        if np.isfinite(params.F_best):
            return params.best, False
        U, size, _ = np.linalg.svd(params.W[:, d:], full_matrices=False)
        return np.hstack([params.W[:, :d], (U * size)[:, : self.q]]), False


def _apply(z: RankLatents, rows: np.ndarray) -> np.ndarray:
    """The blocks of eq. 2 times every row [M, psi] of a stack."""
    q = z.D.shape[1]
    out = np.empty_like(rows)
    out[..., :q] = np.matmul(z.D, rows[..., :q].transpose(1, 2, 0)).transpose(2, 0, 1)
    out[..., q:] = z.D_psi * rows[..., q:]
    return out


def _blocks(D: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """A block of eq. 2 times its row, for all rows."""
    return np.matmul(D, rows[..., None])[..., 0]


def _mix(of: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Sum of the pairs, each times its number."""
    return (of @ pairs.reshape(len(of), -1)).reshape(pairs.shape[1:])


def _within(d: np.ndarray) -> np.ndarray:
    """Shorten rows that move an entry by more than REACH; whole rows, so that a block of eq. 2 still leads downhill."""
    return d * np.minimum(1.0, REACH / np.maximum(np.abs(d).max(axis=1, keepdims=True), 1e-300))


def _free(order: tuple[int, ...]) -> int:
    """A slot not in use, else that of the oldest pair."""
    unused = [k for k in range(MEMORY) if k not in order]
    return unused[0] if unused else order[0]
