"""The page of a Poisson log-normal model."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from tallies import PLN
from tallies.counts import views as counts
from tallies.counts.answers import positions
from tallies.html import build

EVIL = '<script>alert("x")</script>'


def made(n=80, p=6, seed=0):
    rng = np.random.default_rng(seed)
    C = rng.normal(size=(p, 2)) * 0.8
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    B = np.vstack([np.full(p, 1.5), rng.normal(size=p) * 0.5])
    Y = rng.poisson(np.exp(X @ B + rng.normal(size=(n, 2)) @ C.T))
    names = [f"species {j}" for j in range(p)]
    return pd.DataFrame(Y, columns=names), pd.DataFrame(X, columns=["intercept", "height"]), B, C @ C.T


@pytest.fixture(scope="module")
def fitted():
    Y, X, B, Sigma = made()
    return PLN().fit(Y, covariates=X), Y, X, B, Sigma


def data_of(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])


def titles(page) -> list[str]:
    return [c["title"] for c in data_of(page.html())["charts"]]


def test_page_says_what_was_found(fitted):
    model, Y, X, B, Sigma = fitted
    page = build(model, Y, X, truth={"coefficients": B, "covariance": Sigma})
    assert page.lead.startswith("A Poisson log-normal model of 6 species in 80 samples")
    assert "The covariates explain" in page.lead
    found = titles(page)
    for title in ("Where the samples lie, by height", "Which species go together", "Strongest pairs", "Effect of height"):
        assert title in found
    assert {"Coefficients", "Correlations", "Expected and observed counts"} <= set(found)
    assert any(value.startswith("-") or value[0].isdigit() for what, value, _ in page.numbers if what == "BIC")


def test_samples_times_arrows_are_the_latent_values(fitted):
    """In the plane of most variance the inner products give back what two components give."""
    model = fitted[0]
    Z, A, _, share = positions(model.fitted_)
    residual = model.latent_mean_ - model.design_ @ model.coefficients_
    assert share.sum() > 0.8
    assert np.corrcoef((Z @ A.T).ravel(), residual.ravel())[0, 1] > 0.95
    ranked = PLN(rank=2, random_state=0).fit(fitted[1], covariates=fitted[2])
    Z, A, *_ = positions(ranked.fitted_)
    np.testing.assert_allclose(Z @ A.T, ranked.latent_mean_ @ ranked.components_.T, atol=1e-10)


def test_new_counts_are_scored_with_their_kind(fitted):
    model, *_ = fitted
    Y, X, *_ = made(seed=1)
    page = build(model, Y, X, held_out=True)
    assert "it had not seen" in page.lead
    assert "(bound)" in page.lead


def test_ranks_are_compared(fitted):
    _, Y, X, *_ = fitted
    ranks = PLN.over_ranks([1, 2], Y, covariates=X, random_state=0)
    page = build(ranks["model"].iloc[0], ranks=ranks)
    assert "Which rank?" in titles(page)


def test_colours_have_gaps_words_and_odd_names(fitted):
    model, *_ = fitted
    gaps = np.where(np.arange(80) % 9 == 0, np.nan, np.arange(80.0))
    words = np.array([EVIL, "名前"], dtype=object)[np.arange(80) % 2]
    html = build(model, colour={"gaps": gaps, EVIL: words}, names=[EVIL] * 80).html()
    assert EVIL not in html
    chart = next(c for c in data_of(html)["charts"] if c.get("by") == "colour")
    assert len(chart["views"]) == 3
    assert chart["views"][1]["values"][0] is None  # hollow
    assert "hollow" in chart["views"][1]["caption"]


def test_many_species_are_grouped_and_few_are_warned_of():
    rng = np.random.default_rng(0)
    R = np.kron(np.eye(5), np.full((50, 50), 0.8)) + 0.2 * np.eye(250)
    chart = counts.correlations(R, [f"s{j}" for j in range(250)])
    assert len(chart["values"]) <= counts.CLUSTERS
    assert "250 species in" in chart["caption"]
    Y = rng.poisson(np.exp(rng.normal(size=(40, 3))))
    Y[:, 2] = 0
    Y[0, 2] = 1
    page = build(PLN().fit(Y))
    assert any("counted fewer than 10 times" in text for text in page.warnings)
    build(PLN().fit(Y[:, :1])).html()  # one species


def test_a_saved_model_has_the_page_of_the_fit(fitted, tmp_path):
    from tallies import load

    model = load(fitted[0].save(tmp_path / "model.tallies") or tmp_path / "model.tallies")
    assert titles(build(model)) == titles(build(fitted[0]))
    assert "Expected and observed counts" in titles(build(model))
