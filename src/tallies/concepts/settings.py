"""Settings of the author-concept model: the two ways in which a concept makes words, presets, and what is refused."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from tallies.errors import one_of


class Mention(NamedTuple):
    """A sentence speaks of a concept by a noisy copy of one of its strings: log odds and probabilities of `mention`, eq. 1 and 2.

    >>> Mention(missing=2.5).missing, Mention().synonym
    (2.5, -2.5)
    """

    stem: float = 0.1  # e1: a word shows up in another form of the same stem
    prefix: float = 0.03  # e2: only the first letters of the stem agree
    missing: float = 3.0  # mu0
    missing_rare: float = 1.0  # mu1: how much more a rare word is missed
    pair: float = 2.0  # gamma
    whole: float = 1.0  # phi
    synonym: float = -2.5  # nu
    usage: float = 1.0  # labelled sentences that the odds above count for, as to which strings are used (`context`, eq. 3)
    context: float = 0.8  # weight, in the ranks, of words learned to stand around a concept's mentions; 0: not learned
    several: bool = True  # only concepts that share words of a sentence compete for its ranks


class Multinomial(NamedTuple):
    """The words of a sentence are draws from the law of its concept (`word_counts`).

    Options that are None (`anchor`: "auto") are as the preset has them; what is given wins.

    >>> Multinomial(smoothing=0.5).smoothing
    0.5
    """

    smoothing: float | None = None  # pseudocount, of all background words together, or of each word; usually 1
    background: bool | None = None  # whether pseudocounts are spread like the words of the corpus; usually so
    definition_weight: float | None = None  # of a definition's words, against the name's; usually 0
    # how often definitions count, against sentences; None, as usual: words stay fixed
    anchor: float | Literal["auto"] | None = "auto"
    leave_one_out: bool | None = None  # whether a sentence's own words do not count when it is assigned; usually so
    word_sparsity: float | None = None  # lambda2 of F2, the norms of phi; needs the whole table of concepts x words; usually 0
    overlap: float | None = None  # omega: penalty on words that two concepts share; needs the whole table too; usually 0
    # all pairs alike (as usual), or in proportion to their distance
    overlap_kind: Literal["orthogonal", "distance"] | None = None
    held_out: float | None = None  # share of words held out; the fit stops when they are foretold worse; usually 0
    single: bool | None = None  # scores in single precision (sums are double); usually so

    @property
    def whole_table(self) -> bool:
        """Whether phi is laid out as one table of concepts x words."""
        return bool(self.word_sparsity or self.overlap)

    @property
    def dtype(self) -> Any:
        return np.float32 if self.single else np.float64


class Settings(NamedTuple):
    """The settings in force: hyperparameters, with what they leave open filled in; as here, or as a preset has it."""

    words: Mention | Multinomial = Mention()
    assign: Literal["soft", "hard"] = "soft"
    credit: Literal["split", "whole"] = "split"
    temperature: float = 1.0
    gamma: float = 0.02
    author_backoff: float | None = 1000.0
    document_backoff: float | None = None
    null: bool = True
    ontology_smoothing: float | None = None
    author_sparsity: float = 0.0
    stop: Literal["likelihood", "assignments"] = "likelihood"
    keep: int = 30

    def check(self) -> None:
        """Refuse hyperparameters that mean nothing."""
        if not isinstance(self.words, Mention | Multinomial):
            raise ValueError(f'words must be "mention", "multinomial", Mention(...) or Multinomial(...), got {self.words!r}')
        words, values = self.words, {**self._asdict(), **self.words._asdict()}
        for name, allowed in CHOICES.items():
            if name in values:
                one_of(name, values[name], *allowed)
        for names, holds, what in RULES:
            for name in names.split():
                value = values.get(name)
                if value is not None and not (isinstance(value, int | float | np.number) and np.isfinite(value)):
                    raise ValueError(f"{name} must be a finite number, and {what}, got {value!r}")
                if value is not None and not holds(value):
                    raise ValueError(f"{name} must {what}, got {value!r}")
        if isinstance(words, Mention) and not self.null:
            raise ValueError('words="mention" weighs concepts against "none of these", so it needs null=True')
        if isinstance(words, Multinomial) and None in words._replace(anchor=0.0):
            raise ValueError(f"the options of the words should be filled in, got {words!r}")
        if isinstance(words, Multinomial) and words.whole_table and (words.anchor is None or self.null or words.held_out):
            raise ValueError(
                "word_sparsity and overlap shape words that are learned: set anchor=1.0 (or more) and held_out=0 in "
                "Multinomial(...), and null=False"
            )


BAGS = Multinomial(1.0, True, 0.0, None, True, 0.0, 0.0, "orthogonal", 0.0, True)  # as usual
# the algorithm of the original note: hard assignments, every author credited whole, words of name and definition, pseudocount once
SEED_BAGS = BAGS._replace(smoothing=1e-8, background=False, definition_weight=1.0, anchor=1.0, leave_one_out=False, single=False)
SEED = Settings(
    words=SEED_BAGS, assign="hard", credit="whole", gamma=1e-8, author_backoff=None, null=False, ontology_smoothing=0.0,
    stop="assignments", keep=1,
)  # fmt: skip
PRESETS = {None: (Settings(), BAGS), "seed": (SEED, SEED_BAGS)}  # and the options of a multinomial
OPEN = {"author_backoff": "auto", "anchor": "auto"}  # what leaves an option open, where that is not None
CHOICES = {"assign": ("soft", "hard"), "credit": ("split", "whole"), "stop": ("likelihood", "assignments")}
CHOICES["overlap_kind"] = ("orthogonal", "distance")
RULES: Any = (  # names, what holds of their values unless they are None, and how that is said
    ("temperature smoothing stem prefix", lambda v: v > 0, "be positive"),
    ("gamma author_sparsity author_backoff document_backoff context usage", lambda v: v >= 0, "not be negative"),
    ("definition_weight word_sparsity overlap anchor", lambda v: v >= 0, "not be negative"),
    ("missing missing_rare pair whole synonym", lambda v: abs(v) <= 1e6, "be log odds, from -1e6 to 1e6"),
    ("ontology_smoothing", lambda v: 0 <= v <= 1, "be a share from 0 to 1"),
    ("held_out", lambda v: 0 <= v < 1, "be a share from 0 up to 1"),
    ("keep", lambda v: v >= 1, "be at least 1"),
)


def settings_of(given: Any) -> Settings:
    """The settings in force of an estimator: what is open (None, "auto") is as the preset has it; what means nothing is refused."""
    if given.preset not in PRESETS:
        raise ValueError(f'preset must be None or "seed", got {given.preset!r}')
    usual, bags = PRESETS[given.preset]
    if given.preset == "seed" and given.assign == "soft":  # one responsibility, and a stop when the best stay, are for hard ones
        usual = usual._replace(keep=Settings().keep, stop="likelihood")
    found = _filled(usual, {name: getattr(given, name) for name in Settings._fields})
    if isinstance(found.words, str) and found.words in ("mention", "multinomial"):
        found = found._replace(words=Mention() if found.words == "mention" else bags)
    elif isinstance(found.words, Multinomial):
        found = found._replace(words=_filled(bags, found.words._asdict()))
    found.check()
    return found


def _filled(usual: Any, given: dict[str, Any]) -> Any:
    return usual._replace(**{name: value for name, value in given.items() if value != OPEN.get(name)})
