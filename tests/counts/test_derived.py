"""What is derived from a PLN: errors of coefficients, criteria, predictions, offsets; each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import betainc, gammaln

import tallies
from tallies import PLN
from tallies.counts import importance as sampling
from tallies.counts import offsets
from tallies.counts.answers import residuals
from tallies.counts.coefficients import coefficient_covariance
from tallies.counts.door import Rows
from tallies.counts.evidence import Evidence, evidence
from tallies.counts.fitted import Learned
from tallies.counts.importance import Importance
from tallies.counts.plan import project

pytestmark = pytest.mark.filterwarnings("ignore::tallies.errors.ConvergenceWarning")


def overdispersed(n=40, p=3, seed=0, mean=1.0):
    """Counts that no PLN makes: their scale jumps from row to row; a design and weights."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    shared = rng.normal(size=(n, 1)) * rng.choice([0.3, 1.2], (n, 1))
    return (
        rng.poisson(np.exp(mean + 0.3 * X[:, 1:] + shared + 0.4 * rng.normal(size=(n, p)))),
        X,
        rng.integers(0, 4, n).astype(float),
    )


@pytest.fixture(scope="module")
def weighted():
    Y, X, v = overdispersed()
    return PLN(tol=1e-13).fit(Y, covariates=X, sample_weight=v)


def test_intervals_and_tests_have_two_sides(weighted):
    table = weighted.coefficient_table(confidence=0.9)
    z = table["estimate"] / table["std_error"]
    df = int((weighted.weights_ > 0).sum()) - 2
    assert df < 38  # rows without weight are none
    np.testing.assert_allclose(table["p_value"], betainc(df / 2, 0.5, df / (df + z**2)), rtol=1e-9)
    reach = stats.t.interval(0.9, df)[1]
    np.testing.assert_allclose(table["upper"] - table["estimate"], reach * table["std_error"], rtol=1e-9)
    np.testing.assert_allclose(table["estimate"] - table["lower"], reach * table["std_error"], rtol=1e-9)
    np.testing.assert_allclose(table["std_error"] ** 2, np.diagonal(weighted.coefficient_covariance()), rtol=1e-9)


# criteria


def test_parameters_are_those_that_a_rotation_leaves():
    Y, X, _ = overdispersed(n=25, p=5)
    d, p = 2, 5
    for rank, free in ((1, p), (2, 2 * p - 1), (3, 3 * p - 3)):
        assert PLN(rank=rank, max_iter=20).fit(Y, covariates=X).n_parameters_ == d * p + free
    for kind, free in (("full", 15), ("diagonal", 5), ("spherical", 1), (np.eye(5), 0)):
        assert PLN(covariance=kind, max_iter=20).fit(Y, covariates=X).n_parameters_ == d * p + free


def test_entropy_and_criteria_know_the_weights(weighted):
    v, S2 = weighted.weights_, weighted.latent_variance_
    entropy = sum(v[i] * stats.norm(0, np.sqrt(s)).entropy() for i in range(len(v)) for s in S2[i])
    assert weighted.entropy_ == pytest.approx(entropy, rel=1e-12)
    assert weighted.bic_ == pytest.approx(-2 * weighted.loglik_ + weighted.n_parameters_ * np.log(v.sum()), rel=1e-12)
    assert weighted.icl_ == pytest.approx(weighted.bic_ + 2 * entropy, rel=1e-12)


def test_r2_and_shares_of_axes(weighted):
    v, mean = weighted.weights_ / weighted.weights_.sum(), weighted.design_ @ weighted.coefficients_
    between = sum(np.cov(mean[:, j], aweights=v, ddof=0) for j in range(3))
    assert weighted.r2_ == pytest.approx(between / (between + np.trace(weighted.covariance_)), rel=1e-10)
    values = np.linalg.eigvalsh(weighted.covariance_)[::-1]
    np.testing.assert_allclose(weighted.explained_variance_ratio_, values / values.sum(), rtol=1e-8)
    rank = PLN(rank=2, max_iter=50).fit(*overdispersed()[:1])
    values = np.linalg.eigvalsh(rank.covariance_)[:0:-1]
    np.testing.assert_allclose(rank.explained_variance_ratio_, values / values.sum(), rtol=1e-8)


# predictions


