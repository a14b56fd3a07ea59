"""Vector-free L-BFGS against the usual two loops over vectors."""

import numpy as np

from tallies import lbfgs


def two_loops(S, Y, g, D, order):
    q, alpha = g.copy(), {}
    for k in reversed(order):
        alpha[k] = S[k] @ q / (S[k] @ Y[k])
        q -= alpha[k] * Y[k]
    last = order[-1]
    r = np.clip(S[last] @ Y[last] / (Y[last] @ (D * Y[last])), 0.2, 5) * D * q
    for k in order:
        r += S[k] * (alpha[k] - Y[k] @ r / (S[k] @ Y[k]))
    return -r


def test_direction_equals_the_two_loops_over_vectors():
    rng = np.random.default_rng(0)
    H = np.diag(rng.uniform(0.5, 3, 12)) + 0.1
    S = rng.normal(size=(5, 12))
    Y, g, D = S @ H, rng.normal(size=12), 1 / np.diag(H)
    order = [3, 4, 0, 2]  # slot 1 is not in use
    parts = [lbfgs.dots(S[:, b], Y[:, b], D[b] * Y[:, b], g[b]) for b in (slice(0, 5), slice(5, 12))]
    table = lbfgs.Dots(*(x + y for x, y in zip(*parts, strict=True)))
    to = lbfgs.direction(table, order)
    d = -(D * (to.scale_g * g + to.of_y @ Y) + to.of_s @ S)
    np.testing.assert_allclose(d, two_loops(S, Y, g, D, order), rtol=1e-12)
    np.testing.assert_allclose(lbfgs.along(to, D * g, S, D * Y), d, rtol=1e-12)


def test_without_pairs_the_direction_is_preconditioned_descent():
    to = lbfgs.direction(lbfgs.Dots(np.eye(2), np.ones(2), np.eye(2), np.ones(2)), [])
    assert to.scale_g == 1
    assert not to.of_s.any()
    assert not to.of_y.any()
    none = lbfgs.Dots(np.zeros((0, 0, 3)), np.zeros((0, 3)), np.zeros((0, 0, 3)), np.zeros((0, 3)))  # of three searches
    to = lbfgs.direction(none, [])
    assert to.of_s.shape == to.of_y.shape == (0, 3)
    assert to.scale_g.tolist() == [1, 1, 1]


def test_backtrack_stays_inside_and_survives_infinity():
    assert lbfgs.backtrack(1.0, -1.0, np.inf) == 0.1
    assert 0.1 <= lbfgs.backtrack(1.0, -1.0, 1e-9) <= 0.5


def test_searches_side_by_side_are_those_one_by_one():
    rng = np.random.default_rng(1)
    S = rng.normal(size=(4, 9, 3))
    Y, g, D = S * rng.uniform(0.5, 3, (9, 1)), rng.normal(size=(9, 3)), rng.uniform(0.5, 2, (9, 1))
    tables = [lbfgs.dots(S[..., o], Y[..., o], D[:, 0] * Y[..., o], g[:, o]) for o in range(3)]
    tables[1].sy[:, 2] = tables[1].yDy[:, 2] = 0.0  # the second search took no step at the third pair
    together = lbfgs.direction(lbfgs.Dots(*(np.stack(parts, axis=-1) for parts in zip(*tables, strict=True))), range(4))
    for o, order in enumerate([[0, 1, 2, 3], [0, 1, 3], [0, 1, 2, 3]]):
        alone = lbfgs.direction(tables[o], order)
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a[..., o], b, rtol=1e-12)


def test_a_step_that_loses_no_more_than_rounding_falls():
    assert lbfgs.falls(1.0, 1.0 + 5e-14, 1.0, -1e-15)
    assert not lbfgs.falls(1.0, 1.1, 1.0, -1e-15)
    assert not lbfgs.falls(1.0, 0.5, 1.0, 0.0)  # no descent
    assert not lbfgs.falls(np.inf, np.nan, 1.0, -1.0)
