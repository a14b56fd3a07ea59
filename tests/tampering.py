"""Tamper with saved models, or with states of fits, and use what still loads: `python tests/tampering.py --files 5000`.

Each file of an estimator is changed in one to three places, in its arrays (items, shape, kind) or in its tree (numbers, words,
whole branches), and packed again with sums that are right. It must be refused with `FileError`, or be a model that answers, rightly
or not, without the process dying, hanging or running out of memory; a checkpoint must be refused, or be gone on from. Forks do the
work, so that a crash is seen and counted.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

sys.path.insert(0, str(Path(__file__).parent))
import tallies
from families import FAMILIES, write_files
from tallies import registry, runs
from tallies.errors import FileError, FitError

CUT = 5  # sweeps of a fit before its state is taken
BATCH, SECONDS, MEMORY = 40, 20, 4 << 30  # files a fork, seconds of the processor for one file, bytes that a fork may ask for
WORDS = ["", "x", "lbfgs", "kernel", "auto", "Fitted", "Params", "none", "\0", "é" * 50]
NUMBERS = [0, -1, 1, 2, 3, 7, 255, 2**31, 2**63 - 1, -(2**63), 10**30, 0.5, -0.5, 1e308, True, None]


def fitted(folder: Path, models: list[str], checkpoints: bool) -> dict[str, tuple[bytes, Any]]:
    """A saved model of each, or the state of a fit, and the data that it may be asked of."""
    write_files(folder)
    os.chdir(folder)
    found = {}
    for word in models:
        data, words = FAMILIES[word]
        sys.argv = ["tallies", "fit", word, data, *words, "--sweeps", "12", "--threads", "1", "-q", "-o", word]
        from tallies.cli.main import main

        try:
            main()
        except SystemExit as end:
            assert not end.code, word
        model, options = runs.read_run(word)
        command = registry.furniture(model, "command")
        path = Path(word, "model.tallies")
        if checkpoints:
            path, sweeps = Path(word, "state"), iter(range(10**9))
            command.fit(clone(model), options, checkpoint=path, callback=lambda *_, n=sweeps: next(n) >= CUT)
        found[word] = (path.read_bytes(), (command, options, data, clone(model)))
    return found


def parts(body: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Tree and arrays of a file."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        tree = json.loads(archive.read("tree.json"))
        names = sorted((n for n in archive.namelist() if n.endswith(".npy")), key=lambda n: int(n[:-4]))
        return tree, [np.load(io.BytesIO(archive.read(name)), allow_pickle=False) for name in names]


def packed(tree: dict[str, Any], arrays: list[np.ndarray]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("tree.json", json.dumps(tree))
        for i, array in enumerate(arrays):
            entry = io.BytesIO()
            np.save(entry, array, allow_pickle=False)
            archive.writestr(f"{i}.npy", entry.getvalue())
    return out.getvalue()


def change_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An array that is not quite what it was."""
    way = rng.integers(8)
    array = np.array(array)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if way < 4 and array.size and array.dtype.kind in "fiu":
            extreme = [0, -1, 1, array.max() + 1, array.min() - 1, 2**31 - 1, -(2**31), 2**62, -(2**62)]
            extreme += [np.nan, np.inf, -np.inf, 1e300] if array.dtype.kind == "f" else []
            flat = array.reshape(-1)
            item = np.array(extreme[rng.integers(len(extreme))]).astype(array.dtype)
            flat[rng.integers(array.size, size=rng.integers(1, 4))] = item
            return array
        if way == 4 and array.ndim:
            axis = rng.integers(array.ndim)
            return np.take(array, np.arange(max(array.shape[axis] - rng.integers(1, 3), 0)), axis=axis)
        if way == 5 and array.ndim and array.size:
            axis = rng.integers(array.ndim)
            return np.concatenate([array, np.take(array, [0] * rng.integers(1, 3), axis=axis)], axis=axis)
        if way == 6 and array.dtype.kind != "U":
            kind = ["f8", "f4", "i8", "i4", "u1", "?", "U3", "c16"][rng.integers(8)]
            return np.nan_to_num(array).astype(kind) if kind != "U3" else array.astype(kind)
        shapes = [array.reshape(-1), array[None], array[..., None], np.array(array.T), array[:0] if array.ndim else array]
        return shapes[rng.integers(len(shapes))]


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something can be changed in a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path] * bool(path) + [found for key, item in items for found in places(item, (*path, key))]


