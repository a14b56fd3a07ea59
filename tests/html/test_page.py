"""Reports as text: nothing from data is run, nothing is fetched, and odd data are told in words rather than by a crash."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from tallies import GDA, NaiveBayes
from tallies.bayes import plane_views as plane
from tallies.bayes.marginals import Column, bits_needed, columns_of, information
from tallies.bayes.odd_views import odd_values
from tallies.bayes.why_views import contrast
from tallies.datasets import birds, load, names
from tallies.errors import DataError
from tallies.html import build, charts, write
from tallies.html.common import About, cautions, plain_page, statisticians
from tallies.html.judged import Judged
from tallies.html.page import Page
from tallies.registry import rooms

EVIL = '<script>alert("x")</script>'


def chart_data(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])


def two_classes(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(["a", "b"], n // 2)
    return rng.normal(size=(n, d)) + 2.0 * (y == "b")[:, None], y


class Tags(HTMLParser):
    """Every tag with its attributes, as a browser would find them."""

    def __init__(self, html: str):
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def evil_page() -> str:
    X, y = two_classes()
    frame = pd.DataFrame({EVIL: X[:, 0], "ok": np.where(X[:, 1] > 0, EVIL, "plain"), 'x" onload="y': X[:, 2]})
    labels = np.where(y == "a", EVIL, "</style>&amp;'\"")
    frame.index = [f"{EVIL} {i}" for i in range(len(frame))]
    return build(NaiveBayes().fit(frame, labels), frame, labels, title=EVIL, data_name=EVIL, note=EVIL, command=EVIL).html()


def test_text_from_data_is_shown_and_never_run(evil_page):
    tags = Tags(evil_page).found
    assert [a.get("type") for t, a in tags if t == "script"] == ["application/json", None, None, None]
    assert sum(t == "style" for t, _ in tags) == 1
    assert not any(key.startswith("on") for _, a in tags for key in a)
    assert EVIL not in evil_page
    assert chart_data(evil_page)["picks"][0]["items"][1] == EVIL  # told as it is


def test_policy_names_the_scripts_and_forbids_the_rest(evil_page):
    import base64
    import hashlib

    policy = next(a["content"] for t, a in Tags(evil_page).found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", evil_page, re.S)
    assert len(scripts) == 3
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy


def test_nothing_points_elsewhere(evil_page):
    assert "http://" not in evil_page
    assert "https://" not in evil_page
    for tag, attributes in Tags(evil_page).found:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form") or tag == "form"
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    assert "@import" not in evil_page
    assert "url(" not in evil_page.lower().replace("url.createobjecturl(", "").replace("url.revokeobjecturl(", "").replace(
        "todataurl(", ""
    )


def test_first_sentence_is_made_from_the_fit():
    data = load("iris")
    fit = np.arange(len(data.y)) % 2 == 0
    page = build(GDA().fit(data.X[fit], data.y[fit]), data.X[~fit], data.y[~fit], held_out=True)
    by = "mostly by petal width (cm) and petal length (cm)."
    assert page.lead.startswith(f"It learned from 75 rows to tell “setosa”, “versicolor” and “virginica” apart, {by}")
    assert "On 75 rows it had not seen it is right for" in page.lead
    assert "would be right for 33%" in page.lead
    assert page.warnings == []


def test_no_class_is_hard_to_tell_where_all_rows_are_right():
    X = np.array([[0.0], [1.0], [9.0], [10.0]] * 10)
    y = np.array(["low", "low", "high", "high"] * 10)
    page = build(GDA().fit(X, y), X, y)
    assert page.numbers[-1] == ("Hardest to tell", "none", "right for all rows of 2 classes")
    y[0] = "high"
    assert build(GDA().fit(X, y), X, y).numbers[-1][:2] == ("Hardest to tell", "high")


def test_rates_of_fitted_rows_are_called_so():
    X, y = two_classes()
    assert any("fitted to" in text for text in build(GDA().fit(X, y), X, y, held_out=False).warnings)


def test_confusion_and_calibration_count_every_row():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([0.5, 0.5, 0.5], 300)
    y = np.where(rng.random(300) < 0.1, -1, rng.integers(0, 3, 300))
    judged = Judged(["a", "b", "c"], proba, np.zeros(300), y)
    chart = judged.confusion()
    assert sum(row[2] for row in chart["rows"]) == np.sum(y >= 0)
    for k in range(3):
        mine = (y == k) & (proba.argmax(axis=1) == k)
        assert chart["values"][k, k] == pytest.approx(mine.sum() / np.sum(y == k))
    curve = judged.calibration()
    assert sum(row[4] for row in curve["none"]["rows"]) == np.sum(y >= 0)
    for view in curve["views"]:
        for stated, share, low, high, _ in view["rows"]:
            assert 0 <= low <= share <= high <= 1
            assert 0 <= stated <= 1


def test_information_of_a_gaussian_column_is_the_integral():
    prior, mean, sd = np.array([0.3, 0.7]), np.array([0.0, 1.5]), np.array([1.0, 0.2])
    x = np.linspace(-8, 8, 400_001)
    p = norm.pdf(x[:, None], mean, sd)
    exact = np.trapezoid((prior * p * np.log2(p / (p @ prior)[:, None], where=p > 1e-300, out=np.zeros_like(p))).sum(axis=1), x)
    assert information(Column("x", "gaussian", mean, sd, [], None, 0), prior) == pytest.approx(exact, abs=1e-3)


def test_information_of_counts_far_apart_is_all_of_it():
    column = Column("n", "poisson", np.array([1.0, 500.0]), np.array([1.0, 22.0]), [], None, 0)
    assert information(column, np.array([0.5, 0.5])) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_information_is_never_more_than_there_is_to_know(family):
    rng = np.random.default_rng(0)
    for _ in range(300):
        K = int(rng.integers(2, 30))
        centre, prior = 10.0 ** rng.uniform(-3, 5, K), rng.dirichlet(np.full(K, 10.0 ** rng.uniform(-3, 1)))
        spread = np.sqrt(centre) if family == "poisson" else 10.0 ** rng.uniform(-4, 3, K)
        assert 0 <= information(Column("x", family, centre, spread, [], None, 0), prior) <= bits_needed(prior) + 1e-9


def test_variances_that_are_rounding_are_none():
    """Two rows, one a class: what is left of a covariance about their means may be just below 0."""
    X = np.array([[2.04091912, 0.41809885, -0.45264929], [-2.55566503, -0.56776961, -0.21559716]])
    model = GDA().fit(X, ["no", "yes"], sample_weight=[0.73696169, 0.36978671])
    with np.errstate(invalid="raise"):
        assert "2" in model.summary()


def test_ellipses_hold_nine_rows_in_ten():
    X, y = two_classes(40_000, 4)
    model = GDA(covariance="class").fit(X, y)
    mean, covariance = plane.gaussians(model)
    _, A, share = plane.axes(mean, covariance, np.array([0.5, 0.5]))
    assert share[0] == pytest.approx(1.0)
    assert np.allclose(A.T @ np.tensordot([0.5, 0.5], covariance, axes=1) @ A, np.eye(2))
    for k, name in enumerate("ab"):
        Z = (X[y == name] - mean[k]) @ A
        S = A.T @ covariance[k] @ A
        inside = np.einsum("ij,jk,ik->i", Z, np.linalg.inv(S), Z) < plane.ELLIPSE
        assert inside.mean() == pytest.approx(0.9, abs=5 * 0.3 / np.sqrt(20_000))


def test_the_first_screen_says_what_tells_classes_apart_in_words():
    data = birds(600)
    page = build(
        NaiveBayes(families={"eggs": "poisson"}).fit(data.X[:300], data.y[:300]), data.X[300:], data.y[300:], held_out=True
    )
    assert "apart, mostly by wing" in page.lead
    means = data.X[:300].groupby(data.y[:300])["wing"].mean()
    assert page.findings[0].startswith(f"wing is lowest in “{means.idxmin()}” (about {means.min():.0f})")
    assert f"highest in “{means.idxmax()}” (about {means.max():.0f})" in page.findings[0]
    assert any("commonest mistake" in text for text in page.findings)
    told = [page.lead, *page.findings, *(str(cell) for number in page.numbers for cell in number)]
    assert not re.search(r"\b(bits?|nats?|log|Brier|BIC|likelihood)\b", " ".join(told).replace("log mass", ""))
    keys = [section.key for section in page.sections]
    assert keys == ["learned", "quality", "why", "strange", "statisticians", "convergence", "fitted", "use"]
    late = page.sections[keys.index("statisticians")].html()
    assert all(text in late for text in ("log p(class | columns)", "Brier score", "log p(columns)"))


def test_columns_are_contrasted_by_what_they_hold():
    classes = ["“a”", "“b”", "“c”"]
    p = np.array([[0.1, 0.9], [0.7, 0.3], [0.4, 0.6]])
    assert contrast(Column("has_wings", "bernoulli", p[:, 0], p[:, 0], ["False", "True"], p, 0), classes) == (
        "has_wings is True in 90% of “a” and 30% of “b”."
    )
    two = Column("year", "gaussian", np.array([2003.21, 1998.34]), np.ones(2), [], None, 0)
    assert contrast(two, classes[:2]) == "year is about 1,998 in “b” and 2,003 in “a”."


def test_words_that_speak_for_a_class_are_sorted_by_what_is_shown():
    model, X, y = _sparse_words()
    page = build(model.fit(X, y), X, y)
    assert "mostly by the words column " in page.lead
    assert page.findings[1].startswith("“1” has more of column 1")
    views = next(c["views"] for c in chart_data(page.html())["charts"] if "Words that speak for" in c["title"])
    for k, view in enumerate(views):
        ratios = [ratio for _, ratio in view["rows"]]
        assert ratios == sorted(ratios, reverse=True)
        assert min(ratios) > 1
        assert view["rows"][0][0] == f"column {k}"


@pytest.mark.parametrize("covariance", ["shared", "class", "diagonal"])
def test_rows_are_explained_by_bars_that_add_up(covariance):
    data = load("wine")
    model = GDA(covariance=covariance).fit(data.X[::2], data.y[::2])
    X, y = data.X[1::2], data.y[1::2]
    page = build(model, X, y)
    found = chart_data(page.html())
    rows = next(pick["items"] for pick in found["picks"] if pick["key"] == "row")
    views = next(chart["views"] for chart in found["charts"] if chart.get("by") == "row")
    assert len(rows) == len(views)
    wrong = int((model.predict(X) != y).sum())
    assert all(", called " in label for label in rows[:wrong])  # mistakes first, with the true class
    odds = model.explain(X).groupby("row")["contribution"].sum()
    for label, view in zip(rows, views, strict=True):
        row = int(re.match(r"row (\d+)", label)[1])
        bars = [value for _, value in view["rows"]]
        assert sum(bars) == pytest.approx(odds[row], rel=1e-4)
        sizes = np.abs(bars[:10])
        assert (np.diff(sizes) <= 0).all()


def test_what_is_odd_is_named():
    X = pd.DataFrame({"size": [1.0, 1.1, 0.9, 5.0, 5.1, 4.9], "colour": ["red"] * 3 + ["blue"] * 3})
    model = NaiveBayes(smoothing=0.01).fit(X, ["a"] * 3 + ["b"] * 3)
    table = model._table(pd.DataFrame({"size": [9.0, 1.0], "colour": ["red", "red"]}))
    assert "size is 9 (usual 1 ±" in odd_values(columns_of(model.fitted_), table, 0, 0)
    assert odd_values(columns_of(model.fitted_), table, 1, 0).startswith("no single value is odd")


@pytest.mark.parametrize("covariance", ["shared", "class", "diagonal"])
def test_parameters_alone_make_a_page(covariance):
    X, y = two_classes()
    page = build(GDA(covariance=covariance).fit(X, y))
    assert "No rows were given" in page.lead
    assert [s.key for s in page.sections] == ["learned", "convergence", "fitted", "use"]


def _sparse_words():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    rate = np.ones((3, 900)) * 0.02
    rate[[0, 1, 2], [0, 1, 2]] = 3
    return NaiveBayes(), sp.csr_array(rng.poisson(rate[y])), y


def _many_classes():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(500), 3)
    return GDA(covariance="diagonal", shrinkage=0.1), rng.normal(size=(1500, 5)) + y[:, None], y


def _long_names():
    X, y = two_classes()
    words = np.array(["名前" * 60, "اسم 😀 " * 20])
    return NaiveBayes(), pd.DataFrame(X, columns=["长" * 120, "🙂", "ا" * 120]), words[(y == "b").astype(int)]


def _gaps():
    X, y = two_classes()
    X[::3, 0] = np.nan
    X[1] = np.nan
    return GDA(), X, y


def _constant():
    X, y = two_classes()
    X[:, 1] = 7.0
    return GDA(covariance="class"), X, y


def _one_column():
    X, y = two_classes(d=1)
    return GDA(), X, y


def _wide():
    rng = np.random.default_rng(0)
    return NaiveBayes(), rng.normal(size=(40, 2000)), np.repeat([True, False], 20)


CASES = [_sparse_words, _many_classes, _long_names, _gaps, _constant, _one_column, _wide]


@pytest.mark.parametrize("make", CASES, ids=[c.__name__.strip("_") for c in CASES])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_odd_data_make_a_small_page(make, tmp_path: Path):
    model, X, y = make()
    model.fit(X, y)
    page = write(model, tmp_path / "page.html", X, y)
    assert page.stat().st_size < 5e6
    data = chart_data(page.read_text(encoding="utf-8"))
    assert all({"title", "columns", "rows"} <= {**c, **c.get("none", {})}.keys() for c in data["charts"])
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]  # nothing half-written is left


def test_one_row_is_enough_and_called_rough():
    X, y = two_classes()
    page = build(GDA().fit(X, y), X[:1], y[:1])
    page.html()
    assert any("Only 1 row" in text for text in page.warnings)


def test_labels_that_the_model_does_not_know_are_counted_out():
    X, y = two_classes()
    odd = y.astype(object)
    odd[:3] = ["c", None, float("nan")]
    page = build(GDA().fit(X, y), X, odd)
    assert any(text.startswith("3 rows have no label") for text in page.warnings)
    assert build(GDA().fit(X, y), X, np.full(len(y), "c")).numbers == []


def test_few_rows_and_overconfidence_are_warned_of():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = np.repeat(rng.normal(size=(400, 1)) + 0.8 * y[:, None], 20, axis=1)  # one column, twenty times
    page = build(NaiveBayes().fit(X, y), X, y)
    assert any("surer than it should be" in text for text in page.warnings)
    few = NaiveBayes().fit(np.r_[X, X[:2]], np.r_[y, [2, 2]])
    assert any("fewer than 5 rows (2)" in text for text in build(few).warnings)


def test_lengths_must_agree():
    X, y = two_classes()
    with pytest.raises(DataError, match="one label a row"):
        build(GDA().fit(X, y), X, y[:-1])


def test_a_model_without_a_page_of_its_own_has_the_common_one():
    X, y = two_classes()
    html = plain_page(GDA().fit(X, y), About(title="any")).html()
    assert "What was fitted on what" in html


def test_many_rows_are_drawn_as_a_sample_and_said_so():
    X, y = two_classes(4000)
    chart = next(c for c in chart_data(build(GDA().fit(X, y), X, y).html())["charts"] if c.get("kind") == "points")
    assert len(chart["px"]) == plane.MOST
    assert "1,500 of 4,000 rows" in chart["caption"]


def test_charts_ignore_selectors_that_the_page_lacks():
    page = Page("t", "l")
    page.pick("class", "Class", ["only one"])
    section = page.section("s", "S")
    section.charts({"kind": "bars", "title": "x", "select": "class", "columns": [], "rows": []}, None)
    view = {"kind": "bars", "title": "y", "columns": [], "rows": []}
    section.charts(charts.follow("class", [view]))
    first, second = chart_data(page.html())["charts"]
    assert "select" not in first
    assert second == view


@pytest.mark.parametrize("name", names())
def test_bundled_sets(name):
    data = load(name)
    assert len(data.X) == len(data.y)
    assert data.y.dtype.kind == "U"


def test_unknown_set_says_what_there_is():
    with pytest.raises(DataError, match="iris"):
        load("irises")


def test_birds_follow_their_truth():
    data = birds(20_000, random_state=3)
    p = data.truth["posterior"]
    codes = np.searchsorted(data.truth["classes"], data.y)
    assert p.sum(axis=1) == pytest.approx(np.ones(len(p)))
    # a calibrated posterior: mean probability of the truth equals mean sum of squares, within 5 standard errors
    gap = p[np.arange(len(p)), codes] - np.square(p).sum(axis=1)
    assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(len(gap))
    model = NaiveBayes(families={"eggs": "poisson"}).fit(data.X, data.y)
    assert model.score(data.X, data.y) == pytest.approx(np.mean(p.argmax(axis=1) == codes), abs=0.01)


def test_demo_writes_a_gallery(gallery):
    index = gallery.index
    html = index.read_text(encoding="utf-8")
    linked = [a["href"] for t, a in Tags(html).found if t == "a" and not a["href"].startswith("#")]
    assert len(linked) == sum(len(room.EXHIBITS) for room in rooms("demo"))
    assert all((index.parent / name).is_file() for name in linked)
    assert gallery.out == ""
    assert str(index.resolve()) in gallery.err


def test_findings_come_first_and_criteria_under_a_heading_of_their_own():
    page = Page("Birds", "Four kinds of birds.")
    page.findings = ["Owls & herons differ by their wings."]
    page.warnings = ["Few rows."]
    statisticians(page, [("BIC", 12.5, "smaller is better"), ("ICL", None, "not asked for")])
    html = page.html()
    order = ("Four kinds", "Owls &amp; herons", "Few rows", "For statisticians</h2>", "smaller is better")
    places = [html.index(text) for text in order]
    assert places == sorted(places)
    assert "ICL" not in html


def test_scores_of_a_classifier_are_for_statisticians_and_come_late():
    X, y = two_classes()
    html = build(GDA().fit(X, y), X, y).html()
    heads = ("What tells the classes apart", "Which rows are strange?", "For statisticians", "Did the fit settle?")
    learned, strange, statisticians, settled = (f"{head}</h2>" for head in heads)
    order = ["Without looking", learned, strange, statisticians, "Brier score", settled]
    places = [html.index(text) for text in order]
    assert places == sorted(places)
    assert "log p(class | columns)" in html[places[3] :]
    assert "Brier" not in html[: places[3]]


def test_a_report_is_not_replaced_by_one_that_says_less(tmp_path):
    X, y = two_classes()
    model, path = GDA().fit(X, y), tmp_path / "report.html"
    write(model, path, X, y)
    whole = path.read_text()
    with pytest.raises(DataError, match=r"report made with data, which this one lacks.*force=True \(--force"):
        write(model, path)
    assert path.read_text() == whole
    write(model, path, X, y)  # as much as before
    write(model, path, force=True)
    assert path.read_text() != whole
    write(model, path, X, y)  # more than before
    (tmp_path / "own.html").write_text("<p>not ours</p>")
    write(model, tmp_path / "own.html")


def test_names_from_data_and_code_are_never_capitalised():
    class Model:
        feature_names_in_ = ["wing", "tail length"]
        converged_ = True

        def _caveats(self):
            return ["wing has no spread", "tail length is odd", "max_iter was small", "two rows are alike", "'x' is odd"]

    assert cautions(Model()) == [
        "wing has no spread.",
        "tail length is odd.",
        "max_iter was small.",
        "Two rows are alike.",
        "'x' is odd.",
    ]


def test_a_folder_is_no_place_for_a_page(tmp_path):
    model = GDA().fit(*two_classes())
    with pytest.raises(IsADirectoryError, match=r"a report must be a file to write, but '.*' is a folder; add a file name"):
        model.report(tmp_path)
    with pytest.raises(IsADirectoryError, match=r"must be a file to write, but '.*' is a folder"):
        model.save(tmp_path)
    assert not list(tmp_path.iterdir())
