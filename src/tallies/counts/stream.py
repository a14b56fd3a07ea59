"""Rows of counts that come once, batch by batch: a batch is fitted given what the earlier ones have left.

B and Sigma of a PLN are the maximum of its bound given the rows, and follow from moments that add (`records.Moments`). So a batch
is fitted by the search of `full`, to whose sums the moments of the earlier rows are added as they were left, faded:

    t <- (1 - rho) t + rho s t_batch,  in units of rho s:  t <- faded t + t_batch      1/rho = 1 + rows that are left / of the batch

With rho = 1 it is a fit to the batch alone. Cappe and Moulines (2009), On-line expectation-maximization.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from tallies.counts import full, plan
from tallies.counts.door import Prepared, Rows, cut
from tallies.counts.fitted import Fitted, Likelihood, Stream
from tallies.counts.plan import Settings
from tallies.counts.records import Moments, Sums
from tallies.counts.tables import row_names
from tallies.data.table import check_weights
from tallies.engine import End, Kept, Stage, add
from tallies.errors import DataError
from tallies.sums import faded

REMEMBERED = 0.5  # rows that count beside those of a new batch, as a share of all before it: early ones were placed by less


class Added(NamedTuple):
    """What the door let in: a batch, and what is left of those before."""

    batch: Prepared
    before: Stream
    B: np.ndarray  # of the fit so far


def left(fitted: Fitted) -> Stream:
    """What a fit has left of its rows."""
    if fitted.data.stream is not None:
        return fitted.data.stream
    if fitted.latent_mean is None:  # B and Sigma are the maximum given moments that they tell of
        return Stream(float(fitted.data.v.sum()), _told(fitted))
    moments = Moments.of(*fitted.known_latents, fitted.design.X, fitted.data.v)
    return Stream(moments.weight, moments)


def _told(fitted: Fitted) -> Moments:
    """The moments of rows that are not kept."""
    B, v = fitted.model.B, fitted.data.v
    if fitted.model.kind != "full":
        raise DataError("to a fit that keeps none of its rows others can be added where its covariance is full; fit all at once")
    XvX = fitted.design.X.T @ (v[:, None] * fitted.design.X)
    return Moments(float(v.sum()), XvX, XvX @ B, float(v.sum()) * fitted.model.covariance + B.T @ XvX @ B)


def prepare(fitted: Fitted, rows: Rows, names: np.ndarray | None, shard_rows: int | None) -> Added:
    """The door for a batch, whose columns and covariates are those of the fit."""
    sources, design = cut(rows.take(rows.v > 0), shard_rows), fitted.design._replace(X=rows.X)
    batch = Prepared(rows, sources, fitted.inputs, design, fitted.data.rule, None, fitted.w, names)
    return Added(batch, left(fitted), fitted.model.B)


def can(model: Any) -> bool:
    """Whether rows can be added to a model with these settings; scikit-learn asks, and shows what is raised."""
    if model.rank is not None or model.method != "variational" or model.zero_inflation is not None:
        told = 'rows can be added to a PLN with rank=None, method="variational" and zero_inflation=None; fit all rows at once'
        raise AttributeError(told)
    return True


def partial_fit(model: Any, counts: Any, y: Any, covariates: Any, offsets: Any, sample_weight: Any, run: dict[str, Any]) -> Any:
    """Add a batch to a PLN; the first one is fitted as any table is."""
    settings = model._settings()
    if not model.__sklearn_is_fitted__():
        return model.fit(counts, y, covariates=covariates, offsets=offsets, sample_weight=sample_weight, **run)
    if model.fitted_.model.kind != settings.kind or model.fitted_.model.rank is not None:
        raise ValueError("rows can be added to a fit of the same kind of covariance; refit with all rows")
    rows = model._rows(counts, covariates, offsets)
    rows = rows._replace(v=check_weights(sample_weight, len(rows.v)))
    return model._fit(prepare(model.fitted_, rows, row_names(counts), model.shard_rows), **run)


def _ended(end: End) -> plan.Searched:
    M, S2 = plan.joined(end.rows, "M", "S2")
    search, point = end.params.search, end.params.point
    return plan.Searched(point.B, None, None, M, S2, end.params.w, float(search.F), search.ended == "met")


def fit(settings: Settings, data: Added, seed: int, shard_rows: int | None) -> Generator[Stage, Kept, Fitted]:
    """The plan of a batch."""
    batch, before = data.batch, data.before
    live = batch.rows.take(batch.rows.v > 0)
    n, p = live.Y.shape
    base = faded(before.moments, min(1.0, REMEMBERED * before.seen / before.moments.weight))
    vX, weight = live.v[:, None] * live.X, float(live.v.sum())
    sums = Sums(base.weight + weight, base.XvX + vX.T @ live.X, base=base)
    model = full.Covariance(settings.kind, settings.Sigma, single=n * p > plan.SINGLE, added=True, tol=settings.tol)
    start = full.begin(sums, data.B, settings.Sigma, batch.w, model.single)
    kept = yield Stage("", model, batch.sources, _ended, settings.max_iter, start, rows=True)
    found: plan.Searched = kept.value
    assert found.M is not None and found.S2 is not None  # a batch is in memory
    own = Moments.of(found.M, found.S2, live.X, live.v)
    moments: Moments = add([base, own])
    B = np.linalg.solve(moments.XvX, moments.XvM)
    Sigma = plan.of_kind(settings, moments.about(B)[1] / moments.weight)
    Omega, logdet, _ = full.invert(Sigma)
    # F of eq. 1 has the log determinant for all rows, and no trace, which is N p where Sigma is their maximum
    spread = float(np.sum(Omega * own.about(B)[1]))
    known = 0.0 if settings.kind != "given" else float(np.sum(Omega * moments.about(B)[1])) - moments.weight * p
    value = -found.F + 0.5 * (moments.weight * logdet + known) + 0.5 * (weight * (p - logdet) - spread)
    learned = plan.learned_of(settings, B, None, Sigma)
    latent = yield from plan.with_unweighted(learned, batch, found.M, found.S2, shard_rows)
    fitted = plan.finished(plan.searched_run(kept, seed), batch, learned, latent, Likelihood(value, bound=True), found.w)
    return fitted._replace(data=fitted.data._replace(stream=Stream(before.seen + weight, moments)))
