"""The variational fit of a zero-inflated PLN-PCA at given odds of structural zeros: the verbs of `rank`, with other terms of zeros.

    W_ij ~ Bernoulli(pi_j);   Y_ij = 0 where W_ij = 1, else a count of the PLN-PCA

The scores of a row follow from all of its counts, so that one zero says little of them, and q takes W as independent of them. With
A_ij = E exp(o + z) as in `rank` and o_j = logit pi_j, the best q(W_ij = 1) of a zero and what the zero adds to the bound are

    rho = 1 / (1 + exp(-o - A)),        log(pi + (1 - pi) exp(-A)) = log(1 - pi) - A + log(1 + exp(o + A))                 (eq. 1)

in place of -A; counts above 0 add log(1 - pi). Its slope in A is -(1 - rho), so value and slopes of the bound are those of a
PLN-PCA whose offsets of zeros are lower by -log(1 - rho), and terms that do not depend on its variables. pi is the mean of rho at
the maximum: the plan takes turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np
from scipy.special import expit

from tallies.counts import rows
from tallies.counts.kernels.plain import TOP
from tallies.counts.rank import Rank, RankLatents, RankParams
from tallies.counts.records import Latent, Shard, Variance, log_factorial
from tallies.counts.tables import HIDDEN
from tallies.forms import Form


class ZeroPlace(NamedTuple):
    """Where the rows of a shard ended, and what became of their zeros."""

    M: Latent  # variational means of the scores
    S2: Variance
    bound: Annotated[np.ndarray, Form("n")]  # of every row
    rho: Annotated[np.ndarray, Form("n p", low=0, high=1)]
    rate: Annotated[np.ndarray, Form("n p", low=0)]  # (1 - rho) A


@dataclass(frozen=True)
class InflatedRank(Rank):
    """The verbs; what is not here is as for PLN-PCA. A stage begins with the params of `rank.begin`."""

    odds: np.ndarray = field(default_factory=lambda: np.zeros(0))  # logit pi (p,)

    def _evaluate(
        self, shard: Shard, z: RankLatents, W: np.ndarray, renew: bool, curved: bool
    ) -> tuple[float, np.ndarray, np.ndarray | None]:
        q = W.shape[1] - shard.X.shape[1]
        A, more, there = self._zeros(shard, W, z.x_trial[:, :q], np.exp(np.clip(z.x_trial[:, q:], -TOP, TOP)))
        F, g_W, H = rows.evaluate(shard._replace(O=shard.O - more), z, W, renew, curved)
        kept = A * np.where(more > 0, -np.expm1(-more), 0.0) - more  # rho A - log(1 + exp(o + A))
        F += float(shard.v @ (kept + there * np.logaddexp(0.0, self.odds)).sum(axis=1))
        return F, g_W, H

    def _zeros(self, shard: Shard, W: np.ndarray, M: np.ndarray, S2: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, -log(1 - rho) = log(1 + exp(o + A)) of zeros, 0 elsewhere, and which cells are there."""
        C, there = W[:, shard.X.shape[1] :], shard.O > HIDDEN
        A = np.exp(np.minimum(shard.O + np.hstack([shard.X, M]) @ W.T + 0.5 * S2 @ (C * C).T, TOP))
        return A, np.where((shard.Y == 0) & there, np.logaddexp(0.0, self.odds + A), 0.0), there

    def rows(self, shard: Shard, latents: RankLatents, params: RankParams) -> ZeroPlace:  # type: ignore[override]
        M, S2, _ = super().rows(shard, latents, params)
        W = self.answer(params)[0]
        A, more, there = self._zeros(shard, W, M, S2)
        zero = (shard.Y == 0) & there
        fit = shard.Y * (shard.O + np.hstack([shard.X, M]) @ W.T) - A - log_factorial(shard.Y)
        fit = np.where(there, fit + more - np.logaddexp(0.0, self.odds), 0.0).sum(axis=1)
        rho = np.where(zero, expit(self.odds + A), 0.0)
        return ZeroPlace(M, S2, fit - 0.5 * (M * M + S2 - np.log(S2) - 1).sum(axis=1), rho, (1 - rho) * A)
