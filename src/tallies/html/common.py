"""What every report says, whatever the model: how the fit went, what was fitted on what, how to get it again."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from tallies._version import __version__
from tallies.html import charts
from tallies.html.page import Page, Section, cut, now, show

TRACED = 600  # points of a curve: no screen shows more


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
    names = [str(name) for what in ("feature_names_in_", "classes_") for name in getattr(model, what, ())]
    found = [sentence(text, names) for text in model._caveats()]
    if not model.converged_:
        why = {"interrupted": "it was interrupted", "callback": "a callback ended it", "cycle": "it goes round in a circle"}
        reason = why.get(model.stopped_, "raise max_iter")
        found.append(f"The fit stopped after {plural(model.n_iter_, 'sweep')} before it had settled: {reason}.")
    return found


def statisticians(page: Page, criteria: Sequence[tuple[str, Any, str]]) -> Section:
    """Criteria of the fit (likelihoods, BIC, perplexity ...), each with its value and what it means: after what was found."""
    told = [row for row in criteria if row[1] not in (None, "")]
    made = [section for section in page.sections if section.key == "statisticians"]
    section = made[0] if made else page.section("statisticians", "For statisticians")
    return section.table(["criterion", "value", "what it means"], told, first=0)


def sentence(text: str, names: Collection[str] = ()) -> str:
    """A text with a capital and a full stop; what it begins with stays as it is where that is a name from the data or from code.

    >>> sentence("two rows are alike"), sentence("wing has no spread", ["wing"]), sentence("max_iter is small.")
    ('Two rows are alike.', 'wing has no spread.', 'max_iter is small.')
    """
    first = text.split()[0].rstrip(",:;") if text.split() else ""
    named = not first.isalpha() or any(name and text.startswith(name) for name in names)
    return (text if named else text[:1].upper() + text[1:]) + "." * (not text.endswith("."))


def converged(page: Page, model: Any) -> Section:
    """How the fit went: in words, and as a curve where there was more than one sweep."""
    if model.n_iter_ <= 1:
        say = "One pass over the data gives the exact maximum of the likelihood: there is nothing that could fail to converge."
    elif model.converged_:
        say = f"Yes: the objective stopped changing after {model.n_iter_:,} sweeps over the data."
    else:
        say = f"The fit was stopped after {model.n_iter_:,} sweeps, before its stopping rule was met; see the curve."
    return page.section("convergence", "Did the fit settle?").text(say).charts(trace(model) if len(model.history_) > 1 else None)


def trace(model: Any, chains: Sequence[Any] = ()) -> charts.Chart:
    """The objective after each sweep (or step, where a step takes several sweeps), of the fit or of each of its chains."""
    many = [np.asarray(values, dtype=float) for values in (chains or [model.history_])]
    unit = "sweep" if chains or len(many[0]) == model.n_iter_ else "step"
    series: charts.Series = []
    for c, values in enumerate(many):
        some = np.unique(np.linspace(0, max(len(values) - 1, 0), TRACED).astype(int))[: len(values)]
        first = model.n_iter_ - len(values) + 1 if chains else 1  # a chain that was resumed may begin late
        series.append({"name": f"chain {c + 1}" if len(many) > 1 else "", "x": some + first, "y": values[some]})
    from_ = 0 if chains else 1  # without chains no column for them
    rows = [[c + 1, int(x), y][from_:] for c, s in enumerate(series) for x, y in zip(s["x"], s["y"], strict=True)]
    seen = many[0][np.isfinite(many[0])]
    last = f"; the last step was {show(float(f'{abs(seen[-1] - seen[-2]):.2g}'))}" if len(seen) > 1 else ""
    caption = f"From {show(seen[0])} to {show(seen[-1])}{last}." if len(seen) else ""
    x, y = charts.axis(unit, whole=True), charts.axis(f"{model._measure()} (nats)")
    heads = ["chain", unit, "objective"][from_:]
    return charts.lines(f"Objective after each {unit}", x, y, series, heads, rows, caption=caption, wide=True)


def fitted(page: Page, model: Any, about: About, facts: Sequence[tuple[str, Any]]) -> Section:
    """What was fitted on what: enough to do it again."""
    usual = {field.name: field.default for field in dataclasses.fields(model)}
    given = {k: v for k, v in model.get_params(deep=False).items() if repr(v) != repr(usual[k])}
    rows = [
        ("Model", type(model).__name__),
        ("Data", about.data_name),
        *facts,
        *((f"Option {name}", option_text(value)) for name, value in given.items()),
        ("Other options" if given else "Options", "as they are by default"),
        ("Sweeps", int(model.n_iter_)),
        ("Seed", str(model.seed_) if hasattr(model, "random_state") else None),
        ("Software", f"Tallies {__version__}, Python {platform.python_version()}, NumPy {np.__version__}"),
        ("Report written", now()),
        ("Command", about.command),
    ]
    return page.section("fitted", "What was fitted on what").facts(rows)


def begin(model: Any, about: About, what: str, lead: str = "") -> Page:
    """A page with its title, `what` and the data unless one is told, and what to know before trusting the fit."""
    page = Page(about.title or (f"{what} {about.data_name}" if what and about.data_name else type(model).__name__), lead)
    page.note, page.warnings = about.note, cautions(model)
    return page


def finish(page: Page, model: Any, about: About, facts: Sequence[tuple[str, Any]], code: str, *shell: str) -> Page:
    """The end of every page: how the fit went, unless it was said; what was fitted on what; how to use it, by `code` after the
    model is loaded, and by `shell`, commands of tallies."""
    if all(section.key != "convergence" for section in page.sections):
        converged(page, model)
    fitted(page, model, about, facts)
    load = 'model = tallies.load("model.tallies")  '.ljust(code.find("#")) + '# written by model.save("model.tallies")'
    section = page.section("use", "How to use it").text("From Python:").code(f"import tallies\n\n{load}\n{code}")
    if shell:
        section.text("From a shell:").code("\n".join(f"tallies {command}" for command in shell))
    return page


def plain_page(model: Any, about: About) -> Page:
    """The report of a model that has no page of its own."""
    page = begin(model, about, "", " ".join(model.summary().splitlines()[1:]))
    return finish(page, model, about, [], "print(model.summary())")


def option_text(value: Any) -> str:
    """An option as it would be typed: of a record of settings only those that are not as usual.

    >>> class Draws(NamedTuple):
    ...     n: int = 100
    ...     seed: int = 0
    >>> option_text(Draws(n=500)), option_text(Draws()), option_text(np.arange(3)), option_text("auto")
    ('Draws(n=500)', 'Draws()', '[0, 1, 2]', "'auto'")
    """
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    if hasattr(value, "_field_defaults"):
        usual, given = value._field_defaults, value._asdict()
        told = (f"{k}={option_text(v)}" for k, v in given.items() if k not in usual or repr(v) != repr(usual[k]))
        text = f"{type(value).__name__}({', '.join(told)})"
    return cut(text)


def told(*sentences: tuple[Any, str]) -> list[str]:
    """Those sentences whose condition holds."""
    return [text for holds, text in sentences if holds]


def listing(names: Sequence[str], most: int) -> str:
    """
    >>> listing(["a", "b"], 2), listing(["a", "b", "c"], 2)
    ('a, b', 'a, b and 1 other')
    """
    return ", ".join(names[:most]) + (f" and {plural(len(names) - most, 'other')}" if len(names) > most else "")


def sampled(places: np.ndarray, most: int) -> np.ndarray:
    """The places, or as many of them as can be used, at random but always the same, in their order."""
    return places if len(places) <= most else np.sort(np.random.default_rng(0).choice(places, most, replace=False))


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
