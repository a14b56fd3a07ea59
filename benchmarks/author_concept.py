"""AuthorConcept beside other ways to rank concepts, what authors add, and the speed of the E-step.

    python benchmarks/author_concept.py rank DATA [--split dev] [--labels] [--ablation]
    python benchmarks/author_concept.py choose DATA '{}' '{"context": 0}' ... [--labels]
    python benchmarks/author_concept.py authors peps.jsonl.gz
    python benchmarks/author_concept.py speed [--go go.obo.gz] [--sentences 100000]

DATA is a folder with craft_sentences.jsonl.gz (id, doc, split, text, go), craft_documents.jsonl (pmid, authors) and
go-2022-07.obo.gz. Everything is fitted on the raw train sentences; sentences with at least one gold term are ranked over all
live terms, 100 deep.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from concept_authors import experiment
from concept_ranking import choose, lines, rank

from tallies.concepts.estimator import AuthorConcept
from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology


def speed(args):
    from tallies.concepts.author_prior import mixture
    from tallies.concepts.door import Sentences
    from tallies.concepts.scores import scores
    from tallies.concepts.settings import Multinomial

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
    # the note's algorithm, scores in single precision
    model = AuthorConcept(preset="seed", words=Multinomial(single=True), max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one sweep is meant
        model.fit(corpus, ontology)
    psi, w, rows = model.fitted_.psi, model.fitted_.words, model.fitted_.papers.rows
    x = Sentences(X, document)
    side = mixture(rows, psi)
    scores(x, side, w, 1, evidence=False)
    start = time.thread_time()
    index, *_ = scores(x, side, w, 1, evidence=False)
    fused = time.thread_time() - start
    phi = np.zeros((G, V))
    phi[w.concept, np.repeat(np.arange(V), np.diff(w.ptr))] = w.gain
    lp = phi + np.log(w.smooth) + w.slope[:, None]
    table = psi.own.toarray() + psi.constant[:, None] * psi.base
    from threadpoolctl import threadpool_limits

    wrong = 0
    with threadpool_limits(1):
        start = time.thread_time()
        prior = np.log(np.maximum(table[[rows.row[d] for d in range(len(authors))]], 1e-300))
        for a in range(0, S, 2000):
            LPSG = lp @ X[a : a + 2000].toarray().T
            best = (prior[document[a : a + 2000]].T + LPSG).argmax(axis=0)
            wrong += int(np.sum(best != index[a : a + 2000, 0]))
        dense = time.thread_time() - start
    print(
        f"E-step at G={G:,}, S={S:,}, V={V:,}, one thread: dense {dense:.2f} s, fused {fused:.3f} s, {dense / fused:.0f}x; "
        f"argmax differs in {wrong} sentences"
    )
    row = {"case": f"{G:,} concepts, {S:,} sentences", "ours": fused, "theirs": dense, "wrong": wrong}
    if args.go is None:
        return row
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
        model.fit(corpus, go, callback=lambda stage, state, marks=marks: marks.append((time.perf_counter(), time.process_time())))
        a, b = marks[-2], marks[-1]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        per = (b[1] - a[1]) / len(many)
        print(
            f"whole GO ({len(go):,} terms) x {len(many):,} sentences, {words}: "
            f"a sweep {b[0] - a[0]:.1f} s ({per * 1e6:.0f} us CPU a sentence), "
            f"all with encoding and 2 sweeps {time.perf_counter() - wall:.0f} s; peak memory so far {peak:.2f} GB; "
            f"1 M sentences, extrapolated: {per * 1e6 / 2 / 60:.1f} minutes a sweep on two cores",
            flush=True,
        )
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    a = commands.add_parser("rank")
    a.add_argument("data", type=Path)
    a.add_argument("--split", default="dev", choices=["train", "dev"])
    a.add_argument("--labels", action="store_true", help="also fit with the train labels (meaningful on dev)")
    words = ["all", "mention", "multinomial"]
    a.add_argument("--ablation", nargs="?", const="all", choices=words, help="switch each default off, of these words or of both")
    a.add_argument("--ours", action="store_true", help="without the rivals")
    a.add_argument("--set", help="one more run with these options, as JSON")
    a.set_defaults(run=rank)
    d = commands.add_parser("choose", help="cross-validate settings over the documents of the train split")
    d.add_argument("data", type=Path)
    d.add_argument("settings", nargs="+", help="each as JSON; the first is the reference")
    d.add_argument("--labels", action="store_true")
    d.set_defaults(run=choose)
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
