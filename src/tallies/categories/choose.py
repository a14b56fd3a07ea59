"""What FEM chooses for itself: the solver by its cost, ridge and degree by cross-validation; a network also a ridge by pair.

Folds are outputs: the weights of all folds stand side by side in one W, every column block with its own row weights, so one
sweep serves them all. Along the path each ridge starts from the weights of the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from tallies import engine
from tallies.categories.basis import make_basis, widths
from tallies.categories.kernels import fem as kernels
from tallies.categories.model import Conditional, Setup
from tallies.categories.solvers import MEMORY
from tallies.categories.terms import Terms, feature_total, features, groups_of, make_terms
from tallies.errors import DataError
from tallies.maths import Array

BUDGET = 2 << 30  # bytes that one fit may hold: features, weights and the history of L-BFGS, or a kernel matrix
PATH_TOL = 1e-5  # a ridge is judged by held-out log loss: more digits of its optimum decide nothing
PATH_SWEEPS = 300  # of one ridge, for the same reason
DECADES = (2, 1, 0, -1, -2, -3, -4)  # log10 ridge, from strong to weak; extended upwards where the strongest is best
PER_PICK = 6  # sums of a product for one picked: sweeps of 10,000 rows gained 2 to 80% at ratios 0.5 to 5, lost a third at 8
NARROW = 16  # columns: the narrowest that was timed, and gained
WIDEST = 1024  # rows of psi up to which the basis costs next to nothing
STRICTER = 10.0  # 1 / squared scale of the prior by pair, in common ridges: of 1, 3 and 10 the best on simulated networks
ROUNDS = 5  # of ridges by pair: 10 gave nothing more
SURE = 1.0  # standard errors by which held-out rows must prefer ridges by pair (the rule of Breiman et al. 1984)
EVIDENCE = 1.0  # log pseudo-Bayes factor for a higher degree: less is "not worth more than a bare mention" (Kass, Raftery 1995)


class Rows(NamedTuple):
    """The distinct rows of a classification table."""

    codes: np.ndarray  # (u, n)
    Y: Array  # (u, M)  weight of each class in each row
    folds: Any  # (k, u, M)  the part of Y that each fold holds out, or None


class Plan(NamedTuple):
    solver: str
    metric: str
    seconds: float  # estimate, of one core
    bytes: float


def plan(
    l: int, sizes: np.ndarray, degrees: Iterable[int], columns: int, terms: Terms | None, solver: str, kernel: bool = True
) -> Plan:
    """The cheapest way to fit l rows, by counts of operations; `terms` where they are chosen (then there is no kernel)."""
    degrees = tuple(degrees)
    n = len(sizes)
    p = float(terms.p) if terms is not None else feature_total(sizes, degrees)
    C = len(terms.variables) if terms is not None else sum(math.comb(n, k) for k in degrees)
    sweep = 2e-9 * l * C * max(columns / 4, 1.0)  # seconds: gathering and scattering move about 2e9 numbers a second
    held = 4.0 * l * C + 8.0 * p * columns * (2 * MEMORY + 8)
    gram = 1e-9 * l * C * C / 2 + p**3 / 3 / 2.5e10
    closed = (terms is None and degrees == tuple(range(1, max(degrees) + 1))) and kernel  # spans a basis
    r = feature_total(sizes - 1, (0, *degrees)) if closed else p
    active = feature_total(1 - 1 / sizes, (0, *degrees)) if closed else C
    reduced = 1e-9 * l * active**2 / 2 + 5 * r**3 / 2.5e10 + 80e-9 * r * r
    options = []
    if solver == "fem":
        options = [Plan("fem", "pinv", 200 * sweep + gram + 10 * p**3 / 2.5e10, held + 24.0 * p * p)]
    if solver in ("auto", "lbfgs"):
        # sweeps that each way takes to settle, seen on tables from 400 to 13,000 rows
        options += [
            Plan("lbfgs", "diagonal", 300 * sweep, held),
            Plan("lbfgs", "gram", 40 * sweep + gram + 40e-9 * p * p, held + 24.0 * p * p),
        ]
        if closed:
            options.append(Plan("lbfgs", "reduced", 40 * sweep + reduced, held + 40.0 * r * r))
    if solver == "kernel" or (solver == "auto" and terms is None and kernel):
        options.append(
            Plan("kernel", "kernel", 5e-10 * l * l * n + l**3 / 3 / 2.5e10 + 100 * 2e-10 * l * l * (4 + columns), 28.0 * l * l)
        )
    fitting = [option for option in options if option.bytes <= BUDGET]
    if not fitting:
        least = min(options, key=lambda option: option.bytes)
        ways = ["lower degree"] * (max(degrees) > 1) + [
            "keep the strongest pairs with screen=..." if kernel else "leave out variables"
        ]
        raise DataError(
            f"degree {max(degrees)} of {n} variables has {p:,.0f} features, and the {least.solver!r} solver would need "
            f"{least.bytes / 2**30:,.1f} GiB for {l:,} distinct rows (limit {BUDGET / 2**30:.0f}); {', '.join(ways)}, "
            "or bin columns with many states"
        )
    return min(fitting, key=lambda option: option.seconds)


def set_up(
    model: Conditional, rows: Rows, degrees: tuple[int, ...], terms: Terms | None, starts: np.ndarray, ridge: float, solver: str
) -> tuple[Setup, np.ndarray]:
    """The setup of a fit to these rows, and the ids that its shards hold."""
    sizes = model.categories_.sizes
    chosen = plan(len(rows.codes), sizes, degrees, int(starts[-1]), terms, solver)
    tol: float = model.tol
    if chosen.solver == "kernel":
        return Setup("kernel", "kernel", None, starts, ridge, match_table(rows.codes.shape[1], degrees), None, tol), rows.codes
    terms = terms or make_terms(sizes, groups_of(len(sizes), degrees))
    ids, basis, metric = features(terms, rows.codes), None, chosen.metric
    if metric == "reduced":
        basis = make_basis(terms) if ids.min(initial=0) >= 0 else None
        metric = "gram" if basis is None else metric
    return multiplied(Setup(chosen.solver, metric, terms, starts, ridge, None, None, tol, basis), ids), ids


def multiplied(setup: Setup, ids: np.ndarray) -> Setup:
    """The setup with products of matrices in its sweeps, where those cost less than picking the features of each row."""
    assert setup.terms is not None
    r, M = 1 + int(widths(setup.terms).sum()), int(setup.starts[-1])
    columns = M - len(setup.starts) + 1
    if r > WIDEST or M < NARROW or r * columns > PER_PICK * ids.shape[1] * M or ids.min(initial=0) < 0:
        return setup
    basis = setup.basis or make_basis(setup.terms)
    return setup if basis is None else setup._replace(basis=basis, multiply=True)


def match_table(n: int, degrees: Iterable[int]) -> Array:
    """K as a function of the number of variables in which two rows agree: they share C(matches, k) features of degree k."""
    return np.array([float(sum(math.comb(a, k) for k in degrees)) for a in range(n + 1)])


class Path(NamedTuple):
    ridge: float  # the best
    loss: float  # its held-out log loss, nats a row
    tried: list[tuple[float, float]]  # ridge, loss


def ridge_path(
    model: Conditional, rows: Rows, degrees: tuple[int, ...], terms: Terms | None, solver: str, given: Any = None
) -> Path:
    """Held-out log loss along the ridge, strong to weak with warm starts, then between the best and its neighbours."""
    k, M = len(rows.folds), rows.Y.shape[1]
    starts = np.arange(0, (k + 1) * M, M)
    setup, ids = set_up(model, rows, degrees, terms, starts, 1.0, "auto" if solver == "fem" else solver)
    train = np.ascontiguousarray((rows.Y - rows.folds).transpose(1, 0, 2).reshape(len(ids), k * M))
    weight = np.add.reduceat(train, starts[:-1], axis=1)
    model._setup = setup._replace(tol=PATH_TOL)
    backend = model._place(model._cut(ids, train, weight))
    surveyed = engine.survey(model, backend)
    held = rows.folds.transpose(1, 0, 2).reshape(len(ids), k * M)
    losses: dict[float, float] = {}
    W, image = np.zeros_like(surveyed.counted), None

    def attempt(ridge: float) -> float:
        nonlocal W, image
        if ridge not in losses:
            model._setup = setup._replace(tol=PATH_TOL, ridge=ridge)
            params = model._solve(model._begin(surveyed, W, image), backend, PATH_SWEEPS)
            assert params.search is not None
            W, image = params.W, params.search.image
            H = image.copy() if image is not None else gathered(ids, W)
            kernels.softmax_rows(H, np.ones((len(H), 1)), starts, np.zeros(k))
            losses[ridge] = float(-np.sum(held * np.log(H)) / held.sum())
        return losses[ridge]

    if given is not None:
        return Path(given, attempt(given), [(given, losses[given])])
    descend(attempt, losses)
    ridge = best_ridge(losses)
    return Path(ridge, losses[ridge], sorted(losses.items(), reverse=True))


def descend(attempt: Callable[[float], Any], losses: dict[float, float]) -> None:
    """Try ridges from strong to weak until two in a row lie beyond the best, then its neighbours; `attempt` notes losses."""
    for decade in DECADES:
        attempt(10.0**decade)
        recent = list(losses.values())
        if len(recent) >= 3 and min(recent[-2:]) > min(recent):
            break
    while best_ridge(losses) == max(losses) < 1e6:
        attempt(max(losses) * 10)
    centre = best_ridge(losses)
    for factor in (10**0.5, 10**-0.5):
        attempt(centre * factor)


def best_ridge(losses: dict[float, float]) -> float:
    """The ridge of smallest loss; of equal ones the strongest."""
    return min(losses, key=lambda ridge: (losses[ridge], -ridge))


def pair_ridges(V: Array, starts: np.ndarray, ridge: float, rows: float, mutual: bool) -> Array:
    """(n, n)  the ridge of each pair that zero-sum couplings V ask for: strong where they are weak.

    A block with a Student prior of one degree of freedom, whose log is -(1 + d)/2 log(1/(STRICTER ridge) + |V_jk|^2), is pulled
    as by a ridge of (1 + d) / (1/(STRICTER ridge) + |V_jk|^2). For d stands how many of its (m_j - 1)(m_k - 1) free couplings
    the rows tell in spite of the ridge, the others being small for want of rows (MacKay 1992).
    """
    m = np.diff(starts)
    told = rows / np.outer(m, m)
    free = np.outer(m - 1, m - 1) * told / (told + ridge)
    size = np.add.reduceat(np.add.reduceat(V**2, starts[:-1], axis=0), starts[:-1], axis=1)
    if mutual:
        size = (size + size.T) / 2
    return (1 + free) / (1 / (STRICTER * ridge) + size)


def ridges_by_pair(
    attempt: Callable[[Array | None], tuple[Array, Array]], starts: np.ndarray, ridge: float, rows: float, mutual: bool
) -> Array | None:
    """Rounds of ridges by pair, while held-out rows prefer each; None where they refuse the first.

    `attempt` fits with these, or the common one for None, and returns the log likelihood of held-out rows and the couplings.
    """
    best, (before, V) = None, attempt(None)
    for _ in range(ROUNDS):
        pairs = pair_ridges(V, starts, ridge, rows, mutual)
        after, V = attempt(pairs)
        gain = after - before
        if gain.sum() <= SURE * gain.std() * len(gain) ** 0.5:
            break
        best, before = pairs, after
    return best


def gathered(ids: np.ndarray, W: Array) -> Array:
    H = np.empty((len(ids), W.shape[1]))
    kernels.gather(ids, W, H)
    return H


def degree_path(model: Conditional, rows: Rows, solver: str, ridge: Any, highest: int) -> tuple[tuple[int, ...], dict[int, Path]]:
    """Degrees upwards, each with its best ridge, until one does not pay; XOR-like tables need a look at 2 and 3 in any case."""
    n, best, found = rows.codes.shape[1], 1, {}
    for K in range(1, min(n, highest) + 1):
        try:
            found[K] = ridge_path(model, rows, tuple(range(1, K + 1)), None, solver, ridge)
        except DataError:  # too large: the degrees below have to do
            if K == 1:
                raise
            break
        # the log likelihoods of all held-out rows differ by the log pseudo-Bayes factor (Geisser, Eddy 1979)
        if (found[best].loss - found[K].loss) * rows.folds.sum() > EVIDENCE:
            best = K
        if K >= 3 and best < K:
            break
    return tuple(range(1, best + 1)), found


def fold_numbers(y: np.ndarray, cv: Any, seed: int) -> np.ndarray | None:
    """A fold for every row, classes spread evenly; -1, never held out, for a class of one row; None for too few rows.

    `cv` may also be scikit-learn's list of (train, test) rows, each row in one test set.
    """
    if not (isinstance(cv, list | tuple) or (isinstance(cv, int | np.integer) and cv >= 2)):  # a splitter could not be saved
        raise ValueError(
            f"cv must be a number of folds from 2 on, or a list of (train, test) rows, as list(KFold(5).split(X)) makes; got {cv!r}"
        )
    folds = np.full(len(y), -1, dtype=np.int64)
    if not isinstance(cv, int | np.integer):
        for k, (_, test) in enumerate(cv):
            folds[test] = k
        if folds.min(initial=0) < 0:
            raise DataError(
                f"cv must hold out every row once, but {int((folds < 0).sum())} rows are in no test set; give a number of folds"
            )
        return folds
    k = min(int(cv), int(np.bincount(y).max()))
    if k < 2 or len(y) < 2 * k:
        return None
    order = np.lexsort((np.random.default_rng(seed).random(len(y)), y))
    folds[order] = np.arange(len(y)) % k
    folds[(np.bincount(y) < 2)[y]] = -1
    return folds
