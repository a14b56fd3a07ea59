"""PLN by the variational solver with p by p covariances: exact values, gradients, invariances, doors."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import gammaln

import tallies
from tallies.backends import place
from tallies.counts import full as pln_full
from tallies.counts.alignment import as_offsets
from tallies.counts.door import ROWS, Rows, cut
from tallies.counts.estimator import PLN
from tallies.counts.fitted import Learned
from tallies.counts.importance import Importance
from tallies.counts.plan import estimate
from tallies.counts.records import Shard, Spread, Sums
from tallies.counts.tables import as_counts
from tallies.engine import Runner, Stage
from tallies.errors import DataError, DataWarning
from tallies.sources import Held

# (y, mu, Sigma, log p(y) by quadrature, best mean-field bound)
EXACT = [
    ([0], [0.0], [[1.0]], -0.9629724005003, -0.9704494179),
    ([3], [1.0], [[0.5]], -1.9482944647628, -1.9540690976),
    ([20], [2.0], [[1.5]], -4.4382263493487, -4.4421059736),
    ([2, 5], [0.5, 1.2], [[1, 0.6], [0.6, 0.8]], -4.3143738473726, -4.3640421094),
    ([0, 3, 10], [-0.5, 1, 2], [[1, 0.5, -0.3], [0.5, 0.7, 0.1], [-0.3, 0.1, 0.9]], -5.9115019899643, -6.0411574760),
]


def simulate(n=120, p=8, d=1, seed=0, mean=1.0):
    rng = np.random.default_rng(seed)
    L = np.tril(rng.normal(size=(p, p))) * 0.35 + 0.5 * np.eye(p)
    X = np.hstack([np.ones((n, 1)), rng.normal(size=(n, d - 1))])
    B = np.vstack([rng.normal(mean, 0.5, (1, p)), rng.normal(0, 0.5, (d - 1, p))])
    O = rng.normal(0, 0.3, (n, 1)) * np.ones(p)
    Y = rng.poisson(np.exp(O + X @ B + rng.normal(size=(n, p)) @ L.T)).astype(float)
    return Y, X, O, B, L @ L.T


def bound(Y, X, O, M, S2, B, Sigma, v=None):
    """The ELBO term by term, as a definition."""
    v = np.ones(len(Y)) if v is None else v
    Omega, R = np.linalg.inv(Sigma), M - X @ B
    poisson = (Y * (O + M) - np.exp(O + M + S2 / 2) - gammaln(Y + 1)).sum(1)
    gauss = -0.5 * (Y.shape[1] * np.log(2 * np.pi) + np.linalg.slogdet(Sigma)[1] + ((R @ Omega) * R).sum(1) + S2 @ np.diag(Omega))
    entropy = 0.5 * (np.log(2 * np.pi * S2) + 1).sum(1)
    return v @ (poisson + gauss + entropy)


def run(stage):
    """What a stage kept, run by itself."""

    def plan():
        kept = yield stage
        return kept.value

    return Runner(place).run(plan())


@pytest.mark.parametrize(("y", "mu", "Sigma", "loglik", "best"), EXACT)
def test_bound_of_one_row_is_the_known_optimum(y, mu, Sigma, loglik, best):
    model = pln_full.Covariance("given", placing=True, tol=1e-14)
    shard = Shard(
        np.array([y], float), np.zeros((1, len(y))), np.ones((1, 1)), np.ones(1), True, 0, 1, float(gammaln(np.array(y) + 1).sum())
    )
    start = pln_full.begin(Sums(1.0, np.zeros((1, 1))), np.array([mu], float), np.array(Sigma, float))
    end = run(Stage("", model, [Held(shard)], lambda end: end, 2000, start, rows=True))
    assert pytest.approx(best, abs=1e-9) == -end.params.search.F
    M, S2, value = end.rows[0]
    assert value == pytest.approx([best], abs=1e-9)
    assert bound(shard.Y, shard.X, shard.O, M, S2, np.array([mu]), np.array(Sigma)) == pytest.approx(best, abs=1e-9)
    assert best < loglik


@pytest.mark.parametrize("kind", ["full", "diagonal", "spherical", "given"])
@pytest.mark.parametrize("wide", [False, True])
def test_gradient_is_that_of_the_bound(kind, wide):
    """dF/dM and dF/dlog w of eq. 3 against central differences of F itself."""
    Y, X, O, _, Sigma = simulate(6 if wide else 15, 9 if wide else 5, d=2, seed=3)
    v = np.random.default_rng(1).uniform(0.5, 2, len(Y))
    plan = pln_full.Covariance(kind, Sigma if kind == "given" else None)
    shard = Shard(Y, O, X, v, False, 0, len(Y), 0.0)
    rng = np.random.default_rng(0)
    params = plan.init(plan.survey(shard), rng)
    z = plan.settle(shard, params, rng)
    for _ in range(3):
        tally, z = plan.sweep(shard, z, params, rng)
        params = plan.update(params, tally, rng)
    params = params._replace(w=params.w * 1.3, w_trial=params.w * 1.3)  # away from w = omega

    def free_energy(M, w):
        np.copyto(z.M, M)
        z.S2[...] = 0.1
        search = params.search._replace(F=np.inf, step=0.0, fresh=False)
        p = params._replace(phase=pln_full.TRIAL, w_trial=w, search=search)
        for _ in range(3):  # S2 to all digits
            tally, _ = plan.sweep(shard, z, p, rng)
            np.copyto(z.S2, z.S2_trial)
        return plan._judge(p, tally)

    M0 = z.M.copy()
    at = free_energy(M0, params.w)
    tally, after = plan.sweep(shard, z, at, rng)
    g, g_w = after.g, plan.update(at, tally, rng).pairs.g
    M, h = M0.copy(), 1e-5
    z = plan.settle(shard, params, rng)
    for i, j in [(0, 0), (2, 3), (5, 1), (4, 4)]:
        values = []
        for sign in (1, -1):
            M[i, j] = M0[i, j] + sign * h
            values.append(free_energy(M, params.w).search.F)
        M[i, j] = M0[i, j]
        assert g[i, j] == pytest.approx((values[0] - values[1]) / (2 * h), rel=2e-5, abs=1e-6)
    if kind != "given":
        for j in (0, 3):
            e = np.exp(h * (np.arange(len(params.w)) == j))
            slope = (free_energy(M0, params.w * e).search.F - free_energy(M0, params.w / e).search.F) / (2 * h)
            assert g_w[j] == pytest.approx(slope, rel=2e-5, abs=1e-6)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "spherical"])
@pytest.mark.parametrize(("n", "p"), [(80, 6), (12, 20)])
def test_fit_is_a_maximum_of_the_bound(covariance, n, p):
    Y, X, O, _, _ = simulate(n, p, d=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # 12 rows leave some columns without variance
        model = PLN(covariance=covariance, tol=1e-10).fit(Y, covariates=X, offsets=O)
    assert model.converged_
    M, S2, B, Sigma = model.latent_mean_, model.latent_variance_, model.coefficients_, model.covariance_
    value = bound(Y, X, O, M, S2, B, Sigma)
    assert model.elbo_ == pytest.approx(value, rel=1e-9)
    assert np.diff(model.history_).min() >= -1e-12 * abs(model.elbo_)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2):
        for _ in range(5):
            moved = (
                M + size * rng.normal(size=M.shape),
                S2 * np.exp(size * rng.normal(size=S2.shape)),
                B + size * rng.normal(size=B.shape),
            )
            assert bound(Y, X, O, *moved, Sigma) < value
            scale = np.exp(size * rng.normal(size=p if covariance != "spherical" else 1))
            assert bound(
                Y, X, O, M, S2, B, Sigma * np.sqrt(np.outer(scale, scale) if covariance != "spherical" else scale**2)
            ) < value + 1e-9 * abs(value)


def test_compiled_and_plain_loops_give_one_answer(monkeypatch):
    Y, X, O, _, _ = simulate(60, 7)
    plain = PLN(tol=1e-12).fit(Y, covariates=X, offsets=O)
    monkeypatch.setattr(pln_full, "SMALL", 0)
    compiled = PLN(tol=1e-12).fit(Y, covariates=X, offsets=O)
    assert compiled.elbo_ == pytest.approx(plain.elbo_, rel=1e-10)
    np.testing.assert_allclose(compiled.covariance_, plain.covariance_, atol=1e-5)


def test_single_precision_start_gives_the_same_answer(monkeypatch):
    Y, X, O, _, _ = simulate(100, 10)
    double = PLN(tol=1e-11).fit(Y, covariates=X, offsets=O)
    monkeypatch.setattr("tallies.counts.plan.SINGLE", 0)
    single = PLN(tol=1e-11).fit(Y, covariates=X, offsets=O)
    assert single.converged_
    assert single.elbo_ == pytest.approx(double.elbo_, rel=1e-9)


@pytest.mark.parametrize(("n", "p"), [(90, 6), (14, 20)])
def test_shards_do_not_change_the_answer(n, p):
    Y, X, O, _, _ = simulate(n, p, d=2)
    v = np.random.default_rng(0).uniform(0.5, 2, n)
    fits = []
    for size in (None, 5):
        model = PLN(tol=1e-12)
        model.shard_rows = size
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            fits.append(model.fit(Y, covariates=X, offsets=O, sample_weight=v))
    assert fits[0].elbo_ == pytest.approx(fits[1].elbo_, rel=1e-8)
    np.testing.assert_allclose(fits[0].coefficients_, fits[1].coefficients_, atol=2e-4)


@pytest.mark.parametrize(("n", "p", "parts"), [(2000, 2600, 3), (3000, 1900, 5), (400, 5000, 1), (600, 40, 1), (20_000, 100, 8)])
def test_large_sweeps_are_cut_into_pieces_whatever_the_shape_of_the_table(n, p, parts):
    """A piece is carried to its end after Ctrl-C."""
    Y = sp.csr_array((n, p), dtype=np.int8)
    sources = cut(Rows(Y, np.zeros((n, 1)), np.ones((n, 1)), np.ones(n)))
    sizes = [len(source.X) for source in sources]
    assert len(sizes) == parts
    assert sum(sizes) == n
    assert parts == 1 or min(sizes) > 0.9 * min(ROWS, n / parts)
    assert [source.start for source in sources] == [sum(sizes[:i]) for i in range(parts)]


def test_weights_are_repetitions():
    Y, X, O, _, _ = simulate(40, 5)
    v = np.random.default_rng(0).integers(0, 4, 40)
    weighted = PLN(tol=1e-12).fit(Y, covariates=X, offsets=O, sample_weight=v)
    k = np.repeat(np.arange(40), v)
    repeated = PLN(tol=1e-12).fit(Y[k], covariates=X[k], offsets=O[k])
    assert weighted.elbo_ == pytest.approx(repeated.elbo_, rel=1e-9)
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, atol=1e-4)
    assert np.isfinite(weighted.latent_mean_).all()  # rows of weight 0 have a place too


def learned(B, Sigma):
    return Learned(None, "variational", "given", B, Sigma, None, None)


def rows(y):
    table = as_counts(y)
    return Rows(table.Y, as_offsets(None, table), np.ones((len(y), 1)), np.ones(len(y)))


def test_missing_cells_drop_out_exactly():
    """A row whose hidden cells are integrated out has the bound of the model without these columns."""
    y, mu, Sigma = (
        np.array([[2.0, np.nan, 5.0]]),
        np.array([[0.5, 0.3, 1.2]]),
        np.array([[1, 0.2, 0.6], [0.2, 1, 0.1], [0.6, 0.1, 0.8]]),
    )
    whole = estimate(learned(mu, Sigma), rows(y), None, n_draws=20000, proposal="sequential")
    seen = estimate(learned(mu[:, ::2], Sigma[::2, ::2]), rows(y[:, ::2]), None, n_draws=20000, proposal="sequential")
    assert whole.value == pytest.approx(-4.3143738473726, abs=4 * whole.stderr + 1e-5)
    assert seen.value == pytest.approx(-4.3143738473726, abs=4 * seen.stderr + 1e-5)


def test_hidden_counts_are_predicted():
    Y, X, O, _, _ = simulate(400, 8, mean=2.0)
    rng = np.random.default_rng(0)
    hidden = rng.random(Y.shape) < 0.2
    model = PLN().fit(np.where(hidden, np.nan, Y), covariates=X, offsets=O)
    assert model.converged_
    guess = model.predict(np.where(hidden, np.nan, Y), covariates=X, offsets=O)
    plain = np.exp(O) * (Y.sum(0) / np.exp(O).sum(0))
    error = [np.abs(np.log1p(g[hidden]) - np.log1p(Y[hidden])).mean() for g in (guess, plain)]
    assert error[0] < 0.9 * error[1]


def test_conditional_prediction_uses_the_given_columns():
    Y, X, O, _, _ = simulate(300, 6, mean=3.0)
    model = PLN().fit(pd.DataFrame(Y, columns=list("abcdef")), covariates=X, offsets=O)
    out = model.predict_conditional(Y[:50], given=["a", "b", 2], covariates=X[:50], offsets=O[:50])
    assert out.columns.tolist() == ["d", "e", "f"]
    away = model.predict(covariates=X[:50], offsets=O[:50])[:, 3:]
    loss = [np.abs(np.log1p(g) - np.log1p(Y[:50, 3:])).mean() for g in (out.to_numpy(), away)]
    assert loss[0] < loss[1]
    with pytest.raises(DataError, match="given must name"):
        model.predict_conditional(Y[:5], given=["zebra"], covariates=X[:5], offsets=O[:5])


def test_transform_of_the_training_rows_is_where_the_fit_left_them():
    Y, X, O, _, _ = simulate(60, 5, d=2)
    model = PLN(tol=1e-12).fit(Y, covariates=X, offsets=O)
    np.testing.assert_allclose(model.transform(Y, covariates=X, offsets=O), model.latent_mean_, atol=1e-4)
    assert model.score(Y, covariates=X, offsets=O) * 60 == pytest.approx(model.elbo_, rel=1e-8)
    one = model.transform(Y[:1], covariates=X[:1], offsets=O[:1])  # a row alone is placed as among others
    np.testing.assert_allclose(one, model.latent_mean_[:1], atol=1e-4)


def test_recovers_covariance_and_coefficients():
    """As the artificial data of the original package: 200 by 50, offsets, two covariates."""
    rng = np.random.default_rng(0)
    n, p = 400, 20
    Sigma = np.kron(np.eye(p // 5), 0.7 ** np.abs(np.subtract.outer(np.arange(5), np.arange(5))))
    X, B, O = rng.normal(1.0, 1.0, size=(n, 2)), rng.normal(0.5, 0.5, (2, p)), rng.integers(0, 2, (n, p)).astype(float)
    Y = rng.poisson(np.exp(O + X @ B + rng.multivariate_normal(np.zeros(p), Sigma, n)))
    model = PLN().fit(Y, covariates=X, offsets=O)
    assert np.abs(model.coefficients_ - B).mean() < 0.05
    assert np.sqrt(((model.covariance_ - Sigma) ** 2).mean()) < 0.08
    assert np.corrcoef(model.covariance_.ravel(), Sigma.ravel())[0, 1] > 0.95


def test_a_fit_does_not_follow_rare_columns_for_gains_that_nothing_could_see(monkeypatch):
    """The variance of a species of few counts goes to 0, or its effects to infinity: there is always a little left to gain."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(200), rng.normal(size=(200, 3))])
    B = np.vstack([np.linspace(-4.5, 1, 20), rng.normal(0, 0.5, (3, 20))])
    Y = rng.poisson(np.exp(X @ B + 0.7 * rng.normal(size=(200, 20))))
    model, end = PLN().fit(Y, covariates=X), PLN(tol=1e-13).fit(Y, covariates=X)
    assert model.converged_
    assert 0 < end.elbo_ - model.elbo_ < 2e-3
    common = Y.sum(axis=0) > 20
    np.testing.assert_allclose(model.coefficients_[:, common], end.coefficients_[:, common], atol=2e-3)
    monkeypatch.setattr(pln_full, "ENDLESS", 0.0)
    assert model.n_iter_ < 0.7 * PLN().fit(Y, covariates=X).n_iter_


