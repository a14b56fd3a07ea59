"""Put small wrongs into a copy of the package, one at a time, and see that its tests notice: `python tests/mutants.py --jobs 2`.

The wrongs stand in `wrongs/`, a file a room; one whose old text is not found exactly once is an error. Against a copy with a wrong
in it run first the tests that were written for such wrongs (`test_derived.py`), and of these first what enters the function with
the wrong: a run on an unchanged copy says which functions each test enters, and how long it takes. Where these notice nothing, all
tests of the room run once on an unchanged copy, and then against the copy those that enter the function (of a compiled loop: all),
the quick ones first, until one fails. What no test notices survived.
Compiled loops are taken from the cache of the unchanged copy, but for the rooms whose loops are wrong.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
from wrongs import Wrong  # noqa: E402

DERIVED = "evaluation/test_derived.py"
ROOMS = {  # the tests of each; doctests of its source come with them
    "bayes": ("bayes",),
    "categories": ("categories",),
    "concepts": ("concepts",),
    "counts": ("counts",),
    "topics": ("topics",),
    "data": ("data",),
    "evaluation": ("evaluation",),
    "html": ("html/test_derived.py", DERIVED, "html/test_page.py", "bayes/test_plots.py"),
    "cli": ("cli/test_derived.py", DERIVED, "cli/test_every_model.py", "cli/test_first_hour.py"),
    "floor": (DERIVED, "test_engine.py", "test_maths.py", "test_lbfgs.py", "test_storage.py"),
}
SOURCES = {"floor": ("engine.py", "rules.py", "maths.py", "lbfgs.py", "sums.py"), "cli": ("cli/holdout.py", "cli/tables.py")}
LEAST = 120.0  # seconds of the processor before a run of tests is taken for one that would never end; that is noticed, too
QUICK = 0.3  # seconds of a test that runs before all slower ones


class Known(NamedTuple):
    """What the run on the unchanged copy says of a test."""

    seconds: float
    passed: bool
    entered: list[tuple[str, int, int]] | None  # functions: file, first and last line; None: anything


class Mutant(NamedTuple):
    room: str
    number: int  # in its file
    wrong: Wrong

    @property
    def name(self) -> str:
        return f"{self.room}-{self.number}"

    def in_reach(self, test: Known) -> bool:
        """Whether a test that passes enters the function with the wrong."""
        line, entered = self.line, test.entered
        return test.passed and (entered is None or any(f == self.wrong.file and a <= line <= b for f, a, b in entered))

    @property
    def line(self) -> int:
        """Where it is."""
        text = source(self.wrong)
        return text[: text.index(self.wrong.old)].count("\n") + 1


class Result(NamedTuple):
    """How a run of tests ended."""

    noticed: bool
    by: str  # the test, or what else
    seconds: float


def source(wrong: Wrong) -> str:
    return (ROOT / "src" / "tallies" / wrong.file).read_text()


def mutants(rooms: Sequence[str]) -> list[Mutant]:
    """All wrongs of some rooms; one that does not apply ends the program."""
    found = [Mutant(room, i, w) for room in rooms for i, w in enumerate(importlib.import_module(f"wrongs.{room}").WRONGS, 1)]
    strange = [(m, n) for m in found if (n := source(m.wrong).count(m.wrong.old)) != 1 or m.wrong.old == m.wrong.new]
    for m, n in strange:
        print(f"{m.name}: {m.wrong.file} has {n} times, not once: {m.wrong.old!r}", file=sys.stderr)
    if strange:
        sys.exit(2)
    return found


# tests in a process of its own


class Watch:
    """A plugin of pytest: keeps what each test took and did, or puts those that matter first; remembers what failed."""

    def __init__(self, package: Path, known: dict[str, Known] | None, mutant: Mutant | None, whole: bool):
        self.package, self.known, self.mutant = str(package), known, mutant
        self.all = whole  # also those that do not enter the function with the wrong, behind those that do
        self.found: dict[str, Known] = {}
        self.failed = ""
        self.entered: set[Any] = set()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        # a cluster takes long to begin, and gives the same bits
        items[:] = [item for item in items if "cluster" not in getattr(item, "fixturenames", ())]
        if self.known is None or self.mutant is None:
            return
        known, mutant, place, new = self.known, self.mutant, {}, Known(0.0, True, None)

        def key(item: Any) -> tuple[bool, bool, int]:
            its = known.get(item.nodeid, new)
            return not mutant.in_reach(its), its.seconds > QUICK, place.setdefault(item.location[0], len(place))

        passed = [item for item in items if known.get(item.nodeid, new).passed]
        some = [item for item in passed if mutant.in_reach(known.get(item.nodeid, new))]
        # tests of a file stay together, for they may share what takes long to make
        items[:] = sorted(some if some and not self.all else passed, key=key)

    def pytest_runtest_setup(self, item: Any) -> None:
        if self.known is None:
            self.entered = set()
            entered = self.entered

            def profile(frame: Any, event: str, _: Any) -> None:
                if event == "call":
                    entered.add(frame.f_code)

            threading.setprofile(profile)
            sys.setprofile(profile)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid
        if self.known is None:
            before = self.found.get(report.nodeid, Known(0.0, True, None))
            mine = [code for code in self.entered.copy() if code.co_filename.startswith(self.package)]
            cut = len(self.package) + 1
            entered = [(c.co_filename[cut:], c.co_firstlineno, max([n or 0 for *_, n in c.co_lines()])) for c in mine]
            self.found[report.nodeid] = Known(before.seconds + report.duration, before.passed and not report.failed, entered)

    def pytest_runtest_logfinish(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


class Run(NamedTuple):
    """Tests that a process of its own runs against the package in a folder."""

    folder: Path
    child: int
    begun: float
    mutant: Mutant | None


def begin(
    folder: Path, tests: Sequence[str], known: dict[str, Known] | None, mutant: Mutant | None, limit: float, whole: bool = False
) -> Run:
    """Start tests in a fork of this process, which has all but the package loaded."""
    child = os.fork()
    if not child:
        os.setsid()
        for name in (signal.SIGALRM, signal.SIGPROF, signal.SIGTERM):
            signal.signal(name, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, limit)  # of the processor: a busy machine is slow
        signal.alarm(int(20 * limit))
        out = os.open(folder / "out.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(out, 1), os.dup2(out, 2)
        code = 3
        try:
            code = _in_child(folder, tests, known, mutant, whole)
        finally:
            os._exit(code)
    return Run(folder, child, time.monotonic(), mutant)


def put_out(child: int) -> None:
    """End a process of ours and all that it began."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def end(run: Run, status: int) -> Result:
    """How a run ended; what its process left behind is ended, too."""
    put_out(run.child)
    seconds, told = time.monotonic() - run.begun, run.folder / "told.json"
    if os.WIFSIGNALED(status):
        return Result(True, "never ended" if os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF) else "a crash", seconds)
    code = os.WEXITSTATUS(status)
    if code in (4, 5):
        sys.exit(f"pytest found no such tests:\n{(run.folder / 'out.txt').read_text()[-2000:]}")
    failed = json.loads(told.read_text())["failed"] if told.exists() else "nothing could be collected"
    return Result(code != 0, failed.replace(str(run.folder) + "/", "").replace(str(run.folder)[1:] + "/", ""), seconds)


