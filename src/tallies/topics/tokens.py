"""Counts laid out as tokens for the Gibbs sampler of LDA: shuffled documents, word blocks, padded lists."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.errors import DataError
from tallies.kernels.lanes import LANES
from tallies.maths import pointer
from tallies.topics.kernels.sampling import Layout


class Tokens(NamedTuple):
    """A shard of LDA. Documents are in shuffled order; words are numbered block by block, by falling frequency within."""

    layout: Layout  # where its tokens and lists are
    rows: np.ndarray  # (D,)  row of each document in the data
    rank: np.ndarray  # (V,)  number of each column among the words
    room: int  # entries in all word lists
    longest: int  # tokens of the longest document of all shards
    first: int  # documents in the shards before this one
    total: int  # documents in all shards
    alone: bool  # whether there is no other shard

    @property
    def lengths(self) -> np.ndarray:
        """(D,) tokens of each document."""
        return self.layout.cuts[-1] - self.layout.cuts[0]


def block_count(n_tokens: int, n_words: int, n_documents: int) -> int:
    """P of the P x P rotation, which belongs to the data alone: one below 200,000 tokens, where a sweep takes milliseconds.

    A document is opened once for each block, which short ones do not repay: eight blocks only from 64 tokens a cell of a document.
    """
    blocks = 1 if n_tokens < 200_000 else 8 if n_tokens >= max(8_000_000, 8 * 64 * n_documents) else 4
    return max(1, min(blocks, n_words))


def word_blocks(frequency: np.ndarray, n_blocks: int) -> np.ndarray:
    """Block of each word, greedy: the next most frequent word goes to the block with the fewest tokens.

    >>> word_blocks(np.array([5, 4, 3, 2]), 2).tolist()
    [0, 1, 1, 0]
    """
    load = [(0, p) for p in range(n_blocks)]
    block = np.zeros(len(frequency), dtype=np.int64)
    for v in np.argsort(-frequency, kind="stable"):
        tokens, p = heapq.heappop(load)
        block[v] = p
        heapq.heappush(load, (tokens + int(frequency[v]), p))
    return block


class Frame(NamedTuple):
    """What all shards of a corpus share: how its words are numbered, and where their lists are."""

    n_blocks: int  # P
    block: np.ndarray  # (V,)  word block of each word, by its number
    rank: np.ndarray  # (V,)  number of each column among the words
    at: np.ndarray  # (V,)  where the list of a word begins
    room: int  # entries in all word lists
    shift: np.integer  # see `Layout`
    n_topics: int
    longest: int  # tokens of the longest document
    total: int  # documents
    alone: bool  # whether there is but one shard

    def shard(self, Y: sp.csr_array, rows: np.ndarray, first: int) -> Tokens:
        """The shard of some documents, by their counts and their rows in the data; `first` is the number of those before them."""
        D, P = Y.shape[0], self.n_blocks
        Y = sp.csr_array((Y.data, self.rank[Y.indices], Y.indptr), shape=Y.shape)
        Y.sort_indices()
        cell = np.repeat(np.arange(D), np.diff(Y.indptr)) * P + self.block[Y.indices]
        ends = pointer(np.bincount(cell, weights=Y.data, minlength=D * P))
        index = np.int32 if ends[-1] < 2**31 else np.int64
        places = ends[np.arange(P + 1)[:, None] + P * np.arange(D)].astype(index)
        blocks = np.searchsorted(places[0], np.arange(P + 1) * (ends[-1] / P))
        blocks[-1] = D
        words = np.repeat(Y.indices.astype(np.int32, copy=False), Y.data)
        lengths = (places[-1] - places[0]).astype(np.int64)
        topics_at = pointer(np.minimum(lengths, self.n_topics) + 1)
        layout = Layout(words, cuts=places, blocks=blocks.astype(np.int64), at=self.at, topics_at=topics_at, shift=self.shift)
        return Tokens(layout, rows, self.rank, self.room, self.longest, first, self.total, self.alone)


def frame(frequency: np.ndarray, longest: int, n_documents: int, n_shards: int, n_topics: int, base: sp.csr_array) -> Frame:
    """The frame of documents in which words have these frequencies; `base` are counts (words x topics) that lists hold besides."""
    P = block_count(int(frequency.sum()) // n_shards, len(frequency), n_documents // n_shards)
    block = word_blocks(frequency, P)
    order = np.lexsort((-frequency, block))
    # an entry is count << shift | topic: four bytes if the largest count fits, else eight
    largest = int(frequency.max(initial=0)) + (int(base.data.max()) if base.nnz else 0)
    shift = int(n_topics).bit_length()  # one number more than topics, for the padding
    if largest >= 1 << (62 - shift) or base.data.sum(dtype=float) >= 1 << 62:
        raise DataError(f"a word occurs {largest} times, too often to be counted beside {n_topics} topics; scale the counts down")
    entry = np.int32 if largest < 1 << (31 - shift) else np.int64
    # a new topic is entered before the old one leaves, so there may be one topic more than tokens
    room = np.minimum(frequency + np.diff(base.indptr) + 1, n_topics)[order]
    at = pointer(-(-room // LANES) * LANES)
    rank = np.argsort(order).astype(np.int32)
    return Frame(P, block[order], rank, at[:-1], int(at[-1]), entry(shift), n_topics, longest, n_documents, n_shards == 1)


def lay_out(X: sp.csr_array, n_topics: int, base: sp.csr_array, rng: np.random.Generator, cuts: list[slice]) -> list[Tokens]:
    """Shards of the shuffled documents of a count matrix; `base` as in `frame`."""
    n, longest = X.shape[0], int(X.sum(axis=1).max(initial=0))
    common, rows = frame(X.sum(axis=0), longest, n, len(cuts), n_topics, base), rng.permutation(n)
    return [common.shard(X[rows[cut]], rows[cut], cut.start) for cut in cuts]
