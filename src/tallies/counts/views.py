"""The pictures of a report on counts: latent map, correlations, coefficients, expected against observed, criteria."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tallies.counts.answers import Residuals, positions
from tallies.html import charts
from tallies.html.common import listing, plural, sampled
from tallies.html.order import alike
from tallies.maths import Array

MOST = 1500  # points drawn: more hide each other
MATRIX = 200  # species in the matrix of correlations; of more, groups are shown
CLUSTERS = 60  # groups of species then
READABLE = 60  # species whose names stand beside the matrix
TOGETHER = 0.5  # mean correlation from which species are said to go together
GROUPS = 30  # groups of species that are drawn
ARROWS = 12  # species drawn as arrows: the strongest
FOREST = 30  # coefficients of a covariate that are drawn
PARTNERS = 15  # correlations of a species that are drawn


def strongest(arrows: Array) -> np.ndarray:
    """The species with the longest arrows."""
    return np.argsort(-np.linalg.norm(arrows, axis=1), kind="stable")[:ARROWS]


def latent_map(
    model: Any, species: Sequence[str], shades: Mapping[str, Any], names: Any, drawn: Any = None, most: int = MOST
) -> charts.Chart:
    """Samples where their counts put them, with the species that vary most, or those `drawn`; one view for each covariate in
    `shades`."""
    Z, A, _, share = positions(model.fitted_)
    n = len(Z)
    some = sampled(np.arange(n), most)
    Z = Z[some]
    called = [f"sample {i + 1}" if names is None else str(names[i]) for i in some]
    strong = strongest(A * np.sqrt(share)) if drawn is None else np.asarray(drawn)
    reach = 0.9 * float(np.abs(Z).max(initial=1e-9)) / max(float(np.abs(A[strong]).max(initial=0.0)), 1e-9)
    arrows = [
        {"x": A[j, 0] * reach, "y": A[j, 1] * reach, "text": species[j], "key": int(j), "tip": f"{species[j]}: more of it this way"}
        for j in strong
    ]
    few = f" {most:,} of {n:,} samples, drawn at random." if n > most else ""
    caption = (
        "Samples near each other have like counts once covariates and sampling effort are taken out. An arrow points to where its "
        f"species is more abundant than expected; the {len(strong)} longest are drawn.{few}"
    )
    x = charts.axis(f"latent axis 1 ({share[0]:.0%} of the latent variance)")
    y = charts.axis(f"latent axis 2 ({share[1]:.0%})")
    look = {"arrows": arrows, "select": "species", "keys": [-1] * len(Z), "caption": caption, "wide": True}

    def view(title: str, group: Any, tips: list[str], *extra: list[Any], **more: Any) -> charts.Chart:
        heads, rows = ["sample", "latent axis 1", "latent axis 2", "value"], zip(called, *Z.T.tolist(), *extra, strict=True)
        return charts.points(title, x, y, Z[:, 0], Z[:, 1], group, tips, heads[: 3 + len(extra)], list(rows), **look, **more)

    plain = view("Where the samples lie", None, called)
    views = []
    for what, column in shades.items():
        values, title = _column(column)[some], f"Where the samples lie, by {what}"
        amounts = values.dtype.kind == "f"
        tips = [f"{name}\n{what}: {format(v, '.4g' * amounts)}" for name, v in zip(called, values, strict=True)]
        if amounts:
            note = " Samples without a value are hollow." if np.isnan(values).any() else ""
            chart = view(title, None, tips, values.tolist(), values=values, amount=what)
            views.append(chart | {"caption": caption + note})
        else:
            kinds, codes = np.unique(values, return_inverse=True)
            legend = [{"name": kind, "key": k} for k, kind in enumerate(kinds)]
            chart = view(title, codes.tolist(), tips, values.tolist(), legend=legend, show=True)
            views.append({k: v for k, v in chart.items() if k != "select"})
    return charts.follow("colour", views, plain) if views else plain


def _column(column: Any) -> np.ndarray:
    """A covariate as numbers, or as words where it is not made of numbers."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return values.astype(float)
    return np.array(["missing" if v is None or v != v else str(v) for v in values.tolist()], dtype=object)


