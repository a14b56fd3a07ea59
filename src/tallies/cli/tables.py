"""Tables named on the command line, and the commands of models that tell a target from the other columns."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallies.cli.options import TABLES, Option
from tallies.errors import DataError, nearest

if TYPE_CHECKING:
    import pandas as pd

    from tallies.data.kinds import Columns
    from tallies.evaluation.score import Scored

LISTED = 25  # columns that a fit tells of; of more, those that are left out


def names(text: str) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in text.split(",")]


def pairs(text: str) -> dict[str, str]:
    """Pairs name=value with commas between."""
    found = [pair.rpartition("=") for pair in text.split(",")]
    if not all(name.strip() for name, _, _ in found):
        raise DataError(f"--kinds takes column=number or column=category, with commas between; got {text!r}")
    return {name.strip(): value.strip() for name, _, value in found}


def data(help: str) -> Option:
    """The argument DATA."""
    return Option("data", help, kind=Path, flag="DATA", needed=True)


TARGET = Option("target", "Column with the class.", flag="target,t", needed=True)
COLUMNS = Option("columns", "Columns to use, comma separated; default: all but the target.", parse=names)
WEIGHTS = Option("weights", "Column with row weights.")
CHOICE = (
    Option("drop", "Columns to leave out, comma separated.", parse=names),
    Option("keep", "Columns to use whatever they are: ids, dates, constant ones.", parse=names),
    Option("kinds", "What columns are: column=number or column=category, comma separated.", kind=Any, parse=pairs),
)
OPTIONS = (
    data("Table: csv of any dialect, xlsx, parquet, jsonl, ...; also .gz, .zip; or a folder of such files."),
    TARGET,
    COLUMNS,
    WEIGHTS,
    *CHOICE,
)

COUNTING = (  # which words of texts count
    Option("min_df", "Drop words in fewer documents (below 1: a share).", 1, int | float),
    Option("max_df", "Drop words in more documents (up to 1: a share).", 1.0, int | float),
    Option("stop_words", "Words to leave out: auto (of the language that is seen), a language such as german, or none.", "auto"),
    Option("stem", "Cut words to their stems.", False, bool),
    Option("bigrams", "Pairs of neighbouring words count as words, too.", False, bool),
    Option("emoji", "Emoji count as words, too.", False, bool),
)


def document_bound(key: str, value: Any) -> Any:
    """A bound on document frequency: a share as it is, a number of documents as a whole one; 1 is all but for the lower bound."""
    if not isinstance(value, float | int):
        raise DataError(f"--{key.replace('_', '-')} must be a number of documents or a share below 1, got {value!r}")
    return int(value) if value > 1 or (value == 1 and key == "min_df") else float(value)


def no_stop_words(options: dict[str, Any]) -> dict[str, Any]:
    """Options of counting in which the word none, for TOML has no other, is None."""
    return options | {"stop_words": None} if options.get("stop_words") == "none" else options


def check_column(names: Collection[Any], name: str, option: str) -> None:
    """Refuse a column that an option names and a table does not have."""
    if name not in names:
        raise DataError(f"{option} names the column {name!r}, which the table does not have; {nearest(name, map(str, names))}")


def column(frame: pd.DataFrame, name: str, option: str) -> pd.Series:
    """A column that an option names."""
    check_column(frame.columns, name, option)
    return frame[name]


def rows_of(data: Any, options: Mapping[str, Any]) -> Any:
    """The rows that are fitted, or those held out, where the options say so, of a table, corpus, array or list; see `holdout`."""
    rows = options.get("rows")
    if rows is None or data is None or isinstance(data, str):
        return data
    if isinstance(data, list):
        return [data[i] for i in rows(len(data))]
    return data.iloc[rows(len(data))] if hasattr(data, "iloc") else data[rows(len(data))]


def chosen(frame: pd.DataFrame, options: Mapping[str, Any], model: Any = None) -> tuple[pd.DataFrame, Any, Columns]:
    """The columns that a model is fitted to, the weights, and what became of all columns."""
    from tallies.data import kinds

    roles = {options[role]: role for role in ("target", "weights") if options.get(role) is not None}
    weight = column(frame, options["weights"], "--weights").to_numpy() if options.get("weights") else None
    asked = options.get("columns")
    told = {key: options.get(key) or () for key in ("drop", "keep")} | {"kinds": options.get("kinds")}
    for key in ("drop", "keep", "kinds"):
        for name in told[key] or ():
            column(frame, name, f"--{key}")
            if name in roles:
                raise DataError(f"--{key} names {name!r}, which is the column of --{roles[name]}; leave it out of one of them")
    if asked is not None:
        wanted = {column(frame, name, "--columns").name for name in asked}
        told["drop"] = [*told["drop"], *(name for name in frame if name not in wanted | set(roles) | {*told["keep"]})]
        told["keep"] = [*told["keep"], *(name for name in asked if name not in roles and name not in told["drop"])]
    found = kinds.describe(frame, roles=roles, model=model, **told)
    X = kinds.chosen(frame, found)
    if not len(X.columns):
        raise DataError("no column is left to fit: " + "; ".join(f"{a} {b}" for a, b in zip(found.names, found.uses, strict=True)))
    return X[[name for name in asked if name in X]] if asked is not None else X, weight, found


def told_columns(columns: Columns) -> str:
    """The table of columns, for a person; of many, those that are not simply used."""
    table = columns.table()
    if len(table) <= LISTED:
        return table.to_string(index=False)
    used = table[table["use"] == "used"]
    kinds = ", ".join(f"{count:,} x {kind}" for kind, count in used["kind"].value_counts().items())
    rest = table[table["use"] != "used"]
    return "\n".join([f"{len(used):,} columns used ({kinds})", *([rest.to_string(index=False)] if len(rest) else [])])


def say_first(columns: Columns, run: dict[str, Any]) -> dict[str, Any]:
    """Options of a run that tell of the columns when the data have passed the door, before the work goes on."""
    after, text = run.get("callback"), [told_columns(columns)]

    def callback(*state: Any) -> Any:
        while text:
            logging.getLogger("tallies").info("%s", text.pop())
        return after(*state) if after is not None else None

    return {**run, "callback": callback}


def with_ids(model: Any, frame: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Answers with the columns before them that name the rows: ids of the fit, where the table has them."""
    columns = model.fitted_.inputs.columns
    ids = [] if columns is None else [n for n in columns.names if columns.kind(n) == "id" and n in frame and n not in answers]
    for place, name in enumerate(ids):
        answers.insert(place, name, frame[name].to_numpy())
    return answers


