"""Each kernel against the same sums in plain NumPy."""

from collections import Counter

import numpy as np
import pytest

from tallies import FEMNetwork
from tallies.backends import carry_out
from tallies.categories import products
from tallies.categories import terms as term_room
from tallies.categories.kernels import fem as kernels
from tallies.categories.network.alike import sequence_weights
from tallies.categories.terms import features, groups_of, make_terms


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    sizes = np.array([3, 2, 4])
    codes = np.column_stack([rng.integers(0, m, 40) for m in sizes]).astype(np.int32)
    codes[3, 1] = codes[7, 0] = -1
    terms = make_terms(sizes, groups_of(3, [1, 2]))
    return rng, codes, terms, features(terms, codes)


def one_hot(ids, p):
    X = np.zeros((len(ids), p))
    for i, row in enumerate(ids):
        X[i, row[row >= 0]] = 1.0
    return X


def softmax(H, starts):
    return np.hstack([np.exp(h - np.logaddexp.reduce(h, axis=1, keepdims=True)) for h in np.split(H, starts[1:-1], axis=1)])


def lse(H, starts):
    return np.column_stack([np.logaddexp.reduce(h, axis=1) for h in np.split(H, starts[1:-1], axis=1)])


def test_active_ids(case):
    _, codes, terms, ids = case
    for i, row in enumerate(codes):
        for t, group in enumerate(terms.all()):
            states = [row[v] for v in group]
            expected = -1 if min(states) < 0 else terms.offset[t] + np.ravel_multi_index(states, terms.shape(t))
            assert ids[i, t] == expected


