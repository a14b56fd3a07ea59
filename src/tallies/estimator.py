"""From a plan of stages to a scikit-learn estimator: fitting, resuming, saving and summarising, written once for every family.

An estimator is a dataclass over `Estimator` whose fields are its hyperparameters. It has a door (`_prepare`: validate and cut), a
plan (`_plan`: the stages of a fit), and answers, which are functions of the fitted record; see CONTRIBUTING for a skeleton.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
import zlib
from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self, TypedDict, Unpack

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _get_feature_names, check_is_fitted

from tallies import forms, guesses, registry, storage, watch
from tallies.backends import one_blas_thread, place
from tallies.data.kinds import Columns, columns_of
from tallies.engine import Kept, Plan, Record, Runner, Stage, State, Stopped
from tallies.errors import ConvergenceWarning, DataWarning, FileError, FitError, at_least, nearest
from tallies.forms import Form

ADVICE = (
    "nothing was kept. Look for values in the data that are far larger or smaller than the others, for columns that should be "
    "logarithms, and for settings far from their defaults"
)
if TYPE_CHECKING:
    import pandas as pd


class RunOptions(TypedDict, total=False):
    """Options of the run, not of the model: the same in every `fit`."""

    progress: bool | None  # a bar on stderr; None: in terminals and notebooks
    checkpoint: str | Path | None  # file to which the state of the fit is written now and then
    resume: str | Path | None  # such a file, to go on from there with the same bits
    callback: Callable[[Stage, State], Any] | None  # called after every sweep; True ends the fit


class Run(NamedTuple):
    """How a fit went."""

    history: Annotated[np.ndarray, Form("sweeps", "f")]  # objective after each sweep of the main stage
    n_iter: Annotated[int, Form(kind="i", low=0)]  # its sweeps
    converged: bool
    stopped: Stopped
    seed: int

    @classmethod
    def of(cls, kept: Kept, seed: int) -> Run:
        """That of a fit whose main stage ended so; sweeps that had no objective yet are left out of the history."""
        history = np.array([value for value in kept.objective if not np.isnan(value)])
        return cls(history, len(kept.objective), kept.stopped == "converged", kept.stopped, seed)


class Inputs(NamedTuple):
    """The columns that an estimator was fitted on."""

    n: Annotated[int, Form(kind="i", low=0)]
    names: Annotated[np.ndarray, Form("inputs", "UO")] | None  # (n,) where the data had names
    columns: Columns | None = None  # of a table: what they are, and what was done with them; others of its file, too

    def check(self) -> None:
        """One name a column."""
        if self.names is not None and len(self.names) != self.n:
            raise ValueError(f"there are {len(self.names)} names of {self.n} columns")

    def named(self, stem: str = "") -> np.ndarray:
        """(n,) their names, or numbers after a stem where they have none."""
        return np.array([f"{stem}{j}" for j in range(self.n)], dtype=object) if self.names is None else self.names

    @classmethod
    def of(cls, X: Any, n: int, table: bool = False) -> Inputs:
        """The n columns of X, named as scikit-learn names them; of a table also what they are."""
        return cls(n, _get_feature_names(X), columns_of(X) if table else None)


def option(default: Any, help: str = "", *, flag: str = "", parse: Callable[[str], Any] | None = None) -> Any:
    """A hyperparameter: a field whose help, and name on the command line, are told once, here.

    `flag` is its name there where it differs, such as "topics,k" for --topics and -k; `parse` reads text where the usual rules
    (numbers, words, lists with commas) do not. Without `help` it is no option of its own: `--set name=value` sets it.
    """
    return dataclasses.field(default=default, metadata={"help": help, "flag": flag, "parse": parse})


def part(of: str | Callable[[Any], Any], doc: str = "") -> Any:
    """A public attribute: a part of the fitted record, such as "model.B", or a function of it; its docstring is that of the
    function where none is given."""
    find = attrgetter(of) if isinstance(of, str) else of
    return property(lambda model: find(model.fitted_), doc=doc or find.__doc__)


def seed_of(random_state: Any) -> int:
    """A seed from an int, a NumPy Generator or RandomState, or None (a new one each time).

    >>> seed_of(5), seed_of(np.random.default_rng(0)) == seed_of(np.random.default_rng(0))
    (5, True)
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    raise ValueError(f"random_state must be a whole number from 0 on, a NumPy Generator or None; got {random_state!r}")


