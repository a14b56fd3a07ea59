"""Odd but plausible data and settings for every estimator: `python tests/fuzzing.py --cases 10000`, and a sample in `test_fuzz.py`.

A case fits one estimator to one odd table with odd settings, and asks everything of what was fitted. It may be refused in words of
ours or of scikit-learn's validation. It may not end in another error, a warning of NumPy, or NaN or infinity without a warning of
ours, nor take longer than 20 seconds of the processor.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import linecache
import os
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import sklearn
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import tallies
from odd.cases import CASES, Case
from odd.questions import ASKS, SAME, ask_classifier, ask_undetermined, stored
from tallies.errors import ConvergenceWarning, DataWarning, TalliesError

SECONDS = 20
HOME, CHECKS = (str(Path(module.__file__).parent) + os.sep for module in (tallies, sklearn))


def refused(error: BaseException) -> bool:
    """Whether an error is one of ours, or of scikit-learn's validation: raised on purpose, in words."""
    if isinstance(error, TalliesError):
        return len(str(error)) > 20
    if not isinstance(error, ValueError | TypeError | FileNotFoundError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    if any(frame.filename.startswith(os.path.join(CHECKS, "utils")) for frame in frames):
        return True
    ours = last.filename.startswith(HOME)
    return ours and linecache.getline(last.filename, last.lineno or 0).lstrip().startswith("raise") and len(str(error)) > 20


def numbers(value: Any) -> Iterator[np.ndarray]:
    """All numbers of an answer, as arrays of floats."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, pd.DataFrame):
        value = [value[column] for column in value] if value.columns.is_unique else [value.to_numpy()]
    if sp.issparse(value):
        value = value.data
    if isinstance(value, list | tuple):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, float | np.ndarray | np.number | pd.Series):
        array = np.asarray(value)
        if array.dtype.kind in "fc":
            yield array


def wrong_numbers(name: str, value: Any) -> str:
    """What numbers of an answer are none; of what a model holds for impossible, a log probability may be -inf, and log odds as
    `explain` tells them infinite."""
    for array in numbers(value):
        if np.isnan(array).any():
            return "NaN"
        bad = np.isposinf(array) if "log" in name else np.isinf(array) & ("explain" not in name)
        if bad.any():
            return "infinity"
    return ""


def same(one: Any, two: Any) -> bool:
    """Whether two answers have the same bits."""
    ours, theirs = list(numbers(one)), list(numbers(two))
    return len(ours) == len(theirs) and all(map(partial(np.array_equal, equal_nan=True), ours, theirs))


def told_of(warned: list[Any]) -> bool:
    """Whether a warning of ours is among them."""
    return any(issubclass(w.category, DataWarning | ConvergenceWarning) for w in warned)


@contextlib.contextmanager
def watched() -> Iterator[list[Any]]:
    """Warnings of users are kept, all others are errors."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("error")
        warnings.simplefilter("always", UserWarning)
        yield found


def where(error: BaseException) -> str:
    """An error with the last line of ours that it came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(HOME)]
    place = f"{frames[-1].filename.removeprefix(HOME)}:{frames[-1].lineno}" if frames else "outside"
    return f"{type(error).__name__} at {place}: {str(error)[:150]}"


def answer(what: str, call: Callable[[], Any], found: list[str]) -> tuple[Any, list[Any]]:
    """What a call gives, and its warnings; what is wrong with it is added to what was found."""
    with watched() as warned:
        try:
            return call(), warned
        except Exception as error:
            if not refused(error):
                found.append(f"{what}: {where(error)}")
    return None, warned


def faults(case: Case) -> list[str]:
    """All that is wrong with a case, in words; nothing where all is well."""
    for _ in range(2):  # what is slow may have been compiling, once
        found: list[str] = []
        start = time.process_time()  # what else the machine does must not count
        ask_all(case, found)
        if time.process_time() - start <= SECONDS:
            return found
    return [*found, f"longer than {SECONDS} s"]


def ask_all(case: Case, found: list[str]) -> None:
    """Fit, and ask everything."""

    def made(data: dict[str, Any]) -> dict[str, Any] | None:
        made_all = lambda: {name: value() if isinstance(value, partial) else value for name, value in data.items()}  # noqa: E731
        return answer("data", made_all, found)[0]

    fit, new = made(case.fit), made(case.new)
    if fit is None:
        return
    if new is None:
        new = {"sentences": ["cell"], "authors": None} if case.model == "AuthorConcept" else {name: fit[name] for name in case.new}
    case = case._replace(fit=fit, new=new)
    model, warned = answer("fit", lambda: getattr(tallies, case.model)(**case.options).fit(**fit), found)
    if model is None:
        return
    asks = ASKS.get(case.model, ask_classifier)(model, case)
    told = told_of(warned)
    for name, ask in asks.items():
        value, more = answer(name, ask, found)
        wrong = wrong_numbers(name, value)
        if wrong and not told and not told_of(more):
            found.append(f"{name}: {wrong} without a word")
    if case.model == "PLN":
        for name, ask in ask_undetermined(model, case).items():
            answer(name, ask, found)
    text, _ = answer("summary", model.summary, found)
    if text is not None and not told and "nan" in text.replace(",", " ").split():
        found.append("summary: NaN in its text")
    twin, _ = answer("save and load", lambda: stored(model), found)
    if twin is not None:
        name = SAME.get(case.model, "predict_proba")
        first, *rest = new.items()
        one, two = (answer("loaded", partial(getattr(m, name), first[1], **dict(rest)), found)[0] for m in (model, twin))
        if not same(one, two):
            found.append("a loaded model answers otherwise")


def profile(cases: int) -> settings:
    """How hypothesis draws: the same cases every time, as many as asked, and none again to make it smaller."""
    checks = list(HealthCheck)
    return settings(
        max_examples=cases, phases=[Phase.generate], deadline=None, derandomize=True, database=None, suppress_health_check=checks
    )


class Found:
    """What came of the cases of an estimator."""

    def __init__(self, show: bool):
        self.n, self.slowest, self.show = 0, 0.0, show
        self.counted: Counter[str] = Counter()
        self.first: dict[str, tuple[str, Case]] = {}

    def run(self, case: Case) -> None:
        """One case more."""
        if self.show:
            print(self.n, case, file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(20 * SECONDS, exit=True)  # where it hangs
        self.n, start = self.n + 1, time.monotonic()
        for fault in faults(case):
            kind = re.search(r"\w+ at [\w./]+:\d+", fault)
            name = kind[0] if kind else fault
            self.counted[name] += 1
            self.first.setdefault(name, (fault, case))
        faulthandler.cancel_dump_traceback_later()
        self.slowest = max(self.slowest, time.monotonic() - start)

    def run_all(self, strategy: st.SearchStrategy[Case], cases: int, number: int) -> None:
        """As many cases, from this seed on."""

        @seed(number)
        @profile(cases)
        @given(strategy)
        def run(case: Case) -> None:
            self.run(case)

        run()


def campaign(cases: int, number: int, models: list[str], show: bool) -> int:
    """Many cases of some estimators; prints every kind of fault once, with the first case of it, and gives how many kinds."""
    kinds = 0
    for name in models:
        start, found = time.monotonic(), Found(show)
        found.run_all(CASES[name], -(-cases // len(models)), number)
        took = f"{time.monotonic() - start:.0f} s, slowest {found.slowest:.1f} s"
        print(f"{name}: {found.n} cases, {len(found.counted)} kinds of faults, {took}", flush=True)
        for kind, times in found.counted.most_common():
            told, case = found.first[kind]
            print(f"  {times} x {kind}\n{told}\n{case}".replace("\n", "\n      "), flush=True)
        kinds += len(found.counted)
    return kinds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000, help="of all estimators together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--show", action="store_true", help="print every case before it is run")
    given_options = parser.parse_args()
    faulthandler.enable()
    sys.exit(campaign(given_options.cases, given_options.seed, given_options.models, given_options.show) > 0)
