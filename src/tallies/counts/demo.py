"""PLN in the gallery of `tallies demo`."""

from __future__ import annotations

from typing import Any

from tallies.counts.estimator import PLN
from tallies.datasets import species
from tallies.demo import Exhibit


def _species() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    data = species()
    assert data.truth is not None
    design = data.truth["covariates"]
    model = PLN().fit(data.X, covariates=design)
    ranks = PLN.over_ranks([1, 2, 3, 4, 5], data.X, covariates=design)
    told = {"colour": {"kind of site": data.y}, "truth": data.truth, "ranks": ranks, "data_name": data.about, "held_out": False}
    return model, (data.X, design), told


EXHIBITS = (Exhibit("species.html", "Species that go together", _species),)
