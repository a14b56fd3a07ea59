"""The compiled loops of PLN against NumPy."""

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from tallies.counts.kernels import plain as pln_plain
from tallies.counts.kernels import sequential as pln_sequential
from tallies.counts.kernels import steps as pln_steps
from tallies.kernels.blocks import rowwise


@pytest.fixture
def cells():
    rng = np.random.default_rng(0)
    n, p = 23, 150  # two full chunks and a rest
    M, O = rng.normal(0, 2, (n, p)), rng.normal(0, 1, (n, p))
    O[0, :5] = -1e4  # missing cells
    Y = rng.poisson(np.exp(np.minimum(M, 5))).astype(float)
    return M, O, Y, rng.uniform(0.5, 2, n), rng.uniform(0.05, 30, p)


def trial(steps, M, O, Y, v, w, S2, A, close):
    """The trial at M itself, from variances S2: a step of length 0 along a direction that is known."""
    n, p = M.shape
    g, D, S, pY = np.zeros_like(M), np.zeros_like(M), np.zeros((4, n, p), M.dtype), np.zeros((4, n, p), M.dtype)
    X, along, B, d, M_trial, R = (
        np.zeros((n, 0)),
        np.zeros((1, p), M.dtype),
        np.zeros((0, p), M.dtype),
        *np.zeros((3, n, p), M.dtype),
    )
    pairs = np.array([0, 2], dtype=np.int64), g, D, S, pY, 3.0, X, R[:0], along, d
    slope, fit, total = steps.attempt(None, *pairs, M, S2.copy(), w, B, v, 0.0, M_trial, R, O, Y, w, S2, A, close)
    assert slope == 0.0
    np.testing.assert_array_equal(M_trial, M)
    return fit, total


@rowwise
def exp_and_log(block, i, x, z, out):
    out.put(x(i).exp(), 0)
    out.put(z(i).log(), 1)


@njit
def functions(x, z, out):
    exp_and_log(0, x, z, out)


@pytest.mark.parametrize(("kind", "least", "close"), [(np.float64, -700, 4e-16), (np.float32, -85, 2.5e-7)])
def test_exp_and_log_are_exact_to_rounding(kind, least, close):
    x = np.concatenate([np.linspace(least, 60, 4001), [0.0, 1e-9, -1e-9]]).astype(kind)
    z = np.exp(np.linspace(least + 10, 60, 3999))
    z = np.concatenate([z, np.array([1.0, np.sqrt(2), np.sqrt(0.5), 1 - 1e-12, 1 + 1e-12])]).astype(kind)
    out = np.empty((2, len(x)), dtype=kind)
    functions(x[None], z[None], out)
    np.testing.assert_allclose(out[0], np.exp(x.astype(float)), rtol=close)
    np.testing.assert_allclose(out[1], np.log(z.astype(float)), rtol=close, atol=close / 4)


def test_arrays_whose_rows_are_not_in_one_piece_are_refused():
    """Neighbours are read at once: of a transposed array they would be others, and beyond its end."""
    x = np.ones((8, 1))
    with pytest.raises(TypingError, match="must be C-contiguous"):
        functions(x.T[:, ::2], x.T, np.empty((2, 8)))


def test_trial_solves_its_equation_and_equals_numpy(cells):
    M, O, Y, v, w = cells
    ours, twin = [np.full_like(M, 0.1), np.empty_like(M)], [np.full_like(M, 0.1), np.empty_like(M)]
    a = trial(pln_steps, M, O, Y, v, w, *ours, 1e-6)
    b = trial(pln_plain, M, O, Y, v, w, *twin, 1e-6)
    S2, A = ours
    np.testing.assert_allclose(S2 * (w + A), 1.0, rtol=1e-12)
    np.testing.assert_allclose(A, np.exp(O + M + S2 / 2), rtol=1e-13, atol=1e-300)  # exp(-1e4) is bounded at exp(-700)
    np.testing.assert_allclose(S2, twin[0], rtol=1e-12)
    np.testing.assert_allclose(a[0], b[0], rtol=1e-13)
    np.testing.assert_allclose(a[1], b[1], rtol=1e-12)
    direct = (v[:, None] * (Y * (O + M) - A + 0.5 * np.log(S2))).sum()
    np.testing.assert_allclose(a[0], direct, rtol=1e-12)


