"""What users ask of a fitted mixture of PLNs: clusters of new samples, what marks them, criteria."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from tallies.counts.answers import FLAT
from tallies.counts.door import Rows
from tallies.counts.groups import Groups, marks
from tallies.counts.mixture.model import uncertainty
from tallies.counts.mixture.plan import FittedMixture, free_numbers, mean_place, probabilities
from tallies.counts.plan import project

CLEAR = 0.8  # a sample whose likeliest cluster has a smaller probability is called uncertain


def coefficients(fitted: FittedMixture) -> np.ndarray:
    """Coefficients of the covariates in each component (K, d, p)."""
    return np.stack([model.B for model in fitted.models])


def covariances(fitted: FittedMixture) -> np.ndarray:
    """Covariance of Z in each component (K, p, p)."""
    return np.stack([model.covariance for model in fitted.models])


def means(fitted: FittedMixture) -> np.ndarray:
    """Means of Z in each component (K, p), at the mean of the covariates."""
    v = fitted.data.v
    return np.einsum("d,kdj->kj", v @ fitted.design.X / v.sum(), coefficients(fitted))


def labels(fitted: FittedMixture) -> np.ndarray:
    """The likeliest component of each sample of the fit (n,)."""
    return fitted.tau.argmax(axis=1)


def n_parameters(fitted: FittedMixture) -> int:
    """Free numbers of the model."""
    (K, d, p), kind = coefficients(fitted).shape, fitted.models[0].kind
    return free_numbers(K, kind, d, p)


def entropy(fitted: FittedMixture) -> float:
    """Entropy of the assignments: 0 where each sample is surely in one component."""
    return max(uncertainty(fitted.tau, fitted.data.v), 0.0)


def aic(fitted: FittedMixture) -> float:
    """-2 loglik + 2 k; smaller is better."""
    return -2 * fitted.likelihood.value + 2 * n_parameters(fitted)


def bic(fitted: FittedMixture) -> float:
    """-2 loglik + k log n; smaller is better."""
    return -2 * fitted.likelihood.value + n_parameters(fitted) * float(np.log(fitted.data.v.sum()))


def icl(fitted: FittedMixture) -> float:
    """BIC plus twice the entropy of the assignments: it prefers components that samples are surely in."""
    return bic(fitted) + 2 * entropy(fitted)


def tried(fitted: FittedMixture) -> pd.DataFrame:
    """The numbers of components that were tried: log likelihood (the bound), parameters, entropy of the assignments, BIC, ICL;
    `chosen` marks the one taken."""
    found, N = fitted.tried, float(fitted.data.v.sum())
    columns = {name: getattr(found, name) for name in ("loglik", "parameters", "uncertainty", "converged")}
    by, (bic, icl) = (np.argmin(found.criteria(N)[int(found.rule == "icl")]), found.criteria(N))
    table = pd.DataFrame({**columns, "bic": bic, "icl": icl, "chosen": np.arange(len(bic)) == by}, index=found.number)
    return table.rename_axis("components")


class Told(NamedTuple):
    """New samples in each component."""

    joint: np.ndarray  # bounds on log pi_k p(Y | k)                (n, K)
    tau: np.ndarray  #                                              (n, K)
    M: np.ndarray  # means of Z over the components                 (n, p)

    @property
    def log_prob(self) -> np.ndarray:
        """Bounds on log p(Y) (n,)."""
        return logsumexp(self.joint, axis=1)


def told(fitted: FittedMixture, rows: Rows, shard_rows: int | None) -> Told:
    """Place rows in each component."""
    places = [project(model, rows, shard_rows, close=True) for model in fitted.models]
    bounds = np.stack([place.bound for place in places if place.bound is not None], axis=1)
    tau = probabilities(places, fitted.share)
    return Told(bounds + np.log(fitted.share), tau, mean_place(places, tau)[0])


def clusters(model: Any, counts: Any, covariates: Any) -> pd.DataFrame:
    """The likeliest cluster of each sample, from 1 on, and the probability of each."""
    return clustered(model.predict_proba(counts, covariates=covariates))


def clustered(share: np.ndarray) -> pd.DataFrame:
    """The same of probabilities (n, K)."""
    table = pd.DataFrame(share, columns=[f"p({k + 1})" for k in range(share.shape[1])])
    table.insert(0, "cluster", share.argmax(axis=1) + 1)
    return table


def names(fitted: FittedMixture) -> list[str]:
    """What clusters are called, from 1 on, the largest first."""
    return [f"cluster {k + 1}" for k in range(len(fitted.share))]


def groups(fitted: FittedMixture) -> Groups:
    """The clusters, and where the samples of the fit lie."""
    X, v = fitted.design.X, fitted.data.v
    Z, known = None, fitted.data.samples
    if fitted.latent_mean is not None:
        effects = np.einsum("nd,kdj->knj", X - v @ X / v.sum(), coefficients(fitted))
        Z = fitted.latent_mean - np.einsum("nk,knj->nj", fitted.tau, effects)
    samples = [f"sample {i + 1}" for i in range(len(v))] if known is None else [str(s) for s in known]
    Sigma, species = np.einsum("k,kij->ij", fitted.share, covariances(fitted)), [str(c) for c in fitted.columns]
    return Groups("cluster", names(fitted), species, means(fitted), fitted.share, Sigma, labels(fitted), Z, samples)


def marked(fitted: FittedMixture) -> pd.DataFrame:
    """What marks each cluster: one row a cluster and species with the mean of its logarithm there (`mean`), the factor by which it
    is more or less abundant than in all clusters (`factor`), and that beside its spread within one (`z`), the farthest first."""
    return marks(groups(fitted))


def draw(fitted: FittedMixture, codes: np.ndarray, X: np.ndarray, O: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Counts of samples in these components."""
    Z = np.einsum("nd,ndj->nj", X, coefficients(fitted)[codes])
    roots = np.stack([model.components for model in fitted.models])
    Z += np.einsum("njq,nq->nj", roots[codes], rng.normal(size=(len(codes), roots.shape[2])))
    return rng.poisson(np.exp(np.minimum(O + Z, 40.0)))  # numpy's Poisson ends at 2^63


