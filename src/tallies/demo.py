"""A gallery of reports on data that need no download: what `tallies demo` writes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Exhibit(NamedTuple):
    """A report of the gallery: how it is made, from fitting to the page."""

    file: str
    heading: str
    make: Callable[[], Any]  # -> Page


def exhibits() -> list[Exhibit]:
    """What the gallery shows; a new family adds its lines here."""
    from tallies import GDA, NaiveBayes

    return [
        Exhibit("topics.html", "Topics of scientific Python", _topics),
        Exhibit("species.html", "Species that go together", _species),
        Exhibit("tic-tac-toe.html", "Tic-tac-toe: eight lines found", _tic_tac_toe),
        Exhibit("concepts.html", "What scientific Python speaks of", _concepts),
        Exhibit("wine.html", "Wines by their chemistry", lambda: _classifier(GDA(), "wine", "Wines by their chemistry")),
        Exhibit("birds.html", "Birds from a table with gaps", _birds),
        Exhibit("digits.html", "Handwritten digits", lambda: _classifier(GDA(shrinkage="auto"), "digits", "Handwritten digits")),
        Exhibit(
            "breast-cancer.html",
            "Tumours: when to doubt a classifier",
            lambda: _classifier(NaiveBayes(), "breast-cancer", "Tumours: when to doubt a classifier", _DOUBT),
        ),
    ]


_DOUBT = (
    "The thirty columns say much the same, and naive Bayes takes each for news of its own: it is often right, and far too sure. "
    "The page shows it."
)


def run(out: Path, quiet: bool = False) -> Path:
    """Fit the models, write their reports and the page that leads to them into the folder `out`; returns the page."""
    from tallies.html.page import Page

    start, out = time.perf_counter(), Path(out)
    shown = exhibits()
    gallery = Page("What the data say", "", "gallery")
    for number, (file, heading, make) in enumerate(shown, 1):
        _say(f"[{number}/{len(shown)}] {heading} ... ", quiet, end="")
        begun = time.perf_counter()
        page = make()
        page.write(out / file)
        gallery.card(heading, file, page)
        _say(f"{time.perf_counter() - begun:.1f} s", quiet)
    gallery.lead = (
        f"{len(shown)} models, fitted on this machine in {time.perf_counter() - start:.0f} s on data that came "
        "with the software. Each page says what was found, how good it is, whether to believe it, and how to get it again."
    )
    index = gallery.write(out / "index.html")
    _say(f"Wrote the gallery. Next: open {index.resolve()} in a browser.", quiet)
    return index


def _say(text: str, quiet: bool, end: str = "\n") -> None:
    if not quiet:
        print(text, end=end, file=sys.stderr, flush=True)


def _halves(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to judge by, two to one, with the same share of every class."""
    from sklearn.model_selection import train_test_split

    fit, judge = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=0, stratify=y)
    return np.sort(fit), np.sort(judge)


def _classifier(model: Any, name: str, title: str, note: str = "") -> Any:
    from tallies.datasets import load
    from tallies.html import build

    data = load(name)
    fit, judge = _halves(data.y)
    model.fit(data.X.iloc[fit], data.y[fit])
    rows, labels = data.X.iloc[judge], data.y[judge]
    return build(model, rows, labels, title=title, data_name=data.about, held_out=True, note=note, command="tallies demo")


def _birds() -> Any:
    from tallies import NaiveBayes
    from tallies.datasets import birds

    data = birds()
    _, judge = _halves(data.y)
    assert data.truth is not None
    best = data.truth["classes"][data.truth["posterior"].argmax(axis=1)]
    share = float(np.mean(best[judge] == data.y[judge]))
    missing = float(np.mean(data.X.isna().to_numpy()))
    note = (
        f"{missing:.0%} of the cells are missing and are summed out, neither dropped nor filled in. The birds were made up, so the "
        f"best possible answers are known: a judge who knows the truth is right for {share:.1%} of the same rows."
    )
    return _classifier(NaiveBayes(families={"eggs": "poisson"}), "birds", "Birds from a table with gaps", note)


def _topics() -> Any:
    from tallies import LDA
    from tallies.datasets import Texts, docstrings
    from tallies.html import build

    data = docstrings()
    late = np.arange(len(data.texts)) % 4 == 0
    parts = []
    for mine in (~late, late):
        texts, authors, ids = ([part[i] for i in np.flatnonzero(mine)] for part in (data.texts, data.authors, data.ids))
        parts.append(Texts(texts, authors, ids, data.about))
    corpus = parts[0].corpus(min_df=3, max_df=0.3)
    unseen = parts[1].corpus(vocabulary=corpus.vocabulary.tolist())
    model = LDA(n_topics=25, max_iter=1500, burn_in=1000, random_state=0).fit(corpus)
    return build(
        model,
        unseen,
        texts=parts[1].texts,
        group="authors",
        title="Topics of scientific Python",
        data_name=data.about,
        held_out=True,
        command="tallies demo",
    )


def _species() -> Any:
    from tallies import PLN
    from tallies.datasets import species
    from tallies.html import build

    data = species()
    assert data.truth is not None
    design = data.truth["covariates"]
    model = PLN(random_state=0).fit(data.X, design)
    ranks = PLN.over_ranks([1, 2, 3, 4, 5], data.X, design, random_state=0)
    return build(
        model,
        data.X,
        design,
        colour={"kind of site": data.y},
        truth=data.truth,
        ranks=ranks,
        title="Species that go together",
        data_name=data.about,
        held_out=False,
        command="tallies demo",
    )


def _tic_tac_toe() -> Any:
    from tallies import FEM
    from tallies.datasets import TIC_TAC_TOE_LINES, tic_tac_toe
    from tallies.html import build

    boards, won = tic_tac_toe()
    fit, judge = _halves(won.to_numpy())
    model = FEM(degree=3, ridge=0.01).fit(boards.iloc[fit], won.iloc[fit])
    top = model.interactions(8, degree=3)["term"].tolist()
    lines = {" & ".join(boards.columns[c] for c in line) for line in TIC_TAC_TOE_LINES}
    found = sum(term in lines for term in top)
    note = (
        f"Nobody told the model the rules. Of 84 ways to take three cells, its eight strongest are {found} of the eight lines "
        "that win, and others."
        if found < len(lines)
        else "Nobody told the model the rules. Of 84 ways to take three cells, its eight strongest are the eight lines that win."
    )
    return build(
        model,
        boards.iloc[judge],
        won.iloc[judge],
        title="Tic-tac-toe: eight lines found",
        held_out=True,
        note=note,
        data_name="the 958 boards with which a game can end",
        command="tallies demo",
    )


def _concepts() -> Any:
    from tallies import AuthorConcept
    from tallies.datasets import docstrings, ontology
    from tallies.html import build

    data = docstrings()
    corpus = data.corpus(sentences=True)
    model = AuthorConcept().fit(corpus, ontology())
    return build(model, corpus, title="What scientific Python speaks of", data_name=data.about, command="tallies demo")


if __name__ == "__main__":
    run(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