def test_variances_far_too_large_are_no_division_by_zero(cells):
    """There c + sqrt(c^2 + 2A) of the equation is nothing but rounding, or 0."""
    M, *rest = cells
    S2 = np.full_like(M, 12.0)
    with np.errstate(all="raise", under="ignore"):
        fit, total = trial(pln_plain, M + 30.0, *rest, S2, np.empty_like(M), 1e-4)
    assert np.isfinite([fit, *total]).all()


def test_trial_in_single_precision_is_near(cells):
    M, O, Y, v, w = cells
    O = np.maximum(O, -200.0)
    single = [a.astype(np.float32) for a in (M, O, Y)]
    ours, twin = [np.full_like(single[0], 0.1), np.empty_like(single[0])], [np.full_like(M, 0.1), np.empty_like(M)]
    a = trial(pln_steps, *single, v, w, *ours, 1e-4)
    b = trial(pln_plain, M, O, Y, v, w, *twin, 1e-6)
    np.testing.assert_allclose(ours[0], twin[0], rtol=2e-5)
    np.testing.assert_allclose(ours[1], twin[1], rtol=2e-5, atol=1e-30)
    np.testing.assert_allclose(a[0], b[0], rtol=1e-6)
    np.testing.assert_allclose(a[1], b[1], rtol=1e-5)


@pytest.fixture
def pairs(cells):
    """A point with three of four slots of L-BFGS in use: gradient, preconditioner, moves of the means, moves of the gradient."""
    rng = np.random.default_rng(2)
    shape = cells[0].shape
    return rng.normal(size=shape), rng.uniform(0.1, 3, shape), rng.normal(size=(4, *shape)), rng.normal(size=(4, *shape))


