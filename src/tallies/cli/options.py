"""What the commands share: options that mean the same everywhere, results on stdout, words on stderr."""

from __future__ import annotations

import json
import math
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer


def _runs(incomplete: str) -> list[str]:
    """RUN folders, for the completion of the shell."""
    start = Path(incomplete)
    home = start if incomplete.endswith("/") else start.parent
    try:
        found = [p for p in home.iterdir() if p.is_dir() and str(p).startswith(incomplete.removeprefix("./"))]
    except OSError:
        return []
    return sorted(str(p) for p in found if (p / "run.toml").is_file())


PANEL = "The run"  # heading in --help of the options that belong to the run, not to the model
Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder written by `tallies fit`.", autocompletion=_runs)]
Scheduler = Annotated[str | None, typer.Option(help="Address of a Dask scheduler to run on.", rich_help_panel=PANEL)]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Threads to use; default: all cores. Changes no result.", rich_help_panel=PANEL)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.", rich_help_panel=PANEL)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no closing words.", rich_help_panel=PANEL)]


def where(scheduler: str | None = None, threads: int | None = None) -> AbstractContextManager[None]:
    """The backend that a command runs on."""
    import tallies

    return tallies.backend(scheduler) if scheduler else tallies.backend("threads", workers=threads)


def say(text: str, quiet: bool = False) -> None:
    """Words for a person, on stderr: what was written, and what to do next."""
    if not quiet:
        print(text, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """One line of JSON on stdout; what JSON has no word for, such as NaN, is null."""
    print(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    """Dicts, lists, strings, finite numbers, booleans and None out of whatever models and tables hold."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):  # NumPy
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
