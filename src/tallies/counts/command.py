"""PLN on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallies.counts.tables import read_counts
from tallies.data.files import read_frame
from tallies.errors import DataError, nearest

if TYPE_CHECKING:
    import pandas as pd


def read_covariates(path: str) -> pd.DataFrame:
    """A table of covariates; a first column of distinct texts names the rows."""
    import pandas as pd

    frame = read_frame(path)
    first = frame.columns[0]
    if not pd.api.types.is_numeric_dtype(frame[first]) and frame[first].is_unique:
        frame = frame.set_index(first, drop=False)
        frame.index.name = None
    return frame


def read_offsets(value: str | None) -> Any:
    """None, the name of a rule, or a table of logarithms."""
    from tallies.counts.offsets import OFFSETS

    if value is None or value in OFFSETS:
        return value
    if not Path(value).exists() and "." not in value:
        raise DataError(f"--offsets must be a rule or a file, got {value!r}; {nearest(value, sorted(OFFSETS))}")
    return read_counts(value).to_numpy(dtype=float)


def fit(model: Any, options: Mapping[str, Any], **run: Any) -> Any:
    """Fit a PLN to the tables that the options name: data, covariates, formula, offsets."""
    counts, offsets = read_counts(options["data"]), read_offsets(options.get("offsets"))
    if not options.get("covariates"):
        if options.get("formula"):
            raise DataError("--formula needs --covariates, the table of its variables")
        return model.fit(counts, offsets=offsets, **run)
    table = _aligned(read_covariates(options["covariates"]), counts)
    return model.fit_formula(options.get("formula") or _everything(table), counts, table, offsets, **run)


def _everything(table: pd.DataFrame) -> str:
    """A formula of all columns, leaving out one that only names the rows."""
    names = [c for c in table.columns if list(table[c]) != list(table.index)]
    return "~ 1 + " + " + ".join(f"`{c}`" for c in names)


def _aligned(table: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Covariates by the order of the rows where the counts have no names."""
    import pandas as pd

    if len(table) != len(counts) and isinstance(counts.index, pd.RangeIndex):
        raise DataError(
            f"the covariates have {len(table)} rows and the counts {len(counts)}; they must match row by row, or by names"
        )
    return table


def _new(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, Any, Any]:
    counts = read_counts(path)
    covariates, offsets = options.get("covariates"), options.get("offsets")
    if hasattr(model, "formula_") and not covariates:
        raise DataError(f"the model was fitted with {model.formula_!r}; give --covariates for the new samples")
    return counts, _aligned(read_covariates(covariates), counts) if covariates else None, read_offsets(offsets)


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """Latent positions of the samples."""
    import pandas as pd

    counts, covariates, offsets = _new(model, options, path)
    Z = model.transform(counts, covariates, offsets)
    names = list(model._columns()) if Z.shape[1] == model.n_features_in_ else [f"component{k + 1}" for k in range(Z.shape[1])]
    table = pd.DataFrame(Z, index=counts.index, columns=names)
    if not isinstance(counts.index, pd.RangeIndex):
        table.insert(0, "sample", counts.index)
    return table


def score(model: Any, options: Mapping[str, Any], path: str, seed: int = 0) -> dict[str, Any]:
    """The bound and the importance sampling estimate of the log likelihood of a sample."""
    counts, covariates, offsets = _new(model, options, path)
    kinds = ("variational", "importance") if model.method == "variational" else ("importance",)
    return {kind: model._evaluate(counts, covariates, offsets, method=kind, random_state=seed)._asdict() for kind in kinds}


def sample(model: Any, options: Mapping[str, Any], n: int, seed: int | None) -> pd.DataFrame:
    """New counts."""
    import pandas as pd

    return pd.DataFrame(model.sample(n, random_state=seed), columns=list(model._columns()))


def report_data(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, ...]:
    """What a report judges the model by."""
    return _new(model, options, path)


def report_group(model: Any, options: Mapping[str, Any], path: str | None, name: str) -> tuple[str | None, dict[str, Any]]:
    """A column of the covariates of the fit, by which the map of its samples is coloured."""
    import pandas as pd

    from tallies.cli.tables import column

    if not options.get("covariates"):
        raise DataError("--group names a column of the covariates, but this RUN has none; fit with --covariates")
    counts = read_counts(options["data"])
    table = _aligned(read_covariates(options["covariates"]), counts)
    if not isinstance(counts.index, pd.RangeIndex) and not isinstance(table.index, pd.RangeIndex):
        table = table.reindex(counts.index)
    return path, {"colour": {name: column(table, name, "--group").to_numpy()}}
