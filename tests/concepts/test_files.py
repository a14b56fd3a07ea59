"""AuthorConcept of texts in files: the bits of a fit in memory; what is encoded, answered, resumed and refused; bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import tallies
from running import left_in
from tallies import AuthorConcept, Corpus, Multinomial, Ontology
from tallies.concepts import lazily
from tallies.concepts.answers import expected, written
from tallies.concepts.estimator import settings_of
from tallies.data import bags
from tallies.errors import DataError, FileError

THEMES = ("cell death", "gene expression", "protein folding", "membrane transport", "heart muscle", "bone growth")
CONCEPTS = Ontology(
    [f"c{g}" for g in range(len(THEMES))],
    list(THEMES),
    [f"the {theme} of an organism" for theme in THEMES],
    synonyms=[["apoptosis"], [], ["chaperone"], [], [], []],
    parents=[[], ["c0"], ["c0"], [], [], ["c4"]],
)
WORDS = " ".join(
    [*THEMES, "apoptosis chaperone cells genes folded was seen in mice under light", *(f"filler{i}" for i in "abcdefgh")]
)


def documents(n=150, seed=0, listed=False):
    """Texts of some sentences (some have none) and their authors (some have none, some several)."""
    rng = np.random.default_rng(seed)
    texts, authors = [], []
    for d in range(n):
        sentences = [" ".join(rng.choice(WORDS.split(), rng.integers(3, 12))).capitalize() for _ in range(rng.integers(0, 9))]
        texts.append(". ".join(sentences) if d % 40 else "")
        who = [f"Author {a}" for a in rng.choice(12, rng.integers(0, 4), replace=False)]
        authors.append(who if listed else "; ".join(who))
    return pd.DataFrame({"name": [f"d{d}" for d in range(n)], "body": texts, "who": authors})


def write(frame, folder, kind="parquet", parts=3):
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), parts)):
        part, path = frame.iloc[rows], folder / f"part-{k}.{kind}"
        if kind == "parquet":
            part.to_parquet(path, index=False, row_group_size=20)
        elif kind == "csv":
            part.to_csv(path, index=False)
        else:
            part.to_json(path, orient="records", lines=True)
    return folder


def in_memory(frame):
    who = [names if isinstance(names, list) else [a for a in names.split("; ") if a] for names in frame["who"]]
    return Corpus.from_texts(frame["body"], who, frame["name"], sentences=True)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """About ten pieces, and shards that begin in one and end in another."""
    monkeypatch.setattr(bags, "TEXTS", 3000)
    monkeypatch.setattr(AuthorConcept, "shard_rows", 50)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(documents(), tmp_path_factory.mktemp("texts") / "texts")


def same(a, b):
    np.testing.assert_array_equal(a.history_, b.history_)
    for name in ("base", "constant", "everybody"):
        np.testing.assert_array_equal(getattr(a.fitted_.psi, name), getattr(b.fitted_.psi, name))
    assert (a.fitted_.psi.own != b.fitted_.psi.own).nnz == 0
    assert (a.concept_words_ != b.concept_words_).nnz == 0
    assert a.authors_.tolist() == b.authors_.tolist()
    np.testing.assert_array_equal(a.fitted_.papers.author_weight, b.fitted_.papers.author_weight)
    if a.fitted_.context is not None:
        for mine, other in zip(a.fitted_.context, b.fitted_.context, strict=True):
            np.testing.assert_array_equal(mine, other)


KINDS = {
    "mentions": {},
    "words": {"words": "multinomial"},
    "words that are learned": {"words": Multinomial(anchor=2.0, single=False), "credit": "whole"},
    "hard": {"preset": "seed"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("memory", [None, 1])
@pytest.mark.filterwarnings("ignore::tallies.errors.ConvergenceWarning")
def test_a_fit_from_files_has_the_bits_of_one_in_memory(tmp_path, folder, kind, memory):
    """Also where shards, and what is kept for each sentence, are in mapped files; nothing of these is left behind."""
    there = AuthorConcept(max_iter=8, **KINDS[kind]).fit(in_memory(documents()), CONCEPTS)
    for workers in (1, 2):
        with tallies.backend("threads", workers=workers, memory=memory, scratch=tmp_path / "scratch"):
            here = AuthorConcept(max_iter=8, **KINDS[kind]).fit(folder, CONCEPTS, text="body", authors="who")
        same(here, there)
        np.testing.assert_allclose(expected(here.fitted_), expected(there.fitted_), rtol=1e-6)
        np.testing.assert_allclose(written(here.fitted_).toarray(), written(there.fitted_).toarray(), rtol=1e-6, atol=1e-12)
        assert here.summary().splitlines()[:4] == there.summary().splitlines()[:4]
        del here
    assert not left_in(tmp_path / "scratch")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_tables_of_text_and_lists_of_authors(tmp_path, kind):
    frame = documents(60, listed=kind == "jsonl")
    here = AuthorConcept().fit(write(frame, tmp_path / "texts", kind), CONCEPTS, text="body", authors="who")
    same(here, AuthorConcept().fit(in_memory(frame), CONCEPTS))


def test_a_cluster_has_the_same_bits(tmp_path, folder, cluster):
    there = AuthorConcept().fit(folder, CONCEPTS, text="body", authors="who")
    with tallies.backend(cluster, scratch=tmp_path):
        same(AuthorConcept().fit(folder, CONCEPTS, text="body", authors="who"), there)


@pytest.mark.filterwarnings("ignore::tallies.errors.ConvergenceWarning")
def test_a_fit_from_files_can_be_resumed(tmp_path, folder):
    """Also with more sweeps than were asked for at first, and though the texts are encoded anew, in another place."""
    path, names = tmp_path / "state", {"text": "body", "authors": "who"}
    there = AuthorConcept(max_iter=7, tol=None).fit(folder, CONCEPTS, **names)
    AuthorConcept(max_iter=3, tol=None).fit(folder, CONCEPTS, **names, checkpoint=path)
    same(AuthorConcept(max_iter=7, tol=None).fit(folder, CONCEPTS, **names, resume=path), there)
    with pytest.raises(FileError, match="other data"):
        AuthorConcept(tol=None).fit(write(documents(seed=1), tmp_path / "others"), CONCEPTS, **names, resume=path)


def test_nothing_holds_all_sentences(folder):
    data = lazily.prepare(settings_of(AuthorConcept()), None, folder, CONCEPTS, "body", "who", 50)
    assert data.sizes == (len(in_memory(documents()).sentences), 150)
    assert len({span.piece.number for source in data.sources for span in source.spans}) > 5
    assert any(len(source.spans) > 1 for source in data.sources)
    assert all(isinstance(source, lazily.Mapped) for source in data.sources)
    assert not len(data.papers.documents) and not len(data.papers.sentence_document) and not len(data.papers.rows.share)


def test_sentences_stay_in_files(tmp_path, folder):
    model = AuthorConcept().fit(folder, CONCEPTS, text="body", authors="who")
    names = "responsibilities_", "assignments_", "document_concepts_", "document_ids_", "sentence_documents_", "cycling_"
    for name in names:
        with pytest.raises(AttributeError, match=r"are in files; annotate"):
            getattr(model, name)
    with pytest.raises(AttributeError, match="are in files"):
        model.document_profile("d1")
    model.save(tmp_path / "model.tallies")
    again = tallies.load(tmp_path / "model.tallies")
    same(again, model)
    assert again.n_sentences_ == model.n_sentences_ == len(in_memory(documents()).sentences)
    assert "Author 3" in model.report(tmp_path / "page.html").read_text()
    assert "Sentences" in model.report(tmp_path / "page.html", in_memory(documents(20, seed=3))).read_text()


def test_concepts_of_texts_in_files(tmp_path, folder):
    """Those of memory, sentence by sentence, with the other columns of the table; also with two threads."""
    model, corpus = AuthorConcept().fit(folder, CONCEPTS, text="body", authors="who"), in_memory(documents())
    with pytest.raises(DataError, match="out=FOLDER"):
        model.rank(folder, "who", text="body")
    with tallies.backend("threads", workers=2):
        out = model.rank(folder, "who", 3, text="body", out=tmp_path / "out")
    found = pd.concat([pd.read_parquet(path) for path in sorted(out.iterdir())], ignore_index=True)
    table = model.annotate(corpus, k=3).rename(columns={"id": "concept"})
    document = corpus.sentence_document[table["sentence"]]
    assert found["name_of_text"].tolist() == corpus.documents[document].tolist()
    assert found["who"].tolist() == documents()["who"].iloc[document].tolist()
    numbers = np.concatenate([np.arange(n) for n in np.bincount(corpus.sentence_document)])
    table["sentence"] = numbers[table["sentence"]]
    pd.testing.assert_frame_equal(found[table.columns], table)


def test_what_is_refused(tmp_path, folder):
    names = {"text": "body", "authors": "who"}
    with pytest.raises(DataError, match=r"has no column 'text'; name that of the texts with text="):
        AuthorConcept().fit(folder, CONCEPTS)
    with pytest.raises(DataError, match=r"has no column 'whom'; name that of the authors: .*who"):
        AuthorConcept().fit(folder, CONCEPTS, text="body", authors="whom")
    with pytest.raises(DataError, match="labels are one a sentence"):
        AuthorConcept().fit(folder, CONCEPTS, ["c0"], **names)
    with pytest.raises(DataError, match="document_backoff has a row"):
        AuthorConcept(document_backoff=2.0).fit(folder, CONCEPTS, **names)
    with pytest.raises(DataError, match="leave held_out out"):
        AuthorConcept(words=Multinomial(held_out=0.1)).fit(folder, CONCEPTS, **names)
    with pytest.raises(DataError, match="share no word with the concepts"):
        AuthorConcept().fit(folder, Ontology(["x"], ["zzz yyy"]), **names)
    with pytest.raises(DataError, match="share no word with the corpus"):
        AuthorConcept(words="multinomial").fit(folder, Ontology(["x"], ["zzz yyy"]), **names)
    with pytest.raises(DataError, match="the authors of a text are 5"):
        AuthorConcept().fit(write(documents(20).assign(who=5), tmp_path / "odd"), CONCEPTS, **names)
    with pytest.raises(DataError, match="has no sentence"):
        AuthorConcept().fit(write(documents(20).assign(body=""), tmp_path / "empty"), CONCEPTS, **names)


def test_the_command_line(tmp_path, folder, run):
    def told(*words):
        code, out, err = run(*map(str, words))
        assert code == 0, err
        return out

    terms = "".join(f"[Term]\nid: c{g}\nname: {name}\n\n" for g, name in enumerate(THEMES))
    (tmp_path / "concepts.obo").write_text("format-version: 1.2\n\n" + terms)
    made, names = tmp_path / "run", ["--text", "body", "--authors", "who"]
    out = told("fit", "author-concept", folder, "--ontology", tmp_path / "concepts.obo", *names, "--out", made, "--memory", "1MB")
    assert "150 documents, 12 authors" in out
    model = tallies.load(made / "model.tallies")
    same(model, AuthorConcept().fit(in_memory(documents()), Ontology.read(tmp_path / "concepts.obo")))
    told("predict", made, folder, "--top", "1", "--out", tmp_path / "answers")
    found = pd.concat([pd.read_parquet(path) for path in sorted((tmp_path / "answers").iterdir())], ignore_index=True)
    who = [[a for a in names.split("; ") if a] for names in documents()["who"]]
    table = model.annotate(documents()["body"].tolist(), who, k=1)  # each record as one sentence
    assert found["concept"].tolist() == table["id"].tolist()
    assert found["name_of_text"].tolist() == documents()["name"].iloc[table["sentence"]].tolist()
    code, _, err = run("score", str(made), str(folder))
    assert code and "more than is read into memory" in err


CHILD = """
import resource, sys
import numpy as np, pandas as pd, tallies
from pathlib import Path

