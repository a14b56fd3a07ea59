"""Each kernel against a plain NumPy twin on small random cases."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from tallies.concepts.author_prior import Psi, Rows, credit, mixture
from tallies.concepts.kernels import mentions as kernels
from tallies.concepts.mention import Postings
from tallies.concepts.model import fingerprint_of
from tallies.concepts.word_counts import lay_out, lay_out_whole, phi_of


def prior_side(rng, D=4, G=7, R=5):
    """Documents with one to three rows, as the kernels take them, and the dense P(g | d)."""
    own = sp.random_array((R, G), density=0.4, rng=rng, format="csr")
    psi = Psi(rng.dirichlet(np.ones(G)), rng.random(R), own, np.full(G, 1 / G))
    ptr = np.concatenate([[0], np.cumsum(rng.integers(1, 4, D))])
    row = np.concatenate([rng.choice(R, b - a, replace=False) for a, b in pairwise(ptr)])
    rows = Rows(rng.random(D) * 0.5, ptr, row, rng.random(len(row)))
    W = sp.csr_array((rows.weight, row, ptr), shape=(D, R)).toarray()
    dense = rows.share[:, None] * psi.base + W @ (psi.constant[:, None] * psi.base + own.toarray())
    return psi, rows, dense, mixture(rows, psi)


def best(scores, keep):
    order = np.argsort(-scores, axis=1, kind="stable")[:, :keep]
    return order, np.take_along_axis(scores, order, axis=1)


def outputs(S, keep):
    return np.empty((S, keep), np.int32), np.empty((S, keep)), np.empty((S, keep))


@pytest.mark.parametrize("seed", range(5))
def test_multinomial_scores_equal_the_dense_formulas(seed):
    rng = np.random.default_rng(seed)
    S, V, G, keep = 20, 12, 7, 4
    X = sp.csr_array(rng.poisson(0.6, (S, V)).astype(float))
    counts = sp.csr_array(rng.poisson(0.5, (G, V)) * rng.random((G, V)))
    _, _, dense, side = prior_side(rng, G=G)
    document = np.sort(rng.integers(0, 4, S))
    smooth = rng.random(V) * 0.1
    for words in (lay_out(counts, smooth, np.float64), lay_out_whole(phi_of(lay_out(counts, smooth, np.float64)), np.float64)):
        index, value, prior = outputs(S, keep)
        evidence = np.empty(S)
        none = (np.empty((0, 0), np.int32), np.empty((0, 0), np.float32))
        kernels.multinomial_scores(X.indptr, X.indices, X.data, document, words, side, *none, index, value, prior, evidence)
        phi = (counts.toarray() + smooth) / (counts.toarray() + smooth).sum(axis=1, keepdims=True)
        alone = X.toarray() @ np.log(words.smooth)
        scores = np.log(dense)[document] + X.toarray() @ np.log(phi).T
        order, top = best(scores, keep)
        np.testing.assert_array_equal(index, order)
        np.testing.assert_allclose(value + alone[:, None], top, rtol=1e-11)
        np.testing.assert_allclose(evidence + alone, np.logaddexp.reduce(scores, axis=1), rtol=1e-11)
        np.testing.assert_allclose(np.exp(prior), np.take_along_axis(dense[document], order, axis=1), rtol=1e-11)


def test_leave_one_out_takes_a_sentence_out_of_the_counts_it_is_in():
    rng = np.random.default_rng(1)
    S, V, G = 10, 8, 5
    X = sp.csr_array(rng.poisson(0.8, (S, V)).astype(float))
    r = rng.dirichlet(np.ones(G), S)
    definitions = rng.poisson(1.0, (G, V)).astype(float)
    counts, smooth = sp.csr_array(definitions + r.T @ X.toarray()), np.full(V, 0.1)
    words = lay_out(counts, smooth, np.float64)
    _, _, dense, side = prior_side(rng, G=G)
    document = np.sort(rng.integers(0, 4, S))
    index, value, prior = outputs(S, G)
    evidence = np.empty(S)
    old = np.tile(np.arange(G, dtype=np.int32), (S, 1)), r
    kernels.multinomial_scores(X.indptr, X.indices, X.data, document, words, side, *old, index, value, prior, evidence)
    for s in range(S):
        x = X.toarray()[s]
        without = counts.toarray() - r[s][:, None] * x + smooth
        scores = np.log(dense)[document[s]] + np.log(without / without.sum(axis=1, keepdims=True)) @ x
        order, top = best(scores[None], G)
        np.testing.assert_array_equal(index[s], order[0])
        np.testing.assert_allclose(value[s] + x @ np.log(smooth), top[0], rtol=1e-10)


def mention_case(rng, S=30, K=12, G=6, n_keys=14, n_classes=6):
    table = np.where(rng.random((n_keys, K)) < 0.35, rng.normal(1.0, 2.0, (n_keys, K)).astype(np.float32), np.float32(0))
    table[rng.integers(0, n_classes, K), np.arange(K)] = 1.5  # every string has a word
    touched = (table[:n_classes] != 0).any(axis=0)
    assert touched.all()
    present = rng.random((S, n_keys)) < 0.3
    # a stem, surface or pair comes with the class of its string: drop gains of strings that no class touches
    return table, present


@pytest.mark.parametrize("seed", range(5))
def test_mention_scores_equal_the_dense_sums(seed):
    rng = np.random.default_rng(seed)
    S, K, G, n_classes, keep = 30, 12, 6, 6, 5
    table, present = mention_case(rng, S, K, G)
    owner = np.sort(rng.integers(0, G, K)).astype(np.int32)
    start = rng.normal(-2.0, 1.0, K).astype(np.float32)
    post = sp.csr_array(table)
    keys = sp.csr_array(present)
    need = (table[:n_classes] != 0).sum(axis=0).astype(np.uint8)
    _, _, dense, side = prior_side(rng, G=G + 1)
    document = np.sort(rng.integers(0, 4, S))
    index, value, prior = outputs(S, keep)
    string, evidence = np.empty((S, keep), np.int32), np.empty(S)
    # in sentences the later keys only occur together with a class; here they may not, so such gains are removed
    met = present[:, :n_classes].astype(int) @ (table[:n_classes] != 0)
    gains = Postings(post.indptr.astype(np.int64), post.indices.astype(np.int32), post.data, start, np.empty(0))
    made = (n_classes, gains, need, np.float32(1.0), owner)
    kernels.mention_scores(keys.indptr, keys.indices, document, *made, side, index, value, prior, string, evidence)
    odds = np.where(met > 0, start + present.astype(float) @ table + (met == need), -np.inf)
    scores = np.full((S, G + 1), -np.inf)
    for k in range(K):
        scores[:, owner[k]] = np.maximum(scores[:, owner[k]], odds[:, k])
    scores[:, G] = 0.0
    scores += np.log(dense)[document]
    order, top = best(scores, keep)
    np.testing.assert_allclose(value, top, rtol=1e-4)
    np.testing.assert_array_equal(np.where(np.isfinite(top), order, -1), index)
    np.testing.assert_allclose(evidence, np.logaddexp.reduce(scores, axis=1), rtol=1e-5)
    for s, c in zip(*np.nonzero((index >= 0) & (index < G)), strict=True):
        assert owner[string[s, c]] == index[s, c]
        assert odds[s, string[s, c]] == pytest.approx(odds[s, owner == index[s, c]].max(), rel=1e-5)


def test_rivals_are_those_that_share_a_word():
    # one sentence with the classes 0, 1, 2; strings: {0, 1}, {1}, {2}; the third has no rival but the null
    word_ptr, classes = np.array([0, 2, 3, 4]), np.array([0, 1, 1, 2], dtype=np.int32)
    index, string = np.array([[0, 1, 2, 3]], np.int32), np.array([[0, 1, 2, -1]], np.int32)
    value, strength = np.log([[0.5, 0.25, 0.1, 0.4]]), np.empty((1, 4))
    keys = np.array([0, 1, 2, 9], dtype=np.int32)
    kernels.compete(np.array([0, 4]), keys, 5, word_ptr, classes, index, value, string, np.log([0.4]), strength)
    np.testing.assert_allclose(strength, [[0.5 / 1.15, 0.25 / 1.15, 0.1 / 0.5, 0.0]], rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_words_around_a_mention_are_added_but_for_those_of_the_string(seed):
    rng = np.random.default_rng(seed)
    S, K, G, keep, n_keys, first, last = 12, 6, 4, 3, 20, 5, 14
    present = rng.random((S, n_keys)) < 0.4
    x = sp.csr_array(present)
    table = np.where(rng.random((G, n_keys)) < 0.5, rng.random((G, n_keys)), 0.0)
    table[:, :first], table[:, last:] = 0.0, 0.0
    rows = sp.csr_array(table.astype(np.float32))
    word_ptr = np.concatenate([[0], np.cumsum(rng.integers(1, 4, K))])
    stems = rng.integers(first, last, word_ptr[-1]).astype(np.int32)
    index, string = rng.integers(0, G, (S, keep)).astype(np.int32), rng.integers(-1, K, (S, keep)).astype(np.int32)
    value = rng.normal(size=(S, keep))
    expected = value.copy()
    for s in range(S):
        for c in range(keep):
            m = string[s, c]
            if m >= 0:
                words = present[s].copy()
                words[stems[word_ptr[m] : word_ptr[m + 1]]] = False
                expected[s, c] += 0.7 * table[index[s, c]][words].sum()
    made = (first, last, word_ptr, stems, index, string, rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)
    kernels.add_context(x.indptr, x.indices.astype(np.int32), *made, 0.7, value)
    np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_credit_is_the_posterior_of_the_row():
    rng = np.random.default_rng(2)
    psi, rows, dense, _ = prior_side(rng)
    S, G, R = 15, 7, 5
    document = np.sort(rng.integers(0, 4, S))
    r = rng.dirichlet(np.ones(G), S)
    sparse = sp.csr_array(r)
    base, own = credit(rows, psi, document, sparse, sp.csr_array(r / dense[document]), whole=False)
    expected_base, expected = np.zeros(G), np.zeros((R, G))
    full = psi.constant[:, None] * psi.base + psi.own.toarray()
    for s, d in enumerate(document):
        expected_base += r[s] * rows.share[d] * psi.base / dense[d]
        for j in range(rows.ptr[d], rows.ptr[d + 1]):
            expected[rows.row[j]] += r[s] * rows.weight[j] * full[rows.row[j]] / dense[d]
    np.testing.assert_allclose(base, expected_base, rtol=1e-12)
    np.testing.assert_allclose(own.toarray(), expected, rtol=1e-12)
    assert base.sum() + own.sum() == pytest.approx(S)


def test_held_out_words_are_foretold_by_the_mixture():
    rng = np.random.default_rng(3)
    S, V, G = 6, 9, 4
    H = sp.csr_array(rng.poisson(0.5, (S, V)).astype(float))
    counts, smooth = sp.csr_array(rng.poisson(0.7, (G, V)).astype(float)), rng.random(V) + 0.01
    words = lay_out(counts, smooth, np.float64)
    r = rng.dirichlet(np.ones(G), S)
    index = np.tile(np.arange(G, dtype=np.int32), (S, 1))
    found = kernels.held_out_words(H.indptr, H.indices, H.data, index, r, words)
    assert found == pytest.approx(float(np.sum(H.toarray() * np.log(r @ phi_of(words)))), rel=1e-12)


def test_fingerprints_add_over_shards_and_tell_assignments_apart():
    rng = np.random.default_rng(4)
    index = rng.integers(-1, 5, 1000).astype(np.int32)
    whole = fingerprint_of(0, index)
    parts = np.concatenate([fingerprint_of(0, index[:300]), fingerprint_of(300, index[300:])])
    assert parts.sum() == whole[0]
    other = index.copy()
    other[17], other[18] = index[18], index[17] + 1
    assert fingerprint_of(0, other) != whole
