"""PLN-PCA of several ranks as one run: one runner, one placed table, progress, resume, and Ctrl-C with the ranks done so far."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import pandas as pd
from sklearn.base import clone

from tallies.counts.door import Prepared
from tallies.counts.estimator import PLN
from tallies.counts.fitted import Fitted
from tallies.engine import Kept, Plan, Stage
from tallies.errors import DataError
from tallies.estimator import Estimator, Run


class FittedRanks(NamedTuple):
    """The fits of several ranks."""

    run: Run  # that of the first that did not settle, else of the last
    fits: tuple[Fitted, ...]


@dataclass(eq=False, repr=False, kw_only=True)
class OverRanks(Estimator):
    """The path of ranks behind `PLN.over_ranks`."""

    ranks: tuple[int, ...]
    model: PLN  # with the other hyperparameters

    records: ClassVar[tuple[type, ...]] = (*PLN.records, FittedRanks)

    def fit(self, counts: Any, *, covariates: Any = None, offsets: Any = None, sample_weight: Any = None, **run: Any) -> Self:
        """Fit all ranks; `run` holds progress, checkpoint, resume, callback."""
        if not self.ranks:
            raise DataError("ranks must be at least one whole number, got none")
        widest = self._of(max(self.ranks))
        for q in self.ranks:
            self._of(q)._settings()
        return self._fit(widest._prepare(counts, None, covariates, offsets, sample_weight), **run)

    def _plan(self, data: Prepared, seed: int) -> Plan:
        fits: list[Fitted] = []
        for q in self.ranks:
            fitted, cut = yield from _named(f"rank {q}", self._of(q)._plan(data, seed))
            if not (cut and fits):  # the ranks that are complete are enough
                fits.append(fitted)
            if cut:
                break
        unsettled = [fit.run for fit in fits if not fit.run.converged]
        return FittedRanks((unsettled or [fits[-1].run])[0], tuple(fits))

    def _of(self, q: int) -> PLN:
        made = clone(self.model).set_params(rank=q)
        made.shard_rows = self.model.shard_rows
        return made

    def _seed(self) -> int:
        return self.model._seed()

    def _identity(self) -> dict[str, Any]:
        return {**self.model._identity(), "rank": repr(self.ranks)}

    @property
    def table_(self) -> pd.DataFrame:
        """Criteria side by side, smallest BIC first; the models themselves are in the last column."""
        columns, rows = ["loglik", "parameters", "aic", "bic", "icl", "converged", "model"], {}
        for q, fitted in zip(self.ranks, self.fitted_.fits, strict=False):
            m = self._of(q)
            m.fitted_ = fitted
            rows[q] = [m.loglik_, m.n_parameters_, m.aic_, m.bic_, m.icl_, m.converged_, m]
        return pd.DataFrame(rows, index=columns).T.sort_values("bic")


def _named(what: str, plan: Plan) -> Generator[Stage, Kept, tuple[Any, bool]]:
    """The stages of a plan under names of their own; what it returns, and whether it was cut."""
    answer, cut = None, False
    while True:
        try:
            stage = plan.send(answer)
        except StopIteration as end:
            return end.value, cut
        assert isinstance(stage, Stage)  # no stages side by side in a fit of counts
        answer = yield stage._replace(name=f"{what}, {stage.name}" if stage.name else what)
        cut = cut or answer.cut
