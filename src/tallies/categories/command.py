"""FEM on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallies.cli.tables import OPTIONS, fit, labels, predict, predict_files, report_data, score
from tallies.errors import DataError


def sample(model: Any, options: Mapping[str, Any], n: int, seed: int | None) -> Any:
    """FEM says nothing about how its inputs come about."""
    raise DataError("FEM models an output given its inputs and cannot draw inputs; fit fem-network to draw whole rows")


__all__ = ["OPTIONS", "fit", "labels", "predict", "predict_files", "report_data", "sample", "score"]
