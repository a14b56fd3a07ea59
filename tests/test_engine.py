"""The loop, its stopping rules, checkpoints and interruption, on a model of three lines."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import tallies
from running import begin
from tallies import engine, storage, watch
from tallies.backends import Threads, each, thread_count
from tallies.blas import _blas, aligned, one_blas_thread
from tallies.engine import Model, Runner, Stage
from tallies.errors import ConvergenceWarning, FileError, FitError
from tallies.estimator import Estimator, Run
from tallies.sources import Held, cuts, held


class Params(NamedTuple):
    mean: np.ndarray
    noise: float


class Tally(NamedTuple):
    objective: float
    n: int
    total: np.ndarray


class Latents(NamedTuple):
    visits: np.ndarray


class Shard(NamedTuple):
    X: np.ndarray


class Fitted(NamedTuple):
    run: Run
    mean: np.ndarray
    visits: np.ndarray
    tried: tuple[float, ...]  # distances of the attempts of a search


@dataclass(frozen=True)
class Halving(Model):
    """Goes a part of the way to the mean of the data at every sweep, with a little noise: has latents and randomness."""

    step: float = 0.5
    tol: float | None = None
    pause: float = 0.0

    def survey(self, shard):
        return Tally(0.0, len(shard.X), shard.X.sum(axis=0))

    def init(self, survey, rng):
        return Params(rng.normal(size=survey.total.shape), 0.0)

    def settle(self, shard, params, rng):
        return Latents(rng.integers(0, 5, len(shard.X)))

    def sweep(self, shard, latents, params, rng):
        time.sleep(self.pause)
        latents.visits[:] += 1  # a sweep owns its latents
        error = shard.X - params.mean
        return Tally(-float((error**2).sum()), len(shard.X), error.sum(axis=0) + 1e-3 * rng.normal()), latents

    def update(self, params, tally, rng):
        return Params(params.mean + self.step * tally.total / tally.n, float(rng.normal()))


class Found(NamedTuple):
    mean: np.ndarray
    visits: np.ndarray


def found(end):
    return Found(end.params.mean, np.concatenate([latents.visits for latents in end.rows]))


@dataclass(eq=False, repr=False, kw_only=True)
class Creep(Estimator):
    """One stage; with `steps`, first a search among them, and then two chains that go on from the best."""

    max_iter: int = 30
    tol: float | None = None
    steps: tuple[float, ...] = ()
    random_state: Any = 0
    pause: float = 0.0

    records = (Params, Latents, Found, Fitted)

    @property
    def fixed_length(self):
        return self.tol is None

    def fit(self, X, **run):
        return self._fit(self._prepare(X), **run)

    def _prepare(self, X):
        X = np.asarray(X, dtype=float)
        return held(lambda cut: Shard(X[cut]), len(X), X.nbytes, self.shard_rows)

    def _plan(self, data, seed):
        if not self.steps:
            model = Halving(tol=self.tol, pause=self.pause)
            kept = yield Stage("", model, data, found, self.max_iter, rows=True)
            return Fitted(Run.of(kept, seed), *kept.value, ())
        tried, best = [], 0.5
        for step in self.steps:
            kept = yield Stage(f"step {step:g}", Halving(step), data, lambda end: end.params, 4)
            if kept.cut:
                break
            tried.append(kept.objective[-1])
            best = self.steps[int(np.argmax(tried))]
        latents = kept.latents if self.random_state == 7 else None
        start = kept.value if self.random_state == 7 else None
        ended = kept.params if self.random_state == 9 else None
        chains = yield [
            Stage(
                f"chain {c}",
                Halving(best, self.tol),
                data,
                found,
                self.max_iter,
                rows=True,
                start=ended if c == 0 and ended else start,
                latents=latents if c == 0 else None,
            )
            for c in range(2)
        ]
        mean = np.mean([chain.value.mean for chain in chains], axis=0)
        return Fitted(Run.of(chains[0], seed), mean, chains[1].value.visits, tuple(tried))


X = np.random.default_rng(0).normal(size=(40, 3)) + 5


def creep(**fields: Any) -> Creep:
    model = Creep(**fields)
    model.shard_rows = 10
    return model


def test_add_keeps_order_and_structure():
    tallies_ = [Tally(float(i), i, np.array([0.1 * i, 1e16])) for i in range(5)]
    total = engine.add(tallies_)
    assert isinstance(total, Tally)
    assert total.n == 10
    assert total.total[0] == 0.0 + 0.1 + 0.2 + 0.1 * 3 + 0.4
    nested = engine.add([Params(None, 1.0)] * 3)
    assert nested == Params(None, 3.0)
    assert engine.add([sp.csr_array(np.eye(2))] * 2).toarray().tolist() == [[2, 0], [0, 2]]


def test_streams_belong_to_their_place():
    draws = {(s, t, i): engine.stream(1, s, t, i).random() for s in range(3) for t in range(3) for i in range(3)}
    assert len(set(draws.values())) == 27
    assert engine.stream(1, 1, 2, 0).random() == draws[1, 2, 0]
    for seed in (0, 2**32 - 1, 2**32, 2**63):  # whatever its size
        made = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, 1, 2, 3])))
        assert engine.stream(seed, 1, 2, 3).random() == made.random()


def test_steps_is_endless_and_the_runner_is_its_consumer():
    model = creep()
    stage = next(model._plan(model._prepare(X), 0))
    states = list(islice(engine.steps(stage, Threads(stage.sources), seed=0), 1, 60, 2))  # each after its update
    fitted = creep().fit(X)
    assert fitted.n_iter_ == 30
    assert states[-1].objective == tuple(fitted.history_)
    np.testing.assert_array_equal(states[-1].params.mean, fitted.fitted_.mean)


def test_stops_on_relative_change_and_says_so():
    model = creep(tol=1e-3, max_iter=100).fit(X)
    assert model.converged_
    assert model.n_iter_ < 100
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        assert not creep(tol=1e-9, max_iter=3).fit(X).converged_


def test_settled_and_plateau():
    assert not engine.settled([1.0], 1e-3)
    assert not engine.settled([float("nan"), 1.0], 1e-3)
    assert not engine.settled([1.0, float("inf")], 1e-3)
    assert not engine.plateau(list(range(20)), 5)
    noise = np.random.default_rng(0).normal(size=200)
    assert engine.plateau(list(np.concatenate([np.linspace(-50, 0, 50), 0.1 * noise])), 50)


def test_a_plateau_is_told_where_neighbours_are_alike():
    rng = np.random.default_rng(0)
    noise = np.zeros((200, 400))
    for t in range(1, 400):
        noise[:, t] = 0.8 * noise[:, t - 1] + rng.normal(size=200)
    flat = np.mean([engine.plateau(series.tolist(), 100) for series in noise])
    rising = np.mean([engine.plateau((series + 0.03 * np.arange(400)).tolist(), 100) for series in noise])
    assert flat > 0.9  # one-sided at two standard errors of ten batch means: about .96 where the noise is independent
    assert rising < 0.1  # three in a hundred sweeps, five times the standard error


def test_callback_can_stop_and_sees_every_state():
    seen: list[int] = []
    model = creep().fit(X, callback=lambda stage, state: seen.append(len(state.objective)) or len(seen) == 4)
    assert seen == [1, 2, 3, 4]
    assert model.n_iter_ == 4


@pytest.mark.parametrize("workers", [1, 3])
def test_resume_with_latents_and_noise_is_bit_for_bit(tmp_path, workers):
    with tallies.backend("threads", workers=workers):
        whole = creep(random_state=5).fit(X)
        creep(random_state=5, max_iter=11).fit(X, checkpoint=tmp_path / "c")
        rest = creep(random_state=99).fit(X, resume=tmp_path / "c")  # the seed of the first part goes on
    np.testing.assert_array_equal(rest.history_, whole.history_)
    np.testing.assert_array_equal(rest.fitted_.mean, whole.fitted_.mean)
    np.testing.assert_array_equal(rest.fitted_.visits, whole.fitted_.visits)
    assert rest.seed_ == 5


def test_a_checkpoint_belongs_to_its_model_and_data(tmp_path):
    creep(max_iter=2).fit(X, checkpoint=tmp_path / "c")
    with pytest.raises(FileError, match="other data"):
        creep().fit(X + 1, resume=tmp_path / "c")
    with pytest.raises(FileError, match="other hyperparameters"):
        creep(pause=0.1).fit(X, resume=tmp_path / "c")
    with pytest.raises(FileError, match="checkpoint"):
        tallies.load(tmp_path / "c")
    with pytest.raises(FileError, match="is of a Creep, but this is a GDA"):
        tallies.GDA().fit(X, np.arange(40) % 2, resume=tmp_path / "c")
    with pytest.raises(IsADirectoryError):
        creep().fit(X, checkpoint=tmp_path)
    with pytest.raises(FileNotFoundError):
        creep().fit(X, resume=tmp_path / "nothing")


def test_a_fit_without_seed_differs_and_can_be_repeated():
    a, b = creep(random_state=None).fit(X), creep(random_state=None).fit(X)
    assert a.history_[-1] != b.history_[-1]
    np.testing.assert_array_equal(creep(random_state=a.seed_).fit(X).history_, a.history_)
    assert creep(random_state=np.random.RandomState(3)).fit(X).seed_ == creep(random_state=np.random.RandomState(3)).fit(X).seed_


def test_where_shards_are_cut_depends_on_the_data_alone():
    found = []
    for workers in (1, 4):
        with tallies.backend("threads", workers=workers):
            assert thread_count() == workers
            found.append(list(cuts(1_000_000, 400_000_000)))
            assert each(abs, [Held(-1), Held(2)]) == [1, 2]
    assert found[0] == found[1]
    assert [c.start for c in found[0]][1:] == [c.stop for c in found[0]][:-1]
    assert found[0][-1].stop == 1_000_000


def test_backend_refuses_nonsense():
    with pytest.raises(ValueError, match="at least 1"), tallies.backend("threads", workers=0):
        pass
    with pytest.raises(ValueError, match="scheduler address"), tallies.backend("cluster"):
        pass


def test_progress_is_silent_when_not_asked(capsys):
    creep().fit(X)
    assert capsys.readouterr().err == ""
    creep().fit(X, progress=True)
    assert "Creep" in capsys.readouterr().err


def test_interrupt_leaves_a_model_and_a_checkpoint(tmp_path):
    code = f"""
