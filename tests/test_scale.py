"""What a sweep sends and keeps is what the formulas of docs/scale.md say, at more than one size."""

from __future__ import annotations

from pickle import dumps
from typing import Any, NamedTuple

import numpy as np
import pytest

import tallies
from tallies import backends
from tallies.mapped import nbytes
from tallies.topics import sampler

pytestmark = pytest.mark.filterwarnings("ignore::tallies.errors.ConvergenceWarning", "ignore::tallies.errors.DataWarning")
FIXED = 700  # bytes of names and settings, whatever the size


class Sweep(NamedTuple):
    params: Any
    tally: Any  # of all shards
    part: Any  # of the last shard
    kept: int  # bytes of the latents of all rows


@pytest.fixture
def sweeps(monkeypatch):
    """The sweeps of the fits that follow."""
    seen: list[Sweep] = []

    class Noting(backends.Threads):
        def total(self, task, latents, *broadcast, half=None):
            parts = []

            def noted(*given):
                result = task(*given)
                parts.append(result[0])
                return result

            tally, after = super().total(noted, latents, *broadcast, half=half)
            if task.__name__ == "_sweep":
                kept = sum(nbytes(its) for its in self.collect(after) if its is not None)
                seen.append(Sweep(broadcast, tally, parts[-1], kept))
            return tally, after

    monkeypatch.setattr(backends, "Threads", Noting)
    return seen


def near(found: Any, formula: float, fixed: float = FIXED) -> bool:
    """Whether something packed has the bytes of a formula to a tenth, names and settings aside."""
    return 0.9 * formula <= len(dumps(found, protocol=5)) <= 1.1 * formula + fixed


def counts(n: int, p: int) -> np.ndarray:
    rng = np.random.default_rng(p)
    return rng.poisson(np.exp(rng.normal(0.0, 0.5, (n, 5)) @ rng.normal(0.0, 0.4, (5, p)) + 1.0))


@pytest.mark.parametrize(("d", "K"), [(40, 3), (90, 5)])
def test_classifiers(sweeps, d, K):
    rng = np.random.default_rng(0)
    X, y, states = rng.normal(size=(600, d)), np.arange(600) % K, rng.integers(0, 4, (600, d)).astype(str)
    for model, data, params, tally in (
        (tallies.GDA(), X, 8 * (d * d + 2 * K * d), 8 * (d * d + K * d)),
        (tallies.GDA(covariance="class"), X, 8 * (d * d + 2 * K * d), 8 * K * (d * d + d)),
        (tallies.NaiveBayes(), X, 8 * 4 * K * d, 8 * 3 * K * d),
        (tallies.NaiveBayes(), states, None, 8 * 4 * d * K),
    ):
        model.fit(data, y)
        assert near(sweeps[-1].tally, tally)
        assert params is None or near(sweeps[-1].params, params)
        assert sweeps[-1].kept == 0


@pytest.mark.parametrize(("d", "M"), [(30, 3), (80, 6)])
def test_fem(sweeps, d, M):
    rng, p = np.random.default_rng(0), 4 * d
    X, y = rng.integers(0, 4, (4 * p, d)).astype(str), np.arange(4 * p) % M
    tallies.FEM(ridge=1.0, degree=1, solver="lbfgs", max_iter=5).fit(X, y)
    assert near(sweeps[-1].tally, 8 * p * M)
    assert near(sweeps[-1].params, 8 * p * M)


@pytest.mark.parametrize(("V", "K"), [(500, 10), (1500, 40)])
def test_lda_of_several_shards(sweeps, V, K, monkeypatch):
    monkeypatch.setattr(sampler, "FEW", 0)  # tokens of a shard up to which changes are found in another way, and take 12 c
    X = np.random.default_rng(0).poisson(0.1, size=(300, V))
    tallies.LDA(n_topics=K, alpha=0.1, max_iter=10, burn_in=6, thin=1, shards=3, start="random").fit(X)
    L = X.sum(axis=1).max()
    for sweep in sweeps[4], sweeps[-1]:  # before and after burn-in
        params = next(its for its in sweep.params if hasattr(its, "n_wk"))
        assert near(params, 12 * params.n_wk.nnz + 4 * V + 24 * K + 8 * L)
        for tally in (sweep.part, sweep.tally):
            assert near(tally, 8 * tally.n_wk.nnz + 4 * V + 8 * K)


