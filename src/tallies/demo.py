"""A gallery of reports on data that need no download: what `tallies demo` writes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Exhibit(NamedTuple):
    """A report of the gallery: how it is made, from fitting to the page."""

    file: str
    heading: str
    make: Callable[[], Any]  # -> Page


def exhibits() -> list[Exhibit]:
    """What the gallery shows; a new family adds its lines here."""
    from tallies import GDA, NaiveBayes

    return [
        Exhibit("wine.html", "Wines by their chemistry", lambda: _classifier(GDA(), "wine", "Wines by their chemistry")),
        Exhibit("birds.html", "Birds from a table with gaps", _birds),
        Exhibit("digits.html", "Handwritten digits", lambda: _classifier(GDA(shrinkage="auto"), "digits", "Handwritten digits")),
        Exhibit(
            "breast-cancer.html",
            "Tumours: when to doubt a classifier",
            lambda: _classifier(NaiveBayes(), "breast-cancer", "Tumours: when to doubt a classifier", _DOUBT),
        ),
    ]


_DOUBT = (
    "The thirty columns say much the same, and naive Bayes takes each for news of its own: it is often right, and far too sure. "
    "The page shows it."
)


def run(out: Path) -> Path:
    """Fit the models, write their reports and the page that leads to them into the folder `out`; returns the page."""
    from tallies.report.page import Page

    start, out = time.perf_counter(), Path(out)
    shown = exhibits()
    gallery = Page("What the data say", "", "gallery")
    for number, (file, heading, make) in enumerate(shown, 1):
        _say(f"[{number}/{len(shown)}] {heading} ... ", end="")
        begun = time.perf_counter()
        page = make()
        page.write(out / file)
        gallery.card(heading, file, page)
        _say(f"{time.perf_counter() - begun:.1f} s")
    gallery.lead = (
        f"{len(shown)} models, fitted on this machine in {time.perf_counter() - start:.0f} s on data that came "
        "with the software. Each page says what was found, how good it is, whether to believe it, and how to get it again."
    )
    index = gallery.write(out / "index.html")
    _say(f"The gallery is at {index.resolve()}: open it in a browser.")
    return index


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


def _halves(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to judge by, two to one, with the same share of every class."""
    from sklearn.model_selection import train_test_split

    fit, judge = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=0, stratify=y)
    return np.sort(fit), np.sort(judge)


def _classifier(model: Any, name: str, title: str, note: str = "") -> Any:
    from tallies.datasets import load
    from tallies.report import build

    data = load(name)
    fit, judge = _halves(data.y)
    model.fit(data.X.iloc[fit], data.y[fit])
    rows, labels = data.X.iloc[judge], data.y[judge]
    return build(model, rows, labels, title=title, data_name=data.about, held_out=True, note=note, command="tallies demo")


def _birds() -> Any:
    from tallies import NaiveBayes
    from tallies.datasets import birds

    data = birds()
    _, judge = _halves(data.y)
    assert data.truth is not None
    best = data.truth["classes"][data.truth["posterior"].argmax(axis=1)]
    share = float(np.mean(best[judge] == data.y[judge]))
    missing = float(np.mean(data.X.isna().to_numpy()))
    note = (
        f"{missing:.0%} of the cells are missing and are summed out, neither dropped nor filled in. The birds were made up, so the "
        f"best possible answers are known: a judge who knows the truth is right for {share:.1%} of the same rows."
    )
    return _classifier(NaiveBayes(families={"eggs": "poisson"}), "birds", "Birds from a table with gaps", note)


if __name__ == "__main__":
    run(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
