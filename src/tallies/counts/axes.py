"""The axes of PLN-PCA: how to turn them, and how to do without one.

Scores and loadings enter the rates as M C' alone. So for any T (q, q) and a (d, q)

    M -> M T + X a,    C -> C T^-T,    B' -> B' - C T^-T a'                                                              (eq. 1)

leaves them as they are, and only the prior and the variances S2, which belong to the axes, feel it. The bound is a valley along
(1): flat compared with the curvature that the counts give it across, and curved, so that straight steps soon climb its sides.
Hence a Newton step in T = I + E and a, taken exactly by (1). With P_i = C'diag(A_i)C and S2 always at its best, 1 / (1 + P_ikk),
the terms of F that turn are (A changes so little that it counts as fixed)

    F(E) = sum_i v_i { |m_i T|^2 + sum_k log(1 + (T^-1 P_i T^-T)_kk) } / 2,     F(a) = sum_i v_i |m_i + a'x_i|^2 / 2     (eq. 2)
    gradient in E  G - c,     second derivatives times E:   G E + c E' + E'c + [K_k E_k],
    G = sum v M M',   c_kl = sum v S2_k P_kl,   K_k = sum v (S2_k P - 2 S2_k^2 P_k P_k'),   E_k and P_k being rows

Maxima of the bound mostly differ by one direction, and a fit with one axis to spare finds its way round many of them. To give that
axis up: the scores of row i lie on u'm = 0 at the cost, to second order and with D_i = (P_i + I)^-1 / v_i,

    cost(u) = sum_i (u'm_i)^2 / (2 u'D_i u)     after the move      m_i -> m_i - D_i u (u'm_i) / (u'D_i u)               (eq. 3)

and where the cost is least, N u = V u with N = sum m_i m_i' / (u'D_i u), V = sum D_i (u'm_i / u'D_i u)^2: the smallest eigenvector
of (N, V), over and over.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from scipy import linalg

from tallies.forms import Form

FLOOR = 0.05  # least curvature along a turn, a row: near a saddle there may be none
FAR = 0.3  # longest entry of a turn
LOOKS = 10  # products with the second derivatives that a Newton step may take


class Turning(NamedTuple):
    """Sums over rows that eq. 2 is made of."""

    G: Annotated[np.ndarray, Form("q q", nan=True)]
    c: Annotated[np.ndarray, Form("q q", nan=True)]
    K: Annotated[np.ndarray, Form("q q q", nan=True)]
    by_design: Annotated[np.ndarray, Form("d q", nan=True)]  # X'g_M


class Weighing(NamedTuple):
    """Sums over rows for eq. 3 at a direction u."""

    N: Annotated[np.ndarray, Form("q q", nan=True)]
    V: Annotated[np.ndarray, Form("q q", nan=True)]
    cost: float


def turning(M: np.ndarray, g_M: np.ndarray, P: np.ndarray, X: np.ndarray, v: np.ndarray) -> Turning:
    """The sums, from the scores, their gradients and their curvatures P (n, q, q)."""
    n, q = M.shape
    S2 = 1.0 / (1.0 + np.einsum("ikk->ik", P))
    vS2 = v[:, None] * S2
    by_axis = P.transpose(1, 0, 2)  # (q, n, q)
    K = (vS2.T @ P.reshape(n, -1)).reshape(q, q, q)
    K -= 2.0 * np.matmul((by_axis * (vS2 * S2).T[:, :, None]).transpose(0, 2, 1), by_axis)
    return Turning((M * v[:, None]).T @ M, np.einsum("ik,ikl->kl", vS2, P), K, X.T @ g_M)


def newton(rows: Turning, W: np.ndarray, g_W: np.ndarray, XvX: np.ndarray, weight: float) -> tuple[np.ndarray, np.ndarray]:
    """The step (E, a), no entry of E longer than FAR: conjugate gradients until they meet a direction without curvature."""
    d, (G, c, K, by_design) = len(XvX), rows
    # E_kl and E_lk alone make the first guess
    diagonal, cross = np.diag_indices(len(G)), np.add.outer(c.diagonal(), c.diagonal())
    own = np.einsum("kll->kl", K) + G.diagonal()[:, None]
    own[diagonal] += cross[diagonal]
    cross[diagonal] = 0.0
    own += np.maximum(FLOOR * weight - ((own + own.T) / 2 - np.hypot((own - own.T) / 2, cross)), 0.0)
    E, move, left, sizes = np.zeros_like(G), np.zeros_like(G), c - G, [np.inf]
    for look in range(LOOKS):
        guess = (own.T * left - cross * left.T) / (own * own.T - cross * cross)
        sizes.append(float(np.vdot(left, guess)))
        if sizes[-1] <= 1e-4 * sizes[1]:
            break
        move = guess + (sizes[-1] / sizes[-2]) * move
        bent = G @ move + c @ move.T + move.T @ c + np.einsum("klm,km->kl", K, move)
        curvature = float(np.vdot(move, bent))
        if curvature <= 0.2 * FLOOR * weight * float(np.vdot(move, move)):
            E = E if look else move
            break
        E, left = E + (sizes[-1] / curvature) * move, left - (sizes[-1] / curvature) * bent
    a = -np.linalg.solve(XvX, by_design - g_W[:, :d].T @ W[:, d:])
    return E * min(1.0, FAR / max(np.abs(E).max(), 1e-300)), a


def turn(E: np.ndarray, shift: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """T and a of eq. 1, for a part of a Newton step."""
    return np.eye(len(E)) + step * E, step * shift


def turn_rows(x: np.ndarray, P: np.ndarray, X: np.ndarray, T: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Eq. 1 for rows x = [M, psi]; psi moves as the best one of eq. 2 does."""
    q, back = len(T), np.linalg.inv(T)
    after = np.einsum("ikl,kl->ik", np.matmul(back, P), back)
    moved = np.log1p(np.einsum("ikk->ik", P)) - np.log1p(np.maximum(after, 0.0))
    return np.hstack([x[:, :q] @ T + X @ a, x[:, q:] + moved])


