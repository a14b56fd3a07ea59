"""Kill a command at each of its file operations, and see that nothing is lost: `python tests/killing.py --points 500`.

A fork of this process runs the command and dies at the k-th operation on a file (open, rename, remove, folder made or removed,
mode, lock, sync, entry of an archive), or, with `--full`, finds the disk full there. Then what was there before must be there
still, or what the command makes must be there whole; the next command must go through; the end must have the bytes of a fit that
nobody killed; and nothing may be left lying about.
"""

from __future__ import annotations

import argparse
import errno
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from families import FAMILIES, write_files
from tallies import registry, watch
from tallies.cli import main

for _name in registry.ENTRIES:  # once, before the forks
    registry.estimator(_name), registry.part(_name, "command"), registry.part(_name, "page")

EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "shutil.copyfile", "fcntl.flock", "ctypes.dlsym")
MORE = {  # sweeps of a short fit and of one that goes on, and what makes a fit take as many
    "gda": ["--set", "tol=1e-14"],
    "naive-bayes": [],
    "lda": ["--burn-in", "1", "--chains", "2"],
    "pln": ["--set", "tol=1e-14"],
    "fem": [],
    "fem-network": [],
    "author-concept": ["--set", "tol=1e-9"],
}


class Point(NamedTuple):
    """Where a command dies."""

    model: str
    case: str
    at: int  # number of the operation


WRITES = {"report": "RUN/report.html", "predict": "out.csv", "save": "saved.tallies"}  # the file that a case writes over


class Template(NamedTuple):
    """How a case begins."""

    folder: Path
    operations: int  # that its command takes
    after: bytes  # what it writes over a file


def undated(page: bytes) -> bytes:
    """A page without the minute in which it was written."""
    return re.sub(rb"\d{4}-\d\d-\d\d \d\d:\d\d UTC", b"", page)


def words_of(model: str, sweeps: int, *more: str) -> list[str]:
    data, words = FAMILIES[model]
    return ["fit", model, data, *words, *MORE[model], "--sweeps", str(sweeps), "--threads", "1", "-q", "-o", "RUN", *more]


def cases(model: str) -> dict[str, list[str]]:
    """The commands that are killed; each begins in a folder that `prepare` made."""
    data = FAMILIES[model][0]
    found = {
        "fit": words_of(model, 4),
        "fit over a RUN": words_of(model, 4, "--force"),
        "resume unfinished": ["resume", "RUN", "-q"],
        "report": ["report", "RUN", "-q"],
        "predict": ["predict", "RUN", data, "-o", "out.csv", "-q"],
        "save": ["save"],
    }
    if model not in ("naive-bayes", "gda"):  # whose fits take one sweep
        found["resume with more sweeps"] = ["resume", "RUN", "--sweeps", "4", "-q"]
    if model == "fem-network":
        del found["predict"]
    return found


def carry_out(words: list[str]) -> None:
    """One command, as the shell would."""
    watch.PAUSE, watch.EVERY = 0.0, 1  # a checkpoint every sweep
    if words == ["save"]:
        import tallies

        try:
            tallies.load("RUN/model.tallies").save("saved.tallies")
        except OSError as error:
            sys.exit(f"{error}")
        return
    sys.argv = ["tallies", *words]
    main.main()


