"""Bags of words at the door: whatever holds counts comes out as a CSR matrix of whole numbers with the names of its columns."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from tallies.data.table import check_names
from tallies.errors import DataError, DataWarning


def names_of(X: Any) -> np.ndarray | None:
    """The column names of a Corpus, AnnData or data frame; None for a plain matrix."""
    if hasattr(X, "vocabulary") and hasattr(X, "counts"):
        return np.asarray(X.vocabulary, dtype=object)
    if hasattr(X, "var_names") and hasattr(X, "X"):
        return np.asarray(X.var_names, dtype=object)
    columns = getattr(X, "columns", None)
    if columns is None or callable(columns):
        columns = getattr(X, "column_names", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(list(columns), dtype=object)


def bag_of_words(X: Any) -> sp.csr_array:
    """Counts (documents x words) of a Corpus, AnnData, data frame, sparse matrix or array, checked; int64 data, no stored zeros.

    >>> bag_of_words([[2, 0, 1], [0, 0, 3]]).data.tolist()
    [2, 1, 3]
    >>> bag_of_words([[0.5, 1.0]])
    Traceback (most recent call last):
    ...
    tallies.errors.DataError: expected whole counts, but X has fractions such as 0.5; round them, or multiply up to counts
    """
    check_names(X)
    if hasattr(X, "vocabulary") and hasattr(X, "counts"):
        X = X.counts
    elif hasattr(X, "var_names") and hasattr(X, "X"):
        X = X.X
    elif hasattr(X, "to_numpy") and not sp.issparse(X):
        X = X.to_numpy()
    elif hasattr(X, "to_pandas"):
        X = X.to_pandas().to_numpy()
    if not sp.issparse(X):
        try:
            X = np.asarray(X)
            X = X if X.dtype.kind in "iufbc" else X.astype(float)
        except (TypeError, ValueError) as error:
            fault = TypeError if isinstance(error, TypeError) else DataError
            raise fault(f"expected a matrix of counts (documents x words), but {error}; for texts use Corpus.from_texts") from error
        if X.ndim != 2:
            raise DataError(
                f"Expected 2D array, got {X.ndim}D array instead: expected counts with one row a document and one column a word. "
                "Reshape your data: X.reshape(1, -1) if it is one document"
            )
    if X.dtype.kind == "c":
        raise DataError("Complex data not supported: expected whole counts; drop the imaginary part")
    X = sp.csr_array(X)
    if X.dtype.kind == "f":
        if not np.isfinite(X.data).all():
            kind = "NaN" if np.isnan(X.data).any() else "infinity"
            raise DataError(f"expected whole counts, but X contains {kind}; replace it by 0 or drop the documents that have it")
        odd = X.data != np.floor(X.data)
        if odd.any():
            raise DataError(
                f"expected whole counts, but X has fractions such as {X.data[odd][0]:g}; round them, or multiply up to counts"
            )
    if X.nnz and X.data.min() < 0:
        raise DataError(
            f"Negative values in data passed to LDA: expected counts, got {X.data.min():g}; no word occurs less than never"
        )
    X = sp.csr_array((X.data.astype(np.int64), X.indices, X.indptr), shape=X.shape)
    if not X.has_canonical_format:
        X.sum_duplicates()
    if X.nnz and X.data.min() == 0:
        X.eliminate_zeros()
    return X


def align(X: sp.csr_array, names: np.ndarray | None, known: np.ndarray | None, n_words: int) -> sp.csr_array:
    """Bring the columns into the order of the fitted words: by name where both have names, with a warning of what is dropped."""
    if names is None or known is None:
        if X.shape[1] != n_words:
            raise DataError(
                f"X has {X.shape[1]} features, but LDA is expecting {n_words} features as input: "
                "pass the same vocabulary, or a Corpus or data frame whose columns can be matched by name"
            )
        return X
    if len(names) == len(known) and (names == known).all():
        return X
    place = {name: v for v, name in enumerate(known)}
    target = np.array([place.get(name, -1) for name in names], dtype=np.int64)
    new = target[X.indices]
    dropped = new < 0
    if dropped.any():
        lost = [str(names[v]) for v in np.unique(X.indices[dropped])]
        share = X.data[dropped].sum() / X.data.sum()
        warnings.warn(
            f"{len(lost)} words are not in the fitted vocabulary and were dropped, {share:.1%} of all tokens "
            f"({', '.join(lost[:5])}{', ...' if len(lost) > 5 else ''})",
            DataWarning,
            stacklevel=4,
        )
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[~dropped]
    out = sp.csr_array((X.data[~dropped], (rows, new[~dropped])), shape=(X.shape[0], n_words))
    out.sum_duplicates()
    return out
