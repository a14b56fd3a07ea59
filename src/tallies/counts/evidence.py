"""log p(Y_i) of a PLN by importance sampling, row by row, with its error and its effective sample size.

With Z = mu + C V and V ~ N(0, I_q), the best Gaussian N(m, P) for V | Y (in the sense of the bound) solves

    a = exp(o + mu + C m + diag(C P C')/2),      P = (I + C'diag(a) C)^-1,      C'(Y - a) = m                            (eq. 1)

"gaussian" draws V from it. "sequential" (q = p) draws the entries of Z one after the other: with d = Z - E Z, b = Omega (E Z -
mu) and C P C' = L L', the target is that Gaussian times the product over j of

    exp{ y_j (o_j + E Z_j + d_j) - exp(o_j + E Z_j + d_j) - log y_j! - b_j d_j + a_j d_j^2 / 2 },    d_j = L_j u          (eq. 2)

up to a constant; u_j is drawn given u_1 ... u_{j-1} from phi(u_j) times factor j, made piecewise linear on a grid. The weights
correct for the grid, so the estimate of p(Y_i) stays unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from scipy import linalg
from scipy.special import logsumexp

from tallies.counts.fitted import orient
from tallies.counts.kernels.plain import TOP
from tallies.counts.records import Place, Shard, blocks, log_factorial
from tallies.engine import Model, State
from tallies.forms import Form

SEQUENTIAL_FROM = 4  # latent dimensions beyond which one Gaussian for all of them wastes most draws


class Evidence(NamedTuple):
    """An estimate of the log likelihood."""

    value: float  # sum over rows
    stderr: float  # of the value
    rows: Annotated[np.ndarray, Form("n")]  # log p(Y_i)
    rows_stderr: Annotated[np.ndarray, Form("n", low=0)]
    ess: Annotated[np.ndarray, Form("n", low=0)]  # effective share of the draws of each row

    @classmethod
    def of(cls, rows: np.ndarray, errors: np.ndarray, ess: np.ndarray) -> Evidence:
        """That of all rows together, whose draws are independent."""
        return cls(float(rows.sum()), float(np.sqrt((errors**2).sum())), rows, errors, ess)


class Proposal(NamedTuple):
    """Gaussians of eq. 1 for some rows."""

    m: np.ndarray  # means of V                                     (n, q)
    P: np.ndarray  # covariances of V                               (n, q, q)
    a: np.ndarray  # rates                                          (n, p)


def gaussians(
    Y: np.ndarray, base: np.ndarray, C: np.ndarray, m: np.ndarray | None = None, laplace: bool = False, tol: float = 1e-8
) -> Proposal:
    """Eq. 1 for every row, by damped Newton steps; base = O + X B. `laplace` leaves the variance out of a: the mode."""
    n, q = len(Y), C.shape[1]
    m = np.zeros((n, q)) if m is None else np.array(m, dtype=np.float64)
    spread, P = np.zeros_like(Y), np.zeros((n, q, q))
    outer = (C[:, :, None] * C[:, None, :]).reshape(len(C), -1)
    rows = np.arange(n)  # those still moving: each stops by itself, so that its company does not matter
    for _ in range(100):
        a = np.exp(np.minimum(base[rows] + m[rows] @ C.T + 0.5 * spread[rows], TOP))
        H = (a @ outer).reshape(-1, q, q)
        H[:, np.arange(q), np.arange(q)] += 1.0
        P[rows] = inverse = np.linalg.inv(H)
        move = np.einsum("ikl,il->ik", inverse, (Y[rows] - a) @ C - m[rows])
        change = np.abs(move @ C.T).max(axis=1)  # in log rates: beyond 1 the exponential is no parabola
        m[rows] += move / np.maximum(1.0, change)[:, None]
        if not laplace:
            new = ((C @ inverse) * C).sum(axis=2)
            change = np.maximum(change, np.abs(new - spread[rows]).max(axis=1))
            spread[rows] = new
        rows = rows[change >= tol]
        if not len(rows):
            break
    return Proposal(m, P, np.exp(np.minimum(base + m @ C.T + 0.5 * spread, TOP)))


def weigh(
    Y: np.ndarray, base: np.ndarray, C: np.ndarray, at: Proposal, draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws of V from the Gaussians (from standard normal `draws`, (n, k, q)), log weights (n, k) and rates (n, k, p).

    The constant log Y! is left out of the weights.
    """
    L = np.linalg.cholesky(at.P)
    V = at.m[:, None, :] + np.einsum("ikl,isl->isk", L, draws)
    eta = base[:, None, :] + V @ C.T
    rates = np.exp(np.minimum(eta, TOP))
    log_det = np.log(np.einsum("ikk->ik", L)).sum(axis=1)
    log_w = np.einsum("isj,ij->is", eta, Y) - rates.sum(axis=2) - 0.5 * (V * V).sum(axis=2)
    return V, log_w + 0.5 * (draws * draws).sum(axis=2) + log_det[:, None], rates


