"""Loops of the author-concept model: scores of all concepts for a sentence, fused with prior, evidence and the best k.

Every kernel walks over sentences that are ordered by document. The prior of document d is a common level plus a few sparse
entries (its authors' own concepts), so it is laid out once a document and read once a concept.

The first fit waits for the compiler. So room to work in is made by NumPy, outside of kernels: each `np.full` in one is a quarter
of a second of compiling. And there is no way in from C, which nobody takes.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from tallies.kernels import JIT

FAR = 37.0  # exp(-37) < 1e-16: further terms do not change a float64 sum
HIGHEST = 600.0  # log odds of which exp is a number with room for sums: those of a string of a hundred words have none


class Prior(NamedTuple):
    """P(g | d) = share_d base_lg + own_dg, l being the level of document d."""

    share: np.ndarray  # (D,)
    level: np.ndarray  # (D,) int64
    base: np.ndarray  # (levels, G)
    log_base: np.ndarray  # (levels, G)
    ptr: np.ndarray  # (D+1,)  CSR of own
    concept: np.ndarray
    value: np.ndarray


@njit(**JIT)
def set_prior(d, side, log_prior):
    """log_prior[g] = log P(g | d)."""
    share, level = side.share[d], side.level[d]
    shift = np.log(share) if share > 0.0 else -np.inf
    for g in range(len(log_prior)):
        log_prior[g] = side.log_base[level, g] + shift
    for i in range(side.ptr[d], side.ptr[d + 1]):
        g = side.concept[i]
        log_prior[g] = np.log(share * side.base[level, g] + side.value[i])


@njit(**JIT)
def keep_best(concept, scores, log_prior, index, value, prior):
    """The best concepts of a sentence, best first, their scores and priors; of equal scores the one that came first is ahead."""
    last = len(index) - 1
    for c in range(last + 1):
        index[c], value[c], prior[c] = -1, -np.inf, -np.inf
    for i in range(len(scores)):
        if scores[i] > value[last]:
            at = last
            while at > 0 and value[at - 1] < scores[i]:
                value[at], index[at] = value[at - 1], index[at - 1]
                at -= 1
            value[at], index[at] = scores[i], concept[i]
    for c in range(last + 1):
        if index[c] >= 0:
            prior[c] = log_prior[index[c]]


@njit(**JIT)
def log_sum(scores, top):
    """log sum_i exp(scores_i), where `top` is the largest of them."""
    weight = 0.0
    for score in scores:
        if score - top > -FAR:
            weight += np.exp(score - top)
    return top + np.log(weight) if weight > 0.0 else -np.inf


@njit(**JIT)
def find(values, a, b, wanted):
    """The place of a value from a up to b, where values rise; -1: it is not there. Halved by hand: np.searchsorted takes the
    compiler half a second."""
    low, high = a, b
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < b and values[low] == wanted else -1


def multinomial_scores(word_ptr, words, counts, document, law, side, *out):
    """`score_bags` with room to work in."""
    G = side.base.shape[1]
    score_bags(word_ptr, words, counts, document, law, side, np.arange(G), *out)


@njit(**JIT)
def score_bags(word_ptr, words, counts, document, law, side, concepts, old_index, old_value, index, value, prior, evidence):
    """Scores log prior + sum_w n_sw gain[w, g] + L_s slope[g] of every concept; the best k of each sentence and the evidence
    (unless that is an empty array). `law` are the Words, `side` the Prior.

    The sentence's part in the counts, as it was assigned by old_index and old_value (empty: it has none), is taken out of the
    concepts that have it: leave-one-out.
    """
    G = side.base.shape[1]
    log_prior, scores = np.empty(G), np.empty(G)  # made here, they are known to lie apart from all else
    for s in range(len(document)):
        if s == 0 or document[s] != document[s - 1]:
            set_prior(document[s], side, log_prior)
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
                    if a >= 0:
                        part += n * np.log(max(law.counts[a] - r * n, 0.0) / law.smooth[w] + 1.0)
                scores[g] = log_prior[g] + part - length * np.log(max(law.total[g] - r * length, 1e-300))
        keep_best(concepts, scores, log_prior, index[s], value[s], prior[s])
        if len(evidence) > 0:  # hard assignments do without
            evidence[s] = log_sum(scores, value[s, 0])


class Room(NamedTuple):
    """What `score_mentions` works in, for K strings and G concepts."""

    acc: np.ndarray  # (K,)  log odds of a string so far
    met: np.ndarray  # (K,) uint8, zeros  how many of its word classes were met
    touched: np.ndarray  # (K,) int32  strings of which a word was met
    best: np.ndarray  # (G,) float32, -inf  log odds of a concept's best string
    bearer: np.ndarray  # (G,) int32, -1  and which that is
    found: np.ndarray  # (G,) int32  concepts with such a string
    log_prior: np.ndarray  # (G,)
    scores: np.ndarray  # (G,)


def mention_scores(key_ptr, keys, document, n_classes, post, need, whole, owner, side, *out):
    """`score_mentions` with room to work in."""
    G, K, few = side.base.shape[1], len(owner), np.int32
    strings = np.empty(K, post.gain.dtype), np.zeros(K, np.uint8), np.empty(K, few)
    concepts = np.full(G, -np.inf, np.float32), np.full(G, -1, few), np.empty(G, few), np.empty(G), np.empty(G)
    score_mentions(key_ptr, keys, document, n_classes, post, need, whole, owner, side, Room(*strings, *concepts), *out)


@njit(**JIT)
def score_mentions(key_ptr, keys, document, n_classes, post, need, whole, owner, side, room, index, value, prior, string, evidence):
    """Scores of the concepts with a string of which a word occurs, log prior + log odds of the best string, and of the null.
    `post` are the Postings, `side` the Prior.

    A key below n_classes stands for a word (or its like), the others add what a closer match or a neighbourhood is worth.
    The null concept is the last one, with log odds 0. `string` is the string that carried each of the k best.
    """
    G = side.base.shape[1]
    acc, met, touched, best, bearer, found, log_prior, scores = room
    for s in range(len(document)):
        if s == 0 or document[s] != document[s - 1]:
            set_prior(document[s], side, log_prior)
        n_touched = 0
        for j in range(key_ptr[s], key_ptr[s + 1]):
            key = keys[j]
            for i in range(post.ptr[key], post.ptr[key + 1]):
                m = post.string[i]
                if key < n_classes:  # keys rise, so every string that others can touch has been touched
                    if met[m] == 0:
                        touched[n_touched] = m
                        n_touched += 1
                        acc[m] = post.start[m]
                    met[m] += 1
                acc[m] += post.gain[i]
        found[0], best[G - 1], n_found = G - 1, 0.0, 1  # the null
        for t in range(n_touched):
            m = touched[t]
            odds = acc[m] + whole if met[m] == need[m] else acc[m]
            met[m] = 0
            g = owner[m]
            if odds > best[g]:
                if best[g] == -np.inf:  # once a concept: odds that are no more than this find nothing
                    found[n_found] = g
                    n_found += 1
                best[g] = odds
                bearer[g] = m
        for t in range(n_found):
            scores[t] = log_prior[found[t]] + best[found[t]]
            best[found[t]] = -np.inf
        keep_best(found, scores[:n_found], log_prior, index[s], value[s], prior[s])
        evidence[s] = log_sum(scores[:n_found], value[s, 0])
        for c in range(index.shape[1]):
            string[s, c] = bearer[index[s, c]] if index[s, c] >= 0 else -1


def compete(key_ptr, keys, n_classes, word_ptr, classes, index, value, string, null, strength):
    """`share_words` with room to work in."""
    strength[:] = 0.0
    mass = np.empty(np.diff(key_ptr).max(initial=0))
    share_words(key_ptr, keys, n_classes, word_ptr, classes, index, value, string, null, mass, strength)


@njit(**JIT)
def share_words(key_ptr, keys, n_classes, word_ptr, classes, index, value, string, null, mass, strength):
    """strength[s, c] = P(candidate c | the word for which it has most rivals): candidates that share no word do not compete.

    A sentence may speak of several concepts. Each word that a candidate's string found is explained by the candidates that found
    it, or by none of them (weight exp(null)); a candidate counts for as much as at the word where the others are strongest. All
    weights of a sentence are less by as much as brings the largest back from where no number is.
    """
    for s in range(index.shape[0]):
        last = first = key_ptr[s]
        less = 0.0
        for c in range(index.shape[1]):
            less = max(less, value[s, c] - HIGHEST)
        while last < key_ptr[s + 1] and keys[last] < n_classes:
            mass[last - first] = np.exp(null[s] - less)
            last += 1
        for step in range(2):  # first all masses, then the strengths
            for c in range(index.shape[1]):
                m = string[s, c]
                if m < 0:
                    continue
                weight, most = np.exp(value[s, c] - less), 0.0
                for j in range(word_ptr[m], word_ptr[m + 1]):
                    at = find(keys, first, last, classes[j]) - first
                    if at < 0 or (j > word_ptr[m] and classes[j] == classes[j - 1]):
                        continue
                    if step == 0:
                        mass[at] += weight
                    most = max(most, mass[at])
                if most > 0.0:
                    strength[s, c] = weight / most


@njit(**JIT)
def add_context(key_ptr, keys, first, last, word_ptr, stems, index, string, row_ptr, row_key, row_gain, weight, value):
    """value[s, c] += weight * the gains that candidate c has for the stems (keys from first up to last) of sentence s, but for
    the stems of the string that it was found by."""
    for s in range(index.shape[0]):
        for c in range(index.shape[1]):
            m, g = string[s, c], index[s, c]
            if m < 0:
                continue
            total, own = 0.0, stems[word_ptr[m] : word_ptr[m + 1]]
            for key in keys[key_ptr[s] : key_ptr[s + 1]]:
                a = find(row_key, row_ptr[g], row_ptr[g + 1], key) if first <= key < last else -1
                if a >= 0 and key not in own:
                    total += row_gain[a]
            value[s, c] += weight * total


@njit(**JIT)
def held_out_words(word_ptr, words, counts, index, r, law):
    """Sum over held-out words of n log sum_g r_sg phi_gw: how well the assignments foretell words that they have not seen."""
    result = 0.0
    for s in range(len(word_ptr) - 1):
        for j in range(word_ptr[s], word_ptr[s + 1]):
            w, p = words[j], 0.0
            for c in range(index.shape[1]):
                g = index[s, c]
                if g >= 0:
                    a = find(law.concept, law.ptr[w], law.ptr[w + 1], g)
                    p += r[s, c] * ((law.counts[a] if a >= 0 else 0.0) + law.smooth[w]) / law.total[g]
            if p > 0.0:
                result += counts[j] * np.log(p)
    return result
