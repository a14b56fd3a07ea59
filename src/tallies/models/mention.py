"""The mention word side of the author-concept model: a sentence speaks of a concept by a noisy copy of one of its strings.

    string k of concept g      its name or one of its synonyms, kept apart; words in the order of the text
    word of k in the sentence  as such, with the same stem, or with the same first letters of the stem; or missing

    1.  l_k = nu [k is a synonym] + sum over found words of h - sum over missing words of m + gamma #pairs + phi [all found]
    2.  h = max(-log b(surface), log e1 - log b(stem), log e2 - log b(prefix)),     m = mu0 - mu1 log b(stem)
    3.  l_g = max over the strings k of g of l_k;   no string with a found word: l_g = -inf;   null concept "none of these": 0

b(.) is the share of the sentences that have such a word, so every l is a log odds against sentences in general: rare words
speak loudly when found and also when missing. #pairs counts neighbours in the string that are neighbours in the sentence. The
constants are log odds too: (1) is log-linear, not a normalised law of words, and the words stay as they are during EM.
All of it is sums of gains over keys (word class, stem, surface, pair), which `kernels.mention_scores` walks in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.data.ontology import Ontology
from tallies.errors import DataError

TOKEN = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
STOP = frozenset(
    """a an and any are as at be been being both but by can could did do does during each either for from further had has have having he her here his how if
    in into is it its itself may might more most must neither nor not of off on once only or other our out over own per same shall she should so some such
    than that the their them then there these they this those through thus to too under until up upon us very via was we were what when where whether
    which while who whom whose why will with within without would you your""".split()
)
PREFIX = 6  # letters of a stem that make a class of words: "regul" is short enough to stay whole, "phosphoryl" is cut


class Noise(NamedTuple):
    """What a mention may look like; all are log odds or probabilities of equations 1 and 2."""

    stem: float = 0.1  # e1: a word shows up in another form of the same stem
    prefix: float = 0.03  # e2: only the first letters of the stem agree
    missing: float = 2.0  # mu0
    missing_rare: float = 1.0  # mu1: how much more a rare word is missed
    pair: float = 2.0  # gamma
    whole: float = 1.0  # phi
    synonym: float = -2.5  # nu


class Strings(NamedTuple):
    """The strings of an ontology as keys; sentences are encoded by the same keys."""

    keys: list[str]  # texts of the keys, each after its kind: word classes first, then stems, surfaces, pairs
    n_classes: int  # how many of them are word classes
    owner: np.ndarray  # (K,) int32  concept of string k
    synonym: np.ndarray  # (K,) bool
    need: np.ndarray  # (K,) uint8  word classes of string k
    word_ptr: np.ndarray  # (K+1,)  where the words of string k begin
    words: np.ndarray  # (., 3) int32  class, stem and surface key of each word
    pair_ptr: np.ndarray  # (K+1,)
    pairs: np.ndarray  # pair keys of string k


class Postings(NamedTuple):
    """What each key adds to which strings (eq. 1)."""

    ptr: np.ndarray  # (number of keys + 1,)
    string: np.ndarray  # int32
    gain: np.ndarray  # float32
    start: np.ndarray  # (K,) float32  l_k with every word missing


@cache
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("english")


@cache
def analyse(token: str) -> tuple[str, str, str]:
    """Surface without plural, stem, and first letters of the stem.

    >>> analyse("mitochondria"), analyse("bodies")
    (('mitochondria', 'mitochondria', 'mitoch'), ('body', 'bodi', 'bodi'))
    """
    surface = token
    if len(token) > 3 and token.endswith("s"):
        if token.endswith("ies"):
            surface = token[:-3] + "y"
        elif not token.endswith(("ss", "us", "is")):
            surface = token[:-1]
    stem = _stemmer().stemWord(surface)
    return surface, stem, stem[:PREFIX]


def content(text: str) -> list[str]:
    """The words of a text that are not stop words; one-letter words are kept ("P-body" is not "body")."""
    return [t for t in TOKEN.findall(text.lower()) if t not in STOP]


def strings_of(ontology: Ontology, extra: Iterable[tuple[int, str]] = ()) -> Strings:
    """The names and synonyms of an ontology as strings of keys; `extra` are (concept, string) beyond them."""
    texts = [(g, name, False) for g, name in enumerate(ontology.names)]
    texts += [(g, s, True) for g, several in enumerate(ontology.synonyms) for s in several]
    texts += [(g, s, True) for g, s in extra]
    seen: set[tuple[int, tuple[str, ...]]] = set()
    kinds: tuple[dict[str, int], ...] = ({}, {}, {}, {})  # class, stem, surface, pair
    owner, synonym, need, words, pairs, word_ptr, pair_ptr = [], [], [], [], [], [0], [0]
    for g, text, other in texts:
        tokens = [analyse(t) for t in content(text)]
        spelled = (g, tuple(t[0] for t in tokens))
        if not tokens or spelled in seen or len(tokens) > 200:
            continue
        seen.add(spelled)
        unique = {t[0]: t for t in tokens}.values()
        coded = [[kinds[i].setdefault(t[2 - i], len(kinds[i])) for i in range(3)] for t in unique]
        words += coded
        neighbours = dict.fromkeys(f"{a[1]} {b[1]}" for a, b in zip(tokens, tokens[1:], strict=False))
        pairs += [kinds[3].setdefault(p, len(kinds[3])) for p in neighbours]
        owner.append(g)
        synonym.append(other)
        need.append(len({c[0] for c in coded}))
        word_ptr.append(len(words))
        pair_ptr.append(len(pairs))
    if not owner:
        raise DataError("no concept has a name or synonym with a word in it; give names, or use words=\"multinomial\" with definitions")
    offset = np.cumsum([0, *(len(d) for d in kinds)])
    return Strings(
        [f"{kind}{text}" for kind, d in zip("psw2", kinds, strict=True) for text in d],
        len(kinds[0]),
        np.array(owner, dtype=np.int32),
        np.array(synonym),
        np.array(need, dtype=np.uint8),
        np.array(word_ptr),
        np.array(words, dtype=np.int32) + offset[:3].astype(np.int32),
        np.array(pair_ptr),
        np.array(pairs, dtype=np.int32) + np.int32(offset[3]),
    )


def encode(texts: Sequence[str], known: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Rising keys of each sentence, as (pointer, keys)."""
    ptr, out = np.zeros(len(texts) + 1, dtype=np.int64), []
    memo: dict[str, tuple[int, ...]] = {}
    get = known.get
    for s, text in enumerate(texts):
        tokens = content(text)
        keys = set()
        for t in tokens:
            mine = memo.get(t)
            if mine is None:
                surface, stem, prefix = analyse(t)
                found = (get("p" + prefix), get("s" + stem), get("w" + surface))
                mine = memo[t] = tuple(k for k in found if k is not None)
            keys.update(mine)
        for a, b in zip(tokens, tokens[1:], strict=False):
            pair = get(f"2{analyse(a)[1]} {analyse(b)[1]}")
            if pair is not None:
                keys.add(pair)
        row = sorted(keys)
        out.extend(row)
        ptr[s + 1] = len(out)
    return ptr, np.array(out, dtype=np.int32)