def _in_child(folder: Path, tests: Sequence[str], known: dict[str, Known] | None, mutant: Mutant | None, whole: bool) -> int:
    import pytest

    sys.path[:0] = [str(folder), str(ROOT)]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), str(ROOT)])  # as `python -m pytest` has it
    os.environ.pop("NUMBA_CACHE_DIR", None)  # the cache lies beside the loops
    os.chdir(ROOT)
    import tallies

    assert Path(tallies.__file__).parent == folder / "tallies", tallies.__file__
    watch = Watch(folder / "tallies", known, mutant, whole)
    words = ["-q", "--tb=short", "--no-header", "-p", "no:xdist", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
    words += [
        "-c",
        str(ROOT / "pyproject.toml"),
        f"--basetemp={folder / 'pytest'}",
        *(["-x"] if known is not None else []),
        "-m",
        "",
    ]
    code = int(pytest.main([*words, *tests], plugins=[watch]))
    sys.setprofile(None)
    (folder / "told.json").write_text(json.dumps({"failed": watch.failed, "found": watch.found}))
    return code


def tests_of(room: str, folder: Path) -> list[str]:
    """Test files, and sources with doctests; paths that pytest tells apart from those of the tree."""
    own = [str(folder / "tallies" / part) for part in SOURCES.get(room, (room,))]
    return [*(str(HERE / part) for part in ROOMS[room]), *own]


# copies


@contextmanager
def workshop(kept: Path | None) -> Iterator[Path]:
    """A folder for copies, with the unchanged one in `base`; one that is kept has the caches and what is known of tests already."""
    folder = Path(tempfile.mkdtemp(prefix="mutants.")) if kept is None else kept.resolve()
    tree, base = ROOT / "src" / "tallies", folder / "base" / "tallies"
    if not base.exists():
        shutil.copytree(tree, base)
    for path in (*tree.rglob("*.py"), *base.rglob("*.py")):  # what has changed since
        other = base / path.relative_to(tree) if path.is_relative_to(tree) else tree / path.relative_to(base)
        if not other.exists() and path.is_relative_to(base):
            path.unlink()
        elif path.is_relative_to(tree) and (not other.exists() or other.read_bytes() != path.read_bytes()):
            other.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, other)
    try:
        yield folder
    finally:
        if kept is None:
            shutil.rmtree(folder, ignore_errors=True)


