"""Rows of categories that come once: the parabola that is left, a batch alone, the maximum given what was left; loss, resume."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import tallies
from tallies import FEM, evaluate
from tallies.categories import stream
from tallies.categories.fitted import distinct
from tallies.categories.model import Cut
from tallies.categories.stream import Batch, BatchTrial
from tallies.categories.terms import Layout
from tallies.errors import DataError, DataWarning, FileError
from tallies.sums import add, faded

M, SIZES = 3, (2, 3, 3)


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    W = [np.random.default_rng(3).normal(0.0, 0.7, (m, M)) for m in SIZES]
    X = np.column_stack([rng.integers(m, size=n) for m in SIZES])
    h = sum(w[x] for w, x in zip(W, X.T, strict=True))
    return X, (h + rng.gumbel(size=h.shape)).argmax(axis=1)


def log_likelihood(batch, codes, labels, weight, w):
    ids = batch.ids(codes)
    h = np.where((ids >= 0)[:, :, None], w.reshape(-1, M)[ids], 0.0).sum(axis=1)
    return weight @ (h[np.arange(len(h)), labels] - np.logaddexp.reduce(h, axis=1))


@pytest.mark.parametrize("degrees", [(1,), (1, 2)])
def test_a_sweep_tells_value_slope_and_curvature(degrees):
    """Against differences; a cell without a state has no feature, weights count."""
    (X, y), rng = table(60), np.random.default_rng(1)
    X[::7, 1] = -1
    weight = rng.random(60)
    batch = Batch(Layout.of(np.array(SIZES), degrees, None), M, 1.0, 1e-8)
    rows = distinct(X.astype(np.int32), y, M, [weight])
    shard = Cut(batch, rows, None).load()
    p = int(shard.ids.max()) + 1
    w = rng.normal(size=p * M)
    (value, (total, g, H)), _ = batch.sweep(shard, None, BatchTrial(w.reshape(p, M)), None)

    def f(at):
        return log_likelihood(batch, X.astype(np.int32), y, weight, at)

    def slopes(at):
        return batch.sweep(shard, None, BatchTrial(at.reshape(p, M)), None)[0].own.b

    e = 1e-5
    np.testing.assert_allclose([value, total], [f(w), weight.sum()], rtol=1e-12)
    np.testing.assert_allclose(g, [(f(w + e * d) - f(w - e * d)) / (2 * e) for d in np.eye(p * M)], atol=1e-7)
    np.testing.assert_allclose(-H, [(slopes(w + e * d) - slopes(w - e * d)) / (2 * e) for d in np.eye(p * M)], atol=1e-7)


def test_the_first_batch_is_a_fit(monkeypatch):
    X, y = table(200)
    for options in ({"ridge": 1.0}, {"degree": 2, "ridge": "auto"}, {"solver": "fem", "ridge": 0.5}):
        first, fit = FEM(**options).partial_fit(X, y), FEM(**{"solver": "lbfgs", **options}).fit(X, y)
        np.testing.assert_array_equal(first.fitted_.W, fit.fitted_.W)
        assert (first.ridge_, first.n_rows_, first.path_) == (fit.ridge_, fit.n_rows_, fit.path_)


def test_a_batch_that_remembers_nothing_is_a_fit_of_its_own(monkeypatch):
    monkeypatch.setattr(stream, "REMEMBERED", 0.0)
    (X, y), (other, its) = table(150), table(200, 5)
    found = FEM(ridge=0.5).partial_fit(other, its).partial_fit(X, y)
    alone = FEM(ridge=0.5, solver="lbfgs", tol=1e-14).fit(X, y)
    np.testing.assert_allclose(found.predict_proba(X), alone.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(found.weights_, alone.weights_, atol=1e-4)


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_a_batch_ends_at_the_maximum_given_what_was_left(share, monkeypatch):
    monkeypatch.setattr(stream, "REMEMBERED", share)
    (X, y), (other, its) = table(80), table(200, 5)
    first = FEM(ridge=0.5, tol=1e-14).partial_fit(other, its)
    left = faded(first.fitted_.stream.left, share)
    found = clone(first)
    found.fitted_ = first.fitted_
    found.partial_fit(X, y)
    batch = Batch(Layout.of(np.array(SIZES), (1,), None), M, 0.5, 1e-14)
    shard = Cut(batch, distinct(X.astype(np.int32), y, M, [np.ones(80)]), None).load()
    own = batch.sweep(shard, None, BatchTrial(found.fitted_.W), None)[0].own
    w = found.fitted_.W.ravel()
    np.testing.assert_allclose(own.b + left.b - left.H @ w, 0.5 * w, atol=1e-5)
    after = found.fitted_.stream
    assert after.seen == 280.0
    for a, b in zip(after.left, add([left, own._replace(b=own.b + own.H @ w)]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("batches", [4, 20])
def test_data_that_come_once_lose_little(batches):
    (X, y), (new, its) = table(2000), table(20_000, 5)
    model = FEM(ridge=1.0)
    for part in np.array_split(np.arange(2000), batches):
        model.partial_fit(X[part], y[part], classes=range(M))
    whole = FEM(ridge=1.0).fit(X, y)
    assert model.n_rows_ == 2000
    assert abs(evaluate(whole, new, its).value - evaluate(model, new, its).value) < 0.002
    first = FEM(ridge=1.0).partial_fit(X[: 2000 // batches], y[: 2000 // batches], classes=range(M))
    assert evaluate(model, new, its).value > evaluate(first, new, its).value + 0.001


def test_weights_are_rows_that_come_again():
    (X, y), (other, its) = table(60), table(100, 5)
    twice = np.arange(60) % 2
    model = FEM(ridge=1.0, tol=1e-14).partial_fit(other, its)
    weighed, again = clone(model).partial_fit(other, its), clone(model).partial_fit(other, its)
    weighed.partial_fit(X, y, sample_weight=1 + twice)
    again.partial_fit(np.repeat(X, 1 + twice, axis=0), np.repeat(y, 1 + twice))
    np.testing.assert_allclose(weighed.fitted_.W, again.fitted_.W, atol=1e-7)
    assert weighed.fitted_.stream.seen == again.fitted_.stream.seen == 190.0


def test_backends_resume_and_files_change_no_bit(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(FEM, "shard_rows", 7)
    (X, y), (other, its) = table(80), table(200, 5)
    first = FEM(ridge=0.5, tol=1e-14).partial_fit(other, its)
    first.save(tmp_path / "first.tallies")

    def added(**run):
        return tallies.load(tmp_path / "first.tallies").partial_fit(X, y, **run)

    there = added()
    assert there.n_iter_ > 3
    with tallies.backend(cluster):
        on_cluster = added()
    with tallies.backend("threads", workers=2):
        threads = added()
    added(checkpoint=tmp_path / "state", callback=lambda stage, state: len(state.objective) >= 2)
    resumed = added(resume=tmp_path / "state")
    for found in (on_cluster, threads, resumed):
        np.testing.assert_array_equal(found.fitted_.W, there.fitted_.W)
        np.testing.assert_array_equal(found.fitted_.stream.left.H, there.fitted_.stream.left.H)
    with pytest.raises(FileError, match="other data"):
        tallies.load(tmp_path / "first.tallies").partial_fit(X, y[::-1], resume=tmp_path / "state")


def test_classes_and_states():
    """Classes may be given, of which the first batch need not have all; a state that it did not have contributes nothing."""
    X, y = np.array([["a", "x"], ["b", "z"]] * 10, dtype=object), np.array(["no", "yes"] * 10)
    model = FEM(ridge=1.0).partial_fit(X, y, classes=["yes", "no", "perhaps"])
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    assert model.predict_proba(X)[:, 1].max() < 0.2
    model.partial_fit([["a", "x"]] * 40, ["perhaps"] * 40)
    assert model.predict([["a", "x"], ["b", "z"]]).tolist() == ["perhaps", "yes"]
    before = model.predict_proba(X)
    model.partial_fit([["new", "new"]] * 5, ["no"] * 5)
    np.testing.assert_allclose(model.predict_proba(X), before, atol=1e-6)


def test_what_is_refused(monkeypatch):
    X, y = table(60)
    with pytest.warns(DataWarning, match="fit keeps nothing of its rows that others could be added to, so partial_fit begins anew"):
        anew = FEM(ridge=1.0).fit(*table(40, 5)).partial_fit(X, y)
    np.testing.assert_array_equal(anew.fitted_.W, FEM(ridge=1.0).partial_fit(X, y).fitted_.W)
    assert not hasattr(FEM(solver="kernel"), "partial_fit")
    with pytest.raises(AttributeError) as told:
        FEM(solver="kernel").partial_fit  # noqa: B018
    assert 'solver="kernel" has none; use "auto"' in str(told.value.__cause__)
    model = FEM(ridge=1.0).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"classes are those of the first call, \[0, 1, 2\], got \[0, 1\]; leave them out"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(DataError, match="not among the classes"):
        model.partial_fit(X, y + 5)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], y)
    monkeypatch.setattr(stream, "MOST", 20)
    with pytest.raises(DataError, match=r"8 features of 3 classes have 24 weights, .* \(limit 20\); lower degree"):
        FEM(ridge=1.0).partial_fit(X, y)
