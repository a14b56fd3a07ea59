"""The report of an author-concept model: what sentences speak of and by which words, who writes of what, and the whole tree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import numpy as np
import scipy.sparse as sp

from tallies.concepts.answers import expected, sizes, written
from tallies.concepts.door import read_corpus
from tallies.concepts.views import profile
from tallies.data.text import WORD, stem
from tallies.errors import DataError
from tallies.html import charts
from tallies.html.common import About, begin, finish, percent, plural, statisticians, told
from tallies.html.page import Node, Page, Run, Section, Tag
from tallies.maths import Array

LISTED = 300  # concepts and authors that can be chosen: those with most sentences
SENTENCES = 400  # sentences in the page
TYPICAL = 4  # sentences of a concept before others fill the page
BARS = 20
SHOWN = 16  # authors and concepts of the picture: as many as a phone shows side by side
FOUND = 4  # findings about single authors
NODES = 3000  # nodes of the tree
PREFIX = 6  # letters by which a word of a sentence is known for a form of a word of a concept
STRONG = (1.0, 3.0)  # log odds from which a mark is stronger


def page(model: Any, about: About, corpus: Any = None) -> Page:
    """The report of an AuthorConcept; the corpus of the fit, or another, gives it sentences to show."""
    names = [str(name) for name in model.concept_names_]
    corpus = read_corpus(corpus)
    given = None if corpus is None else list(corpus.sentences or [])
    if given is not None and not given:
        raise DataError("the corpus has no sentences; make it with sentences=True, or leave it out of the report")
    n_g = expected(model.fitted_)  # expected sentences of each concept
    listed = np.argsort(-n_g, kind="stable")
    listed = listed[n_g[listed] > 0.05][:LISTED]
    place = {int(g): i for i, g in enumerate(listed)}
    by_author = written(model.fitted_)
    authors = np.argsort(-by_author.sum(axis=1), kind="stable")[:LISTED]
    n_sentences, n_documents, named = sizes(model.fitted_)
    spoken = named / n_sentences
    out = begin(model, about, "Who writes of what in" if len(authors) > 1 else "Concepts in", _lead(model, names, n_g, spoken))
    out.findings = _findings(model, names, by_author)
    _warn(out, model, n_g, spoken)
    out.pick("concept", "Concept", list(_distinct([names[g] for g in listed])))
    out.pick("author", "Author", [str(model.authors_[a]) for a in authors])
    most = listed[:BARS]
    caption = "Sentences count by the probability that they speak of a concept. Choose one to see its sentences and words."
    choice = {"keys": list(range(len(most))), "select": "concept", "caption": caption}
    top = charts.bar("What is written about", "expected sentences", [names[g] for g in most], n_g[most], **choice)
    profiles = [profile(model, str(model.authors_[a])) for a in authors]
    grid = _grid(model, by_author, authors, listed, names)
    out.face = grid or top
    out.hero(charts.follow("author", profiles, grid) if grid else top)
    if given is not None:
        ours = model.fitted_.totals is None and _same(corpus, model)
        _sentences(out, model, corpus, given, listed, place, ours)
    if len(authors):
        _people(out.section("authors", "Authors"), model, names, by_author, authors)
    about_concepts = out.section("concepts", "Concepts").charts(top if grid else None)
    words = [_words(model, int(g), names[g]) for g in listed]
    if words and all(chart["labels"] for chart in words):
        about_concepts.charts(charts.follow("concept", words))
    met = plural(int((n_g > 0.05).sum()), "concept was", "concepts were")
    about_concepts.text(f"The ontology, with the expected sentences of each concept and all below it ({met} met).")
    about_concepts.tree(_tree(model, names, np.asarray(model.roll_up(n_g)), place), "concept")
    _criteria(out, model, n_g)
    counted = n_sentences, n_documents, len(model.authors_), len(names)
    facts = list(zip(("Sentences", "Documents", "Authors", "Concepts"), counted, strict=True))
    return finish(out, model, about, facts, _CODE, "predict RUN texts.jsonl", "report RUN texts.jsonl")


def _same(corpus: Any, model: Any) -> bool:
    """Whether these are the sentences of the fit, by the documents that they are of."""
    ids = [str(d) for d in corpus.documents]
    return ids == list(model.document_ids_) and np.array_equal(corpus.sentence_document, model.sentence_documents_)


def _distinct(names: list[str]) -> Iterator[str]:
    """Names by which items can be told apart in an address."""
    seen: Counter[str] = Counter()
    for name in names:
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})"


def _lead(model: Any, names: list[str], n_g: Array, spoken: float) -> str:
    S, best = model.n_sentences_, [g for g in np.argsort(-n_g, kind="stable")[:3] if n_g[g] >= 0.5]
    whose = f" of {plural(len(model.authors_), 'author')}" if len(model.authors_) else ""
    told = f"{plural(S, 'sentence')}{whose}, read with {plural(len(names), 'concept')}."
    if best:
        first = f"{names[best[0]]} (in {plural(round(n_g[best[0]]), 'sentence')})"
        more = [f"{names[g]} ({n_g[g]:,.0f})" for g in best[1:]]
        told = f"Most is written of {', '.join([first, *more])}. {told}"
    return f"{told} {percent(spoken, S)} of the sentences speak of a concept."


def _special(by_author: sp.csr_array) -> sp.csr_array:
    """(A, G) how much more an author writes of a concept than all do: n_ag log(share / share among all)."""
    cells, total = by_author.tocoo(), by_author.sum(axis=1)
    share, usual = cells.data / total[cells.row], (by_author.sum(axis=0) / max(total.sum(), 1e-300))[cells.col]
    return sp.csr_array((cells.data * np.log(share / usual), (cells.row, cells.col)), shape=by_author.shape)


def _findings(model: Any, names: list[str], by_author: sp.csr_array) -> list[str]:
    """The authors who write most of something that others write less of, one a concept."""
    cells, total = _special(by_author).tocoo(), by_author.sum(axis=1)
    found: dict[int, tuple[float, str]] = {}
    taken = set()
    for i in np.argsort(-cells.data, kind="stable")[:LISTED]:
        a, g = int(cells.row[i]), int(cells.col[i])
        share, usual = by_author[a, g] / total[a], by_author[:, [g]].sum() / total.sum()
        if len(found) < FOUND and a not in found and g not in taken and by_author[a, g] >= 2 and share > 1.5 * usual:
            taken.add(g)
            told = f"{share:.0%} of the sentences that speak of a concept, against {usual:.0%} among all authors."
            found[a] = share, f"{model.authors_[a]} writes of {names[g]}: {told}"
    return [told for _, told in sorted(found.values(), reverse=True)]


def _warn(out: Page, model: Any, n_g: Array, spoken: float) -> None:
    lone = sum(len(str(name).split()) == 1 and len(str(name)) < 3 for name in model.concept_names_)
    short = f"{plural(lone, 'concept has', 'concepts have')} a name of one or two letters, which any text may hold."
    out.warnings += told(
        (spoken < 0.1, "Few sentences speak of any concept: does the ontology fit these texts?"),
        ((n_g < 0.5).all(), "No concept has half a sentence: names and synonyms of the ontology do not occur in the texts."),
        (lone, short),
    )


def _grid(model: Any, by_author: sp.csr_array, authors: np.ndarray, listed: np.ndarray, names: list[str]) -> charts.Chart | None:
    """Who writes of what: the share of each concept in an author's sentences."""
    who = np.arange(len(authors))[:SHOWN]
    if len(who) < 2 or len(listed) < 2:
        return None
    n = by_author[authors[who]]
    special = _special(by_author)[authors[who]].argmax(axis=1)  # what each of them is known for, then the commonest
    what = list(dict.fromkeys([*special[np.isin(special, listed)].tolist(), *listed.tolist()]))[:SHOWN]
    what = sorted(what, key=lambda g: -n[:, [g]].sum())
    share = n[:, what].toarray() / np.maximum(n.sum(axis=1), 1e-12)[:, None]
    # authors in the order of the concept that they write more of than the others: what belongs together lies on a diagonal
    order = np.argsort(np.argmax(share / np.maximum(share.mean(axis=0), 1e-12), axis=1), kind="stable")
    who, share = who[order], np.where(share < 0.005, 0.0, share)[order]
    across, down = [names[g] for g in what], [str(model.authors_[authors[i]]) for i in who]
    texts = [[f"{v:.0%}" if v else "" for v in row] for row in share]
    tips = [[f"{a}\n{c}: {v:.1%}" for c, v in zip(across, row, strict=True)] for a, row in zip(down, share, strict=True)]
    caption = (
        "Of the sentences of an author that speak of a concept, the share of each of these; empty: under 0.5%. "
        "Choose an author to see a profile."
    )
    choice = {"flip": True, "empty": True, "keys": who.tolist(), "select": "author", "caption": caption, "wide": True}
    return charts.heat("Who writes of what", "concept", "author", across, down, share, texts, tips, unit="share", **choice)


