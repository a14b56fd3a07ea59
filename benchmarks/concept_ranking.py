"""Ranking the terms of an ontology for real sentences: AuthorConcept and its rivals, each default switched off, choices by
cross-validation over documents."""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections import Counter
from unittest.mock import patch

import numpy as np
from concept_rivals import DEEP, Dictionary, Retrieval, ranked, stems, surfaces

from tallies.concepts import estimator
from tallies.concepts.estimator import AuthorConcept
from tallies.concepts.model import EM, Background
from tallies.concepts.settings import Mention, Multinomial
from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology
from tallies.evaluation.ranking import hit_rate, macro_recall, reciprocal_rank

FOLDS = 5
RANKING = ("ontology_smoothing", "several", "context")  # settings that change ranks alone: no new fit
TINY = 1e-300  # a prior of zero whose log is finite


def spread(options):
    """Options of the words, told by their names, as the object that holds them."""
    for kind in (Mention, Multinomial):
        mine = {k: v for k, v in options.items() if k in kind._fields}
        if mine:
            options = {**{k: v for k, v in options.items() if k not in mine}, "words": kind(**mine)}
    return options


class WithoutNull(EM):
    def _without(self, params):
        psi = params.psi
        base, everybody, own = psi.base.copy(), psi.everybody.copy(), psi.own.copy()
        own.data[own.indices == len(base) - 1] = TINY
        base[-1] = everybody[-1] = TINY
        return params._replace(psi=psi._replace(base=base / base.sum(), everybody=everybody / everybody.sum(), own=own))

    def begin(self, *given):
        return self._without(super().begin(*given))

    def update(self, params, tally, rng):
        return self._without(super().update(params, tally, rng))


class FlatBackground(Background):
    def update(self, params, tally, rng):
        return tally._replace(counts=np.full(len(tally.counts), tally.counts.mean()))


class NoNull(AuthorConcept):
    """Every sentence must speak of a concept."""

    def _plan(self, data, seed):
        with patch.object(estimator, "EM", WithoutNull):
            return (yield from super()._plan(data, seed))


class NoBackground(AuthorConcept):
    """All words are equally frequent in sentences in general."""

    def _plan(self, data, seed):
        with patch.object(estimator, "Background", FlatBackground):
            return (yield from super()._plan(data, seed))


OFF = {
    "no authors: all share one prior": {"author_backoff": 1e12},
    "documents have a prior of their own": {"document_backoff": 5.0},
    "every co-author credited whole": {"credit": "whole"},
    "no null concept": {"make": NoNull},
    "prior not learned (no EM)": {"gamma": 1e9},
    "EM to the end (no early stop)": {"tol": 1e-6},
    "hard EM": {"assign": "hard"},
    "no smoothing along the ontology": {"ontology_smoothing": 0.0},
    "one concept a sentence (several=False)": {"several": False},
    "words around a mention do not count": {"context": 0.0},
    "no background: all words equally rare": {"make": NoBackground},
    "no stems, no prefixes": {"stem": 1e-12, "prefix": 1e-12},
    "no prefixes": {"prefix": 1e-12},
    "missing words cost the same": {"missing_rare": 0.0, "missing": 6.0},
    "synonyms like names": {"synonym": 0.0},
    "no pairs": {"pair": 0.0},
    "no bonus for whole strings": {"whole": 0.0},
}
OFF_MULTINOMIAL = {
    "no null concept": {"null": False},
    "no background": {"background": False},
    "definitions at weight 0.1": {"definition_weight": 0.1},
    "definitions like names": {"definition_weight": 1.0},
    "words learned (anchor=10)": {"anchor": 10.0},
    "words learned, not leaving out one": {"anchor": 10.0, "leave_one_out": False},
    "prior not learned (no EM)": {"gamma": 1e9},
    "no authors": {"author_backoff": 1e12},
    "no smoothing along the ontology": {"ontology_smoothing": 0.0},
}


