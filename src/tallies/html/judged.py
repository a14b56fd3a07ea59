"""A classifier judged on rows whose classes are known: confusion, calibration, scores, and the rows it finds strange."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import entr
from sklearn.metrics import confusion_matrix

from tallies.html import charts
from tallies.html.common import About, percent, plural, statisticians, told, wilson
from tallies.html.page import Section
from tallies.maths import Array

MOST_CLASSES = 40  # classes that a confusion matrix shows: beyond, cells are too small to read
BINS = 10  # of the calibration curve
FEW_ROWS = 30  # rates of fewer rows are rough


@dataclass
class Judged:
    """Predictions for the rows given to a report; y is -1 where the class is unknown."""

    classes: list[str]
    proba: Array  # (n, K)
    log_p: Array  # (n,)  log p(x)
    y: np.ndarray  # (n,)  codes

    def __post_init__(self) -> None:
        self.best = self.proba.argmax(axis=1)
        self.known = np.flatnonzero(self.y >= 0)
        # of these rows
        self.true, self.called, self.stated = self.y[self.known], self.best[self.known], self.proba[self.known]
        self.right = self.called == self.true
        self.log_losses = -np.log(np.maximum(self.proba[self.known, self.true], 1e-300))  # finite where a class was impossible
        self.brier = np.square(self.stated - np.eye(len(self.classes))[self.true]).sum(axis=1)
        self.accuracy = float(self.right.sum() / max(len(self.known), 1))
        self.confidence = float(self.stated.max(axis=1).sum() / max(len(self.known), 1))

    # in words

    def lead(self, about: About, guess: int) -> str:
        """How often it is right, beside one who always answers class `guess`."""
        m, always = len(self.known), float(np.mean(self.true == guess))
        return (
            f"On {plural(m, 'row')} {about.rows} it is right for {percent(self.accuracy, m)}; "
            f"always answering “{self.classes[guess]}” would be right for {percent(always, m)}."
        )

    def warnings(self, about: About, too_sure: str, too_shy: str) -> list[str]:
        """What its rates should not be taken for; `too_sure` and `too_shy` say what to do about it."""
        lost, m = len(self.y) - len(self.known), len(self.known)
        gap, (low, high) = self.confidence - self.accuracy, wilson(self.right.sum(), m)
        shy = gap < -0.03 and self.confidence < low and about.held_out is not False  # of its own rows a model may know too much
        stated = f"it states {percent(self.confidence, m)} on average and is right for {percent(self.accuracy, m)}."
        unknown = "no label, or one that the model does not know; they are left out of all rates."
        found = told(
            (lost, f"{plural(lost, 'row has', 'rows have')} {unknown}"),
            (about.held_out is False, "These rates are of rows that the model was fitted to; expect less on new rows."),
            (gap > 0.03 and self.confidence > high, f"It is surer than it should be: {stated} {too_sure}".rstrip()),
            (shy, f"It is less sure than it could be: {stated} {too_shy}".rstrip()),
            (m < FEW_ROWS, f"Only {plural(m, 'row')} with known class: every rate here is rough."),
        )
        return found if m else []

    def numbers(self, prior: Array) -> list[tuple[str, str, str]]:
        """What the first screen says of its quality; `prior` is what one knows of the classes without looking at a row."""
        m, blind = len(self.known), float(np.mean(self.true == np.argmax(prior)))
        low, high = wilson(self.right.sum(), m)
        span = f"of {plural(m, 'row')}; {percent(float(low), m)} to {percent(float(high), m)} with 95% confidence"
        return [
            ("Right", percent(self.accuracy, m), span),
            ("Without looking", percent(blind, m), "right by always answering the commonest class"),
            ("Stated confidence", percent(self.confidence, m), "on average; the same as “right” if it means what it says"),
        ]

    def quality(self, section: Section, more: Sequence[Sequence[Any]] = (), beside: bool = False) -> Section:
        """The commonest mistakes; for statisticians the scores with their errors. `more` are further ones: name, value, error, kind
        and unit."""
        mistakes = self.mistakes()
        if mistakes:
            section.table(["true class", "called", "rows", "share of the true class"], mistakes, "The commonest mistakes")
            if beside:
                section.beside()
        else:
            section.text("It made no mistake on these rows.")
        loss, shares = self.log_losses, np.bincount(self.true) / max(len(self.true), 1)
        blind = f"{-float(entr(shares).sum()):.3f} without looking at the columns"
        known = f"{error_of(loss)} nats/row, conditional; larger is better, {blind}"
        scores: list[tuple[str, Any, str]] = [("log p(class | columns)", -float(loss.mean()), known)]
        scores.append(("Brier score", float(self.brier.mean()), "0 is perfect, 2 the worst"))
        scores += [(name, value, f"{error} {unit}, {kind}; larger is better") for name, value, error, kind, unit in more]
        statisticians(section.page, scores)
        return section

    # in pictures

    def confusion(self) -> charts.Chart:
        return confusion(self.classes, self.true, self.called)

    def mistakes(self, most: int = 8) -> list[tuple[str, str, int, str]]:
        """The commonest confusions: true class, called, rows, share of the true class."""
        counts = confusion_matrix(self.true, self.called, labels=np.arange(len(self.classes)))
        size = counts.sum(axis=1)
        np.fill_diagonal(counts, 0)
        pairs = sorted(np.argwhere(counts).tolist(), key=lambda pair: -counts[*pair])[:most]
        return [(self.classes[a], self.classes[b], int(counts[a, b]), percent(counts[a, b] / size[a])) for a, b in pairs]

    def calibration(self) -> charts.Chart:
        """Stated probability against how often it came true: of the class called, or of the class selected."""
        overall = reliability(self.stated.max(axis=1), self.right, "the class called")
        if len(self.classes) > 100:
            return overall
        views = [reliability(self.stated[:, k], self.true == k, name, k) for k, name in enumerate(self.classes)]
        return charts.follow("class", views, overall)

    def sureness(self) -> charts.Chart:
        """How sure it was of the rows that it got right, and of those that it got wrong."""
        edges = np.array([0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0])
        group = np.clip(np.searchsorted(edges, self.stated.max(axis=1), side="left") - 1, 0, len(edges) - 2)
        right, wrong = (np.bincount(group[which], minlength=len(edges) - 1) for which in (self.right, ~self.right))
        used = np.flatnonzero(right + wrong)[::-1]
        labels = [f"{edges[g]:.0%} to {edges[g + 1]:.0%}" if g else "below 50%" for g in used]
        series = [{"name": "right", "key": 0, "values": right[used]}, {"name": "wrong", "key": 1, "values": wrong[used]}]
        sure = int(wrong[-1])
        caption = f"{plural(sure, 'row was', 'rows were') if sure else 'No row was'} wrong although it was more than 99% sure."
        return charts.bars("How sure it was of the class called", charts.axis("rows"), labels, series, caption=caption, show=True)

    def surprise(self, own: Array | None, complete: np.ndarray) -> tuple[charts.Chart, str]:
        """`surprise` of the complete rows, and what this says, in words."""
        chart, below = surprise(self.log_p[complete], own)
        if below is None:
            return chart, ""
        some = f"{below:.1%} of the rows are" if below else "No row is"
        say = f"{some} less probable than 99 in 100 rows that the model would make; 1% would be expected."
        more = " The data have more strange rows than the model allows for: its shapes do not fit everywhere."
        return chart, say + more * (below > 0.05)

    def strangest(self, odd: Callable[[int, int], str], name: Callable[[int], str], most: int = 10) -> list[list[Any]]:
        """The rows with least log p(x): label, log p(x), true class, class called with its probability, and what is odd.

        odd(row, class) says in words which values of the row are unusual in the class.
        """
        out: list[list[Any]] = []
        for i in np.argsort(self.log_p, kind="stable")[:most].tolist():
            k, true = int(self.best[i]), self.classes[self.y[i]] if self.y[i] >= 0 else "–"
            out.append([name(i), float(self.log_p[i]), true, f"{self.classes[k]} ({self.proba[i, k]:.0%})", odd(i, k)])
        return out


def confusion(classes: Sequence[str], true: np.ndarray, called: np.ndarray, most: int = MOST_CLASSES) -> charts.Chart:
    """What rows of each class were called, as shares of the class; of more than `most` classes, those with most errors."""
    K = len(classes)
    counts = confusion_matrix(true, called, labels=np.arange(K))
    total = counts.sum(axis=1)
    rate = counts / np.maximum(total, 1)[:, None]
    wrong = counts.sum(axis=0) + total - 2 * np.diag(counts)
    shown = np.sort(np.argsort(-wrong, kind="stable")[:most])
    some = f" The {most} of {K} classes with most errors are shown." if most < K else ""
    names = [classes[k] for k in shown]
    texts = [[f"{rate[i, j]:.0%}" if counts[i, j] else "" for j in shown] for i in shown]
    tell = "{}, called {}\n{:,} of {:,} rows ({:.1%})".format
    tips = [[tell(classes[i], classes[j], counts[i, j], total[i], rate[i, j]) for j in shown] for i in shown]
    chart = charts.heat("What each class was called", "called", "true class", names, names, rate[np.ix_(shown, shown)], texts, tips)
    rows = [[classes[i], classes[j], int(counts[i, j]), float(rate[i, j])] for i in shown for j in shown if counts[i, j]]
    caption = f"Each row of the matrix is a true class; its cells add to 100%. The diagonal is right.{some}"
    chart |= {"columns": ["true class", "called", "rows", "share of the true class"], "rows": rows}
    chart |= {"domain": [0, 1], "unit": "share of the true class"}
    return chart | {"select": "class", "keys": shown, "flip": True, "empty": True, "caption": caption}


def reliability(stated: Array, came: np.ndarray, what: str, k: int = 0) -> charts.Chart:
    """Stated probabilities in tenths, against the share of their rows where it came true."""
    group = np.unique(np.minimum((stated * BINS).astype(int), BINS - 1), return_inverse=True)[1]
    n, right = np.bincount(group), np.bincount(group, came).astype(int)
    x, share, (low, high) = np.bincount(group, stated) / n, right / n, wilson(right, n)
    tell = "stated {:.1%} on average\ncame true for {:,} of {:,} rows ({:.1%})".format
    tips = [tell(*row) for row in zip(x, right, n, share, strict=True)]
    axes = charts.axis(f"stated probability of {what}", [0, 1]), charts.axis("share of rows where it was true", [0, 1])
    series = [{"name": "", "x": x, "y": share, "low": low, "high": high, "marks": True, "tips": tips, "colour": k}]
    heads, rows = ["stated probability", "share true", "low", "high", "rows"], list(zip(x, share, low, high, n, strict=True))
    caption = "Rows in groups by stated probability; bars are 95% intervals. On the dashed line it means what it says; "
    caption += f"the mean gap is {float(n @ np.abs(share - x) / n.sum()):.1%}."
    title = f"Can its probabilities be believed? ({what})"
    return charts.lines(title, *axes, series, heads, rows, diagonal=True, caption=caption)


def surprise(values: Array, own: Array | None) -> tuple[charts.Chart, float | None]:
    """log p(x) of rows, beside `own`, that of rows drawn from the model itself; and the share that is stranger than 99 in 100
    of these."""
    found = [("rows given", values, False), *([] if own is None else [("rows the model would make", own, True)])]
    span = np.concatenate([these for _, these, _ in found])
    bins = int(np.clip(np.sqrt(len(values)) * 1.5, 10, 40))
    edges = np.histogram_bin_edges(span, bins, None if np.ptp(span) > 0 else (span[0] - 1, span[0] + 1))
    series: list[dict[str, Any]] = []
    for name, these, dash in found:
        height = np.histogram(these, edges)[0] / len(these)
        curve = {"name": name, "x": np.append(edges[0], edges), "y": np.concatenate([[0], height, [0]]), "key": 7 if dash else 0}
        series.append(curve | {"step": True, "fill": not dash, "dash": dash})
    rows = [[a, *(s["y"][i] for s in series)] for i, a in enumerate(series[0]["x"][:-1]) if i]
    x, y = charts.axis("log p(x), nats (further left: stranger)"), charts.axis("share of rows", zero=True)
    chart = charts.lines("How probable the rows are", x, y, series, ["log p(x) from", *(s["name"] for s in series)], rows)
    chart |= {"caption": "The ten strangest are listed below.", "wide": True, "show": True}
    if own is None:
        return chart, None
    rare = float(np.quantile(own, 0.01))
    return chart | {"mark": rare}, float(np.mean(values < rare))


def error_of(values: Array) -> str:
    """The standard error of a mean, in words.

    >>> error_of(np.array([1.0, 2.0, 3.0])), error_of(np.ones(1))
    ('± 0.577', 'one row')
    """
    return f"± {values.std(ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else "one row"
