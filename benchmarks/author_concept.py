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
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology
from tallies.evaluation.ranking import ranking_score
from tallies.models import mention
from tallies.models.author_concept import AuthorConcept, Shard

DEEP = 100


def lines(path):
    if not path.exists():
        sys.exit(f"missing: {path}\n{__doc__}")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def surfaces(text):
    return [mention.analyse(t)[0] for t in mention.content(text)]


def stems(text):
    return [mention.analyse(t)[1] for t in mention.content(text)]


class Retrieval:
    """Best string of each concept by a sparse product: TF-IDF cosine, or BM25."""

    def __init__(self, ontology, words, synonyms, kind):
        self.words, self.G = words, len(ontology)
        texts = list(enumerate(ontology.names))
        if synonyms:
            texts += [(g, s) for g, several in enumerate(ontology.synonyms) for s in several]
        rows = [words(t) for _, t in texts]
        self.owner = np.array([g for g, _ in texts])
        self.place = {}
        cells = [(i, self.place.setdefault(w, len(self.place))) for i, row in enumerate(rows) for w in row]
        i, j = np.array(cells).T
        X = sp.csr_array((np.ones(len(i)), (i, j)), shape=(len(rows), len(self.place)))
        X.sum_duplicates()
        df = np.bincount(X.indices, minlength=X.shape[1])
        self.idf = np.log((1 + len(rows)) / (1 + df)) + 1
        length = np.asarray(X.sum(axis=1)).ravel()
        if kind == "tfidf":
            X = X * self.idf
            norm = np.sqrt(np.asarray((X * X).sum(axis=1)).ravel())
            X = sp.csr_array(X / np.maximum(norm, 1e-12)[:, None])
        else:
            n = np.repeat(length, np.diff(X.indptr))
            X.data = (
                X.data
                * 2.2
                / (X.data + 1.2 * (0.25 + 0.75 * n / length.mean()))
                * np.log(1 + (len(rows) - df + 0.5) / (df + 0.5))[X.indices]
            )
        self.kind, self.T = kind, sp.csr_array(X.T)

    def scores(self, text):
        """(G,) score of the best string of every concept."""
        n = Counter(self.place[w] for w in self.words(text) if w in self.place)
        best = np.zeros(self.G)
        if not n:
            return best
        at, x = np.array(list(n)), np.array(list(n.values()), dtype=float)
        if self.kind == "tfidf":
            x *= self.idf[at]
            x /= np.linalg.norm(x)
        part = sp.csr_array((x, at, [0, len(at)]), shape=(1, len(self.place))) @ self.T
        np.maximum.at(best, self.owner[part.indices], part.data)
        return best


class Dictionary:
    """Exact phrases of names and synonyms, longest first, names before synonyms; then the best string by TF-IDF."""

    def __init__(self, ontology):
        self.back = Retrieval(ontology, stems, True, "tfidf")
        self.phrases = defaultdict(dict)
        for g, name in enumerate(ontology.names):
            for text, other in ((name, 0.5), *((s, 0.0) for s in ontology.synonyms[g])):
                key = tuple(surfaces(text))
                if key:
                    self.phrases[key][g] = max(other, self.phrases[key].get(g, 0.0))
        self.longest = max(map(len, self.phrases))

    def scores(self, text):
        words, best = surfaces(text), self.back.scores(text)
        found = {}
        for a in range(len(words)):
            for n in range(1, min(self.longest, len(words) - a) + 1):
                for g, bonus in self.phrases.get(tuple(words[a : a + n]), {}).items():
                    found[g] = max(found.get(g, 0.0), n + bonus)
        for g, value in found.items():
            best[g] += 10 + value
        return best


def ranked(scores):
    best = np.argpartition(-scores, DEEP)[:DEEP]
    best = best[np.argsort(-scores[best], kind="stable")]
    return best[scores[best] > 0]


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


