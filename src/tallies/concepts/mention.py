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

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.concepts.kernels.mentions import find
from tallies.concepts.settings import Mention
from tallies.data.ontology import Ontology
from tallies.data.text import FUNCTION_WORDS, stem, tokenize
from tallies.errors import DataError
from tallies.forms import Form
from tallies.maths import Array, pointer, ragged

PREFIX = 6  # letters of a stem that make a class of words: "regul" is short enough to stay whole, "phosphoryl" is cut


class Strings(NamedTuple):
    """The strings of an ontology as keys; sentences are encoded by the same keys."""

    keys: dict[str, int]  # number of each key, told by its kind and text: word classes first, then stems, surfaces, pairs
    n_classes: Annotated[int, Form(kind="i", low=1)]  # how many of them are word classes
    owner: Annotated[np.ndarray, Form("K", "i", 0)]  # int32  concept of string k
    # log odds of being used at all: 0 for names, NaN for synonyms (nu of eq. 1), log t for learned words
    bonus: Annotated[np.ndarray, Form("K", "f", nan=True)]
    need: Annotated[np.ndarray, Form("K", "i", 1, 255)]  # uint8  word classes of string k
    word_ptr: Annotated[np.ndarray, Form("K+1", "i", ends="n")]  # where the words of string k begin
    words: Annotated[np.ndarray, Form("n 3", "i", 0)]  # int32  class, stem and surface key of each word
    pair_ptr: Annotated[np.ndarray, Form("K+1", "i", ends="p")]
    pairs: Annotated[np.ndarray, Form("p", "i", 0)]  # pair keys of string k

    def check(self) -> None:
        """Keys are numbered in their order, and words and pairs made of them."""
        N = len(self.keys)
        if list(self.keys.values()) != list(range(N)) or not ((self.words < N).all() and (self.pairs < N).all()):
            raise ValueError(f"the keys of strings should be numbers below {N}")

    def span(self, kind: int) -> tuple[int, int]:
        """First key of a kind (0: word class, 1: stem, 2: surface), and the one after the last."""
        return int(self.words[:, kind].min()), int(self.words[:, kind].max()) + 1

    def surfaces(self) -> np.ndarray:
        """The words themselves, in the order of their keys."""
        a, b = self.span(2)
        return np.array([text[1:] for text in list(self.keys)[a:b]], dtype=object)

    def words_of(self, m: int) -> np.ndarray:
        """(., 3) class, stem and surface key of each word of string m."""
        return self.words[self.word_ptr[m] : self.word_ptr[m + 1]]

    def per_word(self) -> np.ndarray:
        """The string of each word."""
        return np.repeat(np.arange(len(self.owner), dtype=np.int32), np.diff(self.word_ptr))


class Postings(NamedTuple):
    """What each key adds to which strings (eq. 1)."""

    ptr: Annotated[np.ndarray, Form("N+1", "i", ends="n")]  # of N keys
    string: Annotated[np.ndarray, Form("n", "i", 0, below="K")]  # int32  rising within a key
    gain: Annotated[np.ndarray, Form("n", "f")]  # float32
    start: Annotated[np.ndarray, Form("K", "f")]  # float32  l_k with every word missing
    log_rate: Annotated[np.ndarray, Form("N", "f", high=0)]  # log b


class Lexicon(NamedTuple):
    """All that the words of an ontology say of a sentence."""

    strings: Strings
    postings: Postings
    noise: Mention

    def check(self) -> None:
        """Both parts are of the same keys and strings, and each word class of a string is met once: the kernel counts on it."""
        k, post = self.strings, self.postings
        N, K = len(k.keys), len(k.owner)
        if (len(post.log_rate), len(post.start)) != (N, K) or k.n_classes > N:
            raise ValueError(f"postings should be of {N} keys and {K} strings")
        met = np.bincount(post.string[: post.ptr[k.n_classes]], minlength=K)
        if not sp.csr_array((post.gain, post.string, post.ptr), shape=(N, K)).has_canonical_format or (met != k.need).any():
            raise ValueError("postings should have each word class of a string once")

    def missing(self, some: slice = slice(None)) -> Array:
        """What words of the strings cost when they are missing: m of eq. 2."""
        return self.noise.missing - self.noise.missing_rare * self.postings.log_rate[self.strings.words[some, 1]]

    def odds(self) -> Array:
        """(K,) log odds of using each string at all: nu of eq. 1, or what labels made of it."""
        k = self.strings
        return self.postings.start + np.bincount(k.per_word(), weights=self.missing(), minlength=len(k.owner))

    def gain(self, key: int, m: int) -> float:
        """What a key adds to string m."""
        at = find(self.postings.string, self.postings.ptr[key], self.postings.ptr[key + 1], m)
        return float(self.postings.gain[at]) if at >= 0 else 0.0


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
    """The words of a text but for function words; one-letter words are kept ("P-body" is not "body")."""
    return [t for t in tokenize(text, parts=True) if t not in FUNCTION_WORDS]


