# what numba compiles through intrinsics has no Python types
# mypy: disable-error-code="call-arg"
"""What a row says of classes: the best of linear scores; the evidence and the posterior of log joint probabilities."""

import numpy as np
from numba import njit

from tallies.kernels import JIT
from tallies.kernels.lanes import prefetch

AHEAD = 16  # rows by which memory is asked for before its turn: the machine by itself stops at the end of every page


@njit(**JIT, fastmath={"reassoc", "contract", "nsz"})
def linear_best(X, coef, offset, out):
    """Index of the largest x'coef_k + offset_k of each row, coef (K, d); -1 where NaN or infinities leave none.

    Two rows and five classes at a time, so that seven loads serve ten products; the last row or class may come again.
    Sums may be reordered for the vector unit, NaN is kept.
    """
    n, d, last = X.shape[0], X.shape[1], coef.shape[0] - 1
    J, G = np.empty(5), np.empty(5)
    for i in range(0, n, 2):
        g = min(i + 1, n - 1)
        for j in range(0, d, 8):
            prefetch(X, (min(i + AHEAD, n - 1), j))
            prefetch(X, (min(g + AHEAD, n - 1), j))
        top, best_k = -np.inf, -1
        top_g, best_g = -np.inf, -1
        for k in range(0, last + 1, 5):
            k1, k2, k3, k4 = min(k + 1, last), min(k + 2, last), min(k + 3, last), min(k + 4, last)
            a0, a1, a2, a3, a4 = 0.0, 0.0, 0.0, 0.0, 0.0
            b0, b1, b2, b3, b4 = 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(d):
                x, z = X[i, j], X[g, j]
                u0, u1, u2, u3, u4 = coef[k, j], coef[k1, j], coef[k2, j], coef[k3, j], coef[k4, j]
                a0 += x * u0
                a1 += x * u1
                a2 += x * u2
                a3 += x * u3
                a4 += x * u4
                b0 += z * u0
                b1 += z * u1
                b2 += z * u2
                b3 += z * u3
                b4 += z * u4
            J[0], J[1], J[2], J[3], J[4] = a0, a1, a2, a3, a4
            G[0], G[1], G[2], G[3], G[4] = b0, b1, b2, b3, b4
            for c in range(min(5, last + 1 - k)):
                a, b = J[c] + offset[k + c], G[c] + offset[k + c]
                if a > top:
                    top, best_k = a, k + c
                if b > top_g:
                    top_g, best_g = b, k + c
        out[i] = best_k if top < np.inf else -1
        out[g] = best_g if top_g < np.inf else -1


@njit(**JIT)
def evidence(J, out):
    """log sum exp of each row; -inf where the whole row is, or a part of it NaN."""
    for i in range(J.shape[0]):
        top, total = -np.inf, 0.0
        for j in range(J.shape[1]):  # by hand: max() takes the compiler as long as all the rest
            if J[i, j] > top or J[i, j] != J[i, j]:
                top = J[i, j]
        if top > -np.inf:
            for j in range(J.shape[1]):
                total += np.exp(J[i, j] - top)
            out[i] = top + np.log(total)
        else:
            out[i] = -np.inf


def log_posterior(J, out):
    """J minus the evidence of its row; equal shares where no class is possible."""
    total = np.empty(J.shape[0])
    evidence(J, total)
    subtract(J, total, out)


@njit(**JIT)
def subtract(J, total, out):
    """The loops of `log_posterior`."""
    for i in range(J.shape[0]):
        for k in range(J.shape[1]):
            out[i, k] = J[i, k] - total[i] if total[i] > -np.inf else -np.log(J.shape[1])
