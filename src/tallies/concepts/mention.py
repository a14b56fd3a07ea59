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
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.data.ontology import Ontology
from tallies.data.text import stemmer
from tallies.errors import DataError

TOKEN = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_STOP = """
a an and any are as at be been being both but by can could did do does during each either for from further had has
have having he her here his how if in into is it its itself may might more most must neither nor not of off on once
only or other our out over own per same shall she should so some such than that the their them then there these they
this those through thus to too under until up upon us very via was we were what when where whether which while who
whom whose why will with within without would you your
"""
STOP = frozenset(_STOP.split())  # words that say nothing about a concept
_root: Any = None  # the stemmer, made when first needed
PREFIX = 6  # letters of a stem that make a class of words: "regul" is short enough to stay whole, "phosphoryl" is cut


class Noise(NamedTuple):
    """What a mention may look like: log odds and probabilities of equations 1 and 2."""

    stem: float = 0.1  # e1: a word shows up in another form of the same stem
    prefix: float = 0.03  # e2: only the first letters of the stem agree
    missing: float = 3.0  # mu0
    missing_rare: float = 1.0  # mu1: how much more a rare word is missed
    pair: float = 2.0  # gamma
    whole: float = 1.0  # phi
    synonym: float = -2.5  # nu
    usage: float = 1.0  # sentences that these odds of a concept's strings count for, beside labelled ones (`beside`, eq. 3)


class Strings(NamedTuple):
    """The strings of an ontology as keys; sentences are encoded by the same keys."""

    keys: list[str]  # texts of the keys, each after its kind: word classes first, then stems, surfaces, pairs
    n_classes: int  # how many of them are word classes
    owner: np.ndarray  # (K,) int32  concept of string k
    bonus: np.ndarray  # (K,)  log odds of being used at all: 0 for names, NaN for synonyms (nu of eq. 1), log t for learned words
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
    log_rate: np.ndarray  # (number of keys,)  log b


@cache
def stem(word: str) -> str:
    """Snowball's English stem."""
    global _root
    if _root is None:
        _root = stemmer(True)
    return _root(word)


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
    root = stem(surface)
    return surface, root, root[:PREFIX]


def content(text: str) -> list[str]:
    """The words of a text that are not stop words; one-letter words are kept ("P-body" is not "body")."""
    return [t for t in TOKEN.findall(text.lower()) if t not in STOP]


