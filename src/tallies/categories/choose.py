"""What FEM chooses for itself: the solver by its cost, ridge and degree by cross-validation.

Searches are parts of plans: every ridge that is tried is a stage, whose rows to judge by say how good it is. Along a path each
ridge starts from the weights of the one before, and all of them share one placed table and one survey. Folds are outputs: the
weights of all folds stand side by side in one W, every column block with its own row weights, so one sweep serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np

from tallies.categories.basis import basis_of, widths
from tallies.categories.dual import Dual, Whole
from tallies.categories.model import SOLVERS, Conditional, Cut, Rows, cut
from tallies.categories.products import SMALL
from tallies.categories.row_products import factors, rank_of
from tallies.categories.solvers import MEMORY
from tallies.categories.terms import Layout, feature_total, terms_of, zero_sum
from tallies.engine import End, Kept, Stage
from tallies.errors import DataError
from tallies.forms import Form
from tallies.maths import Array

BUDGET = 2 << 30  # bytes that one fit may hold: features, weights and the history of L-BFGS, or a kernel matrix
PATH_TOL = 1e-7  # a ridge is judged by held-out log loss, which is good to 1e-3 by then: near a perfect fit gains come late
NEWTON_TOL = 1e-3  # before the last step of Newton's method, which leaves the square of it or so
NETWORK_TOL = 1e-6  # of networks, which are far from perfect, good to 1e-4
PATH_SWEEPS = 2000  # of one ridge
DECADES = (2, 1, 0, -1, -2, -3, -4)  # log10 ridge, from strong to weak; extended upwards where the strongest is best
NEWTONS = 6  # steps of the kernel form that need an inverse
ONE_PIECE = 1 << 14  # rows that one piece of a fit holds, and a model of the kernel form keeps
STRONG = 100.0  # of n variables of degree 1: where a higher degree starts, at the most, though lower ones say nothing
WEAKEST, STRONGEST = 1e-4, 1e9  # ridges of a walk
FAR = 4.0  # distances that a walk has come: what is left beyond them it will not come
PER_PICK = 6  # sums of a product for one picked: sweeps of 10,000 rows gained 2 to 80% at ratios 0.5 to 5, lost a third at 8
NARROW = 16  # columns: the narrowest that was timed, and gained
MOST_METRICS = 1 << 24  # numbers in the metrics of all states: 128 MB
WIDEST = 1024  # rows of psi up to which the basis costs next to nothing
EVIDENCE = 1.0  # log pseudo-Bayes factor for a higher degree: less is "not worth more than a bare mention" (Kass, Raftery 1995)
FEW = 1000  # rows up to which there are ten folds: a fifth of the rows fewer is another table to the higher degrees
RIDGE = 1.0  # where there are too few rows for folds


# the solver


def cheapest(
    l: int, layout: Layout, outputs: tuple[int, ...], solver: str, network: bool = False, whole: bool = True, filed: bool = False
) -> str:
    """The metric of the cheapest way to fit l rows, by counts of operations; a network, and screened pairs, have no kernel.
    `whole`: every variable of every row has a state, as a basis needs. `filed`: features of rows may stay in files."""
    sizes, degrees, n = np.array(layout.sizes), layout.degrees, len(layout.sizes)
    columns, states = sum(outputs), outputs[0]
    terms = None if layout.pairs is None else terms_of(layout)
    p = float(terms.p) if terms is not None else feature_total(sizes, degrees)
    C = len(terms.variables) if terms is not None else sum(math.comb(n, k) for k in degrees)
    sweep = 5e-9 * l * C * max(columns / 4, 1.0) + 1.5e-7 * p * columns  # seconds: features of rows, and vectors of L-BFGS
    held = 4.0 * l * C * (not filed) + 8.0 * p * columns * (2 * MEMORY + 8)
    gram = 1e-9 * l * C * C / 2 + p**3 / 3 / 2.5e10
    solved = 1 if network else columns  # with a metric, at the speed of memory; the many columns of a network share its reading
    # seconds of one core, and bytes; with the sweeps that each way takes to settle, seen on tables from 400 to 13,000 rows: twice
    # as many where a fit may be perfect, but for metrics of every state
    settle = 50 if network or outputs[0] > 2 else 100
    ways = {
        "pinv": (200 * sweep + gram + 10 * p**3 / 2.5e10, held + 24.0 * p * p),
        "diagonal": (6 * settle * sweep, held),
        "gram": (settle * (sweep + 1e-9 * p * p * solved) + gram, held + 24.0 * p * p),
    }
    if terms is None and not network:
        r = rank_of(layout)
        if whole and degrees == tuple(range(1, max(degrees) + 1)):  # spans a basis
            active = feature_total(1 - 1 / sizes, (0, *degrees))
            reduced = 1e-9 * l * active**2 / 2 + 5 * r**3 / 2.5e10
            ways["reduced"] = (settle * (sweep + 1e-9 * r * r * solved) + reduced, held + 40.0 * r * r)
        if whole and factors(l, layout):
            products, inverse = 2 * l * r, 4e-11 * l * r * r + r**3 / 3 / 2.5e10
            bytes_held = 24.0 * l * r + 8.0 * r * r * (1 + columns / states)
        else:  # for half of the rows are told nearly for certain: an eighth of a factorisation
            products, inverse, bytes_held = l * l, l**3 / 8 / 3 / 2.5e10, 28.0 * l * l
        newton = inverse + 1e-9 * products * (1 + (2.5 * states if states > 2 else 0))  # of more than two classes, inner steps
        ways["kernel"] = (2.5e-10 * products * n + NEWTONS * (columns / states) * newton, bytes_held)
        if solver == "auto" and l > ONE_PIECE:
            del ways["kernel"]
    asked = {"lbfgs", "kernel"} if solver == "auto" else {solver}
    ways = {metric: cost for metric, cost in ways.items() if SOLVERS.get(metric, "lbfgs") in asked}
    fitting = {metric: seconds for metric, (seconds, held) in ways.items() if held <= BUDGET}
    if not fitting:
        least = min(ways, key=lambda metric: ways[metric][1])
        name = SOLVERS.get(least, "lbfgs")
        remedy = "lower degree, " * (max(degrees) > 1)
        remedy += "leave out variables" if network else "keep the strongest pairs with screen=..."
        raise DataError(
            f"degree {max(degrees)} of {n} variables has {p:,.0f} features, and the {name!r} solver would need "
            f"{ways[least][1] / 2**30:,.1f} GiB for {l:,} distinct rows (limit {BUDGET / 2**30:.0f}); {remedy}, "
            "or bin columns with many states"
        )
    return min(fitting, key=lambda metric: fitting[metric])


def arrange(codes: np.ndarray, layout: Layout, outputs: tuple[int, ...], solver: str, lag: int | None = None) -> Any:
    """The model that fits these rows at the least cost. `lag`: of a network, whose outputs are the inputs."""
    whole = codes.min(initial=0) >= 0  # rows without a state have no place in a basis
    filed = not isinstance(codes, np.ndarray)
    metric = cheapest(len(codes), layout, outputs, solver, network=lag is not None, whole=bool(whole), filed=filed)
    if metric == "kernel":
        return Dual(layout, outputs)
    if metric == "gram" and lag == 0 and max(layout.degrees) > 1:  # one inverse serves all while what each leaves out is small
        metric = "diagonal"
    model = Conditional(layout, outputs, metric, exclude=lag == 0)
    r, M = 1 + int(widths(model.terms).sum()), sum(outputs)
    pays = r <= WIDEST and M >= NARROW and r * (M - len(outputs)) <= PER_PICK * len(model.terms.variables) * M
    dense = len(codes) * max(model.terms.p, M) <= SMALL and min(outputs) > 1
    square = {"gram": model.terms.p, "reduced": r}.get(metric, 0) ** 2
    by_state = lag is None and outputs[0] > 2 and 0 < outputs[0] * square <= MOST_METRICS
    return replace(model, dense=dense, multiply=bool(whole and pays and basis_of(layout) is not None), by_state=by_state)


def sources_of(model: Any, rows: Rows, shard_rows: int | None, judges: Rows | None = None) -> list[Cut] | list[Whole]:
    """The rows as the model takes them."""
    return [Whole(model, rows, judges)] if isinstance(model, Dual) else cut(model, rows, shard_rows, judges)


def final(model: Any, sources: Any, most: int, W: Any = None, pair_ridges: Any = None, name: str = "") -> Stage:
    """The fit to all rows, which keeps its weights (p, M); kernel: (u, M). At W where a search was cut short, else from nothing."""
    start = partial(model.first, W=W, pair_ridges=pair_ridges)
    return Stage(name, model, sources, lambda end: end.params.W, most, start=start)


# the ridge


class Tried(NamedTuple):
    """What a ridge that was tried keeps."""

    told: Annotated[np.ndarray, Form("l", "f", nan=True)]  # log likelihood of the rows to judge by
    # float32, mean over folds: to end with after Ctrl-C; None where an earlier ridge was better
    W: Annotated[np.ndarray, Form("p M", "f", nan=True)] | None
    # squared sizes of the couplings of each pair; None where nobody asks for ridges by pair
    sizes: Annotated[np.ndarray, Form("n n", "f", 0, nan=True)] | None


class Ground(NamedTuple):
    """On what ridges are tried."""

    model: Any  # Conditional | Dual
    sources: list[Cut] | list[Whole]
    unseen: float  # weight of the rows to judge by
    folds: int = 1
    whole: bool = False  # kernel: behind the folds an output of all rows, at whose end folds may start
    by_pair: bool = False  # whether pairs may get ridges of their own
    tol: float = PATH_TOL
    stage: Callable[..., Stage] | None = None  # how a large network makes the stage of an `attempt`


class Path(NamedTuple):
    """The search along the ridge, so far."""

    solver: str
    losses: dict[float, float]  # held-out log loss of each ridge, nats a row, in the order of trial
    least: float = 0.0  # nats a row that tell nothing
    W: Any = None  # weights of the best, as in Tried
    end: Kept | None = None  # of the latest stage
    pulls: Any = None  # ridge a of the fit to all rows, which is y - p

    @property
    def cut(self) -> bool:
        """Whether it was told to stop."""
        return self.end is not None and self.end.cut

    @property
    def ridge(self) -> float:
        """The best; where none is complete, as where there are no folds."""
        return best_ridge(self.losses) if self.losses else RIDGE

    @property
    def loss(self) -> float:
        """Of the best ridge."""
        return self.losses.get(self.ridge, np.inf)

    @property
    def strongest(self) -> float:
        """The strongest ridge that rows hardly tell from the best."""
        return best_ridge(self.losses, self.least) if self.losses else RIDGE


def attempt(
    ground: Ground, name: str, ridge: float, before: Kept | None, best: float = -np.inf, pairs: Any = None, from_all: bool = False
) -> Stage:
    """A stage that fits with a ridge, or one for each of the pairs, from where another ended, which may be that `of_all`; it keeps
    weights that beat `best`."""
    if ground.stage is not None:
        return ground.stage(name, ridge, before, best, pairs)
    model = replace(ground.model, ridge=ridge, tol=ground.tol)
    if ground.whole:
        model = replace(model, fitted=(0, ground.folds))

    def keep(end: End) -> Tried:
        told, W = np.concatenate(end.rows), end.params.W
        mean = _by_fold(ground, W)[:, : ground.folds].mean(axis=1) if told.sum() > best else None
        sizes = coupling_sizes(zero_sum(model.terms, W, model.starts)[2], model.starts, model.exclude) if ground.by_pair else None
        return Tried(told, None if mean is None else mean.astype(np.float32), sizes)

    def start(survey: Any) -> Any:
        W = None if before is None else before.params.W
        if W is not None and from_all:
            W = np.tile(_by_fold(ground, W)[:, -1], ground.folds + 1)
        return model.first(survey, W, pairs)

    return Stage(name, model, ground.sources, keep, PATH_SWEEPS, start=start, rows=True)


def _by_fold(ground: Ground, W: Array) -> Array:
    """(p, folds, M) of (p, folds M); behind the folds all rows, where they are fitted, too."""
    return W.reshape(len(W), ground.folds + ground.whole, -1)


def of_all(ground: Ground, name: str, ridge: float, pulls: Any) -> Stage:
    """A stage that fits to all rows, those that folds hold out as well: they are near, and one long way is shorter than many. It
    starts where rows are pulled as by the degree below.

    Nothing leaks: a held-out row has no weight of its own at the optimum of a fold, and at the end of one it is set to 0.
    """
    model = replace(ground.model, ridge=ridge, tol=ground.tol, fitted=(ground.folds, ground.folds + 1))

    def keep(end: End) -> Tried:
        return Tried(np.zeros(0), _by_fold(ground, end.params.W)[:, -1].astype(np.float32), None)

    W = None if pulls is None else np.pad(pulls / ridge, ((0, 0), (pulls.shape[1] * ground.folds, 0)))
    return Stage(name, model, ground.sources, keep, PATH_SWEEPS, start=lambda survey: model.first(survey, W))


def ridge_path(
    ground: Ground, name: str = "", given: float | None = None, centre: float | None = None, goal: float = np.inf, pulls: Any = None
) -> Generator[Stage, Kept, Path]:
    """Held-out log loss along the ridge, from `centre` on where there is one, or of the given one alone; each ridge but the first
    from the weights of the one before. A walk ends where it is hopeless to come down to `goal`."""
    least, before = EVIDENCE / max(ground.unseen, 1e-300), None
    path = Path(ground.model.solver, {}, least, pulls=pulls)
    while (ridge := next_ridge(path.losses, given, centre, least)) is not None and not hopeless(path.losses, goal):
        from_all = ground.whole and centre is not None and not path.losses
        if from_all:
            before = yield of_all(ground, f"{name}ridge {ridge:.3g}, all rows", ridge, pulls)
            if before.cut:
                return path._replace(W=before.value.W, end=before)
            path = path._replace(pulls=ridge * before.value.W)
        best = -path.loss * ground.unseen
        kept = yield attempt(ground, f"{name}ridge {ridge:.3g}", ridge, before, best, from_all=from_all)
        if kept.cut:
            return path._replace(W=path.W if path.losses else kept.value.W, end=kept)
        path.losses[ridge] = -float(kept.value.told.sum()) / ground.unseen
        path, before = path._replace(W=path.W if kept.value.W is None else kept.value.W, end=kept), kept
    return path


def hopeless(losses: dict[float, float], goal: float) -> bool:
    """Whether a walk is farther from the goal than it has come in all, several times."""
    found = list(losses.values())
    return len(found) > 1 and min(found) - goal > FAR * (max(found) - min(found))


def next_ridge(
    losses: dict[float, float], given: float | None = None, centre: float | None = None, least: float = 0.0
) -> float | None:
    """From strong to weak until two in a row lie beyond the best, upwards while the strongest is best, then the neighbours.

    From a centre: in decades, the weaker first, on beyond the best while that gains `least`, and the lowest point between them.

    >>> next_ridge({}), next_ridge({100.0: 3.0, 10.0: 1.0}), next_ridge({100.0: 1.0, 10.0: 2.0, 1.0: 3.0})
    (100.0, 1.0, 1000.0)
    """
    if given is not None:
        return None if losses else given
    if centre is not None:
        return _beside(losses, centre, least)
    down = [losses[10.0**k] for k in DECADES if 10.0**k in losses]
    if len(down) < len(DECADES) and (len(down) < 3 or min(down[-2:]) <= min(down)):
        return 10.0 ** DECADES[len(down)]
    decades = {ridge: loss for ridge, loss in losses.items() if math.isclose(math.log10(ridge), round(math.log10(ridge)))}
    best = best_ridge(decades)
    if best == max(decades) < 1e6:
        return best * 10
    return next((ridge for ridge in (best * 10**0.5, best * 10**-0.5) if ridge not in losses), None)


def _beside(losses: dict[float, float], centre: float, least: float) -> float | None:
    """The next of a walk: down in decades, up in halves of them, and then the lowest point of the parabola about the best."""
    if len(losses) < 2:
        return max(centre, 10 * WEAKEST) / 10 ** len(losses)
    best, tried = best_ridge(losses), sorted(losses)
    at = tried.index(best)
    for end, inner, ridge in ((0, 1, best / 10), (len(tried) - 1, -2, best * 10**0.5)):
        if at == end:
            walks = len(tried) < 3 or losses[tried[inner]] - losses[best] > least
            return ridge if walks and WEAKEST <= ridge <= STRONGEST else None
    near = tried[at - 1 : at + 2]
    x, y = np.log10(near) - np.log10(best), [losses[ridge] for ridge in near]
    bend, slope, _ = np.polyfit(x, y, 2)
    vertex = round(2 * float(np.clip(-slope / (2 * bend), x[0], x[2]))) / 2  # folds tell no more than halves of decades apart
    return best * 10**vertex if slope * slope / (4 * bend) > least and np.abs(x - vertex).min() > 0.1 else None


def best_ridge(losses: dict[float, float], least: float = 0.0) -> float:
    """The strongest ridge whose loss is the smallest, or above it by no more than `least`.

    >>> best_ridge({10.0: 0.5, 1.0: 0.3, 0.1: 0.29}), best_ridge({10.0: 0.5, 1.0: 0.3, 0.1: 0.29}, 0.02)
    (0.1, 1.0)
    """
    return max(ridge for ridge, loss in losses.items() if loss <= min(losses.values()) + least)


# the degree


def degree_path(
    ground: Callable[[tuple[int, ...]], Ground], highest: int, given: float | None
) -> Generator[Stage, Kept, tuple[int, dict[int, Path]]]:
    """Degrees upwards, each with its best ridge, until one does not pay; XOR-like tables need a look at 2 and 3 in any case."""
    best = 1
    found: dict[int, Path] = {}
    for K in range(1, highest + 1):
        try:
            tried = ground(tuple(range(1, K + 1)))
        except DataError:  # too large: the degrees below have to do
            if K == 1:
                raise
            break
        centre = same_ridge(found[K - 1].strongest, len(tried.model.layout.sizes), K) if K > 1 and given != 0 else None
        goal, pulls = (found[best].loss, found[K - 1].pulls) if K > 1 else (np.inf, None)
        found[K] = yield from ridge_path(tried, f"degree {K}, ", given, centre, goal, pulls)
        if found[K].cut:
            break
        # the log likelihoods of all held-out rows differ by the log pseudo-Bayes factor (Geisser, Eddy 1979), which is not to rest
        # on the choice of the ridge among those that are as good
        if (found[best].loss - found[K].losses[found[K].strongest]) * tried.unseen > EVIDENCE:
            best = K
        if K >= 3 and best < K:
            break
    return best, found


def same_ridge(ridge: float, n: int, degree: int) -> float:
    """The decade at which a degree starts: the best ridge of the degree below, in terms of the features of a row.

    >>> same_ridge(10.0, 36, 3)
    100.0
    """
    fewer = sum(math.comb(n, k) for k in range(1, degree))
    return 10.0 ** round(math.log10(min(ridge / fewer, STRONG / n) * (fewer + math.comb(n, degree))))


def fold_numbers(y: np.ndarray, cv: Any, seed: int) -> np.ndarray | None:
    """A fold for every row, classes spread evenly; -1, never held out, for a class of one row; None for too few rows.
    "auto": ten folds of few rows, else five.

    `cv` may also be scikit-learn's list of (train, test) rows, each row in one test set.
    """
    number = (isinstance(cv, str) and cv == "auto") or isinstance(cv, int | np.integer)
    if not (isinstance(cv, list | tuple) or (number and (cv == "auto" or cv >= 2))):  # a splitter could not be saved
        raise ValueError(
            f'cv must be "auto", a number of folds from 2 on, or a list of (train, test) rows, '
            f"as list(KFold(5).split(X)) makes; got {cv!r}"
        )
    folds = np.full(len(y), -1, dtype=np.int64)
    if not number:
        for k, (_, test) in enumerate(cv):
            if np.max(test, initial=-1) >= len(y) or np.min(test, initial=0) < 0:
                row = np.max(test) if np.min(test) >= 0 else np.min(test)
                raise DataError(f"cv holds out row {row}, but there are {len(y)}, counted from 0; make it of these rows")
            if (folds[test] >= 0).any():
                raise DataError("cv must hold out every row once, but some rows are in several test sets; give a number of folds")
            folds[test] = k
        if folds.min(initial=0) < 0:
            raise DataError(
                f"cv must hold out every row once, but {int((folds < 0).sum())} rows are in no test set; give a number of folds"
            )
        return folds
    k = min((10 if len(y) <= FEW else 5) if cv == "auto" else int(cv), int(np.bincount(y).max()))
    if k < 2 or len(y) < 2 * k:
        return None
    order = np.lexsort((np.random.default_rng(seed).random(len(y)), y))
    folds[order] = np.arange(len(y)) % k
    folds[(np.bincount(y) < 2)[y]] = -1
    return folds


def coupling_sizes(V: Array, starts: np.ndarray, mutual: bool) -> Array:
    """(n, n)  squared sizes of the zero-sum couplings of each pair; `mutual`: the mean of both directions."""
    size = np.add.reduceat(np.add.reduceat(V**2, starts[:-1], axis=0), starts[:-1], axis=1)
    return (size + size.T) / 2 if mutual else size
