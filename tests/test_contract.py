"""Every estimator through the whole contract; the table is in contract.py."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import tallies
from contract import CASES, Case, arrays, take
from tallies import cluster as clusters
from tallies import engine, storage, watch
from tallies.counts import plan
from tallies.counts.rank import Rank
from tallies.engine import Kept, Model, Stage, State, add, stream
from tallies.sums import Half

ROWS = 400
FEWER = 300  # rows on a cluster, in so many parts, and most sweeps of a stage: each sweep waits for the messages of every part
PARTS, SWEEPS = 3, 5  # as many sweeps of short fits anywhere
# whose stages come to other work after more sweeps: samples that are kept, steps back, another start, another way to climb
LATE = {"lda": 30, "pln": 14, "pln mixture": 18, "pln by importance sampling": 30, "pln of rank 2": 300}
# one of each family, and the ways of fits that differ most: the others go to the cluster in `make long`
ON_A_CLUSTER = {
    *("gda with gaps", "naive bayes mixed", "lda", "fem by cross-validation", "fem network", "author-concept mentions"),
    *("pln", "pln by importance sampling", "pln network, joint"),
}
STORED = 50_000  # bytes that the settings and small constants of a model may take


def in_turn(cases: list[Case]) -> list[Case]:
    """Families by turns: two workers side by side then hardly ever compile the same loops."""
    of = [case.name.split()[0].strip(",") for case in cases]
    return [cases[i] for i in sorted(range(len(cases)), key=lambda i: (of[:i].count(of[i]), i))]


@pytest.fixture(params=in_turn(CASES), ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def made(case: Case, rows: int = ROWS) -> dict[str, Any]:
    return case.data(np.random.default_rng(7), rows)


@pytest.fixture
def data(case: Case) -> dict[str, Any]:
    return made(case)


def estimator(case: Case, parts: int = 1) -> Any:
    model = case.make()
    model.shard_rows = -(-ROWS // parts)
    return model


def fit(case: Case, data: dict[str, Any], parts: int = 1, **run: Any) -> Any:
    return estimator(case, parts).fit(**data, **run)


class Fit(NamedTuple):
    """A fit that nothing disturbs, which several tests look at and none may change."""

    model: Any
    stages: list[Stage]  # of its plan, in order
    seen: list[tuple[str, int]]  # every sweep: its stage, and which of it


def sweep_of(stage: Stage, state: State) -> tuple[str, int]:
    return stage.name, len(state.objective)


@cache
def whole_fit(case: Case, parts: int = 1) -> Fit:
    found: dict[int, Stage] = {}
    seen: list[tuple[str, int]] = []

    def look(stage: Stage, state: State) -> None:
        found.setdefault(id(stage), stage)
        seen.append(sweep_of(stage, state))

    with tallies.backend("threads", workers=3):
        model = fit(case, made(case), parts, callback=look)
    return Fit(model, list(found.values()), seen)


def usual(case: Case, parts: int = 1) -> Any:
    return whole_fit(case, parts).model


def stages(case: Case, parts: int = 1) -> list[Stage]:
    return whole_fit(case, parts).stages


def hurried(model: Model) -> Model:
    """A model that leaves its first starts soon: its later ones come in fewer sweeps."""
    return replace(model, trial_steps=6, spare_steps=6) if isinstance(model, Rank) else model


def fit_of_few_sweeps(case: Case, data: dict[str, Any], parts: int = PARTS, **run: Any) -> Any:
    """A fit that goes through all of its stages, and hardly through one of them to its end."""
    model, most = estimator(case, parts), LATE.get(case.name, SWEEPS)
    usual_plan = model._plan

    def shorter(*given: Any) -> Any:
        stages, answer = usual_plan(*given), None
        while True:
            try:
                asked = stages.send(answer)
            except StopIteration as end:
                return end.value
            few = [
                stage._replace(model=hurried(stage.model), most=min(stage.most or most, most))
                for stage in ([asked] if isinstance(asked, Stage) else asked)
            ]
            answer = yield few[0] if isinstance(asked, Stage) else few

    model._plan = shorter
    model.fit(**data, **run)
    del model._plan
    return model


@cache
def short_fit(case: Case) -> Any:
    """Of five parts, on three threads: the bits that two tests compare with."""
    with tallies.backend("threads", workers=3):
        return fit_of_few_sweeps(case, made(case), parts=5)


def shards(stage: Stage) -> list[Any]:
    common = [] if stage.shared is None else [stage.shared.load()]
    return [source.load(*common) for source in stage.sources]


def freeze(tree: Any) -> None:
    for leaf in arrays(tree):
        if leaf.ndim and leaf.base is None:
            leaf.flags.writeable = False


def same_bits(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return len(a) == len(b) and all(
        x.dtype == y.dtype and (x.tolist() == y.tolist() if x.dtype == object else x.tobytes() == y.tobytes())
        for x, y in zip(a, b, strict=True)
    )


def same_fit(a: Any, b: Any) -> bool:
    return same_bits(arrays(a.fitted_), arrays(b.fitted_))


def is_record(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def start(stage: Stage, whole: list[Any]) -> Any:
    """Params with which the stage begins."""
    if stage.start is not None and not callable(stage.start):
        return stage.start
    surveyed = add([stage.model.survey(shard) for shard in whole])
    return stage.start(surveyed) if stage.start else stage.model.init(surveyed, stream(0, 0, 0, 0))


def test_verbs_are_pure_and_speak_in_records(case: Case) -> None:
    for stage in {type(stage.model): stage for stage in stages(case)}.values():
        model = pickle.loads(pickle.dumps(stage.model))  # a model is its settings: it works wherever they are
        (shard,) = shards(stage)
        freeze(shard)
        facts = pickle.dumps(model)
        params = start(stage, [shard])
        latents = model.settle(shard, params, stream(0, 0, 0, 1))
        assert is_record(shard)
        for t in (1, 2):
            freeze(params)
            tally, latents = model.sweep(shard, latents, params, stream(0, 0, t, 1))
            before, params = params, model.update(params, tally, stream(0, 0, t, 0))
            assert is_record(params)
            assert is_record(tally)
            assert latents is None or is_record(latents)
            assert np.isscalar(model.objective(tally, before, params))
        assert pickle.dumps(model) == facts


def test_models_hold_no_data(case: Case) -> None:
    found: dict[int, Stage] = {}
    fit_of_few_sweeps(case, made(case, 2 * ROWS), callback=lambda stage, state: found.setdefault(id(stage), stage) is None)
    for few, many in zip(stages(case)[:3], [*found.values()][:3], strict=True):
        small, large = len(pickle.dumps(few.model)), len(pickle.dumps(many.model))
        assert small < STORED
        assert large < 1.2 * small + 500


def test_tallies_of_parts_add_to_the_tally_of_the_whole(case: Case) -> None:
    if case.stochastic:
        pytest.skip("other shards, other draws")
    if case.whole:
        pytest.skip(case.whole)
    one, seven = stages(case)[-1], stages(case, 7)[-1]
    whole, parts, model = shards(one), shards(seven), one.model
    assert len(parts) > 5
    params = start(one, whole)
    settled = [model.settle(s, params, stream(0, 0, 0, i)) for i, s in enumerate(parts)]
    total = add([model.sweep(s, z, params, stream(0, 0, 1, i))[0] for i, (s, z) in enumerate(zip(parts, settled, strict=True))])
    once, _ = model.sweep(whole[0], model.settle(whole[0], params, stream(0, 0, 0, 1)), params, stream(0, 0, 1, 1))
    for single, summed in zip(arrays(once), arrays(total), strict=True):
        np.testing.assert_allclose(summed, single, rtol=1e-10, atol=1e-10 * max(1.0, np.abs(np.nan_to_num(single)).max()))


def close(case: Case, one: list[np.ndarray], two: list[np.ndarray], least: float) -> None:
    tolerance = max(case.tolerance, least)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance * np.abs(a).max())


def test_shards_change_nothing(case: Case, data: dict[str, Any]) -> None:
    if case.stochastic or case.approximate:
        pytest.skip(case.approximate or "other shards, other draws")
    close(case, case.view(usual(case), data), case.view(usual(case, parts=7), data), 1e-12)


def test_threads_change_no_bit(case: Case, data: dict[str, Any]) -> None:
    """Short fits of one thread and of three, and answers of two as well; whole fits of two are those that are resumed."""
    found = []
    for workers in (1, 2, 3):
        with tallies.backend("threads", workers=workers):
            model = fit_of_few_sweeps(case, data, parts=5) if workers == 1 else short_fit(case)
            found.append([*arrays(model.fitted_), *case.view(model, data)])
    assert same_bits(found[0], found[1])
    assert same_bits(found[0], found[2])


def test_memory_changes_no_bit(case: Case, data: dict[str, Any]) -> None:
    """What is kept of rows lives in files, and shards that are made of others are made again for every sweep."""
    with tallies.backend("threads", workers=2, memory=1):
        there = fit_of_few_sweeps(case, data, parts=5)
    assert same_fit(short_fit(case), there)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[] if case.name in ON_A_CLUSTER else [pytest.mark.long]) for case in in_turn(CASES)],
)
def test_dask_changes_no_bit(case: Case, cluster: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(clusters, "EVERY", 4)  # sweeps after which what rows keep is written, and read for the next one
    monkeypatch.setattr(plan, "PLACING", 6)  # sweeps that place the rows of a question
    data = made(case, FEWER)
    here = fit_of_few_sweeps(case, data)
    with tallies.backend(cluster):
        there = fit_of_few_sweeps(case, data)
        view = case.view(there, data)
    assert same_fit(here, there)
    assert same_bits(view, case.view(here, data))


def test_resume_equals_uninterrupted_from_anywhere(case: Case, data: dict[str, Any], tmp_path: Any) -> None:
    """Cut at random places of the whole plan, also inside a search: a usable model each time, and the same bits in the end.

    One fit goes through all cuts, each time from the checkpoint of the one before.
    """
    whole, seen = usual(case, parts=5), whole_fit(case, parts=5).seen
    firsts = [i for i in range(1, len(seen)) if seen[i][0] != seen[i - 1][0]]  # the first sweep of a later stage
    rng = np.random.default_rng(len(seen))
    places = {0, *rng.choice(firsts, min(len(firsts), 2), replace=False).tolist(), *rng.integers(len(seen), size=2).tolist()}
    before = None
    with tallies.backend("threads", workers=2):
        for place in sorted(places):
            path, cut = tmp_path / f"cut{place}", []

            def stop(stage: Stage, state: State, at: tuple[str, int] = seen[place], cut: list[Any] = cut) -> bool:
                cut.append(sweep_of(stage, state))
                return cut[-1] == at

            part = fit(case, data, parts=5, checkpoint=path, resume=before, callback=stop)
            assert cut[-1] == seen[place]
            assert all(np.isfinite(v).all() for v in case.view(part, data)), seen[place]
            before = path
        rest = fit(case, data, parts=5, resume=before)
    assert same_fit(rest, whole), [seen[place] for place in sorted(places)]


LEAVE = ("author", "fem", "gda", "naive")  # families whose sweeps leave what rows keep as it was
WRITES = [case for case in in_turn(CASES) if not case.name.startswith(LEAVE)]


@pytest.mark.parametrize("place", [12, 15])
@pytest.mark.parametrize("case", WRITES, ids=lambda case: case.name)
def test_a_sweep_left_between_two_shards_goes_on_with_the_same_bits(
    case: Case, data: dict[str, Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """Where a sweep writes into what rows keep, half of it cannot be dropped: a checkpoint has what its first shards gave. It is
    left after two of five shards in the third sweep, or after all of them, while the update, which takes long, is under way."""
    parts, sweep, swept = 5, engine._sweep, []
    if not (places := [stage for stage in stages(case, parts) if writes(stage)]):
        pytest.skip("its sweeps leave what rows keep as it was")
    stage = places[-1]

    def counted(i: int, shard: Any, latents: Any, model: Any, *given: Any) -> Any:
        swept.extend([1] * (type(model) is type(stage.model)))
        return sweep(i, shard, latents, model, *given)

    update = type(stage.model).update

    def slow(*given: Any) -> Any:
        time.sleep(1.0 if len(swept) == 15 else 0.0)
        return update(*given)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "QUICK", -1.0)
        patch.setattr(engine, "GRACE", 0.0)
        patch.setattr(type(stage.model), "update", slow)
        patch.setattr(engine, "_sweep", counted)
        patch.setattr(watch.Ear, "__call__", lambda self: len(swept) >= place)
        with tallies.backend("threads", workers=1):
            part = fit(case, data, parts, checkpoint=tmp_path / "c")
    assert part.stopped_ == "interrupted"
    tree = storage.read(tmp_path / "c", "checkpoint", lambda owner: [*part._records(), State, Half, Kept])
    assert [state.half.done for state in tree["states"] if state.half] == [place % parts or parts]
    if not case.stochastic:  # what is told of the rows is what was accepted before
        seen: list[int] = []
        before = fit(
            case,
            data,
            parts,
            callback=lambda its, state: seen.extend([1] * (type(its.model) is type(stage.model))) or len(seen) == 2,
        )
        assert same_fit(part, before)
    with tallies.backend("threads", workers=2):
        assert same_fit(fit(case, data, parts, resume=tmp_path / "c"), usual(case, parts))


def writes(stage: Stage) -> bool:
    """Whether sweeps of the stage write into what rows keep, in several shards."""
    if stage.model.leaves_latents or len(stage.sources) < 2 or (stage.most or 3) < 3:
        return False
    (first, *_), params = shards(stage), start(stage, shards(stage))
    return stage.model.settle(first, params, stream(0, 0, 0, 1)) is not None


def changed(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Data that differ in one respect: the order of all rows, or of one argument's; a name; an author; a parent of a concept."""
    if "corpus" in data:
        corpus, concepts = data["corpus"], data["concepts"]
        others = [*corpus.authors[1:], corpus.authors[0]]
        parts = corpus.counts, corpus.vocabulary, corpus.documents, others
        sentences = corpus.sentence_counts, corpus.sentence_document, corpus.sentences
        yield "authors", {**data, "corpus": tallies.Corpus(*parts, *sentences)}
        yield "documents", {**data, "corpus": corpus[np.arange(len(corpus.documents))[::-1]]}
        yield "names", {**data, "concepts": tallies.Ontology(concepts.ids, concepts.names[::-1], parents=concepts.parents)}
        yield "parents", {**data, "concepts": tallies.Ontology(concepts.ids, concepts.names)}
        return
    shuffled = take(data, np.random.default_rng(1).permutation(ROWS))
    yield "all rows", shuffled
    for name in data if len(data) > 1 else ():
        yield f"rows of {name}", {**data, name: shuffled[name]}
    if hasattr(data.get("X"), "columns"):
        yield "names of columns", {**data, "X": data["X"].set_axis([f"new {c}" for c in data["X"]], axis=1)}


