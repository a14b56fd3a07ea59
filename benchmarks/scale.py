"""Data larger than memory: peak memory and time of fits from files, against the same in memory.

    python benchmarks/scale.py --folder FOLDER [--model gda] [--rows 6000000] [--memory 300MB]

Data are made where they are not there yet. Every fit is a process of its own; its peak is the largest resident memory of that process and
those below it, looked at twenty times a second, pages of mapped files counted in. A small fit of the same kind comes first, so that nothing is
compiled, or read of what is, inside the clock.

gda, naive-bayes, fem    a folder of Parquet against a tenth of its rows, read and fitted in memory: time per row, reading included
lda                      texts counted once, then 20 sweeps with 200 topics, against the same counts in memory: time per sweep
pln-files, network-files the same counts in a folder of Parquet, none of which are held, against all as a sparse matrix: time per sweep
pln                      sparse counts of 500 columns at rank 10, 20 sweeps, against a tenth of the rows laid out: time per row and sweep
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

FILES = 10
LOOK = 0.05  # seconds between two looks at memory
TABLES = {  # rows, and columns in SQL; y is one of three classes
    "gda": (6_000_000, ", ".join(f"random() + y * {0.1 + 0.01 * j} AS x{j}" for j in range(20))),
    "naive-bayes": (
        6_000_000,
        ", ".join(
            [f"random() + y * 0.1 AS x{j}" for j in range(20)]
            + [f"(random() * (5 + y))::INTEGER AS n{j}" for j in range(5)]
            + [f"'state ' || ((random() * 8)::INTEGER + y) AS c{j}" for j in range(5)]
        ),
    ),
    "fem": (
        5_000_000,
        ", ".join(f"'state ' || ((random() * 7)::INTEGER + y * (random() < 0.2)::INTEGER) % 8 AS c{j}" for j in range(20)),
    ),
}
PLAIN = ", COMPRESSION uncompressed, DICTIONARY_SIZE_LIMIT 1"  # as files of texts are that were written without dictionaries
COPIED = {"fem": PLAIN}
FITS = {"gda": "tallies.GDA()", "naive-bayes": "tallies.NaiveBayes()", "fem": "tallies.FEM(ridge=1.0)"}
LDA = "tallies.LDA(n_topics={topics}, max_iter={sweeps}, burn_in=15, thin=1, start='random')"
PLN = "tallies.PLN(rank=10, n_starts=1, max_iter={sweeps}, tol=0.0)"
FILED = {
    "pln-files": PLN,
    "network-files": "tallies.PLNNetwork(penalty=0.3, select=None, max_iter={sweeps})",
}
CHILD = """
import json, time, warnings
import numpy as np, scipy.sparse as sp, tallies
warnings.simplefilter("ignore")
clock = []
with tallies.backend("threads", workers={workers}, memory={memory!r}, scratch={scratch!r}):
    {warm}
    data = {data}
    began, spent = time.perf_counter(), time.process_time()
    model = {fit}
    took = time.perf_counter() - began
    used = time.process_time() - spent
found = {{"seconds": took, "core": used, "sweeps": model.n_iter_}}
if len(clock) > 1:
    found["sweep"], found["core_sweep"] = ((b - a) / (len(clock) - 1) for a, b in zip(clock[0], clock[-1]))
