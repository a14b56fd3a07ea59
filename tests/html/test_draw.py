"""Every kind of chart is drawn with the data of its description."""

import sys

import numpy as np
import pytest
from scipy.stats import norm, poisson

from tallies.errors import MissingExtra
from tallies.html import charts
from tallies.html.draw import COLOURS, draw
from tallies.html.judged import Judged, confusion, reliability, surprise

matplotlib = pytest.importorskip("matplotlib", reason="needs tallies[plots]")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402

AXIS = charts.axis("a unit")


def colours(artists) -> list[str]:
    return [to_hex(artist.get_facecolor()) for artist in artists]


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text()]


def test_lines():
    x = np.arange(4.0)
    series = [
        {"name": "plain", "x": x, "y": x**2},
        {"name": "with errors", "x": x, "y": x, "low": x - 1, "high": x + 2, "marks": True, "key": 4},
        {"name": "", "x": x, "y": -x, "step": True, "dash": True, "fill": True},
    ]
    more = {"band": [1, 2], "mark": 0.5}
    ax = draw(charts.lines("title", charts.axis("x", [0, 3]), charts.axis("y"), series, [], [], **more))
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), ax.get_xlim()) == ("title", "x", "y", (0, 3))
    mark, plain, errors, steps = ax.lines
    assert mark.get_xdata() == [0.5, 0.5]
    assert ax.patches[0].get_x() == 1 and ax.patches[0].get_width() == 1  # the band
    np.testing.assert_array_equal(plain.get_xydata(), np.column_stack([x, x**2]))
    np.testing.assert_array_equal(errors.get_xydata(), np.column_stack([x, x]))
    bars = np.array(ax.collections[0].get_segments())
    np.testing.assert_array_equal(bars, [[[v, v - 1], [v, v + 2]] for v in x])
    assert (errors.get_color(), errors.get_marker()) == (COLOURS[4], "o")
    np.testing.assert_array_equal(steps.get_ydata(), -x)
    assert (steps.get_drawstyle(), steps.get_linestyle()) == ("steps-post", "--")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["plain", "with errors"]


def test_laws_are_evaluated():
    series = [{"name": "a", "law": "normal", "p": [0.5, 1.0, 2.0]}, {"name": "b", "law": "poisson", "p": [1, 3.0]}]
    ax = draw(charts.lines("", charts.axis("x", [0, 12]), charts.axis("y", zero=True), series, [], []))
    x, p = ax.lines[0].get_data()
    np.testing.assert_allclose(p, 0.5 * norm.pdf(x, 1, 2))
    assert (x[0], x[-1]) == (0, 12)
    x, p = ax.lines[1].get_data()
    np.testing.assert_array_equal(x, np.arange(13))
    np.testing.assert_allclose(p, poisson.pmf(x, 3))
    assert ax.get_ylim()[0] == 0


def test_axes_are_logarithmic_where_it_is_said():
    points = [[1.0, 100.0], [1.0, 1000.0]]
    ax = draw(charts.points("", charts.axis("x", log=True), charts.axis("y", log=True), *points, [0, 0], [], [], [], diagonal=True))
    assert (ax.get_xscale(), ax.get_yscale(), ax.get_xlabel()) == ("log", "log", "x (log scale)")
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[1, 1], [100, 100]])
    assert 0.1 < ax.get_xlim()[0] < 1 and 100 < ax.get_xlim()[1] < 1000  # the data, and a little room
    assert 0.1 < ax.get_ylim()[0] < 1 and 1000 < ax.get_ylim()[1] < 10_000


def test_bars():
    values = np.array([2.0, -1.0])
    ax = draw(charts.bars("t", AXIS, ["for", "against"], [{"name": "", "values": values, "low": values - 1, "high": values + 2}]))
    assert [bar.get_width() for bar in ax.patches] == [2, -1]
    assert [bar.get_y() + bar.get_height() / 2 for bar in ax.patches] == pytest.approx([0, 1])
    assert colours(ax.patches) == [COLOURS[1], COLOURS[0]]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["for", "against"]
    np.testing.assert_allclose([segment[:, 0] for segment in ax.collections[0].get_segments()], [[1, 4], [-2, 1]])
    assert ax.yaxis_inverted()
    assert ax.get_legend() is None


