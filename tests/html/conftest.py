"""One browser and one gallery for all tests of pages."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest


class Gallery(NamedTuple):
    """What `tallies demo` writes."""

    index: Path
    out: str
    err: str


@pytest.fixture(scope="session")
def gallery(tmp_path_factory) -> Gallery:
    from tallies import demo

    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        index = demo.run(tmp_path_factory.mktemp("gallery") / "demo")
    return Gallery(index, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    from browsing import Browser

    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.driver.quit()