class Group(NamedTuple):
    """Species that rise and fall together."""

    members: np.ndarray  # those that go with the others most first
    within: float  # mean correlation of its pairs


def groups(R: Array, clear: Array) -> list[Group]:
    """Groups of two or more of the `clear` species (a mask) whose mean correlations are above TOGETHER, the strongest first."""
    some = np.flatnonzero(clear)
    if len(some) < 2:
        return []
    from scipy.cluster.hierarchy import fcluster

    label, found = fcluster(alike(R[np.ix_(some, some)])[1], 1 - TOGETHER, "distance"), []
    for g in np.unique(label):
        members = some[label == g]
        if len(members) > 1:
            inside = (R[np.ix_(members, members)].sum(axis=1) - 1) / (len(members) - 1)
            found.append(Group(members[np.argsort(-inside, kind="stable")], float(inside.mean())))
    return sorted(found, key=lambda group: -group.within * (len(group.members) - 1))


def title_of(members: np.ndarray, species: Sequence[str], most: int) -> str:
    """The first members of a group, and how many others there are."""
    names, rest = [species[j] for j in members[:most]], len(members) - most
    last = plural(rest, "other") if rest > 0 else names.pop()
    return f"{', '.join(names)} and {last}" if names else last


def between(R: Array, members: Sequence[np.ndarray]) -> Array:
    """Mean correlations of groups with each other, and of the pairs within each on the diagonal."""
    member = np.zeros((len(members), len(R)))
    for g, some in enumerate(members):
        member[g, some] = 1.0
    size = member.sum(axis=1)
    means = member @ R @ member.T / np.outer(size, size)
    pairs = size * (size - 1)
    means[np.diag_indices(len(size))] = (means.diagonal() * size**2 - size) / np.maximum(pairs, 1)
    return np.where(np.diag(pairs == 0), np.nan, means)


def correlations(R: Array, species: Sequence[str]) -> charts.Chart | None:
    """Latent correlations, like beside like; above `MATRIX` species the means of groups."""
    p = len(R)
    if p < 2:
        return None
    order, tree = alike(R)
    if p <= MATRIX:
        named = [species[j] for j in order]
        more = {"keys": order.tolist(), "select": "species"}
        values, caption = R[np.ix_(order, order)], "Species that go together are neighbours."
        if p > READABLE:
            caption += " Zoom to read the names, choose a species, or see the groups for lists of them."
    else:
        from scipy.cluster.hierarchy import fcluster

        group = fcluster(tree, CLUSTERS, "maxclust")
        members = [np.array([j for j in order if group[j] == g]) for g in dict.fromkeys(group[order].tolist())]
        named, values = [f"{title_of(some, species, 3)} ({len(some)})" for some in members], between(R, members)
        more, caption = {}, f"{p:,} species in {len(members)} groups of species that go together: means of their correlations."
    caption = f"Correlation after covariates and sampling effort are taken out: red together, blue apart, white none. {caption}"
    look = {"scale": "sign", "domain": [-1, 1], "unit": "latent correlation", "wide": True, "caption": caption, **more}
    return charts.heat("Which species go together", "species", "species", named, named, np.round(values, 3), **look)


def clusters(R: Array, species: Sequence[str], found: Sequence[Group]) -> charts.Chart | None:
    """How the groups of species go with each other."""
    shown = [group.members for group in found[:GROUPS]]
    if len(shown) < 2:
        return None
    named = [f"{g + 1}: {title_of(members, species, 1)}" for g, members in enumerate(shown)]
    caption = "Mean correlations of their species, on the diagonal within a group. Blue: one is common where the other is rare."
    look = {"scale": "sign", "domain": [-1, 1], "unit": "mean latent correlation", "wide": True, "caption": caption}
    return charts.heat(
        "How the groups go with each other",
        "group",
        "goes with",
        [str(g + 1) for g in range(len(shown))],
        named,
        np.round(between(R, shown), 3),
        **look,
    )


