"""Records of the PLN solvers: shards, surveys and places serve all, Full* those of `full`, Rank* those of `rank`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from tallies.counts.axes import Turning, Weighing
from tallies.lbfgs import Direction, Dots, Pairs, Search


def log_factorial(Y: np.ndarray) -> np.ndarray:
    """log Y!, looked up for counts below 1,024.

    >>> log_factorial(np.array([0.0, 3.0])).round(4)
    array([0.    , 1.7918])
    """
    small = np.minimum(Y, 1023).astype(np.int64)
    out = gammaln(np.arange(1024) + 1.0)[small]
    large = Y > 1023
    if large.any():
        out[large] = gammaln(Y[large] + 1)
    return out


class Shard(NamedTuple):
    """Some rows of the data."""

    Y: np.ndarray  # counts, 0 where missing                        (n, p)
    O: np.ndarray  # offsets, -1e4 where the count is missing       (n, p)
    X: np.ndarray  # design                                         (n, d)
    v: np.ndarray  # row weights                                    (n,)
    even: bool  # all weights are 1
    start: int  # place of the first row among all rows
    rows: int  # number of rows of all shards
    constant: float  # sum of v log Y!
    M: np.ndarray | None = None  # means of a former fit, to go on from   (n, p) | (n, q)

    def rooted(self, rows: np.ndarray) -> np.ndarray:
        """Rows times the square roots of their weights."""
        return rows if self.even else np.sqrt(self.v)[:, None] * rows


class Survey(NamedTuple):
    """Sums of the raw data."""

    weight: float  # N
    n_j: np.ndarray  # sum of v Y                                   (p,)
    e_j: np.ndarray  # sum of v exp(O)                              (p,)
    XvX: np.ndarray  # X'vX                                         (d, d)
    rootX: np.ndarray | None  # sqrt(v) X, kept where p > n         (n, d)


class Sums(NamedTuple):
    """What the solvers need to know of the data."""

    weight: float  # N
    XvX: np.ndarray  # X'vX                                         (d, d)
    mean: np.ndarray | None = None  # log of the mean rates; None where the rows have a place already   (p,)
    rootX: np.ndarray | None = None  # sqrt(v) X where p > n        (n, d)

    @classmethod
    def of(cls, survey: Survey) -> Sums:
        """From the added surveys."""
        mean = np.log(np.maximum(survey.n_j, 0.5) / np.maximum(survey.e_j, 1e-300))
        return cls(float(survey.weight), survey.XvX, mean, survey.rootX)


class Place(NamedTuple):
    """Where the rows of a shard ended."""

    M: np.ndarray  # variational means                              (n, p) | (n, q)
    S2: np.ndarray  # variational variances                         (n, p) | (n, q)
    bound: np.ndarray | None = None  # of every row, where asked for   (n,)


class Point(NamedTuple):
    """Model parameters at a point."""

    B: np.ndarray  # coefficients                                   (d, p)
    Omega: np.ndarray  # precision, or its diagonal                 (p, p) | (p,)
    omega: np.ndarray  # diagonal of the precision                  (p,)
    logdet: float  # log|Sigma|
    shift: np.ndarray  # (move of B) Omega: the rows kept R about the B before   (d, p)
    pull: np.ndarray | None = None  # R Omega, where p > n: there is no Omega then   (n, p)


class FullParams(NamedTuple):
    """The small global state of `full`."""

    phase: int  # START, TRIAL or GRADIENT
    sums: Sums
    point: Point
    w: np.ndarray | None  # of eq. 2, at the current point; None: not yet known   (p,)
    w_trial: np.ndarray  # and at the point to try                  (p,)
    search: Search
    pairs: Pairs  # those of log w
    sy: np.ndarray  # s_k'y_l over all, where y_l is not older than s_k   (m, m)
    single: bool  # the rows are in single precision
    rough: bool  # steps still gain so much that S2 need not be exact


class Single(NamedTuple):
    """Copies in single precision."""

    Y: np.ndarray  #                                                (n, p)
    O: np.ndarray  #                                                (n, p)


class FullLatents(NamedTuple):
    """What the rows keep: the current point, the trial point, and the L-BFGS pairs."""

    M: np.ndarray  # variational means                              (n, p)
    S2: np.ndarray  # variational variances                         (n, p)
    M_trial: np.ndarray  #                                          (n, p)
    S2_trial: np.ndarray  #                                         (n, p)
    A: np.ndarray  # exp(O + M + S2/2) at the trial point           (n, p)
    g: np.ndarray  # gradient at the current point                  (n, p)
    D: np.ndarray  # preconditioner at the current point            (n, p)
    d: np.ndarray  # direction                                      (n, p)
    R: np.ndarray  # sqrt(v) (M - X B) at the trial point           (n, p)
    S: np.ndarray  # pairs: moves of M                              (m, n, p)
    Y: np.ndarray  # pairs: moves of the gradient                   (m, n, p)
    single: Single | None  # as long as the fit is in single precision


class Trial(NamedTuple):
    """Sums at a trial point."""

    fit: float  # sum v [Y(O+M) - A + log(S2)/2 - log Y!]
    slope: float  # g'd over the rows
    P: np.ndarray  # X'vR about the current B                       (d, p)
    G: np.ndarray | None  # R'vR, or its diagonal                   (p, p) | (p,)
    R: np.ndarray | None  # sqrt(v) R itself, where p > n           (n, p)
    s2: np.ndarray  # sum v S2                                      (p,)


class Slopes(NamedTuple):
    """Sums at a gradient."""

    T: np.ndarray  # sum v u                                        (p,)
    sy: np.ndarray  # s_k'y of the new pair                         (m,)
    sg: np.ndarray  # s_k'g                                         (m,)
    yDy: np.ndarray  # y_k'D y_l                                    (m, m)
    yDg: np.ndarray  # y_k'D g                                      (m,)


class Turn(NamedTuple):
    """A Newton step of the axes, and how far it is tried."""

    E: np.ndarray  # of the axes                                    (q, q)
    shift: np.ndarray  # of the origin                              (d, q)
    step: float  # part of it
    again: np.ndarray  # the turn being tried over the one before   (q, q)


class Starts(NamedTuple):
    """The starts of a PLN-PCA."""

    first: np.ndarray  # W of the first start, with an axis to spare where there is one   (p, d + q + 1)
    best: np.ndarray  # W of the best start so far                  (p, d + q)
    F: float = np.inf  # its value
    met: bool = False  # it has met the stopping rule
    number: int = 0  # which start is running
    source: int = 0  # where its rows come from
    final: bool = False  # it goes on to the end
    keep: bool = False  # the start that just ended is the best so far


class Spare(NamedTuple):
    """The search for the axis to give up."""

    u: np.ndarray | None = None  # direction being weighed, or given up   (q + 1,)
    cheapest: np.ndarray | None = None  # cheapest so far           (q + 1,)
    cost: float = np.inf  # of giving it up
    weighings: int = 0


class RankParams(NamedTuple):
    """The small global state of `rank`."""

    phase: int  # SURVEY, BEGIN, STEP, TURN or WEIGH
    sums: Sums
    W: np.ndarray  # [B', C] at the current point                   (p, d + q)
    W_trial: np.ndarray  # and at the point to try                  (p, d + q)
    search: Search
    pairs: Pairs  # those of W
    starts: Starts
    spare: Spare = Spare()
    turn: Turn | None = None
    taken: int = 0  # steps accepted since the start
    accepted: bool = False  # the last trial point is now the current point
    refresh: bool = True  # the next sweep takes the blocks afresh


class RankLatents(NamedTuple):
    """What the rows keep; a row's variables are [M, psi]."""

    x: np.ndarray  # current point                                  (n, 2q)
    x_trial: np.ndarray  #                                          (n, 2q)
    g: np.ndarray  # gradient at the current point                  (n, 2q)
    g_trial: np.ndarray  #                                          (n, 2q)
    P: np.ndarray  # C'diag(A_i)C, at the last refresh or turn      (n, q, q)
    D: np.ndarray  # blocks of eq. 2 for M                          (n, q, q)
    D_psi: np.ndarray  # their diagonal for psi                     (n, q)
    d: np.ndarray  # direction                                      (n, 2q)
    S: np.ndarray  # pairs                                          (m, n, 2q)
    Y: np.ndarray  #                                                (m, n, 2q)
    DY: np.ndarray  # D times them                                  (m, n, 2q)
    best: np.ndarray  # point of the best start                     (n, 2q)


class RankTally(NamedTuple):
    """Sums over a shard: of a point (F to turning), of the survey (P, G), or of a direction to give up."""

    F: float = 0.0  # free energy
    slope: float = 0.0  # g'd over the rows
    g_W: Any = None  # its gradient                                 (p, d + q)
    H: Any = None  # Z'diag(v A_j) Z + diag [0, A_j'v S2]           (p, d + q, d + q)
    table: Dots | None = None
    turning: Turning | None = None
    P: Any = None  # X'vM                                           (d, p)
    G: Any = None  # M'vM                                           (p, p)
    weighing: Weighing | None = None


# what a checkpoint of a variational search may hold
SEARCHES = (Direction, Pairs, Search, Sums, Point, FullParams, Single, FullLatents, Turn, Starts, Spare, RankParams, RankLatents)
