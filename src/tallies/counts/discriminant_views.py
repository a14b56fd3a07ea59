"""The pictures of a discriminant of counts: samples on the axes that tell classes apart, and what marks each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tallies.counts import discriminant_answers as asked
from tallies.html import charts
from tallies.html.common import sampled
from tallies.html.order import alike

MOST = 1500  # points drawn: more hide each other
BARS = 15  # species that mark a class
SPECIES = 60  # of a table of means


def plane(model: Any, most: int = MOST) -> charts.Chart:
    """Samples of the fit on the first two axes, their latent means given their classes; a crosswise spread where there is one."""
    fitted = model.fitted_
    known, axes, own = asked.classes_of(fitted), asked.axes(fitted, model.shrinkage), asked.plain(fitted)
    Z = (fitted.latent_mean - own.design.X @ fitted.model.B[: own.design.X.shape[1]] - axes.centre) @ axes.V[:, :2]
    some = sampled(np.arange(len(Z)), most)
    names, one = [str(c) for c in known.names], Z.shape[1] == 1
    across = np.random.default_rng(0).random(len(Z)) if one else Z[:, 1]
    called = [f"sample {i + 1}" if fitted.data.samples is None else str(fitted.data.samples[i]) for i in some]
    group = known.codes[some]
    rows = [[a, names[k], x, y] for a, k, x, y in zip(called, group, Z[some, 0], across[some], strict=True)]
    tips = [f"{a}\n{names[k]}" for a, k in zip(called, group, strict=True)]
    few = f" {most:,} of {len(Z):,} samples, drawn at random." if len(Z) > most else ""
    caption = "Each axis tells classes apart as far as the ones before leave something to tell; within a class samples spread by 1."
    caption += " With two classes there is one axis, and the other direction is random." if one else ""
    x = charts.axis(f"axis 1 ({axes.share[0]:.0%} of what differs)")
    y = charts.axis("(no meaning)" if one else f"axis 2 ({axes.share[1]:.0%})")
    legend = [{"name": name, "key": k} for k, name in enumerate(names)]
    look = {"legend": legend, "select": "class", "keys": group.tolist(), "caption": caption + few, "show": True, "wide": True}
    heads = ["sample", "class", "axis 1", "random" if one else "axis 2"]
    return charts.points("How far apart the classes are", x, y, Z[some, 0], across[some], group.tolist(), tips, heads, rows, **look)


def marked(model: Any, species: Sequence[str]) -> charts.Chart:
    """The species that mark each class."""
    views, table = [], model.marks_
    for k, name in enumerate(model.classes_.tolist()):
        top = table[table["class"] == name][:BARS]
        caption = "Logarithms of factors: 0.69 is twice as abundant as in all classes together, -0.69 half."
        title, unit = f"What marks {name}", "difference of the logarithm of the abundance"
        values = np.log(top["factor"].to_numpy())
        views.append(charts.bar(title, unit, top["species"], values, None, {"colour": k}, caption=caption))
    return charts.follow("class", views)


def centres(model: Any, species: Sequence[str]) -> charts.Chart:
    """Means of the classes beside their mean, of the species that differ most; like beside like."""
    apart, far = asked.apart(model.fitted_)
    z = np.abs(far).max(axis=0)
    top = np.sort(np.argsort(-z, kind="stable")[:SPECIES])
    if len(top) > 2:
        top = top[alike(np.nan_to_num(np.corrcoef(apart[:, top].T + 1e-12 * np.arange(len(apart)))))[0]]
    some = f" The {len(top)} species that differ most." if len(top) < len(species) else ""
    caption = f"Red: more abundant than in all classes together, blue: less.{some}"
    most = max(float(np.abs(apart[:, top]).max()), 1e-9)
    look = {"scale": "sign", "domain": [-most, most], "unit": "difference of the logarithm of the abundance", "caption": caption}
    names = [str(c) for c in model.classes_]
    return charts.heat(
        "Means of the classes", "class", "species", names, [species[j] for j in top], apart.T[top], wide=True, **look
    )
