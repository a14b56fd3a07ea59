"""AuthorConcept: the face of the author-concept model, whose story and equations are in `model.py`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np
import scipy.sparse as sp

from tallies.answering import goes_out
from tallies.concepts import answers, context, lazily, mention, word_counts
from tallies.concepts.answers import Ranking
from tallies.concepts.author_prior import Psi, Rows
from tallies.concepts.context import Around, Context, Mentions, Said
from tallies.concepts.door import Concepts, Data, Papers, prepare, read_corpus
from tallies.concepts.fitted import Assigned, Fitted, Totals
from tallies.concepts.mention import Lexicon, Postings, Strings
from tallies.concepts.model import EM, Background, Counts, EMOfFiles, Ended, Params, Summed, Sums, cycle_of, words_in_force
from tallies.concepts.scores import Latents, sparse
from tallies.concepts.settings import Mention, Multinomial, Settings, settings_of
from tallies.concepts.word_counts import Definitions, Learned, Words
from tallies.data.bags import in_files
from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology, lineage
from tallies.engine import Plan, Stage, stream
from tallies.errors import DataError
from tallies.estimator import Estimator, Run, RunOptions, option, part
from tallies.evaluation.score import Scored, mean_score
from tallies.maths import Array
from tallies.sources import Held

if TYPE_CHECKING:
    import pandas as pd


@dataclass(eq=False, repr=False, kw_only=True)
class AuthorConcept(Estimator):
    """Which concept of an ontology each sentence speaks of, learned from names, synonyms, raw sentences and their authors.

    Options that are None (`author_backoff`: "auto") are as the preset has them; what is given wins.

    >>> from tallies.data.corpus import Corpus
    >>> concepts = Ontology(["x", "y"], ["cell death", "gene expression"], synonyms=[["apoptosis"], []])
    >>> text = [("d1", "Apoptosis of cells was seen."), ("d1", "The gene is expressed."), ("d2", "Cell death follows.")]
    >>> model = AuthorConcept().fit(Corpus.from_pairs(text, [("d1", "Ann"), ("d2", "Bob")]), concepts)
    >>> ids, p = model.rank(["Expression of this gene is high"], k=1)
    >>> ids.tolist()
    [['y']]
    """

    # how a concept makes the words of a sentence; usually "mention"
    words: Literal["mention", "multinomial"] | Mention | Multinomial | None = option(None, "How a concept makes words.")
    assign: Literal["soft", "hard"] | None = None  # eq. 1; usually soft
    credit: Literal["split", "whole"] | None = None  # of a sentence among the authors of its document; usually split
    preset: Literal["seed"] | None = option(None, "seed: hard EM on bags of definition words.")
    temperature: float = 1.0  # of the soft assignment
    gamma: float | None = None  # pseudocount of every concept, for every author or (with back-off) all of them; usually 0.02
    strength: Any = None  # (G,) factors on gamma, one a concept: which concepts are expected more
    author_backoff: float | Literal["auto"] | None = "auto"  # sentences that make an author's own prior half; None: none is common
    document_backoff: float | None = None  # the same of a document against its authors; None: it has no prior of its own
    null: bool | None = None  # whether a sentence may speak of none of the concepts; usually so
    ontology_smoothing: float | None = None  # share of a prior lent to parents when ranking; usually 0.3, with labels 0
    author_sparsity: float = 0.0  # lambda1 of F1, the norms of psi
    stop: Literal["likelihood", "assignments"] | None = None  # what must settle; usually the likelihood
    keep: int | None = None  # responsibilities kept for each sentence; usually 30
    max_iter: int = 50  # sweeps
    tol: float | None = 5e-3  # relative change of the objective; a prior fitted for longer collapses on few concepts
    random_state: Any = 0  # of the choice of held-out words

    guesses = {
        **dict.fromkeys(("n_topics", "n_components", "n_concepts"), "the concepts are those of the ontology that `fit` is given"),
        **{
            name: f"it is an option of the words: words=tallies.{kind.__name__}({name}=...)"
            for kind in (Mention, Multinomial)
            for name in kind._fields
        },
        "alpha": "gamma",
        **dict.fromkeys(("components_", "topics_", "feature_log_prob_"), "concept_words_"),
        "document_topics_": "document_concepts_",
        "author_topics_": "author_concepts_",
    }
    next_steps = ("model.annotate(sentences)", "model.explain(sentence, concept)", 'model.report("page.html", corpus)')
    records = (
        *(Fitted, Assigned, Settings, Mention, Multinomial, Concepts, Papers, Rows, Psi, Lexicon, Strings, Postings, Words),
        *(Context, Params, Latents, Said, Learned, Definitions, Counts, Ended, Around, Mentions, Totals, Summed, Sums),
    )

    def fit(
        self,
        corpus: Any,
        concepts: Ontology | str | Path | None = None,
        labels: Any = None,
        *,
        text: str = "text",
        authors: str | None = "authors",
        **run: Unpack[RunOptions],
    ) -> Self:
        """Fit to the sentences of a `Corpus` (made with sentences=True, or from_pairs) and the concepts of an `Ontology`; either
        may be a file, see `Corpus.read` and `Ontology.read`, and so may sentences that the fit is asked of.

        `labels` gives the concepts of each sentence: an id, a list of ids ([]: none of them), or None where they are unknown.

        The corpus may be more than fits into memory: a folder of Parquet, csv or json lines with the columns `text` and `authors`,
        or a lazy frame. Its sentences stay in files, and what a fit keeps are the concepts of authors: those of each sentence are
        written by `annotate`.
        """
        if in_files(corpus):
            if labels is not None:
                raise DataError(
                    "labels are one a sentence, and these sentences are in files; fit those that have labels by themselves"
                )
            given = settings_of(self), self.strength, corpus, concepts, text, authors, self.shard_rows
            return self._fit(lazily.prepare(*given), **run)
        return self._fit(self._prepare(read_corpus(corpus, text, authors), concepts, labels), **run)

    def _prepare(self, corpus: Any, concepts: Any = None, labels: Any = None) -> Data:
        return prepare(settings_of(self), self.strength, corpus, concepts, labels, self.shard_rows)

    def _plan(self, data: Data, seed: int) -> Plan:
        """Count the words of the corpus, then EM; what stands around mentions is counted at its end."""
        settings = settings_of(self)
        sources = data.sources
        options: Any = settings.words  # a Mention where the door gave Strings, or a Multinomial
        if isinstance(options, Multinomial) and options.held_out:
            rng = stream(seed, 0, 0, 0)  # one stream for all shards: where they are cut changes nothing
            shards = (source.load() for source in sources)
            sources = [Held(s._replace(sentences=s.sentences.hold_out(options.held_out, rng))) for s in shards]
        none = Counts(0, np.empty(0))
        found: Counts = (yield Stage("words of the corpus", Background(), sources, lambda end: end.params, 1, start=none)).value
        model = (EM if data.sizes is None else EMOfFiles)(settings, len(data.strength), self.tol)
        words: Lexicon | Words
        learned: Said | Learned | None
        if isinstance(data.words, Strings):
            words = mention.lexicon(data.words, (found.counts + 0.5) / (found.sentences + 1.0), options)
            learned = Said.of(words) if data.labelled else None
        else:
            first = word_counts.begin(data.words, found.counts, options)
            words, learned = first.words, None if options.anchor is None else first
        shared = None if isinstance(learned, Learned) else Held(words)
        start = model.begin(data.strength, data.n_rows, learned)
        stage = Stage("concepts of sentences", model, sources, Ended.of, self.max_iter, start, rows=True, shared=shared)
        kept = yield stage if data.sizes is None else stage._replace(keep=Summed.of, rows="sum")
        params, totals = kept.value.params, None
        words = words_in_force(words, params.words)
        run = Run.of(kept, seed)
        cycle = cycle_of(params.seen, kept.objective) if settings.assign == "hard" else 0
        none_moved, H = np.empty(0, dtype=np.int64), len(data.strength)
        if data.sizes is not None:
            sums: Sums = kept.value.sums
            around, totals = sums.around, Totals(*data.sizes, sums.named, sums.expected, sums.written)
            r, assigned = sp.csr_array((0, H)), Assigned(np.empty(0, dtype=np.int32), params.seen, cycle, none_moved)
        else:
            end: Ended = kept.value
            around, r = end.around, sparse(end.best, end.r, H)
            moved = np.flatnonzero(end.moved) if cycle else none_moved
            assigned = Assigned(best=end.best[:, 0].copy(), seen=params.seen, cycle=cycle, moved=moved)
        return Fitted(
            run=run._replace(converged=False, stopped="cycle") if cycle and run.converged else run,
            settings=settings,
            concepts=data.concepts,
            papers=data.papers,
            psi=params.psi,
            words=words,
            vocabulary=data.vocabulary,
            context=context.learn(words, around) if isinstance(words, Lexicon) and around is not None else None,
            responsibilities=r,
            assigned=assigned,
            labelled=data.labelled,
            totals=totals,
        )

    # ranking

    def _ranking(self) -> Ranking:
        """How to rank; these settings may be changed after a fit."""
        now, fitted = settings_of(self), self.fitted_
        words = now.words if isinstance(now.words, Mention) else Mention()
        usual = 0.0 if fitted.labelled else answers.LENT
        return Ranking(usual if now.ontology_smoothing is None else now.ontology_smoothing, words.context, words.several)

    def rank(self, sentences: Any, authors: Any = None, k: int = 10, *, text: str = "text", out: Any = None) -> Any:
        """Ids (S, k) and probabilities (S, k) of the best concepts of each sentence; None and 0 where there are fewer.

        `authors` is one list of names for all sentences, or one for each; unknown names count as anybody. Probabilities are the
        posterior of eq. 1, and what they lack to 1 is on other concepts or none. With mentions the order lets concepts compete only
        for the words they share, since a sentence may speak of several: a probability may then be larger than the one before it.

        Of texts beyond memory, see `fit`, the table of `annotate` is written to the folder `out`.
        """
        if in_files(sentences):
            return self.annotate(sentences, authors, k, text=text, out=out)
        found = answers.posterior(self.fitted_, self._ranking(), sentences, authors, k)
        return np.append(self.concept_ids_, [None])[found.concept], found.probability

    def annotate(self, sentences: Any, authors: Any = None, k: int = 5, *, text: str = "text", out: Any = None) -> Any:
        """A table with a row for each sentence and concept: rank, id, name, probability, the string it was known by, and P(none).

        Write it with .to_csv, .to_parquet or .to_json. Of texts beyond memory, see `fit`, it is written to the folder `out` as
        Parquet, with the other columns of their tables; `authors` then names the column of the authors.
        """
        if in_files(sentences) or (out is not None and goes_out(sentences, out)):
            return lazily.annotate(self, sentences, text, "authors" if authors is None else authors, k, out)
        return answers.annotate(self.fitted_, answers.posterior(self.fitted_, self._ranking(), sentences, authors, k))

    def explain(self, sentence: str, concept: str, authors: Any = None) -> pd.DataFrame:
        """Why a concept: log odds of every word against sentences in general, and of the prior against none of the concepts.

        The parts add up to the log odds of the concept against the null (mention), or against the background.
        """
        return answers.explain(self.fitted_, self._ranking(), sentence, concept, authors)

    # profiles

    def author_profile(self, author: str, n: int = 10) -> pd.DataFrame:
        """The n concepts that an author writes most about: P(concept | author), backed off on all authors."""
        return answers.author_profile(self.fitted_, author, n)

    def document_profile(self, document: str, n: int = 10) -> pd.DataFrame:
        """The n concepts with most expected sentences in a document of the fit, as shares of its sentences."""
        return answers.document_profile(self.fitted_, document, n)

    def concept_profile(self, concept: str, n: int = 10) -> pd.DataFrame:
        """The n words or strings that speak loudest for a concept, with their log odds."""
        return answers.concept_profile(self.fitted_, concept, n)

    def roll_up(self, values: Any) -> Array:
        """Values of concepts (G,) or (n, G) summed over all below each concept: a sentence on a part counts for the whole."""
        return values @ lineage(self.fitted_.concepts.up)

    # scores and samples

    def log_prob(self, sentences: Any, authors: Any = None) -> Array:
        """(S,) log P(words of each sentence | authors); with mentions, its log odds against sentences in general."""
        return answers.log_prob(self.fitted_, sentences, authors)

    def log_prob_given(self, sentences: Any) -> Array:
        """(S, G) log P(words of each sentence | concept); with mentions, log odds, -inf where no string has a word in it."""
        return answers.log_prob_given(self.fitted_, sentences)

    def document_log_likelihood(self, corpus: Any) -> Array:
        """log sum_g P(g | d) prod_s P(s | g) of each document, as if all its sentences spoke of one concept (eq. 8 of the note)."""
        return answers.document_log_likelihood(self.fitted_, corpus)

    def score(self, corpus: Any, y: Any = None, *, authors: Any = None) -> float:
        """Mean of `log_prob` over sentences: the larger, the better they were foretold."""
        return self._evaluate(corpus, authors).value

    def _evaluate(self, sentences: Any, authors: Any = None) -> Scored:
        """Mean log probability of sentences: exact for the multinomial; mentions have log odds, which are not normalised."""
        values, exact = self.log_prob(sentences, authors), isinstance(self.fitted_.words, Words)
        return mean_score(values, "exact" if exact else "estimate", "nats/sentence" + " over background" * (not exact))

    def sample(self, n: int = 1, *, authors: Any = None, length: int = 15, random_state: Any = None) -> tuple[Corpus, np.ndarray]:
        """n new sentences of `length` words, each its own document, with the ids they speak of (None: of nothing).

        With mentions a sentence is a string of its concept amid words drawn by their rates: (1) of `mention` is no law of words.
        """
        return answers.sample(self.fitted_, n, authors, length, random_state)

    # what was learned

    concept_words_ = part(answers.concept_words)
    vocabulary_ = part(answers.vocabulary)
    author_concepts_ = part(answers.author_concepts)
    document_concepts_ = part(answers.document_concepts)
    responsibilities_ = part(
        "here.responsibilities", "(S, G) P(concept | sentence, authors) of those kept; the null is column G + 1."
    )
    assignments_ = part(answers.assignments)
    cycle_ = part("assigned.cycle", "Sweeps after which hard assignments came back to where they were, and go round; 0: never.")
    cycling_ = part("here.assigned.moved", "Numbers of the sentences whose assignments go round in such a cycle.")
    concept_ids_ = part("concepts.ids", "(G,)")
    concept_names_ = part("concepts.names", "(G,)")
    concept_parents_ = part(answers.parents)
    authors_ = part("papers.authors", "(A,) names, sorted.")
    document_ids_ = part("here.papers.documents", "(D,)")
    sentence_documents_ = part("here.papers.sentence_document", "(S,) number of the document of each sentence of the fit.")
    n_sentences_ = part(lambda fitted: answers.sizes(fitted)[0], "Sentences of the fit.")

    def _facts(self) -> list[str]:
        S, D, named = answers.sizes(self.fitted_)
        some = f"{len(self.fitted_.assigned.moved):,}" if self.fitted_.totals is None else "some"
        cycle = [f"{some} sentences go round in a cycle of {self.cycle_} sweeps"] if self.cycle_ else []
        size = f"{S:,} sentences, {D:,} documents, {len(self.authors_):,} authors"
        return [f"{size}, {len(self.concept_ids_):,} concepts", f"{named:,} sentences speak of a concept", *cycle]

    def _at_limit(self) -> str:
        if self.stopped_ != "cycle":
            return super()._at_limit()
        told = "some"
        if self.fitted_.totals is None:
            such = ", ".join(map(str, self.cycling_[:5]))
            told = f"{len(self.cycling_)} of {self.n_sentences_} sentences (such as {such}; see cycling_)"
        return (
            f"the hard assignments of {told} go "
            f'round in a cycle of {self.cycle_} sweeps and would not settle; use assign="soft", or Multinomial(leave_one_out=False)'
        )

    def _learned(self) -> list[tuple[str, str]]:
        n_g = answers.expected(self.fitted_)
        best = [g for g in np.argsort(-n_g, kind="stable")[:8] if n_g[g] >= 0.5]
        return [(str(self.concept_names_[g]), f"{n_g[g]:,.0f} expected sentences") for g in best]

    def _measure(self) -> str:
        return "log likelihood with priors"
