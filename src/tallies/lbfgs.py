"""L-BFGS whose vectors never leave their shards: all it asks of them is a table of dot products. Knows no model.

With pairs s_k = x_{k+1} - x_k and y_k = g_{k+1} - g_k, and a diagonal (or block) guess D of the inverse Hessian, the direction is

    d = -gamma D (g - sum_k alpha_k y_k) - sum_k (alpha_k - beta_k) s_k                                        (eq. 1)

and alpha, beta, gamma follow from s_k'y_l, s_k'g, y_k'D y_l, y_k'D g alone (Chen, Wang and Zhou, 2014). So the tally of a
sweep is that table, and the update sends back 2m + 1 numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Dots(NamedTuple):
    """Dot products of the pairs in memory (m slots) and the gradient; they add over shards."""

    sy: np.ndarray  # s_k' y_l                                     (m, m)
    sg: np.ndarray  # s_k' g                                       (m,)
    yDy: np.ndarray  # y_k' D y_l                                  (m, m)
    yDg: np.ndarray  # y_k' D g                                    (m,)


class Direction(NamedTuple):
    """The direction as coefficients: d = -(D (scale_g g + Y'of_y) + S'of_s)."""

    scale_g: float
    of_y: np.ndarray  # (m,)
    of_s: np.ndarray  # (m,)


def dots(S: np.ndarray, Y: np.ndarray, g: np.ndarray, D: np.ndarray) -> Dots:
    """The table for vectors held as rows: S, Y (m, ...), g and D (...), summed in float64.

    >>> table = dots(np.eye(2), 2 * np.eye(2), np.ones(2), np.ones(2))
    >>> table.sy.diagonal(), table.yDg
    (array([2., 2.]), array([2., 2.]))
    """
    m = len(S)
    S, Y, g, D = S.reshape(m, -1), Y.reshape(m, -1), g.reshape(-1), D.reshape(-1)
    DY = Y * D
    return Dots(*(np.asarray(a, dtype=np.float64) for a in (S @ Y.T, S @ g, DY @ Y.T, DY @ g)))


def direction(table: Dots, order: list[int], bounds: tuple[float, float] = (0.2, 5.0)) -> Direction:
    """Eq. 1 from the table; `order` lists the slots in use from oldest to newest. An empty order gives -D g.

    >>> direction(dots(np.eye(1), 2 * np.eye(1), np.ones(1), np.ones(1)), [0])
    Direction(scale_g=0.5, of_y=array([-0.25]), of_s=array([0.5]))
    """
    m = len(table.sg)
    alpha, shift = np.zeros(m), np.zeros(m)
    if not order:
        return Direction(1.0, alpha, shift)
    for k in reversed(order):
        alpha[k] = (table.sg[k] - alpha @ table.sy[k]) / table.sy[k, k]
    last = order[-1]
    gamma = float(np.clip(table.sy[last, last] / table.yDy[last, last], *bounds))
    for k in order:
        beta = (gamma * (table.yDg[k] - table.yDy[k] @ alpha) + shift @ table.sy[:, k]) / table.sy[k, k]
        shift[k] = alpha[k] - beta
    return Direction(gamma, -gamma * alpha, shift)


def backtrack(step: float, slope: float, rise: float) -> float:
    """The next step to try after `step` failed: minimum of the parabola through the value, the slope and the rise.

    >>> backtrack(1.0, -1.0, 1.0)
    0.25
    """
    bend = rise - slope * step
    guess = -slope * step * step / (2 * bend) if np.isfinite(bend) and bend > 0 else 0.0
    return float(np.clip(guess, 0.1 * step, 0.5 * step))
