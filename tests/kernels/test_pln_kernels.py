"""The compiled loops of PLN against NumPy."""

import numpy as np
import pytest

from tallies.kernels import pln, pln_plain, pln_sequential


@pytest.fixture
def cells():
    rng = np.random.default_rng(0)
    n, p = 23, 150  # two full chunks and a rest
    M, O = rng.normal(0, 2, (n, p)), rng.normal(0, 1, (n, p))
    O[0, :5] = -1e4  # missing cells
    Y = rng.poisson(np.exp(np.minimum(M, 5))).astype(float)
    return M, O, Y, rng.uniform(0.5, 2, n), rng.uniform(0.05, 30, p)


def test_exp_and_log_are_exact_to_rounding():
    x = np.concatenate([np.linspace(-700, 60, 4001), [0.0, 1e-9, -1e-9]])
    power, out = np.empty_like(x), np.empty_like(x)
    pln.row_exp(x, power, power.view(np.int64), out)
    np.testing.assert_allclose(out, np.exp(x), rtol=4e-16)
    z = np.exp(np.linspace(-690, 60, 3001))
    z = np.concatenate([z, np.array([1.0, np.sqrt(2), np.sqrt(0.5), 1 - 1e-12, 1 + 1e-12])])
    power, out = np.empty_like(z), np.empty_like(z)
    pln.row_log(z, power, power.view(np.int64), out)
    np.testing.assert_allclose(out, np.log(z), rtol=4e-16, atol=1e-16)


def test_trial_solves_its_equation_and_equals_numpy(cells):
    M, O, Y, v, w = cells
    ours, twin = [np.full_like(M, 0.1), np.empty_like(M)], [np.full_like(M, 0.1), np.empty_like(M)]
    a = pln.trial(M, O, Y, v, w, *ours, 1e-6)
    b = pln_plain.trial(M, O, Y, v, w, *twin, 1e-6)
    S2, A = ours
    np.testing.assert_allclose(S2 * (w + A), 1.0, rtol=1e-12)
    np.testing.assert_allclose(A, np.exp(O + M + S2 / 2), rtol=1e-13, atol=1e-300)  # exp(-1e4) is bounded at exp(-700)
    np.testing.assert_allclose(S2, twin[0], rtol=1e-12)
    np.testing.assert_allclose(a[0], b[0], rtol=1e-13)
    np.testing.assert_allclose(a[1], b[1], rtol=1e-12)
    direct = (v[:, None] * (Y * (O + M) - A + 0.5 * np.log(S2))).sum()
    np.testing.assert_allclose(a[0], direct, rtol=1e-12)


def test_slopes_equal_numpy(cells):
    M, O, Y, v, w = cells
    S2, A = np.full_like(M, 0.1), np.empty_like(M)
    pln_plain.trial(M, O, Y, v, w, S2, A, 1e-6)
    pull = np.random.default_rng(1).normal(size=M.shape)
    out = [[np.empty_like(M), np.empty_like(M)] for _ in range(2)]
    T = [loops.slopes(pull, A, Y, v, S2, w, 1.3 * w, *arrays) for loops, arrays in zip((pln, pln_plain), out, strict=True)]
    np.testing.assert_allclose(T[0], T[1], rtol=1e-13)
    for x, y in zip(*out, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


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
