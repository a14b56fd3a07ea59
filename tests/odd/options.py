"""Plausible and implausible settings of estimators, and of what is asked of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import tallies
from odd.tables import usually

ODD = [
    None,
    0,
    -1,
    1,
    2,
    0.5,
    -0.5,
    np.nan,
    np.inf,
    -np.inf,
    1e300,
    1e-300,
    True,
    False,
    "",
    "auto",
    "yes",
    [],
    (),
    {},
    [1],
    2**31,
    "1",
]
SMALL_ODD = [value for value in ODD if not (isinstance(value, int | float) and value > 1000)]  # where more is more work
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "GDA": {
        "covariance": ["shared", "class", "diagonal"],
        "shrinkage": [None, "auto", 0.0, 0.5, 1.0, 1e-300, np.float64(0.3)],
        "priors": [None, None, [0.5, 0.5], [0.2, 0.3, 0.5], [1.0, 0.0], np.array([0.5, 0.5]), (0.9, 0.1)],
        "semi_supervised": [False, True],
        "max_iter": [30, 1, 2],
        "tol": [1e-8, 1e-3, 0.0],
    },
    "NaiveBayes": {
        "families": [
            *("auto", "auto", "gaussian", "categorical", "bernoulli", "poisson", "multinomial"),
            *({"v0": "categorical"}, {0: "gaussian"}, {"none": "poisson"}, ["gaussian"], "gausian"),
        ],
        "smoothing": [1.0, 0.0, 0.5, 1e-10, 100.0, 1e-300, 1e300, 3],
        "priors": [None, None, [0.5, 0.5], [0.2, 0.3, 0.5], [1.0, 0.0]],
        "semi_supervised": [False, True],
        "max_iter": [30, 1, 2],
        "tol": [1e-8, 1e-3, 0.0],
    },
    "LDA": {
        "n_topics": [2, 3, 1, 7],
        "alpha": ["auto", 0.1, 1.0, [0.1, 0.2], 1e-10, 1e10, 1e-300, 1e300],
        "beta": [0.01, "auto", 1.0, 1e-10, 1e10, 1e-300, 1e300],
        "max_iter": [6, 1, 2, 12],
        "burn_in": [3, 0, 1, 100],
        "thin": [1, 2, 100],
        "n_chains": [1, 2],
        "start": ["growing", "random"],
        "plateau": [False, True],
        "word_prior": [
            None,
            {0: ["v0"]},
            {0: {"v0": 3}},
            {5: ["v0"]},
            {"a": ["b"]},
            {0: {0: 2}},
            {0: "v0"},
            [[1, 0], [0, 1]],
            {0: {"v0": -1}},
        ],
        "shards": [1, 2, 50],
        "random_state": [0, 1, 2**63],
    },
    "PLN": {
        "rank": [None, None, 1, 2, 50],
        "method": [
            "variational",
            "variational",
            tallies.Importance(accuracy=0.2, max_epochs=2, n_plateau=1, n_trigger=1),
            tallies.Importance(accuracy=0.5, max_epochs=1, batch_size=1, optimizer="rmsprop", good_init=False),
            tallies.Importance(accuracy=np.nan),
            tallies.Importance(learning_rate=1e300, max_epochs=2, accuracy=0.5),
        ],
        "covariance": [
            "full",
            "diagonal",
            "spherical",
            np.eye(2),
            np.eye(3),
            [[1.0, 0.5], [0.5, 1.0]],
            np.zeros((2, 2)),
            np.full((2, 2), np.nan),
        ],
        "intercept": [False, True],
        "max_iter": [60, 1, 2],
        "tol": [1e-6, 1e-11, 0.0, 1.0],
        "n_starts": [2, 1, 3],
        "warm_start": [False, True],
        "random_state": [0, 1],
    },
    "FEM": {
        "degree": [1, 2, "auto", (1, 2), [2], {1}, 3, 9],
        "ridge": [1.0, "auto", 0.0, 0.1, 1e-10, 1e10, 1e-300, 1e300],
        "solver": ["auto", "fem", "lbfgs", "kernel"],
        "screen": [None, None, 1, 2, 100],
        "missing": ["state", "ignore"],
        "bins": [None, None, 2, 3, {"v0": 2}, {"none": 2}],
        "cv": [5, 2, 3, [([0, 1], [2])], 100],
        "max_degree": [2, 1, 5],
        "max_iter": [60, 1, 2],
        "tol": [1e-8, 1e-2, 0.0],
        "random_state": [0, 1],
    },
    "FEMNetwork": {
        "degree": [1, 2, (1, 2), [2], 9],
        "ridge": [1.0, "auto", 0.0, 0.1, 1e-10, 1e10, 1e-300, 1e300],
        "lag": [0, 1],
        "solver": ["auto", "fem", "lbfgs"],
        "reweight": [None, 0.8, 1.0, 1e-10],
        "missing": ["state", "ignore"],
        "bins": [None, None, 2, 3, {"v0": 2}],
        "max_iter": [60, 1, 2],
        "tol": [1e-8, 1e-2, 0.0],
        "random_state": [0, 1],
    },
    "AuthorConcept": {
        "words": [
            *(None, "mention", "multinomial", "mentions"),
            tallies.Multinomial(anchor=1.0),
            tallies.Multinomial(anchor=0.0, held_out=0.3),
            tallies.Multinomial(smoothing=1e-300, background=False),
            tallies.Multinomial(smoothing=1e300),
            tallies.Multinomial(anchor=1.0, word_sparsity=0.5, overlap=0.5),
            tallies.Multinomial(definition_weight=1.0, single=False, leave_one_out=False, anchor=5.0),
            tallies.Mention(stem=1e-300, prefix=1e300),
            tallies.Mention(missing=-1e300, pair=np.inf),
            tallies.Mention(context=0.0, several=False, usage=0.0),
            tallies.Mention(synonym=np.nan),
        ],
        "assign": [None, "soft", "hard"],
        "credit": [None, "split", "whole"],
        "preset": [None, None, "seed"],
        "temperature": [1.0, 0.5, 1e-10, 1e10, 1e300, 1e-300],
        "gamma": [None, 0.0, 1.0, 1e-300, 1e300],
        "strength": [None, [1.0, 2.0], [1e-300, 1e300, 1.0]],
        "author_backoff": ["auto", None, 0.0, 1.0, 1e300],
        "document_backoff": [None, 0.0, 1.0, 1e300],
        "null": [None, True, False],
        "ontology_smoothing": [None, 0.0, 0.5, 1.0],
        "author_sparsity": [0.0, 0.5, 1e300],
        "stop": [None, "likelihood", "assignments"],
        "keep": [None, 1, 2, 1000],
        "max_iter": [5, 1, 2],
        "tol": [5e-3, None, 0.0],
        "random_state": [0, 1],
    },
}
WORK = {"max_iter", "n_topics", "n_chains", "n_starts", "rank", "max_degree", "degree", "bins", "shards", "keep", "cv"}
QUICK = {name: options["max_iter"][0] for name, options in OPTIONS.items()}


@st.composite
def options_of(draw: Any, name: str) -> dict[str, Any]:
    """A few settings that differ from the defaults, seldom implausible ones; the quick ones always."""
    known = OPTIONS[name]
    chosen = draw(st.lists(st.sampled_from(sorted(known)), max_size=4, unique=True))
    odd = draw(st.integers(0, 3)) == 0
    found: dict[str, Any] = {"max_iter": QUICK[name]}
    found |= {"LDA": {"burn_in": 3, "n_topics": 2}, "PLN": {"tol": 1e-6}}.get(name, {})
    for option in chosen:
        values = known[option]
        found[option] = draw(usually(values, SMALL_ODD if option in WORK else ODD, 4) if odd else st.sampled_from(values))
    return found


MORE = {
    "n": usually([3, 1], [0, -1, 2.5, None, "3", True, np.int64(2)], 5),
    "k": usually([2, 5], [0, -1, 100, None], 8),
    "random_state": usually([0, None], [1, -1, "x", np.nan, 2**70], 8),
}
mores = st.fixed_dictionaries(MORE)
