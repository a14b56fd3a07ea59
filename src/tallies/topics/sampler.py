"""What stands between the LDA model and its kernels: buffers, threads, counts in and out of the packed lists."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import digamma

from tallies.kernels.lanes import LANES
from tallies.topics.kernels import lists as topics
from tallies.topics.kernels import sampling as lda
from tallies.topics.tokens import Tokens

SMALL = 256  # topic counts of a document below this are counted in a dense table, the few larger ones are listed


class Latents(NamedTuple):
    """Topics of the tokens of a shard and the counts that follow from them, in the sampler's layout."""

    z: np.ndarray  # (N,)  topic of each token, -1: not entered yet
    topics: np.ndarray  # packed document lists
    n_topics: np.ndarray  # (D,)  their lengths
    lists: np.ndarray  # packed word lists
    size: np.ndarray  # (V,)  their lengths
    n_k: np.ndarray  # (K,)  tokens of each topic
    kept: sp.csr_array | None  # (D, K)  sum of n_dk over the kept sweeps


def empty(shard: Tokens, n_topics: int, base: sp.csr_array) -> Latents:
    """Latents of a shard in which no token has a topic yet and the lists hold the base counts alone."""
    entry, V = type(shard.shift), len(shard.rank)
    latents = Latents(
        z=np.full(len(shard.words), -1, dtype=np.int16 if n_topics < 2**15 else np.int32),
        topics=np.zeros(int(shard.topics_at[-1]), dtype=entry),
        n_topics=np.zeros(len(shard.rows), dtype=np.int32),
        lists=np.zeros(shard.room, dtype=entry),
        size=np.zeros(V, dtype=np.int32),
        n_k=np.asarray(base.sum(axis=0), dtype=np.int64).ravel(),
        kept=None,
    )
    restore(shard, latents, base)
    return latents


def restore(shard: Tokens, latents: Latents, n_wk: sp.csr_array) -> None:
    """Fill the word lists from counts (columns x topics)."""
    topics.fill_lists(n_wk.indptr, n_wk.indices, n_wk.data, shard.rank, latents.lists, shard.at, latents.size, shard.shift)


def active(shard: Tokens, share: float) -> np.ndarray:
    """Where each document block ends when only the first `share` of its documents take part."""
    return shard.blocks[:-1] + np.ceil(np.diff(shard.blocks) * min(max(share, 0.0), 1.0)).astype(np.int64)


def scatter(shard: Tokens, latents: Latents, n_topics: int, rng: np.random.Generator, share: float = 1.0) -> None:
    """Give every token of the first `share` of each document block a topic at random."""
    latents.z[:] = -1
    for first, stop in zip(shard.blocks, active(shard, share), strict=False):
        if first < stop:
            part = latents.z[shard.cuts[0, first] : shard.cuts[-1, stop - 1]]
            part[:] = rng.integers(n_topics, size=len(part))
    topics.add_tokens(
        shard.words, latents.z, shard.cuts[0], shard.cuts[-1], latents.topics, shard.topics_at, latents.n_topics,
        latents.lists, shard.at, latents.size, latents.n_k, shard.shift,
    )  # fmt: skip


def sweeps(
    shard: Tokens,
    latents: Latents,
    alpha: np.ndarray,
    beta: float,
    seed: int,
    n_sweeps: int = 1,
    share: float = 1.0,
    threads: int = 1,
    real: Any = np.float32,
) -> None:
    """Resample every token of the first `share` of each document block, n_sweeps times, in place.

    The workers meet at the end of every round, so each needs a thread of its own: a shared pool could leave one waiting
    for another that never starts.
    """
    K, V, P = len(alpha), len(shard.rank), len(shard.blocks) - 1
    threads = min(threads, P)
    stops = active(shard, share)
    private, signals = np.zeros((P, K), dtype=np.int64), np.zeros(8, dtype=np.int64)
    weights: np.ndarray = alpha.astype(real)

    def work() -> None:
        f, without, inverse = np.zeros(1 << int(shard.shift), real), np.empty(K, real), np.empty(K, real)
        sums, touched = np.empty(K + LANES, real), np.empty(2 * shard.longest + 1, np.int32)
        lda.rotate(
            shard.words, latents.z, shard.cuts, shard.blocks, stops, latents.topics, shard.topics_at, latents.n_topics,
            latents.lists, shard.at, latents.size, latents.n_k, private, weights, beta, V * beta, shard.shift,
            f, without, inverse, np.zeros(K, np.int32), sums, touched, np.uint64(seed), n_sweeps, crew, signals,
        )  # fmt: skip

    def wait_and_work() -> None:
        gate.wait()
        work()

    gate, others = threading.Event(), []
    for _ in range(1, threads):
        thread = threading.Thread(target=wait_and_work, name="tallies-lda")
        try:
            thread.start()
        except RuntimeError:  # no more threads to be had: fewer do the same work
            break
        others.append(thread)
    crew = 1 + len(others)  # all who will meet; known before anyone begins
    gate.set()
    work()
    for thread in others:
        thread.join()


