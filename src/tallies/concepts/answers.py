"""What users ask of a fitted author-concept model: ranks with their evidence, profiles, roll-up, tables, samples.

Functions of the fitted record; sentences are read here and scored on the chosen backend, block by block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.backends import each
from tallies.concepts import author_prior, context, mention, word_counts
from tallies.concepts.author_prior import Psi, Rows
from tallies.concepts.context import Context
from tallies.concepts.door import Concepts, Sentences, clean_names, encode, piece, sentences_of
from tallies.concepts.fitted import Fitted
from tallies.concepts.mention import Lexicon
from tallies.concepts.scores import add_context, scores, strengths
from tallies.concepts.word_counts import TABLE, Words
from tallies.data.corpus import Corpus
from tallies.errors import DataError, at_least
from tallies.estimator import seed_of
from tallies.maths import Array, log0
from tallies.sources import Held, held

if TYPE_CHECKING:
    import pandas as pd

CANDIDATES = 40  # concepts of a sentence that compete for its words when they are ranked
BLOCK = 512  # sentences scored at a time by a thread
# of a prior to parents: chosen on unlabelled sentences; labels tell the prior of parents themselves, lending only blurs it
LENT = 0.3


class Ranking(NamedTuple):
    """How sentences are ranked: settings that change no fit."""

    smoothing: float  # share of a prior that is lent to parents
    context: float  # weight of the words around mentions
    several: bool


class Posterior(NamedTuple):
    """Concepts of sentences, best first, the null left out."""

    concept: np.ndarray  # (S, k)  -1: fewer
    probability: Array  # (S, k)
    string: np.ndarray  # (S, k)  by which it was known; -1: none
    none: Array  # (S,)  probability of the null


# scoring


def read(fitted: Fitted, sentences: Any, authors: Any) -> tuple[Sentences, Rows]:
    """Sentences, and who stands behind them; a document is a run of sentences with the same authors."""
    texts, document, _, known = sentences_of(sentences)
    if authors is None:
        names = [known[d] for d in document]
    elif isinstance(authors, str) or not np.iterable(authors) or all(isinstance(a, str) for a in authors):
        names = [clean_names(authors)] * len(texts)
    else:
        names = [clean_names(a) for a in authors]
    if len(names) != len(texts):
        raise DataError(f"authors must be one list for all, or one for each of the {len(texts)} sentences; got {len(names)}")
    runs = np.cumsum([i > 0 and a != names[i - 1] for i, a in enumerate(names)])
    place = {a: i for i, a in enumerate(fitted.papers.authors)}
    each = [[place.get(a, -1) for a in names[i]] for i in np.flatnonzero(np.diff(runs, prepend=-1))]
    if fitted.settings.author_backoff is None:
        # without a common prior an unknown author is left out, and only documents of unknown authors alone fall back to base
        each = [[a for a in several if a >= 0] for several in each]
    rows = author_prior.rows_of(each, np.ones(len(each)), fitted.papers.author_weight, None)
    words: Any = fitted.words.strings if isinstance(fitted.words, Lexicon) else fitted.vocabulary
    return encode(texts, runs.astype(np.int64), words), rows


def by_block(task: Callable[..., Any], x: Sentences, rows: Rows, *rest: Any, call: Callable[..., list[Any]] = each) -> list[Any]:
    """task(sentences and rows of a block, *rest) on the chosen backend, or as `call` has it; in order."""
    S = len(x.document)
    return call(task, held(lambda block: piece(x, rows, block.start, block.stop), S, 0, max(BLOCK, S // 64)), *rest)


def one_by_one(task: Callable[..., Any], sources: list[Held], *rest: Any) -> list[Any]:
    """The same by this thread, which may be one of a backend: it must not wait for the others."""
    return [task(source.load(), *rest) for source in sources]


def evidence(block: tuple[Sentences, Rows], psi: Psi, words: Lexicon | Words) -> Array:
    """(S,) log P(s | authors) of a block of sentences."""
    x, rows = block
    return scores(x, author_prior.mixture(rows, psi, guess=True), words, 1).evidence


def given(block: tuple[Sentences, Rows], words: Lexicon | Words, G: int) -> Array:
    """(S, G) log P(s | g) of a block of sentences, or with mentions the log odds of each concept."""
    x, _ = block
    if isinstance(words, Words):
        return word_counts.log_likelihoods(words, x.counts)[:, :G]
    flat = Psi(np.ones(G + 1), np.empty(0), sp.csr_array((0, G + 1)), np.ones(G + 1))
    nobody = author_prior.mixture(author_prior.rows_of([[]], np.ones(1), np.empty(0), None), flat)
    found = scores(x._replace(document=np.zeros_like(x.document)), nobody, words, G + 1)
    out = np.full((len(x.document), G + 1), -np.inf)
    s, c = np.nonzero(found.concept >= 0)
    out[s, found.concept[s, c]] = found.value[s, c]
    return out[:, :G]


# ranking


def ranking_psi(fitted: Fitted, share: float) -> Psi:
    """psi with a share of each concept's prior lent to its parents; EM itself does not know of this."""
    return author_prior.lend(fitted.psi, fitted.concepts.up, share) if share else fitted.psi


