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
    zeta: np.ndarray  # z'y_k                                           (k, p)
    s: np.ndarray  # (p,)
    bent: Bent | None  # where M follows the variance of any column

    def along(self, mixes: np.ndarray, reach: np.ndarray, omega: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """What P adds to D in P sum_k mix_k y_k, for each of several mixes (mixes, k): coefficients of v D X and v D c, and l
        (mixes, d + 2, p); no column beyond its reach.

        `metric` is X'vX / N, so that `reach` is in root mean square over the rows.
        """
        k, d, p = self.KX.shape
        out = np.zeros((len(mixes), d + 2, p))
        of_X, of_c, l = out[:, :d], out[:, d], out[:, d + 1]
        np.divide(mixes @ self.zeta, self.s, out=l)
        of_X[...] = (mixes @ self.KX.reshape(k, d * p)).reshape(-1, d, p)
        if self.bent is not None:
            of_c[...] = self.bent.k * (mixes @ self.bent.eta) - self.bent.b * l
            of_X += self.bent.KXc * of_c[:, None]
        far = np.sqrt((of_X * (metric @ of_X)).sum(axis=1))
        out /= np.maximum(np.maximum(far / (omega * reach), np.abs(l) / REACH_W), 1.0)[:, None]
        return out


class Bent(NamedTuple):
    """The part of the guess by which M follows the variance."""

    eta: np.ndarray  # c^'y_k                                           (k, p)
    KXc: np.ndarray  # K X'v D v c                                      (d, p)
    k: np.ndarray  # (p,), 0 where M does not
    b: np.ndarray  # (p,)


def rare(w: np.ndarray, s2: np.ndarray, N: float) -> np.ndarray:
    """Which columns may have a tau beyond RARE, from s2 = sum_i v S2: as u <= S2^2 and w S2 <= 1, tau is no more than w s2 / N."""
    return w * s2 > RARE * N


def guess(ZDy: np.ndarray, y_w: np.ndarray, XtX: np.ndarray, XvX: np.ndarray, T: np.ndarray, w: np.ndarray, N: float) -> Guess:
    """From [X c]'v D y_k (k + 1, d + 1, p), where the last y is v c and the one before it the gradient, and from y_w (k, p).

    N is infinite where Sigma does not follow the rows. Where no column is `rare` there need be no c.
    """
    n = len(y_w)
    floor = LEAST / (w * N) + 1e-12
    K = w[:, None, None] * np.linalg.inv(XtX + floor[:, None, None] * XvX)
    XDy, cDy = ZDy[:, :-1], ZDy[:, -1]
    KX = np.einsum("jde,kej->kdj", K, XDy)
    table = XDy[:-1].reshape(n, -1) @ KX[:-1].reshape(n, -1).T
    information = w * w * T
    tau = information / N
    follows = (tau > RARE) & (cDy[-1] > 0)  # c'v D v c: 0 where there was no c
    bent, zeta = None, y_w
    if follows.any():
        eta = cDy[:-1] + np.einsum("dj,kdj->kj", XDy[-1], KX[:-1])
        bent = Bent(eta, KX[-1], follows * w * w / (2 * N), follows * 0.5 * w * tau)
        zeta = y_w - bent.b * eta
        table += (eta * bent.k) @ eta.T
    s = np.maximum(np.maximum(0.5 * information * (1 - tau), np.abs(zeta[-1]) / REACH_W), FLAT)
    table += (zeta / s) @ zeta.T
    return Guess(table, KX[:-1], zeta, s, bent)
