"""What every test, also those in docstrings and documentation, leaves behind is put away."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Pyplot keeps every figure until told otherwise, and warns from the twenty-first on."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