def rank_block(
    block: tuple[Sentences, Rows], psi: Psi, words: Lexicon | Words, table: Context | None, rules: Ranking, null: bool, keep: int
) -> Posterior:
    """The best concepts of a block of sentences."""
    (x, rows), G = block, len(psi.base) - null
    side = author_prior.mixture(rows, psi, guess=True)
    found = scores(x, side, words, max(keep, CANDIDATES) + null)  # of an ontology of fewer concepts the rest is empty
    if isinstance(words, Lexicon) and table is not None and rules.context:
        found = add_context(x, words, table, rules.context, found)
    concept, p = found.concept, np.exp(found.value - found.evidence[:, None])
    none = np.where(concept == G, p, 0.0).sum(axis=1)
    order = -p
    if isinstance(words, Lexicon) and rules.several:
        order = -strengths(x, side, words, found)
    order = np.where((concept == G) | (concept < 0), np.inf, order)
    best = np.argsort(order, axis=1, kind="stable")[:, :keep]
    gone = np.isinf(np.take_along_axis(order, best, axis=1))

    def take(values: np.ndarray, empty: float) -> np.ndarray:
        return np.where(gone, empty, np.take_along_axis(values, best, axis=1))

    return Posterior(take(concept, -1), take(np.where(concept == G, 0.0, p), 0.0), take(found.string, -1), none)


