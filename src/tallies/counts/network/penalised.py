"""The variational fit of a PLN whose precision is sparse: the verbs of `full`, with a penalty on the entries off its diagonal.

With S = (R'vR + diag sum v S2) / N of `full`, sd_j^2 = S_jj, and Theta_jk = Omega_jk sd_j sd_k, maximise

    J - (N/2) rho sum_{j != k} L_jk |Theta_jk|                                                                         (eq. 1)

over everything, J the bound. Given the rows, Theta is the graphical lasso of the correlations of S with penalties rho L. It is
profiled out as Sigma is in `full`, and what is left is as smooth: by the envelope theorem its slopes are those of eq. 3 there, with

    Omega~_jk = Theta_jk / (sd_j sd_k)  off the diagonal,     Omega~_jj = (1 - sum_{k != j} Theta_jk R_jk) / S_jj        (eq. 2)

in place of Omega, R the correlations: the penalty moves with the scale of a column, which it must not reward. On the raw scale,
where sd is 1 in eq. 1, Omega~ is Omega.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallies.counts.answers import correlation
from tallies.counts.full import Covariance, FullParams, Point, Trial
from tallies.counts.network import lasso

LEFT, MOST = 0.1, 1e-3  # of the last gain of the bound, and of the bound: how far a lasso may be from its minimum


@dataclass(frozen=True)
class Penalised(Covariance):
    """The verbs; what is not here is as for a full covariance."""

    kind: str = "network"
    penalty: float = 0.0  # rho
    weights: np.ndarray | None = None  # L (p, p), as the user gave them; None: 1 for all pairs
    raw: bool = False  # the penalty is on Omega itself

    def lasso(self, S: np.ndarray, start: np.ndarray | None = None, tol: float = 1e-12) -> lasso.Solution:
        """Theta of S: of its correlations, or on the raw scale of itself; from an Omega~."""
        L = pair_penalties(self.penalty, self.weights, len(S))
        if self.raw:
            return lasso.solve(S, L, start, tol)
        if start is not None:
            sd = np.sqrt(S.diagonal())
            start = start * np.outer(sd, sd)
            paid = np.where(start != 0, L, 0.0) * np.abs(start)
            start[np.diag_indices(len(S))] -= paid.sum(axis=1)  # eq. 2 backwards: at the minimum W_jk = R_jk + L_jk sign Theta_jk
        return lasso.solve(correlation(S), L, start, tol)

    def _maximise(self, params: FullParams, tally: Trial) -> tuple[Point | None, float]:
        """B, Omega~ and minus eq. 1 at the trial point; None where the covariance is not finite or not positive."""
        N, p, old = params.sums.weight, len(tally.s2), params.point
        assert tally.G is not None
        move = self._regress(params, tally)
        S = np.asarray(tally.G - tally.P.T @ move, dtype=np.float64)
        S = 0.5 * (S + S.T)
        S[np.diag_indices(p)] += tally.s2
        S /= N
        if not (np.isfinite(tally.fit) and np.isfinite(S).all() and (S.diagonal() > 0).all()):
            return None, np.inf
        path = params.search.path
        gain = path[-2] - path[-1] if len(path) > 1 else np.inf
        size = abs(path[-1]) if path else abs(tally.fit)
        # at the end less than the stopping rule could see
        left = np.clip(LEFT * gain, max(0.1 * self.tol, 1e-15) * size, MOST * size)
        found = self.lasso(S, np.asarray(old.Omega, dtype=np.float64) if old.Omega.ndim == 2 else None, 2 * left / (N * p))
        Omega, value, variance = found.Theta.copy(), found.value, S.diagonal()
        if not self.raw:
            own = 1.0 + Omega.diagonal() - np.einsum("jk,jk->j", Omega, correlation(S))
            Omega /= np.sqrt(np.outer(variance, variance))
            Omega[np.diag_indices(p)] = own / variance  # eq. 2
            value += np.log(variance).sum()
        omega = Omega.diagonal().copy()
        if params.single:  # the rows use it so
            Omega = Omega.astype(np.float32)
        F = float(-tally.fit + 0.5 * N * (value - p))
        if not np.isfinite(F) or omega.min() <= 0:
            return None, np.inf
        return Point(old.B + move, Omega, omega, -found.logdet, move @ Omega, *self._paces(params, tally, move)), F


def pair_penalties(penalty: float, weights: np.ndarray | None, p: int) -> np.ndarray:
    """rho L (p, p), 0 on the diagonal."""
    L = np.full((p, p), penalty) if weights is None else lasso.scaled(weights, penalty)
    np.fill_diagonal(L, 0.0)
    return L
