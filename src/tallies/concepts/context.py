"""What mentions teach: the words that stand around a concept's strings, and (from labels) which of its strings are used.

    1.  n_gw = sentences of concept g with the word w outside its string,   N_g = sentences of g        w: a stem of some string
    2.  c_gw = max(0, log((max(n_gw - 1, 0) + M b_w) / ((N_g + M) b_w)))      b: as in `mention`
    3.  odds of string k of concept g = (u_k + U p_k) / (sum_j u_j + U) * sum_j e^nu_j,    p = e^nu / sum_j e^nu_j

The sentences of g are those that carry its label and, without labels, those where g explains its words with a probability over
one half. (2) is self-training, so it is kept on a short lead: one sentence is taken off every count, so that no sentence confirms
itself; a word that is rare around g does not speak against g; and (2) enters with a weight, and only where sentences are ranked.
(3) replaces the given odds nu by how often each string was the loudest one of its concept in labelled sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.concepts.mention import Lexicon, Strings
from tallies.forms import Form
from tallies.maths import Array

SURE = 0.5  # probability over which a mention counts as one
BACKGROUND = 100.0  # M: sentences of the background, against those of each concept


class Context(NamedTuple):
    """c of eq. 2 where it is positive, a row for each concept."""

    ptr: Annotated[np.ndarray, Form("H", "i", ends="n")]  # H = G + 1: mentions have the null
    key: Annotated[np.ndarray, Form("n", "i", 0)]  # int32  rising within a concept
    gain: Annotated[np.ndarray, Form("n", "f", 0)]  # float32


class Mentions(NamedTuple):
    """Which concepts are mentioned where, and by which strings."""

    sentence: Annotated[np.ndarray, Form("M", "i", 0, below="S")]
    concept: Annotated[np.ndarray, Form("M", "i", 0)]
    string: Annotated[np.ndarray, Form("M", "i", -1)]  # -1: by none of its strings
    weight: Annotated[Array, Form("M", "f", 0)]


class Around(NamedTuple):
    """Tally of eq. 1."""

    n_gw: Annotated[sp.csr_array, Form("G stems", "f", 0)]
    n_g: Annotated[Array, Form("G", "f", 0)]


class Said(NamedTuple):
    """Which strings say a concept, where labels teach it."""

    start: Annotated[np.ndarray, Form("K", "f")]  # float32  log odds of a string with every word missing
    owner: Annotated[np.ndarray, Form("K", "i", 0, below="H")]  # int32  its concept
    odds: Annotated[Array, Form("K", "f")]  # nu: of being used at all

    @classmethod
    def of(cls, words: Lexicon) -> Said:
        return cls(words.postings.start, words.strings.owner, words.odds())

    def put(self, words: Lexicon) -> Lexicon:
        """The lexicon with these odds."""
        return words._replace(postings=words.postings._replace(start=self.start))


def count(strings: Strings, keys: sp.csr_array, found: Mentions, G: int) -> Around:
    """Eq. 1, of sentences with the given keys (S, all keys)."""
    M, (a, b), stems = len(found.sentence), strings.span(1), strings.words[:, 1]
    around = sp.csr_array(keys[:, a:b])[found.sentence]
    ptr = np.append(strings.word_ptr, len(stems))  # the last string, -1, has no words
    own = sp.csr_array((np.ones(len(stems)), stems - a, ptr), shape=(len(ptr) - 1, b - a))[found.string]
    own.sum_duplicates()
    own.data[:] = 1.0
    around = around - around.multiply(own)
    n = sp.csr_array(sp.csr_array((found.weight, (found.concept, np.arange(M))), shape=(G, M)) @ around)
    n.eliminate_zeros()
    n.sort_indices()
    return Around(n, np.bincount(found.concept, weights=found.weight, minlength=G).astype(float))


def learn(words: Lexicon, around: Around) -> Context:
    """Eq. 2."""
    a, b = words.strings.span(1)
    n = around.n_gw
    rate = np.exp(words.postings.log_rate[a:b])[n.indices]
    total = np.repeat(around.n_g, np.diff(n.indptr))
    gain = np.log((np.maximum(n.data - 1.0, 0.0) + BACKGROUND * rate) / ((total + BACKGROUND) * rate))
    table = sp.csr_array((np.maximum(gain, 0.0), n.indices, n.indptr), shape=n.shape)
    table.eliminate_zeros()
    table.sort_indices()
    return Context(table.indptr.astype(np.int64), (table.indices + a).astype(np.int32), table.data.astype(np.float32))


def usage(said: Said, used: Array, count: float) -> Said:
    """Eq. 3, where string k was used `used[k]` times, and the given odds count for `count` sentences (U)."""
    weight = np.exp(said.odds)
    whole, times = (np.bincount(said.owner, weights=v)[said.owner] for v in (weight, used))
    new = np.log((used + count * weight / whole) / (times + count) * whole)
    return said._replace(start=(said.start + new - said.odds).astype(said.start.dtype), odds=new)


def explain(table: Context, texts: Sequence[str], weight: float, keys: Any, g: int, own: set[str]) -> list[tuple[str, float]]:
    """The words of a sentence that stand around concept g, with their weighted gains; `own` are the stems of the string itself."""
    row = slice(table.ptr[g], table.ptr[g + 1])
    found = dict(zip(table.key[row].tolist(), table.gain[row].tolist(), strict=True))
    words = [(texts[key][1:], found[key]) for key in sorted(keys) if key in found]
    return [(f"context: {word}", weight * gain) for word, gain in words if word not in own]
