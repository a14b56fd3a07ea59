"""A RUN folder: `model.tallies`, the fitted model, and `run.toml`, every option that made it. It appears whole or not at all.

While a fit runs, its options and checkpoints are in the folder `RUN.unfinished` beside the place of the RUN; the folder becomes the
RUN when the model is in it. What a power cut leaves is an unfinished folder, from which `tallies resume RUN` goes on.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tallies._version import __version__
from tallies.errors import DataError, FileError, need_file

MODEL, OPTIONS, CHECKPOINT = "model.tallies", "run.toml", "checkpoint"


def unfinished(out: str | Path) -> Path:
    """Where the state of a running or broken fit is kept.

    >>> unfinished("fits/RUN").name
    'RUN.unfinished'
    """
    out = Path(out).absolute()  # "." and ".." have no name of their own
    return out.with_name(out.name + ".unfinished")


def check_free(out: str | Path, force: bool) -> None:
    """Refuse, before any work is done, to write over something that is there."""
    out = Path(out)
    if out.exists() and not (out / OPTIONS).is_file():
        raise DataError(f"{str(out)!r} exists and is not a RUN folder; it will not be replaced: choose another --out")
    if out.exists() and not force:
        raise DataError(f"{str(out)!r} exists already; choose another --out, or pass --force to replace it")
    if unfinished(out).exists() and not force:
        raise DataError(
            f"{unfinished(out).name!r} is the rest of a fit to {str(out)!r} that was cut short, or is still running; go on with "
            f"`tallies resume {out}`, or begin anew with --force"
        )


def begin_run(out: str | Path, options: Mapping[str, Any], state: Path | None = None) -> None:
    """Make the unfinished folder, whole: options, and the checkpoints of `state` where a fit goes on."""
    place = unfinished(out)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as aside:
        part = Path(aside) / "new"
        part.mkdir()
        _write_options(part, options)
        for file in checkpoints(state) if state is not None else []:
            shutil.copy2(file, part)
        _put(part, place)


def finish_run(out: str | Path, model: Any, options: Mapping[str, Any], keep_state: bool) -> None:
    """Put the model into the unfinished folder and make it the RUN; an older RUN of that name goes. `keep_state`: to resume."""
    place = unfinished(out)
    model.save(place / MODEL)
    _write_options(place, options)
    _put(place, Path(out).absolute())
    if not keep_state:
        for file in checkpoints(Path(out)):
            file.unlink()


def _put(folder: Path, place: Path) -> None:
    """Move a folder to its place. What was there goes; where the move fails, it comes back."""
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as aside:
        old = Path(aside) / "old"
        if place.exists():
            place.rename(old)
        try:
            folder.rename(place)
        except OSError:
            if old.exists():
                old.rename(place)
            raise


def drop_unfinished(out: str | Path) -> None:
    """Forget a fit that failed."""
    shutil.rmtree(unfinished(out), ignore_errors=True)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoint of a run; further chains of a sampler have one each."""
    return sorted(folder.glob(CHECKPOINT + "*"))


def read_options(run: str | Path) -> dict[str, Any]:
    """The options that made a RUN folder."""
    run = Path(run)
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
    (folder / OPTIONS).write_text(to_toml({"version": __version__, **options}), encoding="utf-8")


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
