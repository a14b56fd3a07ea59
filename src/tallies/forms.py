"""What a record of a file must be: declared once, beside each field, and checked after reading, before any kernel sees it.

    class Topics(NamedTuple):
        phi: Annotated[np.ndarray, Form("K V", "f", 0, 1)]  # P(word | topic)
        ptr: Annotated[np.ndarray, Form("D+1", "i", ends="n")]  # where the tokens of each document begin
        topic: Annotated[np.ndarray, Form("n", "i", 0, below="K")]  # of each token

A kernel trusts shapes and indices; a file that somebody changed must not be trusted. A name in a form is a length: the same one in
a record and in all records inside it. What is no array is checked against its type; what no form can say, a record says in a method
`check`, which raises ValueError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache, partial
from math import inf, prod
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp

Lengths = Mapping[str, int]
NEVER_NAN = {str, int, bool, type(None)}


class Form(NamedTuple):
    """Of an array, a sparse matrix, or (with an empty shape) a number."""

    # a length a dimension, parted by spaces: a name, a number, sums and products such as "V+1" and "2*q", "..." for any
    shape: str = ""
    kind: str = "f"  # kinds of its items: f floating, i whole, b boolean, U text, O anything that a file can hold
    low: float = -inf  # least item
    high: float = inf  # largest
    below: str = ""  # length that whole items stay below: places in something of that length
    ends: str = ""  # a pointer: begins at 0, never falls, ends at this length
    nan: bool = False  # whether NaN may occur


def length(text: str, known: Lengths) -> int:
    """The value of a length.

    >>> length("V+1", {"V": 7}), length("2*q", {"q": 3})
    (8, 6)
    """
    return sum(prod(int(part) if part.isdigit() else known[part] for part in term.split("*")) for term in text.split("+"))


def check(value: Any, hint: Any, known: Lengths, where: str = "") -> None:
    """Raise ValueError where a value is not what its type says: an array of its form, a record whose fields all are, ..."""
    home, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        for name, record in _records(value, where):
            check(record, type(record), known, name)
    elif home is Annotated:
        if value is None:
            check(value, inner[0], known, where)
        else:
            _check_form(value, get_origin(inner[0]) or inner[0], inner[1], known, where)
    elif home in (Union, UnionType):
        _check_one_of(value, inner, known, where)
    elif home is Literal:
        _need(value in inner, where, f"one of {inner}", value)
    elif isinstance(home, type) and issubclass(home, Mapping):
        _need(isinstance(value, dict), where, "a dict", value)
        for key, item in value.items():
            check(key, inner[0], known, f"a key of {where}")
            check(item, inner[1], known, f"{where}[{key!r}]")
    elif isinstance(home, type) and issubclass(home, Collection) and home is not np.ndarray:
        _need(isinstance(value, home), where, home.__name__, value)
        kinds = inner if home is tuple and inner[1:] != (...,) else inner[:1] * len(value)
        _need(len(kinds) == len(value), where, f"{len(kinds)} items", value)
        for i, (item, kind) in enumerate(zip(value, kinds, strict=True)):
            check(item, kind, known, f"{where}[{i}]")
    elif hasattr(hint, "_fields"):
        _need(type(value) is hint, where, hint.__name__, value)
        _check_record(value, known, where)
    elif isinstance(hint, type) or home is np.ndarray:
        _need(_is(value, home or hint), where, (home or hint).__name__, value)
    else:
        _need(value is None, where, "None", value)


def _check_record(record: Any, known: Lengths, where: str) -> None:
    """The fields of a record: arrays first, whose lengths the rest is measured by."""
    hints, lengths = hints_of(type(record)), dict(known)
    for name, hint in hints.items():
        _bind(getattr(record, name), _forms(hint), lengths, f"{where}.{name}")
    for name, hint in hints.items():
        check(getattr(record, name), hint, lengths, f"{where}.{name}")
    if hasattr(record, "check"):  # what no form can say
        record.check()


hints_of: Any = cache(partial(get_type_hints, include_extras=True))  # the types of the fields of a record, with their forms


def _forms(hint: Any) -> list[Form]:
    """The forms that a field may have by itself, not as an item of a list."""
    if get_origin(hint) is Annotated:
        return [form for form in hint.__metadata__ if isinstance(form, Form)]
    return [form for part in get_args(hint) for form in _forms(part)] if get_origin(hint) in (Union, UnionType) else []


def _bind(value: Any, forms: list[Form], lengths: dict[str, int], where: str) -> None:
    """Learn the lengths that are plain names from an array, where one form alone has as many dimensions."""
    fitting = {form.shape for form in forms if len(form.shape.split()) == len(getattr(value, "shape", ()))}
    if len(fitting) == 1:
        for name, size in zip(fitting.pop().split(), getattr(value, "shape", ()), strict=True):
            if name.isidentifier():
                _need(lengths.setdefault(name, size) == size, where, f"{name} = {lengths[name]}", size)


def _check_form(value: Any, home: type, form: Form, known: Lengths, where: str) -> None:
    names = form.shape.split()
    if not names:
        _need(not isinstance(value, np.ndarray), where, "a number", value)
        value, home = np.asarray(value), np.ndarray
    _need(isinstance(value, home), where, "a sparse matrix" if home is sp.csr_array else "an array", value)
    shape = value.shape
    fits = len(names) == len(shape) and all(n == "..." or length(n, known) == m for n, m in zip(names, shape, strict=True))
    _need(fits, where, f"the shape ({form.shape})", shape)
    kind = "i" if value.dtype.kind == "u" else value.dtype.kind
    _need(kind in form.kind, where, f"items of kind {form.kind}", value.dtype)
    items = value.data if sp.issparse(value) else value
    if kind not in "fib" or not items.size:
        _need(not form.ends or length(form.ends, known) == 0, where, "a pointer", value)
        return
    low, high = items.min(), items.max()
    if np.isnan(low):
        _need(form.nan, where, "no NaN", "some")
        low, high = (np.nanmin(items), np.nanmax(items)) if not np.isnan(items).all() else (0, 0)
    most = min(form.high, length(form.below, known) - 1 if form.below else inf)
    _need(form.low <= low and high <= most, where, f"items from {form.low} to {most}", f"{low} to {high}")
    if form.ends:
        rising = items[0] == 0 and bool((items[1:] >= items[:-1]).all())
        _need(rising and items[-1] == length(form.ends, known), where, f"a pointer that ends at {form.ends}", value)


def _check_one_of(value: Any, kinds: tuple[Any, ...], known: Lengths, where: str) -> None:
    reasons = []
    for kind in kinds:
        try:
            return check(value, kind, known, where)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if hasattr(kind, "_fields") and type(value) is kind:
                raise  # of the right type, and wrong inside: that is the reason to tell
            reasons.append(str(error))
    raise ValueError(reasons[-1])


def undefined(value: Any, hint: Any = Any, where: str = "") -> Iterator[str]:
    """Where in a record a number is NaN or +inf, though no form allows NaN there; log 0 = -inf is a number.

    >>> class Fit(NamedTuple):
    ...     rate: float
    ...     means: np.ndarray
    ...     gaps: Annotated[np.ndarray, Form("n", nan=True)]
    >>> list(undefined(Fit(inf, np.array([1.0, np.nan]), np.array([np.nan]))))
    ['rate', 'means']
    """
    if hasattr(value, "_fields"):
        for name, inner in hints_of(type(value)).items():
            yield from undefined(getattr(value, name), inner, f"{where}.{name}".lstrip("."))
    elif isinstance(value, list | tuple | dict):
        if {get_origin(item) for item in get_args(hint)} == {Literal}:
            return  # words; to look at those of 50,000 columns, one by one, would take longer than their fit ...
        if set(map(type, value.values() if isinstance(value, dict) else value)) <= NEVER_NAN:
            return  # ... as would a look into each of what cannot be NaN
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from undefined(item, hint, f"{where}[{key!r}]")
    else:
        items = value.data if sp.issparse(value) else value
        floating = isinstance(items, float) or getattr(getattr(items, "dtype", None), "kind", "") == "f"
        if floating and not _may_be_nan(hint) and not np.max(items, initial=-inf) < inf:  # that of NaN is NaN
            yield where


def _may_be_nan(hint: Any) -> bool:
    return hint.nan if isinstance(hint, Form) else any(_may_be_nan(part) for part in get_args(hint))


def _is(value: Any, kind: type) -> bool:
    """Whether a value is of a type; whole numbers are numbers, those of NumPy too, and booleans are none."""
    if kind in (int, float):
        numbers: tuple[type, ...] = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
        return isinstance(value, numbers) and not isinstance(value, bool | np.bool_)
    return isinstance(value, (bool, np.bool_) if kind is bool else kind)


def _records(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """The records in what may be anything."""
    if hasattr(value, "_fields"):
        yield where, value
    elif isinstance(value, list | tuple | dict):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _records(item, f"{where}[{key!r}]")


def _need(holds: Any, where: str, wanted: str, got: Any) -> None:
    if not holds:
        shown = f"{type(got).__name__} of {got.dtype} {got.shape}" if isinstance(got, np.ndarray) else f"{got!r:.100}"
        raise ValueError(f"{where.lstrip('.') or 'it'} should be {wanted}, and is {shown}")
