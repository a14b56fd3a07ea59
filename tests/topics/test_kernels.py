"""The Gibbs kernels against plain NumPy twins and against enumeration."""

from __future__ import annotations

from itertools import product
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit
from scipy.special import gammaln

import tallies
from tallies.kernels import lanes, twins
from tallies.topics import sampler
from tallies.topics.kernels import lists as topics
from tallies.topics.kernels import sampling as lda
from tallies.topics.tokens import block_count, lay_out

MASK64 = (1 << 64) - 1


@njit
def call_accumulate(packed, at, mask, shift, f, own, f_own, sums, j, carry):
    return lanes.accumulate(packed, at, mask, shift, f, own, f_own, sums, j, carry)


@njit
def call_draw(packed, at, mask, shift, f, own, f_own, u, u_rest):
    return lanes.draw_16(packed, at, mask, shift, f, own, f_own, u, u_rest)


@njit
def call_find(packed, at, mask, own):
    bits = lanes.find_topic(packed, at, mask, own)
    return bits, lanes.lowest_bit(bits)


@njit
def call_below(sums, j, bound):
    return lanes.count_below(sums, j, bound)


@njit
def call_atomic(array):
    before = lanes.atomic_add(array, 1, 5)
    return before, lanes.atomic_load(array, 1)


@pytest.mark.parametrize("entry", [np.int32, np.int64])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_lanes_equal_their_twins(entry, real):
    rng, shift, K = np.random.default_rng(1), 6, 40
    tolerance = 1e-5 if real is np.float32 else 1e-13
    for _ in range(20):
        k, n = rng.permutation(K)[:16], rng.integers(1, 90, 16)
        packed = np.concatenate([np.zeros(5, entry), (n << shift | k).astype(entry)])
        f, sums, own = rng.random(K).astype(real), np.zeros(40, real), rng.integers(K)
        twin_f, twin_n = np.where(k == own, 0.25, f[k]), n - (k == own)
        want = 1.5 + np.cumsum(twin_n * twin_f.astype(float))
        mask, shift_, own_ = entry(63), entry(shift), entry(own)
        last = call_accumulate(packed, 5, mask, shift_, f, own_, real(0.25), sums, 3, real(1.5))
        np.testing.assert_allclose(sums[3:19], want, rtol=tolerance)
        assert last == sums[18]
        assert call_below(sums, 3, real(sums[9])) == 7
        total, target, place, bits = call_draw(packed, 5, mask, shift_, f, own_, real(0.25), real(0.5), real(2.0))
        np.testing.assert_allclose([total, target], [want[-1] - 1.5, 0.5 * (want[-1] - 1.5) + 2.0], rtol=tolerance)
        assert place == np.sum(want - 1.5 <= target)
        twin_bits = sum(1 << int(i) for i in np.flatnonzero(k == own))
        assert bits == twin_bits
        if twin_bits:
            assert call_find(packed, 5, mask, own_) == (twin_bits, int(np.flatnonzero(k == own)[0]))
        # what stands in where nothing is compiled adds in the same order
        plain = np.zeros(40, real)
        assert twins.accumulate(packed, 5, mask, shift_, f, own_, real(0.25), plain, 3, real(1.5)) == last
        np.testing.assert_array_equal(plain, sums)
        found = twins.drawing(1)(packed, 5, mask, shift_, f, own_, real(0.25), real(0.5), real(2.0))
        assert (found[0], *found[2:]) == (total, place, bits)
        assert twins.count_below(sums, 3, sums[9]) == 7
        assert twins.find_topic(packed, 5, mask, own_) == bits


@pytest.mark.parametrize("entry", [np.int32, np.int64])
def test_gathered_or_fetched_one_by_one_draws_are_the_same_bits(monkeypatch, entry):
    rng, found = np.random.default_rng(2), []
    packed = (rng.integers(1, 90, 16) << 6 | rng.permutation(40)[:16]).astype(entry)
    f, own = rng.random(64).astype(np.float32), entry(packed[3] & entry(63))
    for gathers in (True, False):
        monkeypatch.setattr(lanes, "GATHERS", gathers)  # which is asked when a call is compiled
        draw = njit(lambda *given: lanes.draw_16(*given))
        found.append(draw(packed, 0, entry(63), entry(6), f, own, np.float32(0.25), np.float32(0.5), np.float32(2.0)))
    assert found[0] == found[1]
    assert found[0][3] == 1 << 3


