"""The report of a mixture of PLNs: which clusters of samples there are, what marks them, how sure that is, how many there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.counts import group_views
from tallies.counts.door import from_files
from tallies.counts.groups import sentence
from tallies.counts.mixture import answers as asked
from tallies.counts.mixture import views as mixture_views
from tallies.counts.page import THIN
from tallies.html.common import About, begin, finish, listing, plural, statisticians, told
from tallies.html.page import Page

FOUND = 6  # clusters that the first screen speaks of
LISTED = 30  # samples in the table of those that are uncertain


def page(model: Any, about: About, counts: Any = None, covariates: Any = None, offsets: Any = None, *, colour: Any = None) -> Page:
    """The report of a PLNMixture; counts add scores. `colour`, a table with a row for each sample of the fit, is set beside the
    clusters."""
    counts, covariates, offsets, _ = from_files(counts, covariates, offsets)
    score = None if counts is None else model._evaluate(counts, covariates, offsets)
    fitted = model.fitted_
    groups, tau, K = asked.groups(fitted), fitted.tau, len(fitted.share)
    unsure = np.flatnonzero(tau.max(axis=1) < asked.CLEAR)
    out = begin(model, about, "Clusters of", _lead(model, groups, len(unsure)))
    size = np.bincount(groups.codes, minlength=K)
    out.findings = [f"{sentence(groups, k)[:-1]}; {plural(int(size[k]), 'sample')}." for k in range(min(K, FOUND)) if K > 1]
    rare = [groups.species[j] for j in np.flatnonzero(fitted.data.total < THIN)]
    seldom = f"{plural(len(rare), 'species was', 'species were')} counted fewer than {THIN} times in all ({listing(rare, 5)})"
    out.warnings += told((rare, f"{seldom}: they mark no cluster."))
    out.pick("cluster", "Cluster", groups.names if K > 1 else [])
    plane, bars, tried = group_views.plane(groups), group_views.marked(groups), mixture_views.tried(model)
    out.hero(*(chart for chart in (plane, tried) if chart is not None))
    face = plane or bars
    out.face = {k: v for k, v in (face.get("none") or face).items() if k != "wide"}
    if K > 1:
        section = out.section("learned", "What marks each cluster").text(
            "A factor says by how much a species is more or less abundant in a cluster than in all of them, covariates and "
            "sampling effort taken out; species are in the order of how far apart that is beside their spread within a cluster."
        )
        section.charts(bars, group_views.centres(groups))
        rows = [[name, f"{fitted.share[k]:.1%}", int(size[k])] for k, name in enumerate(groups.names)]
        section.table(["cluster", "share", "samples that are likeliest in it"], rows)
        sure = out.section("sure", "How sure are the assignments?").charts(
            mixture_views.sureness(model), mixture_views.beside(model, colour)
        )
        order = unsure[np.argsort(tau[unsure].max(axis=1), kind="stable")][:LISTED]
        best = np.argsort(-tau[order], axis=1, kind="stable")[:, :2]
        rows = [
            [groups.samples[i], *(f"{groups.names[k]} ({tau[i, k]:.0%})" for k in two)] for i, two in zip(order, best, strict=True)
        ]
        if rows:
            sure.table(["sample", "likeliest", "then"], rows, "Samples that may belong to either of two clusters")
    smaller = "smaller is better, among fits to the same counts"
    criteria: list[tuple[str, Any, str]] = [
        ("Log likelihood", model.loglik_, "a lower bound, of the fitted counts"),
        ("BIC", model.bic_, f"{int(model.n_parameters_):,} parameters; {smaller}"),
        ("ICL", model.icl_, f"BIC, and a price for samples whose cluster is uncertain; {smaller}"),
    ]
    if score is not None:
        criteria.append((f"Log likelihood of a sample {about.rows}", score.value, f"{score.unit}, {score.kind}"))
    statisticians(out, criteria)
    facts = [
        ("Samples", len(tau)),
        ("Species", len(groups.species)),
        ("Clusters", K),
        ("Covariance", f"{model.covariance}, one for each cluster"),
        ("Covariates", ", ".join(map(str, model.covariate_names_))),
        ("Offsets", model.offsets_rule_),
    ]
    return finish(out, model, about, facts, _CODE, "predict RUN counts.csv", "score RUN counts.csv", "report RUN counts.csv")


def _lead(model: Any, groups: Any, unsure: int) -> str:
    K, of = len(groups.names), f"{plural(len(groups.codes), 'sample')} of {plural(len(groups.species), 'species', 'species')}"
    tried = len(model.tried_)
    how = f" It was chosen by {model.select.upper()} among {tried} numbers of clusters." if tried > 1 else ""
    if K == 1:
        return f"{of} are in one cluster: nothing speaks for more.{how}"
    sure = "all of them surely" if not unsure else f"all but {unsure:,} surely"
    return f"{of} fall into {K} clusters, {sure} (a probability of {asked.CLEAR:.0%} or more).{how}"


_CODE = """\
model.labels_                           # the cluster of each sample
model.predict_proba(counts)             # clusters of new samples
model.marks_                            # what marks each cluster
model.sample(10)                        # new samples"""
