"""What users ask of a fitted discriminant of counts: classes of new samples, the axes that tell them apart, what marks a class.

    Z_i | class k ~ N(B'x_i + mu_k, Sigma),   P(class k | Y_i) ~ pi_k p(Y_i | class k), of which the bound is taken        (eq. 1)

B, mu and Sigma are estimates, and plugged in as they are they are too sure. New samples meet a Gaussian that allows for it,

    N(B'x + mu_k, (1 + 1/n_k) N / (N - d) Sigma'),     Sigma'_jk = (1 - lambda) Sigma_jk off the diagonal                  (eq. 2)
    lambda = sum (1 - r_jk^2)^2 / (N - 1) / sum r_jk^2, at most 1,   r the correlations of Sigma                           (eq. 3)

the spread of a prediction from n_k samples, and the shrinkage at which the errors of the correlations are their squares (Schaefer
and Strimmer 2005). A species that was never seen in a class has no finite mean there: half a count is taken to have been seen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tallies.counts.answers import correlation
from tallies.counts.door import Rows
from tallies.counts.fitted import Classes, Fitted, Learned
from tallies.counts.groups import Axes, Groups, fisher, marks
from tallies.counts.plan import project
from tallies.counts.records import blocks

UNSEEN = 0.5  # counts of a species that was never seen in a class


def classes_of(fitted: Fitted) -> Classes:
    """The classes of a discriminant."""
    assert fitted.classes is not None
    return fitted.classes


def plain(fitted: Fitted) -> Fitted:
    """The fit with the covariates alone in its design, which are all that new samples bring."""
    d = fitted.design.X.shape[1] - classes_of(fitted).columns
    return fitted._replace(design=fitted.design._replace(X=fitted.design.X[:, :d], names=fitted.design.names[:d]))


def sizes(fitted: Fitted) -> np.ndarray:
    """Weights of the rows of each class (K,)."""
    known = classes_of(fitted)
    return np.bincount(known.codes, fitted.data.v, len(known.names))


def log_priors(fitted: Fitted) -> np.ndarray:
    """Logarithms of the shares of the classes among the rows (K,)."""
    n = sizes(fitted)
    return np.log(n / n.sum())


def effects(fitted: Fitted) -> np.ndarray:
    """mu (K, p): what each class adds to B'x of the covariates; half a count where a species was never seen in a class."""
    known, (Y, O, v, *_), beyond = classes_of(fitted), fitted.data, fitted.data.beyond
    c, Sigma, coding = known.columns, fitted.model.covariance, known.coding
    (B, mu), (K, p) = (fitted.model.B[:-c], coding @ fitted.model.B[-c:]), (len(coding), fitted.inputs.n)
    seen, effort, n = np.zeros((K, p)), np.zeros((K, p)), sizes(fitted)
    for b in blocks(len(v), p, 1 << 20):
        member = v[b] * (known.codes[b] == np.arange(K)[:, None])  # (K, rows)
        effort += member @ np.exp(np.minimum(O[b] + fitted.design.X[b, :-c] @ B, 60.0))
        seen += 0.0 if Y is None else member @ Y[b]
    seen = seen if beyond is None else beyond.seen
    with np.errstate(divide="ignore"):
        least = np.log(UNSEEN) - (np.log(effort) + 0.5 * Sigma.diagonal())  # infinite where all counts of a class are missing
    return np.where(seen > 0, mu, np.where(np.isfinite(least), np.maximum(mu, least), n @ mu / n.sum()))


def means(fitted: Fitted) -> np.ndarray:
    """Means of Z in each class (K, p), at the mean of the covariates."""
    own, v = plain(fitted).design.X, fitted.data.v
    return effects(fitted) + (v @ own / v.sum()) @ fitted.model.B[: own.shape[1]]


