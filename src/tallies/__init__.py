"""Generative models for words, counts and categories: fit in one line, see what was learned, trust the number."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallies._version import __version__ as __version__
from tallies.registry import homes

if TYPE_CHECKING:  # "as" says that a name is public, where __all__ is not a list of words
    from tallies import datasets as datasets
    from tallies.backends import backend as backend
    from tallies.bayes.gda import GDA as GDA
    from tallies.bayes.naive_bayes import NaiveBayes as NaiveBayes
    from tallies.categories.fem import FEM as FEM
    from tallies.categories.network.estimator import FEMNetwork as FEMNetwork
    from tallies.concepts.estimator import AuthorConcept as AuthorConcept
    from tallies.concepts.settings import Mention as Mention
    from tallies.concepts.settings import Multinomial as Multinomial
    from tallies.counts.estimator import PLN as PLN
    from tallies.counts.importance import Importance as Importance
    from tallies.counts.tables import read_counts as read_counts
    from tallies.data.corpus import Corpus as Corpus
    from tallies.data.fasta import read_fasta as read_fasta
    from tallies.data.files import read_table as read_table
    from tallies.data.joined import join_tables as join_tables
    from tallies.data.ontology import Ontology as Ontology
    from tallies.estimator import load as load
    from tallies.evaluation.score import Score as Score
    from tallies.evaluation.score import compare as compare
    from tallies.evaluation.score import evaluate as evaluate
    from tallies.topics.estimator import LDA as LDA

# names are imported when first used: scikit-learn and numba take a second that `tallies --help` should not
_HOMES = {
    **homes(),
    "Corpus": "tallies.data.corpus",
    "Ontology": "tallies.data.ontology",
    "backend": "tallies.backends",
    "join_tables": "tallies.data.joined",
    "load": "tallies.estimator",
    "read_fasta": "tallies.data.fasta",
    "read_table": "tallies.data.files",
    **dict.fromkeys(("Score", "evaluate", "compare"), "tallies.evaluation.score"),
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return import_module("tallies.datasets")
    if name not in _HOMES:
        raise AttributeError(f"module 'tallies' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
