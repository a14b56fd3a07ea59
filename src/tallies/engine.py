"""The one loop by which every model is fitted, and the one runner of fits. Knows no model.

model     the verbs below and only what they need: a frozen dataclass of settings and small constants, no data
params    the small global state, sent everywhere
source    how to make a shard: `load()` gives the same one anywhere, any time
shard     a piece of the data; where it is cut belongs to the data, never to the number of workers
latents   what the rows of a shard keep between sweeps; they stay beside the shard and never travel
tally     sums over a shard; two tallies add leaf by leaf
stage     a model, its sources, and what to keep of its end
plan      a generator: yields stages, is sent what was kept of each, returns the fitted record
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from copy import deepcopy
from functools import partial
from threading import Event
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from tallies.aside import STOP, Late
from tallies.aside import Dropped as Dropped
from tallies.aside import stopping as stopping
from tallies.resumed import verify
from tallies.rules import check_end, lost
from tallies.rules import plateau as plateau
from tallies.rules import settled as settled
from tallies.sums import Half
from tallies.sums import add as add

Stopped = Literal["", "converged", "limit", "interrupted", "callback", "cycle"]  # why a stage ended; "" where it goes on


class Model:
    """Base of models, which are frozen dataclasses. All verbs are pure: they change neither self, nor the shard, nor the params.

    A model gives survey, init, sweep and update; what follows them has a default that suits most.
    """

    tol: float | None = None  # stop when the objective changes by less than this part of it; None: never
    monotone: ClassVar[bool] = False  # whether the objective can never fall (tested where it is declared)
    gaps: ClassVar[bool] = False  # whether sweeps may have no objective (NaN) after others had one
    draws: ClassVar[bool] = True  # whether its verbs draw random numbers; making a stream ready costs as much as a small sweep
    leaves_latents: ClassVar[bool] = False  # whether a sweep leaves the latents it is handed as they are: then it can be dropped
    goes_on: ClassVar[bool] = False  # whether a sweep looks at `stopping`, and goes on with the same bits from what it then left

    def survey(self, shard: Any) -> Any:
        """Tally of the raw data that `init` needs, one pass."""
        raise NotImplementedError

    def init(self, survey: Any, rng: np.random.Generator) -> Any:
        """Params, from the added surveys."""
        raise NotImplementedError

    def sweep(self, shard: Any, latents: Any, params: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """Tally and new latents of a shard: E-step, sampling sweep, or gradient. It may write into the latents it is handed."""
        raise NotImplementedError

    def update(self, params: Any, tally: Any, rng: np.random.Generator) -> Any:
        """Params, from the total."""
        raise NotImplementedError

    def settle(self, shard: Any, params: Any, rng: np.random.Generator) -> Any:
        """First latents of a shard."""
        return None

    def objective(self, tally: Any, before: Any, after: Any) -> float:
        """Of one iteration, for the history."""
        return tally.objective

    def done(self, state: State) -> bool:
        """True when another sweep would change nothing."""
        return settled(state.objective, self.tol)

    def outgoing(self, params: Any) -> Any:
        """What a sweep reads of the params, where that is less than all of them: the rest need not travel with every sweep."""
        return params

    def apart(self, latents: Any, params: Any) -> Any:
        """Latents for a sweep that may be run twice, or dropped: copies of what it writes, but for what nobody reads before."""
        return deepcopy(latents)

    def rows(self, shard: Any, latents: Any, params: Any) -> Any:
        """What users want of the rows of a shard, made at the end of a stage that asks for it."""
        return latents

    def ahead(self, params: Any) -> Any:
        """Params by which `rows` reads latents of the next sweep, where that was left between two shards."""
        return params

    def recount(self, shard: Any, latents: Any, params: Any) -> Any:
        """Before a fit goes on from a checkpoint: raise ValueError where latents do not fit the shard; a tally for `agree`."""

    def agree(self, state: State, counted: Any, start: Any) -> None:
        """Then: raise ValueError where a state does not follow from the added recounts and the stage's `start`."""

    def surveys_like(self, other: Model) -> bool:
        """Whether the survey of a stage just before, of the same sources, is this model's too."""
        return type(self) is type(other)


class Source(Protocol):
    """How to make a shard. Where the stage has something shared, `load` is given it."""

    def load(self, *shared: Any) -> Any: ...


QUICK = 0.2  # seconds of a sweep: the next one of the stage is not worth a thread of its own, nor leaving before its end
GRACE = 1.5  # seconds after Ctrl-C in which a sweep that can be dropped may still come to its end
PATIENCE = 3.0  # the same for what has nothing to show without it; then the fit is broken off
WRAP_UP = 5.0  # the same for what makes a model of a fit that was cut


