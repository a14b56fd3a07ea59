"""Data that come once, in batches: what `partial_fit` loses against a fit to all of them.

    python benchmarks/streams.py DATA [--topics 50] [--batches 10 50] [--seeds 2]
    python benchmarks/streams.py pln [--batches 10 50 200]
    python benchmarks/streams.py fem [--batches 10 50 200] [--strength 0.7]

DATA as for benchmarks/lda.py; "pln": 4,000 rows of 20 counts and a covariate, drawn from a PLN, and 2,000 more to score by; "fem": 4,000
rows of 12 categories of 4 states and a label of 3 classes, drawn from a FEM of degree 1, and 20,000 more to score by. The words are those of the whole corpus; documents come in a random order, the first batch is fitted
as any corpus is, each later one is added by `partial_fit`. All are scored on the same held-out documents.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from lda import read

from tallies import FEM, LDA, PLN, evaluate
from tallies.categories import stream


def counts(batches: list[int]) -> None:
    """What rows of counts lose that come once."""
    rng, n, p = np.random.default_rng(0), 4000, 20
    A = rng.normal(size=(p, 5))
    X = np.column_stack([np.ones(n + 2000), rng.normal(size=n + 2000)])
    B = np.vstack([rng.normal(0.5, 1.0, p), rng.normal(0.0, 0.5, p)])
    Y = rng.poisson(np.exp(X @ B + rng.multivariate_normal(np.zeros(p), A @ A.T / 5 + 0.3 * np.eye(p), size=n + 2000)))
    print("| batches | bound of a held-out row | processor seconds |\n|---|---|---|")
    for parts in [1, *batches]:
        began, model = time.process_time(), PLN()
        for part in np.array_split(np.arange(n), parts):
            model.partial_fit(Y[part], covariates=X[part], progress=False)
        took = time.process_time() - began
        print(f"| {parts} | {model.score(Y[n:], covariates=X[n:]):.4f} | {took:.1f} |", flush=True)


def categories(batches: list[int], strength: float) -> None:
    """What rows of categories lose that come once, by how much of earlier ones counts."""
    rng, n, M = np.random.default_rng(0), 4000, 3
    X, W = rng.integers(4, size=(n + 20_000, 12)), rng.normal(0.0, strength, (12, 4, M))
    h = W[np.arange(12), X].sum(axis=1)
    y = (h + rng.gumbel(size=h.shape)).argmax(axis=1)
    print("| batches | share | log likelihood of a held-out row | processor seconds |\n|---|---|---|---|")
    for parts, share in [(1, 1.0), *((parts, share) for parts in batches for share in (1.0, 0.5, 0.25))]:
        stream.REMEMBERED = share
        began, model = time.process_time(), FEM(ridge=1.0)
        for part in np.array_split(np.arange(n), parts):
            model.partial_fit(X[part], y[part], classes=range(M), progress=False)
        took = time.process_time() - began
        print(f"| {parts} | {share} | {evaluate(model, X[n:], y[n:]).value:.4f} | {took:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=150)
    parser.add_argument("--batches", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--strength", type=float, default=0.7, help="of the weights of fem")
    parser.add_argument("--seeds", type=int, default=2)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.data == "pln":
        return counts(asked.batches)
    if asked.data == "fem":
        return categories(asked.batches, asked.strength)
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
