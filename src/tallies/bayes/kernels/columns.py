"""Tallies and log likelihoods of naive Bayes, one family of columns at a time. `out` is (rows, classes) and is added to.

The first fit waits for the compiler, so arrays are made by NumPy, outside of the loops.
"""

import math

import numpy as np
from numba import njit

from tallies.kernels import JIT

FEW = 200_000  # cells times classes
CHUNK = 64  # rows taken together: their values, column by column, stay in the first-level cache


def gaussian_scores(X, mean, half_precision, constant, out):
    """Add sum_j constant_kj - (x_ij - mean_kj)^2 half_precision_kj over the observed cells of each row.

    Of few cells NumPy makes the same sums, in the same order, while a compiler would still begin.
    """
    if X.size * len(mean) >= FEW:
        add_gaussian(X, mean, half_precision, constant, out)
        return
    acc = np.zeros_like(out)
    for j in range(X.shape[1]):
        z = X[:, j, None] - mean[:, j]
        acc += np.where(z == z, constant[:, j] - z * z * half_precision[:, j], 0.0)
    out += acc


@njit(**JIT)
def add_gaussian(X, mean, half_precision, constant, out):
    """The loops of `gaussian_scores`."""
    n, d = X.shape
    block, acc = np.empty((d, CHUNK)), np.empty(CHUNK)
    for start in range(0, n, CHUNK):
        m, gaps = min(CHUNK, n - start), False
        for i in range(m):
            for j in range(d):
                x = X[start + i, j]
                block[j, i] = x
                gaps |= x != x
        for k in range(mean.shape[0]):
            for i in range(CHUNK):
                acc[i] = 0.0
            for j in range(d):
                mu, h, c = mean[k, j], half_precision[k, j], constant[k, j]
                for i in range(CHUNK):  # whole chunks, for the vector unit: what is past m is never read
                    z = block[j, i] - mu
                    acc[i] += c - z * z * h if not gaps or z == z else 0.0  # without gaps nothing is asked
            for i in range(m):
                out[start + i, k] += acc[i]


def state_range(C):
    """Smallest and largest value of each column of a table of whole numbers."""
    low, high = C[0].astype(np.int64), C[0].astype(np.int64)
    widen(C, low, high)
    return low, high


@njit(**JIT)
def widen(C, low, high):
    """The loops of `state_range`."""
    for i in range(1, C.shape[0]):
        for j in range(C.shape[1]):
            low[j] = min(low[j], C[i, j])
            high[j] = max(high[j], C[i, j])


@njit(**JIT)
def mark_states(C, low, start, seen):
    """Set seen[start_j + value - low_j] for every value of every column."""
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            seen[start[j] + C[i, j] - low[j]] = True


def categorical_tally(C, y, weight, start, K):
    """Weight of each state in each class, (states, K): column j has the rows start_j to start_{j+1}; code -1 is missing."""
    counts = np.zeros((start[-1], K))
    add_categorical(C, y, weight, start, counts)
    return counts


@njit(**JIT)
def add_categorical(C, y, weight, start, counts):
    """The loops of `categorical_tally`."""
    for i in range(C.shape[0]):
        k, w = y[i], weight[i]
        if k < 0 or w <= 0:
            continue
        for j in range(C.shape[1]):
            if C[i, j] >= 0:
                counts[start[j] + C[i, j], k] += w


@njit(**JIT)
def categorical_scores(C, log_p, log_unseen, start, out):
    """Add log_p (states, K) of each cell's state; a code past the states of its column is unseen, -1 is missing."""
    K = log_p.shape[1]
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            c = C[i, j]
            if c < 0:
                continue
            row = start[j] + c
            if row >= start[j + 1]:
                for k in range(K):
                    out[i, k] += log_unseen[j, k]
            else:
                for k in range(K):
                    out[i, k] += log_p[row, k]