def test_warm_start_goes_on():
    Y, X, O, _, _ = simulate(100, 8)
    model = PLN(max_iter=20, warm_start=True)
    with pytest.warns(Warning, match="max_iter"):
        model.fit(Y, covariates=X, offsets=O)
    first = model.elbo_
    model.max_iter = 2000
    model.fit(Y, covariates=X, offsets=O)
    assert model.converged_
    assert model.elbo_ > first
    assert model.elbo_ == pytest.approx(PLN().fit(Y, covariates=X, offsets=O).elbo_, rel=1e-6)
    n = model.n_iter_
    model.fit(Y, covariates=X, offsets=O)
    assert model.n_iter_ < n


def test_interrupted_and_resumed_equals_uninterrupted(tmp_path):
    Y, X, O, _, _ = simulate(50, 5)
    whole = PLN(random_state=0).fit(Y, covariates=X, offsets=O)
    with pytest.warns(Warning, match="max_iter"):
        PLN(random_state=0, max_iter=15).fit(Y, covariates=X, offsets=O, checkpoint=tmp_path / "c")
    resumed = PLN(random_state=0).fit(Y, covariates=X, offsets=O, resume=tmp_path / "c")
    assert resumed.elbo_ == whole.elbo_
    np.testing.assert_array_equal(resumed.latent_mean_, whole.latent_mean_)


