"""A RUN folder: `model.tallies`, the fitted model, and `run.toml`, every option that made it. It appears whole or not at all.

While a fit runs, its options and checkpoints are in the folder `RUN.unfinished` beside the place of the RUN, with a file `owner`
that its process keeps locked; the folder becomes the RUN, in one rename, when the model is in it. So at any moment the old RUN is
there, or the new one; and what a kill or a power cut leaves says by itself what it is, and the next command puts it right (`tidy`):

    RUN.unfinished with an owner that is locked              a fit that runs
                   with an owner, without a model            a fit cut short, from which `tallies resume RUN` goes on
                   with an owner and a model                 a fit that ended just before it took its place
                   without an owner, with a model            a RUN that was replaced
    .RUN.unfinished.*                                        a folder that was being made or removed
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any

from tallies._version import __version__
from tallies.disk import OWNER, abandoned, atomic, exchange, lock, remove, sync, this_process
from tallies.errors import DataError, FileError, need_file

MODEL, OPTIONS, CHECKPOINT, JUDGED = "model.tallies", "run.toml", "checkpoint", "held_out.json"


def unfinished(out: str | Path) -> Path:
    """Where the state of a running or broken fit is kept.

    >>> unfinished("fits/RUN").name
    'RUN.unfinished'
    """
    out = Path(out).absolute()  # "." and ".." have no name of their own
    return out.with_name(out.name + ".unfinished")


def _trash(out: str | Path) -> str:
    """How the names of folders begin that are being made or removed beside a RUN."""
    return f".{unfinished(out).name}."


def tidy(out: str | Path) -> bool:
    """Put right what dead processes left of their fits to `out`; whether one of them had ended, and has its place only now."""
    out, place, ended = Path(out).absolute(), unfinished(out), False
    with suppress(OSError):  # a folder that may only be read
        for left in place.parent.glob(f"{escape(_trash(out))}*"):
            if not _busy(left):
                shutil.rmtree(left, ignore_errors=True)
        if (place / MODEL).is_file() and not (place / OWNER).exists():
            remove(place, _trash(out))
        if (place / MODEL).is_file() and not _busy(place):
            _into_place(out)
            ended = True
        if not _busy(out):
            (out / OWNER).unlink(missing_ok=True)
    return ended


def _busy(folder: Path) -> bool:
    """Whether a process is at work on the folder."""
    return (folder / OWNER).exists() and not abandoned(folder / OWNER)


def check_free(out: str | Path, force: bool) -> None:
    """Refuse, before any work is done, to write over something that is there."""
    out = Path(out)
    tidy(out)
    if out.exists() and not (out / OPTIONS).is_file():
        raise DataError(f"{str(out)!r} exists and is not a RUN folder; it will not be replaced: choose another --out")
    if out.exists() and not force:
        raise DataError(f"{str(out)!r} exists already; choose another --out, or pass --force to replace it")
    if unfinished(out).exists() and not force:
        check_idle(out)
        raise DataError(
            f"{unfinished(out).name!r} is the rest of a fit to {str(out)!r} that was cut short; go on with "
            f"`tallies resume {out}`, or begin anew with --force"
        )


def check_idle(out: str | Path) -> None:
    """Refuse to touch a fit that another process is at."""
    place = unfinished(out)
    if _busy(place):
        who = (place / OWNER).read_text(encoding="utf-8")
        raise DataError(f"{who} is fitting {str(out)!r} at this moment; wait for its end, stop it, or choose another --out")


@contextmanager
def writing(out: str | Path, options: Mapping[str, Any], state: Path | None = None) -> Iterator[Path]:
    """The unfinished folder, whole and this process's own inside the block: with the options, and the checkpoints of `state`, the
    RUN or unfinished folder from which a fit goes on."""
    place = unfinished(out)
    check_idle(out)
    if state == place:  # goes on where it is
        with _owned(place):
            _write_options(place, options)
            yield place
        return
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=place.parent, prefix=_trash(out)))
    except OSError as error:
        kind = PermissionError if isinstance(error, PermissionError) else DataError
        told = f"{str(out)!r} cannot be made in {str(Path(out).parent)!r} ({error.strerror})"
        raise kind(f"{told}; choose another --out") from error
    try:
        with _owned(part):
            part.chmod(0o755)
            _write_options(part, options)
            for file in checkpoints(state) if state is not None else []:
                shutil.copy2(file, part)
                sync(part / file.name)
            sync(part)
            _put(part, place, out)
            yield place
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """Inside the block the folder is this process's: its file `owner` says so, and is locked."""
    with open(folder / OWNER, "a+", encoding="utf-8") as owner:
        if not lock(owner.fileno()):
            raise DataError(f"{str(folder)!r} has just been taken by another process; try again when that has ended")
        owner.truncate(0)
        owner.write(this_process())
        owner.flush()
        yield