WORDS = np.array([f"w{i}x" for i in range(900)])
concepts = tallies.Ontology([f"c{g}" for g in range(300)], [f"{WORDS[3 * g]} {WORDS[3 * g + 1]}" for g in range(300)])

def made(folder, documents):
    folder.mkdir()
    rng = np.random.default_rng(0)
    for part in range(documents // 500):
        words = WORDS[rng.integers(900, size=(500, 20, 15))]
        texts = [". ".join(" ".join(row).capitalize() for row in text) for text in words]
        who = [f"Author {a}" for a in rng.integers(50, size=500)]
        pd.DataFrame({"text": texts, "authors": who}).to_parquet(folder / f"{part:03d}.parquet", index=False, row_group_size=100)
    return folder

home = Path(sys.argv[1])
folders = [made(home / str(n), n) for n in (1000, 4000)]
peak = []
with tallies.backend("threads", workers=1, memory="8MB", scratch=str(home / "scratch")):
    for folder in folders:
        model = tallies.AuthorConcept(max_iter=2, tol=None).fit(folder, concepts, progress=False)
        peak.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(peak[1] - peak[0])
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs the figures of a POSIX system")
def test_peak_memory_does_not_follow_the_sentences(tmp_path):
    """Four times the texts, 60,000 sentences more: 30 MB of keys and 15 MB of what is kept of them, within 8 MB."""
    call = [sys.executable, "-W", "ignore", "-c", CHILD, str(tmp_path)]
    told = subprocess.run(call, capture_output=True, text=True, check=True, timeout=200)
    assert float(told.stdout) < 30
