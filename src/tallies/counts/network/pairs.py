"""Correlations of the latents of a PLN by the exact likelihood of two columns at a time, and how uncertain they are.

The bound of a PLN is high where the latents of a row hardly depend on each other given its counts, so its correlations are too
near 0 where counts are small. What is exact in all pairs needs no bound: with z = o + x'B_j + sigma_j u, u standard Gaussian,

    f_ij(u) ~ Poisson(Y_ij; exp z) N(u; 0, 1)           the posterior of a cell by itself, on a grid about its mode          (eq. 1)
    p(Y_ij, Y_ik) ~ sum f_ij(u) f_ik(w) phi(u, w; r) / (phi(u) phi(w))        with a correlation r of u and w                (eq. 2)

B_j and sigma_j maximise the likelihood of a column, then r that of the pair. Scores are means over (u, w) given both counts,

    of r:  r/(1-r^2) + E[(1+r^2) u w - r (u^2 + w^2)]/(1-r^2)^2,     of a column:  E[(y - e^z) x],  E[(y - e^z) sigma u]     (eq. 3)

(the last of log sigma). To first order row i moves the estimates by

    psi_j = H_j^-1 v_i s_ij,      psi_jk = (v_i s_i(r) - c_j'psi_j - c_k'psi_k) / sum v s(r)^2,    c_j = sum v s(r) s_j      (eq. 4)

with H_j minus the Hessian of a column and s_j its scores in the pair: the latent noise and the means and variances that had to be
estimated are in psi. Reference: Joe 2005 on estimation in two stages, margins first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallies.counts.kernels.plain import TOP
from tallies.counts.records import blocks
from tallies.counts.tables import HIDDEN

NODES, STEP = 15, 0.85  # of the grid, in standard deviations of a Gaussian at the mode
LEAST, LARGEST = -3.5, 2.0  # of log sigma; below it a column varies no more than Poisson counts do
SEEN = 10  # rows with a count that a column needs: of fewer its variance is a guess
STEPS = 60  # most Newton steps of a column
ROOM = 1 << 22  # entries of a grid at once


class Cells(NamedTuple):
    """Posteriors of the cells of some columns by themselves."""

    u: np.ndarray  # nodes                                          (p, n, K)
    h: np.ndarray  # their distance                                 (p, n)
    f: np.ndarray  # weights, whose sum is 1                        (p, n, K)
    s: np.ndarray  # y - e^z, and that times sigma u                (p, n, 2, K)
    log_p: np.ndarray  # log likelihood without log y!              (p, n)


class Margins(NamedTuple):
    """Columns by themselves."""

    B: np.ndarray  # (d, p)
    sigma: np.ndarray  # (p,)
    psi: np.ndarray  # influence of the rows on B_j and log sigma_j  (p, n, d + 1)


class Correlations(NamedTuple):
    """Correlations of all pairs."""

    R: np.ndarray  # (p, p)
    psi: np.ndarray  # influence of the rows on those of the upper triangle   (pairs, n)
    flat: np.ndarray  # columns that have none: they do not vary, or are hardly ever seen  (p,)


def cells(Y: np.ndarray, L: np.ndarray, sigma: np.ndarray) -> Cells:
    """Eq. 1 for counts (p, n) and logarithmic rates (p, n) of some columns."""
    scale = sigma[:, None]
    u = np.zeros_like(L)
    for _ in range(60):
        rate = np.exp(np.clip(L + scale * u, HIDDEN, TOP))
        move = np.clip((scale * (Y - rate) - u) / (1.0 + scale**2 * rate), -2.0, 2.0)
        u += move
        if np.abs(move).max(initial=0.0) < 1e-3:
            break
    h = STEP / np.sqrt(1.0 + scale**2 * np.exp(np.clip(L + scale * u, HIDDEN, TOP)))
    u = u[:, :, None] + h[:, :, None] * (np.arange(NODES) - NODES // 2)
    z = np.clip(L[:, :, None] + scale[:, :, None] * u, HIDDEN, TOP)
    left = Y[:, :, None] - np.exp(z)
    log_f = left + Y[:, :, None] * (z - 1.0) - 0.5 * u * u
    top = log_f.max(axis=2, keepdims=True)
    f = np.exp(log_f - top)
    total = f.sum(axis=2, keepdims=True)
    log_p = np.log(total[:, :, 0] * h) + top[:, :, 0] - 0.5 * np.log(2 * np.pi)
    return Cells(u, h, f / total, np.stack([left, left * scale[:, :, None] * u], axis=2), log_p)


def margins(Y: np.ndarray, O: np.ndarray, X: np.ndarray, v: np.ndarray, B: np.ndarray, sigma: np.ndarray) -> Margins:
    """Maximum likelihood of every column of Y (n, p) by itself, by Newton steps from B (d, p) and sigma (p,)."""
    (n, p), d = Y.shape, X.shape[1]
    out = Margins(B.copy(), sigma.copy(), np.empty((p, n, d + 1)))
    for b in blocks(p, n * NODES, ROOM):
        theta = np.column_stack([B[:, b].T, np.clip(np.log(sigma[b]), LEAST, LARGEST)])
        step, value = np.zeros_like(theta), np.full(len(theta), -np.inf)
        scores, H = np.empty((len(theta), n, d + 1)), np.empty((len(theta), d + 1, d + 1))
        for _ in range(STEPS):
            at = theta + step
            at[:, d] = np.clip(at[:, d], LEAST, LARGEST)
            new, *rest = _column(Y[:, b].T, O[:, b].T, X, v, at)
            up = new >= value - 1e-10 * np.abs(value)
            theta, value = np.where(up[:, None], at, theta), np.where(up, new, value)
            scores, H = (np.where(up[:, None, None], a, old) for a, old in zip(rest, (scores, H), strict=True))
            newton = np.linalg.solve(H, (scores * v[:, None]).sum(axis=1)[:, :, None])[:, :, 0]
            newton *= np.minimum(1.0, 1.0 / np.maximum(np.abs(newton).max(axis=1, keepdims=True), 1e-300))
            step = np.where(up[:, None], newton, 0.25 * step)
            if np.abs(step).max() < 1e-7:
                break
        out.B[:, b], out.sigma[b] = theta[:, :d].T, np.exp(theta[:, d])
        out.psi[b] = np.linalg.solve(H, (scores * v[:, None]).transpose(0, 2, 1)).transpose(0, 2, 1)
    return out


def _column(Y: np.ndarray, O: np.ndarray, X: np.ndarray, v: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, ...]:
    """Log likelihood (p,), scores of the rows (p, n, d + 1) and minus the Hessian, made positive, of some columns at theta."""
    d = X.shape[1]
    at = cells(Y, O + theta[:, :d] @ X.T, np.exp(theta[:, d]))
    scale = np.exp(theta[:, d])[:, None, None]
    mean = np.einsum("pnk,pnlk->pln", at.f, at.s)
    rate = Y[:, :, None] - at.s[:, :, 0]
    fu, along = at.f * rate, scale * at.u
    # Louis: minus the mean Hessian given the counts, less the variance of the scores
    own = fu.sum(axis=2) - ((at.f * at.s[:, :, 0] ** 2).sum(axis=2) - mean[:, 0] ** 2)
    cross = (fu * along).sum(axis=2) - ((at.f * at.s[:, :, 0] * at.s[:, :, 1]).sum(axis=2) - mean[:, 0] * mean[:, 1])
    last = (fu * along**2).sum(axis=2) - ((at.f * at.s[:, :, 1] ** 2).sum(axis=2) - mean[:, 1] ** 2) - mean[:, 1]
    H = np.empty((len(Y), d + 1, d + 1))
    H[:, :d, :d] = np.einsum("pn,nd,ne->pde", own * v, X, X)
    H[:, :d, d] = H[:, d, :d] = (cross * v) @ X
    H[:, d, d] = (last * v).sum(axis=1)
    values, vectors = np.linalg.eigh(H)
    values = np.maximum(np.abs(values), 1e-6 * np.abs(values).max(axis=1, keepdims=True))
    H = (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)
    return at.log_p @ v, np.concatenate([mean[:, 0, :, None] * X, mean[:, 1, :, None]], axis=2), H


def correlations(Y: np.ndarray, O: np.ndarray, X: np.ndarray, v: np.ndarray, B: np.ndarray, Sigma: np.ndarray) -> Correlations:
    """Correlations of the columns of Y (n, p), from coefficients B (d, p) and a covariance to begin with."""
    from tallies.counts.kernels import pairs as kernels

    sd = np.sqrt(np.maximum(Sigma.diagonal(), np.exp(2 * LEAST)))
    alone = margins(Y, O, X, v, B, sd)
    flat = (alone.sigma <= 1.01 * np.exp(LEAST)) | ((Y > 0).sum(axis=0) < SEEN)
    at = cells(Y.T, (O + X @ alone.B).T, alone.sigma)
    R = np.clip(Sigma / np.outer(sd, sd), -0.9, 0.9)
    p = len(R)
    psi = np.empty((p * (p - 1) // 2, len(Y)), dtype=np.float32)
    kernels.correlate(at.u, at.h, at.f, at.s, np.ascontiguousarray(X), v, alone.psi, R, psi)
    np.fill_diagonal(R, 1.0)
    a, b = np.triu_indices(p, 1)
    none = flat[a] | flat[b]
    psi[none] = 0.0
    R[a[none], b[none]] = R[b[none], a[none]] = 0.0
    return Correlations(R, psi, flat)
