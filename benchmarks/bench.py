"""All families beside their rivals: measure, store, write the tables of docs/benchmarks.md, and fail where a ratio is below its promise.

    python benchmarks/bench.py run [NAME ...] [--data FOLDER] [--quick]     or: make bench [NAMES="pln zeros"] [DATA=FOLDER] [QUICK=1]
    python benchmarks/bench.py write                                        the tables again from what is stored
    python benchmarks/bench.py list                                         what there is, and what each needs

Each measurement of benchmarks/measurements.py runs in a process of its own, in which ours and the rival take turns, and is stored in
benchmarks/results/NAME.json; one without a rival is a table as it is. One whose rival is not installed or whose data are not given is left
out with a word. --quick takes tiny sizes: nothing is stored and no promise judged. The exit code is 1 where a measurement came to no end or
a stored ratio is below its promise.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from numbers import Integral, Real
from pathlib import Path
from statistics import median
from typing import Any

from cases import Given, Pair
from measurements import MEASUREMENTS, PROMISED, Measurement

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results", HERE.parent / "docs" / "benchmarks.md"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
BY_NAME = {m.name: m for m in MEASUREMENTS}
SUMMARY = ("measurement", "beside", "cases", "ratios", "promised", "measured")


# one measurement


def lacks(m: Measurement, folder: Path | None, quick: bool = False) -> list[str]:
    """What keeps a measurement from being run here, and what to do about it."""
    found = []
    try:
        if m.rival:
            version(m.rival)
    except PackageNotFoundError:
        found.append(f"{m.rival} is not installed: pip install -e '.[{m.extra}]'")
    missing = [name for name in m.data if place(name, folder) is None]
    if missing:
        found.append(
            f"no {', '.join(missing)}{' there' if folder else ''}: give DATA=FOLDER that has {'it' if len(missing) == 1 else 'them'}"
        )
    if quick and not m.small:
        found.append("it has no tiny size")
    return found


def place(name: str, folder: Path | None) -> Path | None:
    """The folder below this one that has the file."""
    return next((path.parent for path in sorted(folder.rglob(name))), None) if folder else None


def cells(rows: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """Rows of a table as they are printed."""
    found = [{name: figure(value) if isinstance(value, Real) else str(value) for name, value in row.items()} for row in rows]
    if not found:
        raise SystemExit("no row was measured, and nothing is stored")
    return found


def grouped(pairs: Iterable[Pair], more: bool) -> list[dict[str, Any]]:
    """A row a case: its warm pairs, their medians, the median and range of their ratios; the cold pair apart."""
    rows: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        both = [float(f"{x:.6g}") for x in (pair.ours, pair.rival)]
        if not all(math.isfinite(x) and x > 0 for x in both):
            raise SystemExit(
                f"{pair.case}: ours {pair.ours}, the rival {pair.rival}: there is no ratio of these, and nothing is stored"
            )
        row = rows.setdefault(pair.case, {"case": pair.case, "pairs": []})
        if pair.cold:
            row["cold"] = both
        else:
            row["pairs"].append(both)
    return [row | summary(row["pairs"], more) for row in rows.values()]


def summary(pairs: list[list[float]], more: bool) -> dict[str, float]:
    ratios = [ours / rival if more else rival / ours for ours, rival in pairs]
    ours, rival = (median(side) for side in zip(*pairs, strict=True))
    return {"ours": ours, "rival": rival, "ratio": median(ratios), "least": min(ratios), "most": max(ratios)}


def machine() -> dict[str, Any]:
    """What the figures depend on; nothing that names the machine."""
    info = Path("/proc/cpuinfo")
    models = re.findall(r"^model name\s*: (.*)$", info.read_text(), re.M) if info.exists() else []
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {"processor": models[0] if models else platform.processor(), "cores": os.cpu_count(), "load": load}


def measure(m: Measurement, folder: Path | None, quick: bool) -> dict[str, Any]:
    """One measurement, in this process."""
    import numpy

    import tallies

    before = machine()  # the load is that of others
    repeats = 1 if quick else m.repeats
    found = m.run(Given(place(m.data[0], folder) if m.data else None, quick, repeats))
    rows = cells(found) if m.rival is None else grouped(found, m.more)
    versions = {"tallies": tallies.__version__, "python": platform.python_version(), "numpy": numpy.__version__}
    versions |= {name: version(name) for name in (m.rival, m.along) if name}
    today = datetime.date.today().isoformat()
    return {
        "name": m.name,
        "date": today,
        "unit": m.unit,
        "repeats": repeats,
        "versions": versions,
        "machine": before,
        "rows": rows,
    }


def store(result: dict[str, Any], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{result['name']}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def stored(folder: Path) -> list[dict[str, Any]]:
    """All results, in the order of the list."""
    files = (folder / f"{m.name}.json" for m in MEASUREMENTS)
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]


# what is told of them


def figure(x: Any) -> str:
    if isinstance(x, bool):
        return "yes" if x else "no"
    return f"{x:,.0f}" if abs(x) >= 1000 or isinstance(x, Integral) else f"{x:.3g}"


def markdown(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = list(columns)
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, ["---"] * len(columns), *rows))


def table(result: dict[str, Any], judged: bool = True) -> str:
    """A measurement in Markdown, for the page and for the terminal: a line a case, and how it was measured."""
    m, on = BY_NAME[result["name"]], result["machine"]
    versions = ", ".join(f"{name} {value}" for name, value in result["versions"].items())
    how = f"`make bench NAMES={m.name}`: {m.what}; {result['unit']}. {versions}; {on['cores']} cores of {on['processor']}, load {on['load']}, {result['date']}."
    if m.rival is None:
        columns = list(dict.fromkeys(name for row in result["rows"] for name in row))
        return f"{markdown(columns, ([row.get(name, '') for name in columns] for row in result['rows']))}\n\n{how}"
    promised = PROMISED.get(m.name, {}) if judged else {}
    columns = ["case", "ours", m.rival or "written here", "ratio", "range", "runs", *["promised"] * bool(promised)]
    rows = []
    for row in result["rows"]:
        promise = promised.get(row["case"])
        cold = f" (cold {figure(row['cold'][0])} and {figure(row['cold'][1])})" if "cold" in row else ""
        word = "" if promise is None else figure(promise) + ", **missed**" * (row["ratio"] < promise)
        spread = f"{figure(row['least'])} to {figure(row['most'])}"
        line = [row["case"] + cold, *(figure(row[key]) for key in ("ours", "rival", "ratio")), spread, str(len(row["pairs"]))]
        rows.append([*line, *[word] * bool(promised)])
    return f"{markdown(columns, rows)}\n\n{how}"


def below(results: list[dict[str, Any]]) -> list[str]:
    """Every ratio that is below its promise."""
    found = []
    for result in results:
        for row in result["rows"]:
            promise = PROMISED.get(result["name"], {}).get(row.get("case"))
            if promise is not None and row["ratio"] < promise:
                found.append(f"{result['name']}, {row['case']}: {figure(row['ratio'])}, and {figure(promise)} was promised")
    return found


def section(results: list[dict[str, Any]]) -> str:
    """The part of the page that is of all comparisons."""
    rows = []
    for result in results:
        m = BY_NAME[result["name"]]
        if m.rival is None:
            continue
        ratios = [row["ratio"] for row in result["rows"]]
        promised = PROMISED.get(m.name, {})
        missed = sum(row["ratio"] < promised.get(row["case"], 0.0) for row in result["rows"])
        word = f"{len(promised)}{f', **{missed} missed**' if missed else ', all kept'}" if promised else ""
        spread = figure(ratios[0]) if len(ratios) == 1 else f"{figure(min(ratios))} to {figure(max(ratios))}"
        where = f"{result['machine']['processor']}, {result['date']}"
        rows.append([f"{m.name}: {m.what}; {m.unit}", m.rival or "written here", str(len(ratios)), spread, word, where])
    others = [m.name for m in MEASUREMENTS if m.name not in {result["name"] for result in results}]
    missing = [f"Not measured yet: {', '.join(others)}."] if others else []
    return "\n\n".join([*([markdown(SUMMARY, rows)] if rows else []), *missing])


def page(text: str, results: list[dict[str, Any]]) -> str:
    """The page with what stands between markers made again: all results, or those of one name."""
    by_name = {result["name"]: result for result in results}

    def between(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return f"<!-- bench -->\n{section(results)}\n<!-- /bench -->"
        made = table(by_name[name]) if name in by_name else f"Not measured yet: `make bench NAMES={name}`."
        return f"<!-- bench:{name} -->\n{made}\n<!-- /bench -->"

    return re.sub(r"<!-- bench(?::([\w-]+))? -->\n.*?<!-- /bench -->", between, text, flags=re.S)


# the command


def write() -> None:
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), stored(RESULTS)), encoding="utf-8")


def told(results: list[dict[str, Any]], failed: Iterable[str] = (), judged: bool = True) -> int:
    """Print the table, and what is wrong; the exit code."""
    print("\n\n".join(f"{result['name']}\n{table(result, judged)}" for result in results) or "nothing was measured")
    wrong = [f"{name} was not measured to its end" for name in failed] + (below(results) if judged else [])
    for line in wrong:
        print(f"FAILED: {line}", file=sys.stderr)
    return 1 if wrong else 0


def run(names: list[str], folder: Path | None, quick: bool) -> int:
    chosen = [BY_NAME[name] for name in names] or MEASUREMENTS
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) if quick else RESULTS
        for m in chosen:
            reasons = lacks(m, folder, quick)
            if reasons:
                print(f"{m.name}: left out, {'; '.join(reasons)}", flush=True)
                continue
            print(f"-- {m.name}: {m.what}", flush=True)
            words = [
                "one",
                m.name,
                "--to",
                str(target),
                *(["--data", str(folder)] if folder else []),
                *(["--quick"] if quick else []),
            ]
            environment = dict(os.environ) | {name: str(m.threads) for name in THREADS if m.threads}
            if subprocess.run([sys.executable, __file__, *words], env=environment).returncode:
                failed.append(m.name)
        results = [result for result in stored(target) if BY_NAME[result["name"]] in chosen]
    if quick:
        print("tiny sizes: nothing is stored, no promise is judged")
    else:
        write()
    return told(results, failed, not quick)


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "write", "list", "one"], metavar="run|write|list")
    parser.add_argument("names", nargs="*", metavar="NAME", help="measurements; all where none is named")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with the data that are not built in, in any of its folders")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, not stored, not judged")
    parser.add_argument("--to", type=Path, default=RESULTS, help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args(given)
    unknown = [name for name in options.names if name not in BY_NAME]
    if unknown:
        parser.error(f"no measurement is called {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data {options.data} is not a folder")
    if options.command == "run":
        return run(options.names, options.data, options.quick)
    if options.command == "one":
        for name in options.names:
            store(measure(BY_NAME[name], options.data, options.quick), options.to)
    elif options.command == "list":
        for m in MEASUREMENTS:
            print(f"{m.name:18} {m.family:11} {m.what}; {'; '.join(lacks(m, options.data)) or 'ready'}")
    else:
        write()
        return told(stored(RESULTS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
