"""A sweep that a cluster runs twice gives the same bits: it leaves alone what it was handed."""

from __future__ import annotations

from typing import Any

import pytest

from contract import CASES, arrays
from tallies import backends
from test_contract import fit_of_few_sweeps, in_turn, made, same_bits, same_fit, short_fit


class Twice(backends.Threads):
    """Sweeps run twice."""

    copies = True

    def total(self, task: Any, latents: Any, *broadcast: Any, half: Any = None) -> Any:
        def twice(*given: Any) -> Any:
            first = [its.copy() for its in arrays(task(*given))]
            again = task(*given)
            assert same_bits(arrays(again), first)
            return again

        return super().total(twice if task.__name__ == "_sweep" else task, latents, *broadcast, half=half)


@pytest.mark.parametrize("case", in_turn(CASES), ids=lambda case: case.name)
def test_sweeps_run_twice_change_no_bit(case, monkeypatch):
    here = short_fit(case)
    monkeypatch.setattr(backends, "Threads", Twice)
    assert same_fit(here, fit_of_few_sweeps(case, made(case), parts=5))
