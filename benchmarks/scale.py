"""Tables larger than memory: peak memory and time per row of a fit from a folder of Parquet files, against a tenth of it in memory.

    python benchmarks/scale.py --folder FOLDER [--model gda] [--rows 6000000]

Tables are made by DuckDB where they are not there yet. Every fit is a process of its own, whose peak is the largest resident memory
that the system has seen of it. Time per row counts reading: in memory it is that of `read_table` and `fit`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

FILES = 10
TABLES = {  # rows, and columns in SQL; y is one of three classes
    "gda": (6_000_000, ", ".join(f"random() + y * {0.1 + 0.01 * j} AS x{j}" for j in range(20))),
    "naive-bayes": (
        6_000_000,
        ", ".join(
            [f"random() + y * 0.1 AS x{j}" for j in range(5)]
            + [f"(random() * (5 + y))::INTEGER AS n{j}" for j in range(5)]
            + [f"'state ' || ((random() * 8)::INTEGER + y) AS c{j}" for j in range(5)]
        ),
    ),
    "fem": (
        5_000_000,
        ", ".join(f"'state ' || ((random() * 7)::INTEGER + y * (random() < 0.2)::INTEGER) % 8 AS c{j}" for j in range(20)),
    ),
}
FITS = {"gda": "tallies.GDA()", "naive-bayes": "tallies.NaiveBayes()", "fem": "tallies.FEM(ridge=1.0)"}
CHILD = """
import json, resource, sys, time
import tallies
model = {fit}
with tallies.backend("threads", workers={workers}, memory={memory!r}, scratch={scratch!r}):
    began = time.perf_counter()
    model.fit({data!r}, "y")
    took = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({{"seconds": took, "peak": peak, "sweeps": model.n_iter_}}))
"""


def make(folder: Path, name: str, rows: int) -> tuple[Path, Path]:
    """The table as a folder of files, and a tenth of it as one file."""
    import duckdb

    whole, tenth = folder / f"{name}-{rows}", folder / f"{name}-{rows}-tenth.parquet"
    whole.mkdir(parents=True, exist_ok=True)
    base, sql = duckdb.connect(), TABLES[name][1]
    for k, path in enumerate([*(whole / f"{k}.parquet" for k in range(FILES)), tenth]):
        if not path.exists():
            base.execute(f"SELECT setseed({k / 100})")
            part = f"(SELECT (random() * 3)::INTEGER % 3 AS y FROM range({rows // FILES}))"
            base.execute(f"COPY (SELECT 'class ' || y AS y, {sql} FROM {part}) TO '{path}.part' (FORMAT parquet)")
            Path(f"{path}.part").rename(path)
    return whole, tenth


def fit(name: str, data: Path, workers: int, memory: str | None, scratch: Path) -> dict[str, float]:
    code = CHILD.format(fit=FITS[name], data=str(data), workers=workers, memory=memory, scratch=str(scratch))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", choices=sorted(TABLES), action="append")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="300MB")
    asked = parser.parse_args()
    print("| model | rows | Parquet, GB | peak, MB | in memory, of a tenth | seconds | per row, against a tenth in memory |")
    print("|---|---|---|---|---|---|---|")
    for name in asked.model or TABLES:
        rows = asked.rows or TABLES[name][0]
        began = time.perf_counter()
        whole, tenth = make(asked.folder, name, rows)
        print(f"(made in {time.perf_counter() - began:.0f} s)", file=sys.stderr)
        size = sum(file.stat().st_size for file in whole.iterdir()) / 1e9
        there = fit(name, whole, asked.workers, asked.memory, asked.folder)
        here = fit(name, tenth, asked.workers, None, asked.folder)
        ratio = there["seconds"] / (FILES * here["seconds"])
        told = (
            f"| {name} | {rows:,} | {size:.2f} | {there['peak']:.0f} | {here['peak']:.0f} | {there['seconds']:.1f} | {ratio:.2f} |"
        )
        print(told, f"({there['sweeps']:.0f} sweeps, of the tenth {here['sweeps']:.0f})", flush=True)


if __name__ == "__main__":
    main()
