"""Draw the pictures of the tutorials: `python docs/pictures.py`, after a change of models or plots. They need no download."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "images" / "tutorials"


def save(name: str, ax: Any) -> None:
    """A small file: 80 dots an inch, and no more colours than a plot has."""
    ax.figure.savefig(HERE / f"{name}.png", dpi=80, pil_kwargs={"optimize": True})


def plot_pictures() -> None:
    """What the example of every plot function draws, for the reference."""
    from doctest import DocTestFinder
    from importlib import import_module

    from matplotlib import pyplot

    from tallies.registry import FAMILIES

    for room in FAMILIES:
        module = import_module(f"tallies.{room}.plots")
        for name, function in vars(module).items():
            if name.startswith("plot_") and function.__module__ == module.__name__:
                (test,) = DocTestFinder(recurse=False).find(function, name, globs=dict(vars(module)))
                pyplot.close("all")
                for example in test.examples:
                    exec(example.source, test.globs)
                picture = HERE.parent / "plots" / f"{room}-{name}.png"
                picture.parent.mkdir(exist_ok=True)
                pyplot.gcf().savefig(picture, dpi=70, pil_kwargs={"optimize": True})


def birds_pictures() -> None:
    from tallies import NaiveBayes
    from tallies.bayes import plots
    from tallies.datasets import birds

    data, old, new = birds(), slice(0, 800), slice(800, None)
    model = NaiveBayes(families={"eggs": "poisson"}).fit(data.X[old], data.y[old])
    save("birds-wing", plots.plot_densities(model, "wing", data.X[new], data.y[new]))
    save("birds-calibration", plots.plot_calibration(model, data.X[new], data.y[new]))


def topics_pictures() -> None:
    from tallies import LDA, Corpus
    from tallies.datasets import docstrings
    from tallies.topics import plots

    data = docstrings(["numpy.fft", "numpy.linalg", "scipy.optimize", "sklearn.cluster", "sklearn.linear_model"])
    seen = [i for i in range(len(data.texts)) if i % 4]
    corpus = Corpus.from_texts([data.texts[i] for i in seen], min_df=3, max_df=0.3)
    model = LDA(n_topics=8, n_chains=2, max_iter=300, burn_in=200, random_state=0).fit(corpus)
    save("topics-sizes", plots.plot_sizes(model))
    save("topics-groups", plots.plot_groups(model, [data.authors[i] for i in seen]))
    save("topics-trace", plots.plot_trace(model))


def species_pictures() -> None:
    from tallies import PLN
    from tallies.counts import plots
    from tallies.datasets import species

    data = species()
    assert data.truth is not None
    model = PLN().fit(data.X, covariates=data.truth["covariates"])
    save("species-biplot", plots.plot_biplot(model, colours=data.y))
    save("species-forest", plots.plot_coefficients(model, "forest"))


def boards_pictures() -> None:
    from tallies import FEM
    from tallies.bayes.plots import plot_calibration
    from tallies.categories import plots
    from tallies.datasets import tic_tac_toe

    boards, won = tic_tac_toe()
    old, new = boards.index % 3 > 0, boards.index % 3 == 0
    save("boards-weights", plots.plot_weights(FEM(degree=1, ridge=0.01).fit(boards[old], won[old])))
    pairs = FEM(degree=2, ridge=0.01).fit(boards[old], won[old])
    save("boards-calibration", plot_calibration(pairs, boards[new], won[new]))


def concepts_pictures() -> None:
    from tallies import AuthorConcept
    from tallies.concepts import plots
    from tallies.datasets import docstrings, ontology

    corpus = docstrings(["numpy.linalg", "numpy.fft", "scipy.optimize", "scipy.stats"]).corpus(sentences=True)
    model, sentence = AuthorConcept().fit(corpus, ontology()), "Compute the singular value decomposition of a matrix."
    save("concepts-evidence", plots.plot_evidence(model, sentence, model.annotate([sentence], k=1)["id"][0]))
    save("concepts-author", plots.plot_author(model, "numpy.fft"))
    save("concepts-roll-up", plots.plot_roll_up(model))


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    HERE.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for draw in (plot_pictures, birds_pictures, topics_pictures, species_pictures, boards_pictures, concepts_pictures):
            draw()
