"""A page: sections of text, charts and tables, written as one HTML file that asks nothing of the network.

Everything that comes from data passes `escape` (HTML) or `embed` (JSON in a script element), and the policy in the head forbids
what either should miss: only the scripts and the style whose digests it names may run, and nothing may be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tallies._version import __version__
from tallies.storage import atomic

DIGITS = 6  # significant digits of numbers in the page: more than any reader or pixel can tell


Run = tuple[str, str, str]  # a piece of text, the class of its mark ("" for none), what the mark says
Tag = tuple[str, str, int, str]  # a word that selects: its text, the selector, the item, the class of its mark


Node = tuple[str, float, int | None, list[Any]]  # a name, its number, the item that it selects, the nodes below


class Section:
    """A part of the page with a heading; its methods add to it, in order, and return it."""

    def __init__(self, page: Page, key: str, heading: str):
        self.page, self.key, self.heading = page, key, heading
        self.parts: list[str] = []

    def text(self, *paragraphs: str, soft: bool = False) -> Section:
        self.parts += [f"<p{' class=soft' if soft else ''}>{escape(text)}</p>" for text in paragraphs if text]
        return self

    def charts(self, *charts: dict[str, Any] | None) -> Section:
        """Charts side by side where there is room; a chart with wide=True has a row of its own."""
        present = [chart for chart in charts if chart is not None]
        if present:
            self.parts.append(f'<div class="charts">{"".join(self.page.figure(chart) for chart in present)}</div>')
        return self

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "", rows_of: str = "", keys: Sequence[int] = ()
    ) -> Section:
        """A table; with `rows_of` a selector's key, only the rows whose `keys` entry is selected are shown."""
        rows = [list(row) for row in rows]
        numeric = [bool(rows) and all(isinstance(row[j], int | float) for row in rows) for j in range(len(columns))]
        head = "".join(f'<th scope="col"{" class=num" * n}>{escape(c)}</th>' for c, n in zip(columns, numeric, strict=True))
        body = []
        for i, row in enumerate(rows):
            cells = "".join(f"<td{_cell_class(value, n)}>{escape(show(value))}</td>" for value, n in zip(row, numeric, strict=True))
            body.append(f"<tr data-key={int(keys[i])}>{cells}</tr>" if keys else f"<tr>{cells}</tr>")
        about = f"<caption><span>{escape(caption)}</span></caption>" if caption else ""
        size = "box tall" if len(rows) > 20 else "box"
        attribute = f' data-rows-of="{escape(rows_of)}"' if rows_of else ""
        self.parts.append(
            f'<div class="{size}" tabindex="0"><table{attribute}>{about}<thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table></div>"
        )
        return self

    def facts(self, rows: Iterable[tuple[str, Any]]) -> Section:
        """Two columns: what, and its value; rows without a value are left out."""
        body = "".join(
            f'<tr><th scope="row">{escape(k)}</th><td class="long">{escape(show(v))}</td></tr>'
            for k, v in rows
            if v not in (None, "")
        )
        self.parts.append(f'<div class="box"><table class="facts"><tbody>{body}</tbody></table></div>')
        return self

    def code(self, text: str) -> Section:
        self.parts.append(f'<pre tabindex="0"><code>{escape(text)}</code></pre>')
        return self

    def passages(
        self,
        items: Iterable[tuple[Sequence[int], str, Sequence[Tag], Sequence[Run]]],
        of: str = "",
        search: str = "",
        most: int = 12,
    ) -> Section:
        """Texts with marked words: keys of the selector `of` that they belong to, heading, tags, runs of text.

        With `search`, the label of a box, the reader can look for words; `most` are shown at a time.
        """
        body = "".join(
            f'<li{" hidden" * (i >= most)} data-keys="{" ".join(map(str, keys))}"><h4>{escape(heading)}</h4>{_tags(tags)}'
            f'<p dir="auto">{_runs(runs)}</p></li>'
            for i, (keys, heading, tags, runs) in enumerate(items)
        )
        box = f'<label>{escape(search)}<br><input type="search" autocomplete="off"></label>' if search else ""
        self.parts.append(
            f'<div class="passages" data-of="{escape(of)}" data-most="{most}">{box}<p class="soft"></p><ul>{body}</ul></div>'
        )
        return self

    def tree(self, roots: Sequence[Node], pick: str) -> Section:
        """A tree that opens and closes, with a number at each node; nodes with an index select that item of `pick`."""
        largest = max((node[1] for node in roots), default=0.0)
        self.parts.append(f'<ul class="tree">{"".join(_branch(node, pick, largest, 0) for node in roots)}</ul>')
        return self

    def beside(self) -> Section:
        """Put the last part beside the one before it, where there is room."""
        right, left = self.parts.pop(), self.parts.pop()
        self.parts.append(f'<div class="charts">{left}{right}</div>')
        return self

    def html(self) -> str:
        return f'<section id="{escape(self.key)}"><h2>{escape(self.heading)}</h2>{"".join(self.parts)}</section>'


