"""What users ask of a fitted PLN: criteria, maps, predictions. Functions of the fitted record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special, stats

from tallies.counts.alignment import as_offsets, given_offsets
from tallies.counts.door import Rows
from tallies.counts.fitted import Fitted, Learned
from tallies.counts.inflated import InflatedRows, cell_odds
from tallies.counts.plan import project, project_inflated
from tallies.counts.tables import HIDDEN, Counts
from tallies.errors import DataError, nearest
from tallies.maths import patterns, regression

POOR = 0.1  # effective share of the draws below which an estimate is not to be trusted
FLAT = 1e-4  # latent variance below which a column varies no more than Poisson counts do


# what was learned, in other forms


def place(fitted: Fitted, column: Any) -> int:
    """The place of a column, by its name or place."""
    names = [str(c) for c in fitted.columns]
    if isinstance(column, int | np.integer) and 0 <= column < len(names):
        return int(column)
    if str(column) not in names:
        raise DataError(f"there is no column {column!r}; {nearest(str(column), names)}")
    return names.index(str(column))


def algorithm(fitted: Fitted) -> str:
    """Which of the solvers was used, in words."""
    model = fitted.model
    if model.method == "importance":
        return f"importance sampling, {f'rank {model.rank}' if model.rank else 'full rank'}"
    if fitted.graph is not None:
        return f"variational PLN with sparse precision, {'penalised bound' if fitted.graph.joint else 'lasso of its correlations'}"
    if model.inflation is not None:
        kind = f"PLN-PCA of rank {model.rank}" if model.rank else f"PLN with {model.kind} covariance"
        share = {"global": "one share of structural zeros", "column": "a share of structural zeros for each column"}
        share["formula"] = "structural zeros by covariates"
        return f"zero-inflated variational {kind}, {share.get(model.inflation, 'a share of structural zeros for each row')}"
    return f"variational PLN-PCA of rank {model.rank}" if model.rank else f"variational PLN with {model.kind} covariance"


def correlation(Sigma: np.ndarray) -> np.ndarray:
    """Correlations of a covariance."""
    size = np.sqrt(Sigma.diagonal())
    return Sigma / np.outer(size, size)


def n_parameters(fitted: Fitted) -> int:
    """Free numbers of the model."""
    model, (d, p) = fitted.model, fitted.model.B.shape
    more = {None: 0, "global": 1, "column": p, "row": int((fitted.data.v > 0).sum())}.get(model.inflation)
    more = model.G.size if more is None and model.G is not None else more or 0
    if model.rank is not None:
        return more + d * p + p * model.rank - model.rank * (model.rank - 1) // 2  # C up to a rotation
    if fitted.graph is not None:
        return d * p + p + int(np.count_nonzero(np.triu(fitted.graph.Omega, 1)))
    return more + d * p + {"full": p * (p + 1) // 2, "diagonal": p, "spherical": 1, "given": 0}[model.kind]


def entropy(fitted: Fitted) -> float:
    """Entropy of the variational distribution of all latents."""
    beyond = fitted.data.beyond
    if beyond is not None and beyond.entropy is not None:
        return beyond.entropy
    found = float(0.5 * fitted.data.v @ (np.log(2 * np.pi * fitted.known_latents[1]) + 1).sum(axis=1))
    if fitted.zeros is None:
        return found
    rho = fitted.zeros.rho
    return found + float(fitted.data.v @ (special.entr(rho) + special.entr(1 - rho)).sum(axis=1))


def aic(fitted: Fitted) -> float:
    """-2 loglik + 2 k."""
    return -2 * fitted.likelihood.value + 2 * n_parameters(fitted)


def bic(fitted: Fitted) -> float:
    """-2 loglik + k log n."""
    return -2 * fitted.likelihood.value + n_parameters(fitted) * np.log(fitted.data.v.sum())


def icl(fitted: Fitted) -> float:
    """BIC plus twice the entropy."""
    return bic(fitted) + 2 * entropy(fitted)


def shares(fitted: Fitted) -> np.ndarray:
    """Share of the latent variance of each component."""
    size = (fitted.model.components**2).sum(axis=0)
    return size / size.sum()


def flat_columns(model: Learned) -> np.ndarray:
    """Columns whose latent variance the fit drove to nothing."""
    return np.flatnonzero((model.covariance.diagonal() < FLAT) & (model.kind != "given"))


def poor(ess: np.ndarray) -> str:
    """A warning of rows whose draws hardly count; "" where there are none."""
    bad = np.flatnonzero(ess < POOR)
    if not len(bad):
        return ""
    return (
        f"importance sampling is unreliable for {len(bad)} rows, such as {bad[:5].tolist()}: fewer than {POOR:.0%} of "
        f"their draws count (lowest {ess.min():.1%}); take more draws, or rely on the bound"
    )


def needless(fitted: Fitted) -> str:
    """A warning of zero inflation that the counts do not ask for; "" where they do, or where there is none."""
    if fitted.zeros is None:
        return ""
    gain = fitted.likelihood.value - fitted.zeros.plain
    price = 0.5 * (n_parameters(fitted) - n_parameters(fitted._replace(model=fitted.model._replace(inflation=None))))
    worth = price * float(np.log(fitted.data.v.sum()))
    if gain > worth:
        return ""
    rise = f"it raises the bound by {gain:,.1f}, less than"
    if gain < 0:
        rise = f"the bound ends {-gain:,.1f} lower with it, not higher by"
    return (
        f"the counts do not ask for zero inflation: {rise} the {worth:,.1f} that its parameters have to bring by BIC; fit with "
        "zero_inflation=None"
    )


class Map(NamedTuple):
    """Samples and columns in the plane of most latent variance, covariates taken out; a second axis of zeros where there is one.

    The latent value of column j in sample i is about the inner product of their rows in `samples` and `axes`.
    """

    samples: np.ndarray  # (n, 2)
    axes: np.ndarray  # of unit length                              (p, 2)
    loadings: np.ndarray  # axes times the standard deviation along them   (p, 2)
    share: np.ndarray  # of the latent variance                     (2,)


def positions(fitted: Fitted) -> Map:
    """The map that reports and plots draw."""
    C = fitted.model.components
    size = np.sqrt((C**2).sum(axis=0))
    axes = C / np.maximum(size, 1e-300)
    if fitted.model.rank is not None:
        Z = fitted.known_latents[0] * size  # principal scores: unit directions, lengths on the samples
    else:
        Z = (fitted.known_latents[0] - fitted.design.X @ fitted.model.B) @ axes
    share = size**2 / max(float((size**2).sum()), 1e-300)
    Z, axes, C = (np.pad(part[:, :2], ((0, 0), (0, max(0, 2 - part.shape[1])))) for part in (Z, axes, C))
    return Map(Z, axes, C, np.append(share, [0.0, 0.0])[:2])


def rates(fitted: Fitted) -> np.ndarray:
    """A of the rows of the fit: expected counts, given the counts; 0 where missing."""
    model = fitted.model
    if fitted.zeros is not None:
        return fitted.zeros.rate
    M, S2 = fitted.known_latents
    if model.C is not None:
        M, S2 = fitted.design.X @ model.B + M @ model.C.T, S2 @ (model.own**2).T
    return np.exp(np.clip(fitted.data.O + M + 0.5 * S2, HIDDEN, 60.0))


def inflation(fitted: Fitted) -> np.ndarray | None:
    """pi: one number, one of each column (p,), of each row (n,), or by covariates of each cell (n, p); None without inflation."""
    model = fitted.model
    if fitted.zeros is None or model.pi is None:
        return None
    if fitted.zeros.by is not None:
        return zero_shares(model, fitted.zeros.by.T)
    return {"global": model.pi[:1], "column": model.pi, "row": fitted.zeros.pi}[model.inflation or "column"]


def inflation_coefficients(fitted: Fitted) -> pd.DataFrame | None:
    """What a unit of each covariate adds to the log odds of a structural zero, for each column; None without a formula of these."""
    if fitted.zeros is None or fitted.zeros.by is None:
        return None
    return pd.DataFrame(fitted.model.G, index=[str(c) for c in fitted.zeros.by.names], columns=[str(c) for c in fitted.columns])


def zero_shares(model: Learned, T: np.ndarray) -> np.ndarray:
    """pi of cells (n, p) by the covariates of structural zeros (n, e)."""
    assert model.G is not None
    return special.expit(cell_odds(T, model.G))


def cell_inflation(fitted: Fitted) -> np.ndarray | float:
    """pi of the cells of the fit, (n, 1), (p,) or (n, p); 0 without inflation."""
    if fitted.zeros is None or fitted.model.pi is None:
        return 0.0
    if fitted.zeros.by is not None:
        return zero_shares(fitted.model, fitted.zeros.by.T)
    return fitted.zeros.pi[:, None] if fitted.model.inflation == "row" else fitted.model.pi


class Residuals(NamedTuple):
    """Randomised quantile residuals (Dunn and Smyth 1996) of some cells: standard normal where the model is true."""

    row: np.ndarray
    column: np.ndarray
    observed: np.ndarray
    expected: np.ndarray  # from covariates and offsets alone
    value: np.ndarray
    least: np.ndarray  # the value nearest to 0 that a draw could have given: no count surprises by chance of the draw
    cells: int  # of the table, of which these are some


def residuals(fitted: Fitted, most: int = 5000) -> Residuals:
    """Phi^-1 of F(Y - 1) + u P(Y), F and P those of the counts that the model expects without knowing them, u uniform; of at most
    `most` cells drawn at random, but always the same."""
    rng, seen = np.random.default_rng(0), fitted.data
    counts = seen.counts
    O, variance = np.broadcast_to(seen.O, counts.shape), fitted.model.covariance.diagonal()
    known = np.argwhere((seen.v > 0)[:, None] & (O > HIDDEN))
    i, j = (known if len(known) <= most else known[np.sort(rng.choice(len(known), most, replace=False))]).T
    Y, mean = counts[i, j].astype(float), O[i, j] + np.einsum("id,di->i", fitted.design.X[i], fitted.model.B[:, j])
    nodes = np.linspace(-8.0, 8.0, 201)  # of Z; finer than what is drawn needs
    weight = stats.norm.pdf(nodes)
    rate = np.exp(np.clip(mean[:, None] + np.sqrt(variance[j])[:, None] * nodes, -700.0, 60.0))
    low, high = ((special.gammaincc(y[:, None] + 1, rate) @ weight) / weight.sum() for y in (np.maximum(Y - 1, 0), Y))
    structural = np.broadcast_to(cell_inflation(fitted), counts.shape)[i, j]
    low, high = (structural + (1 - structural) * part for part in (low, high))
    low = np.where(Y == 0, 0.0, low)
    u = low + rng.random(len(Y)) * (high - low)
    value, *ends = (special.ndtri(np.clip(share, 1e-12, 1 - 1e-12)) for share in (u, low, high))
    expected = (1 - structural) * np.exp(np.minimum(mean + 0.5 * variance[j], 60.0))
    return Residuals(i, j, Y, expected, value, np.clip(0.0, *ends), len(known))


# predictions


def expected(fitted: Fitted, X: np.ndarray, offsets: Any, rows: np.ndarray | None, T: np.ndarray | None) -> np.ndarray:
    """Expected counts of new samples, `rows` their names, T the covariates of their zeros: exp(o + B'x + Sigma_jj/2)."""
    O = 0.0 if offsets is None else _without_counts(fitted, offsets, len(X), rows)
    thin = 1.0 if fitted.model.pi is None else 1 - (fitted.model.pi if T is None else zero_shares(fitted.model, T))
    return thin * np.exp(O + X @ fitted.model.B + 0.5 * fitted.model.covariance.diagonal())


def expected_given(fitted: Fitted, table: Counts, rows: Rows, offsets: Any, shard_rows: int | None) -> np.ndarray:
    """Expected counts of samples given their counts; of a hidden cell, given the others of its row."""
    model, O, missing = fitted.model, rows.O, rows.O <= HIDDEN
    zeros = None if model.inflation is None else project_inflated(model, rows, shard_rows)
    M, S2 = zeros[:2] if zeros is not None else project(model, rows, shard_rows)[:2]
    if missing.any():
        if offsets is None or isinstance(offsets, str):  # all alike in a row
            size = rows.O.max(axis=1, keepdims=True)
            O = np.where(missing, np.where(size > HIDDEN, size, 0.0), rows.O)
        else:
            O = as_offsets(offsets, table._replace(missing=None))
    if model.C is not None:
        rate = np.exp(O + rows.X @ model.B + M @ model.C.T + 0.5 * S2 @ (model.own**2).T)
    else:
        S2 = _hidden_variance(model.covariance, missing, S2) if missing.any() else S2
        rate = np.exp(O + M + 0.5 * S2)
    if zeros is None or model.pi is None:
        return rate
    pi = zeros.pi[:, None] if isinstance(zeros, InflatedRows) and model.inflation == "row" else model.pi
    pi = pi if model.G is None else zero_shares(model, rows.X[:, len(model.B) :])
    return np.where(missing, (1 - pi) * rate, zeros.rate)


def hide(fitted: Fitted, table: Counts, given: Iterable[Any]) -> tuple[Counts, np.ndarray]:
    """Counts with all columns hidden but those given, by names or places; and which are hidden."""
    names = list(fitted.columns)
    known = [names.index(g) if g in names else g for g in given]
    wrong = [g for g in known if not isinstance(g, int | np.integer) or not 0 <= g < len(names)]
    if wrong or not known:
        raise DataError(f"given must name columns of the fit or their places, got {wrong or known}; columns: {names[:5]} ...")
    hidden = np.setdiff1d(np.arange(len(names)), known)
    missing = np.zeros(table.Y.shape, dtype=bool) if table.missing is None else table.missing.copy()
    missing[:, hidden] = True
    return table._replace(Y=np.where(missing, 0.0, table.Y), missing=missing), hidden


def _hidden_variance(Sigma: np.ndarray, missing: np.ndarray, S2: np.ndarray) -> np.ndarray:
    """Variances where hidden cells have that of Z given the others, not the mean field's, which takes these as known."""
    S2 = S2.copy()
    for hidden, at in patterns(np.where(missing, np.nan, 0.0)):
        if not hidden.any():
            continue
        slope, rest = regression(Sigma, hidden, np.sqrt(Sigma.diagonal()))
        S2[np.ix_(at, hidden)] = rest.diagonal() + S2[np.ix_(at, ~hidden)] @ (slope**2).T
    return S2


def draw(
    fitted: Fitted,
    n: int,
    X: np.ndarray | None,
    offsets: Any,
    rows: np.ndarray | None,
    rng: np.random.Generator,
    T: np.ndarray | None = None,
) -> np.ndarray:
    """Counts (n, p); without a design and offsets, those of rows of the fit drawn at random."""
    p, C = fitted.inputs.n, fitted.model.components
    chosen = rng.integers(len(fitted.design.X), size=n)
    X = fitted.design.X[chosen] if X is None else X
    O = offsets_of(fitted, chosen, n, offsets, rows)
    Z = X @ fitted.model.B + rng.normal(size=(n, C.shape[1])) @ C.T
    Y = rng.poisson(np.exp(np.minimum(np.broadcast_to(O, (n, p)) + Z, 40.0)))  # numpy's Poisson ends at 2^63
    if fitted.zeros is None or fitted.model.pi is None:
        return Y
    pi = rng.choice(fitted.zeros.pi, size=(n, 1)) if fitted.model.inflation == "row" else fitted.model.pi
    if fitted.zeros.by is not None:
        pi = zero_shares(fitted.model, fitted.zeros.by.T[chosen] if T is None else T)
    return np.where(rng.random((n, p)) < pi, 0, Y)


def offsets_of(fitted: Any, chosen: np.ndarray, n: int, offsets: Any, rows: np.ndarray | None) -> np.ndarray:
    """Offsets of n samples to be drawn, `rows` their names: those given, or of the rows of the fit that were chosen."""
    return _training_offsets(fitted, chosen) if offsets is None else _without_counts(fitted, offsets, n, rows)


def _without_counts(fitted: Fitted, offsets: Any, n: int, rows: np.ndarray | None) -> np.ndarray:
    """Offsets (n, p) of new samples whose counts are not known."""
    if isinstance(offsets, str):
        raise DataError(f"offsets={offsets!r} is a rule that needs counts, and there are none here; pass logarithms as an array")
    return given_offsets(offsets, n, fitted.inputs.n, rows, fitted.inputs.names)


def _training_offsets(fitted: Fitted, rows: np.ndarray) -> np.ndarray:
    """Offsets of rows of the fit; a hidden cell gets the mean of its column, since only its count was unknown."""
    every = fitted.data.O
    O = np.array(np.broadcast_to(every[rows], (len(rows), fitted.inputs.n)))
    hidden = O <= HIDDEN
    if hidden.any():
        seen = np.where(every > HIDDEN, every, np.nan)
        O[hidden] = np.broadcast_to(np.nan_to_num(np.nanmean(seen, axis=0)), O.shape)[hidden]
    return O
