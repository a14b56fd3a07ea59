"""Loops of FEM: which features a row has, what a model expects to count, how rows match, how states move."""

from typing import NamedTuple

import numpy as np
from numba import njit

from tallies.kernels import JIT

LN2_HIGH, LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6  # ln 2 in two parts, so that n * ln 2 loses no digit

WIDE = 100  # columns from which `scatter` takes a block of rows term by term


@njit(**JIT)
def active_ids(codes, variables, strides, offset, out):
    """Feature that each term has in each row; -1 where one of its variables is missing or unseen (code below 0)."""
    for i in range(codes.shape[0]):
        for t in range(variables.shape[0]):
            f = offset[t]
            for q in range(variables.shape[1]):
                v = variables[t, q]
                if v < 0:
                    break
                if codes[i, v] < 0:
                    f = -1
                    break
                f += codes[i, v] * strides[t, q]
            out[i, t] = f


@njit(nogil=True, inline="always")
def exponentiate(h, bits, power):
    """exp of h, in place; `power` is a view of `bits`, of the same length.

    exp is written out (range reduction, a polynomial of degree 12, a power of two through its bits): loops of it use the
    vector unit, which calls of the library's exp do not.
    """
    for k in range(len(h)):
        x = max(h[k], -700.0)
        n = np.floor(x * 1.4426950408889634 + 0.5)
        r = x - n * LN2_HIGH - n * LN2_LOW
        bits[k] = (np.int64(n) + 1023) << 52
        s = 1 / 5040 + r * (1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r / 479001600))))
        h[k] = 1 + r * (1 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r * s))))))
    for k in range(len(h)):
        h[k] *= power[k]


class Room(NamedTuple):
    """What `softmax_rows` works in. Arrays that a loop makes for itself take the compiler many times as long."""

    product: np.ndarray  # (n_out,)  product of the sums of rows of weight 1: one logarithm for many of them
    total: np.ndarray  # (n_out,)
    bits: np.ndarray  # (M,)  whole numbers ...
    power: np.ndarray  # ... and the same bytes as a power of two


def room_for(n_out, columns):
    """Room for rows of so many outputs and columns."""
    bits = np.empty(columns, np.int64)
    return Room(np.empty(n_out), np.empty(n_out), bits, bits.view(np.float64))


@njit(**JIT, fastmath={"reassoc", "contract", "nsz"})
def softmax_rows(H, weight, starts, lse, last, room):
    """Turn rows of H into weight * softmax within each output; add weight * log sum exp of each output to lse.

    last=1: the last state of each output has score 0 and no column; `starts` counts the columns there are. Rows of scores
    between -30 and 30 (last=1: up to 30, against the 1 of the last state) are exponentiated as they are, without a search for
    the largest of each output.
    """
    n_out, M = len(starts) - 1, H.shape[1]
    several = weight.shape[1] > 1  # else one weight a row, for all outputs
    product, total, bits, power = room
    least = -np.inf if last else -30.0
    single = True  # a column an output: loops over outputs need no inner ones, and use the vector unit
    for o in range(n_out):
        single &= starts[o + 1] - starts[o] == 1
        product[o] = 1.0
    for i in range(H.shape[0]):
        h = H[i]
        large = False
        for k in range(M):
            large |= h[k] > 30.0 or h[k] < least
        for o in range(n_out):
            total[o] = last
        if large:
            for o in range(n_out):
                a, b = starts[o], starts[o + 1]
                top = 0.0 if last else h[a]
                for k in range(a, b):
                    top = max(top, h[k])
                for k in range(a, b):
                    h[k] -= top
                lse[o] += weight[i, o * several] * top
                total[o] = np.exp(-top) if last else 0.0
        exponentiate(h, bits, power)
        if single:
            for o in range(n_out):
                total[o] += h[o]
        else:
            for o in range(n_out):
                one = total[o]
                for k in range(starts[o], starts[o + 1]):
                    one += h[k]
                total[o] = one
        if several or weight[i, 0] != 1.0:
            for o in range(n_out):
                w = weight[i, o * several]
                if w == 1.0:
                    product[o] *= total[o]
                else:
                    lse[o] += w * np.log(total[o])
                total[o] = w / total[o]
        else:
            for o in range(n_out):
                product[o] *= total[o]
                total[o] = 1.0 / total[o]
        if i % 8 == 7:  # eight sums are within e^-240 and (m e^30)^8, so the product is still a number
            for o in range(n_out):
                if product[o] > 1e150 or product[o] < 1e-150:
                    lse[o] += np.log(product[o])
                    product[o] = 1.0
        if single:
            for o in range(n_out):
                h[o] *= total[o]
        else:
            for o in range(n_out):
                share = total[o]
                for k in range(starts[o], starts[o + 1]):
                    h[k] *= share
    for o in range(n_out):
        lse[o] += np.log(product[o])