def test_a_checkpoint_belongs_to_its_data(case: Case, data: dict[str, Any], tmp_path: Any) -> None:
    fit(case, data, checkpoint=tmp_path / "c", callback=lambda *_: True)
    for what, other in [("everything", case.data(np.random.default_rng(8), ROWS)), *changed(data)]:
        with pytest.raises(tallies.errors.FileError, match="other data"):
            fit(case, other, resume=tmp_path / "c")
            pytest.fail(f"went on with other {what}")


def test_a_state_of_another_kind_is_refused(case: Case, data: dict[str, Any], tmp_path: Any) -> None:
    model, path = estimator(case), tmp_path / "c"
    fit(case, data, checkpoint=path, callback=lambda *_: True)
    tree = storage.read(path, "checkpoint", lambda owner: [*model._records(), State, Kept])
    states = tuple(state and state._replace(params=0) for state in tree["states"])
    storage.write(path, "checkpoint", type(model).__name__, {**tree, "states": states})
    with pytest.raises(ValueError, match=r"the checkpoint is damaged: expected \w+, got int"):
        fit(case, data, resume=path)


def test_a_refit_with_other_settings_is_a_new_fit(case: Case, data: dict[str, Any]) -> None:
    """Nothing of an earlier fit is left, in either direction."""
    again, fresh = deepcopy(usual(case)), estimator(case).set_params(**case.other).fit(**data)
    once, names = again.fitted_, set(vars(again))
    kept = [array.copy() for array in arrays(once)]  # a refit could write into it
    assert same_fit(again.set_params(**case.other).fit(**data), fresh)
    assert not same_bits(kept, arrays(fresh.fitted_))
    again.set_params(**case.make().get_params(deep=False)).fit(**data)
    assert same_bits(arrays(again.fitted_), kept)
    assert same_bits(arrays(once), kept)
    assert set(vars(again)) == names


