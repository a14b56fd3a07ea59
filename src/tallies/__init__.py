"""Generative models for words, counts and categories: fit in one line, see what was learned, trust the number."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallies._version import __version__
from tallies.models import MODELS

if TYPE_CHECKING:
    from tallies.backends import backend
    from tallies.data.corpus import Corpus
    from tallies.data.counts import read_counts
    from tallies.estimator import load
    from tallies.evaluation.score import Score, compare, evaluate
    from tallies.models.gda import GDA
    from tallies.models.lda import LDA
    from tallies.models.naive_bayes import NaiveBayes
    from tallies.models.pln import PLN

# names are imported when first used: scikit-learn and numba take a second that `tallies --help` should not
_HOMES = {
    **MODELS,
    "Corpus": "tallies.data.corpus",
    "read_counts": "tallies.data.counts",
    "backend": "tallies.backends",
    "load": "tallies.estimator",
    "Score": "tallies.evaluation.score",
    "evaluate": "tallies.evaluation.score",
    "compare": "tallies.evaluation.score",
}

__all__ = [
    "GDA",
    "LDA",
    "PLN",
    "Corpus",
    "NaiveBayes",
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