def test_saved_and_loaded_predicts_alike(tmp_path):
    Y, X, O, _, _ = simulate(50, 5)
    model = PLN(random_state=0).fit(pd.DataFrame(Y, columns=list("abcde")), covariates=X, offsets=O)
    model.save(tmp_path / "m")
    again = tallies.load(tmp_path / "m")
    np.testing.assert_array_equal(again.transform(Y, covariates=X, offsets=O), model.transform(Y, covariates=X, offsets=O))
    np.testing.assert_array_equal(again.sample(5, random_state=0), model.sample(5, random_state=0))
    assert again.bic_ == model.bic_
    pd.testing.assert_frame_equal(again.coefficient_table(), model.coefficient_table())


def test_formula_names_and_new_rows(tmp_path):
    Y, _, O, _, _ = simulate(60, 4)
    data = pd.DataFrame(
        {"tree": np.array(["ash", "elm", "oak"])[np.arange(60) % 3], "height": np.linspace(0, 1, 60)},
        index=[f"s{i}" for i in range(60)],
    )
    counts = pd.DataFrame(Y, columns=list("wxyz"), index=data.index)
    model = PLN.from_formula("~ 1 + tree + height", counts, data.iloc[::-1], offsets=O)
    assert len(model.covariate_names_) == 4
    table = model.coefficient_table()
    assert table.index.get_level_values("column").unique().tolist() == list("wxyz")
    some = model.transform(counts[:4], covariates=data[:4], offsets=O[:4])
    model.save(tmp_path / "m")
    np.testing.assert_allclose(tallies.load(tmp_path / "m").transform(counts[:4], covariates=data[:4], offsets=O[:4]), some)
    with pytest.raises(DataError, match="did not see"):
        model.transform(counts[:1], covariates=data[:1].assign(tree="yew"), offsets=O[:1])


