"""How good ranked lists of concepts are, when each item has one or more right answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np


class RankingScore(NamedTuple):
    """Means over items; larger is better."""

    hit1: float  # the first answer is right
    hit10: float  # a right answer is among the first ten
    mrr: float  # 1 / place of the first right answer, 0 if it is not in the list
    macro_recall10: float  # share of its items where an answer is among the first ten, mean over the answers that occur
    items: int


def ranking_score(ranked: Sequence[Sequence[Any]], right: Sequence[Collection[Any]]) -> RankingScore:
    """Score lists of answers, best first, against the right answers; items without a right answer are left out.

    >>> ranking_score([["a", "b"], ["c", "a"], ["c"]], [{"a"}, {"a", "x"}, set()])
    RankingScore(hit1=0.5, hit10=1.0, mrr=0.75, macro_recall10=0.5, items=2)
    """
    items = [(row, answers) for row, answers in zip(ranked, right, strict=True) if len(answers)]
    if not items:
        raise ValueError("no item has a right answer, so there is nothing to score")
    at = np.array([next((i for i, answer in enumerate(row) if answer in answers), np.inf) for row, answers in items])
    found: dict[Any, list[bool]] = {}
    for row, answers in items:
        for answer in answers:
            found.setdefault(answer, []).append(answer in row[:10])
    macro = float(np.mean([np.mean(hits) for hits in found.values()]))
    return RankingScore(float(np.mean(at == 0)), float(np.mean(at < 10)), float(np.mean(1.0 / (at + 1.0))), macro, len(at))
