"""What takes long and hears nothing: Ctrl-C leaves it behind, with the state before it, or with nothing where there was none."""

import gc
import signal
import threading
import time
import weakref
from contextlib import suppress
from copy import deepcopy
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import tallies
from running import begin
from tallies import engine, storage, watch
from tallies.aside import LEFT, STOP, Late, aside, left_behind
from tallies.backends import Threads, over_rows, place
from tallies.bayes.model import ClassModel
from tallies.engine import Dropped
from tallies.resumed import verify
from tallies.sources import Held
from tallies.sums import Half, Sum
from tallies.topics import sampler, tokens

CHILD = """
import hashlib, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
import tallies
from tallies import engine, storage, watch
from tallies.aside import left_behind
from tallies.bayes.model import ClassModel
engine.GRACE, engine.PATIENCE, engine.QUICK = 0.3, 0.6, -1.0
update, calls = ClassModel.update, []
def slow(self, params, tally, rng):
    calls.append(1)
    if len(calls) == int(sys.argv[1]):
        print("in it", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)  # minutes in which no signal is heard
    return update(self, params, tally, rng)
ClassModel.update = slow
X = np.random.default_rng(0).normal(size=(40, 3))
X[::7, 1] = np.nan  # by EM
model = tallies.GDA(tol=1e-14, max_iter=50).fit(X, np.arange(40) % 2, checkpoint=sys.argv[2] if len(sys.argv) > 2 else None)
print(model.n_iter_, model.stopped_, left_behind(), np.isfinite(model.means_).all(), flush=True)
"""


def pressed_in(*words):
    """A child that is sent Ctrl-C in an endless call: how soon it was gone, and what it said."""
    child = begin("-c", CHILD, *words)
    assert child.stdout.readline() == "in it\n", child.stderr.read()
    child.send_signal(signal.SIGINT)
    begun = time.monotonic()
    out, err = child.communicate(timeout=60)
    return time.monotonic() - begun, out, err


def test_a_sweep_that_takes_too_long_is_dropped_and_the_fit_goes_on_with_the_same_bits(tmp_path):
    took, out, err = pressed_in("4", str(tmp_path / "c"))
    assert out.split() == ["3", "interrupted", "True", "True"], err
    assert "Stopping" in err
    assert took < 30  # 0.3 s, and what a busy machine adds; the call takes minutes
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[::7, 1] = np.nan
    model = tallies.GDA(tol=1e-14, max_iter=50)
    whole = model.fit(X, np.arange(40) % 2).history_
    np.testing.assert_array_equal(model.fit(X, np.arange(40) % 2, resume=tmp_path / "c").history_, whole)


def test_a_first_sweep_that_takes_too_long_ends_the_fit():
    took, out, err = pressed_in("1")
    assert out == ""
    assert "KeyboardInterrupt" in err
    assert took < 30


AGAIN = """
import hashlib, os, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
import tallies
from tallies import engine
from tallies.bayes.model import ClassModel
engine.PATIENCE = 0.6
sweep, calls = ClassModel.sweep, []
def slow(self, *given):
    calls.append(1)
    if len(calls) <= 2:  # both threads, so that none is free
        print("in it\\n", end="", flush=True)  # in one piece: they print at once
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)
    return sweep(self, *given)
ClassModel.sweep = slow
model, X = tallies.GDA(), np.random.default_rng(0).normal(size=(400, 3))
model.shard_rows = 100
with tallies.backend("threads", workers=2):
    try:
        model.fit(X, np.arange(400) % 2)
    except KeyboardInterrupt:
        begun = time.monotonic()
        model.fit(X, np.arange(400) % 2)
        print(time.monotonic() - begun, flush=True)
os._exit(0)  # the threads would be waited for
"""


def test_threads_that_were_left_behind_do_not_hold_up_the_next_fit():
    child = begin("-c", AGAIN)
    assert [child.stdout.readline() for _ in range(2)] == ["in it\n"] * 2
    child.send_signal(signal.SIGINT)
    try:
        out, err = child.communicate(timeout=60)  # the call takes minutes
    finally:
        child.kill()
    assert float(out.split()[-1]) < 30, err


