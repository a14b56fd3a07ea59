"""Class-wise sums of the rows of a table. Rows with y < 0 have no class and are passed over.

The first fit waits for the compiler, so sums are made ready and put together by NumPy: that is half of the wait.
"""

import numpy as np
from numba import njit

from tallies.kernels import JIT

LARGEST = 1e60  # as in `data.table`


def class_sums(X, y, weight, K):
    """Weights n and sums s, each (K, d), of the observed cells of each class; and how many cells are NaN, and beyond LARGEST."""
    n, s = np.zeros((2, K, X.shape[1]))
    whole = np.zeros(K)  # weight of the rows of ordinary numbers: added to their n at the end, out of the inner loop
    gaps, infinite = add_sums(X, y, weight, n, s, whole)
    return n + whole[:, None], s, gaps, infinite


@njit(**JIT)
def add_sums(X, y, weight, n, s, whole):
    """Add to the sums of `class_sums`."""
    d, gaps, infinite = X.shape[1], 0, 0
    for i in range(X.shape[0]):
        k, w = y[i], weight[i]
        ordinary = 0
        for j in range(d):
            ordinary += abs(X[i, j]) <= LARGEST
        if ordinary == d:
            if k >= 0 and w > 0:
                whole[k] += w
                for j in range(d):
                    s[k, j] += w * X[i, j]
            continue
        for j in range(d):
            x = X[i, j]
            gaps += x != x
            infinite += abs(x) > LARGEST
            if k >= 0 and w > 0 and x == x:
                n[k, j] += w
                s[k, j] += w * x
    return gaps, infinite


def class_squares(X, y, weight, centre):
    """Observed weight n, sums s and sums of squares ss, each (K, d), of the cells about the centre of their class."""
    n, s, ss = np.zeros((3, *centre.shape))
    whole = np.zeros(len(centre))  # weight of the rows without a gap: added to their n at the end, out of the inner loop
    add_squares(X, y, weight, centre, n, s, ss, whole)
    return n + whole[:, None], s, ss


@njit(**JIT)
def add_squares(X, y, weight, centre, n, s, ss, whole):
    """Add to the sums of `class_squares`."""
    d = centre.shape[1]
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


@njit(**JIT)
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
