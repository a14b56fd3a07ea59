"""A fitted mixture for other programs: into an AnnData."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tallies.counts.mixture.answers import bic, icl, labels, means, names
from tallies.counts.mixture.plan import FittedMixture
from tallies.data.annotated import annotate, check


def into_anndata(fitted: FittedMixture, data: Any, key: str, settings: str) -> Any:
    """Write the fit into the AnnData that it was made of, or one of the same rows and columns."""
    check(data, len(fitted.data.v), fitted.inputs.n, fitted.data.samples, fitted.inputs.names)
    data.obs[key] = pd.Categorical.from_codes(labels(fitted), categories=pd.Index(names(fitted)))
    rows = {f"{key}_probabilities": fitted.tau}
    if fitted.latent_mean is not None and fitted.latent_variance is not None:
        rows |= {f"X_{key}": fitted.latent_mean, f"{key}_variance": fitted.latent_variance}
    about = {"model": settings, "converged": bool(fitted.run.converged), "shares": fitted.share}
    criteria = {"loglik": fitted.likelihood.value, "bic": float(bic(fitted)), "icl": float(icl(fitted))}
    made = {"covariates": [str(name) for name in fitted.design.names], "offsets": fitted.data.rule}
    return annotate(data, rows, {f"{key}_means": means(fitted).T}, key, about | criteria | made)
