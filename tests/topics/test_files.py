"""LDA of documents in files: the same bits as in memory, with the same shards; what is counted, prepared, answered and refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import tallies
from running import left_in
from tallies import LDA, Corpus
from tallies.data import bags
from tallies.data.bags import open_bags
from tallies.errors import DataError, FileError
from tallies.mapped import Home, nbytes

QUICK = {"n_topics": 4, "max_iter": 24, "burn_in": 18, "thin": 2}


def documents(n=240, seed=0):
    """Texts of four themes, some of them empty, with an id each."""
    rng = np.random.default_rng(seed)
    words = np.array([f"{theme}{letter}" for theme in ("fruit", "metal", "river", "tower") for letter in "abcdefghij"])
    texts = []
    for d in range(n):
        theme = rng.integers(4)
        own = rng.integers(10 * theme, 10 * theme + 10, rng.integers(0, 30))
        texts.append(" ".join(["The", *words[np.append(own, rng.integers(40, size=3))], "and", f"rare{d}"]) if d % 50 else "")
    return pd.DataFrame({"name": [f"d{d}" for d in range(n)], "body": texts})


def write(frame, folder, kind="parquet", parts=3):
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), parts)):
        part, path = frame.iloc[rows], folder / f"part-{k}.{kind}"
        if kind == "parquet":
            part.to_parquet(path, index=False, row_group_size=30)
        elif kind == "csv":
            part.to_csv(path, index=False)
        else:
            part.to_json(path, orient="records", lines=True)
    return folder


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(bags, "TEXTS", 4000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(documents(), tmp_path_factory.mktemp("texts") / "texts")


def whole(tmp_path, **words):
    path = tmp_path / "whole.parquet"
    documents().to_parquet(path, index=False)
    return Corpus.read(path, text="body", **words)


def same(a, b):
    np.testing.assert_array_equal(a.topics_, b.topics_)
    np.testing.assert_array_equal(a.history_, b.history_)
    np.testing.assert_array_equal(a.alpha_, b.alpha_)
    assert (a.chains_[0].n_wk != b.chains_[0].n_wk).nnz == 0
    assert a.vocabulary_.tolist() == b.vocabulary_.tolist()


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize(
    "words", [{}, {"min_df": 2, "max_df": 0.5, "stem": True, "bigrams": True}, {"stop_words": None, "max_df": 30}]
)
def test_words_are_counted_as_in_memory(tmp_path, kind, words):
    corpus = whole(tmp_path, **words)
    found = open_bags(Corpus.prepare(write(documents(), tmp_path / "texts", kind), tmp_path / "out", "body", **words))
    assert found.vocabulary.tolist() == corpus.vocabulary.tolist()
    assert found.language == corpus.language
    np.testing.assert_array_equal(found.frequency, corpus.counts.sum(axis=0))
    np.testing.assert_array_equal(found.lengths, np.bincount(corpus.counts.sum(axis=1)))
    parts = [bag.load() for bag in found.bags]
    back = np.argsort(np.concatenate([rows for rows, _ in parts]))
    np.testing.assert_array_equal(sp.vstack([counts for _, counts in parts]).toarray()[back], corpus.counts.toarray())


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("memory", [None, 1])
def test_a_fit_from_files_has_the_bits_of_one_in_memory(tmp_path, folder, shards, memory):
    """Also where shards, and what is kept for each document, are in mapped files."""
    with tallies.backend("threads", workers=1):
        there = LDA(shards=shards, **QUICK).fit(whole(tmp_path))
    for workers in (1, 2):
        with tallies.backend("threads", workers=workers, memory=memory, scratch=tmp_path / "scratch"):
            same(LDA(shards=shards, **QUICK).fit(folder, text="body"), there)
    assert not left_in(tmp_path / "scratch")


def test_a_cluster_has_the_same_bits(tmp_path, folder, cluster):
    prepared = bags.count(folder, tmp_path / "prepared", "body", 3)
    there = LDA(**QUICK).fit(prepared)
    with tallies.backend(cluster):
        same(LDA(**QUICK).fit(prepared), there)


def test_the_number_of_shards_follows_from_the_tokens(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(bags, "TOKENS", 1000)
    found = open_bags(folder, "body")
    assert len(found.bags) == round(found.frequency.sum() / 1000) > 1
    assert sum(bag.documents for bag in found.bags) == 240 and found.bags[1].first == found.bags[0].documents
    same(LDA(**QUICK).fit(found), LDA(shards=len(found.bags), **QUICK).fit(whole(tmp_path)))


def test_a_fit_from_files_can_be_resumed(tmp_path, folder):
    """Also where the texts are counted anew, in another place."""
    path = tmp_path / "state"
    there = LDA(shards=2, **QUICK).fit(folder, text="body")
    LDA(shards=2, **{**QUICK, "max_iter": 11}).fit(folder, text="body", checkpoint=path)
    same(LDA(shards=2, **QUICK).fit(folder, text="body", resume=path), there)
    with pytest.raises(FileError, match="other data"):
        LDA(shards=2, **QUICK).fit(write(documents(seed=1), tmp_path / "others"), text="body", resume=path)


def test_what_is_kept_of_a_shard_is_without_word_lists(tmp_path, folder):
    seen = []
    LDA(shards=3, **QUICK).fit(folder, text="body", callback=lambda stage, state: seen.append(state.latents) and False)
    tokens, V, K = int(open_bags(folder, "body").frequency.sum()), 300, 4
    # z, and a list for each document; word lists would be eight bytes more for each word and topic
    assert (
        sum(nbytes(latents._replace(kept=None)) for latents in seen[-1])
        < 8 * tokens + 3 * 8 * K + 12 * 240
        < 3 * 4 * V * K + 8 * tokens
    )


def test_documents_stay_in_files(tmp_path, folder):
    model = LDA(**QUICK).fit(folder, text="body")
    assert "240 documents" in model.summary()
    for name in ("document_topics_", "document_counts_", "assignments_"):
        with pytest.raises(AttributeError, match=r"they are in files.*; transform"):
            getattr(model, name)
    model.save(tmp_path / "model.tallies")
    same(tallies.load(tmp_path / "model.tallies"), model)
    with pytest.raises(DataError, match="give some of them"):
        model.report(tmp_path / "page.html")
    assert "240" in model.report(tmp_path / "page.html", documents()["body"].tolist()[:20]).read_text()
    more = model.partial_fit(documents(30, seed=2)["body"].tolist())
    assert more.chains_[0].lengths.sum() == 270 and more.fitted_.documents is None


def test_topics_of_texts_in_files(tmp_path, folder):
    model = LDA(**QUICK).fit(folder, text="body")
    with pytest.raises(DataError, match="out=FOLDER"):
        model.transform(folder, text="body")
    frame = pd.concat(
        pd.read_parquet(path) for path in sorted(model.transform(folder, text="body", out=tmp_path / "out").iterdir())
    )
    assert frame["name"].tolist() == documents()["name"].tolist()
    theta = frame[[f"topic_{k}" for k in range(4)]].to_numpy()
    np.testing.assert_allclose(theta, model.transform(documents()["body"].tolist()), rtol=1e-12)
    np.testing.assert_array_equal(frame["topic"], theta.argmax(axis=1))


def test_preparing_goes_on_where_it_was_stopped(tmp_path, folder, monkeypatch):
    """And is not done twice."""
    out, cut = tmp_path / "out", []

    def stops(self, text, words=bags.Cutting.words):
        cut.append(text)
        if len(cut) == 100:
            raise KeyboardInterrupt
        return words(self, text)

    with monkeypatch.context() as patch:
        patch.setattr(bags.Cutting, "words", stops)
        with pytest.raises(KeyboardInterrupt):
            Corpus.prepare(folder, out, "body")
        assert not bags.is_prepared(out)
        with pytest.raises(DataError):
            LDA(**QUICK).fit(out)
        Corpus.prepare(folder, out, "body")
        assert 240 < len(cut) < 300
        Corpus.prepare(folder, out, "body")
        assert len(cut) < 300
    same(LDA(**QUICK).fit(out), LDA(**QUICK).fit(folder, text="body"))
    assert {path.name for path in out.iterdir()} == {"000000.npz", "manifest.json", "sums.npz", "words.utf8"}
    (out / "words.utf8").write_text("apple")
    with pytest.raises(FileError, match="not what manifest"):
        LDA(**QUICK).fit(out)


def test_a_count_that_was_killed_at_its_first_step_is_made_again(tmp_path, folder):
    (tmp_path / "counted" / bags.HALF).mkdir(parents=True)
    (tmp_path / "counted" / bags.HALF / "of.json").write_text('{"col')
    assert bags.open_shards(Home(str(bags.count(folder, tmp_path / "counted", "body")))).frequency.sum() > 0


def test_a_folder_of_txt_files_is_one_of_texts(tmp_path):
    for k, text in enumerate(documents()["body"].iloc[1:4]):
        (tmp_path / f"{k}.txt").write_text(text)
    assert not bags.in_files(tmp_path)
    documents().to_parquet(tmp_path / "table.parquet")
    assert bags.in_files(tmp_path)
    with pytest.raises(DataError, match="expected tables of one format"):
        LDA(**QUICK).fit(tmp_path)


def test_what_is_refused(tmp_path, folder):
    with pytest.raises(DataError, match=r"has no column 'text'; name that of the texts with text= \(--text\).*body"):
        LDA(**QUICK).fit(folder)
    with pytest.raises(DataError, match=r"no word is left: .* in 240 documents"):
        Corpus.prepare(folder, tmp_path / "none", "body", min_df=241)
    with pytest.raises(DataError, match="not vocabulary"):
        Corpus.prepare(folder, tmp_path / "none", "body", vocabulary=["fruita"])
    out = Corpus.prepare(folder, tmp_path / "out", "body")
    with pytest.raises(DataError, match="prepared in 1 shards, but shards=2"):
        LDA(shards=2, **QUICK).fit(out)
    with pytest.raises(DataError, match="which LDA takes"):
        tallies.GDA().fit(out, "y")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").touch()
    with pytest.raises(DataError, match="no folder of prepared data"):
        Corpus.prepare(folder, tmp_path / "full", "body")


def test_the_command_line(tmp_path, folder, run):
    def told(*words):
        code, out, err = run(*map(str, words))
        assert code == 0, err
        return out

    made, again, prepared = tmp_path / "run", tmp_path / "again", tmp_path / "prepared"
    found = told("prepare", folder, "--text", "body", "--min-df", "2", "--out", prepared, "--json")
    assert len(json.loads(found)["files"]) == 3
    options = ["-k", "4", "--sweeps", "24"]
    told("fit", "lda", prepared, "--out", made, *options)
    told("fit", "lda", folder, "--text", "body", "--min-df", "2", "--out", again, *options)
    same(*(tallies.load(place / "model.tallies") for place in (made, again)))
    told("predict", again, folder, "--out", tmp_path / "answers")
    assert len(pd.concat(pd.read_parquet(path) for path in (tmp_path / "answers").iterdir())) == 240
    code, _, err = run("score", str(again), str(folder))
    assert code and "more than is read into memory" in err


CHILD = """
import resource, sys
import numpy as np, tallies
from tallies.data import bags, prepared
from pathlib import Path

