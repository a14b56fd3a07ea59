"""The loops of the graphical lasso: sweeps of coordinate descent over pairs, and over rows. Symbols as in `network.lasso`."""

from __future__ import annotations

import numpy as np
from numba import njit

from tallies.kernels import JIT


@njit(**JIT, fastmath={"contract", "reassoc", "nsz"})
def dot(x, y):
    """Sum of products, in any order."""
    total = x.dtype.type(0)
    for l in range(len(x)):
        total += x[l] * y[l]
    return total


@njit(**JIT, fastmath={"contract"}, inline="always")
def visit(i, j, slope, Theta, W, L, D, U):
    """Give a place its best value, in D and U, where eq. 2 has this slope there; the move, and its size in the metric of eq. 2."""
    if j == i:
        curve = W[i, i] * W[i, i]
        move = -slope / curve
    else:
        curve = W[i, j] * W[i, j] + W[i, i] * W[j, j]
        here, edge = Theta[i, j] + D[i, j], L[i, j] / curve
        to = here - slope / curve
        move = max(to - edge, 0.0) + min(to + edge, 0.0) - here
    if move != 0.0:
        D[i, j] += move
        by = W.dtype.type(move)
        for l in range(len(W)):
            U[i, l] += by * W[j, l]
        if j != i:
            D[j, i] += move
            for l in range(len(W)):
                U[j, l] += by * W[i, l]
    return move, abs(move) * np.sqrt(curve)


@njit(**JIT, fastmath={"contract"})
def sweep(Theta, W, G, L, ptr, places, D, U, c):
    """One sweep of coordinate descent over the free places, in D and U = D W; its largest move, in the metric of eq. 2.

    Row i of the upper triangle is free at places[ptr[i]:ptr[i+1]], the diagonal among them; c is room for p numbers. W, U and c may
    be in single precision: twice as many of them are in the cache, and nearly all of the time goes by waiting for these.
    """
    far = 0.0
    for i in range(len(W)):
        for l in range(len(W)):
            c[l] = U[l, i]
        for a in range(ptr[i], ptr[i + 1]):
            j = places[a]
            move, size = visit(i, j, G[i, j] + dot(W[j], c), Theta, W, L, D, U)  # (W D W)_ij = W_j'U_i
            if move != 0.0:
                far = max(far, size)
                c[i], c[j] = U[i, i], U[j, i]
    return far


@njit(**JIT, fastmath={"contract"})
def sweep_squares(Theta, W, G, L, ptr, places, D, U, c):
    """The same, but c is room for b rows of p numbers, and places are visited in squares of b rows and columns: their rows of W and
    U are used again before others take their room in the cache."""
    p, b = len(W), len(c)
    far = 0.0
    for top in range(0, p, b):
        many = min(b, p - top)
        next_one = ptr[top : top + many].copy()
        for l in range(p):
            for r in range(many):
                c[r, l] = U[l, top + r]
        for end in range(top + b, p + b, b):
            for r in range(many):
                i = top + r
                while next_one[r] < ptr[i + 1] and places[next_one[r]] < end:
                    j = places[next_one[r]]
                    next_one[r] += 1
                    move, size = visit(i, j, G[i, j] + dot(W[j], c[r]), Theta, W, L, D, U)
                    if move != 0.0:
                        far = max(far, size)
                        for q in range(many):
                            c[q, i], c[q, j] = U[i, top + q], U[j, top + q]
    return far


@njit(**JIT, fastmath={"contract", "reassoc", "nsz"})
def rows(Theta, W, S, L, most, close):
    """Give each row of Theta, one after the other, its best values given all others, in Theta and W = Theta^-1.

    A row x without its diagonal is the minimum of S_jj x'V x / 2 + S_j'x + sum L_j |x|, V the inverse of Theta without row and
    column j, and Theta_jj = 1/S_jj + x'V x. Of up to `most` sweeps of coordinate descent the first alone looks at places that are
    0, and they end where the largest move is the share `close` of the first.
    """
    p = len(W)
    x, v, u = np.empty(p), np.empty(p), np.empty(p)
    for j in range(p):
        own, scale, along, first = S[j, j], 1.0 / W[j, j], 0.0, 0.0
        for k in range(p):  # number by number: rows that are copied whole make the compiler wait for two seconds
            x[k], u[k], v[k] = Theta[j, k], W[j, k], 0.0
        x[j] = 0.0
        for k in range(p):
            if x[k] != 0.0:
                along += u[k] * x[k]
                for l in range(p):
                    v[l] += W[k, l] * x[k]
        for l in range(p):  # v = V x, and V = W - u u' / W_jj
            v[l] -= scale * along * u[l]
        for t in range(most):
            far = 0.0
            for k in range(p):
                slope = own * v[k] + S[j, k]
                if k == j or (x[k] == 0.0 and (t > 0 or abs(slope) <= L[j, k])):
                    continue
                curve = own * (W[k, k] - scale * u[k] * u[k])
                to, edge = x[k] - slope / curve, L[j, k] / curve
                move = max(to - edge, 0.0) + min(to + edge, 0.0) - x[k]
                if move != 0.0:
                    x[k] += move
                    far = max(far, abs(move) * np.sqrt(curve))
                    by = scale * u[k] * move
                    for l in range(p):
                        v[l] += W[k, l] * move - u[l] * by
            first = max(first, far)
            if far <= close * first:
                break
        v[j] = 0.0
        for k in range(p):
            a, b = scale * u[k], own * v[k]
            for l in range(p):
                W[k, l] += b * v[l] - a * u[l]
        for k in range(p):
            Theta[j, k] = Theta[k, j] = x[k]
            W[j, k] = W[k, j] = -own * v[k]
        Theta[j, j], W[j, j] = 1.0 / own + dot(x, v), own
