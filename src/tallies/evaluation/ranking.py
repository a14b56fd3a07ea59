"""How well answers in an order are ranked: where the first right one stands, and whether it is among the first few."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

Answers = Sequence[Sequence[Any]]  # of each question, the best first
Right = Sequence[Collection[Any]]  # those of each question that are right


def reciprocal_rank(rows: Answers, gold: Right) -> np.ndarray:
    """(n,) 1 / place of the first right answer, 0 without one; its mean is the MRR.

    >>> reciprocal_rank([["a", "b", "c"], ["a", "b"], ["a"]], [{"c", "b"}, {"a"}, {"d"}]).tolist()
    [0.5, 1.0, 0.0]
    """
    found = [next((1.0 / i for i, g in enumerate(row, 1) if g in right), 0.0) for row, right in zip(rows, gold, strict=True)]
    return np.array(found)


def hit_rate(rows: Answers, gold: Right, k: int) -> float:
    """Share of the questions with a right answer among the first k.

    >>> hit_rate([["a", "b", "c"], ["a", "b"], ["c"]], [{"c"}, {"b"}, {"d"}], 2)
    0.333...
    """
    return float(np.mean([any(g in right for g in row[:k]) for row, right in zip(rows, gold, strict=True)]))


def macro_recall(rows: Answers, gold: Right, k: int) -> float:
    """Share of its questions where a right answer is among the first k, mean over the answers that are right somewhere.

    >>> macro_recall([["a", "b"], ["b"], ["c"]], [{"a"}, {"a"}, {"c", "b"}], 1)       # a: 1 of 2, c: 1 of 1, b: 0 of 1
    0.5
    """
    hits: dict[Any, list[bool]] = {}
    for row, several in zip(rows, gold, strict=True):
        for g in several:
            hits.setdefault(g, []).append(g in row[:k])
    return float(np.mean([np.mean(found) for found in hits.values()]))
