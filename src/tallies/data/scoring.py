"""How a classifier scores rows, as plain JSON for other languages. What stands in the file is told in docs/scoring.md."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from tallies._version import __version__
from tallies.disk import atomic
from tallies.errors import DataError

FORMAT, VERSION = "tallies scoring", 1
WHOLE = 2**53  # beyond it JavaScript, and whoever reads numbers as doubles, takes neighbours for the same


def write(path: str | Path, model: str, classes: np.ndarray, columns: list[dict[str, Any]], **scoring: Any) -> Path:
    """Write columns, classes and what else scores are made of to a file, which ends in .json, atomically."""
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise DataError(f"a scoring is written to .json, got {path.name!r}; choose this ending, or use save for a whole model")
    head = {"format": FORMAT, "version": VERSION, "tallies": __version__, "model": model}
    tree = {**head, "classes": values(classes, "the classes"), "columns": columns, **scoring}
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False)
    with atomic(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def values(found: np.ndarray, what: str) -> list[Any]:
    """Labels or states as JSON has them: texts, numbers and booleans.

    >>> values(np.array([1.0, 2.5]), "the classes"), values(np.array([True, "yes", 3], dtype=object), "the states of 'a'")
    ([1.0, 2.5], [True, 'yes', 3])
    """
    out = found.tolist()
    for value in out:
        if not (isinstance(value, str | bool) or (isinstance(value, int | float) and -WHOLE <= value <= WHOLE)):
            raise DataError(
                f"a scoring is JSON, which has texts, booleans and numbers up to 2^53, but {what} hold {value!r}; "
                "make texts of them before the fit"
            )
    return out


def numbers(array: Any) -> Any:
    """An array as lists, with None where a logarithm is that of 0, for which JSON has no number.

    >>> numbers(np.array([[0.5, -np.inf]]))
    [[0.5, None]]
    """
    if np.ndim(array):
        array = np.asarray(array)
        return array.tolist() if np.isfinite(array).all() else [numbers(part) for part in array]
    return None if array == -inf else float(array)
