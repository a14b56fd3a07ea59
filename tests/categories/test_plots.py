"""Plots of FEM draw what they say, and return axes."""

import numpy as np
import pytest

from tallies import FEM, FEMNetwork

matplotlib = pytest.importorskip("matplotlib", reason="needs tallies[plots]")
matplotlib.use("Agg")
from matplotlib.colors import to_hex  # noqa: E402

from tallies.categories import plots  # noqa: E402
from tallies.html.draw import COLOURS  # noqa: E402


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).integers(0, 3, (200, 4))


@pytest.fixture(scope="module")
def model(X):
    return FEM(degree=2, ridge=1.0).fit(X, X[:, 0] == X[:, 1])


@pytest.fixture(scope="module", params=[0, 1])
def network(X, request):
    Y = X.copy()
    Y[1:, 2] = Y[:-1, 1] if request.param else Y[1:, 1]
    return FEMNetwork(ridge=1.0, lag=request.param).fit(Y)


def labels(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def test_weights(model):
    for degree, rows in ((1, slice(1, 13)), (2, slice(13, None))):
        ax = plots.plot_weights(model, degree)
        image = ax.images[0].get_array()
        np.testing.assert_allclose(image, model.weights_.to_numpy()[rows].T)
        assert labels(ax.xaxis) == model.weights_.index[rows].tolist()
        assert labels(ax.yaxis) == [str(c) for c in model.weights_.columns]
        ends = [3, 6, 9] if degree == 1 else [9, 18, 27, 36, 45]
        assert [line.get_xdata()[0] for line in ax.lines] == [end - 0.5 for end in ends]
    assert image.shape == (2, 54)
    with pytest.raises(ValueError, match="no terms of degree 3"):
        plots.plot_weights(model, 3)


def test_couplings(network):
    ax = plots.plot_couplings(network)
    image = ax.images[0]
    assert image.get_array().shape == (12, 12)
    np.testing.assert_array_equal(image.get_array(), network.couplings_)
    assert image.get_clim()[1] == -image.get_clim()[0] == np.abs(network.couplings_).max()
    assert labels(ax.yaxis)[:4] == ["x0=0", "x0=1", "x0=2", "x1=0"]


def test_couplings_of_many_states_name_variables():
    X = np.random.default_rng(0).integers(0, 30, (600, 3))
    network = FEMNetwork(ridge=1.0).fit(X)
    ax = plots.plot_couplings(network)
    assert labels(ax.xaxis) == list(network.categories_.names)
    assert ax.get_xticks().tolist() == [14.5, 44.5, 74.5]


def test_network(network):
    ax = plots.plot_network(network, 5)
    table, names = network.top_couplings(5), list(network.categories_.names)
    assert [text.get_text() for text in ax.texts if text.get_text()] == names
    place = np.asarray(ax.collections[0].get_offsets())
    np.testing.assert_allclose(np.hypot(*place.T), 1)
    lines = {(tuple(text.xyann), tuple(text.xy)): text.arrow_patch for text in ax.texts if not text.get_text()}
    wanted = table[(table["score"] > 0) & (table["a"] != table["b"])]
    assert len(lines) == len(wanted) > 0
    for row in wanted.itertuples():
        patch = lines[tuple(place[names.index(row.a)]), tuple(place[names.index(row.b)])]
        assert patch.get_linewidth() == pytest.approx(0.3 + 3 * row.score / wanted["score"].max())
        assert to_hex(patch.get_edgecolor()) == COLOURS[int(row.coupling > 0)]
        assert ("->" in type(patch.get_arrowstyle()).arrow) is bool(network.lag)


def test_history(model):
    (line,) = plots.plot_history(model).lines
    assert line.get_xdata()[-1] == model.n_iter_
    np.testing.assert_array_equal(line.get_ydata(), model.history_)


def test_recovery(network):
    truth, inferred = network.couplings_, network.couplings_ + 0.1
    ax = plots.plot_recovery(truth, inferred)
    assert "RMSE 0.100" in ax.get_title()
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), np.column_stack([truth.ravel(), inferred.ravel()]))
    x, y = ax.lines[0].get_data()
    np.testing.assert_array_equal(x, y)
    with pytest.raises(ValueError, match="same number of couplings"):
        plots.plot_recovery([1.0], [1.0, 2.0])


def test_combinations_effects_and_explanations(model, X):
    top = model.interactions(1).iloc[0]
    ax = plots.plot_combinations(model)
    where, to = top["strongest"].split(" -> ")
    assert labels(ax.yaxis)[0] == f"{to} ← {where}"
    assert ax.patches[0].get_width() == pytest.approx(top["weight"])
    with pytest.raises(ValueError, match="no terms of degree 5"):
        plots.plot_combinations(model, 5)
    ax = plots.plot_effect(model, "x1", True)
    np.testing.assert_allclose(ax.images[0].get_array()[0], [model.effect(x1=s)["True"] for s in range(3)])
    for wrong in (("x9", True), ("x1", "maybe")):
        with pytest.raises(ValueError, match="there is no"):
            plots.plot_effect(model, *wrong)
    ax = plots.plot_explanation(model, X[:1])
    parts = model.explain(X[:1])
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(parts["contribution"].sum())
    with pytest.raises(ValueError, match="one row, got 2"):
        plots.plot_explanation(model, X[:2])
    with pytest.raises(ValueError, match="none was tried"):
        plots.plot_path(model)
