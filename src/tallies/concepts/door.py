"""The door of the author-concept model: a corpus, an ontology and labels in; checked, numbered and cut into shards."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.concepts import author_prior, mention, word_counts
from tallies.concepts.author_prior import Rows
from tallies.concepts.mention import Strings
from tallies.concepts.settings import Mention, Settings
from tallies.concepts.word_counts import TABLE, Definitions
from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology
from tallies.data.text import names_file, tokenize
from tallies.errors import DataError, DataWarning
from tallies.forms import Form
from tallies.maths import Array, ragged
from tallies.phases import phase
from tallies.sources import Held, cuts

# sentences of a shard: one takes 0.2 ms with a large ontology, so these are many times the cost of scheduling, and few enough that
# Ctrl-C, which is heard between shards, acts at once
MIN_SENTENCES, MAX_SENTENCES = 256, 2048
MAX_SHARDS, MOST_SENTENCES = 128, 16384  # fewer shards are fewer sums to add, while each takes no more than about 16 MB


class Sentences(NamedTuple):
    """Sentences as the word side reads them, ordered by document."""

    counts: sp.csr_array  # (S, N)  mention: 1 at the keys of its strings; multinomial: how often each word occurs
    document: np.ndarray  # (S,) int64  rising
    held: sp.csr_array | None = None  # (S, N)  words held out of the fit

    def cut(self, a: int, b: int) -> Sentences:
        """The sentences from a up to b, their documents numbered from 0 on."""
        return Sentences(self.counts[a:b], self.document[a:b] - self.document[a])

    def hold_out(self, share: float, rng: np.random.Generator) -> Sentences:
        """With a share of the words held out, chosen one by one."""
        held = self.counts.copy()
        held.data = rng.binomial(held.data.astype(np.int64), share).astype(float)
        kept = self.counts - held
        for part in (kept, held):
            part.eliminate_zeros()
        return self._replace(counts=kept, held=held)


class Shard(NamedTuple):
    sentences: Sentences  # S sentences: their keys or words, and their documents
    rows: Rows  # of the D documents
    label_ptr: np.ndarray  # (S+1,)  given concepts of each sentence; none: hidden
    labels: np.ndarray
    first: int  # sentences in the shards before this one
    words: Any = None  # the Lexicon, or Words that stay fixed: shared by all shards

    def join(self, words: Any) -> Shard:
        return self._replace(words=words)


def piece(x: Sentences, rows: Rows, a: int, b: int) -> tuple[Sentences, Rows]:
    """The sentences from a up to b, and who stands behind their documents."""
    return x.cut(a, b), rows.cut(x.document[a], x.document[b - 1] + 1)


class Concepts(NamedTuple):
    """The ontology of a fit."""

    ids: Annotated[np.ndarray, Form("G", "O")]
    names: Annotated[np.ndarray, Form("G", "O")]
    up: Annotated[sp.csr_array, Form("G G", "f", 0)]  # 1 where column h is a parent of row g
    alternatives: dict[str, str]  # merged or replaced id -> living id

    @classmethod
    def of(cls, ontology: Ontology) -> Concepts:
        ids, names = (np.array(part, dtype=object) for part in (ontology.ids, ontology.names))
        return cls(ids, names, ontology.links, dict(ontology.alternatives))


class Papers(NamedTuple):
    """The documents of a fit, and who wrote them."""

    documents: Annotated[np.ndarray, Form("D", "O")]  # ids
    sentence_document: Annotated[np.ndarray, Form("S", "i", 0, below="D")]
    authors: Annotated[np.ndarray, Form("A", "O")]  # names, sorted
    author_weight: Annotated[Array, Form("A", "f", 0, 1)]  # part of an author that is the author's own
    rows: Rows  # of the D documents


class Data(NamedTuple):
    """What the door lets in."""

    sources: list[Any]  # of shards
    concepts: Concepts
    papers: Papers
    words: Strings | Definitions  # what the ontology says of words
    vocabulary: np.ndarray | None  # (V,)  multinomial
    n_rows: int  # authors, and documents where these have a prior of their own
    strength: Array  # (G,)  factors on gamma; the null is the last one
    labelled: bool
    sizes: tuple[int, int] | None = None  # sentences and documents, where they are in files


def prepare(settings: Settings, strength: Any, corpus: Any, concepts: Any, labels: Any, shard_rows: int | None) -> Data:
    """Check everything, number it, and cut shards."""
    corpus = read_corpus(corpus)
    concepts, factors = known(settings, concepts, strength)
    texts, document, ids, authors = sentences_of(corpus)
    G = len(concepts)
    given = label_lists(labels, len(texts), concepts, settings.null)
    label_ptr, flat = ragged(given, np.int64)
    words: Strings | Definitions
    if isinstance(settings.words, Mention):
        told = [[g for g in several if g < G] for several in given]
        with phase(f"indexing {G:,} concepts"):
            words, vocabulary = mention.strings_of(concepts, mention.learn_words(texts, told) if any(told) else []), None
        with phase(f"looking for them in {len(texts):,} sentences"):
            x = encode(texts, document, words)
    else:
        bags = corpus if isinstance(corpus, Corpus) else Corpus.from_pairs(enumerate(texts))
        x = Sentences(sp.csr_array(bags.sentence_counts, dtype=float, copy=True), document)  # the corpus stays as it is
        x.counts.sum_duplicates()
        vocabulary = np.asarray(bags.vocabulary, dtype=object)
        words = definitions(settings, concepts, vocabulary)
    refuse_strangers(x.counts.nnz)
    papers = _papers(settings, [str(d) for d in ids], document, authors)
    shards = [
        Shard(*piece(x, papers.rows, a, b), label_ptr[a : b + 1] - label_ptr[a], flat[label_ptr[a] : label_ptr[b]], a)
        for a, b in sentence_cuts(len(texts), shard_rows)
    ]
    n_rows = len(papers.authors) + (len(authors) if settings.document_backoff is not None else 0)
    check_rows(settings, n_rows, G)
    sources = [Held(shard) for shard in shards]
    return Data(sources, Concepts.of(concepts), papers, words, vocabulary, n_rows, factors, any(given))


def known(settings: Settings, concepts: Any, strength: Any) -> tuple[Ontology, Array]:
    """The ontology, and the factors on gamma, the null's with them."""
    concepts = Ontology.read(concepts) if isinstance(concepts, str | Path) else concepts
    if not isinstance(concepts, Ontology):
        raise TypeError(f"fit expects concepts=Ontology (Ontology.read, from_table or from_pairs), got {type(concepts).__name__}")
    G = len(concepts)
    factors = np.ones(G) if strength is None else np.asarray(strength, dtype=float)
    if factors.shape != (G,) or not (np.isfinite(factors) & (factors > 0)).all():
        raise DataError(f"strength must be {G} positive numbers, one a concept; got an array of shape {factors.shape}")
    return concepts, np.append(factors, [1.0] * settings.null)


