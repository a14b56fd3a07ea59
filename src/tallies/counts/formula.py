"""Covariates of a PLN from a formula, at the fit and for new rows."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tallies.counts.fitted import Formula
from tallies.errors import DataError, need


def read(text: str, data: Any) -> tuple[pd.DataFrame, Formula]:
    """The design that a formula makes of a table, and what is needed to make it again of new rows."""
    if "~" in text and text.split("~")[0].strip():
        raise DataError(f'the formula describes the covariates only, such as "~ 1 + tree"; got {text!r}')
    frame = _frame(data)
    words = [c for c in frame.columns if not pd.api.types.is_numeric_dtype(frame[c])]
    levels = {str(c): sorted(frame[c].dropna().unique().tolist()) for c in words}
    X, state = _matrix(Formula(text, levels, {}), frame)
    return X, Formula(text, levels, state)


def matrix(formula: Formula, data: Any) -> pd.DataFrame:
    """The design of new rows by the formula of the fit."""
    frame = _frame(data)
    for c, known in formula.levels.items():
        strange = sorted(set(frame[c].dropna()) - set(known)) if c in frame else []
        if strange:
            raise DataError(f"covariate {c!r} has values {strange[:5]} that the fit did not see; it knows {known[:5]}")
    return _matrix(formula, frame)[0]


def _frame(data: Any) -> pd.DataFrame:
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, dict):
        return pd.DataFrame(data)
    import narwhals as nw

    return nw.from_native(data, eager_only=True).to_pandas()


def _matrix(formula: Formula, frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The design, and what its transforms know: with a state they use it, without they learn it of these rows."""
    formulaic = need("formulaic", "formula", "A formula")
    named = {c: pd.Categorical(frame[c], categories=known) for c, known in formula.levels.items() if c in frame}
    text = formulaic.Formula(formula.text.split("~")[-1])
    spec = formulaic.ModelSpec(formula=text, transform_state=dict(formula.state), na_action="raise")
    found = spec.get_model_matrix(frame.assign(**named))
    return pd.DataFrame(found, index=frame.index), {k: dict(v) for k, v in found.model_spec.transform_state.items()}
