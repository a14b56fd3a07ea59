"""The options of a fit: what the line says, else what a config file says, else the defaults; and the model that they describe."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tallies.errors import DataError, nearest
from tallies.registry import WORDS, estimator

# options whose name on the line is shorter than that of the hyperparameter they set
LONG = {"topics": "n_topics", "sweeps": "max_iter", "chains": "n_chains", "random_state": "seed"}
RUN = ("version", "model", "data", "out", "seed", "threads", "scheduler")  # of any model, beside settings and hyperparameters


def model_name(name: Any, where: str) -> str:
    """Check the name of a model."""
    if name is None:
        raise DataError(f'{where} does not say which model; add a line such as: model = "lda", or use: tallies fit MODEL')
    if name not in WORDS:
        raise DataError(f"{where} names the model {name!r}, which there is not; {nearest(str(name), WORDS)}")
    return str(name)


def class_of(name: str) -> Any:
    """The class of a model by its name on the command line."""
    return estimator(WORDS[name])


def long_name(key: str) -> str:
    """The name of an option in `run.toml`.

    >>> long_name("burn-in"), long_name("topics")
    ('burn_in', 'n_topics')
    """
    key = key.replace("-", "_")
    return LONG.get(key, key)


def from_pairs(pairs: Iterable[str]) -> dict[str, Any]:
    """NAME=VALUE of `--set`; a value is TOML where it can be, else text.

    >>> from_pairs(["tol=1e-6", "start=random", "bins=none"])
    {'tol': 1e-06, 'start': 'random', 'bins': 'none'}
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise DataError(f"--set takes NAME=VALUE, such as --set tol=1e-6; got {pair!r}")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, KeyError):
            value = text
        found[name.strip()] = value
    return found


def merged(
    name: str, defaults: Mapping[str, Any], told: Mapping[str, Any], pairs: Mapping[str, Any], config: str | Path | None
) -> dict[str, Any]:
    """All options of a fit, in the order of `defaults`: those told on the line win over the file, the file over the defaults."""
    from tallies.runs import read_toml

    written: dict[str, Any] = {}
    if config is not None:
        written = read_toml(config)
        other = model_name(written.get("model", name), str(config))
        if other != name:
            raise DataError(
                f"{str(config)!r} is for the model {other!r}, but this is `tallies fit {name}`; use: tallies fit {other}"
            )
    fields = [field.name for field in dataclasses.fields(class_of(name)) if field.name != "random_state"]
    known = list(dict.fromkeys([*defaults, *fields, *RUN]))
    found: dict[str, Any] = dict(defaults)
    for source, where in ((written, str(config)), (pairs, "--set")):
        for key, value in source.items():
            if long_name(key) not in known:
                raise DataError(f"{where} sets {key!r}, which {name} does not have; {nearest(key, known)}")
            found[long_name(key)] = value
        if source is written:
            found |= told
    return {key: _parsed(key, value) for key, value in found.items() if key not in ("version", "model")}


def build(name: str, options: Mapping[str, Any]) -> Any:
    """The model that options describe: hyperparameters not among them have their defaults."""
    cls = class_of(name)
    given = {}
    for field in dataclasses.fields(cls):
        key = "seed" if field.name == "random_state" else field.name
        value = _parsed(key, options.get(key))
        if value is not None:
            given[field.name] = None if isinstance(value, str) and value == "none" else value
    return cls(**given)


def as_written(name: str, model: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """What `run.toml` holds: the options, with every hyperparameter of the model; "none" where None is not the default."""
    plain = {field.name: field.default for field in dataclasses.fields(model)}
    given = {k: v for k, v in model.get_params(deep=False).items() if k != "random_state"}
    values = {k: "none" if v is None and plain[k] is not None else v for k, v in given.items()}
    settings = {k: v for k, v in options.items() if k not in values and k not in ("seed", "out")}
    return {"model": name, **settings, **values, "seed": options["seed"]}


def _parsed(key: str, value: Any) -> Any:
    """The value of an option that may be written as text: lists with commas, numbers or a word."""
    if isinstance(value, Path):
        return str(value)
    if key in ("min_df", "max_df"):
        return _df(key, value)
    if key == "word_prior" and isinstance(value, Mapping):  # keys of TOML are text
        return {int(k) if str(k).isdecimal() else k: words for k, words in value.items()}
    parse = PARSERS.get(key)
    return parse(value, "--" + key.replace("_", "-")) if parse is not None and isinstance(value, str) else value


def _df(key: str, value: Any) -> Any:
    """A bound on document frequency: a share as it is, a number of documents as a whole one; 1 is all but for the lower bound."""
    if not isinstance(value, float | int):
        raise DataError(f"--{key.replace('_', '-')} must be a number of documents or a share below 1, got {value!r}")
    return int(value) if value > 1 or (value == 1 and key == "min_df") else float(value)


def _names(text: str, option: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{option}: expected a number, got {text!r}") from None


def _numbers(text: str, option: str) -> list[float]:
    return [_number(part, option) for part in text.split(",")]


def _word_or_number(text: str, option: str) -> float | str:
    return text if text in ("auto", "none") else _number(text, option)


def _families(text: str, option: str) -> Any:
    """One family, or column=family pairs."""
    if "=" not in text:
        return text
    pairs = [pair.split("=", 1) for pair in text.split(",")]
    if any(len(pair) < 2 for pair in pairs):
        raise DataError(f"{option} must be auto, one family, or column=family with commas between; got {text!r}")
    return {column.strip(): family.strip() for column, family in pairs}


def _degree(text: str, option: str) -> Any:
    """ "2", "1,3" or "auto"."""
    if text == "auto":
        return text
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise DataError(f"{option} must be a whole number, several with commas between, or auto; got {text!r}") from None
    return numbers if "," in text else numbers[0]


PARSERS: dict[str, Callable[[str, str], Any]] = {
    "columns": _names,
    "priors": _numbers,
    "shrinkage": _word_or_number,
    "alpha": _word_or_number,
    "beta": _word_or_number,
    "ridge": _word_or_number,
    "families": _families,
    "degree": _degree,
}
