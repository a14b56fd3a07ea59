"""The report of a generative classifier: which classes, how well they are told apart, by what, and which rows are strange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from tallies.bayes import plane_views as plane
from tallies.bayes.law_views import picture
from tallies.bayes.marginals import Column, bits_needed, telling
from tallies.bayes.odd_views import complete_rows, odd_values, own_rows
from tallies.data.table import table_rows
from tallies.errors import DataError
from tallies.html import charts
from tallies.html.common import About, begin, finish, plural, told
from tallies.html.judged import Judged
from tallies.html.page import Page, Section

FEATURES = 200  # columns that can be looked at one by one: the most telling; the page stays small with 50,000 words
SERIES = 40  # classes drawn in one picture
PICTURES = 4000  # laws in the page: columns shown times classes shown
CROWD = 6  # classes beside whose laws the rows themselves can still be told apart
FEW = 5  # a class learned from fewer rows deserves a warning

SHAPES = {"shared": "one covariance for all classes", "class": "one covariance each", "diagonal": "no correlations within classes"}


def page(model: Any, about: About, X: Any = None, y: Any = None) -> Page:
    """The report of a GDA or naive Bayes; with rows X and classes y it also says how good the model is on them."""
    classes, prior = [str(c) for c in model.classes_], np.exp(model.params_.log_prior)
    columns, bits = telling(model.fitted_)
    judged = table = None
    if X is not None:
        table = model._table(X)
        judged = Judged(classes, model.predict_proba(X), model.log_prob(X), _codes(model, y, table_rows(table)))
    known = judged if judged is not None and len(judged.known) else None
    out = begin(model, about, f"{type(model).__name__} of", _lead(model, about, columns, bits, known))
    _warn(out, model, about, judged)
    order = np.argsort(-bits, kind="stable")
    shown = np.sort(np.argsort(-prior, kind="stable")[:SERIES])
    listed = order[: min(FEATURES, max(20, PICTURES // len(shown)))]
    out.pick("class", "Class", classes)
    out.pick("feature", "Column", [columns[j].name for j in listed], "most telling")
    label = _labels(X)
    view = plane.chart(model, classes, known, getattr(table, "gaussian", None), label)
    ranking = _ranking(columns, bits, listed, prior)
    if known is not None:
        out.numbers = known.numbers(prior)
        out.hero(known.confusion(), view or known.calibration())
    elif view:
        out.hero(view | {"wide": True})
    out.face = view or (ranking if known is None else known.confusion())
    learned = out.section("learned", "What it learned").text(_most_telling(columns, bits, listed, prior))
    pictures = [picture(columns[j], classes, shown, _values(columns[j], len(shown), table, known)) for j in listed]
    learned.charts(ranking, charts.follow("feature", pictures), _words(columns, classes, order, prior))
    some = f"The {len(listed)} most telling of {len(columns):,} columns can be looked at."
    learned.text(*told((len(listed) < len(columns), some)), soft=True)
    rows = zip(classes, model.params_.n.tolist(), [f"{p:.1%}" for p in prior], strict=True)
    learned.table(["class", "rows in the fit", "probability before looking"], rows)
    if known is not None:
        _quality(out, known, model, X, known.calibration() if view else None)
    if judged is not None:
        _strange(out, judged, model, table, columns, label)
    counted = Counter(c.family for c in columns)
    facts = [
        ("Rows", float(model.params_.n.sum())),
        ("Columns", f"{len(columns):,} ({', '.join(f'{n:,} {f}' for f, n in counted.items())})"),
        ("Classes", f"{len(classes)}"),
        ("Rows in this report", len(judged.log_p) if judged is not None else None),
        ("Were these in the fit?", about.whose("no, held out", "yes", "not said") if judged is not None else None),
    ]
    shell = "predict RUN rows.csv", "score RUN rows.csv", "report RUN"
    return finish(out, model, about, facts, _code(model, columns, classes), *shell)


def _codes(model: Any, y: Any, n: int) -> np.ndarray:
    """Class codes of n rows; -1 where the label is missing or no class of the model."""
    from pandas import Index

    y = np.full(n, None) if y is None else np.asarray(y, dtype=object)
    if y.shape != (n,):
        raise DataError(f"y must have one label a row, {n}, but its shape is {y.shape}; pass the labels of the rows in X")
    return Index(model.classes_.astype(object)).get_indexer(Index(y))


def _lead(model: Any, about: About, columns: list[Column], bits: np.ndarray, judged: Judged | None) -> str:
    shape = SHAPES.get(getattr(model, "covariance", ""))
    kind = f"Gaussian discriminant analysis ({shape})" if shape else "Naive Bayes"
    K, n = len(model.classes_), float(model.params_.n.sum())
    text = f"{kind} tells {plural(K, 'class', 'classes')} apart by {plural(len(columns), 'column')}, "
    text += f"learned from {plural(round(n), 'row')}."
    if judged is None:
        text += f" The most telling column is {columns[int(np.argmax(bits))].name}."
        return f"{text} No rows were given to this report, so it cannot say how good the predictions are."
    return f"{text} {judged.lead(about, int(np.argmax(model.params_.log_prior)))}"


def _warn(out: Page, model: Any, about: About, judged: Judged | None) -> None:
    few = [str(c) for c, n in zip(model.classes_, model.params_.n, strict=True) if n < FEW]
    names = ", ".join(few[:5]) + (f" and {len(few) - 5} more" if len(few) > 5 else "")
    from_few = f"learned from fewer than {FEW} rows ({names}): do not trust what it says of them."
    out.warnings += told((few, f"{plural(len(few), 'class was', 'classes were')} {from_few}"))
    if judged is not None:
        out.warnings += judged.warnings(about, "Trust its order of classes more than its probabilities.", "")


def _ranking(columns: list[Column], bits: np.ndarray, listed: np.ndarray, prior: np.ndarray) -> charts.Chart:
    top = listed[:20]
    title, unit, names = "What each column alone tells", "information about the class (bits)", [columns[j].name for j in top]
    caption = f"Choose one to see its values. To know the class for certain takes {bits_needed(prior):.2f} bits. "
    more = {"select": "feature", "keys": list(range(len(top))), "caption": caption + "Columns that say the same do not add up."}
    return charts.bar(title, unit, names, bits[top], **more)


def _most_telling(columns: list[Column], bits: np.ndarray, listed: np.ndarray, prior: np.ndarray) -> str:
    best, need = listed[0], bits_needed(prior)
    if bits[best] < 1e-6:
        return "No column by itself tells anything about the class."
    if columns[best].family == "multinomial":
        every = f"one word more tells {bits.sum():.2g} of the {need:.2g} bits that are needed to know the class"
        return f"Of all words, {columns[best].name} tells most; {every}."
    nothing = int(np.sum(bits < 0.01 * need))
    text = f"By itself, {columns[best].name} tells most: {bits[best]:.2g} of the {need:.2g} bits that are needed to know the class."
    return text + (f" {plural(nothing, 'column tells', 'columns tell')} next to nothing alone." if nothing else "")


def _values(column: Column, classes: int, table: Any, known: Judged | None) -> tuple[np.ndarray, np.ndarray] | None:
    """What was seen of a column, and the classes of the rows, where it can be drawn beside the laws of so many classes."""
    if known is None or column.family != "gaussian" or classes > CROWD:
        return None
    return table.column("gaussian", column.place).astype(float), known.y


def _words(columns: list[Column], classes: list[str], order: np.ndarray, prior: np.ndarray) -> charts.Chart | None:
    """Of a block of counts: the words that speak most for each class, by log odds against the others."""
    block = [j for j in order if columns[j].family == "multinomial"]
    if not block or len(classes) > 100:
        return None
    p = np.array([columns[j].centre for j in block])  # (V, K)
    views = []
    for k, name in enumerate(classes):
        others = np.where(np.arange(len(prior)) == k, 0.0, prior)
        ratio = np.maximum(p[:, k], 1e-300) / np.maximum(p @ (others / max(float(others.sum()), 1e-300)), 1e-300)
        top = np.argsort(-p[:, k] * np.log(ratio), kind="stable")[:15]
        words = [columns[block[i]].name for i in top]
        title, unit = f"Words that speak for {name}", f"times as frequent in {name} as in the other classes"
        views.append(charts.bar(title, unit, words, ratio[top], look={"colour": k}, caption="Frequent ones first."))
    return charts.follow("class", views)


def _quality(out: Page, judged: Judged, model: Any, X: Any, curve: charts.Chart | None) -> Section:
    section = out.section("quality", "How good is it?").charts(curve, judged.sureness())
    joint = model._evaluate(X)
    error = "–" if joint.stderr is None else f"± {joint.stderr:.3g}"
    return judged.quality(section, [["log p(columns)", joint.value, error, joint.kind, joint.unit]], beside=curve is None)


def _strange(out: Page, judged: Judged, model: Any, table: Any, columns: list[Column], name: Callable[[int], str]) -> Section:
    section = out.section("strange", "Which rows are strange?")
    complete = complete_rows(table)
    if len(complete):
        picture, say = judged.surprise(own_rows(model), complete)
        section.text(say).charts(picture)
    gaps = len(judged.log_p) - len(complete)
    missing = f"{gaps:,} rows have missing values: their log p(x) is of fewer values, and is not in the picture."
    section.text(*told((gaps, missing)), soft=True)
    heads = ["row", "log p(x)", "true class", "called", "what is odd"]
    rows = judged.strangest(lambda row, k: odd_values(columns, table, row, k), name)
    return section.table(heads, rows, "The least probable rows: errors in the data, rare cases, or a class that is missing")


def _labels(X: Any) -> Callable[[int], str]:
    """Names of rows: the index of a data frame where it has one, else their numbers from 1."""
    index = getattr(X, "index", None)
    if index is None or callable(index):
        return lambda i: f"row {i + 1}"
    return lambda i: f"row {index[i]}" if isinstance(index[i], int | np.integer) else str(index[i])


def _code(model: Any, columns: list[Column], classes: list[str]) -> str:
    named = hasattr(model, "feature_names_in_")
    which = ", ".join(repr(c.name) for c in columns[:4]) + (", ..." if len(columns) > 4 else "")
    like = f"a table with the columns {which}" if named else f"an array of {len(columns)} columns"
    one = repr(model.classes_.tolist()[0])
    return f"""\
model.predict(X)                        # X: {like}; gaps are allowed
model.predict_proba(X)                  # one column for each of {len(classes)} classes
model.log_prob(X)                       # low values: strange rows
{f"model.sample(5, y={one})":39} # new rows of one class"""
