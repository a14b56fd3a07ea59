"""The pictures of a topic report: map, words by relevance, correlations, topics over groups or time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tallies.errors import DataError
from tallies.html import charts
from tallies.html.order import alike, plane_of
from tallies.maths import Array

SHOWN = 20  # words of a topic in the picture
MATRIX = 200  # topics in the matrix of correlations
PERIODS = 24  # pieces into which time is cut
GROUPS = 24  # groups shown, the largest
SLIDE = {
    "key": "lambda",
    "label": "relevance λ",
    "value": 0.6,
    "means": ["words that are special to the topic", "between frequent and special", "words that are frequent in the topic"],
}


class Learned(NamedTuple):
    """What the pages say of topics, the largest first."""

    order: np.ndarray  # (K,)  number of the topic in the model
    phi: Array  # (K, V)
    share: Array  # (K,)  of all tokens
    words: np.ndarray  # (V,)
    n_w: Array  # (V,)  tokens of each word
    names: list[str]  # (K,)  number and first words


def learned(model: Any) -> Learned:
    """The topics of a fitted model in the order of their share."""
    n_k = np.asarray(model.params_.n_k, dtype=float)
    order = np.argsort(-n_k, kind="stable")
    words = np.asarray(model.vocabulary_, dtype=object)
    phi = model.topics_[order]
    top = np.argsort(-phi, axis=1, kind="stable")[:, :3] if phi.size < 3e6 else model._top(3)[order]
    names = [f"{k}: {' '.join(str(words[v]) for v in row)}" for k, row in zip(order, top, strict=True)]
    n_w = np.asarray(model.params_.n_wk.sum(axis=1), dtype=float).ravel()
    return Learned(order, phi, n_k[order] / max(n_k.sum(), 1.0), words, n_w, names)


def distances(phi: Array) -> Array:
    """(K, K) Hellinger distances, 0 for the same words and 1 for none in common.

    >>> distances(np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])).round(6).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    root = np.sqrt(phi)
    D = np.sqrt(np.maximum(1 - root @ root.T, 0.0))
    np.fill_diagonal(D, 0.0)
    return D


def map_of(t: Learned, D: Array) -> charts.Chart:
    """Topics in a plane, near where their words are alike."""
    Z = plane_of(D)
    tips = [f"topic {name}\n{share:.1%} of all words" for name, share in zip(t.names, t.share, strict=True)]
    return charts.points(
        "Map of the topics",
        charts.axis("distance between word distributions, first direction"),
        charts.axis("second direction"),
        Z[:, 0],
        Z[:, 1],
        [0] * len(Z),
        tips,
        ["topic", "share of words", "first direction", "second direction"],
        [[name, share, *z] for name, share, z in zip(t.names, t.share, Z, strict=True)],
        sizes=t.share / t.share.max(),
        words=[name.rsplit(" ", 1)[0] if len(Z) <= 12 else name.split(" ")[0].rstrip(":") for name in t.names],
        keys=list(range(len(Z))),
        select="topic",
        equal=True,
        caption="Topics that use the same words lie near each other (Hellinger distance, classical scaling); the area of a circle "
        "is the topic's share of all words. Choose a topic to see its words and documents.",
    )