print(json.dumps(found))
"""
TIMED = "progress=False, callback=lambda *_: clock.append((time.perf_counter(), time.process_time()))"


def child(fit: str, data: str, warm: str, asked: Any, memory: str | None) -> dict[str, float]:
    """Run a fit in a process of its own; `fit`, `data` and `warm` are Python."""
    told = {"workers": asked.workers, "memory": memory, "scratch": str(asked.folder)}
    return alone(CHILD.format(fit=fit, data=data, warm=warm, **told))


def alone(code: str) -> dict[str, float]:
    """What a program prints last, and the largest resident memory of its process and all those below it, in MB."""
    import psutil

    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        program = subprocess.Popen([sys.executable, "-c", code], stdout=out, stderr=errors)
        top, peak = psutil.Process(program.pid), 0
        while program.poll() is None:
            with suppress(psutil.Error):
                peak = max(peak, sum(_resident(one) for one in [top, *top.children(recursive=True)]))
            time.sleep(LOOK)
        out.seek(0), errors.seek(0)
        if program.returncode:
            sys.exit(errors.read())
        return {"peak": peak / 1e6, **json.loads(out.read().splitlines()[-1])}


def _resident(process: Any) -> int:
    """Bytes of a process that are in memory, those of mapped files among them; 0 where it has just ended."""
    import psutil

    with suppress(psutil.Error):
        return process.memory_info().rss
    return 0


# tables


def write_table(path: Path, name: str, rows: int, seed: float) -> None:
    import duckdb

    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        base = duckdb.connect()
        base.execute(f"SELECT setseed({seed})")
        part = f"(SELECT (random() * 3)::INTEGER % 3 AS y FROM range({rows}))"
        columns = f"SELECT 'class ' || y AS y, {TABLES[name][1]} FROM {part}"
        base.execute(f"COPY ({columns}) TO '{path}.part' (FORMAT parquet{COPIED.get(name, '')})")
        Path(f"{path}.part").rename(path)


def table(name: str, asked: Any) -> str:
    rows = asked.rows or TABLES[name][0]
    whole, tenth = asked.folder / f"{name}-{rows}", asked.folder / f"{name}-{rows}-tenth.parquet"
    for k, path in enumerate([*(whole / f"{k}.parquet" for k in range(FILES)), tenth]):
        write_table(path, name, rows // FILES, k / 100)
    small = asked.folder / f"{name}-small"
    for k in range(2):
        write_table(small / f"{k}.parquet", name, 20_000, k / 100)
    warm = "; ".join(f"{FITS[name]}.fit({str(path)!r}, 'y')" for path in (small, small / "0.parquet"))
    there, here = (
        child(f"{FITS[name]}.fit(data, 'y')", repr(str(data)), warm, asked, memory)
        for data, memory in ((whole, asked.memory), (tenth, None))
    )
    size = sum(file.stat().st_size for file in whole.iterdir()) / 1e9
    return row(name, f"{rows:,} rows, {size:.2f} GB of Parquet", there, here, FILES)


# texts


def documents(n: int, topics: int = 200, words: int = 20_000, length: int = 200) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Documents of an LDA whose words have frequencies as in a language, up to 10,000 at a time: the length of each, and the words of all."""
    rng = np.random.default_rng(0)
    base = 1.0 / np.arange(10, words + 10)
    phi = np.cumsum(rng.dirichlet(0.3 * base / base.mean(), topics), axis=1)
    for first in range(0, n, 10_000):
        sizes = rng.poisson(length, min(10_000, n - first))
        theta = rng.dirichlet(np.full(topics, 0.05), len(sizes))
        n_dk = np.array([rng.multinomial(size, share) for size, share in zip(sizes, theta, strict=True)])
        cells = np.repeat(np.arange(n_dk.size), n_dk.ravel())
        found = np.empty(len(cells), dtype=np.int64)
        for t in range(topics):
            mine = np.flatnonzero(cells % topics == t)
            found[mine] = np.minimum(np.searchsorted(phi[t], rng.random(len(mine)) * phi[t, -1]), words - 1)
        yield sizes, found


def write_texts(folder: Path, n: int, words: int = 20_000) -> None:
    """Such documents as texts."""
    import pandas as pd

    names = np.array([f"w{np.base_repr(v, 36).lower()}x" for v in range(words)], dtype=object)
    folder.mkdir(parents=True, exist_ok=True)
    first = 0
    for k, (sizes, found) in enumerate(documents(n, words=words)):
        path = folder / f"{k:04d}.parquet"
        texts = [" ".join(part) for part in np.split(names[found], np.cumsum(sizes)[:-1])]
        pd.DataFrame({"id": first + np.arange(len(sizes)), "text": texts}).to_parquet(f"{path}.part", index=False)
        Path(f"{path}.part").rename(path)
        first += len(sizes)


def texts(asked: Any) -> str:
    n = asked.rows or 100_000
    folder, counted = asked.folder / f"lda-{n}", asked.folder / f"lda-{n}-counted"
    if not folder.exists():
        write_texts(folder, n)
    began = time.perf_counter()
    if not counted.exists():
        code = f"import tallies; tallies.Corpus.prepare({str(folder)!r}, {str(counted)!r})"
        subprocess.run([sys.executable, "-c", code], check=True)
        print(f"(counted in {time.perf_counter() - began:.0f} s)", file=sys.stderr)
    settings = LDA.format(topics=200, sweeps=asked.sweeps)
    fit = f"{settings}.fit(data, {TIMED})"
    some = "np.random.default_rng(0).poisson(0.3, size=(4000, 2500))"
    warm = "; ".join(
        f"tallies.LDA(n_topics=200, max_iter=3, burn_in=1, thin=1, shards={s}).fit({some}, progress=False)" for s in (1, 2)
    )
    whole = (
        "(lambda bags: tallies.Corpus(sp.vstack([bag.load()[1] for bag in bags.bags]), bags.vocabulary))"
        f"(__import__('tallies.data.bags').data.bags.open_bags({str(counted)!r}))"
    )
    there, here = child(fit, repr(str(counted)), warm, asked, asked.memory), child(fit, whole, warm, asked, None)
    about = json.loads((counted / "manifest.json").read_text())
    what = f"{about['documents']:,} documents, {about['tokens']:,} tokens, {len(about['files']) - 2} shards"
    return row("lda", what, there, here)


