"""What `make bench` measures: ours and the best rival on the same data, to the same end, in turns. benchmarks/bench.py runs it.

A measurement is a function that yields pairs, one a repeat or seed. It calls the script that has the case, which checks that both came to the
same end; what is heavy is imported inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

# ratios below which `make bench` fails, by measurement and case; others are told and not judged
PROMISED: dict[str, dict[str, float]] = {
    "classifiers": {
        "GDA shared, LDA(lsqr): fit": 4,
        "GDA shared, LDA(lsqr): predict": 4,
        "GDA class, QDA: fit": 10,
        "NaiveBayes, GaussianNB: fit": 4,
        "NaiveBayes, GaussianNB: predict": 15,
        "NaiveBayes, CategoricalNB: fit": 10,
        "NaiveBayes, CategoricalNB: predict": 5,
        "NaiveBayes, MultinomialNB: fit": 1.5,
        "NaiveBayes, MultinomialNB: predict": 1.2,
    },
    "pln-rare": {"rare species, whole fits": 5, "cells, whole fits": 8},
}


class Given(NamedTuple):
    """What a measurement may use."""

    folder: Path | None  # that of its first file
    quick: bool  # tiny sizes, to see that it runs
    repeats: int


class Pair(NamedTuple):
    """One run of both."""

    case: str
    ours: float
    rival: float
    cold: bool = False  # the first of its process, with compilers and caches to wait for: told apart


class Measurement(NamedTuple):
    name: str
    family: str
    what: str  # the work, and where it ends
    unit: str
    rival: str  # its name on PyPI; empty where the rival is a formula written here
    run: Callable[[Given], Iterable[Pair]]
    data: tuple[str, ...] = ()  # files, anywhere below the folder DATA
    extra: str = ""  # of pyproject.toml, that brings the rival
    along: str = ""  # what the rival works with, whose version counts too
    repeats: int = 3
    threads: int | None = 1  # of BLAS and loops; None for as many as there are cores
    more: bool = False  # whether more of the unit is better
    small: bool = True  # whether there is a tiny size of it


WHOLE = ", whole fits"  # each by its own rule, ours to the higher bound


def level(case: str, ours: float, theirs: float) -> None:
    """Refuse a comparison in which ours ended below the rival: both are bounds on a log likelihood."""
    if ours < theirs - 1e-4 * abs(theirs):
        raise SystemExit(f"{case}: ours ended at {ours:.6g}, the rival at {theirs:.6g}: seconds do not compare")


def pairs_of(rows: Iterable[dict]) -> Iterator[Pair]:
    """Rows of scripts; where bounds are in them, ours must not be below, and seconds are those to the rival's."""
    for row in rows:
        if "bounds" in row:
            level(row["case"], *row["bounds"])
            yield Pair(row["case"], *row["near"])
        yield Pair(row["case"] + WHOLE * ("bounds" in row), row["ours"], row["theirs"])


# bayes


def classifiers(given: Given) -> Iterator[Pair]:
    from classifiers import cases, measure

    for case in cases(2_000 if given.quick else 1_000_000):
        for row in measure(case, given.repeats):
            yield from (Pair(f"{row['case']}: {row['step']}", *pair) for pair in row["pairs"])


# topics


def compared(X, T, topics: tuple[int, ...], given: Given) -> Iterator[Pair]:
    from lda import compare

    for K in (5,) if given.quick else topics:
        for row in compare(X, T, K, ["tomotopy"], [20] if given.quick else [20, 50, 100], given.repeats):
            yield from (Pair(f"{K} topics, to its perplexity after {row['mark']} sweeps", *pair) for pair in row["pairs"])


def lda_made(given: Given) -> Iterator[Pair]:
    from scaling import texts

    held = 100 if given.quick else 1_000
    X, _ = texts(1_600 if given.quick else 11_000, 50)
    return compared(X[held:], X[:held], (100,), given)


def lda_abstracts(given: Given) -> Iterator[Pair]:
    from lda import read

    X, T = read(str(given.folder / "acl_medium.npz"))
    return compared(X[:2000], T[:100], (5,), given) if given.quick else compared(X, T, (100, 500), given)


# counts


def pln_rows(found: dict, given: Given) -> Iterator[Pair]:
    from pln import full

    for row in full(found, given.repeats):
        for k, (theirs, ours, *_) in enumerate(row["runs"]):
            yield Pair(row["data"], ours, theirs, cold=k == 0)


