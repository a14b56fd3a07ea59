"""The stages of a mixture of PLNs: one PLN of all samples, whose latent means are grouped; short runs from several groupings; the
best of them to its end; and all of that for each number of components.

    BIC = -2 J + k log N,     ICL = BIC + 2 sum_i v_i H(tau_i),     k = free numbers, H the entropy of an assignment      (eq. 1)
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Annotated, Literal, NamedTuple

import numpy as np

from tallies.counts import plan
from tallies.counts.door import Prepared, Rows, cut
from tallies.counts.filed import smallest
from tallies.counts.fitted import Design, Kind, Learned, Likelihood, Training
from tallies.counts.mixture import model as mixed
from tallies.counts.mixture import start
from tallies.counts.mixture.model import Mixed, MixedParams, MixedRows, uncertainty
from tallies.counts.mixture.start import Located, groupings, share_of
from tallies.engine import End, Kept, Stage
from tallies.estimator import Inputs, Run
from tallies.forms import Form

ROUGH = 1e-6  # stopping rule of the one PLN, which only says where samples lie
TRIED = 4  # assignments of a short run

Rule = Literal["icl", "bic"]


class Choice(NamedTuple):
    """The hyperparameters of a mixture, checked."""

    numbers: tuple[int, ...]  # of components, rising
    kind: Kind
    rule: Rule
    n_starts: int
    max_iter: int
    tol: float


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
    latent_mean: Annotated[np.ndarray, Form("n p")] | None  # of Z, over the components; None where the counts stayed in files
    latent_variance: Annotated[np.ndarray, Form("n p", low=0)] | None
    likelihood: Likelihood
    design: Design
    data: Training
    tried: Tried
    lost: Annotated[int, Form(kind="i", low=0)]  # components that were given up

    def check(self) -> None:
        """Refuse parts of different models."""
        n, p = len(self.tau), self.inputs.n
        shapes = {(model.B.shape, model.covariance.shape) for model in self.models}
        if shapes != {((self.design.X.shape[1], p), (p, p))} or len(self.models) != len(self.share):
            raise ValueError(f"components of shapes {shapes} do not go with {len(self.share)} shares and {p} columns")
        there = [part for part in (self.data.Y, self.latent_mean, self.latent_variance) if part is not None]
        if any(part.shape != (n, p) for part in there) or len(self.design.X) != n or len(self.data.v) != n:
            raise ValueError(f"counts, latents and design do not go with probabilities of {n} rows and {p} columns")
        if len(there) != 3 * (self.data.beyond is None):
            raise ValueError("counts, or what is kept of them, or their latents are missing")

    @property
    def known_latents(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the latents."""
        if self.latent_mean is None or self.latent_variance is None:
            raise AttributeError(
                "the latents of all rows, a number for each count, were more than is held in memory; transform(counts) gives those "
                "of some rows"
            )
        return self.latent_mean, self.latent_variance

    @property
    def columns(self) -> np.ndarray:
        """Names of the columns of counts."""
        return self.inputs.named("y")


RECORDS = (Mixture, Short, Tried, FittedMixture, MixedRows, *start.RECORDS, *mixed.RECORDS)


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
    one = Located(c.kind, single=live.Y.shape[0] * live.Y.shape[1] > plan.SINGLE, tol=max(c.tol, ROUGH), share=share_of(live))
    kept = yield Stage("one component", one, data.sources, start.grouped, c.max_iter, rows=True)
    of, found = kept.value, []
    R, v = of.M - live.X[of.at] @ of.B, live.v[of.at]
    several = {K: groupings(R, v, K, c.n_starts, seed) for K in c.numbers}
    codes = yield from start.groups(of, [centres for these in several.values() for centres in these], data.sources, kept)
    sources, first, bare = cut(live, shard_rows, groups=codes), 0, data.beyond is not None
    for K, these in several.items():
        best = yield from _best_start(c, K, sources, range(first, first + len(these)))
        name, model = f"{K} components" if K > 1 else "one component alone", Mixed(c.kind, best, tol=c.tol, bare=bare)
        kept = yield Stage(name, model, sources, _ended, c.max_iter, partial(mixed.begin, K=K), rows=True)
        found.append(kept)
        first += len(these)
        if kept.cut:
            break
    if kept.cut and len(found) > 1:  # the numbers that are complete are enough
        found.pop()
    tried = _tried(c, found, live)
    criterion = tried.criteria(float(live.v.sum()))[int(c.rule == "icl")]
    return (yield from _finished(c, found[int(np.argmin(criterion))], tried, data, seed, shard_rows))


def _best_start(c: Choice, K: int, sources: list, several: range) -> Generator[Stage, Kept, int]:
    """The grouping from which a short run comes furthest."""
    if len(several) == 1:
        return several[0]
    best = -np.inf, several[0]
    for s, grouping in enumerate(several):
        name, model = f"{K} components, start {s + 1} of {len(several)}", Mixed(c.kind, grouping=grouping, rounds=TRIED, tol=c.tol)
        kept = yield Stage(name, model, sources, _short, c.max_iter, partial(mixed.begin, K=K))
        if kept.value.loglik > best[0]:
            best = kept.value.loglik, grouping
        if kept.cut:
            break
    return best[1]


# what stages keep


def _short(end: End) -> Short:
    path = end.params.path
    return Short(float(path[-1]) if path else -np.finfo(float).max)


def _ended(end: End) -> Mixture:
    params: MixedParams = end.params
    order = [k for k in np.argsort(-params.share, kind="stable") if params.share[k] > 0]
    points = [params.parts[k].point for k in order]
    Sigma = [_covariance(point.Omega if point.Omega.size else point.omega) for point in points]
    parts = plan.joined(end.rows, *(k for k in MixedRows._fields if getattr(end.rows[0], k) is not None))
    rows = MixedRows(*parts)._replace(tau=np.ascontiguousarray(parts[0][:, order]))
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
            name = f"rows without weight, component {k + 1}"
            placed = yield plan.placing(name, model, cut(others, shard_rows), plan.CLOSE, data.beyond is not None)
            places.append(placed.value)
        rest = {"tau": probabilities(places, end.share)}
        if rows.M is not None:
            rest |= dict(zip(("M", "S2"), mean_place(places, rest["tau"]), strict=True))
        rows = rows._replace(**{k: plan.merged(live, getattr(rows, k), rest[k]) for k in rest})
    run = Run.of(kept, seed)
    run = run._replace(history=run.history[np.diff(run.history, prepend=np.nan) != 0])
    even = bool((O[:, :1] == O).all())
    kept_of = smallest(Y) if data.beyond is None else None
    training = Training(kept_of, O[:, :1].copy() if even else O, v, data.rule, data.samples, beyond=data.beyond)
    likelihood = Likelihood(loglik, bound=True)
    parts = models, end.share, rows.tau, rows.M, rows.S2, likelihood, data.design, training, tried, end.lost
    return FittedMixture(run, data.inputs, *parts)


def probabilities(places: list, share: np.ndarray) -> np.ndarray:
    """tau of rows, from their bounds in each component."""
    J = np.stack([place.bound for place in places], axis=1) + np.log(share)
    tau = np.exp(J - J.max(axis=1, keepdims=True))
    return np.asarray(tau / tau.sum(axis=1, keepdims=True))


def mean_place(places: list, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of rows over the components, from their places in each."""
    M = np.einsum("nk,knj->nj", tau, np.stack([place.M for place in places]))
    second = np.einsum("nk,knj->nj", tau, np.stack([place.S2 + place.M**2 for place in places]))
    return M, np.maximum(second - M * M, 1e-300)
