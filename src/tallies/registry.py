"""The families, by name alone: nothing is imported until it is asked for.

A family is a room: a folder with the same furniture as the others. A new one is one more line of `FAMILIES`; its names in Python,
its commands, its pages and its part of the demo follow.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """An estimator, and which modules of its room know it."""

    name: str  # of the class
    home: str  # module with the class; its page and command stand beside it
    help: str  # what it is for, in one line

    @property
    def word(self) -> str:
        """Its name on the command line.

        >>> Entry("FEMNetwork", "network.estimator", "").word, Entry("GDA", "gda", "").word
        ('fem-network', 'gda')
        """
        return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", self.name).lower()


FAMILIES = {  # room -> its estimators, in the order of help and gallery
    "topics": [Entry("LDA", "estimator", "Topics of texts: latent Dirichlet allocation by collapsed Gibbs sampling.")],
    "counts": [
        Entry("PLN", "estimator", "Counts of many species in many samples: the Poisson log-normal model, or PLN-PCA with --rank."),
        Entry("PLNNetwork", "network.estimator", "Which species depend on which, given all others: a sparse network of counts."),
        Entry("PLNMixture", "mixture.estimator", "Clusters of samples by their counts: a mixture of Poisson log-normal models."),
        Entry("PLNDiscriminant", "discriminant.estimator", "Which class a sample belongs to, told by its counts."),
    ],
    "categories": [
        Entry("FEM", "fem", "How combinations of categories shape an outcome: named interactions, calibrated probabilities."),
        Entry("FEMNetwork", "network.estimator", "The coupling network of a table of categories, a time series, or an alignment."),
    ],
    "concepts": [Entry("AuthorConcept", "estimator", "Which concept of an ontology each sentence speaks of, given who wrote it.")],
    "bayes": [
        Entry("GDA", "gda", "Gaussian discriminant analysis: a Gaussian for every class; empty cells are missing and summed out."),
        Entry("NaiveBayes", "naive_bayes", "Naive Bayes for numbers, counts and categories in one; empty cells are summed out."),
    ],
}
EXTRAS = {  # further public names of families, and the modules that have them
    "Importance": "counts.importance",
    "read_counts": "counts.tables",
    "Mention": "concepts.settings",
    "Multinomial": "concepts.settings",
}

# class -> what it takes, the best first, and the options of its command that this needs, for `tallies describe`. A file may hold
#   classes     a table of columns, one of which may be a target     numbers     the same, with numbers among the others
#   categories  a table of columns                                   counts      whole numbers from 0 on
#   cells       an AnnData with columns beside its matrix            words       counts of one
#   counted     the same, with counts as its matrix
#   texts       a column of texts, or a folder of them               alignment   sequences of one length
#   ontology    concepts, for texts of another file
SUITS: dict[str, dict[str, str]] = {
    "LDA": {"texts": "", "words": ""},
    **{name: {"counts": ""} for name in ("PLN", "PLNNetwork", "PLNMixture")},
    "PLNDiscriminant": {"counted": "--target COLUMN", "counts": "--covariates FILE --target COLUMN"},
    "FEM": {"classes": "--target COLUMN"},
    "FEMNetwork": {"categories": "", "alignment": ""},
    "AuthorConcept": {"texts": "--ontology FILE", "ontology": ""},
    "GDA": {"numbers": "--target COLUMN", "cells": "--target COLUMN"},
    "NaiveBayes": {"classes": "--target COLUMN", "cells": "--target COLUMN"},
}

ENTRIES = {entry.name: (room, entry) for room, entries in FAMILIES.items() for entry in entries}
WORDS = {entry.word: name for name, (_, entry) in ENTRIES.items()}  # names on the command line -> classes


def homes() -> dict[str, str]:
    """The module of every public name that a family has."""
    names = {name: f"{room}.{entry.home}" for name, (room, entry) in ENTRIES.items()} | EXTRAS
    return {name: f"tallies.{home}" for name, home in names.items()}


def estimator(name: str) -> Any:
    """The class of that name.

    >>> estimator("GDA").__name__
    'GDA'
    """
    return getattr(import_module(homes()[name]), name)


def part(name: str, what: str) -> Any:
    """The module "page" or "command" beside the class of that name; None where there is no such module.

    >>> part("GDA", "page").__name__, part("PLNNetwork", "page").__name__
    ('tallies.bayes.page', 'tallies.counts.network.page')
    """
    return _module(f"{homes()[name].rpartition('.')[0]}.{what}")


def furniture(model: Any, what: str) -> Any:
    """The module "page" or "command" of a fitted model; None where the model belongs to no family of ours."""
    for cls in type(model).__mro__:
        if cls.__name__ in ENTRIES and cls.__module__.startswith("tallies."):
            return part(cls.__name__, what)
    return None


def rooms(what: str) -> list[Any]:
    """The module of that name in every room that has one."""
    return [module for module in (_module(f"tallies.{room}.{what}") for room in FAMILIES) if module is not None]


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
