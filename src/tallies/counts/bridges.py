"""A fitted PLN for other programs: into an AnnData, and as draws for ArviZ."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tallies.counts.answers import algorithm, bic, icl, poor
from tallies.counts.door import new_rows
from tallies.counts.evidence import latents
from tallies.counts.fitted import Fitted
from tallies.counts.tables import Counts
from tallies.data.annotated import annotate, check
from tallies.errors import DataError, DataWarning, at_least
from tallies.evaluation.draws import inference_data


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


def draws(fitted: Fitted, table: Counts, covariates: Any, offsets: Any, n_draws: int, seed: int) -> Any:
    """Draws of the latents of rows given their counts and the fitted model, for ArviZ."""
    model, d = fitted.model, len(fitted.model.B)
    at_least(2, n_draws=n_draws)
    if model.inflation is not None:
        raise DataError("importance sampling knows no structural zeros; draw from a fit with zero_inflation=None")
    rows = new_rows(fitted, table, covariates, offsets)
    mean, C = rows.X @ model.B, model.W[:, d:]
    V, log_w, share = latents(rows.Y, rows.O + mean, C, n_draws, np.random.default_rng(seed))
    if told := poor(share):
        warnings.warn(told, DataWarning, stacklevel=3)
    latent = mean[:, None, :] + V @ C.T if model.rank is None else model.turned(V)
    axis, axes = ("column", fitted.columns) if model.rank is None else ("component", np.arange(C.shape[1]))
    found = {"latent": (("chain", "draw", "row", axis), latent.transpose(1, 0, 2)[None])}
    # the weights are of the draws before they were picked, so they have a dimension of their own
    weights = {"log_weight": (("chain", "proposal", "row"), log_w.T[None]), "effective_share": (("row",), share)}
    coords = {axis: list(axes), "row": np.arange(len(mean)) if table.rows is None else list(table.rows)}
    return inference_data(coords | {"chain": [0]}, posterior=found, sample_stats=weights)
