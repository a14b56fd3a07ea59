"""How sure the partial correlations of a network are, and how those of two networks differ. Functions of the fitted record.

The penalty shrinks partial correlations, and the bound of a PLN shrinks correlations, so neither has an interval around it. These
are of another estimate, from R, the correlations by the exact likelihood of pairs (`pairs`). Given its neighbours a column depends
on no other, so columns j and k have the partial correlation that they have among A: j, k, and the neighbours of both,

    Theta = (R_AA)^-1,     rho = -Theta_jk / sqrt(Theta_jj Theta_kk)                                                        (eq. 1)

whoever else is in the table: A is small, so nothing need be penalised. Neighbours are those of the graphical lasso of R whose
penalty of a pair is sqrt(2 log p) standard errors of its correlation, as large as p of them get by chance. Both columns
choose, for a neighbour that one of them misses does little harm then (Belloni, Chernozhukov and Hansen 2014). A row that moves R
by psi_i moves Theta by -Theta psi_i Theta, and rho by

    d_i = (Theta psi_i Theta)_jk / sqrt(Theta_jj Theta_kk) + rho/2 [(Theta psi_i Theta)_jj / Theta_jj + the same of k]      (eq. 2)

Its variance is sum_i d_i^2 n / (n - d - |A|). Intervals are symmetric in artanh rho. The difference of two networks has the
variance of both there; its interval is put together from theirs (Zou 2007), and p-values of many pairs are corrected by the rate of
false discoveries (Benjamini and Hochberg 1995).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from tallies.counts.answers import correlation
from tallies.counts.fitted import Fitted
from tallies.counts.network import lasso, pairs
from tallies.counts.network.answers import edges, partial_correlations, probabilities, support
from tallies.errors import DataError

ROOM = 1 << 26  # largest number of rows times pairs: some minutes, and 256 MB
SHARE = 20  # rows for each neighbour that a column may have
FEWEST = 50  # rows, beside those that covariates take: with fewer, variances of variances are too uncertain
MOST = 0.899  # correlation from which on the likelihood of a pair is not known well enough
PROPER = 0.05  # least eigenvalue of the correlations whose lasso is taken; pairs may fit together worse


class Partial(NamedTuple):
    """Partial correlations without a penalty, of some pairs."""

    estimate: np.ndarray  # rho; NaN where a column is flat, or correlations are near 1 or contradict each other
    error: np.ndarray  # standard errors of artanh rho


def partial(fitted: Fitted, a: np.ndarray, b: np.ndarray) -> Partial:
    """Eq. 1 and 2 for pairs of columns a and b, from the rows of the fit."""
    live = fitted.data.v > 0
    X, v, Y = fitted.design.X[live], fitted.data.v[live], fitted.data.counts[live].astype(np.float64)
    (n, p), d = Y.shape, X.shape[1]
    if n < FEWEST + d:
        told = f"intervals need {FEWEST + d} rows or more, {d} of them for the covariates, for with fewer they would be too short"
        raise DataError(f"{told}; there are {n}: use the selection probabilities")
    if n * p * (p - 1) / 2 > ROOM:
        raise DataError(f"intervals of {p:,} columns in {n:,} rows would take too long; fit the network of fewer columns")
    found = pairs.correlations(Y, np.broadcast_to(fitted.data.O[live], Y.shape), X, v, fitted.model.B, fitted.model.covariance)
    return among_neighbours(found, a, b, n - d)


def among_neighbours(found: pairs.Correlations, a: np.ndarray, b: np.ndarray, free: int) -> Partial:
    """The same from correlations, with so many degrees of freedom before neighbours take theirs."""
    R, psi, flat = found
    p, n = len(R), psi.shape[1]
    near, place, (j, k) = neighbours(found), np.zeros((p, p), dtype=int), np.triu_indices(p, 1)
    place[j, k] = place[k, j] = np.arange(len(j))
    out = Partial(np.full(len(a), np.nan), np.full(len(a), np.nan))
    for e, (j, k) in enumerate(zip(a, b, strict=True)):
        A = np.array([j, k, *sorted((near[j] | near[k]) - {j, k})])
        among = R[np.ix_(A, A)]
        if flat[j] or flat[k] or np.abs(np.triu(among, 1)).max() > MOST or np.linalg.eigvalsh(among)[0] < 1e-3:
            continue
        Theta = np.linalg.inv(among)
        (t, s), own = Theta[:2], Theta.diagonal()[:2]
        scale = np.sqrt(own.prod())
        rho = -Theta[0, 1] / scale
        weight = np.outer(t, s) / scale + 0.5 * rho * (np.outer(t, t) / own[0] + np.outer(s, s) / own[1])  # eq. 2
        x, y = np.triu_indices(len(A), 1)
        moved = (weight + weight.T)[x, y] @ psi[place[A[x], A[y]]]
        out.estimate[e] = rho
        out.error[e] = np.sqrt(moved @ moved * n / (free - len(A))) / (1 - rho * rho)
    return out


def neighbours(found: pairs.Correlations) -> list[set[int]]:
    """The neighbours of every column, the strongest where there are many."""
    p, n = len(found.R), found.psi.shape[1]
    (j, k), L = np.triu_indices(p, 1), np.zeros((p, p))
    L[j, k] = L[k, j] = np.sqrt(2 * np.log(p) * np.einsum("en,en->e", found.psi, found.psi, dtype=np.float64))
    R = correlation(found.R + max(PROPER - np.linalg.eigvalsh(found.R)[0], 0.0) * np.eye(p))
    size = np.abs(correlation(lasso.solve(R, L, tol=1e-7).Theta))
    np.fill_diagonal(size, 0.0)
    strongest = np.argsort(-size, axis=1, kind="stable")[:, : max(n // SHARE, 1)]
    return [{int(i) for i in row if size[j, i] > 0} for j, row in enumerate(strongest)]


def _limits(estimate: np.ndarray, error: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    reach = stats.norm.ppf(0.5 + confidence / 2) * error
    return np.tanh(np.arctanh(estimate) - reach), np.tanh(np.arctanh(estimate) + reach)


def table(fitted: Fitted, confidence: float, every: bool) -> pd.DataFrame:
    """The edges, or all pairs, with estimates without a penalty, their intervals and p-values."""
    names, out = [str(c) for c in fitted.columns], edges(fitted)
    if every:
        a, b = np.triu_indices(len(names), 1)
        shrunk, chosen = partial_correlations(fitted)[a, b], (probabilities(fitted), support(fitted))
        sign = np.where(shrunk > 0, "+", np.where(shrunk < 0, "-", ""))
        known = [np.full(len(a), np.nan) if of is None else of[a, b] for of in chosen]
        out = pd.DataFrame(dict(zip(out.columns, (np.array(names)[a], np.array(names)[b], shrunk, sign, *known), strict=True)))
    at = {name: j for j, name in enumerate(names)}
    estimate, error = partial(fitted, *(np.array([at[name] for name in out[c]], dtype=int) for c in ("a", "b")))
    lower, upper = _limits(estimate, error, confidence)
    p_value = 2 * stats.norm.sf(np.abs(np.arctanh(estimate)) / error)
    return out.assign(estimate=estimate, lower=lower, upper=upper, p_value=p_value)


def difference(one: Fitted, other: Fitted, confidence: float) -> pd.DataFrame:
    """The partial correlations of two networks of the same columns, pair by pair, those that differ most surely first."""
    names, theirs = ([str(c) for c in fitted.columns] for fitted in (one, other))
    if sorted(names) != sorted(theirs):
        lost = sorted(set(names) ^ set(theirs))
        raise DataError(f"both networks need the same columns, but {lost[:5]} are in one alone: fit them to the columns of both")
    order = np.array([theirs.index(name) for name in names])
    a, b = np.triu_indices(len(names), 1)
    (r, e), (s, f) = partial(one, a, b), partial(other, order[a], order[b])
    (low, high), (least, most) = _limits(r, e, confidence), _limits(s, f, confidence)
    p_value = 2 * stats.norm.sf(np.abs(np.arctanh(r) - np.arctanh(s)) / np.hypot(e, f))
    columns: dict[str, Any] = {"a": np.array(names)[a], "b": np.array(names)[b], "first": r, "second": s, "difference": r - s}
    columns |= {"lower": r - s - np.hypot(r - low, most - s), "upper": r - s + np.hypot(high - r, s - least)}
    columns |= {"p_value": p_value, "q_value": discoveries(p_value)}
    return pd.DataFrame(columns).sort_values("p_value", kind="stable", ignore_index=True)


def discoveries(p_value: np.ndarray) -> np.ndarray:
    """The rate of false discoveries at which each would be one: NaN stays.

    >>> discoveries(np.array([0.01, 0.04, np.nan, 0.02])).round(3).tolist()
    [0.03, 0.04, nan, 0.03]
    """
    out, known = np.full(len(p_value), np.nan), np.flatnonzero(~np.isnan(p_value))
    out[known] = stats.false_discovery_control(p_value[known]) if len(known) else []
    return out
