"""GDA and naive Bayes on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallies.cli.tables import features, fit, report_data, score

if TYPE_CHECKING:
    import pandas as pd


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """One row a row: the predicted class, the probability of each, and log p(x)."""
    import pandas as pd

    X, _ = features(model, path, options, need_target=False)
    shares = pd.DataFrame(model.predict_proba(X), columns=[f"p({name})" for name in model.classes_.tolist()])
    return pd.concat(
        [pd.Series(model.predict(X), name="prediction"), shares, pd.Series(model.log_prob(X), name="log_prob")], axis=1
    )


def sample(model: Any, options: Mapping[str, Any], n: int, seed: int | None) -> pd.DataFrame:
    """New rows with their class in the target's column."""
    import pandas as pd

    X, y = model.sample(n, random_state=seed)
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=model.feature_names_in_)
    return frame.assign(**{options["target"]: y})


__all__ = ["fit", "predict", "report_data", "sample", "score"]
