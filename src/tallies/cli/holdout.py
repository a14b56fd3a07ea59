"""Honest scores: of rows that a fit has not seen, held out once (`--holdout 0.2`) or in turn (`--cv 5`).

Which rows are held out follows from the seed and the number of rows alone, so `tallies report` finds them again. Rows of a class
are spread evenly over the parts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tallies.errors import DataError
from tallies.phases import phase

if TYPE_CHECKING:
    import numpy as np

Rows = Callable[[int], Any]  # from the number of rows to those that are chosen


def check(options: Mapping[str, Any], family: Any, model: Any) -> None:
    """Refuse what cannot be held out."""
    share, folds = options.get("holdout"), options.get("folds")
    if share is not None and folds is not None:
        raise DataError("--holdout and --cv both say what to judge the fit by; choose one")
    if share is not None and not 0 < share < 1:
        raise DataError(f"--holdout must be a share of the rows between 0 and 1, such as 0.2; got {share:g}")
    if folds is not None and _in_order(family, model):
        raise DataError(
            "--cv takes rows out of their order, but this model is of a series; use --holdout, which takes the last ones"
        )


def _in_order(family: Any, model: Any) -> bool:
    return bool(getattr(family, "in_order", lambda model: False)(model))


def parts(n: int, options: Mapping[str, Any], labels: Any = None, in_order: bool = False) -> np.ndarray:
    """(n,) the part of each row: with `holdout` 1 where it is held out and 0 elsewhere, with `folds` the fold.

    >>> int(parts(10, {"holdout": 0.2, "seed": 0}).sum()), parts(6, {"folds": 3, "seed": 0}, labels=list("aaabbb")).tolist()
    (2, [1, 0, 2, 1, 0, 2])
    """
    import numpy as np

    codes = np.zeros(n, dtype=int) if labels is None else np.unique([str(label) for label in labels], return_inverse=True)[1]
    order = np.arange(n) if in_order else np.lexsort((np.random.default_rng([options["seed"], n]).random(n), codes))
    found, share = np.empty(n, dtype=int), options.get("holdout")
    if share is None:
        found[order] = np.arange(n) % options["folds"]
    elif in_order:
        found[order] = np.arange(n) >= n - max(1, round(share * n))
    else:
        steps = np.floor(np.arange(n + 1) * share + 0.5)  # every so many rows, along the classes
        found[order] = np.diff(steps)
    counts = np.bincount(found, minlength=2)
    if counts.min() == 0:
        raise DataError(f"{n} rows are too few to hold some out so; take another share, or none")
    return found


def splitter(options: Mapping[str, Any], family: Any, model: Any) -> Callable[[int, bool], Rows]:
    """Gives, of a part and whether the rows are in it or in the others, which rows these are."""
    import numpy as np

    labels = family.labels(options) if hasattr(family, "labels") else None

    def rows(part: int, within: bool) -> Rows:
        def chosen(n: int) -> Any:
            if (options.get("folds") or 0) > n:
                raise DataError(
                    f"--cv {options['folds']} parts {n} rows into more folds than there are; choose --cv 5, or at most {n}"
                )
            known = labels if labels is not None and len(labels) == n else None
            return np.flatnonzero((parts(n, options, known, _in_order(family, model)) == part) == within)

        return chosen

    return rows


def fit(model: Any, options: Mapping[str, Any], family: Any, **run: Any) -> None:
    """Fit the model, without the rows that are held out."""
    rows = splitter(options, family, model)(1, False) if options.get("holdout") else None
    if options.get("folds") is not None:
        _check_folds(model, options, family)
    family.fit(model, {**options, "rows": rows}, **run)


class _Counted(Exception):
    """The rows are counted, and a fit that only begins for that ends."""


def _check_folds(model: Any, options: Mapping[str, Any], family: Any) -> None:
    """Refuse folds that cannot be made, before anything is fitted: a fit that is begun tells how many rows there are."""
    split = splitter(options, family, model)(0, False)

    def rows(n: int) -> Any:
        split(n)
        raise _Counted

    with warnings.catch_warnings(), suppress(_Counted):
        warnings.simplefilter("ignore")  # they are said of the fit itself
        family.fit(model, {**options, "rows": rows})


def judge(model: Any, options: Mapping[str, Any], family: Any, again: Callable[[], Any]) -> dict[str, Any] | None:
    """Scores on rows held out; `again` makes the model unfitted, for the folds. Ctrl-C in one of them raises KeyboardInterrupt."""
    from tallies.storage import plain
    from tallies.watch import interruptible

    share, folds = options.get("holdout"), options.get("folds")
    if share is None and folds is None:
        return None
    split, path, seed = splitter(options, family, model), options["data"], options["seed"]
    if folds is None:
        scores, _ = family.score(model, {**options, "rows": split(1, True)}, path, seed)
        return plain({"how": f"on {share:.0%} of the rows, held out of the fit", "scores": scores})
    found = []
    with interruptible() as pressed:
        for k in range(folds):
            with phase(f"cross-validation, fold {k + 1} of {folds}"):
                fold = family.fit(again(), {**options, "rows": split(k, False)}, progress=False, callback=lambda *_: pressed())
                if pressed():  # a fold that is not fitted to its end says nothing of the model
                    raise KeyboardInterrupt
                found.append(_flat(family.score(fold, {**options, "rows": split(k, True)}, path, seed)[0]))
    means: dict[str, Any] = {key: _mean([one[key] for one in found]) for key in found[0]}
    return {
        "how": f"by {folds}-fold cross-validation, ± one standard error; the model itself is fitted to all rows",
        "scores": means,
    }


def _flat(scores: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among scores, by their names."""
    nested = {f"{key} {name}": item for key, value in scores.items() if isinstance(value, dict) for name, item in value.items()}
    return {key: value for key, value in {**scores, **nested}.items() if _is_number(key, value)}


def _is_number(name: str, value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and "stderr" not in name


def _mean(values: list[float]) -> dict[str, float]:
    import numpy as np

    return {"mean": float(np.mean(values)), "stderr": float(np.std(values, ddof=1) / np.sqrt(len(values)))}


def sentence(found: Mapping[str, Any]) -> str:
    """What was found, in words.

    >>> sentence({"how": "on 20% of the rows, held out of the fit", "scores": {"rows": 30, "accuracy": 0.9512, "kind": "exact"}})
    'On 20% of the rows, held out of the fit: rows 30, accuracy 0.951.'
    """
    told = [f"{name} {value:.3g}" for name, value in _flat(found["scores"]).items() if not name.endswith(" mean")]
    means = {name: value for name, value in found["scores"].items() if isinstance(value, dict) and "mean" in value}
    told += [f"{name} {value['mean']:.3g} ± {value['stderr']:.2g}" for name, value in means.items()]
    return f"{found['how'][:1].upper()}{found['how'][1:]}: {', '.join(told)}."
