"""The families, by name alone: nothing is imported until it is asked for.

A family is a room: a folder with the same furniture as the others. A new one is one more `Family` here; its names in Python, its
commands, its pages and its part of the demo follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """An estimator, and which modules of its room know it."""

    name: str  # of the class
    home: str  # module with the class
    help: str  # what it is for, in one line
    page: str = "page"  # module with page(model, about, *data, **options) -> Page
    command: str = "command"  # module with its command: see `tallies.cli`

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
    extras: Mapping[str, str] = {}  # further public names, and the modules of the room that have them


FAMILIES = (  # in the order of help and gallery
    Family("topics", (Entry("LDA", "estimator", "Topics of texts: latent Dirichlet allocation by collapsed Gibbs sampling."),)),
    Family(
        "counts",
        (
            Entry(
                "PLN",
                "estimator",
                "Counts of many species in many samples: the Poisson log-normal model, or PLN-PCA with --rank.",
            ),
        ),
        {"Importance": "importance", "read_counts": "tables"},
    ),
    Family(
        "categories",
        (
            Entry("FEM", "fem", "How combinations of categories shape an outcome: named interactions, calibrated probabilities."),
            Entry(
                "FEMNetwork",
                "network",
                "The coupling network of a table of categories, of a time series, or of an alignment.",
                "network_page",
                "network_command",
            ),
        ),
    ),
    Family(
        "concepts",
        (Entry("AuthorConcept", "estimator", "Which concept of an ontology each sentence speaks of, given who wrote it."),),
        {"Mention": "settings", "Multinomial": "settings"},
    ),
    Family(
        "bayes",
        (
            Entry(
                "GDA", "gda", "Gaussian discriminant analysis: a Gaussian for every class; empty cells are missing and summed out."
            ),
            Entry(
                "NaiveBayes",
                "naive_bayes",
                "Naive Bayes for numbers, counts and categories together; empty cells are missing and summed out.",
            ),
        ),
    ),
)

ENTRIES = {entry.name: (family.room, entry) for family in FAMILIES for entry in family.entries}
WORDS = {entry.word: name for name, (_, entry) in ENTRIES.items()}  # names on the command line -> classes


def homes() -> dict[str, str]:
    """The module of every public name that a family has."""
    names = {name: (room, entry.home) for name, (room, entry) in ENTRIES.items()}
    names |= {name: (family.room, home) for family in FAMILIES for name, home in family.extras.items()}
    return {name: f"tallies.{room}.{home}" for name, (room, home) in names.items()}


def estimator(name: str) -> Any:
    """The class of that name.

    >>> estimator("GDA").__name__
    'GDA'
    """
    return getattr(import_module(homes()[name]), name)


def part(name: str, what: str) -> Any:
    """The module "page" or "command" of the class of that name; None where its room has no such module.

    >>> part("GDA", "page").__name__
    'tallies.bayes.page'
    """
    room, entry = ENTRIES[name]
    module = f"tallies.{room}.{getattr(entry, what)}"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None


def furniture(model: Any, what: str) -> Any:
    """The module "page" or "command" of a fitted model; None where the model belongs to no family of ours."""
    for cls in type(model).__mro__:
        if cls.__name__ in ENTRIES and cls.__module__.startswith("tallies."):
            return part(cls.__name__, what)
    return None


def rooms(what: str) -> Iterator[Any]:
    """The module of that name in every room that has one."""
    for family in FAMILIES:
        if find_spec(f"tallies.{family.room}.{what}") is not None:
            yield import_module(f"tallies.{family.room}.{what}")