@njit(**JIT)
def gather(ids, W, H):
    """H = sum of the weights of the features of each row."""
    M = W.shape[1]
    if M == 2:  # two classes are common, and a loop of two costs more than its sums
        for i in range(ids.shape[0]):
            a, b = 0.0, 0.0
            for c in range(ids.shape[1]):
                f = ids[i, c]
                if f >= 0:
                    a += W[f, 0]
                    b += W[f, 1]
            H[i, 0] = a
            H[i, 1] = b
        return
    T = ids.shape[1]
    for i in range(ids.shape[0]):
        h, c = H[i], 0
        h[:] = 0.0
        while c < T:
            f = ids[i, c]
            if c + 4 <= T and min(f, ids[i, c + 1], ids[i, c + 2], ids[i, c + 3]) >= 0:  # four in one go, h read and written once
                v, w, x, y = W[f], W[ids[i, c + 1]], W[ids[i, c + 2]], W[ids[i, c + 3]]
                for k in range(M):
                    h[k] = h[k] + v[k] + w[k] + x[k] + y[k]
                c += 4
                continue
            if f >= 0:
                for k in range(M):
                    h[k] += W[f, k]
            c += 1


@njit(**JIT)
def scatter(ids, H, G):
    """Add each row of H to the rows of G that its features name."""
    M = G.shape[1]
    if M == 2:
        for i in range(ids.shape[0]):
            a, b = H[i, 0], H[i, 1]
            for c in range(ids.shape[1]):
                f = ids[i, c]
                if f >= 0:
                    G[f, 0] += a
                    G[f, 1] += b
        return
    if M >= WIDE:  # term by term: its rows of G stay in the cache
        for c in range(ids.shape[1]):
            for i in range(ids.shape[0]):
                add_row(G, ids[i, c], H[i])
        return
    for i in range(ids.shape[0]):
        for c in range(ids.shape[1]):
            add_row(G, ids[i, c], H[i])


@njit(**JIT)
def scatter_states(ids, states, weight, starts, G):
    """`scatter` of weighted one-hot rows of the outputs' states (-1: missing), without making them."""
    for i in range(ids.shape[0]):
        for c in range(ids.shape[1]):
            f = ids[i, c]
            if f >= 0:
                for o in range(states.shape[1]):
                    if states[i, o] >= 0:
                        G[f, starts[o] + states[i, o]] += weight[i]


@njit(nogil=True, inline="always")
def add_row(G, f, h):
    """G[f] += h, where there is such a feature."""
    if f >= 0:
        for k in range(len(h)):
            G[f, k] += h[k]


@njit(**JIT)
def one_hot(ids, X):
    """Rows of X: 1 at the features of each row, else 0."""
    X[:] = 0.0
    for i in range(ids.shape[0]):
        for c in range(ids.shape[1]):
            if ids[i, c] >= 0:
                X[i, ids[i, c]] = 1.0


@njit(**JIT)
def gram(ids, weight, G):
    """Lower triangle of sum_i w_i x_i x_i' for rows x_i that have ones at rising places, -1 among them for none."""
    have = np.empty(ids.shape[1], np.int64)
    for i in range(ids.shape[0]):
        count = 0
        for c in range(ids.shape[1]):
            if ids[i, c] >= 0:
                have[count] = ids[i, c]
                count += 1
        for c in range(count):
            for e in range(c + 1):
                G[have[c], have[e]] += weight[i]


