"""What a row of log joint probabilities says: its best class, its evidence, its posterior."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def best(J, out):
    """Index of the largest entry of each row."""
    for i in range(J.shape[0]):
        k = 0
        for j in range(1, J.shape[1]):
            if J[i, j] > J[i, k]:
                k = j
        out[i] = k


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def linear_best(X, coef, offset, out):
    """Index of the largest x'coef_k + offset_k of each row, coef (K, d); -1 where NaN or infinities leave none.

    Two rows and two classes at a time, so that a load serves two products; the last row or class may come twice.
    Sums may be reordered for the vector unit, NaN is kept.
    """
    n, d, K = X.shape[0], X.shape[1], coef.shape[0]
    for i in range(0, n, 2):
        g = min(i + 1, n - 1)
        top, best_k = -np.inf, -1
        top_g, best_g = -np.inf, -1
        for k in range(0, K, 2):
            h = min(k + 1, K - 1)
            a, b, c, e = 0.0, 0.0, 0.0, 0.0
            for j in range(d):
                x, z, u, v = X[i, j], X[g, j], coef[k, j], coef[h, j]
                a += x * u
                b += x * v
                c += z * u
                e += z * v
            a += offset[k]
            b += offset[h]
            c += offset[k]
            e += offset[h]
            if a > top:
                top, best_k = a, k
            if b > top:
                top, best_k = b, h
            if c > top_g:
                top_g, best_g = c, k
            if e > top_g:
                top_g, best_g = e, h
        out[i] = best_k if top < np.inf else -1
        out[g] = best_g if top_g < np.inf else -1


@njit(nogil=True, cache=True)
def evidence(J, out):
    """log sum exp of each row; -inf where the whole row is."""
    for i in range(J.shape[0]):
        top = J[i].max()
        total = 0.0
        if top > -np.inf:
            for j in range(J.shape[1]):
                total += np.exp(J[i, j] - top)
            out[i] = top + np.log(total)
        else:
            out[i] = -np.inf


@njit(nogil=True, cache=True)
def log_posterior(J, out):
    """J minus the evidence of its row; equal shares where no class is possible."""
    total = np.empty(J.shape[0])
    evidence(J, total)
    for i in range(J.shape[0]):
        for k in range(J.shape[1]):
            out[i, k] = J[i, k] - total[i] if total[i] > -np.inf else -np.log(J.shape[1])


@njit(nogil=True, cache=True)
def posterior(J, out):
    """exp of `log_posterior`."""
    log_posterior(J, out)
    for i in range(J.shape[0]):
        for k in range(J.shape[1]):
            out[i, k] = np.exp(out[i, k])
