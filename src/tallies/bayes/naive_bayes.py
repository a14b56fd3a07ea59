"""Naive Bayes: the story and the equations are in `families.py` and `model.py`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any

from tallies.bayes.answers import Fitted, tables
from tallies.bayes.classifier import Classifier
from tallies.bayes.door import Layout, Table, families_from_text, read_table
from tallies.bayes.families import Categorical, Gaussian, Multinomial, Poisson
from tallies.bayes.model import Laws, Params
from tallies.estimator import option

if TYPE_CHECKING:
    import pandas as pd


@dataclass(eq=False, repr=False, kw_only=True)
class NaiveBayes(Classifier):
    """Naive Bayes for tables of numbers, counts and categories together.

    >>> import pandas as pd
    >>> X = pd.DataFrame({"size": [1.0, 1.2, 3.1, None], "colour": ["red", "red", "blue", "blue"], "eggs": [2, 1, 7, 9]})
    >>> model = NaiveBayes().fit(X, ["a", "a", "b", "b"])
    >>> model.families_
    {'size': 'gaussian', 'colour': 'categorical', 'eggs': 'poisson'}
    >>> model.predict(pd.DataFrame({"size": [None], "colour": ["green"], "eggs": [8]})).tolist()
    ['b']
    """

    # a family, or {column: family}
    families: Any = option("auto", "auto, one family, or column=family,... (the others by dtype).", parse=families_from_text)
    smoothing: float = option(1.0, "Pseudo-rows of every state.")  # see `families.py`

    takes = ("allow_nan", "string", "categorical")
    guesses = {
        **dict.fromkeys(("alpha", "var_smoothing"), "smoothing"),
        **dict.fromkeys(("feature_log_prob_", "category_count_", "theta_", "var_", "coef_", "means_"), "tables_"),
    }
    records = (Params, Laws, Gaussian, Categorical, Poisson, Multinomial, Layout, Fitted)

    def _read(self, X: Any, known: Layout | None = None, families: Any = None) -> tuple[Table, Layout]:
        return read_table(self, X, families or self._families(), known)

    def _families(self) -> Any:
        if not (isinstance(self.smoothing, Real) and 0 <= float(self.smoothing) < inf):
            raise ValueError(f"smoothing must be a number from 0 on, got {self.smoothing!r}")
        return self.families

    @property
    def families_(self) -> dict[Any, str]:
        """The family of each column."""
        return dict(zip(self.fitted_.names(), self.layout_.families, strict=True))

    @property
    def tables_(self) -> dict[Any, pd.DataFrame]:
        """P(x_j | y) of each column: a row a class, a column a state; mean and variance, rate or probability for numbers.

        >>> import pandas as pd
        >>> X = pd.DataFrame({"colour": ["red", "red", "blue", "red"], "eggs": [1, 2, 5, 6]})
        >>> found = NaiveBayes(smoothing=0).fit(X, ["a", "a", "b", "b"]).tables_
        >>> found["colour"].loc["b"].round(2).to_dict(), found["eggs"]["rate"].tolist()
        ({'blue': 0.5, 'red': 0.5}, [1.5, 5.5])
        """
        return tables(self.fitted_)

    def _facts(self) -> list[str]:
        counted = Counter(self.layout_.families)
        return [*super()._facts(), "columns: " + ", ".join(f"{number} {family}" for family, number in counted.items())]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.families in ("auto", "multinomial")
        return tags