import sys, warnings
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_engine import X, creep
print("ready", flush=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = creep(max_iter=10_000, pause=0.002, random_state=5).fit(X, checkpoint={str(tmp_path / "c")!r})
print(model.n_iter_, model.converged_, any("interrupted" in str(w.message) for w in caught), flush=True)
"""
    child = begin("-c", code)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.7)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert "Stopping after this sweep" in err
    done, converged, warned = out.split()
    assert (converged, warned) == ("False", "True")
    assert 0 < int(done) < 10_000
    more = int(done) + 5
    rest = creep(max_iter=more, pause=0.002).fit(X, resume=tmp_path / "c")
    whole = creep(max_iter=more, pause=0.002, random_state=5)
    np.testing.assert_array_equal(rest.history_, whole.fit(X).history_)


def states_at(path):
    return storage.read(path, "checkpoint", lambda owner: [*Creep._records(), engine.State])["states"]


def test_checkpoints_come_every_few_sweeps(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "PAUSE", 0.0)
    path, found = tmp_path / "c", []

    def look(stage, state):
        if path.exists():
            found.append(len(states_at(path)[0].objective))

    creep(max_iter=60).fit(X, checkpoint=path, callback=look)
    assert sorted(set(found)) == [25, 50]


def test_arrays_off_the_wire_are_put_where_they_fit():
    """A product with an array at an odd address skips BLAS and rounds otherwise: a cluster would change bits."""

    class Pair(NamedTuple):
        a: np.ndarray
        rest: Any

    odd = np.zeros(8 * 6 + 1, dtype=np.uint8)[1:].view(np.float64).reshape(2, 3)
    odd[...] = np.arange(6.0).reshape(2, 3)
    fine = np.ones(3)
    assert not odd.flags.aligned
    found = aligned(Pair(odd, ("word", odd.T, fine, None)))
    assert isinstance(found, Pair)
    assert found.a.flags.aligned
    np.testing.assert_array_equal(found.a, odd)
    assert found.rest[1].flags.aligned
    assert found.rest[1].flags.f_contiguous  # the layout stays, since products depend on it too
    assert found.rest[2] is fine
    assert found.rest[0] == "word"
    assert found.rest[3] is None


def test_quick_sweeps_do_not_wait_for_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "PAUSE", 3600.0)
    path = tmp_path / "c"
    creep(max_iter=60).fit(X, checkpoint=path, callback=lambda stage, state: path.exists())  # ends the fit where it comes too early
    assert len(states_at(path)[0].objective) == 60


# searches and chains: plans of several stages


SEARCH = {"steps": (0.9, 0.2, 0.5), "max_iter": 6}


def view(model):
    fitted = model.fitted_
    return [fitted.mean.tolist(), fitted.visits.tolist(), fitted.tried, model.history_.tolist(), model.n_iter_, model.stopped_]


@pytest.mark.parametrize("seed", [5, 7, 9])  # 7: chains begin with params and latents of the search, 9: the first where it ended
def test_a_search_resumes_with_the_same_bits_from_every_sweep_of_every_stage(tmp_path, seed):
    whole = creep(**SEARCH, random_state=seed).fit(X)
    seen: list[str] = []
    creep(**SEARCH, random_state=seed).fit(X, callback=lambda stage, state: seen.append(stage.name))
    assert seen == [*["step 0.9"] * 4, *["step 0.2"] * 4, *["step 0.5"] * 4, *["chain 0", "chain 1"] * 6]
    for cut in range(1, len(seen) + 1):
        calls = iter(range(100))
        path = tmp_path / f"c{cut}"
        part = creep(**SEARCH, random_state=seed).fit(X, checkpoint=path, callback=lambda *a, c=calls, n=cut: next(c) + 1 == n)
        assert part.stopped_ == ("callback" if cut < len(seen) - 1 else part.stopped_)
        assert np.isfinite(part.fitted_.mean).all()
        assert view(creep(**SEARCH, random_state=seed).fit(X, resume=path)) == view(whole), cut


def test_a_finished_fit_goes_on_with_more_sweeps(tmp_path):
    whole = creep(**SEARCH | {"max_iter": 9}).fit(X)
    creep(**SEARCH).fit(X, checkpoint=tmp_path / "c")
    assert view(creep(**SEARCH | {"max_iter": 9}).fit(X, resume=tmp_path / "c")) == view(whole)
    again = creep(**SEARCH).fit(X, resume=tmp_path / "c", checkpoint=tmp_path / "d")  # at its end already
    assert view(again) == view(creep(**SEARCH).fit(X))
    assert view(creep(**SEARCH).fit(X, resume=tmp_path / "d")) == view(again)


class Counted(NamedTuple):
    mean: np.ndarray
    sweeps: int


@dataclass(frozen=True)
class Plain(Halving):
    """Halving without latents: its sweeps can be dropped."""

    def settle(self, shard, params, rng):
        return None

    def sweep(self, shard, latents, params, rng):
        error = shard.X - params.mean
        return Tally(-float((error**2).sum()), len(shard.X), error.sum(axis=0) + 1e-3 * rng.normal()), None


@pytest.mark.parametrize("workers", [1, 3])
def test_a_sweep_that_is_dropped_between_shards_leaves_the_state_before_it(workers):
    sources, presses, asked = held(lambda cut: Shard(X[cut]), 40, 0, 10), [], 0

    def pressed():  # within the fourth sweep: the first is never dropped
        nonlocal asked
        asked += 1
        return asked > 10

    def plan():
        kept = yield Stage("", Plain(), sources, lambda end: Counted(end.params.mean, len(end.objective)), 30)
        return kept

    def runner(**more):
        return Runner(lambda sources, shared: Threads(sources, workers), seed=3, **more)

    whole = runner().run(plan())
    cut = runner()
    cut.pressed, cut.dropped = pressed, lambda: presses.append(cut.record())
    kept = cut.run(plan())
    done = kept.value.sweeps  # threads that begin in another order ask less often: none is left out before one that was begun
    assert done == 3 if workers == 1 else 3 <= done < 30
    assert (kept.stopped, kept.cut, cut.cut) == ("interrupted", True, "interrupted")
    assert kept.objective == whole.objective[:done]
    assert [len(record.states[0].objective) for record in presses] == [done]
    again = runner(record=presses[0]).run(plan())
    assert again.objective == whole.objective
    np.testing.assert_array_equal(again.value.mean, whole.value.mean)


def test_a_sweep_that_writes_into_its_latents_is_carried_to_its_end():
    def plan():
        return (yield Stage("", Halving(), held(lambda cut: Shard(X[cut]), 40, 0, 10), lambda end: None, 5))

    runner = Runner(lambda sources, shared: Threads(sources))
    runner.pressed = lambda: True
    assert len(runner.run(plan()).objective) == 5


def test_ended_stages_are_written_once_and_belong_together(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "PAUSE", 0.0)
    written: list[str] = []
    write = storage.write
    monkeypatch.setattr(storage, "write", lambda path, *rest: written.append(path.name) or write(path, *rest))
    creep(**SEARCH | {"max_iter": 60}).fit(X, checkpoint=tmp_path / "c")
    assert [name for name in written if name != "c"] == ["c.1", "c.2", "c.3"]
    assert written.count("c") > 2
    creep(**SEARCH).fit(X, checkpoint=tmp_path / "d")
    (tmp_path / "d.2").replace(tmp_path / "c.2")
    with pytest.raises(FileError, match="belongs to another fit"):
        creep(**SEARCH).fit(X, resume=tmp_path / "c")


def test_stages_of_the_same_sources_share_one_backend_and_one_survey():
    placed: list[Any] = []
    surveys: list[Any] = []

    class Counting(Halving):
        def survey(self, shard):
            surveys.append(shard)
            return super().survey(shard)

    data = creep()._prepare(X)

    def plan():
        for step in (0.1, 0.2, 0.3):
            yield Stage("", Counting(step), data, lambda end: end.params, 2)

    Runner(lambda sources, shared: placed.append(sources) or Threads(sources)).run(plan())
    assert len(placed) == 1
    assert len(surveys) == len(data)


def test_a_stage_may_start_from_a_function_of_the_survey_that_is_shared():
    surveys: list[Any] = []

    class Counting(Halving):
        def survey(self, shard):
            surveys.append(shard)
            return super().survey(shard)

    data = creep()._prepare(X)

    def plan():
        kept = yield Stage("", Counting(0.5), data, lambda end: end.params, 2)
        start = kept.value.mean

        def midway(survey):
            return Params((start + survey.total / survey.n) / 2, 0.0)

        kept = yield Stage("", Counting(0.0), data, lambda end: end.params, 1, start=midway)
        return start, kept.value.mean

    before, after = Runner(lambda sources, shared: Threads(sources)).run(plan())
    np.testing.assert_array_equal(after, (before + add_up(data)) / 2)
    assert len(surveys) == len(data)


def add_up(data):
    total = engine.add([Halving().survey(source.load()) for source in data])
    return total.total / total.n


def test_a_fit_that_fails_leaves_the_earlier_one():
    model = creep().fit(X)
    before = model.fitted_
    with pytest.raises(ValueError, match="could not convert"):
        model.fit([["a"]])
    with pytest.raises(TypeError, match="no argument 'checkpiont'; did you mean 'checkpoint'"):
        model.fit(X, checkpiont="here")
    assert model.fitted_ is before
    fresh = creep()
    with pytest.raises(AttributeError, match="not fitted"):
        _ = fresh.history_


@dataclass(frozen=True)
class Turning(Halving):
    """Says `values` of its sweeps, one after the other, whatever it does."""

    values: tuple[float, ...] = ()
    gaps: bool = False

    def objective(self, tally, before, after):
        return self.values[min(int(after.noise) - 1, len(self.values) - 1)]

    def update(self, params, tally, rng):
        return Params(params.mean, params.noise + 1)  # counts the sweeps


@dataclass(eq=False, repr=False, kw_only=True)
class Turn(Creep):
    values: tuple[float, ...] = ()
    gaps: bool = False
    spoil: float = 0.0

    def _plan(self, data, seed):
        model = Turning(tol=self.tol, values=self.values, gaps=self.gaps)
        kept = yield Stage("turn", model, data, lambda end: end.params, self.max_iter, start=Params(np.zeros(3), 0.0))
        return Fitted(Run.of(kept, seed), kept.value.mean + self.spoil, np.zeros(1), ())


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((-5.0, -4.0, NAN), r"of the stage 'turn' was nan after sweep 3 \(it was -4 after sweep 2\).*Look for values in the data"),
        ((-5.0, -INF), r"was -inf after sweep 30 \(it was -5 after sweep 1\)"),
        ((INF,), "was inf after sweep 30;"),
    ],
)
def test_a_fit_whose_objective_is_lost_is_refused_and_changes_nothing(values, told, tmp_path):
    model = Turn(values=(-2.0, -1.0)).fit(X)
    before = model.fitted_
    with pytest.raises(FitError, match=told):
        model.set_params(values=values).fit(X, checkpoint=tmp_path / "c")
    assert model.fitted_ is before


def test_sweeps_that_have_no_objective_yet_or_now_are_no_fault():
    assert Turn(values=(NAN, NAN, -3.0)).fit(X).history_.tolist() == [-3.0] * 28
    assert Turn(values=(NAN,), max_iter=2).fit(X).history_.tolist() == []
    assert Turn(values=(-1.0, NAN), gaps=True).fit(X).history_.tolist() == [-1.0]


@pytest.mark.parametrize("spoil", [NAN, INF])
def test_a_fit_whose_answers_are_no_numbers_is_refused(spoil):
    with pytest.raises(FitError, match="Turn ended after 30 sweeps with mean not a finite number; nothing was kept"):
        Turn(values=(-1.0,), spoil=spoil).fit(X)
    assert Turn(values=(-1.0,), spoil=-INF).fit(X).fitted_.mean[0] == -INF  # log 0


def test_progress_names_the_stage(capsys):
    creep(**SEARCH).fit(X, progress=True)
    told = capsys.readouterr().err
    assert "Creep, step 0.2" in told
    assert "Creep, chain 1" in told


def test_old_files_are_refused_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "FORMAT", 1)
    storage.write(tmp_path / "old.tallies", "model", "GDA", {"hyperparameters": {}, "fitted": {}})
    monkeypatch.undo()
    with pytest.raises(FileError, match="refit with this version"):
        tallies.load(tmp_path / "old.tallies")


def test_a_block_of_one_blas_thread_inside_another_changes_nothing_and_the_outer_one_ends():
    libraries = _blas().lib_controllers
    before = [library.num_threads for library in libraries]
    with one_blas_thread():
        with one_blas_thread():
            assert {library.num_threads for library in libraries} == {1}
        assert {library.num_threads for library in libraries} == {1}
    assert [library.num_threads for library in libraries] == before