def strings_of(ontology: Ontology, learned: Iterable[tuple[int, str, float]] = ()) -> Strings:
    """The names and synonyms of an ontology as strings of keys; `learned` are (concept, word, log probability) beyond them."""
    texts = [(g, name, 0.0) for g, name in enumerate(ontology.names)]
    texts += [(g, word, bonus) for g, word, bonus in learned]
    texts += [(g, s, np.nan) for g, several in enumerate(ontology.synonyms) for s in several]
    seen: set[tuple[int, tuple[str, ...]]] = set()
    kinds: tuple[dict[str, int], ...] = ({}, {}, {}, {})  # class, stem, surface, pair
    made = []
    for g, text, bonus in texts:
        tokens = [analyse(t) for t in content(text)]
        spelled = (g, tuple(t[0] for t in tokens))
        if not tokens or spelled in seen or len(tokens) > 200:
            continue
        seen.add(spelled)
        unique = {t[0]: t for t in tokens}.values()
        coded = [[kinds[i].setdefault(t[2 - i], len(kinds[i])) for i in range(3)] for t in unique]
        neighbours = dict.fromkeys(f"{a[1]} {b[1]}" for a, b in pairwise(tokens))
        made.append((g, bonus, len({c[0] for c in coded}), coded, [kinds[3].setdefault(p, len(kinds[3])) for p in neighbours]))
    if not made:
        raise DataError(
            'no concept has a name or synonym with a word in it; give names, or use words="multinomial" with definitions'
        )
    owner, bonuses, need, *lists = zip(*made, strict=True)
    (word_ptr, words), (pair_ptr, pairs) = (ragged(several, np.int32) for several in lists)
    keys = [f"{kind}{text}" for kind, texts_of_kind in zip("psw2", kinds, strict=True) for text in texts_of_kind]
    offset = pointer([len(d) for d in kinds]).astype(np.int32)
    of_string = np.array(owner, dtype=np.int32), np.array(bonuses), np.array(need, dtype=np.uint8)
    inside = word_ptr, words + offset[:3], pair_ptr, pairs + offset[3]
    return Strings({key: i for i, key in enumerate(keys)}, len(kinds[0]), *of_string, *inside)


