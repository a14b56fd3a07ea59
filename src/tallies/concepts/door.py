"""The door of the author-concept model: a corpus, an ontology and labels in; checked, numbered and cut into shards."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.concepts import author_prior, mention, word_counts
from tallies.concepts.mention import Noise
from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology
from tallies.data.text import tokenize
from tallies.errors import DataError, DataWarning

MIN_SENTENCES = 256  # in a shard: a sentence of a large ontology takes 0.2 ms, so this is many times the cost of scheduling
MAX_SHARDS = 32

# the algorithm of the original note: hard assignments, every author credited whole, words of name and definition, pseudocount once
SEED: dict[str, Any] = {
    "words": "multinomial",
    "assign": "hard",
    "credit": "whole",
    "gamma": 1e-8,
    "strength": None,
    "author_backoff": None,
    "document_backoff": None,
    "null": False,
    "ontology_smoothing": 0.0,
    "smoothing": 1e-8,
    "background": False,
    "definition_weight": 1.0,
    "anchor": 1.0,
    "leave_one_out": False,
    "author_sparsity": 0.0,
    "word_sparsity": 0.0,
    "overlap": 0.0,
    "stop": "assignments",
    "held_out": 0.0,
    "keep": 1,
    "single": False,
}


class Sentences(NamedTuple):
    """Sentences as the word side reads them, ordered by document."""

    ptr: np.ndarray  # (S+1,)  where the keys of a sentence begin
    keys: np.ndarray  # int32  mention: rising keys of its strings; multinomial: words
    counts: np.ndarray | None  # multinomial: how often each word occurs
    document: np.ndarray  # (S,) int64  rising
    held_ptr: np.ndarray | None = None  # words held out of the fit, likewise
    held_keys: np.ndarray | None = None
    held_counts: np.ndarray | None = None

    def matrix(self, width: int) -> sp.csr_array:
        """(S, width) counts."""
        data = np.ones(len(self.keys)) if self.counts is None else self.counts
        return sp.csr_array((data, self.keys, self.ptr), shape=(len(self.document), width))

    def take(self, rows: np.ndarray) -> Sentences:
        """Some sentences, in the order given (without held-out words)."""
        n = np.diff(self.ptr)[rows]
        at = np.repeat(self.ptr[rows] - np.concatenate([[0], np.cumsum(n)[:-1]]), n) + np.arange(n.sum())
        ptr = np.concatenate([[0], np.cumsum(n)])
        return Sentences(ptr, self.keys[at], None if self.counts is None else self.counts[at], self.document[rows])

    def cut(self, a: int, b: int, first_document: int) -> Sentences:
        def part(ptr: Any, *arrays: Any) -> list[Any]:
            return [None if ptr is None else ptr[a : b + 1] - ptr[a], *(None if x is None else x[ptr[a] : ptr[b]] for x in arrays)]

        ptr, keys, counts = part(self.ptr, self.keys, self.counts)
        return Sentences(
            ptr, keys, counts, self.document[a:b] - first_document, *part(self.held_ptr, self.held_keys, self.held_counts)
        )


def door(model: Any, plan: Any, corpus: Any, concepts: Any, labels: Any, make: Callable[..., Any]) -> list[Any]:
    """Check everything, write the facts of the data on the model, and cut shards with `make`."""
    check_settings(plan)
    if not isinstance(concepts, Ontology):
        raise TypeError(f"fit expects concepts=Ontology (Ontology.read, from_table or from_pairs), got {type(concepts).__name__}")
    texts, document, ids, authors = sentences_of(corpus)
    G = len(concepts)
    if plan.strength is not None:
        strength = np.asarray(plan.strength, dtype=float)
        if strength.shape != (G,) or not (np.isfinite(strength) & (strength > 0)).all():
            raise DataError(f"strength must be {G} positive numbers, one a concept; got an array of shape {strength.shape}")
    model.concept_ids_, model.concept_names_ = np.array(concepts.ids, dtype=object), np.array(concepts.names, dtype=object)
    model.concept_parents_ = [[concepts.index(p) for p in above] for above in concepts.parents]
    model.alternatives_ = dict(concepts.alternatives)
    model.document_ids_ = np.array([str(d) for d in ids], dtype=object)
    given = label_lists(labels, len(texts), concepts, plan.null)
    model.labelled_ = any(given)
    x = _words_side(model, plan, corpus, texts, document, concepts, given)
    model.n_sentences_, model.sentence_documents_ = len(texts), document
    rows = _rows(model, plan, authors, np.bincount(document, minlength=len(ids)))
    if not len(x.keys):
        raise DataError("the sentences share no word with the concepts; is the ontology of another field or language?")
    label_ptr = np.concatenate([[0], np.cumsum([len(g) for g in given])]).astype(np.int64)
    flat = np.array([g for several in given for g in several], dtype=np.int64)
    shards = []
    for a, b in _cuts(document, getattr(model, "shard_rows", None)):
        d0, d1 = document[a], document[b - 1] + 1
        at = rows.ptr[d0]
        mine = author_prior.Rows(
            rows.share[d0:d1], rows.ptr[d0 : d1 + 1] - at, rows.row[at : rows.ptr[d1]], rows.weight[at : rows.ptr[d1]]
        )
        shards.append(make(x.cut(a, b, d0), mine, label_ptr[a : b + 1] - label_ptr[a], flat[label_ptr[a] : label_ptr[b]], a))
    return shards


def check_settings(plan: Any) -> None:
    """Refuse hyperparameters that mean nothing."""
    choices = {"words": ("mention", "multinomial"), "assign": ("soft", "hard"), "credit": ("split", "whole")}
    choices |= {"stop": ("likelihood", "assignments"), "overlap_kind": ("orthogonal", "distance")}
    for name, allowed in choices.items():
        if getattr(plan, name) not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {getattr(plan, name)!r}")
    for name in ("temperature", "smoothing"):
        if not getattr(plan, name) > 0:
            raise ValueError(f"{name} must be positive, got {getattr(plan, name)!r}")
    for name in (
        "gamma",
        "definition_weight",
        "author_sparsity",
        "word_sparsity",
        "overlap",
        "author_backoff",
        "document_backoff",
        "anchor",
        "beside",
    ):
        value = getattr(plan, name)
        if value is not None and not value >= 0:
            raise ValueError(f"{name} must not be negative, got {value!r}")
    if plan.ontology_smoothing is not None and not 0 <= plan.ontology_smoothing <= 1:
        raise ValueError(f"ontology_smoothing must be a share from 0 to 1, got {plan.ontology_smoothing!r}")
    if plan.keep < 1:
        raise ValueError(f"keep must be at least 1, got {plan.keep!r}")
    if not 0 <= plan.held_out < 1:
        raise ValueError(f"held_out must be a share from 0 up to 1, got {plan.held_out!r}")
    if plan.words == "mention":
        for name in ("word_sparsity", "overlap", "held_out"):
            if getattr(plan, name):
                raise ValueError(f'{name} is for words="multinomial"; the words of mentions are not learned')
        if not plan.null:
            raise ValueError('words="mention" weighs concepts against "none of these", so it needs null=True')
    elif (plan.word_sparsity or plan.overlap) and (plan.anchor is None or plan.null or plan.held_out):
        raise ValueError(
            "word_sparsity and overlap shape words that are learned: set anchor=1.0 (or more), null=False and held_out=0"
        )
    unknown = sorted(set(plan.noise or {}) - set(Noise._fields))
    if unknown:
        raise ValueError(f"noise knows {', '.join(Noise._fields)}, got {', '.join(unknown)}")


def sentences_of(corpus: Any) -> tuple[list[str], np.ndarray, Any, list[list[str]]]:
    """Texts of the sentences, the document of each (rising), ids and authors of the documents."""
    if isinstance(corpus, str):
        raise DataError("expected a Corpus or a list of sentences, got one string; put it into a list")
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
    several = [authors] if isinstance(authors, str) else list(authors)
    return list(dict.fromkeys(a for a in (" ".join(str(b).split()) for b in several if b is not None and b == b) if a))


def label_lists(labels: Any, n: int, concepts: Ontology, null: bool) -> list[list[int]]:
    """Given concepts of every sentence as numbers: None is unknown, [] is none of them, the null (where there is one).

    Ids that the ontology does not have are left out with a warning.
    """
    if labels is None:
        return [[] for _ in range(n)]
    several = list(labels)
    if len(several) != n:
        raise DataError(
            f"labels must have one entry a sentence, there are {n} sentences and {len(several)} labels; use None for unknown"
        )
    lists = [[v] if isinstance(v, str) else list(v) if np.ndim(v) else [] for v in several]
    unknown = sorted({c for v in lists for c in v if concepts.resolve(c) is None})
    if unknown:
        warnings.warn(
            f"{len(unknown)} labels are not in the ontology, such as {unknown[:3]}; they were left out", DataWarning, stacklevel=4
        )
    nothing = [v is not None and not isinstance(v, str) and np.ndim(v) == 1 and len(v) == 0 for v in several]
    known = [list(dict.fromkeys(concepts.index(c) for c in v if concepts.resolve(c) is not None)) for v in lists]
    return [[len(concepts)] if none and null else v for v, none in zip(known, nothing, strict=True)]


def _rows(model: Any, plan: Any, authors: list[list[str]], sizes: np.ndarray) -> author_prior.Rows:
    """Number the authors and weigh them (author_prior, eq. 1)."""
    names = sorted({a for several in authors for a in several})
    place = {a: i for i, a in enumerate(names)}
    coded = [[place[a] for a in several] for several in authors]
    model.authors_ = np.array(names, dtype=object)
    model.author_weight_ = None
    if plan.author_backoff is not None:
        n = np.zeros(len(names))
        for several, size in zip(coded, sizes, strict=True):
            n[several] += size / max(len(several), 1) if plan.credit == "split" else size
        model.author_weight_ = n / (n + plan.author_backoff) if plan.author_backoff or len(n) else n
    model.n_rows_ = len(names) + (len(authors) if plan.document_backoff is not None else 0)
    return author_prior.rows_of(coded, sizes, model.author_weight_, plan.document_backoff, len(names))


def _words_side(
    model: Any, plan: Any, corpus: Any, texts: list[str], document: np.ndarray, concepts: Ontology, given: list[list[int]]
) -> Sentences:
    if plan.words == "mention":
        words = [[g for g in several if g < len(concepts)] for several in given]
        learned = mention.learn_words(texts, words) if any(words) else []
        model.strings_ = mention.strings_of(concepts, learned)
        model.n_keys_ = len(model.strings_.keys)
        return Sentences(*mention.encode(texts, key_places(model)), None, document)
    counts = corpus if isinstance(corpus, Corpus) else Corpus.from_texts(texts, sentences=True)
    X = sp.csr_array(counts.sentence_counts, dtype=float, copy=True)  # the corpus stays as it is
    X.sum_duplicates()
    model.vocabulary_ = np.asarray(counts.vocabulary, dtype=object)
    model.n_keys_ = X.shape[1]
    held: tuple[Any, ...] = ()
    if plan.held_out:
        rng = np.random.default_rng(model._seed())
        out = sp.csr_array(
            (rng.binomial(X.data.astype(np.int64), plan.held_out).astype(float), X.indices.copy(), X.indptr.copy()), shape=X.shape
        )
        X = sp.csr_array(X - out)
        out.eliminate_zeros()
        X.eliminate_zeros()
        held = (out.indptr.astype(np.int64), out.indices.astype(np.int32), out.data)
    definitions, unseen = word_counts.definition_counts(concepts, model.vocabulary_, plan.definition_weight)
    if not definitions.nnz:
        raise DataError("the concepts share no word with the corpus; is the ontology of another field or language?")
    if plan.null:
        definitions, unseen = sp.csr_array(sp.vstack([definitions, sp.csr_array((1, X.shape[1]))])), np.append(unseen, 0.0)
    model.definitions_, model.word_counts_ = definitions, np.asarray(X.sum(axis=0)).ravel()
    # a table that is laid out whole is normalised over the vocabulary
    model.unseen_words_ = np.zeros_like(unseen) if plan.word_sparsity or plan.overlap else unseen
    model.distances_ = concepts.distances() if plan.overlap and plan.overlap_kind == "distance" else None
    if (plan.word_sparsity or plan.overlap) and definitions.shape[0] * X.shape[1] > 20_000_000:
        size = f"{definitions.shape[0]:,} concepts x {X.shape[1]:,} words"
        raise DataError(f"word_sparsity and overlap need the whole table of {size} at once; use a smaller ontology")
    return Sentences(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, document, *held)


def key_places(model: Any) -> dict[str, int]:
    """Number of each key of the strings; made again after loading."""
    cached = model.__dict__.get("_places")
    if cached is None or cached[0] is not model.strings_.keys:
        model.__dict__["_places"] = cached = (model.strings_.keys, {k: i for i, k in enumerate(model.strings_.keys)})
    return cached[1]


def encode(model: Any, plan: Any, texts: Sequence[str], document: np.ndarray) -> Sentences:
    """New sentences for a fitted model; words that it does not know are passed over."""
    if plan.words == "mention":
        return Sentences(*mention.encode(texts, key_places(model)), None, document)
    place = {w: v for v, w in enumerate(model.vocabulary_)}
    rows = [
        [place[w] if w in place else place[mention.stem(w)] for w in tokenize(t) if w in place or mention.stem(w) in place]
        for t in texts
    ]
    ptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    flat = np.array([v for r in rows for v in r], dtype=np.int32)
    X = sp.csr_array((np.ones(len(flat)), flat, ptr), shape=(len(texts), len(place)))
    X.sum_duplicates()
    return Sentences(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, document)


def _cuts(document: np.ndarray, shard_rows: int | None) -> list[tuple[int, int]]:
    """Shards of whole documents, by the number of sentences alone."""
    S = len(document)
    size = shard_rows or max(MIN_SENTENCES, -(-S // MAX_SHARDS))
    starts = np.flatnonzero(np.diff(document, prepend=-1))
    out, a = [], 0
    for b in [*starts[1:], S]:
        if b - a >= size or b == S:
            out.append((a, int(b)))
            a = int(b)
    return out
