"""Searches of `full` that go on, from where their rows are, when what they maximise has changed."""

from __future__ import annotations

import numpy as np

from tallies.counts.full import TRIAL, FullParams
from tallies.lbfgs import begin as still


def restart(params: FullParams) -> FullParams:
    """Without pairs, whose slopes were those of another objective."""
    assert params.w is not None  # known since the start
    return params._replace(phase=TRIAL, search=still(len(params.sy)), w_trial=params.w, rough=False)


def again(params: FullParams) -> FullParams:
    """With its pairs, where the objective is nearly the same; its value is yet to be found."""
    assert params.w is not None  # known since the start
    search = params.search._replace(F=np.inf, path=(), step=0.0, fresh=False, tries=0, ended="")
    return params._replace(phase=TRIAL, search=search, w_trial=params.w)