def test_atomic_operations():
    array = np.array([1, 2, 3])
    assert call_atomic(array) == (2, 7)


def twin_mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def test_mix_is_splitmix64():
    golden = int(lda.GOLDEN)
    state, out = 1234567, []
    for _ in range(3):
        state = (state + golden) & MASK64
        out.append(int(lda.mix(np.uint64(state))))
        assert out[-1] == twin_mix(state)
    assert out == [6457827717110365317, 3203168211198807973, 9817491932198370423]  # published first values for this seed


def small_corpus(rng, D=6, V=5, K=3, length=7):
    X = sp.csr_array(np.array([np.bincount(rng.integers(V, size=length), minlength=V) for _ in range(D)]))
    return X, lay_out(X, K, sp.csr_array((V, K), dtype=np.int64), rng, [slice(0, D)])[0]


def log_joint(words, documents, z, alpha, beta, V):
    """Equation 2 of the model, as plainly as can be."""
    K, D = len(alpha), documents.max() + 1
    n_kw, n_dk = np.zeros((K, V)), np.zeros((D, K))
    np.add.at(n_kw, (z, words), 1)
    np.add.at(n_dk, (documents, z), 1)
    value = np.sum(gammaln(V * beta) - gammaln(n_kw.sum(1) + V * beta)) + np.sum(gammaln(n_kw + beta) - gammaln(beta))
    value += np.sum(gammaln(alpha.sum()) - gammaln(n_dk.sum(1) + alpha.sum()))
    return value + np.sum(gammaln(n_dk + alpha) - gammaln(alpha))


def documents_of(shard):
    return np.repeat(np.arange(len(shard.rows)), shard.lengths)


def test_conditional_equals_enumeration():
    rng = np.random.default_rng(3)
    alpha, beta, K, V = np.array([0.3, 1.2, 0.7]), 0.05, 3, 5
    _, shard = small_corpus(rng)
    counts = sampler.empty(shard, K, sp.csr_array((V, K), dtype=np.int64))
    sampler.scatter(shard, counts, rng)
    documents, z, shift, sums = documents_of(shard), counts.z.astype(int), shard.layout.shift, np.empty(32)
    for i, (w, own) in enumerate(zip(shard.layout.words, z, strict=True)):
        want = []
        for k in range(K):
            trial = z.copy()
            trial[i] = k
            want.append(log_joint(shard.layout.words, documents, trial, alpha, beta, V))
        want = np.exp(np.array(want) - max(want))
        n_d = np.bincount(z[documents == documents[i]], minlength=K)
        f = np.append((n_d + alpha) / (counts.n_k + V * beta), 0.0)
        f_own = (n_d[own] - 1 + alpha[own]) / (counts.n_k[own] - 1 + V * beta)
        n, at = counts.size[w], shard.layout.at[w]
        total = lda.evaluate(counts.lists, at, n, np.int32((1 << shift) - 1), shift, f, np.int32(own), f_own, sums)
        got = np.where(np.arange(K) == own, f_own, f[:K]) * beta
        got[counts.lists[at : at + n] & ((1 << shift) - 1)] += np.diff(sums[:n], prepend=0.0)
        assert total == pytest.approx(sums[n - 1], rel=1e-14)
        np.testing.assert_allclose(got / got.sum(), want / want.sum(), rtol=1e-12)


def twin_sweep(shard, counts, alpha, beta, seed):
    """One sweep with P = 1 in plain Python: every weight from the counts, draws and order of lists as in the kernel."""
    V, K, golden = len(shard.rank), len(alpha), int(lda.GOLDEN)
    documents, z, mask = documents_of(shard), counts.z.astype(int), (1 << int(shard.layout.shift)) - 1
    lists = [
        [list(divmod(int(e), mask + 1))[::-1] for e in counts.lists[a : a + n]]
        for a, n in zip(shard.layout.at, counts.size, strict=True)
    ]
    key = twin_mix((seed + golden) & MASK64)
    for i, w in enumerate(shard.layout.words):
        own, entries = z[i], lists[w]
        others = np.arange(len(z)) != i
        assigned = others & (z >= 0)
        n_k = np.bincount(z[assigned], minlength=K)
        n_d = np.bincount(z[assigned & (documents == documents[i])], minlength=K)
        f = (n_d + alpha) / (n_k + V * beta)
        sums = np.cumsum([(n - (k == own)) * f[k] for k, n in entries])
        sparse = sums[-1] if len(sums) else 0.0
        key = (key + golden) & MASK64
        target = (twin_mix(key) >> 40) * 2.0**-24 * (sparse + beta * f.sum())
        if target < sparse:
            new = entries[min(int(np.sum(sums <= target)), len(entries) - 1)][0]
        else:
            new = min(int(np.searchsorted(np.cumsum(f), (target - sparse) / beta, side="right")), K - 1)
        if new == own:
            continue
        place = [k for k, _ in entries].index(new) if new in [k for k, _ in entries] else None
        if place is None:
            entries.append([new, 1])
        else:
            entries[place][1] += 1
        if own >= 0:
            mine = [k for k, _ in entries].index(own)
            entries[mine][1] -= 1
            if entries[mine][1] == 0:
                entries[mine] = entries[-1]
                entries.pop()
        z[i] = new
    return z