def test_expected_counts_are_means_of_samples(weighted):
    """exp(B'x + Sigma/2), against the mean of what the model draws."""
    x = weighted.design_[:1]
    draws = weighted.sample(100_000, covariates=np.repeat(x, 100_000, axis=0), random_state=0)
    expected = weighted.predict(covariates=x)[0]
    assert (np.abs(draws.mean(axis=0) - expected) < 6 * draws.std(axis=0) / np.sqrt(100_000)).all()
    np.testing.assert_allclose(expected, np.exp(x @ weighted.coefficients_ + np.diagonal(weighted.covariance_) / 2)[0], rtol=1e-12)


def test_a_hidden_cell_has_the_variance_that_the_others_leave():
    """Of two columns one is hidden: Z_2 | Z_1 is a regression, and Z_1 is known up to its own variance."""
    Sigma, B = np.array([[0.9, 0.5], [0.5, 0.7]]), np.array([[1.0, 0.4]])
    model = PLN(covariance=Sigma).fit(overdispersed(p=2)[0])
    model.fitted_ = model.fitted_._replace(model=Learned(None, "variational", "given", B, Sigma, None, None))
    found = model.predict(np.array([[4.0, np.nan]]))[0, 1]
    place = project(model.fitted_.model, Rows(np.array([[4.0, 0.0]]), np.array([[0.0, -1e4]]), np.ones((1, 1)), np.ones(1)), None)
    slope, rest = 0.5 / 0.9, 0.7 - 0.5**2 / 0.9
    mean = 0.4 + slope * (place.M[0, 0] - 1.0)
    assert found == pytest.approx(np.exp(mean + 0.5 * (rest + slope**2 * place.S2[0, 0])), rel=1e-6)


def test_a_missing_cell_under_a_rule_has_the_offset_of_its_row():
    Y, _, _ = overdispersed(n=60, mean=2.0)
    model = PLN().fit(Y, offsets="logsum")
    shallow, deep = (np.array([[3.0, 4.0, np.nan]]) * [k] for k in (1, 50))
    a, b = (model.predict(counts, offsets="logsum")[0, 2] for counts in (shallow, deep))
    assert np.log(b / a) == pytest.approx(np.log(50), abs=0.5)  # a sample 50 times as deep expects about 50 times as many


def test_samples_of_hidden_cells_have_the_mean_offset_of_their_column():
    Y, _, _ = overdispersed(n=30)
    Y = Y.astype(float)
    O = np.linspace(-1, 1, 30)[:, None] + np.zeros((30, 3))
    Y[0, 1] = np.nan
    model = PLN(max_iter=30).fit(Y, offsets=O)
    from tallies.counts.answers import _training_offsets

    assert _training_offsets(model.fitted_, np.array([0]))[0].tolist() == pytest.approx([-1, O[1:, 1].mean(), -1])


def test_residuals_of_zeros_are_below_all_others():
    model = PLN().fit(overdispersed(n=200, p=2, mean=-0.5)[0])
    found = residuals(model.fitted_)
    u = stats.norm.cdf(found.value)
    zero = found.observed == 0
    assert 0.3 < zero.mean() < 0.9
    for j in range(2):
        mine = zero & (found.column == j)
        assert u[mine].min() < 0.1 * u[mine].max()  # they fill the interval from 0 on
        assert u[mine].max() <= u[~zero & (found.column == j)].min()


# importance sampling


def test_errors_of_scores_are_those_of_means_and_weighted_sums():
    Y, X, v = overdispersed(n=30, p=2)
    model = PLN().fit(Y, covariates=X)
    found = model.evidence(Y, covariates=X, n_draws=300)
    assert found.stderr == pytest.approx(np.sqrt((found.rows_stderr**2).sum()), rel=1e-12)
    score = tallies.evaluate(model, Y, X, method="importance", n_draws=300)
    assert score.value == pytest.approx(found.rows.mean(), rel=1e-12)
    assert score.stderr == pytest.approx(np.sqrt((found.rows_stderr**2).sum()) / 30, rel=1e-12)
    # errors of rows against the spread over repetitions
    again = np.array([model.evidence(Y, covariates=X, n_draws=300, random_state=k).rows for k in range(60)])
    assert np.mean(found.rows_stderr) == pytest.approx(again.std(axis=0, ddof=1).mean(), rel=0.1)
    # of counts whose weights vary little, so that errors are known well; v once in place of v^2 is a third less
    rng = np.random.default_rng(4)
    Y, v = rng.poisson(np.exp(1.5 + 0.6 * rng.normal(size=(60, 1)) + np.zeros(3))), rng.integers(1, 4, 60).astype(float)
    weighted = PLN(rank=1, method=Importance(max_epochs=2), max_iter=30).fit(Y, sample_weight=v)
    found = [weighted.evidence(Y, n_draws=1000, random_state=k) for k in range(5)]
    errors = [np.sqrt(np.sum(v**2 * its.rows_stderr**2)) for its in found]
    assert weighted.loglik_stderr_ == pytest.approx(np.median(errors), rel=0.15)
    assert weighted.loglik_ == pytest.approx(v @ found[0].rows, abs=6 * weighted.loglik_stderr_)


