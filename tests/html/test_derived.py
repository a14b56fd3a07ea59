"""The numbers that pages derive from predictions and distances, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from tallies.html import judged
from tallies.html.common import About
from tallies.html.order import alike, plane_of
from tallies.html.page import Page

# six rows: true a a a b b c, called a a b b b c
P = np.array([[0.9, 0.1, 0], [0.995, 0.005, 0], [0.4, 0.6, 0], [0.2, 0.8, 0], [0.01, 0.99, 0], [0.2, 0.2, 0.6]])
PAGE = judged.Judged(["a", "b", "c"], P, np.zeros(6), np.array([0, 0, 0, 1, 1, 2]))


def test_a_guess_is_right_as_often_as_its_class_is_true():
    assert "it is right for 83%; always answering “b” would be right for 33%." in PAGE.lead(About(), 1)
    assert PAGE.numbers(np.array([0.1, 0.8, 0.1]))[1][1] == "33%"  # what the model expects is not what is


def test_mistakes_and_rates_are_shares_of_the_true_class():
    assert PAGE.mistakes() == [("a", "b", 1, "33%")]
    chart = PAGE.confusion()
    np.testing.assert_allclose(chart["values"], [[2 / 3, 1 / 3, 0], [0, 1, 0], [0, 0, 1]])
    # of many classes those with most errors are shown, not those with most rows
    true, called = np.array([0] * 9 + [1, 1, 2, 2]), np.array([0] * 9 + [2, 1, 1, 2])
    assert judged.confusion(["a", "b", "c"], true, called, most=2)["down"] == ["b", "c"]


def test_how_sure_it_was_is_counted_with_the_upper_end():
    chart = PAGE.sureness()
    right, wrong = (dict(zip(chart["labels"], part["values"].tolist(), strict=True)) for part in chart["series"])
    assert right == {"99% to 100%": 1, "95% to 99%": 1, "80% to 90%": 1, "70% to 80%": 1, "50% to 60%": 1}
    assert wrong["50% to 60%"] == 1
    assert "No row was wrong although it was more than 99% sure" in chart["caption"]


def test_scores_for_statisticians():
    page = Page("t", "")
    PAGE.quality(page.section("q", "Quality"))
    text, loss = page.html(), -np.log(P[np.arange(6), PAGE.true])
    shares = np.array([3, 2, 1]) / 6
    assert f"{(shares * np.log(shares)).sum():.3f} without looking" in text
    assert f"± {loss.std(ddof=1) / np.sqrt(6):.3f} nats/row" in text


def test_too_sure_is_said_beyond_the_interval_alone():
    """30 of 40 right: the interval is .60 to .86."""
    y = np.repeat([0, 1], [30, 10])
    for stated, many in ((0.8, 0), (0.9, 1)):
        page = judged.Judged(["a", "b"], np.tile([stated, 1 - stated], (40, 1)), np.zeros(40), y)
        assert len(page.warnings(About(), "", "")) == many


def test_no_model_is_called_shy_by_the_rows_it_was_fitted_to():
    proba = np.tile([0.6, 0.4], (200, 1))
    page = judged.Judged(["a", "b"], proba, np.zeros(200), np.zeros(200, dtype=int))
    said = {held_out: " ".join(page.warnings(About(held_out=held_out), "", "")) for held_out in (True, False)}
    assert "less sure than it could be" in said[True]
    assert "less sure" not in said[False]


def test_rows_and_what_the_model_would_make_are_shares_each():
    chart, _ = judged.surprise(np.array([0.0, 1.0, 2.0, 3.0]), np.linspace(0, 3, 40))
    for curve in chart["series"]:
        assert curve["y"].sum() == pytest.approx(1.0)


def test_a_plane_keeps_the_distances_of_points_in_one():
    Z = np.random.default_rng(0).normal(size=(6, 2)) * [3.0, 1.0]
    distance = np.linalg.norm(Z[:, None] - Z, axis=2)
    found = plane_of(distance)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found, axis=2), distance, atol=1e-9)


def test_opposites_are_not_alike():
    R = np.array([[1, -0.95, 0.3], [-0.95, 1, -0.2], [0.3, -0.2, 1]])
    tree = alike(R)[1]
    assert sorted(tree[0, :2]) == [0, 2]
    assert tree[0, 2] == pytest.approx(0.7)