def word_counts(shard: Tokens, latents: Latents, n_topics: int) -> sp.csr_array:
    """n_wk (columns x topics) of the word lists."""
    n, V = int(latents.size.sum()), len(shard.rank)
    indptr, indices, data = np.zeros(V + 1, np.int64), np.empty(n, np.int32), np.empty(n, np.int64)
    topics.read_lists(shard.rank, latents.lists, shard.at, latents.size, shard.shift, indptr, indices, data)
    matrix = sp.csr_array((data, indices, indptr.astype(np.int32) if n < 2**31 else indptr), shape=(V, n_topics))
    matrix.sort_indices()
    return matrix


def document_counts(shard: Tokens, latents: Latents, n_topics: int) -> sp.csr_array:
    """n_dk (documents of the shard x topics) of the document lists."""
    indptr = np.concatenate([[0], np.cumsum(latents.n_topics)])
    entries = latents.topics[np.repeat(shard.topics_at[:-1] - indptr[:-1], latents.n_topics) + np.arange(indptr[-1])]
    mask = (1 << int(shard.shift)) - 1
    return sp.csr_array((entries >> shard.shift, entries & mask, indptr), shape=(len(shard.rows), n_topics))


def histogram(shard: Tokens, latents: Latents, n_topics: int) -> sp.csr_array:
    """H[k, n]: in how many documents topic k has n > 0 tokens."""
    small = np.zeros((n_topics, min(SMALL, shard.longest + 1)), dtype=np.int64)
    large = np.empty(len(shard.words) // SMALL + 1, dtype=latents.topics.dtype)
    n_large = topics.document_histogram(latents.topics, shard.topics_at, latents.n_topics, shard.shift, small, large)
    k, n = np.nonzero(small)
    entries = large[:n_large]
    rows = np.concatenate([k, entries & ((1 << int(shard.shift)) - 1)])
    columns = np.concatenate([n, entries >> shard.shift])
    values = np.concatenate([small[k, n], np.ones(n_large, dtype=np.int64)])
    return sp.csr_array((values, (rows, columns)), shape=(n_topics, shard.longest + 1))


def dirichlet_fixed_point(
    alpha: np.ndarray, H: sp.coo_array, lengths: np.ndarray, counts: np.ndarray, n_steps: int = 100
) -> np.ndarray:
    """Minka's fixed point for an asymmetric Dirichlet from how often topic k has n tokens and how often a length occurs.

    The floor keeps a topic without tokens possible.
    """
    for _ in range(n_steps):
        total = alpha.sum()
        top = np.bincount(H.row, weights=H.data * (digamma(H.col + alpha[H.row]) - digamma(alpha[H.row])), minlength=len(alpha))
        new = np.maximum(alpha * top / np.sum(counts * (digamma(lengths + total) - digamma(total))), 1e-5)
        done = np.max(np.abs(new - alpha) / alpha) < 1e-4
        alpha = new
        if done:
            break
    return alpha


def symmetric_fixed_point(beta: float, n_wk: np.ndarray, n_k: np.ndarray, n_words: int, n_steps: int = 100) -> float:
    """The same for the symmetric prior of the topics, from the counts that are not zero."""
    n, times = np.unique(n_wk, return_counts=True)
    for _ in range(n_steps):
        top = np.sum(times * (digamma(n + beta) - digamma(beta)))
        below = n_words * np.sum(digamma(n_k + n_words * beta) - digamma(n_words * beta))
        new = max(beta * top / below, 1e-6)
        done, beta = abs(new - beta) < 1e-4 * beta, float(new)
        if done:
            break
    return beta
