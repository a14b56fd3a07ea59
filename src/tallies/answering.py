"""Answers to more rows than fit into memory: read in pieces, answered on the chosen backend, and written as a folder of Parquet."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallies.backends import each
from tallies.data import dialect
from tallies.data.cells import Cells, Matrix
from tallies.data.kinds import fitted_columns
from tallies.data.lazy import is_lazy, open_table
from tallies.disk import atomic, is_left, own, sync
from tallies.errors import DataError, make_folder

if TYPE_CHECKING:
    import pandas as pd

AT_ONCE = 32  # pieces between two words on progress
UNFINISHED = ".unfinished"  # folder in that of the answers, in which they are till all are there


class Part(NamedTuple):
    """A source: rows to be answered."""

    piece: Any  # `Piece`, or another that has its `frame`
    cells: str
    path: str  # of the answers

    def load(self) -> tuple[Any, str]:
        """The rows, and where the answers go."""
        return self.piece.frame(self.cells), self.path


def write_answers(model: Any, X: Any, out: str | os.PathLike | None, ask: Callable[[Any, Any], Any]) -> Path:
    """Write ask(model, columns of the fit) for every piece of a table beyond memory, with its ids, to the folder `out`.

    `ask` is a function of a module. Files are named by their order, and appear when all are whole.
    """
    table, names = open_table(X), model.feature_names_in_.tolist()
    for name in names:
        table.need(name, "values of a column of the fit")
    ids = [name for name, fact in table.facts.items() if fact.kind == "id" and name not in names]
    refuse_beside(table, out)
    return write_parts(model, table.pieces, table.cells([*names, *ids]), table.rows, out, partial(_with_ids, ids, ask))


def goes_out(X: Any, out: str | os.PathLike | None) -> bool:
    """Whether answers to X are written: where it is not in memory, or a folder is named and X is a path."""
    if out is None or is_lazy(X) or isinstance(X, str | os.PathLike):
        return is_lazy(X) or out is not None
    raise DataError("out=FOLDER is for rows in files, or in a lazy frame; these are in memory: leave it out, and write what comes")


def refuse_beside(table: Any, out: str | os.PathLike | None) -> None:
    """Refuse to write answers among the files of a table, or of texts: they would be read with them."""
    if out is not None and table.home is None and Path(out).absolute().is_relative_to(Path(table.name).absolute()):
        raise DataError(f"{str(out)!r} is in the folder of the data, which would be read with them later; choose another place")


def write_parts(
    model: Any, pieces: Sequence[Any], cells: str, rows: int, out: str | os.PathLike | None, ask: Callable[[Any, Any], Any]
) -> Path:
    """Write ask(model, these cells of a piece) for every piece."""
    if out is None:
        raise DataError("answers to a table that is not in memory go to files; name a folder for them with out=FOLDER (--out)")
    with _filling(Path(out)) as home, _bar(rows) as bar:
        parts = [Part(piece, cells, str(home / f"part-{k:06d}.parquet")) for k, piece in enumerate(pieces)]
        for a in range(0, len(parts), AT_ONCE):
            bar.update(sum(each(_answer, parts[a : a + AT_ONCE], model, ask)))
    return Path(out)


@contextmanager
def _filling(folder: Path) -> Iterator[Path]:
    """A folder inside of a new or empty one, where files wait till all are written; of a block that fails nothing is left, and what
    a killed process left is removed first."""
    half, new = folder.absolute() / UNFINISHED, not folder.exists()
    if is_left(half):
        _remove_parts(folder)
        shutil.rmtree(half, ignore_errors=True)
    if half.exists():
        told = "is being filled with answers by another process, or was when it died"
        raise DataError(f"{str(folder)!r} {told}; wait for it, or remove the folder, or choose another")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{str(folder)!r} exists already; answers go to a new folder, or an empty one")
    make_folder(folder)
    half.mkdir(exist_ok=True)
    handle = own(str(half))
    try:
        yield half
        for part in sorted(half.glob("part-*.parquet")):
            part.rename(folder / part.name)
        sync(folder)
    except BaseException:
        _remove_parts(folder)
        raise
    finally:
        shutil.rmtree(half, ignore_errors=True)
        if handle is not None:
            os.close(handle)
        if new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _remove_parts(folder: Path) -> None:
    for part in folder.glob("part-*.parquet"):
        part.unlink()


class CellRows(NamedTuple):
    """Some rows of a matrix of cells."""

    cells: Cells
    first: int
    stop: int
    names: np.ndarray

    def frame(self, _: str) -> tuple[np.ndarray, Any]:
        """Their names and numbers."""
        return self.names, self.cells.read(self.first, self.stop)


def write_cells(
    model: Any, matrix: Matrix, known: np.ndarray, out: str | os.PathLike | None, ask: Callable[[Any, Any], Any]
) -> Path:
    """Write ask(model, names and numbers of some rows) for every piece of a matrix, whose columns must be those of the fit."""
    if len(known) != len(matrix.columns) or (np.asarray(known).astype(str) != matrix.columns).any():
        raise DataError(
            f"the columns of {matrix.cells.file!r} are not those of the fit in its order; select and sort them, or pass an AnnData "
            "of some cells, whose columns are matched by name"
        )
    pieces = [CellRows(matrix.cells, a, b, matrix.rows[a:b]) for a, b in matrix.spans()]
    return write_parts(model, pieces, "", len(matrix.rows), out, ask)


def _bar(rows: int) -> Any:
    from tqdm.auto import tqdm

    shown = sys.stderr.isatty() or "ipykernel" in sys.modules
    return tqdm(total=rows, desc="answers", unit="row", delay=0.5, file=sys.stderr, disable=not shown)


def _answer(shard: tuple[pd.DataFrame, str], model: Any, ask: Callable[[Any, Any], Any]) -> int:
    """Answer the rows of a piece, and write them; their number comes home."""
    frame, path = shard
    found = ask(model, frame)
    if not os.path.isdir(os.path.dirname(path)):
        told = "is not seen where answers are made, or was removed"
        raise DataError(f"{os.path.dirname(os.path.dirname(path))!r} {told}; name a folder for them that all machines see")
    with atomic(path) as part, closing(dialect.connect()) as base:
        base.register("found", found)
        base.execute(f"COPY found TO {dialect.quoted(str(part))} (FORMAT parquet)")
    return len(found)


def _with_ids(ids: list[str], ask: Callable[[Any, Any], Any], model: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """What is asked of the columns of the fit, after the ids."""
    return beside(frame[ids], ask(model, fitted_columns(model, frame, "the table")))


def beside(about: pd.DataFrame, found: pd.DataFrame, whole: str = "table") -> pd.DataFrame:
    """Answers to the rows of a table after some of its columns, row by row; one that is called as an answer is so no more.

    >>> import pandas as pd
    >>> beside(pd.DataFrame({"id": [7], "topic": ["birds"]}), pd.DataFrame({"topic": [0]})).columns.tolist()
    ['id', 'topic_of_table', 'topic']
    """
    import pandas as pd

    taken = {str(name).lower() for name in found.columns}  # Parquet files are read by programs that know no capitals
    names = [f"{name}_of_{whole}" if str(name).lower() in taken else name for name in about.columns]
    parts = [about.set_axis(names, axis=1), found]
    return pd.concat([part.reset_index(drop=True) for part in parts], axis=1)


def predictions(model: Any, X: pd.DataFrame) -> pd.DataFrame:
    """The class of each row, and the probability of each."""
    return called(model, model.predict_proba(X))


def called(model: Any, shares: np.ndarray) -> pd.DataFrame:
    """The most probable class of each row, and the probabilities."""
    import pandas as pd

    found = pd.DataFrame(shares, columns=[f"p({name})" for name in model.classes_.tolist()])
    found.insert(0, "prediction", model.classes_[shares.argmax(axis=1)])
    return found
