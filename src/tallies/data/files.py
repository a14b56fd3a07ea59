"""Tables in files: csv, tsv, json lines and parquet, plain or gz, as pandas data frames."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallies.data.table import check_names
from tallies.errors import DataError, MissingExtra, need, need_file

if TYPE_CHECKING:
    import pandas as pd

KINDS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def kind_of(path: str | Path) -> str:
    """The format of a table file by its suffix; .gz is looked through.

    >>> kind_of("counts.tsv.gz")
    'tsv'
    """
    kind = KINDS.get(Path(Path(path).name.lower().removesuffix(".gz")).suffix)
    if kind is None:
        raise DataError(f"expected a table as one of {', '.join(KINDS)} (also .gz), got {str(path)!r}; convert or rename it")
    return kind


def read_frame(path: str | Path) -> pd.DataFrame:
    """Read a table with one header row. A missing, empty, ragged or undecodable file is an error that says so."""
    import pandas as pd

    kind, path = kind_of(path), need_file(path, "a table")
    try:
        if kind == "parquet":
            need("pyarrow", "parquet", "Reading parquet")
            return pd.read_parquet(path)
        if kind == "jsonl":
            return pd.read_json(path, lines=True)
        separator = "\t" if kind == "tsv" else ","
        _check_header(path, separator)
        return pd.read_csv(path, sep=separator, low_memory=False)
    except (DataError, MissingExtra):
        raise
    except Exception as error:  # parsers, decompressors and codecs each have exceptions of their own
        raise DataError(
            f"{str(path)!r} cannot be read as {kind}: {error}; is it complete, and of the format its name says?"
        ) from error


def _check_header(path: Path, separator: str) -> None:
    """pandas renames a second column of one name; here that is an error."""
    import pandas as pd

    open_text: Any = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", newline="", encoding="utf-8") as file:
        header = next(csv.reader(file, delimiter=separator), [])
    if not header:
        raise DataError(f"{str(path)!r} is empty; expected a header row and data")
    check_names(pd.DataFrame(columns=header))


def write_frame(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a table in the format of its suffix, atomically."""
    from tallies.disk import atomic

    kind = kind_of(path)
    with atomic(path) as part:
        if kind == "parquet":
            need("pyarrow", "parquet", "Writing parquet")
            frame.to_parquet(part)
        elif kind == "jsonl":
            frame.to_json(part, orient="records", lines=True)
        else:
            squeeze: Any = "gzip" if str(path).endswith(".gz") else None
            frame.to_csv(part, sep="\t" if kind == "tsv" else ",", index=False, compression=squeeze)
