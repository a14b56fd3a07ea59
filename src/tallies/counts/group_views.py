"""The pictures of groups of samples, classes or clusters: the axes that tell them apart, and what marks each."""

from __future__ import annotations

import numpy as np

from tallies.counts.groups import Groups, apart, fisher, marks
from tallies.html import charts
from tallies.html.common import sampled
from tallies.html.order import alike

MOST = 1500  # points drawn: more hide each other
BARS = 15  # species that mark a group
SPECIES = 60  # of a table of means
MANY = {"class": "classes", "cluster": "clusters"}


def plane(groups: Groups, most: int = MOST) -> charts.Chart | None:
    """Samples of the fit on the first two axes; a crosswise spread where there is one."""
    if len(groups.names) < 2 or groups.Z is None:
        return None
    axes, all_of = fisher(groups.means, groups.weight, groups.Sigma), MANY[groups.what]
    Z = (groups.Z - axes.centre) @ axes.V[:, :2]
    some, one = sampled(np.arange(len(Z)), most), Z.shape[1] == 1
    across = np.random.default_rng(0).random(len(Z)) if one else Z[:, 1]
    names, called, group = [str(c) for c in groups.names], [groups.samples[i] for i in some], groups.codes[some]
    rows = [[a, names[k], x, y] for a, k, x, y in zip(called, group, Z[some, 0], across[some], strict=True)]
    tips = [f"{a}\n{names[k]}" for a, k in zip(called, group, strict=True)]
    few = f" {most:,} of {len(Z):,} samples, drawn at random." if len(Z) > most else ""
    caption = f"Each axis tells {all_of} apart as far as the ones before leave something to tell; within one samples spread by 1."
    caption += f" With two {all_of} there is one axis, and the other direction is random." if one else ""
    x = charts.axis(f"axis 1 ({axes.share[0]:.0%} of what differs)")
    y = charts.axis("(no meaning)" if one else f"axis 2 ({axes.share[1]:.0%})")
    legend = [{"name": name, "key": k} for k, name in enumerate(names)]
    look = {"legend": legend, "select": groups.what, "keys": group.tolist(), "caption": caption + few, "show": True, "wide": True}
    title, heads = f"How far apart the {all_of} are", ["sample", groups.what, "axis 1", "random" if one else "axis 2"]
    return charts.points(title, x, y, Z[some, 0], across[some], group.tolist(), tips, heads, rows, **look)


def marked(groups: Groups) -> charts.Chart:
    """The species that mark each group."""
    views, table = [], marks(groups)
    caption = f"Logarithms of factors: 0.69 is twice as abundant as over all {MANY[groups.what]}, -0.69 half."
    for k, name in enumerate(groups.names):
        top = table[table[groups.what] == name][:BARS]
        title, unit = f"What marks {name}", "difference of the logarithm of the abundance"
        values = np.log(top["factor"].to_numpy())
        views.append(charts.bar(title, unit, top["species"], values, None, {"colour": k}, caption=caption))
    return charts.follow(groups.what, views)


def centres(groups: Groups) -> charts.Chart | None:
    """Means of the groups beside their mean, of the species that differ most; like beside like."""
    if len(groups.names) < 2:
        return None
    more, z = apart(groups)
    top = np.sort(np.argsort(-np.abs(z).max(axis=0), kind="stable")[:SPECIES])
    if len(top) > 2:
        nudged = more[:, top].T + 1e-9 * np.arange(len(more))  # one that differs nowhere has no correlations
        top = top[alike(np.nan_to_num(np.corrcoef(nudged)))[0]]
    some = f" The {len(top)} species that differ most." if len(top) < len(groups.species) else ""
    caption = f"Red: more abundant than over all {MANY[groups.what]}, blue: less.{some}"
    most = max(float(np.abs(more[:, top]).max()), 1e-9)
    look = {"scale": "sign", "domain": [-most, most], "unit": "difference of the logarithm of the abundance", "caption": caption}
    names, down = [str(c) for c in groups.names], [groups.species[j] for j in top]
    return charts.heat(f"Means of the {MANY[groups.what]}", groups.what, "species", names, down, more.T[top], wide=True, **look)
