"""The pictures of a topic report: map, words by relevance, correlations, topics over groups or time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from tallies.errors import DataError
from tallies.html import charts
from tallies.html.common import trace
from tallies.html.order import alike, plane_of
from tallies.maths import Array, told_apart
from tallies.topics import answers

SHOWN = 20  # words of a topic in the picture
MATRIX = 200  # topics in the matrix of correlations
BARS = 20  # topics on the first screen
CURVES = 8  # topics over time in one picture
PERIODS = 24  # pieces into which time is cut
GROUPS = 24  # groups shown, the largest
MEANS = ["words that are special to the topic", "between frequent and special", "words that are frequent in the topic"]
SLIDE = {"key": "lambda", "label": "relevance λ", "value": 0.6, "means": MEANS}


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
    share, names = answers.shares(model.fitted_), model.topic_names_
    order = np.argsort(-share, kind="stable")
    n_w = np.asarray(model.chains_[0].n_wk.sum(axis=1), dtype=float).ravel()
    return Learned(order, model.topics_[order], share[order], model.vocabulary_, n_w, [names[k] for k in order])


def distances(phi: Array) -> Array:
    """(K, K) Hellinger distances, 0 for the same words and 1 for none in common.

    >>> distances(np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])).round(6).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return euclidean_distances(np.sqrt(phi)) / np.sqrt(2)


def shares_of(t: Learned) -> charts.Chart:
    """Topics by name, with bars of their share of all words."""
    few, K = min(len(t.names), BARS), len(t.names)
    caption = "How many of all words belong to each topic. Choose one to see its words and documents."
    caption += f" The {few} largest of {K:,}." if few < K else ""
    more = {"keys": list(range(few)), "select": "topic", "keyed": True, "caption": caption}
    return charts.bar("What the documents are about", "% of all words", t.names[:few], (100 * t.share[:few]).round(2), **more)


def map_of(t: Learned, D: Array) -> charts.Chart:
    """Topics in a plane, near where their words are alike."""
    Z = plane_of(D)
    x, y = charts.axis("distance between word distributions, first direction"), charts.axis("second direction")
    tips = [f"topic {name}\n{share:.1%} of all words" for name, share in zip(t.names, t.share, strict=True)]
    heads = ["topic", "share of words", "first direction", "second direction"]
    rows = [[name, share, *z] for name, share, z in zip(t.names, t.share, Z, strict=True)]
    caption = (
        "Topics that use the same words lie near each other (Hellinger distance, classical scaling); the area of a circle is the "
        "topic's share of all words. Choose a topic to see its words and documents."
    )
    keys = list(range(len(Z)))  # a colour for each topic, the same all over the page
    more = {"sizes": t.share / t.share.max(), "words": t.names, "keys": keys, "select": "topic", "equal": True, "wide": len(Z) > 12}
    return charts.points("Map of the topics", x, y, Z[:, 0], Z[:, 1], keys, tips, heads, rows, caption=caption, **more)


