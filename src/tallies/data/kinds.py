"""What the columns of a table are, and what becomes of them in a fit.

number      numbers, of which each is a quantity            used
category    words, or yes and no, with repetition           used
id          every row has its own: a code, or 1, 2, 3       left out
text        every row has its own sentence                  left out
date        days and times                                  left out
constant    one value, and no gaps                          left out
empty       nothing but gaps                                left out
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

from tallies.errors import DataError, nearest
from tallies.forms import Form

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["number", "category", "text", "date", "id", "constant", "empty"]
USABLE = ("number", "category")
WHY = {
    "id": "every row has its own",
    "text": "free text, for a model of texts",
    "date": "a date; make numbers or categories of it",
    "constant": "one value, which tells nothing",
    "empty": "no value",
}
DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AaPp][Mm])?"
    r"(Z|[+-]\d{2}:?\d{2})?)?"
)
TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AaPp][Mm])?")
MONTH = re.compile(  # 3 May 2021, 03-Mai-21, May 3, 2021: the word is a month, of which there are twelve
    r"\d{1,2}(?:st|nd|rd|th|\.)?[ /-]?([^\W\d_]{3,10})\.?[ /-](?:\d{4}|\d{2})|([^\W\d_]{3,10})\.? \d{1,2}(?:st|nd|rd|th)?, \d{4}"
)
NAMES_OF_IDS = re.compile(r"(?i)(.*[ _.-])?(id|ids|uuid|guid|nr|no|num|number|index|row|key|code|unnamed.*)|.*[a-z]I[Dd]")
MANY = 100_000  # rows from which on the distinct values of measured numbers are not counted, but told as 0
FIRST = 1000  # of these, by which they are told
LONGEST = 2**53  # beyond, a float has not all digits of a whole number: what differs in every row is a code
FEW = 8  # rows, of which all may differ by chance


class Columns(NamedTuple):
    """The columns of a table, in their order."""

    names: list[str]
    kinds: list[Kind]
    gaps: list[Annotated[int, Form(kind="i", low=0)]]  # cells without a value
    levels: list[Annotated[int, Form(kind="i", low=0)]]  # distinct values; see MANY
    uses: list[str]  # "used", "target", "weights", or "left out: " and why

    def check(self) -> None:
        """One entry a column in all of them."""
        if len({len(field) for field in self}) > 1:
            raise ValueError("its lists differ in length")

    def __deepcopy__(self, memo: Any) -> Columns:
        """Itself: nobody changes it, and pandas copies what goes with a table for every column that is taken out."""
        return self

    def of(self, use: str = "used") -> list[str]:
        """The names of the columns that are put to this use."""
        return [name for name, found in zip(self.names, self.uses, strict=True) if found == use]

    def kind(self, name: str) -> Kind | None:
        """That of the column of this name."""
        return dict(zip(self.names, self.kinds, strict=True)).get(name)

    def table(self) -> pd.DataFrame:
        """One row a column."""
        import pandas as pd

        return pd.DataFrame(dict(zip(("column", "kind", "gaps", "levels", "use"), self, strict=True)))


def kind_of_column(name: Any, column: pd.Series) -> tuple[Kind, int, int]:
    """Kind, gaps and levels of a column.

    >>> import pandas as pd
    >>> kind_of_column("size", pd.Series([1.5, 2.0, None])), kind_of_column("plot", pd.Series(["a", "b"] * 5))
    (('number', 1, 2), ('category', 0, 2))
    >>> kind_of_column("tag", pd.Series([f"t{i}" for i in range(9)])), kind_of_column("day", pd.Series(["2020-01-05", "1.2.2020"]))
    (('id', 0, 9), ('date', 0, 2))
    """
    from pandas import PeriodDtype
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    known = column.dropna()
    if len(known) > MANY and _measured(known):
        return "number", len(column) - len(known), 0
    gaps, levels = len(column) - len(known), int(known.nunique())
    own = levels == len(known) > FEW
    if not levels:
        return "empty", gaps, levels
    if levels == 1 and not gaps and len(column) > 1:
        return "constant", gaps, levels
    if known.dtype.kind in "mM" or isinstance(known.dtype, PeriodDtype):
        return "date", gaps, levels
    if is_bool_dtype(known.dtype):
        return "category", gaps, levels
    if is_numeric_dtype(known.dtype):
        whole = own and bool((known % 1 == 0).all())
        counted = whole and known.max() - known.min() == levels - 1 and known.is_monotonic_increasing and known.min() in (0, 1)
        long = whole and bool(known.abs().max() > LONGEST)
        return ("id" if long or (whole and (counted or NAMES_OF_IDS.fullmatch(str(name)))) else "number"), gaps, levels
    words = known.astype(str)
    if _dates(words.unique()):
        return "date", gaps, levels
    if levels > max(FEW, len(known) / 2) and words.map(lambda word: len(word.split())).mean() >= 4:
        return "text", gaps, levels
    return ("id" if own else "category"), gaps, levels


def _measured(known: pd.Series) -> bool:
    """Whether these are numbers with fractions, and not all the same; of such fractions are among the first."""
    top = known.iloc[:FIRST]
    return known.dtype.kind == "f" and bool((top % 1 != 0).any()) and bool(top.min() < top.max())


def _dates(words: Collection[str]) -> bool:
    """Whether all words are days or times, written in one of the usual ways."""
    if all(DATE.fullmatch(word) for word in words) or all(TIME.fullmatch(word) for word in words):
        return True
    found = [MONTH.fullmatch(word) for word in words]
    return all(found) and len({match[1] or match[2] for match in found if match}) <= 12


def describe(
    frame: pd.DataFrame,
    *,
    roles: Mapping[str, str] | None = None,
    drop: Collection[str] = (),
    keep: Collection[str] = (),
    kinds: Mapping[str, str] | None = None,
    model: Any = None,
) -> Columns:
    """What each column is, and what becomes of it, in a fit of `model`: one of numbers alone leaves categories out.

    `roles` names columns that have another use, such as {"species": "target"}. Those to `drop` are left out and those to `keep` are
    used, whatever they are; `kinds` says "number" or "category" of some.

    >>> import pandas as pd
    >>> describe(pd.DataFrame({"size": [1.5, 2.0], "where": ["park", "park"]}), keep=["where"]).table()
      column      kind  gaps  levels   use
    0   size    number     0       2  used
    1  where  constant     0       1  used
    """
    from pandas.api.types import is_bool_dtype

    roles, kinds = roles or {}, kinds or {}
    names = [str(name) for name in frame.columns]
    for option, given in (("drop", drop), ("keep", keep), ("kinds", kinds)):
        for name in given:
            if name not in names:
                raise DataError(f"{option} names the column {name!r}, which the table does not have; {nearest(name, names)}")
    for name, kind in kinds.items():
        if kind not in USABLE:
            raise DataError(f"kinds must be number or category, got {kind!r} for {name!r}; columns of no use are named with drop")
    both = sorted(set(drop) & ({*keep} | {*kinds}))
    if both:
        raise DataError(f"drop and keep (or kinds) both name {both[0]!r}; choose one")
    found, words = [], model is None or "categorical" in model.takes
    for i, name in enumerate(names):
        kind, gaps, levels = kind_of_column(name, frame.iloc[:, i])
        kind = _literal(kinds.get(name, kind))
        wanted = kind in USABLE or name in keep
        use = roles.get(name, "left out: as told" if name in drop else "used" if wanted else f"left out: {WHY.get(kind)}")
        if use == "used" and kind == "category" and name not in keep and not (words or is_bool_dtype(frame.iloc[:, i].dropna())):
            use = f"left out: {type(model).__name__} takes numbers; NaiveBayes takes categories, too"
        found.append((name, kind, gaps, levels, use))
    names, found_kinds, gaps_of, levels_of, uses = map(list, zip(*found, strict=True)) if found else ([],) * 5
    return Columns(names, found_kinds, gaps_of, levels_of, uses)


def columns_of(X: Any) -> Columns | None:
    """The columns of a table that is fitted: those that `chosen` left with it, else as they are, all used; None of other data."""
    import narwhals as nw
    from pandas import isna, unique

    from tallies.data.columns import values_of

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    told = getattr(X, "attrs", {}).get("columns")
    if isinstance(told, Columns) and told.of() == list(frame.columns):
        return told
    found: list[tuple[str, Kind, int, int, str]] = []
    for column in frame.iter_columns():
        values = values_of(column)
        missing, measured = isna(values), values.dtype.kind == "f" and len(values) > MANY
        levels = 0 if measured else len(unique(values[~missing]))
        kind = _literal("number" if values.dtype.kind in "fiu" else "category")
        found.append((str(column.name), kind, int(missing.sum()), levels, "used"))
    names, kinds, gaps, counts, uses = map(list, zip(*found, strict=True))
    return Columns(names, kinds, gaps, counts, uses)


def _literal(kind: Any) -> Kind:
    return next(known for known in get_args(Kind) if known == kind)


def chosen(frame: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """The columns that are used, each as what it was said to be; `columns` goes with them, for the record of a fit."""
    new = frame[[name for name in frame.columns if str(name) in columns.of()]].copy(deep=False)
    for name in new:
        new[name] = as_kind(new[name], columns.kind(str(name)) or "")
    new.attrs["columns"] = columns
    return new


def as_kind(column: pd.Series, kind: str) -> pd.Series:
    """A column as what it is said to be: numbers as words (whole ones without a fraction), or words as numbers.

    >>> import pandas as pd
    >>> as_kind(pd.Series([7.0, None]), "category").tolist(), as_kind(pd.Series(["7", None]), "number").tolist()
    (['7', nan], [7.0, nan])
    """
    import pandas as pd
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    numeric = is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype)
    if kind == "number" and not numeric:
        numbers = pd.to_numeric(column, errors="coerce")
        wrong = column[numbers.isna() & column.notna()]
        if len(wrong):
            raise DataError(f"column {column.name!r} is to hold numbers, but has {wrong.iloc[0]!r}; mend it, or make it a category")
        return numbers
    if kind in ("number", "empty") or not numeric or not column.notna().any():
        return column
    return column.map(lambda v: str(int(v)) if v == v and v % 1 == 0 else str(v), na_action="ignore").astype(object)


def fitted_columns(model: Any, frame: pd.DataFrame, path: str | Path) -> pd.DataFrame:
    """The columns that a model was fitted on, of the table of another file: by name and in its order, each as what it was."""
    missing = [name for name in model.feature_names_in_ if name not in frame]
    if missing:
        raise DataError(
            f"{str(path)!r} lacks the columns {missing[:10]} that the model was fitted on; add them (empty cells are allowed)"
        )
    found, columns = frame[list(model.feature_names_in_)].copy(deep=False), model.fitted_.inputs.columns
    for name in found if columns is not None else ():
        found[name] = as_kind(found[name], columns.kind(name) or "")
    return found


def from_file(X: Any, y: Any = None, sample_weight: Any = None, *, model: Any, fitted: bool = True) -> tuple[Any, Any, Any]:
    """What a model is asked of (unless `fitted`: fitted to) where X may be a path: the columns of its fit, or those of
    use; y and the weights may be names of others. Of an AnnData, or a file of one, these may be names of columns of obs. Anything
    else stays as it is."""
    from tallies.data.cells import beside, is_cells
    from tallies.data.lazy import is_lazy

    if is_cells(X):
        return X, beside(X, y, "target"), beside(X, sample_weight, "weights")
    if is_lazy(X) and not (isinstance(X, str | Path) and Path(X).is_file()):
        told = "which fit and predict(X, out=FOLDER) read in pieces; this takes rows in memory: pass some of them, or one file"
        raise DataError(f"X is {repr(str(X)) if isinstance(X, str | Path) else f'a {type(X).__name__}'}, {told}")
    if not isinstance(X, str | Path):
        return X, y, sample_weight
    from tallies.data.files import read_table

    frame = read_table(X)
    roles = {name: role for name, role in ((y, "target"), (sample_weight, "weights")) if isinstance(name, str)}
    for name, role in roles.items():
        if name not in frame:
            raise DataError(
                f"the {role} should be in the column {name!r}, which {str(X)!r} does not have; {nearest(name, map(str, frame))}"
            )
    y, sample_weight = (frame[part] if isinstance(part, str) else part for part in (y, sample_weight))
    table = fitted_columns(model, frame, X) if fitted else chosen(frame, describe(frame, roles=roles, model=model))
    return table, y, sample_weight
