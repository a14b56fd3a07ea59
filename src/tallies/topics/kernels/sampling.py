# what numba compiles through intrinsics has no Python types
# mypy: ignore-errors
"""Collapsed Gibbs sweeps for LDA on packed word lists, with the rotation of blocks over threads inside compiled code.

A word list holds one entry n << shift | k for every topic k that has n > 0 tokens of the word; a document list the same for the
document. 1 << shift exceeds the number of topics, and word lists are padded to a multiple of LANES with the entry "no token of
topic (1 << shift) - 1", which no token ever has; f has a place for it. z is -1 for a token that has no topic yet.
"""

from __future__ import annotations

import sys
from typing import Annotated, NamedTuple

import numpy as np
from numba import config, njit, types

from tallies.forms import Form
from tallies.kernels import JIT, lanes, twins

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ALL = 2**64 - 1  # bits of a counter
SPINS = 4000  # looks at the flag before a waiting thread lets others have the processor: about 10 microseconds
WINDOWS = sys.platform == "win32"  # known when kernels are compiled: comparing texts in one is two seconds of compiling
_sleep = twins.pause if config.DISABLE_JIT else types.ExternalFunction("Sleep" if WINDOWS else "usleep", types.int32(types.uint32))
REST = np.uint32(0 if WINDOWS else 30)  # milliseconds, or microseconds
# random numbers are made by products that overflow; NumPy would tell of each
wrapping = np.errstate(over="ignore") if config.DISABLE_JIT else njit(**JIT)


class Layout(NamedTuple):
    """Where the tokens and the lists of a shard are; sampling changes none of it."""

    words: np.ndarray  # (N,) int32  word of each token, rising within a document
    cuts: np.ndarray  # (P+1, D)  where block q of document d begins in `words`
    blocks: np.ndarray  # (P+1,)  where document block p begins
    at: np.ndarray  # (V,)  where the list of a word begins
    topics_at: np.ndarray  # (D+1,)  where the list of a document begins
    shift: np.integer  # bits of a topic in an entry of a list; its type is the type of an entry


class Counts(NamedTuple):
    """Topics of the tokens and the counts that follow from them, which sampling changes."""

    z: Annotated[np.ndarray, Form("N", "i", -1, below="K")]  # topic of each token, -1: not entered yet
    topics: Annotated[np.ndarray, Form("...", "i", 0)]  # packed document lists
    n_topics: Annotated[np.ndarray, Form("D", "i", 0, below="K+1")]  # their lengths
    lists: Annotated[np.ndarray, Form("...", "i", 0)]  # packed word lists
    size: Annotated[np.ndarray, Form("V", "i", 0, below="K+1")]  # their lengths
    n_k: Annotated[np.ndarray, Form("K", "i", 0)]  # tokens of each topic


class Task(NamedTuple):
    """What the workers of a sweep share."""

    alpha: np.ndarray  # (K,)  its precision is that of the weights
    beta: float
    seed: np.uint64
    first: int  # round
    last: int  # and the one before which to end
    longest: int  # tokens of the longest document
    stops: np.ndarray  # (P,)  where the documents of each block end that take part
    private: np.ndarray  # (P, K)  topic totals of each document block
    signals: np.ndarray  # tickets and turns, changed by atomic operations
    n_threads: int


@wrapping
def mix(x):
    """Output function of splitmix64: neighbouring counters give unrelated numbers."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(**JIT)
def evaluate(lists, at, size, mask, shift, f, own, f_own, sums):
    """Running sums of the sparse part n_kw * f_k of the conditional over one word list; returns the total."""
    total = f.dtype.type(0)
    for j in range(0, size, lanes.LANES):
        total = lanes.accumulate(lists, at + j, mask, shift, f, own, f_own, sums, j, total)
    return total


@njit(**JIT)
def smooth_draw(f, K, own, f_own, rest):
    """Topic drawn from the smooth part: the first whose running sum of f, own topic patched, exceeds `rest`."""
    k = 0
    while k + lanes.LANES < K:
        block = 0.0
        for j in range(lanes.LANES):
            block += f[k + j]
        if k <= own < k + lanes.LANES:
            block += f_own - f[own]
        if rest < block:
            break
        rest -= block
        k += lanes.LANES
    last = 0
    for j in range(k, K):
        weight = f_own if j == own else f[j]
        if weight > 0:
            last = j
            rest -= weight
            if rest < 0:
                break
    return last


@njit(**JIT)
def seek(lists, at, size, mask, own):
    """Place of a topic in a word list, or -1."""
    for j in range(0, size, lanes.LANES):
        bits = lanes.find_topic(lists, at + j, mask, own)
        if bits:
            return j + lanes.lowest_bit(bits)
    return -1


def mixed(x: int) -> np.uint64:
    """`mix`, in Python."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & ALL
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & ALL
    return np.uint64(x ^ (x >> 31))


