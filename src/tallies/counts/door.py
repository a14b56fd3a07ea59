"""The ways into the PLN solvers: rows of the fit and new ones, validated, and cut into sources."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
import scipy.sparse as sp

from tallies.counts.alignment import as_design, as_offsets, columns_in_order, independent
from tallies.counts.filed import Filed, compact, smallest
from tallies.counts.fitted import Beyond, Classes, Design, Fitted, Formula, Inflating
from tallies.counts.lazily import read_cells, read_pieces, read_whole
from tallies.counts.offsets import OFFSETS
from tallies.counts.shards import Laid, Rows, Sparse, whole
from tallies.counts.tables import HIDDEN, Counts, named_rows, read_beside, read_counts
from tallies.data.cells import beside, cells_of, is_cells, read_anndata, table_beside
from tallies.data.files import read_table, reading
from tallies.data.lazy import is_lazy
from tallies.errors import DataError, nearest
from tallies.estimator import Inputs

SHARD = 1 << 17  # least counts of a shard: 1 MB an array, a few milliseconds a sweep
ROWS = 512  # rows of a shard from which it costs little that each brings home a matrix of all columns, or of all rows


class Prepared(NamedTuple):
    """What the door let in."""

    rows: Rows
    sources: list[Any]  # of the rows that have a weight
    inputs: Inputs
    design: Design
    rule: str | None  # by which the offsets were made
    W: np.ndarray | None  # with warm_start, [B', C] of the fit before: of a rank or for importance sampling   (p, d + q)
    w: np.ndarray | None  # and w of `full`                         (p,)
    samples: np.ndarray | None  # names of the rows                 (n,)
    classes: Classes | None = None  # of the rows, where they are to be told apart
    zeros: Inflating | None = None  # covariates of structural zeros
    beyond: Beyond | None = None  # what is known of counts in files


# what may be a file


def from_files(
    counts: Any, covariates: Any = None, offsets: Any = None, weights: Any = None, keeps: bool = False, label: Any = None
) -> tuple[Any, Any, Any, Any]:
    """Counts and what belongs to their rows, each of which may be a path; where the counts are one, names of columns of that file
    (of an AnnData: of its obs) may stand for covariates and weights. Anything else stays as it is. `keeps`: whether sparse
    counts stay so. Those of an .h5ad file or a .zarr folder are an AnnData then, where that is sparse; more than is held stays in
    files, also of a folder of tables. `label`: the name of one more column, which stays among the counts of a file."""
    lazy, names = is_lazy(counts), _named(covariates)
    if is_cells(counts):
        covariates, weights = table_beside(counts, names) if names else covariates, beside(counts, weights, "weights")
    if keeps and lazy:
        counts, covariates, weights, _ = from_pieces(counts, covariates, weights)
    cells = cells_of(counts) if keeps and not isinstance(weights, str) else None
    if cells is not None:
        found = read_cells(cells)
        if found is not None:
            counts = found
        elif isinstance(counts, str | Path):
            held = read_anndata(cells)
            counts = counts if isinstance(held.X, np.ndarray | None) else held
    if isinstance(counts, str | Path) or (lazy and not keeps):
        path, wanted = counts, [name for name in (*names, weights, label) if isinstance(name, str)]
        counts = read_whole(path, wanted) if lazy else read_beside(path, wanted)
        asked = [covariates] if isinstance(covariates, str) and covariates in counts else covariates
        if isinstance(asked, list) and all(isinstance(name, str) for name in asked):
            counts, covariates = taken(counts, asked, path)
        if isinstance(weights, str):
            counts, weights = taken(counts, weights, path)
    covariates = read_covariates(covariates) if isinstance(covariates, str | Path) else covariates
    return counts, covariates, read_offsets(offsets) if isinstance(offsets, str | Path) else offsets, weights


def from_pieces(counts: Any, covariates: Any, weights: Any, labels: Any = None) -> tuple[Any, Any, Any, Any]:
    """Counts in files, and what belongs to their rows, which may be named columns of the same table."""
    asked = {"covariates": _named(covariates)} | {
        role: [name] for role, name in (("weights", weights), ("labels", labels)) if isinstance(name, str)
    }
    found, rest = read_pieces(counts, {name: role for role, names in asked.items() for name in names})
    covariates = rest[asked["covariates"]] if asked["covariates"] else covariates
    return found, covariates, *(rest[name] if isinstance(name, str) else name for name in (weights, labels))


def _named(covariates: Any) -> list[str]:
    """Names of columns that stand for covariates."""
    names = [covariates] if isinstance(covariates, str) else covariates if isinstance(covariates, list) else []
    return names if all(isinstance(name, str) for name in names) and not _is_file(covariates) else []


def _is_file(value: Any) -> bool:
    return isinstance(value, str | Path) and Path(value).is_file()


def taken(table: pd.DataFrame, names: Any, path: str | Path) -> tuple[pd.DataFrame, Any]:
    """A table without some columns, and these."""
    for name in [names] if isinstance(names, str) else names:
        if name not in table:
            raise DataError(f"{str(path)!r} has no column {name!r}; {nearest(name, map(str, table))}")
    return table.drop(columns=names), table[names]


def read_covariates(path: str | Path) -> pd.DataFrame:
    """A table of covariates; a first column of distinct texts names the rows."""
    return named_rows(read_table(path), keep=True)


def read_offsets(value: str | Path) -> Any:
    """The name of a rule, or a table of logarithms."""
    if value in OFFSETS:
        return value
    if not Path(value).exists() and "." not in str(value):
        raise DataError(f"offsets (--offsets) must be a rule or a file, got {value!r}; {nearest(str(value), sorted(OFFSETS))}")
    with reading(value, "a table of logarithms"):
        table = read_counts(value)
        text = table.select_dtypes(exclude=["number", "bool"]).columns.tolist()
        if text:
            raise DataError(f"expected a table of logarithms, but columns {text[:5]} hold texts; drop them")
        return table


def everything(table: pd.DataFrame) -> str:
    """A formula of all columns, leaving out one that only names the rows.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"site": ["a", "b"], "depth": [1.0, 2.0]}, index=["a", "b"])
    >>> everything(table), everything(table[["site"]])
    ('~ 1 + `depth`', '~ 1')
    """
    return " + ".join(["~ 1", *(f"`{c}`" for c in table.columns if list(table[c]) != list(table.index))])


# the rows of a fit


def check_labels(y: Any) -> None:
    """Pipelines pass labels, which a PLN has no use for; a table in their place is a mistake worth telling."""
    if isinstance(y, str | Path):
        told = f"y is a file, {str(y)!r}, but a PLN ignores labels"
        raise DataError(f"{told}; pass a design as covariates=, as in fit(counts, covariates={str(y)!r})")
    columns = 0 if y is None else np.asarray(y)[:1].size
    if columns > 1:
        raise DataError(
            f"y has {columns} columns, but a PLN ignores labels, which are one column; pass a design as covariates=, as in "
            "fit(counts, covariates=X)"
        )


def check_rows(rows: Rows, names: np.ndarray, columns: np.ndarray | None, rank: int | None) -> None:
    """Refuse data that no fit can make sense of."""
    n, p = rows.Y.shape
    d, live = rows.X.shape[1], rows.v > 0
    if live.sum() <= d:
        got = "1 sample" if n == 1 else f"{live.sum()} rows"
        raise DataError(f"expected more rows than covariates, got {got} for {d}; add rows or drop covariates")
    independent(rows.X[live], names)
    empty = np.flatnonzero((rows.Y.seen(live) if isinstance(rows.Y, Filed) else rows.v @ rows.Y) == 0)
    if len(empty):
        shown = empty[:5].tolist() if columns is None else list(columns[empty[:5]])
        raise DataError(
            f"columns such as {shown} ({len(empty)} in all) have no counts: their mean has no finite estimate; drop them"
        )
    if rank is not None and rank > min(n, p):
        raise DataError(f"rank must be at most min(n, p) = {min(n, p)}, got {rank}; lower it, or use rank=None")


def check_given(Sigma: np.ndarray | None, p: int) -> None:
    """Refuse a matrix that cannot be the covariance of p columns."""
    fits = Sigma is None or (Sigma.shape == (p, p) and np.allclose(Sigma, Sigma.T) and bool(np.linalg.eigvalsh(Sigma)[0] > 0))
    if Sigma is not None and not fits:
        told = f"a given covariance must be symmetric and positive definite with shape ({p}, {p})"
        raise DataError(f"{told}, got shape {Sigma.shape}")


def warm(last: Fitted, rows: Rows, rank: int | None, sampled: bool) -> tuple[np.ndarray | None, ...]:
    """Where a fit of these rows goes on from the last one: W, w, and the means of its rows that have a weight; None where it
    cannot."""
    model, M = last.model, last.latent_mean
    if M is None or len(M) != len(rows.X) or model.rank != rank or model.B.shape != (rows.X.shape[1], rows.Y.shape[1]):
        return None, None, None
    M = M if model.rotation is None else M @ model.rotation.T
    return model.W if rank is not None or sampled else None, last.w, None if sampled else M[rows.v > 0]


def cut(rows: Rows, shard_rows: int | None = None, M: np.ndarray | None = None, groups: np.ndarray | None = None) -> list[Any]:
    """Cut by the size of the data alone."""
    n, p = rows.Y.shape
    parts = 1 << min(6, max(0, (n * p // SHARD).bit_length() - 1))  # a power of two shares evenly among threads
    size = shard_rows or -(-n // max(1, min(parts, n // min(p, ROWS))))
    even = bool((rows.v == 1).all())

    Y = smallest(rows.Y) if sp.issparse(rows.Y) else rows.Y

    def source(b: slice) -> Any:
        O, X, v = (np.ascontiguousarray(part[b]) for part in rows[1:])
        about = even, b.start, n, *(None if part is None else np.ascontiguousarray(part[b]) for part in (M, groups))
        if compact(Y):
            return Sparse(Y.part(b) if isinstance(Y, Filed) else Y[b], O, X, v, *about)
        return Laid(whole(Rows(np.ascontiguousarray(Y[b]), O, X, v), *about))

    return [source(slice(i, min(i + size, n))) for i in range(0, n, size)]


# new rows


def new_rows(fitted: Fitted, table: Counts, covariates: Any, offsets: Any) -> Rows:
    """Rows for the fitted model, from counts whose columns are those of the fit: covariates and offsets that it had are needed,
    unless the counts are its own."""
    n, own = len(table.Y), is_own(fitted, table)
    X = fitted.design.X if own and covariates is None else new_design(fitted.design, covariates, n, table.rows)
    by = _inflating(fitted)
    if by is not None:
        X = np.hstack([X, by.T if own and covariates is None else new_design(by.design, covariates, n, table.rows)])
    if own and offsets is None:
        return Rows(table.Y, np.array(np.broadcast_to(fitted.data.O, table.Y.shape)), X, np.ones(n))
    rule, given = fitted.data.rule, fitted.data.O[fitted.data.O > HIDDEN]
    if offsets is None and rule is not None and rule not in ("logsum", "tss"):
        raise DataError(f'offsets="{rule}" compare the samples of one table with each other; pass offsets for the new ones')
    if offsets is None and rule is None and given.any():
        raise DataError("the model was fitted with offsets; pass those of the new rows, logarithms of their sampling effort")
    return Rows(table.Y, as_offsets(rule if offsets is None else offsets, table), X, np.ones(n))


def new_zeros(fitted: Fitted, covariates: Any, n: int) -> np.ndarray | None:
    """The covariates of structural zeros of new rows, where there are any."""
    by = _inflating(fitted)
    return None if by is None or covariates is None else new_design(by.design, covariates, n)


def _inflating(fitted: Any) -> Inflating | None:
    """The covariates of structural zeros of the fit; a mixture has none."""
    zeros = getattr(fitted, "zeros", None)
    return None if zeros is None else zeros.by


def is_own(fitted: Fitted, table: Counts) -> bool:
    """Whether these are the counts of the fit."""
    seen = fitted.data
    if seen.Y is None or table.Y.shape != seen.Y.shape or not np.array_equal(table.Y, seen.counts):
        return False
    missing = np.broadcast_to(seen.O <= HIDDEN, table.Y.shape)
    return bool((missing == (False if table.missing is None else table.missing)).all())


def new_design(design: Design, covariates: Any, n: int, names: np.ndarray | None = None) -> np.ndarray:
    """The design of new rows; the columns of a frame are matched by name."""
    if design.formula is not None:
        if covariates is None and set(design.names) <= {"Intercept", "intercept"}:  # such as "~ 1", which has no variables
            covariates = pd.DataFrame(index=range(n))
        if covariates is None:
            raise DataError(f"the model was fitted with {design.formula.text!r}; pass the table of its variables as covariates")
        covariates = again(design.formula, covariates)
    if covariates is None and list(design.names) != ["intercept"]:
        raise DataError(f"the model was fitted with covariates {list(design.names)}; pass them for the new rows")
    wanted = [str(name) for name in design.names][int(design.intercept) :]
    if hasattr(covariates, "columns") and wanted != [f"x{k}" for k in range(len(wanted))]:
        frame = nw.from_native(covariates, eager_only=True)
        remedy = "pass the covariates of the fit by their names"
        covariates = nw.to_native(columns_in_order(frame, wanted, "covariates", remedy))
    X, _ = as_design(covariates, n, names, design.intercept)
    if list(design.names) == ["intercept"] and not (X == 1).all():
        raise DataError("the model was fitted without covariates, so it has nothing to say of any; pass none")
    if X.shape[1] != len(design.names):
        raise DataError(f"covariates have {X.shape[1]} columns, but the model was fitted with {len(design.names)}")
    return X


# covariates from a formula, at the fit and for new rows


def inflating(text: str, data: Any, n: int, names: np.ndarray | None) -> Inflating:
    """The covariates of structural zeros, by a formula over the table of covariates."""
    if isinstance(data, np.ndarray | list):
        raise DataError(f"zero_inflation={text!r} needs names: pass the covariates as a table, or fit by fit_formula")
    try:
        frame, formula = read_formula(text, pd.DataFrame(index=range(n)) if data is None else data)
    except DataError as error:
        if data is not None:
            raise
        none = f"zero_inflation={text!r} asks for a table of covariates, but there is none"
        raise DataError(f"{none}; pass covariates with these columns, or fit by fit_formula") from error
    T, columns = as_design(frame, n, names, False)
    independent(T, columns)
    return Inflating(T, columns, formula)


def read_formula(text: str, data: Any) -> tuple[pd.DataFrame, Formula]:
    """The design that a formula makes of a table, and what is needed to make it again of new rows."""
    if "~" in text and text.split("~")[0].strip():
        raise DataError(f'the formula describes the covariates only, such as "~ 1 + tree"; got {text!r}')
    frame = _frame(data)
    named = {piece.strip("`") for piece in PIECE.findall(text)}  # columns that it does not use may hold anything in new rows
    words = [c for c in frame.columns if str(c) in named and not pd.api.types.is_numeric_dtype(frame[c])]
    levels = {str(c): sorted(frame[c].dropna().unique().tolist()) for c in words}
    X, state = _matrix(Formula(text, levels, {}), frame)
    return X, Formula(text, levels, state)


CALLS = {"C", "bs", "cr", "cs", "cc", "poly", "center", "scale", "standardize", "hashed", "lag"}  # what a formula may call
CALLS |= {"log", "log10", "log2", "exp", "exp10", "exp2"}
CALLS |= {f"np.{name}" for name in ("log", "log1p", "log10", "log2", "exp", "expm1", "sqrt", "abs", "sin", "cos")}
CALLS |= {f"contr.{name}" for name in ("treatment", "sum", "helmert", "diff", "poly", "sas")}
PIECE = re.compile(r"""\s+|`[^`]*`|"[^"\\]*"|'[^'\\]*'|[^\W\d][\w.]*|\d+\.?\d*(?:[eE][-+]?\d+)?|[-+*:~/()^,|%=]""")


def harmless(text: str) -> bool:
    """Whether a formula can do nothing but arithmetic and calls of `CALLS`: formulaic would run any Python in it.

    >>> harmless("~ 1 + depth * C(site) + bs(np.log(age), df=4)"), harmless("~ 1 + {open('x', 'w')}"), harmless("~ a.__class__")
    (True, False, False)
    """
    pieces = [piece for piece in PIECE.findall(text) if piece.strip()]
    called = [name for name, after in pairwise(pieces) if after == "(" and (name[0].isalpha() or name[0] == "_")]
    return "".join(PIECE.findall(text)) == text and "__" not in text and set(called) <= CALLS and ")(" not in "".join(pieces)


def again(formula: Formula, data: Any) -> pd.DataFrame:
    """The design of new rows by the formula of the fit."""
    if not harmless(formula.text):
        raise DataError(
            f"the formula {formula.text!r} is code, which a model file could have brought, and is not run for new rows; a formula "
            f"may have columns, numbers, + - * / : ^ and {', '.join(sorted(CALLS)[:9])}, ...: make other columns beforehand"
        )
    frame = _frame(data)
    for c, known in formula.levels.items():
        strange = sorted(set(frame[c].dropna()) - set(known)) if c in frame else []
        if strange:
            raise DataError(f"covariate {c!r} has values {strange[:5]} that the fit did not see; it knows {known[:5]}")
    return _matrix(formula, frame)[0]


def _frame(data: Any) -> pd.DataFrame:
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, str | Path):
        return read_covariates(data)
    if isinstance(data, dict):
        return pd.DataFrame(data)
    try:
        return nw.from_native(data, eager_only=True).to_pandas()
    except TypeError as error:
        needs = "a formula needs the table of its variables: a data frame, a dict of columns or a file"
        raise DataError(f"{needs}, got {type(data).__name__}") from error


def _matrix(formula: Formula, frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The design, and what its transforms know: with a state they use it, without they learn it of these rows."""
    import formulaic  # takes half a second

    named = {c: pd.Categorical(frame[c], categories=known) for c, known in formula.levels.items() if c in frame}
    try:
        text = formulaic.Formula(formula.text.split("~")[-1])
        spec = formulaic.ModelSpec(formula=text, transform_state=dict(formula.state), na_action="raise")
        found = spec.get_model_matrix(frame.assign(**named))
    except Exception as error:  # the formula is code, which may raise anything
        told, columns = re.sub(r"\x1b\[[\d;]*m|[⧛⧚]", "", " ".join(str(error).split()))[:300], [str(c) for c in frame.columns]
        unknown = re.search(r"NameError: (?:name '|`)(.+?)(?:'|`)", told)
        why = (
            f"{told}; mend it or the table"
            if unknown is None
            else f"there is no {unknown[1]!r}; {nearest(unknown[1], [*columns, *sorted(CALLS)])}"
        )
        raise DataError(f"the formula {formula.text!r} does not fit the columns {columns[:20]}: {why}") from error
    learned = found.model_spec.transform_state.items()
    state = {k: {name: v[()] if isinstance(v, np.ndarray) else v for name, v in known.items()} for k, known in learned}  # no 0-d
    return pd.DataFrame(found, index=frame.index), state
