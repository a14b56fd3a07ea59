"""The report of a network of categorical variables: which are coupled, how, and how well each is told from the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import entr

from tallies.categories import views
from tallies.categories.scores import Columns, strongest_pairs
from tallies.categories.words import no_chance
from tallies.html import charts
from tallies.html.common import About, begin, finish, plural, told
from tallies.html.order import alike
from tallies.html.page import Page
from tallies.maths import Array

PAIRS = 200  # pairs that can be looked at one by one: the strongest
MATRIX = 200  # variables in the matrix of couplings
NAMED = 3  # couplings in the lead


def page(model: Any, about: About, X: Any = None) -> Page:
    """The report of a FEMNetwork; rows X say how well each variable is told from the others."""
    names = [str(name) for name in model.categories_.names]
    S, columns, starts = model.scores(), model._columns(), model._starts()
    arrow = " → " if model.lag else " – "
    pairs = strongest_pairs(S, PAIRS, bool(model.lag)).tolist()
    called = [names[a] + arrow + names[b] for a, b in pairs]
    above = sum(bool(S[a, b] > 0) for a, b in pairs)  # the others are no more than the background
    log_p = None if X is None else _log_p(model, X)
    out = begin(model, about, "Network of", _lead(model, about, _sure(model, pairs[:above]), log_p))
    out.pick("pair", "Pair", called, "the strongest")
    out.pick("variable", "Variable", names)
    noise = f"{model.effective_rows_:,.0f} effective rows for {plural(len(names), 'variable')}: weak couplings are noise."
    out.warnings += told((model.effective_rows_ < len(names), noise))
    what = "Row acts on column, one step later." if model.lag else "Direct couplings: what others explain is taken out."
    ring = views.network("Which variables are coupled", names, np.maximum(S, 0), what, bool(model.lag), select="variable")
    unit, caption = "score (norm of the couplings, less the background)", "Choose a pair to see which states go together."
    shown = max(above, 1)
    scores = [S[a, b] for a, b in pairs[:shown]]
    top = views.strongest("Strongest couplings", unit, called[:shown], scores, select="pair", caption=caption) if pairs else None
    out.hero(ring, top)
    out.face = ring or top
    grids = [_grid(model, columns, starts, a, b, called[i]) for i, (a, b) in enumerate(pairs)]
    learned = out.section("learned", "What it learned")
    learned.charts(charts.follow("pair", grids) if grids else None, _matrix(S, names, bool(model.lag)))
    if log_p is not None:
        out.section("quality", "How good is it?").charts(_told(model, log_p, names))
    criteria = out.section("criteria", "For statisticians")
    if log_p is not None:
        found = model._evaluate(X)
        scored = ["log p(row) by pseudo-likelihood, larger is better", found.value, found.stderr, found.kind, found.unit]
        criteria.table(["criterion", "value", "standard error", "kind", "unit"], [scored], first=0)
    if model.path_["ridge"]:
        criteria.charts(views.path(model.path_, model.ridge_, "cell"))
    how = "each pair has a ridge of its own" if model.pair_ridges_ is not None else "one ridge holds for all pairs"
    corrected = "scores are Frobenius norms in zero-sum gauge with the average product correction"
    criteria.text(f"Ridge {model.ridge_:.3g}; {how}; {corrected}.", soft=True)
    facts = [
        ("Rows", f"{int(model.n_rows_):,}, worth {model.effective_rows_:,.0f}"),
        ("Variables", f"{len(names)} with {int(model.categories_.sizes.sum()):,} states"),
        ("Degrees", ", ".join(map(str, model.degree_))),
        ("Ridge", float(model.ridge_) if model.pair_ridges_ is None else "by pair"),
        ("Lag", int(model.lag)),
    ]
    return finish(out, model, about, facts, _CODE, "score RUN rows.csv", "report RUN rows.csv")


def _sure(model: Any, pairs: list[list[int]]) -> int:
    """How many of the first pairs are more than chance."""
    size, m, rows = model.scores(apc=False), model.categories_.sizes, model.effective_rows_
    ridge = np.broadcast_to(model.ridge_ if model.pair_ridges_ is None else model.pair_ridges_, size.shape)
    free, g, every = np.outer(m - 1, m - 1), rows / np.outer(m, m), np.ones_like(size, dtype=bool)
    used = float(((free * g / (g + ridge)).sum(axis=0) / (rows * np.maximum(m - 1, 1))).max())
    mine = every if model.lag else np.triu(every, 1)
    sure = np.zeros_like(mine)
    sure[mine] = no_chance(size[mine], free[mine], g[mine], ridge[mine], used)
    return int(np.append([sure[a, b] for a, b in pairs], False).argmin())


def _lead(model: Any, about: About, sure: int, log_p: Array | None) -> str:
    """Who goes with whom, which states, and how well each is told."""
    text, variables = "", plural(len(model.categories_.names), "variable")
    if sure:
        table = model.top_couplings(min(sure, NAMED))
        joined = "{} on {}" if model.lag else "{} with {}"
        pairs = [joined.format(a, b) for a, b in zip(table["a"], table["b"], strict=True)]
        states, sign = table["strongest"][0].replace(" -> ", ", then ").replace(" & ", " with "), table["coupling"][0] > 0
        verb = "Acting most on what follows" if model.lag else "Going together most"
        text = f"{verb}: {', '.join(pairs)}. In the first, {states} is {'more' if sign else 'less'} frequent than by chance. "
    else:
        text = f"No coupling stands out from the noise of {plural(int(model.n_rows_), 'row')}. "
    if log_p is not None:
        whose = about.whose("unseen rows", "the fitted rows", "the given rows")
        p, alone = np.exp(np.nanmean(log_p)), np.exp(-np.mean(_entropies(model)))
        text += f"On {whose} a value has probability {p:.2f} (geometric mean); its frequency alone gives {alone:.2f}. "
    how = "all of the step before" if model.lag else "the others"
    return f"{text}Each of {variables} is told from {how}, learned from {plural(int(model.n_rows_), 'row')}."


def _log_p(model: Any, X: Any) -> Array:
    """log p of every cell, NaN where it has no state that the fit knows."""
    log_p = np.asarray(model.log_conditional(X))
    return np.where(model._read(X)[:, -log_p.shape[1] :] >= 0, log_p, np.nan)


def _entropies(model: Any) -> Array:
    return np.array([float(np.nansum(entr(f))) for f in model.frequencies_])


def _grid(model: Any, columns: Columns, starts: Any, a: int, b: int, name: str) -> charts.Chart:
    labels = [list(model.categories_.labels[v]) for v in (a, b)]
    block = columns(b)[starts[a] : starts[a + 1]]
    names = [str(model.categories_.names[v]) for v in (a, b)]
    return views.table(f"Couplings of {name}", block, labels, names, "of states that go together")


def _matrix(S: Array, names: list[str], directed: bool) -> charts.Chart | None:
    if len(S) < 3:
        return None
    some = np.sort(np.argsort(-S.max(axis=1), kind="stable")[:MATRIX])
    T = S[np.ix_(some, some)]
    order = alike(np.maximum(T, T.T) / max(float(T.max()), 1e-12))[0]
    values = np.round(np.maximum(T[np.ix_(order, order)], 0), 4)
    called = [names[some[i]] for i in order]
    x = "acts on" if directed else "variable"
    caption = "Variables that are coupled are neighbours."
    caption += f" The {MATRIX} most coupled of {len(S):,}." if len(S) > MATRIX else ""
    look = {"flip": True, "empty": True, "unit": "score", "caption": caption}
    return charts.heat("All couplings", x, "variable", called, called, values, **look)


def _told(model: Any, log_p: Array, names: list[str]) -> charts.Chart:
    """How much of each variable the others tell."""
    n = np.maximum((~np.isnan(log_p)).sum(axis=0), 1)
    mean = np.nansum(log_p, axis=0) / n
    gain = np.where(np.isnan(log_p).all(axis=0), 0.0, mean + _entropies(model))
    error = np.sqrt(np.nansum((log_p - mean) ** 2, axis=0) / np.maximum(n - 1, 1) / n)
    top = np.argsort(-gain, kind="stable")[: views.BARS]
    title, unit, ends = "What the others tell of each variable", "gain over its frequencies (nats)", views.ends(gain, error, top)
    caption = "Log probability of its values given the others, above that of their frequencies, with two standard errors."
    return charts.bar(title, unit, [names[j] for j in top], gain[top], look=ends, caption=caption)


_CODE = """\
model.top_couplings(20)                 # the strongest pairs
model.scores("direct_information")      # another measure of strength
model.simulate(100)                     # new rows
model.energy(X)                         # low: probable rows"""
