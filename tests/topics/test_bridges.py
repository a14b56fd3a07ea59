"""Topics of other programs: the same numbers, and all that can be asked of a fit."""

import gzip
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln

import tallies
from tallies import LDA
from tallies.errors import DataError, FileError

WORDS = ["plum", "pear", "iron", "zinc"]
HEAD = ["#doc source pos typeindex type topic", "#alpha : 0.3 0.1 ", "#beta : 0.05"]


def tokens(n=30, seed=0):
    """(document, word, topic) of made tokens, in no order within a document."""
    rng = np.random.default_rng(seed)
    return [(d, int(w), int(w >= 2)) for d in range(n) for w in rng.choice(4, 8, p=[0.4, 0.1, 0.3, 0.2])]


def state(made, head=HEAD):
    return "\n".join([*head, *(f"{d} my text.txt {i} {w} {WORDS[w]} {z}" for i, (d, w, z) in enumerate(made))]) + "\n"


@pytest.mark.parametrize("packed", [False, True])
def test_a_state_of_mallet_is_a_fit_of_its_tokens(tmp_path, packed):
    made, path = tokens(), tmp_path / "state.gz"
    path.write_bytes(gzip.compress(state(made).encode()) if packed else state(made).encode())
    model = LDA.from_mallet(path)
    assert model.vocabulary_.tolist() == sorted(WORDS)
    n = np.zeros((2, 4))
    for _, w, z in made:
        n[z, sorted(WORDS).index(WORDS[w])] += 1
    np.testing.assert_allclose(model.topics_, (n + 0.05) / (n.sum(axis=1, keepdims=True) + 4 * 0.05), rtol=1e-6)
    of_documents, alpha = np.zeros((30, 2)), np.array([0.3, 0.1])
    for d, _, z in made:
        of_documents[d, z] += 1
    np.testing.assert_allclose(model.document_topics_, (of_documents + alpha) / 8.4, rtol=1e-12)
    words, topics = model.assignments_.of(3)
    assert sorted(zip(words, topics, strict=True)) == sorted((sorted(WORDS).index(WORDS[w]), z) for d, w, z in made if d == 3)
    assert (np.diff(words) >= 0).all()
    # log p(w, z) with every factor written out
    joint = np.sum(gammaln(0.2) - gammaln(n.sum(axis=1) + 0.2)) + np.sum(gammaln(n + 0.05) - gammaln(0.05))
    joint += np.sum(gammaln(0.4) - gammaln(8.4)) * 30 + np.sum(gammaln(of_documents + alpha) - gammaln(alpha))
    assert model.history_[-1] == pytest.approx(joint, rel=1e-12)


def test_such_a_fit_can_be_asked_saved_reported_and_gone_on_from(tmp_path):
    path = tmp_path / "state"
    path.write_text(state(tokens()))
    model = LDA.from_mallet(path)
    assert model.transform([[0, 0, 0, 9]]).argmax() == 1 - model.transform([[0, 9, 0, 0]]).argmax()  # zinc, pear
    assert np.isfinite(model.score(np.array([[0, 2, 3, 0], [4, 0, 0, 1]])))
    assert model.sample(5, random_state=0).sum() == 40
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(tallies.load(tmp_path / "m").topics_, model.topics_)
    page = model.report(tmp_path / "page.html").read_text()
    assert "plum" in page
    assert "30 documents, 4 words, 240 tokens" in model.summary()
    before = int(model.chains_[0].lengths.sum())
    model.partial_fit(sp.csr_array(np.full((3, 4), 2)))
    assert int(model.chains_[0].lengths.sum()) == before + 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n", "first line"),
        (state(tokens(), HEAD[:1]), "#alpha and #beta"),
        (state([]), "no tokens"),
        (state([(0, 1, 5)]), "topic 5"),
        (state(tokens()) + "0 x 1\n", "line 244"),
        (state(tokens(), [HEAD[0], "#alpha : many", HEAD[2]]), "damaged"),
    ],
)
def test_a_file_that_is_no_state_is_refused(tmp_path, text, told):
    (tmp_path / "state").write_text(text)
    with pytest.raises(FileError, match=told):
        LDA.from_mallet(tmp_path / "state")


def test_a_word_keeps_a_blank_that_does_not_break(tmp_path):
    (tmp_path / "state").write_text("\n".join([*HEAD, "0 NA 0 0 10\xa0km 0", "0 NA 1 1 plum 1"]) + "\n", encoding="utf-8")
    assert LDA.from_mallet(tmp_path / "state").vocabulary_.tolist() == ["10\xa0km", "plum"]


def test_a_cut_state_is_refused(tmp_path):
    (tmp_path / "state.gz").write_bytes(gzip.compress(state(tokens()).encode())[:-20])
    with pytest.raises(FileError, match="damaged"):
        LDA.from_mallet(tmp_path / "state.gz")


def test_a_state_with_a_changed_byte_is_refused(tmp_path):
    packed = bytearray(gzip.compress(state(tokens()).encode()))
    packed[10] = 0xFF  # of the kinds of blocks there is no such one
    (tmp_path / "state.gz").write_bytes(packed)
    with pytest.raises(FileError, match="damaged"):
        LDA.from_mallet(tmp_path / "state.gz")