def check_stopping(max_iter: Any, tol: Any) -> None:
    """Refuse a limit or a tolerance by which no fit can stop.

    >>> check_stopping(10, -1.0)
    Traceback (most recent call last):
    ...
    ValueError: tol must be None or a number from 0 on, got -1.0
    """
    at_least(1, max_iter=max_iter)
    if tol is not None and not (isinstance(tol, int | float | np.number) and tol >= 0):
        raise ValueError(f"tol must be None or a number from 0 on, got {tol!r}")


class Estimator(BaseEstimator):
    """Base of all estimators: the door, the plan and the answers come from the subclass, everything else is derived here."""

    records: ClassVar[tuple[type, ...]] = ()  # the named tuples that a file of this estimator may hold, besides those of the floor
    takes: ClassVar[tuple[str, ...]] = ()  # what data it takes, as scikit-learn's input tags name it
    shard_rows: ClassVar[int | None] = None  # rows of a shard; None: from the size of the data alone
    run_fields: ClassVar[frozenset[str]] = frozenset({"max_iter", "tol", "random_state"})  # may differ when a fit is resumed
    next_steps: ClassVar[tuple[str, ...]] = ("model.summary()",)  # what a user may ask of a fitted `model`, as code
    guesses: ClassVar[dict[str, str]] = {}  # names that people expect from other libraries -> ours, see `tallies.guesses`

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guesses.place(cls)

    if not TYPE_CHECKING:  # who checks types sees the constructor of the dataclass alone

        def __new__(cls, *args: Any, **options: Any) -> Any:
            for name in options:
                if name not in getattr(cls, "__dataclass_fields__", options) and name not in (known := cls._get_param_names()):
                    guesses.refuse(cls, name, known)
            return super().__new__(cls)

    # the subclass's part

    def _prepare(self, *data: Any, **more: Any) -> Any:
        """The door: what `fit` was given, validated, encoded and cut. Reads no earlier fit and sets no attribute."""
        raise NotImplementedError

    def _plan(self, data: Any, seed: int) -> Plan:
        """The stages of a fit to what the door let in; returns the fitted record, a named tuple with a field `run`."""
        raise NotImplementedError

    # fitting

    def _fit(self, data: Any, **run: Unpack[RunOptions]) -> Self:
        """Carry out the plan and set `fitted_` whole: nothing of an earlier fit is left; one that fails changes nothing."""
        name, checkpoint, resume = type(self).__name__, run.get("checkpoint"), run.get("resume")
        callback = run.get("callback") or (lambda stage, state: False)
        wrong = sorted(set(run) - set(RunOptions.__annotations__))
        if wrong:
            raise TypeError(f"{name}.fit has no argument {wrong[0]!r}; {nearest(wrong[0], RunOptions.__annotations__)}")
        check_stopping(getattr(self, "max_iter", 1), getattr(self, "tol", None))
        stored = checkpoint is not None or resume is not None
        about: dict[str, Any] = {"model": self._identity(), "data": fingerprint(data)} if stored else {}
        record, seed = Record(), self._seed()
        if resume is not None:
            record, seed = watch.read_checkpoint(resume, name, about, self._records())
        about["seed"] = seed
        runner = Runner(place, seed=seed, record=record)
        saver = None if checkpoint is None else watch.Checkpoint(checkpoint, name, about, runner.record)
        with one_blas_thread(), watch.interruptible() as interrupted, watch.progress(run.get("progress"), name) as draw:

            def look(stage: Stage, state: State) -> Stopped:
                draw(stage, state)
                stop: Stopped = "callback" if callback(stage, state) else "interrupted" if interrupted() else ""
                if saver is not None:
                    saver(last=bool(stop))
                return stop

            runner.watch, runner.pressed, runner.aside = look, interrupted, interrupted.aside
            runner.dropped, runner.written = (saver.begin, saver.end) if saver is not None else (runner.dropped, runner.written)
            try:
                fitted = runner.run(self._plan(data, seed))
                for where in forms.undefined(fitted):
                    raise FloatingPointError(f"{name} ended after {fitted.run.n_iter} sweeps with {where} not a finite number")
            except FloatingPointError as error:
                raise FitError(f"{error}; {ADVICE}") from error
            finally:
                if not interrupted.broken:  # a second Ctrl-C waits for nothing
                    runner.written()
        if resume is not None:
            watch.check(resume, {"fit": fitted}, fit=type(fitted))  # what stages kept may not belong together
        if saver is not None and not runner.cut:  # where the fit was cut, that is what to go on from
            saver.write()
        if any(kept.cut for kept in runner.ended):  # also where a search was cut and what followed it settled
            fitted = fitted._replace(run=fitted.run._replace(converged=False, stopped=runner.cut))
        self.fitted_ = fitted
        self._warn(checkpoint)
        return self

    def _warn(self, checkpoint: str | Path | None) -> None:
        """Say what a user should know of the fit that was just made."""
        name, run = type(self).__name__, self.fitted_.run
        if run.stopped == "interrupted":
            at = f" and resume with fit(..., resume={str(checkpoint)!r})" if checkpoint is not None else ""
            told = f"{name} was interrupted after {run.n_iter} sweeps; use it as it is{at}"
            warnings.warn(told, ConvergenceWarning, stacklevel=4)
        elif run.stopped == "cycle" or (run.stopped == "limit" and not self.fixed_length):
            warnings.warn(self._at_limit(), ConvergenceWarning, stacklevel=4)
        for caveat in self._caveats():
            warnings.warn(caveat, DataWarning, stacklevel=4)

    @property
    def fixed_length(self) -> bool:
        """Whether reaching max_iter is the plan (samplers, or no tol) rather than a failure to converge."""
        return getattr(self, "tol", 0.0) is None

    def _seed(self) -> int:
        return seed_of(getattr(self, "random_state", 0))

    # what a fit gives

    @cached_property
    def fitted_(self) -> Any:
        """All that a fit gave, in one record."""
        check_is_fitted(self)  # raises: a fit sets the attribute, and then nothing is computed here

    def __sklearn_is_fitted__(self) -> bool:
        return "fitted_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for name in self.takes:
            setattr(tags.input_tags, name, True)
        return tags

    history_: np.ndarray = part("run.history", "The objective after each sweep.")
    n_iter_: int = part("run.n_iter", "Sweeps over the data.")
    converged_: bool = part("run.converged", "Whether the fit met its stopping rule.")
    stopped_: str = part("run.stopped", 'Why: "converged", "limit" (max_iter), "interrupted" (Ctrl-C), "callback" or "cycle".')
    seed_: int = part("run.seed", "The seed of its random numbers: with it as random_state the fit repeats.")
    n_features_in_: int = part("inputs.n", "Columns of the data it was fitted on.")

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Their names, where they had any."""
        names = self.fitted_.inputs.names
        if names is None:
            raise AttributeError(f"this {type(self).__name__} was fitted on columns without names")
        return names

    @property
    def columns_(self) -> pd.DataFrame:
        """What each column of a table is, and what was done with it: one row a column, also of those that a file had besides.

        >>> import pandas as pd, tallies
        >>> X = pd.DataFrame({"size": [1.0, 1.2, 3.1, None], "colour": ["red", "red", "blue", "blue"]})
        >>> tallies.NaiveBayes().fit(X, ["a", "a", "b", "b"]).columns_
           column      kind  gaps  levels   use
        0    size    number     1       3  used
        1  colour  category     0       2  used
        """
        columns = getattr(getattr(self.fitted_, "inputs", None), "columns", None)  # a fit to sentences has no inputs
        if columns is None:
            raise AttributeError(f"this {type(self).__name__} was not fitted on a data frame or a file, whose columns have names")
        return columns.table()

    # what a stored fit is made of

    def _identity(self) -> dict[str, Any]:
        """The hyperparameters that a resumed fit must share, as text: they are compared, never used."""
        return {k: repr(v) for k, v in self.get_params(deep=False).items() if k not in self.run_fields}

    @classmethod
    def _records(cls) -> list[type]:
        return [*cls.records, Run, Inputs, Columns]

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, atomically and without pickle; `tallies.load` reads it.

        >>> import tallies, tempfile, os
        >>> model = tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
        >>> path = os.path.join(tempfile.mkdtemp(), "model.tallies")
        >>> model.save(path)
        >>> tallies.load(path).predict([[5.5]]).tolist()
        [1]
        """
        fitted, given = self.fitted_, self.get_params(deep=False)
        if isinstance(given.get("random_state"), np.random.Generator | np.random.RandomState):
            given["random_state"] = fitted.run.seed
        storage.write(path, "model", type(self).__name__, {"hyperparameters": given, "fitted": fitted})

    def report(self, path: str | Path, *data: Any, **options: Any) -> Path:
        """Write one self-contained HTML page about the fit; `data`, as in `fit` but unseen, adds how good it is.

        >>> import tallies, tempfile, os
        >>> model = tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
        >>> model.report(os.path.join(tempfile.mkdtemp(), "report.html")).name
        'report.html'
        """
        from tallies.html import write

        return write(self, path, *data, **options)

    def summary(self) -> str:
        """A few lines of text: what was fitted, on what, how it ended."""
        ended = "settled" if self.converged_ else "stopped"
        value = f", objective {self.history_[-1]:,.6g}" if len(self.history_) else ""
        lines = [
            repr(self),
            f"{ended} after {self.n_iter_} sweep{'s' * (self.n_iter_ != 1)}{value}",
            *self._facts(),
            *(f"{what}: {found}" for what, found in self._learned()),
            *(f"caution: {text}" for text in self._caveats()),
        ]
        return "\n".join(lines)

    def _at_limit(self) -> str:
        """What to say of a fit that came to its limit before it settled."""
        name, sweeps = type(self).__name__, self.fitted_.run.n_iter
        return f"{name} stopped at max_iter={sweeps} before its objective settled; raise max_iter, or loosen tol"

    def _caveats(self) -> list[str]:
        """What a user should know before trusting the fit, in plain words; warned of after fitting."""
        return []

    def _facts(self) -> list[str]:
        """Lines that the model adds to its summary: what it was fitted on, and with what."""
        return []

    def _learned(self) -> list[tuple[str, str]]:
        """The few strongest things learned: each a name and what was found of it."""
        return []

    def _measure(self) -> str:
        """What `history_` holds, in words."""
        return "log likelihood"

    # in a notebook; scikit-learn's diagrams of pipelines are not made by these, and stay as they are

    def _html_repr(self) -> str:
        from tallies.html.card import card

        return card(self)

    _repr_html_inner = _html_repr

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        plain = {"text/plain": repr(self)}
        return plain | {"text/html": self._html_repr()} if get_config()["display"] == "diagram" else plain


