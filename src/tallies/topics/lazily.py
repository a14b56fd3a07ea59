"""Documents beyond memory at the door of LDA: shards of tokens from bags of words in files; and answers to texts in files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallies.answering import beside, refuse_beside, write_cells, write_parts
from tallies.data import bags
from tallies.data.bags import Bag, Bags, open_texts
from tallies.data.cell_bags import open_cells
from tallies.data.cells import cells_of, matrix_of
from tallies.data.parquet import column
from tallies.errors import DataError
from tallies.topics.tokens import Frame, Tokens

if TYPE_CHECKING:
    import pandas as pd


class Shuffled(NamedTuple):
    """A source: the tokens of some documents."""

    bag: Bag
    costly: bool = True  # to make: they are written to disk where they are not kept

    def load(self, frame: Frame) -> Tokens:
        """The tokens, laid out."""
        rows, counts = self.bag.load()
        return frame.shard(counts, rows, self.bag.first)


def in_files(X: Any) -> bool:
    """Whether X are documents that are not to be read whole: see `bags.in_files`; or cells in a file, more than are held."""
    return bags.in_files(X) if cells_of(X) is None else matrix_of(X) is not None


def open_documents(X: Any, text: str, shards: int, **words: Any) -> Bags:
    """The corpus that they are."""
    wanted = shards if shards > 1 else None
    return bags.open_bags(X, text, wanted, **words) if cells_of(X) is None else open_cells(X, wanted, **words)


def read(X: Any, text: str, shards: int) -> Bags:
    """The documents of a fit."""
    found = open_documents(X, text, shards)
    if shards not in (1, len(found.bags)):
        raise DataError(f"the documents are prepared in {len(found.bags)} shards, but shards={shards}; leave it out")
    if not found.frequency.sum():
        raise DataError("expected documents with words, but all counts are zero; check the vocabulary and the stop words")
    return found


def transform(model: Any, X: Any, text: str, out: str | os.PathLike | None) -> Path:
    """Write the topics of every text, with all columns of its table but the text, to a folder."""
    matrix = matrix_of(X, small=True)
    if matrix is not None:
        return write_cells(model, matrix, model.vocabulary_, out, mixtures_of_cells)
    texts = open_texts(X, text)
    cells = ", ".join([texts.cell, *(f"{column(name)} AS {column(name)}" for name in texts.others)])
    rows = sum(piece.stop - piece.first for piece in texts.pieces)
    refuse_beside(texts, out)
    return write_parts(model, texts.pieces, cells, rows, out, mixtures)


def mixtures(model: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """The largest topic of each text, and the probability of each."""
    theta = np.asarray(model.transform([text or "" for text in frame.pop("text")]))
    return _table(frame, theta)


def _table(about: pd.DataFrame, theta: np.ndarray) -> pd.DataFrame:
    import pandas as pd

    shares = pd.DataFrame(theta, columns=[f"topic_{k}" for k in range(theta.shape[1])])
    return beside(about, pd.concat([pd.DataFrame({"topic": theta.argmax(axis=1)}), shares], axis=1), "text")


def mixtures_of_cells(model: Any, rows: tuple[np.ndarray, Any]) -> pd.DataFrame:
    """The largest topic of each cell, and the probability of each."""
    import pandas as pd

    names, counts = rows
    return _table(pd.DataFrame({"id": names}), np.asarray(model.transform(counts)))
