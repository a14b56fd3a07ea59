"""Peaks of memory of fits to counts that stay in their files: they do not follow the table."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CHILD = """
import resource, sys
import numpy as np, pandas as pd, tallies
from pathlib import Path
from tallies.counts import lazily
from tallies.counts.mixture import start

lazily.HELD, start.AT_ONCE = 0, 1
rng = np.random.default_rng(0)

def made(folder, rows):
    folder.mkdir()
    for part in range(rows // 2000):
        group = rng.integers(0, 2, (2000, 1)) if {grouped} else np.zeros((2000, 1), int)
        Y = rng.poisson(0.2 + group, size=(2000, 200)).astype(np.uint8)
        Y[:, 0] += 1
        kind = {{"kind": np.array(["a", "b"])[rng.integers(0, 2, 2000)]}} if {labelled} else {{}}
        frame = pd.DataFrame(Y, columns=[f"g{{j}}" for j in range(200)]).assign(**kind)
        frame.to_parquet(folder / f"{{part:03d}}.parquet", index=False)
    return folder

home = Path(sys.argv[1])
folders = [made(home / str(n), n) for n in (4000, 24000)]
peak = []
with tallies.backend("threads", workers=1, memory="8MB", scratch=str(home / "scratch")):
    for folder in folders:
        model = tallies.{fit}
        if {labelled}:
            model.marks_, model.predict(folder, out=home / f"out-{{folder.name}}")
        peak.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(peak[1] - peak[0])
"""

# 20,000 rows more: 32 MB of counts and as much of offsets, laid out; without a rank 416 MB of what is kept of rows, a component
CASES = {
    "rank": ('PLN(max_iter=3, rank=1, n_starts=1).fit(folder, offsets="logsum", progress=False)', 24),
    "full": ('PLN(max_iter=3).fit(folder, offsets="logsum", progress=False)', 24),
    "mixture": ("PLNMixture(n_components=2, n_starts=1, max_iter=3).fit(folder, progress=False)", 32),
    # what marks a class, and answers, are found for 16 MB at a time, which the smaller table does not fill
    "discriminant": ('PLNDiscriminant(max_iter=3).fit(folder, "kind", offsets="logsum", progress=False)', 64),
    # subsamples are held: 917 rows more of 6.4 kB and of what is kept of them, 13 such numbers a count
    "network": ('PLNNetwork(max_iter=3, n_penalties=3, n_subsamples=2).fit(folder, offsets="logsum", progress=False)', 48),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs the figures of a POSIX system")
@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_peak_memory_does_not_follow_the_table(tmp_path, case):
    fit, most = CASES[case]
    child = CHILD.format(fit=fit, grouped=case == "mixture", labelled=case == "discriminant")
    call = [sys.executable, "-W", "ignore", "-c", child, str(tmp_path)]
    told = subprocess.run(call, capture_output=True, text=True, check=True, timeout=200)
    assert float(told.stdout) < most
