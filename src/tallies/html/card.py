"""A model as a notebook shows it: what it is, what it was fitted on, whether to trust it, what it found, what to do next.

Styles stand on the elements and colours are those of the notebook, or half transparent: nothing leaks into other cells, and light
and dark look alike.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from html import escape
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tallies.html.common import cautions, plural
from tallies.html.page import show

LONG = 300  # characters of a text from data: a card is no place for more

_BOX = (
    "border:1px solid rgba(128,128,128,.45);border-radius:8px;padding:.6em .9em;max-width:52em;"
    "line-height:1.45;overflow-wrap:anywhere"
)
_SOFT = "opacity:.75"
_CELL = "text-align:left;vertical-align:top;padding:.1em 1em .1em 0;border:0;background:none"
_WARN = "border-left:4px solid #d98200;background:rgba(217,130,0,.13);border-radius:3px;padding:.25em .6em;margin:.35em 0"


def card(model: Any) -> str:
    """HTML of a model, fitted or not; no script, no style sheet, and everything from data escaped.

    >>> import tallies
    >>> model = tallies.GDA()
    >>> "Not fitted yet" in card(model)
    True
    >>> "classes: &lt;a&gt; (50.0%)" in card(model.fit([[0.0], [1.0], [3.0], [4.0]], ["<a>", "b", "<a>", "b"]))
    True
    """
    name = type(model).__name__
    about = (inspect.getdoc(type(model)) or "").split("\n")[0]
    options = _text(repr(model)).removeprefix(name)
    head = f'<div><code><b>{name}</b><span style="{_SOFT}">{options}</span></code></div>'
    try:
        check_is_fitted(model)
    except NotFittedError:
        wants = ", ".join(p.name for p in _needed(model.fit))
        body = _line(about) + _line(f"Not fitted yet. Next: <code>model.fit({escape(wants)})</code>", raw=True)
    else:
        body = _line(ended(model)) + "".join(map(_line, model._facts()))
        body += "".join(f'<div style="{_WARN}">{_text(text)}</div>' for text in cautions(model))
        body += _table(model._learned()) + _next(model)
    return f'<div class="tallies-card" style="{_BOX}">{head}{body}</div>'


def ended(model: Any) -> str:
    """How the fit ended, in one sentence."""
    value = f"; {model._measure()} {show(float(model.history_[-1]))} nats" if len(model.history_) else ""
    if model.n_iter_ <= 1 and model.converged_:
        return f"Fitted in one pass, which is exact{value}."
    return f"{'Settled' if model.converged_ else 'Stopped'} after {plural(model.n_iter_, 'sweep')}{value}."


def _needed(fit: Any) -> Iterable[inspect.Parameter]:
    return (p for p in inspect.signature(fit).parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD)


def _text(text: str) -> str:
    return escape(text if len(text) <= LONG else text[: LONG - 1] + "…")


def _line(text: str, raw: bool = False) -> str:
    return f"<div>{text if raw else _text(text)}</div>" if text else ""


def _table(rows: list[tuple[str, str]]) -> str:
    if not rows:
        return ""
    body = "".join(
        f'<tr style="background:none"><th scope="row" style="{_CELL};font-weight:600">{_text(what)}</th>'
        f'<td style="{_CELL}">{_text(found)}</td></tr>'
        for what, found in rows
    )
    return f'<table style="margin:.5em 0;border-collapse:collapse;font-size:1em;color:inherit">{body}</table>'


def _next(model: Any) -> str:
    steps = " · ".join(f"<code>{escape(step)}</code>" for step in model.next_steps)
    return f'<div style="{_SOFT}">Next: {steps}</div>'