@wrapping
def sample_cell(layout, counts, task, n_k, q, lo, hi, key):
    """Resample word block q of documents lo:hi against word lists that no other thread uses, with topic totals n_k of its own."""
    words, _, _, at, topics_at, shift = layout
    starts, stops = layout.cuts[q], layout.cuts[q + 1]
    z, topics, n_topics, lists, size, _ = counts
    alpha, beta, v_beta = task.alpha, task.beta, len(size) * task.beta
    K, real, entry_type, n_tokens = len(n_k), alpha.dtype.type, lists.dtype.type, len(words)
    f = np.empty(1 << shift, alpha.dtype)  # weights of the topics in the document at hand
    without, inverse = np.empty(K, alpha.dtype), np.empty(K, alpha.dtype)  # 1 / (n_k - 1 + V beta) and 1 / (n_k + V beta)
    sums = np.empty(K + lanes.LANES, alpha.dtype)  # running sums of a long word list
    n_d = np.empty(K, np.int32)  # tokens of each topic in the document at hand
    touched = np.empty(2 * task.longest + 1, np.int32)  # topics that it has or had
    one = entry_type(1)
    step = one << shift
    mask = step - one
    ground = 0.0  # sum of f over all topics of a document without tokens
    for k in range(K, len(f)):
        f[k] = 0
    for k in range(K):
        n_d[k] = 0
        inverse[k] = 1.0 / (n_k[k] + v_beta)
        without[k] = 1.0 / (n_k[k] - 1 + v_beta)
        f[k] = alpha[k] * inverse[k]
        ground += np.float64(alpha[k]) * inverse[k]
    for d in range(lo, hi):
        begin, end = starts[d], stops[d]
        if begin == end:
            continue
        first, n_touched = np.int64(topics_at[d]), np.int64(n_topics[d])
        later = min(d + 3, hi - 1)  # both cache lines of what it will read first
        lanes.prefetch(topics, (topics_at[later],))
        lanes.prefetch(topics, (min(topics_at[later] + 15, len(topics) - 1),))
        if starts[later] < n_tokens:
            lanes.prefetch(words, (starts[later],))
            lanes.prefetch(words, (min(starts[later] + 15, n_tokens - 1),))
            lanes.prefetch(z, (starts[later],))
        extra = 0.0  # what the tokens of the document add to the sum
        for j in range(n_touched):
            entry = topics[np.uintp(first + j)]
            k = np.uintp(entry & mask)
            n = entry >> shift
            touched[j] = k
            n_d[k] = n
            f[k] = (real(n) + alpha[k]) * inverse[k]
            extra += n * np.float64(inverse[k])
        w_next = np.uintp(words[np.uintp(begin)])
        z_next = z[np.uintp(begin)]
        start_next = np.int64(at[w_next])
        for i in range(begin, end):
            w, z_i, start = w_next, z_next, start_next
            own = np.uintp(z_i)
            length = np.int64(size[w])
            following = np.uintp(min(i + 1, end - 1))
            w_next = np.uintp(words[following])
            z_next = z[following]
            start_next = np.int64(at[w_next])
            ahead = at[np.uintp(words[np.uintp(min(i + 2, n_tokens - 1))])]
            lanes.prefetch(lists, (ahead,))  # sixteen entries, which begin within a cache line, are on two
            lanes.prefetch(lists, (ahead + lanes.LANES - 1,))
            key += GOLDEN
            u = real(mix(key) >> np.uint64(40)) * real(2.0**-24)
            f_own = real(0)
            s = ground + extra
            if z_i >= 0:
                f_own = (real(n_d[own] - 1) + alpha[own]) * without[own]
                s += np.float64(f_own) - f[own]
            u_rest = u * real(beta * s)
            mine = entry_type(z_i)
            if length <= lanes.LANES:
                sparse, target, place, bits = lanes.draw_16(lists, start, mask, shift, f, mine, f_own, u, u_rest)
            elif length <= 2 * lanes.LANES:
                sparse, target, place, bits = lanes.draw_32(lists, start, mask, shift, f, mine, f_own, u, u_rest)
            elif length <= 3 * lanes.LANES:
                sparse, target, place, bits = lanes.draw_48(lists, start, mask, shift, f, mine, f_own, u, u_rest)
            else:
                bits, place = np.int64(0), 0
                sparse = evaluate(lists, start, length, mask, shift, f, mine, f_own, sums)
                target = u * sparse + u_rest
                for j in range(0, length, lanes.LANES):
                    place += lanes.count_below(sums, j, target)
            if target < sparse:
                place = min(place, length - 1)
                if (bits >> place) & 1:  # the own topic: known without a look into the list
                    continue
                new = np.uintp(lists[np.uintp(start + place)] & mask)
                if new == own:
                    continue
                lists[np.uintp(start + place)] += step
            else:
                new = np.uintp(smooth_draw(f, K, np.int64(z_i), f_own, (target - sparse) / beta))
                if new == own:
                    continue
                place = seek(lists, start, length, mask, entry_type(new))
                if place < 0:
                    lists[np.uintp(start + length)] = step | entry_type(new)
                    length += 1
                    size[w] = length
                else:
                    lists[np.uintp(start + place)] += step
            if z_i >= 0:
                if bits:
                    here = np.uintp(start + lanes.lowest_bit(bits))
                else:
                    here = np.uintp(start + seek(lists, start, length, mask, entry_type(own)))
                last = np.uintp(start + length - 1)
                left = lists[here] - step
                gone = left < step  # the last token of the topic: the last entry takes its place
                lists[here] = lists[last] if gone else left
                lists[last] = mask if gone else lists[last]
                size[w] = length - gone
                before = np.float64(inverse[own])
                n, total = n_d[own] - 1, n_k[own] - 1
                n_d[own], n_k[own] = n, total
                inverse[own] = without[own]
                without[own] = 1.0 / (total - 1 + v_beta)
                ground += alpha[own] * (inverse[own] - before)
                extra += n * np.float64(inverse[own]) - (n + 1) * before
                f[own] = f_own
            z[np.uintp(i)] = new
            n, total = n_d[new] + 1, n_k[new] + 1
            touched[np.uintp(n_touched)] = new
            n_touched += n == 1
            before = np.float64(inverse[new])
            n_d[new], n_k[new] = n, total
            without[new] = inverse[new]
            inverse[new] = 1.0 / (total + v_beta)
            ground += alpha[new] * (inverse[new] - before)
            extra += n * np.float64(inverse[new]) - (n - 1) * before
            f[new] = (real(n) + alpha[new]) * inverse[new]
        kept = 0
        for j in range(n_touched):
            k = np.uintp(touched[j])
            n = n_d[k]
            topics[np.uintp(first + kept)] = n << shift | touched[j]
            kept += n > 0
            n_d[k] = 0
            f[k] = alpha[k] * inverse[k]
        n_topics[d] = kept


