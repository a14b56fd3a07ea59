"""The report of a free energy model: which combinations of states speak for which class, and how sure one can be."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import entr
from sklearn.utils import _safe_indexing

from tallies.categories import views
from tallies.categories.answers import readable
from tallies.categories.learned_views import MOST, Learned
from tallies.data.kinds import from_file
from tallies.data.labels import label_codes
from tallies.html import charts
from tallies.html.common import About, begin, finish, plural
from tallies.html.judged import Judged, error_of
from tallies.html.page import Page
from tallies.maths import Array

CHEAP = 200_000  # weights x rows up to which a bootstrap takes a few seconds
DRAWS = 30  # of the bootstrap
ROWS = 24  # rows that are explained
CELLS = 30_000  # weights of terms that can be looked at one by one
STRENGTH = "strength (norm of its weights)"


def page(model: Any, about: About, X: Any = None, y: Any = None, *, rows: tuple[Any, Any] | None = None) -> Page:
    """The report of a FEM; X and y say how good it is. `rows`, (X, y) of the fit, adds standard errors of the weights."""
    X, y, _ = from_file(X, y, model=model)
    classes, names = [str(c) for c in model.classes_], model.categories_.names
    judged = None
    if X is not None and y is not None:
        proba = model.predict_proba(X)
        judged = Judged(classes, proba, np.zeros(len(proba)), label_codes(y, len(proba), model.classes_))
    out, degrees, learned = begin(model, about, "FEM of"), ", ".join(map(str, model.degree_)), None
    if readable(model._layout(), model.rows_):
        learned = Learned(model, _errors(model, rows))
        _show(out, learned)
        if X is not None:
            _reasons(out, model, X, judged)
    else:
        say = f"With terms of degrees {degrees} there are too many weights to show; model.effect(...) gives any of them."
        out.section("learned", "What it learned").text(say)
    out.lead = _lead(model, about, judged, learned.lead() if learned else "")
    if judged is not None:
        out.warnings += judged.warnings(about, "", "A smaller ridge may help.")
        out.numbers = judged.numbers(_prior(judged))[:2]  # the others are criteria
        section = out.section("quality", "How good is it?").charts(judged.confusion(), judged.calibration())
        wrong = ["true class", "called", "rows", "share of the true class"], judged.mistakes(), "The commonest mistakes"
        _ = section.table(*wrong) if judged.mistakes() else section.text("It made no mistake on these rows.")
    _criteria(out, model, judged, learned)
    facts = [
        ("Rows", int(model.n_rows_)),
        ("Variables", f"{len(names)} with {int(model.categories_.sizes.sum()):,} states"),
        ("Classes", len(classes)),
        ("Degrees", degrees),
        ("Ridge", float(model.ridge_)),
        ("Solver", model.solver_),
        ("Rows in this report", None if judged is None else len(judged.y)),
    ]
    return finish(out, model, about, facts, _CODE, "predict RUN rows.csv", "score RUN rows.csv", "report RUN rows.csv")


def _errors(model: Any, rows: tuple[Any, Any] | None) -> Array | None:
    """Standard errors of the weights, where they are quickly had."""
    if rows is None or model.weights_.size * model.n_rows_ > CHEAP:
        return None
    return model.standard_errors(*rows, n_boot=DRAWS).to_numpy()[1:]  # the first row is the bias


def _show(out: Page, learned: Learned) -> None:
    """What it learned: the first screen has the combinations of most variables, beside what these say by themselves."""
    order, several = learned.strongest(), [d for d in learned.degrees if d > 1]
    cells = np.cumsum(np.diff(learned.terms.offset)[order]) * len(learned.classes)
    listed = order[: max(MOST, min(views.TERMS, int((cells <= CELLS).sum())))]
    called = [learned.called(t) for t in listed]
    if len(learned.classes) > 2:
        out.pick("class", "Class", learned.classes, "all")
    out.pick("term", "Term", called, "the strongest")
    out.pick("variable", "Variable", learned.names[: learned.shown], "the loudest")
    tops = [learned.combinations(d) for d in several[:2]]
    single = learned.states() if 1 in learned.degrees else None
    out.hero(*(tops[:1] if several else ()), single)
    face = tops[0] if tops else single
    out.face = None if face is None else face.get("none", face)
    caption = "A term is a variable, or several together: what they say beyond their parts. Choose one to see its weights."
    sizes = learned.size[listed]
    ranking = views.strongest("Strongest terms", STRENGTH, called, sizes, select="term", caption=caption)
    S = views.pair_strength(learned.terms.all(), learned.size, len(learned.names))
    ring = views.network("Which variables act together", learned.names, S, "Variables joined by terms that hold both.")
    section = out.section("learned", "What it learned").charts(learned.effects(), *tops[1:], ring)
    section.charts(ranking, charts.follow("term", [learned.grid(t) for t in listed]))
    few = f"The {len(listed)} strongest of {len(order):,} terms can be looked at." if len(listed) < len(order) else ""
    section.text(few, soft=True)


def _reasons(out: Page, model: Any, X: Any, judged: Judged | None) -> None:
    """Why rows were called what they were: those that it got most wrong, those of which it was least sure, and some others."""
    proba = model.predict_proba(X) if judged is None else judged.proba
    best, sure = proba.argmax(axis=1), proba.max(axis=1)
    wrong = np.empty(0, int) if judged is None else judged.known[~judged.right]
    first = [*wrong[np.argsort(-sure[wrong], kind="stable")][: ROWS // 3], *np.argsort(sure, kind="stable")[: ROWS // 3]]
    some = list(dict.fromkeys([*map(int, first), *np.linspace(0, len(proba) - 1, ROWS).astype(int).tolist()]))[:ROWS]
    parts, each, named = model.explain(_safe_indexing(X, some)), [], []
    place = (parts["row"] != parts["row"].shift()).cumsum() - 1  # names of rows may not be unique
    for i, (_, mine) in zip(some, parts.groupby(place), strict=True):
        row, called, against = (str(value) for value in mine.iloc[0, :3])
        truth = "" if judged is None or judged.y[i] < 0 or judged.y[i] == best[i] else f", is {judged.classes[judged.y[i]]}"
        named.append(f"row {row}: called {called} ({sure[i]:.0%}){truth}")
        title = f"Why row {row} was called {called} ({sure[i]:.0%})" + truth.replace(",", ", though it", 1)
        each.append(views.explanation(mine["feature"].tolist(), mine["contribution"].to_numpy(), title, called, against))
    out.pick("row", "Row", named, "the first")
    say = "Rows that it got wrong come first, then those of which it was least sure. model.explain(X) does the same for any row."
    out.section("rows", "Why was a row called so?").text(say).charts(charts.follow("row", each))


def _prior(judged: Judged) -> Array:
    """How frequent each class is among the rows given."""
    return np.bincount(judged.true, minlength=len(judged.classes)) / max(len(judged.known), 1)


def _criteria(out: Page, model: Any, judged: Judged | None, learned: Learned | None) -> None:
    """What a statistician asks for: scores with their errors, how the ridge was chosen, how much each degree says."""
    path, section = model.path_, out.section("criteria", "For statisticians")
    if judged is not None:
        loss, brier = judged.log_losses, judged.brier
        scores = [
            ["log p(class | columns), larger is better", -float(loss.mean()), error_of(loss), "conditional", "nats/row"],
            ["the same without looking at the columns", -float(entr(_prior(judged)).sum()), "", "exact", "nats/row"],
            ["Brier score, 0 is perfect, 2 the worst", float(brier.mean()), error_of(brier), "exact", ""],
        ]
        section.table(["criterion", "value", "standard error", "kind", "unit"], scores, first=0)
    if learned is not None:
        heads = ["variables in a term", "terms", "share of squared weights"]
        section.table(heads, learned.shares(), "How much terms of each degree say")
    if path["ridge"]:
        section.charts(views.path(path, model.ridge_, "row"))
    chosen = "chosen by cross-validation" if path["ridge"] else "as given"
    section.text(f"Ridge {model.ridge_:.3g}, {chosen}; weights in zero-sum gauge; solver {model.solver_}.", soft=True)


def _lead(model: Any, about: About, judged: Judged | None, found: str) -> str:
    rows, variables = plural(int(model.n_rows_), "row"), plural(len(model.categories_.names), "variable")
    if judged is None:
        good = "No rows with classes were given to this report, so it cannot say how good the predictions are."
    else:
        good = judged.lead(about, int(np.bincount(judged.true).argmax()))
    return f"{found}{good} Learned from {rows} with {variables}."


_CODE = """\
model.predict_proba(X)                  # a table with the same columns
model.explain(X)                        # why each row is called what it is
model.interactions(20)                  # the strongest terms
model.effect(variable="state")          # the weights of one combination
model.weights_                          # all of them, by name"""