def intensity(Sigma: np.ndarray, N: float) -> float:
    """lambda of eq. 3.

    >>> intensity(np.array([[1.0, 0.5], [0.5, 1.0]]), 10.0)
    0.25
    """
    r = correlation(Sigma)[np.triu_indices(len(Sigma), 1)]
    return float(min(1.0, np.sum((1 - r * r) ** 2) / max(N - 1.0, 1.0) / max(float(np.sum(r * r)), 1e-300))) if len(r) else 0.0


def shrunk(fitted: Fitted, shrinkage: float | str | None) -> np.ndarray:
    """Sigma' of eq. 2."""
    Sigma, N = fitted.model.covariance, float(fitted.data.v.sum())
    part = intensity(Sigma, N) if shrinkage == "auto" else 0.0 if shrinkage is None else float(shrinkage)
    return (1 - part) * Sigma + part * np.diag(Sigma.diagonal())


def models(fitted: Fitted, shrinkage: float | str | None) -> list[Learned]:
    """The Gaussian of each class, eq. 2: coefficients of the covariates and then mu_k."""
    n, d = sizes(fitted), len(fitted.model.B)
    wide, B = shrunk(fitted, shrinkage) * n.sum() / (n.sum() - d), fitted.model.B[: -classes_of(fitted).columns]
    return [
        fitted.model._replace(B=np.vstack([B, mu]), Sigma=wide * (1 + 1 / n_k)) for mu, n_k in zip(effects(fitted), n, strict=True)
    ]


class Told(NamedTuple):
    """New samples under each class."""

    given: np.ndarray  # bounds on log p(Y | class)                 (n, K)
    M: np.ndarray  # means of Z under it, covariates taken out      (K, n, p)


def told(fitted: Fitted, rows: Rows, shrinkage: float | str | None, shard_rows: int | None) -> Told:
    """Place rows, whose design is that of the covariates, under each class."""
    X, B = np.hstack([rows.X, np.ones((len(rows.X), 1))]), fitted.model.B[: -classes_of(fitted).columns]
    found = [project(model, rows._replace(X=X), shard_rows, close=True) for model in models(fitted, shrinkage)]
    bounds = [place.bound for place in found if place.bound is not None]
    return Told(np.stack(bounds, axis=1), np.stack([place.M - rows.X @ B for place in found]))


def axes(fitted: Fitted, shrinkage: float | str | None) -> Axes:
    """Fisher's axes of the latent means."""
    return fisher(effects(fitted), sizes(fitted), shrunk(fitted, shrinkage))


def groups(fitted: Fitted, shrinkage: float | str | None = None) -> Groups:
    """The classes, and the samples of the fit given theirs."""
    known, (own, v), M = classes_of(fitted), (plain(fitted).design.X, fitted.data.v), fitted.latent_mean
    Z = None if M is None else M - (own - v @ own / v.sum()) @ fitted.model.B[: own.shape[1]]
    samples = [f"sample {i + 1}" for i in range(len(v))] if fitted.data.samples is None else [str(s) for s in fitted.data.samples]
    species, Sigma = [str(c) for c in fitted.columns], shrunk(fitted, shrinkage)
    return Groups("class", known.names.tolist(), species, means(fitted), sizes(fitted), Sigma, known.codes, Z, samples)


def marked(fitted: Fitted) -> pd.DataFrame:
    """What marks each class: one row a class and species with the mean of its logarithm there (`mean`), the factor by which it is
    more or less abundant than in all classes (`factor`), and that beside its spread within a class (`z`), the farthest first."""
    return marks(groups(fitted))


def facts(fitted: Fitted, shrinkage: Any) -> list[str]:
    """The classes, and how correlations are shrunk, in words."""
    names, n = classes_of(fitted).names, sizes(fitted)
    shown = ", ".join(f"{name} ({size:,.6g})" for name, size in list(zip(names.tolist(), n.tolist(), strict=True))[:20])
    part = intensity(fitted.model.covariance, float(n.sum())) if shrinkage == "auto" else shrinkage or 0.0
    return [f"classes: {shown}{' ...' * (len(names) > 20)}; correlations shrunk by {part:.0%} where new samples are told apart"]
