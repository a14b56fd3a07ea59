"""Held-out scores and coherence of topics: free functions on phi (words x topics), alpha and counts.

Several chains are pooled on their predictive probabilities, never on phi, whose topics have no common order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from tallies.backends import each, on_cluster, over_rows
from tallies.errors import DataError, one_of
from tallies.evaluation.score import Scored
from tallies.maths import ragged
from tallies.sources import held
from tallies.topics.kernels import lists as kernels

BLOCK = 64  # documents of one task: a few milliseconds of work
PIECE = 256  # documents that are sent to a worker of a cluster at least
PIECES = 32  # at most so many of them
BURN_IN, SAMPLES = 20, 30  # sweeps over a new document by Gibbs sampling
MOST_WORK = 1e13  # steps of the left-to-right estimator: hours
EPSILON = 1e-12  # added to joint probabilities in NPMI and C_v, the value of Röder et al. (2015)


class Topics(NamedTuple):
    """All that predictions need of a chain."""

    phi: np.ndarray  # (V, K) float32  word probabilities; halves the memory and costs 1e-7
    alpha: np.ndarray  # (K,)


def by_documents(task: Callable[..., Any], parts: tuple[Any, ...], *broadcast: Any) -> list[Any]:
    """[task(parts, *broadcast)] here, or its results for pieces of the documents on a cluster, in order.

    Each of `parts` has one row a document; `task` is a function of a module, whose result for a document depends on no other.
    """
    D = parts[0].shape[0]
    if not on_cluster() or D == 0:
        return [task(parts, *broadcast)]
    size = max(PIECE, -(-D // PIECES))
    return each(task, held(lambda cut: tuple(part[cut] for part in parts), D, 0, size), *broadcast)


def mixtures(X: sp.csr_array, topics: Topics, n_steps: int = 50, tol: float = 1e-3) -> np.ndarray:
    """theta (documents x topics) of new documents by CVB0, which stops when the topics of a word move by less than `tol`."""
    theta = np.empty((X.shape[0], len(topics.alpha)))

    def task(rows: slice) -> None:
        indptr = X.indptr[rows.start : rows.stop + 1]
        kernels.mixtures(indptr, X.indices, X.data, *topics, n_steps, tol, theta[rows])

    over_rows(task, X.shape[0], BLOCK)
    return theta / theta.sum(axis=1, keepdims=True)


def tokens_of(X: sp.csr_array, d: int) -> np.ndarray:
    """The words of document d, one entry a token."""
    row = slice(X.indptr[d], X.indptr[d + 1])
    return np.repeat(X.indices[row], X.data[row]).astype(np.int64)


def gibbs_mixtures(parts: tuple[sp.csr_array, np.ndarray], topics: Topics) -> tuple[np.ndarray, list[np.ndarray]]:
    """theta by averaging Gibbs samples with phi frozen, and the last topic of every token; each document has its own seed."""
    X, seeds = parts
    theta, z = np.zeros((len(seeds), len(topics.alpha))), [np.empty(0, np.int64)] * len(seeds)

    def task(rows: slice) -> None:
        for d in range(rows.start, rows.stop):
            words = tokens_of(X, d)
            z[d] = np.empty(len(words), np.int64)
            kernels.gibbs_mixture(words, *topics, BURN_IN, SAMPLES, seeds[d], z[d], theta[d])

    over_rows(task, len(seeds), BLOCK)
    return theta / theta.sum(axis=1, keepdims=True), z


def halves(X: sp.csr_array, rng: np.random.Generator) -> tuple[sp.csr_array, sp.csr_array]:
    """Split the tokens of every document at random into two halves (the second has the odd token)."""
    lengths = X.sum(axis=1)
    words, documents = np.repeat(X.indices, X.data), np.repeat(np.arange(X.shape[0]), lengths)
    words = words[np.lexsort((rng.random(len(words)), documents))]
    given = np.arange(len(words)) - np.repeat(np.cumsum(lengths) - lengths, lengths) < lengths[documents] // 2

    def part(mine: np.ndarray) -> sp.csr_array:
        return sp.csr_array((np.ones(mine.sum(), dtype=np.int64), (documents[mine], words[mine])), shape=X.shape)

    return part(given), part(~given)


def completion(X: sp.csr_array, chains: Sequence[Topics], rng: np.random.Generator) -> Scored:
    """Document completion: half of each document gives theta, the log likelihood of the other half is the score."""
    given, asked = halves(X, rng)
    values = np.concatenate(by_documents(_complete, (given, asked), tuple(chains)))
    return per_token(values, asked.sum(axis=1))


def _complete(parts: tuple[sp.csr_array, sp.csr_array], chains: Sequence[Topics]) -> np.ndarray:
    given, asked = parts
    rows = np.repeat(np.arange(asked.shape[0]), np.diff(asked.indptr))
    p = np.zeros(asked.nnz)
    for topics in chains:
        theta = mixtures(given, topics)
        for a in range(0, asked.nnz, 20_000):  # blocks keep the products of theta and phi out of memory
            b = slice(a, a + 20_000)
            # summed row by row, so that where the documents are cut changes no bit
            p[b] += (theta[rows[b]] * topics.phi[asked.indices[b]]).sum(axis=1) / len(chains)
    return np.bincount(rows, weights=asked.data * np.log(p), minlength=asked.shape[0])


def left_to_right(X: sp.csr_array, chains: Sequence[Topics], rng: np.random.Generator, n_passes: int = 20) -> Scored:
    """log p(document) by the left-to-right estimator (Wallach et al. 2009, in the sequential form of Buntine 2009).

    Tokens come in random order; the work grows with the square of the length of a document.
    """
    lengths = X.sum(axis=1)
    work = float(np.square(lengths, dtype=float).sum()) * n_passes * sum(len(topics.alpha) for topics in chains)
    if work > MOST_WORK:
        longest = f"reads a document anew for each of its words, and the longest has {int(lengths.max()):,}"
        raise DataError(f'left_to_right {longest}: that takes hours; use method="completion", or shorter documents')
    seeds = rng.integers(2**63, size=X.shape[0], dtype=np.uint64)
    values = np.concatenate(by_documents(_read_on, (X, seeds), tuple(chains), n_passes))
    return per_token(values, X.sum(axis=1))


def _read_on(parts: tuple[sp.csr_array, np.ndarray], chains: Sequence[Topics], n_passes: int) -> np.ndarray:
    X, seeds = parts
    values = np.zeros((len(chains), X.shape[0]))

    def task(rows: slice) -> None:
        for d in range(rows.start, rows.stop):
            words = np.random.default_rng(seeds[d]).permutation(tokens_of(X, d))
            out = np.empty(len(words))
            for c, topics in enumerate(chains):
                kernels.left_to_right(words, *topics, n_passes, seeds[d], out)
                values[c, d] = np.log(out).sum()

    over_rows(task, X.shape[0], 8)
    return logsumexp(values, axis=0) - np.log(len(chains))


def per_token(values: np.ndarray, n: np.ndarray) -> Scored:
    """Sum of document log likelihoods over sum of tokens, with the standard error of that ratio over documents."""
    mean, D = values.sum() / n.sum(), len(values)
    stderr = float(np.sqrt(np.sum((values - mean * n) ** 2) * D / (D - 1)) / n.sum()) if D > 1 else None
    return Scored(float(mean), "estimate", stderr, "nats/token", values, n)


def windows(texts: Iterable[Sequence[str]], place: dict[str, int], width: int | None) -> sp.csr_array:
    """Which words occur in which window: windows of `width` tokens moved by one, or whole texts (None); (windows x words)."""
    rows: list[list[int]] = []
    for text in texts:
        size = width or max(len(text), 1)
        rows += (sorted({place[w] for w in text[a : a + size] if w in place}) for a in range(max(len(text) - size + 1, 1)))
    indptr, indices = ragged(rows, np.int64)
    return sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(rows), len(place)))


def coherence(occurs: Any, tops: np.ndarray, measure: Literal["umass", "npmi", "c_v"] = "npmi") -> np.ndarray:
    """Coherence of each topic from the words that occur together; `occurs` is (windows x words), `tops` (K, n) word numbers. A word
    that occurs in no window goes with no other: 0.

    >>> occurs = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    >>> coherence(occurs, np.array([[0, 1], [0, 2]]), "npmi").round(3).tolist()
    [1.0, -0.292]
    """
    one_of("measure", measure, "umass", "npmi", "c_v")
    if tops.shape[1] < 2:
        raise DataError("coherence is of two words at least, but here is one of each topic; raise n, or fit on more words")
    used, occurs = np.unique(tops), sp.csr_array(occurs)
    joint = sum(by_documents(_together, (occurs,), used))
    return np.array([_confirm(joint[np.ix_(t, t)], occurs.shape[0], measure) for t in np.searchsorted(used, tops)])


def _together(parts: tuple[sp.csr_array], used: np.ndarray) -> np.ndarray:
    """In how many windows each pair of words occurs."""
    B = sp.csr_array(parts[0][:, used] > 0).astype(float)
    return (B.T @ B).toarray()


def _confirm(joint: np.ndarray, N: int, measure: str) -> float:
    """Coherence of n words from how many of N windows each pair of them shares (n, n)."""
    below = np.tril_indices(len(joint), -1)
    if measure == "umass":
        return float(np.mean(np.log((joint[below] + 1.0) / np.maximum(np.diag(joint)[below[1]], 1.0))))
    p, single = joint / N + EPSILON, np.maximum(np.diag(joint) / N, EPSILON)
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.log(p / np.outer(single, single)) / -np.log(p)
    met = np.diag(joint) > 0
    # two words in every window: 0/0, and as coherent as can be
    table = np.where(np.outer(met, met), np.where(np.isfinite(table), table, 1.0), 0.0)
    if measure == "npmi":
        return float(np.mean(table[below]))
    whole = table.sum(axis=0)
    size = np.linalg.norm(table, axis=1) * np.linalg.norm(whole)
    return float(np.mean(np.divide(table @ whole, size, out=np.zeros(len(size)), where=size > 0)))
