"""What stands between the LDA model and its kernels: buffers, threads, counts in and out of the packed lists."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import digamma, gammaln

from tallies.engine import Dropped, stopping
from tallies.errors import FileError
from tallies.forms import Form
from tallies.maths import pointer
from tallies.topics.kernels import lists, sampling
from tallies.topics.kernels.sampling import Counts, Task
from tallies.topics.tokens import Tokens

Array = np.ndarray
SMALL = 256  # topic counts below this are counted in a dense table, the few larger ones are listed
PIECE = 1_000_000  # tokens that are sampled between two looks at whether to stop
FEW = 100_000  # tokens below which NumPy counts while a compiler would still begin


class Latents(NamedTuple):
    """What a shard keeps between sweeps."""

    counts: Counts  # topics of its tokens, in the sampler's layout
    kept: Annotated[sp.csr_array, Form("D K", "i", 0)] | None  # sum of n_dk over the kept sweeps
    begun: Annotated[Array, Form("1", "i", 0)]  # rounds of the next sweep that are done: it was dropped between two of them


def none(shard: Tokens, n_topics: int) -> Counts:
    """Counts of a shard in which no token has a topic yet, without word lists."""
    entry = type(shard.layout.shift)
    return Counts(
        z=np.full(len(shard.layout.words), -1, dtype=np.int16 if n_topics < 2**15 else np.int32),
        topics=np.zeros(int(shard.layout.topics_at[-1]), dtype=entry),
        n_topics=np.zeros(len(shard.rows), dtype=np.int32),
        lists=np.zeros(0, dtype=entry),
        size=np.zeros(0, dtype=np.int32),
        n_k=np.zeros(n_topics, dtype=np.int64),
    )


def empty(shard: Tokens, n_topics: int, base: sp.csr_array) -> Counts:
    """Counts of a shard in which no token has a topic yet and the lists hold the base counts alone."""
    return with_lists(shard, none(shard, n_topics), base, np.asarray(base.sum(axis=0), dtype=np.int64))


def with_lists(shard: Tokens, counts: Counts, n_wk: sp.csr_array, n_k: Array) -> Counts:
    """The counts with new word lists, which hold n_wk (columns x topics), and these topic totals."""
    layout = shard.layout
    lists_, size = np.empty(shard.room, dtype=type(layout.shift)), np.empty(len(shard.rank), dtype=np.int32)
    if len(counts.z) < FEW:
        at, n = layout.at[shard.rank], np.diff(n_wk.indptr)
        lists_[:] = (1 << layout.shift) - 1  # padding: no token of a topic that does not exist
        lists_[_places(at, n)] = n_wk.data << layout.shift | n_wk.indices
        size[shard.rank] = n
    else:
        lists.fill_lists(n_wk.indptr, n_wk.indices, n_wk.data, shard.rank, layout.at, layout.shift, lists_, size)
    return counts._replace(lists=lists_, size=size, n_k=n_k.copy())


def changes(shard: Tokens, counts: Counts, n_wk: sp.csr_array) -> sp.csr_array:
    """What the word lists hold beyond n_wk (columns x topics)."""
    if len(counts.z) < FEW:
        return word_counts(shard, counts) - n_wk
    most, K = n_wk.nnz + int(counts.size.sum()), len(counts.n_k)
    ends = np.empty(len(shard.rank) + 1, dtype=np.int32 if most < 2**31 else np.int64)
    topics, values, change = np.empty(most, dtype=np.int32), np.empty(most, dtype=counts.lists.dtype), np.zeros(K, dtype=np.int64)
    shown = shard.rank, shard.layout.at, shard.layout.shift, counts.lists, counts.size
    n = lists.list_changes(n_wk.indptr, n_wk.indices, n_wk.data, *shown, change, ends, topics, values)
    return sp.csr_array((values[:n].copy(), topics[:n].copy(), ends), shape=(len(shard.rank), K))


def _places(at: Array, size: Array) -> Array:
    """The places at[i] to at[i] + size[i] of all lists, one after another."""
    ends = np.cumsum(size)
    return np.repeat(at - (ends - size), size) + np.arange(ends[-1])


def _unpack(packed: Array, at: Array, size: Array, shift: Any, n_topics: int) -> sp.csr_array:
    """The counts (lists x topics) that packed lists hold."""
    entries, mask = packed[_places(at, size)], (1 << int(shift)) - 1
    indptr = pointer(size).astype(np.int64 if len(entries) >= 2**31 else np.int32)  # its type is that of the columns, too
    return sp.csr_array((entries >> shift, (entries & mask).astype(np.int32), indptr), shape=(len(size), n_topics))


def active(shard: Tokens, share: float) -> Array:
    """Where each document block ends when only the first `share` of its documents take part."""
    blocks = shard.layout.blocks
    return blocks[:-1] + np.ceil(np.diff(blocks) * min(max(share, 0.0), 1.0)).astype(np.int64)


def scatter(shard: Tokens, counts: Counts, rng: np.random.Generator, share: float = 1.0) -> None:
    """Give every token of the first `share` of each document block a topic at random."""
    layout = shard.layout
    for first, stop in zip(layout.blocks, active(shard, share), strict=False):
        if first < stop:
            part = counts.z[layout.cuts[0, first] : layout.cuts[-1, stop - 1]]
            part[:] = rng.integers(len(counts.n_k), size=len(part))
    entered = counts.z >= 0
    z, documents = counts.z[entered], np.repeat(np.arange(len(shard.rows)), shard.lengths)
    counts.n_k[:] += np.bincount(z, minlength=len(counts.n_k))
    _enter(counts.topics, layout.topics_at[:-1], counts.n_topics, documents[entered], z, layout.shift)
    _enter(counts.lists, layout.at, counts.size, layout.words[entered], z, layout.shift)


def _enter(packed: Array, at: Array, size: Array, owners: Array, z: Array, shift: Any) -> None:
    """Add a token of topic z to the list of each owner; new topics come last, in the order of the tokens."""
    before = packed[_places(at, size)]
    owners = np.concatenate([np.repeat(np.arange(len(size)), size), owners])
    topics = np.concatenate([before & ((1 << int(shift)) - 1), z]).astype(np.int64)
    n = np.concatenate([before >> shift, np.ones(len(z), dtype=before.dtype)])
    _, first, which = np.unique(owners << int(shift) | topics, return_index=True, return_inverse=True)
    order = np.lexsort((first, owners[first]))
    size[:] = np.bincount(owners[first], minlength=len(size))
    packed[_places(at, size)] = (np.bincount(which, weights=n).astype(np.int64) << int(shift) | topics[first])[order]


def sweeps(
    shard: Tokens,
    counts: Counts,
    prior: tuple[Any, float],
    seed: int,
    n_sweeps: int = 1,
    share: float = 1.0,
    threads: int = 1,
    begun: Array | None = None,
) -> None:
    """Resample every token of the first `share` of each document block, n_sweeps times, in place.

    `prior` is (alpha, beta); the precision of alpha is that of the weights. With `begun`, the rounds already done, it may be left
    between two rounds by `Dropped`, and a call with the same arguments goes on to the same bits.
    """
    P, first = len(shard.layout.blocks) - 1, 0 if begun is None else int(begun[0])
    rounds = P * n_sweeps
    each = min(max(share, 0.0), 1.0) * len(counts.z) / P  # tokens of a round
    at_once = max(1, int(PIECE / max(each, 1.0))) if begun is not None else rounds
    stops = active(shard, share)
    for r in range(first, rounds, at_once):
        if begun is not None and r > first and stopping():
            begun[0] = r
            raise Dropped
        _rounds(shard, counts, prior, seed, range(r, min(r + at_once, rounds)), stops, threads)
    if begun is not None:
        begun[0] = 0


def _rounds(shard: Tokens, counts: Counts, prior: tuple[Any, float], seed: int, rounds: range, stops: Array, threads: int) -> None:
    """Some rounds of sweeps.

    The workers meet at the end of every round, so each needs a thread of its own: a shared pool could leave one waiting
    for another that never starts.
    """
    (alpha, beta), K, P = prior, len(counts.n_k), len(shard.layout.blocks) - 1
    private, signals = np.zeros((P, K), dtype=np.int64), np.zeros(8, dtype=np.int64)

    def work() -> None:
        gate.wait()
        sampling.rotate(shard.layout, counts, task)

    gate, others = threading.Event(), []
    for _ in range(1, min(threads, P)):
        thread = threading.Thread(target=work, name="tallies-lda")
        try:
            thread.start()
        except RuntimeError:  # no more threads to be had: fewer do the same work
            break
        others.append(thread)
    # all who will meet are known before anyone begins
    n_threads = 1 + len(others)
    task = Task(alpha, beta, np.uint64(seed), rounds.start, rounds.stop, shard.longest, stops, private, signals, n_threads)
    if P == 1:  # of a small corpus: nobody is to be met, and a compiler has a second less to do
        return sampling.rotate_alone(shard.layout, counts, task)
    gate.set()
    sampling.rotate(shard.layout, counts, task)
    for thread in others:
        thread.join()


def word_counts(shard: Tokens, counts: Counts) -> sp.csr_array:
    """n_wk (columns x topics) of the word lists."""
    at, size = shard.layout.at[shard.rank], counts.size[shard.rank]
    matrix = _unpack(counts.lists, at, size, shard.layout.shift, len(counts.n_k)).astype(np.int64)
    matrix.sort_indices()
    return matrix


def document_counts(shard: Tokens, counts: Counts) -> sp.csr_array:
    """n_dk (documents of the shard x topics) of the document lists."""
    return _unpack(counts.topics, shard.layout.topics_at[:-1], counts.n_topics, shard.layout.shift, len(counts.n_k))


def tokens(shard: Tokens, counts: Counts, n_topics: int) -> sp.csr_array:
    """n_wk (columns x topics) of the tokens alone, after checking that all the lists of a checkpoint are such as a sweep leaves."""
    layout, size, like = shard.layout, counts.size, none(shard, n_topics)
    if shard.alone:
        like = empty(shard, n_topics, sp.csr_array((len(shard.rank), n_topics), dtype=np.int64))
    if any((a.shape, a.dtype) != (b.shape, b.dtype) for a, b in zip(counts, like, strict=True)):
        raise FileError("the checkpoint is damaged: its topics are not of these tokens; start a new fit")
    entered, columns = counts.z >= 0, np.argsort(shard.rank)[layout.words]
    z, documents = counts.z[entered], np.repeat(np.arange(len(shard.rows)), shard.lengths)
    one = np.ones(len(z), dtype=np.int64)
    n_dk = sp.csr_array((one, (documents[entered], z)), shape=(len(shard.rows), n_topics))
    fits: Any = (counts.n_topics <= np.diff(layout.topics_at)).all() and same(document_counts(shard, counts), n_dk)
    fits = fits and (not shard.alone or (size <= np.diff(layout.at, append=shard.room)).all())
    n_k = np.bincount(z, minlength=n_topics)
    if fits and shard.alone:
        padding, n_wk = np.ones(shard.room, dtype=bool), word_counts(shard, counts)
        padding[_places(layout.at, size)] = False
        fits = (counts.lists[padding] == (1 << layout.shift) - 1).all() and n_wk.indices.max(initial=0) < n_topics
        n_k = n_wk.sum(axis=0) if fits else n_k  # SciPy looks at no index: it would write beyond the sums
    if not fits or not np.array_equal(n_k, counts.n_k):
        raise FileError("the checkpoint is damaged: its lists are not those of its tokens; start a new fit")
    return sp.csr_array((one, (columns[entered], z)), shape=(len(shard.rank), n_topics))


def same(a: sp.csr_array, b: sp.csr_array) -> bool:
    """Whether two matrices have the same entries, each once; the columns of the first may be anything."""
    a.sort_indices()
    b.sort_indices()
    pairs = (a.indptr, b.indptr), (a.indices, b.indices), (a.data, b.data)
    return a.shape == b.shape and all(np.array_equal(*pair) for pair in pairs)


def histogram(shard: Tokens, counts: Counts) -> sp.csr_array:
    """H[k, n]: in how many documents topic k has n > 0 tokens."""
    k, n, times = _histogram(counts.topics, shard.layout.topics_at[:-1], counts.n_topics, shard.layout.shift, counts)
    return sp.csr_array((times, (k, n)), shape=(len(counts.n_k), shard.longest + 1))


def word_term(shard: Tokens, counts: Counts, beta: float) -> float:
    """sum over words and topics of log Gamma(n + beta) - log Gamma(beta)."""
    _, n, times = _histogram(counts.lists, shard.layout.at, counts.size, shard.layout.shift, counts)
    return float(np.sum(times * (gammaln(n + beta) - gammaln(beta))))


def _histogram(packed: Array, at: Array, size: Array, shift: Any, counts: Counts) -> tuple[Array, Array, Array]:
    """Topics k, numbers n > 0 of tokens, and how many lists have so many of the topic."""
    if len(counts.z) < FEW:
        entries, times = np.unique(packed[_places(at, size)], return_counts=True)
    else:
        small = np.zeros((len(counts.n_k), SMALL), dtype=np.int64)
        large = np.empty(int(counts.n_k.sum()) // SMALL + 1, dtype=packed.dtype)
        n_large = lists.list_histogram(packed, at, size, shift, small, large)
        k, n = np.nonzero(small)
        entries = np.concatenate([n.astype(np.int64) << int(shift) | k, large[:n_large]])
        times = np.concatenate([small[k, n], np.ones(n_large, dtype=np.int64)])
    return entries & ((1 << int(shift)) - 1), entries >> int(shift), times


def dirichlet_fixed_point(alpha: Array, H: sp.coo_array, lengths: Array, counts: Array, n_steps: int = 100) -> Array:
    """Minka's fixed point for an asymmetric Dirichlet from how often topic k has n tokens and how often a length occurs.

    The floor keeps a topic without tokens possible.
    """

    def step(alpha: Array) -> Array:
        own, total = alpha[H.row], alpha.sum()
        top = np.bincount(H.row, weights=H.data * (digamma(H.col + own) - digamma(own)), minlength=len(alpha))
        return np.maximum(alpha * top / np.sum(counts * (digamma(lengths + total) - digamma(total))), 1e-5)

    return _repeat(step, alpha, n_steps)


def symmetric_fixed_point(beta: float, n_wk: Array, n_k: Array, n_words: int) -> float:
    """The same for the symmetric prior of the topics, from the counts that are not zero."""
    n, times = np.unique(n_wk, return_counts=True)

    def step(beta: float) -> float:
        below = n_words * np.sum(digamma(n_k + n_words * beta) - digamma(n_words * beta))
        return max(beta * np.sum(times * (digamma(n + beta) - digamma(beta))) / below, 1e-6)

    return float(_repeat(step, beta, 100))


def _repeat(step: Callable[[Any], Any], value: Any, most: int) -> Any:
    """Steps until the relative change is small."""
    for _ in range(most):
        before, value = value, step(value)
        if np.max(np.abs(value - before) / before) < 1e-4:
            break
    return value
