"""A gallery of reports on data that need no download: what `tallies demo` writes. Each room has its part in `demo.EXHIBITS`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tallies.html import Page, build
from tallies.registry import rooms


class Exhibit(NamedTuple):
    """A report of the gallery."""

    file: str
    heading: str
    make: Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]]  # -> the fitted model, data and options of its report


def exhibits() -> list[Exhibit]:
    """What the gallery shows."""
    return [exhibit for room in rooms("demo") for exhibit in room.EXHIBITS]


def run(out: Path, quiet: bool = False) -> Path:
    """Fit the models, write their reports and the page that leads to them into the folder `out`; returns the page."""
    start, out = time.perf_counter(), Path(out)
    shown = exhibits()
    gallery = Page("What the data say", "", "gallery")
    for number, (file, heading, make) in enumerate(shown, 1):
        _say(f"[{number}/{len(shown)}] {heading} ... ", quiet, end="")
        begun = time.perf_counter()
        model, data, options = make()
        page = build(model, *data, title=heading, command="tallies demo", **options)
        page.write(out / file)
        gallery.card(heading, file, page)
        _say(f"{time.perf_counter() - begun:.1f} s", quiet)
    gallery.lead = (
        f"{len(shown)} models, fitted on this machine in {time.perf_counter() - start:.0f} s on data that came "
        "with the software. Each page says what was found, how good it is, whether to believe it, and how to get it again."
    )
    index = gallery.write(out / "index.html")
    _say(f"Wrote the gallery. Next: open {index.resolve()} in a browser.", quiet)
    return index


def _say(text: str, quiet: bool, end: str = "\n") -> None:
    if not quiet:
        print(text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