def read_once(path: str) -> pd.DataFrame:
    """A table; it is read once in a block of `read_as`, however many parts of the command ask for it."""
    from tallies.data.files import read_table

    found = TABLES.get({})
    if path not in found:
        found[path] = read_table(path)
    return found[path].copy(deep=False)


def _read(options: Mapping[str, Any], path: str, need_target: bool) -> tuple[pd.DataFrame, pd.Series | None]:
    """A table, and its target."""
    frame, target = read_once(path), options["target"]
    if not len(frame):
        raise DataError(f"{path!r} has a header but no rows; there is nothing to work on")
    y = column(frame, target, "--target") if need_target or target in frame else None
    return frame, y


def labels(options: Mapping[str, Any]) -> Any:
    """The classes of all rows, over which rows are held out evenly."""
    from tallies.data.cells import is_cells
    from tallies.data.lazy import is_lazy

    if is_lazy(options["data"]) or is_cells(Path(options["data"])):
        raise DataError("of a table that is not in memory no rows are held out; keep a file of it apart, for `tallies score`")
    return _read(options, options["data"], need_target=True)[1]


def features(model: Any, options: Mapping[str, Any], path: str, need_target: bool = False) -> tuple[Any, Any]:
    """What a model is asked of in another table: its columns, and the target where it is there; of cells the file itself."""
    from tallies.data.cells import beside, is_cells
    from tallies.data.kinds import fitted_columns

    if is_cells(Path(path)):
        return Path(path), beside(Path(path), options["target"], "target") if need_target else None
    frame, y = _read(options, path, need_target)
    return rows_of(fitted_columns(model, frame, path), options), rows_of(y, options)