def _people(section: Section, model: Any, names: list[str], by_author: sp.csr_array, authors: np.ndarray) -> None:
    """What each author writes about, those with most sentences first."""
    rows = []
    for a in authors:
        n_g = by_author[[a]].toarray()[0]
        best = [g for g in np.argsort(-n_g, kind="stable")[:5] if n_g[g] >= 0.5]
        rows.append(
            [str(model.authors_[a]), ", ".join(f"{names[g]} ({n_g[g]:,.0f})" for g in best) or "-", round(float(n_g.sum()), 1)]
        )
    heads = ["author", "writes of (expected sentences)", "sentences with a concept"]
    several = "author" if len(authors) > 1 else ""  # of one there is no choice, so that no row would be shown
    section.table(heads, rows, rows_of=several, keys=list(range(len(authors))), first=0)


def _criteria(out: Page, model: Any, n_g: Array) -> None:
    p, null = n_g[n_g > 0] / max(n_g.sum(), 1e-300), model.fitted_.settings.null
    effective = float(np.exp(-np.sum(p * np.log(p))))
    objective = f"{model._measure()}, over the concepts kept for each sentence, in nats"
    criteria = [
        ("Objective", float(model.history_[-1]), objective),
        ("Effective number of concepts", effective, "so many equally common ones would be as hard to foretell"),
        ("Prior of none of them", float(model.fitted_.psi.everybody[-1]) if null else None, "learned with the others"),
    ]
    statisticians(out, criteria)


