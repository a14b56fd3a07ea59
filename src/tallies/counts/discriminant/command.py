"""PLNDiscriminant on the command line: tables as of a PLN, with a column of classes among the covariates, the counts, or
in obs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallies.cli.options import Option
from tallies.cli.tables import rows_of
from tallies.counts import command
from tallies.counts.command import PREDICT, beside_of, in_their_order, with_samples
from tallies.counts.door import everything, from_pieces, read_covariates
from tallies.counts.tables import row_names
from tallies.counts.written import classes
from tallies.data.cells import is_cells, table_beside
from tallies.data.lazy import is_lazy
from tallies.errors import DataError, nearest

if TYPE_CHECKING:
    import pandas as pd

    from tallies.evaluation.score import Scored

OPTIONS = (
    *command.OPTIONS,
    Option("target", "Column with the class, of the covariates, of the counts, or of obs.", flag="target,t", needed=True),
)
SCORE = REPORT = PREDICT


def _apart(options: Mapping[str, Any], path: str, told: Mapping[str, Any], needed: bool = True) -> tuple[Any, Any, Any, Any]:
    """The tables that are told of, counts, covariates and offsets, without the column of classes, and that."""
    name = options["target"]
    counts, table, offsets = command.tables({**told, "rows": options.get("rows"), "target": name}, path)
    if table is not None and name in table:
        rest = table.drop(columns=name)
        return counts, rest if len(rest.columns) else None, offsets, in_their_order(table[name], row_names(counts))
    if name in counts:
        return counts.drop(columns=name), table, offsets, counts[name]
    obs = table_beside(path) if is_cells(path) else None
    if obs is not None and name in obs:
        return counts, table, offsets, rows_of(obs[name], options)
    if needed:
        known = [str(column) for part in (table, obs, counts) if part is not None for column in part]
        raise DataError(f"--target names the column {name!r}, which no table has; {nearest(name, known)}")
    return counts, table, offsets, None


def _in_pieces(options: Mapping[str, Any], path: str, told: Mapping[str, Any]) -> tuple[Any, Any, Any, Any]:
    """The same of counts in files, where they stay."""
    name, beside = options["target"], beside_of(told["covariates"]) if told.get("covariates") else None
    table = read_covariates(beside) if isinstance(beside, Path) else None
    if table is None or name not in table:
        counts, columns, _, y = from_pieces(path, beside, None, name)
        return counts, columns if table is None else table, told.get("offsets"), y
    counts, *_ = from_pieces(path, None, None)
    rest, y = table.drop(columns=name), in_their_order(table[name], counts.obs_names)
    return counts, rest if len(rest.columns) else None, told.get("offsets"), y


def fit(model: Any, options: Mapping[str, Any], **run: Any) -> Any:
    """Fit to the tables that the options name: data, covariates, formula, offsets, target."""
    pieces = is_lazy(options["data"]) and options.get("rows") is None  # none of the rows are held out
    counts, table, offsets, y = (_in_pieces if pieces else _apart)(options, options["data"], options)
    if table is not None:
        return model.fit_formula(options.get("formula") or everything(table), counts, table, y, offsets=offsets, **run)
    if options.get("formula"):
        raise DataError("--formula needs --covariates, the table of its variables")
    return model.fit(counts, y, offsets=offsets, **run)


def labels(options: Mapping[str, Any]) -> Any:
    """The classes of all rows, over which rows are held out evenly."""
    return _apart({**options, "rows": None}, options["data"], options)[3]


def _asked(model: Any, options: Mapping[str, Any], path: str, needed: bool) -> tuple[Any, Any, Any, Any]:
    """Counts that a fitted model is asked of, their covariates and offsets, and their classes where they are known."""
    own = str(path) == str(options.get("data")) or options.get("rows")
    told = {name: options.get(name) if own or name in options.get("told", ()) else None for name in ("covariates", "offsets")}
    return _apart(options, path, told, needed)


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """One row a sample: the predicted class, and the probability of each."""
    import pandas as pd

    counts, covariates, offsets, _ = _asked(model, options, path, needed=False)
    shares = model.predict_proba(counts, covariates=covariates, offsets=offsets)
    table = pd.DataFrame(shares, columns=[f"p({name})" for name in model.classes_.tolist()])
    table.insert(0, "prediction", model.classes_[shares.argmax(axis=1)])
    return with_samples(table, counts)


def predict_files(model: Any, options: Mapping[str, Any], path: str, out: Any) -> Any:
    """The same of counts that are more than fit into memory, as a folder; None where they do."""
    return command.predict_files(model, options, path, out, classes)


def score(model: Any, options: Mapping[str, Any], path: str, seed: int = 0) -> tuple[dict[str, Any], Scored]:
    """Accuracy, log loss, Brier score, confusion matrix, and the bound on the mean log p(counts, class)."""
    from tallies.evaluation.classification import classification

    counts, covariates, offsets, y = _asked(model, options, path, needed=True)
    found = model._evaluate(counts, y, covariates, offsets)
    return classification(model, counts, y, found, covariates=covariates, offsets=offsets), found


def sample(model: Any, options: Mapping[str, Any], n: int, seed: int | None) -> pd.DataFrame:
    """New counts, with their class in the target's column."""
    import pandas as pd

    counts, y = model.sample(n, random_state=seed)
    return pd.DataFrame(counts, columns=list(model._columns())).assign(**{options["target"]: y})


def report_data(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, ...]:
    """What a report judges the model by."""
    counts, covariates, offsets, y = _asked(model, options, path, needed=False)
    return counts, y, covariates, offsets
