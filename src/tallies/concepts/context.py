"""What mentions teach: the words that stand beside a concept's strings, and (from labels) which of its strings are used.

    1.  n_gw = sentences of concept g with the word w outside its string,   N_g = sentences of g        w: a stem of some string
    2.  c_gw = max(0, log((max(n_gw - 1, 0) + M b_w) / ((N_g + M) b_w)))      b: as in `mention`
    3.  odds of string k of concept g = (u_k + U p_k) / (sum_j u_j + U) * sum_j e^nu_j,    p = e^nu / sum_j e^nu_j

The sentences of g are those that carry its label and, without labels, those where g explains its words with a probability over
one half. (2) is self-training, so it is kept on a short lead: one sentence is taken off every count, so that no sentence confirms
itself; a word that is rare beside g does not speak against g; and (2) enters with a weight, and only where sentences are ranked.
(3) replaces the given odds nu by how often each string was the loudest one of its concept in labelled sentences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.concepts.mention import Noise, Postings, Strings, bonuses
from tallies.maths import Array

SURE = 0.5  # probability over which a mention counts as one
BACKGROUND = 100.0  # M: sentences of the background beside those of each concept


class Beside(NamedTuple):
    """c of eq. 2 where it is positive, a row for each concept."""

    ptr: np.ndarray  # (G+1,)
    key: np.ndarray  # (.,) int32  rising within a concept
    gain: np.ndarray  # (.,) float32


class Mentions(NamedTuple):
    """Tallies of equations 1 and 3."""

    n_gw: sp.csr_array  # (G, stems)
    n_g: Array  # (G,)
    used: Array | None  # (K,)  u; None without labels


def count(
    strings: Strings,
    matrix: sp.csr_array,
    G: int,
    sentence: np.ndarray,
    concept: np.ndarray,
    string: np.ndarray,
    weight: Array,
    labelled: np.ndarray | None,
) -> Mentions:
    """Eq. 1 of the sentences with the keys `matrix` (S, keys); each mention has a sentence, a concept, a string (or -1), a weight.

    `labelled` says which of them come from labels.
    """
    K = len(strings.owner)
    said = np.flatnonzero(string >= 0)
    a, b = stems(strings)
    around = sp.csr_array(matrix[:, a:b])[sentence]
    own = sp.csr_array((np.ones(len(strings.words)), strings.words[:, 1] - a, strings.word_ptr), shape=(K, b - a))[string[said]]
    own.sum_duplicates()
    own.data[:] = 1.0
    put = sp.csr_array((np.ones(len(said)), (said, np.arange(len(said)))), shape=(len(sentence), len(said)))
    around = around - around.multiply(put @ own)
    of = sp.csr_array((weight, (concept, np.arange(len(sentence)))), shape=(G, len(sentence)))
    n = sp.csr_array(of @ around)
    n.eliminate_zeros()
    used = None
    if labelled is not None:
        used = np.bincount(string[said][labelled[said]], minlength=K).astype(float)
    return Mentions(n, np.bincount(concept, weights=weight, minlength=G).astype(float), used)


def learn(strings: Strings, mentions: Mentions, log_rate: Array) -> Beside:
    """Eq. 2."""
    a, b = stems(strings)
    n = mentions.n_gw
    rate = np.exp(log_rate[a:b])[n.indices]
    total = np.repeat(mentions.n_g, np.diff(n.indptr))
    gain = np.log((np.maximum(n.data - 1.0, 0.0) + BACKGROUND * rate) / ((total + BACKGROUND) * rate))
    table = sp.csr_array((np.maximum(gain, 0.0), n.indices, n.indptr), shape=n.shape)
    table.eliminate_zeros()
    table.sort_indices()
    return Beside(table.indptr.astype(np.int64), (table.indices + a).astype(np.int32), table.data.astype(np.float32))


def usage(strings: Strings, post: Postings, noise: Noise, used: Array) -> Postings:
    """Postings with the odds of eq. 3."""
    given = bonuses(strings, post, noise)
    weight = np.exp(given)
    G = int(strings.owner.max()) + 1
    whole = np.bincount(strings.owner, weights=weight, minlength=G)[strings.owner]
    times = np.bincount(strings.owner, weights=used, minlength=G)[strings.owner]
    new = np.log((used + noise.usage * weight / whole) / (times + noise.usage) * whole)
    return post._replace(start=(post.start + new - given).astype(post.start.dtype))


def stems(strings: Strings) -> tuple[int, int]:
    """First key that is a stem, and the one after the last."""
    return strings.n_classes, int(strings.words[:, 1].max()) + 1


def explain(strings: Strings, table: Beside, weight: float, keys: Any, g: int, own: set[str]) -> list[tuple[str, float]]:
    """The words of a sentence that stand beside concept g, with their weighted gains; `own` are the stems of the string itself."""
    row = slice(table.ptr[g], table.ptr[g + 1])
    found = dict(zip(table.key[row].tolist(), table.gain[row].tolist(), strict=True))
    words = [(strings.keys[key][1:], found[key]) for key in sorted(keys) if key in found]
    return [(f"beside: {word}", weight * gain) for word, gain in words if word not in own]