@pytest.mark.parametrize(("kind", "close"), [(np.float64, 1e-12), (np.float32, 3e-5)])
@pytest.mark.parametrize("follows", [True, False])
def test_a_new_direction_and_a_step_along_it_equal_numpy(cells, pairs, follows, kind, close):
    M, O, counts, v, w = cells
    g, D, S, Y = pairs
    rng = np.random.default_rng(3)
    toward, slots = (0.7, rng.normal(size=4), rng.normal(size=4)), np.array([0, 2, 3])
    X, B = rng.normal(size=(len(M), 2)), rng.normal(size=(2, M.shape[1]))
    S2, along, c = rng.uniform(0.01, 0.5, M.shape) / w, rng.normal(size=(3, M.shape[1])), np.zeros_like(M)
    O = np.maximum(O, -200.0)
    out = []
    for steps, dtype in ((pln_steps, kind), (pln_plain, np.float64)):
        M_, S2_, B_, g_, D_, S_, Y_, O_, counts_, along_ = (a.astype(dtype) for a in (M, S2, B, g, D, S, Y, O, counts, along))
        d, M_trial, R, S2_trial, A = (np.empty_like(M_) for _ in range(5))
        rest = M_, S2_, w, B_, v, 0.3, M_trial, R, O_, counts_, w, S2_trial, A, 1e-6
        slope, _, _ = steps.attempt(toward, slots, g_, D_, S_, Y_, 3.0, X, R if follows else R[:0], along_, d, *rest)
        out.append((slope, d, M_trial, R))
        np.testing.assert_array_equal(S2_, S2.astype(dtype))
    for x, y in zip(*out, strict=True):
        np.testing.assert_allclose(x, y, rtol=close, atol=100 * close)
    used = list(slots)
    pln_plain.bend(M, S2, w, X, B, c)
    direct = -(D * (toward[0] * g + np.tensordot(toward[1][used], Y[used], 1)) + np.tensordot(toward[2][used], S[used], 1))
    direct = np.clip(direct, -3, 3) - v[:, None] * D * (X @ along[:2] + (c * along[2] if follows else 0.0))
    np.testing.assert_allclose(out[1][1], direct, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(out[1][3], np.sqrt(v)[:, None] * (M + 0.3 * out[1][1] - X @ B), rtol=1e-12, atol=1e-12)


def test_bend_equals_its_definition(cells):
    M, O, Y, v, w = cells
    S2, A = np.full_like(M, 0.1), np.empty_like(M)
    pln_plain.trial(M, O, Y, v, w, S2, A, 1e-9)
    rng = np.random.default_rng(4)
    X, B, c = rng.normal(size=(len(M), 2)), rng.normal(size=(2, M.shape[1])), np.empty_like(M)
    pln_plain.bend(M, S2, w, X, B, c)
    np.testing.assert_allclose(c, 2 * (M - X @ B) - A * S2**2 / (1 + A * S2**2 / 2), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize(("kind", "close"), [(np.float64, 1e-11), (np.float32, 3e-4)])
@pytest.mark.parametrize(
    ("slot", "used", "follows"), [(2, [0, 2, 3], True), (-1, [], True), (-1, [0, 3], False), (2, [0, 2, 3], False)]
)
def test_slopes_equal_numpy(cells, pairs, slot, used, follows, kind, close):
    M, O, Y, v, w = cells
    S2, A = np.full_like(M, 0.1), np.empty_like(M)
    pln_plain.trial(M, O, Y, v, w, S2, A, 1e-6)
    rng = np.random.default_rng(1)
    pull, X, shift = rng.normal(size=M.shape), rng.normal(size=(len(M), 2)), rng.normal(size=(2, M.shape[1]))
    slots, keep = np.array(used, dtype=np.int64), (rng.uniform(size=M.shape[1]) < 0.7).astype(float)
    B, c = rng.normal(size=(2, M.shape[1])), np.zeros(M.shape)
    out = []
    for steps, dtype in ((pln_steps, kind), (pln_plain, np.float64)):
        pull_, A_, Y_, S2_, M_, B_, c_, keep_, g, D, pS, pY = (a.astype(dtype) for a in (pull, A, Y, S2, M, B, c, keep, *pairs))
        rest = (1.5 * M_, M_), slot, slots, g, D, pS, pY, B_, c_ if follows else c_[:0], keep_, A_
        sums = steps.slopes(pull_, X, shift, np.sqrt(v), A_, Y_, S2_, w, 1.3 * w, *rest)
        if slot < 0:
            sums[1][:] = 0.0  # s'y of no new pair: nobody asks
        out.append((*sums, A_, g, D, pS, pY))
    for x, y in zip(*out, strict=True):
        np.testing.assert_allclose(x, y, rtol=close, atol=close * max(1.0, np.abs(y).max()))
    _, sy, sg, yDy, yDg, ZDy, share, g, D, pS, pY = out[1]
    np.testing.assert_allclose(share, 1.0 - 1.3 * w * v[:, None] * D, rtol=1e-10, atol=1e-12)
    if follows:
        pln_plain.bend(1.5 * M, S2, w, X, B, c)
    wide = np.concatenate([np.broadcast_to(X.T[:, :, None], (2, *M.shape)), c[None]])  # [X c] of every cell
    for found, y in ((ZDy[-2], g), (ZDy[-1], v[:, None] * c)):
        np.testing.assert_allclose(found, np.einsum("i,dij,ij->dj", v, wide, D * y), rtol=1e-10, atol=1e-10)
    if slot >= 0:  # the twin itself against the definition
        np.testing.assert_allclose(pS[slot], 0.5 * M * keep, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(sy[used], (pS[used] * pY[slot]).sum(axis=(1, 2)), rtol=1e-10)
        np.testing.assert_allclose(sg[used], (pS[used] * g).sum(axis=(1, 2)), rtol=1e-10)
        np.testing.assert_allclose(ZDy[used], np.einsum("i,dij,ij,kij->kdj", v, wide, D, pY[used]), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(yDg[used], (pY[used] * D * g).sum(axis=(1, 2)), rtol=1e-10)
        np.testing.assert_allclose(yDy[np.ix_(used, used)], np.einsum("aij,ij,bij->ab", pY[used], D, pY[used]), rtol=1e-10)


@pytest.mark.parametrize(("kind", "close"), [(np.float64, 1e-11), (np.float32, 1e-4)])
def test_sums_of_columns_are_those_of_all_rows(kind, close):
    """They are emptied into double precision every 256 rows, which is no divisor of 700."""
    rng = np.random.default_rng(2)
    A, counts, S2, pull, M, g = rng.uniform(0.5, 2, (6, 700, 3))
    S, pairs = rng.normal(size=(2, 5, 700, 3))
    X, shift, w, slots = rng.normal(size=(700, 2)), rng.normal(size=(2, 3)), np.ones(3), np.array([0, 2, 3])
    out = []
    for steps, dtype in ((pln_steps, kind), (pln_plain, np.float64)):
        a, y, s2, p, m, g_, d, S_, Y_ = (part.astype(dtype) for part in (A, counts, S2, pull, M, g, g, S, pairs))
        rest = (1.5 * m, m), 2, slots, g_, d, S_, Y_, shift.astype(dtype), m.copy(), np.ones(3, dtype), a
        out.append(steps.slopes(p, X, shift, np.ones(700), a, y, s2, w, 1.3 * w, *rest)[-1])
    np.testing.assert_allclose(out[0], out[1], rtol=close, atol=close * np.abs(out[1]).max())


def draw_twin(y, rate, a, b, L, uniforms):
    """The sequential proposal, one draw at a time, in NumPy."""
    grid = np.linspace(-6, 6, 41)
    out = np.zeros(len(uniforms))
    for s, row in enumerate(uniforms):
        u = np.zeros(len(y))

        def log_target(x, j, u=u):
            d = L[j, :j] @ u[:j] + L[j, j] * x
            return -0.5 * x**2 + (y[j] - b[j]) * d - rate[j] * np.exp(d) + 0.5 * a[j] * d**2

        for j in range(len(y)):
            f = log_target(grid, j)
            top = f.max()
            f = np.exp(f - top)
            mass = np.concatenate([[0], np.cumsum((f[1:] + f[:-1]) / 2 * 0.3)])
            k = np.searchsorted(mass[1:-1], row[j] * mass[-1]) + 1
            low, slope, rest = f[k - 1], (f[k] - f[k - 1]) / 0.3, row[j] * mass[-1] - mass[k - 1]
            t = rest / low if abs(slope) < 1e-14 else (-low + np.sqrt(low**2 + 2 * slope * rest)) / slope
            u[j] = grid[k - 1] + t
            out[s] += log_target(u[j], j) - np.log((low + slope * t) / mass[-1]) - 0.5 * np.log(2 * np.pi)
    return out


def test_sequential_draws_equal_numpy():
    rng = np.random.default_rng(0)
    p = 4
    L = np.tril(rng.normal(size=(p, p)) * 0.3) + 0.4 * np.eye(p)
    L *= np.sign(np.diagonal(L))
    y, a = np.array([0.0, 3, 10, 1]), np.array([0.5, 3, 9, 1])
    arguments = y, np.array([0.4, 2.5, 9, 1.2]), a, y - a, L, rng.random((50, p))
    np.testing.assert_allclose(pln_sequential.draw(*arguments), draw_twin(*arguments), rtol=1e-8, atol=1e-8)


def test_pairs_stay_in_single_precision_when_the_point_is_in_double(cells, pairs):
    M, O, Y, v, w = cells
    g, D, S, pY = pairs
    S2, A = np.full_like(M, 0.1), np.empty_like(M)
    trial(pln_steps, M, O, Y, v, w, S2, A, 1e-6)
    X, shift, slots, out = np.ones((len(M), 1)), np.zeros((1, M.shape[1])), np.array([0, 2, 3]), []
    for kind in (np.float32, np.float64):
        pull, A_, g_, D_, S_, Y_ = M.copy(), A.copy(), g.copy(), D.astype(kind), S.astype(kind), pY.astype(kind)
        rest = A_, Y, S2, w, 1.3 * w, (1.5 * M, M), 2, slots, g_, D_, S_, Y_, shift, np.empty_like(M), np.ones(M.shape[1]), A_
        sums = pln_steps.slopes(pull, X, shift, np.sqrt(v), *rest)
        out.append((*sums, A_, g_, D_, S_, Y_))
    for x, y in zip(*out, strict=True):
        np.testing.assert_allclose(x, y, rtol=3e-6, atol=3e-6 * np.abs(y).max())
