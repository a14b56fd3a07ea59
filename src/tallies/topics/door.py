"""Bags of words at the door: whatever holds counts comes out as a CSR matrix of whole numbers with the names of its columns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from tallies.data.cells import cells_of, read_anndata
from tallies.data.corpus import Corpus
from tallies.data.files import read_table
from tallies.data.kinds import describe
from tallies.data.table import check_names, column_names, of_dates, refuse_dates
from tallies.data.text import NoTexts, names_file
from tallies.errors import DataError, DataWarning
from tallies.estimator import Inputs

NAMED = (("vocabulary", "counts"), ("var_names", "X"))  # where a Corpus and an AnnData have the names of their columns and counts
TOKENS = 1 << 34  # no more than these can be sampled one by one
FIRST = 20  # of what may be texts, among which a missing one is no sign that they are none
SEED_COUNT = 10  # pseudo-count of a seed word that is given without one


def read(X: Any) -> tuple[sp.csr_array, Inputs, str | None]:
    """The counts of a new fit, their columns, and the language of texts where it is known."""
    X = opened(X)
    counts, names = bag_of_words(X), names_of(X)
    if counts.shape[0] == 0:
        raise DataError("Found array with 0 sample(s): expected at least one document; pass counts (documents x words)")
    if counts.shape[1] == 0:
        raise DataError(
            f"the vocabulary is empty: 0 feature(s) (shape={counts.shape}) while a minimum of 1 is required. "
            "Lower min_df, raise max_df, or keep the stop words"
        )
    if counts.nnz == 0:
        raise DataError("expected documents with words, but all counts are zero; check the vocabulary and the stop words")
    return counts, Inputs(counts.shape[1], names), X.language if isinstance(X, Corpus) else None


def read_like(X: Any, inputs: Inputs, language: str | None) -> sp.csr_array:
    """The counts of new documents on the columns of a fit; of texts without the stop words of its language."""
    if inputs.names is None and cells_of(X) is None and (are_texts(X) or names_file(X)):
        raise DataError("got texts, but the model was fitted on counts without the names of words; pass counts (documents x words)")
    X = opened(X, language, inputs.names)
    return align(bag_of_words(X), names_of(X), inputs.names, inputs.n)


def opened(X: Any, language: str | None = "auto", known: np.ndarray | None = None, sentences: bool = False) -> Any:
    """Texts, or the file or folder of some, as a Corpus without the stop words of a language; a file of counts as a table; anything
    else as it is."""
    cells = cells_of(X)
    if cells is not None:
        return read_anndata(cells)
    if not (are_texts(X) or names_file(X)):
        return X
    count: Any = Corpus.from_texts if are_texts(X) else Corpus.read
    try:
        return count(X, stop_words=language, sentences=sentences)
    except NoTexts:
        table = _counts_in(X)
        if table is None:
            raise
        return table
    except DataError:  # there may be no word that counts, which is no fault of a new text
        if known is None:
            raise
        return count(X, vocabulary=known.tolist(), sentences=sentences)


def _counts_in(path: Any) -> Any:
    """The table of a file whose columns are numbers, one a word, without those that name documents; None where it has others."""
    frame = read_table(path)
    kinds = describe(frame).kinds
    words = [kind in ("number", "constant") and frame.iloc[:, i].dtype.kind in "iuf" for i, kind in enumerate(kinds)]
    only = all(word or kind == "id" for word, kind in zip(words, kinds, strict=True))
    return frame.loc[:, words] if only and any(words) else None


def are_texts(X: Any) -> bool:
    """Whether these are texts: a list, an array or a column with a string among the first.

    >>> are_texts(["a text"]), are_texts([[1, 2]]), are_texts("a text")
    (True, False, False)
    """
    flat = isinstance(X, list | tuple) or len(getattr(X, "shape", ())) == 1
    return flat and any(isinstance(text, str) for text in islice(X, FIRST))


def word_counts(prior: Any, K: int, words: np.ndarray) -> sp.csr_array:
    """Seed words as whole pseudo-counts (V, K): tokens that stay in their topic, so that the sampler needs no other rule."""
    V = len(words)
    prior = {} if prior is None else prior
    if not isinstance(prior, Mapping):
        table = np.asarray(prior)
        if table.shape != (K, V) or not ((table >= 0) & (table < TOKENS) & (table == np.floor(table))).all():
            raise ValueError(f"word_prior must be whole numbers of shape ({K}, {V}), got {table.dtype} of shape {table.shape}")
        return sp.csr_array(table.T.astype(np.int64))
    place, counts = {name: v for v, name in enumerate(words)}, sp.lil_array((V, K), dtype=np.int64)
    for k, given in prior.items():
        if not (isinstance(k, int | np.integer) and 0 <= k < K):
            raise ValueError(f"word_prior names topic {k!r}, but there are topics 0 to {K - 1}")
        for word, count in (given if isinstance(given, Mapping) else dict.fromkeys(given, SEED_COUNT)).items():
            v = place.get(word, place.get(str(word)))
            if v is None:
                raise ValueError(f"word_prior names {word!r}, which is not in the vocabulary; leave it out")
            if not (isinstance(count, int | float | np.number) and 0 <= count < TOKENS) or count != int(count):
                raise ValueError(f"pseudo-counts must be whole numbers, got {count!r} for {word!r}")
            counts[v, k] += int(count)
    return sp.csr_array(counts)


def faded(counts: sp.csr_array, stays: sp.csr_array, tokens: float) -> sp.csr_array:
    """Counts (words x topics) of which about so many tokens are left, besides those that stay: whole numbers, each up or down at
    random so that it is right in the mean."""
    rest = sp.csr_array(counts - stays)
    rest.data = np.maximum(rest.data, 0)
    total = int(rest.data.sum())
    if tokens < total:
        rng = np.random.default_rng([total, int(tokens)])  # a resumed fit must find the same
        rest.data = np.floor(rest.data * (tokens / total) + rng.random(rest.nnz)).astype(counts.dtype)
    rest.eliminate_zeros()
    return sp.csr_array(rest + stays)


def names_of(X: Any) -> np.ndarray | None:
    """The column names of a Corpus, AnnData or data frame; None for a plain matrix."""
    for names, matrix in NAMED:
        if hasattr(X, names) and hasattr(X, matrix):
            return np.asarray(getattr(X, names), dtype=object)
    columns = column_names(X)
    return None if columns is None else np.asarray(columns, dtype=object)


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
    refuse_dates(X)
    named = [matrix for names, matrix in NAMED if hasattr(X, names) and hasattr(X, matrix)]
    if named:
        X = getattr(X, named[0])
    elif hasattr(X, "to_pandas") and not hasattr(X, "to_numpy"):
        X = X.to_pandas()
    try:
        X = np.asarray(X) if isinstance(X, list | tuple) else X
        with np.errstate(over="ignore", invalid="ignore"):  # a sum may overflow while it looks for infinities
            X = check_array(X, accept_sparse="csr", ensure_min_samples=0, ensure_min_features=0, estimator="LDA")
        X = X if X.dtype.kind in "fiub" else X.astype(np.float64)  # of a frame with gaps
    except (TypeError, ValueError) as error:
        if isinstance(error, TypeError) and not of_dates(error):
            raise
        told = f"expected a matrix of whole counts (documents x words), or a list of texts (see also Corpus.from_texts). {error}"
        raise DataError(told) from error
    X = sp.csr_array(X)
    odd = X.data[X.data % 1 != 0]
    if len(odd):
        raise DataError(f"expected whole counts, but X has fractions such as {odd[0]:g}; round them, or multiply up to counts")
    if X.nnz and X.data.min() < 0:
        raise DataError(f"Negative values in data passed to LDA: got {X.data.min():g}, but no word occurs less than never")
    total = float(X.data.sum(dtype=float))
    if total > TOKENS:
        raise DataError(f"X counts {total:g} words, each a token in memory, but {TOKENS:,} are the most; scale the counts down")
    X = sp.csr_array((X.data.astype(np.int64), X.indices, X.indptr), shape=X.shape)
    X.sum_duplicates()
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
            stacklevel=5,
        )
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[~dropped]
    return sp.csr_array((X.data[~dropped], (rows, new[~dropped])), shape=(X.shape[0], n_words))
