"""GDA and naive Bayes on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallies.cli import tables
from tallies.cli.tables import OPTIONS, fit, labels, predict_files, report_data, score

if TYPE_CHECKING:
    import pandas as pd


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """One row a row: the predicted class, the probability of each, and log p(x)."""
    return tables.predict(model, options, path, {"log_prob": model.log_prob})


def sample(model: Any, options: Mapping[str, Any], n: int, seed: int | None) -> pd.DataFrame:
    """New rows with their class in the target's column."""
    X, y = model.sample(n, random_state=seed)
    return X.assign(**{options["target"]: y})


__all__ = ["OPTIONS", "fit", "labels", "predict", "predict_files", "report_data", "sample", "score"]
