"""Intervals of edges: the likelihood of pairs against quadrature, influences against derivatives, tables, differences, refusals.

Whether the intervals cover is a study of `tests/calibration.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from tallies import PLNNetwork
from tallies.counts.kernels import pairs as kernels
from tallies.counts.network import intervals, pairs
from tallies.counts.network.intervals import among_neighbours, discoveries
from tallies.errors import DataError

GRID = np.linspace(-7, 7, 141)
FINE = np.exp(-0.5 * GRID**2) / np.sqrt(2 * np.pi) * (GRID[1] - GRID[0])


def drawn(n: int, seed: int = 0, p: int = 4, join: float = 0.35) -> np.ndarray:
    """Counts of a chain, whose partial correlations are `join`."""
    rng = np.random.default_rng(seed)
    Omega = np.eye(p) - join * (np.eye(p, k=1) + np.eye(p, k=-1))
    return rng.poisson(np.exp(1 + rng.multivariate_normal(np.zeros(p), np.linalg.inv(Omega), n))).astype(float)


def alone(Y: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Log likelihoods of counts (n,) of one column by quadrature, theta = (mean, log sigma)."""
    return np.log(stats.poisson.pmf(Y[:, None], np.exp(theta[0] + np.exp(theta[1]) * GRID)) @ FINE)


