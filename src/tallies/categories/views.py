"""The pictures of models of categories: signed weights by name, tables of one term, networks of variables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from tallies.categories.door import Categories
from tallies.categories.terms import Terms
from tallies.categories.words import BIAS
from tallies.html import charts
from tallies.maths import Array

BARS = 24  # weights in a picture
TERMS = 200  # terms that can be looked at one by one: the strongest
NODES = 60  # variables in a network: the most connected
LINKS = 80  # lines in a network: the strongest
STATES = 40  # states of a variable in a table
PARTNERS = 3  # terms that the effect of a variable is shown with: the strongest
CASES = 3  # states of the other variables of such a term: those that matter most
LONG = 24  # letters of a name for which half of the page is too narrow
PARTS = 14  # parts of a row's log odds
ALONE = "on average"
WEIGHT = "weight (log odds beside the mean of all classes)"


def signed(
    title: str, names: Sequence[str], weights: Array, errors: Array | None, for_: str, against: str, caption: str = ""
) -> charts.Chart:
    """The largest weights, those that speak for something first."""
    return sizes(title, names, weights, errors, f"{caption} Positive weights speak for {for_}, negative ones {against}.".strip())


def sizes(title: str, names: Sequence[str], weights: Array, errors: Array | None, caption: str) -> charts.Chart:
    """The largest weights in falling order, with twice their standard errors where they are known."""
    top = np.argsort(-np.abs(weights), kind="stable")[:BARS]
    top = top[np.argsort(-weights[top], kind="stable")]
    told, look = [weights], {}
    if errors is not None:
        told, look = [weights, errors], ends(weights, errors, top)
        caption += " Lines are two standard errors (bootstrap) to each side."
    caption += f" The {BARS} largest of {len(weights):,}." if len(weights) > BARS else ""
    columns, rows = ["what", "weight", "standard error"][: 1 + len(told)], [[names[i], *(v[i] for v in told)] for i in top]
    chart = charts.bar(title, WEIGHT, [names[i] for i in top], weights[top], look=look, caption=caption)
    return chart | {"columns": columns, "rows": rows}


def ends(values: Array, errors: Array, top: np.ndarray) -> dict[str, Array]:
    """Two standard errors to each side of the values at `top`."""
    return {"low": values[top] - 2 * errors[top], "high": values[top] + 2 * errors[top]}


def table(title: str, block: Array, labels: Sequence[Sequence[str]], variables: Sequence[str], what: str) -> charts.Chart:
    """The weights of one term as a matrix; of three and more variables, combinations stand at the side."""
    across = list(labels[-1])
    down = [" & ".join(states) for states in product(*labels[:-1])] if len(labels) > 1 else [what]
    y = " & ".join(variables[:-1]) or "weight"
    return matrix(title, variables[-1], y, across, down, block.reshape(len(down), len(across)), f"Weights {what}.")


def by_class(
    title: str, block: Array, labels: Sequence[Sequence[str]], variables: Sequence[str], classes: Sequence[str]
) -> charts.Chart:
    """The weights of one term for each of several classes, one row a class; the class that is chosen stands out."""
    look = {"select": "class", "keys": list(range(len(classes)))} if len(classes) <= STATES else {}
    states = [" & ".join(states) for states in product(*labels)]
    return matrix(title, " & ".join(variables), "class", states, list(classes), block.T, "Weights for each class.", **look)


def matrix(title: str, x: str, y: str, across: list[str], down: list[str], values: Array, say: str, **more: Any) -> charts.Chart:
    """Signed weights as coloured cells: of many rows or columns those of largest weights."""
    some = " Only those of largest weights are shown." if max(values.shape) > STATES else ""
    keep = [np.sort(np.argsort(-np.abs(values).max(axis=axis), kind="stable")[:STATES]) for axis in (1, 0)]
    values, down, across = values[np.ix_(*keep)], [down[i] for i in keep[0]], [across[i] for i in keep[1]]
    reach = max(float(np.abs(values).max()), 1e-9)
    texts = [[f"{v:+.2f}" for v in row] for row in values]
    caption = f"{say} Red speaks for, blue against.{some}"
    look = {"scale": "sign", "domain": [-reach, reach], "unit": "weight", "caption": caption}
    return charts.heat(title, x, y, across, down, values, texts, **look, **more)


def effect(categories: Categories, terms: Terms, weight: Array, v: int, for_: str) -> charts.Chart:
    """What variable v says, on average and where the variables that it acts together with most have given states.

    `weight` (p,) is in zero-sum gauge: of terms that hold v and others, the mean over the others' states is 0.
    """
    names, labels, groups = categories.names, categories.labels, terms.all()
    block = {g: weight[terms.offset[t] : terms.offset[t + 1]].reshape(terms.shape(t)) for t, g in enumerate(groups) if v in g}
    size = {group: float(np.square(found).sum()) for group, found in block.items() if len(group) > 1}
    alone = block.get((v,), np.zeros(len(labels[v])))
    down, values = [ALONE], [alone]
    for group in sorted(size, key=lambda g: -size[g])[:PARTNERS]:
        parts = (found.reshape([len(labels[j]) if j in g else 1 for j in group]) for g, found in block.items() if {*g} <= {*group})
        both = np.moveaxis(sum(parts, np.zeros([len(labels[j]) for j in group])), group.index(v), -1).reshape(-1, len(alone))
        rest = [[f"{names[j]}={state}" for state in labels[j]] for j in group if j != v]
        where = [" & ".join(states) for states in product(*rest)]
        shown = np.sort(np.argsort(-np.abs(both - alone).max(axis=1), kind="stable")[:CASES])
        down, values = [*down, *(where[i] for i in shown)], [*values, *both[shown]]
    caption = f"Weight for {for_}, each row beside the mean of its states: on average over all other variables, and where some of "
    caption += "these have the states at the side. Rows that differ from the first tell of interactions."
    title, look = f"What {names[v]} says of {for_}", {"wide": True} if max(map(len, down)) > LONG else {}
    return matrix(title, names[v], "where", list(labels[v]), down, np.array(values), caption, **look)


def explanation(what: Sequence[str], log_odds: Array, title: str, called: str, against: str) -> charts.Chart:
    """The parts of a row's log odds, those that speak for the class called first; of many, the largest."""
    names = ["before looking at the row" if name == BIAS else name for name in what[:PARTS]]
    values, rest = list(log_odds[:PARTS]), float(np.sum(log_odds[PARTS:]))
    if len(what) > PARTS:
        names, values = [*names, f"{len(what) - PARTS} other parts together"], [*values, rest]
    order = np.argsort(-np.array(values), kind="stable")
    caption = f"Parts to the right speak for {called}, parts to the left for {against}; they add up to {np.sum(log_odds):+.2f}."
    unit = f"log odds of {called} against {against}"
    return charts.bar(title, unit, [names[i] for i in order], [values[i] for i in order], caption=caption, wide=True)