@pytest.mark.parametrize(
    ("read", "wanted"), [(LDA.from_tomotopy, "tomotopy.LDAModel"), (LDA.from_gensim, "gensim.models.LdaModel")]
)
def test_what_is_no_model_is_refused(read, wanted):
    with pytest.raises(DataError, match=f"expected a {wanted}.*, got dict"):
        read({})


def test_topics_of_gensim_keep_their_probabilities():
    weights = np.array([[5.02, 0.02, 9.4, 0.02], [0.02, 7.7, 0.02, 3.02]])
    theirs = SimpleNamespace(
        get_topics=lambda: weights / weights.sum(axis=1, keepdims=True),
        state=SimpleNamespace(get_lambda=lambda: weights),
        alpha=np.array([0.5, 0.2], dtype=np.float32),
        eta=np.full(4, 0.02),
        id2word=dict(enumerate(WORDS)),
        passes=3,
    )
    model = LDA.from_gensim(theirs)
    np.testing.assert_allclose(model.topics_, theirs.get_topics(), rtol=1e-6)
    assert model.top_words(2) == [["iron", "plum"], ["pear", "zinc"]]
    np.testing.assert_allclose(model.alpha_, [0.5, 0.2], rtol=1e-6)
    assert model.transform([[0, 6, 0, 2]]).argmax() == 1
    with pytest.raises(AttributeError, match="documents"):
        model.document_topics_  # noqa: B018
    with pytest.raises(DataError, match="length=100"):
        model.sample(2)
    assert model.sample(2, length=7, random_state=0).sum() == 14
    assert "25 tokens" in model.summary()
    model.partial_fit([[0, 1, 0, 0]])  # beside what is left of the tokens that the topics have
    assert model.chains_[0].n_k.sum() > 2


def test_a_model_of_gensim_itself(tmp_path):
    gensim = pytest.importorskip("gensim")
    texts = [[WORDS[w] for d, w, _ in tokens() if d == k] for k in range(30)]
    names = gensim.corpora.Dictionary(texts)
    theirs = gensim.models.LdaModel([names.doc2bow(text) for text in texts], num_topics=2, id2word=names, random_state=0)
    model = LDA.from_gensim(theirs)
    np.testing.assert_allclose(model.topics_, theirs.get_topics(), rtol=1e-5)
    assert model.vocabulary_.tolist() == [names[v] for v in range(4)]
    assert "plum" in model.report(tmp_path / "page.html", [" ".join(text) for text in texts]).read_text()


def test_a_model_of_tomotopy_itself(tmp_path):
    tomotopy = pytest.importorskip("tomotopy")
    theirs = tomotopy.LDAModel(k=2, alpha=0.3, eta=0.05, seed=1, min_cf=0, rm_top=0)
    for k in range(30):
        theirs.add_doc([WORDS[w] for d, w, _ in tokens() if d == k])
    theirs.train(30, workers=1)
    theirs.save(str(tmp_path / "m.bin"), full=True)
    for given in (theirs, tmp_path / "m.bin"):
        model = LDA.from_tomotopy(given)
        assert model.vocabulary_.tolist() == list(theirs.used_vocabs)
        np.testing.assert_allclose(model.topics_, [theirs.get_topic_word_dist(k) for k in range(2)], rtol=1e-5)
        np.testing.assert_allclose(model.document_topics_, [doc.get_topic_dist() for doc in theirs.docs], rtol=1e-5)
        assert model.history_[-1] == pytest.approx(theirs.ll_per_word * 240, rel=1e-4)


def of_tomotopy(kind="LDAModel", steps=5, **settings):
    tomotopy = pytest.importorskip("tomotopy")
    theirs = getattr(tomotopy, kind)(seed=1, **settings)
    for k in range(30):
        theirs.add_doc([WORDS[w] for d, w, _ in tokens() if d == k])
    if steps:
        theirs.train(steps, workers=1)
    return theirs


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ({"tw": 1}, "weights them"),
        ({"kind": "HDPModel"}, "convert_to_lda"),
        ({"kind": "DMRModel"}, "got DMRModel"),
        ({"steps": 0}, "train it"),
    ],
)
def test_what_tomotopy_means_otherwise_is_refused(made, told):
    with pytest.raises(DataError, match=told):
        LDA.from_tomotopy(of_tomotopy(**made))


def test_a_file_that_would_end_the_process_is_refused(tmp_path):
    of_tomotopy("HDPModel").save(str(tmp_path / "other.bin"))
    (tmp_path / "empty.bin").touch()
    for name in ("other.bin", "empty.bin"):
        with pytest.raises(FileError, match="damaged"):
            LDA.from_tomotopy(tmp_path / name)


def test_a_hierarchical_model_of_tomotopy_comes_by_its_own_conversion():
    theirs = of_tomotopy("HDPModel", 30).convert_to_lda()[0]
    np.testing.assert_allclose(LDA.from_tomotopy(theirs).topics_[0], theirs.get_topic_word_dist(0), rtol=1e-5)
