"""Fits on a Dask cluster of this machine: two worker processes beside two threads, what moves between them, and workers of little memory.

    python benchmarks/cluster.py [--case lda --case pln] [--workers 2] [--runs 2]
    python benchmarks/cluster.py --case limited --folder FOLDER [--model naive-bayes] [--rows 13000000] [--memory 512MB]

lda, pln, gda     the same fit of the same shards on threads and on workers, which take turns; 6 million tokens and 200 topics in two shards,
                  200,000 x 100 counts, and 20,000 x 20 numbers, whose fit shows what a cluster costs whatever the size. Bytes are those of
                  the loopback of this machine between the first sweep and the last: run it where nothing else uses that, such as in
                  `unshare -n sh -c "ip link set lo up; ..."`
limited           GDA, or another model, of a folder of Parquet (2 GB) by workers that may use so much memory each; were some restarted?
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from scale import FITS as FILED
from scale import alone, write_table

FITS = {  # sweeps, and the fit
    "lda": (
        60,
        "tallies.LDA(n_topics=200, max_iter=sweeps, burn_in=10 ** 6, alpha=0.05, start='random', shards=2).fit(data, {timed})",
    ),
    "pln": (20, "tallies.PLN(max_iter=sweeps, tol=0.0).fit(data, {timed})"),
    "gda": (1, "tallies.GDA().fit(*data, {timed})"),
}
MADE = {
    "lda": """
    sys.path.insert(0, {here!r})
    from scale import documents
    parts = list(documents({rows} or 30_000))
    words, sizes = (np.concatenate([part[i] for part in parts]) for i in (1, 0))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    data = sp.csr_array((np.ones(len(words), dtype=np.int64), words, ends), shape=(len(sizes), 20_000))
    data.sum_duplicates()
    small = data[:2000]
""",
    "pln": """
    rng, n, p = np.random.default_rng(0), {rows} or 200_000, 100
    axes = rng.normal(0.0, 0.4, (5, p))
    data = rng.poisson(np.exp(rng.normal(size=(n, 5)) @ axes + rng.normal(0.0, 1.0, p)))
    small = data[:4000]
""",
    "gda": """
    rng, n = np.random.default_rng(0), {rows} or 20_000
    y = rng.integers(0, 3, n)
    data = rng.normal(size=(n, 20)) + y[:, None], y
    small = data[0][:2000], y[:2000]
""",
}
CHILD = """
import json, sys, time, warnings
import numpy as np, psutil, scipy.sparse as sp, tallies
warnings.simplefilter("ignore")

def moved():
    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent

def processor(pids):
    return time.process_time() + sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)

def main():
    import os
    from dask.distributed import Client, LocalCluster
    {made}
    began = time.perf_counter()
    with LocalCluster(n_workers={workers}, threads_per_worker=1, dashboard_address=":0") as local, Client(local) as client:
        pids, found = list(client.run(os.getpid).values()), {{"start": time.perf_counter() - began, "threads": [], "dask": []}}
        def run(where, data, sweeps):
            clock, began, spent = [], time.perf_counter(), processor(pids)
            with tallies.backend(where, **({{"workers": {workers}}} if where == "threads" else {{}})):
                {fit}
            ends = zip(clock[0], clock[-1]) if len(clock) > 1 else []
            return [time.perf_counter() - began, processor(pids) - spent, *((b - a) / (len(clock) - 1) for a, b in ends)]
        for where in ("threads", client):
            run(where, small, 12)
        for _ in range({runs}):
            for name, where in (("threads", "threads"), ("dask", client)):
                found[name].append(run(where, data, {sweeps}))
    print(json.dumps(found))

if __name__ == "__main__":
    main()
"""
TIMED = "progress=False, callback=lambda *_: clock.append((time.perf_counter(), moved()))"
LIMITED = """
import json, os, time, warnings
import tallies
warnings.simplefilter("ignore")

def main():
    from dask.distributed import Client, LocalCluster
    settings = {{"n_workers": {workers}, "threads_per_worker": 1, "memory_limit": {memory!r}, "dashboard_address": ":0"}}
    with LocalCluster(**settings) as local, Client(local) as client, tallies.backend(client, scratch={scratch!r}):
        before, began = client.run(os.getpid), time.perf_counter()
        model = {fit}
        took = time.perf_counter() - began
        peaks = client.run(lambda: __import__("resource").getrusage(0).ru_maxrss / 1024)
        same = client.run(os.getpid) == before
    print(json.dumps({{"seconds": took, "workers": list(peaks.values()), "restarted": not same, "sweeps": model.n_iter_}}))

if __name__ == "__main__":
    main()
"""


def together(case: str, asked: Any) -> str:
    """Threads and workers in turn."""
    usual, fit = FITS[case]
    sweeps = asked.sweeps or usual
    made = MADE[case].format(rows=asked.rows, here=str(Path(__file__).parent))
    told = {"made": made, "fit": fit.format(timed=TIMED), "workers": asked.workers}
    found: Any = alone(CHILD.format(**told, runs=asked.runs, sweeps=sweeps))
    best = {name: min(found[name]) for name in ("threads", "dask")}
    cores = ", ".join(f"{best[name][1]:.0f}" for name in best)
    moved = f"{best['dask'][3] / 1e6:.2f}" if len(best["dask"]) > 3 else ""
    runs = "; ".join(", ".join(f"{run[0]:.1f}" for run in found[name]) for name in best)
    ratio = best["dask"][0] / best["threads"][0]
    return f"| {case} | {sweeps} | {runs} | {cores} | {ratio:.2f} | {moved} | {found['start']:.1f} | {found['peak']:.0f} |"


def limited(asked: Any) -> str:
    rows, files = asked.rows or 13_000_000, 10
    folder = asked.folder / f"limited-{asked.model}-{rows}"
    for k in range(files):
        write_table(folder / f"{k}.parquet", asked.model, rows // files, k / 100)
    fit = f"{FILED[asked.model]}.fit({str(folder)!r}, 'y')"
    found: Any = alone(LIMITED.format(fit=fit, workers=asked.workers, memory=asked.memory, scratch=str(asked.folder)))
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e9
    peaks = ", ".join(f"{peak:.0f}" for peak in found["workers"])
    told = "some workers were restarted" if found["restarted"] else "no worker was restarted"
    return f"{asked.model}, {size:.2f} GB of Parquet, workers of {asked.memory}: {found['seconds']:.0f} s, peaks of workers {peaks} MB; {told}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=[*FITS, "limited"], action="append")
    parser.add_argument("--folder", type=Path, help="of the data of limited")
    parser.add_argument("--model", choices=list(FILED), default="gda", help="of limited")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--sweeps", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--memory", default="512MB")
    asked = parser.parse_args()
    cases = asked.case or list(FITS)
    if "limited" in cases:
        print(limited(asked), flush=True)
    print(
        "| model | sweeps | seconds of threads; of workers | core s | best against best | MB moved a sweep | s to start | peak of all, MB |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for case in (case for case in cases if case != "limited"):
        print(together(case, asked), flush=True)


if __name__ == "__main__":
    main()
