"""From verbs to a scikit-learn estimator: fitting, resuming, saving and summarising, written once for every model.

A model is a dataclass over `Estimator` whose fields are its hyperparameters; see CONTRIBUTING for a skeleton.
"""

from __future__ import annotations

import dataclasses
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tallies import engine, registry, storage, watch
from tallies.backends import one_blas_thread, place
from tallies.engine import State
from tallies.errors import ConvergenceWarning, DataWarning, FileError

SHARD_BYTES = 16 << 20  # a shard of this size is many times the cost of scheduling it
MAX_SHARDS = 32  # bounds the memory of tallies waiting to be added


class Estimator(BaseEstimator):
    """Base of all models: the verbs come from the subclass, everything else is derived from them here."""

    shard_rows: ClassVar[int | None] = None  # rows of a shard; None: from the size of the data alone
    monotone: ClassVar[bool] = False  # whether the objective can never fall (tested where it is declared)
    run_fields: ClassVar[frozenset[str]] = frozenset({"max_iter", "tol", "random_state"})  # may differ when a fit is resumed
    next_steps: ClassVar[tuple[str, ...]] = ("model.summary()",)  # what a user may ask of a fitted `model`, as code

    # what the engine asks of a model beyond its five verbs; most models need neither

    def objective(self, tally: Any, before: Any, after: Any) -> float:
        return tally.objective

    def done(self, params: Any) -> bool:
        return False

    def settle(self, shard: Any, params: Any, rng: np.random.Generator) -> Any:
        return None

    # fitting

    def _cuts(self, rows: int, nbytes: int) -> Iterator[slice]:
        """Where the data are cut into shards: decided by their size alone, so that no worker count changes a result."""
        parts = min(max(1, nbytes // SHARD_BYTES), MAX_SHARDS, max(rows, 1))
        size = self.shard_rows or -(-rows // parts)
        return (slice(a, min(a + size, rows)) for a in range(0, rows, size))

    def _run(
        self,
        shards: Sequence[Any],
        *,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        resume: str | Path | None = None,
        callback: Callable[[State], Any] | None = None,
    ) -> State:
        """Fit to the shards and return the last state; sets params_, history_, n_iter_, converged_, stopped_ and seed_."""
        backend = place(shards)
        surveyed = engine.survey(self, backend)
        name, seed = type(self).__name__, self._seed()
        about = {"model": self._identity(), "data": _fingerprint(surveyed), "seed": seed}
        state: State | None = None
        if resume is not None:
            state, seed = watch.read_checkpoint(resume, name, about, self._records())
            about["seed"] = seed
        limit: int | None = getattr(self, "max_iter", None)
        bar = watch.Progress(progress, limit, name)
        saver = watch.Checkpoint(checkpoint, name, about, backend.collect) if checkpoint is not None else None
        watchers: list[Callable[[State], Any]] = [w for w in (bar, saver, callback) if w is not None]
        iterator = engine.steps(self, backend, seed=seed, surveyed=surveyed, state=state)
        stopped = ""
        with one_blas_thread(), watch.interruptible() as interrupted:
            while not stopped:
                if state is not None and self._converged(state):
                    stopped = "converged"
                elif state is not None and limit is not None and len(state.objective) >= limit:
                    stopped = "limit"
                elif interrupted():
                    stopped = "interrupted"
                else:
                    state = next(iterator)
                    # a callback that returns True ends the fit; the other watchers return None
                    answers = [w(state) for w in watchers]
                    if any(answers):
                        stopped = "callback"
        assert state is not None
        bar.close()
        if saver is not None:
            saver.write(state)
        state = state._replace(latents=backend.collect())
        self.params_, self.n_iter_, self.seed_ = state.params, len(state.objective), seed
        self.history_ = np.array([value for value in state.objective if not np.isnan(value)])
        self.converged_, self.stopped_ = stopped == "converged", stopped
        if stopped == "interrupted":
            at = f" and resume with fit(..., resume={str(checkpoint)!r})" if checkpoint is not None else ""
            warnings.warn(
                f"{name} was interrupted after {self.n_iter_} sweeps; use it as it is{at}", ConvergenceWarning, stacklevel=3
            )
        elif stopped == "limit" and not self._fixed_length():
            warnings.warn(
                f"{name} stopped at max_iter={limit} before its objective settled; raise max_iter, or loosen tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        for caveat in self._caveats():
            warnings.warn(caveat, DataWarning, stacklevel=3)
        return state

    def _converged(self, state: State) -> bool:
        return self.done(state.params) or engine.settled(state.objective, getattr(self, "tol", None))

    def _fixed_length(self) -> bool:
        """Whether reaching max_iter is the plan (samplers) rather than a failure to converge."""
        return getattr(self, "tol", None) is None

    def _seed(self) -> int:
        state = getattr(self, "random_state", 0)
        if state is None:
            return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
        return int(state) if isinstance(state, int | np.integer) else int(check_random_state(state).randint(2**31 - 1))

    # what a stored fit is made of

    def _identity(self) -> dict[str, Any]:
        """The hyperparameters that a resumed fit must share, as text: they are compared, never used."""
        return {k: repr(v) for k, v in self.get_params(deep=False).items() if k not in self.run_fields}

    @classmethod
    def _records(cls) -> list[type]:
        """The named tuples of the model's module: the only records that a file of this model may hold."""
        return [v for v in vars(sys.modules[cls.__module__]).values() if isinstance(v, type) and issubclass(v, tuple)]

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, atomically and without pickle; `tallies.load` reads it.

        >>> import tallies, tempfile, os
        >>> model = tallies.GDA().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
        >>> path = os.path.join(tempfile.mkdtemp(), "model.tallies")
        >>> model.save(path)
        >>> tallies.load(path).predict([[5.5]]).tolist()
        [1]
        """
        check_is_fitted(self)
        fitted = {k: v for k, v in vars(self).items() if k.endswith("_") and not k.startswith("_")}
        tree = {"hyperparameters": self.get_params(deep=False), "fitted": fitted}
        storage.write(path, "model", type(self).__name__, tree)

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
        check_is_fitted(self)
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

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        plain = {"text/plain": repr(self)}
        return plain | {"text/html": self._html_repr()} if get_config()["display"] == "diagram" else plain


def load(path: str | Path) -> Any:
    """Read a model written by `save`. Runs no code from the file; a damaged or foreign file raises `FileError`."""
    found: list[type[Estimator]] = []

    def types(name: str) -> list[type]:
        if name not in registry.ENTRIES:
            raise FileError(
                f"{path} holds a {name!r}, which this version of Tallies does not have; known: "
                + ", ".join(sorted(registry.ENTRIES))
            )
        found.append(registry.estimator(name))
        return found[0]._records()

    tree = storage.read(path, "model", types)
    cls = found[0]
    fields = {field.name for field in dataclasses.fields(cls)}
    wrong = [k for k in tree["hyperparameters"] if k not in fields]
    wrong += [k for k in tree["fitted"] if not k.isidentifier() or not k.endswith("_") or k.startswith("_")]
    if wrong:
        raise FileError(f"{path} sets {wrong}, which a {cls.__name__} does not have; it was not written by this version of Tallies")
    model = cls(**tree["hyperparameters"])
    for key, value in tree["fitted"].items():
        setattr(model, key, value)
    return model


def _fingerprint(surveyed: Any) -> int:
    """A check sum of the surveyed data, to tell whether a checkpoint belongs to them."""

    def leaves(value: Any) -> Iterator[bytes]:
        if isinstance(value, tuple):
            for item in value:
                yield from leaves(item)
        elif sp.issparse(value):
            yield from leaves((value.data, value.indices, value.indptr))
        elif value is not None:
            yield np.ascontiguousarray(value).tobytes()

    check = 0
    for leaf in leaves(surveyed):
        check = zlib.crc32(leaf, check)
    return check
