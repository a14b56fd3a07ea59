"""How much each of many alike rows counts: one over the number of rows that agree with it in a share of the variables.

A sweep compares all rows with some of them, so that a long comparison shows how far it is, and can be told to stop.
References: Morcos et al. 2011.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from tallies.categories.kernels import panels as kernels
from tallies.engine import Kept, Model, Stage, State
from tallies.forms import Form
from tallies.maths import Array
from tallies.sources import Held

WORK = 1 << 30  # cells that a sweep compares: a tenth of a second
PARTS = 16  # shards of the rows


class Table(NamedTuple):
    """What all rows are compared with: a source that is here already."""

    codes: np.ndarray  # (l, n)

    def load(self) -> np.ndarray:
        """The codes."""
        return self.codes


class Some(NamedTuple):
    """Rows, and the table of all."""

    a: int
    b: int
    codes: Any = None

    def join(self, codes: np.ndarray) -> Some:
        """With the table."""
        return self._replace(codes=codes)


class Counted(NamedTuple):
    """Latents, and params: with how many of the rows before `at` each row agrees; of params nothing but `at`."""

    agree: Annotated[np.ndarray, Form("...", "f", 0)]
    at: Annotated[int, Form(kind="i", low=0)]


class Tally(NamedTuple):
    objective: float  # pairs that agree


@dataclass(frozen=True)
class Alike(Model):
    """Compares all rows with `block` of them a sweep."""

    rows_: int  # l
    least: int  # variables in which two rows have to agree
    block: int

    def settle(self, shard: Some, params: Counted, rng: np.random.Generator) -> Counted:
        return Counted(np.zeros(shard.b - shard.a), 0)

    def sweep(self, shard: Some, latents: Counted, params: Counted, rng: np.random.Generator) -> tuple[Tally, Counted]:
        agree = latents.agree.copy()
        kernels.matches(shard.codes[shard.a : shard.b], shard.codes[params.at : params.at + self.block], self.least, agree)
        return Tally(float(agree.sum())), Counted(agree, params.at)

    leaves_latents = True

    def update(self, params: Counted, tally: Tally, rng: np.random.Generator) -> Counted:
        return params._replace(at=params.at + self.block)

    def done(self, state: State) -> bool:
        return state.params.at >= self.rows_

    def rows(self, shard: Some, latents: Counted, params: Counted) -> Array:
        """(b - a,)  rows that agree, by those compared so far; a row agrees with itself."""
        return np.maximum(latents.agree * (self.rows_ / min(max(params.at, 1), self.rows_)), 1.0)

    def recount(self, shard: Some, latents: Counted, params: Counted) -> None:
        if latents.agree.shape != (shard.b - shard.a,):
            raise ValueError(f"there should be {shard.b - shard.a} counts of alike rows, and there are {latents.agree.shape}")


def sequence_weights(codes: np.ndarray, identity: float) -> Generator[Stage, Kept, Array]:
    """(l,)  a stage that finds the weights. Where it is cut short, by the rows compared until then."""
    l, n = codes.shape
    narrow = np.ascontiguousarray(codes, dtype=np.int8 if codes.max(initial=0) < 127 else np.int32)
    block, size = max(1, WORK // (l * n)), -(-l // PARTS)
    model = Alike(l, int(np.ceil(identity * n - 1e-9)), block)
    sources = [Held(Some(a, min(a + size, l))) for a in range(0, l, size)]

    def keep(end: Any) -> Array:
        return 1.0 / np.concatenate(end.rows)

    start = Counted(np.empty(0), 0)
    kept = yield Stage("sequence weights", model, sources, keep, None, start, rows=True, shared=Table(narrow))
    return kept.value


RECORDS = (Counted,)
