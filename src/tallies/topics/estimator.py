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

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tallies import engine
from tallies.backends import thread_count
from tallies.engine import State
from tallies.errors import ConvergenceWarning, DataError
from tallies.estimator import Estimator
from tallies.topics import sampler
from tallies.topics.answers import Topics
from tallies.topics.door import align, bag_of_words, names_of
from tallies.topics.kernels.lists import word_term
from tallies.topics.sampler import Latents
from tallies.topics.tokens import Tokens, lay_out

Array = np.ndarray
LEARN_FROM, LEARN_EVERY = 20, 10  # sweeps at which alpha and beta are estimated, until burn_in
GROWTH = 5  # the growing start begins with 1/2**5 of the documents
FEWEST = 64  # documents at its beginning; with fewer it begins later
WINDOW = 20  # sweeps, or a quarter of the chain if that is more, whose mean is compared with that of as many before: a plateau?


class Survey(NamedTuple):
    """Added over shards."""

    lengths: Array  # (L+1,)  documents of each length
    words: Array  # (V,)  tokens of each column, to know the data again


class Params(NamedTuple):
    """The global state."""

    t: int  # iterations done
    alpha: Array  # (K,)
    beta: float
    lengths: Array  # (L+1,)  documents of each length
    n_k: Array  # (K,)  tokens of each topic, base counts included
    n_wk: sp.csr_array  # (V, K)  counts n_kw at the last sweep that told them, base counts included
    phi: sp.csr_array | None  # (V, K)  sum of n_kw / (n_k + V beta) over the kept sweeps
    smooth: Array  # (K,)  sum of beta / (n_k + V beta) over the kept sweeps
    kept: int  # how many


class Tally(NamedTuple):
    """Added over shards."""

    words: float | None  # sum over words of eq. 2; None with several shards, where the update knows it
    documents: float  # last sum of eq. 2; nan while documents still enter
    n_k: Array  # (K,)  change since params
    n_wk: sp.csr_array | None  # (V, K)  change since params, when someone needs it
    H: sp.csr_array | None  # (K, L+1)  documents in which topic k has n tokens, when alpha is estimated


