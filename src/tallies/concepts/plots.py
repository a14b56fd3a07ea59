"""Plots of AuthorConcept: what an author writes about, why a sentence speaks of a concept, and the ontology rolled up."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.concepts.answers import expected, place
from tallies.concepts.views import profile
from tallies.data.ontology import lineage
from tallies.errors import DataError
from tallies.html import charts
from tallies.html.draw import draw


def plot_author(model: Any, author: str, n: int = 15, ax: Any = None) -> Any:
    """The n concepts that an author writes most about.

    >>> import tallies
    >>> concepts = tallies.Ontology(["x", "y"], ["cell death", "gene expression"])
    >>> papers = tallies.Corpus.from_texts(["Cell death was seen. A gene is expressed."], authors=[["Ann"]], sentences=True)
    >>> ax = plot_author(tallies.AuthorConcept().fit(papers, concepts), "Ann")
    >>> ax.get_title()
    'What Ann writes about'
    """
    return draw(profile(model, author, n), ax)


def plot_evidence(model: Any, sentence: str, concept: str, authors: Any = None, ax: Any = None) -> Any:
    """What speaks for (red) and against (blue) a concept in a sentence, in log odds: 2.3 makes it ten times as likely.

    >>> import tallies
    >>> concepts = tallies.Ontology(["x", "y", "z"], ["cell death", "gene expression", "biology"], parents=[["z"], ["z"], []])
    >>> papers = tallies.Corpus.from_texts(["Cell death was seen. A gene is expressed."], authors=[["Ann"]], sentences=True)
    >>> model = tallies.AuthorConcept().fit(papers, concepts)
    >>> ax = plot_evidence(model, "Cell death follows.", "x")
    >>> ax.get_xlabel()
    'log odds'
    """
    table = model.explain(sentence, concept, authors)
    name, total = model.concept_names_[place(model.fitted_.concepts, concept)], float(table["log_odds"].sum())
    return draw(charts.bar(f"{name}: {total:+.1f} in all", "log odds", table["what"], table["log_odds"]), ax)


def plot_roll_up(model: Any, below: str | None = None, n: int = 20, ax: Any = None) -> Any:
    """Expected sentences of concepts and all that is below them, the largest first; `below` keeps to one branch of the ontology.

    >>> import tallies
    >>> concepts = tallies.Ontology(["x", "y", "z"], ["cell death", "gene expression", "biology"], parents=[["z"], ["z"], []])
    >>> papers = tallies.Corpus.from_texts(["Cell death was seen. A gene is expressed."], authors=[["Ann"]], sentences=True)
    >>> model = tallies.AuthorConcept().fit(papers, concepts)
    >>> ax = plot_roll_up(model)
    >>> ax.get_yticklabels()[0].get_text()
    'biology'
    """
    n_g = expected(model.fitted_)
    total, title = np.asarray(model.roll_up(n_g)), "what is written about"
    keep = np.ones(len(total), dtype=bool)
    if below is not None:
        g = place(model.fitted_.concepts, below)
        keep = lineage(model.fitted_.concepts.up)[:, [g]].toarray()[:, 0] > 0
        keep[g], title = False, f"{title}, within {model.concept_names_[g]}"
        if not keep.any():
            raise DataError(f"nothing is below {below!r} in the ontology; name a concept with others below it")
    best = [g for g in np.argsort(-total, kind="stable") if keep[g] and total[g] > 0][:n]
    own = [{"name": "of the concept itself", "values": n_g[best]}]
    behind = {"name": "with all below it", "values": total[best]}
    names = [str(model.concept_names_[g]) for g in best]
    return draw(charts.bars(title, charts.axis("expected sentences"), names, own, behind=behind), ax)