# a small ontology of what Python Enhancement Proposals are about: id, name, words
TOPICS = [
    ("typing", "type hints", "typing annotation annotations generic generics protocol variance checker mypy typed subtype"),
    (
        "packaging",
        "packaging and distribution",
        "package packages wheel distribution metadata installer pip index pypi sdist build backend",
    ),
    ("imports", "import system", "import module modules loader finder path namespace importlib package relative"),
    ("async", "asynchronous programming", "async await coroutine coroutines event loop asyncio task awaitable iterator"),
    ("generators", "generators and iteration", "generator generators yield iterator iterators iterable next send throw"),
    ("unicode", "text and encodings", "unicode encoding decode encode utf bytes string codec ascii character"),
    ("strings", "string formatting", "format string formatting interpolation template literal fstring specifier placeholder"),
    ("bytes", "bytes and buffers", "bytes bytearray buffer memoryview memory binary protocol view"),
    ("numbers", "numbers", "integer float decimal numeric division rational number complex rounding literal"),
    ("classes", "classes and metaclasses", "class classes metaclass inheritance descriptor method attribute super mro subclass"),
    (
        "functions",
        "functions and arguments",
        "function arguments parameters keyword positional signature default call callable decorator",
    ),
    ("syntax", "grammar and parser", "syntax grammar parser token statement expression ast keyword tokenizer"),
    ("matching", "pattern matching", "pattern match matching case subject capture guard wildcard"),
    ("exceptions", "exceptions", "exception exceptions raise traceback except try error handler group chaining"),
    ("context", "context managers", "context manager with statement enter exit resource"),
    (
        "concurrency",
        "threads and processes",
        "thread threads gil lock lockfree multiprocessing subinterpreter interpreters concurrent process",
    ),
    ("memory", "memory management", "garbage collection reference refcount allocation immortal memory allocator cycle"),
    ("capi", "C API", "api struct pointer extension macro abi header stable py_ssize_t pyobject"),
    ("performance", "performance", "performance speed optimization faster benchmark bytecode specialization jit cache overhead"),
    ("bytecode", "bytecode and frames", "bytecode opcode frame interpreter stack code instruction eval"),
    ("stdlib", "standard library", "library module stdlib standard deprecated removal maintenance batteries"),
    ("collections", "collections", "dict list set mapping sequence ordered container dictionary tuple ordereddict"),
    ("datetime", "dates and times", "time date timezone datetime clock utc monotonic timestamp fold"),
    ("io", "files and input-output", "file files stream io open read write descriptor path filesystem"),
    ("security", "security", "security ssl tls certificate hash random attack vulnerability signature signing"),
    ("web", "web interfaces", "wsgi server gateway http application request response web"),
    ("database", "databases", "database cursor connection sql query row fetch transaction"),
    ("testing", "testing and debugging", "test tests testing unittest debugging debugger trace profile assertion"),
    ("release", "release schedule", "release schedule candidate alpha beta final version expected manager"),
    ("governance", "governance", "council steering vote voting governance community core developers election decision"),
    ("process", "the proposal process", "pep peps author editor draft accepted rejected proposal review approval"),
    ("style", "code style", "style indentation whitespace naming convention docstring comment line blank"),
    ("platforms", "platform support", "platform windows linux macos unix support compiler architecture tier"),
    ("repository", "development tools", "repository github git mercurial bug tracker commit branch workflow subversion"),
    ("scoping", "names and scopes", "scope global nonlocal local variable binding closure namespace name assignment"),
    ("operators", "operators", "operator operators matrix multiplication precedence overloading augmented comparison"),
    ("logging", "configuration and logging", "configuration config logging logger handler option environment command"),
    ("python3", "migration to Python 3", "python3 python2 migration compatibility transition porting backwards compatible"),
]


def author_experiment(args):
    records = [r for r in lines(args.peps) if r["authors"]]
    count = Counter(a for r in records for a in r["authors"])
    rng = np.random.default_rng(args.seed)
    # held out: every fifth document, if all its authors have other documents
    order = rng.permutation(len(records))
    held, left = set(), count.copy()
    for i in order:
        if len(held) >= len(records) // 5:
            break
        if all(left[a] >= 3 for a in records[i]["authors"]):
            held.add(int(i))
            left.subtract(records[i]["authors"])
    train = [r for i, r in enumerate(records) if i not in held]
    test = [records[i] for i in sorted(held)]
    corpus = Corpus.from_texts(
        [r["text"] for r in train], authors=[r["authors"] for r in train], sentences=True, min_df=5, max_df=0.4
    )
    ontology = Ontology([t[0] for t in TOPICS], [t[1] for t in TOPICS], [t[2] for t in TOPICS])
    new = Corpus.from_texts(
        [r["text"] for r in test], authors=[r["authors"] for r in test], sentences=True, vocabulary=corpus.vocabulary
    )
    words = np.asarray(new.sentence_counts.sum(axis=1)).ravel()
    document = new.sentence_document
    shuffled = [new.authors[i] for i in rng.permutation(len(new.authors))]
    print(
        f"{corpus!r}, {corpus.sentence_counts.shape[0]:,} sentences; held out: {len(test)} documents, "
        f"{len(words):,} sentences; {len(TOPICS)} concepts"
    )
    print(
        "| strength of back-off | authors | nats / sentence | perplexity / word | gain over nobody (standard error) |\n"
        "|---|---|---|---|---|"
    )
    for strength in (20.0, 200.0, 2000.0):
        model = AuthorConcept(
            words="multinomial",
            anchor=1.0,
            smoothing=args.smoothing,
            definition_weight=1.0,
            author_backoff=strength,
            tol=1e-4,
            keep=40,
        )
        model.fit(corpus, ontology)
        who = {"nobody": [()] * len(new.authors), "shuffled": shuffled, "the document's": new.authors}
        base = None
        for name, authors in who.items():
            value = model.log_prob(new.sentences, [list(authors[d]) for d in document])
            per = np.bincount(document, weights=value)
            base = per if base is None else base
            gain = per - base
            n = len(words)
            error = gain.std(ddof=1) * np.sqrt(len(gain)) / n
            print(
                f"| {strength:g} | {name} | {value.mean():.3f} | {np.exp(-value.sum() / words.sum()):.1f} "
                f"| {gain.sum() / n:+.4f} ({error:.4f}) |",
                flush=True,
            )


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
    b.add_argument("--smoothing", type=float, default=2000.0, help="pseudocount of background words in every concept")
    b.set_defaults(run=author_experiment)
    c = commands.add_parser("speed")
    c.add_argument("--go", type=Path)
    c.add_argument("--sentences", type=int, default=100_000)
    c.add_argument("--dense-sentences", type=int, default=20_000)
    c.set_defaults(run=speed)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
