"""Files of the author-concept model whose parts do not belong together are refused; each of these would lead a kernel astray."""

from typing import Any

import numpy as np
import pytest

import tallies
from tallies import AuthorConcept
from tallies.concepts.settings import Mention
from tallies.data.corpus import Corpus
from tallies.data.ontology import Ontology
from tallies.errors import FileError

TEXT = [("d1", "Apoptosis of cells was seen."), ("d1", "The gene is expressed."), ("d2", "Cell death follows.")]


def fitted(callback: Any = None, **options: Any) -> AuthorConcept:
    concepts = Ontology(["x", "y"], ["cell death", "gene expression"], synonyms=[["apoptosis"], []])
    corpus = Corpus.from_pairs(TEXT, [("d1", "Ann"), ("d2", "Bob")])
    return AuthorConcept(**options).fit(corpus, concepts, callback=callback)


def changed(record: Any, path: str, value: Any) -> Any:
    """The record with another value at a path of fields; a function is of the one that is there."""
    name, _, rest = path.partition(".")
    old = getattr(record, name)
    return record._replace(**{name: changed(old, rest, value) if rest else value(old) if callable(value) else value})


def falling(matrix: Any) -> Any:
    """A sparse matrix whose pointer falls below 0, where SciPy counts no items and looks no further."""
    matrix = matrix.copy()
    matrix.indptr[-1] = -9
    return matrix


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("words.strings.owner", lambda owner: owner + 1, "concepts below 2"),
        ("words.strings.keys", lambda keys: {**keys, next(iter(keys)): 99}, "numbers below"),
        ("words.strings.words", lambda words: words + 99, "numbers below"),
        ("words.strings.n_classes", 99, "keys and"),
        ("words.strings.n_classes", 1, "each word class"),
        ("words.postings.string", np.zeros_like, "each word class"),
        ("words.postings.start", lambda start: np.append(start, start), "keys and 3 strings"),
        ("words.postings.log_rate", lambda rate: rate + 99.0, "items from"),
        ("words.noise", None, "Mention"),
        ("concepts", lambda c: c._replace(ids=c.ids[:1], names=c.names[:1], up=c.up[:1, :1]), "rows of 2 concepts"),
        ("papers", lambda p: p._replace(authors=p.authors[:1], author_weight=p.author_weight[:1]), "psi should have 1 rows"),
        ("papers.rows.row", lambda row: row + 1, "psi should have 2 rows"),
        ("psi.own", falling, "rows of a sparse matrix overlap"),
        ("context.ptr", lambda ptr: ptr[:-1], "H = 3"),
        ("settings.null", False, "needs null=True"),
        ("settings.document_backoff", 1.0, "psi should have 4 rows"),
        ("vocabulary", np.array(["cell"], dtype=object), "that of Mention"),
        ("assigned.best", lambda best: best + 3, "items from -1 to 2"),
    ],
)
def test_what_does_not_belong_together_is_refused(tmp_path, path, value, said):
    model = fitted()
    model.save(tmp_path / "m")
    tallies.load(tmp_path / "m")
    model.fitted_ = changed(model.fitted_, path, value)
    model.save(tmp_path / "m")
    with pytest.raises(FileError, match=said):
        tallies.load(tmp_path / "m")


def test_words_of_a_multinomial_have_counts_or_none(tmp_path):
    model = fitted(words="multinomial")
    model.fitted_ = changed(model.fitted_, "words.counts", lambda counts: counts[1:])
    model.save(tmp_path / "m")
    with pytest.raises(FileError, match="counts of words or none"):
        tallies.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("part", "path", "value"),
    [
        ("latents", "best", lambda best: best[:1]),
        ("latents", "best", lambda best: best + 9),
        ("latents", "best", lambda best: best[:, :0]),
        ("params", "psi.constant", lambda constant: constant[:0]),
        ("params", "prior", lambda prior: prior[:1]),
    ],
)
def test_what_is_resumed_is_of_its_shard(part, path, value):
    """What a checkpoint holds is checked where it meets the data."""
    seen: list[Any] = []
    fitted(lambda *both: seen.append(both))
    stage, state = seen[-1]
    shard = stage.sources[0].load(stage.shared.load())
    found = {"latents": state.latents[0], "params": state.params}
    stage.model.recount(shard, **found)
    found[part] = changed(found[part], path, value)
    with pytest.raises(ValueError, match="3 sentences of 3 concepts"):
        stage.model.recount(shard, **found)


def test_odds_of_nothing_are_refused():
    concepts = Ontology(["x"], ["liver"])
    with pytest.raises(ValueError, match="synonym must be a finite number"):
        AuthorConcept(words=Mention(synonym=-np.inf)).fit(["The liver."], concepts)
