"""Class labels at the door: any scikit-learn target in, int32 codes out; -1 is a label that is missing."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np

from tallies.errors import DataError


def _column(y: Any, n: int) -> np.ndarray:
    if y is None:
        raise ValueError("a classifier requires y to be passed, but the target y is None; give one label a row")
    y = y.to_numpy() if hasattr(y, "to_numpy") else y
    if not isinstance(y, np.ndarray) or y.ndim != 1 or y.dtype.kind not in "iub":  # such as pieces of files have them
        from sklearn.utils.validation import column_or_1d

        kinds = set(map(type, y)) if isinstance(y, list | tuple) else set()
        if len(kinds) > 1 and any(issubclass(kind, str) for kind in kinds):
            y = np.array(y, dtype=object)  # left alone, NumPy makes the text "nan" of a gap beside texts
        y = column_or_1d(y, warn=True)
    if len(y) != n:
        raise DataError(f"X and y have inconsistent numbers of samples: X has {n} rows, y has {len(y)}; give one label a row")
    return y


def _missing(y: np.ndarray) -> np.ndarray:
    """True where a label is None, NaN or NA."""
    if y.dtype.kind not in "fO":
        return np.zeros(len(y), dtype=bool)
    from pandas import isna

    return isna(y)


def missing_labels(y: np.ndarray, minus_one: bool) -> np.ndarray:
    """True where a label is missing; with `minus_one` also where it is -1 among whole numbers."""
    absent = _missing(y)
    return absent | (y == -1) if minus_one and y.dtype.kind == "i" else absent


def _plain(y: np.ndarray) -> np.ndarray:
    """Labels that came as objects, as beside None, with the type that they have; labels of several types have no order."""
    if y.dtype.kind != "O" or not len(y):
        return y
    kinds = {"text" if isinstance(v, str) else "number" if isinstance(v, Number | np.bool_) else type(v).__name__ for v in y}
    if len(kinds) > 1:
        raise DataError(f"labels must be of one type, but y holds {' and '.join(sorted(kinds))}; make all of them texts")
    return np.array(y.tolist()) if kinds == {"number"} else y


def encode_labels(y: Any, n: int, missing: bool, least: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """The sorted classes, `least` of them, and the code of each row. With `missing`, absent labels (and -1 among whole numbers)
    become -1.

    >>> encode_labels(["b", "a", "b"], 3, missing=False)
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1], dtype=int32))
    >>> encode_labels([0, -1, 2], 3, missing=True)
    (array([0, 2]), array([ 0, -1,  1], dtype=int32))
    """
    y = _column(y, n)
    absent = missing_labels(y, missing)
    if absent.any() and not missing:
        raise DataError(
            f"y has {int(absent.sum())} missing labels (NaN or None); drop these rows, or take GDA or NaiveBayes with "
            "semi_supervised=True (--semi-supervised)"
        )
    present = _plain(y[~absent] if absent.any() else y)
    if len(present) == 0:
        raise DataError(f"y must hold labels, but all {n} are missing; label some rows of every class")
    texts = present.dtype.kind == "O" and isinstance(present[0], str)  # then all are
    if present.dtype.kind in "fO" and not texts:
        from sklearn.utils.multiclass import check_classification_targets

        with np.errstate(invalid="ignore"):  # infinities are no whole numbers, whatever a cast makes of them
            try:
                check_classification_targets(present)
            except ValueError as error:
                raise DataError(
                    f"{str(error).partition('. ')[0]}: y holds numbers such as {present[:1].tolist()[0]!r}, and "
                    "classes were expected, which several rows share; cut the numbers into groups, as pandas.cut "
                    "does, or name another column"
                ) from error
    codes = np.full(n, -1, dtype=np.int32)
    low, high = (int(present.min()), int(present.max())) if present.dtype.kind in "iub" else (0, 2**63)
    if high < 2**63 and high - low <= max(1000, 4 * len(present)):
        # whole numbers in a small range: a table of those present instead of a sort
        seen = np.bincount(present.astype(np.int64) - low) > 0
        classes = (np.flatnonzero(seen) + low).astype(present.dtype)
        codes[~absent] = (np.cumsum(seen) - 1).astype(np.int32)[present.astype(np.int64) - low]
    elif texts:
        from pandas import factorize

        codes[~absent], classes = factorize(present, sort=True)  # no sort of all rows
    else:
        classes, inverse = np.unique(present, return_inverse=True)
        codes[~absent] = inverse
    if len(classes) < least:
        only = classes.tolist()[0]
        raise DataError(f"y must hold at least two classes, but all rows are of one class, {only!r}: nothing to tell apart")
    return classes, codes


def label_codes(y: Any, n: int, classes: np.ndarray, missing: bool = False) -> np.ndarray:
    """The code of each label among known classes; an unknown label is an error. `missing` as in `encode_labels`."""
    y = _column(y, n)
    absent = missing_labels(y, missing)
    if absent.any():
        if not missing:
            raise DataError(f"y has {int(absent.sum())} missing labels (NaN or None), which cannot be judged; drop these rows")
        codes, there = np.full(n, -1, dtype=np.int32), np.flatnonzero(~absent)
        if len(there):
            codes[there] = label_codes(y[there], len(there), classes)
        return codes
    y = _plain(y)
    if (y.dtype.kind in "OUS") != (classes.dtype.kind in "OUS"):
        raise DataError(f"y holds labels such as {y[0]!r}, which are not among the classes {classes[:20].tolist()}; use one type")
    where = np.clip(np.searchsorted(classes, y), 0, len(classes) - 1)
    wrong = classes[where] != y
    if wrong.any():
        raise DataError(f"y holds labels that are not among the classes {classes.tolist()}: {np.unique(y[wrong])[:5].tolist()}")
    return where.astype(np.int32)


def known_codes(y: Any, n: int, classes: np.ndarray) -> np.ndarray:
    """The code of each of n labels among known classes, -1 where it is missing or none of them, and everywhere without labels.

    >>> known_codes(["b", None, "z"], 3, np.array(["a", "b"])).tolist()
    [1, -1, -1]
    """
    from pandas import Index

    y = np.full(n, None) if y is None else np.asarray(y, dtype=object)
    if y.shape != (n,):
        raise DataError(f"y must have one label a row, {n}, but its shape is {y.shape}; pass the labels of the rows in X")
    return Index(classes.astype(object)).get_indexer(Index(y))
