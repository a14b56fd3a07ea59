"""PLN on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallies.cli.options import Option
from tallies.cli.tables import column, data, names, rows_of
from tallies.counts.door import everything, from_files, is_own, read_covariates
from tallies.counts.tables import row_names
from tallies.counts.written import Ask, places, position_names, write_answers
from tallies.data.cells import is_cells, table_beside
from tallies.data.lazy import is_lazy
from tallies.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from tallies.evaluation.score import Scored

OPTIONS = (
    data("Counts, samples x species: csv, tsv, parquet, mtx, h5ad or biom, or a folder of such tables."),
    Option("covariates", "Table of covariates, a row a sample; also names of columns of the folder, or of obs (h5ad).", kind=Path),
    Option("formula", 'Of the covariates, such as "~ 1 + site"; default: all of them.'),
    Option("offsets", "logsum, tss, css, rle, gmpr, tmm, wrench, or a table of logarithms."),
)
PREDICT = SCORE = (
    Option("covariates", "Covariates of these samples, where the fit had any; not needed for its own counts.", kind=Path),
    Option("offsets", "Offsets of these samples, where the fit read its own from a file; not needed for its own counts."),
)
REPORT = (*SCORE, Option("group", "Column of the covariates that colours the map."))


def fit(model: Any, options: Mapping[str, Any], **run: Any) -> Any:
    """Fit a PLN to the tables that the options name: data, covariates, formula, offsets."""
    whole = options.get("rows") is None  # none of the rows are held out
    counts, table, offsets = tables(options, options["data"], whole and model._keeps_sparse(model._settings()))
    if table is not None:
        return model.fit_formula(options.get("formula") or everything(table), counts, table, offsets=offsets, **run)
    if options.get("formula"):
        raise DataError("--formula needs --covariates, the table of its variables")
    return model.fit(counts, offsets=offsets, **run)


def tables(options: Mapping[str, Any], path: str, keeps: bool = False) -> tuple[Any, Any, Any]:
    """Counts, and the covariates and offsets of these samples; `keeps`: see `from_files`. Where the target is no covariate, it may
    be a column of the counts."""
    told: str | None = options.get("covariates")
    beside: Any = None
    if told:
        beside = beside_of(told) if is_cells(path) or is_lazy(path) else Path(told)
        beside = read_covariates(beside) if isinstance(beside, Path) else beside
    elif options.get("formula") and is_cells(path):
        beside = table_beside(path)
    label = None if beside is not None and options.get("target") in beside else options.get("target")
    counts, covariates, offsets, _ = from_files(path, beside, options.get("offsets"), keeps=keeps, label=label)
    if options.get("rows") is None:
        return counts, covariates, offsets
    some = _rows_of(counts, options)

    def of_these(part: Any) -> Any:
        """Those of the same samples: by their names where both have them, else by their places."""
        if not hasattr(part, "iloc"):  # a rule, or nothing
            return part
        both = row_names(part) is not None and row_names(counts) is not None
        return part[part.index.isin(some.index)] if both else _rows_of(part, options)

    return some, of_these(covariates), of_these(offsets)


def _rows_of(table: Any, options: Mapping[str, Any]) -> Any:
    """Rows of a table, numbered from 0 on where they have no names."""
    some = rows_of(table, options)
    return some.reset_index(drop=True) if row_names(table) is None else some


def asked(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, Any, Any]:
    """Counts that a fitted model is asked of, with their covariates and offsets: those of the line, and none for its own counts."""
    both = "covariates", "offsets"
    known = both if options.get("rows") else options.get("told", ())  # rows held out of the fit have theirs in the same files
    told = {name: options.get(name) if name in known else None for name in both}
    if told["covariates"] is None and is_cells(path):  # the columns of obs that the fit has taken are in this file, too
        had = options.get("covariates")
        told |= {"formula": options.get("formula"), "covariates": had if had and not Path(had).is_file() else None}
    counts, covariates, offsets = tables({**told, "rows": options.get("rows")}, path)
    fitted = model.fitted_
    if not is_own(fitted, model._table(counts)):
        if covariates is None and list(fitted.design.names) not in (["intercept"], ["Intercept"]):
            had = f"the model was fitted with covariates ({', '.join(map(str, fitted.design.names))})"
            raise DataError(f"{had}; pass those of the samples in {path!r}: --covariates FILE")
        if offsets is None and fitted.data.rule is None and options.get("offsets"):
            raise DataError(f"the model was fitted with offsets; pass those of the samples in {path!r}: --offsets FILE")
    return counts, covariates, offsets


def predict_files(model: Any, options: Mapping[str, Any], path: str, out: Any, ask: Ask = places) -> Any:
    """The same of counts that are more than fit into memory, as a folder; None where they do."""
    if not is_lazy(path):
        return None
    return write_answers(model, path, *_beside_files(options), out, ask)


def _beside_files(options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Covariates and offsets of samples in files: those of the line, or columns with the names that the fit has taken."""
    told, had = options.get("told", ()), options.get("covariates")
    covariates = beside_of(had) if had and ("covariates" in told or not Path(had).is_file()) else None
    return covariates, Path(options["offsets"]) if "offsets" in told else None


def beside_of(told: str) -> Path | list[str]:
    """What --covariates names beside counts that are cells, or in a folder: a table, or columns of theirs."""
    return Path(told) if Path(told).is_file() else names(told)


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """Latent positions of the samples."""
    import pandas as pd

    counts, covariates, offsets = asked(model, options, path)
    Z = model.transform(counts, covariates=covariates, offsets=offsets)
    return with_samples(pd.DataFrame(Z, index=counts.index, columns=position_names(model)), counts)


def with_samples(answers: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Answers after the names of their samples, where these have any."""
    if row_names(counts) is not None:
        answers.insert(0, "sample", counts.index)
    return answers


def in_their_order(part: Any, names: Any) -> Any:
    """A table or a column of one in the order of these names of samples, where both have names."""
    return part if names is None or row_names(part) is None else part.reindex(names)


def score(model: Any, options: Mapping[str, Any], path: str, seed: int = 0) -> tuple[dict[str, Any], Scored]:
    """The bound and the importance sampling estimate of the log likelihood of a sample."""
    kinds = ("importance",) if model.elbo_ is None else ("variational", "importance")
    kinds = kinds[:1] if model.fitted_.model.inflation is not None else kinds  # draws know no structural zeros
    found = {kind: model._evaluate(*asked(model, options, path), method=kind, random_state=seed) for kind in kinds}
    return {kind: scored.score._asdict() for kind, scored in found.items()}, found[kinds[-1]]


def sample(model: Any, options: Mapping[str, Any], n: int, seed: int | None) -> pd.DataFrame:
    """New counts."""
    import pandas as pd

    return pd.DataFrame(model.sample(n, random_state=seed), columns=list(model._columns()))


def report_data(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, ...]:
    """What a report judges the model by."""
    return asked(model, options, path)


def report_options(model: Any, options: Mapping[str, Any], path: str | None) -> tuple[str | None, dict[str, Any]]:
    """With --group a column of the covariates of the fit, by which the map of its samples is coloured."""
    name = options.get("group")
    if name is None:
        return path, {}
    counts, table, _ = tables(options, options["data"])
    if table is None:
        raise DataError("--group names a column of the covariates, but this RUN has none; fit with --covariates")
    return path, {"colour": {name: column(in_their_order(table, row_names(counts)), name, "--group").to_numpy()}}
