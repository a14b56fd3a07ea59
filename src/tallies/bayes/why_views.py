"""Pictures and sentences of why: what tells classes apart, and why a row was called so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tallies.bayes.answers import Fitted
from tallies.bayes.door import Table
from tallies.bayes.marginals import Column, rounded
from tallies.bayes.reasons import Reasons, two_best
from tallies.data.table import take_rows
from tallies.html import charts
from tallies.html.common import plural
from tallies.html.judged import Judged
from tallies.html.page import show
from tallies.maths import Array

BARS = 10  # reasons drawn: the others are one bar
BESIDES = {-1: "how common the classes are", -2: "how wide the classes are"}
FAR = 30.0  # log odds as which what is impossible is drawn, or as the largest that are finite


def contrast(column: Column, classes: list[str]) -> str:
    """How a column of numbers or states differs between classes, in words."""
    if column.p is not None:
        state = int(np.ptp(column.p, axis=0).argmax()) if column.family != "bernoulli" else 1
        p = column.p[:, state]
        most, least = int(p.argmax()), int(p.argmin())
        often = f"{p[most]:.0%} of {classes[most]} and {p[least]:.0%} of {classes[least]}"
        return f"{column.name} is {column.states[state]} in {often}."
    p, most, least = column.centre, int(column.centre.argmax()), int(column.centre.argmin())
    low, high = (show(rounded(p[k], np.ptp(p))) for k in (least, most))
    if len(p) == 2:
        return f"{column.name} is about {low} in {classes[least]} and {high} in {classes[most]}."
    return f"{column.name} is lowest in {classes[least]} (about {low}) and highest in {classes[most]} (about {high})."


def speaking_words(columns: list[Column], prior: Array, most: int = 15) -> list[tuple[list[str], Array]]:
    """Of a block of counts, for each class: the words that tell most of it, and how many times as frequent they are as in the
    other classes, the largest first; none where there is no such block, or more classes than anyone looks at."""
    block, found = [column for column in columns if column.family == "multinomial"], []
    p = np.maximum(np.array([column.centre for column in block]), 1e-300)  # (V, K)
    for k in range(len(prior) if block and len(prior) <= 100 else 0):
        others = np.where(np.arange(len(prior)) == k, 0.0, prior)
        ratio = p[:, k] / np.maximum(p @ (others / max(float(others.sum()), 1e-300)), 1e-300)
        top = np.argsort(-p[:, k] * np.log(ratio), kind="stable")[:most]
        top = np.array(sorted(top[ratio[top] > 1], key=lambda i: -ratio[i]), dtype=int)
        found.append(([block[i].name for i in top], ratio[top]))
    return found


def more_of(name: str, words: list[str]) -> str:
    """What a class has more of than the others."""
    return f"{name} has more of {in_words(words[:3])} than the others."


def why(fitted: Fitted, columns: list[Column], classes: list[str], table: Table, row: int, label: str) -> charts.Chart:
    """What speaks for the class that a row was called, and what against it."""
    one = take_rows(table, slice(row, row + 1))
    J = fitted.params.log_joint(one)
    a, b = two_best(J)
    _, j, value, odds = Reasons.of(fitted, one, a, b)
    far = max(FAR, float(np.abs(odds[np.isfinite(odds)]).max(initial=0.0)))
    odds = np.clip(odds, -far, far)
    speaks = np.flatnonzero(odds)
    shown = [(_said(columns, int(j[i]), float(value[i])), float(odds[i])) for i in speaks[:BARS]]
    if len(speaks) > BARS:
        shown.append((f"{plural(len(speaks) - BARS, 'other')} together", float(odds[speaks[BARS:]].sum())))
    called, against, total = classes[a[0]], classes[b[0]], float(odds.sum())
    times = f"{np.exp(total):,.{0 if total > 2 else 1}f}" if total < np.log(1e4) else "over 10,000"
    caption = f"{label}. Together {total:.2g}: {called} is {times} times as probable as {against}. 0.7 doubles the odds."
    unit = "log odds: right for the class called"
    names, values = zip(*shown, strict=True) if shown else ((), ())
    return charts.bar(f"Why {called}, and not {against}?", unit, names, values, caption=caption)


def _said(columns: list[Column], j: int, value: float) -> str:
    """A cell as a name and a value."""
    if j < 0:
        return BESIDES[j]
    column = columns[j]
    if column.p is None:
        return f"{column.name} = {show(float(f'{value:.4g}'))}"
    return f"{column.name} = {column.states[int(value)]}" if value < len(column.states) else f"{column.name}: a value never met"


def rows_to_explain(judged: Judged, name: Callable[[int], str]) -> list[tuple[int, str]]:
    """Rows that one asks about, each with a label: mistakes, the surest first; close calls; strange rows; a typical one a class."""
    sure, best, y = judged.proba.max(axis=1), judged.best, judged.y
    wrong = np.flatnonzero((y >= 0) & (best != y))
    groups = [wrong[np.argsort(-sure[wrong], kind="stable")[:12]], np.argsort(sure, kind="stable")[:6]]
    groups.append(np.argsort(judged.log_p, kind="stable")[:6])
    usual = np.argsort(-judged.log_p, kind="stable")
    typical = [usual[best[usual] == k][:1] for k in range(min(len(judged.classes), 10))]
    rows = list(dict.fromkeys(np.concatenate([*groups, *typical]).tolist()))

    def label(i: int) -> str:
        true = f"{judged.classes[y[i]]}, " if y[i] >= 0 and y[i] != best[i] else ""
        return f"{name(i)}: {true}called {judged.classes[best[i]]} ({sure[i]:.0%})"

    return [(i, label(i)) for i in rows]


def first_sentence(columns: list[Column], bits: Array, need: float, classes: list[str], rows: float) -> str:
    """What tells the classes apart, in a reader's words."""
    order = np.argsort(-bits, kind="stable")
    words = columns[order[0]].family == "multinomial"  # each says little, and a text has many
    mostly = [columns[j].name for j in order[:3] if bits[j] > max(0.5 * bits[order[0]], 0.0 if words else 0.05 * need)]
    by = f"mostly by {'the words ' * words}{in_words(mostly)}" if mostly else f"by {plural(len(columns), 'column')}"
    by += "" if mostly else ", none of which says much alone"
    told = in_words(classes) if len(classes) <= 5 else plural(len(classes), "class", "classes")
    return f"It learned from {plural(round(rows), 'row')} to tell {told} apart, {by}."


def in_words(names: list[str]) -> str:
    """
    >>> in_words(["a"]), in_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def spoken(classes: Any) -> list[str]:
    """Class names as they stand in a sentence.

    >>> spoken(np.array([3, 5]))
    ['“3”', '“5”']
    """
    return [f"“{c}”" for c in classes]
