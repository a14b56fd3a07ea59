"""The scoring of a classifier as plain data: all that log p(x, k) of a row needs, up to a term for the row."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.bayes.answers import Fitted
from tallies.bayes.correlated import Correlated
from tallies.data.scoring import numbers, values


def columns(fitted: Fitted) -> list[dict[str, Any]]:
    """Of each column its name (None where the table had none), its kind, and its law given each class where it has one of its own:
    mean and variance, rate, or the logarithms of the probabilities of its states."""
    laws, found = fitted.params.laws, []
    names = [None] * fitted.inputs.n if fitted.inputs.names is None else fitted.inputs.names.tolist()
    for name, kind, states, (_, at) in zip(names, *fitted.layout, fitted.layout.places(), strict=True):
        told: dict[str, Any] = {"name": name, "kind": kind}
        if states is not None and laws.categorical is not None:
            law = laws.categorical
            told["states"] = values(states, f"the states of the column {name if name is not None else at!r}")
            told["log_p"] = numbers(law.log_p[law.start[at] : law.start[at + 1]])
            told["log_unseen"] = numbers(law.log_unseen[at])
        elif kind == "poisson" and laws.poisson is not None:
            told["rate"] = numbers(laws.poisson.rate[:, at])
        elif kind == "multinomial" and laws.multinomial is not None:
            told["log_p"] = numbers(laws.multinomial.log_p[at])
        elif not isinstance(laws.gaussian, Correlated) and laws.gaussian is not None:
            told |= {"mean": numbers(laws.gaussian.mean[:, at]), "variance": numbers(laws.gaussian.variance[:, at])}
        found.append(told)
    return found


def together(fitted: Fitted) -> dict[str, Any]:
    """Of all columns together: priors, and means, covariances and their roots where columns are correlated."""
    found, law = {"log_prior": numbers(fitted.params.log_prior)}, fitted.params.laws.gaussian
    if isinstance(law, Correlated):
        weights = law.n[:, 0] if len(law.covariance) > 1 else np.ones(1)
        W, log_det, rank, _ = law.root
        found["gaussian"] = {
            "mean": numbers(law.mean),
            "covariance": numbers(law.covariance),
            "whitening": numbers(W[:, :, :rank].transpose(0, 2, 1)),
            "log_det": numbers(log_det),
            "share": numbers(weights / weights.sum()),
        }
    return found