@njit(**JIT)
def meet(signals, n_threads):
    """True for the last thread to arrive, who must say when to go on; the others wait for that and get False."""
    turn = lanes.atomic_load(signals, 1)
    if lanes.atomic_add(signals, 0, 1) == n_threads - 1:
        return True
    looks = 0
    while lanes.atomic_load(signals, 1) == turn:
        looks += 1
        if looks > SPINS:
            _sleep(REST)
    return False


@wrapping
def rotate(layout, counts, task):
    """Sweeps by one of several equal workers: in round r document block p works on word block (p + r) mod P.

    A cell starts from the topic totals at the end of the round before and changes only its own rows and columns, so which
    worker takes it, and when, changes nothing.
    """
    blocks, n_k, private, signals = layout.blocks, counts.n_k, task.private, task.signals
    n_blocks = len(blocks) - 1
    for r in range(task.first, task.last):
        while True:
            p = lanes.atomic_add(signals, 2, 1)
            if p >= n_blocks:
                break
            for k in range(len(n_k)):
                private[p, k] = n_k[k]
            key = mix(np.uint64(task.seed) + GOLDEN * np.uint64(1 + r * n_blocks + p))
            sample_cell(layout, counts, task, private[p], (p + r) % n_blocks, blocks[p], task.stops[p], key)
        if meet(signals, task.n_threads):
            for k in range(len(n_k)):  # loops, for sums of arrays bring their error messages, a second of compiling
                before = n_k[k]
                for p in range(n_blocks):
                    n_k[k] += private[p, k] - before
            signals[0] = signals[2] = 0  # all tickets back in the box, and the waiting threads may go on
            lanes.atomic_add(signals, 1, 1)


def rotate_alone(layout, counts, task):
    """What `rotate` does where there is one block."""
    n_k = task.private[0]
    for r in range(task.first, task.last):
        n_k[:] = counts.n_k
        key = mixed((int(task.seed) + int(GOLDEN) * (1 + r)) & ALL)
        sample_cell(layout, counts, task, n_k, 0, int(layout.blocks[0]), int(task.stops[0]), key)
        counts.n_k[:] = n_k
