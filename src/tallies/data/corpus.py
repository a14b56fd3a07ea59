"""A corpus: documents as counts of words, with their ids, authors and (when asked) sentences."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise, repeat
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import scipy.sparse as sp

from tallies.data.files import naming
from tallies.data.pairs import grouped
from tallies.data.text import (
    ELIDED,
    Document,
    language_of,
    read_documents,
    refuse_unspaced,
    split_sentences,
    stemmer,
    tokenize,
)
from tallies.data.text import stop_words as stop_list
from tallies.errors import DataError
from tallies.phases import phase

LOOKED_AT = 200  # documents by which the language is told
Pieces = tuple[str, tuple[str, ...], list[str]]  # id, authors and texts (its sentences, or the whole) of a document


class Counting(TypedDict, total=False):
    """Which words are counted: options of every way to make a `Corpus` of texts."""

    stop_words: str | Iterable[str] | None  # words left out: those of the language that is seen ("auto", the default), of one by
    # its name, such as "german", the list "function", a collection, or None
    min_df: int | float  # drop words in fewer documents, 1 by default: a whole number counts them, a fraction is a share of them
    max_df: int | float  # drop words in more documents, likewise; by default all of them, 1.0
    stem: bool | str  # stem with Snowball: True (in the language of the stop words) or a language; by default not
    bigrams: bool  # whether pairs of neighbours count too, as "new_york"; by default not
    emoji: bool  # whether emoji count as words; by default not
    vocabulary: Sequence[str] | None  # fixes the words and their order


class Corpus:
    """Counts (documents x words) and what belongs to them; texts are read once, one at a time, and not kept.

    >>> corpus = Corpus.from_texts(["Apples and pears.", "Pears, plums and pears!"])
    >>> corpus.vocabulary.tolist(), corpus.counts.toarray().tolist()
    (['apples', 'pears', 'plums'], [[1, 1, 0], [0, 2, 1]])
    """

    counts: sp.csr_array  # (D, V)  how often word v occurs in document d
    vocabulary: np.ndarray  # (V,)  the words, sorted
    documents: np.ndarray  # (D,)  ids
    authors: list[tuple[str, ...]]  # (D,)  names, () where unknown
    sentence_counts: sp.csr_array | None  # (S, V)  the same for sentences
    sentence_document: np.ndarray | None  # (S,)  document of each sentence
    sentences: list[str] | None  # (S,)  their text
    language: str | None  # that of the stop words which were left out: seen or told; None: not known

    def __init__(
        self,
        counts: Any,
        vocabulary: Sequence[str] | np.ndarray,
        documents: Sequence[Any] | None = None,
        authors: Sequence[Any] | None = None,
        sentence_counts: Any = None,
        sentence_document: Any = None,
        sentences: list[str] | None = None,
        language: str | None = None,
    ):
        self.counts = sp.csr_array(counts)
        D, V = self.counts.shape
        self.vocabulary = np.asarray(vocabulary, dtype=object)
        if len(self.vocabulary) != V:
            raise DataError(f"counts have {V} columns, but the vocabulary has {len(self.vocabulary)} words; they must be the same")
        self.documents = np.asarray(range(D) if documents is None else documents, dtype=object)
        self.authors = [()] * D if authors is None else [_names(a) for a in authors]
        for name, values in (("ids", self.documents), ("authors", self.authors)):
            if len(values) != D:
                raise DataError(f"there are {D} documents, but {len(values)} {name}; give one for each document")
        self.sentence_counts = None if sentence_counts is None else sp.csr_array(sentence_counts)
        self.sentence_document, self.sentences, self.language = sentence_document, sentences, language

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        authors: Iterable[Any] | None = None,
        ids: Iterable[Any] | None = None,
        sentences: bool = False,
        **words: Unpack[Counting],
    ) -> Corpus:
        """Tokenise texts and count.

        stop_words="auto" leaves out those of the language whose stop words make up most of the first texts, which `language` then
        names; "german" and the like name one, None keeps all. min_df and max_df bound the documents that a word occurs in: a
        whole number counts documents, a fraction is a share of them. stem=True (or a language) stems with Snowball; bigrams=True
        also counts pairs of neighbours as "new_york"; emoji=True counts emoji too; vocabulary fixes the words and their order.

        >>> corpus = Corpus.from_texts(["Der Hund und die Katze", "Die Katze ist nicht im Haus", "Der Hund ist in dem Haus"])
        >>> corpus.language, corpus.vocabulary.tolist()
        ('german', ['haus', 'hund', 'katze'])
        """
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            got = "one string" if isinstance(texts, str) else repr(texts)
            raise DataError(f"expected a collection of texts, got {got}; put it into a list")
        return cls._count(_cut(_documents(texts, authors, ids), sentences), sentences, **words)

    @classmethod
    def read(
        cls,
        path: str | Path,
        text: str = "text",
        authors: str | None = "authors",
        id: str | None = "id",
        sentences: bool = False,
        **words: Unpack[Counting],
    ) -> Corpus:
        """Read .jsonl, .csv, .tsv or .parquet (also .gz), or a folder of .txt files; see `from_texts` for the options."""
        with naming(path):
            return cls._count(_cut(read_documents(path, text, authors, id), sentences), sentences, **words)

    @staticmethod
    def prepare(path: Any, out: str | Path, text: str = "text", **words: Unpack[Counting]) -> Path:
        """Count texts that are more than fits into memory once, into a folder that `LDA.fit` takes: those of a folder of Parquet,
        csv or json lines, of a lazy frame, or of a `pyarrow` dataset. A run that was stopped goes on where it was.

        >>> import tempfile
        >>> home = Path(tempfile.mkdtemp())
        >>> _ = (home / "fruit.csv").write_text("text\\nApples and pears\\nPears and plums\\n")
        >>> Corpus.prepare(home, home / "counted", min_df=2).name
        'counted'
        """
        from tallies.data.bags import count

        return count(path, out, text, **words)

    @classmethod
    def from_pairs(
        cls, sentences: Iterable[tuple[Any, Any]], authors: Iterable[tuple[Any, Any]] = (), **words: Unpack[Counting]
    ) -> Corpus:
        """From pairs (document, sentence) and (document, author), as lists or two-column tables; sentences are taken as they are.

        >>> sentences = [("d1", "Cells die."), ("d1", "Cells grow."), ("d2", "Genes act.")]
        >>> corpus = Corpus.from_pairs(sentences, [("d1", "Ann"), ("d1", "Bob")])
        >>> corpus.sentences, corpus.authors
        (['Cells die.', 'Cells grow.', 'Genes act.'], [('Ann', 'Bob'), ()])
        """
        texts, names = grouped(sentences, "(document, sentence)", empty=True), grouped(authors, "(document, author)")
        for document, who in names.items():
            if document not in texts:
                raise DataError(f"author {who[0]!r} is given for the document {document!r}, which has no sentence; drop the pair")
        stream = ((d, tuple(dict.fromkeys(names.get(d, ()))), parts) for d, parts in texts.items())
        return cls._count(stream, True, **words)

    @classmethod
    @phase("counting words, choosing the vocabulary")
    def _count(
        cls,
        stream: Iterator[Pieces],
        keep_sentences: bool,
        *,
        stop_words: str | Iterable[str] | None = "auto",
        min_df: int | float = 1,
        max_df: int | float = 1.0,
        stem: bool | str = False,
        bigrams: bool = False,
        emoji: bool = False,
        vocabulary: Sequence[str] | None = None,
    ) -> Corpus:
        first = list(islice(stream, LOOKED_AT))
        cut = cutting([part for _, _, parts in first for part in parts], stop_words, stem, bigrams, emoji)
        grow = vocabulary is None
        place = {word: v for v, word in enumerate(() if vocabulary is None else vocabulary)}
        if vocabulary is not None and len(place) < len(vocabulary):
            raise DataError(f"vocabulary has {len(vocabulary)} words, but only {len(place)} different ones; give each word once")
        ids: list[str] = []
        authors: list[tuple[str, ...]] = []
        kept: list[str] = []
        # ends of sentences (or documents) in `flat`, their documents, words
        rows, home, flat = array("q", [0]), array("q"), array("i")
        for d, (name, who, parts) in enumerate(chain(first, stream)):
            ids.append(name)
            authors.append(who)
            for part in parts:
                flat.extend([place.setdefault(w, len(place)) for w in cut.words(part) if grow or w in place])
                rows.append(len(flat))
                home.append(d)
            if keep_sentences:
                kept.extend(parts)
        if not ids:
            raise DataError("expected at least one text, got none; check the path or the collection")
        S, ones, codes = len(home), np.ones(len(flat), dtype=np.int64), np.frombuffer(flat, dtype=np.int32).copy()
        pieces = sp.csr_array((ones, codes, np.array(rows)), shape=(S, len(place)))
        pieces.sum_duplicates()
        doc, names = np.array(home, dtype=np.int64), np.array(list(place), dtype=object)
        counts = pieces
        if keep_sentences:
            counts = sp.csr_array((np.ones(S, dtype=np.int64), (doc, np.arange(S))), shape=(len(ids), S)) @ pieces
        if grow:
            order = _choose(counts, names, min_df, max_df)
            counts, pieces, names = sp.csr_array(counts[:, order]), sp.csr_array(pieces[:, order]), names[order]
        counts.sort_indices()
        pieces.sort_indices()
        if not keep_sentences:
            return cls(counts, names, ids, authors, language=cut.language)
        return cls(counts, names, ids, authors, pieces, doc, kept, cut.language)

    def __len__(self) -> int:
        return self.counts.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Documents and words, as in an array: with `[rows]` it is what cross-validation asks for."""
        return self.counts.shape

    def __getitem__(self, rows: Any) -> Corpus:
        """Some documents, by numbers, a slice or a mask, with their sentences.

        >>> corpus = Corpus.from_texts(["A cat sat. It slept.", "Dogs bark."], sentences=True)
        >>> corpus[1:].sentences, corpus[[1, 0]].sentence_document.tolist()
        (['Dogs bark.'], [0, 1, 1])
        """
        rows = rows[0] if isinstance(rows, tuple) else rows  # scikit-learn asks for [rows, ...]
        d = np.atleast_1d(np.arange(len(self))[rows])
        some = (self.counts[d], self.vocabulary, self.documents[d], [self.authors[i] for i in d])
        if self.sentence_document is None:
            return Corpus(*some, language=self.language)
        of = np.asarray(self.sentence_document)
        order = np.argsort(of, kind="stable")
        ends = [np.searchsorted(of[order], d, side) for side in ("left", "right")]
        s = np.concatenate([order[a:b] for a, b in zip(*ends, strict=True)])
        counts = None if self.sentence_counts is None else self.sentence_counts[s]
        texts = None if self.sentences is None else [self.sentences[i] for i in s]
        return Corpus(*some, counts, np.repeat(np.arange(len(d)), ends[1] - ends[0]), texts, self.language)

    def __repr__(self) -> str:
        D, V = self.counts.shape
        return f"Corpus({D:,} documents, {V:,} words, {int(self.counts.sum()):,} tokens)"


