"""Loops of large networks: scores of some outputs, what their residuals count, the penalty and the metric, site by site.

`codes` (n, l) are states of the sites, `first` (n + 1) the first feature of each. Columns are those of a panel, in any precision.
"""

import numpy as np
from numba import njit

from tallies.categories.kernels.fem import room_for, softmax_rows
from tallies.kernels import JIT

TILE = 512  # rows at a time: their scores stay in the cache while all sites pass by

make_room = njit(**JIT)(room_for)


@njit(**JIT)
def gather(codes, first, W, a, b, H):
    """H = sum over sites of the rows of W that the rows a to b of the table have; eight sites at a time stay in the cache."""
    n, w = codes.shape[0], W.shape[1]
    H[:] = 0.0
    for j in range(0, n - 7, 8):
        for i in range(a, b):
            h = H[i - a]
            w0, w1 = W[first[j] + codes[j, i]], W[first[j + 1] + codes[j + 1, i]]
            w2, w3 = W[first[j + 2] + codes[j + 2, i]], W[first[j + 3] + codes[j + 3, i]]
            w4, w5 = W[first[j + 4] + codes[j + 4, i]], W[first[j + 5] + codes[j + 5, i]]
            w6, w7 = W[first[j + 6] + codes[j + 6, i]], W[first[j + 7] + codes[j + 7, i]]
            for k in range(w):
                h[k] += ((w0[k] + w1[k]) + (w2[k] + w3[k])) + ((w4[k] + w5[k]) + (w6[k] + w7[k]))
    for j in range(n - n % 8, n):
        for i in range(a, b):
            h, w0 = H[i - a], W[first[j] + codes[j, i]]
            for k in range(w):
                h[k] += w0[k]


@njit(**JIT)
def scatter(codes, first, R, a, b, G):
    """Add the rows of R to the rows of G that the rows a to b of the table have."""
    n, w = codes.shape[0], G.shape[1]
    for j in range(n):
        for i in range(a, b):
            r, g = R[i - a], G[first[j] + codes[j, i]]
            for k in range(w):
                g[k] += r[k]


@njit(**JIT)
def pull(W, first, m, ridge, mean_ridge, G):
    """Take the gradient of the penalty off G; half of W times it, column by column.

    ridge (n, w) is that of the zero-sum part of each site for each column, mean_ridge that of the mean over states. Rows behind
    the m states of a site, of missing cells, have no weight and no gradient.
    """
    w = W.shape[1]
    out, mean = np.zeros(w), np.empty(w)
    for j in range(len(m)):
        a, b = first[j], first[j] + m[j]
        mean[:] = 0.0
        for f in range(a, b):
            for k in range(w):
                mean[k] += W[f, k]
        mean /= m[j]
        for f in range(a, b):
            for k in range(w):
                p = ridge[j, k] * (W[f, k] - mean[k]) + mean_ridge * mean[k]
                out[k] += 0.5 * p * W[f, k]
                G[f, k] -= p
        G[b : first[j + 1]] = 0.0
    return out


@njit(**JIT)
def solve(D, total, first, m, ridge, V, Z):
    """Z = A^-1 V, column by column, for A = blocks + D D'/L + ridge, blocks_j = diag(D_j) - D_j D_j'/L: eq. 3 of `panels`.

    L = total (w,), ridge (n, w). Two times Sherman-Morrison, of each site and of all.
    """
    w = V.shape[1]
    inner, norm, left, right = np.empty(w), np.empty(w), np.zeros(w), np.zeros(w)
    lift = np.empty((len(m), w))  # with B for blocks + ridge and d for its diagonal without the rank one, B_j^-1 D_j = lift D_j / d
    for j in range(len(m)):
        a, b = first[j], first[j] + m[j]
        inner[:], norm[:] = 0.0, 0.0
        for f in range(a, b):
            for k in range(w):
                share = D[f, k] / (D[f, k] + ridge[j, k])
                inner[k] += share * V[f, k]
                norm[k] += share * D[f, k]
        for k in range(w):
            lift[j, k] = 1.0 / max(1.0 - norm[k] / total[k], 1e-9)
            left[k] += lift[j, k] * inner[k]  # D'B^-1 v
            right[k] += lift[j, k] * norm[k]  # D'B^-1 D
            inner[k] *= lift[j, k] / total[k]
        for f in range(a, b):
            for k in range(w):
                Z[f, k] = (V[f, k] + D[f, k] * inner[k]) / (D[f, k] + ridge[j, k])
    for k in range(w):
        left[k] /= total[k] + right[k]
    for j in range(len(m)):
        for k in range(w):
            inner[k] = lift[j, k] * left[k]
        for f in range(first[j], first[j] + m[j]):
            for k in range(w):
                Z[f, k] -= D[f, k] / (D[f, k] + ridge[j, k]) * inner[k]
        Z[first[j] + m[j] : first[j + 1]] = 0.0


@njit(**JIT)
def centre(Z, starts):
    """Take off every row of Z the mean of the columns of each output."""
    for f in range(Z.shape[0]):
        for o in range(len(starts) - 1):
            mean = 0.0
            for k in range(starts[o], starts[o + 1]):
                mean += Z[f, k]
            mean /= starts[o + 1] - starts[o]
            for k in range(starts[o], starts[o + 1]):
                Z[f, k] -= mean


