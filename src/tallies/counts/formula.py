"""Covariates of a PLN from a formula, at the fit and for new rows."""

from __future__ import annotations

from typing import Any, Self

import pandas as pd

from tallies.errors import DataError, MissingExtra


class Formulas:
    """What `PLN` does with formulas."""

    @classmethod
    def from_formula(
        cls, formula: str, counts: Any, data: Any, *, offsets: Any = None, sample_weight: Any = None, **options: Any
    ) -> Self:
        """Fit with covariates from a formula (formulaic's, as in R) over the columns of `data`, such as "~ 1 + tree"."""
        model: Any = cls(**options)
        return model.fit_formula(formula, counts, data, offsets, sample_weight)

    def fit_formula(
        self: Any, formula: str, counts: Any, data: Any, offsets: Any = None, sample_weight: Any = None, **run: Any
    ) -> Any:
        """`fit` with covariates from a formula; `run` holds progress, checkpoint, resume, callback."""
        frame = _frame(data)
        levels = {
            str(c): sorted(frame[c].dropna().unique().tolist())
            for c in frame.columns
            if not pd.api.types.is_numeric_dtype(frame[c])
        }
        X, spec = _formula(formula, frame, levels)
        self.fit(counts, X, offsets, sample_weight, **run)
        self.formula_, self.levels_, self._spec = formula, levels, spec
        return self

    def _matrix(self: Any, data: Any) -> pd.DataFrame:
        """The design of new rows by the formula of the fit."""
        frame = _frame(data)
        for c, known in self.levels_.items():
            strange = sorted(set(frame[c].dropna()) - set(known)) if c in frame else []
            if strange:
                raise DataError(f"covariate {c!r} has values {strange[:5]} that the fit did not see; it knows {known[:5]}")
        if hasattr(self, "_spec"):
            return pd.DataFrame(self._spec.get_model_matrix(_categories(frame, self.levels_)), index=frame.index)
        return _formula(self.formula_, frame, self.levels_)[0]


def _frame(data: Any) -> pd.DataFrame:
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, dict):
        return pd.DataFrame(data)
    import narwhals as nw

    return nw.from_native(data, eager_only=True).to_pandas()


def _categories(frame: pd.DataFrame, levels: dict[str, list]) -> pd.DataFrame:
    return frame.assign(**{c: pd.Categorical(frame[c], categories=known) for c, known in levels.items() if c in frame})


def _formula(formula: str, frame: pd.DataFrame, levels: dict[str, list]) -> tuple[pd.DataFrame, Any]:
    try:
        from formulaic import model_matrix
    except ImportError as error:
        raise MissingExtra("formulaic", "formula", "A formula") from error
    if "~" in formula and formula.split("~")[0].strip():
        raise DataError(f'the formula describes the covariates only, such as "~ 1 + tree"; got {formula!r}')
    matrix = model_matrix(formula.split("~")[-1], _categories(frame, levels), na_action="raise")
    return pd.DataFrame(matrix, index=frame.index), matrix.model_spec
