"""The kernel form, panels and the search for ridges: small numbers against their definitions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tallies.categories import choose, dual
from tallies.categories.model import Rows
from tallies.categories.network.by_pair import ridges_by_pair
from tallies.categories.network.climb import FREE, Problem
from tallies.categories.network.panels import Course, Found, Judging, Outputs, Panel, table_of
from tallies.categories.terms import Layout


def test_held_out_rows_tell_nothing_of_themselves():
    """What the dual weights of rows without weight are, as where a fold starts at a fit to all rows, changes no judgement."""
    rng = np.random.default_rng(0)
    codes, y, out = rng.integers(0, 3, (30, 4)).astype(np.int32), rng.integers(0, 2, 30), np.arange(30) % 3 == 0
    told = np.eye(2)[y]
    rows, judges = Rows(codes, told * ~out[:, None], 1.0 * ~out[:, None]), Rows(None, told * out[:, None], 1.0 * out[:, None])
    model = dual.Dual(Layout.of([3] * 4, [1, 2]), (2,))
    shard = dual.Whole(model, rows, judges).load()
    a = rng.normal(size=(30, 2))
    one, two = (model.rows(shard, None, model.first(model.survey(shard), W)) for W in (a, a * ~out[:, None]))
    np.testing.assert_array_equal(one, two)
    h = shard.K.K.astype(float) @ (a * ~out[:, None])
    log_p = h - np.log(np.exp(h).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(one, np.where(out, log_p[np.arange(30), y], 0.0), rtol=1e-12)
    agree = (codes[:, None] == codes).sum(axis=2)
    np.testing.assert_array_equal(shard.K.K, agree + agree * (agree - 1) // 2)


@pytest.mark.parametrize("by_pair", [True, False])
def test_the_objective_of_a_panel_is_its_equation(by_pair):
    """Eq. 1 of `panels`, written out: means over states have the common ridge, or hardly one beside those of pairs."""
    rng, sizes, outputs = np.random.default_rng(1), (3, 2, 4), np.array([0, 2])
    codes = np.column_stack([rng.integers(0, m, 40) for m in sizes]).astype(np.int32)
    weight, ridges = rng.uniform(0.5, 2.0, 40), rng.uniform(0.5, 3.0, (3, 3))
    model = Outputs(sizes, exclude=True, ridge=2.0)
    problem = Problem(model, table_of(Rows(codes, codes, weight[:, None]), sizes), outputs, ridges if by_pair else None)
    W = problem._exclude(problem.padded(rng.normal(size=(int(model.first[-1]), problem.columns))))
    W[model.first[1:] - 1] = 0.0  # of missing cells
    value = problem.at(W)[0]
    for k, o in enumerate(outputs):
        block = slice(problem.starts[k], problem.starts[k + 1])
        h = sum(W[model.first[j] + codes[:, j], block] for j in range(3))
        expected = weight @ (h[np.arange(40), codes[:, o]] - np.log(np.exp(h).sum(axis=1)))
        for j in range(3):
            V = W[model.first[j] : model.first[j] + sizes[j], block]
            mean = V.mean(axis=0)
            R, r = (ridges[j, o], FREE * 2.0) if by_pair else (2.0, 2.0)
            expected -= 0.5 * (R * ((V - mean) ** 2).sum() + r * sizes[j] * (mean**2).sum())
        assert value[k] == pytest.approx(expected, rel=1e-10)


def test_held_out_rows_judge_a_panel_by_their_weight():
    rng, sizes = np.random.default_rng(2), (3, 2, 4)
    codes = np.column_stack([rng.integers(0, m, 30) for m in sizes]).astype(np.int32)
    weight = rng.uniform(0.5, 2.0, 30)
    judges = table_of(Rows(codes[:10], codes[:10], weight[:10, None]), sizes)
    model = Judging(sizes, exclude=True)
    shard = Panel((1, 2)).load(table_of(Rows(codes[10:], codes[10:], weight[10:, None]), sizes, judges))
    W = rng.normal(size=(int(model.first[-1]), 6)).astype(np.float32)
    found = model.rows(shard, Found(W, np.zeros(2), np.zeros(2), np.zeros(2, dtype=bool)), Course(None))
    h = sum(W[model.first[j] + codes[:10, j]].astype(float) for j in range(3))
    log_p = [part - np.log(np.exp(part).sum(axis=1, keepdims=True)) for part in (h[:, :2], h[:, 2:])]
    rows = np.arange(10)
    np.testing.assert_allclose(found.told, weight[:10] * (log_p[0][rows, codes[:10, 1]] + log_p[1][rows, codes[:10, 2]]), rtol=1e-5)


@pytest.mark.parametrize(("gain", "taken"), [(0.5, False), (3.0, True)])
def test_ridges_by_pair_must_gain_more_than_a_standard_error(gain, taken):
    ground = choose.Ground(SimpleNamespace(outputs=(2, 2)), [], 100.0, stage=lambda *asked: asked)
    before = np.random.default_rng(3).normal(-1.0, 0.1, 100)
    noise = np.tile([1.0, -1.0], 50)  # 10 nats is one standard error of its sum

    def kept(told):
        return SimpleNamespace(value=choose.Tried(told, np.zeros((1, 1)), np.ones((2, 2))), cut=False)

    better = before + noise + gain * 10 / 100
    search = ridges_by_pair(ground, choose.Path("lbfgs", {1.0: 1.0}), 100.0)
    next(search)
    for told in (before, better, better - 1.0):  # a round that paid is followed by another
        try:
            search.send(kept(told))
        except StopIteration as end:
            best = end.value[0]
            break
    assert (best is not None) == taken


def test_a_walk_goes_to_the_lowest_point_of_its_parabola_and_is_given_up_where_it_is_hopeless():
    losses = {ridge: (np.log10(ridge) + 0.4) ** 2 for ridge in (1.0, 0.1, 10**0.5)}
    assert choose.next_ridge(losses, centre=1.0) == pytest.approx(10**-0.5)  # of halves of decades the nearest to -0.4
    assert not choose.hopeless({100.0: 1.0, 10.0: 0.9}, 0.85)  # it has come down by twice what is left
    assert choose.hopeless({100.0: 1.0, 10.0: 0.99}, 0.1)
