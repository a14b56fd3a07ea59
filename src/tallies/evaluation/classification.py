"""How well a classifier tells classes apart: accuracy, log loss, Brier score, confusion matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, confusion_matrix

from tallies.data.labels import label_codes
from tallies.evaluation.score import Scored


def classification(model: Any, X: Any, y: Any, joint: Scored | None = None, **beside: Any) -> dict[str, Any]:
    """Measures on labelled rows; log loss and Brier are means over rows, smaller is better; `joint`: its `_evaluate`, if at hand;
    `beside`: what else the model wants to know of these rows.

    >>> import tallies
    >>> model = tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"])
    >>> result = classification(model, [[0.2], [5.5], [5.9]], ["a", "b", "a"])
    >>> round(result["accuracy"], 3), result["confusion"]
    (0.667, [[1, 1], [0, 1]])
    """
    log_p = model.predict_log_proba(X, **beside)
    n, K = log_p.shape
    codes = label_codes(y, n, model.classes_)
    found = log_p.argmax(axis=1)
    joint = joint or model._evaluate(X, y, **beside)
    return {
        "rows": n,
        "accuracy": float(accuracy_score(codes, found)),
        "log_loss": float(-log_p[np.arange(n), codes].mean()),  # scikit-learn's would take an impossible class for one of 1e-16
        "brier": float(((np.exp(log_p) - np.eye(K)[codes]) ** 2).sum(axis=1).mean()),  # of many classes: scikit-learn 1.7 on
        "log_likelihood": joint.value,
        "log_likelihood_stderr": joint.stderr,
        "kind": joint.kind,
        "classes": model.classes_.tolist(),
        "confusion": confusion_matrix(codes, found, labels=np.arange(K)).tolist(),
    }