@dataclass(eq=False, repr=False)
class LDA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Topics, Estimator):
    """Topics of documents: a document is a mixture of topics, a topic a distribution over words.

    >>> import numpy as np
    >>> fruit, metal = [3, 2, 4, 0, 0, 0], [0, 0, 0, 4, 2, 3]
    >>> X = np.array([fruit, metal] * 20)
    >>> model = LDA(n_topics=2, max_iter=60, burn_in=30, random_state=0).fit(X)
    >>> sorted(sorted(map(int, words[:3])) for words in model.top_words(3, names=None))
    [[0, 1, 2], [3, 4, 5]]
    >>> bool(model.transform([fruit]).max() > 0.9)
    True
    """

    n_topics: int = 20  # K
    alpha: Any = "auto"  # prior of theta: "auto" (asymmetric, estimated), a number, or (K,)
    beta: float | Literal["auto"] = 0.01  # prior of phi; "auto" raises log p(w, z) and tends to hurt held-out scores
    max_iter: int = 300  # iterations, each the work of one sweep over all tokens, the growing start included
    burn_in: int = 200  # iterations before samples are kept; alpha is estimated in them and then stays
    thin: int = 5  # every thin-th iteration after burn_in is kept
    n_chains: int = 1  # chains with streams of their own; predictions are averaged over them
    start: Literal["growing", "random"] = "growing"  # documents enter in doubling numbers, or all at once with random topics
    plateau: bool = False  # whether to stop when the log likelihood no longer rises (after burn_in, with samples kept)
    word_prior: Any = None  # seed words: {topic: words or {word: pseudo-count}}, or whole pseudo-counts (K, V)
    shards: int = 1  # pieces for a cluster; more than one is AD-LDA, an approximation
    random_state: Any = None

    run_fields = frozenset({"max_iter", "plateau", "random_state"})
    next_steps = ("model.top_words()", "model.transform(X)", 'model.report("page.html", X)')

    # at the door

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        progress: bool | None = None,
        checkpoint: Any = None,
        resume: Any = None,
        callback: Any = None,
    ) -> Self:
        """Fit to a Corpus, a count matrix (documents x words; sparse, array, data frame) or AnnData."""
        shards = self._shards(X)
        return self._sample(shards, progress=progress, checkpoint=checkpoint, resume=resume, callback=callback)

    def partial_fit(self, X: Any, y: Any = None, **run: Any) -> Self:
        """Add documents: their tokens enter and are resampled given the topics of all earlier tokens, which stay."""
        if not hasattr(self, "params_"):
            return self.fit(X, **run)
        if self.n_chains > 1:
            raise ValueError(f"documents can be added to one chain, got n_chains={self.n_chains}; refit with all documents")
        counts, before, alpha = self._counts(X, reset=False), self.document_counts_, self.params_.alpha
        self._base, self._start, self._first = self.params_.n_wk, "enter", alpha
        lengths = self.params_.lengths
        self._sample(self._lay_out(counts), **run)
        self.document_counts_ = sp.vstack([before, self.document_counts_], format="csr")
        total = np.zeros(max(len(lengths), len(self.params_.lengths)), dtype=np.int64)
        for part in (lengths, self.params_.lengths):
            total[: len(part)] += part
        self.params_ = self.chains_[0] = self.params_._replace(lengths=total)
        return self

    def _shards(self, X: Any, y: Any = None) -> list[Tokens]:
        """Data validated and laid out for a new fit."""
        self._check()
        counts = self._counts(X, reset=True)
        self._base, self._start, self._first = self._word_prior(counts.shape[1]), str(self.start), None
        return self._lay_out(counts)

    def _lay_out(self, counts: sp.csr_array) -> list[Tokens]:
        self._chain, self._drawn = 0, -1
        rng = engine.stream(0, 0, 0)  # one shuffle for all seeds: a resumed fit must find its tokens where they were
        rows = counts.shape[0]
        size = self.shard_rows or -(-rows // min(self.shards, rows))
        cuts = [slice(a, min(a + size, rows)) for a in range(0, rows, size)]
        return lay_out(counts, self.n_topics, self._base, rng, cuts)

    def _check(self) -> None:
        for name, least in (("n_topics", 1), ("max_iter", 1), ("burn_in", 0), ("thin", 1), ("n_chains", 1), ("shards", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
        if self.start not in ("growing", "random"):
            raise ValueError(f'start must be "growing" or "random", got {self.start!r}')
        if self.beta != "auto" and not (isinstance(self.beta, int | float) and 0 < self.beta < np.inf):
            raise ValueError(f'beta must be a positive number or "auto", got {self.beta!r}')
        if not (isinstance(self.alpha, str) and self.alpha == "auto"):
            alpha = np.asarray(self.alpha, dtype=float)
            if alpha.shape not in ((), (self.n_topics,)) or not (alpha > 0).all():
                raise ValueError(f'alpha must be "auto", a positive number, or {self.n_topics} of them, got {self.alpha!r}')

    def _counts(self, X: Any, reset: bool) -> sp.csr_array:
        counts, names = bag_of_words(X), names_of(X)
        if not reset:
            check_is_fitted(self)
            return align(counts, names, getattr(self, "feature_names_in_", None), self.n_features_in_)
        if counts.shape[0] == 0:
            raise DataError("Found array with 0 sample(s): expected at least one document; pass counts (documents x words)")
        if counts.shape[1] == 0:
            raise DataError(
                f"the vocabulary is empty: 0 feature(s) (shape={counts.shape}) while a minimum of 1 is required. "
                "Lower min_df, raise max_df, or keep the stop words"
            )
        if counts.nnz == 0:
            raise DataError("expected documents with words, but all counts are zero; check the vocabulary and the stop words")
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_ = counts.shape[1]
        return counts

    def _sample(self, shards: list[Tokens], **run: Any) -> Self:
        """Run the chains and keep what they learned."""
        self.chains_, self.histories_, seeds = [], [], []
        for chain in range(self.n_chains):
            self._chain = chain
            state = self._run(shards, **_chain_paths(run, chain))
            self.chains_.append(self._finish(state, shards))
            self.histories_.append(self.history_)
            seeds.append(self.seed_)
            if chain == 0:
                self.document_counts_ = self._document_counts(state, shards)
            if self.n_iter_ < self.max_iter and not self.converged_:
                break  # interrupted, or ended by a callback
        self._chain = 0
        self.params_, self.history_, self.seed_ = self.chains_[0], self.histories_[0], seeds[0]
        self.converged_ = all(engine.plateau(h.tolist(), max(len(h) // 4, 5)) for h in self.histories_)
        if not self.converged_ and self.n_iter_ >= self.max_iter >= 2 * WINDOW:
            warnings.warn(
                f"the log likelihood of LDA was still rising after {self.max_iter} sweeps; raise max_iter and burn_in",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _seed(self) -> int:
        drawn: int = getattr(self, "_drawn", -1)
        seed = super()._seed() if self.random_state is not None or drawn < 0 else drawn
        self._drawn = seed  # random_state=None: one seed for all chains of a fit
        chain = getattr(self, "_chain", 0)
        return seed if chain == 0 else int(np.random.SeedSequence([seed, chain]).generate_state(1, np.uint64)[0] >> 1)

    def _converged(self, state: State) -> bool:
        history = [value for value in state.objective if not np.isnan(value)]
        return self.plateau and state.params.kept > 0 and engine.plateau(history, max(len(history) // 4, WINDOW))

    def _fixed_length(self) -> bool:
        return True

    # verbs

    def survey(self, shard: Tokens) -> Survey:
        lengths = np.bincount(shard.cuts[-1] - shard.cuts[0], minlength=shard.longest + 1)
        return Survey(lengths, np.bincount(shard.words, minlength=len(shard.rank))[shard.rank])

    def init(self, survey: Survey, rng: np.random.Generator) -> Params:
        K, base = self.n_topics, self._base
        given = self._first if self._first is not None else 0.1 if isinstance(self.alpha, str) else self.alpha
        alpha = np.array(np.broadcast_to(np.asarray(given, dtype=float), K))
        beta = 0.01 if isinstance(self.beta, str) else float(self.beta)
        n_k = np.asarray(base.sum(axis=0), dtype=np.int64).ravel()
        return Params(0, alpha, beta, survey.lengths, n_k, base, None, np.zeros(K), 0)

    def settle(self, shard: Tokens, params: Params, rng: np.random.Generator) -> Latents:
        return sampler.empty(shard, self.n_topics, params.n_wk)

    def sweep(self, shard: Tokens, latents: Latents, params: Params, rng: np.random.Generator) -> tuple[Tally, Latents]:
        K, t, alone = self.n_topics, params.t + 1, shard.pieces == 1
        share, repeats = self._growth(t, shard.total)
        if not alone:
            sampler.restore(shard, latents, params.n_wk)
            latents.n_k[:] = params.n_k
        mine = (share * shard.total - shard.first) / max(len(shard.rows), 1)
        if t == 1 and self._start != "enter":
            sampler.scatter(shard, latents, K, rng, mine)
        if t > 1 or self._start != "random":
            seed, threads = int(rng.integers(2**63)), thread_count() if alone else 1
            sampler.sweeps(shard, latents, params.alpha, params.beta, seed, repeats, mine, threads)
        words, documents, H = None, np.nan, None
        if share >= 1.0:
            if alone:
                words = word_term(latents.lists, shard.at, latents.size, shard.shift, params.beta, np.empty(1024))
            H = sampler.histogram(shard, latents, K)
            entry = H.tocoo()
            documents = float(np.sum(H.data * (gammaln(entry.col + params.alpha[entry.row]) - gammaln(params.alpha[entry.row]))))
            H = H if self._learns(t) else None
        keep = self._keeps(t)
        n_wk = sampler.word_counts(shard, latents, K) - params.n_wk if keep or not alone or self._learns(t) else None
        if keep:
            n_dk = sampler.document_counts(shard, latents, K)
            latents = latents._replace(kept=n_dk if latents.kept is None else latents.kept + n_dk)
        return Tally(words, documents, latents.n_k - params.n_k, n_wk, H), latents

    def update(self, params: Params, tally: Tally, rng: np.random.Generator) -> Params:
        t, n_k, V = params.t + 1, params.n_k + tally.n_k, params.n_wk.shape[0]
        n_wk = params.n_wk if tally.n_wk is None else params.n_wk + tally.n_wk
        alpha, beta = params.alpha, params.beta
        if tally.H is not None and isinstance(self.alpha, str):
            n = np.flatnonzero(params.lengths)
            alpha = sampler.dirichlet_fixed_point(alpha, tally.H.tocoo(), n, params.lengths[n])  # eq. 4
        if self._learns(t) and self.beta == "auto":
            beta = sampler.symmetric_fixed_point(beta, n_wk.data, n_k, V)
        params = Params(t, alpha, beta, params.lengths, n_k, n_wk, params.phi, params.smooth, params.kept)
        return _with_sample(params) if self._keeps(t) else params

    def objective(self, tally: Tally, before: Params, after: Params) -> float:
        words, V, beta = tally.words, after.n_wk.shape[0], before.beta
        if words is None:
            words = float(np.sum(gammaln(after.n_wk.data + beta) - gammaln(beta)))
        n, A = np.flatnonzero(before.lengths), before.alpha.sum()
        topics = np.sum(gammaln(after.n_k + V * beta) - gammaln(V * beta))
        lengths = np.sum(before.lengths[n] * (gammaln(n + A) - gammaln(A)))
        return float(words + tally.documents - topics - lengths)  # eq. 2

    def _growth(self, t: int, n_documents: int) -> tuple[float, int]:
        """Share of the documents that iteration t sweeps over, and how often: three iterations for each doubling."""
        stages = 0
        if self._start == "growing":
            stages = int(np.clip(np.log2(max(n_documents / FEWEST, 1.0)), 0, GROWTH))
        left = max(stages - (t - 1) // 3, 0)
        return 0.5**left, 2**left

    def _learns(self, t: int) -> bool:
        learns = self._start != "enter" and (isinstance(self.alpha, str) or self.beta == "auto")
        return learns and LEARN_FROM <= t <= self.burn_in and t % LEARN_EVERY == 0

    def _keeps(self, t: int) -> bool:
        return t > self.burn_in and (t - self.burn_in) % self.thin == 0

    def _finish(self, state: State, shards: list[Tokens]) -> Params:
        """The params with the counts of the last sweep, which also stand in for kept samples where there are none."""
        params = state.params
        if len(shards) == 1:
            params = params._replace(n_wk=sampler.word_counts(shards[0], state.latents[0], self.n_topics))
        return params if params.kept else _with_sample(params)

    def _document_counts(self, state: State, shards: list[Tokens]) -> sp.csr_array:
        """Mean n_dk over the kept sweeps, documents in the order of the data."""
        parts = [
            sampler.document_counts(s, z, self.n_topics).astype(float) if z.kept is None else z.kept / state.params.kept
            for s, z in zip(shards, state.latents, strict=True)
        ]
        back = np.argsort(np.concatenate([s.rows for s in shards]))
        return sp.csr_array(sp.vstack(parts, format="csr")[back])


def _with_sample(params: Params) -> Params:
    """Add the current counts to the kept ones (eq. 3)."""
    inverse = 1.0 / (params.n_k + params.n_wk.shape[0] * params.beta)
    phi = sp.csr_array(
        (params.n_wk.data * inverse[params.n_wk.indices], params.n_wk.indices, params.n_wk.indptr), shape=params.n_wk.shape
    )
    phi = phi if params.phi is None else params.phi + phi
    return params._replace(phi=phi, smooth=params.smooth + params.beta * inverse, kept=params.kept + 1)


def _chain_paths(run: dict[str, Any], chain: int) -> dict[str, Any]:
    """Each further chain has a checkpoint of its own beside the first; one that was not reached yet starts anew."""
    if chain == 0:
        return run
    paths: dict[str, Any] = {key: f"{run[key]}.{chain}" for key in ("checkpoint", "resume") if run.get(key) is not None}
    if "resume" in paths and not Path(paths["resume"]).exists():
        paths["resume"] = None
    return {**run, **paths}