@njit(**JIT)
def log_factorials(values, weight, table):
    """Sum over cells of weight_i log(x!), NaN passed over; `table` holds log(0!), log(1!), ..."""
    total = 0.0
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            x = values[i, j]
            if x == x:
                total += weight[i] * (table[int(x)] if x < table.shape[0] else math.lgamma(x + 1.0))
    return total


@njit(**JIT)
def poisson_scores(X, log_rate, rate, table, out):
    """Add sum_j x log rate - rate - log x! over the observed cells of each row."""
    K, d = rate.shape
    for i in range(X.shape[0]):
        for j in range(d):
            x = X[i, j]
            if x != x:
                continue
            base = table[int(x)] if x < table.shape[0] else math.lgamma(x + 1.0)
            for k in range(K):
                # 0 log 0 = 0: a rate of nought allows a count of nought
                out[i, k] += (x * log_rate[k, j] if x > 0 else 0.0) - rate[k, j] - base


@njit(**JIT)
def log_factorial(x, table):
    """log x!, with a gamma function for that of a fraction."""
    return table[int(x)] if x < table.shape[0] and x == np.floor(x) else math.lgamma(x + 1.0)


def multinomial_tally(data, indices, indptr, y, weight, V, K, table):
    """Weighted counts (K, V) of a CSR block, and the weighted sum of the rows' log multinomial coefficients."""
    counts = np.zeros((K, V))
    return counts, add_multinomial(data, indices, indptr, y, weight, counts, table)


@njit(**JIT)
def add_multinomial(data, indices, indptr, y, weight, counts, table):
    """The loops of `multinomial_tally`."""
    base = 0.0
    for i in range(indptr.shape[0] - 1):
        k, w = y[i], weight[i]
        if k >= 0 and w > 0:
            total, factorials = 0.0, 0.0
            for p in range(indptr[i], indptr[i + 1]):
                x = data[p]
                counts[k, np.uint64(indices[p])] += w * x  # unsigned: no look whether the index counts from the end
                total += x
                if x != 1.0:  # most are one, and log 1! = 0
                    factorials += log_factorial(x, table)
            base += w * (math.lgamma(total + 1.0) - factorials)
    return base


@njit(**JIT, fastmath={"contract"})
def multinomial_scores(data, indices, indptr, log_p, out):
    """Add sum_w x_w log p_kw; log_p is (V, K), so that a word's classes lie together.

    Five classes at a time, whose sums stay in registers; the last class may come again.
    """
    last, sums = log_p.shape[1] - 1, np.empty(5)
    for i in range(indptr.shape[0] - 1):
        for k in range(0, last + 1, 5):
            k1, k2, k3, k4 = min(k + 1, last), min(k + 2, last), min(k + 3, last), min(k + 4, last)
            a0, a1, a2, a3, a4 = 0.0, 0.0, 0.0, 0.0, 0.0
            for p in range(indptr[i], indptr[i + 1]):
                x, w = data[p], np.uint64(indices[p])
                if x > 0:  # 0 log 0 = 0
                    a0 += x * log_p[w, k]
                    a1 += x * log_p[w, k1]
                    a2 += x * log_p[w, k2]
                    a3 += x * log_p[w, k3]
                    a4 += x * log_p[w, k4]
            sums[0], sums[1], sums[2], sums[3], sums[4] = a0, a1, a2, a3, a4
            for c in range(min(5, last + 1 - k)):
                out[i, k + c] += sums[c]


@njit(**JIT)
def multinomial_coefficients(data, indptr, table, out):
    """Add the log multinomial coefficient of each row to every class."""
    for i in range(indptr.shape[0] - 1):
        total, factorials = 0.0, 0.0
        for p in range(indptr[i], indptr[i + 1]):
            x = data[p]
            total += x
            if x != 1.0:
                factorials += log_factorial(x, table)
        out[i] += math.lgamma(total + 1.0) - factorials


@njit(**JIT)
def not_counts(values):
    """The first value that is no count (negative, fractional, infinite), or NaN when all are; a NaN passes as missing."""
    for x in values:
        if x == x and (x < 0 or x != np.floor(x) or np.isinf(x)):
            return x
    return np.nan