def test_evidence_without_latent_variance_is_exact_with_two_draws():
    """All weights are equal then: any number of draws gives the sum of Poisson log probabilities."""
    Y, base = np.array([[0.0, 3.0], [2.0, 1.0]]), np.log(np.array([[0.5, 2.0], [1.5, 1.0]]))
    found = evidence(Y, base, np.zeros((2, 1)), 2, np.random.default_rng(0), "gaussian")
    np.testing.assert_allclose(found.rows, stats.poisson.logpmf(Y, np.exp(base)).sum(axis=1), rtol=1e-9)
    assert found.stderr < 1e-9


def test_evidence_of_rows_adds_in_squares():
    found = Evidence.of(np.array([-1.0, -2.0]), np.array([0.3, 0.4]), np.ones(2))
    assert (found.value, found.stderr) == (-3.0, pytest.approx(0.5))


def saga():
    rng = np.random.default_rng(1)
    p, q = 4, 1
    model = sampling.Sampling(Importance(batch_size=5), q, good=True)
    params = sampling.begin(rng.normal(size=(p, 1 + q)), 20, 5, seed=0)
    return model, params, rng


def test_saga_adds_the_mean_of_what_all_rows_said():
    """g - g_old + mean of all g_old, a step of the first batch after an epoch."""
    model, params, rng = saga()
    new, old, known = rng.normal(size=(3, *params.W.shape))
    params = params._replace(step=4, known=known)
    after = model.update(params, sampling.SamplingTally(-1.0, new, old, 5), rng)
    np.testing.assert_allclose(after.before, new / 5 - old / 5 + known / 20, rtol=1e-12)
    np.testing.assert_allclose(after.known, known + new - old, rtol=1e-12)


def test_rprop_grows_while_the_sign_stays():
    model, params, _ = saga()
    model = sampling.Sampling(Importance(optimizer="rprop"), 1, good=True)
    before = np.ones_like(params.W)
    g = np.where(np.arange(before.size).reshape(before.shape) % 2, -1.0, 1.0)
    scale, move = model._step(params._replace(step=3, before=before, scale=np.full_like(before, 0.1)), g, 0.01)
    np.testing.assert_allclose(scale, np.where(g > 0, 0.12, 0.05))
    np.testing.assert_allclose(move, np.sign(g) * scale)


def test_gradients_of_rows_with_weights_are_those_of_repeated_rows():
    from tallies.counts.records import Shard

    rng = np.random.default_rng(0)
    Y, X = rng.poisson(3.0, (3, 2)).astype(float), np.ones((3, 1))
    W = np.array([[1.0, 0.4], [0.8, -0.3]])
    model = sampling.Sampling(Importance(accuracy=1 / 20_000), 1, good=True)

    def gradient(v):
        shard = Shard(Y, np.zeros((3, 2)), X, np.array(v), False, 0, 3, 0.0)
        params = sampling.begin(W, 3, 3, seed=0)
        return model.sweep(shard, model.settle(shard, params, rng), params, rng)[0]

    each = [gradient(np.eye(3)[i]) for i in range(3)]
    both = gradient([2.0, 0.5, 1.0])
    np.testing.assert_allclose(both.new, 2.0 * each[0].new + 0.5 * each[1].new + each[2].new, rtol=1e-9)
    assert both.loglik == pytest.approx(2.0 * each[0].loglik + 0.5 * each[1].loglik + each[2].loglik)


# offsets


