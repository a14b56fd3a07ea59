"""Tables named on the command line, and the commands of models that tell a target from the other columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallies.cli.options import Option
from tallies.errors import DataError, nearest

if TYPE_CHECKING:
    import pandas as pd


def names(text: str) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in text.split(",")]


def data(help: str) -> Option:
    """The argument DATA."""
    return Option("data", help, kind=Path, flag="DATA", needed=True)


TARGET = Option("target", "Column with the class.", flag="target,t", needed=True)
COLUMNS = Option("columns", "Columns to use, comma separated; default: all but the target.", parse=names)
WEIGHTS = Option("weights", "Column with row weights.")
OPTIONS = (data("Table: csv, tsv, jsonl or parquet, also .gz."), TARGET, COLUMNS, WEIGHTS)


def column(frame: pd.DataFrame, name: str, option: str) -> pd.Series:
    """A column that an option names."""
    if name not in frame:
        known = nearest(name, map(str, frame.columns))
        raise DataError(f"{option} names the column {name!r}, which the table does not have; {known}")
    return frame[name]


def chosen(frame: pd.DataFrame, options: Mapping[str, Any]) -> tuple[pd.DataFrame, Any]:
    """The columns that --columns names, without that of --weights; and the weights."""
    weight = column(frame, options["weights"], "--weights").to_numpy() if options.get("weights") else None
    if options.get("columns") is not None:
        frame = frame[[column(frame, name, "--columns").name for name in options["columns"]]]
    return frame.drop(columns=[options.get("weights")], errors="ignore"), weight


def fitted_columns(model: Any, frame: pd.DataFrame, path: str) -> pd.DataFrame:
    """The model's columns of another table, by name and in its order."""
    missing = [name for name in model.feature_names_in_ if name not in frame]
    if missing:
        raise DataError(
            f"{path!r} lacks the columns {missing[:10]} that the model was fitted on; add them (empty cells are allowed)"
        )
    return frame[list(model.feature_names_in_)]


def _read(path: str, target: str, need_target: bool) -> tuple[pd.DataFrame, pd.Series | None]:
    """Features and target of a table."""
    from tallies.data.files import read_table

    frame = read_table(path)
    y = column(frame, target, "--target") if need_target or target in frame else None
    if not len(frame):
        raise DataError(f"{path!r} has a header but no rows; there is nothing to work on")
    return frame.drop(columns=[target], errors="ignore"), y


def features(model: Any, options: Mapping[str, Any], path: str, need_target: bool = False) -> tuple[pd.DataFrame, pd.Series | None]:
    """What a model is asked of in another table: its columns, and the target where it is there."""
    X, y = _read(path, options["target"], need_target)
    return fitted_columns(model, X, path), y


def fit(model: Any, options: Mapping[str, Any], **run: Any) -> Any:
    """Fit a model to the table that the options name."""
    X, y = _read(options["data"], options["target"], need_target=True)
    X, weight = chosen(X, options)
    return model.fit(X, y, sample_weight=weight, **run)


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """One row a row: the predicted class, and the probability of each."""
    import pandas as pd

    X, _ = features(model, options, path)
    shares = pd.DataFrame(model.predict_proba(X), columns=[f"p({name})" for name in model.classes_.tolist()])
    shares.insert(0, "prediction", model.predict(X))
    return shares


def score(model: Any, options: Mapping[str, Any], path: str, seed: int = 0) -> dict[str, Any]:
    """Accuracy, log loss, Brier score, confusion matrix, and the mean log p(x, y)."""
    from tallies.evaluation.classification import classification

    return classification(model, *features(model, options, path, need_target=True))


def log_likelihood(found: Any) -> dict[str, Any]:
    """A `Score` under the names that `tallies score` prints."""
    return {"log_likelihood": found.value, "stderr": found.stderr, "unit": found.unit, "kind": found.kind}


def report_data(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, ...]:
    """What the report judges the model by."""
    return tuple(part for part in features(model, options, path) if part is not None)