@njit(**JIT)
def bend(past, now, weight, first, starts, W, D):
    """Add to D (zero at first) the weight times p (1 - p) of every state of a panel, over the rows that have each feature."""
    l, n_out, w = past.shape[1], len(starts) - 1, W.shape[1]
    columns = starts[n_out]
    H, P, lse = np.empty((TILE, w), W.dtype), np.empty((TILE, columns)), np.zeros(n_out)
    ones, room = np.ones((TILE, 1)), make_room(n_out, columns)
    for a in range(0, l, TILE):
        b = min(a + TILE, l)
        gather(past, first, W, a, b, H[: b - a])
        P[:] = H[:, :columns]
        softmax_rows(P[: b - a], ones[: b - a], starts, lse, 0.0, room)
        H[:] = 0.0
        for i in range(a, b):
            for o in range(n_out):
                if now[o, i] >= 0:
                    for k in range(starts[o], starts[o + 1]):
                        H[i - a, k] = weight[i] * P[i - a, k] * (1.0 - P[i - a, k])
        scatter(past, first, H[: b - a], a, b, D)


@njit(**JIT)
def dots(A, B):
    """(w,)  inner products of the columns of two arrays, in double precision."""
    out = np.zeros(A.shape[1])
    for f in range(A.shape[0]):
        for k in range(A.shape[1]):
            out[k] += np.float64(A[f, k]) * np.float64(B[f, k])
    return out


@njit(**JIT)
def matches(rows, codes, least, out):
    """Add to out how many rows of `codes` agree with each of `rows` in at least `least` columns; most differ early."""
    n = codes.shape[1]
    for i in range(rows.shape[0]):
        for r in range(codes.shape[0]):
            differ = 0
            for a in range(0, n, 64):
                some = np.int32(0)
                for j in range(a, min(a + 64, n)):
                    some += np.int32(rows[i, j] != codes[r, j])
                differ += int(some)
                if differ > n - least:
                    break
            out[i] += differ <= n - least


@njit(**JIT)
def evaluate(past, now, weight, first, starts, W, G, value):
    """Add to value the log likelihood of each output of a panel, and to G (zero at first) its gradient.

    now (n_out, l) are the states of the outputs, below 0 for none; starts their first columns, behind which W is padded. Residuals
    are summed, not what is counted and what is expected: their difference would lose the digits of single precision.
    """
    l, n_out, w = past.shape[1], len(starts) - 1, W.shape[1]
    columns = starts[n_out]
    H, P = np.empty((TILE, w), W.dtype), np.empty((TILE, columns))
    w_io, lse, room = np.empty((TILE, n_out)), np.zeros(n_out), make_room(n_out, columns)
    for a in range(0, l, TILE):
        b = min(a + TILE, l)
        gather(past, first, W, a, b, H[: b - a])
        for i in range(a, b):
            for k in range(columns):
                P[i - a, k] = H[i - a, k]
            for o in range(n_out):
                known = now[o, i] >= 0
                w_io[i - a, o] = weight[i] if known else 0.0
                if known:
                    value[o] += weight[i] * P[i - a, starts[o] + now[o, i]]
        softmax_rows(P[: b - a], w_io[: b - a], starts, lse, 0.0, room)
        for i in range(a, b):
            for k in range(columns):
                H[i - a, k] = -P[i - a, k]
            for k in range(columns, w):
                H[i - a, k] = 0.0
            for o in range(n_out):
                if now[o, i] >= 0:
                    H[i - a, starts[o] + now[o, i]] += weight[i]
        scatter(past, first, H[: b - a], a, b, G)
    for o in range(n_out):
        value[o] -= lse[o]


@njit(**JIT)
def chosen(past, now, first, starts, W, normal, out):
    """out (l, n_out) = score of the state of each output of a panel, or its log p (normal); 0 where it has none."""
    l, n_out = past.shape[1], len(starts) - 1
    H = np.empty((TILE, W.shape[1]), W.dtype)
    for a in range(0, l, TILE):
        b = min(a + TILE, l)
        gather(past, first, W, a, b, H[: b - a])
        for i in range(a, b):
            for o in range(n_out):
                h = H[i - a, starts[o] : starts[o + 1]]
                top, total = np.float64(h.max()), 0.0
                for k in range(len(h)):
                    total += np.exp(h[k] - top)
                less = top + np.log(total) if normal else 0.0
                out[i, o] = h[now[o, i]] - less if now[o, i] >= 0 else 0.0


@njit(**JIT)
def sizes(W, first, m, starts, out):
    """out (n, n_out) = squared size of the zero-sum part of each site's block for each output."""
    for j in range(len(m)):
        for o in range(len(starts) - 1):
            V = W[first[j] : first[j] + m[j], starts[o] : starts[o + 1]].astype(np.float64)
            for s in range(V.shape[0]):
                V[s] -= V[s].mean()
            for k in range(V.shape[1]):
                V[:, k] -= V[:, k].mean()
            out[j, o] = (V * V).sum()
