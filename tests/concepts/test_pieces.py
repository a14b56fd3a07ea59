"""The pieces of AuthorConcept that the note names, P(w|G), P(S|G), P(G|A), P(G|D), by hand; presets, scores and samples."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

import tallies
from tallies import AuthorConcept, Corpus, Mention, Multinomial, Ontology
from tallies.concepts.answers import place
from tallies.concepts.settings import BAGS, SEED, SEED_BAGS, Settings, settings_of
from tallies.data.ontology import lineage

CONCEPTS = Ontology(["x", "y"], ["cell death", "gene"], synonyms=[["apoptosis"], []])
TEXT = [("d1", "Cell death."), ("d1", "Cell death again."), ("d1", "A gene."), ("d2", "The gene."), ("d3", "Gene death.")]
PAPERS = Corpus.from_pairs(TEXT, [("d1", "Ann"), ("d2", "Bob"), ("d3", "Ann"), ("d3", "Bob")], stop_words="function")


def test_words_given_a_concept_and_sentences_given_a_concept():
    model = AuthorConcept(words=Multinomial(smoothing=0.5, background=False, single=False)).fit(PAPERS, CONCEPTS)
    assert model.vocabulary_.tolist() == ["again", "cell", "death", "gene"]
    law = np.array([[0.5, 1.5, 1.5, 0.5], [0.5, 0.5, 0.5, 1.5]])
    law /= law.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.concept_words_.toarray(), law, rtol=1e-12)
    found = model.log_prob_given(["cell gene gene", "strange", "again"])
    np.testing.assert_allclose(found[0], np.log(law[:, 1]) + 2 * np.log(law[:, 3]), rtol=1e-12)
    np.testing.assert_allclose(found[1], 0.0, atol=1e-15)
    np.testing.assert_allclose(found[2], np.log(law[:, 0]), rtol=1e-12)


def test_words_of_mentions_and_their_log_odds():
    model = AuthorConcept(words=Mention(context=0.0), ontology_smoothing=0.0).fit(PAPERS, CONCEPTS)
    words = dict(zip(model.vocabulary_, model.concept_words_.toarray().T.tolist(), strict=True))
    name = 1.0 / (1.0 + np.exp(-2.5))  # how often x is said by its name, not by its synonym
    expected = {"cell": [name / 2, 0], "death": [name / 2, 0], "gene": [0, 1], "apoptosis": [1 - name, 0]}
    assert words == {word: pytest.approx(p, rel=1e-6) for word, p in expected.items()}
    texts = ["Death of a cell.", "The gene."]
    found = model.log_prob_given(texts)
    assert found[1, 0] == -np.inf  # no word of x
    for s, c in ((0, "x"), (1, "y")):
        odds = model.explain(texts[s], c).set_index("what").log_odds.drop("prior").sum()
        assert found[s, place(model.fitted_.concepts, c)] == pytest.approx(odds, rel=1e-5)


def test_concepts_of_authors_and_documents():
    model = AuthorConcept(preset="seed", gamma=0.5).fit(PAPERS, CONCEPTS)
    assert model.assignments_.tolist() == ["x", "x", "y", "y", "y"]
    # hard, whole credit: Ann has x twice, y twice (d3 is hers too); Bob has y twice; half a pseudocount each
    psi = np.array([[2.5, 2.5], [0.5, 2.5]])
    psi /= psi.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.author_concepts_, psi, rtol=1e-12)
    np.testing.assert_allclose(model.document_concepts_, [psi[0], psi[1], psi.mean(axis=0)], rtol=1e-12)
    assert model.author_profile("Bob").probability.tolist() == pytest.approx(sorted(psi[1], reverse=True))


def test_with_a_common_prior_rows_are_backed_off_and_the_null_has_the_rest():
    model = AuthorConcept(author_backoff=2.0).fit(PAPERS, CONCEPTS)
    psi, weight = model.fitted_.psi, np.array([3.5, 1.5]) / (np.array([3.5, 1.5]) + 2.0)  # sentences, shared ones by halves
    own = psi.own.toarray() + psi.constant[:, None] * psi.base
    whole = weight[:, None] * own + (1 - weight[:, None]) * psi.base
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.author_concepts_, whole[:, :2], rtol=1e-12)
    np.testing.assert_allclose(model.document_concepts_[2], whole[:, :2].mean(axis=0), rtol=1e-12)


def test_large_tables_are_refused_with_a_remedy(monkeypatch):
    model = AuthorConcept(words="multinomial").fit(PAPERS, CONCEPTS)
    monkeypatch.setattr("tallies.concepts.answers.TABLE", 3)
    for name in ("concept_words_", "author_concepts_", "document_concepts_"):
        with pytest.raises(ValueError, match=r"too large.*_profile"):
            getattr(model, name)


def test_presets_fill_what_is_not_given():
    assert settings_of(AuthorConcept()) == Settings()
    assert settings_of(AuthorConcept(preset="seed")) == SEED
    assert settings_of(AuthorConcept(preset="seed", words="multinomial")) == SEED
    given = settings_of(AuthorConcept(preset="seed", credit="split", keep=5, author_backoff=10.0, words=Multinomial(anchor=2.0)))
    assert given == SEED._replace(credit="split", keep=5, author_backoff=10.0, words=SEED_BAGS._replace(anchor=2.0))
    assert settings_of(AuthorConcept(author_backoff=None)).author_backoff is None
    assert settings_of(AuthorConcept(words="multinomial")).words == BAGS
    assert settings_of(AuthorConcept(words=Multinomial(anchor=2.0))).words == BAGS._replace(anchor=2.0)


def test_scores_and_cross_validation():
    words = ["cell death", "gene", "gene of a cell", "apoptosis", "strange"]
    texts = [f"{words[i % 5]} seen {words[(i * 7) % 5]}" for i in range(40)]
    model = AuthorConcept().fit(texts, CONCEPTS)
    assert model.score(texts[:7]) == pytest.approx(model.log_prob(texts[:7]).mean(), rel=1e-12)
    assert model.score(texts, authors=["Ann"]) == pytest.approx(tallies.evaluate(model, texts).value)
    found = cross_val_score(AuthorConcept(), texts, cv=4, params={"concepts": CONCEPTS})
    assert np.isfinite(found).all()
    corpus = Corpus.from_texts([f"{a}. {b}." for a, b in pairwise(texts)], sentences=True)
    search = GridSearchCV(AuthorConcept(words="multinomial"), {"words": [Multinomial(smoothing=s) for s in (0.1, 1.0)]}, cv=3)
    search.fit(corpus, concepts=CONCEPTS)
    half = AuthorConcept(words=search.best_params_["words"]).fit(corpus[13:], CONCEPTS)
    assert search.cv_results_["split0_test_score"].max() == pytest.approx(half.score(corpus[:13]), rel=1e-9)


def test_samples_repeat_with_a_seed_of_any_kind():
    model = AuthorConcept().fit(PAPERS, CONCEPTS)
    one, ids = model.sample(20, length=4, random_state=3)
    two, same = model.sample(20, length=4, random_state=3)
    assert one.sentences == two.sentences
    assert ids.tolist() == same.tolist()
    assert all("cell death" in t or "apoptosis" in t for t, c in zip(one.sentences, ids, strict=True) if c == "x")
    assert len(model.sample(2, random_state=np.random.default_rng(0))[1]) == 2
    with pytest.raises(TypeError):
        model.sample(2, ["Ann"])


def test_answers_are_the_same_on_a_cluster(cluster):
    texts = [t for _, t in TEXT] * 300
    for words in ("mention", Multinomial(anchor=2.0)):
        model = AuthorConcept(words=words).fit(PAPERS, CONCEPTS)
        with tallies.backend(cluster):
            there = model.annotate(texts, authors=["Ann"]), model.log_prob(texts), model.log_prob_given(texts), model.score(texts)
        assert there[0].equals(model.annotate(texts, authors=["Ann"]))
        np.testing.assert_array_equal(there[1], model.log_prob(texts))
        np.testing.assert_array_equal(there[2], model.log_prob_given(texts))
        assert there[3] == model.score(texts)


def test_what_lies_above():
    concepts = Ontology(["a", "b", "c", "d"], ["gene"] * 4, parents=[[], ["a"], ["b", "a"], ["c"]])
    model = AuthorConcept(words="multinomial").fit(["A gene. Two genes."], concepts)
    assert model.n_sentences_ == 1  # a list is of sentences, whatever is in them
    assert lineage(model.fitted_.concepts.up).toarray().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert model.concept_parents_ == [[], [0], [1, 0], [2]]
