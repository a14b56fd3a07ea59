"""Sentences beyond memory at the door of AuthorConcept: encoded once, piece by piece, into files from which shards are mapped; and
answers to texts in files."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.answering import AT_ONCE, beside, refuse_beside, write_parts
from tallies.backends import each
from tallies.concepts import answers, author_prior, door, mention
from tallies.concepts.author_prior import Rows
from tallies.concepts.door import Concepts, Data, Papers, Sentences, Shard, clean_names
from tallies.concepts.mention import Strings
from tallies.concepts.settings import Mention, Settings
from tallies.concepts.word_counts import Definitions
from tallies.data.bags import Texts, open_texts, texts_in
from tallies.data.corpus import LOOKED_AT, Cutting, cutting
from tallies.data.lazy import Piece
from tallies.data.parquet import column
from tallies.data.text import split_sentences
from tallies.errors import DataError, nearest
from tallies.mapped import SCRATCH, Home, Scratch, map_array
from tallies.maths import Array, pointer, ragged
from tallies.phases import phase
from tallies.sources import Held

if TYPE_CHECKING:
    import pandas as pd


class Encoded(NamedTuple):
    """The sentences of a piece of the texts in files: their keys or words (S, N), their documents, and the rows of these."""

    home: Home
    number: int
    check: int = 0  # sum of what is in them: a fit is resumed on the same data alone

    def get(self, name: str) -> np.ndarray:
        """One of the arrays, mapped; what is written there is forgotten."""
        return map_array(self._path(name))

    def put(self, **arrays: np.ndarray) -> None:
        """Write some of them."""
        for name, array in arrays.items():
            np.save(self._path(name), array)

    def _path(self, name: str) -> str:
        return os.path.join(self.home.path, f"{self.number:06d}-{name}.npy")


class Span(NamedTuple):
    """Some sentences of a piece."""

    piece: Encoded
    first: int
    stop: int

    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Rows]:
        """Number of keys of each sentence, the keys, how often each, the documents from 0 on, and their rows."""
        get, a, b = self.piece.get, self.first, self.stop
        ptr, document = get("ptr")[a : b + 1], get("document")[a:b]
        rows = Rows(get("share"), get("row_ptr"), get("row"), get("weight")).cut(document[0], document[-1] + 1)
        inside = slice(ptr[0], ptr[-1])
        return np.diff(ptr), get("key")[inside], get("count")[inside], document - document[0], rows


class Mapped(NamedTuple):
    """A source: sentences in files."""

    spans: tuple[Span, ...]
    width: int  # keys or words in all
    first: int  # sentences in the shards before this one

    def load(self, *words: Any) -> Shard:
        """The sentences, as the door cuts them in memory."""
        sizes, key, count, document, rows = zip(*(span.parts() for span in self.spans), strict=True)
        D = pointer([len(part.share) for part in rows])
        of = np.concatenate([part + d for part, d in zip(document, D, strict=False)])
        counts = (_one(count).astype(float), _one(key), pointer(_one(sizes)))
        x = Sentences(sp.csr_array(counts, shape=(len(of), self.width)), of)
        share, ptr, row, weight = zip(*rows, strict=True)
        joined = Rows(_one(share), pointer(np.concatenate([np.diff(part) for part in ptr])), _one(row), _one(weight))
        shard = Shard(x, joined, np.zeros(len(of) + 1, dtype=np.int64), np.empty(0, dtype=np.int64), self.first)
        return shard.join(*words) if words else shard


def _one(parts: Sequence[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Found(NamedTuple):
    """What comes home of a piece that was encoded."""

    check: int
    sizes: np.ndarray  # (D,)  sentences of each document
    author_ptr: np.ndarray  # (D+1,)
    author: np.ndarray  # places among the names
    names: list[str]  # of the authors, as they came
    words: list[str] | None  # multinomial: as they came
    keys: int  # that were found


def prepare(
    settings: Settings, strength: Any, X: Any, concepts: Any, text: str, authors: str | None, shard_rows: int | None
) -> Data:
    """Encode texts, piece by piece and on the chosen backend, and cut shards where those of texts in memory are cut."""
    _check(settings)
    ontology, factors = door.known(settings, concepts, strength)
    texts, cells = opened(X, text, authors)
    how: Strings | Cutting
    if isinstance(settings.words, Mention):
        with phase(f"indexing {len(ontology):,} concepts"):
            how = mention.strings_of(ontology)
    else:
        first = islice((text for piece in texts.pieces for text in texts_in(piece, texts.cell)), LOOKED_AT)
        how = cutting([part for text in first for part in split_sentences(text)])
    scratch = Scratch(SCRATCH.get())
    home = Home(scratch.folder.name, scratch)
    with phase("looking for concepts in sentences"):
        found = _encode_all(texts.pieces, cells, home, how)
    S = int(sum(its.sizes.sum() for its in found))
    if not S:
        raise DataError("the corpus has no sentence; check its texts")
    names, n = _authors(found, settings)
    weight = door.own_part(n, settings)
    words: Strings | Definitions
    if isinstance(how, Strings):
        words, vocabulary, width = how, None, len(how.keys)
    else:
        vocabulary = np.array(sorted({word for its in found for word in its.words or ()}), dtype=object)
        words, width = door.definitions(settings, ontology, vocabulary), len(vocabulary)
    door.refuse_strangers(sum(its.keys for its in found))
    pieces = [
        _finish(Encoded(home, k, its.check), its, names, weight, vocabulary) for k, its in enumerate(found) if its.sizes.sum()
    ]
    sources = _cut(pieces, [int(its.sizes.sum()) for its in found if its.sizes.sum()], width, shard_rows)
    door.check_rows(settings, len(names), len(ontology))
    none = Rows(np.empty(0), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))
    papers = Papers(np.empty(0, dtype=object), np.empty(0, dtype=np.int64), names, weight, none)
    sizes = S, sum(len(its.sizes) for its in found)
    return Data(sources, Concepts.of(ontology), papers, words, vocabulary, len(names), factors, labelled=False, sizes=sizes)


def _check(settings: Settings) -> None:
    """Refuse what needs all sentences, or all documents, at once."""
    if settings.document_backoff is not None:
        raise DataError("document_backoff has a row of params for each document, and these are in files; leave it out")
    if getattr(settings.words, "held_out", 0):
        raise DataError("words are held out of sentences that are in memory, and these are in files; leave held_out out")


def opened(X: Any, text: str, authors: str | None) -> tuple[Texts, str]:
    """A column of texts, and in SQL what is read of each; the usual name of the authors may be absent."""
    texts = open_texts(X, text)
    if authors is None or (authors == "authors" and authors not in texts.others):
        return texts, texts.cell
    if authors not in texts.others:
        raise DataError(f"{texts.name!r} has no column {authors!r}; name that of the authors: {nearest(authors, texts.others)}")
    return texts, f"{texts.cell}, {column(authors)} AS authors"


def _encode_all(pieces: list[Piece], cells: str, home: Home, how: Strings | Cutting) -> list[Found]:
    """What came of each piece; some at a time, for there may be many."""
    found: list[Found] = []
    for a in range(0, len(pieces), AT_ONCE):
        some = [Held((piece, Encoded(home, a + k))) for k, piece in enumerate(pieces[a : a + AT_ONCE])]
        found += each(_encode, some, cells, how)
    if not os.path.isfile(Encoded(home, 0)._path("ptr")):
        raise DataError(
            "the workers have encoded the sentences, but their files are not here; name a folder that all machines see with "
            "tallies.backend(..., scratch=FOLDER)"
        )
    return found


def _encode(work: tuple[Piece, Encoded], cells: str, how: Strings | Cutting) -> Found:
    """Write the sentences of a piece: in the keys of strings, or in words that are numbered as they come."""
    piece, out = work
    columns = piece.columns(cells)
    parts = [split_sentences(text or "") for text in columns["text"]]
    sentences, sizes = [sentence for several in parts for sentence in several], np.array([len(several) for several in parts])
    document, place = np.repeat(np.arange(len(parts)), sizes), dict[str, int]()
    if isinstance(how, Strings):
        X = door.encode(sentences, document, how).counts
    else:
        ptr, flat = ragged([[place.setdefault(word, len(place)) for word in how.words(s)] for s in sentences], np.int32)
        X = sp.csr_array((np.ones(len(flat)), flat, ptr), shape=(len(sentences), len(place)))
        X.sum_duplicates()
    names: dict[str, int] = {}
    who = [names_in(value) for value in columns.get("authors", [None] * len(parts))]
    author_ptr, author = ragged([[names.setdefault(name, len(names)) for name in several] for several in who], np.int64)
    made = {"ptr": X.indptr.astype(np.int64), "key": X.indices.astype(np.int32), "count": X.data.astype(np.int32)}
    made["document"] = document.astype(np.int64)
    out.put(**made)
    check = 0
    for told in (*made.values(), author_ptr, author, "\n".join(names).encode(), "\n".join(place).encode()):
        check = zlib.crc32(told, check)
    words = None if isinstance(how, Strings) else list(place)
    return Found(check, sizes, author_ptr, author, list(names), words, X.nnz)


def names_in(value: Any) -> list[str]:
    """The authors in a cell: a list of names, or a text with semicolons between them."""
    if isinstance(value, dict | bool | int | float | np.number) and value == value:
        raise DataError(f"the authors of a text are {value}; expected a list of names, or a text with semicolons between them")
    return clean_names(value.split(";") if isinstance(value, str) else value if np.iterable(value) else None)


def _authors(found: Iterable[Found], settings: Settings) -> tuple[np.ndarray, Array]:
    """All names, sorted, and the sentences of each."""
    names = sorted({name for its in found for name in its.names})
    place, n = {name: a for a, name in enumerate(names)}, np.zeros(len(names))
    for its in found:
        author = np.array([place[name] for name in its.names], dtype=np.int64)[its.author]
        door.count_sentences(n, its.author_ptr, author, its.sizes, settings)
    return np.array(names, dtype=object), n


def _finish(out: Encoded, its: Found, names: np.ndarray, weight: Array, vocabulary: np.ndarray | None) -> Encoded:
    """Write the rows of the documents of a piece, and its words by their places among all."""
    at = np.searchsorted(names, its.names) if its.names else np.empty(0, dtype=np.int64)
    coded = [several.tolist() for several in np.split(at[its.author], its.author_ptr[1:-1])]
    rows = author_prior.rows_of(coded, its.sizes, weight, None)
    out.put(share=rows.share, row_ptr=rows.ptr, row=rows.row, weight=rows.weight)
    if vocabulary is not None:
        key = np.searchsorted(vocabulary, its.words or [])[out.get("key")]
        # copies, for the files are written over
        X = sp.csr_array((out.get("count").copy(), key, out.get("ptr").copy()), shape=(int(its.sizes.sum()), len(vocabulary)))
        X.sort_indices()
        out.put(key=X.indices.astype(np.int32), count=X.data)
    return out


def _cut(pieces: list[Encoded], sizes: list[int], width: int, shard_rows: int | None) -> list[Mapped]:
    """Shards of neighbouring sentences, which may be of several pieces."""
    ends, found = pointer(sizes), []
    for a, b in door.sentence_cuts(int(ends[-1]), shard_rows):
        first, last = np.searchsorted(ends, [a, b - 1], side="right") - 1
        spans = [Span(pieces[k], max(a - int(ends[k]), 0), min(b, int(ends[k + 1])) - int(ends[k])) for k in range(first, last + 1)]
        found.append(Mapped(tuple(spans), width, a))
    return found


# answers


def annotate(model: Any, X: Any, text: str, authors: str | None, k: int, out: str | os.PathLike | None, split: bool = True) -> Path:
    """Write the best concepts of every sentence, or of every text as one, with all columns of its table but the text."""
    texts, cells = opened(X, text, authors)
    refuse_beside(texts, out)
    cells = ", ".join([cells, *(f"{column(name)} AS other{i}" for i, name in enumerate(texts.others))])
    rows = sum(piece.stop - piece.first for piece in texts.pieces)
    return write_parts(model, texts.pieces, cells, rows, out, partial(_annotate, k, split, texts.others))


def _annotate(k: int, split: bool, others: list[str], model: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """A row for each sentence and concept."""
    parts = [split_sentences(text or "") if split else [text or ""] for text in frame["text"]]
    who = [names_in(value) for value in frame["authors"]] if "authors" in frame else [[]] * len(parts)
    document = np.repeat(np.arange(len(parts)), [len(several) for several in parts])
    sentences = [sentence for several in parts for sentence in several]
    if not sentences:
        sentences, document = [""], np.zeros(1, dtype=np.int64)  # which has no concept, but the columns of those that have
    found = answers.posterior(model.fitted_, model._ranking(), sentences, [who[d] for d in document], k, answers.one_by_one)
    table = answers.annotate(model.fitted_, found).rename(columns={"id": "concept"})
    s = table["sentence"].to_numpy()
    table["sentence"] = (np.arange(len(sentences)) - pointer(np.bincount(document))[document])[s]
    table = table if split else table.drop(columns="sentence")
    about = frame[[f"other{i}" for i in range(len(others))]].iloc[document[s]].set_axis(others, axis=1)
    return beside(about, table, "text")
