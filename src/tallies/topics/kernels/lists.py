"""Around the Gibbs sweep of LDA: tokens into packed lists (those of `sampling`), what is read off the lists, and new documents."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tallies.topics.kernels.sampling import GOLDEN, JIT, mix, wrapping


@njit(**JIT)
def add_tokens(layout, counts):
    """Enter the tokens that have a topic into document lists, word lists and totals that hold none of them yet."""
    words, cuts, _, at, topics_at, shift = layout
    z, topics, n_topics, lists, size, n_k = counts
    step, mask = 1 << shift, (1 << shift) - 1
    for d in range(len(n_topics)):
        for i in range(cuts[0, d], cuts[-1, d]):
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
def word_term(layout, counts, beta, table):
    """sum over words and topics of log Gamma(n + beta) - log Gamma(beta); the table serves the frequent small n."""
    lists, at, size, shift = counts.lists, layout.at, counts.size, layout.shift
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
def document_histogram(layout, counts, small, large):
    """small[k, n]: in how many documents topic k has n tokens; larger n go to `large` as n << shift | k. Returns their number."""
    topics, topics_at, n_topics, shift = counts.topics, layout.topics_at, counts.n_topics, layout.shift
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
def weigh(w, n_k, phi, p):
    """p becomes the running sums of n_k phi_wk over topics; returns the total."""
    total = 0.0
    for k in range(len(p)):
        total += n_k[k] * phi[w, k]
        p[k] = total
    return total


@njit(**JIT)
def enter(p, n_k, key):
    """Topic drawn in proportion to the steps of the running sums p, with the random number of `key`, and counted."""
    u = np.float64(mix(key) >> np.uint64(11)) * 2.0**-53
    k = min(np.searchsorted(p, u * p[-1], side="right"), len(p) - 1)
    n_k[k] += 1.0
    return k


@wrapping
def resample(words, z, phi, n_k, p, key):
    """Resample the topics z of some tokens with the topics frozen; n_k counts them, alpha included. Returns the last key."""
    for i in range(len(z)):
        if z[i] >= 0:
            n_k[z[i]] -= 1.0
        weigh(words[i], n_k, phi, p)
        key += GOLDEN
        z[i] = enter(p, n_k, key)
    return key


@wrapping
def left_to_right(words, phi, alpha, n_passes, key, out):
    """out[n] becomes an estimate of p(w_n | w_<n) of one document: the mean over Gibbs passes through the tokens before n."""
    z, n_k, p = np.empty(len(words), np.int64), alpha.copy(), np.empty(len(alpha))
    out[:] = 0.0
    for n in range(len(words)):
        passes = n_passes if n else 1
        for _ in range(passes):
            key = resample(words, z[:n], phi, n_k, p, key)
            out[n] += weigh(words[n], n_k, phi, p) / n_k.sum() / passes
        key += GOLDEN
        z[n] = enter(p, n_k, key)


@njit(**JIT)
def gibbs_mixture(words, phi, alpha, burn_in, n_samples, key, z, theta):
    """Gibbs sampling of one document with the topics frozen: z is the last sample, theta the mean of n_dk + alpha."""
    n_k, p = alpha.copy(), np.empty(len(alpha))
    z[:] = -1  # no topic yet: the first pass enters the tokens
    for t in range(burn_in + n_samples + 1):
        key = resample(words, z, phi, n_k, p, key)
        if t > burn_in:
            theta += n_k / n_samples