def test_samples_have_the_moments_of_the_model():
    Y, _X, _O, _, _ = simulate(200, 3)
    model = PLN().fit(Y)
    draws = model.sample(200_000, random_state=0)
    mean = np.exp(model.coefficients_[0] + model.covariance_.diagonal() / 2)
    variance = mean + mean**2 * np.expm1(model.covariance_.diagonal())
    assert (np.abs(draws.mean(0) - mean) < 5 * np.sqrt(variance / 200_000)).all()


def test_criteria_are_on_the_usual_scale():
    Y, X, O, _, _ = simulate(60, 4)
    model = PLN().fit(Y, covariates=X, offsets=O)
    assert model.n_parameters_ == 4 + 10
    assert model.aic_ == -2 * model.elbo_ + 28
    assert model.bic_ == pytest.approx(-2 * model.elbo_ + 14 * np.log(60))
    assert model.icl_ == pytest.approx(model.bic_ + (np.log(2 * np.pi * model.latent_variance_) + 1).sum())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda Y, X, O: (Y - 5, X, O), "negative"),
        (lambda Y, X, O: (Y + 0.5, X, O), "whole numbers"),
        (lambda Y, X, O: (Y * [1, 1, 1, 0, 1], X, O), "have no counts: their mean"),
        (lambda Y, X, O: (Y, np.hstack([X, X]), O), "collinear"),
        (lambda Y, X, O: (Y, X[:-1], O), "one row a sample"),
        (lambda Y, X, O: (Y, X, np.where(np.arange(len(Y)) == 3, -np.inf, 0.0)), "-inf"),
        (lambda Y, X, O: (Y[:1], X[:1], O[:1]), "more rows than covariates"),
        (lambda Y, X, O: (Y, X[:, :0], O), "covariates have no columns"),
        (lambda Y, X, O: (Y, X, O - 1e4), "offsets are logarithms, from -300 to 300"),
        (lambda Y, X, O: (Y * 1e18, X, O), "at most 9.0072e\\+15"),
        (lambda Y, X, O: (Y, X, "loudness"), "must be a rule or a file"),
        (lambda Y, X, O: (np.vstack([Y[:-1], 0 * Y[:1]]), X, "logsum"), "have no counts"),
        (lambda Y, X, O: (Y[0], X, O), "table with rows and columns"),
        (lambda Y, X, O: (np.where(Y > 3, np.inf, Y), X, O), "infinity"),
    ],
)
def test_bad_input_is_told(change, message):
    Y, X, O, _, _ = simulate(30, 5)
    with pytest.raises(DataError, match=message):
        Y, X, O = change(Y, X, O)
        PLN().fit(Y, covariates=X, offsets=O)


