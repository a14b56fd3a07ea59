"""FEMNetwork on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallies.cli.tables import (
    CHOICE,
    COLUMNS,
    WEIGHTS,
    chosen,
    data,
    log_likelihood,
    pieces,
    read_once,
    rows_of,
    say_first,
    with_ids,
)
from tallies.data.fasta import is_alignment, read_fasta
from tallies.data.kinds import fitted_columns
from tallies.data.lazy import is_lazy
from tallies.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from tallies.evaluation.score import Scored

OPTIONS = (
    data("Table of categories (csv, xlsx, jsonl, parquet, ...), a folder of such files, or an alignment in FASTA."),
    COLUMNS,
    WEIGHTS,
    *CHOICE,
)


def _table(path: str) -> pd.DataFrame:
    """A table, or an alignment in FASTA."""
    return read_fasta(path) if is_alignment(path) else read_once(path)


def in_order(model: Any) -> bool:
    """Whether rows follow one another in time, so that only the last ones can be held out."""
    return bool(model.lag)


def fit(model: Any, options: Mapping[str, Any], **run: Any) -> Any:
    """Fit a model to the table that the options name."""
    if is_lazy(options["data"]):
        if options.get("rows") is not None:
            raise DataError("of a table that is not in memory no rows are held out; keep a file of it apart, for `tallies score`")
        table, roles = pieces(options)
        return model.fit(table, sample_weight=options.get("weights"), **say_first(table.columns(roles), run))
    X, weight, columns = chosen(_table(options["data"]), options)
    return model.fit(rows_of(X, options), sample_weight=rows_of(weight, options), **say_first(columns, run))


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """One row a row: log p of each cell given the rest, and the energy."""
    import pandas as pd

    table = _table(path)
    X = fitted_columns(model, table, path)
    logs = pd.DataFrame(model.log_conditional(X), columns=[f"log p({name})" for name in model.categories_.names])
    return with_ids(model, table, logs.assign(energy=model.energy(X)))


def score(model: Any, options: Mapping[str, Any], path: str, seed: int = 0) -> tuple[dict[str, Any], Scored]:
    """Mean log p of a row (pseudo-likelihood)."""
    return log_likelihood(model._evaluate(*report_data(model, options, path)))


def sample(model: Any, options: Mapping[str, Any], n: int, seed: int | None) -> pd.DataFrame:
    """New rows; of a series, steps in time."""
    return model.simulate(n, random_state=seed) if model.lag else model.sample(n, random_state=seed)


def report_data(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, ...]:
    """What the report judges the model by."""
    return (fitted_columns(model, rows_of(_table(path), options), path),)
