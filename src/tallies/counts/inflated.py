"""The variational fit of a zero-inflated PLN: the five verbs.

    W_ij ~ Bernoulli(pi_ij);   Y_ij = 0 where W_ij = 1, else Y_ij | Z_ij ~ Poisson(exp(o_ij + Z_ij));   Z_i ~ N(B'x_i, Sigma)

q is independent between columns, but not within a cell: a structural zero says nothing of Z_ij, so that

    q(W_ij = 1) = rho_ij,     q(Z_ij | W_ij = 0) = N(M_ij, S2_ij),     q(Z_ij | W_ij = 1) = N(C_ij, 1/Omega_jj)           (eq. 1)

With D the means of Z - B'x under q and V its variances, A = exp(O + M + S2/2), the bound is

    J = sum_i v_i { sum_j [(1 - rho)(Y(O + M) - A - log Y!) + rho log pi + (1 - rho) log(1 - pi) + H(rho)
        + ((1 - rho) log S2 + rho log(1/Omega_jj) + 1) / 2] - (log|Sigma| + D_i'Omega D_i + V_i'Omega_jj) / 2 }           (eq. 2)

A column at a time, its maximum given the others is at

    C_ij = x'B_j - sum_{k != j} Omega_jk D_ik / Omega_jj           what the other columns let expect                      (eq. 3)
    Omega_jj (M - C) + A - Y = 0,   S2 (Omega_jj + A) = 1          by Newton's method, if that raises J                   (eq. 4)
    rho = pi / (pi + (1 - pi) exp J0),   J0 = -A - (Omega_jj ((M - C)^2 + S2) - 1 - log(Omega_jj S2)) / 2   where Y = 0   (eq. 5)

and B, Sigma = (D'vD + diag sum v V) / N about the new B, and pi, the mean of rho, follow in closed form. Where covariates t say who
is inflated, logit pi_ij = t_i'G_j = h_ij, and G takes a Newton step, cut where it would move some h by more than log 2: the
curvature of a logistic regression at most doubles on the way then, so that J cannot fall:

    G_j += a (sum_i v pi (1 - pi) t t')^-1 sum_i v t (rho_ij - pi_ij),      a = min(1, log 2 / largest move of h)           (eq. 6)

J0 is a bound on the log probability of a zero that is none of inflation, given the other columns. With rho = 0 eq. 2 is the bound
of a PLN. Sweeps alone come near slowly: after every few of them B, Sigma and the odds leap to where they seem to lead. A leap that
does not raise J is taken back, and the rows are what they were before it.
Reference: Batardiere, Chiquet, Gindraud and Mariadassou 2024, whose approximations keep q(Z) apart from W, or have the marginal of
the prior in place of eq. 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import entr, expit, logit

from tallies.counts.kernels.plain import TOP
from tallies.counts.records import Coefficients, PerColumn, Shard, Sums, log_factorial
from tallies.counts.rows import squares, symmetric
from tallies.counts.tables import HIDDEN
from tallies.engine import Model, State
from tallies.forms import Form
from tallies.maths import limit

LEAST = 1e-10  # pi stays between this and 1 less this
SUREST = 23.0  # largest logarithm of the odds, which are 1e10 then
REACH = 2.0  # longest step of a mean
STILL = 1e-6  # a step of a mean that is not worth a second try
KEPT = 6  # states from which it is guessed where they lead: with 4 or 9 some tables take a few sweeps more

Rows = Annotated[np.ndarray, Form("n p")]
Positive = Annotated[np.ndarray, Form("n p", low=0)]
Share = Annotated[np.ndarray, Form("n p", low=0, high=1)]
RowShare = Annotated[np.ndarray, Form("n", low=0, high=1)]


class InflatedParams(NamedTuple):
    """The small global state of `inflated`."""

    sums: Sums
    B: Coefficients
    Sigma: Annotated[np.ndarray, Form("p p")]
    Omega: Annotated[np.ndarray, Form("p p")]
    pi: PerColumn  # of each column; of rows it is beside them
    path: tuple[float, ...] = ()  # J after the last sweeps
    G: Annotated[np.ndarray, Form("e p")] | None = None  # where covariates, the last e columns of the design, say who is inflated
    far: Annotated[np.ndarray, Form("e", low=0)] | None = None  # largest of each of these
    seen: Annotated[np.ndarray, Form("k m")] | None = None  # the last states, see `_packed`; in a leap the one that it began at
    leap: Literal["", "on", "back"] = ""  # this state was leapt to, or is the one before a leap that did not raise J


class Cells(NamedTuple):
    """What the rows keep, of the last sweep."""

    M: Rows
    S2: Positive
    C: Rows
    rho: Share
    pi: RowShare  # of the rows, where it is theirs


class InflatedLatents(NamedTuple):
    """What the rows keep."""

    now: Cells
    before: Cells | None = None  # a leap


class InflatedTally(NamedTuple):
    """Sums over a shard."""

    J: float
    P: np.ndarray  # X'vD                                           (d, p)
    G: np.ndarray  # D'vD                                           (p, p)
    V: np.ndarray  # sum of v V                                     (p,)
    R: np.ndarray  # sum of v rho                                   (p,)
    N: np.ndarray  # sum of v over the cells that are there         (p,)
    g: np.ndarray | None  # of eq. 6, sum of v t (rho - pi)         (e, p)
    H: np.ndarray | None  # and sum of v pi (1 - pi) t t'           (p, e, e)


class InflatedRows(NamedTuple):
    """Where the rows of a shard ended."""

    M: Rows  # means of Z
    S2: Positive  # variances of Z
    rho: Share
    pi: RowShare
    rate: Positive  # (1 - rho) A
    bound: Annotated[np.ndarray, Form("n")]  # of every row


RECORDS = (InflatedParams, Cells, InflatedLatents, InflatedRows)


@dataclass(frozen=True)
class Inflated(Model):
    """The verbs. A stage begins with the params of `begin`."""

    by: str  # "global", "column", "row" or "formula"
    kind: str = "full"  # of the covariance
    tol: float = 1e-9  # stop when two sweeps in turn gain less than this part of the bound
    placing: bool = False  # B, Sigma and pi, those of the first params, stay, but pi of rows: these alone are fitted

    monotone: ClassVar[bool] = True
    leaves_latents: ClassVar[bool] = True

    def survey(self, shard: Shard) -> Sums:
        return shard.sums()

    def settle(self, shard: Shard, params: InflatedParams, rng: np.random.Generator) -> InflatedLatents:
        expected = _means(shard, params)
        M = expected if shard.M is None else shard.M
        S2 = 1.0 / (params.Omega.diagonal() + np.exp(np.clip(shard.O + M, HIDDEN, TOP)))
        rho = np.where(_zeros(shard), params.pi if params.G is None else expit(_odds(shard, params)), 0.0)
        return InflatedLatents(Cells(M.copy(), S2, expected.copy(), rho, _row_share(shard, rho)))

    def sweep(
        self, shard: Shard, latents: InflatedLatents, params: InflatedParams, rng: np.random.Generator
    ) -> tuple[InflatedTally, InflatedLatents]:
        begun = latents.before if params.leap == "back" and latents.before is not None else latents.now
        z, bound, D, V = self._expect(shard, begun, params)
        there, v = shard.O > HIDDEN, shard.v
        vD = v[:, None] * D
        X = shard.X[:, : len(params.B)]
        along = _along(shard, params, z.rho)
        tally = InflatedTally(float(v @ bound), X.T @ vD, D.T @ vD, v @ V, v @ z.rho, v @ there.astype(float), *along)
        return tally, InflatedLatents(z._replace(pi=_row_share(shard, z.rho)), begun if params.leap == "on" else None)

    def _expect(self, shard: Shard, z: Cells, params: InflatedParams) -> tuple[Cells, np.ndarray, np.ndarray, np.ndarray]:
        """Eq. 3 to 5, a column at a time; the bound of every row, and D and V. Tables are turned, so that columns are whole."""
        M, S2, C, rho = (part.T.copy() for part in z[:4])
        Y, O, XB = (np.ascontiguousarray(part.T) for part in (shard.Y, shard.O, _means(shard, params)))
        Omega, there = params.Omega, O > HIDDEN
        zero = (Y == 0) & there
        D = (1 - rho) * M + rho * C - XB
        coupled = bool((Omega[~np.eye(len(Omega), dtype=bool)] != 0).any())
        share = z.pi if self.by == "row" else params.pi[:, None] if params.G is None else expit(_odds(shard, params)).T
        odds = np.broadcast_to(logit(share), M.shape)
        A = np.empty_like(M)
        for j, w in enumerate(Omega.diagonal()):
            if coupled:
                C[j] = XB[j] - ((Omega[j] @ D) / w - D[j])
            else:
                C[j] = XB[j]
            M[j], S2[j], A[j], J0 = _cells(Y[j], O[j], C[j], w, M[j], S2[j])
            J0 += 0.5 * (1 + np.log(w))  # of a zero
            rho[j] = np.where(zero[j], expit(odds[j] - J0), 0.0)
            D[j] = (1 - rho[j]) * M[j] + rho[j] * C[j] - XB[j]
        omega = Omega.diagonal()[:, None]
        V = (1 - rho) * S2 + rho / omega + rho * (1 - rho) * (M - C) ** 2
        cells = (1 - rho) * (Y * (O + M) - A - log_factorial(Y))
        cells += rho * np.log(share) + (1 - rho) * np.log1p(-share) + entr(rho) + entr(1 - rho)
        cells = np.where(there, cells, 0.0) + 0.5 * ((1 - rho) * np.log(S2) - rho * np.log(omega) + 1)
        bound = cells.sum(axis=0) - 0.5 * (((Omega @ D) * D).sum(axis=0) + omega[:, 0] @ V - np.linalg.slogdet(Omega)[1])
        return Cells(M.T, S2.T, C.T, rho.T, z.pi), bound, D.T, V.T

    def update(self, params: InflatedParams, tally: InflatedTally, rng: np.random.Generator) -> InflatedParams:
        if _fell(params, tally):
            return ended(params)._replace(leap="back")
        params = params._replace(path=(*params.path[-2:], tally.J))
        if self.placing:
            return params
        new = self._maximise(params, tally)
        state = _packed(new)
        if state is None:
            return new._replace(seen=None, leap="")
        seen = np.vstack([*([] if params.leap or params.seen is None else [params.seen]), state])
        if len(seen) == KEPT:
            to = _unpacked(new, limit(seen))
            if to is not None:
                return to._replace(seen=seen[-1:], leap="on")
            seen = seen[-1:]
        return new._replace(seen=seen, leap="")

    def _maximise(self, params: InflatedParams, tally: InflatedTally) -> InflatedParams:
        """B, Sigma and pi given the rows."""
        move = np.linalg.solve(params.sums.XvX, tally.P)
        Sigma = params.Sigma
        if self.kind != "given":
            Sigma = (tally.G - tally.P.T @ move + np.diag(tally.V)) / params.sums.weight
            spread = Sigma.diagonal()
            if self.kind != "full":
                Sigma = np.diag(spread if self.kind == "diagonal" else np.full(len(spread), spread.mean()))
        pi = params.pi
        if self.by != "row":
            share = (
                tally.R / np.maximum(tally.N, 1e-300) if self.by != "global" else np.full(len(pi), tally.R.sum() / tally.N.sum())
            )
            pi = np.clip(share, LEAST, 1 - LEAST)
        G = params.G
        if G is not None:
            assert tally.g is not None
            assert tally.H is not None
            step = np.linalg.solve(tally.H, tally.g.T[:, :, None])[:, :, 0].T
            G = G + step * np.minimum(1.0, np.log(2) / np.maximum(params.far @ np.abs(step), 1e-300))  # eq. 6
        return params._replace(B=params.B + move, Sigma=Sigma, Omega=_inverse(Sigma), pi=pi, G=G)

    def objective(self, tally: InflatedTally, before: InflatedParams, after: InflatedParams) -> float:
        return before.path[-1] if _fell(before, tally) else tally.J

    def done(self, state: State) -> bool:
        path = state.params.path
        return not state.params.leap and len(path) == 3 and path[-1] - path[0] < 2 * self.tol * abs(path[-1])

    def rows(self, shard: Shard, latents: InflatedLatents, params: InflatedParams) -> InflatedRows:
        params = ended(params)
        begun = latents.before if params.leap == "back" and latents.before is not None else latents.now
        z, bound, D, V = self._expect(shard, begun, params)
        rate = (1 - z.rho) * np.exp(np.clip(shard.O + z.M + 0.5 * z.S2, HIDDEN, TOP))
        return InflatedRows(_means(shard, params) + D, V, z.rho, z.pi, rate, bound)


def begin(
    sums: Sums, B: np.ndarray, Sigma: np.ndarray, pi: np.ndarray, G: np.ndarray | None = None, far: np.ndarray | None = None
) -> InflatedParams:
    """Params to begin with."""
    return InflatedParams(sums, B, Sigma, _inverse(Sigma), np.clip(pi, LEAST, 1 - LEAST), (), G, far)


def ended(params: InflatedParams) -> InflatedParams:
    """The state before a leap that nobody has judged; others are what they are."""
    if params.leap != "on":
        return params
    assert params.seen is not None
    before = _unpacked(params, params.seen[-1])
    assert before is not None
    return before._replace(seen=None, leap="")


def _fell(params: InflatedParams, tally: InflatedTally) -> bool:
    """Whether a leap did not raise J."""
    return params.leap == "on" and not params.path[-1] <= tally.J


def _packed(params: InflatedParams) -> np.ndarray | None:
    """B, the root of Sigma with the logarithms of its diagonal, and the odds: numbers without bounds (m,). None: it has no root."""
    try:
        root = np.linalg.cholesky(params.Sigma)
    except np.linalg.LinAlgError:
        return None
    root[np.diag_indices(len(root))] = np.log(root.diagonal())
    odds = logit(params.pi) if params.G is None else params.G.ravel()
    return np.concatenate([params.B.ravel(), root[np.tril_indices(len(root))], odds])


def _unpacked(params: InflatedParams, state: np.ndarray) -> InflatedParams | None:
    """The other way round; None where the numbers have run away."""
    (d, p), root = params.B.shape, np.zeros_like(params.Sigma)
    B, lower, odds = np.split(state, [d * p, d * p + p * (p + 1) // 2])
    root[np.tril_indices(p)] = lower
    if not (np.isfinite(state).all() and np.abs(root.diagonal()).max() < TOP):
        return None
    root[np.diag_indices(p)] = np.exp(root.diagonal())
    Sigma, pi, G = root @ root.T, params.pi, params.G
    if G is None:
        pi = np.clip(expit(odds), LEAST, 1 - LEAST)
    else:
        G = odds.reshape(G.shape)
    return params._replace(B=B.reshape(d, p), Sigma=Sigma, Omega=_inverse(Sigma), pi=pi, G=G)


def _means(shard: Shard, params: InflatedParams) -> np.ndarray:
    """X B (n, p): the columns of the design after these are those of the zeros."""
    return shard.X[:, : len(params.B)] @ params.B


def _odds(shard: Shard, params: InflatedParams) -> np.ndarray:
    """logit pi (n, p) by covariates."""
    assert params.G is not None
    return cell_odds(shard.X[:, len(params.B) :], params.G)


def cell_odds(T: np.ndarray, G: np.ndarray) -> np.ndarray:
    """logit pi (n, p) of covariates T (n, e)."""
    return np.clip(T @ G, -SUREST, SUREST)


def _along(shard: Shard, params: InflatedParams, rho: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The sums of eq. 6, where covariates say who is inflated."""
    if params.G is None:
        return None, None
    T, odds = shard.X[:, len(params.B) :], _odds(shard, params)
    weight = np.where(shard.O > HIDDEN, shard.v[:, None], 0.0)
    pi = expit(odds)
    return T.T @ (weight * (rho - pi)), symmetric((weight * pi * (1 - pi)).T @ squares(T), T.shape[1])


