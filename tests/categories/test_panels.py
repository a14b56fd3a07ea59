"""Networks that are fitted panel by panel: the same maximum, the same bits anywhere, little memory; sequence weights."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tallies
from tallies import FEMNetwork
from tallies.backends import carry_out
from tallies.categories.kernels import panels as kernels
from tallies.categories.model import Rows
from tallies.categories.network import alike, large
from tallies.categories.network.climb import Problem, yet_to_gain
from tallies.categories.network.panels import Outputs, table_of
from tallies.errors import DataError


def coupled(n=24, l=800, seed=0, gaps=0.0):
    """Variables of 2 to 5 states, of which each second follows the one before; some cells are missing."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, m, l) for m in rng.integers(2, 6, n)]).astype(float)
    follows = rng.random((l, n // 2)) < 0.5
    X[:, 1::2] = np.where(follows, X[:, ::2] % (X[:, 1::2].max(axis=0) + 1), X[:, 1::2])
    X[rng.random(X.shape) < gaps] = np.nan
    return X


@pytest.fixture
def panels(monkeypatch):
    """All networks of degree 1 are large."""
    monkeypatch.setattr(large, "MANY", 0)
    monkeypatch.setattr(large, "WIDEST", 0)


SETTINGS = [{}, {"lag": 1}, {"missing": "ignore"}, {"missing": "state"}, {"reweight": 0.6}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("ridge", [1.0, 20.0])
def test_panels_find_the_same_maximum_and_say_the_same(monkeypatch, settings, ridge):
    X = coupled(gaps=0.05 if "missing" in settings else 0.0)
    weight = np.random.default_rng(1).uniform(0.5, 1.5, len(X))
    plain = FEMNetwork(ridge=ridge, **settings).fit(X, sample_weight=weight)
    monkeypatch.setattr(large, "MANY", 0)
    monkeypatch.setattr(large, "WIDEST", 0)
    model = FEMNetwork(ridge=ridge, **settings).fit(X, sample_weight=weight)
    assert model.fitted_.W.dtype == np.float32 and plain.fitted_.W.dtype == np.float64
    # 24 outputs, each within 0.02 nats, as documented: a fifth of a standard error
    assert plain.history_[-1] - 24 * 0.02 < model.history_[-1] < plain.history_[-1] + 0.01
    assert model.converged_ and np.diff(model.history_).min() > -1e-3
    np.testing.assert_allclose(model.couplings_, plain.couplings_, atol=0.01)
    np.testing.assert_allclose(model.scores(), plain.scores(), atol=0.02)
    np.testing.assert_allclose(model.scores("direct_information"), plain.scores("direct_information"), atol=0.01)
    off = np.abs(model.log_conditional(X) - plain.log_conditional(X))
    assert off.mean() < 0.002 and off.max() < 0.05
    np.testing.assert_allclose(model.energy(X), plain.energy(X), atol=0.2)
    # pairs whose scores differ by less than that may change places
    named = [(int(a[1:]), int(b[1:])) for a, b in model.top_couplings(5)[["a", "b"]].values]
    np.testing.assert_allclose([plain.scores()[pair] for pair in named], plain.top_couplings(5)["score"], atol=0.02)


def test_what_panels_say_is_what_their_weights_say(panels, monkeypatch):
    X = coupled(gaps=0.05)
    X[0, 0] = 9.0  # a state of one row
    for settings in ({}, {"lag": 1}, {"missing": "ignore"}):
        model = FEMNetwork(ridge=5.0, **settings).fit(X[1:])
        found = model.couplings_, model.scores(), model.log_conditional(X), model.energy(X), model.simulate(20)
        wide = model.fitted_._replace(W=model.fitted_.W.astype(np.float64))
        model.fitted_ = wide
        other = model.couplings_, model.scores(), model.log_conditional(X), model.energy(X), model.simulate(20)
        for a, b in zip(found[:4], other[:4], strict=True):
            np.testing.assert_allclose(a, b, atol=2e-4)
        assert np.isclose(found[4], other[4], rtol=0.0, atol=0.0, equal_nan=True).mean() > 0.99


def test_gradient_and_metric(monkeypatch):
    for name, loop in vars(kernels).items():  # differences need double precision, for which no loop is compiled elsewhere
        monkeypatch.setattr(kernels, name, getattr(loop, "py_func", loop))
    rng = np.random.default_rng(0)
    sizes, l = (3, 2, 4, 3, 2, 5, 2, 3, 2, 2), 200
    codes = np.column_stack([rng.integers(-1, m, l) for m in sizes]).astype(np.int32)
    table = table_of(Rows(codes, codes, rng.uniform(0.5, 2, (l, 1))), sizes)
    pair_ridges = rng.uniform(0.5, 3, (10, 10))
    problem = Problem(Outputs(sizes, exclude=True, ridge=2.0), table, np.array([0, 2, 5]), pair_ridges)
    present = np.zeros((len(table.counts), problem.width))
    present[:, : problem.columns] = 1.0
    present[problem.first[1:] - 1] = 0.0
    problem._exclude(present)
    W, d = rng.normal(0, 0.3, (2, *present.shape)) * present
    _, g = problem.at(W)
    slope = (problem.at(W + 1e-5 * d)[0] - problem.at(W - 1e-5 * d)[0]) / 2e-5
    np.testing.assert_allclose(problem.dots(g, d), slope, rtol=1e-6)
    # eq. 3, written out for the columns of the first output, less their mean
    problem.measure(W)
    real, site = np.delete(np.arange(len(W)), problem.first[1:] - 1), np.repeat(np.arange(10), sizes)
    V, expected = rng.normal(size=present.shape), []
    for k in range(3):
        D, L = problem.D[real, k], problem.total[k]
        A = np.diag(D) + np.outer(D, D) / L * (site[:, None] != site) + np.diag(problem.bent[site, k])
        expected.append(np.linalg.solve(A, V[real, k]))
    problem.exclude = False
    Z = np.transpose(expected)
    np.testing.assert_allclose(problem.solve(V)[real, :3], Z - Z.mean(axis=1, keepdims=True), rtol=1e-8, atol=1e-12)


def test_few_pairs_that_are_coupled_get_ridges_of_their_own(panels):
    model = FEMNetwork().fit(coupled(l=1500))
    follows = [(j, j + 1) for j in range(0, 24, 2)]
    assert model.pair_ridges_ is not None
    assert np.mean([model.pair_ridges_[pair] for pair in follows]) < np.median(model.pair_ridges_) / 3
    found = {(int(a[1:]), int(b[1:])) for a, b in model.top_couplings(12)[["a", "b"]].values}
    assert found == set(follows)


def test_of_many_outputs_some_choose_the_ridge(panels, monkeypatch):
    X = coupled()
    every = FEMNetwork().fit(X)
    monkeypatch.setattr(large, "JUDGED", 8)
    some = FEMNetwork().fit(X)
    assert some.pair_ridges_ is None
    assert abs(np.log10(some.ridge_ / every.ridge_)) <= 1


def test_threads_and_a_cluster_give_the_same_bits(panels, cluster):
    X, found = coupled(n=8, l=150, gaps=0.02), []  # every panel of every sweep is a task
    for where in ({"workers": 1}, {"workers": 2}, {"where": cluster}):
        with tallies.backend(**where):
            found.append(FEMNetwork(reweight=0.7).fit(X))
    for model in found[1:]:
        np.testing.assert_array_equal(model.fitted_.W, found[0].fitted_.W)
        np.testing.assert_array_equal(model.history_, found[0].history_)


def test_a_fit_goes_on_with_the_same_bits(panels, tmp_path):
    """One fit that is cut after each of some sweeps, and goes on from every cut."""
    X, seen, before = coupled(), [], None

    def sweep(stage, state):
        return stage.name, len(state.objective)

    whole = FEMNetwork(reweight=0.7).fit(X, callback=lambda *at: seen.append(sweep(*at)))
    for after in (1, 2, 4, 9):
        cut = []
        part = FEMNetwork(reweight=0.7).fit(
            X,
            checkpoint=tmp_path / f"{after}",
            resume=before,
            callback=lambda *at, cut=cut, last=seen[after - 1]: cut.append(sweep(*at)) or cut[-1] == last,
        )
        assert part.stopped_ == "callback" and cut[-1] == seen[after - 1]
        before = tmp_path / f"{after}"
    again = FEMNetwork(reweight=0.7).fit(X, resume=before)
    np.testing.assert_array_equal(again.fitted_.W, whole.fitted_.W)


def test_saved_and_reported(panels, tmp_path):
    X = coupled()
    model = FEMNetwork(ridge=5.0).fit(X)
    model.save(tmp_path / "model")
    again = tallies.load(tmp_path / "model")
    assert again.fitted_.W.dtype == np.float32
    np.testing.assert_array_equal(again.log_conditional(X), model.log_conditional(X))
    model.report(tmp_path / "page.html", X)
    assert "x0 – x1" in (tmp_path / "page.html").read_text()


def test_an_output_takes_few_steps_and_they_are_zero_sum(panels, monkeypatch):
    """More features than rows: 24 evaluations an output before steps kept out of what the likelihood cannot see, and 13 since."""
    rng, asked, at = np.random.default_rng(0), [], Problem.at
    monkeypatch.setattr(Problem, "at", lambda self, W: asked.append(len(self.outputs)) or at(self, W))
    model = FEMNetwork(ridge=10.0).fit(rng.integers(0, 10, (300, 60)) * rng.integers(0, 2, (300, 60)))
    assert model.converged_
    assert sum(asked) / 60 < 18
    sums = np.add.reduceat(model.fitted_.W, np.arange(60) * 10, axis=1)
    assert np.abs(sums).max() < 1e-4


def test_what_is_left_to_gain():
    gains = 100 * 0.3 ** np.arange(5)
    left = yet_to_gain(gains[2:3], gains[3:4])
    assert left[0] == pytest.approx(100 * 0.3**4 / 0.7)


def test_rows_are_compared_in_blocks(monkeypatch):
    codes = np.random.default_rng(0).integers(0, 3, (90, 130)).astype(np.int32)
    codes[40:60, :110] = codes[40, :110]
    expected = 1 / ((codes[:, None] == codes).mean(axis=2) >= 0.8).sum(axis=1)
    np.testing.assert_allclose(carry_out(next(alike.sequence_weights(codes, 0.8))), expected)
    monkeypatch.setattr(alike, "WORK", 90 * 130 * 7)
    np.testing.assert_allclose(carry_out(next(alike.sequence_weights(codes, 0.8))), expected)


MEMORY = """
import ctypes, gc, numpy as np
from tallies import FEMNetwork, backend
def peak(): return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
rng = np.random.default_rng(0)
FEMNetwork(ridge=50.0, max_iter=1).fit(rng.integers(0, 20, (60, 40)))
gc.collect()
ctypes.CDLL(None).malloc_trim(0)  # what compiling left free would be used again ...
open("/proc/self/clear_refs", "w").write("5")  # ... and its peak may have been higher
before = peak()
with backend("threads", workers=1):  # of two, one may be done when the other one is at its peak
    FEMNetwork(ridge=0.5, max_iter=2).fit(rng.integers(0, 20, (400, 100)))  # takes all steps of a sweep
print(peak() - before)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak since a moment")
def test_memory_is_what_the_documentation_says():
    env = os.environ | {"MALLOC_MMAP_THRESHOLD_": "131072"}  # else glibc keeps freed blocks, at times half as much again as is held
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", MEMORY], capture_output=True, text=True, check=True, env=env)
    assert float(out.stdout) == pytest.approx(large.memory((20,) * 100, 400, 1), rel=0.2)


def test_a_network_that_no_memory_holds_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(large, "LIMIT", 1 << 20)
    with pytest.raises(DataError, match=r"40 variables with 8\d\d states would need .* leave out variables"):
        FEMNetwork(ridge=1.0).fit(np.random.default_rng(0).integers(0, 20, (500, 40)))
