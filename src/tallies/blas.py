"""Products of matrices on one thread: the same bits everywhere."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np


def one_blas_thread() -> Any:
    """Inside the block every product of matrices keeps to one thread: the same bits everywhere, and none in the way of ours."""
    found = _blas()
    # a sweep inside a fit: asking takes a tenth of the time that setting a limit and taking it back would
    return nullcontext() if all(library.num_threads == 1 for library in found.lib_controllers) else found.limit(limits=1)


@cache
def _blas() -> Any:
    """Looking the BLAS libraries up takes a millisecond, setting their limit microseconds: look once."""
    import scipy.linalg  # noqa: F401  so that its BLAS is among the libraries found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def aligned(value: Any) -> Any:
    """The arrays of nested tuples at addresses that fit their items.

    Off the wire they may begin anywhere; then NumPy multiplies matrices without BLAS, which rounds otherwise.
    """
    if isinstance(value, np.ndarray):
        return value if value.flags.aligned else value.copy(order="K")
    if isinstance(value, tuple):
        items = [aligned(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value