class Page:
    """What a report says, in the order in which it says it."""

    def __init__(self, title: str, lead: str, kind: str = "report"):
        self.title, self.lead, self.kind = title, lead, kind
        self.note = ""
        self.warnings: list[str] = []
        self.numbers: list[tuple[str, str, str]] = []  # what, value, note
        self._hero = ""
        self.picks: list[dict[str, Any]] = []
        self.sections: list[Section] = []
        self.cards: list[tuple[str, str, str, str]] = []  # heading, text, address, figure
        self.face: dict[str, Any] | None = None  # the chart that stands for the page in a gallery
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
        self._hero = f'<div class="charts">{"".join(self.figure(chart) for chart in charts if chart is not None)}</div>'

    def figure(self, chart: dict[str, Any]) -> str:
        """The place of a chart in the page. Selectors that it follows must have been declared; others are ignored."""
        known = {p["key"] for p in self.picks}
        if chart.get("by", "") not in {"", *known}:
            chart = chart["none"]
        chart = {k: v for k, v in chart.items() if not (k == "select" and v not in known)}
        self._charts.append(chart)
        wide = " class=wide" if chart.get("wide") else ""
        inside = f"<h3>{escape(chart['title'])}</h3><noscript>{_plain_table(chart)}</noscript>"
        return f'<figure{wide} data-chart="{len(self._charts) - 1}">{inside}</figure>'

    def card(self, heading: str, address: str, page: Page) -> None:
        """Show another page here, by its picture and its first sentence."""
        self.cards.append((heading, page.lead, address, self.figure(page.face) if page.face else ""))

    def html(self) -> str:
        assets = files("tallies.html") / "assets"
        style = (assets / "page.css").read_text(encoding="utf-8")
        scripts = [(assets / name).read_text(encoding="utf-8") for name in ("charts.js", "page.js")]
        body = "".join(section.html() for section in self.sections)
        policy = (
            f"default-src 'none'; style-src {_digest(style)}; script-src {' '.join(map(_digest, scripts))}; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        )
        warnings = "".join(f"<li>{escape(text)}</li>" for text in self.warnings)
        numbers = "".join(
            f'<div><dt>{escape(what)}</dt><dd class="value">{escape(value)}</dd><dd class="note">{escape(note)}</dd></div>'
            for what, value, note in self.numbers
        )
        contents = "".join(f'<li><a href="#{escape(s.key)}">{escape(s.heading)}</a></li>' for s in self.sections)
        cards = "".join(
            f'<li><h2><a href="{escape(address)}">{escape(heading)}</a></h2>{figure}<p>{escape(text)}</p></li>'
            for heading, text, address, figure in self.cards
        )
        written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        parts = [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">',
            f'<meta name="generator" content="Tallies {__version__}">',
            f"<title>{escape(self.title)}</title><style>{style}</style></head><body>",
            '<a class="hidden skip" href="#main">Skip to the results</a>',
            '<svg id="probe" width="0" height="0" class="hidden" aria-hidden="true"></svg>',
            f'<header><p class="mark"><b>Tallies</b> {escape(self.kind)}</p><h1>{escape(self.title)}</h1>',
            f'<p class="lead">{escape(self.lead)}</p>',
            f"<p>{escape(self.note)}</p>" if self.note else "",
            f'<ul class="warnings" aria-label="Warnings">{warnings}</ul>' if warnings else "",
            f'<dl class="numbers">{numbers}</dl>' if numbers else "",
            f'<nav aria-label="Contents"><ul class="contents">{contents}</ul></nav>' if contents else "",
            "</header>",
            '<div class="picks"><form id="picks" aria-label="Select"></form></div>' if self.picks else "",
            f'<main id="main">{self._hero}{f"<ul class=cards>{cards}</ul>" if cards else ""}{body}</main>',
            f"<footer>Written by Tallies {__version__} on {written}. One file, which loads nothing from elsewhere.</footer>",
            '<div id="tip" role="tooltip"></div><div id="live" class="hidden" aria-live="polite"></div>',
            f'<script type="application/json" id="data">{embed({"picks": self.picks, "charts": self._charts})}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>",
        ]
        return "".join(parts) + "\n"

    def write(self, path: str | Path) -> Path:
        """Write the page atomically: a reader never meets half of it."""
        path = Path(path)
        with atomic(path) as part:
            part.write_text(self.html(), encoding="utf-8")
        return path


def show(value: Any) -> str:
    """A value as a reader wants it: thousands separated, four significant digits, a dash for nothing.

    >>> show(1234567), show(0.123456), show(float("nan")), show("as it is")
    ('1,234,567', '0.1235', '–', 'as it is')
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return "–"
    if isinstance(value, float | np.floating):  # from 10,000 on, whole numbers say enough; at a hyphen a line could end
        return f"{value:,.0f}" if abs(float(value)) >= 1e4 else f"{value:,.4g}".replace("e-", "e\N{MINUS SIGN}")
    return str(value)


def embed(data: Any) -> str:
    """JSON that may stand in a script element: no `<` that could end it, no line separators that JavaScript would mind.

    >>> embed({"name": "</script>", "x": [0.1234567891, float("nan")]})
    '{"name":"\\\\u003c/script>","x":[0.123457,null]}'
    """
    text = json.dumps(compact(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def compact(value: Any) -> Any:
    """Plain lists and numbers of `DIGITS` digits, None where a number is not finite."""
    if isinstance(value, dict):
        return {str(k): compact(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return compact(value.tolist())
    if isinstance(value, list | tuple):
        return [compact(v) for v in value]
    if isinstance(value, np.generic):
        return compact(value.item())
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    return value if isinstance(value, bool | int | str) or value is None else str(value)


def _branch(node: Node, pick: str, largest: float, depth: int) -> str:
    name, number, index, below = node
    label = escape(name)
    if index is not None:
        label = f'<button type="button" data-pick="{escape(pick)}" data-index="{index}">{label}</button>'
    bar = f'<meter min="0" max="{largest:.6g}" value="{number:.6g}" aria-hidden="true"></meter>' if largest > 0 else ""
    line = f"{label} <b>{show(round(number, 1) if number < 10 else round(number))}</b>{bar}"
    if not below:
        return f"<li><span>{line}</span></li>"
    inside = "".join(_branch(child, pick, largest, depth + 1) for child in below)
    return f"<li><details{' open' * (depth < 1)}><summary>{line}</summary><ul>{inside}</ul></details></li>"


def _tags(tags: Sequence[Tag]) -> str:
    """Words above a text that select an item of the page, each with the mark that it has in the text."""
    inside = "".join(
        f'<button type="button" data-pick="{escape(pick)}" data-index="{index}">'
        f'<i class="{escape(mark)}">{escape(text)}</i></button>'
        for text, pick, index, mark in tags
    )
    return f'<div class="tags">{inside}</div>' if inside else ""


def _runs(runs: Sequence[Run]) -> str:
    return "".join(
        f'<mark class="{escape(mark)}" title="{escape(title)}">{escape(text)}</mark>' if mark else escape(text)
        for text, mark, title in runs
    )


def _cell_class(value: Any, numeric: bool) -> str:
    return ' class="num"' if numeric else ' class="long"' if isinstance(value, str) and len(value) > 40 else ""


def _plain_table(chart: dict[str, Any]) -> str:
    """The numbers of a chart for readers without scripts."""
    chart = {**chart, **(chart.get("none") or (chart["views"][0] if chart.get("views") else {}))}
    found = chart["rows"] if "rows" in chart else [[name, *row] for name, row in zip(chart["down"], chart["values"], strict=True)]
    rows = "".join("<tr>" + "".join(f"<td>{escape(show(v))}</td>" for v in row) + "</tr>" for row in found[:50])
    head = "".join(f"<th>{escape(c)}</th>" for c in chart["columns"])
    return f'<div class="box"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