def test_what_was_left_behind_ends_before_its_next_shard(monkeypatch):
    begun, free, shards = threading.Event(), threading.Event(), []
    monkeypatch.setattr(engine, "PATIENCE", 0.0)
    monkeypatch.setattr(watch.Ear, "__call__", lambda self: begun.is_set())
    sweep = ClassModel.sweep

    def slow(self, *given):
        shards.append(1)
        begun.set()
        free.wait(60)
        return sweep(self, *given)

    monkeypatch.setattr(ClassModel, "sweep", slow)
    model = tallies.GDA()
    model.shard_rows = 10
    with tallies.backend("threads", workers=1), pytest.raises(KeyboardInterrupt):
        model.fit(np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 2)
    free.set()
    LEFT[-1].join(60)
    assert not LEFT[-1].is_alive()
    assert len(shards) == 1  # of ten


def test_a_call_aside_gives_what_it_gives_and_raises_what_it_raises():
    assert aside(lambda: threading.current_thread().name, lambda: False, None) == "tallies-aside"
    with pytest.raises(ZeroDivisionError):
        aside(lambda: 1 / 0, lambda: False, 1.0)
    free = threading.Event()
    with pytest.raises(Late):
        aside(free.wait, lambda: True, 0.0)
    assert left_behind()
    free.set()


def test_quick_sweeps_stay_in_the_main_thread():
    called = []
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[::7, 1] = np.nan
    aside_before = watch.Ear.aside
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch.Ear, "aside", lambda self, *what: called.append(1) or aside_before(self, *what))
        patch.setattr(engine, "QUICK", 60.0)  # however busy the machine
        n = tallies.GDA(tol=1e-14, max_iter=50).fit(X, np.arange(40) % 2).n_iter_
    assert n > 5
    assert len(called) == 5  # the survey, the first sweep, the end of the stage, and the plan before and after it


def rounds(shard, counts, begun):
    sampler.sweeps(shard, counts, (np.full(5, 0.1, np.float32), 0.01), 7, n_sweeps=2, threads=2, begun=begun)


def test_a_sweep_of_lda_is_left_between_two_rounds_and_goes_on_with_the_same_bits(monkeypatch):
    monkeypatch.setattr(tokens, "block_count", lambda *_: 4)
    monkeypatch.setattr(sampler, "PIECE", 1)
    rng = np.random.default_rng(0)
    X, none = sp.csr_array(rng.poisson(0.5, (60, 40))), sp.csr_array((40, 5), dtype=np.int64)
    (shard,) = tokens.lay_out(X, 5, none, rng, [slice(0, 60)])
    whole, cut = (sampler.empty(shard, 5, none) for _ in range(2))
    for counts in (whole, cut):
        sampler.scatter(shard, counts, np.random.default_rng(1))
    rounds(shard, whole, None)
    begun, asked = np.zeros(1, dtype=np.int64), iter(range(100))
    token = STOP.set(lambda: next(asked) % 3 == 2)
    try:
        for at in (3, 6):
            with pytest.raises(Dropped):
                rounds(shard, cut, begun)
            assert begun[0] == at
            assert (np.asarray(sampler.word_counts(shard, cut).sum(axis=0)) == cut.n_k).all()
        rounds(shard, cut, begun)
    finally:
        STOP.reset(token)
    assert begun[0] == 0
    for one, other in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(one, other)


def test_lda_is_cut_within_a_sweep_and_resumes_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "block_count", lambda *_: 4)
    monkeypatch.setattr(sampler, "PIECE", 1)
    X = np.random.default_rng(0).poisson(0.4, (80, 50))
    options = {"n_topics": 4, "max_iter": 12, "burn_in": 6, "thin": 2}
    whole = tallies.LDA(**options).fit(X)
    asked = []
    with monkeypatch.context() as patch:
        patch.setattr(watch.Ear, "__call__", lambda self: asked.append(1) or len(asked) > 18)
        model = tallies.LDA(**options).fit(X, checkpoint=tmp_path / "c")
    assert model.stopped_ == "interrupted"
    assert 0 < model.n_iter_ < 12
    assert (np.asarray(model.chains_[0].n_wk.sum(axis=0)) == model.chains_[0].n_k).all()
    assert model.topics_.sum(axis=1) == pytest.approx(1.0)
    (state,) = storage.read(tmp_path / "c", "checkpoint", lambda owner: [*tallies.LDA._records(), engine.State])["states"]
    assert state.latents[0].begun[0] > 0  # it was cut within a sweep
    again = tallies.LDA(**options).fit(X, resume=tmp_path / "c")
    np.testing.assert_array_equal(again.history_, whole.history_)
    np.testing.assert_array_equal(again.topics_, whole.topics_)