def fork(folder: Path, words: list[str], at: int = 0, full: bool = False) -> tuple[int, int, str]:
    """Carry out a command in a fork: its exit code (-9: killed), the operations it did, and what it said."""
    log, count = folder / ".log", folder / ".count"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.chdir(folder)
            out = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            os.dup2(out, 1)
            os.dup2(out, 2)
            seen = _arm(str(folder), at, full)
            warnings.simplefilter("ignore")
            try:
                carry_out(words)
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            seen.append(-1)
            sys.stdout.flush()
            sys.stderr.flush()
            handle = os.open(count, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            os.write(handle, str(len(seen) - 1).encode())
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    done = int(count.read_text()) if count.exists() else 0
    count.unlink(missing_ok=True)
    return os.waitstatus_to_exitcode(status), done, log.read_text(errors="replace")


def _arm(folder: str, at: int, full: bool) -> list[int]:
    """Count operations in the folder; at the `at`-th die, or find the disk full. A -1 in the list ends it."""
    seen: list[int] = []

    def operation(*_: Any) -> None:
        if seen[-1:] == [-1]:
            return
        seen.append(1)
        if len(seen) == at:
            if full:
                raise OSError(errno.ENOSPC, "No space left on device")
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event not in EVENTS:
            return
        if event == "ctypes.dlsym":
            if args[1] in ("renameat2", "renamex_np") and not full:
                operation()
        elif event == "fcntl.flock" or any(_within(folder, arg) for arg in args[: 1 if event == "open" else 2]):  # after it: a mode
            if full and (event != "open" or str(args[1]).startswith("r")):  # reading and removing need no room
                return
            operation()

    for owner, name in ((os, "fsync"), (zipfile.ZipFile, "open"), (zipfile.ZipFile, "writestr")):
        usual = getattr(owner, name)

        def hooked(*args: Any, _usual: Callable[..., Any] = usual, **more: Any) -> Any:
            if not full or _usual.__name__ != "open" or "w" in args:  # reading needs no room
                operation()
            return _usual(*args, **more)

        setattr(owner, name, hooked)
    sys.addaudithook(hook)
    return seen


def _within(folder: str, path: Any) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    path = os.path.abspath(os.fsdecode(path))
    return path.startswith(folder) and not os.path.basename(path).startswith((".log", ".count"))


class Campaign:
    """References and templates of every case, made once."""

    def __init__(self, home: Path, models: Sequence[str] = tuple(FAMILIES)):
        self.home, self.models = home, models
        self.data = home / "data"
        self.data.mkdir()
        write_files(self.data)
        self.templates: dict[tuple[str, str], Template] = {}
        self.references: dict[tuple[str, int], bytes] = {}
        self.warm_up()

    def warm_up(self) -> None:
        """Carry out every command once in this process, so that forks need import and compile nothing."""
        here, folder = os.getcwd(), self.fresh("warm")
        os.chdir(folder)
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            for model in self.models:
                for words in (words_of(model, 2, "--force"), *cases(model).values()):
                    with suppress(SystemExit):
                        carry_out(words)
        os.chdir(here)
        shutil.rmtree(folder)

    def reference(self, model: str, sweeps: int) -> bytes:
        """The model of a fit that nobody killed."""
        if (model, sweeps) not in self.references:
            folder = self.fresh("reference")
            code, _, said = fork(folder, words_of(model, sweeps))
            assert code == 0, said
            self.references[model, sweeps] = (folder / "RUN/model.tallies").read_bytes()
            shutil.rmtree(folder)
        return self.references[model, sweeps]

    def fresh(self, name: str, template: Path | None = None) -> Path:
        folder = self.home / f"{name}-{time.monotonic_ns()}"
        shutil.copytree(template or self.data, folder)
        return folder

    def template(self, model: str, case: str) -> Template:
        """A folder in which the case can begin, and how many operations its command takes."""
        if (model, case) not in self.templates:
            folder = self.fresh("template")
            if case != "fit":
                code, done, said = fork(folder, words_of(model, 4 if case == "resume unfinished" else 2))
                assert code == 0, said
            if case == "resume unfinished":  # cut short as late as can be without a model
                low, high = 0, done
                while high - low > 1:
                    for left in ("RUN", "RUN.unfinished"):
                        shutil.rmtree(folder / left, ignore_errors=True)
                    middle = (low + high) // 2
                    fork(folder, words_of(model, 4), at=middle)
                    ended = (folder / "RUN").exists() or (folder / "RUN.unfinished/model.tallies").exists()
                    low, high = (low, middle) if ended else (middle, high)
                for left in ("RUN", "RUN.unfinished"):
                    shutil.rmtree(folder / left, ignore_errors=True)
                fork(folder, words_of(model, 4), at=low)
                assert (folder / "RUN.unfinished/checkpoint").exists()
            if case in WRITES:
                (folder / WRITES[case]).write_text("old")
            trial = self.fresh("trial", folder)
            code, done, said = fork(trial, cases(model)[case])
            assert code == 0, (model, case, said)
            after = undated((trial / WRITES[case]).read_bytes()) if case in WRITES else b""
            shutil.rmtree(trial)
            self.templates[model, case] = Template(folder, done, after)
        return self.templates[model, case]

    def points(self) -> list[Point]:
        return [Point(m, c, k) for m in self.models for c in cases(m) for k in range(1, self.template(m, c).operations + 1)]

    def check(self, point: Point, full: bool = False) -> str:
        """What was wrong after the kill; "" where nothing was."""
        folder = self.fresh("point", self.template(point.model, point.case).folder)
        words = cases(point.model)[point.case]
        try:
            code, _, said = fork(folder, words, point.at, full)
            if not full and code != -signal.SIGKILL:
                return f"not killed, exit {code}: {said[-300:]}"
            if full and (code not in (0, 1, 2) or "Traceback" in said):
                return f"a full disk ended in {code}: {said[-300:]}"
            return self._intact(point, folder) or self._goes_on(point, folder)
        finally:
            shutil.rmtree(folder)

    def _intact(self, point: Point, folder: Path) -> str:
        """Before any other command: the old state or the new one."""
        model = folder / "RUN/model.tallies"
        if point.case in WRITES:
            known = [b"old", self.template(point.model, point.case).after]
            return (
                ""
                if undated((folder / WRITES[point.case]).read_bytes()) in known
                else f"{WRITES[point.case]} is neither old nor new"
            )
        known = [self.reference(point.model, 2), self.reference(point.model, 4)]
        if model.exists():
            if model.read_bytes() not in known:
                return "the model is neither the old nor the new one"
            if not (folder / "RUN/run.toml").exists():
                return "a RUN without run.toml"
        elif point.case in ("fit over a RUN", "resume with more sweeps"):
            return "the old RUN is gone, and the new one not there"
        return ""

    def _goes_on(self, point: Point, folder: Path) -> str:
        """The advised command goes through, and ends with the same bytes; nothing is left over."""
        words = cases(point.model)[point.case]
        if "fit" in point.case or "resume" in point.case:
            old = folder / "RUN/model.tallies"
            done = old.exists() and old.read_bytes() == self.reference(point.model, 4)
            if (folder / "RUN.unfinished").exists() and not done:
                words = ["resume", "RUN", "-q"]
            elif done or (point.case == "fit" and old.exists()):
                words = ["info", "RUN", "-q"]
        code, _, said = fork(folder, words)
        if code != 0:
            return f"`{' '.join(words)}` afterwards ended in {code}: {said[-300:]}"
        if point.case not in WRITES:
            want = self.reference(point.model, 4)
            if (folder / "RUN/model.tallies").read_bytes() != want:
                return f"other bytes than a fit never killed, after `{' '.join(words)}`"
        left = [
            p
            for p in folder.rglob("*")
            if (p.name.startswith(".") and p.name != ".log") or "unfinished" in p.name or p.name == "owner"
        ]
        return f"left over: {', '.join(str(p.relative_to(folder)) for p in left)}" if left else ""


def campaign(points: int, seed: int, full: bool, models: Sequence[str]) -> dict[str, Any]:
    """Check so many points, spread evenly by lot over all cases; 0: all of them."""
    with tempfile.TemporaryDirectory() as home:
        run = Campaign(Path(home), models)
        everything = run.points()
        drawn = [everything[i] for i in np.random.default_rng(seed).permutation(len(everything))]
        seen: Counter[tuple[str, str]] = Counter()
        turn = []  # which of its case a point is: cases take turns
        for point in drawn:
            turn.append(seen[point[:2]])
            seen[point[:2]] += 1
        wanted = [drawn[i] for i in np.argsort(turn, kind="stable")[: points or None]]
        failures = []
        for number, point in enumerate(wanted, 1):
            wrong = run.check(point, full)
            if wrong:
                failures.append([*point, wrong])
                print(f"{point}: {wrong}", file=sys.stderr, flush=True)
            if number % 50 == 0:
                print(f"{number} of {len(wanted)} points, {len(failures)} failures", file=sys.stderr, flush=True)
    return {"points": len(wanted), "of": len(everything), "failures": failures}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=int, default=0, help="how many, by lot; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true", help="a full disk instead of a kill")
    parser.add_argument("--models", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    found = campaign(**vars(parser.parse_args()))
    print(json.dumps(found))
    sys.exit(bool(found["failures"]))