def postings(strings: Strings, rate: np.ndarray, noise: Noise) -> Postings:
    """Gains of all keys from the rates b of the keys (eq. 1 and 2)."""
    K, n_keys = len(strings.owner), len(strings.keys)
    log_b = np.log(rate)
    c, s, w = strings.words.T
    of_string = np.repeat(np.arange(K, dtype=np.int32), np.diff(strings.word_ptr))
    miss = noise.missing - noise.missing_rare * log_b[s]
    h0 = np.log(noise.prefix) - log_b[c]
    h1 = np.maximum(h0, np.log(noise.stem) - log_b[s])
    h2 = np.maximum(h1, -log_b[w])
    start = np.where(strings.synonym, noise.synonym, 0.0) - np.bincount(of_string, weights=miss, minlength=K)
    of_pair = np.repeat(np.arange(K, dtype=np.int32), np.diff(strings.pair_ptr))
    key = np.concatenate([c, s, w, strings.pairs])
    string = np.concatenate([of_string, of_string, of_string, of_pair])
    gain = np.concatenate([h0 + miss, h1 - h0, h2 - h1, np.full(len(of_pair), noise.pair)])
    useful = (key < strings.n_classes) | (gain != 0)
    # words of one class in one string are met together: one entry with the sum of their gains
    table = sp.coo_array((gain[useful], (key[useful], string[useful])), shape=(n_keys, K)).tocsr()
    table.sort_indices()
    return Postings(table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data.astype(np.float32), start.astype(np.float32))