def path(tried: dict[str, list[float]], chosen: float, of: str) -> charts.Chart:
    """Held-out loss of the ridges that were tried, one curve a degree; the chosen one is marked."""
    degree, ridge, loss = (np.array(tried[name]) for name in ("degree", "ridge", "log_loss"))
    series = []
    for c, d in enumerate(np.unique(degree)):
        mine = np.flatnonzero(degree == d)[::-1]  # from weak to strong
        name = "" if (degree == d).all() else f"degree {d:.0f}"
        series.append({"name": name, "x": ridge[mine], "y": loss[mine], "marks": True, "key": c})
    x, y = charts.axis("ridge", log=True), charts.axis(f"held-out log loss (nats a {of})")
    rows = list(zip(degree, ridge, loss, strict=True))
    caption = f"Of each ridge that was tried, the loss on rows that were held out; {chosen:.3g} was taken."
    more = {"caption": caption, "mark": chosen, "wide": True, "show": len(series) > 1}
    return charts.lines("How the ridge was chosen", x, y, series, ["degree", "ridge", "log loss"], rows, **more)


def strongest(title: str, unit: str, names: Sequence[str], values: Sequence[float] | Array, **more: Any) -> charts.Chart:
    """The first of many, strongest first, each of which can be chosen."""
    return charts.bar(title, unit, names[:BARS], values[:BARS], keys=list(range(len(names[:BARS]))), **more)


