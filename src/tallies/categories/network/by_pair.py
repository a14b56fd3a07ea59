"""A ridge for each pair of a network, found from the sizes of its couplings, while held-out rows prefer it."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from tallies.categories.choose import Ground, Path, attempt
from tallies.engine import Kept, Stage
from tallies.maths import Array

STRICTER = 10.0  # 1 / squared scale of the prior by pair, in common ridges: of 1, 3 and 10 the best on simulated networks
ROUNDS = 5  # of ridges by pair: 10 gave nothing more
SURE = 1.0  # standard errors by which held-out rows must prefer ridges by pair (the rule of Breiman et al. 1984)


def pair_ridges(sizes: Array, m: Sequence[int], ridge: float, rows: float) -> Array:
    """(n, n)  the ridge of each pair that couplings of these squared sizes ask for: strong where they are weak.

    A block with a Student prior of one degree of freedom, whose log is -(1 + d)/2 log(1/(STRICTER ridge) + |V_jk|^2), is pulled
    as by a ridge of (1 + d) / (1/(STRICTER ridge) + |V_jk|^2). For d stands how many of its (m_j - 1)(m_k - 1) free couplings
    the rows tell in spite of the ridge, the others being small for want of rows (MacKay 1992).
    """
    told = rows / np.outer(m, m)
    free = np.outer(np.subtract(m, 1), np.subtract(m, 1)) * told / (told + ridge)
    return (1 + free) / (1 / (STRICTER * ridge) + sizes)


def ridges_by_pair(ground: Ground, path: Path, rows: float) -> Generator[Stage, Kept, tuple[Array | None, Path]]:
    """Rounds of ridges by pair, while held-out rows prefer each; None where they refuse the first. And where the search ended."""
    ridge, m, best = path.ridge, ground.model.outputs, None
    kept = yield attempt(ground, f"ridge {ridge:.3g} again", ridge, path.end)
    before, W = kept.value.told, path.W
    for number in range(ROUNDS):
        if kept.cut:
            break
        pairs = pair_ridges(kept.value.sizes, m, ridge, rows)
        kept = yield attempt(ground, f"ridges by pair, round {number + 1}", ridge, kept, before.sum(), pairs)
        gain = kept.value.told - before
        if kept.cut or gain.sum() <= SURE * gain.std() * len(gain) ** 0.5:
            break
        best, before, W = pairs, kept.value.told, kept.value.W
    return best, path._replace(W=W, end=kept)
