"""Fixtures that several test files share."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from subprocess import Popen
from typing import Any

import pytest

from running import command


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two Dask worker processes on this machine."""
    pytest.importorskip("distributed", reason="needs tallies[dask]")
    import losing

    with losing.cluster() as client:  # models defined in test files are importable there
        yield client


@pytest.fixture
def run(capsys: Any, monkeypatch: Any) -> Any:
    """Call the command in this process: (exit code, stdout, stderr)."""

    from tallies.cli.main import main

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tallies", *arguments])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of other packages, which Python shows to nobody but testers
            try:
                main()
                code = 0
            except SystemExit as stop:
                code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def start() -> Iterator[Callable[..., Popen]]:
    """Begin the command in a process of its own; what a failed test leaves of it is killed."""
    children: list[Popen] = []

    def call(*words: str) -> Popen:
        children.append(command(*words))
        return children[-1]

    yield call
    for child in children:
        child.kill()
        child.wait()