# counts


def made(asked: Any, p: int) -> tuple[int, Path]:
    """How many rows, and where their matrix is."""
    rows, path = asked.rows or 200_000, asked.folder / f"pln-{asked.rows or 200_000}.npz"
    if not path.exists():
        rng = np.random.default_rng(0)
        axes, level = rng.normal(0.0, 0.4, (10, p)), np.maximum(rng.normal(-2.5, 1.0, p), -3.5)
        parts = [
            sp.csr_array(rng.poisson(np.exp(np.minimum(rng.normal(size=(1000, 10)) @ axes + level, 8.0))))
            for _ in range(rows // 1000)
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        sp.save_npz(path, sp.vstack(parts, format="csr"))
    return rows, path


def counts(asked: Any) -> str:
    p = 500
    rows, path = made(asked, p)
    fit = f"{PLN.format(sweeps=asked.sweeps)}.fit(data, {TIMED})"
    warm = f"{PLN.format(sweeps=12)}.fit(sp.load_npz({str(path)!r})[:2000], progress=False)"
    there = child(fit, f"sp.csr_array(sp.load_npz({str(path)!r}))", warm, asked, asked.memory)
    here = child(fit, f"sp.load_npz({str(path)!r})[: {rows // 10}].toarray()", warm, asked, None)
    matrix = sp.load_npz(path)
    what = f"{rows:,} x {p} counts, {matrix.nnz / rows / p:.0%} not zero"
    return row("pln", what, there, here, 10)


def filed(name: str, asked: Any) -> str:
    import pandas as pd

    p = 500
    rows, path = made(asked, p)
    folder, matrix = path.with_suffix(""), sp.csr_array(sp.load_npz(path))
    if not folder.exists():
        folder.mkdir()
        for k, first in enumerate(range(0, rows, 10_000)):
            part = pd.DataFrame(matrix[first : first + 10_000].toarray().astype(np.uint16), columns=[f"g{j}" for j in range(p)])
            part.to_parquet(folder / f"{k:03d}.parquet", index=False)
    fit = f"{FILED[name].format(sweeps=asked.sweeps)}.fit(data, {TIMED})"
    warm = f"{FILED[name].format(sweeps=12)}.fit(sp.load_npz({str(path)!r})[:2000], progress=False)"
    none = "setattr(__import__('tallies.counts.lazily').counts.lazily, 'HELD', 0); "
    there = child(fit, repr(str(folder)), none + warm, asked, asked.memory)
    here = child(fit, f"sp.csr_array(sp.load_npz({str(path)!r}))", warm, asked, asked.memory)
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e9
    return row(name, f"{rows:,} x {p} counts, {size:.2f} GB of Parquet", there, here)


def row(name: str, what: str, there: dict[str, float], here: dict[str, float], times: int = 1) -> str:
    """Both fits, and how much longer one takes for a row and a sweep, by the clock and by the processor; `times`: how many times the rows."""
    shown = [f"{there[of]:.0f}, {here[of]:.0f}" for of in ("peak", "seconds", "core", "sweeps")]
    ratios = []
    for whole, sweep in (("seconds", "sweep"), ("core", "core_sweep")):  # of a sweep where they were timed
        one, other = (run.get(sweep) or run[whole] / run["sweeps"] for run in (there, here))
        ratios.append(f"{one / (times * other):.2f}")
    return f"| {name} | {what} | {' | '.join(shown)} | {', '.join(ratios)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", choices=[*TABLES, "lda", "pln", *FILED], action="append")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--sweeps", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="300MB")
    asked = parser.parse_args()
    print(
        "| model | data | peak, MB, from files and in memory | seconds | core s | sweeps | time of a row and sweep against memory: clock, core |\n"
        "|---|---|---|---|---|---|---|"
    )
    others = {"lda": texts, "pln": counts} | {name: partial(filed, name) for name in FILED}
    for name in asked.model or [*TABLES, *others]:
        print(others[name](asked) if name in others else table(name, asked), flush=True)


if __name__ == "__main__":
    main()
