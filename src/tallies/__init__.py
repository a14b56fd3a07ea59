"""Generative models for words, counts and categories: fit in one line, see what was learned, trust the number."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallies._version import __version__
from tallies.registry import homes

if TYPE_CHECKING:
    from tallies.backends import backend
    from tallies.bayes.gda import GDA
    from tallies.bayes.naive_bayes import NaiveBayes
    from tallies.categories.fem import FEM
    from tallies.categories.network import FEMNetwork
    from tallies.concepts.estimator import AuthorConcept
    from tallies.counts.estimator import PLN
    from tallies.counts.tables import read_counts
    from tallies.data.corpus import Corpus
    from tallies.data.ontology import Ontology
    from tallies.estimator import load
    from tallies.evaluation.score import Score, compare, evaluate
    from tallies.topics.estimator import LDA

# names are imported when first used: scikit-learn and numba take a second that `tallies --help` should not
_HOMES = {
    **homes(),
    "Corpus": "tallies.data.corpus",
    "Ontology": "tallies.data.ontology",
    "read_counts": "tallies.counts.tables",
    "backend": "tallies.backends",
    "load": "tallies.estimator",
    "Score": "tallies.evaluation.score",
    "evaluate": "tallies.evaluation.score",
    "compare": "tallies.evaluation.score",
}

__all__ = [
    "FEM",
    "GDA",
    "LDA",
    "PLN",
    "AuthorConcept",
    "Corpus",
    "FEMNetwork",
    "NaiveBayes",
    "Ontology",
    "Score",
    "__version__",
    "backend",
    "compare",
    "evaluate",
    "load",
    "read_counts",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tallies' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
