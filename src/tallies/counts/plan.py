"""The stages of a PLN fit, and those that place or weigh new rows under a fitted model.

variational    one search; rows that have no weight are placed afterwards, by the model that the others gave
importance     variational start -> importance sampling -> log likelihood of its start and its end, of which the better is kept
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import pairwise, starmap
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from scipy.special import logit

from tallies.backends import carry_out, each
from tallies.counts import full, importance, inflated, rank
from tallies.counts.door import Prepared, Rows, cut
from tallies.counts.evidence import Candidates, Estimate, Evidence, RowEvidence, positions
from tallies.counts.filed import smallest
from tallies.counts.fitted import Fitted, Inflation, Kind, Learned, Likelihood, Method, Training, orient
from tallies.counts.full import Covariance
from tallies.counts.importance import Epochs, Importance, Sampling, SamplingLatents, SamplingParams, SamplingTally
from tallies.counts.inflated import Inflated, InflatedRows
from tallies.counts.inflated_rank import InflatedRank, ZeroPlace
from tallies.counts.rank import Rank
from tallies.counts.records import Coefficients, Latent, PerColumn, Place, Spread, Sums, Variance
from tallies.engine import End, Kept, Plan, Stage
from tallies.errors import DataError, at_least, one_of
from tallies.estimator import Run
from tallies.forms import Form
from tallies.lbfgs import Direction, Pairs, Search
from tallies.maths import pointer
from tallies.sums import total

SINGLE = 10_000  # counts from which a fit begins in single precision: those whose loops are compiled
FINAL_DRAWS = 1000  # of the log likelihood after a fit by importance sampling
PLACING = 5000  # most sweeps to place rows under a fitted model
CRUDE = 6  # sweeps of a start that need not be good
LOOSE = 50  # the stopping rule of PLN-PCA looks at ten steps, not five, and at a flatter bound; that of inflated zeros at two
NEAR, CLOSE = 1e-9, 1e-11  # part of the bound that ends the placing of rows: their scores, and where their bound is asked for


class Settings(NamedTuple):
    """The hyperparameters of a fit, checked."""

    rank: int | None
    kind: Kind
    Sigma: np.ndarray | None  # of kind "given"
    sampling: Importance | None  # None: variational
    n_starts: int
    max_iter: int
    tol: float
    inflation: Inflation | None = None  # of zeros


class Searched(NamedTuple):
    """The end of a variational search."""

    B: Coefficients
    C: Annotated[np.ndarray, Form("p q")] | None  # where there is a rank
    Sigma: Annotated[np.ndarray, Form("p p")] | None  # where there is none
    M: Latent | None  # None where they were more than is held
    S2: Variance | None
    w: PerColumn | None  # of `full`
    F: float
    met: bool  # the stopping rule is met
    entropy: float | None = None  # of the rows, where they are not there


class Weighed(NamedTuple):
    """Rows under the likelier of two models."""

    W: Annotated[np.ndarray, Form("p k")]  # [B', C] of it
    found: Evidence
    place: Place | None  # where asked for
    lost: Annotated[float, Form(low=0)] | None = None  # nats of the last candidate below the chosen one


SAMPLERS = (Importance, Epochs, SamplingParams, SamplingLatents, SamplingTally, Candidates, Evidence, RowEvidence)
SEARCHES = (Direction, Pairs, Search, Sums, *full.RECORDS, *rank.RECORDS)
RECORDS = (
    Searched,
    Place,
    Weighed,
    *SEARCHES,
    *SAMPLERS,
    *inflated.RECORDS,
)  # what a checkpoint, or a hyperparameter, may hold


def fit(settings: Settings, data: Prepared, seed: int, shard_rows: int | None) -> Plan:
    """The plan of a fit; returns its record."""
    return (_variational if settings.sampling is None else _sampled)(settings, data, seed, shard_rows)


def _variational(settings: Settings, data: Prepared, seed: int, shard_rows: int | None) -> Generator[Stage, Kept, Fitted]:
    model, start = search_of(settings, data)
    rows: Literal["sum"] | bool = "sum" if isinstance(model, Covariance) and model.sums else True
    kept = yield Stage("", model, data.sources, lambda end: searched(model, end, data), settings.max_iter, start, rows=rows)
    found: Searched = kept.value
    learned = learned_of(settings, found.B, found.C, found.Sigma)
    latent = yield from with_unweighted(learned, data, found.M, found.S2, shard_rows)
    likelihood = Likelihood(-found.F, bound=True)
    return finished(searched_run(kept, seed), data, learned, latent, likelihood, found.w, found.entropy)


def searched_run(kept: Kept, seed: int) -> Run:
    """How a variational search went: one value a step, where a sweep that tried a shorter one has none of its own."""
    run = Run.of(kept, seed)
    steps = run.history[np.diff(run.history, prepend=np.nan) != 0]  # NaN differs from all
    return run._replace(history=steps, converged=run.converged and kept.value.met)


def with_unweighted(
    learned: Learned, data: Prepared, M: np.ndarray | None, S2: np.ndarray | None, shard_rows: int | None
) -> Generator[Stage, Kept, tuple[np.ndarray | None, np.ndarray | None]]:
    """Means and variances of all rows: those that have no weight are placed by the model that the others gave."""
    if M is None or S2 is None:
        return None, None
    M, live = learned.turned(M), data.rows.v > 0
    if not live.all():
        others = data.rows.take(~live)._replace(v=np.ones(int((~live).sum())))
        rest = yield placing("rows without weight", learned, cut(others, shard_rows), NEAR)
        M, S2 = merged(live, M, learned.turned(rest.value.M)), merged(live, S2, rest.value.S2)
    return M, S2


def _sampled(settings: Settings, data: Prepared, seed: int, shard_rows: int | None) -> Generator[Stage, Kept, Fitted]:
    options, W, live = settings.sampling, data.W, data.rows.v > 0
    assert options is not None
    good = options.good_init or W is not None
    if W is None:
        model, _ = search_of(settings, data)
        most = settings.max_iter if options.good_init else CRUDE
        start = yield Stage(
            "variational start", model, data.sources, lambda end: axes_of(searched(model, end, data)), most, rows=True
        )
        W = start.value
    sampler = Sampling(options, W.shape[1] - data.rows.X.shape[1], good)
    rows = int(live.sum())
    first = importance.begin(W, rows, rows if options.optimizer == "rprop" else options.batch_size, seed)
    most = min(settings.max_iter, options.max_epochs * len(first.sizes))
    kept = yield Stage("importance sampling", sampler, data.sources, lambda end: sampler.answer(end.params), most, start=first)
    # from a start that is nearly the best, the noise of the gradients may cost more than the steps gain
    both = Candidates(np.stack([W, kept.value]))
    judge = Estimate(FINAL_DRAWS, place="scores" if settings.rank is not None else "whole")
    sources = data.sources if live.all() else cut(data.rows, shard_rows)
    last = yield Stage("log likelihood", judge, sources, _weighed, 1, start=both, rows=True)
    W, found, place, lost = last.value
    v, d = data.rows.v, data.rows.X.shape[1]
    B, C = W[:, :d].T, W[:, d:]
    learned = learned_of(settings, B, C, C @ C.T)
    likelihood = Likelihood(float(v @ found.rows), False, float(np.sqrt(v**2 @ found.rows_stderr**2)), found.ess, lost)
    run = Run.of(kept, seed)
    return finished(run._replace(converged=run.converged and not likelihood.fell), data, learned, place[:2], likelihood, None)


def search_of(settings: Settings, data: Prepared) -> tuple[Covariance | Rank, Any]:
    """The variational search, and where it begins: None for its own start."""
    rows = data.rows.take(data.rows.v > 0)
    X, p = rows.X, rows.Y.shape[1]
    rootX = np.sqrt(rows.v)[:, None] * X
    sums = Sums(float(rows.v.sum()), rootX.T @ rootX, rootX if len(X) < p else None)
    if settings.rank is not None:
        model = Rank(settings.rank, settings.n_starts, tol=LOOSE * settings.tol)
        return model, None if data.W is None else rank.begin(sums, data.W)
    single = len(X) * p > SINGLE
    search = Covariance(settings.kind, settings.Sigma, single=single, tol=settings.tol, sums=data.beyond is not None)
    if data.w is None:
        return search, None
    return search, full.begin(sums, np.zeros((X.shape[1], p)), None, data.w, single)


def searched(model: Covariance | Rank, end: End, data: Prepared) -> Searched:
    """The end of a search, with its rows, or with what their sum tells of them."""
    search = end.params.search
    F, met, rows = float(search.F), search.ended == "met", data.rows.take(data.rows.v > 0)
    if isinstance(model, Rank):
        W, F = model.answer(end.params)
        if not np.isfinite(F):  # cut before the first step
            F = -float(rows.v @ np.concatenate([part.bound for part in end.rows]))
        d = W.shape[1] - model.q
        M, S2 = joined(end.rows, "M", "S2")
        return Searched(W[:, :d].T, W[:, d:], None, M, S2, None, F, met)
    w, spread = end.params.w if model.kind != "given" else None, spread_of(end, rows)
    B, Sigma = spread.maximum(end.params.point.B)
    if model.sums:
        return Searched(B, None, of_kind(model, Sigma), None, None, w, F, met, spread.entropy)
    M, S2 = joined(end.rows, "M", "S2")
    return Searched(B, None, of_kind(model, Sigma), M, S2, w, F, met)


def spread_of(end: End, rows: Rows) -> Spread:
    """What the maximum of the bound is made of, about the coefficients where a search of `full` ended."""
    if isinstance(end.rows[0], Spread):
        return end.rows[0]
    first, cuts = end.params.point.B, starmap(slice, pairwise(pointer([len(part.M) for part in end.rows])))
    spreads = (Spread.of(part.M, part.S2, rows.X[b], rows.v[b], first) for part, b in zip(end.rows, cuts, strict=True))
    return total(spreads)  # one at a time, as large as the covariance: threads would wait for memory


def of_kind(settings: Settings | Covariance, Sigma: np.ndarray) -> np.ndarray:
    """The covariance that the settings ask for, by that of the rows."""
    if settings.kind == "given":
        assert settings.Sigma is not None
        return settings.Sigma
    if settings.kind == "full":
        return Sigma
    spread = Sigma.diagonal()
    return np.diag(spread if settings.kind == "diagonal" else np.full(len(spread), spread.mean()))


def axes_of(found: Searched) -> np.ndarray:
    """[B', C] where importance sampling begins: at full rank with a root of Sigma."""
    C = found.C
    if C is None:
        assert found.Sigma is not None
        C = np.linalg.cholesky(found.Sigma)
    return np.hstack([found.B.T, C])


def learned_of(settings: Settings, B: np.ndarray, C: np.ndarray | None, Sigma: np.ndarray | None) -> Learned:
    method: Method = "variational" if settings.sampling is None else "importance"
    if settings.rank is None:
        return Learned(None, method, settings.kind, B, Sigma, None, None)
    assert C is not None
    C, rotation = orient(C)
    if method == "importance":  # whose rows are placed on the axes of C
        rotation = np.eye(settings.rank)
    return Learned(settings.rank, method, settings.kind, B.copy(), None, C, rotation)


def finished(
    run: Run,
    data: Prepared,
    learned: Learned,
    latent: tuple[Any, Any],
    likelihood: Likelihood,
    w: np.ndarray | None,
    entropy: float | None = None,
) -> Fitted:
    """The record; `entropy` is that of latents that are not there."""
    Y, O, _, v = data.rows
    even = bool((O[:, :1] == O).all())
    finite = all(np.isfinite(part).all() for part in (likelihood.value, learned.B, learned.covariance, *latent) if part is not None)
    run = run._replace(converged=run.converged and finite)
    kept = smallest(Y) if data.beyond is None else None
    beyond = data.beyond if data.beyond is None else data.beyond._replace(entropy=entropy)
    training = Training(kept, O[:, :1].copy() if even else O, v, data.rule, data.samples, beyond=beyond)
    return Fitted(run, data.inputs, learned, *latent, likelihood, data.design, training, w)


def merged(live: np.ndarray, some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Rows with a weight and those without, in their places."""
    out = np.empty((len(live), some.shape[1]))
    out[live], out[~live] = some, others
    return out


# rows under a fitted model


def placing(name: str, model: Learned, sources: list[Any], tol: float, bounds: bool = False) -> Stage:
    """The stage that places rows by the bound; of a covariance it may bring home the `bounds` alone."""
    d = len(model.B)
    sums = Sums(float(sum(getattr(source, "shard", source).v.sum() for source in sources)), np.zeros((d, d)))
    if model.inflation is not None:
        return _placing_inflated(name, model, sources, tol, sums)
    if model.rank is not None:
        return Stage(name, Rank(model.rank, tol=tol, placing=True), sources, _placed, PLACING, rank.begin(sums, model.W), rows=True)
    search = Covariance("given", placing=True, tol=CLOSE, sums=bounds)
    return Stage(name, search, sources, _placed, PLACING, full.begin(sums, model.B, model.Sigma), rows=True)


def _placing_inflated(name: str, model: Learned, sources: list[Any], tol: float, sums: Sums) -> Stage:
    """The same where zeros are inflated."""
    assert model.inflation is not None
    assert model.pi is not None
    if model.rank is not None:
        rows = InflatedRank(model.rank, tol=tol, placing=True, odds=logit(model.pi))
        keep = lambda end: ZeroPlace(*joined(end.rows, *ZeroPlace._fields))  # noqa: E731
        return Stage(name, rows, sources, keep, PLACING, rank.begin(sums, model.W), rows=True)
    search = Inflated(model.inflation, "given", tol=tol, placing=True)
    begun = inflated.begin(sums, model.B, model.covariance, model.pi, model.G)
    return Stage(name, search, sources, _placed_inflated, PLACING, begun, rows=True)


def joined(parts: Iterable[Any], *names: str) -> list[np.ndarray]:
    """Arrays of the rows of all shards."""
    return [np.concatenate([getattr(part, k) for part in parts]) for k in names]


def _placed(end: End) -> Place:
    return Place(*joined(end.rows, "M", "S2", "bound"))


def _placed_inflated(end: End) -> InflatedRows:
    return InflatedRows(*joined(end.rows, *InflatedRows._fields))


def _weighed(end: End) -> Weighed:
    found, places = zip(*end.rows, strict=True)
    place = None if places[0] is None else Place(*joined(places, "M", "S2"))
    W, chosen, loglik = end.params
    lost = None if chosen in (-1, len(W) - 1) else float(loglik[chosen] - loglik[-1])
    return Weighed(W[chosen], Evidence.of(*joined(found, "rows", "rows_stderr", "ess")), place, lost)


def project(model: Learned, rows: Rows, shard_rows: int | None, close: bool = False) -> Place:
    """Latent means of rows, their variances on the axes of the solver, and their bounds where there is one, on the chosen backend.

    `close` brings the rows of a PLN-PCA nearer to their best than a projection needs.
    """
    sources = cut(rows, shard_rows)
    if model.method == "importance":
        return Place(*joined(each(positions, sources, model.B, model.components, model.rank is None), "M", "S2"))
    found = carry_out(placing("", model, sources, CLOSE if close else NEAR))
    return Place(model.turned(found.M), found.S2, found.bound)


def project_inflated(model: Learned, rows: Rows, shard_rows: int | None) -> InflatedRows | ZeroPlace:
    """The same where zeros are inflated, with what became of these."""
    found = carry_out(placing("", model, cut(rows, shard_rows), NEAR))
    return found._replace(M=model.turned(found.M))


def estimate(
    model: Learned, rows: Rows, shard_rows: int | None, n_draws: int = 1000, proposal: str = "auto", seed: int = 0
) -> Evidence:
    """log p(Y_i) of rows by importance sampling, on the chosen backend."""
    at_least(2, n_draws=n_draws)
    one_of("proposal", proposal, "auto", "gaussian", "sequential")
    if proposal == "sequential" and model.rank is not None and model.rank < len(model.W):
        raise DataError('proposal="sequential" needs a covariance that has an inverse; take "gaussian", or fit with rank=None')
    stage = Stage("", Estimate(n_draws, proposal), cut(rows, shard_rows), _weighed, 1, start=Candidates(model.W[None]), rows=True)
    return carry_out(stage, seed).found
