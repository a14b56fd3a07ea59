"""The few exceptions of the library. Each message says what was expected, what came, and what to do."""

from __future__ import annotations


class TalliesError(Exception):
    """Root of every error that Tallies raises on purpose."""


class DataError(TalliesError, ValueError):
    """The data at the door cannot be used as they are."""


class FileError(TalliesError, ValueError):
    """A file is not what it should be: foreign, truncated, tampered with, or from a newer version."""


class MissingExtra(TalliesError, ImportError):
    """An optional dependency is needed and absent."""

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs the package {package!r}, which is not installed; run: pip install 'tallies[{extra}]'")


class ConvergenceWarning(UserWarning):
    """The fit stopped before its stopping rule was met; the message says why and what to do."""


class DataWarning(UserWarning):
    """The data were usable only after the treatment that the message names."""