def _words(model: Any, g: int, name: str) -> charts.Chart:
    table = model.concept_profile(str(model.concept_ids_[g]), BARS)
    caption = "How much a sentence gains for this concept by each; 2.3 makes it ten times as likely."
    return charts.bar(f"What speaks for {name}", "log odds", table["word"], table["log_odds"], caption=caption)


def _sentences(out: Page, model: Any, corpus: Any, texts: list[str], listed: Any, place: dict[int, int], ours: bool) -> None:
    """Sentences with their concepts, the words that speak for the first of them marked."""
    section = out.section("sentences", "Sentences")
    G = len(model.concept_ids_)
    who = [corpus.authors[d] for d in corpus.sentence_document]
    chosen = _typical(sp.csr_array(model.responsibilities_)[:, :G], listed) if ours else list(range(min(len(texts), SENTENCES)))
    if not chosen:
        section.text("No sentence speaks of a concept.")
        return
    table = model.annotate([texts[s] for s in chosen], [list(who[s]) for s in chosen], k=3)
    by = dict(list(table.groupby("sentence")))
    key = {str(model.concept_ids_[g]): i for g, i in place.items()}
    items = []
    for row, s in enumerate(chosen):
        found = by.get(row, table[:0])
        found = found.sort_values("probability", ascending=False, kind="stable")
        ids = [str(c) for c in found["id"]]
        keys = [key[c] for c in ids if c in key]
        named = zip(ids, found["name"], found["probability"], strict=True)
        tags: list[Tag] = [(f"{name} {p:.0%}", "concept", key[c], "") for c, name, p in named if c in key and p >= 0.005]
        runs: list[Run] = [(texts[s], "", "")]
        if ids:
            evidence = model.explain(texts[s], ids[0], authors=list(who[s]))
            runs = marked(texts[s], list(evidence.itertuples(index=False, name=None)))
        document = str(corpus.documents[corpus.sentence_document[s]])
        items.append((keys, ", ".join(filter(None, [document, *who[s]])), tags, runs))
    section.text(
        "Marked words speak for the first concept of the sentence, the more the stronger their ground; "
        "hold the pointer over one for its log odds."
    )
    section.passages(items, "concept", "Search in sentences", most=10)