def sizes(given: Given) -> tuple[tuple[int, int], ...]:
    return ((80, 20),) if given.quick else ((1000, 200), (5000, 100), (500, 1000))


def pln(given: Given) -> Iterator[Pair]:
    from pln import tables

    return pln_rows(tables(None, sizes(given)), given)


def pln_oaks(given: Given) -> Iterator[Pair]:
    from pln import tables

    return pln_rows(tables(str(given.folder), ()), given)


def pln_rank(given: Given) -> Iterator[Pair]:
    from pln import rank, tables

    for row in rank(tables(None, sizes(given)), given.repeats):
        case = f"{row['data']}, rank {row['q']}"
        level(case, row["ours"], row["theirs_400"])
        yield from (Pair(case, *pair) for pair in row["near"])
        yield from (Pair(case + WHOLE, *pair) for pair in row["pairs"])


def pln_rare(given: Given) -> Iterator[Pair]:
    from pln import rival

    for row in rival({}, given.repeats, (120, 30) if given.quick else ()):
        level(row["data"], row["bound"], row["theirs_bound"])
        case = "rare species" if "rare" in row["data"] else "cells"
        yield Pair(case, row["within"], row["theirs_within"])
        yield Pair(case + WHOLE, row["seconds"], row["theirs"])


def family(part: str) -> Callable[[Given], Iterator[Pair]]:
    """A part of benchmarks/pln_family.py, a pair a draw; that of `lda` has one draw, and is repeated."""

    def run(given: Given) -> Iterator[Pair]:
        import pln_family

        for _ in range(given.repeats if part == "lda" else 1):
            yield from pairs_of(
                getattr(pln_family, f"part_{part}")(SimpleNamespace(seeds=given.repeats, first=0, small=given.quick))
            )

    return run


def network(given: Given) -> Iterator[Pair]:
    from networks import part_rival

    import tallies

    for _ in range(given.repeats):
        with tallies.backend("threads", workers=1):
            rows = part_rival(SimpleNamespace(small=given.quick))
        for row in rows:
            case = f"{'100 x 60' if given.quick else '500 x 300'}, its penalty {row['penalty']:g}"
            level(case, row["ours"], row["theirs"])
            yield Pair(case, row["near"], row["their near"])
            yield Pair(case + WHOLE, row["seconds"], row["their seconds"])


def graphical_lasso(given: Given) -> Iterator[Pair]:
    from networks import part_lasso

    for _ in range(given.repeats):
        for row in part_lasso(SimpleNamespace(sizes=[30] if given.quick else [100, 300])):
            case = f"{row['p']} columns, {row['edges']:.0%} of pairs joined"
            yield Pair(case, row["seconds"], row.get("near", row["sklearn"]))


# categories


def fem_network(given: Given) -> Iterator[Pair]:
    from fem import speed

    for _ in range(given.repeats):
        for row in speed(SimpleNamespace(rows=500 if given.quick else 10_000, variables=[20] if given.quick else None)):
            yield Pair(row["case"], row["ours"], row["theirs"])
            yield Pair(f"{row['case']}, beside the seed's iteration", row["ours"], row["seed"])


def fem_single(given: Given) -> Iterator[Pair]:
    from fem import single

    for _ in range(given.repeats):
        yield from pairs_of(single(SimpleNamespace(rows=300 if given.quick else 3200)))


def fem_search(given: Given) -> Iterator[Pair]:
    from fem import search

    # not "categories": losses there are near 0, where a ratio says nothing
    names = (
        ["binary"] if given.quick else ["wide", "binary", "binary-3196", "binary, rules", "binary-3196, rules", "categories, rules"]
    )
    return pairs_of(search(SimpleNamespace(names=names, seeds=given.repeats)))


def fem_nested(given: Given) -> Iterator[Pair]:
    from fem import nested

    for split in range(given.repeats):
        names = ["votes"] if given.quick else ["car", "splice", "votes"]
        yield from pairs_of(nested(SimpleNamespace(folder=given.folder, names=names, split=split)))


# concepts


def concept_step(given: Given) -> Iterator[Pair]:
    from author_concept import speed

    for _ in range(given.repeats):
        row = speed(SimpleNamespace(go=None, dense_sentences=500 if given.quick else 20_000))
        if row["wrong"]:
            raise SystemExit(f"{row['case']}: another best concept in {row['wrong']} sentences")
        yield Pair(row["case"], row["ours"], row["theirs"])


