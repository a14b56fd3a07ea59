"""The families, by name alone: nothing is imported until it is asked for.

A family is a room: a folder with the same furniture as the others. A new one is one more `Family` here.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """An estimator, and which modules of its room know it."""

    name: str  # of the class
    home: str  # module with the class
    help: str  # what it is for, in one line
    page: str = "page"  # module with page(model, about, *data, **options) -> Page
    command: str = "command"  # module with its command: see `tallies.cli.fit`

    @property
    def word(self) -> str:
        """Its name on the command line.

        >>> Entry("FEMNetwork", "network", "").word, Entry("GDA", "gda", "").word
        ('fem-network', 'gda')
        """
        return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", self.name).lower()


class Family(NamedTuple):
    """A room and its estimators."""

    room: str
    entries: tuple[Entry, ...]


FAMILIES = (
    Family(
        "bayes",
        (
            Entry("GDA", "gda", "A Gaussian for every class; empty cells are missing and summed out."),
            Entry("NaiveBayes", "naive_bayes", "Numbers, counts and categories together; empty cells are summed out."),
        ),
    ),
    Family("topics", (Entry("LDA", "estimator", "Topics of texts: latent Dirichlet allocation by Gibbs sampling."),)),
    Family("counts", (Entry("PLN", "estimator", "Counts of many species in many samples: Poisson log-normal models."),)),
    Family(
        "categories",
        (
            Entry("FEM", "fem", "How combinations of categories shape an outcome: named interactions, probabilities."),
            Entry("FEMNetwork", "network", "Which variables of a table, a series or an alignment are coupled.", "network_page"),
        ),
    ),
    Family("concepts", (Entry("AuthorConcept", "estimator", "Which concept of an ontology each sentence speaks of."),)),
)

ENTRIES = {entry.name: (family.room, entry) for family in FAMILIES for entry in family.entries}
WORDS = {entry.word: name for name, (_, entry) in ENTRIES.items()}  # names on the command line -> classes


def homes() -> dict[str, str]:
    """The module of every estimator, by the name of its class."""
    return {name: f"tallies.{room}.{entry.home}" for name, (room, entry) in ENTRIES.items()}


def estimator(name: str) -> Any:
    """The class of that name.

    >>> estimator("GDA").__name__
    'GDA'
    """
    return getattr(import_module(homes()[name]), name)


def furniture(model: Any, what: str) -> Any:
    """The module "page" or "command" of a fitted model; None where the model belongs to no family of ours.

    >>> furniture(estimator("GDA")(), "page").__name__
    'tallies.bayes.page'
    """
    for cls in type(model).__mro__:
        if cls.__name__ in ENTRIES and cls.__module__.startswith("tallies."):
            room, entry = ENTRIES[cls.__name__]
            return import_module(f"tallies.{room}.{getattr(entry, what)}")
    return None