def test_bad_hyperparameters_are_told():
    Y, _X, _O, _, _ = simulate(30, 5)
    for wrong in (
        {"method": "magic"},
        {"covariance": "round"},
        {"rank": 0},
        {"rank": 1.5},
        {"n_starts": 0},
        {"max_iter": 0},
        {"method": Importance(batch_size="many")},
        {"rank": 2, "covariance": "diagonal"},
        {"method": Importance(accuracy=2.0)},
    ):
        with pytest.raises(ValueError, match="must be"):
            PLN(**wrong).fit(Y)
    with pytest.raises(DataError, match="at most min"):
        PLN(rank=6).fit(Y)
    with pytest.raises(DataError, match="positive definite"):
        PLN(covariance=-np.eye(5)).fit(Y)


@pytest.mark.parametrize("case", ["huge", "one column", "zero rows", "equal counts", "two rows", "separated"])
def test_hard_data_end_finite(case):
    Y, X, O, _, _ = simulate(40, 5)
    if case == "huge":
        Y = np.round(Y * 1e9)
    elif case == "one column":
        Y = Y[:, :1]
        O = O[:, :1]
    elif case == "zero rows":
        Y[:5] = 0
    elif case == "equal counts":
        Y[...] = 7
    elif case == "two rows":
        Y, X, O = Y[:2] + 1, X[:2], O[:2]
    else:
        X = np.hstack([X, (np.arange(40) % 2)[:, None]])
        Y[np.arange(40) % 2 == 0, 0] = 0
        Y[1, 0] = 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PLN().fit(Y, covariates=X, offsets=O)
    for value in (model.coefficients_, model.covariance_, model.latent_mean_, model.latent_variance_, model.history_):
        assert np.isfinite(value).all()
    assert model.converged_


