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

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tallies.concepts import author_prior, penalties, word_counts
from tallies.concepts import context as beside
from tallies.concepts.answers import ConceptUse
from tallies.concepts.author_prior import Psi, Rows
from tallies.concepts.context import Beside, Mentions
from tallies.concepts.door import SEED, Sentences, door
from tallies.concepts.kernels import mentions as kernels
from tallies.concepts.mention import Postings, Strings, postings
from tallies.concepts.scores import TABLE, ConceptScores, as_sparse
from tallies.concepts.word_counts import Words
from tallies.data.ontology import Ontology
from tallies.estimator import Estimator
from tallies.maths import Array

NULL_START = 0.2  # prior of "none of these" before the first sweep; EM finds its own


class Shard(NamedTuple):
    sentences: Sentences  # S sentences: their keys or words, and their documents
    rows: Rows  # of the D documents
    label_ptr: np.ndarray  # (S+1,)  given concepts of each sentence; none: hidden
    labels: np.ndarray
    first: int  # sentences in the shards before this one


class Survey(NamedTuple):
    sentences: int
    counts: np.ndarray  # (number of keys or words,)  sentences with a key, or occurrences of a word


class Params(NamedTuple):
    psi: Psi  # eq. 2
    words: Words | Postings  # the word side
    beside: Beside | None  # mention: what words beside a mention say
    changed: int  # sentences whose best concept changed in the last sweep; -1 before
    seen: NDArray[np.uint64]  # (t,)  fingerprints of the assignments of all sweeps
    held: Array  # (t,)  log probability of held-out words, a sweep each


class Latents(NamedTuple):
    best: NDArray[np.int32]  # (S, keep)  best concepts of each sentence; -1: fewer
    r: NDArray[np.float32]  # (S, keep)  their responsibilities, eq. 1


class Tally(NamedTuple):
    objective: float  # eq. 4 without priors and penalties
    n_base: Array  # (G,)  expected sentences of all authors' prior
    n_rows: sp.csr_array  # (R, G)  and of each author or document
    n_gw: sp.csr_array | None  # (G, V)  expected words of each concept
    mentions: Mentions | None  # mention: sure mentions and the words beside them
    changed: int
    fingerprint: NDArray[np.uint64]  # (1,)
    held: float


