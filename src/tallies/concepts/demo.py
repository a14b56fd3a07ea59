"""AuthorConcept in the gallery of `tallies demo`."""

from __future__ import annotations

from typing import Any

from tallies.concepts.estimator import AuthorConcept
from tallies.datasets import docstrings, ontology
from tallies.demo import Exhibit


def _concepts() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    data = docstrings()
    corpus = data.corpus(sentences=True)
    return AuthorConcept().fit(corpus, ontology()), (corpus,), {"data_name": data.about}


EXHIBITS = (Exhibit("concepts.html", "What scientific Python speaks of", _concepts),)
