"""The few exceptions of the library. Each message says what was expected, what came, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import Any


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that is not known.

    >>> nearest("n_topic", ["alpha", "n_topics"]), nearest("x", ["alpha", "beta"])
    ("did you mean 'n_topics'?", 'there are alpha, beta')
    """
    names = list(known)
    near = get_close_matches(name, names, 1) or [n for n in names if n.lower() == name.lower()]
    few = ", ".join(names[:20]) + (f" and {len(names) - 20} others" if len(names) > 20 else "")
    return f"did you mean {near[0]!r}?" if near else f"there are {few}"


def one_of(name: str, value: Any, *words: str, more: str = "") -> None:
    """Refuse a setting that is none of these words, and name the nearest of them; `more` says what else it may be.

    >>> one_of("start", "slow", "growing", "random")
    Traceback (most recent call last):
    ...
    ValueError: start must be "growing" or "random", got 'slow'
    """
    if value not in words:
        *others, last = [*(f'"{word}"' for word in words), *([more] if more else [])]
        near = "".join(f"; did you mean {word!r}?" for word in get_close_matches(str(value), words, 1))
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, got {value!r}{near}")


def at_least(least: int, none: bool = False, **settings: Any) -> None:
    """Refuse settings that are no whole numbers from `least` on; `none`: nor None.

    >>> at_least(1, n=3, thin=0)
    Traceback (most recent call last):
    ...
    ValueError: thin must be a whole number of at least 1, got 0
    """
    for name, value in settings.items():
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not (whole and int(value) >= least) and not (none and value is None):
            raise ValueError(f"{name} must be {'None or ' * none}a whole number of at least {least}, got {value!r}")


class TalliesError(Exception):
    """Root of every error that Tallies raises on purpose."""


class DataError(TalliesError, ValueError):
    """The data at the door cannot be used as they are."""


class FileError(TalliesError, ValueError):
    """A file is not what it should be: foreign, truncated, tampered with, or from a newer version."""


class MissingExtra(TalliesError, ImportError):
    """An optional dependency is needed and absent."""

    def __init__(self, package: str, extra: str, purpose: str):
        home = Path(__file__).parents[2]  # of a checkout that is installed as it is, with `pip install -e .`
        what = f"-e '{home}[{extra}]'" if (home / "pyproject.toml").is_file() else f"'tallies[{extra}]'"
        super().__init__(f"{purpose} needs the package {package!r}, which is not installed; run: pip install {what}")


def need(module: str, extra: str, purpose: str, package: str = "") -> Any:
    """An optional dependency, imported; `package` is its name in the index where that differs.

    >>> need("json", "json", "Reading .json").loads("1")
    1
    """
    try:
        import_module(module.partition(".")[0])  # a part of it may have been imported while the whole was there
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(package or module, extra, purpose) from error


def need_file(path: str | Path, what: str) -> Path:
    """The path of a file, which must be there.

    >>> need_file("none.csv", "a table")
    Traceback (most recent call last):
    ...
    FileNotFoundError: expected a table, but there is no file 'none.csv': there is nothing; check the path
    """
    path = Path(path)
    if not path.is_file():
        near = get_close_matches(path.name, sorted(other.name for other in path.parent.glob("*")), 1)
        hint = f"did you mean {str(path.with_name(near[0]))!r}?" if near else "check the path"
        here = "it is a folder; name one file of it" if path.is_dir() else f"there is nothing; {hint}"
        raise FileNotFoundError(f"expected {what}, but there is no file {str(path)!r}: {here}")
    return path


def refuse_folder(path: str | Path, what: str = "what is written") -> None:
    """Refuse a folder where a file is to be written.

    >>> refuse_folder("/")
    Traceback (most recent call last):
    ...
    IsADirectoryError: what is written must be a file to write, but '/' is a folder; add a file name
    """
    if Path(path).is_dir():
        raise IsADirectoryError(f"{what} must be a file to write, but {str(path)!r} is a folder; add a file name")


def make_folder(path: str | Path) -> Path:
    """A folder to write to, made where there is none.

    >>> make_folder("/dev/null/answers")
    Traceback (most recent call last):
    ...
    tallies.errors.DataError: no folder can be made at '/dev/null/answers': Not a directory; choose another place
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"no folder can be made at {str(path)!r}: {error.strerror}; choose another place") from error
    return Path(path)


class ClusterError(TalliesError, RuntimeError):
    """A cluster cannot be used, or was lost."""


class FitError(TalliesError, ArithmeticError):
    """A fit came to numbers that are none: it is not kept."""


class ConvergenceWarning(UserWarning):
    """The fit stopped before its stopping rule was met; the message says why and what to do."""


class DataWarning(UserWarning):
    """The data were usable only after the treatment that the message names."""