def _typical(R: sp.csr_array, listed: Any) -> list[int]:
    """Sentences to show: the surest of every concept first, then others."""
    columns = sp.csc_array(R)
    parts = [slice(columns.indptr[g], columns.indptr[g + 1]) for g in listed]
    surest = [columns.indices[part][np.argsort(-columns.data[part], kind="stable")][:TYPICAL].tolist() for part in parts]
    rest = np.flatnonzero(R.max(axis=1).toarray() > 0.3).tolist()
    turns = [s for turn in zip_longest(*surest) for s in turn if s is not None]  # the first of each, the second of each, ...
    return list(dict.fromkeys(turns + rest))[:SENTENCES]


def marked(text: str, evidence: list[tuple[str, float]]) -> list[Run]:
    """A sentence with the words that are evidence marked by their log odds.

    >>> [run[:2] for run in marked("Dead cells die.", [("prior", -1.0), ("cell", 3.5), ("death (missing)", -1.0)])]
    [('Dead ', ''), ('cells', 'for3'), (' die.', '')]
    >>> [run[:2] for run in marked("cell_like", [("cell", 3.5)])]
    [('cell', 'for3'), ('_like', '')]
    """
    odds: dict[str, float] = {}
    for what, value in evidence:
        if " " not in what and what not in ("prior", "length"):
            odds[what.lower()] = odds.get(what.lower(), 0.0) + float(value)
    known = {stem(word): value for word, value in odds.items()} | odds
    long = {word[:PREFIX]: value for word, value in odds.items() if len(word) >= PREFIX}
    runs: list[Run] = []
    end = 0
    for match in _words_in(text, known):
        word = match[0].lower()
        forms = [known.get(word), known.get(stem(word)), long.get(word[:PREFIX]) if len(word) >= PREFIX else None]
        gain = next((v for v in forms if v is not None), None)
        if gain is None or not np.isfinite(gain) or abs(gain) < 0.05:
            continue
        mark = "against" if gain < 0 else f"for{1 + (gain >= STRONG[0]) + (gain >= STRONG[1])}"
        runs += [(text[end : match.start()], "", ""), (match[0], mark, f"log odds {gain:+.2f}")]
        end = match.end()
    return [run for run in [*runs, (text[end:], "", "")] if run[0]]


def _words_in(text: str, known: Any) -> Iterator[re.Match[str]]:
    """The words of a text; a compound ("band-pass", "array_like") in its parts, unless it is evidence as it stands."""
    for match in WORD.finditer(text):
        if match[0].lower() in known or match[0].isalnum():
            yield match
        else:
            yield from re.compile(r"[^\W_]+").finditer(text, match.start(), match.end())


def _tree(model: Any, names: list[str], total: Array, place: dict[int, int]) -> list[Node]:
    """The concepts with sentences at or below them; one with several parents stands under each."""
    up = model.fitted_.concepts.up
    below = np.split(up.tocsc().indices, up.tocsc().indptr[1:-1])
    left = [NODES]

    def node(g: int, path: frozenset[int]) -> Node:
        left[0] -= 1
        children = sorted((c for c in below[g].tolist() if total[c] > 0.05 and c not in path), key=lambda c: -total[c])
        inside = [node(c, path | {c}) for c in children if left[0] > 0]
        return names[g], float(total[g]), place.get(g), inside

    roots = sorted((g for g in np.flatnonzero(np.diff(up.indptr) == 0).tolist() if total[g] > 0.05), key=lambda g: -total[g])
    return [node(g, frozenset([g])) for g in roots]


_CODE = """\
model.annotate(["a new sentence"])         # its concepts, with probabilities
model.explain("a new sentence", concept)   # which words speak for a concept
model.author_profile(author)               # what an author writes about
model.concept_profile(concept)             # the words of a concept"""
