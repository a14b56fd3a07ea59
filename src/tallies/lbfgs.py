"""L-BFGS whose vectors never leave their shards: all it asks of them is a table of dot products. Knows no model.

With pairs s_k = x_{k+1} - x_k and y_k = g_{k+1} - g_k, and a diagonal (or block) guess D of the inverse Hessian, the direction is

    d = -gamma D (g - sum_k alpha_k y_k) - sum_k (alpha_k - beta_k) s_k                                        (eq. 1)

and alpha, beta, gamma follow from s_k'y_l, s_k'g, y_k'D y_l, y_k'D g alone (Chen, Wang and Zhou, 2014). So the tally of a
sweep is that table, and the update sends back 2m + 1 numbers. A model keeps a `Search` in its params and asks it, after every
sweep, what to try next: `accept` where the value `falls`, else `retreat`; then `admit` and `aim`. Where many searches go side by
side, each table, step and slope has a last axis of searches, which `direction`, `falls` and `backtrack` keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from tallies.forms import Form

# m slots, k searches side by side
Table = Annotated[np.ndarray, Form("m m")] | Annotated[np.ndarray, Form("m m k")]
Column = Annotated[np.ndarray, Form("m")] | Annotated[np.ndarray, Form("m k")]
# of the global part of the vectors: with a diagonal D, or with blocks
Part = Annotated[np.ndarray, Form("p")] | Annotated[np.ndarray, Form("p k")]
Guess = Annotated[np.ndarray, Form("p")] | Annotated[np.ndarray, Form("p k k")]
Moves = Annotated[np.ndarray, Form("m p")] | Annotated[np.ndarray, Form("m p k")]


class Dots(NamedTuple):
    """Dot products of the pairs in memory (m slots) and the gradient; they add over shards."""

    sy: Table  # s_k' y_l, read for l not older than k
    sg: Column  # s_k' g
    yDy: Table  # y_k' D y_l
    yDg: Column  # y_k' D g


class Direction(NamedTuple):
    """The direction as coefficients: d = -(D (scale_g g + Y'of_y) + S'of_s)."""

    scale_g: Annotated[Any, Form()]  # gamma: a number, or one for each of many searches, which are not stored
    of_y: Column
    of_s: Column


class Search(NamedTuple):
    """Where a search stands: the value at its point, the step to try, and the pairs in memory."""

    toward: Direction
    F: float = np.inf  # value at the current point
    path: tuple[float, ...] = ()  # values after the last accepted steps
    step: float = 0.0  # length of the step to try
    slope: float = 0.0  # g'd of the direction
    fresh: bool = False  # the direction is new
    tries: int = 0  # steps tried in this direction
    order: tuple[Annotated[int, Form(kind="i", low=0)], ...] = ()  # slots in use, oldest first
    slot: Annotated[int, Form(kind="i", low=-1)] = -1  # slot of the pair that the step makes; -1: none
    ended: Literal["", "met", "stuck"] = ""  # "met": the stopping rule is met; "stuck": no step lowers F any more

    def check(self) -> None:
        """Refuse slots that the memory does not have."""
        if max(*self.order, self.slot, -1) >= len(self.toward.of_y):
            raise ValueError(f"slots {self.order} and {self.slot} should be below {len(self.toward.of_y)}")


class Pairs(NamedTuple):
    """The part of the vectors that is no shard's but global, with its own shape."""

    g: Part  # gradient
    d: Part  # direction
    D: Guess  # guess of the inverse Hessian
    S: Moves
    Y: Moves  # of the gradient
    DY: Moves  # D times them

    def remember(self, slot: int, s: np.ndarray, y: np.ndarray) -> Pairs:
        """With the pair (s, y) in its slot."""
        S, Y = self.S.copy(), self.Y.copy()
        S[slot], Y[slot] = s, y
        return self._replace(S=S, Y=Y)


def begin(memory: int) -> Search:
    """A search that stands still, with room for `memory` pairs."""
    return Search(Direction(0.0, np.zeros(memory), np.zeros(memory)))


def no_pairs(x: np.ndarray, D: np.ndarray, memory: int) -> Pairs:
    """Room for the global part of vectors like x."""
    empty = np.zeros((memory, *x.shape))
    return Pairs(np.zeros_like(x), np.zeros_like(x), D, empty, empty, empty)


def dots(S: np.ndarray, Y: np.ndarray, DY: np.ndarray, g: np.ndarray) -> Dots:
    """The table for vectors held as rows: S, Y and DY (m, ...), g (...), summed in float64.

    >>> table = dots(np.eye(2), 2 * np.eye(2), 2 * np.eye(2), np.ones(2))
    >>> table.sy.diagonal(), table.yDg
    (array([2., 2.]), array([2., 2.]))
    """
    m = len(S)
    S, Y, DY, g = S.reshape(m, -1), Y.reshape(m, -1), DY.reshape(m, -1), g.reshape(-1)
    return Dots(*(np.asarray(a, dtype=np.float64) for a in (S @ Y.T, S @ g, DY @ Y.T, DY @ g)))


def direction(table: Dots, order: Sequence[int], bounds: tuple[float, float] = (0.2, 5.0)) -> Direction:
    """Eq. 1 from the table; `order` lists the slots in use from oldest to newest, a pair without curvature says nothing, and gamma
    stays within `bounds`. An empty order gives -D g.

    >>> _, of_y, of_s = direction(dots(np.eye(1), 2 * np.eye(1), 2 * np.eye(1), np.ones(1)), [0])
    >>> of_y, of_s
    (array([-0.25]), array([0.5]))
    """
    m, many = len(table.sg), table.sg.ndim > 1
    # of one search in plain numbers, where a call of NumPy costs more than its work
    sy, sg, yDy, yDg = table if many else (part.tolist() for part in table)
    zero = np.zeros(table.sg.shape[1:]) if many else 0.0
    alpha, shift, gamma = [zero] * m, [zero] * m, zero + 1.0
    rho = {k: _over(1.0, sy[k][k]) for k in order}
    for k in reversed(order):
        alpha[k] = rho[k] * (sg[k] - sum(alpha[l] * sy[k][l] for l in order))
    for k in order:  # the latest pair tells the true scale of the curvature
        scale = _over(sy[k][k], yDy[k][k])
        gamma = np.where(scale > 0, scale, gamma) if many else scale if scale > 0 else gamma
    gamma = np.clip(gamma, *bounds) if many else min(max(gamma, bounds[0]), bounds[1])
    for k in order:
        rest = yDg[k] - sum(yDy[k][l] * alpha[l] for l in order)
        beta = rho[k] * (gamma * rest + sum(shift[l] * sy[l][k] for l in order))
        shift[k] = alpha[k] - beta
    shape = table.sg.shape  # also where there are no pairs
    return Direction(gamma, -gamma * np.array(alpha).reshape(shape), np.array(shift).reshape(shape))


def _over(a: Any, b: Any) -> Any:
    """a / b where b is positive, else 0."""
    if isinstance(b, float):
        return a / b if b > 0 else 0.0
    return np.divide(a, b, out=np.zeros_like(b), where=b > 0)


def along(toward: Direction, Dg: np.ndarray, S: np.ndarray, DY: np.ndarray) -> np.ndarray:
    """The direction itself, from D g and the pairs (m, ...)."""
    m = len(S)
    mixed = toward.of_y @ DY.reshape(m, -1) + toward.of_s @ S.reshape(m, -1)
    return -(toward.scale_g * Dg + mixed.reshape(Dg.shape))


def falls(before: Any, after: Any, step: Any, slope: Any) -> Any:
    """Whether the value after a step is low enough (Armijo), within the rounding of sums."""
    return (slope < 0) & np.isfinite(after) & (before + 1e-4 * step * slope + 1e-13 * np.abs(before) >= after)


def accept(search: Search, F: float, length: int) -> Search:
    """The trial point is the current one; the path remembers its value and those of `length` steps before."""
    return search._replace(F=F, path=(*search.path[-length:], F), tries=0)


def retreat(search: Search, F: float, patience: int = 8) -> Search:
    """After a trial that did not fall: a shorter step, after `patience` of them a new direction without pairs, then the end."""
    if search.slope >= 0 or search.tries >= patience:
        if search.order:
            return aim(search._replace(order=()), None)
        if search.slope >= 0 or search.tries >= 30:  # no descent along -Dg
            return search._replace(ended="met" if abs(search.slope) < 1e-6 * abs(search.F) else "stuck")
    return search._replace(step=backtrack(search.step, search.slope, F - search.F), tries=search.tries + 1)


def admit(search: Search, table: Dots) -> Search:
    """The pair in `slot` counts from now on, unless it has no curvature: such a pair says nothing."""
    k = search.slot
    if k < 0:
        return search
    order = tuple(i for i in search.order if i != k)
    return search._replace(order=(*order, k) if table.sy[k, k] > 1e-8 * table.yDy[k, k] else order)


def aim(search: Search, table: Dots | None) -> Search:
    """A new direction, to be tried in full; without a table -D g."""
    m = len(search.toward.of_y)
    toward = Direction(1.0, np.zeros(m), np.zeros(m)) if table is None else direction(table, search.order)
    return search._replace(toward=toward, fresh=True, step=1.0, tries=0)


def free(search: Search) -> int:
    """A slot not in use, else that of the oldest pair."""
    unused = [k for k in range(len(search.toward.of_y)) if k not in search.order]
    return unused[0] if unused else search.order[0]


def slots(order: tuple[int, ...], new: int = -1) -> np.ndarray:
    """The slots in use, the one of a new pair among them."""
    return np.array(sorted({*order, new} - {-1}), dtype=np.int64)


def backtrack(step: Any, slope: Any, rise: Any) -> Any:
    """The next step to try after `step` failed: minimum of the parabola through the value, the slope and the rise.

    >>> float(backtrack(1.0, -1.0, 1.0))
    0.25
    """
    bend = np.asarray(rise - slope * step)
    guess = np.divide(-slope * step * step, 2 * bend, out=np.zeros_like(bend), where=np.isfinite(bend) & (bend > 0))
    return np.clip(guess, 0.1 * step, 0.5 * step)[()]
