"""Does knowing who wrote a document foretell the words of its sentences? Held-out log likelihood on documents with known authors.

Every document is judged once, by a model that has not seen it and whose settings were chosen without it: the documents are cut
into `FOLDS` parts; of the others a quarter is set aside, the settings are those that foretell this quarter best, and the model is
then fitted to all the others. The baseline is a model without authors, its words' smoothing chosen in the same way.
"""

from __future__ import annotations

import numpy as np

from tallies.concepts.estimator import AuthorConcept
from tallies.concepts.settings import Multinomial
from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology

FOLDS = 3
SMOOTHING = (200.0, 2000.0, 20_000.0)  # pseudocounts of background words in every concept
STRENGTH = (20.0, 100.0, 500.0, 2000.0, 10_000.0)  # sentences that make an author's own prior half of it
NOBODY = 1e12  # the same, when no author has a prior of their own

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


class Part:
    """Documents to fit to and documents to judge by, in the words of the former."""

    def __init__(self, records, inside, outside):
        some = [records[i] for i in inside]
        texts, self.authors = [r["text"] for r in some], [r["authors"] for r in some]
        self.corpus = Corpus.from_texts(texts, authors=self.authors, sentences=True, min_df=5, max_df=0.4)
        known = {a for several in self.authors for a in several}
        self.outside = [i for i in outside if known & set(records[i]["authors"])]  # the others have nobody's prior in any case
        words = self.corpus.vocabulary
        self.new = Corpus.from_texts([records[i]["text"] for i in self.outside], sentences=True, vocabulary=words)
        self.who = [records[i]["authors"] for i in self.outside]
        self.ontology = Ontology(*([t[c] for t in TOPICS] for c in range(3)))

    def fit(self, smoothing, strength, authors=None):
        if authors is not None:
            c = self.corpus
            corpus = Corpus(c.counts, c.vocabulary, c.documents, authors, c.sentence_counts, c.sentence_document, c.sentences)
        else:
            corpus = self.corpus
        model = AuthorConcept(
            words=Multinomial(anchor=1.0, smoothing=smoothing, definition_weight=1.0),
            author_backoff=strength,
            tol=1e-3,
            keep=len(TOPICS) + 1,
        )
        return model.fit(corpus, self.ontology)

    def judge(self, model, authors):
        """(D,) log likelihood of the sentences of every held-out document, said to be by `authors`."""
        of = self.new.sentence_document
        value = model.log_prob(self.new.sentences, [list(authors[d]) for d in of])
        return np.bincount(of, weights=value, minlength=len(self.who))


def strangers(who, rng):
    """The authors of other documents, none of them the document's own."""
    out = []
    for mine in who:
        others = [several for several in who if not set(several) & set(mine)]
        out.append(others[rng.integers(len(others))])
    return out


def experiment(records, seed=0):
    records = [r for r in records if r["authors"]]
    rng = np.random.default_rng(seed)
    fold = rng.permutation(len(records)) % FOLDS
    names = ("nobody", "strangers", "its own", "its own; fitted to shuffled authors")
    total: dict[str, list[np.ndarray]] = {name: [] for name in names}
    base, sizes, words = [], [], 0
    for f in range(FOLDS):
        inside, outside = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        aside = rng.permutation(inside)[: len(inside) // 4]
        inner = Part(records, np.setdiff1d(inside, aside), aside)
        nobody = [()] * len(inner.who)
        smoothing = max(SMOOTHING, key=lambda e: inner.judge(inner.fit(e, NOBODY), nobody).sum())
        strength = max(STRENGTH, key=lambda b: inner.judge(inner.fit(smoothing, b), inner.who).sum())
        part = Part(records, inside, outside)
        nobody = [()] * len(part.who)
        base.append(part.judge(part.fit(smoothing, NOBODY), nobody))
        model = part.fit(smoothing, strength)
        total["nobody"].append(part.judge(model, nobody))
        total["strangers"].append(part.judge(model, strangers(part.who, rng)))
        total["its own"].append(part.judge(model, part.who))
        order = rng.permutation(len(part.authors))
        total[names[3]].append(part.judge(part.fit(smoothing, strength, [part.authors[i] for i in order]), part.who))
        sizes.append(np.bincount(part.new.sentence_document, minlength=len(part.who)))
        words += part.new.sentence_counts.sum()
        print(
            f"part {f}: fitted to {len(inside)} documents, {len(part.who)} of {len(outside)} others have an author among them; "
            f"chosen: smoothing {smoothing:g}, author_backoff {strength:g}",
            flush=True,
        )
    n, reference = np.concatenate(sizes), np.concatenate(base)
    print(f"{len(n)} documents, {n.sum():,} sentences; without authors {reference.sum() / n.sum():.4f} nats a sentence")
    print("| authors told | nats / sentence | perplexity / word | gain over a model without authors (s.e. over documents) |")
    print("|---|---|---|---|")
    for name, parts in total.items():
        value = np.concatenate(parts)
        gain = value - reference
        mean = gain.sum() / n.sum()
        error = np.sqrt(len(n) / (len(n) - 1) * np.sum((gain - mean * n) ** 2)) / n.sum()
        print(
            f"| {name} | {value.sum() / n.sum():.4f} | {np.exp(-value.sum() / words):.1f} | {mean:+.4f} ({error:.4f}) |", flush=True
        )
