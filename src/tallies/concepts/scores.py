"""Scores, responsibilities and mentions of the author-concept model: the E-step, and what ranks sentences."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from tallies.concepts import author_prior
from tallies.concepts.context import SURE, Context, Mentions
from tallies.concepts.door import Sentences, Shard
from tallies.concepts.kernels import mentions as kernels
from tallies.concepts.mention import Lexicon
from tallies.concepts.settings import Settings
from tallies.concepts.word_counts import Words
from tallies.forms import Form
from tallies.maths import Array, log0, pointer


class Latents(NamedTuple):
    """What each sentence keeps between sweeps."""

    best: Annotated[np.ndarray, Form("S keep", "i", -1)]  # int32  best concepts of each sentence; -1: fewer
    # float32  their responsibilities, eq. 1; NaN where no concept has a probability
    r: Annotated[np.ndarray, Form("S keep", "f", 0, 1, nan=True)]
    moved: Annotated[np.ndarray, Form("S", "b")]  # whether the best concept was another one before the last sweep
    mentions: Mentions | None  # mention: concepts that are surely spoken of


class Scores(NamedTuple):
    """The best concepts of sentences, best first."""

    concept: np.ndarray  # (S, keep) int32  -1: fewer
    value: Array  # (S, keep)  log P(g | d) P(s | g)
    prior: Array  # (S, keep)  log P(g | d)
    string: np.ndarray  # (S, keep) int32  mention: the string that carried it; -1: none
    evidence: Array  # (S,)  log sum_g P(g | d) P(s | g); empty where it was not asked for


def scores(
    x: Sentences, side: kernels.Prior, words: Lexicon | Words, keep: int, old: Latents | None = None, evidence: bool = True
) -> Scores:
    """The best `keep` concepts of each sentence; with `old` latents its own words are left out of counts of a multinomial, which
    may also go without the evidence."""
    X, S = x.counts, len(x.document)
    concept, value, evidence = np.empty((S, keep), dtype=np.int32), np.empty((S, keep)), evidence or isinstance(words, Lexicon)
    out = Scores(concept, value, np.empty_like(value), np.full_like(concept, -1), np.empty(S if evidence else 0))
    if isinstance(words, Lexicon):
        k, whole = words.strings, np.float32(words.noise.whole)
        kernels.mention_scores(X.indptr, X.indices, x.document, k.n_classes, words.postings, k.need, whole, k.owner, side, *out)
        return out
    before = (np.empty((0, 0), np.int32), np.empty((0, 0), np.float32)) if old is None else (old.best, old.r)
    bags, score = (X.indptr, X.indices, X.data, x.document), cast(Any, kernels.multinomial_scores)
    score(*bags, words, side, *before, out.concept, out.value, out.prior, out.evidence)
    # the term of the sentence alone, sum_w n log e_w (eq. 2 of word_counts)
    rest = X @ np.log(words.smooth)
    return out._replace(value=out.value + rest[:, None], evidence=out.evidence + rest if evidence else out.evidence)


def responsibilities(found: Scores, settings: Settings) -> tuple[Array, Array]:
    """r of the kept concepts (eq. 1), and (S,) the log likelihood over them."""
    top = found.value[:, :1]
    if settings.assign == "hard":
        r, any_ = np.zeros_like(found.value), found.concept[:, 0] >= 0
        r[:, 0] = any_
        return r, np.where(any_, top[:, 0], 0.0)
    r = np.exp((found.value - top) / settings.temperature)
    r /= r.sum(axis=1, keepdims=True)
    return r, top[:, 0] + np.log(np.exp(found.value - top).sum(axis=1))


def sparse(concept: np.ndarray, r: np.ndarray, G: int) -> sp.csr_array:
    """r of the kept concepts as CSR (S, G)."""
    kept = (concept >= 0) & (r > 0)
    return sp.csr_array((r[kept], concept[kept], pointer(kept.sum(axis=1))), shape=(len(r), G))


def expected(shard: Shard, side: kernels.Prior, found: Scores, r: Array, value: Array) -> tuple[sp.csr_array, sp.csr_array, float]:
    """r and r / P(g | d), both as CSR (S, G), and the objective. Sentences with given concepts have equal parts of each, whatever
    their words say, and enter the objective by their prior."""
    G, n = side.base.shape[1], np.diff(shard.label_ptr)
    part = np.repeat(1.0 / np.maximum(n, 1), n)
    p = author_prior.cells(side, np.repeat(shard.sentences.document, n), shard.labels)
    r = np.where((n > 0)[:, None], 0.0, r)
    told = [sp.csr_array((data, shard.labels, shard.label_ptr), shape=(len(r), G)) for data in (part, part / p)]
    ratio = r * np.exp(-np.where(found.concept < 0, 0.0, found.prior))
    by_words = [sparse(found.concept, values, G) for values in (r, ratio)]
    return by_words[0] + told[0], by_words[1] + told[1], float(value[n == 0].sum() + np.sum(part * np.log(p)))


def strengths(x: Sentences, side: kernels.Prior, words: Lexicon, found: Scores) -> Array:
    """(S, keep) probability that each candidate explains its words, rather than the null."""
    k, X, strength = words.strings, x.counts, np.zeros_like(found.value)
    classes, null = np.ascontiguousarray(k.words[:, 0]), log0(author_prior.cells(side, slice(None), -1)[x.document])
    kernels.compete(X.indptr, X.indices, k.n_classes, k.word_ptr, classes, found.concept, found.value, found.string, null, strength)
    return strength


def told_by(shard: Shard, found: Scores) -> np.ndarray:
    """The string that spoke loudest for each label of the sentences of a shard; -1: none."""
    of = np.repeat(np.arange(len(shard.label_ptr) - 1), np.diff(shard.label_ptr))
    return np.where(found.concept[of] == shard.labels[:, None], found.string[of], -1).max(axis=1, initial=-1)


def mentions(shard: Shard, side: kernels.Prior, words: Lexicon, found: Scores) -> Mentions:
    """Which concepts the sentences of a shard mention, by their labels or else surely by their words."""
    n, G = np.diff(shard.label_ptr), side.base.shape[1] - 1
    strength = strengths(shard.sentences, side, words, found)
    sure = (strength > SURE) & (n == 0)[:, None]
    by_words = Mentions(np.nonzero(sure)[0], found.concept[sure], found.string[sure], strength[sure])
    real = shard.labels < G  # a label may be the null
    by_label = Mentions(np.repeat(np.arange(len(n)), n)[real], shard.labels[real], told_by(shard, found)[real], np.ones(real.sum()))
    return Mentions(*(np.concatenate(both) for both in zip(by_words, by_label, strict=True)))


def add_context(x: Sentences, words: Lexicon, table: Context, weight: float, found: Scores) -> Scores:
    """The scores with what the words around each candidate say, and the evidence that follows."""
    k, X, value = words.strings, x.counts, found.value.copy()
    rest = np.maximum(1.0 - np.exp(value - found.evidence[:, None]).sum(axis=1), 0.0)  # of the concepts that are no candidates
    stems = np.ascontiguousarray(k.words[:, 1])
    kernels.add_context(X.indptr, X.indices, *k.span(1), k.word_ptr, stems, found.concept, found.string, *table, weight, value)
    return found._replace(value=value, evidence=np.logaddexp(np.logaddexp.reduce(value, axis=1), found.evidence + log0(rest)))
