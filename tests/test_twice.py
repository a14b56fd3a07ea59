"""A sweep that a cluster runs twice gives the same bits, and what is told of the rows before it does not change; nor does it run
from latents into which the sweep after it has written."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest

import losing
import tallies
from contract import CASES, abundances, arrays
from tallies import backends
from tallies import cluster as clusters
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


@pytest.mark.filterwarnings("ignore::tallies.errors.ConvergenceWarning")
def test_a_killed_worker_of_a_cluster_changes_no_bit_where_a_callback_holds_latents_of_old(monkeypatch):
    """Sweeps 3 to 5 write into the arrays of sweep 2, on one worker; then another goes on, and dies: what it held is made again
    from what is still there, which the latents of sweep 2 must not be."""
    pytest.importorskip("distributed", reason="needs tallies[dask]")
    data = abundances(np.random.default_rng(0), 3000)
    on: list[str] = []  # the worker that has the tasks
    kept: list[Any] = []
    usual = clusters.Dask._map

    def mapped(self: Any, call: Any, given: Any, what: str, places: Any) -> list[Any]:
        return usual(self, call, given, what, on * len(given))

    def fitted(**run: Any) -> list[bytes]:
        return losing.bits(tallies.PLN(max_iter=12, tol=0.0).fit(**data, **run))

    monkeypatch.setattr(clusters.Dask, "_map", mapped)
    with losing.cluster(**losing.QUICK) as client:
        pids = client.run(os.getpid)
        first, second = sorted(pids)
        on.append(first)

        def look(stage: Any, state: Any) -> None:
            done = len(state.objective)
            if done == 2:
                kept.append(state)
            if done in (5, 7):
                on[:] = [second if done == 5 else first]
            if done == 7:
                os.kill(pids[second], signal.SIGKILL)

        with tallies.backend(client):
            there = fitted(callback=look)
    assert there == fitted()
    assert len(kept) == 1
