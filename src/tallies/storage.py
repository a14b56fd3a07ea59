"""Saving and loading without pickle: one zip file of plain .npy arrays and a `tree.json` that says where each belongs.

Reading such a file runs no code: arrays are read with pickling forbidden, entries must be stored uncompressed (so a file
is never larger in memory than on disk), and named tuples are rebuilt only from the types the caller allows.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tallies import forms
from tallies._version import __version__
from tallies.disk import atomic
from tallies.errors import FileError, need_file

PIECE = 1 << 20  # bytes: of writes of many megabytes each the system makes a third of the speed
FORMAT = 2  # raised when files change shape; 1: before fits were plans of stages


def plain(value: Any, number: Callable[[float], float] = float) -> Any:
    """Dicts, lists, strings, numbers, booleans and None out of whatever models and tables hold; what JSON has no word for, such as
    NaN, is None.

    >>> plain({"x": np.array([0.5, np.nan]), 1: (np.int64(2), Path("a"))})
    {'x': [0.5, None], '1': [2, 'a']}
    """
    if isinstance(value, float):
        return number(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return {str(k): plain(v, number) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, number) for v in value]
    return plain(value.tolist(), number) if hasattr(value, "tolist") else str(value)


def write(path: str | Path, kind: str, owner: str, tree: Mapping[str, Any]) -> None:
    """Write a tree of dicts, lists, named tuples, arrays, sparse matrices, strings and numbers, atomically.

    `kind` is "model", "checkpoint" or "stage"; `owner` is the class that it belongs to.
    """
    packed, arrays = pack(tree, _refuse)
    head = {"tallies": __version__, "format": FORMAT, "kind": kind, "owner": owner}
    body = json.dumps({**head, "tree": packed})
    with atomic(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("tree.json"), body)  # no date: the same model is the same file
        for i, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(f"{i}.npy"), "w", force_zip64=True) as entry:
                _write_array(entry, array)


def _write_array(file: Any, array: np.ndarray) -> None:
    """What `np.save` writes, without the copies that it makes of every piece on its way into an archive."""
    if array.dtype.kind not in "biufc" or not array.size:
        np.lib.format.write_array(file, array, allow_pickle=False)
        return
    head = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(file, head)
    body = np.ascontiguousarray(array.T if head["fortran_order"] else array).data.cast("B")
    for start in range(0, len(body), PIECE):
        file.write(body[start : start + PIECE])


def read(path: str | Path, kind: str, types: Callable[[str], Iterable[type]]) -> dict[str, Any]:
    """Read what `write` wrote. `types(owner)` are the named tuples that may occur; anything else in the file is an error."""
    path = need_file(path, "a file saved by Tallies")
    try:
        with zipfile.ZipFile(path) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError("it has compressed entries")
            body = archive.read("tree.json")
            head = json.loads(body)
            if head["format"] != FORMAT:
                older = ", whose files have another shape; refit with this version"
                told = " in a newer format; update: pip install -U tallies" if head["format"] > FORMAT else older
                raise FileError(f"{path} was written by Tallies {head['tallies']}{told}")
            if head["kind"] != kind:
                raise FileError(f"expected a {kind} file, got a {head['kind']} file: {path}")
            allowed = {t.__name__: t for t in types(head["owner"])}
            tree = json.loads(body, object_hook=_unpacker(archive, allowed))["tree"]
            forms.check(tree, Any, {})
    except FileError:
        raise
    except Exception as error:  # whatever a broken or hostile file provokes in the readers ends as one clear sentence
        raise FileError(
            f"expected a {kind} file written by Tallies, but {path} is foreign, truncated or damaged ({error})"
        ) from error
    return tree


def _refuse(value: Any) -> Any:
    raise TypeError(f"cannot save a {type(value).__name__} without pickle; give numbers, strings, arrays, lists, dicts or None")


def pack(tree: Any, other: Callable[[Any], Any]) -> tuple[Any, list[np.ndarray]]:
    """JSON for a tree, and its arrays, which are named there by their number; `other` says what stands for anything else.

    Tagged values are one-key dicts with a '$'.
    """
    arrays: list[np.ndarray] = []

    def packed(value: Any) -> Any:
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, np.generic):  # before float, which np.float64 is, too
            return {"$scalar": [value.dtype.name, packed(value.item())]}
        if isinstance(value, float):
            return value if np.isfinite(value) else {"$float": str(value)}
        if isinstance(value, np.ndarray):
            if value.dtype == object:  # labels and names: strings, numbers, None
                return {"$objects": packed(value.tolist())}
            arrays.append(value)
            return {"$array": len(arrays) - 1}
        if sp.issparse(value):
            m = sp.csr_array(value)
            return {"$csr": packed([list(m.shape), m.data, m.indices, m.indptr])}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"$named": [type(value).__name__, {k: packed(v) for k, v in zip(value._fields, value, strict=True)}]}
        if isinstance(value, tuple):
            return {"$tuple": packed(list(value))}
        if isinstance(value, list):
            return [packed(item) for item in value]
        if isinstance(value, dict):  # as pairs: keys may be numbers, and may begin with '$'
            return {"$dict": [[packed(k), packed(v)] for k, v in value.items()]}
        return other(value)

    return packed(tree), arrays


def _read_array(body: bytes) -> np.ndarray:
    """An array from an .npy entry, whose header must tell of just the bytes that follow it."""
    entry = io.BytesIO(body)
    version = np.lib.format.read_magic(entry)
    if version > (2, 0):
        raise ValueError(f"an array of .npy version {version}")
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(entry)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(body) - entry.tell():
        raise ValueError(f"an array of {dtype} {shape} in {len(body)} bytes")
    return np.lib.format.read_array(io.BytesIO(body), allow_pickle=False)


def _unpacker(archive: zipfile.ZipFile, types: Mapping[str, type]) -> Callable[[dict[str, Any]], Any]:
    """What makes of each object of the JSON, the innermost first, the value that `pack` was given."""

    seen: set[int] = set()

    def array(i: int) -> np.ndarray:
        if i in seen:  # a small file must not become large
            raise ValueError(f"array {i} stands in two places")
        seen.add(i)
        # read whole first: the zip reader then checks the sum of every byte before numpy sees one
        return _read_array(archive.read(f"{int(i)}.npy"))

    def csr(body: list[Any]) -> sp.csr_array:
        shape, *parts = body
        matrix = sp.csr_array(tuple(parts), shape=tuple(shape))
        matrix.check_format(full_check=True)  # indices out of range would read foreign memory in a kernel
        if (matrix.indptr[1:] < matrix.indptr[:-1]).any():  # which scipy passes over where the last of them is 0
            raise ValueError("the rows of a sparse matrix overlap")
        return matrix

    def named(body: list[Any]) -> Any:
        name, fields = body
        if name not in types:
            raise ValueError(f"unknown record {name!r}")
        return types[name](**fields)

    values: dict[str, Callable[[Any], Any]] = {
        "$dict": dict,
        "$tuple": tuple,
        "$float": float,
        "$scalar": lambda body: np.dtype(body[0]).type(body[1]),
        "$objects": lambda items: np.fromiter(items, dtype=object, count=len(items)),
        "$array": array,
        "$csr": csr,
        "$named": named,
    }

    def unpacked(found: dict[str, Any]) -> Any:
        if not any(key.startswith("$") for key in found):  # the fields of a record, or the whole
            return found
        ((tag, body),) = found.items()
        if tag not in values:
            raise ValueError(f"unknown tag {tag!r}")
        return values[tag](body)

    return unpacked