def test_names_and_frames():
    pl = pytest.importorskip("polars")
    Y, _X, _O, _, _ = simulate(30, 3)
    frame = pd.DataFrame(Y, columns=list("abc"))
    model = PLN().fit(pl.from_pandas(frame))
    assert model.feature_names_in_.tolist() == list("abc")
    np.testing.assert_array_equal(model.transform(frame[["b", "a", "c"]]), model.transform(frame))  # by name
    with pytest.raises(DataError, match="2 columns"):
        model.transform(Y[:, :2])


def test_anndata_in_and_out():
    anndata = pytest.importorskip("anndata")
    Y, _X, _O, _, _ = simulate(30, 3)
    data = anndata.AnnData(Y, var=pd.DataFrame(index=list("abc")))
    model = PLN(rank=2, random_state=0).fit(data, offsets="logsum")
    out = model.to_anndata(data)
    assert out.obsm["X_pln"].shape == (30, 2)
    assert out.varm["pln_components"].shape == (3, 2)
    assert out.uns["pln"]["converged"]


def test_exact_bound_function_agrees_with_moments():
    Y, X, O, _, _ = simulate(50, 4)
    model = PLN().fit(Y, covariates=X, offsets=O)
    none = np.zeros_like(model.coefficients_)
    B, Sigma = Spread.of(model.latent_mean_, model.latent_variance_, X, np.ones(50), none).maximum(none)
    np.testing.assert_allclose(B, model.coefficients_)
    np.testing.assert_allclose(Sigma, model.covariance_)
    np.testing.assert_array_equal(model.fitted_.data.Y, Y)
    assert model.fitted_.data.Y.dtype.kind == "u"  # in the smallest type that holds them