def _cut(documents: Iterable[Document], sentences: bool) -> Iterator[Pieces]:
    return ((d.id, d.authors, split_sentences(d.text) if sentences else [d.text]) for d in documents)


class Cutting(NamedTuple):
    """How texts are cut into the words that count."""

    language: str | None  # that of the stop words, seen or told; None: not known
    skip: frozenset[str]
    stem: bool | str
    bigrams: bool
    emoji: bool

    def words(self, text: str) -> list[str]:
        """The words of a text that count."""
        text, root = ELIDED.sub("", text) if self.language in ("french", "italian", "catalan") else text, stemmer(self.stem)
        words = [root(w) if root else w for w in tokenize(text, emoji=self.emoji) if w not in self.skip]
        return words + [f"{a}_{b}" for a, b in pairwise(words)] if self.bigrams else words


def cutting(
    seen: Sequence[str],
    stop_words: str | Iterable[str] | None = "auto",
    stem: bool | str = False,
    bigrams: bool = False,
    emoji: bool = False,
) -> Cutting:
    """How texts are cut, in a language as told, or as some of them show."""
    refuse_unspaced(seen)
    language, stops = None, stop_words
    if isinstance(stops, str) and stops != "function":
        language = language_of(seen) if stops == "auto" else stops
        stops = language or "english"
    stem = language or "english" if stem is True else stem
    stemmer(stem)  # raises where there is none
    return Cutting(language, stop_list(stops), stem, bigrams, emoji)


