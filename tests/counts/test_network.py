"""Networks of counts: conditions of optimality, what they must equal, what they find, and what is refused."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import gammaln, logsumexp

from tallies import PLN, PLNNetwork
from tallies.counts import inverses
from tallies.counts.answers import correlation
from tallies.counts.network import lasso, views
from tallies.counts.network.answers import how
from tallies.errors import DataError, DataWarning
from tallies.html import build
from tallies.html.common import listing


def chain(n: int, p: int, seed: int = 0, mean: float = 1.5) -> np.ndarray:
    """Counts whose columns depend on their neighbours alone: partial correlations of 0.4."""
    rng = np.random.default_rng(seed)
    Omega = np.eye(p) - 0.4 * (np.eye(p, k=1) + np.eye(p, k=-1))
    return rng.poisson(np.exp(mean + rng.multivariate_normal(np.zeros(p), np.linalg.inv(Omega), n)))


def joint(**options: Any) -> PLNNetwork:
    return PLNNetwork(**{"joint": True, "penalty": 0.1, "select": None, **options})


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    return chain(80, 8)


@pytest.fixture(scope="module")
def found() -> PLNNetwork:
    return PLNNetwork(n_subsamples=20).fit(pd.DataFrame(chain(400, 10), columns=list("abcdefghij")))


@pytest.mark.parametrize("scale", ["correlation", "raw"])
def test_the_conditions_of_the_penalised_bound_hold(counts: np.ndarray, scale: str) -> None:
    X, v = np.column_stack([np.ones(80), np.arange(80) % 2]), 1.0 + np.arange(80) % 3
    model = joint(scale=scale, tol=1e-16).fit(counts, covariates=X, sample_weight=v)
    M, S2, B, N = model.latent_mean_, model.latent_variance_, model.coefficients_, v.sum()
    R = M - X @ B
    S = (R.T @ (v[:, None] * R) + np.diag(v @ S2)) / N
    sd = np.sqrt(S.diagonal()) if scale == "correlation" else np.ones(8)
    Theta, C = model.precision_ * np.outer(sd, sd), S / np.outer(sd, sd)
    W, there, off = np.linalg.inv(Theta), Theta != 0, ~np.eye(8, dtype=bool)
    assert 3 < there.sum() < 64  # neither empty nor full
    # the lasso: W_jj = C_jj; W - C = rho sign Theta where that is not 0; |W - C| <= rho where it is
    assert np.abs(W - C).diagonal().max() < 1e-6
    assert np.abs(W - C - 0.1 * np.sign(Theta))[there & off].max() < 1e-6
    assert (np.abs(W - C)[~there] <= 0.1 + 1e-6).all()
    # rows: eq. 2 of `penalised` in place of Omega, and B is their regression
    Omega = model.precision_.copy()
    if scale == "correlation":
        Omega[np.diag_indices(8)] += 0.1 * (np.abs(Theta).sum(axis=1) - Theta.diagonal()) / S.diagonal()
    A = np.exp(M + S2 / 2)
    assert np.abs(R @ Omega + A - counts).max() < 1e-6
    assert np.abs(S2 * (Omega.diagonal() + A) - 1).max() < 1e-6
    assert np.abs(X.T @ (v[:, None] * R)).max() < 1e-6
    # the bound, and the history with the penalty taken off
    bound = v @ (counts * M - A - [[sum(np.log(np.arange(1, y + 1))) for y in row] for row in counts] + (np.log(S2) + 1) / 2).sum(1)
    bound += 0.5 * N * (np.linalg.slogdet(model.precision_)[1] - np.vdot(S, model.precision_))
    np.testing.assert_allclose(model.elbo_, bound, rtol=1e-10)
    np.testing.assert_allclose(model.history_[-1], bound - 0.05 * N * np.abs(Theta)[off].sum(), rtol=1e-10)


@pytest.mark.parametrize("options", [{}, {"joint": True}, {"select": "bic"}])
@pytest.mark.parametrize("offsets", [None, "logsum"])
def test_sparse_counts_stay_so_and_have_the_bits_of_the_table(options: dict[str, Any], offsets: Any) -> None:
    """A column that some subsamples have not seen among them."""
    Y = np.column_stack([chain(40, 5), np.arange(40) < 3])
    given = {"n_penalties": 3, "n_subsamples": 4, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = PLNNetwork(**given).fit(Y, offsets=offsets)
        model = PLNNetwork(**given).fit(sp.csr_matrix(Y), offsets=offsets)
    assert sp.issparse(model.fitted_.data.Y)
    assert model.fitted_.data.O.shape == (40, 1)
    np.testing.assert_array_equal(model.precision_, alone.precision_)
    np.testing.assert_array_equal(model.latent_mean_, alone.latent_mean_)
    if "select" not in options:
        np.testing.assert_array_equal(model.selection_probability_, alone.selection_probability_)
    pd.testing.assert_frame_equal(model.edges_, alone.edges_)


def test_an_anndata_stays_sparse_and_its_page_is_written(tmp_path: Any) -> None:
    anndata = pytest.importorskip("anndata", reason="needs tallies[anndata]")
    Y = chain(60, 4)
    model = PLNNetwork(penalty=0.2, select=None).fit(anndata.AnnData(sp.csr_matrix(Y.astype(np.float32))))
    assert sp.issparse(model.fitted_.data.Y)
    assert model.report(tmp_path / "net.html", sp.csr_matrix(Y)).exists()
    assert model.report(tmp_path / "alone.html").exists()


@pytest.mark.parametrize("both", [True, False])
def test_without_a_penalty_it_is_a_pln(counts: np.ndarray, both: bool) -> None:
    plain, model = PLN(tol=1e-14).fit(counts), PLNNetwork(penalty=0.0, select=None, joint=both, tol=1e-14).fit(counts)
    np.testing.assert_allclose(model.elbo_, plain.elbo_, rtol=1e-9)
    np.testing.assert_allclose(model.covariance_, plain.covariance_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.transform(counts), plain.transform(counts), atol=1e-4)


def test_a_large_penalty_makes_columns_independent(counts: np.ndarray) -> None:
    plain, model = PLN(covariance="diagonal").fit(counts), joint(penalty=0.9).fit(counts)
    np.testing.assert_allclose(model.elbo_, plain.elbo_, rtol=1e-9)
    assert len(model.edges_) == 0
    assert model.n_parameters_ == 8 + 8


def test_in_two_steps_it_is_the_lasso_of_the_correlations(counts: np.ndarray) -> None:
    from sklearn.covariance import graphical_lasso

    S = PLN(tol=1e-14).fit(counts).covariance_
    theirs = graphical_lasso(correlation(S), 0.2, tol=1e-10, enet_tol=1e-10, max_iter=500)[1] / np.sqrt(
        np.outer(S.diagonal(), S.diagonal())
    )
    model = PLNNetwork(penalty=0.2, select=None, tol=1e-14).fit(counts)
    np.testing.assert_allclose(model.precision_, theirs, atol=1e-5 * np.abs(theirs).max())
    np.testing.assert_allclose(model.covariance_ @ model.precision_, np.eye(8), atol=1e-9)


def test_zeros_of_a_precision_may_be_left_out(counts: np.ndarray, monkeypatch: Any) -> None:
    """With gaps, weights and covariates: the bound at every penalty is the same, and where it ends that of its rows."""
    X, v, Y = np.column_stack([np.ones(len(counts)), np.arange(len(counts)) % 3]), 1.0 + np.arange(len(counts)) % 2, 1.0 * counts
    Y[3, 1] = np.nan
    found = []
    for share in (0.0, 2.0):
        monkeypatch.setattr(inverses, "SPARSE", share)
        model = PLNNetwork(select="bic", penalty=[0.5, 0.3, 0.1]).fit(Y, covariates=X, sample_weight=v)
        assert model.elbo_ == pytest.approx(v @ model.log_prob(Y, covariates=X), rel=1e-7)
        found.append(model.path_["loglik"])
    np.testing.assert_allclose(*found, rtol=1e-10)
    R, Omega = np.arange(6.0).reshape(2, 3), np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0]])
    np.testing.assert_array_equal(inverses.times(R, Omega), R @ Omega)


@pytest.mark.parametrize("p", [2, 3])
def test_the_bound_of_few_columns_is_below_quadrature(p: int) -> None:
    Y = chain(40, p)
    model = joint().fit(Y)
    z = np.linspace(-8, 8, 81)  # the trapezoidal rule: the integrand is 0 at both ends with all of its derivatives
    nodes = np.stack(np.meshgrid(*[z] * p), -1).reshape(-1, p)
    log_w = p * np.log((z[1] - z[0]) / np.sqrt(2 * np.pi)) - (nodes**2).sum(1) / 2
    Z = model.coefficients_[0] + nodes @ np.linalg.cholesky(model.covariance_).T
    log_w -= np.exp(Z).sum(1)
    exact = np.array([logsumexp(Z @ row + log_w) for row in Y]) - gammaln(Y + 1).sum(1)
    gap = exact - model.log_prob(Y)
    assert gap.min() > 0
    assert gap.max() < 0.15 * p


def test_a_chain_is_found(found: PLNNetwork) -> None:
    table = found.edges_
    sure = table[table["probability"] >= 0.9]
    right = [ord(b) - ord(a) == 1 for a, b in zip(sure["a"], sure["b"], strict=True)]
    assert sum(right) == 9
    assert np.mean(right) >= 0.8
    assert (sure["sign"][right] == "+").all()
    assert found.path_["chosen"].sum() == 1
    assert found.path_.loc[found.path_["chosen"], "instability"].item() <= 0.05
    assert found.path_["edges"].iloc[0] == 0
    assert len(table) == found.path_.loc[found.path_["chosen"], "edges"].item()
    assert table["probability"].is_monotonic_decreasing


def test_probabilities_are_shares_of_subsamples(found: PLNNetwork) -> None:
    P = found.selection_probability_
    np.testing.assert_allclose(P * 20, np.round(P * 20), atol=1e-9)
    row = found.edges_.iloc[0]
    assert P[ord(row["a"]) - 97, ord(row["b"]) - 97] == row["probability"]
    at = found.path_["chosen"].to_numpy().argmax()
    f = P[np.triu_indices(10, 1)]
    np.testing.assert_allclose(found.path_["instability"][at], np.mean(2 * f * (1 - f)))


@pytest.mark.parametrize("both", [True, False])
def test_what_is_chosen_is_what_would_be_given(counts: np.ndarray, both: bool) -> None:
    """The bound on the path is that of a fit at its penalty, and the last stage is such a fit, to the bit."""
    model = PLNNetwork(select="bic", n_penalties=4, joint=both, tol=1e-13).fit(counts)
    given = PLNNetwork(penalty=model.penalty_, select=None, joint=both, tol=1e-13).fit(counts)
    assert given.precision_.tobytes() == model.precision_.tobytes()
    assert given.elbo_ == model.elbo_
    row = model.path_[model.path_["chosen"]].iloc[0]
    np.testing.assert_allclose(row["loglik"], given.elbo_, rtol=1e-6)
    np.testing.assert_allclose(row["bic"], given.bic_, rtol=1e-6)
    np.testing.assert_allclose(row["ebic"], given.ebic_, rtol=1e-6)
    assert model.path_["bic"].min() == row["bic"]


def test_a_criterion_asks_for_each_lasso_once(counts: np.ndarray, monkeypatch: Any) -> None:
    """They are most of the time of a wide path; one more is that of the chosen penalty, to its end."""
    asked, whole = [], lasso.solve
    monkeypatch.setattr(lasso, "solve", lambda S, L, *rest, **more: (asked.append(L.max()), whole(S, L, *rest, **more))[1])
    model = PLNNetwork(select="bic", n_penalties=4).fit(counts)
    np.testing.assert_allclose(asked, [*model.path_["penalty"], model.penalty_])
    asked.clear()
    PLNNetwork(penalty=0.2, select=None).fit(counts)
    assert asked == [0.2]  # nothing is chosen


def test_all_correlations_of_more_columns_than_rows_end_where_nothing_is_learned_any_more() -> None:
    """A PLN follows variances to 0, one column after the other, for hundreds of sweeps; those of fewer columns it ends as ever."""
    sweeps = []
    for Y in (chain(20, 60, mean=2.0), chain(60, 20, mean=2.0)):
        for model in (PLNNetwork(penalty=0.5, select=None), PLN()):
            names: list[str] = []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(Y, callback=lambda stage, state, names=names: names.append(stage.name))
            sweeps.append(names.count(names[0]))
    assert sweeps[0] < 0.8 * sweeps[1]
    assert sweeps[2] == sweeps[3]


@pytest.mark.parametrize("at", ["all correlations", "penalty"])
def test_a_criterion_that_is_cut_leaves_a_sparse_network(counts: np.ndarray, at: str) -> None:
    model = PLNNetwork(select="bic", n_penalties=12, min_ratio=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(counts, callback=lambda stage, state: stage.name.startswith(at))
    table = model.path_
    assert model.stopped_ == "callback"
    assert 1 < len(table) < 12
    assert (table["edges"] <= 8).tolist() == [True] * (len(table) - 1) + [False]
    assert table["chosen"].tolist() == [False] * (len(table) - 2) + [True, False]


def test_ebic_has_the_gamma_that_was_given(counts: np.ndarray) -> None:
    """It is what the penalty was chosen by, so the least one of the table is the one that was taken."""
    model = PLNNetwork(select="ebic", gamma=0.05, n_penalties=6, tol=1e-12).fit(counts)
    row, table = model.path_[model.path_["chosen"]].iloc[0], model.path_
    np.testing.assert_allclose(table["ebic"] - table["bic"], 4 * 0.05 * table["edges"] * np.log(8))
    assert table["ebic"].min() == row["ebic"]
    np.testing.assert_allclose(model.ebic_, row["ebic"], rtol=1e-6)


def test_pairs_can_be_forbidden_and_free() -> None:
    names = list("abcdefgh")
    weights = pd.DataFrame(1.0, index=names[::-1], columns=names)
    weights.loc["a", "b"] = weights.loc["b", "a"] = np.inf
    weights.loc["a", "h"] = weights.loc["h", "a"] = 0.0
    frame = pd.DataFrame(chain(300, 8), columns=names)
    for options in ({"joint": True, "penalty": 0.1}, {"joint": False, "penalty": 0.2}):
        model = PLNNetwork(select=None, weights=weights, **options).fit(frame)
        free = PLNNetwork(select=None, **options).fit(frame)
        assert free.precision_[0, 1] != 0
        assert free.precision_[0, 7] == 0
        assert model.precision_[0, 1] == 0
        assert model.precision_[0, 7] != 0
    subsampled = PLNNetwork(weights=weights, n_subsamples=3, n_penalties=4).fit(frame)
    assert subsampled.selection_probability_[0, 1] == 0
    assert subsampled.selection_probability_[0, 7] == 1


def test_weights_of_pairs_may_be_a_file(tmp_path: Any) -> None:
    """By names, whatever their order."""
    Y = pd.DataFrame(chain(100, 4), columns=["oak", "elm", "fir", "yew"])
    weights = pd.DataFrame(1.0, Y.columns[::-1], Y.columns[::-1])
    weights.loc["oak", "elm"] = weights.loc["elm", "oak"] = np.inf
    weights.to_csv(tmp_path / "weights.csv")
    given, read = (PLNNetwork(penalty=0.05, select=None, weights=w).fit(Y) for w in (weights, str(tmp_path / "weights.csv")))
    assert read.precision_[0, 1] == 0
    np.testing.assert_array_equal(read.precision_, given.precision_)


def test_rows_without_weight_and_missing_counts_are_as_in_pln(counts: np.ndarray) -> None:
    v = np.ones(80)
    v[60:] = 0.0
    few, weighted = joint().fit(counts[:60]), joint().fit(counts, sample_weight=v)
    np.testing.assert_allclose(weighted.precision_, few.precision_, rtol=1e-9)
    assert weighted.latent_mean_.shape == (80, 8)
    gaps = counts.astype(float)
    gaps[::7, 2] = np.nan
    other = counts.astype(float)
    other[::7, 2] += 50  # what a missing count would have been does not matter
    other = np.where(np.isnan(gaps), np.nan, other)
    assert joint().fit(gaps).elbo_ == joint().fit(other).elbo_
    assert joint().fit(gaps).converged_


def test_rare_columns_and_groups_may_be_missing_from_subsamples() -> None:
    Y = chain(40, 5)
    Y[:, 4] = 0
    Y[3, 4] = 2  # a column and a group of one row
    group = (np.arange(40) == 3).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PLNNetwork(n_subsamples=6, n_penalties=4).fit(Y, covariates=np.column_stack([np.ones(40), group]))
    assert np.isfinite(model.precision_).all()
    assert model.selection_probability_.max() <= 1


def test_neighbours_and_tables(found: PLNNetwork) -> None:
    near = found.neighbours("b")
    assert set(near["neighbour"][:2]) == {"a", "c"}
    assert near.equals(found.neighbours(1))
    assert near["partial_correlation"].abs().is_monotonic_decreasing
    with pytest.raises(DataError, match="no column 'oak'"):
        found.neighbours("oak")
    assert "subsamples" in found.summary()
    np.testing.assert_allclose(found.partial_correlation_.diagonal(), 1.0)


def test_edges_are_written_and_read(found: PLNNetwork, tmp_path: Any) -> None:
    again = pd.read_csv(found.export(tmp_path / "edges.csv", probability=0.9))
    assert (again["probability"] >= 0.9).all()
    pd.testing.assert_frame_equal(again, found.edges_[found.edges_["probability"] >= 0.9])
    with pytest.raises(DataError, match="graphml"):
        found.export(tmp_path / "edges.doc")
    with pytest.raises(DataError, match="subsamples"):
        joint().fit(chain(30, 3)).export(tmp_path / "edges.csv", probability=0.9)


def test_differences_are_written_as_they_are_told(tmp_path: Any) -> None:
    one, other = (PLNNetwork(penalty=0.2, select=None).fit(chain(100, 4, seed)) for seed in (0, 1))
    path = one.export(tmp_path / "between.csv", against=other, confidence=0.9)
    pd.testing.assert_frame_equal(pd.read_csv(path), one.difference(other, confidence=0.9))
    with pytest.raises(DataError, match=r"to \.csv or \.tsv, got 'between\.graphml'"):
        one.export(tmp_path / "between.graphml", against=other)
    with pytest.raises(DataError, match="leave probability out"):
        one.export(tmp_path / "between.csv", against=other, probability=0.9)


def test_networkx_has_the_same_edges(found: PLNNetwork, tmp_path: Any) -> None:
    networkx = pytest.importorskip("networkx", reason="needs tallies[graphs]")
    graph = found.to_networkx()
    assert {frozenset(e) for e in graph.edges} == {frozenset(e) for e in found.edges_[["a", "b"]].to_numpy().tolist()}
    assert graph.number_of_nodes() == 10
    row = found.edges_.iloc[0]
    assert graph.edges[row["a"], row["b"]]["probability"] == row["probability"]
    read = networkx.read_graphml(found.export(tmp_path / "net.graphml"))
    assert set(read.nodes) == set("abcdefghij")
    assert sorted(c for group in found.communities() for c in group) == sorted(n for n, k in graph.degree if k)


def test_without_networkx_it_says_what_to_install(found: PLNNetwork, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r"tallies\[graphs\]"):
        found.to_networkx()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"penalty": -1.0}, "penalty must be"),
        ({"penalty": "much"}, "penalty must be"),
        ({"penalty": []}, "penalty must be"),
        ({"select": None}, "select=None needs one penalty"),
        ({"select": "aic"}, "select"),
        ({"scale": "log"}, "scale"),
        ({"min_ratio": 1.5}, "min_ratio must lie"),
        ({"instability": 0.7}, "instability must lie"),
        ({"gamma": -1.0}, "gamma"),
        ({"n_subsamples": 1}, "n_subsamples"),
        ({"weights": np.ones((3, 3))}, "a row and a column for each of 8"),
        ({"weights": np.triu(np.ones((8, 8)))}, "symmetric"),
        ({"weights": -np.ones((8, 8))}, "from 0 on"),
        ({"weights": pd.DataFrame(np.ones((8, 8)))}, "no row and column for"),
    ],
)
def test_odd_settings_are_refused_in_words(counts: np.ndarray, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        PLNNetwork(**options).fit(counts)


def test_odd_tables_are_refused_in_words(counts: np.ndarray) -> None:
    with pytest.raises(DataError, match="at least two columns"):
        PLNNetwork().fit(counts[:, :1])
    with pytest.raises(DataError, match="have no counts"):
        PLNNetwork().fit(counts * (np.arange(8) > 0))
    with pytest.raises(DataError, match="more rows than covariates"):
        PLNNetwork().fit(counts[:6], covariates=np.random.default_rng(0).normal(size=(6, 7)))


def test_a_lasso_that_does_not_settle_is_told(counts: np.ndarray, monkeypatch: Any) -> None:
    """Here since it is given one step; a penalty may be so small that a hundred do not do."""
    assert joint().fit(counts).fitted_.graph.gap < 1e-6
    whole = lasso.solve
    monkeypatch.setattr(lasso, "solve", lambda S, L, start=None, tol=1e-9, most=1: whole(S, L, start, tol, most))
    with pytest.warns(UserWarning, match="lasso did not settle"):
        PLNNetwork(penalty=1e-3, select=None).fit(counts)


@pytest.mark.parametrize("penalty", [0.0, 1e-9])
def test_hardly_any_penalty_of_more_columns_than_rows_settles(penalty: float) -> None:
    Y = chain(12, 15)
    model = PLNNetwork(penalty=penalty, select=None).fit(Y[:, Y.sum(axis=0) > 0])
    assert model.converged_
    assert model.fitted_.graph.gap < 1e-6
    assert np.isfinite(model.partial_correlation_).all()


def test_constant_columns_are_told_and_no_smaller_penalty_is_asked_for() -> None:
    with pytest.warns(DataWarning, match="vary less than Poisson") as told:
        model = PLNNetwork(n_subsamples=2, n_penalties=3).fit(np.full((30, 4), 3))
    assert len(told) == 1
    assert len(model.edges_) == 0


def test_a_path_that_ends_too_soon_is_told(counts: np.ndarray) -> None:
    with pytest.warns(UserWarning, match="lower min_ratio"):
        PLNNetwork(penalty=[0.6, 0.3], select="bic").fit(chain(400, 5))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"select": "ebic", "gamma": 50.0}, 'EBIC chose a network without any edge, .* try select="stability"'),
        ({"select": "stability", "instability": 1e-9}, "stability chose a network without any edge, .* try a larger instability"),
    ],
)
def test_a_network_without_edges_is_told(options: dict[str, Any], said: str) -> None:
    with pytest.warns(DataWarning, match=said):
        model = PLNNetwork(n_penalties=6, n_subsamples=4, **options).fit(chain(60, 8))
    assert not model.edges_["probability"].any()
    assert model.path_["edges"].max() > 0


def test_the_page_has_the_network(found: PLNNetwork, tmp_path: Any, monkeypatch: Any) -> None:
    """With communities of networkx, and without it with the parts that no edge joins."""
    path = found.report(tmp_path / "page.html", pd.DataFrame(chain(400, 10), columns=list("abcdefghij")))
    text = path.read_text(encoding="utf-8")
    for said in (
        "The network",
        "Edges chosen in 90% of the subsamples or more",
        "All edges",
        "How the penalty was chosen",
        "Joined to c",
    ):
        assert said in text
    monkeypatch.setitem(sys.modules, "networkx", None)
    members, of = views.groups(found)
    assert of == "part"
    assert sorted(name for part in members for name in part) == sorted({*found.edges_["a"], *found.edges_["b"]})
    assert found.report(tmp_path / "plain.html").is_file()


def test_the_path_says_which_rule_chose_and_why(found: PLNNetwork, counts: np.ndarray) -> None:
    chart = views.path(found)
    assert chart is not None
    assert [part["name"] for part in chart["series"]] == ["instability", "limit"]
    np.testing.assert_array_equal(chart["series"][1]["y"], [0.05, 0.05])
    assert "the smallest whose instability is at most 0.05" in chart["caption"]
    assert chart["mark"] == found.penalty_
    other = views.path(PLNNetwork(select="bic", n_penalties=4).fit(counts))
    assert other is not None and len(other["series"]) == 1 and "It has the least BIC" in other["caption"]
    odd = PLNNetwork(n_subsamples=2, n_penalties=3, instability=0.4).fit(counts)
    assert odd.fitted_.graph.limit == 0.4


def test_those_in_the_graph_of_many_species_find_their_places(found: PLNNetwork, monkeypatch: Any) -> None:
    """As if there were no others: neighbours are near."""
    monkeypatch.setattr(views, "PLACED", 5)
    monkeypatch.setattr(views, "LINKS", 6)
    species = [str(name) for name in found._columns()]
    chart = views.by_probability(found, species, [0.9])
    assert chart is not None
    every = chart["none"]
    kept = [species.index(word) for word in every["words"]]
    P = np.abs(found.partial_correlation_[np.ix_(kept, kept)])
    Z = np.column_stack([every["px"], every["py"]])
    far, upper = np.linalg.norm(Z[:, None] - Z, axis=2), np.triu_indices(len(kept), 1)
    assert far[upper].min() > 0
    assert far[upper][P[upper] > 0].mean() < far[upper][P[upper] == 0].mean()


def test_a_page_says_things_once_and_bars_fill_their_chart(found: PLNNetwork) -> None:
    html = build(found).html()
    assert html.count(how(found.fitted_)[1:]) == 1  # as the caption of the path
    chart = views.joined(found, [str(name) for name in found._columns()], listed=True)
    reach = found.edges_["partial_correlation"].abs().max()
    assert (
        chart is not None and chart["wide"] and chart["none"]["x"]["domain"] == chart["views"][0]["x"]["domain"] == [-reach, reach]
    )
    assert listing(["a", "b", "c", "d"], 2) + "." == "a, b and 2 others."


def test_a_page_without_edges_says_so(counts: np.ndarray, tmp_path: Any) -> None:
    text = joint(penalty=0.9).fit(counts).report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "0 edges" in text
    assert "8 species are joined to none" in text


def test_counts_of_a_thousand_million_are_fitted_without_a_word_of_numpy() -> None:
    rng = np.random.default_rng(22)
    Y = rng.integers(0, 201, (20, 5)) * (rng.random((20, 5)) < 0.2)
    Y[:, Y.sum(axis=0) == 0] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = PLNNetwork(n_subsamples=5).fit(Y * 10**7)
    assert np.isfinite(model.elbo_)


def test_a_subsample_without_a_count_joins_no_pairs() -> None:
    Y = np.zeros((30, 2), dtype=int)
    Y[0, 0] = Y[1, 1] = 1
    model = PLNNetwork(n_subsamples=20).fit(Y)
    assert model.fitted_.graph.subsamples == 20
    assert not model.edges_["probability"].any()


def test_a_report_takes_counts_of_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.poisson(4.0, (40, 3)), columns=list("abc")).to_csv(tmp_path / "counts.csv", index=False)
    model = PLNNetwork(penalty=0.2, select=None).fit(tmp_path / "counts.csv")
    model.report(tmp_path / "page.html", tmp_path / "counts.csv")
    assert "3 species in 40 samples" in (tmp_path / "page.html").read_text("utf-8")