def test_lda_in_several_shards_is_cut_between_two_of_them(monkeypatch):
    """In a sweep whose sample is kept: documents of the shards that have one more are shared out by as many."""
    X, swept, sweep = np.random.default_rng(0).poisson(0.4, (80, 50)), [], engine._sweep
    model = tallies.LDA(n_topics=4, max_iter=12, burn_in=6, thin=2)
    model.shard_rows = 20
    monkeypatch.setattr(engine, "QUICK", -1.0)
    monkeypatch.setattr(engine, "_sweep", lambda *given: swept.append(1) or sweep(*given))
    monkeypatch.setattr(watch.Ear, "__call__", lambda self: len(swept) >= 4 * 9 + 2)  # two of four shards in the tenth sweep
    with tallies.backend("threads", workers=1), pytest.warns(tallies.errors.ConvergenceWarning, match="interrupted"):
        model.fit(X)
    assert len(swept) == 4 * 9 + 2
    assert model.n_iter_ == 9
    np.testing.assert_allclose(model.document_topics_.sum(axis=1), 1.0)
    n_dk = model.document_topics_ * (X.sum(axis=1)[:, None] + model.alpha_.sum()) - model.alpha_
    np.testing.assert_allclose(2 * n_dk, np.round(2 * n_dk), atol=1e-9)  # means of one sample, or of two
    assert (np.abs(n_dk - np.round(n_dk)) > 0.4).any()


def test_half_of_a_sweep_that_is_not_of_these_data_is_refused():
    whole = Sum()
    for part in (1.0, 2.0):
        whole.put((part, np.full(3, part)))
    half = whole.half()
    assert half.done == 2
    again = Sum(half)
    again.put((3.0, np.full(3, 3.0)))
    np.testing.assert_array_equal(again.value()[1], np.full(3, 6.0))
    for damaged in ((1.0, np.ones(4)), (1.0, np.ones(3, dtype=int)), (1.0,), None):
        with pytest.raises(ValueError, match="damaged"):
            Sum(half._replace(levels=((2, damaged),))).put((3.0, np.full(3, 3.0)))


def test_sums_that_wait_for_their_update_must_be_of_these_data():
    class Means(engine.Model):
        draws = False

        def sweep(self, shard, latents, params, rng):
            latents[:] = 2 * latents + shard - params
            return (latents.sum(),), latents

        def update(self, params, tally, rng):
            return params + tally[0] / 6

        def objective(self, tally, before, after):
            return tally[0]

    sources = [Held(np.arange(3.0)), Held(np.arange(3.0, 6.0))]
    stage = engine.Stage("means", Means(), sources, lambda end: end.params, start=0.0)
    swept = next(engine.steps(stage, place(sources), state=engine.State(0.0, [np.zeros(3), np.zeros(3)], ())))
    assert swept.half == Half(whole=(2, (15.0,)))
    verify(stage, place(sources), swept)
    np.testing.assert_array_equal(swept.latents, [[0, 1, 2], [3, 4, 5]])  # asking has changed nothing
    after = list(islice(engine.steps(stage, place(sources), state=swept), 2))[1]
    assert after.params == 2.5
    for whole in ((3, (15.0,)), (1, (15.0,)), (2, (np.ones(2),)), (2, 15.0), (2, None)):
        with pytest.raises(ValueError, match="damaged"):
            verify(stage, place(sources), swept._replace(half=Half(whole=whole)))


