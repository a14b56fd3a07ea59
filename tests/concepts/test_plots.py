"""Plots of concepts draw what the model says."""

import numpy as np
import pytest

from tallies import AuthorConcept
from tallies.datasets import docstrings, ontology
from tallies.errors import DataError

matplotlib = pytest.importorskip("matplotlib", reason="needs tallies[plots]")
matplotlib.use("Agg")

from tallies.concepts import plots  # noqa: E402

SENTENCE = "Compute the singular value decomposition of a matrix."


@pytest.fixture(scope="module")
def model():
    corpus = docstrings(["numpy.linalg", "numpy.fft"]).corpus(sentences=True)
    return AuthorConcept().fit(corpus, ontology())


def names(ax) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def test_author(model):
    ax = plots.plot_author(model, "numpy.fft", 5)
    table = model.author_profile("numpy.fft", 5)
    assert ax.get_yticklabels()[0].get_text() == model.author_profile("numpy.fft", 1)["name"][0]
    assert names(ax) == table["name"].tolist()
    assert [bar.get_width() for bar in ax.patches] == table["probability"].tolist()


def test_evidence(model):
    best = model.annotate([SENTENCE], k=1)["id"][0]
    ax = plots.plot_evidence(model, SENTENCE, best)
    table = model.explain(SENTENCE, best)
    assert [bar.get_width() for bar in ax.patches] == table["log_odds"].tolist()
    assert names(ax) == table["what"].tolist()
    assert f"{table['log_odds'].sum():+.1f} in all" in ax.get_title()


def test_roll_up(model):
    ax = plots.plot_roll_up(model, n=6)
    widths = [bar.get_width() for bar in ax.containers[0]]
    assert widths == sorted(widths, reverse=True)
    assert ax.get_yticklabels()[0].get_text() == "numerical computing"
    n_g = np.asarray(model.responsibilities_.sum(axis=0)).ravel()[: len(model.concept_ids_)]
    total = np.asarray(model.roll_up(n_g))
    np.testing.assert_allclose(widths, np.sort(total)[::-1][:6])
    at = [list(model.concept_names_).index(name) for name in names(ax)]
    np.testing.assert_allclose(widths, total[at])
    np.testing.assert_allclose([bar.get_width() for bar in ax.containers[1]], n_g[at])


def test_roll_up_of_one_branch(model):
    ax = plots.plot_roll_up(model, below=model.concept_ids_[1])
    assert "linear algebra" not in names(ax)
    assert 0 < len(names(ax)) < len(model.concept_ids_)
    with pytest.raises(DataError, match="nothing is below"):
        plots.plot_roll_up(model, below=model.annotate([SENTENCE], k=1)["id"][0])
