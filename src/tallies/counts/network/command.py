"""PLNNetwork on the command line: tables, scores and samples are those of a PLN."""

from __future__ import annotations

from pathlib import Path

from tallies.cli.options import Option
from tallies.counts.command import (
    OPTIONS,
    PREDICT,
    REPORT,
    SCORE,
    fit,
    predict,
    predict_files,
    report_data,
    report_options,
    sample,
    score,
)

EXPORT = (
    Option("probability", "Edges chosen in at least this share of the subsamples, such as 0.9; default: all.", None, float),
    Option("confidence", "With intervals of that confidence, such as 0.95, and estimates that nothing shrinks.", None, float),
    Option("against", "Another RUN of a network of the same species: how partial correlations differ from it.", None, Path),
)

__all__ = [
    "EXPORT",
    "OPTIONS",
    "PREDICT",
    "REPORT",
    "SCORE",
    "fit",
    "predict",
    "predict_files",
    "report_data",
    "report_options",
    "sample",
    "score",
]
