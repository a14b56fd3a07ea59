"""The options of a fit: what the line says, else what a config file says, else the defaults; and the model that they describe."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from tallies.cli.options import READING, Option, alternatives
from tallies.errors import DataError, nearest
from tallies.registry import WORDS, estimator, part
from tallies.runs import read_toml

SWEEPS = Option("max_iter", "Most sweeps over the data; default: the model's own.", None, int, "sweeps", least=1, run=True)
WHERE = (  # a fit runs, of which no result depends
    Option("scheduler", "Address of a Dask scheduler to run on.", run=True),
    Option("memory", "Memory to spend on data from files, such as 4GB; default: half of what is free.", run=True),
    Option("scratch", "Folder for files that last as long as a fit; of a cluster one that all machines see, or a URL.", run=True),
)
FIT = (  # of every fit, in run.toml
    Option("out", "RUN folder to write.", kind=Path, flag="out,o", needed=True, run=True),
    Option("seed", "Seed of the random numbers, where there are any.", 0, int, least=0, run=True),
    *WHERE,
    *READING,
    Option("holdout", "Share of the rows to hold out and judge the fit by, such as 0.2.", None, float, run=True),
    Option("folds", "Judge fits by so many parts of the rows in turn (cross-validation).", None, int, "cv", least=2, run=True),
)
SETTING = (  # how to set others
    Option("config", "Options in TOML, such as run.toml of a RUN: repeats it. What the line says wins.", kind=Path, run=True),
    Option("pairs", "Any other hyperparameter, by its name in Python.", flag="set", many=True, metavar="NAME=VALUE", run=True),
    Option("force", "Replace an existing RUN folder.", False, bool, run=True),
)


def model_name(name: Any, where: str) -> str:
    """Check the name of a model."""
    if name is None:
        some = next(iter(WORDS))
        raise DataError(f'{where} does not say which model; add a line such as: model = "{some}", or use: tallies fit MODEL')
    if name not in WORDS:
        raise DataError(f"{where} names the model {name!r}, which there is not; {nearest(str(name), WORDS)}")
    return str(name)


def class_of(name: str) -> Any:
    """The class of a model by its name on the command line."""
    return estimator(WORDS[name])


def hyperparameters(cls: Any) -> dict[str, Option]:
    """Those of an estimator, as options; those that have no help are set with --set."""
    kinds = get_type_hints(cls)
    found = {
        field.name: Option(field.name, **{"help": "", **field.metadata}, default=field.default, kind=kinds[field.name])
        for field in dataclasses.fields(cls)
        if field.name != "random_state"  # --seed
    }
    return found | {SWEEPS.name: SWEEPS}


def options_of(name: str) -> dict[str, Option]:
    """All options of a model: those of its data, from its room's command, its hyperparameters, and those of every fit."""
    data = part(WORDS[name], "command").OPTIONS
    return {option.name: option for option in (*data, *hyperparameters(class_of(name)).values(), *FIT)}


def line_options(name: str) -> list[Option]:
    """Those that have a place of their own on the line."""
    return [*(option for option in options_of(name).values() if option.help), *SETTING]


