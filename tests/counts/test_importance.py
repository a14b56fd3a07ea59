"""Importance sampling: log likelihoods against quadrature, gradients, the fit."""

import numpy as np
import pytest
from scipy.special import gammaln

import tallies
from tallies.counts import importance as pln_importance
from tallies.counts.estimator import PLN
from tallies.counts.evidence import evidence, gaussians
from tallies.counts.importance import Importance
from tallies.counts.records import Shard
from tallies.errors import DataWarning

FULL = [
    ([0], [0.0], [[1.0]], -0.9629724005003),
    ([3], [1.0], [[0.5]], -1.9482944647628),
    ([20], [2.0], [[1.5]], -4.4382263493487),
    ([2, 5], [0.5, 1.2], [[1, 0.6], [0.6, 0.8]], -4.3143738473726),
    ([0, 3, 10], [-0.5, 1, 2], [[1, 0.5, -0.3], [0.5, 0.7, 0.1], [-0.3, 0.1, 0.9]], -5.9115019899643),
]
LOW = [
    ([1, 4, 0], [0.2, 1, -0.7], [[0.8], [-0.5], [0.3]], -3.6826597747510),
    ([1, 4, 0, 9], [0.2, 1, -0.7, 1.5], [[0.8, 0.1], [-0.5, 0.4], [0.3, -0.6], [0, 0.7]], -6.7463973444478),
]


def row(*values):
    return [np.array([v], dtype=float) for v in values]


@pytest.mark.parametrize("proposal", ["gaussian", "sequential"])
@pytest.mark.parametrize(("y", "mu", "Sigma", "value"), FULL)
def test_log_likelihood_is_that_of_quadrature(y, mu, Sigma, value, proposal):
    found = evidence(*row(y, mu), np.linalg.cholesky(np.array(Sigma, float)), 20_000, np.random.default_rng(0), proposal)
    assert abs(found.value - value) < 4 * found.stderr
    assert found.stderr < (2e-3 if proposal == "gaussian" else 2e-4)
    assert found.ess[0] > (0.94 if proposal == "gaussian" else 0.999)


@pytest.mark.parametrize(("y", "mu", "C", "value"), LOW)
def test_log_likelihood_of_low_rank(y, mu, C, value):
    found = evidence(*row(y, mu), np.array(C), 20_000, np.random.default_rng(0))
    assert abs(found.value - value) < 4 * found.stderr


def test_mode_of_the_scores():
    y, mu, C, _ = LOW[1]
    np.testing.assert_allclose(gaussians(*row(y, mu), np.array(C), laplace=True).m, [[-0.16435127, 0.82508694]], atol=1e-8)


def simulate(n=120, p=10, q=2, seed=0):
    rng = np.random.default_rng(seed)
    C = rng.normal(size=(p, q)) * 0.6
    return rng.poisson(np.exp(0.5 + rng.normal(size=(n, q)) @ C.T)).astype(float), C


def test_bound_stays_below_the_log_likelihood():
    rng = np.random.default_rng(0)
    Y = rng.poisson(np.exp(1 + rng.multivariate_normal(np.zeros(6), 0.5 + 0.5 * np.eye(6), 100)))
    model = PLN().fit(Y)
    found = model.evidence(Y, n_draws=500)
    assert found.ess.min() > 0.9
    score = tallies.evaluate(model, Y, method="importance")
    assert score.kind == "estimate"
    assert abs(score.value * 100 - found.value) < 5 * np.hypot(found.stderr, score.stderr * 100)
    bounds = model.log_prob(Y)
    assert (found.rows + 4 * found.rows_stderr > bounds).all()
    assert tallies.evaluate(model, Y).value == pytest.approx(model.elbo_ / 100, rel=1e-5)


def test_gradient_of_a_batch_is_that_of_the_log_likelihood():
    """Eq. 1 with many draws against differences of the sequential estimate's limit: one-dimensional scores by quadrature."""
    rng = np.random.default_rng(0)
    Y, X = rng.poisson(3.0, (4, 3)).astype(float), np.hstack([np.ones((4, 1)), rng.normal(size=(4, 1))])
    W = np.hstack([rng.normal(1, 0.2, (3, 2)), rng.normal(size=(3, 1)) * 0.5])
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)

    def loglik(W):
        eta = (X @ W[:, :2].T)[:, :, None] + W[:, 2][None, :, None] * nodes
        return np.log(np.exp((Y[:, :, None] * eta - np.exp(eta)).sum(1)) @ weights / np.sqrt(2 * np.pi)).sum()

    plan = pln_importance.Sampling(Importance(accuracy=1 / 20_000), 1, good=True)
    shard = Shard(Y, np.zeros((4, 3)), X, np.ones(4), True, 0, 4, 0.0)
    params = pln_importance.begin(W, 4, 4, seed=0)
    tally, _ = plan.sweep(shard, plan.settle(shard, params, rng), params, rng)
    assert tally.loglik == pytest.approx(loglik(W) - gammaln(Y + 1).sum(), abs=5e-3)
    for place in np.ndindex(W.shape):
        e = np.zeros_like(W)
        e[place] = 1e-5
        assert tally.new[place] == pytest.approx((loglik(W + e) - loglik(W - e)) / 2e-5, abs=0.05)


