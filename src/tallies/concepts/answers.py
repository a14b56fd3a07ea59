"""What users ask of a fitted author-concept model: ranks with their evidence, profiles, roll-up, tables, samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tallies.backends import over_rows
from tallies.concepts import author_prior, mention, word_counts
from tallies.concepts import context as beside
from tallies.concepts.door import Sentences, clean_names, encode, sentences_of
from tallies.concepts.kernels import mentions as kernels
from tallies.data.corpus import Corpus
from tallies.errors import DataError
from tallies.evaluation.score import Score, mean_score
from tallies.maths import Array, log0

if TYPE_CHECKING:
    import pandas as pd

CANDIDATES = 40  # concepts of a sentence that compete for its words when they are ranked
BLOCK = 512  # sentences scored at a time by a thread


LENT = 0.3  # chosen on unlabelled sentences; labels tell the prior of parents themselves, and lending only blurs it


class ConceptUse:
    """Mixed into AuthorConcept, which has the fitted attributes that these methods read."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the attributes of the model

    # ranking

    def _ready(self, sentences: Any, authors: Any) -> tuple[Sentences, Any, list[str]]:
        """Sentences and the rows of their authors; a document is a run of sentences with the same authors."""
        check_is_fitted(self)
        texts, document, _, known = sentences_of(sentences)
        if authors is None:
            names = [known[d] for d in document]
        elif isinstance(authors, str) or all(isinstance(a, str) for a in authors):
            names = [clean_names(authors)] * len(texts)
        else:
            names = [clean_names(a) for a in authors]
        if len(names) != len(texts):
            raise DataError(f"authors must be one list for all, or one for each of the {len(texts)} sentences; got {len(names)}")
        runs = np.cumsum([i > 0 and a != names[i - 1] for i, a in enumerate(names)])
        place = {a: i for i, a in enumerate(self.authors_)}
        each = [[place.get(a, -1) for a in names[i]] for i in np.flatnonzero(np.diff(runs, prepend=-1))]
        level = self._plan.author_backoff is not None
        # without a common prior an unknown author is left out, and only documents of unknown authors alone fall back to base
        each = each if level else [[a for a in several if a >= 0] for several in each]
        rows = author_prior.rows_of(each, np.ones(len(each)), self.author_weight_, None, len(place))
        return encode(self, self._plan, texts, runs.astype(np.int64)), rows, list(texts)

    def _ranking(self) -> Any:
        """The params that rank: a part of each concept's common prior is lent to its parents, for a text that often speaks of
        the parts of a thing will also speak of the thing. EM itself does not know of this; it changes no fit."""
        t, psi = self._plan.ontology_smoothing, self.params_.psi
        if t is None:
            t = 0.0 if self.labelled_ else LENT
        if not t:
            return self.params_
        cached = self.__dict__.get("_lent")
        if cached is None or cached[0] is not psi or cached[1] != t:
            child = np.repeat(np.arange(len(self.concept_parents_)), [len(p) for p in self.concept_parents_])
            parent = np.array([p for above in self.concept_parents_ for p in above], dtype=np.int64)
            part = t / np.bincount(child, minlength=len(psi.base))[child]

            def lend(p: Array) -> Array:
                out = p.copy()
                np.subtract.at(out, child, part * p[child])
                np.add.at(out, parent, part * p[child])
                return out

            self.__dict__["_lent"] = cached = (psi, t, psi._replace(base=lend(psi.base), everybody=lend(psi.everybody)))
        return self.params_._replace(psi=cached[2])

    def _score_all(self, x: Sentences, rows: Any, keep: int, params: Any) -> tuple[np.ndarray, ...]:
        """As `_scores`, block by block on all threads; sentences of unknown authors alone with everybody's prior."""
        S = len(x.document)
        out: list[np.ndarray] = [np.empty((S, keep), t) for t in (np.int32, np.float64, np.float64, np.int32)] + [np.empty(S)]
        unknown = (np.diff(rows.ptr) == 0)[x.document]
        for some, psi in ((unknown, params.psi._replace(base=params.psi.everybody)), (~unknown, params.psi)):
            mine, here = np.flatnonzero(some), params._replace(psi=psi)
            part = x if len(mine) == S else x.take(mine)

            def task(block: slice, mine: np.ndarray = mine, part: Sentences = part, here: Any = here) -> None:
                for whole, found in zip(out, self._scores(part.cut(block.start, block.stop, 0), rows, here, keep), strict=True):
                    whole[mine[block]] = found

            over_rows(task, len(mine), max(BLOCK, len(mine) // 64))
        return tuple(out)

    def _prior(self, rows: Any, params: Any) -> Array:
        """(D, G) P(g | d) of few documents."""
        psi = params.psi
        own = (author_prior.matrix(rows, len(psi.constant)) @ psi.own).toarray()
        dense = author_prior.effective_share(rows, psi)[:, None] * psi.base + own
        return np.where((np.diff(rows.ptr) == 0)[:, None], psi.everybody, dense)

    def _posterior(self, sentences: Any, authors: Any, keep: int) -> tuple[np.ndarray, Array, np.ndarray, Array]:
        """Concept numbers, probabilities and strings (S, keep), best first, the null left out; and its probability (S,)."""
        x, rows, _ = self._ready(sentences, authors)
        G, null = len(self.concept_ids_), self._plan.null
        wide = min(max(keep, CANDIDATES) + null, G + null)
        params = self._ranking()
        index, value, _, string, evidence = self._score_all(x, rows, wide, params)
        if params.beside is not None and self._plan.beside:
            evidence = self._add_beside(x, index, value, string, evidence)
        p = np.exp(value - evidence[:, None])
        none = np.where(index == G, p, 0.0).sum(axis=1) if null else np.zeros(len(p))
        p[index == G] = 0.0
        order = -p
        if self._plan.words == "mention" and self._plan.several:
            nothing = author_prior.dense_column(rows, params.psi, G)
            null = np.where(np.diff(rows.ptr) == 0, params.psi.everybody[G], nothing)[x.document]
            order = -self._strengths(x, null, index, value, string)
        order = np.where((index == G) | (index < 0), np.inf, order)
        best = np.argsort(order, axis=1, kind="stable")[:, :keep]
        take = lambda a: np.take_along_axis(a, best, axis=1)  # noqa: E731
        index, p, string, gone = take(index), take(p), take(string), np.isinf(take(order))
        lack = ((0, 0), (0, keep - index.shape[1]))  # an ontology of fewer concepts than asked for
        index, p, string = np.where(gone, -1, index), np.where(gone, 0.0, p), np.where(gone, -1, string)
        return np.pad(index, lack, constant_values=-1), np.pad(p, lack), np.pad(string, lack, constant_values=-1), none

    def _add_beside(self, x: Sentences, index: np.ndarray, value: Array, string: np.ndarray, evidence: Array) -> Array:
        """Add what the words beside each candidate say to its value; the evidence that follows."""
        k, table = self.strings_, self.params_.beside
        rest = np.maximum(1.0 - np.exp(value - evidence[:, None]).sum(axis=1), 0.0)  # of the concepts that are no candidates
        stems = np.ascontiguousarray(k.words[:, 1])
        made = (*beside.stems(k), k.word_ptr, stems, index, string, *table, self._plan.beside, value)
        kernels.add_beside(x.ptr, x.keys, *made)
        return np.logaddexp(np.logaddexp.reduce(value, axis=1), evidence + log0(rest))

    def rank(self, sentences: Any, authors: Any = None, k: int = 10) -> tuple[np.ndarray, Array]:
        """Ids (S, k) and probabilities (S, k) of the best concepts of each sentence; None and 0 where there are fewer.

        `authors` is one list of names for all sentences, or one for each; unknown names count as anybody. Probabilities are the
        posterior of eq. 1, and what they lack to 1 is on other concepts or none. With mentions the order lets concepts compete only
        for the words they share, since a sentence may speak of several: a probability may then be larger than the one before it.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        index, p, _, _ = self._posterior(sentences, authors, k)
        names = np.append(self.concept_ids_, [None])
        return names[index], p

    def annotate(self, sentences: Any, authors: Any = None, k: int = 5) -> pd.DataFrame:
        """A table with a row for each sentence and concept: rank, id, name, probability, the string it was known by, and P(none).

        Write it with .to_csv, .to_parquet or .to_json.
        """
        import pandas as pd

        index, p, string, none = self._posterior(sentences, authors, k)
        s, c = np.nonzero(index >= 0)
        g = index[s, c]
        columns = {"sentence": s, "rank": c + 1, "id": self.concept_ids_[g], "name": self.concept_names_[g], "probability": p[s, c]}
        if self._plan.words == "mention":
            columns["known_by"] = [self._string(m) for m in string[s, c]]
        return pd.DataFrame({**columns, "none": none[s]})

    def _string(self, m: int) -> str:
        k = self.strings_
        return " ".join(k.keys[key][1:] for key in k.words[k.word_ptr[m] : k.word_ptr[m + 1], 2])

    def explain(self, sentence: str, concept: str, authors: Any = None) -> pd.DataFrame:
        """Why a concept: log odds of every word against sentences in general, and of the prior against none of the concepts.

        The parts add up to the log odds of the concept against the null (mention), or against the background.
        """
        import pandas as pd

        g = self._place(concept)
        x, rows, _ = self._ready([sentence], None if authors is None else [clean_names(authors)])
        p = self._prior(rows, self._ranking())[0]
        parts = [("prior", float(np.log(p[g]) - (np.log(p[-1]) if self._plan.null else 0.0)))]
        if self._plan.words == "mention":
            keys = set(x.keys.tolist())
            more, stems = mention.explain(self.strings_, self.params_.words, self._noise(), keys, g)
            parts += more
            if stems is not None and self.params_.beside is not None and self._plan.beside:
                parts += beside.explain(self.strings_, self.params_.beside, self._plan.beside, keys, g, stems)
        else:
            w = self.params_.words
            own, gain = word_counts.row_of(w, g)
            found = dict(zip(own.tolist(), gain.tolist(), strict=True))
            counts: Any = x.counts
            parts += [(self.vocabulary_[v], n * found.get(v, 0.0)) for v, n in zip(x.keys.tolist(), counts.tolist(), strict=True)]
            reference = w.slope[-1] if self._plan.null else -np.log(w.smooth.sum())
            parts += [("length", float(counts.sum() * (w.slope[g] - reference)))]
        return pd.DataFrame(parts, columns=["what", "log_odds"])

    # profiles

    def _place(self, concept: str) -> int:
        at = np.flatnonzero(self.concept_ids_ == self.alternatives_.get(concept, concept))
        if not len(at):
            raise KeyError(f"no concept {concept!r} in the ontology of this model")
        return int(at[0])

    def _table(self, p: Array, n: int) -> pd.DataFrame:
        import pandas as pd

        best = np.argsort(-p, kind="stable")[:n]
        return pd.DataFrame({"id": self.concept_ids_[best], "name": self.concept_names_[best], "probability": p[best]})

    def _row(self, r: int) -> Array:
        psi = self.params_.psi
        return (psi.constant[r] * psi.base + psi.own[[r]].toarray()[0])[: len(self.concept_ids_)]

    def author_profile(self, author: str, n: int = 10) -> pd.DataFrame:
        """The n concepts that an author writes most about, as psi of the author, backed off on all authors."""
        check_is_fitted(self)
        at = np.flatnonzero(self.authors_ == " ".join(author.split()))
        if not len(at):
            raise KeyError(f"no author {author!r} among the {len(self.authors_)} of this model")
        weight = 1.0 if self.author_weight_ is None else self.author_weight_[at[0]]
        base = self.params_.psi.base[: len(self.concept_ids_)]
        return self._table(weight * self._row(at[0]) + (1.0 - weight) * base, n)

    def document_profile(self, document: str, n: int = 10) -> pd.DataFrame:
        """The n concepts with most expected sentences in a document of the fit, as shares of its sentences."""
        mine = np.flatnonzero(self.document_ids_[self.sentence_documents_] == str(document))
        if not len(mine):
            raise KeyError(f"no document {document!r} among the {len(self.document_ids_)} of this model")
        return self._table(np.asarray(self.responsibilities_[mine].sum(axis=0)).ravel()[: len(self.concept_ids_)] / len(mine), n)

    def concept_profile(self, concept: str, n: int = 10) -> pd.DataFrame:
        """The n words or strings that speak loudest for a concept, with their log odds."""
        import pandas as pd

        g = self._place(concept)
        if self._plan.words == "multinomial":
            words, gain = word_counts.row_of(self.params_.words, g)
            best = np.argsort(-gain)[:n]
            return pd.DataFrame({"word": self.vocabulary_[words[best]], "log_odds": gain[best]})
        full = [
            (self._string(m), mention.full_odds(self.strings_, self.params_.words, self._noise(), m))
            for m in np.flatnonzero(self.strings_.owner == g).tolist()
        ]
        return pd.DataFrame(sorted(full, key=lambda pair: -pair[1])[:n], columns=["word", "log_odds"])

    @property
    def author_concepts_(self) -> sp.csr_array:
        """(A, G) P(concept | author) where the author has sentences of the concept, without the back-off."""
        A, G = len(self.authors_), len(self.concept_ids_)
        return sp.csr_array(self.params_.psi.own[:A, :G])

    @property
    def concept_words_(self) -> sp.csr_array:
        """(G, V) log odds of the words of each concept (multinomial), or (G, words of strings) of their full match (mention)."""
        G = len(self.concept_ids_)
        if self._plan.words == "multinomial":
            w = self.params_.words
            return sp.csr_array(
                sp.csr_array((w.gain.astype(float), w.concept, w.ptr), shape=(len(w.smooth), G + self._plan.null)).T[:G]
            )
        k, w = self.strings_, self.params_.words
        owner = sp.csr_array((np.ones(len(k.owner)), (k.owner, np.arange(len(k.owner)))), shape=(G, len(k.owner)))
        return sp.csr_array(owner @ sp.csr_array((w.gain.astype(float), w.string, w.ptr), shape=(len(k.keys), len(k.owner))).T)

    def _keep_assignments(self, latents: Sequence[Any]) -> None:
        index, r = (np.concatenate([part[i] for part in latents]) for i in (0, 1))
        G, kept = len(self.concept_ids_), (index >= 0) & (r > 0)
        ptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        self.responsibilities_ = sp.csr_array((r[kept], index[kept], ptr), shape=(len(index), G + self._plan.null))
        self.assignments_ = np.append(self.concept_ids_, [None, None])[index[:, 0]]

    def roll_up(self, values: Any) -> Array:
        """Values of concepts (G,) or (n, G) summed over all below each concept: a sentence on a part counts for the whole."""
        if "_lineage" not in self.__dict__:
            G, rows = len(self.concept_ids_), []
            for g in range(G):
                queue = [g]
                for c in queue:
                    queue += [p for p in self.concept_parents_[c] if p not in queue]
                rows.append(queue)
            ptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
            self.__dict__["_lineage"] = sp.csr_array((np.ones(ptr[-1]), np.concatenate(rows), ptr), shape=(G, G))
        return values @ self.__dict__["_lineage"]

    # scores and samples

    def log_prob(self, sentences: Any, authors: Any = None) -> Array:
        """log P(words of each sentence | authors); with mentions, its log odds against sentences in general."""
        x, rows, _ = self._ready(sentences, authors)
        return self._score_all(x, rows, 1, self.params_)[4]

    def document_log_likelihood(self, corpus: Any) -> Array:
        """log sum_g P(g | d) prod_s P(s | g) of each document, as if all its sentences spoke of one concept (eq. 8 of the note)."""
        if self._plan.words != "multinomial":
            raise ValueError('the likelihood of whole documents needs words="multinomial"; mentions belong to sentences')
        texts, document, ids, names = sentences_of(corpus)
        joined = [" ".join(texts[i] for i in np.flatnonzero(document == d)) for d in range(len(ids))]
        return self.log_prob(joined, names)

    def _evaluate(self, sentences: Any, authors: Any = None) -> Score:
        """Mean log probability of sentences: exact for the multinomial; mentions have log odds, which are not normalised."""
        values = self.log_prob(sentences, authors)
        if self._plan.words == "multinomial":
            return mean_score(values, "exact", "nats/sentence")
        return mean_score(values, "estimate", "nats/sentence over background")

    def sample(self, n: int = 1, authors: Any = None, length: int = 15, random_state: Any = None) -> tuple[Corpus, np.ndarray]:
        """n new sentences of `length` words, each its own document, with the ids they speak of (None: of nothing).

        With mentions a sentence is a string of its concept amid words drawn by their rates: (1) of `mention` is no law of words.
        """
        check_is_fitted(self)
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        rng = check_random_state(random_state)
        _, rows, _ = self._ready(["x"], None if authors is None else [clean_names(authors)])
        p = self._prior(rows, self.params_)[0]
        concepts = rng.choice(len(p), size=n, p=p / p.sum())
        draw = (
            mention.sampler(self.strings_, self.params_.words, self._noise(), rng)
            if self._plan.words == "mention"
            else self._word_sampler(rng)
        )
        texts = [" ".join(draw(int(g), length)) for g in concepts]
        corpus = Corpus.from_pairs([(i, t) for i, t in enumerate(texts)], stop_words=None)
        return corpus, np.append(self.concept_ids_, [None])[concepts]

    def _word_sampler(self, rng: Any) -> Any:
        w = self.params_.words
        V = len(w.smooth)
        whole = not len(w.counts)

        def draw(g: int, length: int) -> list[str]:
            own, gain = word_counts.row_of(w, g)
            phi = (np.zeros(V) if whole else w.smooth.copy()) + 0.0
            phi[own] = np.exp(gain) if whole else w.smooth[own] * np.exp(gain)
            return self.vocabulary_[rng.choice(V, size=length, p=phi / phi.sum())].tolist()

        return draw

    def _facts(self) -> list[str]:
        named, authors = int(np.sum(self.assignments_ != None)), len(self.authors_)  # noqa: E711  elementwise
        cycle = [f"hard assignments came back after {self.cycle_} sweeps: a cycle, not a maximum"] if self.cycle_ else []
        size = f"{self.n_sentences_:,} sentences, {len(self.document_ids_):,} documents, {authors:,} authors"
        return [f"{size}, {len(self.concept_ids_):,} concepts", f"{named:,} sentences speak of a concept", *cycle]

    def _learned(self) -> list[tuple[str, str]]:
        n_g = np.asarray(self.responsibilities_.sum(axis=0)).ravel()[: len(self.concept_ids_)]
        best = [g for g in np.argsort(-n_g, kind="stable")[:8] if n_g[g] >= 0.5]
        return [(str(self.concept_names_[g]), f"{n_g[g]:,.0f} expected sentences") for g in best]

    def _measure(self) -> str:
        return "log likelihood with priors"

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {k: v for k, v in state.items() if k not in ("_places", "_lineage", "_lent")}