@pytest.mark.parametrize("K", [2, 5, 23])
def test_sweep_equals_its_twin_token_by_token(K):
    rng = np.random.default_rng(K)
    V, alpha, beta = 12, rng.random(K) + 0.05, 0.1
    dense = rng.poisson(0.8, size=(15, V))
    dense[0, 3] += 60  # a word with a long list, and a document longer than the others
    dense[1, 3] += 50
    X = sp.csr_array(dense)
    shard = lay_out(X, K, sp.csr_array((V, K), dtype=np.int64), rng, [slice(0, 15)])[0]
    counts = sampler.empty(shard, K, sp.csr_array((V, K), dtype=np.int64))
    for seed in range(4):  # the first sweep enters the tokens, the others resample them
        want = twin_sweep(shard, counts, alpha, beta, seed)
        sampler.sweeps(shard, counts, (alpha, beta), seed)
        assert (counts.z == want).all()
        check_counts(shard, counts, K)


def check_counts(shard, counts, K):
    entered = counts.z >= 0
    n_wk = np.zeros((len(shard.rank), K), dtype=int)
    column = np.argsort(shard.rank)
    np.add.at(n_wk, (column[shard.layout.words[entered]], counts.z[entered]), 1)
    n_dk = np.zeros((len(shard.rows), K), dtype=int)
    np.add.at(n_dk, (documents_of(shard)[entered], counts.z[entered]), 1)
    np.testing.assert_array_equal(sampler.word_counts(shard, counts).toarray(), n_wk)
    np.testing.assert_array_equal(sampler.document_counts(shard, counts).toarray(), n_dk)
    np.testing.assert_array_equal(counts.n_k, n_wk.sum(axis=0))
    H = sampler.histogram(shard, counts).toarray()
    with mock.patch.object(sampler, "FEW", 0):  # compiled
        np.testing.assert_array_equal(sampler.histogram(shard, counts).toarray(), H)
    np.testing.assert_array_equal(H[:, 1:], [[np.sum(n_dk[:, k] == n) for n in range(1, H.shape[1])] for k in range(K)])


@pytest.fixture
def four_blocks(monkeypatch):
    monkeypatch.setattr("tallies.topics.tokens.block_count", lambda *sizes: 4)


@pytest.mark.parametrize("entry", [np.int32, np.int64])
def test_rotation_gives_the_same_bits_on_any_number_of_threads(four_blocks, entry):
    rng, K, V, D = np.random.default_rng(5), 20, 60, 80
    X = sp.csr_array(rng.poisson(0.7, size=(D, V)))
    base = sp.csr_array((V, K), dtype=np.int64)
    if entry is np.int64:  # so large a count does not fit beside the topic in four bytes
        base = sp.csr_array((np.array([1 << 28]), ([3], [4])), shape=(V, K))
    shard = lay_out(X, K, base, rng, [slice(0, D)])[0]
    assert type(shard.layout.shift) is entry
    found = []
    for threads in (1, 2, 3, 4, 2):
        counts = sampler.empty(shard, K, base)
        sampler.sweeps(shard, counts, (np.full(K, 0.1, np.float32), 0.01), 7, n_sweeps=3, share=0.5, threads=threads)
        sampler.sweeps(shard, counts, (np.full(K, 0.1, np.float32), 0.01), 8, n_sweeps=4, threads=threads)
        found.append(counts.z.copy())
        if entry is np.int32:
            check_counts(shard, counts, K)
    assert all((z == found[0]).all() for z in found)


