"""AuthorConcept on the command line: papers and an ontology in, ranked concepts out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallies.cli.options import Option
from tallies.cli.tables import data, log_likelihood, rows_of
from tallies.concepts import lazily
from tallies.data.bags import in_files
from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology
from tallies.data.text import check_fields, read_documents
from tallies.errors import DataError, FileError

if TYPE_CHECKING:
    import pandas as pd

    from tallies.evaluation.score import Scored

OPTIONS = (
    data("Papers: a table (jsonl, csv, xlsx, parquet, ...; also .gz, .zip), a folder of such tables, or of .txt files."),
    Option("ontology", "Concepts: OBO (also .gz), or a table with id, name, synonyms, parents.", kind=Path, needed=True),
    Option("text", "Column with the text.", "text"),
    Option("authors", "Column with the authors.", "authors"),
    Option("id", "Column with the name of a document.", "id"),
)
PREDICT = (Option("top", "Concepts a sentence.", 5, int, least=1),)
READING = ("text", "authors", "id")  # columns of the papers that a run remembers, for sentences read later


def fit(model: Any, options: Mapping[str, Any], **run: Any) -> Any:
    """Fit to a file of documents, cut into sentences, and an ontology."""
    there = in_files(options["data"])
    if there and options.get("rows") is not None:
        raise DataError("of texts that are not in memory no rows are held out; keep a file of them apart")
    corpus = None
    if not there:
        check_fields(options["data"], options)
        corpus = rows_of(Corpus.read(options["data"], **{key: options[key] for key in READING}, sentences=True), options)
    try:
        ontology = Ontology.read(options["ontology"])
    except (DataError, FileError) as error:
        raise DataError(f"--ontology {options['ontology']!r}: {error}") from error
    if there:
        return model.fit(options["data"], ontology, text=options["text"], authors=options["authors"], **run)
    return model.fit(corpus, ontology, **run)


def predict_files(model: Any, options: Mapping[str, Any], path: str, out: Any) -> Any:
    """The same as `predict` of records that are more than fit into memory, as a folder; None where they do."""
    if not in_files(path):
        return None
    return lazily.annotate(model, path, options["text"], options["authors"], options.get("top", 5), out, split=False)


def _records(options: Mapping[str, Any], path: str) -> tuple[list[str], list[str], list[list[str]]]:
    """Ids, texts and authors of a file whose records are sentences."""
    if in_files(path):
        raise DataError(f"{path!r} is more than is read into memory; give a file of some sentences")
    records = rows_of(list(read_documents(path, options["text"], options["authors"], options["id"])), options)
    if not records:
        raise DataError(f"expected sentences in {path!r}, but it is empty")
    return [r.id for r in records], [r.text for r in records], [list(r.authors) for r in records]


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """The best concepts of every record, each taken as one sentence: id, rank, concept, name, probability, evidence."""
    ids, texts, authors = _records(options, path)
    table = model.annotate(texts, authors=authors, k=options.get("top", 5)).rename(columns={"id": "concept"})
    table.insert(0, "id", [ids[s] for s in table.pop("sentence")])
    return table


def score(model: Any, options: Mapping[str, Any], path: str, seed: int = 0) -> tuple[dict[str, Any], Scored]:
    """Held-out log likelihood of sentences."""
    _, texts, authors = _records(options, path)
    return log_likelihood(model._evaluate(texts, authors))


def sample(model: Any, options: Mapping[str, Any], n: int, seed: int | None) -> pd.DataFrame:
    """New sentences with their concepts."""
    import pandas as pd

    corpus, concepts = model.sample(n, random_state=seed)
    return pd.DataFrame({"concept": concepts, "words": corpus.sentences})


def report_data(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, ...]:
    """What a report shows: documents, cut into sentences."""
    return (rows_of(Corpus.read(path, **{key: options[key] for key in READING}, sentences=True), options),)