def partners(R: Array, species: Sequence[str], listed: np.ndarray) -> charts.Chart | None:
    """The strongest correlations of all, and of each species in `listed`."""
    p = len(R)
    if p < 3:
        return None
    chart, views = partial(charts.bar, unit="latent correlation", domain=[-1, 1], wide=True), []
    for j in listed:
        others = np.argsort(-np.abs(np.where(np.arange(p) == j, 0, R[j])), kind="stable")[: min(PARTNERS, p - 1)]
        views.append(chart(f"What goes with {species[j]}", labels=[species[i] for i in others], values=R[j, others]))
    a, b = np.triu_indices(p, 1)
    top = np.argsort(-np.abs(R[a, b]), kind="stable")[:PARTNERS]
    labels = [f"{species[a[i]]} – {species[b[i]]}" for i in top]
    caption = "Choose a species to see its own." if len(listed) else ""
    return charts.follow("species", views, chart("Strongest pairs", labels=labels, values=R[a[top], b[top]], caption=caption))


def forest(
    estimate: Array, ends: Array | None, apart: Array, covariates: Sequence[str], species: Sequence[str], most: int = FOREST
) -> charts.Chart:
    """Coefficients (d, p) of each covariate, sorted, with the `ends` (2, d, p) of 95% intervals where they are known; those `apart`
    (d, p), which have no finite estimate, are named and not drawn."""
    views, unit = [], "effect on the logarithm of the count"
    for d, name in enumerate(covariates):
        clear = np.abs(estimate[d]) if ends is None else np.abs(estimate[d]) / np.maximum(ends[1, d] - ends[0, d], 1e-12)
        top = np.argsort(-np.where(apart[d], -1.0, clear), kind="stable")[: min(most, int((~apart[d]).sum()))]
        top = top[np.argsort(-estimate[d, top], kind="stable")]
        heads, rows = ["species", "effect", "factor"], [[species[j], estimate[d, j], np.exp(estimate[d, j])] for j in top]
        note, look = "", dict[str, Any]()
        if ends is not None:
            low, high = ends[:, d]
            note = f" With 95% intervals; {int(((low > 0) | (high < 0)).sum())} of {len(species):,} leave out 0."
            rows = [[*row, low[j], high[j], np.exp(low[j]), np.exp(high[j])] for row, j in zip(rows, top, strict=True)]
            heads += ["effect, low", "effect, high", "factor, low", "factor, high"]
            look = {"low": low[top], "high": high[top]}
        some = f" The {len(top)} clearest of {len(species):,} species." if len(top) < len(species) else ""
        never = listing([str(species[j]) for j in np.flatnonzero(apart[d]).tolist()], 10)
        if never:
            some += f" Without a finite effect, since never seen in one of the groups, and not drawn: {never}."
        more = {"caption": f"0.69 is a factor of 2, -0.69 of one half.{note}{some}", "columns": heads, "rows": rows}
        views.append(charts.bar(f"Effect of {name}", unit, [species[j] for j in top], estimate[d, top], None, look, **more))
    return charts.follow("covariate", views) if len(views) > 1 else views[0]


def expected(Y: Array, rate: Array, species: Sequence[str], most: int = MOST) -> charts.Chart:
    """Counts against what the model expects of them."""
    cells = np.argwhere(np.isfinite(Y) & np.isfinite(rate))
    i, j = cells[sampled(np.arange(len(cells)), most)].T
    x, y = np.maximum(rate[i, j], 1e-3), Y[i, j]
    tips = [f"{species[c]}, sample {r + 1}\nexpected {e:.3g}, observed {o:.0f}" for r, c, e, o in zip(i, j, x, y, strict=True)]
    rows = [[species[c], int(r) + 1, e, o] for r, c, e, o in zip(i, j, x, y, strict=True)]
    right, up = charts.axis("expected count", log=True), charts.axis("observed count, 0 drawn at 0.5", log=True)
    heads, drawn = ["species", "sample", "expected", "observed"], ", drawn at random" if len(x) == most else ""
    caption = f"{len(x):,} cells of the table{drawn}; on the dashed line they agree. Expected counts know the latent values of "
    caption += "their sample, and expectations under 0.001 are drawn there."
    title, y = "Expected and observed counts", np.maximum(y, 0.5)
    return charts.points(title, right, up, x, y, None, tips, heads, rows, diagonal=True, caption=caption)


