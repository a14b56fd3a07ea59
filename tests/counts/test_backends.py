"""PLN on a cluster: what travels, and that new rows are answered there with the same bits."""

import pickle

import numpy as np
import pandas as pd
import pytest

import tallies
from tallies.backends import Threads
from tallies.counts import plan
from tallies.counts.estimator import PLN
from tallies.counts.importance import Importance
from tallies.engine import Runner


def counts(n=120, p=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(np.exp(1 + rng.normal(size=(n, 2)) @ rng.normal(0, 0.7, (2, p)))).astype(float)


@pytest.mark.parametrize("options", [{}, {"rank": 2}, {"rank": 2, "method": Importance(max_epochs=1, accuracy=0.5)}])
def test_the_table_does_not_travel_with_the_sweeps(options):
    Y, sent = counts(1500 if "method" in options else 4000, 12), []  # whose epochs are of single rows

    class Recording(Threads):
        def total(self, task, latents, *broadcast, half=None):
            sent.append(len(pickle.dumps(broadcast)))
            return super().total(task, latents, *broadcast, half=half)

    model = PLN(max_iter=12, **options)
    Runner(lambda sources, shared: Recording(sources)).run(model._plan(model._prepare(Y), 0))
    assert len(sent) > 12
    iterates = 100 * 8 * 12 * 3 if "method" in options else 0  # the last hundred [B', C] are averaged
    assert max(sent) < 0.05 * Y.nbytes + iterates


@pytest.mark.parametrize("options", [{}, {"rank": 2}, {"rank": 1, "method": Importance(max_epochs=2, accuracy=0.1)}])
def test_new_rows_are_answered_on_the_cluster_with_the_same_bits(options, cluster, monkeypatch):
    monkeypatch.setattr(plan, "PLACING", 8)  # sweeps: each waits for messages, and the bits of an early end are as good
    Y = counts()

    def asked(model):
        found = model.evidence(Y[:40], n_draws=20)
        return [
            model.transform(Y[:40]),
            model.predict(np.where(np.arange(5) == 2, np.nan, Y[:40])),
            model.log_prob(Y[:40]),
            found.rows,
            np.array(model.score(Y[:40])),
        ]

    model = PLN(**options)
    model.shard_rows = 15
    model.fit(Y)
    here = asked(model)
    with tallies.backend(cluster):
        there = asked(model)
    for one, two in zip(here, there, strict=True):
        assert one.tobytes() == two.tobytes()


def test_ranks_are_one_run_that_stops_and_goes_on(tmp_path, capsys):
    Y = counts()
    seen = []
    whole = PLN.over_ranks([1, 2, 3], Y, callback=lambda stage, state: seen.append(stage.name), progress=True)
    assert list(dict.fromkeys(seen)) == ["rank 1", "rank 2", "rank 3"]
    assert "rank 2" in capsys.readouterr().err
    for place in (3, seen.index("rank 2") + 4, seen.index("rank 3") + 1):
        calls = iter(range(10**6))
        path = tmp_path / f"c{place}"
        part = PLN.over_ranks([1, 2, 3], Y, checkpoint=path, callback=lambda *_, c=calls, p=place: next(c) == p)
        done = seen[place].removeprefix("rank ")
        assert sorted(part.index) == list(range(1, max(int(done), 2)))  # those that are complete; else the one that was cut
        again = PLN.over_ranks([1, 2, 3], Y, resume=path)
        pd.testing.assert_frame_equal(again.drop(columns="model"), whole.drop(columns="model"))
        for q in (1, 2, 3):
            np.testing.assert_array_equal(again.loc[q, "model"].latent_mean_, whole.loc[q, "model"].latent_mean_)


def test_formulas_remember_what_their_transforms_learned(tmp_path):
    Y = counts()
    data = pd.DataFrame({"height": np.linspace(0, 9, len(Y))})
    model = PLN.from_formula("~ 1 + scale(height)", Y, data)
    model.save(tmp_path / "m")
    some = model.predict(covariates=data[:3])
    np.testing.assert_allclose(some, model.predict(covariates=data)[:3])  # scaled by the fit, not by three rows
    np.testing.assert_array_equal(tallies.load(tmp_path / "m").predict(covariates=data[:3]), some)
    assert model.formula_ == "~ 1 + scale(height)"
    assert PLN().fit(Y).formula_ is None
