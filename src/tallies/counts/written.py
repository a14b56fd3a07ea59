"""Answers to samples whose counts are more than fits into memory: read in pieces, written as a folder of Parquet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallies.answering import beside, called, goes_out, refuse_beside, write_parts
from tallies.data.lazy import open_table
from tallies.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


Ask = Callable[[Any, Any, Any], Any]  # of a model, counts and covariates: a data frame


def write_answers(model: Any, counts: Any, covariates: Any, offsets: Any, out: Any, ask: Ask) -> Path:
    """Write what is asked of every sample, with its ids, to the folder `out`; covariates are columns of the same table. `ask` is a
    function of a module."""
    goes_out(counts, out)
    names = model.fitted_.inputs.names
    regressors = [] if covariates is None else [covariates] if isinstance(covariates, str) else covariates
    if names is None:
        raise DataError(
            "counts in files are matched by the names of their columns, and those of the fit had none; fit a data frame"
        )
    if not isinstance(regressors, list) or offsets is not None:
        raise DataError(
            "of counts that go to files by out=, covariates are names of columns of the same table, and offsets the rule of the fit"
        )
    table, species = open_table(counts), [str(name) for name in names]
    for name in species:
        table.need(name, "counts of a column of the fit")
    for name in regressors:
        table.need(name, "covariates")
    ids = [name for name, fact in table.facts.items() if name not in (*species, *regressors) and fact.kind == "id"]
    refuse_beside(table, out)
    of_piece = partial(_answers, species, regressors, ids, ask)
    return write_parts(model, table.pieces, table.cells([*species, *regressors, *ids]), table.rows, out, of_piece)


def _answers(species: list[str], regressors: list[str], ids: list[str], ask: Ask, model: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """Those to the samples of a piece, after their ids."""
    return beside(frame[ids], ask(model, frame[species], frame[regressors] if regressors else None))


def places(model: Any, counts: Any, covariates: Any) -> pd.DataFrame:
    """Latent positions."""
    import pandas as pd

    return pd.DataFrame(model.transform(counts, covariates=covariates), columns=position_names(model))


def classes(model: Any, counts: Any, covariates: Any) -> pd.DataFrame:
    """The class of each sample, and the probability of each."""
    return called(model, model.predict_proba(counts, covariates=covariates))


def position_names(model: Any) -> list[str]:
    """Of latent positions: the columns of the fit, or its components."""
    rank = model.fitted_.model.rank
    return list(model._columns()) if rank is None else [f"component{k + 1}" for k in range(rank)]
