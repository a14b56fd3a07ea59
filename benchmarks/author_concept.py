"""AuthorConcept beside other ways to rank concepts, what authors add, and the speed of the E-step.

    python benchmarks/author_concept.py rank DATA [--split dev] [--labels] [--ablation]
    python benchmarks/author_concept.py authors peps.jsonl.gz
    python benchmarks/author_concept.py speed [--go go.obo.gz] [--sentences 100000]

DATA is a folder with craft_sentences.jsonl.gz (id, doc, split, text, go), craft_documents.jsonl (pmid, authors) and
go-2022-07.obo.gz. Everything is fitted on the raw train sentences; sentences with at least one gold term are ranked over all
live terms, 100 deep.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from concept_authors import experiment
from concept_rivals import DEEP, Dictionary, Retrieval, ranked, stems, surfaces

from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology
from tallies.evaluation.ranking import ranking_score
from tallies.models.author_concept import AuthorConcept, Shard


def lines(path):
    if not path.exists():
        sys.exit(f"missing: {path}\n{__doc__}")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def table(name, rows, gold, frequent, seconds):
    score = ranking_score(rows, gold)
    other = [i for i, g in enumerate(gold) if frequent not in g]
    without = ranking_score([rows[i] for i in other], [gold[i] for i in other])
    print(
        f"| {name} | {score.hit1:.3f} | {score.hit10:.3f} | {score.mrr:.3f} | {without.mrr:.3f} "
        f"| {score.macro_recall10:.3f} | {seconds:.0f} |",
        flush=True,
    )
    return score, without


def rank(args):
    ontology = Ontology.read(args.data / "go-2022-07.obo.gz")
    everything = lines(args.data / "craft_sentences.jsonl.gz")
    authors = {d["pmid"]: d["authors"] for d in lines(args.data / "craft_documents.jsonl")}
    train = [s for s in everything if s["split"] == "train"]
    gold_of = lambda s: {ontology.resolve(g) for g in s["go"]} - {None}  # noqa: E731
    test = [s for s in everything if s["split"] == args.split and gold_of(s)]
    gold, texts = [gold_of(s) for s in test], [s["text"] for s in test]
    frequent = Counter(g for several in gold for g in several).most_common(1)[0][0]
    ids = np.array(ontology.ids, dtype=object)
    print(
        f"{len(train):,} raw train sentences; {len(test):,} {args.split} sentences with a gold term; "
        f"most frequent: {ontology.names[ontology.index(frequent)]}"
    )
    print(
        "| method | hit@1 | hit@10 | MRR | MRR without the most frequent term | macro recall@10 | CPU s |\n"
        "|---|---|---|---|---|---|---|"
    )
    by_frequency = [g for g, _ in Counter(g for s in train for g in sorted(gold_of(s))).most_common(DEEP)]
    if not args.ours:
        table("constant: train labels by frequency", [by_frequency] * len(test), gold, frequent, 0)
        rivals = {
            "TF-IDF, names": lambda: Retrieval(ontology, surfaces, False, "tfidf"),
            "BM25, names": lambda: Retrieval(ontology, surfaces, False, "bm25"),
            "TF-IDF, best of name and synonyms, stems": lambda: Retrieval(ontology, stems, True, "tfidf"),
            "dictionary + TF-IDF back-off": lambda: Dictionary(ontology),
        }
        for name, make in rivals.items():
            start = time.process_time()
            method = make()
            table(name, [ids[ranked(method.scores(t))] for t in texts], gold, frequent, time.process_time() - start)
    pairs = [(s["doc"], s["text"]) for s in train]
    docs = {s["doc"] for s in train}
    corpus = Corpus.from_pairs(pairs, [(d, a) for d, several in authors.items() if d in docs for a in several])
    # from_pairs gathers the sentences of a document: labels in the same order
    order = np.argsort([list(dict.fromkeys(d for d, _ in pairs)).index(s["doc"]) for s in train], kind="stable")
    given = [sorted(gold_of(train[i])) for i in order]  # all were read: no gold term means none
    who = [authors.get(s["doc"], []) for s in test]

    def ours(name, labels=None, **options):
        start = time.process_time()
        model = AuthorConcept(**options)
        with np.errstate(all="ignore"):
            model.fit(corpus, ontology, labels=labels)
        found = model.rank(texts, authors=who, k=DEEP)[0]
        rows = [[g for g in row if g is not None] for row in found]
        return table(f"{name} ({model.n_iter_} sweeps)", rows, gold, frequent, time.process_time() - start)

    if not args.ours:
        ours("seed preset", preset="seed")
        ours("multinomial, sound defaults", words="multinomial")
    ours("**AuthorConcept**")
    if args.labels:
        ours("**AuthorConcept, train labels**", labels=given)
    if args.ablation:
        off = {
            "no EM (prior stays flat)": {"gamma": 1e9},
            "ontology smoothing off": {"ontology_smoothing": 0.0},
            "one concept a sentence (several=False)": {"several": False},
            "no stems, no prefixes": {"noise": {"stem": 1e-12, "prefix": 1e-12}},
            "no prefixes": {"noise": {"prefix": 1e-12}},
            "missing words cost the same": {"noise": {"missing_rare": 0.0, "missing": 6.0}},
            "synonyms like names": {"noise": {"synonym": 0.0}},
            "no pairs": {"noise": {"pair": 0.0}},
            "no bonus for whole strings": {"noise": {"whole": 0.0}},
            "no authors (all share one prior)": {"author_backoff": 1e12},
            "documents with a level": {"document_backoff": 5.0},
            "hard EM": {"assign": "hard"},
        }
        for name, options in off.items():
            ours(name, **options)
    if args.set:
        ours(args.set, **json.loads(args.set))


def speed(args):
    from tallies.models.author_prior import rows_of
    from tallies.models.concept_door import SEED, Sentences

    rng = np.random.default_rng(0)
    G, S, V = 2000, args.dense_sentences, 20_000
    zipf = 1.0 / np.arange(26, V + 26)  # stop words are out: two words are the same with a chance of 0.001, as in CRAFT
    zipf /= zipf.sum()
    names = np.array([f"w{i}x" for i in range(V)])
    ontology = Ontology([f"g{i}" for i in range(G)], [""] * G, [" ".join(names[rng.choice(V, 30, p=zipf)]) for _ in range(G)])
    X = sp.csr_array((np.ones(S * 15), rng.choice(V, S * 15, p=zipf), np.arange(0, S * 15 + 1, 15)), shape=(S, V))
    X.sum_duplicates()
    document = np.repeat(np.arange(S // 20 + 1), 20)[:S]
    authors = [(f"a{d % 97}",) for d in range(document[-1] + 1)]
    corpus = Corpus(sp.csr_array((document[-1] + 1, V)), names, None, authors, X, document, [""] * S)
    model = AuthorConcept(**{**SEED, "single": True, "max_iter": 1})  # the note's algorithm, scores in single precision
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one sweep is meant
        model.fit(corpus, ontology)
    params, rows = (
        model.params_,
        rows_of([[list(model.authors_).index(a[0])] for a in authors], np.ones(len(authors)), None, None, 0),
    )
    x = Sentences(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, document)
    latents = model.settle(Shard(x, rows, None, None, 0), params, None)
    model._scores(x, rows, params, 1, latents)
    start = time.thread_time()
    index, *_ = model._scores(x, rows, params, 1, latents)
    fused = time.thread_time() - start
    phi = np.zeros((G, V))
    w = params.words
    phi[w.concept, np.repeat(np.arange(V), np.diff(w.ptr))] = w.gain
    lp = phi + np.log(w.smooth) + w.slope[:, None]
    psi = params.psi.own.toarray() + params.psi.constant[:, None] * params.psi.base
    from threadpoolctl import threadpool_limits

    wrong = 0
    with threadpool_limits(1):
        start = time.thread_time()
        prior = np.log(np.maximum(psi[[rows.row[d] for d in range(len(authors))]], 1e-300))
        for a in range(0, S, 2000):
            LPSG = lp @ X[a : a + 2000].toarray().T
            best = (prior[document[a : a + 2000]].T + LPSG).argmax(axis=0)
            wrong += int(np.sum(best != index[a : a + 2000, 0]))
        dense = time.thread_time() - start
    print(
        f"E-step at G={G:,}, S={S:,}, V={V:,}, one thread: dense {dense:.2f} s, fused {fused:.3f} s, {dense / fused:.0f}x; "
        f"argmax differs in {wrong} sentences"
    )
    if args.go is None:
        return
    if not args.go.exists():
        sys.exit(f"missing: {args.go}")
    go = Ontology.read(args.go)
    pool = [t for d in go.definitions for t in d.split(". ") if t]
    many = [pool[i] + " " + pool[j] for i, j in rng.integers(0, len(pool), (args.sentences, 2))]
    corpus = Corpus.from_pairs(
        [(i // 50, t) for i, t in enumerate(many)], [(d, f"author {d % 500}") for d in range((len(many) + 49) // 50)]
    )
    for words in ("mention", "multinomial"):
        start, wall = time.process_time(), time.perf_counter()
        marks = []
        model = AuthorConcept(words=words, tol=None, max_iter=2)
        model.fit(corpus, go, callback=lambda state, marks=marks: marks.append((time.perf_counter(), time.process_time())))
        a, b = marks[0], marks[1]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        per = (b[1] - a[1]) / len(many)
        print(
            f"whole GO ({len(go):,} terms) x {len(many):,} sentences, {words}: "
            f"a sweep {b[0] - a[0]:.1f} s ({per * 1e6:.0f} us CPU a sentence), "
            f"all with encoding and 2 sweeps {time.perf_counter() - wall:.0f} s; peak memory so far {peak:.2f} GB; "
            f"1 M sentences, extrapolated: {per * 1e6 / 2 / 60:.1f} minutes a sweep on two cores",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    a = commands.add_parser("rank")
    a.add_argument("data", type=Path)
    a.add_argument("--split", default="dev", choices=["train", "dev"])
    a.add_argument("--labels", action="store_true", help="also fit with the train labels (meaningful on dev)")
    a.add_argument("--ablation", action="store_true", help="switch each default off")
    a.add_argument("--ours", action="store_true", help="without the rivals")
    a.add_argument("--set", help="one more run with these options, as JSON")
    a.set_defaults(run=rank)
    b = commands.add_parser("authors")
    b.add_argument("peps", type=Path)
    b.add_argument("--seed", type=int, default=0)
    b.set_defaults(run=lambda args: experiment(lines(args.peps), args.seed))
    c = commands.add_parser("speed")
    c.add_argument("--go", type=Path)
    c.add_argument("--sentences", type=int, default=100_000)
    c.add_argument("--dense-sentences", type=int, default=20_000)
    c.set_defaults(run=speed)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