def made(folder, shards, documents=2000, words=1000):
    folder.mkdir()
    rng, entries = np.random.default_rng(0), []
    frequency = np.zeros(words, dtype=np.int64)
    for s in range(shards):
        indices = rng.permuted(np.tile(np.arange(words, dtype=np.int32), (documents, 1)), axis=1)[:, :150]
        rows, indptr = np.arange(s * documents, (s + 1) * documents), np.arange(0, 150 * documents + 1, 150)
        file = {"rows": rows, "indptr": indptr, "indices": indices.ravel(), "data": np.ones(indices.size, dtype=np.int32)}
        np.savez(folder / f"{s:06d}.npz", **file, words=words)
        frequency += np.bincount(indices.ravel(), minlength=words)
        entries.append({**prepared.entry(folder, f"{s:06d}.npz"), "documents": documents})
    (folder / "words.utf8").write_text("\\n".join(f"w{v}" for v in range(words)))
    np.savez(folder / "sums.npz", frequency=frequency, lengths=np.bincount(np.full(shards * documents, 150)))
    prepared.write(folder, entries, kind="texts", language=None)
    return folder

home = Path(sys.argv[1])
fit = lambda shards: tallies.LDA(n_topics=20, max_iter=3, burn_in=1, thin=1, start="random").fit(made(home / str(shards), shards))
with tallies.backend("threads", workers=1, memory="8MB", scratch=str(home)):
    fit(3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fit(15)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs the figures of a POSIX system")
def test_peak_memory_does_not_follow_the_documents(tmp_path):
    """Five times the tokens, 3.6 M more: 14 MB of words and 22 MB of what is kept of them, within 8 MB."""
    call = [sys.executable, "-W", "ignore", "-c", CHILD, str(tmp_path)]
    told = subprocess.run(call, capture_output=True, text=True, check=True, timeout=100)
    assert float(told.stdout) < 16