@pytest.mark.parametrize("columns", [1, 2])
def test_softmax_rows_gather_and_scatter(case, columns):
    rng, _, terms, ids = case
    starts, weight = np.array([0, 2, 5]), rng.random((40, columns))
    W = rng.normal(0, 3, (terms.p, 5))
    H = one_hot(ids, terms.p) @ W
    each = np.broadcast_to(weight, (40, 2))
    P, total = H.copy(), np.zeros(2)
    kernels.softmax_rows(P, weight, starts, total, 0.0, kernels.room_for(2, 5))
    want = softmax(H, starts) * np.repeat(each, [2, 3], axis=1)
    np.testing.assert_allclose(P, want, rtol=1e-13)
    np.testing.assert_allclose(total, (each * lse(H, starts)).sum(axis=0), rtol=1e-13)
    G = np.zeros_like(W)
    kernels.gather(ids, W, P)
    np.testing.assert_allclose(P, H, rtol=1e-12, atol=1e-13)
    kernels.scatter(ids, want, G)
    np.testing.assert_allclose(G, one_hot(ids, terms.p).T @ want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("columns", [0, 1, 3])
@pytest.mark.parametrize("widths", [(2, 2, 2), (1, 3, 4)])
def test_softmax_without_the_columns_of_last_states_is_that_with_scores_of_zero_there(columns, widths):
    rng = np.random.default_rng(2)
    starts = np.concatenate([[0], np.cumsum(widths)])
    weight = rng.random((300, columns)) if columns else np.ones((300, 1))
    H = rng.normal(0, 8, (300, starts[-1]))
    H[::50] *= 40  # beyond what is exponentiated as it is
    last = starts[1:] - 1
    H[:, last] = 0.0
    each = np.broadcast_to(weight, (300, 3))
    P, total = np.delete(H, last, axis=1), np.zeros(3)
    kernels.softmax_rows(P, weight, starts - np.arange(4), total, 1.0, kernels.room_for(3, P.shape[1]))
    np.testing.assert_allclose(
        P, np.delete(softmax(H, starts) * np.repeat(each, widths, axis=1), last, axis=1), rtol=1e-12, atol=1e-290
    )
    np.testing.assert_allclose(total, (each * lse(H, starts)).sum(axis=0), rtol=1e-12)


def test_softmax_of_huge_scores_stays_finite():
    H = np.array([[1e4, -1e4, 0.0], [-1e9, -1e9, -1e9]])
    total = np.zeros(1)
    kernels.softmax_rows(H, np.ones((2, 1)), np.array([0, 3]), total, 0.0, kernels.room_for(1, 3))
    np.testing.assert_allclose(H, [[1, 0, 0], [1 / 3] * 3], atol=1e-300)
    assert total[0] == pytest.approx(1e4 - 1e9 + np.log(3))


def test_log_sums_of_many_rows_of_low_scores_are_all_counted():
    # sums of e^-20 are multiplied before a logarithm is taken: forty of them are no longer a number
    H = np.random.default_rng(4).normal(-20, 1, (500, 6))
    H[7] -= 400  # and one row whose scores cannot be exponentiated as they are
    starts, total, P = np.array([0, 2, 6]), np.zeros(2), H.copy()
    kernels.softmax_rows(P, np.ones((500, 1)), starts, total, 0.0, kernels.room_for(2, 6))
    np.testing.assert_allclose(P, softmax(H, starts), rtol=1e-12)
    np.testing.assert_allclose(total, lse(H, starts).sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("terms", [3, 4, 9])
def test_features_of_many_columns_are_added_up_four_at_a_time_and_term_by_term(terms):
    rng = np.random.default_rng(6)
    ids = (rng.integers(0, 3, (50, terms)) + 3 * np.arange(terms)).astype(np.int32)
    ids[rng.random(ids.shape) < 0.15] = -1
    X, W = one_hot(ids, 3 * terms), rng.normal(size=(3 * terms, kernels.WIDE + 5))
    H, G, counted = np.empty((50, W.shape[1])), np.ones_like(W), np.zeros((3 * terms, 7))
    kernels.gather(ids, W, H)
    np.testing.assert_allclose(H, X @ W, rtol=1e-12, atol=1e-13)
    kernels.scatter(ids, H, G)
    np.testing.assert_allclose(G, 1 + X.T @ H, rtol=1e-12, atol=1e-12)
    states, weight, starts = rng.integers(-1, 3, (50, 2)), rng.random(50), np.array([0, 3, 7])
    kernels.scatter_states(ids, states, weight, starts, counted)
    shown = one_hot(np.where(states >= 0, states + starts[:-1], -1), 7)
    np.testing.assert_allclose(counted, X.T @ (shown * weight[:, None]), rtol=1e-12)


def test_counting(case):
    rng, _, terms, ids = case
    X, weight = one_hot(ids, terms.p), rng.random((40, 2))
    dense = np.full_like(X, 7.0)
    kernels.one_hot(ids, dense)
    np.testing.assert_array_equal(dense, X)
    counts, G = np.zeros((terms.p, 2)), np.zeros((terms.p, terms.p))
    kernels.scatter(ids, weight, counts)
    np.testing.assert_allclose(counts, X.T @ weight)
    w = np.ascontiguousarray(weight[:, 0])
    kernels.gram(ids, w, G)
    np.testing.assert_allclose(np.tril(G), np.tril((X.T * w) @ X))
    kept, R = np.where(np.arange(terms.p) % 3 == 0, 1 + np.arange(terms.p) // 3, -1), np.zeros((1 + terms.p, 1 + terms.p))
    full = ids[(ids >= 0).all(axis=1)]
    kernels.gram(np.insert(kept[full], 0, 0, axis=1), w[: len(full)], R)
    Z = np.zeros((len(full), 1 + terms.p))
    Z[:, 0] = 1.0
    Z[:, kept[kept >= 0]] = one_hot(full, terms.p)[:, kept >= 0]
    np.testing.assert_allclose(np.tril(R), np.tril((Z.T * w[: len(full)]) @ Z))


def test_kernel_rows_and_neighbours(case):
    rng, codes, _, _ = case
    other = codes[:11]
    equal = (codes[:, None] == other).sum(axis=2)
    table, a, H = rng.random((40, 4)), rng.normal(size=(11, 2)), np.empty((40, 2))
    kernels.kernel_rows(codes, other, table, a, H)
    np.testing.assert_allclose(H, np.take_along_axis(table, equal, axis=1) @ a)
    near = ((codes[:, None] == codes).sum(axis=2) >= 2).sum(axis=1)
    np.testing.assert_array_equal(carry_out(next(sequence_weights(codes, 2 / 3))), 1 / near)


@pytest.mark.parametrize("synchronous", [True, False])
def test_advance(synchronous):
    rng = np.random.default_rng(1)
    sizes = np.array([2, 3, 2])
    terms, starts = make_terms(sizes, groups_of(3, [1, 2])), np.array([0, 2, 5, 7])
    W, uniform = rng.normal(size=(terms.p, 7)), rng.random((50, 3))
    state = np.array([1, 2, 0], dtype=np.int32)
    out = np.empty((50, 3), dtype=np.int32)
    kernels.advance(state, W, terms.variables, terms.strides, terms.offset, starts, uniform, synchronous, out)
    now = state.copy()
    for t in range(50):
        new = now.copy()
        for o in range(3):
            seen = now if synchronous else new
            h = W[features(terms, seen[None])[0]].sum(axis=0)
            p = np.exp(h[starts[o] : starts[o + 1]])
            new[o] = np.searchsorted(np.cumsum(p / p.sum()), uniform[t, o], side="right")
        np.testing.assert_array_equal(out[t], new)
        now = new


def test_direct_information_of_a_known_table():
    P = np.array([[0.3, 0.1], [0.15, 0.45]])
    fi, fj = P.sum(axis=1), P.sum(axis=0)
    want = np.sum(P * np.log(P / np.outer(fi, fj)))
    assert kernels.direct_information(np.log(P) + 3.0, fi, fj, 1e-13, 10000) == pytest.approx(want, rel=1e-10)
    assert kernels.direct_information(np.zeros((2, 2)), fi, fj, 1e-13, 100) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("last", [0.0, 1.0])
@pytest.mark.parametrize("columns", [1, 3])
def test_softmax_without_a_compiler(columns, last):
    rng = np.random.default_rng(4)
    starts, weight = np.array([0, 2, 3, 6]), rng.random((50, columns))
    H = rng.normal(0, 20, (50, 6))
    plain, total, other, sums = H.copy(), np.zeros(3), H.copy(), np.zeros(3)
    products.softmax_counts(other, weight, starts, sums, last, kernels.room_for(3, 6))
    products.softmax_counts(plain, weight, starts, total, last)
    np.testing.assert_allclose(plain, other, rtol=1e-12, atol=1e-290)
    np.testing.assert_allclose(total, sums, rtol=1e-12)


def test_both_ways_to_add_up_features_give_the_same_bits(case, monkeypatch):
    rng, codes, terms, ids = case
    W, H = rng.normal(size=(terms.p, 3)), rng.normal(size=(40, 3))
    found = []
    for small in (1 << 20, 0):
        monkeypatch.setattr(products, "SMALL", small)
        monkeypatch.setattr(term_room, "SMALL", small)
        out = np.zeros_like(W)
        products.add_product(ids, H, out)
        found.append((features(terms, codes), products.product(ids, W), out, products.one_hot(ids, terms.p)))
    for plain, compiled in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, compiled)
        assert plain.dtype == compiled.dtype


@pytest.mark.parametrize(("variables", "states"), [(25, 2), (30, 10)])
def test_tables_of_middling_size_are_left_to_compiled_loops(monkeypatch, variables, states):
    # NumPy's ways take several times as long: probabilities in every sweep, and where features are picked, sums one by one
    X, calls = np.random.default_rng(5).integers(0, states, (8000, variables)), Counter()
    for name in ("softmax_rows", "scatter", "scatter_states"):
        loop = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *given, name=name, loop=loop: (calls.update([name]), loop(*given))[1])
    gather, orders = kernels.gather, []
    monkeypatch.setattr(kernels, "gather", lambda ids, W, H: (orders.append(W.flags.c_contiguous), gather(ids, W, H)))
    model = FEMNetwork(ridge=1.0, lag=1, max_iter=4).fit(X)
    assert all(orders), "weights by columns would be read at a quarter of the speed"
    picks = states == 10
    # for each block of rows one in a sweep; where features are picked the survey counts them with states, and by themselves
    assert calls["softmax_rows"] >= model.n_iter_
    assert calls["scatter"] == picks * (calls["softmax_rows"] * (model.n_iter_ + 1)) // model.n_iter_
    assert calls["scatter_states"] == picks * calls["softmax_rows"] // model.n_iter_
