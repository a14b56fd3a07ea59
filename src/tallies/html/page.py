"""A page: sections of text, charts and tables, written as one HTML file that asks nothing of the network.

Everything that comes from data passes `tag` (HTML) or `embed` (JSON in a script element), and the policy in the head forbids what
either should miss: only the scripts and the style whose digests it names may run, and nothing may be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tallies._version import __version__
from tallies.disk import atomic
from tallies.errors import DataError
from tallies.storage import plain

DIGITS = 6  # significant digits of numbers in the page: more than any reader or pixel can tell
LONG = 300  # characters of a text in a card or a line of facts

Run = tuple[str, str, str]  # a piece of text, the class of its mark ("" for none), what the mark says
Tag = tuple[str, str, int, str]  # a word that selects: its text, the selector, the item, the class of its mark
Passage = tuple[Sequence[int], str, Sequence[Tag], Sequence[Run]]  # items that a text belongs to, heading, tags, its runs
Node = tuple[str, float, int | None, list[Any]]  # a name, its number, the item that it selects, the nodes below


class Html(str):
    """Markup: what came from data is escaped in it."""


def tag(name: str, /, *inside: Any, **attributes: Any) -> Html:
    """An element; text inside and the values of attributes are escaped, elements are not, and None is nothing.

    >>> tag("p", "a < b", tag("b", "c"), class_="soft", data_key=0, hidden=False)
    '<p class="soft" data-key="0">a &lt; b<b>c</b></p>'
    """
    told = {key.rstrip("_").replace("_", "-"): v for key, v in attributes.items() if v is not None and v is not False}
    start = "".join(f" {key}" if value is True else f' {key}="{escape(str(value))}"' for key, value in told.items())
    return Html(f"<{name}{start}>{text_of(*inside)}</{name}>")


def text_of(*parts: Any) -> Html:
    """Parts of a page as one piece of markup."""
    return Html("".join(part if isinstance(part, Html) else escape(str(part)) for part in parts if part is not None))


class Section:
    """A part of the page with a heading; its methods add to it, in order, and return it."""

    def __init__(self, page: Page, key: str, heading: str):
        self.page, self.key, self.heading = page, key, heading
        self.parts: list[Html] = []

    def add(self, *parts: Html) -> Section:
        self.parts += parts
        return self

    def text(self, *paragraphs: str, soft: bool = False) -> Section:
        return self.add(*(tag("p", text, class_="soft" if soft else None) for text in paragraphs if text))

    def charts(self, *charts: dict[str, Any] | None) -> Section:
        """Charts side by side where there is room; a chart with wide=True has a row of its own."""
        return self.add(*filter(None, [self.page.figures(charts)]))

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        caption: str = "",
        rows_of: str = "",
        keys: Sequence[int] = (),
        first: int | None = None,
    ) -> Section:
        """A table, which readers sort by clicking a head; with `rows_of` a selector's key, only the rows whose `keys` entry is
        selected are shown. `first` is the column that matters: on a phone it comes first, and the others under it."""
        rows = [list(row) for row in rows]
        numeric = [bool(rows) and all(isinstance(row[j], int | float) for row in rows) for j in range(len(columns))]
        head = (tag("th", c, scope="col", class_="num" if n else None) for c, n in zip(columns, numeric, strict=True))
        cells = [
            [
                tag("td", show(v), class_=_cell_class(v, n, j == first), data_head=columns[j] if first is not None else None)
                for j, (v, n) in enumerate(zip(row, numeric, strict=True))
            ]
            for row in rows
        ]
        body = (tag("tr", *row, data_key=int(keys[i]) if keys else None) for i, row in enumerate(cells))
        about, look = tag("caption", tag("span", caption)) if caption else None, None if first is None else "stacks"
        table = tag("table", about, tag("thead", tag("tr", *head)), tag("tbody", *body), data_rows_of=rows_of or None, class_=look)
        return self.add(tag("div", table, class_="box tall" if len(rows) > 20 else "box", tabindex=0))

    def facts(self, rows: Iterable[tuple[str, Any]]) -> Section:
        """Two columns: what, and its value; rows without a value are left out."""
        told = [(what, value) for what, value in rows if value not in (None, "")]
        body = (tag("tr", tag("th", what, scope="row"), tag("td", show(value), class_="long")) for what, value in told)
        return self.add(tag("div", tag("table", tag("tbody", *body), class_="facts"), class_="box"))

    def code(self, text: str) -> Section:
        return self.add(tag("pre", tag("code", text), tabindex=0))

    def passages(self, items: Iterable[Passage], of: str = "", search: str = "", most: int = 12) -> Section:
        """Texts with marked words: keys of the selector `of` that they belong to, heading, tags, runs of text.

        With `search`, the label of a box, the reader can look for words; `most` are shown at a time.
        """
        body = []
        for i, (keys, heading, tags, runs) in enumerate(items):
            chosen = (_button(pick, index, tag("i", text, class_=mark)) for text, pick, index, mark in tags)
            marked = (tag("mark", text, class_=mark, title=title) if mark else text for text, mark, title in runs)
            inside = tag("h4", heading), tag("div", *chosen, class_="tags") if tags else None, tag("p", *marked, dir="auto")
            body.append(tag("li", *inside, hidden=i >= most, data_keys=" ".join(map(str, keys))))
        box = tag("label", search, Html('<br><input type="search" autocomplete="off">')) if search else None
        return self.add(tag("div", box, tag("p", class_="soft"), tag("ul", *body), class_="passages", data_of=of, data_most=most))

    def tree(self, roots: Sequence[Node], pick: str) -> Section:
        """A tree that opens and closes, with a number at each node; nodes with an index select that item of `pick`."""
        largest = max((node[1] for node in roots), default=0.0)
        return self.add(tag("ul", *(_branch(node, pick, largest, 0) for node in roots), class_="tree"))

    def beside(self) -> Section:
        """Put the last part beside the one before it, where there is room."""
        self.parts[-2:] = [tag("div", *self.parts[-2:], class_="charts")]
        return self

    def html(self) -> Html:
        return tag("section", tag("h2", self.heading), *self.parts, id=self.key)


class Page:
    """What a report says, in the order in which it says it."""

    def __init__(self, title: str, lead: str, kind: str = "report"):
        self.title, self.lead, self.kind, self.note = title, lead, kind, ""
        self.findings: list[str] = []  # what was found, in the reader's words, a sentence each: first on the page
        self.warnings: list[str] = []
        self.numbers: list[tuple[str, str, str]] = []  # what, value, note
        self.picks: list[dict[str, Any]] = []
        self.sections: list[Section] = []
        self.made_of: list[str] = []  # what the report was given beside the model, such as "data"
        self.face: dict[str, Any] | None = None  # the chart that stands for the page in a gallery
        self._hero: Html | None = None
        self._cards: list[Html] = []
        self._charts: list[dict[str, Any]] = []

    def section(self, key: str, heading: str) -> Section:
        self.sections.append(Section(self, key, heading))
        return self.sections[-1]

    def pick(self, key: str, label: str, items: Sequence[str], none: str = "all") -> None:
        """A selector: charts that name `key` in `by` or `select` follow it, and so does the address. `none`: nothing selected."""
        if len(items) > 1:
            self.picks.append({"key": key, "label": label, "items": list(items), "none": none})

    def hero(self, *charts: dict[str, Any] | None) -> None:
        """The picture, or two, that carry the result: they stand on the first screen."""
        self._hero = self.figures(charts)

    def figures(self, charts: Iterable[dict[str, Any] | None]) -> Html | None:
        """Those charts that there are, side by side."""
        present = [self.figure(chart) for chart in charts if chart is not None]
        return tag("div", *present, class_="charts") if present else None

    def figure(self, chart: dict[str, Any]) -> Html:
        """The place of a chart in the page. Selectors that it follows must have been declared; others are ignored."""
        known = {p["key"] for p in self.picks}
        if chart.get("by", "") not in {"", *known}:
            chart = chart["none"]
        chart = {k: v for k, v in chart.items() if not (k == "select" and v not in known)}
        self._charts.append(chart)
        inside = tag("h3", chart["title"]), tag("noscript", _plain_table(chart))
        return tag("figure", *inside, class_="wide" if chart.get("wide") else None, data_chart=len(self._charts) - 1)

    def card(self, heading: str, address: str, page: Page) -> None:
        """Show another page here, by its picture and its first sentence."""
        figure = self.figure(page.face) if page.face else None
        self._cards.append(tag("li", tag("h2", tag("a", heading, href=address)), figure, tag("p", page.lead)))

    def html(self) -> str:
        assets = files("tallies.html") / "assets"
        style, *scripts = ((assets / name).read_text(encoding="utf-8") for name in ("page.css", "charts.js", "page.js"))
        policy = (
            f"default-src 'none'; style-src {_digest(style)}; script-src {' '.join(map(_digest, scripts))}; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        )
        numbers = [
            tag("div", tag("dt", what), tag("dd", value, class_="value"), tag("dd", note, class_="note"))
            for what, value, note in self.numbers
        ]
        contents = [tag("li", tag("a", s.heading, href=f"#{s.key}")) for s in self.sections]
        warnings = [tag("li", text) for text in self.warnings]
        header = [
            tag("p", tag("b", "Tallies"), f" {self.kind}", class_="mark"),
            tag("h1", self.title),
            tag("p", self.lead, class_="lead"),
            tag("ul", *(tag("li", text) for text in self.findings), class_="findings") if self.findings else None,
            tag("p", self.note) if self.note else None,
            tag("ul", *warnings, class_="warnings", aria_label="Warnings") if warnings else None,
            tag("dl", *numbers, class_="numbers") if numbers else None,
            tag("nav", tag("ul", *contents, class_="contents"), aria_label="Contents") if contents else None,
        ]
        cards = tag("ul", *self._cards, class_="cards") if self._cards else None
        picks = tag("div", tag("form", id="picks", aria_label="Select"), class_="picks") if self.picks else None
        written = f"Written by Tallies {__version__} on {now()}. One file, which loads nothing from elsewhere."
        parts = [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">',
            f'<meta name="generator" content="Tallies {__version__}">',
            f'<meta name="made-of" content="{escape(" ".join(self.made_of))}">',
            f"{tag('title', self.title)}<style>{style}</style></head><body>",
            '<a class="hidden skip" href="#main">Skip to the results</a>',
            '<svg id="probe" width="0" height="0" class="hidden" aria-hidden="true"></svg>',
            text_of(tag("header", *header), picks),
            tag("main", self._hero, cards, *(section.html() for section in self.sections), id="main"),
            tag("footer", written),
            '<div id="tip" role="tooltip"></div><div id="live" class="hidden" aria-live="polite"></div>',
            f'<script type="application/json" id="data">{embed({"picks": self.picks, "charts": self._charts})}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        ]
        return "".join(parts)

    def write(self, path: str | Path, force: bool = True) -> Path:
        """Write the page atomically: a reader never meets half of it. Without `force`, not over a page that was made of more."""
        path = Path(path)
        lost = sorted(_made_of(path) - set(self.made_of))
        if lost and not force and set(self.made_of) < _made_of(path):
            raise DataError(
                f"{str(path)!r} is a report made with {' and '.join(lost)}, which this one lacks: it would say less; give it the "
                "same again, write to another file, or pass force=True (--force on the command line) to replace it"
            )
        with atomic(path) as part:
            part.write_text(self.html(), encoding="utf-8")
        return path


def _made_of(path: Path) -> set[str]:
    """What the page in a file was made of; nothing where there is none of ours."""
    try:
        with open(path, encoding="utf-8") as file:
            head = file.read(2000)
    except (OSError, UnicodeDecodeError):
        return set()
    found = re.search(r'<meta name="made-of" content="([^"]*)">', head)
    return set(found[1].split()) if found else set()


def now() -> str:
    """When a page is written."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def show(value: Any) -> str:
    """A value as a reader wants it: thousands separated, four significant digits, a dash for nothing.

    >>> show(1234567), show(0.123456), show(float("nan")), show("as it is")
    ('1,234,567', '0.1235', '–', 'as it is')
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float):  # from 10,000 on, whole numbers say enough; at a hyphen a line could end
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:,.4g}".replace("e-", "e\N{MINUS SIGN}")
    return str(value)


def cut(text: str) -> str:
    """A text from data, in a place that is not for long ones."""
    return text if len(text) <= LONG else text[: LONG - 1] + "…"


def embed(data: Any) -> str:
    """JSON that may stand in a script element: no `<` that could end it, no line separators that JavaScript would mind.

    >>> embed({"name": "</script>", "x": [0.1234567891, float("nan")]})
    '{"name":"\\\\u003c/script>","x":[0.123457,null]}'
    """
    text = json.dumps(plain(data, _short), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _short(value: float) -> float:
    """A number of `DIGITS` digits."""
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _branch(node: Node, pick: str, largest: float, depth: int) -> Html:
    name, number, index, below = node
    bar = tag("meter", min=0, max=f"{largest:.6g}", value=f"{number:.6g}", aria_hidden="true") if largest > 0 else None
    count = tag("b", show(round(number, 1) if number < 10 else round(number)))
    line = text_of(name if index is None else _button(pick, index, name), " ", count, bar)
    if not below:
        return tag("li", tag("span", line))
    inside = (_branch(child, pick, largest, depth + 1) for child in below)
    return tag("li", tag("details", tag("summary", line), tag("ul", *inside), open=depth < 1))


def _button(pick: str, index: int, inside: str) -> Html:
    """What selects an item of the page."""
    return tag("button", inside, type="button", data_pick=pick, data_index=index)


def _cell_class(value: Any, numeric: bool, first: bool) -> str | None:
    kind = "num" if numeric else "long" if isinstance(value, str) and len(value) > 40 else ""
    return f"{kind} {'first' * first}".strip() or None


def _plain_table(chart: dict[str, Any]) -> Html:
    """The numbers of a chart for readers without scripts."""
    chart = chart | chart.get("none", {})
    found = chart["rows"] if "rows" in chart else [[name, *row] for name, row in zip(chart["down"], chart["values"], strict=True)]
    rows = (tag("tr", *(tag("td", show(v)) for v in row)) for row in found[:50])
    head = tag("thead", tag("tr", *(tag("th", c) for c in chart["columns"])))
    return tag("div", tag("table", head, tag("tbody", *rows)), class_="box")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
