"""Class-wise sums of the rows of a table. Rows with y < 0 have no class and are passed over."""

import numpy as np
from numba import njit

LARGEST = 1e60  # as in `data.table`


@njit(nogil=True, cache=True)
def class_sums(X, y, weight, K):
    """Weights n and sums s, each (K, d), of the observed cells of each class; and how many cells are NaN, and beyond LARGEST."""
    d = X.shape[1]
    n, s, gaps, infinite = np.zeros((K, d)), np.zeros((K, d)), 0, 0
    for i in range(X.shape[0]):
        k, w = y[i], weight[i]
        for j in range(d):
            x = X[i, j]
            gaps += x != x
            infinite += abs(x) > LARGEST
            if k >= 0 and w > 0 and x == x:
                n[k, j] += w
                s[k, j] += w * x
    return n, s, gaps, infinite


@njit(nogil=True, cache=True)
def class_squares(X, y, weight, centre):
    """Observed weight n, sums s and sums of squares ss, each (K, d), of the cells about the centre of their class."""
    K, d = centre.shape
    n, s, ss = np.zeros((K, d)), np.zeros((K, d)), np.zeros((K, d))
    whole = np.zeros(K)  # weight of the rows without a gap: added to their n at the end, out of the inner loop
    for i in range(X.shape[0]):
        k, w = y[i], weight[i]
        if k < 0 or w <= 0:
            continue
        gap = False
        for j in range(d):
            gap |= X[i, j] != X[i, j]
        if gap:
            for j in range(d):
                z = X[i, j] - centre[k, j]
                if z == z:
                    n[k, j] += w
                    s[k, j] += w * z
                    ss[k, j] += w * z * z
        else:
            whole[k] += w
            for j in range(d):
                z = X[i, j] - centre[k, j]
                s[k, j] += w * z
                ss[k, j] += w * z * z
    return n + whole.reshape(K, 1), s, ss


@njit(nogil=True, cache=True)
def centred_rows(X, rows, y, weight, centre, Z, s):
    """Write sqrt(w) (x - centre of its class) of the given rows to Z, and add w (x - centre) to s (K, d)."""
    d = X.shape[1]
    for a in range(rows.shape[0]):
        i = rows[a]
        k, w = y[i], weight[i]
        r = np.sqrt(w)
        for j in range(d):
            z = X[i, j] - centre[k, j]
            Z[a, j] = r * z
            s[k, j] += w * z
