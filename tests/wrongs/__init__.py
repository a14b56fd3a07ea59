"""Small wrongs, a file a room: what `tests/mutants.py` puts into a copy of the package, one at a time, for the tests to notice."""

from typing import NamedTuple


class Wrong(NamedTuple):
    """A change that makes a number wrong."""

    file: str  # below src/tallies
    old: str  # stands there exactly once
    new: str
    why: str  # it is wrong; of an equivalent change, why no test can tell
    tests: tuple[str, ...] = ()  # test files that run first, where they are known to notice; then those of the room
    equivalent: bool = False  # known to change no number: listed apart, and not expected to be noticed
