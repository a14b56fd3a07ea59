"""PLNNetwork on the command line: tables, scores and samples are those of a PLN."""

from __future__ import annotations

from tallies.counts.command import OPTIONS, PREDICT, REPORT, SCORE, fit, predict, report_data, report_options, sample, score

__all__ = ["OPTIONS", "PREDICT", "REPORT", "SCORE", "fit", "predict", "report_data", "report_options", "sample", "score"]
