"""What the private topic totals inside a round cost: LDA with P x P blocks beside one block, where the sampler is exact.

    python benchmarks/lda_blocks.py perplexity acl_medium.npz      held-out perplexity at equal sweeps, K=100, median of seeds
    python benchmarks/lda_blocks.py calibration                    corpora drawn from the prior: rank of the true log p(w, z)

In a round every block counts the tokens of each topic for itself, and sums are merged at its end: an approximation for P > 1, which is larger
where a block holds more of the tokens of a topic. If draws come from the posterior, the rank of the truth among them is uniform
over corpora that are drawn from the prior (Talts et al. 2018): mean 0.5, standard error 0.29 / sqrt(corpora).
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from lda import ours, read
from scipy.special import gammaln

import tallies
from tallies.topics import tokens
from tallies.topics.estimator import LDA
from tallies.topics.scores import Topics, completion


def perplexity(options: Any) -> None:
    X, T = read(options.data)

    def score(phi: np.ndarray, alpha: np.ndarray) -> float:
        topics = Topics(np.ascontiguousarray(phi, dtype=np.float32), np.asarray(alpha, dtype=float))
        return float(np.exp(-completion(T, [topics], np.random.default_rng(0)).value))

    for P in options.blocks:
        tokens.block_count = lambda *size, P=P: P
        curves = [ours(X, score, 100, seed + 1, options.marks, 1, 0.1, 0.01) for seed in range(options.seeds)]
        for k, mark in enumerate(options.marks):
            found = sorted(curve[k][1] for curve in curves)
            print(f"P={P} sweep {mark}: {np.median(found):.1f} ({found[0]:.1f} to {found[-1]:.1f})", flush=True)


def corpus(seed: int, K: int, V: int, D: int, length: int, alpha: float, beta: float) -> tuple[sp.csr_array, float]:
    """Counts drawn from the prior, and log p(w, z) of what drew them."""
    rng = np.random.default_rng(seed)
    phi, n_dkw = rng.dirichlet(np.full(V, beta), K), np.zeros((D, K, V), dtype=int)
    for d in range(D):
        for k, n in enumerate(rng.multinomial(length, rng.dirichlet(np.full(K, alpha)))):
            n_dkw[d, k] = rng.multinomial(n, phi[k])
    X = n_dkw.sum(axis=1)
    used = X.sum(axis=0) > 0
    n_kw, n_dk = n_dkw.sum(axis=0), n_dkw.sum(axis=2)
    joint = (gammaln(n_kw + beta) - gammaln(beta)).sum() - (gammaln(n_kw.sum(axis=1) + V * beta) - gammaln(V * beta)).sum()
    joint += (gammaln(n_dk + alpha) - gammaln(alpha)).sum() - D * (gammaln(length + K * alpha) - gammaln(K * alpha))
    return sp.csr_array(X), float(joint) if used.all() else np.nan  # the model knows no word that is not there


def calibration(options: Any) -> None:
    K, alpha, beta = 4, 0.3, 0.5
    for P in options.blocks:
        tokens.block_count = lambda *size, P=P: P
        ranks, apart = [], []
        for seed in range(options.corpora):
            X, truth = corpus(seed, K, 60, 60, 40, alpha, beta)
            if np.isnan(truth):
                continue
            with warnings.catch_warnings(), tallies.backend("threads", workers=1):
                warnings.simplefilter("ignore")
                model = LDA(
                    n_topics=K, alpha=alpha, beta=beta, max_iter=options.sweeps, burn_in=options.sweeps - 1, random_state=seed
                )
                model.fit(X)
            drawn = np.array(model.history_)[options.sweeps // 3 :: 10]
            ranks.append((drawn < truth).mean() + 0.5 * (drawn == truth).mean())
            apart.append((drawn.mean() - truth) / drawn.std())
        n = len(ranks)
        thirds = np.histogram(ranks, [0, 1 / 3, 2 / 3, 1.001])[0].tolist()
        print(
            f"P={P}: {n} corpora, mean rank {np.mean(ranks):.3f} (s.e. {0.289 / np.sqrt(n):.3f}), thirds {thirds}, draws above the "
            f"truth by {np.mean(apart):+.2f} of their standard deviation (s.e. {np.std(apart) / np.sqrt(n):.2f})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("perplexity")
    part.add_argument("data")
    part.add_argument("--marks", type=int, nargs="+", default=[20, 40, 70, 100])
    part.add_argument("--seeds", type=int, default=3)
    other = parts.add_parser("calibration")
    other.add_argument("--corpora", type=int, default=60)
    other.add_argument("--sweeps", type=int, default=600)
    for each in (part, other):
        each.add_argument("--blocks", type=int, nargs="+", default=[1, 4])
    options = parser.parse_args()
    {"perplexity": perplexity, "calibration": calibration}[options.part](options)


if __name__ == "__main__":
    main()
