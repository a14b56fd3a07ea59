"""Names that people guess from other libraries: each is an error that names ours.

An estimator lists what is guessed of it in `guesses`, beside what is `COMMON` to all: `{"components_": "topics_"}`, or a sentence
in place of a name. Attributes end in an underscore, as scikit-learn's do; the others are options of the constructor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Never

from tallies.errors import nearest

COMMON = {
    "n_jobs": 'threads are set around a fit: `with tallies.backend("threads", workers=4): ...`',
    "n_workers": 'threads are set around a fit: `with tallies.backend("threads", workers=4): ...`',
    "verbose": "`fit(..., progress=True)` shows progress",
    "seed": "random_state",
    "random_seed": "random_state",
    "n_iter": "max_iter",
    "iterations": "max_iter",
    "n_epochs": "max_iter",
    "epochs": "max_iter",
    "warm_start": "`fit(..., resume=file)` goes on with a fit",
    "callbacks": "`fit(..., callback=function)` calls it after every sweep",
    "loss_curve_": "history_",
    "loglikelihoods_": "history_",
    "n_features_": "n_features_in_",
    "random_state_": "seed_",
}


class Guess:
    """An attribute that a model has not: asking for it is an AttributeError that names ours."""

    def __init__(self, name: str, ours: str):
        self.name, self.ours = name, ours

    def __get__(self, model: Any, owner: type) -> Guess:
        if model is None:  # as properties do: tools look at all that a class has
            return self
        raise AttributeError(f"{owner.__name__} has no attribute {self.name!r}; {said(self.ours)}")


def said(ours: str) -> str:
    """What we have in place of a guess, as the end of a sentence.

    >>> said("topics_"), said("`fit(..., progress=True)` shows progress")
    ('here that is `topics_`', '`fit(..., progress=True)` shows progress')
    """
    return f"here that is `{ours}`" if ours.isidentifier() else ours


def known(cls: type) -> dict[str, str]:
    """All guesses of a class: those of its bases, the common ones first, and its own."""
    found = dict(COMMON)
    for base in reversed(cls.__mro__):
        found |= vars(base).get("guesses", {})
    return found


def place(cls: type) -> None:
    """Give a class an attribute for every guess that it has not answered by one of its own."""
    for name, ours in known(cls).items():
        if name.endswith("_") and isinstance(getattr(cls, name, None), Guess | None):
            setattr(cls, name, Guess(name, ours))


def refuse(cls: type, name: str, options: Iterable[str]) -> Never:
    """Say that a class has no such option, and which one is meant."""
    guesses, options = known(cls), list(options)
    ours = guesses.get(name, "")
    told = said(ours) if ours and (ours in options or not ours.isidentifier()) else nearest(name, options)
    raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {name!r}; {told}")