def encode(texts: Sequence[str], known: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Rising keys of each sentence, as (pointer, keys)."""

    @cache
    def found(token: str) -> list[int]:
        surface, root, prefix = analyse(token)
        return [known[key] for key in ("p" + prefix, "s" + root, "w" + surface) if key in known]

    def row(tokens: list[str]) -> list[int]:
        pairs = (f"2{analyse(a)[1]} {analyse(b)[1]}" for a, b in pairwise(tokens))
        return sorted({k for t in tokens for k in found(t)}.union(known[pair] for pair in pairs if pair in known))

    return ragged([row(content(text)) for text in texts], np.int32)


def lexicon(strings: Strings, rate: Array, noise: Mention) -> Lexicon:
    """Gains of all keys from the rates b of the keys (eq. 1 and 2)."""
    K, log_b = len(strings.owner), np.log(rate)
    c, s, w = strings.words.T
    of_string = strings.per_word()
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
    table = sp.coo_array((gain[useful], (key[useful], string[useful])), shape=(len(rate), K)).tocsr()
    table.sort_indices()
    made = (table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data.astype(np.float32))
    return Lexicon(strings, Postings(*made, start.astype(np.float32), log_b), noise)


def learn_words(texts: Sequence[str], labels: Sequence[Sequence[int]], sweeps: int = 10) -> list[tuple[int, str, float]]:
    """Words that stand for a concept in labelled sentences, as (concept, word, log t), by IBM model 1.

    Every word of a sentence comes from one of its labels g, with t(word | g), or from the background, which has the weight of 8
    labels: words that are frequent everywhere explain themselves. Kept are words met at least 1.5 times in expectation, t >= 0.02.
    """
    shown: dict[str, Counter[str]] = {}  # how each stem is spelled
    rows = [[analyse(t)[:2] for t in content(text)] for text in texts]
    for surface, root in chain.from_iterable(rows):
        shown.setdefault(root, Counter())[surface] += 1
    place, spelled = {root: w for w, root in enumerate(shown)}, list(shown.values())
    # one entry for every token of a labelled sentence and every label of that sentence
    tokens = [(place[root], several) for row, several in zip(rows, labels, strict=True) if len(several) for _, root in row]
    if not tokens:
        return []
    background = np.array([forms.total() for forms in spelled], dtype=float)
    background *= 8.0 / background.sum()
    said, (ptr, concept) = np.array([w for w, _ in tokens]), ragged([several for _, several in tokens], np.int64)
    token, word = np.repeat(np.arange(len(tokens)), np.diff(ptr)), np.repeat(said, np.diff(ptr))
    _, cell, inverse = np.unique(concept * len(place) + word, return_index=True, return_inverse=True)
    t = np.full(len(cell), 1.0 / len(place))
    for _ in range(sweeps):
        p = t[inverse]
        r = p / (np.bincount(token, weights=p, minlength=len(tokens)) + background[said])[token]
        n = np.bincount(inverse, weights=r, minlength=len(cell))
        t = n / np.bincount(concept[cell], weights=n)[concept[cell]]
    good = np.flatnonzero((n >= 1.5) & (t >= 0.02))
    return [(int(concept[cell[i]]), spelled[word[cell[i]]].most_common(1)[0][0], float(np.log(t[i]))) for i in good]


def parts(words: Lexicon, texts: Sequence[str], keys: set[int], m: int) -> list[tuple[str, float]]:
    """The terms of l_m (eq. 1) for a sentence with the given keys; `texts` are those of all keys."""
    k, table = words.strings, words.strings.words_of(m)
    miss = words.missing(slice(k.word_ptr[m], k.word_ptr[m + 1]))
    out = [(f"string: {spelled(words, texts, m)}", float(words.postings.start[m] + miss.sum()))]
    met: set[int] = set()  # keys of several words of the string count once, for all of them
    for word, lack in zip(table.tolist(), miss.tolist(), strict=True):
        found = sum(words.gain(key, m) for key in word if key in keys and key not in met)
        met.update(word)
        out.append((texts[word[2]][1:] + ("" if word[0] in keys else " (missing)"), found - lack))
    pairs = k.pairs[k.pair_ptr[m] : k.pair_ptr[m + 1]].tolist()
    out += [(texts[key][1:] + " (neighbours)", words.gain(key, m)) for key in pairs if key in keys]
    return out + ([("all words found", words.noise.whole)] if set(table[:, 0].tolist()) <= keys else [])


def explain(words: Lexicon, texts: Sequence[str], keys: set[int], g: int) -> tuple[list[tuple[str, float]], set[str] | None]:
    """The terms of l_g for a sentence with the given keys, for the string that carries it, and the stems of that string."""
    k = words.strings
    mine = [m for m in np.flatnonzero(k.owner == g).tolist() if keys.intersection(k.words_of(m)[:, 0].tolist())]
    if not mine:
        return [("no word of this concept", -np.inf)], None
    found = {m: parts(words, texts, keys, m) for m in mine}
    best = max(mine, key=lambda m: sum(v for _, v in found[m]))
    return found[best], {texts[key][1:] for key in k.words_of(best)[:, 1]}


def whole_odds(words: Lexicon, texts: Sequence[str], m: int) -> float:
    """l_m of a sentence that is the string itself."""
    k = words.strings
    keys = {*k.words_of(m).ravel().tolist(), *k.pairs[k.pair_ptr[m] : k.pair_ptr[m + 1]].tolist()}
    return sum(v for _, v in parts(words, texts, keys, m))


def spelled(words: Lexicon, texts: Sequence[str], m: int) -> str:
    """String m in words; of no string (-1) nothing."""
    return " ".join(texts[key][1:] for key in words.strings.words_of(m)[:, 2]) if m >= 0 else ""


def use(words: Lexicon, G: int) -> sp.csr_array:
    """(G, K) how often each concept is said by each of its strings: in proportion to their odds."""
    weight, owner = np.exp(words.odds()), words.strings.owner
    share = weight / np.bincount(owner, weights=weight, minlength=G)[owner]
    return sp.csr_array((share, (owner, np.arange(len(owner)))), shape=(G, len(owner)))


def word_law(words: Lexicon, G: int) -> sp.csr_array:
    """(G, surfaces) P(w | g): of a word of a mention of g, its strings used as in `use` and their words alike."""
    k = words.strings
    a, b = k.span(2)
    each = 1.0 / np.repeat(np.diff(k.word_ptr), np.diff(k.word_ptr))
    return sp.csr_array(use(words, G) @ sp.csr_array((each, k.words[:, 2] - a, k.word_ptr), shape=(len(k.owner), b - a)))


def sampler(words: Lexicon, G: int, rng: np.random.Generator) -> Any:
    """A function (concept, length) -> words: one of its strings (as in `use`) amid others, by their rates."""
    k, texts = words.strings, list(words.strings.keys)
    a, b = k.span(2)
    rate, said, surface = np.exp(words.postings.log_rate[a:b]), use(words, G + 1), k.surfaces()  # the null has no string

    def draw(g: int, length: int) -> list[str]:
        mine = slice(said.indptr[g], said.indptr[g + 1])
        m = rng.choice(said.indices[mine], p=said.data[mine]) if said.indices[mine].size else -1
        spoken = spelled(words, texts, m).split()
        rest = surface[rng.choice(len(surface), size=max(length - len(spoken), 0), p=rate / rate.sum())].tolist()
        at = rng.integers(len(rest) + 1)
        return rest[:at] + spoken + rest[at:]

    return draw