def definitions(settings: Settings, concepts: Ontology, vocabulary: np.ndarray) -> Definitions:
    """What the ontology says of the words of a multinomial."""
    options: Any = settings.words
    G = len(concepts)
    if options.whole_table:
        _small("word_sparsity and overlap", f"{G:,} concepts x {len(vocabulary):,} words", G * len(vocabulary))
    if options.overlap and options.overlap_kind == "distance":
        _small('overlap_kind="distance"', f"{G:,} x {G:,} concepts", G * G)
    with phase(f"indexing {G:,} concepts"):
        words = word_counts.definitions_of(concepts, vocabulary, options, settings.null)
    if not words.counts.nnz:
        raise DataError("the concepts share no word with the corpus; is the ontology of another field or language?")
    return words


def refuse_strangers(found: int) -> None:
    """Refuse sentences in which no word of the concepts was found."""
    if not found:
        raise DataError("the sentences share no word with the concepts; is the ontology of another field or language?")


def sentence_cuts(S: int, shard_rows: int | None) -> list[tuple[int, int]]:
    """Where S sentences are cut into shards."""
    size = max(MIN_SENTENCES, min(-(-S // 32), MAX_SENTENCES), min(-(-S // MAX_SHARDS), MOST_SENTENCES))
    return [(rows.start, rows.stop) for rows in cuts(S, 0, shard_rows or size)]


def check_rows(settings: Settings, n_rows: int, G: int) -> None:
    """Refuse, or warn of, a sparsity of the rows of psi that cannot be had."""
    if settings.author_sparsity:
        _small("author_sparsity", f"{n_rows:,} authors and documents x {G:,} concepts", n_rows * G)
        if not n_rows and settings.author_backoff is None:
            why = "author_sparsity changes nothing here: no text has an author, and author_backoff=None (as in the seed) learns no"
            warnings.warn(f"{why} prior of all texts; name authors, or give author_backoff", DataWarning, stacklevel=5)


def _small(what: str, table: str, cells: int) -> None:
    """Refuse a table that would take minutes and all memory before it failed."""
    if cells > TABLE:
        raise DataError(f"{what} would need the whole table of {table} at once; use a smaller ontology")


def read_corpus(corpus: Any, text: str = "text", authors: str | None = "authors") -> Any:
    """The sentences of a file, or of a folder of texts, by name; anything else as it is."""
    return Corpus.read(corpus, text, authors, sentences=True) if names_file(corpus) else corpus


def sentences_of(corpus: Any) -> tuple[list[str], np.ndarray, Any, list[list[str]]]:
    """Texts of the sentences, the document of each (rising), ids and authors of the documents."""
    corpus = read_corpus(corpus)
    if not isinstance(corpus, Corpus):
        texts = list(corpus)
        strange = [t for t in texts if not isinstance(t, str)]
        if strange or not texts:
            raise DataError(f"expected a Corpus or a list of sentences, got {f'an item {strange[0]!r}' if texts else 'nothing'}")
        return texts, np.arange(len(texts)), range(len(texts)), [[] for _ in texts]
    if corpus.sentences is None or corpus.sentence_document is None:
        raise DataError("this Corpus has no sentences; make it with sentences=True, or with Corpus.from_pairs")
    document = np.asarray(corpus.sentence_document, dtype=np.int64)
    if not len(document):
        raise DataError("the corpus has no sentence; check its texts")
    if (np.diff(document) < 0).any():
        raise DataError("the sentences of a corpus must be ordered by document")
    return corpus.sentences, document, corpus.documents, [clean_names(a) for a in corpus.authors]


def clean_names(authors: Any) -> list[str]:
    """Names of authors, each once, without outer blanks; empty ones are dropped."""
    if authors is None:
        return []
    if not isinstance(authors, str) and not np.iterable(authors):
        raise DataError(f"authors must be names, got {authors!r}; give a text, or a list of texts")
    several = [authors] if isinstance(authors, str) else list(authors)
    return list(dict.fromkeys(a for a in (" ".join(str(b).split()) for b in several if b is not None and b == b) if a))


def label_lists(labels: Any, n: int, concepts: Ontology, null: bool) -> list[list[int]]:
    """Given concepts of every sentence as numbers: None is unknown, [] is none of them, the null (where there is one).

    Ids that the ontology does not have are left out with a warning.
    """
    if labels is None:
        return [[] for _ in range(n)]
    several = [[v] if isinstance(v, str) else list(v) if np.iterable(v) else None for v in labels]
    if len(several) != n:
        many = f"there are {n} sentences and {len(several)} labels"
        raise DataError(f"labels must have one entry a sentence, {many}; use None for unknown")
    unknown = sorted({c for v in several for c in v or () if concepts.resolve(c) is None}, key=str)
    if unknown:
        told = f"{len(unknown)} labels are not in the ontology, such as {unknown[:3]}; they were left out"
        warnings.warn(told, DataWarning, stacklevel=4)
    none = [len(concepts)] if null else []
    known = [[concepts.index(c) for c in v or () if concepts.resolve(c) is not None] for v in several]
    return [none if v == [] else list(dict.fromkeys(found)) for v, found in zip(several, known, strict=True)]


def _papers(settings: Settings, ids: list[str], document: np.ndarray, authors: list[list[str]]) -> Papers:
    """Number the authors and weigh them (author_prior, eq. 1)."""
    names = sorted({a for several in authors for a in several})
    place = {a: i for i, a in enumerate(names)}
    coded = [[place[a] for a in several] for several in authors]
    sizes = np.bincount(document, minlength=len(ids))
    n = np.zeros(len(names))
    count_sentences(n, *ragged(coded, np.int64), sizes, settings)
    weight = own_part(n, settings)
    rows = author_prior.rows_of(coded, sizes, weight, settings.document_backoff)
    return Papers(np.array(ids, dtype=object), document, np.array(names, dtype=object), weight, rows)


def count_sentences(n: Array, ptr: np.ndarray, author: np.ndarray, sizes: np.ndarray, settings: Settings) -> None:
    """Add the sentences of some documents to those of each author, in the order of the documents."""
    of_each = sizes / np.maximum(np.diff(ptr), 1) if settings.credit == "split" else sizes
    np.add.at(n, author, np.repeat(of_each, np.diff(ptr)))


def own_part(n: Array, settings: Settings) -> Array:
    """The part of authors of n sentences that is their own (author_prior, eq. 1)."""
    if settings.author_backoff is None:
        return np.ones(len(n))
    return n / np.maximum(n + settings.author_backoff, 1e-300)  # an author may have no sentence


def encode(texts: Sequence[str], document: np.ndarray, words: Strings | np.ndarray) -> Sentences:
    """Sentences in the keys of strings, or as bags of words of a vocabulary; words that these lack are passed over."""
    if isinstance(words, Strings):
        (ptr, flat), width = mention.encode(texts, words.keys), len(words.keys)
    else:
        find, width = word_counts.places(words), len(words)
        ptr, flat = ragged([[v for w in tokenize(t) if (v := find(w)) is not None] for t in texts], np.int32)
    X = sp.csr_array((np.ones(len(flat)), flat, ptr), shape=(len(texts), width))
    X.sum_duplicates()
    return Sentences(X, document)
