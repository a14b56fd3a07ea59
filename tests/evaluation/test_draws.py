"""Draws for ArviZ: the numbers of the fit, in its groups, and what it makes of them."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp

from tallies import LDA, PLN, Importance
from tallies.counts.evidence import gaussians, latents, weigh
from tallies.errors import DataError, DataWarning, MissingExtra

TEXTS = np.array([[3, 2, 4, 0, 0, 1], [0, 1, 0, 4, 2, 3]] * 10)
COUNTS = pd.DataFrame([[1, 20], [2, 30], [0, 5], [9, 90], [4, 44]], columns=["oak", "elm"], index=list("vwxyz"))


@pytest.fixture(scope="module")
def lda():
    return LDA(n_topics=2, max_iter=60, burn_in=20, n_chains=3).fit(TEXTS)


def test_chains_are_the_histories_cut_at_burn_in(lda):
    arviz = pytest.importorskip("arviz")
    data = lda.to_arviz()
    late, early = (data[group]["log_joint"].values for group in ("posterior", "warmup_posterior"))
    assert late.shape == (3, 40)  # the sweeps from burn_in to max_iter
    np.testing.assert_array_equal(np.hstack([early, late]), lda.histories_)
    assert float(arviz.rhat(late, method="split")) == pytest.approx(lda.diagnostics()["r_hat"], rel=1e-9)


def test_chains_that_ended_apart_are_cut_to_the_shortest(lda):
    pytest.importorskip("arviz")
    model = LDA(n_topics=2)
    a, b, c = lda.histories_
    model.fitted_ = lda.fitted_._replace(histories=(a, b[:-7], c))
    found = model.to_arviz()["posterior"]["log_joint"].values
    np.testing.assert_array_equal(found, [a[-33:], b[-40:-7], c[-33:]])


def test_topics_from_elsewhere_have_no_sweeps(lda):
    pytest.importorskip("arviz")
    model = LDA(n_topics=2)
    model.fitted_ = lda.fitted_._replace(histories=(np.zeros(0),) * 3)
    with pytest.raises(DataError, match="no sweep with a log joint"):
        model.to_arviz()


def posterior(y, mean, sd):
    """Mean and variance of Z given one count of Poisson(exp Z), by quadrature."""
    z = np.linspace(mean - 10 * sd, mean + 10 * sd, 20_001)
    log_p = y * z - np.exp(z) - gammaln(y + 1) - 0.5 * ((z - mean) / sd) ** 2
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    return p @ z, p @ z**2 - (p @ z) ** 2


def test_latents_have_the_law_given_the_counts():
    """Against quadrature, in one dimension: equally weighted means, variances and tails."""
    Y, base, C = np.array([[0.0], [3.0], [40.0]]), np.full((3, 1), 1.0), np.array([[0.8]])
    k = 40_000
    V, log_w, share = latents(Y, base, C, k, np.random.default_rng(0))
    Z = base + V[:, :, 0] * 0.8
    for i, y in enumerate(Y[:, 0]):
        mean, variance = posterior(y, 1.0, 0.8)
        assert abs(Z[i].mean() - mean) < 6 * np.sqrt(variance / k / share[i])
        assert abs(Z[i].var() / variance - 1) < 0.06
    w = np.exp(log_w - log_w.max(axis=1, keepdims=True))
    np.testing.assert_allclose(share, w.sum(axis=1) ** 2 / (w * w).sum(axis=1) / k)
    assert (share > 0.5).all()


def test_each_draw_comes_as_often_as_its_weight_says():
    """No more than one off, however uneven the weights."""
    Y, base, C, k = np.array([[2.0, 0.0, 30.0]]), np.zeros((1, 3)), np.diag([2.0, 3.0, 2.0]), 200
    V, log_w, _ = latents(Y, base, C, k, np.random.default_rng(3))
    normal = np.random.default_rng(3).normal(size=(1, k, 3))
    proposed, logs, _ = weigh(Y, base, C, gaussians(Y, base, C, tol=1e-4), normal)
    np.testing.assert_array_equal(logs, log_w)
    expected = k * np.exp(logs[0] - logsumexp(logs[0]))
    assert expected.max() > 4
    times = (V[0][None] == proposed[0][:, None]).all(axis=2).sum(axis=1)
    assert times.sum() == k
    assert np.abs(times - expected).max() < 1


def test_scores_are_on_the_axes_of_the_components():
    pytest.importorskip("arviz")
    rng = np.random.default_rng(5)
    Y = rng.poisson(np.exp(2 + rng.normal(size=(40, 2)) @ rng.normal(size=(2, 5))))
    model = PLN(rank=2, tol=1e-6).fit(Y)
    model.fitted_ = model.fitted_._replace(model=turned(model.fitted_.model, 0.7))
    found = model.to_arviz(Y, n_draws=1000)["posterior"]["latent"].values[0].mean(axis=0)
    np.testing.assert_allclose(found, model.latent_mean_, atol=0.1)


def turned(model, angle):
    """The same model, as if its solver had had other axes."""
    c, s = np.cos(angle), np.sin(angle)
    return model._replace(rotation=np.array([[c, -s], [s, c]]) @ model.rotation)


@pytest.mark.parametrize("settings", [{}, {"rank": 1}, {"method": Importance(max_epochs=5)}], ids=str)
def test_draws_of_a_pln_lie_about_its_positions(settings):
    pytest.importorskip("arviz")
    model = PLN(**settings).fit(COUNTS)
    found = model.to_arviz(COUNTS, n_draws=2000)
    latent, stats = found["posterior"]["latent"], found["sample_stats"]
    assert latent.dims == ("chain", "draw", "row", "component" if "rank" in settings else "column")
    assert latent["row"].values.tolist() == list("vwxyz")
    assert latent.shape == (1, 2000, *model.latent_mean_.shape)
    assert stats["log_weight"].dims == ("chain", "proposal", "row")
    # the variational and the Gaussian means are near those of the true law
    np.testing.assert_allclose(latent.values.mean(axis=(0, 1)), model.transform(COUNTS), atol=0.15)
    again = model.to_arviz(COUNTS[["elm", "oak"]], n_draws=2000)["posterior"]["latent"]  # by name, with the same seed
    np.testing.assert_array_equal(again.values, latent.values)


def test_arviz_reads_the_draws_and_their_weights():
    arviz = pytest.importorskip("arviz")
    found = PLN().fit(COUNTS).to_arviz(COUNTS.iloc[:2])
    summary = arviz.summary(found)
    assert [name.replace(" ", "") for name in summary.index] == [f"latent[{i},{j}]" for i in "vw" for j in ("oak", "elm")]
    if hasattr(arviz, "psislw"):
        _, k = arviz.psislw(found["sample_stats"]["log_weight"].stack(__sample__=("chain", "proposal")))
        assert np.shape(k) == (2,)
        assert (np.asarray(k) < 1).all()


def test_what_cannot_be_drawn_is_told(monkeypatch):
    pytest.importorskip("arviz")
    Y = np.random.default_rng(0).poisson(3.0, size=(40, 3))
    Y[::3] = 0
    with pytest.raises(DataError, match="knows no structural zeros"):
        PLN(zero_inflation="column", max_iter=50, tol=1e-4).fit(Y).to_arviz(Y)
    with pytest.raises(ValueError, match="n_draws must be a whole number of at least 2"):
        PLN(max_iter=50, tol=1e-4).fit(Y).to_arviz(Y, n_draws=1)
    wide = np.random.default_rng(0).poisson(np.exp(np.random.default_rng(1).normal(1.0, 2.0, size=(100, 60))))
    with pytest.warns(DataWarning, match="importance sampling is unreliable"):
        PLN(max_iter=50, tol=1e-4).fit(wide).to_arviz(pd.DataFrame(wide).iloc[:5])


def test_without_arviz_it_says_what_to_install(lda, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(MissingExtra, match=r"to_arviz needs the package 'arviz', .* pip install .*\[arviz\]"):
        lda.to_arviz()


def test_from_arviz_1_on_it_is_a_tree(lda, monkeypatch):
    arviz = pytest.importorskip("arviz")
    xarray = pytest.importorskip("xarray")
    monkeypatch.setattr(arviz, "__version__", "1.0.0")
    found = lda.to_arviz()
    assert isinstance(found, xarray.DataTree)
    np.testing.assert_array_equal(found["posterior"]["log_joint"].values[:, -1], [h[-1] for h in lda.histories_])
