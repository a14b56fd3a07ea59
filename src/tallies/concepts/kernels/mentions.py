"""Loops of the author-concept model: scores of all concepts for a sentence, fused with prior, evidence and the best k.

Every kernel walks over sentences that are ordered by document. The prior of document d is `share[d] * base[g]` plus a few
sparse entries (its authors' own concepts), so it is laid out once a document and read once a concept.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

FAR = 37.0  # exp(-37) < 1e-16: further terms do not change a float64 sum


class Prior(NamedTuple):
    """P(g | d), in the form in which it is laid out."""

    share: np.ndarray  # (D,)  weight of `base`
    base: np.ndarray  # (G,)
    log_base: np.ndarray  # (G,)
    row_ptr: np.ndarray  # (D+1,)  rows behind each document ...
    row: np.ndarray
    weight: np.ndarray  # ... and their weights
    ptr: np.ndarray  # (R+1,)  CSR of psi
    concept: np.ndarray
    value: np.ndarray


@njit(nogil=True, cache=True)
def set_prior(d, side, extra, log_prior):
    """log_prior[g] = log(share[d] base[g] + sum of the rows of d, weighted); `extra` is all zeros before and after."""
    share = side.share[d]
    shift = np.log(share) if share > 0.0 else -np.inf
    for g in range(len(side.base)):
        log_prior[g] = side.log_base[g] + shift
    for j in range(side.row_ptr[d], side.row_ptr[d + 1]):
        for i in range(side.ptr[side.row[j]], side.ptr[side.row[j] + 1]):
            extra[side.concept[i]] += side.weight[j] * side.value[i]
    for j in range(side.row_ptr[d], side.row_ptr[d + 1]):
        for i in range(side.ptr[side.row[j]], side.ptr[side.row[j] + 1]):
            g = side.concept[i]
            if extra[g] > 0.0:
                log_prior[g] = np.log(share * side.base[g] + extra[g])
                extra[g] = 0.0


@njit(nogil=True, cache=True)
def keep(g, score, k, index, value):
    """Put (g, score) among the k best of a sentence, best first; of equal scores the one that came first stays ahead."""
    if score <= value[k - 1]:
        return
    at = k - 1
    while at > 0 and value[at - 1] < score:
        value[at] = value[at - 1]
        index[at] = index[at - 1]
        at -= 1
    value[at] = score
    index[at] = g


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def largest(x):
    """max(x), where there are no NaN; in four strands, since one would wait for itself at every step."""
    a = b = c = d = -np.inf
    whole = len(x) // 4 * 4
    for i in range(0, whole, 4):
        a = x[i] if x[i] > a else a
        b = x[i + 1] if x[i + 1] > b else b
        c = x[i + 2] if x[i + 2] > c else c
        d = x[i + 3] if x[i + 3] > d else d
    for i in range(whole, len(x)):
        a = x[i] if x[i] > a else a
    return max(max(a, b), max(c, d))


@njit(nogil=True, cache=True)
def first(x, value):
    """The first place of a value that is there."""
    i = 0
    while x[i] != value:
        i += 1
    return i


@njit(nogil=True, cache=True)
def find(values, a, b, wanted):
    """The first place from a up to b, where values rise, whose value is not below the wanted one; b if all are."""
    while a < b:
        middle = (a + b) // 2
        if values[middle] < wanted:
            a = middle + 1
        else:
            b = middle
    return a


@njit(nogil=True, cache=True)
def multinomial_scores(word_ptr, words, counts, document, law, side, old_index, old_value, index, value, prior, evidence):
    """Scores log prior + sum_w n_sw gain[w, g] + L_s slope[g] of every concept; the best k of each sentence and the evidence
    (unless that is an empty array). `law` are the Words, `side` the Prior.

    The sentence's part in the counts, as it was assigned by old_index and old_value (empty: it has none), is taken out of the
    concepts that have it: leave-one-out.
    """
    G, k = len(side.base), index.shape[1]
    log_prior, extra, scores = np.empty(G), np.zeros(G), np.empty(G)
    now = -1
    for s in range(len(document)):
        if document[s] != now:
            now = document[s]
            set_prior(now, side, extra, log_prior)
        length = 0.0
        for j in range(word_ptr[s], word_ptr[s + 1]):
            length += counts[j]
        for g in range(G):
            scores[g] = log_prior[g] + length * law.slope[g]
        for j in range(word_ptr[s], word_ptr[s + 1]):
            n = counts[j]
            for i in range(law.ptr[words[j]], law.ptr[words[j] + 1]):
                scores[law.concept[i]] += n * law.gain[i]
        if len(old_index) > 0:
            for c in range(old_index.shape[1]):
                g, r = old_index[s, c], old_value[s, c]
                if g < 0 or r <= 0.0:
                    continue
                part = 0.0
                for j in range(word_ptr[s], word_ptr[s + 1]):
                    n, w = counts[j], words[j]
                    a = find(law.concept, law.ptr[w], law.ptr[w + 1], g)
                    if a < law.ptr[w + 1] and law.concept[a] == g:
                        part += n * np.log(max(law.counts[a] - r * n, 0.0) / law.smooth[w] + 1.0)
                scores[g] = log_prior[g] + part - length * np.log(max(law.total[g] - r * length, 1e-300))
        value[s, :] = -np.inf
        index[s, :] = -1
        top = largest(scores)
        if k == 1:
            value[s, 0] = top
            if top > -np.inf:
                index[s, 0] = first(scores, top)
        else:
            for g in range(G):
                if scores[g] > value[s, k - 1]:
                    keep(g, scores[g], k, index[s], value[s])
        if len(evidence) > 0:  # hard assignments do without
            weight = 0.0
            if top > -np.inf:
                for g in range(G):
                    if scores[g] - top > -FAR:
                        weight += np.exp(scores[g] - top)
            evidence[s] = top + np.log(weight) if weight > 0.0 else -np.inf
        for c in range(k):
            prior[s, c] = log_prior[index[s, c]] if index[s, c] >= 0 else -np.inf


@njit(nogil=True, cache=True)
def mention_scores(key_ptr, keys, document, n_classes, post, need, whole, owner, side, index, value, prior, string, evidence):
    """Scores of the concepts with a string of which a word occurs, log prior + log odds of the best string, and of the null.
    `post` are the Postings, `side` the Prior.

    A key below n_classes stands for a word (or its like), the others add what a closer match or a neighbourhood is worth.
    The null concept is the last one, with log odds 0. `string` is the string that carried each of the k best.
    """
    G, k, K = len(side.base), index.shape[1], len(owner)
    acc, met = np.zeros(K, dtype=post.gain.dtype), np.zeros(K, dtype=np.uint8)
    best, bearer = np.full(G, -np.inf, dtype=np.float32), np.empty(G, dtype=np.int32)
    touched, found = np.empty(K, dtype=np.int32), np.empty(G, dtype=np.int32)
    log_prior, extra = np.empty(G), np.zeros(G)
    now = -1
    for s in range(len(document)):
        if document[s] != now:
            now = document[s]
            set_prior(now, side, extra, log_prior)
        n_touched = 0
        for j in range(key_ptr[s], key_ptr[s + 1]):
            key = keys[j]
            if key < n_classes:
                for i in range(post.ptr[key], post.ptr[key + 1]):
                    m = post.string[i]
                    if met[m] == 0:
                        touched[n_touched] = m
                        n_touched += 1
                        acc[m] = post.start[m]
                    met[m] += 1
                    acc[m] += post.gain[i]
            else:  # keys rise, so every string that these can touch has been touched
                for i in range(post.ptr[key], post.ptr[key + 1]):
                    acc[post.string[i]] += post.gain[i]
        n_found = 0
        for t in range(n_touched):
            m = touched[t]
            odds = acc[m] + whole if met[m] == need[m] else acc[m]
            met[m] = 0
            g = owner[m]
            if best[g] == -np.inf:
                found[n_found] = g
                n_found += 1
            if odds > best[g]:
                best[g] = odds
                bearer[g] = m
        value[s, :] = -np.inf
        index[s, :] = -1
        string[s, :] = -1
        keep(G - 1, log_prior[G - 1], k, index[s], value[s])
        for t in range(n_found):
            g = found[t]
            score = log_prior[g] + best[g]
            if score > value[s, k - 1]:
                keep(g, score, k, index[s], value[s])
        top = value[s, 0]
        weight = np.exp(log_prior[G - 1] - top) if top > -np.inf else 0.0
        for t in range(n_found):
            g = found[t]
            score = log_prior[g] + best[g] - top
            if score > -FAR:
                weight += np.exp(score)
        evidence[s] = top + np.log(weight) if weight > 0.0 else -np.inf
        for c in range(k):
            g = index[s, c]
            prior[s, c] = log_prior[g] if g >= 0 else -np.inf
            string[s, c] = bearer[g] if 0 <= g < G - 1 else -1
        for t in range(n_found):
            best[found[t]] = -np.inf


@njit(nogil=True, cache=True)
def compete(key_ptr, keys, n_classes, word_ptr, classes, index, value, string, null, strength):
    """strength[s, c] = P(candidate c | the word for which it has most rivals): candidates that share no word do not compete.

    A sentence may speak of several concepts. Each word that a candidate's string found is explained by the candidates that found
    it, or by none of them (weight exp(null)); a candidate counts for as much as at the word where the others are strongest.
    """
    for s in range(index.shape[0]):
        first, n = key_ptr[s], 0
        while first + n < key_ptr[s + 1] and keys[first + n] < n_classes:
            n += 1
        mass = np.full(n, np.exp(null[s]))
        for step in range(2):
            for c in range(index.shape[1]):
                m = string[s, c]
                if m < 0:
                    if step == 1:
                        strength[s, c] = 0.0
                    continue
                weight, most = np.exp(value[s, c]), 0.0
                for j in range(word_ptr[m], word_ptr[m + 1]):
                    at = np.searchsorted(keys[first : first + n], classes[j])
                    if at < n and keys[first + at] == classes[j]:
                        if j > word_ptr[m] and classes[j] == classes[j - 1]:
                            continue
                        if step == 0:
                            mass[at] += weight
                        elif mass[at] > most:
                            most = mass[at]
                if step == 1:
                    strength[s, c] = weight / most if most > 0.0 else 0.0


@njit(nogil=True, cache=True)
def add_context(key_ptr, keys, first, last, word_ptr, stems, index, string, row_ptr, row_key, row_gain, weight, value):
    """value[s, c] += weight * the gains that candidate c has for the stems (keys from first up to last) of sentence s, but for
    the stems of the string that it was found by."""
    for s in range(index.shape[0]):
        for c in range(index.shape[1]):
            m, g = string[s, c], index[s, c]
            if m < 0:
                continue
            total = 0.0
            for j in range(key_ptr[s], key_ptr[s + 1]):
                key = keys[j]
                if key < first or key >= last:
                    continue
                a = find(row_key, row_ptr[g], row_ptr[g + 1], key)
                if a == row_ptr[g + 1] or row_key[a] != key:
                    continue
                own = False
                for i in range(word_ptr[m], word_ptr[m + 1]):
                    own = own or stems[i] == key
                if not own:
                    total += row_gain[a]
            value[s, c] += weight * total


@njit(nogil=True, cache=True)
def held_out_words(word_ptr, words, counts, index, r, law):
    """Sum over held-out words of n log sum_g r_sg phi_gw: how well the assignments foretell words that they have not seen."""
    result = 0.0
    for s in range(len(word_ptr) - 1):
        for j in range(word_ptr[s], word_ptr[s + 1]):
            w, p = words[j], 0.0
            for c in range(index.shape[1]):
                g = index[s, c]
                if g < 0:
                    continue
                a = find(law.concept, law.ptr[w], law.ptr[w + 1], g)
                own = law.counts[a] if a < law.ptr[w + 1] and law.concept[a] == g else 0.0
                p += r[s, c] * (own + law.smooth[w]) / law.total[g]
            if p > 0.0:
                result += counts[j] * np.log(p)
    return result


@njit(nogil=True, cache=True)
def fingerprint(first, index):
    """A sum of hashes of (sentence, concept): equal assignments have equal sums, however the sentences are cut into shards."""
    total = np.uint64(0)
    for s in range(len(index)):
        x = np.uint64(first + s) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(index[s] + 2) * np.uint64(0xC2B2AE3D27D4EB4F)
        x ^= x >> np.uint64(31)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(29)
        x *= np.uint64(0x94D049BB133111EB)
        total += x ^ (x >> np.uint64(32))
    return total