def from_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE of `--set`.

    >>> from_pairs(["tol=1e-6", "start=random"])
    {'tol': '1e-6', 'start': 'random'}
    """
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise DataError(f"--set takes NAME=VALUE, such as --set tol=1e-6; got {pair!r}")
        found[name.strip()] = text
    return found


def merged(name: str, told: Mapping[str, Any], pairs: Mapping[str, str], config: str | Path | None) -> dict[str, Any]:
    """All options of a fit: the line wins over the file, the file over the defaults; hyperparameters not told are None."""
    written = {} if config is None else read_toml(config)
    other = model_name(written.get("model", name), str(config))
    if other != name:
        raise DataError(f"{str(config)!r} is for the model {other!r}, but this is `tallies fit {name}`; use: tallies fit {other}")
    options, command = options_of(name), part(WORDS[name], "command")
    long = {option.flags[0].replace("-", "_"): key for key, option in options.items()} | {key: key for key in options}
    long |= {"random_state": "seed"}
    found = {key: option.default for key, option in options.items()}
    found |= dict.fromkeys(hyperparameters(class_of(name))) | {"threads": None}
    said: set[str] = set()
    for source, where in ((written, str(config)), (told, ""), (pairs, "--set")):
        for given, value in source.items():
            key = given.replace("-", "_")
            key = long.get(key, key)
            if key in found:
                found[key] = read(value, options[key]) if key in options else value
            elif key not in ("version", "model"):
                raise DataError(f"{where} sets {given!r}, which {name} does not have; {nearest(given, found)}")
            said |= {key} if source is not written else set()
    return found | (command.settle(found, said) if hasattr(command, "settle") else {})


def read(value: Any, option: Option) -> Any:
    """What is written for an option: TOML where a text can be that, else a number, a list with commas, pairs name=value, or a word.

    >>> read("1,3", Option("degree", "", kind=int | list[int])), read("wing=normal", Option("families", "", kind=Any))
    ([1, 3], {'wing': 'normal'})
    """
    kinds, text = alternatives(option.kind), value
    if isinstance(text, str):
        if option.parse is not None:
            return option.parse(text)
        if (str in kinds or Path in kinds) and not text.startswith("{"):  # where a word may be an object, too: a table
            return text
        value = _value(text)
    for fit in (fit for kind in kinds for fit in _fits(value, kind)):
        return fit
    wanted = " or ".join(dict.fromkeys(word for kind in kinds for word in _words(kind)))
    if isinstance(text, str) and text != "none" and wanted:
        raise DataError(f"{option.title}: expected {wanted}, got {text!r}")
    return value  # what is no text is for the model to judge


def _value(text: str) -> Any:
    """What a text means where nothing is known of it."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        pass
    parts = [part.strip() for part in text.split(",")]
    if all("=" in part for part in parts):
        return {key.strip(): _value(value.strip()) for key, value in (part.split("=", 1) for part in parts)}
    if len(parts) > 1:
        return [_value(part) for part in parts]
    try:
        return float(text)
    except ValueError:
        return text


def _fits(value: Any, kind: Any) -> list[Any]:
    """The value as one of this kind, such as an object from a table of its fields; nothing where it is none."""
    inner: tuple[Any, ...] = get_args(kind)
    home: Any = get_origin(kind)
    if isinstance(home, type) and issubclass(home, Collection) and not issubclass(home, Mapping):
        items = [_fits(item, inner[0]) for item in (value if isinstance(value, list) else [value])]
        return [[fit for item in items for fit in item]] if all(items) else []
    if isinstance(value, Mapping) and set(value) <= set(getattr(kind, "__annotations__", ())):
        return [kind(**value)]
    if kind is float and type(value) is int:
        value = float(value)
    alike = value in inner if home is Literal else kind is Any or type(value) is kind or isinstance(value, home or ())
    return [value] if alike else []


def _words(kind: Any) -> list[str]:
    """What a kind of value is called."""
    if inner := get_args(kind):
        several = [f"{word}, or several with commas" for word in _words(inner[0])]
        return [str(word) for word in inner] if get_origin(kind) is Literal else several
    return [{float: "a number", int: "a whole number", bool: "true or false"}[kind]] if kind in (bool, int, float) else []


def build(name: str, options: Mapping[str, Any]) -> Any:
    """The model that options describe: hyperparameters not among them have their defaults."""
    cls = class_of(name)
    given = {key: read(options[key], how) for key, how in hyperparameters(cls).items() if options.get(key) is not None}
    given = {key: None if isinstance(value, str) and value == "none" else value for key, value in given.items()}
    return cls(**given, **({"random_state": options["seed"]} if hasattr(cls, "random_state") else {}))


def as_written(name: str, model: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """What `run.toml` holds: the options, with every hyperparameter of the model; "none" where None is not the default."""
    plain = {field.name: field.default for field in dataclasses.fields(model)}
    given = {k: v for k, v in model.get_params(deep=False).items() if k != "random_state"}
    values = {k: "none" if v is None and plain[k] is not None else v for k, v in given.items()}
    settings = {k: v for k, v in options.items() if k not in values and k not in ("seed", "out")}
    return {"model": name, **settings, **values, "seed": options["seed"]}