def fit(model: Any, options: Mapping[str, Any], **run: Any) -> Any:
    """Fit a model to the table that the options name; a folder of files, or a large one, is never in memory whole."""
    from tallies.data.cells import is_cells
    from tallies.data.lazy import is_lazy

    if is_cells(Path(options["data"])):
        told = next((key for key in ("columns", "drop", "keep", "kinds") if options.get(key)), None)
        if told is not None:
            raise DataError(f"--{told} is for tables; of cells all columns are used: select them in the file")
        return model.fit(options["data"], options["target"], sample_weight=options.get("weights"), **run)
    if is_lazy(options["data"]):
        table, roles = pieces(options)
        return model.fit(
            table, options["target"], sample_weight=options.get("weights"), **say_first(table.columns(roles, model), run)
        )
    frame, y = _read(options, options["data"], need_target=True)
    X, weight, columns = chosen(frame, options, model)
    X, y, weight = (rows_of(part, options) for part in (X, y, weight))
    return model.fit(X, y, sample_weight=weight, **say_first(columns, run))


def pieces(options: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """A table beyond memory with what the options say of its columns, and the columns that have another use."""
    from tallies.data.lazy import open_table

    if options.get("kinds"):
        raise DataError("--kinds is for tables in memory; write the columns as numbers, or as texts, where they are made")
    table = open_table(options["data"])
    roles = {options[role]: role for role in ("target", "weights") if options.get(role) is not None}
    for key in ("target", "weights", "columns", "drop", "keep"):
        told = options.get(key) or ()
        for name in [told] if isinstance(told, str) else told:
            check_column(table.facts, name, f"--{key}")
    asked, drop, keep = (options.get(key) or [] for key in ("columns", "drop", "keep"))
    others = [name for name in table.facts if name not in {*asked, *keep}] if asked else []
    return table._replace(drop=[*drop, *others], keep=[*keep, *asked]), roles


def predict(model: Any, options: Mapping[str, Any], path: str, more: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """One row a row: its ids, the predicted class, the probability of each, and `more`, functions of the features."""
    from tallies.answering import called
    from tallies.data.cells import is_cells, names_of_rows
    from tallies.data.kinds import fitted_columns

    if is_cells(Path(path)):
        found = called(model, model.predict_proba(path))
        found.insert(0, "id", names_of_rows(path))
        return found.assign(**{name: answer(path) for name, answer in (more or {}).items()})
    frame, _ = _read(options, path, need_target=False)
    X = fitted_columns(model, frame, path)
    shares = called(model, model.predict_proba(X))
    return with_ids(model, frame, shares.assign(**{name: answer(X) for name, answer in (more or {}).items()}))


def predict_files(model: Any, options: Mapping[str, Any], path: str, out: Any) -> Any:
    """The same of a table that is more than fits into memory, as a folder; None where it does."""
    from tallies.data.cells import matrix_of
    from tallies.data.lazy import is_lazy

    return model.predict(path, out=out) if is_lazy(path) or matrix_of(path) is not None else None


def score(model: Any, options: Mapping[str, Any], path: str, seed: int = 0) -> tuple[dict[str, Any], Scored]:
    """Accuracy, log loss, Brier score, confusion matrix, and the mean log p(x, y), which is also what `compare` goes by."""
    from tallies.evaluation.classification import classification

    X, y = features(model, options, path, need_target=True)
    found = model._evaluate(X, y)
    return classification(model, X, y, found), found


def log_likelihood(found: Scored) -> tuple[dict[str, Any], Scored]:
    """A score under the names that `tallies score` prints, and as it is."""
    return {"log_likelihood": found.value, "stderr": found.stderr, "unit": found.unit, "kind": found.kind}, found


def report_data(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, ...]:
    """What the report judges the model by."""
    return tuple(part for part in features(model, options, path) if part is not None)
