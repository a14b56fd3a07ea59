"""Tables named on the command line, and what commands of classifiers do with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallies.data.files import read_frame
from tallies.errors import DataError, nearest

if TYPE_CHECKING:
    import pandas as pd


def read(path: str, target: str, columns: list[str] | None, need_target: bool = True) -> tuple[pd.DataFrame, pd.Series | None]:
    """Features and target of a table; `columns` limits the features."""
    frame = read_frame(path)
    y = column(frame, target, "--target") if need_target or target in frame else None
    features = frame.drop(columns=[target], errors="ignore")
    if columns is not None:
        features = frame[[column(frame, name, "--columns").name for name in columns]]
    if not len(frame):
        raise DataError(f"{path!r} has a header but no rows; there is nothing to work on")
    return features, y


def column(frame: pd.DataFrame, name: str, option: str) -> pd.Series:
    if name not in frame:
        known = nearest(name, map(str, frame.columns))
        raise DataError(f"{option} names the column {name!r}, which the table does not have; {known}")
    return frame[name]


def fit(model: Any, options: Mapping[str, Any], **run: Any) -> Any:
    """Fit a model to the table that the options name."""
    X, y = read(options["data"], options["target"], options.get("columns"))
    weight = None
    if options.get("weights"):
        weight = column(read_frame(options["data"]), options["weights"], "--weights").to_numpy()
        X = X.drop(columns=[options["weights"]], errors="ignore")
    return model.fit(X, y, sample_weight=weight, **run)


def features(model: Any, path: str, options: Mapping[str, Any], need_target: bool) -> tuple[pd.DataFrame, pd.Series | None]:
    """The model's columns of another table, by name and in its order."""
    X, y = read(path, options["target"], None, need_target)
    missing = [name for name in model.feature_names_in_ if name not in X]
    if missing:
        raise DataError(
            f"{path!r} lacks the columns {missing[:10]} that the model was fitted on; add them (empty cells are allowed)"
        )
    return X[list(model.feature_names_in_)], y


def score(model: Any, options: Mapping[str, Any], path: str, seed: int = 0) -> dict[str, Any]:
    """Accuracy, log loss, Brier score, confusion matrix, and the mean log p(x, y)."""
    from tallies.evaluation.classification import classification

    X, y = features(model, path, options, need_target=True)
    return classification(model, X, y)


def report_data(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, ...]:
    """What the report judges the model by."""
    X, y = features(model, path, options, need_target=False)
    return (X,) if y is None else (X, y)
