"""A RUN folder: `model.tallies`, the fitted model, and `run.toml`, every option that made it. It appears whole or not at all."""

from __future__ import annotations

import json
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tallies._version import __version__
from tallies.errors import DataError, FileError

MODEL, OPTIONS = "model.tallies", "run.toml"


def check_free(out: str | Path, force: bool) -> None:
    """Refuse, before any work is done, to write over something that is there."""
    out = Path(out)
    if out.exists() and not force:
        raise DataError(f"{str(out)!r} exists already; choose another --out, or pass --force to replace it")
    if out.exists() and not (out / OPTIONS).is_file():
        raise DataError(f"{str(out)!r} is not a RUN folder, so --force will not replace it; choose another --out")


def write_run(out: str | Path, model: Any, options: Mapping[str, Any], force: bool = False) -> Path:
    """Write the folder beside its place and move it there at the end."""
    out = Path(out)
    check_free(out, force)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        part.chmod(0o755)
        model.save(part / MODEL)
        (part / OPTIONS).write_text(to_toml({"version": __version__, **options}), encoding="utf-8")
        if out.exists():
            shutil.rmtree(out)
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return out


def read_run(run: str | Path) -> tuple[Any, dict[str, Any]]:
    """The model of a RUN folder and the options that made it."""
    from tallies.estimator import load

    run = Path(run)
    if not (run / OPTIONS).is_file():
        raise FileError(f"expected a RUN folder written by `tallies fit`, but {str(run)!r} has no {OPTIONS}; check the path")
    try:
        options = tomllib.loads((run / OPTIONS).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{run / OPTIONS} is damaged ({error}); fit again") from error
    return load(run / MODEL), options


def to_toml(options: Mapping[str, Any]) -> str:
    """Options as TOML: strings, numbers, booleans, lists and flat dicts of them; None is left out.

    >>> print(to_toml({"model": "gda", "seed": 0, "columns": ["a", "b"], "priors": None}), end="")
    model = "gda"
    seed = 0
    columns = ["a", "b"]
    """
    return "".join(f"{key} = {_toml(value)}\n" for key, value in options.items() if value is not None)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(k), ensure_ascii=False)} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)  # of a string, number, boolean or list: the same in TOML
