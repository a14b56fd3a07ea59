"""Texts and counts at the door."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from tallies import LDA
from tallies.data.corpus import Corpus
from tallies.data.text import LANGUAGES, split_sentences, stop_words, tokenize
from tallies.errors import DataError, DataWarning
from tallies.topics.door import align, bag_of_words, names_of

TEXTS = ["The cat sat. The cat ran!", "A dog ran; the dog barked.", ""]


def test_counts_are_plain_counting():
    corpus = Corpus.from_texts(TEXTS, stop_words=None)
    words = [tokenize(t) for t in TEXTS]
    assert corpus.vocabulary.tolist() == sorted({w for t in words for w in t})
    for d, text in enumerate(words):
        assert dict(zip(corpus.vocabulary, corpus.counts.toarray()[d], strict=True)) == {
            w: text.count(w) for w in corpus.vocabulary
        }
    assert len(corpus) == 3
    assert repr(corpus) == "Corpus(3 documents, 6 words, 11 tokens)"


def test_stop_words_frequency_bounds_and_bigrams():
    assert "the" not in Corpus.from_texts(TEXTS).vocabulary
    assert Corpus.from_texts(TEXTS, stop_words={"cat", "dog"}, min_df=2).vocabulary.tolist() == ["ran", "the"]
    assert Corpus.from_texts(TEXTS, stop_words=None, max_df=0.34).vocabulary.tolist() == ["barked", "cat", "dog", "sat"]
    assert "dog_barked" in Corpus.from_texts(TEXTS, bigrams=True).vocabulary


GERMAN = ["Der Hund und die Katze sind nicht im Haus", "Die Katzen liegen auf dem Dach", "Ein Hund ist kein Wolf"]
SENTENCES = {
    "german": "Die Regierung hat am Montag erklärt, dass sie die Steuern nicht erhöhen wird, weil die Wirtschaft sich erholt.",
    "french": "Le gouvernement a déclaré lundi qu'il ne va pas augmenter les impôts parce que tout se remet encore de la crise.",
    "spanish": "El gobierno declaró el lunes que no subirá los impuestos porque la economía todavía se está recuperando.",
    "italian": "Il governo ha dichiarato lunedì che non aumenterà le tasse perché il paese si sta ancora riprendendo dalla crisi.",
    "dutch": "De regering heeft maandag verklaard dat zij de belastingen niet zal verhogen omdat het nog aan het herstellen is.",
    "danish": "Regeringen erklærede mandag, at den ikke vil hæve skatterne, fordi økonomien stadig er ved at komme sig.",
    "russian": "Правительство заявило в понедельник, что не будет повышать налоги, потому что она все еще не такая, как была.",
    "turkish": "Hükümet pazartesi günü vergileri artırmayacağını açıkladı çünkü ekonomi hâlâ kötü ve bu çok zaman alacak.",
    "hindi": "सरकार ने सोमवार को कहा कि वह कर नहीं बढ़ाएगी क्योंकि अर्थव्यवस्था अभी भी संकट से उबर रही है",
    "english": "The government declared on Monday that it will not raise taxes because the economy is still recovering.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_the_language_is_seen_and_said(language):
    corpus = Corpus.from_texts([SENTENCES[language]])
    assert corpus.language == language == corpus[:1].language
    assert not set(corpus.vocabulary) & stop_words(language)


def test_stop_words_of_a_language_by_its_name():
    """Every language of the stemmer for which there is a list; English stays scikit-learn's, which a topic model has always had."""
    snowballstemmer = pytest.importorskip("snowballstemmer")
    without = {"porter", "dutch_porter", "nepali", "serbian", "tamil", "yiddish"}  # other stemmers of a language, or no list
    assert set(snowballstemmer.algorithms()) - without <= set(LANGUAGES)
    assert all(len(stop_words(language)) > 25 for language in LANGUAGES)
    assert Corpus.from_texts(GERMAN, stop_words="german").vocabulary.tolist() == Corpus.from_texts(GERMAN).vocabulary.tolist()
    assert "die" in Corpus.from_texts(GERMAN, stop_words="english").vocabulary
    assert Corpus.from_texts(GERMAN, stop_words=None).language is None
    assert Corpus.from_texts(GERMAN, stop_words={"hund"}).language is None
    with pytest.raises(ValueError, match="did you mean 'german'"):
        Corpus.from_texts(GERMAN, stop_words="germann")


def test_words_without_a_language_lose_none():
    corpus = Corpus.from_texts(["iron zinc man tin", "zinc lead copper tin"])
    assert corpus.language is None
    assert "man" in corpus.vocabulary  # a stop word of German and Swedish: one word is no language


def test_articles_are_cut_from_the_words_that_they_are_tied_to():
    texts = ["L'homme et l’arbre ne sont pas dans la maison qu'il aime", "Un homme n'est pas un arbre"]
    assert {"homme", "arbre"} <= set(Corpus.from_texts(texts).vocabulary)
    assert not any("'" in word for word in Corpus.from_texts(texts).vocabulary)
    assert "arte" in Corpus.from_texts(["dell'arte"], stop_words="italian").vocabulary
    assert "o'clock" in Corpus.from_texts(["six o'clock and the d'artagnan"]).vocabulary