def lines(path):
    if not path.exists():
        sys.exit(f"missing: {path}")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


class Craft:
    """The sentences of the splits, ordered by document, with their gold terms and authors."""

    def __init__(self, folder):
        self.ontology = Ontology.read(folder / "go-2022-07.obo.gz")
        self.authors = {d["pmid"]: d["authors"] for d in lines(folder / "craft_documents.jsonl")}
        everything = lines(folder / "craft_sentences.jsonl.gz")
        place = {d: i for i, d in enumerate(dict.fromkeys(s["doc"] for s in everything))}
        self.sentences = sorted(everything, key=lambda s: place[s["doc"]])  # stable
        for s in self.sentences:
            s["gold"] = {self.ontology.resolve(g) for g in s["go"]} - {None}

    def split(self, name):
        return [s for s in self.sentences if s["split"] == name]

    def corpus(self, some):
        docs = dict.fromkeys(s["doc"] for s in some)
        pairs = [(d, a) for d in docs for a in self.authors.get(d, [])]
        return Corpus.from_pairs([(s["doc"], s["text"]) for s in some], pairs)

    def fit(self, some, labels=False, make=AuthorConcept, **options):
        given = [sorted(s["gold"]) for s in some] if labels else None  # all were read: no gold term means none
        with np.errstate(all="ignore"):
            return make(**spread(options)).fit(self.corpus(some), self.ontology, labels=given)

    def rank(self, model, some):
        found = model.rank([s["text"] for s in some], authors=[self.authors.get(s["doc"], []) for s in some], k=DEEP)[0]
        return [[g for g in row if g is not None] for row in found]


def difference(a, b, some):
    """Mean of a - b over sentences, and its standard error over documents."""
    _, d = np.unique([s["doc"] for s in some], return_inverse=True)
    n, total = np.bincount(d), np.bincount(d, weights=a - b)
    mean = total.sum() / n.sum()
    return mean, np.sqrt(len(n) / (len(n) - 1) * np.sum((total - mean * n) ** 2)) / n.sum()


class Table:
    """Rows of scores, each beside a reference."""

    def __init__(self, test):
        self.test, self.reference, self.found = test, None, {}
        self.gold = [s["gold"] for s in test]
        self.frequent = Counter(g for several in self.gold for g in several).most_common(1)[0][0]
        print(
            "| method | hit@1 | hit@10 | MRR | MRR without the most frequent term | macro recall@10 "
            "| MRR less that of the reference (s.e. over documents) | CPU s |\n|---|---|---|---|---|---|---|---|"
        )

    def row(self, name, rows, start, reference=False):
        mine = reciprocal_rank(rows, self.gold)
        self.found[name] = float(mine.mean())
        other = [i for i, g in enumerate(self.gold) if self.frequent not in g]
        without = mine[other].mean()
        if reference:
            self.reference = mine
        beside = ""
        if self.reference is not None and not reference:
            beside = "{:+.3f} ({:.3f})".format(*difference(mine, self.reference, self.test))
        print(
            f"| {name} | {hit_rate(rows, self.gold, 1):.3f} | {hit_rate(rows, self.gold, 10):.3f} | {mine.mean():.3f} | {without:.3f} "
            f"| {macro_recall(rows, self.gold, 10):.3f} | {beside} | {time.process_time() - start:.0f} |",
            flush=True,
        )