def latents(
    Y: np.ndarray, base: np.ndarray, C: np.ndarray, n_draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws of V given the counts (n, k, q), equally likely: taken from those of the Gaussians of eq. 1, each as often as its
    weight says; with the log weights before that (n, k), and the effective share of the draws of each row.

    One uniform number a row picks them all, at even steps along the summed weights: no draw comes more than once too often.
    """
    V, logs = np.empty((len(Y), n_draws, C.shape[1])), np.empty((len(Y), n_draws))
    for b in blocks(len(Y), n_draws * (len(C) + C.shape[1]), 30_000_000):
        at = gaussians(Y[b], base[b], C, tol=1e-4)
        drawn, logs[b], _ = weigh(Y[b], base[b], C, at, rng.normal(size=(len(Y[b]), n_draws, C.shape[1])))
        w = np.exp(logs[b] - logs[b].max(axis=1, keepdims=True))
        steps = (rng.random((len(w), 1)) + np.arange(n_draws)) / n_draws
        edges = w.cumsum(axis=1) / w.sum(axis=1, keepdims=True)
        picked = [
            np.minimum(np.searchsorted(edge, step, side="right"), n_draws - 1) for edge, step in zip(edges, steps, strict=True)
        ]
        V[b] = np.take_along_axis(drawn, np.array(picked)[:, :, None], axis=1)
    w = np.exp(logs - logs.max(axis=1, keepdims=True))
    return V, logs, w.mean(axis=1) ** 2 / (w * w).mean(axis=1)


def evidence(
    Y: np.ndarray, base: np.ndarray, C: np.ndarray, n_draws: int, rng: np.random.Generator, proposal: str = "auto"
) -> Evidence:
    """log p(Y_i) for rows with base = O + X B and Z = X B + C V.

    A base of -1e4 marks a missing count, whose factor is one. `proposal` is "gaussian", "sequential" (C square and invertible) or
    "auto": sequential where it can be used and there are more than SEQUENTIAL_FROM dimensions.
    """
    n, q = len(Y), C.shape[1]
    if proposal == "auto":
        proposal = "sequential" if q == len(C) and q > SEQUENTIAL_FROM else "gaussian"
    if proposal == "sequential":
        C = np.linalg.cholesky(C @ C.T)
    logs = np.empty((n, n_draws))
    entries, most = (n_draws * (len(C) + q), 30_000_000) if proposal == "gaussian" else (q * (q + n_draws), 20_000_000)
    for b in blocks(n, entries, most):
        at = gaussians(Y[b], base[b], C, tol=1e-4)  # any Gaussian will do; the weights are exact
        rows = len(Y[b])
        if proposal == "gaussian":
            logs[b] = weigh(Y[b], base[b], C, at, rng.normal(size=(rows, n_draws, q)))[1]
        else:
            logs[b] = _sequential(Y[b], base[b], C, at, rng.random((rows, n_draws, q)))
    w = np.exp(logs - logs.max(axis=1, keepdims=True))
    values = logsumexp(logs, axis=1) - np.log(n_draws) - log_factorial(Y).sum(axis=1)
    mean = w.mean(axis=1)
    errors = w.std(axis=1, ddof=1) / np.sqrt(n_draws) / mean  # of a logarithm, by the delta method
    return Evidence.of(values, errors, mean**2 / (w * w).mean(axis=1))


def _sequential(Y: np.ndarray, base: np.ndarray, C: np.ndarray, at: Proposal, uniforms: np.ndarray) -> np.ndarray:
    """Log weights of the sequential proposal; C is the lower Cholesky factor of Sigma."""
    from tallies.counts.kernels.sequential import draw

    Z = at.m @ C.T
    b = linalg.solve_triangular(C, at.m.T, lower=True, trans=1).T  # Omega (E Z - mu)
    logs = np.empty(uniforms.shape[:2])
    for i in range(len(Y)):
        L = C @ np.linalg.cholesky(at.P[i])  # of C P C': the product of two lower factors with positive diagonals is one
        k0 = np.log(np.diagonal(L)).sum() - np.log(np.diagonal(C)).sum() - 0.5 * at.m[i] @ at.m[i]
        eta = np.maximum(base[i] + Z[i], -700.0)
        known = Y[i] * (base[i] + Z[i])
        logs[i] = k0 + known.sum() + draw(Y[i], np.exp(np.minimum(eta, TOP)), at.a[i], b[i], np.ascontiguousarray(L), uniforms[i])
    return logs


def positions(shard: Shard, B: np.ndarray, C: np.ndarray, whole: bool) -> Place:
    """Means and variances of V by eq. 1, or (`whole`) of all of Z = X B + C V."""
    mean = shard.X @ B
    at = gaussians(shard.Y, shard.O + mean, C)
    if not whole:
        return Place(at.m, np.einsum("ikk->ik", at.P).copy())
    return Place(mean + at.m @ C.T, np.einsum("jk,ikl,jl->ij", C, at.P, C, optimize=True))


class Candidates(NamedTuple):
    """Models to choose from."""

    W: Annotated[np.ndarray, Form("c p k")]  # [B', C] of each, the preferred one last   (c, p, d + q)
    chosen: Annotated[int, Form(kind="i", low=-1, below="c")] = -1  # the likeliest
    loglik: Annotated[np.ndarray, Form("c")] | None = None  # of each


class RowEvidence(NamedTuple):
    """The rows of a shard under every candidate."""

    under: tuple[Evidence, ...]


class EvidenceTally(NamedTuple):
    """Log likelihood of a shard under every candidate."""

    loglik: np.ndarray  # (c,)


@dataclass(frozen=True)
class Estimate(Model):
    """The log likelihood of rows in one sweep, under one candidate or several with the same draws; a stage begins with them."""

    n_draws: int = 1000
    proposal: str = "auto"
    place: str = ""  # "scores": the rows' scores on their axes are wanted too; "whole": all of Z

    def sweep(self, shard: Shard, latents: None, params: Candidates, rng: np.random.Generator) -> tuple[EvidenceTally, RowEvidence]:
        d, seed = shard.X.shape[1], rng.integers(2**63)
        found = [
            evidence(shard.Y, shard.O + shard.X @ W[:, :d].T, W[:, d:], self.n_draws, np.random.default_rng(seed), self.proposal)
            for W in params.W
        ]
        return EvidenceTally(np.stack([one.rows for one in found]) @ shard.v), RowEvidence(tuple(found))

    def update(self, params: Candidates, tally: EvidenceTally, rng: np.random.Generator) -> Candidates:
        last = len(tally.loglik) - 1
        return params._replace(chosen=last - int(np.argmax(tally.loglik[::-1])), loglik=tally.loglik)  # of equals the last

    def objective(self, tally: EvidenceTally, before: Candidates, after: Candidates) -> float:
        return float(tally.loglik[after.chosen])

    def done(self, state: State) -> bool:
        return True

    def rows(self, shard: Shard, latents: RowEvidence, params: Candidates) -> tuple[Evidence, Place | None]:
        W, d = params.W[params.chosen], shard.X.shape[1]
        C = orient(W[:, d:])[0] if self.place == "scores" else W[:, d:]
        place = positions(shard, W[:, :d].T, C, self.place == "whole") if self.place else None
        return latents.under[params.chosen], place
