"""Around the Gibbs sweep of LDA: what is read off the packed lists (those of `sampling`), and new documents."""

from __future__ import annotations

import numpy as np
from numba import njit

from tallies.kernels import JIT
from tallies.topics.kernels.sampling import GOLDEN, mix, wrapping


@njit(**JIT)
def list_histogram(packed, at, size, shift, small, large):
    """small[k, n]: how many lists have n tokens of topic k; larger n go to `large` as n << shift | k. Returns their number."""
    mask = (1 << shift) - 1
    n_large = 0
    for d in range(len(size)):
        for j in range(at[d], at[d] + size[d]):
            n = packed[j] >> shift
            if n < small.shape[1]:
                small[packed[j] & mask, n] += 1
            else:
                large[n_large] = packed[j]
                n_large += 1
    return n_large


@njit(**JIT)
def fill_lists(indptr, indices, data, rank, at, shift, lists, size):
    """Word lists that hold the counts (columns x topics), padded; column v is word rank[v]."""
    lists[:] = (1 << shift) - 1
    for v in range(len(rank)):
        start = at[rank[v]] - indptr[v]
        for j in range(indptr[v], indptr[v + 1]):
            lists[start + j] = data[j] << shift | indices[j]
        size[rank[v]] = indptr[v + 1] - indptr[v]


@njit(**JIT)
def list_changes(indptr, indices, data, rank, at, shift, lists, size, change, ends, topics, values):
    """What word lists hold beyond the counts (columns x topics), by column: of column v the entries ends[v] to ends[v + 1] of
    `topics`, rising, and `values`. `change` has a zero for each topic, before and after."""
    mask, n, ends[0] = (1 << shift) - 1, 0, 0
    for v in range(len(rank)):
        first, w = n, rank[v]
        for j in range(indptr[v], indptr[v + 1]):
            change[indices[j]] = -data[j]
        for j in range(at[w], at[w] + size[w]):
            change[lists[j] & mask] += lists[j] >> shift
        if 8 * (indptr[v + 1] - indptr[v] + size[w]) > len(change):  # looked for among all topics, else put in their order
            for k in range(len(change)):
                if change[k] != 0:
                    topics[n], values[n] = k, change[k]
                    n += 1
                    change[k] = 0
            ends[v + 1] = n
            continue
        for j in range(indptr[v], indptr[v + 1]):  # topics that it had, which rise already
            k = indices[j]
            if change[k] != 0:
                topics[n], values[n] = k, change[k]
                n += 1
                change[k] = 0
        for j in range(at[w], at[w] + size[w]):  # and those that are new
            k = lists[j] & mask
            if change[k] != 0:
                place = n
                while place > first and topics[place - 1] > k:
                    topics[place], values[place] = topics[place - 1], values[place - 1]
                    place -= 1
                topics[place], values[place] = k, change[k]
                n += 1
                change[k] = 0
        ends[v + 1] = n
    return n


@njit(**JIT)
def mixtures(indptr, indices, counts, phi, alpha, n_steps, tol, theta):
    """CVB0 with the topics frozen: theta[d] becomes the expected topic counts of document d, alpha included.

    One word of the document at a time: q_k proportional to (alpha_k + n_dk - q_k) phi_wk, with n_dk = sum of counts times q. Where
    q_k is all that there is, alpha_k may be lost in rounding, and is put back.
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
                    rest = theta[d, k] - q[j - first, k]
                    new[k] = (rest if rest > 0.0 else alpha[k]) * phi[indices[j], k]
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
