"""Plots of FEM draw what they say, and return axes."""

import numpy as np
import pytest

from tallies import FEM, FEMNetwork

matplotlib = pytest.importorskip("matplotlib", reason="needs tallies[plots]")
matplotlib.use("Agg")
from tallies.categories import plots  # noqa: E402


def test_plots():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (200, 4))
    model, network = FEM(2, ridge=1.0).fit(X, X[:, 0] == X[:, 1]), FEMNetwork(ridge=1.0, lag=1).fit(X)
    image = plots.plot_weights(model, 2).images[0].get_array()
    assert image.shape == (2, 54)
    np.testing.assert_allclose(image, model.weights_.to_numpy()[13:].T)
    assert plots.plot_couplings(network).images[0].get_array().shape == (12, 12)
    assert plots.plot_network(network, 5) is not None
    assert plots.plot_history(model).lines[0].get_xdata()[-1] == model.n_iter_
    ax = plots.plot_recovery(network.couplings_, network.couplings_ + 0.1)
    assert "RMSE 0.100" in ax.get_title()
    with pytest.raises(ValueError, match="no terms of degree 3"):
        plots.plot_weights(model, 3)
    matplotlib.pyplot.close("all")