def _put(part: Path, place: Path, out: str | Path) -> None:
    """A folder takes its place, from which another one goes."""
    if place.exists():
        return exchange(part, place, _trash(out))
    try:
        part.rename(place)
    except OSError as error:
        if not place.exists():
            raise
        raise DataError(f"another process has just begun a fit to {str(place)!r}; wait for it, or choose another --out") from error
    sync(place.parent)


def finish_run(out: str | Path, model: Any, options: Mapping[str, Any], keep_state: bool) -> None:
    """Put the model into the unfinished folder and make it the RUN; an older RUN of that name goes. `keep_state`: to resume."""
    place = unfinished(out)
    _write_options(place, options)
    model.save(place / MODEL)  # from here on the fit is whole, and `tidy` would end what follows
    if not keep_state:
        (place / CHECKPOINT).unlink(missing_ok=True)
    _into_place(Path(out))


def _into_place(out: Path) -> None:
    """A whole unfinished folder becomes the RUN."""
    place = unfinished(out)
    if not checkpoints(place):
        for file in place.glob(f"{CHECKPOINT}.*"):  # of stages that ended
            file.unlink()
    _put(place, out, out)
    (out / OWNER).unlink(missing_ok=True)


def drop_unfinished(out: str | Path) -> None:
    """Forget a fit that failed."""
    remove(unfinished(out), _trash(out))


def write_judged(run: Path, found: Mapping[str, Any]) -> None:
    """Keep in a RUN what was found of its model on rows held out."""
    with atomic(run / JUDGED) as part:
        part.write_text(json.dumps(found), encoding="utf-8")


def read_judged(run: Path) -> dict[str, Any] | None:
    """What a RUN tells of its model on rows held out; None where none were."""
    try:
        return json.loads((run / JUDGED).read_text(encoding="utf-8")) if (run / JUDGED).is_file() else None
    except ValueError as error:
        raise FileError(f"{str(run / JUDGED)!r} cannot be read ({error}); remove it, or fit again") from error


def checkpoints(folder: Path) -> list[Path]:
    """The files from which a fit can go on: its checkpoint, and one for every stage that ended; none where it has no checkpoint."""
    return sorted(folder.glob(f"{CHECKPOINT}*")) if (folder / CHECKPOINT).is_file() else []


def read_options(run: str | Path) -> dict[str, Any]:
    """The options that made a RUN folder."""
    run = Path(run)
    tidy(run)
    if not (run / OPTIONS).is_file():
        if (unfinished(run) / OPTIONS).is_file():
            raise FileError(f"the fit of {str(run)!r} was cut short before it had a model; go on with: tallies resume {run}")
        here = "is a file" if run.is_file() else f"has no {OPTIONS}" if run.exists() else "does not exist"
        raise FileError(f"expected a RUN folder written by `tallies fit`, but {str(run)!r} {here}; check the path")
    return read_toml(run / OPTIONS)


def read_toml(path: str | Path) -> dict[str, Any]:
    """The options in a TOML file."""
    path = need_file(path, f"options in TOML, such as {OPTIONS} of a RUN folder")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{str(path)!r} cannot be read as TOML ({error}); mend it, or take {OPTIONS} of another RUN") from error


def read_run(run: str | Path) -> tuple[Any, dict[str, Any]]:
    """The model of a RUN folder and the options that made it."""
    from tallies.estimator import load

    options = read_options(run)
    return load(Path(run) / MODEL), options


def _write_options(folder: Path, options: Mapping[str, Any]) -> None:
    with atomic(folder / OPTIONS) as part:
        part.write_text(to_toml({"version": __version__, **options}), encoding="utf-8")


def to_toml(options: Mapping[str, Any]) -> str:
    """Options as TOML: strings, numbers, booleans, lists, dicts and records of them; None is left out.

    >>> print(to_toml({"model": "gda", "seed": 0, "columns": ["a", "b"], "priors": None}), end="")
    model = "gda"
    seed = 0
    columns = ["a", "b"]
    """
    return "".join(f"{key} = {_toml(value)}\n" for key, value in options.items() if value is not None)


def _toml(value: Any) -> str:
    if hasattr(value, "_asdict"):
        value = {key: item for key, item in value._asdict().items() if item is not None}
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(str(k))} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # inf and nan, as TOML has them
    # of a string, number or boolean JSON is TOML, but for one character
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