class Backend(Protocol):
    """Holds the shards and brings a task to each of them."""

    stop: Callable[[], bool] | None  # asked before each shard: True raises `Dropped`
    copies: bool  # whether sweeps work on what `Model.apart` gives, for they may be run twice: any can be dropped then

    def run(self, task: Callable[..., tuple[Any, Any]], latents: list[Any], *broadcast: Any) -> tuple[list[Any], list[Any]]:
        """Call task(i, shard, latents[i], *broadcast) -> (result, latents) for every shard; results and latents in shard order."""
        ...

    def total(
        self, task: Callable[..., tuple[Any, Any]], latents: list[Any], *broadcast: Any, half: Half | None = None
    ) -> tuple[Any, list[Any]]:
        """The same with the results added up as `Sum` does, while they come: they need not all be held. It goes on from `half`."""
        ...

    def collect(self, latents: list[Any]) -> list[Any]:
        """The latents of all shards, brought home for a checkpoint."""
        ...


class State(NamedTuple):
    """All that is needed to go on with a stage."""

    params: Any
    latents: list[Any]  # one entry a shard; on a cluster they are handles until collected
    objective: tuple[float, ...]  # one value an iteration
    half: Half | None = None  # of the next sweep, where Ctrl-C came between two shards, or before its update


class End(NamedTuple):
    """The end of a stage, from which it chooses what to keep."""

    params: Any
    objective: tuple[float, ...]
    rows: list[Any]  # what `Model.rows` gave for each shard, where the stage asked for it


class Stage(NamedTuple):
    """A part of a fit."""

    name: str  # what the progress bar says, such as "ridge 0.1, fold 2"
    model: Model
    sources: Sequence[Source]
    keep: Callable[[End], Any]  # named tuple of arrays, numbers and names; small, for it is written to the checkpoint
    most: int | None = None  # sweeps
    start: Any = None  # params in place of survey and init, or a function that makes them of the survey, in place of init alone
    latents: list[Any] | None = None  # those of the stage just before (`Kept.latents`), in place of settle
    rows: bool | Literal["sum"] = False  # whether `keep` wants the rows, or their sum alone, where they are tallies
    shared: Source | None = None  # a large constant that each worker loads once, and hands to the sources


class Kept(NamedTuple):
    """What a plan is told of a stage that ended."""

    value: Any  # what the stage kept
    stopped: Stopped
    objective: tuple[float, ...]
    latents: list[Any] | None = None  # where they are, for the very next stage; not in a checkpoint
    params: Any = None  # with which it ended, likewise (of stages side by side, for the first alone)

    @property
    def cut(self) -> bool:
        """Whether the fit was told to stop: a plan then ends with the best of what is complete."""
        return self.stopped in ("interrupted", "callback")


class Record(NamedTuple):
    """How far a fit has come: the ends of the stages that are over, and the states of those that run."""

    ended: tuple[Kept, ...] = ()
    states: tuple[State | None, ...] = ()


# a plan may yield several stages at once (chains): they run side by side, and it is sent a list
Plan = Generator[Stage | list[Stage], Any, Any]
Place = Callable[[Sequence[Source], Source | None], Backend]  # where the shards of sources go, given what they share
Watch = Callable[[Stage, State], Stopped]  # sees every state; a reason ("interrupted", "callback") ends the fit, "" goes on


def stream(seed: int, stage: int, iteration: int, place: int) -> np.random.Generator:
    """Random numbers fixed by where they are used (place 0: the update, place i+1: shard i), never by who computes them."""
    words: Any = [seed, stage, iteration, place]
    if seed < 1 << 32:  # SeedSequence makes the same of a list, a number at a time
        words = np.array(words, dtype=np.uint32)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))


NO_STREAM: Any = None  # what a model that draws nothing is handed


def _survey(i: int, shard: Any, latents: Any, model: Model) -> tuple[Any, Any]:
    return model.survey(shard), None


def _settle(i: int, shard: Any, latents: Any, model: Model, params: Any, seed: int, stage: int) -> tuple[Any, Any]:
    return None, model.settle(shard, params, stream(seed, stage, 0, i + 1))


def _sweep(i: int, shard: Any, latents: Any, model: Model, params: Any, seed: int, stage: int, t: int, apart: bool) -> Any:
    latents = model.apart(latents, params) if apart and not model.leaves_latents else latents
    return model.sweep(shard, latents, params, stream(seed, stage, t, i + 1) if model.draws else NO_STREAM)