def posterior(
    fitted: Fitted, rules: Ranking, sentences: Any, authors: Any, k: int, call: Callable[..., list[Any]] = each
) -> Posterior:
    """The best k concepts of each sentence."""
    at_least(1, k=k)
    x, rows = read(fitted, sentences, authors)
    psi = ranking_psi(fitted, rules.smoothing)
    parts = by_block(rank_block, x, rows, psi, fitted.words, fitted.context, rules, fitted.settings.null, k, call=call)
    return Posterior(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def annotate(fitted: Fitted, found: Posterior) -> pd.DataFrame:
    """A row for each sentence and concept."""
    import pandas as pd

    s, c = np.nonzero(found.concept >= 0)
    g = found.concept[s, c]
    concepts = fitted.concepts
    columns = {"sentence": s, "rank": c + 1, "id": concepts.ids[g], "name": concepts.names[g]}
    columns["probability"] = found.probability[s, c]
    if isinstance(fitted.words, Lexicon):
        texts = list(fitted.words.strings.keys)
        columns["known_by"] = [mention.spelled(fitted.words, texts, m) for m in found.string[s, c]]
    return pd.DataFrame({**columns, "none": found.none[s]})


def explain(fitted: Fitted, rules: Ranking, sentence: str, concept: str, authors: Any) -> pd.DataFrame:
    """Parts that add up to the log odds of a concept."""
    import pandas as pd

    g, null = place(fitted.concepts, concept), fitted.settings.null
    x, rows = read(fitted, [sentence], None if authors is None else [clean_names(authors)])
    p = author_prior.cells(author_prior.mixture(rows, ranking_psi(fitted, rules.smoothing), guess=True), 0, slice(None))
    parts = [("prior", float(log0(p[g]) - (log0(p[-1]) if null else 0.0)))]
    w = fitted.words
    if isinstance(w, Lexicon):
        keys, texts = set(x.counts.indices.tolist()), list(w.strings.keys)
        more, stems = mention.explain(w, texts, keys, g)
        parts += more
        if stems is not None and fitted.context is not None and rules.context:
            parts += context.explain(fitted.context, texts, rules.context, keys, g, stems)
    else:
        found = dict(zip(*(part.tolist() for part in word_counts.row_of(w, g)), strict=True))
        words = vocabulary(fitted)
        parts += [(words[v], n * found.get(v, 0.0)) for v, n in zip(x.counts.indices.tolist(), x.counts.data.tolist(), strict=True)]
        reference = w.slope[-1] if null else -np.log(w.smooth.sum())
        parts += [("length", float(x.counts.sum() * (w.slope[g] - reference)))]
    return pd.DataFrame(parts, columns=["what", "log_odds"])


# the pieces of the model: P(w | g), P(g | a), P(g | d)


def vocabulary(fitted: Fitted) -> np.ndarray:
    """(V,) words: of the corpus, or with mentions those of the ontology's strings."""
    return np.asarray(fitted.vocabulary) if isinstance(fitted.words, Words) else fitted.words.strings.surfaces()


def concept_words(fitted: Fitted) -> sp.csr_array:
    """(G, V) P(word | concept), for the words of `vocabulary_`; with mentions, of a word of a mention."""
    G = fitted.n_concepts
    if isinstance(fitted.words, Lexicon):
        return mention.word_law(fitted.words, G)
    _fits(G, len(fitted.words.smooth), "concepts x words", "concept_profile(concept) shows one concept")
    return sp.csr_array(word_counts.phi_of(fitted.words)[:G])


def author_law(fitted: Fitted, a: Any) -> Array:
    """(., G) P(g | a) of some authors, backed off on all authors."""
    w = fitted.papers.author_weight[a][:, None]
    return (w * author_prior.laid_out(fitted.psi, a) + (1.0 - w) * fitted.psi.base)[:, : fitted.n_concepts]


def author_concepts(fitted: Fitted) -> Array:
    """(A, G) P(concept | author), backed off on all authors; what a row lacks to 1 is on none of them."""
    A = len(fitted.papers.authors)
    _fits(A, fitted.n_concepts, "authors x concepts", "author_profile(author) shows one author")
    return author_law(fitted, np.arange(A))


def document_concepts(fitted: Fitted) -> Array:
    """(D, G) P(concept | document): of a sentence before it is read, given who wrote the document."""
    D, G = len(fitted.here.papers.documents), fitted.n_concepts
    _fits(D, G, "documents x concepts", "document_profile(document) shows one document")
    return author_prior.cells(author_prior.mixture(fitted.papers.rows, fitted.psi, guess=True), *np.ix_(range(D), range(G)))


def assignments(fitted: Fitted) -> np.ndarray:
    """(S,) id of the best concept of each sentence of the fit; None: none of them."""
    return np.append(fitted.concepts.ids, [None, None])[fitted.here.assigned.best]


def _fits(n: int, m: int, what: str, remedy: str) -> None:
    if n * m > TABLE:
        raise ValueError(f"the table of {n:,} x {m:,} ({what}) is too large to be laid out; {remedy}")


# profiles


def place(concepts: Concepts, concept: str) -> int:
    """The number of a concept."""
    at = np.flatnonzero(concepts.ids == concepts.alternatives.get(concept, concept))
    if not len(at):
        raise KeyError(f"no concept {concept!r} in the ontology of this model")
    return int(at[0])


def _table(concepts: Concepts, p: Array, n: int) -> pd.DataFrame:
    import pandas as pd

    best = np.argsort(-p, kind="stable")[:n]
    return pd.DataFrame({"id": concepts.ids[best], "name": concepts.names[best], "probability": p[best]})


def author_profile(fitted: Fitted, author: str, n: int) -> pd.DataFrame:
    at = np.flatnonzero(fitted.papers.authors == " ".join(author.split()))
    if not len(at):
        raise KeyError(f"no author {author!r} among the {len(fitted.papers.authors)} of this model")
    return _table(fitted.concepts, author_law(fitted, at)[0], n)


def document_profile(fitted: Fitted, document: str, n: int) -> pd.DataFrame:
    papers = fitted.here.papers
    mine = np.flatnonzero(papers.documents[papers.sentence_document] == str(document))
    if not len(mine):
        raise KeyError(f"no document {document!r} among the {len(papers.documents)} of this model")
    return _table(fitted.concepts, expected(fitted, mine) / len(mine), n)


def concept_profile(fitted: Fitted, concept: str, n: int) -> pd.DataFrame:
    import pandas as pd

    g, w = place(fitted.concepts, concept), fitted.words
    if isinstance(w, Words):
        own, gain = word_counts.row_of(w, g)
        best = np.argsort(-gain)[:n]
        return pd.DataFrame({"word": vocabulary(fitted)[own[best]], "log_odds": gain[best]})
    texts, mine = list(w.strings.keys), np.flatnonzero(w.strings.owner == g).tolist()
    loud = sorted(((mention.spelled(w, texts, m), mention.whole_odds(w, texts, m)) for m in mine), key=lambda pair: -pair[1])
    return pd.DataFrame(loud[:n], columns=["word", "log_odds"])


def expected(fitted: Fitted, some: Any = slice(None)) -> Array:
    """(G,) expected sentences of each concept, among some of the fit."""
    if fitted.totals is not None:
        return fitted.totals.expected[: fitted.n_concepts]
    return np.asarray(fitted.responsibilities[some].sum(axis=0)).ravel()[: fitted.n_concepts]


def written(fitted: Fitted) -> sp.csr_array:
    """(A, G) expected sentences of each author on each concept; those of several authors in equal parts."""
    papers, totals = fitted.papers, fitted.totals
    known = (papers.rows, len(papers.authors), papers.sentence_document, fitted.responsibilities)
    found = sp.csr_array((author_prior.by_author(*known) if totals is None else totals.written)[:, : fitted.n_concepts])
    found.eliminate_zeros()
    return found


def sizes(fitted: Fitted) -> tuple[int, int, int]:
    """Sentences, documents, and sentences that speak of a concept."""
    if fitted.totals is not None:
        return fitted.totals[:3]
    best = fitted.assigned.best
    return len(best), len(fitted.papers.documents), int(np.sum((best >= 0) & (best < fitted.n_concepts)))


def parents(fitted: Fitted) -> list[list[int]]:
    """Numbers of the parents of each concept."""
    up = fitted.concepts.up
    return [above.tolist() for above in np.split(up.indices, up.indptr[1:-1])]


# scores and samples


def log_prob(fitted: Fitted, sentences: Any, authors: Any) -> Array:
    x, rows = read(fitted, sentences, authors)
    return np.concatenate(by_block(evidence, x, rows, fitted.psi, fitted.words))


def log_prob_given(fitted: Fitted, sentences: Any) -> Array:
    x, rows = read(fitted, sentences, None)
    return np.concatenate(by_block(given, x, rows, fitted.words, fitted.n_concepts))


def document_log_likelihood(fitted: Fitted, corpus: Any) -> Array:
    if isinstance(fitted.words, Lexicon):
        raise ValueError('the likelihood of whole documents needs words="multinomial"; mentions belong to sentences')
    texts, document, ids, names = sentences_of(corpus)
    joined = [" ".join(texts[i] for i in np.flatnonzero(document == d)) for d in range(len(ids))]
    return log_prob(fitted, joined, names)


def sample(fitted: Fitted, n: int, authors: Any, length: int, random_state: Any) -> tuple[Corpus, np.ndarray]:
    at_least(1, n=n, length=length)
    rng, w = np.random.default_rng(seed_of(random_state)), fitted.words
    _, rows = read(fitted, ["x"], None if authors is None else [clean_names(authors)])
    p = author_prior.cells(author_prior.mixture(rows, fitted.psi, guess=True), 0, slice(None))
    concepts = rng.choice(len(p), size=n, p=p / p.sum())
    G = fitted.n_concepts
    draw = mention.sampler(w, G, rng) if isinstance(w, Lexicon) else word_counts.sampler(w, vocabulary(fitted), rng)
    texts = [" ".join(draw(int(g), length)) for g in concepts]
    corpus = Corpus.from_pairs([(i, t) for i, t in enumerate(texts)], stop_words=None)
    return corpus, np.append(fitted.concepts.ids, [None])[concepts]