def change_tree(tree: Any, rng: np.random.Generator) -> None:
    """One place of a tree made another value, left out, doubled, or what stands elsewhere."""
    where = places(tree["tree"])
    path, other = (where[rng.integers(len(where))] for _ in range(2))
    home, source = tree["tree"], tree["tree"]
    for key in path[:-1]:
        home = home[key]
    for key in other:
        source = source[key]
    way = rng.integers(6)
    if way == 0 and isinstance(home, list):
        del home[path[-1]]
    elif way == 1 and isinstance(home, list):
        home.insert(path[-1], copy.deepcopy(home[path[-1]]))
    elif way == 2:
        home[path[-1]] = copy.deepcopy(source)
    elif way == 3:
        home[path[-1]] = WORDS[rng.integers(len(WORDS))]
    else:
        home[path[-1]] = NUMBERS[rng.integers(len(NUMBERS))]


def tampered(body: bytes, seed: int) -> bytes:
    """The file, changed in one to three places."""
    rng = np.random.default_rng(seed)
    tree, arrays = parts(body)
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.6 and arrays:
            i = rng.integers(len(arrays))
            arrays[i] = change_array(arrays[i], rng)
        else:
            change_tree(tree, rng)
    return packed(tree, arrays)


def use(path: str, about: Any) -> str:
    """Load and ask everything, or go on with a fit; what came of it: "refused" or "used"."""
    command, options, data, fresh = about
    try:
        if b'"checkpoint"' in Path(path).read_bytes():
            command.fit(clone(fresh), options, resume=path)
            return "used"
        model = tallies.load(path)
    except (FileError, FitError, FileNotFoundError):
        return "refused"
    except ValueError as error:
        if "the checkpoint" not in str(error):
            raise
        return "refused"
    asks = [
        model.summary,
        lambda: command.predict(model, options, data),
        lambda: command.score(model, options, data, 0),
        lambda: command.sample(model, options, 5, 0),
        lambda: model.report("page.html"),
    ]
    for ask in asks:
        with suppress(Exception):  # a wrong model may fail; it may not take the process with it
            ask()
    return "used"


def batch(folder: Path, body: bytes, about: Any, seeds: list[int]) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Some files in a fork; where it dies, the rest in another."""
    counts: Counter[str] = Counter()
    failures = []
    while seeds:
        log = folder / f"log-{os.getpid()}"
        log.write_text("")
        pid = os.fork()
        if pid == 0:
            try:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                warnings.simplefilter("ignore")
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY + _size(), MEMORY + _size()))
                for seed in seeds:
                    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # its signal ends the fork
                    Path("tampered.tallies").write_bytes(tampered(body, seed))
                    told = use("tampered.tallies", about)
                    with open(log, "a") as file:
                        file.write(f"{told}\n")
            except BaseException as error:
                with open(log, "a") as file:
                    file.write(f"{type(error).__name__}: {str(error)[:200]!r}\n")
                os._exit(1)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        lines = log.read_text().splitlines()
        done = [line for line in lines if line in ("refused", "used")]
        counts.update(done)
        if code != 0:
            reason = next((line for line in lines if line not in ("refused", "used")), f"died of signal {-code}")
            failures.append((seeds[len(done)], reason))
            done.append("")
        seeds = seeds[len(done) :]
    return counts, failures


def _size() -> int:
    """Bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def campaign(files: int, seed: int, models: list[str], checkpoints: bool) -> dict[str, Any]:
    home = os.getcwd()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            for word, (body, about) in fitted(folder, models, checkpoints).items():
                Path("whole.tallies").write_bytes(body)
                for ended in Path(word).glob("state.*"):  # what earlier stages kept stands beside a checkpoint, under its name
                    for name in ("whole", "tampered"):
                        shutil.copy(ended, f"{name}.tallies{ended.suffix}")
                assert use("whole.tallies", about) == "used"  # and everything is loaded and compiled before the forks
                start, counts, failures = time.monotonic(), Counter[str](), []
                for first in range(seed, seed + files, BATCH):
                    some, bad = batch(folder, body, about, list(range(first, min(first + BATCH, seed + files))))
                    counts += some
                    failures += bad
                found[word] = {**counts, "failures": failures}
                print(f"{word}: {dict(counts)}, {failures}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        finally:
            os.chdir(home)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=5000, help="of each estimator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoints", action="store_true", help="of fits, in place of models")
    parser.add_argument("--models", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    result = campaign(**vars(parser.parse_args()))
    print(json.dumps(result))
    sys.exit(any(one["failures"] for one in result.values()))
