"""PLNMixture on the command line: tables as of a PLN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallies.cli.tables import log_likelihood
from tallies.counts import command
from tallies.counts.command import OPTIONS, PREDICT, REPORT, SCORE, asked, fit, report_data, report_options

if TYPE_CHECKING:
    import pandas as pd

    from tallies.evaluation.score import Scored


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """One row a sample: its likeliest cluster, from 1 on, and the probability of each."""
    from tallies.counts.mixture.answers import clustered

    counts, covariates, offsets = asked(model, options, path)
    return command.with_samples(clustered(model.predict_proba(counts, covariates=covariates, offsets=offsets)), counts)


def predict_files(model: Any, options: Mapping[str, Any], path: str, out: Any) -> Any:
    """The same of counts that are more than fit into memory, as a folder; None where they do."""
    from tallies.counts.mixture.answers import clusters

    return command.predict_files(model, options, path, out, clusters)


def score(model: Any, options: Mapping[str, Any], path: str, seed: int = 0) -> tuple[dict[str, Any], Scored]:
    """The bound on the log likelihood of a sample."""
    return log_likelihood(model._evaluate(*asked(model, options, path)))


def sample(model: Any, options: Mapping[str, Any], n: int, seed: int | None) -> pd.DataFrame:
    """New counts, with the clusters they are from."""
    import pandas as pd

    counts, labels = model.sample(n, random_state=seed)
    return pd.DataFrame(counts, columns=list(model._columns())).assign(cluster=labels + 1)


__all__ = [
    "OPTIONS",
    "PREDICT",
    "REPORT",
    "SCORE",
    "fit",
    "predict",
    "predict_files",
    "report_data",
    "report_options",
    "sample",
    "score",
]
