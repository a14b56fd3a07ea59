"""Data and latents beyond memory: read again in every sweep, mapped from files; the same bits, and a bounded peak."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import tallies
from tallies.backends import Spilled, Threads
from tallies.engine import Model, Runner, Stage
from tallies.mapped import Leaf, Scratch, fetch, nbytes, store
from tallies.sources import cuts
from tallies.sums import GROUP, Sum, add

MB = 1 << 20


class Shard(NamedTuple):
    X: np.ndarray


class Made(NamedTuple):
    """A source that makes its shard of nothing but its number."""

    number: int
    size: int

    def load(self):
        return Shard(np.random.default_rng(self.number).normal(size=self.size // 8))


class Tally(NamedTuple):
    objective: float
    total: float


class Latents(NamedTuple):
    sums: np.ndarray  # written in place
    last: np.ndarray  # replaced
    csr: sp.csr_array | None


@dataclass(frozen=True)
class Summing(Model):
    def survey(self, shard):
        return Tally(0.0, float(shard.X.sum()))

    def init(self, survey, rng):
        return survey

    def settle(self, shard, params, rng):
        return Latents(np.zeros_like(shard.X), shard.X + 1, sp.eye_array(600, format="csr"))

    def sweep(self, shard, latents, params, rng):
        latents.sums[:] += shard.X * rng.random()
        last = latents.last * 0.5
        last += latents.sums
        after = latents._replace(last=last, csr=latents.csr * 2)
        return Tally(float(after.last.sum()), float(shard.X @ latents.sums)), after

    def update(self, params, tally, rng):
        return tally

    def rows(self, shard, latents, params):
        return latents.last[:3].copy(), float(latents.sums.sum()), latents.csr.sum()


def fitted(memory, workers=1, shards=20, size=MB // 4, sweeps=5, **more):
    stage = Stage("", Summing(), [Made(i, size) for i in range(shards)], lambda end: end, sweeps, rows=True)
    runner = Runner(lambda sources, shared: Threads(sources, workers, shared, memory, **more))
    kept = runner.carry_out([stage])[0]
    return kept, runner


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("memory", [1, 3 * MB, 12 * MB])
def test_memory_and_workers_change_no_bit(memory, workers, tmp_path):
    whole, _ = fitted(10**9)
    assert not any(isinstance(its, Spilled) for its in whole.latents)
    part, runner = fitted(memory, workers, scratch=str(tmp_path))
    spilled = [isinstance(its, Spilled) for its in part.latents]
    assert any(spilled) and all(spilled) == (memory < 12 * MB)
    for a, b in zip(whole.value.rows, part.value.rows, strict=True):
        np.testing.assert_array_equal(a[0], b[0])
        assert a[1:] == b[1:]
    assert whole.objective == part.objective
    home = runner.record().states[0].latents  # as a checkpoint has them
    np.testing.assert_array_equal(home[7].sums, whole.latents[7].sums)
    np.testing.assert_array_equal(home[7].csr.toarray(), whole.latents[7].csr.toarray())
    files = len(list(tmp_path.rglob("*.npy")))
    assert files == 3 * sum(spilled)  # sums, last, and of the matrix what is not small; those of earlier sweeps are gone
    del part, runner, home
    assert not list(tmp_path.iterdir())


def test_shards_are_kept_while_they_fit_and_read_one_ahead():
    loaded = []

    class Noted(NamedTuple):
        number: int

        def load(self):
            loaded.append((self.number, threading.current_thread().name))
            return Shard(np.full(MB // 8, float(self.number)))

    def task(i, shard, latents):
        time.sleep(0.002)
        return shard.X[0], None

    backend = Threads([Noted(i) for i in range(8)], memory=5 * MB)  # three, and room for two in work
    for _ in range(2):
        assert backend.run(task, [None] * 8)[0] == list(range(8))
    assert len(loaded) == 8 + 5
    assert sorted(number for number, _ in loaded[:8]) == list(range(8))
    assert any("reader" in name for _, name in loaded)
    plenty = Threads([Noted(i) for i in range(8)], memory=100 * MB)
    loaded.clear()
    for _ in range(3):
        plenty.run(task, [None] * 8)
    assert len(loaded) == 8


CHILD = """
import resource, sys
sys.path.insert(0, {here!r})
import test_memory as t
t.fitted(1 << 40, shards=2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
t.fitted({memory}, workers={workers}, shards=50, size=4 * t.MB, sweeps=2)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs the figures of a POSIX system")
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_peak_memory_is_bounded(workers):
    """200 MB of shards and 400 MB of latents, within 64 MB."""
    code = CHILD.format(here=str(Path(__file__).parent), memory=64 * MB, workers=workers)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    # above the figure: what a sweep itself makes of a shard in work, and what the allocator of a thread does not give back at once
    assert float(told.stdout) < 64 + 40 * workers


def test_sums_are_those_of_one_tree():
    parts = [Tally(*np.random.default_rng(i).normal(size=2)) for i in range(3 * GROUP**2 + 2 * GROUP + 3)]
    for n in (1, 2, GROUP, GROUP + 1, GROUP**2, GROUP**2 + 1, len(parts)):
        tally, level = Sum(), parts[:n]
        for part in level:
            tally.put(part)
        while len(level) > 1:
            level = [add(level[a : a + GROUP]) for a in range(0, len(level), GROUP)]
        assert tally.value() == level[0]
        assert len(tally.levels) <= 4


def test_a_large_table_has_many_shards():
    assert len(list(cuts(10**6, 8 << 30))) == 512


def test_stored_records_come_back(tmp_path):
    tree = Latents(np.arange(2000.0), np.arange(3), sp.csr_array(np.eye(100)))
    stored = store(tree, Scratch(str(tmp_path)).leaf)
    assert isinstance(stored.sums, Leaf) and isinstance(stored.last, np.ndarray)  # what is small stays
    again = fetch(stored)
    assert type(again.sums) is np.ndarray and again.sums.flags.writeable
    np.testing.assert_array_equal(again.sums, tree.sums)
    assert (again.csr != tree.csr).nnz == 0
    again.sums[0] = 7  # forgotten
    assert fetch(stored).sums[0] == 0
    fetch(stored, "r+").sums[0] = 7  # kept
    assert fetch(stored).sums[0] == 7
    assert nbytes(tree) == nbytes(again)


@pytest.mark.parametrize("wrong", ["much", "4 apples", 0, -1, "nan"])
def test_memory_is_a_size(wrong):
    with pytest.raises(ValueError, match="memory must be a size"), tallies.backend(memory=wrong):
        pass
