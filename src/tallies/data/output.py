"""Tables to files: what a spreadsheet would calculate is escaped, and comes back as it was."""

from __future__ import annotations

import csv
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallies.data import dialect
from tallies.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"'*[=+\-@\t\r]")  # how a text begins that a spreadsheet would calculate, or that is escaped already
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def escaped(frame: pd.DataFrame) -> pd.DataFrame:
    """A table for spreadsheets: texts that begin as a formula does have an apostrophe before it, and so have names of columns.

    >>> import pandas as pd
    >>> escaped(pd.DataFrame({"a": ["=1+1", "x", "-2"]}))["a"].tolist()
    ["'=1+1", 'x', '-2']
    """
    from pandas.api.types import is_numeric_dtype

    def told(value: Any) -> Any:
        formula = isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value)
        return f"'{value}" if formula else value

    new = frame.copy(deep=False)
    for i in range(len(frame.columns)):
        column = frame.iloc[:, i]
        if not is_numeric_dtype(column.dtype):
            texts = column.astype(object)
            changed = texts.map(told)
            if (changed != texts)[texts.notna()].any():
                new.isetitem(i, changed.to_numpy())
    new.columns = [told(name) for name in frame.columns]
    return new


def write_frame(frame: pd.DataFrame, path: str | Path, escape: bool = True) -> None:
    """Write a table in the format of its suffix, atomically; csv and tsv `escaped` for spreadsheets, unless told not to."""
    from tallies.data.files import kind_of
    from tallies.disk import atomic

    kind = kind_of(path)
    if kind in ("xlsx", "feather") or str(path).lower().endswith(".zip"):
        raise DataError(
            f"expected a table to write as .csv, .tsv (also .gz), .jsonl or .parquet, got {Path(path).name!r}; rename it"
        )
    with atomic(path) as part:
        if kind == "parquet":
            with closing(dialect.connect()) as base:
                base.register("frame", frame.rename(columns=str))
                base.execute(f"COPY (SELECT * FROM frame) TO {dialect.quoted(str(part))} (FORMAT parquet)")
        elif kind == "jsonl":
            frame.to_json(part, orient="records", lines=True)
        else:
            squeeze: Any = "gzip" if str(path).endswith(".gz") else None
            suffix = Path(str(path).removesuffix(".gz")).suffix.lower()
            write_csv(frame, part, escape, sep="," if suffix == ".csv" else "\t", compression=squeeze)


def write_csv(frame: pd.DataFrame, target: Any, escape: bool, **more: Any) -> str | None:
    """Write a table as csv, or with no target give it as text."""
    told = escaped(frame) if escape else frame
    texts = told.select_dtypes(exclude="number").astype(object)
    lone = any(isinstance(value, str) and "\r" in value for value in (*told.columns, *texts.to_numpy().ravel()))
    quoting: Any = csv.QUOTE_NONNUMERIC if lone else csv.QUOTE_MINIMAL  # which leaves a carriage return without quotes
    return told.to_csv(target, index=False, quoting=quoting, **more)
