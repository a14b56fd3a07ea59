"""A sweep that a cluster runs twice gives the same bits, and what is told of the rows before it does not change."""

from __future__ import annotations

from typing import Any

import pytest

from contract import CASES, arrays
from tallies import backends
from tallies.engine import Model
from test_contract import fit_of_few_sweeps, in_turn, made, same_bits, same_fit, short_fit


class Twice(backends.Threads):
    """Sweeps run twice."""

    copies = True

    def total(self, task: Any, latents: Any, *broadcast: Any, half: Any = None) -> Any:
        def twice(*given: Any) -> Any:
            _, shard, before, model, params, *_ = given
            asked = before is not None and type(model).rows is not Model.rows
            rows = [its.copy() for its in arrays(model.rows(shard, before, params))] if asked else []
            first = [its.copy() for its in arrays(task(*given))]
            again = task(*given)
            assert same_bits(arrays(again), first)
            assert not asked or same_bits(arrays(model.rows(shard, before, params)), rows)
            return again

        return super().total(twice if task.__name__ == "_sweep" else task, latents, *broadcast, half=half)


@pytest.mark.parametrize("case", in_turn(CASES), ids=lambda case: case.name)
def test_sweeps_run_twice_change_no_bit(case, monkeypatch):
    here = short_fit(case)
    monkeypatch.setattr(backends, "Threads", Twice)
    assert same_fit(here, fit_of_few_sweeps(case, made(case), parts=5))
