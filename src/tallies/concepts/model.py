"""Authors, concepts, sentences: which entry of an ontology does a sentence speak of, given who wrote it?

    document d -> author a                one of the authors of d, uniformly; by back-off the document itself, or all authors
    author a -> concept g ~ psi_a         what the author writes about
    concept g -> words of a sentence      a noisy mention of one of its strings (`mention`), or draws from phi_g (`word_counts`)

    1.  r_sg = P(g | d) P(s | g) / sum_h P(h | d) P(s | h)      soft, to the power 1/T; hard: 1 for the best g, else 0
    2.  P(g | d) = share_d base_g + sum_r W_dr psi_rg            the mixture of `author_prior.py`
    3.  psi from the expected sentences of each author, phi from r'X + definitions + pseudocounts
    4.  objective = sum_s log sum_g P(g | d) P(s | g) + log priors + lambda1 F1(psi) + lambda2 F2(phi) - omega overlap(phi)

A concept belongs to a sentence, not to a document. r is kept for the best `keep` concepts of a sentence, and (4) then sums over
these: a lower bound that soft EM with split credit never lowers. Among the concepts is the null, "none of these".
References: Rosen-Zvi, Griffiths, Steyvers, Smyth 2004 (authors); Zhai and Lafferty 2004 (background); Brown et al. 1993 (model 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.concepts import author_prior, context, scores, word_counts
from tallies.concepts.author_prior import Psi
from tallies.concepts.context import Around, Said
from tallies.concepts.door import Shard
from tallies.concepts.kernels import mentions as kernels
from tallies.concepts.scores import Latents
from tallies.concepts.settings import Mention, Multinomial, Settings
from tallies.concepts.word_counts import Learned
from tallies.engine import End, Model, State, settled
from tallies.forms import Form
from tallies.maths import Array
from tallies.sums import total

NULL_START = 0.2  # prior of "none of these" before the first sweep; EM finds its own


# how often words occur: the background against which concepts are known


class Counts(NamedTuple):
    """Params and tally of `Background`."""

    sentences: Annotated[int, Form(kind="i", low=0)]
    counts: Annotated[Array, Form("N", "f", 0)]  # sentences with each of the N keys, or occurrences of each word


@dataclass(frozen=True)
class Background(Model):
    """One sweep that counts words."""

    def sweep(self, shard: Shard, latents: None, params: Counts, rng: np.random.Generator) -> tuple[Counts, None]:
        x = shard.sentences
        return Counts(len(x.document), x.counts.sum(axis=0)), None

    def update(self, params: Counts, tally: Counts, rng: np.random.Generator) -> Counts:
        return tally

    def objective(self, tally: Counts, before: Counts, after: Counts) -> float:
        """Log likelihood of the words as draws from their own frequencies."""
        n = tally.counts[tally.counts > 0]
        return float(n @ np.log(n / n.sum()))


# EM


class Params(NamedTuple):
    psi: Psi  # eq. 2
    prior: Annotated[Array, Form("H", "f", 0)]  # pseudocounts of concepts; they stay
    words: Said | Learned | None  # what is learned of words: from labels which strings say a concept; phi of a multinomial
    changed: Annotated[int, Form(kind="i", low=-1)]  # sentences whose best concept changed in the last sweep; -1 before
    seen: Annotated[np.ndarray, Form("t", "i", 0)]  # fingerprints of the assignments of all sweeps
    held: Annotated[Array, Form("t", "f")]  # log probability of held-out words, a sweep each


class Tally(NamedTuple):
    objective: float  # eq. 4 without priors and penalties
    n_base: Array  # (G,)  expected sentences of all authors' prior
    n_rows: sp.csr_array  # (R, G)  and of each author or document
    n_gw: sp.csr_array | None  # (G, V)  multinomial, learned: expected words of each concept
    used: Array | None  # (K,)  mention, first sweep with labels: how often each string was the loudest of a label
    changed: int
    fingerprint: np.ndarray  # (1,)
    held: float


class Ended(NamedTuple):
    """What is kept of EM."""

    params: Params
    best: Annotated[np.ndarray, Form("S keep", "i", -1)]
    r: Annotated[np.ndarray, Form("S keep", "f", 0, 1, nan=True)]
    moved: Annotated[np.ndarray, Form("S", "b")]
    around: Around | None  # mention: tally of the words around sure mentions

    @classmethod
    def of(cls, end: End) -> Ended:
        best, r, moved, around = zip(*end.rows, strict=True)
        return cls(end.params, np.concatenate(best), np.concatenate(r), np.concatenate(moved), total(around))


class Sums(NamedTuple):
    """Of all sentences, where these are in files."""

    sentences: Annotated[int, Form(kind="i", low=0)]
    named: Annotated[int, Form(kind="i", low=0)]  # sentences whose best concept is one
    expected: Annotated[Array, Form("H", "f", 0)]  # sentences of each concept
    written: Annotated[sp.csr_array, Form("A H", "f", 0)]  # and of each author
    around: Around | None


class Summed(NamedTuple):
    """What is kept of EM where sentences are in files."""

    params: Params
    sums: Sums

    @classmethod
    def of(cls, end: End) -> Summed:
        return cls(end.params, end.rows[0])


@dataclass(frozen=True)
class EM(Model):
    """EM over psi, and over phi where words are learned; monotone if soft, split, leave_one_out=False, temperature=1."""

    settings: Settings
    n_concepts: int  # G, the null included
    tol: float | None = None

    def begin(self, strength: Array, n_rows: int, words: Any) -> Params:
        """Params before the first sweep: psi in proportion to `strength`, but for the null."""
        m = strength.copy()
        if self.settings.null:
            m[-1] = m[:-1].sum() * NULL_START / (1.0 - NULL_START)
        psi = Psi(m / m.sum(), np.ones(n_rows), sp.csr_array((n_rows, len(m))), m / m.sum())
        return Params(psi, self.settings.gamma * strength, words, -1, np.empty(0, dtype=np.uint64), np.empty(0))

    leaves_latents = True

    def settle(self, shard: Shard, params: Params, rng: np.random.Generator) -> Latents:
        shape = len(shard.sentences.document), min(self.settings.keep, self.n_concepts)
        return Latents(np.full(shape, -1, dtype=np.int32), np.zeros(shape, dtype=np.float32), np.zeros(shape[0], dtype=bool), None)

    def sweep(self, shard: Shard, latents: Latents, params: Params, rng: np.random.Generator) -> tuple[Tally, Latents]:
        s, x, psi = self.settings, shard.sentences, params.psi
        words = words_in_force(shard.words, params.words)
        side = author_prior.mixture(shard.rows, psi)
        # the words of a sentence are left out of counts that they are in
        in_counts = isinstance(params.words, Learned) and len(words.counts) > 0 and len(params.seen) > 0
        old = latents if in_counts and self._options.leave_one_out else None
        found = scores.scores(x, side, words, latents.best.shape[1], old, evidence=s.assign == "soft")
        r, value = scores.responsibilities(found, s)
        R, ratio, objective = scores.expected(shard, side, found, r, value)
        n_base, n_rows = author_prior.credit(shard.rows, psi, x.document, R, ratio, s.credit == "whole")
        best, held, used = found.concept[:, 0], 0.0, None
        if isinstance(params.words, Said) and not len(params.seen):  # once: odds of strings stay while EM learns the prior
            by = scores.told_by(shard, found)
            used = np.bincount(by[by >= 0], minlength=len(params.words.owner)).astype(float)
        n_gw = sp.csr_array(R.T @ x.counts) if isinstance(params.words, Learned) else None
        if x.held is not None:
            held = kernels.held_out_words(x.held.indptr, x.held.indices, x.held.data, found.concept, r, words)
        moved = best != latents.best[:, 0]
        fingerprint = fingerprint_of(shard.first, best)
        learn = isinstance(s.words, Mention) and s.words.context
        mentions = scores.mentions(shard, side, shard.words, found) if learn else None
        tally = Tally(objective, n_base, n_rows, n_gw, used, int(moved.sum()), fingerprint, held)
        return tally, Latents(found.concept, r.astype(np.float32), moved, mentions)

    def update(self, params: Params, tally: Tally, rng: np.random.Generator) -> Params:
        words = params.words
        psi = author_prior.maximise(tally.n_base, tally.n_rows, params.psi, params.prior, *self._rules)
        if isinstance(words, Learned):
            words = word_counts.maximise(words, tally.n_gw, self._options)
        elif isinstance(words, Said) and tally.used is not None:
            words = context.usage(words, tally.used, self._options.usage)
        seen, held = np.append(params.seen, tally.fingerprint), np.append(params.held, tally.held)
        return params._replace(psi=psi, words=words, changed=tally.changed, seen=seen, held=held)

    def objective(self, tally: Tally, before: Params, after: Params) -> float:
        """Eq. 4 at the params that the sweep used."""
        value = tally.objective + author_prior.log_penalty(before.psi, before.prior, *self._rules)
        if isinstance(before.words, Learned):
            value += word_counts.log_prior(before.words, self._options)
        return value

    @property
    def _options(self) -> Any:
        """Of the words: the Mention of what was Said, the Multinomial of what was Learned."""
        return self.settings.words

    @property
    def _rules(self) -> tuple[float, float, bool]:
        """Of the M-step of psi: gamma, sparsity and whether there is a common level."""
        s = self.settings
        return s.gamma * self.n_concepts, s.author_sparsity, s.author_backoff is not None

    def done(self, state: State) -> bool:
        s, seen, held = self.settings, state.params.seen, state.params.held
        still = len(seen) > 1 and state.params.changed == 0
        if isinstance(s.words, Multinomial) and s.words.held_out and len(held) > 1 and held[-1] < held[-2] - 1e-9 * abs(held[-2]):
            return True  # held-out words are foretold worse, beyond rounding
        if s.assign == "hard" and (cycle_of(seen, state.objective) or (still and s.credit == "whole")):
            return True
        return still if s.stop == "assignments" else settled(state.objective, self.tol)

    def recount(self, shard: Shard, latents: Latents, params: Params) -> None:
        """Sentences, rows of psi, concepts, strings and words are those of the shard."""
        S, H, R, words = len(shard.sentences.document), self.n_concepts, len(params.psi.constant), params.words
        fits = [latents.best.shape == (S, min(self.settings.keep, H)), (latents.best < H).all()]
        fits += [len(params.prior) == H, (shard.rows.row < R).all()]
        if isinstance(words, Said):
            fits += [len(words.owner) == len(shard.words.strings.owner)]
        elif isinstance(words, Learned):
            laid, whole = words.words, self._options.whole_table  # which has no counts
            fits += [len(words.smooth) == shard.sentences.counts.shape[1], whole or len(laid.counts) == len(laid.gain)]
        if not all(fits):
            raise ValueError(f"{S} sentences of {H} concepts have other latents, or params")

    def rows(self, shard: Shard, latents: Latents, params: Params) -> tuple[np.ndarray, np.ndarray, np.ndarray, Around | None]:
        """The assignments of the last sweep, and the words around its sure mentions."""
        around = None
        if latents.mentions is not None:
            around = context.count(shard.words.strings, shard.sentences.counts, latents.mentions, self.n_concepts - 1)
        return latents.best, latents.r, latents.moved, around


@dataclass(frozen=True)
class EMOfFiles(EM):
    """The same, of which only sums over the sentences are wanted at the end."""

    def rows(self, shard: Shard, latents: Latents, params: Params) -> Sums:  # type: ignore[override]
        best, r, _, around = super().rows(shard, latents, params)
        R, named = scores.sparse(best, r, self.n_concepts), (best[:, 0] >= 0) & (best[:, 0] < self.n_concepts - self.settings.null)
        written = author_prior.by_author(shard.rows, len(params.psi.constant), shard.sentences.document, R)
        return Sums(len(best), int(named.sum()), R.sum(axis=0, dtype=float), written, around)


def words_in_force(fixed: Any, learned: Said | Learned | None) -> Any:
    """The Lexicon or the Words of a sweep: those of the shards, with what was learned."""
    if isinstance(learned, Said):
        return learned.put(fixed)
    return fixed if learned is None else learned.words


def fingerprint_of(first: int, best: np.ndarray) -> np.ndarray:
    """(1,) A sum of hashes of (sentence, concept): equal assignments have equal sums, however sentences are cut into shards."""
    from pandas.util import hash_array

    return hash_array(np.arange(first, first + len(best)) << 32 | best.astype(np.int64) + 1).sum(keepdims=True)


def cycle_of(seen: np.ndarray, objective: Sequence[float]) -> int:
    """Sweeps after which hard assignments and their objective came back to where they had been; 0: they did not.

    Assignments alone may come back while the prior still moves, and settle later.
    """
    before = np.flatnonzero(seen[:-1] == seen[-1:])
    period = len(seen) - 1 - int(before[-1]) if len(before) else 0
    return period if period > 1 and np.isclose(objective[-1], objective[-1 - period], rtol=1e-6, atol=0.0) else 0
