"""The page of a Poisson log-normal model."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from tallies import PLN
from tallies.counts import views as counts
from tallies.counts.answers import positions, residuals
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
    assert page.lead.startswith("6 species in 80 samples: ")
    assert "The covariates explain" in page.lead
    found = titles(page)
    for title in ("Where the samples lie, by height", "Which species go together", "Strongest pairs", "Effect of height"):
        assert title in found
    assert {"Coefficients", "Correlations", "Expected and observed counts", "Residuals"} <= set(found)


def test_the_first_screen_is_for_readers_and_criteria_come_later(fitted):
    """Groups of species and effects as factors stand first; likelihoods and criteria in a section of their own."""
    model, Y, X, *_ = fitted
    page = build(model, Y, X)
    head = " ".join([page.lead, *page.findings])
    assert "rise and fall together (mean correlation" in head
    assert re.search(
        r"Effect of height, a standard deviation \([\d.]+\) more: the surest are species \d x[\d.]+ \([\d.]+ to [\d.]+\)", head
    )
    assert not page.numbers
    for word in ("BIC", "ICL", "likelihood", "bound"):
        assert word not in head
    keys = [section.key for section in page.sections]
    assert keys.index("learned") < keys.index("effects") < keys.index("quality") < keys.index("statisticians")
    later = "".join(next(section for section in page.sections if section.key == "statisticians").parts)
    assert all(word in later for word in ("Log likelihood", "AIC", "BIC", "ICL"))


def test_groups_are_those_of_the_correlations():
    R = np.eye(7)
    for a, b, r in ((0, 1, 0.9), (0, 2, 0.8), (1, 2, 0.7), (3, 4, 0.6), (0, 3, -0.5), (5, 6, 0.3)):
        R[a, b] = R[b, a] = r
    found = counts.groups(R, np.ones(7, dtype=bool))
    assert [sorted(group.members.tolist()) for group in found] == [[0, 1, 2], [3, 4]]
    assert found[0].members[0] == 0  # goes with the others most
    assert [group.within for group in found] == pytest.approx([0.8, 0.6])
    means = counts.between(R, [group.members for group in found])
    assert means.tolist() == [pytest.approx([0.8, -0.5 / 6]), pytest.approx([-0.5 / 6, 0.6])]
    assert counts.groups(R, np.arange(7) != 1)[0].within == pytest.approx(0.8)  # what is seldom counted makes no group
    assert counts.clusters(R, list("abcdefg"), found)["down"] == ["1: a and 2 others", "2: d and 1 other"]
    assert counts.clusters(R, list("abcdefg"), found[:1]) is None
    chart = counts.correlations(R, list("abcdefg"))
    assert np.isnan(np.diagonal(chart["values"])).all()  # 1 by definition: nothing to see


def test_residuals_are_normal_where_the_model_is_true_and_not_elsewhere():
    rng = np.random.default_rng(0)
    Y = rng.poisson(np.exp(rng.normal(2, 0.7, (300, 4))))
    found = residuals(PLN(covariance="diagonal").fit(Y).fitted_, most=2000)
    assert len(found.value) == found.cells == 1200
    assert abs(found.value.mean()) < 0.1
    assert found.value.std() == pytest.approx(1, abs=0.06)
    np.testing.assert_array_equal(found.observed, Y[found.row, found.column])
    assert len(residuals(PLN(covariance="diagonal").fit(Y).fitted_, most=100).value) == 100
    Y[:, 0] = np.where(rng.random(300) < 0.5, 2, 60)  # two kinds of samples: no log-normal has them
    worse = residuals(PLN(covariance="diagonal").fit(Y).fitted_, most=2000)
    chance = [kstest(worse.value[worse.column == j], "norm").pvalue for j in (0, 1)]
    assert chance[0] < 1e-6 < chance[1]
    chart = counts.residuals(found, list("abcd"), [f"s{i}" for i in range(300)])
    assert "All 1,200 cells" in chart["caption"]
    assert chart["rows"][0][:2] == ["a", "s0"]


def test_no_count_surprises_by_the_draw_of_its_residual():
    """A count of 0 where next to none is expected may draw any residual below its own, and is no surprise."""
    rng = np.random.default_rng(3)
    Y = rng.poisson(np.exp(np.column_stack([rng.normal(-2.5, 0.5, (400, 3)), rng.normal(2, 0.5, 400)])))
    Y[0, 3] = 400
    model = PLN(covariance="diagonal").fit(pd.DataFrame(Y, columns=list("abcd")))
    found = residuals(model.fitted_)
    assert found.value[found.observed == 0].min() < -2.5 < -0.5 < found.least[(found.observed == 0) & (found.column < 3)].min()
    assert (np.abs(found.least) <= np.abs(found.value) + 1e-9).all() and (found.least * found.value >= 0).all()
    listed = build(model).html().split("The counts that surprise most")[1].split("</table>")[0]
    assert re.search(r"<td[^>]*>400</td>", listed)
    assert not [row for row in re.findall(r"<tr>(.*?)</tr>", listed, re.S) if re.search(r">[abc]</td>.*>0</td>", row, re.S)]


def test_effects_of_a_formula_are_told_in_words_in_the_order_of_what_is_shown():
    rng = np.random.default_rng(5)
    trees = pd.DataFrame({"tree": rng.choice(["ash", "beech", "oak"], 120)})
    effect = np.where(trees["tree"] == "oak", 1.0, 0.0)[:, None] * np.array([0.5, 2.0, 1.0])
    counts_ = pd.DataFrame(rng.poisson(np.exp(np.array([4, 0, 3]) + effect)), columns=["many", "few", "some"])
    page = build(PLN.from_formula("~ 1 + tree", counts_, trees), counts_, trees)
    oak = next(text for text in page.findings if text.startswith("Effect of tree: oak rather than ash: "))
    shown = [abs(np.log(float(found))) for found in re.findall(r" x([\d.]+) ", oak)]
    assert len(shown) == 3 and shown == sorted(shown, reverse=True)
    assert "Effect of tree: oak rather than ash" in titles(page) or "tree: oak rather than ash" in page.html()
    assert "[T." not in page.html().split('id="data"')[0].split("What was fitted on what")[0]


def test_a_lead_that_passes_over_larger_effects_says_why():
    """A rare species may respond more than a common one, and less surely."""
    rng = np.random.default_rng(5)
    x = np.repeat([0.0, 1.0], 60)[:, None]
    counts_ = pd.DataFrame(rng.poisson(np.exp([5.0, 5.0, 5.0, -1.0] + x * [1.0, 1.0, 1.0, 2.0])), columns=["a", "b", "c", "rare"])
    page = build(PLN(intercept=True).fit(counts_, covariates=pd.DataFrame(x, columns=["wet"])))
    told = next(text for text in page.findings if text.startswith("Effect of wet"))
    assert "rare x" not in told and "4 of 4 species respond clearly" in told
    assert told.startswith("Effect of wet: the surest are ")


def test_names_are_not_capitalised_and_what_is_asked_for_is_coloured(fitted):
    model, Y, X, *_ = fitted
    page = build(model, colour={"wetness": np.arange(80.0)})
    assert "Where the samples lie, by wetness" in titles(page)  # open at once
    assert "Species 0" not in page.html()
    named = PLN().fit(Y.set_axis([f"plot{i}" for i in range(80)]), covariates=X.set_axis([f"plot{i}" for i in range(80)]))
    assert "plot7" in build(named).html()  # names of the samples are those of the counts


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
    later = "".join(next(section for section in page.sections if section.key == "statisticians").parts)
    assert "Log likelihood of a sample it had not seen" in later
    assert "bound" in later


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
    assert chart["views"][0]["values"][0] is None  # hollow
    assert "hollow" in chart["views"][0]["caption"]


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


def test_a_missing_count_is_no_zero():
    Y, *_ = made(60)
    Y = Y.where(np.random.default_rng(0).random(Y.shape) > 0.2, 0).astype(float)
    Y.iloc[:5, 0] = np.nan
    zeros = int((Y == 0).to_numpy().sum())
    page = build(PLN(zero_inflation="global").fit(Y))
    assert any(f"Of {zeros:,} zeros about" in text for text in page.findings)
