"""The stages of a network of counts: a path of penalties, subsamples that say which pairs are chosen again and again, the fit.

in two steps    all correlations -> their lassos -> those of subsamples -> the rows under the chosen precision
jointly         independent columns -> the penalised bound, penalty by penalty -> the same of subsamples -> the chosen one

    instability of a penalty = mean over pairs of 2 f (1 - f),   f the share of the subsamples in which a pair is chosen   (eq. 1)
    BIC = -2 J + k log N,   EBIC = BIC + 4 gamma |edges| log p,   k = free numbers                                         (eq. 2)
    support of a pair = (share of the path that is left where it enters + mean of f over the penalties) / 2                (eq. 3)

Stability selection (StARS) takes the smallest penalty whose instability is below a limit, among those at which no more than half
of the pairs are joined; the first edges to come may be unstable together, so one above the limit does not end the path. A stage
begins where another one ended: the path with the penalty before, a subsample with what the variances of all rows follow from.
Only the last stage brings home where the rows are, and of counts in files no more than their sums; the rows of a subsample are
read, and held.
References: Liu, Roeder and Wasserman 2010; Foygel and Drton 2010; Chiquet, Mariadassou and Robin 2019.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from scipy import linalg

from tallies.counts import full, plan
from tallies.counts.answers import correlation
from tallies.counts.door import Prepared, Rows, cut
from tallies.counts.filed import Filed
from tallies.counts.fitted import Fitted, Graph, Learned, Likelihood, Path
from tallies.counts.full import Covariance
from tallies.counts.inverses import Precision
from tallies.counts.network import lasso
from tallies.counts.network.penalised import Penalised, pair_penalties
from tallies.counts.onward import restart
from tallies.counts.plan import Settings
from tallies.counts.records import Coefficients, Latent, PerColumn, Spread, Sums, Variance
from tallies.counts.shards import held
from tallies.engine import End, Kept, Stage
from tallies.forms import Form

ROUGH = 1e-8  # stopping rule of fits on the way, which only say which pairs are chosen and how good a penalty is
LOOSE = 1e-6  # the same of all correlations of more columns than rows: variances of one column after the other go to 0 for
# hundreds of sweeps then, which says nothing of who is joined to whom
PATH_GAP = 1e-7  # of the lassos along a path, a column

Bits = Annotated[np.ndarray, Form("L b", "i", 0, 255)]  # the pairs that are chosen at each penalty, eight in a byte
Rule = Literal["stability", "bic", "ebic"]


class Choice(NamedTuple):
    """How the penalty is chosen."""

    penalties: np.ndarray | None  # falling; None: from the one that leaves no edge down to a share of it
    length: int  # of such a path
    ratio: float  # that share
    rule: Rule | None  # None: of one penalty
    joint: bool
    raw: bool  # the penalty is on the precision itself, not on that of correlations
    weights: np.ndarray | None  # of the pairs (p, p)
    subsamples: int
    limit: float  # of instability
    gamma: float  # of EBIC


class Ended(NamedTuple):
    """Where a search ended."""

    B: Coefficients
    S: Annotated[np.ndarray, Form("p p")]  # covariance of the rows, whatever the model makes of it
    w: PerColumn | None  # of `full`
    F: float
    met: bool  # the stopping rule is met
    entropy: float
    M: Latent | None = None  # of the last stage, where the rows are held
    S2: Variance | None = None


class Begun(NamedTuple):
    """The end of the first stage."""

    found: Ended
    penalty: Annotated[np.ndarray, Form("L", low=0)]
    bits: Bits | None  # in two steps, where subsamples judge


class Tried(NamedTuple):
    """The end of a stage on a path, or of a subsample."""

    bits: Bits
    loglik: float | None = None


RECORDS = (Ended, Begun, Tried)


def fit(s: Settings, c: Choice, data: Prepared, seed: int, shard_rows: int | None) -> Generator[Stage, Kept, Fitted]:
    """The plan; returns the fitted record."""
    live = data.rows.take(data.rows.v > 0)
    d, p = live.X.shape[1], live.Y.shape[1]
    found = bits = loglik = times = None
    penalty, drawn = c.penalties, 0
    if not (c.joint and penalty is not None and len(penalty) == 1 and c.rule != "stability"):  # which is the last stage alone
        name, kind = ("independent columns", "diagonal") if c.joint else ("all correlations", "full")
        model = Covariance(kind, single=_single(live), tol=s.tol if c.joint else _tolerance(s, live), sums=True)
        kept = yield Stage(name, model, data.sources, partial(_begun, live, c), s.max_iter, rows="sum")
        found, penalty, bits = kept.value
        if c.joint and len(penalty) > 1:
            begin = kept.params and restart(kept.params), kept.latents
            bits, loglik, kept = yield from _joint_path(s, c, live, data.sources, penalty, begin, "", np.ones(p, dtype=bool))
        elif _by_bounds(c, penalty) and not c.joint:
            penalty, bits, loglik, kept = yield from _bounds(s, c, live, data.sources, penalty, kept)
        if c.rule == "stability" and not kept.cut:
            times, drawn = yield from _subsamples(s, c, live, data.sources, found.w, penalty, seed, shard_rows)
    assert penalty is not None
    many = np.zeros(1, int) if bits is None else np.array([_count(row) for row in bits])
    unstable = None if times is None else np.array([2 * np.mean(f * (1 - f)) for f in (row / drawn for row in times)])
    path = Path(penalty, many, loglik, unstable)
    at = choose(path, c, d, p, float(live.v.sum()))
    sparse, last, learned, value = yield from _final(s, c, live, data.sources, found, float(penalty[at]))
    Omega, (a, b) = sparse.Theta, np.triu_indices(p, 1)
    there = Omega[a, b] != 0
    if bits is None:
        path = path._replace(edges=np.array([there.sum()]))
    support = None
    if times is not None:
        joined = there[None] if bits is None else np.unpackbits(bits, axis=1, count=len(a)).astype(bool)
        support = _support(joined, times / drawn, (a, b), p)
        there |= times[at] > 0
    pairs, probability = np.column_stack([a[there], b[there]]), None if times is None else times[at][there] / drawn
    rule = c.rule if len(penalty) > 1 else None
    chosen = Graph(Omega, float(penalty[at]), rule, c.joint, path, pairs, probability, drawn, max(sparse.gap, 0.0) / p)
    limit = c.limit if rule == "stability" and unstable is not None else None
    graph = chosen._replace(gamma=c.gamma, limit=limit, support=support)
    latent = yield from plan.with_unweighted(learned, data, last.value.M, last.value.S2, shard_rows)
    run, likelihood = plan.searched_run(last, seed), Likelihood(value, bound=True)
    return plan.finished(run, data, learned, latent, likelihood, last.value.w, last.value.entropy)._replace(graph=graph)


def choose(path: Path, c: Choice, d: int, p: int, N: float) -> int:
    """Which penalty of the path: by instability, or by a criterion."""
    if len(path.penalty) == 1:
        return 0
    if path.instability is not None:  # a network of most pairs is stable, too, and says nothing
        stable = (path.instability <= c.limit) & (path.edges <= p * (p - 1) / 4)
        return int(np.flatnonzero(stable).max(initial=0))
    if path.loglik is not None:
        gamma = c.gamma if c.rule == "ebic" else 0.0
        return int(np.argmin(criterion(path, d, p, N, gamma)))
    return int(np.flatnonzero(path.edges <= p).max(initial=0))  # cut before there was anything to choose by: a sparse one


def _support(joined: np.ndarray, f: np.ndarray, pairs: tuple[np.ndarray, np.ndarray], p: int) -> np.ndarray:
    """Eq. 3 (p, p), of the pairs that all rows join at each penalty (L, pairs), and the shares of subsamples that do."""
    out = np.zeros((p, p))
    out[pairs] = (np.logical_or.accumulate(joined).mean(axis=0) + f.mean(axis=0)) / 2
    return out + out.T


def criterion(path: Path, d: int, p: int, N: float, gamma: float) -> np.ndarray:
    """BIC of eq. 2, or EBIC with a gamma."""
    assert path.loglik is not None
    return -2 * path.loglik + (d * p + p + path.edges) * np.log(N) + 4 * gamma * path.edges * np.log(p)


# what stages keep


def _ended(rows: Rows, end: End) -> Ended:
    spread, search = plan.spread_of(end, rows), end.params.search
    B, S = spread.maximum(end.params.point.B)
    latent = [] if isinstance(end.rows[0], Spread) else plan.joined(end.rows, "M", "S2")
    return Ended(B, S, end.params.w, float(search.F), search.ended == "met", spread.entropy, *latent)


def _begun(rows: Rows, c: Choice, end: End) -> Begun:
    found = _ended(rows, end)
    S = found.S if c.raw else correlation(found.S)
    penalty = grid(S, c) if c.penalties is None else c.penalties
    return Begun(found, penalty, _lassos(S, c.weights, penalty) if c.rule == "stability" and not c.joint else None)


def _single(rows: Rows) -> bool:
    """Whether a search begins in single precision."""
    return len(rows.X) * rows.Y.shape[1] > plan.SINGLE


def _tolerance(s: Settings, rows: Rows) -> float:
    """The stopping rule of all correlations."""
    n, p = rows.Y.shape
    return max(s.tol, LOOSE) if p > n else s.tol


def _by_bounds(c: Choice, penalty: np.ndarray) -> bool:
    """Whether the bound at each penalty is asked for; the stages that find it come with its lasso."""
    return c.rule in ("bic", "ebic") and len(penalty) > 1


def _picked(rows: Rows, c: Choice, penalty: np.ndarray, seen: np.ndarray, end: End) -> Tried:
    """The pairs that the lassos of a subsample choose; a column that it has not seen has none."""
    S = _ended(rows, end).S
    weights = None if c.weights is None else c.weights[np.ix_(seen, seen)]
    return Tried(_spread(_lassos(S if c.raw else correlation(S), weights, penalty), seen))


def _penalised(rows: Rows, model: Penalised, seen: np.ndarray, end: End) -> Tried:
    """The pairs that the penalised bound chooses, and the bound without its penalty."""
    found = _ended(rows, end)
    theta = model.lasso(found.S, tol=PATH_GAP)
    bits = np.packbits(theta.Theta[np.triu_indices(len(theta.Theta), 1)] != 0)[None]
    return Tried(_spread(bits, seen), -found.F + 0.5 * float(rows.v.sum()) * theta.penalty)


def _lassos(S: np.ndarray, weights: np.ndarray | None, penalty: np.ndarray) -> Bits:
    L, upper = pair_penalties(1.0, weights, len(S)), np.triu_indices(len(S), 1)
    return np.array([np.packbits(found.Theta[upper] != 0) for found in lasso.path(S, L, penalty, PATH_GAP)])


def _spread(bits: Bits, seen: np.ndarray) -> Bits:
    """Pairs among the columns seen, as pairs among all columns."""
    if seen.all():
        return bits
    upper, k = np.triu_indices(len(seen), 1), int(seen.sum())
    out = np.zeros((len(bits), len(upper[0])), dtype=bool)
    out[:, seen[upper[0]] & seen[upper[1]]] = np.unpackbits(bits, axis=1, count=k * (k - 1) // 2)
    return np.packbits(out, axis=1)


def _count(bits: np.ndarray) -> int:
    return int(np.unpackbits(bits).sum())


def grid(S: np.ndarray, c: Choice) -> np.ndarray:
    """Penalties from the least that leaves no edge down to a share of it, even in their logarithms."""
    L = pair_penalties(1.0, c.weights, len(S))
    counts = np.isfinite(L) & (L > 0) & ~np.eye(len(S), dtype=bool)
    top = float((np.abs(S[counts]) / L[counts]).max(initial=0.0))
    return np.geomspace(max(top, 1e-12), max(top, 1e-12) * c.ratio, c.length)


# further stages


def _sums(rows: Rows) -> Sums:
    root = np.sqrt(rows.v)[:, None] * rows.X
    return Sums(float(rows.v.sum()), root.T @ root)


def _begin(sums: Sums, w: np.ndarray | None, single: bool) -> full.FullParams:
    """Params for a subsample, with the w of all rows."""
    assert sums.n_j is not None  # surveyed
    return full.begin(sums, np.zeros((len(sums.XvX), len(sums.n_j))), None, w, single)


def _joint_path(
    s: Settings, c: Choice, rows: Rows, sources: list[Any], penalty: np.ndarray, begin: tuple[Any, Any], of: str, seen: np.ndarray
) -> Generator[Stage, Kept, tuple[Bits, np.ndarray, Kept]]:
    """The penalised bound at each penalty, each from where the one before ended, the first from params and latents."""
    weights = None if c.weights is None else c.weights[np.ix_(seen, seen)]
    (start, latents), ends = begin, []
    for rho in penalty:
        model = Penalised(penalty=float(rho), weights=weights, raw=c.raw, tol=max(s.tol, ROUGH), sums=True)
        keep = partial(_penalised, rows, model, seen)
        kept = yield Stage(f"{of}penalty {rho:.3g}", model, sources, keep, s.max_iter, start, latents, rows="sum")
        ends.append(kept.value)
        if kept.cut:
            break
        start, latents = kept.params and restart(kept.params), kept.latents
    ends += [ends[-1]] * (len(penalty) - len(ends))  # of a path that was cut
    return np.vstack([end.bits for end in ends]), np.array([end.loglik for end in ends]), kept


def _bounds(
    s: Settings, c: Choice, rows: Rows, sources: list[Any], penalty: np.ndarray, kept: Kept
) -> Generator[Stage, Kept, tuple[np.ndarray, Bits, np.ndarray | None, Kept]]:
    """The lassos, and the bounds under them, which a criterion asks for; a path that was cut ends with more edges than columns."""
    found, p, sparse = kept.value.found, rows.Y.shape[1], None
    bits: list[np.ndarray] = []
    ends: list[float] = []
    for rho in penalty:
        if kept.cut and bits and _count(bits[-1]) > p:
            break
        sparse = _sparse(c, found.S, float(rho), None if sparse is None else sparse.Theta, PATH_GAP)
        bits.append(np.packbits(sparse.Theta[np.triu_indices(p, 1)] != 0))
        if kept.cut:
            continue
        start = full.begin(_sums(rows), found.B, _precision(sparse))
        name, model = f"penalty {rho:.3g}", Covariance("given", tol=max(s.tol, ROUGH))
        kept = yield Stage(name, model, sources, _bound, s.max_iter, start, kept.latents)
        ends.append(kept.value.loglik)
    return penalty[: len(bits)], np.array(bits), None if kept.cut else np.array(ends), kept


def _bound(end: End) -> Tried:
    return Tried(np.zeros((1, 0), dtype=np.uint8), -float(end.params.search.F))


def _subsamples(
    s: Settings,
    c: Choice,
    rows: Rows,
    sources: list[Any],
    w: np.ndarray | None,
    penalty: np.ndarray,
    seed: int,
    shard_rows: int | None,
) -> Generator[Stage, Kept, tuple[np.ndarray | None, int]]:
    """In how many of the subsamples each pair is chosen (L, pairs), and how many there are."""
    n, p = rows.Y.shape
    size, tol = min(int(10 * np.sqrt(n)), int(0.8 * n)), max(s.tol, ROUGH)
    times, drawn = np.zeros((len(penalty), p * (p - 1) // 2), dtype=np.uint16), 0
    for k in range(c.subsamples):
        name = f"subsample {k + 1} of {c.subsamples}"
        chosen = np.sort(np.random.default_rng([seed, k]).choice(n, size, replace=False))
        some = held(rows, sources, chosen)
        seen = some.v @ some.Y > 0
        if not seen.any():  # it joins no pairs
            drawn += 1
            continue
        O = some.O if some.O.shape[1] == 1 else some.O[:, seen]
        some = some._replace(Y=some.Y[:, seen], O=O, X=_independent(some.X))
        single, parts = not c.joint and _single(some), cut(some, shard_rows)
        start = partial(_begin, w=None if w is None else w[seen], single=single)
        if c.joint:
            bits, _, kept = yield from _joint_path(s, c, some, parts, penalty, (start, None), f"{name}, ", seen)
        else:
            model = Covariance("full", single=single, tol=max(tol, _tolerance(s, some)), sums=True)
            keep = partial(_picked, some, c, penalty, seen)
            kept = yield Stage(name, model, parts, keep, s.max_iter, start, rows="sum")
            bits = kept.value.bits
        if kept.cut:
            break
        times += np.unpackbits(bits, axis=1, count=times.shape[1])
        drawn += 1
    return (times, drawn) if drawn > 1 else (None, 0)


def _independent(X: np.ndarray) -> np.ndarray:
    """Columns with the same span: a subsample may lack a whole group."""
    q, r, _ = linalg.qr(X, mode="economic", pivoting=True)
    return q[:, np.abs(r.diagonal()) > 1e-9 * np.abs(r[0, 0])]


def _sparse(c: Choice, S: np.ndarray, rho: float, start: np.ndarray | None = None, tol: float = 1e-12) -> lasso.Solution:
    """The lasso of a covariance of rows, on their scale."""
    L, sd = pair_penalties(rho, c.weights, len(S)), np.ones(len(S)) if c.raw else np.sqrt(S.diagonal())
    scale = np.outer(sd, sd)
    found = lasso.solve(S / scale, L, None if start is None else start * scale, tol)
    return found._replace(Theta=found.Theta / scale, W=found.W * scale, logdet=found.logdet - 2 * float(np.log(sd).sum()))


def _precision(sparse: lasso.Solution) -> Precision:
    """With the zeros that an inverse of the covariance would lose to rounding."""
    return Precision(sparse.Theta, -sparse.logdet, sparse.Theta.diagonal().copy())


def _final(
    s: Settings, c: Choice, rows: Rows, sources: list[Any], found: Ended | None, rho: float
) -> Generator[Stage, Kept, tuple[lasso.Solution, Kept, Learned, float]]:
    """The fit at the chosen penalty, as if it had been given: its lasso, its end, the model and the bound."""
    name, keep = f"fit with penalty {rho:.3g}", partial(_ended, rows)
    sums = isinstance(rows.Y, Filed)
    home: Literal["sum"] | bool = "sum" if sums else True
    if c.joint:
        model = Penalised(penalty=rho, weights=c.weights, raw=c.raw, single=_single(rows), tol=s.tol, sums=sums)
        last = yield Stage(name, model, sources, keep, s.max_iter, rows=home)
        sparse = _sparse(c, last.value.S, rho)
        value = -last.value.F + 0.5 * float(rows.v.sum()) * sparse.penalty
    else:
        assert found is not None
        sparse = _sparse(c, found.S, rho)
        start, given = partial(full.begin, B=found.B, Sigma=_precision(sparse)), Covariance("given", tol=s.tol, sums=sums)
        last = yield Stage(name, given, sources, keep, s.max_iter, start, rows=home)
        value = -last.value.F
    learned = Learned(None, "variational", "network", last.value.B, sparse.W, None, None)
    return sparse, last, learned, value