def residuals(found: Residuals, species: Sequence[str], called: Sequence[str], most: int = MOST) -> charts.Chart:
    """Residuals of cells against what is expected of them."""
    some = sampled(np.arange(len(found.value)), most)
    i, j, x, y = found.row[some], found.column[some], np.maximum(found.expected[some], 1e-3), found.value[some]
    rows = [[species[c], called[r], found.observed[k], e, z] for k, r, c, e, z in zip(some, i, j, x, y, strict=True)]
    tips = [f"{what}, {where}\nobserved {n:.0f}, expected {e:.3g}\nresidual {z:+.2f}" for what, where, n, e, z in rows]
    within = float((np.abs(found.value) < 1.96).mean())
    drawn = f"{len(x):,} cells of the table, drawn at random" if len(x) < found.cells else f"All {len(x):,} cells of the table"
    caption = (
        f"{drawn}. Were the model true, residuals would be standard normal at every expected count: 95% between -1.96 and 1.96. "
        f"Of these cells {within:.1%} are. Points far above are counts higher than covariates and effort let expect."
    )
    right, up = charts.axis("expected count, from covariates and effort alone", log=True), charts.axis("residual (standard normal)")
    heads = ["species", "sample", "observed", "expected", "residual"]
    return charts.points("Residuals", right, up, x, y, None, tips, heads, rows, caption=caption)


def criteria(table: Any) -> charts.Chart:
    """Criteria of several fits, such as ranks; smaller is better."""
    table = table.sort_index()
    x = np.asarray(table.index, dtype=float)
    table = table[["loglik", "bic", "icl", "aic"]].astype(float)
    names, values = ["BIC", "ICL", "AIC"], table.to_numpy()[:, 1:].T
    series = [{"name": names[k], "key": k, "x": x, "y": y, "marks": True} for k, y in enumerate(values)]
    best = ", ".join(f"{name} at rank {x[np.argmin(y)]:g}" for name, y in zip(names, values, strict=True))
    axes = charts.axis("rank", whole=True), charts.axis("criterion (smaller is better)")
    heads, rows = ["rank", "log likelihood", *names], np.column_stack([x, table]).tolist()
    return charts.lines("Which rank?", *axes, series, heads, rows, caption=f"Smallest: {best}.", show=True)


def beside_truth(title: str, what: str, true: Array, found: Array, labels: Sequence[str]) -> charts.Chart:
    """Estimates against the truth that simulated data have."""
    some = sampled(np.arange(len(true)), MOST)
    true, found, labels = true[some], found[some], [labels[i] for i in some]
    r = float(np.corrcoef(true, found)[0, 1]) if len(true) > 1 and np.ptp(true) > 0 else float("nan")
    rows = list(zip(labels, true.tolist(), found.tolist(), strict=True))
    tips = [f"{label}\ntrue {a:.3g}, estimated {b:.3g}" for label, a, b in rows]
    error = float(np.sqrt(np.mean((true - found) ** 2)))
    caption = f"On the dashed line the estimate is the truth; correlation {r:.2f}, root mean square error {error:.3f}."
    x, y, heads = charts.axis(f"true {what}"), charts.axis(f"estimated {what}"), ["what", "true", "estimated"]
    return charts.points(title, x, y, true, found, None, tips, heads, rows, diagonal=True, caption=caption)
