"""How well a classifier tells classes apart: accuracy, log loss, Brier score, confusion matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.data.labels import label_codes


def classification(model: Any, X: Any, y: Any) -> dict[str, Any]:
    """Measures on labelled rows; log loss and Brier are means over rows, smaller is better.

    >>> import tallies
    >>> model = tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"])
    >>> result = classification(model, [[0.2], [5.5], [5.9]], ["a", "b", "a"])
    >>> round(result["accuracy"], 3), result["confusion"]
    (0.667, [[1, 1], [0, 1]])
    """
    log_p = model.predict_log_proba(X)
    n, K = log_p.shape
    codes = label_codes(y, n, model.classes_)
    truth = np.eye(K)[codes]
    found = log_p.argmax(axis=1)
    confusion = np.zeros((K, K), dtype=int)
    np.add.at(confusion, (codes, found), 1)
    joint = model._evaluate(X, y)
    return {
        "rows": n,
        "accuracy": float((found == codes).mean()),
        "log_loss": float(-log_p[np.arange(n), codes].mean()),
        "brier": float(((np.exp(log_p) - truth) ** 2).sum(axis=1).mean()),
        "log_likelihood": joint.value,
        "log_likelihood_stderr": joint.stderr,
        "kind": joint.kind,
        "classes": model.classes_.tolist(),
        "confusion": confusion.tolist(),
    }