def slow_tmm(Y):
    """Robinson and Oshlack (2010) as edgeR has it, a pair of samples at a time."""
    depth = Y.sum(axis=1)
    upper = np.quantile(Y / depth[:, None], 0.75, axis=1)
    ref = int(np.argmin(np.abs(upper - upper.mean())))
    factors = []
    for y, N in zip(Y, depth, strict=True):
        both = (y > 0) & (Y[ref] > 0)
        a, b = y[both], Y[ref][both]
        M = np.log2((a / N) / (b / depth[ref]))
        level = (np.log2(a / N) + np.log2(b / depth[ref])) / 2
        w = (N - a) / N / a + (depth[ref] - b) / depth[ref] / b
        k = len(M)
        low, high = np.floor(k * 0.3) + 1, k + 1 - (np.floor(k * 0.3) + 1)
        low_a, high_a = np.floor(k * 0.05) + 1, k + 1 - (np.floor(k * 0.05) + 1)
        r, ra = stats.rankdata(M), stats.rankdata(level)
        keep = (r >= low) & (r <= high) & (ra >= low_a) & (ra <= high_a)
        factors.append(2 ** (np.sum(M[keep] / w[keep]) / np.sum(1 / w[keep])) if np.abs(M).max() > 1e-6 else 1.0)
    factors = np.array(factors)
    return np.log(depth * factors / np.exp(np.mean(np.log(factors))))


def test_offsets_are_those_of_their_papers():
    rng = np.random.default_rng(0)
    Y = rng.poisson(rng.gamma(0.8, 2e4, (7, 60)) * rng.lognormal(0, 1, (7, 1))).astype(float)  # no ties
    Y[rng.random(Y.shape) < 0.1] = 0
    np.testing.assert_allclose(offsets.tmm(Y), slow_tmm(Y), rtol=1e-10)
    positive = np.where(Y > 0, Y, np.nan)
    gmpr = []
    for i in range(7):
        medians = [np.nanmedian(positive[i] / positive[j]) for j in range(7) if j != i]
        gmpr.append(np.exp(np.mean(np.log(medians))))
    np.testing.assert_allclose(offsets.gmpr(Y), np.log(gmpr), rtol=1e-10)
    # CSS: sums up to the quantile where samples begin to differ, relative to their median
    q = np.nanquantile(positive, np.linspace(0, 1, 60), axis=1)
    spread = np.median(np.abs(q - np.median(q, axis=1, keepdims=True)), axis=1)
    first = next(k for k in range(59) if spread[k + 1] - spread[k] >= 0.1 * spread[k])
    place = max(first, 29)
    size = np.array([y[(y > 0) & (y <= q[place, i])].sum() for i, y in enumerate(Y)])
    np.testing.assert_allclose(offsets.css(Y), np.log(size / np.median(size)), rtol=1e-10)


def test_wrench_weighs_columns_by_their_precision():
    """One noisy column among steady ones has next to no say."""
    rng = np.random.default_rng(0)
    Y = rng.poisson(200.0, (12, 30)).astype(float)
    Y[:, 0] = rng.choice([2.0, 3000.0], 12)
    found = offsets.wrench(Y) - np.log(Y.sum(axis=1))
    steady = -np.log(Y.sum(axis=1)) + np.log(Y[:, 1:].sum(axis=1))  # what the other columns say of the depth
    assert np.abs(found - found.mean() - steady + steady.mean()).max() < 0.05


def test_bounds_are_below_the_evidence_with_missing_cells():
    """A missing count drops out of the evidence exactly; of the bound it takes a little, for the mean field must place it."""
    Y = np.array([[2.0, np.nan, 5.0], [0.0, 3.0, np.nan]])
    Sigma, mu = np.array([[1.0, 0.8, 0.6], [0.8, 1.0, 0.5], [0.6, 0.5, 0.8]]), np.array([[0.5, 0.3, 1.2]])
    model = PLN().fit(overdispersed()[0])
    model.fitted_ = model.fitted_._replace(model=Learned(None, "variational", "given", mu, Sigma, None, None))
    for i, seen in ((0, [0, 2]), (1, [0, 1])):
        part = PLN().fit(overdispersed(p=2)[0])
        part.fitted_ = part.fitted_._replace(
            model=Learned(None, "variational", "given", mu[:, seen], Sigma[np.ix_(seen, seen)], None, None)
        )
        whole, less = model.evidence(Y[[i]], n_draws=20_000), part.evidence(Y[[i]][:, seen], n_draws=20_000)
        assert whole.value == pytest.approx(less.value, abs=5 * np.hypot(whole.stderr, less.stderr))
        bounds = model.log_prob(Y[[i]])[0], part.log_prob(Y[[i]][:, seen])[0]
        assert bounds[0] < bounds[1] - 1e-3 < less.value
        assert less.value - bounds[0] < 0.5


def test_log_factorials_are_in_the_bound():
    """Without latent variance the bound is the Poisson log likelihood."""
    Y = np.random.default_rng(0).poisson(3.0, (20, 2))
    model = PLN(covariance=1e-10 * np.eye(2), tol=1e-14).fit(Y)
    rate = Y.mean(axis=0)
    expected = float(np.sum(Y * np.log(rate) - rate - gammaln(Y + 1)))
    assert model.elbo_ == pytest.approx(expected, abs=1e-4)


