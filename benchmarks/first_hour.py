"""Forty-two messy files to as many pages, as someone new would: read, fit, report. `python benchmarks/first_hour.py`.

The files are thirty of tests/messy.py, written before the reader, and twelve of tests/messier.py, written before it knew them. A line
a file: whether names, rows, gaps and kinds are right, how it was read, how good the fit is on rows held out, and how long all of it
took. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import tallies
from messier import messier_files
from messy import Messy, messy_files
from tallies.data.kinds import describe


def wrong(path: Path, messy: Messy) -> list[str]:
    """What the reader got wrong of a file."""
    frame = tallies.read_table(path)
    columns = describe(frame)
    found = []
    if dict(zip(columns.names, columns.kinds, strict=True)) != messy.kinds:
        found.append("kinds")
    if len(frame) != messy.rows:
        found.append("rows")
    if sum(columns.gaps) != messy.gaps:
        found.append("gaps")
    return found


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tallies", *words], capture_output=True, text=True)


def first_hour(path: Path, messy: Messy) -> tuple[list[str], str, float | None]:
    """What went wrong on the way to a page, how the file was read, and the accuracy on rows held out."""
    failed, run = wrong(path, messy), str(path) + ".run"
    read = tallies.read_table(path).attrs["read"]
    fit = command("fit", "naive-bayes", str(path), "-t", messy.target, "-o", run, "--holdout", "0.3", "--json")
    page = command("report", run) if fit.returncode == 0 else fit
    failed += [f"{what} ({done.stderr.strip()[-120:]})" for what, done in (("fit", fit), ("page", page)) if done.returncode]
    accuracy = json.loads(fit.stdout)["held_out"]["scores"]["accuracy"] if fit.returncode == 0 else None
    return failed, read, accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=42)
    bad = 0
    print(f"{'file':18} {'right':6} {'held out':>8} {'seconds':>8}  read with")
    with tempfile.TemporaryDirectory() as folder:
        for messy in [*messy_files(), *messier_files()][: parser.parse_args().files]:
            path = Path(folder) / messy.name
            path.write_bytes(messy.body)
            begin = time.perf_counter()
            failed, read, accuracy = first_hour(path, messy)
            took = time.perf_counter() - begin
            bad += bool(failed)
            told = "; ".join(failed) or read
            print(f"{messy.name:18} {'no' if failed else 'yes':6} {accuracy or 0:8.0%} {took:8.1f}  {told}", flush=True)
    print(f"{bad} of the files went wrong" if bad else "all of them came to a page, with the right kinds")
    sys.exit(bool(bad))