def test_odd_tables_beside_counts_are_refused_in_words():
    Y = np.random.default_rng(0).poisson(5.0, size=(8, 2))
    words = [["a"]] * 8
    for beside in ({"covariates": words}, {"offsets": words}, {"covariates": [[1.0], [2.0, 3.0]] * 4}):
        with pytest.raises(DataError, match="must be numbers"):
            PLN().fit(Y, **beside)
    for names in (["a", "a"], [1, 1]):
        with pytest.raises(DataError, match="must differ"):
            PLN().fit(pd.DataFrame(Y, columns=names))


def test_a_rule_for_offsets_needs_counts():
    model = PLN(max_iter=50, tol=1e-6).fit(np.random.default_rng(0).poisson(5.0, size=(8, 2)), offsets="logsum")
    with pytest.raises(DataError, match="needs counts"):
        model.predict(covariates=np.ones((3, 1)), offsets="logsum")
    with pytest.raises(DataError, match="needs counts"):
        model.sample(3, offsets="logsum")
    with pytest.raises(DataError, match="shape"):
        model.sample(3, offsets=np.zeros(2))
    for n in (None, 0, "3"):
        with pytest.raises(ValueError, match="whole number"):
            model.sample(n)


def test_a_step_that_leaves_the_range_of_floats():
    for rate in (1e300, 0.0, np.nan):
        with pytest.raises(ValueError, match="learning_rate"):
            PLN(method=Importance(learning_rate=rate)).fit([[1, 2], [3, 4], [5, 1]])


def test_rare_species_do_not_hold_up_the_others():
    # species of a few counts: their variance goes to 0 and their effects to infinity, which made the steps of all others short
    rng = np.random.default_rng(1)
    n, p = 300, 80
    group = rng.choice(5, n, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    X = np.hstack([np.ones((n, 1)), rng.normal(size=(n, 3)), (group[:, None] == np.arange(1, 5)).astype(float)])
    B = np.vstack([rng.normal(-4, 2, (1, p)), rng.normal(0, 0.5, (3, p)), rng.normal(0, 1, (4, p))])
    Z = X @ B + rng.normal(size=(n, 8)) @ rng.normal(0, 0.4, (8, p)) + 0.7 * rng.normal(size=(n, p))
    Y = rng.poisson(np.exp(Z))
    model = PLN().fit(Y[:, Y.sum(axis=0) > 0], covariates=X)
    assert model.converged_
    late = np.flatnonzero(model.history_ < model.history_[-1] - 0.05)[-1]
    assert late < 90, late


@pytest.mark.parametrize("offsets", ["one a row", "a matrix"])
def test_rows_in_memory_travel_in_short_and_arrive_with_all_bits(offsets):
    rng = np.random.default_rng(0)
    Y, O = rng.poisson(3.0, (50, 40)).astype(float), np.repeat(rng.normal(size=(50, 1)), 40, axis=1)
    O[3, 4] -= 1e-9 if offsets == "a matrix" else 0.0
    (source,) = cut(Rows(Y, O, rng.normal(size=(50, 2)), rng.uniform(1, 2, 50)), M=rng.normal(size=(50, 40)))
    packed = pickle.dumps(source)
    assert len(packed) < Y.nbytes * (2.4 if offsets == "a matrix" else 1.4)  # the means of a former fit are as large as the counts
    for one, other in zip(source.load(), pickle.loads(packed).load(), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
        assert not isinstance(other, np.ndarray) or other.flags.c_contiguous
