"""Data that come once, in batches: what `partial_fit` loses against a fit to all of them.

    python benchmarks/streams.py DATA [--topics 50] [--batches 10 50] [--seeds 2]

DATA as for benchmarks/lda.py. The words are those of the whole corpus; documents come in a random order, the first batch is fitted
as any corpus is, each later one is added by `partial_fit`. All are scored on the same held-out documents.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from lda import read

from tallies import LDA


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=150)
    parser.add_argument("--batches", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--seeds", type=int, default=2)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    X, held = read(asked.data)
    X = X[np.random.default_rng(0).permutation(X.shape[0])]
    print("| seed | batches | sweeps of a batch | held-out perplexity | seconds |\n|---|---|---|---|---|")
    for seed in range(asked.seeds):
        for batches, sweeps in [(1, asked.sweeps), *((n, s) for n in asked.batches for s in (asked.sweeps, 30))]:
            settings = {"n_topics": asked.topics, "max_iter": sweeps, "burn_in": 2 * sweeps // 3, "random_state": seed}
            began, model = time.perf_counter(), LDA(**settings)
            for part in np.array_split(np.arange(X.shape[0]), batches):
                model.partial_fit(X[part], progress=False)
            print(
                f"| {seed} | {batches} | {sweeps} | {model.perplexity(held):.0f} | {time.perf_counter() - began:.1f} |", flush=True
            )


if __name__ == "__main__":
    main()
