"""LDA on the command line: texts (or a table of counts) in, topics and mixtures out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from tallies.data.corpus import Corpus
from tallies.data.files import read_frame
from tallies.data.text import check_fields, read_field
from tallies.errors import DataError
from tallies.topics import scores as evaluation

if TYPE_CHECKING:
    import pandas as pd

# options of `Corpus.read` that a run remembers, so that new texts are cut into words as the fitted ones were
READING = ("text", "authors", "id", "stop_words", "stem", "bigrams")


def read(options: Mapping[str, Any], path: str, fitting: bool = False, texts: bool = False) -> Any:
    """A corpus of the texts in a file, or with the option `counts` a table with one column a word.

    The bounds on document frequency choose the vocabulary of a fit; what is read later is matched to it by name. With `texts` the
    corpus keeps its sentences.
    """
    if options.get("counts"):
        return read_frame(path)
    reading = {key: options[key] for key in READING if key in options}
    if reading.get("stop_words") == "none":  # TOML has no word for None
        reading["stop_words"] = None
    if fitting:
        check_fields(path, options)
        reading |= {key: options[key] for key in ("min_df", "max_df") if options.get(key) is not None}
    return Corpus.read(path, sentences=texts, **reading)


def fit(model: Any, options: Mapping[str, Any], **run: Any) -> Any:
    """Fit a model to the texts that the options name."""
    return model.fit(read(options, options["data"], fitting=True), **run)


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """One row a document: its id, its largest topic, and the probability of each."""
    import pandas as pd

    X = read(options, path)
    theta = model.transform(X)
    ids = X.documents if isinstance(X, Corpus) else np.arange(len(X))
    columns = {"id": ids, "topic": theta.argmax(axis=1), **{f"topic_{k}": theta[:, k] for k in range(theta.shape[1])}}
    return pd.DataFrame(columns)


def score(model: Any, options: Mapping[str, Any], path: str, seed: int = 0) -> dict[str, Any]:
    """Held-out log likelihood of a token and perplexity by document completion, and mean coherence."""
    X = read(options, path)
    found = model._evaluate(X, random_state=seed)
    return {
        "log_likelihood": found.value,
        "stderr": found.stderr,
        "unit": found.unit,
        "kind": found.kind,
        "perplexity": float(np.exp(-found.value)),
        "coherence_npmi": float(np.mean(model.coherence(X, "npmi"))),
    }


def sample(model: Any, options: Mapping[str, Any], n: int, seed: int | None) -> pd.DataFrame:
    """New documents as bags of words, one text a row."""
    import pandas as pd

    X, words = model.sample(n, random_state=seed), model.vocabulary_
    return pd.DataFrame({"text": [" ".join(words[evaluation.tokens_of(X, d)]) for d in range(n)]})


def report_data(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, ...]:
    """What the report judges the model by, and shows: texts too, but for pairs of words, which sentences would part."""
    return (read(options, path, texts=not options.get("bigrams")),)


def report_group(model: Any, options: Mapping[str, Any], path: str | None, name: str) -> tuple[str, dict[str, Any]]:
    """The documents to report on, those of the fit where no others are given, and the date or group of each."""
    path = path or options["data"]
    if options.get("counts"):
        raise DataError("--group names a column of texts, but this RUN was fitted to a table of counts; leave it out")
    return path, {"group": _typed(read_field(path, name, "--group"))}


def _typed(values: list[Any]) -> list[Any]:
    """Numbers and dates out of a column of texts that are all such, as in csv and JSON; else the texts. Empty is missing."""
    import pandas as pd

    column = pd.Series([None if v == "" else v for v in values], dtype=object)
    if column.map(lambda v: v is None or isinstance(v, str)).all() and column.notna().any():
        with suppress(ValueError, TypeError):
            return pd.to_numeric(column).tolist()
        with suppress(ValueError, TypeError):
            return pd.to_datetime(column, format="ISO8601", utc=True).tolist()
    return column.tolist()