@dataclass(eq=False, repr=False)
class AuthorConcept(ConceptUse, ConceptScores, Estimator):
    """Which concept of an ontology each sentence speaks of, learned from names, synonyms, raw sentences and their authors.

    >>> from tallies.data.corpus import Corpus
    >>> concepts = Ontology(["x", "y"], ["cell death", "gene expression"], synonyms=[["apoptosis"], []])
    >>> text = [("d1", "Apoptosis of cells was seen."), ("d1", "The gene is expressed."), ("d2", "Cell death follows.")]
    >>> model = AuthorConcept().fit(Corpus.from_pairs(text, [("d1", "Ann"), ("d2", "Bob")]), concepts)
    >>> ids, p = model.rank(["Expression of this gene is high"], k=1)
    >>> ids.tolist()
    [['y']]
    """

    words: Literal["mention", "multinomial"] = "mention"  # how a concept makes the words of a sentence
    assign: Literal["soft", "hard"] = "soft"  # eq. 1
    credit: Literal["split", "whole"] = "split"  # of a sentence among the authors of its document
    preset: Literal["seed"] | None = None  # "seed": hard, whole credit, bags of definition words; overrides what follows
    temperature: float = 1.0  # of the soft assignment
    gamma: float = 0.02  # pseudocount of every concept, for every author or (with back-off) for all of them
    strength: Any = None  # (G,) factors on gamma, one a concept: which concepts are expected more
    author_backoff: float | None = 1000.0  # sentences that make an author's own prior half of it; None: no common prior
    document_backoff: float | None = None  # the same of a document against its authors; None: it has no prior of its own
    null: bool = True  # whether a sentence may speak of none of the concepts
    ontology_smoothing: float | None = None  # share of a prior lent to parents when ranking; None: 0.3, with labels 0
    several: bool = True  # mention: only concepts that share words of a sentence compete for its ranks
    beside: float = 0.8  # mention: weight, in the ranks, of words learned to stand beside a concept; 0: not learned
    noise: Any = None  # mention: a dict of `Noise` values that differ from the defaults
    smoothing: float = 1.0  # multinomial: pseudocount, of all background words together, or of each word
    background: bool = True  # multinomial: pseudocounts are spread like the words of the corpus
    definition_weight: float = 0.0  # multinomial: weight of a definition's words beside the name's
    anchor: float | None = None  # multinomial: how often definitions count beside sentences; None: words stay fixed
    leave_one_out: bool = True  # multinomial: a sentence's own words do not count when it is assigned
    author_sparsity: float = 0.0  # lambda1 of F1, the norms of psi
    word_sparsity: float = 0.0  # lambda2 of F2, the norms of phi; needs the whole table of concepts x words
    overlap: float = 0.0  # omega: penalty on words that two concepts share; needs the whole table too
    overlap_kind: Literal["orthogonal", "distance"] = "orthogonal"  # all pairs alike, or in proportion to their distance
    stop: Literal["likelihood", "assignments"] = "likelihood"  # what must settle
    held_out: float = 0.0  # multinomial: share of words held out; the fit stops when they are foretold worse
    keep: int = 30  # responsibilities kept for each sentence
    single: bool = True  # scores of the multinomial in single precision (sums are double)
    max_iter: int = 50  # sweeps
    tol: float | None = 5e-3  # relative change of the objective; a prior fitted for longer collapses on few concepts
    random_state: Any = 0  # of the choice of held-out words

    next_steps = ("model.annotate(sentences)", "model.explain(sentence, concept)", 'model.report("page.html", corpus)')
    monotone: ClassVar[bool] = False  # it is, for soft, split, leave_one_out=False, temperature=1: tested

    def fit(
        self,
        corpus: Any,
        concepts: Ontology | None = None,
        labels: Any = None,
        *,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        resume: str | Path | None = None,
        callback: Callable[..., Any] | None = None,
    ) -> Self:
        """Fit to the sentences of a `Corpus` (made with sentences=True, or from_pairs) and the concepts of an `Ontology`.

        `labels` gives the concepts of each sentence: an id, a list of ids ([]: none of them), or None where they are unknown.
        """
        shards = self._shards(corpus, concepts, labels)
        state = self._run(shards, progress=progress, checkpoint=checkpoint, resume=resume, callback=callback)
        self._keep_assignments(state.latents)
        self.cycle_ = cycle_of(state.params.seen)
        return self

    def _shards(self, corpus: Any, concepts: Any = None, labels: Any = None) -> list[Shard]:
        return door(self, self._plan, corpus, concepts, labels, Shard)

    @classmethod
    def _records(cls) -> list[type]:
        return [*super()._records(), Strings]  # strings_ is the only record that no other one holds

    @property
    def _plan(self) -> AuthorConcept:
        """The settings in force: this model, or the preset it names."""
        if self.preset is None:
            return self
        if self.preset != "seed":
            raise ValueError(f'preset must be None or "seed", got {self.preset!r}')
        return dataclasses.replace(self, preset=None, **SEED)

    # verbs

    def survey(self, shard: Shard) -> Survey:
        x = shard.sentences
        weights = None if x.counts is None else x.counts
        return Survey(len(x.document), np.bincount(x.keys, weights=weights, minlength=self.n_keys_))

    def init(self, survey: Survey, rng: np.random.Generator) -> Params:
        plan, G = self._plan, self._n_concepts()
        m = np.ones(G) if plan.strength is None else np.append(np.asarray(plan.strength, dtype=float), [1.0] * plan.null)
        if plan.null:
            m[-1] = m[:-1].sum() * NULL_START / (1.0 - NULL_START)
        psi = Psi(m / m.sum(), np.ones(self.n_rows_), sp.csr_array((self.n_rows_, G)), m / m.sum())
        words: Words | Postings
        if plan.words == "mention":
            words = postings(self.strings_, (survey.counts + 0.5) / (survey.sentences + 1.0), self._noise())
        else:
            smooth, counts = self._smooth(survey.counts), plan._anchored(self.definitions_)
            words = word_counts.lay_out(counts, smooth, plan._dtype(), plan._anchored(self.unseen_words_))
            if plan._whole_table():
                words = word_counts.lay_out_whole(word_counts.phi_of(words, G), plan._dtype())
        return Params(psi, words, None, -1, np.empty(0, dtype=np.uint64), np.empty(0))

    def settle(self, shard: Shard, params: Params, rng: np.random.Generator) -> Latents:
        shape = len(shard.sentences.document), min(self._plan.keep, self._n_concepts())
        return Latents(np.full(shape, -1, dtype=np.int32), np.zeros(shape, dtype=np.float32))

    def sweep(self, shard: Shard, latents: Latents, params: Params, rng: np.random.Generator) -> tuple[Tally, Latents]:
        plan, G = self._plan, self._n_concepts()
        index, value, prior, string, _ = self._scores(shard.sentences, shard.rows, params, latents.best.shape[1], latents)
        r, objective = plan._responsibilities(index, value, prior)
        R, log_prior = as_sparse(index, r, prior, G)
        if len(shard.labels):
            R, log_prior, objective = self._with_labels(shard, params, R, log_prior, objective, value)
        n_base, n_rows = author_prior.credit(shard.rows, params.psi, shard.sentences.document, R, log_prior, plan.credit == "whole")
        x = shard.sentences
        n_gw = sp.csr_array(R.T @ x.matrix(self.n_keys_)) if plan.words == "multinomial" and plan._learns() else None
        best = index[:, 0]
        changed = int(np.sum(best != latents.best[:, 0]))
        held = 0.0
        if x.held_keys is not None:
            assert isinstance(params.words, Words)
            w = params.words
            held = kernels.held_out_words(
                x.held_ptr, x.held_keys, x.held_counts, index, r, w.ptr, w.concept, w.counts, w.smooth, w.total
            )
        mark = np.array([kernels.fingerprint(shard.first, best)], dtype=np.uint64)
        learns = plan.words == "mention" and (plan.beside or self.labelled_)
        mentions = self._mentions(shard, params, index, value, string) if learns else None
        return Tally(objective, n_base, n_rows, n_gw, mentions, changed, mark, held), Latents(index, r.astype(np.float32))

    def update(self, params: Params, tally: Tally, rng: np.random.Generator) -> Params:
        plan, G = self._plan, self._n_concepts()
        psi = author_prior.maximise(
            tally.n_base,
            tally.n_rows,
            params.psi,
            self._pseudocounts(),
            plan.gamma * G,
            plan.author_sparsity,
            plan.author_backoff is not None,
        )
        words = params.words
        if tally.n_gw is not None:
            assert isinstance(words, Words)
            counts = plan._anchored(self.definitions_) + tally.n_gw
            if plan._whole_table():
                full = counts.toarray() + self._smooth(self.word_counts_)
                phi = penalties.maximise(full, word_counts.phi_of(words, G), plan.word_sparsity, plan.overlap, self.distances_)
                words = word_counts.lay_out_whole(phi, plan._dtype())
            else:
                unseen = plan._anchored(self.unseen_words_)
                words = word_counts.lay_out(counts, self._smooth(self.word_counts_), plan._dtype(), unseen)
        around = None
        if tally.mentions is not None:
            assert isinstance(words, Postings)
            if tally.mentions.used is not None and not len(params.seen):  # once: words stay as they are while EM learns the prior
                words = beside.usage(self.strings_, words, self._noise(), tally.mentions.used)
            around = beside.learn(self.strings_, tally.mentions, words.log_rate)
        return Params(
            psi, words, around, tally.changed, np.append(params.seen, tally.fingerprint), np.append(params.held, tally.held)
        )

    def objective(self, tally: Tally, before: Params, after: Params) -> float:
        """Eq. 4 at the params that the sweep used."""
        plan, G = self._plan, self._n_concepts()
        level = plan.author_backoff is not None
        value = tally.objective + author_prior.log_penalty(
            before.psi, self._pseudocounts(), plan.gamma * G, plan.author_sparsity, level
        )
        if tally.n_gw is not None and isinstance(before.words, Words) and G * self.n_keys_ <= TABLE:
            phi = word_counts.phi_of(before.words, G)
            value += float(np.sum((plan._anchored(self.definitions_).toarray() + self._smooth(self.word_counts_)) * np.log(phi)))
            unseen = plan._anchored(self.unseen_words_)
            value += float(np.sum(unseen * np.log(np.maximum(unseen, 1e-300) / before.words.total)))
            value += penalties.log_penalty(phi, plan.word_sparsity, plan.overlap, self.distances_)
        return value

    def done(self, params: Params) -> bool:
        plan, held = self._plan, params.held
        if len(params.seen) < 2:
            return False
        if plan.held_out and held[-1] < held[-2] - 1e-9 * abs(held[-2]):  # beyond rounding
            return True
        if plan.assign == "hard" and cycle_of(params.seen):
            return True
        return params.changed == 0 and (plan.stop == "assignments" or (plan.assign == "hard" and plan.credit == "whole"))

    def _converged(self, state: Any) -> bool:
        return self.done(state.params) if self._plan.stop == "assignments" else super()._converged(state)


def cycle_of(seen: np.ndarray) -> int:
    """Sweeps after which hard assignments came back to where they had been; 0: they did not."""
    before = np.flatnonzero(seen[:-1] == seen[-1:])
    period = len(seen) - 1 - int(before[-1]) if len(before) else 0
    return period if period > 1 else 0
