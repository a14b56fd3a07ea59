"""The multinomial word side of the author-concept model: a concept is a law over words, from its definition and its sentences.

    1.  phi_gw = (c_gw + e_w) / (N_g + E),    c = anchor * definitions + expected counts,   e = anchor * smoothing * m,
        N_g = sum_w c_gw + anchor * words of the definition that no sentence has: a concept does not win by their absence
    2.  log P(s | g) = sum_w n_sw log((c_gw + e_w) / e_w) - L_s log(N_g + E) + sum_w n_sw log e_w

(2) is sparse x sparse plus rank one plus a term of the sentence alone: nothing of size G x V is ever built. m is flat, or the
frequency of each word in the corpus (background): then a concept without any words of its own is the background itself, and
that is the null concept. The penalties F2 and overlap (in `penalties.py`) need the whole table, so they are for small ontologies.
`options` are a Multinomial, filled in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.concepts import penalties
from tallies.data.ontology import Ontology
from tallies.data.text import stem, stop_words, tokenize
from tallies.forms import Form
from tallies.maths import Array, dot0, log0

TABLE = 20_000_000  # cells of concepts x words that may be laid out whole: 160 MB


class Words(NamedTuple):
    """phi, laid out word by word for the kernel."""

    ptr: Annotated[np.ndarray, Form("V+1", "i", ends="n")]
    concept: Annotated[np.ndarray, Form("n", "i", 0, below="H")]  # int32, rising within a word
    gain: Annotated[np.ndarray, Form("n", "f")]  # log((c + e) / e), or log phi where the table is whole
    counts: Annotated[np.ndarray, Form("...", "f", 0)]  # c_gw, likewise; empty where the table is whole
    slope: Annotated[Array, Form("H", "f")]  # -log(N_g + E); 0 where the table is whole
    total: Annotated[Array, Form("H", "f", 0)]  # N_g + E
    smooth: Annotated[Array, Form("V", "f", 0)]  # e_w; 1 where the table is whole

    def check(self) -> None:
        if len(self.counts) not in (0, len(self.gain)):
            raise ValueError(f"there should be {len(self.gain)} counts of words or none, and are {len(self.counts)}")

    def gains(self) -> sp.csr_array:
        """(V, G)"""
        return sp.csr_array((self.gain.astype(float), self.concept, self.ptr), shape=(len(self.smooth), len(self.slope)))


class Definitions(NamedTuple):
    """What is known of the words of concepts before any sentence is read."""

    counts: Annotated[sp.csr_array, Form("H V", "f", 0)]  # c_gw of names and definitions
    unseen: Annotated[Array, Form("H", "f", 0)]  # their words that no sentence has
    distance: Annotated[Array, Form("H H", "f", 0)] | None  # d_gh of the overlap penalty, where it is used


class Learned(NamedTuple):
    """phi where it is learned, and what it is anchored to."""

    words: Words
    definitions: Definitions  # anchor times
    smooth: Annotated[Array, Form("V", "f", 0)]  # e_w


def places(vocabulary: Any) -> Callable[[str], int | None]:
    """A function that finds a word in the vocabulary: as it is, or by its stem, where the corpus was stemmed."""
    known = {w: v for v, w in enumerate(vocabulary)}
    return lambda word: known[word] if word in known else known.get(stem(word))


def definitions_of(ontology: Ontology, vocabulary: Any, options: Any, null: bool) -> Definitions:
    """Words of the names, and of the definitions at `definition_weight`; the null concept, the last one, has none.

    A concept without a name has its definition at full weight. English stop words that the vocabulary lacks are passed over.
    """
    find, skip, weight = places(vocabulary), stop_words("english"), options.definition_weight
    G = len(ontology) + null
    cells, unseen = [], np.zeros(G)
    for g in range(len(ontology)):
        name, definition = tokenize(ontology.names[g]), tokenize(ontology.definitions[g])
        for words, w in ((name, 1.0), (definition, weight if name else 1.0)):
            for token in words if w else ():
                v = find(token)
                if v is not None:
                    cells.append((g, v, w))
                elif token not in skip:
                    unseen[g] += w
    i, j, x = np.array(cells, dtype=float).reshape(-1, 3).T
    counts = sp.csr_array((x, (i.astype(np.int64), j.astype(np.int64))), shape=(G, len(vocabulary)))
    distance = ontology.distances() if options.overlap and options.overlap_kind == "distance" else None
    return Definitions(counts, unseen, distance)


def begin(given: Definitions, counts: Array, options: Any) -> Learned:
    """phi before the first sweep, from how often each word occurs."""
    t = 1.0 if options.anchor is None else options.anchor
    share = (counts + 0.5) / (counts + 0.5).sum() if options.background else np.ones(len(counts))
    smooth = options.smoothing * share * t  # e_w of eq. 1
    given = given._replace(counts=given.counts * t, unseen=given.unseen * t)
    words = lay_out(given.counts, smooth, options.dtype, given.unseen)
    if options.whole_table:
        words = lay_out_whole(phi_of(words), options.dtype)
    return Learned(words, given, smooth)


def maximise(last: Learned, n_gw: sp.csr_array, options: Any) -> Learned:
    """The M-step of phi from the expected words of each concept (eq. 1, or with penalties)."""
    given = last.definitions
    counts = given.counts + n_gw
    if not options.whole_table:
        return last._replace(words=lay_out(counts, last.smooth, options.dtype, given.unseen))
    full = np.column_stack([counts.toarray() + last.smooth, given.unseen])
    phi = penalties.maximise(full, with_rest(last.words), options.word_sparsity, options.overlap, given.distance)
    return last._replace(words=lay_out_whole(phi[:, :-1], options.dtype))


def log_prior(point: Learned, options: Any) -> float:
    """What `maximise` adds to the log likelihood; 0 where the table of concepts x words is too large to be laid out for it."""
    given, words = point.definitions, point.words
    if given.counts.shape[0] * given.counts.shape[1] > TABLE:
        return 0.0
    phi = with_rest(words)
    value = dot0(np.column_stack([given.counts.toarray() + point.smooth, given.unseen]), log0(phi))
    return value + penalties.log_penalty(phi, options.word_sparsity, options.overlap, given.distance)


def lay_out(counts: sp.csr_array, smooth: Array, dtype: Any, unseen: Array | float = 0.0) -> Words:
    """Words from c (G, V), e (V,) and the words that no sentence has (G,), eq. 1."""
    c = sp.csr_array(counts.T)
    c.sum_duplicates()
    e = np.repeat(smooth, np.diff(c.indptr))
    total = np.asarray(counts.sum(axis=1)).ravel() + smooth.sum() + unseen
    ratio = np.divide(c.data, e, out=np.zeros(len(e)), where=c.data > 0)  # a word that was never met may have no smoothing either
    ptr, concept, gain = c.indptr.astype(np.int64), c.indices.astype(np.int32), np.log1p(ratio).astype(dtype)
    return Words(ptr, concept, gain, c.data, -np.log(total), total, smooth)


def lay_out_whole(phi: Array, dtype: Any) -> Words:
    """Words from a whole table phi (G, V)."""
    G, V = phi.shape
    concept = np.tile(np.arange(G, dtype=np.int32), V)
    ptr = np.arange(V + 1, dtype=np.int64) * G
    return Words(ptr, concept, np.log(phi).T.ravel().astype(dtype), np.empty(0), np.zeros(G), np.ones(G), np.ones(V))


def phi_of(words: Words) -> Array:
    """The whole table (G, V): for small ontologies, samples and tests."""
    return np.exp(words.gains().toarray().T + np.log(words.smooth) + words.slope[:, None])


def with_rest(words: Words) -> Array:
    """The whole table, and in one more column (G, V + 1) the words of each definition that no sentence has."""
    phi = phi_of(words)
    return np.column_stack([phi, np.maximum(1.0 - phi.sum(axis=1), 0.0)])


def row_of(words: Words, g: int) -> tuple[np.ndarray, Array]:
    """Words that concept g has of its own, and their log odds against a concept without any."""
    at = np.flatnonzero(words.concept == g)
    return np.searchsorted(words.ptr, at, side="right") - 1, words.gain[at].astype(float)


def log_likelihoods(words: Words, X: sp.csr_array) -> Array:
    """(S, G) log P(s | g) of sentences with the counts X (S, V), eq. 2."""
    return (X @ words.gains()).toarray() + np.outer(X.sum(axis=1), words.slope) + (X @ np.log(words.smooth))[:, None]


def sampler(words: Words, vocabulary: np.ndarray, rng: np.random.Generator) -> Any:
    """A function (concept, length) -> words drawn from phi."""

    def draw(g: int, length: int) -> list[str]:
        own, gain = row_of(words, g)
        phi = words.smooth.copy()
        phi[own] *= np.exp(gain)
        return vocabulary[rng.choice(len(phi), size=length, p=phi / phi.sum())].tolist()

    return draw
