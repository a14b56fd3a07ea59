"""Classifiers that may be judged by a file."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin

from tallies.data.kinds import from_file


class FileClassifier(ClassifierMixin):
    """A scikit-learn classifier that may be judged by a file."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on rows X with classes y; X may be a file, of whose columns y and `sample_weight` name one."""
        return super().score(*from_file(X, y, sample_weight, model=self))
