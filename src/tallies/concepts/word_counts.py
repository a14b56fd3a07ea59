"""The multinomial word side of the author-concept model: a concept is a law over words, from its definition and its sentences.

    1.  phi_gw = (c_gw + e_w) / (N_g + E),    c = anchor * definitions + expected counts,   e = anchor * smoothing * m,
        N_g = sum_w c_gw + anchor * words of the definition that no sentence has: a concept does not win by their absence
    2.  log P(s | g) = sum_w n_sw log((c_gw + e_w) / e_w) - L_s log(N_g + E) + sum_w n_sw log e_w

(2) is sparse x sparse plus rank one plus a term of the sentence alone: nothing of size G x V is ever built. m is flat, or the
frequency of each word in the corpus (background): then a concept without any words of its own is the background itself, and
that is the null concept. The penalties F2 and overlap (in `penalties.py`) need the whole table, so they are for small ontologies.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.data.ontology import Ontology
from tallies.data.text import stop_words, tokenize
from tallies.maths import Array


class Words(NamedTuple):
    """phi, laid out word by word for the kernel."""

    ptr: np.ndarray  # (V+1,)
    concept: np.ndarray  # (.,) int32, rising within a word
    gain: np.ndarray  # (.,)  log((c + e) / e), or log phi where the table is whole
    counts: np.ndarray  # (.,)  c_gw; empty where the table is whole
    slope: Array  # (G,)  -log(N_g + E); 0 where the table is whole
    total: Array  # (G,)  N_g + E
    smooth: Array  # (V,)  e_w; 1 where the table is whole


def definition_counts(ontology: Ontology, vocabulary: Any, weight: float) -> tuple[sp.csr_array, Array]:
    """(G, V) words of the names, and of the definitions at `weight`, and (G,) of those that are not in the vocabulary.

    A concept without a name has its definition at full weight. Words are looked up as they are, or by their stem where the corpus
    was stemmed; English stop words that the vocabulary lacks are passed over.
    """
    from tallies.concepts.mention import stem

    place = {w: v for v, w in enumerate(vocabulary)}

    skip = stop_words("english")
    i, j, x, unseen = [], [], [], np.zeros(len(ontology))
    for g in range(len(ontology)):
        name, definition = tokenize(ontology.names[g]), tokenize(ontology.definitions[g])
        for words, w in ((name, 1.0), (definition, weight if name else 1.0)):
            for token in words if w else ():
                v = place.get(token)
                v = place.get(stem(token)) if v is None else v
                if v is not None:
                    i.append(g)
                    j.append(v)
                    x.append(w)
                elif token not in skip:
                    unseen[g] += w
    cells = np.array(i, dtype=np.int64), np.array(j, dtype=np.int64)
    return sp.csr_array((np.array(x, dtype=float), cells), shape=(len(ontology), len(place))), unseen


def lay_out(counts: sp.csr_array, smooth: Array, dtype: Any, unseen: Array | float = 0.0) -> Words:
    """Words from c (G, V), e (V,) and the words that no sentence has (G,), eq. 1."""
    c = sp.csr_array(counts.T)
    c.sum_duplicates()
    c.sort_indices()
    e = np.repeat(smooth, np.diff(c.indptr))
    total = np.asarray(counts.sum(axis=1)).ravel() + smooth.sum() + unseen
    return Words(
        c.indptr.astype(np.int64),
        c.indices.astype(np.int32),
        np.log1p(c.data / e).astype(dtype),
        c.data,
        -np.log(total),
        total,
        smooth,
    )


def lay_out_whole(phi: Array, dtype: Any) -> Words:
    """Words from a whole table phi (G, V)."""
    G, V = phi.shape
    concept = np.tile(np.arange(G, dtype=np.int32), V)
    ptr = np.arange(V + 1, dtype=np.int64) * G
    return Words(ptr, concept, np.log(phi).T.ravel().astype(dtype), np.empty(0), np.zeros(G), np.ones(G), np.ones(V))


def phi_of(words: Words, G: int) -> Array:
    """The whole table (G, V): for small ontologies, samples and tests."""
    V = len(words.smooth)
    table = sp.csr_array((words.gain.astype(float), words.concept, words.ptr), shape=(V, G)).toarray().T
    return np.exp(table + np.log(words.smooth) + words.slope[:, None])


def row_of(words: Words, g: int) -> tuple[np.ndarray, Array]:
    """Words that concept g has of its own, and their log odds against a concept without any."""
    at = np.flatnonzero(words.concept == g)
    return np.searchsorted(words.ptr, at, side="right") - 1, words.gain[at].astype(float)