def test_stems_are_of_the_language():
    assert Corpus.from_texts(GERMAN, stem=True).vocabulary.tolist() == ["dach", "haus", "hund", "katz", "lieg", "wolf"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("我喜欢吃苹果和梨。今天天气很好。", "Chinese or Japanese"),
        ("私はりんごと梨を食べるのが好きです。", "Chinese or Japanese"),
        ("ฉันชอบกินแอปเปิ้ลและลูกแพร์ วันนี้อากาศดีมากเลยนะครับ", "Thai"),
    ],
)
def test_texts_without_spaces_are_refused_with_the_remedy(text, name):
    with pytest.raises(DataError, match=rf"{name}.*put spaces between the words"):
        Corpus.from_texts([text, text])


def test_texts_with_spaces_put_in_are_taken():
    words = {"我", "喜欢", "苹果", "和", "梨", "コミュニケーション", "好き"}
    assert set(Corpus.from_texts(["我 喜欢 苹果 和 梨", "コミュニケーション が 好き"]).vocabulary) == words
    assert set(Corpus.from_texts(["ฉัน ชอบ กิน แอปเปิ้ล"]).vocabulary) == {"ฉัน", "ชอบ", "กิน", "แอปเปิ้ล"}


def test_words_of_scripts_with_marks_stay_whole():
    assert tokenize("यह हिन्दी में है।") == ["यह", "हिन्दी", "में", "है"]
    assert tokenize("cafe\u0301 naïve") == ["cafe\u0301", "naïve"]


def test_emoji_are_words_on_request():
    text = "I ❤️ it 👍🏽 👍 👩\u200d👩\u200d👧 🇩🇪🇫🇷 ok"
    assert tokenize(text) == ["it", "ok"]
    assert tokenize(text, emoji=True) == ["❤", "it", "👍🏽", "👍", "👩\u200d👩\u200d👧", "🇩🇪", "🇫🇷", "ok"]
    assert "👍" in Corpus.from_texts([text], emoji=True).vocabulary


def test_stemming_is_snowball():
    pytest.importorskip("snowballstemmer")
    assert Corpus.from_texts(["running runs", "easily"], stem=True).vocabulary.tolist() == ["easili", "run"]
    with pytest.raises(ValueError, match="language of snowballstemmer"):
        Corpus.from_texts(["x y"], stem="klingon")


def test_sentences_add_up_to_documents():
    corpus = Corpus.from_texts(TEXTS, sentences=True)
    assert corpus.sentences == ["The cat sat.", "The cat ran!", "A dog ran; the dog barked."]
    back = np.zeros(corpus.counts.shape, dtype=int)
    np.add.at(back, corpus.sentence_document, corpus.sentence_counts.toarray())
    np.testing.assert_array_equal(back, corpus.counts.toarray())
    assert split_sentences("") == []


def test_fixed_vocabulary_keeps_its_order():
    with pytest.raises(DataError, match="only 1 different"):
        Corpus.from_texts(["zebra"], vocabulary=["zebra", "zebra"])
    corpus = Corpus.from_texts(["b a b zebra"], stop_words=None, vocabulary=["bb", "zebra", "aa"])
    assert corpus.vocabulary.tolist() == ["bb", "zebra", "aa"]
    assert corpus.counts.toarray().tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".parquet", "folder"])
def test_every_kind_of_file_reads_alike(tmp_path, suffix):
    want = Corpus.from_texts(TEXTS[:2], authors=[["Ann", "Bob"], ["Cy"]], ids=["x", "y"])
    table = pd.DataFrame({"id": ["x", "y"], "text": TEXTS[:2], "authors": ["Ann; Bob", "Cy"]})
    path = tmp_path / f"docs{suffix}"
    if suffix.startswith(".jsonl"):
        lines = "\n".join(json.dumps({"id": i, "text": t, "authors": a.split("; ")}) for i, t, a in table.itertuples(index=False))
        path.write_bytes(gzip.compress(lines.encode()) if suffix.endswith("gz") else lines.encode())
    elif suffix == ".parquet":
        pytest.importorskip("pyarrow")
        table.to_parquet(path)
    elif suffix == "folder":
        path.mkdir()
        for i, t, _ in table.itertuples(index=False):
            (path / f"{i}.txt").write_text(t)
    else:
        table.to_csv(path, index=False, sep="\t" if "tsv" in suffix else ",")
    corpus = Corpus.read(path)
    assert (corpus.vocabulary == want.vocabulary).all()
    np.testing.assert_array_equal(corpus.counts.toarray(), want.counts.toarray())
    if suffix != "folder":
        assert corpus.documents.tolist() == ["x", "y"]
        assert corpus.authors == [("Ann", "Bob"), ("Cy",)]
    else:
        assert corpus.documents.tolist() == ["x.txt", "y.txt"]


