"""A case of each estimator: odd data with odd settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from hypothesis import strategies as st

import tallies
from odd.options import mores, options_of
from odd.tables import GOOD, LABELS, USUAL, WEIGHTS, another, beside, rows, seeds, shapes, usually


class Case(NamedTuple):
    model: str
    options: dict[str, Any]
    fit: dict[str, Any]  # arguments of `fit`; a partial is called for its value
    new: dict[str, Any]  # of what is asked afterwards
    more: dict[str, Any]  # settings of the questions


@st.composite
def classifier_cases(draw: Any, name: str, good: list[str]) -> Case:
    shape, n = draw(shapes(good)), draw(rows)
    fit = {"X": shape.make(n, draw(seeds)), "y": draw(beside(LABELS, 6, n))}
    weight = draw(beside(WEIGHTS, 3, n, 2))
    fit |= {} if weight is None else {"sample_weight": weight}
    return Case(name, draw(options_of(name)), fit, {"X": draw(another(shape))}, draw(mores))


@st.composite
def network_cases(draw: Any) -> Case:
    shape, n = draw(shapes(["whole", "text", "yes or no", "category", "words", "word gaps"])), draw(rows)
    weight = draw(beside(WEIGHTS, 3, n, 2))
    fit = {"X": shape.make(n, draw(seeds))} | ({} if weight is None else {"sample_weight": weight})
    return Case("FEMNetwork", draw(options_of("FEMNetwork")), fit, {"X": draw(another(shape))}, draw(mores))


SENTENCES = [
    *(
        "Cell death was seen.",
        "Genes are expressed in cells",
        "apoptosis",
        "The death of a gene",
        "death death death",
        "",
        "the of and",
    ),
    *("日本 語", "é É e", "x", "1 2 3", "\0", "a\nb\tc", "cell " * 50, "gene-expression/cell", "!!!", "unrelated words entirely"),
]
TEXT_OPTIONS = [
    {},
    {"stop_words": None},
    {"min_df": 2},
    {"min_df": 0.5},
    {"stem": True},
    {"bigrams": True},
    {"vocabulary": ["cell", "gene"]},
]
TEXT_OPTIONS += [{"min_df": -1}, {"max_df": "x"}, {"stem": "klingon"}, {"vocabulary": []}, {"vocabulary": ["cell", "cell"]}]
texts = st.lists(st.sampled_from(SENTENCES), max_size=8)
odd_texts = st.one_of(
    texts, texts, texts, st.lists(st.sampled_from([None, 1, np.nan, "cell", b"cell", ["cell"]]), max_size=4), st.just("cell")
)


@st.composite
def lda_cases(draw: Any) -> Case:
    if draw(st.integers(0, 3)) == 0:
        first, other = draw(odd_texts), draw(odd_texts)
        how = partial(tallies.Corpus.from_texts, first, **draw(st.sampled_from(TEXT_OPTIONS)))
        fit, new = {"X": how}, {"X": partial(tallies.Corpus.from_texts, other)}
    else:
        shape = draw(shapes(["counts", "whole", "float counts", "zero", "one", "yes or no"], [*USUAL, "csc"]))
        fit, new = {"X": shape.make(draw(rows), draw(seeds))}, {"X": draw(another(shape))}
    more = draw(mores) | {"length": draw(usually([None, 5], [0, -1, 2.5, "x"], 5))}
    return Case("LDA", draw(options_of("LDA")), fit, new, more)


OFFSETS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "none": lambda rng, n: None,
    "logsum": lambda rng, n: "logsum",
    "some": lambda rng, n: rng.normal(size=n),
    # from here on odd
    **{rule: partial(lambda rule, rng, n: rule, rule) for rule in ("tss", "css", "rle", "gmpr", "tmm", "wrench", "none such", "")},
    "table": lambda rng, n: rng.normal(size=(n, 2)),
    "list": lambda rng, n: [0] * n,
    "large": lambda rng, n: np.full(n, 50.0),
    "huge": lambda rng, n: np.full(n, 1e4),
    "largest": lambda rng, n: np.full(n, 1e300),
    "far below": lambda rng, n: np.full(n, -1e4),
    "lowest": lambda rng, n: np.full(n, -1e300),
    "infinite": lambda rng, n: np.full(n, -np.inf),
    "gaps": lambda rng, n: np.full(n, np.nan),
    "texts": lambda rng, n: ["a"] * n,
    "series": lambda rng, n: pd.Series(np.zeros(n)),
    "frame": lambda rng, n: pd.DataFrame({"o": np.zeros(n)}),
    "long": lambda rng, n: np.zeros(n + 1),
    "number": lambda rng, n: 1.0,
}
COVARIATES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "none": lambda rng, n: None,
    "ones": lambda rng, n: np.ones((n, 1)),
    "one": lambda rng, n: rng.normal(size=(n, 1)),
    # from here on odd
    "flat": lambda rng, n: rng.normal(size=n),
    "groups": lambda rng, n: np.eye(2)[np.arange(n) % 2],
    "frame": lambda rng, n: pd.DataFrame({"depth": rng.normal(size=n), "side": np.arange(n) % 2}),
    "named rows": lambda rng, n: pd.DataFrame({"depth": rng.normal(size=n)}, index=[f"r{i}" for i in range(n)]),
    "text": lambda rng, n: pd.DataFrame({"side": ["a"] * n}),
    "series": lambda rng, n: pd.Series(rng.normal(size=n), name="depth"),
    "polars": lambda rng, n: pl.DataFrame({"depth": rng.normal(size=n)}),
    "constant twice": lambda rng, n: np.ones((n, 2)),
    "zero": lambda rng, n: np.zeros((n, 1)),
    "none at all": lambda rng, n: np.empty((n, 0)),
    "many": lambda rng, n: rng.normal(size=(n, n + 1)),
    "large": lambda rng, n: rng.normal(size=(n, 1)) * 1e6,
    "huge": lambda rng, n: rng.normal(size=(n, 1)) * 1e300,
    "tiny": lambda rng, n: rng.normal(size=(n, 1)) * 1e-300,
    "gaps": lambda rng, n: np.full((n, 1), np.nan),
    "objects": lambda rng, n: np.array([["a"]] * n, dtype=object),
    "long": lambda rng, n: np.ones((n + 1, 1)),
    "word": lambda rng, n: "depth",
    "lists": lambda rng, n: [[1.0, float(i % 2)] for i in range(n)],
    "sparse": lambda rng, n: sp.csr_array(np.ones((n, 1))),
}


@st.composite
def pln_cases(draw: Any) -> Case:
    good = ["counts", "whole", "float counts", "count gaps", "counts", "counts"]
    shape, n, m = draw(shapes(good, [*USUAL, "row names"])), draw(rows), draw(usually([1, 3, 6], [0, 1]))
    covariates, offsets = (
        draw(usually(["none", "ones", "one"], list(COVARIATES), 2)),
        draw(usually(["none", "logsum"], list(OFFSETS), 2)),
    )
    rng = np.random.default_rng(draw(seeds))
    parts: list[dict[str, Any]] = []
    for size in (n, m):
        found = {"covariates": COVARIATES[covariates](rng, size), "offsets": OFFSETS[offsets](rng, size)}
        parts.append(
            {"counts": shape.make(size, draw(seeds))} | {name: value for name, value in found.items() if value is not None}
        )
    weight = draw(beside(WEIGHTS, 1, n, 3))
    fit = parts[0] | ({} if weight is None else {"sample_weight": weight})
    new = parts[1] | ({"counts": draw(another(shape))} if draw(st.integers(0, 5)) == 0 else {})
    return Case("PLN", draw(options_of("PLN")), fit, new, draw(mores))


NAMED = ["cell death", "gene expression", "apoptosis", "", "cell", "the", "日本", "x y z", "death"]
IDS = ["g0", "g1", "é", "GO:1"]


@st.composite
def ontologies(draw: Any) -> Any:
    n = draw(usually([1, 2, 3], [0, 4]))
    lists = st.lists(st.sampled_from(NAMED), max_size=2)
    ids = IDS[:n] if draw(st.integers(0, 9)) else ["g0"] * n
    return partial(
        tallies.Ontology,
        ids,
        [draw(st.sampled_from(NAMED)) for _ in ids],
        definitions=[draw(st.sampled_from(SENTENCES)) for _ in ids],
        synonyms=[draw(lists) for _ in ids],
        parents=[draw(st.lists(usually(ids or ["g0"], ["none such"], 20), max_size=2)) for _ in ids],
    )


def pairs(sentences: list[Any], authors: list[Any], options: dict[str, Any]) -> Any:
    """A corpus of two documents."""
    return tallies.Corpus.from_pairs([(f"d{i % 2}", text) for i, text in enumerate(sentences)], authors, **options)


@st.composite
def concept_cases(draw: Any) -> Case:
    names = [("d0", "Ann"), ("d1", "Bob"), ("d0", ""), ("d0", None), ("d0", "Ann"), ("d1", "é"), ("d7", "Eve")]
    some_texts = draw(texts) + draw(st.sampled_from([[], ["Cell death was seen.", "Genes are expressed in cells"]]))
    how = draw(usually(["pairs", "pairs", "list"], ["odd", "no sentences", "cut"], 4))
    options = draw(usually([{}], TEXT_OPTIONS, 4))
    made = {
        "pairs": partial(pairs, some_texts, draw(st.lists(usually(names[:2], names, 5), max_size=3)), options),
        "list": some_texts,
        "odd": draw(odd_texts),
        "no sentences": partial(tallies.Corpus.from_texts, some_texts),
        "cut": partial(tallies.Corpus.from_texts, some_texts, sentences=True),
    }
    label = usually([None, "g0", "g1", [], ["g0", "g1"]], ["none such", 3, np.nan, ("g0",), [None], [3], b"g0"], 9)
    fit = {"corpus": made[how], "concepts": draw(ontologies())}
    if draw(st.integers(0, 2)) == 0:
        fit["labels"] = [draw(label) for _ in range(len(some_texts) + (draw(st.integers(0, 9)) == 0))]
    new = {
        "sentences": draw(usually([some_texts], [draw(odd_texts)], 2)),
        "authors": draw(usually([None, ["Ann"]], ["Ann", [], [["Bob"]], [None], 3], 2)),
    }
    return Case("AuthorConcept", draw(options_of("AuthorConcept")), fit, new, draw(mores))


CASES: dict[str, st.SearchStrategy[Case]] = {
    "GDA": classifier_cases("GDA", ["normal", "whole", "counts", "gaps", "float counts", "normal"]),
    "NaiveBayes": classifier_cases("NaiveBayes", GOOD),
    "LDA": lda_cases(),
    "PLN": pln_cases(),
    "FEM": classifier_cases("FEM", ["whole", "text", "yes or no", "category", "words", "word gaps", "normal"]),
    "FEMNetwork": network_cases(),
    "AuthorConcept": concept_cases(),
}