@njit(fastmath={"reassoc", "contract"}, **JIT)
def thin_product(A, B, out):
    """out = A B' in double precision, for A of four rows or more, of either precision, and B of a few, an even number.

    Four rows of A at a time and two of B: numbers that are read are used for eight sums, where a library's product, made for
    matrices of many columns, waits for memory. The last rows of A are taken twice where there are not four of them.
    """
    columns = A.shape[1]
    for first in range(0, A.shape[0], 4):
        i = min(first, A.shape[0] - 4)
        for c in range(0, B.shape[0], 2):
            s00 = s01 = s10 = s11 = s20 = s21 = s30 = s31 = 0.0
            for j in range(columns):
                b, d = B[c, j], B[c + 1, j]
                a0, a1, a2, a3 = A[i, j], A[i + 1, j], A[i + 2, j], A[i + 3, j]
                s00 += a0 * b
                s01 += a0 * d
                s10 += a1 * b
                s11 += a1 * d
                s20 += a2 * b
                s21 += a2 * d
                s30 += a3 * b
                s31 += a3 * d
            out[i, c], out[i, c + 1], out[i + 1, c], out[i + 1, c + 1] = s00, s01, s10, s11
            out[i + 2, c], out[i + 2, c + 1], out[i + 3, c], out[i + 3, c + 1] = s20, s21, s30, s31


@njit(**JIT)
def kernel_rows(A, B, table, alpha, out):
    """out_i = sum_r K(a_i, b_r) alpha_r, where K is a function of the matches, `table` (one row of it for each row of A)."""
    for i in range(A.shape[0]):
        out[i, :] = 0.0
        for r in range(B.shape[0]):
            equal = 0
            for j in range(A.shape[1]):
                equal += A[i, j] == B[r, j]
            K = table[i, equal]
            for k in range(out.shape[1]):
                out[i, k] += K * alpha[r, k]


@njit(**JIT)
def advance(codes, W, variables, strides, offset, starts, uniform, synchronous, out):
    """Move one state through len(out) steps: every variable is drawn from its conditional given the state.

    synchronous: all from the state before (a time series); else one after the other, each seeing the last (a Gibbs sweep).
    """
    now, ids, h = codes.copy().reshape(1, -1), np.empty((1, len(variables)), np.int64), np.empty(W.shape[1])
    for t in range(len(out)):
        for o in range(len(starts) - 1):
            a, b = starts[o], starts[o + 1]
            active_ids(now, variables, strides, offset, ids)
            h[a:b] = 0.0
            for f in ids[0]:
                for k in range(a, b):
                    h[k] += W[f, k]
            top, total = h[a:b].max(), 0.0
            for k in range(a, b):
                h[k] = np.exp(h[k] - top)
                total += h[k]
            left, state = uniform[t, o] * total, 0
            while state < b - a - 1 and left >= h[a + state]:
                left -= h[a + state]
                state += 1
            out[t, o] = state
            if not synchronous:
                now[0, o] = state
        now[0] = out[t]


@njit(**JIT)
def meet_margin(E, f, v, u):
    """Set u such that the rows of u E v sum to f; by how much one of the sums was off."""
    change = 0.0
    for a in range(len(f)):
        total = 0.0
        for b in range(len(v)):
            total += E[a, b] * v[b]
        new = f[a] / total if total > 0 else 0.0
        change = max(change, abs(new - u[a]) * total)
        u[a] = new
    return change


@njit(**JIT)
def direct_information(J, fi, fj, tol, max_iter):
    """Mutual information of the two-site model exp(J + u + v) whose margins are fi and fj (proportional fitting)."""
    E = np.exp(J - J.max())
    u, v, information = np.ones(len(fi)), np.ones(len(fj)), 0.0
    for _ in range(max_iter):
        change = meet_margin(E, fi, v, u)
        meet_margin(E.T, fj, u, v)
        if change < tol:
            break
    for a, b in np.ndindex(E.shape):
        P = u[a] * E[a, b] * v[b]
        if P > 0:
            information += P * np.log(P / (fi[a] * fj[b]))
    return information
