"""The report of a free energy model: which combinations of states speak for which class, and how sure one can be."""

from __future__ import annotations

from itertools import compress
from typing import Any

import numpy as np

from tallies.categories import views as weights
from tallies.data.labels import label_codes
from tallies.html import charts
from tallies.html.common import About, begin, finish, plural
from tallies.html.judged import Judged
from tallies.html.page import Page
from tallies.maths import Array

CHEAP = 200_000  # weights x rows up to which a bootstrap takes a few seconds
DRAWS = 30  # of the bootstrap
MOST = 12  # combinations in a picture
STRENGTH = "strength (norm of its weights)"


def page(model: Any, about: About, X: Any = None, y: Any = None, *, rows: tuple[Any, Any] | None = None) -> Page:
    """The report of a FEM; X and y say how good it is. `rows`, (X, y) of the fit, adds standard errors of the weights."""
    from tallies.categories.words import feature_names, strengths

    classes, names = [str(c) for c in model.classes_], model.categories_.names
    judged = None
    if X is not None and y is not None:
        proba = model.predict_proba(X)
        judged = Judged(classes, proba, np.zeros(len(proba)), label_codes(y, len(proba), model.classes_))
    readable = model.rows_ is None or len(model.degree_) < 3  # the kernel of high degrees has too many weights to write down
    out, best, degrees = begin(model, about, "FEM of"), "", ", ".join(map(str, model.degree_))
    if readable:
        _, terms, V = model._zero_sum()
        size, groups = strengths(terms, V), terms.all()
        listed = np.argsort(-size, kind="stable")[: weights.TERMS]
        called = [" & ".join(names[v] for v in groups[t]) for t in listed]
        if len(classes) > 2:
            out.pick("class", "Class", classes)
        out.pick("term", "Term", called, "the strongest")
        features, errors = feature_names(terms, model.categories_), None
        if rows is not None and V.size * model.n_rows_ <= CHEAP:
            errors = model.standard_errors(*rows, n_boot=DRAWS).to_numpy()[1:]  # the first row is the bias
        lone = np.repeat(terms.degree() == 1, np.diff(terms.offset))
        kinds = [("Combinations that speak", ~lone), ("States that speak", lone)]
        view, *more = [_signed(what, features, V, errors, mine, classes) for what, mine in kinds if mine.any()]
        caption = "A term is a variable, or several together: what they say beyond their parts. Choose one to see its weights."
        ranking = weights.strongest("Strongest terms", STRENGTH, called, size[listed], select="term", caption=caption)
        grids = [_grid(model, terms, V, int(t), called[i], classes) for i, t in enumerate(listed)]
        S = weights.pair_strength(groups, size, len(names))
        ring = weights.network("Which variables act together", names, S, "Variables joined by terms that hold both.")
        best = called[0]
        out.hero(view)
        tops = [_combinations(model, d) for d in sorted(model.degree_, reverse=True) if d > 1][:2]
        learned = out.section("learned", "What it learned").charts(*tops, ranking, charts.follow("term", grids), ring, *more)
        out.face = tops[0] if tops else view.get("none", view)
        few = f"The {len(listed)} strongest of {len(groups):,} terms can be looked at." if len(listed) < len(groups) else ""
        learned.text(few, soft=True)
    else:
        say = f"With terms of degrees {degrees} there are too many weights to show; model.effect(...) gives any of them."
        out.section("learned", "What it learned").text(say)
    out.lead = _lead(model, about, judged, best)
    if judged is not None:
        out.warnings += judged.warnings(about, "", "A smaller ridge may help.")
        out.numbers = judged.numbers(np.bincount(judged.y[judged.known], minlength=len(classes)) / max(len(judged.known), 1))
        judged.quality(out.section("quality", "How good is it?").charts(judged.confusion(), judged.calibration()))
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


def _combinations(model: Any, degree: int) -> charts.Chart:
    """The strongest combinations of so many variables, with the states that they speak loudest of."""
    top = model.interactions(MOST, degree=degree)
    rows = top[["term", "strength", "strongest", "weight"]].to_numpy().tolist()
    caption = "What the variables say together, beyond what each and any fewer of them say."
    more = {"columns": ["combination", "strength", "its largest weight is of", "weight"], "rows": rows, "caption": caption}
    return charts.bar(f"Strongest combinations of {degree} variables", STRENGTH, top["term"], top["strength"], **more)


def _signed(what: str, features: list[str], V: Array, errors: Array | None, mine: np.ndarray, classes: list[str]) -> charts.Chart:
    """Weights for each class; with two classes those of one, for the other has the same with the other sign."""
    features, V = list(compress(features, mine)), V[mine]

    def view(k: int, against: str) -> charts.Chart:
        error = None if errors is None else errors[mine, k]
        return weights.signed(f"{what} for {classes[k]}", features, V[:, k], error, classes[k], against, wide=True)

    if len(classes) == 2:
        return view(1, f"for {classes[0]}")
    views = [view(k, "against it") for k in range(len(classes))]
    return charts.follow("class", views, view(int(np.abs(V).max(axis=0).argmax()), "against it"))


def _grid(model: Any, terms: Any, V: Array, t: int, name: str, classes: list[str]) -> charts.Chart:
    """The weights of a term: of one variable for all classes, of several for the class that they speak of most."""
    group, block = terms.of(t), V[terms.offset[t] : terms.offset[t + 1]]
    labels = [model.categories_.labels[v] for v in group]
    variables = [model.categories_.names[v] for v in group]
    if len(group) == 1 and len(classes) > 2:
        return weights.table(f"Weights of {name}", block.T, [classes, *labels], ["class", *variables], "for each class")
    k = 1 if len(classes) == 2 else int(np.abs(block).max(axis=0).argmax())
    return weights.table(f"Weights of {name}", block[:, k], labels, variables, f"for {classes[k]}")


def _lead(model: Any, about: About, judged: Judged | None, best: str) -> str:
    text = (
        f"A free energy model tells {plural(len(model.classes_), 'class', 'classes')} apart by "
        f"{plural(len(model.categories_.names), 'variable')} and their combinations up to {max(model.degree_)} at a time, "
        f"learned from {plural(int(model.n_rows_), 'row')}."
    )
    if best:
        text += f" The strongest term is {best}."
    if judged is None:
        return f"{text} No rows with classes were given to this report, so it cannot say how good the predictions are."
    return f"{text} {judged.lead(about, int(np.bincount(judged.y[judged.known]).argmax()))}"


_CODE = """\
model.predict_proba(X)                  # a table with the same columns
model.interactions(20)                  # the strongest terms
model.effect(variable="state")          # the weights of one combination
model.weights_                          # all of them, by name"""
