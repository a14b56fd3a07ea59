"""`fit` to an iterator of batches: each goes to `partial_fit`, and nothing else happens."""

from __future__ import annotations

import numpy as np
import pytest

import tallies
from tallies.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore::tallies.errors.ConvergenceWarning", "ignore::tallies.errors.DataWarning")
rng = np.random.default_rng(0)
n = 90
y = np.arange(n) % 3
X = rng.normal(y[:, None], 1.0, (n, 4))
STATES = ((y[:, None] + rng.integers(0, 2, (n, 3))) % 3).astype(str)
COUNTS = rng.poisson(np.exp(rng.normal(0.5, 0.5, (n, 1)) + np.arange(3) / 2))
PARTS = [slice(a, a + 30) for a in range(0, n, 30)]
CASES = [
    (tallies.GDA(), lambda p: (X[p], y[p])),
    (tallies.NaiveBayes(), lambda p: {"X": X[p], "y": y[p], "sample_weight": np.ones(30)}),
    (tallies.FEM(ridge=1.0), lambda p: (STATES[p], y[p], [0, 1, 2])),
    (tallies.LDA(n_topics=2, max_iter=6, burn_in=3), lambda p: COUNTS[p]),
    (tallies.PLN(max_iter=30), lambda p: {"counts": COUNTS[p], "covariates": X[p, :1]}),
]


def stored(model, tmp_path, name):
    model.save(tmp_path / name)
    return (tmp_path / name).read_bytes()


@pytest.mark.parametrize(("model", "batch"), CASES, ids=[type(model).__name__ for model, _ in CASES])
def test_batches_are_those_of_partial_fit(model, batch, tmp_path):
    one, other = (type(model)(**model.get_params()) for _ in range(2))
    for part in PARTS:
        given = batch(part)
        one = (
            one.partial_fit(**given)
            if isinstance(given, dict)
            else one.partial_fit(*(given if isinstance(given, tuple) else [given]))
        )
    other.fit(batch(PARTS[0])) if not isinstance(batch(PARTS[0]), tuple | dict) else None  # an earlier fit leaves nothing
    assert other.fit((batch(part) for part in PARTS), progress=False) is other
    assert stored(one, tmp_path, "one") == stored(other, tmp_path, "other")


def test_what_fails_changes_nothing_and_says_why():
    model = tallies.GDA().fit(X, y)
    before = model.fitted_

    def broken():
        yield X[:30], y[:30]
        yield X[:30, :2], y[:30]

    for batches, given, told in (
        (broken(), {}, "features"),
        (iter(()), {}, "no batch came"),
        (iter([X]), {"y": y}, "bring what belongs to their rows"),
        (iter([X]), {}, "has not the arguments of partial_fit .*'y'"),
        (iter([{"X": X, "labels": y}]), {}, "has not the arguments of partial_fit .*yield X, "),
        (iter([(X, y)]), {"checkpoint": "state"}, "cannot be resumed"),
    ):
        with pytest.raises(ValueError, match=told):
            model.fit(batches, **given)
        assert model.fitted_ is before
    with pytest.raises(DataError, match="cannot be added to a PLNNetwork"):
        tallies.PLNNetwork().fit(iter([COUNTS]))
    with pytest.raises(AttributeError, match="partial_fit"):
        tallies.PLN(rank=1).fit(iter([COUNTS]))


def test_a_callback_ends_it_after_its_batch():
    seen = []

    def batches():
        for part in PARTS:
            seen.append(part)
            yield COUNTS[part]

    model = tallies.LDA(n_topics=2, max_iter=6, burn_in=3).fit(batches(), callback=lambda stage, state: len(seen) == 2)
    assert len(seen) == 2
    assert model.stopped_ == "callback"
