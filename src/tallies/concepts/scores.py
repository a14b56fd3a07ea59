"""Scores and responsibilities of the author-concept model: what its verbs are made of, beside `author_prior` and the word sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from tallies.concepts import author_prior
from tallies.concepts import context as beside
from tallies.concepts.author_prior import Rows
from tallies.concepts.door import Sentences
from tallies.concepts.kernels import mentions as kernels
from tallies.concepts.mention import Noise, Postings, Strings
from tallies.maths import Array, log0

TABLE = 20_000_000  # cells of concepts x words that may be laid out whole: 160 MB


class ConceptScores:
    """Mixed into AuthorConcept, whose hyperparameters and facts these methods read."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the attributes of the model

    def _scores(self, x: Sentences, rows: Rows, params: Any, keep: int, latents: Any = None) -> tuple[np.ndarray, ...]:
        """index, log joint, log prior, string (S, keep) and evidence (S,) of sentences."""
        S, psi, words = len(x.document), params.psi, params.words
        index, value, prior = np.empty((S, keep), dtype=np.int32), np.empty((S, keep)), np.empty((S, keep))
        string, evidence = np.full((S, keep), -1, dtype=np.int32), np.empty(S)
        side: tuple[Any, ...] = (author_prior.effective_share(rows, psi), psi.base, log0(psi.base), rows.ptr, rows.row, rows.weight)
        side = (*side, psi.own.indptr.astype(np.int64), psi.own.indices.astype(np.int64), psi.own.data)
        if isinstance(words, Postings):
            k: Strings = self.strings_
            whole = np.float32(self._noise().whole)
            made: tuple[Any, ...] = (k.n_classes, words.ptr, words.string, words.gain, words.start, k.need, whole, k.owner)
            score: Any = kernels.mention_scores
            score(x.ptr, x.keys, x.document, *made, *side, index, value, prior, string, evidence)
            return index, value, prior, string, evidence
        loo = (
            latents is not None
            and self._plan.leave_one_out
            and self._plan._learns()
            and len(words.counts) > 0
            and len(params.seen) > 0
        )
        old = latents if latents is not None else (np.empty((0, 0), np.int32), np.empty((0, 0), np.float32))
        own = words.counts if loo else np.empty(0)
        if latents is not None and self._plan.assign == "hard":
            evidence = np.empty(0)  # no sum over concepts is asked for
        made = (x.ptr, x.keys, x.counts, x.document, words.ptr, words.concept, words.gain, words.slope)
        score = kernels.multinomial_scores
        score(*made, *side, *old, own, words.smooth, words.total, index, value, prior, evidence)
        # the term of the sentence alone, sum_w n log e_w (eq. 2 of word_counts)
        alone = np.bincount(np.repeat(np.arange(S), np.diff(x.ptr)), weights=x.counts * np.log(words.smooth)[x.keys], minlength=S)
        return index, value + alone[:, None], prior, string, evidence + alone if len(evidence) else evidence

    def _strengths(self, x: Sentences, null: Array, index: np.ndarray, value: Array, string: np.ndarray) -> Array:
        """(S, keep) probability that each candidate explains its words, given the prior of the null of each sentence."""
        k, strength = self.strings_, np.zeros_like(value)
        classes = np.ascontiguousarray(k.words[:, 0])
        kernels.compete(x.ptr, x.keys, k.n_classes, k.word_ptr, classes, index, value, string, log0(null), strength)
        return strength

    def _mentions(self, shard: Any, params: Any, index: np.ndarray, value: Array, string: np.ndarray) -> beside.Mentions:
        """Which concepts the sentences of a shard mention, by their labels or else by their words, and what stands beside them."""
        x, G = shard.sentences, len(self.concept_ids_)
        null = author_prior.dense_column(shard.rows, params.psi, G)[x.document]
        n = np.diff(shard.label_ptr)
        strength = self._strengths(x, null, index, value, string)
        sure = (strength > beside.SURE) & (n == 0)[:, None]
        weight = np.concatenate([strength[sure], np.ones(len(shard.labels))])
        s, c = np.nonzero(sure)
        given = np.repeat(np.arange(len(n)), n)
        bearer = np.where(index[given] == shard.labels[:, None], string[given], -1).max(axis=1, initial=-1)
        sentence, concept = np.concatenate([s, given]), np.concatenate([index[s, c], shard.labels])
        by, told = np.concatenate([string[s, c], bearer]), np.arange(len(sentence)) >= len(s)
        real = concept < G  # a label may be the null
        parts = (sentence[real], concept[real], by[real], weight[real], told[real] if self.labelled_ else None)
        return beside.count(self.strings_, x.matrix(self.n_keys_), G, *parts)

    def _responsibilities(self, index: np.ndarray, value: Array, prior: Array) -> tuple[Array, float]:
        """r of the kept concepts (eq. 1) and the log likelihood over them."""
        top = value[:, :1]
        if self.assign == "hard":
            r = np.zeros_like(value)
            r[:, 0] = index[:, 0] >= 0
            return r, float(value[index[:, 0] >= 0, 0].sum())
        r = np.exp((value - top) / self.temperature)
        r /= r.sum(axis=1, keepdims=True)
        return r, float((top[:, 0] + np.log(np.exp(value - top).sum(axis=1))).sum())

    def _with_labels(
        self, shard: Any, params: Any, R: sp.csr_array, log_prior: Array, objective: float, value: Array
    ) -> tuple[sp.csr_array, Array, float]:
        """Sentences with given concepts: equal parts of each, whatever the words say; they enter the objective by their prior."""
        n = np.diff(shard.label_ptr)
        given = n > 0
        d = np.repeat(shard.sentences.document, n)
        W = author_prior.matrix(shard.rows, len(params.psi.constant)) @ params.psi.own
        W.sort_indices()
        S, G = R.shape
        cells = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr)) * G + W.indices
        at = np.searchsorted(cells, d * G + shard.labels)
        padded, values = np.append(cells, -1), np.append(W.data, 0.0)
        own = np.where(padded[at] == d * G + shard.labels, values[at], 0.0)
        p = author_prior.effective_share(shard.rows, params.psi)[d] * params.psi.base[shard.labels] + own
        place = sp.csr_array((np.arange(1, R.nnz + 1), R.indices, R.indptr), shape=R.shape)
        kept = np.repeat(~given, np.diff(R.indptr))
        rows = np.concatenate([np.repeat(np.arange(S), np.diff(place.indptr))[kept], np.repeat(np.arange(S), n)])
        columns = np.concatenate([R.indices[kept], shard.labels])
        order = np.argsort(rows, kind="stable")
        data = np.concatenate([R.data[kept], np.repeat(1.0 / np.maximum(n, 1), n)])[order]
        logs = np.concatenate([log_prior[kept], np.log(p)])[order]
        ptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=S))])
        top = value[given]
        mine = float(np.sum(np.logaddexp.reduce(top, axis=1))) if self._plan.assign == "soft" else float(top[:, 0].sum())
        objective += float(np.sum(np.log(p) / np.repeat(np.maximum(n, 1), n))) - mine
        return sp.csr_array((data, columns[order], ptr), shape=(S, G)), logs, objective

    def _n_concepts(self) -> int:
        return len(self.concept_ids_) + self._plan.null

    def _noise(self) -> Noise:
        return Noise(**(self._plan.noise or {}))

    def _learns(self) -> bool:
        return self.anchor is not None

    def _whole_table(self) -> bool:
        return bool(self.word_sparsity or self.overlap)

    def _dtype(self) -> Any:
        return np.float32 if self.single else np.float64

    def _anchored(self, definitions: Any) -> Any:
        return definitions if self.anchor is None else definitions * self.anchor

    def _smooth(self, counts: Array) -> Array:
        """e_w (eq. 1 of word_counts)."""
        plan = self._plan
        share = (counts + 0.5) / (counts + 0.5).sum() if plan.background else np.ones(len(counts))
        return plan.smoothing * share * (1.0 if plan.anchor is None else plan.anchor)

    def _pseudocounts(self) -> Array:
        plan, G = self._plan, self._n_concepts()
        m = np.ones(G) if plan.strength is None else np.append(np.asarray(plan.strength, dtype=float), [1.0] * plan.null)
        return plan.gamma * m


def as_sparse(index: np.ndarray, r: Array, prior: Array, G: int) -> tuple[sp.csr_array, Array]:
    """r as CSR (S, G) and the log prior of its entries."""
    kept = (index >= 0) & (r > 0)
    ptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return sp.csr_array((r[kept], index[kept], ptr), shape=(len(index), G)), prior[kept]
