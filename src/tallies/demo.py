"""A gallery of reports on data that need no download: what `tallies demo` writes. Each room has its part in `demo.EXHIBITS`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tallies.html import Page, build
from tallies.phases import clear, phase
from tallies.registry import rooms


class Exhibit(NamedTuple):
    """A report of the gallery."""

    file: str
    heading: str
    make: Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]]  # -> the fitted model, data and options of its report


def run(out: Path, quiet: bool = False) -> Path:
    """Fit the models, write their reports and the page that leads to them into the folder `out`; returns the page."""
    start, out = time.perf_counter(), Path(out)
    shown = [exhibit for room in rooms("demo") for exhibit in room.EXHIBITS]
    say: Callable[..., None] = (lambda *text, **more: None) if quiet else partial(print, file=sys.stderr, flush=True)
    gallery = Page("What the data say", "", "gallery")
    for number, (file, heading, make) in enumerate(shown, 1):
        begun, told = time.perf_counter(), f"[{number}/{len(shown)}] {heading}"
        with phase(told, show=not quiet):
            model, data, options = make()
            page = build(model, *data, title=heading, command="tallies demo", **options)
            page.write(out / file)
        gallery.card(heading, file, page)
        clear()
        say(f"{told} ... {time.perf_counter() - begun:.1f} s")
    gallery.lead = (
        f"{len(shown)} models, fitted on this machine in {time.perf_counter() - start:.0f} s on data that came "
        "with the software. Each page says what was found, how good it is, whether to believe it, and how to get it again."
    )
    index = gallery.write(out / "index.html")
    say(f"Wrote the gallery. Next: open {index.resolve()} in a browser.")
    return index
