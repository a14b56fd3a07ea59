"""The loops of `steps` in NumPy, where the data are too small to be worth a compiler's wait.

Symbols as in `full`: M means, S2 variances, A = exp(O + M + S2/2), v row weights, w_j the scalars that stand for S2.
"""

from __future__ import annotations

import numpy as np

TOP = 60.0  # largest exponent: exp(60) = 1e26 is far beyond any count, and squares do not overflow
LEAST = 1e-16  # of A in the root of a quadratic equation: less is what rounding leaves of it, or nothing


def trial(M, O, Y, v, w, S2, A, close):
    """Solve S2 (w + A) = 1 in place, fill A = exp(O + M + S2/2); sum v [Y(O + M) - A + log(S2)/2] and sum_i v_i S2_ij."""
    base = O + M
    for _ in range(12):
        A[...] = np.exp(np.minimum(base + 0.5 * S2, TOP))
        c = (1.0 - 0.5 * S2) * A + w
        new = 2.0 / np.maximum(c + np.sqrt(c * c + A + A), LEAST * A)
        move = new - S2
        S2[...] = new
        if np.abs(move).max() < close:
            A *= np.exp(0.5 * move)
            break
    else:
        A[...] = np.exp(np.minimum(base + 0.5 * S2, TOP))
    return float(v @ (0.5 * np.log(S2) - A + base * Y).sum(axis=1)), v @ S2


def aim(scale, of_y, of_s, slots, g, D, S, Y, reach, X, c, shift, root, d):
    """Write d = -(D (scale g + sum of_y Y) + sum of_s S), clipped entry by entry to `reach`, - v D [X c] shift; return g'd.

    Where c has no rows it has no part in it.
    """
    np.multiply(g, -scale, out=d)
    for k in slots:
        d -= of_y[k] * Y[k]
    d *= D
    for k in slots:
        d -= of_s[k] * S[k]
    np.clip(d, -reach, reach, out=d)
    if len(shift):
        d -= root[:, None] ** 2 * D * (X @ shift[:-1] + (c * shift[-1] if len(c) else 0.0))
    return float(np.vdot(g, d))


def bend(M, S2, w, X, B, c):
    """Write the c of `guess`, 2 (M - X B) - u A, with the A of S2 (w + A) = 1."""
    A = np.maximum(1.0 / S2 - w, 0.0)
    c[...] = 2.0 * (M - X @ B) - A * S2 * S2 / (1.0 + 0.5 * S2 * S2 * A)


def move(M, length, d, X, B, root, M_trial, R):
    """Write M_trial = M + length d and its residuals R = root (M_trial - X B), root the square roots of the row weights."""
    np.multiply(d, length, out=M_trial)
    M_trial += M
    np.subtract(M_trial, X @ B, out=R)
    R *= root[:, None]


def attempt(
    toward, slots, g, D, S, Y, reach, X, c, along, d, M, S2, w, B, v, length, M_trial, R, O, counts, w_trial, S2_trial, A, close
):
    """A step of this length along a new direction, which c helps to find, or with None along the last one; and the trial there."""
    slope, root = 0.0, np.sqrt(v)
    if toward is not None:
        if len(c):
            bend(M, S2, w, X, B, c)
        scale, of_y, of_s = toward
        slope = aim(scale, of_y, of_s, slots, g, D, S, Y, reach, X, c, along, root, d)
    move(M, length, d, X, B, root, M_trial, R)
    np.copyto(S2_trial, S2)
    return slope, *trial(M_trial, O, counts, v, w_trial, S2_trial, A, close)


def slopes(pull, X, shift, root, A, counts, S2, w, omega, moved, slot, slots, g, D, S, Y, B, c, keep, share):
    """Gradient g and preconditioner D of the free energy at (M, log w), the new pair, and the dot products of the pairs."""
    if len(c):
        bend(moved[0], S2, w, X, B, c)
    m, v = len(S), root[:, None] ** 2
    s2 = S2 * S2
    u = s2 / (1.0 + 0.5 * s2 * A)
    T = v[:, 0] @ u
    u *= 0.5 * A
    new = pull / root[:, None]
    if len(shift):
        new -= X @ shift
    new += A
    new -= counts
    new += (w - omega) * u
    new *= v
    np.divide(1.0, v * (A * (1.0 - u) + omega), out=D)
    np.multiply(A, (1.0 - u) * v * D, out=share)  # of the counts in the curvature
    if slot >= 0:
        np.subtract(moved[0], moved[1], out=S[slot])
        np.subtract(new, g, out=Y[slot])
        S[slot] *= keep
        Y[slot] *= keep
    np.copyto(g, new)
    sy, sg, yDy, yDg, ZDy = np.zeros(m), np.zeros(m), np.zeros((m, m)), np.zeros(m), np.zeros((m + 2, X.shape[1] + 1, A.shape[1]))
    if len(slots):
        s, y, flat = S[slots].reshape(len(slots), -1), Y[slots].reshape(len(slots), -1), g.ravel()
        scaled = y * D.ravel()
        sy[slots], sg[slots], yDg[slots] = s @ Y[slot].ravel(), s @ flat, scaled @ flat
        yDy[np.ix_(slots, slots)] = scaled @ y.T
    vX, vc = v * X, v * c if len(c) else None
    for k, y in ((m, g), (m + 1, vc), *((k, Y[k]) for k in slots)):
        if y is not None:
            ZDy[k, :-1] = vX.T @ (D * y)
        if y is not None and vc is not None:
            ZDy[k, -1] = np.einsum("ij,ij->j", vc, D * y)
    return T, sy, sg, yDy, yDg, ZDy
