"""The plane in which Gaussian classes are furthest apart: their means, an ellipse around each, and the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from tallies.html import charts
from tallies.html.common import sampled
from tallies.html.judged import Judged
from tallies.maths import Array, whiten

MOST = 1500  # points drawn: more hide each other
ELLIPSE = 4.605  # squared radius that holds 90% of a two-dimensional Gaussian


def gaussians(model: Any) -> tuple[Array, Array] | None:
    """Means (K, d) and covariances (K, d, d), or only variances (K, d), of the classes; None unless every column is Gaussian."""
    if set(model.layout_.families) != {"gaussian"}:
        return None
    law = model.params_.laws.gaussian
    full = getattr(law, "covariance", None)
    return law.mean, law.variance if full is None else np.broadcast_to(full, (len(law.mean), *full.shape[1:]))


def axes(mean: Array, covariance: Array, prior: Array) -> tuple[Array, Array, Array] | None:
    """Centre (d,), directions (d, 2) and the share (2,) of the separation of means that each shows (Fisher's discriminants).

    With two classes one direction shows all of it; the other is then the main variation within classes, at right angles.
    """
    centre = prior @ mean
    within = np.tensordot(prior, covariance, axes=1)
    if within.ndim == 1:
        W: Any = sp.diags_array(within**-0.5)  # W W' is the inverse of the covariance
    else:
        root = whiten(within[None], within)
        W = root.W[0][:, : root.rank]
    if W.shape[1] < 2:
        return None
    M = np.sqrt(prior)[:, None] * ((mean - centre) @ W)
    _, size, V = np.linalg.svd(M, full_matrices=False)
    share = size**2 / max(float(np.sum(size**2)), 1e-300)
    if len(share) < 2 or share[1] <= 1e-9:
        main = _main(within, W)  # counted for little, it is the second of both; any other direction where it is the first itself
        V, share = np.linalg.svd([V[0], 1e-4 * main / np.linalg.norm(main)], full_matrices=False)[2], np.array([1.0, 0.0])
    return centre, W @ V[:2].T, share[:2]


def _main(within: Array, W: Any) -> Array:
    """The direction of most variation, columns in units of their standard deviation, as seen after whitening by W."""
    if within.ndim == 1:
        return np.ones(W.shape[1])  # no direction has more than another
    scale = np.sqrt(np.maximum(np.diag(within), 1e-300))
    main = np.linalg.eigh(within / np.outer(scale, scale))[1][:, -1]
    return W.T @ within @ (main / scale)


def ellipses(mean: Array, covariance: Array, A: Array, points: int = 48) -> list[Array]:
    """(points, 2) for each class: the curve that holds 90% of its Gaussian in the plane of A (d, 2)."""
    turn: Array = np.linspace(0, 2 * np.pi, points, endpoint=False)
    circle, found = np.column_stack([np.cos(turn), np.sin(turn)]), []
    for centre, spread in zip(mean @ A, covariance, strict=True):
        values, vectors = np.linalg.eigh(A.T @ (spread @ A if spread.ndim == 2 else spread[:, None] * A))
        found.append(centre + np.sqrt(ELLIPSE * np.maximum(values, 0)) * circle @ vectors.T)
    return found


def outlines(edges: list[Array], names: list[str]) -> dict[str, Any]:
    """The curves around classes in a chart of points, and their legend."""
    return {
        "outlines": [{"key": k, "x": edge[:, 0], "y": edge[:, 1]} for k, edge in enumerate(edges)],
        "legend": [{"name": name, "key": k} for k, name in enumerate(names)],
    }


def chart(
    model: Any, names: list[str], judged: Judged | None = None, X: Any = None, name_of: Callable[[int], str] = str
) -> charts.Chart | None:
    """The map, with rows X and how they were judged where there are any: those put into another class are ringed."""
    parts = gaussians(model)
    found = None if parts is None else axes(*parts, np.exp(model.params_.log_prior))
    if parts is None or found is None:
        return None
    (mean, covariance), (centre, A, share) = parts, found
    centres, edges = (mean - centre) @ A, ellipses(mean - centre, covariance, A)
    rows = [[f"mean of {name}", name, *place] for name, place in zip(names, centres, strict=True)]
    words = [{"key": k, "x": x, "y": y, "text": names[k]} for k, (x, y) in enumerate(centres)]
    Z, group, labels, rings, about = np.empty((0, 2)), np.empty(0, dtype=int), [], None, ""
    if judged is not None:
        codes, called = judged.y, judged.best
        usable = np.flatnonzero(np.isfinite(X).all(axis=1) & (codes >= 0))
        about = f" {len(X) - len(usable):,} rows with missing values are not drawn." if len(usable) < len(X) else ""
        about += f" {MOST:,} of {len(usable):,} rows, drawn at random." if len(usable) > MOST else ""
        usable = sampled(usable, MOST)
        Z, group, told = (X[usable] - centre) @ A, codes[usable], "{}\n{}, called {} ({:.0%})".format
        sure = judged.proba[usable, called[usable]]
        labels = [told(name_of(i), names[codes[i]], names[called[i]], p) for i, p in zip(usable.tolist(), sure, strict=True)]
        rows += [[f"row {i + 1}", names[codes[i]], *z] for i, z in zip(usable.tolist(), Z, strict=True)]
        rings = (called != codes)[usable].astype(int)
        about += " Rows that were put into another class are ringed." if rings.any() else ""
    reach = np.ptp(np.concatenate(edges), axis=0)
    shows = [
        f"{f'{s:.0%}' if s >= 0.005 else 'under 1%'} of what separates the means" if s > 0 else "variation within classes"
        for s in share
    ]
    x, y = (charts.axis(f"discriminant {i} ({what})") for i, what in enumerate(shows, 1))
    heads = ["what", "class", "discriminant 1", "discriminant 2"]
    more = outlines(edges, names) | {"names": words if len(words) <= 40 else [], "rings": rings, "select": "class"}
    more["equal"] = bool(reach.max() < 5 * reach.min())  # one unit as long upwards as sideways, unless that leaves a thread
    caption = f"The plane that parts the class means best, in standard deviations. An ellipse holds 90% of its class.{about}"
    return charts.points("Where the classes lie", x, y, Z[:, 0], Z[:, 1], group, labels, heads, rows, caption=caption, **more)
