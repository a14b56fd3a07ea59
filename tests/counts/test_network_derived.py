"""What is derived from a network of counts: criteria, instability, probabilities, its path; each against its definition."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tallies import PLNNetwork
from tallies.counts.fitted import Path
from tallies.counts.network import answers
from tallies.counts.network.plan import Choice, _support, choose, criterion, grid

Y = np.random.default_rng(0).poisson(np.exp(1 + np.random.default_rng(1).normal(size=(60, 5)) @ (np.eye(5) + 0.6 * np.eye(5, k=1))))
CHOICE = Choice(None, 5, 0.1, "stability", False, False, None, 10, 0.05, 0.5)


@pytest.fixture(scope="module", params=[True, False])
def model(request):
    return PLNNetwork(penalty=0.15, select=None, joint=request.param).fit(Y)


def test_partial_correlations_are_those_of_regressions(model):
    """Of the residuals of two columns after all others, by the covariance that the network says."""
    S, R = model.covariance_, model.partial_correlation_
    for j, k in ((0, 1), (1, 2), (0, 4)):
        rest = [i for i in range(5) if i not in (j, k)]
        left = S[np.ix_([j, k], [j, k])] - S[np.ix_([j, k], rest)] @ np.linalg.solve(S[np.ix_(rest, rest)], S[np.ix_(rest, [j, k])])
        assert R[j, k] == pytest.approx(left[0, 1] / np.sqrt(left[0, 0] * left[1, 1]), abs=1e-9)
    assert (np.diagonal(R) == 1).all()


def test_criteria_count_every_edge_once(model):
    edges = len(model.edges_)
    assert 0 < edges < 10
    k = 5 + 5 + edges  # intercepts, variances, pairs
    assert model.bic_ == pytest.approx(-2 * model.loglik_ + k * np.log(60))
    assert model.ebic_ == pytest.approx(model.bic_ + 2 * edges * np.log(5))
    path = Path(np.array([0.2, 0.1]), np.array([3, 7]), np.array([-50.0, -40.0]), None)
    wanted = [100 + (2 * 5 + 5 + 3) * np.log(60) + 6 * np.log(5), 80 + (2 * 5 + 5 + 7) * np.log(60) + 14 * np.log(5)]
    np.testing.assert_allclose(criterion(path, 2, 5, 60.0, 0.5), wanted)


def test_a_network_of_most_pairs_is_not_called_stable():
    path = Path(np.array([0.3, 0.2, 0.1]), np.array([1, 4, 9]), None, np.array([0.01, 0.04, 0.02]))
    assert choose(path, CHOICE, 1, 5, 60.0) == 1


def test_a_path_begins_where_weighted_penalties_leave_no_edge():
    S = np.array([[1.0, 0.4, 0.3], [0.4, 1.0, 0.1], [0.3, 0.1, 1.0]])
    weights = np.array([[0, 4, 1], [4, 0, 0.2], [1, 0.2, 0]])
    found = grid(S, CHOICE._replace(weights=weights))  # .4 / 4, .3 / 1 and .1 / .2
    np.testing.assert_allclose(found, np.geomspace(0.5, 0.05, 5))


def test_probabilities_are_of_the_subsamples_that_were_drawn():
    """Cut in the fifth of twelve: shares of four, which differ between subsamples."""
    model = PLNNetwork(n_subsamples=12, n_penalties=4)
    model.fit(Y, callback=lambda stage, state: stage.name.startswith("subsample 5"))
    P = model.selection_probability_[np.triu_indices(5, 1)]
    np.testing.assert_array_equal(P * 4, np.round(P * 4))
    assert ((P > 0) & (P < 1)).any()
    np.testing.assert_array_equal(model.support_ * 32, np.round(model.support_ * 32))  # four penalties, four subsamples, a half
    at = model.path_["chosen"].to_numpy().argmax()
    assert model.path_["instability"][at] == pytest.approx(np.mean(2 * P * (1 - P)))


@pytest.mark.parametrize("joint", [True, False])
def test_support_is_how_early_and_how_often(joint):
    """By fits at each penalty of the path alone, which have the same subsamples; an edge that leaves again had entered."""
    penalties, upper = [0.3, 0.2, 0.1, 0.05], np.triu_indices(5, 1)
    path = PLNNetwork(penalty=penalties, n_subsamples=6, joint=joint, instability=0.2).fit(Y)
    alone = [PLNNetwork(penalty=rho, n_subsamples=6, joint=joint).fit(Y) for rho in penalties]
    there = np.array([found.precision_[upper] != 0 for found in alone])
    often = np.array([found.selection_probability_[upper] for found in alone])
    early = np.array([there[: k + 1].any(axis=0) for k in range(4)])
    np.testing.assert_allclose(path.support_[upper], (early.mean(axis=0) + often.mean(axis=0)) / 2)
    np.testing.assert_allclose(alone[1].support_[upper], (there[1] + often[1]) / 2)
    assert 0 < path.support_[upper].min() < path.support_.max() <= 1
    table, place = path.edge_table(every=True), {f"y{j}": j for j in range(5)}
    for column, found in (("probability", path.selection_probability_), ("support", path.support_)):
        wanted = [found[place[a], place[b]] for a, b in zip(table["a"], table["b"], strict=True)]
        np.testing.assert_array_equal(table[column], wanted)


def test_what_leaves_the_path_has_entered_it():
    """Pairs 0-1 at the second of four penalties, 0-2 at the third alone, 1-2 never; f is 1/2, 1/4 and 0 everywhere."""
    joined = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 0, 0]], dtype=bool)
    found = _support(joined, np.tile([0.5, 0.25, 0.0], (4, 1)), np.triu_indices(3, 1), 3)
    np.testing.assert_allclose(found, [[0, 0.625, 0.375], [0.625, 0, 0], [0.375, 0, 0]])


def test_the_bound_of_a_fit_has_no_penalty_in_it(model):
    """Rows of a joint fit pay for the scale of their columns, which the bound of new rows does not: a little less, never more."""
    less = model.log_prob(Y).sum() - model.loglik_
    theta = np.abs(model.precision_ * np.sqrt(np.outer(np.diagonal(model.covariance_), np.diagonal(model.covariance_))))
    penalty = 0.5 * 60 * 0.15 * (theta.sum() - np.trace(theta))
    assert -1e-3 < less < (0.02 * penalty if model.joint else 1e-3)


def test_the_bounds_of_a_path_are_those_of_fits_at_its_penalties():
    path = PLNNetwork(penalty=[0.3, 0.1], select="bic", joint=True, tol=1e-12).fit(Y).path_
    assert path["edges"].iloc[1] > 0
    for row in path.itertuples():
        given = PLNNetwork(penalty=row.penalty, select=None, joint=True, tol=1e-12).fit(Y)
        assert row.loglik == pytest.approx(given.loglik_, rel=1e-6)


def test_edges_of_a_network_by_hand():
    """Probabilities go both ways, an edge of just the probability asked for is there, neighbours are sorted by strength alone."""
    Omega = np.array([[1.0, 0.5, -0.2], [0.5, 1.0, 0.0], [-0.2, 0.0, 1.0]])
    graph = SimpleNamespace(Omega=Omega, pairs=np.array([[0, 1], [0, 2]]), probability=np.array([0.7, 0.9]), support=None)
    fitted = SimpleNamespace(graph=graph, columns=np.array(["a", "b", "c"], dtype=object))
    np.testing.assert_array_equal(answers.probabilities(fitted), [[0, 0.7, 0.9], [0.7, 0, 0], [0.9, 0, 0]])
    assert answers.likely(fitted, 0.9)["b"].tolist() == ["c"]
    assert len(answers.likely(fitted, 0.7)) == 2
    with pytest.raises(ValueError, match="probability must lie between 0 and 1, got 90"):
        answers.likely(fitted, 90)
    found = answers.neighbours(fitted, "a")
    assert found["neighbour"].tolist() == ["b", "c"]
    np.testing.assert_allclose(found["partial_correlation"], [-0.5, 0.2])
    graph.probability, graph.support = np.array([0.7, 0.7]), np.array([[0, 0.4, 0.6], [0.4, 0, 0.1], [0.6, 0.1, 0]])
    assert answers.edges(fitted)[["b", "support"]].values.tolist() == [["c", 0.6], ["b", 0.4]]
    graph.support = None
    assert answers.edges(fitted)["b"].tolist() == ["b", "c"]