def strings_of(ontology: Ontology, learned: Iterable[tuple[int, str, float]] = ()) -> Strings:
    """The names and synonyms of an ontology as strings of keys; `learned` are (concept, word, log probability) beyond them."""
    texts = [(g, name, 0.0) for g, name in enumerate(ontology.names)]
    texts += [(g, word, bonus) for g, word, bonus in learned]
    texts += [(g, s, np.nan) for g, several in enumerate(ontology.synonyms) for s in several]
    seen: set[tuple[int, tuple[str, ...]]] = set()
    kinds: tuple[dict[str, int], ...] = ({}, {}, {}, {})  # class, stem, surface, pair
    owner, bonuses, need, words, pairs, word_ptr, pair_ptr = [], [], [], [], [], [0], [0]
    for g, text, bonus in texts:
        tokens = [analyse(t) for t in content(text)]
        spelled = (g, tuple(t[0] for t in tokens))
        if not tokens or spelled in seen or len(tokens) > 200:
            continue
        seen.add(spelled)
        unique = {t[0]: t for t in tokens}.values()
        coded = [[kinds[i].setdefault(t[2 - i], len(kinds[i])) for i in range(3)] for t in unique]
        words += coded
        neighbours = dict.fromkeys(f"{a[1]} {b[1]}" for a, b in pairwise(tokens))
        pairs += [kinds[3].setdefault(p, len(kinds[3])) for p in neighbours]
        owner.append(g)
        bonuses.append(bonus)
        need.append(len({c[0] for c in coded}))
        word_ptr.append(len(words))
        pair_ptr.append(len(pairs))
    if not owner:
        raise DataError(
            'no concept has a name or synonym with a word in it; give names, or use words="multinomial" with definitions'
        )
    offset = np.cumsum([0, *(len(d) for d in kinds)])
    return Strings(
        [f"{kind}{text}" for kind, d in zip("psw2", kinds, strict=True) for text in d],
        len(kinds[0]),
        np.array(owner, dtype=np.int32),
        np.array(bonuses),
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
        keys: set[int] = set()
        for t in tokens:
            mine = memo.get(t)
            if mine is None:
                surface, stem, prefix = analyse(t)
                found = (get("p" + prefix), get("s" + stem), get("w" + surface))
                mine = memo[t] = tuple(k for k in found if k is not None)
            keys.update(mine)
        for a, b in pairwise(tokens):
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
    start = np.where(np.isnan(strings.bonus), noise.synonym, strings.bonus) - np.bincount(of_string, weights=miss, minlength=K)
    of_pair = np.repeat(np.arange(K, dtype=np.int32), np.diff(strings.pair_ptr))
    key = np.concatenate([c, s, w, strings.pairs])
    string = np.concatenate([of_string, of_string, of_string, of_pair])
    gain = np.concatenate([h0 + miss, h1 - h0, h2 - h1, np.full(len(of_pair), noise.pair)])
    useful = (key < strings.n_classes) | (gain != 0)
    # words of one class in one string are met together: one entry with the sum of their gains
    table = sp.coo_array((gain[useful], (key[useful], string[useful])), shape=(n_keys, K)).tocsr()
    table.sort_indices()
    return Postings(
        table.indptr.astype(np.int64),
        table.indices.astype(np.int32),
        table.data.astype(np.float32),
        start.astype(np.float32),
        log_b,
    )


def bonuses(strings: Strings, post: Postings, noise: Noise) -> np.ndarray:
    """(K,) log odds of using each string at all: nu of eq. 1, or what labels made of it."""
    K = len(strings.owner)
    miss = noise.missing - noise.missing_rare * post.log_rate[strings.words[:, 1]]
    return post.start + np.bincount(np.repeat(np.arange(K), np.diff(strings.word_ptr)), weights=miss, minlength=K)


def learn_words(texts: Sequence[str], labels: Sequence[Sequence[int]], sweeps: int = 10) -> list[tuple[int, str, float]]:
    """Words that stand for a concept in labelled sentences, as (concept, word, log t), by IBM model 1.

    Every word of a sentence comes from one of its labels g, with t(word | g), or from the background, which has the weight of 8
    labels: words that are frequent everywhere explain themselves. Kept are words met at least 1.5 times in expectation, t >= 0.02.
    """
    place: dict[str, int] = {}
    shown: dict[int, Counter[str]] = {}
    rows = [[analyse(t)[:2] for t in content(text)] for text in texts]
    coded = [[place.setdefault(root, len(place)) for _, root in row] for row in rows]
    for row, codes in zip(rows, coded, strict=True):
        for (surface, _), w in zip(row, codes, strict=True):
            shown.setdefault(w, Counter())[surface] += 1
    background = np.bincount(np.concatenate([np.array(c, dtype=np.int64) for c in coded]), minlength=len(place)).astype(float)
    background *= 8.0 / background.sum()
    # one entry for every token of a labelled sentence and every label of that sentence
    parts = [
        (w, g, at) for at, (w, g) in enumerate((w, gs) for codes, gs in zip(coded, labels, strict=True) if len(gs) for w in codes)
    ]
    if not parts:
        return []
    token = np.repeat(np.arange(len(parts)), [len(g) for _, g, _ in parts])
    word = np.repeat([w for w, _, _ in parts], [len(g) for _, g, _ in parts])
    concept = np.concatenate([np.asarray(g, dtype=np.int64) for _, g, _ in parts])
    _, cell, inverse = np.unique(concept * len(place) + word, return_index=True, return_inverse=True)
    t = np.full(len(cell), 1.0 / len(place))
    for _ in range(sweeps):
        p = t[inverse]
        noise = background[np.array([w for w, _, _ in parts])]
        r = p / (np.bincount(token, weights=p, minlength=len(parts)) + noise)[token]
        n = np.bincount(inverse, weights=r, minlength=len(cell))
        total = np.bincount(concept[cell], weights=n)
        t = n / total[concept[cell]]
    good = np.flatnonzero((n >= 1.5) & (t >= 0.02))
    return [(int(concept[cell[i]]), shown[int(word[cell[i]])].most_common(1)[0][0], float(np.log(t[i]))) for i in good]


def explain(
    strings: Strings, post: Postings, noise: Noise, keys: set[int], g: int
) -> tuple[list[tuple[str, float]], set[str] | None]:
    """The parts of l_g (eq. 1) for a sentence with the given keys, for the string that carries it, and the stems of that string."""

    def gain(key: int, m: int) -> float:
        a, b = post.ptr[key], post.ptr[key + 1]
        at = a + np.searchsorted(post.string[a:b], m)
        return float(post.gain[at]) if at < b and post.string[at] == m else 0.0

    best: tuple[float, list[tuple[str, float]], set[str] | None] = (-np.inf, [("no word of this concept", -np.inf)], None)
    for m in np.flatnonzero(strings.owner == g).tolist():
        words = strings.words[strings.word_ptr[m] : strings.word_ptr[m + 1]]
        shared = {int(c) for c in words[:, 0]}
        if not shared & keys:
            continue
        miss = noise.missing - noise.missing_rare * post.log_rate[words[:, 1]]
        bonus = float(post.start[m] + miss.sum())
        parts = [(f"string: {' '.join(strings.keys[w[2]][1:] for w in words)}", bonus)]
        met: set[int] = set()
        for word, lack in zip(words, miss, strict=True):
            found = gain(int(word[0]), m) if int(word[0]) in keys and int(word[0]) not in met else 0.0
            found += sum((gain(int(key), m) for key in word[1:] if int(key) in keys), 0.0)
            met.add(int(word[0]))
            parts.append((strings.keys[word[2]][1:] + ("" if int(word[0]) in keys else " (missing)"), found - lack))
        pairs = strings.pairs[strings.pair_ptr[m] : strings.pair_ptr[m + 1]]
        parts += [(strings.keys[key][1:] + " (neighbours)", gain(int(key), m)) for key in pairs if int(key) in keys]
        parts += [("all words found", noise.whole)] if shared <= keys else []
        total = sum(v for _, v in parts)
        if total > best[0]:
            best = (total, parts, {strings.keys[w][1:] for w in words[:, 1]})
    return best[1:]


def full_odds(strings: Strings, post: Postings, noise: Noise, m: int) -> float:
    """l_k of a sentence that is the string itself."""
    table = strings.words[strings.word_ptr[m] : strings.word_ptr[m + 1]]
    pairs = strings.pairs[strings.pair_ptr[m] : strings.pair_ptr[m + 1]]
    total = float(post.start[m]) + noise.whole
    for key in np.unique(np.concatenate([table.ravel(), pairs])):
        a, b = post.ptr[key], post.ptr[key + 1]
        at = a + np.searchsorted(post.string[a:b], m)
        total += float(post.gain[at]) if at < b and post.string[at] == m else 0.0
    return total


def sampler(strings: Strings, post: Postings, noise: Noise, rng: Any) -> Any:
    """A function (concept, length) -> words: one of its strings (synonyms exp(nu) times as often as the name) amid others."""
    surface = np.array([i for i, key in enumerate(strings.keys) if key[0] == "w"])
    rate = np.exp(post.log_rate[surface])
    words = np.array([strings.keys[i][1:] for i in surface], dtype=object)
    weight = np.exp(bonuses(strings, post, noise))

    def draw(g: int, length: int) -> list[str]:
        mine = np.flatnonzero(strings.owner == g)
        said: list[str] = []
        if len(mine):
            m = rng.choice(mine, p=weight[mine] / weight[mine].sum())
            said = [strings.keys[w][1:] for w in strings.words[strings.word_ptr[m] : strings.word_ptr[m + 1], 2]]
        rest = words[rng.choice(len(words), size=max(length - len(said), 0), p=rate / rate.sum())].tolist()
        at = rng.randint(len(rest) + 1)
        return rest[:at] + said + rest[at:]

    return draw
