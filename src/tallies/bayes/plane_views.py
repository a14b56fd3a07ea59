"""The plane in which Gaussian classes are furthest apart: their means, an ellipse around each, and the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tallies.html import charts
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
    W = _root(within)
    if W is None:
        return None
    M = np.sqrt(prior)[:, None] * ((mean - centre) @ W)
    _, size, V = np.linalg.svd(M, full_matrices=False)
    share = size**2 / max(float(np.sum(size**2)), 1e-300)
    first = V[0]
    if len(share) > 1 and share[1] > 1e-9:
        second = V[1]
    else:
        second = _main(within, W)
        second = second - first * (first @ second)
        if np.linalg.norm(second) < 1e-9:  # the main variation is the discriminant itself: any other direction
            second = np.zeros(len(first))
            second[np.argmin(np.abs(first))] = 1.0
            second = second - first * (first @ second)
        second = second / np.linalg.norm(second)
        share = np.array([1.0, 0.0])
    return centre, W @ np.column_stack([first, second]), share[:2]


def _root(within: Array) -> Array | None:
    """W (d, rank) with W W' the inverse of the covariance, or of a diagonal one; None where fewer than two directions vary."""
    if within.ndim == 1:
        kept = np.flatnonzero(within > 0)
        W = np.zeros((len(within), len(kept)))
        W[kept, np.arange(len(kept))] = 1 / np.sqrt(within[kept])
        return W if len(kept) > 1 else None
    root = whiten(within[None], within)
    return root.W[0][:, : root.rank] if root.rank > 1 else None


def _main(within: Array, W: Array) -> Array:
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
    model: Any, names: list[str], given: tuple[Array, np.ndarray, np.ndarray] | None = None, tip: Callable[[int], str] = str
) -> charts.Chart | None:
    """The map; `given` are rows, their class codes, and whether their class was not the most probable one: those are ringed."""
    parts = gaussians(model)
    found = None if parts is None else axes(*parts, np.exp(model.params_.log_prior))
    if parts is None or found is None:
        return None
    (mean, covariance), (centre, A, share) = parts, found
    centres, edges = (mean - centre) @ A, ellipses(mean - centre, covariance, A)
    rows = [[f"mean of {name}", name, *place] for name, place in zip(names, centres, strict=True)]
    words = [{"key": k, "x": x, "y": y, "text": names[k]} for k, (x, y) in enumerate(centres)]
    Z, group, labels, rings, about = np.empty((0, 2)), np.empty(0, dtype=int), [], None, ""
    if given is not None:
        X, codes, wrong = given
        usable = np.flatnonzero(np.isfinite(X).all(axis=1) & (codes >= 0))
        about = f" {len(X) - len(usable):,} rows with missing values are not drawn." if len(usable) < len(X) else ""
        if len(usable) > MOST:
            about += f" {MOST:,} of {len(usable):,} rows, drawn at random."
            usable = np.sort(np.random.default_rng(0).choice(usable, MOST, replace=False))
        Z, group, labels = (X[usable] - centre) @ A, codes[usable], [tip(i) for i in usable.tolist()]
        rows += [[f"row {i + 1}", names[codes[i]], *z] for i, z in zip(usable.tolist(), Z, strict=True)]
        rings = wrong[usable].astype(int)
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
