"""The stages of a mixture of PLNs: one PLN of all samples, whose latent means are grouped; short runs from several groupings; the
best of them to its end; and all of that for each number of components.

    BIC = -2 J + k log N,     ICL = BIC + 2 sum_i v_i H(tau_i),     k = free numbers, H the entropy of an assignment      (eq. 1)
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from functools import partial
from typing import Annotated, Literal, NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2

from tallies.counts import plan
from tallies.counts.door import Prepared, Rows, cut
from tallies.counts.filed import smallest
from tallies.counts.fitted import Design, Kind, Learned, Likelihood, Training
from tallies.counts.full import Covariance
from tallies.counts.mixture import model as mixed
from tallies.counts.mixture.model import Mixed, MixedParams, MixedRows, uncertainty
from tallies.engine import End, Kept, Stage
from tallies.estimator import Inputs, Run
from tallies.forms import Form

ROUGH = 1e-6  # stopping rule of the one PLN, which only says where samples lie
TRIED = 4  # assignments of a short run
DISTINCT = 0.02  # least share of rows by which two groupings differ

Rule = Literal["icl", "bic"]


class Choice(NamedTuple):
    """The hyperparameters of a mixture, checked."""

    numbers: tuple[int, ...]  # of components, rising
    kind: Kind
    rule: Rule
    n_starts: int
    max_iter: int
    tol: float


class Grouped(NamedTuple):
    """The end of the one PLN."""

    B: Annotated[np.ndarray, Form("d p")]
    M: Annotated[np.ndarray, Form("n p")]


class Mixture(NamedTuple):
    """The end of a run."""

    B: Annotated[np.ndarray, Form("K d p")]
    Sigma: Annotated[np.ndarray, Form("K p p")]
    share: Annotated[np.ndarray, Form("K", low=0, high=1)]
    rows: MixedRows
    loglik: float
    lost: Annotated[int, Form(kind="i", low=0)]  # components that were given up


class Short(NamedTuple):
    """The end of a short run."""

    loglik: float


class Tried(NamedTuple):
    """The numbers of components that were tried."""

    number: Annotated[np.ndarray, Form("m", "i", 1)]  # that were left
    loglik: Annotated[np.ndarray, Form("m")]
    parameters: Annotated[np.ndarray, Form("m", "i", 0)]
    uncertainty: Annotated[np.ndarray, Form("m", low=0)]  # entropies of the assignments
    converged: Annotated[np.ndarray, Form("m", "b")]
    rule: Rule

    def criteria(self, N: float) -> tuple[np.ndarray, np.ndarray]:
        """BIC and ICL of eq. 1."""
        bic = -2 * self.loglik + self.parameters * np.log(N)
        return bic, bic + 2 * self.uncertainty


class FittedMixture(NamedTuple):
    """All that a fit gives."""

    run: Run
    inputs: Inputs
    models: tuple[Learned, ...]  # the components, the largest first
    share: Annotated[np.ndarray, Form("K", low=0, high=1)]
    tau: Annotated[np.ndarray, Form("n K", low=0, high=1)]
    latent_mean: Annotated[np.ndarray, Form("n p")]  # of Z, over the components
    latent_variance: Annotated[np.ndarray, Form("n p", low=0)]
    likelihood: Likelihood
    design: Design
    data: Training
    tried: Tried
    lost: Annotated[int, Form(kind="i", low=0)]  # components that were given up

    def check(self) -> None:
        """Refuse parts of different models."""
        n, p = self.latent_mean.shape
        shapes = {(model.B.shape, model.covariance.shape) for model in self.models}
        if shapes != {((self.design.X.shape[1], p), (p, p))} or len(self.models) != len(self.share):
            raise ValueError(f"components of shapes {shapes} do not go with {len(self.share)} shares and {p} columns")
        if (self.inputs.n, self.data.counts.shape, len(self.design.X)) != (p, (n, p), n):
            raise ValueError(f"columns, counts and design do not go with latents of shape {(n, p)}")

    @property
    def columns(self) -> np.ndarray:
        """Names of the columns of counts."""
        return self.inputs.named("y")


RECORDS = (Grouped, Mixture, Short, Tried, FittedMixture, MixedRows, *mixed.RECORDS)


def free_numbers(K: int, kind: Kind, d: int, p: int) -> int:
    """Of K components.

    >>> free_numbers(2, "full", 1, 3), free_numbers(2, "diagonal", 1, 3)
    (19, 13)
    """
    spread = {"full": p * (p + 1) // 2, "diagonal": p, "spherical": 1}[kind]
    return K * (d * p + spread) + K - 1


def fit(c: Choice, data: Prepared, seed: int, shard_rows: int | None) -> Generator[Stage, Kept, FittedMixture]:
    """The plan; returns the fitted record."""
    live = data.rows.take(data.rows.v > 0)
    start = Covariance(c.kind, single=len(live.X) * live.Y.shape[1] > plan.SINGLE, tol=max(c.tol, ROUGH))
    kept = yield Stage("one component", start, data.sources, partial(_grouped, live), c.max_iter, rows=True)
    grouped: Grouped = kept.value
    sources, found = cut(live, shard_rows, grouped.M), []
    for K in c.numbers:
        centres = yield from _best_start(c, K, live, sources, grouped, seed)
        begin = partial(mixed.begin, centres=centres, B=grouped.B)
        name = f"{K} components" if K > 1 else "one component alone"
        kept = yield Stage(name, Mixed(c.kind, tol=c.tol), sources, _ended, c.max_iter, begin, rows=True)
        found.append(kept)
        if kept.cut:
            break
    if kept.cut and len(found) > 1:  # the numbers that are complete are enough
        found.pop()
    tried = _tried(c, found, live)
    criterion = tried.criteria(float(live.v.sum()))[int(c.rule == "icl")]
    return (yield from _finished(c, found[int(np.argmin(criterion))], tried, data, seed, shard_rows))


def _best_start(c: Choice, K: int, rows: Rows, sources: list, grouped: Grouped, seed: int) -> Generator[Stage, Kept, np.ndarray]:
    """Centres of the grouping from which a short run comes furthest."""
    several, best = groupings(grouped.M - rows.X @ grouped.B, rows.v, K, c.n_starts, seed), None
    if len(several) == 1:
        return several[0]
    for s, centres in enumerate(several):
        begin = partial(mixed.begin, centres=centres, B=grouped.B)
        name, model = f"{K} components, start {s + 1} of {len(several)}", Mixed(c.kind, rounds=TRIED, tol=c.tol)
        kept = yield Stage(name, model, sources, _short, c.max_iter, begin)
        if best is None or kept.value.loglik > best[0]:
            best = kept.value.loglik, centres
        if kept.cut:
            break
    assert best is not None
    return best[1]


def groupings(R: np.ndarray, v: np.ndarray, K: int, n_starts: int, seed: int) -> list[np.ndarray]:
    """Centres (K, p) of rows by k-means from several seeds, those that differ; rows in any order give the same."""
    if K == 1:
        return [(v @ R / v.sum())[None]]
    order = np.lexsort(R.T[:3])  # so that the order of the rows has no part in what is drawn
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for s in range(n_starts):
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):
            warnings.filterwarnings("ignore", "One of the clusters is empty")  # such a grouping is passed over
            centres, label = kmeans2(R[order], K, iter=30, minit="++", rng=np.random.default_rng([seed, K, s]))
        share = np.bincount(label, minlength=K)
        if (share == 0).any():
            continue
        if all(_moved(label, other) > DISTINCT for _, other in found):
            found.append((centres[np.argsort(-share, kind="stable")], label))
    return [centres for centres, _ in found] or [R[order[np.linspace(0, len(R) - 1, K).astype(int)]]]


def _moved(a: np.ndarray, b: np.ndarray) -> float:
    """Share of the rows that two groupings of the same number of groups place differently."""
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)
    return 1 - table[linear_sum_assignment(-table)].sum() / len(a)


# what stages keep


def _grouped(rows: Rows, end: End) -> Grouped:
    M, S2 = (np.concatenate([getattr(part, k) for part in end.rows]) for k in ("M", "S2"))
    return Grouped(plan.moments(M, S2, rows.X, rows.v)[0], M)


def _short(end: End) -> Short:
    path = end.params.path
    return Short(float(path[-1]) if path else -np.finfo(float).max)


def _ended(end: End) -> Mixture:
    params: MixedParams = end.params
    order = [k for k in np.argsort(-params.share, kind="stable") if params.share[k] > 0]
    points = [params.parts[k].point for k in order]
    Sigma = [_covariance(point.Omega if point.Omega.size else point.omega) for point in points]
    parts = {k: np.concatenate([getattr(part, k) for part in end.rows]) for k in MixedRows._fields}
    rows = MixedRows(**parts | {"tau": np.ascontiguousarray(parts["tau"][:, order])})
    value = params.path[-1] if params.path else float(rows.bound.sum())
    return Mixture(
        np.stack([p.B for p in points]), np.stack(Sigma), params.share[order], rows, value, len(params.share) - len(order)
    )


def _covariance(Omega: np.ndarray) -> np.ndarray:
    return np.linalg.inv(Omega) if Omega.ndim == 2 else np.diag(1.0 / Omega)


def _tried(c: Choice, found: list[Kept], rows: Rows) -> Tried:
    d, p = rows.X.shape[1], rows.Y.shape[1]
    ends: list[Mixture] = [kept.value for kept in found]
    numbers = np.array([len(end.share) for end in ends])
    return Tried(
        numbers,
        np.array([float(rows.v @ end.rows.bound) for end in ends]),
        np.array([free_numbers(int(K), c.kind, d, p) for K in numbers]),
        np.array([max(uncertainty(end.rows.tau, rows.v), 0.0) for end in ends]),
        np.array([kept.stopped == "converged" for kept in found]),
        c.rule,
    )


def _finished(
    c: Choice, kept: Kept, tried: Tried, data: Prepared, seed: int, shard_rows: int | None
) -> Generator[Stage, Kept, FittedMixture]:
    """The record of the chosen number; rows that have no weight are placed by it."""
    end: Mixture = kept.value
    found = zip(end.B, end.Sigma, strict=True)
    models = tuple(Learned(None, "variational", c.kind, B, Sigma, None, None) for B, Sigma in found)
    Y, O, _, v = data.rows
    live, rows, loglik = v > 0, end.rows, float(v[v > 0] @ end.rows.bound)
    if not live.all():
        others, places = data.rows.take(~live)._replace(v=np.ones(int((~live).sum()))), []
        for k, model in enumerate(models):
            placed = yield plan.placing(f"rows without weight, component {k + 1}", model, cut(others, shard_rows), plan.CLOSE)
            places.append(placed.value)
        tau, M, S2 = mean_place(places, end.share)
        rest = {"tau": tau, "M": M, "S2": S2}
        rows = rows._replace(**{k: plan.merged(live, getattr(rows, k), rest[k]) for k in rest})
    run = Run.of(kept, seed)
    run = run._replace(history=run.history[np.diff(run.history, prepend=np.nan) != 0])
    even = bool((O[:, :1] == O).all())
    training = Training(smallest(Y), O[:, :1].copy() if even else O, v, data.rule, data.samples)
    likelihood = Likelihood(loglik, bound=True)
    parts = models, end.share, rows.tau, rows.M, rows.S2, likelihood, data.design, training, tried, end.lost
    return FittedMixture(run, data.inputs, *parts)


def mean_place(places: list, share: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """tau, means and variances of rows over the components, from their places in each."""
    J = np.stack([place.bound for place in places], axis=1) + np.log(share)
    tau = np.exp(J - J.max(axis=1, keepdims=True))
    tau /= tau.sum(axis=1, keepdims=True)
    M = np.einsum("nk,knj->nj", tau, np.stack([place.M for place in places]))
    second = np.einsum("nk,knj->nj", tau, np.stack([place.S2 + place.M**2 for place in places]))
    return tau, M, np.maximum(second - M * M, 1e-300)