def test_groups_of_bars_and_bars_behind():
    two = [{"name": "a", "values": [1.0, 2.0], "key": 3}, {"name": "b", "values": [3.0, 4.0]}]
    ax = draw(charts.bars("", AXIS, ["x", "y"], two))
    assert [[bar.get_width() for bar in group] for group in ax.containers] == [[1, 2], [3, 4]]
    assert colours([ax.containers[0][0], ax.containers[1][0]]) == [COLOURS[3], COLOURS[1]]
    assert not {bar.get_y() for bar in ax.containers[0]} & {bar.get_y() for bar in ax.containers[1]}
    ax = draw(charts.bars("", AXIS, ["x"], [{"name": "own", "values": [1.0]}], behind={"name": "all", "values": [5.0]}))
    assert [[bar.get_width() for bar in group] for group in ax.containers] == [[5], [1]]


def test_words_stand_as_the_slider_does_at_first():
    chart = charts.bars("", AXIS, [], []) | {"words": ["rare", "common", "absent"], "inside": [4.0, 8.0, 1.0]}
    chart |= {"all": [4.0, 800.0, 1000.0], "most": 2, "slide": {"value": 0.5}, "behindName": "in all"}
    ax = draw(chart)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["rare", "common"]  # log 4 / 2 > log 8 - log 800 / 2
    assert [[bar.get_width() for bar in group] for group in ax.containers] == [[4, 800], [4, 8]]


def test_heat():
    values = np.array([[0.0, 1.0, 0.5], [-1.0, 0.0, 0.25]])
    ax = draw(charts.heat("t", "across", "down", ["a", "b", "c"], ["d", "e"], values, scale="sign", domain=[-1, 1], unit="weight"))
    image = ax.images[0]
    np.testing.assert_array_equal(image.get_array(), values)
    assert (image.get_clim(), image.get_cmap().name) == ((-1, 1), "sign")
    assert image.get_cmap()(0.5)[:3] == pytest.approx((1, 1, 1), abs=0.01)  # white at zero
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["d", "e"]
    assert ax.figure.axes[1].get_ylabel() == "weight"
    told = [["0", "", "0.5"], ["-1", "", "0.25"]]
    ax = draw(charts.heat("t", "x", "y", ["a", "b", "c"], ["d", "e"], values, told, told))
    assert [(text.get_position(), text.get_text()) for text in ax.texts] == [
        ((0, 0), "0"),
        ((2, 0), "0.5"),
        ((0, 1), "-1"),
        ((2, 1), "0.25"),
    ]
    many = [str(i) for i in range(100)]
    assert not len(draw(charts.heat("", "", "", many, many, np.zeros((100, 100)))).get_xticklabels())


def test_points_by_group_with_everything():
    px, py = np.array([1.0, 2.0, 3.0]), np.array([0.0, 5.0, 1.0])
    more = {
        "outlines": [{"key": 1, "x": np.array([0.0, 4.0, 4.0]), "y": np.array([0.0, 0.0, 6.0])}],
        "legend": [{"key": 0, "name": "first"}, {"key": 1, "name": "second"}],
        "arrows": [{"x": 2.0, "y": -1.0, "text": "arrow"}],
        "names": [{"x": 1.0, "y": 1.0, "text": "name", "key": 0}],
        "rings": [0, 1, 0],
    }
    ax = draw(charts.points("", AXIS, AXIS, px, py, [0, 1, 0], [], [], [], equal=True, **more))
    first, second, ringed = ax.collections
    np.testing.assert_array_equal(first.get_offsets(), [[1, 0], [3, 1]])
    np.testing.assert_array_equal(second.get_offsets(), [[2, 5]])
    np.testing.assert_array_equal(ringed.get_offsets(), [[2, 5]])
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0, 0], [4, 0], [4, 6], [0, 0]])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["second", "first"]
    assert texts(ax) == ["arrow", "name"]
    arrow = next(text for text in ax.texts if not text.get_text())
    assert (arrow.xy, arrow.xyann) == ((2, -1), (0, 0))
    assert ax.get_aspect() == 1