def test_short_documents_are_cut_into_four_blocks_at_any_size():
    assert [block_count(n, 20_000, n // 90) for n in (100_000, 1_000_000, 7_900_000, 8_100_000, 10**9)] == [1, 4, 4, 4, 4]
    assert [block_count(n, 20_000, n // 4000) for n in (100_000, 1_000_000, 7_900_000, 8_100_000)] == [1, 4, 4, 8]
    assert block_count(10**7, 3, 100) == 3  # no more blocks than words


def test_layout_keeps_every_token():
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.poisson(1.0, size=(30, 17)))
    shards = lay_out(X, 4, sp.csr_array((17, 4), dtype=np.int64), rng, [slice(0, 12), slice(12, 30)])
    back = np.zeros(X.shape, dtype=int)
    for shard in shards:
        assert (np.diff(shard.layout.cuts, axis=0) >= 0).all()
        np.add.at(back, (shard.rows[documents_of(shard)], np.argsort(shard.rank)[shard.layout.words]), 1)
    np.testing.assert_array_equal(back, X.toarray())


def test_lists_and_counts_are_inverse():
    rng, K, V = np.random.default_rng(2), 9, 6
    n_wk = sp.csr_array(rng.integers(0, 3, size=(V, K)))
    shard = lay_out(sp.csr_array(np.ones((4, V), dtype=int)), K, n_wk, rng, [slice(0, 4)])[0]
    counts = sampler.empty(shard, K, n_wk)
    np.testing.assert_array_equal(sampler.word_counts(shard, counts).toarray(), n_wk.toarray())


@pytest.mark.parametrize("K", [4, 300])  # changes are looked for among all topics, or put in their order
def test_lists_of_a_shard_and_their_changes_equal_their_twins(monkeypatch, K):
    rng, V = np.random.default_rng(3), 40
    n_wk, later = (sp.random_array((V, K), density=0.05, format="csr", rng=rng) for _ in range(2))
    n_wk.data, later.data = (rng.integers(1, 9, len(m.data)) for m in (n_wk, later))
    later = sp.csr_array(n_wk + later)
    later.data -= rng.integers(0, 2, later.nnz)  # some are gone
    later.eliminate_zeros()
    shard = lay_out(sp.csr_array(np.full((4, V), 50)), K, later, rng, [slice(0, 4)])[0]
    found = []
    for few in (0, 10**6):  # compiled, and in NumPy
        monkeypatch.setattr(sampler, "FEW", few)
        counts = sampler.with_lists(shard, sampler.none(shard, K), later, np.arange(K))
        found.append((counts, sampler.changes(shard, counts, n_wk)))
    (a, change), (b, twin) = found
    np.testing.assert_array_equal(a.lists, b.lists)
    np.testing.assert_array_equal(a.size, b.size)
    assert change.has_canonical_format and (change.data != 0).all()
    np.testing.assert_array_equal(change.toarray(), (later - n_wk).toarray())
    np.testing.assert_array_equal(twin.toarray(), (later - n_wk).toarray())


@pytest.mark.parametrize("few", [0, 10**6])  # compiled, and in NumPy
def test_word_term_equals_its_twin(monkeypatch, few):
    monkeypatch.setattr(sampler, "FEW", few)
    rng, K, V = np.random.default_rng(2), 9, 6
    n_wk = sp.csr_array(rng.integers(0, 400, size=(V, K)))
    shard = lay_out(sp.csr_array(np.ones((4, V), dtype=int)), K, n_wk, rng, [slice(0, 4)])[0]
    counts = sampler.empty(shard, K, n_wk)
    got = sampler.word_term(shard, counts, 0.3)
    assert got == pytest.approx(np.sum(gammaln(n_wk.toarray() + 0.3) - gammaln(0.3)), rel=1e-12)


def twin_mixture(words, counts, phi, alpha, n_steps):
    q = alpha * phi[words]
    q /= q.sum(axis=1, keepdims=True)
    n = alpha + counts @ q
    for _ in range(n_steps):
        for j in range(len(words)):
            new = (n - q[j]) * phi[words[j]]
            n += counts[j] * (new / new.sum() - q[j])
            q[j] = new / new.sum()
    return n


def test_mixtures_equal_their_twin():
    rng, K, V = np.random.default_rng(4), 4, 8
    phi, alpha = rng.dirichlet(np.ones(V), K).T.copy(), rng.random(K)
    X = sp.csr_array(rng.poisson(0.9, size=(10, V)))
    theta = np.empty((10, K))
    topics.mixtures(X.indptr, X.indices, X.data, phi, alpha, 6, 0.0, theta)
    for d in range(10):
        row = slice(X.indptr[d], X.indptr[d + 1])
        np.testing.assert_allclose(theta[d], twin_mixture(X.indices[row], X.data[row], phi, alpha, 6), rtol=1e-12)


def enumerate_document(words, phi, alpha):
    """p(words) and E[n_dk + alpha] by summing over all topics of all tokens."""
    K, total, mean = len(alpha), 0.0, np.zeros(len(alpha))
    for z in product(range(K), repeat=len(words)):
        n = np.bincount(z, minlength=K)
        p = np.exp(np.sum(gammaln(n + alpha) - gammaln(alpha)) + gammaln(alpha.sum()) - gammaln(len(words) + alpha.sum()))
        p *= np.prod(phi[words, list(z)])
        total, mean = total + p, mean + p * (n + alpha)
    return total, mean / total


def test_left_to_right_and_gibbs_agree_with_enumeration():
    rng, K, V = np.random.default_rng(6), 3, 5
    phi, alpha = rng.dirichlet(np.full(V, 0.5), K).T.copy(), np.array([0.2, 0.5, 0.3])
    words = np.array([0, 3, 3, 1, 4, 0])
    exact, mean = enumerate_document(words, phi, alpha)
    out = np.empty(len(words))
    runs = []
    for seed in range(200):
        topics.left_to_right(words, phi, alpha, 2000, np.uint64(seed * 7919), out)
        runs.append(np.prod(out))
    error = np.std(runs) / np.sqrt(len(runs))
    assert error < 0.003 * exact
    assert abs(np.mean(runs) - exact) < 5.5 * error
    thetas = []
    for seed in range(100):
        z, theta = np.empty(len(words), np.int64), np.zeros(K)
        topics.gibbs_mixture(words, phi, alpha, 20, 200, np.uint64(seed * 7919), z, theta)
        thetas.append(theta)
    error = np.std(thetas, axis=0) / 10
    assert (np.abs(np.mean(thetas, axis=0) - mean) < 5.5 * error).all()


def test_fewer_threads_than_asked_for_do_the_same_work(four_blocks, monkeypatch):
    rng, K, V, D = np.random.default_rng(5), 8, 40, 50
    X, base = sp.csr_array(rng.poisson(0.7, size=(D, V))), sp.csr_array((V, K), dtype=np.int64)
    shard = lay_out(X, K, base, rng, [slice(0, D)])[0]
    found = []
    for refuse in (False, True):
        if refuse:
            monkeypatch.setattr(
                "threading.Thread.start", lambda self: (_ for _ in ()).throw(RuntimeError("can't start new thread"))
            )
        counts = sampler.empty(shard, K, base)
        sampler.sweeps(shard, counts, (np.full(K, 0.1, np.float32), 0.01), 7, n_sweeps=3, threads=3)
        found.append(counts.z)
    np.testing.assert_array_equal(*found)


def test_one_block_is_sampled_without_the_rotation_to_the_same_bits():
    rng, K, V, D = np.random.default_rng(5), 20, 60, 80
    X, none = sp.csr_array(rng.poisson(0.7, size=(D, V))), sp.csr_array((V, K), dtype=np.int64)
    shard = lay_out(X, K, none, rng, [slice(0, D)])[0]
    one, other = (sampler.empty(shard, K, none) for _ in range(2))
    sampler.sweeps(shard, one, (np.full(K, 0.1, np.float32), 0.01), 7, n_sweeps=3)
    stops, private, signals = sampler.active(shard, 1.0), np.zeros((1, K), dtype=np.int64), np.zeros(8, dtype=np.int64)
    task = lda.Task(np.full(K, 0.1, np.float32), 0.01, np.uint64(7), 0, 3, shard.longest, stops, private, signals, 1)
    lda.rotate(shard.layout, other, task)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_small_corpus_waits_for_no_compiler_of_the_rotation(monkeypatch):
    monkeypatch.setattr(lda, "rotate", lambda *_: pytest.fail("compiled"))
    X = np.random.default_rng(0).poisson(0.3, (20, 30))
    assert tallies.LDA(n_topics=2, max_iter=4, burn_in=2).fit(X).n_iter_ == 4