def test_texts_are_read_one_at_a_time():
    alive = 0

    def texts():
        nonlocal alive
        for i in range(50):
            alive = i
            yield f"word{i % 7} common"

    assert Corpus.from_texts(texts()).counts.shape == (50, 8)
    assert alive == 49


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Corpus.from_texts([]), "at least one text"),
        (lambda: Corpus.from_texts("one string"), "put it into a list"),
        (lambda: Corpus.from_texts(["a b", None]), "text 1 is a NoneType"),
        (lambda: Corpus.from_texts(["the and"]), "no word is left"),
        (lambda: Corpus.from_texts(TEXTS, min_df=9), "lower min_df"),
        (lambda: Corpus.from_texts(TEXTS, min_df=1.5), "min_df must be"),
        (lambda: Corpus.from_texts(TEXTS, authors=["x"]), "more texts than authors"),
        (lambda: Corpus.from_texts(TEXTS[:1], ids=["x", "y"]), "more authors or ids"),
        (lambda: Corpus.from_texts(TEXTS, stop_words="klingon"), "stop_words must be"),
        (lambda: Corpus(np.ones((2, 3)), ["a"]), "3 columns"),
    ],
)
def test_bad_texts_have_clear_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_bad_files_have_clear_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is nothing"):
        Corpus.read(tmp_path / "no.jsonl")
    (tmp_path / "a.docx").write_text("x")
    with pytest.raises(DataError, match="convert it"):
        Corpus.read(tmp_path / "a.docx")
    (tmp_path / "a.jsonl").write_text('{"text": "a b"}\n{broken')
    with pytest.raises(DataError, match="line 2"):
        Corpus.read(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_text('{"body": "a b"}\n')
    with pytest.raises(DataError, match="name it with text="):
        Corpus.read(tmp_path / "b.jsonl")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no"):
        Corpus.read(tmp_path / "empty")


def test_counts_of_every_kind_are_alike():
    dense = np.array([[1, 0, 2], [0, 3, 0]])
    names = ["a", "b", "c"]
    frame = pd.DataFrame(dense, columns=names)
    kinds = [
        dense,
        dense.tolist(),
        dense.astype(float),
        sp.csr_matrix(dense),
        sp.coo_array(dense),
        sp.csc_array(dense),
        frame,
        Corpus(dense, names),
    ]
    polars = pytest.importorskip("polars")
    kinds.append(polars.DataFrame(frame.to_dict("list")))
    for X in kinds:
        np.testing.assert_array_equal(bag_of_words(X).toarray(), dense)
    assert names_of(frame).tolist() == names_of(kinds[-1]).tolist() == names_of(Corpus(dense, names)).tolist() == names
    assert names_of(dense) is None


def test_anndata_is_a_count_table():
    anndata = pytest.importorskip("anndata")
    X = np.array([[1, 0, 2], [0, 3, 0]])
    data = anndata.AnnData(sp.csr_matrix(X.astype(np.float32)), var=pd.DataFrame(index=["a", "b", "c"]))
    np.testing.assert_array_equal(bag_of_words(data).toarray(), X)
    assert names_of(data).tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1, -1]], "Negative values"),
        ([[0.5, 1]], "fractions such as 0.5"),
        ([[np.nan, 1]], "NaN"),
        ([[np.inf, 1]], "infinity"),
        ([1, 2], "Reshape your data"),
        ([["a", "b"]], "Corpus.from_texts"),
        (np.array([[1j, 2]]), "Complex data"),
    ],
)
def test_bad_counts_have_clear_errors(X, message):
    with pytest.raises(DataError, match=message):
        bag_of_words(X)


def test_columns_are_aligned_by_name_with_a_warning():
    X = bag_of_words([[1, 2, 3]])
    known = np.array(["c", "a"], dtype=object)
    with pytest.warns(DataWarning, match=r"1 words are not in the fitted vocabulary.*33.3%.*\(b\)"):
        out = align(X, np.array(["a", "b", "c"], dtype=object), known, 2)
    assert out.toarray().tolist() == [[3, 1]]
    with pytest.raises(DataError, match="3 features, but LDA is expecting 2"):
        align(X, None, known, 2)


def test_a_record_without_its_text_is_told_by_its_number(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "a cat"}\n{"text": null}\n{"title": "a dog"}\n')
    with pytest.raises(DataError, match=r"record 3 .* no field 'text', which those before it have; .*null or empty"):
        Corpus.read(tmp_path / "t.jsonl")
    (tmp_path / "t.jsonl").write_text('{"text": "a cat"}\n{"text": null}\n')
    assert len(Corpus.read(tmp_path / "t.jsonl").documents) == 2


def test_a_missing_text_is_told_also_where_it_comes_first():
    with pytest.raises(DataError, match="text 0 is a NoneType, expected a string; turn missing texts into ''"):
        LDA(n_topics=2).fit([None, "a cat and a dog"])