def words_of(t: Learned, total: float) -> charts.Chart:
    """The words of each topic, ranked by relevance (Sievert & Shirley 2014); of none, those that tell topics apart most."""
    p_w = np.maximum(t.n_w, 1e-9) / total
    weights = np.linspace(0, 1, 6)
    views = []
    for k, name in enumerate(t.names):
        n_k = t.phi[k] * t.share[k] * total
        live = np.flatnonzero(n_k > 0.5)  # under half a token a word is smoothing, not evidence
        live = live if len(live) else np.argsort(-n_k)[:SHOWN]
        log_phi, log_p = np.log(np.maximum(t.phi[k, live], 1e-300)), np.log(p_w[live])
        chosen = np.unique(np.concatenate([_largest(log_phi - (1 - w) * log_p, SHOWN) for w in weights]))
        kept = live[chosen]
        chart = charts.bars(f"Words of topic {name}", charts.axis("tokens"), [], [])
        n_kw = np.minimum(n_k[kept], np.maximum(t.n_w[kept], n_k[kept]))
        views.append(
            chart
            | {
                "words": [str(w) for w in t.words[kept]],
                "inside": n_kw,
                "all": np.maximum(t.n_w[kept], n_kw),
                "behindName": "in all topics",
                "most": SHOWN,
                "slide": SLIDE,
                "columns": ["word", "tokens in the topic", "tokens in all topics"],
                "rows": [[str(t.words[v]), n_k[v], t.n_w[v]] for v in kept[_largest(n_k[kept], SHOWN)]],
                "caption": "Dark: tokens of the word in this topic; light: in all topics. λ = 1 ranks by how frequent a word is in "
                "the topic, λ = 0 by how much more frequent than elsewhere.",
            }
        )
    if len(views) == 1:
        return views[0]
    joint = t.phi * t.share[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        given = joint / joint.sum(axis=0)
        telling = p_w * np.nansum(given * np.log(given / t.share[:, None]), axis=0)  # saliency (Chuang et al. 2012)
    top = _largest(np.nan_to_num(telling), SHOWN)
    home = given[:, top].argmax(axis=0)
    none = charts.bars(
        "Words that tell topics apart",
        charts.axis("tokens"),
        [str(w) for w in t.words[top]],
        [{"name": "", "values": t.n_w[top]}],
        keys=home.tolist(),
        select="topic",
        caption="Frequent words that belong to few topics. Choose a word to go to the topic that uses it most.",
    )
    return charts.follow("topic", views, none)


def _largest(values: Array, n: int) -> np.ndarray:
    n = min(n, len(values))
    some = np.argpartition(-values, n - 1)[:n] if n < len(values) else np.arange(n)
    return some[np.argsort(-values[some], kind="stable")]


def correlations(theta: Array, t: Learned) -> charts.Chart | None:
    """Which topics share documents, by their shares theta (D, K)."""
    if theta.shape[1] < 3 or len(theta) < 3:
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        R = np.asarray(np.nan_to_num(np.corrcoef(theta, rowvar=False)))
    some = np.arange(min(len(R), MATRIX))
    order = some[alike(R[np.ix_(some, some)])[0]]
    values = R[np.ix_(order, order)].round(3)
    reach = max(float(np.abs(values - np.diag(np.diag(values))).max()), 0.05)
    names = [t.names[k] for k in order]
    some_only = f" The {MATRIX} largest of {len(R):,} topics." if len(R) > MATRIX else ""
    return charts.heat(
        "Which topics share documents",
        "topic",
        "topic",
        names,
        names,
        values,
        scale="sign",
        domain=[-reach, reach],
        keys=order.tolist(),
        select="topic",
        unit="correlation of shares",
        wide=True,
        caption=f"Correlation of the topics' shares over documents, from {-reach:.2f} (blue) to {reach:.2f} (red); topics that go "
        f"together are neighbours.{some_only}",
    )


def over_groups(theta: Array, group: Sequence[Any], t: Learned) -> charts.Chart:
    """Mean share of each topic in groups of documents, or in periods where `group` holds numbers or dates."""
    if len(group) != len(theta):
        raise DataError(f"group has {len(group)} entries, but there are {len(theta)} documents; give one for each document")
    codes, names, what = _periods(group)
    live = codes >= 0
    n = np.bincount(codes[live], minlength=len(names))
    sums = sp.csr_array((np.ones(live.sum()), (codes[live], np.flatnonzero(live))), shape=(len(names), len(theta)))
    mean = sums @ theta / np.maximum(n, 1)[:, None]  # (groups, K)
    spread = np.sqrt(np.maximum(sums @ theta**2 / np.maximum(n, 1)[:, None] - mean**2, 0) / np.maximum(n - 1, 1)[:, None])
    views = []
    for k, name in enumerate(t.names):
        rows = [[g, mean[i, k], spread[i, k], int(n[i])] for i, g in enumerate(names)]
        columns, title = [what, "mean share", "standard error", "documents"], f"Topic {name} by {what}"
        caption = "Mean share of the documents' words, with twice its standard error."
        low, high = np.maximum(mean[:, k] - 2 * spread[:, k], 0), mean[:, k] + 2 * spread[:, k]
        if what == "period":
            x = np.arange(len(names))
            series = [{"name": "", "x": x, "y": mean[:, k], "low": low, "high": high, "marks": True}]
            series[0]["tips"] = [f"{g}: {mean[i, k]:.1%} of {n[i]:,} documents" for i, g in enumerate(names)]
            axis = charts.axis(f"period, from {names[0]} to {names[-1]}")
            y = charts.axis("mean share of words", zero=True)
            views.append(charts.lines(title, axis, y, series, columns, rows, caption=caption, wide=True))
            continue
        at = np.argsort(-mean[:, k], kind="stable")
        values = [{"name": "", "values": mean[at, k], "low": low[at], "high": high[at]}]
        chart = charts.bars(title, charts.axis("mean share of words"), [names[i] for i in at], values, caption=caption, wide=True)
        views.append(chart | {"columns": columns, "rows": [rows[i] for i in at]})
    if len(views) == 1:
        return views[0]
    K = min(len(t.names), 40)
    best = np.argsort(-mean.std(axis=0), kind="stable")[:K]
    texts = [[f"{mean[i, k]:.0%}" if mean[i, k] >= 0.005 else "" for i in range(len(names))] for k in best]
    tips = [[f"topic {t.names[k]}\n{g}: {mean[i, k]:.1%} ({n[i]:,} documents)" for i, g in enumerate(names)] for k in best]
    down = [t.names[k] for k in best]
    none = charts.heat(
        f"Topics by {what}",
        what,
        "topic",
        names,
        down,
        mean[:, best].T,
        texts,
        tips,
        flip=True,
        keys=best.tolist(),
        select="topic",
        wide=True,
        caption="Mean share of the words; topics that differ most come first. Choose one to see it alone, with errors."
        + (f" {K} of {len(t.names):,} topics." if len(t.names) > K else ""),
    )
    return charts.follow("topic", views, none)


def _periods(group: Sequence[Any]) -> tuple[np.ndarray, list[str], str]:
    """Codes of the documents (-1: unknown), names of the groups, and whether they are groups or periods."""
    import pandas as pd

    values = pd.Series(list(group))
    numeric = pd.to_numeric(values, errors="coerce") if values.dtype.kind != "M" else values
    if values.dtype.kind != "M" and numeric.isna().all() and values.map(lambda v: hasattr(v, "year")).any():
        values = pd.to_datetime(values, errors="coerce")
    if values.dtype.kind == "M":
        numeric = values.dt.year if values.dt.year.nunique() > 3 else values.dt.year + (values.dt.month - 1) / 12
    if values.dtype.kind in "iufM" and numeric.nunique() > 2:
        known = np.sort(numeric.dropna().unique())
        edges = known if len(known) <= PERIODS else np.linspace(known[0], known[-1], PERIODS + 1)[:-1]
        codes = np.searchsorted(edges, numeric.fillna(-np.inf).to_numpy(), side="right") - 1
        ends = [*edges[1:], None]
        names = [f"{a:g}" if len(known) <= PERIODS or b is None else f"{a:g} to {b:g}" for a, b in zip(edges, ends, strict=True)]
        return codes, names, "period"
    text = values.where(values.notna()).map(lambda v: v if v is None or v != v else str(v))
    names = [str(v) for v in text.value_counts().index[:GROUPS]]
    return pd.Index(names).get_indexer(pd.Index(text)), names, "group"
