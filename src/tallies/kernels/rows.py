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