def network(title: str, names: Sequence[str], strength: Array, caption: str, directed: bool = False, **more: Any) -> Any:
    """As `ring`; None where there is nothing to see."""
    return None if len(strength) < 3 or not np.any(strength > 0) else ring(title, names, strength, caption, directed, **more)


def ring(
    title: str, names: Sequence[str], strength: Array, caption: str, directed: bool, limits: Any = (LINKS, NODES, 0.02), **more: Any
) -> charts.Chart:
    """Variables on a ring, joined where they act together; `strength` (n, n), the thickness of the lines.

    `limits`: how many lines and variables there are at most, and the least share of the strongest line.
    """
    links, nodes, least = limits
    S = np.maximum(strength, strength.T) if not directed else np.maximum(strength, 0)
    n = len(S)
    kept = np.sort(np.argsort(-(S.sum(axis=0) + S.sum(axis=1)), kind="stable")[:nodes])
    S = S[np.ix_(kept, kept)]
    joined = np.argwhere(~np.eye(len(S), dtype=bool) if directed else np.triu(np.ones_like(S), 1)).tolist()
    pairs = [(a, b) for a, b in sorted(joined, key=lambda ab: -S[*ab])[:links] if S[a, b] > least * S.max()]
    turn = np.empty(len(kept))
    turn[_round(S)] = 2 * np.pi * np.arange(len(kept)) / len(kept)
    called = [names[i] for i in kept]
    arrow = "→" if directed else "–"
    tips = []
    for i, name in enumerate(called):
        near = sorted(((S[a, b], b if a == i else a) for a, b in pairs if i in (a, b)), reverse=True)[:6]
        tips.append("\n".join([name, *(f"{arrow} {called[j]}: {s:.3g}" for s, j in near)]))
    few = f" {nodes} of {n:,} variables." if n > nodes else ""
    caption += f" Thicker lines are stronger; the {len(pairs)} strongest are drawn.{few}"
    heads, rows = ["variable", "variable", "strength"], [[called[a], called[b], S[a, b]] for a, b in pairs]
    lines = [{"a": a, "b": b, "w": S[a, b] / S.max()} for a, b in reversed(pairs)]
    look = {"keys": kept.tolist(), **more, "links": lines, "words": called, "directed": directed, "ring": True}
    look |= {"bare": True, "equal": True, "caption": caption}
    none = charts.axis("")
    return charts.points(title, none, none, np.sin(turn), np.cos(turn), None, tips, heads, rows, **look)


def _round(S: Array) -> np.ndarray:
    """An order around the ring in which strong neighbours are near: from each to the strongest that is left."""
    T = S + S.T
    left, order = set(range(len(S))), [int(T.sum(axis=0).argmax())]
    while left := left - {order[-1]}:
        order.append(max(left, key=lambda j: (T[order[-1], j], -j)))
    return np.array(order)


def pair_strength(groups: Sequence[tuple[int, ...]], strength: Array, n: int) -> Array:
    """(n, n) root of the summed squares of all terms that hold both variables.

    >>> pair_strength([(0,), (0, 1), (0, 1, 2)], np.array([9.0, 3.0, 4.0]), 3).tolist()
    [[0.0, 5.0, 4.0], [5.0, 0.0, 4.0], [4.0, 4.0, 0.0]]
    """
    S = np.zeros((n, n))
    for group, size in zip(groups, strength, strict=True):
        for a, b in combinations(group, 2):
            S[a, b] += size**2
    return np.sqrt(S + S.T)
