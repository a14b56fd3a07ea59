"""LDA on the command line: texts (or a table of counts) in, topics and mixtures out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from tallies.cli.options import Option
from tallies.cli.tables import data, log_likelihood, read_once, rows_of
from tallies.data.corpus import Corpus
from tallies.data.text import check_fields, read_field
from tallies.errors import DataError
from tallies.topics import scores as evaluation
from tallies.topics.estimator import LDA

if TYPE_CHECKING:
    import pandas as pd

    from tallies.evaluation.score import Scored

OPTIONS = (
    data("Texts: a table (jsonl, csv, xlsx, parquet, ...; also .gz, .zip), or a folder of .txt files."),
    Option("text", "Column with the text.", "text"),
    Option("id", "Column with the name of a document.", "id"),
    Option("min_df", "Drop words in fewer documents (below 1: a share).", 1, int | float),
    Option("max_df", "Drop words in more documents (up to 1: a share).", 1.0, int | float),
    Option("stop_words", "Words to leave out: auto (of the language that is seen), a language such as german, or none.", "auto"),
    Option("stem", "Cut words to their stems.", False, bool),
    Option("bigrams", "Pairs of neighbouring words count as words, too.", False, bool),
    Option("emoji", "Emoji count as words, too.", False, bool),
    Option("counts", "The table has one column a word, with counts.", False, bool),
)
REPORT = (Option("group", "Column of DATA, or of the fit's data: topics by date or group."),)
# options of `Corpus.read` that a run remembers, so that new texts are cut into words as the fitted ones were
READING = ("text", "authors", "id", "stop_words", "stem", "bigrams", "emoji")


def settle(options: Mapping[str, Any], told: Collection[str]) -> dict[str, Any]:
    """Burn-in is two thirds of the sweeps unless told; bounds on words are shares or numbers of documents."""
    found: dict[str, Any] = {key: _documents(key, options[key]) for key in ("min_df", "max_df")}
    if options["burn_in"] is None or ("max_iter" in told and "burn_in" not in told):
        found["burn_in"] = (options["max_iter"] or LDA.max_iter) * 2 // 3
    return found


def _documents(key: str, value: Any) -> Any:
    """A bound on document frequency: a share as it is, a number of documents as a whole one; 1 is all but for the lower bound."""
    if not isinstance(value, float | int):
        raise DataError(f"--{key.replace('_', '-')} must be a number of documents or a share below 1, got {value!r}")
    return int(value) if value > 1 or (value == 1 and key == "min_df") else float(value)


def read(options: Mapping[str, Any], path: str, model: Any = None, texts: bool = False) -> Any:
    """A corpus of the texts in a file, or with the option `counts` a table with one column a word.

    The bounds on document frequency choose the vocabulary of a fit; what is read later, for a fitted `model`, is of its language,
    and matched to its vocabulary by name. With `texts` the corpus keeps its sentences.
    """
    if options.get("counts"):
        return rows_of(read_once(path), options)
    reading = {key: options[key] for key in READING if key in options}
    if reading.get("stop_words") == "none":  # TOML has no word for None
        reading["stop_words"] = None
    elif model is not None and model.language_ is not None:
        reading["stop_words"] = model.language_
    if model is None:
        check_fields(path, options)
        reading |= {key: options[key] for key in ("min_df", "max_df") if options.get(key) is not None}
    return rows_of(Corpus.read(path, sentences=texts, **reading), options)


def fit(model: Any, options: Mapping[str, Any], **run: Any) -> Any:
    """Fit a model to the texts that the options name."""
    if isinstance(model.word_prior, Mapping):  # keys of TOML are text
        model.word_prior = {int(k) if str(k).isdecimal() else k: words for k, words in model.word_prior.items()}
    return model.fit(read(options, options["data"]), **run)


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """One row a document: its id, its largest topic, and the probability of each."""
    import pandas as pd

    X = read(options, path, model)
    theta = np.asarray(model.transform(X))
    ids = X.documents if isinstance(X, Corpus) else np.arange(len(X))
    columns = {"id": ids, "topic": theta.argmax(axis=1), **{f"topic_{k}": theta[:, k] for k in range(theta.shape[1])}}
    return pd.DataFrame(columns)


def score(model: Any, options: Mapping[str, Any], path: str, seed: int = 0) -> tuple[dict[str, Any], Scored]:
    """Held-out log likelihood of a token and perplexity by document completion, and mean coherence."""
    X = read(options, path, model)
    told, found = log_likelihood(model._evaluate(X, random_state=seed))
    perplexity, coherence = float(np.exp(-found.value)), float(np.mean(model.coherence(X, "npmi")))
    return told | {"perplexity": perplexity, "coherence_npmi": coherence}, found


def sample(model: Any, options: Mapping[str, Any], n: int, seed: int | None) -> pd.DataFrame:
    """New documents as bags of words, one text a row."""
    import pandas as pd

    X, words = model.sample(n, random_state=seed), model.vocabulary_
    return pd.DataFrame({"text": [" ".join(words[evaluation.tokens_of(X, d)]) for d in range(n)]})


def report_data(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, ...]:
    """What the report judges the model by, and shows: texts too, but for pairs of words, which sentences would part."""
    return (read(options, path, model, texts=not options.get("bigrams")),)


def report_options(model: Any, options: Mapping[str, Any], path: str | None) -> tuple[str | None, dict[str, Any]]:
    """With --group the documents to report on, those of the fit where no others are given, and the date or group of each."""
    name = options.get("group")
    if name is None:
        return path, {}
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
