"""What a free energy model has learned: in the words of its lead, and in the pictures of its page."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.categories import views
from tallies.categories.words import AND, feature_names, loudest, no_chance, strengths, strongest_terms
from tallies.html import charts
from tallies.html.common import listing, plural
from tallies.maths import Array

MOST = 12  # combinations in a picture
EFFECTS = 200  # variables, times classes, whose effects the page holds
APART = 0.8  # a large drop: the next has at most this share of the strength
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}


class Learned:
    """The named weights of a model; `errors` (p, M), where they are known, are their standard errors."""

    def __init__(self, model: Any, errors: Array | None = None):
        self.classes, self.categories, self.errors = [str(c) for c in model.classes_], model.categories_, errors
        self.names = [str(name) for name in self.categories.names]
        _, self.terms, self.V = model._zero_sum()
        self.features, self.size = feature_names(self.terms, self.categories), strengths(self.terms, self.V)
        self.degrees = sorted(set(self.terms.degree().tolist()), reverse=True)
        # variables whose effects the page holds
        self.shown = min(len(self.names), max(EFFECTS // max(len(self.classes) * (len(self.classes) > 2), 1), 1))
        self.rows = int(model.n_rows_)
        self.sure = self._sure(model.ridge_)
        self.kept = " that were kept" * (model.pairs_ is not None)

    def _sure(self, ridge: float) -> np.ndarray:
        """(T,)  whether a term is more than chance, among those of its degree."""
        terms, M, degree = self.terms, len(self.classes), self.terms.degree()
        m = np.where(terms.variables >= 0, terms.sizes[terms.variables], 2)
        free, g = (m - 1).prod(axis=1) * (M - 1), self.rows / (M * np.diff(terms.offset))
        used = (free * g / (g + ridge)).sum() / (self.rows * (M - 1))
        sure = np.zeros(len(free), dtype=bool)
        for mine in (degree == d for d in self.degrees):
            sure[mine] = no_chance(self.size[mine], free[mine], g[mine], ridge, used)
        return sure

    def called(self, t: int) -> str:
        """The name of a term."""
        return AND.join(self.names[v] for v in self.terms.of(t))

    def strongest(self, *degrees: int) -> list[int]:
        """The terms of these degrees, or of all, strongest first."""
        return strongest_terms(self.terms, self.size, degrees or self.degrees)

    # in words

    def lead(self) -> str:
        """Which combinations matter, and which variable by itself."""
        text, highest = "", self.degrees[0]
        if highest > 1:
            order = self.strongest(highest)
            n = standing_out(self.size[order], self.sure[order])
            order = sorted(order[:n], key=lambda t: -abs(self.V[loudest(self.V, self.terms, t)])) + order[n:]  # as they are drawn
            names = [self.called(t) for t in order[:3]]
            of = f"Of {plural(len(order), 'combination')} of {NUMBERS.get(highest, highest)} variables{self.kept}"
            more = f" and {plural(n - 3, 'other')}" if n > 3 else ""
            if len(order) == 1:
                nothing = f"they say nothing beyond the noise of {plural(self.rows, 'row')}"
                text = f"Together, {self._says(order[0]) if n else nothing}. "
            elif n > 1:
                text = f"{of} {n} stand out: {', '.join(names[:n])}{more}. In the first, {self._says(order[0])}. "
            elif n:
                text = f"{of} one stands out, {names[0]}: {self._says(order[0])}. "
            else:
                text = f"{of} none stands out from the noise of {plural(self.rows, 'row')}. "
        singles = self.strongest(1)
        n = standing_out(self.size[singles], self.sure[singles]) if singles else 0
        if n:
            others = [self.called(t) for t in singles[1 : min(n, 3)]]
            then = f", then {listing(others, 2)}" if highest == 1 and others else ""
            return f"{text}By itself {self.called(singles[0])} says most ({self._says(singles[0])}){then}. "
        return f"{text}No single variable stands out from the others. "

    def _says(self, t: int) -> str:
        f, k = loudest(self.V, self.terms, t)
        return f"{self.features[f]} speaks {'for' if self.V[f, k] > 0 else 'against'} {self.classes[k]}"

    def shares(self) -> list[list[Any]]:
        """Of each degree: how many terms there are, and their share of the sum of all squared weights."""
        square, degree = self.size**2, self.terms.degree()
        return [[d, int((degree == d).sum()), float(square[degree == d].sum() / max(square.sum(), 1e-300))] for d in self.degrees]

    # in pictures

    def combinations(self, degree: int) -> charts.Chart:
        """The strongest combinations of so many variables, a bar each: what it says loudest, of any class or the one chosen."""
        order, number = self.strongest(degree)[:MOST], NUMBERS.get(degree, degree)
        caption = "One bar for each combination: the states of which it says most, beyond what its parts say."

        def view(k: int | None) -> charts.Chart:
            f, c = np.array([loudest(self.V, self.terms, t, k) for t in order]).T
            weights, names = self.V[f, c], [self.features[i] for i in f]
            title = f"Combinations of {number} variables that matter most"
            if k is None:
                names = [f"{'' if w > 0 else 'not '}{self.classes[j]} ← {x}" for x, w, j in zip(names, weights, c, strict=True)]
                return views.sizes(
                    title,
                    names,
                    np.abs(weights),
                    self._errors(f, c),
                    f"{caption} The arrow points to the class that they speak for.",
                )
            of = f"{title} for {self.classes[k]}"
            return views.signed(of, names, weights, self._errors(f, c), self.classes[k], "against it", caption)

        if len(self.classes) == 2:
            return view(None)
        return charts.follow("class", [view(k) for k in range(len(self.classes))], view(None))

    def _errors(self, f: np.ndarray, k: np.ndarray | int) -> Array | None:
        return None if self.errors is None else self.errors[f, k]

    def states(self) -> charts.Chart:
        """Weights of single states; with two classes those of one, for the other has the same with the other sign."""
        mine = np.flatnonzero(np.repeat(self.terms.degree() == 1, np.diff(self.terms.offset)))
        names, classes = [self.features[f] for f in mine], self.classes

        def view(k: int, against: str) -> charts.Chart:
            title = f"What single variables say of {classes[k]}"
            return views.signed(title, names, self.V[mine, k], self._errors(mine, k), classes[k], against)

        if len(classes) == 2:
            return view(1, f"for {classes[0]}")
        each = [view(k, "against it") for k in range(len(classes))]
        return charts.follow("class", each, each[self._loudest()])

    def _loudest(self) -> int:
        """The class that charts of one open with, all of them the same, until the reader chooses."""
        return int(np.abs(self.V).max(axis=0).argmax())

    def grid(self, t: int) -> charts.Chart:
        """The weights of a term: for each of several classes, or of two for the second."""
        group, part = self.terms.of(t), slice(self.terms.offset[t], self.terms.offset[t + 1])
        title, block = f"Weights of {self.called(t)}", self.V[part]
        labels, names = [self.categories.labels[v] for v in group], [self.names[v] for v in group]
        if len(self.classes) > 2:
            return views.by_class(title, block, labels, names, self.classes)
        return views.table(title, block[:, 1], labels, names, f"for {self.classes[1]}")

    def effects(self) -> charts.Chart:
        """What each variable says, on average and with its interactions: of the second of two classes, or of the one chosen."""
        K = [1] if len(self.classes) == 2 else list(range(len(self.classes)))

        def of(k: int) -> charts.Chart:
            each = [views.effect(self.categories, self.terms, self.V[:, k], v, self.classes[k]) for v in range(self.shown)]
            return charts.follow("variable", each, each[int(np.argmax([np.abs(chart["values"]).max() for chart in each]))])

        return of(1) if len(K) == 1 else charts.follow("class", [of(k) for k in K], of(self._loudest()))


def standing_out(size: Array, sure: np.ndarray) -> int:
    """How many terms stand out, of sizes that fall: those that are no chance, and of these only what comes before a large drop.

    >>> size, sure = np.array([3.0, 2.9, 2.8, 1.0, 0.9]), np.ones(5, dtype=bool)
    >>> standing_out(size, sure), standing_out(size, ~sure), standing_out(size[:3], sure[:3])
    (3, 0, 3)
    """
    n = int(np.append(sure, False).argmin())
    top = size[: min(n, MOST) + 1]
    left = top[1:] / np.maximum(top[:-1], 1e-300)
    return int(left.argmin()) + 1 if n and len(left) and left.min() < APART else n
