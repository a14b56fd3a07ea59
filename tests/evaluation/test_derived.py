"""Scores, their errors, chains, calibration, stopping rules: small numbers against their definitions."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import pytest

from tallies import GDA, engine
from tallies.backends import Threads
from tallies.cli import holdout
from tallies.disk import atomic
from tallies.engine import Model, Runner, Stage
from tallies.evaluation import chains
from tallies.evaluation.classification import classification
from tallies.evaluation.ranking import hit_rate, macro_recall, reciprocal_rank
from tallies.evaluation.score import Score, Scored, difference, mean_score, ranked
from tallies.html import judged
from tallies.html.common import wilson
from tallies.lbfgs import Direction, along, direction, dots
from tallies.maths import Whitening, log_density, whiten
from tallies.sources import Held
from tallies.sums import Sum


def test_error_of_a_mean():
    values = np.array([1.0, 2.0, 4.0, 9.0])
    found = mean_score(values, "exact", "nats/row")
    assert found.score == Score(4.0, "exact", pytest.approx(np.sqrt(38 / 3) / 2, rel=1e-14), "nats/row")


def test_paired_errors_are_of_units_and_about_their_mean():
    sizes, a, b = np.array([2.0, 5.0, 3.0]), np.array([-3.0, -9.0, -6.0]), np.array([-4.0, -9.5, -8.0])
    mean, error = difference(*(Scored(0.0, "estimate", None, "nats/token", rows, sizes) for rows in (a, b)))
    assert mean == pytest.approx(3.5 / 10)
    residuals = (a - b) - 0.35 * sizes
    assert error == pytest.approx(np.std(residuals, ddof=1) / np.sqrt(3) / sizes.mean(), rel=1e-12)
    scores = (("low", -2.0), ("high", -1.0), ("none", np.nan))
    assert ranked({name: mean_score([value], "exact", "") for name, value in scores}) == ["high", "low", "none"]


def test_measures_of_three_classes():
    X, y = [[0.0], [1.0], [4.0], [5.0], [9.0], [11.0]], [0, 0, 1, 1, 2, 2]
    model = GDA().fit(X, y)
    rows, truth = [[0.4], [2.9], [5.0], [7.6]], [0, 0, 1, 1]
    p = model.predict_proba(rows)
    found = classification(model, rows, truth)
    assert found["brier"] == pytest.approx(np.mean([sum((p[i, k] - (k == t)) ** 2 for k in range(3)) for i, t in enumerate(truth)]))
    assert found["log_loss"] == pytest.approx(-np.mean([np.log(p[i, t]) for i, t in enumerate(truth)]))
    assert found["confusion"] == [[1, 1, 0], [0, 1, 1], [0, 0, 0]]  # true classes are rows


def test_pages_have_the_same_brier_score_and_confidence():
    p = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [0.1, 0.8, 0.1]])
    page = judged.Judged(["a", "b", "c"], p, np.zeros(3), np.array([0, 1, -1]))
    assert page.brier.tolist() == pytest.approx([0.09 + 0.04 + 0.01, 0.09 + 0.49 + 0.16])
    assert page.confidence == pytest.approx(0.55)
    assert page.accuracy == 0.5


def test_calibration_groups_are_tenths_of_what_was_stated():
    stated = np.array([0.05, 0.11, 0.19, 0.5, 0.55, 0.88, 0.98, 1.0])
    came = np.array([0, 0, 1, 1, 0, 1, 1, 1], dtype=bool)
    chart = judged.reliability(stated, came, "x")
    rows = [[float(v) for v in row] for row in chart["rows"]]
    assert [row[0] for row in rows] == pytest.approx([0.05, 0.15, 0.525, 0.88, 0.99])
    assert [row[1] for row in rows] == pytest.approx([0.0, 0.5, 0.5, 1.0, 1.0])
    assert [row[4] for row in rows] == [1, 2, 2, 1, 2]
    gap = (0.05 + 2 * 0.35 + 2 * 0.025 + 0.12 + 2 * 0.01) / 8
    assert f"the mean gap is {gap:.1%}" in chart["caption"]


def test_the_rows_that_are_called_strange_are_rarer_than_one_in_a_hundred():
    own = np.arange(1000.0)
    _, below = judged.surprise(np.array([5.0, 9.0, 20.0, 40.0]), own)
    assert below == 0.5


def test_wilson_is_the_interval_of_the_score_test():
    """Its ends are the shares at which the test of a share just gives 1.96."""
    for k, n in ((2, 9), (40, 50)):
        for end in wilson(k, n):
            assert abs(k / n - end) / np.sqrt(end * (1 - end) / n) == pytest.approx(1.96, rel=1e-9)


def test_split_r_hat_by_hand():
    draws = np.random.default_rng(0).normal(size=(3, 40)) + np.array([[0.0], [0.5], [1.5]])
    draws[0] += np.linspace(0, 3, 40)  # a drift, which only halves can see
    halves = draws.reshape(6, 20)
    W, B = halves.var(axis=1, ddof=1).mean(), 20 * halves.mean(axis=1).var(ddof=1)
    assert chains.r_hat(draws) == pytest.approx(np.sqrt((19 / 20 * W + B / 20) / W), rel=1e-12)
    drift = np.random.default_rng(1).normal(size=(2, 400)) + np.linspace(0, 4, 400)
    assert chains.r_hat(drift) > 1.3


def test_effective_size_of_an_autoregression():
    """n (1 - rho) / (1 + rho) draws of a chain of n with autocorrelations rho^k; chains that are apart have next to none."""
    rng, rho, n = np.random.default_rng(0), 0.8, 20_000
    draws = np.zeros((2, n))
    noise = rng.normal(size=(2, n))
    for t in range(1, n):
        draws[:, t] = rho * draws[:, t - 1] + noise[:, t]
    assert chains.effective_size(list(draws)) == pytest.approx(2 * n * (1 - rho) / (1 + rho), rel=0.15)
    assert chains.effective_size(list(draws + np.array([[0.0], [50.0]]))) < 20


def test_effective_size_of_few_draws_by_hand():
    """The formulas of Geyer (1992) and of Stan, one by one; no lag is left out here, for all pairs of lags are positive."""
    draws = np.array([[0.0, 1.0, 2.0, 4.0, 5.0, 6.0], [0.5, 1.0, 3.0, 3.5, 5.0, 7.0]])
    n, m = 6, 2
    centred = draws - draws.mean(axis=1)[:, None]
    cov = [np.mean([sum(c[i] * c[i + lag] for i in range(n - lag)) / n for c in centred]) for lag in range(n)]
    W = cov[0] * n / (n - 1)
    total = (n - 1) / n * W + draws.mean(axis=1).var(ddof=1)
    rho = [1.0] + [1 - (W - cov[lag]) / total for lag in range(1, n)]
    pairs = [rho[i] + rho[i + 1] for i in range(0, n, 2)]
    kept = []
    for pair in pairs:
        if pair < 0:
            break
        kept.append(min([pair, *kept]))
    assert chains.effective_size(list(draws)) == pytest.approx(m * n / (2 * sum(kept) - 1), rel=1e-12)


def test_scores_of_unlike_units_have_no_paired_error():
    one = Scored(-2.0, "exact", 0.1, "nats/token", np.array([-4.0, -8.0]), np.array([2.0, 4.0]))
    other = Scored(-3.0, "exact", 0.1, "nats/token", np.array([-9.0, -9.0]), np.array([3.0, 3.0]))
    assert difference(one, other) == (1.0, None)


def test_topics_are_matched_by_cosine():
    """A flat topic shares much with all, in products; the peaked ones belong together by their direction."""
    a = np.array([[0.5, 0.5, 0.0], [0.1, 0.1, 0.8]])
    b = np.array([[0.02, 0.02, 0.16], [5.0, 4.0, 1.0]])
    order, likeness = chains.match(a, b)
    assert order.tolist() == [1, 0]
    assert likeness[1] == pytest.approx(1.0)
    assert (likeness <= 1 + 1e-12).all()


class Drawn(NamedTuple):
    objective: float
    draws: tuple[tuple[int, int], ...]


class Draws(Model):
    """Each sweep of a shard gives the random number it was handed; params count the sweeps."""

    def survey(self, shard):
        return Drawn(0.0, ())

    def init(self, survey, rng):
        return 0

    def settle(self, shard, params, rng):
        return int(rng.integers(2**62))

    def sweep(self, shard, latents, params, rng):
        return np.array([0.0] * shard + [float(rng.integers(2**52))] + [0.0] * (2 - shard)), latents

    def update(self, params, tally, rng):
        SEEN.append(tally.tolist())
        return params + 1

    def objective(self, tally, before, after):
        return float(before)


SEEN: list[list[float]] = []


def test_every_place_has_random_numbers_of_its_own():
    SEEN.clear()
    sources = [Held(i) for i in range(3)]
    stages = [Stage("", Draws(), sources, lambda end: (end.params, end.objective), 4) for _ in range(2)]

    def plan():
        first = yield stages[0]
        second = yield stages[1]
        return first, second

    ends = Runner(lambda sources, shared: Threads(sources, 1), seed=5).run(plan())
    expected = [
        [float(engine.stream(5, stage, t, i + 1).integers(2**52)) for i in range(3)] for stage in range(2) for t in range(1, 5)
    ]
    assert expected == SEEN
    assert len({v for row in SEEN for v in row}) == 24
    for end in ends:
        assert end.value == (4, (0.0, 1.0, 2.0, 3.0))  # four sweeps, each with the objective of the params it began with
        assert end.stopped == "limit"
        assert end.latents == [int(engine.stream(5, ends.index(end), 0, i + 1).integers(2**62)) for i in range(3)]


def test_a_fall_is_not_settled():
    assert not engine.settled([-100.0, -150.0], 1e-3)
    assert engine.settled([-100.0, -100.00001], 1e-3)


def test_a_plateau_is_judged_by_the_error_of_means():
    rng = np.random.default_rng(0)
    level = np.concatenate([rng.normal(0, 1, 200), rng.normal(0.5, 1, 200)])  # 0.5 is 5 standard errors of the difference
    assert not engine.plateau(level, 200)
    assert engine.plateau(rng.normal(0, 1, 400), 200)


def test_a_file_is_moved_to_its_place(tmp_path):
    """The file that was written is the one that is there afterwards: a copy could be seen half made."""
    with atomic(tmp_path / "a") as part:
        part.write_text("whole")
        number = os.stat(part).st_ino
    assert os.stat(tmp_path / "a").st_ino == number


def test_folds_are_summed_up_with_the_error_of_their_mean():
    assert holdout._mean([1.0, 2.0, 4.0]) == {
        "mean": pytest.approx(7 / 3),
        "stderr": pytest.approx(np.std([1, 2, 4], ddof=1) / np.sqrt(3)),
    }


def test_a_fit_does_not_see_what_is_held_out():
    class Family:
        @staticmethod
        def fit(model, options, **run):
            seen.append(options["rows"](20))

    seen, options = [], {"holdout": 0.2, "seed": 0}
    holdout.fit(None, options, Family)
    part = holdout.parts(20, options)
    assert part.sum() == 4
    assert seen[0].tolist() == np.flatnonzero(part == 0).tolist()


def test_directions_are_those_of_the_two_loops():
    """The direction of L-BFGS from dot products alone, against the recursion of Nocedal (1980)."""
    rng = np.random.default_rng(0)
    S, g, D = rng.normal(size=(3, 6)), rng.normal(size=6), rng.random(6) + 0.5
    A = rng.normal(size=(6, 6))
    Y = S @ (A @ A.T + np.eye(6))
    q, alphas = g.copy(), []
    for s, y in zip(S[::-1], Y[::-1], strict=True):
        alphas.append(s @ q / (s @ y))
        q = q - alphas[-1] * y
    gamma = np.clip(S[-1] @ Y[-1] / (Y[-1] @ (D * Y[-1])), 0.2, 5.0)
    r = gamma * D * q
    for s, y, a in zip(S, Y, alphas[::-1], strict=True):
        r = r + s * (a - y @ r / (s @ y))
    toward = direction(dots(S, Y, Y * D, g), [0, 1, 2])
    assert isinstance(toward, Direction)
    assert gamma != 1.0
    np.testing.assert_allclose(along(toward, D * g, S, Y * D), -r, rtol=1e-10)


def test_densities_are_taken_on_the_support_and_in_units():
    """A column without variance carries no density, and scaling a column by 10 takes log 10 off."""
    cov = np.array([[4.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 0.0]])
    root, mean = whiten(cov[None], cov), np.array([[1.0, 2.0, 7.0]])
    assert isinstance(root, Whitening)
    x = np.array([[0.0, 3.0, 7.0]])
    z = x[0, :2] - mean[0, :2]
    expected = -0.5 * (2 * np.log(2 * np.pi) + np.linalg.slogdet(cov[:2, :2])[1] + z @ np.linalg.solve(cov[:2, :2], z))
    assert log_density(x, mean, root, False)[0, 0] == pytest.approx(expected, rel=1e-12)
    scale = np.array([10.0, 1.0, 1.0])
    other = log_density(x * scale, mean * scale, whiten((cov * np.outer(scale, scale))[None], cov * np.outer(scale, scale)), False)
    assert other[0, 0] == pytest.approx(expected - np.log(10), rel=1e-10)


def test_hits_are_among_the_first_ten():
    """The right answer in place 10 is a hit, in place 11 none."""
    rows = [[f"{i}" for i in range(1, 13)]] * 4
    gold = [{"10"}, {"11"}, {"1", "11"}, {"none"}]
    assert hit_rate(rows, gold, 10) == 0.5
    assert hit_rate(rows, gold, 11) == 0.75
    np.testing.assert_allclose(reciprocal_rank(rows, gold), [0.1, 1 / 11, 1.0, 0.0])
    # "11" is asked for twice and never among ten, "10" and "1" always, "none" never
    assert macro_recall(rows, gold, 10) == 0.5
    assert macro_recall(rows[:3], [{"1"}, {"11"}, {"11"}], 10) == 0.5


@pytest.mark.parametrize("n", [1, 7, 8, 11, 64, 75])
def test_sums_have_every_tally_once(n):
    """Whole groups of eight, groups of groups, and what is left over."""
    total = Sum()
    for k in range(n):
        total.put(2**k)
    assert total.value() == 2**n - 1