def words_of(t: Learned, total: float) -> charts.Chart:
    """The words of each topic, ranked by relevance (Sievert & Shirley 2014); of none, those that tell topics apart most."""
    p_w = np.maximum(t.n_w, 1e-9) / total
    views = [_words_of_topic(t, k, t.phi[k] * t.share[k] * total, p_w) for k in range(len(t.names))]
    if len(views) == 1:
        return views[0]
    joint = t.phi * t.share[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        given = joint / joint.sum(axis=0)
        telling = p_w * np.nansum(given * np.log(given / t.share[:, None]), axis=0)  # saliency (Chuang et al. 2012)
    top = answers.largest(np.nan_to_num(telling), SHOWN)
    top = top[np.argsort(-t.n_w[top], kind="stable")]
    caption = "Frequent words that belong to few topics. Choose a word to go to the topic that uses it most."
    more = {"keys": given[:, top].argmax(axis=0).tolist(), "select": "topic", "keyed": True, "caption": caption}
    return charts.follow("topic", views, charts.bar("Words that tell topics apart", "tokens", t.words[top], t.n_w[top], **more))


def _words_of_topic(t: Learned, k: int, n_k: Array, p_w: Array) -> charts.Chart:
    """Candidates for the first places at any weight between frequent and special, from tokens n_k of topic k by word."""
    live = np.flatnonzero(n_k > 0.5)  # under half a token a word is smoothing, not evidence
    live = live if len(live) else np.argsort(-n_k)[:SHOWN]
    log_phi, log_p = np.log(np.maximum(t.phi[k, live], 1e-300)), np.log(p_w[live])
    kept = live[np.unique(np.concatenate([answers.largest(log_phi - (1 - w) * log_p, SHOWN) for w in np.linspace(0, 1, 6)]))]
    words, inside, every = [str(w) for w in t.words[kept]], n_k[kept], np.maximum(t.n_w[kept], n_k[kept])
    rows = [[words[i], inside[i], t.n_w[kept[i]]] for i in answers.largest(inside, SHOWN)]
    caption = (
        "Dark: tokens of the word in this topic; light: in all topics. λ = 1 ranks by how frequent a word is in the topic, λ = 0 "
        "by how much more frequent than elsewhere."
    )
    ranked = {
        "colour": k,
        "words": words,
        "inside": inside,
        "all": every,
        "behindName": "in all topics",
        "most": SHOWN,
        "slide": SLIDE,
    }
    table = {"columns": ["word", "tokens in the topic", "tokens in all topics"], "rows": rows, "caption": caption}
    return charts.bars(f"Words of topic {t.names[k]}", charts.axis("tokens"), [], []) | ranked | table


def correlations(theta: Array, t: Learned) -> charts.Chart | None:
    """Which topics share documents, by their shares theta (D, K)."""
    if theta.shape[1] < 3 or len(theta) < 3:
        return None
    R = answers.correlations(theta)
    some = np.arange(min(len(R), MATRIX))
    order = some[alike(R[np.ix_(some, some)])[0]]
    some_only = f" The {MATRIX} largest of {len(R):,} topics." if len(R) > MATRIX else ""
    chart = matrix(R[np.ix_(order, order)].round(3), [t.names[k] for k in order])
    together = f"{chart['caption']}; topics that go together are neighbours.{some_only}"
    return chart | {"keys": order.tolist(), "select": "topic", "wide": True, "caption": together}


def matrix(R: Array, names: Sequence[str]) -> charts.Chart:
    """Correlations of the topics' shares over documents; red where two share documents, blue where not."""
    reach = max(float(np.abs(R - np.diag(np.diag(R))).max()), 0.05)
    caption = f"Correlation of the topics' shares over documents, from {-reach:.2f} (blue) to {reach:.2f} (red)"
    more = {"scale": "sign", "domain": [-reach, reach], "unit": "correlation of shares", "caption": caption}
    return charts.heat("Which topics share documents", "topic", "topic", names, names, R, **more)


def chains(model: Any) -> charts.Chart:
    """log p(words, topics) after each sweep of every chain; the ground is grey where samples are kept."""
    chart = trace(model, model.histories_)
    kept = {"band": [model.burn_in, model.n_iter_]} if model.n_iter_ > model.burn_in else {}
    caption = f"{chart['caption']} Samples are kept after sweep {model.burn_in}, every {model.thin}."
    return chart | {"caption": caption, **kept}


class Groups(NamedTuple):
    """Mean shares of the topics in groups of documents, or in periods."""

    what: str  # "group" | "period"
    names: list[str]  # (G,)
    n: np.ndarray  # (G,)  documents
    mean: Array  # (G, K)
    spread: Array  # (G, K)  standard errors


def by_group(theta: Array, group: Sequence[Any]) -> Groups:
    """The topics' shares theta (D, K) by a group for each document, or by period where `group` holds numbers or dates."""
    if len(group) != len(theta):
        raise DataError(f"group has {len(group)} entries, but there are {len(theta)} documents; give one for each document")
    codes, names, what = _periods(group)
    return Groups(what, names, *group_means(theta, codes, len(names)))


def over_groups(groups: Groups, t: Learned) -> charts.Chart:
    """Mean share of each topic by group or period."""
    what, names, n, mean, spread = groups
    starts = [float(name.split(" to ")[0]) for name in names] if what == "period" else []
    whole, height = all(start % 1 == 0 for start in starts), charts.axis("mean share of words", zero=True)
    time = charts.axis(f"period, from {names[0]} to {names[-1]}", whole=whole, plain=True)
    views, heads = [], [what, "mean share", "standard error", "documents"]
    for k, name in enumerate(t.names):
        at = np.arange(len(names)) if what == "period" else np.argsort(-mean[:, k], kind="stable")
        m, twice, title = mean[at, k], 2 * spread[at, k], f"Topic {name} by {what}"
        ends = {"low": np.maximum(m - twice, 0), "high": m + twice}
        if what == "period":
            tips = [f"{g}: {share:.1%} of {d:,} documents" for g, share, d in zip(names, m, n, strict=True)]
            series = [{"name": "", "colour": k, **ends, "x": starts, "y": m, "marks": True, "tips": tips}]
            chart = charts.lines(title, time, height, series, [], [])
        else:
            chart = charts.bar(title, "mean share of words", [names[i] for i in at], m, look=ends | {"colour": k})
        rows = [[names[i], mean[i, k], spread[i, k], int(n[i])] for i in at]
        caption = "Mean share of the documents' words, with twice its standard error."
        views.append(chart | {"columns": heads, "rows": rows, "wide": True, "caption": caption})
    if len(views) == 1:
        return views[0]
    K = min(len(t.names), CURVES if what == "period" else 40)
    best = np.argsort(-mean.std(axis=0), kind="stable")[:K]
    few = f" {K} of {len(t.names):,} topics." if len(t.names) > K else ""
    caption = "Mean share of the words; topics that differ most come first. Choose one to see it alone, with errors." + few
    if what == "period":
        series = [{"name": t.names[k], "key": k, "x": starts, "y": mean[:, k], "marks": True} for k in best]
        rows = [[name, *mean[g, best]] for g, name in enumerate(names)]
        none = charts.lines("Topics by period", time, height, series, [what, *(t.names[k] for k in best)], rows, show=True)
    else:
        none = shares(mean[:, best].T, [t.names[k] for k in best], names, n, what) | {"keys": best.tolist()}
    return charts.follow("topic", views, none | {"select": "topic", "wide": True, "caption": caption})


def group_means(theta: Array, codes: np.ndarray, n_groups: int) -> tuple[np.ndarray, Array, Array]:
    """Of groups of documents, by their codes (-1: none): how many, their mean shares (groups, K), and standard errors of these."""
    import pandas as pd

    groups = pd.DataFrame(theta).groupby(codes)
    found: list[Any] = [groups.size(), groups.mean(), groups.sem()]
    n, mean, spread = (table.reindex(range(n_groups)).fillna(0).to_numpy() for table in found)
    return n.astype(int), mean, spread


def shares(mean: Array, topics: Sequence[str], groups: Sequence[str], n: Any, what: str) -> charts.Chart:
    """Mean share (topics, groups) of topics in groups of n documents each."""
    texts = [[f"{v:.0%}" if v >= 0.005 else "" for v in row] for row in mean]
    tips = [
        [f"topic {topic}\n{g}: {v:.1%} ({m:,} documents)" for g, v, m in zip(groups, row, n, strict=True)]
        for topic, row in zip(topics, mean, strict=True)
    ]
    return charts.heat(f"Topics by {what}", what, "topic", groups, topics, mean, texts, tips, flip=True)


def _periods(group: Sequence[Any]) -> tuple[np.ndarray, list[str], str]:
    """Codes of the documents (-1: unknown), names of the groups, and whether they are groups or periods."""
    import pandas as pd

    values = pd.Series(list(group))
    if pd.to_numeric(values, errors="coerce").isna().all() and values.map(lambda v: hasattr(v, "year")).any():
        values = pd.to_datetime(values, errors="coerce")
    numeric = values
    if values.dtype.kind == "M":
        numeric = values.dt.year if values.dt.year.nunique() > 3 else values.dt.year + (values.dt.month - 1) / 12
    if values.dtype.kind in "iufM" and numeric.nunique() > 2:
        known = np.sort(numeric.dropna().unique())
        edges = known if len(known) <= PERIODS else np.linspace(known[0], known[-1], PERIODS + 1)[:-1]
        codes = np.searchsorted(edges, numeric.fillna(-np.inf).to_numpy(), side="right") - 1
        names = told_apart(edges, 6)
        if len(known) > PERIODS:
            names = [*(f"{a} to {b}" for a, b in pairwise(names)), names[-1]]
        return codes, names, "period"
    text = values.where(values.notna()).map(lambda v: v if v is None or v != v else str(v))
    names = [str(v) for v in text.value_counts().index[:GROUPS]]
    return pd.Index(names).get_indexer(pd.Index(text)), names, "group"
