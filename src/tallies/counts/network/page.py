"""The report of a network of counts: who depends on whom, how sure that is, and what the covariates do."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.counts.coefficients import separated
from tallies.counts.door import from_files
from tallies.counts.network import views
from tallies.counts.network.answers import SURE, how
from tallies.counts.network.intervals import FEWEST
from tallies.counts.page import LISTED, THIN, effect_table, expected_of, forest, named, quality
from tallies.html.common import About, begin, finish, listing, plural, statisticians, told
from tallies.html.page import Page

LEVELS = (0.5, 0.8, 0.9, 1.0)  # least probabilities that can be chosen
TABLE = 200  # edges in the table
PAIRS = 1 << 21  # rows times pairs of columns from which on intervals would keep a page waiting
HUBS = 3  # species that the first screen names


def page(model: Any, about: About, counts: Any = None, covariates: Any = None, offsets: Any = None, *, colour: Any = None) -> Page:
    """The report of a PLNNetwork; counts add scores and a comparison with what is expected of them. `colour` is passed over."""
    counts, covariates, offsets, _ = from_files(counts, covariates, offsets)
    species, table = [str(c) for c in model._columns()], model.edges_
    Y, rate, ours = expected_of(model, counts, covariates, offsets)
    score = None if counts is None or ours else model._evaluate(counts, covariates, offsets)
    out = begin(model, about, "Network of", _lead(model, species))
    out.findings = _found(model, species)
    rare = [species[j] for j in np.flatnonzero(model.fitted_.data.total < THIN)]
    seldom = f"{plural(len(rare), 'species was', 'species were')} counted fewer than {THIN} times in all ({listing(rare, 5)})"
    out.warnings += told((rare, f"{seldom}: their edges, or that they have none, say little."))
    whole, levels = len(species) <= LISTED, [] if model.selection_probability_ is None else LEVELS
    out.pick("species", "Species", species if whole else [])
    out.pick(
        "probability", "Edges chosen in", [f"{level:.0%} of the subsamples" for level in levels], "any share of the subsamples"
    )
    graph, strongest = views.by_probability(model, species, levels), views.joined(model, species, whole)
    out.hero(graph, strongest)
    face = graph or strongest
    if face is not None:
        out.face = {k: v for k, v in (face.get("none") or face).items() if k != "wide"}
    learned = out.section("learned", "Who is joined to whom")
    learned.text(
        "Two species are joined where one tells something of the other even when all other species, the covariates and the "
        "sampling effort are known. An edge is no proof that one acts on the other: a cause that was not measured joins them, too."
    )
    if len(table):
        some = f"The first {TABLE} of {len(table):,} edges" if len(table) > TABLE else "All edges"
        learned.table(*_edges(model), f"{some}, those chosen most often first", first=0)
    learned.charts(views.matrix(model, species))
    effects = [d for d, column in enumerate(model.design_.T) if np.ptp(column) > 0]
    if effects:
        apart = separated(model.fitted_)
        out.pick("covariate", "Effect of", [named(model, d) for d in effects], "the first")
        shown = forest(model, effects, effect_table(model), apart, species)
        out.section("effects", "What the covariates do").charts(shown)
    choice, path = out.section("choice", "How the penalty was chosen"), views.path(model)
    choice.charts(path)
    if path is None:
        choice.text(how(model.fitted_) + ".", soft=True)
    quality(out, model, Y, rate, ours, species, model.fitted_.data.samples)
    criteria: list[tuple[str, Any, str]] = [
        ("Model", model.algorithm_, f"{int(model.n_parameters_):,} parameters"),
        ("Log likelihood", model.loglik_, "a lower bound, of the fitted counts"),
        ("BIC", model.bic_, "smaller is better, among fits to the same counts"),
        ("EBIC", model.ebic_, "BIC, and a price for the many edges there could be"),
    ]
    if score is not None:
        criteria.append((f"Log likelihood of a sample {about.rows}", score.value, f"{score.unit}, {score.kind}"))
    statisticians(out, criteria)
    facts = [
        ("Samples", len(model.design_)),
        ("Species", len(species)),
        ("Edges", len(table)),
        ("Penalty", float(model.penalty_)),
        ("Covariates", ", ".join(map(str, model.covariate_names_))),
        ("Offsets", model.offsets_rule_),
    ]
    return finish(out, model, about, facts, _CODE, "predict RUN counts.csv", "report RUN counts.csv")


def _edges(model: Any) -> tuple[list[str], list[list[Any]]]:
    """Heads and rows of the table of edges, with intervals where there can be some and they do not take long."""
    (n, d), p, held = model.design_.shape, model.n_features_in_, model.fitted_.data.beyond is None
    told = {"partial_correlation": "partial correlation", "probability": "probability"}
    table = model.edges_
    if held and n * p * (p - 1) / 2 <= PAIRS and n >= FEWEST + d:
        table = model.edge_table()
        told |= {"estimate": "without shrinkage", "lower": "95% from", "upper": "to"}
    pairs, shown = zip(table["a"], table["b"], strict=True), table[list(told)].to_numpy()
    rows = [[f"{a} – {b}", *(None if value != value else value for value in row)] for (a, b), row in zip(pairs, shown, strict=True)]
    return ["species", *told.values()], rows[:TABLE]


def _lead(model: Any, species: list[str]) -> str:
    table, n = model.edges_, plural(len(model.design_), "sample")
    text = f"{plural(len(species), 'species', 'species')} in {n}: {plural(len(table), 'edge')}"
    if model.selection_probability_ is not None and len(table):
        sure = int((table["probability"] >= SURE).sum())
        text += f", of which {sure:,} {'was' if sure == 1 else 'were'} chosen in {SURE:.0%} or more of the subsamples"
    alone = len(species) - len({*table["a"], *table["b"]})
    return f"{text}. {alone:,} species {'is' if alone == 1 else 'are'} joined to none."


def _found(model: Any, species: list[str]) -> list[str]:
    """The surest edges, the species with most of them, and the communities, as sentences."""
    out, table = [], model.edges_
    joined = (model.partial_correlation_ != 0).sum(axis=0) - 1
    for sign, verb in (("+", "rise and fall together"), ("-", "replace each other")):
        some = table[table["sign"] == sign][:HUBS]
        pairs = [f"{a} and {b} ({s:+.2f})" for a, b, s in zip(some["a"], some["b"], some["partial_correlation"], strict=True)]
        out += [f"Given all others, {listing(pairs, HUBS)} {verb}."] * bool(pairs)
    hubs = np.argsort(-joined, kind="stable")[:HUBS]
    if joined.max(initial=0) > 2:
        out.append(f"Most edges: {', '.join(f'{species[j]} ({joined[j]})' for j in hubs)}.")
    members, of = views.groups(model)
    if len(members) > 1:
        out.append(f"{len(members)} {'parts' if of == 'part' else 'communities'}; the largest: {listing(members[0], 6)}.")
    return out


_CODE = """\
model.edges_                            # the table of edges
model.neighbours("oak")                 # those of one species
model.to_networkx()                     # for networkx
model.export("network.graphml")         # for Cytoscape, Gephi"""
