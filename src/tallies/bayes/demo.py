"""GDA and naive Bayes in the gallery of `tallies demo`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.bayes.gda import GDA
from tallies.bayes.naive_bayes import NaiveBayes
from tallies.datasets import birds, halves, load
from tallies.demo import Exhibit


def _judged(model: Any, name: str, note: str = "") -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    data = load(name)
    fit, judge = halves(data.y)
    model.fit(data.X.iloc[fit], data.y[fit])
    return model, (data.X.iloc[judge], data.y[judge]), {"data_name": data.about, "held_out": True, "note": note}


def _birds() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    data = birds()
    _, judge = halves(data.y)
    assert data.truth is not None
    best = data.truth["classes"][data.truth["posterior"].argmax(axis=1)]
    share = float(np.mean(best[judge] == data.y[judge]))
    missing = float(np.mean(data.X.isna().to_numpy()))
    note = (
        f"{missing:.0%} of the cells are missing and are summed out, neither dropped nor filled in. The birds were made up, so the "
        f"best possible answers are known: a judge who knows the truth is right for {share:.1%} of the same rows."
    )
    return _judged(NaiveBayes(families={"eggs": "poisson"}), "birds", note)


_DOUBT = (
    "The thirty columns say much the same, and naive Bayes takes each for news of its own: it is often right, and far too sure. "
    "The page shows it."
)
EXHIBITS = (
    Exhibit("wine.html", "Wines by their chemistry", lambda: _judged(GDA(), "wine")),
    Exhibit("birds.html", "Birds from a table with gaps", _birds),
    Exhibit("digits.html", "Handwritten digits", lambda: _judged(GDA(shrinkage="auto"), "digits")),
    Exhibit("breast-cancer.html", "Tumours: when to doubt a classifier", lambda: _judged(NaiveBayes(), "breast-cancer", _DOUBT)),
)
