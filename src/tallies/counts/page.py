"""The report of a Poisson log-normal model: which species go together, what covariates do, and how well counts are expected."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from tallies.counts import views as counts
from tallies.counts.answers import correlation, flat_columns, rates
from tallies.counts.coefficients import separated
from tallies.html import charts
from tallies.html.common import About, begin, finish, listing, plural, told
from tallies.html.page import Page
from tallies.maths import Array

LISTED = 300  # most species among which one can be chosen
INTERVALS = 400  # coefficients whose errors are worth the seconds they take
THIN = 10  # a species counted fewer times than this says little


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
    species = [str(c) for c in model._columns()]
    R = np.nan_to_num(np.asarray(model.correlation_))
    Y, rate, ours = _expected(model, counts_, covariates, offsets)
    score = None if counts_ is None or ours else model._evaluate(counts_, covariates, offsets)
    out = begin(model, about, "Counts of", _lead(model, about, species, R, score))
    _warn(out, model, Y if ours else None, species)
    out.numbers = _numbers(model, score)
    whole = len(species) <= LISTED
    effects = [d for d, column in enumerate(model.design_.T) if np.ptp(column) > 0]
    shades = _shades(model, effects, colour)
    out.pick("species", "Species", species if whole else [])  # charts name species by their place in the model
    out.pick("colour", "Colour by", list(shades), "nothing")
    out.pick("covariate", "Effect of", [str(model.covariate_names_[d]) for d in effects], "the first")
    view = counts.latent_map(model, species, shades, names)
    if len(shades) == 1:  # no choice: coloured at once
        view = view["views"][0]
    together = counts.partners(R, species, np.arange(len(species) if whole else 0))
    out.hero(view)
    out.face = {k: v for k, v in (view.get("none") or view).items() if k != "wide"}
    effect = _forest(model, effects, species) if effects else None
    out.section("learned", "What it learned").charts(counts.correlations(R, species), together, effect)
    if truth is not None:
        _truth(out, model, truth, species)
    quality = out.section("quality", "How good is it?")
    quality.charts(counts.expected(Y, rate, species), None if ranks is None else counts.criteria(ranks))
    kind = "bound" if model.elbo_ is not None else "estimate"
    rows = [
        ["log likelihood of the fit", model.loglik_, model.loglik_stderr_, kind],
        *([name.upper(), getattr(model, f"{name}_"), None, f"from a {kind}"] for name in ("aic", "bic", "icl")),
    ]
    if score is not None:
        rows.append([f"log likelihood of the given counts ({score.unit})", score.value, score.stderr, score.kind])
    caption = "Of the criteria, smaller is better; they compare fits to the same counts"
    quality.table(["score", "value", "standard error", "kind"], rows, caption)
    facts = [
        ("Samples", len(model.design_)),
        ("Species", len(species)),
        ("Covariates", ", ".join(map(str, model.covariate_names_))),
        ("Offsets", model.offsets_rule_),
        ("Algorithm", model.algorithm_),
        ("Parameters", int(model.n_parameters_)),
    ]
    return finish(out, model, about, facts, _CODE, "predict RUN counts.csv", "score RUN counts.csv", "report RUN counts.csv")


def _expected(model: Any, Y: Any, covariates: Any, offsets: Any) -> tuple[Array, Array, bool]:
    """Counts, what is expected of them, and whether they are those of the fit."""
    seen = model.fitted_.data.Y
    if Y is None:
        return seen.astype(float), rates(model.fitted_), True
    table = model._table(Y)
    return table.values, model.predict(Y, covariates=covariates, offsets=offsets), np.array_equal(table.Y, seen)


def _lead(model: Any, about: About, species: list[str], R: Array, score: Any) -> str:
    learned = model.fitted_.model
    together = "may go together in any way" if learned.kind == "full" else "go together in a simple or given way"
    if learned.rank is not None:
        together = f"go together along {plural(learned.rank, 'hidden gradient')}"
    text = f"A Poisson log-normal model of {plural(len(species), 'species', 'species')} in {plural(len(model.design_), 'sample')}, "
    text += f"which {together}."
    strong = np.abs(np.triu(R, 1))
    if len(species) > 1 and strong.max() > 0.05:
        a, b = np.unravel_index(int(strong.argmax()), R.shape)
        how = "rise and fall together" if R[a, b] > 0 else "replace each other"
        text += f" {species[a][:1].upper()}{species[a][1:]} and {species[b]} {how} most (correlation {R[a, b]:.2f})."
    if len(model.covariate_names_) > 1:
        text += f" The covariates explain {model.r2_:.0%} of what varies between samples on the log scale."
    if score is not None:
        text += f" A sample {about.rows} has a log likelihood of {score.value:,.1f} nats ({score.kind})."
    return text


def _warn(out: Page, model: Any, Y: Array | None, species: list[str]) -> None:
    learned, k, n = model.fitted_.model, int(model.n_parameters_), len(model.design_) * len(species)
    flat = [species[j] for j in flat_columns(learned) if learned.rank is not None]
    thin = [] if Y is None else [species[j] for j in np.flatnonzero(np.nansum(Y, axis=0) < THIN)]
    seldom = f"counted fewer than {THIN} times in all ({listing(thin, 5)}): what is said of them is mostly guessed."
    out.warnings += told(
        (flat, f"Species on none of the gradients ({listing(flat, 5)}): their correlations mean nothing."),
        (thin, f"{plural(len(thin), 'species was', 'species were')} {seldom}"),
        (k > n, f"{k:,} parameters from {n:,} counts: fit a smaller rank."),
    )


def _numbers(model: Any, score: Any) -> list[tuple[str, str, str]]:
    kind = "a lower bound" if model.elbo_ is not None else "an estimate"
    error = "" if model.loglik_stderr_ is None else f" ± {model.loglik_stderr_:.2g}"
    out = [
        ("Log likelihood", f"{model.loglik_:,.0f}{error}", f"{kind}, of the fitted counts"),
        ("BIC", f"{model.bic_:,.0f}", f"{int(model.n_parameters_):,} parameters; smaller is better"),
    ]
    if len(model.covariate_names_) > 1:
        out.append(("Explained by covariates", f"{model.r2_:.0%}", "of the latent variance between samples"))
    if score is not None:
        error = "" if score.stderr is None else f" ± {score.stderr:.2g}"
        out.append(("Given counts", f"{score.value:,.1f}{error}", f"log likelihood, {score.unit}, {score.kind}"))
    else:
        out.append(("ICL", f"{model.icl_:,.0f}", "BIC, and a price for hidden values that are uncertain; smaller is better"))
    return out


def _shades(model: Any, effects: list[int], colour: Any) -> dict[str, Any]:
    """What the map can be coloured by: the covariates that vary, then the columns of `colour`."""
    X = model.design_
    found = {str(model.covariate_names_[d]): X[:, d] for d in effects}
    if colour is not None:
        table = colour if isinstance(colour, Mapping) else {str(c): colour[c] for c in colour.columns}
        found |= {str(name): np.asarray(values) for name, values in table.items() if len(values) == len(X)}
    return found


def _forest(model: Any, effects: list[int], species: list[str]) -> charts.Chart:
    estimate, ends, apart = model.coefficients_, None, separated(model.fitted_)
    if estimate.size <= INTERVALS:
        with suppress(ValueError, np.linalg.LinAlgError):  # no curvature to take an error from: estimates alone
            table = model.coefficient_table()
            ends = np.stack([table[c].to_numpy().reshape(estimate.shape)[effects] for c in ("lower", "upper")])
    return counts.forest(estimate[effects], ends, apart[effects], [str(model.covariate_names_[d]) for d in effects], species)


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
