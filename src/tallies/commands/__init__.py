"""What the command line does for each family: read the data, fit, predict, score. `tallies.cli` parses, these modules act."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# class name of a model -> module with: predict, score, sample (each: model, options of the run, ... -> table or dict)
FAMILIES = {
    "AuthorConcept": "tallies.commands.concepts",
    "FEM": "tallies.commands.fem",
    "FEMNetwork": "tallies.commands.fem",
    "GDA": "tallies.commands.classifiers",
    "LDA": "tallies.commands.topics",
    "NaiveBayes": "tallies.commands.classifiers",
    "PLN": "tallies.commands.counts",
}


def family(model: Any) -> Any:
    """The command module of a fitted model."""
    return import_module(FAMILIES[type(model).__name__])
