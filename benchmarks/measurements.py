"""What `make bench` measures: ours and the best rival on the same data, to the same end, in turns. benchmarks/bench.py runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import cases
from cases import Given, family, of_networks, printed

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
    "network": {f"500 x 300, its penalty {penalty}, past its last bound": 10 for penalty in (12, 4)},
    "network-oaks": {f"oaks, its penalty {penalty}, past its last bound": 10 for penalty in (12, 4)},
}


class Measurement(NamedTuple):
    name: str
    family: str
    what: str  # the work, and where it ends
    unit: str
    rival: str | None  # its name on PyPI; empty where the rival is a formula written here, None of a table
    run: Callable[[Given], Iterable[Any]]  # of pairs, or of the rows of a table by the names of its columns
    data: tuple[str, ...] = ()  # files, anywhere below the folder DATA
    extra: str = ""  # of pyproject.toml, that brings the rival
    along: str = ""  # what the rival works with, whose version counts too
    repeats: int = 3
    threads: int | None = 1  # of BLAS and loops; None for as many as there are cores
    more: bool = False  # whether more of the unit is better
    small: bool = True  # whether there is a tiny size of it


CPU, PLNS = "CPU s, one thread", {"rival": "pyPLNmodels", "extra": "bench-pln", "along": "torch"}
OAKS = ("oaks_Abundance.csv", "oaks_Offset.csv", "oaks_covariates.csv")
UCI = ("car.tab", "splice.dat", "house-votes-84.data")
CRAFT = ("craft_sentences.jsonl.gz", "craft_documents.jsonl", "go-2022-07.obo.gz")
ABSTRACTS, PEPS = ("acl_medium.npz",), ("peps.jsonl.gz",)
LDA = {"rival": "tomotopy", "extra": "bench"}
SKLEARN = {"rival": "scikit-learn"}
TABLE = {"rival": None, "repeats": 1, "small": False}
M = Measurement

# fmt: off
MEASUREMENTS = [
    M("cold", "floor", "the first fit of a process, small data, without and with a cache of compiled loops", "CPU s", run=printed("cold.py"), **TABLE),
    M("classifiers", "bayes", "GDA and NaiveBayes, 1,000,000 rows", "wall s", run=cases.classifiers, repeats=5, threads=None, **SKLEARN),
    M("lda-made", "topics", "LDA, 10,000 made documents, to the same held-out perplexity", CPU, run=cases.lda_made, **LDA),
    M("lda-abstracts", "topics", "LDA, 17,863 abstracts, to the same held-out perplexity", CPU, run=cases.lda_abstracts, data=ABSTRACTS, **LDA),
    M("lda-peps", "topics", "LDA, 736 long documents, to the same held-out perplexity", CPU, run=cases.lda_peps, data=PEPS, small=False, **LDA),
    M("lda-grown", "topics", "LDA, 64,000 documents of 5.8 M tokens drawn in the likeness of the abstracts, to the same held-out perplexity", CPU, run=cases.lda_grown, data=ABSTRACTS, small=False, **LDA),
    M("lda-limit", "topics", "sweeps of LDA on these, with parts of their work left out", "one thread", run=cases.lda_limit, data=ABSTRACTS, along="tomotopy", **TABLE),
    M("lda-others", "topics", "LDA, 17,863 abstracts, to the same held-out perplexity", CPU, "gensim", cases.lda_others, ABSTRACTS, "bench", "lda", 1, small=False),
    M("lda-transform", "topics", "topics of 1,000 new abstracts, K=100", "documents a CPU s, one thread", "tomotopy", cases.lda_transform, ABSTRACTS, "bench", "gensim", more=True, small=False),
    M("pln", "counts", "PLN, to within 1e-4 of its final bound", CPU, run=cases.pln, **PLNS),
    M("pln-oaks", "counts", "PLN, to within 1e-4 of its final bound", CPU, run=cases.pln_oaks, data=OAKS, **PLNS),
    M("pln-bounds", "counts", "bounds of whole fits, by one exact scorer; larger is better", "nats", run=cases.pln_bounds, data=("trichoptera_Abundance.csv",), along="pyPLNmodels", **TABLE),
    M("pln-rank", "counts", "PLN-PCA, to within 1e-4 of its final bound", CPU, run=cases.pln_rank, **PLNS),
    M("pln-rare", "counts", "PLN of sparse counts, to within 1e-4 of its final bound, a draw a run", CPU, run=cases.pln_rare, **PLNS),
    M("pln-memory", "counts", "large PLN fits", "one process each", run=cases.pln_memory, threads=None, **TABLE),
    M("pln-importance", "counts", "PLN by importance sampling beside its variational start", CPU, run=cases.pln_importance, **TABLE),
    M("discriminant", "counts", "PLNDiscriminant, to within 1e-4 of its final bound", CPU, run=family("lda"), **PLNS),
    M("mixture", "counts", "PLNMixture, four components, to within 1e-4 of its final bound, a draw a run", CPU, run=family("mixture"), **PLNS),
    M("zeros", "counts", "PLN with structural zeros, to within 1e-4 of its final bound, a draw a run", CPU, run=family("zeros"), repeats=2, **PLNS),
    M("network", "counts", "PLNNetwork at one penalty, to within 1e-4 of its final bound", CPU, run=cases.network, **PLNS),
    M("network-oaks", "counts", "PLNNetwork at one penalty on the raw scale, where one penalty is next to none for many pairs; the start lent to the rival is not counted", CPU, run=cases.network, data=OAKS, **PLNS),
    M("network-paths", "counts", "a path of 20 penalties, each with its bound", CPU, run=of_networks("path", small=False, tol=1e-9), data=OAKS, **TABLE),
    M("network-stability", "counts", "the default of PLNNetwork, 50 subsamples of 300 x 100", CPU, run=of_networks("stability"), **TABLE),
    M("network-recovery", "counts", "area under precision and recall of made graphs, 300 x 100, means of ten draws", "one thread", run=cases.recovery, **TABLE),
    M("network-intervals", "counts", "95% intervals of partial correlations that hold the truth", "share", run=of_networks("intervals", draws=8), **TABLE),
    M("graphical-lasso", "counts", "the lasso of PLNNetwork, to the same objective within 1e-6", CPU, run=cases.graphical_lasso, **SKLEARN),
    M("discriminant-loss", "counts", "PLNDiscriminant beside logistic regression, the better of two, four folds, a draw a run", "log loss", run=family("discriminant"), **SKLEARN),
    M("discriminant-misfit", "counts", "the same of counts that are not of its model", "log loss", run=cases.misfit, small=False, **SKLEARN),
    M("fem-network", "categories", "FEMNetwork, to the same penalised likelihood", CPU, run=cases.fem_network, **SKLEARN),
    M("fem-large", "categories", "FEMNetwork of alignments drawn from a sparse Potts model, whole fits", CPU, run=cases.fem_large, **TABLE),
    M("fem-recover", "categories", "couplings of simulated Potts models, zero-sum gauge", "root mean squared error and correlation", run=cases.fem_recover, **TABLE),
    M("fem-single", "categories", "FEM of degree 2, 36 binary variables, to the same penalised likelihood", CPU, run=cases.fem_single, **SKLEARN),
    M("fem-splice", "categories", "FEM of 3,190 sequences of 60 sites", CPU, run=cases.fem_splice, data=("splice.dat",), **TABLE),
    M("fem-search", "categories", "FEM(degree='auto') on nearly certain tables, 2,000 other rows, a draw a run", "log loss, CPU s of one thread", "xgboost", cases.fem_search, extra="bench"),
    M("fem-nested", "categories", "FEM(degree='auto'), five folds, a split a run", "log loss", "xgboost", cases.fem_nested, UCI, "bench"),
    M("concept-step", "concepts", "AuthorConcept's E-step beside its formulas in NumPy", CPU, "", cases.concept_step),
    M("concept-rank", "concepts", "1,224 sentences of CRAFT, all 43,558 live terms of the Gene Ontology; everything is fitted on the raw train sentences", CPU, run=printed("author_concept.py", "rank", "FOLDER/", "--split", "dev", "--labels"), data=CRAFT, **TABLE),
    M("concept-defaults", "concepts", "each default switched off, the 6,930 train sentences with a term, to which all were fitted", CPU, run=printed("author_concept.py", "rank", "FOLDER/", "--split", "train", "--ours", "--ablation"), data=CRAFT, **TABLE),
    M("concept-authors", "concepts", "does it help to know who wrote? Python Enhancement Proposals, each judged by a model that was not fitted to it", "nats", run=printed("author_concept.py", "authors", "FOLDER/peps.jsonl.gz"), data=PEPS, **TABLE),
    M("scaling", "floor", "how time and memory grow, until a fit takes 3 s", CPU, run=cases.scaling, extra="bench", **TABLE),
    M("threads", "floor", "the same fits on one thread, by the processor, and on two, by the clock", "s", run=cases.on_threads, threads=None, **TABLE),
]
# fmt: on