def _documents(texts: Iterable[Any], authors: Iterable[Any] | None, ids: Iterable[Any] | None) -> Iterator[Document]:
    """Texts with their authors and ids, one at a time; all three must end together."""
    end = object()
    who, names = (repeat(None) if part is None else iter(part) for part in (authors, ids))
    i = -1
    for i, text in enumerate(texts):
        author, name = next(who, end), next(names, end)
        if author is end or name is end:
            raise DataError(f"there are more texts than {'authors' if author is end else 'ids'} ({i}); give one for each text")
        if not isinstance(text, str):
            raise DataError(f"text {i} is a {type(text).__name__}, expected a string; turn missing texts into ''")
        yield Document(str(i) if name is None else str(name), text, _names(author))
    if (authors is not None and next(who, end) is not end) or (ids is not None and next(names, end) is not end):
        raise DataError(f"there are more authors or ids than texts ({i + 1}); give one for each text")


def _names(authors: Any) -> tuple[str, ...]:
    if isinstance(authors, bool | int):
        raise DataError(f"expected the authors of a text, a name or a list of names, got {authors!r}; make it a text")
    return (authors,) if isinstance(authors, str) else tuple(authors or ())


def _choose(counts: sp.csr_array, names: np.ndarray, min_df: int | float, max_df: int | float) -> np.ndarray:
    """Columns of the words that stay, in alphabetical order."""
    D = counts.shape[0]
    least, most = bounds(D, min_df, max_df)
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    stay = np.flatnonzero((frequency >= least) & (frequency <= most) & (frequency > 0))
    if not len(stay):
        raise no_word(len(names), D, min_df, max_df)
    return stay[np.argsort(names[stay])]


def bounds(D: int, min_df: int | float, max_df: int | float) -> tuple[float, float]:
    """The least and the most of D documents that a word may occur in."""
    for name, value in (("min_df", min_df), ("max_df", max_df)):
        if not isinstance(value, int | float | np.number) or value < 0 or (isinstance(value, float) and value > 1):
            raise ValueError(f"{name} must be a number of documents (whole) or a share of them (0.0 to 1.0), got {value!r}")
    return min_df * D if isinstance(min_df, float) else min_df, max_df * D if isinstance(max_df, float) else max_df


def no_word(n: int, D: int, min_df: int | float, max_df: int | float) -> DataError:
    """What to say where none of n words is left."""
    return DataError(
        f"no word is left: {n} words in {D} documents, none in between min_df={min_df} and max_df={max_df} of them; "
        "lower min_df, raise max_df, or pass stop_words=None"
    )
