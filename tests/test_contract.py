"""Every model through the whole contract; the table is in contract.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tallies
from contract import CASES, Case, arrays, take
from tallies.engine import add, stream

ROWS = 400


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def data(case: Case) -> dict[str, Any]:
    return case.data(np.random.default_rng(7), ROWS)


def fit(case: Case, data: dict[str, Any], parts: int = 1, **run: Any) -> Any:
    model = case.make()
    model.shard_rows = -(-ROWS // parts)
    return model.fit(**data, **run)


def shards(model: Any, data: dict[str, Any], parts: int) -> list[Any]:
    model.shard_rows = -(-ROWS // parts)
    return model._shards(**data)


def freeze(tree: Any) -> None:
    for leaf in arrays(tree):
        if leaf.ndim:
            leaf.flags.writeable = False


def same_bits(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return len(a) == len(b) and all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


def is_record(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def test_verbs_are_pure_and_speak_in_records(case: Case, data: dict[str, Any]) -> None:
    model = case.make()
    (shard,) = shards(model, data, 1)
    freeze(shard)
    facts = dict(vars(model))
    surveyed = model.survey(shard)
    params = model.init(surveyed, stream(0, 0, 0))
    latents = model.settle(shard, params, stream(0, 0, 1))
    for t in (1, 2):
        freeze(params)
        tally, latents = model.sweep(shard, latents, params, stream(0, t, 1))
        params = model.update(params, tally, stream(0, t, 0))
        assert is_record(surveyed)
        assert is_record(shard)
        assert is_record(params)
        assert is_record(tally)
        assert latents is None or is_record(latents)
        assert np.isscalar(model.objective(tally, params, params))
    assert vars(model).keys() == facts.keys()
    assert all(vars(model)[k] is v for k, v in facts.items())


def test_tallies_of_parts_add_to_the_tally_of_the_whole(case: Case, data: dict[str, Any]) -> None:
    if case.sampler:
        pytest.skip("a sampler draws other numbers for other shards")
    model = case.make()
    whole, parts = shards(model, data, 1), shards(model, data, 7)
    assert len(parts) == 7
    params = model.init(model.survey(whole[0]), stream(0, 0, 0))
    total = add([model.sweep(s, model.settle(s, params, stream(0, 0, i)), params, stream(0, 1, i))[0] for i, s in enumerate(parts)])
    once, _ = model.sweep(whole[0], model.settle(whole[0], params, stream(0, 0, 1)), params, stream(0, 1, 1))
    for one, seven in zip(arrays(once), arrays(total), strict=True):
        np.testing.assert_allclose(seven, one, rtol=1e-10, atol=1e-10 * max(1.0, np.abs(np.nan_to_num(one)).max()))


def test_shards_change_nothing(case: Case, data: dict[str, Any]) -> None:
    if not case.exact:
        pytest.skip("several shards are an approximation in this model, as its documentation says")
    for one, seven in zip(case.view(fit(case, data), data), case.view(fit(case, data, parts=7), data), strict=True):
        np.testing.assert_allclose(seven, one, rtol=1e-12, atol=1e-12 * np.abs(one).max())


def test_threads_change_no_bit(case: Case, data: dict[str, Any]) -> None:
    found = []
    for workers in (1, 2, 3):
        with tallies.backend("threads", workers=workers):
            model = fit(case, data, parts=5)
            found.append([*arrays(model.params_), *case.view(model, data)])
    assert same_bits(found[0], found[1])
    assert same_bits(found[0], found[2])


def test_dask_changes_no_bit(case: Case, data: dict[str, Any], cluster: Any) -> None:
    here = fit(case, data, parts=5)
    with tallies.backend(cluster):
        there = fit(case, data, parts=5)
    assert same_bits(arrays(here.params_), arrays(there.params_))
    assert here.history_.tolist() == there.history_.tolist()


def test_resume_equals_uninterrupted(case: Case, data: dict[str, Any], tmp_path: Any) -> None:
    whole = fit(case, data, parts=3)
    path = tmp_path / "half.tallies"
    half = fit(case, data, parts=3, checkpoint=path, callback=lambda state: len(state.objective) >= 2)
    assert half.n_iter_ == min(2, whole.n_iter_)
    rest = fit(case, data, parts=3, resume=path)
    assert rest.n_iter_ == whole.n_iter_
    assert rest.converged_ == whole.converged_
    assert same_bits(arrays(rest.params_), arrays(whole.params_))
    assert rest.history_.tolist() == whole.history_.tolist()


def test_weight_two_is_the_row_twice(case: Case, data: dict[str, Any]) -> None:
    if not case.weights:
        pytest.skip("this model takes no sample_weight")
    twice = np.arange(ROWS) % 3 == 0
    weighted = case.make().fit(**data, sample_weight=1.0 + twice)
    doubled = case.make().fit(**take(data, np.repeat(np.arange(ROWS), 1 + twice)))
    for one, two in zip(case.view(weighted, data), case.view(doubled, data), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-9 * np.abs(one).max())


def test_row_order_does_not_matter(case: Case, data: dict[str, Any]) -> None:
    if not case.exact:
        pytest.skip("a sampler visits rows in order")
    shuffled = take(data, np.random.default_rng(1).permutation(ROWS))
    for one, two in zip(case.view(fit(case, data), data), case.view(fit(case, shuffled), data), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-9, atol=1e-9 * np.abs(one).max())


def test_save_and_load(case: Case, data: dict[str, Any], tmp_path: Any) -> None:
    model = fit(case, data)
    model.save(tmp_path / "model.tallies")
    again = tallies.load(tmp_path / "model.tallies")
    assert again.get_params() == model.get_params()
    assert same_bits(case.view(again, data), case.view(model, data))
    assert again.history_.tolist() == model.history_.tolist()
    assert again.summary() == model.summary()


def test_objective_never_falls(case: Case, data: dict[str, Any]) -> None:
    model = fit(case, data)
    if not model.monotone or len(model.history_) < 2:
        pytest.skip("nothing is promised, or one sweep was enough")
    assert np.diff(model.history_).min() >= -1e-11 * np.abs(model.history_).max()


def test_parameters_return_from_own_samples(case: Case, data: dict[str, Any]) -> None:
    if case.z_scores is None:
        pytest.skip("another line of the table has the same estimates")
    z = case.z_scores(fit(case, data))
    # largest of some hundred normal deviates: beyond 6 once in about a million runs
    assert np.abs(z).max() < 6
    assert np.abs(z).max() > 0.1  # the samples are not the parameters themselves