def rank(args):
    """Print a table of all methods; their mean reciprocal ranks by name."""
    craft = Craft(args.data)
    train = craft.split("train")
    test = [s for s in craft.split(args.split) if s["gold"]]
    print(f"{len(train):,} raw train sentences; {len(test):,} {args.split} sentences with a gold term")
    table, ids = Table(test), np.array(craft.ontology.ids, dtype=object)

    def ours(name, reference=False, **options):
        start = time.process_time()
        model = craft.fit(train, **options)
        table.row(f"{name} ({model.n_iter_} sweeps)", craft.rank(model, test), start, reference)

    if not args.ours:
        constant = [g for g, _ in Counter(g for s in train for g in sorted(s["gold"])).most_common(DEEP)]
        table.row("constant: train labels by frequency", [constant] * len(test), time.process_time())
        rivals = {
            "TF-IDF, names": lambda: Retrieval(craft.ontology, surfaces, False, "tfidf"),
            "BM25, names": lambda: Retrieval(craft.ontology, surfaces, False, "bm25"),
            "TF-IDF, best of name and synonyms, stems": lambda: Retrieval(craft.ontology, stems, True, "tfidf"),
            "dictionary + TF-IDF back-off": lambda: Dictionary(craft.ontology),
        }
        for name, make in rivals.items():
            start = time.process_time()
            method = make()
            table.row(name, [ids[ranked(method.scores(s["text"]))] for s in test], start)
        ours("seed preset", preset="seed")
        ours("multinomial, sound defaults", words="multinomial")
    ours("**AuthorConcept**", reference=True)
    if args.labels:
        ours("**AuthorConcept, train labels**", labels=True)
    if args.set:
        ours(args.set, **json.loads(args.set))
    if args.ablation in ("all", "mention"):
        for name, options in OFF.items():
            ours(name, **options)
    if args.ablation in ("all", "multinomial"):
        ours("**multinomial**", reference=True, words="multinomial")
        for name, options in OFF_MULTINOMIAL.items():
            ours(name, **{"words": "multinomial", **spread(options)})
    return table.found


def choose(args):
    """Settings judged by documents that were not fitted to; within the train split alone."""
    craft = Craft(args.data)
    train = craft.split("train")
    docs = sorted({s["doc"] for s in train})
    fold = dict(zip(docs, np.random.default_rng(0).permutation(len(docs)) % FOLDS, strict=True))
    found, test = {text: [] for text in args.settings}, []
    for f in range(FOLDS):
        held = [s for s in train if fold[s["doc"]] == f and s["gold"]]
        test += held
        models = {}
        for text in args.settings:
            options = json.loads(text)
            fitted = json.dumps({k: v for k, v in options.items() if k not in RANKING})
            if fitted not in models:
                models[fitted] = craft.fit([s for s in train if fold[s["doc"]] != f], labels=args.labels, **json.loads(fitted))
            model = models[fitted]
            model.set_params(**{"ontology_smoothing": None, "words": None, **spread(options)})
            found[text].append(reciprocal_rank(craft.rank(model, held), [s["gold"] for s in held]))
    whole = {text: np.concatenate(parts) for text, parts in found.items()}
    first = args.settings[0]
    other = np.array([train_top(train) not in s["gold"] for s in test])
    print(f"{len(docs)} documents in {FOLDS} parts, {len(test):,} sentences, labels: {args.labels}")
    print(f"| settings | MRR | less that of {first} (s.e. over documents) | MRR without the most frequent term | likewise |")
    print("|---|---|---|---|---|")
    some = [s for s, yes in zip(test, other, strict=True) if yes]
    for text, mine in whole.items():
        a, b = difference(mine, whole[first], test), difference(mine[other], whole[first][other], some)
        print(f"| {text} | {mine.mean():.4f} | {a[0]:+.4f} ({a[1]:.4f}) | {mine[other].mean():.4f} | {b[0]:+.4f} ({b[1]:.4f}) |")
    # the choice itself, judged by the part that had no say in it
    picked = []
    for f in range(FOLDS):
        best = max(found, key=lambda v: np.concatenate([p for i, p in enumerate(found[v]) if i != f]).mean())
        picked.append((best, found[best][f]))
    nested = np.concatenate([p for _, p in picked])
    mean, error = difference(nested, whole[first], test)
    print(f"chosen by the other parts: {' '.join(b for b, _ in picked)}: {nested.mean():.4f}, {mean:+.4f} ({error:.4f})")


def train_top(train):
    """The most frequent gold term."""
    return Counter(g for s in train for g in sorted(s["gold"])).most_common(1)[0][0]
