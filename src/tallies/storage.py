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

from tallies._version import __version__
from tallies.disk import atomic
from tallies.errors import FileError

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
    arrays: list[np.ndarray] = []
    head = {"tallies": __version__, "format": FORMAT, "kind": kind, "owner": owner}
    body = json.dumps({**head, "tree": _pack(tree, arrays)})
    with atomic(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("tree.json"), body)  # no date: the same model is the same file
        for i, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(f"{i}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def read(path: str | Path, kind: str, types: Callable[[str], Iterable[type]]) -> dict[str, Any]:
    """Read what `write` wrote. `types(owner)` are the named tuples that may occur; anything else in the file is an error."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"expected a file saved by Tallies at {str(path)!r}, but there is {'a folder' if path.is_dir() else 'nothing'}"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError("it has compressed entries")
            head = json.loads(archive.read("tree.json"))
            if head["format"] > FORMAT:
                raise FileError(
                    f"{path} was written by Tallies {head['tallies']} in a newer format; update: pip install -U tallies"
                )
            if head["format"] < FORMAT:
                raise FileError(
                    f"{path} was written by Tallies {head['tallies']}, whose files have another shape; refit with this version"
                )
            if head["kind"] != kind:
                raise FileError(f"expected a {kind} file, got a {head['kind']} file: {path}")
            allowed = {t.__name__: t for t in types(head["owner"])}
            tree = _unpack(head["tree"], lambda i: _array(archive, i), allowed)
    except FileError:
        raise
    except Exception as error:  # whatever a broken or hostile file provokes in the readers ends as one clear sentence
        raise FileError(
            f"expected a {kind} file written by Tallies, but {path} is foreign, truncated or damaged ({error})"
        ) from error
    return tree


def _array(archive: zipfile.ZipFile, i: int) -> np.ndarray:
    # read whole first: the zip reader then checks the sum of every byte before numpy sees one
    return np.lib.format.read_array(io.BytesIO(archive.read(f"{int(i)}.npy")), allow_pickle=False)


def _pack(value: Any, arrays: list[np.ndarray]) -> Any:
    """JSON for `value`; arrays go to `arrays` and are named by their number. Tagged values are one-key dicts with a '$'."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.bool_ | np.integer | np.floating | np.str_):
        return {"$scalar": [value.dtype.name if not isinstance(value, np.str_) else "str", _pack(value.item(), arrays)]}
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"$float": str(value)}
    if isinstance(value, np.ndarray):
        if value.dtype == object:  # labels and names: strings, numbers, None
            return {"$objects": [_pack(item, arrays) for item in value.tolist()]}
        arrays.append(value)
        return {"$array": len(arrays) - 1}
    if sp.issparse(value):
        m = sp.csr_array(value)
        return {"$csr": [list(m.shape), *(_pack(part, arrays) for part in (m.data, m.indices, m.indptr))]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = dict(zip(value._fields, value, strict=True))
        return {"$named": [type(value).__name__, {k: _pack(v, arrays) for k, v in fields.items()}]}
    if isinstance(value, tuple):
        return {"$tuple": [_pack(item, arrays) for item in value]}
    if isinstance(value, list):
        return [_pack(item, arrays) for item in value]
    if isinstance(value, dict):  # as pairs: keys may be numbers, and may begin with '$'
        return {"$dict": [[_pack(k, arrays), _pack(v, arrays)] for k, v in value.items()]}
    raise TypeError(f"cannot save a {type(value).__name__} without pickle; give numbers, strings, arrays, lists, dicts or None")


def _unpack(value: Any, array: Any, types: Mapping[str, type]) -> Any:
    if isinstance(value, list):
        return [_unpack(item, array, types) for item in value]
    if not isinstance(value, dict):
        return value
    ((tag, body),) = value.items()
    if tag == "$dict":
        return {_unpack(k, array, types): _unpack(v, array, types) for k, v in body}
    if tag == "$array":
        return array(body)
    if tag == "$objects":
        items = [_unpack(item, array, types) for item in body]
        out = np.empty(len(items), dtype=object)
        out[:] = items
        return out
    if tag == "$scalar":
        name, item = body
        item = _unpack(item, array, types)
        return np.str_(item) if name == "str" else np.dtype(name).type(item)
    if tag == "$float":
        return float(body)
    if tag == "$tuple":
        return tuple(_unpack(item, array, types) for item in body)
    if tag == "$csr":
        shape, *parts = body
        data, indices, indptr = (_unpack(part, array, types) for part in parts)
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(shape))
        matrix.check_format(full_check=True)  # indices out of range would read foreign memory in a kernel
        return matrix
    if tag == "$named":
        name, fields = body
        if name not in types:
            raise ValueError(f"unknown record {name!r}")
        return types[name](**{k: _unpack(v, array, types) for k, v in fields.items()})
    raise ValueError(f"unknown tag {tag!r}")