def turn_columns(W: np.ndarray, T: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Eq. 1 for [B', C], or for a move of it."""
    d = len(a)
    C = W[..., d:] @ np.linalg.inv(T).T
    return np.concatenate([W[..., :d] - C @ a.T, C], axis=-1)


def turn_slopes(g_W: np.ndarray, T: np.ndarray, a: np.ndarray) -> np.ndarray:
    """What eq. 1 makes of gradients: their products with moves stay as they are."""
    d = len(a)
    return np.concatenate([g_W[..., :d], g_W[..., d:] @ T + g_W[..., :d] @ a], axis=-1)


def turn_blocks(D: np.ndarray, T: np.ndarray, a: np.ndarray) -> np.ndarray:
    """What eq. 1 makes of the inverse blocks of [B', C]."""
    R = turn_columns(np.eye(D.shape[1]), T, a)
    return R.T @ D @ R


def weigh(M: np.ndarray, D: np.ndarray, u: np.ndarray | None) -> Weighing:
    """The sums of eq. 3; without u those of rows that are all alike."""
    if u is None:
        return Weighing(M.T @ M, D.sum(axis=0), np.inf)
    along, spread = M @ u, (D @ u) @ u
    return Weighing(
        (M / spread[:, None]).T @ M, np.tensordot((along / spread) ** 2, D, axes=1), float(along @ (along / spread) / 2)
    )


def weakest(rows: Weighing) -> np.ndarray:
    """The next u."""
    size = len(rows.V)
    V = rows.V + (1e-12 * rows.V.trace() / size + 1e-300) * np.eye(size)
    u = linalg.eigh(rows.N, V, subset_by_index=[0, 0])[1][:, 0]
    return u / np.linalg.norm(u)


def drop(M: np.ndarray, D: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores on the axes of `without(u)`: after the move of eq. 3, and as they are."""
    Du = D @ u
    return (M - Du * ((M @ u) / (Du @ u))[:, None]) @ without(u), M @ without(u)


def without(u: np.ndarray) -> np.ndarray:
    """Orthonormal axes (q, q - 1) of the plane u'm = 0."""
    return linalg.null_space(u[None])
