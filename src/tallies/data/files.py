"""Tables in files: csv, tsv, json lines and parquet, plain or gz, as pandas data frames; and what all readers of files share."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallies.errors import DataError, MissingExtra, TalliesError, need, need_file

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
CELLS = 1 << 31  # more than these a table in memory is not meant to have: 16 GB of numbers
FORMULA = re.compile(r"'*[=+\-@\t\r]")  # how a text begins that a spreadsheet would calculate, or that is escaped already
ESCAPED = re.compile(r"'+[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """An error of ours from the block names the file."""
    try:
        yield
    except MissingExtra:
        raise
    except TalliesError as error:
        if Path(path).name in str(error):
            raise
        raise type(error)(f"{str(path)!r}: {error}") from error


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Whatever goes wrong in the block is an error of ours that names the file: parsers, decompressors and codecs each have
    exceptions of their own.

    >>> with reading("a.csv", "csv"):
    ...     [].pop()
    Traceback (most recent call last):
    ...
    tallies.errors.DataError: 'a.csv' cannot be read as csv: pop from empty list; is it complete, and of the format its name says?
    """
    with naming(path):
        try:
            yield
        except TalliesError:
            raise
        except UnicodeDecodeError as error:
            raise DataError(f"expected UTF-8, but {_bad_line(path)} {str(path)!r} is not; convert it, as with iconv") from error
        except Exception as error:
            told = " ".join(str(error).split())[:300] or type(error).__name__
            more = "is it complete, and of the format its name says?"
            if isinstance(error, MemoryError):
                more = f"it asks for more memory than there is: {more} If so, cut it into parts"
            raise DataError(f"{str(path)!r} cannot be read as {what}: {told}; {more}") from error


def open_bytes(path: str | Path) -> Any:
    """A file, looked through .gz."""
    return gzip.open(path, "rb") if Path(path).suffix.lower() == ".gz" else open(path, "rb")


def _bad_line(path: str | Path) -> str:
    """The first line of a file that is not UTF-8."""
    with suppress(OSError, EOFError, zlib.error), open_bytes(path) as file:  # it may be broken further on, too
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return f"line {number} of"
    return "some text of"


def refuse_nul(path: str | Path) -> None:
    """Refuse a text file with a NUL byte: readers of text end there without a word, or die."""
    line = 1
    with open_bytes(path) as file:
        while block := file.read(1 << 20):
            at = block.find(b"\0")
            line += block.count(b"\n", 0, at if at >= 0 else len(block))
            if at >= 0:
                raise DataError(
                    f"line {line} of {str(path)!r} holds a NUL byte, so it is no text, or damaged, or UTF-16; fetch it again, "
                    "or convert it, as with iconv -t utf-8"
                )


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
    """Read a table with one header row. A missing, empty, ragged or undecodable file is an error that says so, with the line.

    Labels that `write_frame` has escaped for spreadsheets come back as they were. Dates in json lines stay texts, as in csv.
    """
    import pandas as pd

    from tallies.data.table import check_names

    kind, path = kind_of(path), need_file(path, "a table")
    with reading(path, kind):
        if kind == "parquet":
            need("pyarrow", "parquet", "Reading parquet")
            frame = pd.read_parquet(path)
        elif kind == "jsonl":
            from tallies.data.text import json_lines

            for _ in json_lines(path, flat=True):  # pandas does not say in which line it fails
                pass
            frame = pd.read_json(path, lines=True, convert_dates=False)
        else:
            separator = "\t" if kind == "tsv" else ","
            refuse_nul(path)
            with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as text:
                check_header(text, separator, str(path))
            frame = unescaped(pd.read_csv(path, sep=separator, low_memory=False))
        if not len(frame.columns):
            raise DataError(f"{str(path)!r} is empty; expected columns with names, and rows")
        check_names(frame)
        _check_cells(frame)
        return frame


def check_header(text: Iterable[str], separator: str, path: str) -> None:
    """Refuse a table of text that is empty or has two columns of one name, of which pandas would rename the second."""
    import pandas as pd

    from tallies.data.table import check_names

    header = next(csv.reader(text, delimiter=separator), [])
    if not header:
        raise DataError(f"{path!r} is empty; expected a header row and data")
    check_names(pd.DataFrame(columns=header))


def _check_cells(frame: pd.DataFrame) -> None:
    """Refuse lists and records in the cells of a table, which parquet may hold."""
    from pandas.api.types import infer_dtype

    for name, column in frame.items():
        if column.dtype == object and infer_dtype(column, skipna=True) == "mixed":
            for row, value in enumerate(column, 1):
                if hasattr(value, "__len__") and not isinstance(value, str | bytes):
                    raise DataError(f"column {name!r} holds a {type(value).__name__} in row {row}; expected a number or a text")


def escaped(frame: pd.DataFrame) -> pd.DataFrame:
    """A table for spreadsheets: texts that begin as a formula does have an apostrophe before it, and so have names of columns.

    >>> import pandas as pd
    >>> escaped(pd.DataFrame({"a": ["=1+1", "x", "-2"]}))["a"].tolist()
    ["'=1+1", 'x', '-2']
    """
    return _mapped(frame, lambda text: f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text)


def unescaped(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of `escaped` as it was."""
    return _mapped(frame, lambda text: text[1:] if ESCAPED.match(text) else text)


def _mapped(frame: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    """A table with every text changed, and the names of its columns; what is no text stays."""
    from pandas.api.types import is_numeric_dtype

    def told(value: Any) -> Any:
        return change(value) if isinstance(value, str) else value

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
            write_csv(frame, part, escape, sep="\t" if kind == "tsv" else ",", compression=squeeze)


def write_csv(frame: pd.DataFrame, target: Any, escape: bool, **more: Any) -> str | None:
    """Write a table as csv, or with no target give it as text."""
    told = escaped(frame) if escape else frame
    texts = told.select_dtypes(exclude="number").astype(object)
    lone = any(isinstance(value, str) and "\r" in value for value in (*told.columns, *texts.to_numpy().ravel()))
    quoting: Any = csv.QUOTE_NONNUMERIC if lone else csv.QUOTE_MINIMAL  # which leaves a carriage return without quotes
    return told.to_csv(target, index=False, quoting=quoting, **more)
