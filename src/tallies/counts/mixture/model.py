"""The variational fit of a mixture of PLNs: the five verbs.

    c_i ~ pi,   Z_i | c_i = k ~ N(B_k'x_i, Sigma_k),   Y_ij | Z_ij ~ Poisson(exp(o_ij + Z_ij))

With q(c_i = k) = tau_ik, q(Z_i | c_i = k) = N(M_ik, diag S2_ik) and J_ik the bound of row i in component k (eq. 1 of `full`),

    J = sum_i v_i sum_k tau_ik (J_ik + log pi_k - log tau_ik)                                                            (eq. 1)
    tau_ik ~ pi_k exp(J_ik),      pi_k = sum_i v_i tau_ik / N,      so that J = sum_i v_i log sum_k pi_k exp(J_ik)       (eq. 2)

Given tau each component is a PLN whose rows weigh v_i tau_ik: its means, variances, B_k and Sigma_k are those of `full`. The
components search side by side, a sweep of each in turn, for some steps (INNER); then a sweep assigns the rows anew (ASSIGN). What a
row keeps in each component stays beside it. A component that is left with fewer rows than it has coefficients is given up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import logsumexp, xlogy

from tallies.counts import full
from tallies.counts.full import GRADIENT, Covariance, FullLatents, FullParams, Slopes, Trial
from tallies.counts.kernels.plain import TOP
from tallies.counts.onward import again, restart
from tallies.counts.records import Shard, Sums, log_factorial
from tallies.engine import Model, State
from tallies.forms import Form

FIRST, INNER, ASSIGN = 0, 1, 2  # what the next sweep does
STEPS = 5  # of each component before rows are assigned anew: as many as its search remembers values of
NEAR = 0.02  # share of the rows that an assignment may move for the searches to go on with what they remember
PART = 0.5  # of the gain of the last assignment and the steps before it: a step that gains less waits for the next assignment
FLOOR = 1e-12  # least weight of a row in a component: its place there is found all the same, and counts for nothing

Share = Annotated[np.ndarray, Form("n K", low=0, high=1)]


@dataclass(frozen=True)
class Component(Covariance):
    """A PLN among others."""

    def _wide(self, shard: Shard) -> bool:
        return False  # rows that weigh nothing are rows, too: their pull is found from Omega


class MixedParams(NamedTuple):
    """The small global state."""

    phase: Annotated[int, Form(kind="i", low=0, high=2)]  # FIRST, INNER or ASSIGN
    parts: tuple[FullParams, ...]  # searches of the components
    share: Annotated[np.ndarray, Form("K", low=0, high=1)]  # pi; 0: given up
    path: tuple[float, ...] = ()  # J after each assignment
    moved: float = 1.0  # share of the rows that the last one moved
    ended: bool = False


class MixedLatents(NamedTuple):
    """What the rows keep."""

    tau: Share
    parts: tuple[FullLatents, ...]


class MixedTally(NamedTuple):
    """Sums over a shard: of the searches, or of an assignment."""

    parts: tuple[Trial | Slopes | None, ...] = ()
    J: float = 0.0
    moved: float = 0.0  # sum of v |change of tau| / 2
    N: Annotated[np.ndarray, Form("K", nan=True)] | None = None  # sum of v tau
    XvX: Annotated[np.ndarray, Form("K d d", nan=True)] | None = None  # X'v tau X


class MixedRows(NamedTuple):
    """Where the rows of a shard ended."""

    tau: Share
    bound: Annotated[np.ndarray, Form("n")]  # of every row
    M: Annotated[np.ndarray, Form("n p")] | None = None  # means of Z over the components, where they are wanted
    S2: Annotated[np.ndarray, Form("n p", low=0)] | None = None  # variances of Z


RECORDS = (MixedParams, MixedLatents, MixedTally)


@dataclass(frozen=True)
class Mixed(Model):
    """The verbs."""

    kind: str = "full"  # of the covariance of a component: "full", "diagonal" or "spherical"
    grouping: int = 0  # among those of the shards, by which rows are assigned first
    rounds: int | None = None  # most assignments; None: until they change nothing
    tol: float = 1e-8  # stop when the assignment and the steps before it gain less than this part of the bound
    bare: bool = False  # of the rows no more is wanted than tau and their bounds

    monotone: ClassVar[bool] = True

    @property
    def inner(self) -> Component:
        return Component(self.kind, tol=0.1 * self.tol)

    def survey(self, shard: Shard) -> Sums:
        return shard.sums()

    def settle(self, shard: Shard, params: MixedParams, rng: np.random.Generator) -> MixedLatents:
        assert shard.groups is not None  # of the fit before
        tau = np.eye(len(params.parts))[shard.groups[:, self.grouping]]
        return MixedLatents(tau, tuple(self.inner.settle(shard, part, rng) for part in params.parts))

    def sweep(
        self, shard: Shard, latents: MixedLatents, params: MixedParams, rng: np.random.Generator
    ) -> tuple[MixedTally, MixedLatents]:
        if params.phase == FIRST:
            return _sums(shard, latents.tau), latents
        if params.phase == ASSIGN:
            tau, bound, _ = _assigned(shard, latents, params)
            at = (current(z, part) for z, part in zip(latents.parts, params.parts, strict=True))
            moved = 0.5 * float(shard.v @ np.abs(tau - latents.tau).sum(axis=1))
            return _sums(shard, tau, float(shard.v @ bound), moved), MixedLatents(tau, tuple(at))
        tallies, parts = [], []
        for k, (z, part) in enumerate(zip(latents.parts, params.parts, strict=True)):
            tally = None
            if not self._idle(params, k):
                own = shard._replace(v=shard.v * np.maximum(latents.tau[:, k], FLOOR), even=False, constant=0.0)
                tally, z = self.inner.sweep(own, z, part, rng)
            tallies.append(tally)
            parts.append(z)
        return MixedTally(tuple(tallies)), latents._replace(parts=tuple(parts))

    def update(self, params: MixedParams, tally: MixedTally, rng: np.random.Generator) -> MixedParams:
        if params.phase != INNER:
            return self._weigh(params, tally)
        found = zip(params.parts, tally.parts, strict=True)
        parts = tuple(part if its is None else self.inner.update(part, its, rng) for part, its in found)
        params = params._replace(parts=parts)
        return params._replace(phase=ASSIGN) if all(self._idle(params, k) for k in range(len(parts))) else params

    def _weigh(self, params: MixedParams, tally: MixedTally) -> MixedParams:
        """Shares of the components, their sums, and whether that is the end."""
        d = len(params.parts[0].point.B)
        assert tally.N is not None
        assert tally.XvX is not None
        alive = (d < tally.N) & ((params.share > 0) | (params.phase == FIRST))
        share = np.where(alive, tally.N, 0.0) / tally.N[alive].sum()
        parts, moved = [], 1.0 if params.phase == FIRST else tally.moved / tally.N.sum()
        for part, N, XvX in zip(params.parts, tally.N, tally.XvX, strict=True):
            part = part._replace(sums=part.sums._replace(weight=max(float(N), FLOOR), XvX=XvX))
            parts.append(part if part.w is None else again(part) if moved < NEAR else restart(part))
        path = params.path if params.phase == FIRST else (*params.path, tally.J)
        over = len(path) > 1 and path[-1] - path[-2] < self.tol * abs(path[-1])
        over = over and bool((share[params.share > 0] > 0).all())  # not where a component has just been given up
        over = over or (self.rounds is not None and len(path) >= self.rounds)
        return params._replace(phase=INNER, parts=tuple(parts), share=share, path=path, moved=moved, ended=over)

    def _idle(self, params: MixedParams, k: int) -> bool:
        """Whether a component waits for the next assignment."""
        search, K = params.parts[k].search, len(params.parts)
        if params.share[k] == 0 or search.ended:
            return True
        if params.moved < NEAR and len(search.path) > 1 and len(params.path) > 1:  # until steps gain less than assignments do
            return search.path[-2] - search.path[-1] < PART * (params.path[-1] - params.path[-2]) / K
        return len(search.path) > STEPS and K > 1

    def objective(self, tally: MixedTally, before: MixedParams, after: MixedParams) -> float:
        return after.path[-1] if after.path else np.nan

    def done(self, state: State) -> bool:
        return state.params.ended

    def ahead(self, params: MixedParams) -> MixedParams:
        swept = [params.phase == ASSIGN or not self._idle(params, k) for k in range(len(params.parts))]
        parts = zip(params.parts, swept, strict=True)
        return params._replace(parts=tuple(self.inner.ahead(part) if its else part for part, its in parts))

    def rows(self, shard: Shard, latents: MixedLatents, params: MixedParams) -> MixedRows:
        tau, bound, places = _assigned(shard, latents, params)
        if self.bare:
            return MixedRows(tau, bound)
        M = sum(tau[:, [k]] * place[0] for k, place in enumerate(places))
        second = sum(tau[:, [k]] * (S2 + m * m) for k, (m, S2) in enumerate(places))
        return MixedRows(tau, bound, M, np.maximum(second - M * M, 1e-300))


def begin(sums: Sums, K: int) -> MixedParams:
    """Params to begin with."""
    assert sums.n_j is not None  # surveyed
    B = np.zeros((len(sums.XvX), len(sums.n_j)))
    return MixedParams(FIRST, tuple(full.begin(sums, B) for _ in range(K)), np.full(K, 1.0 / K))


def _sums(shard: Shard, tau: np.ndarray, J: float = 0.0, moved: float = 0.0) -> MixedTally:
    weight = shard.v[:, None] * np.maximum(tau, FLOOR)
    return MixedTally(J=J, moved=moved, N=weight.sum(axis=0), XvX=np.einsum("id,ik,ie->kde", shard.X, weight, shard.X))


def current(z: FullLatents, part: FullParams) -> FullLatents:
    """Latents at the point that the search has accepted."""
    return z._replace(M=z.M_trial, S2=z.S2_trial, M_trial=z.M, S2_trial=z.S2) if part.phase == GRADIENT else z


def _assigned(shard: Shard, latents: MixedLatents, params: MixedParams) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """tau and the bound of every row (eq. 2), and their places in the components."""
    J, places = np.full(latents.tau.shape, -np.inf), []
    for k, (part, its) in enumerate(zip(params.parts, latents.parts, strict=True)):
        z = current(its, part)
        places.append((z.M, z.S2))
        if params.share[k] > 0:
            J[:, k] = np.log(params.share[k]) + row_bounds(shard, z.M, z.S2, part.point)
    bound = logsumexp(J, axis=1)
    if not params.path and params.phase != ASSIGN:  # cut before anything was found
        return latents.tau, bound, places
    return np.exp(J - bound[:, None]), bound, places


def row_bounds(shard: Shard, M: np.ndarray, S2: np.ndarray, point: full.Point) -> np.ndarray:
    """Eq. 1 of `full`, row by row."""
    L = shard.O + M
    fit = shard.Y * L - np.exp(np.minimum(L + 0.5 * S2, TOP)) - log_factorial(shard.Y)
    return fit.sum(axis=1) - 0.5 * divergence(shard, M, S2, point)


def divergence(shard: Shard, M: np.ndarray, S2: np.ndarray, point: full.Point) -> np.ndarray:
    """Twice that of q_i from the prior of row i; before there is a precision, with the diagonal of the start."""
    begun = point.Omega.size > 0
    Omega, logdet = (point.Omega, point.logdet) if begun else (point.omega, -float(np.log(point.omega).sum()))
    R = M - shard.X @ point.B
    pull = R @ Omega if Omega.ndim == 2 else R * Omega
    return logdet + (pull * R).sum(axis=1) + S2 @ point.omega - (np.log(S2) + 1).sum(axis=1)


def uncertainty(tau: np.ndarray, v: np.ndarray) -> float:
    """Entropy of the assignments.

    >>> round(uncertainty(np.array([[0.5, 0.5], [1.0, 0.0]]), np.ones(2)), 4)
    0.6931
    """
    return -float(v @ xlogy(tau, tau).sum(axis=1))