def load(path: str | Path) -> Any:
    """Read a model written by `save`. Runs no code from the file; a damaged or foreign file raises `FileError`."""
    found: list[type[Estimator]] = []

    def types(name: str) -> list[type]:
        if name not in registry.ENTRIES:
            known = ", ".join(sorted(registry.ENTRIES))
            raise FileError(f"{path} holds a {name!r}, which this version of Tallies does not have; known: {known}")
        found.append(registry.estimator(name))
        return found[0]._records()

    tree, cls = storage.read(path, "model", types), found[0]
    fields, settings, fitted = {field.name for field in dataclasses.fields(cls)}, tree.get("hyperparameters"), tree.get("fitted")
    try:
        if not isinstance(settings, dict) or set(settings) - fields or not hasattr(fitted, "run") or len(tree) != 2:
            raise ValueError("other settings, or no fit")
        for name, value in settings.items():
            forms.check(value, forms.hints_of(cls)[name], {}, name)
    except ValueError as error:
        raise FileError(f"{path} is not what a {cls.__name__} of this version of Tallies saves ({error}); refit") from error
    model = cls(**settings)
    model.fitted_ = tree["fitted"]
    return model


def fingerprint(data: Any) -> int:
    """A check sum over all data in order, names included, to tell whether a checkpoint belongs to them.

    >>> fingerprint((np.arange(3), ["a"])) == fingerprint((np.arange(3), ["a"])) != fingerprint((np.arange(3), ["b"]))
    True
    """
    packed, arrays = storage.pack(data, repr)
    check = zlib.crc32(json.dumps(packed).encode())
    for array in arrays:
        check = zlib.crc32(f"{array.dtype}{array.shape}".encode(), check)
        check = zlib.crc32(np.ascontiguousarray(array).tobytes(), check)
    return check
