"""What users ask of fitted topics, as functions of the fitted record: words, mixtures, scores, new documents."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.engine import End
from tallies.errors import DataError, at_least, one_of
from tallies.estimator import Inputs, Run
from tallies.evaluation import chains as diagnostics
from tallies.evaluation.score import Scored
from tallies.forms import Form
from tallies.topics import scores
from tallies.topics.model import Params, Rows
from tallies.topics.scores import Topics, by_documents

Array = np.ndarray
NAMING = 0.4  # weight by which topics are named: three words should tell a topic from the others before they are frequent in it
Method = Literal["completion", "left_to_right"]  # of scoring held-out documents


class Assignments(NamedTuple):
    """A topic for every token of the fit, documents in the order of the data: those of document d are in the places offsets[d]
    to offsets[d + 1].

    >>> from tallies import LDA
    >>> model = LDA(n_topics=2, max_iter=20, burn_in=10).fit([[2, 1, 0], [0, 0, 3]])
    >>> offsets, words, topics = model.assignments_
    >>> offsets.tolist(), words.tolist(), len(topics)
    ([0, 3, 6], [0, 0, 1, 2, 2, 2], 6)
    >>> model.assignments_.of(1)[0].tolist()
    [2, 2, 2]
    """

    offsets: Annotated[Array, Form("D+1", "i", ends="N")]
    words: Annotated[Array, Form("N", "i", 0)]  # column of each token, rising within a document
    topics: Annotated[Array, Form("N", "i", -1, below="K")]  # in the last sweep; -1 where the fit was cut before it had one

    def of(self, d: int) -> tuple[Array, Array]:
        """Columns and topics of the tokens of document d."""
        mine = slice(self.offsets[d], self.offsets[d + 1])
        return self.words[mine], self.topics[mine]


class Documents(NamedTuple):
    """What the first chain found of the fitted documents, in the order of the data."""

    n_dk: Annotated[sp.csr_array, Form("D K", "f", 0)]  # mean counts over the kept sweeps
    assignments: Assignments

    def and_then(self, more: Documents) -> Documents:
        """These documents, followed by others."""
        a, b = self.assignments, more.assignments
        tokens = (np.append(a.offsets, a.offsets[-1] + b.offsets[1:]), np.append(a.words, b.words), np.append(a.topics, b.topics))
        return Documents(sp.vstack([self.n_dk, more.n_dk], format="csr"), Assignments(*tokens))


class Sampled(NamedTuple):
    """What a stage keeps."""

    chain: Params  # with the counts of its last sweep, which also stand in for kept ones where there are none
    documents: Documents | None  # of the first chain alone

    def check(self) -> None:
        """What is kept is whole."""
        _check_kept((self.chain,), self.documents)


class Fitted(NamedTuple):
    """All that a fit gives."""

    run: Run  # of the first chain
    inputs: Inputs
    burn_in: Annotated[int, Form(kind="i", low=0)]
    chains: tuple[Params, ...]
    histories: tuple[Annotated[Array, Form("...", "f")], ...]  # log p(w, z) of each chain, once all documents have entered
    documents: Documents | None  # None: they are in files
    language: str | None = None  # of the texts, where it is known

    def check(self) -> None:
        """What is kept is whole, one history a chain, and of the columns of the data."""
        _check_kept(self.chains, self.documents)
        if len(self.histories) != len(self.chains) or self.inputs.n != self.first.n_wk.shape[0]:
            raise ValueError("there should be a history a chain, and a row of counts a column of the data")

    @property
    def first(self) -> Params:
        """The chain whose topics are shown."""
        return self.chains[0]

    @property
    def known(self) -> Documents:
        """The fitted documents, where they were in memory."""
        if self.documents is None:
            told = "this fit holds no documents: they are in files, or the topics came without them"
            raise AttributeError(f"{told}; transform(FOLDER, out=FOLDER) writes the topics of each")
        return self.documents


def _check_kept(chains: tuple[Params, ...], documents: Documents | None) -> None:
    """Raise ValueError where chains have no sample, or they and the documents are not of the same words and topics."""
    if not chains or any(chain.phi is None or chain.kept < 1 for chain in chains):
        raise ValueError("there should be chains, each with a kept sample")
    V, K = chains[0].n_wk.shape
    same = all(chain.n_wk.shape == (V, K) for chain in chains)
    if documents is not None:
        same = same and documents.n_dk.shape[1] == K and documents.assignments.words.max(initial=0) < V
    if not same:
        raise ValueError("chains and documents should be of the same words and topics")


def keep_chain(end: End) -> Sampled:
    """What to keep of a further chain."""
    params: Params = end.params
    if end.rows and end.rows[0].n_wk is not None:
        n_wk = end.rows[0].n_wk  # a sweep that was dropped has changed it, and nothing else
        params = params._replace(n_wk=n_wk, n_k=np.asarray(n_wk.sum(axis=0), dtype=np.int64))
    return Sampled(params if params.kept else params.with_sample(), None)


def keep_chain_and_documents(end: End) -> Sampled:
    """What to keep of the first chain: its documents too, in the order of the data."""
    parts: list[Rows] = end.rows
    back = np.argsort(np.concatenate([part.rows for part in parts]))
    n_dk, z = (sp.csr_array(sp.vstack(each, format="csr")[back]) for each in ([p.n_dk for p in parts], [p.z for p in parts]))
    return keep_chain(end)._replace(documents=Documents(n_dk, Assignments(z.indptr, z.indices, z.data)))


def topics(chain: Params, words: Any = slice(None)) -> Topics:
    """The topics of a chain on some words (all by default), the mean over the kept sweeps."""
    assert chain.phi is not None  # what is kept of a chain has one sample at least
    phi = chain.phi[words].astype(np.float32).toarray()
    phi += chain.smooth.astype(np.float32)
    phi /= np.float32(chain.kept)
    return Topics(phi, chain.alpha)


def word_probabilities(fitted: Fitted) -> Array:
    """(K, V) word probabilities of each topic, the mean over the kept sweeps of the first chain."""
    return topics(fitted.first).phi.T.astype(np.float64)


def shares(fitted: Fitted) -> Array:
    """(K,) part of all tokens that belong to each topic."""
    n_k = fitted.first.n_k
    return n_k / max(n_k.sum(), 1)


def tokens(fitted: Fitted) -> int:
    """How many tokens the fitted documents have; where only topics came from elsewhere, how many these have."""
    lengths, n_k = fitted.first.lengths, fitted.first.n_k
    return int(lengths @ np.arange(len(lengths))) or int(n_k.sum())


def document_topics(fitted: Fitted) -> Array:
    """(D, K) topic probabilities of each fitted document, the mean over the kept sweeps of the first chain."""
    theta = fitted.known.n_dk.toarray() + fitted.first.alpha
    return theta / theta.sum(axis=1, keepdims=True)


def top(fitted: Fitted, n: int, weight: float = 1.0) -> Array:
    """(K, n) columns of the most relevant words of each topic, by weight log phi + (1 - weight) log (phi / p) with p of all topics
    (Sievert & Shirley 2014): with 1 the most probable, with 0 the most special. Smoothing is no evidence: words of which a topic
    has less than half a token come last."""
    at_least(1, n=n)
    if not 0 <= weight <= 1:
        raise ValueError(f"relevance must be a number from 0 to 1, got {weight!r}")
    log_n, found = np.log(np.maximum(fitted.first.n_wk.sum(axis=1), 1)), []
    for row, tokens in zip(topics(fitted.first).phi.T, fitted.first.n_k, strict=True):
        score = np.log(np.maximum(row, 1e-37), dtype=float) - (1 - weight) * log_n
        found.append(largest(score - 1e3 * (row * tokens <= 0.5), n))
    return np.array(found)


def topic_names(fitted: Fitted, n: int = 3) -> list[str]:
    """A name for each topic: its number and its most relevant words, such as "4: matrix eigenvalue norm"."""
    words = fitted.inputs.named()
    return [f"{k}: {' '.join(map(str, words[columns]))}" for k, columns in enumerate(top(fitted, n, NAMING))]


def largest(values: Array, n: int) -> Array:
    """Places of the n largest values, or of all if there are fewer, the largest first."""
    some = np.argpartition(-values, n - 1)[:n] if n < len(values) else np.arange(len(values))
    return some[np.argsort(-values[some], kind="stable")]


def matches(fitted: Fitted) -> Array:
    """(chains, K) topic of each chain that belongs to each topic of the first chain."""
    same = np.arange(len(fitted.first.alpha))
    if len(fitted.chains) == 1:
        return same[None]
    first, *others = (topics(chain).phi.T for chain in fitted.chains)
    return np.array([same, *(diagnostics.match(first, other)[0] for other in others)])


def settled(fitted: Fitted) -> list[Array]:
    """The histories after burn-in; where none goes so far, the second half."""
    begun = fitted.burn_in - (fitted.run.n_iter - len(fitted.histories[0]))  # histories begin after the growing start
    return [h[max(begun, 0) :] if len(h) > begun else h[len(h) // 2 :] for h in fitted.histories]


def diagnose(fitted: Fitted) -> dict[str, float]:
    """R-hat and effective sample size of the log likelihood after burn-in; before it, of its second half."""
    late = settled(fitted)
    return {"r_hat": diagnostics.r_hat(late), "effective_size": diagnostics.effective_size(late)}


# new documents


class New(NamedTuple):
    """New documents on the columns that occur in them, and the topics on these: all that a prediction needs."""

    counts: sp.csr_array  # (D, words that occur)
    columns: Array  # their columns
    chains: tuple[Topics, ...]


def new_documents(fitted: Fitted, counts: sp.csr_array) -> New:
    """Counts (documents x all words) with what the chains know of their words."""
    words, columns = np.unique(counts.indices, return_inverse=True)
    compact = sp.csr_array((counts.data, columns.astype(np.int32), counts.indptr), shape=(counts.shape[0], len(words)))
    return New(compact, words, tuple(topics(chain, words) for chain in fitted.chains))


def transform(fitted: Fitted, new: New, method: Literal["cvb0", "gibbs"], seed: int) -> Array:
    """(D, K) topic probabilities, the mean over chains after their topics are matched to those of the first."""
    one_of("method", method, "cvb0", "gibbs")
    seeds = _seeds(seed, (len(new.chains), new.counts.shape[0])).T
    return np.concatenate(by_documents(_mixtures, (new.counts, seeds), new.chains, matches(fitted), method))


def _mixtures(parts: tuple[sp.csr_array, Array], chains: tuple[Topics, ...], orders: Array, method: str) -> Array:
    X, seeds = parts
    total = np.zeros((X.shape[0], orders.shape[1]))
    for c, chain in enumerate(chains):
        theta = scores.gibbs_mixtures((X, seeds[:, c]), chain)[0] if method == "gibbs" else scores.mixtures(X, chain)
        total += theta[:, orders[c]]
    return total / len(chains)


def assignments(new: New, seed: int) -> list[tuple[Array, Array]]:
    """For each document the column of every token and a topic drawn for it, given the topics of the first chain."""
    parts = by_documents(scores.gibbs_mixtures, (new.counts, _seeds(seed, new.counts.shape[0])), new.chains[0])
    drawn = [z for _, topics in parts for z in topics]
    return [(new.columns[scores.tokens_of(new.counts, d)], z) for d, z in enumerate(drawn)]


def _seeds(seed: int, shape: Any) -> Array:
    return np.random.default_rng(seed).integers(2**63, size=shape, dtype=np.uint64)


def similar(old: Array, new: Array, n: int) -> tuple[Array, Array]:
    """The n rows of `old` nearest to each of `new`, both (., K): rows (., n) and similarity, 1 - Hellinger distance."""
    at_least(1, n=n)
    near = 1 - np.sqrt(np.maximum(1 - np.sqrt(new) @ np.sqrt(old).T, 0.0))
    rows = np.argsort(-near, axis=1, kind="stable")[:, : min(n, len(old))]
    return rows, np.take_along_axis(near, rows, axis=1)


def correlations(theta: Array) -> Array:
    """(K, K) correlation of the topic shares theta (D, K) over documents; 0 where a share never changes."""
    if len(theta) < 2:
        return np.zeros((theta.shape[1], theta.shape[1]))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(np.corrcoef(theta, rowvar=False).reshape(theta.shape[1], -1))


def evaluate(new: New, method: Method, seed: int, **options: Any) -> Scored:
    """Log likelihood of a token of the documents, by one of two estimators."""
    if new.counts.nnz == 0:
        raise DataError("expected documents with known words, but none has any; nothing can be scored")
    one_of("method", method, "completion", "left_to_right")
    score = scores.completion if method == "completion" else scores.left_to_right
    return score(new.counts, new.chains, np.random.default_rng(seed), **options)


def sample(fitted: Fitted, n: int, length: int | None, seed: int) -> sp.csr_array:
    """n new documents from the first chain; without a length, lengths are drawn from those of the fitted documents."""
    at_least(1, n=n)
    at_least(0, none=True, length=length)
    rng, (phi, alpha), lengths = np.random.default_rng(seed), topics(fitted.first), fitted.first.lengths
    if length is None and not lengths.sum():
        raise DataError("the lengths of the documents behind these topics are not known; pass one, as in sample(10, length=100)")
    size = rng.choice(len(lengths), n, p=lengths / lengths.sum()) if length is None else np.full(n, length)
    n_dk = np.array([rng.multinomial(m, p) for m, p in zip(size, rng.dirichlet(alpha, n), strict=True)]).reshape(n, -1)
    words, documents = [], []
    for k in range(len(alpha)):
        edges = np.cumsum(phi[:, k].astype(np.float64))
        words.append(np.searchsorted(edges / edges[-1], rng.random(n_dk[:, k].sum()), side="right"))
        documents.append(np.repeat(np.arange(n), n_dk[:, k]))
    rows, columns = np.concatenate(documents), np.concatenate(words)
    return sp.csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(n, len(phi)))
