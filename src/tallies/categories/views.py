"""The pictures of models of categories: signed weights by name, tables of one term, networks of variables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from tallies.html import charts
from tallies.maths import Array

BARS = 24  # weights in a picture
TERMS = 200  # terms that can be looked at one by one: the strongest
NODES = 60  # variables in a network: the most connected
LINKS = 80  # lines in a network: the strongest
STATES = 40  # states of a variable in a table


def signed(
    title: str, names: Sequence[str], weights: Array, errors: Array | None, for_: str, against: str, **more: Any
) -> charts.Chart:
    """The largest weights, those that speak for something first, with twice their standard errors where they are known."""
    top = np.argsort(-np.abs(weights), kind="stable")[:BARS]
    top = top[np.argsort(-weights[top], kind="stable")]
    note = f"Positive weights speak for {for_}, negative ones {against}."
    told, look = [weights], {}
    if errors is not None:
        told, look = [weights, errors], ends(weights, errors, top)
        note += " Lines are two standard errors (bootstrap) to each side."
    some = f" The {BARS} largest of {len(weights):,}." if len(weights) > BARS else ""
    chart = charts.bar(title, "weight (log odds, zero-sum)", [names[i] for i in top], weights[top], look=look, **more)
    columns, rows = ["what", "weight", "standard error"][: 1 + len(told)], [[names[i], *(v[i] for v in told)] for i in top]
    return chart | {"columns": columns, "rows": rows, "caption": note + some}


def ends(values: Array, errors: Array, top: np.ndarray) -> dict[str, Array]:
    """Two standard errors to each side of the values at `top`."""
    return {"low": values[top] - 2 * errors[top], "high": values[top] + 2 * errors[top]}


def table(title: str, block: Array, labels: Sequence[Sequence[str]], variables: Sequence[str], what: str) -> charts.Chart:
    """The weights of one term as a matrix; of three and more variables, combinations stand at the side."""
    across = list(labels[-1])
    down = [" & ".join(states) for states in product(*labels[:-1])] if len(labels) > 1 else [what]
    values = block.reshape(len(down), len(across))
    some = " Only the states of largest weights are shown." if max(values.shape) > STATES else ""
    keep = [np.sort(np.argsort(-np.abs(values).max(axis=axis), kind="stable")[:STATES]) for axis in (1, 0)]
    values, down, across = values[np.ix_(*keep)], [down[i] for i in keep[0]], [across[i] for i in keep[1]]
    reach = max(float(np.abs(values).max()), 1e-9)
    texts = [[f"{v:+.2f}" for v in row] for row in values]
    tips = [[f"{a}\n{b}\nweight {v:+.3f}" for b, v in zip(across, row, strict=True)] for a, row in zip(down, values, strict=True)]
    x, y, caption = variables[-1], " & ".join(variables[:-1]) or "weight", f"{what[:1].upper()}{what[1:]}: red for, blue against."
    look = {"scale": "sign", "domain": [-reach, reach], "caption": caption + some}
    return charts.heat(title, x, y, across, down, values, texts, tips, **look)


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
