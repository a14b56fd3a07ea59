"""The variational fit of PLN-PCA, a PLN whose covariance is C C' of rank q: the five verbs and their tables.

With q_i = N(M_i, diag S2_i) over the q scores of a row, Z = [X, M], W = [B', C] and A = exp(O + Z W' + S2 (C*C)'/2), the bound is

    J = sum_i v_i { sum_j [Y(O + Z W') - A - log Y!] - sum_k [M^2 + S2 - log S2 - 1] / 2 }                            (eq. 1)

and F = -J is minimised over W, M and psi = log S2 together, by L-BFGS with the blocks

    column j of W:  (Z'diag(v A_j) Z + diag(.01 + [0, A_j'v S2]))^-1,     row i of M:  (C'diag(A_i) C + I)^-1 / v_i   (eq. 2)

as first guess of the inverse Hessian, taken afresh now and then. M, psi and their pairs stay with the shard, W is global: one
sweep an iteration. The bound has local maxima, so several starts are run a while and the best goes on to the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallies.kernels.pln_plain import TOP, blocks
from tallies.models import lbfgs
from tallies.models.pln_full import _root
from tallies.models.pln_records import RankLatents, RankParams, RankTally, Shard, Survey

MEMORY = 8  # pairs kept by L-BFGS
REACH = 1.5  # longest move of any entry in one step
RIDGE = 0.01  # of a column of W whose counts say nothing yet
REFRESH = (1, 2, 4, 7)  # steps after which the blocks are taken afresh; then every ten
SURVEY, BEGIN, STEP = 0, 1, 2  # what the next sweep does


@dataclass(frozen=True)
class Rank:
    """The verbs. With `W` given only the rows are fitted; with `warm` the fit goes on from there."""

    q: int
    n_starts: int = 1
    trial_steps: int = 60  # steps of every start before the best is chosen
    tol: float = 5e-8  # stop when ten steps together gain less than this part of the bound
    W: np.ndarray | None = None  # fixed [B', C]: the projection of new rows
    warm: np.ndarray | None = None  # [B', C] of a former fit

    def survey(self, shard: Shard) -> Survey:
        X = _root(shard, shard.X)
        return Survey(shard.v.sum(), shard.v @ shard.Y, shard.v @ np.exp(shard.O), X.T @ X, None)

    def init(self, survey: Survey, rng: np.random.Generator) -> RankParams:
        p, d = len(survey.n_j), len(survey.XvX)
        mean = np.log(np.maximum(survey.n_j, 0.5) / np.maximum(survey.e_j, 1e-300))
        zero, pairs = np.zeros((p, d + self.q)), np.zeros((MEMORY, p, d + self.q))
        given = self.W if self.W is not None else self.warm
        first = zero if given is None else given
        return RankParams(
            phase=SURVEY if given is None else BEGIN,
            mean=mean,
            W=first,
            W_trial=first,
            F=np.inf,
            path=(),
            step=0.0,
            slope=0.0,
            fresh=False,
            accepted=False,
            toward=lbfgs.Direction(0.0, *np.zeros((2, MEMORY))),
            d_W=zero,
            g_W=zero,
            D_W=np.zeros((p, d + self.q, d + self.q)),
            S_W=pairs,
            Y_W=pairs,
            DY_W=pairs,
            order=(),
            slot=0,
            refresh=True,
            taken=0,
            tries=0,
            start=0,
            starts=first[None],
            best=first,
            F_best=np.inf,
            keep=False,
            final=given is not None,
            met=False,
            stuck=False,
            XvX=survey.XvX,
            weight=float(survey.weight),
        )

    def settle(self, shard: Shard, params: RankParams, rng: np.random.Generator) -> RankLatents:
        n, q = len(shard.Y), self.q
        x, x_trial, g, g_trial, d, best = (np.zeros((n, 2 * q)) for _ in range(6))
        S, Y, DY = (np.zeros((MEMORY, n, 2 * q)) for _ in range(3))
        return RankLatents(x, x_trial, g, g_trial, np.zeros((n, q, q)), np.zeros((n, q)), d, S, Y, DY, best)

    def sweep(self, shard: Shard, z: RankLatents, params: RankParams, rng: np.random.Generator) -> tuple[RankTally, RankLatents]:
        if params.phase == SURVEY:
            R = _root(shard, _crude(shard, params.mean))
            return RankTally(0.0, 0.0, None, None, None, _root(shard, shard.X).T @ R, R.T @ R), z
        if params.accepted:
            z = z._replace(x=z.x_trial, x_trial=z.x, g=z.g_trial, g_trial=z.g)
        slope = 0.0
        if params.phase == BEGIN:
            if params.keep:
                np.copyto(z.best, z.x)
            if params.final and self.W is None and self.warm is None:
                np.copyto(z.x_trial, z.best)
            else:
                z.x_trial[...] = shard.M if shard.M is not None else self._place(shard, params.W_trial, params.mean)
        else:
            if params.fresh:
                slope = self._aim(z, params.toward)
            np.add(z.x, params.step * z.d, out=z.x_trial)
        F, g_W, H = self._evaluate(shard, z, params)
        if params.phase == STEP and params.step:
            z.S[params.slot] = z.x_trial - z.x
            z.Y[params.slot] = z.g_trial - z.g
        new = slice(None) if params.refresh else slice(params.slot, params.slot + 1)
        z.DY[new] = _apply(z, z.Y[new])
        m, flat = MEMORY, z.g_trial.ravel()
        S, Y, DY = z.S.reshape(m, -1), z.Y.reshape(m, -1), z.DY.reshape(m, -1)
        return RankTally(F, slope, g_W, H, lbfgs.Dots(S @ Y.T, S @ flat, DY @ Y.T, DY @ flat), None, None), z

    def _evaluate(self, shard: Shard, z: RankLatents, params: RankParams) -> tuple[float, np.ndarray, np.ndarray | None]:
        """Eq. 1, its gradient (into z.g_trial), and the blocks of eq. 2 where they are asked for."""
        q, W = self.q, params.W_trial
        d = W.shape[1] - q
        C = np.ascontiguousarray(W[:, d:])
        CC, g_W, F = C * C, np.zeros_like(W), shard.constant
        H = np.zeros((len(W), W.shape[1] ** 2)) if params.refresh else None
        AS = np.zeros_like(C)
        for b in blocks(*shard.Y.shape):
            M, psi, v = z.x_trial[b, :q], z.x_trial[b, q:], shard.v[b, None]
            S2, ZZ = np.exp(np.clip(psi, -TOP, TOP)), np.hstack([shard.X[b], M])
            L = ZZ @ W.T
            L += shard.O[b]
            A = S2 @ CC.T
            A *= 0.5
            A += L
            np.exp(np.minimum(A, TOP, out=A), out=A)
            L *= shard.Y[b]
            L -= A
            F -= shard.v[b] @ L.sum(axis=1)
            F += 0.5 * float(shard.v[b] @ (M * M + S2 - psi - 1.0).sum(axis=1))
            ACC = A @ CC
            if H is not None:
                z.D[b] = (
                    np.linalg.inv((A @ (C[:, :, None] * C[:, None, :]).reshape(len(C), -1)).reshape(-1, q, q) + np.eye(q))
                    / v[:, :, None]
                )
                z.D_psi[b] = 1.0 / (v * (0.5 * S2 * (ACC + 1.0)))
            if not shard.even:
                A *= v
            AS += A.T @ S2
            if H is not None:
                H += A.T @ (ZZ[:, :, None] * ZZ[:, None, :]).reshape(len(ZZ), -1)
            A -= v * shard.Y[b]
            g_W += A.T @ ZZ
            z.g_trial[b, :q] = A @ C + v * M
            z.g_trial[b, q:] = 0.5 * v * (S2 * (ACC + 1.0) - 1.0)
        g_W[:, d:] += AS * C
        if H is not None:
            H = H.reshape(len(W), W.shape[1], W.shape[1])
            k = np.arange(d, W.shape[1])
            H[:, k, k] += AS
        return float(F), g_W, H

    def _place(self, shard: Shard, W: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """A first point of the rows for a given W: least squares scores of the crude logarithms, and variances to match."""
        d = W.shape[1] - self.q
        B, C = W[:, :d], W[:, d:]
        R = _crude(shard, mean) - shard.X @ B.T
        M = R @ C @ np.linalg.inv(C.T @ C + np.eye(self.q))
        A = np.exp(np.minimum(shard.O + shard.X @ B.T + M @ C.T, TOP))
        return np.hstack([M, -np.log1p(A @ (C * C))])

    def _aim(self, z: RankLatents, toward: lbfgs.Direction) -> float:
        """Write the direction into z.d, clipped entry by entry, and return its slope."""
        # D (scale g + sum of_y Y) + sum of_s S, with D Y at hand
        np.negative(_apply(z, (toward.scale_g * z.g)[None])[0] + _mix(toward.of_y, z.DY) + _mix(toward.of_s, z.S), out=z.d)
        z.d[:, : self.q] = _within(z.d[:, : self.q])
        np.clip(z.d[:, self.q :], -REACH, REACH, out=z.d[:, self.q :])
        return float(np.vdot(z.g, z.d))

    def update(self, params: RankParams, tally: RankTally, rng: np.random.Generator) -> RankParams:
        if params.phase == SURVEY:
            return self._begin(params, tally, rng)
        first = params.phase == BEGIN
        slope = tally.slope + np.vdot(params.g_W, params.d_W) if params.fresh else params.slope
        params = params._replace(slope=slope, fresh=False, keep=False, accepted=False)
        noise = 0.0 if first else 1e-13 * abs(params.F)  # rounding of the sums
        if first or (slope < 0 and np.isfinite(tally.F) and params.F + 1e-4 * params.step * slope + noise >= tally.F):
            return self._accept(params, tally)
        if slope >= 0 or params.tries >= 8:
            if params.order:
                return self._direct(params._replace(order=()), None)
            if slope >= 0 or params.tries >= 30:
                return self._end(params) if not params.final else params._replace(met=abs(slope) < 1e-6 * abs(params.F), stuck=True)
        step = lbfgs.backtrack(params.step, slope, tally.F - params.F)
        return params._replace(step=step, W_trial=params.W + step * params.d_W, tries=params.tries + 1)

    def _begin(self, params: RankParams, tally: RankTally, rng: np.random.Generator) -> RankParams:
        """The starts: principal components of the crude residuals, then random mixtures of twice as many."""
        B = np.linalg.solve(params.XvX, tally.P)
        values, vectors = np.linalg.eigh((tally.G - tally.P.T @ B) / params.weight)
        values, vectors = np.maximum(values[::-1], 1e-8), vectors[:, ::-1]
        q, p = self.q, len(values)
        C = vectors * np.sqrt(values)
        starts = [C[:, :q]]
        for _ in range(1, self.n_starts):
            k = min(2 * q, p)
            mixed, _ = np.linalg.qr(rng.normal(size=(k, q)) * np.sqrt(values[:k, None] / values[0]))
            starts.append(C[:, :k] @ mixed)
        W = np.stack([np.hstack([B.T, c]) for c in starts])
        return params._replace(phase=BEGIN, starts=W, W=W[0], W_trial=W[0], refresh=True, final=self.n_starts == 1)

    def _accept(self, params: RankParams, tally: RankTally) -> RankParams:
        """Take the trial point, renew the blocks where due, and choose the next direction or the next start."""
        g_W, D_W, S_W, Y_W, DY_W, order = tally.g_W, params.D_W, params.S_W, params.Y_W, params.DY_W, params.order
        if self.W is not None:
            g_W = np.zeros_like(g_W)
        if tally.H is not None:
            D_W = np.linalg.inv(tally.H + RIDGE * np.eye(tally.H.shape[1]))
        slot = params.slot
        if params.phase == STEP and params.step:
            S_W, Y_W, DY_W = S_W.copy(), Y_W.copy(), DY_W.copy()
            S_W[slot], Y_W[slot] = params.step * params.d_W, g_W - params.g_W
            DY_W[slot] = _blocks(D_W, Y_W[slot])
            order = tuple(k for k in order if k != slot)
        if tally.H is not None:
            DY_W = np.stack([_blocks(D_W, y) for y in Y_W])
        m, g = MEMORY, g_W.ravel()
        S, Y, DY = S_W.reshape(m, -1), Y_W.reshape(m, -1), DY_W.reshape(m, -1)
        table = lbfgs.Dots(*(x + y for x, y in zip(tally.table, (S @ Y.T, S @ g, DY @ Y.T, DY @ g), strict=True)))
        if params.phase == STEP and params.step and table.sy[slot, slot] > 1e-8 * table.yDy[slot, slot]:
            order = (*order, slot)
        taken, path = params.taken + 1, (*params.path[-10:], tally.F)
        params = params._replace(
            phase=STEP,
            W=params.W_trial,
            F=tally.F,
            path=path,
            accepted=True,
            g_W=g_W,
            D_W=D_W,
            S_W=S_W,
            Y_W=Y_W,
            DY_W=DY_W,
            order=order,
            slot=_free(order),
            taken=taken,
            refresh=taken in REFRESH or taken % 10 == 0,
        )
        if params.final:
            params = params._replace(met=len(path) == 11 and path[0] - path[-1] < self.tol * abs(tally.F))
        elif taken > self.trial_steps:
            return self._end(params)
        return self._direct(params, table)

    def _end(self, params: RankParams) -> RankParams:
        """Close a start and go to the next one, or back to the best of them."""
        keep = params.F_best > params.F
        best, F_best = (params.W, params.F) if keep else (params.best, params.F_best)
        final = params.start + 1 == len(params.starts)
        W = best if final else params.starts[params.start + 1]
        return params._replace(
            phase=BEGIN,
            keep=keep,
            best=best,
            F_best=F_best,
            start=params.start + 1,
            final=final,
            W=W,
            W_trial=W,
            order=(),
            path=(),
            taken=0,
            refresh=True,
            tries=0,
            F=np.inf,
            step=0.0,
            fresh=False,
            d_W=np.zeros_like(W),
            slope=0.0,
        )

    def _direct(self, params: RankParams, table: lbfgs.Dots | None) -> RankParams:
        toward = lbfgs.direction(table, list(params.order)) if table else lbfgs.Direction(1.0, *np.zeros((2, MEMORY)))
        d_W = -(_blocks(params.D_W, toward.scale_g * params.g_W) + _mix(toward.of_y, params.DY_W) + _mix(toward.of_s, params.S_W))
        d_W = np.zeros_like(d_W) if self.W is not None else _within(d_W)
        return params._replace(fresh=True, step=1.0, toward=toward, d_W=d_W, W_trial=params.W + d_W, tries=0)

    def objective(self, tally: RankTally, before: RankParams, after: RankParams) -> float:
        value = min(after.F, after.F_best)
        return -value if np.isfinite(value) else np.nan

    def done(self, params: RankParams) -> bool:
        return params.met or params.stuck


def _crude(shard: Shard, mean: np.ndarray) -> np.ndarray:
    """Logarithms of the rates, from the counts and the mean rates alone."""
    return mean + np.log((shard.Y + 1) / (np.exp(np.minimum(shard.O + mean, TOP)) + 1))


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
