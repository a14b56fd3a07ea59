"""Latent Dirichlet allocation by collapsed Gibbs sampling.

    theta_d ~ Dirichlet(alpha)                  topics of document d
    phi_k   ~ Dirichlet(beta)                   words of topic k
    z_i     ~ theta_d(i)                        topic of token i
    w_i     ~ phi_z(i)                          its word

With n_kw tokens of word w in topic k, n_dk tokens of topic k in document d, n_k = sum_w n_kw, A = sum_k alpha_k:

(1) p(z_i = k | rest) ~ (n_kw + beta) / (n_k + V beta) * (n_dk + alpha_k)           token i taken out
(2) log p(w, z) = sum_k [lG(V beta) - lG(n_k + V beta)] + sum_kw [lG(n_kw + beta) - lG(beta)]
                + sum_d [lG(A) - lG(n_d + A)] + sum_dk [lG(n_dk + alpha_k) - lG(alpha_k)]
(3) phi_kw = (n_kw + beta) / (n_k + V beta),  theta_dk = (n_dk + alpha_k) / (n_d + A),   averaged over the kept sweeps
(4) alpha_k <- alpha_k sum_d [psi(n_dk + alpha_k) - psi(alpha_k)] / sum_d [psi(n_d + A) - psi(A)]

Griffiths & Steyvers (2004) for (1); Heinrich (2005), "Parameter estimation for text analysis"; Minka (2000) for (4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from tallies import engine
from tallies.backends import thread_count
from tallies.engine import State
from tallies.errors import FileError
from tallies.forms import Form
from tallies.sums import Sum
from tallies.topics import sampler
from tallies.topics.sampler import Latents
from tallies.topics.tokens import Tokens

Array = np.ndarray
TINY, HUGE = 5e-324, float(np.finfo(float).max)  # the least positive number, and the largest
LEARN_FROM, LEARN_EVERY = 20, 10  # sweeps at which alpha and beta are estimated, until burn_in
GROWTH = 5  # the growing start begins with 1/2**5 of the documents
FEWEST = 64  # documents at its beginning; with fewer it begins later
MANY = 32_768  # documents from which on it takes longer: larger parts settle in more sweeps
WINDOW = 20  # sweeps, or a quarter of the chain if that is more, whose mean is compared with that of as many before: a plateau?


class Params(NamedTuple):
    """The global state. Base counts are tokens that stay in their topic: seed words, or documents of an earlier fit."""

    alpha: Annotated[Array, Form("K", "f", TINY)]
    beta: Annotated[float, Form(low=TINY, high=HUGE)]
    lengths: Annotated[Array, Form("L", "i", 0)]  # documents of each length, from 0 to that of the longest
    n_k: Annotated[Array, Form("K", "i", 0)]  # tokens of each topic, base counts included
    n_wk: Annotated[sp.csr_array, Form("V K", "i", 1)]  # counts n_kw at the last sweep that told them, base counts included
    smooth: Annotated[Array, Form("K", "f", 0)]  # sum of beta / (n_k + V beta) over the kept sweeps
    phi: Annotated[sp.csr_array, Form("V K", "f", 0)] | None = None  # sum of n_kw / (n_k + V beta) over the kept sweeps
    kept: Annotated[int, Form(kind="i", low=0)] = 0  # how many
    t: Annotated[int, Form(kind="i", low=0)] = 0  # iterations done

    def check(self) -> None:
        """There is a topic, and the counts hold each once, as the lists of the sampler do; kernels are compiled for doubles."""
        if not len(self.alpha) or self.alpha.dtype != float or not self.n_wk.has_canonical_format:
            raise ValueError("alpha should have a topic at least, in doubles, and n_wk sorted columns, each once")

    def with_sample(self) -> Params:
        """The current counts added to the kept ones (eq. 3)."""
        n_wk, inverse = self.n_wk, 1.0 / (self.n_k + self.n_wk.shape[0] * self.beta)
        phi = sp.csr_array((n_wk.data * inverse[n_wk.indices], n_wk.indices, n_wk.indptr), shape=n_wk.shape)
        phi = phi if self.phi is None else self.phi + phi
        return self._replace(phi=phi, smooth=self.smooth + self.beta * inverse, kept=self.kept + 1)


class Tally(NamedTuple):
    """Added over shards."""

    words: float | None  # sum over words of eq. 2; None with several shards, where the update knows it
    documents: float  # last sum of eq. 2; nan while documents still enter
    n_k: Annotated[Array, Form("K", "i")]  # change since params
    n_wk: Annotated[sp.csr_array, Form("V K", "i")] | None  # change since params, when someone needs it
    H: Annotated[sp.csr_array, Form("K L", "i", 1)] | None  # documents in which topic k has n tokens, when alpha is estimated


class Recount(NamedTuple):
    """What the tokens of a checkpoint say, added over shards."""

    tokens: sp.csr_array  # (V, K)  tokens of each word and topic
    lists: sp.csr_array | None  # (V, K)  the same in the word lists, base counts included; None with several shards


class Rows(NamedTuple):
    """What is told of the documents of a shard at the end, in its own order."""

    rows: Array  # (D,)  row of each document in the data
    n_dk: sp.csr_array  # (D, K)  mean over the kept sweeps
    z: sp.csr_array  # (D, V)  an entry a token, rising by column: its topic in the last sweep, -1 if it had not entered yet
    n_wk: sp.csr_array | None  # (V, K)  of the last sweep; None with several shards, where params have it


@dataclass(frozen=True)
class Gibbs(engine.Model):
    """One chain."""

    n_topics: int  # K
    alpha: Any  # "auto": estimated; a number, or (K,)
    beta: Any  # "auto": estimated; a number
    burn_in: int  # iterations before samples are kept; alpha and beta are estimated in them and then stay
    thin: int  # every thin-th iteration after burn_in is kept
    start: str  # "growing" | "random" | "enter": all documents at once, given the base counts
    plateau: bool  # whether to stop when the log likelihood no longer rises
    goes_on = True  # between the rounds of a sweep, where there is one shard: several have begun from counts that are then gone

    def begin(self, lengths: Array, base: sp.csr_array) -> Params:
        """Params before the first sweep, where no token has a topic but those of the base counts (V, K): the door has seen all
        that a survey would tell."""
        alpha = np.full(self.n_topics, 0.1 if isinstance(self.alpha, str) else self.alpha, dtype=float)
        beta = 0.01 if isinstance(self.beta, str) else float(self.beta)
        n_k = np.asarray(base.sum(axis=0), dtype=np.int64)
        return Params(alpha=alpha, beta=beta, lengths=lengths, n_k=n_k, n_wk=base, smooth=np.zeros(self.n_topics))

    def settle(self, shard: Tokens, params: Params, rng: np.random.Generator) -> Latents:
        counts = sampler.empty(shard, self.n_topics, params.n_wk) if shard.alone else sampler.none(shard, self.n_topics)
        return Latents(counts, None, np.zeros(1, dtype=np.int64))

    def sweep(self, shard: Tokens, latents: Latents, params: Params, rng: np.random.Generator) -> tuple[Tally, Latents]:
        t, counts = params.t + 1, latents.counts
        share, repeats = self._growth(t, shard.total)
        mine = (share * shard.total - shard.first) / max(len(shard.rows), 1)
        if not shard.alone:
            counts = sampler.with_lists(shard, counts, params.n_wk, params.n_k)
        if t == 1 and self.start != "enter":
            sampler.scatter(shard, counts, rng, mine)
        if t > 1 or self.start != "random":
            seed, threads = int(rng.integers(2**63)), thread_count() if shard.alone else 1
            prior, begun = (params.alpha.astype(np.float32), params.beta), latents.begun if shard.alone else None
            sampler.sweeps(shard, counts, prior, seed, repeats, mine, threads, begun)
        words, documents, H = None, np.nan, None
        if share >= 1.0:
            if shard.alone:
                words = sampler.word_term(shard, counts, params.beta)
            H = sampler.histogram(shard, counts)
            entry = H.tocoo()
            alpha = params.alpha[entry.row]
            documents = float(np.sum(H.data * (gammaln(entry.col + alpha) - gammaln(alpha))))
        learns, keeps = self._learns(t), self._keeps(t)
        n_k = counts.n_k - params.n_k
        n_wk = sampler.changes(shard, counts, params.n_wk) if keeps or learns or not shard.alone else None
        if keeps:
            n_dk = sampler.document_counts(shard, counts)
            latents = latents._replace(kept=n_dk if latents.kept is None else latents.kept + n_dk)
        if not shard.alone:  # word lists are made of the params of each sweep; kept are the tokens of each topic in this shard
            latents.counts.n_k[:] += n_k
        return Tally(words, documents, n_k, n_wk, H if learns else None), latents

    def update(self, params: Params, tally: Tally, rng: np.random.Generator) -> Params:
        t, n_k = params.t + 1, params.n_k + tally.n_k
        n_wk = params.n_wk if tally.n_wk is None else params.n_wk + tally.n_wk
        alpha, beta = params.alpha, params.beta
        if tally.H is not None and isinstance(self.alpha, str):
            n = np.flatnonzero(params.lengths)
            alpha = sampler.dirichlet_fixed_point(alpha, tally.H.tocoo(), n, params.lengths[n])  # eq. 4
        if self._learns(t) and isinstance(self.beta, str):
            beta = sampler.symmetric_fixed_point(beta, n_wk.data, n_k, n_wk.shape[0])
        params = params._replace(t=t, alpha=alpha, beta=beta, n_k=n_k, n_wk=n_wk)
        return params.with_sample() if self._keeps(t) else params

    def objective(self, tally: Tally, before: Params, after: Params) -> float:
        words, V, beta = tally.words, after.n_wk.shape[0], before.beta
        if words is None:
            words = float(np.sum(gammaln(after.n_wk.data + beta) - gammaln(beta)))
        n, A = np.flatnonzero(before.lengths), before.alpha.sum()
        topics = np.sum(gammaln(after.n_k + V * beta) - gammaln(V * beta))
        lengths = np.sum(before.lengths[n] * (gammaln(n + A) - gammaln(A)))
        return float(words + tally.documents - topics - lengths)  # eq. 2

    def done(self, state: State) -> bool:
        return self.plateau and state.params.kept > 0 and has_settled(state.objective, WINDOW)

    def outgoing(self, params: Params) -> Params:
        return params._replace(phi=None)  # as large as the counts

    def ahead(self, params: Params) -> Params:
        return params._replace(kept=params.kept + self._keeps(params.t + 1))

    def rows(self, shard: Tokens, latents: Latents, params: Params) -> Rows:
        counts, layout = latents.counts, shard.layout
        n_dk = sampler.document_counts(shard, counts).astype(float) if latents.kept is None else latents.kept / params.kept
        columns, indptr = np.argsort(shard.rank).astype(np.int32), np.append(layout.cuts[0], layout.cuts[-1, -1:])
        z = sp.csr_array((counts.z.copy(), columns[layout.words], indptr), shape=(len(shard.rows), len(columns)))
        z.sort_indices()
        return Rows(shard.rows, n_dk, z, sampler.word_counts(shard, counts) if shard.alone else None)

    def recount(self, shard: Tokens, latents: Latents, params: Params) -> Recount:
        if params.n_wk.shape != (len(shard.rank), self.n_topics):
            raise FileError(f"the checkpoint is damaged: counts of shape {params.n_wk.shape}; start a new fit")
        tokens = sampler.tokens(shard, latents.counts, self.n_topics)
        return Recount(tokens, sampler.word_counts(shard, latents.counts) if shard.alone else None)

    def agree(self, state: State, counted: Recount, start: Params) -> None:
        found = state.params.n_wk if counted.lists is None else counted.lists
        if state.half is not None:  # some shards have been swept once more
            tally = Sum(state.half).value()
            found = found + tally.n_wk if isinstance(tally, Tally) and sp.issparse(tally.n_wk) else found
        if not sampler.same(found, start.n_wk + counted.tokens) or not 0 < state.params.t == len(state.objective):
            raise FileError("the checkpoint is damaged: its counts are not those of its tokens; start a new fit")

    def _growth(self, t: int, n_documents: int) -> tuple[float, int]:
        """Share of the documents that iteration t sweeps over, and how often: four iterations for each doubling, five for a large
        corpus, or as few as three where they would be more than half of the burn-in."""
        most = GROWTH if self.start == "growing" else 0
        doublings = int(np.clip(np.log2(max(n_documents / FEWEST, 1.0)), 0, most))
        each = int(np.clip(self.burn_in // max(2 * doublings, 1), 3, 5 if n_documents >= MANY else 4))
        left = max(doublings - (t - 1) // each, 0)
        return 0.5**left, 2**left

    def _learns(self, t: int) -> bool:
        learns = isinstance(self.alpha, str) or isinstance(self.beta, str)
        return learns and LEARN_FROM <= t <= self.burn_in and t % LEARN_EVERY == 0

    def _keeps(self, t: int) -> bool:
        return t > self.burn_in and (t - self.burn_in) % self.thin == 0


def has_settled(objective: Any, window: int) -> bool:
    """Whether a chain has stopped rising, by its last quarter, or `window` sweeps if that is more."""
    history = [value for value in objective if not np.isnan(value)]
    return engine.plateau(history, max(len(history) // 4, window))
