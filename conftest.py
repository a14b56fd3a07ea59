"""What every test, also those in docstrings and documentation, leaves behind is put away; and which worker runs which tests."""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

# files that take more than some twenty seconds, the longest first, so that no worker is left alone with one at the end
LONG = (
    "tests/test_contract.py",
    "tests/html/test_browser.py",
    "tests/test_calibration.py",
    "tests/cli/test_nothing_lost.py",
    "tests/cli/test_every_model.py",
    "tests/categories/test_panels.py",
    "tests/categories/test_network.py",
    "tests/concepts/test_large.py",
    "tests/test_cluster.py",
    "tests/data/test_lazy.py",
    "tests/test_cold.py",
    "tests/topics/test_lda.py",
    "tests/test_phases.py",
    "tests/data/test_broken_files.py",
    "tests/counts/test_backends.py",
    "tests/counts/test_sparse.py",
    "tests/test_sklearn.py",
    "tests/cli/test_cli.py",
    "tests/cli/test_locale.py",
    "tests/counts/test_discriminant.py",
    "tests/cli/test_resume.py",
    "tests/counts/test_derived.py",
    "tests/categories/test_fem.py",
    "tests/counts/test_lasso.py",
)
CLUSTER = "the cluster"  # what all of its tests are run as, before all others


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Pyplot keeps every figure until told otherwise, and warns from the twenty-first on."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def hear_ctrl_c() -> Iterator[None]:
    """Tests may run under nohup or in the background of a shell, where Ctrl-C is ignored: a fit would hear none either."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def together(nodeid: str) -> str:
    """What a worker of pytest-xdist runs as a whole: a file, whose tests share what takes long to make; of the contract a case.

    All tests whose names speak of a cluster or of Dask share one, which takes long to begin and to load every family.
    """
    file, _, name = nodeid.partition("::")
    if file == "tests/test_cluster.py" or re.search("(a|the)_cluster|dask", name.partition("[")[0]):
        return CLUSTER
    if file == "tests/test_contract.py":
        return f"{file}::{name.partition('[')[2]}"
    return "tests/html/test_browser.py" if file == "tests/html/test_page.py" else file  # both look at the gallery


def pytest_collection_modifyitems(items: list[Any]) -> None:
    place = {file: i for i, file in enumerate(LONG)}

    def key(item: Any) -> tuple[bool, int]:
        return together(item.nodeid) != CLUSTER, place.get(item.nodeid.partition("::")[0], len(place))

    items.sort(key=key)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return together(nodeid)

    config.option.loadscopereorder = False  # by number of tests, which says little of how long they take
    return Together(config, log) if config.option.dist == "load" else None
