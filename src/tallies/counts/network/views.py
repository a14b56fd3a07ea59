"""The pictures of a network of counts: the graph, its matrix, who is joined to whom, the path of penalties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csgraph, csr_array

from tallies.counts.network import answers
from tallies.html import charts
from tallies.html.order import alike
from tallies.maths import Array

NODES = 150  # columns in the graph: those of the strongest edges
LINKS = 400  # edges in it
PLACED = 500  # columns from which on only those in some graph find a place: each pair of them pulls or pushes 300 times
MATRIX = 200  # columns in the matrix
COLOURS = 8  # communities told apart by colour
BARS = 20  # edges in a picture


def layout(P: Array, steps: int = 300) -> Array:
    """Places in the plane (p, 2) in which those that are joined are near: forces of Fruchterman and Reingold, always the same.

    >>> P = np.kron(np.eye(2), np.ones((3, 3)))
    >>> Z = layout(P)
    >>> inside, between = np.linalg.norm(Z[0] - Z[1]), np.linalg.norm(Z[0] - Z[4])
    >>> bool(inside < between)
    True
    """
    p = len(P)
    Z = np.random.default_rng(0).normal(size=(p, 2))
    pull, near = np.abs(P) * (1 - np.eye(p)), 1 / np.sqrt(max(p, 1))
    pull = pull / max(float(pull.max()), 1e-12)
    for t in range(steps):
        apart = Z[:, None] - Z[None]
        far = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
        force = near**2 / far**2 - (0.3 + 0.7 * pull) * (pull > 0) * far / near - 0.05 * far
        move = (apart * force[:, :, None]).sum(axis=1)
        size = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-12)
        Z += move / size * np.minimum(size, 0.3 * (1 - t / steps))
    return Z - Z.mean(axis=0)


def groups(model: Any) -> tuple[list[list[str]], str]:
    """Communities, or without networkx the parts of the network that no edge joins, and what they are called."""
    try:
        return model.communities(), "community"
    except ImportError:
        P = model.partial_correlation_
        label, names = csgraph.connected_components(csr_array(P != 0), directed=False)[1], model._columns()
        parts = [[str(names[j]) for j in np.flatnonzero(label == g)] for g in np.unique(label)]
        return sorted((part for part in parts if len(part) > 1), key=len, reverse=True), "part"


def drawn(table: pd.DataFrame, species: Sequence[str]) -> tuple[pd.DataFrame, list[int], list[int], list[int]]:
    """The strongest edges, the places of their ends, and of which species the graph is."""
    shown = table.iloc[np.argsort(-table["partial_correlation"].abs().to_numpy(), kind="stable")[:LINKS]]
    at = {name: j for j, name in enumerate(species)}
    a, b = ([at[name] for name in shown[c]] for c in ("a", "b"))
    return shown, a, b, list(dict.fromkeys(j for pair in zip(a, b, strict=True) for j in pair))[:NODES]


def network(
    table: pd.DataFrame, species: Sequence[str], members: list[list[str]], of: str, Z: Array, title: str
) -> charts.Chart | None:
    """The graph: lines are edges, as wide as their partial correlation, dashed where it is negative; colours are communities."""
    if not len(table):
        return None
    shown, a, b, kept = drawn(table, species)
    place = {j: i for i, j in enumerate(kept)}
    colour = {name: g for g, part in enumerate(members[: COLOURS - 1]) for name in part}
    group = [colour.get(species[j], COLOURS - 1) for j in kept]
    strength = shown["partial_correlation"].to_numpy()
    top = float(np.abs(strength).max())
    pairs = [(place[i], place[j], s) for i, j, s in zip(a, b, strength, strict=True) if i in place and j in place]
    links = [{"a": i, "b": j, "w": abs(s) / top, "dash": bool(s < 0)} for i, j, s in reversed(pairs)]
    degree = np.bincount([i for pair in pairs for i in pair[:2]], minlength=len(kept))
    tips = []
    for i, j in enumerate(kept):
        near = sorted(((s, y if x == i else x) for x, y, s in pairs if i in (x, y)), key=lambda found: -abs(found[0]))[:6]
        tips.append("\n".join([species[j], *(f"{s:+.2f} {species[kept[k]]}" for s, k in near)]))
    names = [f"{of} {g + 1}" for g in range(min(len(members), COLOURS - 1))]
    names += ["others"] if COLOURS - 1 in group else []
    legend = [{"name": name, "key": g if name != "others" else COLOURS - 1} for g, name in enumerate(names)]
    caption = "Joined: species that depend on each other given all others, covariates and effort. Dashed lines are negative; wider "
    caption += f"ones are stronger. {len(pairs)} of {len(table):,} edges are drawn. Choose a species to see its own."
    heads, rows = list(shown.columns), shown.to_numpy().tolist()
    none, look = charts.axis(""), dict[str, Any](keys=kept, select="species", words=[species[j] for j in kept], links=links)
    look |= {"bare": True, "caption": caption, "wide": True, "sizes": degree / max(int(degree.max()), 1), "legend": legend}
    return charts.points(title, none, none, Z[kept, 0], Z[kept, 1], group, tips, heads, rows, **look)


def by_probability(model: Any, species: Sequence[str], levels: Sequence[float]) -> charts.Chart | None:
    """The graph, with a view for each least probability."""
    table, (members, of) = model.edges_, groups(model)
    Z, some = np.zeros((len(species), 2)), np.arange(len(species))
    if len(species) > PLACED:
        parts = [table[~(table["probability"] < level)] for level in (0.0, *levels)]
        some = np.unique([j for part in parts for j in drawn(part, species)[3]]).astype(int)
    Z[some] = layout(model.partial_correlation_[np.ix_(some, some)])
    every = network(table, species, members, of, Z, "The network")
    if every is None or not levels:
        return every
    views = []
    for level in levels:
        some = table[table["probability"] >= level]
        title = f"Edges chosen in {level:.0%} of the subsamples" + " or more" * (level < 1)
        nothing = {**every, "title": title, "links": [], "rows": [], "caption": "No edge was chosen that often."}
        views.append(network(some, species, members, of, Z, title) or nothing)
    return charts.follow("probability", views, every)


def joined(model: Any, species: Sequence[str], listed: bool) -> charts.Chart | None:
    """The strongest edges, and those of each species."""
    table, P = model.edges_, model.partial_correlation_
    if not len(table):
        return None
    reach = float(table["partial_correlation"].abs().max())  # one for all species, so that their bars compare
    unit, look = "partial correlation", dict[str, Any]({"domain": [-reach, reach], "wide": True})
    top = table.iloc[np.argsort(-table["partial_correlation"].abs().to_numpy(), kind="stable")[:BARS]]
    labels = [f"{a} – {b}" for a, b in zip(top["a"], top["b"], strict=True)]
    first = charts.bar("Strongest edges", unit, labels, top["partial_correlation"].to_numpy(), **look)
    if not listed:
        return first
    views = []
    for j, name in enumerate(species):
        others = np.flatnonzero((P[j] != 0) & (np.arange(len(P)) != j))
        others = others[np.argsort(-np.abs(P[j, others]), kind="stable")[:BARS]]
        caption = "" if len(others) else f"{name} is joined to none."
        near = others if len(others) else np.array([j])
        values = P[j, near] if len(others) else np.zeros(1)
        views.append(charts.bar(f"Joined to {name}", unit, [species[i] for i in near], values, **look, caption=caption))
    return charts.follow("species", views, first)


def matrix(model: Any, species: Sequence[str]) -> charts.Chart | None:
    """Partial correlations of the species that have edges, those that are joined beside each other."""
    P = model.partial_correlation_ * ~np.eye(len(species), dtype=bool)
    some = np.argsort(-np.abs(P).sum(axis=0), kind="stable")[:MATRIX]
    some = np.sort(some[np.abs(P[some]).sum(axis=1) > 0])
    if len(some) < 3:
        return None
    part = P[np.ix_(some, some)]
    order = alike(np.abs(part) / max(float(np.abs(part).max()), 1e-12) + np.eye(len(some)))[0]
    names, reach = [species[some[i]] for i in order], float(np.abs(part).max())
    caption = "Partial correlations; species that are joined to the same ones are neighbours. Only those with edges."
    look = {
        "scale": "sign",
        "domain": [-reach, reach],
        "unit": "partial correlation",
        "caption": caption,
        "empty": True,
        "wide": True,
    }
    return charts.heat("All edges", "species", "species", names, names, np.round(part[np.ix_(order, order)], 4), **look)


def path(model: Any) -> charts.Chart | None:
    """What was known of each penalty, and which was taken."""
    table = model.path_
    if len(table) < 2:
        return None
    told = {
        "instability": "instability (mean of 2 f (1 - f) over pairs)",
        "ebic": "EBIC (smaller is better)",
        "bic": "BIC (smaller is better)",
    }
    rule = model.fitted_.graph.rule
    what = "instability" if "instability" in table else rule if rule in table else "edges"
    x, y = charts.axis("penalty", log=True), charts.axis(told.get(what, "edges"))
    series = [{"name": "", "x": table["penalty"].to_numpy()[::-1], "y": table[what].to_numpy()[::-1], "marks": True, "key": 0}]
    why = {"bic": "It has the least BIC of those tried.", "ebic": "It has the least EBIC of those tried."}.get(rule or "", "")
    limit = model.fitted_.graph.limit
    if limit is not None:
        ends = table["penalty"].iloc[[-1, 0]].to_numpy()
        series = [{**series[0], "name": "instability"}, {"name": "limit", "x": ends, "y": np.full(2, limit), "key": 1}]
        why = f"It is the smallest whose instability is at most {limit:g} and that joins no more than half of all pairs."
    caption = f"{answers.how(model.fitted_)[0].upper()}{answers.how(model.fitted_)[1:]}. {why}".strip()
    rows = table.drop(columns="chosen").to_numpy().tolist()
    heads = list(table.columns.drop("chosen"))
    return charts.lines("How the penalty was chosen", x, y, series, heads, rows, caption=caption, mark=model.penalty_)