def test_fit_raises_the_likelihood_of_the_variational_start():
    Y, C = simulate()
    start = PLN(rank=2, random_state=0).fit(Y)
    before = tallies.evaluate(start, Y, method="importance", n_draws=2000)
    model = PLN(rank=2, method=Importance(max_epochs=60, n_plateau=5), random_state=0).fit(Y)
    assert model.loglik_ > before.value * len(Y) - 2 * before.stderr * len(Y)
    assert model.ess_.min() > 0.3
    assert model.loglik_stderr_ == pytest.approx(model.evidence(Y, n_draws=1000, random_state=1).stderr, rel=0.15)
    assert np.corrcoef(model.covariance_.ravel(), (C @ C.T).ravel())[0, 1] > 0.9
    assert "importance" in model.summary()


def test_fit_without_a_good_start_and_with_rmsprop_gets_there_too():
    Y, _ = simulate(80, 6, 1)
    options = {"max_epochs": 80, "accuracy": 0.02}
    crude = Importance(good_init=False, optimizer="rmsprop", variance_reduction=False, **options)
    good, crude = (PLN(rank=1, method=method, random_state=0).fit(Y) for method in (Importance(**options), crude))
    assert crude.loglik_ == pytest.approx(good.loglik_, abs=3)


def test_shards_do_not_change_the_fit():
    Y, _ = simulate(60, 5, 1)
    fits = []
    for size in (None, 13):
        model = PLN(rank=1, method=Importance(max_epochs=5, accuracy=0.05), random_state=0)
        model.shard_rows = size
        fits.append(model.fit(Y))
    np.testing.assert_allclose(fits[0].coefficients_, fits[1].coefficients_, rtol=1e-6)


def test_poor_proposals_are_told():
    rng = np.random.default_rng(0)
    Y = rng.poisson(np.exp(rng.normal(0, 3, (80, 1)) * rng.normal(size=60) + rng.normal(-1, 2, (80, 60))))
    Y[0] += 1
    model = PLN().fit(np.minimum(Y, 10_000))
    with pytest.warns(DataWarning, match="unreliable"):
        tallies.evaluate(model, np.minimum(Y, 10_000), method="importance", n_draws=1000, proposal="gaussian")


def test_full_rank_by_importance_sampling():
    rng = np.random.default_rng(0)
    Y = rng.poisson(np.exp(1 + rng.multivariate_normal(np.zeros(3), 0.3 + 0.5 * np.eye(3), 150)))
    model = PLN(method=Importance(max_epochs=30), random_state=0).fit(Y)
    start = tallies.evaluate(PLN().fit(Y), Y, method="importance", n_draws=2000)
    assert model.loglik_ > start.value * 150 - 4 * start.stderr * 150
    assert model.latent_mean_.shape == (150, 3)
    assert (np.linalg.eigvalsh(model.covariance_) > 0).all()


def test_a_good_start_is_not_left_for_a_worse_one():
    # counts so large that the variational fit is nearly the maximum: little to gain, and the noise of gradients to lose by
    rng = np.random.default_rng(5)
    Y = rng.poisson(np.exp(4.0 + rng.normal(size=(80, 3)) @ rng.normal(0, 0.8, (3, 30))))
    start = PLN(rank=3, random_state=0).fit(Y)
    model = PLN(rank=3, method="importance", random_state=0).fit(Y)
    before = tallies.evaluate(start, Y, method="importance", n_draws=4000)
    assert model.loglik_ > 80 * before.value - 5 * np.hypot(80 * before.stderr, model.loglik_stderr_)


def test_a_fit_that_fell_says_so():
    """Steps so long that the likelihood falls: the start is returned, and nothing is called converged."""
    Y, _ = simulate(60, 5, 1)
    wild = Importance(learning_rate=1.0, optimizer="rmsprop", max_epochs=40, n_plateau=2, n_trigger=2, accuracy=0.05)
    with pytest.warns(DataWarning, match="nats below the log likelihood of its start"):
        model = PLN(rank=1, method=wild, random_state=0).fit(Y)
    start = PLN(rank=1, random_state=0).fit(Y)
    np.testing.assert_allclose(model.covariance_, start.covariance_, rtol=1e-6)
    assert not model.converged_
    assert "nats below" in model.summary()
    assert "settled" not in model.summary()


def test_rprop_takes_all_rows_and_gets_there_too():
    Y, _ = simulate(80, 6, 1)
    options = {"max_epochs": 80, "accuracy": 0.02}
    good = PLN(rank=1, method=Importance(**options), random_state=0).fit(Y)
    for more in ({}, {"good_init": False}):
        model = PLN(rank=1, method=Importance(optimizer="rprop", **options, **more), random_state=0).fit(Y)
        assert len(model.history_) == model.n_iter_  # an epoch is one batch
        assert model.loglik_ == pytest.approx(good.loglik_, abs=3)
        assert not model.fitted_.likelihood.fell


@pytest.mark.parametrize("rate", [0, 0.0, -0.1, 5, float("nan"), "fast"])
def test_learning_rates_that_cannot_work_are_refused(rate):
    with pytest.raises(ValueError, match="learning_rate must be None or in"):
        PLN(method=Importance(learning_rate=rate)).fit([[1, 2], [3, 4], [5, 1]])


@pytest.mark.parametrize(
    ("rank", "options", "says"),
    [
        (None, {"n_draws": 0}, "n_draws must be a whole number of at least 2"),
        (None, {"n_draws": 1}, "n_draws must be a whole number of at least 2"),
        (None, {"proposal": "gauss"}, "did you mean 'gaussian'"),
        (1, {"proposal": "sequential"}, 'take "gaussian"'),
    ],
)
def test_draws_that_make_no_sense_are_told(rank, options, says):
    Y = np.random.default_rng(0).poisson(3.0, (20, 3))
    with pytest.raises(ValueError, match=says):
        PLN(rank=rank, max_iter=20).fit(Y).evidence(Y, **options)
