"""Author-concept from files to files: what the command line calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology
from tallies.data.text import read_documents
from tallies.errors import DataError
from tallies.models.author_concept import AuthorConcept

if TYPE_CHECKING:
    import pandas as pd


def fit_files(
    papers: str | Path,
    ontology: str | Path,
    *,
    text: str = "text",
    authors: str = "authors",
    id: str = "id",
    fit: Any = None,
    **options: Any,
) -> AuthorConcept:
    """Fit to a file of documents (.jsonl, .csv, .tsv, .parquet, also .gz, or a folder of .txt), cut into sentences.

    `fit` are keywords of AuthorConcept.fit (progress, checkpoint, resume), `options` are hyperparameters.
    """
    corpus = Corpus.read(papers, text=text, authors=authors, id=id, sentences=True)
    return AuthorConcept(**options).fit(corpus, Ontology.read(ontology), **(fit or {}))


def predict_file(
    model: AuthorConcept, sentences: str | Path, *, top: int = 5, text: str = "text", authors: str = "authors", id: str = "id"
) -> pd.DataFrame:
    """Rank the concepts of every record of a file, each taken as one sentence: id, rank, concept, name, probability, ..."""
    records = list(read_documents(sentences, text, authors, id))
    if not records:
        raise DataError(f"expected sentences in {str(sentences)!r}, but it is empty")
    table = model.annotate([r.text for r in records], authors=[list(r.authors) for r in records], k=top)
    ids = [r.id for r in records]
    table = table.rename(columns={"id": "concept"})
    table.insert(0, "id", [ids[s] for s in table.pop("sentence")])
    return table
