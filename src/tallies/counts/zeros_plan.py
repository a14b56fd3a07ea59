"""The stages of a fit with structural zeros: without inflation, to know whether it is needed, and to begin with; then with it."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Annotated, NamedTuple, cast

import numpy as np
from scipy.special import logit

from tallies.counts import inflated, rank
from tallies.counts.door import Prepared, cut
from tallies.counts.fitted import Fitted, Inflation, Learned, Likelihood, Zeros
from tallies.counts.inflated import Inflated, InflatedRows
from tallies.counts.inflated_rank import InflatedRank, ZeroPlace
from tallies.counts.plan import (
    CLOSE,
    LOOSE,
    Searched,
    Settings,
    axes_of,
    finished,
    joined,
    learned_of,
    merged,
    placing,
    search_of,
    searched,
)
from tallies.counts.records import Coefficients, PerColumn, Sums
from tallies.counts.tables import HIDDEN
from tallies.engine import End, Kept, Plan, Stage
from tallies.errors import one_of
from tallies.estimator import Run
from tallies.forms import Form

ROUNDS = 100  # most turns of the odds and all else of a PLN-PCA


class InflatedEnd(NamedTuple):
    """The end of a zero-inflated search."""

    rows: InflatedRows
    B: Coefficients
    Sigma: Annotated[np.ndarray, Form("p p")]
    pi: PerColumn
    G: Annotated[np.ndarray, Form("e p")] | None = None  # where covariates say which zeros are structural


class InflatedRankEnd(NamedTuple):
    """The end of a round of a zero-inflated PLN-PCA."""

    W: Annotated[np.ndarray, Form("p k")]
    rows: ZeroPlace


RECORDS = (InflatedEnd, InflatedRankEnd, ZeroPlace)  # what a checkpoint may hold


def checked(by: str | None, ranked: bool, sampled: bool) -> Inflation | None:
    """Whose zeros are inflated alike, of what a user asked for, or a sentence about what makes no sense."""
    formula = isinstance(by, str) and "~" in by
    if by is not None and not formula:
        one_of("zero_inflation", by, "global", "column", "row", more='a formula such as "~ site", None')
    if ranked and by not in ("global", "column", None):
        raise ValueError('with a rank zero_inflation must be "global" or "column"; fit the others with rank=None')
    if sampled and by is not None:
        raise ValueError('zero_inflation needs method="variational": importance sampling knows no structural zeros')
    return "formula" if formula else cast("Inflation | None", by)


def fit(settings: Settings, data: Prepared, seed: int, shard_rows: int | None) -> Plan:
    """The plan of a fit; returns its record."""
    return (_zero_inflated if settings.rank is None else _zero_inflated_rank)(settings, data, seed, shard_rows)


def _zero_inflated(settings: Settings, data: Prepared, seed: int, shard_rows: int | None) -> Generator[Stage, Kept, Fitted]:
    """Without inflation, to know whether it is needed, and to begin with; then with it."""
    by, live, v = settings.inflation, data.rows.v > 0, data.rows.v
    assert by is not None
    model, start = search_of(settings, data)
    first = yield Stage(
        "without inflation", model, data.sources, lambda end: searched(model, end, data), settings.max_iter, start, rows=True
    )
    plain: Searched = first.value
    assert plain.Sigma is not None
    every = data.rows if data.zeros is None else data.rows._replace(X=np.hstack([data.rows.X, data.zeros.T]))
    rows, d = every.take(live), len(plain.B)
    there = rows.O > HIDDEN
    pi = 0.5 * (rows.v @ ((rows.Y == 0) & there)) / np.maximum(rows.v @ there, 1e-300)  # half of the zeros, to begin with
    pi = np.full(len(pi), pi.mean()) if by == "global" else pi
    rootX, T = np.sqrt(rows.v)[:, None] * rows.X[:, :d], rows.X[:, d:]
    odds = np.tile(logit(np.clip(pi, 1e-3, 1 - 1e-3)), (len(T), 1))
    G = np.linalg.lstsq(T, odds, rcond=None)[0] if by == "formula" else None
    begun = inflated.begin(Sums(float(rows.v.sum()), rootX.T @ rootX), plain.B, plain.Sigma, pi, G, np.abs(T).max(axis=0))
    search, sources = Inflated(by, settings.kind, tol=LOOSE * settings.tol), cut(rows, shard_rows, plain.M)
    kept = yield Stage("zero inflation", search, sources, _inflated, settings.max_iter, begun, rows=True)
    found, B, Sigma, pi, G = kept.value
    pi = pi if by != "row" else np.full(len(pi), _mean(found.pi, rows.v))
    learned = Learned(None, "variational", settings.kind, B, Sigma, None, None, by, pi, G)
    whole = found
    if not live.all():
        others = every.take(~live)._replace(v=np.ones(int((~live).sum())))
        rest = (yield placing("rows without weight", learned, cut(others, shard_rows), CLOSE)).value
        both = {
            k: merged(live, *(np.asarray(getattr(part, k)).reshape(len(part.M), -1) for part in (found, rest)))
            for k in ("M", "S2", "rho", "pi", "rate")
        }
        whole = found._replace(**both | {"pi": both["pi"][:, 0]})
    likelihood = Likelihood(float(v[live] @ found.bound), bound=True)
    run = Run.of(kept, seed)
    fitted = finished(run, data, learned, (whole.M, whole.S2), likelihood, None)
    return fitted._replace(zeros=Zeros(whole.rho, whole.pi, whole.rate, -plain.F, data.zeros))


def _zero_inflated_rank(settings: Settings, data: Prepared, seed: int, shard_rows: int | None) -> Generator[Stage, Kept, Fitted]:
    """The same of a PLN-PCA: the odds of structural zeros and all else take turns."""
    by, live, q = settings.inflation, data.rows.v > 0, settings.rank
    assert q is not None
    model, start = search_of(settings, data)
    keep = lambda end: searched(model, end, data)  # noqa: E731
    first = yield Stage("without inflation", model, data.sources, keep, settings.max_iter, start, rows=True)
    plain: Searched = first.value
    rows = data.rows.take(live)
    there, rootX = rows.O > HIDDEN, np.sqrt(rows.v)[:, None] * rows.X
    sums, tol, before = Sums(float(rows.v.sum()), rootX.T @ rootX), LOOSE * settings.tol, -np.inf
    W, M, rho, kept = axes_of(plain), plain.M, 0.5 * ((rows.Y == 0) & there), first  # half of the zeros, to begin with
    for t in range(ROUNDS):
        share = rows.v @ rho, rows.v @ there
        pi = share[0] / np.maximum(share[1], 1e-300) if by == "column" else np.full(len(W), share[0].sum() / share[1].sum())
        pi = np.clip(pi, inflated.LEAST, 1 - inflated.LEAST)
        search, begun = InflatedRank(q, tol=tol, odds=logit(pi)), rank.begin(sums, W)
        name, sources = f"zero inflation, round {t + 1}", cut(rows, shard_rows, M)
        kept = yield Stage(name, search, sources, partial(_inflated_rank, search), settings.max_iter, begun, rows=True)
        W, found = kept.value
        M, rho, value = found.M, found.rho, float(rows.v @ found.bound)
        if kept.cut or value - before < tol * abs(value):
            break
        before = value
    d = rows.X.shape[1]
    learned = learned_of(settings, W[:, :d].T, W[:, d:], None)._replace(inflation=by, pi=pi)
    whole = found._replace(M=learned.turned(found.M))
    if not live.all():
        others = data.rows.take(~live)._replace(v=np.ones(int((~live).sum())))
        rest = (yield placing("rows without weight", learned, cut(others, shard_rows), CLOSE)).value
        rest = rest._replace(M=learned.turned(rest.M))
        whole = ZeroPlace(*(merged(live, *(part[k].reshape(len(part.M), -1) for part in (whole, rest))) for k in range(5)))
    fitted = finished(Run.of(kept, seed), data, learned, (whole.M, whole.S2), Likelihood(value, bound=True), None)
    return fitted._replace(zeros=Zeros(whole.rho, whole.rho.mean(axis=1), whole.rate, -plain.F))


def _inflated_rank(model: InflatedRank, end: End) -> InflatedRankEnd:
    return InflatedRankEnd(model.answer(end.params)[0], ZeroPlace(*joined(end.rows, *ZeroPlace._fields)))


def _mean(values: np.ndarray, v: np.ndarray) -> float:
    return float(v @ values / v.sum())


def _inflated(end: End) -> InflatedEnd:
    rows, params = InflatedRows(*joined(end.rows, *InflatedRows._fields)), inflated.ended(end.params)
    return InflatedEnd(rows, params.B, params.Sigma, params.pi, params.G)
