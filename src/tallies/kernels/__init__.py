"""Loops that several families share, and how all loops are compiled."""

from typing import Any

# zeros divide as in NumPy; no way in from C, which nobody takes: the first fit waits for the compiler
JIT: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "no_cfunc_wrapper": True}
