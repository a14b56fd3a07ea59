"""Documents beyond memory at the door of LDA: shards of tokens from bags of words in files; and answers to texts in files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallies.answering import write_parts
from tallies.data.bags import Bag, Bags, open_bags, open_texts
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


def read(X: Any, text: str, shards: int) -> Bags:
    """The documents of a fit."""
    found = open_bags(X, text, shards if shards > 1 else None)
    if shards not in (1, len(found.bags)):
        raise DataError(f"the documents are prepared in {len(found.bags)} shards, but shards={shards}; leave it out")
    if not found.frequency.sum():
        raise DataError("expected documents with words, but all counts are zero; check the vocabulary and the stop words")
    return found


def transform(model: Any, X: Any, text: str, out: str | os.PathLike | None) -> Path:
    """Write the topics of every text, with all columns of its table but the text, to a folder."""
    texts = open_texts(X, text)
    cells = ", ".join([texts.cell, *(f"{column(name)} AS {column(name)}" for name in texts.others)])
    rows = sum(piece.stop - piece.first for piece in texts.pieces)
    return write_parts(model, texts.pieces, cells, rows, out, mixtures)


def mixtures(model: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """The largest topic of each text, and the probability of each."""
    import pandas as pd

    theta = np.asarray(model.transform([text or "" for text in frame.pop("text")]))
    shares = pd.DataFrame(theta, columns=[f"topic_{k}" for k in range(theta.shape[1])])
    return pd.concat([frame, pd.DataFrame({"topic": theta.argmax(axis=1)}), shares], axis=1)
