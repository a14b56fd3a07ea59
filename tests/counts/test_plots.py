"""Plots of PLN are drawn and return axes."""

import numpy as np
import pytest

from tallies.counts.estimator import PLN
from tallies.errors import DataError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.mark.parametrize("rank", [None, 2])
def test_every_plot_returns_its_axes(rank):
    from matplotlib import pyplot

    from tallies.counts import plots as pln

    rng = np.random.default_rng(0)
    Y = rng.poisson(np.exp(rng.normal(1, 1, (40, 2)) @ rng.normal(size=(2, 5)) * 0.5 + 1))
    model = PLN(rank=rank, random_state=0).fit(Y)
    axes = [
        pln.plot_latent(model, colours=np.arange(40) % 2),
        pln.plot_latent(model, colours=np.array(["a", "b"])[np.arange(40) % 2]),
        pln.plot_biplot(model),
        pln.plot_correlation_circle(model, columns=[0, 1]),
        pln.plot_expected(model),
        pln.plot_history(model),
        pln.plot_coefficients(model),
    ]
    assert all(hasattr(ax, "figure") for ax in axes)
    arrows = pln.positions(model)[1] / np.sqrt(model.covariance_.diagonal())[:, None]
    assert (np.hypot(*arrows.T) < 1.2).all()
    pyplot.close("all")


def test_one_dimension_has_no_plane():
    from tallies.counts import plots as pln

    Y = np.random.default_rng(0).poisson(3.0, (20, 4))
    with pytest.raises(DataError, match="two latent dimensions"):
        pln.plot_latent(PLN(rank=1, random_state=0).fit(Y))