def test_no_shard_is_left_out_before_one_that_was_begun():
    """Of two threads the one with the first shard is slow to look whether Ctrl-C was pressed: the second shard has been begun."""
    pressed, begun, slow = threading.Event(), threading.Event(), [1]

    class Lock:
        lock = threading.Lock()

        def __enter__(self):
            if slow:
                slow.clear()
                assert begun.wait(30)
                pressed.set()
            self.lock.acquire()

        def __exit__(self, *_):
            self.lock.release()

    place = Threads([Held(i) for i in range(6)], workers=2)
    place.lock, place.stop = Lock(), pressed.is_set
    done = []
    with pytest.raises(Dropped):
        for i, _ in place._pairs(lambda i, shard, latents: (begun.set(), (i, None))[1], [None] * 6, ()):
            done.append(i)
    assert done == list(range(max(len(done), 2)))


@pytest.mark.parametrize("where", ["plan", "end"])
def test_what_a_plan_does_between_its_sweeps_is_broken_off_with_a_checkpoint(monkeypatch, tmp_path, where):
    """As the lassos of a network, or the products of a table of categories."""
    free, pressed = threading.Event(), []
    monkeypatch.setattr(engine, "PATIENCE", 0.0)
    monkeypatch.setattr(watch.Ear, "__call__", lambda self: bool(pressed))
    plan = tallies.GDA._plan

    def slow(*_):
        pressed.append(1)
        free.wait(60)

    def longer(self, data, seed):
        stages = plan(self, data, seed)
        stage = next(stages)
        kept = yield stage._replace(most=2, keep=slow if where == "end" else stage.keep)
        slow()
        stages.send(kept)

    monkeypatch.setattr(tallies.GDA, "_plan", longer)
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[::7, 1] = np.nan
    with pytest.raises(KeyboardInterrupt):
        tallies.GDA().fit(X, np.arange(40) % 2, checkpoint=tmp_path / "c")
    free.set()
    monkeypatch.undo()
    assert len(tallies.GDA().fit(X, np.arange(40) % 2, resume=tmp_path / "c").history_) > 2


def test_where_a_thread_fails_the_others_do_not_go_on_with_their_rows():
    done, begun, go = [], threading.Event(), threading.Event()

    def task(rows):
        if rows.start == 0:
            begun.wait(30)
            raise KeyboardInterrupt
        begun.set()
        go.wait(30)
        done.append(rows.start)

    with tallies.backend("threads", workers=2), pytest.raises(KeyboardInterrupt):
        over_rows(task, 2000, 1)
    go.set()
    time.sleep(0.2)
    assert len(done) <= 1


def test_an_error_of_a_call_keeps_nothing_alive():
    class Held:
        pass

    def fail(held):
        raise StopIteration(held)

    held = Held()
    seen, gone = weakref.ref(held), gc.isenabled()
    gc.disable()
    try:
        with suppress(StopIteration):
            aside(partial(fail, held), lambda: False, 5.0)
        del held
        assert seen() is None
    finally:
        if gone:
            gc.enable()


class Turns(engine.Model):
    """Sweeps that take long and hardly any time in turn, and write into what rows keep."""

    draws = False

    def sweep(self, shard, latents, params, rng):
        time.sleep(0.0 if params % 2 else 0.1)
        latents += 1
        return Swept(float(params)), latents

    def update(self, params, tally, rng):
        return params + 1


class Swept(NamedTuple):
    objective: float


def test_of_sweeps_that_take_turns_the_longer_one_tells_whether_to_listen(monkeypatch):
    monkeypatch.setattr(engine, "QUICK", 0.05)
    sources, asked = [Held(None)], []
    runner = engine.Runner(lambda sources, shared: Threads(sources))
    runner.aside = lambda call, patience: asked.append(patience) or call()
    stage = engine.Stage("turns", Turns(), sources, lambda end: end.params, 7, start=0, latents=[np.zeros(2)])
    kept = runner.carry_out([stage])[0]
    assert kept.value == 7
    # the loop itself, the first sweep, for each of six more the sweep and its update, and the end
    assert asked == [engine.PATIENCE] * 2 + [None, engine.GRACE] * 6 + [engine.PATIENCE]