def apply(wrong: Wrong, folder: Path) -> None:
    path = folder / "tallies" / wrong.file
    text = path.read_text().replace(wrong.old, wrong.new)
    path.unlink()
    path.write_text(text)
    if "kernels" in path.parts:  # loops of other files may have this one compiled into them
        parts = Path(wrong.file).parts
        for stale in (folder / "tallies" / (parts[0] if len(parts) > 2 else "")).rglob("*.nb[ic]"):
            stale.unlink()


def baseline(base: Path, room: str, tests: Sequence[str]) -> dict[str, Known]:
    """What tests of a room do on the unchanged copy; it fills the cache of loops, too."""
    kept = base / f"{room}.json"
    if not kept.exists():
        run = begin(base, tests, None, None, 3600)
        try:
            _, status = os.waitpid(run.child, 0)
        finally:
            put_out(run.child)
        if os.waitstatus_to_exitcode(status) not in (0, 1):
            sys.exit(f"the tests of {room} cannot be run:\n{(base / 'out.txt').read_text()[-3000:]}")
        (base / "told.json").rename(kept)
    known = {where: Known(*each) for where, each in json.loads(kept.read_text())["found"].items()}
    for where in [where for where, each in known.items() if not each.passed]:
        print(f"{room}: left out, since it fails without any wrong: {where}", flush=True)
    return known


def start(base: Path, mutant: Mutant, known: dict[str, Known], named: bool) -> Run:
    """Tests against a copy with a wrong: those that the wrong names, or those of its room."""
    folder = Path(tempfile.mkdtemp(dir=base.parent, prefix=f"{mutant.name}."))
    shutil.copytree(base / "tallies", folder / "tallies", copy_function=os.link)  # whoever changes a file writes a new one
    apply(mutant.wrong, folder)
    if named:
        return begin(folder, [str(HERE / test) for test in mutant.wrong.tests], known, mutant, LEAST, whole=True)
    # doctests have the folder in their names
    known = {where.replace(base.name, folder.name): each for where, each in known.items()}
    limit = LEAST + 3 * sum(each.seconds for each in known.values())
    return begin(folder, files_of(mutant, folder, known), known, mutant, limit)


def files_of(mutant: Mutant, folder: Path, known: dict[str, Known]) -> list[str]:
    """Files with a test that enters the function with the wrong, and those that the unchanged copy has not seen; else all."""
    parts = tests_of(mutant.room, folder)
    seen, mine = ({w.split("::")[0] for w in some} for some in (known, [w for w, each in known.items() if mutant.in_reach(each)]))
    files = {path for part in map(Path, parts) for path in (part.rglob("*.py") if part.is_dir() else [part])}
    named = {p: os.path.relpath(p, ROOT) for p in sorted(files) if p.name.startswith("test_") or HERE not in p.parents}
    some = [str(path) for path, name in named.items() if name in mine or (name not in seen and HERE in path.parents)]
    return some if mine else parts


