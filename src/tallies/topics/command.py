"""LDA on the command line: texts (or a table of counts) in, topics and mixtures out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from tallies.cli.options import Option
from tallies.cli.tables import COUNTING, data, document_bound, log_likelihood, no_stop_words, read_once, rows_of
from tallies.data.cells import cells_of
from tallies.data.corpus import Corpus
from tallies.data.text import check_fields, read_field
from tallies.errors import DataError
from tallies.topics import door
from tallies.topics import scores as evaluation
from tallies.topics.estimator import LDA
from tallies.topics.lazily import in_files, open_documents

if TYPE_CHECKING:
    import pandas as pd

    from tallies.evaluation.score import Scored

OPTIONS = (
    data("Texts: a table (jsonl, csv, xlsx, parquet, ...; also .gz, .zip), a folder of such tables, or of .txt files."),
    Option("text", "Column with the text.", "text"),
    Option("id", "Column with the name of a document.", "id"),
    *COUNTING,
    Option("counts", "The table has one column a word, with counts.", False, bool),
)
REPORT = (Option("group", "Column of DATA, or of the fit's data: topics by date or group."),)
# options of `Corpus.read` that a run remembers, so that new texts are cut into words as the fitted ones were
READING = ("text", "authors", "id", "stop_words", "stem", "bigrams", "emoji")


def settle(options: Mapping[str, Any], told: Collection[str]) -> dict[str, Any]:
    """Burn-in is two thirds of the sweeps unless told; bounds on words are shares or numbers of documents."""
    found: dict[str, Any] = {key: document_bound(key, options[key]) for key in ("min_df", "max_df")}
    if options["burn_in"] is None or ("max_iter" in told and "burn_in" not in told):
        found["burn_in"] = (options["max_iter"] or LDA.max_iter) * 2 // 3
    return found


def read(options: Mapping[str, Any], path: str, model: Any = None, texts: bool = False) -> Any:
    """A corpus of the texts in a file, or with the option `counts` a table with one column a word.

    The bounds on document frequency choose the vocabulary of a fit; what is read later, for a fitted `model`, is of its language,
    and matched to its vocabulary by name. With `texts` the corpus keeps its sentences.
    """
    if options.get("counts"):
        return rows_of(read_once(path), options)
    if in_files(path):
        raise DataError(f"{path!r} is more than is read into memory; give a file of some documents")
    if cells_of(path) is not None:
        return rows_of(door.opened(path), options)
    reading = no_stop_words({key: options[key] for key in READING if key in options})
    if model is not None and model.language_ is not None and reading.get("stop_words", "auto") is not None:
        reading["stop_words"] = model.language_
    if model is None:
        check_fields(path, options)
        reading |= {key: options[key] for key in ("min_df", "max_df") if options.get(key) is not None}
    return rows_of(Corpus.read(path, sentences=texts, **reading), options)


def fit(model: Any, options: Mapping[str, Any], **run: Any) -> Any:
    """Fit a model to the texts that the options name."""
    if isinstance(model.word_prior, Mapping):  # keys of TOML are text
        model.word_prior = {int(k) if str(k).isdecimal() else k: words for k, words in model.word_prior.items()}
    if in_files(options["data"]):
        return model.fit(_bags(model, options), **run)
    return model.fit(read(options, options["data"]), **run)


def _bags(model: Any, options: Mapping[str, Any]) -> Any:
    """The corpus of texts that are more than fits into memory."""
    if options.get("rows") is not None or options.get("counts"):
        raise DataError("of texts that are not in memory no rows are held out, and they are no counts; keep a file of them apart")
    counting = no_stop_words({option.name: options[option.name] for option in COUNTING})
    return open_documents(options["data"], options["text"], model.shards, **counting)


def predict_files(model: Any, options: Mapping[str, Any], path: str, out: Any) -> Any:
    """The same of texts that are more than fits into memory, as a folder; None where they do."""
    return model.transform(path, text=options["text"], out=out) if in_files(path) else None


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """One row a document: its id, its largest topic, and the probability of each."""
    import pandas as pd

    X = read(options, path, model)
    theta = np.asarray(model.transform(X))
    ids = X.documents if isinstance(X, Corpus) else getattr(X, "obs_names", np.arange(len(X)))
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
