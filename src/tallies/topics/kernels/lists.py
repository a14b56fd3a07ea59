"""Around the Gibbs sweep of LDA: from counts to packed lists and back, and what is read off the lists.

Lists are those of `sampling`; n_wk is a CSR matrix (words x topics) in the column order of the user's data, and
rank[v] is the number of column v in the sampler's order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from tallies.topics.kernels.sampling import GOLDEN, mix

JIT: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}


@njit(**JIT)
def fill_lists(indptr, indices, data, rank, lists, at, size, shift):
    """Replace all word lists by the counts n_wk."""
    lists[:] = (1 << shift) - 1  # padding: no token of a topic that does not exist
    for v in range(len(rank)):
        w = rank[v]
        n = 0
        for j in range(indptr[v], indptr[v + 1]):
            lists[at[w] + n] = (data[j] << shift) | indices[j]
            n += 1
        size[w] = n


@njit(**JIT)
def read_lists(rank, lists, at, size, shift, indptr, indices, data):
    """The counts n_wk of all word lists, into CSR parts of the right length."""
    mask = (1 << shift) - 1
    n = 0
    for v in range(len(rank)):
        w = rank[v]
        for j in range(at[w], at[w] + size[w]):
            indices[n] = lists[j] & mask
            data[n] = lists[j] >> shift
            n += 1
        indptr[v + 1] = n


@njit(**JIT)
def add_tokens(words, z, starts, stops, topics, topics_at, n_topics, lists, at, size, n_k, shift):
    """Enter the tokens that have a topic into document lists, word lists and totals that hold none of them yet."""
    step, mask = 1 << shift, (1 << shift) - 1
    for d in range(len(starts)):
        for i in range(starts[d], stops[d]):
            k = np.int64(z[i])
            if k < 0:
                continue
            n_k[k] += 1
            for side in range(2):
                box, first, n = (lists, at[words[i]], size[words[i]]) if side else (topics, topics_at[d], n_topics[d])
                place = 0
                while place < n and box[first + place] & mask != k:
                    place += 1
                if place == n:
                    box[first + n] = k  # and no token of it yet
                    if side:
                        size[words[i]] += 1
                    else:
                        n_topics[d] += 1
                box[first + place] += step


@njit(**JIT)
def word_term(lists, at, size, shift, beta, table):
    """sum over words and topics of log Gamma(n + beta) - log Gamma(beta); the table serves the frequent small n."""
    none = math.lgamma(beta)
    for n in range(len(table)):
        table[n] = math.lgamma(n + beta) - none
    total = 0.0
    for w in range(len(size)):
        for j in range(at[w], at[w] + size[w]):
            n = lists[j] >> shift
            total += table[n] if n < len(table) else math.lgamma(n + beta) - none
    return total


@njit(**JIT)
def document_histogram(topics, topics_at, n_topics, shift, small, large):
    """small[k, n]: in how many documents topic k has n tokens; larger n go to `large` as n << shift | k. Returns their number."""
    mask = (1 << shift) - 1
    n_large = 0
    for d in range(len(n_topics)):
        for j in range(topics_at[d], topics_at[d] + n_topics[d]):
            n = topics[j] >> shift
            if n < small.shape[1]:
                small[topics[j] & mask, n] += 1
            else:
                large[n_large] = topics[j]
                n_large += 1
    return n_large


@njit(**JIT)
def mixtures(indptr, indices, counts, phi, alpha, n_steps, tol, theta):
    """CVB0 with the topics frozen: theta[d] becomes the expected topic counts of document d, alpha included.

    One word of the document at a time: q_k proportional to (alpha_k + n_dk - q_k) phi_wk, with n_dk = sum of counts times q.
    """
    K = phi.shape[1]
    q = np.empty((np.max(indptr[1:] - indptr[:-1]) if len(indptr) > 1 else 1, K))
    new = np.empty(K)
    for d in range(len(indptr) - 1):
        first, last = indptr[d], indptr[d + 1]
        theta[d] = alpha
        for j in range(first, last):
            total = 0.0
            for k in range(K):
                new[k] = alpha[k] * phi[indices[j], k]
                total += new[k]
            for k in range(K):
                q[j - first, k] = new[k] / total
                theta[d, k] += counts[j] * q[j - first, k]
        for _ in range(n_steps):
            moved = 0.0
            for j in range(first, last):
                total = 0.0
                for k in range(K):
                    new[k] = (theta[d, k] - q[j - first, k]) * phi[indices[j], k]
                    total += new[k]
                for k in range(K):
                    change = new[k] / total - q[j - first, k]
                    q[j - first, k] += change
                    theta[d, k] += counts[j] * change
                    moved += abs(change)
            if moved <= tol * (last - first):
                break


@njit(**JIT)
def draw(p, key):
    """Index drawn in proportion to the steps of the running sums p, with the random number of `key`."""
    u = np.float64(mix(key) >> np.uint64(11)) * 2.0**-53
    return min(np.searchsorted(p, u * p[-1], side="right"), len(p) - 1)


@njit(**JIT)
def left_to_right(words, phi, alpha, n_passes, key, out):
    """out[n] becomes an estimate of p(w_n | w_<n) of one document: the mean over Gibbs passes through the tokens before n."""
    K = phi.shape[1]
    z, n_k, p = np.empty(len(words), np.int64), alpha.copy(), np.empty(K)
    out[:] = 0.0
    for n in range(len(words)):
        for _ in range(n_passes if n else 1):
            for i in range(n):
                n_k[z[i]] -= 1.0
                total = 0.0
                for k in range(K):
                    total += n_k[k] * phi[words[i], k]
                    p[k] = total
                key += GOLDEN
                z[i] = draw(p, key)
                n_k[z[i]] += 1.0
            total = 0.0
            for k in range(K):
                total += n_k[k] * phi[words[n], k]
                p[k] = total
            out[n] += total / n_k.sum() / (n_passes if n else 1)
        key += GOLDEN
        z[n] = draw(p, key)
        n_k[z[n]] += 1.0


@njit(**JIT)
def gibbs_mixture(words, phi, alpha, burn_in, n_samples, key, z, theta):
    """Gibbs sampling of one document with the topics frozen: z is the last sample, theta the mean of n_dk + alpha."""
    K = phi.shape[1]
    n_k, p = alpha.copy(), np.empty(K)
    for t in range(burn_in + n_samples + 1):
        for i in range(len(words)):
            if t > 0:
                n_k[z[i]] -= 1.0
            total = 0.0
            for k in range(K):
                total += n_k[k] * phi[words[i], k]
                p[k] = total
            key += GOLDEN
            z[i] = draw(p, key)
            n_k[z[i]] += 1.0
        if t > burn_in:
            theta += n_k / n_samples
