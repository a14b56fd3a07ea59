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
from tallies.data.files import TOLD
from tallies.data.lines import tables_of
from tallies.data.parquet import SUFFIXES, files_of
from tallies.disk import atomic
from tallies.errors import DataError, FileError, make_folder
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
    if any(path.suffix.lower() in SUFFIXES for path in paths):
        raise DataError(f"{str(data)!r} is Parquet already: fit it as it is")
    check_free(out)
    before, made = {entry["file"]: entry for entry in manifest(out).get("files", [])}, []
    with tables_of(paths) as tables:
        make_folder(out)
        write(out, [before[name] for name in sorted(before)], whole=False)
        for k, path in enumerate(paths):
            name, about = f"{k:06d}.parquet", path.stat()
            of = {"name": path.name, "bytes": about.st_size, "written": about.st_mtime_ns, "types": tables.types}
            of |= {"read": [*TOLD.get(), tables.decimal, tables.words]}
            known = before.get(name)
            if known is None or known.get("of") != of or not (out / name).is_file() or _sum(out / name) != known["sha256"]:
                with phase(f"preparing {path.name}"), atomic(out / name) as part:
                    rows = tables.write(k, part)
                known = {**entry(out, name), "rows": rows, "of": of}
            made.append(known)
            write(out, [*made, *(before[left] for left in sorted(before) if left > name)], whole=False)
    for left in out.glob("*.parquet"):
        if left.name not in {known["file"] for known in made}:
            left.unlink()
    write(out, made)
    check(out)
    return out


def check_free(out: Path, kind: str = "tables") -> None:
    """Refuse a folder that holds something else than prepared data of a kind, or a part of such."""
    names = {path.name for path in out.iterdir()} if out.is_dir() else {""} if out.exists() else set()
    if MANIFEST not in names and any(not name.startswith(".") for name in names):
        raise DataError(f"{str(out)!r} exists and is no folder of prepared data; choose another")
    if kind_of(out) not in (None, kind):
        raise DataError(f"{str(out)!r} holds prepared {kind_of(out)}; choose another folder for {kind}")


def check(folder: Path) -> None:
    """Refuse a prepared folder that is not finished, has lost or changed a file, or has a table that does not belong there."""
    about, again = manifest(folder), "prepare the data again: what is whole stays"
    if not about.get("whole", True):
        raise FileError(f"{str(folder)!r} is not finished: it was stopped while it was written; {again}")
    entries = about.get("files", [])
    written = (folder / MANIFEST).stat().st_mtime_ns if entries else 0
    for known in entries:
        file = folder / known["file"]
        whole = file.is_file() and file.stat().st_size == known["bytes"]
        if not whole or (file.stat().st_mtime_ns > written and _sum(file) != known["sha256"]):  # to sum all takes as long as a fit
            raise FileError(f"{str(file)!r} is not what {MANIFEST} beside it tells of; {again}")
    strange = sorted({file.name for file in folder.glob("*.parquet")} - {known["file"] for known in entries}) if entries else []
    if strange:
        raise FileError(f"{str(folder / strange[0])!r} is none of the tables that {MANIFEST} beside it tells of; put it elsewhere")


def kind_of(folder: Path) -> str | None:
    """What a folder of prepared data holds: "tables" or "texts"; None where it is none."""
    return manifest(folder).get("kind", "tables") if (folder / MANIFEST).is_file() else None


def manifest(folder: Path) -> dict[str, Any]:
    """What a folder of prepared data tells of itself; nothing where it is none."""
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if all({"file", "bytes", "sha256"} <= set(known) for known in found["files"]):
            return found
        raise KeyError("file")
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{str(path)!r} cannot be read ({error}); remove the folder, and prepare the data again") from error


def entry(folder: Path, name: str) -> dict[str, Any]:
    """What the manifest says of a file."""
    return {"file": name, "bytes": (folder / name).stat().st_size, "sha256": _sum(folder / name)}


def write(folder: Path, entries: list[dict[str, Any]], **about: Any) -> None:
    """Write the manifest."""
    with atomic(folder / MANIFEST) as part:
        part.write_text(json.dumps({"tallies": __version__, **about, "files": entries}, indent=1), encoding="utf-8")


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
