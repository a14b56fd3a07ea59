"""The report of a Poisson log-normal model: which species go together, what covariates do, and how well counts are expected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from tallies.counts import views as counts
from tallies.counts.answers import correlation, flat_columns, rates, residuals
from tallies.counts.coefficients import factor, separated, times
from tallies.counts.door import from_files
from tallies.html import charts
from tallies.html.common import About, begin, finish, listing, plural, statisticians, told
from tallies.html.page import Page, Section
from tallies.maths import Array

LISTED = 300  # most species among which one can be chosen
INTERVALS = 5e8  # rows times squared coefficients up to which errors are worth the seconds they take
THIN = 10  # a species counted fewer times than this says little
FOUND = 4  # groups of species, and covariates, that the first screen speaks of


def page(
    model: Any,
    about: About,
    counts_: Any = None,
    covariates: Any = None,
    offsets: Any = None,
    *,
    colour: Mapping[str, Any] | Any = None,
    ranks: Any = None,
    truth: Mapping[str, Any] | None = None,
    names: Any = None,
) -> Page:
    """The report of a PLN. Counts add scores and a comparison with what is expected of them; `colour`, a table with a row for each
    sample of the fit, colours the map; `ranks`, a table from `PLN.over_ranks`, compares fits; `truth`, of simulated data, has
    "coefficients" and "covariance"; `names` are those of the samples."""
    counts_, covariates, offsets, _ = from_files(counts_, covariates, offsets)
    species = [str(c) for c in model._columns()]
    R, names = np.nan_to_num(np.asarray(model.correlation_)), model.fitted_.data.samples if names is None else names
    Y, rate, ours = expected_of(model, counts_, covariates, offsets)
    score = None if counts_ is None or ours else model._evaluate(counts_, covariates, offsets)
    effects = [d for d, column in enumerate(model.design_.T) if np.ptp(column) > 0]
    table, apart = effect_table(model), separated(model.fitted_)
    found = counts.groups(R, _clear(model))
    out = begin(model, about, "Counts of", _lead(model, species, R, found))
    out.findings = [*_structural(model, species), *_together(R, species, found), *_matters(model, effects, table, apart, species)]
    _warn(out, model, Y if ours else None, species, apart[effects])
    whole = len(species) <= LISTED
    shades = _shades(model, effects, colour)
    out.pick("species", "Species", species if whole else [])  # charts name species by their place in the model
    out.pick("colour", "Colour by", list(shades), "nothing" if colour is None else "the first")
    out.pick("covariate", "Effect of", [named(model, d) for d in effects], "the first")
    view = None if model.fitted_.latent_mean is None else counts.latent_map(model, species, shades, names)
    if view is None:  # in files, as the counts are
        shades = {}
    elif len(shades) == 1:  # no choice: coloured at once
        view = view["views"][0]
    elif shades and colour is not None:  # what was asked for is there when the page opens
        view |= {"none": view["views"][0], "title": view["views"][0]["title"]}
    together = counts.correlations(R, species)
    out.hero(together or view)
    face = together or view
    out.face = {k: v for k, v in (face.get("none") or face).items() if k != "wide"} if face else None
    _groups(section := out.section("learned", "Which species go together"), model, found, species)
    section.charts(counts.clusters(R, species, found), counts.partners(R, species, np.arange(len(species) if whole else 0)))
    if effects:
        out.section("effects", "What the covariates do").charts(forest(model, effects, table, apart, species))
    if model.fitted_.zeros is not None:
        _zeros(out.section("zeros", "Which zeros are structural?"), model, species)
    if view is not None:
        out.section("samples", "Where the samples lie").charts(view if together else None)
    if truth is not None:
        _truth(out, model, truth, species)
    quality(out, model, Y, rate, ours, species, names)
    _criteria(out, model, about, score, ranks)
    facts = [
        ("Samples", len(model.design_)),
        ("Species", len(species)),
        ("Covariates", ", ".join(map(str, model.covariate_names_))),
        ("Offsets", model.offsets_rule_),
        ("Algorithm", model.algorithm_),
    ]
    return finish(out, model, about, facts, _CODE, "predict RUN counts.csv", "score RUN counts.csv", "report RUN counts.csv")


def expected_of(model: Any, Y: Any, covariates: Any, offsets: Any) -> tuple[Array, Array, bool]:
    """Counts, what is expected of them, and whether they are those of the fit; nothing where those are in files."""
    beyond = model.fitted_.data.beyond is not None
    if Y is None and beyond:
        return np.empty((0, 0)), np.empty((0, 0)), False
    if Y is None:
        return model.fitted_.data.values, rates(model.fitted_), True
    table = model._table(Y)
    ours = not beyond and np.array_equal(table.Y, model.fitted_.data.counts)
    return table.values, model.predict(Y, covariates=covariates, offsets=offsets), ours


def effect_table(model: Any) -> pd.DataFrame | None:
    """The table of coefficients, where their errors are worth the seconds they take."""
    with suppress(ValueError, np.linalg.LinAlgError):  # no curvature to take an error from
        work = len(model.design_) * model.coefficients_.size**2
        return model.coefficient_table() if work <= INTERVALS else None
    return None


def _clear(model: Any) -> np.ndarray:
    """Species that are counted often and vary enough for their correlations to mean something."""
    clear = model.fitted_.data.total >= THIN
    clear[flat_columns(model.fitted_.model)] = False
    return clear


def _lead(model: Any, species: list[str], R: Array, found: list[counts.Group]) -> str:
    n, p = plural(len(model.design_), "sample"), plural(len(species), "species", "species")
    if found:
        members = sum(len(group.members) for group in found)
        text = f"{p} in {n}: {members} of them go together in {plural(len(found), 'group')}"
        text += f", the largest of {max(len(group.members) for group in found)}." if len(found) > 1 else "."
    else:
        most = float(np.abs(np.triu(R, 1)).max(initial=0.0))
        text = f"{p} in {n}."
        text += f" No species go together strongly: the largest correlation is {most:.2f}." * (len(species) > 1)
    if len(model.covariate_names_) > 1 and np.isfinite(model.r2_):
        text += f" The covariates explain {model.r2_:.0%} of what varies between samples."
    return text


def _together(R: Array, species: list[str], found: list[counts.Group]) -> list[str]:
    """The strongest groups, and who replaces whom, as sentences."""
    out = [
        f"{counts.title_of(g.members, species, 6)} rise and fall together (mean correlation {g.within:.2f})." for g in found[:FOUND]
    ]
    if len(found) > 1:
        means = counts.between(R, [group.members for group in found])
        a, b = np.unravel_index(int(np.nanargmin(means)), means.shape)
        if means[a, b] < -0.3:
            one, other = (counts.title_of(found[g].members, species, 3) for g in (a, b))
            return [*out, f"Where {one} are common, {other} are rare (mean correlation {means[a, b]:.2f})."]
    a, b = np.unravel_index(int(R.argmin()), R.shape)
    return [*out, f"{species[a]} and {species[b]} replace each other most (correlation {R[a, b]:.2f})."] if R[a, b] < -0.3 else out


def named(model: Any, d: int) -> str:
    """A covariate in words: what a formula calls tree[T.oak] is "tree: oak rather than beech"."""
    name, formula = str(model.covariate_names_[d]), model.fitted_.design.formula
    match = re.fullmatch(r"(.+)\[T\.(.+)\]", name)
    first = formula.levels.get(match[1], []) if match and formula else []
    return f"{match[1]}: {match[2]}" + (f" rather than {first[0]}" if first else "") if match else name


def _structural(model: Any, species: list[str]) -> list[str]:
    """How many zeros are there whatever the abundance, and of which species."""
    if model.fitted_.zeros is None:
        return []
    rho, zero = model.zero_probability_, model.fitted_.data.values == 0
    share = rho.sum(axis=0) / len(rho)
    top = [j for j in np.argsort(-share, kind="stable")[:3] if share[j] >= 0.005]  # others have none to speak of
    most = "; most of " * bool(top) + ", ".join(f"{species[j]} ({share[j]:.0%} of its counts)" for j in top)
    return [
        f"Of {int(zero.sum()):,} zeros about {rho.sum():,.0f} are structural, {int((rho > 0.9).sum()):,} of them with a "
        f"probability above 90%{most}."
    ]


def _zeros(section: Section, model: Any, species: list[str]) -> None:
    rho, zero = model.zero_probability_, (model.fitted_.data.values == 0).sum(axis=0)
    section.text(
        "A structural zero is there whatever the abundance: the species could not be counted, or could not be there. The others "
        "are those that rare species have by chance. Which one a zero is follows from how many counts the other species of its "
        "sample, the covariates and the sampling effort let expect."
    )
    share = rho.sum(axis=0) / np.maximum(zero, 1)
    order = np.argsort(-rho.sum(axis=0), kind="stable")[:LISTED]
    rows = [[species[j], int(zero[j]), round(float(rho[:, j].sum()), 3), f"{share[j]:.0%}"] for j in order]
    section.table(["species", "zeros", "structural, expected", "share of its zeros"], rows)


def _matters(model: Any, effects: list[int], table: pd.DataFrame | None, apart: Array, species: list[str]) -> list[str]:
    """What the covariates do, in factors: one sentence each. Of amounts the factor is that of a standard deviation."""
    out = []
    for d in effects[:FOUND]:
        x, name = model.design_[:, d], named(model, d)
        step = 1.0 if set(np.unique(x).tolist()) == {0.0, 1.0} else float(x.std())
        of = f"Effect of {name}" + f", a standard deviation ({step:.3g}) more" * (step != 1.0)
        B = step * np.where(apart[d], 0.0, model.coefficients_[d])
        if table is None:
            best = np.argsort(-np.abs(B), kind="stable")[:3]
            out.append(f"{of}: {', '.join(f'{species[j]} {times(B[j])}' for j in best)}.")
            continue
        rows = table.loc[[model.covariate_names_[d]]]
        z, ends = np.nan_to_num(np.abs(rows["z"].to_numpy())), np.exp(step * rows[["lower", "upper"]].to_numpy())
        best, clear = np.argsort(-z, kind="stable")[:3], int((z > 1.96).sum())
        best = best[np.argsort(-np.abs(B[best]), kind="stable")]  # the surest, in the order of what is shown
        told = [f"{species[j]} {times(B[j])} ({factor(ends[j, 0])} to {factor(ends[j, 1])})" for j in best if z[j] > 1.96]
        count = f"{clear:,} of {len(species):,} species respond clearly"
        surest = "the surest are " * (clear > len(told))  # the chart has larger effects that are less sure
        out.append(f"{of}: {surest}{', '.join(told)}; {count}." if told else f"{of}: no species responds clearly.")
    return out


def _groups(section: Section, model: Any, found: list[counts.Group], species: list[str]) -> None:
    """Who is in which group."""
    rank = model.fitted_.model.rank
    section.text(
        "Species go together where their counts rise and fall together from sample to sample, once covariates and sampling effort "
        "are taken out."
    )
    if rank is not None:
        section.text(f"The model has {plural(rank, 'hidden gradient')} only, which makes correlations stronger than they are.")
    if found:
        members = [", ".join(species[j] for j in group.members) for group in found]
        rows = [[g + 1, members[g], len(group.members), round(group.within, 2)] for g, group in enumerate(found)]
        caption = f"Groups of species whose mean correlation is above {counts.TOGETHER}"
        section.table(["group", "species", "how many", "mean correlation"], rows, caption, first=1)


def _warn(out: Page, model: Any, Y: Array | None, species: list[str], apart: Array) -> None:
    learned, k, n = model.fitted_.model, int(model.n_parameters_), len(model.design_) * len(species)
    if model.fitted_.likelihood.fell:  # more sweeps would not help, and what would is said
        out.warnings = [text for text in out.warnings if "raise max_iter" not in text]
    if not model.fitted_.likelihood.bound:
        out.warnings = [text.replace("raise max_iter", "raise max_epochs or max_iter") for text in out.warnings]
    flat = [species[j] for j in flat_columns(learned) if learned.rank is not None]
    thin = [] if Y is None else [species[j] for j in np.flatnonzero(np.nansum(Y, axis=0) < THIN)]
    never = [species[j] for j in np.flatnonzero(apart.any(axis=0))]
    seldom = f"counted fewer than {THIN} times in all ({listing(thin, 5)}): what is said of them is mostly guessed."
    unseen = f"never seen in one of the groups that covariates make ({listing(never, 5)}): those effects have no finite estimate"
    out.warnings += told(
        (flat, f"Species on none of the gradients ({listing(flat, 5)}): their correlations mean nothing."),
        (thin, f"{plural(len(thin), 'species was', 'species were')} {seldom}"),
        (never, f"{plural(len(never), 'species was', 'species were')} {unseen} and are left out."),
        (k > n, f"{k:,} parameters from {n:,} counts: fit a smaller rank."),
    )


def quality(out: Page, model: Any, Y: Array, rate: Array, ours: bool, species: list[str], names: Any) -> None:
    """How well counts are expected, and the cells that are least."""
    called = [f"sample {i + 1}" if names is None else str(names[i]) for i in range(len(model.design_))]
    section = out.section("quality", "Can the model be believed?")
    if model.fitted_.data.beyond is not None:
        section.text("The counts of the fit stayed in files: how well counts are expected is told of those that a report is given.")
        section.charts(counts.expected(Y, rate, species) if Y.size else None)
        return
    found = residuals(model.fitted_)
    section.charts(counts.residuals(found, species, called), counts.expected(Y, rate, species))
    worst = np.argsort(-np.abs(found.least), kind="stable")[:10]
    rows = [
        [species[found.column[k]], called[found.row[k]], int(found.observed[k]), found.expected[k], found.least[k]] for k in worst
    ]
    looked = "" if len(found.value) == found.cells else f", of {len(found.value):,} cells drawn at random"
    heads = ["species", "sample", "observed", "expected", "residual"]
    section.table(heads, rows, f"The counts that surprise most{looked}", first=0)


def _criteria(out: Page, model: Any, about: About, score: Any, ranks: Any) -> None:
    """Likelihoods and criteria, for those who know them."""
    kind = "a lower bound" if model.elbo_ is not None else "an estimate"
    error = "" if model.loglik_stderr_ is None else f", standard error {model.loglik_stderr_:.2g}"
    smaller = f"from {kind}; smaller is better, among fits to the same counts"
    rows: list[tuple[str, Any, str]] = [
        ("Model", model.algorithm_, f"{int(model.n_parameters_):,} parameters"),
        ("Log likelihood", model.loglik_, f"{kind}{error}, of the fitted counts"),
        ("AIC", model.aic_, smaller),
        ("BIC", model.bic_, smaller),
        ("ICL", model.icl_, f"BIC, and a price for hidden values that are uncertain; {smaller}"),
    ]
    if score is not None:
        error = "" if score.stderr is None else f", standard error {score.stderr:.2g}"
        rows.append((f"Log likelihood of a sample {about.rows}", score.value, f"{score.unit}, {score.kind}{error}"))
    statisticians(out, rows).charts(None if ranks is None else counts.criteria(ranks))


def _shades(model: Any, effects: list[int], colour: Any) -> dict[str, Any]:
    """What the map can be coloured by: the columns of `colour`, then the covariates that vary."""
    X, found = model.design_, {}
    if colour is not None:
        table = colour if isinstance(colour, Mapping) else {str(c): colour[c] for c in colour.columns}
        found = {str(name): np.asarray(values) for name, values in table.items() if len(values) == len(X)}
    return found | {str(model.covariate_names_[d]): X[:, d] for d in effects if str(model.covariate_names_[d]) not in found}


def forest(model: Any, effects: list[int], table: pd.DataFrame | None, apart: Array, species: list[str]) -> charts.Chart:
    estimate, ends = model.coefficients_, None
    if table is not None:
        ends = np.stack([table[c].to_numpy().reshape(estimate.shape)[effects] for c in ("lower", "upper")])
    return counts.forest(estimate[effects], ends, apart[effects], [named(model, d) for d in effects], species)


def _truth(out: Page, model: Any, truth: Mapping[str, Any], species: list[str]) -> None:
    section = out.section("truth", "Beside the truth").text("These counts were made up, so what should be found is known.")
    B, names = np.asarray(truth["coefficients"]), model.covariate_names_
    labels = [f"{name}, {s}" for name in names for s in species]
    first = counts.beside_truth("Coefficients", "coefficient", B.ravel(), np.asarray(model.coefficients_).ravel(), labels)
    true = correlation(np.asarray(truth["covariance"]))
    a, b = np.triu_indices(len(true), 1)
    labels = [f"{species[i]} – {species[j]}" for i, j in zip(a, b, strict=True)]
    section.charts(first, counts.beside_truth("Correlations", "correlation", true[a, b], model.correlation_[a, b], labels))


_CODE = """\
model.transform(counts)                 # latent values of new samples
model.predict(counts)                   # what is expected of their counts
model.coefficient_table()               # effects of covariates
model.sample(10)                        # new samples"""