def test_weight_two_is_the_row_twice(case: Case, data: dict[str, Any]) -> None:
    if not case.weights:
        pytest.skip("this model takes no sample_weight")
    twice = np.arange(ROWS) % 3 == 0
    weighted = case.make().fit(**data, sample_weight=1.0 + twice)
    doubled = case.make().fit(**take(data, np.repeat(np.arange(ROWS), 1 + twice)))
    for one, two in zip(case.view(weighted, data), case.view(doubled, data), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-9 * np.abs(one).max())


def test_row_order_does_not_matter(case: Case, data: dict[str, Any]) -> None:
    if case.stochastic or case.by_place or "corpus" in data:
        pytest.skip("other rows in other places, other draws; a corpus has no order of rows")
    shuffled = take(data, np.random.default_rng(1).permutation(ROWS))
    close(case, case.view(usual(case), data), case.view(fit(case, shuffled), data), 1e-9)


def test_save_and_load(case: Case, data: dict[str, Any], tmp_path: Any) -> None:
    model = usual(case)
    model.save(tmp_path / "model.tallies")
    again = tallies.load(tmp_path / "model.tallies")
    assert again.get_params() == model.get_params()
    assert same_fit(again, model)
    assert same_bits(case.view(again, data), case.view(model, data))
    assert again.summary() == model.summary()
    assert same_fit(pickle.loads(pickle.dumps(model)), model)


def test_objective_never_falls(case: Case) -> None:
    model = usual(case)
    if not stages(case)[-1].model.monotone or len(model.history_) < 2:
        pytest.skip("nothing is promised, or one sweep was enough")
    assert np.diff(model.history_).min() >= -1e-11 * np.abs(model.history_).max()


def test_parameters_return_from_own_samples(case: Case) -> None:
    if case.z_scores is None:
        pytest.skip("another line of the table has the same estimates")
    z = case.z_scores(usual(case))
    # largest of some hundred normal deviates: beyond 6 once in about a million runs
    assert np.abs(z).max() < 6
    assert np.abs(z).max() > 0.1  # the samples are not the parameters themselves