def test_points_by_amount_and_by_size():
    px, py = [0.0, 1.0], [2.0, 3.0]
    ax = draw(charts.points("", AXIS, AXIS, px, py, [0, 0], [], [], [], values=[5.0, np.nan], amount="metres"))
    np.testing.assert_array_equal(ax.collections[0].get_array().filled(np.nan), [5, np.nan])
    assert ax.figure.axes[1].get_ylabel() == "metres"
    ax = draw(charts.points("", AXIS, AXIS, px, py, [0, 0], [], [], [], sizes=np.array([1.0, 0.25]), words=["large", "small"]))
    sizes = ax.collections[0].get_sizes()
    assert sizes[0] == 4 * sizes[1]
    assert [(text.get_position(), text.get_text()) for text in ax.texts] == [((0, 2), "large"), ((1, 3), "small")]


@pytest.mark.parametrize("directed", [False, True])
def test_links(directed):
    links = [{"a": 0, "b": 2, "w": 1.0, "colour": 1}, {"a": 1, "b": 2, "w": 0.5}]
    more = {"words": list("abc"), "directed": directed, "bare": True}
    ax = draw(charts.points("", AXIS, AXIS, [0.0, 1.0, 0.0], [1.0, 0.0, -1.0], [0] * 3, [], [], [], links=links, **more))
    drawn = [text for text in ax.texts if not text.get_text()]
    assert [(text.xyann, text.xy) for text in drawn] == [((0, 1), (0, -1)), ((1, 0), (0, -1))]
    assert [text.arrow_patch.get_linewidth() for text in drawn] == pytest.approx([3.3, 1.8])
    assert [to_hex(text.arrow_patch.get_edgecolor()) for text in drawn] == [COLOURS[1], COLOURS[0]]
    assert ("->" in type(drawn[0].arrow_patch.get_arrowstyle()).arrow) is directed
    assert texts(ax) == ["a", "b", "c"]
    assert not ax.axison
    assert ax.get_xlim()[0] < -0.1 and ax.get_xlim()[1] > 1.12  # words around the ring have room


def test_a_chart_that_follows_shows_the_item_or_none():
    views = [charts.bars(name, AXIS, ["x"], [{"name": "", "values": [v]}]) for name, v in (("first", 1.0), ("second", 2.0))]
    none = charts.bars("nothing", AXIS, ["x"], [{"name": "", "values": [9.0]}])
    chart = charts.follow("topic", views, none)
    for item, title, value in ((None, "nothing", 9), (0, "first", 1), (1, "second", 2)):
        ax = draw(chart, item=item)
        assert (ax.get_title(), ax.patches[0].get_width()) == (title, value)
    ours = pyplot.subplots()[1]
    assert draw(chart, ours) is ours


def test_confusion_shows_the_classes_with_most_errors():
    true, called = np.array([0, 0, 1, 1, 2, 2, 2]), np.array([0, 0, 1, 2, 2, 2, 1])
    chart = confusion(["a", "b", "c"], true, called, most=2)
    assert chart["across"] == ["b", "c"]
    np.testing.assert_allclose(draw(chart).images[0].get_array(), [[1 / 2, 1 / 2], [1 / 3, 2 / 3]])
    assert "The 2 of 3 classes" in chart["caption"]


def test_reliability_and_surprise_are_those_of_a_page():
    rng = np.random.default_rng(0)
    proba, y = rng.dirichlet([0.5, 0.5], 200), rng.integers(0, 2, 200)
    judged = Judged(["a", "b"], proba, rng.normal(size=200), y)
    for k, view in enumerate(judged.calibration()["views"]):
        ours = reliability(proba[:, k], y == k, "ab"[k], k)
        np.testing.assert_array_equal(ours["rows"], view["rows"])
        np.testing.assert_array_equal(draw(view).lines[1].get_xydata(), np.array(view["rows"])[:, :2])
    own = rng.normal(size=500)
    (page, say), (chart, below) = judged.surprise(own, np.arange(200)), surprise(judged.log_p, own)
    assert say.startswith(f"{below:.1%} of the rows")
    assert below == np.mean(judged.log_p < np.quantile(own, 0.01))
    assert judged.surprise(own - 99.0, np.arange(200))[1].startswith("No row is less probable")
    for mine, theirs, line in zip(chart["series"], page["series"], draw(page).lines[1:], strict=True):
        np.testing.assert_array_equal(mine["y"], theirs["y"])
        np.testing.assert_array_equal(line.get_ydata(), theirs["y"])
        assert sum(mine["y"]) == pytest.approx(1)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[plots\]'"):
        draw(charts.bars("", AXIS, ["x"], [{"name": "", "values": [1.0]}]))