@pytest.mark.parametrize(("p", "d"), [(40, 1), pytest.param(60, 1, marks=pytest.mark.long), (50, 3)])
def test_pln(sweeps, p, d):
    n = 400
    X = np.random.default_rng(0).normal(size=(n, d)) if d > 1 else None
    model = tallies.PLN(max_iter=60, tol=0.0).fit(counts(n, p), covariates=X)
    assert model.design_.shape[1] == d
    largest = max(sweeps, key=lambda sweep: len(dumps(sweep.tally)))
    assert near(largest.tally, 8 * p * p + 8 * p * (d + 1))
    slopes = next(sweep.tally for sweep in sweeps if type(sweep.tally).__name__ == "Slopes")
    assert near(slopes, 8 * p * (d * d + 7 * d + 8))
    assert near(sweeps[-1].params, 8 * p * p + 8 * p * (4 * d + 29), 1500)
    assert sweeps[-1].kept == n * 104 * p


@pytest.mark.parametrize(("p", "q", "d"), [(40, 5, 1), pytest.param(100, 10, 1, marks=pytest.mark.long), (60, 8, 3)])
def test_pln_of_a_rank(sweeps, p, q, d):
    n, k = 300, d + q
    X = np.random.default_rng(0).normal(size=(n, d)) if d > 1 else None
    tallies.PLN(rank=q, n_starts=1, max_iter=40, tol=0.0).fit(counts(n, p), covariates=X)
    renewed = [sweep.tally for sweep in sweeps if sweep.tally.H is not None and sweep.tally.turning is not None]
    assert renewed and all(near(tally, 8 * p * (k * k + k) + 8 * q**3 + 16 * q * q) for tally in renewed)
    assert near(min((sweep.tally for sweep in sweeps), key=lambda tally: len(dumps(tally))), 8 * p * k)
    assert near(sweeps[-1].params, 8 * p * (k * k + 18 * k + 3))
    assert sweeps[-1].kept == n * 8 * (37 * q + 2 * q * q)


@pytest.mark.parametrize(("G", "A"), [(150, 30), (600, 90)])
def test_author_concept(sweeps, G, A):
    rng = np.random.default_rng(0)
    words = ["".join(chr(97 + i // 26**k % 26) for k in range(3)) + "word" for i in range(2 * G)]
    concepts = tallies.Ontology([f"c{g}" for g in range(G)], [f"{words[2 * g]} {words[2 * g + 1]}" for g in range(G)])
    spoken = rng.integers(0, G, (2 * A, 5))
    texts = [" ".join(f"The {words[2 * g]} {words[2 * g + 1]} is here." for g in row) for row in spoken]
    corpus = tallies.Corpus.from_texts(texts, authors=[[f"Author {d % A}"] for d in range(2 * A)], sentences=True)
    model = tallies.AuthorConcept(author_backoff=10.0, max_iter=8).fit(corpus, concepts)
    H, last = G + 1, sweeps[-1]
    params = next(its for its in last.params if hasattr(its, "psi"))
    c, c_new, t = params.psi.own.nnz, last.tally.n_rows.nnz, len(params.seen)
    assert near(params, 24 * H + 16 * c + 16 * A + 16 * t)
    assert near(last.tally, 8 * H + 16 * c_new + 8 * A)
    keep, mentioned = 30, 1  # concepts of each of these sentences
    assert last.kept == pytest.approx(model.n_sentences_ * (8 * keep + 1 + 28 * mentioned), rel=0.1)