def facts(fitted: FittedMixture, kind: str) -> list[str]:
    """How many components, how they were chosen, and how sure the assignments are, in words."""
    K, n = len(fitted.share), len(fitted.tau)
    shares = ", ".join(f"{share:.0%}" for share in fitted.share[:10]) + " ..." * (K > 10)
    unsure = int((fitted.tau.max(axis=1) < CLEAR).sum())
    are = "sample is" if unsure == 1 else "samples are"
    by = f", of {fitted.tried.number.min()} to {fitted.tried.number.max()} by {fitted.tried.rule.upper()}"
    how = by if len(fitted.tried.number) > 1 else ""
    covariates = ", ".join(map(str, fitted.design.names))
    return [
        f"mixture of {K} PLN with {kind} covariances{how}; {n} samples, {fitted.inputs.n} columns, covariates {covariates}",
        f"log likelihood {fitted.likelihood.value:,.2f} (bound), {n_parameters(fitted)} parameters, BIC {bic(fitted):,.1f}, ICL "
        f"{icl(fitted):,.1f}",
        f"shares of the clusters: {shares}; {unsure} {are} in no cluster with a probability of {CLEAR} or more",
    ]


def caveats(fitted: FittedMixture, rule: str) -> list[str]:
    """What a user should know before trusting the clusters."""
    found, many = [], fitted.tried.number
    if fitted.lost:
        all_of = fitted.lost + len(fitted.share)
        found.append(f"{fitted.lost} of {all_of} components were left without samples and given up; fit fewer of them")
    if len(many) > 1 and len(fitted.share) == many.max():
        found.append(f"the largest number of components tried, {many.max()}, was chosen by {rule.upper()}; try more of them")
    small = [k + 1 for k, share in enumerate(fitted.share) if share * fitted.data.v.sum() < 2 * len(fitted.models[0].B) + 3]
    if small:
        found.append(f"clusters {small[:5]} hold hardly more samples than it takes to know their means; fit fewer components")
    flat = np.flatnonzero(np.stack([model.covariance.diagonal() for model in fitted.models]).max(axis=0) < FLAT)
    if len(flat):
        found.append(
            f"columns such as {fitted.columns[flat[:3]].tolist()} ({len(flat)} of {fitted.inputs.n}) vary less than Poisson counts "
            "do within every cluster: their latent variance is 0 within 1e-4"
        )
    return found