def _cells(
    y: np.ndarray, o: np.ndarray, c: np.ndarray, w: float, m: np.ndarray, s2: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A Newton step of eq. 4 for the cells of a column, from m and s2, where it raises their part of J; and A, and that part."""

    def rate(at: Any, m: np.ndarray, s2: np.ndarray) -> np.ndarray:
        out = 0.5 * s2
        out += o[at]
        out += m
        np.maximum(np.minimum(out, TOP, out=out), HIDDEN, out=out)
        return np.exp(out, out=out)

    def value(at: Any, m: np.ndarray, s2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        A = rate(at, m, s2)
        return y[at] * m - A - 0.5 * (w * ((m - c[at]) ** 2 + s2) - np.log(s2)), A

    J, A = value(..., m, s2)
    step = np.maximum(np.minimum((y - A - w * (m - c)) / (w + A), REACH), -REACH)
    new = m + step
    S2 = 1.0 / (w + rate(..., new, s2))
    J_new, A_new = value(..., new, S2)
    falls = np.flatnonzero(~(J_new >= J))
    if not len(falls):
        return new, S2, A_new, J_new
    new[falls], S2[falls], A_new[falls], J_new[falls] = m[falls], s2[falls], A[falls], J[falls]
    if np.abs(step[falls]).max() >= STILL:  # what falls is tried again, shorter
        short = m[falls] + 0.25 * step[falls]
        J_short, A_short = value(falls, short, s2[falls])
        up = J_short >= J[falls]
        new[falls[up]], A_new[falls[up]], J_new[falls[up]] = short[up], A_short[up], J_short[up]
    return new, S2, A_new, J_new


def _zeros(shard: Shard) -> np.ndarray:
    return (shard.Y == 0) & (shard.O > HIDDEN)


def _row_share(shard: Shard, rho: np.ndarray) -> np.ndarray:
    return np.clip(rho.sum(axis=1) / np.maximum((shard.O > HIDDEN).sum(axis=1), 1), LEAST, 1 - LEAST)


def _inverse(Sigma: np.ndarray) -> Any:
    Omega = np.linalg.inv(Sigma)
    return 0.5 * (Omega + Omega.T)