def side_by_side(runs: Iterator[Run], jobs: int) -> Iterator[tuple[Mutant, Result]]:
    """The ends of runs, of which so many go on at a time."""
    going: dict[int, Run] = {}
    try:
        while True:
            for run in islice(runs, jobs - len(going)):
                going[run.child] = run
            if not going:
                return
            child, status = os.wait()
            run = going.pop(child)
            assert run.mutant is not None
            yield run.mutant, end(run, status)
            shutil.rmtree(run.folder, ignore_errors=True)
    finally:
        for child in going:
            put_out(child)


def tried(
    base: Path, room: str, some: Iterator[Mutant], by: Sequence[str] | None, alone: bool, jobs: int
) -> Iterator[tuple[Mutant, Result]]:
    """How the runs of some wrongs of a room ended: by the tests that are named, or written for such wrongs; what these miss
    then by all tests of the room, unless they are to stay `alone`."""
    rest, usual = [], [test for test in ROOMS[room] if test.endswith("test_derived.py")] or [f"{room}/test_derived.py"]
    named = (m._replace(wrong=m.wrong._replace(tests=by or m.wrong.tests or usual)) for m in some)
    first = {} if alone else baseline(base, f"{room}-derived", [str(HERE / test) for test in usual])
    for m, result in side_by_side((start(base, m, first, named=True) for m in named), jobs):
        if result.noticed or alone:
            yield m, result
        else:
            rest.append(m)
    if rest:
        known = baseline(base, room, tests_of(room, base))
        yield from side_by_side((start(base, m, known, named=False) for m in rest), jobs)


def preload() -> None:
    """What tests import but for the package: forks have it then."""
    for name in ("hypothesis", "numba", "pandas", "pytest", "scipy.optimize", "scipy.stats", "sklearn.base"):
        importlib.import_module(name)


def main() -> int:
    parser = argparse.ArgumentParser(description="Put small wrongs into a copy of the package, and see that its tests notice.")
    parser.add_argument("--room", nargs="*", choices=list(ROOMS), default=list(ROOMS))
    parser.add_argument("--only", nargs="*", default=[], help="names such as topics-3, or parts of what they say")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sample", type=int, help="so many by lot, of those that name a test, and by it alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--by", nargs="*", help="by these test files alone, without a look at what tests enter")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no further one after so long")
    parser.add_argument("--shop", type=Path, help="a folder for the copies, which is kept: the next run need not begin anew")
    parser.add_argument("--out", type=Path, help="a file for the results, a line each; what is in it is not tried again")
    words = parser.parse_args()
    chosen, last = mutants(words.room), time.monotonic() + 60 * words.minutes
    if words.only:
        chosen = [m for m in chosen if any(text == m.name or text in f"{m.wrong.file}: {m.wrong.why}" for text in words.only)]
    if words.sample is not None:
        named = [m for m in chosen if any("::" in test for test in m.wrong.tests)]
        chosen = random.Random(words.seed).sample(named, min(words.sample, len(named)))
    found: dict[str, dict[str, Any]] = {}
    if words.out and words.out.exists():
        found = {row["name"]: row for row in map(json.loads, words.out.read_text().splitlines())}
    preload()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what runs is put out
    with workshop(words.shop) as shop:
        base = shop / "base"
        for room in words.room:
            mine = [m for m in chosen if m.room == room and m.name not in found]
            alone = words.sample is not None or bool(words.by)
            timely = takewhile(lambda m: time.monotonic() < last, mine)
            for m, result in tried(base, room, timely, words.by, alone, words.jobs):
                verdict = "noticed" if result.noticed else "equivalent" if m.wrong.equivalent else "SURVIVED"
                print(f"{m.name:14} {verdict:10} {result.seconds:4.0f} s  {m.wrong.file}: {m.wrong.why} [{result.by}]", flush=True)
                found[m.name] = {"name": m.name, "verdict": verdict, **result._asdict()}
                if words.out:
                    with words.out.open("a") as file:
                        file.write(json.dumps(found[m.name]) + "\n")
    counts = Counter(row["verdict"] for row in found.values())
    print(f"{len(found)} wrongs: {counts['noticed']} noticed, {counts['equivalent']} equivalent, {counts['SURVIVED']} survived")
    return counts["SURVIVED"] > 0


if __name__ == "__main__":
    sys.exit(main())
