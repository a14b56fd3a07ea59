"""Records of the PLN solvers: shards and surveys serve all, Full* `pln_full`, Rank* `pln_rank`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Shard(NamedTuple):
    """Some rows of the data."""

    Y: np.ndarray  # counts, 0 where missing                        (n, p)
    O: np.ndarray  # offsets, -1e4 where the count is missing       (n, p)
    X: np.ndarray  # design                                         (n, d)
    v: Any  # row weights                                    (n,)
    even: bool  # all weights are 1
    start: int  # place of the first row among all rows
    rows: int  # number of rows of all shards
    constant: float  # sum of v log Y!
    M: np.ndarray | None = None  # means to begin with              (n, p)


class Survey(NamedTuple):
    """Sums of the raw data."""

    weight: float  # N
    n_j: np.ndarray  # sum of v Y                                   (p,)
    e_j: np.ndarray  # sum of v exp(O)                              (p,)
    XvX: np.ndarray  # X'vX                                         (d, d)
    rootX: np.ndarray | None  # sqrt(v) X, kept where p > n         (n, d)


class FullParams(NamedTuple):
    """The small global state: model parameters, the trial point's global part, and the state of the line search."""

    phase: int  # START, TRIAL or GRADIENT
    B: np.ndarray  # coefficients                                   (d, p)
    Omega: np.ndarray  # precision: matrix, diagonal, or R Omega    (p, p) | (p,) | (n, p)
    shift: np.ndarray  # (move of B) Omega: the rows kept R about the B before  (d, p) | (0, p)
    omega: np.ndarray  # diagonal of the precision                  (p,)
    logdet: float  # log|Sigma| of a given covariance, else 0
    w: np.ndarray  # of eq. 2, at the current point                 (p,)
    w_trial: np.ndarray  # and at the point to try                  (p,)
    F: float  # value at the current point, constants included
    path: tuple[float, ...]  # values after the last accepted steps
    step: float  # length of the step to try
    slope: float  # g'd of the direction
    fresh: bool  # the direction is new
    single: bool  # the rows are in single precision
    rough: bool  # steps still gain so much that S2 need not be exact
    toward: Any  # lbfgs.Direction of the rows
    d_w: np.ndarray  # direction of log w                           (p,)
    g_w: np.ndarray  # gradient of log w                            (p,)
    S_w: np.ndarray  # its pairs                                    (m, p)
    Y_w: np.ndarray  #                                              (m, p)
    sy: np.ndarray  # s_k'y_l, where y_l is not older than s_k       (m, m)
    order: tuple[int, ...]  # slots in use, oldest first
    slot: int  # slot the next pair goes to, -1: no pair to write
    D_w: np.ndarray  # preconditioner of log w                      (p,)
    tries: int  # steps tried in this direction
    met: bool  # the stopping rule is met
    stuck: bool  # no step lowers F any more
    XvX: np.ndarray  # X'vX                                         (d, d)
    weight: float  # N
    rootX: np.ndarray | None  # sqrt(v) X where p > n               (n, d)


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
    counts: np.ndarray | None  # single precision copies of Y ...   (n, p)
    offsets: np.ndarray | None  # ... and O, as long as used        (n, p)


class FullTally(NamedTuple):
    """Sums over a shard: of a trial (fit, P, G, s2) or of a gradient (the others)."""

    fit: float  # sum v [Y(O+M) - A + log(S2)/2 - log Y!]
    slope: float  # g'd over the rows
    P: Any  # X'vR about the current B                       (d, p)
    G: Any  # R'vR, its diagonal, or sqrt(v) R in its place  (p, p) | (p,) | (n, p)
    s2: Any  # sum v S2                                      (p,)
    T: Any  # sum v u                                        (p,)
    sy: Any  # s_k'y of the new pair                          (m,)
    sg: Any  # s_k'g                                          (m,)
    yDy: Any  # y_k'D y_l                                     (m, m)
    yDg: Any  # y_k'D g                                       (m,)


class RankParams(NamedTuple):
    """The small global state."""

    mean: np.ndarray  # log of the mean rates                       (p,)
    XvX: np.ndarray  # X'vX                                         (d, d)
    weight: float  # N
    toward: Any  # lbfgs.Direction of the rows
    # the point
    phase: int = 0  # SURVEY, BEGIN, STEP, TURN or WEIGH
    W: Any = None  # [B', C] at the current point                   (p, d + q)
    W_trial: Any = None  # and at the point to try                  (p, d + q)
    F: float = np.inf  # value at the current point
    path: tuple[float, ...] = ()  # values after the last accepted steps
    taken: int = 0  # steps accepted since the start
    met: bool = False  # the stopping rule is met
    stuck: bool = False  # no step lowers F any more
    # the step
    step: float = 0.0  # length of the step or turn to try
    slope: float = 0.0  # g'd of the direction
    fresh: bool = False  # the direction is new
    accepted: bool = False  # the last trial point is now the current point
    tries: int = 0  # steps tried in this direction
    refresh: bool = True  # the next sweep takes the blocks afresh
    d_W: Any = None  # direction of W                               (p, d + q)
    g_W: Any = None  # gradient of W                                (p, d + q)
    D_W: Any = None  # blocks of eq. 2                              (p, d + q, d + q)
    S_W: Any = None  # pairs of W                                   (m, p, d + q)
    Y_W: Any = None  #                                              (m, p, d + q)
    DY_W: Any = None  # D_W times them                              (m, p, d + q)
    order: tuple[int, ...] = ()  # slots in use, oldest first
    slot: int = 0  # slot of the pair being tried
    # the turn of the axes
    E: Any = None  # Newton step of the axes                        (q, q)
    shift: Any = None  # and of the origin                          (d, q)
    again: Any = None  # the turn being tried over the one before   (q, q)
    # the starts
    start: int = 0  # which start is running
    source: int = 0  # where its rows come from
    final: bool = False  # it goes on to the end
    first: Any = None  # W of the first start                       (p, d + q + 1)
    best: Any = None  # W of the best start so far                  (p, d + q)
    F_best: float = np.inf
    met_best: bool = False  # it has met the stopping rule
    keep: bool = False  # the start that just ended is the best so far
    u: Any = None  # direction being weighed, or given up           (q + 1,)
    cheapest: Any = None  # cheapest direction so far               (q + 1,)
    cost: float = np.inf  # of giving it up
    weighings: int = 0


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

    F: float  # free energy
    slope: float  # g'd over the rows
    g_W: Any = None  # its gradient                          (p, d + q)
    H: Any = None  # Z'diag(v A_j) Z + diag [0, A_j'v S2]    (p, d + q, d + q)
    table: Any = None  # lbfgs.Dots
    turning: Any = None  # pln_axes.Turning
    P: Any = None  # X'vM                                    (d, p)
    G: Any = None  # M'vM                                    (p, p)
    weighing: Any = None  # pln_axes.Weighing
