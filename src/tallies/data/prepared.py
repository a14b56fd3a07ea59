"""A table written once as a folder of Parquet files, for fits that read it many times; `tallies prepare`.

The folder has one file for each of the data, in their order, and `manifest.json`, which tells of every one its size, its check sum,
and what it was made of. Files appear whole or not at all; what a run that was stopped has made is not made again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tallies._version import __version__
from tallies.data.parquet import SUFFIXES, as_parquet, common_types, files_of
from tallies.disk import atomic
from tallies.errors import DataError, FileError
from tallies.phases import phase

MANIFEST = "manifest.json"


def prepare(data: str | Path, out: str | Path) -> Path:
    """Write a csv, tsv or json lines file (also .gz), or a folder of them, as a folder of Parquet files.

    >>> import os, tempfile
    >>> home = Path(tempfile.mkdtemp())
    >>> _ = (home / "sizes.csv").write_text("size,kind\\n1.5,a\\n2.5,b\\n")
    >>> sorted(path.name for path in prepare(home / "sizes.csv", home / "prepared").iterdir())
    ['000000.parquet', 'manifest.json']
    """
    out, paths = Path(out), [Path(path) for path in files_of(Path(data))]
    if any(path.suffix in SUFFIXES for path in paths):
        raise DataError(f"{str(data)!r} is Parquet already: fit it as it is")
    if out.exists() and not (out / MANIFEST).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{str(out)!r} exists and is no folder of prepared data; choose another")
    out.mkdir(parents=True, exist_ok=True)
    types = common_types(paths)
    before, made = {entry["file"]: entry for entry in _entries(out)}, []
    for k, path in enumerate(paths):
        name, about = f"{k:06d}.parquet", path.stat()
        of = {"name": path.name, "bytes": about.st_size, "written": about.st_mtime_ns, "types": types}
        entry = before.get(name)
        if entry is None or entry["of"] != of or not (out / name).is_file() or _sum(out / name) != entry["sha256"]:
            with phase(f"preparing {path.name}"), atomic(out / name) as part:
                rows = as_parquet(path, part, types)
            entry = {"file": name, "rows": rows, "bytes": (out / name).stat().st_size, "sha256": _sum(out / name), "of": of}
        made.append(entry)
        _write(out, [*made, *(before[left] for left in sorted(before) if left > name)])
    for left in out.glob("*.parquet"):
        if left.name not in {entry["file"] for entry in made}:
            left.unlink()
    _write(out, made)
    check(out)
    return out


def check(folder: Path) -> None:
    """Refuse a prepared folder that has lost a file, or a part of one."""
    for entry in _entries(folder):
        file = folder / entry["file"]
        if not file.is_file() or file.stat().st_size != entry["bytes"]:
            raise FileError(f"{str(file)!r} is not what {MANIFEST} beside it tells of; prepare the data again: what is whole stays")


def _entries(folder: Path) -> list[dict[str, Any]]:
    try:
        return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"] if (folder / MANIFEST).is_file() else []
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{str(folder / MANIFEST)!r} cannot be read ({error}); remove the folder, and prepare the data again"
        ) from error


def _write(folder: Path, entries: list[dict[str, Any]]) -> None:
    with atomic(folder / MANIFEST) as part:
        part.write_text(json.dumps({"tallies": __version__, "files": entries}, indent=1), encoding="utf-8")


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
