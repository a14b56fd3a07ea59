"""Collapsed Gibbs sweeps for LDA on packed word lists, with the rotation of blocks over threads inside compiled code.

A word list holds one entry n << shift | k for every topic k that has n > 0 tokens of the word; a document list the same for the
document. Lists are padded with zeros to a multiple of LANES. z is -1 for a token that has no topic yet.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import njit, types

from tallies.kernels.lanes import LANES, accumulate, atomic_add, atomic_load, count_below, find_topic, lowest_bit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
SPINS = 4000  # looks at the flag before a waiting thread lets others have the processor: about 10 microseconds
_sleep = types.ExternalFunction("Sleep" if sys.platform == "win32" else "usleep", types.int32(types.uint32))
JIT = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}


@njit(**JIT)
def mix(x):
    """Output function of splitmix64: neighbouring counters give unrelated numbers."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(**JIT)
def evaluate(lists, at, size, mask, shift, f, own, f_own, sums):
    """Running sums of the sparse part n_kw * f_k of the conditional over one word list; returns the total."""
    total = f.dtype.type(0)
    for j in range(0, size, LANES):
        total = accumulate(lists, at + j, mask, shift, f, own, f_own, sums, j, total)
    return total


@njit(**JIT)
def smooth_draw(f, own, f_own, rest):
    """Topic drawn from the smooth part: the first whose running sum of f exceeds `rest`."""
    last = 0
    for k in range(len(f)):
        weight = f_own if k == own else f[k]
        if weight > 0:
            last = k
            rest -= weight
            if rest < 0:
                break
    return last


@njit(**JIT)
def seek(lists, at, size, mask, own):
    """Place of a topic in a word list, or -1."""
    for j in range(0, size, LANES):
        bits = find_topic(lists, at + j, mask, own)
        if bits:
            place = j + lowest_bit(bits)
            return place if place < size else -1  # padding looks like topic 0
    return -1


@njit(**JIT)
def sample_cell(words, z, starts, stops, lo, hi, topics, topics_at, n_topics, lists, at, size,
                n_k, alpha, beta, v_beta, shift, f, inverse, n_d, sums, touched, key):
    """Resample the tokens starts[d]:stops[d] of documents lo:hi against word lists that no other thread uses."""
    n_topics_all = len(n_k)
    one = lists.dtype.type(1)
    step = one << shift
    mask = step - one
    smooth = 0.0                                    # sum of f over all topics
    for k in range(n_topics_all):
        inverse[k] = 1.0 / (n_k[k] + v_beta)
        f[k] = alpha[k] * inverse[k]
        smooth += f[k]
    for d in range(lo, hi):
        begin, end = starts[d], stops[d]
        if begin == end:
            continue
        first, n_touched = topics_at[d], n_topics[d]
        for j in range(n_touched):
            entry = topics[first + j]
            k = entry & mask
            touched[j] = k
            n_d[k] = entry >> shift
            before = f[k]
            f[k] = (n_d[k] + alpha[k]) * inverse[k]
            smooth += np.float64(f[k]) - before
        for i in range(begin, end):
            w = words[i]
            own = np.int64(z[i])
            start, length = at[w], np.int64(size[w])
            f_own = f.dtype.type(0)
            s = smooth
            if own >= 0:
                f_own = f.dtype.type((n_d[own] - 1 + alpha[own]) / (n_k[own] - 1 + v_beta))
                s += np.float64(f_own) - f[own]
            sparse = evaluate(lists, start, length, mask, shift, f, lists.dtype.type(own), f_own, sums)
            key += GOLDEN
            u = np.float64(mix(key) >> np.uint64(11)) * 2.0**-53
            target = u * (sparse + beta * s)
            place = -1
            if target < sparse:
                bound = f.dtype.type(target)
                place = 0
                for j in range(0, length, LANES):
                    place += count_below(sums, j, bound)
                place = min(place, length - 1)
                new = np.int64(lists[start + place] & mask)
            else:
                new = smooth_draw(f, own, f_own, (target - sparse) / beta)
            if new == own:
                continue
            if place < 0:
                place = seek(lists, start, length, mask, lists.dtype.type(new))
            if place < 0:
                lists[start + length] = step | new
                length += 1
                size[w] = length
            else:
                lists[start + place] += step
            if own >= 0:
                place = seek(lists, start, length, mask, lists.dtype.type(own))
                left = lists[start + place] - step
                lists[start + place] = left
                if left < step:
                    lists[start + place] = lists[start + length - 1]
                    lists[start + length - 1] = 0
                    size[w] = length - 1
                n_d[own] -= 1
                n_k[own] -= 1
                inverse[own] = 1.0 / (n_k[own] + v_beta)
                f[own] = f_own
            z[i] = new
            if n_d[new] == 0:
                touched[n_touched] = new
                n_touched += 1
            n_d[new] += 1
            n_k[new] += 1
            inverse[new] = 1.0 / (n_k[new] + v_beta)
            before = f[new]
            f[new] = (n_d[new] + alpha[new]) * inverse[new]
            smooth = s + (np.float64(f[new]) - before)
        kept = 0
        for j in range(n_touched):
            k = touched[j]
            if n_d[k] > 0:
                topics[first + kept] = n_d[k] << shift | k
                kept += 1
                n_d[k] = 0
            before = f[k]
            f[k] = alpha[k] * inverse[k]
            smooth += np.float64(f[k]) - before
        n_topics[d] = kept


@njit(**JIT)
def meet(signals, n_threads):
    """True for the last thread to arrive, who must call `release`; the others wait for that and get False."""
    turn = atomic_load(signals, 1)
    if atomic_add(signals, 0, 1) == n_threads - 1:
        return True
    looks = 0
    while atomic_load(signals, 1) == turn:
        looks += 1
        if looks > SPINS:
            _sleep(np.uint32(30 if sys.platform != "win32" else 0))
    return False


@njit(**JIT)
def release(signals):
    """Let the waiting threads go on, with all tickets back in the box."""
    signals[0] = 0
    signals[2] = 0
    atomic_add(signals, 1, 1)


@njit(**JIT)
def rotate(words, z, cuts, blocks, stops, topics, topics_at, n_topics, lists, at, size,
           n_k, private, alpha, beta, v_beta, shift, f, inverse, n_d, sums, touched, seed, n_threads, signals):
    """One sweep by one of n_threads equal workers: in round r document block p works on word block (p + r) mod P.

    A cell starts from the topic totals at the end of the round before and changes only its own rows and columns, so which
    worker takes it, and when, changes nothing.
    """
    n_blocks = len(blocks) - 1
    for r in range(n_blocks):
        while True:
            p = atomic_add(signals, 2, 1)
            if p >= n_blocks:
                break
            q = (p + r) % n_blocks
            private[p] = n_k
            key = mix(np.uint64(seed) + GOLDEN * np.uint64(1 + r * n_blocks + p))
            sample_cell(words, z, cuts[q], cuts[q + 1], blocks[p], stops[p], topics, topics_at, n_topics, lists, at, size,
                        private[p], alpha, beta, v_beta, shift, f, inverse, n_d, sums, touched, key)
        if meet(signals, n_threads):
            for k in range(len(n_k)):
                total = n_k[k]
                change = 0
                for p in range(n_blocks):
                    change += private[p, k] - total
                n_k[k] = total + change
            release(signals)