# errors of coefficients


def numerical_sandwich(fitted, scales):
    """H^-1 J H^-1 of B and of the given (p, m) scales of Sigma, from differences of bounds, maximised over the latents."""
    model, (d, p), m = fitted.model, fitted.model.B.shape, scales.shape[1]
    rows = Rows(
        fitted.data.Y.astype(float),
        np.broadcast_to(fitted.data.O, fitted.data.Y.shape),
        fitted.design.X,
        np.ones(len(fitted.data.v)),
    )

    def bounds(theta):
        B, T = model.B + theta[: d * p].reshape(d, p), np.exp(scales @ theta[d * p :])
        new = model._replace(B=B, kind="given")
        new = new._replace(C=T[:, None] * model.C) if model.Sigma is None else new._replace(Sigma=model.Sigma * np.outer(T, T))
        return project(new, rows, None, close=True).bound

    h, steps, v = 1e-3, np.eye(d * p + m), fitted.data.v
    scores = np.array([(bounds(h * e) - bounds(-h * e)) / (2 * h) for e in steps]).T * v[:, None]
    H, h = np.empty((len(steps), len(steps))), 4e-3
    for a in range(len(steps)):
        for b in range(a + 1):
            corners = [s * t * (v @ bounds(h * (s * steps[a] + t * steps[b]))) for s in (1, -1) for t in (1, -1)]
            H[a, b] = H[b, a] = -sum(corners) / (4 * h * h)
    n = (v > 0).sum()
    J = scores.T @ scores * n / (n - d)
    return (np.linalg.inv(H) @ J @ np.linalg.inv(H))[: d * p, : d * p]


@pytest.mark.parametrize("covariance", ["full", "diagonal", "spherical"])
def test_the_sandwich_is_that_of_the_bound(covariance):
    Y, X, v = overdispersed(n=30, p=2)
    fitted = PLN(covariance=covariance, tol=1e-13).fit(Y, covariates=X, sample_weight=v).fitted_
    expected = numerical_sandwich(fitted, np.ones((2, 1)) if covariance == "spherical" else np.eye(2))
    np.testing.assert_allclose(coefficient_covariance(fitted), expected, rtol=2e-3, atol=2e-3 * expected.max())


def test_the_sandwich_of_a_rank_is_that_of_the_bound():
    Y, X, v = overdispersed(n=30, p=3)
    fitted = PLN(rank=1, tol=1e-15).fit(Y, covariates=X, sample_weight=v).fitted_
    expected = numerical_sandwich(fitted, np.eye(3))
    np.testing.assert_allclose(coefficient_covariance(fitted), expected, rtol=4e-3, atol=4e-3 * expected.max())


def test_a_given_covariance_has_no_scale_to_find():
    Y, X, v = overdispersed(n=30, p=2)
    fitted = PLN(covariance=np.array([[0.8, 0.3], [0.3, 0.6]]), tol=1e-13).fit(Y, covariates=X, sample_weight=v).fitted_
    expected = numerical_sandwich(fitted, np.empty((2, 0)))
    np.testing.assert_allclose(coefficient_covariance(fitted), expected, rtol=2e-3, atol=2e-3 * expected.max())


def test_under_a_given_covariance_the_bound_is_that_of_its_rows_at_every_step():
    """B moves with the rows, and what has been added up about the one before is moved with it."""
    Y, X, v = overdispersed(n=30, p=2)
    Sigma = np.array([[0.8, 0.3], [0.3, 0.6]])
    Omega, before = np.linalg.inv(Sigma), -np.inf
    for steps in (4, 6, 8):
        with pytest.warns(Warning, match="max_iter"):
            model = PLN(covariance=Sigma, max_iter=steps).fit(Y, covariates=X, sample_weight=v)
        M, S2 = model.latent_mean_, model.fitted_.S2
        R = M - X @ model.coefficients_
        prior = np.einsum("ij,jk,ik->i", R, Omega, R) + np.linalg.slogdet(Sigma)[1] - 2
        prior += S2 @ Omega.diagonal() - np.log(S2).sum(axis=1)
        exact = v @ ((Y * M - np.exp(M + S2 / 2) - gammaln(Y + 1)).sum(axis=1) - 0.5 * prior)
        assert model.elbo_ == pytest.approx(exact, rel=1e-10)
        assert model.elbo_ > before
        before = model.elbo_