def concept_rank(given: Given) -> Iterator[Pair]:
    from concept_ranking import rank

    found = rank(SimpleNamespace(data=given.folder, split="dev", labels=False, ablation=None, ours=False, set=None))
    ours = next(value for name, value in found.items() if name.startswith("**AuthorConcept**"))
    yield from (Pair(f"beside {name}", ours, found[name]) for name in ("dictionary + TF-IDF back-off", "BM25, names"))


CPU, PLNS = "CPU s, one thread", {"rival": "pyPLNmodels", "extra": "bench-pln", "along": "torch"}
OAKS = ("oaks_Abundance.csv", "oaks_Offset.csv", "oaks_covariates.csv")
UCI = ("car.tab", "splice.dat", "house-votes-84.data")
CRAFT = ("craft_sentences.jsonl.gz", "craft_documents.jsonl", "go-2022-07.obo.gz")
LDA = {"rival": "tomotopy", "extra": "bench"}
SKLEARN = {"rival": "scikit-learn"}
M = Measurement

MEASUREMENTS = [
    M("classifiers", "bayes", "GDA and NaiveBayes, 1,000,000 rows", "wall s", run=classifiers, repeats=5, threads=None, **SKLEARN),
    M("lda-made", "topics", "LDA, 10,000 made documents, to the same held-out perplexity", CPU, run=lda_made, **LDA),
    M(
        "lda-abstracts",
        "topics",
        "LDA, 17,863 abstracts, to the same held-out perplexity",
        CPU,
        run=lda_abstracts,
        data=("acl_medium.npz",),
        **LDA,
    ),
    M("pln", "counts", "PLN, to within 1e-4 of its final bound", CPU, run=pln, **PLNS),
    M("pln-oaks", "counts", "PLN, to within 1e-4 of its final bound", CPU, run=pln_oaks, data=OAKS, **PLNS),
    M("pln-rank", "counts", "PLN-PCA, to within 1e-4 of its final bound", CPU, run=pln_rank, **PLNS),
    M("pln-rare", "counts", "PLN of sparse counts, to within 1e-4 of its final bound, a draw a run", CPU, run=pln_rare, **PLNS),
    M("discriminant", "counts", "PLNDiscriminant, to within 1e-4 of its final bound", CPU, run=family("lda"), **PLNS),
    M(
        "mixture",
        "counts",
        "PLNMixture, four components, to within 1e-4 of its final bound, a draw a run",
        CPU,
        run=family("mixture"),
        **PLNS,
    ),
    M(
        "zeros",
        "counts",
        "PLN with structural zeros, to within 1e-4 of its final bound, a draw a run",
        CPU,
        run=family("zeros"),
        repeats=2,
        **PLNS,
    ),
    M("network", "counts", "PLNNetwork at one penalty, to within 1e-4 of its final bound", CPU, run=network, **PLNS),
    M(
        "graphical-lasso",
        "counts",
        "the lasso of PLNNetwork, to the same objective within 1e-6",
        CPU,
        run=graphical_lasso,
        **SKLEARN,
    ),
    M(
        "discriminant-loss",
        "counts",
        "PLNDiscriminant beside logistic regression, the better of two, four folds, a draw a run",
        "log loss",
        run=family("discriminant"),
        **SKLEARN,
    ),
    M("fem-network", "categories", "FEMNetwork, to the same penalised likelihood", CPU, run=fem_network, **SKLEARN),
    M(
        "fem-single",
        "categories",
        "FEM of degree 2, 36 binary variables, to the same penalised likelihood",
        CPU,
        run=fem_single,
        **SKLEARN,
    ),
    M("fem-search", "categories", "FEM(degree='auto'), 2,000 other rows", "log loss", "xgboost", fem_search, extra="bench"),
    M("fem-nested", "categories", "FEM(degree='auto'), five folds", "log loss", "xgboost", fem_nested, UCI, "bench"),
    M("concept-step", "concepts", "AuthorConcept's E-step beside its formulas in NumPy", CPU, "", concept_step),
    M(
        "concept-rank",
        "concepts",
        "AuthorConcept, 1,224 sentences of CRAFT, Gene Ontology",
        "mean reciprocal rank",
        "",
        concept_rank,
        CRAFT,
        repeats=1,
        more=True,
        small=False,
    ),
]
