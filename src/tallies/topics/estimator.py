"""LDA as users see it: hyperparameters, the door, the plan of its chains, and what can be asked. Story and equations: `model`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, Unpack

import numpy as np
import scipy.sparse as sp
from sklearn.base import TransformerMixin
from sklearn.utils._set_output import _get_output_config

from tallies.answering import goes_out
from tallies.data.bags import Bags, shuffler
from tallies.engine import Plan, Stage
from tallies.errors import ConvergenceWarning, DataError, at_least, one_of
from tallies.estimator import Estimator, Inputs, Run, RunOptions, option, part, seed_of
from tallies.evaluation.score import Scored
from tallies.sources import Held, cuts
from tallies.streams import fit_batches
from tallies.topics import answers, bridges, door, lazily, scores
from tallies.topics.answers import Array, Assignments, Documents, Fitted, Method, Sampled
from tallies.topics.kernels.sampling import Counts
from tallies.topics.model import WINDOW, Gibbs, Params, Tally, has_settled
from tallies.topics.sampler import Latents
from tallies.topics.tokens import frame, lay_out

MOST_TOPICS = 1 << 20
MOST_PRIOR = 1e30  # the sampler weighs topics in single precision
REMEMBERED = 1 / 6  # tokens that count beside those of a new batch, as a share of all before it: early topics were found in less
BETWEEN = f"from {1 / MOST_PRIOR:g} to {MOST_PRIOR:g}"

if TYPE_CHECKING:
    import pandas as pd


class Data(NamedTuple):
    """What the door lets in."""

    sources: list[Any]
    inputs: Inputs
    lengths: Array  # (L+1,)  documents of each length
    base: sp.csr_array  # (V, K)  tokens that stay in their topic
    language: str | None  # of the texts, where it is known
    earlier: Fitted | None = None  # the fit to which documents are added
    shared: Held | None = None  # where the documents are in files: what all of them are laid out by


class Attributes(TransformerMixin, Estimator):
    """What can be read of an LDA once it is fitted."""

    def set_output(self, transform: str | None = None) -> Self:
        """What `transform` gives: "pandas" and "polars" are data frames, "default" is an array."""
        return super().set_output(transform=transform)

    chains_: tuple[Params, ...] = part("chains", "What each chain ended with: counts of its last sweep, sums of the kept, priors.")
    histories_: tuple[Array, ...] = part("histories", "log p(w, z) of each chain by sweep, once all documents have entered.")
    topics_: Array = part(answers.word_probabilities)
    document_topics_: Array = part(answers.document_topics)
    document_counts_: sp.csr_array = part("known.n_dk", "(D, K) tokens of each topic in each fitted document, means likewise.")
    assignments_: Assignments = part("known.assignments", "The topic of every token in the last sweep of the first chain.")
    alpha_: Array = part("first.alpha", "(K,) prior of the topics of a document, estimated or given.")
    beta_: float = part("first.beta", "Prior of the words of a topic.")
    vocabulary_: Array = part(lambda fitted: fitted.inputs.named(), "(V,) names of the words, or their column numbers.")
    matches_: Array = part(answers.matches)
    topic_names_: list[str] = part(answers.topic_names)
    language_: str | None = part("language", "Language of the texts, whose stop words were left out; None: not known.")


@dataclass(eq=False, repr=False, kw_only=True)
class LDA(Attributes):
    """Topics of documents: a document is a mixture of topics, a topic a distribution over words.

    >>> import numpy as np
    >>> fruit, metal = [3, 2, 4, 0, 0, 0], [0, 0, 0, 4, 2, 3]
    >>> X = np.array([fruit, metal] * 20)
    >>> model = LDA(n_topics=2, max_iter=60, burn_in=30).fit(X)
    >>> sorted(sorted(map(int, words[:3])) for words in model.top_words(3, names=None))
    [[0, 1, 2], [3, 4, 5]]
    >>> bool(model.transform([fruit]).max() > 0.9)
    True
    """

    n_topics: int = option(20, "Number of topics.", flag="topics,k")  # K
    alpha: float | Sequence[float] | Literal["auto"] = option(
        "auto", "Prior of topics in a document: auto (estimated), or a number."
    )  # or (K,) numbers
    beta: float | Literal["auto"] = option(0.01, "Prior of words in a topic: a number, or auto.")  # auto may hurt held-out scores
    max_iter: int = 300  # iterations, each the work of one sweep over all tokens, the growing start included
    burn_in: int = option(200, "Sweeps before samples are kept; default: two thirds.")  # alpha is estimated in them and then stays
    thin: int = option(5, "Keep every thin-th sweep after that.")
    n_chains: int = option(1, "Independent chains.", flag="chains")  # predictions are averaged over them
    start: Literal["growing", "random"] = "growing"  # documents enter in doubling numbers, or all at once with random topics
    plateau: bool = False  # whether to stop when the log likelihood no longer rises (after burn_in, with samples kept)
    word_prior: Any = None  # seed words: {topic: words or {word: pseudo-count}}, or whole pseudo-counts (K, V)
    shards: int = 1  # pieces for a cluster; more than one is AD-LDA, an approximation
    random_state: Any = 0

    records = (Params, Latents, Counts, Tally, Sampled, Documents, Assignments, Fitted)
    run_fields = frozenset({"max_iter", "plateau", "random_state"})
    takes = ("sparse", "positive_only")
    guesses = {
        **dict.fromkeys(("n_components", "num_topics", "k"), "n_topics"),
        "doc_topic_prior": "alpha",
        **dict.fromkeys(("topic_word_prior", "eta"), "beta"),
        **dict.fromkeys(("passes", "n_iter", "max_doc_update_iter"), "max_iter"),
        **dict.fromkeys(("components_", "topic_word_", "exp_dirichlet_component_"), "topics_"),
        **dict.fromkeys(("doc_topic_", "embedding_"), "document_topics_"),
        "perplexity_": "`perplexity(X)` takes documents, best ones that the fit has not seen",
        "bound_": "history_",
    }
    fixed_length = True
    next_steps = ("model.top_words()", "model.transform(X)", 'model.report("page.html", X)')

    # fitting

    def fit(self, X: Any, y: Any = None, *, text: str = "text", **run: Unpack[RunOptions]) -> Self:
        """Fit to a Corpus, texts (a list of strings, or the path of a file or folder: counted with the defaults of
        `Corpus.from_texts` and `Corpus.read`), a count matrix (documents x words; sparse, array, data frame) or AnnData.

        X may be more than fits into memory: a folder of Parquet, csv or json lines with the column `text`, a lazy frame, or a
        folder that `Corpus.prepare` has written; an .h5ad file, a .zarr folder or a backed AnnData, whose rows are documents. More
        than is held of these stays in files: what a fit keeps are the topics. An iterator gives batches, each for `partial_fit`.
        """
        if isinstance(X, Iterator):
            return fit_batches(self, X, dict(run))
        if lazily.in_files(X):
            self._check()
            return self._fit(self._survey(lazily.read(X, text, self.shards)), **run)
        return self._fit(self._prepare(X), **run)

    def partial_fit(self, X: Any, y: Any = None, **run: Unpack[RunOptions]) -> Self:
        """Add documents: their tokens enter and are resampled given the topics of all earlier tokens, whose counts fade.

        So a batch counts the more the later it comes, and topics of which the first ones knew little are learned anew. Data that
        come once lose some against a fit to all of them: see "Data that come once" in the documentation.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, **run)
        if self.n_chains > 1 or len(self.chains_) > 1:
            raise ValueError(f"documents can be added to one chain, got n_chains={self.n_chains}; refit with all documents")
        self._check()
        earlier: Fitted = self.fitted_
        if len(self.alpha_) != self.n_topics:
            raise ValueError(f"n_topics is {self.n_topics}, but the fit has {len(self.alpha_)} topics; refit with all documents")
        stays = door.word_counts(self.word_prior, self.n_topics, earlier.inputs.named())
        # the tally t <- (1 - rho) t + rho s t_batch, in units of s rho, with 1/rho = 1 + remembered tokens / those of the batch
        base = door.faded(earlier.first.n_wk, stays, REMEMBERED * answers.tokens(earlier))
        data = self._cut(self._counts(X), earlier.inputs, base, earlier.language)
        return self._fit(data._replace(earlier=earlier), **run)

    def _prepare(self, X: Any, y: Any = None) -> Data:
        self._check()
        counts, inputs, language = door.read(X)
        return self._cut(counts, inputs, door.word_counts(self.word_prior, self.n_topics, inputs.named()), language)

    def _cut(self, counts: sp.csr_array, inputs: Inputs, base: sp.csr_array, language: str | None) -> Data:
        rows = counts.shape[0]
        if not rows:
            raise DataError("expected at least one document to add, got none; pass counts (documents x words)")
        parts = cuts(rows, 0, self.shard_rows or -(-rows // min(self.shards, rows)))
        shards = lay_out(counts, self.n_topics, base, shuffler(), list(parts))
        return Data([Held(shard) for shard in shards], inputs, np.bincount(counts.sum(axis=1)), base, language)

    def _survey(self, bags: Bags) -> Data:
        """The door for documents in files."""
        inputs = Inputs(len(bags.vocabulary), bags.vocabulary)
        base = door.word_counts(self.word_prior, self.n_topics, bags.vocabulary)
        D, longest = int(bags.lengths.sum()), len(bags.lengths) - 1
        shared = Held(frame(bags.frequency, longest, D, len(bags.bags), self.n_topics, base))
        return Data([lazily.Shuffled(bag) for bag in bags.bags], inputs, bags.lengths, base, bags.language, shared=shared)

    def _check(self) -> None:
        at_least(1, n_topics=self.n_topics, max_iter=self.max_iter, thin=self.thin, n_chains=self.n_chains, shards=self.shards)
        at_least(0, burn_in=self.burn_in)
        if self.n_topics > MOST_TOPICS:
            raise ValueError(f"n_topics must be at most {MOST_TOPICS:,}, got {self.n_topics:,}; every topic has counts in memory")
        one_of("start", self.start, "growing", "random")
        if self.beta != "auto" and not (
            isinstance(self.beta, int | float | np.number) and 1 / MOST_PRIOR <= self.beta <= MOST_PRIOR
        ):
            raise ValueError(f'beta must be a positive number, {BETWEEN}, or "auto", got {self.beta!r}')
        if not (isinstance(self.alpha, str) and self.alpha == "auto"):
            try:
                alpha = np.zeros(()) if isinstance(self.alpha, str) else np.asarray(self.alpha, dtype=float)
            except (TypeError, ValueError):
                alpha = np.zeros(())  # no number, which is refused
            if alpha.shape not in ((), (self.n_topics,)) or not ((alpha >= 1 / MOST_PRIOR) & (alpha <= MOST_PRIOR)).all():
                told = f'alpha must be "auto", a positive number, or {self.n_topics} of them, {BETWEEN}'
                raise ValueError(f"{told}; got {self.alpha!r}")

    def _plan(self, data: Data, seed: int) -> Plan:
        earlier = data.earlier
        prior, how = (self, str(self.start)) if earlier is None else (earlier.first, "enter")
        model = Gibbs(self.n_topics, prior.alpha, prior.beta, self.burn_in, self.thin, how, self.plateau)
        start = model.begin(data.lengths, data.base)
        first = Stage("", model, data.sources, answers.keep_chain_and_documents, self.max_iter, start=start, rows=True)
        if data.shared is not None:  # a shard that is alone has the word counts
            first = first._replace(keep=answers.keep_chain, rows=len(data.sources) == 1, shared=data.shared)
        others = [first._replace(name=f"chain {c + 1}", keep=answers.keep_chain) for c in range(1, self.n_chains)]
        kept = yield [first._replace(name="chain 1" if others else ""), *others]
        runs, chains, documents = [Run.of(k, seed) for k in kept], [k.value.chain for k in kept], kept[0].value.documents
        if earlier is not None:
            documents = earlier.documents and earlier.documents.and_then(documents)
            chains = [chains[0]._replace(lengths=_sum(earlier.first.lengths, data.lengths))]
        run = runs[0]._replace(converged=all(has_settled(run.history, 5) for run in runs))
        return Fitted(run, data.inputs, self.burn_in, tuple(chains), tuple(run.history for run in runs), documents, data.language)

    def _warn(self, checkpoint: Any) -> None:
        super()._warn(checkpoint)
        if self.stopped_ == "limit" and not self.converged_ and self.n_iter_ >= 2 * WINDOW:
            told = f"the log likelihood of LDA was still rising after {self.n_iter_} sweeps; raise max_iter and burn_in"
            warnings.warn(told, ConvergenceWarning, stacklevel=4)

    # topics that another program has found

    @classmethod
    def from_mallet(cls, path: Any) -> Self:
        """A state of MALLET (`--output-state`, also compressed): every token with its topic, as after a fit of one sweep.

        >>> import tempfile, pathlib
        >>> state = pathlib.Path(tempfile.mkdtemp()) / "state"
        >>> lines = ["#doc source pos typeindex type topic", "#alpha : 0.1 0.1", "#beta : 0.01"]
        >>> _ = state.write_text("\\n".join([*lines, "0 a.txt 0 0 pear 1", "0 a.txt 1 1 plum 1", "1 b.txt 0 2 iron 0"]))
        >>> LDA.from_mallet(state).top_words(1)[0]
        ['iron']
        """
        return cls._of(bridges.read_mallet(path))

    @classmethod
    def from_tomotopy(cls, model: Any) -> Self:
        """A `tomotopy.LDAModel`, or the file that it was saved to with its documents: every token with its topic."""
        return cls._of(bridges.of_tomotopy(model))

    @classmethod
    def from_gensim(cls, model: Any) -> Self:
        """A `gensim.models.LdaModel`: its topics, to the same probabilities; it keeps no documents."""
        return cls._of(bridges.of_gensim(model))

    @classmethod
    def _of(cls, fitted: Fitted) -> Self:
        first = fitted.first
        model = cls(n_topics=len(first.alpha), alpha=first.alpha.tolist(), beta=first.beta)
        model.fitted_ = fitted
        return model

    # what a fit gives

    def diagnostics(self) -> dict[str, float]:
        """R-hat and effective sample size of the log likelihood after burn-in; R-hat above 1.05 asks for more sweeps."""
        return answers.diagnose(self.fitted_)

    def top_words(self, n: int = 10, names: Any = "fitted", *, relevance: float = 1.0) -> list[list[str]]:
        """The n most probable words of each topic; with names=None their column numbers.

        With a relevance below 1 words that are special to a topic come first, at 0 by that alone; `topic_names_` have 0.4.
        """
        words = self.vocabulary_ if names is not None else np.arange(self.n_features_in_)
        return [[str(words[v]) for v in row] for row in answers.top(self.fitted_, n, relevance)]

    def topic_table(self, n: int = 10) -> pd.DataFrame:
        """One row a topic: its name, its share of the tokens, its alpha and its most probable words."""
        import pandas as pd

        words = [" ".join(words) for words in self.top_words(n)]
        share = answers.shares(self.fitted_)
        return pd.DataFrame({"name": self.topic_names_, "share": share, "alpha": self.alpha_, "words": words})

    def topic_correlations(self) -> Array:
        """(K, K) correlation of the topic shares over the fitted documents."""
        return answers.correlations(self.document_topics_)

    def to_anndata(self, data: Any, key: str = "lda") -> Any:
        """Write the fit into an AnnData: topics of rows to obsm["X_<key>"], of columns to varm["<key>_topics"]; and uns["<key>"].

        Its columns must be those of the fit, by name where that had names, and its rows as many. X is neither copied nor laid out
        in full.
        """
        return bridges.into_anndata(self.fitted_, data, key, repr(self))

    def to_arviz(self) -> Any:
        """The chains for ArviZ: `log_joint`, log p(words, topics) of every sweep, in its groups posterior and warmup_posterior.

        It is the one number that every sweep leaves behind and that does not depend on which topic is called which; topics
        themselves are kept as means over sweeps, so there are no draws of them. Needs `pip install "tallies[arviz]"`.
        """
        return bridges.chains(self.fitted_)

    # new documents

    def _counts(self, X: Any) -> sp.csr_array:
        return door.read_like(X, self.fitted_.inputs, self.language_)

    def _new(self, X: Any) -> answers.New:
        return answers.new_documents(self.fitted_, self._counts(X))

    def transform(
        self, X: Any, *, method: Literal["cvb0", "gibbs"] = "cvb0", random_state: Any = 0, text: str = "text", out: Any = None
    ) -> Any:
        """Topic probabilities (documents x topics) with the topics frozen; an empty document has those of the prior.

        As everywhere, X may be texts, or the path of some: their words are matched to those of the fit, and unknown ones are left
        out with a warning.

        Several chains are averaged after their topics are matched to those of the first. Of texts beyond memory, see `fit`, the
        topics are written to the folder `out` as Parquet, with the other columns of their tables.
        """
        if lazily.in_files(X) or (out is not None and goes_out(X, out)):
            return lazily.transform(self, X, text, out)
        found = answers.transform(self.fitted_, self._new(X), method, seed_of(random_state))
        if type(X).__name__ == "Series" and hasattr(X, "index") and _get_output_config("transform", self)["dense"] == "pandas":
            from pandas import DataFrame

            return DataFrame(found, index=X.index)  # scikit-learn before 1.8 keeps the index of tables alone
        return found

    def assignments(self, X: Any, *, random_state: Any = 0) -> list[tuple[Array, Array]]:
        """For each new document the column of every token and a topic drawn for it, given the topics."""
        return answers.assignments(self._new(X), seed_of(random_state))

    def similar(self, X: Any, n: int = 10) -> tuple[Array, Array]:
        """The n fitted documents nearest in topics to each document of X: rows (., n) and similarity, 1 - Hellinger distance."""
        return answers.similar(self.document_topics_, np.asarray(self.transform(X)), n)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log likelihood of a held-out token by document completion; `tallies.evaluate` adds its standard error."""
        return self._evaluate(X).value

    def perplexity(self, X: Any, *, method: Method = "completion") -> float:
        """exp(-score): the size of a vocabulary of equally likely words that would surprise as much."""
        return float(np.exp(-self._evaluate(X, method=method).value))

    def _evaluate(self, X: Any, y: Any = None, *, method: Method = "completion", random_state: Any = 0, **options: Any) -> Scored:
        return answers.evaluate(self._new(X), method, seed_of(random_state), **options)

    def coherence(self, X: Any, measure: Literal["umass", "npmi", "c_v"] = "npmi", n: int = 10, window: int | None = None) -> Array:
        """Coherence of each topic's n top words in X: counts, where documents are the windows, or a list of token lists.

        C_v is usually taken with token lists and window=110.
        """
        at_least(1, none=True, window=window)
        lists = list | tuple | np.ndarray
        if isinstance(X, lists) and any(isinstance(text, lists) and len(text) and isinstance(text[0], str) for text in X):
            occurs = scores.windows(X, {word: v for v, word in enumerate(self.vocabulary_)}, window)
            if not occurs.nnz:
                raise DataError(
                    "no word of the texts is one of the fit; give texts of its language, cut into words as its own were"
                )
        else:
            occurs = self._counts(X)
        return scores.coherence(occurs, answers.top(self.fitted_, n), measure)

    def sample(self, n: int = 1, *, length: int | None = None, random_state: Any = None) -> sp.csr_array:
        """n new documents (counts) from the first chain; without a length, lengths are drawn from those of the fitted documents."""
        return answers.sample(self.fitted_, n, length, seed_of(random_state))

    # text, and what scikit-learn asks

    def _facts(self) -> list[str]:
        first, n = self.fitted_.first, int(self.fitted_.first.lengths.sum())
        lines = [f"{n:,} documents, {self.n_features_in_:,} words, {answers.tokens(self.fitted_):,} tokens"]
        lines += [f"texts in {self.language_}, without its stop words"] if self.language_ else []
        lines.append(f"mean of {first.kept} kept sweeps; alpha sums to {first.alpha.sum():.3g}, beta {first.beta:g}")
        if len(self.chains_) > 1:
            told = "chains: R-hat {r_hat:.3f}, effective size {effective_size:.0f}".format(**self.diagnostics())
            lines.append("chains: too few sweeps for R-hat" if "nan" in told else told)
        return lines

    def _learned(self) -> list[tuple[str, str]]:
        share, tops = answers.shares(self.fitted_), self.top_words(8, relevance=answers.NAMING)
        return [(f"topic {k} ({share[k]:.1%})", " ".join(tops[k])) for k in np.argsort(-share, kind="stable")[:10]]

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`: those of the topics."""
        return np.array(self.topic_names_, dtype=object)

    def _measure(self) -> str:
        return "log p(words, topics)"


def _sum(a: Array, b: Array) -> Array:
    """The sum of two histograms."""
    a, b = (a, b) if len(a) >= len(b) else (b, a)
    return a + np.pad(b, (0, len(a) - len(b)))
