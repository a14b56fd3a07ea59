"""What every report says, whatever the model: how the fit went, what was fitted on what, how to get it again."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from tallies._version import __version__
from tallies.html import charts
from tallies.html.page import Page, Section, show


class About(NamedTuple):
    """What the caller knows and the model does not."""

    title: str = ""
    data_name: str = ""
    held_out: bool | None = None  # whether the rows given to the report were unseen in the fit; None: not known
    command: str = ""
    note: str = ""

    def whose(self, unseen: str, fitted: str, given: str) -> str:
        """The words for the rows of the report that are true of them."""
        return {True: unseen, False: fitted, None: given}[self.held_out]

    @property
    def rows(self) -> str:
        return self.whose("it had not seen", "it was fitted to", "given to this report")


def cautions(model: Any) -> list[str]:
    """What to know of any fit before trusting it, as sentences."""
    found = [text[:1].upper() + text[1:] + "." * (not text.endswith(".")) for text in model._caveats()]
    if not model.converged_:
        found.append(f"The fit stopped after {plural(model.n_iter_, 'sweep')} before it had settled: raise max_iter.")
    return found


def converged(page: Page, model: Any) -> Section:
    """How the fit went: in words, and as a curve where there was more than one sweep."""
    section = page.section("convergence", "Did the fit settle?")
    history = np.asarray(model.history_, dtype=float)
    if model.n_iter_ <= 1:
        section.text(
            "One pass over the data gives the exact maximum of the likelihood: there is nothing that could fail to converge."
        )
    elif model.converged_:
        section.text(f"Yes: the objective stopped changing after {model.n_iter_:,} sweeps over the data.")
    else:
        section.text(f"The fit was stopped after {model.n_iter_:,} sweeps, before its stopping rule was met; see the curve.")
    if len(history) > 1:
        unit = "sweep" if len(history) == model.n_iter_ else "step"  # a step may take several sweeps
        when = np.arange(1, len(history) + 1)
        some = np.unique(np.linspace(0, len(history) - 1, 600).astype(int))  # no screen shows more
        last = float(f"{abs(history[-1] - history[-2]):.2g}")
        section.charts(
            charts.lines(
                f"Objective after each {unit}",
                charts.axis(unit, whole=True),
                charts.axis(f"{model._measure()} (nats)"),
                [{"name": "", "x": when[some], "y": history[some]}],
                [unit, "objective"],
                [[int(when[i]), history[i]] for i in some],
                caption=f"From {show(history[0])} to {show(history[-1])}; the last step was {show(last)}.",
                wide=True,
            )
        )
    return section


def fitted(page: Page, model: Any, about: About, facts: Sequence[tuple[str, Any]]) -> Section:
    """What was fitted on what: enough to do it again."""
    usual = {field.name: field.default for field in dataclasses.fields(model)}
    given = {k: v for k, v in model.get_params(deep=False).items() if repr(v) != repr(usual[k])}
    rows = [
        ("Model", type(model).__name__),
        ("Data", about.data_name),
        *facts,
        *((f"Option {name}", _short(value)) for name, value in given.items()),
        ("Other options" if given else "Options", "as they are by default"),
        ("Sweeps", int(model.n_iter_)),
        ("Seed", str(model.seed_) if hasattr(model, "random_state") and hasattr(model, "seed_") else None),
        ("Software", f"Tallies {__version__}, Python {platform.python_version()}, NumPy {np.__version__}"),
        ("Report written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("Command", about.command),
    ]
    return page.section("fitted", "What was fitted on what").facts(rows)


def use(page: Page, code: str, command: str = "") -> Section:
    """How to use the model: code, and the same from a shell."""
    section = page.section("use", "How to use it").text("From Python:").code(code)
    return section.text("From a shell:").code(command) if command else section


def plain_page(model: Any, about: About) -> Page:
    """The report of a model that has no page of its own."""
    name = type(model).__name__
    page = Page(about.title or name, " ".join(model.summary().splitlines()[1:]))
    page.note = about.note
    page.warnings += cautions(model)
    converged(page, model)
    fitted(page, model, about, [])
    use(
        page,
        'import tallies\n\nmodel = tallies.load("model.tallies")  # written by model.save("model.tallies")\nprint(model.summary())',
    )
    return page


def _short(value: Any) -> str:
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    return text if len(text) <= 300 else text[:299] + "…"


def plural(n: int, one: str, many: str = "") -> str:
    """
    >>> plural(1, "row"), plural(1200, "row"), plural(2, "class", "classes")
    ('1 row', '1,200 rows', '2 classes')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def percent(p: float, of: int | None = None) -> str:
    """A share, with the digits that a number of rows `of` can give it.

    >>> percent(0.98), percent(0.98765, 50), percent(0.98765, 20_000)
    ('98%', '99%', '98.8%')
    """
    return f"{p:.1%}" if of is not None and of >= 1000 else f"{p:.0%}"


def wilson(right: Any, n: Any, z: float = 1.96) -> tuple[Any, Any]:
    """Ends of the 95% interval of a share (Wilson 1927): it stays within 0 and 1, and is honest for few rows.

    >>> [round(float(v), 3) for v in wilson(49, 50)]
    [0.895, 0.996]
    """
    n = np.maximum(n, 1)
    p = np.asarray(right) / n
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)
