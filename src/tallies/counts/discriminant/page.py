"""The report of a discriminant of counts: what marks each class, how well samples are told apart, and where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from tallies.counts import group_views as views
from tallies.counts.coefficients import separated
from tallies.counts.discriminant import answers as asked
from tallies.counts.door import from_files
from tallies.counts.groups import Groups, sentence
from tallies.counts.page import THIN
from tallies.data.labels import known_codes
from tallies.html.common import About, begin, finish, listing, plural, statisticians, told
from tallies.html.judged import Judged
from tallies.html.page import Page

FOUND = 5  # classes that the first screen speaks of
FEW = 5  # a class learned from fewer samples deserves a warning


def page(model: Any, about: About, counts: Any = None, y: Any = None, covariates: Any = None, offsets: Any = None) -> Page:
    """The report of a PLNDiscriminant; counts and classes y add how good it is on them."""
    counts, covariates, offsets, _ = from_files(counts, covariates, offsets)
    classes, species = [str(c) for c in model.classes_], [str(c) for c in model._columns()]
    n, prior = asked.sizes(model.fitted_), model.priors_.to_numpy()
    judged, groups, lost = None, *_told_of(model)
    if counts is not None:
        J = model.log_joint(counts, covariates=covariates, offsets=offsets)
        log_p = logsumexp(J, axis=1)
        judged = Judged(classes, np.exp(J - log_p[:, None]), log_p, known_codes(y, len(J), model.classes_))
    known = judged if judged is not None and len(judged.known) else None
    more = (
        known.lead(about, int(np.argmax(prior))) if known is not None else "No labelled samples were given to this report, so it "
    )
    more += "" if known is not None else "cannot say how good the predictions are."
    lead = f"{plural(len(classes), 'class', 'classes')} of {plural(len(model.design_), 'sample')}, told apart by the counts of "
    out = begin(model, about, "Classes of", f"{lead}{plural(len(species), 'species', 'species')}. {more}")
    out.findings = [sentence(groups, int(k)) for k in np.argsort(-n, kind="stable")[:FOUND]]
    few = [c for c, size in zip(classes, n, strict=True) if size < FEW]
    rare = [species[j] for j in np.flatnonzero(model.fitted_.data.total < THIN)]
    out.warnings += told(
        (few, f"{plural(len(few), 'class was', 'classes were')} learned from fewer than {FEW} samples ({listing(few, 5)})."),
        (lost, f"{listing(lost, 5)}: seen so rarely that covariates have no finite effect; left out of what marks the classes."),
        (rare, f"{plural(len(rare), 'species was', 'species were')} counted fewer than {THIN} times in all ({listing(rare, 5)})."),
    )
    out.pick("class", "Class", classes)
    plane, bars = views.plane(groups), views.marked(groups)
    if known is not None:
        assert judged is not None
        out.warnings += judged.warnings(about, "Trust its order of classes more than its probabilities.", "")
        out.numbers = known.numbers(prior)
        out.hero(known.confusion(), plane)
    else:
        out.hero(plane, bars)
    out.face = {k: v for k, v in (plane or bars).items() if k != "wide"}
    section = out.section("learned", "What marks each class").text(
        "A factor says by how much a species is more or less abundant in a class than in all classes together, covariates and "
        "sampling effort taken out; species are in the order of how far apart that is beside their spread within a class."
    )
    section.charts(bars if known is not None else None, views.centres(groups))
    rows = [(classes[k], float(n[k]), f"{prior[k]:.1%}") for k in np.argsort(-n, kind="stable")]
    section.table(["class", "samples in the fit", "probability before looking"], rows)
    if known is not None:
        quality = out.section("quality", "How good is it?").charts(known.calibration(), known.sureness())
        known.quality(quality)
    criteria: list[tuple[str, Any, str]] = [
        ("Log likelihood", model.loglik_, "a lower bound, of the fitted counts given their classes"),
        ("BIC", model.bic_, f"{int(model.n_parameters_):,} parameters; smaller is better, among fits to the same counts"),
    ]
    statisticians(out, criteria)
    facts = [
        ("Samples", len(model.design_)),
        ("Species", len(species)),
        ("Classes", len(classes)),
        ("Covariates", ", ".join(map(str, asked.plain(model.fitted_).design.names))),
        ("Offsets", model.offsets_rule_),
        ("Samples in this report", len(judged.log_p) if judged is not None else None),
    ]
    return finish(out, model, about, facts, _CODE, "predict RUN counts.csv", "score RUN counts.csv", "report RUN counts.csv")


def _told_of(model: Any) -> tuple[Groups, list[str]]:
    """The classes by the species that have finite means in them; and the others, whose effects of covariates are separated."""
    fitted, groups = model.fitted_, asked.groups(model.fitted_, model.shrinkage)
    beside = [i for i, name in enumerate(asked.plain(fitted).design.names) if name != "Intercept"]
    lost = separated(fitted)[beside].any(axis=0)
    if lost.all() or not lost.any():
        return groups, []
    j = np.flatnonzero(~lost)
    Z = None if groups.Z is None else groups.Z[:, j]
    kept = groups._replace(species=[groups.species[i] for i in j], means=groups.means[:, j], Z=Z)
    return kept._replace(Sigma=groups.Sigma[np.ix_(j, j)]), [groups.species[i] for i in np.flatnonzero(lost)]


_CODE = """\
model.predict_proba(counts)             # classes of new samples
model.marks_                            # what marks each class
model.transform(counts)                 # axes that tell the classes apart
model.sample(5)                         # new samples with their classes"""
