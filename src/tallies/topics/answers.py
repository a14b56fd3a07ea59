"""What users ask of fitted topics: words, mixtures, scores, new documents. Verbs and equations: `estimator`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tallies.errors import DataError
from tallies.evaluation import chains as diagnostics
from tallies.evaluation.score import Score
from tallies.topics import scores as evaluation

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
SEED_COUNT = 10  # pseudo-count of a seed word that is given without one


class Topics:
    """The questions that a fitted topic model answers."""

    n_topics: int
    word_prior: Any
    chains_: list[Any]
    params_: Any
    histories_: list[Array]
    document_counts_: sp.csr_array
    n_features_in_: int
    n_iter_: int
    burn_in: int

    @property
    def topics_(self) -> Array:
        """(K, V) word probabilities of each topic, the mean over the kept sweeps of the first chain."""
        return self._chains()[0][0].T.astype(np.float64)

    @property
    def document_topics_(self) -> Array:
        """(D, K) topic probabilities of each fitted document, the mean over the kept sweeps of the first chain."""
        theta = self.document_counts_.toarray() + self.params_.alpha
        return theta / theta.sum(axis=1, keepdims=True)

    @property
    def alpha_(self) -> Array:
        """(K,) prior of the topics of a document, estimated or given."""
        return self.params_.alpha

    @property
    def beta_(self) -> float:
        """Prior of the words of a topic."""
        return self.params_.beta

    @property
    def vocabulary_(self) -> Array:
        """(V,) names of the words, or their column numbers."""
        names = getattr(self, "feature_names_in_", None)
        return np.arange(self.n_features_in_).astype(str).astype(object) if names is None else names

    def _chains(self, words: Any = slice(None)) -> list[evaluation.Chain]:
        """phi (words, K) and alpha of every chain; float32 halves the memory and costs 1e-7."""
        check_is_fitted(self)
        chains = []
        for params in self.chains_:
            phi = params.phi[words].astype(np.float32).toarray()
            phi += params.smooth.astype(np.float32)
            phi /= np.float32(params.kept)
            chains.append((phi, params.alpha))
        return chains

    def _known(self, X: Any) -> tuple[sp.csr_array, Array, list[evaluation.Chain]]:
        """The counts of X on the columns that occur, those columns, and the chains on them: all that a prediction needs."""
        counts = self._counts(X, reset=False)  # type: ignore[attr-defined]
        words, columns = np.unique(counts.indices, return_inverse=True)
        compact = sp.csr_array((counts.data, columns.astype(np.int32), counts.indptr), shape=(counts.shape[0], len(words)))
        return compact, words, self._chains(words)

    def top_words(self, n: int = 10, names: Any = "fitted") -> list[list[str]]:
        """The n most probable words of each topic; with names=None their column numbers."""
        words = self.vocabulary_ if names is not None else np.arange(self.n_features_in_).astype(str)
        return [[str(words[v]) for v in row] for row in self._top(n)]

    def _top(self, n: int) -> Array:
        phi = self._chains()[0][0]
        n = min(n, len(phi))
        some = np.argpartition(-phi, n - 1, axis=0)[:n]
        order = np.argsort(-np.take_along_axis(phi, some, axis=0), axis=0, kind="stable")
        return np.take_along_axis(some, order, axis=0).T

    # new documents

    def transform(self, X: Any, *, method: Literal["cvb0", "gibbs"] = "cvb0", random_state: Any = 0) -> Array:
        """Topic probabilities (documents x topics) with the topics frozen; an empty document has those of the prior.

        Several chains are averaged after their topics are matched to those of the first.
        """
        counts, _, chains = self._known(X)
        rng = np.random.default_rng(_seed(random_state))
        total = np.zeros((counts.shape[0], self.n_topics))
        for (phi, alpha), order in zip(chains, self.matches_, strict=True):
            if method == "cvb0":
                theta = evaluation.mixtures(counts, phi, alpha)
            elif method == "gibbs":
                theta = evaluation.gibbs_mixtures(counts, phi, alpha, rng)[0]
            else:
                raise ValueError(f'method must be "cvb0" or "gibbs", got {method!r}')
            total += theta[:, order]
        return total / len(self.chains_)

    def assignments(self, X: Any, *, random_state: Any = 0) -> list[tuple[Array, Array]]:
        """For each document the column of every token and a topic drawn for it, given the topics."""
        counts, columns, ((phi, alpha), *_) = self._known(X)
        _, z = evaluation.gibbs_mixtures(counts, phi, alpha, np.random.default_rng(_seed(random_state)))
        return [(columns[evaluation.tokens_of(counts, d)], z[d]) for d in range(counts.shape[0])]

    def similar(self, X: Any, n: int = 10) -> tuple[Array, Array]:
        """The n fitted documents nearest in topics to each document of X: rows (., n) and similarity, 1 - Hellinger distance."""
        new, old = np.sqrt(self.transform(X)), np.sqrt(self.document_topics_)
        n = min(n, len(old))
        near = 1 - np.sqrt(np.maximum(1 - new @ old.T, 0.0))
        rows = np.argsort(-near, axis=1, kind="stable")[:, :n]
        return rows, np.take_along_axis(near, rows, axis=1)

    def topic_correlations(self) -> Array:
        """(K, K) correlation of the topic shares over the fitted documents."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.nan_to_num(np.corrcoef(self.document_topics_, rowvar=False).reshape(self.n_topics, self.n_topics))

    # scores

    def _evaluate(
        self, X: Any, *, method: Literal["completion", "left_to_right"] = "completion", random_state: Any = 0, **options: Any
    ) -> Score:
        counts, _, chains = self._known(X)
        if counts.nnz == 0:
            raise DataError("expected documents with known words, but none has any; nothing can be scored")
        score = {"completion": evaluation.completion, "left_to_right": evaluation.left_to_right}.get(method)
        if score is None:
            raise ValueError(f'method must be "completion" or "left_to_right", got {method!r}')
        return score(counts, chains, np.random.default_rng(_seed(random_state)), **options)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log likelihood of a held-out token by document completion; `tallies.evaluate` adds its standard error."""
        return self._evaluate(X).value

    def perplexity(self, X: Any, method: Literal["completion", "left_to_right"] = "completion") -> float:
        """exp(-score): the size of a vocabulary of equally likely words that would surprise as much."""
        return float(np.exp(-self._evaluate(X, method=method).value))

    def coherence(self, X: Any, measure: Literal["umass", "npmi", "c_v"] = "npmi", n: int = 10, window: int | None = None) -> Array:
        """Coherence of each topic's n top words in X: counts, where documents are the windows, or a list of token lists.

        C_v is usually taken with token lists and window=110.
        """
        tops = self._top(n)
        if isinstance(X, list | tuple) and len(X) and not np.isscalar(X[0]) and len(X[0]) and isinstance(X[0][0], str):
            place = {word: v for v, word in enumerate(self.vocabulary_)}
            return evaluation.coherence(evaluation.windows(X, place, window), tops, measure)
        return evaluation.coherence(self._counts(X, reset=False), tops, measure)  # type: ignore[attr-defined]

    # chains

    @property
    def matches_(self) -> Array:
        """(chains, K) topic of each chain that belongs to each topic of the first chain."""
        if len(self.chains_) == 1:
            return np.arange(self.n_topics)[None]
        first, *others = (phi.T for phi, _ in self._chains())
        return np.array([np.arange(self.n_topics), *(diagnostics.match(first, other)[0] for other in others)])

    def diagnostics(self) -> dict[str, float]:
        """R-hat and effective sample size of the log likelihood after burn-in; R-hat above 1.05 asks for more sweeps."""
        check_is_fitted(self)
        late = [h[-(self.n_iter_ - self.burn_in) :] if self.n_iter_ > self.burn_in else h[len(h) // 2 :] for h in self.histories_]
        return {"r_hat": diagnostics.r_hat(late), "effective_size": diagnostics.effective_size(late)}

    # new data, tables, text

    def sample(self, n: int = 1, length: int | None = None, random_state: Any = None) -> sp.csr_array:
        """n new documents (counts) from the first chain; without a length, lengths are drawn from those of the fitted documents."""
        check_is_fitted(self)
        rng = np.random.default_rng(_seed(random_state))
        phi, alpha = self._chains()[0]
        lengths = self.params_.lengths
        size = rng.choice(len(lengths), n, p=lengths / lengths.sum()) if length is None else np.full(n, length)
        n_dk = np.array([rng.multinomial(m, p) for m, p in zip(size, rng.dirichlet(alpha, n), strict=True)]).reshape(n, -1)
        words, documents = [], []
        for k in range(self.n_topics):
            edges = np.cumsum(phi[:, k].astype(np.float64))
            words.append(np.searchsorted(edges / edges[-1], rng.random(n_dk[:, k].sum()), side="right"))
            documents.append(np.repeat(np.arange(n), n_dk[:, k]))
        rows, columns = np.concatenate(documents), np.concatenate(words)
        X = sp.csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(n, self.n_features_in_))
        X.sum_duplicates()
        return X

    def topic_table(self, n: int = 10) -> pd.DataFrame:
        """One row a topic: its share of the tokens, its alpha and its top words."""
        import pandas as pd

        share = self.params_.n_k / self.params_.n_k.sum()
        return pd.DataFrame({"share": share, "alpha": self.alpha_, "words": [" ".join(words) for words in self.top_words(n)]})

    def _facts(self) -> list[str]:
        tokens, (first, *_) = int(self.params_.n_k.sum()), self.chains_
        lines = [f"{self.document_counts_.shape[0]:,} documents, {self.n_features_in_:,} words, {tokens:,} tokens"]
        lines.append(f"mean of {first.kept} kept sweeps; alpha sums to {first.alpha.sum():.3g}, beta {first.beta:g}")
        if len(self.chains_) > 1:
            lines.append("chains: R-hat {r_hat:.3f}, effective size {effective_size:.0f}".format(**self.diagnostics()))
        return lines

    def _learned(self) -> list[tuple[str, str]]:
        share, tops = self.params_.n_k / max(self.params_.n_k.sum(), 1), self.top_words(8)
        return [(f"topic {k} ({share[k]:.1%})", " ".join(tops[k])) for k in np.argsort(-share, kind="stable")[:10]]

    def _measure(self) -> str:
        return "log p(words, topics)"

    def _word_prior(self, V: int) -> sp.csr_array:
        """Seed words as whole pseudo-counts (V, K): tokens that stay in their topic, so that the sampler needs no other rule."""
        K, prior = self.n_topics, self.word_prior
        if prior is None:
            return sp.csr_array((V, K), dtype=np.int64)
        if not isinstance(prior, Mapping):
            table = np.asarray(prior)
            if table.shape != (K, V) or (table < 0).any() or (table != np.floor(table)).any():
                raise ValueError(f"word_prior must be whole numbers of shape ({K}, {V}), got {table.dtype} of shape {table.shape}")
            return sp.csr_array(table.T.astype(np.int64))
        place = {name: v for v, name in enumerate(self.vocabulary_)}
        rows, columns, data = [], [], []
        for k, words in prior.items():
            if not 0 <= k < K:
                raise ValueError(f"word_prior names topic {k!r}, but there are topics 0 to {K - 1}")
            items = words.items() if isinstance(words, Mapping) else ((word, SEED_COUNT) for word in words)
            for word, count in items:
                v = place.get(word, place.get(str(word)))
                if v is None:
                    raise ValueError(f"word_prior names {word!r}, which is not in the vocabulary; leave it out")
                if count != int(count) or count < 0:
                    raise ValueError(f"pseudo-counts must be whole numbers, got {count!r} for {word!r}")
                rows.append(v)
                columns.append(k)
                data.append(int(count))
        return sp.csr_array((np.array(data, dtype=np.int64), (rows, columns)), shape=(V, K))

    @property
    def _n_features_out(self) -> int:
        return self.n_topics

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        return tags


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1)) if not isinstance(random_state, int) else random_state
