"""A fit to data that come once: an iterator of batches in place of the data, each of which is handed to `partial_fit`."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import Any

from sklearn.base import clone

from tallies.errors import DataError


def fit_batches(model: Any, batches: Iterator[Any], run: dict[str, Any], *given: Any) -> Any:
    """Fit a model anew to batches: each is X, a tuple such as (X, y), or the arguments of `partial_fit` by name; one that fails
    changes nothing. Classes are those of the first, unless it names them: (X, y, classes). `given` is what else `fit` was told of
    the rows.

    >>> import tallies
    >>> batches = (([[x], [x + 5.0]], ["a", "b"]) for x in (0.0, 1.0))
    >>> tallies.GDA().fit(batches).predict([[0.2], [5.1]]).tolist()
    ['a', 'b']
    """
    name = type(model).__name__
    if not hasattr(type(model), "partial_fit"):
        raise DataError(f"rows that come in batches cannot be added to a {name}; pass all of them at once, or a folder of files")
    if any(part is not None for part in given):
        raise DataError("batches bring what belongs to their rows: yield (X, y), or a dict of the arguments of partial_fit")
    if run.get("checkpoint") is not None or run.get("resume") is not None:
        raise DataError("batches come once, so a fit to them cannot be resumed; keep their rows in files, and fit the folder")
    fresh = clone(model)
    fresh.shard_rows = model.shard_rows
    for batch in batches:
        args = () if isinstance(batch, dict) else batch if isinstance(batch, tuple) else (batch,)
        told = run | (batch if isinstance(batch, dict) else {})
        try:
            signature(fresh.partial_fit).bind(*args, **told)
        except TypeError as error:
            raise DataError(
                f"a batch has not the arguments of partial_fit ({error}); yield X, (X, y), or a dict of them"
            ) from error
        fresh.partial_fit(*args, **told)
        if fresh.stopped_ in ("interrupted", "callback"):
            break
    if not fresh.__sklearn_is_fitted__():
        raise DataError("no batch came; an iterator that has been used up gives none: make it anew")
    model.fitted_ = fresh.fitted_
    return model
