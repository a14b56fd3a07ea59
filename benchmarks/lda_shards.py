"""What several shards of LDA cost (AD-LDA): held-out perplexity of one sample at equal sweeps, median and range of seeds.

    python benchmarks/lda_shards.py [DATA] [--shards 1 2 8 32] [--seeds 3] [--marks 20 40 60 100 150]

DATA as for benchmarks/lda.py; without it, documents of 200 tokens drawn from an LDA of 200 topics and 20,000 words, a tenth of which judge.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from lda import read, to_counts
from scale import documents

import tallies
from tallies import LDA
from tallies.topics import sampler
from tallies.topics.scores import Topics, completion


def drawn(n: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Counts to fit, and to score."""
    sizes, words = (np.concatenate(parts) for parts in zip(*documents(n), strict=True))
    X = to_counts(words, np.concatenate([[0], np.cumsum(sizes)]), int(words.max()) + 1)
    held = np.arange(n) % 10 == 9
    return X[~held], X[held]


def curve(X: sp.csr_array, held: sp.csr_array, shards: int, seed: int, asked: Any) -> list[float]:
    """Perplexity at every mark."""
    found: list[float] = []

    def look(stage: Any, state: Any) -> None:
        if len(state.objective) in asked.marks:
            alone = len(stage.sources) == 1
            n_wk = sampler.word_counts(stage.sources[0].load(), state.latents[0].counts) if alone else state.params.n_wk
            phi = n_wk.toarray() + state.params.beta
            topics = Topics(
                np.ascontiguousarray(phi / phi.sum(axis=0), dtype=np.float32), np.asarray(state.params.alpha, dtype=float)
            )
            found.append(float(np.exp(-completion(held, [topics], np.random.default_rng(0)).value)))

    settings = {"alpha": 0.1, "max_iter": max(asked.marks), "burn_in": max(asked.marks)}
    with tallies.backend("threads", workers=1):
        LDA(n_topics=asked.topics, shards=shards, random_state=seed, **settings).fit(X, progress=False, callback=look)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?")
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 8, 32])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--marks", type=int, nargs="+", default=[20, 40, 60, 100, 150])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    X, held = drawn(asked.documents) if asked.data is None else read(asked.data)
    print(f"{X.shape[0]:,} documents, {X.data.sum():,} tokens\n")
    print(f"| shards | {' | '.join(map(str, asked.marks))} |\n|---|{'---|' * len(asked.marks)}")
    for shards in asked.shards:
        curves = np.array([curve(X, held, shards, seed, asked) for seed in range(asked.seeds)])
        cells = [f"{np.median(at):.0f} ({at.min():.0f} to {at.max():.0f})" for at in curves.T]
        print(f"| {shards} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