def _rows(i: int, shard: Any, latents: Any, model: Model, params: Any, ahead: int) -> tuple[Any, Any]:
    return model.rows(shard, latents, model.ahead(params) if i < ahead else params), None


def survey(model: Model, backend: Backend, shards: int) -> Any:
    """The added surveys of all shards."""
    return backend.total(_survey, [None] * shards, model)[0]


def steps(
    stage: Stage, backend: Backend, *, seed: int = 0, number: int = 0, surveyed: Any = None, state: State | None = None
) -> Iterator[State]:
    """Yield the state of a stage before every update and after it, without end; when to stop is the runner's business.

    `number` tells the stage's random numbers from those of others; `surveyed` saves the survey pass where there has been one;
    `state` goes on from where it stood.
    """
    model, shards = stage.model, len(stage.sources)
    if state is None:
        params = stage.start
        if params is None or callable(params):
            surveyed = survey(model, backend, shards) if surveyed is None else surveyed
            params = params(surveyed) if params else model.init(surveyed, stream(seed, number, 0, 0))
        latents = stage.latents
        if latents is None:
            latents = backend.total(_settle, [None] * shards, model, params, seed, number)[1]
        state = State(params, latents, ())
    while True:
        t = len(state.objective) + 1
        given = model, model.outgoing(state.params), seed, number, t, backend.copies
        total, latents = backend.total(_sweep, state.latents, *given, half=state.half)
        yield state._replace(latents=latents, half=Half(whole=(shards, total)))
        params = model.update(state.params, total, stream(seed, number, t, 0) if model.draws else NO_STREAM)
        objective = float(model.objective(total, state.params, params))
        state = State(params, latents, (*state.objective, objective))
        yield state


