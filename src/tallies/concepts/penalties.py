"""M-steps of a whole table phi (G, V + 1) under the penalties of the author-concept model; each step can only raise its objective.

The last column are the words of definitions that no sentence has: each concept has its own, so they overlap with none.

    1.  Q(phi) = sum_gw a_gw log phi_gw + lambda2 sum_g |phi_g| - omega sum_{g<h} d_gh phi_g . phi_h

F2: |p| >= |q| + sum_w q_w^2 / |q| log(p_w / q_w), since log|p| is concave in the weights q^2 and exp(x) >= 1 + x; so near the last
estimate q the sparsity term is worth lambda2 q_w^2 / |q| counts. Overlap: with the other concepts held fixed, (1) is concave in
phi_g and its maximum is a_gw / (nu + omega sum_h d_gh phi_hw), nu such that it sums to 1; concepts take turns.
"""

from __future__ import annotations

import numpy as np

from tallies.maths import Array


def sparsity_counts(q: Array, strength: float) -> Array:
    """What the norm of each row of q is worth as counts.

    >>> sparsity_counts(np.array([[0.6, 0.8]]), 1.0).round(2).tolist()
    [[0.36, 0.64]]
    """
    return strength * q**2 / np.linalg.norm(q, axis=-1, keepdims=True)


def maximise(counts: Array, phi: Array, sparsity: float, overlap: float, distance: Array | None) -> Array:
    """The new phi from counts (with pseudocounts) and the last phi (eq. 1); `distance` None: all pairs count alike."""
    a = counts + sparsity_counts(phi, sparsity) if sparsity else counts
    if not overlap:
        return a / a.sum(axis=1, keepdims=True)
    out, total = phi.copy(), phi.sum(axis=0)
    for g in range(len(phi)):
        burden = overlap * (total - out[g] if distance is None else distance[g] @ out)
        burden[-1] = 0.0
        new = share_out(a[g], burden)
        total += new - out[g]
        out[g] = new
    return out


def share_out(a: Array, burden: Array) -> Array:
    """p = a / (nu + burden) with sum 1, by Newton's method from the left, where it is monotone.

    >>> share_out(np.array([1.0, 1.0]), np.array([0.0, 1.0])).round(3).tolist()
    [0.618, 0.382]
    """
    burden = np.where(a > 0, burden, np.inf)  # what has no count has no part
    nu = np.max(a - burden)  # the sum is at least 1 here: the largest term alone is
    for _ in range(200):
        p = a / (nu + burden)
        gap = p.sum() - 1.0
        if abs(gap) < 1e-14:
            break
        nu += gap / np.sum(p / (nu + burden))
    return p / p.sum()


def log_penalty(phi: Array, sparsity: float, overlap: float, distance: Array | None) -> float:
    """lambda2 sum_g |phi_g| - omega sum_{g<h} d_gh phi_g . phi_h."""
    value = sparsity * float(np.linalg.norm(phi, axis=1).sum()) if sparsity else 0.0
    if overlap:
        gram = phi[:, :-1] @ phi[:, :-1].T
        np.fill_diagonal(gram, 0.0)
        value -= 0.5 * overlap * float((gram if distance is None else gram * distance).sum())
    return value