def of_pair(Y: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Of two columns, theta = (r, mean, log sigma, mean, log sigma)."""
    r, left = theta[0], 1 - theta[0] ** 2
    ratio = np.exp((2 * r * np.outer(GRID, GRID) - r * r * (GRID[:, None] ** 2 + GRID**2)) / (2 * left)) / np.sqrt(left)
    f, g = (stats.poisson.pmf(Y[:, [k]], np.exp(theta[1 + 2 * k] + np.exp(theta[2 + 2 * k]) * GRID)) * FINE for k in (0, 1))
    return np.log(((f @ ratio) * g).sum(axis=1))


def slopes(of: Any, theta: np.ndarray) -> np.ndarray:
    """Derivatives of every row (n, k)."""
    h = 1e-5 * np.eye(len(theta))
    return np.stack([(of(theta + e) - of(theta - e)) / 2e-5 for e in h], axis=1)


@pytest.mark.parametrize("r", [-0.8, 0.0, 0.5, 0.89])
def test_scores_of_pairs_are_derivatives_of_quadrature(r: float) -> None:
    Y = np.array([[0, 0], [0, 9], [3, 1], [20, 2], [1, 40]] if r < 0.9 else [[0, 0], [3, 6], [7, 40]], dtype=float)
    theta = np.array([r, 0.5, np.log(0.7), 1.0, np.log(1.3)])
    at = pairs.cells(Y.T, np.repeat(theta[[1, 3]], len(Y)).reshape(2, -1), np.exp(theta[[2, 4]]))
    out = np.empty((len(Y), 5))
    kernels.scores(r, *(part[0] for part in at[:4]), *(part[1] for part in at[:4]), out)
    np.testing.assert_allclose(out, slopes(lambda t: of_pair(Y, t), theta), rtol=2e-2, atol=2e-3)
    log_factorial = np.array([[sum(np.log(np.arange(1, y + 1))) for y in row] for row in Y]).T
    np.testing.assert_allclose(at.log_p[0] - log_factorial[0], alone(Y[:, 0], theta[1:3]), atol=1e-4)


def test_rows_that_contradict_a_correlation_have_finite_scores() -> None:
    at = pairs.cells(np.array([[900.0], [0.0]]), np.array([[0.0], [4.0]]), np.ones(2))
    out = np.empty((1, 5))
    for r in (-0.9, 0.9):
        kernels.scores(r, *(part[0] for part in at[:4]), *(part[1] for part in at[:4]), out)
        assert np.isfinite(out).all()


def test_a_missing_count_says_nothing_of_a_correlation() -> None:
    at = pairs.cells(np.array([[3.0], [0.0]]), np.array([[0.5], [-1e4]]), np.ones(2))
    out = np.empty((1, 5))
    kernels.scores(0.6, *(part[0] for part in at[:4]), *(part[1] for part in at[:4]), out)
    assert np.abs(out[0, [0, 3, 4]]).max() < 2e-3


def test_columns_and_pairs_are_at_their_maximum() -> None:
    """Against a general optimiser, on quadrature; and the influences of a column are what weights do to its maximum."""
    Y, X = drawn(60, p=2), np.ones((60, 1))
    O, v, B, Sigma = np.zeros_like(Y), np.ones(60), np.ones((1, 2)), np.eye(2)
    column = optimize.minimize(lambda t: -alone(Y[:, 0], t).sum(), [1.0, 0.0], method="BFGS").x
    found = pairs.margins(Y, O, X, v, B, np.ones(2))
    np.testing.assert_allclose([found.B[0, 0], np.log(found.sigma[0])], column, atol=2e-3)
    more = 0.01 * (np.arange(60) == 3)
    up, down = (pairs.margins(Y, O, X, v + sign * more, B, np.ones(2)) for sign in (1, -1))
    np.testing.assert_allclose((up.B[0] - down.B[0]) / 0.02, found.psi[:, 3, 0], rtol=1e-2, atol=1e-4)
    np.testing.assert_allclose(np.log(up.sigma / down.sigma) / 0.02, found.psi[:, 3, 1], rtol=1e-2, atol=1e-4)
    theta = np.column_stack([found.B[0], np.log(found.sigma)]).ravel()
    best = optimize.minimize_scalar(
        lambda r: -of_pair(Y, np.array([r, *theta])).sum(), bounds=(-0.99, 0.99), method="bounded", options={"xatol": 1e-6}
    )
    assert pairs.correlations(Y, O, X, v, B, Sigma).R[0, 1] == pytest.approx(best.x, abs=2e-3)


def test_the_influence_of_a_row_is_eq_4_by_quadrature() -> None:
    Y, X, v = drawn(50, p=2), np.ones((50, 1)), 1.0 + np.arange(50) % 2
    alone_ = pairs.margins(Y, 0 * Y, X, v, np.ones((1, 2)), np.ones(2))
    found = pairs.correlations(Y, 0 * Y, X, v, np.ones((1, 2)), np.eye(2))
    theta = np.array([found.R[0, 1], *np.column_stack([alone_.B[0], np.log(alone_.sigma)]).ravel()])
    s = slopes(lambda t: of_pair(Y, t), theta)
    vs = v * s[:, 0]
    wanted = (vs - alone_.psi[0] @ (vs @ s[:, 1:3]) - alone_.psi[1] @ (vs @ s[:, 3:])) / (vs @ s[:, 0])
    np.testing.assert_allclose(found.psi[0], wanted, atol=2e-3 * np.abs(wanted).max())


def test_partial_correlations_are_those_among_neighbours() -> None:
    """Of a chain, whose neighbours are clear: as if only they were there, and their errors by moving the correlations."""
    p, n, rng = 5, 400, np.random.default_rng(0)
    R = 0.6 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    psi = rng.normal(size=(p * (p - 1) // 2, n)).astype(np.float32) * 0.04 / np.sqrt(n)
    found = pairs.Correlations(R, psi, np.zeros(p, dtype=bool))
    a, b = np.array([0, 1, 0]), np.array([1, 2, 4])
    near = intervals.neighbours(found)
    assert all(j + 1 in near[j] and j in near[j + 1] and j not in near[j] for j in range(4))
    got = among_neighbours(found, a, b, n)

    def rho(R: np.ndarray, A: list[int]) -> float:
        T = np.linalg.inv(R[np.ix_(A, A)])
        return float(-T[0, 1] / np.sqrt(T[0, 0] * T[1, 1]))

    for e, (j, k) in enumerate(zip(a, b, strict=True)):
        A = [j, k, *((near[j] | near[k]) - {j, k})]
        assert got.estimate[e] == pytest.approx(rho(R, A), abs=1e-12)
        moved = []
        for i in range(n):
            P, (x, y) = np.zeros((p, p)), np.triu_indices(p, 1)
            P[x, y] = P[y, x] = psi[:, i]
            moved.append((rho(R + 1e-3 * P, A) - rho(R - 1e-3 * P, A)) / 2e-3)
        error = np.sqrt(np.sum(np.square(moved)) * n / (n - len(A))) / (1 - got.estimate[e] ** 2)
        assert got.error[e] == pytest.approx(error, rel=1e-4)


@pytest.fixture(scope="module")
def network() -> PLNNetwork:
    return PLNNetwork(penalty=0.2, select=None).fit(pd.DataFrame(drawn(250, 3), columns=list("abcd")))


def test_the_table_has_intervals(network: PLNNetwork, tmp_path: Any) -> None:
    table, every = network.edge_table(), network.edge_table(every=True)
    pd.testing.assert_frame_equal(table[network.edges_.columns.tolist()], network.edges_)
    assert len(every) == 6
    both = table.merge(every, on=["a", "b"])
    np.testing.assert_allclose(both["lower_x"], both["lower_y"])
    z, reach = np.arctanh(every["estimate"]), np.arctanh(every["upper"]) - np.arctanh(every["estimate"])
    np.testing.assert_allclose(np.arctanh(every["estimate"]) - np.arctanh(every["lower"]), reach)
    np.testing.assert_allclose(every["p_value"], 2 * stats.norm.sf(np.abs(z) / (reach / stats.norm.ppf(0.975))))
    assert (network.edge_table(confidence=0.5)["lower"] > table["lower"]).all()
    written = pd.read_csv(network.export(tmp_path / "edges.csv", confidence=0.95))
    np.testing.assert_allclose(written["upper"], table["upper"])
    with pytest.raises(ValueError, match="confidence must lie"):
        network.edge_table(confidence=95)


def test_columns_that_are_nearly_the_same_have_no_interval() -> None:
    rng = np.random.default_rng(0)
    Z = 2 + rng.normal(size=(120, 3)) * [1, 1, 0.1] + np.outer(rng.normal(size=120), [0, 1, 0])
    Z[:, 2] += Z[:, 0] - 2
    table = PLNNetwork(penalty=0.1, select=None).fit(rng.poisson(np.exp(Z))).edge_table(every=True)
    assert table.set_index(["a", "b"])["estimate"].isna().loc[("y0", "y2")]


def test_a_column_hardly_ever_seen_has_no_interval_and_spoils_no_other() -> None:
    Y = drawn(80)
    without = PLNNetwork(penalty=0.1, select=None).fit(Y[:, :3]).edge_table(every=True)
    Y[:, 3] = 3 * (np.arange(80) % 20 == 7)
    table = PLNNetwork(penalty=0.1, select=None).fit(Y).edge_table(every=True)
    assert (table["lower"].isna() == (table["b"] == "y3")).all()
    np.testing.assert_allclose(table["estimate"].dropna(), without["estimate"], atol=1e-2)


def test_columns_that_do_not_vary_have_no_interval() -> None:
    Y = drawn(80)
    Y[:, 1] = 5
    with pytest.warns(UserWarning, match="vary less"):
        model = PLNNetwork(penalty=0.1, select=None).fit(Y)
    table = model.edge_table(every=True)
    assert (table["lower"].isna() == ((table["a"] == "y1") | (table["b"] == "y1"))).all()


def test_too_few_samples_and_too_many_columns_are_refused(monkeypatch: Any) -> None:
    model = PLNNetwork(penalty=0.2, select=None).fit(drawn(50))
    with pytest.raises(DataError, match=r"51 rows or more.*there are 50"):
        model.edge_table()
    monkeypatch.setattr(intervals, "FEWEST", 10)
    monkeypatch.setattr(intervals, "ROOM", 100)
    with pytest.raises(DataError, match="take too long"):
        model.edge_table()


def test_two_networks_differ_pair_by_pair(network: PLNNetwork) -> None:
    """Where an edge was taken away, and nowhere else; columns in another order are the same columns."""
    Y = drawn(250, 4)
    Y[:, :2] = np.column_stack([Y[np.random.default_rng(0).permutation(250), 0], Y[:, 1]])  # a is joined to none
    other = PLNNetwork(penalty=0.2, select=None).fit(pd.DataFrame(Y, columns=list("abcd"))[list("dbca")])
    found = network.difference(other)
    assert found.loc[0, ["a", "b"]].tolist() == ["a", "b"]
    assert found["q_value"].iloc[0] < 0.05
    assert found["q_value"].iloc[1] > 0.05
    one, two = network.edge_table(every=True).iloc[0], other.edge_table(every=True).set_index(["a", "b"]).loc[("b", "a")]
    row = found.iloc[0]
    assert row["first"] == pytest.approx(one["estimate"])
    assert row["second"] == pytest.approx(two["estimate"])
    lower = np.hypot(one["estimate"] - one["lower"], two["upper"] - two["estimate"])
    assert row["lower"] == pytest.approx(row["difference"] - lower)
    error = [np.arctanh(part["upper"]) - np.arctanh(part["estimate"]) for part in (one, two)]
    z = (np.arctanh(one["estimate"]) - np.arctanh(two["estimate"])) / (np.hypot(*error) / stats.norm.ppf(0.975))
    assert row["p_value"] == pytest.approx(2 * stats.norm.sf(abs(z)))
    with pytest.raises(DataError, match=r"same columns.*\['d', 'e'\]"):
        network.difference(PLNNetwork(penalty=0.2, select=None).fit(pd.DataFrame(Y, columns=list("abce"))))


def test_discoveries_are_those_of_benjamini_and_hochberg() -> None:
    p = np.array([0.001, 0.2, 0.03, np.nan, 0.04])
    np.testing.assert_allclose(discoveries(p), [0.004, 0.2, 0.16 / 3, np.nan, 0.16 / 3])


def test_the_page_has_intervals(network: PLNNetwork, tmp_path: Any) -> None:
    text = network.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "without shrinkage" in text
    few = PLNNetwork(penalty=0.1, select=None).fit(drawn(30))
    assert "without shrinkage" not in few.report(tmp_path / "few.html").read_text(encoding="utf-8")