class Runner:
    """Drives a plan to its end. With a `record` it replays what is known of the fit and goes on from there, with the same bits."""

    def __init__(self, place: Place, *, seed: int = 0, record: Record | None = None, watch: Watch = lambda stage, state: ""):
        self.place, self.seed, self.watch = place, seed, watch
        self.known = Record() if record is None else record
        self.cut: Stopped = ""  # why the fit was told to stop
        self.took = 0.0  # seconds of the last sweeps
        self.pressed: Callable[[], bool] = lambda: False  # whether Ctrl-C was
        # how to make a call that may take long: left behind, with `Late`, so many seconds after Ctrl-C
        self.aside: Callable[[Callable[[], Any], float | None], Any] = lambda call, patience: call()
        self.dropped: Callable[[], object] = lambda: None  # called when a sweep was dropped, while `record` is the state before it
        self.written: Callable[[], object] = lambda: None  # waits for what `watch` and `dropped` have begun to write
        self.left = Event()  # set where a call was left behind with the fit: it ends before its next shard
        self.ended: list[Kept] = []
        self.running: tuple[tuple[Kept, ...], list[Any], list[Backend]] | None = None  # see `record`
        self.placed: tuple[Stage, Backend] | None = None  # consecutive stages of the same sources share one backend ...
        self.surveyed: tuple[Model, Any] | None = None  # ... and one survey

    def run(self, plan: Plan) -> Any:
        """The fitted record that the plan returns."""
        answer: Any = None
        while True:
            try:
                asked = self._patiently(partial(plan.send, answer))
            except StopIteration as end:
                return end.value
            group = [asked] if isinstance(asked, Stage) else list(asked)
            first = len(self.ended)
            kept = list(self.known.ended[first : first + len(group)])
            if len(kept) < len(group):
                kept = self.carry_out(group)
                for stage, its in zip(group, kept, strict=True):
                    check_end(stage.name, its.objective, its.stopped)
            self.ended += [k._replace(latents=None, params=None) for k in kept]
            answer = kept[0] if isinstance(asked, Stage) else kept

    def record(self) -> Record:
        """How far the fit has come. Of a fit that is over: its last stages just before their end, so that it can go on."""
        if self.running is None:
            return self.known
        ended, states, backends = self.running
        home = [s and s._replace(latents=b.collect(s.latents)) for s, b in zip(states, backends, strict=True)]
        return Record(ended, tuple(home))

    def carry_out(self, group: list[Stage]) -> list[Kept]:
        """Run the stages of a group side by side, a sweep of each in turn."""
        if self.cut:
            self.written()  # these may go on with the latents of the stage that was cut, and write into them
        number = len(self.ended)
        resumed = number == len(self.known.ended) and bool(self.known.states)
        states: list[Any] = list(self.known.states) if resumed else [None] * len(group)
        backends = [self._place(stage) for stage in group]
        what = zip(group, backends, range(number, number + len(group)), states, strict=True)
        loops = [self._patiently(partial(self._loop, *its)) for its in what]
        stopped: list[Stopped] = [""] * len(group)
        while not all(stopped):
            for i, stage in enumerate(group):
                stopped[i] = stopped[i] or self._stop(stage, states[i])
                if not stopped[i]:
                    try:
                        states[i] = state = self._sweep(stage, backends[i], loops[i], states[i])
                    except Dropped as left:
                        self.cut = stopped[i] = "interrupted"
                        if left.half is not None:
                            states[i] = states[i]._replace(latents=left.latents, half=left.half)
                        self.dropped()
                        continue
                    if not stage.model.gaps and np.isnan(state.objective[-1]) and not np.isnan(state.objective[:-1]).all():
                        raise lost(stage.name, state.objective)
                    self.running = tuple(self.ended), states, backends
                    if not self.cut:
                        self.cut = self.watch(stage, state)
        ends = zip(group, backends, states, stopped, strict=True)
        return [self._patiently(partial(self._kept, *end)) for end in ends]

    def _sweep(self, stage: Stage, backend: Backend, loop: Iterator[State], state: State | None) -> State:
        """The next state; `Dropped` where the one before is the last, with what half of a sweep has changed of it."""
        shown, model = state is not None and bool(state.objective), stage.model
        nothing = state is not None and all(part is None for part in state.latents)  # that half of a sweep would change
        droppable = shown and (nothing or model.leaves_latents or backend.copies)
        backend.stop = self.pressed if droppable or (shown and self.took >= QUICK) else self.left.is_set
        token = STOP.set(self.pressed if droppable or (shown and model.goes_on) else lambda: False)
        begun, swept = time.monotonic(), None
        try:
            if not shown:
                return self._patiently(lambda: (next(loop), next(loop))[1], safe=stage.latents is None)
            if self.took < QUICK:
                return (next(loop), next(loop))[1]
            swept = self.aside(partial(next, loop), GRACE if droppable else None)
            STOP.set(self.pressed)  # nothing is lost with an update: the sums of its sweep are kept
            return self.aside(partial(next, loop), GRACE)
        except (Late, Dropped) as left:
            known = left.args if swept is None else (swept.half, swept.latents)
            raise Dropped(*(() if droppable else known)) from None
        finally:
            # of sweeps that take turns, as a trial and a gradient do, the longer one tells
            self.took = max(time.monotonic() - begun, self.took / 2)
            STOP.reset(token)
            backend.stop = self.left.is_set

    def _patiently(self, call: Callable[[], Any], safe: bool = True) -> Any:
        """A call without which there is nothing to show; `safe`: it leaves alone what a checkpoint would hold."""
        try:
            return self.aside(call, WRAP_UP if self.cut else PATIENCE)
        except Late:
            self.left.set()
            if safe and self.running is not None and not self.cut:  # what was cut has been kept already
                self.dropped()
            raise KeyboardInterrupt from None

    def _place(self, stage: Stage) -> Backend:
        if self.placed is None or self.placed[0].sources is not stage.sources or self.placed[0].shared is not stage.shared:
            self.placed = self.surveyed = None  # let go first: two placed tables may be more than the memory holds
            self.placed = stage, self.place(stage.sources, stage.shared)
            self.placed[1].stop = self.left.is_set
        return self.placed[1]

    def _loop(self, stage: Stage, backend: Backend, number: int, state: State | None) -> Iterator[State]:
        surveyed = None
        if state is not None:
            verify(stage, backend, state)
        elif stage.start is None or callable(stage.start):
            if self.surveyed is None or not stage.model.surveys_like(self.surveyed[0]):
                self.surveyed = stage.model, survey(stage.model, backend, len(stage.sources))
            surveyed = self.surveyed[1]
        return steps(stage, backend, seed=self.seed, number=number, surveyed=surveyed, state=state)

    def _stop(self, stage: Stage, state: State | None) -> Stopped:
        """Why the stage ends here; "" where it goes on. Every stage has one sweep at least, also after Ctrl-C."""
        if state is None:
            return ""
        if stage.model.done(state):
            return "converged"
        return "limit" if stage.most is not None and len(state.objective) >= stage.most else self.cut

    @staticmethod
    def _kept(stage: Stage, backend: Backend, state: State, stopped: Stopped) -> Kept:
        asked = _rows, state.latents, stage.model, state.params, 0 if state.half is None else state.half.done
        rows = [backend.total(*asked)[0]] if stage.rows == "sum" else backend.run(*asked)[0] if stage.rows else []
        value = stage.keep(End(state.params, state.objective, rows))
        return Kept(value, stopped, state.objective, state.latents, state.params)
