"""The first guess of the inverse Hessian of F(M, log w), from which L-BFGS begins. Symbols as in `full`.

With w = Omega_jj and Omega's diagonal alone, columns are apart. A move (x, l) of M_.j and log w_j meets the Hessian

    x:  v (w + h) x - w v X (X'vX)^-1 X'v x - k v c (c'v x) + b v c l,        h = A (1 - u A / 2),  c = 2 R - u A
    l:  b c'v x + (N/2) tau (1 - tau) l,      tau = w^2 T / N,  k = w^2 / 2N,  b = w tau / 2,  T = sum_i v u             (eq. 1)

for B and Sigma follow M. Along the covariates only the counts resist, which are few for a rare species, and none where its effect
is separated; so do they along its variance, of which the best may be 0, where log w has no end. With t = h / (w + h) the guess is

    H_x^-1 + k c^ c^' + z z' / s,      H_x^-1 = D + v D X K X'v D,      D = 1 / (v (w + h)),      K = w (X'v t X)^-1
    c^ = H_x^-1 v c,      z = (-b c^, 1),      s = (N/2) tau (1 - tau)                                                  (eq. 2)

exact in the covariates, to first order in c. Towards its end F falls as exp(-l) does, whose curvature is its slope. So s is at
least |z'g|: log w moves by 1 at most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LEAST = 1e-6  # counts' worth of information below which an effect is not followed any faster: there is no more to gain from it
FLAT = 1e-3  # the same for a variance, in nats
RARE = 0.9  # tau from which M follows the variance of a column: with more counts than that they hold M, and eq. 2 is too rough
REACH_W = 1.0  # longest step of one log w


class Guess(NamedTuple):
    """What the guess P makes of vectors y_k, of which y_w is the part of log w."""

    table: np.ndarray  # y_k'P y_l without the part of D                (k, k)
    KX: np.ndarray  # K X'v D y_k                                       (k, d, p)
    eta: np.ndarray  # c^'y_k                                           (k, p)
    zeta: np.ndarray  # z'y_k                                           (k, p)
    KXc: np.ndarray  # K X'v D v c                                      (d, p)
    k: np.ndarray  # (p,)
    b: np.ndarray  # (p,)
    s: np.ndarray  # (p,)

    def along(self, mix: np.ndarray, reach: np.ndarray, omega: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """What P adds to D in P sum_k mix_k y_k (d + 2, p): coefficients of v D X and v D c, and l; no column beyond its reach.

        `metric` is X'vX / N, so that `reach` is in root mean square over the rows.
        """
        l = (mix @ self.zeta) / self.s
        of_c = self.k * (mix @ self.eta) - self.b * l
        of_X = np.tensordot(mix, self.KX, axes=1) + self.KXc * of_c
        far = np.sqrt(np.einsum("dj,dj->j", of_X, metric @ of_X)) / omega
        return np.vstack([of_X, of_c, l]) / np.maximum(np.maximum(far / reach, np.abs(l) / REACH_W), 1.0)


def may_be_rare(w: np.ndarray, s2: np.ndarray, N: float) -> bool:
    """Whether any tau may exceed RARE, from s2 = sum_i v S2: as u <= S2^2 and w S2 <= 1, tau is no more than w s2 / N."""
    return bool((w * s2 > RARE * N).any())


def guess(ZDy: np.ndarray, y_w: np.ndarray, XtX: np.ndarray, XvX: np.ndarray, T: np.ndarray, w: np.ndarray, N: float) -> Guess:
    """From [X c]'v D y_k (k + 1, d + 1, p), where the last y is v c and the one before it the gradient, and from y_w (k, p).

    N is infinite where Sigma does not follow the rows. Where no column is `rare` there need be no c.
    """
    floor = LEAST / (w * N) + 1e-12
    K = w[:, None, None] * np.linalg.inv(XtX + floor[:, None, None] * XvX)
    KX = np.einsum("jde,kej->kdj", K, ZDy[:, :-1])
    KX, KXc = KX[:-1], KX[-1]
    eta = ZDy[:-1, -1] + np.einsum("dj,kdj->kj", ZDy[-1, :-1], KX)
    k, tau = w * w / (2 * N), w * w * T / N
    rare = (tau > RARE) & (ZDy[-1, -1] > 0)  # c'v D v c: 0 where there was no c
    b = 0.5 * w * tau * rare
    k = k * rare
    zeta = y_w - b * eta
    s = np.maximum(np.maximum(0.5 * w * w * T * (1 - tau), np.abs(zeta[-1]) / REACH_W), FLAT)
    table = np.tensordot(ZDy[:-1, :-1], KX, axes=((1, 2), (1, 2))) + (eta * k) @ eta.T + (zeta / s) @ zeta.T
    return Guess(table, KX, eta, zeta, KXc, k, b, s)
