"""A model as a notebook shows it: what it is, what it was fitted on, whether to trust it, what it found, what to do next.

Styles stand on the elements and colours are those of the notebook, or half transparent: nothing leaks into other cells, and light
and dark look alike.
"""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tallies.html.common import cautions, plural
from tallies.html.page import Html, cut, show, tag

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
    options = tag("span", cut(repr(model)).removeprefix(name), style=_SOFT)
    try:
        check_is_fitted(model)
    except NotFittedError:
        about = (inspect.getdoc(type(model)) or "").split("\n")[0]
        asked = inspect.signature(model.fit).parameters.values()
        needed = [p.name for p in asked if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        call = tag("code", f"model.fit({', '.join(needed)})")
        body = [tag("div", cut(about)), tag("div", "Not fitted yet. Next: ", call)]
    else:
        body = [tag("div", cut(line)) for line in (ended(model), *model._facts())]
        body += [tag("div", cut(text), style=_WARN) for text in cautions(model)]
        rows = [_row(cut(what), cut(found)) for what, found in model._learned()]
        body += [tag("table", *rows, style="margin:.5em 0;border-collapse:collapse;font-size:1em;color:inherit")] if rows else []
        steps = [part for step in model.next_steps for part in (" · ", tag("code", step))][1:]
        body.append(tag("div", "Next: ", *steps, style=_SOFT))
    return tag("div", tag("div", tag("code", tag("b", name), options)), *body, class_="tallies-card", style=_BOX)


def ended(model: Any) -> str:
    """How the fit ended, in one sentence."""
    value = f"; {model._measure()} {show(float(model.history_[-1]))} nats" if len(model.history_) else ""
    if model.n_iter_ <= 1 and model.converged_:
        return f"Fitted in one pass, which is exact{value}."
    return f"{'Settled' if model.converged_ else 'Stopped'} after {plural(model.n_iter_, 'sweep')}{value}."


def _row(what: str, found: str) -> Html:
    head = tag("th", what, scope="row", style=f"{_CELL};font-weight:600")
    return tag("tr", head, tag("td", found, style=_CELL), style="background:none")