def test_what_was_cut_is_written_once_though_no_model_comes_of_it(monkeypatch):
    monkeypatch.setattr(engine, "WRAP_UP", 0.2)
    runner, written = engine.Runner(lambda sources, shared: Threads(sources)), []
    runner.watch = lambda stage, state: written.append(1) or "interrupted"
    runner.dropped = lambda: written.append(2)
    runner.aside = lambda call, patience: aside(call, lambda: bool(written), patience)
    stage = engine.Stage("turns", Turns(), [Held(None)], lambda end: time.sleep(1.5), 7, start=0, latents=[np.zeros(2)])
    with pytest.raises(KeyboardInterrupt):
        runner.carry_out([stage])
    assert written == [1]


def test_the_state_of_a_fit_that_was_cut_is_written_while_its_model_is_made(monkeypatch, tmp_path):
    made, beside, write, update, calls = threading.Event(), [], storage.write, ClassModel.update, []
    monkeypatch.setattr(engine, "QUICK", -1.0)
    monkeypatch.setattr(watch.Ear, "__call__", lambda self: len(calls) >= 3)
    plan = tallies.GDA._plan

    def third(self, *given):
        calls.append(1)
        if len(calls) == 3:
            raise Dropped  # as a long sweep that hears of Ctrl-C
        return update(self, *given)

    def waiting(path, kind, *what):
        if kind == "checkpoint":
            beside.append(made.wait(30))
        write(path, kind, *what)

    def told(self, data, seed):
        fitted = yield from plan(self, data, seed)
        made.set()
        return fitted

    monkeypatch.setattr(ClassModel, "update", third)
    monkeypatch.setattr(storage, "write", waiting)
    monkeypatch.setattr(tallies.GDA, "_plan", told)
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[::7, 1] = np.nan
    with pytest.warns(tallies.errors.ConvergenceWarning, match="interrupted after 2 sweeps"):
        tallies.GDA().fit(X, np.arange(40) % 2, checkpoint=tmp_path / "c")
    assert beside == [True]
    assert (tmp_path / "c").is_file()  # the fit has waited for it


def test_an_inverse_of_many_columns_is_left_between_its_parts(monkeypatch, tmp_path):
    """The sums of its sweep are kept, and a resumed fit has the bits of one that nobody stopped."""
    from tallies.counts import full

    Y = np.random.default_rng(0).poisson(3.0, (30, 4))
    whole = tallies.PLN().fit(Y)
    inverses, pressed, invert = [], [], full.invert
    monkeypatch.setattr(engine, "QUICK", -1.0)
    monkeypatch.setattr(watch.Ear, "__call__", lambda self: bool(pressed))

    def third(Sigma):
        inverses.append(1)
        if len(inverses) == 3:
            pressed.append(1)
        found = invert(Sigma)
        assert not pressed  # left before its end
        return found

    with monkeypatch.context() as patch:
        patch.setattr(full, "invert", third)
        cut = tallies.PLN().fit(Y, checkpoint=tmp_path / "c")
    assert cut.stopped_ == "interrupted"
    monkeypatch.undo()
    np.testing.assert_array_equal(tallies.PLN().fit(Y, resume=tmp_path / "c").history_, whole.history_)


def test_a_later_stage_waits_for_the_state_of_the_one_that_was_cut(monkeypatch, tmp_path):
    """Of a joint network that is cut in its first stage, the next one goes on with the same rows and writes into what they keep."""
    Y, write, seen = np.random.default_rng(0).poisson(3.0, (40, 5)), storage.write, []

    def slow(path, kind, *what):
        time.sleep(0.5 if kind == "checkpoint" else 0.0)
        write(path, kind, *what)

    def fourth(stage, state):
        seen.append(deepcopy(state.latents[0]))
        return len(seen) == 4  # a trial: the point that it found is not yet the current one

    monkeypatch.setattr(storage, "write", slow)
    model = tallies.PLNNetwork(joint=True, penalty=[0.3, 0.1], select="bic", max_iter=30)
    model.fit(Y, checkpoint=tmp_path / "c", callback=fourth)
    (state,) = storage.read(tmp_path / "c", "checkpoint", lambda owner: [*model._records(), engine.State])["states"]
    for name in ("M", "S2", "M_trial", "S2_trial", "A", "R"):
        np.testing.assert_array_equal(getattr(state.latents[0], name), getattr(seen[-1], name))
