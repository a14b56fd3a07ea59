"""A fitted PLN for other programs: into an AnnData, and as draws for ArviZ."""

from __future__ import annotations

from typing import Any

from tallies.counts.answers import algorithm, bic, icl
from tallies.counts.fitted import Fitted
from tallies.data.annotated import annotate, check


def into_anndata(fitted: Fitted, data: Any, key: str, settings: str) -> Any:
    """Write the fit into the AnnData that it was made of, or one of the same rows and columns."""
    check(data, len(fitted.data.v), fitted.inputs.n, fitted.data.samples, fitted.inputs.names)
    held = fitted.latent_mean is not None  # else those of Z were more than that
    rows = {f"X_{key}": fitted.latent_mean, f"{key}_variance": fitted.latent_variance if held else None}
    columns = {f"{key}_components": fitted.model.components, f"{key}_coefficients": fitted.model.B.T}
    about = {"model": settings, "algorithm": algorithm(fitted), "converged": bool(fitted.run.converged)}
    criteria = {"loglik": fitted.likelihood.value, "bic": float(bic(fitted)), "icl": float(icl(fitted))}
    names = {"covariates": [str(name) for name in fitted.design.names], "offsets": fitted.data.rule}
    return annotate(data, rows, columns, key, about | criteria | names)
