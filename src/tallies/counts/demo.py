"""PLN and its networks in the gallery of `tallies demo`."""

from __future__ import annotations

from typing import Any

from tallies.counts.estimator import PLN
from tallies.counts.network.estimator import PLNNetwork
from tallies.datasets import species, species_web
from tallies.demo import Exhibit


def _species() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    data = species()
    assert data.truth is not None
    design = data.truth["covariates"]
    model = PLN().fit(data.X, covariates=design)
    ranks = PLN.over_ranks([1, 2, 3, 4, 5], data.X, covariates=design)
    told = {"colour": {"kind of site": data.y}, "truth": data.truth, "ranks": ranks, "data_name": data.about, "held_out": False}
    return model, (data.X, design), told


def _web() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    data = species_web()
    assert data.truth is not None
    model = PLNNetwork(n_subsamples=20).fit(data.X, covariates=data.truth["covariates"])
    sure = model.edges_[model.edges_["probability"] >= 0.9]
    true = {frozenset(pair) for pair in data.truth["edges"]}
    right = sum(frozenset(pair) in true for pair in zip(sure["a"], sure["b"], strict=True))
    often = f"Of {len(sure)} that were chosen in 90% or more of the subsamples, {right} are true."
    note = f"The truth is known here: {len(true)} edges. {often}"
    told = {"data_name": data.about, "held_out": False, "note": note}
    return model, (data.X, data.truth["covariates"]), told


EXHIBITS = (
    Exhibit("species.html", "Species that go together", _species),
    Exhibit("network.html", "Which species depend on which", _web),
)
