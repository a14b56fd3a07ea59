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
from tallies.bayes.why_views import contrast, first_sentence, more_of, rows_to_explain, speaking_words, spoken, why
from tallies.data.kinds import from_file
from tallies.data.labels import known_codes
from tallies.data.table import table_rows
from tallies.html import charts
from tallies.html.common import About, begin, finish, plural, told
from tallies.html.judged import Judged
from tallies.html.page import Page, Section

FEATURES = 200  # columns that can be looked at one by one: the most telling; the page stays small with 50,000 words
SERIES = 40  # classes drawn in one picture
PICTURES = 4000  # laws in the page: columns shown times classes shown
CROWD = 6  # classes beside whose laws the rows themselves can still be told apart
NEEDED = "what it takes to know the class"
FEW = 5  # a class learned from fewer rows deserves a warning

SHAPES = {"shared": "one for all classes", "class": "one for each class", "diagonal": "none, columns are independent in a class"}


def page(model: Any, about: About, X: Any = None, y: Any = None) -> Page:
    """The report of a GDA or naive Bayes; with rows X and classes y it also says how good the model is on them."""
    X, y, _ = from_file(X, y, model=model)
    classes, prior = [str(c) for c in model.classes_], np.exp(model.params_.log_prior)
    columns, bits = telling(model.fitted_)
    need, spoken_classes = max(bits_needed(prior), 1e-300), spoken(model.classes_)
    judged = table = None
    if X is not None:
        table = model._table(X)
        judged = Judged(classes, model.predict_proba(X), model.log_prob(X), known_codes(y, table_rows(table), model.classes_))
    known = judged if judged is not None and len(judged.known) else None
    lead = first_sentence(columns, bits, need, spoken_classes, float(model.params_.n.sum()))
    unknown = "No rows were given to this report, so it cannot say how good the predictions are."
    more = known.lead(about, int(np.argmax(prior))) if known is not None else unknown if judged is None else ""
    out = begin(model, about, f"{type(model).__name__} of", f"{lead} {more}".rstrip())
    _warn(out, model, about, judged)
    order = np.argsort(-bits, kind="stable")
    words = speaking_words(columns, prior)
    numbers = [columns[j] for j in order[:3] if bits[j] > 0.05 * need and columns[j].family != "multinomial"]
    out.findings = [contrast(column, spoken_classes) for column in numbers]
    out.findings += [more_of(name, found) for name, (found, _) in zip(spoken_classes, words[:5], strict=False) if found]
    frequent = np.argsort(-prior, kind="stable")
    shown = np.sort(frequent[:SERIES])
    listed = order[: min(FEATURES, max(20, PICTURES // len(shown)))]
    out.pick("class", "Class", classes)
    out.pick("feature", "Column", [columns[j].name for j in listed], "most telling")
    label = _labels(X)
    view = plane.chart(model, classes, known, getattr(table, "gaussian", None), label)
    ranking = _ranking(columns, bits / need, listed)
    if known is not None:
        out.findings.append(_mistake(known, spoken_classes))
        out.numbers = [*known.numbers(prior), _hardest(known)]
        out.hero(known.confusion(), view or ranking)
    else:
        out.hero(view | {"wide": True} if view else ranking)
    out.face = view or ranking
    learned = out.section("learned", "What tells the classes apart").text(_most_telling(columns, bits / need, listed))
    pictures = [picture(columns[j], classes, shown, _values(columns[j], len(shown), table, known)) for j in listed]
    learned.charts(ranking if view else None, charts.follow("feature", pictures), _words(words, classes))
    some = f"The {len(listed)} most telling of {len(columns):,} columns can be looked at."
    learned.text(*told((len(listed) < len(columns), some)), soft=True)
    rows = [(classes[k], float(model.params_.n[k]), f"{prior[k]:.1%}") for k in frequent]
    learned.table(["class", "rows in the fit", "probability before looking"], rows)
    if known is not None:
        _quality(out, known, model, X)
    if judged is not None:
        _why(out, judged, model, table, columns, label)
        _strange(out, judged, model, table, columns, label)
    counted = Counter(c.family for c in columns)
    facts = [
        ("Rows", float(model.params_.n.sum())),
        ("Columns", f"{len(columns):,} ({', '.join(f'{n:,} {f}' for f, n in counted.items())})"),
        ("Classes", f"{len(classes)}"),
        ("Covariance", SHAPES.get(getattr(model, "covariance", "diagonal"))),
        ("Rows in this report", len(judged.log_p) if judged is not None else None),
        ("Were these in the fit?", about.whose("no, held out", "yes", "not said") if judged is not None else None),
    ]
    shell = "predict RUN rows.csv", "score RUN rows.csv", "report RUN"
    return finish(out, model, about, facts, _code(model, columns, classes), *shell)


def _mistake(known: Judged, names: list[str]) -> str:
    mistakes = known.mistakes(1)
    if not mistakes:
        return "It made no mistake on these rows."
    true, called, rows, share = mistakes[0]
    of = dict(zip(known.classes, names, strict=True))
    return f"Its commonest mistake: {of[true]} called {of[called]}, in {plural(rows, 'row')} ({share} of that class)."


def _hardest(known: Judged) -> tuple[str, str, str]:
    """The class that is most often called another."""
    n, right = (np.bincount(codes, minlength=len(known.classes)) for codes in (known.true, known.true[known.right]))
    k = int(np.where(n > 0, right / np.maximum(n, 1), 2.0).argmin())
    if known.right.all():
        return "Hardest to tell", "none", f"right for all rows of {plural(int((n > 0).sum()), 'class', 'classes')}"
    return "Hardest to tell", known.classes[k], f"right for {right[k]:,} of {n[k]:,} rows"


def _warn(out: Page, model: Any, about: About, judged: Judged | None) -> None:
    few = [str(c) for c, n in zip(model.classes_, model.params_.n, strict=True) if n < FEW]
    names = ", ".join(few[:5]) + (f" and {len(few) - 5} more" if len(few) > 5 else "")
    from_few = f"learned from fewer than {FEW} rows ({names}): do not trust what it says of them."
    out.warnings += told((few, f"{plural(len(few), 'class was', 'classes were')} {from_few}"))
    if judged is not None:
        out.warnings += judged.warnings(about, "Trust its order of classes more than its probabilities.", "")


def _ranking(columns: list[Column], share: np.ndarray, listed: np.ndarray) -> charts.Chart:
    top = listed[:20]
    title, unit, names = "What each column alone tells", f"% of {NEEDED}", [columns[j].name for j in top]
    caption = "Choose one to see its values. At 100% the class would be known for certain; columns that say the same do not add up."
    if columns[top[0]].family == "multinomial":
        title, caption = "What each word tells", "Of what one more word of a text tells: over a text, words add up. Choose one."
    return charts.bar(title, unit, names, 100 * share[top], select="feature", keys=list(range(len(top))), caption=caption)


def _most_telling(columns: list[Column], share: np.ndarray, listed: np.ndarray) -> str:
    best = listed[0]
    if share[best] < 1e-6:
        return "No column by itself tells anything about the class."
    if columns[best].family == "multinomial":
        return (
            f"Of all words, {columns[best].name} tells most. Together, the next word of a text tells {share.sum():.0%} of {NEEDED}."
        )
    nothing = int(np.sum(share < 0.01))
    text = f"By itself, {columns[best].name} tells most: {share[best]:.0%} of {NEEDED}."
    return text + (f" {plural(nothing, 'column tells', 'columns tell')} next to nothing alone." if nothing else "")


def _values(column: Column, classes: int, table: Any, known: Judged | None) -> tuple[np.ndarray, np.ndarray] | None:
    """What was seen of a column, and the classes of the rows, where it can be drawn beside the laws of so many classes."""
    if known is None or column.family != "gaussian" or classes > CROWD:
        return None
    return table.column("gaussian", column.place).astype(float), known.y


def _words(found: list[tuple[list[str], np.ndarray]], classes: list[str]) -> charts.Chart | None:
    """Of a block of counts: the words that speak most for each class."""
    views = []
    for k, (words, ratio) in enumerate(found):
        title, unit = f"Words that speak for {classes[k]}", f"times as frequent in {classes[k]} as in the other classes"
        views.append(charts.bar(title, unit, words, ratio, look={"colour": k}, caption="Of the words that tell most of it."))
    return charts.follow("class", views) if views else None


def _quality(out: Page, judged: Judged, model: Any, X: Any) -> Section:
    section = out.section("quality", "How good is it?").charts(judged.calibration(), judged.sureness())
    joint = model._evaluate(X)
    error = "–" if joint.stderr is None else f"± {joint.stderr:.3g}"
    return judged.quality(section, [["log p(columns)", joint.value, error, joint.kind, joint.unit]])


def _why(out: Page, judged: Judged, model: Any, table: Any, columns: list[Column], name: Callable[[int], str]) -> None:
    """What speaks for the class that a row was called, for rows that one asks about."""
    if len(judged.classes) < 2:
        return
    rows = rows_to_explain(judged, name)
    out.pick("row", "Row", [label for _, label in rows], "first of the list")
    views = [why(model.fitted_, columns, judged.classes, table, i, label) for i, label in rows]
    choose = "Choose a row above: mistakes come first, then close calls, strange rows, and a typical one of each class."
    out.section("why", "Why was a row called so?").text(choose).charts(charts.follow("row", views))


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
    about = "The least probable rows: errors in the data, rare cases, or a class that is missing"
    return section.table(heads, rows, about, first=0)


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
